"""check("06.1", answer): a friendly verdict on the answer to an exercise, in one line. It never raises.

An exercise is a right answer, inputs to try it on, and the mistakes that people make: wrong answers, each with a name.
Whatever gives the numbers of a wrong answer gets the verdict of that name. An answer may be a number, an array or a
function, in NumPy or in torch.
"""

import sys
import warnings
from dataclasses import dataclass, field

import numpy as np

from . import shapes
from .functional import additive_scores, attention, gaussian_scores, grouped_attention, sinusoidal_positions, softmax
from .gradients import additive_scores_vjp, softmax_vjp

# Every sentence that a reader sees, in one place for translators.
VERDICTS = {
    "correct": "Exercise {id}: correct.",
    "not yet": "Exercise {id}: not yet. {why}",
    "unknown": "There is no exercise {id}.",
    "nothing": "The answer is still empty.",
    "no function": "The answer must be a function, got {kind}.",
    "no value": "The answer must be a number or an array, got {kind}.",
    "raised": "The function raised {error}.",
    "broadcast": "The function raised {error}. Print both shapes. Did a sum lose its axis (keepdims=True)?",
    "no numbers": "The function must return numbers, got {kind}.",
    "shape": "The result has shape {got}, expected {expected}.",
    "changes input": "The function changes its input. Work on a copy.",
    "nan": "The result holds NaN (not a number) or infinity.",
    "differs": "The numbers are not right: at {where} expected {expected:.4f}, got {got:.4f}.",
    # chapter 01
    "library": "The reset gate comes after U_n, as in nn.GRU. In the paper it multiplies the old state before U_n.",
    "keeps": "z is the share of the old state here. In the paper it is the share of the proposal.",
    "order": "The blocks are taken in another order. They stand side by side as r, z, n.",
    "no reset": "The reset gate is not used.",
    "plain proposal": "The proposal needs a tanh.",
    "all tanh": "The gates need a sigmoid: they must lie between 0 and 1.",
    "all places": "The padding counts in the number that the sum is divided by. Divide by the number of valid tokens.",
    "padding": "The padding counts as a word that the model should have said.",
    "sums": "These are the sums over a sentence. Divide each by its number of valid tokens.",
    "plus log": "The sign is wrong: the logarithm of a probability is negative, its surprise is positive.",
    "no log": "These are probabilities. The logarithm is missing.",
    "logits": "These come from the logits themselves. The softmax is missing.",
    "batch mean": "The number of valid tokens must be that of each sentence, not of the whole batch.",
    "first state": "These are the states after the first word.",
    "off by one": "This is one position too far. Positions count from 0: the last word of n stands at n - 1.",
    "mean state": "These are means over the words. Take the state after the last word.",
    "not clipped": "An n-gram counts at most as often as the reference has it.",
    "over reference": "The precisions are divided by the n-grams of the reference. Divide by those of the prediction.",
    "sets": "Repeated n-grams count once for each time they stand there. Count them, do not put them into a set.",
    "same place": "An n-gram may stand anywhere in the reference, not only at the same position.",
    # chapter 02
    "underflow": "Far from all keys the kernel rounds to 0, and 0 / 0 is no number. Subtract the largest score first.",
    "no sum": "The kernel is not divided by the sum of its row: the weights do not sum to 1.",
    "plain width": "The width must be squared: the squared distance is divided by 2 * width**2.",
    "no two": "The 2 is missing: the squared distance is divided by 2 * width**2.",
    "distance": "This takes the distance. The Gaussian kernel takes its square.",
    "far is near": "The sign is wrong: the farthest keys get the largest weights.",
    "dot": "These weights come from the dot product. It agrees with the Gaussian kernel only for keys of equal length.",
    "times": "The squared distance is multiplied by the square of the width. Divide by it: / (2 * width**2).",
    "own value": "Each key still answers for itself. Its own score must be -inf (0 is no help: it means distance 0).",
    "weight 0": "The weights that are left do not sum to 1. Leave the key out before the softmax, not after.",
    "errors": "These are the errors. Return the estimates.",
    "column of ones": "The 1 belongs to the query. The new feature of a key depends on the length of the key.",
    "plus": "The sign of the new feature is wrong: long keys must lose, not win.",
    "whole square": "The new feature is minus half the squared length. The half is missing.",
    "length": "The new feature takes the squared length, not the length.",
    "in front": "The new feature must be the last one, where the query has its 1.",
    # chapter 03
    "no bend": "The tanh is missing. Without it the weights would be the same for every query.",
    "two tanh": "There are two tanh. Add the two projections first, then take the tanh of the sum.",
    "bend last": "The tanh is taken of the score. It must come before v_a.",
    "no v": "The features are added up without v_a.",
    "product": "The two projections are multiplied. The additive score adds them.",
    "swapped": "The rows are keys. Each row must be a query, each column a key.",
    "pads count": "The padding still has a say: its scores must not enter the softmax.",
    "pads at 0": "The padding got a score of 0, and 0 is a score like any other. It must be -inf.",
    "not low enough": "Some scores are lower than the number in place of a masked one. It must be -inf.",
    "not shared out": "The weights that are left do not sum to 1. Mask the scores, before the softmax.",
    "mask reversed": "The mask is the wrong way around: only the padding has a say.",
    "one too many": "The mask lets one pad in: positions count from 0, so a real one is below its length.",
    "one too few": "The mask hides the last real word: positions count from 0, up to the length minus 1.",
    "no weights": "These are the sums of the annotations. The weights are missing.",
    "no slope": "The derivative of tanh is missing: 1 - a**2, with a the result of the tanh.",
    "slope of a": "The derivative of tanh is 1 - a**2. The square is missing.",
    "slope of sum": "The derivative 1 - a**2 needs a, the result of the tanh, not what goes into it.",
    "no v in it": "On its way back the gradient is multiplied by v_a. It is missing.",
    "mean over queries": "The gradients of all queries are added up, not averaged.",
    "only to the sum": "This is the gradient at k U_a. Go back through the product: multiply with U_a transposed.",
    # chapter 04
    "a root": "These scores are divided by a root. Luong's general score is not.",
    "state first": "The state stands first. This W_c expects the context first: [c_t; s_t].",
    "no tanh": "This is linear. The tanh around the product is missing.",
    "tanh first": "The tanh is taken before the product. It comes last: tanh([c_t; s_t] W_c).",
    "over states": "The weights of the states of one sentence sum to 1. Each state must have a budget of its own.",
    "over batch": "The weights of different sentences sum to 1. Each state must have a budget of its own.",
    "no window": "All positions get a weight. Those farther than D from p must get 0.",
    "scores to 0": "A score of 0 is no weight of 0. Outside of the window the score must be -inf.",
    "window late": "The softmax runs over all positions. Before the Gaussian, the window alone must sum to 1.",
    "no Gaussian": "The Gaussian around p is missing.",
    "sum to 1": "Leave the weights as they are after the Gaussian: they sum to less than 1.",
    "wide Gaussian": "The standard deviation is D / 2, not D.",
    "no square": "The standard deviation must be squared: 2 * (D / 2)**2.",
    "no D in it": "The width of the Gaussian must depend on D: its standard deviation is D / 2.",
    "narrow window": "The positions at a distance of exactly D are inside of the window.",
    "whole p": "p need not be whole. Do not round it.",
    # chapter 05
    "exchanged": "Queries and keys have changed places: the first matrix belongs to the word that asks.",
    "with a scale": "These scores are divided by the square root of d_k. This exercise leaves the scale out.",
    "one matrix": "Queries and keys come from one matrix. Use both.",
    "x for v": "The weights mix x itself. Mix the values, x @ W_v.",
    "only asked": "This is only what comes in through the queries. W also makes the keys.",
    "only found": "This is only what comes in through the keys. W also makes the queries.",
    "halved": "W is used twice: the two derivatives are added, not averaged.",
    "not transposed": "d_scores is the same in both terms. For the keys it must be transposed.",
    "before W": "These are the derivatives at the queries and keys. (5.6) goes on to W.",
    "backward": "This looks at the position before. k=1 puts the c above the diagonal.",
    "wraps": "The last position looks at the first one. It has no next one: its scores are 0.",
    "itself": "Here each position looks at itself.",
    "onto itself": "The two P of the scores do not cancel. M needs the transpose of P on its left, P on its right.",
    "sentences mixed": "The function still has its bug: change one sentence, and outputs of the others move. "
    "A reshape does not swap axes.",
    "cut at the end": "The way in is right, but the way out still mixes the sentences. Swap the axes there too.",
    "across words": "These words attend across sentences: the axis before the last must be that of the words.",
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
    # chapter 07
    "only causal": "The padding may be seen. A key must be real, too.",
    "only padding": "The future may be seen. A key must not come after its query, too.",
    "or": "The two masks are joined by or. Both must hold: use and.",
    "opposite": "True must mean that a query may see a key. Here it means the opposite.",
    "rows hidden": "The padding is hidden as a query. Hide it as a key: real[:, None, :], not real[:, :, None].",
    "rows too": "The padding is hidden as a query, too. That only makes rows with nothing to see. Hide the keys.",
    "not itself": "A query may see its own position.",
    "next word": "A query sees one position too far: the word after it.",
    "upside down": "The triangle is upside down: queries see what comes after them, not what came before.",
    "no mask": "The mask is not used.",
    "dead NaN": "A row with nothing to see gives 0 / 0, NaN. Its weights must be 0.",
    "dead uniform": "A row with nothing to see gives equal shares to what it must not see. Its weights must be 0.",
    "late": "A hidden score far above the others leaves 0 / 0 behind. Mask the scores before the softmax.",
    "batch as queries": "The function still has its bug. Change a pad, and a real word moves. Take 2 sentences of "
    "3 words, and it raises an error.",
    "at the start": "The window starts at the first key, so the new queries see old keys only. Align it at the end.",
    "whole past": "The future is hidden, but the past has no end. Hide the keys that are w or more places back.",
    "one more": "The window is one key too wide: with w = 1 a query sees its own place alone.",
    "whole future": "Keys after the place of a query must be hidden, too.",
    # chapter 08
    "one wide head": "This is one head of the full width: there is only one table of weights.",
    "scale of model": "The scores are divided by the root of d_model. A head divides by the root of its own d_k.",
    "every h-th": "A head owns d_k neighbors, from i d_k to i d_k + d_k - 1, not every h-th one.",
    "features cut": "The features of x are cut, so a head sees only a part of each token. Project first, then split.",
    "no W_o": "These are the heads side by side. W_o is missing.",
    "wrong order": "The heads stand side by side in the wrong order.",
    "still averages": "With a query of 0 all scores are equal, and the head averages all values. It must give 0.",
    "columns of W_o": "These columns of W_o are numbers of the output. A head owns rows of W_o.",
    "all on": "All heads are on.",
    "only this head": "Only head i is on. All others must be.",
    "other head": "Another head is off. Heads count from 0.",
    "louder": "The other heads became louder. Leave them as they are.",
    "torch transposed": "PyTorch computes x @ weight.T. The transposition is missing.",
    "head by head": "The rows are read head by head. First come all rows of W_q, then all of W_k, then all of W_v.",
    "another order": "The order is another one: first W_q, then W_k, then W_v.",
    "tokens first": "The tokens come before the heads. Swap the axes to get (3, h, T, d_k).",
    "reshape alone": "Shuffle the tokens, and the outputs do not follow: a reshape alone cuts the tokens into groups.",
    # chapter 09
    "query heads": "This counts the query heads. Only key-value heads are kept.",
    "keys only": "The values are missing: each token keeps a key and a value.",
    "one layer": "This is the cache of one layer. Each layer keeps its own.",
    "float32": "These are numbers of 4 bytes. A number in bfloat16 takes 2.",
    "GB": "These are GB, of 10**9 bytes. A GiB has 2**30.",
    "old only": "The new word does not see itself. Append its key and value first, then attend.",
    "itself only": "The new word sees only itself. It must see the cache too.",
    "start": "The answer is the value of the first word. Causal masks of a cache are aligned at the end: see all keys.",
    "shared by all": "All query heads ask one key-value head. Each group has its own.",
    "all pooled": "This is the mean of all heads, twice. Each group of three is averaged alone.",
    "tiled": "The groups are mixed: heads 0, 1, 2 are one group. These are the means of every other head.",
    "first head": "This keeps the first head of each group. Take the mean of the group.",
    "added": "These are the sums of the heads in a group. Take the mean.",
    # chapter 10
    "no projections": "The projections are missing: W_q, W_k, W_v and W_o take 4 n d^2 multiply-adds together.",
    "three matrices": "There are four projections. The output is multiplied by W_o.",
    "one product": "Only one product with the table is counted. There are two: the scores, and the weighted sums.",
    "FLOPs": "These are FLOPs, two for each multiply-add.",
    "no d": "This is the size of the table. Each score is a sum over d products, each mixed number one over n.",
    "inverse": "The function still has its bug. It is right where the first key has the largest score, else wrong.",
    "output not rescaled": "The running output keeps the old maximum when a larger score comes. Rescale it as the sum.",
    "sum not rescaled": "The running sum keeps the old maximum when a larger score comes. Rescale it as the output.",
    "nothing rescaled": "When a larger score comes, the sum and the output must be rescaled to the new maximum.",
    "no last division": "The output is not divided by the sum of the exponentials.",
    "plain mean of parts": "The parts count the same here. One with larger scores must count more.",
    "parts not rescaled": "Each part is measured from its own maximum. Rescale all to the largest of them first.",
    "sums left out": "The part outputs are weighted by exp(m) alone. How many keys stand behind them, says l.",
    "exp of m": "exp(m) overflows for large scores. Subtract the largest m first.",
    # chapter 11
    "n - 1": "The variance is divided by the number of features less 1. Layer norm divides by the number of features.",
    "over tokens": "Each column has mean 0: the tokens are normalized together. Each must be on its own, axis -1.",
    "over table": "The whole table is normalized at once. Each token must be on its own, axis -1 with keepdims=True.",
    "by variance": "The difference is divided by the variance. Divide by its square root.",
    "no eps": "A token whose features are all equal has variance 0, and 0 / 0 is no number. Add 1e-5 to the variance.",
    "bare norm": "The gain and the shift are not used.",
    "halves": "All sines stand first, then all cosines. As good, but here they alternate: sin, cos, sin, cos.",
    "cosine first": "The cosines stand in the even columns. There the sines belong.",
    "divided by w": "The positions are divided by the frequencies. Multiply.",
    "normed sum": "The function still has its bug. It returns the same for x and for 10 x: x itself is not in the sum.",
    "post-norm": "The norm is taken of the sum, as in the paper of 2017. Here x itself must reach the end.",
    "x left out": "x is not added.",
    "not normed": "The network reads x itself. It must read the normalized x.",
    "bend at the end": "The ReLU comes last. It stands between the two products.",
    "straight": "The ReLU between the two products is missing.",
    "position 0": "The function still has its bug. One word at a time, every word stands at position 0, and the result "
    "differs from the full pass.",
    "last for all": "All new words get the same position. Each has its own.",
    "one too far": "The positions begin one too far: with t words before, the first new one stands at t.",
    "of the old": "These are the positions of the words that are in the cache already.",
    "no biases": "The biases of the network are missing: one for each column of its two matrices.",
    "no norms": "The two norms are missing: each has a gain and a shift for each feature.",
    "one norm": "There are two norms, one before each part.",
    "decoder layer": "This is a decoder layer. An encoder layer has one attention.",
    "wide attention": "The attention has four matrices of d_model x d_model.",
    # appendix A1
    "ratios": "These are the ratios to the largest weight. The scores are their logarithms.",
    "log only": "Softmax gives the right weights, but the largest score of each row must be 0: subtract it.",
    "one largest": "Subtract the largest score of each row, not that of the whole table.",
    "other base": "The logarithm has another base. Softmax takes powers of e: use np.log.",
    "below zero": "The sign is wrong: the largest weight has the largest score, and it is 0.",
    "softmax of weights": "These are weights of weights. Go back, from weights to scores: it takes a logarithm.",
    "twice": "The function still has its bug: however well a key fits, its weight never passes e / (e + 2) = 0.58.",
    # appendix A2
    "only silenced": "The first weight is 0, but the other weights do not sum to 1.",
    "renormalized": "The weights that are left were made to sum to 1, and the output has changed. Solve for them.",
    "sum forgotten": "The output is the same, but the weights do not sum to 1. That is one more equation.",
    "first kept": "The first key still has its weight. It must be 0.",
    "only the largest": "This equals the largest visible score alone. Half of the weight is as much as all three have.",
    "nothing added": "The -20 is not made up for: the hidden score must be 20 higher.",
    "twenty lower": "The sign is wrong: the hidden score must make up for the -20.",
    "sum of scores": "Scores do not add up. The exponentials of the scores do.",
    "equal share": "This gives the hidden key a quarter, as if it were a mean of the visible ones. It must get half.",
    "maximum not added": "What was subtracted before the exponential must be added again after the logarithm.",
    "sum of gaps": "The gap of a word is the largest of its differences, a maximum over the features and no sum.",
    "both reordered": "Both are reordered. The words of shuffled already stand in the order p; out has to follow.",
    "log of sum overflows": "Large scores overflow. Subtract the largest score first, and add it again at the end.",
    "undone with p": "The function still has its bug: with p = [1, 2, 0, 3] it finds gaps in a layer that only copies.",
    "invariance": "This tests invariance: an equivariant layer gives the outputs in the new order, out[p].",
    "order of x": "The gaps are right, but in the order of x. Return them in the order of x[p].",
    "one gap": "This is the largest gap of all. Return one for each word.",
    "no distance": "These are differences with a sign, and gaps may be hidden by it. Take absolute values.",
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
        x = shapes.plain(x)
        refused = isinstance(x, np.ma.MaskedArray) or np.asarray(x).dtype.kind not in "biuf"
        return None if refused else np.asarray(x, dtype=np.float64)
    except Exception:
        return None


# --- chapter 01: one vector for a whole sentence ----------------------------------------------------------------


def _inputs_01():
    """Pairwise different sizes; lengths that leave padding; a sentence with a word too often for its reference."""
    rng = np.random.default_rng(1)
    step = tuple(rng.normal(size=shape) for shape in ((4,), (2,), (4, 6), (2, 6)))
    logits, targets = rng.normal(size=(2, 4, 5)), np.array([[3, 1, 4, 2], [4, 2, 0, 0]])
    states, lengths = rng.normal(size=(3, 5, 2)), np.array([5, 2, 3])
    said, reference = np.array([7, 3, 7, 3, 7, 8, 9, 5]), np.array([3, 7, 3, 7, 8, 4, 6, 5, 9, 2])
    return step, (logits, targets), (states, lengths), (said, reference)


_GRU_STEP, _LOSS, _STATES, _SAID = _inputs_01()


def _sigmoid(u):
    return 1 / (1 + np.exp(-u))


def _gru(order=(0, 1, 2), before=True, keep=False, gate=_sigmoid, squeeze=np.tanh, reset=True):
    """A step of a GRU. before: r multiplies the old state, not the product. keep: z is the share of the old state."""

    def function(x, h, W, U):
        (W_r, W_z, W_n), (U_r, U_z, U_n) = ([np.split(M, 3, axis=1)[i] for i in order] for M in (W, U))
        r, z = gate(x @ W_r + h @ U_r), gate(x @ W_z + h @ U_z)
        r = r if reset else np.ones_like(r)
        n = squeeze(x @ W_n + ((r * h) @ U_n if before else r * (h @ U_n)))
        return (1 - z) * n + z * h if keep else (1 - z) * h + z * n

    return function


def _surprise(logits, targets, then=lambda p: -np.log(p), over=-1):
    """What `then` makes of the probability of each right token, (B, T)."""
    return then(np.take_along_axis(softmax(logits, axis=over), targets[..., None], axis=-1)[..., 0])


def _valid_mean(surprise, count=lambda valid: valid.sum(axis=1)):
    """The sum of a function of (logits, targets) over valid tokens, divided by a count of them."""
    return lambda logits, targets: (surprise(logits, targets) * (targets != 0)).sum(axis=1) / count(targets != 0)


def _state_at(place):
    """The states (B, d) at a position, a function of the lengths (B,)."""
    return lambda h, lengths: h[np.arange(len(h)), place(lengths) % h.shape[1]]


def _precisions(matches, over=lambda said, reference: said):
    """p_1 to p_4 of two arrays of ids. matches(a, b) of their lists of n-grams."""

    def function(said, reference):
        result = []
        for n in (1, 2, 3, 4):
            a, b = ([tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)] for ids in (said, reference))
            result.append(matches(a, b) / len(over(a, b)))
        return np.array(result)

    return function


