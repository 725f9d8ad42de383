"""Indexes of codes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _arrays, _crosshash
from ._progress import Progress, callback


@dataclass(frozen=True)
class Hit:
    """One result: the id of an item, its Hamming distance, and its score if it was ranked."""

    id: int | str
    distance: int
    score: float | None = None


@dataclass(frozen=True)
class SearchResults:
    """The results of several queries, nearest first.

    ``ids``, ``distances`` and ``scores`` have one row per query and as many columns as the longest
    result; missing results have id -1 (or ``None``), distance -1 and score NaN. ``counts`` are the numbers
    of results.
    """

    ids: npt.NDArray[Any]
    distances: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float32] | None
    counts: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, query: int) -> list[Hit]:
        count = int(self.counts[query])
        ids = self.ids[query, :count].tolist()
        distances = self.distances[query, :count].tolist()
        scores = [None] * count if self.scores is None else self.scores[query, :count].tolist()
        return [Hit(*row) for row in zip(ids, distances, scores)]

    def __iter__(self) -> Iterator[list[Hit]]:
        return (self[query] for query in range(len(self)))


class Index:
    """Items with codes, ids, labels, texts and fields: exact search by Hamming distance.

    In memory, or in a folder that the program can search and serve, too (``crosshash serve FOLDER``);
    changes of an index in a folder are on disk when the method returns. Any number of threads may
    search and change an index at the same time; a search sees one state.

    Parameters
    ----------
    bits : int
        Code length.
    path : path, optional
        An empty folder, or one that does not exist. :meth:`open` opens an index.
    label_names : sequence of str
        Names of the labels, for filters.
    outputs : bool
        Whether real outputs are stored (one byte per bit), for ``rank="outputs"``.
    kind : str
        The search structure of large parts: auto, scan, mih, mih-lean, cluster-lists. All are exact.

    Examples
    --------
    >>> import numpy as np
    >>> from crosshash import Index
    >>> index = Index(16)
    >>> codes = np.array([[0, 0], [1, 0], [255, 255]], dtype=np.uint8)
    >>> index.add(codes, ids=["a", "b", "c"], meta=[{"price": 3}, {"price": 5}, {"price": 9}])
    3
    >>> found = index.search(codes[:1], k=2)
    >>> found.ids.tolist(), found.distances.tolist()
    ([['a', 'b']], [[0, 1]])
    >>> index.search(codes[:1], k=2, filter="price > 4")[0]
    [Hit(id='b', distance=1, score=None), Hit(id='c', distance=16, score=None)]
    >>> index.delete(["a"]), len(index)
    (1, 2)
    """

    _index: _crosshash.Index

    def __init__(
        self,
        bits: int,
        path: str | os.PathLike[str] | None = None,
        *,
        label_names: Sequence[str] = (),
        outputs: bool = False,
        kind: str = "auto",
    ) -> None:
        self.kind = kind
        self._index = _crosshash.Index(
            int(bits),
            [str(name) for name in label_names],
            bool(outputs),
            kind,
            None if path is None else os.fspath(path),
        )

    @classmethod
    def _of(cls, index: _crosshash.Index, kind: str) -> Index:
        made = cls.__new__(cls)
        made._index, made.kind = index, kind
        return made

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, kind: str = "auto") -> Index:
        """Opens the index in a folder, for searching and changing; one process at a time."""
        if not os.path.exists(path):
            raise FileNotFoundError(f"{os.fspath(path)}: no such folder")
        return cls._of(_crosshash.Index.open(os.fspath(path), kind), kind)

    @classmethod
    def read(
        cls,
        file: str | os.PathLike[str],
        *,
        bits: int | None = None,
        path: str | os.PathLike[str] | None = None,
        kind: str = "auto",
    ) -> Index:
        """Reads codes of a file (.faiss, .npy, .codes, .jsonl) into a new index, in memory or in a folder.

        A .faiss file is an ``IndexBinaryFlat`` of ``faiss.write_index_binary``.
        """
        found, codes, ids, labels = _crosshash.Index.read(os.fspath(file), bits)
        made = cls(found, path, kind=kind)
        if len(codes):
            made._index.add(codes, ids, labels, None, None, None, False)
        return made

    @classmethod
    def from_faiss(cls, index: Any, *, path: str | os.PathLike[str] | None = None) -> Index:
        """Copies a binary index of FAISS that stores its codes (``IndexBinaryFlat``, also in an id map)."""
        ids = None
        if hasattr(index, "id_map"):
            import faiss

            ids = faiss.vector_to_array(index.id_map)
            index = faiss.downcast_IndexBinary(index.index)
        if not hasattr(index, "xb"):
            raise ValueError(f"{type(index).__name__} does not store its codes; use an IndexBinaryFlat")
        import faiss

        codes = faiss.vector_to_array(index.xb).reshape(index.ntotal, index.d // 8)
        made = cls(index.d, path)
        made.add(codes, ids=ids)
        return made

    def to_faiss(self) -> Any:
        """A FAISS ``IndexBinaryFlat``, with numbers as ids in an ``IndexBinaryIDMap``."""
        import faiss

        codes, ids, _ = self._index.items()
        flat = faiss.IndexBinaryFlat(codes.shape[1] * 8)
        if ids is None or isinstance(ids, list) or np.array_equal(ids, np.arange(len(codes))):
            flat.add(codes)
            return flat
        mapped = faiss.IndexBinaryIDMap(flat)  # keeps a reference to it
        mapped.add_with_ids(codes, ids.astype(np.int64))
        return mapped

    def write(self, file: str | os.PathLike[str]) -> None:
        """Writes the codes of all items in the format of the file name (.faiss, .npy, .codes, .jsonl)."""
        self._index.export(os.fspath(file))

    def add(
        self,
        codes: Any,
        *,
        ids: Any = None,
        labels: Any = None,
        meta: Sequence[Mapping[str, Any] | None] | None = None,
        texts: Sequence[str | None] | None = None,
        outputs: Any = None,
    ) -> int:
        """Adds items and returns how many. An id that exists is an error; items without ids are numbered.

        ``codes`` are packed ``uint8`` rows (or one value per bit), ``labels`` anything that
        :class:`Dataset` accepts, ``meta`` fields for filters, ``outputs`` real outputs for ranking.
        """
        return self._add(codes, ids, labels, meta, texts, outputs, False)[0]

    def upsert(
        self,
        codes: Any,
        *,
        ids: Any,
        labels: Any = None,
        meta: Sequence[Mapping[str, Any] | None] | None = None,
        texts: Sequence[str | None] | None = None,
        outputs: Any = None,
    ) -> int:
        """Adds items; those whose id exists replace the old ones. Returns how many were replaced."""
        return self._add(codes, ids, labels, meta, texts, outputs, True)[1]

    def _add(
        self, codes: Any, ids: Any, labels: Any, meta: Any, texts: Any, outputs: Any, upsert: bool
    ) -> tuple[int, int]:
        _, packed = _arrays.codes(codes, self.bits)
        rows = None
        if labels is not None:
            names = self.label_names or None
            rows = _arrays.labels(labels, names if _has_names(labels, names) else None)[0]
            if names is not None and rows[0] < len(names):
                rows = (len(names), rows[1], rows[2])
        replaced = self._index.add(
            packed,
            None if ids is None else _arrays.ids(ids),
            rows,
            None if texts is None else [None if text is None else str(text) for text in texts],
            None if meta is None else [None if one is None else json.dumps(dict(one)) for one in meta],
            None if outputs is None else _reals(outputs),
            upsert,
        )
        return len(packed), replaced

    def delete(self, ids: Any = None, *, filter: str | None = None) -> int:
        """Deletes items by id or by a filter and returns how many there were."""
        if (ids is None) == (filter is None):
            raise ValueError("pass ids or a filter")
        if filter is not None:
            return self._index.delete_where(filter)
        return self._index.delete(_arrays.ids(ids))

    def search(
        self,
        queries: Any,
        k: int | None = 10,
        *,
        radius: int | None = None,
        filter: str | None = None,
        rank: str = "hamming",
        outputs: Any = None,
        candidates: int | None = None,
        skip: int = 0,
        progress: Progress = False,
    ) -> SearchResults:
        """The nearest items of every query code.

        Parameters
        ----------
        queries : packed codes, one row per query
        k : int or None
            Maximum number of results; ``None`` for all within ``radius``.
        radius : int
            Only items at most this far away.
        filter : str
            An expression over labels, ids and fields: ``"price < 20 and label in (cat, dog)"``.
        rank : str
            ``hamming``; ``asymmetric``: the nearest ``candidates`` re-ranked by the real ``outputs`` of the
            query against codes; ``outputs``: against stored outputs; ``auto``: the best that is possible.
        skip : int
            Number of first results to skip, for pages.
        """
        if k is None and radius is None:
            raise ValueError("pass k, radius, or both")
        _, packed = _arrays.codes(queries, self.bits, "queries")
        starts, ids, distances, scores = self._index.search(
            packed,
            None if k is None else int(k),
            None if radius is None else int(radius),
            int(skip),
            filter,
            rank,
            candidates,
            None if outputs is None else _reals(outputs),
            callback(progress),
        )
        return _results(starts, ids, distances, scores, k)

    def get(self, id: int | str) -> dict[str, Any] | None:
        """An item by its id: code, labels, text and meta; None if it does not exist."""
        found = self._index.get(str(id))
        if found is None:
            return None
        code, labels, text, meta = found
        return {
            "id": id,
            "code": np.frombuffer(bytes(code), dtype=np.uint8),
            "labels": labels,
            "text": text,
            "meta": json.loads(meta),
        }

    def items(self) -> tuple[npt.NDArray[np.uint8], Any, list[list[int]] | None]:
        """All items: packed codes, ids (numbers or names), labels."""
        codes, ids, rows = self._index.items()
        if rows is None:
            return codes, ids, None
        starts, numbers = rows[1], rows[2]
        return codes, ids, [numbers[a:b].tolist() for a, b in zip(starts[:-1], starts[1:])]

    def prepare(self, *, progress: Progress = None) -> None:
        """Builds the search structure now; otherwise it is built in the background."""
        self._index.prepare(self.kind, callback(progress))

    def explain(self) -> list[str]:
        """How every part is searched, and why."""
        return self._index.explain()

    def compact(self) -> None:
        """Drops deleted items from memory or disk."""
        self._index.compact()

    @property
    def bits(self) -> int:
        """The code length."""
        return self._index.bits

    @property
    def path(self) -> str | None:
        """The folder; None in memory."""
        return self._index.path

    @property
    def label_names(self) -> list[str]:
        """The names of the labels."""
        return self._index.label_names

    @property
    def info(self) -> dict[str, Any]:
        """Counts and sizes."""
        found: dict[str, Any] = json.loads(self._index.info())
        return found

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, id: object) -> bool:
        return self._index.get(str(id)) is not None

    def __repr__(self) -> str:
        place = "in memory" if self.path is None else repr(self.path)
        return f"Index({len(self)} codes of {self.bits} bits, {place})"


def _has_names(labels: Any, names: list[str] | None) -> bool:
    """Whether labels are to be matched with the names of the index."""
    if names is None:
        return False
    if isinstance(labels, (list, tuple)):
        return any(isinstance(one, str) or (not np.isscalar(one) and any(isinstance(x, str) for x in one))
                   for one in labels)
    return bool(getattr(labels, "ndim", 1) == 2)


def _reals(outputs: Any) -> npt.NDArray[np.float32]:
    return np.ascontiguousarray(_arrays.array(outputs), dtype=np.float32).reshape(-1)


def _results(
    starts: npt.NDArray[np.int64],
    ids: Any,
    distances: npt.NDArray[np.uint32],
    scores: npt.NDArray[np.float32] | None,
    k: int | None,
) -> SearchResults:
    counts = np.diff(starts)
    width = int(counts.max()) if len(counts) else 0
    if k is not None and width < k <= 1024:
        width = k
    names = isinstance(ids, list)
    flat = np.array(ids, dtype=object) if names else ids.view(np.int64)
    near = distances.view(np.int32)
    if counts.size and counts.min() == width:  # no padding: nothing is copied
        shape = (len(counts), width)
        ranked = None if scores is None else scores.reshape(shape)
        return SearchResults(flat.reshape(shape), near.reshape(shape), ranked, counts)
    filled = np.arange(width) < counts[:, None]
    all_ids = np.full(filled.shape, None if names else -1, dtype=object if names else np.int64)
    all_ids[filled] = flat
    all_distances = np.full(filled.shape, -1, dtype=np.int32)
    all_distances[filled] = near
    all_scores = None
    if scores is not None:
        all_scores = np.full(filled.shape, np.nan, dtype=np.float32)
        all_scores[filled] = scores
    return SearchResults(all_ids, all_distances, all_scores, counts)
