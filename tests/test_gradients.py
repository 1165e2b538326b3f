"""Gradients: the hand-derived ones against autograd, autograd against differences; dead rows and hidden keys."""

import numpy as np
import pytest
import torch
from backends import D_K, EVERY, KEY_MASK, T_K, T_Q, B, H, back, close, function, qkv, random_mask, to, widths
from test_attention import HIDDEN, OPTIONS, hidden_keys

import attnlib
from attnlib.gradients import additive_scores_vjp, attention_vjp, softmax_vjp

options = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def torch_gradients(name, q, k, v, grad, **options):
    """dq, dk, dv of the torch function `name` by autograd."""
    leaves = [torch.tensor(x, requires_grad=True) for x in (q, k, v)]
    function(name)(*leaves, **to("torch", options)).backward(torch.tensor(grad))
    return [back(leaf.grad) for leaf in leaves]


def output_gradient(q, v, seed=20):
    return np.random.default_rng(seed).normal(size=(*q.shape[:-1], v.shape[-1]))


@pytest.mark.parametrize("axis", [-1, -2, 0])
def test_softmax_vjp_equals_autograd(axis):
    rng = np.random.default_rng(0)
    scores, grad = rng.normal(size=(2, B, T_Q, T_K))
    leaf = torch.tensor(scores, requires_grad=True)
    torch.softmax(leaf, axis).backward(torch.tensor(grad))
    close(softmax_vjp(attnlib.softmax(scores, axis=axis), grad, axis=axis), leaf.grad)


def test_softmax_vjp_by_hand():
    """The Jacobian is diag(w) - w w^T; a row of zeros passes nothing."""
    w, g = np.array([0.2, 0.3, 0.5]), np.array([1.0, -2.0, 4.0])
    close(softmax_vjp(w, g), (np.diag(w) - np.outer(w, w)) @ g)
    np.testing.assert_array_equal(softmax_vjp(np.zeros((2, 3)), np.ones((2, 3))), np.zeros((2, 3)))


def additive(seed=0, leading=(B,), t_q=T_Q, t_k=T_K):
    """q, k, W_a, U_a, v_a of pairwise different sizes, and a gradient of the scores."""
    rng = np.random.default_rng(seed)
    shapes = (*leading, t_q, 3), (*leading, t_k, 2), (3, 7), (2, 7), (7,), (*leading, t_q, t_k)
    return [rng.normal(size=shape) for shape in shapes]


@pytest.mark.parametrize("leading", [(), (B,), (2, 3)])
def test_additive_scores_vjp_equals_autograd(leading):
    *arrays, grad = additive(11, leading)
    leaves = [torch.tensor(x, requires_grad=True) for x in arrays]
    attnlib.additive_scores(*leaves).backward(torch.tensor(grad))
    for got, leaf in zip(additive_scores_vjp(*arrays, grad), leaves, strict=True):
        close(got, leaf.grad)


def test_additive_scores_vjp_by_hand():
    """One feature everywhere: v (1 - h^2) times what the weight is multiplied with."""
    q, k, W, U, v, g = 0.5, -2.0, 1.5, 0.25, 3.0, 2.0
    h = np.tanh(q * W + k * U)
    inner = g * v * (1 - h**2)
    got = additive_scores_vjp(*(np.full(shape, x) for x, shape in (
        (q, (1, 1)), (k, (1, 1)), (W, (1, 1)), (U, (1, 1)), (v, (1,)), (g, (1, 1))
    )))
    close(np.concatenate([x.ravel() for x in got]), np.array([inner * W, inner * U, inner * q, inner * k, g * h]))


def test_additive_scores_vjp_keeps_dtype_and_takes_empty_inputs():
    for dtype in (np.float16, np.float32):
        arrays = [x.astype(dtype) for x in additive(12)]
        for got, x in zip(additive_scores_vjp(*arrays), arrays, strict=False):
            assert got.dtype == dtype
            assert got.shape == x.shape
    for sizes in ({"t_k": 0}, {"t_q": 0}, {"leading": (0,)}):
        arrays = additive(13, **sizes)
        got = additive_scores_vjp(*arrays)
        assert [x.shape for x in got] == [x.shape for x in arrays[:5]]
        assert not any(x.any() for x in got)


@options
@widths
def test_attention_vjp_equals_autograd(options, d_v):
    q, k, v = qkv(1, d_v=d_v)
    grad = output_gradient(q, v)
    by_torch = torch_gradients("attention", q, k, v, grad, **options)
    for got, want in zip(attention_vjp(q, k, v, grad, **options), by_torch, strict=True):
        close(got, want)


@pytest.mark.parametrize("leading", [(), (2,), (2, 3, 2)])
@pytest.mark.parametrize(("t_q", "t_k"), [(5, 4), (4, 5), (5, 5)])
@widths
def test_attention_vjp_of_any_leading_axes_and_causal_lengths(leading, t_q, t_k, d_v):
    q, k, v = qkv(2, leading, t_q=t_q, t_k=t_k, d_v=d_v)
    grad = output_gradient(q, v)
    by_torch = torch_gradients("attention", q, k, v, grad, causal=True)
    for got, want in zip(attention_vjp(q, k, v, grad, causal=True), by_torch, strict=True):
        close(got, want)


