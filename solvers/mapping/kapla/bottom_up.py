"""KAPLA's Algorithm 1: schemes are built level by level, from the inside out.

A scheme is a mapping whose inner levels are decided; the loops that are still open come around these.
For each level, for each loop order (``genLoopOrder``) and each set of tensors that the level may keep:

1. *stack*: spread the layer over the instances of the level, one or all ways;
2. *cache*: grow the level's tiles;
3. let the best schemes go on to the next level (one in the paper).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.mapping.batch.batch import BatchEvaluator, MappingBatch
from solvers.budget import InTime, always_in_time
from solvers.mapping.kapla.estimate import Estimator, SchemeCosts
from solvers.mapping.kapla.filling import Filling, ranks
from solvers.mapping.kapla.ladders import ladders
from solvers.mapping.kapla.orders import stationary_orders
from solvers.mapping.kapla.params import Params
from solvers.mapping.kapla.schemes import Schemes
from solvers.mapping.polish import Polish
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space.space import MappingSpace

Array = NDArray[Any]


def load(problem: MappingProblem) -> None:
    """Call the compiled code without schemes, for a layer of one point: a process's first call loads it."""
    if _LOADED:
        return
    _LOADED.append(True)
    point = replace(problem.layer, dims=tuple((dim, 1) for dim, _ in problem.layer.dims))
    problem = replace(problem, layer=point)
    space = MappingSpace(problem.architecture, point, problem.rules)
    estimator, nothing = Estimator(problem, space), Schemes.of_nothing(space)[:0]
    estimator.as_whole_mappings(nothing, estimator.outermost)
    filling = Filling(estimator, next(iter(ladders(space).values())), estimator.outermost)
    filling.steepest(nothing)
    filling.products(nothing, np.ones(nothing.rest.shape, np.bool_), 1)
    Polish(problem, 0.0, always_in_time, space=space).load()


_LOADED: list[bool] = []
"""Not empty once this process has loaded the compiled code, which is the same for all problems."""


