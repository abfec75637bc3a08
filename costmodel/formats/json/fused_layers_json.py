"""Fused mappings of layers on an architecture as JSON objects, and back.

A mapping has ``prefix``, ``paths`` (shared loops, each [name, step]), ``backing`` (the level's name by the
producing layer's), ``hoist`` (by layer and tensor the shared loop) and ``nests``, by layer the text that
:func:`costmodel.mapping.nest_text.nest_text` writes. ``loops`` says which dim of each layer a loop's name
stands for.
"""

from __future__ import annotations

from typing import Any

from costmodel.errors import InputError
from costmodel.formats.json.json_fields import field, known_names, whole_number
from costmodel.mapping.fused.layers.evaluate import GroupEvaluation
from costmodel.mapping.fused.layers.group import GroupMapping, LayerGroup
from costmodel.mapping.fused.mapping import FusedMapping, Loops
from costmodel.mapping.mapping import Mapping
from costmodel.mapping.nest_text import mapping_of_text, nest_text

KEYS = ("prefix", "paths", "backing", "hoist", "nests", "loops")


def group_mapping_to_json(group: LayerGroup, mapping: GroupMapping) -> dict[str, Any]:
    """The object that :func:`group_mapping_from_json` reads."""
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


def group_mapping_from_json(group: LayerGroup, data: Any, where: str) -> GroupMapping:
    """The mapping of a JSON object; InputError for a key that is missing or of another type.

    ``loops`` is for readers and not looked at. Whether it is a mapping of the group is the checker's to say.
    """
    prefix, paths = field(data, "prefix", list, where), field(data, "paths", list, where)
    nests = field(data, "nests", dict, where)
    known_names(data, KEYS, where, "mapping")
    backing, hoist = data.get("backing", {}), data.get("hoist", {})
    for key, value in (("backing", backing), ("hoist", hoist)):
        if not isinstance(value, dict):
            raise InputError(where, "an object", value, key=key)
    for name, tensors in hoist.items():
        if not isinstance(tensors, dict):
            raise InputError(where, "an object", tensors, key=f"hoist.{name}")
    shared = FusedMapping(
        tuple(whole_number(depth, where, "prefix", 0) for depth in prefix),
        tuple(_loops(path, where) for path in paths),
        (),
        {name: group.architecture.index(level) for name, level in backing.items()},
        {
            name: {
                tensor: whole_number(depth, where, f"hoist.{name}.{tensor}", 0)
                for tensor, depth in tensors.items()
            }
            for name, tensors in hoist.items()
        },
    )
    return GroupMapping(shared, tuple(_nest(nests, layer.name, where) for layer in group.layers))


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


def _nest(nests: dict[str, Any], name: str, where: str) -> Mapping:
    text = nests.get(name)
    expected = "the text of an even nest, as archsweep solve fusion prints it"
    if not isinstance(text, str):
        raise InputError(where, expected, text, key=f"nests.{name}")
    nest = mapping_of_text(text)
    if not isinstance(nest, Mapping):
        raise InputError(where, expected, text, key=f"nests.{name}")
    return nest


def _loops(path: Any, where: str) -> Loops:
    if not isinstance(path, list):
        raise InputError(where, "a list of loops [name, step]", path, key="paths")
    found = []
    for loop in path:
        if not (isinstance(loop, list) and len(loop) == 2 and isinstance(loop[0], str)):
            raise InputError(where, "a loop [name, step]", loop, key="paths")
        found.append((loop[0], whole_number(loop[1], where, "paths")))
    return tuple(found)
