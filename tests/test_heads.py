"""split_heads, merge_heads, repeat_kv and multi_head_attention, against PyTorch's layer and by hand."""

import numpy as np
import pytest
import torch
from backends import D_K, KEY_MASK, T_K, T_Q, B, H, both, call, close, convert, every_call, qkv, random_mask

import attnlib
from attnlib import numpy_backend

D_MODEL, HEADS = 12, 3  # heads of 4 features


@both
def test_head_0_is_the_first_features_of_every_token(kind):
    x = np.arange(float(B * T_Q * D_MODEL)).reshape(B, T_Q, D_MODEL)
    heads = call(kind, attnlib.split_heads, x, HEADS)
    assert heads.shape == (B, HEADS, T_Q, 4)
    for h in range(HEADS):
        np.testing.assert_array_equal(heads[:, h], x[:, :, 4 * h : 4 * h + 4])


@both
@pytest.mark.parametrize("num_heads", [1, 2, 3, 4, 6, 12])
def test_merge_undoes_split(kind, num_heads):
    x = np.random.default_rng(0).normal(size=(B, T_Q, D_MODEL))
    heads = call(kind, attnlib.split_heads, x, num_heads)
    np.testing.assert_array_equal(call(kind, attnlib.merge_heads, heads), x)


@both
def test_merge_concatenates_the_heads(kind):
    heads = np.random.default_rng(1).normal(size=(B, H, T_Q, D_K))
    np.testing.assert_array_equal(
        call(kind, attnlib.merge_heads, heads), np.concatenate([heads[:, h] for h in range(H)], -1)
    )


@both
def test_repeat_kv_repeats_each_head_in_place(kind):
    x = np.random.default_rng(2).normal(size=(B, 2, T_K, D_K))
    got = call(kind, attnlib.repeat_kv, x, 6)
    for h in range(6):
        np.testing.assert_array_equal(got[:, h], x[:, h // 3])
    np.testing.assert_array_equal(call(kind, attnlib.repeat_kv, x, 2), x)


def by_hand(x, W_q, W_k, W_v, W_o, num_heads, *, num_kv_heads=None, memory=None, mask=None, **options):
    """One head after the other, each on its own columns; the outputs side by side, then W_o."""
    memory = x if memory is None else memory
    groups = num_kv_heads or num_heads
    out = []
    for h in range(num_heads):
        g = h // (num_heads // groups)
        q = x @ np.split(W_q, num_heads, 1)[h]
        k, v = (memory @ np.split(W, groups, 1)[g] for W in (W_k, W_v))
        own = mask if mask is None or mask.ndim == 2 else mask[:, h % mask.shape[1]]
        out.append(attnlib.attention(q, k, v, own, **options))
    return np.concatenate(out, -1) @ W_o


GROUPED_CALLS = [
    pytest.param(name, args, kwargs, id=f"{name}-{number}-{'+'.join(kwargs)}".rstrip("-"))
    for number, (name, args, kwargs) in enumerate(every_call())
    if name.startswith("grouped")
]
grouped = pytest.mark.parametrize(("name", "args", "kwargs"), GROUPED_CALLS)


def repeated(name, q, *keys, **options):
    """The definition: every key-value head copied to the query heads of its group. Heads one by one."""
    h = q.shape[-3]
    keys = [np.repeat(x, h // x.shape[-3], axis=-3) for x in keys]
    mask = options.pop("mask", None)
    out = []
    for i in range(h):
        own = mask if mask is None or mask.ndim == 2 else mask[..., i % mask.shape[-3], :, :]
        function = getattr(attnlib, name.removeprefix("grouped_"))
        out.append(function(q[..., i, :, :], *(x[..., i, :, :] for x in keys), own, **options))
    return np.stack(out, -3)


@both
@grouped
def test_grouped_attention_is_attention_of_repeated_heads(kind, name, args, kwargs):
    close(call(kind, getattr(attnlib, name), *args, **kwargs), repeated(name, *args, **kwargs))


@grouped
def test_gradients_of_grouped_attention_are_those_of_repeated_heads(name, args, kwargs):
    q, *keys = (torch.tensor(x, requires_grad=True) for x in args)
    kwargs = convert(kwargs, torch.tensor)
    got = getattr(attnlib, name)(q, *keys, **kwargs)
    options = kwargs
    if "key_mask" in kwargs and q.ndim == 3:
        options = kwargs | {"key_mask": kwargs["key_mask"].expand(len(q), -1)}
    plain = getattr(attnlib, name.removeprefix("grouped_"))
    want = plain(q, *(attnlib.repeat_kv(x, q.shape[-3]) for x in keys), **options)
    grad = torch.randn(got.shape, generator=torch.Generator().manual_seed(0), dtype=got.dtype)
    for mine, other in zip(*(torch.autograd.grad(out, (q, *keys), grad) for out in (got, want)), strict=True):
        close(mine, other)


@both
def test_grouped_attention_hides_what_no_query_of_a_group_may_see(kind):
    """NaN where a whole group is blind, though another group sees its own key at that place."""
    (q, k, v), mask = (qkv(leading=(B, 6))[0], *qkv(leading=(B, 3))[1:]), np.ones((B, 6, T_Q, T_K), dtype=bool)
    mask[:, 2:4, :, 1] = False  # heads 2 and 3 are the group of key-value head 1
    want = call(kind, attnlib.grouped_attention, q, k, v, mask)
    k[:, 1, 1] = v[:, 1, 1] = np.nan
    close(call(kind, attnlib.grouped_attention, q, k, v, mask), want)


@both
@pytest.mark.parametrize("causal", [False, True])
def test_grouped_attention_copies_no_heads(kind, causal, monkeypatch):
    """What reaches the softmax or the kernel has g heads, not h."""
    seen = []

    def spy(module, name):
        honest = getattr(module, name)
        monkeypatch.setattr(module, name, lambda q, k, *rest, **o: seen.append(k.shape) or honest(q, k, *rest, **o))

    spy(numpy_backend, "_weights")
    spy(torch.nn.functional, "scaled_dot_product_attention")
    q, k, v = qkv(leading=(B, 6), d_v=D_K)[0], *qkv(leading=(B, 3), d_v=D_K)[1:]
    call(kind, attnlib.grouped_attention, q, k, v, causal=causal)
    assert seen == [(B, 3, T_K, D_K)]


@both
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("batch", "t_q", "t_k"), [(0, T_Q, T_K), (B, 0, T_K), (B, T_Q, 0), (B, 0, 0), (B, 1, T_K)])
def test_grouped_attention_of_nothing(kind, batch, t_q, t_k, causal):
    """No sentence, no query, no key; and a single query, which sees every key."""
    q, k, v = qkv(leading=(batch, 6), t_q=t_q)[0], *qkv(leading=(batch, 3), t_k=t_k)[1:]
    for name, args in (("grouped_attention_weights", (q, k)), ("grouped_attention", (q, k, v))):
        got = call(kind, getattr(attnlib, name), *args, causal=causal)
        close(got, repeated(name, *args, causal=causal))


def test_grouped_attention_with_one_group_a_head_is_attention():
    q, k, v = map(torch.tensor, qkv())
    assert attnlib.grouped_attention(q, k, v, causal=True).equal(attnlib.attention(q, k, v, causal=True))


def weights(seed, d_model, d_memory, q_width, k_width, v_width, o_rows):
    rng = np.random.default_rng(seed)
    shapes = ((d_model, q_width), (d_memory, k_width), (d_memory, v_width), (o_rows, d_model))
    return [rng.normal(size=shape) / 3 for shape in shapes]


@both
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"causal": True},
        {"mask": random_mask(3, T_Q, T_Q)},
        {"mask": random_mask(4, B, HEADS, T_Q, T_Q)},
        {"mask": random_mask(4, B, 1, T_Q, T_Q), "causal": True},
        {"key_mask": KEY_MASK[:, :T_Q]},
    ],
    ids=lambda options: "+".join(options) or "plain",
)
def test_self_attention_by_hand(kind, options):
    x = np.random.default_rng(5).normal(size=(B, T_Q, D_MODEL))
    arguments = (x, *weights(6, D_MODEL, D_MODEL, 12, 12, 12, 12), HEADS)
    close(call(kind, attnlib.multi_head_attention, *arguments, **options), by_hand(*arguments, **options))


