"""The public functions: what each computes, the checks of its inputs, and one line of dispatch.

NumPy arrays in, NumPy arrays out; torch tensors in, torch tensors out, on the same device. The formulas themselves are
in numpy_backend and torch_backend, under the same names.

Shapes: B batch, h heads, T_q queries, T_k keys, d_k features of a query and a key, d_v of a value. `...` stands for any
leading axes, the same for q, k and v. Masks are boolean, True = may attend.
"""

from . import numpy_backend, shapes

__all__ = [
    "additive_scores",
    "attention",
    "attention_weights",
    "blockwise_attention",
    "causal_mask",
    "concat_scores",
    "dot_scores",
    "gaussian_scores",
    "general_scores",
    "grouped_attention",
    "grouped_attention_weights",
    "merge_heads",
    "multi_head_attention",
    "padding_mask",
    "repeat_kv",
    "scaled_dot_scores",
    "sinusoidal_positions",
    "softmax",
    "split_heads",
]


def softmax(scores, mask=None, axis=-1):
    r"""Turn scores into weights: positive, summing to 1 along `axis`, in the order of the scores.

    softmax(x)_i = exp(x_i) / sum_j exp(x_j), computed as exp(x_i - max x) so that nothing overflows.

    Args:
        scores: (...), at least one axis. -inf means "never".
        mask: boolean, broadcasts to the scores, True = may attend. Masked weights are exactly 0.
        axis: the axis that sums to 1.
    Returns:
        The weights, of the scores' shape and dtype. A row with nothing to attend to is all 0.
    Raises:
        TypeError: scores are no real numbers (or an integer tensor), or the mask is not boolean.
        ValueError: the mask does not broadcast to the scores, or they do not have the axis.

    >>> softmax(np.array([2.0, 4.0, 6.0])).round(4)
    array([0.0159, 0.1173, 0.8668])
    >>> softmax(np.array([2.0, 1.0, 0.0]), mask=np.array([True, True, False])).round(4)
    array([0.7311, 0.2689, 0.    ])
    """
    backend = _backend(scores=scores, mask=mask)
    (scores,), mask = shapes.as_numbers(scores=scores), shapes.as_mask("mask", mask)
    axis = shapes.check_softmax(scores, mask, axis)
    return backend.softmax(scores, mask, axis)


def attention_weights(q, k, mask=None, *, key_mask=None, causal=False, scale=None):
    r"""How much each query attends to each key: softmax(q k^T / sqrt(d_k)) over the keys.

    Args:
        q: (..., T_q, d_k).
        k: (..., T_k, d_k). A key that no query may see may hold anything, NaN included.
        mask: boolean, (T_q, T_k) or the full rank of the scores with each axis whole or 1; True = may attend.
        key_mask: boolean, (first axis, T_k), or (T_k,) for a 2-D q; True = a real key, False = padding.
        causal: if True, query i sees key j only if j <= i + T_k - T_q (the last query sees every key).
        scale: multiplies q k^T; 1 / sqrt(d_k) if None.
    Returns:
        (..., T_q, T_k). Each row sums to 1, or is all 0 if its query may see no key. Masks join by AND.
    Raises:
        TypeError: mixed libraries, tensors of different dtypes or of integers, a mask that is not boolean.
            (NumPy arrays of different dtypes are promoted, as everywhere in NumPy.)
        ValueError: shapes that do not fit, tensors on two devices.
    Source:
        Vaswani et al. 2017, Attention Is All You Need, eq. 1, https://arxiv.org/abs/1706.03762

    >>> q, k = np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> attention_weights(q, k).round(4)
    array([[0.4011, 0.1978, 0.4011]])
    """
    backend = _backend(q=q, k=k, mask=mask, key_mask=key_mask)
    q, k = shapes.as_numbers(q=q, k=k)
    mask, key_mask = shapes.as_mask("mask", mask), shapes.as_mask("key_mask", key_mask)
    scale = shapes.check_attention(q, k, None, mask, key_mask, causal, scale)
    return backend.attention_weights(q, k, mask, key_mask=key_mask, causal=causal, scale=scale)


