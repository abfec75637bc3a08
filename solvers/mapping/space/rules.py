"""Which mappings a problem allows: what levels keep, the user's constraints level by level, and padding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass, fields, replace
from itertools import combinations
from typing import Any, Literal, get_args

from costmodel.errors import InputError, did_you_mean
from costmodel.hardware.architecture import Architecture, StorageLevel
from costmodel.hardware.precision import Precision
from costmodel.mapping.element_bits import fitting_sets
from costmodel.mapping.mapping import Loop
from costmodel.number_checks import is_number, is_whole
from costmodel.workload.network import Layer, Tensor

KeepRule = Literal["fitting", "free", "all"]
"""Which sets of tensors levels may keep. A set *fits* if a tile of one word of each of its tensors does.

"all": only the set of all tensors that the level can hold. "fitting": the same, or if that does not fit,
every largest set that does. "free": every set that fits."""

KEEP_SENTENCES: dict[KeepRule, str] = {
    "fitting": "every level keeps all it can hold, or the largest sets whose unit tiles fit",
    "free": "any bypass",
    "all": "every level keeps all it can hold",
}


@dataclass(frozen=True)
class FactorRule:
    """The factor of ``dim`` in one block of loops is from ``least`` to ``most`` (None: no limit)."""

    dim: str
    least: int = 1
    most: int | None = None

    def __post_init__(self) -> None:
        for key in ("least", "most"):
            value = getattr(self, key)
            if value is not None and not is_whole(value, 1):
                raise InputError("constraint", "a whole factor of at least 1", value, key=self.dim)
        if self.most is not None and self.least > self.most:
            found = f"at least {self.least}, at most {self.most}"
            raise InputError("constraint", "bounds that leave a factor", found, key=self.dim)

    def allows(self, factor: int) -> bool:
        """Whether the factor is within the bounds."""
        return self.least <= factor and (self.most is None or factor <= self.most)

    def __str__(self) -> str:
        if self.least == self.most:
            return f"{self.dim} = {self.least}"
        if self.least == 1:
            return self.dim if self.most is None else f"{self.dim} <= {self.most}"
        if self.most is None:
            return f"{self.dim} >= {self.least}"
        return f"{self.least} <= {self.dim} <= {self.most}"


@dataclass(frozen=True)
class LevelRules:
    """A user's constraints on the mapping at one level.

    * ``temporal`` and ``spatial`` bound the factors of dims; a spatial factor is the product of both sides.
    * ``innermost`` and ``outermost`` order the level's temporal loops: those over ``innermost`` stand inside
      all others, its first dim innermost, and those over ``outermost`` around all others, its first dim
      outermost. Loops of 1 do not count as loops.
    * ``spatial_x`` and ``spatial_y`` are the dims that may be spread on that side (None: any).
    * ``keep`` and ``bypass`` are the tensors, by name or by role, that must be kept and must not be.
    """

    level: str
    temporal: tuple[FactorRule, ...] = ()
    spatial: tuple[FactorRule, ...] = ()
    innermost: tuple[str, ...] = ()
    outermost: tuple[str, ...] = ()
    spatial_x: tuple[str, ...] | None = None
    spatial_y: tuple[str, ...] | None = None
    keep: tuple[str, ...] = ()
    bypass: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._each_once("temporal", [rule.dim for rule in self.temporal])
        self._each_once("spatial", [rule.dim for rule in self.spatial])
        self._each_once("innermost and outermost", [*self.innermost, *self.outermost])
        self._each_once("spatial_x", list(self.spatial_x or ()))
        self._each_once("spatial_y", list(self.spatial_y or ()))
        self._each_once("keep and bypass", [*self.keep, *self.bypass])

    def _each_once(self, key: str, names: list[str]) -> None:
        if twice := sorted({name for name in names if names.count(name) > 1}):
            expected = "every name once: a name twice contradicts itself"
            raise InputError(f"constraint on {self.level}", expected, ", ".join(twice), key=key)

    def temporal_rule(self, dim: str) -> FactorRule:
        """The bounds on the dim's temporal factor; if the user set none, bounds that allow everything."""
        return next((rule for rule in self.temporal if rule.dim == dim), FactorRule(dim))

    def spatial_rule(self, dim: str) -> FactorRule:
        """The bounds on the dim's spatial factor; if the user set none, bounds that allow everything."""
        return next((rule for rule in self.spatial if rule.dim == dim), FactorRule(dim))

    def allows_side(self, dim: str, side: Literal["x", "y"]) -> bool:
        """Whether the dim may be spread on that side of the fan-out."""
        dims = self.spatial_x if side == "x" else self.spatial_y
        return dims is None or dim in dims

    def must_keep(self, tensor: Tensor) -> bool:
        """Whether ``keep`` names the tensor or its role."""
        return bool({tensor.name, tensor.role} & set(self.keep))

    def may_keep(self, tensor: Tensor) -> bool:
        """Whether ``bypass`` names neither the tensor nor its role."""
        return not {tensor.name, tensor.role} & set(self.bypass)

    def ordered(self, loops: tuple[Loop, ...]) -> tuple[Loop, ...]:
        """``loops`` (innermost first), reordered only as far as the rules demand it."""
        return tuple(sorted(loops, key=lambda loop: self._rank(loop[0])))

    def inside_of(self, dim: str, dims: Iterable[str]) -> frozenset[str]:
        """Which of ``dims`` have their loops inside the loop over ``dim`` in every order that is allowed."""
        return frozenset(other for other in dims if self._rank(other) < self._rank(dim))

    def _rank(self, dim: str) -> int:
        """Loops of lower ranks stand inside those of higher ones; rank 0 are dims in any order."""
        if dim in self.innermost:
            return self.innermost.index(dim) - len(self.innermost)
        return len(self.outermost) - self.outermost.index(dim) if dim in self.outermost else 0

    def for_layer(self, layer: Layer) -> LevelRules:
        """The rules without dims and tensors that ``layer`` does not have."""
        names = {name for tensor in layer.tensors for name in (tensor.name, tensor.role)}
        x, y = self.spatial_x, self.spatial_y
        return replace(
            self,
            temporal=tuple(rule for rule in self.temporal if rule.dim in layer.sizes),
            spatial=tuple(rule for rule in self.spatial if rule.dim in layer.sizes),
            innermost=tuple(dim for dim in self.innermost if dim in layer.sizes),
            outermost=tuple(dim for dim in self.outermost if dim in layer.sizes),
            spatial_x=None if x is None else tuple(dim for dim in x if dim in layer.sizes),
            spatial_y=None if y is None else tuple(dim for dim in y if dim in layer.sizes),
            keep=tuple(name for name in self.keep if name in names),
            bypass=tuple(name for name in self.bypass if name in names),
        )

    @property
    def speaks_of_loops(self) -> bool:
        """Whether temporal loops are bounded or ordered."""
        return bool(self.temporal or self.innermost or self.outermost)

    @property
    def dims(self) -> frozenset[str]:
        """Every dim that the rules speak of."""
        bounded = [rule.dim for rule in (*self.temporal, *self.spatial)]
        sides = [*(self.spatial_x or ()), *(self.spatial_y or ())]
        return frozenset([*bounded, *self.innermost, *self.outermost, *sides])

    def describe(self) -> str:
        """``SRAM: temporal K = 4; on X only C; innermost R, S``."""
        parts = [f"{kind} {', '.join(map(str, rules))}" for kind, rules in self._bounded() if rules]
        for side, dims in (("X", self.spatial_x), ("Y", self.spatial_y)):
            if dims is not None:
                parts.append(f"on {side} only {', '.join(dims)}" if dims else f"nothing on {side}")
        lists = {word: getattr(self, word) for word in ("innermost", "outermost", "keep", "bypass")}
        parts += [f"{word} {', '.join(names)}" for word, names in lists.items() if names]
        return f"{self.level}: {', '.join(parts)}" if parts else ""

    def _bounded(self) -> Iterator[tuple[str, tuple[FactorRule, ...]]]:
        yield "temporal", self.temporal
        yield "spatial", self.spatial

    def to_json(self) -> dict[str, Any]:
        """Plain data, without rules that allow everything."""
        data: dict[str, Any] = {"level": self.level}
        for kind, rules in self._bounded():
            if rules:
                data[kind] = [[rule.dim, rule.least, rule.most] for rule in rules]
        for field in fields(self)[3:]:  # those after level, temporal and spatial
            if (names := getattr(self, field.name)) != field.default:
                data[field.name] = list(names)
        return data

    @classmethod
    def from_json(cls, data: ReadOnlyDict[str, Any]) -> LevelRules:
        """The rules that :meth:`to_json` made ``data`` of."""
        arguments: dict[str, Any] = {name: tuple(items) for name, items in data.items() if name != "level"}
        for kind in ("temporal", "spatial"):
            arguments[kind] = tuple(FactorRule(*bounds) for bounds in arguments.get(kind, ()))
        return cls(data["level"], **arguments)


