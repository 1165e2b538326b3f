"""check(): the right answer passes, every known mistake gets its own name, and nothing makes it raise."""

import warnings

import numpy as np
import pytest
import torch

from attnlib import softmax
from attnlib.exercises import EXERCISES, VERDICTS, Exercise, check

MISTAKES = [
    (number, name, i)
    for number, exercise in EXERCISES.items()
    for name, several in exercise.mistakes.items()
    for i in range(len(several))
]
FUNCTIONS = [number for number, exercise in EXERCISES.items() if exercise.inputs]


def verdict(capsys, number, answer):
    assert check(number, answer) is None
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.count("\n") == 1
    return printed.out.rstrip("\n")


@pytest.mark.parametrize("number", EXERCISES)
def test_the_right_answer_is_correct(capsys, number):
    assert verdict(capsys, number, EXERCISES[number].right) == f"Exercise {number.lstrip('0')}: correct."


@pytest.mark.parametrize(("number", "name", "i"), MISTAKES)
def test_each_mistake_is_named(capsys, number, name, i):
    said = verdict(capsys, number, EXERCISES[number].mistakes[name][i])
    assert said == f"Exercise {number.lstrip('0')}: not yet. {VERDICTS[name]}"


@pytest.mark.parametrize("number", EXERCISES)
@pytest.mark.parametrize("answer", [None, ..., "text", object(), {}, np.array(["a"]), lambda: 1, lambda *a: "no", len])
def test_nothing_makes_it_raise(capsys, number, answer):
    assert "not yet" in verdict(capsys, number, answer)


@pytest.mark.parametrize("number", FUNCTIONS)
def test_a_function_that_fails_is_told_so(capsys, number):
    def broken(*arguments):
        raise KeyError("oops\nsecond line")

    assert "raised KeyError" in verdict(capsys, number, broken)


@pytest.mark.parametrize("number", FUNCTIONS)
def test_an_answer_in_torch_passes(capsys, number):
    """A function that only works on tensors, and returns one with a gradient."""
    right = EXERCISES[number].right

    def on_tensors(*arguments):
        assert all(isinstance(x, (torch.Tensor, float, int)) for x in arguments)
        arrays = (x.numpy() if isinstance(x, torch.Tensor) else x for x in arguments)
        return torch.tensor(right(*arrays), requires_grad=True)

    assert "correct" in verdict(capsys, number, on_tensors)


@pytest.mark.parametrize("number", FUNCTIONS)
def test_changing_the_input_is_named(capsys, number):
    def greedy(*arguments):
        result = EXERCISES[number].right(*arguments)
        arguments[0][...] = 0
        return result

    assert VERDICTS["changes input"] in verdict(capsys, number, greedy)


@pytest.mark.parametrize("number", FUNCTIONS)
def test_wrong_shapes_and_numbers_are_described(capsys, number):
    right = EXERCISES[number].right
    assert "has shape" in verdict(capsys, number, lambda *a: np.asarray(right(*a))[..., :1])
    assert "expected" in verdict(capsys, number, lambda *a: np.asarray(right(*a)) + 0.01)
    assert "NaN" in verdict(capsys, number, lambda *a: np.asarray(right(*a)) * np.nan)


def test_an_exercise_may_ask_for_a_value(capsys, monkeypatch):
    asked = Exercise(right=np.sqrt(512), mistakes={"no root": [512.0]})
    monkeypatch.setitem(EXERCISES, "99.1", asked)
    assert verdict(capsys, "99.1", 512**0.5) == "Exercise 99.1: correct."
    assert verdict(capsys, "99.1", torch.tensor(512.0)) == f"Exercise 99.1: not yet. {VERDICTS['no root']}"
    assert "must be a number or an array, got a function" in verdict(capsys, "99.1", np.sqrt)
    assert "has shape (2,), expected ()" in verdict(capsys, "99.1", [1.0, 2.0])
    assert "at () expected 22.6274, got 3.0000" in verdict(capsys, "99.1", 3)


def test_an_unknown_exercise_is_said_to_be_one(capsys):
    assert verdict(capsys, "99.9", 1) == "There is no exercise 99.9."
    assert verdict(capsys, 6, 1) == "There is no exercise 6."


@pytest.mark.parametrize("number", ["06.1", "6.1", "06.01", " 6.1 ", 6.1])
def test_the_number_may_be_written_as_in_the_text(capsys, number):
    assert verdict(capsys, number, softmax) == "Exercise 6.1: correct."


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize("error", [SystemExit, GeneratorExit, Unprintable, ValueError])
def test_not_even_leaving_python_gets_out(capsys, error):
    def leave(x):
        raise error

    assert verdict(capsys, "06.1", leave) == f"Exercise 6.1: not yet. The function raised {error.__name__}."
    assert "There is no exercise" in verdict(capsys, Unprintable(), leave)