def attention(q, k, v, mask=None, *, key_mask=None, causal=False, scale=None):
    r"""Scaled dot-product attention: softmax(q k^T / sqrt(d_k)) v, for each query a weighted average of the values.

    Args:
        q, k, mask, key_mask, causal, scale: as in `attention_weights`.
        v: (..., T_k, d_v), one value for each key.
    Returns:
        (..., T_q, d_v). A query that may see no key gets 0. On tensors this is PyTorch's fused kernel, which has no
        second derivatives: for those use `attention_weights(...) @ v`.
    Raises:
        TypeError, ValueError: as in `attention_weights`.
    Source:
        Vaswani et al. 2017, Attention Is All You Need, eq. 1, https://arxiv.org/abs/1706.03762

    >>> q, k = np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> v = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> attention(q, k, v).round(4)
    array([[3., 4.]])
    """
    backend = _backend(q=q, k=k, v=v, mask=mask, key_mask=key_mask)
    q, k, v = shapes.as_numbers(q=q, k=k, v=v)
    mask, key_mask = shapes.as_mask("mask", mask), shapes.as_mask("key_mask", key_mask)
    scale = shapes.check_attention(q, k, v, mask, key_mask, causal, scale)
    return backend.attention(q, k, v, mask, key_mask=key_mask, causal=causal, scale=scale)


def blockwise_attention(q, k, v, *, block_size=512, key_mask=None, causal=False, scale=None):
    r"""The numbers of `attention`, with memory linear in T: a block of queries meets a block of keys at a time.

    The full (T_q, T_k) table of weights never exists. An online softmax keeps for each query the largest score so far,
    the sum of exponentials and the weighted sum of values, and rescales the sums when a larger score comes.

    Args:
        q, k, v, key_mask, causal, scale: as in `attention`.
        block_size: how many queries, and how many keys, are taken at a time.
    Returns:
        (..., T_q, d_v).
    Raises:
        TypeError, ValueError: as in `attention`; also block_size below 1.
    Source:
        Milakov and Gimelshein 2018, https://arxiv.org/abs/1805.02867;
        Rabe and Staats 2021, https://arxiv.org/abs/2112.05682
    """
    backend = _backend(q=q, k=k, v=v, key_mask=key_mask)
    q, k, v = shapes.as_numbers(q=q, k=k, v=v)
    key_mask = shapes.as_mask("key_mask", key_mask)
    block_size = shapes.check_whole("block_size", block_size, least=1)
    scale = shapes.check_attention(q, k, v, None, key_mask, causal, scale)
    return backend.blockwise_attention(q, k, v, block_size=block_size, key_mask=key_mask, causal=causal, scale=scale)


def dot_scores(q, k):
    r"""Scores q k^T: q (..., T_q, d), k (..., T_k, d) -> (..., T_q, T_k).

    Source: "dot" in Luong et al. 2015, https://arxiv.org/abs/1508.04025
    """
    backend = _backend(q=q, k=k)
    q, k = shapes.as_numbers(q=q, k=k)
    shapes.check_scores(q, k)
    return backend.dot_scores(q, k)


def scaled_dot_scores(q, k, scale=None):
    r"""Scores scale * q k^T, with scale = 1 / sqrt(d_k) if None: (..., T_q, d_k), (..., T_k, d_k) -> (..., T_q, T_k).

    Source: Vaswani et al. 2017, section 3.2.1, https://arxiv.org/abs/1706.03762
    """
    backend = _backend(q=q, k=k)
    q, k = shapes.as_numbers(q=q, k=k)
    shapes.check_scores(q, k)
    scale = shapes.check_scale(scale)
    return backend.scaled_dot_scores(q, k, scale)


def gaussian_scores(q, k, width=1.0):
    r"""Scores -|q - k|^2 / (2 width^2): softmax of them is Nadaraya-Watson kernel regression's weighting.

    q (..., T_q, d), k (..., T_k, d) -> (..., T_q, T_k); `width` is in the units of q and k.
    Source: Nadaraya 1964, https://doi.org/10.1137/1109020
    """
    backend = _backend(q=q, k=k)
    q, k = shapes.as_numbers(q=q, k=k)
    shapes.check_scores(q, k)
    width = shapes.check_positive("width", width)
    return backend.gaussian_scores(q, k, width)


