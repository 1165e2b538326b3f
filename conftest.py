"""What tests and notebooks share under pytest: a quiet CPU, and what nbval must not compare."""

import os

# Set before anything imports torch; the kernels that nbval starts inherit it. Same values as in the Makefile.
os.environ.update(ATTNLIB_DEVICE="cpu", OMP_NUM_THREADS="1", TQDM_DISABLE="1")


def pytest_collectstart(collector):
    """A warning's text names the path of a temporary file; that none is stored is a static test."""
    if hasattr(collector, "skip_compare"):  # nbval's notebooks have it
        collector.skip_compare += ("stderr", "image/svg+xml")
