"""Figures with matplotlib: attention maps, bars of weights, curves, and `describe`, which says in words what is drawn.

Weights and curves may be NumPy arrays, lists or torch tensors on any device. Tokens are drawn as they are, never read
as formulas; titles, axis labels and names of curves are the author's and may hold formulas.
"""

from itertools import cycle
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.container import BarContainer
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, NullLocator, PercentFormatter

from .explorers import GOLD, check_labels, check_links, check_rank, check_weights, to_numpy


def use_style():
    """Draw all figures from now on in the style of the course."""
    plt.style.use(Path(__file__).with_name("course.mplstyle"))


def plot_attention(weights, queries=None, keys=None, *, ax=None, title=None, values=False, links=None):
    """A map of weights (T_q, T_k): queries are rows, the first on top, keys are columns; colors run from 0 to 1.

    values: write the numbers into the cells.    links: (query, key) index pairs to outline, such as gold alignments.
    """
    weights = check_weights(weights)
    T_q, T_k = weights.shape
    queries = check_labels(queries, T_q, "queries")
    keys = check_labels(keys, T_k, "keys")
    links = check_links(links, weights.shape)

    slanted = max(map(len, keys)) > (6 if values else 3)

    alone = ax is None
    if alone:
        cell = 0.5 if values else 0.33  # inches, and 0.07 for a letter
        left = 0.4 + 0.07 * max(map(len, queries)) + (0 if values else 0.7)
        top = 0.6 + (0.05 * max(map(len, keys)) if slanted else 0)
        ax = _new_axes((left + max(1.5, cell * T_k), top + max(1.0, cell * T_q)))
    image = ax.imshow(weights, vmin=0, vmax=1)
    ax.xaxis.set(ticks_position="top", label_position="top")
    ax.set_yticks(range(T_q), queries, parse_math=False)
    slant = {"rotation": 45, "ha": "left", "rotation_mode": "anchor"} if slanted else {}
    ax.set_xticks(range(T_k), keys, parse_math=False, **slant)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set(xlabel="key", ylabel="query")
    if title is not None:
        ax.set_title(title)
    if values:
        for (i, j), w in np.ndenumerate(weights):
            ax.text(j, i, f"{w:.2f}", ha="center", va="center", size=8, color="white" if w > 0.6 else "#222222")
    elif alone:
        bar = ax.figure.colorbar(image, ax=ax, ticks=[0, 0.5, 1], shrink=0.6, aspect=16, pad=0.03, label="weight")
        bar.outline.set_visible(False)
    for query, key in links:
        ax.add_patch(Rectangle((key - 0.46, query - 0.46), 0.92, 0.92, fill=False, edgecolor=GOLD, linewidth=1.5))
    return ax


def plot_weights(weights, labels=None, *, ax=None, title=None, values=False, ylabel="weight"):
    """Bars for one vector of weights (n,), or side by side for several: {name: vector}. The scale runs from 0 to 1
    unless a number lies outside of it.    values: write the numbers above the bars."""
    named = dict(weights) if isinstance(weights, dict) else {"": weights}
    if not named:
        raise ValueError("weights must hold at least one vector, got an empty dict")
    vectors = {
        name: check_rank(to_numpy(w, _item("weights", name)), ("n",), _item("weights", name))
        for name, w in named.items()
    }
    n = len(next(iter(vectors.values())))
    for name, w in vectors.items():
        if len(w) != n:
            raise ValueError(f"{_item('weights', name)} must have the length of the first vector, {n}, got {len(w)}")
    labels = check_labels(labels, n, "labels")
    drawn = np.stack(list(vectors.values()))
    if np.isinf(drawn).any():
        raise ValueError(f"weights must be finite, got {np.isinf(drawn).sum()} infinite numbers")

    ax = _new_axes() if ax is None else ax
    width = 0.8 / len(vectors)
    for i, (name, w) in enumerate(vectors.items()):
        place = np.arange(n) + (i - (len(vectors) - 1) / 2) * width
        bars = ax.bar(place, w, 0.92 * width, label=name)
        if values:
            ax.bar_label(bars, fmt="%.2f", padding=2, size=7.5)
    ax.set_xticks(range(n), labels, parse_math=False)
    ax.tick_params(axis="x", length=0)
    ax.set(ylabel=ylabel)
    if drawn.min() >= 0 and drawn.max() <= 1:
        ax.set_ylim(0, 1)
    else:
        ax.axhline(0, color="#555555", linewidth=0.8)
        ax.margins(y=0.1)
    return _finish(ax, title, legend=len(vectors) > 1)


