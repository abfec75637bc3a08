"""A block: some designs with the solves that they need, packed; and what a worker sends back for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.architecture import Architecture
from results.front.left_out import outcome
from results.front.pareto import covers
from results.store.known_answers import FoundAnswers
from results.store.row_batch import RowBatch
from results.store.schema.rows import DesignRow, LayerRow
from sweep.design.design_row import number_in
from sweep.design.mapping_workload import LayerSolve
from sweep.study.designs.design_space import Design, DesignSpace
from sweep.study.designs.design_table import DesignTable, Part, architecture_of, values_of
from sweep.tasks.summaries import MappingSummary

Numbers = NDArray[np.int32]
PartsOf = tuple[tuple[Part, ...], ...]
"""For each position (see :class:`DesignParts`) parts by their numbers."""

NOTED = 10
"""How many of the slowest solves of a block, and how many of its first failed ones, are told to whoever
watches the run."""


@dataclass(frozen=True, eq=False)
class Block:
    """Groups of designs, and ``solves`` consecutive solves on the architectures of these groups.

    The designs of a group have one architecture as far as mappings can tell, so they need the same solves. A
    group's solves are numbered from 0; the block begins with solve ``first`` of its first group and may end
    before the last solve of its last group: other blocks have the rest.

    A block without groups has designs that break a constraint. They need a row and no solve.

    Rows are designs. ``parts_of`` [rows, positions] and ``choices`` [rows, axes]: the number of each design's
    part at each position, and its indices on the axes, as in :class:`.DesignTable`. ``parts``: the parts that
    have these numbers. Empty: they are those of the work, which every worker has (:meth:`with_parts`).
    ``begins``: the first row of each group, and the end of the last one. ``seconds``: the worker begins no
    further solve after so long. ``stored``: what the store knows of the block's solves. ``shared``: whether
    the worker may write parts into the run folder, if it sees it. ``closes``: whether it makes the rows of
    designs whose solves are all answered; else the driver does, which needs them to propose others.
    ``at_once``: how many solves a worker gets at a time, where a sub-driver cuts the block up.
    ``first_look``: the solves are those of the study's cheaper solver. ``front``: objectives of evaluated
    designs, an array (designs, objectives), to which the worker adds those that it closes. It leaves a group
    that it has whole as soon as they dominate what the group's designs can still reach, or these break a
    constraint on results in any case. None: it solves all.
    """

    parts: PartsOf
    parts_of: Numbers
    choices: NDArray[np.int64]
    begins: tuple[int, ...]
    first: int
    solves: int
    seconds: float
    stored: FoundAnswers | None = None
    shared: bool = True
    closes: bool = True
    at_once: int = 1
    first_look: bool = False
    front: NDArray[np.float64] | None = None

    @staticmethod
    def of(
        table: DesignTable,
        rows: NDArray[np.int64],
        begins: tuple[int, ...],
        solves: tuple[int, int],
        seconds: float,
        stored: FoundAnswers | None = None,
        *,
        shared: bool = True,
        closes: bool = True,
        at_once: int = 1,
        first_look: bool = False,
        front: NDArray[np.float64] | None = None,
        brings_parts: bool = True,
    ) -> Block:
        """The block of these rows of a table; ``solves`` are ``first`` and how many.

        ``brings_parts``: whether the worker does not have the table's parts.
        """
        parts, parts_of = _own(table.parts.values if brings_parts else (), table.parts_of[rows])
        choices = table.choices[rows]
        return Block(
            parts,
            parts_of,
            choices,
            begins,
            *solves,
            seconds,
            stored,
            shared,
            closes,
            at_once,
            first_look,
            front,
        )

    def part(
        self,
        groups: tuple[int, int],
        solves: tuple[int, int],
        seconds: float,
        stored: FoundAnswers | None = None,
    ) -> Block:
        """The block of the ``groups`` [first, end), with ``solves``: the first one, counted in the first of
        these groups, and how many. ``at_once`` is not passed on."""
        first, end = groups
        begins = self.begins[first : end + 1]
        rows = slice(begins[0], begins[-1])
        parts, parts_of = _own(self.parts, self.parts_of[rows])
        from_0 = tuple(begin - begins[0] for begin in begins)
        choices = self.choices[rows]
        return Block(
            parts,
            parts_of,
            choices,
            from_0,
            *solves,
            seconds,
            stored,
            self.shared,
            self.closes,
            first_look=self.first_look,
            front=self.front,
        )

    def with_parts(self, parts: PartsOf) -> Block:
        """The same block; one that brings no parts gets these."""
        return self if self.parts else replace(self, parts=parts)

    @property
    def groups(self) -> int:
        return len(self.begins) - 1

    def architecture(self, row: int) -> Architecture:
        numbers = self.parts_of[row].tolist()
        return architecture_of([parts[n] for parts, n in zip(self.parts, numbers, strict=True)])

    def designs(self, space: DesignSpace, begin: int, end: int) -> Iterator[Design]:
        """The designs in these rows."""
        for row in range(begin, end):
            choices = self.choices[row].tolist()
            architecture = self.architecture(row)
            broken = () if self.groups else space.broken_by(architecture)
            baseline = any(index < 0 for index in choices)
            yield Design(values_of(space, choices), architecture, broken, baseline=baseline)


def _own(values: Sequence[Sequence[Part]], parts_of: NDArray[np.integer[Any]]) -> tuple[PartsOf, Numbers]:
    """Of each position the parts that designs have, and their numbers among these for each design.

    Designs of a grid differ in few parts, so each part travels once and a design as some numbers. Without
    ``values`` the numbers stay as they are.
    """
    if not values:
        return (), parts_of.astype(np.int32)
    parts, columns = [], []
    for position, known in enumerate(values):
        different, inverse = np.unique(parts_of[:, position], return_inverse=True)
        parts.append(tuple(known[number] for number in different))
        columns.append(inverse.reshape(-1).astype(np.int32))
    return tuple(parts), np.stack(columns, axis=1)


@dataclass(frozen=True)
class BoundsOf:
    """Asks for bounds on the groups of a block, before anything of them is solved."""

    block: Block


Reason = Sequence[float] | str
"""Why a design need not be solved: the objectives of an evaluated one that dominates all that it can reach,
or the constraints that it breaks whatever it reaches."""


@dataclass(frozen=True)
class GroupBounds:
    """Proven lower bounds on energy (pJ) and cycles of the designs of each group: an array (groups, 2).

    They are 0 where a layer provably has no mapping: such designs are infeasible rather than dominated.
    ``broken``: by the number of a group, for each of its designs the constraints on results that its bounds
    break; only of groups where each design breaks some.
    """

    values: NDArray[np.float64]
    broken: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class DiscardedDesigns:
    """The designs of a block's groups need a row and no solve: what their bounds say is reason enough.

    ``bounds``: those of :class:`GroupBounds`. ``reasons``: for each design the objectives of one that
    dominates it, or the constraints that it breaks.
    """

    block: Block
    bounds: NDArray[np.float64]
    reasons: Sequence[Reason]


@dataclass(frozen=True)
class SmallBatches:
    """Rows of several blocks, to be made one part: what a worker does instead of the driver.

    ``shared``: as for a :class:`Block`.
    """

    batches: tuple[RowBatch, ...]
    shared: bool = True


@dataclass
class BlockTally:
    """What became of solves and designs, counted: ``designs`` by status, ``errors`` of failed solves by text.

    Answers from the store are ``hits`` and take no CPU seconds. For whoever watches the run, ``noted`` has
    some columns of the NOTED slowest solves and of as many failed ones; ``judged`` has those of the designs
    that no other of the block dominates, or that are its worst in an objective.
    """

    solves: int = 0
    hits: int = 0
    failures: int = 0
    cpu_seconds: float = 0.0
    errors: Counter[str] = field(default_factory=Counter)
    designs: Counter[str] = field(default_factory=Counter)
    noted: list[LayerRow] = field(default_factory=list)
    judged: list[DesignRow] = field(default_factory=list)
    fast: float = -1.0
    """Wall seconds of the fastest of the slowest solves, once there are NOTED of these."""

    def count(self, row: LayerRow, asked: LayerSolve) -> None:
        """Count the answer to a solve."""
        self.solves += 1
        if row["cached"]:
            self.hits += 1
        else:
            self.cpu_seconds += row.get("cpu_seconds") or 0.0
            self._note(row, asked)
        if row["status"] == "failed":
            self.failures += 1
            self.errors[str(row["error"])] += 1

    def _note(self, row: LayerRow, asked: LayerSolve) -> None:
        """Keep some columns of a solve while it is among the slowest, or the first to fail."""
        failed, wall = row["status"] == "failed", row.get("wall_seconds") or 0.0
        # most solves end here, at the price of a comparison: the driver's and workers' time is counted in
        # microseconds a solve
        if (failed and self.failures >= NOTED) or (not failed and wall <= self.fast):
            return
        self.noted.append(
            {
                "layer_name": asked.layer.name,
                "solver": asked.settings.solver,
                "status": row["status"],
                "wall_seconds": wall,
                "worker": row.get("worker"),
                "error": row.get("error"),
            }
        )
        solved = sorted((one for one in self.noted if one["status"] != "failed"), key=_wall_seconds)
        if not failed and len(solved) > NOTED:
            self.noted.remove(solved[0])
            self.fast = _wall_seconds(solved[1])

    def close(self, rows: Sequence[DesignRow], objectives: Sequence[str]) -> None:
        """Count designs that have their rows."""
        self.designs.update(outcome(row) for row in rows)
        self._judge((*self.judged, *rows), objectives)

    def merge(self, other: BlockTally, objectives: Sequence[str]) -> None:
        """Count what another one has counted."""
        self.solves += other.solves
        self.hits += other.hits
        self.failures += other.failures
        self.cpu_seconds += other.cpu_seconds
        self.errors.update(other.errors)
        self.designs.update(other.designs)
        noted = [*self.noted, *other.noted]
        slowest = sorted((one for one in noted if one["status"] != "failed"), key=_wall_seconds)[-NOTED:]
        self.noted = slowest + [one for one in noted if one["status"] == "failed"][:NOTED]
        self._judge((*self.judged, *other.judged), objectives)

    def _judge(self, rows: Sequence[DesignRow], objectives: Sequence[str]) -> None:
        """Keep of the rows those that no other one dominates, and the worst."""
        complete = [row for row in rows if outcome(row) == "complete"]
        points = [tuple(number_in(row, name) for name in objectives) for row in complete]
        # the worst of each objective: the page that follows the run takes its reference point from them
        kept = {max(range(len(points)), key=lambda n: points[n][k]) for k in range(len(objectives)) if points}
        front: list[int] = []
        for n, point in enumerate(points):
            if not any(covers(points[other], point) for other in front):
                front = [other for other in front if not covers(point, points[other])] + [n]
        names = ("design_id", "axes", "status", "feasible", *objectives)
        chosen = [complete[n] for n in sorted({*front, *kept})]
        self.judged = [cast(DesignRow, {name: row.get(name) for name in names}) for row in chosen]


def _wall_seconds(row: LayerRow) -> float:
    return row["wall_seconds"] or 0.0


@dataclass(frozen=True)
class GroupPart:
    """The answers to some of a group's solves, where its others are in other blocks or the driver closes it.

    ``group`` counts within the block; ``ids`` and ``answers`` are of the solves from ``first`` on.
    ``obstacle``: why a layer provably has no mapping on the architecture; then nothing was solved.
    """

    group: int
    first: int
    ids: tuple[str, ...]
    answers: tuple[MappingSummary, ...]
    obstacle: str = ""


@dataclass(frozen=True)
class BlockAnswers:
    """What a worker made of a block: of its first ``done`` solves.

    ``batches``: the rows to store, or the names of parts that hold them already. ``unfinished``: answers to
    groups that have no rows yet: the block does not have all their solves, or time cut them off, or the block
    does not close designs. ``divided``: several workers answered, for a sub-driver.
    """

    done: int
    batches: tuple[RowBatch, ...]
    unfinished: tuple[GroupPart, ...]
    tally: BlockTally
    divided: bool = False
