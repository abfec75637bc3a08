"""Mappings in the form of the Timeloop cases: blocks outermost first, permutations innermost first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, get_args

from costmodel.errors import InputError
from costmodel.formats.json.json_fields import field, known_names, whole_number, whole_numbers
from costmodel.hardware.architecture import Architecture, StorageLevel
from costmodel.hardware.timing import Layouts
from costmodel.mapping.mapping import LevelMapping, Loop, Mapping, loops, violations
from costmodel.mapping.uneven import AnyMapping, UnevenMapping, split
from costmodel.mapping.uneven import violations as uneven_violations
from costmodel.workload.network import Layer, Role


def mapping_to_json(architecture: Architecture, layer: Layer, mapping: AnyMapping) -> dict[str, Any]:
    """The ``mapping`` of a case: per level its temporal and, where the hardware fans out, its spatial block.

    Factors and permutations name every dim of the layer; the first ``split`` dims of a spatial permutation
    are on X, the others on Y. An uneven mapping is written in the same way, with the parts of its levels as
    levels, and ``part_of`` says of each part which level it belongs to. ``layouts`` are there only where
    tensors lie otherwise than the machine's file says, by role: ``{"inputs": ["N", "C", "Q", "P"]}``.
    """
    if isinstance(mapping, UnevenMapping):
        parts = split(architecture, mapping.part_levels)
        names = [architecture.levels[level].name for level in mapping.part_levels]
        part_of = {part.name: name for part, name in zip(parts.levels, names, strict=True)}
        return mapping_to_json(parts, layer, mapping.nest) | {"part_of": part_of}
    # cases begin with DRAM, an architecture with its innermost level
    levels = list(zip(architecture.levels, mapping.levels, strict=True))[::-1]
    blocks = []
    for hardware, level in levels:
        blocks.append(_block(hardware.name, "temporal", level.temporal, layer))
        if hardware.fanout > 1:
            spatial = _block(hardware.name, "spatial", level.spatial, layer)
            blocks.append(spatial | {"split": len(level.spatial_x)})
    names = [tensor.name for tensor in layer.tensors]
    bypass = [
        {
            "target": hardware.name,
            "keep": [name for name in names if name in level.keep],
            "bypass": [name for name in names if name not in level.keep],
        }
        for hardware, level in levels
    ]
    written: dict[str, Any] = {"levels": blocks, "bypass": bypass}
    if mapping.layouts:
        written["layouts"] = {role: list(entries) for role, entries in mapping.layouts}
    return written


def _block(target: str, kind: str, block: Sequence[Loop], layer: Layer) -> dict[str, Any]:
    bounds = dict(block)
    idle = [dim for dim in layer.sizes if dim not in bounds]
    return {
        "target": target,
        "type": kind,
        "factors": {dim: bounds.get(dim, 1) for dim in layer.sizes},
        "permutation": [*bounds, *idle],
    }


def mapping_from_json(architecture: Architecture, layer: Layer, data: Any, where: str = "mapping") -> Mapping:
    """The mapping that a case's ``mapping`` describes; its blocks may be in any order.

    Every level needs a temporal block and an entry in ``bypass``, which lists every tensor either in ``keep``
    or in ``bypass``; a spatial block may be absent, and so may ``layouts``. Raises InputError with ``where``
    and the key for what is missing, unknown or of a wrong type, and for a mapping with violations.
    """
    blocks = _by_target(architecture, field(data, "levels", list, where), f"{where}: levels", "type")
    kept = _by_target(architecture, field(data, "bypass", list, where), f"{where}: bypass")
    levels = tuple(_level(hardware, layer, blocks, kept, where) for hardware in architecture.levels)
    mapping = Mapping(levels, _layouts(architecture, data, where))
    if reasons := violations(architecture, layer, mapping):
        expected = f"a mapping of {layer.name} on {architecture.name}"
        raise InputError(where, expected, "; ".join(reasons), key="mapping")
    return mapping


def any_mapping_from_json(
    architecture: Architecture, layer: Layer, data: Any, where: str = "mapping"
) -> AnyMapping:
    """As :func:`mapping_from_json`, also for an uneven mapping, as :func:`mapping_to_json` writes it."""
    if not isinstance(data, dict) or "part_of" not in data:
        return mapping_from_json(architecture, layer, data, where)
    levels = list(field(data, "part_of", dict, where).values())
    names = [level.name for level in architecture.levels]
    known_names(levels, names, where, "part_of")
    # only how many parts a level has is taken from part_of: ``split`` gives them their names again, and
    # blocks whose targets are named otherwise are refused
    part_levels = tuple(number for number, name in enumerate(names) for _ in range(levels.count(name)))
    nest = mapping_from_json(split(architecture, part_levels), layer, data, where)
    mapping = UnevenMapping(nest, part_levels)
    if reasons := uneven_violations(architecture, layer, mapping):
        expected = f"an uneven mapping of {layer.name} on {architecture.name}"
        raise InputError(where, expected, "; ".join(reasons), key="mapping")
    return mapping


def _layouts(architecture: Architecture, data: Any, where: str) -> Layouts:
    """The layouts of a mapping that are not the machine's own."""
    if "layouts" not in data:
        return ()
    stated = layouts_from_json(data, where)
    if architecture.timing is None:
        remedy = "Leave out layouts, or give the architecture file its timing"
        expected = "a machine with timing, whose transfers see layouts"
        raise InputError(where, expected, "none", remedy, key="layouts")
    return architecture.timing.others(stated)


