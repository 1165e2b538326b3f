"""The counted costs, against PyTorch's layers, its FLOP counter, and the sizes of real tensors."""

import re
import subprocess
import sys

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import attnlib
from attnlib import costs
from attnlib.layers import KeyValueCache, MultiHeadAttention

T, D = 11, 24


def flops(function):
    """What PyTorch counts: two for each multiply-add. It knows no fused kernel of the CPU: plain steps instead."""
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        function()
    return counter.get_total_flops()


def parameters(module):
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("num_heads", [1, 6, 24])
def test_parameters_are_those_of_pytorch(num_heads, bias):
    want = parameters(torch.nn.MultiheadAttention(D, num_heads, bias=bias))
    assert costs.attention_parameters(D, num_heads, bias=bias) == want


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("g", [1, 2, 3, 6])
def test_parameters_with_shared_heads(g, bias):
    assert costs.attention_parameters(D, 6, g, bias) == parameters(MultiHeadAttention(D, 6, g, bias))


def test_parameters_by_hand():
    assert costs.attention_parameters(512, 8) == 4 * 512**2 == 1_048_576
    assert costs.attention_parameters(512, 8, bias=True) == 1_050_624
    assert costs.attention_parameters(512, 8, 1) == 512 * (512 + 64 + 64 + 512)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("g", [1, 3, 6])
