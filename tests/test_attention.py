"""attention, attention_weights and blockwise_attention against slow loops and PyTorch's own."""

import numpy as np
import oracle
import pytest
import torch
from backends import (
    D_K,
    KEY_MASK,
    T_K,
    T_Q,
    B,
    H,
    back,
    both,
    call,
    close,
    qkv,
    random_mask,
    to,
    widths,
)
from torch.nn.functional import scaled_dot_product_attention

import attnlib

OPTIONS = {
    "plain": {},
    "mask": {"mask": random_mask(1, T_Q, T_K)},
    "mask-full": {"mask": random_mask(2, B, H, T_Q, T_K)},
    "mask-batch": {"mask": random_mask(3, B, 1, 1, T_K)},
    "mask-head": {"mask": random_mask(4, 1, H, T_Q, 1)},
    "key-mask": {"key_mask": KEY_MASK},
    "key-mask-dead": {"key_mask": np.array([[True] * 5, [False] * 5])},
    "causal": {"causal": True},
    "all": {"mask": random_mask(6, B, H, T_Q, T_K), "key_mask": KEY_MASK, "causal": True, "scale": 0.7},
    "nothing": {"mask": np.zeros((T_Q, T_K), dtype=bool)},
    "scale": {"scale": 2},
    "scale-0": {"scale": 0.0},
    "scale-0-causal": {"scale": 0.0, "causal": True},
    "scale-negative-causal": {"scale": -1.5, "causal": True},
}
options = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
blockwise_options = pytest.mark.parametrize(
    "options",
    [value for value in OPTIONS.values() if "mask" not in value],
    ids=[name for name, value in OPTIONS.items() if "mask" not in value],
)


@both
@options
def test_weights_equal_the_loops(kind, options):
    q, k, _ = qkv()
    close(call(kind, attnlib.attention_weights, q, k, **options), oracle.weights(q, k, **options))


@both
@options
@widths
def test_attention_equals_the_loops(kind, options, d_v):
    q, k, v = qkv(d_v=d_v)
    close(call(kind, attnlib.attention, q, k, v, **options), oracle.attention(q, k, v, **options))


@both
@blockwise_options
@pytest.mark.parametrize("block_size", [1, 2, 3, 5, 8])
def test_blockwise_equals_the_loops(kind, options, block_size):
    q, k, v = qkv()
    got = call(kind, attnlib.blockwise_attention, q, k, v, block_size=block_size, **options)
    close(got, oracle.attention(q, k, v, **options))


@both
@pytest.mark.parametrize("scale", [0.0, -1.5, 0.7])
@widths
def test_any_scale_goes_with_causal_over_equal_lengths(kind, scale, d_v):
    """A kernel that masks before it scales makes 0 * -inf = NaN of the future, or -1.5 * -inf = inf."""
    q, k, v = qkv(1, t_q=5, t_k=5, d_v=d_v)
    want = oracle.attention(q, k, v, causal=True, scale=scale)
    close(call(kind, attnlib.attention, q, k, v, causal=True, scale=scale), want)
    close(call(kind, attnlib.blockwise_attention, q, k, v, causal=True, scale=scale), want)


@both
@pytest.mark.parametrize("block_size", [1, 2, 4])
def test_scores_whose_difference_is_no_number_are_the_weights_0_and_1(kind, block_size):
    """1e308 - (-1e308) is infinite in float64; both orders of the keys, and no warning (`call` makes it an error)."""
    q, k, v = np.ones((2, 1)), np.array([[-1e308], [1e308], [-1e308]]), np.arange(12.0).reshape(3, 4)
    for name, options in (("attention", {}), ("blockwise_attention", {"block_size": block_size})):
        close(call(kind, getattr(attnlib, name), q, k, v, scale=1.0, **options), v[[1, 1]])


@widths
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("scale", [1e-50, -1e-50])
def test_a_scale_that_float32_rounds_to_0_is_0(scale, dtype, d_v):
    q, k, v = (x.to(dtype) for x in to("torch", qkv(1, t_q=5, t_k=5, d_v=d_v)))
    want = attnlib.attention(q, k, v, causal=True, scale=0.0)
    np.testing.assert_array_equal(back(attnlib.attention(q, k, v, causal=True, scale=scale)), back(want))