def test_attention_vjp_equals_differences():
    """Not by way of torch: one small step in each direction."""
    arrays, mask = qkv(3, ()), random_mask(4, T_Q, T_K)
    grad = output_gradient(arrays[0], arrays[2])
    for which, got in enumerate(attention_vjp(*arrays, grad, mask)):
        want = np.empty_like(got)
        for place in np.ndindex(got.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [x.copy() for x in arrays]
                moved[which][place] += step
                ends.append((attnlib.attention(*moved, mask) * grad).sum())
            want[place] = (ends[0] - ends[1]) / 2e-6
        close(got, want, 1e-8)


def test_vjps_keep_dtype_promote_integers_and_leave_their_inputs_alone():
    arrays = [x.astype(np.float32) for x in (*qkv(5), output_gradient(*qkv(5)[::2]))]
    copies = [x.copy() for x in arrays]
    for x in arrays:
        x.flags.writeable = False
    for got, x in zip(attention_vjp(*arrays, key_mask=KEY_MASK), arrays, strict=False):
        assert got.dtype == np.float32
        assert got.shape == x.shape
    for x, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(x, copy)
    ones = [np.ones(shape, dtype=int) for shape in ((4, 6), (5, 6), (5, 7), (4, 7))]
    assert all(x.dtype == np.float64 for x in attention_vjp(*ones))


def test_attention_vjp_of_empty_inputs():
    for sizes in ({"t_k": 0}, {"t_q": 0}, {"leading": (0, H)}):
        q, k, v = qkv(6, **sizes)
        got = attention_vjp(q, k, v, output_gradient(q, v))
        assert [x.shape for x in got] == [q.shape, k.shape, v.shape]
        assert not any(x.any() for x in got)


@pytest.mark.parametrize("junk", [np.nan, np.inf])
@pytest.mark.parametrize("options", HIDDEN.values(), ids=HIDDEN)
@widths
def test_hidden_keys_may_hold_anything_and_have_gradient_zero(options, junk, d_v):
    q, k, v = qkv(7, d_v=d_v)
    grad, hidden = output_gradient(q, v), hidden_keys(options)
    clean = attention_vjp(q, k, v, grad, **options)
    k[hidden] = v[hidden] = junk
    names = ["attention"] + ["blockwise_attention"] * ("mask" not in options)
    for dq, dk, dv in (
        attention_vjp(q, k, v, grad, **options),
        *(torch_gradients(name, q, k, v, grad, **options) for name in names),
    ):
        for got, want in zip((dq, dk, dv), clean, strict=True):
            close(got, want)
        assert (dk[hidden] == 0).all()
        assert (dv[hidden] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@options
@widths
def test_gradients_are_finite_and_dead_rows_pass_none(options, dtype, d_v):
    leaves = [torch.tensor(x).to(dtype).requires_grad_() for x in qkv(8, d_v=d_v)]
    masks = to("torch", options)
    attnlib.attention(*leaves, **masks).sum().backward()
    assert all(leaf.grad.isfinite().all() for leaf in leaves)
    dead = (attnlib.attention_weights(*leaves[:2], **masks) == 0).all(-1)
    assert (leaves[0].grad[dead] == 0).all()


@widths
@pytest.mark.parametrize("name", ["attention", "blockwise_attention"])
def test_causal_with_more_queries_than_keys_has_finite_gradients(name, d_v):
    q, k, v = qkv(9, t_q=5, t_k=3, d_v=d_v)
    dq, dk, dv = torch_gradients(name, q, k, v, output_gradient(q, v), causal=True)
    assert all(np.isfinite(x).all() for x in (dq, dk, dv))
    assert (dq[..., :2, :] == 0).all()
    assert (dq[..., 3:, :] != 0).any()


WITHOUT_NUMBERS = ("causal_mask", "padding_mask", "sinusoidal_positions")


@pytest.mark.parametrize(
    ("name", "args", "kwargs"), [case for case in EVERY if not case.id.startswith(WITHOUT_NUMBERS)]
)
def test_every_torch_function_is_differentiable(name, args, kwargs):
    """Gradients of all floating inputs, against differences."""
    args, kwargs = to("torch", args), to("torch", kwargs)
    places = [i for i, x in enumerate(args) if isinstance(x, torch.Tensor) and x.is_floating_point()]

    def of_leaves(*leaves):
        full = list(args)
        for place, leaf in zip(places, leaves, strict=True):
            full[place] = leaf
        return function(name)(*full, **kwargs)

    leaves = [args[place].requires_grad_() for place in places]
    assert of_leaves(*leaves).requires_grad
    assert torch.autograd.gradcheck(of_leaves, leaves, fast_mode=True)


def test_no_gradient_is_recorded_where_none_is_asked():
    q, k, v = to("torch", qkv(10))
    assert not attnlib.attention(q, k, v).requires_grad
    with torch.no_grad():
        assert not attnlib.attention(q.requires_grad_(), k, v).requires_grad


def test_shapes_of_the_gradient_are_checked():
    q, k, v = qkv(12)
    with pytest.raises(ValueError, match=r"grad.*\(2, 3, 4, 7\).*\(2, 3, 4, 6\)"):
        attention_vjp(q, k, v, np.ones((B, H, T_Q, D_K)))
    with pytest.raises(ValueError, match=r"grad.*\(4, 5\).*\(5, 4\)"):
        softmax_vjp(np.ones((T_Q, T_K)), np.ones((T_K, T_Q)))
    *arrays, grad = additive(14)
    with pytest.raises(ValueError, match=r"grad.*\(2, 4, 5\).*\(2, 5, 4\)"):
        additive_scores_vjp(*arrays, grad.mT)
    arrays[3] = arrays[3].T
    with pytest.raises(ValueError, match=r"U_a.*\(7, 2\)"):
        additive_scores_vjp(*arrays, grad)
