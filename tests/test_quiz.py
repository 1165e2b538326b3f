"""The quizzes: what the directive refuses, where the right options stand, and the numbers that the questions state."""

import re

import numpy as np
import pytest
from book_build import ROOT, build_book, copy_book

import attnlib
from attnlib import costs

QUIZZES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "book").glob("part_*.md"))}
FENCE = re.compile(r"^:::\{question\}\n(.*?)^:::$", re.M | re.S)
OPTION = re.compile(r"^- \[( |x)\] (.+)\n\n((?:  .+\n)+)", re.M)

WRONG, RIGHT = "- [ ] no\n\n  Because.\n", "- [x] yes\n\n  Because.\n"
REFUSED = {
    "": "a question must begin with a paragraph that asks something",
    WRONG: "a question must begin with a paragraph that asks something",
    "No list?": "the question 'No list?' must end with a list of 4 options, got 0",
    f"Three?\n\n{2 * WRONG}{RIGHT}": "the question 'Three?' must end with a list of 4 options, got 3",
    f"Nobody?\n\n{4 * WRONG}": "the question 'Nobody?' must have one right option, marked [x], got 0",
    f"Two?\n\n{2 * WRONG}{2 * RIGHT}": "the question 'Two?' must have one right option, marked [x], got 2",
    f"No box?\n\n{2 * WRONG}{RIGHT}- maybe\n\n  Because.": (
        "the question 'No box?' must mark each option with [ ] or [x], got 'maybe"
    ),
    f"Why?\n\n{2 * WRONG}{RIGHT}- [ ] maybe": (
        "the question 'Why?' must give a reason in a paragraph below the option 'maybe'"
    ),
}


def questions(name):
    """For each question of a page its options: (right or not, label, reason)."""
    found = [OPTION.findall(body) for body in FENCE.findall(QUIZZES[name])]
    assert len(found) == QUIZZES[name].count("{question}")
    return [[(mark == "x", label, reason) for mark, label, reason in options] for options in found]


def places(name):
    return [[right for right, _, _ in options].index(True) for options in questions(name)]


def test_the_directive_refuses_a_question_and_names_it(tmp_path):
    copy_book(tmp_path, "_config.yml", "book/_ext", "book/_static", "book/_vendor")
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: start\n", encoding="utf-8")
    page, lines = "# Start\n\nHere.\n\n", {}
    for body in [*REFUSED, f"Fine?\n\n{RIGHT}{3 * WRONG}"]:
        lines[body] = page.count("\n") + 1
        page += f":::{{question}}\n{body}\n:::\n\n"
    (tmp_path / "start.md").write_text(page, encoding="utf-8")
    status, printed = build_book(tmp_path)
    assert status != 0
    for body, message in REFUSED.items():
        assert f"start.md:{lines[body]}: ERROR: {message}" in printed, printed
    assert printed.count(": ERROR: ") == len(REFUSED), printed


def test_each_part_has_a_quiz_whose_questions_have_four_options_with_reasons():
    assert len(QUIZZES) == 3
    for name in QUIZZES:
        assert len(questions(name)) >= 6
        for options in questions(name):
            assert len(options) == 4, options
            assert sum(right for right, _, _ in options) == 1
            assert all(label != other for i, (_, label, _) in enumerate(options) for _, other, _ in options[:i])
            assert all(len(reason.split()) >= 5 for _, _, reason in options), options
            assert any(".ipynb#" in reason for _, _, reason in options), f"no section is linked: {options}"


@pytest.mark.parametrize("name", QUIZZES)
def test_the_right_options_stand_everywhere_equally_often(name):
    counts = np.bincount(places(name), minlength=4)
    assert np.ptp(counts) <= 1, counts
    assert not re.search(r"(.)\1\1", "".join(map(str, places(name)))), places(name)


def test_the_right_option_is_neither_the_longest_nor_the_shortest_as_a_rule():
    ranks = []  # 0 for the shortest of the four labels, 3 for the longest
    for name in QUIZZES:
        for options in questions(name):
            lengths = [len(label) for _, label, _ in options]
            own = next(len(label) for right, label, _ in options if right)
            ranks.append((sum(n < own for n in lengths) + sum(n <= own for n in lengths) - 1) / 2)
    assert 1 < np.mean(ranks) < 2, ranks
    assert max(ranks.count(0), ranks.count(3)) <= len(ranks) / 3, ranks


# The numbers of the quizzes. Each entry is a page, a piece of its text with places for numbers, and the numbers.

HEIGHT = np.array([152.0, 157, 160, 163, 167, 170, 174, 177, 183, 190])  # the pupils of chapter 02


