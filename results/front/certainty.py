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
        "off_chip_bytes": lambda frame: frame["off_chip_bytes_bound"],
        "off_chip_energy_pj": lambda frame: frame["off_chip_energy_bound_pj"],
    }
)
"""The proven bound of an objective of a design: area is known exactly; a product of two that are not negative
is at least the product of their bounds; seconds are cycles over a clock that a mapping does not change."""


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
    rivals = np.isfinite(points).all(axis=1)
    for design in np.flatnonzero(certain):
        dominating = rivals & _dominates(bounds, points[design])
        dominating[design] = False
        certain[design] = not dominating.any()
    return certain


def possible_members(points: Points, bounds: Points) -> NDArray[np.bool_]:
    """Which designs' bounds no found design dominates: they may be on the front; certain ones included."""
    possible = np.asarray(np.isfinite(points).all(axis=1))
    for design in np.flatnonzero(front_mask(points)):
        possible &= ~_dominates(points[design], bounds)
    return possible


def _dominates(a: Points, b: Points) -> NDArray[np.bool_]:
    return np.asarray((a <= b).all(axis=-1) & (a < b).any(axis=-1))
