"""Two tests to take home: does the future, or the padding, leak into the outputs of your own function or model?

Both change what must not matter, one position at a time, and watch the outputs that must not move. They return nothing
if none moved, and raise an AssertionError that names the leak otherwise. A function that cannot be tested (dropout is
on, no time axis) gets a ValueError or TypeError. NumPy or torch, any device; your inputs, the mode of your model and
its gradients stay as they are. (Each call is an ordinary call of your function: in train mode a BatchNorm counts it.)

What they cannot catch: leaks smaller than the tolerance; leaks at lengths, and with values, that were not tried;
leaks that only another model state would show (weights that are 0 at the start hide everything behind them); leaks
before your function sees its input (labels among the features); and outputs that are wrong without leaking, such as a
query that sees too little. A test that passes is evidence, not proof.
"""

import sys

import numpy as np

from . import shapes

__all__ = ["future_cannot_leak", "padding_cannot_leak"]


def future_cannot_leak(fn, x, *, vocabulary=None, tolerance=None, large=None, seed=0):
    """Change each position of x in turn: no output at an earlier position may move.

    Args:
        fn: function of x that returns one array (B, T, ...): a model, or a lambda around it.
        x: an example, array or tensor: vectors (B, T, ...) or whole-number tokens (B, T). 4 to 10 positions will do.
        vocabulary: number of different tokens to draw from; the largest in x plus 1 if None.
        tolerance: how far an output may move, as a share of the largest output; for None it depends on the dtype of
            the output: 2e-5 for float32, 4e-11 for float64.
        large: each vector is also replaced by one that is this many times longer, to show leaks that a soft mask
            (scores of -20, say) makes small; 10,000 if None, 100 for half precision. Tokens have no size.
        seed: of the new values.
    Raises:
        AssertionError: an output moved; the message says from which position into which, and how far.
        ValueError, TypeError: fn cannot be tested; the message says why.

    >>> future_cannot_leak(lambda x: x.cumsum(axis=1), np.ones((2, 4, 3)))
    >>> future_cannot_leak(lambda x: x - x.mean(axis=1, keepdims=True), np.ones((2, 4, 3)))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: the future leaks: a new value at position 3 moves the output at position 2 by ...
    """
    x, to_input = _example("x", x)
    B, T = x.shape[:2]
    if T < 2:
        raise ValueError(f"x must have at least 2 positions, got T = {T} in shape {x.shape}")
    runner = _Runner(lambda x: fn(to_input(x)), (B, T), tolerance)
    before = runner.first(x)

    rng, touched = np.random.default_rng(seed), False
    for kind, new in _replacements(x, rng, vocabulary, large, runner.half(to_input(x))):
        leaks = []
        for t in range(T):
            moved = runner.moved(before, _with(x, new, np.arange(T) == t)).max(axis=0)  # (T,)
            touched = touched or moved.any()
            leaks += [(moved[s], t, s) for s in range(t) if moved[s] > runner.allowed]
        if leaks:
            size, t, s = max(leaks)
            pairs = _some([f"{t} into {s}" for _, t, s in leaks])
            raise AssertionError(
                f"the future leaks: {kind} at position {t} {_moves(size, f'the output at position {s}')}, "
                f"allowed is {runner.allowed:.3g}. Leaks: {pairs} (positions count from 0)."
            )
    if not touched:
        raise ValueError("fn must depend on x, got the same output whatever x was: nothing was tested")


