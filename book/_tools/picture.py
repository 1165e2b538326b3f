"""Draws the picture of the landing page from what chapters 01 and 03 train (make picture, about two minutes)."""

import json

import matplotlib.pyplot as plt
import nbformat
from matplotlib.ticker import PercentFormatter
from PIL import Image

from attnlib.plots import plot_attention, use_style
from notebooks import NOTEBOOKS, ROOT, execute

STATIC = ROOT / "book" / "_static"
# The last cell of a chapter that is run, and what is then asked of its variables.
CHAPTERS = {
    "01_bottleneck": (
        "experiment-results",
        "{'lengths': bins, 'exact': {name: result[1].tolist() for name, result in results.items()}}",
    ),
    "03_bahdanau": (
        "map-running",
        "{'english': list(words), 'french': list(french), 'links': sorted(gold),"
        " 'weights': np.asarray(weights, dtype=float).round(4).tolist()}",
    ),
}
# Inches at 150 dots, rows and columns of panels, their widths, and how much of the height they get.
FILES = {
    "picture.png": {"size": (10.4, 4.4), "grid": (1, 2), "widths": (1.3, 1), "height": 1},
    "picture-tall.png": {"size": (5.2, 8.4), "grid": (2, 1), "widths": (1,), "height": 1},
    "card.png": {"size": (12.8 / 1.5, 6.4 / 1.5), "grid": (1, 2), "widths": (1.3, 1), "height": 0.8},
}
TITLE, SUBTITLE = (
    "Attention, from scratch",
    "A course in which every claim is a cell that runs, in NumPy and in PyTorch",
)
GRAY = "#555555"


def measure(name):
    """Run the chapter `name` as far as it is needed, and return what CHAPTERS asks of it."""
    last, question = CHAPTERS[name]
    nb = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    ids = [cell.id for cell in nb.cells]
    nb.cells = nb.cells[: ids.index(last) + 1]
    nb.cells.append(nbformat.v4.new_code_cell(f"import json\nprint(json.dumps({question}))", id="picture"))
    return json.loads(execute(nb, NOTEBOOKS).cells[-1].outputs[0].text)


def stored(path=STATIC / "picture.png"):
    """The numbers that a picture was drawn from: `draw` writes them into the file."""
    with Image.open(path) as image:
        return json.loads(image.text["Data"])


def draw_curves(figure, data):
    """Which share of the sentences of each length comes out right, with one vector and with attention."""
    figure.suptitle("Sentences translated without a mistake", x=0.02, ha="left", weight="bold")
    ax = figure.subplots()
    for color, name, place in (("C0", "attention", (4.35, 0.8)), ("C1", "fixed vector", (0.9, 0.38))):
        ax.plot(data["lengths"], data["exact"][name], marker="o", color=color, linewidth=2.4, markersize=5)
        ax.text(*place, {"attention": "with attention"}.get(name, "one fixed vector"), color=color, weight="bold")
    ax.axvline(3.5, color=GRAY, linestyle=":", linewidth=1)
    ax.text(3.6, 1.07, "longer than in training", size=8.5, color=GRAY, va="top")
    ax.set(ylim=(-0.03, 1.09), xlabel="words in the French sentence")
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.grid(axis="y")


def draw_map(figure, data):
    """Where the model looked in the French sentence while it wrote each English word."""
    figure.suptitle("Where it looks, word by word", x=0.02, ha="left", weight="bold")
    ax = plot_attention(data["weights"], data["english"], data["french"], ax=figure.subplots(), links=data["links"])
    ax.set(xlabel=None, ylabel=None)
    note = "outlined: the true translation, which it was never shown"
    ax.text(1, -0.02, note, size=7.5, color=GRAY, ha="right", va="top", transform=ax.transAxes)


def draw(data, path, size, grid, widths, height):
    """Draw both panels into the file `path`, and write the numbers into it."""
    with plt.rc_context():
        use_style()
        plt.rcParams.update({"font.size": 10, "figure.titlesize": 11.5, "savefig.dpi": 150})
        figure = plt.figure(figsize=size, layout="constrained")
        figure.get_layout_engine().set(rect=(0.01, 0.01, 0.98, height - 0.02))
        curves, look = figure.subfigures(*grid, width_ratios=widths)
        draw_curves(curves, data)
        draw_map(look, data)
        if height < 1:
            figure.text(0.03, 0.95, TITLE, size=23, weight="bold", va="top")
            figure.text(0.03, 0.85, SUBTITLE, size=12, color=GRAY, va="top")
        figure.savefig(path, metadata={"Software": None, "Data": json.dumps(data)})
        plt.close(figure)


def main():
    data = {key: value for name in CHAPTERS for key, value in measure(name).items()}
    for name, form in FILES.items():
        draw(data, STATIC / name, **form)
        print(f"{(STATIC / name).relative_to(ROOT)}: {(STATIC / name).stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
