"""What partial schemes cost: the cost model's number with all open loops just outside what is decided."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.mapping.batch.batch import BatchEvaluation, BatchEvaluator, MappingBatch
from costmodel.mapping.batch.batch_tables import workspace
from costmodel.workload.network import Layer
from solvers.mapping.kapla.ladders import Ladder
from solvers.mapping.kapla.schemes import Schemes
from solvers.mapping.problem import OBJECTIVES, MappingProblem, objective_values
from solvers.mapping.space.space import MappingSpace, padded

if TYPE_CHECKING:
    from solvers.mapping.kapla.filling_kernel import Judge, SchemeWork

Array = NDArray[Any]
ENDLESS = 2**60
"""Stands for the words of a level without a limit."""


class SchemeCosts(NamedTuple):
    """The objectives of n schemes, float64 [n]; of equal ones the smaller ``edp_pj_cycles`` is the better.

    Both are infinite where tiles do not fit.
    """

    objective: Array
    edp_pj_cycles: Array

    def of(self, rows: Array) -> SchemeCosts:
        return SchemeCosts(self.objective[rows], self.edp_pj_cycles[rows])


@dataclass
class Estimator:
    """Costs of partial schemes of ``problem``: the number ``evalCost`` of Algorithm 1.

    A scheme that is decided up to the fan-out of level ``outer`` is costed with all open loops at that level,
    as if it and the levels outside it were large enough for everything. Each tensor then comes from outside
    once, and what counts are the accesses inside and at the boundary: optimistic, as in section IV-B. With
    the outermost level as ``outer`` this is the cost of a mapping.
    """

    problem: MappingProblem
    space: MappingSpace
    evaluations: int = 0
    _evaluators: dict[int, BatchEvaluator] = field(default_factory=dict)

    @property
    def outermost(self) -> int:
        return len(self.problem.architecture.levels) - 1

    def costs(self, schemes: Schemes, ladder: Ladder, outer: int) -> SchemeCosts:
        """What ``schemes``, decided up to the slot of ``ladder``, cost with their open loops at ``outer``."""
        batch, fitting = self.completed(schemes, outer)
        fitting &= self.fits(schemes, ladder.forced, outer)
        evaluation = self._evaluated(batch, outer)
        values = objective_values(evaluation, self.problem.objective)
        return SchemeCosts(
            np.where(fitting, values, np.inf), np.where(fitting, evaluation.edp_pj_cycles, np.inf)
        )

    def fitting(self, schemes: Schemes, ladder: Ladder, outer: int) -> Array:
        """Whether tiles fit their levels and spatial factors the fan-outs, bool [n]."""
        found: Array = self.completed(schemes, outer)[1] & self.fits(schemes, ladder.forced, outer)
        return found

    def accesses(self, schemes: Schemes, outer: int) -> Array:
        """Words that each tensor asks of level ``outer`` with all open loops there, float64 [n, tensors].

        A tensor's tile of all instances below an instance of ``outer`` comes anew in every iteration of the
        open loops, but for those that stand inside all loops over the tensor's own dims. Outputs are written
        as often, and read back but for the first time. Words are those of one instance of ``outer``. A tensor
        that the level inside does not keep has none: no growth of that level's tiles would change them. What
        of a sliding window stays in place is not looked at.
        """
        tiles = tiles_inside(schemes, outer + 1)[:, outer] // schemes.temporal[:, outer]
        words = tile_words(self.problem.layer, tiles).astype(np.float64)
        index = np.arange(len(schemes))
        found = np.empty_like(words)
        for number, tensor in enumerate(self.problem.layer.tensors):
            iterations, moved = np.ones(len(schemes)), np.zeros(len(schemes), np.bool_)
            for position in range(schemes.rest.shape[1]):  # from the innermost open loop to the outermost
                dims = schemes.order[:, outer, position]
                counts = schemes.rest[index, dims]
                own = np.isin(dims, [self.problem.layer.index[dim] for dim in tensor.dims])
                moved |= own & (counts > 1)
                iterations *= np.where(moved, counts, 1)
            found[:, number] = words[:, number] * iterations
            if tensor.is_output:
                whole = tile_words(self.problem.layer, tiles * schemes.rest)[:, number]
                found[:, number] = 2 * found[:, number] - whole
            if outer > 0:
                found[:, number] *= schemes.keep[:, outer - 1] >> number & 1
        return found

    def as_whole_mappings(self, schemes: Schemes, outer: int) -> Array:
        """What the schemes cost as whole mappings, float64 [n].

        All open loops stand at the outermost level, in the order chosen for ``outer``. Unlike in
        :meth:`costs`, no level in between is taken to be large enough for everything.
        """
        # The open loops keep the order that was chosen for them; they only stand further out.
        order = schemes.order.copy()
        order[:, self.outermost] = order[:, outer]
        batch, fitting = self.completed(replace(schemes, order=order), self.outermost)
        values = objective_values(self._evaluated(batch, self.outermost), self.problem.objective)
        return np.where(fitting, values, np.inf)

    def completed(self, schemes: Schemes, outer: int) -> tuple[MappingBatch, Array]:
        """The schemes with all open loops at ``outer``, and whether their spatial factors find sides [n]."""
        temporal = schemes.temporal.copy()
        temporal[:, outer] *= schemes.rest
        bits = np.arange(len(self.space.layer.tensors))
        keep = (schemes.keep[:, :, None] >> bits & 1) == 1
        spread, on_y = schemes.spatial.copy(), np.ones_like(schemes.spatial)
        batch = MappingBatch(temporal, schemes.order, spread, on_y, keep)
        return batch, self.space.with_sides(batch)

    @property
    def of_mappings(self) -> BatchEvaluator:
        """The evaluator of whole mappings: an architecture's outermost level has no limit anyway."""
        return self._evaluator(self.outermost)

    def _evaluated(self, batch: MappingBatch, outer: int) -> BatchEvaluation:
        """The cost model's evaluation with ``outer`` and all levels outside it unlimited in size."""
        self.evaluations += len(batch)
        return self._evaluator(outer).evaluate(batch)

    def _evaluator(self, outer: int) -> BatchEvaluator:
        """The evaluator with ``outer`` and all levels outside it unlimited in size."""
        if outer not in self._evaluators:
            architecture = self.problem.architecture
            levels = tuple(
                level if index < outer else replace(level, size_words=None)
                for index, level in enumerate(architecture.levels)
            )
            unlimited = replace(architecture, levels=levels)
            self._evaluators[outer] = BatchEvaluator(unlimited, self.problem.layer)
        return self._evaluators[outer]

    def fits(self, schemes: Schemes, forced: Array, outer: int) -> Array:
        """Whether the tiles of the level inside ``outer``, and what they force on others, fit, bool [n].

        A tile contains the tiles inside it, so one that fits here may already be too large further out.
        ``forced`` [levels, dims] is the least that slots decided later put into a tile (:class:`.Ladder`): a
        tile times that is the least it can still become.
        """
        from solvers.mapping.kapla.filling_kernel import fit_schemes

        found = np.empty(len(schemes), np.bool_)
        fit_schemes(self.judge(forced, outer), schemes.rows, found)
        return found

    def judge(self, forced: Array, outer: int) -> Judge:
        """What compiled code judges schemes by; ``forced`` and ``outer`` as for :meth:`fits`."""
        from solvers.mapping.kapla.filling_kernel import Judge, SchemeLimits

        limits = SchemeLimits(*self._capacities, forced, outer)
        objective = OBJECTIVES.index(self.problem.objective)
        return Judge(self._evaluator(outer).tables, self.space.side_tables, limits, self._work, objective)

    @cached_property
    def _work(self) -> SchemeWork:
        """Scratch arrays, whose sizes do not depend on what is unlimited."""
        from solvers.mapping.kapla.filling_kernel import SchemeWork

        layer = self.problem.layer
        row = MappingBatch.empty(1, self.problem.architecture, layer).rows
        dims, tensors = len(layer.dims), len(layer.tensors)
        inside, tile, spread, words = (np.empty(size, np.int64) for size in (dims, dims, dims, tensors))
        counts = workspace(self._evaluator(self.outermost).tables)
        return SchemeWork(inside, tile, spread, words, row, counts)

    @cached_property
    def _capacities(self) -> tuple[Array, Array, Array]:
        """Words of each level, int64 [levels], the sets that it may keep, and how many these are."""
        levels, sets = self.problem.architecture.levels, self.space.keep_sets
        words = [ENDLESS if level.size_words is None else int(level.usable_words) for level in levels]
        return np.array(words, np.int64), padded(sets), np.array([len(own) for own in sets], np.int64)


def tiles_inside(schemes: Schemes, levels: int) -> Array:
    """What the innermost ``levels`` hold of each dim, int64 [n, levels, dims].

    Level by level: cumprod takes eight times as long along an axis that is not the last.
    """
    tiles = np.empty((len(schemes), levels, schemes.rest.shape[1]), np.int64)
    inside: Array = np.ones_like(schemes.rest, np.int64)
    for level in range(levels):
        inside = inside * schemes.temporal[:, level] * schemes.spatial[:, level]
        tiles[:, level] = inside
    return tiles


def tile_words(layer: Layer, tiles: Array) -> Array:
    """Words of every tensor's tile, int64 [..., tensors], for tiles [..., dims]."""
    index = {dim: number for number, (dim, _) in enumerate(layer.dims)}
    words = np.ones((*tiles.shape[:-1], len(layer.tensors)), np.int64)
    for number, tensor in enumerate(layer.tensors):
        for axis in tensor.terms:
            words[..., number] *= 1 + sum(step * (tiles[..., index[dim]] - 1) for dim, step in axis)
    return words
