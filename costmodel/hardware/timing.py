"""What cycles a machine pays beyond its bandwidths: the ``timing:`` of an architecture file.

A machine with timing runs a layer in *steps*. The temporal loops of the outermost level walk over tiles, and
each step loads the tiles of its operands, computes on them in the array, and stores what is finished::

    step 1   load | compute | store
    step 2          load    | compute | store          two tiles in flight
    step 3                    load    | compute | store

Every number here is one that an engineer can look up in a manual or measure: bytes of a beat, cycles of a
request, lines of a cache, columns of an array. What they cost a mapping is counted by
:mod:`costmodel.mapping.timing`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from costmodel.errors import InputError
from costmodel.hardware.processing_timing import ProcessingTiming
from costmodel.number_checks import is_number, is_whole
from costmodel.workload.network import Role

LEAST_STEPS_IN_FLIGHT, MOST_STEPS_IN_FLIGHT = 1, 2
LARGEST_NUMBER = 2.0**53
"""Floats above it skip whole numbers, so that cycles could no longer be added up one by one."""
LayerKind = Literal["convolution", "product"]
"""A convolution has the dims P, Q, R and S, a matrix product M, N and K; either may have more."""
Layout = tuple[str, ...]
"""How a tensor lies in memory: dims outermost first, as (N, C, Q, P, 8C); see :class:`Timing`."""
Layouts = tuple[tuple[Role, Layout], ...]
"""Layouts by role, each role once."""


@dataclass(frozen=True)
class ArrayTiming:
    """What the array pays for a tile.

    The array holds a *block* of weights: of the dims ``block`` as many points as it says, counted from the
    tile's real extent, whatever the mapping's spatial factors. Through the block it streams *passes*: up to
    ``pass_points`` neighbouring points of ``pass_dim``, one a cycle.
    """

    block: tuple[tuple[str, int], ...]
    pass_dim: str
    pass_points: int
    least_pass_cycles: float = 1.0
    """A pass takes at least so long, however few its points."""
    pass_latency_cycles: float = 0.0
    """Cycles from a pass's entry into the array to its exit."""
    passes_in_flight: int = 1
    """Passes that can be in the array at once. With all of them on their way the next one waits for an exit:
    one pass follows another after ``pass_latency_cycles / passes_in_flight`` cycles at the soonest."""
    least_last_pass_cycles: float = 0.0
    """The last pass of a block takes at least so long, as the weights of the next one enter beside it."""

    def __post_init__(self) -> None:
        where = "timing of the array"
        for dim, points in self.block:
            _check(where, f"block.{dim}", points, least=1, whole=True)
        _check(where, "pass_points", self.pass_points, least=1, whole=True)
        _check(where, "passes_in_flight", self.passes_in_flight, least=1, whole=True)
        for key in ("least_pass_cycles", "pass_latency_cycles", "least_last_pass_cycles"):
            _check(where, key, getattr(self, key))

    @property
    def shortest_pass_cycles(self) -> float:
        """The fewest cycles from one pass to the next: ``least_pass_cycles``, or as the latency asks."""
        return max(self.least_pass_cycles, self.pass_latency_cycles / self.passes_in_flight)


@dataclass(frozen=True)
class TransferTiming:
    """What it costs to move a tile between the outermost level and the next, in one direction.

    A tile is moved in *rows*: its elements that are neighbours in memory along the layout's innermost axis.
    A row is cut into requests of whole lines of at most ``request_bytes``, and arrives in beats.
    """

    request_bytes: int
    beat_bytes: int
    cycles_per_request: float = 0.0
    cycles_per_row: float = 0.0
    buffer_bytes: int | None = None
    """Bytes that the buffer takes in or gives out in a cycle; None: as many as a beat has.

    The buffer works while further beats are on their way, so the slower of the two sets the pace."""
    short_requests_in_proportion: bool = False
    """Whether a request for less than a beat costs ``cycles_per_request`` in proportion to its bytes."""
    joins_rows: bool = False
    """Whether rows that follow each other in memory are moved as one."""
    row_elements: int | None = None
    """The most elements of a row that are moved at once, such as the array's width. None: no limit."""
    product_row_elements: int | None = None
    """The same for matrix products; None: as for every other layer."""

    def __post_init__(self) -> None:
        where = "timing of a transfer"
        _check(where, "request_bytes", self.request_bytes, least=1, whole=True)
        _check(where, "beat_bytes", self.beat_bytes, least=1, whole=True)
        _check(where, "cycles_per_request", self.cycles_per_request)
        _check(where, "cycles_per_row", self.cycles_per_row)
        for key in ("buffer_bytes", "row_elements", "product_row_elements"):
            if (elements := getattr(self, key)) is not None:
                _check(where, key, elements, least=1, whole=True)