def padding_cannot_leak(
    fn, x, real, *, vocabulary=None, pad=None, pooled=False, nan=False, tolerance=None, large=None, seed=0
):
    """Change the padding of x in turn, then take it away: no output of a real token may move.

    Args:
        fn: function of (x, real) that returns one array (B, T, ...): a model, or a lambda around it.
        x: an example, array or tensor: vectors (B, T, ...) or whole-number tokens (B, T), some of it padding.
        real: which tokens are real: lengths (B,), or a boolean mask (B, T), True = real. It is handed to fn as it is;
            a layer whose mask means the opposite gets `lambda x, real: layer(x, ~real)`.
        vocabulary, tolerance, large, seed: as in `future_cannot_leak`.
        pad: for a function that finds the padding in the tokens by itself, the token it looks for. Such padding is
            only taken away, not changed: `padding_cannot_leak(lambda x, real: model(x), x, lengths, pad=0)`.
        pooled: True if fn returns one output a sequence, (B, ...), such as a mean.
        nan: True to plant NaN and infinity in the padding, too. Sound code may fail that: a weight of 0 times NaN is
            NaN.
    The padding is taken away, one sequence alone at a time, only where it stands on the right: elsewhere a model
    that counts positions may rightly give another answer.
    Raises:
        AssertionError: an output moved; the message says where, and how far.
        ValueError, TypeError: fn cannot be tested; the message says why.

    >>> x, lengths = np.ones((2, 4, 3)), np.array([4, 2])
    >>> padding_cannot_leak(lambda x, lengths: x.cumsum(axis=1), x, lengths)
    >>> padding_cannot_leak(lambda x, n: x.mean(axis=1), x, lengths, pooled=True)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    AssertionError: the padding leaks: a new value at the padded position 3 moves the output of sequence 1 by ...
    """
    x, to_input = _example("x", x)
    (B, T), whole = x.shape[:2], x.dtype.kind == "i"
    given, to_real = _example("real", real, "bi", "lengths (B,) or a boolean mask (B, T)")
    mask = _check_real(given, B, T)
    _check_pad(pad, x, mask)
    if nan and whole:
        raise ValueError("nan must be False for tokens: whole numbers have no NaN")
    runner = _Runner(lambda x, real: fn(to_input(x), to_real(real)), (B,) if pooled else (B, T), tolerance, mask)
    before = runner.first(x, given)

    rng = np.random.default_rng(seed)
    changes = _replacements(x, rng, vocabulary, large, runner.half(to_input(x)))
    if not runner.moved(before, _with(x, changes[0][1], mask), given).any():
        raise ValueError("fn must depend on the real tokens of x, got the same output whatever they were")
    changes += [(word, np.full_like(x, value)) for word, value in (("NaN", np.nan), ("infinity", np.inf)) if nan]
    for kind, new in changes if pad is None else ():
        leaks = []
        for p in np.flatnonzero(~mask.all(axis=0)):
            moved = runner.moved(before, _with(x, new, ~mask & (np.arange(T) == p)), given)
            leaks += [(moved[tuple(where)], int(p), *where) for where in np.argwhere(moved > runner.allowed).tolist()]
        if leaks:
            size, p, *where = max(leaks)
            pairs = _some([f"{p} into {_place(*where)}" for _, p, *where in leaks])
            raise AssertionError(
                f"the padding leaks: {kind} at the padded position {p} {_moves(size, _output(*where))}, "
                f"allowed is {runner.allowed:.3g}. Leaks: {pairs} (positions and sequences count from 0)."
            )
    for b in range(B):
        n = int(mask[b].sum())
        if 0 < n < T and mask[b, :n].all():
            alone = runner.alone(x[b : b + 1, :n], given[b : b + 1] if given.ndim == 1 else given[b : b + 1, :n])
            moved = _distance(before[b : b + 1] if pooled else before[b : b + 1, :n], alone, runner.axes)[0]
            size, *where = max((moved[s], *s) for s in np.ndindex(moved.shape))
            if size > runner.allowed:
                raise AssertionError(
                    f"the padding leaks: taking away the padding of sequence {b} and its company "
                    f"{_moves(size, _output(b, *where))}, allowed is {runner.allowed:.3g}."
                )


# --- private -----------------------------------------------------------------------------------------------------


class _Runner:
    """Calls the function, checks what comes back, and measures how far it moved. `leading` is (B, T), or (B,)."""

    def __init__(self, fn, leading, tolerance, mask=None):
        self.fn, self.leading, self.tolerance, self.allowed = fn, leading, tolerance, 0.0
        self.axes = len(leading)
        self.mask = np.ones(leading, bool) if mask is None else mask if self.axes == 2 else mask.any(axis=1)

    def call(self, *given):
        with np.errstate(over="ignore", invalid="ignore"):  # large values and NaN may trouble what nobody looks at
            return self.fn(*given)

    def first(self, *given):
        """The output to compare with, after asking twice whether it is the same each time."""
        output = self.call(*given)
        before, again = self.numbers(output), self.numbers(self.call(*given))
        watched = before[self.mask]
        if np.isnan(watched).any():
            raise ValueError("fn must return numbers, got NaN before anything was changed")
        if self.tolerance is None:
            self.tolerance = _precision(output) ** (2 / 3)
        finite = watched[np.isfinite(watched)]
        self.allowed = self.tolerance * np.abs(finite).max(initial=0.0)
        worst = np.where(self.mask, _distance(before, again, self.axes), 0.0).max()
        if worst > self.allowed:
            raise ValueError(
                f"fn must give the same output for the same x, got outputs that differ by {worst:.3g}: "
                "is dropout on? Then call model.eval() first"
            )
        return before

    def moved(self, before, *given):
        """How far each output that must stand still has moved, in the shape `leading`; 0 for the others."""
        return np.where(self.mask, _distance(before, self.numbers(self.call(*given)), self.axes), 0.0)

    def alone(self, x, real):
        return self.numbers(self.call(x, real), (1, x.shape[1])[: self.axes])

    def numbers(self, output, leading=None):
        """An output as float64, checked to have the axes that it must have."""
        leading = leading or self.leading
        if isinstance(output, tuple | list | dict):
            raise TypeError(f"fn must return one array, got a {type(output).__name__}: use lambda x: model(x)[0]")
        if not (shapes.is_tensor(output) or isinstance(output, np.ndarray)):
            raise TypeError(f"fn must return an array or a tensor, got {type(output).__name__}")
        output = np.array(shapes.plain(output))
        if output.dtype.kind not in "biuf":
            raise TypeError(f"fn must return real numbers, got dtype {output.dtype}")
        if output.shape[: len(leading)] != leading:
            wanted = ", ".join(map(str, leading))
            raise ValueError(f"fn must return shape ({wanted}, ...), as x has, got {output.shape}")
        return output.astype(np.float64)

    def half(self, x):
        """True if x is of 16 bits, whose largest numbers are soon reached."""
        return _precision(x) > 1e-4


