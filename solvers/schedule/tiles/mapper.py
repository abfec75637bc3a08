"""Maps tile parts on a tile (SET, section 4.2.2), and layers on the whole chip, by a solver, and counts them.

The solver is a mapping solver, or a *tile solver*, which knows one kind of tile and one dataflow. Whichever
proposes a mapping, the cost model counts it: ``evaluate``, or for many mappings at a time its compiled form.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import InputError, did_you_mean
from costmodel.hardware.architecture import Architecture
from costmodel.hardware.chip import Chip, Tile
from costmodel.hardware.whole_chip import whole_architecture
from costmodel.mapping.batch.batch import MappingBatch
from costmodel.mapping.mapping import Mapping
from costmodel.mapping.nest_text import nest_text, nest_texts
from costmodel.mapping.uneven import AnyMapping
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.tile_counts.batch import BatchTileCounter
from costmodel.schedule.tile_counts.tile_count import TileCount, counted_on_tile
from costmodel.schedule.whole_chip.cost import WholeChipCost, whole_chip_cost
from costmodel.workload.network import Layer, Tensor
from solvers.budget import Budget
from solvers.catalogue import Entry, solver, solver_names
from solvers.mapping.problem import MappingProblem, Objective, executed_layer
from solvers.mapping.space.rules import SpaceRules
from solvers.outcome import Outcome, Status
from solvers.schedule.tiles.layer_parts import TilePart

Array = NDArray[Any]


@dataclass(frozen=True)
class TilePartCost:
    """The cost of a tile part on one tile, without filling the tile's buffer
    (:class:`.tile_count.TileCount`).

    ``proven``: the solver has proven that no mapping is better by its objective. ``mapping``: the mapping as
    text (:mod:`costmodel.mapping.nest_text`), whose factors may pad dims of the part; empty where only the
    numbers are known.
    """

    energy_pj: float
    cycles: int
    proven: bool = False
    leakage_pj_per_cycle: float = 0.0
    mapping: str = ""


@dataclass(frozen=True)
class TileProblem:
    """Compute the tile part ``part`` with the least ``objective``: energy (pJ), cycles, or their product."""

    architecture: Architecture
    part: TilePart
    objective: Objective = "edp"

    @cached_property
    def layer(self) -> Layer:
        """The part as a loop nest."""
        return self.part.layer()


@dataclass(frozen=True)
class TileMapper:
    """The solver that costs of tile parts come from, by its name (see :func:`tile_solver`).

    It looks for the least ``objective`` and may spend ``budget`` on every part. ``params`` are the solver's
    ``Params``; None stands for its defaults. ``rules`` say which mappings the tile can run: its dataflow.
    They hold on the whole chip as well, whose levels have the tile's among them. A tile solver has a dataflow
    of its own: InputError for rules with one.
    """

    solver: str = "cosa"
    objective: Objective = "edp"
    params: Any = None
    budget: Budget = field(default_factory=lambda: Budget(wall_seconds=10.0))
    rules: SpaceRules = field(default_factory=SpaceRules)

    def __post_init__(self) -> None:
        if self.rules != SpaceRules() and tile_solver(self.solver).family == "tile":
            expected = f"a mapping solver, for {self.solver} has a dataflow of its own"
            raise InputError("mapping", expected, self.rules.describe(), key="constraints")

    def cost(self, architecture: Architecture, part: TilePart) -> TilePartCost | None:
        """The cost model's numbers of the mapping found; None where there is none."""
        return self.costs(architecture, [part])[part]

    def costs(
        self, architecture: Architecture, parts: Iterable[TilePart]
    ) -> dict[TilePart, TilePartCost | None]:
        """The costs of ``parts``. Tile solvers map many parts sooner together than one after the other."""
        entry = tile_solver(self.solver)
        if entry.family == "tile":
            return self._proposed(entry, architecture, list(parts))
        return {part: self._searched(entry, architecture, part) for part in parts}

    def _proposed(
        self, entry: Entry, architecture: Architecture, parts: list[TilePart]
    ) -> dict[TilePart, TilePartCost | None]:
        """The costs of what a tile solver proposes."""
        costs: dict[TilePart, TilePartCost | None] = dict.fromkeys(parts)
        module = entry.load()
        alike: ProposedMappings
        for alike in module.propose(architecture, costs, self.objective, self._params(entry)):
            counts = _counter(architecture, alike.layer).count(alike.sizes, alike.mappings)
            texts = nest_texts(alike.mappings, alike.layer)
            for part, count, text in zip(alike.parts, counts, texts, strict=True):
                leakage = count.leakage_pj_per_cycle
                costs[part] = TilePartCost(count.energy_pj, count.cycles, False, leakage, text)
        return costs

    def _searched(self, entry: Entry, architecture: Architecture, part: TilePart) -> TilePartCost | None:
        """The cost of what a mapping solver finds."""
        mapped = self._mapped(entry, architecture, part.layer())
        if mapped is None:
            return None
        executed, mapping, proven = mapped
        count = _counted(architecture, executed, mapping)
        return TilePartCost(
            count.energy_pj, count.cycles, proven, count.leakage_pj_per_cycle, nest_text(mapping)
        )

    def whole_chip_cost(
        self, chip: Chip, nest: Layer, padded: Tensor | None, bits: ElementBits | None = None
    ) -> WholeChipCost | None:
        """What a layer costs by the mapping found for the whole chip; None where there is none.

        ``image`` and ``bits`` as in :func:`costmodel.schedule.whole_chip.cost.whole_chip_cost`.

        InputError for a tile solver, and for a chip whose tiles no mapping solver can use.
        """
        entry, whole = tile_solver(self.solver), whole_architecture(chip)
        # A tile solver knows the dataflow of one tile and no other levels.
        if entry.family == "tile" or whole is None:
            expected = "a mapping solver and tiles with an architecture, for layers on the whole chip"
            raise InputError(f"chip {chip.name}", expected, self.solver, key="whole_chip")
        mapped = self._mapped(entry, whole, nest)
        return None if mapped is None else whole_chip_cost(chip, *mapped[:2], padded, bits)

    def _mapped(
        self, entry: Entry, architecture: Architecture, layer: Layer
    ) -> tuple[Layer, AnyMapping, bool] | None:
        """The layer as executed (with its padding), its mapping, and whether this is proven to be the best.

        None where no mapping was found.
        """
        problem = MappingProblem(architecture, layer, self.objective, self.rules.for_layer(layer))
        outcome: Outcome[AnyMapping] = entry.load().solve(problem, self.budget, self._params(entry))
        if outcome.solution is None:
            return None
        # With its padding: what a tile computes beyond its part costs energy and cycles, too.
        return executed_layer(problem, outcome.solution), outcome.solution, outcome.status is Status.OPTIMAL

    def _params(self, entry: Entry) -> Any:
        return entry.load().Params() if self.params is None else self.params


