"""Pruning by bounds in runs by blocks: which groups of designs need no solve, and which are solved first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from results.front.pareto import front_mask
from results.store.schema.rows import DesignRow
from sweep.blocks.block import Reason
from sweep.design.evaluated_front import EvaluatedFront, Objectives
from sweep.study.designs.design_table import DesignTable
from sweep.study.study import Study

Rows = NDArray[np.int64]


class GroupPruning:
    """As :class:`sweep.run.pruning.BoundsPruning`, for the groups of a table; its proof holds here.

    A group is discarded where the bounds of each of its designs are dominated, or where those of each break a
    constraint on results: as long as one of them may be on the front, its solves are needed, and they are
    those of the others as well.
    """

    def __init__(self, study: Study, table: DesignTable, front: EvaluatedFront) -> None:
        """``front``: what was evaluated already, which designs of the table are added to."""
        self._study, self._table, self._front = study, table, front
        self.bounds = np.zeros((table.group_count, 2))
        """Proven lower bounds on energy (pJ) and cycles of each group's designs, once workers found them."""
        self.broken = dict[int, tuple[str, ...]]()
        """By group, for each of its designs the constraints that its bounds break, where each breaks some."""

    def evaluated(self, rows: Sequence[DesignRow]) -> None:
        """Take in designs."""
        for row in rows:
            self._front.add_row(self._study, row)

    def order(self, found: Objectives | None = None) -> Rows:
        """The groups, those first that promise most by their bounds, or by what was ``found`` of them.

        What they reach discards most of the others. The product of the objectives says what a group promises;
        a product does not depend on units. ``found``: as in :meth:`on_front`.
        """
        return np.argsort(self._promise(self.bounds if found is None else found), kind="stable")

    def on_front(self, found: Objectives) -> NDArray[np.bool_]:
        """Which groups have a design that no other dominates, with the energy and cycles ``found``.

        ``found``: an array (groups, 2); infinite for a group of which nothing is known.
        """
        order, _ = self._table.by_group
        groups = self._table.groups[order]
        marked = np.zeros(len(found), dtype=bool)
        marked[groups[front_mask(self._objectives(groups, order, found))]] = True
        return marked

    def _promise(self, found: Objectives) -> Objectives:
        """The logarithm of the product of each group's objectives, of its first design: the smaller, the more
        it promises."""
        order, begins = self._table.by_group
        values = self._objectives(np.arange(len(found)), order[begins[:-1]], found)
        return np.asarray(np.log(np.maximum(values, np.finfo(float).tiny)).sum(axis=1))

    @property
    def front(self) -> Objectives:
        """The objectives of the evaluated designs that no other dominates: an array (designs, objectives)."""
        return self._front.points

    def reasons(self, group: int) -> Sequence[Reason] | None:
        """For each design of the group, why it need not be solved; None where some has to be."""
        if (broken := self.broken.get(group)) is not None:
            return broken
        found = self.dominating(group)
        return None if found is None else found.tolist()

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

    def _objectives(self, groups: Rows, rows: Rows, found: Objectives | None = None) -> Objectives:
        """The objectives of designs with the energy and cycles ``found`` of their groups; None: their bounds.

        As :func:`sweep.design.design_row.objective_bounds`; an objective without a bound counts as 0.
        """
        found = self.bounds if found is None else found
        energy_pj, cycles = found[groups, 0], np.maximum(1.0, np.rint(found[groups, 1]))
        seconds = cycles / self._table.frequency_hz[rows]
        known = {
            "area_um2": self._table.area_um2[rows],
            "energy_pj": energy_pj,
            "cycles": cycles,
            "edp_pj_cycles": energy_pj * cycles,
            "latency_seconds": seconds,
        }
        if (tokens := self._study.tokens) is not None:
            known["seconds_per_token"] = seconds / tokens
            known["joules_per_token"] = energy_pj * 1e-12 / tokens
        nothing = np.zeros(len(rows))
        return np.stack([known.get(name, nothing) for name in self._study.objectives], axis=1)
