"""Pruning by bounds in runs by blocks: which groups of designs need no solve, and which are solved first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from results.store.schema.rows import DesignRow
from sweep.run.pruning import EvaluatedFront, Objectives
from sweep.study.design_table import DesignTable
from sweep.study.study import Study

Rows = NDArray[np.int64]


class GroupPruning:
    """As :class:`sweep.run.pruning.BoundsPruning`, for the groups of a table; its proof holds here.

    A group is discarded where the bounds of each of its designs are dominated: as long as one of them may be
    on the front, its solves are needed, and they are those of the others as well.
    """

    def __init__(self, study: Study, table: DesignTable, front: EvaluatedFront) -> None:
        """``front``: what was evaluated already, which designs of the table are added to."""
        self._study, self._table, self._front = study, table, front
        self.bounds = np.zeros((table.group_count, 2))
        """Proven lower bounds on energy (pJ) and cycles of each group's designs, once workers found them."""

    def evaluated(self, rows: Sequence[DesignRow]) -> None:
        """Take in designs."""
        for row in rows:
            self._front.add_row(self._study, row)

    def order(self) -> Rows:
        """The groups, those first whose bounds promise most: what they reach discards most of the others.

        The product of the objectives' bounds says what a group promises; a product does not depend on units.
        """
        order, begins = self._table.by_group
        first = order[begins[:-1]]
        values = np.maximum(self._objectives(np.arange(len(self.bounds)), first), np.finfo(float).tiny)
        return np.argsort(np.log(values).sum(axis=1), kind="stable")

    def dominating(self, group: int) -> Objectives | None:
        """For each design of the group the objectives of an evaluated one that dominates its bounds.

        None where that does not hold for all of them.
        """
        order, begins = self._table.by_group
        rows = order[begins[group] : begins[group + 1]]
        found = [
            self._front.dominating(bounds) for bounds in self._objectives(np.full(len(rows), group), rows)
        ]
        return None if any(one is None for one in found) else np.array(found)

    def _objectives(self, groups: Rows, rows: Rows) -> Objectives:
        """Lower bounds on the objectives of designs, as :func:`sweep.design.design_row.objective_bounds`."""
        energy_pj, cycles = self.bounds[groups, 0], np.maximum(1.0, np.rint(self.bounds[groups, 1]))
        known = {
            "area_um2": self._table.area_um2[rows],
            "energy_pj": energy_pj,
            "cycles": cycles,
            "edp_pj_cycles": energy_pj * cycles,
            "latency_seconds": cycles / self._table.frequency_hz[rows],
        }
        nothing = np.zeros(len(rows))
        return np.stack([known.get(name, nothing) for name in self._study.objectives], axis=1)
