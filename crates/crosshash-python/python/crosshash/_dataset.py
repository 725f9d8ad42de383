"""Data sets: arrays, tables and folders."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from . import _arrays, _crosshash
from ._arrow import table_columns
from ._onnxruntime import library
from ._progress import Progress, callback

#: A part of a split: a number of items, a share of them, or rows from (included) to (excluded).
SplitPart = Union[int, float, tuple[int, int]]

_PARTS = ("query", "validation", "train", "database")


class Dataset:
    """Items of any number of modalities, with labels and pairs.

    Parameters
    ----------
    modalities : mapping of name to features
        Dense arrays (NumPy, torch and others by DLPack), sparse matrices of SciPy, texts, or paths of
        pictures; one row per item. Contiguous arrays are not copied: do not write to them later.
    labels : array, list of lists, mapping by modality, or None
        A matrix of 0 and 1, a vector of classes, or lists of label numbers or names. One for all
        modalities, or one for each. Without labels, pairs are learnt.
    ids : sequence or mapping by modality
        Default: row numbers.
    pairs : None, False, or mapping by modality
        None: items with the same id are pairs, by default row k of every modality. False: nothing is
        paired. A mapping gives every item a key; items of one key are pairs, many to many.
    groups : mapping by modality
        Items of a group are never divided between training and queries.
    split : mapping
        ``query``, ``validation``, ``train`` and ``database``, each a number of items, a share, or a pair of
        rows. Default: no queries, and everything is training.
    seed, stratify :
        How the parts are drawn.
    meta : sequence of mappings or mapping by modality
        Fields of the items, for filters of a served run; written by :meth:`save`.

    Examples
    --------
    >>> import numpy as np
    >>> from crosshash import Dataset
    >>> data = Dataset(
    ...     {"image": np.eye(6, 4, dtype=np.float32), "text": ["a cat", "a dog"] * 3},
    ...     labels=[["cat"], ["dog"]] * 3,
    ...     split={"query": 2},
    ... )
    >>> data.modalities, data.label_names, len(data["image"])
    (['image', 'text'], ['cat', 'dog'], 6)
    >>> len(data.part("image", "query")), len(data.part("image", "database"))
    (2, 4)
    """

    _data: _crosshash.Dataset
    _meta: dict[str, list[dict[str, Any]]]
    _groups: dict[str, list[str]]
    _split: dict[str, SplitPart] | None  # None: the data set was opened, its manifest has the split
    _findings: list[str]

    def __init__(
        self,
        modalities: Mapping[str, Any],
        labels: Any = None,
        *,
        ids: Any = None,
        pairs: Any = None,
        groups: Mapping[str, Sequence[Any]] | None = None,
        label_names: Sequence[str] | None = None,
        split: Mapping[str, SplitPart] | None = None,
        seed: int = 0,
        stratify: bool = False,
        meta: Any = None,
        name: str = "arrays",
    ) -> None:
        if not modalities:
            raise ValueError("a data set needs at least one modality")
        given = {key: _arrays.features(value, f"modality {key}") for key, value in modalities.items()}
        sizes = {key: len(value) for key, value in given.items()}
        if ids is None and pairs is None and len(set(sizes.values())) > 1:
            listed = ", ".join(f"{key} {size}" for key, size in sizes.items())
            raise ValueError(
                f"the modalities have different numbers of items ({listed}): pass ids or pairs, which "
                "tell which items belong together, or pairs=False"
            )
        if isinstance(pairs, bool) and pairs:
            raise ValueError("pairs=True is the default; pass keys by modality, or False for no pairs")
        rows, names = _all_labels(labels, label_names, list(given), sizes)
        parts = dict(split or {})
        for part in parts:
            if part not in _PARTS:
                raise KeyError(f"no part named {part!r}; there are: {', '.join(_PARTS)}")
        listed_modalities = []
        for key, features in given.items():
            own = _by_modality(ids, key)
            if own is not None:
                own_ids = [str(one) for one in _arrays.ids(own)]
            elif pairs is None:
                own_ids = [str(row) for row in range(sizes[key])]
            else:
                own_ids = [f"{key} {row}" for row in range(sizes[key])]
            keys = pairs.get(key) if isinstance(pairs, Mapping) else None
            own_groups = (groups or {}).get(key)
            listed_modalities.append(
                (
                    key,
                    own_ids,
                    features,
                    rows[key],
                    None if keys is None else [str(one) for one in _arrays.ids(keys)],
                    None if own_groups is None else [str(one) for one in own_groups],
                )
            )
        self._data = _crosshash.Dataset(name, names, listed_modalities, parts, int(seed), bool(stratify))
        self._split = {**parts, "seed": int(seed), **({"stratify": True} if stratify else {})}
        self._groups = {key: [str(one) for one in own] for key, own in (groups or {}).items()}
        self._meta, self._findings = {}, []
        for key in given:
            fields = _by_modality(meta, key)
            if fields is not None:
                self._meta[key] = [dict(one) for one in fields]
                if len(self._meta[key]) != sizes[key]:
                    raise ValueError(f"modality {key} has {sizes[key]} items but {len(self._meta[key])} meta")

    @classmethod
    def _of(cls, data: _crosshash.Dataset) -> Dataset:
        made = cls.__new__(cls)
        made._data, made._meta, made._groups, made._split, made._findings = data, {}, {}, None, []
        return made

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        root: str | os.PathLike[str] | None = None,
        backbones: Mapping[str, str | None] | None = None,
        weights: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
        cache: str | os.PathLike[str] | None = None,
        progress: Progress = None,
    ) -> Dataset:
        """Opens a manifest, a folder with one, or ``"emoji"`` (the built-in data set).

        Features of pictures and texts are extracted with the backbones that the manifest names, or with
        those of ``backbones``; ``None`` encodes texts as bags of words.
        """
        folders = [weights] if isinstance(weights, (str, os.PathLike)) else list(weights)
        if os.fspath(path) != "emoji" and not os.path.exists(path):
            raise FileNotFoundError(f"{os.fspath(path)}: the file or folder does not exist")
        data = _crosshash.Dataset.open(
            os.fspath(path),
            None if root is None else os.fspath(root),
            dict(backbones or {}),
            [os.fspath(folder) for folder in folders],
            library(),
            None if cache is None else os.fspath(cache),
            callback(progress),
        )
        return cls._of(data)

    @classmethod
    def from_folder(
        cls,
        source: str | os.PathLike[str],
        out: str | os.PathLike[str],
        *,
        backbones: Mapping[str, str | None] | None = None,
        weights: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
        cache: str | os.PathLike[str] | None = None,
        progress: Progress = None,
    ) -> Dataset:
        """From a folder of pictures (classes or captions are optional), a table file, or array files.

        Writes a manifest into the folder ``out``, as ``crosshash data import`` does, and opens it;
        :attr:`findings` says what every file and column was taken for. Pictures need a backbone, for
        example ``backbones={"image": "efficientnet-lite0"}`` (:func:`crosshash.backbones`).
        """
        if not os.path.exists(source):
            raise FileNotFoundError(f"{os.fspath(source)}: the file or folder does not exist")
        findings = _crosshash.import_data(os.fspath(source), os.fspath(out), callback(progress))
        made = cls.open(out, backbones=backbones, weights=weights, cache=cache, progress=progress)
        made._findings = findings
        return made

    @classmethod
    def from_table(
        cls,
        table: Any,
        modalities: Mapping[str, Any],
        *,
        labels: str | Sequence[str] | None = None,
        separator: str | None = None,
        id: str | None = None,
        pairs: Any = None,
        split: Mapping[str, SplitPart] | None = None,
        seed: int = 0,
        stratify: bool = False,
        name: str = "table",
    ) -> Dataset:
        """From the columns of a table: pandas, Polars, pyarrow, Hugging Face ``datasets``, anything with the
        Arrow PyCapsule interface, or a mapping of columns.

        ``modalities`` maps names to a column, to several columns of text, which are joined, or to an
        array with one row per row of the table. A column contains texts, or a list of numbers per row.
        ``labels`` names a column of names or lists, divided at ``separator``, or several columns of 0 and 1.
        The other columns are fields for filters.

        >>> from crosshash import Dataset
        >>> table = {"id": ["p1", "p2"], "caption": ["a cat", "a dog"], "tags": ["cat;pet", "dog;pet"],
        ...          "price": [3, 5], "vector": [[0.0, 1.0], [1.0, 0.0]]}
        >>> data = Dataset.from_table(table, {"image": "vector", "text": "caption"}, labels="tags",
        ...                           separator=";", id="id")
        >>> data.label_names, data["image"].ids
        (['cat', 'dog', 'pet'], ['p1', 'p2'])
        """
        columns = table_columns(table)
        used: set[str] = set()

        def column(key: str) -> Any:
            if key not in columns:
                raise KeyError(f"no column named {key!r}; there are: {', '.join(columns)}")
            used.add(key)
            return columns[key]

        given: dict[str, Any] = {}
        for key, source in modalities.items():
            if isinstance(source, str):
                given[key] = _features_of_column(column(source), source)
            elif isinstance(source, (list, tuple)) and source and isinstance(source[0], str):
                parts = [[str(cell or "") for cell in column(one)] for one in source]
                given[key] = [" ".join(cells) for cells in zip(*parts)]
            else:
                given[key] = source
        rows: Any = None
        names: list[str] | None = None
        if isinstance(labels, str):
            rows = [_split_cell(cell, separator) for cell in column(labels)]
        elif labels is not None:
            names = list(labels)
            rows = np.stack([np.asarray(column(one), dtype=np.uint8) for one in names], axis=1)
        own_ids = None if id is None else [str(one) for one in column(id)]
        fields = [key for key in columns if key not in used]
        plain = [[_plain(cell) for cell in columns[key]] for key in fields]
        meta = [dict(zip(fields, cells)) for cells in zip(*plain)] if fields else None
        return cls(
            given,
            labels=rows,
            ids=own_ids,
            pairs=pairs,
            label_names=names,
            split=split,
            seed=seed,
            stratify=stratify,
            meta=meta,
            name=name,
        )

    from_pandas = from_table
    from_polars = from_table
    from_arrow = from_table
    from_huggingface = from_table

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Writes a manifest and its files, which the program can open, too. The folder must be empty.

        Dense features become ``.npy`` files; texts, ids, labels and fields become JSON lines.
        """
        if self._split is None:
            raise ValueError(f"this data set is in files already: {self._data.path}")
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise ValueError(f"{path} is not empty; name an empty folder")
        manifest = [f"name = {_arrays.toml(self.name)}"]
        names = self.label_names
        tables = []
        for key in self.modalities:
            view = self[key]
            features = self._data.features(key)
            rows = [{"id": one} for one in view.ids]
            keys = self._data.pairs(key)
            if keys is not None:
                for row, pair in zip(rows, keys):
                    row["pair"] = pair
            for row, group in zip(rows, self._groups.get(key, [])):
                row["group"] = group
            if names:
                for row, own in zip(rows, view.labels):
                    row["labels"] = [names[label] for label in own]  # type: ignore[assignment]
            if features.form == "text":
                for row, text in zip(rows, view.features):
                    row["text"] = text
            for row, fields in zip(rows, self._meta.get(key, [])):
                row.update({name: value for name, value in fields.items() if name not in row})
            with open(path / f"{key}.jsonl", "w", encoding="utf-8") as out:
                for row in rows:
                    out.write(json.dumps(row, ensure_ascii=False) + "\n")
            source = [f"[modality.{_arrays.toml(key)}]"]
            pair = ', pair = "pair"' if keys is not None else ""
            source.append(f'items = {{ table = {_arrays.toml(key + ".jsonl")}, id = "id"{pair} }}')
            if names:
                source.append(f'labels = {{ column = "labels", names = {_arrays.toml(names)} }}')
            if key in self._groups:
                source.append('group = "group"')
            if features.form == "text":
                source.append('text = "text"')
            elif features.form == "dense":
                np.save(path / f"{key}.npy", view.features)
                source.append(f"features = {_arrays.toml(key + '.npy')}")
            else:
                raise ValueError(
                    f"modality {key} contains {features.form} features; save dense features or texts"
                )
            tables.append("\n".join(source))
        parts = [f"{part} = {_part(value)}" for part, value in self._split.items()]
        tables.append("\n".join(["[split]", *parts]))
        (path / "dataset.toml").write_text("\n\n".join(["\n".join(manifest), *tables]) + "\n", "utf-8")
        self._data = self._data.at(os.fspath(path.absolute()), None)
        return path

    @property
    def name(self) -> str:
        """The name."""
        return self._data.name

    @property
    def modalities(self) -> list[str]:
        """The names of the modalities."""
        return self._data.modalities

    @property
    def label_names(self) -> list[str]:
        """The names of the labels; empty without labels."""
        return self._data.label_names

    @property
    def findings(self) -> list[str]:
        """What :meth:`from_folder` took every file and column for."""
        return list(self._findings)

    @property
    def dropped(self) -> list[tuple[str, str, int]]:
        """Items that were read but are not used: modality, reason, number."""
        return self._data.dropped

    def part(self, modality: str, part: str, validation: float = 0.0) -> npt.NDArray[np.int64]:
        """The item numbers of a part of the split: train, validation, query or database.

        ``validation`` is the share of the training items that is held out if the split names none.
        """
        return np.asarray(self._data.part(modality, part, validation), dtype=np.int64)

    def __getitem__(self, modality: str) -> ModalityView:
        if modality not in self.modalities:
            known = ", ".join(self.modalities)
            raise KeyError(f'no modality named "{modality}"; there are: {known}')
        return ModalityView(self._data, modality)

    def __contains__(self, modality: object) -> bool:
        return modality in self.modalities

    def __repr__(self) -> str:
        sizes = ", ".join(f"{key}: {self._data.size(key)}" for key in self.modalities)
        return f"Dataset({self.name!r}, {sizes}, {len(self.label_names)} labels)"


