"""How fast and how large, as ratios within one run: `make bench`. Prints a table and writes it to _build/bench.md.

Not a test: a busy machine moves the numbers. Ratios are of medians over 20 alternating runs, on one thread. Memory is
the peak of a whole fresh process. `--quick` leaves out the run over 100,000 keys, which takes most of a minute.
"""

# ruff: noqa: E402 - these settings are read when NumPy loads

import os

# Before NumPy loads: one thread, and OpenBLAS as it chooses to be on this machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")
for setting in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(setting, None)

import itertools
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

import attnlib

RUNS = 20
REPORT = Path(__file__).parents[1] / "_build" / "bench.md"


def ratio(ours, other, runs=RUNS):
    """Median time of ours over that of other, run by turns; first that they agree."""
    np.testing.assert_allclose(np.asarray(ours()), np.asarray(other()), atol=1e-5)
    times = {ours: [], other: []}
    for turn in range(runs):
        for function in (ours, other) if turn % 2 else (other, ours):
            start = time.perf_counter()
            function()
            times[function].append(time.perf_counter() - start)
    return statistics.median(times[ours]) / statistics.median(times[other])


def bare(q, k, v):
    """The formula with nothing around it."""
    scale = np.float32(q.shape[-1] ** -0.5)
    s = q @ k.mT * scale
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ v


def speed():
    """(what, against what, ratio, allowed ratio) at (1, 8, 1024, 64) in float32, and blockwise at 4096."""
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(3, 1, 8, 1024, 64)).astype(np.float32)
    tensors = torch.tensor(q), torch.tensor(k), torch.tensor(v)
    mask = torch.tensor(rng.random((1024, 1024)) < 0.8)
    key_mask = torch.arange(1024).unsqueeze(0) < 900
    causal = attnlib.causal_mask(1024, like=mask)

    def fused(**options):
        return lambda: scaled_dot_product_attention(*tensors, **options)

    def ours(*args, **options):
        return lambda: attnlib.attention(*tensors, *args, **options)

    yield "torch attention", "PyTorch's", ratio(ours(), fused()), 1.05
    yield "torch attention, causal", "PyTorch's", ratio(ours(causal=True), fused(is_causal=True)), 1.05
    yield "torch attention, mask", "PyTorch's", ratio(ours(mask), fused(attn_mask=mask)), 1.25
    wide = key_mask[:, None, None].expand(1, 1, 1024, 1024)
    yield "torch attention, key_mask", "PyTorch's, mask", ratio(ours(key_mask=key_mask), fused(attn_mask=wide)), 1.25
    both = ratio(ours(mask, causal=True), fused(attn_mask=mask & causal))
    yield "torch attention, mask and causal", "PyTorch's, mask", both, 1.25
    yield "NumPy attention", "the bare formula", ratio(lambda: attnlib.attention(q, k, v), lambda: bare(q, k, v)), 1.05
    long = rng.normal(size=(3, 4096, 64)).astype(np.float32)
    blockwise = ratio(lambda: attnlib.blockwise_attention(*long), lambda: attnlib.attention(*long))
    yield "NumPy blockwise_attention, 4096", "NumPy attention", blockwise, 1.10


def decode_step(B, T, g):
    """One query a sentence, 16 heads of 64 features, asks T cached tokens of g key-value heads."""
    rng = np.random.default_rng(0)
    q, k, v = (torch.tensor(rng.normal(size=(B, h, n, 64)).astype(np.float32)) for h, n in ((16, 1), (g, T), (g, T)))
    copied = lambda: attnlib.attention(q, attnlib.repeat_kv(k, 16), attnlib.repeat_kv(v, 16))  # noqa: E731
    return lambda: attnlib.grouped_attention(q, k, v), copied


def allocated(function):
    """MiB that a call allocates, all tensors together."""
    with torch.profiler.profile(profile_memory=True) as profile:
        function()
    return sum(max(0, event.self_cpu_memory_usage) for event in profile.events()) / 2**20


def decoding():
    """(what, against what, ratio, allowed ratio): time and memory of shared heads against copies of them."""
    for B, T in ((1, 4096), (16, 512)):
        for g in (4, 1):
            ours, copied = decode_step(B, T, g)
            what = f"a decoding step, {B} x {T} tokens, {g} of 16 heads"
            yield what, "repeat_kv", ratio(ours, copied), 0.5
            yield f"allocations of {what}", "repeat_kv", allocated(ours) / allocated(copied), 0.01


def peak_memory(name, n):
    """Peak of a fresh process that attends from n queries to n keys of d = 64 in float32, in MiB, and its seconds."""
    code = f"""
import time, numpy as np, attnlib
x = np.random.default_rng(0).normal(size=({n}, 64)).astype(np.float32)
start = time.perf_counter()
attnlib.{name}(x, x, x)
seconds = time.perf_counter() - start
try:
    peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024
except OSError:  # not Linux
    import resource, sys
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)
print(peak, seconds)
"""
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    return map(float, out.split())


def main():
    lines = ["| what | against | ratio | allowed |", "|---|---|---|---|"]
    print(*lines, sep="\n", flush=True)

    def add(line):
        lines.append(line)
        print(line, flush=True)

    for what, against, measured, allowed in itertools.chain(speed(), decoding()):
        over = " (over)" if measured > allowed else ""
        add(f"| {what} | {against} | {measured:.3f}{over} | {allowed:.2f} |")
    for line in ("", "| peak memory | n | MiB of the whole process | seconds |", "|---|---|---|---|"):
        add(line)
    sizes = [("attention", n) for n in (3_125, 6_250, 12_500)]
    sizes += [("blockwise_attention", n) for n in (3_125, 6_250, 12_500, 25_000, 100_000)]
    for name, n in sizes if "--quick" not in sys.argv else sizes[:-1]:
        peak, seconds = peak_memory(name, n)
        add(f"| {name} | {n:,} | {peak:.0f} | {seconds:.1f} |")
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