@dataclass(frozen=True)
class CacheTiming:
    """A cache between the outermost level and the next, and what a line costs that it does not hold."""

    name: str
    size_bytes: int
    line_bytes: int
    ways: int
    cycles_per_miss: float = 0.0
    """Cycles to move one line between this cache and what lies behind it."""
    lines_per_write_miss: float = 1.0
    """Lines moved for one that is written and missed: 2 where it is fetched first and later written back."""

    def __post_init__(self) -> None:
        where = f"timing of cache {self.name}"
        for key in ("size_bytes", "line_bytes", "ways"):
            _check(where, key, getattr(self, key), least=1, whole=True)
        for key in ("cycles_per_miss", "lines_per_write_miss"):
            _check(where, key, getattr(self, key))
        # a set has ``ways`` lines, so a size in between would leave a part of a set
        if self.size_bytes % (self.line_bytes * self.ways):
            remedy = "A cache has a whole number of sets"
            expected = f"a multiple of line_bytes * ways = {self.line_bytes * self.ways}"
            raise InputError(where, expected, self.size_bytes, remedy, key="size_bytes")

    @property
    def lines(self) -> int:
        return self.size_bytes // self.line_bytes

    @property
    def sets(self) -> int:
        return self.lines // self.ways


@dataclass(frozen=True)
class Timing:
    """The timing of a machine; lengths in bytes, times in cycles of its clock.

    ``layouts`` say per role how a tensor lies in memory: dims outermost first, each standing for the
    tensor's axis that it indexes. ``NQPC`` is pixel by pixel with channels innermost, ``NCQP`` channel by
    channel. A number before a dim makes blocks of its axis: in ``N C Q P 8C`` eight channels of a pixel lie
    side by side, then those of the next pixel. Axes that are not named lie outside those that are, in the
    order in which the layer has them.
    """

    array: ArrayTiming | None
    load: TransferTiming | None
    store: TransferTiming | None
    caches: tuple[CacheTiming, ...] = ()
    """From the one next to the array outwards; a line that misses one is looked for in the next."""
    layouts: Layouts = ()
    permitted_layouts: tuple[tuple[Role, tuple[Layout, ...]], ...] = ()
    """By role the layouts that a mapping may have instead of the one of ``layouts``."""
    steps_in_flight: int = 2
    """2: a step loads while the one before it computes. 1: nothing overlaps."""
    whole_steps: tuple[LayerKind, ...] = ()
    """Kinds of layers in which a step loads all its operands, then computes, then stores, and keeps its half
    of the buffers all that time. With two steps in flight the step after the next cannot load before."""
    ahead_cycles: float = 0.0
    """Cycles by which a part of a whole step (load, compute, store) may overlap with the part before it."""
    issue_cycles: float = 0.0
    """Cycles that the host takes to issue one step."""
    product_issue_cycles: float | None = None
    """The same for a step of a matrix product, whose call may be another; None: as for every other layer."""
    product_block: tuple[tuple[str, int], ...] = ()
    """Tiles of matrix products are rounded up to whole multiples of these."""
    reloads: tuple[Role, ...] = ()
    """Tensors whose tile is loaded in every step, even where it is the one of the step before."""
    keeps_partial_sums: bool = False
    """Outputs stay in the machine until they are finished; otherwise they leave and come back as Timeloop's
    do."""
    clear_cycles_per_row: float = 0.0
    """Cycles to set one row of outputs to zero before its first partial sum."""
    whole_strides: bool = False
    """A tile of a strided layer is loaded with the pixels that the stride skips behind its last one."""
    starts_warm: bool = False
    """The caches hold what they can of the layer when it begins."""
    processing: ProcessingTiming | None = None
    """The timing of an array of PEs with scratchpads, for a machine that has one instead of ``array``."""
    level: str | None = None
    """The level whose temporal loops are the steps; None: the outermost one.

    Files do not say it. A chip's tile has its buffer outermost; in the stack of levels of the whole chip DRAM
    lies outside it, and the steps are those of the buffer still."""

    def __post_init__(self) -> None:
        where = "timing"
        for key in ("issue_cycles", "clear_cycles_per_row", "ahead_cycles"):
            _check(where, key, getattr(self, key))
        if self.product_issue_cycles is not None:
            _check(where, "product_issue_cycles", self.product_issue_cycles)
        if self.steps_in_flight not in (LEAST_STEPS_IN_FLIGHT, MOST_STEPS_IN_FLIGHT):
            raise InputError(where, "1 or 2", self.steps_in_flight, key="steps_in_flight")
        for dim, points in self.product_block:
            _check(where, f"product_block.{dim}", points, least=1, whole=True)
        self._check_layouts(where)

    def _check_layouts(self, where: str) -> None:
        for key, by_role in (("layouts", self.layouts), ("permitted_layouts", self.permitted_layouts)):
            roles = [role for role, _ in by_role]
            if len(set(roles)) != len(roles):
                raise InputError(where, "a role once", roles, key=key)
        for role, entries in self.layouts:
            _check_layout(where, f"layouts.{role}", entries)
        for role, several in self.permitted_layouts:
            for entries in several:
                _check_layout(where, f"permitted_layouts.{role}", entries)

    def layout(self, role: Role) -> Layout:
        """The dims of a role's tensor, outermost first; empty where the file does not say."""
        return dict(self.layouts).get(role, ())

    def choices(self, role: Role) -> tuple[Layout, ...]:
        """The layouts that a role's tensor can have, each once, the machine's own first."""
        return tuple(dict.fromkeys((self.layout(role), *dict(self.permitted_layouts).get(role, ()))))

    def others(self, layouts: ReadOnlyDict[Role, Sequence[str]]) -> Layouts:
        """Those of ``layouts`` that are not the machine's own, in the order of the roles: a mapping's."""
        stated = {role: tuple(entries) for role, entries in layouts.items()}
        return tuple(
            (role, stated[role])
            for role in get_args(Role)
            if role in stated and stated[role] != self.layout(role)
        )

    def with_layouts(self, layouts: ReadOnlyDict[Role, Sequence[str]]) -> Timing:
        """The same machine with tensors of some roles in other layouts."""
        changed = dict(self.layouts) | {role: tuple(entries) for role, entries in layouts.items()}
        return replace(self, layouts=tuple(changed.items()))

    def fixed(self, layouts: Layouts) -> Timing:
        """The machine as a mapping with these layouts sees it: with them, and with no others permitted."""
        return replace(self.with_layouts(dict(layouts)), permitted_layouts=())

    def has_whole_steps(self, *, product: bool) -> bool:
        """Whether steps of a matrix product, or of another layer, keep buffers until they have stored."""
        return ("product" if product else "convolution") in self.whole_steps

    def issue_of(self, *, product: bool) -> float:
        """Cycles to issue one step of a matrix product, or of another layer."""
        if product and self.product_issue_cycles is not None:
            return self.product_issue_cycles
        return self.issue_cycles

    def to_json(self) -> dict[str, Any]:
        """Plain data: the fields, without a ``level`` of None or ``permitted_layouts`` that are none.

        :meth:`from_json` reads it back."""
        data = asdict(self)
        # not as null: stored answers are found by the hash of this, and those of earlier files stay found
        for key in ("level", "permitted_layouts"):
            if not data[key]:
                del data[key]
        return data

    @classmethod
    def from_json(cls, data: ReadOnlyDict[str, Any]) -> Timing:
        """The timing of :meth:`to_json`; InputError for numbers that no machine has."""
        array = data["array"] and ArrayTiming(**{**data["array"], "block": _pairs(data["array"]["block"])})
        changed = {
            "array": array,
            "load": data["load"] and TransferTiming(**data["load"]),
            "store": data["store"] and TransferTiming(**data["store"]),
            "caches": tuple(CacheTiming(**cache) for cache in data["caches"]),
            "layouts": tuple((role, tuple(dims)) for role, dims in data["layouts"]),
            "permitted_layouts": tuple(
                (role, tuple(map(tuple, several))) for role, several in data.get("permitted_layouts", ())
            ),
            "product_block": _pairs(data["product_block"]),
            "reloads": tuple(data["reloads"]),
            "whole_steps": tuple(data.get("whole_steps", ())),
            "processing": data["processing"] and ProcessingTiming.from_json(data["processing"]),
        }
        return cls(**{**data, **changed})


