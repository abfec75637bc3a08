"""Mappings read from Timeloop's YAML."""

from __future__ import annotations

from costmodel.errors import InputError
from costmodel.formats.timeloop.architecture import FanOut
from costmodel.formats.timeloop.directives import Directive, directives, known_target
from costmodel.formats.timeloop.files import TimeloopFiles
from costmodel.hardware.architecture import Architecture, StorageLevel
from costmodel.mapping.mapping import LevelMapping, Loop, Mapping, loops, violations
from costmodel.workload.network import Layer


def read_mapping(
    files: TimeloopFiles,
    architecture: Architecture,
    layer: Layer,
    fan_outs: dict[str, FanOut] | None = None,
) -> Mapping:
    """The mapping of the section ``mapping``, a list of directives in any order.

    A missing directive means factors of 1. A tensor that no directive names at a level is kept there if the
    level can hold it. ``fan_outs`` are the spatial targets besides the levels (see
    :attr:`TimeloopArchitecture.fan_outs`). Raises InputError with file and key for mistakes in the file, and
    for a mapping with violations.
    """
    section = files.section("mapping")
    reader = _MappingReader(architecture, layer, fan_outs or {})
    for found in directives(section.data, section.file, "mapping"):
        reader.add(found)
    mapping = reader.mapping()
    if reasons := violations(architecture, layer, mapping):
        expected = f"a mapping of {layer.name} on {architecture.name}"
        raise InputError(section.file, expected, "; ".join(reasons), key="mapping")
    return mapping


class _MappingReader:
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
        # Two of a type for one target contradict each other; taking either would hide that.
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
        split = self._split(found, fan_out)
        for side, part in (("x", loops(order[:split])), ("y", loops(order[split:]))):
            if part and side not in fan_out.sides:
                expected = f"factors of 1 on {side.upper()}, where {found.target} does not fan out"
                raise found.refused(expected, " ".join(f"{dim}={bound}" for dim, bound in part), "split")
            self._spatial[fan_out.level, side] = self._spatial.get((fan_out.level, side), ()) + part

    def _split(self, found: Directive, fan_out: FanOut) -> int:
        """The stated split, or the only one that makes sense where the fan-out is along a single axis."""
        if found.split is not None:
            return found.split
        level = self._levels[fan_out.level]
        if level.fanout_y == 1 or fan_out.sides == "x":
            # All dims are before the split, and so on X.
            return len(self._layer.sizes)
        if level.fanout_x == 1 or fan_out.sides == "y":
            return 0
        raise found.refused("how many leading dims of the permutation are on X", "nothing", "split")

    def _check_container(self, found: Directive) -> None:
        if found.type == "dataspace" and (kept := found.tensors("keep", self._layer)):
            raise found.refused("nothing: it is no memory", kept, "keep")
        if found.type == "temporal" and (looped := loops(self._ordered(found))):
            raise found.refused("factors of 1: it is no memory", looped, "factors")

    def _ordered(self, found: Directive, *, whole: bool = False) -> tuple[Loop, ...]:
        """The directive's loops, innermost first; ``whole``: with those of bound 1, which a split counts."""
        bounds = {}
        for factor in found.factors(self._layer):
            if factor.relation != "=":
                raise found.refused("factors such as C=4", f"{factor.dim}{factor.relation}", "factors")
            bounds[factor.dim] = factor.value
        order = found.permutation(self._layer)
        missing = [dim for dim, bound in bounds.items() if bound > 1 and dim not in order]
        # A single loop has only one order. With more, leaving dims out would mean an order that nobody has
        # stated.
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
