"""Groups of layers and their fused mappings on an architecture as JSON objects.

A mapping has ``prefix``, ``paths`` (shared loops, each [name, step]), ``backing`` (the level's name by the
producing layer's), ``hoist`` (by layer and tensor the shared loop) and ``nests``, by layer the text that
:func:`costmodel.mapping.nest_text.nest_text` writes. ``loops`` says which dim of each layer a loop's name
stands for. Where loops slide along the rows of layers before their windows, ``slides`` says along which dim,
and ``recompute`` has, by layer, the loops in whose iterations it makes all rows anew. ``pipelines`` has, for
layers that run at the same time, ``columns`` or ``rows`` of the array by layer.
``others`` has, by layer, the nests of its turns with fewer rows, and of those that go on with partial sums.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import asdict
from typing import Any, cast

from costmodel.hardware.architecture import Architecture
from costmodel.mapping.fused.layers.binding import cycles_by_cause
from costmodel.mapping.fused.layers.evaluate import GroupEvaluation
from costmodel.mapping.fused.layers.group import (
    GroupMapping,
    Intermediate,
    IntermediateRead,
    LayerGroup,
    SlidingRead,
)
from costmodel.mapping.fused.mapping import FusedMapping, MadeAnew
from costmodel.mapping.fused.pipeline import SIDES, MeshAxis, Pipeline
from costmodel.mapping.mapping import Mapping
from costmodel.mapping.nest_text import mapping_of_text, nest_text
from costmodel.workload.network import Layer
from costmodel.workload.windows import Windows


def group_to_json(group: LayerGroup) -> dict[str, Any]:
    """The ``layers`` of a group with what passes between them, without the architecture.

    Every dim of a layer stands in a list of pairs, because their order counts.
    """
    return {
        "layers": [{**layer.to_json(), "dims": [list(dim) for dim in layer.dims]} for layer in group.layers],
        "intermediates": [
            {
                "producer": one.producer,
                "reads": [_read_json(read) for read in one.reads],
                "leaves": one.leaves,
            }
            for one in group.intermediates
        ],
        "alike": [[list(one), list(other)] for one, other in group.alike],
    }


def _read_json(read: IntermediateRead) -> dict[str, Any]:
    data = {"layer": read.layer, "tensor": read.tensor, "dims": [list(pair) for pair in read.dims]}
    if read.windows:  # without windows the text, and with it the hash of a task, is what it always was
        data["windows"] = [
            {
                "made": one.made,
                "used": one.used,
                **asdict(one.windows),
                **({"pools": [asdict(pool) for pool in one.pools]} if one.pools else {}),
            }
            for one in read.windows
        ]
    return data


def _read_of(data: ReadOnlyDict[str, Any]) -> IntermediateRead:
    windows = tuple(
        SlidingRead(
            one["made"],
            one["used"],
            Windows(one["count"], one["size"], one["stride"], one["before"]),
            tuple(Windows(**pool) for pool in one.get("pools", ())),
        )
        for one in data.get("windows", ())
    )
    dims = tuple((made, used) for made, used in data["dims"])
    return IntermediateRead(data["layer"], data["tensor"], dims, windows)


def group_from_json(architecture: Architecture, data: ReadOnlyDict[str, Any]) -> LayerGroup:
    """The group on this architecture that :func:`group_to_json` wrote."""
    layers = tuple(Layer.from_json({**layer, "dims": dict(layer["dims"])}) for layer in data["layers"])
    intermediates = tuple(
        Intermediate(
            one["producer"],
            tuple(map(_read_of, one["reads"])),
            one["leaves"],
        )
        for one in data["intermediates"]
    )
    alike = tuple(((one[0], one[1]), (other[0], other[1])) for one, other in data["alike"])
    return LayerGroup(architecture, layers, intermediates, alike)


def group_mapping_to_json(group: LayerGroup, mapping: GroupMapping) -> dict[str, Any]:
    """A mapping as the module's docstring says."""
    shared, levels = mapping.shared, group.architecture.levels
    names = [layer.name for layer in group.layers]
    slides = {name: dict(loops) for name, loops in zip(names, group.slides, strict=True) if loops}
    return {
        "prefix": list(shared.prefix),
        "paths": [[list(loop) for loop in path] for path in shared.paths],
        "backing": {name: levels[level].name for name, level in shared.backing.items()},
        "hoist": {name: dict(tensors) for name, tensors in shared.hoist.items() if tensors},
        "nests": {name: nest_text(nest) for name, nest in zip(names, mapping.nests, strict=True)},
        "loops": {name: dict(loops) for name, loops in zip(names, group.loops, strict=True)},
        **({"slides": slides} if slides else {}),
        **({"recompute": _by_layer(shared.recompute)} if shared.recompute else {}),
        **(
            {"pipelines": [_pipeline_json(names, one) for one in shared.pipelines]}
            if shared.pipelines
            else {}
        ),
        **(
            {"others": {name: [nest_text(nest) for nest in nests] for name, nests in mapping.others.items()}}
            if mapping.others
            else {}
        ),
    }


