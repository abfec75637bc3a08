"""How much each axis of a study matters to an objective: the fraction of its variance that the axis explains.

The logarithm of the objective is fitted by least squares as a constant plus one effect for each value of each
axis. The importance of an axis is the variance of its effect, every value counted alike, over the sum of all
axes' variances and the unexplained one. On a full grid this is the classical omega squared; because
the effects are fitted together, it also holds where a search looked at some values more often than at others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEAST_SPARE_DESIGNS = 5
"""Designs needed beyond one for each effect that is fitted: fewer leave nothing to measure the rest by."""

EPSILON = float(np.finfo(np.float64).eps)

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Importance:
    """Fraction of the variance of one objective by axis, and what main effects do not explain; they sum to 1.

    ``variances`` and ``rest`` are all 0 where the objective does not vary.
    """

    fractions: Mapping[str, float]
    rest: float


class NotEnoughDesignsError(ValueError):
    """The designs cannot tell the effects of the axes apart; the message says why."""


def importance(axes: Mapping[str, Sequence[str]], objective: Values) -> Importance:
    """The importance of each axis, whose values come one a design and are compared as text.

    ``objective``: one finite value a design. Axes with a single value have importance 0. Where all values are
    positive their logarithms are explained, else the values. Raises NotEnoughDesignsError.
    """
    target = np.log(objective) if (objective > 0).all() else np.asarray(objective, dtype=np.float64)
    codes = {name: np.unique(list(values), return_inverse=True)[1] for name, values in axes.items()}
    varied = {name: code for name, code in codes.items() if code.max(initial=0) > 0}
    matrix = _contrasts(varied, len(target))
    products: Values = matrix.T @ matrix
    _check(len(target), products, varied)
    effects: Values = np.asarray(np.linalg.solve(products, matrix.T @ target), dtype=np.float64)
    residual = target - matrix @ effects
    noise = float(residual @ residual) / (len(target) - matrix.shape[1])
    covariance: Values = noise * np.asarray(np.linalg.inv(products), dtype=np.float64)
    variances = dict.fromkeys(axes, 0.0) | _variances(varied, effects, covariance)
    total = sum(variances.values()) + noise
    if total <= 1e-18 * max(1.0, float(np.max(target**2))):
        return Importance(dict.fromkeys(axes, 0.0), 0.0)
    return Importance({name: variance / total for name, variance in variances.items()}, noise / total)


def _contrasts(codes: Mapping[str, NDArray[np.int64]], count: int) -> Values:
    """A constant column, then for each axis one column a value but the last, which is minus their sum."""
    columns = [np.ones((count, 1))]
    for code in codes.values():
        values = int(code.max()) + 1
        columns.append(np.vstack([np.eye(values - 1), -np.ones(values - 1)])[code])
    return np.hstack(columns)


def _check(designs: int, products: Values, codes: Mapping[str, NDArray[np.int64]]) -> None:
    """``products``: of each two columns of contrasts over all designs, whole numbers without any rounding.

    Their rank is that of the contrasts. It costs a square of the effects, where a decomposition of the
    contrasts takes half a minute for a hundred thousand designs.
    """
    effects = len(products)
    if not codes:
        raise NotEnoughDesignsError("no axis takes two values among the complete designs")
    if designs < effects + LEAST_SPARE_DESIGNS:
        raise NotEnoughDesignsError(
            f"{effects} effects need {effects + LEAST_SPARE_DESIGNS} complete designs, there are {designs}"
        )
    if np.linalg.matrix_rank(products, rtol=designs * EPSILON, hermitian=True) < effects:
        raise NotEnoughDesignsError("the complete designs vary some axes only together, never apart")


def _variances(
    codes: Mapping[str, NDArray[np.int64]], effects: Values, covariance: Values
) -> dict[str, float]:
    """The variance of each axis' effect over its values, less what mere noise would give it."""
    found, first = {}, 1
    for name, code in codes.items():
        last = first + int(code.max())
        complete = np.vstack([np.eye(last - first), -np.ones(last - first)])
        effect = complete @ effects[first:last]
        by_noise = float(np.trace(complete @ covariance[first:last, first:last] @ complete.T))
        found[name] = max(0.0, (float(effect @ effect) - by_noise) / len(effect))
        first = last
    return found
