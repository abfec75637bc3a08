"""An architecture and mappings on it as Timeloop's input files of version 0.3 (Thistle's Figures 2 and 3).

Written are what Timeloop's model and mapper read: the architecture as nested subtrees, the energies and areas
in Accelergy's tables, for each layer its problem, its mapping, and constraints. Read back, all of them are
what they were made of: the tables carry every energy, so that the class names of memories decide nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from costmodel.errors import InputError
from costmodel.formats.cases.problem import shape_of_layer
from costmodel.formats.timeloop.export import Version, mapping_text
from costmodel.hardware.architecture import Architecture, StorageLevel
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Layer

VERSION: Version = "0.3"
ARCHITECTURE_FILE, TABLES_FILE = "timeloop.architecture.yaml", "timeloop.energies.yaml"


@dataclass(frozen=True)
class MappedLayerText:
    """The files of one layer: the texts of its problem, its mapping and its constraints."""

    problem: str
    mapping: str
    constraints: str


def architecture_text(architecture: Architecture) -> str:
    """The section ``architecture``: a subtree for each level, of as many instances as the level above has
    below it, and the MAC units beside the innermost memory.

    InputError for a size that is no multiple of a block, which a number of rows cannot state.
    """
    if architecture.precision is not None:
        expected = "no precision: Timeloop counts every element as a word"
        raise InputError(f"architecture {architecture.name}", expected, "one", key="precision")
    clock = {"global_cycle_seconds": 1 / architecture.frequency_hz}
    root: dict[str, Any] = {"name": "system", "attributes": clock}
    node = root
    x = y = 1
    for index, level in enumerate(reversed(architecture.levels)):
        memory = {"name": level.name, "class": _class_of(level, architecture)}
        node["local"] = [memory | {"attributes": _attributes(level) | {"meshX": x, "meshY": y}}]
        x, y = x * level.fanout_x, y * level.fanout_y
        if index < len(architecture.levels) - 1:
            inner: dict[str, Any] = {"name": f"below_{level.name}{_array(level.fanout)}"}
            node["subtree"] = [inner]
            node = inner
    innermost = architecture.levels[0]
    macs = {
        "name": f"{architecture.compute.name}{_array(innermost.fanout)}",
        "class": "intmac",
        "attributes": {"datawidth": architecture.compute.word_bits, "meshX": x, "meshY": y},
    }
    node["local"].append(macs)
    return _dumped(f"{architecture.name}", {"architecture": {"version": 0.3, "subtree": [root]}})


def tables_text(architecture: Architecture) -> str:
    """The sections ``ERT`` and ``ART``: pJ of an access or a multiply-accumulate, um2 of an instance."""
    energies, areas = [], []
    for level in reversed(architecture.levels):
        actions = {
            "read": level.read_energy_pj,
            "write": level.write_energy_pj,
            "update": level.update_energy_pj,
            "leak": level.leakage_pj_per_cycle,
        }
        energies.append(_table(level.name, actions))
        areas.append({"name": f"system.{level.name}", "area": level.area_um2})
    compute = architecture.compute
    energies.append(_table(compute.name, {"mac_random": compute.energy_pj}))
    areas.append({"name": f"system.{compute.name}", "area": compute.area_um2})
    tables = {"ERT": {"version": 0.3, "tables": energies}, "ART": {"version": 0.3, "tables": areas}}
    return _dumped(f"{architecture.name}: energies in pJ, areas in um2", tables)


def mapped_layer_text(architecture: Architecture, layer: Layer, mapping: Mapping) -> MappedLayerText:
    """The files of ``layer`` on ``architecture``; InputError for dims of several letters, which 0.3 lacks.

    The constraints leave a mapper the choices that co-design made: which tensors a level keeps is stated as
    the mapping has it, factors and loop orders are free.
    """
    kept = [
        {
            "target": hardware.name,
            "type": "bypass",
            "keep": [tensor.name for tensor in layer.tensors if tensor.name in level.keep],
            "bypass": [tensor.name for tensor in layer.tensors if tensor.name not in level.keep],
        }
        for hardware, level in zip(architecture.levels, mapping.levels, strict=True)
    ]
    return MappedLayerText(
        problem_text(layer),
        mapping_text(architecture, layer, mapping, VERSION),
        _dumped(f"{layer.name}: what levels keep", {"mapspace_constraints": {"targets": kept}}),
    )


def problem_text(layer: Layer) -> str:
    """The section ``problem``, with the shape spelt out; every step of a window has a coefficient."""
    shape = shape_of_layer(layer)
    coefficients = {entry["name"]: entry["default"] for entry in shape["coefficients"]}
    # Timeloop has no roles: names tell the tensors apart
    spaces = [{key: value for key, value in space.items() if key != "role"} for space in shape["data_spaces"]]
    written = {
        "shape": {
            "name": _word(layer.name),
            "dimensions": shape["dimensions"],
            "coefficients": shape["coefficients"],
            "data-spaces": [_hyphened(space) for space in spaces],
        },
        "instance": {**layer.sizes, **coefficients},
    }
    return _dumped(layer.name, {"problem": written})


def files_of(architecture: Architecture, mapped: Sequence[tuple[Layer, Mapping]]) -> dict[str, str]:
    """All files by name: the chip's two, and three for each layer, numbered in their order."""
    found = {ARCHITECTURE_FILE: architecture_text(architecture), TABLES_FILE: tables_text(architecture)}
    digits = len(str(len(mapped)))
    for number, (layer, mapping) in enumerate(mapped, 1):
        stem = f"{number:0{digits}}-{_word(layer.name)}"
        texts = mapped_layer_text(architecture, layer, mapping)
        found[f"{stem}.problem.yaml"] = texts.problem
        found[f"{stem}.mapping.yaml"] = texts.mapping
        found[f"{stem}.constraints.yaml"] = texts.constraints
    return found


def _attributes(level: StorageLevel) -> dict[str, Any]:
    block = level.block_size
    found: dict[str, Any] = {"word-bits": level.word_bits, "block-size": block}
    found["width"] = level.word_bits * block
    if level.size_words is not None:
        if level.size_words % block:
            raise InputError(
                "Timeloop architecture", f"whole rows of {block} words", level.size_words, key=level.name
            )
        found["depth"] = level.size_words // block
    for key in ("read_bandwidth", "write_bandwidth", "shared_bandwidth"):
        if (words := getattr(level, key)) is not None:
            found[key] = words
    if level.multiple_buffering != 1:
        found["multiple-buffering"] = level.multiple_buffering
    return found


def _class_of(level: StorageLevel, architecture: Architecture) -> str:
    """A class that Accelergy's users know; the energies are in the tables, whatever it is."""
    if level.size_words is None:
        return "DRAM"
    return "regfile" if level is architecture.levels[0] else "SRAM"


def _table(name: str, actions: dict[str, float]) -> dict[str, Any]:
    return {
        "name": f"system.{name}",
        "actions": [{"name": key, "arguments": None, "energy": value} for key, value in actions.items()],
    }


def _array(count: int) -> str:
    return f"[0..{count - 1}]" if count > 1 else ""


def _word(name: str) -> str:
    """The name with nothing in it that would need care in a file's name."""
    return "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name) or "layer"


def _hyphened(space: dict[str, Any]) -> dict[str, Any]:
    return {key.replace("_", "-"): value for key, value in space.items()}


def _dumped(title: str, document: dict[str, Any]) -> str:
    text = yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=100)
    return f"# {title}, for Timeloop {VERSION}\n{text}"
