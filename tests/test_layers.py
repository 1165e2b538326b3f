"""The attention layers: their formulas, step by step and all at once, padding, gradients, devices, errors."""

import doctest
import math
import re

import numpy as np
import pytest
import torch
from backends import B, both, close, to
from test_fake_cuda import PlainIndexing
from torch._subclasses import FakeTensorMode
from torch.func import functional_call

import attnlib
from attnlib import functional, layers, seq2seq
from attnlib.layers import AdditiveAttention, LocalAttention, LocationAttention, LuongAttention

T_Q, T_K, D_QUERY, D_KEY, D_ATT = 4, 6, 5, 7, 3
LENGTHS = [6, 3]
LAYERS = {
    "additive": lambda: AdditiveAttention(D_QUERY, D_KEY, D_ATT),
    "dot": lambda: LuongAttention("dot", D_KEY, D_KEY),
    "scaled_dot": lambda: LuongAttention("scaled_dot", D_KEY, D_KEY),
    "general": lambda: LuongAttention("general", D_QUERY, D_KEY),
    "concat": lambda: LuongAttention("concat", D_QUERY, D_KEY, D_ATT),
    "location": lambda: LocationAttention(D_QUERY, D_KEY, max_keys=8),
    "local_m": lambda: LocalAttention("m", D_QUERY, D_KEY, window=2),
    "local_p": lambda: LocalAttention("p", D_QUERY, D_KEY, window=2),
}
every_layer = pytest.mark.parametrize("name", LAYERS)


def made(name, seed=0):
    """A layer in float64 with queries, keys and the mask of sentences of LENGTHS."""
    torch.manual_seed(seed)
    layer = LAYERS[name]().double()
    query, keys = torch.randn(B, T_Q, layer.d_query).double(), torch.randn(B, T_K, layer.d_key).double()
    return layer, query, keys, attnlib.padding_mask(torch.tensor(LENGTHS), T_K)


def score(name, p, q, k, j):
    """One score, from its definition, in NumPy: query q, key k at position j, parameters p."""
    if name == "additive":
        return np.tanh(q @ p["W_a"] + k @ p["U_a"]) @ p["v_a"]
    if name == "dot":
        return q @ k
    if name == "scaled_dot":
        return q @ k / math.sqrt(len(k))
    if name == "concat":
        return np.tanh(np.concatenate([q, k]) @ p["W_a"]) @ p["v_a"]
    if name == "location":
        return q @ p["W_a"][:, j]
    return q @ p["W_a"] @ k


def by_hand(name, p, q, keys, t):
    """Context and weights of one query at position t over the real keys of one sentence."""
    center, window = None, math.inf
    if name == "local_m":
        center, window = min(t, len(keys) - 1), 2
    if name == "local_p":
        center, window = len(keys) / (1 + np.exp(-np.tanh(q @ p["W_p"]) @ p["v_p"])), 2
    seen = [j for j in range(len(keys)) if center is None or abs(j - center) <= window]
    e = {j: np.exp(score(name, p, q, keys[j], j)) for j in seen}
    weights = np.array([e[j] / sum(e.values()) if j in e else 0.0 for j in range(len(keys))])
    if name == "local_p":
        weights *= np.exp([-((j - center) ** 2) / (2 * 1.0**2) for j in range(len(keys))])
    return weights @ keys, weights


@every_layer
def test_equals_the_definition(name):
    layer, query, keys, mask = made(name)
    context, weights = layer(query, keys, mask)
    p = {key: value.detach().numpy() for key, value in layer.named_parameters()}
    for b, length in enumerate(LENGTHS):
        for t in range(T_Q):
            want_c, want_w = by_hand(name, p, query[b, t].numpy(), keys[b, :length].numpy(), t)
            close(context[b, t], want_c)
            close(weights[b, t, :length], want_w)


@every_layer
def test_weights_sum_to_1_over_words_and_are_0_on_padding(name):
    layer, query, keys, mask = made(name)
    _, weights = layer(query, keys, mask)
    assert (weights[~mask.unsqueeze(1).expand_as(weights)] == 0).all()
    total = weights.sum(-1)
    if name == "local_p":
        assert ((total > 0) & (total < 1)).all()
    else:
        close(total, np.ones((B, T_Q)))


@every_layer
def test_padding_may_hold_anything(name):
    """NaN in the padding changes nothing, backward included."""
    layer, query, keys, mask = made(name)
    dirty = keys.masked_fill(~mask.unsqueeze(-1), torch.nan)
    for want, got in zip(layer(query, keys, mask), layer(query, dirty, mask), strict=True):
        assert got.equal(want)
    dirty.requires_grad_()
    layer(query, dirty, mask)[0].sum().backward()
    assert dirty.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