@both
@pytest.mark.parametrize("block_size", [1, 2, 4, 100])
@pytest.mark.parametrize(("t_q", "t_k"), [(5, 4), (7, 2), (1, 6), (6, 1), (5, 5)])
@widths
def test_causal_of_any_two_lengths(kind, t_q, t_k, block_size, d_v):
    q, k, v = qkv(1, t_q=t_q, t_k=t_k, d_v=d_v)
    want = oracle.attention(q, k, v, causal=True)
    assert (want[..., : max(0, t_q - t_k), :] == 0).all()
    close(call(kind, attnlib.attention, q, k, v, causal=True), want)
    close(call(kind, attnlib.blockwise_attention, q, k, v, causal=True, block_size=block_size), want)


@both
def test_the_default_block_is_left_and_entered_again(kind):
    q, k, v = qkv(2, (1,), t_q=1300, t_k=1100)
    want = call(kind, attnlib.attention, q, k, v, causal=True)
    close(call(kind, attnlib.blockwise_attention, q, k, v, causal=True), want)


@both
@pytest.mark.parametrize("leading", [(), (2,), (2, 3), (2, 3, 1, 2)])
@widths
def test_any_leading_axes(kind, leading, d_v):
    q, k, v = qkv(3, leading, d_v=d_v)
    key_mask = KEY_MASK if leading else KEY_MASK[0]
    for causal in (False, True):
        want = oracle.attention(q, k, v, key_mask=key_mask, causal=causal)
        close(call(kind, attnlib.attention, q, k, v, key_mask=key_mask, causal=causal), want)
        got = call(kind, attnlib.blockwise_attention, q, k, v, key_mask=key_mask, causal=causal, block_size=2)
        close(got, want)
        weights = call(kind, attnlib.attention_weights, q, k, key_mask=key_mask, causal=causal)
        close(weights @ v, want)


@both
@pytest.mark.parametrize("shape", [(T_Q, T_K), (T_Q, 1), (1, T_K), (1, 1)])
def test_a_mask_of_full_rank_may_have_axes_of_one(kind, shape):
    q, k, v = qkv(3, ())
    mask = np.random.default_rng(5).random(shape) < 0.6
    close(call(kind, attnlib.attention, q, k, v, mask), oracle.attention(q, k, v, mask))


@options
def test_equals_torch(options):
    """Where every row sees something, PyTorch's function is the oracle; where not, the answer is 0."""
    q, k, v = to("torch", qkv())
    masks = {name: value for name, value in options.items() if name != "scale"}
    seen = torch.tensor(oracle.visible(T_Q, T_K, (B, H), **masks))
    want = scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=options.get("scale"))
    want = torch.where(seen.any(-1, keepdim=True), want, 0)
    for kind in ("numpy", "torch"):
        close(call(kind, attnlib.attention, *map(back, (q, k, v)), **options), want)


@both
def test_dead_rows_are_exactly_zero(kind):
    q, k, v = qkv()
    mask = random_mask(7, B, H, T_Q, T_K)
    dead = ~mask.any(-1)
    assert dead.any()
    assert not dead.all()
    assert (call(kind, attnlib.attention, q, k, v, mask)[dead] == 0).all()
    assert (call(kind, attnlib.attention_weights, q, k, mask)[dead] == 0).all()


NOT_2 = np.array([[True, True, False, True, True]])
NOT_2_IN_HEAD_1 = np.ones((B, H, T_Q, T_K), dtype=bool)
NOT_2_IN_HEAD_1[:, 1, :, 2] = False
HIDDEN = {
    "by mask": {"mask": NOT_2.repeat(T_Q, 0)},
    "by key_mask": {"key_mask": NOT_2.repeat(B, 0)},
    # Only query 0 may see key 2, and for query 0 it lies in the future.
    "by mask and causal together": {"mask": NOT_2 | (np.arange(T_Q) == 0)[:, None], "causal": True},
    "in one head": {"mask": NOT_2_IN_HEAD_1},
}


def hidden_keys(options):
    """Keys that no query may see, bool (B, H, T_K): key 2, somewhere."""
    seen = oracle.visible(T_Q, T_K, (B, H), **options)
    assert not seen.any(-2)[..., 2].all()
    return ~seen.any(-2)