def general_scores(q, k, W_a):
    r"""Scores q W_a k^T: q (..., T_q, d_query), k (..., T_k, d_key), W_a (d_query, d_key) -> (..., T_q, T_k).

    Source: "general" in Luong et al. 2015, https://arxiv.org/abs/1508.04025
    """
    backend = _backend(q=q, k=k, W_a=W_a)
    q, k, W_a = shapes.as_numbers(q=q, k=k, W_a=W_a)
    shapes.check_scores(q, k, same_features=False)
    shapes.check_matrix("W_a", W_a, q.shape[-1], k.shape[-1])
    return backend.general_scores(q, k, W_a)


def concat_scores(q, k, W_a, v_a):
    r"""Scores v_a . tanh([q; k] W_a), where [q; k] joins the features of one query and one key.

    q (..., T_q, d_query), k (..., T_k, d_key), W_a (d_query + d_key, d_att), v_a (d_att,) -> (..., T_q, T_k).
    Source: "concat" in Luong et al. 2015, https://arxiv.org/abs/1508.04025
    """
    backend = _backend(q=q, k=k, W_a=W_a, v_a=v_a)
    q, k, W_a, v_a = shapes.as_numbers(q=q, k=k, W_a=W_a, v_a=v_a)
    shapes.check_scores(q, k, same_features=False)
    shapes.check_matrix("W_a", W_a, rows=q.shape[-1] + k.shape[-1])
    shapes.check_shape("v_a", v_a, (W_a.shape[1],))
    return backend.concat_scores(q, k, W_a, v_a)


def additive_scores(q, k, W_a, U_a, v_a):
    r"""Scores v_a . tanh(q W_a + k U_a), for every pair of a query and a key.

    q (..., T_q, d_query), k (..., T_k, d_key), W_a (d_query, d_att), U_a (d_key, d_att), v_a (d_att,)
    -> (..., T_q, T_k). With U_a = None, k is projected already: a decoder computes k U_a once and asks at every step.
    Source: Bahdanau et al. 2014, appendix A.1.2, https://arxiv.org/abs/1409.0473
    """
    backend = _backend(q=q, k=k, W_a=W_a, U_a=U_a, v_a=v_a)
    given = {} if U_a is None else {"U_a": U_a}
    q, k, W_a, v_a, *rest = shapes.as_numbers(q=q, k=k, W_a=W_a, v_a=v_a, **given)
    U_a = rest[0] if rest else None
    shapes.check_additive(q, k, W_a, U_a, v_a)
    return backend.additive_scores(q, k, W_a, U_a, v_a)


def causal_mask(T_q, T_k=None, like=None):
    r"""Boolean (T_q, T_k): query i may see key j only if j <= i + T_k - T_q, so the last query sees every key.

    T_k is T_q if None. `like=x` gives the mask in the library and on the device of x; NumPy if None.

    >>> causal_mask(2, 3)
    array([[ True,  True, False],
           [ True,  True,  True]])
    """
    shapes.check_like(like)
    backend = _backend(like=like)
    T_q = shapes.check_whole("T_q", T_q, least=0)
    T_k = T_q if T_k is None else shapes.check_whole("T_k", T_k, least=0)
    return backend.causal_mask(T_q, T_k, like)


def padding_mask(lengths, T, like=None):
    r"""Boolean (B, T), True for the first lengths[b] positions of row b: a `key_mask`.

    `lengths` (B,) are integers from 0 to T. The mask is in their library, on their device; or on that of `like`.

    >>> padding_mask(np.array([3, 1]), 4)
    array([[ True,  True,  True, False],
           [ True, False, False, False]])
    """
    shapes.check_like(like)
    plain = not shapes.is_tensor(lengths) and isinstance(lengths, list | tuple)
    backend = _backend(like=like) if plain else _backend(lengths=lengths)
    T = shapes.check_whole("T", T, least=0)
    lengths = shapes.as_lengths(lengths, T)
    if like is not None and backend is not _backend(like=like):
        raise TypeError(f"like must be of the library of lengths, got {type(like).__name__}")
    return backend.padding_mask(lengths, T, like)


