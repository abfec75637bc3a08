"""What a fused group of layers costs: every turn as ``evaluate`` counts it, but for what is held.

A turn does not pay for bringing in a tensor that is already on the chip, nor for taking it out if it stays.
What enters and leaves hoisted tiles between turns is counted beside the turns. Layers run one after the
other, so their energies and cycles add up. Stages of a pipeline run at the same time; what that changes is in
``pipelines.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from costmodel.mapping.counts.energy import access_energy_pj
from costmodel.mapping.counts.latency import bandwidth_cycles
from costmodel.mapping.counts.traffic import Counts
from costmodel.mapping.evaluate import Evaluation, evaluate_counts, nest_counts
from costmodel.mapping.fused.layers.checker import violations
from costmodel.mapping.fused.layers.group import GroupMapping, LayerGroup
from costmodel.mapping.fused.layers.pipelines import (
    PipelineCost,
    PipelineTurns,
    StageWork,
    pipeline_cost,
)
from costmodel.mapping.fused.layers.turns import LayerTurns, TurnKind, held_tiles, turns_of
from costmodel.mapping.fused.mapping import kept_words
from costmodel.mapping.fused.pipeline import times
from costmodel.mapping.mapping import Mapping


@dataclass(frozen=True)
class KindCost:
    """What so many equal turns of a layer cost, and ``turn``, one of them."""

    turns: int
    turn: Evaluation

    @property
    def energy_pj(self) -> float:
        """The energy of all these turns."""
        return self.turns * self.turn.energy_pj

    @property
    def cycles(self) -> int:
        """The cycles of all these turns."""
        return self.turns * self.turn.cycles


@dataclass(frozen=True)
class LayerCost:
    """What one layer of a group costs: ``kinds`` of turns, the largest first.

    ``hoist_pj`` is the energy of words that enter and leave hoisted tiles between turns. ``beside_pj``: what
    each level spends beside the turns, innermost first, on these words and on leakage while it waits for
    them; empty where nothing is hoisted.

    Of a stage of a pipeline, ``cycles`` are those of its turns by themselves, on its part of the array, and
    leakage is not in ``energy_pj``: both depend on the other stages.
    """

    kinds: tuple[KindCost, ...]
    hoist_pj: float
    energy_pj: float
    cycles: int
    beside_pj: tuple[float, ...] = ()

    @property
    def turns(self) -> int:
        """The turns of all kinds."""
        return sum(kind.turns for kind in self.kinds)

    @property
    def levels_pj(self) -> tuple[float, ...]:
        """The energy of each level, innermost first; the rest of ``energy_pj`` is of the MACs."""
        found = [0.0] * len(self.kinds[0].turn.levels)
        for kind in self.kinds:
            of_levels = (kind.turns * level.energy_pj for level in kind.turn.levels)
            found = [one + other for one, other in zip(found, of_levels, strict=True)]
        beside = self.beside_pj or (0.0,) * len(found)
        return tuple(one + other for one, other in zip(found, beside, strict=True))


@dataclass(frozen=True)
class GroupEvaluation:
    """The cost of a group: the layers run one after the other, but for the stages of ``pipelines``.

    ``peak``: the most words that each level of the chip holds at once, innermost first; of a level of several
    instances, those of one.
    """

    energy_pj: float
    cycles: int
    layers: tuple[LayerCost, ...]
    peak: tuple[int, ...]
    pipelines: tuple[PipelineCost, ...] = ()

    @property
    def edp_pj_cycles(self) -> float:
        """Energy times cycles, of the whole group."""
        return self.energy_pj * self.cycles

    @property
    def levels_pj(self) -> tuple[float, ...]:
        """The energy of each level, innermost first; the rest of ``energy_pj`` is of the MACs."""
        leakage = (pipeline.leakage_pj for pipeline in self.pipelines)
        of_layers = (cost.levels_pj for cost in self.layers)
        return tuple(map(sum, zip(*of_layers, *leakage, strict=True)))


def evaluate_group(group: LayerGroup, mapping: GroupMapping) -> GroupEvaluation:
    """The cost; ValueError with the reasons for a mapping that has violations.

    Without shared loops, backing levels and hoisted tiles it is the sum of ``evaluate`` of the layers.
    """
    if reasons := violations(group, mapping):
        raise ValueError(f"no fused mapping of these layers: {'; '.join(reasons)}")
    turns, nests = turns_of(group, mapping.shared), mapping.turn_nests(group.layers)
    costs = tuple(layer_cost(one, *some) for one, some in zip(turns, nests, strict=True))
    pipelines = tuple(
        stages_cost(turns[stages.start : stages.stop], nests[stages.start : stages.stop])
        for stages in (pipeline.stages for pipeline in mapping.shared.pipelines)
    )
    by_themselves = (cost.cycles for one, cost in zip(turns, costs, strict=True) if one.pipeline is None)
    return GroupEvaluation(
        sum(cost.energy_pj for cost in costs) + sum(sum(one.leakage_pj) for one in pipelines),
        sum(by_themselves) + sum(one.cycles for one in pipelines),
        costs,
        _peak(group, mapping),
        pipelines,
    )


def stages_cost(stages: Sequence[LayerTurns], nests: Sequence[Sequence[Mapping]]) -> PipelineCost:
    """What the stages of one pipeline cost beside their own energies; ``nests`` by stage and kind."""
    works = [stage_works(one, some) for one, some in zip(stages, nests, strict=True)]
    return pipeline_cost(stages, PipelineTurns(tuple(stages)).working, works, hoisted_words(stages))


def stage_works(one: LayerTurns, nests: Sequence[Mapping]) -> list[StageWork]:
    """What a stage asks for in a turn of each kind, by these nests."""
    found = []
    for kind, nest in zip(one.kinds, nests, strict=True):
        cost, counts = kind_cost(one, kind, nest)
        found.append(StageWork(cost.turn.cycles, counts, nest.utilized_instances))
    return found


def hoisted_words(stages: Sequence[LayerTurns]) -> dict[int, Counts]:
    """By level, the words that enter and leave the hoisted tiles of all stages between turns."""
    found: dict[int, Counts] = {}
    for one in stages:
        for level, moved in (_hoisted(one)[2] if one.hoisted else {}).items():
            before = found.get(level, Counts(0, 0, 0, 0, 0))
            found[level] = Counts(*(a + b for a, b in zip(before, moved, strict=True)))
    return found


def layer_cost(one: LayerTurns, *nests: Mapping) -> LayerCost:
    """The cost of all turns of a layer, whose parts run by ``nests``: one for each kind of turn."""
    kinds, energy, cycles = [], 0.0, 0
    accesses: list[list[Counts]] = [[] for _ in one.group.architecture.levels]
    for kind, nest in zip(one.kinds, nests, strict=True):
        cost, counts = kind_cost(one, kind, nest)
        energy += cost.energy_pj
        cycles += cost.cycles
        kinds.append(cost)
        _add_times(accesses, kind.turns, counts)
    if not one.hoisted:
        return LayerCost(tuple(kinds), 0.0, energy, cycles)
    hoist_pj, spent_on, moved = _hoisted(one)
    if one.pipeline is not None:  # whether anybody waits for these words depends on all stages
        beside = [spent_on.get(level, 0.0) for level in range(len(accesses))]
        return LayerCost(tuple(kinds), hoist_pj, energy + hoist_pj, cycles, tuple(beside))
    # Hoisted tiles are filled while turns run: the layer takes longer only if a level's bandwidth does not
    # suffice for the words of all turns and these. While it waits, everything that it uses leaks.
    longest = cycles
    for level, extra in moved.items():
        hardware = one.group.architecture.levels[level]
        longest = max(longest, ceil(bandwidth_cycles(hardware, [*accesses[level], extra])))
    leaking = [
        hardware.leakage_pj_per_cycle * used
        for hardware, used in zip(one.group.architecture.levels, nests[0].utilized_instances, strict=True)
    ]
    energy += hoist_pj + (longest - cycles) * sum(leaking)
    beside = [(longest - cycles) * leakage for leakage in leaking]
    for level, spent in spent_on.items():
        beside[level] += spent
    return LayerCost(tuple(kinds), hoist_pj, energy, longest, tuple(beside))


def kind_cost(one: LayerTurns, kind: TurnKind, nest: Mapping) -> tuple[KindCost, list[dict[str, Counts]]]:
    """The cost of equal turns of a layer, and the counts of one of them by level and tensor."""
    outermost = one.group.outermost
    compute_cycles, kept = nest_counts(kind.part, nest, range(outermost + 1))
    for tensor, level in one.held.items():
        # The outermost level stands for whatever filled or will drain the holding level: other layers did,
        # or will, or a hoisted tile did once for many turns.
        del kept[outermost][tensor]
        kept[level][tensor] = kept[level][tensor]._replace(fills=0)
    instances = nest.utilized_instances
    turn = evaluate_counts(one.architecture, kind.part, compute_cycles, kept, instances)
    return KindCost(kind.turns, turn), kept


def _hoisted(one: LayerTurns) -> tuple[float, dict[int, float], dict[int, Counts]]:
    """What it costs to fill hoisted tiles over all turns, and to empty those of outputs.

    Returns the pJ of all of it, the same by level, and the accesses by level.
    """
    outermost = one.group.outermost
    levels = {level: one.group.architecture.levels[level] for level in (outermost - 1, outermost)}
    sums = {level: Counts(0, 0, 0, 0, 0) for level in levels}
    energy, spent = 0.0, dict.fromkeys(levels, 0.0)
    for tile in one.hoisted:
        tensor = one.layer.tensor(tile.tensor)
        entering, leaving = tile.entering, 0
        if tensor.is_output:  # each first visit of an output begins with zeros, and brings nothing
            entering, leaving = tile.entering - tensor.words(one.layer.sizes), tile.entering
        moved = {
            outermost: Counts(entering, 0, leaving, 0, 0),
            outermost - 1: Counts(0, entering, 0, 0, 0),
        }
        for level, counts in moved.items():
            pj = access_energy_pj(levels[level], counts, 1)
            energy += pj
            spent[level] += pj
            sums[level] = Counts(*(a + b for a, b in zip(sums[level], counts, strict=True)))
    return energy, spent, sums


def _add_times(accesses: list[list[Counts]], turns: int, counts: list[dict[str, Counts]]) -> None:
    """Add what so many turns of these counts ask of every level."""
    for level, of_tensors in enumerate(counts):
        accesses[level] += [
            Counts(turns * one.reads, turns * one.fills, turns * one.updates, 0, 0)
            for one in of_tensors.values()
        ]


def _peak(group: LayerGroup, mapping: GroupMapping) -> tuple[int, ...]:
    """The most words that each level holds in any layer's time, or that of the stages of a pipeline."""
    kept, turns = held_tiles(group, mapping.shared), turns_of(group, mapping.shared)
    nests, rows = mapping.turn_nests(group.layers), []
    for together in times(mapping.shared.pipelines, len(turns)):
        row = kept_words(kept, group.outermost, together.start)
        own = [
            [
                max(turns[one].own_words(nest, level) for nest in nests[one])
                for level in range(group.outermost)
            ]
            for one in together
        ]
        for level, words in enumerate(zip(*own, strict=True)):
            # every stage has instances of its own of the levels of which there are several
            row[level] += sum(words) if level in group.holding else max(words)
        rows.append(row)
    return tuple(max(column) for column in zip(*rows, strict=True))
