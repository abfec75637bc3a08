"""Designs that need no solve: a layer has no mapping there, or an evaluated design dominates the bounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from results.store.schema.rows import DesignRow
from solvers.mapping.space.obstacles import obstacle
from solvers.mapping.space.space import MappingSpace
from sweep.design.design_row import design_row, infeasible_row, objective_bounds, objective_values
from sweep.design.workload import DesignWorkload
from sweep.study.design_space import Design
from sweep.study.study import Study
from sweep.tasks.kinds import Task
from sweep.tasks.mapping import MappingTask

Objectives = NDArray[np.float64]
"""One design's values, in the order of the study's objectives."""


def without_mapping(study: Study, design: Design, tasks: Sequence[MappingTask]) -> DesignRow | None:
    """The row of a design on which a layer provably has no mapping, with the reason; None: none is known."""
    for task in tasks:
        # an obstacle is proven for the dims as they are; a padded dim has other factors, which may avoid it
        if not task.rules.padding and (reason := _obstacle(task)):
            return infeasible_row(study, design, f"{task.layer.name}: {reason}")
    return None


def _obstacle(task: MappingTask) -> str:
    return obstacle(MappingSpace(task.architecture, task.layer, task.rules.even))


class BoundsPruning:
    """Discards designs whose lower bounds are dominated by the objectives of an evaluated design.

    This never changes the front. Let ``f`` be the objectives of the evaluated design, ``b`` the bounds of the
    discarded one and ``v`` what its solves would have given. Every layer's bounds hold for every mapping that
    the study allows (:mod:`solvers.mapping.space.space_bounds`); sums with positive weights, the
    product and the quotient by the clock keep their order, rounding included; the area is exact; what moves
    off the chip is at least 0: ``b <= v`` in each objective. ``f`` dominates ``b``:
    ``f <= b <= v``, and ``f < b <= v`` in one objective. So ``v`` is dominated by ``f`` and not on the front.
    Nor would ``v`` have taken another point ``w`` off the front: what ``v`` dominates, ``f`` dominates too.

    The proof is about the designs that were proposed. A sampler that learns is told the bounds of a discarded
    design instead of its objectives, and may propose other designs than it would have.
    """

    def __init__(self, study: Study, workload: DesignWorkload) -> None:
        self.study, self.workload = study, workload
        self._front = np.empty((0, len(study.objectives)))

    def evaluated(self, row: DesignRow) -> None:
        """Take in a ``designs`` row; only complete ones can dominate."""
        if row["status"] == "complete":
            point = self._point(row)
            # what the new point dominates or equals adds nothing to what it dominates itself
            worse = (point <= self._front).all(axis=1)
            self._front = np.vstack([self._front[~worse], point])

    def discard(self, design: Design, tasks: Sequence[Task]) -> DesignRow | None:
        """The row of a design that cannot be on the front; None for one that may be."""
        energy_pj, cycles = self.workload.bounds(tasks)
        bounds = np.array(objective_bounds(self.study, design, energy_pj, cycles))
        better = self.dominating(bounds)
        if better is None:
            return None
        return design_row(self.study, design) | {
            "status": "dominated",
            "solves": 0,
            "energy_bound_pj": energy_pj,
            "cycles_bound": cycles,
            "note": self._note(bounds, better),
        }

    def dominating(self, bounds: Objectives) -> Objectives | None:
        """The objectives of an evaluated design that dominate the ``bounds``, if there are any."""
        dominate = (self._front <= bounds).all(axis=1) & (self._front < bounds).any(axis=1)
        return self._front[dominate][0] if dominate.any() else None

    def _note(self, bounds: Objectives, better: Objectives) -> str:
        pairs = zip(self.study.objectives, bounds, better, strict=True)
        return "; ".join(
            f"{name} at least {bound:.6g}, an evaluated design has {reached:.6g}"
            for name, bound, reached in pairs
        )

    def _point(self, row: DesignRow) -> Objectives:
        return np.array(objective_values(self.study, row), dtype=np.float64)