@every_layer
def test_a_sentence_without_words_gets_0(name):
    layer, query, keys, mask = made(name)
    mask[1] = False
    query.requires_grad_()
    context, weights = layer(query, keys, mask)
    assert (context[1] == 0).all()
    assert (weights[1] == 0).all()
    context.sum().backward()
    assert query.grad.isfinite().all()


@every_layer
def test_one_query_at_a_time_is_all_queries_at_once(name):
    layer, query, keys, mask = made(name)
    prepared = layer.prepare(keys, mask)
    steps = [layer.attend(query[:, t : t + 1], prepared, t) for t in range(T_Q)]
    context, weights = layer(query, keys, mask)
    close(torch.cat([c for c, _ in steps], 1), context)
    close(torch.cat([w for _, w in steps], 1), weights)


@every_layer
def test_without_a_mask_every_key_is_a_word(name):
    layer, query, keys, _ = made(name)
    want = layer(query, keys, torch.ones(B, T_K, dtype=torch.bool))
    for got, expected in zip(layer(query, keys), want, strict=True):
        assert got.equal(expected)


@every_layer
def test_gradients(name):
    """Of inputs and parameters, against finite differences."""
    layer, query, keys, mask = made(name)
    names = [key for key, _ in layer.named_parameters()]

    def run(query, keys, *parameters):
        return functional_call(layer, dict(zip(names, parameters, strict=True)), (query, keys, mask))

    inputs = [x.detach().requires_grad_() for x in (query, keys, *layer.parameters())]
    assert torch.autograd.gradcheck(run, inputs)


@pytest.mark.parametrize("name", [name for name in LAYERS if name not in ("dot", "scaled_dot")])  # these have none
def test_every_parameter_learns(name):
    layer, query, keys, mask = made(name)
    weights = layer(query, keys, mask)[1]
    (weights * torch.randn(weights.shape)).sum().backward()
    assert all((p.grad != 0).any() for p in layer.parameters())


def test_concat_and_additive_are_the_same_function():
    concat, query, keys, mask = made("concat")
    additive = LAYERS["additive"]().double()
    with torch.no_grad():
        additive.W_a.copy_(concat.W_a[:D_QUERY])
        additive.U_a.copy_(concat.W_a[D_QUERY:])
        additive.v_a.copy_(concat.v_a)
    for got, want in zip(additive(query, keys, mask), concat(query, keys, mask), strict=True):
        close(got, want)


@both
def test_additive_scores_of_projected_keys(kind):
    """U_a = None: the keys are projected already."""
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(B, T_Q, D_QUERY)), rng.normal(size=(B, T_K, D_KEY))
    W_a, U_a, v_a = rng.normal(size=(D_QUERY, D_ATT)), rng.normal(size=(D_KEY, D_ATT)), rng.normal(size=D_ATT)
    want = attnlib.additive_scores(q, k, W_a, U_a, v_a)
    q, projected, W_a, v_a = to(kind, (q, k @ U_a, W_a, v_a))
    close(attnlib.additive_scores(q, projected, W_a, None, v_a), want)
    with pytest.raises(ValueError, match=re.escape("W_a must have shape (5, 2), got (5, 3)")):
        attnlib.additive_scores(q, projected[..., :2], W_a, None, v_a)


@every_layer
def test_weights_come_from_the_softmax_of_the_course(name, monkeypatch):
    layer, query, keys, mask = made(name)
    monkeypatch.setattr(functional, "softmax", lambda scores, mask: torch.full_like(scores, 100.0))
    assert (layer(query, keys, mask)[1] >= (0 if name == "local_p" else 100)).all()
    assert layer(query, keys, mask)[1].max() > 1


@pytest.mark.parametrize(("name", "function"), [
    ("additive", "additive_scores"), ("dot", "dot_scores"), ("scaled_dot", "scaled_dot_scores"),
    ("general", "general_scores"), ("concat", "concat_scores"), ("local_m", "general_scores"),
])  # fmt: skip
def test_scores_come_from_the_functions_of_the_course(name, function, monkeypatch):
    layer, query, keys, mask = made(name)
    monkeypatch.setattr(functional, function, lambda q, k, *rest: torch.zeros(B, T_Q, T_K).double())
    weights = layer(query, keys, mask)[1]
    close(weights[1, 1, :3], np.full(3, 1 / 3))


@every_layer
def test_on_pretended_cuda(name):
    layer, query, keys, mask = made(name)

    def pretended(x):
        return torch.empty(x.shape, dtype=x.dtype, device="cuda")

    with FakeTensorMode(), PlainIndexing():
        parameters = {key: pretended(value) for key, value in layer.named_parameters()}
        context, weights = functional_call(layer, parameters, tuple(map(pretended, (query, keys, mask))))
        assert context.device.type == weights.device.type == "cuda"


