"""Measures of translations and alignments: by hand, at their edges, and BLEU as sacrebleu counts it."""

import math
import random

import numpy as np
import pytest
import sacrebleu
import torch

from attnlib import corpus, metrics
from attnlib.corpus import RUNNING_EXAMPLE, Pair

REFERENCE = "the black cat is sitting on the red carpet".split()


def theirs(predictions, references):
    """BLEU of sacrebleu. It takes strings; without a tokenizer it only splits them at spaces."""
    joined = [[" ".join(words) for words in sentences] for sentences in (predictions, references)]
    return sacrebleu.corpus_bleu(joined[0], [joined[1]], tokenize="none", force=True).score


def damaged(sentence, rng):
    """A sentence with some words changed, left out, doubled or swapped."""
    words = []
    for word in sentence:
        chance = rng.random()
        words += [] if chance < 0.1 else [word] * 2 if chance < 0.15 else ["cat"] if chance < 0.3 else [word]
    if len(words) > 1 and rng.random() < 0.5:
        i = rng.randrange(len(words) - 1)
        words[i : i + 2] = reversed(words[i : i + 2])
    return words


# translations


def test_exact_match():
    assert metrics.exact_match([REFERENCE, ["a"], ["the", "cat"]], [REFERENCE, ["b"], ["the", "cat", "runs"]]) == 1 / 3
    assert metrics.exact_match([tuple(REFERENCE)], [REFERENCE]) == 1  # a tuple of words is as good as a list
    assert metrics.exact_match([[]], [[]]) == 1
    assert metrics.exact_match([["cat", "the"]], [["the", "cat"]]) == 0


@pytest.mark.parametrize(("prediction", "expected"), [
    ("a b c d", 1), ("a b x d", 3 / 4), ("a b", 2 / 4), ("a b c d e f g h", 4 / 8), ("b c d a", 0), ("", 0),
])  # fmt: skip
def test_token_accuracy(prediction, expected):
    assert metrics.token_accuracy([prediction.split()], ["a b c d".split()]) == expected


def test_token_accuracy_counts_the_positions_of_all_sentences_together():
    assert metrics.token_accuracy([["a"], ["b", "x", "x"]], [["a"], ["b", "c", "d"]]) == 2 / 4
    assert metrics.token_accuracy([[]], [[]]) == 0


def test_bleu_by_hand():
    """6 words against 7: all 6 words match, 4 of 5 pairs, 3 of 4 triples, 2 of 3 fours."""
    prediction, reference = "the cat is sitting on carpet".split(), "the cat is sitting on the carpet".split()
    assert metrics.bleu([reference], [reference]) == pytest.approx(100, abs=1e-12)
    expected = 100 * math.exp(1 - 7 / 6) * (6 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25
    assert metrics.bleu([prediction], [reference]) == pytest.approx(expected, abs=1e-12)


def test_bleu_counts_a_word_at_most_as_often_as_the_reference_has_it():
    prediction = ["the"] * 4 + ["cat", "is", "sitting", "on"]
    expected = 100 * math.exp(1 - 9 / 8) * (6 / 8 * 4 / 7 * 3 / 6 * 2 / 5) ** 0.25
    got = metrics.bleu([prediction], ["the cat is sitting on the red small carpet".split()])
    assert got == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(40))
def test_bleu_is_sacrebleus(seed):
    rng = random.Random(seed)
    count = rng.choice([1, 2, 30])
    pairs = [corpus.GRAMMAR.draw(rng.randint(3, 12), rng) for _ in range(count)]
    references = [list(pair.target) for pair in pairs]
    predictions = [damaged(words, rng) for words in references]
    assert metrics.bleu(predictions, references) == pytest.approx(theirs(predictions, references), abs=1e-9)


@pytest.mark.parametrize(("prediction", "reference"), [
    ("", "the cat"),  # nothing said
    ("a b c d e", "v w x y z"),  # no word right
    ("the cat", "the cat"),  # too short for 4-grams
    ("a b c d", "b a d c"),  # no pair of words right: smoothed
    ("a x b y c z", "a b c"),  # too long, smoothed
    ("a b c x y", "a b c d e"),  # no 4-gram
    ("a", "a b c d e f g h"),
])  # fmt: skip
def test_bleu_at_its_edges_is_sacrebleus(prediction, reference):
    one = [prediction.split()], [reference.split()]
    assert metrics.bleu(*one) == pytest.approx(theirs(*one), abs=1e-9)
    more = [prediction.split(), ["the", "cat"]], [reference.split(), REFERENCE]
    assert metrics.bleu(*more) == pytest.approx(theirs(*more), abs=1e-9)


# alignments


def test_alignment_error_rate():
    assert metrics.alignment_error_rate([{(0, 0), (1, 1)}], [{(0, 0), (1, 1)}]) == 0
    assert metrics.alignment_error_rate([{(0, 1)}], [{(0, 0)}]) == 1
    # all sentences together: 3 of 4 predicted links are gold, of 6 gold ones
    predicted, gold = [{(0, 0)}, {(0, 0), (1, 2), (2, 1)}], [{(0, 0), (0, 1)}, {(0, 0), (1, 2), (2, 2), (2, 0)}]
    assert metrics.alignment_error_rate(predicted, gold) == 1 - 2 * 3 / (4 + 6)
    assert metrics.alignment_error_rate([set()], [frozenset()]) == 0