def far_away():
    scores = attnlib.gaussian_scores(np.array([[1.78]]), HEIGHT[:, None], 5.0)[0]
    weights = attnlib.softmax(scores)
    assert weights[0] > 0.999
    assert np.exp(scores).max() > 0
    return round(np.log10(np.exp(scores).sum()))


def ahead():
    first, second = attnlib.gaussian_scores(np.array([[1.78]]), HEIGHT[:2, None], 5.0)[0]
    return round(first - second), round((first - second) / np.log(10))


def tallest():
    weights = attnlib.softmax(160 * HEIGHT / 5.0**2)
    assert weights.argmax() == HEIGHT.argmax()
    assert weights.max() > 0.999
    centered = HEIGHT - HEIGHT.mean()
    assert (160 - HEIGHT.mean()) * centered[0] == ((160 - HEIGHT.mean()) * centered).max()
    return 160 / 5**2, round(np.exp(160 / 5**2), -2)


def on_pads():
    return round(100 * attnlib.softmax(np.array([-2.0, -1, 0, 0]))[2:].sum())


def self_attention_shapes():
    x, W_q, W_k, W_v = (np.ones(shape) for shape in ((4, 6), (6, 3), (6, 3), (6, 2)))
    return attnlib.attention_weights(x @ W_q, x @ W_k).shape, attnlib.attention(x @ W_q, x @ W_k, x @ W_v).shape


def two_words():
    scores = attnlib.dot_scores(np.array([[1.0, 0], [3, 0]]), np.array([[1.0, 0], [3, 0]]))
    return tuple(scores[0])


def typical_size():
    q, k = np.random.default_rng(0).normal(size=(2, 20000, 1, 64))
    return round(attnlib.dot_scores(q, k).std())


def over_queries():
    x = np.random.default_rng(7).normal(size=(4, 3))  # the words of chapter 07
    weights = attnlib.softmax(attnlib.scaled_dot_scores(x, x), attnlib.causal_mask(4), axis=0)
    assert np.triu(weights, 1).max() == 0
    assert np.isclose(weights.sum(), 4)
    return tuple(weights.sum(axis=1))


def head_0(reshape):
    return reshape(np.arange(24).reshape(4, 6))[0].tolist()


def kib(layers=32, g=8, both=1):
    return costs.kv_cache_bytes(1, 1, layers, g, 128) * both / 1024


def same_key_value_head():
    return ("None", "One", "Two", "Three", "Four")[(np.repeat([0, 1], 3) == np.tile([0, 1], 3)).sum()]


def quadratic_share():
    projections = costs.multiply_adds("projections", 2048, 4096)
    return (
        100
        * costs.multiply_adds("attention", 2048, 4096)
        / (costs.multiply_adds("attention", 2048, 4096) + projections)
    )


FACTS = [
    ("part_1", "The sum of the kernel, about $10^{%d}$", far_away),
    ("part_1", "by %d in the score, which is a factor of $10^{%d}$", ahead),
    ("part_1", "$160 / 25 = %.1f$ in the score, a factor of %d in the weight", tallest),
    ("part_1", "- [x] About %d %%.", on_pads),
    ("part_1", "- [ ] About %d %%.", lambda: 100 - on_pads()),
    ("part_1", "the words $e^{-2} + e^{-1} = %.2f$", lambda: np.exp(-2) + np.exp(-1)),
    ("part_1", "the mean of %d.", lambda: np.mean([59, 41, 36])),
    ("part_1", "the old score are %d points apart", lambda: np.ptp([59, 41, 36])),
    ("part_2", "- [x] %s and %s\n", self_attention_shapes),
    ("part_2", "the first word scores %d with itself and %d with the second", two_words),
    ("part_2", "- [x] About %d.", typical_size),
    ("part_2", "add up to %.2f, %.2f, %.2f and %.2f.", over_queries),
    ("part_3", "- [ ] `%s`\n\n  That is right", lambda: head_0(lambda x: x.reshape(4, 3, 2).swapaxes(0, 1))),
    ("part_3", "- [ ] `%s`\n\n  That is every", lambda: head_0(lambda x: x.reshape(4, 2, 3).transpose(2, 0, 1))),
    ("part_3", "- [x] `%s`\n", lambda: head_0(lambda x: x.reshape(3, 4, 2))),
    ("part_3", "- [ ] %d KiB\n\n  That is one layer", lambda: kib(layers=1)),
    ("part_3", "- [ ] %d KiB\n\n  That is the keys", lambda: kib(both=1 / 2)),
    ("part_3", "- [x] %d KiB\n", kib),
    ("part_3", "- [ ] %d KiB\n\n  That would be", lambda: kib(g=32)),
    ("part_3", "- [x] %s.\n\n  0, 0, 0, 1, 1, 1", same_key_value_head),
    ("part_3", "- [x] %d %%\n\n  $n / (n + 2d)", quadratic_share),
    ("part_3", "- [ ] %d %%\n\n  That is $n / (n + d)$", lambda: 100 * 2048 / (2048 + 4096)),
    ("part_3", "- [ ] %d %%\n\n  That is the share of the projections", lambda: 100 - quadratic_share()),
]


