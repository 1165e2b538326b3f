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

from .numpy_backend import softmax

# Every word that a reader of an explorer sees, in one place for translators. {0}, {1} are filled in.
LABELS = {
    "attention": {
        "caption": "Attention weights: rows are queries, columns are keys",
        "blocked": " (- is blocked)",
        "temperature": "temperature",
        "looks": "{0} looks at: {1}",
        "nothing": "{0} may look at nothing",
        "entropy": "entropy {0} of at most {1} nats",
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
}

COLOR = "#2a78d6"  # of the weights; in the cells it is mixed into whatever background the page has


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
    """x with NumPy arrays for tensors, also in lists. A tensor is known by what it can do: no torch is needed."""
    if isinstance(x, (list, tuple)):
        return [_plain(item) for item in x]
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        return (x.double() if x.is_floating_point() else x).numpy()  # NumPy has no bfloat16
    return x


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


# --- the base of every explorer ---


@functools.cache
def _source(file, script):
    """The kit and one section of a file, on one line: a notebook's Markdown must see no blank line inside HTML."""
    text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    _, *parts = re.split(r"/\* == (\w+) == \*/", text)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    lines = (line.strip() for line in (sections["kit"] + sections[script]).splitlines())
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


def cell(text, weight=None):
    """A cell; a weight from 0 to 1 colors it. (The color stands in the cell: untrusted notebooks lose our CSS.)"""
    shade = "" if weight is None else f' style="background:{COLOR}{round(weight * 144):02x}"'
    return f"<td{shade}>{text}</td>"


def bar(weight):
    """A cell with a bar from 0 to the weight, on a scale from 0 to 1."""
    return f'<td class="bar"><i style="width:{100 * weight:.2f}%;background:{COLOR}"></i></td>'


def rounded(x):
    """To 4 decimals, as the numbers are shown and embedded; no -0."""
    return np.round(x, 4) + 0.0


# --- the explorers ---


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


def scaling_explorer(q, k, labels=None):
    """One query q (d,) and keys k (n, d): dot products of the first d_k features, for each d_k = 1, 2, 4, ... d.

    Shows what the size d_k, the division by its root, and the temperature do to scores and weights.
    """
    words = LABELS["scaling"]
    q = check_rank(to_numpy(q, "q"), ("d",), "q")
    k = check_rank(to_numpy(k, "k"), ("n", "d"), "k")
    if k.shape[1] != len(q):
        raise ValueError(f"k must have shape (n, {len(q)}) like q, got {k.shape}")
    for name, x in (("q", q), ("k", k)):
        if np.isinf(x).any():
            raise ValueError(f"{name} must be finite, got {np.isinf(x).sum()} infinite among {x.size} numbers")
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
    pairs = "".join(f"<div><dt>{html.escape(t)}</dt><dd>{html.escape(d)}</dd></div>" for t, d in facts)
    data = {"sizes": sizes, "start": start, "raw": raw.tolist()}
    body = f'{static}<div aria-live="polite"><dl>{pairs}</dl></div>'
    return shell("scaling", f"scaling explorer: {n} keys, d_k up to {sizes[-1]}", body, data)
