"""Progress of long work: a callback of the caller, a bar in notebooks and terminals, or nothing."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Union

#: Called with the stage, the number of finished steps, their number in all, and further values such as
#: ``{"epoch": 3, "loss": 0.5}``. An exception in it stops the work.
ProgressCallback = Callable[[str, int, int, Mapping[str, float]], object]

#: ``None``: a bar after two seconds, in a notebook or on a terminal. ``False``: nothing. ``True``: a bar.
Progress = Union[bool, ProgressCallback, None]

_QUIET = 2.0


def callback(progress: Progress) -> ProgressCallback | None:
    """The callback for an argument ``progress``."""
    if progress is False:
        return None
    if callable(progress):
        return progress
    notebook = _in_notebook()
    if not (progress or notebook or sys.stderr.isatty()):
        return None
    return _Bar(notebook, 0.0 if progress else _QUIET)


def _in_notebook() -> bool:
    """Whether this is a kernel of Jupyter."""
    shell: Any = sys.modules.get("IPython")
    if shell is None:
        return False
    current = shell.get_ipython()
    return current is not None and type(current).__name__ == "ZMQInteractiveShell"


class _Bar:
    """A bar of tqdm, if it is installed, or one line of text."""

    def __init__(self, notebook: bool, quiet: float) -> None:
        self.started = time.monotonic()
        self.quiet = quiet
        self.stage = ""
        self.bar: Any = None
        self.tqdm: Any = None
        try:
            # The bar of notebooks needs ipywidgets; it is found missing only when the bar is made.
            if notebook and importlib.util.find_spec("ipywidgets") is not None:
                from tqdm.notebook import tqdm
            else:
                from tqdm import tqdm
            self.tqdm = tqdm
        except ImportError:
            pass

    def __call__(self, stage: str, done: int, total: int, values: Mapping[str, float]) -> None:
        if time.monotonic() - self.started < self.quiet:
            return
        text = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
        if self.tqdm is None:
            if text or done == total:
                print(f"{stage}: {done} of {total} {text}".rstrip(), file=sys.stderr)
            return
        if values:
            if self.bar is not None:
                self.bar.set_postfix(dict(values), refresh=False)
            return
        if self.bar is None or self.stage != stage:
            self.close()
            self.stage = stage
            self.bar = self.tqdm(total=total, desc=stage, leave=False)
        self.bar.update(done - self.bar.n)

    def close(self) -> None:
        """Removes the bar."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # the interpreter may be ending
            pass
