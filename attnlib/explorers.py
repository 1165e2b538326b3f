"""Interactive figures: plain HTML with a few lines of script, alive on a static page, in JupyterLab and in Colab.

Python draws the state one sees first as a real table; the script then adds the controls. So a page without scripts
still shows the numbers, and no page shows a dead button. A new explorer is a static body (`table`), some data, a
section with its name in explorers.js and explorers.css, and its words in LABELS; `shell` puts them together.
"""

import functools
import hashlib
import html
import json
import math
import re
from pathlib import Path

import numpy as np

from . import costs, shapes
from .numpy_backend import causal_mask, softmax

# Every word that a reader of an explorer sees, in one place for translators. {0}, {1} are filled in.
LABELS = {
    "kernel": {
        "caption": "One query and {0} keys",
        "picture": "Estimate over the query: a curve, and a dot for each key, larger with its weight",
        "key": "key",
        "weight": "weight",
        "query": "query",
        "width": "width",
        "estimate": "estimate",
        "nearest": "value of the nearest key",
        "sum": "sum of the kernel",
    },
    "attention": {
        "caption": "Attention weights: rows are queries, columns are keys",
        "blocked": " (- is blocked)",
        "temperature": "temperature",
        "looks": "{0} looks at: {1}",
        "nothing": "{0} may look at nothing",
        "entropy": "entropy {0} of at most {1} nats",
    },
    "alignment": {
        "caption": "A row for each word written, a column for each word read",
        "outlined": " (outlined: gold link)",
        "back": "back",
        "next": "next word",
        "read": "read",
        "written": "written",
        "looks": "{0} looks at: {1}",
        "gold": "gold: {0}",
    },
    "scaling": {
        "caption": "One query and {0} keys",
        "key": "key",
        "raw": "q · k",
        "score": "score",
        "weight": "weight",
        "size": "d_k",
        "divide": "divide by √d_k = {0}",
        "temperature": "temperature",
        "entropy": "entropy",
        "largest": "largest weight",
        "passes": "sum of w(1 - w)",
        "of": "{0} of at most {1}",
        "nats": "{0} of at most {1} nats",
    },
    "translations": {
        "caption": "One sentence and its translations; wrong words are underlined",
        "source": "French",
        "reference": "English",
        "length": "French words",
        "right": "{0} of {1} words right",
    },
    "mask": {
        "caption": "A row is a query, a column a key: 1 if it may see, else why not",
        "pad": "pad",
        "later": "later",
        "both": "both",
        "queries": "T_q",
        "keys": "T_k",
        "length": "real keys",
        "causal": "causal",
        "end": "aligned at the end",
        "left": "padding on the left",
        "seen": "pairs that may see",
        "of": "{0} of {1}",
        "dead": "dead queries",
        "none": "none",
    },
    "projection": {
        "caption": "One word asks, all answer",
        "word": "word",
        "key": "key",
        "score": "score",
        "weight": "weight",
        "projections": "projections",
        "asks": "asks",
        "query": "query",
        "looks": "looks at",
    },
    "cache": {
        "caption": "Keys and values in memory, of {0} query heads; a full bar is {1} GiB",
        "kind": "attention",
        "all": "multi-head",
        "some": "grouped",
        "one": "multi-query",
        "kept": "kept heads",
        "memory": "GiB",
        "heads": "query heads",
        "groups": "key-value heads",
        "d_head": "d_head",
        "layers": "layers",
        "length": "tokens",
        "batch": "batch",
        "size": "bytes a number",
        "token": "bytes a token, grouped",
        "room": "tokens that fit in {0} GiB, grouped",
        "saved": "multi-head / grouped",
    },
    "costs": {
        "caption": "One layer, one head, numbers of 4 bytes; bars on a logarithmic scale",
        "layer": "layer",
        "adds": "multiply-adds",
        "steps": "steps",
        "path": "path",
        "memory": "memory",
        "naive": "attention, naive",
        "fused": "attention, fused",
        "recurrent": "recurrent",
        "convolution": "convolution",
        "length": "tokens n",
        "width": "features d",
        "kernel": "kernel k",
        "share": "quadratic share of attention",
        "dilated": "path of a dilated convolution",
        "percent": "{0} %",
    },
    "heads": {
        "caption": "Where {0} looks, in percent, and the answers at all positions; wrong answers are underlined",
        "head": "head {0}",
        "right": "{0} of {1} right",
        "asks": "{0} asks",
        "says": "{0}: {1}",
        "wrong": "{0}: {1} instead of {2}",
    },
    "layers": {
        "caption": "Percent of the weight: a row for each query, a column for each key",
        "outlined": " (outlined: gold link)",
        "layer": "layer",
        "head": "head",
        "looks": "{0} looks at: {1}",
        "gold": "gold: {0}",
        "match": "rows with the largest weight on a gold link",
        "of": "{0} of {1}",
    },
}

COLOR = "#2a78d6"  # of the weights; in the cells it is mixed into whatever background the page has
GOLD = "#D55E00"  # outlines of gold links


class Explorer:
    """What Jupyter shows as an interactive figure; `html` is all of it."""

    def __init__(self, name, html):
        self.name, self.html = name, html

    def _repr_html_(self):
        return self.html

    def __repr__(self):
        return f"<{self.name}>"