def gold_weights(pair, rows=0, columns=0):
    """Weights that lie on the gold links, the first of each target word ahead; extra rows and columns of 0."""
    weights = np.zeros((len(pair.target) + rows, len(pair.source) + columns))
    for t, s in sorted(pair.links, reverse=True):
        weights[t] /= 2
        weights[t, s] = 0.6
    return weights


def test_the_gold_links_match():
    weights = gold_weights(RUNNING_EXAMPLE, rows=1, columns=2)
    assert metrics.argmax_links(weights, RUNNING_EXAMPLE) == RUNNING_EXAMPLE.links
    for among in (None, "content", "crossing"):
        assert metrics.link_match(weights, RUNNING_EXAMPLE, among) == 1
    assert metrics.link_match(torch.tensor(weights, requires_grad=True), RUNNING_EXAMPLE) == 1
    assert metrics.link_match(torch.tensor(weights, dtype=torch.bfloat16), RUNNING_EXAMPLE) == 1


def test_one_source_word_of_several_is_enough():
    pair = corpus.parse("le coq n' est pas debout")  # not: n' and pas
    weights = gold_weights(pair)
    assert metrics.link_match(weights, pair) == 1
    assert metrics.alignment_error_rate([metrics.argmax_links(weights, pair)], [pair.links]) == 1 - 2 * 5 / (5 + 6)


def test_link_match_among():
    """The target words black (content, crossing) and the (neither) look at the wrong word."""
    weights = gold_weights(RUNNING_EXAMPLE)
    weights[1] = weights[9] = np.eye(12)[0]
    assert metrics.link_match(weights, RUNNING_EXAMPLE) == 11 / 13
    assert metrics.link_match(weights, RUNNING_EXAMPLE, "content") == 6 / 7
    assert metrics.link_match(weights, RUNNING_EXAMPLE, "crossing") == 3 / 4


def test_link_match_counts_the_words_of_all_pairs_together():
    other = corpus.parse("le chat dort")
    weights = [gold_weights(RUNNING_EXAMPLE), np.eye(3)[[1, 1, 1]]]
    pairs = [RUNNING_EXAMPLE, other]
    assert metrics.link_match(weights, pairs) == 14 / 16
    assert metrics.link_match(weights, pairs, "content") == 8 / 9
    assert metrics.link_match(weights, pairs, "crossing") == 1
    assert math.isnan(metrics.link_match(weights[1], other, "crossing"))


def test_a_batch_of_maps_is_a_list_of_maps():
    pairs = [RUNNING_EXAMPLE, corpus.parse("le chat dort")]
    maps = torch.zeros(2, 14, 12)
    for place, pair in enumerate(pairs):
        maps[place, : len(pair.target), : len(pair.source)] = torch.tensor(gold_weights(pair))
    assert metrics.link_match(maps, pairs) == 1


# bad input

WEIGHTS = np.ones((13, 12))


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: metrics.exact_match([["a"]], []), ValueError, "predictions and references.*got 1 and 0"),
    (lambda: metrics.exact_match([], []), ValueError, "at least 1, got 0 and 0"),
    (lambda: metrics.token_accuracy(["the cat"], [["the"]]), TypeError, "predictions.*'the cat'.*split"),
    (lambda: metrics.bleu([["the"]], ["the cat"]), TypeError, "references.*'the cat'.*split"),
    (lambda: metrics.bleu([["a"], ["b"]], [["a"]]), ValueError, "got 2 and 1"),
    (lambda: metrics.alignment_error_rate([{(0, 0)}], []), ValueError, "links_predicted and links_gold.*1 and 0"),
    (lambda: metrics.alignment_error_rate({(0, 0)}, {(0, 0)}), TypeError, "links_predicted must be a list"),
    (lambda: metrics.alignment_error_rate([{(0, 0)}], [[(0, 0)]]), TypeError, "links_gold must be a list with one"),
    (lambda: metrics.link_match(WEIGHTS, RUNNING_EXAMPLE, "all"), ValueError, 'among must be None, "content".*\'all\''),
    (lambda: metrics.link_match(WEIGHTS[:12], RUNNING_EXAMPLE), ValueError, r"weights.*\(13, 12\).*got \(12, 12\)"),
    (lambda: metrics.link_match(WEIGHTS[:, :11], RUNNING_EXAMPLE), ValueError, r"weights.*got \(13, 11\)"),
    (lambda: metrics.link_match(WEIGHTS[None], RUNNING_EXAMPLE), ValueError, r"weights.*got \(1, 13, 12\)"),
    (lambda: metrics.link_match([WEIGHTS], [RUNNING_EXAMPLE] * 2), ValueError, "weights and pair.*got 1 and 2"),
    (lambda: metrics.argmax_links(np.ones(3), Pair(("chat",), ("cat",))), ValueError, r"weights.*got \(3,\)"),
])  # fmt: skip
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call()
