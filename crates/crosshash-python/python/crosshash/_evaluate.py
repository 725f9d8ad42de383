"""Evaluation of codes."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _arrays, _crosshash
from ._progress import Progress, callback

_RULES = ("tie_aware", "pessimistic", "optimistic", "stable")
_TITLES = {"map_at": "MAP", "precision_at": "P", "recall_at": "R", "ndcg_at": "NDCG", "acg_at": "ACG"}


@dataclass(frozen=True)
class Bounds:
    """A metric under each rule for items at the same distance.

    ``tie_aware`` is the expectation over all orders of tied items, ``stable`` the value for the order of
    the database, which other tools report.
    """

    tie_aware: float
    optimistic: float
    pessimistic: float
    stable: float

    def __float__(self) -> float:
        return self.tie_aware


@dataclass(frozen=True)
class Evaluation:
    """The report of :func:`evaluate`; notebooks show it as a table with curves.

    ``map`` and the metrics in ``at`` are :class:`Bounds`. ``at`` maps ``map_at``, ``precision_at``,
    ``recall_at``, ``ndcg_at`` and ``acg_at`` to cutoffs and values. ``values`` contains everything that the
    program prints as JSON.
    """

    map: Bounds | None
    chance: float | None
    at: Mapping[str, Mapping[int, Bounds]]
    radius: Mapping[int, Mapping[str, float]]
    tie_rate: float
    curves: Mapping[str, Any] | None
    protocol: Mapping[str, Any]
    values: Mapping[str, Any] = field(repr=False)
    _report: _crosshash.Report = field(repr=False, compare=False)

    def __reduce__(self) -> Any:
        # The curves can be drawn only in the process of the evaluation.
        return _unpickle, (json.dumps(self.values), _svg_or_none(self))

    def svg(self) -> str:
        """Precision-recall and top-N precision curves as SVG."""
        return self._report.svg()

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Writes the curves to an SVG file."""
        with open(path, "w", encoding="utf-8") as out:
            out.write(self.svg())

    def to_dict(self) -> dict[str, Any]:
        """All values, as the program prints them with ``--json``."""
        return dict(self.values)

    def _rows(self) -> list[tuple[str, Bounds]]:
        rows = [] if self.map is None else [("MAP", self.map)]
        for name, by_rank in self.at.items():
            rows.extend((f"{_TITLES.get(name, name)}@{rank}", value) for rank, value in by_rank.items())
        return rows

    def __str__(self) -> str:
        p = self.protocol
        lines = [f"{p['queries']} queries against {p['database']} items, {p['bits']} bits, {p['labels']} labels"]
        lines.append("             tie-aware  pessimistic   optimistic       stable")
        for name, value in self._rows():
            cells = f"{value.tie_aware:>10.4f}{value.pessimistic:>13.4f}"
            lines.append(f"{name:<12}{cells}{value.optimistic:>13.4f}{value.stable:>13.4f}")
        if self.chance is not None:
            lines.append(f"{'chance':<12}{self.chance:>10.4f}   (a random ranking)")
        lines.append(f"tie rate: {self.tie_rate:.4f} of neighbouring ranks have the same distance")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        p = self.protocol
        head = "".join(f"<th>{rule.replace('_', '-')}</th>" for rule in _RULES)
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td>"
            + "".join(f"<td>{getattr(value, rule):.4f}</td>" for rule in _RULES)
            + "</tr>"
            for name, value in self._rows()
        )
        chance = "" if self.chance is None else f"<tr><td>chance</td><td>{self.chance:.4f}</td></tr>"
        caption = f"{p['queries']} queries, {p['database']} items, {p['bits']} bits, {p['labels']} labels"
        figure = "" if self.curves is None else self.svg()
        return (
            f"<table><caption>{caption}</caption><tr><th></th>{head}</tr>{rows}{chance}</table>{figure}"
        )


