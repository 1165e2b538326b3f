"""The same names in plain torch, on any device, differentiable. Same meanings as numpy_backend, tested equal.

`attention` uses PyTorch's fused kernel; every other function is written out. Nothing here reads data back from the
device, so a GPU never has to wait.
"""

import torch
import torch.nn.functional as F

# --- softmax and attention ---------------------------------------------------------------------------------------


def softmax(scores, mask=None, axis=-1):
    x = _working(scores)
    if mask is not None:
        x = x.masked_fill(~mask, -torch.inf)
    dead = (x == -torch.inf).all(axis, keepdim=True)  # rows with nothing to attend to
    weights = torch.softmax(x.masked_fill(dead, 0.0), axis).masked_fill(dead, 0.0)
    return weights.to(scores.dtype)


def attention_weights(q, k, mask=None, *, key_mask=None, causal=False, scale=None):
    mask = _combine(mask, key_mask, causal, q, k)
    return _weights(q, k, mask, scale).to(q.dtype)


def attention(q, k, v, mask=None, *, key_mask=None, causal=False, scale=None):
    T_q, T_k = q.shape[-2], k.shape[-2]
    if T_k == 0:  # the kernels disagree about a softmax over nothing: an empty sum is 0
        return attention_weights(q, k, mask, key_mask=key_mask, causal=causal, scale=scale) @ v
    # The kernel's causal mask starts at the first key, ours ends at the last: the same only where T_q = T_k.
    if mask is None and key_mask is None and (not causal or T_q in (1, T_k)):
        return _fused(q, k, v, causal=causal and T_q > 1, scale=scale)
    mask = _combine(mask, key_mask, causal, q, k)
    alive = _any(mask, -1).unsqueeze(-1)  # (..., T_q, 1)
    q, k, v = torch.where(alive, q, 0.0), _hide_unseen(k, mask), _hide_unseen(v, mask)
    out = _fused(q, k, v, mask=mask | ~alive, scale=scale)  # a dead row may see every key here, ...
    return out.masked_fill(~alive, 0.0)  # ... and is 0 in the end


def blockwise_attention(q, k, v, *, block_size=512, key_mask=None, causal=False, scale=None):
    T_q, T_k = q.shape[-2], k.shape[-2]
    if T_k == 0:
        return attention(q, k, v, key_mask=key_mask, causal=causal, scale=scale)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    if key_mask is not None:
        key_mask = _key_mask_as_mask(key_mask, q.ndim)  # (B, 1, ..., 1, T_k)
    blocks = []
    for i in range(0, max(T_q, 1), block_size):
        q_i = _working(q[..., i : i + block_size, :]) * scale
        last_key = i + q_i.shape[-2] - 1 + T_k - T_q if causal else T_k - 1  # the last one that this block may see
        top = q_i.new_full((*q_i.shape[:-1], 1), -torch.inf)
        total = torch.zeros_like(top)
        mixed = q_i.new_zeros((*q_i.shape[:-1], v.shape[-1]))
        for j in range(0, last_key + 1, block_size):
            k_j, v_j = (_working(x[..., j : j + block_size, :]) for x in (k, v))
            mask = None if key_mask is None else key_mask[..., j : j + block_size]
            if causal and j + k_j.shape[-2] - 1 > i + T_k - T_q:  # the diagonal runs through this block
                rows = torch.arange(i, i + q_i.shape[-2], device=q.device).unsqueeze(-1)
                columns = torch.arange(j, j + k_j.shape[-2], device=q.device)
                diagonal = columns <= rows + T_k - T_q
                mask = diagonal if mask is None else mask & diagonal
            if mask is None:
                scores = q_i @ k_j.mT
            else:
                k_j, v_j = _hide_unseen(k_j, mask), _hide_unseen(v_j, mask)
                scores = (_hide_dead(q_i, mask) @ k_j.mT).masked_fill(~mask, -torch.inf)
            # The top only shifts the scores, and softmax does not see a shift: no gradient flows through it.
            new_top = torch.maximum(top, scores.detach().amax(-1, keepdim=True))
            e = torch.exp(scores - _finite(new_top))
            shrink = torch.exp(top - _finite(new_top))  # what was summed so far used the old top
            total = total * shrink + e.sum(-1, keepdim=True)
            mixed = mixed * shrink + e @ v_j
            top = new_top
        blocks.append(mixed / total.masked_fill(total == 0, 1.0))
    return torch.cat(blocks, -2).to(v.dtype)


