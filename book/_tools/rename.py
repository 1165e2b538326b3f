"""Sets the repository everywhere it is named (make rename REPO=owner/name); _config.yml says what it is now."""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Where the name may stand: prose, settings and notebooks. The guard of every notebook is a copy of tests/guard.py.
FILES = ("*.md", "*.toml", "*.yml", "*.cff", "book/**/*.md", "book/**/*.ipynb", "notebooks/*.ipynb", "tests/guard.py")
REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")


def current(root=ROOT):
    """The repository that _config.yml names, as owner/name."""
    config = (root / "_config.yml").read_text(encoding="utf-8")
    found = re.search(rf"^\s+url:\s*https://github\.com/({REPO.pattern})\s*$", config, re.M)
    if not found:
        raise ValueError("_config.yml must have the line 'url: https://github.com/owner/name' under 'repository:'")
    return found[1]


def rename(new, root=ROOT):
    """Replace the repository by `new` in every file below `root` that names it; returns the changed files."""
    if not REPO.fullmatch(new):
        raise ValueError(f"REPO must look like owner/name, got {new!r}")
    old = current(root)
    (old_owner, old_name), (owner, name) = old.split("/"), new.split("/")
    # Only in addresses (github.com/..., Colab's /github/..., Binder's /gh/...): a short name may also be a plain word.
    address = re.compile(rf"(github\.com[/:]|/github/|/gh/){re.escape(old)}(?![\w-])")
    pages = re.compile(rf"\b{re.escape(old_owner)}\.github\.io/{re.escape(old_name)}(?![\w-])", re.I)
    changed = []
    for path in sorted({path for pattern in FILES for path in root.glob(pattern)}):
        before = path.read_bytes().decode("utf-8")
        after = pages.sub(f"{owner.lower()}.github.io/{name}", address.sub(rf"\g<1>{new}", before))
        if after != before:
            path.write_bytes(after.encode("utf-8"))
            changed.append(path.relative_to(root))
    return changed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repo", metavar="owner/name")
    try:
        changed = rename(parser.parse_args().repo)
    except ValueError as error:
        sys.exit(str(error))
    print(f"The repository is {current()}. Changed: {', '.join(map(str, changed)) or 'nothing'}")


if __name__ == "__main__":
    main()
