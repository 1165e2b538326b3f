"""The tools behind make notebooks, chapter, rename and lock; and that nbval, as it is set up, is strict."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import lock
import nbformat
import pytest
import rename
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from notebook_rules import RULES, Notebook

import notebooks
from notebooks import ROOT


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A repository of its own for the notebooks of a test."""
    monkeypatch.setattr(notebooks, "ROOT", tmp_path)
    monkeypatch.setattr(notebooks, "NOTEBOOKS", tmp_path / "notebooks")
    (tmp_path / "notebooks").mkdir()
    return tmp_path / "notebooks"


def store(path, *sources, **metadata):
    """Write a notebook that was never run, with a guard and one cell for each source."""
    cells = [new_code_cell("", id="guard")]
    cells += [new_code_cell(source, id=f"cell-{i}", metadata=metadata) for i, source in enumerate(sources, 1)]
    nbformat.write(new_notebook(cells=cells), path)
    return path


# make chapter, make notebooks


def test_a_new_chapter_keeps_every_rule_once_it_was_run(folder):
    path = notebooks.new("12_topic")
    assert path == folder / "12_topic.ipynb"
    text = path.read_text(encoding="utf-8")
    assert "Exercise 12.3" in text
    assert 'check(\\"12.3' in text
    assert '\\"00.' not in text
    notebooks.run(path)
    notebook = Notebook.read(path)
    assert [complaint for rule in RULES for complaint in rule(notebook)] == []
    before = path.read_bytes()
    notebooks.run(path)
    assert path.read_bytes() == before


def test_the_number_of_a_new_chapter_has_a_zero_in_code_only(folder):
    text = notebooks.new("07_masks").read_text(encoding="utf-8")
    assert "Exercise 7.1" in text
    assert 'check(\\"07.1' in text
    assert "Solution 7.1" in text


def test_a_new_chapter_differs_from_the_template_in_the_numbers_of_its_exercises_only(folder):
    old = notebooks.TEMPLATE.read_text(encoding="utf-8").splitlines()
    new = notebooks.new("12_topic").read_text(encoding="utf-8").splitlines()
    changed = [(a, b) for a, b in zip(old, new, strict=True) if a != b]
    assert len(changed) == 18  # three exercises: the task, the check, and in the solution title, check and two prompts
    assert all(re.search(r"(Exercise|Solution) 12\.|check\(.\"12\.", b) for a, b in changed)
    assert sum("[2.0, 1.0, 0.1]" in line for line in new) == 1


@pytest.mark.parametrize("name", ["topic", "7_masks", "07-masks", "07_Masks", "../07_masks", "07_masks.ipynb", ""])
def test_a_bad_name_is_refused(folder, name):
    with pytest.raises(ValueError, match=r"NAME must look like 12_topic .*, got "):
        notebooks.new(name)


def test_a_chapter_is_never_overwritten(folder):
    path = store(folder / "12_topic.ipynb", "x = 1")
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"NAME must be a new chapter, but .*12_topic.ipynb exists"):
        notebooks.new("12_topic")
    assert path.read_bytes() == before


def test_run_stores_outputs_counts_and_guard_and_keeps_ids(folder):
    path = store(
        folder / "12_topic.ipynb",
        "import time\nprint('a', flush=True)\ntime.sleep(0.3)\nprint('b')",
        "1 + 1",
        "import os\nos.environ['OMP_NUM_THREADS']",
    )
    notebooks.run(path)
    cells = Notebook.read(path).cells
    assert [cell.id for cell in cells] == ["guard", "cell-1", "cell-2", "cell-3"]
    assert [cell.execution_count for cell in cells] == [1, 2, 3, 4]
    assert cells[0].source == notebooks.GUARD.read_text(encoding="utf-8").rstrip("\n")
    assert [output.text for output in cells[1].outputs] == ["a\nb\n"]
    assert (cells[2].outputs[0].data["text/plain"], cells[2].outputs[0].execution_count) == ("2", 3)
    assert cells[3].outputs[0].data["text/plain"] == "'1'"


def test_run_works_in_the_folder_of_the_notebook_with_this_python(folder, monkeypatch):
    kernel = {"argv": ["no-such-python"], "display_name": "Python 3", "language": "python"}
    (folder.parent / "kernels" / "python3").mkdir(parents=True)
    (folder.parent / "kernels" / "python3" / "kernel.json").write_text(json.dumps(kernel))
    monkeypatch.setenv("JUPYTER_PATH", str(folder.parent))  # a reader may have registered another Python
    path = store(folder / "12_topic.ipynb", "import os, sys\nprint(os.getcwd())\nprint(sys.executable)")
    notebooks.run(path)
    assert Notebook.read(path).cells[1].outputs[0].text.split() == [str(folder), sys.executable]


