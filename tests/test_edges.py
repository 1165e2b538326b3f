"""Inputs that once went wrong: small integer types, half precision, hidden NaN, odd kinds of arguments."""

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import torch

import attnlib
from attnlib.gradients import attention_vjp, softmax_vjp

RNG = np.random.default_rng(0)
Q, K, V = RNG.normal(size=(2, 3, 4, 6)), RNG.normal(size=(2, 3, 5, 6)), RNG.normal(size=(2, 3, 5, 7))
TENSORS = [torch.tensor(x) for x in (Q, K, V)]


# --- numbers of small or odd types ---


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16, np.uint64])
def test_numpy_integers_count_like_python_integers(dtype):
    number = dtype(3)
    like = torch.zeros(1)
    for other in (2, 4, number):
        assert np.array_equal(attnlib.causal_mask(number, other), attnlib.causal_mask(3, int(other)))
        assert torch.equal(attnlib.causal_mask(other, number, like), attnlib.causal_mask(int(other), 3, like))
    x = RNG.normal(size=(3, 510))
    assert np.array_equal(attnlib.split_heads(x, number), attnlib.split_heads(x, 3))
    assert np.array_equal(attnlib.sinusoidal_positions(number, number), attnlib.sinusoidal_positions(3, 3))
    assert attnlib.padding_mask([1, 2], number).shape == (2, 3)
    assert attnlib.repeat_kv(Q, dtype(6)).shape == (2, 6, 4, 6)
    assert np.array_equal(attnlib.softmax(Q, axis=dtype(1)), attnlib.softmax(Q, axis=1))


def test_a_small_block_size_type_does_not_overflow():
    q, k, v = (RNG.normal(size=(320, d)) for d in (6, 6, 7))
    expected = attnlib.attention(q, k, v)
    for size in (np.uint8(200), np.int8(100)):
        assert np.allclose(attnlib.blockwise_attention(q, k, v, block_size=size), expected)


@pytest.mark.parametrize("width", [np.int8(100), np.float16(300), np.float32(1e30), Fraction(1, 2), 1e200])
def test_a_width_is_taken_at_its_value(width):
    q, k = Q / 1000, Q / 1000 + 0.0
    expected = -(((q[..., :, None, :] - k[..., None, :, :]) / float(width)) ** 2).sum(-1) / 2
    if np.isfinite(expected).all():
        assert np.allclose(attnlib.gaussian_scores(q, k, width), expected)
        assert np.allclose(attnlib.gaussian_scores(torch.tensor(q), torch.tensor(k), width), expected)


@pytest.mark.parametrize("inputs", [(Q, K, V), TENSORS], ids=["numpy", "torch"])
def test_a_scale_is_taken_at_its_value(inputs):
    half = attnlib.attention(*inputs, scale=0.5)
    assert np.array_equal(attnlib.attention(*inputs, scale=Fraction(1, 2)), half)
    assert np.array_equal(attnlib.attention(*inputs, scale=np.float16(0.5)), half)
    with pytest.raises(ValueError, match=r"scale must be finite, got inf"):
        attnlib.attention(*inputs, scale=10**400)
    with pytest.raises(ValueError, match=r"width must be finite, got inf"):
        attnlib.gaussian_scores(*inputs[:2], width=10**400)


def test_the_seed_is_checked_before_anything_is_seeded():
    attnlib.seed_everything(np.int64(3))
    for seed, error in ((-1, ValueError), (2**32, ValueError), (1.5, TypeError), ("a", TypeError), (None, TypeError)):
        with pytest.raises(error, match="seed must be"):
            attnlib.seed_everything(seed)
    torch.use_deterministic_algorithms(False)


# --- half precision ---


def test_the_backward_pass_of_halves_is_computed_in_float32():
    f = np.float16
    q, v = np.full((4, 6), 300, f), RNG.normal(size=(5, 7)).astype(f)
    k = np.concatenate([q[:2], np.zeros((3, 6), f)])
    grad = np.ones((4, 7), f)
    with np.errstate(all="raise", under="ignore"):
        found = attention_vjp(q, k, v, grad)
    tensors = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (q, k, v)]
    wanted = torch.autograd.grad(attnlib.attention(*tensors), tensors, torch.tensor(grad).double())
    for x, y in zip(found, wanted, strict=True):
        assert x.dtype == f
        assert np.allclose(x, y, rtol=2e-3, atol=2e-3)


def test_the_backward_pass_of_softmax_too():
    """65000 less the weighted mean -63700 is no float16; a hundredth of it is."""
    w, g = np.array([0.01, 0.99], np.float16), np.array([65000, -65000], np.float16)
    found, wanted = softmax_vjp(w, g), softmax_vjp(w.astype(np.float64), g.astype(np.float64))
    assert found.dtype == np.float16
    assert np.allclose(found, wanted, rtol=1e-3)


def test_the_type_of_the_scale_does_not_change_the_type_of_the_gradient():
    q, k, v = (x.astype(np.float32) for x in (Q, K, V))
    grads = attention_vjp(q, k, v, np.ones((2, 3, 4, 7), np.float32), scale=np.float64(0.5))
    assert [x.dtype for x in grads] == [np.float32] * 3


# --- what nobody may see ---


