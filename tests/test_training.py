"""Which device, and the same random numbers twice."""

import random

import numpy as np
import pytest
import torch

import attnlib


@pytest.fixture(autouse=True)
def _keep_algorithms():
    before = torch.are_deterministic_algorithms_enabled()
    yield
    torch.use_deterministic_algorithms(before)


@pytest.mark.parametrize(("wanted", "cuda", "expected"), [
    ("cpu", True, "cpu"),
    ("meta", False, "meta"),
    ("mps", True, "mps"),
    (None, True, "cuda"),
    (None, False, "cpu"),
    ("", True, "cuda"),
])
def test_device_is_the_one_asked_for_else_cuda_else_cpu(monkeypatch, wanted, cuda, expected):
    monkeypatch.delenv("ATTNLIB_DEVICE", raising=False)
    if wanted is not None:
        monkeypatch.setenv("ATTNLIB_DEVICE", wanted)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    assert attnlib.device() == torch.device(expected)


def test_an_unknown_device_is_an_error(monkeypatch):
    monkeypatch.setenv("ATTNLIB_DEVICE", "abacus")
    with pytest.raises(RuntimeError, match="abacus"):
        attnlib.device()


def test_the_same_seed_gives_the_same_numbers():
    def draw():
        return random.random(), np.random.rand(), torch.rand(2).tolist()

    attnlib.seed_everything(3)
    first = draw()
    attnlib.seed_everything(3)
    assert draw() == first
    attnlib.seed_everything(4)
    assert draw() != first


@pytest.mark.parametrize(("wanted", "expected"), [("cpu", True), ("cuda", False)])
def test_deterministic_algorithms_are_for_the_cpu_only(monkeypatch, wanted, expected):
    monkeypatch.setenv("ATTNLIB_DEVICE", wanted)
    attnlib.seed_everything(0)
    assert torch.are_deterministic_algorithms_enabled() is expected
