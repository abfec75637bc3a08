"""What the next segment fetches while the one before it ends, and the cycles that this saves.

Before a segment runs, its tiles fetch their first inputs and weights. Where another segment runs before it,
that fetch begins while tiles still compute the other's last steps, or have ended them::

    tile 0   | a, last run | (idle)                   | b
    tile 1   |             | c, last run              | d
    DRAM     |   weights of b ...  weights of d ...   | rest
                                                      ^ end of the segment with a and c

- *Buffers.* A tile begins to fetch with its last step of the segment before if its buffer holds what that
  step needs together with what is fetched: the weights, or these and the inputs. Else it begins when the step
  has ended, and has freed all.
- *Data.* Weights and what older segments made are in DRAM. Inputs that the segment before makes wait until it
  has made them.
- *DRAM and links* do one thing at a time. What the fetch takes before the segment's end is what the segment
  leaves idle from then on when data may be fetched. So both segments together take no less than all their
  bytes at DRAM's rate, and no link carries more than it can.

Only the first fetch moves; two segments never compute at a time. A layer that is mapped on the whole chip
begins and ends by itself: its fill and drain are part of its cycles (:mod:`.whole_chip.cost`).
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
from costmodel.schedule.starts import NodeRuns, slowest_by_stage
from costmodel.schedule.tree.tree import Cut

MOST_REMEMBERED = 200_000
"""How many pairs of segments are remembered before all are forgotten, which bounds the memory."""

Array = NDArray[Any]


@dataclass(frozen=True)
class Transition:
    """From one segment to the next.

    ``saved_cycles``: what the next one takes less than by itself. ``saved_leakage_pj``: what its tiles leak
    less. ``held_bits``: the most that a tile holds of both segments together.
    """

    saved_cycles: int = 0
    saved_leakage_pj: float = 0.0
    held_bits: int = 0

    def saved_pj(self, chip: Chip) -> float:
        """All energy that is saved, with what the ``chip`` takes when idle."""
        return self.saved_leakage_pj + chip.idle_pj_per_cycle * self.saved_cycles


@dataclass(frozen=True)
class MostSaved:
    """What transitions of one segment save at most.

    ``itself``: cycles, by what is before it. ``next_one``: cycles that it lets the next segment save.
    ``pj_per_cycle``: the energy that goes with each of its own cycles.
    """

    itself: int
    next_one: int
    pj_per_cycle: float


NOTHING_SAVED = Transition()
"""From or to a layer mapped on the whole chip."""


@dataclass(frozen=True)
class _LastRuns:
    """The leaves of a segment in its last cycles; arrays [leaves] unless said otherwise.

    Times count cycles back from the segment's end. ``done``: when the last run ends. ``taken``: cycles of a
    run, of ``runs`` in all. ``inputs``, ``outputs``: bits of a run that come from DRAM during the run before
    it, and go there during the run.
    """

    done: Array
    taken: Array
    runs: Array
    inputs: Array
    outputs: Array

    def dram_bits(self, since: Array) -> Array:
        """What the leaves move in the last cycles, for each number of cycles in ``since``."""
        passed = (since[:, np.newaxis] - self.done) / self.taken
        leaving = np.minimum(np.maximum(passed, 0), self.runs) @ self.outputs
        coming = np.minimum(np.maximum(passed - 1, 0), self.runs - 1) @ self.inputs
        found: Array = leaving + coming
        return found


class MadeOutputs(NamedTuple):
    """The runs of a layer, by which its outputs come to DRAM.

    ``done``: when the last of its ``runs`` ends, in cycles before the segment's end. Each takes ``taken``
    cycles. ``bands`` runs in a row, one for each band of rows, make the outputs of ``samples`` samples.
    """

    done: int
    taken: int
    runs: int
    bands: int
    samples: int


@dataclass(frozen=True)
class Ending:
    """How a segment ends. Times are cycles before the segment's end; arrays are [tiles]."""

    begun: Array
    """When a tile begins its last step."""
    done: Array
    """When that step has ended."""
    held: Array
    """Bits in the tile's buffer during that step."""
    made: Mapping[str, MadeOutputs]
    """By layer, when which of its outputs are in DRAM."""
    last: _LastRuns
    running: int
    """Cycles of the segment, without its first fetch unless that overlaps the computation that needs it."""
    dram_bits: int
    """What DRAM moves in these cycles."""
    link_cycles: int
    """For how many of them the busiest link is busy."""

    @staticmethod
    def of(cost: NodeCost, chip: Chip) -> Ending:
        """Of a segment on tiles."""
        first = runs_on_tiles(cost).first
        whole = _overlaps_itself(cost, chip)
        running = cost.cycles if whole else first.running
        leaves = list(_ending(cost, 0, running))
        last = [one for one in leaves if one.is_last]  # of their tiles, which follow one another
        tiles = [one.leaf.tiles for one in last]
        later = [runs_on_tiles(one.leaf).later for one in leaves]
        taken = [max(1, one.running) for one in later]
        bands = cost.node.bands if isinstance(cost.node, Cut) else 1
        runs = [bands * (cost.node.batch // one.leaf.node.batch) for one in leaves]
        made = {
            one.leaf.node.layer: MadeOutputs(one.done, cycles, times, bands, one.leaf.node.batch)  # type: ignore[union-attr]
            for one, cycles, times in zip(leaves, taken, runs, strict=True)
        }
        return Ending(
            np.repeat([one.begun for one in last], tiles),
            np.repeat([one.done for one in last], tiles),
            np.add.reduce([held for one in last for held in (one.leaf.held.busy, one.leaf.held.weights)]),
            made,
            _LastRuns(
                np.array([one.done for one in leaves]),
                np.array(taken),
                np.array(runs),
                np.array([one.ahead_bits for one in later]),
                np.array([one.dram_bits - one.ahead_bits for one in later]),
            ),
            running,
            cost.dram_bits if whole else first.dram_bits - first.ahead_bits,
            min(running, chip.least_cycles(0, int(cost.links.max()))),
        )

    def most_saved(self, rate: int) -> int:
        """Cycles that no segment after this one can save more of.

        No tile fetches before it begins its last step, and nothing comes while DRAM, or the busiest link,
        moves the segment's own bits; whichever of the two the next one waits for.
        """
        busy = min(self.dram_bits // rate, self.link_cycles)
        return min(int(self.begun.max()), max(0, self.running - busy))

    def dram_busy_bits(self, since: Array, rate: int) -> Array:
        """What DRAM moves for the segment in its last cycles, for each number of cycles in ``since``.

        No less than what it cannot have moved before.
        """
        left = self.dram_bits - rate * (self.running - since)
        found: Array = np.maximum(np.minimum(self.last.dram_bits(since), rate * since), left)
        return found

    def links_busy(self, since: Array) -> Array:
        """For how many of its last cycles the busiest link is busy, evenly spread over the segment."""
        found: Array = since * (self.link_cycles / max(1, self.running))
        return found

    def made_before(self, layer: str, samples: int) -> int:
        """How many cycles before the end the first ``samples`` of one of its layers are in DRAM."""
        made = self.made[layer]
        needed = made.bands * -(-samples // made.samples)
        return min(made.done + max(0, made.runs - needed) * made.taken, self.running)


class _LastRun(NamedTuple):
    """The last run of a leaf: the cycles before the segment's end in which it begins and ends.

    ``is_last``: whether no other leaf runs on its tiles after it. Where weights are streamed it is the last
    slice that begins then.
    """

    leaf: NodeCost
    begun: int
    done: int
    is_last: bool


def _ending(cost: NodeCost, done: int, most: int, is_last: bool = True) -> Iterator[_LastRun]:
    """The leaves of a node that is ``done`` so many cycles before its segment's end, which has ``most``."""
    if not cost.children:
        step = runs_on_tiles(cost).later.running // max(1, cost.leaf.slices if cost.leaf else 1)
        if cost.leaf is not None and cost.leaf.gathering is not None:
            step = cost.leaf.gathering.cycles  # what an owner computes last
        yield _LastRun(cost, min(done + step, most), min(done, most), is_last)
        return
    taken = [runs_on_tiles(child).later.running for child in cost.children]
    if isinstance(cost.node, Cut) and cost.node.kind == "T":
        for child, own in zip(reversed(cost.children), reversed(taken), strict=True):
            yield from _ending(child, done, most, is_last)
            done, is_last = done + own, False
        return
    slowest = slowest_by_stage(taken, cost.stages)
    for child, own, stage in zip(cost.children, taken, cost.stages, strict=True):
        yield from _ending(child, done + sum(slowest[stage:]) - own, most, is_last)


@dataclass(frozen=True)
class Beginning:
    """How a segment begins: what the leaves that run first on their tiles need from DRAM.

    The first index of ``need``, ``without`` and ``needed`` is 0 for weights and 1 for inputs. ``sizes`` and
    ``links`` have an entry for each True of ``needed``, in its order (weights of all leaves, then inputs).
    """

    need: Array
    """[2, tiles]: bits in buffers, of the weights that stay, and of these together with the inputs."""
    without: Array
    """[2, tiles]: whether a tile gets none."""
    first_tiles: Array
    """[leaves]: the first tile of each leaf, whose tiles follow one another."""
    needed: Array
    """[2, leaves]: whether a leaf needs any."""
    sizes: Array
    """Bits, each once."""
    links: Array
    """Cycles of the busiest link."""
    producers: tuple[tuple[int, str, int], ...]
    """Leaf (its number), the layer whose outputs it reads, and of how many samples."""
    cycles: int
    """Of the segment by itself."""
    runs: NodeRuns
    """Of the segment by itself."""
    overlaps_itself: bool
    """See :func:`_overlaps_itself`."""
    leakage_pj: float
    """Of the segment's tiles, in a cycle."""

    @staticmethod
    def of(cost: NodeCost, chip: Chip, producers: Mapping[str, Sequence[str]]) -> Beginning:
        """Of a segment on tiles; ``producers``: whom each layer of the network reads."""
        leaves = list(_starting(cost))
        weights, inputs = sum(leaf.held.weights for leaf in leaves), sum(leaf.held.ahead for leaf in leaves)
        runs = [runs_on_tiles(leaf) for leaf in leaves]
        moved = [(one.first.ahead_bits - one.later.ahead_bits, one.later.ahead_bits) for one in runs]
        sizes = np.array(moved).T
        needed = sizes > 0
        return Beginning(
            np.stack((weights, weights + inputs)),
            np.stack((weights, inputs)) == 0,
            np.array([leaf.first_tile for leaf in leaves]),
            needed,
            sizes[needed],
            np.array([(one.first.link_cycles, one.later.link_cycles) for one in runs]).T[needed],
            tuple(
                (number, producer, leaf.node.batch)
                for number, leaf in enumerate(leaves)
                for producer in producers[leaf.node.layer]  # type: ignore[union-attr]
            ),
            cost.cycles,
            runs_on_tiles(cost),
            _overlaps_itself(cost, chip),
            leakage_pj_per_cycle(cost),
        )

    def saved(self, waiting: int, chip: Chip) -> int:
        """Cycles that the segment takes less where its fetch takes ``waiting`` cycles after the last one."""
        first = self.runs.first
        if not self.overlaps_itself:
            return max(0, first.fetched(chip) - waiting)
        # By itself its fetch overlaps its computation. So only what DRAM holds up is saved.
        rate = chip.dram.bits_per_cycle
        ahead = max(0, first.ahead_bits - waiting * rate) // rate * rate
        rest = chip.least_cycles(first.dram_bits - ahead, 0)
        return max(0, self.cycles - max(first.running, rest, first.link_cycles))


def _overlaps_itself(cost: NodeCost, chip: Chip) -> bool:
    """Whether the first fetch of a segment overlaps the computation that needs it.

    Only on a chip of one tile, which is its stack of levels and costs what that does: to a mapping the first
    words arrive without a wait.
    """
    return chip.tiles == 1 and not cost.children


def _starting(cost: NodeCost) -> Iterator[NodeCost]:
    """The leaves that run first on their tiles."""
    if not cost.children:
        yield cost
    elif isinstance(cost.node, Cut) and cost.node.kind == "T":
        yield from _starting(cost.children[0])
    else:
        for child in cost.children:
            yield from _starting(child)


def leakage_pj_per_cycle(cost: NodeCost) -> float:
    """What the tiles of a segment leak in a cycle, as they belong to its leaves over all of its time."""
    if cost.leaf is not None:
        return cost.leaf.leakage_pj_per_cycle
    each = [leakage_pj_per_cycle(child) for child in cost.children]
    if isinstance(cost.node, Cut) and cost.node.kind == "T":
        total = sum(child.cycles for child in cost.children)
        return sum(rate * child.cycles / total for rate, child in zip(each, cost.children, strict=True))
    return sum(each)


def transition(before: Ending, after: Beginning, chip: Chip, again: bool = False) -> Transition:
    """What it saves that ``after`` fetches while ``before`` ends.

    ``again``: they are the same segment. A tile holds its weights and inputs once, so it frees them first.
    """
    together = before.held + after.need
    fits = together <= (0 if again else chip.tile.buffer.size_bits)
    held = int(np.max(together, where=fits, initial=0))
    if not min(after.saved(0, chip), before.most_saved(chip.dram.bits_per_cycle)):
        return Transition(0, 0.0, held)
    # A message to several tiles is fetched when the last of them can take it.
    times = np.where(fits, before.begun, before.done)
    times[after.without] = _NEVER_WAITED_FOR
    since = np.minimum.reduceat(times, after.first_tiles, axis=1)
    for leaf, producer, samples in after.producers:
        if producer in before.made:
            since[1, leaf] = min(since[1, leaf], before.made_before(producer, samples))
    saved = after.saved(_waiting(before, since, after, chip), chip)
    return Transition(saved, saved * after.leakage_pj, held)


def fitting_early(
    before: NodeCost, after: NodeCost, chip: Chip, producers: Mapping[str, Sequence[str]]
) -> Array:
    """[2, tiles]: whether a tile can fetch the weights, and all first data, of a segment with its last step.

    ``producers``: whom each layer of the network reads. Nothing fits beside a layer on the whole chip.
    """
    # of a segment after itself: a tile holds its own weights and inputs once
    if before is after or before.whole_chip is not None or after.whole_chip is not None:
        return np.zeros((2, chip.tiles), bool)
    found: Array = (
        Ending.of(before, chip).held + Beginning.of(after, chip, producers).need <= chip.tile.buffer.size_bits
    )
    return found


_NEVER_WAITED_FOR = np.iinfo(np.int64).max
"""A tile that needs no such data."""


def _waiting(before: Ending, since: Array, after: Beginning, chip: Chip) -> int:
    """Cycles after the end of ``before`` until all data has come that may come ``since`` [2, leaves].

    It comes as fast as DRAM and the busiest link have time for it. What may come no earlier than some cycle,
    and what DRAM moves for the segment before from then on, takes DRAM that long; and of all such times the
    latest end counts.
    """
    times, rate = since[after.needed], chip.dram.bits_per_cycle
    order = times.argsort()
    times = times[order]
    taken = (after.sizes[order].cumsum() + before.dram_busy_bits(times, rate)) / rate
    on_links = after.links[order].cumsum() + before.links_busy(times)
    return max(0, ceil(float((np.maximum(taken, on_links) - times).max(initial=0))))


class KnownTransitions:
    """Transitions between segments of one network and chip; each is counted once.

    ``producers``: whom each layer of the network reads. Segments are known by identity. They are remembered
    with what was counted of them, so no id can come to mean another.
    """

    def __init__(self, chip: Chip, producers: Mapping[str, Sequence[str]]) -> None:
        self._chip, self._producers = chip, producers
        self._ends: dict[int, tuple[NodeCost, Ending, Beginning]] = {}
        self._pairs: dict[tuple[int, int], Transition] = {}

    def between(self, before: NodeCost, after: NodeCost) -> Transition:
        """What follows from running one segment after another one."""
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
        """What a segment and the one after it save at most, whatever is before and after."""
        if cost.whole_chip is not None:
            return MostSaved(0, 0, 0.0)
        ending, beginning = self._of(cost)
        chip = self._chip
        pj_per_cycle = beginning.leakage_pj + chip.idle_pj_per_cycle
        return MostSaved(beginning.saved(0, chip), ending.most_saved(chip.dram.bits_per_cycle), pj_per_cycle)

    def _of(self, cost: NodeCost) -> tuple[Ending, Beginning]:
        found = self._ends.get(id(cost))
        if found is None:
            if len(self._ends) >= MOST_REMEMBERED // 4:
                self._forget()
            ends = Ending.of(cost, self._chip), Beginning.of(cost, self._chip, self._producers)
            found = self._ends[id(cost)] = (cost, *ends)
        return found[1:]

    def _forget(self) -> None:
        """Forget pairs with what keeps their segments alive, as an id may then come to mean another one."""
        self._pairs.clear()
        self._ends.clear()