# --- scores ------------------------------------------------------------------------------------------------------


def dot_scores(q, k):
    return (_working(q) @ _working(k).mT).to(q.dtype)


def scaled_dot_scores(q, k, scale=None):
    return _scaled_dot(q, k, scale).to(q.dtype)


def gaussian_scores(q, k, width=1.0):
    difference = _working(q).unsqueeze(-2) - _working(k).unsqueeze(-3)  # (..., T_q, T_k, d)
    return (-((difference / width) ** 2).sum(-1) / 2).to(q.dtype)


def general_scores(q, k, W_a):
    return (_working(q) @ _working(W_a) @ _working(k).mT).to(q.dtype)


def concat_scores(q, k, W_a, v_a):
    W_query, W_key = W_a.split([q.shape[-1], k.shape[-1]])  # W_a [q; k] is the sum of two products
    return additive_scores(q, k, W_query, W_key, v_a)


def additive_scores(q, k, W_a, U_a, v_a):
    projected_q = _working(q) @ _working(W_a)
    projected_k = _working(k) if U_a is None else _working(k) @ _working(U_a)
    joined = projected_q.unsqueeze(-2) + projected_k.unsqueeze(-3)  # (..., T_q, T_k, d_att)
    return (torch.tanh(joined) @ _working(v_a)).to(q.dtype)


# --- masks -------------------------------------------------------------------------------------------------------


def causal_mask(T_q, T_k=None, like=None):
    T_k = T_q if T_k is None else T_k
    return torch.ones(T_q, T_k, dtype=torch.bool, device=like.device).tril(T_k - T_q)


def padding_mask(lengths, T, like=None):
    if like is not None:
        lengths = torch.as_tensor(lengths, device=like.device)
    return torch.arange(T, device=lengths.device) < lengths.unsqueeze(-1)  # (B, T)


# --- heads -------------------------------------------------------------------------------------------------------


