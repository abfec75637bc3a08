"""The mapping space as studies and constraint files write it: bypass, constraints, padding, uneven tiles."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from costmodel.errors import InputError, did_you_mean
from costmodel.formats.yaml.file_keys import Keys, check_keys
from costmodel.formats.yaml.safe_yaml import load_yaml
from costmodel.hardware.architecture import Architecture
from costmodel.workload.network import Layer
from solvers.mapping.space.rules import FactorRule, KeepRule, LevelRules, SpaceRules

Names = Annotated[tuple[str, ...], Field(strict=False)]


class FactorKeys(Keys):
    """Bounds on the factor of a dim; a plain number fixes it."""

    at_least: Annotated[int, Field(ge=1)] = 1
    """The least factor."""
    at_most: Annotated[int, Field(ge=1)] | None = None
    """The largest factor. Absent: any."""


Factors = dict[str, Annotated[int, Field(ge=1)] | FactorKeys]
"""Factors in the JSON Schema of files: a number, or bounds."""


class ConstraintKeys(Keys):
    """Constraints on mappings at one storage level."""

    level: str
    """The storage level."""
    temporal: dict[str, FactorKeys] = Field(default_factory=dict)
    """By dim, the factor in the level's temporal loops."""
    spatial: dict[str, FactorKeys] = Field(default_factory=dict)
    """By dim, the factor over both sides of the fan-out below the level."""
    innermost: Names = ()
    """Dims whose loops are inside all others of the level, the first innermost."""
    outermost: Names = ()
    """Dims whose loops are around all others of the level."""
    spatial_x: Names | None = None
    """The dims that may be spread over the fan-out's columns. Absent: all."""
    spatial_y: Names | None = None
    """The dims that may be spread over the fan-out's rows. Absent: all."""
    keep: Names = ()
    """Tensors, by name or role, that the level must keep."""
    bypass: Names = ()
    """Tensors, by name or role, that the level must not keep."""

    @field_validator("temporal", "spatial", mode="before", json_schema_input_type=Factors)
    @classmethod
    def _fixed(cls, factors: Any) -> Any:
        if not isinstance(factors, dict):
            return factors
        return {
            dim: {"at_least": given, "at_most": given} if isinstance(given, int) else given
            for dim, given in factors.items()
        }

    @model_validator(mode="after")
    def _consistent(self) -> ConstraintKeys:
        self.rules()  # its checks run here, so that an error names this entry of the file
        return self

    def rules(self) -> LevelRules:
        return LevelRules(
            self.level,
            _factor_rules("temporal", self.temporal),
            _factor_rules("spatial", self.spatial),
            self.innermost,
            self.outermost,
            self.spatial_x,
            self.spatial_y,
            self.keep,
            self.bypass,
        )


def _factor_rules(block: str, factors: dict[str, FactorKeys]) -> tuple[FactorRule, ...]:
    try:
        return tuple(FactorRule(dim, keys.at_least, keys.at_most) for dim, keys in factors.items())
    except InputError as error:
        raise error.at("", block) from None


class SpaceKeys(Keys):
    """Which mappings are allowed."""

    keep: KeepRule = "fitting"
    """What levels keep.

    fitting: all they can hold, or each largest set that fits. all: all they can hold. free: any bypass.
    """
    padding: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The fraction of itself by which a dim may grow, for sizes with more divisors: 0.05 is 5 %."""
    padded_dims: Names | None = None
    """The dims that may grow. Absent: all."""
    uneven: bool = False
    """Whether each tensor that a level keeps may end its tiles at another loop."""
    uneven_levels: Names | None = None
    """The levels of uneven mappings. Absent: every level that may keep several tensors, but the outermost."""
    constraints: Annotated[tuple[ConstraintKeys, ...], Field(strict=False)] = ()
    """What single levels must look like, at most one entry each."""

    @field_validator("constraints")
    @classmethod
    def _consistent(cls, constraints: tuple[ConstraintKeys, ...]) -> tuple[ConstraintKeys, ...]:
        levels = [constraint.level for constraint in constraints]
        for position, level in enumerate(levels):
            if level in levels[:position]:
                raise InputError("", "one constraint a level", level, key=f"[{position}].level")
        return constraints

    @property
    def rules(self) -> SpaceRules:
        levels = tuple(asked.rules() for asked in self.constraints)
        return SpaceRules(self.keep, levels, self.padding, self.padded_dims, self.uneven, self.uneven_levels)


def load_space(path: Path) -> SpaceKeys:
    """The space that a constraint file describes: ``keep``, ``padding``, ``uneven``, ``constraints``."""
    return check_keys(SpaceKeys, load_yaml(path), str(path))


def load_rules(path: Path) -> SpaceRules:
    """The rules of the space that a constraint file describes."""
    return load_space(path).rules


def space_document(keys: SpaceKeys) -> dict[str, Any]:
    """The keys of a space as a file would state them, without those that have their default."""
    return keys.model_dump(mode="json", include=set(SpaceKeys.model_fields), exclude_defaults=True)


def check_rules(
    rules: SpaceRules, architecture: Architecture, layers: Iterable[Layer], study: str = "study"
) -> None:
    """Raise InputError for a level that the architecture lacks, or a dim or tensor that no layer has.

    ``study``: the name that errors give to the file with the rules in its mapping block.
    """
    try:
        _check_names(rules, layers := list(layers))
        rules.check_levels(architecture)
        # A rule may name a dim that only some layers have. So each layer is checked against the rules that
        # apply to it; names that no layer has were refused above.
        for layer in layers:
            rules.for_layer(layer).check(architecture, layer)
    except InputError as error:
        raise error.at(study, _key_of(error.where, rules)) from None


def _key_of(where: str, rules: SpaceRules) -> str:
    """The key of a study's mapping block to which an error of the rules refers."""
    constraints = [f"constraint on {asked.level}" for asked in rules.levels]
    return f"mapping.constraints[{constraints.index(where)}]" if where in constraints else "mapping"


def _check_names(rules: SpaceRules, layers: Iterable[Layer]) -> None:
    """InputError for a name in the rules that is no dim, tensor or role of any layer."""
    known = {name for layer in layers for name in _names(layer)}
    spoken_of = {
        f"constraint on {asked.level}": [*sorted(asked.dims), *asked.keep, *asked.bypass]
        for asked in rules.levels
    }
    for where, names in {**spoken_of, "mapping space": rules.padded_dims or ()}.items():
        for name in names:
            if name not in known:
                expected = f"dims, tensors or roles of some layer among {', '.join(sorted(known))}"
                key = "padded_dims" if where == "mapping space" else ""
                raise InputError(where, expected, name, did_you_mean(name, sorted(known)), key=key)


def _names(layer: Layer) -> set[str]:
    return {*layer.sizes, *(name for tensor in layer.tensors for name in (tensor.name, tensor.role))}
