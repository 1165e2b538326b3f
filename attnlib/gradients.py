"""Backward passes derived by hand, in NumPy. Chapter 06 derives them; the tests check each against torch.autograd.

A vjp (vector-Jacobian product) takes `grad`, the gradient of a loss with respect to a function's output, and returns
the gradient with respect to the inputs. No Jacobian is ever stored.
"""

from . import shapes
from .numpy_backend import _combine, _hide_dead, _hide_unseen, _weights, _working


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
    return weights * (grad - (weights * grad).sum(axis=axis, keepdims=True))


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
    dtype, scale = q.dtype, q.shape[-1] ** -0.5 if scale is None else scale
    q, k, v, grad = (x.astype(_working(dtype), copy=False) for x in (q, k, v, grad))
    mask = _combine(mask, key_mask, causal, q, k)
    if mask is not None:
        q, k, v = _hide_dead(q, mask), _hide_unseen(k, mask), _hide_unseen(v, mask)
    W = _weights(q, k, mask, scale)  # (..., T_q, T_k)
    dv = W.mT @ grad
    dS = softmax_vjp(W, grad @ v.mT)
    return tuple(x.astype(dtype, copy=False) for x in (scale * dS @ k, scale * dS.mT @ q, dv))


def _numpy_only(**arguments):
    if shapes.same_library(**arguments) == "torch":
        raise TypeError(f"{', '.join(arguments)} must be NumPy arrays, got torch tensors: torch has autograd")
