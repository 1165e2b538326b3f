"""The attention mechanism in plain NumPy and PyTorch: the library of the course.

`import attnlib` needs NumPy alone. torch and matplotlib are imported when first needed.
"""

import importlib
import importlib.util

from . import functional
from .functional import *  # noqa: F403

__version__ = "0.1.0"
__all__ = list(functional.__all__)

# What is imported on first use: name -> (module, the package that it needs beyond NumPy).
_LAZY = {
    "corpus": ("corpus", None),
    "costs": ("costs", None),
    "device": ("training", "torch"),
    "exercises": ("exercises", None),
    "explorers": ("explorers", None),
    "fit": ("training", "torch"),
    "gradients": ("gradients", None),
    "layers": ("layers", "torch"),
    "leaks": ("leaks", None),
    "masked_cross_entropy": ("training", "torch"),
    "metrics": ("metrics", None),
    "plots": ("plots", "matplotlib"),
    "seed_everything": ("training", "torch"),
    "seq2seq": ("seq2seq", "torch"),
    "training": ("training", "torch"),
    "transformer": ("transformer", "torch"),
}


def __getattr__(name):
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f".{_LAZY[name][0]}", __name__)
    return module if name == _LAZY[name][0] else getattr(module, name)


def __dir__():
    there = [name for name, (_, need) in _LAZY.items() if need is None or importlib.util.find_spec(need)]
    return sorted({*globals(), *there})
