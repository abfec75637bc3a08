"""How certain a front is: which designs stay on it, and which could still join, whatever mappings are missed.

For each objective of a design: proven bound b <= best possible value <= found value v. A design whose v no
other design's b dominates is certain: however well the others are mapped, none gets below its own b. A design
whose b no found v dominates is possible: mapped well enough, it could still join the front.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from results.front.pareto import Points, front_mask, numbers_of

if TYPE_CHECKING:
    import pandas

    Numbers = Callable[[str], NDArray[np.float64]]
    """A column of designs by its name, NaN where a design has no value."""

_BOUNDS: Mapping[str, Callable[[Numbers], NDArray[np.float64]]] = MappingProxyType(
    {
        "area_um2": lambda of: of("area_um2"),
        "energy_pj": lambda of: of("energy_bound_pj"),
        "cycles": lambda of: of("cycles_bound"),
        "edp_pj_cycles": lambda of: of("energy_bound_pj") * of("cycles_bound"),
        "latency_seconds": lambda of: of("latency_seconds") * of("cycles_bound") / of("cycles"),
        "seconds_per_token": (lambda of: of("seconds_per_token") * of("cycles_bound") / of("cycles")),
        "joules_per_token": (lambda of: of("joules_per_token") * of("energy_bound_pj") / of("energy_pj")),
        "time_to_first_token_seconds": lambda of: of("time_to_first_token_bound_seconds"),
        "time_per_output_token_seconds": lambda of: of("time_per_output_token_bound_seconds"),
        "off_chip_bytes": lambda of: of("off_chip_bytes_bound"),
        "off_chip_energy_pj": lambda of: of("off_chip_energy_bound_pj"),
    }
)
"""The proven bound of an objective of a design: area is known exactly; a product of two that are not negative
is at least the product of their bounds; seconds are cycles over a clock that a mapping does not change, and
neither does it change the number of tokens."""


def objective_bounds(designs: pandas.DataFrame, objectives: Sequence[str]) -> Points:
    """The proven lower bound of each objective of each design, in its unit; -inf where there is none.

    A bound that rounding put above the found value is the found value.
    """
    column_of = partial(numbers_of, designs)
    bounds = np.full((len(designs), len(objectives)), -np.inf)
    for column, name in enumerate(objectives):
        if name in _BOUNDS:
            with np.errstate(divide="ignore", invalid="ignore"):  # where there are no cycles
                proven = _BOUNDS[name](column_of)
            bounds[:, column] = np.fmin(np.where(np.isnan(proven), -np.inf, proven), column_of(name))
    return bounds


def certain_members(points: Points, bounds: Points) -> NDArray[np.bool_]:
    """Which designs no other design's bounds dominate: on the front for certain.

    ``points``: found objectives, NaN rows for designs that are not judged; ``bounds``: theirs, same shape.
    """
    certain = front_mask(points)  # v dominated by another's v is dominated by that one's b too
    rivals = _least(bounds, np.flatnonzero(np.isfinite(points).all(axis=1)))
    for design in np.flatnonzero(certain):
        others = rivals[rivals != design]
        certain[design] = not _dominates(bounds[others], points[design]).any()
    return certain


def _least(bounds: Points, designs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of the designs whose bounds dominate whatever the bounds of all of them dominate.

    They are the front of the bounds, and the front of the rest: what dominates a design must not be its own
    bounds, and without these a bound of nondominated rank 2 may be on the front.
    """
    # a front is of finite points only
    finite = np.maximum(bounds[designs], np.finfo(np.float64).min)
    first = front_mask(finite)
    second = np.zeros_like(first)
    second[~first] = front_mask(finite[~first])
    return designs[first | second]


def possible_members(points: Points, bounds: Points) -> NDArray[np.bool_]:
    """Which designs' bounds no found design dominates: they may be on the front; certain ones included."""
    left = np.flatnonzero(np.isfinite(points).all(axis=1))
    front = np.flatnonzero(front_mask(points))
    # the design in the middle dominates most of what can be dominated, which is not looked at again then
    ranks = np.argsort(np.argsort(points[front], axis=0), axis=0).max(axis=1)
    for design in front[np.argsort(ranks, kind="stable")]:
        left = left[~_dominates(points[design], bounds[left])]
    possible = np.zeros(len(points), dtype=bool)
    possible[left] = True
    return possible


def _dominates(a: Points, b: Points) -> NDArray[np.bool_]:
    return np.asarray((a <= b).all(axis=-1) & (a < b).any(axis=-1))
