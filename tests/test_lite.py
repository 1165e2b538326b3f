"""Chapters in the browser: their NumPy halves run to the end in JupyterLite, with nothing from any other host."""

import json
import re
import runpy
import sys
import zipfile
from types import SimpleNamespace
from urllib.parse import urlsplit

import nbformat
import pyodide
import pytest
import yaml
from browser import find_browser, launched
from server import served
from sphinx.errors import ExtensionError

from notebooks import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))
import lite

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CHAPTERS = [path.stem for path in NOTEBOOKS if lite.runs_in_browser(path)]
# The first chapter runs on the site that holds its own Pyodide, the others as published: Pyodide from another host.
WAYS = [(name, "inside" if name == CHAPTERS[0] else "elsewhere") for name in CHAPTERS]
PATIENCE = 300_000  # milliseconds, for a busy machine
KERNEL = "Python (Pyodide)"
NO_PYTHON = "Python cannot be loaded from"


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """JupyterLite as the book builds it, twice: `inside`, `elsewhere` (addresses) and `pyodide` (that elsewhere)."""
    find_browser()
    copy = pyodide.local_pyodide(lite.PACKAGES)
    folder = tmp_path_factory.mktemp("lite")
    with served(copy) as elsewhere, served(folder) as address:
        lite.build(folder / "inside" / "lite", NOTEBOOKS, str(copy))
        lite.build(folder / "elsewhere" / "lite", NOTEBOOKS, elsewhere)
        yield SimpleNamespace(
            inside=f"{address}inside/", elsewhere=f"{address}elsewhere/", pyodide=elsewhere, folder=folder
        )


@pytest.fixture(scope="module")
def browser():
    with launched("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1") as chromium:
        yield chromium


def halves(name):
    """The code cells of a chapter: those above the heading on PyTorch, and the first one below it."""
    cells = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4).cells
    where = next(i for i, c in enumerate(cells) if c.cell_type == "markdown" and lite.HEADING.search(c.source))
    code = [[cell for cell in part if cell.cell_type == "code"] for part in (cells[:where], cells[where:])]
    return code[0], code[1][0]


def printed(cell):
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


def run_all(page):
    """Run all cells, as a reader does; returns what each code cell shows once the first one with an error has ended."""
    # Its name may stand in the toolbar's overflow menu, where it is not seen: JupyterLab decides that by a race.
    page.get_by_text(KERNEL).first.wait_for(state="attached", timeout=PATIENCE)
    page.locator(".lm-MenuBar-item", has_text=re.compile("^Run$")).click()
    page.get_by_text("Run All Cells", exact=True).click()
    page.wait_for_function(
        """() => [...document.querySelectorAll('.jp-Notebook [data-mime-type="application/vnd.jupyter.stderr"]')]
            .some(output => /Error|PyTorch does not run/.test(output.textContent))""",
        timeout=PATIENCE,
    )
    return page.evaluate(
        """() => [...document.querySelectorAll('.jp-Notebook .jp-CodeCell')].map(cell => {
            const shown = kind => [...cell.querySelectorAll(`[data-mime-type="application/vnd.jupyter.${kind}"]`)]
                .map(output => output.textContent).join('');
            return {printed: shown('stdout'), errors: shown('stderr')};
        })"""
    )


