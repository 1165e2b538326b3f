"""The formulas in plain NumPy: the specification that everything else is tested against.

Read attnlib.functional for shapes and meanings; the inputs that arrive here have passed its checks.
"""

import numpy as np

# --- softmax and attention ---------------------------------------------------------------------------------------


def softmax(scores, mask=None, axis=-1):
    x = np.array(scores, dtype=_working(scores.dtype))  # a copy: the steps reuse its memory
    return _softmax_in_place(x, mask, axis).astype(scores.dtype, copy=False)


def attention_weights(q, k, mask=None, *, key_mask=None, causal=False, scale=None):
    mask = _combine(mask, key_mask, causal, q, k)
    return _in_working_precision(lambda q, k: _weights(q, k, mask, scale), q, k)


def attention(q, k, v, mask=None, *, key_mask=None, causal=False, scale=None):
    mask = _combine(mask, key_mask, causal, q, k)
    if mask is not None:
        v = _hide_unseen(v, mask)
    return _in_working_precision(lambda q, k, v: _weights(q, k, mask, scale) @ v, q, k, v)  # (..., T_q, d_v)


def _weights(q, k, mask, scale):
    if mask is not None:
        q, k = _hide_dead(q, mask), _hide_unseen(k, mask)
    scores = scaled_dot_scores(q, k, scale)  # (..., T_q, T_k)
    return _softmax_in_place(scores, mask)


def _softmax_in_place(x, mask, axis=-1):
    if mask is not None:
        np.copyto(x, -np.inf, where=~mask)
    with np.errstate(over="ignore", under="ignore"):  # a difference beyond all floats still means a weight of 0
        x -= _finite(x.max(axis=axis, keepdims=True, initial=-np.inf))
        np.exp(x, out=x)
    x /= _nonzero(x.sum(axis=axis, keepdims=True))
    return x


def blockwise_attention(q, k, v, *, block_size=512, key_mask=None, causal=False, scale=None):
    """Online softmax: keep, for each query, the largest score so far, the sum of exponentials and the weighted sum."""
    dtype, working = v.dtype, _working(v.dtype)
    T_q, T_k = q.shape[-2], k.shape[-2]
    scale = working(q.shape[-1] ** -0.5 if scale is None else scale)
    if key_mask is not None:
        key_mask = _key_mask_as_mask(key_mask, q.ndim)  # (B, 1, ..., 1, T_k)
    out = np.zeros((*q.shape[:-1], v.shape[-1]), dtype)
    for i in range(0, T_q, block_size):
        q_i = q[..., i : i + block_size, :].astype(working, copy=False) * scale
        last_key = i + q_i.shape[-2] - 1 + T_k - T_q if causal else T_k - 1  # the last one that this block may see
        top = np.full((*q_i.shape[:-1], 1), -np.inf, working)
        total = np.zeros_like(top)
        mixed = np.zeros((*q_i.shape[:-1], v.shape[-1]), working)
        for j in range(0, last_key + 1, block_size):
            k_j, v_j = (x[..., j : j + block_size, :].astype(working, copy=False) for x in (k, v))
            mask = None if key_mask is None else key_mask[..., j : j + block_size]
            if causal and j + k_j.shape[-2] - 1 > i + T_k - T_q:  # the diagonal runs through this block
                rows, columns = i + np.arange(q_i.shape[-2])[:, None], j + np.arange(k_j.shape[-2])
                diagonal = columns <= rows + T_k - T_q
                mask = diagonal if mask is None else mask & diagonal
            if mask is None:
                scores = q_i @ k_j.mT
            else:
                k_j, v_j = _hide_unseen(k_j, mask), _hide_unseen(v_j, mask)
                scores = _hide_dead(q_i, mask) @ k_j.mT
                np.copyto(scores, -np.inf, where=~mask)
            new_top = np.maximum(top, scores.max(axis=-1, keepdims=True, initial=-np.inf))
            with np.errstate(over="ignore", under="ignore"):  # as in softmax
                scores -= _finite(new_top)
                e = np.exp(scores, out=scores)
                shrink = np.exp(top - _finite(new_top))  # what was summed so far used the old top
            total = total * shrink + e.sum(axis=-1, keepdims=True)
            mixed = mixed * shrink + e @ v_j
            top = new_top
        out[..., i : i + block_size, :] = mixed / _nonzero(total)
    return out


