"""check("06.1", answer): a friendly verdict on the answer to an exercise, in one line. It never raises.

An exercise is a right answer, inputs to try it on, and the mistakes that people make: wrong answers, each with a name.
Whatever gives the numbers of a wrong answer gets the verdict of that name. An answer may be a number, an array or a
function, in NumPy or in torch.
"""

import sys
import warnings
from dataclasses import dataclass, field

import numpy as np

from .functional import attention, softmax
from .gradients import softmax_vjp

# Every sentence that a reader sees, in one place for translators.
VERDICTS = {
    "correct": "Exercise {id}: correct.",
    "not yet": "Exercise {id}: not yet. {why}",
    "unknown": "There is no exercise {id}.",
    "nothing": "The answer is still empty.",
    "no function": "The answer must be a function, got {kind}.",
    "no value": "The answer must be a number or an array, got {kind}.",
    "raised": "The function raised {error}.",
    "broadcast": "The function raised {error}. Did the sum keep its axis (keepdims=True)?",
    "no numbers": "The function must return numbers, got {kind}.",
    "shape": "The result has shape {got}, expected {expected}.",
    "changes input": "The function changes its input. Work on a copy.",
    "nan": "The result holds NaN (not a number) or infinity.",
    "differs": "The numbers are not right: at {where} expected {expected:.4f}, got {got:.4f}.",
    # chapter 06
    "overflow": "Large scores overflow. Subtract the largest score first: softmax does not see the shift.",
    "wrong axis": "The columns of the weights sum to 1, but each row must: one row is one query. Check the axis.",
    "whole table": "The weights of the whole table sum to 1, but each row must. Give the sum the axis -1.",
    "one shift": "Rows far below the largest score of the table become 0. Take the largest score of each row.",
    "no division": "These are the exponentials. Divide each row by its sum.",
    "division": "This is division by the sum. The exponential is missing.",
    "no softmax": "The values are mixed with the scores themselves. The softmax is missing.",
    "no scale": "The scores are not divided by the square root of d_k: the weights come out too sharp.",
    "no root": "The scores are divided by d_k. Divide by its square root.",
    "multiplied": "The scores are multiplied by the square root of d_k. Divide by it.",
    "scaled late": "The weights are divided by the square root of d_k. Divide the scores, before the softmax.",
    "scale by d_v": "The scores are scaled by the size of a value. Take the size of a key, the last axis of q and k.",
    "scale by T": "The scores are scaled by the number of keys. Take the size of a key, the last axis of q and k.",
    "weights only": "These are the weights. Multiply them with the values.",
    "the bug": "The function still has its bug.",
    "cut in rows": "The words are cut into two groups, not the features. Compare shapes before and after the split.",
    "join": "The heads are right, but the join mixes words and heads. Swap the axes back before the last reshape.",
    "elementwise": "This is w times g. Raising one weight lowers the others: subtract the weighted mean of g.",
    "diagonal": "This is only the diagonal of the Jacobian. The terms between different scores are missing.",
    "plain mean": "The mean that is subtracted must be weighted by w.",
    "plain sum": "The sum that is subtracted must be weighted by w.",
    "mean of products": "The products w g must be summed, not averaged.",
    "no weight": "The difference g - (w . g) must still be multiplied by w.",
    "sign": "The sign is wrong: it is g minus the weighted mean.",
    "sum over columns": "The sum of w g must run over a row, axis -1.",
    "sum over table": "The sum of w g must run over one row, not over the whole table.",
}


@dataclass(frozen=True)
class Exercise:
    """A right answer, the argument tuples to try a function on (none for a value), and lists of wrong ones by name."""

    right: object
    inputs: tuple = ()
    mistakes: dict = field(default_factory=dict)


def check(exercise_id, answer):
    """Print one line: whether `answer` is right and, if it is not, the likely mistake. Returns nothing, never raises.

    >>> check("06.1", None)
    Exercise 6.1: not yet. The answer is still empty.
    """
    number = _number(exercise_id)
    exercise = next((exercise for key, exercise in EXERCISES.items() if _number(key) == number), None)
    if exercise is None:
        print(VERDICTS["unknown"].format(id=number))
        return
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        why = _find_fault(exercise, answer)
    print(VERDICTS["not yet" if why else "correct"].format(id=number, why=why))


def _number(exercise_id):
    """ "06.1", "6.1" and 6.1 are one exercise: "6.1"."""
    return ".".join(part.lstrip("0") or "0" for part in _text(exercise_id).split("."))


def _text(x):
    """str(x) in one line; nothing for something that cannot be written as text."""
    try:
        return " ".join(str(x).split())
    except Exception:
        return ""


