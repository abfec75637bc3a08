"""How much each axis of a study matters to an objective: the fraction of its variance that the axis explains.

The logarithm of the objective is fitted by least squares as a constant plus one effect for each value of each
axis. The importance of an axis is the variance of its effect, every value counted alike, over the sum of all
axes' variances and the unexplained one. On a full grid this is the classical omega squared; because
the effects are fitted together, it also holds where a search looked at some values more often than at others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

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


def importance(axes: Mapping[str, Sequence[str]], objectives: Sequence[Values]) -> list[Importance]:
    """For each objective, the importance of each axis, whose values come one a design, compared as text.

    Each of ``objectives``: one finite value a design. Axes with a single value have importance 0. Where all
    values are positive their logarithms are explained, else the values. Raises NotEnoughDesignsError.
    """
    codes = {name: _coded(values) for name, values in axes.items()}
    varied = {name: code for name, code in codes.items() if code.max(initial=0) > 0}
    contrasts = _contrasts(varied)
    products: Values = contrasts.T @ _together(varied, len(objectives[0])) @ contrasts
    # what of the designs is in the model is the same for all objectives, and takes most of the time
    _check(len(objectives[0]), products, varied)
    inverse = np.asarray(np.linalg.inv(products), dtype=np.float64)
    fit = _Fit(tuple(axes), varied, contrasts, products, inverse)
    # Logarithms, because axes mostly multiply an objective: twice the PEs halve the cycles of any design.
    return [
        fit.explained(np.log(one) if (one > 0).all() else np.asarray(one, dtype=np.float64))
        for one in objectives
    ]


@dataclass(frozen=True, eq=False)
class _Fit:
    """The model of all effects. ``codes``: of the ``axes`` that vary, the value of each design by its number;
    ``contrasts``: see :func:`_contrasts`; ``products`` of each two of them over all designs, and the
    ``inverse`` of these."""

    axes: tuple[str, ...]
    codes: Mapping[str, NDArray[np.int64]]
    contrasts: Values
    products: Values
    inverse: Values

    def explained(self, target: Values) -> Importance:
        """What the effects explain of ``target``, one value a design."""
        sums = np.concatenate([[target.sum()], *(np.bincount(code, target) for code in self.codes.values())])
        effects: Values = np.asarray(
            np.linalg.solve(self.products, self.contrasts.T @ sums), dtype=np.float64
        )
        fitted = np.full(len(target), effects[0])
        by_axis = _by_axis(self.contrasts @ effects, self.codes)
        for code, by_value in zip(self.codes.values(), by_axis, strict=True):
            fitted += by_value[code]
        residual = target - fitted
        noise = float(residual @ residual) / (len(target) - len(self.products))
        nothing = dict.fromkeys(self.axes, 0.0)
        variances = nothing | _variances(self.codes, effects, noise * self.inverse)
        # Where the objective does not vary at all, rounding leaves something that fractions would blow up.
        total = sum(variances.values()) + noise
        if total <= 1e-18 * max(1.0, float(np.max(target**2))):
            return Importance(nothing, 0.0)
        return Importance({name: variance / total for name, variance in variances.items()}, noise / total)


def _coded(values: Sequence[str]) -> NDArray[np.int64]:
    """The number of each value in the order of the different ones."""
    numbers = {value: number for number, value in enumerate(sorted(set(values)))}
    return np.fromiter((numbers[value] for value in values), np.int64, len(values))


def _contrasts(codes: Mapping[str, NDArray[np.int64]]) -> Values:
    """How effects add up: one row for the constant and one for each value of each axis, one column an effect.

    An axis of n values has n - 1 effects, because its last value's effect is minus the sum of the others.
    There is no row for each design: that would take half a gigabyte for a hundred thousand designs and a
    thousand values. An axis of three values makes this block::

        value 1    1   0
        value 2    0   1
        value 3   -1  -1
    """
    blocks = [np.ones((1, 1))]
    for code in codes.values():
        values = int(code.max()) + 1
        blocks.append(np.vstack([np.eye(values - 1), -np.ones(values - 1)]))
    rows, columns = (np.cumsum([0, *(block.shape[side] for block in blocks)]) for side in (0, 1))
    whole = np.zeros((rows[-1], columns[-1]))
    for number, block in enumerate(blocks):
        whole[rows[number] : rows[number + 1], columns[number] : columns[number + 1]] = block
    return whole


def _together(codes: Mapping[str, NDArray[np.int64]], designs: int) -> Values:
    """For every two values, of one axis or of two, how many designs have both.

    The first row and column are for all designs, so they count the designs with each value.
    """
    every = [np.zeros(designs, np.int64), *codes.values()]
    sizes = [int(code.max()) + 1 for code in every]
    return np.block(
        [
            [
                np.bincount(a * n + b, minlength=m * n).reshape(m, n).astype(np.float64)
                for b, n in zip(every, sizes, strict=True)
            ]
            for a, m in zip(every, sizes, strict=True)
        ]
    )


def _by_axis(values: Values, codes: Mapping[str, NDArray[np.int64]]) -> list[Values]:
    """The entries after the first (the constant's), cut where an axis ends."""
    ends = np.cumsum([1, *(int(code.max()) + 1 for code in codes.values())])
    return [values[first:end] for first, end in pairwise(ends)]


def _check(designs: int, products: Values, codes: Mapping[str, NDArray[np.int64]]) -> None:
    """NotEnoughDesignsError unless the designs tell all effects apart.

    ``products`` of each two columns of contrasts, summed over all designs, are whole numbers without
    rounding. Their rank is that of the contrasts of all designs, and much cheaper to find: a decomposition of
    those takes half a minute for a hundred thousand designs.
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
