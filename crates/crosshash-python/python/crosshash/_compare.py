"""Comparison of methods under one protocol."""

from __future__ import annotations

import html
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import _crosshash
from ._dataset import Dataset
from ._evaluate import Evaluation, evaluate
from ._hasher import CrossModalHasher
from ._progress import Progress


@dataclass(frozen=True)
class Trial:
    """One training: its settings, the evaluation of every direction, and its seconds."""

    method: str
    bits: int
    seed: int
    seconds: float
    #: By query modality and database modality.
    directions: Mapping[tuple[str, str], Evaluation] = field(repr=False)
    #: Why the method was skipped, if it was.
    skipped: str | None = None

    @property
    def map(self) -> float:
        """The mean tie-aware MAP over the directions between modalities."""
        across = [e.map for (q, d), e in self.directions.items() if q != d and e.map is not None]
        own = across or [e.map for e in self.directions.values() if e.map is not None]
        return float(np.mean([value.tie_aware for value in own])) if own else math.nan


@dataclass(frozen=True)
class Comparison:
    """The trials of :func:`compare`; notebooks show it as a table."""

    trials: Sequence[Trial]

    def rows(self) -> list[dict[str, Any]]:
        """One row per method and code length: the mean MAP over seeds and its standard deviation."""
        found: list[dict[str, Any]] = []
        for key in dict.fromkeys((trial.method, trial.bits) for trial in self.trials):
            own = [trial for trial in self.trials if (trial.method, trial.bits) == key]
            skipped = next((trial.skipped for trial in own if trial.skipped), None)
            maps = [trial.map for trial in own]
            row: dict[str, Any] = {
                "method": key[0],
                "bits": key[1],
                "seeds": len(own),
                "map": math.nan if skipped else float(np.mean(maps)),
                "deviation": math.nan if skipped or len(own) < 2 else float(np.std(maps, ddof=1)),
                "seconds": float(np.mean([trial.seconds for trial in own])),
                "skipped": skipped,
            }
            for query, database in own[0].directions:
                values = [trial.directions[query, database].map for trial in own]
                means = [value.tie_aware for value in values if value is not None]
                row[f"{query} -> {database}"] = float(np.mean(means)) if means else math.nan
            found.append(row)
        return found

    def __iter__(self) -> Iterator[Trial]:
        return iter(self.trials)

    def __str__(self) -> str:
        lines = [f"{'method':<14}{'bits':>5}{'seeds':>6}{'MAP':>9}{'+-':>8}{'seconds':>9}"]
        for row in self.rows():
            if row["skipped"]:
                lines.append(f"{row['method']:<14}{row['bits']:>5}  skipped: {row['skipped']}")
                continue
            deviation = "" if math.isnan(row["deviation"]) else f"{row['deviation']:.4f}"
            values = f"{row['map']:>9.4f}{deviation:>8}{row['seconds']:>9.2f}"
            lines.append(f"{row['method']:<14}{row['bits']:>5}{row['seeds']:>6}{values}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = self.rows()
        names = list(dict.fromkeys(name for row in rows for name in row))
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = ""
        for row in rows:
            cells = []
            for name in names:
                value = row.get(name)
                missing = value is None or (isinstance(value, float) and math.isnan(value))
                text = "" if missing else f"{value:.4f}" if isinstance(value, float) else str(value)
                cells.append(f"<td>{html.escape(text)}</td>")
            body += f"<tr>{''.join(cells)}</tr>"
        return f"<table><tr>{head}</tr>{body}</table>"


def compare(
    dataset: Dataset,
    methods: Sequence[str] | str = "all",
    bits: Sequence[int] | int = (16, 32, 64),
    *,
    seeds: int = 1,
    settings: Mapping[str, Any] | None = None,
    method_settings: Mapping[str, Mapping[str, Any]] | None = None,
    progress: Progress = None,
) -> Comparison:
    """Trains methods on one split and evaluates every direction on its queries.

    Validation items are held out of the training part and select the best epoch; the queries are
    evaluated once. Deterministic methods use one seed. Methods that cannot use the data are skipped with
    the reason. For data sets on disk ``crosshash compare`` does the same with a process per training.

    ``settings`` hold for all methods, ``method_settings`` by name for one.
    """
    known = {name: (codes, seeded) for name, codes, seeded in _crosshash.methods()}
    names = [name for name, (codes, _) in known.items() if codes] if methods == "all" else None
    if names is None:
        names = [methods] if isinstance(methods, str) else list(methods)
    for name in names:
        if name not in known:
            raise KeyError(f'no method named "{name}"; there are: {", ".join(known)}')
    lengths = [int(bits)] if np.isscalar(bits) else [int(one) for one in bits]  # type: ignore[arg-type,union-attr]
    queries = {name: dataset.part(name, "query") for name in dataset.modalities}
    if not any(len(items) for items in queries.values()):
        raise ValueError('the data set has no queries: pass split={"query": ...} to the Dataset')
    trials = []
    for length in lengths:
        for name in names:
            for seed in range(seeds if known[name][1] else 1):
                own = {**(settings or {}), **(method_settings or {}).get(name, {})}
                hasher = CrossModalHasher(length, name, seed=seed, settings=own)
                trials.append(_trial(hasher, dataset, queries, progress))
    return Comparison(trials)


def _trial(
    hasher: CrossModalHasher, dataset: Dataset, queries: Mapping[str, Any], progress: Progress
) -> Trial:
    started = time.perf_counter()
    try:
        hasher.fit(dataset, progress=progress)
    except _crosshash.UnsuitableError as err:
        return Trial(hasher.method, hasher.bits, hasher.seed, 0.0, {}, str(err))
    seconds = time.perf_counter() - started
    coded: dict[str, tuple[Any, Any, Any, Any]] = {}
    for name in hasher.modalities_:
        view = dataset[name]
        database = dataset.part(name, "database")
        labels = view.labels if dataset.label_names else None

        def rows(items: Any, labels: Any = labels) -> Any:
            return None if labels is None else [labels[item] for item in items]

        codes = [hasher.encode(name, view.select(items), progress=False) for items in (queries[name], database)]
        coded[name] = (codes[0], codes[1], rows(queries[name]), rows(database))
    directions = {}
    for query, (codes, _, labels, _) in coded.items():
        for database_name, (_, database_codes, _, database_labels) in coded.items():
            if len(codes) and len(database_codes):
                directions[query, database_name] = evaluate(
                    codes, database_codes, labels, database_labels, bits=hasher.bits, layout="packed",
                    progress=False,
                )
    return Trial(hasher.method, hasher.bits, hasher.seed, seconds, directions)
