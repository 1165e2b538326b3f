"""Properties of attention that hold for every input, tried on many random ones, on both backends."""

import numpy as np
from backends import call, close
from hypothesis import given, settings
from hypothesis import strategies as st

import attnlib

# The same examples in every run: a failure here is a failure everywhere.
many = settings(max_examples=40, deadline=None, derandomize=True, database=None)
kinds = st.sampled_from(["numpy", "torch"])


@st.composite
def problems(draw, cross=True):
    """(kind, q, k, v, options): any sizes (without `cross` as many keys as queries), leading axes, masks and scale."""
    kind = draw(kinds)
    leading = draw(st.sampled_from([(), (1,), (2,), (2, 3), (1, 2), (2, 1, 3)]))
    t_q = draw(st.integers(1, 6))
    t_k = draw(st.integers(0, 6)) if cross else t_q
    d_k, d_v = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = draw(st.sampled_from([0.0, 1.0, 1.0, 10.0]))
    q, k, v = (size * rng.normal(size=(*leading, *shape)) for shape in ((t_q, d_k), (t_k, d_k), (t_k, d_v)))
    options = {"causal": draw(st.booleans())}
    if draw(st.booleans()):
        shape = (t_q, t_k) if draw(st.booleans()) else tuple(
            n if draw(st.booleans()) else 1 for n in (*leading, t_q, t_k)
        )
        options["mask"] = rng.random(shape) < draw(st.sampled_from([0.3, 0.8]))
    if draw(st.booleans()):
        options["key_mask"] = rng.random((*leading[:1], t_k)) < 0.7
    if draw(st.booleans()):
        options["scale"] = draw(st.sampled_from([0.0, -1.0, 0.5, 3]))
    return kind, q, k, v, options


def without_mask(options):
    return {name: value for name, value in options.items() if name != "mask"}


@many
@given(problems())
def test_rows_sum_to_one_or_are_zero(problem):
    kind, q, k, _, options = problem
    weights = call(kind, attnlib.attention_weights, q, k, **options)
    assert (weights >= 0).all()
    total = weights.sum(-1)
    dead = (weights == 0).all(-1)
    close(total, np.where(dead, 0, 1))
    if not options.keys() & {"mask", "key_mask"}:
        assert not dead[..., -1].any() or k.shape[-2] == 0  # the last query sees every key


@many
@given(problems())
def test_attention_is_weights_times_values(problem):
    kind, q, k, v, options = problem
    weights = call(kind, attnlib.attention_weights, q, k, **options)
    close(call(kind, attnlib.attention, q, k, v, **options), weights @ v, 1e-11)


@many
@given(problems())
def test_numpy_equals_torch(problem):
    _, q, k, v, options = problem
    numpy, torch = (call(kind, attnlib.attention, q, k, v, **options) for kind in ("numpy", "torch"))
    close(torch, numpy, 1e-11)


@many
@given(problems(), st.integers(1, 8))
def test_blockwise_equals_plain_for_every_block_size(problem, block_size):
    kind, q, k, v, options = problem
    options = without_mask(options)
    got = call(kind, attnlib.blockwise_attention, q, k, v, block_size=block_size, **options)
    close(got, call(kind, attnlib.attention, q, k, v, **options), 1e-11)


@many
@given(problems())
def test_the_output_lies_between_the_smallest_and_the_largest_value(problem):
    kind, q, k, v, options = problem
    out = call(kind, attnlib.attention, q, k, v, **options)
    dead = (call(kind, attnlib.attention_weights, q, k, **options) == 0).all(-1)
    assert (out[dead] == 0).all()
    if k.shape[-2]:
        slack = 1e-9 * (1 + np.abs(v).max())
        low, high = v.min(-2, keepdims=True) - slack, v.max(-2, keepdims=True) + slack
        assert (((low <= out) & (out <= high)) | dead[..., None]).all()


@many
@given(kinds, st.integers(0, 2**32 - 1), st.sampled_from([-1e3, -1.0, 0.5, 1e3]), st.integers(1, 6))
def test_softmax_does_not_see_a_shift(kind, seed, shift, size):
    rng = np.random.default_rng(seed)
    scores, mask = rng.normal(size=(3, size)), rng.random((3, size)) < 0.7
    close(call(kind, attnlib.softmax, scores + shift, mask), call(kind, attnlib.softmax, scores, mask), 1e-11)


@many
@given(kinds, st.integers(0, 2**32 - 1), st.integers(2, 6))
def test_softmax_keeps_the_order_and_turns_differences_into_ratios(kind, seed, size):
    scores = np.random.default_rng(seed).normal(size=size)
    weights = call(kind, attnlib.softmax, scores)
    assert (np.argsort(weights) == np.argsort(scores)).all()
    close(np.log(weights[1:] / weights[0]), scores[1:] - scores[0], 1e-9)


