"""Pipelines run turn by turn: who works on what, what lives meanwhile, and how long that takes.

An independent count. The walk of ``walked_turns.py`` says which elements each layer makes and reads in every
iteration. Here the iterations of stage i are played in turns that begin i turns later: what a stage reads
has to be made in an earlier turn, and what lives in a turn is all that is made in it or before, and read in
it or later. The cycles and energies of a stage's turn follow from the words that ``evaluate`` states for the
nest on an architecture whose fan-out is replaced here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil
from typing import Any

from costmodel.mapping.evaluate import evaluate
from tests.costmodel.mapping.fused.layers.walked_turns import BrokenError, Element, Ranges, Walk

Version = tuple[int, Element]
"""An element of an intermediate; with the iteration that made it where rows are made anew, else with 0."""


@dataclass
class Played:
    """What happens in one turn of one layer: its part and nest, and what it makes and reads."""

    position: int
    sizes: dict[str, int]
    begun: bool
    nest: Any
    makes: set[Version] = field(default_factory=set)
    reads: set[Version] = field(default_factory=set)


class PipelineWalk(Walk):
    """A walk that notes the turns of every iteration; all layers share all loops."""

    def __init__(self, group: Any, mapping: Any, before: list[tuple[int, int]]) -> None:
        super().__init__(group, mapping, before, [[] for _ in group.layers])
        self.iterations: list[dict[int, Played]] = []
        self.latest: list[dict[Element, int]] = [{} for _ in self.layers]
        """Of every producer the iteration that made each of its elements last."""
        self.hoisted: Counter[tuple[int, int, str]] = Counter()
        """Words that enter hoisted tiles, by layer, level and kind of access."""

    def hoist(self, branch: list[int], depth: int, ranges: list[Ranges]) -> None:
        before = Counter(self.counts)
        super().hoist(branch, depth, ranges)
        self.hoisted += self.counts - before

    def split(self, group: list[int], depth: int, ranges: list[Ranges]) -> None:
        if depth == len(self.shared.paths[group[0]]):
            self.iterations.append({})
        super().split(group, depth, ranges)

    def turn(self, position: int, ranges: Ranges) -> None:
        if not all(ranges.values()):
            return
        layer, sums = self.layers[position], self.sums[position]
        made = self.elements(position, layer.output, ranges)
        begun = any(sums[one] for one in made)
        sizes = {dim: len(one) for dim, one in ranges.items()}
        looping = {dim: size for dim, size in sizes.items() if size > 1}
        # of equal parts the nest of those that begin stands before that of those that go on
        played = Played(
            position, sizes, begun, [one for one in self.nests[position] if whole_part(one) == looping][begun]
        )
        for element in made:
            sums[element] += 1
        self.made[position] |= made
        self.live[position] |= made
        number = len(self.iterations) - 1
        anew = any(self.anew(position, loop) for loop, _ in self.shared.paths[position])
        for element in made:
            if anew or element not in self.latest[position]:
                self.latest[position][element] = number
            played.makes.add((self.latest[position][element], element))
        if position:
            known = self.latest[position - 1]
            for element in self.sources(position, self.elements(position, self.operand(position), ranges)):
                if element not in known:
                    raise BrokenError(f"{layer.name} reads what nobody made")
                played.reads.add((known[element], element))
        self.iterations[-1][position] = played


def whole_part(nest: Any) -> dict[str, int]:
    """The part that a nest maps, by all of its loops."""
    found: dict[str, int] = {}
    for level in nest.levels:
        for dim, bound in (*level.temporal, *level.spatial_x, *level.spatial_y):
            found[dim] = found.get(dim, 1) * bound
    return found


@dataclass(frozen=True)
class Replayed:
    """``cycles`` and ``energy_pj`` of all turns, leakage included; ``alive``: by producer, the most words of
    its output that live in a turn."""

    turns: int
    cycles: int
    energy_pj: float
    alive: list[int]


def replayed(group: Any, mapping: Any, before: list[tuple[int, int]]) -> Replayed:
    """Play a mapping whose layers are the stages of one pipeline."""
    walk = PipelineWalk(group, mapping, before)
    walk.run()
    (pipeline,) = mapping.shared.pipelines
    stages, levels = len(group.layers), group.architecture.levels
    divided = max(number for number, level in enumerate(levels) if level.fanout_x * level.fanout_y > 1)
    turns: list[list[Played]] = []
    for turn in range(len(walk.iterations) + stages - 1):
        at_work = []
        for stage in range(stages):
            if 0 <= turn - stage < len(walk.iterations):
                played = walk.iterations[turn - stage].get(stage)
                at_work += [] if played is None else [played]
        turns.append(at_work)
    cycles, energy = 0, 0.0
    words: dict[tuple[int, str], int] = defaultdict(int)
    used: dict[int, list[int]] = {stage: [0] * len(levels) for stage in range(stages)}
    for at_work in turns:
        together: dict[tuple[int, str], int] = defaultdict(int)
        slowest = 0
        for played in at_work:
            own, moved, pj = _asked(group, mapping, pipeline, divided, played)
            slowest, energy = max(slowest, own), energy + pj
            for key, count in moved.items():
                words[key] += count
                if key[0] >= divided:
                    together[key] += count
            nest = played.nest.utilized_instances
            used[played.position] = [max(pair) for pair in zip(used[played.position], nest, strict=True)]
        cycles += max(slowest, _waiting(levels, together))
    for (_, number, access), count in walk.hoisted.items():
        hardware = levels[number]
        words[number, "read" if access == "reads" else "written"] += count
        energy += count * (hardware.read_energy_pj if access == "reads" else hardware.write_energy_pj)
    if any(mapping.shared.hoist.values()):
        outer = {key: count for key, count in words.items() if key[0] >= walk.top - 1}
        cycles = max(cycles, _waiting(levels, outer))
    for number, level in enumerate(levels):
        instances = 1 if number >= divided else sum(some[number] for some in used.values())
        energy += level.leakage_pj_per_cycle * instances * cycles
    return Replayed(len(turns), cycles, energy, _alive(turns, stages))


def _asked(
    group: Any, mapping: Any, pipeline: Any, divided: int, played: Played
) -> tuple[int, dict[tuple[int, str], int], float]:
    """A stage's turn by itself: cycles, words by level and port, and pJ without leakage."""
    layer, shared = group.layers[played.position], mapping.shared
    part = replace(layer, dims=tuple((dim, played.sizes[dim]) for dim, _ in layer.dims))
    part = part.continued if played.begun else part
    levels = [replace(level, leakage_pj_per_cycle=0.0) for level in group.architecture.levels]
    size = pipeline.parts[played.position - pipeline.first]
    sides = {"x": {"fanout_x": size}, "y": {"fanout_y": size}}[pipeline.axis]
    levels[divided] = replace(levels[divided], **sides)
    machine = replace(group.architecture, levels=tuple(levels))
    found = evaluate(machine, part, played.nest)
    held = dict.fromkeys(shared.hoist.get(layer.name, {}), len(levels) - 2)
    if layer.name in shared.backing:
        held[layer.output.name] = shared.backing[layer.name]
    before = group.layers[played.position - 1].name if played.position else ""
    if before in shared.backing:
        held[next(one.name for one in layer.tensors if one.role == "inputs")] = shared.backing[before]
    words: dict[tuple[int, str], int] = defaultdict(int)
    demand: dict[tuple[int, str], float] = defaultdict(float)
    energy, compute = found.energy_pj, found.compute_cycles
    for number, level in enumerate(found.levels):
        for name, traffic in level.tensors.items():
            if name in held and number == len(levels) - 1:
                energy -= traffic.energy_pj
                continue
            fills = traffic.fills
            if held.get(name) == number:
                energy -= fills * levels[number].write_energy_pj
                fills = 0
            for port, count in (("read", traffic.reads), ("written", fills + traffic.updates)):
                words[number, port] += count
                demand[number, port] += count / compute
    # in floating point, as a layer by itself is counted: what divides exactly can round up one cycle
    cycles = compute
    for (number, port), asked in demand.items():
        rate = levels[number].read_bandwidth if port == "read" else levels[number].write_bandwidth
        if rate is not None and asked > rate:
            cycles = max(cycles, ceil(compute / (rate / asked)))
    return cycles, words, energy


