"""Layers of a group as stages of a pipeline, each on a part of the array: reasons against it, turns, cost.

All stages share all of their loops, and nobody else shares any of them. In every turn of the pipeline stage i
works on the iteration i before that of the first stage (:mod:`costmodel.mapping.fused.pipeline`).

- **Counts** of a stage are those of ``evaluate`` for its nest on the architecture whose fan-out is its part,
  less what is held, as for layers that run by themselves. What a part of the array has from one turn to the
  next is fetched again, unless it is hoisted.
- **A turn** lasts as long as the slowest stage in it by itself, and as long as any level that stages share
  needs for the words of all of them. The next turn begins when all are done.
- **Capacity.** All stages run at once, so on levels that they share their own tiles add up, each stage's for
  the largest of its turns, and a tile between stages is held once more for every stage that it passes on.
- **Leakage.** Every instance that a stage uses leaks from the first turn to the last, and a level that
  stages share leaks once. What nobody uses does not leak, as in ``evaluate``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil

import numpy as np

from costmodel.mapping.counts.latency import bandwidth_cycles
from costmodel.mapping.counts.traffic import Counts
from costmodel.mapping.fused.layers.array_parts import array_size, divided_level
from costmodel.mapping.fused.layers.group import LayerGroup
from costmodel.mapping.fused.layers.sliding import rows_made
from costmodel.mapping.fused.layers.turns import LayerTurns
from costmodel.mapping.fused.mapping import FusedMapping
from costmodel.mapping.fused.pipeline import SIDES, Pipeline

Working = tuple[int | None, ...]
"""Of every stage the kind of the turn that it does, by number; None: it has nothing to do."""


def pipeline_violations(group: LayerGroup, shared: FusedMapping) -> Iterator[str]:
    """The reasons against the pipelines of a tree whose loops are right."""
    names = [layer.name for layer in group.layers]
    taken = 0
    for pipeline in shared.pipelines:
        stages = pipeline.stages
        if len(stages) < 2 or stages.start < taken or stages.stop > len(names):
            yield (
                f"a pipeline of the layers {stages.start} to {stages.stop - 1}: it needs two or more of the "
                f"{len(names)} layers, each in one pipeline, and pipelines stand in the order of the layers"
            )
            return
        taken = stages.stop
        called = f"the pipeline of {', '.join(names[stages.start : stages.stop])}"
        if pipeline.axis not in SIDES:
            yield f"{called} divides the axis {pipeline.axis}, a fan-out has {' and '.join(SIDES)}"
            continue
        if divided_level(group.architecture) is None:
            yield f"{called}: {group.architecture.name} has no fan-out inside the chip to divide"
            continue
        size, sum_ = array_size(group.architecture, pipeline.axis), sum(pipeline.parts)
        if min(pipeline.parts) < 1 or sum_ > size:
            parts = " + ".join(map(str, pipeline.parts))
            yield f"{called} has {parts} {pipeline.side}, one or more each and {size} together are there"
        yield from _stage_loops(shared, pipeline, called)


def _stage_loops(shared: FusedMapping, pipeline: Pipeline, called: str) -> Iterator[str]:
    """Stages share all of their loops, at least one, and share none with other layers."""
    stages = pipeline.stages
    path = shared.paths[stages.start]
    if not path:
        yield f"{called} shares no loop, so there is one iteration and nothing runs at the same time"
        return
    inside, around = shared.prefix[stages.start : stages.stop - 1], (0, *shared.prefix, 0)
    if any(depth < len(path) for depth in inside) or any(shared.paths[one] != path for one in stages):
        yield f"{called}: all stages share all loops above them, and these do not"
    if around[stages.start] or around[stages.stop]:
        yield f"{called} shares loops with a layer that is no stage of it"


@dataclass(frozen=True)
class PipelineTurns:
    """The turns of one pipeline, whose stages are ``stages``, in order."""

    stages: tuple[LayerTurns, ...]

    @cached_property
    def iterations(self) -> int:
        """How many iterations the shared loops have."""
        group, first = self.stages[0].group, self.stages[0]
        left, found = dict(group.loop_sizes), 1
        for name, step in first.path:
            found *= left[name] // step
            left[name] = step
        return found

    @property
    def turns(self) -> int:
        """Turns until the last stage is done."""
        return self.iterations + len(self.stages) - 1

    @cached_property
    def working(self) -> dict[Working, int]:
        """What the stages do in a turn, and in how many turns they do that."""
        count, stages = self.iterations, len(self.stages)
        if all(len(one.kinds) == 1 and one.turns == count for one in self.stages):
            return dict(self._uniform(count, stages))
        # a row a stage: 0 for nothing to do, else the number of the kind and 1
        does = np.zeros((stages, self.turns), dtype=np.int64)
        for number, one in enumerate(self.stages):
            does[number, number : number + count] = _kinds_in_order(one) + 1
        base = max(len(one.kinds) for one in self.stages) + 1
        codes, times = np.unique(base ** np.arange(stages) @ does, return_counts=True)
        found: dict[Working, int] = {}
        for code, often in zip(codes.tolist(), times.tolist(), strict=True):
            digits = [code // base**number % base for number in range(stages)]
            found[tuple(digit - 1 if digit else None for digit in digits)] = often
        return found

    def _uniform(self, count: int, stages: int) -> Counter[Working]:
        """Where every stage does the same in all iterations: fill, all at work (if ever), and drain."""
        found: Counter[Working] = Counter()
        for turn in {*range(min(stages, self.turns)), *range(max(0, self.turns - stages), self.turns)}:
            found[self._at(turn, count)] += 1
        if (rest := self.turns - found.total()) > 0:
            found[(0,) * stages] += rest
        return found

    def _at(self, turn: int, count: int) -> Working:
        return tuple(0 if 0 <= turn - stage < count else None for stage in range(len(self.stages)))


def _kinds_in_order(one: LayerTurns) -> np.ndarray:
    """The kind of a layer's turn in each iteration of its shared loops; -1 where it has nothing to do."""
    # Of each loop the pieces in their order: how long, and whether sums go on from the one before. The
    # innermost loop runs fastest, so codes of outer loops are spread over inner ones.
    codes = np.zeros(1, dtype=np.int64)
    meaning: list[tuple[tuple[int, ...], bool]] = [((), False)]
    for depth, cut in enumerate(one.cuts):
        sums = cut.dim not in one.layer.output.dims
        pieces = [(length, sums and number > 0) for number, length in enumerate(_lengths(one, depth))]
        different = sorted(set(pieces))
        inner = np.array([different.index(piece) for piece in pieces], dtype=np.int64)
        codes = (codes[:, None] * len(different) + inner[None, :]).ravel()
        meaning = [
            ((*lengths, length), begun or goes_on)
            for lengths, begun in meaning
            for length, goes_on in different
        ]
    return np.array([_kind(one, lengths, begun) for lengths, begun in meaning], dtype=np.int64)[codes]


