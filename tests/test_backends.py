"""Two backends under one front door: same names, signatures and values; inputs of any layout, never written to."""

import ast
import inspect
import subprocess
import sys

import numpy as np
import pytest
import torch
from backends import KINDS, both, call, close, convert, every, every_call, function, qkv, to

import attnlib
from attnlib import functional, numpy_backend, torch_backend


def public(module):
    """The public functions that a module itself defines."""
    return {
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    }


def test_both_backends_define_exactly_the_public_names():
    names = set(functional.__all__)
    assert public(functional) == public(numpy_backend) == public(torch_backend) == names
    assert names <= set(attnlib.__all__)
    assert all(getattr(attnlib, name) is getattr(functional, name) for name in names)


@pytest.mark.parametrize("name", functional.__all__)
def test_signatures_are_equal(name):
    signatures = {inspect.signature(getattr(m, name)) for m in (functional, numpy_backend, torch_backend)}
    assert len(signatures) == 1


@pytest.mark.parametrize("name", functional.__all__)
def test_the_front_door_explains_and_is_thin(name):
    """A docstring; checks; one call of the backend, whose answer is returned as it is. No formula and no loop."""
    text = inspect.getsource(getattr(functional, name))
    body = ast.parse(text).body[0].body
    assert ast.get_docstring(ast.parse(text).body[0])
    *_, last = body
    assert isinstance(last, ast.Return)
    assert ast.unparse(last.value.func) == f"backend.{name}"
    forbidden = (ast.For, ast.While, ast.Import, ast.ImportFrom, ast.MatMult)
    assert not [node for node in ast.walk(ast.Module(body[1:], [])) if isinstance(node, forbidden)]
    assert len(body) <= 9


def test_every_public_function_is_called_here():
    assert {name for name, _, _ in every_call()} == set(functional.__all__)


@every
def test_values_are_equal(name, args, kwargs):
    numpy, tensor = (call(kind, function(name), *args, **kwargs) for kind in ("numpy", "torch"))
    assert numpy.dtype == tensor.dtype
    close(tensor, numpy)


def singles(value):
    return convert(value, lambda x: x.astype(np.float32) if x.dtype == np.float64 else x)


@both
@every
def test_float32_stays_float32(kind, name, args, kwargs):
    wide = call(kind, function(name), *args, **kwargs)
    got = call(kind, function(name), *singles(args), **singles(kwargs))
    assert got.dtype == (bool if wide.dtype == bool else np.float32)
    close(got, wide.astype(np.float64), 1e-5)


def fortran(x):
    return x.mT.copy().mT if x.ndim > 1 else x


def every_second(x):
    """The even entries of an array twice as long, whose odd entries are rubbish."""
    wide = np.full((*x.shape[:-1], 2 * x.shape[-1]), -7).astype(x.dtype)
    wide[..., ::2] = x
    return wide[..., ::2]


def backwards(x):
    return np.flip(np.flip(x).copy())


def from_the_middle(x):
    """Part of a longer buffer: the first entry has an offset."""
    return np.pad(x, [(1, 2)] * x.ndim)[(*[slice(1, -2)] * x.ndim,)]


LAYOUTS = [(kind, layout) for kind in KINDS for layout in (fortran, every_second, from_the_middle)]


@pytest.mark.parametrize(("kind", "layout"), [*LAYOUTS, ("numpy", backwards)])  # torch has no negative strides
@every
def test_any_strides(kind, layout, name, args, kwargs):
    wanted = call(kind, function(name), *args, **kwargs)

    def laid_out(x):
        same = layout(x)
        np.testing.assert_array_equal(same, x)
        return same if kind == "numpy" else torch.from_numpy(same)

    got = function(name)(*convert(args, laid_out), **convert(kwargs, laid_out))
    close(got, wanted)


@both
@every
def test_repeated_rows_may_be_one_row_in_memory(kind, name, args, kwargs):
    """broadcast_to and expand: an axis with stride 0."""

    def stretched(x):
        return np.broadcast_to(x[:1], x.shape)

    want = call(kind, function(name), *convert(args, lambda x: stretched(x).copy()), **kwargs)
    expand = stretched if kind == "numpy" else lambda x: torch.tensor(x[:1]).expand(x.shape)
    with np.errstate(all="raise"):
        got = function(name)(*convert(args, expand), **to(kind, kwargs))
    close(got, want)


@both
@every
def test_inputs_are_never_written_to(kind, name, args, kwargs):
    given, options = to(kind, args), to(kind, kwargs)
    arrays = [x for x in (*given, *options.values()) if isinstance(x, (np.ndarray, torch.Tensor))]
    before = [x.copy() if kind == "numpy" else x.clone() for x in arrays]
    versions = [x._version for x in arrays] if kind == "torch" else [0] * len(arrays)
    for x in arrays if kind == "numpy" else []:
        x.flags.writeable = False
    function(name)(*given, **options)
    for x, copy, version in zip(arrays, before, versions, strict=True):
        np.testing.assert_array_equal(x, copy)
        assert kind == "numpy" or x._version == version


@every
def test_answers_are_on_the_device_of_the_input(name, args, kwargs):
    """The meta device has shapes but no numbers, and mixes with no other device."""

    def on_meta(x):
        return torch.tensor(x, device="meta")

    lengths = name == "padding_mask" and "like" in kwargs
    given = to("torch", args) if lengths else convert(args, on_meta)
    got = function(name)(*given, **convert(kwargs, on_meta))
    assert got.device.type == "meta"
    assert tuple(got.shape) == call("numpy", function(name), *args, **kwargs).shape


def test_lists_are_taken_as_numpy_arrays():
    got = attnlib.attention([[1, 0]], [[1, 0], [0, 1]], [[1, 2], [3, 4]], mask=[[True, False]])
    np.testing.assert_array_equal(got, [[1, 2]])
    np.testing.assert_array_equal(attnlib.padding_mask([2, 0], 3), [[1, 1, 0], [0, 0, 0]])


def test_mixed_numpy_dtypes_give_the_wider_one():
    q, k, v = qkv()
    assert attnlib.attention(q.astype(np.float32), k, v.astype(np.float16)).dtype == np.float64
    half = [x.astype(np.float16) for x in (q, k)]
    assert attnlib.attention(*half, v.astype(np.float32)).dtype == np.float32


def test_torch_and_matplotlib_are_imported_only_when_needed():
    """A fresh process: the NumPy functions never load torch."""
    code = """
import sys, numpy as np, attnlib, attnlib.gradients
x = np.ones((2, 3, 4))
attnlib.multi_head_attention(x, *[np.ones((4, 4))] * 4, 2, causal=True)
attnlib.gradients.attention_vjp(x, x, x, x)
assert not {"torch", "matplotlib", "tqdm", "IPython"} & set(sys.modules), "too much was imported"
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no_such_name"):
        attnlib.no_such_name  # noqa: B018