@pytest.mark.parametrize("hidden", [np.nan, np.inf])
def test_padded_memory_may_hold_anything(hidden):
    x, memory, *weights = (RNG.normal(size=s) for s in ((2, 4, 6), (2, 5, 6), (6, 6), (6, 6), (6, 6), (6, 6)))
    key_mask = np.array([[True] * 5, [True, True, False, False, True]])
    clean = attnlib.multi_head_attention(x, *weights, 2, memory=memory, key_mask=key_mask)
    memory[1, 2:4] = hidden
    with np.errstate(all="raise", under="ignore"):
        assert np.allclose(attnlib.multi_head_attention(x, *weights, 2, memory=memory, key_mask=key_mask), clean)
    tensors = [torch.tensor(a, requires_grad=True) for a in (x, *weights, memory)]
    out = attnlib.multi_head_attention(*tensors[:-1], 2, memory=tensors[-1], key_mask=torch.tensor(key_mask))
    assert np.allclose(out.detach(), clean)
    for grad in torch.autograd.grad(out.sum(), tensors):
        assert torch.isfinite(grad).all()


@pytest.mark.parametrize("function", ["attention", "attention_weights", "blockwise_attention"])
@pytest.mark.parametrize("hidden", [torch.nan, torch.inf])
def test_a_query_that_sees_nothing_may_hold_anything(function, hidden):
    """A batch padded on the left: the first queries are garbage, and see nothing."""
    q, k, v = (torch.tensor(RNG.normal(size=(2, 4, 6))) for _ in range(3))
    key_mask = torch.tensor([[True] * 4, [False, False, True, True]])
    q[1, :2] = hidden
    tensors = [x.requires_grad_() for x in (q, k, v)][: 2 if function == "attention_weights" else 3]
    out = getattr(attnlib, function)(*tensors, key_mask=key_mask, causal=True)
    assert (out[1, :2] == 0).all()
    for grad in torch.autograd.grad(out.square().sum(), tensors):
        assert torch.isfinite(grad).all()
    arrays = [x.detach().numpy() for x in tensors]
    with np.errstate(all="raise", under="ignore"):
        same = getattr(attnlib, function)(*arrays, key_mask=key_mask.numpy(), causal=True)
        assert np.allclose(same, out.detach())
        grads = attention_vjp(*(x.detach().numpy() for x in (q, k, v)), np.ones((2, 4, 6)), None,
                              key_mask=key_mask.numpy(), causal=True)
    assert all(np.isfinite(grad).all() for grad in grads)


# --- kinds of arguments ---


@pytest.mark.parametrize(("bad", "message"), [
    ([TENSORS[0][0], TENSORS[0][1]], r"q must be one torch tensor, got a list of tensors"),
    (TENSORS[0].to_sparse(), r"q must be a dense tensor, got torch.sparse_coo"),
    (TENSORS[0].to(torch.float8_e5m2), r"q must be a floating-point tensor, got torch.float8_e5m2"),
])
def test_tensors_of_other_kinds_are_refused(bad, message):
    with pytest.raises(TypeError, match=message):
        attnlib.attention(bad, *TENSORS[1:])


def test_lengths_of_every_integer_type():
    wanted = [[True, False, False], [True, True, False]]
    for dtype in (">i4", "u1", "u8", "i2"):
        assert attnlib.padding_mask(np.array([1, 2], dtype), 3).tolist() == wanted
    for dtype in (torch.uint8, torch.uint16, torch.int32, torch.uint64):
        assert attnlib.padding_mask(torch.tensor([1, 2], dtype=dtype), 3).tolist() == wanted


def test_empty_lists_have_the_dtype_that_is_wanted():
    assert attnlib.padding_mask([], 3).shape == (0, 3)
    assert attnlib.attention(np.ones((1, 2)), np.ones((0, 2)), np.ones((0, 3)), key_mask=[]).tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("like", [3, [1.0], np.array(["a"]), np.array([1j]), "cpu"])
def test_like_must_be_an_array(like):
    for call in (lambda: attnlib.causal_mask(2, 3, like), lambda: attnlib.sinusoidal_positions(2, 3, like),
                 lambda: attnlib.padding_mask([1], 3, like)):
        with pytest.raises(TypeError, match="like must be a NumPy array"):
            call()


def test_positions_follow_like_and_not_the_default_device():
    with torch.device("meta"):
        assert attnlib.sinusoidal_positions(3, 4, torch.zeros(1, device="cpu")).device.type == "cpu"


def test_a_broken_repr_does_not_hide_the_error():
    class Broken:
        def __repr__(self):
            raise RuntimeError

    with pytest.raises(TypeError, match="q must be a NumPy array or a torch tensor, got Broken"):
        attnlib.attention(Broken(), K, V)


def test_the_gradient_names_its_own_argument():
    with pytest.raises(ValueError, match=r"axis must be one of the 2 axes of weights, got 3"):
        attnlib.gradients.softmax_vjp(np.ones((2, 3)), np.ones((2, 3)), axis=3)


def test_a_star_import_needs_neither_torch_nor_matplotlib():
    code = (
        "import sys; sys.modules['torch'] = sys.modules['matplotlib'] = None\n"
        "from attnlib import *\nimport attnlib\n"
        "assert attention is attnlib.attention and 'attention' in dir(attnlib)\n"
        "assert '__version__' in dir(attnlib)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
