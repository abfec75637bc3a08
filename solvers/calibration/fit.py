"""Constants that make predicted cycles agree with measured ones, and how sure they are.

The fit minimises a robust loss of the logarithms of predicted over measured cycles, so that a run of a
thousand cycles counts as much as one of a billion, and a damaged row counts little. Constants stay positive:
the search is over their logarithms.

How good a fit is only runs can tell that it has not seen. Half of the layers are drawn, constants are fitted
on them, and the errors are those of the other half. A layer is never in both: runs of one layer are too
alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import InputError
from costmodel.mapping.timing.accuracy import Accuracy

Floats = NDArray[np.float64]
Predict = Callable[[Sequence[float]], Floats]
"""From constants to the predicted cycles of every run."""

HALVES = 6
"""How often the layers are halved."""
SOFT = 0.1
"""Errors of the logarithm above this count less than their square: 10 %."""
LEAST = 1e-3
"""Where the logarithm of a constant that is 0 begins."""
STEP = 1e-3
"""Relative step of the numerical derivatives; predictions are whole cycles, so not smaller."""


@dataclass(frozen=True)
class Fit:
    """Fitted ``constants``, in the order of the start.

    ``relative_errors`` are the spreads (standard deviations over the halves) relative to the constants.
    ``seen`` is the accuracy on all runs, ``unseen`` that on each half that a fit of the other half had not
    seen.
    """

    constants: tuple[float, ...]
    relative_errors: tuple[float, ...]
    seen: Accuracy
    unseen: tuple[Accuracy, ...]


def fit(
    predict: Predict, start: Sequence[float], measured: Floats, groups: Sequence[str], seed: int = 0
) -> Fit:
    """The fit of all runs, and fits of random halves of the groups.

    ``measured``: cycles of the runs, above 0; ``groups``: the layer of each. InputError for less than two.
    """
    names = sorted(set(groups))
    if len(names) < 2:
        raise InputError("measurements", "runs of two layers or more, to leave some out", f"{len(names)}")
    everything = np.ones(len(measured), dtype=bool)
    constants = fitted(predict, start, measured, everything)
    rng, of_run = np.random.default_rng(seed), np.array([names.index(group) for group in groups])
    fits, unseen = [], []
    for _ in range(HALVES):
        drawn = np.zeros(len(names), dtype=bool)
        drawn[rng.permutation(len(names))[: (len(names) + 1) // 2]] = True
        fits.append(fitted(predict, constants, measured, drawn[of_run]))
        left = ~drawn[of_run]
        unseen.append(Accuracy.of(measured[left].tolist(), predict(fits[-1])[left].tolist()))
    spread = np.std(np.array(fits), axis=0) / np.array(constants)
    seen = Accuracy.of(measured.tolist(), predict(constants).tolist())
    return Fit(constants, tuple(map(float, spread)), seen, tuple(unseen))


def fitted(
    predict: Predict, start: Sequence[float], measured: Floats, chosen: NDArray[np.bool_]
) -> tuple[float, ...]:
    """Constants fitted on the ``chosen`` runs alone, from ``start``; as :func:`fit`."""
    from scipy.optimize import least_squares

    def apart(logarithms: Floats) -> Floats:
        return np.log(predict(np.exp(logarithms).tolist()) / measured)[chosen]

    begin = np.log(np.maximum(np.array(start, dtype=float), LEAST))
    found = least_squares(apart, begin, loss="soft_l1", f_scale=SOFT, diff_step=STEP)
    return tuple(map(float, np.exp(found.x)))
