"""The Sphinx extension that puts JupyterLite into the site: chapters whose first half is NumPy run in the browser."""

import html
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path
from urllib.parse import quote

import nbformat
from sphinx.errors import ExtensionError

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "book" / "lite"
KERNEL = Path(sys.prefix, "share", "jupyter", "labextensions", "@jupyterlite", "pyodide-kernel-extension")
# A chapter with this heading has all its NumPy cells above it, and none that needs PyTorch (a static test).
HEADING = re.compile(r"^## The same in PyTorch$", re.M)
# Loaded side by side while Python starts. Without this the kernel would take some of them one after the other, and
# the guard cell, which looks for attnlib without importing it, would not find it.
PACKAGES = ["micropip", "ssl", "sqlite3", "jedi", "ipython", "numpy", "matplotlib"]
# It would lend Python the files of the page, which no chapter needs, at the price of a slow request for every import,
# and keep a worker in the reader's browser.
DISABLED = ["@jupyterlite/application-extension:service-worker-manager"]


def runs_in_browser(path):
    """Whether the page in the file `path` is a chapter whose first half is NumPy."""
    if path.suffix != ".ipynb":
        return False
    cells = nbformat.read(path, as_version=4).cells
    return any(cell.cell_type == "markdown" and HEADING.search(cell.source) for cell in cells)


def pack(folder, name, version, files):
    """Write a wheel of pure Python into `folder`: `files` maps the names in it to files. Returns its path."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    about = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: coursebook\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "".join(f"{file},,\n" for file in files),
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file, source in files.items():
            archive.write(source, file)
        for file, text in about.items():
            archive.writestr(file, text)
    return path


def pack_library(folder):
    """A wheel of attnlib as it stands here, and in it the module that stands in for PyTorch."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    files = {f"attnlib/{path.name}": path for path in sorted((ROOT / "attnlib").iterdir()) if path.is_file()}
    return pack(folder, project["name"], project["version"], {**files, "torch.py": FILES / "torch.py"})


def pack_installed(folder, name):
    """A wheel of the installed package `name`, which the kernel would otherwise ask of PyPI."""
    package = importlib.metadata.distribution(name)
    files = {str(f): f.locate() for f in package.files if f.suffix == ".py" and f.parts[0] == name}
    return pack(folder, name, package.version, files)


def build(output, notebooks, pyodide):
    """Build JupyterLite with `notebooks` into the folder `output`; `pyodide` is the address or folder of Pyodide."""
    with tempfile.TemporaryDirectory() as temporary:
        project = Path(temporary)
        for folder in ("content", "pypi"):
            (project / folder).mkdir()
        for notebook in notebooks:
            shutil.copy(notebook, project / "content")
        wheels = [pack_library(project / "pypi"), pack_installed(project / "pypi", "comm")]
        # Pyodide takes an address relative to the kernel's worker, in extensions/@jupyterlite/NAME/static.
        packages = [*PACKAGES, *(f"../../../../pypi/{wheel.name}" for wheel in wheels)]
        kernel = {"loadPyodideOptions": {"packages": packages}}
        if re.match("https?://", pyodide):
            kernel["pyodideUrl"] = asked = pyodide.rstrip("/") + "/pyodide.js"
        elif (ROOT / pyodide / "pyodide.js").is_file():
            shutil.copytree(ROOT / pyodide, project / "static" / "pyodide")
            asked = "../static/pyodide/pyodide.js"
        else:
            raise ExtensionError(f"lite: pyodide must be an address or a folder with pyodide.js, got {pyodide!r}")
        plugins = {"@jupyterlite/pyodide-kernel-extension:kernel": kernel}
        settings = {
            "jupyter-lite-schema-version": 0,
            "jupyter-config-data": {"litePluginSettings": plugins, "disabledExtensions": DISABLED},
        }
        options = {
            "apps": ["notebooks"],
            "contents": ["content"],
            "federated_extensions": [str(KERNEL)],
            "ignore_sys_prefix": ["federated_extensions"],  # whatever else is installed stays out
            "no_sourcemaps": True,
            "no_unused_shared_packages": True,
            "no_libarchive": True,
            "output_dir": str(output),
        }
        (project / "jupyter-lite.json").write_text(json.dumps(settings), encoding="utf-8")
        (project / "jupyter_lite_config.json").write_text(json.dumps({"LiteBuildConfig": options}), encoding="utf-8")
        shutil.copy(FILES / "overrides.json", project)
        shutil.rmtree(output, ignore_errors=True)
        command = [sys.executable, "-m", "jupyterlite_core", "build"]
        run = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
        if run.returncode:
            raise ExtensionError(f"lite: jupyter lite build failed\n{run.stdout}{run.stderr}")
    shutil.copy(FILES / "notice.js", output)
    page = output / "notebooks" / "index.html"
    notice = f'<script src="../notice.js" data-pyodide="{html.escape(asked)}" defer></script>\n  </head>'
    before, head_ends, after = page.read_text(encoding="utf-8").partition("</head>")
    if not head_ends:
        raise ExtensionError("lite: JupyterLite's page has no </head> any more, where the notice goes")
    page.write_text(before + notice + after, encoding="utf-8")


def add_button(app, pagename, templatename, context, doctree):
    """Put the button that opens a chapter in the browser first among those at the top of its page."""
    if doctree is not None and runs_in_browser(Path(app.env.doc2path(pagename))):
        address = context["pathto"]("lite/notebooks/index.html", 1)
        context["header_buttons"].insert(
            0,
            {
                "type": "link",
                "url": f"{address}?path={quote(pagename.split('/')[-1])}.ipynb",
                "text": "Run",
                "icon": "fas fa-play",
                "tooltip": "Run the NumPy cells in the browser: nothing to install; loads Python, about 35 MB",
                "label": "lite",
            },
        )


def build_lite(app, exception):
    """After the pages: JupyterLite, where a chapter of the book runs in it."""
    if exception is None and app.builder.format == "html":
        pages = [Path(app.env.doc2path(name)) for name in sorted(app.env.found_docs)]
        if any(runs_in_browser(page) for page in pages):
            notebooks = [page for page in pages if page.suffix == ".ipynb"]  # all, for the links between them
            build(Path(app.outdir) / "lite", notebooks, os.environ.get("ATTNLIB_PYODIDE") or app.config.lite_pyodide)


def setup(app):
    app.add_config_value("lite_pyodide", None, "html", str)
    app.connect("html-page-context", add_button, priority=900)  # after the theme's own buttons
    app.connect("build-finished", build_lite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
