"""The interactive figures without a browser: what Python draws, how it is packed, what is refused."""

import html
import itertools
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
import torch

from attnlib import corpus, costs, explorers
from attnlib.explorers import (
    alignment_explorer,
    attention_explorer,
    cache_explorer,
    cost_explorer,
    heads_explorer,
    kernel_explorer,
    layers_explorer,
    mask_explorer,
    projection_explorer,
    scaling_explorer,
    translation_explorer,
)

FRENCH = "le chat noir est assis sur le tapis rouge dans le salon".split()
ENGLISH = "the black cat is sitting on the red carpet in the living room".split()
RNG = np.random.default_rng(6)
SCORES = RNG.normal(size=(4, 5))
Q, K = RNG.normal(size=512), RNG.normal(size=(5, 512))
BLOCKED = np.where(np.tri(4, 5, 0, dtype=bool), SCORES, -np.inf)
BLOCKED[2] = -np.inf
EVIL = ["<script>alert(1)</script>", "</style>", '"', "&amp;", "<!--"]
HEIGHTS, MASSES = np.array([152.5, 160, 177, 183, 190]), np.array([44, 48, 58, 79, 82.25])
QUERIES, WIDTHS = np.arange(140, 206), [0.5, 2, 5, 30]


def kernel(query=178, width=5, **settings):
    return kernel_explorer(HEIGHTS, MASSES, QUERIES, WIDTHS, query=query, width=width, **settings)


SAID = {
    "fixed": [[*ENGLISH[:4], "dog", *ENGLISH[5:8]], ["the", "cat", "cat"]],
    "attention": [ENGLISH, ["the", "cat", "sleeps"]],
}
PAIRS = [corpus.RUNNING_EXAMPLE, corpus.parse("le chat dort")]


def translations(pairs=PAIRS, said=SAID, **settings):
    return translation_explorer(pairs, said, **settings)


def cost(lengths=(16, 128, 4096), widths=(8, 64), kernels=(2, 3, 7), length=4096, width=64, kernel=3):
    return cost_explorer(lengths, widths, kernels, length=length, width=width, kernel=kernel)


EXPLORERS = {
    "kernel": lambda: kernel(labels=FRENCH[:5], names=("height (cm)", "mass (kg)")),
    "evil kernel": lambda: kernel(labels=EVIL, names=EVIL[:2]),
    "attention": lambda: attention_explorer(SCORES, ENGLISH[:4], FRENCH[:5]),
    "blocked": lambda: attention_explorer(BLOCKED),
    "cold": lambda: attention_explorer(SCORES, temperature=False),
    "running": lambda: attention_explorer(RNG.normal(size=(13, 12)), ENGLISH, FRENCH),
    "evil": lambda: attention_explorer(RNG.normal(size=(5, 5)), EVIL, EVIL),
    "newlines": lambda: attention_explorer(np.eye(2), ["\n\n", " "], ["\r\n\r\n", ""]),
    "scaling": lambda: scaling_explorer(Q, K, FRENCH[:5]),
    "evil scaling": lambda: scaling_explorer(Q, K, EVIL),
    "mask": lambda: mask_explorer(4, 5, 3),
    "translations": translations,
    "evil translations": lambda: translations([corpus.Pair(EVIL, EVIL)] * 2, {EVIL[0]: [EVIL[::-1]] * 2}),
}


WORDS = "the cat drinks milk".split()
VIEWS = {
    "none": (np.eye(4, 6), np.eye(4, 6)[::-1].copy()),
    "hand-made": (
        np.array([[2, 0, 0], [0, 2, 0], [0, 0, 2.5], [0, 2, 0]]),
        np.array([[0, -1, 0], [1, 1, 0], [0, 0, 0], [1, 0, 0.25]]),
    ),
}


def projection(words=WORDS, projections=VIEWS, **settings):
    return projection_explorer(words, projections, **settings)


EXPLORERS["projection"] = lambda: projection(asks=2, chosen="hand-made")
EXPLORERS["evil projection"] = lambda: projection(EVIL, {name: (np.eye(5), np.eye(5)) for name in EVIL})


def softmax(scores):
    """By the book, with 0 for rows that see nothing."""
    with np.errstate(invalid="ignore"):
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.nan_to_num(e / e.sum(axis=-1, keepdims=True))


LOOKS, LETTERS = softmax(np.random.default_rng(8).normal(size=(3, 5, 5)) * 2), list("kdbrw")
RIGHT = {"previous": list("wkdbr"), "mirrored": list("wrbdk")}


def said(m):
    """What a model says with the heads in m: the first wrong answers go when more heads are on."""
    on = bin(m).count("1")
    return {
        "previous": ["z"] * (3 - on) + RIGHT["previous"][3 - on :],
        "mirrored": RIGHT["mirrored"][:on] + ["y"] * (5 - on),
    }


def heads(answers=None, right=RIGHT, tokens=LETTERS, weights=LOOKS, **settings):
    answers = {name: [said(m)[name] for m in range(8)] for name in RIGHT} if answers is None else answers
    return heads_explorer(tokens, weights, answers, right, **settings)


EXPLORERS["heads"] = heads
EXPLORERS["evil heads"] = lambda: heads({EVIL[0]: [EVIL] * 8}, {EVIL[0]: EVIL[::-1]}, EVIL)
WEIGHTS, LINKS = softmax(RNG.normal(size=(13, 12))), [(0, 0), (1, 2), (2, 1), (11, 11), (12, 11)]
EXPLORERS["alignment"] = lambda: alignment_explorer(WEIGHTS, ENGLISH, FRENCH, LINKS)
EXPLORERS["costs"] = cost
EXPLORERS["evil alignment"] = lambda: alignment_explorer(softmax(np.eye(5)), EVIL, EVIL)
EXPLORERS["cache"] = cache_explorer
LAYERS = softmax(RNG.normal(size=(2, 3, 5, 4)) * 2)
EXPLORERS["layers"] = lambda: layers_explorer(LAYERS, ENGLISH[:5], FRENCH[:4], LINKS[:3], layer=1, head=2)
EXPLORERS["evil layers"] = lambda: layers_explorer(np.eye(5)[None, None], EVIL, EVIL)
every_explorer = pytest.mark.parametrize("name", EXPLORERS)