def _example(name, x, kinds="fi", wanted="vectors (B, T, ...) or whole-number tokens (B, T)"):
    """x as float64, int64 or bool, and the function that makes from such an array what the user's function gets."""
    if shapes.same_library(**{name: x}) == "torch":
        torch, like = sys.modules["torch"], x
        array = np.array(shapes.plain(x))
        back = lambda new: torch.tensor(new, dtype=like.dtype, device=like.device)  # noqa: E731
    else:
        array = np.asarray(x)
        back = lambda new, dtype=array.dtype: new.astype(dtype)  # noqa: E731
    kind = "i" if array.dtype.kind == "u" else array.dtype.kind
    if kind not in kinds:
        raise TypeError(f"{name} must hold {wanted}, got dtype {array.dtype}")
    if name == "x" and (array.ndim < 2 or array.size == 0):
        raise ValueError(f"x must have shape (B, T, ...), none of them 0, got {array.shape}: one sequence is x[None]")
    if kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return array.astype({"f": np.float64, "i": np.int64, "b": bool}[kind]), back


def _check_real(real, B, T):
    """The mask (B, T), True = real, from lengths or a mask."""
    if real.shape != ((B, T) if real.dtype == bool else (B,)):
        raise ValueError(f"real must be lengths ({B},) or a boolean mask ({B}, {T}), got {real.dtype} {real.shape}")
    if real.dtype != bool:
        if real.min() < 0 or real.max() > T:
            raise ValueError(f"real must hold lengths from 0 to T = {T}, got {real.tolist()}")
        real = np.arange(T) < real[:, None]
    if real.all() or not real.any():
        raise ValueError(f"real must leave some tokens and some padding, got {int(real.sum())} of {B * T} tokens")
    return real


def _check_pad(pad, x, mask):
    if pad is None:
        return
    if x.dtype.kind != "i" or x.ndim != 2 or (x[~mask] != pad).any() or (x[mask] == pad).any():
        raise ValueError(f"pad must be the token that x holds where it is not real, and only there, got {pad!r}")
    lengths = mask.sum(axis=1, keepdims=True)
    if not (mask == (np.arange(mask.shape[1]) < lengths)).all():
        raise ValueError("pad must stand on the right to be taken away, got it elsewhere")


def _replacements(x, rng, vocabulary, large, half):
    """(what it is, values of the shape of x) for each kind of change; every value differs from that of x."""
    if x.dtype.kind == "i":
        most = int(x.max()) + 1 if vocabulary is None else shapes.check_whole("vocabulary", vocabulary, least=2)
        if x.min() < 0 or x.max() >= most or most < 2:
            raise ValueError(
                f"vocabulary must be above all tokens of x, {x.min()} to {x.max()}, and 2 or more, got {most}"
            )
        return [("a new value", (x + rng.integers(1, most, size=x.shape)) % most) for _ in range(3)]
    large = (100.0 if half else 10_000.0) if large is None else large
    shapes.check_positive("large", large)
    new = rng.normal(size=x.shape) * (x.std() or 1.0)
    return [("a new value", new), ("a large value", large * new), ("a large value", -large * new)]


def _with(x, new, places):
    """A copy of x with new values at `places`, (T,) or (B, T)."""
    places = np.broadcast_to(places, x.shape[:2])
    return np.where(places.reshape(*places.shape, *[1] * (x.ndim - 2)), new, x)


def _distance(before, after, axes):
    """|after - before|, the largest over all but the first `axes` axes; infinite for NaN, 0 for equal infinities."""
    with np.errstate(invalid="ignore"):
        distance = np.where(after == before, 0.0, np.abs(after - before))
    distance = np.where(np.isnan(distance), np.inf, distance)
    return distance.max(axis=tuple(range(axes, distance.ndim)), initial=0.0)


def _precision(x):
    """The distance from 1 to the next number of the dtype of x; 0 for whole numbers."""
    if shapes.is_tensor(x):
        return sys.modules["torch"].finfo(x.dtype).eps if x.is_floating_point() else 0.0
    return float(np.finfo(x.dtype).eps) if x.dtype.kind == "f" else 0.0


def _moves(size, what):
    return f"moves {what} by {size:.3g}" if np.isfinite(size) else f"makes {what} NaN or infinite"


def _output(b, s=None):
    return f"the output of sequence {b}" + ("" if s is None else f" at position {s}")


def _place(b, s=None):
    return f"sequence {b}" if s is None else f"{s} of sequence {b}"


def _some(texts, most=6):
    more = [f"{len(texts) - most} more"] if len(texts) > most else []
    return ", ".join(texts[:most] + more)
