"""Each notebook alone in an empty folder, as Colab opens it: it fetches attnlib, and changes nothing else."""

from pathlib import Path

import nbformat
import pytest
import venvs

from notebooks import NOTEBOOKS, execute


@pytest.fixture(scope="module")
def python():
    return venvs.colab()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return venvs.wheel(tmp_path_factory.mktemp("wheel"))


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_alone_runs_and_installs_only_attnlib(path, python, wheel, tmp_path):
    before = venvs.freeze(python)
    nb = nbformat.read(path, as_version=4)
    env = {"ATTNLIB_SOURCE": str(wheel), "IPYTHONDIR": str(tmp_path / "ipython"), "PYTHONPATH": ""}
    (tmp_path / "alone").mkdir()
    execute(nb, tmp_path / "alone", python, env)
    after = venvs.call(python, "-m", "pip", "freeze").splitlines()
    assert [line for line in before if line not in after] == []
    assert [line.split()[0] for line in after if line not in before] == ["attnlib"]


def test_the_environment_has_the_versions_of_colab(python):
    pins = Path(__file__).with_name("colab.txt").read_text(encoding="utf-8").splitlines()
    installed = venvs.call(python, "-m", "pip", "freeze", "--all").lower().replace("_", "-").splitlines()
    assert {pin.replace("_", "-") for pin in pins if not pin.startswith("#")} <= set(installed)
