"""The guard cell: it finds attnlib in every place where a reader may open a notebook, and changes nothing else."""

import re
import shutil
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import venvs

from notebooks import GUARD, ROOT

NOWHERE = "attnlib @ http://127.0.0.1:9/attnlib.zip"
REPORT = "\nimport attnlib\nprint(attnlib.__version__, attnlib.__file__)"
SOURCE = GUARD.read_text(encoding="utf-8")
functions = {}
exec(SOURCE.rsplit("find_attnlib()", 1)[0], functions)
NEEDS = functions["NEEDS"]


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """A Python with pip and NumPy and no attnlib."""
    folder = tmp_path_factory.mktemp("guard")
    venv.create(folder, with_pip=True)
    venvs.borrow(folder, "numpy")
    return venvs.python_of(folder)


@pytest.fixture
def absent(python):
    """attnlib is not installed; returns the folder of installed packages. (Without pip, which takes seconds.)"""
    packages = Path(venvs.call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    remove(packages)
    return packages


def remove(packages):
    for folder in packages.glob("attnlib*"):
        shutil.rmtree(folder)


@pytest.fixture
def installed(absent, tmp_path):
    """A function that installs some version of attnlib."""

    def install(version):
        remove(absent)
        with zipfile.ZipFile(venvs.tiny_wheel(tmp_path, version)) as wheel:
            wheel.extractall(absent)

    return install


@pytest.fixture
def empty(tmp_path):
    """An empty folder: where Colab puts the notebook."""
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


def run(python, folder, source=NOWHERE, before="", after=REPORT, needs=NEEDS, **env):
    """Run the guard in `folder`, with attnlib to be had from `source` only."""
    guard = SOURCE.replace(f'NEEDS = "{NEEDS}"', f'NEEDS = "{needs}"')
    env = {"ATTNLIB_SOURCE": source, "PIP_RETRIES": "0", "PIP_DEFAULT_TIMEOUT": "5", **env}
    return venvs.attempt(python, "-c", f"{before}\n{guard}{after}", cwd=folder, env=env)


def found(*args, **kwargs):
    """(version, file) of the attnlib that the guard found; it must print nothing of its own."""
    finished = run(*args, **kwargs)
    assert (finished.returncode, finished.stderr) == (0, "")
    [line] = finished.stdout.splitlines()
    return line.split(" ", 1)


def newer(version=NEEDS):
    major, *rest = version.split(".")
    return ".".join([str(int(major) + 1), *rest])


@pytest.mark.parametrize("folder", ["", "notebooks", "book/_tools"])
def test_in_the_repository(python, absent, folder):
    assert found(python, ROOT / folder)[1] == str(ROOT / "attnlib" / "__init__.py")


def test_the_repository_goes_before_what_is_installed(python, installed):
    installed(newer())
    assert found(python, ROOT / "notebooks")[1] == str(ROOT / "attnlib" / "__init__.py")


def test_beside_a_folder_attnlib_offline(python, absent, empty):
    shutil.copytree(ROOT / "attnlib", empty / "attnlib")
    assert found(python, empty)[1] == str(empty / "attnlib" / "__init__.py")


@pytest.mark.parametrize("version", [NEEDS, newer(), NEEDS.replace(".", ".1", 1), f"{NEEDS}.post1"])
def test_an_installed_version_is_taken_without_pip(python, installed, empty, version):
    installed(version)
    assert found(python, empty)[0] == version


def test_a_stale_version_is_replaced_and_numpy_is_not(python, installed, empty, tmp_path):
    installed("0.0.9")
    before = venvs.call(python, "-m", "pip", "freeze").splitlines()
    wheel = str(venvs.tiny_wheel(tmp_path, newer()))  # asks for numpy>=99
    assert found(python, empty, wheel)[0] == newer()
    after = venvs.call(python, "-m", "pip", "freeze").splitlines()
    assert [line for line in before if not line.startswith("attnlib")] == [
        line for line in after if not line.startswith("attnlib")
    ]


def test_a_stale_version_that_was_imported_is_replaced_too(python, installed, empty, tmp_path):
    installed("0.0.9")
    before = "import attnlib, sys\nsys.modules['attnlib.old'] = attnlib\nassert attnlib.__version__ == '0.0.9'"
    after = "\nassert 'attnlib.old' not in sys.modules" + REPORT
    assert found(python, empty, str(venvs.tiny_wheel(tmp_path, newer())), before, after)[0] == newer()


def test_a_second_run_keeps_what_is_imported(python, absent):
    """Or old and new classes of the same name would meet in one session."""
    after = f"\nimport attnlib\nfirst = attnlib\nfind_attnlib()\nassert sys.modules['attnlib'] is first{REPORT}"
    assert found(python, ROOT / "notebooks", after=after)[1] == str(ROOT / "attnlib" / "__init__.py")


def test_a_fork_is_installed_from_its_own_source(python, absent, empty, tmp_path):
    fork = venvs.tiny_wheel(tmp_path, newer())
    assert found(python, empty, str(fork))[0] == newer()
    assert found(python, empty)[0] == newer()  # and the second time without a source


@pytest.mark.parametrize("color", [{}, {"FORCE_COLOR": "1"}], ids=["a-script", "a-kernel"])  # kernels ask for color
def test_offline_and_absent_says_what_to_do(python, absent, empty, color):
    finished = run(python, empty, **color)
    assert finished.returncode == 1
    last = finished.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: This notebook needs attnlib {NEEDS} or newer")
    assert repr(NOWHERE) in last
    assert "(now: none; pip: ERROR: " in last
    assert last.endswith("Go online and run this cell again, or put the folder attnlib beside this notebook.")


def test_the_reason_is_the_error_of_pip_and_not_what_follows(python, absent, empty, tmp_path):
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__init__.py").touch()
    lines = ["Looking", "ERROR: the reason", "[notice] there is a new pip"]
    (tmp_path / "pip" / "__main__.py").write_text(
        f"import sys\nprint({chr(10).join(lines)!r}, file=sys.stderr)\nsys.exit(1)"
    )
    assert "(now: none; pip: ERROR: the reason)" in run(python, empty, PYTHONPATH=str(tmp_path)).stderr


def test_a_source_that_is_itself_too_old_is_refused(python, absent, empty, tmp_path):
    finished = run(python, empty, str(venvs.tiny_wheel(tmp_path, "0.0.9")))
    assert "ImportError" in finished.stderr
    assert "(now: 0.0.9; pip: " in finished.stderr


def test_ten_comes_after_nine(python, installed, empty, tmp_path):
    installed("0.10.0")
    assert found(python, empty, needs="0.9.0")[0] == "0.10.0"
    installed("0.8.0")
    assert found(python, empty, str(venvs.tiny_wheel(tmp_path, "0.10.0")), needs="0.9.0")[0] == "0.10.0"
    installed("0.9.0")
    assert found(python, empty, str(venvs.tiny_wheel(tmp_path, "0.10.0")), needs="0.10.0")[0] == "0.10.0"


def test_a_folder_that_pip_left_behind_is_no_attnlib(python, absent, empty, tmp_path):
    (tmp_path / "left" / "attnlib" / "__pycache__").mkdir(parents=True)
    finished = run(python, empty, PYTHONPATH=str(tmp_path / "left"))
    assert "(now: none; pip: ERROR: " in finished.stderr


# A browser (Pyodide) has no processes, and its packages may have no metadata.
NO_PROCESSES = "import subprocess\ndef run(*args, **kwargs): raise OSError('no processes here')\nsubprocess.run = run"


def test_in_a_browser_a_package_without_metadata_is_taken(python, absent, empty, tmp_path):
    shutil.copytree(ROOT / "attnlib", tmp_path / "lib" / "attnlib")
    found_here = found(python, empty, before=NO_PROCESSES, PYTHONPATH=str(tmp_path / "lib"))
    assert found_here[1] == str(tmp_path / "lib" / "attnlib" / "__init__.py")


def test_in_a_browser_without_attnlib_the_error_says_so(python, absent, empty):
    finished = run(python, empty, before=NO_PROCESSES)
    assert "ImportError: This notebook needs attnlib" in finished.stderr
    assert "(now: none; pip: no processes here)" in finished.stderr


def test_without_pip_the_error_says_so(python, absent, empty):
    finished = run(python, empty, before="import sys\nsys.executable = sys._base_executable + '-none'")
    assert "ImportError: This notebook needs attnlib" in finished.stderr
    assert "put the folder attnlib beside this notebook" in finished.stderr


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("0.10.0", [0, 10, 0]),
        ("0.9", [0, 9, 0]),
        ("1", [1, 0, 0]),
        ("0.2.0rc1", [0, 2, 0]),
        ("0.2rc1", [0, 2, 0]),
        ("0.2.0.dev3+g12ab", [0, 2, 0]),
        ("0.2.1+cu128", [0, 2, 1]),
        ("0", [0, 0, 0]),
    ],
)
def test_versions_are_compared_as_numbers(version, numbers):
    assert functions["release"](version) == numbers


def test_the_guard_needs_no_version_that_does_not_exist():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert functions["release"](NEEDS) <= functions["release"](settings["project"]["version"])


def test_the_library_says_its_version():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    text = (ROOT / "attnlib" / "__init__.py").read_text(encoding="utf-8")
    assert re.search(r'^__version__ = "(.+)"$', text, re.M)[1] == settings["project"]["version"]