def _check_layout(where: str, key: str, entries: Layout) -> None:
    parts = [layout_part(entry) for entry in entries]
    for blocked in (False, True):
        dims = [dim for block, dim in parts if (block > 1) == blocked]
        if len(set(dims)) != len(dims):
            raise InputError(where, "a dim once, and in blocks once", " ".join(entries), key=key)


def layout_part(entry: str) -> tuple[int, str]:
    """An entry of a layout: the points of a block and its dim, as (8, "C") of ``8C``; (1, "C") of ``C``."""
    found = re.fullmatch(r"(\d*)(\D\w*)", entry)
    if found is None or found[1] in ("0", "1") or found[1].startswith("0"):
        raise InputError("timing", "a dim, or the points of a block and a dim, as 8C", entry, key="layouts")
    return int(found[1] or 1), found[2]


def _pairs(entries: Iterable[Sequence[Any]]) -> tuple[tuple[str, int], ...]:
    return tuple((dim, points) for dim, points in entries)


def _check(
    where: str,
    key: str,
    value: Any,
    *,
    least: float = 0.0,
    whole: bool = False,
) -> None:
    """InputError unless ``value`` is a finite number of at least ``least``, an int if ``whole``."""
    if not (is_whole if whole else is_number)(value, least, LARGEST_NUMBER):
        whether = "a whole number" if whole else "a number"
        raise InputError(where, f"{whether} of at least {least:g}", value, key=key)
