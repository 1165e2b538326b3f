"""attnlib as a package: what a wheel holds, what an import pulls in, and NumPy functions where there is no torch."""

import itertools
import json
import re
import sys
import tomllib
import venv
import zipfile

import pytest
import venvs

from notebooks import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Pairwise different sizes: B=2, h=3, T_q=4, T_k=5, d_k=6, d_v=7.
NUMPY_ONLY = """
import json, sys
import numpy as np
import attnlib

random = np.random.default_rng(0)
q, k, v = (random.normal(size=(2, 3, T, d)) for T, d in [(4, 6), (5, 6), (5, 7)])
x, W = random.normal(size=(2, 4, 12)), random.normal(size=(12, 12))
mask = attnlib.padding_mask([5, 3], 5)
shapes = {
    "softmax": attnlib.softmax(q),
    "attention_weights": attnlib.attention_weights(q, k, key_mask=mask),
    "attention": attnlib.attention(q, k, v, causal=True),
    "blockwise_attention": attnlib.blockwise_attention(q, k, v, block_size=2),
    "multi_head_attention": attnlib.multi_head_attention(x, W, W, W, W, 3),
    "sinusoidal_positions": attnlib.sinusoidal_positions(4, 12),
    "softmax_vjp": attnlib.gradients.softmax_vjp(attnlib.softmax(q), q),
}
print(json.dumps({name: result.shape for name, result in shapes.items()}))
try:
    import torch
except ModuleNotFoundError:
    print("no torch")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return venvs.wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def python(tmp_path_factory, wheel):
    """A Python that has NumPy, attnlib's wheel, and nothing else."""
    folder = tmp_path_factory.mktemp("numpy")
    venv.create(folder, with_pip=False)
    venvs.borrow(folder, "numpy")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "borrowed")
    return venvs.python_of(folder)


def test_numpy_functions_work_without_torch_and_matplotlib(python, tmp_path):
    shapes, absent = venvs.call(python, "-c", NUMPY_ONLY, cwd=tmp_path).splitlines()
    assert json.loads(shapes) == {
        "softmax": [2, 3, 4, 6],
        "attention_weights": [2, 3, 4, 5],
        "attention": [2, 3, 4, 7],
        "blockwise_attention": [2, 3, 4, 7],
        "multi_head_attention": [2, 4, 12],
        "sinusoidal_positions": [4, 12],
        "softmax_vjp": [2, 3, 4, 6],
    }
    assert absent == "no torch"


def test_the_environment_has_nothing_else(python, tmp_path):
    """Or the test above would prove nothing."""
    for name in ("matplotlib", "tqdm", "IPython"):
        assert f"No module named '{name}'" in venvs.attempt(python, "-c", f"import {name}", cwd=tmp_path).stderr


def test_import_pulls_in_numpy_alone():
    code = "import sys, attnlib; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = set(venvs.call(sys.executable, "-c", code, cwd=ROOT).split())
    assert "numpy" in loaded
    assert loaded & {"torch", "matplotlib", "IPython", "tqdm"} == set()


def test_the_wheel_holds_every_file_of_the_library(wheel):
    files = {f"attnlib/{path.name}" for path in (ROOT / "attnlib").iterdir() if path.is_file()}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == files


def test_dependencies_have_lower_bounds_only_and_colab_meets_them():
    """A bound above Colab's version, or an upper one, would make pip replace what Colab has."""
    assert PROJECT["dependencies"] == ["numpy>=2.0"]
    wanted = [*PROJECT["dependencies"], *itertools.chain(*PROJECT["optional-dependencies"].values())]
    pins = dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "tests" / "colab.txt").read_text(), re.M))
    for requirement in wanted:
        name, bound = re.fullmatch(r"([\w-]+)>=(\d+\.\d+)", requirement).groups()
        colab = pins.get(name, "2.11")  # torch is not among the pins
        assert [int(n) for n in bound.split(".")] <= [int(n) for n in colab.split(".")]
