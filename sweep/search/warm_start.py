"""A warm start for a search: the members of the family nearest to Thistle's relaxed optima."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from math import log

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import StorageLevel
from solvers.codesign.family import ArchitectureFamily
from solvers.codesign.problem import CodesignProblem, WeightedLayer
from solvers.codesign.thistle import Params, RelaxedOptimum, relaxed_optimum
from sweep.design.mapping_workload import LayerDemand
from sweep.study.designs.axis import Axis, Choice, NumberRange
from sweep.study.designs.design_space import DesignSpace
from sweep.study.study import Study

PROGRAMS = Params(most_programs=64, condensed=0)
"""Fewer programs than a co-design solves: the axes are coarse, so a rougher optimum will do."""

AREA_QUANTILES = (0.25, 0.5, 1.0)
"""Quantiles of the family's areas, each an optimum's area limit: a front needs small and large designs."""

SAMPLED_DESIGNS = 64
"""Random designs from which the quantiles are estimated."""

TRIED_VALUES = 64
"""The most values tried of a range where a longer axis decides the same quantity with it."""

Point = tuple[int, ...]
"""The position of the value on each axis."""

KEY, REMEDY = "search.warm_start", "Leave warm_start out."


@dataclass(frozen=True)
class RelaxedStart:
    """The points of ``space`` to begin with, found by geometric programs in some seconds.

    Thistle chooses sizes (words) and fan-outs (instances): the axes ``LEVEL.size``, ``LEVEL.fanout``,
    ``LEVEL.fanout.x`` and ``LEVEL.fanout.y``. Any other axis starts at its middle value. Raises InputError
    where there is no such axis, for a family without areas, and for a size that costs neither energy nor area
    or follows no law that a geometric program can state.
    """

    study: Study
    space: DesignSpace
    demands: tuple[LayerDemand, ...]

    def __post_init__(self) -> None:
        if not self.chosen:
            raise InputError(
                self.study.where,
                "an axis that Thistle chooses: LEVEL.size or LEVEL.fanout",
                ", ".join(axis.key for axis in self.space.axes) or "no axes",
                REMEDY,
                key=KEY,
            )
        if not self._family.base.area_um2:
            raise self._unsuitable("areas of levels or MACs", "none")
        for level, quantity in self.chosen:
            if quantity == "size":
                self._check_law(level)

    def _check_law(self, level: str) -> None:
        """InputError for a level whose size is free: the program would make it infinitely large."""
        try:
            law = self._family.law(level)
        except InputError as error:
            raise self._unsuitable(error.expected, f"{level}: {error.found}") from error
        if not law.energy_exponent and not law.um2_per_word:
            raise self._unsuitable(f"an energy or area of {level} that grows with its size", "constants")

    def _unsuitable(self, expected: str, found: str) -> InputError:
        where = self.study.where
        return InputError(where, f"for Thistle, {expected} in {self.space.base}", found, REMEDY, key=KEY)

    @cached_property
    def _family(self) -> ArchitectureFamily:
        return ArchitectureFamily(self.study.architecture)

    @cached_property
    def chosen(self) -> dict[tuple[str, str], list[int]]:
        """(level, "size" or "fanout") -> the axes that decide it, by their positions."""
        found: dict[tuple[str, str], list[int]] = {}
        for position, axis in enumerate(self.space.axes):
            level, _, key = axis.key.partition(".")
            quantity = key.removesuffix(".x").removesuffix(".y")
            if level != "compute" and quantity in ("size", "fanout"):
                found.setdefault((level, quantity), []).append(position)
        return found

    @property
    def untouched(self) -> list[str]:
        """The axes that Thistle does not choose."""
        positions = {position for group in self.chosen.values() for position in group}
        return [axis.key for position, axis in enumerate(self.space.axes) if position not in positions]

    def points(self) -> list[Point]:
        """The points of the members nearest to the relaxed optima, each once, small areas first."""
        optima = (relaxed_optimum(problem, PROGRAMS) for problem in self._problems())
        return list(dict.fromkeys(self._nearest(optimum) for optimum in optima if optimum is not None))

    def _problems(self) -> Iterator[CodesignProblem]:
        """Co-design problems: for each area limit, least energy and what the study's mappings minimise.

        They are solved for the dominant layer only (section V-A of Thistle's paper), here the layer with the
        most MACs over all its runs.
        """
        dominant = max(self.demands, key=lambda demand: demand.runs * demand.layer.macs)
        layers = (WeightedLayer(dominant.layer, dominant.count),)
        sizes, fanouts = (
            tuple(level for level, quantity in self.chosen if quantity == asked)
            for asked in ("size", "fanout")
        )
        for area_um2 in self._areas_um2():
            for objective in dict.fromkeys(("energy", self.study.mapping_objective)):
                yield CodesignProblem(self._family, layers, area_um2, objective, sizes, fanouts)

    def _areas_um2(self) -> list[float]:
        """The area limits: quantiles over random designs that meet the constraints, each once."""
        sampled = self.space.sample(SAMPLED_DESIGNS, 0)
        areas = sorted(design.architecture.area_um2 for design in sampled if design.feasible)
        return list(
            dict.fromkeys(areas[round(quantile * (len(areas) - 1))] for quantile in AREA_QUANTILES if areas)
        )

    def _nearest(self, optimum: RelaxedOptimum) -> Point:
        """The point whose sizes and fan-outs are nearest to the optimum's, with other axes in the middle."""
        # Nothing is known of the other axes; from the middle a search reaches either end soonest.
        point = [len(axis.choices) // 2 for axis in self.space.axes]
        for (level, quantity), positions in self.chosen.items():
            wanted = (optimum.sizes_words if quantity == "size" else optimum.fanouts)[level]
            for position, index in zip(positions, self._closest(level, quantity, wanted), strict=True):
                point[position] = index
        return tuple(point)

    def _closest(self, level: str, quantity: str, wanted: float) -> Point:
        """The positions, on this quantity's axes, of the values whose ratio to ``wanted`` is nearest to 1.

        One axis gives the nearest of all. Where several decide the quantity together (``fanout.x`` and
        ``fanout.y``), only some values are tried of each axis but the longest.
        """
        axes = [self.space.axes[position] for position in self.chosen[level, quantity]]

        def found(indices: Point) -> int:
            values = {axis.key: axis.choices[i] for axis, i in zip(axes, indices, strict=True)}
            return _quantity(self._level(level, values), quantity)

        candidates = _candidates(axes, lambda indices: found(indices) < wanted)
        # By the logarithm of the ratio: half of what is wanted is as far away as twice of it.
        return min(candidates, key=lambda indices: abs(log(found(indices) / wanted)))

    def _level(self, name: str, values: dict[str, Choice]) -> StorageLevel:
        architecture = load_architecture(self.space.base, {**self.space.of_all, **values})
        return architecture.levels[architecture.index(name)]


def _quantity(level: StorageLevel, quantity: str) -> int:
    return level.fanout if quantity == "fanout" else level.size_words or 1


def _candidates(axes: Sequence[Axis], below: Callable[[Point], bool]) -> Iterator[Point]:
    """Points of the axes among which one is nearest to a wanted quantity.

    ``below`` tells whether a point's quantity is less than the wanted one. Along a range the quantity grows:
    for fixed values of the other axes the nearest is the last point below or the first that is not, and
    bisection finds these two. Lists of values are short and tried whole.
    """
    long = max(range(len(axes)), key=lambda position: len(axes[position].choices))
    others = [range(1) if position == long else _some(axis) for position, axis in enumerate(axes)]
    for chosen in product(*others):
        point = partial(_placed, chosen, long)
        yield from map(point, _along(axes[long], point, below))


def _along(axis: Axis, point: Callable[[int], Point], below: Callable[[Point], bool]) -> range:
    """The positions on ``axis`` among which the nearest is; ``point`` makes one a point of all axes."""
    positions = range(len(axis.choices))
    if not isinstance(axis.choices, NumberRange):
        return positions
    first = bisect_left(positions, True, key=lambda position: not below(point(position)))
    return positions[max(0, first - 1) : first + 1]


def _placed(point: Point, position: int, index: int) -> Point:
    """``point`` with ``index`` on the axis at ``position``."""
    return (*point[:position], index, *point[position + 1 :])


def _some(axis: Axis) -> Sequence[int]:
    """The positions of all values, or of some of them spread over a long range."""
    count = len(axis.choices)
    if count <= TRIED_VALUES or not isinstance(axis.choices, NumberRange):
        return range(count)
    return [round(step * (count - 1) / (TRIED_VALUES - 1)) for step in range(TRIED_VALUES)]