def evaluate(
    query: Any,
    database: Any,
    query_labels: Any = None,
    database_labels: Any = None,
    *,
    at: Sequence[int] = (),
    bits: int | None = None,
    layout: str = "auto",
    denominator: str = "min",
    empty_queries: str = "zero",
    radius: Sequence[int] = (2,),
    progress: Progress = None,
) -> Evaluation:
    """Evaluates codes of any origin: tie-aware MAP, P, R, NDCG, ACG, curves and code statistics.

    Parameters
    ----------
    query, database : codes
        Packed ``uint8`` rows (lowest bit first), or one value per bit: booleans, 0/1, -1/+1. With
        ``layout="real"``, real outputs: a bit is 1 if its value is at least 0. With
        ``layout="packbits"``, rows of ``np.packbits`` (highest bit first).
    query_labels, database_labels :
        A matrix of 0 and 1, a vector of classes, or lists of labels. An item is relevant if it shares a
        label with the query. Without labels only code statistics are reported.
    at : sequence of int
        Ranks at which metrics are cut.
    denominator : str
        What MAP@K is divided by: ``min`` (of relevant items and K), ``found``, ``relevant``.
    empty_queries : str
        Queries without relevant item count as ``zero`` or are left out (``skip``).
    radius : sequence of int
        Radii of hash look-up.

    Examples
    --------
    >>> import numpy as np
    >>> from crosshash import evaluate
    >>> query, database = np.array([[1, 0, 1, 0]]), np.array([[1, 0, 1, 0], [1, 1, 1, 0], [0, 1, 0, 1]])
    >>> report = evaluate(query, database, [[0]], [[0], [1], [0]])
    >>> round(report.map.tie_aware, 4)
    0.8333
    """
    if layout not in ("auto", "packed", "packbits", "real"):
        raise ValueError(f"layout = {layout!r}: it must be auto, packed, packbits or real")
    lengths, packed = [], []
    for values, what in ((query, "query"), (database, "database")):
        if layout == "real":
            length, rows = _arrays.signs(values, what)
        elif layout == "auto":
            length, rows = _arrays.codes(values, bits, what)
        else:
            length, rows = _packed(values, bits, layout, what)
        lengths.append(length)
        packed.append(rows)
    if lengths[0] != lengths[1]:
        raise ValueError(
            f"the query set has {lengths[0]} bits a code, the database has {lengths[1]}; both need codes "
            "of one length"
        )
    labels = None
    if (query_labels is None) != (database_labels is None):
        raise ValueError("pass the labels of the queries and of the database, or none")
    if query_labels is not None:
        labels = _label_pair(query_labels, database_labels)
    report = _crosshash.evaluate(
        packed[0],
        packed[1],
        lengths[0],
        labels,
        sorted({int(rank) for rank in at}),
        denominator,
        empty_queries,
        sorted({int(one) for one in radius}),
        callback(progress),
    )
    return _evaluation(json.loads(report.json()), report)


def _evaluation(values: dict[str, Any], report: Any) -> Evaluation:
    at = {
        name: {int(rank): Bounds(**value) for rank, value in by_rank.items()}
        for name, by_rank in values["at"].items()
    }
    found = values.get("map")
    return Evaluation(
        map=None if found is None else Bounds(**found),
        chance=values.get("chance"),
        at=at,
        radius={int(one): value for one, value in values["radius"].items()},
        tie_rate=values["tie_rate"],
        curves=values.get("curves"),
        protocol=values["protocol"],
        values=values,
        _report=report,
    )


class _Drawn:
    """The figure of an evaluation that was pickled."""

    def __init__(self, svg: str | None) -> None:
        self._svg = svg

    def svg(self) -> str:
        """The figure."""
        if self._svg is None:
            raise ValueError("there are no labels, and precision needs labels")
        return self._svg


def _svg_or_none(evaluation: Evaluation) -> str | None:
    return None if evaluation.curves is None else evaluation.svg()


def _unpickle(values: str, svg: str | None) -> Evaluation:
    return _evaluation(json.loads(values), _Drawn(svg))


def _packed(
    values: Any, bits: int | None, layout: str, what: str
) -> tuple[int, npt.NDArray[np.uint8]]:
    rows = _arrays.array(values, what)
    if rows.dtype != np.uint8 or rows.ndim != 2:
        raise ValueError(f"{what}: packed codes are a uint8 matrix, not {rows.dtype} in {rows.ndim} dimensions")
    length = rows.shape[1] * 8 if bits is None else bits
    if layout == "packbits":
        unpacked = np.unpackbits(rows, axis=1, bitorder="big", count=length)
        return length, np.packbits(unpacked, axis=1, bitorder="little")
    return length, np.ascontiguousarray(rows)


def _label_pair(query: Any, database: Any) -> tuple[_arrays.LabelRows, _arrays.LabelRows]:
    """The labels of both sides over one vocabulary."""
    (left, names), (right, others) = (
        _arrays.labels(query, what="query labels"),
        _arrays.labels(database, what="database labels"),
    )
    if names != others:
        every = set(names) | set(others)
        if all(name.isdigit() for name in every):
            matrices = [getattr(_arrays.array(one) if not _arrays.is_sparse(one) else one, "ndim", 1)
                        for one in (query, database) if not isinstance(one, (list, tuple))]
            if 2 in matrices:
                raise ValueError(
                    f"the query label matrix has {left[0]} labels, the database label matrix has "
                    f"{right[0]}; both need the same label columns"
                )
            classes = max(left[0], right[0])
            return (classes, left[1], left[2]), (classes, right[1], right[2])
        joint = sorted(every)
        left = _arrays.labels(query, joint)[0]
        right = _arrays.labels(database, joint)[0]
    return left, right
