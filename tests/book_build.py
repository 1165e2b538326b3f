"""Builds a copy of the book as `make book` does, so that no test leaves anything in the working tree."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def copy_book(target, *names):
    """Copy the named files and folders of the repository into the folder `target`."""
    junk = shutil.ignore_patterns("__pycache__", ".*")
    for name in names:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=junk)
        else:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target / name)


def build_book(folder):
    """Build the book in `folder`; return the exit status and all that was printed."""
    command = [Path(sys.executable).with_name("jupyter-book"), "build", ".", "-W", "--keep-going"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    return run.returncode, run.stdout + run.stderr
