"""Lower bounds on geometric programs by weak duality, which hold whatever the solver's tolerances were."""

from __future__ import annotations

from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.mapping.thistle.convex.cones import ClassOptimum
from solvers.mapping.thistle.convex.program import ClassProgram, LogDomain

Array = NDArray[Any]

MARGIN = 1 - 1e-9
"""Bounds are multiplied by this: it covers the rounding errors of logarithms and exponentials."""


def certified(program: ClassProgram, relaxed: ClassOptimum) -> float:
    """A lower bound on the program's objective (energy or cycles) at every point that meets its constraints.

    The Lagrangian L is the objective plus multipliers of at least 0 times what each constraint is exceeded
    by. Where the constraints hold, L is therefore at most the objective. In x it is convex, a sum of
    exponentials and linear terms. So for any point p, ``L(x) >= L(p) + gradient L(p) @ (x - p)`` everywhere,
    and the least of the right side over the domain is a lower bound. ``relaxed`` gives p and the multipliers:
    at the optimum nothing would be lost. For cycles L has the average of the times' logarithms with
    ``time_weights``: the largest is at least any average, and the logarithm of a sum of exponentials is
    convex, too.
    """
    x = relaxed.x
    if program.objective == "energy":
        value, gradient = program.energy_at(x), program.energy.gradient(x) - program.saved
    else:
        value, gradient = _log_time(program, relaxed)
    # Negative multipliers, which an interior-point method may leave by rounding, would not bound anything: 0
    # in their place is valid, if a trifle weaker.
    for fill, weight in zip(program.fills, np.maximum(relaxed.fill_weights, 0), strict=True):
        value += weight * (fill.at(x) - 1)
        gradient = gradient + weight * fill.gradient(x)
    weights = np.maximum(relaxed.limit_weights, 0)
    for (coefficients, most), weight in zip(program.box.limits, weights, strict=True):
        value += weight * (float(coefficients @ x) - most)
        gradient = gradient + weight * coefficients
    least = value - float(gradient @ x) + least_in_box(program.box, gradient)
    return (least if program.objective == "energy" else exp(least)) * MARGIN


def least_in_box(box: LogDomain, slope: Array) -> float:
    """The least ``slope @ x`` in the domain without its limits.

    Every x starts at its least value; what a dim's sum still needs goes to its cheapest variables first.
    """
    x = box.least.copy()
    for group, total in enumerate(box.sums):
        members = np.flatnonzero(box.group == group)
        left = total - x[members].sum()
        # A linear function over a box with one sum is least where the cheapest slopes are filled up first, as
        # in the fractional knapsack problem.
        for member in members[np.argsort(slope[members], kind="stable")]:
            step = min(left, box.most[member] - x[member])
            x[member] += step
            left -= step
    return float(slope @ x)


def _log_time(program: ClassProgram, relaxed: ClassOptimum) -> tuple[float, Array]:
    """The weighted average of the logarithms of the times, and its gradient."""
    weights = np.maximum(relaxed.time_weights, 0)
    weights = weights / weights.sum() if weights.sum() > 0 else np.full(len(weights), 1 / len(weights))
    values = [time.at(relaxed.x) for time in program.times]
    slopes = [time.gradient(relaxed.x) / value for time, value in zip(program.times, values, strict=True)]
    average = sum(weight * log(value) for weight, value in zip(weights.tolist(), values, strict=True))
    return average, np.asarray(weights @ np.array(slopes))