class Reader(HTMLParser):
    """The tags in their order, their attributes, and the text of every cell, heading and fact."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.cells, self.shades = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.open.append(tag)
        if tag in ("td", "th", "dd", "caption"):
            self.cells.append((tag, ""))
            self.shades.append(dict(attributes).get("style", ""))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th", "dd", "caption"):
            self.cells[-1] = (self.cells[-1][0], self.cells[-1][1] + data)

    def of(self, tag):
        return [text for kind, text in self.cells if kind == tag]

    def numbers(self, tag="td"):
        return [float(text) for text in self.of(tag) if re.fullmatch(r"-?\d+\.\d+", text)]


# --- what Python draws ---


@pytest.mark.parametrize("backend", ["numpy", "float32", "list", "torch", "bfloat16", "grad"])
def test_the_table_holds_the_weights(backend):
    scores = np.round(SCORES * 4) / 4  # bfloat16 holds them exactly
    given = {
        "numpy": scores,
        "float32": scores.astype(np.float32),
        "list": scores.tolist(),
        "torch": torch.tensor(scores),
        "bfloat16": torch.tensor(scores, dtype=torch.bfloat16),
        "grad": torch.tensor(scores, requires_grad=True),
    }[backend]
    explorer = attention_explorer(given, ENGLISH[:4], FRENCH[:5])
    assert explorer.html == attention_explorer(scores, ENGLISH[:4], FRENCH[:5]).html
    page = Reader(explorer.html)
    assert page.numbers() == [float(f"{w:.4f}") for w in softmax(scores).ravel()]
    assert page.of("th") == FRENCH[:5] + ENGLISH[:4]
    assert len(page.of("caption")) == 1
    scopes = [attributes["scope"] for tag, attributes in page.tags if tag == "th"]
    assert scopes == ["col"] * 5 + ["row"] * 4


def test_wide_tables_show_two_decimals():
    page = Reader(EXPLORERS["running"]().html)
    assert all(re.fullmatch(r"[01]\.\d\d", text) for text in page.of("td") if text)


def test_blocked_keys_are_marked_and_a_dead_row_has_no_weights():
    page = Reader(attention_explorer(BLOCKED).html)
    cells = np.array(page.of("td")[1:]).reshape(4, 5)
    want = softmax(np.round(BLOCKED, 4))
    for text, score, weight in zip(cells.ravel(), BLOCKED.ravel(), want.ravel(), strict=True):
        assert text == ("-" if np.isinf(score) else f"{weight:.4f}")
    assert "blocked" in page.of("caption")[0]
    assert "blocked" not in Reader(attention_explorer(SCORES).html).of("caption")[0]


def test_colors_are_fixed_to_0_and_1():
    page = Reader(attention_explorer([[0.0, -np.inf, -1000.0, 0.0]]).html)
    shades = [shade for shade in page.shades if shade]
    assert shades == ["background:#2a78d648", "background:#2a78d600", "background:#2a78d648"]
    assert "background:#2a78d690" in Reader(attention_explorer([[5.0]]).html).shades


@pytest.mark.parametrize("given", [np.asarray, torch.tensor, list], ids=["numpy", "torch", "list"])
def test_the_alignment_table_holds_weights_and_gold_links(given):
    explorer = alignment_explorer(given(WEIGHTS), ENGLISH, FRENCH, frozenset(LINKS))
    assert explorer.html == EXPLORERS["alignment"]().html
    page = Reader(explorer.html)
    assert page.of("th") == FRENCH + ENGLISH
    assert [text for text in page.of("td") if text] == [f"{w:.2f}" for w in np.round(WEIGHTS, 4).ravel()]
    styles = [attributes["style"] for tag, attributes in page.tags if tag == "td" and attributes]
    outlined = [np.unravel_index(i, (13, 12)) for i, style in enumerate(styles) if "outline:" in style]
    assert outlined == LINKS
    assert styles[0] == f"background:#2a78d6{round(round(WEIGHTS[0, 0], 4) * 144):02x};outline:2px solid #D55E00"
    assert "outlined" in page.of("caption")[0]
    plain = alignment_explorer(WEIGHTS, ENGLISH, FRENCH)
    assert "outlined" not in Reader(plain.html).of("caption")[0]
    assert ('"gold":[' in plain.html, '"gold":[[0],[2],[1],[],' in explorer.html) == (False, True)


def test_the_scaling_table_starts_scaled_at_64():
    page = Reader(scaling_explorer(Q, torch.tensor(K), FRENCH[:5]).html)
    raw = K[:, :64] @ Q[:64]
    weights = softmax(np.round(raw, 4) / 8)
    want = np.stack([raw, raw / 8, weights], axis=1)
    assert np.reshape(page.numbers(), (5, 3)) == pytest.approx(want, abs=1e-4)
    facts = [[float(x) for x in re.findall(r"\d+\.\d+", text)] for text in page.of("dd")]
    entropy, passes = -(weights * np.log(weights)).sum(), (weights * (1 - weights)).sum()
    assert facts == [
        pytest.approx([entropy, np.log(5)], abs=1e-4),
        pytest.approx([weights.max()], abs=1e-4),
        pytest.approx([passes, 1 - 1 / 5], abs=1e-4),
    ]


@pytest.mark.parametrize("given", [np.asarray, torch.tensor, list], ids=["numpy", "torch", "list"])
@pytest.mark.parametrize(("query", "width"), [(178, 5), (140, 0.5), (205, 30)])
def test_the_kernel_table_holds_weights_and_estimate(given, query, width):
    page = Reader(kernel_explorer(given(HEIGHTS), given(MASSES), QUERIES, given(WIDTHS), query=query, width=width).html)
    weights = softmax(-((query - HEIGHTS) ** 2) / (2 * width**2))
    rows = np.reshape([text for text in page.of("td") if text], (5, 3))
    assert rows[:, 0].tolist() == ["152.5", "160", "177", "183", "190"]
    assert rows[:, 1].tolist() == ["44", "48", "58", "79", "82.25"]
    assert rows[:, 2].tolist() == [f"{w:.4f}" for w in weights]
    nearest = MASSES[np.argmin(np.abs(query - HEIGHTS))]
    whole = np.exp(-((query - HEIGHTS) ** 2) / (2 * width**2)).sum()
    assert page.numbers("dd") == pytest.approx([weights @ MASSES, nearest, whole], abs=1e-4)


def test_the_picture_of_the_kernel_is_drawn_to_scale():
    page = kernel(query=178, width=5, names=("height (cm)", "mass (kg)")).html
    weights = softmax(-((QUERIES[:, None] - HEIGHTS) ** 2) / 50)
    x, y = 50 + 280 * (QUERIES - 140) / 65, 120 - 100 * (weights @ MASSES - 44) / 38.25
    curve, here = re.findall(r'<path d="M(.*?)"', page)
    assert np.array([p.split(" ") for p in curve.split("L")], float) == pytest.approx(np.stack([x, y], 1), abs=0.051)
    assert here == f"{x[38]:.1f} 130V{y[38]:.1f}H50"
    dots = np.array(re.findall(r'<circle cx="(.*?)" cy="(.*?)" r="(.*?)"/>', page), float)
    want = [50 + 280 * (HEIGHTS - 140) / 65, 120 - 100 * (MASSES - 44) / 38.25, 3 + 11 * weights[38] ** 0.5]
    assert dots == pytest.approx(np.transpose(want), abs=0.051)
    assert re.findall(r"<text[^>]*>(.*?)</text>", page) == ["140", "height (cm)", "205", "44", "82.25", "mass (kg)"]
    flat = kernel_explorer([1, 2], [7, 7], [0, 1, 2], [1], query=1, width=1).html
    assert re.findall(r'<path d="M(.*?)"', flat)[0] == "50.0 120.0L190.0 120.0L330.0 120.0"


@pytest.mark.parametrize("given", [np.asarray, torch.tensor, np.ndarray.tolist], ids=["numpy", "torch", "list"])
@pytest.mark.parametrize(("chosen", "asks"), [("none", 0), ("hand-made", 1), ("hand-made", 3), (None, 2)])
def test_the_projection_table_holds_keys_scores_and_weights(given, chosen, asks):
    views = {name: tuple(given(a) for a in pair) for name, pair in VIEWS.items()}
    explorer = projection(projections=views, asks=asks, chosen=chosen)
    assert explorer.html == projection(asks=asks, chosen=chosen).html
    page = Reader(explorer.html)
    q, k = VIEWS[chosen or "none"]
    scores = np.array([sum(q[asks] * key) for key in k])
    weights = softmax(scores)
    rows = np.reshape([text for text in page.of("td") if text], (4, 3))
    assert [[float(n) for n in text.split()] for text in rows[:, 0]] == k.tolist()
    assert rows[:, 1].tolist() == [f"{s + 0.0:.4f}" for s in scores]
    assert rows[:, 2].tolist() == [f"{w:.4f}" for w in weights]
    assert page.of("th") == ["word", "key", "score", "weight", *WORDS]
    word, query, looks = page.of("dd")
    assert (word, [float(n) for n in query.split()]) == (WORDS[asks], q[asks].tolist())
    best = np.argsort(-weights, kind="stable")[:3]
    assert looks == ", ".join(f"{WORDS[j]} {weights[j]:.4f}" for j in best)


def test_whole_numbers_are_written_without_a_point():
    page = Reader(projection(asks=2, chosen="hand-made").html)
    assert [text for text in page.of("td") if text][::3] == ["0 -1 0", "1 1 0", "0 0 0", "1 0 0.25"]
    assert page.of("dd")[1] == "0 0 2.5"
    assert Reader(projection(["a"], {"": ([[-0.00001]], [[0.12345]])}).html).of("dd")[1] == "0"


@pytest.mark.parametrize(("d", "sizes"), [(1, [1]), (5, [1, 2, 4]), (8, [1, 2, 4, 8]), (64, [1, 2, 4, 8, 16, 32, 64])])
def test_sizes_are_the_powers_of_two(d, sizes):
    page = scaling_explorer(Q[:d], K[:, :d]).html
    data, _words = json.loads(re.search(r"scaling,\.\.\.(\[.*\])\);\}\)\(\);</script>", page)[1])
    assert data["sizes"] == sizes
    want = np.stack([K[:, :size] @ Q[:size] for size in sizes], axis=1)
    assert np.array(data["raw"]) == pytest.approx(want, abs=1e-4)


def test_the_translations_start_with_the_shortest_and_underline_what_is_wrong():
    page = translations().html
    rows = [["le chat dort"], ["the cat sleeps"], ["the cat <mark>cat</mark>"], ["the cat sleeps"]]
    assert [re.findall("<td>(.+?)</td>", row) for row in page.split("<tr>")[2:]] == rows
    assert Reader(page).of("th")[-4:] == ["French", "English", "fixed", "attention"]
    assert Reader(page).of("dd") == ["2 of 3 words right", "3 of 3 words right"]
    page = translations(start=1).html
    assert "<td>the black cat is <mark>dog</mark> on the red</td>" in page
    assert Reader(page).of("dd") == ["7 of 13 words right", "13 of 13 words right"]
    data, _words = json.loads(re.search(r"translations,\.\.\.(\[.*\])\);\}\)\(\);</script>", page)[1])
    assert (data["lengths"], data["start"]) == ([3, 12], 1)
    said, wrong = data["sentences"][1][2]
    assert ([data["words"][i] for i in said], wrong) == (SAID["fixed"][0], [4])


@pytest.mark.parametrize(("T_q", "T_k", "length"), [(4, 5, 3), (3, 3, 3), (5, 2, 1), (1, 6, 0), (8, 8, 8)])
@pytest.mark.parametrize("causal", [True, False])
def test_the_mask_table_says_who_sees_whom(T_q, T_k, length, causal):
    page = Reader(mask_explorer(T_q, T_k, length, causal=causal).html)
    why = []
    for i in range(T_q):
        for j in range(T_k):
            pad, later = j >= length, causal and j - i > T_k - T_q
            why.append("both" if pad and later else "pad" if pad else "later" if later else "1")
    assert page.of("td")[1:] == why
    assert page.of("th") == [f"k{j}" for j in range(T_k)] + [f"q{i}" for i in range(T_q)]
    dead = [f"q{i}" for i in range(T_q) if "1" not in why[i * T_k : (i + 1) * T_k]]
    assert page.of("dd") == [f"{why.count('1')} of {T_q * T_k}", ", ".join(dead) or "none"]
    colors = [style for (tag, text), style in zip(page.cells, page.shades, strict=True) if tag == "td" and text == "1"]
    assert set(colors) <= {"background:#2a78d648"}
    assert sum(map(bool, page.shades)) == len(colors) == why.count("1")


@pytest.mark.parametrize("given", [np.asarray, torch.tensor, list], ids=["numpy", "torch", "list"])
def test_the_layers_table_holds_one_head_and_counts_its_gold_links(given):
    explorer = layers_explorer(given(LAYERS), ENGLISH[:5], FRENCH[:4], LINKS[:3], layer=1, head=2)
    assert explorer.html == EXPLORERS["layers"]().html
    page = Reader(explorer.html)
    assert page.of("th") == FRENCH[:4] + ENGLISH[:5]
    assert [text for text in page.of("td") if text] == [f"{round(100 * w)}" for w in LAYERS[1, 2].ravel()]
    styles = [attributes["style"] for tag, attributes in page.tags if tag == "td" and attributes]
    assert [np.unravel_index(i, (5, 4)) for i, style in enumerate(styles) if "outline:" in style] == LINKS[:3]
    on_gold = [[sum(one[t].argmax() == s for t, s in LINKS[:3]) for one in several] for several in LAYERS]
    assert page.of("dd") == [f"{on_gold[1][2]} of 3"]
    assert len({number for numbers in on_gold for number in numbers}) > 1
    call = json.loads(re.search(r"layers,\.\.\.(\[.*\])\)", explorer.html)[1])[0]
    assert (call["match"], call["gold"], call["asked"]) == (on_gold, [[0], [2], [1], [], []], 3)
    assert np.array_equal(call["weights"], np.round(100 * LAYERS).astype(int))
    plain = Reader(layers_explorer(LAYERS, ENGLISH[:5], FRENCH[:4]).html)
    assert (plain.of("dd"), "outlined" in plain.of("caption")[0]) == ([], False)
    assert [text for text in plain.of("td") if text] == [f"{round(100 * w)}" for w in LAYERS[0, 0].ravel()]
    twice = Reader(layers_explorer(LAYERS, ENGLISH[:5], FRENCH[:4], [(0, 0), (0, 1), (0, 2), (0, 3)]).html)
    assert twice.of("dd") == ["1 of 1"]  # a row is counted once, however many gold links it has


def test_right_words_are_a_longest_common_subsequence():
    rng = np.random.default_rng(1)
    for _ in range(500):
        said, target = (rng.integers(3, size=rng.integers(1, 7)).tolist() for _ in range(2))
        wrong = explorers._out_of_place(said, target)
        kept = [word for i, word in enumerate(said) if i not in wrong]
        rest = iter(target)
        assert all(word in rest for word in kept)
        longer = itertools.combinations(said, len(kept) + 1)
        assert not any(all(word in rest for word in some) for some in longer for rest in [iter(target)])


@pytest.mark.parametrize("batch", [1, 16])
def test_the_cache_table_holds_the_bytes_of_three_kinds_of_attention(batch):
    page = Reader(cache_explorer(heads=64, groups=4, d_head=32, layers=80, length=2048, batch=batch, size=1).html)
    gib = [costs.kv_cache_bytes(batch, 2048, 80, g, 32, 1) / 2**30 for g in (64, 4, 1)]
    assert [text for text in page.of("td") if text] == [
        text for g, memory in zip("64 4 1".split(), gib, strict=True) for text in (g, f"{memory:.3f}")
    ]
    widths = [float(style.split("width:")[1].split("%")[0]) for tag, style in styles(page) if tag == "i"]
    assert widths == pytest.approx([100 * memory / 80 for memory in gib], abs=0.005)
    token = costs.kv_cache_bytes(1, 1, 80, 4, 32, 1)
    room = [f"{card * 2**30 // (token * batch):,}" for card in (24, 80)]
    assert page.of("dd") == [f"{token:,}", *room, "16"]
    assert page.of("caption") == ["Keys and values in memory, of 64 query heads; a full bar is 80 GiB"]


def test_a_cache_larger_than_the_card_fills_its_bar():
    page = Reader(cache_explorer(batch=256, cards=(8, 12.5)).html)
    assert next(style for tag, style in styles(page) if tag == "i").startswith("width:100.00%")
    assert page.of("caption")[0].endswith("12.5 GiB")


def test_half_a_thousandth_of_a_gib_is_rounded_up():
    page = Reader(cache_explorer(layers=1, length=4096).html)  # 1/16 GiB
    assert "0.063" in page.of("td")


def styles(page):
    return [(tag, attributes.get("style", "")) for tag, attributes in page.tags]


@pytest.mark.parametrize("given", [np.asarray, torch.tensor, list], ids=["numpy", "torch", "list"])
@pytest.mark.parametrize("start", [0, 3])
def test_the_heads_start_with_the_whole_model(given, start):
    page = Reader(heads(weights=given(LOOKS), start=start).html)
    assert page.of("th") == [*LETTERS, "head 0", "head 1", "head 2", "previous", "mirrored"]
    percents = np.round(100 * LOOKS[:, start]).astype(int)
    texts = [text for text in page.of("td") if text]
    assert texts[:15] == [str(p) for p in percents.ravel()]
    assert [shade for shade in page.shades if shade][:15] == [
        f"background:#2a78d6{round(1.44 * p):02x}" for p in percents.ravel()
    ]
    assert texts[15:] == [*RIGHT["previous"], *RIGHT["mirrored"][:3]]  # and two wrong ones, which are marked
    assert page.of("dd") == ["5 of 5 right", "3 of 5 right"]
    assert page.of("caption")[0].startswith(f"Where {LETTERS[start]} looks")
    html = heads(weights=given(LOOKS), start=start).html
    assert re.findall("<mark>(.)</mark>", html) == ["y", "y"]


def test_the_heads_carry_the_answers_of_every_set_of_heads():
    page = heads(weights=LOOKS + 1e-9).html
    assert page == heads().html
    data, _words = json.loads(re.search(r"heads,\.\.\.(\[.*\])\);\}\)\(\);</script>", page)[1])
    assert data["weights"] == np.round(100 * LOOKS).astype(int).tolist()
    for r, name in enumerate(RIGHT):
        assert [data["words"][i] for i in data["right"][r]] == RIGHT[name]
        for m in range(8):
            assert [data["words"][i] for i in data["answers"][r][m]] == said(m)[name]


# --- how it is packed ---


@every_explorer
def test_every_tag_is_closed_and_none_comes_from_a_token(name):
    page = Reader(EXPLORERS[name]().html)
    assert page.open == []
    tags = [tag for tag, _ in page.tags]
    assert tags[:3] == ["div", "style", "svg" if "kernel" in name else "div"]
    assert tags[-1] == "script"
    assert (tags.count("style"), tags.count("script")) == (1, 1)
    assert page.tags[0][1]["class"] == "attnlib"
    assert "button" not in tags  # the script makes the controls
    assert "input" not in tags


def test_tokens_are_shown_as_they_are():
    page = Reader(EXPLORERS["evil"]().html)
    assert page.of("th") == EVIL + EVIL
    assert Reader(EXPLORERS["evil scaling"]().html).of("th")[-5:] == EVIL
    assert Reader(EXPLORERS["evil alignment"]().html).of("th") == EVIL + EVIL
    assert Reader(EXPLORERS["evil projection"]().html).of("th")[-5:] == EVIL
    assert Reader(EXPLORERS["evil kernel"]().html).of("th") == ["key", *EVIL[:2], "weight", *EVIL]
    assert Reader(EXPLORERS["newlines"]().html).of("th") == [r"'\r\n\r\n'", "''", r"'\n\n'", "' '"]
    assert [unmarked(row) for row in EXPLORERS["evil translations"]().html.split("<tr>")[2:]] == [
        " ".join(EVIL), " ".join(EVIL), " ".join(EVIL[::-1])
    ]


def unmarked(row):
    return html.unescape(re.sub("</?mark>", "", re.search("<td>(.+?)</td>", row)[1]))


@every_explorer
def test_one_line_whose_script_holds_no_tag(name):
    explorer = EXPLORERS[name]()
    assert "\n" not in explorer.html
    assert "\r" not in explorer.html
    script = explorer.html.split("<script>")[1].removesuffix("</script></div>")
    assert "</" not in script
    assert "<!--" not in script
    assert not re.search(r"https?:|//", script)


def test_words_in_the_script_are_escaped(monkeypatch):
    monkeypatch.setitem(explorers.LABELS["attention"], "temperature", "</script><b>")
    page = attention_explorer(SCORES).html
    assert page.count("</script>") == 1
    assert r"\u003c/script>\u003cb>" in page


@every_explorer
def test_styles_touch_nothing_else_on_the_page(name):
    explorer = EXPLORERS[name]().html
    root = re.match(r'<div class="attnlib" id="(attn-[0-9a-f]{8})">', explorer)[1]
    style = re.search("<style>(.*?)</style>", explorer)[1]
    selectors = re.findall(r"(?:^|[{}])([^{}]+)(?=\{)", style)
    assert len(selectors) > 15
    for selector in selectors:
        assert selector.startswith("@media") or all(s.strip().startswith(f"#{root}") for s in selector.split(","))


def test_the_same_numbers_give_the_same_bytes_in_every_process():
    code = (
        "import numpy as np; from attnlib.explorers import *; r = np.random.default_rng(1);"
        "print(attention_explorer(r.normal(size=(3, 4))).html);"
        "print(scaling_explorer(r.normal(size=8), r.normal(size=(3, 8))).html);"
        "print(kernel_explorer(r.random(3), r.random(3), [0, 1], [1], query=1, width=1).html);"
        "print(projection_explorer('abc', {'x': r.random((2, 3, 4))}).html)"
    )
    pages = {
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": seed}
        ).stdout
        for seed in "12"
    }
    assert len(pages) == 1
    assert b"attnlib" in pages.pop()
    assert attention_explorer(SCORES + 1e-9).html == attention_explorer(SCORES).html  # rounded before it is hashed


def test_other_content_has_another_id():
    pages = [
        attention_explorer(SCORES),
        attention_explorer(SCORES + 0.1),
        attention_explorer(SCORES, temperature=False),
        attention_explorer(SCORES, keys=FRENCH[:5]),
        scaling_explorer(Q, K),
        scaling_explorer(Q, K, FRENCH[:5]),
        kernel(),
        kernel(query=179),
        kernel(width=2),
        kernel(names=("a", "b")),
        mask_explorer(4, 5, 3),
        mask_explorer(4, 5, 3, causal=False),
        mask_explorer(4, 5, 3, largest=9),
        translations(),
        translations(start=1),
        alignment_explorer(WEIGHTS, ENGLISH, FRENCH),
        alignment_explorer(WEIGHTS, ENGLISH, FRENCH, []),
        alignment_explorer(WEIGHTS, ENGLISH, FRENCH, LINKS),
        alignment_explorer(WEIGHTS, ENGLISH, ENGLISH[:12], LINKS),
        projection(),
        projection(asks=1),
        projection(chosen="hand-made"),
        projection(FRENCH[:4]),
        projection(projections={name: pair[::-1] for name, pair in VIEWS.items()}),
        cache_explorer(),
        cache_explorer(batch=2),
        cache_explorer(cards=(16, 80)),
        heads(),
        heads(start=1),
        heads(weights=LOOKS[:, ::-1]),
        layers_explorer(LAYERS, ENGLISH[:5], FRENCH[:4]),
        layers_explorer(LAYERS, ENGLISH[:5], FRENCH[:4], []),
        layers_explorer(LAYERS, ENGLISH[:5], FRENCH[:4], layer=1),
        layers_explorer(LAYERS, ENGLISH[:5], FRENCH[:4], head=1),
    ]
    assert len({re.search('id="(.*?)"', page.html)[1] for page in pages}) == len(pages)


def test_sizes_in_bytes():
    """Below 10 kB for 8 x 8 (with long words), below 20 kB for the running example."""
    words = ["understand"] * 8
    scores = np.random.default_rng(0).normal(size=(8, 8)) * 10
    assert len(attention_explorer(scores, words, words).html.encode()) < 10_000
    assert len(EXPLORERS["running"]().html.encode()) < 20_000
    assert len(EXPLORERS["alignment"]().html.encode()) < 20_000
    assert len(alignment_explorer(softmax(scores), words, words, LINKS[:3]).html.encode()) < 10_000
    assert len(mask_explorer(8, 8, 5).html.encode()) < 10_000
    several = softmax(np.random.default_rng(0).normal(size=(2, 4, 13, 12)))
    assert len(layers_explorer(several, ENGLISH, FRENCH, LINKS).html.encode()) < 20_000
    assert len(scaling_explorer(Q, np.tile(K, (2, 1))[:8], words).html.encode()) < 10_000
    eight = {name: RNG.integers(-2, 3, size=(2, 8, 6)) for name in ("none", "hand-made", "exchanged")}
    assert len(projection(words, eight).html.encode()) < 10_000
    many = translations([corpus.RUNNING_EXAMPLE] * 40, {name: [ENGLISH + FRENCH] * 40 for name in ("one", "two")})
    assert len(many.html.encode()) < 20_000
    four = softmax(RNG.normal(size=(4, 12, 12)))
    answers = {name: [list("abcdefghijkl")] * 16 for name in ("previous", "mirrored")}
    page = heads_explorer(FRENCH, four, answers, dict.fromkeys(answers, FRENCH))
    assert len(page.html.encode()) < 15_000
    ten = np.round(np.linspace(140.1, 204.9, 10), 1)
    widths, names = [0.5, 1, 2, 3, 5, 8, 12, 20, 40], ("height (cm)", "mass (kg)")
    assert len(cache_explorer().html.encode()) < 10_000
    page = kernel_explorer(ten, ten / 3, QUERIES, widths, query=178, width=5, labels=(words * 2)[:10], names=names)
    assert len(page.html.encode()) < 10_000


def test_jupyter_shows_the_html_and_a_short_name():
    explorer = EXPLORERS["running"]()
    assert explorer._repr_html_() == explorer.html
    assert repr(explorer) == "<attention explorer: 13 queries x 12 keys>"
    assert repr(EXPLORERS["scaling"]()) == "<scaling explorer: 5 keys, d_k up to 512>"
    assert repr(EXPLORERS["alignment"]()) == "<alignment explorer: 13 words written, 12 read>"
    assert repr(EXPLORERS["kernel"]()) == "<kernel explorer: 5 keys, 66 queries>"
    assert repr(EXPLORERS["mask"]()) == "<mask explorer: 4 queries x 5 keys>"
    assert repr(projection()) == "<projection explorer: 4 words, 2 projections>"
    assert repr(EXPLORERS["layers"]()) == "<layers explorer: 2 layers of 3 heads, 5 queries x 4 keys>"
    assert repr(translations()) == "<translation explorer: 2 sentences, 2 models>"
    assert repr(cache_explorer()) == "<cache explorer: 32 query heads>"
    assert repr(heads()) == "<heads explorer: 3 heads, 5 tokens>"


def test_every_word_is_used_and_comes_from_the_table(monkeypatch):
    """A translator changes LABELS and nothing else."""
    translated = {
        kind: {key: f"<{key}>" + "".join(re.findall(r"\{\d\}", text)) for key, text in words.items()}
        for kind, words in explorers.LABELS.items()
    }
    monkeypatch.setattr(explorers, "LABELS", translated)
    pages = {"attention": attention_explorer(BLOCKED), "scaling": scaling_explorer(Q, K), "kernel": kernel()}
    pages |= {"alignment": EXPLORERS["alignment"](), "translations": translations(), "projection": projection()}
    pages |= {"mask": EXPLORERS["mask"](), "cache": cache_explorer(), "costs": cost()}
    pages["heads"] = heads()
    pages |= {"layers": EXPLORERS["layers"]()}
    assert set(pages) == set(translated)
    for kind, page in pages.items():
        text = html.unescape(page.html).replace(r"\u003c", "<")
        for key in translated[kind]:
            assert f"<{key}>" in text


def test_no_torch_and_no_matplotlib_are_imported():
    code = (
        "import sys; from attnlib.explorers import attention_explorer; attention_explorer([[1, 0]]);"
        "assert not {'torch', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_cost_table_starts_with_the_counts():
    """4096 tokens, 64 features, a kernel of 3, by hand."""
    page = Reader(cost().html)
    assert page.of("th")[5:] == ["attention, naive", "attention, fused", "recurrent", "convolution"]
    layer = 4 * 4096 * 64**2 + 2 * 4096**2 * 64
    assert layer == 2_214_592_512
    assert [text for text in page.of("td") if text] == [
        *("2.21 G", "1", "1", "133 MiB"),  # 4 (5 n d + 2 n^2) bytes
        *("2.21 G", "1", "1", "5.02 MiB"),  # 4 (5 n d + n)
        *("101 M", "4.10 k", "4.10 k", "1.00 MiB"),
        *("50.3 M", "1", "2.05 k", "1.00 MiB"),
    ]
    assert page.of("dd") == ["97.0 %", "8"]  # 4096 / (4096 + 128); 3^8 = 6561


def test_the_bars_of_costs_are_logarithmic():
    widths = [float(width) for width in re.findall(r"width:([\d.]+)%", cost(length=128, width=8).html)]
    assert len(widths) == 16
    most = np.log([2_214_592_512, 4096, 4095, 4 * (5 * 4096 * 64 + 2 * 4096**2)])
    here = np.log([4 * 128 * 64 + 2 * 128**2 * 8, 1, 1, 4 * (5 * 128 * 8 + 2 * 128**2)])
    assert widths[:4] == pytest.approx(100 * here / most, abs=0.01)
    assert widths[9] == pytest.approx(100 * np.log(128) / np.log(4096), abs=0.01)


@pytest.mark.parametrize(
    ("x", "base", "want"),
    [
        (0, 1000, "0"), (1, 1000, "1"), (999, 1000, "999"), (1000, 1000, "1.00 k"), (1125, 1000, "1.13 k"),
        (99_949, 1000, "99.9 k"), (123_456, 1000, "123 k"), (10**12, 1000, "1.00 T"), (1023, 1024, "1023 B"),
        (1024, 1024, "1.00 KiB"), (2**30 + 2**27, 1024, "1.13 GiB"),
    ],
)  # fmt: skip
def test_counts_have_three_digits_and_halves_are_rounded_up(x, base, want):
    assert explorers._short(x, base, explorers._COUNTS if base == 1000 else explorers._BYTES) == want


# --- bad input ---

BAD = {
    "3-D": (lambda: attention_explorer(np.ones((2, 4, 5))), r"scores .*\(T_q, T_k\).*got \(2, 4, 5\): pick one"),
    "empty": (lambda: attention_explorer(np.ones((2, 0))), r"scores .*none of them 0, got \(2, 0\)"),
    "masked": (lambda: attention_explorer(np.ma.masked_all((2, 2))), "scores must be a plain array, got a masked one"),
    "huge": (lambda: attention_explorer([[1e308, 1.0]]), r"scores must hold numbers up to 1e100, got 1e\+308"),
    "no labels": (lambda: attention_explorer([[1.0]], queries=5), "queries must hold 1 labels, got 5"),
    "NaN": (lambda: attention_explorer([[1, np.nan]]), "scores must not hold NaN, got 1 among 2"),
    "+inf": (lambda: attention_explorer([[1, np.inf]]), r"scores must be finite, or -inf .*got \+inf"),
    "queries": (lambda: attention_explorer(SCORES, FRENCH), "queries must hold 4 labels, got 12"),
    "keys": (lambda: attention_explorer(torch.tensor(SCORES), None, FRENCH[:4]), "keys must hold 5 labels, got 4"),
    "words": (lambda: attention_explorer([["a"]]), "scores must hold real numbers, got dtype <U1"),
    "q 2-D": (lambda: scaling_explorer(K, K), r"q must have shape \(d,\).*got \(5, 512\)"),
    "k 1-D": (lambda: scaling_explorer(Q, Q), r"k must have shape \(n, d\).*got \(512,\)"),
    "sizes": (lambda: scaling_explorer(Q[:8], K), r"k must have shape \(n, 8\) like q, got \(5, 512\)"),
    "inf": (lambda: scaling_explorer(Q, K / 0.0), "k must be finite"),
    "inf q": (lambda: scaling_explorer(Q / 0.0, K), "q must be finite"),
    "labels": (lambda: scaling_explorer(Q, K, FRENCH), "labels must hold 5 labels, got 12"),
    "keys 2-D": (
        lambda: kernel_explorer(K, Q, QUERIES, WIDTHS, query=178, width=5),
        r"keys must have shape \(n,\).*got \(5, 512\)",
    ),
    "values": (
        lambda: kernel_explorer(HEIGHTS, Q, QUERIES, WIDTHS, query=178, width=5),
        "values must hold one number a key, 5, got 512",
    ),
    "inf keys": (
        lambda: kernel_explorer(HEIGHTS / 0.0, MASSES, QUERIES, WIDTHS, query=178, width=5),
        "keys must be finite, got 5 infinite among 5 numbers",
    ),
    "one query": (
        lambda: kernel_explorer([1], [1], [1], WIDTHS, query=1, width=5),
        r"queries must hold at least 2 numbers in rising order, got \[1.0\]",
    ),
    "falling": (
        lambda: kernel_explorer(HEIGHTS, MASSES, QUERIES, WIDTHS[::-1], query=178, width=5),
        "widths must hold at least 1 numbers in rising order",
    ),
    "width 0": (
        lambda: kernel_explorer(HEIGHTS, MASSES, QUERIES, [0, 5], query=178, width=5),
        "widths must be positive, got 0",
    ),
    "outside": (
        lambda: kernel_explorer(HEIGHTS, MASSES, [160, 178], WIDTHS, query=178, width=5),
        "queries must reach over all keys, 152.5 to 190, got 160 to 178",
    ),
    "query": (lambda: kernel(query=178.5), "query must be one of queries, 140 to 205, got 178.5"),
    "width": (lambda: kernel(width=6), "width must be one of widths, 0.5 to 30, got 6"),
    "names": (lambda: kernel(names=("a",)), "names must hold two headings, of keys and of values, got 1"),
    "scores": (lambda: alignment_explorer([[2.0]], ["a"], ["b"]), "weights must lie from 0 to 1, got 2 to 2: apply"),
    "weights 3-D": (lambda: alignment_explorer(np.ones((2, 2, 2)), "ab", "ab"), r"weights must have shape \(T_q"),
    "target": (lambda: alignment_explorer(WEIGHTS, FRENCH, FRENCH), "target_words must hold 13 labels, got 12"),
    "source": (lambda: alignment_explorer(WEIGHTS, ENGLISH, ENGLISH), "source_words must hold 12 labels, got 13"),
    "link": (lambda: alignment_explorer(WEIGHTS, ENGLISH, FRENCH, [(0, 12)]), r"links must lie inside the 13 x 12"),
    "no link": (lambda: alignment_explorer(WEIGHTS, ENGLISH, FRENCH, [3]), r"links must hold \(query, key\).*got 3"),
    "one pair": (lambda: translations(PAIRS[:1]), "pairs must hold at least 2 pairs .*, got 1"),
    "no target": (lambda: translations([*PAIRS, corpus.Pair(("le",))]), "pairs must hold .* a source and a target"),
    "no models": (lambda: translations(said={}), "translations must be a dict of at least one model, got {}"),
    "strings": (lambda: translations(said={"a": ["the cat"] * 2}), r"translations\['a'\] must hold one list of words"),
    "too few": (lambda: translations(said={"a": [["the"]]}), r"translations\['a'\] must hold one list .* a pair, 2"),
    "late start": (lambda: translations(start=2), "start must be from 0 to 1, got 2"),
    "T_q": (lambda: mask_explorer(9, 5, 3), "T_q must be a whole number from 1 to 8, got 9"),
    "T_k": (lambda: mask_explorer(4, 0, 0), "T_k must be a whole number from 1 to 8, got 0"),
    "length": (lambda: mask_explorer(4, 5, 6), "length must be a whole number from 0 to 5, got 6"),
    "half": (lambda: mask_explorer(4, 5, 2.5), "length must be a whole number from 0 to 5, got 2.5"),
    "largest": (lambda: mask_explorer(4, 5, 3, largest=17), "largest must be a whole number from 2 to 16, got 17"),
    "no projections": (lambda: projection(projections={}), r"projections must be a dict of at least one .*got {}"),
    "one view": (lambda: projection(projections={"a": [Q]}), r"projections\['a'\] must hold two arrays, .* got 1"),
    "views 1-D": (lambda: projection(projections={"a": (Q, Q)}), r"projections\['a'\] must have shape \(T, d_k\)"),
    "two sizes": (
        lambda: projection(projections={"a": (np.eye(4), np.eye(4, 5))}),
        r"projections\['a'\] must hold q and k of one shape, got \(4, 4\) and \(4, 5\)",
    ),
    "two lengths": (
        lambda: projection(projections=VIEWS | {"b": (np.eye(5), np.eye(5))}),
        r"projections\['b'\] must have one row a word, 4, got 5",
    ),
    "five words": (lambda: projection(FRENCH[:5]), "words must hold 4 labels, got 5"),
    "asks": (lambda: projection(asks=4), "asks must be from 0 to 3, got 4"),
    "chosen": (lambda: projection(chosen="all"), "chosen must be one of the projections, none, hand-made, got 'all'"),
    "layers": (lambda: cache_explorer(layers=3), r"layers must be one of \[1, 2, 4, .*\], got 3"),
    "groups": (lambda: cache_explorer(heads=8, groups=16), "groups must be at most heads = 8, got 16"),
    "one card": (lambda: cache_explorer(cards=[24]), r"cards must hold at least 2 numbers .*, got \[24.0\]"),
    "three cards": (lambda: cache_explorer(cards=[8, 24, 80]), r"cards must hold two positive numbers, got \[8.0"),
    "no memory": (lambda: cache_explorer(cards=[0, 80]), r"cards must hold two positive numbers, got \[0.0, 80.0\]"),
    "whole": (lambda: cost(lengths=(16.5, 32), length=32), r"lengths must hold whole numbers .* got \[16.5, 32.0\]"),
    "one token": (lambda: cost(lengths=(1, 16), length=16), "lengths must hold whole numbers from 2 to 1048576, got"),
    "many tokens": (lambda: cost(lengths=(2, 2**21), length=2), "lengths must hold whole numbers from 2 to 1048576"),
    "no kernel": (lambda: cost(kernel=5), "kernel must be one of kernels, 2 to 7, got 5"),
    "one head": (lambda: heads(weights=LOOKS[0]), r"weights must have shape \(h, T, T\).*got \(5, 5\)"),
    "not square": (lambda: heads(weights=LOOKS[:, :4]), r"weights must have shape \(h, T, T\).*got \(3, 4, 5\)"),
    "raw scores": (lambda: heads(weights=LOOKS * 9), "weights must lie from 0 to 1"),
    "tokens": (lambda: heads(tokens=FRENCH), "tokens must hold 5 labels, got 12"),
    "sets": (
        lambda: heads({n: [LETTERS] * 7 for n in RIGHT}),
        r"answers\['previous'\] .* each set of 3 heads, 8, got 7",
    ),
    "relations": (lambda: heads({"next": [LETTERS] * 8}), "answers and right must be dicts with the same names"),
    "answers": (lambda: heads({n: [LETTERS[:4]] * 8 for n in RIGHT}), "a row of answers must hold 5 labels, got 4"),
    "right": (lambda: heads(right=dict.fromkeys(RIGHT, LETTERS[:2])), "a row of right must hold 5 labels, got 2"),
    "first asker": (lambda: heads(start=5), "start must be from 0 to 4, got 5"),
    "one layer": (lambda: layers_explorer(LAYERS[0], ENGLISH[:5], FRENCH[:4]), r"weights .*\(layers, h, T_q, T_k\)"),
    "layer": (lambda: layers_explorer(LAYERS, ENGLISH[:5], FRENCH[:4], layer=2), "layer .* from 0 to 1, got 2"),
    "head": (lambda: layers_explorer(LAYERS, ENGLISH[:5], FRENCH[:4], head=-1), "head .* from 0 to 2, got -1"),
    "flag": (lambda: layers_explorer(LAYERS, ENGLISH[:5], FRENCH[:4], head=True), "head .* from 0 to 2, got True"),
    "rows": (lambda: layers_explorer(LAYERS, FRENCH, FRENCH[:4]), "queries must hold 5 labels, got 12"),
    "columns": (lambda: layers_explorer(LAYERS, ENGLISH[:5], FRENCH), "keys must hold 4 labels, got 12"),
    "outside link": (lambda: layers_explorer(LAYERS, ENGLISH[:5], FRENCH[:4], [(0, 4)]), "links must lie inside the 5"),
    "pupils": (lambda: kernel(labels=FRENCH), "labels must hold 5 labels, got 12"),
}


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("case", BAD)
def test_bad_input_names_the_argument(case):
    call, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        call()


def test_a_very_long_token_is_cut_short():
    html = attention_explorer([[1.0, 2.0]], ["q"], ["a", "b" * 20_000]).html
    assert "b" * 37 + "..." in html
    assert "b" * 38 not in html