def _clipped(a, b):
    return sum(min(a.count(gram), b.count(gram)) for gram in set(a))


# --- chapter 02: a soft lookup ----------------------------------------------------------------------------------


def _inputs_02():
    """Pairwise different sizes and a width that is not 1; then queries far from all keys: both, and one of the two."""
    rng = np.random.default_rng(2)
    q, k, v = (rng.normal(size=shape) for shape in ((2, 3), (5, 3), (5, 4)))
    return (q, k, v, 0.7), (q + 100, k, v, 0.7), (q + np.array([[0.0], [100.0]]), k, v, 0.7)


_NEAR, _FAR, _MIXED = _inputs_02()


def _square(q, k):
    return ((q[:, None] - k) ** 2).sum(axis=-1)


def _lookup(scores, then=softmax):
    """A soft lookup whose scores are a function of q, k and the width."""
    return lambda q, k, v, width: then(scores(q, k, width)) @ v


def _by_sum(scores):
    return np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)


# What people write in place of the Gaussian scores.
_SCORES_02 = {
    "plain width": [lambda q, k, width: -_square(q, k) / (2 * width)],
    "no two": [lambda q, k, width: -_square(q, k) / width**2],
    "distance": [
        lambda q, k, width: -(_square(q, k) ** 0.5) / (2 * width**2),
        lambda q, k, width: -np.abs(q[:, None] - k).sum(axis=-1) / (2 * width**2),
    ],
    "far is near": [lambda q, k, width: _square(q, k) / (2 * width**2)],
    "dot": [lambda q, k, width: q @ k.T / width**2, lambda q, k, width: q @ k.T],
}