@both
@pytest.mark.parametrize("num_kv_heads", [1, 2, 3, 6])
def test_grouped_cross_attention_by_hand(kind, num_kv_heads):
    """Memory of another width, values of another width than the keys, and fewer key-value heads."""
    rng = np.random.default_rng(7)
    x, memory = rng.normal(size=(B, T_Q, 8)), rng.normal(size=(B, T_K, 9))
    matrices = weights(8, 8, 9, 6 * 5, num_kv_heads * 5, num_kv_heads * 7, 6 * 7)
    options = {"num_kv_heads": num_kv_heads, "memory": memory, "key_mask": KEY_MASK}
    arguments = (x, *matrices, 6)
    close(call(kind, attnlib.multi_head_attention, *arguments, **options), by_hand(*arguments, **options))


@both
@pytest.mark.parametrize("cross", [False, True])
def test_equals_the_layer_of_pytorch(kind, cross):
    layer = torch.nn.MultiheadAttention(D_MODEL, HEADS, bias=False, batch_first=True, dtype=torch.float64)
    rng = np.random.default_rng(9)
    x, memory = rng.normal(size=(B, T_Q, D_MODEL)), rng.normal(size=(B, T_K, D_MODEL))
    source = memory if cross else x
    key_mask = KEY_MASK[:, : source.shape[1]]
    # PyTorch keeps the matrices transposed and one below the other; its mask says True = ignore.
    W_q, W_k, W_v = (block.T.numpy() for block in layer.in_proj_weight.detach().chunk(3))
    with torch.no_grad():
        want, _ = layer(*map(torch.tensor, (x, source, source)), key_padding_mask=~torch.tensor(key_mask))
    W_o = layer.out_proj.weight.detach().T.numpy()
    options = {"key_mask": key_mask, "memory": memory if cross else None}
    close(call(kind, attnlib.multi_head_attention, x, W_q, W_k, W_v, W_o, HEADS, **options), want)


@both
def test_padding_in_the_memory_may_hold_anything(kind):
    rng = np.random.default_rng(10)
    x, memory = rng.normal(size=(B, T_Q, D_MODEL)), rng.normal(size=(B, T_K, D_MODEL))
    arguments = (x, *weights(11, *[D_MODEL] * 6), HEADS)
    want = call(kind, attnlib.multi_head_attention, *arguments, memory=memory, key_mask=KEY_MASK)
    memory[~KEY_MASK] = np.nan
    close(call(kind, attnlib.multi_head_attention, *arguments, memory=memory, key_mask=KEY_MASK), want)


@both
def test_a_sequence_of_padding_gives_zeros(kind):
    x = np.random.default_rng(12).normal(size=(B, T_Q, D_MODEL))
    key_mask = np.array([[True] * T_Q, [False] * T_Q])
    got = call(kind, attnlib.multi_head_attention, x, *weights(13, *[D_MODEL] * 6), HEADS, key_mask=key_mask)
    assert (got[0] != 0).all()
    assert (got[1] == 0).all()
