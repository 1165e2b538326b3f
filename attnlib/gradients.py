"""Backward passes derived by hand, in NumPy. Chapters 03 and 06 derive them; tests compare with torch.autograd.

A vjp (vector-Jacobian product) takes `grad`, the gradient of a loss with respect to a function's output, and returns
the gradient with respect to the inputs. No Jacobian is ever stored.
"""

import math

import numpy as np

from . import shapes
from .numpy_backend import _combine, _hide_dead, _hide_unseen, _in_working_precision, _weights, _working


def softmax_vjp(weights, grad, axis=-1):
    r"""Gradient at the scores: w * (g - sum_j w_j g_j), from the Jacobian dw_i/dx_j = w_i (delta_ij - w_j).

    Args:
        weights: (...), what softmax returned; rows that are all 0 (nothing to attend to) get gradient 0.
        grad: gradient of the loss with respect to the weights, of the same shape.
    Returns:
        Gradient with respect to the scores, of the same shape.
    Raises:
        TypeError: tensors (torch has autograd). ValueError: shapes that differ.
    """
    _numpy_only(weights=weights, grad=grad)
    weights, grad = shapes.as_numbers(weights=weights, grad=grad)
    axis = shapes.check_softmax(weights, None, axis, name="weights")
    shapes.check_shape("grad", grad, weights.shape)
    return _in_working_precision(lambda w, g: w * (g - (w * g).sum(axis=axis, keepdims=True)), weights, grad)


def additive_scores_vjp(q, k, W_a, U_a, v_a, grad):
    r"""Gradients of additive scores v_a . tanh(q W_a + k U_a) with respect to all five inputs.

    With h = tanh(q W_a + k U_a), one vector for each pair of a query and a key, and G = `grad`: the gradient before
    the tanh is D = G v_a (1 - h^2). Its sum over the keys, D_q, belongs to q W_a; that over the queries, D_k, to k U_a:
    dq = D_q W_a^T, dk = D_k U_a^T, dW_a = q^T D_q, dU_a = k^T D_k, and dv_a is the sum of G h over all pairs.

    Args:
        q, k, W_a, U_a, v_a: as in `attnlib.additive_scores`; U_a must be given.
        grad: (..., T_q, T_k), gradient of the loss with respect to the scores.
    Returns:
        (dq, dk, dW_a, dU_a, dv_a), of the shapes of q, k, W_a, U_a and v_a; the last three are sums over leading axes.
    Raises:
        TypeError: tensors (torch has autograd). ValueError: shapes that do not fit.
    """
    _numpy_only(q=q, k=k, W_a=W_a, U_a=U_a, v_a=v_a, grad=grad)
    q, k, W_a, U_a, v_a, grad = shapes.as_numbers(q=q, k=k, W_a=W_a, U_a=U_a, v_a=v_a, grad=grad)
    shapes.check_additive(q, k, W_a, U_a, v_a)
    shapes.check_shape("grad", grad, (*q.shape[:-1], k.shape[-2]))
    dtype = q.dtype
    q, k, W_a, U_a, v_a, grad = (x.astype(_working(dtype), copy=False) for x in (q, k, W_a, U_a, v_a, grad))
    h = np.tanh((q @ W_a)[..., :, None, :] + (k @ U_a)[..., None, :, :])  # (..., T_q, T_k, d_att)
    D = grad[..., None] * v_a * (1 - h**2)
    D_q, D_k = D.sum(axis=-2), D.sum(axis=-3)  # (..., T_q, d_att), (..., T_k, d_att)
    dW_a, dU_a = (_rows(x).T @ _rows(D_x) for x, D_x in ((q, D_q), (k, D_k)))
    dv_a = grad.ravel() @ _rows(h)
    return tuple(x.astype(dtype, copy=False) for x in (D_q @ W_a.T, D_k @ U_a.T, dW_a, dU_a, dv_a))


def attention_vjp(q, k, v, grad, mask=None, *, key_mask=None, causal=False, scale=None):
    r"""Gradients of attention with respect to q, k and v.

    With S = scale q k^T, W = softmax(S), O = W v and dO = `grad`:
    dv = W^T dO, dW = dO v^T, dS = softmax_vjp(W, dW), dq = scale dS k, dk = scale dS^T q.

    Args:
        q, k, v, mask, key_mask, causal, scale: as in `attnlib.attention`.
        grad: (..., T_q, d_v), gradient of the loss with respect to the output.
    Returns:
        (dq, dk, dv), of the shapes of q, k and v. Keys that no query may see, and queries that may see no key, get 0.
    Raises:
        TypeError: tensors (torch has autograd). ValueError: shapes that do not fit.
    """
    _numpy_only(q=q, k=k, v=v, grad=grad, mask=mask, key_mask=key_mask)
    q, k, v, grad = shapes.as_numbers(q=q, k=k, v=v, grad=grad)
    mask, key_mask = shapes.as_mask("mask", mask), shapes.as_mask("key_mask", key_mask)
    scale = shapes.check_attention(q, k, v, mask, key_mask, causal, scale)
    shapes.check_shape("grad", grad, (*q.shape[:-1], v.shape[-1]))
    dtype = q.dtype
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    q, k, v, grad = (x.astype(_working(dtype), copy=False) for x in (q, k, v, grad))
    mask = _combine(mask, key_mask, causal, q, k)
    if mask is not None:
        q, k, v = _hide_dead(q, mask), _hide_unseen(k, mask), _hide_unseen(v, mask)
    W = _weights(q, k, mask, scale)  # (..., T_q, T_k)
    dv = W.mT @ grad
    dS = softmax_vjp(W, grad @ v.mT)
    return tuple(x.astype(dtype, copy=False) for x in (scale * dS @ k, scale * dS.mT @ q, dv))


def _rows(x):
    """All leading axes as one: (..., d) -> (n, d)."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])  # -1 would not do for an empty x


def _numpy_only(**arguments):
    if shapes.same_library(**arguments) == "torch":
        raise TypeError(f"{', '.join(arguments)} must be NumPy arrays, got torch tensors: torch has autograd")