@many
@given(problems(), st.integers(0, 2**32 - 1))
def test_permuted_queries_give_permuted_outputs(problem, seed):
    kind, q, k, v, options = problem
    order = np.random.default_rng(seed).permutation(q.shape[-2])
    options = options | {"causal": False}
    moved = dict(options)
    if "mask" in options and options["mask"].shape[-2] > 1:
        moved["mask"] = options["mask"][..., order, :]
    got = call(kind, attnlib.attention, q[..., order, :], k, v, **moved)
    close(got, call(kind, attnlib.attention, q, k, v, **options)[..., order, :], 1e-11)


@many
@given(problems(), st.integers(0, 2**32 - 1))
def test_permuted_keys_give_the_same_outputs(problem, seed):
    kind, q, k, v, options = problem
    order = np.random.default_rng(seed).permutation(k.shape[-2])
    options = options | {"causal": False}
    moved = dict(options)
    for name in options.keys() & {"mask", "key_mask"}:
        if options[name].shape[-1] == k.shape[-2]:
            moved[name] = options[name][..., order]
    got = call(kind, attnlib.attention, q, k[..., order, :], v[..., order, :], **moved)
    close(got, call(kind, attnlib.attention, q, k, v, **options), 1e-11)


@many
@given(problems(cross=False), st.data())
def test_the_future_cannot_change_the_past(problem, data):
    """Everything from position t on is replaced; outputs before t stay the same to the last bit."""
    kind, q, k, v, options = problem
    options = options | {"causal": True}
    t = data.draw(st.integers(0, q.shape[-2]))
    later = [x.copy() for x in (q, k, v)]
    for x in later:
        x[..., t:, :] = 1e3 * np.random.default_rng(t).normal(size=x[..., t:, :].shape)
    for name, given_options in (("attention", options), ("blockwise_attention", without_mask(options))):
        before = call(kind, getattr(attnlib, name), q, k, v, **given_options)
        after = call(kind, getattr(attnlib, name), *later, **given_options)
        close(after[..., :t, :], before[..., :t, :])


@many
@given(problems(), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_padding_cannot_change_the_output(problem, extra, seed):
    """More keys, all marked as padding and holding NaN: nothing moves."""
    kind, q, k, v, options = problem
    options = {name: value for name, value in options.items() if name in ("key_mask", "scale")}
    want = call(kind, attnlib.attention, q, k, v, **options)
    key_mask = options.pop("key_mask", np.ones((*q.shape[:-2][:1], k.shape[-2]), dtype=bool))
    padding = [(0, 0)] * (q.ndim - 2)
    k, v = (np.pad(x, [*padding, (0, extra), (0, 0)], constant_values=np.nan) for x in (k, v))
    options["key_mask"] = np.pad(key_mask, [(0, 0)] * (key_mask.ndim - 1) + [(0, extra)])
    close(call(kind, attnlib.attention, q, k, v, **options), want)
    block_size = np.random.default_rng(seed).integers(1, 5)
    close(call(kind, attnlib.blockwise_attention, q, k, v, block_size=int(block_size), **options), want, 1e-11)


@many
@given(problems(cross=False), st.data())
def test_decoding_with_a_cache_gives_the_rows_of_the_whole(problem, data):
    """End-aligned: the queries from t to u over the keys before u are those rows of the causal whole."""
    kind, q, k, v, options = problem
    options = {"causal": True, "scale": options.get("scale")}
    u = data.draw(st.integers(1, q.shape[-2]))
    t = data.draw(st.integers(0, u - 1))
    whole = call(kind, attnlib.attention, q, k, v, **options)
    part = call(kind, attnlib.attention, q[..., t:u, :], k[..., :u, :], v[..., :u, :], **options)
    close(part, whole[..., t:u, :], 1e-11)


@many
@given(kinds, st.integers(1, 4), st.integers(1, 5), st.integers(1, 4), st.integers(0, 3))
def test_heads_go_round(kind, num_heads, length, size, batch):
    x = np.arange(float(batch * length * num_heads * size)).reshape(batch, length, num_heads * size)
    heads = call(kind, attnlib.split_heads, x, num_heads)
    assert heads.shape == (batch, num_heads, length, size)
    np.testing.assert_array_equal(call(kind, attnlib.merge_heads, heads), x)
    grouped = call(kind, attnlib.repeat_kv, heads, 3 * num_heads)
    np.testing.assert_array_equal(grouped[:, ::3], heads)
    np.testing.assert_array_equal(grouped[:, 2::3], heads)


@many
@given(problems(cross=False), st.sampled_from([1, 2, 4]))
def test_self_attention_without_masks_does_not_see_the_order(problem, num_heads):
    """Permute the tokens: the outputs of multi_head_attention move with them, until positions are added."""
    kind, x, *_ = problem
    x = x if x.ndim > 2 else x[None]
    rng = np.random.default_rng(x.shape[-1])
    weights = [rng.normal(size=shape) for shape in [(x.shape[-1], 8)] * 3 + [(8, x.shape[-1])]]
    order = rng.permutation(x.shape[-2])
    got = call(kind, attnlib.multi_head_attention, x[..., order, :], *weights, num_heads)
    close(got, call(kind, attnlib.multi_head_attention, x, *weights, num_heads)[..., order, :], 1e-10)
