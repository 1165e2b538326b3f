"""Plants known bugs in a copy of attnlib, one at a time, and shows which tests notice: `python tests/plant_bugs.py`.

A test suite is worth what it catches. These are the bugs that attention code really has: no scale, a scale of the
wrong size, softmax over the wrong axis, a mask turned around, weights transposed; in each place of each backend. The
command fails if one survives, if the unchanged copy fails, or if the code to change is no longer there. Words after
the command limit the run to bugs whose names hold them. It takes minutes, so pytest does not run it.
"""

import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
REPORT = ROOT / "_build" / "planted_bugs.md"
FILES = ("cases", "softmax", "scores", "attention", "heads", "gradients", "properties")

# (bug, a piece of code, what stands there instead, which of its occurrences: None = all)
DEFAULT = "q.shape[-1] ** -0.5"
D_V = "v.shape[-1] ** -0.5"
NUMPY_SUM = "lambda q, k, v: _weights(q, k, mask, scale) @ v"
NUMPY_TABLE = "lambda q, k: _weights(q, k, mask, scale)"
NUMPY_SOFTMAX = "return _softmax_in_place(scores, mask)"
NUMPY_BUGS = [
    ("no scale", DEFAULT, "1.0", None),
    ("no scale, only in blockwise", DEFAULT, "1.0", 0),
    ("no scale, only in the scores", DEFAULT, "1.0", 1),
    ("scale by d_v, attention", NUMPY_SUM, NUMPY_SUM.replace("scale)", f"{D_V} if scale is None else scale)"), 0),
    ("scale by d_v, blockwise", DEFAULT, D_V, 0),
    ("scale by T, scores", DEFAULT, "k.shape[-2] ** -0.5", 1),
    ("scale by T, blockwise", DEFAULT, "k.shape[-2] ** -0.5", 0),
    ("softmax over the queries", NUMPY_SOFTMAX, NUMPY_SOFTMAX.replace("mask)", "mask, -2)"), 0),
    ("softmax ignores its axis", "_softmax_in_place(x, mask, axis)", "_softmax_in_place(x, mask)", 0),
    ("mask flipped, softmax", "np.copyto(x, -np.inf, where=~mask)", "np.copyto(x, -np.inf, where=mask)", 0),
    ("mask flipped, blockwise", "(scores, -np.inf, where=~mask)", "(scores, -np.inf, where=mask)", 0),
    ("weights transposed, attention", NUMPY_SUM, NUMPY_SUM.replace(" @ v", ".mT @ v"), 0),
    ("weights transposed, weights", NUMPY_TABLE, NUMPY_TABLE + ".mT", 0),
    ("weights transposed, blockwise", "e @ v_j", "e.mT @ v_j", 0),
]
KERNEL = "is_causal=causal, scale=scale,"
KERNEL_INPUTS = "at_least_4d(q), at_least_4d(k), at_least_4d(v),"
TORCH_ROWS = "softmax(_scaled_dot(q, k, scale), mask)"
TORCH_SOFTMAX = "torch.softmax(x.masked_fill(dead, 0.0), axis)"
TORCH_TABLE = "_weights(q, k, mask, scale)"
TORCH_BUGS = [
    ("no scale", DEFAULT, "1.0", None),
    ("no scale, only in the kernel", KERNEL, KERNEL.replace("=scale,", "=1.0 if scale is None else scale,"), 0),
    ("no scale, only in blockwise", DEFAULT, "1.0", 0),
    ("no scale, only in the scores", DEFAULT, "1.0", 1),
    ("scale by d_v, kernel", KERNEL, KERNEL.replace("=scale,", "=v.shape[-1] ** -0.5 if scale is None else scale,"), 0),
    ("scale by d_v, blockwise", DEFAULT, D_V, 0),
    ("scale by T, kernel", KERNEL, KERNEL.replace("=scale,", "=k.shape[-2] ** -0.5 if scale is None else scale,"), 0),
    ("scale by T, scores", DEFAULT, "k.shape[-2] ** -0.5", 1),
    ("scale by T, blockwise", DEFAULT, "k.shape[-2] ** -0.5", 0),
    ("softmax over the queries", TORCH_ROWS, TORCH_ROWS.replace("mask)", "mask, -2)"), 0),
    ("softmax ignores its axis", TORCH_SOFTMAX, TORCH_SOFTMAX.replace("axis)", "-1)"), 0),
    ("mask flipped, softmax", "x.masked_fill(~mask, -torch.inf)", "x.masked_fill(mask, -torch.inf)", 0),
    ("mask flipped, kernel", "mask=mask | ~alive", "mask=~mask | ~alive", 0),
    ("mask flipped, blockwise", "k_j.mT).masked_fill(~mask, ", "k_j.mT).masked_fill(mask, ", 0),
    ("weights transposed, weights", f"return {TORCH_TABLE}", f"return {TORCH_TABLE}.mT", 0),
    ("weights transposed, kernel", KERNEL_INPUTS, "at_least_4d(k), at_least_4d(q), at_least_4d(v),", 0),
    ("weights transposed, blockwise", "e @ v_j", "e.mT @ v_j", 0),
]
BUGS = [("numpy", *bug) for bug in NUMPY_BUGS] + [("torch", *bug) for bug in TORCH_BUGS]


