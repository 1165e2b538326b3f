"""MultiHeadAttention: against the loop over heads and PyTorch's layer, its cache, padding, devices, errors."""

import re

import numpy as np
import pytest
import torch
from backends import B, close, needs_cuda, random_mask
from test_fake_cuda import PlainIndexing
from torch._subclasses import FakeTensorMode
from torch.func import functional_call

import attnlib
from attnlib import functional, torch_backend
from attnlib.layers import KeyValueCache, MultiHeadAttention, torch_key_padding_mask

T_Q, T_K, D, H = 4, 5, 24, 6
KEY_MASKS = {T_Q: torch.tensor([[True] * 4, [True, True, False, False]]),
             T_K: torch.tensor([[True, False, True, True, False], [False, True, True, False, False]])}  # fmt: skip
cross_or_self = pytest.mark.parametrize("cross", [False, True], ids=["self", "cross"])
biases = pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
groups = pytest.mark.parametrize("g", [1, 2, 3, 6])


def made(g=None, bias=False, seed=0, **options):
    """A layer in float64 whose biases are not 0, with x and a memory."""
    torch.manual_seed(seed)
    layer = MultiHeadAttention(D, H, g, bias, **options).double()
    with torch.no_grad():
        for p in layer.parameters():
            if p.ndim == 1:
                p.normal_()
    return layer, torch.randn(B, T_Q, D).double(), torch.randn(B, T_K, D).double()