def test_an_interrupt_stops_an_endless_answer():
    def interrupted(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check("06.1", interrupted)


@pytest.mark.parametrize("odd", [lambda x: x + 5j, lambda x: np.ma.masked_all(x.shape), lambda x: x.astype(str)])
def test_numbers_of_a_wrong_kind_are_not_taken(capsys, odd):
    assert "must return numbers" in verdict(capsys, "06.1", lambda x: odd(softmax(x)))


def test_every_mistake_has_a_verdict():
    assert {name for _, name, _ in MISTAKES} <= set(VERDICTS)


def test_typical_slips_in_the_code_are_explained(capsys):
    def without_keepdims(x):
        return np.exp(x) / np.exp(x).sum(axis=-1)

    def torch_slip(q, k, v):
        return torch.matmul(q, k)

    def warns(x):
        warnings.warn("look", stacklevel=1)
        return softmax(x)

    assert "(keepdims=True)?" in verdict(capsys, "06.1", without_keepdims)
    assert "(keepdims=True)?" in verdict(capsys, "06.1", lambda x: torch.exp(x) / torch.exp(x).sum(-1))
    assert "2x6 and 3x6" in verdict(capsys, "06.2", torch_slip)
    assert "correct" in verdict(capsys, "06.1", warns)


def test_a_width_of_one_hides_the_bug_of_chapter_02(capsys):
    """As it did in published code: a check that only tries a width of 1 must not pass it."""
    bug = EXERCISES["02.3"].mistakes["the bug"][0]
    q, k, one = EXERCISES["02.3"].inputs[1]
    assert one == 1
    assert np.allclose(bug(q, k, one), EXERCISES["02.3"].right(q, k, one))
    assert "still has its bug" in verdict(capsys, "02.3", bug)
    assert "is no number" in verdict(capsys, "02.1", EXERCISES["02.1"].mistakes["underflow"][0])


def test_one_sentence_hides_the_bug_of_chapter_05(capsys):
    """With more, change one sentence and the others move: the symptom that the verdict names."""
    bug, right = EXERCISES["05.4"].mistakes["sentences mixed"][0], EXERCISES["05.4"].right
    x, *views = EXERCISES["05.4"].inputs[0]
    assert np.allclose(bug(x[:, :1], *views), right(x[:, :1], *views))
    changed = x.copy()
    changed[:, 0] += 1
    assert np.allclose(right(changed, *views)[:, 1:], right(x, *views)[:, 1:])
    assert not np.allclose(bug(changed, *views)[:, 1:], bug(x, *views)[:, 1:])
    assert "outputs of the others move" in verdict(capsys, "05.4", bug)


def test_the_counterexamples_of_appendix_A2_break_their_claims():
    """Other weights without the first key, with the same output; a hidden score of which half is seen."""
    (w, v), right = EXERCISES["A2.1"].inputs[0], EXERCISES["A2.1"].right
    assert w[0] == 0.4
    assert np.isclose(w.sum(), 1)
    assert right(w, v)[0] == 0
    assert (right(w, v) >= 0).all()
    assert np.isclose(right(w, v).sum(), 1)
    assert np.allclose(right(w, v) @ v, w @ v)
    for (s,) in EXERCISES["A2.2"].inputs:
        hidden = EXERCISES["A2.2"].right(s) - 20
        assert np.allclose(softmax(np.append(s, hidden[:, None], axis=1))[:, 3], 0.5)


def test_an_exchange_of_two_words_hides_the_bug_of_appendix_A2(capsys):
    """With three words in a circle it accuses a layer that only copies, as the verdict says."""
    bug, right = EXERCISES["A2.3"].mistakes["undone with p"][0], EXERCISES["A2.3"].right
    out, _, circle = EXERCISES["A2.3"].inputs[0]
    exchange = np.array([0, 2, 1, 3])
    assert not right(out, out[exchange], exchange).any()
    assert not bug(out, out[exchange], exchange).any()
    assert not right(out, out[circle], circle).any()
    assert bug(out, out[circle], circle).any()
    assert "only copies" in verdict(capsys, "A2.3", bug)


def test_a_softmax_that_overflows_later_is_not_correct(capsys):
    def shifted_by_the_mean(x):
        e = np.exp(x - x.mean(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    assert "not yet" in verdict(capsys, "06.1", shifted_by_the_mean)
