"""How far predicted cycles are from measured ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Accuracy:
    """Over ``rows`` runs: absolute errors are fractions of the measured cycles (0.1 is 10 %).

    ``spearman`` is the correlation of ranks, None where all of one side are equal; ``geomean_ratio`` the
    geometric mean of predicted over measured.
    """

    rows: int
    mape: float
    median_ape: float
    spearman: float | None
    geomean_ratio: float

    @classmethod
    def of(cls, measured: Sequence[float], predicted: Sequence[float]) -> Accuracy:
        """The errors of some runs, at least one, all cycles above 0."""
        true, said = np.array(measured, dtype=float), np.array(predicted, dtype=float)
        apart = np.abs(said / true - 1)
        ratio = exp(
            sum(log(ours / theirs) for ours, theirs in zip(predicted, measured, strict=True)) / len(true)
        )
        return cls(len(true), float(apart.mean()), float(np.median(apart)), _spearman(true, said), ratio)

    def to_json(self) -> dict[str, Any]:
        """Plain data: the fields."""
        return asdict(self)


def _spearman(one: NDArray[np.float64], other: NDArray[np.float64]) -> float | None:
    ranks = [_ranks(one), _ranks(other)]
    if any(len(np.unique(each)) < 2 for each in ranks):
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 0; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    shared: NDArray[np.float64] = (ends - counts + ends - 1) / 2.0
    return shared[inverse]
