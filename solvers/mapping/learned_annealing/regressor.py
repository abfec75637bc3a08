"""The learned cost model: boosted regression trees (scikit-learn), as arrays for compiled code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import InputError

if TYPE_CHECKING:
    from solvers.mapping.learned_annealing.params import Params
    from solvers.mapping.learned_annealing.walk_kernel import Trees

Array = NDArray[Any]

LEARNING_RATE = 0.25
SAMPLED_ROWS, SAMPLED_FEATURES = 0.5, 0.33
"""A tree sees this part of the rows, a node this part of the features: faster, and the trees differ more."""

WORSE_THAN_ALL = 1.0
"""Invalid mappings count as so much more, as a logarithm, than the most expensive valid one."""


def load_library() -> Any:
    """scikit-learn's boosted trees; InputError if it is not installed."""
    try:
        from sklearn.ensemble import GradientBoostingRegressor
    except ImportError as error:
        remedy = "pip install 'archsweep[learned]', or take learn: false"
        raise InputError("learned_annealing", "scikit-learn", "not installed", remedy, key="learn") from error
    return GradientBoostingRegressor


def targets(costs: Array) -> Array:
    """What is learned: logarithms of ``costs`` [n]; those of invalid mappings are next above all others."""
    found = logarithms(costs)
    valid = np.isfinite(found)
    if not valid.any():
        return np.zeros(len(costs))
    return np.where(valid, found, found[valid].max() + WORSE_THAN_ALL)


def logarithms(costs: Array) -> Array:
    """Logarithms of ``costs`` [n], of 0 that of a tiny number, because 0 has none."""
    found: Array = np.log(np.maximum(costs, np.finfo(np.float64).tiny))
    return found


def fit(features: Array, costs: Array, params: Params, seed: int) -> Any:
    """A model of the logarithms of ``costs`` [n] by ``features`` [n, features]."""
    model = load_library()(
        n_estimators=params.trees,
        max_depth=params.depth,
        learning_rate=LEARNING_RATE,
        subsample=SAMPLED_ROWS,
        max_features=SAMPLED_FEATURES,
        random_state=seed,
    )
    return model.fit(features, targets(costs))


def chosen_rows(costs: Array, most: int, random: np.random.Generator) -> Array:
    """Which measurements to learn from: all; of more than ``most``, the ``most`` / 2 best and as many drawn
    from the others."""
    if len(costs) <= most:
        return np.arange(len(costs))
    order = np.argsort(costs, kind="stable")
    best, others = order[: most // 2], order[most // 2 :]
    return np.concatenate([best, random.choice(others, most - len(best), replace=False)])


def trees_of(model: Any) -> Trees:
    """A fitted model's trees; what it predicts for no features at all is a tree of one leaf."""
    grown = [stage[0].tree_ for stage in model.estimators_]
    trees = _empty(1 + len(grown), max(tree.node_count for tree in grown))
    trees.value[0, 0] = float(np.ravel(model.init_.constant_)[0])
    for number, tree in enumerate(grown, start=1):
        nodes = slice(0, tree.node_count)
        trees.feature[number, nodes] = tree.feature
        trees.threshold[number, nodes] = tree.threshold
        trees.left[number, nodes] = tree.children_left
        trees.right[number, nodes] = tree.children_right
        trees.value[number, nodes] = model.learning_rate * tree.value[:, 0, 0]
    return trees


def no_trees() -> Trees:
    """A model that predicts 0."""
    return _empty(0, 1)


def _empty(trees: int, nodes: int) -> Trees:
    from solvers.mapping.learned_annealing.walk_kernel import Trees

    shape = (trees, nodes)
    return Trees(
        feature=np.zeros(shape, np.int16),
        threshold=np.zeros(shape),
        left=np.full(shape, -1, np.int16),
        right=np.full(shape, -1, np.int16),
        value=np.zeros(shape),
    )