@dataclass(frozen=True)
class ProposedMappings:
    """A tile solver's mappings of ``parts`` whose nests have the dims and tensors of ``layer``.

    Row i of ``mappings`` maps ``parts[i]`` with ``sizes[i]`` [dims], which may pad it.
    """

    parts: Sequence[TilePart]
    layer: Layer
    sizes: Array
    mappings: MappingBatch


@lru_cache(maxsize=64)
def _counter(architecture: Architecture, layer: Layer) -> BatchTileCounter:
    """The counter that is kept from one call to the next: a call may be for a single part."""
    return BatchTileCounter(architecture, layer)


def _counted(architecture: Architecture, layer: Layer, mapping: AnyMapping) -> TileCount:
    """The count of one mapping of ``layer``, by compiled code where that counts such a mapping: sooner."""
    if not isinstance(mapping, Mapping) or mapping.layouts or architecture.precision is not None:
        return counted_on_tile(architecture, layer, mapping)
    form = replace(layer, dims=tuple((dim, 1) for dim, _ in layer.dims))
    sizes = np.array([[size for _, size in layer.dims]], np.int64)
    (count,) = _counter(architecture, form).count(sizes, MappingBatch.of([mapping], architecture, layer))
    return count


def with_sizes_of(mapping: AnyMapping, layer: Layer) -> Layer:
    """The layer as ``mapping`` executes it: with the sizes that its factors make, where they pad dims."""
    covered = mapping.tiles[-1]
    dims = tuple((dim, max(size, covered.get(dim, 1))) for dim, size in layer.dims)
    return layer if dims == layer.dims else replace(layer, dims=dims)


def tile_solver(name: str) -> Entry:
    """The catalogue's entry of a solver that tile costs can come from: a mapping solver or a tile solver."""
    names = [*solver_names("tile"), *solver_names("mapping")]
    if name not in names:
        raise InputError("tile solver", f"one of {', '.join(names)}", name, did_you_mean(name, names))
    return solver(name)


def check_tile(name: str, architecture: Architecture) -> None:
    """InputError where the solver ``name`` knows a single dataflow, and not that of the tile."""
    entry = tile_solver(name)
    if entry.family == "tile":
        entry.load().check(architecture)


def architecture_of(tile: Tile) -> Architecture:
    """The architecture that parts are mapped on; InputError for a tile that has none."""
    if tile.architecture is None:
        raise InputError("tile", "an architecture to map layers on", "none", key="architecture")
    return tile.architecture