def _left_out(fill, then=softmax):
    """Estimates for each key from the others, with `fill` as the scores of a key and itself."""

    def function(k, v, width):
        scores = gaussian_scores(k, k, width)
        np.fill_diagonal(scores, fill)
        return then(scores) @ v

    return function


def _zero_diagonal(weights):
    return weights * (1 - np.eye(len(weights)))


def _longer(feature):
    """Keys with one more feature, a function of their squared lengths."""
    return lambda k: np.append(k, feature((k**2).sum(axis=-1, keepdims=True)), axis=-1)


# --- chapter 03: Bahdanau -----------------------------------------------------------------------------------------


def _inputs_03():
    """Pairwise different sizes; lengths that differ, and scores that are mostly negative, so that padding wins."""
    rng = np.random.default_rng(3)
    additive = tuple(rng.normal(size=shape) for shape in ((7, 2, 3), (7, 4, 5), (3, 6), (5, 6), (6,)))
    scores, h = rng.normal(size=(3, 4)) - 1, rng.normal(size=(3, 4, 5))
    real = np.repeat((np.arange(4) < np.array([[2], [3], [1]]))[:, None], 2, axis=1)  # (3, 2, 4)
    masked = rng.normal(size=(3, 2, 4)) - 1, real
    return additive, (scores, h, np.array([2, 3, 1])), masked, (*additive, rng.normal(size=(7, 2, 4)))


_ADDITIVE, _STEP, _MASKED, _ADDITIVE_BACK = _inputs_03()


def _lower(scores, *rest):
    """The same input with scores that lie far below 0, which softmax does not see: a mask of -100 is not low enough."""
    return scores - 500, *rest


def _joined(q, k, W_a, U_a, bend=lambda x: x):
    return bend(q @ W_a)[..., :, None, :] + bend(k @ U_a)[..., None, :, :]  # (B, T_q, T_k, d_att)


def _step(weigh):
    """Contexts of one step, with weights that are a function of the scores and of where real words are."""
    return lambda scores, h, lengths: _mix(weigh(scores, np.arange(scores.shape[1]) < lengths[:, None]), h)


def _mix(weights, h):
    return (weights[:, :, None] * h).sum(axis=1)


def _filled(fill):
    return lambda scores, real: softmax(np.where(real, scores, fill))


def _key_gradient(delta, then=lambda d, U_a: d.sum(axis=-3) @ U_a.T):
    """The gradient at the keys, with a delta that is a function of what enters the tanh, v_a and g."""
    return lambda q, k, W_a, U_a, v_a, g: then(delta(_joined(q, k, W_a, U_a), v_a, g[..., None]), U_a)


def _delta(x, v_a, g):
    return g * v_a * (1 - np.tanh(x) ** 2)


# --- chapter 04: Luong's scores -----------------------------------------------------------------------------------


def _inputs_04():
    """Pairwise different sizes; for the window a p between two positions, one that is whole, and a D with D / 2 > 1."""
    rng = np.random.default_rng(4)
    general = tuple(rng.normal(size=shape) for shape in ((6, 2, 5), (6, 3, 4), (5, 4)))
    state = tuple(rng.normal(size=shape) for shape in ((6, 2, 3), (6, 2, 4), (7, 4)))
    batch = tuple(rng.normal(size=shape) for shape in ((2, 3, 5), (2, 4, 5)))
    return general, state, batch, (rng.normal(size=(2, 7)), np.array([2.7, 4.0]), 3.0)


_GENERAL, _STATE, _BATCH, _WINDOW = _inputs_04()


def _general(then=softmax, scale=1.0):
    return lambda s, h, W_a: then(s @ W_a @ h.swapaxes(-1, -2) * scale) @ h


def _attentional(c, s, W_c):
    return np.tanh(np.append(c, s, axis=-1) @ W_c)


def _batch_of_dots(then):
    return lambda s, h: then(s @ h.swapaxes(-1, -2)) @ h


def _over_batch(scores):
    return softmax(scores.reshape(-1, scores.shape[-1]), axis=0).reshape(scores.shape)


def _local(sigma=lambda D: D / 2, near=lambda distance, D: np.abs(distance) <= D, then=softmax, center=lambda p: p):
    """The weights of local-p; `then` takes the scores and the mask of the window."""

    def function(scores, p, D):
        distance = np.arange(scores.shape[-1]) - center(p)[:, None]
        gaussian = np.exp(-(distance**2) / (2 * sigma(D) ** 2)) if sigma else 1.0
        return then(scores, near(distance, D)) * gaussian

    return function


def _unit_rows(weights):
    return weights / weights.sum(axis=-1, keepdims=True)


# --- chapter 05: self-attention ---------------------------------------------------------------------------------