def split_heads(x, num_heads):
    r"""(..., T, d) -> (..., h, T, d / h): head 0 takes the first d / h features of every token.

    Raises ValueError if num_heads does not divide d. `merge_heads` is the inverse. The result may be a view of x.
    """
    backend = _backend(x=x)
    (x,) = shapes.as_numbers(x=x)
    shapes.check_rank("x", x, 2, "(..., T, d)")
    num_heads = shapes.check_heads("num_heads", num_heads, x.shape[-1], "the last axis of x")
    return backend.split_heads(x, num_heads)


def merge_heads(x):
    r"""(..., h, T, d) -> (..., T, h d): the heads of a token side by side again. The inverse of `split_heads`."""
    backend = _backend(x=x)
    (x,) = shapes.as_numbers(x=x)
    shapes.check_rank("x", x, 3, "(..., h, T, d)")
    return backend.merge_heads(x)


def repeat_kv(x, num_heads):
    r"""(..., num_kv_heads, T, d) -> (..., num_heads, T, d): each key-value head repeated for its group of query heads.

    Query head i gets key-value head i // (num_heads / num_kv_heads), so with 2 and 4 heads the order is 0, 0, 1, 1.
    Raises ValueError if num_heads is no multiple of num_kv_heads.
    Source: Ainslie et al. 2023, GQA, https://arxiv.org/abs/2305.13245
    """
    backend = _backend(x=x)
    (x,) = shapes.as_numbers(x=x)
    shapes.check_rank("x", x, 3, "(..., num_kv_heads, T, d)")
    num_heads, _ = shapes.check_groups(num_heads, x.shape[-3])
    return backend.repeat_kv(x, num_heads)


def grouped_attention_weights(q, k, mask=None, *, key_mask=None, causal=False, scale=None):
    r"""`attention_weights` where a group of query heads shares the keys of one key-value head.

    Args:
        q: (..., h, T_q, d_k), h query heads.
        k: (..., g, T_k, d_k), g key-value heads; g divides h. Query head i asks key-value head i // (h / g).
        mask: boolean, (T_q, T_k) or full rank (..., h, T_q, T_k) with each axis whole or 1; True = may attend.
        key_mask: boolean, (first axis, T_k), or (T_k,) if q has no axis before the heads.
        causal, scale: as in `attention_weights`.
    Returns:
        (..., h, T_q, T_k): the numbers of `attention_weights(q, repeat_kv(k, h), ...)`, without the copies of k.
    Raises:
        TypeError, ValueError: as in `attention_weights`; also h no multiple of g.
    Source:
        Ainslie et al. 2023, GQA, https://arxiv.org/abs/2305.13245
    """
    backend = _backend(q=q, k=k, mask=mask, key_mask=key_mask)
    q, k = shapes.as_numbers(q=q, k=k)
    mask, key_mask = shapes.as_mask("mask", mask), shapes.as_mask("key_mask", key_mask)
    scale = shapes.check_grouped(q, k, None, mask, key_mask, causal, scale)
    return backend.grouped_attention_weights(q, k, mask, key_mask=key_mask, causal=causal, scale=scale)