# --- scores ------------------------------------------------------------------------------------------------------


def dot_scores(q, k):
    return _in_working_precision(lambda q, k: q @ k.mT, q, k)


def scaled_dot_scores(q, k, scale=None):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return _in_working_precision(lambda q, k: (q * q.dtype.type(scale)) @ k.mT, q, k)


def gaussian_scores(q, k, width=1.0):
    def scores(q, k):
        difference = q[..., :, None, :] - k[..., None, :, :]  # (..., T_q, T_k, d)
        return -((difference / q.dtype.type(width)) ** 2).sum(axis=-1) / 2

    return _in_working_precision(scores, q, k)


def general_scores(q, k, W_a):
    return _in_working_precision(lambda q, k, W_a: q @ W_a @ k.mT, q, k, W_a)


def concat_scores(q, k, W_a, v_a):
    d_query = q.shape[-1]  # W_a [q; k] is the sum of two products: split W_a instead of joining q and k
    return additive_scores(q, k, W_a[:d_query], W_a[d_query:], v_a)


def additive_scores(q, k, W_a, U_a, v_a):
    def scores(q, k, W_a, v_a, *U_a):
        projected_k = k @ U_a[0] if U_a else k
        joined = (q @ W_a)[..., :, None, :] + projected_k[..., None, :, :]  # (..., T_q, T_k, d_att)
        return np.tanh(joined) @ v_a

    return _in_working_precision(scores, q, k, W_a, v_a, *([] if U_a is None else [U_a]))


# --- masks -------------------------------------------------------------------------------------------------------


def causal_mask(T_q, T_k=None, like=None):
    T_k = T_q if T_k is None else T_k
    return np.tri(T_q, T_k, T_k - T_q, dtype=bool)


def padding_mask(lengths, T, like=None):
    return np.arange(T) < lengths[:, None]  # (B, T)


# --- heads -------------------------------------------------------------------------------------------------------