def _inputs_05():
    """Pairwise different sizes; positions at right angles that are not one-hot."""
    rng = np.random.default_rng(5)
    x, *views = (rng.normal(size=shape) for shape in ((4, 6), (6, 3), (6, 3), (6, 2)))
    P = np.linalg.qr(rng.normal(size=(7, 5)))[0].T
    return (x, *views), (x, views[0], rng.normal(size=(4, 4))), (P, 2.5), (rng.normal(size=(4, 3, 6)), *views)


_VIEWS, _SHARED, _PLACES, _WORDS_FIRST = _inputs_05()


def _self_attention(x, W_q, W_k, W_v, then=softmax):
    return then(x @ W_q @ (x @ W_k).T) @ (x @ W_v)


def _self(change, then=softmax):
    """Self-attention with its three matrices changed by a function of them."""
    return lambda x, *views: _self_attention(x, *change(*views), then=then)


def _at_shared(combine):
    """x^T times what a function of the derivatives at queries and keys makes of them."""
    return lambda x, W, d_scores: x.T @ combine(d_scores @ (x @ W), d_scores.T @ (x @ W))


def _between(shift):
    """The matrix between positions P and P^T, for scores that are a function of the identity."""
    return lambda P, c: c * P.T @ shift(np.eye(len(P))) @ P


def _next(one):
    return np.eye(len(one), k=1)


def _regroup(x):
    return x.reshape(x.shape[1], x.shape[0], -1)  # what is written where swapaxes(0, 1) is meant


def _swap(x):
    return x.swapaxes(0, 1)


def _words_first(into=_swap, out=_swap):
    def function(x, W_q, W_k, W_v):
        x = into(x)
        return out(attention(x @ W_q, x @ W_k, x @ W_v, scale=1.0))

    return function


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


# --- chapter 07: masks ------------------------------------------------------------------------------------------


def _inputs_07():
    """Padding on both sides; a dead row; a hidden score far above the others; as many sentences as words."""
    rng = np.random.default_rng(7)
    real = np.array([[True, True, True, True], [True, True, False, False], [False, True, True, True]])
    scores, mask = rng.normal(size=(2, 3, 4)), rng.random((2, 3, 4)) < 0.6
    mask[0, 1], mask[1, 2], scores[1, 2, 3] = False, [True, False, True, False], 2000.0
    square = (*rng.normal(size=(3, 3, 3, 2)), np.arange(3) < np.array([[2], [3], [1]]))
    cached = tuple(rng.normal(size=shape) for shape in ((2, 6), (5, 6), (5, 4)))
    return real, (scores, mask), square, [(*cached, np.array(w)) for w in (1, 3)]


_REAL, _SCORES_AND_MASK, _SQUARE, _CACHED = _inputs_07()


def _join_masks(join, k=0):
    """A mask (B, T, T): join(real keys, real queries, causal), the last one with diagonal k."""

    def function(real):
        T = real.shape[1]
        masks = real[:, None, :], real[:, :, None], np.tri(T, k=k, dtype=bool)[None]
        return np.broadcast_to(join(*masks), (len(real), T, T)) * 1.0

    return function


def _mask_late(scores, mask):
    kept = softmax(scores) * mask
    return kept / kept.sum(axis=-1, keepdims=True)


def _attend_where(place):
    """Attention in a batch, with a mask that is a function of real (B, T)."""

    def function(q, k, v, real):
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        return softmax(np.where(place(real), scores, -np.inf)) @ v

    return function


def _window(see):
    """Attention of new queries; see(i, j, w, shift) says whether query i sees key j, with shift = T_k - T_q."""

    def function(q, k, v, w):
        i, j = np.arange(len(q))[:, None], np.arange(len(k))
        return attention(q, k, v, see(i, j, w, len(k) - len(q)))

    return function


# --- chapter 08: multi-head attention ---------------------------------------------------------------------------


def _inputs_08():
    """T = 5, d_model = 6, 3 heads of d_k = 2, d_out = 4."""
    rng = np.random.default_rng(8)
    heads = tuple(rng.normal(size=shape) for shape in ((5, 6), (6, 6), (6, 6), (6, 6), (6, 4)))
    return (*heads, 3), (*heads, 3, 1), (rng.normal(size=(5, 6)), rng.normal(size=(18, 6)), 3)


_HEADS, _HEAD_OFF, _IN_PROJ = _inputs_08()


def _joined_heads(heads):
    return heads.swapaxes(0, 1).reshape(heads.shape[1], -1)  # (h, T, d_k) -> (T, h d_k)


def _own_columns(x, h):
    return x.reshape(len(x), h, -1).swapaxes(0, 1)  # (T, h d_k) -> (h, T, d_k)


def _cut_tokens(x, h):
    return x.reshape(h, len(x), -1)


def _many_heads(cut=_own_columns, scale=_root, join=_joined_heads, out=lambda joined, W_o: joined @ W_o):
    """Multi-head attention, with a scale that is a function of (d_k, d_model)."""

    def function(x, W_q, W_k, W_v, W_o, h):
        q, k, v = cut(x @ W_q, h), cut(x @ W_k, h), cut(x @ W_v, h)
        return out(join(softmax(q @ k.swapaxes(-1, -2) * scale(q.shape[-1], x.shape[-1])) @ v), W_o)

    return function