def plot_curves(
    x, curves, *, xlabel=None, ylabel=None, xlog=None, ylog=False, percent=False, title=None, ax=None
):
    """Curves {name: y} over x (numbers or names), y of shape (len(x),) or (seeds, len(x)): mean and range of the seeds.

    xlog: None, 2 or 10, the base of a logarithmic axis.    percent: y from 0 to 1, shown as 0 % to 100 %.
    """
    if xlog not in (None, 2, 10):
        raise ValueError(f"xlog must be None, 2 or 10, got {xlog!r}")
    if not isinstance(curves, dict) or not curves:
        raise ValueError(f"curves must be a dict of at least one curve, {{name: y}}, got {type(curves).__name__}")
    named = hasattr(x, "__len__") and any(isinstance(item, str) for item in x)
    names = check_labels(x, len(x), "x") if named else None
    x = check_rank(to_numpy(range(len(names)) if names else x, "x"), ("n",), "x")
    if xlog and (names or x.min() <= 0):
        raise ValueError(f"x must hold positive numbers for xlog={xlog}, got {names or x.min()}")
    runs = {name: _as_runs(y, len(x), _item("curves", name)) for name, y in curves.items()}

    ax = _new_axes() if ax is None else ax
    shapes = cycle("osD^vPX" if len(x) <= 20 else [""])  # they tell curves apart without color
    for (name, y), marker in zip(runs.items(), shapes, strict=False):
        (line,) = ax.plot(x, y.mean(axis=0), marker=marker, label=name)
        if len(y) > 1:
            ax.fill_between(x, y.min(axis=0), y.max(axis=0), color=line.get_color(), alpha=0.18, linewidth=0)
    if xlog:
        ax.set_xscale("log", base=xlog)
    if ylog:
        ax.set_yscale("log")
    if names:
        ax.set_xticks(x, names, parse_math=False)
    elif xlog == 2 and len(x) <= 12:
        ax.set_xticks(x, [f"{value:g}" for value in x])
        ax.xaxis.set_minor_locator(NullLocator())
    if percent:
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        if not ylog:
            ax.set_ylim(-0.03, 1.03)
    ax.set(xlabel=xlabel or "", ylabel=ylabel or "")
    ax.grid(axis="y")
    return _finish(ax, title, legend=len(runs) > 1)


def describe(ax):
    """One line on what the axes show: kinds, names, counts, scales, labels. No measured value is in it, so that the
    line is the same on every machine and with every matplotlib, and a notebook's test can compare it."""
    parts = []
    for image in ax.images:
        rows, columns = image.get_array().shape[:2]
        low, high = image.get_clim()
        first = "top" if ax.yaxis_inverted() else "bottom"
        parts.append(f"map of {rows} rows x {columns} columns, first row at the {first}, colors {low:g} to {high:g}")
    parts += [f"{len(c)} bars{_named(c)}" for c in ax.containers if isinstance(c, BarContainer)]
    parts += [f"curve{_named(line)} with {len(line.get_xdata())} points" for line in ax.lines if _named(line)]
    bands = sum(isinstance(c, PolyCollection) for c in ax.collections)
    parts += [f"{bands} band{'s' * (bands > 1)}"] if bands else []
    points = [c for c in ax.collections if isinstance(c, PathCollection)]
    parts += [f"{len(c.get_offsets())} dots{_named(c)}" for c in points]
    outlines = [p for p in ax.patches if isinstance(p, Rectangle) and not p.get_fill()]
    parts += [f"{len(outlines)} outlined"] if outlines else []
    parts += [_axis("x", ax.xaxis), _axis("y", ax.yaxis)]
    title = ax.get_title(loc="left") or ax.get_title()
    return "; ".join(([repr(title)] if title else []) + parts)


# --- helpers ---


def _new_axes(size=None):
    return plt.subplots(figsize=size, layout="constrained")[1]


def _finish(ax, title, legend):
    if title is not None:
        ax.set_title(title)
    if legend:
        ax.legend()
    return ax


def _as_runs(y, points, name):
    """y as (seeds, points)."""
    y = to_numpy(y, name)
    if y.size == 0 or y.ndim not in (1, 2) or y.shape[-1] != points:
        raise ValueError(f"{name} must have shape ({points},) or (seeds, {points}), got {y.shape}")
    return np.atleast_2d(y)


def _item(argument, name):
    return f"{argument}[{name!r}]" if name != "" else argument


def _named(artist):
    """The name an author gave; matplotlib's own begin with an underscore."""
    label = str(artist.get_label() or "")
    return "" if label.startswith("_") or not label else f" {label!r}"


def _axis(name, axis):
    label = axis.get_label().get_text()
    text = name + (f" = {label!r}" if label else "")
    if axis.get_scale() != "linear":
        text += f" ({axis.get_scale()})"
    if isinstance(axis.get_major_locator(), FixedLocator):
        ticks = [tick.get_text() for tick in axis.get_ticklabels()]
        text += f", {len(ticks)} ticks: {' '.join(ticks)}"
    return text
