"""Runs notebooks and stores their outputs, or starts a new chapter (make notebooks, make chapter).

notebooks.py run [NAME ...]    run all chapters, or those named, and store what they print
notebooks.py new NAME          start notebooks/NAME.ipynb from the template, for example 12_topic
"""

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
TEMPLATE = Path(__file__).with_name("template.ipynb")
GUARD = ROOT / "tests" / "guard.py"
COLORS = re.compile(r"\x1b\[[0-9;]*m")
NAME = re.compile(r"(\d\d|A\d)_[a-z0-9]+(_[a-z0-9]+)*")

# Stored outputs are made, and compared, on the CPU with one thread and without progress bars.
QUIET = {"ATTNLIB_DEVICE": "cpu", "OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"}
# The only metadata a notebook may have. It names no version of Python: that would change with every machine.
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "pygments_lexer": "ipython3",
    },
}
FOLDED = {"cellView": "form", "jupyter": {"source_hidden": True}, "tags": ["hide-input"]}


def folded(source, **more):
    """The metadata of a folded cell, under the title in its first line: `#@title` for Colab, a prompt for the site."""
    title = source.splitlines()[0].removeprefix("#@title ")
    return {**FOLDED, "mystnb": {"code_prompt_show": title, "code_prompt_hide": title}, **more}


class Client(NotebookClient):
    """A notebook client whose kernel is a given Python, whatever kernels are installed on this machine."""

    python = sys.executable

    def create_kernel_manager(self):
        manager = super().create_kernel_manager()
        manager.kernel_spec.argv = [self.python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return manager


def execute(nb, folder, python=sys.executable, env=None, timeout=300):
    """Run every cell of `nb` in `folder` and keep the outputs in `nb`; raises the errors that no tag allows."""
    client = Client(nb, kernel_name="python3", timeout=timeout, record_timing=False, coalesce_streams=True)
    client.python = str(python)
    env = {**os.environ, **QUIET, **(env or {})}
    client.execute(cwd=str(folder), env=env, stderr=subprocess.DEVNULL)  # the kernel's own, not that of cells
    return nb


def refresh_guard(nb):
    """Give the guard cell of `nb` the source and the metadata of the template."""
    guards = [cell for cell in nb.cells if cell.get("id") == "guard"]
    if len(guards) != 1:
        raise ValueError(f"expected one cell with the id 'guard', got {len(guards)}")
    guards[0].source = GUARD.read_text(encoding="utf-8").rstrip("\n")
    guards[0].metadata = nbformat.from_dict(folded(guards[0].source))


def tidy(nb):
    """Remove everything from `nb` that differs between two runs or two front ends, in place."""
    nb.nbformat, nb.nbformat_minor, nb.metadata = 4, 5, nbformat.from_dict(METADATA)
    count = 0
    for cell in nb.cells:
        cell.metadata = nbformat.from_dict(kept(cell.metadata))
        if cell.source.startswith("#@title "):
            cell.metadata.update(folded(cell.source, tags=cell.metadata.get("tags", FOLDED["tags"])))
        if cell.cell_type != "code":
            continue
        count += 1
        cell.execution_count = count
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = count
            if output.output_type == "error":  # a traceback shows the paths of this machine
                output.traceback = [f"{output.ename}: {output.evalue}"]


def kept(metadata):
    """The part of a cell's metadata that the course uses: tags, folding and the alt text of a figure."""
    names = ("cellView", "jupyter", "mystnb", "tags")
    metadata = {name: metadata[name] for name in names if metadata.get(name)}
    if "jupyter" in metadata:
        metadata["jupyter"] = {k: v for k, v in metadata["jupyter"].items() if k == "source_hidden" and v}
    return {name: value for name, value in metadata.items() if value}


def write(nb, path):
    """Write `nb` as text that is the same on every machine."""
    path.write_text(nbformat.writes(nb) + "\n", encoding="utf-8", newline="\n")


def run(path):
    """Run the notebook at `path` in its own folder and store its outputs; nothing is written if it fails."""
    nb = nbformat.read(path, as_version=4)
    refresh_guard(nb)
    execute(nb, path.parent)
    tidy(nb)
    write(nb, path)


def run_all(paths):
    """Run the notebooks one after the other, print the seconds each took; returns the number that failed."""
    failures = 0
    for path in paths:
        start = time.perf_counter()
        try:
            run(path)
            verdict = f"{time.perf_counter() - start:6.1f} s"
        except (CellExecutionError, CellTimeoutError, DeadKernelError, ValueError) as error:
            failures += 1
            verdict = f"failed, left as it was:\n{COLORS.sub('', str(error))}"
        print(f"{path.stem:32} {verdict}", flush=True)
    return failures


def new(name):
    """Start the chapter `name` (such as 12_topic) from the template, and return its path."""
    if not NAME.fullmatch(name):
        raise ValueError(f"NAME must look like 12_topic (two digits, lower case, underscores), got {name!r}")
    path = NOTEBOOKS / f"{name}.ipynb"
    if path.exists():
        raise ValueError(f"NAME must be a new chapter, but {path.relative_to(ROOT)} exists")
    number = name.split("_")[0]
    text = TEMPLATE.read_text(encoding="utf-8")
    # The template is chapter 0: "Exercise 0.1" for the reader, check("00.1") in code.
    text = text.replace('check(\\"00.', f'check(\\"{number}.')
    text = re.sub(r"\b(Exercise|Solution) 0\.", rf"\g<1> {number.lstrip('0')}.", text)
    nb = nbformat.reads(text, as_version=4)
    refresh_guard(nb)
    write(nb, path)
    return path


def chapters(names):
    """The paths of the named chapters, or of all."""
    known = {path.stem: path for path in sorted(NOTEBOOKS.glob("*.ipynb"))}
    names = [Path(name).stem for name in names] or list(known)
    for name in names:
        if name not in known:
            raise ValueError(f"NAME must be one of {', '.join(known) or '(no notebooks yet)'}, got {name!r}")
    return [known[name] for name in names]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("run", help="run chapters and store their outputs").add_argument("name", nargs="*")
    commands.add_parser("new", help="start a chapter from the template").add_argument("name")
    args = parser.parse_args()
    try:
        if args.command == "run":
            sys.exit(run_all(chapters(args.name)) > 0)
        path = new(args.name).relative_to(ROOT)
        print(f"{path} is a copy of the template. Write it, then: make notebooks NAME={path.stem}")
    except ValueError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
