"""Rounding: half, bfloat16 and single precision against float64 from the same rounded inputs; the types of answers."""

import numpy as np
import pytest
import torch
from backends import KEY_MASK, T_K, back, both, close, convert, every, function, qkv, random_mask, widths

import attnlib

TOLERANCE = {"float32": 5e-6, "float16": 2e-3, "bfloat16": 1.5e-2}
DTYPES = [("numpy", "float32"), ("numpy", "float16"), *(("torch", dtype) for dtype in TOLERANCE)]
each = pytest.mark.parametrize(("kind", "dtype"), DTYPES)


def rounded(kind, dtype, value):
    """The floats in value in that precision; masks and lengths as they are."""
    if kind == "numpy":
        return convert(value, lambda x: x.astype(dtype) if x.dtype == np.float64 else x)
    return convert(
        value, lambda x: torch.tensor(x).to(getattr(torch, dtype)) if x.dtype == np.float64 else torch.tensor(x)
    )


def check(kind, dtype, name, args, kwargs):
    """The answer has the precision of its input, and differs little from float64's on the same rounded numbers."""
    low, options = rounded(kind, dtype, (args, kwargs))
    got = function(name)(*low, **options)
    exact = convert(tuple(back(x) if hasattr(x, "dtype") else x for x in low), _doubles)
    want = function(name)(*exact, **kwargs)
    assert str(got.dtype).removeprefix("torch.") == ("bool" if want.dtype == bool else dtype)
    close(back(got).astype(np.float64), want.astype(np.float64), TOLERANCE[dtype])


def _doubles(x):
    return x.astype(np.float64) if x.dtype.kind == "f" else x


@each
@every
def test_every_function(kind, dtype, name, args, kwargs):
    check(kind, dtype, name, args, kwargs)


@each
@pytest.mark.parametrize("options", [{}, {"causal": True}, {"mask": random_mask(0, 65, 130)}], ids="+".join)
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("fused", [False, True])
def test_longer_sequences_and_larger_numbers(kind, dtype, options, size, fused):
    """130 keys, d_k = 32; at size 2 the scores reach 20. (Far larger ones carry float32's own rounding.)"""
    q, k, v = qkv(1, (1, 2), t_q=65, t_k=130, d_k=32, d_v=32 if fused else 33)
    q, k = size * q, size * k
    check(kind, dtype, "attention_weights", (q, k), options)
    check(kind, dtype, "attention", (q, k, v), options)
    if "mask" not in options:
        check(kind, dtype, "blockwise_attention", (q, k, v), {**options, "block_size": 16})


@each
@pytest.mark.parametrize("options", [{}, {"causal": True}], ids="+".join)
@widths
def test_a_negative_scale_costs_no_precision(kind, dtype, options, d_v):
    """-q is exact in every precision, -0.3 q is not."""
    q, k, v = qkv(4, t_q=T_K, d_v=d_v)
    low, exact = rounded(kind, dtype, (4 * q, 4 * k, v)), rounded(kind, dtype, (-4 * q, 4 * k, v))
    got, want = attnlib.attention(*low, scale=-0.3, **options), attnlib.attention(*exact, scale=0.3, **options)
    np.testing.assert_array_equal(back(got), back(want))


@each
@widths
def test_scores_beyond_the_range_of_half_precision(kind, dtype, d_v):
    """The score 300 * 300 * 6 is no float16, its weight is: scores are computed in float32."""
    q = 300.0 * np.ones((4, 6))
    k = np.concatenate([300.0 * np.ones((2, 6)), np.zeros((3, 6))])
    v = np.arange(5.0 * d_v).reshape(5, d_v)
    args = rounded(kind, dtype, (q, k, v))
    close(back(attnlib.attention_weights(*args[:2])), np.array([[0.5, 0.5, 0, 0, 0]] * 4), 1e-6)
    for name in ("attention", "blockwise_attention"):
        close(back(function(name)(*args)).astype(np.float64), np.array([v[:2].mean(0)] * 4), TOLERANCE[dtype])


@each
@widths
def test_masks_do_not_overflow_in_any_precision(kind, dtype, d_v):
    """-1e9 is no float16: whoever fills with it gets an overflow. -inf is a number everywhere."""
    q, k, v = rounded(kind, dtype, qkv(2, d_v=d_v))
    (key_mask,) = rounded(kind, dtype, (KEY_MASK,))
    weights = back(attnlib.attention_weights(q, k, key_mask=key_mask))
    assert (weights[~np.broadcast_to(KEY_MASK[:, None, None], weights.shape)] == 0).all()
    close(weights.astype(np.float64).sum(-1), np.ones(weights.shape[:-1]), TOLERANCE[dtype])
    assert np.isfinite(back(attnlib.attention(q, k, v, key_mask=key_mask))).all()


@both
@widths
def test_rows_of_one_value_are_exact(kind, d_v):
    """One key: the weight is exactly 1 and the output exactly the value, in every precision."""
    for dtype in [d for k, d in DTYPES if k == kind]:
        q, k, v = rounded(kind, dtype, qkv(3, t_k=1, d_v=d_v))
        np.testing.assert_array_equal(back(attnlib.attention(q, k, v)), np.broadcast_to(back(v), (*q.shape[:-1], d_v)))