def split_heads(x, num_heads):
    *batch, T, d = x.shape
    return x.reshape(*batch, T, num_heads, d // num_heads).transpose(-3, -2)  # (..., h, T, d / h)


def merge_heads(x):
    *batch, h, T, d = x.shape
    return x.transpose(-3, -2).reshape(*batch, T, h * d)


def repeat_kv(x, num_heads):
    return x.repeat_interleave(num_heads // x.shape[-3], dim=-3)


def grouped_attention_weights(q, k, mask=None, *, key_mask=None, causal=False, scale=None):
    q, mask, key_mask, shape = _as_more_queries(q, k, mask, key_mask, causal)
    return attention_weights(q, k, mask, key_mask=key_mask, scale=scale).reshape(*shape, k.shape[-2])


def grouped_attention(q, k, v, mask=None, *, key_mask=None, causal=False, scale=None):
    if causal and q.shape[-2] == k.shape[-2] > 0 and mask is None and key_mask is None:
        return _fused(q, k, v, causal=True, scale=scale)  # the kernel groups by itself: no table for the mask
    q, mask, key_mask, shape = _as_more_queries(q, k, mask, key_mask, causal)
    return attention(q, k, v, mask, key_mask=key_mask, scale=scale).reshape(*shape, v.shape[-1])


def _as_more_queries(q, k, mask, key_mask, causal):
    """To its key-value head, a group of r query heads is r times as many queries: (..., g, r T_q, d_k)."""
    *leading, h, T_q, d_k = q.shape
    g, T_k = k.shape[-3], k.shape[-2]
    r = h // g
    if key_mask is not None and not leading:  # the heads become the first axis: each gets the same key mask
        key_mask = key_mask.expand(g, T_k)
    if causal and T_q > 1:  # a single query is the last one and sees every key
        seen = causal_mask(T_q, T_k, like=q)
        mask = seen if mask is None else mask & seen
    if mask is not None:
        if mask.ndim == 2:
            mask = mask.unsqueeze(0)  # (1, T_q, T_k)
        *first, heads, _, keys = mask.shape
        groups = (g, r) if heads == h else (1, 1)  # one mask for all heads stays one
        mask = mask.reshape(*first, *groups, *mask.shape[-2:])
        mask = mask.expand(*first, groups[0], r, T_q, keys).reshape(*first, groups[0], r * T_q, keys)
    return q.reshape(*leading, g, r * T_q, d_k), mask, key_mask, (*leading, h, T_q)


def multi_head_attention(
    x, W_q, W_k, W_v, W_o, num_heads, *, num_kv_heads=None, memory=None, mask=None, key_mask=None, causal=False
):
    memory = x if memory is None else memory
    num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
    if key_mask is not None:  # before the projections: 0 * NaN would spoil the gradients of W_k and W_v
        kept = _key_mask_as_mask(key_mask, memory.ndim).mT  # (..., T_k, 1)
        memory = torch.where(kept, memory, 0.0)
    q = split_heads(x @ W_q, num_heads)  # (..., h, T_q, d_k)
    k = split_heads(memory @ W_k, num_kv_heads)  # (..., g, T_k, d_k)
    v = split_heads(memory @ W_v, num_kv_heads)  # (..., g, T_k, d_v)
    return merge_heads(grouped_attention(q, k, v, mask, key_mask=key_mask, causal=causal)) @ W_o


# --- positions ---------------------------------------------------------------------------------------------------


def sinusoidal_positions(T, d_model, like=None):
    i = torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu")
    positions = torch.arange(T, dtype=torch.float64, device="cpu").unsqueeze(-1)
    angles = positions / 10000.0 ** (i / d_model)  # (T, d_model / 2)
    table = torch.stack((angles.sin(), angles.cos()), -1).flatten(-2).narrow(-1, 0, d_model)  # sin, cos, sin, cos, ...
    dtype = like.dtype if like.is_floating_point() else torch.get_default_dtype()
    return table.to(dtype).to(like.device)  # computed on the CPU: not every device has float64


# --- private -----------------------------------------------------------------------------------------------------


def _working(x):
    """Halves are computed in float32, everything else in its own precision."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _scaled_dot(q, k, scale):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return (_working(q) * scale) @ _working(k).mT  # (..., T_q, T_k)


def _weights(q, k, mask, scale):
    if mask is not None:
        q, k = _hide_dead(q, mask), _hide_unseen(k, mask)
    return softmax(_scaled_dot(q, k, scale), mask)


def _fused(q, k, v, mask=None, causal=False, scale=None):
    """PyTorch's kernel. It is fast only for 4-D inputs: missing leading axes are added, and taken away again."""
    def at_least_4d(x):
        return x.reshape((1,) * (4 - x.ndim) + x.shape)

    if scale is not None:  # the CPU's kernel masks before it scales: the -inf of the future must stay -inf
        if scale < 0:
            q, scale = -q, -scale
        if scale < torch.finfo(torch.float32).tiny:  # the kernel may round it to 0, and 0 * -inf is NaN
            q, scale = q * scale, 1.0
    out = F.scaled_dot_product_attention(
        at_least_4d(q), at_least_4d(k), at_least_4d(v),
        attn_mask=None if mask is None else at_least_4d(mask),
        is_causal=causal, scale=scale, enable_gqa=q.ndim > 2 and q.shape[-3] > k.shape[-3],
    )
    return out.reshape(*q.shape[:-1], v.shape[-1])


def _finite(top):
    """The largest score of a row; 0 where a row has none, so that -inf - top stays -inf instead of becoming NaN."""
    return top.masked_fill(top == -torch.inf, 0.0)


def _combine(mask, key_mask, causal, q, k):
    """All masks joined by AND, in a shape that broadcasts to (..., T_q, T_k); None if there is none."""
    masks = [] if mask is None else [mask]
    if key_mask is not None:
        masks.append(_key_mask_as_mask(key_mask, q.ndim))
    if causal:
        masks.append(causal_mask(q.shape[-2], k.shape[-2], like=q))
    joined = None
    for one in masks:
        joined = one if joined is None else joined & one
    return joined


def _key_mask_as_mask(key_mask, ndim):
    """(B, T_k) -> (B, 1, ..., 1, T_k) of rank ndim; (T_k,) -> (1, T_k)."""
    return key_mask.reshape(*key_mask.shape[:-1], *[1] * (ndim - key_mask.ndim), key_mask.shape[-1])


def _hide_unseen(x, mask):
    """Rows of k or v that no query may see are set to 0: they may hold anything, and 0 * NaN would still be NaN."""
    seen = _any(mask, -2).unsqueeze(-1)  # (..., T_k, 1)
    return torch.where(seen, x, 0.0)


def _hide_dead(q, mask):
    """The same for queries that may see no key."""
    return torch.where(_any(mask, -1).unsqueeze(-1), q, 0.0)


def _any(mask, axis):
    """mask.any(axis). On a CPU the largest byte of an axis is found about fifty times faster."""
    return mask.view(torch.uint8).amax(axis).bool() if mask.shape[axis] else mask.any(axis)
