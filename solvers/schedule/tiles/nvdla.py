"""NVDLA's dataflow on a tile, as the exhaustive mapper of SET's released program has it (section 4.2.2).

The dataflow is a set of constraints on mappings (:func:`dataflow`): which dims are spread where, which loops
stand at which level, and in which order. This solver lists the mappings that obey them, each with the largest
blocks that fit, counts all of them with the cost model's batch counter, and proposes the best one. Parts are
mapped many at a time (:func:`propose`): a call into compiled code takes longer than a part.

SET's program has one thing more: PEs that need the same weights, or the same inputs, can pass them on to
one another over a bus. That is left out, as it never pays in the program's own count. Of 20,952 tile parts
of eight networks on both of SET's platforms there is none whose best nest passes anything on, be it the best
by energy, by cycles or by their product.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import InputError
from costmodel.hardware.architecture import ALL_ROLES, LARGEST, Architecture, StorageLevel
from costmodel.mapping.batch.batch import MappingBatch
from costmodel.mapping.batch.batch_tables import RowCounts, Tables, tables_of, workspace
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Layer
from solvers.budget import Budget, Stopwatch
from solvers.mapping.problem import OBJECTIVES, Objective
from solvers.mapping.space.rules import FactorRule, LevelRules, SpaceRules
from solvers.outcome import Outcome, Status, noting_limits
from solvers.schedule.tiles.layer_parts import TilePart
from solvers.schedule.tiles.mapper import ProposedMappings, TileProblem

VERSION = "4"

Array = NDArray[Any]
FORM = (("weights",), ("outputs",), ("weights",), ("inputs",), ("outputs",), ALL_ROLES)
"""The roles of tensors that each level of such a tile keeps, innermost first: a register for each MAC,
accumulators, weight buffers, activation buffers, the output buffer, the tile's buffer."""
SPLITS = (("C", "K"), ("C", "N"), ("N", "K"), ("C", "Q"), ("P", "K"), ("P", "Q"))
"""The dims that the columns and the rows of the grid of PEs are spread over."""
PADDING = 1.0
"""A dim may be padded to at most twice its size, so that it fills lanes, MACs and PEs."""
LEAST_CHECKED = 2.0**40
"""Parts of more products than this are checked for counts that do not fit in 64 bits."""


@dataclass(frozen=True)
class Params:
    """There is nothing to choose: all numbers are the architecture's."""


@noting_limits
def solve(problem: TileProblem, budget: Budget, params: Params = Params()) -> Outcome[Mapping]:
    """The best mapping of a tile part that has the dataflow.

    FEASIBLE and without a bound, as a mapping without the dataflow may be better. INFEASIBLE where the
    dataflow allows none; a solver with another dataflow may still have one. Raises InputError for an
    architecture of another form, and for a part whose counts do not fit in 64 bits.

    Of mappings that are equally good by the objective, the one with fewer cycles and then the one with less
    energy is taken. ``budget`` is not used: listing and counting all mappings of a part takes about a tenth
    of a millisecond.
    """
    watch = Stopwatch()
    mapper, form = _mapper(problem.architecture), PartForm.of(problem.part)
    rows, found = mapper.best(form, [problem.part], problem.objective)
    times, counted = (watch.cpu_seconds, watch.wall_seconds), int(found.listed[0])
    if not counted:
        note = "no block fits the buffers of a PE: they must hold all channels of an output"
        return Outcome(Status.INFEASIBLE, None, None, None, *times, note, evaluations=counted)
    mapping, objective = rows.mapping(0, form.layer), float(found.objective[0])
    return Outcome(Status.FEASIBLE, mapping, objective, None, *times, evaluations=counted)


def check(architecture: Architecture) -> None:
    """InputError for a tile that has other levels than NVDLA's."""
    _mapper(architecture)


def propose(
    architecture: Architecture, parts: Iterable[TilePart], objective: Objective, params: Params = Params()
) -> Iterator[ProposedMappings]:
    """The best mappings of many parts, as :func:`solve` finds them one by one.

    One result for each :class:`PartForm` of the parts; parts without a mapping are left out of it, so it may
    be empty. Raises InputError as :func:`solve` does, at the first result or at that of the part's form.
    """
    mapper = _mapper(architecture)
    by_form: dict[PartForm, list[TilePart]] = {}
    for part in parts:
        by_form.setdefault(PartForm.of(part), []).append(part)
    for form, alike in by_form.items():
        rows, found = mapper.best(form, alike, objective)
        (mapped,) = found.listed.nonzero()
        names = [alike[number] for number in mapped.tolist()]
        yield ProposedMappings(names, form.layer, found.sizes[mapped], rows[mapped])


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
        raise InputError("tile solver nvdla", expected, found, remedy)
    return _Mapper(architecture)