def test_a_failure_is_named_and_changes_nothing(folder, capsys):
    bad = store(folder / "12_topic.ipynb", "x = 1", "raise ValueError('planted')")
    good = store(folder / "13_topic.ipynb", "print(1)")
    before = bad.read_bytes()
    assert notebooks.run_all(notebooks.chapters([])) == 1
    assert bad.read_bytes() == before
    assert Notebook.read(good).cells[1].outputs[0].text == "1\n"
    printed = capsys.readouterr().out
    assert re.search(r"12_topic +failed, left as it was", printed)
    assert "ValueError: planted" in printed
    assert re.search(r"13_topic +\d+\.\d s", printed)


def test_an_expected_error_is_stored_without_the_paths_of_this_machine(folder):
    path = store(folder / "12_topic.ipynb", "raise ValueError('planted')", tags=["raises-exception"])
    notebooks.run(path)
    [output] = Notebook.read(path).cells[1].outputs
    assert output.traceback == ["ValueError: planted"]


def test_a_notebook_without_a_guard_is_refused(folder, capsys):
    nbformat.write(new_notebook(cells=[new_code_cell("1", id="one")]), folder / "12_topic.ipynb")
    assert notebooks.run_all(notebooks.chapters(["12_topic"])) == 1
    assert "expected one cell with the id 'guard', got 0" in capsys.readouterr().out


def test_chapters_are_found_by_name_and_unknown_ones_named(folder):
    store(folder / "12_topic.ipynb")
    store(folder / "13_topic.ipynb")
    assert [path.stem for path in notebooks.chapters([])] == ["12_topic", "13_topic"]
    assert [path.stem for path in notebooks.chapters(["notebooks/13_topic.ipynb"])] == ["13_topic"]
    with pytest.raises(ValueError, match="NAME must be one of 12_topic, 13_topic, got '14_topic'"):
        notebooks.chapters(["14_topic"])


def test_tidy_removes_what_front_ends_add():
    alt = {"image": {"alt": "Four bars"}}
    messy = {
        "colab": {"base_uri": "x"},
        "id": "Xy1",
        "execution": {"iopub.status.busy": "2026"},
        "collapsed": True,
        "jupyter": {"outputs_hidden": True},
        "tags": [],
    }
    cells = [
        new_markdown_cell("# Title", id="title", metadata=messy),
        new_code_cell("1", id="one", metadata={**messy, "tags": ["solution"], "mystnb": alt}, execution_count=7),
        new_code_cell("2", id="two", metadata={"jupyter": {"source_hidden": True, "outputs_hidden": False}}),
    ]
    cells[1].outputs = [new_output("execute_result", {"text/plain": "1"}, execution_count=7)]
    language = {"name": "python", "version": "3.11.7"}
    nb = new_notebook(cells=cells, metadata={"colab": {}, "widgets": {}, "language_info": language})
    notebooks.tidy(nb)
    assert nb.metadata == notebooks.METADATA
    assert [cell.metadata for cell in nb.cells] == [
        {},
        {"mystnb": alt, "tags": ["solution"]},
        {"jupyter": {"source_hidden": True}},
    ]
    assert [(cell.execution_count) for cell in nb.cells[1:]] == [1, 2]
    assert nb.cells[1].outputs[0].execution_count == 1
    nbformat.validate(nb)


# make rename