class BottomUp:
    """The schemes of ``problem`` that ``params`` let go on, level by level."""

    def __init__(
        self,
        problem: MappingProblem,
        space: MappingSpace,
        params: Params,
        in_time: InTime = always_in_time,
    ) -> None:
        """Raises OutOfTimeError where ``in_time()`` ends the tables of factors."""
        self._space, self._params = space, params
        self._orders = stationary_orders(space.layer)
        self._ladders = {
            (slot.level, slot.spatial): ladder for slot, ladder in ladders(space, in_time).items()
        }
        self._estimator = Estimator(problem, space)

    @property
    def evaluator(self) -> BatchEvaluator:
        """The evaluator of whole mappings."""
        return self._estimator.of_mappings

    @property
    def evaluations(self) -> int:
        return self._estimator.evaluations

    def mappings(self, most: int, in_time: Callable[[], bool]) -> tuple[MappingBatch, Array]:
        """Complete mappings, the best first, and their objectives; at most ``most`` schemes a level go on.

        Where time ends it, the open loops stand at the outermost level; none if the rules forbid that.
        """
        # Level -1 are the MAC units, which only have to be spread over where level 0 has a fan-out. The
        # outermost level has nothing to decide: its loops are what is left.
        outermost = self._estimator.outermost
        schemes = Schemes.of_nothing(self._space)
        for level in range(-1 if (0, True) in self._ladders else 0, outermost):
            if level > 0 and not in_time():
                break
            schemes, costs = self._filled(self._with_options(schemes, level), level, in_time)
            if level < outermost - 1:
                schemes = schemes[self._going_on(schemes, costs, level + 1, most)]
        batch, _ = self._estimator.completed(schemes, outermost)
        objectives = self._estimator.as_whole_mappings(schemes, outermost)
        objectives[~self._space.allowed(batch)] = np.inf
        best = np.argsort(objectives, kind="stable")
        best = best[np.isfinite(objectives[best])]
        return batch[best], objectives[best]

    def _with_options(self, schemes: Schemes, level: int) -> Schemes:
        """Each scheme with each order of the loops around ``level``'s tiles and each set that it may keep."""
        if level < 0:
            return schemes  # the innermost loops' order costs nothing
        options = list(product(range(len(self._orders)), self._space.keep_sets[level]))
        parts = [self._with_option(schemes, level, *option) for option in options]
        # All options of a scheme stand together, so that of equally good ones the earlier scheme's come
        # first.
        interleaved = np.arange(len(schemes) * len(parts)).reshape(len(parts), -1).T.reshape(-1)
        return Schemes.joined(parts)[interleaved]

    def _with_option(self, schemes: Schemes, level: int, number: int, mask: int) -> Schemes:
        """The same schemes with stationary order ``number`` around ``level``, which keeps ``mask``."""
        order, keep = schemes.order.copy(), schemes.keep.copy()
        order[:, level + 1] = self._orders[number].order
        keep[:, level] = mask
        return replace(
            schemes,
            order=self._space.reordered(order).astype(order.dtype),
            keep=keep,
            stationary_order=np.full(len(schemes), number),
        )

    def _filled(
        self, schemes: Schemes, level: int, in_time: Callable[[], bool]
    ) -> tuple[Schemes, SchemeCosts]:
        """``stack`` and ``cache``: spread over the instances of ``level``, then grow its tiles."""
        outer = level + 1
        costs = None
        if (spread := self._ladders.get((outer, True))) is not None:
            schemes, costs = self._stacked(schemes, Filling(self._estimator, spread, outer, in_time))
        if (grown := self._ladders.get((level, False))) is not None:
            schemes, costs = self._cached(schemes, Filling(self._estimator, grown, outer, in_time))
        assert costs is not None
        return schemes, costs

    def _stacked(self, schemes: Schemes, filling: Filling) -> tuple[Schemes, SchemeCosts]:
        """The schemes spread over the fan-out: step by step, one each, or the ``stacks`` best of all ways,
        few of which cut all tensors alike."""
        if self._params.stacking == "printed":
            return filling.printed(filling.ladder.begun(schemes))
        if self._params.stacking == "steepest":
            return filling.steepest(filling.ladder.begun(schemes))
        return filling.spreads(schemes, self._params.stacks, self._params.stacks_alike)

    def _cached(self, schemes: Schemes, filling: Filling) -> tuple[Schemes, SchemeCosts]:
        """The schemes with grown tiles: step by step in all dims, or as the released code does.

        That tries all products of divisors in the dims of the tensor that stays in place the longest, and
        grows the ``variants`` best step by step in all dims.
        """
        if self._params.filling == "printed":
            return filling.printed(filling.ladder.begun(schemes))
        if self._params.filling == "steepest":
            return filling.steepest(filling.ladder.begun(schemes))
        innermost = np.zeros((len(self._orders), schemes.rest.shape[1]), np.bool_)
        for number, (_, dims) in enumerate(self._orders):
            innermost[number, list(dims)] = True
        products, _ = filling.products(schemes, ~innermost[schemes.stationary_order], self._params.variants)
        return filling.steepest(products)

    def _going_on(self, schemes: Schemes, costs: SchemeCosts, outer: int, most: int) -> Array:
        """The rows of the ``most`` schemes that go on to the next level, the best first, all different.

        Of schemes with equal spatial factors at most ``alike`` go on: spread alike they mostly end alike, and
        would take the others' positions. The costs are optimistic, as everything outside is taken to be large
        enough; ``caution`` mixes in, as a weighted geometric mean, what each would cost as a whole mapping.
        """
        rows = schemes.distinct()
        rows = rows[np.isfinite(costs.objective[rows])]
        some, key = schemes[rows], costs.objective[rows]
        if caution := self._params.caution:
            key = key ** (1 - caution) * self._estimator.as_whole_mappings(some, outer) ** caution
        # First at most ``alike`` of each choice of spatial factors, then the best of these.
        mixed = SchemeCosts(key, costs.edp_pj_cycles[rows])
        few = np.flatnonzero(ranks(mixed, some.spreads()) < self._params.alike)
        best = np.argsort(ranks(mixed.of(few), np.zeros(len(few), np.int64)))[:most]
        chosen: Array = rows[few[best]]
        return chosen
