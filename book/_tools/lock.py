"""Freezes the versions installed in .venv into constraints.txt (make lock)."""

import importlib.metadata
import re
from pathlib import Path

PATH = Path(__file__).resolve().parents[2] / "constraints.txt"
HEADER = """\
# The full set of versions that the stored outputs were made with. Made by `make lock`; do not edit.
# A constraint installs nothing: what another platform does not need is ignored there.
"""
# attnlib is the working tree; pip belongs to the environment.
LEFT_OUT = {"attnlib", "pip"}


def lock(packages):
    """The text of constraints.txt for (name, version) pairs: no paths, and no local versions such as +cpu."""
    lines = {
        f"{re.sub(r'[-_.]+', '-', name).lower()}=={version.split('+')[0]}"
        for name, version in packages
        if name.lower() not in LEFT_OUT
    }
    return HEADER + "".join(f"{line}\n" for line in sorted(lines))


if __name__ == "__main__":
    text = lock((dist.name, dist.version) for dist in importlib.metadata.distributions())
    PATH.write_text(text, encoding="utf-8", newline="\n")
    print(f"{PATH.name}: {text.count('==')} versions")
