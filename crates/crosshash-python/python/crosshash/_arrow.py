"""Tables: the Arrow PyCapsule interface, pandas, Hugging Face datasets; encoding of Arrow batches."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _crosshash

if TYPE_CHECKING:
    from ._hasher import CrossModalHasher


def table_columns(table: Any) -> dict[str, Any]:
    """The columns of a table: arrays of numbers, lists of texts, lists of lists, matrices."""
    if isinstance(table, Mapping):
        return {str(name): values for name, values in table.items()}
    if type(table).__module__.split(".")[0] == "datasets":  # Hugging Face
        table = table.with_format("arrow")[:]
    if type(table).__module__.split(".")[0] == "pandas":
        # pandas offers Arrow only if pyarrow is installed, and it cannot convert mixed columns.
        return {str(name): table[name].to_numpy() for name in table.columns}
    if hasattr(table, "__arrow_c_stream__"):
        columns: dict[str, Any] = {}
        for name, form, values, width in _crosshash.read_arrow(table.__arrow_c_stream__()):
            columns[name] = values.reshape(-1, width) if form == "vector" else values
        return columns
    raise ValueError(
        f"{type(table).__name__} is not a table: pass a DataFrame, an Arrow table, a data set of Hugging "
        "Face, or a mapping of columns"
    )


def arrow_encoder(
    run: str | os.PathLike[str] | CrossModalHasher,
    modality: str,
    *,
    column: str | None = None,
    keep: Iterable[str] = (),
    name: str = "code",
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A function from Arrow record batches to record batches with codes, for Spark and Ray.

    The batches have a column of texts or of vectors (default: the only one that is not in ``keep``). The
    result has the columns of ``keep`` and ``name``: the packed codes as fixed-size binary, lowest bit
    first. The model is loaded once per process, when the first batch arrives, so that the function can
    be sent to workers; it is loaded again if the files of the run change. Needs pyarrow.

    Spark: ``frame.select("id", "caption").mapInArrow(arrow_encoder(run, "text", keep=["id"]), "id string,
    code binary")``. Ray: ``data.map_batches(lambda table: next(encode([table])), batch_format="pyarrow")``.
    """
    return _ArrowEncoder(run, modality, column, tuple(keep), name)


@functools.lru_cache(maxsize=2)
def _loaded(run: str, changed: int) -> CrossModalHasher:
    """The model of a run, kept for all functions of this process: Spark sends one per task."""
    from ._hasher import CrossModalHasher

    return CrossModalHasher.load(run)


def _last_change(run: str) -> int:
    """When a file of the run was last changed; 0 if there is no such folder."""
    if not os.path.isdir(run):
        return 0
    with os.scandir(run) as entries:
        return max((entry.stat().st_mtime_ns for entry in entries), default=0)


class _ArrowEncoder:
    """See :func:`arrow_encoder`; it is pickled without its model if it was given a path."""

    def __init__(
        self,
        run: str | os.PathLike[str] | CrossModalHasher,
        modality: str,
        column: str | None,
        keep: tuple[str, ...],
        name: str,
    ) -> None:
        self.run = os.fspath(run) if isinstance(run, (str, os.PathLike)) else run
        self.modality, self.column, self.keep, self.name = modality, column, keep, name
        self._hasher: CrossModalHasher | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_hasher": None}

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa  # the batches are of pyarrow

        for batch in batches:
            if self._hasher is None:
                run = self.run
                self._hasher = _loaded(run, _last_change(run)) if isinstance(run, str) else run
            names = list(batch.schema.names)
            missing = [one for one in self.keep if one not in names]
            others = [one for one in names if one not in self.keep]
            if missing or (self.column is None and len(others) != 1):
                raise KeyError(
                    f"columns {', '.join(names)}: pass column= (the items) and keep= (columns to copy)"
                )
            column = self.column or others[0]
            if column not in names:
                raise KeyError(f"no column named {column!r}; there are: {', '.join(names)}")
            table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
            values = table_columns(table.select([column]))[column]
            if isinstance(values, list):
                values = ["" if value is None else value for value in values]
            codes = np.ascontiguousarray(self._hasher.encode(self.modality, values, progress=False))
            kind = pa.binary(codes.shape[1])
            buffers = [None, pa.py_buffer(codes)]
            packed = pa.FixedSizeBinaryArray.from_buffers(kind, len(codes), buffers)
            columns = [batch.column(names.index(one)) for one in self.keep] + [packed]
            schema = [*self.keep, self.name]
            if isinstance(batch, pa.RecordBatch):
                yield pa.RecordBatch.from_arrays(columns, names=schema)
            else:
                yield pa.table(dict(zip(schema, columns)))