def _waiting(levels: Any, words: dict[tuple[int, str], int]) -> int:
    """The cycles that the slowest port needs for these words."""
    found = [0]
    for (number, port), count in words.items():
        level = levels[number]
        rate = level.read_bandwidth if port == "read" else level.write_bandwidth
        if rate is not None:
            found.append(ceil(Fraction(count) / Fraction(rate)))
    return max(found)


def _alive(turns: list[list[Played]], stages: int) -> list[int]:
    """The most words of each producer's output that live in a turn.

    Raises BrokenError where something is read that was not made in an earlier turn.
    """
    made: list[dict[Version, int]] = [{} for _ in range(stages)]
    last: list[dict[Version, int]] = [{} for _ in range(stages)]
    for number, at_work in enumerate(turns):
        for played in at_work:
            for version in played.reads:
                if not made[played.position - 1].get(version, number) < number:
                    raise BrokenError(f"turn {number} reads what is not made before it")
                last[played.position - 1][version] = number
        for played in at_work:
            for version in played.makes:
                made[played.position].setdefault(version, number)
                last[played.position].setdefault(version, number)
    most = [0] * stages
    for producer in range(stages):
        for number in range(len(turns)):
            alive = sum(at <= number <= last[producer][version] for version, at in made[producer].items())
            most[producer] = max(most[producer], alive)
    return most