# --- what plots and explorers share: numbers and tokens from anywhere ---


def to_numpy(x, name="x"):
    """Numbers from an array, a list or a torch tensor (any device, dtype or requires_grad) as float64."""
    if isinstance(x, np.ma.MaskedArray):
        raise ValueError(f"{name} must be a plain array, got a masked one: its mask would be lost")
    try:
        x = np.asarray(_plain(x))
    except ValueError:
        raise ValueError(f"{name} must have rows of equal length") from None
    if x.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold real numbers, got dtype {x.dtype}")
    x = x.astype(np.float64)
    if np.isnan(x).any():
        raise ValueError(f"{name} must not hold NaN, got {np.isnan(x).sum()} among {x.size} numbers")
    if (np.abs(x, where=np.isfinite(x), out=np.zeros_like(x)) > 1e100).any():
        raise ValueError(f"{name} must hold numbers up to 1e100, got {np.abs(x[np.isfinite(x)]).max():.3g}")
    return x


def _plain(x):
    """x with NumPy arrays for tensors, also in lists."""
    return [_plain(item) for item in x] if isinstance(x, (list, tuple)) else shapes.plain(x)


def _finite(x, name):
    """to_numpy, and no infinity either."""
    x = to_numpy(x, name)
    if np.isinf(x).any():
        raise ValueError(f"{name} must be finite, got {np.isinf(x).sum()} infinite among {x.size} numbers")
    return x


def _choices(choices, chosen, name, chosen_name, least):
    """What a slider offers: at least `least` numbers in rising order; and the place of the one to start with."""
    choices = rounded(check_rank(_finite(choices, name), ("n",), name))
    if len(choices) < least or (np.diff(choices) <= 0).any():
        raise ValueError(f"{name} must hold at least {least} numbers in rising order, got {choices.tolist()}")
    places = np.flatnonzero(np.isclose(choices, chosen))
    if not len(places):
        raise ValueError(f"{chosen_name} must be one of {name}, {choices[0]:g} to {choices[-1]:g}, got {chosen}")
    return choices, int(places[0])


def check_rank(x, axes, name, hint=""):
    """Raise unless x has one axis for each name in `axes` and none of them is empty."""
    if x.ndim != len(axes) or x.size == 0:
        shape = f"({', '.join(axes)}{',' * (len(axes) == 1)})"
        raise ValueError(f"{name} must have shape {shape}, none of them 0, got {x.shape}{hint}")
    return x


def check_labels(labels, count, name):
    """The labels as text, one for each of `count` things; 0, 1, 2, ... if there are none.

    What could not be seen (spaces, control characters) becomes its Python literal; what is longer than 40 characters
    is cut short, or one token would push the numbers off the page.
    """
    if labels is not None and not hasattr(labels, "__iter__"):
        raise ValueError(f"{name} must hold {count} labels, got {labels!r}")
    labels = [str(label) for label in (range(count) if labels is None else labels)]
    if len(labels) != count:
        raise ValueError(f"{name} must hold {count} labels, got {len(labels)}")
    labels = [label if label.isprintable() and label.strip() else repr(label) for label in labels]
    return [label if len(label) <= 40 else f"{label[:37]}..." for label in labels]


def check_weights(weights):
    """Weights (T_q, T_k) as float64, checked to be numbers from 0 to 1."""
    weights = check_rank(to_numpy(weights, "weights"), ("T_q", "T_k"), "weights", ": pick one batch and one head")
    if weights.min() < -1e-3 or weights.max() > 1 + 1e-3:
        low, high = weights.min(), weights.max()
        raise ValueError(f"weights must lie from 0 to 1, got {low:.4g} to {high:.4g}: apply softmax to scores first")
    return weights


def check_links(links, shape):
    """The (query, key) index pairs in order, all inside of weights of this shape; none for None."""
    return sorted({_check_link(link, shape) for link in ([] if links is None else links)})


def _check_link(link, shape):
    try:
        query, key = (int(i) for i in link)
    except (TypeError, ValueError):
        raise ValueError(f"links must hold (query, key) index pairs, got {link!r}") from None
    if not (0 <= query < shape[0] and 0 <= key < shape[1]):
        raise ValueError(f"links must lie inside the {shape[0]} x {shape[1]} weights, got {(query, key)}")
    return query, key


# --- the base of every explorer ---


@functools.cache
def _source(file, script):
    """The kit and the sections of one script, on one line: a notebook's Markdown must see no blank line inside HTML."""
    text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    _, *parts = re.split(r"/\* == ([\w ]+) == \*/", text)
    sections = zip(parts[::2], parts[1::2], strict=True)
    wanted = "".join(part for names, part in sections if {"kit", script} & set(names.split()))
    lines = (line.strip() for line in wanted.splitlines())
    return "".join(line for line in lines if line and not line.startswith("//"))


