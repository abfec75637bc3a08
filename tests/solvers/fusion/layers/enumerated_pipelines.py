"""Every pipeline of a small group, one by one: what the solver's pipelines are held against.

Shares the cost model with the solver, and nothing of the search. Of nests only those are dropped that another
one beats or equals in everything that counts: own words of shared levels, energy, cycles, words moved there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import ceil

from costmodel.mapping.fused.layers.evaluate import evaluate_group, kind_cost, layer_cost
from costmodel.mapping.fused.layers.group import GroupMapping, LayerGroup
from costmodel.mapping.fused.layers.pipelines import PipelineTurns
from costmodel.mapping.fused.layers.turns import LayerTurns, TurnKind, held_tiles, turns_of
from costmodel.mapping.fused.mapping import FusedMapping
from costmodel.mapping.fused.pipeline import MeshAxis, Pipeline
from costmodel.mapping.mapping import Mapping
from tests.solvers.fusion.layers import enumerated_groups

DIVIDED = 1
"""The level whose fan-out is divided; the next one is the outermost."""

Numbers = tuple[float, ...]


def least_pipelined(group: LayerGroup, objective: str) -> float | None:
    """The least objective of all pipelines of the whole group; None where there is none that fits."""
    values = []
    for shared in enumerated_groups._trees(group):
        path = shared.paths[0]
        if not path or any(one != path for one in shared.paths) or set(shared.prefix) != {len(path)}:
            continue
        if not enumerated_groups.legal(group, shared):
            continue
        for pipeline in _divisions(group):
            values += list(_values(group, replace(shared, pipelines=(pipeline,)), objective))
    return min(values, default=None)


def _divisions(group: LayerGroup) -> Iterator[Pipeline]:
    level = group.architecture.levels[DIVIDED]
    sides: tuple[tuple[MeshAxis, int], ...] = (("x", level.fanout_x), ("y", level.fanout_y))
    for axis, size in sides:
        for parts in product(range(1, size + 1), repeat=len(group.layers)):
            if sum(parts) <= size:
                yield Pipeline(0, axis, parts)


def _values(group: LayerGroup, shared: FusedMapping, objective: str) -> Iterator[float]:
    turns, levels = turns_of(group, shared), group.architecture.levels
    free = levels[DIVIDED].usable_words - sum(tile.words for tile in held_tiles(group, shared))
    if free < 0:
        return
    working = PipelineTurns(turns).working
    choices = [list(product(*(_nests(one, kind) for kind in one.kinds))) for one in turns]
    fixed = [
        layer_cost(one, *(nest for _, nest in some[0])).hoist_pj
        for one, some in zip(turns, choices, strict=True)
        if some
    ]
    hoisted = any(one.hoisted for one in turns)
    for chosen in product(*choices):
        if sum(max(numbers[0] for numbers, _ in some) for some in chosen) > free:
            continue
        if hoisted or any(level.leakage_pj_per_cycle for level in levels):
            firsts = tuple(some[0][1] for some in chosen)
            others = {
                one.layer.name: tuple(nest for _, nest in some[1:])
                for one, some in zip(turns, chosen, strict=True)
                if len(some) > 1
            }
            found = evaluate_group(group, GroupMapping(shared, firsts, others))
            energy, cycles = found.energy_pj, found.cycles
        else:
            energy = sum(fixed) + sum(
                kind.turns * numbers[1]
                for one, some in zip(turns, chosen, strict=True)
                for kind, (numbers, _) in zip(one.kinds, some, strict=True)
            )
            cycles = 0
            for does, often in working.items():
                busy = [chosen[stage][kind][0] for stage, kind in enumerate(does) if kind is not None]
                cycles += often * _turn(group, busy)
        yield {"energy": energy, "cycles": float(cycles), "edp": energy * cycles}[objective]


def _turn(group: LayerGroup, busy: list[Numbers]) -> int:
    """The cycles of a turn in which these stages are at work."""
    if not busy:
        return 0
    slowest = int(max(numbers[2] for numbers in busy))
    if len(busy) == 1:
        return slowest
    moved = [sum(one) for one in zip(*(numbers[3:7] for numbers in busy), strict=True)]
    ports = [
        rate
        for level in group.architecture.levels[DIVIDED:]
        for rate in (level.read_bandwidth, level.write_bandwidth)
    ]
    needed = (ceil(words / rate) for words, rate in zip(moved, ports, strict=True) if rate is not None)
    return max(slowest, *needed) if any(rate is not None for rate in ports) else slowest


_KNOWN: dict[object, list[tuple[Numbers, Mapping]]] = {}


def _nests(one: LayerTurns, kind: TurnKind) -> list[tuple[Numbers, Mapping]]:
    """The nests of a turn that nothing beats, with their numbers.

    These are own words of the shared level of the chip, pJ, cycles, words read and written there and at the
    outermost level, and MAC units in use.
    """
    assert one.pipeline is not None
    part = one.pipeline.parts[one.position]
    key = id(one.group), one.position, kind, tuple(one.held.items()), one.pipeline.axis, part
    if key not in _KNOWN:
        machine = replace(one.group, architecture=one.architecture)
        found: list[tuple[Numbers, Mapping]] = []
        for nest in enumerated_groups._nests(kind.part, machine, tuple(one.held.items())):
            kept = (tensor for tensor in kind.part.tensors if tensor.name in nest.levels[0].keep)
            inner = sum(tensor.words(nest.tiles[0]) for tensor in kept)
            if inner > one.architecture.levels[0].usable_words:
                continue
            cost, counts = kind_cost(one, kind, nest)
            moved: list[float] = []
            for level in counts[DIVIDED:]:
                moved.append(sum(tensor.reads for tensor in level.values()))
                moved.append(sum(tensor.fills + tensor.updates for tensor in level.values()))
            numbers = (
                float(one.own_words(nest, DIVIDED)),
                cost.turn.energy_pj,
                float(cost.turn.cycles),
                *moved,
                float(nest.utilized_instances[0]),
            )
            found.append((numbers, nest))
        _KNOWN[key] = enumerated_groups._undominated(found)
    return _KNOWN[key]