@both
@pytest.mark.parametrize("junk", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("options", HIDDEN.values(), ids=HIDDEN)
@widths
def test_a_key_that_nobody_sees_may_hold_anything(kind, options, junk, d_v):
    q, k, v = qkv(4, d_v=d_v)
    want = oracle.attention(q, k, v, **options)
    weights = oracle.weights(q, k, **options)
    k[hidden_keys(options)] = v[hidden_keys(options)] = junk
    close(call(kind, attnlib.attention, q, k, v, **options), want)
    close(call(kind, attnlib.attention_weights, q, k, **options), weights)
    if "mask" not in options:
        for block_size in (1, 2, 9):
            got = call(kind, attnlib.blockwise_attention, q, k, v, block_size=block_size, **options)
            close(got, want)


@both
@pytest.mark.parametrize("spoiled", [0, 1, 2])
@widths
def test_a_nan_that_is_seen_shows(kind, spoiled, d_v):
    arrays = qkv(5, d_v=d_v)
    arrays[spoiled][1, 2, 3] = np.nan
    names = {"attention", "blockwise_attention"}
    if (kind, spoiled, d_v) == ("torch", 0, D_K):
        names.remove("attention")  # PyTorch's fused CPU kernel answers 0 to a query of NaN
    for name in names:
        got = call(kind, getattr(attnlib, name), *arrays)
        rows = np.isnan(got).any(-1)
        assert rows[1, 2, 3]  # query 3 is itself spoiled, or sees key 3
        assert not rows[0].any()
        assert not rows[1, :2].any()
        assert rows[1, 2].sum() == (1 if spoiled == 0 else T_Q)


@both
@widths
def test_no_keys_give_zeros(kind, d_v):
    q, k, v = qkv(6, t_k=0, d_v=d_v)
    for name in ("attention", "blockwise_attention"):
        for causal in (False, True):
            got = call(kind, getattr(attnlib, name), q, k, v, causal=causal)
            np.testing.assert_array_equal(got, np.zeros((B, H, T_Q, d_v)))
    assert call(kind, attnlib.attention_weights, q, k).shape == (B, H, T_Q, 0)
    masked = call(kind, attnlib.attention, q, k, v, np.ones((T_Q, 0), bool), key_mask=np.ones((B, 0), bool))
    np.testing.assert_array_equal(masked, np.zeros((B, H, T_Q, d_v)))


@both
@pytest.mark.parametrize(
    "sizes", [{"leading": (0, H)}, {"leading": (B, 0)}, {"t_q": 0}, {"t_q": 0, "d_v": D_K}, {"d_v": 0}]
)
def test_empty_batches_queries_and_values(kind, sizes):
    q, k, v = qkv(7, **sizes)
    for options in ({}, {"causal": True}, {"key_mask": np.ones((len(q), T_K), dtype=bool)}):
        assert call(kind, attnlib.attention, q, k, v, **options).shape == (*q.shape[:-1], v.shape[-1])
        assert call(kind, attnlib.blockwise_attention, q, k, v, **options).shape == (*q.shape[:-1], v.shape[-1])
        assert call(kind, attnlib.attention_weights, q, k, **options).shape == (*q.shape[:-1], T_K)


@both
def test_scale_is_that_of_the_queries_width(kind):
    """d_k = 6 and d_v = 7: 1/sqrt(6), not 1/sqrt(7), nor anything of the lengths."""
    q, k, v = qkv(8)
    close(call(kind, attnlib.attention, q, k, v), call(kind, attnlib.attention, q, k, v, scale=D_K**-0.5))
    close(call(kind, attnlib.attention_weights, q, k), call(kind, attnlib.softmax, q @ k.mT / D_K**0.5))


@both
@pytest.mark.parametrize("scale", [np.float32(0.5), np.float64(0.5), np.int64(2), 2])
def test_scale_may_be_any_number(kind, scale):
    q, k, v = qkv(9)
    want = oracle.attention(q, k, v, scale=float(scale))
    close(call(kind, attnlib.attention, q, k, v, scale=scale), want)


def test_the_three_words_of_the_course():
    """"I love cats": scores by hand, d_k = 2."""
    q = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    k = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    weights = attnlib.attention_weights(q, k)
    close(weights, [[0.4555, 0.2246, 0.3199], [0.2246, 0.4555, 0.3199], [1 / 3] * 3], 1e-4)
