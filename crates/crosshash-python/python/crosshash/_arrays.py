"""Conversions of arguments: arrays, texts, codes, labels and ids."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _crosshash

_HINT = "pass a tensor of the CPU in a type that NumPy has, for example tensor.cpu().float()"
_DTYPES = {"f2", "f4", "f8", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"}


def array(values: Any, what: str = "features") -> npt.NDArray[Any]:
    """An array from anything with numbers: NumPy, torch and others through DLPack, lists."""
    if isinstance(values, np.ndarray):
        return values
    if hasattr(values, "detach"):  # a tensor that records gradients
        values = values.detach()
    if hasattr(values, "__dlpack__"):
        try:
            return np.from_dlpack(values)
        except (TypeError, ValueError, RuntimeError, BufferError) as err:
            if not hasattr(values, "__array__"):
                raise ValueError(f"{what}: {err}; {_HINT}") from err
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as err:
        hint = f"; {_HINT}" if hasattr(values, "__dlpack__") else ""
        raise ValueError(f"{what}: not an array of numbers: {err}{hint}") from err


def is_sparse(values: Any) -> bool:
    """Whether this is a sparse matrix of SciPy."""
    return hasattr(values, "tocsr") and hasattr(values, "nnz")


def is_text(values: Any) -> bool:
    """Whether these are texts: a sequence or an array of str."""
    if isinstance(values, np.ndarray):
        return values.dtype.kind in "UT" or (
            values.dtype == object and values.size > 0 and isinstance(values.flat[0], str)
        )
    if hasattr(values, "to_numpy") and not is_sparse(values):
        return is_text(values.to_numpy())
    return isinstance(values, (list, tuple)) and len(values) > 0 and isinstance(values[0], str)


def is_picture(value: Any) -> bool:
    """Whether this is a picture: a path, bytes of a file, or a picture of PIL."""
    return isinstance(value, (os.PathLike, bytes)) or hasattr(value, "convert")


def features(values: Any, what: str = "features") -> _crosshash.Features:
    """The features of the items of a modality.

    Dense arrays are not copied if they are contiguous, by rows or by columns.
    """
    if isinstance(values, _crosshash.Features):
        return values
    if is_sparse(values):
        matrix = values.tocsr()
        return _crosshash.Features.sparse(
            matrix.shape[1],
            np.ascontiguousarray(matrix.indptr, dtype=np.int64),
            np.ascontiguousarray(matrix.indices, dtype=np.int64),
            np.ascontiguousarray(matrix.data, dtype=np.float32),
        )
    if is_text(values):
        return _crosshash.Features.texts([str(text) for text in _sequence(values)])
    if isinstance(values, (list, tuple)) and values and is_picture(values[0]):
        return _pictures(values, what)
    dense = array(values, what)
    if dense.dtype == np.bool_:
        dense = dense.view(np.uint8)
    if dense.ndim != 2:
        raise ValueError(
            f"{what}: an array of {dense.ndim} dimensions; expected items x features, texts, or paths. "
            "Reshape your data: array.reshape(-1, 1) for a single feature, array.reshape(1, -1) for a single item"
        )
    if dense.dtype.str[1:] not in _DTYPES or dense.dtype.byteorder == ">":
        if dense.dtype.kind not in "fiub":
            raise ValueError(f"{what}: {dense.dtype} is not a type of numbers")
        dense = dense.astype(np.float32)
    by_columns = dense.flags.f_contiguous and not dense.flags.c_contiguous
    whole = dense.T if by_columns else np.ascontiguousarray(dense)
    rows, width = dense.shape
    data = whole.reshape(-1).view(np.uint8)
    return _crosshash.Features.dense(data, rows, width, dense.dtype.str[1:], by_columns)


def _pictures(values: Sequence[Any], what: str) -> _crosshash.Features:
    if all(isinstance(value, os.PathLike) for value in values):
        return _crosshash.Features.pictures([os.path.abspath(value) for value in values])
    if all(isinstance(value, bytes) for value in values):
        return _crosshash.Features.picture_files(list(values))
    raise ValueError(
        f"{what}: pass paths (pathlib.Path) or the bytes of files, all of one kind; extract features of "
        "PIL pictures and arrays with crosshash.features"
    )


def _sequence(values: Any) -> Sequence[Any]:
    if hasattr(values, "tolist"):
        listed: Sequence[Any] = values.tolist()
        return listed
    if hasattr(values, "to_list"):
        listed = values.to_list()
        return listed
    return list(values)


def codes(values: Any, bits: int | None = None, what: str = "codes") -> tuple[int, npt.NDArray[np.uint8]]:
    """Packed codes (lowest bit first) and their length.

    Packed ``uint8`` rows, or one value per bit: booleans, 0 and 1, -1 and +1. A ``uint8`` matrix whose
    values are all 0 and 1 and that has as many columns as ``bits`` is not packed.
    """
    given = array(values, what)
    if given.ndim != 2:
        raise ValueError(f"{what}: an array of {given.ndim} dimensions; expected one row per code")
    columns = given.shape[1]
    if given.dtype == np.uint8:
        is_matrix = columns == bits if bits is not None else False
        if bits is None and columns >= 8 and given.size and given.max() <= 1:
            is_matrix = True
        if not is_matrix or (given.size and given.max() > 1):
            length = bits if bits is not None else columns * 8
            if -(-length // 8) != columns:
                raise ValueError(
                    f"{what}: {length} bits do not fit rows of {columns} bytes: packed they take "
                    f"{-(-length // 8)} bytes, one value a bit {length} columns"
                )
            return length, np.ascontiguousarray(given)
    if bits is not None and columns != bits:
        raise ValueError(f"{what}: {columns} columns; one value per bit needs {bits}")
    if given.dtype == np.bool_:
        return columns, np.packbits(given, axis=1, bitorder="little")
    lowest = given.min() if given.size else 0
    wanted = (0, 1) if lowest >= 0 else (-1, 1)
    if given.size and not np.isin(given, wanted).all():
        row, column = np.argwhere(~np.isin(given, wanted))[0]
        raise ValueError(
            f"{what}: row {row}, column {column}: {given[row, column]} is not a bit: expected 0 and 1, or "
            "-1 and +1; pack real outputs with crosshash.evaluate(..., layout=\"real\")"
        )
    return columns, np.packbits(given > 0, axis=1, bitorder="little")


def signs(values: Any, what: str = "codes") -> tuple[int, npt.NDArray[np.uint8]]:
    """Codes of real values: a bit is 1 if its value is at least 0."""
    given = np.ascontiguousarray(array(values, what), dtype=np.float32)
    if given.ndim != 2:
        raise ValueError(f"{what}: an array of {given.ndim} dimensions; expected one row per code")
    packed: npt.NDArray[np.uint8] = _crosshash.pack_signs(given.reshape(-1), given.shape[1])
    return given.shape[1], packed


#: Labels in compressed rows: number of labels, starts of the rows, label numbers.
LabelRows = tuple[int, npt.NDArray[np.int64], npt.NDArray[np.int64]]


def labels(
    values: Any, names: Sequence[str] | None = None, what: str = "labels"
) -> tuple[LabelRows, list[str]]:
    """Labels of any form as compressed rows, and their names.

    A matrix of 0 and 1 (also sparse), a vector of class numbers or names, or a list of lists of label
    numbers or names.
    """
    known = None if names is None else [str(name) for name in names]
    if is_sparse(values):
        matrix = values.tocsr()
        return _numbered(matrix.shape[1], matrix.indptr, matrix.indices, known, what)
    if hasattr(values, "to_numpy"):
        if known is None and getattr(values, "ndim", 1) == 2 and hasattr(values, "columns"):
            known = [str(name) for name in values.columns]
        values = values.to_numpy()
    if isinstance(values, (list, tuple)) and not _is_matrix(values):
        rows = [[row] if isinstance(row, str) or np.isscalar(row) else list(row) for row in values]
        return _listed(rows, known, what)
    given = array(values, what)
    if given.dtype == object:
        return labels(given.tolist(), known, what)
    if given.ndim == 1:
        return _listed([[value] for value in given.tolist()], known, what)
    if given.ndim != 2:
        raise ValueError(f"{what}: an array of {given.ndim} dimensions; expected one row per item")
    given = np.ascontiguousarray(given)
    places = np.flatnonzero(given)  # faster than np.nonzero, which makes two arrays of indices
    if not (given.reshape(-1)[places] == 1).all():
        row, column = np.argwhere((given != 0) & (given != 1))[0]
        raise ValueError(f"{what}: row {row}, column {column}: {given[row, column]} is neither 0 nor 1")
    starts = np.searchsorted(places, np.arange(given.shape[0] + 1) * given.shape[1])
    return _numbered(given.shape[1], starts, places % max(given.shape[1], 1), known, what)


def _is_matrix(values: Sequence[Any]) -> bool:
    """Whether a list of lists is a matrix of 0 and 1 instead of lists of label numbers."""
    return bool(values) and isinstance(values[0], np.ndarray)


def _numbered(
    classes: int, starts: Any, numbers: Any, names: list[str] | None, what: str
) -> tuple[LabelRows, list[str]]:
    if names is not None and len(names) != classes:
        raise ValueError(f"{what}: {classes} labels, but {len(names)} names")
    rows = (
        int(classes),
        np.ascontiguousarray(starts, dtype=np.int64),
        np.ascontiguousarray(numbers, dtype=np.int64),
    )
    return rows, names if names is not None else [str(label) for label in range(classes)]


def _listed(
    rows: list[list[Any]], names: list[str] | None, what: str
) -> tuple[LabelRows, list[str]]:
    flat = [label for row in rows for label in row]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    if any(isinstance(label, str) for label in flat):
        texts = [str(label) for label in flat]
        names = sorted(set(texts)) if names is None else names
        number = {name: at for at, name in enumerate(names)}
        missing = next((text for text in texts if text not in number), None)
        if missing is not None:
            raise KeyError(f"{what}: no label named {missing!r}; there are: {', '.join(names)}")
        return _numbered(len(names), starts, [number[text] for text in texts], names, what)
    for row, label in ((row, label) for row, all_of in enumerate(rows) for label in all_of):
        if int(label) != label or label < 0:
            raise ValueError(f"{what}: row {row}: {label} is not a label number")
    classes = len(names) if names is not None else int(max(flat, default=-1)) + 1
    return _numbered(classes, starts, flat, names, what)


def ids(values: Any, what: str = "ids") -> npt.NDArray[np.uint64] | list[str]:
    """Ids: whole numbers, or names."""
    if is_text(values):
        return [str(one) for one in _sequence(values)]
    given = array(values, what).reshape(-1)
    if given.dtype == object:
        return [str(one) for one in given.tolist()]
    if given.dtype.kind not in "iu" and given.size:
        raise ValueError(f"{what}: {given.dtype}; ids are whole numbers or texts")
    if given.dtype.kind == "i" and given.size and given.min() < 0:
        raise ValueError(f"{what}: {given.min()}: ids are not negative")
    return np.ascontiguousarray(given, dtype=np.uint64)


def settings(values: Mapping[str, Any]) -> list[str]:
    """Settings as ``key=value`` in TOML; nested mappings are sections."""
    found: list[str] = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            found.extend(f"{key}.{inner}" for inner in settings(value))
        elif value is not None:
            found.append(f"{key}={toml(value)}")
    return found


def toml(value: Any) -> str:
    """A value in TOML."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)  # a string of TOML, too
    if isinstance(value, Iterable):
        return "[" + ", ".join(toml(one) for one in value) + "]"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    return toml(str(value))
