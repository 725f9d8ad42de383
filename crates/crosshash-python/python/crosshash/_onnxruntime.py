"""Finds the shared library of onnxruntime, if the package is installed; it is not imported."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

VARIABLE = "ORT_DYLIB_PATH"
_PATTERNS = ("libonnxruntime.so.*", "libonnxruntime.so", "libonnxruntime*.dylib", "onnxruntime.dll")


def library() -> str | None:
    """The path of the library, or None."""
    if os.environ.get(VARIABLE):
        return os.environ[VARIABLE]
    try:
        spec = importlib.util.find_spec("onnxruntime")
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    for folder in spec.submodule_search_locations:
        for pattern in _PATTERNS:
            found = sorted(Path(folder, "capi").glob(pattern))
            if found:
                return str(found[0])
    return None


def set_variable() -> None:
    """Sets the variable that the program reads, unless it is set."""
    found = library()
    if found and not os.environ.get(VARIABLE):
        os.environ[VARIABLE] = found
