"""The front of the course: the picture shows what the chapters print, and the texts around it say what is so."""

import re
import sys

import nbformat
import numpy as np
import picture
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from PIL import Image, ImageChops

from attnlib.corpus import RUNNING_EXAMPLE
from notebooks import NOTEBOOKS, ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))
from lite import runs_in_browser

TOC = (ROOT / "_toc.yml").read_text(encoding="utf-8")
CHAPTERS = [path for path in sorted(NOTEBOOKS.glob("*.ipynb")) if f"notebooks/{path.stem}\n" in TOC]
FRONT = {name: (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "book/intro.md")}
LOOKS = ["black", "cat", "red", "carpet", "living", "room"]  # the words that chapter 03 asks about
EVERY_FILE = pytest.mark.parametrize("name", picture.FILES)
EVERY_TEXT = pytest.mark.parametrize("name", FRONT)


def printed(chapter, cell_id):
    cells = nbformat.read(NOTEBOOKS / f"{chapter}.ipynb", as_version=4).cells
    return next(cell.outputs[0].text for cell in cells if cell.id == cell_id)


def test_the_curves_are_those_of_chapter_01():
    rows = re.findall(r"^(\w+(?: \w+)*) +\[([\d ]+)\] \[", printed("01_bottleneck", "experiment-table"), re.M)
    percent = {name: [int(number) for number in numbers.split()] for name, numbers in rows}
    assert list(percent) == ["fixed vector", "attention"]
    shown = picture.stored()
    assert {name: [round(100 * y) for y in curve] for name, curve in shown["exact"].items()} == percent
    assert shown["lengths"] == ["4-8", "9-12", "13-16", "17-20", "21-24", "25-28", "29-32", "33-36"]


def test_the_map_is_that_of_chapter_03():
    shown = picture.stored()
    weights = np.array(shown["weights"])
    assert " ".join(shown["english"]) + "\n" == printed("03_bahdanau", "train-facts")
    assert tuple(shown["french"]) == RUNNING_EXAMPLE.source
    assert {tuple(link) for link in shown["links"]} == set(RUNNING_EXAMPLE.links)
    assert weights.shape == (13, 12)
    assert np.allclose(weights.sum(axis=1), 1, atol=1e-3)
    looks = [shown["french"][weights[shown["english"].index(word)].argmax()] for word in LOOKS]
    assert f"{looks}\n" == printed("03_bahdanau", "map-facts")


@EVERY_FILE
def test_a_picture_is_small_and_is_what_the_tool_draws(tmp_path, name):
    path = picture.STATIC / name
    assert path.stat().st_size < 150_000
    assert picture.stored(path) == picture.stored()
    form = picture.FILES[name]
    picture.draw(picture.stored(), tmp_path / name, **form)
    with Image.open(path) as kept, Image.open(tmp_path / name) as drawn:
        assert kept.size == drawn.size == tuple(round(150 * side) for side in form["size"])
        difference = np.asarray(ImageChops.difference(kept.convert("RGB"), drawn.convert("RGB"))).max(axis=-1)
    assert (difference > 64).mean() < 2e-4  # another matplotlib may shade an edge differently


def test_the_card_has_the_size_that_link_previews_ask_for():
    with Image.open(picture.STATIC / "card.png") as card:
        assert card.size == (1280, 640)


def test_measure_runs_a_chapter_as_far_as_it_is_asked(tmp_path, monkeypatch):
    cells = [new_code_cell("x = [1, 2]", id="first"), new_code_cell("raise ValueError", id="second")]
    nbformat.write(new_notebook(cells=cells), tmp_path / "12_topic.ipynb")
    monkeypatch.setattr(picture, "NOTEBOOKS", tmp_path)
    monkeypatch.setattr(picture, "CHAPTERS", {"12_topic": ("first", "{'twice': x * 2}")})
    assert picture.measure("12_topic") == {"twice": [1, 2, 1, 2]}


@EVERY_TEXT
def test_the_words_for_the_picture_say_what_it_shows(name):
    exact = {model: [round(100 * y) for y in curve] for model, curve in picture.stored()["exact"].items()}
    fixed, attention = exact["fixed vector"], exact["attention"]
    alt = re.search(r'<img [^>]*alt="([^"]*)"', FRONT[name])[1]
    assert f"from {fixed[0]} percent at 4 to 8 words to {fixed[3]} at 17 to 20 words" in alt
    assert f"between {min(attention[:4])} and {max(attention[:4])} percent up to 20 words" in alt
    if name == "book/intro.md":
        assert fixed[3] == 0
        assert f"gets none right, the one with attention {attention[3]}." in FRONT[name]


@EVERY_TEXT
def test_a_text_links_to_every_chapter_and_says_which_run_in_the_browser(name):
    linked = re.findall(r"\((?:\.\./)?notebooks/(\w+)\.ipynb\)", FRONT[name])
    assert set(linked) == {path.stem for path in CHAPTERS}
    sentence = re.search(r"Chapters ([^.]*?) (?:also run there|begin in NumPy)", re.sub(r"\]\(.*?\)", "]", FRONT[name]))
    numbers = re.findall(r"\b\d\d\b", sentence[1])
    assert numbers == [path.stem[:2] for path in CHAPTERS if runs_in_browser(path)]
    if name == "book/intro.md":
        assert runs_in_browser(NOTEBOOKS / re.search(r"lite/notebooks/index.html\?path=(\S+)", FRONT[name])[1])
