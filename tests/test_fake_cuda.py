"""Device mistakes, found without a GPU: every torch function on pretended CUDA tensors, and on real ones where present.

FakeTensorMode follows shapes and devices without computing, and raises where a CUDA tensor meets a CPU one. On a build
without CUDA, Python's indexing, `~` and `copy_` ask for the real device and fail, right or wrong: `PlainIndexing`
replaces them.
"""

import numpy as np
import pytest
import torch
from backends import call, close, convert, every, every_call, function, needs_cuda
from torch._subclasses import FakeTensorMode
from torch.overrides import TorchFunctionMode

from attnlib import functional


class PlainIndexing(TorchFunctionMode):
    """`x[...]` as select, narrow, slice steps and unsqueeze; `~x` as logical_not; `copy_`, which may cross devices, as
    an addition, which may not: attnlib copies within one device only."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.__getitem__:
            return index(*args)
        if func in (torch.Tensor.__invert__, torch.Tensor.bitwise_not):
            return args[0].logical_not()
        if func is torch.Tensor.copy_:
            return args[0].add_(args[1])  # of the same shape and on the same devices
        return func(*args, **(kwargs or {}))


def index(x, key):
    """x[key] for whole numbers, slices, None and one ellipsis."""
    key = list(key) if isinstance(key, tuple) else [key]
    taken = sum(item is not None and item is not Ellipsis for item in key)
    if Ellipsis in key:
        place = key.index(Ellipsis)
        key[place : place + 1] = [slice(None)] * (x.dim() - taken)
    axis = 0
    for item in key:
        if item is None:
            x, axis = x.unsqueeze(axis), axis + 1
        elif isinstance(item, slice):
            start, stop, step = item.indices(x.shape[axis])
            assert step == 1, "no function needs a step; add it here when one does"
            x, axis = x.narrow(axis, start, max(0, stop - start)), axis + 1
        elif isinstance(item, int):
            x = x.select(axis, item)
        else:
            raise NotImplementedError(f"indexing with {item!r}")
    return x


def pretend(name, args, kwargs, device="cuda"):
    """Shape and device of a function's answer on tensors that are said to be on `device`."""
    run = function(name) if isinstance(name, str) else name
    with FakeTensorMode(), PlainIndexing():
        tensor = lambda x: torch.empty(x.shape, dtype=torch.from_numpy(x).dtype, device=device)  # noqa: E731
        answer = run(*convert(args, tensor), **convert(kwargs, tensor))
        return tuple(answer.shape), answer.device.type, answer.dtype


def test_every_public_function_has_a_case():
    assert {name for name, _, _ in every_call()} == set(functional.__all__)


@every
def test_on_pretended_cuda(name, args, kwargs):
    want = call("torch", function(name), *args, **kwargs)
    shape, device, dtype = pretend(name, args, kwargs)
    assert (shape, device) == (want.shape, "cuda")
    assert dtype == torch.from_numpy(want).dtype


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@every
def test_on_pretended_cuda_in_other_precisions(name, args, kwargs, dtype):
    low = convert((args, kwargs), lambda x: x.astype(dtype) if x.dtype == np.float64 else x)
    assert pretend(name, *low)[1] == "cuda"


def on_the_cpu(x):
    return x + torch.ones(6)


MIXES = {
    "sum": on_the_cpu,
    "product": lambda x: x @ torch.ones(6, 2, dtype=x.dtype),
    "arange": lambda x: x * torch.arange(6),
    "where": lambda x: torch.where(torch.ones(4, 6, dtype=torch.bool), x, 0.0),
    "mask": lambda x: x.masked_fill(torch.zeros(4, 6, dtype=torch.bool), 0.0),
    "after indexing": lambda x: x[1:, None, ..., 2:] + torch.ones(4),
    "after not": lambda x: ~(x > 0) & torch.ones(6, dtype=torch.bool),
    "reads the data": lambda x: x if (x > 0).any() else -x,
}


@pytest.mark.parametrize("mix", MIXES.values(), ids=MIXES)
def test_a_mix_of_devices_is_seen(mix):
    """The net has no holes: each of these would fail, or wait for the device, on a real GPU. On the CPU each passes."""
    x = np.ones((4, 6))
    mix(torch.tensor(x))
    with pytest.raises(RuntimeError, match=r"same device|two devices|data-dependent|_local_scalar_dense"):
        pretend(mix, (x,), {})


@pytest.mark.parametrize("name", ["causal_mask", "sinusoidal_positions"])
def test_a_function_that_forgets_the_device_is_seen(name, monkeypatch):
    """The mistake itself, planted: the answer comes without `like`'s device, and attention with it fails."""
    from attnlib import torch_backend

    honest = getattr(torch_backend, name)
    monkeypatch.setattr(torch_backend, name, lambda T, d=None, like=None: honest(T, d, torch.empty(1)))
    if name == "sinusoidal_positions":
        assert pretend(name, (5, 8), {"like": np.ones(1)})[1] == "cpu"
        return
    q, k, v = (np.ones(shape) for shape in ((4, 6), (5, 6), (5, 7)))
    with pytest.raises(RuntimeError, match=r"same device|two devices"):
        pretend(lambda q, k, v: function("attention")(q, k, v, causal=True), (q, k, v), {})


KEYS = [0, -1, slice(1, 3), slice(None), None, (0, 1), (slice(2), None), (..., slice(1, None)), (None, ..., 0)]


@pytest.mark.parametrize("key", KEYS)
def test_plain_indexing_is_indexing(key):
    x = torch.arange(4 * 5 * 6).reshape(4, 5, 6)
    assert index(x, key).equal(x[key])


@needs_cuda
@every
def test_on_real_cuda(name, args, kwargs):
    """The same numbers as on the CPU, on the device of the input."""
    given, options = convert((args, kwargs), lambda x: torch.tensor(x, device="cuda"))
    got = function(name)(*given, **options)
    assert got.device.type == "cuda"
    close(got, call("torch", function(name), *args, **kwargs), 1e-10)


@needs_cuda
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@every
def test_on_real_cuda_in_other_precisions(name, args, kwargs, dtype):
    low = convert((args, kwargs), lambda x: torch.tensor(x).to(dtype) if x.dtype == np.float64 else torch.tensor(x))
    want = function(name)(*low[0], **low[1])
    moved = _cuda(low)
    close(function(name)(*moved[0], **moved[1]).float(), want.double(), 2e-2 if dtype == torch.float16 else 1e-4)


def _cuda(value):
    """The tensors inside tuples and dicts moved to the GPU."""
    if isinstance(value, torch.Tensor):
        return value.cuda()
    if isinstance(value, tuple):
        return tuple(map(_cuda, value))
    return {key: _cuda(item) for key, item in value.items()} if isinstance(value, dict) else value


@needs_cuda
@every
def test_gradients_on_real_cuda(name, args, kwargs):
    """Finite and equal to the CPU's, dead rows included."""
    gradients = []
    for device in ("cpu", "cuda"):
        leaves = []

        def leaf(x, device=device, leaves=leaves):
            x = torch.tensor(x, device=device)
            if x.is_floating_point():
                leaves.append(x.requires_grad_())
            return x

        answer = function(name)(*convert(args, leaf), **convert(kwargs, leaf))
        if not answer.requires_grad:
            return
        (answer * torch.arange(answer.numel(), device=device).reshape(answer.shape)).sum().backward()
        gradients.append([x.grad for x in leaves])
    for cpu, cuda in zip(*gradients, strict=True):
        assert cuda.isfinite().all()
        close(cuda, cpu, 1e-8)