def plant(text, old, new, which):
    """text with old replaced by new, everywhere or only at occurrence `which`."""
    pieces = text.split(old)
    if len(pieces) < 2 + (which or 0):
        raise SystemExit(f"plant_bugs.py is out of date: occurrence {which or 0} of {old!r} is not in the code")
    if which is None:
        return new.join(pieces)
    return old.join(pieces[: which + 1]) + new + old.join(pieces[which + 1 :])


def failures(folder):
    """Names of the core tests that fail with the attnlib in `folder`, each with how many of its cases do."""
    # Loaded before any conftest: the copy is what every test gets.
    (folder / "planted.py").write_text(f"import attnlib\nassert attnlib.__file__.startswith({str(folder)!r})\n")
    tests = [str(ROOT / "tests" / f"test_{name}.py") for name in FILES]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "planted", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "--tb=no",
         "-rfE", f"--rootdir={ROOT}", f"--confcutdir={ROOT / 'tests'}", *tests],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True,
    )  # fmt: skip
    if run.returncode not in (0, 1):
        raise SystemExit(f"pytest did not run:\n{run.stdout[-3000:]}{run.stderr[-3000:]}")
    return collections.Counter(re.findall(r"^(?:FAILED|ERROR) \S*?(test_\w+\.py::\w+)", run.stdout, re.MULTILINE))


def describe(caught):
    """'attention 34, cases 9: test_x, test_y and 5 more'."""
    files = collections.Counter()
    for name, count in caught.items():
        files[name.split(".py")[0].removeprefix("test_")] += count
    tests = [name.split("::")[1] for name, _ in caught.most_common()]
    more = f" and {len(tests) - 3} more" if len(tests) > 3 else ""
    return ", ".join(f"{f} {n}" for f, n in files.most_common()) + " | " + ", ".join(tests[:3]) + more


def main():
    wanted = sys.argv[1:]
    bugs = [bug for bug in BUGS if not wanted or any(word in " ".join(bug[:2]) for word in wanted)]
    lines = ["| bug | backend | failing tests | of them | by |", "|---|---|---|---|---|"]
    survived = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder).resolve()
        shutil.copytree(ROOT / "attnlib", copy / "attnlib", ignore=shutil.ignore_patterns("__pycache__"))
        healthy = failures(copy)
        if healthy:
            raise SystemExit(f"without any bug these tests already fail: {', '.join(healthy)}")
        print("The copy without a bug passes.", *lines, sep="\n", flush=True)
        for backend, name, old, new, which in bugs:
            file = copy / "attnlib" / f"{backend}_backend.py"
            sound = file.read_text()
            file.write_text(plant(sound, old, new, which))
            caught = failures(copy)
            file.write_text(sound)
            lines.append(f"| {name} | {backend} | {caught.total()} | {describe(caught)} |")
            print(lines[-1], flush=True)
            if not caught:
                survived.append(f"{name} ({backend})")
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text("\n".join(lines) + "\n")
    if survived:
        raise SystemExit(f"survived: {', '.join(survived)}")
    print(f"All {len(bugs)} bugs were caught.")


if __name__ == "__main__":
    main()
