"""The interactive figures in a real browser: every number read back equals NumPy's, by mouse, keyboard and touch."""

import re
from decimal import ROUND_HALF_UP, Decimal
from html import escape

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from browser import launched
from playwright.sync_api import expect

from attnlib import costs
from attnlib.corpus import RUNNING_EXAMPLE, parse
from attnlib.costs import kv_cache_bytes
from attnlib.explorers import (
    CACHE,
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
SCORES = np.round(RNG.normal(size=(4, 5)) * 2, 4)
BLOCKED = np.where(np.tri(4, 5, 0, dtype=bool), SCORES, -np.inf)
BLOCKED[2] = -np.inf
BIG = RNG.normal(size=(13, 12)) * 2
Q, K = RNG.normal(size=512), RNG.normal(size=(6, 512))
SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
TEMPERATURES = [2 ** (i / 2 - 2) for i in range(14)]

ATTENTION = attention_explorer(SCORES, ENGLISH[:4], FRENCH[:5])
MASKED = attention_explorer(BLOCKED, ENGLISH[:4], FRENCH[:5])
RUNNING = attention_explorer(BIG, ENGLISH, FRENCH)
SCALING = scaling_explorer(Q, K, FRENCH[:6])
HEIGHTS, MASSES = np.round(150 + 40 * RNG.random(8), 1), np.round(40 + 40 * RNG.random(8), 1)
QUERIES, WIDTHS = np.arange(140, 206), [0.5, 2, 5, 30]
KERNEL = kernel_explorer(HEIGHTS, MASSES, QUERIES, WIDTHS, query=178, width=5, names=("height (cm)", "mass (kg)"))
WEIGHTS = np.round(np.exp(BIG) / np.exp(BIG).sum(axis=1, keepdims=True), 4)
LINKS = [(0, 0), (1, 2), (2, 1), (11, 11), (12, 10), (12, 11)]
ALIGNMENT = alignment_explorer(WEIGHTS, ENGLISH, FRENCH, LINKS)
PAIRS = [RUNNING_EXAMPLE, parse("le chat dort"), parse("le chat noir dort")]
SAID = {
    "fixed": ["the black dog is lying on the red".split(), ["the", "cat", "sleeps"], ["the", "black", "black"]],
    "attention": [list(pair.target) for pair in PAIRS],
}
TRANSLATIONS = translation_explorer(PAIRS, SAID, start=2)
LETTERS = list("kdbrwmxacqjf")
LOOKS = np.exp(RNG.normal(size=(3, 12, 12)) * 3)
LOOKS /= LOOKS.sum(axis=-1, keepdims=True)
RIGHT = {"previous": [LETTERS[i - 1] for i in range(12)], "mirrored": LETTERS[::-1]}
ANSWERS = {name: [[a if RNG.random() < 0.5 else "z" for a in RIGHT[name]] for _ in range(8)] for name in RIGHT}
HEADS = heads_explorer(LETTERS, LOOKS, ANSWERS, RIGHT, start=3)
MASK = mask_explorer(4, 5, 3)
VIEWS = {
    "none": np.round(RNG.normal(size=(2, 4, 6)), 4),
    "hand-made": RNG.integers(-2, 3, size=(2, 4, 3)).astype(float),
}
PROJECTION = projection_explorer(ENGLISH[:4], VIEWS, asks=2, chosen="hand-made")
MEMORY = cache_explorer()
LENGTHS, SIZES_D, KERNELS = [2**i for i in range(4, 18)], [2**i for i in range(4, 14)], [2, 3, 5, 9, 31]
COSTS = cost_explorer(LENGTHS, SIZES_D, KERNELS, length=4096, width=64, kernel=3)
LAYER_LOOKS = RNG.random((2, 3, 13, 12)) ** 6
for i in range(6):  # so that head i finds other links than the heads before it
    for t, source in LINKS[:i]:
        LAYER_LOOKS[i // 3, i % 3, t, source] += 2
LAYER_LOOKS = LAYER_LOOKS / LAYER_LOOKS.sum(axis=-1, keepdims=True)
LAYERS = layers_explorer(LAYER_LOOKS, ENGLISH, FRENCH, LINKS, layer=1, head=2)
EACH_KIND = {
    "attention": ATTENTION,
    "scaling": SCALING,
    "kernel": KERNEL,
    "alignment": ALIGNMENT,
    "translations": TRANSLATIONS,
    "projection": PROJECTION,
    "mask": MASK,
    "cache": MEMORY,
    "costs": COSTS,
    "heads": HEADS,
    "layers": LAYERS,
}
EVERY = EACH_KIND | {"masked": MASKED, "running": RUNNING}
ONE = scaling_explorer(Q, K[:1])
LIGHT, DARK = "color:#323232;background:#fff", "color:#ced6dd;background:#121212"


@pytest.fixture(scope="module")
def chromium():
    with launched() as browser:
        yield browser


@pytest.fixture
def show(chromium):
    """show(explorers, ...) opens a page that holds them; any complaint of the browser fails the test."""
    contexts, complaints = [], []

    def show(*explorers, width=800, colors=LIGHT, styles="", frame=False, **settings):
        context = chromium.new_context(viewport={"width": width, "height": 900}, **settings)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        head = (
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Explorers</title>'
            f'<meta name="viewport" content="width=device-width"><style>{styles}</style></head>'
            f'<body style="{colors}"><main class="host"><h1>Explorers</h1>'
        )
        content = head + "".join(explorer.html for explorer in explorers) + "</main></body></html>"
        if frame:  # as Colab shows an output: scripts may run, the page around is out of reach
            frame = '<iframe title="output" sandbox="allow-scripts" width="780" height="800" srcdoc="{}"></iframe>'
            content = head + frame.format(escape(content))
        page.set_content(content)
        return page.frame_locator("iframe").locator("body") if frame else page

    yield show
    for context in contexts:
        context.close()
    assert complaints == []


def softmax(scores):
    with np.errstate(invalid="ignore"):
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.nan_to_num(e / e.sum(axis=-1, keepdims=True))


def entropy(weights):
    return (-weights * np.log(np.where(weights > 0, weights, 1))).sum() + 0.0  # no -0


def text_of(numbers, digits=4):
    return [f"{number:.{digits}f}" for number in np.ravel(numbers)]


def cells(root):
    return root.locator("tbody td").all_inner_texts()


def numbers(text):
    return [float(number) for number in re.findall(r"-?\d+\.\d+", text)]


def check_status(root, query, keys, weights, open_keys):
    """The status names the query, its three best keys in order, and the entropy."""
    best = [f"{keys[j]} {weights[j]:.4f}" for j in np.argsort(-weights, kind="stable")[: min(3, open_keys)]]
    sentences = [
        f"{query} looks at: {', '.join(best)}",
        f"entropy {entropy(weights):.4f} of at most {np.log(open_keys):.4f} nats",
    ]
    expect(root.get_by_role("status").locator("span")).to_have_text(sentences)


def near(texts, want):
    """Numbers with 4 decimals equal to `want` (1e-4 apart only where a rounding edge lies between)."""
    assert all(re.fullmatch(r"-?\d+\.\d{4}", text) for text in texts)
    assert [float(text) for text in texts] == pytest.approx(np.ravel(want), abs=1.01e-4)
    assert np.mean(np.array(texts) != text_of(want)) < 0.1


# --- attention ---


@pytest.mark.parametrize("frame", [False, True], ids=["page", "sandboxed-frame"])
def test_mouse_and_slider(show, frame):
    page = show(ATTENTION, frame=frame)
    slider = page.get_by_role("slider", name="temperature")
    for step in (4, 0, 3, 9, 13):
        slider.fill(str(step))
        temperature = TEMPERATURES[step]
        shown = f"{round(temperature, 2):g}"
        assert slider.get_attribute("aria-valuetext") == shown
        assert page.locator(".controls span").inner_text() == shown
        weights = softmax(SCORES / temperature)
        near(cells(page), weights)
        for i in (2, 0, 3):
            page.locator("tbody tr").nth(i).hover()
            check_status(page, ENGLISH[i], FRENCH, weights[i], 5)
            pressed = [b.get_attribute("aria-pressed") for b in page.get_by_role("button").all()]
            assert pressed == ["true" if i == j else "false" for j in range(4)]


def test_keyboard(show):
    page = show(ATTENTION)
    weights = softmax(SCORES)
    page.keyboard.press("Tab")
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    assert page.locator(":focus").get_attribute("aria-valuetext") == "0.35"
    near(cells(page), softmax(SCORES / 8**-0.5))
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Tab")  # the table itself, so that it can be scrolled
    assert page.locator(":focus").get_attribute("role") == "group"
    for i in range(4):
        page.keyboard.press("Tab")
        assert page.locator(":focus").inner_text() == ENGLISH[i]
        check_status(page, ENGLISH[i], FRENCH, weights[i], 5)
    page.keyboard.press("Shift+Tab")
    check_status(page, ENGLISH[2], FRENCH, weights[2], 5)


def test_touch(show):
    page = show(ATTENTION, width=390, has_touch=True, is_mobile=True)
    page.locator("tbody td").nth(5 * 3 + 1).tap()
    check_status(page, ENGLISH[3], FRENCH, softmax(SCORES)[3], 5)


def test_blocked_keys_stay_blocked(show):
    page = show(MASKED)
    for step in (13, 2, 4):
        page.get_by_role("slider").fill(str(step))
        weights = softmax(BLOCKED / TEMPERATURES[step])
        texts = np.array(cells(page))
        assert np.array_equal(texts == "-", np.isinf(BLOCKED).ravel())
        near(texts[texts != "-"].tolist(), weights[np.isfinite(BLOCKED)])
    page.get_by_role("slider").fill("4")
    page.locator("tbody tr").nth(1).hover()
    check_status(page, ENGLISH[1], FRENCH, softmax(BLOCKED)[1], 2)
    page.locator("tbody tr").nth(2).hover()
    assert page.get_by_role("status").inner_text() == "cat may look at nothing"


def test_without_a_slider(show):
    page = show(attention_explorer(SCORES, temperature=False))
    assert page.get_by_role("slider").count() == 0
    page.locator("tbody tr").nth(1).hover()
    check_status(page, "1", list("01234"), softmax(SCORES)[1], 5)


def test_tokens_stay_text(show):
    evil = ["<script>alert(1)</script>", "{0}", '"><img src=x onerror=alert(1)>', "</table>", "&lt;"]
    page = show(alignment_explorer(np.eye(5), evil, evil, [(1, 1)]))
    page.locator("tbody tr").nth(4).hover()
    assert page.locator(".words div").all_inner_texts() == [" ".join(evil)] * 2
    page.locator("tbody tr").nth(1).hover()
    assert page.get_by_role("status").locator("span").nth(1).inner_text() == "gold: {0}"
    page = show(attention_explorer(SCORES, evil[:4], evil), scaling_explorer(Q, K[:5], evil))
    assert page.locator("thead th").all_inner_texts()[:5] == evil
    for i in range(4):
        page.locator("tbody tr").nth(i).hover()
        check_status(page, evil[i], evil, softmax(SCORES)[i], 5)
    assert page.locator("table").nth(1).locator("tbody th").all_inner_texts() == evil
    assert page.locator("img").count() == 0


# --- alignment ---


def check_alignment(root, i, gold=True):
    """The words up to this one, the source in the colors of its row, its three best words and its gold links."""
    best = ", ".join(f"{FRENCH[j]} {WEIGHTS[i, j]:.4f}" for j in np.argsort(-WEIGHTS[i], kind="stable")[:3])
    linked = ", ".join(FRENCH[s] for t, s in LINKS if t == i) or "-"
    said = [f"{ENGLISH[i]} looks at: {best}", f"gold: {linked}"]
    expect(root.get_by_role("status").locator("span")).to_have_text(said if gold else said[:1])
    read, written = root.locator(".words > div").all()
    assert read.inner_text().split() == FRENCH
    assert written.inner_text().split() == ENGLISH[: i + 1]
    assert written.locator("u").all_inner_texts() == [ENGLISH[i]]
    colors = [rgba(style) for style in read.locator("span").evaluate_all(STYLES)]
    assert colors == [(42, 120, 214, round(round(w * 144) / 255, 2)) for w in WEIGHTS[i]]
    assert colors == [rgba(style) for style in root.locator("tbody tr").nth(i).locator("td").evaluate_all(STYLES)]
    outlined = read.locator("span").evaluate_all("nodes => nodes.map(node => node.style.outline !== '')")
    assert np.flatnonzero(outlined).tolist() == [s for t, s in LINKS if t == i and gold]
    pressed = root.locator("tbody button").evaluate_all("nodes => nodes.map(n => n.getAttribute('aria-pressed'))")
    assert pressed == ["true" if i == row else "false" for row in range(13)]


@pytest.mark.parametrize("frame", [False, True], ids=["page", "sandboxed-frame"])
def test_look_at_a_word_and_step_on(show, frame):
    page = show(ALIGNMENT, frame=frame)
    check_alignment(page, 0)
    page.locator("tbody tr").nth(2).hover()
    check_alignment(page, 2)
    page.get_by_role("button", name="next word").click()
    check_alignment(page, 3)
    for i in (2, 1, 0, 12):  # back from the first word is the last
        page.get_by_role("button", name="back").click()
        check_alignment(page, i)
    page.get_by_role("button", name="next word").click()
    check_alignment(page, 0)


def test_alignment_by_keyboard_and_without_gold_links(show):
    page = show(alignment_explorer(WEIGHTS, ENGLISH, FRENCH))
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    check_alignment(page, 1, gold=False)
    for _ in range(5):
        page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == ENGLISH[3]
    check_alignment(page, 3, gold=False)


# --- scaling ---


def check_scaling(root, size, divided, temperature):
    raw = np.round(K[:, :size] @ Q[:size], 4)
    scores = raw / np.sqrt(size) if divided else raw
    weights = softmax(scores / temperature)
    near([text for text in cells(root) if text], np.stack([raw, scores, weights], axis=1))
    widths = root.locator("tbody i").evaluate_all("bars => bars.map(b => b.offsetWidth / b.parentNode.clientWidth)")
    inside = root.locator("tbody i").first.evaluate(
        "b => { const s = getComputedStyle(b.parentNode);"
        "return 1 - (parseFloat(s.paddingLeft) + parseFloat(s.paddingRight)) / b.parentNode.clientWidth; }"
    )
    assert widths == pytest.approx(weights * inside, abs=0.01)
    facts = [numbers(text) for text in root.locator("dd").all_inner_texts()]
    want = [[entropy(weights), np.log(6)], [weights.max()], [(weights * (1 - weights)).sum(), 1 - 1 / 6]]
    for got, fact in zip(facts, want, strict=True):
        assert got == pytest.approx(fact, abs=1.01e-4)


@pytest.mark.parametrize("frame", [False, True], ids=["page", "sandboxed-frame"])
def test_size_division_and_temperature(show, frame):
    page = show(SCALING, frame=frame)
    sizes = page.get_by_role("slider", name="d_k")
    temperatures = page.get_by_role("slider", name="temperature")
    check_scaling(page, 64, True, 1)
    for i, size in enumerate(SIZES):
        sizes.fill(str(i))
        assert sizes.get_attribute("aria-valuetext") == str(size)
        page.get_by_role("checkbox").set_checked(size % 3 == 1)
        assert page.get_by_role("checkbox", name=f"divide by √d_k = {round(size**0.5, 2):g}").count() == 1
        step = (5 * i) % 14
        temperatures.fill(str(step))
        check_scaling(page, size, size % 3 == 1, TEMPERATURES[step])


def test_scaling_by_keyboard(show):
    page = show(SCALING)
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    check_scaling(page, 512, True, 1)
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    check_scaling(page, 512, False, 1)
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    check_scaling(page, 512, False, 512**0.5)


# --- kernel ---


def check_kernel(root, query, width):
    """The table, the facts, the dots and the curve, all as NumPy has them."""
    weights = softmax(-((QUERIES[:, None] - HEIGHTS) ** 2) / (2 * width**2))
    estimates, i = weights @ MASSES, query - 140
    near([row[2] for row in np.reshape([text for text in cells(root) if text], (8, 3))], weights[i])
    whole = np.exp(-((query - HEIGHTS) ** 2) / (2 * width**2)).sum()
    near(root.locator("dd").all_inner_texts(), [estimates[i], MASSES[np.argmin(np.abs(query - HEIGHTS))], whole])
    filled = root.locator("tbody i").evaluate_all("bars => bars.map(b => parseFloat(b.style.width))")
    assert filled == pytest.approx(100 * weights[i], abs=0.01)
    y = 120 - 100 * (estimates - MASSES.min()) / np.ptp(MASSES)
    dots, paths = ([n[a] for n in root.locator(tag).evaluate_all(DRAWN)] for tag, a in (("circle", "r"), ("path", "d")))
    assert [float(r) for r in dots] == pytest.approx(3 + 11 * weights[i] ** 0.5, abs=0.051)
    points = np.array([point.split(" ") for point in paths[0][1:].split("L")], float)
    assert points[:, 1] == pytest.approx(y, abs=0.051)
    assert np.array(re.findall(r"[\d.]+", paths[1]), float) == pytest.approx([points[i, 0], 130, y[i], 50], abs=0.051)


DRAWN = "nodes => nodes.map(node => ({r: node.getAttribute('r'), d: node.getAttribute('d')}))"


@pytest.mark.parametrize("frame", [False, True], ids=["page", "sandboxed-frame"])
def test_query_and_width(show, frame):
    page = show(KERNEL, frame=frame)
    check_kernel(page, 178, 5)
    for i, query in enumerate((140, 165, 178, 205)):
        page.get_by_role("slider", name="query").fill(str(query - 140))
        page.get_by_role("slider", name="width").fill(str(i))
        assert page.locator(".controls span").all_inner_texts() == [str(query), f"{WIDTHS[i]:g}"]
        check_kernel(page, query, WIDTHS[i])


def test_kernel_by_keyboard(show):
    page = show(KERNEL)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    check_kernel(page, 179, 5)
    page.keyboard.press("End")
    check_kernel(page, 205, 5)
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    assert page.locator(":focus").get_attribute("aria-valuetext") == "0.5"
    check_kernel(page, 205, 0.5)


# --- translations ---


def check_translations(root, i, wrong, right):
    """The table holds sentence i of PAIRS, and the words of the fixed model that are wrong are underlined."""
    said = [PAIRS[i].source, PAIRS[i].target, SAID["fixed"][i], SAID["attention"][i]]
    assert cells(root) == [" ".join(words) for words in said]
    assert root.locator("mark").all_inner_texts() == wrong
    words = len(PAIRS[i].target)
    assert root.locator("dd").all_inner_texts() == [f"{n} of {words} words right" for n in (right, words)]


@pytest.mark.parametrize("frame", [False, True], ids=["page", "sandboxed-frame"])
def test_the_slider_chooses_a_sentence_by_its_length(show, frame):
    page = show(TRANSLATIONS, frame=frame)
    slider = page.get_by_role("slider", name="French words")
    assert slider.get_attribute("aria-valuetext") == "12"
    check_translations(page, 0, ["dog", "lying"], 6)
    slider.fill("0")
    assert slider.get_attribute("aria-valuetext") == "3"
    check_translations(page, 1, [], 3)
    slider.press("ArrowRight")
    check_translations(page, 2, ["black"], 2)
    lines = page.locator("mark").evaluate("mark => getComputedStyle(mark).textDecorationLine")
    assert lines == "underline"


# --- mask ---


def check_mask(root, T_q, T_k, length, causal=True, end=True, left=False):
    """Every cell says whether its query may see its key, and if not, why."""
    why = []
    for i in range(T_q):
        for j in range(T_k):
            pad = j < T_k - length if left else j >= length
            later = causal and j > i + (T_k - T_q if end else 0)
            why.append("both" if pad and later else "pad" if pad else "later" if later else "1")
    dead = [f"q{i}" for i in range(T_q) if "1" not in why[i * T_k : (i + 1) * T_k]]
    facts = [f"{why.count('1')} of {T_q * T_k}", ", ".join(dead) or "none"]
    expect(root.locator("dd")).to_have_text(facts)
    assert cells(root) == why
    assert root.locator("th").all_inner_texts() == [f"k{j}" for j in range(T_k)] + [f"q{i}" for i in range(T_q)]
    colored = [style is not None for style in root.locator("tbody td").evaluate_all(STYLES)]
    assert colored == [text == "1" for text in why]


@pytest.mark.parametrize("frame", [False, True], ids=["page", "sandboxed-frame"])
def test_sizes_and_switches_of_the_mask(show, frame):
    root = show(MASK, frame=frame)
    check_mask(root, 4, 5, 3)
    queries, keys, length = (root.get_by_role("slider", name=name) for name in ("T_q", "T_k", "real keys"))
    causal, end, left = (root.get_by_role("checkbox", name=name) for name in ("causal", "end", "left"))
    queries.fill("1")  # the second choice: 2
    check_mask(root, 2, 5, 3)
    end.uncheck()
    check_mask(root, 2, 5, 3, end=False)
    keys.fill("6")
    length.fill("6")
    check_mask(root, 2, 7, 6, end=False)
    left.check()
    check_mask(root, 2, 7, 6, end=False, left=True)
    keys.fill("1")  # fewer keys than real ones: all are real
    check_mask(root, 2, 2, 2, end=False, left=True)
    queries.fill("7")
    end.check()
    check_mask(root, 8, 2, 2, left=True)
    causal.uncheck()
    check_mask(root, 8, 2, 2, causal=False, left=True)
    length.fill("0")
    check_mask(root, 8, 2, 0, causal=False, left=True)


def test_the_mask_by_keyboard(show):
    page = show(MASK)
    for key, size in (("ArrowRight", 5), ("Home", 1), ("End", 8)):
        page.get_by_role("slider", name="T_q").press(key)
        check_mask(page, size, 5, 3)
    page.get_by_role("checkbox", name="causal").press("Space")
    check_mask(page, 8, 5, 3, causal=False)


# --- projection ---


def check_projection(root, name, i):
    """Keys, scores and weights of word i with these projections, and the facts about it, as NumPy has them."""
    q, k = VIEWS[name]
    weights = softmax(k @ q[i])
    rows = np.reshape([text for text in cells(root) if text], (4, 3))
    assert [[float(n) for n in text.split()] for text in rows[:, 0]] == k.tolist()
    near(rows[:, 1].tolist(), k @ q[i])
    near(rows[:, 2].tolist(), weights)
    filled = root.locator("tbody i").evaluate_all("bars => bars.map(b => parseFloat(b.style.width))")
    assert filled == pytest.approx(100 * weights, abs=0.01)
    word, query, looks = root.locator("dd").all_inner_texts()
    assert (word, [float(n) for n in query.split()]) == (ENGLISH[i], q[i].tolist())
    best = np.argsort(-weights, kind="stable")[:3]
    assert looks.split(", ") == [f"{ENGLISH[j]} {weights[j]:.4f}" for j in best]
    for buttons, pressed in ((root.locator(".controls button"), list(VIEWS).index(name)), (rows_of(root), i)):
        states = buttons.evaluate_all("nodes => nodes.map(n => n.getAttribute('aria-pressed'))")
        assert np.flatnonzero(np.array(states) == "true").tolist() == [pressed]


def rows_of(root):
    return root.locator("tbody button")


@pytest.mark.parametrize("frame", [False, True], ids=["page", "sandboxed-frame"])
def test_point_at_a_word_and_swap_the_projections(show, frame):
    page = show(PROJECTION, frame=frame)
    check_projection(page, "hand-made", 2)
    page.locator("tbody tr").nth(0).hover()
    check_projection(page, "hand-made", 0)
    page.get_by_role("button", name="none").click()
    check_projection(page, "none", 0)
    page.locator("tbody tr").nth(3).hover()
    check_projection(page, "none", 3)
    page.get_by_role("group", name="projections").get_by_role("button", name="hand-made").click()
    check_projection(page, "hand-made", 3)


def test_projection_by_keyboard_and_touch(show):
    page = show(PROJECTION)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    check_projection(page, "none", 2)
    for _ in range(3):  # the other button, the table, its first word
        page.keyboard.press("Tab")
    check_projection(page, "none", 0)
    page.keyboard.press("Tab")
    check_projection(page, "none", 1)
    page = show(PROJECTION, width=390, has_touch=True, is_mobile=True)
    page.locator("tbody td").nth(5).tap()
    check_projection(page, "hand-made", 1)


# --- cache ---


def check_cache(root, *, heads=32, groups=8, d_head=128, layers=32, length=8192, batch=1, size=2):
    """The table, the bars and the facts, all as attnlib.costs counts them."""
    gib = [kv_cache_bytes(batch, length, layers, g, d_head, size) / 2**30 for g in (heads, groups, 1)]
    shown = [str(Decimal(m).quantize(Decimal("0.001"), ROUND_HALF_UP)) for m in gib]
    kept = [text for text in cells(root) if text]
    assert kept == [text for g, m in zip((heads, groups, 1), shown, strict=True) for text in (str(g), m)]
    filled = root.locator("tbody i").evaluate_all("bars => bars.map(b => parseFloat(b.style.width))")
    assert filled == pytest.approx([100 * min(1, m / 80) for m in gib], abs=0.01)
    token = kv_cache_bytes(1, 1, layers, groups, d_head, size)
    room = [card * 2**30 // (token * batch) for card in (24, 80)]
    assert root.locator("dd").all_inner_texts() == [f"{n:,}" for n in (token, *room, heads // groups)]
    assert f"of {heads} query heads" in root.locator("caption").inner_text()


SLIDERS = {"d_head": "d_head", "layers": "layers", "length": "tokens", "batch": "batch", "size": "bytes a number"}


@pytest.mark.parametrize("frame", [False, True], ids=["page", "sandboxed-frame"])
def test_every_factor_of_the_cache(show, frame):
    page = show(MEMORY, frame=frame)
    check_cache(page)
    now = {}
    for place, (factor, name) in enumerate(SLIDERS.items()):  # each to another place than it started from
        now[factor] = CACHE[factor][place % len(CACHE[factor])]
        page.get_by_role("slider", name=name).fill(str(place % len(CACHE[factor])))
        check_cache(page, **now)


def test_there_are_never_more_key_value_heads_than_query_heads(show):
    page = show(MEMORY)
    heads, groups = (page.get_by_role("slider", name=name, exact=True) for name in ("query heads", "key-value heads"))
    groups.fill("4")
    check_cache(page, groups=16)
    heads.fill("2")  # pushes the groups down
    check_cache(page, heads=4, groups=4)
    assert groups.get_attribute("aria-valuetext") == "4"
    groups.fill("7")  # pushes the heads up
    check_cache(page, heads=128, groups=128)
    assert heads.get_attribute("aria-valuetext") == "128"
    heads.press("ArrowLeft")
    check_cache(page, heads=64, groups=64)


# --- costs ---

UNITS = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
UNITS |= {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def check_costs(root, n, d, k):
    """Every number to three digits, and every bar, is what `costs` counts."""
    layer = costs.multiply_adds("projections", n, d) + costs.multiply_adds("attention", n, d)
    want = [
        [layer, 1, 1, costs.activation_bytes("attention", n, d)],
        [layer, 1, 1, costs.activation_bytes("attention", n, d, fused=True)],
        [costs.multiply_adds("recurrent", n, d), n, costs.path_length("recurrent", n), 4 * n * d],
        [costs.multiply_adds("convolution", n, d, k), 1, costs.path_length("convolution", n, k), 4 * n * d],
    ]
    shown = [text.split() for text in cells(root)]
    shown = [float(number) * UNITS["".join(unit)] for number, *unit in shown]
    assert np.reshape(shown, (4, 4)) == pytest.approx(np.array(want), rel=0.005)
    bars = root.locator("tbody i").evaluate_all("bars => bars.map(bar => parseFloat(bar.style.width))")
    attention = 4 * 2**17 * 2**26 + 2 * 2**34 * 2**13
    most = [max(attention, 31 * 2**17 * 2**26), 2**17, 2**17 - 1, 4 * (5 * 2**30 + 2 * 2**34)]
    assert np.reshape(bars, (4, 4)) == pytest.approx(100 * np.log(want) / np.log(most), abs=0.02)
    share = float(root.locator("dd").nth(0).inner_text().removesuffix(" %"))
    assert share == pytest.approx(100 * costs.multiply_adds("attention", n, d) / layer, abs=0.0501)
    assert root.locator("dd").nth(1).inner_text() == str(costs.path_length("convolution", n, k, dilated=True))


@pytest.mark.parametrize("frame", [False, True], ids=["page", "sandboxed-frame"])
def test_length_width_and_kernel(show, frame):
    page = show(COSTS, frame=frame)
    check_costs(page, 4096, 64, 3)
    for i, (n, d, k) in enumerate([(16, 16, 2), (131072, 8192, 31), (1024, 512, 9), (64, 128, 5)]):
        page.get_by_role("slider", name="tokens n").fill(str(LENGTHS.index(n)))
        page.get_by_role("slider", name="features d").fill(str(SIZES_D.index(d)))
        page.get_by_role("slider", name="kernel k").fill(str(KERNELS.index(k)))
        assert page.locator(".controls span").all_inner_texts() == [str(n), str(d), str(k)], i
        check_costs(page, n, d, k)


def test_costs_by_keyboard(show):
    page = show(COSTS)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    check_costs(page, 8192, 64, 3)
    page.keyboard.press("Home")
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    check_costs(page, 16, 8192, 3)


# --- heads ---


def check_heads(root, asker, on):
    """Weights of the asker, heads that are off, answers of this set of heads, facts and status: as NumPy has them."""
    percents = np.round(100 * LOOKS[:, asker]).astype(int)
    m = sum(2**i for i in on)
    rows = [[str(p) for p in row] for row in percents] + [ANSWERS[name][m] for name in RIGHT]
    assert np.reshape(cells(root), (5, 12)).tolist() == rows
    shades = [rgba(style) for style in root.locator("tbody tr").locator("td[style]").evaluate_all(STYLES)]
    want = [(42, 120, 214, 1.44 * p / 255 if i // 12 in on else 0) for i, p in enumerate(percents.ravel())]
    assert np.array(shades) == pytest.approx(np.array(want), abs=0.01)
    struck = root.locator("tbody tr").evaluate_all("rows => rows.map(r => getComputedStyle(r).textDecorationLine)")
    assert struck == ["none" if i in on or i > 2 else "line-through" for i in range(5)]
    wrong = [a for name in RIGHT for a, b in zip(ANSWERS[name][m], RIGHT[name], strict=True) if a != b]
    assert root.locator("mark").all_inner_texts() == wrong
    counts = [sum(a == b for a, b in zip(ANSWERS[name][m], RIGHT[name], strict=True)) for name in RIGHT]
    assert root.locator("dd").all_inner_texts() == [f"{n} of 12 right" for n in counts]
    lines = [f"{LETTERS[asker]} asks"]
    for name in RIGHT:
        a, b = ANSWERS[name][m][asker], RIGHT[name][asker]
        lines.append(f"{name}: {a}" if a == b else f"{name}: {a} instead of {b}")
    expect(root.get_by_role("status").locator("span")).to_have_text(lines)
    assert root.locator("caption").inner_text().startswith(f"Where {LETTERS[asker]} looks")
    pressed = root.locator("thead button").evaluate_all("nodes => nodes.map(n => n.getAttribute('aria-pressed'))")
    assert pressed == ["true" if i == asker else "false" for i in range(12)]


@pytest.mark.parametrize("frame", [False, True], ids=["page", "sandboxed-frame"])
def test_point_at_a_token_and_switch_heads(show, frame):
    page = show(HEADS, frame=frame)
    check_heads(page, 3, {0, 1, 2})
    page.locator("thead th").nth(7).hover()
    check_heads(page, 7, {0, 1, 2})
    page.get_by_role("checkbox", name="head 1").uncheck()
    check_heads(page, 7, {0, 2})
    page.locator("tbody tr").nth(4).locator("td").nth(10).hover()
    check_heads(page, 10, {0, 2})
    page.get_by_role("checkbox", name="head 0").uncheck()
    page.get_by_role("checkbox", name="head 2").uncheck()
    check_heads(page, 10, set())
    page.get_by_role("checkbox", name="head 1").check()
    check_heads(page, 10, {1})


def test_heads_by_keyboard(show):
    page = show(HEADS)
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    check_heads(page, 3, {1, 2})
    for _ in range(4):
        page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == LETTERS[0]
    check_heads(page, 0, {1, 2})
    page.keyboard.press("Tab")
    check_heads(page, 1, {1, 2})


# --- layers ---


def check_layers(root, layer, head, chosen):
    """The table holds one head of one layer, the status the look of one word, the fact the words on a gold link."""
    weights = LAYER_LOOKS[layer, head]
    percent = np.round(100 * weights).astype(int)
    assert [int(text) for text in cells(root) if text] == percent.ravel().tolist()
    colors = [rgba(style) for style in root.locator("tbody td").evaluate_all(STYLES)]
    assert {color[:3] for color in colors} == {(42, 120, 214)}
    assert [alpha for *_, alpha in colors] == pytest.approx(percent.ravel() / 100 * 144 / 255, abs=0.008)
    best = np.argsort(-percent[chosen], kind="stable")[:3]
    looks = ", ".join(f"{FRENCH[j]} {percent[chosen, j]} %" for j in best)
    gold = ", ".join(FRENCH[s] for t, s in LINKS if t == chosen) or "-"
    said = [f"{ENGLISH[chosen]} looks at: {looks}", f"gold: {gold}"]
    expect(root.get_by_role("status").locator("span")).to_have_text(said)
    right = sum((t, weights[t].argmax()) in LINKS for t in {t for t, _ in LINKS})
    expect(root.locator("dd")).to_have_text(f"{right} of {len({t for t, _ in LINKS})}")
    outlined = root.locator("tbody td").evaluate_all("nodes => nodes.map(node => node.style.outline !== '')")
    assert [divmod(i, 12) for i in np.flatnonzero(outlined)] == LINKS


@pytest.mark.parametrize("frame", [False, True], ids=["page", "sandboxed-frame"])
def test_layers_and_heads_to_choose(show, frame):
    root = show(LAYERS, frame=frame)
    check_layers(root, 1, 2, 0)
    layer, head = (root.get_by_role("slider", name=name) for name in ("layer", "head"))
    for i, j, word in ((0, 2, 12), (0, 0, 2), (1, 1, 5)):
        layer.fill(str(i))
        head.fill(str(j))
        assert (layer.get_attribute("aria-valuetext"), head.get_attribute("aria-valuetext")) == (str(i + 1), str(j + 1))
        root.locator("tbody tr").nth(word).hover()
        check_layers(root, i, j, word)


def test_layers_by_keyboard_and_without_gold_links(show):
    root = show(layers_explorer(LAYER_LOOKS, ENGLISH, FRENCH))
    root.keyboard.press("Tab")
    root.keyboard.press("ArrowRight")
    for _ in range(5):
        root.keyboard.press("Tab")
    assert root.locator(":focus").inner_text() == ENGLISH[2]
    percent = np.round(100 * LAYER_LOOKS[1, 0]).astype(int)
    assert [int(text) for text in cells(root) if text] == percent.ravel().tolist()
    assert root.locator("dd").count() == 0
    assert root.get_by_role("status").locator("span").count() == 1
    assert root.get_by_role("status").inner_text().startswith(f"cat looks at: {FRENCH[percent[2].argmax()]} ")


# --- many on a page, and none of the scripts ---


def test_several_on_one_page_do_not_disturb_each_other(show):
    page = show(ATTENTION, SCALING, MASKED, ATTENTION, KERNEL)
    first, scaling, masked, again, kernel = page.locator(".attnlib").all()
    first.get_by_role("slider").fill("3")
    near(cells(first), softmax(SCORES / TEMPERATURES[3]))
    near(cells(again), softmax(SCORES))
    again.locator("tbody tr").nth(3).hover()  # the same explorer shown twice: both are alive
    check_status(again, ENGLISH[3], FRENCH, softmax(SCORES)[3], 5)
    check_status(first, ENGLISH[0], FRENCH, softmax(SCORES / TEMPERATURES[3])[0], 5)
    check_status(masked, ENGLISH[0], FRENCH, softmax(BLOCKED)[0], 1)
    check_scaling(scaling, 64, True, 1)
    check_kernel(kernel, 178, 5)


def test_a_second_run_of_the_script_changes_nothing(show):
    page = show(ATTENTION)
    before = page.locator(".attnlib").inner_html()
    page.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: "
                  "document.querySelector('.attnlib script').text}))")
    assert page.locator(".attnlib").inner_html() == before
    assert page.get_by_role("slider").count() == 1


def test_the_script_leaves_no_name_behind(show):
    names = "Object.getOwnPropertyNames(window)"
    assert set(show(*EVERY.values()).evaluate(names)) <= set(show().evaluate(names))
    page = show(ATTENTION)
    assert page.evaluate("typeof softmax + typeof start + typeof attention") == "undefined" * 3


@pytest.mark.parametrize(
    "explorer",
    [*EVERY.values(), ONE],
    ids=[*EVERY, "one-key"],
)
def test_without_scripts_the_same_table_stands(show, explorer):
    """No dead control, and what the script draws first is what Python drew, to the last color."""
    states = []
    for script in (False, True):
        page = show(explorer, java_script_enabled=script)
        assert page.locator("table").is_visible()
        assert (page.locator("input, button").count() == 0) == (not script)
        states.append(
            {
                "cells": page.locator("td, th, dd").all_inner_texts(),
                "colors": [rgba(style) for style in page.locator("tbody td").evaluate_all(STYLES)],
                "boxes": page.locator("td, th, tbody i").evaluate_all(BOXES),
                "picture": page.locator("circle, path").evaluate_all(DRAWN),
            }
        )
    static, alive = states
    assert static["cells"] == alive["cells"]
    assert static["colors"] == alive["colors"]
    assert static["picture"] == alive["picture"]
    assert np.array(static["boxes"]) == pytest.approx(np.array(alive["boxes"]), abs=0.5)  # nothing jumps


STYLES = "cells => cells.map(cell => cell.getAttribute('style'))"
BOXES = "nodes => nodes.map(node => [node.getBoundingClientRect().width, node.getBoundingClientRect().height])"


def rgba(style):
    """The color of a style as the browser writes it (rgba, alpha with 3 digits) or as Python does (hex)."""
    if not style:
        return None
    if "#" in style:
        return *bytes.fromhex(style.split("#")[1][:6]), round(int(style.split("#")[1][6:8], 16) / 255, 2)
    red, green, blue, alpha = re.search(r"rgba?\((.*?)\)", style)[1].split(", ")
    return int(red), int(green), int(blue), round(float(alpha), 2)


# What JupyterLab and the site do to tables and lists in an output, and what they might.
HOST = """
.host table {border-collapse: collapse; table-layout: fixed; font-size: 9px; margin: 0 auto 1em; width: 100%}
.host table {display: block; border: 1px solid}
.host td, .host th, .host tr {padding: 1em; line-height: 3; white-space: normal; border: 1px solid; text-align: left}
.host th {font-weight: bold} .host caption {caption-side: bottom; padding: 1em}
.host tbody tr:nth-child(odd) {background: rgb(200, 200, 200)}
.host dl dt {float: left; width: 20%; font-weight: bold} .host dl dd {float: left; margin-left: 2em}
.host p, .host label, .host button, .host input {margin: 1em; padding: 1em; line-height: 3; font-size: 9px}
"""


def test_styles_of_the_page_change_nothing(show):
    states = []
    for styles in ("", HOST):
        page = show(*EACH_KIND.values(), styles=styles)
        kinds = "svg, text, caption, tr, td, th, tbody i, dt, dd, mark, button, input, label, [role=status], "
        kinds = "svg, text, caption, tr, td, th, tbody i, tbody b, dt, dd, mark, button, input, label, [role=status], "
        nodes = page.locator(kinds + ".words, .words *")
        states.append(
            np.array(nodes.evaluate_all(
                "nodes => nodes.map(node => node.getBoundingClientRect()).map(r => [r.x, r.y, r.width, r.height])"
            ))
        )
        assert page.locator("tbody tr").evaluate_all(
            "rows => rows.every(row => getComputedStyle(row).backgroundColor === 'rgba(0, 0, 0, 0)')"
        )
    assert states[0] == pytest.approx(states[1], abs=0.5)


# --- readers on phones, in the dark, with screen readers ---


def test_phone(show):
    page = show(*EVERY.values(), width=390, is_mobile=True, has_touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    wide = page.locator(".scroll").evaluate_all("boxes => boxes.map(box => box.scrollWidth > box.clientWidth)")
    assert [name for name, over in zip(EVERY, wide, strict=True) if over] == ["alignment", "running"]
    assert np.min(page.locator("button").evaluate_all(BOXES)) >= 24  # a finger hits them
    running = page.locator(".attnlib").nth(list(EVERY).index("running"))
    box, last = running.locator(".scroll"), running.locator("tbody td").nth(11)
    box.evaluate("box => box.scrollTo(9999, 0)")
    assert last.bounding_box()["x"] + last.bounding_box()["width"] <= 390


@pytest.mark.parametrize("colors", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("width", [800, 390])
def test_axe_finds_nothing(show, colors, width):
    strong = attention_explorer(np.eye(3) * 20)  # cells of full color
    page = show(*EVERY.values(), strong, colors=colors, width=width)
    page.locator("tbody tr").nth(2).hover()
    results = Axe().run(page)
    assert [(v["id"], [n["html"] for n in v["nodes"]]) for v in results.response["violations"]] == []


def test_focus_is_seen(show):
    page = show(*EACH_KIND.values())
    for _ in range(28):
        page.keyboard.press("Tab")
        outline = page.locator(":focus").evaluate("element => getComputedStyle(element).outline")
        assert outline.endswith("solid 2px")
