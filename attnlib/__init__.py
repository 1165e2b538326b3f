"""The attention mechanism in plain NumPy and PyTorch: the library of the course.

`import attnlib` needs NumPy alone. torch and matplotlib are imported when first needed.
"""

import importlib

from . import functional
from .functional import *  # noqa: F403

__version__ = "0.1.0"

_SUBMODULES = ("exercises", "explorers", "gradients", "plots", "training")
_LAZY = {"device": "training", "seed_everything": "training"}

__all__ = [*functional.__all__, *_SUBMODULES, *_LAZY]


def __getattr__(name):
    if name in _SUBMODULES:
        return importlib.import_module(f".{name}", __name__)
    if name in _LAZY:
        return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