def shell(script, name, body, data):
    """An Explorer: the static `body`, then `script`, the name of a function (root, data, labels) in explorers.js.

    The id comes from the content, so that running a cell again gives the same bytes.
    """
    code = _source("explorers.js", script)
    words = {key: text for key, text in LABELS[script].items() if f"labels.{key}" in code}
    call = json.dumps([data, words], separators=(",", ":")).replace("<", r"\u003c")
    root = "attn-" + hashlib.sha256(f"{script}{body}{call}".encode()).hexdigest()[:8]
    style = re.sub("(?<=[{}:;,]) ", "", _source("explorers.css", script)).replace("&", f"#{root}")
    return Explorer(
        name,
        f'<div class="attnlib" id="{root}"><style>{style}</style>{body}'
        f'<script>(()=>{{{code}start("{root}",{script},...{call});}})();</script></div>',
    )


def table(kind, caption, columns, rows):
    """A table that scrolls where it is wider than the page. `rows` are (label, cells), made by `cell` or `bar`.

    A `kind` of "map" is one of weights, a "list" has columns of numbers; an empty column has no heading.
    """
    head = "".join(f'<th scope="col">{html.escape(c)}</th>' if c else "<td></td>" for c in columns)
    body = "".join(f'<tr><th scope="row">{html.escape(label)}</th>{"".join(cells)}</tr>' for label, cells in rows)
    caption = html.escape(caption)
    return (
        f'<div class="scroll" role="group" tabindex="0" aria-label="{caption}"><table class="{kind}">'
        f"<caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def cell(text, weight=None, gold=False):
    """A cell; a weight from 0 to 1 colors it. (The color stands in the cell: untrusted notebooks lose our CSS.)"""
    outline = f";outline:2px solid {GOLD}" if gold else ""
    shade = "" if weight is None else f' style="background:{COLOR}{round(weight * 144):02x}{outline}"'
    return f"<td{shade}>{text}</td>"


def bar(weight):
    """A cell with a bar from 0 to the weight, on a scale from 0 to 1."""
    return f'<td class="bar"><i style="width:{100 * weight:.2f}%;background:{COLOR}"></i></td>'


def _facts(pairs):
    """Terms and what they are now, read aloud when they change."""
    pairs = "".join(f"<div><dt>{html.escape(t)}</dt><dd>{html.escape(d)}</dd></div>" for t, d in pairs)
    return f'<div aria-live="polite"><dl>{pairs}</dl></div>'


def rounded(x):
    """To 4 decimals, as the numbers are shown and embedded; no -0."""
    return np.round(x, 4) + 0.0


# --- the explorers ---


def kernel_explorer(keys, values, queries, widths, *, query, width, labels=None, names=("key", "value")):
    """A soft lookup with one number a key: move the query and the width of the Gaussian kernel, watch the estimate.

    keys and values (n,); the sliders offer `queries` and `widths`, in rising order, and start at `query` and `width`.
    The picture reaches from the first query to the last. `names` are the headings of the columns of keys and values.
    """
    words = LABELS["kernel"]
    keys, values = (check_rank(_finite(x, name), ("n",), name) for name, x in (("keys", keys), ("values", values)))
    if len(values) != len(keys):
        raise ValueError(f"values must hold one number a key, {len(keys)}, got {len(values)}")
    queries, start = _choices(queries, query, "queries", "query", 2)
    if keys.min() < queries[0] or keys.max() > queries[-1]:
        given = f"{queries[0]:g} to {queries[-1]:g}"
        raise ValueError(f"queries must reach over all keys, {keys.min():g} to {keys.max():g}, got {given}")
    widths, level = _choices(widths, width, "widths", "width", 1)
    if widths[0] <= 0:
        raise ValueError(f"widths must be positive, got {widths[0]:g}")
    labels = check_labels(labels, len(keys), "labels")
    if len(names) != 2:
        raise ValueError(f"names must hold two headings, of keys and of values, got {len(names)}")

    keys, values = rounded(keys), rounded(values)
    scores = -((queries[:, None] - keys) ** 2) / 2 / widths[level] ** 2
    weights = softmax(scores)
    estimates = weights @ values
    rows = [
        (label, [cell(f"{k:.10g}"), cell(f"{v:.10g}"), cell(f"{w:.4f}"), bar(w)])
        for label, k, v, w in zip(labels, keys, values, weights[start], strict=True)
    ]
    facts = [
        (words["estimate"], f"{estimates[start]:.4f}"),
        (words["nearest"], f"{values[weights[start].argmax()]:.4f}"),
        (words["sum"], f"{np.exp(scores[start]).sum():.4f}"),
    ]
    static = table("list", words["caption"].format(len(keys)), [words["key"], *names, words["weight"], ""], rows)
    picture = _kernel_picture(words["picture"], names, keys, values, weights[start], queries, estimates, start)
    numbers = {"keys": keys, "values": values, "queries": queries, "widths": widths}
    data = {name: [int(n) if n == int(n) else n for n in x.tolist()] for name, x in numbers.items()}  # 5, not 5.0
    data |= {"query": start, "width": level}
    body = f"{picture}{static}{_facts(facts)}"
    return shell("kernel", f"kernel explorer: {len(keys)} keys, {len(queries)} queries", body, data)


def _kernel_picture(text, names, keys, values, weights, queries, estimates, start):
    """The curve of the estimates over the queries, as SVG; explorers.js redraws it with the same formulas."""
    low, high = values.min(), values.max()
    x = 50 + 280 * (np.concatenate([queries, keys]) - queries[0]) / (queries[-1] - queries[0])
    y = 120 - 100 * (np.concatenate([estimates, values]) - low) / (high - low or 1.0)
    n = len(queries)
    dots = "".join(
        f'<circle cx="{a:.1f}" cy="{b:.1f}" r="{3 + 11 * w**0.5:.1f}"/>'
        for a, b, w in zip(x[n:], y[n:], weights, strict=True)
    )
    curve = "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x[:n], y[:n], strict=True))
    here = f"M{x[start]:.1f} 130V{y[start]:.1f}H50"
    words = [
        (50, 143, "start", f"{queries[0]:.10g}"),
        (190, 143, "middle", names[0]),
        (330, 143, "end", f"{queries[-1]:.10g}"),
        (42, 124, "end", f"{low:.10g}"),
        (42, 24, "end", f"{high:.10g}"),
        (8, 10, "start", names[1]),
    ]
    written = "".join(
        f'<text x="{a}" y="{b}" text-anchor="{anchor}">{html.escape(word)}</text>' for a, b, anchor, word in words
    )
    return (
        f'<svg viewBox="0 0 340 150" role="img" aria-label="{html.escape(text)}" fill="currentColor" font-size="10">'
        f'<g fill="{COLOR}" fill-opacity=".7">{dots}</g><g fill="none" stroke="currentColor">'
        f'<path d="M{curve}" stroke-width="1.5"/><path d="{here}" stroke-dasharray="3 3"/></g>{written}</svg>'
    )


def attention_explorer(scores, queries=None, keys=None, *, temperature=True):
    """Scores (T_q, T_k) as a table of weights: point at a query to see where it looks, heat or cool the softmax.

    A score of -inf is a blocked key. `temperature=False` leaves the slider out.
    """
    words = LABELS["attention"]
    scores = check_rank(to_numpy(scores, "scores"), ("T_q", "T_k"), "scores", ": pick one batch and one head")
    if np.isposinf(scores).any():
        raise ValueError("scores must be finite, or -inf for a blocked key, got +inf")
    queries = check_labels(queries, scores.shape[0], "queries")
    keys = check_labels(keys, scores.shape[1], "keys")

    scores, blocked = rounded(scores), np.isneginf(scores)
    digits = 4 if len(keys) <= 8 else 2  # so that the running example fits the page
    rows = [
        (query, [cell("-") if no else cell(f"{w:.{digits}f}", w) for w, no in zip(*row, strict=True)])
        for query, *row in zip(queries, softmax(scores), blocked, strict=True)
    ]
    caption = words["caption"] + (words["blocked"] if blocked.any() else "")
    scores = np.where(blocked, None, scores).tolist()  # JSON has no infinity
    data = {"scores": scores, "digits": digits, "temperature": bool(temperature)}
    name = f"attention explorer: {len(queries)} queries x {len(keys)} keys"
    return shell("attention", name, table("map", caption, ["", *keys], rows), data)


def alignment_explorer(weights, target_words, source_words, links=None):
    """Weights (T_y, T_x) of a translation: point at a word to see where the model looked, or step from word to word.

    links: (target, source) index pairs to outline, such as the `links` of a `corpus.Pair`.
    """
    words = LABELS["alignment"]
    weights = rounded(np.clip(check_weights(weights), 0, 1))
    target = check_labels(target_words, weights.shape[0], "target_words")
    source = check_labels(source_words, weights.shape[1], "source_words")
    gold = check_links(links, weights.shape)

    rows = [
        (word, [cell(f"{w:.2f}", w, (t, s) in gold) for s, w in enumerate(weights[t])])
        for t, word in enumerate(target)
    ]
    caption = words["caption"] + (words["outlined"] if gold else "")
    data = {"weights": weights.tolist()}
    if links is not None:
        data["gold"] = [[s for t, s in gold if t == row] for row in range(len(target))]
    name = f"alignment explorer: {len(target)} words written, {len(source)} read"
    return shell("alignment", name, table("map", caption, ["", *source], rows), data)


def scaling_explorer(q, k, labels=None):
    """One query q (d,) and keys k (n, d): dot products of the first d_k features, for each d_k = 1, 2, 4, ... d.

    Shows what the size d_k, the division by its root, and the temperature do to scores and weights.
    """
    words = LABELS["scaling"]
    q = check_rank(_finite(q, "q"), ("d",), "q")
    k = check_rank(_finite(k, "k"), ("n", "d"), "k")
    if k.shape[1] != len(q):
        raise ValueError(f"k must have shape (n, {len(q)}) like q, got {k.shape}")
    keys = check_labels(labels, len(k), "labels")

    sizes = [2**i for i in range(len(q).bit_length()) if 2**i <= len(q)]
    raw = rounded(np.cumsum(k * q, axis=1)[:, [size - 1 for size in sizes]])
    start = min(6, len(sizes) - 1)  # d_k = 64 where there is one
    scores = raw[:, start] / math.sqrt(sizes[start])
    weights = softmax(scores)
    rows = [
        (key, [cell(f"{r:.4f}"), cell(f"{s:.4f}"), cell(f"{w:.4f}"), bar(w)])
        for key, r, s, w in zip(keys, raw[:, start], scores, weights, strict=True)
    ]
    n = len(keys)
    entropy = sum(-w * math.log(w) for w in weights if w > 0)
    facts = [
        (words["entropy"], words["nats"].format(f"{entropy:.4f}", f"{math.log(n):.4f}")),
        (words["largest"], f"{weights.max():.4f}"),
        (words["passes"], words["of"].format(f"{(weights * (1 - weights)).sum():.4f}", f"{1 - 1 / n:.4f}")),
    ]
    columns = [words["key"], words["raw"], words["score"], words["weight"], ""]
    static = table("list", words["caption"].format(n), columns, rows)
    data = {"sizes": sizes, "start": start, "raw": raw.tolist()}
    body = f"{static}{_facts(facts)}"
    return shell("scaling", f"scaling explorer: {n} keys, d_k up to {sizes[-1]}", body, data)


def translation_explorer(pairs, translations, *, start=0):
    """Sentences by length: a slider chooses one, and every model's translation stands below the right one.

    pairs: a list of `corpus.Pair` with a target. translations: {name of a model: its words for each pair, in the same
    order}. start: which sentence comes first, counted from the shortest. Words of a translation that are not part of
    the longest run of words it shares with the reference, in order but with gaps allowed, are underlined.
    """
    words = LABELS["translations"]
    pairs = list(pairs)
    if len(pairs) < 2 or not all(pair.source and pair.target for pair in pairs):
        raise ValueError(f"pairs must hold at least 2 pairs with a source and a target, got {len(pairs)}")
    if not isinstance(translations, dict) or not translations:
        raise ValueError(f"translations must be a dict of at least one model, got {translations!r}"[:200])
    for name, said in translations.items():
        if len(said) != len(pairs) or any(isinstance(sentence, str) for sentence in said):
            raise ValueError(f"translations[{name!r}] must hold one list of words a pair, {len(pairs)}")
    if start not in range(len(pairs)):
        raise ValueError(f"start must be from 0 to {len(pairs) - 1}, got {start!r}")

    names = check_labels(translations, len(translations), "translations")
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i].source))
    sentences = []
    for i in order:
        lines = [pairs[i].source, pairs[i].target, *(said[i] for said in translations.values())]
        lines = [check_labels(line, len(line), "the words") for line in lines]
        sentences.append([[line, _out_of_place(line, lines[1]) if row > 1 else []] for row, line in enumerate(lines)])
    first = sentences[start]
    rows = [
        (label, [f"<td>{_marked_words(*line)}</td>"])
        for label, line in zip([words["source"], words["reference"], *names], first, strict=True)
    ]
    static = table("list", words["caption"], ["", ""], rows)
    total = len(first[1][0])
    facts = [
        (name, words["right"].format(len(line) - len(wrong), total))
        for name, (line, wrong) in zip(names, first[2:], strict=True)
    ]
    every = list(dict.fromkeys(word for lines in sentences for line, _ in lines for word in line))
    number = {word: i for i, word in enumerate(every)}
    data = {
        "words": every,
        "sentences": [[[[number[word] for word in line], wrong] for line, wrong in lines] for lines in sentences],
        "lengths": [len(pairs[i].source) for i in order],
        "start": start,
    }
    name = f"translation explorer: {len(pairs)} sentences, {len(names)} models"
    return shell("translations", name, f"{static}{_facts(facts)}", data)