@dataclass(frozen=True)
class SpaceRules:
    """Which mappings of a layer on an architecture a problem allows.

    * ``keep``: the sets of tensors that levels may keep, see :data:`KeepRule`.
    * ``levels``: the user's constraints, at most one entry a level.
    * ``padding``: a dim may be made larger by up to this fraction of its size; the layer then costs what its
      larger dims cost. 0 allows perfect factors only. ``padded_dims``: the dims that may be (None: any).
    * ``uneven``: every tensor may end its tile of a level at a loop of its own
      (:mod:`costmodel.mapping.uneven`), with at most one loop over each dim between neighbouring ends.
      ``uneven_levels``: the levels where that is so (None: any but the outermost).
    """

    keep: KeepRule = "fitting"
    levels: tuple[LevelRules, ...] = ()
    padding: float = 0.0
    padded_dims: tuple[str, ...] | None = None
    uneven: bool = False
    uneven_levels: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.keep not in get_args(KeepRule):
            expected = f"one of {', '.join(get_args(KeepRule))}"
            raise InputError("mapping space", expected, self.keep, key="keep")
        if not is_number(self.padding, 0, 1):
            expected = "a fraction of a dim's size from 0 to 1"
            raise InputError("mapping space", expected, self.padding, key="padding")
        if not isinstance(self.uneven, bool):
            raise InputError("mapping space", "true or false", self.uneven, key="uneven")
        names = [level.level for level in self.levels]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InputError("mapping space", "one constraint a level", ", ".join(twice), key="constraints")

    @property
    def even(self) -> SpaceRules:
        """The same without uneven mappings."""
        return replace(self, uneven=False, uneven_levels=None)

    def at(self, level: str) -> LevelRules:
        """The constraints on a level; if it has none, constraints that allow everything."""
        return next((rules for rules in self.levels if rules.level == level), LevelRules(level))

    def for_layer(self, layer: Layer) -> SpaceRules:
        """The rules without dims and tensors that ``layer`` does not have: a study states its constraints
        once for all its layers."""
        applying = (rules.for_layer(layer) for rules in self.levels)
        padded = self.padded_dims
        return replace(
            self,
            levels=tuple(rules for rules in applying if rules != LevelRules(rules.level)),
            padded_dims=None if padded is None else tuple(dim for dim in padded if dim in layer.sizes),
        )

    def check(self, architecture: Architecture, layer: Layer) -> None:
        """Raise InputError if a rule names an unknown level, dim or tensor, or cannot be obeyed."""
        self.check_levels(architecture)
        for dim in self.padded_dims or ():
            _check_dim("mapping space", dim, layer, "padded_dims")
        for rules in self.levels:
            level = architecture.levels[architecture.index(rules.level)]
            where = f"constraint on {level.name}"
            if rules.speaks_of_loops and most_parts(self, architecture, layer, level) > 1:
                expected = "none on temporal loops where tensors end their tiles at different ones"
                raise InputError(where, expected, rules.describe(), "Leave the level out of uneven_levels")
            for dim in sorted(rules.dims):
                _check_dim(where, dim, layer)
            for key in ("keep", "bypass"):
                for name in getattr(rules, key):
                    _check_tensor(where, key, name, layer)
            _check_keeps(where, rules, level, layer)
            if level is architecture.levels[-1] and rules.bypass:
                raise InputError(where, "nothing: the outermost level keeps all", rules.bypass, key="bypass")

    def check_levels(self, architecture: Architecture) -> None:
        """Raise InputError if a constraint or ``uneven_levels`` names a level that the architecture lacks."""
        names = [level.name for level in architecture.levels]
        expected = f"a level of {architecture.name}: {', '.join(names)}"
        for rules in self.levels:
            if rules.level not in names:
                where, near = f"constraint on {rules.level}", did_you_mean(rules.level, names)
                raise InputError(where, expected, rules.level, near, key="level")
        for name in self.uneven_levels or ():
            if name not in names:
                near = did_you_mean(name, names)
                raise InputError("mapping space", expected, name, near, key="uneven_levels")

    def describe(self) -> str:
        """One sentence that names the space, for a result's reader."""
        levels = [text for rules in self.levels if (text := rules.describe())]
        uneven = [self._describe_uneven()] if self.uneven else []
        return "; ".join([self._describe_padding(), KEEP_SENTENCES[self.keep], *uneven, *levels])

    def _describe_padding(self) -> str:
        if not self.padding:
            return "perfect factors"
        dims = "dims" if self.padded_dims is None else f"dims {', '.join(self.padded_dims)}"
        return f"{dims} padded by at most {self.padding * 100:.6g} %"

    def _describe_uneven(self) -> str:
        where = "" if self.uneven_levels is None else f" at {', '.join(self.uneven_levels)}"
        return f"uneven: tensors end their tiles{where} at different loops"

    def to_json(self) -> dict[str, Any]:
        """Plain data; equal for equal rules."""
        levels = sorted((rules.to_json() for rules in self.levels), key=lambda data: str(data["level"]))
        data: dict[str, Any] = {"keep": self.keep, "levels": levels, "padding": float(self.padding)}
        if self.padded_dims is not None:
            data["padded_dims"] = sorted(self.padded_dims)
        if self.uneven:
            data["uneven"] = True
            if self.uneven_levels is not None:
                data["uneven_levels"] = sorted(self.uneven_levels)
        return data

    @classmethod
    def from_json(cls, data: ReadOnlyDict[str, Any]) -> SpaceRules:
        """The rules that :meth:`to_json` made ``data`` of."""
        levels = tuple(LevelRules.from_json(level) for level in data["levels"])
        padded_dims, uneven_levels = (
            None if (names := data.get(key)) is None else tuple(names)
            for key in ("padded_dims", "uneven_levels")
        )
        return cls(
            data["keep"], levels, data["padding"], padded_dims, data.get("uneven", False), uneven_levels
        )


