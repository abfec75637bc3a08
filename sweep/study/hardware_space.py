"""Reads the constraints on mappings that an architecture file states for its machine, as our rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from costmodel.errors import InputError
from costmodel.formats.architectures import stated_constraints
from costmodel.formats.yaml.file_keys import Keys, check_keys
from costmodel.hardware.timing import LayerKind
from costmodel.workload.network import Layer
from solvers.mapping.space.rules import SpaceRules
from sweep.study.mapping_space import ConstraintKeys

Entries = Annotated[tuple[ConstraintKeys, ...], Field(strict=False)]


class HardwareConstraints(Keys):
    """The ``constraints`` of an architecture file."""

    convolution: Entries = ()
    """Constraints on layers with the dims P, Q, R and S."""
    product: Entries = ()
    """Constraints on layers with the dims M, N and K."""


def layer_kind(layer: Layer) -> LayerKind | None:
    """Whether the layer is a convolution or a matrix product by its dims; None for any other."""
    if {"P", "Q", "R", "S"} <= layer.sizes.keys():
        return "convolution"
    return "product" if {"M", "N", "K"} <= layer.sizes.keys() else None


def with_hardware_constraints(rules: SpaceRules, architecture: str, layer: Layer) -> SpaceRules:
    """``rules`` together with those that the architecture's file puts on mappings of ``layer``.

    ``architecture``: as ``load_architecture`` takes it; one whose file states no constraints changes no rule.
    InputError with file and key, also where both have rules for the same level.
    """
    stated = stated_constraints(architecture) if architecture else {}
    if not stated:
        return rules
    try:
        entries = check_keys(HardwareConstraints, stated, architecture)
    except InputError as error:
        raise error.at(architecture, "constraints") from None
    kind = layer_kind(layer)
    asked = [entry.rules() for entry in (getattr(entries, kind) if kind else ())]
    if twice := sorted({level.level for level in asked} & {level.level for level in rules.levels}):
        raise InputError(
            architecture,
            "no constraints on a level for which the hardware's own stand in its file",
            f"others for {', '.join(twice)}",
            "Leave them out, or copy the architecture's file and change them there",
            key=f"constraints.{kind}",
        )
    of_layer = SpaceRules(levels=tuple(asked)).for_layer(layer).levels
    return replace(rules, levels=(*rules.levels, *of_layer))
