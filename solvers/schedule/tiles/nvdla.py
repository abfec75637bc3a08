"""NVDLA's dataflow on a tile, as the exhaustive mapper of SET's released program has it (section 4.2.2).

The dataflow is a set of constraints on mappings (:func:`dataflow`): which dims are spread where, which loops
stand at which level, and in which order. This solver lists the mappings that obey them, each with the largest
blocks that fit, counts all of them with the cost model's batch evaluator, and proposes the best one.

SET's program has one thing more: PEs that need the same weights, or the same inputs, can pass them on to
one another over a bus. That is left out, as it never pays in the program's own count. Of 20,952 tile parts
of eight networks on both of SET's platforms there is none whose best nest passes anything on, be it the best
by energy, by cycles or by their product.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import InputError
from costmodel.hardware.architecture import ALL_ROLES, LARGEST, Architecture, StorageLevel
from costmodel.mapping.batch import MappingBatch
from costmodel.mapping.batch_tables import RowCounts, Tables, tables_of, workspace
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Layer
from solvers.budget import Budget, Stopwatch
from solvers.divisors import divisors
from solvers.mapping.problem import Objective
from solvers.mapping.space.rules import FactorRule, LevelRules, SpaceRules
from solvers.outcome import Outcome, Status, noting_limits
from solvers.schedule.tiles.mapper import TileProblem

VERSION = "3"

Array = NDArray[Any]
FORM = (("weights",), ("outputs",), ("weights",), ("inputs",), ("outputs",), ALL_ROLES)
"""The roles of tensors that each level of such a tile keeps, innermost first: a register for each MAC,
accumulators, weight buffers, activation buffers, the output buffer, the tile's buffer."""
SPLITS = (("C", "K"), ("C", "N"), ("N", "K"), ("C", "Q"), ("P", "K"), ("P", "Q"))
"""The dims that the columns and the rows of the grid of PEs are spread over."""
Judged = tuple[float, float, float]
"""The objective, cycles and energy (pJ) of a mapping: which of two is better, in this order."""
PADDING = 1.0
"""A dim may be padded to at most twice its size, so that it fills lanes, MACs and PEs."""


@dataclass(frozen=True)
class Params:
    """There is nothing to choose: all numbers are the architecture's."""


@noting_limits
def solve(problem: TileProblem, budget: Budget, params: Params = Params()) -> Outcome[Mapping]:
    """The best mapping of a tile part that has the dataflow; InputError for an architecture of another form.

    Of mappings that are equally good by the objective, the one with fewer cycles and then the one with less
    energy is taken. ``budget`` is not used: listing and counting all mappings of a part takes about a
    millisecond.
    """
    watch = Stopwatch()
    mapper, layer = _mapper(problem.architecture), problem.layer
    found: tuple[Judged, Mapping] | None = None
    counted = 0
    for padded in mapper.padded(layer):
        count, better = mapper.best(padded, problem.objective, found and found[0])
        counted, found = counted + count, better or found
    times = watch.cpu_seconds, watch.wall_seconds
    if found is None:
        note = "no block fits the buffers of a PE: they must hold all channels of an output"
        return Outcome(Status.INFEASIBLE, None, None, None, *times, note, evaluations=counted)
    judged, mapping = found
    return Outcome(Status.FEASIBLE, mapping, judged[0], None, *times, evaluations=counted)


def dataflow(architecture: Architecture, layer: Layer, split: tuple[str, str]) -> SpaceRules:
    """The constraints on mappings of a tile part whose PEs are spread along the two dims of ``split``.

    They are those of ``nvdla_kernel.py``'s sketch. The innermost level's loops run over output positions, so
    weights are stationary at the MACs; K stands outside positions in the buffer's loops, so they are
    stationary in a PE, too. Every level keeps what it can; the output buffer may pass finished outputs on.
    """
    channels = "K" if "K" in layer.sizes else "C"  # a depthwise layer has C for both and sums up none
    first, second = (channels if dim == "K" else dim for dim in split)
    summed = ("R", "S", "C") if channels == "K" else ("R", "S")
    names = [level.name for level in architecture.levels]
    loops = (("Q", "P"), summed, (channels,), (), (), ("Q", "P", "N", channels, "G"))
    sides: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
        ((), ()),
        ((), summed[2:]),
        ((), ()),
        ((channels, "G"), ()),
        ((first,), (second,)),
        ((), ()),
    )
    levels = (
        LevelRules(
            name,
            temporal=tuple(FactorRule(dim, 1, 1) for dim in layer.sizes if dim not in allowed),
            innermost=allowed if number in (0, 5) else (),
            spatial_x=x,
            spatial_y=y,
            keep=FORM[number] if number != 4 else (),
        ).for_layer(layer)
        for number, (name, allowed, (x, y)) in enumerate(zip(names, loops, sides, strict=True))
    )
    return SpaceRules(keep="free", levels=tuple(levels), padding=PADDING)


@lru_cache(maxsize=64)
def _mapper(architecture: Architecture) -> _Mapper:
    levels = architecture.levels
    if tuple(level.keeps for level in levels) != FORM:
        expected = (
            "an NVDLA-style tile: a register a MAC, accumulators, weight, activation and output buffers"
        )
        found = ", ".join(level.name for level in levels)
        remedy = "Map such a tile with a mapping solver, as cosa"
        raise InputError("tile solver nvdla", expected, found, remedy, key="architecture")
    return _Mapper(architecture)