def _find_fault(exercise, answer):
    """What is wrong with the answer, as a sentence; None if nothing is."""
    if answer is None or answer is Ellipsis:
        return VERDICTS["nothing"]
    if not exercise.inputs:
        if callable(answer):
            return VERDICTS["no value"].format(kind="a function")
        got = _numbers(answer)
        if got is None:
            return VERDICTS["no value"].format(kind=type(answer).__name__)
        mistakes = [(name, [np.asarray(wrong)]) for name, wrong in _mistakes(exercise)]
        return _compare([got], [np.asarray(exercise.right)], mistakes)
    if not callable(answer):
        return VERDICTS["no function"].format(kind=type(answer).__name__)
    results = []
    for arguments in exercise.inputs:
        result, fault = _call(answer, arguments)
        if fault:
            return fault
        results.append(result)
    expected = [exercise.right(*arguments) for arguments in exercise.inputs]
    mistakes = [(name, [_quiet(wrong, x) for x in exercise.inputs]) for name, wrong in _mistakes(exercise)]
    return _compare(results, expected, mistakes)


def _mistakes(exercise):
    return [(name, wrong) for name, several in exercise.mistakes.items() for wrong in several]


def _call(function, arguments):
    """The function's numbers on copies of the arguments, NumPy first, then tensors; or a fault."""
    result, fault = _call_on(function, [np.array(x) if isinstance(x, np.ndarray) else x for x in arguments], arguments)
    torch = sys.modules.get("torch")
    if fault and torch is not None:  # a function written for torch
        tensors = [torch.tensor(x) if isinstance(x, np.ndarray) else x for x in arguments]
        on_tensors, tensor_fault = _call_on(function, tensors, arguments)
        if not tensor_fault or "Tensor" in fault or "keepdim'" in fault or "'dim'" in fault:
            return on_tensors, tensor_fault
    return result, fault


def _call_on(function, given, arguments):
    try:
        result = function(*given)
    except (Exception, SystemExit, GeneratorExit) as error:  # an interrupt must still stop an endless answer
        said = _text(error)
        name = "broadcast" if "broadcast" in said or "must match" in said else "raised"
        return None, VERDICTS[name].format(error=f"{type(error).__name__}: {said}".rstrip(".: "))
    if result is None or result is Ellipsis:
        return None, VERDICTS["nothing"]
    numbers = _numbers(result)
    if numbers is None:
        return None, VERDICTS["no numbers"].format(kind=type(result).__name__)
    if not all(np.array_equal(_numbers(now), before) for now, before in zip(given, arguments, strict=True)):
        return None, VERDICTS["changes input"]
    return numbers, None


def _compare(results, expected, mistakes):
    """None if all results are right; for the first wrong one the mistake that gives it, or what is odd about it."""
    for i, (got, right) in enumerate(zip(results, expected, strict=True)):
        if _same(got, right):
            continue
        for name, wrong in mistakes:
            if _same(got, wrong[i]):
                return VERDICTS[name]
        if got.shape != right.shape:
            return VERDICTS["shape"].format(got=got.shape, expected=right.shape)
        if not np.isfinite(got).all():
            return VERDICTS["nan"]
        where = tuple(int(n) for n in np.unravel_index(np.argmax(np.abs(got - right)), right.shape))
        return VERDICTS["differs"].format(where=where, expected=float(right[where]), got=float(got[where]))
    return None


def _same(a, b):
    return b is not None and a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)


def _quiet(function, arguments):
    """A wrong function's numbers; None where it cannot even be run."""
    try:
        return np.asarray(function(*arguments))
    except Exception:
        return None


def _numbers(x):
    """x as a float64 array, None if it holds no numbers. Torch tensors of any device too."""
    try:
        if hasattr(x, "detach"):
            x = x.detach().cpu()
            x = (x if x.is_complex() else x.double()).numpy()
        refused = isinstance(x, np.ma.MaskedArray) or np.asarray(x).dtype.kind not in "biuf"
        return None if refused else np.asarray(x, dtype=np.float64)
    except Exception:
        return None


# --- chapter 06: scaled dot-product attention -------------------------------------------------------------------


def _inputs_06():
    """Pairwise different sizes, so that a swapped axis or a wrong size shows."""
    rng = np.random.default_rng(6)
    scores = rng.normal(size=(2, 3))
    q, k, v = (rng.normal(size=shape) for shape in ((2, 6), (3, 6), (3, 4)))
    x, *projections = (rng.normal(size=shape) for shape in ((5, 6), (6, 6), (6, 6), (6, 6)))
    w, g = softmax(rng.normal(size=(2, 3))), rng.normal(size=(2, 3))
    return scores, (q, k, v), (x, *projections), (w, g)


_SCORES, _QKV, _XWWW, _WG = _inputs_06()


