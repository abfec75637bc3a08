"""Mappings of Timeloop, read from its YAML and written to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

import yaml

from costmodel.architecture import Architecture, StorageLevel
from costmodel.errors import InputError
from costmodel.frontends.timeloop_architecture import FanOut
from costmodel.frontends.timeloop_directives import Directive, directives, known_target
from costmodel.frontends.timeloop_files import TimeloopFiles
from costmodel.mapping import LevelMapping, Loop, Mapping, loops, violations
from costmodel.workload import Layer

Version = Literal["0.3", "0.4"]
VERSIONS: tuple[Version, ...] = get_args(Version)


def read_mapping(
    files: TimeloopFiles,
    architecture: Architecture,
    layer: Layer,
    fan_outs: dict[str, FanOut] | None = None,
) -> Mapping:
    """The mapping of the section ``mapping``, a list of directives in any order.

    A directive that does not stand there says factors of 1; a tensor that no directive names at a level is
    kept there if the level can hold it. ``fan_outs`` are the spatial targets beside the levels (see
    :attr:`TimeloopArchitecture.fan_outs`). Raises InputError with file and key for what is wrong in the
    file, and for a mapping with violations.
    """
    section = files.section("mapping")
    reader = _Reader(architecture, layer, fan_outs or {})
    for found in directives(section.data, section.file, "mapping"):
        reader.add(found)
    mapping = reader.mapping()
    if reasons := violations(architecture, layer, mapping):
        expected = f"a mapping of {layer.name} on {architecture.name}"
        raise InputError(section.file, expected, "; ".join(reasons), key="mapping")
    return mapping


class _Reader:
    """The blocks of every level, filled directive by directive."""

    def __init__(self, architecture: Architecture, layer: Layer, fan_outs: dict[str, FanOut]) -> None:
        self._architecture, self._layer = architecture, layer
        self._levels = {level.name: level for level in architecture.levels}
        self._fan_outs = {name: FanOut(name, "xy") for name in self._levels} | fan_outs
        self._seen: dict[tuple[str, str], Directive] = {}
        self._temporal: dict[str, tuple[Loop, ...]] = {}
        self._spatial: dict[tuple[str, str], tuple[Loop, ...]] = {}
        self._bypass: dict[str, set[str]] = {name: set() for name in self._levels}

    def add(self, found: Directive) -> None:
        known_target(found, self._fan_outs)
        if self._seen.setdefault((found.target, found.type), found) is not found:
            raise found.refused(f"one {found.type} directive a target", f"another for {found.target}", "type")
        if found.type == "spatial":
            self._add_spatial(found, self._fan_outs[found.target])
        elif found.target not in self._levels:
            self._check_container(found)
        elif found.type == "temporal":
            self._temporal[found.target] = self._ordered(found)
        else:
            self._add_tensors(found)

    def _add_tensors(self, found: Directive) -> None:
        keep, bypass = found.tensors("keep", self._layer), found.tensors("bypass", self._layer)
        if both := sorted(set(keep) & set(bypass)):
            raise found.refused("a tensor either in keep or in bypass", ", ".join(both), "keep")
        self._bypass[found.target] |= set(bypass)

    def _add_spatial(self, found: Directive, fan_out: FanOut) -> None:
        order = self._ordered(found, whole=True)
        if fan_out.sides in ("x", "y"):
            parts = {fan_out.sides: order}
        else:
            split = self._split(found, self._levels[fan_out.level])
            parts = {"x": order[:split], "y": order[split:]}
        for side, part in parts.items():
            self._spatial[fan_out.level, side] = self._spatial.get((fan_out.level, side), ()) + loops(part)

    def _split(self, found: Directive, level: StorageLevel) -> int:
        """The split that is given, or that a fan-out along one axis alone leaves no choice of."""
        if found.split is not None:
            return found.split
        if level.fanout_y == 1:
            return len(self._layer.sizes)
        if level.fanout_x == 1:
            return 0
        raise found.refused("how many leading dims of the permutation are on X", "nothing", "split")

    def _check_container(self, found: Directive) -> None:
        if found.type == "dataspace" and (kept := found.tensors("keep", self._layer)):
            raise found.refused("nothing: it is no memory", kept, "keep")
        if found.type == "temporal" and (looped := loops(self._ordered(found))):
            raise found.refused("factors of 1: it is no memory", looped, "factors")

    def _ordered(self, found: Directive, *, whole: bool = False) -> tuple[Loop, ...]:
        """Its loops, innermost first; ``whole``: with those of 1, which the split counts."""
        bounds = {}
        for factor in found.factors(self._layer):
            if factor.relation != "=":
                raise found.refused("factors such as C=4", f"{factor.dim}{factor.relation}", "factors")
            bounds[factor.dim] = factor.value
        order = found.permutation(self._layer)
        missing = [dim for dim, bound in bounds.items() if bound > 1 and dim not in order]
        if missing and len(missing) + len(order) > 1:
            expected = "every dim with a factor above 1"
            raise found.refused(expected, f"none of {', '.join(missing)}", "permutation")
        every = tuple((dim, bounds.get(dim, 1)) for dim in [*order, *missing])
        return every if whole else loops(every)

    def mapping(self) -> Mapping:
        return Mapping(
            tuple(
                LevelMapping(
                    self._temporal.get(level.name, ()),
                    self._spatial.get((level.name, "x"), ()),
                    self._spatial.get((level.name, "y"), ()),
                    self._kept(level),
                )
                for level in self._architecture.levels
            )
        )

    def _kept(self, level: StorageLevel) -> frozenset[str]:
        able = {tensor.name for tensor in self._layer.tensors if level.can_keep(tensor)}
        return frozenset(able - self._bypass[level.name])


def mapping_directives(
    architecture: Architecture, layer: Layer, mapping: Mapping, version: Version = "0.4"
) -> list[dict[str, Any]]:
    """The content of ``mapping:``, outermost level first: temporal, spatial, and what is kept.

    Every dim is named in every block, as Timeloop asks; spatial blocks stand where the hardware fans out.
    Version 0.3 reads a permutation letter by letter, so dims of several letters raise InputError there.
    """
    check_version(version)
    written: list[dict[str, Any]] = []
    for hardware, level in reversed(list(zip(architecture.levels, mapping.levels, strict=True))):
        written.append(_block(hardware.name, "temporal", level.temporal, layer, version))
        if hardware.fanout > 1:
            block = _block(hardware.name, "spatial", level.spatial, layer, version)
            written.append(block | {"split": len(level.spatial_x)})
        names = [tensor.name for tensor in layer.tensors]
        written.append(
            {
                "target": hardware.name,
                "type": "bypass" if version == "0.3" else "datatype",
                "keep": [name for name in names if name in level.keep],
                "bypass": [name for name in names if name not in level.keep],
            }
        )
    return written


def check_version(version: str) -> None:
    """InputError for a version that no mapping is written in."""
    if version not in VERSIONS:
        raise InputError("Timeloop mapping", " or ".join(VERSIONS), version, key="version")


def mapping_text(architecture: Architecture, layer: Layer, mapping: Mapping, version: Version = "0.4") -> str:
    """A Timeloop file with the section ``mapping``, as :func:`mapping_directives` has it."""
    document = {"mapping": mapping_directives(architecture, layer, mapping, version)}
    title = " ".join(f"# {layer.name} on {architecture.name}, for Timeloop {version}".split())
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
