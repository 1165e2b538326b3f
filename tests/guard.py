#@title Find attnlib, the library of this course (run this cell first)
import importlib
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

NEEDS = "0.1.0"  # the oldest attnlib that this notebook works with
SOURCE = os.environ.get("ATTNLIB_SOURCE") or "attnlib @ https://github.com/OWNER/REPO/archive/HEAD.zip"


def release(version):
    """The first three numbers of a version: "0.10.0rc1" gives [0, 10, 0]."""
    return [int(n) for n in re.findall(r"\d+", re.split(r"[^\d.]", version)[0] + ".0.0")[:3]]


def installed_version():
    """The version `import attnlib` would find, "0" for none; a copy without metadata is taken as it is."""
    importlib.invalidate_caches()
    spec = importlib.util.find_spec("attnlib")
    if spec is None or spec.origin is None:
        return "0"
    try:
        return importlib.metadata.version("attnlib")
    except importlib.metadata.PackageNotFoundError:
        return NEEDS


def install():
    """Install SOURCE with pip and without dependencies, so that no other package changes."""
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-color", "--no-deps", SOURCE]
    try:
        run = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        lines = (run.stdout + run.stderr).strip().splitlines() or ["pip said nothing"]
    except OSError as error:  # a browser has no processes
        lines = [str(error)]
    found = installed_version()
    if release(found) < release(NEEDS):
        errors = [line for line in lines if line.lower().startswith("error")] or lines
        raise ImportError(
            f"This notebook needs attnlib {NEEDS} or newer. Installing it from {SOURCE!r} did not work "
            f"(now: {'none' if found == '0' else found}; pip: {errors[-1]}). "
            "Go online and run this cell again, or put the folder attnlib beside this notebook."
        )


def find_attnlib():
    """Make `import attnlib` work: from a folder here or above, else as installed, else with pip."""
    here = Path.cwd()
    folders = [str(p) for p in (here, *here.parents) if (p / "attnlib" / "__init__.py").is_file()]
    if folders[:1] == sys.path[:1] or (not folders and release(installed_version()) >= release(NEEDS)):
        return
    if folders:
        sys.path.insert(0, folders[0])
    else:
        install()
    for name in [name for name in sys.modules if name.split(".")[0] == "attnlib"]:
        del sys.modules[name]  # an older attnlib, imported before


find_attnlib()