@dataclass(frozen=True, eq=False)
class _Mapper:
    """Lists and counts the mappings of parts on one tile.

    It keeps arrays from one part to the next: most of the time would go into making them.
    """

    architecture: Architecture

    def padded(self, layer: Layer) -> Iterator[Layer]:
        """The layer, and with its dims padded to fill the MACs, the lanes and the PEs of each split."""
        levels = self.architecture.levels
        depthwise = "K" not in layer.sizes
        units = {"C" if depthwise else "K": levels[3].fanout}
        if not depthwise:
            units["C"] = levels[1].fanout
        seen = set()
        for split in ((), *SPLITS):
            sizes = dict(layer.dims)
            for dim, unit in units.items():
                sizes[dim] = _filled(sizes[dim], unit)
            for dim, side in zip(split, (levels[4].fanout_x, levels[4].fanout_y), strict=False):
                dim = "C" if dim == "K" and depthwise else dim
                unit = units.get(dim, 1)
                if sizes[dim] > unit:
                    sizes[dim] = unit * _filled(sizes[dim] // unit, side)
            for made in (layer.sizes, sizes):
                if (dims := tuple(made.items())) not in seen:
                    seen.add(dims)
                    yield layer if made is layer.sizes else replace(layer, dims=dims)

    def best(
        self, layer: Layer, objective: Objective, than: Judged | None
    ) -> tuple[int, tuple[Judged, Mapping] | None]:
        """How many mappings were counted, and the best with its numbers; None where none beats ``than``."""
        from costmodel.mapping.batch_kernel import evaluate_rows
        from solvers.schedule.tiles.nvdla_kernel import NvdlaPart, list_mappings, most_rows

        form = self._form(layer)
        sizes = np.array([size for _, size in layer.dims], np.int64)
        most = most_rows(len(divisors(layer.sizes["Q"])))
        batch, cycles, energy_pj, valid = form.rows(most)
        part = NvdlaPart(form.dims, sizes, *form.strides)
        count = int(list_mappings(self.numbers, part, batch.rows))
        if not count:
            return 0, None
        mac_pj = float(layer.macs * self.architecture.compute.energy_pj)
        tables = form.tables._replace(sizes=sizes, mac_energy_pj=mac_pj)
        evaluate_rows(tables, batch[:count].rows, form.counts, cycles, energy_pj, valid)
        keys = (energy_pj[:count], cycles[:count])
        value = {"energy": keys[0], "cycles": keys[1], "edp": keys[0] * keys[1]}[objective]
        row = int(np.lexsort((*keys, value))[0])
        if not valid[row]:
            raise RuntimeError(f"a mapping of {layer.name} that does not fit was listed")
        judged = float(value[row]), float(cycles[row]), float(energy_pj[row])
        if than is not None and judged >= than:
            return count, None
        return count, (judged, batch.mapping(row, layer))

    @cached_property
    def numbers(self) -> Any:
        """The tile as :class:`.nvdla_kernel.NvdlaNumbers`."""
        from solvers.schedule.tiles.nvdla_kernel import NvdlaNumbers

        levels = self.architecture.levels
        buffers = (_words(levels[level]) for level in (1, 2, 3, 4))
        return NvdlaNumbers(
            levels[1].fanout_y, levels[3].fanout_x, levels[4].fanout_x, levels[4].fanout_y, *buffers
        )

    def _form(self, layer: Layer) -> _Form:
        key = tuple(layer.sizes), layer.tensors
        if key not in self._forms:
            self._forms[key] = _Form(self.architecture, layer)
        return self._forms[key]

    @cached_property
    def _forms(self) -> dict[Any, _Form]:
        return {}


class _Form:
    """What all layers with the same dims and tensors have in common on one tile, whatever their sizes."""

    def __init__(self, architecture: Architecture, layer: Layer) -> None:
        self._architecture, self._layer = architecture, layer
        names = [dim for dim, _ in layer.dims]
        roles = ["R", "S", "P", "Q", "C", "K", "N", "G"]
        if "K" not in names:
            roles[4:6] = ["", "C"]
        self.dims = np.array([names.index(role) if role in names else -1 for role in roles], np.int64)
        (self._inputs,) = (tensor for tensor in layer.tensors if tensor.role == "inputs")
        steps = {dim: max(step) for dim, step in self._inputs.steps.items()}
        self.strides = steps["P"], steps["Q"]
        self.tables: Tables = tables_of(architecture, layer)
        self.counts: RowCounts = workspace(self.tables)
        order = [place for place in self.dims[[3, 2, 6, 5, 7, 4, 0, 1]].tolist() if place >= 0]
        self._order = np.array(order, np.int8)
        self._rows: tuple[MappingBatch, Array, Array, Array] | None = None

    def rows(self, most: int) -> tuple[MappingBatch, Array, Array, Array]:
        """At least ``most`` rows with their orders and kept tensors, and arrays for their costs."""
        if self._rows is None or len(self._rows[0]) < most:
            batch = MappingBatch.empty(most, self._architecture, self._layer)
            batch.permutation[:] = self._order
            for level, hardware in enumerate(self._architecture.levels):
                batch.keep[:, level] = [hardware.can_keep(tensor) for tensor in self._layer.tensors]
            self._rows = batch, np.empty(most, np.int64), np.empty(most), np.empty(most, np.bool_)
        return self._rows


def _filled(size: int, unit: int) -> int:
    """The size rounded up to a multiple of ``unit``; one that is smaller than ``unit`` stays."""
    return size if size <= unit else -(-size // unit) * unit


def _words(level: StorageLevel) -> int:
    """The words that the tiles in use may take; more than any layer has where there is no limit."""
    return int(min(level.usable_words, LARGEST))
