"""Ranks schemes by the best chains that they are in, anew whenever more of their costs are known.

A chain up to layer ``end`` is a chain up to some earlier layer, followed by one scheme from there to ``end``.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import numpy as np

from solvers.schedule.kapla.estimates.estimate import BatchCost
from solvers.schedule.kapla.segments import Scheme
from solvers.schedule.objective import Objective


class Ranking:
    """The schemes of a network of so many ``layers``, with the best known cost of each.

    ``costs``: estimates, by scheme; None for a scheme that is in no chain until it was counted.
    """

    def __init__(
        self, costs: Iterable[tuple[Scheme, BatchCost | None]], layers: int, objective: Objective
    ) -> None:
        from solvers.schedule.kapla.ranking_kernel import RankedSchemes

        ordered = sorted(costs, key=lambda one: one[0].segment.end)
        self._schemes = [scheme for scheme, _ in ordered]
        self._numbers = {scheme: number for number, scheme in enumerate(self._schemes)}
        self._exponents = objective.exponents
        ends = [scheme.segment.end for scheme in self._schemes]
        self._ranked = RankedSchemes(
            np.searchsorted(ends, np.arange(1, layers + 2)),
            np.array([scheme.segment.first for scheme in self._schemes], np.int64),
            np.array([cost.energy_pj if cost else inf for _, cost in ordered]),
            np.array([cost.cycles if cost else inf for _, cost in ordered]),
            np.zeros(len(ordered), np.bool_),
        )

    def expect(self, scheme: Scheme, cost: BatchCost) -> None:
        """A better estimate of what a scheme costs."""
        number = self._numbers[scheme]
        self._ranked.energy_pj[number], self._ranked.cycles[number] = cost.energy_pj, cost.cycles

    def know(self, scheme: Scheme, cost: BatchCost | None) -> None:
        """What a scheme costs, counted in full; None: it is not possible, and so in no chain."""
        number = self._numbers[scheme]
        self._ranked.counted[number] = True
        self._ranked.energy_pj[number] = cost.energy_pj if cost else inf
        self._ranked.cycles[number] = cost.cycles if cost else inf

    def likely(self, most: int) -> list[Scheme]:
        """The last schemes of the ``most`` best chains (k_S of section IV-B) up to each of the layers.

        Up to each layer, in topological order, only the ``most`` chains of least objective are kept and
        extended. Unless the objective is a sum, such as energy, that may miss the best chain;
        :func:`.chains.best_chain` does not. Nor does the ranking know what a scheme saves by the one before
        it, for most costs are estimates here.
        """
        from solvers.schedule.kapla.ranking_kernel import BestChains, rank

        shape = (len(self._ranked.offsets), most)
        best = BestChains(np.full(shape, -1), np.zeros(shape), np.zeros(shape), np.zeros(most))
        best.last[0, 0] = 0  # the empty chain
        rank(self._ranked, self._exponents, best)
        # schemes are costed in the order of their layers, the same in every run
        last = best.last[1:].ravel().tolist()
        return list(dict.fromkeys(self._schemes[number] for number in last if number >= 0))
