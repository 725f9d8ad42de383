"""Supervision coefficients of JCCH."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _arrays, _crosshash
from ._progress import Progress, callback


@dataclass(frozen=True)
class Coefficients:
    """The coefficients q and u of the unary loss, in compressed rows (CSR).

    Row k has the labels ``indices[indptr[k]:indptr[k + 1]]`` with the values ``q_values`` and ``u_values`` at
    the same places; all other values are 0.
    """

    shape: tuple[int, int]
    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int64]
    q_values: npt.NDArray[np.float64]
    u_values: npt.NDArray[np.float64]
    #: The kind that was used, and why.
    kind: str
    reason: str
    #: The number of distinct label sets, and of items without labels.
    distinct: int
    unlabelled: int
    #: The factor by which both matrices are smaller than in the bound.
    scale: float

    @property
    def q(self) -> npt.NDArray[np.float64]:
        """q as a dense array, items x labels."""
        return self._dense(self.q_values)

    @property
    def u(self) -> npt.NDArray[np.float64]:
        """u as a dense array, items x labels."""
        return self._dense(self.u_values)

    def _dense(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        out = np.zeros(self.shape)
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))
        out[rows, self.indices] = values
        return out

    def tocsr(self) -> tuple[Any, Any]:
        """q and u as sparse arrays of SciPy."""
        from scipy.sparse import csr_array

        q = csr_array((self.q_values, self.indices, self.indptr), shape=self.shape)
        return q, csr_array((self.u_values, self.indices, self.indptr), shape=self.shape)


def coefficients(
    labels: Any,
    *,
    kind: str = "auto",
    anchors: int | None = None,
    seed: int = 0,
    scale: str = "paper",
    include_self: bool = True,
    progress: Progress = None,
) -> Coefficients:
    """Computes the supervision coefficients of labels (Algorithm 1 of the JCCH paper) exactly.

    ``kind`` is auto, exact, anchors, graded, scul, balanced or uniform; ``scale`` is paper, raw or mean-one.

    >>> from crosshash import coefficients
    >>> found = coefficients([[0], [0, 1], [1]], kind="exact")
    >>> found.shape, found.q.shape, found.distinct
    ((3, 2), (3, 2), 3)
    """
    rows, _ = _arrays.labels(labels)
    starts, numbers, q, u, (used, reason, distinct, unlabelled, factor) = _crosshash.coefficients(
        rows, kind, anchors, seed, scale, include_self, callback(progress)
    )
    shape = (len(starts) - 1, rows[0])
    return Coefficients(shape, starts, numbers, q, u, used, reason, distinct, unlabelled, factor)
