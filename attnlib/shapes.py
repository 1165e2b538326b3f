"""Every check of an input: what is accepted, and the error that says why something is not.

An error names the argument, what was expected and what came. NumPy and torch share these checks, because both kinds
of array have `.shape`, `.ndim` and `.dtype`; torch itself is never imported here.
"""

import math
import numbers
import operator
import sys

import numpy as np


def is_tensor(x):
    """True for a torch tensor. Without importing torch: where it was never imported, nothing can be a tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def plain(x):
    """A tensor of any device as a NumPy array, floats as float64, since NumPy has no bfloat16; else x itself."""
    if not is_tensor(x):
        return x
    x = x.detach().cpu()
    return (x.double() if x.is_floating_point() else x).numpy()


def same_library(**arguments):
    """Return "torch" if the arguments are tensors on one device, else "numpy". A mix is an error; None is skipped."""
    given = {name: x for name, x in arguments.items() if x is not None}
    tensors = {name: x for name, x in given.items() if is_tensor(x)}
    for name, x in given.items():
        known = is_tensor(x) or isinstance(x, (np.ndarray, np.generic, list, tuple, numbers.Real))
        if isinstance(x, list | tuple) and any(map(is_tensor, x)):
            raise TypeError(f"{name} must be one torch tensor, got a {type(x).__name__} of tensors: use torch.stack")
        if not known or isinstance(x, np.ma.MaskedArray):
            raise TypeError(f"{name} must be a NumPy array or a torch tensor, got {_kind(x)}")
        if tensors and name not in tensors:
            tensor = next(iter(tensors))
            raise TypeError(f"{name} must be a torch tensor, as {tensor} is, got {_kind(x)}")
    devices = {name: x.device for name, x in tensors.items()}
    for name, device in devices.items():
        first = next(iter(devices))
        if device != devices[first]:
            raise ValueError(f"{name} must be on the device of {first}, {devices[first]}, got {device}")
    return "torch" if tensors else "numpy"


def check_tensors(**arguments):
    """Torch tensors on one device; None is skipped."""
    if same_library(**arguments) != "torch":
        raise TypeError(f"{' and '.join(arguments)} must be torch tensors, got NumPy arrays")


def as_numbers(**arguments):
    """Return the arguments as floating-point arrays of one dtype. NumPy integers become float64."""
    arrays = {name: _as_array(name, x) for name, x in arguments.items()}
    for name, x in arrays.items():
        if is_tensor(x) and str(x.dtype) not in ("torch.float16", "torch.bfloat16", "torch.float32", "torch.float64"):
            raise TypeError(f"{name} must be a floating-point tensor, got {x.dtype}: convert it with .float()")
        if is_tensor(x) and (str(x.layout) != "torch.strided" or x.is_nested):
            raise TypeError(f"{name} must be a dense tensor, got {'a nested one' if x.is_nested else x.layout}")
        if not is_tensor(x) and x.dtype.kind not in "fiu":
            raise TypeError(f"{name} must hold real numbers, got dtype {x.dtype}")
    first = next(iter(arrays))
    for name, x in arrays.items():
        if is_tensor(x) and x.dtype != arrays[first].dtype:
            raise TypeError(f"{name} must have the dtype of {first}, {arrays[first].dtype}, got {x.dtype}")
    if is_tensor(arrays[first]):
        return list(arrays.values())
    dtype = np.result_type(*(x.dtype if x.dtype.kind == "f" else np.float64 for x in arrays.values()))
    return [x.astype(dtype, copy=False) for x in arrays.values()]


def as_mask(name, mask):
    """Return a boolean mask (True = may attend) as an array, None as None."""
    if mask is None:
        return None
    mask = _as_array(name, mask, empty=bool)
    if str(mask.dtype) not in ("bool", "torch.bool"):
        raise TypeError(f"{name} must be boolean (True = may attend), got dtype {mask.dtype}")
    return mask


def check_softmax(scores, mask, axis, name="scores"):
    """scores of any rank >= 1, a mask that broadcasts to them, an axis they have. Returns the axis."""
    if scores.ndim < 1:
        raise ValueError(f"{name} must have at least 1 axis, got shape {_shape(scores)}")
    axis = check_whole("axis", axis)
    if not -scores.ndim <= axis < scores.ndim:
        raise ValueError(f"axis must be one of the {scores.ndim} axes of {name}, got {axis} for shape {_shape(scores)}")
    if mask is not None and not _spans(_shape(mask), _shape(scores)[-mask.ndim :] if mask.ndim else ()):
        raise ValueError(f"mask must broadcast to the scores' shape {_shape(scores)}, got {_shape(mask)}")
    return axis


def check_scores(q, k, same_features=True):
    """q (..., T_q, d) and k (..., T_k, d): at least 2-D, equal leading axes and, where asked, an equal last axis."""
    for name, x in (("q", q), ("k", k)):
        if x.ndim < 2:
            raise ValueError(f"{name} must have at least 2 axes (..., T, d), got shape {_shape(x)}")
    _check_leading("k", k, "q", q)
    _check_features(q, k, same_features)


def check_attention(q, k, v, mask, key_mask, causal, scale):
    """All inputs of attention; v is None for attention_weights. Returns the scale as a float, or None."""
    check_scores(q, k)
    if v is not None:
        if v.ndim < 2:
            raise ValueError(f"v must have at least 2 axes (..., T_k, d_v), got shape {_shape(v)}")
        _check_leading("v", v, "k", k)
        _check_rows(v, k)
    scores = (*_shape(q)[:-1], k.shape[-2])
    check_mask("mask", mask, scores)
    check_key_mask(key_mask, scores)
    check_flag("causal", causal)
    return check_scale(scale)


def check_grouped(q, k, v, mask, key_mask, causal, scale):
    """All inputs of grouped_attention; v is None for the weights. Returns the scale as a float, or None."""
    check_rank("q", q, 3, "(..., h, T_q, d_k)")
    check_rank("k", k, 3, "(..., g, T_k, d_k)")
    _check_before_heads("k", k, "q", q)
    if k.shape[-3] == 0 or q.shape[-3] % k.shape[-3]:
        raise ValueError(
            f"q must have a multiple of the heads of k, {k.shape[-3]}, got {q.shape[-3]} in shape {_shape(q)}"
        )
    _check_features(q, k)
    if v is not None:
        check_rank("v", v, 3, "(..., g, T_k, d_v)")
        _check_leading("v", v, "k", k)
        _check_rows(v, k)
    scores = (*_shape(q)[:-1], k.shape[-2])
    check_mask("mask", mask, scores)
    check_key_mask(key_mask, (*scores[:-3], *scores[-2:]))
    check_flag("causal", causal)
    return check_scale(scale)


def check_mask(name, mask, scores):
    """A mask is (T_q, T_k), or has the full rank of the scores with each axis whole or 1."""
    if mask is None or _shape(mask) == scores[-2:] or _spans(_shape(mask), scores):
        return
    expected = f"{scores[-2:]} or {scores}" if len(scores) > 2 else f"{scores}"
    hint = "; a (batch, keys) mask goes into key_mask" if _shape(mask) == (scores[0], scores[-1]) else ""
    raise ValueError(f"{name} must have shape {expected}, got {_shape(mask)}{hint}")


def check_key_mask(key_mask, scores):
    """A key mask is (first axis, T_k), or (T_k,) when the scores have only the two axes (T_q, T_k)."""
    expected = (scores[0], scores[-1]) if len(scores) > 2 else (scores[-1],)
    if key_mask is not None and _shape(key_mask) != expected:
        raise ValueError(f"key_mask must have shape {expected}, got {_shape(key_mask)}")


def check_matrix(name, W, rows=None, columns=None):
    """A weight matrix (rows, columns); None leaves a size open."""
    expected = f"({'any' if rows is None else rows}, {'any' if columns is None else columns})"
    if W.ndim != 2 or rows not in (None, W.shape[0]) or columns not in (None, W.shape[1]):
        raise ValueError(f"{name} must have shape {expected}, got {_shape(W)}")


def check_additive(q, k, W_a, U_a, v_a):
    """The arrays of additive scores; without U_a, k is projected already."""
    check_scores(q, k, same_features=False)
    if U_a is None:
        check_matrix("W_a", W_a, q.shape[-1], k.shape[-1])
    else:
        check_matrix("W_a", W_a, rows=q.shape[-1])
        check_matrix("U_a", U_a, k.shape[-1], W_a.shape[1])
    check_shape("v_a", v_a, (W_a.shape[1],))


def check_shape(name, x, shape):
    """Exactly this shape."""
    if _shape(x) != tuple(shape):
        raise ValueError(f"{name} must have shape {tuple(shape)}, got {_shape(x)}")


def check_rank(name, x, least, axes):
    """At least `least` axes; `axes` shows them in the message."""
    if x.ndim < least:
        raise ValueError(f"{name} must have at least {least} axes {axes}, got shape {_shape(x)}")


def check_last(name, x, axes, size):
    """Three axes, the last one of this size; `axes` shows them in the message."""
    if x.ndim != 3 or x.shape[-1] != size:
        raise ValueError(f"{name} must have shape {axes} with a last axis of {size}, got {_shape(x)}")


def check_heads(name, num_heads, size, of):
    """num_heads is a whole number >= 1 that divides `size`, the size of `of`. Returns it."""
    num_heads = check_whole(name, num_heads, least=1)
    if size % num_heads:
        raise ValueError(f"{name} must divide {of} = {size}, got {num_heads}")
    return num_heads


def check_groups(num_heads, num_kv_heads):
    """Every key-value head serves the same number of query heads. Returns both numbers."""
    num_heads = check_whole("num_heads", num_heads, least=1)
    num_kv_heads = check_whole("num_kv_heads", num_kv_heads, least=1)
    if num_heads % num_kv_heads:
        raise ValueError(f"num_heads must be a multiple of num_kv_heads, got {num_heads} and {num_kv_heads}")
    return num_heads, num_kv_heads


def check_multi_head(x, memory, W_q, W_k, W_v, W_o, num_heads, num_kv_heads, mask, key_mask, causal):
    """All inputs of multi_head_attention. Returns num_heads and num_kv_heads."""
    for name, sequence in (("x", x), ("memory", memory)):
        check_rank(name, sequence, 2, "(..., T, d_model)")
    _check_leading("memory", memory, "x", x)
    num_heads, num_kv_heads = check_groups(num_heads, num_kv_heads)
    check_matrix("W_q", W_q, rows=x.shape[-1])
    check_heads("num_heads", num_heads, W_q.shape[1], "the columns of W_q")
    if W_q.shape[1] == 0:
        raise ValueError(f"W_q must have at least 1 column a head, got shape {_shape(W_q)}")
    check_matrix("W_k", W_k, rows=memory.shape[-1], columns=num_kv_heads * (W_q.shape[1] // num_heads))
    check_matrix("W_v", W_v, rows=memory.shape[-1])
    check_heads("num_kv_heads", num_kv_heads, W_v.shape[1], "the columns of W_v")
    check_matrix("W_o", W_o, rows=num_heads * (W_v.shape[1] // num_kv_heads))
    T_q, T_k = x.shape[-2], memory.shape[-2]
    check_mask("mask", mask, (*_shape(x)[:-2], num_heads, T_q, T_k))
    check_key_mask(key_mask, (*_shape(x)[:-1], T_k))
    check_flag("causal", causal)
    return num_heads, num_kv_heads


def as_lengths(lengths, T):
    """lengths (B,): integers from 0 to T. On an accelerator the values are not read: that would wait for the device."""
    lengths = _as_array("lengths", lengths, empty=np.int64)
    if not ("int" in str(lengths.dtype) if is_tensor(lengths) else lengths.dtype.kind in "iu"):
        raise TypeError(f"lengths must be integers, got dtype {lengths.dtype}")
    if is_tensor(lengths):
        lengths = lengths.long()
    if lengths.ndim != 1:
        raise ValueError(f"lengths must have shape (B,), got {_shape(lengths)}")
    # A subclass of Tensor, such as a fake tensor, may have no values to read either.
    readable = not is_tensor(lengths) or (lengths.device.type == "cpu" and type(lengths).__name__ == "Tensor")
    if readable and lengths.shape[0]:
        shortest, longest = int(lengths.min()), int(lengths.max())
        if shortest < 0 or longest > T:
            raise ValueError(f"lengths must be from 0 to T = {T}, got values from {shortest} to {longest}")
    return lengths


def check_like(like):
    """None, or an array whose library and device are wanted."""
    fits = is_tensor(like) or (isinstance(like, np.ndarray | np.generic) and like.dtype.kind in "biuf")
    if like is not None and not fits:
        raise TypeError(f"like must be a NumPy array of numbers or a torch tensor, got {_kind(like)}")


def check_whole(name, number, least=None):
    """A whole number, at least `least`. Returns it as an int: NumPy's small integers would overflow later."""
    if isinstance(number, (bool, np.bool_)) or not isinstance(number, numbers.Integral):
        raise TypeError(f"{name} must be a whole number, got {_kind(number)}")
    if least is not None and number < least:
        raise ValueError(f"{name} must be at least {least}, got {number}")
    return operator.index(number)


