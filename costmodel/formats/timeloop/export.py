"""Mappings written to Timeloop's YAML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

import yaml

from costmodel.errors import InputError
from costmodel.formats.timeloop.architecture import FanOutStep
from costmodel.hardware.architecture import Architecture, StorageLevel
from costmodel.mapping.mapping import LevelMapping, Loop
from costmodel.mapping.mapping import Mapping as LayerMapping
from costmodel.mapping.uneven import AnyMapping, UnevenMapping
from costmodel.workload.network import Layer

Version = Literal["0.3", "0.4"]
VERSIONS: tuple[Version, ...] = get_args(Version)
Steps = Mapping[str, Sequence[FanOutStep]]
"""By memory, the steps of its fan-out (:attr:`TimeloopArchitecture.fan_out_steps`).

A memory that is missing here is itself the target of its spatial loops.
"""


def mapping_directives(
    architecture: Architecture,
    layer: Layer,
    mapping: LayerMapping,
    version: Version = "0.4",
    steps: Steps | None = None,
) -> list[dict[str, Any]]:
    """The content of ``mapping:``, outermost level first: temporal, spatial, and what is kept.

    Every block names every dim, as Timeloop requires, and there is a spatial block wherever the hardware fans
    out. Version 0.4 is for Timeloop's Python front end, whose targets are nodes. Version 0.3 is for the
    program itself: it has a dummy memory for every node that fans out, and reads a permutation letter by
    letter, so that dims of several letters raise InputError. Layouts are left out: Timeloop has none, and
    what it counts does not depend on them.
    """
    check_version(version)
    written: list[dict[str, Any]] = []
    for hardware, level in reversed(list(zip(architecture.levels, mapping.levels, strict=True))):
        whole = (FanOutStep(hardware.name, hardware.name, "xy"),)
        parts = (steps or {}).get(hardware.name) or whole
        written.append(_block(hardware.name, "temporal", level.temporal, layer, version))
        written.append(_kept(hardware.name, level.keep, layer, version))
        written += _fan_out(hardware, level, parts, layer, version)
    return written


def _fan_out(
    hardware: StorageLevel, level: LevelMapping, steps: Sequence[FanOutStep], layer: Layer, version: Version
) -> Iterator[dict[str, Any]]:
    for step in steps if hardware.fanout > 1 else ():
        target = step.node if version == "0.4" else step.memory
        x, y = (level.spatial_x if "x" in step.sides else ()), (level.spatial_y if "y" in step.sides else ())
        split = len(layer.sizes) if step.sides == "x" else len(x)
        yield _block(target, "spatial", (*x, *y), layer, version) | {"split": split}
        # A node that fans out is a dummy memory there, which has to be told that it loops over nothing and
        # keeps nothing.
        if version == "0.3" and target != hardware.name:
            yield _block(target, "temporal", (), layer, version)
            yield _kept(target, (), layer, version)


def _kept(target: str, kept: Iterable[str], layer: Layer, version: Version) -> dict[str, Any]:
    names, kept = [tensor.name for tensor in layer.tensors], frozenset(kept)
    return {
        "target": target,
        "type": "bypass" if version == "0.3" else "dataspace",
        "keep": [name for name in names if name in kept],
        "bypass": [name for name in names if name not in kept],
    }


def check_version(version: str) -> None:
    """Raise InputError for a version other than those in which mappings are written."""
    if version not in VERSIONS:
        raise InputError("Timeloop mapping", " or ".join(VERSIONS), version, key="version")


def mapping_text(
    architecture: Architecture,
    layer: Layer,
    mapping: AnyMapping,
    version: Version = "0.4",
    steps: Steps | None = None,
) -> str:
    """A Timeloop file with the section ``mapping``, as :func:`mapping_directives` has it.

    A comment gives the sizes of ``layer``, which are larger than the problem's where dims are padded. Raises
    InputError for an uneven mapping, which Timeloop cannot express.
    """
    if isinstance(mapping, UnevenMapping):
        expected = "a mapping whose tensors all end their tiles of a level at the same loop"
        raise InputError("Timeloop mapping", expected, "an uneven one", "Solve without uneven mappings")
    document = {"mapping": mapping_directives(architecture, layer, mapping, version, steps)}
    sizes = " ".join(f"{dim}={size}" for dim, size in layer.dims)
    title = " ".join(f"# {layer.name} ({sizes}) on {architecture.name}, for Timeloop {version}".split())
    return f"{title}\n{yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=100)}"


def _block(target: str, kind: str, block: Sequence[Loop], layer: Layer, version: Version) -> dict[str, Any]:
    bounds = dict(block)
    order = [*bounds, *(dim for dim in layer.sizes if dim not in bounds)]
    separator = " " if version == "0.3" else ","
    factors = separator.join(f"{dim}={bounds.get(dim, 1)}" for dim in layer.sizes)
    return {
        "target": target,
        "type": kind,
        "factors": factors,
        "permutation": _permutation(order, version),
    }


def _permutation(order: Iterable[str], version: Version) -> str:
    dims = list(order)
    if all(len(dim) == 1 for dim in dims):
        return "".join(dims)
    if version == "0.3":
        expected = "dims of one letter, as version 0.3 writes permutations"
        raise InputError(
            "Timeloop mapping", expected, ", ".join(dims), "Write version 0.4", key="permutation"
        )
    return ",".join(dims)
