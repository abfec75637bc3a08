"""Constraints of Timeloop, beside the architecture or inside its nodes, as bounds level by level."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.json.json_fields import known_names
from costmodel.formats.timeloop.architecture import FanOut, TimeloopArchitecture, dummy_name
from costmodel.formats.timeloop.components import Component
from costmodel.formats.timeloop.directives import (
    TYPES,
    Directive,
    Factor,
    directive,
    directives,
    known_target,
)
from costmodel.formats.timeloop.files import CONSTRAINT_SECTIONS, TimeloopFiles
from costmodel.workload.network import Layer

Bounds = tuple[str, int, int | None]
"""(dim, least, most): the smallest and the largest factor of a dim; most None: no limit."""


@dataclass(frozen=True)
class LevelConstraint:
    """The constraints on a mapping at one storage level.

    ``temporal`` and ``spatial`` bound factors. Temporal loops over the dims ``innermost`` are inside all
    others, its first dim innermost. ``spatial_x`` and ``spatial_y`` are the dims that may be on that side of
    the fan-out (None: any). Tensors in ``keep`` must be kept, those in ``bypass`` must not.
    """

    level: str
    temporal: tuple[Bounds, ...] = ()
    spatial: tuple[Bounds, ...] = ()
    innermost: tuple[str, ...] = ()
    spatial_x: tuple[str, ...] | None = None
    spatial_y: tuple[str, ...] | None = None
    keep: tuple[str, ...] = ()
    bypass: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data, without fields that constrain nothing: the form in which a mapping space reads it."""
        unsaid = asdict(LevelConstraint(self.level))
        return {key: value for key, value in asdict(self).items() if key == "level" or value != unsaid[key]}


def read_constraints(
    files: TimeloopFiles,
    architecture: TimeloopArchitecture,
    layer: Layer,
    elsewhere: frozenset[str] = frozenset(),
) -> tuple[LevelConstraint, ...]:
    """The constraints of all sections and nodes for ``layer``, an entry for every level that has some.

    A permutation orders the loops that it names, inside all others, as Timeloop's mapper takes it. A factor
    of 0, or above the dim's size, is the whole dim. Files may constrain several layers: dims and tensors that
    are only in other ones (``elsewhere``) are ignored. Raises InputError with file and key for constraints
    that contradict each other, name unknown things, or cannot be modelled.
    """
    builders = {memory.name: _ConstraintBuilder(memory.name, layer) for memory in architecture.memories}
    for found in _all_directives(files, architecture):
        asked = replace(found, elsewhere=elsewhere)
        if not asked.inside:
            known_target(asked, {*builders, *architecture.fan_outs})
        if asked.type == "spatial":
            fan_out = _fan_out(asked, architecture)
            builders[fan_out.level].add_spatial(asked, fan_out.sides)
        elif asked.target in builders:
            builders[asked.target].add(asked)
        else:
            _check_container(asked, layer)
    built = (builder.constraint() for builder in builders.values())
    return tuple(constraint for constraint in built if constraint != LevelConstraint(constraint.level))


def dims_spoken_of(
    files: TimeloopFiles, architecture: TimeloopArchitecture, known: Collection[str]
) -> frozenset[str]:
    """Every dim that the constraints bound or order. ``known``: all dims that may be named."""
    spoken = (
        asked.dims(known)
        for asked in _all_directives(files, architecture)
        if asked.type in ("temporal", "spatial")
    )
    return frozenset().union(*spoken)


def _all_directives(files: TimeloopFiles, architecture: TimeloopArchitecture) -> Iterator[Directive]:
    """The constraints inside the architecture's nodes, then those of the sections beside it."""
    for part in architecture.parts:
        yield from _of_node(part, architecture.file)
    for name in CONSTRAINT_SECTIONS:
        if name in files.sections:
            section = files.sections[name]
            data, key = section.data, name
            if isinstance(data, dict):
                known_names(data, ("version", "targets"), section.file, name)
                data, key = data.get("targets", []), f"{name}.targets"
            yield from directives(data, section.file, key)


def _of_node(part: Component, file: str) -> Iterator[Directive]:
    key = f"{part.key}.constraints"
    for kind, data in part.constraints.items():
        if kind not in TYPES:
            raise InputError(file, "temporal, spatial or dataspace", kind, key=f"{key}.{kind}")
        if data:
            found = directive(part.name, {"type": kind, **data}, file, f"{key}.{kind}")
            yield replace(found, inside=True, parallel=part.parallel)
    # without it nobody could tell which of the memories side by side has a tensor
    if part.parallel and "keep" not in (part.constraints.get("dataspace") or {}):
        expected = "the tensors that it keeps: memories side by side must share them out"
        raise InputError(file, expected, "none", "Add dataspace: {keep: [...]}", key=key)


def _fan_out(asked: Directive, architecture: TimeloopArchitecture) -> FanOut:
    """The fan-out that a spatial constraint bounds: inside a node it is the node's own, not what is below."""
    if not asked.inside:
        return architecture.fan_outs[asked.target]
    own = dummy_name(asked.target)
    if own not in architecture.fan_outs:
        expected = "spatial constraints only where spatial: {meshX, meshY} fans out"
        raise InputError(asked.file, expected, asked.target, key=asked.key)
    return architecture.fan_outs[own]


