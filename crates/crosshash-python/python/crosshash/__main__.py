"""The command line program: ``crosshash`` and ``python -m crosshash``."""

from __future__ import annotations

import signal
import sys

from . import _crosshash
from ._onnxruntime import set_variable


def main() -> int:
    """Runs the program with the arguments of this process and returns its exit code."""
    # The program handles Ctrl-C itself; the interpreter would wait until it has ended.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    set_variable()
    command = [sys.executable, "-m", "crosshash"]
    return _crosshash.main(["crosshash", *sys.argv[1:]], command)


if __name__ == "__main__":
    sys.exit(main())