def _kind(one: LayerTurns, lengths: Sequence[int], begun: bool) -> int:
    if not all(lengths):
        return -1
    sizes = one.layer.sizes | {cut.dim: length for cut, length in zip(one.cuts, lengths, strict=True)}
    return next(
        number
        for number, kind in enumerate(one.kinds)
        if kind.part.sizes == sizes and kind.part.output.begun == (begun or one.layer.output.begun)
    )


def _lengths(one: LayerTurns, depth: int) -> list[int]:
    """What each iteration of shared loop ``depth`` leaves a layer of the dim that it cuts, in order."""
    name, step = one.path[depth]
    if name in one.group.dim_of[one.position]:
        cut = one.cuts[depth]
        return [cut.longest] * cut.times
    last = one.shared.last_below(one.position, depth)
    made = rows_made(one.group, one.position, name, step, last, one.shared.recompute)
    assert made is not None, "the checker refuses loops that slide along nothing"
    return [end - begin for begin, end in made]


@dataclass(frozen=True)
class StageWork:
    """What a stage asks for in one turn of a kind: ``cycles`` on its part by itself; ``counts`` and
    ``instances`` in use, by level, innermost first."""

    cycles: int
    counts: Sequence[Mapping[str, Counts]]
    instances: Sequence[int]