def mask_explorer(T_q, T_k, length, *, causal=True, largest=8):
    """A mask to build: T_q queries, T_k keys of which `length` are real; see who may see whom, and who sees nobody.

    The sliders go up to `largest`. Where the padding stands, and at which end a causal mask is aligned, are switches.
    """
    words = LABELS["mask"]
    for name, number, least in (("T_q", T_q, 1), ("T_k", T_k, 1), ("length", length, 0), ("largest", largest, 2)):
        most = {"length": T_k, "largest": 16}.get(name, largest)
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            raise ValueError(f"{name} must be a whole number from {least} to {most}, got {number!r}")

    pad = np.broadcast_to(np.arange(T_k) >= length, (T_q, T_k))
    later = ~causal_mask(T_q, T_k) & bool(causal)
    why = np.select([pad & later, pad, later], [words["both"], words["pad"], words["later"]], "1")
    rows = [(f"q{i}", [cell("1", 0.5) if text == "1" else cell(text) for text in row]) for i, row in enumerate(why)]
    seen = ~(pad | later)
    facts = [
        (words["seen"], words["of"].format(seen.sum(), seen.size)),
        (words["dead"], ", ".join(f"q{i}" for i in np.flatnonzero(~seen.any(axis=1))) or words["none"]),
    ]
    static = table("map", words["caption"], ["", *(f"k{j}" for j in range(T_k))], rows)
    data = {"q": T_q, "k": T_k, "length": length, "largest": largest, "causal": bool(causal)}
    return shell("mask", f"mask explorer: {T_q} queries x {T_k} keys", f"{static}{_facts(facts)}", data)


