"""The build of the book: what must break it does, and says where; what it leans on is checked; nothing stays behind."""

import os
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest
from book_build import ROOT, build_book, copy_book
from sphinx.errors import ExtensionError
from sphinxcontrib import katex

sys.path.insert(0, str(ROOT / "book" / "_ext"))
import coursebook
import light

CELL = '{"cells": [{"cell_type": "markdown", "id": "a", "metadata": {}, "source": %s}], "metadata": %s, %s}'
META = '{"kernelspec": {"name": "python3", "display_name": "p"}, "language_info": {"name": "python"}}'
FORMAT = '"nbformat": 4, "nbformat_minor": 5'


@pytest.mark.parametrize(
    ("page", "text", "message"),
    [
        ("fine.ipynb", CELL % ('"# Fine\\n\\n$x$"', META, FORMAT), None),
        ("broken.ipynb", '{"cells": [', r"broken\.ipynb: WARNING: not a notebook: .* not appear to be JSON"),
        ("old.ipynb", "{}", r"old\.ipynb: WARNING: not a notebook: "),
        ("untitled.ipynb", CELL % ('"Text only."', META, FORMAT), r"untitled.*title"),
        ("link.md", "# A link\n\n[nowhere](missing.md)\n", r"link\.md:3: WARNING: .*missing\.md"),
        ("anchor.md", "# An anchor\n\n[nowhere](#no-such-heading)\n", r"anchor\.md:3: WARNING: .*no-such-heading"),
        ("formula.md", "# TeX\n\nInline $\\frac{1}$.\n", r"formula\.md:3: WARNING: wrong formula: .*parse error"),
        ("formula.ipynb", CELL % (r'"# TeX\n\n$$\\nosuch{1}$$"', META, FORMAT), r"formula\.ipynb.*wrong formula"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 16 else "",
)
def test_a_broken_page_breaks_the_build_and_is_named(tmp_path, page, text, message):
    copy_book(tmp_path, "_config.yml", "book/_ext", "book/_static", "book/_vendor")
    stem = page.split(".")[0]
    (tmp_path / "_toc.yml").write_text(f"format: jb-book\nroot: start\nchapters:\n  - file: {stem}\n", encoding="utf-8")
    (tmp_path / "start.md").write_text("# Start\n\nHere.\n", encoding="utf-8")
    (tmp_path / page).write_text(text, encoding="utf-8")
    status, printed = build_book(tmp_path)
    assert (status == 0) == (message is None), printed
    assert message is None or re.search(message, printed), printed


def test_the_css_of_katex_is_of_the_version_that_draws(monkeypatch):
    coursebook.prepare_math()
    monkeypatch.setattr(katex, "katex_version", "0.0.1")
    with pytest.raises(ExtensionError, match=r"katex\.min\.css is not of KaTeX 0\.0\.1"):
        coursebook.prepare_math()


def test_a_changed_katex_extension_is_noticed(monkeypatch):
    monkeypatch.delattr(katex.KaTeXServer, "get")
    with pytest.raises(ExtensionError, match=r"no KaTeXServer\.get"):
        coursebook.prepare_math()


def test_a_changed_theme_is_noticed():
    head = '<link href="a.css">\n<script defer src="_static/scripts/fontawesome.js?digest=1"></script>\n<meta>'
    assert light.replace(light.ICON_SCRIPT, "", head, 1) == '<link href="a.css">\n<meta>'
    with pytest.raises(ExtensionError, match=r"should have .*fontawesome.* 1 times, found 0"):
        light.light_styles("<meta>")


def test_node_ends_with_the_build_even_if_that_is_killed():
    script = """
import sys, time
sys.path.insert(0, sys.argv[1])
import coursebook
from sphinxcontrib import katex
coursebook.prepare_math()
assert "katex-html" in katex.render_latex("x")
print(katex.KaTeXServer.get().process.pid, flush=True)
time.sleep(60)
"""
    command = [sys.executable, "-c", script, ROOT / "book" / "_ext"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as build:
        node = psutil.Process(int(build.stdout.readline()))
        assert node.is_running()
        os.kill(build.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while node.is_running() and node.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not node.is_running() or node.status() == psutil.STATUS_ZOMBIE


def test_the_api_pages_name_every_public_function_and_layer():
    from attnlib import explorers, layers

    pages = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "book" / "api").glob("*.md")))
    assert ".. automodule:: attnlib.functional\n   :members:\n" in pages  # all of them
    wanted = [name for name in vars(explorers) if name.endswith("_explorer")]
    wanted += [name for name, value in vars(layers).items() if isinstance(value, type) and name[0] != "_"]
    assert [name for name in wanted if name not in pages] == ["PreparedKeys"]  # a step between two calls of a layer