@dataclass(frozen=True)
class PipelineCost:
    """What a pipeline costs beyond the energy of its stages' words and MACs.

    ``stages``: their numbers in the group. ``cycles`` of all ``turns``, and the same by cause. ``leakage_pj``
    by level, innermost first.
    """

    stages: range
    turns: int
    cycles: int
    leakage_pj: tuple[float, ...]
    cycles_by_cause: dict[str, int]


HOISTED = "words of hoisted tiles"
"""What binds cycles in which a layer, or all stages, wait for words that enter or leave hoisted tiles between
turns."""


def pipeline_cost(
    stages: Sequence[LayerTurns],
    working: Mapping[Working, int],
    works: Sequence[Sequence[StageWork]],
    hoisted: Mapping[int, Counts],
) -> PipelineCost:
    """The cost of a pipeline whose stages ask for ``works``, by kind, and work as ``working`` says.

    ``hoisted``: by level, the words that enter and leave hoisted tiles of all stages between turns.
    """
    group = stages[0].group
    levels = group.architecture.levels
    divided = divided_level(group.architecture)
    assert divided is not None, "the checker refuses pipelines where there is nothing to divide"
    causes: Counter[str] = Counter()

    def turn(at_work: Working) -> tuple[int, str]:
        busy = [(stages[stage], works[stage][kind]) for stage, kind in enumerate(at_work) if kind is not None]
        if not busy:
            return 0, ""
        slowest, work = max(busy, key=lambda one: one[1].cycles)
        cycles, cause = work.cycles, f"the stage of {slowest.layer.name}"
        if len(busy) > 1:  # by itself a stage has waited for these levels already
            for number in range(divided, len(levels)):
                moved = [counts for _, one in busy for counts in one.counts[number].values()]
                needed = ceil(bandwidth_cycles(levels[number], moved))
                if needed > cycles:
                    cycles, cause = needed, f"{levels[number].name} for all stages"
        return cycles, cause

    for at_work, often in working.items():
        cycles, cause = turn(at_work)
        if cycles:
            causes[cause] += often * cycles
    total = causes.total()
    for number, extra in hoisted.items():
        # hoisted tiles are filled while turns run, as for layers that run by themselves
        needed = ceil(bandwidth_cycles(levels[number], [*_all_words(stages, works, number), extra]))
        if needed > total:
            causes[HOISTED] += needed - total
            total = needed
    leaking = [
        1 if number >= divided else sum(max(work.instances[number] for work in kinds) for kinds in works)
        for number in range(len(levels))
    ]
    leakage = tuple(
        level.leakage_pj_per_cycle * used * total for level, used in zip(levels, leaking, strict=True)
    )
    numbers = range(stages[0].position, stages[-1].position + 1)
    return PipelineCost(numbers, sum(working.values()), total, leakage, dict(causes))


def _all_words(
    stages: Sequence[LayerTurns], works: Sequence[Sequence[StageWork]], level: int
) -> Iterator[Counts]:
    """What all turns of all stages ask of a level."""
    for one, kinds in zip(stages, works, strict=True):
        for kind, work in zip(one.kinds, kinds, strict=True):
            for counts in work.counts[level].values():
                reads, fills, updates = counts.reads, counts.fills, counts.updates
                yield Counts(kind.turns * reads, kind.turns * fills, kind.turns * updates, 0, 0)
