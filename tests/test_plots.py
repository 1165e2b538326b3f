"""The figures, by the facts that are drawn: pixels differ from one matplotlib to the next."""

import json
import os
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import torch

mpl.use("agg")
import matplotlib.pyplot as plt
from matplotlib.colors import to_hex

from attnlib import plots

FRENCH = "le chat noir est assis sur le tapis rouge dans le salon".split()
ENGLISH = "the black cat is sitting on the red carpet in the living room".split()
# Everything a reader may have at hand. None of the weights is rounded by bfloat16.
WEIGHTS = np.array([[0.5, 0.25, 0.125, 0.125, 0], [0, 1, 0, 0, 0], [0.5, 0, 0.5, 0, 0], [0.25, 0.25, 0.25, 0.25, 0]])
KINDS = {
    "numpy": WEIGHTS,
    "float32": WEIGHTS.astype(np.float32),
    "list": WEIGHTS.tolist(),
    "torch": torch.tensor(WEIGHTS),
    "bfloat16": torch.tensor(WEIGHTS, dtype=torch.bfloat16),
    "grad": torch.tensor(WEIGHTS, requires_grad=True),
    "rows": list(torch.tensor(WEIGHTS, requires_grad=True)),
    "strided": torch.tensor(WEIGHTS.T.copy()).T,
}
if torch.cuda.is_available():
    KINDS["cuda"] = torch.tensor(WEIGHTS, device="cuda")
every_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def rows_and_keys(n, m, seed=0):
    """Random weights whose rows sum to 1."""
    e = np.exp(np.random.default_rng(seed).normal(size=(n, m)))
    return e / e.sum(axis=1, keepdims=True)


def texts(labels):
    return [label.get_text() for label in labels]


# --- cases.json ---


def test_every_case_about_plots_is_below():
    cases = json.loads(Path(__file__).with_name("cases.json").read_text())
    cases = cases["cases"] if isinstance(cases, dict) else cases
    assert {case["id"] for case in cases if case["call"] == "plots.plot_attention"} == {
        "tick-labels",
        "axes",
        "color-scale",
    }


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_tick_labels(backend):
    weights = rows_and_keys(2, 3) if backend == "numpy" else torch.tensor(rows_and_keys(2, 3))
    ax = plots.plot_attention(weights, ["the", "cat"], ["le", "chat", "dort"])
    assert ax.get_xticks().tolist() == [0, 1, 2]
    assert texts(ax.get_xticklabels()) == ["le", "chat", "dort"]
    assert ax.get_yticks().tolist() == [0, 1]
    assert texts(ax.get_yticklabels()) == ["the", "cat"]


@every_kind
@pytest.mark.parametrize("shape", [(4, 5), (13, 12)])
def test_axes(kind, shape):
    """Row i of the weights stands at y = i, the first on top; column j at x = j."""
    if shape == (4, 5):
        weights, want, queries, keys = KINDS[kind], WEIGHTS, ENGLISH[:4], FRENCH[:5]
    else:
        weights = want = rows_and_keys(*shape)
        queries, keys = ENGLISH, FRENCH
    ax = plots.plot_attention(weights, queries, keys)
    (image,) = ax.images
    assert np.array_equal(image.get_array(), want)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("key", "query")
    assert texts(ax.get_yticklabels()) == queries
    assert texts(ax.get_xticklabels()) == keys
    ax.figure.canvas.draw()
    top, bottom = (ax.transData.transform((0, i))[1] for i in (0, shape[0] - 1))
    left, right = (ax.transData.transform((j, 0))[0] for j in (0, shape[1] - 1))
    assert top > bottom
    assert left < right
    assert image.get_extent() == pytest.approx([-0.5, shape[1] - 0.5, shape[0] - 0.5, -0.5])


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("largest", [0.001, 0.4, 1])
def test_color_scale(backend, largest):
    weights = np.full((4, 5), largest)
    ax = plots.plot_attention(weights if backend == "numpy" else torch.tensor(weights))
    assert ax.images[0].get_clim() == (0, 1)


# --- attention maps ---


