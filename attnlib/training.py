"""Training: which device, and the same random numbers every time."""

import os
import random

import numpy as np
import torch

from . import shapes


def device():
    """The device to compute on: the environment variable ATTNLIB_DEVICE if set, else cuda if there is one, else cpu.

    mps is used only when asked for: it has no float64 and is slower for small recurrent networks.
    """
    return torch.device(os.environ.get("ATTNLIB_DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu"))


def seed_everything(seed):
    """Start Python's, NumPy's and torch's random numbers at `seed`.

    On the CPU, deterministic algorithms are switched on as well: the same seed and thread count give the same bits.
    """
    seed = shapes.check_whole("seed", seed, least=0)
    if seed >= 2**32:
        raise ValueError(f"seed must be below 2**32, got {seed}")
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(device().type == "cpu")
