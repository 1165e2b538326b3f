"""softmax: hand values, huge and masked scores, axes, empty and dead rows, and its gradient."""

import math

import numpy as np
import pytest
import torch
from backends import T_K, T_Q, B, H, both, call, close, random_mask

import attnlib


def test_hand_values_of_the_course():
    close(attnlib.softmax(np.array([2.0, 4.0, 6.0])), [0.015876, 0.117310, 0.866813], 1e-6)
    close(attnlib.softmax(np.array([0.5, 1.31, 0.81])), [0.2169, 0.4875, 0.2957], 1e-4)
    close(attnlib.softmax(np.array([10.0, 9.0, 1.0])), [0.7310, 0.2689, 0.0001], 1e-4)
    tiny = attnlib.softmax(np.array([100.0, 1.0, 1.0]))
    assert tiny[0] == 1
    assert tiny[1] == pytest.approx(math.exp(-99), rel=1e-12)


@both
def test_equals_the_definition(kind):
    scores = np.random.default_rng(0).normal(size=(B, H, T_Q, T_K))
    want = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    close(call(kind, attnlib.softmax, scores), want)


@both
@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1, -2, -3, -4])
def test_axis(kind, axis):
    scores = np.random.default_rng(1).normal(size=(B, H, T_Q, T_K))
    got = call(kind, attnlib.softmax, scores, axis=axis)
    close(got.sum(axis), np.ones(np.delete(scores.shape, axis)))
    close(got, np.exp(scores) / np.exp(scores).sum(axis, keepdims=True))


@both
@pytest.mark.parametrize("axis", [-1, -2, 0])
def test_mask_drops_entries_and_the_rest_sums_to_one(kind, axis):
    scores, mask = np.random.default_rng(2).normal(size=(B, T_Q, T_K)), random_mask(3, B, T_Q, T_K)
    powers = np.where(mask, np.exp(scores), 0)
    total = powers.sum(axis, keepdims=True)
    want = np.divide(powers, total, out=np.zeros_like(powers), where=total > 0)
    got = call(kind, attnlib.softmax, scores, mask, axis)
    close(got, want)
    assert (got[~mask] == 0).all()  # exactly 0, so that a masked value cannot leak


@both
@pytest.mark.parametrize("shape", [(T_K,), (T_Q, T_K), (1, T_K), (H, 1, T_K), (B, 1, T_Q, 1), (1,), ()])
def test_mask_broadcasts_to_the_scores(kind, shape):
    scores = np.random.default_rng(4).normal(size=(B, H, T_Q, T_K))
    mask = np.random.default_rng(5).random(shape) < 0.7
    whole = np.broadcast_to(mask, scores.shape).copy()
    close(call(kind, attnlib.softmax, scores, np.asarray(mask)), call(kind, attnlib.softmax, scores, whole))


@both
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_huge_scores_do_not_overflow(kind, dtype):
    top = float(np.finfo(dtype).max) / 2  # so that the difference of two scores is still a number
    scores = np.array([[top, 0, -top], [-top, -top, -top], [top, top, 0]], dtype=dtype)
    got = call(kind, attnlib.softmax, scores)
    assert got.dtype == dtype
    close(got, [[1, 0, 0], [1 / 3] * 3, [0.5, 0.5, 0]], 1e-3)


@both
def test_dead_rows_are_zero(kind):
    scores = np.array([[1.0, 2.0], [3.0, 4.0]])
    got = call(kind, attnlib.softmax, scores, np.array([[False, False], [True, False]]))
    np.testing.assert_array_equal(got, [[0, 0], [1, 0]])


@both
@pytest.mark.parametrize("hidden", [np.nan, np.inf, -np.inf])
def test_masked_scores_may_be_anything(kind, hidden):
    got = call(kind, attnlib.softmax, np.array([[hidden, 1.0, 2.0]]), np.array([False, True, True]))
    close(got, [[0, 1 / (1 + math.e), math.e / (1 + math.e)]])


@both
def test_a_nan_that_is_seen_shows(kind):
    got = call(kind, attnlib.softmax, np.array([[np.nan, 1.0], [1.0, 1.0]]))
    assert np.isnan(got[0]).all()
    close(got[1], [0.5, 0.5])


@both
@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)])
def test_empty(kind, shape):
    assert call(kind, attnlib.softmax, np.zeros(shape)).shape == shape
    assert call(kind, attnlib.softmax, np.zeros(shape), np.ones(shape, dtype=bool)).shape == shape


@pytest.mark.parametrize("axis", [-1, 0])
def test_torch_gradients(axis):
    scores = torch.tensor(np.random.default_rng(6).normal(size=(T_Q, T_K)), requires_grad=True)
    mask = torch.tensor(random_mask(7, T_Q, T_K))
    torch.autograd.gradcheck(lambda s: attnlib.softmax(s, mask, axis), scores)
    torch.autograd.gradcheck(lambda s: attnlib.softmax(s, axis=axis), scores)


def test_torch_gradients_of_masked_scores_are_zero_whatever_they_hold():
    scores = torch.tensor([[torch.nan, 1.0, 2.0], [torch.inf, torch.nan, -torch.inf]], requires_grad=True)
    mask = torch.tensor([[False, True, True], [False, False, False]])
    (attnlib.softmax(scores, mask) * torch.tensor([1.0, 2.0, 4.0])).sum().backward()
    assert scores.grad.isfinite().all()
    assert (scores.grad[~mask] == 0).all()
    assert (scores.grad[mask] != 0).all()