def test_without_labels_the_positions_are_numbered():
    ax = plots.plot_attention(WEIGHTS)
    assert texts(ax.get_xticklabels()) == list("01234")
    assert texts(ax.get_yticklabels()) == list("0123")


def test_numpy_strings_are_labels_too():
    assert texts(plots.plot_attention(WEIGHTS, keys=np.array(FRENCH[:5])).get_xticklabels()) == FRENCH[:5]


TOKENS = ["$x$", "<script>alert(1)</script>", r"\$5 and $6", "_", "^", r"$\frac$", "le\n", " "]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("token", TOKENS)
def test_tokens_are_drawn_as_they_are(token):
    ax = plots.plot_attention(np.eye(1), [token], [token])
    bars = plots.plot_weights([1.0], [token])
    curves = plots.plot_curves([token], {"a": [1.0]})
    shown = token if token.isprintable() and token.strip() else repr(token)
    for labels in (ax.get_xticklabels(), ax.get_yticklabels(), bars.get_xticklabels(), curves.get_xticklabels()):
        assert texts(labels) == [shown]
        assert not labels[0].get_parse_math()
    for figure in map(plt.figure, plt.get_fignums()):
        figure.canvas.draw()  # a formula would be an error, or drawn without its signs


def test_values_are_written_into_their_cells():
    ax = plots.plot_attention(WEIGHTS, values=True)
    for text in ax.texts:
        j, i = text.get_position()
        assert text.get_text() == f"{WEIGHTS[i, j]:.2f}"
    assert len(ax.texts) == WEIGHTS.size


def test_gold_links_outline_query_and_key():
    ax = plots.plot_attention(WEIGHTS, links=[(0, 4), (3, 1)])
    centers = [(p.get_y() + p.get_height() / 2, p.get_x() + p.get_width() / 2) for p in ax.patches]
    assert centers == [pytest.approx((0, 4)), pytest.approx((3, 1))]
    assert not any(p.get_fill() for p in ax.patches)


def test_a_map_goes_into_the_axes_that_are_given():
    figure, axes = plt.subplots(1, 2)
    assert plots.plot_attention(WEIGHTS, ax=axes[1], title="head 1") is axes[1]
    assert axes[1].get_title(loc="left") + axes[1].get_title() == "head 1"
    assert len(figure.axes) == 2
    assert len(plt.get_fignums()) == 1


# --- bars and curves ---


@every_kind
def test_bars_have_the_height_of_the_weights(kind):
    ax = plots.plot_weights({"a": KINDS[kind][0], "b": KINDS[kind][3]}, FRENCH[:5], title="two")
    heights = [[bar.get_height() for bar in bars] for bars in ax.containers]
    assert heights == [WEIGHTS[0].tolist(), WEIGHTS[3].tolist()]
    assert texts(ax.get_legend().get_texts()) == ["a", "b"]
    assert ax.get_ylim() == (0, 1)
    centers = [[bar.get_x() + bar.get_width() / 2 for bar in bars] for bars in ax.containers]
    assert np.mean(centers, axis=0) == pytest.approx(range(5))
    assert centers[0][0] < centers[1][0]


def test_one_vector_needs_no_legend_and_numbers_outside_0_to_1_are_seen():
    ax = plots.plot_weights([-1.5, 3.0], ["le", "chat"], values=True)
    assert ax.get_legend() is None
    assert ax.get_ylim()[0] < -1.5
    assert ax.get_ylim()[1] > 3
    assert texts(ax.texts) == ["-1.50", "3.00"]


@every_kind
def test_curves_over_seeds_show_mean_and_range(kind):
    ax = plots.plot_curves([1, 2, 4, 8, 16], {"runs": KINDS[kind], "one": KINDS[kind][0]}, xlog=2)
    runs, one = ax.lines
    assert runs.get_xdata().tolist() == [1, 2, 4, 8, 16]
    assert runs.get_ydata() == pytest.approx(WEIGHTS.mean(axis=0))
    assert one.get_ydata() == pytest.approx(WEIGHTS[0])
    (band,) = ax.collections
    corners = band.get_paths()[0].vertices
    for x, low, high in zip([1, 2, 4, 8, 16], WEIGHTS.min(axis=0), WEIGHTS.max(axis=0), strict=True):
        drawn = corners[corners[:, 0] == x, 1]
        assert (drawn.min(), drawn.max()) == (low, high)