def projection_explorer(words, projections, *, asks=0, chosen=None):
    """Self-attention word by word: point at a word to see its query, all keys, scores and weights; swap projections.

    projections: {name: (q, k)}, both (T, d_k) and one row a word; d_k may differ. No scale: a score is q . k.
    asks: the word that asks first. chosen: the name of the projections to start with, the first if None.
    """
    labels = LABELS["projection"]
    if not isinstance(projections, dict) or not projections:
        raise ValueError(f"projections must be a dict of at least one {{name: (q, k)}}, got {projections!r}"[:200])
    names = check_labels(projections, len(projections), "projections")
    pairs = [_query_and_key(name, pair) for name, pair in projections.items()]
    words = check_labels(words, len(pairs[0][0]), "words")
    for name, pair in zip(projections, pairs, strict=True):
        if len(pair[0]) != len(words):
            raise ValueError(f"projections[{name!r}] must have one row a word, {len(words)}, got {len(pair[0])}")
    if asks not in range(len(words)):
        raise ValueError(f"asks must be from 0 to {len(words) - 1}, got {asks!r}")
    if chosen is not None and chosen not in projections:
        raise ValueError(f"chosen must be one of the projections, {', '.join(names)}, got {chosen!r}")

    start = 0 if chosen is None else list(projections).index(chosen)
    q, k = pairs[start]
    scores = k @ q[asks]
    weights = softmax(scores)
    rows = [
        (word, [cell(_vector(key)), cell(f"{s:.4f}"), cell(f"{w:.4f}"), bar(w)])
        for word, key, s, w in zip(words, k, rounded(scores), weights, strict=True)
    ]
    best = np.argsort(-weights, kind="stable")[:3]
    facts = [
        (labels["asks"], words[asks]),
        (labels["query"], _vector(q[asks])),
        (labels["looks"], ", ".join(f"{words[j]} {weights[j]:.4f}" for j in best)),
    ]
    columns = [labels["word"], labels["key"], labels["score"], labels["weight"], ""]
    static = table("list", labels["caption"], columns, rows)
    data = {"names": names, "pairs": [[x.tolist() for x in pair] for pair in pairs], "chosen": start, "asks": int(asks)}
    name = f"projection explorer: {len(words)} words, {len(names)} projections"
    return shell("projection", name, f"{static}{_facts(facts)}", data)


