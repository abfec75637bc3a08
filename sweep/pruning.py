"""Designs that need no solve: an evaluated design is at least as good as they could ever be."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sweep.design_ledger import Demand, Row, design_bounds, design_row, objectives
from sweep.space import Design
from sweep.study import Study


class BoundsPruning:
    """Discards designs whose lower bounds are dominated by the objectives of an evaluated design.

    This never changes the front. Let ``f`` be the objectives of the evaluated design, ``b`` the bounds of the
    discarded one and ``v`` what its solves would have given. Every layer's bounds hold for every mapping
    (:mod:`costmodel.bounds`); sums with positive weights, the product and the quotient by the clock keep
    their order, rounding included; the area is exact: ``b <= v`` in each objective. ``f`` dominates ``b``:
    ``f <= b <= v``, and ``f < b <= v`` in one objective. So ``v`` is dominated by ``f`` and not on the front.
    Nor would ``v`` have taken another point ``w`` off the front: what ``v`` dominates, ``f`` dominates too.

    This is about the designs proposed. A sampler that learns is told the bounds of a discarded design in
    place of its objectives, and may propose others than it would have.
    """

    def __init__(self, study: Study, demands: tuple[Demand, ...]) -> None:
        self.study, self.demands = study, demands
        self._front = np.empty((0, len(study.objectives)))

    def evaluated(self, row: Row) -> None:
        """Take in a ``designs`` row; only complete ones can dominate."""
        if row["status"] == "complete":
            point = self._point(row)
            worse = (point <= self._front).all(axis=1)
            self._front = np.vstack([self._front[~worse], point])

    def discard(self, design: Design) -> Row | None:
        """The row of a design that cannot be on the front; None for one that may be."""
        energy_pj, cycles = design_bounds(design, self.demands)
        bounds = self._point(objectives(design, energy_pj, round(cycles)))
        dominates = (self._front <= bounds).all(axis=1) & (self._front < bounds).any(axis=1)
        if not dominates.any():
            return None
        return design_row(self.study, design) | {
            "status": "dominated",
            "solves": 0,
            "energy_bound_pj": energy_pj,
            "cycles_bound": cycles,
            "note": self._note(bounds, self._front[dominates][0]),
        }

    def _note(self, bounds: NDArray[np.float64], better: NDArray[np.float64]) -> str:
        pairs = zip(self.study.objectives, bounds, better, strict=True)
        return "; ".join(
            f"{name} at least {bound:.6g}, an evaluated design has {reached:.6g}"
            for name, bound, reached in pairs
        )

    def _point(self, row: Row) -> NDArray[np.float64]:
        return np.array([row[name] for name in self.study.objectives], dtype=np.float64)