def test_scales_and_labels_of_curves():
    y = [0.9, 0.5, 0.25]
    ax = plots.plot_curves([4, 8, 16], {"a": y}, xlabel="$d_k$", ylabel="accuracy", xlog=2, percent=True)
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "linear")
    assert texts(ax.get_xticklabels()) == ["4", "8", "16"]
    assert ax.yaxis.get_major_formatter()(0.5) == "50%"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("$d_k$", "accuracy")
    assert ax.get_legend() is None
    assert plots.plot_curves([1, 10, 100], {"a": y}, xlog=10, ylog=True).get_yscale() == "log"
    named = plots.plot_curves(["4-8", "9-12", "13-16"], {"a": y, "b": y})
    assert texts(named.get_xticklabels()) == ["4-8", "9-12", "13-16"]
    assert texts(named.get_legend().get_texts()) == ["a", "b"]


# --- describe ---


def test_describe():
    assert plots.describe(plots.plot_attention(WEIGHTS, ENGLISH[:4], FRENCH[:5], title="head 0", links=[(0, 0)])) == (
        "'head 0'; map of 4 rows x 5 columns, first row at the top, colors 0 to 1; 1 outlined; "
        "x = 'key', 5 ticks: le chat noir est assis; y = 'query', 4 ticks: the black cat is"
    )
    assert plots.describe(plots.plot_weights({"a": [0.5, 0.5], "b": [1, 0]}, ["le", "chat"])) == (
        "2 bars 'a'; 2 bars 'b'; x, 2 ticks: le chat; y = 'weight'"
    )
    curves = {"scaled": np.ones((3, 2)), "raw": [0.5, 0.25]}
    assert plots.describe(plots.plot_curves([4, 8], curves, xlabel="d", ylabel="accuracy", xlog=2)) == (
        "curve 'scaled' with 2 points; curve 'raw' with 2 points; 1 band; x = 'd' (log), 2 ticks: 4 8; y = 'accuracy'"
    )
    _, ax = plt.subplots()
    ax.scatter([1, 2, 3], [3, 2, 1], label="keys")
    ax.imshow(np.zeros((2, 3)), origin="lower", vmin=-1, vmax=1)
    assert plots.describe(ax) == (
        "map of 2 rows x 3 columns, first row at the bottom, colors -1 to 1; 3 dots 'keys'; x; y"
    )


def test_describe_holds_no_measured_value():
    lines = {
        plots.describe(plots.plot_curves([1, 2, 3], {"loss": rng.random((3, 3))}, ylabel="loss"))
        for rng in map(np.random.default_rng, range(3))
    }
    assert len(lines) == 1


# --- the style ---


def test_the_style_is_white_quiet_and_small(tmp_path):
    with mpl.rc_context():
        plots.use_style()
        assert to_hex(mpl.rcParams["figure.facecolor"]) == to_hex(mpl.rcParams["savefig.facecolor"]) == "#ffffff"
        assert len(mpl.rcParams["axes.prop_cycle"]) == 7
        assert mpl.rcParams["figure.dpi"] == mpl.rcParams["savefig.dpi"]  # notebooks use the first, savefig the second
        ax = plots.plot_attention(rows_and_keys(13, 12), ENGLISH, FRENCH, links=[(0, 0)])
        ax.figure.savefig(tmp_path / "map.png")
        steps = np.arange(400)
        curves = {f"run {i}": np.exp(-steps / (20 + 9 * i)) for i in range(6)}
        ax = plots.plot_curves(steps, curves)
        assert not ax.spines["top"].get_visible()
        ax.figure.savefig(tmp_path / "curves.png")
    for file in ("map.png", "curves.png"):
        assert 10_000 < os.path.getsize(tmp_path / file) < 100_000
        assert plt.imread(tmp_path / file)[0, 0].tolist() == [1, 1, 1, 1]
        assert 700 < plt.imread(tmp_path / file).shape[1] < 900


# --- bad input ---