def by_hand(layer, x, memory, *, mask=None, scale=None, **options):
    """One head after the other, each on its own columns of the weights: the outputs summed through W_o, and weights."""
    p = {name: value.detach().numpy() for name, value in layer.named_parameters()}
    memory, x = (x if memory is None else memory).numpy(), x.numpy()
    d_k, r = D // H, H // layer.num_kv_heads
    options = {key: np.asarray(value) for key, value in options.items() if key != "causal"} | {
        "causal": options.get("causal", False)
    }
    out, looks = p.get("b_o", 0.0), []
    for h in range(H):
        own, shared = slice(h * d_k, (h + 1) * d_k), slice(h // r * d_k, (h // r + 1) * d_k)
        q, k, v = (
            y @ p[f"W_{name}"][:, part] + (p[f"b_{name}"][part] if layer.b_q is not None else 0)
            for y, name, part in ((x, "q", own), (memory, "k", shared), (memory, "v", shared))
        )
        seen = None if mask is None else np.asarray(mask if mask.ndim == 2 else mask[:, h % mask.shape[1]])
        looks.append(attnlib.attention_weights(q, k, seen, scale=scale, **options))
        out = out + looks[-1] @ v @ p["W_o"][own]
    return out, np.stack(looks, 1)


def options_of(t_k):
    """Every kind of mask for T_Q queries and t_k keys."""
    return {
        "plain": {},
        "mask": {"mask": torch.tensor(random_mask(1, T_Q, t_k))},
        "head-mask": {"mask": torch.tensor(random_mask(2, B, H, T_Q, t_k))},
        "key_mask": {"key_mask": KEY_MASKS[t_k]},
        "causal": {"causal": True},
        "all": {"mask": torch.tensor(random_mask(3, B, 1, T_Q, t_k)), "key_mask": KEY_MASKS[t_k], "causal": True},
    }


every_mask = pytest.mark.parametrize("masks", options_of(T_Q))


@biases
@groups
@cross_or_self
@every_mask
def test_equals_a_loop_over_heads(masks, cross, g, bias):
    layer, x, memory = made(g, bias)
    memory = memory if cross else None
    options = options_of(T_K if cross else T_Q)[masks]
    want, looks = by_hand(layer, x, memory, **options)
    close(layer(x, memory, **options), want)
    close(layer.weights(x, memory, **options), looks)


def test_scale_multiplies():
    layer, x, memory = made(3, scale=0.7)
    want, looks = by_hand(layer, x, memory, scale=0.7)
    close(layer(x, memory), want)
    close(layer.weights(x, memory), looks)


def test_without_a_bias_it_is_the_function_of_the_course():
    layer, x, memory = made(3)
    p = dict(layer.named_parameters())
    weights = (p["W_q"], p["W_k"], p["W_v"], p["W_o"])
    want = attnlib.multi_head_attention(x, *weights, H, num_kv_heads=3, memory=memory, key_mask=KEY_MASKS[T_K])
    assert layer(x, memory, key_mask=KEY_MASKS[T_K]).equal(want)


def test_the_numbers_come_from_the_functions_of_the_course(monkeypatch):
    layer, x, _ = made(3)
    monkeypatch.setattr(functional, "grouped_attention", lambda q, k, v, *a, **o: torch.full_like(q, 2.0))
    monkeypatch.setattr(functional, "grouped_attention_weights", lambda q, k, *a, **o: "theirs")
    close(layer(x), (2 * layer.W_o.sum(0)).expand(B, T_Q, D))
    assert layer.weights(x) == "theirs"


def test_one_group_a_head_is_plain_and_groups_share():
    """g = h equals the layer without groups; g = 1 and g = 2 equal a plain layer with copied columns."""
    for g in (1, 2, 6):
        layer, x, memory = made(g)
        plain = made()[0]
        with torch.no_grad():
            plain.W_q.copy_(layer.W_q)
            plain.W_o.copy_(layer.W_o)
            for name in ("W_k", "W_v"):
                copies = getattr(layer, name).unflatten(1, (g, D // H)).repeat_interleave(H // g, dim=1)
                getattr(plain, name).copy_(copies.flatten(1))
        close(layer(x, memory), plain(x, memory))
    assert [p.shape for p in made(6)[0].parameters()] == [p.shape for p in made()[0].parameters()]


# --- PyTorch's layer ----------------------------------------------------------------------------------------------


def theirs(bias, batch_first=True, seed=0):
    torch.manual_seed(seed)
    module = torch.nn.MultiheadAttention(D, H, bias=bias, batch_first=batch_first, dtype=torch.float64)
    with torch.no_grad():
        for p in module.parameters():
            p.normal_(std=0.3)
    return module


@biases
@cross_or_self
@pytest.mark.parametrize("batch_first", [True, False])
@every_mask
def test_from_torch_gives_its_numbers_and_gradients(masks, batch_first, cross, bias):
    """Value, weights, and the gradients of inputs and parameters. Every query has a key: else PyTorch says NaN."""
    module = theirs(bias, batch_first)
    layer = MultiHeadAttention.from_torch(module)
    _, x, memory = made()
    x, memory = x.requires_grad_(), (memory if cross else x).requires_grad_()
    options = dict(options_of(memory.shape[1])[masks])
    forbidden = torch.zeros(B, H, T_Q, memory.shape[1], dtype=torch.bool)
    if "mask" in options:
        options["mask"] = options["mask"] | (torch.arange(memory.shape[1]) < 2)  # no query is left without a key
        forbidden |= ~options["mask"]
    if "causal" in options:
        forbidden |= ~attnlib.causal_mask(T_Q, memory.shape[1], like=x)
    padding = None
    if "key_mask" in options:
        options["key_mask"] = options["key_mask"] | (torch.arange(memory.shape[1]) < 2)
        padding = torch_key_padding_mask(options["key_mask"])

    def turn(y):
        return y if batch_first else y.transpose(0, 1)

    want, looks = module(
        turn(x), turn(memory), turn(memory), attn_mask=forbidden.flatten(0, 1), key_padding_mask=padding,
        average_attn_weights=False,
    )  # fmt: skip
    got = layer(x, memory if cross else None, **options)
    close(got, turn(want))
    close(layer.weights(x, memory if cross else None, **options), looks)
    grad = torch.randn(got.shape, dtype=torch.float64)
    inputs = [x, memory] if cross else [x]
    mine = torch.autograd.grad(got, [*inputs, *layer.parameters()], grad)
    other = torch.autograd.grad(turn(want), [*inputs, *module.parameters()], grad)
    for a, b in zip(mine[: len(inputs)], other, strict=False):
        close(a, b)
    mine = dict(zip((name for name, _ in layer.named_parameters()), mine[len(inputs) :], strict=True))
    other = dict(zip((name for name, _ in module.named_parameters()), other[len(inputs) :], strict=True))
    close(torch.cat([mine["W_q"], mine["W_k"], mine["W_v"]], 1).T, other["in_proj_weight"])
    close(mine["W_o"].T, other["out_proj.weight"])
    if bias:
        close(torch.cat([mine["b_q"], mine["b_k"], mine["b_v"]]), other["in_proj_bias"])
        close(mine["b_o"], other["out_proj.bias"])


def test_from_torch_copies_and_keeps_precision_and_mode():
    module = theirs(True).to(torch.bfloat16).eval()
    layer = MultiHeadAttention.from_torch(module)
    assert {p.dtype for p in layer.parameters()} == {torch.bfloat16}
    assert not layer.training
    assert MultiHeadAttention.from_torch(module.train()).training
    before = layer.W_q.clone()
    with torch.no_grad():
        module.in_proj_weight.zero_()
    assert layer.W_q.equal(before)
    assert all(p.requires_grad for p in layer.parameters())


def test_the_mask_of_pytorch_says_the_opposite():
    key_mask = KEY_MASKS[T_K]
    assert torch_key_padding_mask(key_mask).equal(key_mask.logical_not())


@biases
@pytest.mark.parametrize("training", [True, False])
def test_flags_and_full_padding_change_nothing(training, bias):
    """Where nn.MultiheadAttention gives NaN or numbers by train(), no_grad and need_weights: one answer here."""
    layer, x, _ = made(3, bias)
    key_mask = torch.tensor([[True, True, True, False], [False] * T_Q])
    want = layer(x, key_mask=key_mask)
    layer.train(training)
    for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        with mode():
            assert layer(x, key_mask=key_mask).equal(want)
    assert want.isfinite().all()
    close(want[1], (layer.b_o if bias else torch.zeros(D).double()).expand(T_Q, D))
    assert (layer.weights(x, key_mask=key_mask)[1] == 0).all()
    x.requires_grad_()
    layer(x, key_mask=key_mask).sum().backward()
    assert x.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


# --- padding, gradients -------------------------------------------------------------------------------------------


@biases
def test_padding_of_the_memory_may_hold_anything(bias):
    layer, x, memory = made(2, bias)
    key_mask = KEY_MASKS[T_K]
    want, looks = layer(x, memory, key_mask=key_mask), layer.weights(x, memory, key_mask=key_mask)
    memory[~key_mask] = torch.nan
    memory.requires_grad_()
    got = layer(x, memory, key_mask=key_mask)
    assert got.equal(want)
    assert layer.weights(x, memory, key_mask=key_mask).equal(looks)
    assert layer(x, cache=layer.prepare(memory, key_mask)).equal(want)
    got.sum().backward()
    assert memory.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


@groups
def test_gradients(g):
    """Of inputs and parameters, against finite differences."""
    torch.manual_seed(1)
    layer = MultiHeadAttention(12, H, g, True).double()
    x, memory = torch.randn(B, 3, 12).double(), torch.randn(B, T_K, 12).double()
    names = [name for name, _ in layer.named_parameters()]

    def run(x, memory, *parameters):
        options = {"memory": memory, "key_mask": KEY_MASKS[T_K], "causal": True}
        return functional_call(layer, dict(zip(names, parameters, strict=True)), (x,), options)

    inputs = [y.detach().requires_grad_() for y in (x, memory, *layer.parameters())]
    assert torch.autograd.gradcheck(run, inputs, fast_mode=True)


def test_causal_attention_does_not_look_ahead():
    layer, x, _ = made(3)
    want = layer(x, causal=True)
    x[:, 2:] = 100.0
    assert layer(x, causal=True)[:, :2].equal(want[:, :2])
    assert not layer(x)[:, :2].equal(want[:, :2])


# --- the cache ----------------------------------------------------------------------------------------------------

long = torch.randn(B, 11, D, generator=torch.Generator().manual_seed(3)).double()
steps = pytest.mark.parametrize("lengths", [[1] * 11, [4, 1, 1, 3, 2], [11]], ids=str)
grad = pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad], ids=["gradient", "no-gradient"])


@biases
@groups
@steps
@grad
def test_step_by_step_is_all_at_once(mode, lengths, g, bias):
    layer = made(g, bias)[0]
    want = layer(long, causal=True)
    with mode():
        cache = KeyValueCache()
        close(torch.cat([layer(x, causal=True, cache=cache) for x in long.split(lengths, 1)], 1), want)
    assert len(cache) == 11
    assert cache.keys.shape == cache.values.shape == (B, g, 11, D // H)
    full = KeyValueCache()
    layer(long, causal=True, cache=full)
    close(cache.keys, full.keys)
    close(cache.values, full.values)


@steps
def test_gradients_through_the_cache(lengths):
    layer = made(3, True)[0]
    x = long.clone().requires_grad_()
    cache = KeyValueCache()
    got = torch.cat([layer(part, causal=True, cache=cache) for part in x.split(lengths, 1)], 1)
    grad = torch.randn(got.shape, dtype=got.dtype)
    inputs = [x, *layer.parameters()]
    for mine, want in zip(*(torch.autograd.grad(y, inputs, grad) for y in (got, layer(x, causal=True))), strict=True):
        close(mine, want)


def test_padding_in_a_growing_cache():
    """key_mask is of all tokens so far; what it hides may hold anything."""
    layer = made(2)[0]
    key_mask = torch.ones(B, 11, dtype=torch.bool)
    key_mask[0, :3] = key_mask[1, 0] = False  # sentences that end together begin with padding
    want = layer(long, causal=True, key_mask=key_mask)
    dirty, cache, out = long.masked_fill(~key_mask.unsqueeze(-1), torch.nan), KeyValueCache(), []
    for t, x in enumerate(dirty.split(1, 1)):
        out.append(layer(x, causal=True, cache=cache, key_mask=key_mask[:, : t + 1]))
    close(torch.cat(out, 1)[key_mask], want[key_mask])
    assert cache.keys.isfinite().all()


def test_a_full_cache_is_copied_seldom(monkeypatch):
    """1000 steps: at most 10 times is what is there moved to a larger room."""
    layer = made(1)[0]
    moves, honest = [], torch.Tensor.new_empty
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda x, *size: moves.append(size) or honest(x, *size))
    cache, x = KeyValueCache(), torch.randn(B, 1000, D).double()
    with torch.no_grad():
        for part in x.split(1, 1):
            layer(part, causal=True, cache=cache)
    assert len(moves) <= 2 * 10
    close(cache.keys[:, 0], x @ layer.W_k)


def test_the_cache_holds_exactly_what_is_counted():
    for g in (1, 2, 6):
        layer, cache = made(g)[0].to(torch.bfloat16), KeyValueCache()
        for x in long.to(torch.bfloat16).split(1, 1):
            layer(x, causal=True, cache=cache)
        assert cache.keys.nbytes + cache.values.nbytes == 2 * B * g * 11 * (D // H) * 2


@groups
def test_a_memory_is_projected_once(g, monkeypatch):
    layer, x, memory = made(g)
    key_mask = KEY_MASKS[T_K]
    want, looks = layer(x, memory, key_mask=key_mask), layer.weights(x, memory, key_mask=key_mask)
    cache = layer.prepare(memory, key_mask)
    monkeypatch.setattr(layer, "_keys_values", None)  # nothing may be projected from here on
    close(torch.cat([layer(part, cache=cache) for part in x.split(1, 1)], 1), want)
    close(torch.cat([layer.weights(part, cache=cache) for part in x.split(1, 1)], 2), looks)
    assert len(cache) == T_K


@pytest.mark.parametrize("wrong", [
    {"mask": torch.ones(T_Q, T_Q).bool()}, {"mask": torch.ones(T_Q, 2 * T_Q)}, {"causal": 1},
    {"key_mask": torch.ones(B, T_Q).bool()}, {"x": torch.ones(3, 1, D).double()},
])  # fmt: skip
def test_a_call_that_fails_leaves_the_cache_as_it_was(wrong):
    cache = filled()
    before = cache.keys.clone()
    with pytest.raises((TypeError, ValueError)):
        run(**{"cache": cache} | wrong)
    assert cache.keys.equal(before)


def test_rows_of_a_cache():
    layer, x, memory = made(3)
    index = torch.tensor([1, 1, 0])
    for start in (T_Q, 0):  # a filled one, an empty one
        cache = KeyValueCache()
        if start:
            layer(x, causal=True, cache=cache)
        chosen, more = cache.rows(index), torch.randn(3, 2, D).double()
        got = layer(more, causal=True, cache=chosen)
        alone = layer(torch.cat([x[index][:, :start], more], 1), causal=True)[:, start:]
        close(got, alone.detach())
        assert len(cache) == start
    prepared = layer.prepare(memory, KEY_MASKS[T_K])
    close(layer(x[index], cache=prepared.rows(index)), layer(x, cache=prepared)[index].detach())


def test_nothing_is_copied_to_all_heads(monkeypatch):
    """The kernel sees g heads of the cache itself, not of a copy."""
    layer, cache = made(2)[0], KeyValueCache()
    seen, honest = [], torch_backend._fused
    monkeypatch.setattr(torch_backend, "_fused", lambda q, k, v, **o: seen.append((k, v)) or honest(q, k, v, **o))
    with torch.no_grad():
        for x in long.split(1, 1):
            layer(x, causal=True, cache=cache)
    for k, mine in zip(seen[-1], (cache.keys, cache.values), strict=True):
        assert k.shape == (B, 2, 11, D // H)
        assert k.data_ptr() == mine.data_ptr()


# --- devices, precisions ------------------------------------------------------------------------------------------


def decode(layer, x, memory, key_mask):
    """All that a layer can do, one answer."""
    cache = KeyValueCache()
    parts = [layer(part, causal=True, cache=cache) for part in x.split(1, 1)]
    cross = layer(x, cache=layer.prepare(memory, key_mask))
    look = layer.weights(x, memory, key_mask=key_mask).sum(-1).sum(1).unsqueeze(-1)  # (B, T_q, 1)
    return torch.cat(parts, 1) + layer(x, causal=True) + layer(x, memory, key_mask=key_mask) + cross + look


class Decode(torch.nn.Module):
    """`decode` as a module, for functional_call."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, *args):
        return decode(self.layer, *args)


@biases
@grad
def test_on_pretended_cuda(mode, bias):
    layer, x, memory = made(2, bias)

    def pretended(y):
        return torch.empty(y.shape, dtype=y.dtype, device="cuda")

    with FakeTensorMode(), PlainIndexing(), mode():
        parameters = {f"layer.{key}": pretended(value) for key, value in layer.named_parameters()}
        out = functional_call(Decode(layer), parameters, tuple(map(pretended, (x, memory, KEY_MASKS[T_K]))))
        assert (out.device.type, tuple(out.shape)) == ("cuda", (B, T_Q, D))


def test_other_precisions_stay():
    layer, x, memory = made(3, True)
    for dtype in (torch.float32, torch.bfloat16):
        out = decode(layer.to(dtype), x.to(dtype), memory.to(dtype), KEY_MASKS[T_K])
        assert out.dtype == dtype


@needs_cuda
@grad
def test_on_real_cuda(mode):
    layer, x, memory = made(2, True)
    moved = made(2, True)[0].cuda()
    with mode():
        got = decode(moved, x.cuda(), memory.cuda(), KEY_MASKS[T_K].cuda())
        close(got, decode(layer, x, memory, KEY_MASKS[T_K]), 1e-10)


# --- bad input ----------------------------------------------------------------------------------------------------


def torch_layer(**options):
    return MultiHeadAttention.from_torch(torch.nn.MultiheadAttention(D, H, **options))


def run(x=None, *args, **options):
    return made(3)[0](torch.ones(B, T_Q, D).double() if x is None else x, *args, **options)


def prepared(batch=B):
    return made(3)[0].prepare(torch.ones(batch, T_K, D).double(), torch.ones(batch, T_K).bool())


def filled():
    cache = KeyValueCache()
    run(causal=True, cache=cache)
    return cache


BAD = {
    "d_model": (lambda: MultiHeadAttention(0, 1), ValueError, "d_model must be at least 1, got 0"),
    "num_heads": (lambda: MultiHeadAttention(24, 5), ValueError, "num_heads must divide d_model = 24, got 5"),
    "num_kv_heads": (
        lambda: MultiHeadAttention(24, 6, 4), ValueError,
        "num_heads must be a multiple of num_kv_heads, got 6 and 4",
    ),
    "bias": (lambda: MultiHeadAttention(24, 6, None, 1), TypeError, "bias must be True or False, got int 1"),
    "scale": (lambda: MultiHeadAttention(24, 6, scale="no"), TypeError, "scale must be a number, got str 'no'"),
    "x": (
        lambda: run(torch.ones(2, 4, 23).double()), ValueError,
        "x must have shape (B, T_q, d_model) with a last axis of 24, got (2, 4, 23)",
    ),
    "x-numpy": (lambda: run(np.ones((2, 4, 24))), TypeError, "x must be a torch tensor, as W_q is, got a NumPy array"),
    "x-dtype": (
        lambda: run(torch.ones(2, 4, 24)), TypeError,
        "x must have the dtype of W_q, torch.float64, got torch.float32",
    ),
    "memory": (
        lambda: run(None, torch.ones(2, 24).double()), ValueError,
        "memory must have shape (B, T_k, d_model) with a last axis of 24, got (2, 24)",
    ),
    "memory-batch": (
        lambda: run(None, torch.ones(3, 5, 24).double()), ValueError,
        "k must have the axes of q before the heads, (2,), got (3,)",
    ),
    "key_mask": (
        lambda: run(key_mask=torch.ones(2, 5).bool()), ValueError, "key_mask must have shape (2, 4), got (2, 5)",
    ),
    "key_mask-float": (
        lambda: run(key_mask=torch.ones(2, 4)), TypeError,
        "key_mask must be boolean (True = may attend), got dtype torch.float32",
    ),
    "key_mask-numpy": (
        lambda: run(key_mask=np.ones((2, 4), bool)), TypeError,
        "key_mask must be a torch tensor, as W_q is, got a NumPy array",
    ),
    "key_mask-list-cache": (
        lambda: run(cache=filled(), key_mask=[[True] * 8] * 2), TypeError,
        "key_mask must be a torch tensor, as W_q is, got list [[True",
    ),
    "memory-numpy-prepared": (
        lambda: MultiHeadAttention(24, 3).prepare(np.ones((2, 5, 24))), TypeError,
        "memory must be a torch tensor, as W_k is, got a NumPy array",
    ),
    "memory-dtype-prepared": (
        lambda: MultiHeadAttention(24, 3).prepare(torch.ones(2, 5, 24).double()), TypeError,
        "memory must have the dtype of W_k, torch.float32, got torch.float64",
    ),
    "key_mask-cache": (
        lambda: run(cache=filled(), key_mask=torch.ones(2, 4).bool()), ValueError,
        "key_mask must have shape (2, 8), got (2, 4)",
    ),
    "key_mask-prepared": (
        lambda: run(cache=prepared(), key_mask=torch.ones(2, 5).bool()), ValueError,
        "key_mask must be None beside a prepared cache: prepare(memory, key_mask) takes it",
    ),
    "mask": (
        lambda: run(mask=torch.ones(4, 5).bool()), ValueError,
        "mask must have shape (4, 4) or (2, 6, 4, 4), got (4, 5)",
    ),
    "cache": (lambda: run(cache=[]), TypeError, "cache must be a KeyValueCache, got list"),
    "cache-memory": (
        lambda: run(None, torch.ones(2, 5, 24).double(), cache=KeyValueCache()), ValueError,
        "memory must be None beside a cache: the cache of a memory comes from prepare(memory)",
    ),
    "cache-batch": (
        lambda: run(torch.ones(3, 1, 24).double(), cache=filled()), ValueError,
        "keys must have shape (2, 3, 1, 4), got (3, 3, 1, 4)",
    ),
    "cache-batch-prepared": (
        lambda: run(cache=prepared(3)), ValueError, "k must have the axes of q before the heads, (2,), got (3,)",
    ),
    "cache-weights": (
        lambda: made(3)[0].weights(torch.ones(B, T_Q, D).double(), cache=filled()), ValueError,
        "cache must be one of prepare(memory): weights must not append to it",
    ),
    "append-to-memory": (
        lambda: prepared().append(torch.ones(2, 3, 1, 4), torch.ones(2, 3, 1, 4)), ValueError,
        "cache must be one that may grow, got that of a memory",
    ),
    "append": (
        lambda: KeyValueCache().append(torch.ones(2, 3, 1, 4), torch.ones(2, 3, 2, 4)), ValueError,
        "values must have shape (2, 3, 1, 4), got (2, 3, 2, 4)",
    ),
    "module": (
        lambda: MultiHeadAttention.from_torch(torch.nn.Linear(3, 4)), TypeError,
        "module must be a torch.nn.MultiheadAttention, got Linear",
    ),
    "kdim": (lambda: torch_layer(kdim=7), ValueError, "module must have kdim = 24, got 7"),
    "vdim": (lambda: torch_layer(vdim=9), ValueError, "module must have vdim = 24, got 9"),
    "add_bias_kv": (
        lambda: torch_layer(add_bias_kv=True), ValueError, "module must have add_bias_kv = False, got True",
    ),
    "add_zero_attn": (
        lambda: torch_layer(add_zero_attn=True), ValueError, "module must have add_zero_attn = False, got True",
    ),
    "dropout": (
        lambda: torch_layer(dropout=0.25), ValueError,
        "module must have dropout = 0, got 0.25; set module.dropout = 0.0 to take the weights as eval mode uses them",
    ),
    "padding-mask": (
        lambda: torch_key_padding_mask(torch.ones(2, 5)), TypeError, "key_mask must be boolean (True = may attend)",
    ),
    "padding-mask-numpy": (
        lambda: torch_key_padding_mask(np.ones((2, 5), bool)), TypeError,
        "key_mask must be a torch tensor, got ndarray",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name):
    call, error, message = BAD[name]
    with pytest.raises(error, match=re.escape(message)):
        call()
