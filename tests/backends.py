"""What the tests share: the two backends, the sizes, and at least one call of every public function."""

import warnings

import numpy as np
import pytest
import torch

import attnlib

# Pairwise different: most silent attention bugs exist only where two sizes are equal.
B, H, T_Q, T_K, D_K, D_V = 2, 3, 4, 5, 6, 7
KINDS = ("numpy", "torch")
both = pytest.mark.parametrize("kind", KINDS)
# PyTorch's fused kernels want values as wide as keys, and fall back to plain steps otherwise: both must be right.
widths = pytest.mark.parametrize("d_v", [D_V, D_K])
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


def convert(value, array):
    """value with every NumPy array in it (also inside tuples and dicts) replaced by array(it)."""
    if isinstance(value, np.ndarray):
        return array(value)
    if isinstance(value, tuple):
        return tuple(convert(item, array) for item in value)
    if isinstance(value, dict):
        return {key: convert(item, array) for key, item in value.items()}
    return value


def to(kind, value):
    """A fresh copy of value whose arrays belong to the backend `kind`."""
    return convert(value, np.copy if kind == "numpy" else torch.tensor)


def back(x):
    """An array or tensor as NumPy (bfloat16, which NumPy lacks, as float32)."""
    if isinstance(x, np.ndarray):
        return x
    x = x.detach().cpu()
    return (x.float() if x.dtype == torch.bfloat16 else x).numpy()


def call(kind, function, *args, **kwargs):
    """The answer of function on the backend `kind`, as NumPy: of the type of the input, and without a warning."""
    with warnings.catch_warnings(action="error"):
        answer = function(*to(kind, args), **to(kind, kwargs))
    assert type(answer) is {"numpy": np.ndarray, "torch": torch.Tensor}[kind]
    return back(answer)


def close(got, want, tolerance=1e-12):
    """got and want have one shape, and |got - want| <= tolerance max(1, |want|). NaN is never close."""
    got, want = back(got), np.asarray(back(want) if isinstance(want, torch.Tensor) else want)
    assert got.shape == want.shape
    worst = np.abs(got.astype(np.float64) - want) / np.maximum(1, np.abs(want))
    assert (worst <= tolerance).all(), f"differs by {worst.max():.3g}, allowed {tolerance:.3g}"


def qkv(seed=0, leading=(B, H), t_q=T_Q, t_k=T_K, d_k=D_K, d_v=D_V):
    """Random queries, keys and values in float64."""
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=(*leading, *shape)) for shape in ((t_q, d_k), (t_k, d_k), (t_k, d_v)))


def random_mask(seed, *shape):
    """A random boolean mask whose first row is dead and whose last key nobody may see."""
    mask = np.random.default_rng(seed).random(shape) < 0.6
    mask[..., 0, :] = False
    mask[..., -1] = False
    return mask


GROUPED = ((6, (T_Q, D_K)), (3, (T_K, D_K)), (3, (T_K, D_V)))  # heads and the rest of the shape of q, k, v
KEY_MASK = np.array([[True, False, True, True, False], [False, True, True, False, False]])


