"""Cone programs in Clarabel's form: rows of equations, then of inequalities, then of exponential cones."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]


class ConeCounts(NamedTuple):
    """How many rows are equations and inequalities, and how many exponential cones of three rows follow."""

    equations: int
    inequalities: int
    exponentials: int


@dataclass
class ConeRows:
    """The rows ``s = right - A z`` of a cone program as triplets, block by block."""

    at: list[Array] = field(default_factory=list)
    column: list[Array] = field(default_factory=list)
    value: list[Array] = field(default_factory=list)
    right: list[Array] = field(default_factory=list)
    count: int = 0

    def add(self, rows: ArrayLike, columns: ArrayLike, values: ArrayLike, right: ArrayLike) -> None:
        """Add as many rows as ``right`` has numbers, with entries (row, column, value).

        ``rows`` are counted from the first row of this call.
        """
        self.at.append(np.asarray(rows, int) + self.count)
        self.column.append(np.asarray(columns, int))
        self.value.append(np.asarray(values, float))
        self.right.append(np.asarray(right, float))
        self.count += len(self.right[-1])


def minimise(goal: Array, rows: ConeRows, counts: ConeCounts, seconds: float = inf) -> Any:
    """Clarabel's answer to: minimise ``goal @ z`` where the rows s are 0, at least 0, or in their cones.

    It has ``status``, ``x`` (that is z), ``z`` (the multipliers of the rows) and ``obj_val``. Clarabel may
    take ``seconds`` of wall time, above 0; if they end it, the status is "MaxTime" and ``x`` is no optimum.
    """
    import clarabel
    from scipy import sparse

    cones = [clarabel.ZeroConeT(counts.equations), clarabel.NonnegativeConeT(counts.inequalities)]
    cones += [clarabel.ExponentialConeT()] * counts.exponentials
    entries = np.concatenate(rows.at), np.concatenate(rows.column)
    matrix = sparse.csc_matrix((np.concatenate(rows.value), entries), shape=(rows.count, len(goal)))
    nothing = sparse.csc_matrix((len(goal), len(goal)))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.time_limit = seconds
    return clarabel.DefaultSolver(nothing, goal, matrix, np.concatenate(rows.right), cones, settings).solve()