def layouts_from_json(data: Any, where: str) -> dict[Role, tuple[str, ...]]:
    """The ``layouts`` of a mapping or a measured row, by role; InputError where they are none."""
    stated = field(data, "layouts", dict, where)
    known_names(stated, get_args(Role), where, "layouts")
    for role, parts in stated.items():
        if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
            expected = "dims, outermost first, as [N, C, Q, P, 8C]"
            raise InputError(where, expected, parts, key=f"layouts.{role}")
    return {role: tuple(parts) for role, parts in stated.items()}


def _by_target(
    architecture: Architecture, entries: Sequence[Any], where: str, kind_key: str = ""
) -> dict[tuple[str, str], tuple[Any, str]]:
    """The entries by (target, type), each with its location for errors."""
    found: dict[tuple[str, str], tuple[Any, str]] = {}
    names = [level.name for level in architecture.levels]
    for index, entry in enumerate(entries):
        entry_where = f"{where}[{index}]"
        target = field(entry, "target", str, entry_where)
        known_names([target], names, entry_where, "target")
        kind = field(entry, kind_key, str, entry_where) if kind_key else ""
        if kind_key:
            known_names([kind], ("temporal", "spatial"), entry_where, kind_key)
        if (target, kind) in found:
            raise InputError(
                entry_where, f"one {kind} entry a level".replace("  ", " "), f"another for {target}"
            )
        found[target, kind] = entry, entry_where
    return found


def _level(
    hardware: StorageLevel,
    layer: Layer,
    blocks: dict[tuple[str, str], tuple[Any, str]],
    kept: dict[tuple[str, str], tuple[Any, str]],
    where: str,
) -> LevelMapping:
    for entries, kind, key in ((blocks, "temporal", "levels"), (kept, "", "bypass")):
        if (hardware.name, kind) not in entries:
            expected = f"a {kind} block for every level" if kind else "an entry for every level"
            raise InputError(where, expected, f"none for {hardware.name}", key=key)
    temporal = _loops(*blocks[hardware.name, "temporal"], layer)
    spatial_x: tuple[Loop, ...] = ()
    spatial_y: tuple[Loop, ...] = ()
    if (hardware.name, "spatial") in blocks:
        block, block_where = blocks[hardware.name, "spatial"]
        order = _loops(block, block_where, layer)
        # no default: which dims a case without the key means to be on X would be a guess
        if "split" not in block:
            raise InputError(
                block_where, "how many leading dims of the permutation are X", "nothing", key="split"
            )
        split = whole_number(block["split"], block_where, "split", least=0)
        if split > len(order):
            raise InputError(
                block_where, f"at most the {len(order)} dims of the permutation", split, key="split"
            )
        spatial_x, spatial_y = loops(order[:split]), loops(order[split:])
    return LevelMapping(loops(temporal), spatial_x, spatial_y, _keep(*kept[hardware.name, ""], layer))


def _loops(block: Any, where: str, layer: Layer) -> tuple[Loop, ...]:
    """The loops of a block in the order of its permutation, bounds of 1 included."""
    factors = whole_numbers(field(block, "factors", dict, where), layer.sizes, where, "factors")
    permutation = field(block, "permutation", list, where)
    known_names(permutation, layer.sizes, where, "permutation")
    if len(set(permutation)) < len(permutation):
        raise InputError(where, "every dim once", permutation, key="permutation")
    # a loop of one iteration is the same anywhere, so a permutation may leave such dims out
    if missing := [dim for dim, factor in factors.items() if factor > 1 and dim not in permutation]:
        raise InputError(where, "every dim with a factor above 1", f"none of {missing}", key="permutation")
    return tuple((dim, factors.get(dim, 1)) for dim in permutation)


def _keep(entry: Any, where: str, layer: Layer) -> frozenset[str]:
    names = [tensor.name for tensor in layer.tensors]
    keep, bypass = (_names(field(entry, key, list, where), names, where, key) for key in ("keep", "bypass"))
    # each tensor has to be said: one forgotten in either list would be kept or bypassed by a guess
    for name in names:
        if (name in keep) == (name in bypass):
            found = "both" if name in keep else "neither"
            raise InputError(where, f"{name} either in keep or in bypass", f"it in {found}", key="keep")
    return keep


def _names(found: Iterable[Any], known: Sequence[str], where: str, key: str) -> frozenset[str]:
    names = list(found)
    known_names(names, known, where, key)
    return frozenset(names)