NAN = np.full((2, 3), np.nan)
BAD = {
    "3-D": (lambda: plots.plot_attention(np.ones((2, 4, 5))), r"weights .*\(T_q, T_k\).*got \(2, 4, 5\): pick one"),
    "1-D": (lambda: plots.plot_attention(torch.ones(4)), r"weights .*got \(4,\)"),
    "empty": (lambda: plots.plot_attention(np.ones((0, 3))), r"weights .*none of them 0, got \(0, 3\)"),
    "queries": (lambda: plots.plot_attention(WEIGHTS, ENGLISH[:5]), "queries must hold 4 labels, got 5"),
    "keys": (lambda: plots.plot_attention(WEIGHTS, keys=FRENCH[:4]), "keys must hold 5 labels, got 4"),
    "scores": (lambda: plots.plot_attention([[-2.5, 3.0]]), "weights must lie from 0 to 1, got -2.5 to 3"),
    "infinite": (lambda: plots.plot_attention([[0, np.inf]]), "weights must lie from 0 to 1, got 0 to inf"),
    "NaN": (lambda: plots.plot_attention(NAN), "weights must not hold NaN, got 6 among 6"),
    "ragged": (lambda: plots.plot_attention([[1, 0], [1]]), "weights must have rows of equal length"),
    "words": (lambda: plots.plot_attention([["a", "b"]]), "weights must hold real numbers, got dtype <U1"),
    "complex": (lambda: plots.plot_attention(torch.ones(2, 2) * 1j), "must hold real numbers, got dtype complex64"),
    "link": (lambda: plots.plot_attention(WEIGHTS, links=[(4, 0)]), r"links must lie inside the 4 x 5 .*got \(4, 0\)"),
    "links": (lambda: plots.plot_attention(WEIGHTS, links=[3]), r"links must hold \(query, key\) index pairs, got 3"),
    "bars": (lambda: plots.plot_weights(WEIGHTS), r"weights must have shape \(n,\).*got \(4, 5\)"),
    "bar labels": (lambda: plots.plot_weights([1, 0], ["le"]), "labels must hold 2 labels, got 1"),
    "bar lengths": (lambda: plots.plot_weights({"a": [1], "b": [1, 0]}), r"weights\[.b.\] must .* vector, 1, got 2"),
    "no bars": (lambda: plots.plot_weights({}), "weights must hold at least one vector"),
    "infinite bars": (lambda: plots.plot_weights([1, np.inf]), "weights must be finite, got 1 infinite"),
    "curve": (lambda: plots.plot_curves([1, 2], {"a": [1, 2, 3]}), r"curves\['a'\] .*shape \(2,\) or .*got \(3,\)"),
    "seeds": (lambda: plots.plot_curves([1, 2], {"a": np.ones((2, 3))}), r"curves\['a'\] .*\(seeds, 2\), got \(2, 3\)"),
    "no curves": (lambda: plots.plot_curves([1, 2], {}), "curves must be a dict of at least one curve"),
    "curves": (lambda: plots.plot_curves([1, 2], [1, 2]), "curves must be a dict .*got list"),
    "xlog": (lambda: plots.plot_curves([1, 2], {"a": [1, 2]}, xlog=True), "xlog must be None, 2 or 10, got True"),
    "x <= 0": (lambda: plots.plot_curves([0, 2], {"a": [1, 2]}, xlog=2), "x must hold positive .* for xlog=2, got 0"),
    "x NaN": (lambda: plots.plot_curves([np.nan, 2], {"a": [1, 2]}), "x must not hold NaN"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_names_the_argument_and_draws_nothing(case):
    call, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        call()
    assert plt.get_fignums() == []


def test_inputs_are_not_touched():
    weights, labels = WEIGHTS.copy(), FRENCH[:5]
    plots.plot_attention(weights, keys=labels)
    plots.plot_weights({"a": weights[0]}, labels)
    plots.plot_curves(np.arange(5), {"a": weights})
    assert np.array_equal(weights, WEIGHTS)
    assert labels == FRENCH[:5]


def test_no_torch_is_imported():
    code = "import sys; from attnlib import plots; plots.plot_attention([[1, 0]]); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "MPLBACKEND": "agg"})