def check_choice(name, choice, choices):
    """One of the choices."""
    if choice not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {choice!r}")


def check_flag(name, flag):
    """True or False, nothing that merely counts as one of them."""
    if not isinstance(flag, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {_kind(flag)}")


def check_flags(**flags):
    """Switches by their names, each True or False."""
    for name, flag in flags.items():
        check_flag(name, flag)


def check_scale(scale):
    """None (the default scale) or a finite number, returned as a float."""
    return None if scale is None else _check_real("scale", scale)


def check_positive(name, number):
    """A positive, finite number, returned as a float."""
    number = _check_real(name, number)
    if number <= 0:
        raise ValueError(f"{name} must be positive, got {number}")
    return number


def _check_real(name, number):
    if isinstance(number, (bool, np.bool_)) or not isinstance(number, numbers.Real):
        raise TypeError(f"{name} must be a number, got {_kind(number)}")
    try:
        number = float(number)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {number}")
    return number


def _check_features(q, k, same=True):
    if same and q.shape[-1] != k.shape[-1]:
        raise ValueError(f"k must have the last axis of q, d_k = {q.shape[-1]}, got {k.shape[-1]} in shape {_shape(k)}")
    if q.shape[-1] == 0 or k.shape[-1] == 0:
        raise ValueError(f"q and k must have at least 1 feature, got shapes {_shape(q)} and {_shape(k)}")


def _check_rows(v, k):
    if v.shape[-2] != k.shape[-2]:
        raise ValueError(f"v must have one row a key, T_k = {k.shape[-2]}, got {v.shape[-2]} in shape {_shape(v)}")


def _check_before_heads(name, x, other_name, other):
    if x.shape[:-3] != other.shape[:-3]:
        expected = f"the axes of {other_name} before the heads, {_shape(other)[:-3]}"
        raise ValueError(f"{name} must have {expected}, got {_shape(x)[:-3]} in shape {_shape(x)}")


def _check_leading(name, x, other_name, other):
    if x.shape[:-2] != other.shape[:-2]:
        expected = f"the leading axes of {other_name}, {_shape(other)[:-2]}"
        raise ValueError(f"{name} must have {expected}, got {_shape(x)[:-2]} in shape {_shape(x)}")


def _as_array(name, x, empty=None):
    """x as an array; `empty` is the dtype of an empty list, which says nothing about its own."""
    if is_tensor(x):
        return x
    try:
        array = np.asarray(x)
        return array.astype(empty) if empty and array.size == 0 and isinstance(x, list | tuple) else array
    except ValueError:
        raise ValueError(f"{name} must have rows of equal length, got a ragged {_kind(x)}") from None


def _spans(shape, full):
    """The same rank as `full`, each axis whole or 1."""
    return len(shape) == len(full) and all(size in (1, whole) for size, whole in zip(shape, full, strict=True))


def _shape(x):
    return tuple(x.shape)


def _kind(x):
    if is_tensor(x):
        return "a torch tensor"
    if type(x) is np.ndarray:
        return "a NumPy array"
    try:
        return " ".join(f"{type(x).__name__} {x!r}".split())[:80]
    except Exception:  # a broken repr must not hide the error that was to be raised
        return type(x).__name__
