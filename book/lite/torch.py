"""Stands in for PyTorch in the browser, where there is none: importing it says so in one sentence."""


class NoTorchHere(ImportError):
    def _render_traceback_(self):  # what IPython prints instead of a traceback
        return [str(self)]


raise NoTorchHere(
    "PyTorch does not run in the browser: for the cells from here on, open this chapter in Colab "
    "(the rocket at the top of its page) or run the course on your machine (make lab).",
    name="torch",
)
