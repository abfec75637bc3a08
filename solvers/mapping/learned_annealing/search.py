"""The two searches: batches that a learned model guides (AutoTVM), and plain annealing on measured costs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.limits import limit_reached
from solvers.budget import Budget
from solvers.mapping.learned_annealing.annealing import AnnealingChains
from solvers.mapping.learned_annealing.measurements import Measurements, joined
from solvers.mapping.learned_annealing.params import Params
from solvers.mapping.learned_annealing.regressor import chosen_rows, fit, logarithms, no_trees, trees_of
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space.space import MappingSpace

Array = NDArray[Any]

LEAST_ROWS = 16
"""Nothing is learned from fewer measurements."""

IDLE_ROUNDS = 8
"""Rounds in a row without a new mapping after which the whole space counts as seen."""


class ProposalSearch(ABC):
    """Rounds in which mappings are proposed and measured; at most ``most`` mappings in all."""

    def __init__(self, chains: AnnealingChains, measured: Measurements, params: Params, most: int) -> None:
        self.chains, self.measured, self.params, self.most = chains, measured, params, most
        self._idle = self._unbeaten = 0

    @property
    def over(self) -> bool:
        """Whether the limit is reached, nothing new is found, or nothing better was found for too long."""
        impatient = self.params.patience is not None and self._unbeaten >= self.params.patience
        idle = self._idle >= IDLE_ROUNDS
        if idle:
            effect = "the search ends as if it had seen the whole space"
            limit_reached("rounds in a row without a new mapping", IDLE_ROUNDS, effect)
        nowhere = not len(self.chains) or idle
        return self.measured.count >= self.most or nowhere or impatient

    def round(self) -> None:
        """Propose and measure one batch."""
        before, objective = self.measured.count, self.measured.objective
        self._round(min(self.params.batch, self.most - before))
        self._idle = 0 if self.measured.count > before else self._idle + 1
        self._unbeaten = 0 if self.measured.objective < objective else self._unbeaten + 1

    @abstractmethod
    def _round(self, most: int) -> None:
        """Measure up to ``most`` mappings."""


class Guided(ProposalSearch):
    """AutoTVM: chains walk on a model's predictions; the best they meet is measured and learned from."""

    def __init__(
        self, chains: AnnealingChains, measured: Measurements, params: Params, most: int, seed: int
    ) -> None:
        super().__init__(chains, measured, params, most)
        self._random = np.random.default_rng(seed)
        self._trees, self._learned_from = no_trees(), 0

    def _round(self, most: int) -> None:
        # The model is fitted anew when the measurements have grown by a fraction, not every round: the cost
        # of all fits together then stays a multiple of that of the last one.
        if self.measured.count > max(LEAST_ROWS, self._learned_from * (1 + self.params.refit_growth)):
            self._refit()
        self.chains.restart(self.measured.best)
        _, rows = self.chains.proposals(self._trees, self.params.steps)
        walked = rows[:most]
        self.measured.measure(joined(walked, self.chains.drawn(most - len(walked))))

    def _refit(self) -> None:
        costs = self.measured.costs
        chosen = chosen_rows(costs, self.params.most_rows, self._random)
        seed = int(self._random.integers(2**31))
        self._trees = trees_of(fit(self.measured.features[chosen], costs[chosen], self.params, seed))
        self._learned_from = len(costs)


class Plain(ProposalSearch):
    """Simulated annealing on measured costs, all chains at once; what a model is worth is the difference to
    this."""

    def __init__(self, chains: AnnealingChains, measured: Measurements, params: Params, most: int) -> None:
        super().__init__(chains, measured, params, most)
        self._logarithms: Array | None = None

    def _round(self, most: int) -> None:
        if self._logarithms is None:
            self._start(most)
            return
        numbers, rows = self.chains.neighbours()
        numbers, rows = numbers[:most], rows[:most]
        there, here = logarithms(self.measured.measure(rows)), self._logarithms[numbers]
        # A chain that stands on an invalid mapping may walk on among invalid ones; the difference of two
        # infinities would be no number.
        both_invalid = np.isinf(there) & np.isinf(here)
        rise = np.subtract(there, here, out=np.zeros(len(there)), where=~both_invalid)
        # The temperature falls in proportion to the measurements left, so a search with half the budget cools
        # as completely as a full one.
        left = 1 - self.measured.count / self.most
        moved = self.chains.accept(numbers, rows, rise, self.params.temperature * left)
        self._logarithms[numbers[moved]] = there[moved]

    def _start(self, most: int) -> None:
        """Walk to mappings that fit; chains that find none begin where others do."""
        rows = self.chains.proposals(no_trees(), self.params.steps)[1][:most]
        if len(rows):
            found = logarithms(self.measured.measure(rows))
            self._logarithms = found[self.chains.settle(rows)]


def search_for(
    problem: MappingProblem, space: MappingSpace, params: Params, budget: Budget
) -> ProposalSearch:
    """The search that ``params.learn`` asks for, of as many mappings as ``params`` and ``budget`` let it."""
    measured = Measurements(problem, space, params)
    chains = AnnealingChains(space, measured.walk_space, params, budget.seed)
    most = min(params.batches * params.batch, budget.iterations or params.batches * params.batch)
    if params.learn:
        return Guided(chains, measured, params, most, budget.seed)
    return Plain(chains, measured, params, most)