def test_cache_bytes_are_those_of_real_caches(g, dtype):
    """5 layers, a batch of 2, 11 tokens one by one."""
    caches = []
    for _ in range(5):
        layer, cache = MultiHeadAttention(D, 6, g).to(dtype), KeyValueCache()
        for x in torch.ones(2, T, D, dtype=dtype).split(1, 1):
            layer(x, causal=True, cache=cache)
        caches.append(cache)
    real = sum(cache.keys.nbytes + cache.values.nbytes for cache in caches)
    assert costs.kv_cache_bytes(2, T, 5, g, D // 6, dtype.itemsize) == real


def test_cache_bytes_by_hand():
    assert costs.kv_cache_bytes(3, 5, 7, 2, 11) == 2 * 3 * 5 * 7 * 2 * 11 * 2
    assert costs.kv_cache_bytes(3, 5, 7, 2, 11, 4) == 2 * 3 * 5 * 7 * 2 * 11 * 4
    assert costs.kv_cache_bytes(1, 100, 4, 8, 64) == 4 * costs.kv_cache_bytes(1, 100, 4, 2, 64)


@pytest.mark.parametrize("h", [1, 3])
@pytest.mark.parametrize("fused", [False, True])
def test_multiply_adds_of_attention(h, fused):
    x = torch.ones(1, h, T, D // h)
    counted = flops((lambda: attnlib.attention(x, x, x)) if fused else (lambda: attnlib.attention_weights(x, x) @ x))
    assert 2 * costs.multiply_adds("attention", T, D) == counted


def test_multiply_adds_of_a_whole_layer():
    layer, x = MultiHeadAttention(D, 6), torch.ones(1, T, D)
    want = costs.multiply_adds("attention", T, D) + costs.multiply_adds("projections", T, D)
    assert 2 * want == flops(lambda: layer(x))


def test_multiply_adds_of_recurrence():
    """A GRU's steps are counted cell by cell."""
    cell, h = torch.nn.GRUCell(D, D), torch.zeros(1, D)

    def run():
        state = h
        for x in torch.ones(T, 1, D):
            state = cell(x, state)

    assert 2 * costs.multiply_adds("recurrent", T, D) == flops(run)


@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_multiply_adds_of_convolution(kernel):
    layer, x = torch.nn.Conv1d(D, D, kernel), torch.ones(1, D, T + kernel - 1)  # T outputs
    assert 2 * costs.multiply_adds("convolution", T, D, kernel) == flops(lambda: layer(x))


def test_multiply_adds_by_hand():
    assert costs.multiply_adds("attention", 3, 5) == 2 * 9 * 5
    assert costs.multiply_adds("projections", 3, 5) == 4 * 3 * 25
    assert costs.multiply_adds("recurrent", 3, 5) == 6 * 3 * 25
    assert costs.multiply_adds("convolution", 3, 5, kernel=7) == 7 * 3 * 25


def test_sequential_steps():
    assert [costs.sequential_steps(kind, 9) for kind in costs.KINDS] == [1, 9, 1]


def reaches(kernel, layers, dilated, length):
    """Whether the last output of a stack of causal convolutions has a gradient at the first token."""
    x = torch.zeros(1, 1, length, requires_grad=True)
    y = x
    for i in range(layers):
        step = kernel**i if dilated else 1
        padded = torch.nn.functional.pad(y, (step * (kernel - 1), 0))
        y = torch.nn.functional.conv1d(padded, torch.ones(1, 1, kernel), dilation=step)
    y[0, 0, -1].backward()
    return x.grad[0, 0, 0].item() > 0


@pytest.mark.parametrize("dilated", [False, True])
@pytest.mark.parametrize("kernel", [2, 3, 5])
@pytest.mark.parametrize("length", [2, 3, 5, 9, 10, 17, 27, 28])
def test_path_length_of_convolution(kernel, dilated, length):
    """One layer less does not reach."""
    layers = costs.path_length("convolution", length, kernel, dilated)
    assert reaches(kernel, layers, dilated, length)
    assert not reaches(kernel, layers - 1, dilated, length)


def test_path_length_of_the_others():
    assert [costs.path_length("attention", n) for n in (1, 2, 30)] == [1, 1, 1]
    assert [costs.path_length("recurrent", n) for n in (1, 2, 30)] == [0, 1, 29]
    assert costs.path_length("convolution", 1, 3) == 0


def allocated(function):
    """Bytes of all tensors that a call makes."""
    with torch.profiler.profile(profile_memory=True) as profile:
        function()
    return sum(max(0, event.self_cpu_memory_usage) for event in profile.events())


@pytest.mark.parametrize(("h", "dtype"), [(1, torch.float32), (3, torch.float32), (3, torch.float64)])
def test_activations_are_what_pytorch_allocates(h, dtype):
    W_q, W_k, W_v, W_o = torch.ones(4, D, D, dtype=dtype)
    x = torch.ones(T, D, dtype=dtype)

    def layer():
        q, k, v = ((x @ W).reshape(T, h, D // h).transpose(0, 1) for W in (W_q, W_k, W_v))
        mixed = torch.empty(T, h, D // h, dtype=dtype)
        torch.matmul(torch.softmax(q @ k.mT, -1), v, out=mixed.transpose(0, 1))
        return mixed.reshape(T, D) @ W_o

    layer()
    assert costs.activation_bytes("attention", T, D, h, bytes_per_number=dtype.itemsize) == allocated(layer)


def test_activations_of_a_fused_kernel_grow_linearly():
    """A number a query more than q, k, v and two outputs; the kernel of the CPU adds buffers that do not grow."""
    n, d = 2048, 64
    q, k, v = torch.ones(3, 1, 2, n, d // 2)
    fused = allocated(lambda: attnlib.attention(q, k, v))
    counted = costs.activation_bytes("attention", n, d, 2, fused=True) - 4 * 4 * n * d  # q, k, v and W_o are not in it
    assert counted <= fused < costs.activation_bytes("attention", n, d, 2) / 10


def test_activations_by_hand():
    assert costs.activation_bytes("attention", 3, 10, 2) == 4 * (5 * 3 * 10 + 2 * 2 * 9)
    assert costs.activation_bytes("attention", 3, 10, 2, fused=True, bytes_per_number=2) == 2 * (5 * 3 * 10 + 2 * 3)
    assert costs.activation_bytes("recurrent", 3, 5) == costs.activation_bytes("convolution", 3, 5) == 4 * 3 * 5


def test_works_without_torch():
    code = (
        "import sys; sys.modules['torch'] = None; from attnlib import costs\n"
        "assert costs.attention_parameters(6, 3) == 144 and costs.multiply_adds('attention', 3, 5) == 90"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


BAD = {
    "d_model": (lambda: costs.attention_parameters(0, 1), ValueError, "d_model must be at least 1, got 0"),
    "heads": (lambda: costs.attention_parameters(24, 5), ValueError, "num_heads must divide d_model = 24, got 5"),
    "groups": (
        lambda: costs.attention_parameters(24, 6, 4), ValueError,
        "num_heads must be a multiple of num_kv_heads, got 6 and 4",
    ),
    "bias": (lambda: costs.attention_parameters(24, 6, None, 1), TypeError, "bias must be True or False, got int 1"),
    "length": (lambda: costs.kv_cache_bytes(1, -1, 2, 3, 4), ValueError, "length must be at least 0, got -1"),
    "bytes": (
        lambda: costs.kv_cache_bytes(1, 2, 3, 4, 5, 0.5), TypeError,
        "bytes_per_number must be a whole number, got float 0.5",
    ),
    "kind": (
        lambda: costs.multiply_adds("mlp", 3, 5), ValueError,
        "kind must be one of 'attention', 'projections', 'recurrent', 'convolution', got 'mlp'",
    ),
    "kernel": (lambda: costs.multiply_adds("convolution", 3, 5), TypeError, "kernel must be a whole number, got None"),
    "kernel-too-many": (
        lambda: costs.multiply_adds("attention", 3, 5, 3), ValueError,
        "kernel must be None for the kind 'attention', got 3",
    ),
    "T": (lambda: costs.multiply_adds("attention", 3.5, 5), TypeError, "T must be a whole number, got float 3.5"),
    "d": (lambda: costs.multiply_adds("attention", 3, 0), ValueError, "d must be at least 1, got 0"),
    "steps-kind": (
        lambda: costs.sequential_steps("projections", 3), ValueError, "kind must be one of 'attention', 'recurrent',",
    ),
    "steps-T": (lambda: costs.sequential_steps("recurrent", 0), ValueError, "T must be at least 1, got 0"),
    "path-kernel": (lambda: costs.path_length("convolution", 3, 1), ValueError, "kernel must be at least 2, got 1"),
    "dilated": (
        lambda: costs.path_length("recurrent", 3, dilated=True), ValueError,
        "dilated must be False for the kind 'recurrent', got True",
    ),
    "tables": (
        lambda: costs.activation_bytes("recurrent", 3, 4, fused=True), ValueError,
        "fused and num_heads must be False and 1 for the kind 'recurrent', got True and 1",
    ),
    "table-heads": (lambda: costs.activation_bytes("attention", 3, 4, 3), ValueError, "num_heads must divide d = 4"),
    "table-kind": (
        lambda: costs.activation_bytes("mlp", 3, 4), ValueError,
        "kind must be one of 'attention', 'recurrent', 'convolution', got 'mlp'",
    ),
    "dilated-flag": (
        lambda: costs.path_length("convolution", 3, 2, dilated=1), TypeError,
        "dilated must be True or False, got int 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name):
    call, error, message = BAD[name]
    with pytest.raises(error, match=re.escape(message)):
        call()
