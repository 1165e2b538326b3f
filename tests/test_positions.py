"""sinusoidal_positions: the formula, the property it was made for, dtype and device."""

import math

import numpy as np
import pytest
import torch
from backends import both, call, close, to

import attnlib


@both
def test_equals_the_formula_of_the_paper(kind):
    got = call(kind, lambda like: attnlib.sinusoidal_positions(5, 8, like), np.zeros(1))
    for position in range(5):
        for pair in range(4):
            angle = position / 10000 ** (2 * pair / 8)
            assert got[position, 2 * pair] == pytest.approx(math.sin(angle), abs=1e-12)
            assert got[position, 2 * pair + 1] == pytest.approx(math.cos(angle), abs=1e-12)


def test_without_like_it_is_numpy_in_float64():
    got = attnlib.sinusoidal_positions(3, 4)
    assert type(got) is np.ndarray
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got[0], [0, 1, 0, 1])


@both
def test_a_fixed_shift_is_one_rotation(kind):
    table = call(kind, lambda like: attnlib.sinusoidal_positions(12, 6, like), np.zeros(1))
    similar = table @ table.T  # depends on the distance alone
    for distance in range(12):
        diagonal = np.diagonal(similar, distance)
        close(diagonal, np.full(12 - distance, diagonal[0]))


@both
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_like_carries_the_dtype(kind, dtype):
    got = call(kind, lambda like: attnlib.sinusoidal_positions(600, 4, like), np.zeros(1, dtype=dtype))
    assert got.dtype == dtype
    # Angles are taken in full precision: in float16 a position such as 599 would round before its sine.
    close(got, attnlib.sinusoidal_positions(600, 4), {"float16": 5e-4, "float32": 1e-6, "float64": 1e-12}[dtype])


@both
def test_tokens_stand_for_the_default_float(kind):
    got = attnlib.sinusoidal_positions(3, 4, to(kind, np.array([7, 8])))
    assert got.dtype in (np.dtype("float64"), torch.get_default_dtype())


def test_like_carries_the_device():
    assert attnlib.sinusoidal_positions(3, 4, torch.empty(1, device="meta")).device.type == "meta"


def test_no_positions():
    assert attnlib.sinusoidal_positions(0, 4).shape == (0, 4)
    assert attnlib.sinusoidal_positions(0, 4, torch.zeros(1)).shape == (0, 4)