class ModalityView:
    """The items of one modality of a :class:`Dataset`."""

    def __init__(self, data: _crosshash.Dataset, name: str) -> None:
        self._data = data
        #: The name of the modality.
        self.name = name

    def __len__(self) -> int:
        return self._data.size(self.name)

    @property
    def ids(self) -> list[str]:
        """The ids, by item."""
        return self._data.ids(self.name)

    @property
    def features(self) -> Any:
        """Dense features as a float32 array, texts as a list; an opaque object for others."""
        features = self._data.features(self.name)
        values = features.values()
        return features if values is None else values

    @property
    def labels(self) -> list[list[int]]:
        """The label numbers of every item."""
        _, starts, numbers = self._data.labels(self.name)
        return [numbers[a:b].tolist() for a, b in zip(starts[:-1], starts[1:])]

    def select(self, items: Any) -> _crosshash.Features:
        """The features of some items, to be encoded."""
        numbers = [int(item) for item in _arrays.array(items).reshape(-1)]
        return self._data.features(self.name).select(numbers)

    def __repr__(self) -> str:
        return f"ModalityView({self.name!r}, {len(self)} items)"


def _by_modality(values: Any, modality: str) -> Any:
    return values.get(modality) if isinstance(values, Mapping) else values


def _all_labels(
    values: Any, names: Sequence[str] | None, modalities: list[str], sizes: Mapping[str, int]
) -> tuple[dict[str, _arrays.LabelRows], list[str]]:
    """The labels of every modality over one vocabulary."""
    if values is None:
        none = {
            key: (0, np.zeros(sizes[key] + 1, dtype=np.int64), np.zeros(0, dtype=np.int64))
            for key in modalities
        }
        return none, []
    if not isinstance(values, Mapping):
        rows, found = _arrays.labels(values, names)
        return dict.fromkeys(modalities, rows), found
    missing = [key for key in modalities if key not in values]
    if missing:
        raise KeyError(f"labels: no labels of modality {missing[0]!r}")
    first = {key: _arrays.labels(values[key], names, f"labels of {key}") for key in modalities}
    if names is None:
        every = {name for _, found in first.values() for name in found}
        numeric = all(name.isdigit() for name in every)
        names = sorted(every, key=(lambda name: (int(name), name)) if numeric else None)
        if numeric:
            first = {
                key: ((len(names), rows[1], rows[2]), list(names)) for key, (rows, _) in first.items()
            }
        else:
            first = {key: _arrays.labels(values[key], names, f"labels of {key}") for key in modalities}
    return {key: rows for key, (rows, _) in first.items()}, list(names)


