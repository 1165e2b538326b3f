"""How good a translation is, and how good an alignment is. Plain Python and NumPy.

Sentences are lists of words; predictions and references are lists of sentences, in the same order. Links are
(target position, source position), as in `corpus.Pair`. All measures are from 0 to 1, except BLEU: 0 to 100.
"""

import math
from collections import Counter

import numpy as np

from . import shapes
from .corpus import Pair


def exact_match(predictions, references):
    """Share of sentences that are right to the last word.

    >>> exact_match([["the", "cat"], ["a", "dog"]], [["the", "cat"], ["the", "dog"]])
    0.5
    """
    pairs = _sentences(predictions, references)
    return sum(p == r for p, r in pairs) / len(pairs)


def token_accuracy(predictions, references):
    """Share of positions with the right word. A position that only one of both sentences has counts as wrong.

    >>> token_accuracy([["the", "cat", "sleeps", "here"]], [["the", "dog", "sleeps"]])
    0.5
    """
    pairs = _sentences(predictions, references)
    right = sum(sum(a == b for a, b in zip(p, r, strict=False)) for p, r in pairs)
    return right / max(1, sum(max(len(p), len(r)) for p, r in pairs))


def bleu(predictions, references):
    r"""BLEU-4 of all sentences together, from 0 to 100 (Papineni et al. 2002, https://aclanthology.org/P02-1040).

    The geometric mean of four precisions, times a penalty for brevity: 100 min(1, e^(1 - r/c)) (p_1 p_2 p_3 p_4)^(1/4).
    p_n = how many n-grams (n words in a row) of the predictions stand in their references too, over how many there
    are; each counts at most as often as the reference has it. c and r are the words in all predictions, in all
    references. An order without any match counts 1/2 match, the next such order 1/4, and so on: as in sacrebleu, whose
    numbers these are.

    >>> round(bleu([["the", "black", "cat", "is", "lying"]], [["the", "black", "cat", "is", "sitting"]]), 4)
    66.874
    """
    pairs = _sentences(predictions, references)
    c, r = (sum(len(pair[side]) for pair in pairs) for side in (0, 1))
    precisions, unmatched = [], 0
    for n in (1, 2, 3, 4):
        matches = total = 0
        for prediction, reference in pairs:
            counts = _ngrams(prediction, n)
            matches += (counts & _ngrams(reference, n)).total()
            total += counts.total()
        if total == 0 or (n == 1 and matches == 0):
            return 0.0
        unmatched += matches == 0
        precisions.append((matches or 2.0**-unmatched) / total)
    return 100 * min(1.0, math.exp(1 - r / c)) * math.exp(sum(map(math.log, precisions)) / 4)


def alignment_error_rate(links_predicted, links_gold):
    """1 - 2 |A and G| / (|A| + |G|), with A the predicted and G the gold links of all sentences (Och and Ney 2003).

    0 is perfect. A map that names one source word for each target word cannot reach 0 where G has more.
    Source: https://aclanthology.org/J03-1002 (all gold links are sure here).

    Args:
        links_predicted, links_gold: lists with one set of links for each sentence.

    >>> alignment_error_rate([{(0, 0), (1, 1)}], [{(0, 0), (1, 2)}])
    0.5
    """
    _check_number(links_predicted=links_predicted, links_gold=links_gold)
    for name, items in (("links_predicted", links_predicted), ("links_gold", links_gold)):
        if not all(isinstance(item, set | frozenset) for item in items):
            raise TypeError(f"{name} must be a list with one set of links for each sentence, got {items!r}"[:200])
    both = list(zip(links_predicted, links_gold, strict=True))
    size = sum(len(a) + len(g) for a, g in both)
    return 1 - 2 * sum(len(a & g) for a, g in both) / size if size else 0.0


def argmax_links(weights, pair):
    """The links of a weight map: each target word with the source position that it looks at most.

    Args:
        weights: (T_y, T_x), NumPy array or tensor; at least one row a target word, further rows (EOS) are left out.
        pair: a `corpus.Pair`.
    Returns:
        Set of (target position, source position).
    """
    weights = np.asarray(shapes.plain(weights))
    words = len(pair.target), len(pair.source)
    if weights.ndim != 2 or weights.shape[0] < words[0] or weights.shape[1] < words[1]:
        raise ValueError(f"weights must have shape (T_y, T_x), at least {words} for this pair, got {weights.shape}")
    return {(t, int(s)) for t, s in enumerate(weights[: words[0]].argmax(axis=1))}


def link_match(weights, pair, among=None):
    """Share of target words that look most at a source word which translates them.

    Args:
        weights: (T_y, T_x) of one pair, or a list of such arrays. See `argmax_links`.
        pair: the `corpus.Pair`, or a list of as many pairs; the words of all are counted together.
        among: None for all target words, "content" or "crossing" for those (see `corpus.Pair`).
    Returns:
        Float from 0 to 1; nan where there is no such word.
    """
    if among not in (None, "content", "crossing"):
        raise ValueError(f'among must be None, "content" or "crossing", got {among!r}')
    if isinstance(pair, Pair):
        weights, pair = [weights], [pair]
    _check_number(weights=weights, pair=pair)
    right = total = 0
    for one, gold in zip(weights, pair, strict=True):
        words = range(len(gold.target)) if among is None else getattr(gold, among)
        right += sum(t in words for t, _ in argmax_links(one, gold) & gold.links)
        total += len(words)
    return right / total if total else math.nan


def _ngrams(words, n):
    return Counter(tuple(words[start : start + n]) for start in range(len(words) - n + 1))


def _sentences(predictions, references):
    """[(prediction, reference)], each a list of words."""
    both = {"predictions": list(predictions), "references": list(references)}
    _check_number(**both)
    for name, sentences in both.items():
        for sentence in sentences:
            if isinstance(sentence, str):
                raise TypeError(f"{name} must hold lists of words, got the string {sentence!r}: use .split()")
    return [(list(p), list(r)) for p, r in zip(*both.values(), strict=True)]


def _check_number(**lists):
    """Two lists hold equally many items, one for each sentence, and at least one."""
    (name, items), (other, wanted) = lists.items()
    if len(items) == 0 or len(items) != len(wanted):
        raise ValueError(
            f"{name} and {other} must have one item for each sentence, at least 1, got {len(items)} and {len(wanted)}"
        )