def _cut_features(x, W_q, W_k, W_v, W_o, h):
    """Each head projects its own features of x, with its block on the diagonal of each matrix."""
    blocks = np.kron(np.eye(h), np.ones((x.shape[1] // h, W_q.shape[1] // h)))
    return _many_heads()(x, W_q * blocks, W_k * blocks, W_v * blocks, W_o, h)


def _one_off(rows):
    """The layer with some rows of W_o set to 0: `rows` is a function of (rows of W_o, d_k, i)."""

    def function(x, W_q, W_k, W_v, W_o, h, i):
        W_o = W_o.copy()
        W_o[rows(np.arange(len(W_o)), len(W_o) // h, i)] = 0
        return _many_heads()(x, W_q, W_k, W_v, W_o, h)

    return function


def _zero_query(x, W_q, W_k, W_v, W_o, h, i):
    own = np.arange(W_q.shape[1]) // (W_q.shape[1] // h) == i
    return _many_heads()(x, np.where(own, 0, W_q), W_k, W_v, W_o, h)


def _zero_columns(x, W_q, W_k, W_v, W_o, h, i):
    W_o = W_o.copy()
    W_o[:, i * (len(W_o) // h) : (i + 1) * (len(W_o) // h)] = 0
    return _many_heads()(x, W_q, W_k, W_v, W_o, h)


def _projected_heads(rows, order=(0, 1, 2), swap=True):
    """(3, h, T, d_k) from in_proj_weight; `rows` turns x @ weight.T (T, 3 d) into (3, T, h, d_k)."""

    def function(x, weight, h):
        parts = rows(x @ weight.T, h)[list(order)]
        return parts.swapaxes(1, 2) if swap else parts

    return function


def _three_first(product, h):
    return product.reshape(len(product), 3, h, -1).transpose(1, 0, 2, 3)


def _untransposed_blocks(x, weight, h):
    """x times the three square blocks as they are."""
    return np.stack([_own_columns(x @ block, h) for block in np.split(weight, 3)])


def _heads_first(product, h):
    return product.reshape(len(product), h, 3, -1).transpose(2, 0, 1, 3)


# --- chapter 09: shared heads ------------------------------------------------------------------------------------


def _inputs_09():
    """Pairwise different sizes; 6 query heads in 2 groups."""
    rng = np.random.default_rng(9)
    step = tuple(rng.normal(size=shape) / 2 for shape in ((1, 6), (6, 4), (6, 4), (6, 5), (3, 4), (3, 5)))
    heads = tuple(rng.normal(size=shape) for shape in ((6, 3, 4), (2, 5, 4), (2, 5, 7)))
    return step, heads, rng.normal(size=(6, 7, 4))


_CACHED_STEP, _GROUPED, _PROJECTIONS = _inputs_09()


def _cached_step(see=np.append, scale=lambda d_k, d_v: d_k**-0.5):
    """The output of one new word; see(old, new, axis=0) are the keys, and the values, that it attends to."""

    def function(x, W_q, W_k, W_v, keys, values):
        k, v = see(keys, x @ W_k, axis=0), see(values, x @ W_v, axis=0)
        return attention(x @ W_q, k, v, scale=scale(k.shape[-1], v.shape[-1]))

    return function


def _over_heads(share, scale=None):
    """Attention of every query head with the keys, and the values, that share(x, r) makes of those that are kept."""

    def function(q, k, v):
        r = len(q) // len(k)
        return attention(q, share(k, r), share(v, r), scale=scale and scale(q.shape[-1]))

    return function


# --- chapter 10: what it costs ------------------------------------------------------------------------------------


def _inputs_10():
    """2 queries whose largest score is not the first; a query in 3 parts, then the same with huge scores."""
    rng = np.random.default_rng(10)
    q, k, v = (rng.normal(size=shape) for shape in ((2, 6), (7, 6), (7, 4)))
    parts = tuple(rng.normal(size=shape) for shape in ((3,), (3, 4)))
    sums = np.array([1.3, 2.9, 4.1])
    return (q, k, v), (2 * parts[0], sums, parts[1]), (2 * parts[0] + 2000, sums, parts[1])


_BLOCKS, _PARTS, _HUGE_PARTS = _inputs_10()
_LENGTHS, _KERNELS = (np.array([1.0, 2.0, 5.0]), 3.0), (np.array([5.0, 7.0, 31.0]), 6.0)


def _in_blocks(shrink_sum=lambda s: s, shrink_output=lambda s: s, divide=True):
    """Attention over blocks of two keys; how the running sum and the running output take a new maximum."""

    def function(q, k, v):
        scale = q.shape[-1] ** -0.5
        m, total, output = q @ k[:1].T * scale, 0.0, 0.0
        for j in range(0, len(k), 2):
            scores = q @ k[j : j + 2].T * scale
            new = np.maximum(m, scores.max(axis=-1, keepdims=True))
            e, shrink = np.exp(scores - new), np.exp(m - new)
            total = total * shrink_sum(shrink) + e.sum(axis=-1, keepdims=True)
            output = output * shrink_output(shrink) + e @ v[j : j + 2]
            m = new
        return output / total if divide else output

    return function


def _merge(m, total, output):
    share = np.exp(m - m.max())
    return share @ output / (share @ total)


# --- chapter 11: the parts of a Transformer -----------------------------------------------------------------------


def _inputs_11():
    """Pairwise different sizes; a token far from 0, and one whose features are all equal."""
    rng = np.random.default_rng(11)
    x, gain, shift = rng.normal(size=(4, 6)) * 3 + 1, rng.normal(size=6), rng.normal(size=6)
    flat = np.vstack([np.full((1, 6), 2.0), x[1:]])
    t, w = np.array([0.0, 2.0, 7.0]), np.array([1.0, 0.1, 0.03, 0.001])
    network = tuple(rng.normal(size=shape) for shape in ((6, 5), (5,), (5, 6), (6,)))
    new, cached = rng.normal(size=(2, 3, 6)), rng.normal(size=(2, 4, 6))
    return ((x, gain, shift), (flat, gain, shift)), (t, w), (x, gain, shift, *network), (new, cached)


_TOKENS, _SEATS, _BLOCK, _NEW = _inputs_11()


def _layer_norm(axis=-1, ddof=0, scale=lambda var: np.sqrt(var + 1e-5), affine=True):
    def function(x, gain, shift):
        centered = x - x.mean(axis=axis, keepdims=True)
        normed = centered / scale(x.var(axis=axis, ddof=ddof, keepdims=True))
        return normed * gain + shift if affine else normed

    return function


def _waves(join, angles=np.multiply.outer):
    """`join` makes a table of the sines and the cosines, (T, frequencies) each."""
    return lambda t, w: join(np.sin(angles(t, w)), np.cos(angles(t, w)))


def _alternate(a, b):
    return np.stack([a, b], axis=-1).reshape(len(a), -1)


def _block(then, bend=lambda hidden: np.maximum(hidden, 0), reads_x=False):
    """`then` joins x, the normalized x and what the network makes of one of the two."""

    def function(x, gain, shift, W_1, b_1, W_2, b_2):
        normed = _layer_norm()(x, gain, shift)
        out = bend((x if reads_x else normed) @ W_1 + b_1) @ W_2 + b_2
        return then(x, normed, out)

    return function


def _post_norm(x, gain, shift, W_1, b_1, W_2, b_2):
    return _layer_norm()(x + np.maximum(x @ W_1 + b_1, 0) @ W_2 + b_2, gain, shift)


def _bend_at_the_end(x, gain, shift, W_1, b_1, W_2, b_2):
    return x + np.maximum((_layer_norm()(x, gain, shift) @ W_1 + b_1) @ W_2 + b_2, 0)


def _placed(choose):
    """New tokens (B, T, d) plus the positions, (T, d) or (1, d), that `choose` takes from a table."""

    def function(new, cached):
        T, t = new.shape[1], cached.shape[1]
        return new + choose(sinusoidal_positions(t + T + 1, new.shape[2]), t, T)

    return function


def _encoder_layer_size(d=512, d_ff=2048, attentions=1, norms=2, biases=True, matrices=4):
    network = 2 * d * d_ff + (d_ff + d if biases else 0)
    return float(attentions * matrices * d * d + network + norms * 2 * d)


# --- appendix A1: worked examples -------------------------------------------------------------------------------


def _behind(log=np.log, largest=_row_max):
    """The scores behind weights; `largest` takes logarithms and gives what is subtracted."""
    return lambda w: log(w) - largest(log(w))


# --- appendix A2: claims ----------------------------------------------------------------------------------------


def _inputs_A2():
    """Weights inside of the hull of the other values, so that these can replace the first; an order of three words."""
    values = np.array([[1.5, 1.0], [0.0, 0.0], [4.0, 1.0], [1.0, 3.0]])
    rng = np.random.default_rng(12)
    moderate, large = rng.normal(size=(2, 3)), 1000 * rng.normal(size=(2, 3))
    out, shuffled = rng.normal(size=(2, 4, 3))
    return (np.array([0.4, 0.3, 0.1, 0.2]), values), (moderate,), (large,), (out, shuffled, np.array([1, 2, 0, 3]))


_SEEN, _VISIBLE, _HUGE_VISIBLE, _SHUFFLED = _inputs_A2()


def _without_first(w, v):
    """The weights of the other three keys that give the same output and the same sum."""
    return np.append(0.0, np.linalg.solve(np.vstack([v[1:].T, np.ones(3)]), np.append(w @ v, 1.0)))


def _without_sum(w, v):
    return np.append(0.0, np.linalg.pinv(v[1:].T) @ (w @ v))


def _log_sum(s):
    top = s.max(axis=-1)
    return top + np.log(np.exp(s - top[..., None]).sum(axis=-1))


def _gaps(of=lambda out, p: out[p], to=lambda shuffled, p: shuffled):
    return lambda out, shuffled, p: np.abs(to(shuffled, p) - of(out, p)).max(axis=1)


EXERCISES = {
    "01.1": Exercise(
        right=_gru(),
        inputs=(_GRU_STEP,),
        mistakes={
            "library": [_gru(before=False), _gru(before=False, keep=True)],
            "keeps": [_gru(keep=True)],
            "order": [_gru((1, 0, 2)), _gru((2, 1, 0)), _gru((2, 0, 1)), _gru((1, 2, 0)), _gru((0, 2, 1))],
            "no reset": [_gru(reset=False)],
            "plain proposal": [_gru(squeeze=lambda u: u), _gru(squeeze=_sigmoid)],
            "all tanh": [_gru(gate=np.tanh)],
        },
    ),
    "01.2": Exercise(
        right=_valid_mean(_surprise),
        inputs=(_LOSS,),
        mistakes={
            "all places": [_valid_mean(_surprise, lambda valid: valid.shape[1])],
            "padding": [lambda logits, targets: _surprise(logits, targets).mean(axis=1)],
            "sums": [_valid_mean(_surprise, lambda valid: 1)],
            "batch mean": [_valid_mean(_surprise, lambda valid: valid.sum())],
            "plus log": [_valid_mean(lambda *x: _surprise(*x, np.log))],
            "no log": [_valid_mean(lambda *x: _surprise(*x, lambda p: p))],
            "logits": [_valid_mean(lambda x, t: -np.take_along_axis(x, t[..., None], axis=-1)[..., 0])],
            "wrong axis": [_valid_mean(lambda *x: _surprise(*x, over=1))],
        },
    ),
    "01.3": Exercise(
        right=_state_at(lambda lengths: lengths - 1),
        inputs=(_STATES,),
        mistakes={
            "the bug": [lambda h, lengths: h[:, -1]],
            "first state": [lambda h, lengths: h[:, 0]],
            "off by one": [_state_at(lambda lengths: lengths)],
            "mean state": [
                lambda h, lengths: h.mean(axis=1),
                lambda h, lengths: np.stack([row[:n].mean(axis=0) for row, n in zip(h, lengths, strict=True)]),
            ],
        },
    ),
    "01.4": Exercise(
        right=_precisions(_clipped),
        inputs=(_SAID,),
        mistakes={
            "not clipped": [
                _precisions(lambda a, b: sum(gram in b for gram in a)),
                _precisions(lambda a, b: _clipped(a, b) if len(a[0]) > 1 else sum(gram in b for gram in a)),
            ],
            "over reference": [_precisions(_clipped, lambda a, b: b)],
            "sets": [
                _precisions(lambda a, b: len(set(a) & set(b))),
                _precisions(lambda a, b: len(set(a) & set(b)), lambda a, b: set(a)),
            ],
            "same place": [_precisions(lambda a, b: sum(x == y for x, y in zip(a, b, strict=False)))],
        },
    ),
    "02.1": Exercise(
        right=_lookup(gaussian_scores),
        inputs=(_NEAR, _FAR, _MIXED),
        mistakes={
            "one shift": [_lookup(gaussian_scores, _exp_over_sum(-1, np.max))],
            "underflow": [_lookup(gaussian_scores, _by_sum)],
            "no sum": [_lookup(gaussian_scores, np.exp)],
            "no softmax": [_lookup(gaussian_scores, lambda scores: scores)],
            "weights only": [lambda q, k, v, width: softmax(gaussian_scores(q, k, width))],
            "wrong axis": [_lookup(gaussian_scores, lambda scores: softmax(scores, axis=0))],
            "whole table": [_lookup(gaussian_scores, lambda scores: np.exp(scores) / np.exp(scores).sum())],
            "times": [_lookup(lambda q, k, width: -_square(q, k) / 2 * width**2)],
            **{name: [_lookup(scores) for scores in several] for name, several in _SCORES_02.items()},
        },
    ),
    "02.2": Exercise(
        right=_left_out(-np.inf),
        inputs=((_NEAR[1], _NEAR[2], 0.7),),
        mistakes={
            "own value": [_left_out(0.0)],
            "weight 0": [lambda k, v, width: _zero_diagonal(softmax(gaussian_scores(k, k, width))) @ v],
            "errors": [lambda k, v, width: _left_out(-np.inf)(k, v, width) - v],
            "no sum": [_left_out(-np.inf, np.exp)],
        },
    ),
    "02.3": Exercise(
        right=lambda q, k, sigma: softmax(gaussian_scores(q, k, sigma)),
        inputs=((_NEAR[0], _NEAR[1], 0.7), (_NEAR[0], _NEAR[1], 1.0), (_NEAR[0], _NEAR[1], 3.0)),
        mistakes={
            "the bug": [lambda q, k, sigma: softmax(-_square(q, k) / 2 * sigma**2)],
            "no sum": [lambda q, k, sigma: np.exp(gaussian_scores(q, k, sigma))],
            **{
                name: [lambda q, k, sigma, scores=scores: softmax(scores(q, k, sigma)) for scores in several]
                for name, several in _SCORES_02.items()
            },
        },
    ),
    "02.4": Exercise(
        right=_longer(lambda square: -square / 2),
        inputs=((_NEAR[1],),),
        mistakes={
            "column of ones": [_longer(np.ones_like)],
            "plus": [_longer(lambda square: square / 2)],
            "whole square": [_longer(lambda square: -square), _longer(lambda square: square)],
            "length": [_longer(lambda square: -(square**0.5) / 2), _longer(lambda square: -(square**0.5))],
            "in front": [lambda k: np.append(-(k**2).sum(axis=-1, keepdims=True) / 2, k, axis=-1)],
        },
    ),
    "03.1": Exercise(
        right=additive_scores,
        inputs=(_ADDITIVE,),
        mistakes={
            "no bend": [lambda q, k, W_a, U_a, v_a: _joined(q, k, W_a, U_a) @ v_a],
            "two tanh": [lambda q, k, W_a, U_a, v_a: _joined(q, k, W_a, U_a, np.tanh) @ v_a],
            "bend last": [lambda q, k, W_a, U_a, v_a: np.tanh(_joined(q, k, W_a, U_a) @ v_a)],
            "no v": [lambda q, k, W_a, U_a, v_a: np.tanh(_joined(q, k, W_a, U_a)).sum(axis=-1)],
            "product": [
                lambda q, k, W_a, U_a, v_a: np.tanh((q @ W_a)[..., :, None, :] * (k @ U_a)[..., None, :, :]) @ v_a,
                lambda q, k, W_a, U_a, v_a: q @ W_a @ (k @ U_a).swapaxes(-1, -2),
            ],
            "swapped": [lambda *arrays: additive_scores(*arrays).swapaxes(-1, -2)],
        },
    ),
    "03.2": Exercise(
        right=_step(softmax),
        inputs=(_STEP, _lower(*_STEP)),
        mistakes={
            "not low enough": [_step(_filled(-15.0)), _step(_filled(-100.0))],
            "pads count": [_step(lambda scores, real: softmax(scores))],
            "pads at 0": [_step(_filled(0.0)), _step(lambda scores, real: softmax(scores * real))],
            "not shared out": [_step(lambda scores, real: softmax(scores) * real)],
            "mask reversed": [_step(lambda scores, real: softmax(scores, ~real))],
            "one too many": [lambda scores, h, lengths: _step(softmax)(scores, h, lengths + 1)],
            "one too few": [lambda scores, h, lengths: _step(softmax)(scores, h, lengths - 1)],
            "no weights": [_step(lambda scores, real: real)],
        },
    ),
    "03.3": Exercise(
        right=softmax,
        inputs=(_MASKED, _lower(*_MASKED)),
        mistakes={
            "not low enough": [_filled(-15.0), _filled(-100.0)],
            "the bug": [_filled(-1e-7), _filled(1e-7)],
            "pads count": [lambda scores, real: softmax(scores)],
            "not shared out": [lambda scores, real: softmax(scores) * real],
            "mask reversed": [lambda scores, real: softmax(scores, ~real)],
        },
    ),
    "03.4": Exercise(
        right=lambda *arrays: additive_scores_vjp(*arrays)[1],
        inputs=(_ADDITIVE_BACK,),
        mistakes={
            "no slope": [_key_gradient(lambda x, v_a, g: g * v_a)],
            "slope of a": [_key_gradient(lambda x, v_a, g: g * v_a * (1 - np.tanh(x)))],
            "slope of sum": [_key_gradient(lambda x, v_a, g: g * v_a * (1 - x**2))],
            "no v in it": [_key_gradient(lambda x, v_a, g: g * (1 - np.tanh(x) ** 2))],
            "mean over queries": [_key_gradient(_delta, lambda d, U_a: d.mean(axis=-3) @ U_a.T)],
            "only to the sum": [_key_gradient(_delta, lambda d, U_a: d.sum(axis=-3))],
        },
    ),
    "04.1": Exercise(
        right=_general(),
        inputs=(_GENERAL,),
        mistakes={
            "a root": [_general(scale=5**-0.5), _general(scale=4**-0.5)],
            "no softmax": [_general(lambda scores: scores)],
            "weights only": [lambda s, h, W_a: softmax(s @ W_a @ h.swapaxes(-1, -2))],
            "over states": [_general(lambda scores: softmax(scores, axis=1))],
            "over batch": [_general(lambda scores: softmax(scores, axis=0))],
        },
    ),
    "04.2": Exercise(
        right=_attentional,
        inputs=(_STATE,),
        mistakes={
            "state first": [lambda c, s, W_c: np.tanh(np.append(s, c, axis=-1) @ W_c)],
            "no tanh": [lambda c, s, W_c: np.append(c, s, axis=-1) @ W_c],
            "tanh first": [lambda c, s, W_c: np.tanh(np.append(c, s, axis=-1)) @ W_c],
        },
    ),
    "04.3": Exercise(
        right=_batch_of_dots(softmax),
        inputs=(_BATCH,),
        mistakes={
            "the bug": [_batch_of_dots(_over_batch)],
            "over batch": [_batch_of_dots(lambda scores: softmax(scores, axis=0))],
            "over states": [_batch_of_dots(lambda scores: softmax(scores, axis=1))],
            "weights only": [lambda s, h: softmax(s @ h.swapaxes(-1, -2))],
        },
    ),
    "04.4": Exercise(
        right=_local(),
        inputs=(_WINDOW, _lower(*_WINDOW)),
        mistakes={
            "not low enough": [_local(then=lambda scores, near: softmax(np.where(near, scores, -15.0)))],
            "no window": [_local(then=lambda scores, near: softmax(scores))],
            "scores to 0": [_local(then=lambda scores, near: softmax(scores * near))],
            "window late": [_local(then=lambda scores, near: softmax(scores) * near)],
            "no Gaussian": [_local(sigma=None)],
            "sum to 1": [lambda scores, p, D: _unit_rows(_local()(scores, p, D))],
            "wide Gaussian": [_local(sigma=lambda D: D)],
            "no square": [_local(sigma=lambda D: (D / 2) ** 0.5)],
            "no D in it": [_local(sigma=lambda D: 1.0)],
            "narrow window": [_local(near=lambda distance, D: np.abs(distance) < D)],
            "whole p": [_local(center=np.round), _local(center=np.floor), _local(center=np.ceil)],
        },
    ),
    "05.1": Exercise(
        right=_self_attention,
        inputs=(_VIEWS,),
        mistakes={
            "exchanged": [_self(lambda W_q, W_k, W_v: (W_k, W_q, W_v))],
            "one matrix": [
                _self(lambda W_q, W_k, W_v: (W_q, W_q, W_v)),
                _self(lambda W_q, W_k, W_v: (W_k, W_k, W_v)),
            ],
            "x for v": [lambda x, W_q, W_k, W_v: softmax(x @ W_q @ (x @ W_k).T) @ x],
            "with a scale": [lambda x, W_q, W_k, W_v: _self_attention(x, W_q / 3**0.5, W_k, W_v)],
            "weights only": [lambda x, W_q, W_k, W_v: softmax(x @ W_q @ (x @ W_k).T)],
            "no softmax": [_self(lambda *views: views, lambda scores: scores)],
            "wrong axis": [_self(lambda *views: views, lambda scores: softmax(scores, axis=0))],
            "whole table": [_self(lambda *views: views, lambda scores: np.exp(scores) / np.exp(scores).sum())],
        },
    ),
    "05.2": Exercise(
        right=_at_shared(lambda d_q, d_k: d_q + d_k),
        inputs=(_SHARED,),
        mistakes={
            "only asked": [_at_shared(lambda d_q, d_k: d_q)],
            "only found": [_at_shared(lambda d_q, d_k: d_k)],
            "halved": [_at_shared(lambda d_q, d_k: (d_q + d_k) / 2)],
            "not transposed": [_at_shared(lambda d_q, d_k: 2 * d_q)],
            "before W": [lambda x, W, d_scores: (d_scores + d_scores.T) @ (x @ W)],
        },
    ),
    "05.3": Exercise(
        right=_between(_next),
        inputs=(_PLACES,),
        mistakes={
            "backward": [_between(lambda one: np.eye(len(one), k=-1))],
            "wraps": [_between(lambda one: np.roll(one, 1, axis=1))],
            "itself": [_between(lambda one: one)],
            "onto itself": [lambda P, c: c * np.eye(P.shape[1], k=1)],
        },
    ),
    "05.4": Exercise(
        right=_words_first(),
        inputs=(_WORDS_FIRST,),
        mistakes={
            "sentences mixed": [_words_first(_regroup, _regroup)],
            "cut at the end": [_words_first(_swap, _regroup)],
            "across words": [_words_first(lambda x: x, lambda x: x)],
        },
    ),
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
    "07.1": Exercise(
        right=_join_masks(lambda keys, queries, past: keys & past),
        inputs=((_REAL,),),
        mistakes={
            "only causal": [_join_masks(lambda keys, queries, past: past)],
            "only padding": [_join_masks(lambda keys, queries, past: keys)],
            "or": [_join_masks(lambda keys, queries, past: keys | past)],
            "opposite": [
                _join_masks(lambda keys, queries, past: ~(keys & past)),
                _join_masks(lambda keys, queries, past: ~keys & past),
                _join_masks(lambda keys, queries, past: ~keys | ~past),
            ],
            "rows hidden": [_join_masks(lambda keys, queries, past: queries & past)],
            "rows too": [_join_masks(lambda keys, queries, past: keys & queries & past)],
            "not itself": [_join_masks(lambda keys, queries, past: keys & past, k=-1)],
            "next word": [_join_masks(lambda keys, queries, past: keys & past, k=1)],
            "upside down": [_join_masks(lambda keys, queries, past: keys & past.swapaxes(-1, -2))],
        },
    ),
    "07.2": Exercise(
        right=softmax,
        inputs=(_SCORES_AND_MASK,),
        mistakes={
            "dead NaN": [lambda x, mask: np.where(mask.any(-1, keepdims=True), softmax(x, mask), np.nan)],
            "dead uniform": [lambda x, mask: softmax(np.where(mask, x, -1e9))],
            "pads at 0": [lambda x, mask: softmax(x * mask), lambda x, mask: softmax(np.where(mask, x, 0))],
            "not shared out": [lambda x, mask: softmax(x) * mask],
            "late": [_mask_late, lambda x, mask: np.nan_to_num(_mask_late(x, mask))],
            "mask reversed": [lambda x, mask: softmax(x, ~mask)],
            "no mask": [lambda x, mask: softmax(x)],
            "wrong axis": [lambda x, mask: softmax(x, mask, axis=-2), lambda x, mask: softmax(x, mask, axis=0)],
        },
    ),
    "07.3": Exercise(
        right=_attend_where(lambda real: real[:, None, :]),
        inputs=(_SQUARE,),
        mistakes={
            "batch as queries": [_attend_where(lambda real: real)],
            "rows hidden": [
                _attend_where(lambda real: real[:, :, None]),
                lambda q, k, v, real: np.where(real[:, :, None], attention(q, k, v), np.nan),
            ],
            "opposite": [_attend_where(lambda real: ~real[:, None, :])],
            "no mask": [lambda q, k, v, real: attention(q, k, v)],
        },
    ),
    "07.4": Exercise(
        right=_window(lambda i, j, w, shift: (j <= i + shift) & (j > i + shift - w)),
        inputs=tuple(_CACHED),
        mistakes={
            "at the start": [_window(lambda i, j, w, shift: (j <= i) & (j > i - w))],
            "whole past": [_window(lambda i, j, w, shift: (j <= i + shift) & (w > 0))],
            "one more": [_window(lambda i, j, w, shift: (j <= i + shift) & (j >= i + shift - w))],
            "whole future": [_window(lambda i, j, w, shift: j > i + shift - w)],
            "no mask": [lambda q, k, v, w: attention(q, k, v)],
        },
    ),
    "08.1": Exercise(
        right=_many_heads(),
        inputs=(_HEADS,),
        mistakes={
            "one wide head": [lambda *a: _many_heads()(*a[:5], 1)],
            "scale of model": [_many_heads(scale=lambda d_k, d_model: d_model**-0.5)],
            "no scale": [_many_heads(scale=lambda d_k, d_model: 1.0)],
            "every h-th": [
                _many_heads(
                    cut=lambda x, h: x.reshape(len(x), -1, h).transpose(2, 0, 1),
                    join=lambda heads: heads.transpose(1, 2, 0).reshape(heads.shape[1], -1),
                ),
                _many_heads(cut=lambda x, h: x.reshape(len(x), -1, h).transpose(2, 0, 1)),
            ],
            "features cut": [_cut_features],
            "no W_o": [_many_heads(out=lambda joined, W_o: joined)],
            "wrong order": [_many_heads(join=lambda heads: _joined_heads(heads[::-1]))],
            "reshape alone": [_many_heads(_cut_tokens, join=lambda heads: heads.reshape(heads.shape[1], -1))],
            "cut in rows": [_many_heads(_cut_tokens)],
            "join": [_many_heads(join=lambda heads: heads.reshape(heads.shape[1], -1))],
        },
    ),
    "08.2": Exercise(
        right=_one_off(lambda n, d_k, i: n // d_k == i),
        inputs=(_HEAD_OFF,),
        mistakes={
            "all on": [lambda *a: _many_heads()(*a[:6])],
            "still averages": [_zero_query],
            "columns of W_o": [_zero_columns],
            "only this head": [_one_off(lambda n, d_k, i: n // d_k != i)],
            "other head": [_one_off(lambda n, d_k, i, step=step: n // d_k == i + step) for step in (-1, 1)],
            "every h-th": [_one_off(lambda n, d_k, i: n % (len(n) // d_k) == i)],
            "louder": [lambda *a: _one_off(lambda n, d_k, i: n // d_k == i)(*a) * a[5] / (a[5] - 1)],
        },
    ),
    "08.3": Exercise(
        right=_projected_heads(_three_first),
        inputs=(_IN_PROJ,),
        mistakes={
            "torch transposed": [_untransposed_blocks],
            "head by head": [_projected_heads(_heads_first)],
            "another order": [
                _projected_heads(_three_first, order)
                for order in ((1, 0, 2), (2, 1, 0), (0, 2, 1), (1, 2, 0), (2, 0, 1))
            ],
            "tokens first": [_projected_heads(_three_first, swap=False)],
            "every h-th": [_projected_heads(lambda p, h: p.reshape(len(p), 3, -1, h).transpose(1, 0, 3, 2))],
        },
    ),
    "08.4": Exercise(
        right=_many_heads(),
        inputs=(_HEADS,),
        mistakes={
            "reshape alone": [_many_heads(_cut_tokens, join=lambda heads: heads.reshape(heads.shape[1], -1))],
            "cut in rows": [_many_heads(_cut_tokens)],
            "join": [_many_heads(join=lambda heads: heads.reshape(heads.shape[1], -1))],
            "no W_o": [_many_heads(out=lambda joined, W_o: joined)],
        },
    ),
    "09.1": Exercise(
        right=65536,
        mistakes={
            "query heads": [16384],
            "keys only": [131072],
            "one layer": [65536 * 32],
            "float32": [32768],
            "GB": [8e9 / 131072, 8e9 // 131072],
        },
    ),
    "09.2": Exercise(
        right=_cached_step(),
        inputs=(_CACHED_STEP,),
        mistakes={
            "old only": [_cached_step(lambda old, new, axis: old)],
            "itself only": [_cached_step(lambda old, new, axis: new)],
            "start": [_cached_step(lambda old, new, axis: old[:1])],
            "no scale": [_cached_step(scale=lambda d_k, d_v: 1.0)],
            "no root": [_cached_step(scale=lambda d_k, d_v: 1 / d_k)],
            "multiplied": [_cached_step(scale=lambda d_k, d_v: d_k**0.5)],
            "scale by d_v": [_cached_step(scale=lambda d_k, d_v: d_v**-0.5)],
        },
    ),
    "09.3": Exercise(
        right=grouped_attention,
        inputs=(_GROUPED,),
        mistakes={
            "the bug": [_over_heads(lambda x, r: np.tile(x, (r, 1, 1)))],
            "shared by all": [_over_heads(lambda x, r: np.repeat(x[:1], r * len(x), axis=0))],
            "no scale": [_over_heads(lambda x, r: np.repeat(x, r, axis=0), lambda d_k: 1.0)],
            "no root": [_over_heads(lambda x, r: np.repeat(x, r, axis=0), lambda d_k: 1 / d_k)],
        },
    ),
    "09.4": Exercise(
        right=lambda W: W.reshape(2, 3, *W.shape[1:]).mean(axis=1),
        inputs=((_PROJECTIONS,),),
        mistakes={
            "tiled": [lambda W: W.reshape(3, 2, *W.shape[1:]).mean(axis=0)],
            "all pooled": [lambda W: np.repeat(W.mean(axis=0, keepdims=True), 2, axis=0)],
            "first head": [lambda W: W[::3]],
            "added": [lambda W: W.reshape(2, 3, *W.shape[1:]).sum(axis=1)],
        },
    ),
    "10.1": Exercise(
        right=lambda n, d: 2 * n**2 * d + 4 * n * d**2,
        inputs=(_LENGTHS,),
        mistakes={
            "no projections": [lambda n, d: 2 * n**2 * d, lambda n, d: n**2 * d],
            "three matrices": [lambda n, d: 2 * n**2 * d + 3 * n * d**2],
            "one product": [lambda n, d: n**2 * d + 4 * n * d**2],
            "FLOPs": [lambda n, d: 4 * n**2 * d + 8 * n * d**2],
            "no d": [lambda n, d: n**2 + 4 * n * d**2, lambda n, d: 2 * n**2 + 4 * n * d**2],
        },
    ),
    "10.2": Exercise(
        right=lambda k, d: (k - 4) * d / 2,
        inputs=(_KERNELS,),
        mistakes={
            "no projections": [lambda k, d: k * d / 2, lambda k, d: k * d],
            "three matrices": [lambda k, d: (k - 3) * d / 2],
            "one product": [lambda k, d: (k - 4) * d],
        },
    ),
    "10.3": Exercise(
        right=attention,
        inputs=(_BLOCKS,),
        mistakes={
            "inverse": [_in_blocks(shrink_output=lambda s: 1 / s)],
            "output not rescaled": [_in_blocks(shrink_output=lambda s: 1.0)],
            "sum not rescaled": [_in_blocks(shrink_sum=lambda s: 1.0)],
            "nothing rescaled": [_in_blocks(lambda s: 1.0, lambda s: 1.0)],
            "no last division": [_in_blocks(divide=False)],
        },
    ),
    "10.4": Exercise(
        right=_merge,
        inputs=(_PARTS, _HUGE_PARTS),
        mistakes={
            "plain mean of parts": [lambda m, total, output: (output / total[:, None]).mean(axis=0)],
            "parts not rescaled": [lambda m, total, output: output.sum(axis=0) / total.sum()],
            "sums left out": [lambda m, total, output: softmax(m) @ (output / total[:, None])],
            "no last division": [lambda m, total, output: np.exp(m - m.max()) @ output],
            "exp of m": [lambda m, total, output: np.exp(m) @ output / (np.exp(m) @ total)],
        },
    ),
    "11.1": Exercise(
        right=_layer_norm(),
        inputs=_TOKENS,
        mistakes={
            "no eps": [_layer_norm(scale=np.sqrt)],
            "n - 1": [_layer_norm(ddof=1)],
            "over tokens": [_layer_norm(axis=0)],
            "over table": [_layer_norm(axis=None)],
            "by variance": [_layer_norm(scale=lambda var: var + 1e-5)],
            "bare norm": [_layer_norm(affine=False)],
        },
    ),
    "11.2": Exercise(
        right=_waves(_alternate),
        inputs=(_SEATS,),
        mistakes={
            "halves": [_waves(lambda a, b: np.concatenate([a, b], axis=-1))],
            "cosine first": [_waves(lambda a, b: _alternate(b, a))],
            "divided by w": [_waves(_alternate, np.divide.outer)],
        },
    ),
    "11.3": Exercise(
        right=_block(lambda x, normed, out: x + out),
        inputs=(_BLOCK,),
        mistakes={
            "normed sum": [_block(lambda x, normed, out: normed + out)],
            "post-norm": [_post_norm],
            "x left out": [_block(lambda x, normed, out: out)],
            "not normed": [_block(lambda x, normed, out: x + out, reads_x=True)],
            "bend at the end": [_bend_at_the_end],
            "straight": [_block(lambda x, normed, out: x + out, bend=lambda hidden: hidden)],
        },
    ),
    "11.4": Exercise(
        right=_placed(lambda table, t, T: table[t : t + T]),
        inputs=(_NEW,),
        mistakes={
            "position 0": [_placed(lambda table, t, T: table[:T])],
            "last for all": [_placed(lambda table, t, T: table[t : t + 1])],
            "one too far": [_placed(lambda table, t, T: table[t + 1 : t + 1 + T])],
            "of the old": [_placed(lambda table, t, T: table[t - T : t])],
        },
    ),
    "11.5": Exercise(
        right=_encoder_layer_size(),
        mistakes={
            "no biases": [_encoder_layer_size(biases=False)],
            "no norms": [_encoder_layer_size(norms=0)],
            "one norm": [_encoder_layer_size(norms=1)],
            "decoder layer": [_encoder_layer_size(attentions=2, norms=3), _encoder_layer_size(attentions=2)],
            "wide attention": [_encoder_layer_size(matrices=3), _encoder_layer_size(matrices=1)],
        },
    ),
    "A1.1": Exercise(
        right=softmax(np.array([0.5, 1.0, 1.5])),
        mistakes={
            "no scale": [softmax(np.array([1.0, 2.0, 3.0])), np.array([0.09, 0.24, 0.67])],
            "no root": [softmax(np.array([0.25, 0.5, 0.75]))],
            "multiplied": [softmax(np.array([2.0, 4.0, 6.0]))],
            "scaled late": [softmax(np.array([1.0, 2.0, 3.0])) / 2],
            "division": [np.array([1.0, 2.0, 3.0]) / 6],
        },
    ),
    "A1.2": Exercise(
        right=_behind(),
        inputs=((softmax(_SCORES),),),
        mistakes={
            "ratios": [lambda w: w / _row_max(w)],
            "log only": [np.log, lambda w: np.log(w) - np.log(w).mean(axis=-1, keepdims=True)],
            "one largest": [_behind(largest=np.max)],
            "other base": [_behind(np.log2), _behind(np.log10)],
            "below zero": [lambda w: -_behind()(w)],
            "softmax of weights": [softmax],
        },
    ),
    "A1.3": Exercise(
        right=attention,
        inputs=(_QKV,),
        mistakes={
            "twice": [_scaled(_root, lambda scores: softmax(softmax(scores)))],
            "no softmax": [_scaled(_root, lambda scores: scores)],
            "no scale": [_scaled(lambda d_k, d_v, T_k: 1.0)],
            "weights only": [lambda q, k, v: softmax(q @ k.T * q.shape[-1] ** -0.5)],
        },
    ),
    "A2.1": Exercise(
        right=_without_first,
        inputs=(_SEEN,),
        mistakes={
            "only silenced": [lambda w, v: np.append(0.0, w[1:])],
            "renormalized": [lambda w, v: np.append(0.0, w[1:] / w[1:].sum())],
            "sum forgotten": [_without_sum],
            "first kept": [lambda w, v: w.copy()],
        },
    ),
    "A2.2": Exercise(
        right=lambda s: 20 + _log_sum(s),
        inputs=(_VISIBLE, _HUGE_VISIBLE),
        mistakes={
            "only the largest": [lambda s: 20 + s.max(axis=-1)],
            "nothing added": [_log_sum],
            "twenty lower": [lambda s: _log_sum(s) - 20],
            "sum of scores": [lambda s: 20 + s.sum(axis=-1)],
            "equal share": [lambda s: 20 + _log_sum(s) - np.log(3)],
            "log of sum overflows": [lambda s: 20 + np.log(np.exp(s).sum(axis=-1))],
            "maximum not added": [lambda s: 20 + _log_sum(s) - s.max(axis=-1)],
        },
    ),
    "A2.3": Exercise(
        right=_gaps(),
        inputs=(_SHUFFLED,),
        mistakes={
            "undone with p": [_gaps(lambda out, p: out, lambda shuffled, p: shuffled[p])],
            "invariance": [_gaps(lambda out, p: out)],
            "order of x": [_gaps(lambda out, p: out, lambda shuffled, p: shuffled[np.argsort(p)])],
            "one gap": [lambda out, shuffled, p: np.abs(shuffled - out[p]).max()],
            "no distance": [lambda out, shuffled, p: (shuffled - out[p]).max(axis=1)],
            "sum of gaps": [lambda out, shuffled, p: np.abs(shuffled - out[p]).sum(axis=1)],
            "both reordered": [_gaps(to=lambda shuffled, p: shuffled[p])],
        },
    ),
}