def layers_explorer(weights, queries, keys, links=None, *, layer=0, head=0):
    """All heads of all layers: choose one with two sliders, point at a query to see where it looks.

    weights (layers, h, T_q, T_k). links: (query, key) index pairs to outline, such as the `links` of a `corpus.Pair`.
    layer, head: which one is shown first, counted from 0; readers see them counted from 1.
    """
    words = LABELS["layers"]
    weights = check_rank(to_numpy(weights, "weights"), ("layers", "h", "T_q", "T_k"), "weights", ": pick one batch")
    L, h, T_q, T_k = weights.shape
    weights = check_weights(weights.reshape(-1, T_k)).reshape(L, h, T_q, T_k)
    for name, number, count in (("layer", layer, L), ("head", head, h)):
        if isinstance(number, bool) or number not in range(count):
            raise ValueError(f"{name} must be a whole number from 0 to {count - 1}, got {number!r}")
    queries = check_labels(queries, T_q, "queries")
    keys = check_labels(keys, T_k, "keys")
    gold = check_links(links, (T_q, T_k))

    percent = np.round(100 * np.clip(weights, 0, 1)).astype(int)
    rows = [
        (query, [cell(str(p), p / 100, (i, j) in gold) for j, p in enumerate(percent[layer, head, i])])
        for i, query in enumerate(queries)
    ]
    data = {"weights": percent.tolist(), "layer": int(layer), "head": int(head)}
    facts = ""
    if links is not None:
        asked = sorted({i for i, _ in gold})
        best = weights.argmax(axis=-1)
        match = [[sum((i, int(one[i])) in gold for i in asked) for one in several] for several in best]
        data |= {"gold": [[j for i, j in gold if i == row] for row in range(T_q)], "match": match, "asked": len(asked)}
        facts = _facts([(words["match"], words["of"].format(match[layer][head], len(asked)))])
    static = table("map", words["caption"] + (words["outlined"] if gold else ""), ["", *keys], rows)
    name = f"layers explorer: {L} layers of {h} heads, {T_q} queries x {T_k} keys"
    return shell("layers", name, static + facts, data)


def _query_and_key(name, pair):
    """The (q, k) of one choice of projections, rounded and checked to be of one shape."""
    name = f"projections[{name!r}]"
    if len(pair) != 2:
        raise ValueError(f"{name} must hold two arrays, q and k, got {len(pair)}")
    q, k = (rounded(check_rank(_finite(x, name), ("T", "d_k"), name)) for x in pair)
    if q.shape != k.shape:
        raise ValueError(f"{name} must hold q and k of one shape, got {q.shape} and {k.shape}")
    return q, k


def _vector(x):
    """A row of numbers as text, as the script writes it: 2 0 -0.5."""
    return " ".join(str(int(n)) if n == int(n) else repr(float(n)) for n in x)


