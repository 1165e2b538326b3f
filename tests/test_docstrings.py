"""The examples in the docstrings print what they say, and every public function has shapes and a docstring."""

import doctest
import importlib

import numpy as np
import pytest

import attnlib
from attnlib import functional


@pytest.mark.parametrize("module", ["functional", "gradients", "exercises", "corpus", "costs", "leaks", "metrics"])
def test_examples_print_what_they_say(module):
    module = importlib.import_module(f"attnlib.{module}")
    failed, _ = doctest.testmod(module, extraglobs={"np": np})
    assert failed == 0


def test_examples_are_found():
    assert sum(len(test.examples) for test in doctest.DocTestFinder().find(functional)) >= 9


@pytest.mark.parametrize("name", functional.__all__)
def test_public_functions_say_their_shapes(name):
    doc = getattr(attnlib, name).__doc__
    assert doc
    assert "T" in doc or "axis" in doc