class PartForm(NamedTuple):
    """What parts have in common whose nests have the same dims and tensors, whatever their sizes."""

    depthwise: bool
    grouped: bool
    stride_h: int
    stride_w: int

    @staticmethod
    def of(part: TilePart) -> PartForm:
        grouped = part.groups > 1
        return PartForm(grouped and part.c == part.k == 1, grouped, part.stride_h, part.stride_w)

    @property
    def layer(self) -> Layer:
        """A nest of the form, of the least sizes."""
        return _least_nest(self)

    def sizes(self, parts: Sequence[TilePart], layer: Layer) -> Array:
        """The sizes int64 [n, dims] of ``parts`` of the form; ``layer`` is :attr:`layer`.

        Raises InputError for a part whose counts do not fit in 64 bits.
        """
        columns = {"C": "groups" if self.depthwise else "c", "N": "b", "G": "groups"}
        fields = [TilePart._fields.index(columns.get(dim, dim.lower())) for dim in layer.sizes]
        # C order, whatever indexing makes: another order would be compiled for once more
        sizes = np.ascontiguousarray(np.array(parts, np.int64)[:, fields])
        # A nest refuses sizes whose counts do not fit in 64 bits.
        for number in np.nonzero(sizes.astype(float).prod(axis=1) > LEAST_CHECKED)[0].tolist():
            parts[number].layer()
        return sizes


@lru_cache(maxsize=256)
def _least_nest(form: PartForm) -> Layer:
    few = 1 if form.depthwise else 2
    groups = 2 if form.grouped else 1
    return TilePart(few, few, 1, 1, 1, 1, form.stride_h, form.stride_w, 1, groups).layer()


class _Mapper:
    """Lists and counts the mappings of parts on one tile.

    It keeps arrays from one call to the next: much of the time would go into making them.
    """

    def __init__(self, architecture: Architecture) -> None:
        self._architecture = architecture
        self._workspaces: dict[PartForm, _Workspace] = {}

    def best(
        self, form: PartForm, parts: Sequence[TilePart], objective: Objective
    ) -> tuple[MappingBatch, Any]:
        """The best mappings of ``parts`` of one form, and a :class:`.nvdla_kernel.FoundMappings` of them."""
        from solvers.schedule.tiles.nvdla_kernel import FoundMappings, best_mappings

        if form not in self._workspaces:
            self._workspaces[form] = _Workspace(self._architecture, form)
        made, n = self._workspaces[form], len(parts)
        rows = MappingBatch.empty(n + 1, self._architecture, made.layer)
        rows.permutation[:], rows.keep[:] = made.permutation, made.keep
        sizes = form.sizes(parts, made.layer)
        cycles, listed = np.empty(n, np.int64), np.empty(n, np.int64)
        found = FoundMappings(rows.rows, sizes.copy(), np.empty(n), cycles, np.empty(n), listed)
        judge = OBJECTIVES.index(objective), float(self._architecture.compute.energy_pj)
        best_mappings(self.numbers, made.form, sizes, judge, made.tables, made.counts, made.padded, found)
        if wrong := np.nonzero((found.listed > 0) & (found.objective == np.inf))[0].tolist():
            raise RuntimeError(f"no mapping of {parts[wrong[0]]} that was listed fits")
        return rows, found

    @cached_property
    def numbers(self) -> Any:
        """The tile as :class:`.nvdla_kernel.NvdlaNumbers`."""
        from solvers.schedule.tiles.nvdla_kernel import NvdlaNumbers

        levels = self._architecture.levels
        buffers = (_words(levels[level]) for level in (1, 2, 3, 4))
        return NvdlaNumbers(
            levels[1].fanout_y, levels[3].fanout_x, levels[4].fanout_x, levels[4].fanout_y, *buffers
        )


class _Workspace:
    """What compiled code needs to map parts of one form on one tile."""

    def __init__(self, architecture: Architecture, form: PartForm) -> None:
        from solvers.schedule.tiles.nvdla_kernel import SPLITS, NvdlaForm

        self.layer = layer = form.layer
        names = [dim for dim, _ in layer.dims]
        roles = ["R", "S", "P", "Q", "" if form.depthwise else "C", "C" if form.depthwise else "K", "N", "G"]
        dims = np.array([names.index(role) if role in names else -1 for role in roles], np.int64)
        self.tables: Tables = tables_of(architecture, layer)
        self.counts: RowCounts = workspace(self.tables)
        self.form = NvdlaForm(dims, self.tables.sizes, form.stride_h, form.stride_w)
        self.padded = np.empty((len(SPLITS) + 2, len(names)), np.int64)
        self.permutation = [dim for dim in dims[[3, 2, 6, 5, 7, 4, 0, 1]].tolist() if dim >= 0]
        self.keep = [[level.can_keep(tensor) for tensor in layer.tensors] for level in architecture.levels]


def _words(level: StorageLevel) -> int:
    """The words that the tiles in use may take; more than any layer has where there is no limit."""
    return int(min(level.usable_words, LARGEST))