def grouped_attention(q, k, v, mask=None, *, key_mask=None, causal=False, scale=None):
    r"""`attention` where a group of query heads shares the keys and values of one key-value head.

    Args:
        q, k, mask, key_mask, causal, scale: as in `grouped_attention_weights`.
        v: (..., g, T_k, d_v), one value for each key.
    Returns:
        (..., h, T_q, d_v): the numbers of `attention(q, repeat_kv(k, h), repeat_kv(v, h), ...)`. k and v are not
        copied to h heads: to its key-value head, a group of h / g query heads is h / g times as many queries.
    Raises:
        TypeError, ValueError: as in `attention`; also h no multiple of g.
    Source:
        Ainslie et al. 2023, GQA, https://arxiv.org/abs/2305.13245
    """
    backend = _backend(q=q, k=k, v=v, mask=mask, key_mask=key_mask)
    q, k, v = shapes.as_numbers(q=q, k=k, v=v)
    mask, key_mask = shapes.as_mask("mask", mask), shapes.as_mask("key_mask", key_mask)
    scale = shapes.check_grouped(q, k, v, mask, key_mask, causal, scale)
    return backend.grouped_attention(q, k, v, mask, key_mask=key_mask, causal=causal, scale=scale)


def multi_head_attention(
    x, W_q, W_k, W_v, W_o, num_heads, *, num_kv_heads=None, memory=None, mask=None, key_mask=None, causal=False
):
    r"""Project, split into heads, attend in each head, merge, project: concat(head_1, ..., head_h) W_o.

    Args:
        x: (..., T_q, d_model), asks. memory: (..., T_k, d_memory), answers; x itself if None (self-attention).
        W_q: (d_model, h d_k). W_k: (d_memory, g d_k). W_v: (d_memory, g d_v). W_o: (h d_v, d_out).
        num_heads: h. num_kv_heads: g, which divides h; h if None. g < h is grouped-query, g = 1 multi-query attention.
        mask: boolean, (T_q, T_k) or full rank (..., h, T_q, T_k) with each axis whole or 1; True = may attend.
        key_mask: boolean, (first axis, T_k), or (T_k,) for a 2-D x. What it hides in `memory` may hold anything.
        causal: as in `attention_weights`.
    Returns:
        (..., T_q, d_out). Tensors of float16 and bfloat16 are projected in their own precision. Keys and values stay
        g heads: they are not copied to h.
    Raises:
        TypeError, ValueError: as in `attention`; also head counts that do not divide.
    Source:
        Vaswani et al. 2017, section 3.2.2, https://arxiv.org/abs/1706.03762
    """
    backend = _backend(x=x, W_q=W_q, W_k=W_k, W_v=W_v, W_o=W_o, memory=memory, mask=mask, key_mask=key_mask)
    source = {} if memory is None else {"memory": memory}
    x, W_q, W_k, W_v, W_o, *rest = shapes.as_numbers(x=x, W_q=W_q, W_k=W_k, W_v=W_v, W_o=W_o, **source)
    memory = rest[0] if rest else x
    mask, key_mask = shapes.as_mask("mask", mask), shapes.as_mask("key_mask", key_mask)
    num_heads, num_kv_heads = shapes.check_multi_head(
        x, memory, W_q, W_k, W_v, W_o, num_heads, num_heads if num_kv_heads is None else num_kv_heads,
        mask, key_mask, causal,
    )
    return backend.multi_head_attention(
        x, W_q, W_k, W_v, W_o, num_heads,
        num_kv_heads=num_kv_heads, memory=memory, mask=mask, key_mask=key_mask, causal=causal,
    )


def sinusoidal_positions(T, d_model, like=None):
    r"""(T, d_model): sin(t / 10000^(2i / d_model)) in column 2i, the cosine in column 2i + 1.

    `like=x` gives the library, device and dtype of x (of integer tokens only library and device); NumPy if None.
    Source: Vaswani et al. 2017, section 3.5, https://arxiv.org/abs/1706.03762

    >>> sinusoidal_positions(2, 4).round(4)
    array([[0.    , 1.    , 0.    , 1.    ],
           [0.8415, 0.5403, 0.01  , 1.    ]])
    """
    shapes.check_like(like)
    backend = _backend(like=like)
    T, d_model = shapes.check_whole("T", T, least=0), shapes.check_whole("d_model", d_model, least=1)
    return backend.sinusoidal_positions(T, d_model, like)


def _backend(**arguments):
    """The module that computes with arguments of this kind; torch is imported only when a tensor comes."""
    if shapes.same_library(**arguments) == "numpy":
        return numpy_backend
    from . import torch_backend

    return torch_backend
