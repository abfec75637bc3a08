"""The cycles that a segment saves by fetching its first data while the segment before it ends.

A segment by itself waits until its tiles have fetched their first inputs and weights. Where another segment
runs before it, that fetch begins while some tiles still compute the last steps of that segment, and others
have ended them. A *step* is a run of a leaf on a tile, or one slice of it where weights are streamed::

    tile 0   | a, last run | (idle)                   | b
    tile 1   |             | c, last run              | d
    DRAM     |   weights of b ...  weights of d ...   | rest
                                                      ^ end of the segment with a and c

Three things decide when data may come:

- *Buffers.* A tile begins to fetch when its last step of the segment before begins, if its buffer holds the
  data of that step together with the fetched data. That is asked for the weights, and for weights and inputs
  together. Otherwise the tile begins when the step has ended and has freed its bytes.
- *Data.* Weights are in DRAM, and so are the outputs of older segments. Inputs that the segment before makes
  can come when it has stored them.
- *DRAM and links.* Before the end of the segment they bring the next one's data in the cycles that the
  segment leaves idle. So both segments together take no less time than all their bytes at DRAM's rate, and no
  link carries more than it can.

Only the first fetch moves forward; two segments never compute at the same time. A layer that is mapped on the
whole chip begins and ends by itself: its fill and drain are part of its cycles (:mod:`.whole_chip.cost`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.segment.node_cost import NodeCost, runs_on_tiles
from costmodel.schedule.starts import BatchRun, NodeRuns, slowest_by_stage
from costmodel.schedule.tree.tree import Cut, Leaf

MOST_REMEMBERED = 200_000
"""How many pairs of segments are remembered before all are forgotten, which bounds the memory."""

Array = NDArray[Any]


@dataclass(frozen=True)
class Transition:
    """What one segment saves by following another.

    ``saved_cycles``: by how much its time is shorter than by itself. ``saved_leakage_pj``: the leakage of its
    tiles in these cycles. ``held_bits``: the most bits of both segments together on a tile.
    """

    saved_cycles: int = 0
    saved_leakage_pj: float = 0.0
    held_bits: int = 0

    def saved_pj(self, chip: Chip) -> float:
        """All energy that is saved (pJ), including the power that the ``chip`` takes when idle."""
        return self.saved_leakage_pj + chip.idle_pj_per_cycle * self.saved_cycles


@dataclass(frozen=True)
class MostSaved:
    """Upper bounds on what the transitions to and from a segment save, whatever its neighbours are.

    ``itself``: cycles that the segment saves by following another one. ``next_one``: cycles that any segment
    saves by following it. ``pj_per_cycle``: the energy that it saves with each cycle of its own.
    """

    itself: int
    next_one: int
    pj_per_cycle: float


NOTHING_SAVED = Transition()
"""The transition to or from a layer mapped on the whole chip."""


def saved_at_most(after: NodeCost, leaks: bool) -> Transition:
    """No transition to the segment ``after`` saves more: as if all its first data had come before it begins.

    That takes a small part of the time of a transition. ``leaks``: whether any tiles do. No bits are held, as
    those depend on both segments.
    """
    if after.whole_chip is not None:
        return NOTHING_SAVED
    saved = after.cycles - runs_on_tiles(after).first.running
    return Transition(saved, saved * leakage_pj_per_cycle(after) if leaks else 0.0)


@dataclass(frozen=True)
class _LastRuns:
    """The last runs of a segment's leaves; arrays [leaves].

    A leaf has ``runs`` runs of ``taken`` cycles each. The last one ends ``done`` cycles before the end of the
    segment. ``inputs``: bits of a run that come from DRAM during the run before it. ``outputs``: bits that go
    to DRAM during the run itself. A run in each of ``bands`` bands makes the outputs of ``samples`` samples.
    ``rows``: the index of each layer.
    """

    done: Array
    taken: Array
    runs: Array
    inputs: Array
    outputs: Array
    samples: Array
    bands: int
    rows: Mapping[str, int]

    def made_before(self, layer: str, samples: int) -> int:
        """How many cycles before the end of the segment the first ``samples`` of a layer are in DRAM."""
        row = self.rows[layer]
        needed = self.bands * -(-samples // int(self.samples[row]))
        return int(self.done[row]) + max(0, int(self.runs[row]) - needed) * int(self.taken[row])

    def dram_bits(self, since: Array) -> Array:
        """Bits [n] that the leaves move in the last ``since`` [n] cycles of the segment."""
        # How many runs of each leaf, in fractions, lie within these cycles. The inputs of a run come one run
        # earlier, and those of the very first run belong to the segment's first fetch.
        passed = (since[:, np.newaxis] - self.done) / self.taken
        leaving = np.minimum(np.maximum(passed, 0), self.runs) @ self.outputs
        coming = np.minimum(np.maximum(passed - 1, 0), self.runs - 1) @ self.inputs
        found: Array = leaving + coming
        return found


@dataclass(frozen=True)
class Ending:
    """How a segment ends. Times are cycles before the end of the segment; arrays are [tiles]."""

    begun: Array
    """When a tile begins its last step."""
    done: Array
    """When that step has ended."""
    held: Array
    """Bits in the tile's buffer during that step."""
    last: _LastRuns
    running: int
    """Cycles of the segment from its start, when its first data has come; on a chip of one tile, where that
    fetch overlaps the computation, all of its cycles."""
    dram_bits: int
    """Bits that DRAM moves in these cycles."""
    link_cycles: int
    """For how many of them the busiest link is busy."""

    @staticmethod
    def of(cost: NodeCost, chip: Chip) -> Ending:
        """Of a segment on tiles."""
        first = runs_on_tiles(cost).first
        whole = _overlaps_itself(cost, chip)
        running = cost.cycles if whole else first.running
        late = first.early * chip.dram.bits_per_cycle  # bits that come ahead and may not be there yet
        leaves = _ending(cost, 0, running, [])
        last = [one for one in leaves if one.is_last]  # of their tiles, which follow one another
        tiles = [one.leaf.tiles for one in last]
        bands = cost.node.bands if isinstance(cost.node, Cut) else 1
        samples = np.array([one.leaf.node.batch for one in leaves])
        layers = [one.leaf.node.layer for one in leaves]  # type: ignore[union-attr]
        # numbers of a later batch of each leaf, without what links carry
        ahead_bits, _, _, taken, dram_bits = np.array([one.later[:5] for one in leaves]).T
        return Ending(
            np.repeat([one.begun for one in last], tiles),
            np.repeat([one.done for one in last], tiles),
            np.add.reduce([held for one in last for held in (one.leaf.held.busy, one.leaf.held.weights)]),
            _LastRuns(
                np.array([one.done for one in leaves]),
                np.maximum(taken, 1),
                bands * (cost.node.batch // samples),
                ahead_bits,
                dram_bits - ahead_bits,
                samples,
                bands,
                dict(zip(layers, range(len(layers)), strict=True)),
            ),
            running,
            cost.dram_bits if whole else first.dram_bits - first.ahead_bits + late,
            min(running, chip.least_cycles(0, int(np.maximum.reduce(cost.links)))),
        )

    def most_saved(self, rate: int) -> int:
        """An upper bound on the cycles that a segment saves by following this one; ``rate``: bits of DRAM per
        cycle.

        No tile fetches before its last step begins, which gives the first bound. Nothing comes while the
        resource that the next segment waits for, DRAM or the busiest link, moves this segment's own bits.
        Which of the two it is depends on the next segment, so the smaller time of the two counts.
        """
        busy = min(self.dram_bits // rate, self.link_cycles)
        return min(int(self.begun.max()), max(0, self.running - busy))

    def dram_busy_bits(self, since: Array, rate: int) -> Array:
        """Bits [n] that DRAM moves for the segment in its last ``since`` [n] cycles."""
        # DRAM cannot have moved more than its rate allows in the cycles before; the rest is left for now.
        left = self.dram_bits - rate * (self.running - since)
        found: Array = np.maximum(np.minimum(self.last.dram_bits(since), rate * since), left)
        return found

    def links_busy(self, since: Array) -> Array:
        """Cycles [n] of the last ``since`` [n] ones in which the busiest link is busy.

        Its work is taken to be spread evenly over the segment.
        """
        found: Array = since * (self.link_cycles / max(1, self.running))
        return found

    def made_before(self, layer: str, samples: int) -> int:
        """How many cycles before the end of the segment the first ``samples`` of a layer are in DRAM."""
        return min(self.last.made_before(layer, samples), self.running)


class _LastRun(NamedTuple):
    """The last step of a leaf: it begins ``begun`` and ends ``done`` cycles before the end of the segment.

    Where weights are streamed the step is the last slice, else the last run. ``later``: each of its runs but
    the first. ``is_last``: no other leaf runs on its tiles after it.
    """

    leaf: NodeCost
    later: BatchRun
    begun: int
    done: int
    is_last: bool


def _ending(
    cost: NodeCost, done: int, most: int, found: list[_LastRun], is_last: bool = True
) -> list[_LastRun]:
    """Add the last steps of a node's leaves to those ``found``, from its last child to its first one.

    The node ends ``done`` cycles before the end of its segment. ``most``: the cycles of the segment, which no
    time exceeds.
    """
    if not cost.children:
        leaf, later = cost.leaf, runs_on_tiles(cost).later
        step = later.running
        if leaf is not None and leaf.gathering is not None:
            step = leaf.gathering.cycles  # an owner adds up partial sums last
        elif leaf is not None and leaf.slices > 1:
            step //= leaf.slices
        found.append(_LastRun(cost, later, min(done + step, most), min(done, most), is_last))
    elif isinstance(cost.node, Cut) and cost.node.kind == "T":
        for child in reversed(cost.children):
            _ending(child, done, most, found, is_last)
            done, is_last = done + runs_on_tiles(child).later.running, False
    else:
        taken = [runs_on_tiles(child).later.running for child in cost.children]
        slowest = slowest_by_stage(taken, cost.stages)
        for child, own, stage in zip(cost.children, taken, cost.stages, strict=True):
            _ending(child, done + sum(slowest[stage:]) - own, most, found, is_last)
    return found


@dataclass(frozen=True)
class _FirstData:
    """What a leaf needs from DRAM before its first run: its weights (``kind`` 0) or its inputs (1).

    The leaf has the tiles from ``first_tile`` to before ``end_tile``. ``bits``, ``loads``: what DRAM sends
    and links carry; data for several tiles counts once. It is in up to ``parts`` equal parts, and ``part``
    [tiles of the leaf] is the one that each tile gets. Where there are more parts than output channels, some
    are empty, and their tiles get nothing. ``producers``: layers whose outputs it is, and how many
    ``samples`` of them. ``at_once``: whether the leaf is of the first stage of every pipeline that it is in;
    without the data of such leaves the segment cannot start.
    """

    kind: int
    first_tile: int
    end_tile: int
    bits: int
    loads: Array
    part: Array
    parts: int
    producers: Sequence[str]
    samples: int
    at_once: bool

    def since(self, times: Array, before: Ending) -> tuple[Array, Array]:
        """How many cycles before the end of ``before`` some of it may begin to come, and which fraction.

        ``times`` [2, tiles]: when tiles have bytes for it. A part for several tiles is one message, which
        comes when the last of them can take it.
        """
        of_tiles = times[self.kind, self.first_tile : self.end_tile]
        each = np.full(self.parts, of_tiles.min() if self.parts == 1 else _NEVER_WAITED_FOR)
        if self.parts > 1:
            np.minimum.at(each, self.part, of_tiles)
        for producer in self.producers:
            if producer in before.last.rows:
                each = np.minimum(each, before.made_before(producer, self.samples))
        if self.parts == 1:
            return each, np.ones(1)
        each = each[each < _NEVER_WAITED_FOR]  # no tile waits for an empty part
        moments, counts = np.unique(each, return_counts=True)
        return moments, counts / max(1, len(each))


def _first_data(
    leaf: NodeCost, at_once: bool, producers: Mapping[str, Sequence[str]]
) -> Iterator[_FirstData]:
    """The weights and the inputs of a leaf, if it needs any from DRAM before it starts."""
    assert isinstance(leaf.node, Leaf)
    assert leaf.leaf is not None
    first, later = runs_on_tiles(leaf).first, runs_on_tiles(leaf).later
    tiles = leaf.first_tile, leaf.first_tile + leaf.tiles
    if weights := first.ahead_bits - later.ahead_bits:
        # tiles with other output channels get other weights
        place = leaf.leaf.placement
        part = np.arange(leaf.tiles) // place.steps[0] % place.parts[0]
        yield _FirstData(0, *tiles, weights, leaf.leaf.runs.pinned, part, place.parts[0], (), 0, at_once)
    if later.ahead_bits:
        part, reads = np.zeros(leaf.tiles, np.int64), producers[leaf.node.layer]
        yield _FirstData(1, *tiles, later.ahead_bits, later.ahead, part, 1, reads, leaf.node.batch, at_once)


@dataclass(frozen=True)
class Beginning:
    """How a segment begins: the data from DRAM that the leaves which run first on their tiles need.

    The first index of ``need`` and ``without`` is 0 for weights and 1 for inputs.
    """

    need: Array
    """[2, tiles]: bits in a tile's buffer: of pinned weights, and of these together with the inputs."""
    without: Array
    """[2, tiles]: whether a tile gets no weights, or no inputs."""
    data: tuple[_FirstData, ...]
    cycles: int
    """Of the segment by itself."""
    runs: NodeRuns
    """Of the segment by itself."""
    overlaps_itself: bool
    """See :func:`_overlaps_itself`."""
    leakage_pj: float
    """Of the segment's tiles, per cycle."""

    @staticmethod
    def of(cost: NodeCost, chip: Chip, producers: Mapping[str, Sequence[str]]) -> Beginning:
        """Of a segment on tiles; ``producers``: whom each layer of the network reads."""
        starting = _starting(cost, True, [])
        leaves = [leaf for leaf, _ in starting]
        weights, inputs = sum(leaf.held.weights for leaf in leaves), sum(leaf.held.ahead for leaf in leaves)
        data = [one for leaf, at_once in starting for one in _first_data(leaf, at_once, producers)]
        return Beginning(
            np.stack((weights, weights + inputs)),
            np.stack((weights, inputs)) == 0,
            tuple(data),
            cost.cycles,
            runs_on_tiles(cost),
            _overlaps_itself(cost, chip),
            leakage_pj_per_cycle(cost),
        )

    def saved(self, waiting: int, first_stage: int, chip: Chip) -> int:
        """Cycles saved by the segment if its fetch goes on for ``waiting`` cycles after the one before.

        ``first_stage``: for how many of them there is still data to come without which it cannot start.
        """
        first = self.runs.first
        if not self.overlaps_itself:
            return max(0, first.waited(chip) - max(waiting - first.early, first_stage))
        # The fetch overlaps the computation already, so only the time is saved for which DRAM holds it up.
        # The bits that come ahead are rounded down to whole cycles of DRAM, so that no more is saved than can
        # be.
        rate = chip.dram.bits_per_cycle
        ahead = max(0, first.ahead_bits - waiting * rate) // rate * rate
        rest = chip.least_cycles(first.dram_bits - ahead, 0)
        return max(0, self.cycles - max(first.running, rest, first.link_cycles))


def _overlaps_itself(cost: NodeCost, chip: Chip) -> bool:
    """Whether the first fetch of a segment overlaps the computation that needs it.

    That is so only for a single layer on a chip of one tile. Such a chip is a stack of levels and costs what
    a mapping on that stack costs, to which the first words arrive without a wait.
    """
    return chip.tiles == 1 and not cost.children


def _starting(
    cost: NodeCost, at_once: bool, found: list[tuple[NodeCost, bool]]
) -> list[tuple[NodeCost, bool]]:
    """Add the leaves that run first on their tiles to those ``found``, and whether they are of the first
    stage of every pipeline.
    """
    if not cost.children:
        found.append((cost, at_once))
    elif isinstance(cost.node, Cut) and cost.node.kind == "T":
        _starting(cost.children[0], at_once, found)
    else:
        for child, stage in zip(cost.children, cost.stages, strict=True):
            _starting(child, at_once and stage == 0, found)
    return found


def leakage_pj_per_cycle(cost: NodeCost) -> float:
    """What the tiles of a segment leak per cycle (pJ), in the mean over its time.

    Tiles belong to one child of a T cut after the other, for times in proportion to the children's cycles.
    """
    if cost.leaf is not None:
        return cost.leaf.leakage_pj_per_cycle
    each = [leakage_pj_per_cycle(child) for child in cost.children]
    if isinstance(cost.node, Cut) and cost.node.kind == "T":
        total = sum(child.cycles for child in cost.children)
        return sum(rate * child.cycles / total for rate, child in zip(each, cost.children, strict=True))
    return sum(each)


def transition(before: Ending, after: Beginning, chip: Chip, again: bool = False) -> Transition:
    """What the segment ``after`` saves by fetching while ``before`` ends.

    ``again``: both are the same segment, in two rounds. A tile holds a message once at a time, so it frees
    the weights and inputs of one round before it fetches those of the next: nothing fits early, and every
    tile fetches when its last step has ended.
    """
    together = before.held + after.need
    fits = together <= (0 if again else chip.tile.buffer.size_bits)
    held = int(np.max(together, where=fits, initial=0))
    if not min(after.saved(0, 0, chip), before.most_saved(chip.dram.bits_per_cycle)):
        return Transition(0, 0.0, held)
    # Times count back from the end, so a later time is a smaller number.
    times = np.where(fits, before.begun, before.done)
    times[after.without] = _NEVER_WAITED_FOR
    since = [one.since(times, before) for one in after.data]
    waiting = first_stage = _waiting(before, list(zip(after.data, since, strict=True)), chip)
    if after.runs.first.early:
        asked = [(one, when) for one, when in zip(after.data, since, strict=True) if one.at_once]
        first_stage = _waiting(before, asked, chip)
    saved = after.saved(waiting, first_stage, chip)
    return Transition(saved, saved * after.leakage_pj, held)


def fitting_early(
    before: NodeCost, after: NodeCost, chip: Chip, producers: Mapping[str, Sequence[str]]
) -> Array:
    """[2, tiles]: whether a tile can fetch ``after``'s weights, and all its first data, with its last step.

    ``producers``: whom each layer of the network reads. Nothing fits beside a layer on the whole chip, nor
    beside the same segment in the round before (see ``again`` of :func:`transition`).
    """
    if before is after or before.whole_chip is not None or after.whole_chip is not None:
        return np.zeros((2, chip.tiles), bool)
    found: Array = (
        Ending.of(before, chip).held + Beginning.of(after, chip, producers).need <= chip.tile.buffer.size_bits
    )
    return found


_NEVER_WAITED_FOR = np.iinfo(np.int64).max
"""The time for a tile that needs no such data: earlier than all others, as times count back."""


def _waiting(before: Ending, asked: Sequence[tuple[_FirstData, tuple[Array, Array]]], chip: Chip) -> int:
    """Cycles from the end of ``before`` until some first data of the next segment, which is ``asked`` for and
    comes before all else, has come.

    With the data: what :meth:`_FirstData.since` says of it.

    The data comes as fast as DRAM and the busiest link have time for it. From any cycle t on, DRAM has to
    move all data that may not come earlier than t, and the bits of ``before`` from t on. So the data has not
    come before t plus the time for both; links likewise. The latest of these ends counts, and t need only be
    one of these cycles.
    """
    if not asked:
        return 0
    rate = chip.dram.bits_per_cycle
    times, part = (np.concatenate([when[index] for _, when in asked]) for index in (0, 1))
    moments = [len(when[0]) for _, when in asked]
    order = times.argsort()
    times = times[order]
    sizes = np.repeat([one.bits for one, _ in asked], moments) * part
    loads = np.repeat([one.loads for one, _ in asked], moments, axis=0) * part[:, None]
    taken = (sizes[order].cumsum() + before.dram_busy_bits(times, rate)) / rate
    on_busiest = loads[order].cumsum(axis=0).max(axis=1) / chip.link_port_bits_per_cycle
    on_links = on_busiest + before.links_busy(times)
    return max(0, ceil(float((np.maximum(taken, on_links) - times).max(initial=0))))


class KnownTransitions:
    """Transitions between segments of one network and chip; each is counted once.

    ``producers``: whom each layer of the network reads. Segments are known by the ids of their costs. A cost
    is kept alive with what was counted of it, so no id can come to mean another cost.
    """

    def __init__(self, chip: Chip, producers: Mapping[str, Sequence[str]]) -> None:
        self._chip, self._producers = chip, producers
        self._ends: dict[int, tuple[NodeCost, Ending, Beginning]] = {}
        self._pairs: dict[tuple[int, int], Transition] = {}

    def between(self, before: NodeCost, after: NodeCost) -> Transition:
        """What ``after`` saves by following ``before``."""
        if before.whole_chip is not None or after.whole_chip is not None:
            return NOTHING_SAVED
        key = id(before), id(after)
        found = self._pairs.get(key)
        if found is None:
            if len(self._pairs) >= MOST_REMEMBERED:
                self._forget()
            (ending, _), (_, beginning) = self._of(before), self._of(after)
            found = self._pairs[key] = transition(ending, beginning, self._chip, before is after)
        return found

    def most_saved(self, cost: NodeCost) -> MostSaved:
        """Upper bounds on what the transitions to and from a segment save, whatever its neighbours are."""
        if cost.whole_chip is not None:
            return MostSaved(0, 0, 0.0)
        ending, beginning = self._of(cost)
        chip = self._chip
        pj_per_cycle = beginning.leakage_pj + chip.idle_pj_per_cycle
        return MostSaved(
            beginning.saved(0, 0, chip), ending.most_saved(chip.dram.bits_per_cycle), pj_per_cycle
        )

    def _of(self, cost: NodeCost) -> tuple[Ending, Beginning]:
        found = self._ends.get(id(cost))
        if found is None:
            if len(self._ends) >= MOST_REMEMBERED // 4:
                self._forget()
            ends = Ending.of(cost, self._chip), Beginning.of(cost, self._chip, self._producers)
            found = self._ends[id(cost)] = (cost, *ends)
        return found[1:]

    def _forget(self) -> None:
        """Forget pairs together with the ends: without these the ids in pairs may come to mean others."""
        self._pairs.clear()
        self._ends.clear()