@pytest.fixture
def copy(tmp_path):
    """A copy of the repository's text, with a notebook whatever the repository has."""
    for name in ("book", "notebooks", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints", "_vendor")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    for path in ROOT.iterdir():
        if path.is_file() and path.suffix in (".md", ".toml", ".yml", ".cff"):
            shutil.copy(path, tmp_path / path.name)
    return tmp_path


def naming(root, repo):
    """The files below `root` that hold an address of `repo`."""
    owner, name = repo.split("/")
    address = rf"(github\.com|/github|/gh)/{repo}(?![\w-])|\b{owner}\.github\.io/{name}(?![\w-])"
    found = set()
    for path in (path for path in root.rglob("*") if path.is_file() and path.name != Path(__file__).name):
        if re.search(address, path.read_text(encoding="utf-8", errors="ignore"), re.I):
            found.add(path.relative_to(root).as_posix())
    return found


def test_rename_twice_leaves_no_trace(copy):
    old = rename.current(copy)
    files = naming(copy, old)
    assert {"_config.yml", "pyproject.toml", "README.md", "CITATION.cff", "tests/guard.py"} <= files
    assert "book/_tools/template.ipynb" in files
    for new in ("Some-One/at.tention_2", "a/b"):
        before = naming(copy, rename.current(copy))
        assert {path.as_posix() for path in rename.rename(new, copy)} >= before
        assert rename.current(copy) == new
        assert naming(copy, new) == files
        assert naming(copy, old) == set()
        guard = (copy / "tests" / "guard.py").read_text(encoding="utf-8").rstrip("\n")
        for path in [copy / "book" / "_tools" / "template.ipynb", *(copy / "notebooks").glob("*.ipynb")]:
            cells = nbformat.read(path, as_version=4).cells
            assert [cell.source for cell in cells if cell.id == "guard"] == [guard]
        old = new
    assert rename.rename("a/b", copy) == []
    rename.rename("OWNER/REPO", copy)
    config = (copy / "_config.yml").read_text(encoding="utf-8")
    assert "https://github.com/OWNER/REPO\n" in config


def test_rename_moves_the_address_of_the_site(copy):
    rename.rename("Some-One/Course", copy)
    assert "https://some-one.github.io/Course/" in (copy / "_config.yml").read_text(encoding="utf-8")


def test_rename_leaves_plain_words_alone(copy):
    rename.rename("a/b", copy)
    (copy / "README.md").write_text("and/or, data/base, a/b, https://github.com/a/b.git, github.com/a/bc, gh/a/b")
    rename.rename("new/name", copy)
    text = "and/or, data/base, a/b, https://github.com/new/name.git, github.com/a/bc, gh/a/b"
    assert (copy / "README.md").read_text() == text


@pytest.mark.parametrize("repo", ["name", "a/b/c", "https://github.com/a/b", "a b/c", "/b", "a/", ""])
def test_rename_refuses_what_is_no_repository(copy, repo):
    before = (copy / "_config.yml").read_bytes()
    with pytest.raises(ValueError, match=r"REPO must look like owner/name, got "):
        rename.rename(repo, copy)
    assert (copy / "_config.yml").read_bytes() == before


# make lock


def test_lock_strips_what_exists_here_only():
    packages = [("torch", "2.13.0+cpu"), ("attnlib", "0.1.0"), ("pip", "24.0"), ("Jinja2", "3.1.6"), ("a_b.c", "1.0")]
    lines = lock.lock(packages).splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["a-b-c==1.0", "jinja2==3.1.6", "torch==2.13.0"]


# nbval


@pytest.fixture
def project(tmp_path):
    """The settings of this repository, and two notebooks in which each cell needs the one before."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "notebooks").mkdir()
    for name in ("pyproject.toml", "conftest.py", "tests/nbval.cfg"):
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("01_a", "02_b"):
        cells = ["import os, sys, warnings\nn = 0", *["n += 1\nprint(n, os.environ['ATTNLIB_DEVICE'])"] * 9]
        cells += ["warnings.warn('x')", "object()", "print(f'took {__import__(\"time\").time():.3f} s')"]
        path = store(tmp_path / "notebooks" / f"{name}.ipynb", *cells)
        notebooks.run(path)
    return tmp_path


def nbval(project):
    """The lines that pytest prints, called as the Makefile calls it."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *flags()]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False).stdout.splitlines()


def flags():
    """What the Makefile gives to pytest."""
    return re.search(r"pytest -q (-n .*)$", (ROOT / "Makefile").read_text(), re.M)[1].split()


def test_nbval_is_strict_and_keeps_a_notebook_on_one_worker(project):
    assert "--dist loadfile" in " ".join(flags())
    first, second = (nbformat.read(path, as_version=4) for path in sorted((project / "notebooks").glob("*.ipynb")))
    first.cells[5].outputs = []
    assert second.cells[7].outputs[0].text == "6 cpu\n"
    second.cells[7].outputs[0].text = "7 cpu\n"
    nbformat.write(first, project / "notebooks" / "01_a.ipynb")
    nbformat.write(second, project / "notebooks" / "02_b.ipynb")
    lines = nbval(project)
    assert re.search(r"^2 failed, 26 passed", lines[-1])
    failed = sorted(re.search(r"notebooks/\S+ \d+", line)[0] for line in lines if line.startswith("FAILED"))
    assert failed == ["notebooks/01_a.ipynb::Cell 5", "notebooks/02_b.ipynb::Cell 7"]