def _check_dim(where: str, dim: str, layer: Layer, key: str = "") -> None:
    if dim not in layer.sizes:
        known = list(layer.sizes)
        raise InputError(where, f"dims of the layer among {known}", dim, did_you_mean(dim, known), key=key)


def _check_tensor(where: str, key: str, name: str, layer: Layer) -> None:
    names = [name for tensor in layer.tensors for name in (tensor.name, tensor.role)]
    if name not in names:
        expected = f"tensors or roles among {list(dict.fromkeys(names))}"
        raise InputError(where, expected, name, did_you_mean(name, names), key=key)


def _check_keeps(where: str, rules: LevelRules, level: StorageLevel, layer: Layer) -> None:
    for tensor in layer.tensors:
        if not rules.must_keep(tensor):
            continue
        if not level.can_keep(tensor):
            expected = f"roles that it can hold ({', '.join(level.keeps)})"
            raise InputError(where, expected, f"{tensor.name} ({tensor.role})", key="keep")
        if not rules.may_keep(tensor):
            raise InputError(where, "a tensor either in keep or in bypass", tensor.name, key="keep")


def allowed_keeps(
    rules: SpaceRules, level: StorageLevel, layer: Layer, precision: Precision | None = None
) -> tuple[frozenset[str], ...]:
    """The sets of tensors, by name, that ``level`` may keep; an empty tuple if no set is allowed.

    ``precision`` is the architecture's, None where an element is a word.
    """
    asked = rules.at(level.name)
    able = [t.name for t in layer.tensors if level.can_keep(t) and asked.may_keep(t)]
    must = frozenset(tensor.name for tensor in layer.tensors if asked.must_keep(tensor))
    every = [chosen for size in range(len(able) + 1) for chosen in combinations(able, size)]
    if precision is None:
        fitting = [chosen for chosen in every if len(chosen) <= level.usable_words]
    else:
        fitting = fitting_sets(precision, layer, level, every)
    most = max(map(len, fitting))
    if rules.keep == "all":
        fitting = [chosen for chosen in fitting if len(chosen) == len(able)]
    elif rules.keep == "fitting":
        fitting = [chosen for chosen in fitting if len(chosen) == most]
    return tuple(kept for kept in map(frozenset, fitting) if must <= kept)


def most_parts(rules: SpaceRules, architecture: Architecture, layer: Layer, level: StorageLevel) -> int:
    """How many tensors may end their tiles of the level at different loops: 1 where mappings are even."""
    named = rules.uneven_levels is None or level.name in rules.uneven_levels
    if not rules.uneven or not named or level == architecture.levels[-1]:
        return 1
    return max([1, *(len(kept) for kept in allowed_keeps(rules, level, layer, architecture.precision))])