def _by_layer(recompute: Collection[MadeAnew]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, loop in sorted(recompute):
        found.setdefault(name, []).append(loop)
    return found


def _pipeline_json(names: Sequence[str], pipeline: Pipeline) -> dict[str, Any]:
    of_stages = (names[stage] for stage in pipeline.stages)
    return {pipeline.side: dict(zip(of_stages, pipeline.parts, strict=True))}


def _pipeline_of(data: ReadOnlyDict[str, Any], numbers: ReadOnlyDict[str, int]) -> Pipeline:
    ((side, parts),) = data.items()
    axis = next(axis for axis, called in SIDES.items() if called == side)
    return Pipeline(numbers[next(iter(parts))], cast(MeshAxis, axis), tuple(parts.values()))


def group_mapping_from_json(group: LayerGroup, data: ReadOnlyDict[str, Any]) -> GroupMapping:
    """The mapping that :func:`group_mapping_to_json` wrote, of an equal group whose layers may have other
    names: layers are told by their positions."""
    level_of = {level.name: index for index, level in enumerate(group.architecture.levels)}
    numbers = {name: number for number, name in enumerate(data["nests"])}
    renamed = dict(zip(data["nests"], (layer.name for layer in group.layers), strict=True))
    shared = FusedMapping(
        tuple(data["prefix"]),
        tuple(tuple((name, step) for name, step in path) for path in data["paths"]),
        (),
        {renamed[name]: level_of[level] for name, level in data["backing"].items()},
        {renamed[name]: dict(tensors) for name, tensors in data["hoist"].items()},
        frozenset((renamed[name], loop) for name, some in data.get("recompute", {}).items() for loop in some),
        tuple(_pipeline_of(one, numbers) for one in data.get("pipelines", ())),
    )
    others = {renamed[name]: tuple(map(_nest_of, nests)) for name, nests in data.get("others", {}).items()}
    return GroupMapping(shared, tuple(map(_nest_of, data["nests"].values())), others)


def _nest_of(text: str) -> Mapping:
    nest = mapping_of_text(text)
    assert isinstance(nest, Mapping), "nests of fused layers are even"
    return nest


def group_evaluation_to_json(
    group: LayerGroup, mapping: GroupMapping, found: GroupEvaluation
) -> dict[str, Any]:
    """Energy, cycles and the peak words of each level, and of every layer turns, energy, cycles and what
    binds them: ``bound_by``, its cycles by cause. Those of a stage are of its turns by themselves; what all
    stages take together is in ``pipelines``, with the leakage of all levels."""
    names = [layer.name for layer in group.layers]
    pipelines = [
        {
            "layers": names[one.stages.start : one.stages.stop],
            "turns": one.turns,
            "cycles": one.cycles,
            "leakage_pj": sum(one.leakage_pj),
            "bound_by": one.cycles_by_cause,
        }
        for one in found.pipelines
    ]
    return {
        "energy_pj": found.energy_pj,
        "cycles": found.cycles,
        "peak": {
            level.name: words for level, words in zip(group.architecture.levels, found.peak, strict=False)
        },
        "layers": {
            layer.name: {
                "turns": cost.turns,
                "energy_pj": cost.energy_pj,
                "cycles": cost.cycles,
                "bound_by": causes,
            }
            for layer, cost, causes in zip(
                group.layers, found.layers, cycles_by_cause(group, mapping), strict=True
            )
        },
        **({"pipelines": pipelines} if pipelines else {}),
    }