@pytest.mark.parametrize(("name", "text", "compute"), FACTS, ids=[text[:30] for _, text, _ in FACTS])
def test_a_number_of_a_quiz_is_what_the_library_computes(name, text, compute):
    values = compute()
    written = text % (values if isinstance(values, tuple) else (values,))
    assert written in QUIZZES[name], written


# What the right options say without a number.


def random(*shape):
    return np.random.default_rng(0).normal(size=shape)


def test_without_the_tanh_the_weights_depend_on_the_keys_alone():
    q, k, W_a, U_a, v_a = random(2, 3), random(4, 5), random(3, 6), random(5, 6), random(6)
    weights = attnlib.softmax(((q @ W_a)[:, None] + k @ U_a) @ v_a)
    assert np.allclose(weights[0], weights[1])
    assert np.ptp(weights) > 0.1
    assert not np.allclose(*attnlib.softmax(attnlib.additive_scores(q, k, W_a, U_a, v_a)))


def test_one_matrix_gives_symmetric_scores_and_weights_that_are_not():
    x, W = random(4, 6), random(6, 3)
    for projected in (x, x @ W):
        scores = attnlib.dot_scores(projected, projected)
        assert np.allclose(scores, scores.T)
        assert not np.allclose(attnlib.softmax(scores), attnlib.softmax(scores).T)


def test_a_word_gets_the_same_vector_in_another_order():
    dog_bites_man, W_q, W_k, W_v = random(3, 6), random(6, 4), random(6, 4), random(6, 2)
    one, other = (attnlib.attention(x @ W_q, x @ W_k, x @ W_v) for x in (dog_bites_man, dog_bites_man[::-1]))
    assert np.allclose(one[0], other[2])
    assert np.allclose(one.mean(axis=0), other.mean(axis=0))
    assert not np.allclose(one[0], other[0])


def test_a_row_of_large_negative_numbers_has_equal_weights():
    nothing = np.zeros(4, dtype=bool)
    assert np.allclose(attnlib.softmax(np.where(nothing, random(4), -1e9)), 1 / 4)
    assert (attnlib.softmax(random(4), mask=nothing) == 0).all()


def test_aligned_at_the_start_a_new_word_gets_the_first_value():
    q, k, v = random(1, 3), random(10, 3), random(10, 2)
    assert np.allclose(attnlib.attention(q, k, v, np.tri(1, 10, dtype=bool)), v[0])
    assert np.allclose(attnlib.attention(q, k, v, causal=True), attnlib.attention(q, k, v))


def test_a_sum_with_the_norm_in_it_forgets_the_size():
    x, W = random(4, 6), random(6, 6)

    def norm(x):
        return (x - x.mean(axis=-1, keepdims=True)) / x.std(axis=-1, keepdims=True)

    def network(x):
        return np.maximum(x @ W, 0) @ W.T

    def wrong(x):
        return norm(x) + network(norm(x))

    def right(x):
        return x + network(norm(x))

    assert np.allclose(wrong(x), wrong(10 * x))
    assert not np.allclose(right(x), right(10 * x))


def test_without_positions_mirrored_sentences_get_the_same_answers():
    import torch

    from attnlib.corpus import ENGLISH, FRENCH, make_batch, parse
    from attnlib.transformer import Transformer

    batch = make_batch([parse("le chat voit le chien"), parse("le chien voit le chat")])
    written = batch.target_in[[0, 0], :3]  # the same words written so far
    for positions in (False, True):
        attnlib.seed_everything(0)  # the same weights, so that positions alone make the difference
        sizes = {"d_model": 8, "num_heads": 2, "d_ff": 16, "num_layers": 2}
        model = Transformer(len(FRENCH), len(ENGLISH), **sizes, positions=positions)
        with torch.no_grad():
            one, other = model.decoder(written, *model.read(batch))[0]
        assert torch.allclose(one, other, atol=1e-5) == (not positions)
