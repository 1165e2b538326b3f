"""causal_mask and padding_mask: who may see whom, on which backend and device."""

import numpy as np
import pytest
import torch
from backends import T_K, T_Q, both, call, to

import attnlib


@both
@pytest.mark.parametrize(("t_q", "t_k"), [(T_Q, T_K), (T_K, T_Q), (3, 3), (1, 5), (5, 1)])
def test_causal_is_aligned_at_the_end(kind, t_q, t_k):
    mask = call(kind, lambda like: attnlib.causal_mask(t_q, t_k, like), np.zeros(2))
    assert mask.dtype == bool
    assert mask.shape == (t_q, t_k)
    for i in range(t_q):
        for j in range(t_k):
            assert mask[i, j] == (j <= i + t_k - t_q)


def test_causal_by_hand():
    np.testing.assert_array_equal(attnlib.causal_mask(2, 3), [[True, True, False], [True, True, True]])
    np.testing.assert_array_equal(
        attnlib.causal_mask(3), [[True, False, False], [True, True, False], [True, True, True]]
    )


@pytest.mark.parametrize("sizes", [(0,), (0, 3), (3, 0)])
def test_causal_may_be_empty(sizes):
    assert attnlib.causal_mask(*sizes).shape == (sizes[0], sizes[-1])
    assert attnlib.causal_mask(*sizes, like=torch.zeros(1)).shape == (sizes[0], sizes[-1])


@both
def test_padding_by_hand(kind):
    mask = call(kind, attnlib.padding_mask, np.array([3, 0, 5]), 5)
    assert mask.dtype == bool
    np.testing.assert_array_equal(mask, [[1, 1, 1, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]])


@both
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_padding_takes_any_integers(kind, dtype):
    mask = call(kind, attnlib.padding_mask, np.array([2, 1], dtype=dtype), 3)
    np.testing.assert_array_equal(mask, [[1, 1, 0], [1, 0, 0]])


@both
def test_padding_may_be_empty(kind):
    assert call(kind, attnlib.padding_mask, np.zeros(0, dtype=int), 3).shape == (0, 3)
    assert call(kind, attnlib.padding_mask, np.zeros(2, dtype=int), 0).shape == (2, 0)


@both
@pytest.mark.parametrize("dtype", ["float16", "int64"])
def test_like_carries_the_backend_but_not_the_dtype(kind, dtype):
    like = to(kind, np.zeros(3, dtype=dtype))
    for mask in (attnlib.causal_mask(2, 3, like), attnlib.padding_mask([1, 2], 3, like=like)):
        assert type(mask) is type(like)
        assert mask.dtype in (torch.bool, np.dtype(bool))


def test_like_carries_the_device():
    like = torch.empty(1, device="meta")
    assert attnlib.causal_mask(2, 3, like).device.type == "meta"
    assert attnlib.padding_mask(torch.tensor([1, 2]), 3, like=like).device.type == "meta"
    assert attnlib.padding_mask([1, 2], 3, like=like).device.type == "meta"


@both
def test_the_masks_fit_where_they_are_meant_to_go(kind):
    x = np.ones((2, T_Q, 6))
    key_mask = attnlib.padding_mask(np.array([3, 1]), T_Q)
    weights = call(kind, attnlib.attention_weights, x, x, attnlib.causal_mask(T_Q), key_mask=key_mask)
    np.testing.assert_array_equal(weights > 0, attnlib.causal_mask(T_Q) & key_mask[:, None])