def _check_container(asked: Directive, layer: Layer) -> None:
    """Refuse constraints on a container unless they say that it has no loops and keeps no tensor."""
    if asked.type == "dataspace" and asked.tensors("keep", layer):
        raise asked.refused("nothing: it is no memory", asked.data["keep"], "keep")
    for factor in asked.factors(layer) if asked.type == "temporal" else ():
        if factor.value != 1 or factor.relation == ">=":
            raise asked.refused("factors of 1: it is no memory", factor, "factors")


class _ConstraintBuilder:
    """The constraint of one level, put together from the directives that speak of it."""

    def __init__(self, level: str, layer: Layer) -> None:
        self._level, self._layer = level, layer
        self._temporal: dict[str, Bounds] = {}
        self._spatial: dict[str, Bounds] = {}
        self._one_sided: list[tuple[Directive, str, Bounds]] = []
        self._sides: dict[str, list[str]] = {"x": list(layer.sizes), "y": list(layer.sizes)}
        self._innermost: list[str] = []
        self._keep: list[str] = []
        self._bypass: list[str] = []

    def add(self, asked: Directive) -> None:
        if asked.type == "temporal":
            self._bound(self._temporal, asked, map(_bounds, asked.factors(self._layer)))
            order = asked.permutation(self._layer)
            if order and self._innermost and order != self._innermost:
                raise asked.refused(f"one order, {' '.join(self._innermost)}", " ".join(order), "permutation")
            self._innermost = order or self._innermost
            return
        keep, bypass = asked.tensors("keep", self._layer), asked.tensors("bypass", self._layer)
        if asked.parallel:
            # what one of the memories side by side does not keep goes past it, to another of them
            bypass = [tensor.name for tensor in self._layer.tensors if tensor.name not in keep]
        self._keep += [name for name in keep if name not in self._keep]
        self._bypass += [name for name in bypass if name not in self._bypass]
        if both := sorted(set(self._keep) & set(self._bypass)):
            raise asked.refused("a tensor either in keep or in bypass", ", ".join(both), "keep")

    def add_spatial(self, asked: Directive, sides: str) -> None:
        """Add bounds on the whole fan-out, or on the one side that belongs to a container.

        Those on one side wait until all are known: see :meth:`_settle_one_sided`.
        """
        factors = asked.factors(self._layer)
        order = {"x": list(self._layer.sizes), "y": list(self._layer.sizes)}
        if asked.split is not None:
            order["x"], order["y"] = asked.split_permutation(self._layer, asked.split)
        for side in sides or "xy":
            self._sides[side] = [dim for dim in self._sides[side] if dim in order[side]]
        if sides == "xy" or not sides:
            self._bound(self._spatial, asked, map(_bounds, factors))
        else:
            self._one_sided += [(asked, sides, _bounds(factor)) for factor in factors]

    def _bound(self, known: dict[str, Bounds], asked: Directive, found: Iterable[Bounds]) -> None:
        for bounds in found:
            dim = bounds[0]
            if known.setdefault(dim, bounds) != bounds:
                expected = f"one constraint on {dim} at {self._level}, {_shown(known[dim])}"
                raise asked.refused(expected, _shown(bounds), "factors")

    def _settle_one_sided(self) -> None:
        """Turn bounds on the factors of one side into bounds on both sides together.

        A mapping space bounds a dim's spatial factor as a whole, and says which dims may be on which side. So
        a bound of 1 on a side keeps the dim off it. Any other bound is one of the whole only if the dim is
        kept off the other side.
        """
        for _, side, (dim, _, most) in self._one_sided:
            if most == 1:
                self._sides[side] = [other for other in self._sides[side] if other != dim]
        for asked, side, (dim, least, most) in self._one_sided:
            if most == 1:
                continue
            other = "y" if side == "x" else "x"
            if least > 1:
                self._sides[other] = [name for name in self._sides[other] if name != dim]
            elif dim in self._sides[other]:
                remedy = f"Keep {dim} off the other side with {dim}=1 there"
                raise asked.refused(
                    f"a bound on both sides of {dim}", f"one on {side.upper()}", "factors", remedy
                )
            self._bound(self._spatial, asked, [(dim, least, most)])

    def constraint(self) -> LevelConstraint:
        self._settle_one_sided()
        x, y = (
            None if len(self._sides[side]) == len(self._layer.sizes) else tuple(self._sides[side])
            for side in "xy"
        )
        return LevelConstraint(
            self._level,
            tuple(self._temporal.values()),
            tuple(self._spatial.values()),
            tuple(self._innermost),
            x,
            y,
            tuple(self._keep),
            tuple(self._bypass),
        )


def _bounds(factor: Factor) -> Bounds:
    # an equality is both a least and a most
    least = 1 if factor.relation == "<=" else factor.value
    return factor.dim, least, None if factor.relation == ">=" else factor.value


def _shown(bounds: Bounds) -> str:
    dim, least, most = bounds
    if least == most:
        return f"{dim}={least}"
    return f"{dim}>={least}" if most is None else f"{dim}<={most}"