@every_layer
def test_other_precisions_stay(name):
    layer, query, keys, mask = made(name)
    for dtype in (torch.float32, torch.bfloat16):
        context, weights = layer.to(dtype)(query.to(dtype), keys.to(dtype), mask)
        assert context.dtype == weights.dtype == dtype


BAD = {
    "d_query": (lambda: AdditiveAttention(0, 7, 3), ValueError, "d_query must be at least 1, got 0"),
    "d_key": (lambda: LuongAttention("general", 5, 7.5), TypeError, "d_key must be a whole number, got float 7.5"),
    "d_att": (lambda: AdditiveAttention(5, 7, -1), ValueError, "d_att must be at least 1, got -1"),
    "d_att-concat": (lambda: LuongAttention("concat", 5, 7, 0), ValueError, "d_att must be at least 1, got 0"),
    "score": (
        lambda: LuongAttention("cosine", 5, 7), ValueError,
        "score must be one of 'dot', 'scaled_dot', 'general', 'concat', got 'cosine'",
    ),
    "dot": (
        lambda: LuongAttention("dot", 5, 7), ValueError, "d_key must equal d_query = 5 for the score 'dot', got 7",
    ),
    "kind": (lambda: LocalAttention("x", 5, 7), ValueError, "kind must be one of 'm', 'p', got 'x'"),
    "window": (lambda: LocalAttention("m", 5, 7, window=0), ValueError, "window must be at least 1, got 0"),
    "max_keys": (lambda: LocationAttention(5, 7, 0), ValueError, "max_keys must be at least 1, got 0"),
    "query": (
        lambda: LAYERS["additive"]()(torch.ones(2, 4, 6), torch.ones(2, 6, 7)), ValueError,
        "query must have shape (B, T_q, d_query) with a last axis of 5, got (2, 4, 6)",
    ),
    "query-2d": (
        lambda: LAYERS["general"]()(torch.ones(2, 5), torch.ones(2, 6, 7)), ValueError,
        "query must have shape (B, T_q, d_query) with a last axis of 5, got (2, 5)",
    ),
    "keys": (
        lambda: LAYERS["additive"]()(torch.ones(2, 4, 5), torch.ones(2, 6, 5)), ValueError,
        "keys must have shape (B, T_k, d_key) with a last axis of 7, got (2, 6, 5)",
    ),
    "key_mask": (
        lambda: LAYERS["additive"]()(torch.ones(2, 4, 5), torch.ones(2, 6, 7), torch.ones(2, 4).bool()), ValueError,
        "key_mask must have shape (2, 6), got (2, 4)",
    ),
    "key_mask-float": (
        lambda: LAYERS["additive"]()(torch.ones(2, 4, 5), torch.ones(2, 6, 7), torch.ones(2, 6)), TypeError,
        "key_mask must be boolean (True = may attend), got dtype torch.float32",
    ),
    "keys-numpy": (
        lambda: LAYERS["dot"]()(np.ones((2, 4, 7)), np.ones((2, 6, 7))), TypeError,
        "keys and key_mask must be torch tensors, got NumPy arrays",
    ),
    "keys-dtype": (
        lambda: LAYERS["additive"]()(torch.ones(2, 4, 5), torch.ones(2, 6, 7).double()), TypeError,
        "keys must have the dtype of W_a, torch.float32, got torch.float64",
    ),
    "key_mask-numpy": (
        lambda: LAYERS["additive"]()(torch.ones(2, 4, 5), torch.ones(2, 6, 7), np.ones((2, 6), bool)), TypeError,
        "key_mask must be a torch tensor, as keys is, got a NumPy array",
    ),
    "batch": (
        lambda: LAYERS["additive"]()(torch.ones(3, 4, 5), torch.ones(2, 6, 7)), ValueError,
        "k must have the leading axes of q, (3,), got (2,)",
    ),
    "too-long": (
        lambda: LAYERS["location"]()(torch.ones(2, 4, 5), torch.ones(2, 9, 7)), ValueError,
        "keys must have at most max_keys = 8 tokens for the location score, got 9",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name):
    run, error, message = BAD[name]
    with pytest.raises(error, match=re.escape(message)):
        run()


@pytest.mark.parametrize(("module", "examples"), [(layers, 11), (seq2seq, 2)])
def test_examples_print_what_they_say(module, examples):
    failed, tried = doctest.testmod(module, extraglobs={"torch": torch})
    assert (failed, tried) == (0, examples)
