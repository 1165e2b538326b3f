"""What a layer costs, counted: parameters, cache bytes, multiply-adds, steps, path length, bytes of activations.

Every factor is written out, in the order in which the docstring names it. A multiply-add is one product that is added
to a sum; a FLOP counter says two for it. Biases, softmax and other work that grows more slowly are left out.

T tokens, d features (in and out), h query heads, g key-value heads. Plain Python: nothing here needs torch.
Source: table 1 of Vaswani et al. 2017 compares layers up to a constant, https://arxiv.org/abs/1706.03762. Here the
constants are written out too.
"""

from . import shapes

KINDS = ("attention", "recurrent", "convolution")


def attention_parameters(d_model, num_heads, num_kv_heads=None, bias=False):
    r"""Learned numbers of a `layers.MultiHeadAttention`: d^2 + 2 d g d_k + d^2, with d_k = d / h.

    They are W_q (d, h d_k), W_k and W_v (d, g d_k) and W_o (h d_k, d). With g = h that is 4 d^2, whatever h is.
    A bias adds one number for each column of each matrix.

    >>> attention_parameters(512, 8), attention_parameters(512, 8, bias=True), attention_parameters(512, 8, 2)
    (1048576, 1050624, 655360)
    """
    d_model = shapes.check_whole("d_model", d_model, least=1)
    num_heads = shapes.check_heads("num_heads", num_heads, d_model, "d_model")
    num_heads, num_kv_heads = shapes.check_groups(num_heads, num_heads if num_kv_heads is None else num_kv_heads)
    shapes.check_flag("bias", bias)
    d_k = d_model // num_heads
    columns = (num_heads * d_k, num_kv_heads * d_k, num_kv_heads * d_k, d_model)  # of W_q, W_k, W_v, W_o
    return d_model * sum(columns) + (sum(columns) if bias else 0)


def kv_cache_bytes(batch, length, layers, num_kv_heads, d_head, bytes_per_number=2):
    r"""Bytes of the keys and values that a decoder keeps: 2 batch length layers g d_head bytes_per_number.

    The 2 is for a key and a value. The number of query heads does not matter: h / g times fewer key-value heads make
    the cache exactly h / g times smaller.

    Args:
        batch: sequences at a time. length: tokens of each that are kept. layers: with self-attention.
        num_kv_heads: g. d_head: features of one head.
        bytes_per_number: 2 for float16 and bfloat16, 4 for float32.

    >>> kv_cache_bytes(1, 4096, layers=32, num_kv_heads=32, d_head=128) / 2**30
    2.0
    """
    factors = {
        "batch": batch, "length": length, "layers": layers, "num_kv_heads": num_kv_heads, "d_head": d_head,
        "bytes_per_number": bytes_per_number,
    }  # fmt: skip
    total = 2
    for name, factor in factors.items():
        total *= shapes.check_whole(name, factor, least=0)
    return total


def multiply_adds(kind, T, d, kernel=None):
    r"""Multiply-adds of one layer over T tokens of d features.

    - "attention": 2 T^2 d. The scores q k^T are T^2 sums over d features, the weighted sums are T d sums over T values.
      With h heads of d / h features it is the same number. Projections come on top:
    - "projections": 4 T d^2. Each token is multiplied by the d x d matrices W_q, W_k, W_v and W_o.
    - "recurrent": 6 T d^2. A GRU has 3 gates; each multiplies the input and the state by a d x d matrix.
    - "convolution": k T d^2. Each token is a sum over the k tokens in the kernel, each multiplied by a d x d matrix.

    Args:
        kernel: k, for "convolution" only.

    >>> multiply_adds("attention", 1000, 64), multiply_adds("projections", 1000, 64)
    (128000000, 16384000)
    """
    shapes.check_choice("kind", kind, ("attention", "projections", "recurrent", "convolution"))
    T, d = shapes.check_whole("T", T, least=0), shapes.check_whole("d", d, least=1)
    kernel = _check_kernel(kind, kernel)
    if kind == "attention":
        return T * T * d + T * T * d  # scores, weighted sums
    if kind == "projections":
        return 4 * T * d * d
    if kind == "recurrent":
        return 3 * T * (d * d + d * d)  # gates, each of the input and of the state
    return kernel * T * d * d


