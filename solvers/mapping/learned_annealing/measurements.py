"""What was measured so far: costs and features of all mappings, and the best of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.mapping.batch.batch import BatchEvaluator, MappingBatch
from solvers.mapping.learned_annealing.features_kernel import (
    WalkSpace,
    describe_rows,
    feature_arrays,
    feature_count,
)
from solvers.mapping.learned_annealing.params import Params
from solvers.mapping.problem import MappingProblem, objective_values
from solvers.mapping.space.space import MappingSpace

Array = NDArray[Any]


class Measurements:
    """Mappings measured by the cost model; the best batch of them is kept as it is, best first."""

    def __init__(self, problem: MappingProblem, space: MappingSpace, params: Params) -> None:
        self._evaluator = BatchEvaluator(problem.architecture, problem.layer)
        self.walk_space = WalkSpace(self._evaluator.tables, space.tables, params.avoid_invalid)
        self._space, self._objective, self._most_best = space, problem.objective, params.batch
        self._features: list[Array] = []
        self._costs: list[Array] = []
        self._sight = feature_arrays(self.walk_space)
        self.best = MappingBatch.empty(0, problem.architecture, problem.layer)
        self._best_costs = np.zeros(0)

    @property
    def count(self) -> int:
        return sum(map(len, self._costs))

    @property
    def objective(self) -> float:
        """The least cost so far, infinite without a valid mapping."""
        return float(self._best_costs[0]) if len(self._best_costs) else np.inf

    @property
    def features(self) -> Array:
        """[n, features] float32, in the order of :attr:`costs`."""
        return np.concatenate(self._features)

    @property
    def costs(self) -> Array:
        """[n] the objective, infinite for what is no valid mapping of the problem."""
        return np.concatenate(self._costs)

    def measure(self, batch: MappingBatch) -> Array:
        """The costs of the rows of ``batch``, [n]."""
        values = objective_values(self._evaluator.evaluate(batch), self._objective)
        costs = np.where(self._space.allowed(batch), values, np.inf)
        features = np.empty((len(batch), feature_count(self.walk_space)), np.float32)
        describe_rows(self.walk_space, batch.rows, self._sight, features)
        self._features.append(features)
        self._costs.append(costs)
        self._keep_best(batch, costs)
        return costs

    def _keep_best(self, batch: MappingBatch, costs: Array) -> None:
        valid = np.isfinite(costs)
        together = joined(self.best, batch[valid])
        costs = np.concatenate([self._best_costs, costs[valid]])
        order = np.argsort(costs, kind="stable")[: self._most_best]
        self.best, self._best_costs = together[order], costs[order]


def joined(*batches: MappingBatch) -> MappingBatch:
    """The rows of all ``batches``, one after the other."""
    return MappingBatch(*(np.concatenate(arrays) for arrays in zip(*(b.rows for b in batches), strict=True)))
