"""Virtual environments and wheels for the tests that need attnlib installed, or absent, or old."""

import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache"


def python_of(folder):
    """The Python of the virtual environment in `folder`."""
    return Path(folder) / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def call(python, *args, **options):
    """Run `python` with `args`, untouched by the environment of the tests; returns what it printed."""
    run = attempt(python, *args, **options)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def attempt(python, *args, env=None, **options):
    """The same, for a command that may fail: returns the finished process."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ATTNLIB"))}
    env = {**clean, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **(env or {})}
    command = [str(python), *map(str, args)]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, **options)


def borrow(folder, *names):
    """Make installed packages, and what they need, importable in the virtual environment in `folder`.

    Links instead of a second installation: torch is 700 MB and takes half a minute. They stand in a folder of their
    own, named by a .pth file, so that pip in that environment sees the packages but can neither change nor remove them.
    """
    links = Path(folder) / "borrowed"
    links.mkdir(exist_ok=True)
    for dist in needed(names).values():
        for top in {file.parts[0] for file in dist.files if file.parts[0] not in ("..", "__pycache__")}:
            if not (links / top).exists():
                (links / top).symlink_to(dist.locate_file(top))
    paths = call(python_of(folder), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    Path(paths.strip(), "borrowed.pth").write_text(f"{links}\n", encoding="utf-8")


def needed(names, found=None):
    """The distributions `names` and everything that they require here, by name."""
    found = {} if found is None else found
    for name in names:
        if name not in found:
            found[name] = importlib.metadata.distribution(name)
            required = map(Requirement, found[name].requires or [])
            needed([r.name for r in required if not r.marker or r.marker.evaluate({"extra": ""})], found)
    return found


def freeze(python):
    """What is installed beside attnlib, as pip lists it; attnlib is removed first."""
    call(python, "-m", "pip", "uninstall", "-q", "-y", "attnlib")
    return call(python, "-m", "pip", "freeze").splitlines()


def colab():
    """The Python of an environment like Colab's, made once and kept in .cache; needs PyPI when it is made."""
    pins = ROOT / "tests" / "colab.txt"
    torch = importlib.metadata.distribution("torch")
    key = "\n".join([pins.read_text(encoding="utf-8"), sys.version, torch.version, str(torch.locate_file("torch"))])
    folder = CACHE / f"colab-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    ready = folder / "ready"  # holds what was installed; a notebook that once added something must not hide it
    if not ready.exists() or ready.read_text(encoding="utf-8").splitlines() != freeze(python_of(folder)):
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        call(python_of(folder), "-m", "pip", "install", "-q", "-r", pins)
        borrow(folder, "torch")
        ready.write_text("\n".join(freeze(python_of(folder))), encoding="utf-8")
    return python_of(folder)


def wheel(folder):
    """A wheel of attnlib as it stands in the working tree, built in `folder`."""
    source = Path(folder) / "source"  # a copy: setuptools would leave its build folder in the tree, and reuse it
    shutil.copytree(ROOT / "attnlib", source / "attnlib", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source / name)
    pip = ["-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", folder, source]
    call(sys.executable, *pip)
    [path] = Path(folder).glob("attnlib-*.whl")
    return path


def tiny_wheel(folder, version):
    """A wheel of an attnlib that holds only its version, and asks for a NumPy that does not exist."""
    path = Path(folder) / f"attnlib-{version}-py3-none-any.whl"
    info = f"attnlib-{version}.dist-info"
    files = {
        "attnlib/__init__.py": f"__version__ = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: attnlib\nVersion: {version}\nRequires-Dist: numpy>=99\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path