def sequential_steps(kind, T):
    r"""Steps of one layer that must wait for each other: 1 for "attention" and "convolution", T for "recurrent".

    >>> [sequential_steps(kind, 20) for kind in KINDS]
    [1, 20, 1]
    """
    shapes.check_choice("kind", kind, KINDS)
    T = shapes.check_whole("T", T, least=1)
    return T if kind == "recurrent" else 1


def path_length(kind, T, kernel=None, dilated=False):
    r"""How many times a signal is handed on from the first token to the output at the last one, of T.

    "attention": 1, as any token sees any other. "recurrent": T - 1 steps from state to state.
    "convolution": as many layers as it takes until the last output has seen the first token, where each layer sees a
    token and the k - 1 before it: ceil((T - 1) / (k - 1)). If `dilated`, layer i (from 0) sees every k^i-th token,
    so l layers see k^l tokens: ceil(log_k T).

    Args:
        kernel: k, at least 2, for "convolution" only. dilated: for "convolution" only.

    >>> [path_length(kind, 20) for kind in ("attention", "recurrent")]
    [1, 19]
    >>> path_length("convolution", 20, kernel=3), path_length("convolution", 20, kernel=3, dilated=True)
    (10, 3)
    """
    shapes.check_choice("kind", kind, KINDS)
    T = shapes.check_whole("T", T, least=1)
    kernel = _check_kernel(kind, kernel, least=2)
    shapes.check_flag("dilated", dilated)
    if dilated and kind != "convolution":
        raise ValueError(f"dilated must be False for the kind {kind!r}, got True")
    if kind == "attention":
        return 1
    if kind == "recurrent":
        return T - 1
    layers, seen = 0, 1
    while seen < T:
        seen = seen * kernel if dilated else seen + kernel - 1
        layers += 1
    return layers


def activation_bytes(kind, T, d, num_heads=1, fused=False, bytes_per_number=4):
    r"""Bytes of what one layer writes for T tokens, its output included; parameters and input are left out.

    - "attention": 5 T d + 2 h T^2 numbers. q, k, v, the mixed values and the output have T d each, scores and weights
      have T^2 for each head. If `fused`, the two tables are never whole: what is left of them is one number for
      each query and head, so 5 T d + h T.
    - "recurrent", "convolution": T d, the output. A library may write more.

    Args:
        num_heads: h; fused: both for "attention" only. bytes_per_number: 4 for float32, 2 for float16 and bfloat16.

    >>> activation_bytes("attention", 8192, 128, num_heads=4) / 2**30
    2.01953125
    >>> activation_bytes("attention", 8192, 128, num_heads=4, fused=True) / 2**20
    20.125
    """
    shapes.check_choice("kind", kind, KINDS)
    T, d = shapes.check_whole("T", T, least=0), shapes.check_whole("d", d, least=1)
    h = shapes.check_heads("num_heads", num_heads, d, "d")
    bytes_per_number = shapes.check_whole("bytes_per_number", bytes_per_number, least=0)
    shapes.check_flag("fused", fused)
    if kind != "attention":
        if fused or h > 1:
            raise ValueError(f"fused and num_heads must be False and 1 for the kind {kind!r}, got {fused} and {h}")
        return T * d * bytes_per_number
    tables = h * T if fused else h * T * T + h * T * T  # scores, weights
    return (5 * T * d + tables) * bytes_per_number


def _check_kernel(kind, kernel, least=1):
    if kind == "convolution":
        return shapes.check_whole("kernel", kernel, least=least)
    if kernel is not None:
        raise ValueError(f"kernel must be None for the kind {kind!r}, got {kernel}")
    return None