def split_heads(x, num_heads):
    *batch, T, d = x.shape
    return x.reshape(*batch, T, num_heads, d // num_heads).swapaxes(-3, -2)  # (..., h, T, d / h)


def merge_heads(x):
    *batch, h, T, d = x.shape
    return x.swapaxes(-3, -2).reshape(*batch, T, h * d)


def repeat_kv(x, num_heads):
    return np.repeat(x, num_heads // x.shape[-3], axis=-3)


def grouped_attention_weights(q, k, mask=None, *, key_mask=None, causal=False, scale=None):
    q, mask, key_mask, shape = _as_more_queries(q, k, mask, key_mask, causal)
    return attention_weights(q, k, mask, key_mask=key_mask, scale=scale).reshape(*shape, k.shape[-2])


def grouped_attention(q, k, v, mask=None, *, key_mask=None, causal=False, scale=None):
    q, mask, key_mask, shape = _as_more_queries(q, k, mask, key_mask, causal)
    return attention(q, k, v, mask, key_mask=key_mask, scale=scale).reshape(*shape, v.shape[-1])


def _as_more_queries(q, k, mask, key_mask, causal):
    """To its key-value head, a group of r query heads is r times as many queries: (..., g, r T_q, d_k)."""
    *leading, h, T_q, d_k = q.shape
    g, T_k = k.shape[-3], k.shape[-2]
    r = h // g
    if key_mask is not None and not leading:  # the heads become the first axis: each gets the same key mask
        key_mask = np.broadcast_to(key_mask, (g, T_k))
    if causal:
        seen = causal_mask(T_q, T_k)
        mask = seen if mask is None else mask & seen
    if mask is not None:
        if mask.ndim == 2:
            mask = mask[None]  # (1, T_q, T_k)
        *first, heads, _, keys = mask.shape
        groups = (g, r) if heads == h else (1, 1)  # one mask for all heads stays one
        mask = mask.reshape(*first, *groups, *mask.shape[-2:])
        mask = np.broadcast_to(mask, (*first, groups[0], r, T_q, keys)).reshape(*first, groups[0], r * T_q, keys)
    return q.reshape(*leading, g, r * T_q, d_k), mask, key_mask, (*leading, h, T_q)


def multi_head_attention(
    x, W_q, W_k, W_v, W_o, num_heads, *, num_kv_heads=None, memory=None, mask=None, key_mask=None, causal=False
):
    memory = x if memory is None else memory
    num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
    if key_mask is not None:  # before the projections: 0 * NaN would spoil the gradients of W_k and W_v
        kept = _key_mask_as_mask(key_mask, memory.ndim).swapaxes(-1, -2)  # (..., T_k, 1)
        memory = np.where(kept, memory, memory.dtype.type(0))

    def whole(x, memory, W_q, W_k, W_v, W_o):
        q = split_heads(x @ W_q, num_heads)  # (..., h, T_q, d_k)
        k = split_heads(memory @ W_k, num_kv_heads)  # (..., g, T_k, d_k)
        v = split_heads(memory @ W_v, num_kv_heads)  # (..., g, T_k, d_v)
        return merge_heads(grouped_attention(q, k, v, mask, key_mask=key_mask, causal=causal)) @ W_o

    return _in_working_precision(whole, x, memory, W_q, W_k, W_v, W_o)


# --- positions ---------------------------------------------------------------------------------------------------


def sinusoidal_positions(T, d_model, like=None):
    i = np.arange(0, d_model, 2)
    angles = np.arange(T)[:, None] / 10000.0 ** (i / d_model)  # (T, d_model / 2)
    table = np.empty((T, d_model))
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles)[:, : d_model // 2]
    is_float = like is not None and like.dtype.kind == "f"
    return table.astype(like.dtype if is_float else np.float64, copy=False)


# --- private -----------------------------------------------------------------------------------------------------


def _working(dtype):
    """Halves are computed in float32, everything else in its own precision."""
    return np.float32 if dtype == np.float16 else dtype.type


def _in_working_precision(function, *arrays):
    dtype = arrays[0].dtype
    return function(*(x.astype(_working(dtype), copy=False) for x in arrays)).astype(dtype, copy=False)


def _finite(top):
    """The largest score of a row; 0 where a row has none, so that -inf - top stays -inf instead of becoming NaN."""
    return np.where(np.isneginf(top), top.dtype.type(0), top)


def _nonzero(total):
    """The sum of a row; 1 where a row has nothing to attend to, so that 0 / total stays 0."""
    return np.where(total == 0, total.dtype.type(1), total)


def _combine(mask, key_mask, causal, q, k):
    """All masks joined by AND, in a shape that broadcasts to (..., T_q, T_k); None if there is none."""
    masks = [] if mask is None else [mask]
    if key_mask is not None:
        masks.append(_key_mask_as_mask(key_mask, q.ndim))
    if causal:
        masks.append(causal_mask(q.shape[-2], k.shape[-2]))
    joined = None
    for one in masks:
        joined = one if joined is None else joined & one
    return joined


def _key_mask_as_mask(key_mask, ndim):
    """(B, T_k) -> (B, 1, ..., 1, T_k) of rank ndim; (T_k,) -> (1, T_k)."""
    return key_mask.reshape(*key_mask.shape[:-1], *[1] * (ndim - key_mask.ndim), key_mask.shape[-1])


def _hide_unseen(x, mask):
    """Rows of k or v that no query may see are set to 0: they may hold anything, and 0 * NaN would still be NaN."""
    seen = mask.any(axis=-2)[..., None]  # (..., T_k, 1)
    return np.where(seen, x, x.dtype.type(0))


def _hide_dead(q, mask):
    """The same for queries that may see no key."""
    return np.where(mask.any(axis=-1, keepdims=True), q, q.dtype.type(0))
