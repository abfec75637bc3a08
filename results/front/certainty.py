"""How certain a front is: which designs stay on it, and which could still join, whatever mappings are missed.

For each objective of a design: proven bound b <= best possible value <= found value v. A design whose v no
other design's b dominates is certain: however well the others are mapped, none gets below its own b. A design
whose b no found v dominates is possible: mapped well enough, it could still join the front.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from results.front.pareto import Points, front_mask
from results.store.schema.tables import DESIGNS

if TYPE_CHECKING:
    import pandas

    Bound = Callable[[pandas.DataFrame], pandas.Series]

_BOUNDS: Mapping[str, Bound] = MappingProxyType(
    {
        "area_um2": lambda frame: frame["area_um2"],
        "energy_pj": lambda frame: frame["energy_bound_pj"],
        "cycles": lambda frame: frame["cycles_bound"],
        "edp_pj_cycles": lambda frame: frame["energy_bound_pj"] * frame["cycles_bound"],
        "latency_seconds": lambda frame: frame["latency_seconds"] * frame["cycles_bound"] / frame["cycles"],
        "seconds_per_token": (
            lambda frame: frame["seconds_per_token"] * frame["cycles_bound"] / frame["cycles"]
        ),
        "joules_per_token": (
            lambda frame: frame["joules_per_token"] * frame["energy_bound_pj"] / frame["energy_pj"]
        ),
        "time_to_first_token_seconds": lambda frame: frame["time_to_first_token_bound_seconds"],
        "time_per_output_token_seconds": lambda frame: frame["time_per_output_token_bound_seconds"],
        "off_chip_bytes": lambda frame: frame["off_chip_bytes_bound"],
        "off_chip_energy_pj": lambda frame: frame["off_chip_energy_bound_pj"],
    }
)
"""The proven bound of an objective of a design: area is known exactly; a product of two that are not negative
is at least the product of their bounds; seconds are cycles over a clock that a mapping does not change, and
neither does it change the number of tokens."""


def objective_bounds(designs: pandas.DataFrame, objectives: Sequence[str]) -> Points:
    """The proven lower bound of each objective of each design, in its unit; -inf where there is none.

    A bound that rounding put above the found value is the found value.
    """
    metrics = designs[list(DESIGNS.names("int", "float"))].astype("float64")
    bounds = np.full((len(designs), len(objectives)), -np.inf)
    for column, name in enumerate(objectives):
        if name in _BOUNDS:
            bounds[:, column] = np.fmin(_BOUNDS[name](metrics).fillna(-np.inf), metrics[name])
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