@pytest.mark.parametrize(("name", "way"), WAYS)
def test_the_numpy_half_runs_and_pytorch_says_where_it_would(sites, browser, name, way):
    numpy_half, first_torch = halves(name)
    assert any(re.search(r"\d\.\d", printed(cell)) for cell in numpy_half), "no number to compare"
    context = browser.new_context()
    try:
        asked = []
        context.on("request", lambda request: asked.append(request.url))
        page = context.new_page()
        site = getattr(sites, way)
        page.goto(f"{site}lite/notebooks/index.html?path={name}.ipynb")
        shown = run_all(page)
        for cell, result in zip(numpy_half, shown, strict=False):
            if "nbval-ignore-output" not in cell.metadata.get("tags", []):
                assert (cell.id, result["printed"]) == (cell.id, printed(cell))
            # matplotlib looks for fonts once, in a new browser, and says so
            assert re.sub("Matplotlib is building the font cache.*\n", "", result["errors"]) == "", cell.id
        assert "import torch" in first_torch.source
        assert shown[len(numpy_half)]["errors"].strip() == sentence()
        assert page.get_by_text(NO_PYTHON).count() == 0
        hosts = {urlsplit(url).netloc for url in asked if url.startswith(("http", "ws"))}
        expected = {urlsplit(site).netloc} | ({urlsplit(sites.pyodide).netloc} if way == "elsewhere" else set())
        assert hosts == expected
    finally:
        context.close()


def test_a_page_where_python_cannot_start_says_why(sites, browser):
    context = browser.new_context()
    try:
        context.route(f"{sites.pyodide}**", lambda route: route.abort())
        page = context.new_page()
        page.goto(f"{sites.elsewhere}lite/notebooks/index.html?path={CHAPTERS[0]}.ipynb")
        alert = page.get_by_role("alert")
        alert.get_by_text(f"{NO_PYTHON} {urlsplit(sites.pyodide).netloc}").wait_for(timeout=PATIENCE)
        page.goto((sites.folder / "elsewhere" / "lite" / "notebooks" / "index.html").as_uri())
        alert.get_by_text("only if the pages come from a web server").wait_for(timeout=PATIENCE)
    finally:
        context.close()


def sentence():
    """What the module that stands in for PyTorch says when it is imported."""
    with pytest.raises(ImportError) as caught:
        runpy.run_path(str(lite.FILES / "torch.py"))
    assert caught.value._render_traceback_() == [str(caught.value)]
    return str(caught.value)


def test_pytorch_is_refused_in_one_sentence():
    assert re.fullmatch(r"PyTorch does not run in the browser: [^.\n]+ Colab [^.\n]+\.", sentence())


def test_the_wheel_holds_the_library_and_the_stand_in(tmp_path):
    wheel = lite.pack_library(tmp_path)
    library = {f"attnlib/{path.name}" for path in (ROOT / "attnlib").iterdir() if path.is_file()}
    with zipfile.ZipFile(wheel) as archive:
        assert {name for name in archive.namelist() if ".dist-info/" not in name} == library | {"torch.py"}
        assert archive.read("torch.py") == (lite.FILES / "torch.py").read_bytes()


def test_the_site_asks_the_address_in_the_settings_or_holds_the_folder(tmp_path):
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["sphinx"]["config"]
    assert config["lite_pyodide"] == f"https://cdn.jsdelivr.net/pyodide/v{pyodide.VERSION}/full/"
    lite.build(tmp_path / "lite", NOTEBOOKS[:1], config["lite_pyodide"])
    data = json.loads((tmp_path / "lite" / "jupyter-lite.json").read_text(encoding="utf-8"))["jupyter-config-data"]
    kernel = data["litePluginSettings"]["@jupyterlite/pyodide-kernel-extension:kernel"]
    assert kernel["pyodideUrl"] == config["lite_pyodide"] + "pyodide.js"
    assert [name for name in kernel["loadPyodideOptions"]["packages"] if "://" in name] == []
    assert list((tmp_path / "lite").rglob("*.map")) == [], "source maps: 45 MB that no reader needs"
    assert [extension["name"] for extension in data["federated_extensions"]] == [
        "@jupyterlite/pyodide-kernel-extension"
    ]


def test_a_wrong_place_for_pyodide_is_named(tmp_path):
    with pytest.raises(ExtensionError, match=r"must be an address or a folder with pyodide\.js, got '.*nowhere'"):
        lite.build(tmp_path / "lite", NOTEBOOKS[:1], str(tmp_path / "nowhere"))
