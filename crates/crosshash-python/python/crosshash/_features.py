"""Features of pictures and texts by backbones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _arrays, _crosshash
from ._onnxruntime import library
from ._progress import Progress, callback


@dataclass(frozen=True)
class Backbone:
    """A network that extracts features: its name, input (pictures or texts), width and description."""

    name: str
    input: str
    width: int
    description: str
    built_in: bool


def backbones() -> list[Backbone]:
    """All named backbones; the path of an .onnx file is one, too.

    >>> import crosshash
    >>> [one.name for one in crosshash.backbones() if one.built_in and one.input == "pictures"]
    ['descriptor', 'descriptor-drawing']
    """
    return [Backbone(*row) for row in _crosshash.backbones()]


def features(
    items: Any,
    backbone: str | os.PathLike[str],
    *,
    weights: Any = (),
    cache: str | os.PathLike[str] | None = None,
    skip_bad: bool = False,
    progress: Progress = None,
) -> npt.NDArray[np.float32]:
    """Features of pictures or texts, one row each.

    Parameters
    ----------
    items :
        Texts; or paths (also of a folder), bytes of picture files, PIL pictures, or arrays of height x
        width x 3 (uint8), in a list.
    backbone : str
        A name of :func:`backbones`, or the path of an .onnx file.
    weights : path or list of paths
        Folders of weights; ``$CROSSHASH_WEIGHTS`` and the cache folder are searched next. onnxruntime runs
        the networks if it is installed, otherwise the built-in runtime.
    cache : path
        A folder in which features of files and texts are kept.
    skip_bad : bool
        Unreadable pictures get a row of NaN instead of an error.
    """
    name = os.fspath(backbone)
    given_folders = [weights] if isinstance(weights, (str, os.PathLike)) else list(weights or ())
    folders = [str(os.fspath(folder)) for folder in given_folders]
    if isinstance(items, os.PathLike):
        items = sorted(path for path in Path(items).rglob("*") if path.is_file())
    arrays = _as_arrays(items)
    if arrays is not None:
        return _crosshash.extract_arrays(name, arrays, folders, library(), callback(progress))  # type: ignore[no-any-return]
    takes = {one.name: one.input for one in backbones()}.get(name)
    if takes == "pictures" and isinstance(items, (list, tuple)) and all(isinstance(i, str) for i in items):
        items = [Path(item) for item in items]
    given = _arrays.features(items, "items")
    rows, kept = _crosshash.extract(
        name,
        given,
        folders,
        library(),
        None if cache is None else os.fspath(cache),
        skip_bad,
        callback(progress),
    )
    if len(kept) == len(given):
        return rows  # type: ignore[no-any-return]
    out = np.full((len(given), rows.shape[1]), np.nan, dtype=np.float32)
    out[kept] = rows
    return out


def _as_arrays(items: Any) -> list[npt.NDArray[np.uint8]] | None:
    """Pictures as arrays, if they are pictures of PIL or arrays."""
    if hasattr(items, "ndim") and items.ndim == 4:
        items = list(_arrays.array(items))
    if not isinstance(items, (list, tuple)) or not items:
        return None
    if not all(hasattr(item, "convert") or getattr(item, "ndim", 0) == 3 for item in items):
        return None
    found = []
    for item in items:
        rgb = np.asarray(item.convert("RGB")) if hasattr(item, "convert") else _arrays.array(item)
        if rgb.dtype != np.uint8:
            raise ValueError(f"pictures are uint8, height x width x 3, not {rgb.dtype}")
        found.append(np.ascontiguousarray(rgb))
    return found


__all__: Sequence[str] = ["Backbone", "backbones", "features"]
