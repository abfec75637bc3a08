"""What binds the cycles of a fused group: in each layer's turns, and while hoisted tiles are filled."""

from __future__ import annotations

from collections import Counter

from costmodel.mapping.binding import bandwidth_binding
from costmodel.mapping.fused.layers.evaluate import kind_cost, layer_cost
from costmodel.mapping.fused.layers.group import GroupMapping, LayerGroup
from costmodel.mapping.fused.layers.pipelines import HOISTED
from costmodel.mapping.fused.layers.turns import turns_of


def cycles_by_cause(group: LayerGroup, mapping: GroupMapping) -> tuple[dict[str, int], ...]:
    """By layer of the group, its cycles by what they are due to; they add up to those of the layer.

    Of a stage of a pipeline these are the cycles of its turns by themselves.

    Every turn is bound by one thing, as a layer by itself is
    (:func:`costmodel.mapping.binding.time_binding`). ``mapping`` has no violations.
    """
    found = []
    levels = group.architecture.levels
    for one, nests in zip(turns_of(group, mapping.shared), mapping.turn_nests(group.layers), strict=True):
        causes: Counter[str] = Counter()
        for kind, nest in zip(one.kinds, nests, strict=True):
            cost, kept = kind_cost(one, kind, nest)
            moved = [list(counts.values()) for counts in kept]
            causes[bandwidth_binding(levels, moved, cost.turn).cause] += cost.cycles
        if waiting := layer_cost(one, *nests).cycles - causes.total():
            causes[HOISTED] = waiting
        found.append(dict(causes))
    return tuple(found)
