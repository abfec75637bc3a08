"""Fused mappings of layers on an architecture as JSON objects.

A mapping has ``prefix``, ``paths`` (shared loops, each [name, step]), ``backing`` (the level's name by the
producing layer's), ``hoist`` (by layer and tensor the shared loop) and ``nests``, by layer the text that
:func:`costmodel.mapping.nest_text.nest_text` writes. ``loops`` says which dim of each layer a loop's name
stands for.
"""

from __future__ import annotations

from typing import Any

from costmodel.mapping.fused.layers.evaluate import GroupEvaluation
from costmodel.mapping.fused.layers.group import GroupMapping, LayerGroup
from costmodel.mapping.nest_text import nest_text


def group_mapping_to_json(group: LayerGroup, mapping: GroupMapping) -> dict[str, Any]:
    """A mapping as the module's docstring says."""
    shared, levels = mapping.shared, group.architecture.levels
    names = [layer.name for layer in group.layers]
    return {
        "prefix": list(shared.prefix),
        "paths": [[list(loop) for loop in path] for path in shared.paths],
        "backing": {name: levels[level].name for name, level in shared.backing.items()},
        "hoist": {name: dict(tensors) for name, tensors in shared.hoist.items() if tensors},
        "nests": {name: nest_text(nest) for name, nest in zip(names, mapping.nests, strict=True)},
        "loops": {name: dict(loops) for name, loops in zip(names, group.loops, strict=True)},
    }


def group_evaluation_to_json(group: LayerGroup, found: GroupEvaluation) -> dict[str, Any]:
    """Energy, cycles and the peak words of each level, and of every layer turns, energy and cycles."""
    return {
        "energy_pj": found.energy_pj,
        "cycles": found.cycles,
        "peak": {
            level.name: words for level, words in zip(group.architecture.levels, found.peak, strict=False)
        },
        "layers": {
            layer.name: {"turns": cost.turns, "energy_pj": cost.energy_pj, "cycles": cost.cycles}
            for layer, cost in zip(group.layers, found.layers, strict=True)
        },
    }
