"""The score functions: each against its formula, entry by entry."""

import numpy as np
import pytest
from backends import D_K, D_V, T_K, T_Q, B, H, both, call, close, qkv

import attnlib

D_ATT = 8  # width of the hidden layer of concat and additive scores


def entries(q, k, formula):
    """formula(query vector, key vector) for every pair."""
    out = np.empty((*q.shape[:-1], k.shape[-2]))
    for place in np.ndindex(out.shape):
        *row, j = place
        out[place] = formula(q[tuple(row)], k[(*row[:-1], j)])
    return out


def two_widths(seed):
    """Queries (B, H, T_Q, D_K), keys (B, H, T_K, D_V) and a generator for the weights."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(B, H, T_Q, D_K)), rng.normal(size=(B, H, T_K, D_V)), rng


@both
def test_dot(kind):
    q, k, _ = qkv()
    close(call(kind, attnlib.dot_scores, q, k), entries(q, k, lambda a, b: sum(a * b)))


@both
def test_scaled_dot_divides_by_the_root_of_d_k(kind):
    q, k, _ = qkv()
    close(call(kind, attnlib.scaled_dot_scores, q, k), entries(q, k, lambda a, b: sum(a * b) / 6**0.5))


@both
@pytest.mark.parametrize("scale", [0.25, 0, -1.5, 2])
def test_scale_multiplies(kind, scale):
    q, k, _ = qkv()
    got = call(kind, attnlib.scaled_dot_scores, q, k, scale)
    close(got, entries(q, k, lambda a, b: scale * sum(a * b)))


@both
@pytest.mark.parametrize("width", [1.0, 0.5, 3])
def test_gaussian(kind, width):
    q, k, _ = qkv()
    want = entries(q, k, lambda a, b: -sum((a - b) ** 2) / (2 * width**2))
    close(call(kind, attnlib.gaussian_scores, q, k, width), want)


@both
def test_gaussian_of_equal_vectors_is_exactly_zero_and_never_above(kind):
    x = 1e3 + np.random.default_rng(0).normal(size=(T_K, D_K))
    got = call(kind, attnlib.gaussian_scores, x, x)
    assert (got <= 0).all()
    close(got, entries(x, x, lambda a, b: -sum((a - b) ** 2) / 2), 1e-6)


@both
def test_gaussian_is_the_dot_product_when_the_keys_have_one_length(kind):
    q, k, _ = qkv()
    k = k / np.linalg.norm(k, axis=-1, keepdims=True)
    gaussian = call(kind, attnlib.softmax, call("numpy", attnlib.gaussian_scores, q, k))
    close(gaussian, call(kind, attnlib.attention_weights, q, k, scale=1.0))


@both
def test_general(kind):
    q, k, rng = two_widths(1)
    w = rng.normal(size=(D_K, D_V))
    close(call(kind, attnlib.general_scores, q, k, w), entries(q, k, lambda a, b: a @ w @ b))


@both
def test_concat(kind):
    q, k, rng = two_widths(2)
    w, v = rng.normal(size=(D_K + D_V, D_ATT)), rng.normal(size=D_ATT)
    want = entries(q, k, lambda a, b: np.tanh(np.concatenate([a, b]) @ w) @ v)
    close(call(kind, attnlib.concat_scores, q, k, w, v), want)


@both
def test_additive(kind):
    q, k, rng = two_widths(3)
    w, u, v = rng.normal(size=(D_K, D_ATT)), rng.normal(size=(D_V, D_ATT)), rng.normal(size=D_ATT)
    want = entries(q, k, lambda a, b: np.tanh(a @ w + b @ u) @ v)
    close(call(kind, attnlib.additive_scores, q, k, w, u, v), want)


@both
def test_concat_is_additive_with_its_matrix_cut_in_two(kind):
    q, k, rng = two_widths(4)
    w, v = rng.normal(size=(D_K + D_V, D_ATT)), rng.normal(size=D_ATT)
    cut = call(kind, attnlib.additive_scores, q, k, w[:D_K], w[D_K:], v)
    close(call(kind, attnlib.concat_scores, q, k, w, v), cut)


@both
def test_two_dimensions_are_enough(kind):
    q, k, rng = two_widths(5)
    w = rng.normal(size=(D_K, D_V))
    close(
        call(kind, attnlib.general_scores, q[1, 2], k[1, 2], w),
        call(kind, attnlib.general_scores, q, k, w)[1, 2],
    )


@both
def test_no_keys_and_no_queries(kind):
    q, k = np.ones((B, T_Q, D_K)), np.ones((B, T_K, D_K))
    for name in ("dot_scores", "scaled_dot_scores", "gaussian_scores"):
        assert call(kind, getattr(attnlib, name), q, k[:, :0]).shape == (B, T_Q, 0)
        assert call(kind, getattr(attnlib, name), q[:, :0], k).shape == (B, 0, T_K)