# What the sliders of the cache explorer offer.
CACHE = {
    "heads": [2**i for i in range(8)],
    "groups": [2**i for i in range(8)],
    "d_head": [32, 64, 128, 256],
    "layers": [1, 2, 4, 6, 12, 18, 24, 28, 32, 48, 60, 80, 96, 118, 126],
    "length": [2**i for i in range(8, 21)],
    "batch": [2**i for i in range(9)],
    "size": [1, 2, 4],
}


def cache_explorer(*, heads=32, groups=8, d_head=128, layers=32, length=8192, batch=1, size=2, cards=(24, 80)):
    """Memory of a decoder's keys and values: sliders for every factor, bars against the memory of a card.

    The arguments are where the sliders start, each one of CACHE; `groups` counts key-value heads, `size` the bytes of a
    number. cards: the memory of two cards in GiB, in rising order; a bar is full at the second.
    """
    words = LABELS["cache"]
    given = {
        "heads": heads, "groups": groups, "d_head": d_head, "layers": layers, "length": length, "batch": batch,
        "size": size,
    }  # fmt: skip
    places = {}
    for name, chosen in given.items():
        if chosen not in CACHE[name]:
            raise ValueError(f"{name} must be one of {CACHE[name]}, got {chosen!r}")
        places[name] = CACHE[name].index(chosen)
    if groups > heads:
        raise ValueError(f"groups must be at most heads = {heads}, got {groups}")
    cards, _ = _choices(cards, cards[0], "cards", "cards", 2)
    if len(cards) != 2 or cards[0] <= 0:
        raise ValueError(f"cards must hold two positive numbers, got {cards.tolist()}")
    small, large = (int(c) if c == int(c) else c for c in cards.tolist())

    def memory(kept):
        return costs.kv_cache_bytes(batch, length, layers, kept, d_head, size) / 2**30

    def half_up(x):  # as the script rounds: powers of 2 often lie halfway, and Python rounds those to even
        return f"{math.floor(1000 * x + 0.5) / 1000:.3f}"

    kinds = [(words["all"], heads), (words["some"], groups), (words["one"], 1)]
    rows = [
        (kind, [cell(str(kept)), cell(half_up(memory(kept))), bar(min(1, memory(kept) / large))])
        for kind, kept in kinds
    ]
    token = costs.kv_cache_bytes(1, 1, layers, groups, d_head, size)
    facts = [
        (words["token"], f"{token:,}"),
        *((words["room"].format(card), f"{math.floor(card * 2**30 / (token * batch)):,}") for card in (small, large)),
        (words["saved"], f"{heads // groups}"),
    ]
    caption = words["caption"].format(heads, large)
    static = table("list", caption, [words["kind"], words["kept"], words["memory"], ""], rows)
    data = {"values": CACHE, "places": places, "cards": [small, large]}
    return shell("cache", f"cache explorer: {heads} query heads", f"{static}{_facts(facts)}", data)


def _out_of_place(said, target):
    """Positions of the words of `said` that are not in its longest common subsequence with `target`."""
    longest = [[0] * (len(target) + 1) for _ in range(len(said) + 1)]  # of said[i:] and target[j:]
    for i in reversed(range(len(said))):
        for j in reversed(range(len(target))):
            same = longest[i + 1][j + 1] + 1 if said[i] == target[j] else 0
            longest[i][j] = max(same, longest[i + 1][j], longest[i][j + 1])
    wrong, j = [], 0
    for i, word in enumerate(said):
        # The next place where this word stands, if the rest can still be as long as it should.
        k = next((k for k in range(j, len(target)) if target[k] == word), None)
        if k is not None and longest[i + 1][k + 1] + 1 == longest[i][j]:
            j = k + 1
        else:
            wrong.append(i)
    return wrong


def _marked_words(words, wrong):
    words = [html.escape(word) for word in words]
    return " ".join(f"<mark>{word}</mark>" if i in wrong else word for i, word in enumerate(words))


def cost_explorer(lengths, widths, kernels, *, length, width, kernel):
    """What four layers cost, as `costs` counts it: sliders for n tokens, d features and the k tokens of a kernel.

    The sliders offer whole numbers, in rising order, and start at `length`, `width` and `kernel`.
    """
    words = LABELS["costs"]
    given = {"lengths": (lengths, length), "widths": (widths, width), "kernels": (kernels, kernel)}
    offered, places = {}, []
    for name, (choices, chosen) in given.items():
        choices, place = _choices(choices, chosen, name, name[:-1], 1)
        if choices[0] < 2 or (choices % 1).any() or choices[-1] > 2**20:
            raise ValueError(f"{name} must hold whole numbers from 2 to {2**20}, got {choices.tolist()}")
        offered[name] = [int(n) for n in choices]
        places.append(place)
    n, d, k = (numbers[place] for numbers, place in zip(offered.values(), places, strict=True))
    most = [max(column) for column in zip(*_costs(*(numbers[-1] for numbers in offered.values())), strict=True)]

    kinds = [words[kind] for kind in ("naive", "fused", "recurrent", "convolution")]
    units = (1000, _COUNTS), (1000, _COUNTS), (1000, _COUNTS), (1024, _BYTES)
    rows = [
        (kind, [_log_bar(_short(x, *unit), x, top) for x, top, unit in zip(row, most, units, strict=True)])
        for kind, row in zip(kinds, _costs(n, d, k), strict=True)
    ]
    columns = [words[name] for name in ("layer", "adds", "steps", "path", "memory")]
    share = math.floor(1000 * n / (n + 2 * d) + 0.5) / 10
    facts = [
        (words["share"], words["percent"].format(f"{share:.1f}")),
        (words["dilated"], str(costs.path_length("convolution", n, k, dilated=True))),
    ]
    data = {**offered, "at": places, "most": most}
    body = f"{table('list', words['caption'], columns, rows)}{_facts(facts)}"
    return shell("costs", f"cost explorer: up to {offered['lengths'][-1]} tokens", body, data)