def _features_of_column(values: Any, name: str) -> Any:
    if isinstance(values, np.ndarray) and values.dtype != object:
        if values.ndim == 1:
            return values.reshape(-1, 1)
        return values
    listed = list(values)
    if listed and (isinstance(listed[0], str) or listed[0] is None):
        return ["" if cell is None else str(cell) for cell in listed]
    try:
        return np.asarray(listed, dtype=np.float32)
    except (TypeError, ValueError) as err:
        raise ValueError(f"column {name!r}: neither texts nor vectors of one length: {err}") from err


def _split_cell(cell: Any, separator: str | None) -> list[str]:
    if cell is None or (isinstance(cell, float) and np.isnan(cell)):
        return []
    if isinstance(cell, (list, tuple, np.ndarray)):
        return [str(one) for one in cell if str(one)]
    parts = str(cell).split(separator) if separator else [str(cell)]
    return [part.strip() for part in parts if part.strip()]


def _plain(cell: Any) -> Any:
    """A value that JSON can represent."""
    if isinstance(cell, np.ndarray):
        return cell.tolist()
    if isinstance(cell, np.generic):
        cell = cell.item()
    if cell is None or (isinstance(cell, float) and not np.isfinite(cell)):
        return None
    return cell if isinstance(cell, (str, int, float, bool, list, dict)) else str(cell)


def _part(value: SplitPart) -> str:
    if isinstance(value, tuple):
        return f"{{ rows = [{value[0]}, {value[1]}] }}"
    return _arrays.toml(value)