def _exp_over_sum(axis, shift):
    """softmax as it is often written: `axis` of the sum, `shift` takes the scores and gives what is subtracted."""

    def function(x):
        e = np.exp(x - shift(x))
        return e / e.sum(axis=axis, keepdims=True)

    return function


def _row_max(x):
    return x.max(axis=-1, keepdims=True)


def _scaled(scale, then=softmax):
    """Attention with a scale of its own, a function of (d_k, d_v, T_k)."""
    return lambda q, k, v: then(q @ k.T * scale(q.shape[-1], v.shape[-1], k.shape[0])) @ v


def _root(d_k, *others):
    return d_k**-0.5


def _cut(x):
    return x.reshape(len(x), 2, -1).swapaxes(0, 1)  # (T, d_model) -> (2 heads, T, d_k)


def _two_heads(scale, cut=_cut, join=lambda heads: heads.swapaxes(0, 1)):
    """Two heads side by side, with a scale that is a function of (d_k, d_model)."""

    def function(x, W_q, W_k, W_v):
        q, k, v = cut(x @ W_q), cut(x @ W_k), cut(x @ W_v)
        heads = softmax(q @ k.swapaxes(-1, -2) * scale(q.shape[-1], x.shape[-1])) @ v
        return join(heads).reshape(len(x), -1)

    return function


EXERCISES = {
    "06.1": Exercise(
        right=softmax,
        inputs=((_SCORES,), (np.array([[3000.0, 2999.0, -1000.0], [-2000.0, -2001.0, -2002.0]]),)),
        mistakes={
            "overflow": [_exp_over_sum(-1, lambda x: 0.0)],
            "wrong axis": [lambda x: softmax(x, axis=0)],
            "whole table": [_exp_over_sum(None, np.max), _exp_over_sum(None, _row_max)],
            "one shift": [_exp_over_sum(-1, np.max)],
            "no division": [np.exp, lambda x: np.exp(x - _row_max(x))],
            "division": [lambda x: x / x.sum(axis=-1, keepdims=True)],
        },
    ),
    "06.2": Exercise(
        right=attention,
        inputs=(_QKV,),
        mistakes={
            "no scale": [_scaled(lambda d_k, d_v, T_k: 1.0)],
            "no root": [_scaled(lambda d_k, d_v, T_k: 1 / d_k)],
            "multiplied": [_scaled(lambda d_k, d_v, T_k: d_k**0.5)],
            "scaled late": [_scaled(lambda d_k, d_v, T_k: 1.0, lambda scores: softmax(scores) * 6**-0.5)],
            "scale by d_v": [_scaled(lambda d_k, d_v, T_k: d_v**-0.5)],
            "scale by T": [_scaled(lambda d_k, d_v, T_k: T_k**-0.5)],
            "weights only": [lambda q, k, v: softmax(q @ k.T * q.shape[-1] ** -0.5)],
            "no softmax": [_scaled(_root, lambda scores: scores)],
            "wrong axis": [_scaled(_root, lambda scores: softmax(scores, axis=0))],
            "whole table": [_scaled(_root, _exp_over_sum(None, np.max))],
            "division": [_scaled(_root, lambda scores: scores / scores.sum(axis=-1, keepdims=True))],
        },
    ),
    "06.3": Exercise(
        right=_two_heads(_root),
        inputs=(_XWWW,),
        mistakes={
            "the bug": [_two_heads(lambda d_k, d_model: d_model**-0.5)],
            "no scale": [_two_heads(lambda d_k, d_model: 1.0)],
            "no root": [_two_heads(lambda d_k, d_model: 1 / d_k)],
            "multiplied": [_two_heads(lambda d_k, d_model: d_k**0.5)],
            "cut in rows": [_two_heads(_root, lambda x: x.reshape(2, len(x), -1))],
            "join": [_two_heads(_root, join=lambda heads: heads)],
        },
    ),
    "06.4": Exercise(
        right=softmax_vjp,
        inputs=(_WG,),
        mistakes={
            "elementwise": [lambda w, g: w * g],
            "diagonal": [lambda w, g: w * (1 - w) * g],
            "plain mean": [lambda w, g: w * (g - g.mean(axis=-1, keepdims=True))],
            "plain sum": [lambda w, g: w * (g - g.sum(axis=-1, keepdims=True))],
            "mean of products": [lambda w, g: w * (g - (w * g).mean(axis=-1, keepdims=True))],
            "no weight": [lambda w, g: g - (w * g).sum(axis=-1, keepdims=True)],
            "sign": [lambda w, g: -softmax_vjp(w, g)],
            "sum over columns": [lambda w, g: softmax_vjp(w, g, axis=0)],
            "sum over table": [lambda w, g: w * (g - (w * g).sum())],
        },
    ),
}