def _costs(n, d, k):
    """(multiply-adds, steps, path, bytes) of attention, naive and fused, of recurrence and of convolution."""
    layer = costs.multiply_adds("projections", n, d) + costs.multiply_adds("attention", n, d)
    adds = [layer, layer, costs.multiply_adds("recurrent", n, d), costs.multiply_adds("convolution", n, d, k)]
    paths = [costs.path_length(kind, n) for kind in ("attention", "attention", "recurrent")]
    tables = [costs.activation_bytes("attention", n, d, fused=fused) for fused in (False, True)]
    return [
        (adds[0], 1, paths[0], tables[0]),
        (adds[1], 1, paths[1], tables[1]),
        (adds[2], costs.sequential_steps("recurrent", n), paths[2], costs.activation_bytes("recurrent", n, d)),
        (adds[3], 1, costs.path_length("convolution", n, k), costs.activation_bytes("convolution", n, d)),
    ]


_COUNTS = ("", " k", " M", " G", " T", " P", " E")
_BYTES = (" B", " KiB", " MiB", " GiB", " TiB", " PiB")


def _short(x, base, units):
    """A count with three digits and a unit. Halves are rounded up, as explorers.js does it."""
    size = 0
    while x >= base and size < len(units) - 1:
        x, size = x / base, size + 1
    digits = 0 if size == 0 or x >= 100 else 1 if x >= 10 else 2
    return f"{math.floor(x * 10**digits + 0.5) / 10**digits:.{digits}f}{units[size]}"


def _log_bar(text, x, most):
    """A cell with a number and, below it, a bar on a logarithmic scale from 1 to `most`."""
    width = 100 * math.log(x) / math.log(max(most, 2))
    return f'<td>{text}<b><i style="width:{width:.2f}%;background:{COLOR}"></i></b></td>'


def heads_explorer(tokens, weights, answers, right, *, start=0):
    """The heads of a trained model: point at a token to see where each head looks from there, switch heads off and on.

    tokens (T,). weights (h, T, T): of each head, rows are queries. answers: {name of a relation: (2^h, T) labels}, what
    the model says at each position; in row m the heads whose bit is set in m are on (bit 0 is head 0), so the last row
    is the whole model. right: {name: (T,) labels}, the right answers. start: the position that asks first.
    """
    words = LABELS["heads"]
    weights = to_numpy(weights, "weights")
    if weights.ndim != 3 or weights.shape[1] != weights.shape[2] or not weights.size:
        raise ValueError(f"weights must have shape (h, T, T), none of them 0, got {weights.shape}")
    h, T, _ = weights.shape
    weights = np.round(100 * np.clip(check_weights(weights.reshape(h * T, T)), 0, 1)).astype(int).reshape(h, T, T)
    tokens = check_labels(tokens, T, "tokens")
    if not isinstance(answers, dict) or not answers or not isinstance(right, dict) or set(answers) != set(right):
        raise ValueError("answers and right must be dicts with the same names of relations, at least one")
    for name, rows in answers.items():
        if len(rows) != 2**h:
            raise ValueError(f"answers[{name!r}] must hold one row for each set of {h} heads, {2**h}, got {len(rows)}")
    if start not in range(T):
        raise ValueError(f"start must be from 0 to {T - 1}, got {start!r}")

    names = check_labels(answers, len(answers), "answers")
    said = [[check_labels(row, T, "a row of answers") for row in answers[name]] for name in answers]
    wanted = [check_labels(right[name], T, "a row of right") for name in answers]
    rows = [(words["head"].format(i), [cell(str(p), p / 100) for p in weights[i, start]]) for i in range(h)]
    facts = []
    for name, sets, want in zip(names, said, wanted, strict=True):
        good = [a == b for a, b in zip(sets[-1], want, strict=True)]
        cells = [_marked_words([a], [] if ok else [0]) for a, ok in zip(sets[-1], good, strict=True)]
        rows.append((name, [f"<td>{marked}</td>" for marked in cells]))
        facts.append((name, words["right"].format(sum(good), T)))
    every = list(dict.fromkeys(word for sets in [*said, wanted] for row in sets for word in row))
    number = {word: i for i, word in enumerate(every)}
    data = {
        "words": every,
        "weights": weights.tolist(),
        "answers": [[[number[word] for word in row] for row in sets] for sets in said],
        "right": [[number[word] for word in row] for row in wanted],
        "start": start,
    }
    static = table("map", words["caption"].format(tokens[start]), ["", *tokens], rows)
    return shell("heads", f"heads explorer: {h} heads, {T} tokens", f"{static}{_facts(facts)}", data)