def every_call():
    """(name, args, kwargs) with float64 arrays; every public function is called at least once."""
    rng = np.random.default_rng(1)
    q, k, v = qkv()
    x, memory = rng.normal(size=(B, T_Q, 8)), rng.normal(size=(B, T_K, 9))
    h, d = 6, 5  # heads and their size: W_q is (8, 30), 3 kv heads make W_k and W_v (., 15)
    weights = [rng.normal(size=shape) / 3 for shape in ((8, h * d), (8, h * d), (8, h * d), (h * d, 8))]
    grouped = [rng.normal(size=shape) / 3 for shape in ((8, h * d), (9, 3 * d), (9, 3 * d), (h * d, 8))]
    scores = rng.normal(size=(B, H, T_Q, T_K))
    other = rng.normal(size=(B, H, T_K, D_V))  # keys whose size is not that of the queries

    yield "softmax", (scores,), {}
    yield "softmax", (scores, random_mask(2, T_Q, T_K)), {}
    yield "softmax", (scores,), {"mask": random_mask(3, B, 1, T_Q, T_K), "axis": -2}
    yield "softmax", (scores[0, 0, 0],), {"axis": 0}
    for options in (
        {},
        {"mask": random_mask(4, T_Q, T_K)},
        {"mask": random_mask(5, B, 1, T_Q, T_K)},
        {"key_mask": KEY_MASK},
        {"causal": True},
        {"scale": 0.3},
        {"mask": random_mask(6, B, H, T_Q, T_K), "key_mask": KEY_MASK, "causal": True, "scale": 2.0},
    ):
        yield "attention_weights", (q, k), options
        yield "attention", (q, k, v), options
        if "mask" not in options:
            yield "blockwise_attention", (q, k, v), {**options, "block_size": 2}
    for options in ({}, {"causal": True}, {"mask": random_mask(9, B, 1, T_Q, T_K), "key_mask": KEY_MASK}):
        yield "attention", qkv(d_v=D_K), options  # these may take PyTorch's fused kernels
    yield "attention", qkv(t_q=T_K, d_v=D_K), {"causal": True}
    long_q, short_k, short_v = qkv(7, t_q=T_K, t_k=T_Q)
    yield "attention_weights", (long_q, short_k), {"causal": True}
    yield "attention", (long_q, short_k, short_v), {"causal": True}
    yield "blockwise_attention", (long_q, short_k, short_v), {"causal": True, "block_size": 3}
    yield "blockwise_attention", (q, k, v), {}
    yield "dot_scores", (q, k), {}
    yield "scaled_dot_scores", (q, k), {}
    yield "scaled_dot_scores", (q, k), {"scale": -0.5}
    yield "gaussian_scores", (q, k), {}
    yield "gaussian_scores", (q, k), {"width": 2.5}
    yield "general_scores", (q, other, rng.normal(size=(D_K, D_V))), {}
    yield "concat_scores", (q, other, rng.normal(size=(D_K + D_V, 8)), rng.normal(size=8)), {}
    yield (
        "additive_scores",
        (q, other, rng.normal(size=(D_K, 8)), rng.normal(size=(D_V, 8)), rng.normal(size=8)),
        {},
    )
    yield "causal_mask", (T_Q,), {"like": q}
    yield "causal_mask", (T_Q, T_K), {"like": q}
    yield "causal_mask", (T_K, T_Q), {"like": q}
    yield "padding_mask", (np.array([0, 3, 5]), T_K), {}
    yield "padding_mask", (np.array([0, 3, 5]), T_K), {"like": q}
    q_6, k_3, v_3 = (rng.normal(size=(B, heads, *shape)) for heads, shape in GROUPED)
    for options in (
        {},
        {"causal": True},
        {"mask": random_mask(10, T_Q, T_K), "causal": True},
        {"mask": random_mask(11, B, 1, T_Q, T_K), "key_mask": KEY_MASK, "scale": 0.3},
        {"mask": random_mask(12, B, 6, T_Q, T_K), "key_mask": KEY_MASK},
        {"mask": random_mask(13, B, 6, 2, T_K)[..., 1:, :]},
    ):
        yield "grouped_attention_weights", (q_6, k_3), options
        yield "grouped_attention", (q_6, k_3, v_3), options
    yield "grouped_attention", (q_6, k_3[..., :T_Q, :], v_3[..., :T_Q, :]), {"causal": True}
    yield "grouped_attention", (q_6, k_3[..., :T_Q, :], k_3[..., :T_Q, :]), {"causal": True}
    yield "grouped_attention", (q_6[0], k_3[0], k_3[0]), {"key_mask": KEY_MASK[0]}
    yield "grouped_attention", (q_6[None], k_3[None], v_3[None]), {"mask": random_mask(12, B, 6, T_Q, T_K)[None]}
    yield "split_heads", (x, 4), {}
    yield "merge_heads", (q,), {}
    yield "repeat_kv", (k, 2 * H), {}
    yield "multi_head_attention", (x, *weights, h), {}
    yield "multi_head_attention", (x, *weights, h), {"mask": random_mask(8, T_Q, T_Q), "causal": True}
    yield (
        "multi_head_attention",
        (x, *grouped, h),
        {"num_kv_heads": 3, "memory": memory, "key_mask": KEY_MASK, "causal": True},
    )
    yield "sinusoidal_positions", (T_K, 8), {"like": q}


EVERY = [
    pytest.param(name, args, kwargs, id=f"{name}-{number}-{'+'.join(kwargs)}".rstrip("-"))
    for number, (name, args, kwargs) in enumerate(every_call())
]
every = pytest.mark.parametrize(("name", "args", "kwargs"), EVERY)


def function(name):
    """The public function of that name."""
    return getattr(attnlib, name)
