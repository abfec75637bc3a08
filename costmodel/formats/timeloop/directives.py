"""The entries of Timeloop's mappings and constraints: a target with factors, a permutation or tensors."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from costmodel.errors import InputError, did_you_mean
from costmodel.formats.json.json_fields import known_names, whole_number
from costmodel.workload.network import Layer

DirectiveType = Literal["temporal", "spatial", "dataspace"]
TYPES: dict[str, DirectiveType] = {
    "temporal": "temporal",
    "spatial": "spatial",
    "dataspace": "dataspace",
    "datatype": "dataspace",
    "bypass": "dataspace",
    "bypassing": "dataspace",
}
_KEYS: dict[DirectiveType, tuple[str, ...]] = {
    "temporal": ("factors", "permutation"),
    "spatial": ("factors", "permutation", "split"),
    "dataspace": ("keep", "bypass"),
}
_CHANGES_NOTHING = ("no_link_transfer",)
"""Keys that are allowed and ignored: transfers between neighbours, which it forbids, are not modelled."""

_FACTOR = re.compile(
    r"[\s,]*(?:([A-Za-z_]\w*)\s*(<=|>=|=)\s*(\d{1,18})|([A-Za-z_]+)\s*(\d{1,18}))(?!\d)[\s,]*"
)


@dataclass(frozen=True)
class Factor:
    """One entry of ``factors``: ``C=4``, ``C<=4`` or ``C>=4``; 0 stands for the whole dim."""

    dim: str
    relation: str
    value: int


@dataclass(frozen=True)
class Directive:
    """One entry of a mapping or of constraints: its ``target`` and content, with the file and key it is from.

    ``inside``: it is written inside a node of version 0.4, so that spatial constraints are on the node's own
    fan-out. ``parallel``: the node is one of several side by side, and bypasses every tensor that it does not
    keep. ``elsewhere``: dims and tensors of other layers, which it may name; for this layer they are ignored.
    """

    target: str
    type: DirectiveType
    data: dict[str, Any]
    file: str
    key: str
    inside: bool = False
    parallel: bool = False
    elsewhere: frozenset[str] = frozenset()

    @property
    def where(self) -> str:
        return f"{self.file}: {self.key}"

    def factors(self, layer: Layer) -> list[Factor]:
        """Its factors, each dim of the layer once; a value of 0, or above the dim, is the whole dim."""
        found = [_sized(factor, layer) for text in self._texts("factors") for factor in self._parsed(text)]
        self._known_once([factor.dim for factor in found], layer, "factors")
        return [factor for factor in found if factor.dim in layer.sizes]

    def permutation(self, layer: Layer) -> list[str]:
        """Its dims, innermost first; in a word that is no dim's name every letter is a dim."""
        return [dim for dim in self._order(layer) if dim in layer.sizes]

    def split_permutation(self, layer: Layer, split: int) -> tuple[list[str], list[str]]:
        """The dims before the split (on X) and after it (on Y); dims that it does not name come last.

        InputError where the split lies among those, so that the order does not say which dims are on X.
        """
        order = self._order(layer)
        rest = [dim for dim in layer.sizes if dim not in order]
        if rest and len(order) < split < len(order) + len(rest):
            expected = f"a permutation that names the {split} dims on X"
            raise self.refused(expected, " ".join(order) or "none", "permutation")
        order += rest
        x, y = ([dim for dim in side if dim in layer.sizes] for side in (order[:split], order[split:]))
        return x, y

    @property
    def split(self) -> int | None:
        """How many dims at the start of the permutation are on X; None if it is not stated."""
        value = self.data.get("split")
        return None if value is None else whole_number(value, self.where, "split", least=0)

    def dims(self, known: Collection[str]) -> set[str]:
        """Every dim that it names. ``known``: all dims that may be named."""
        bounded = {factor.dim for text in self._texts("factors") for factor in self._parsed(text)}
        return bounded.union(self._dims_in_order(known))

    def tensors(self, key: Literal["keep", "bypass"], layer: Layer) -> list[str]:
        """The names in ``keep`` or ``bypass``, tensors of the layer."""
        names = self._texts(key)
        known = [tensor.name for tensor in layer.tensors]
        known_names(names, [*known, *self.elsewhere], self.where, key)
        return [name for name in names if name in known]

    def refused(self, expected: str, found: object, key: str, remedy: str = "") -> InputError:
        return InputError(self.file, expected, found, remedy, key=f"{self.key}.{key}")

    def _texts(self, key: str) -> list[str]:
        written = self.data.get(key)
        texts = [] if written is None else [written] if isinstance(written, str) else written
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            remedy = "Quote names that YAML reads as something else, such as N or Y"
            raise self.refused("a text, or a list of texts", written, key, remedy)
        return texts

    def _parsed(self, text: str) -> Iterator[Factor]:
        position = 0
        while position < len(text):
            match = _FACTOR.match(text, position)
            if match is None:
                expected = "perfect factors such as 'C=4 K=2' (or <=, >=)"
                raise self.refused(expected, text[position:], "factors")
            name, relation, value, bare, bare_value = match.groups()
            yield Factor(name or bare, relation or "=", int(value or bare_value))
            position = match.end()

    def _order(self, layer: Layer) -> list[str]:
        dims = self._dims_in_order({*layer.sizes, *self.elsewhere})
        self._known_once(dims, layer, "permutation")
        return dims

    def _dims_in_order(self, known: Collection[str]) -> list[str]:
        texts = (text for written in self._texts("permutation") for text in re.split(r"[\s,]+", written))
        # "KCRS" is four dims and "Kin" may be one: only the layer's names tell
        return [dim for text in texts for dim in ([text] if text in known else text)]

    def _known_once(self, dims: list[str], layer: Layer, key: str) -> None:
        known_names(dims, [*layer.sizes, *sorted(self.elsewhere - layer.sizes.keys())], self.where, key)
        if twice := sorted({dim for dim in dims if dims.count(dim) > 1}):
            raise self.refused("every dim once", ", ".join(twice), key)


def _sized(factor: Factor, layer: Layer) -> Factor:
    """The factor with the dim's size for 0 and for values above it."""
    size = layer.sizes.get(factor.dim, factor.value)
    return Factor(factor.dim, factor.relation, min(factor.value or size, size))


def directives(entries: Any, file: str, key: str) -> Iterator[Directive]:
    """The directives of a list; entries of version 0.3 that hold a list for one target are flattened."""
    if not isinstance(entries, list):
        raise InputError(file, "a list with a target and a type in every entry", entries, key=key)
    for index, entry in enumerate(entries):
        location = f"{key}[{index}]"
        if not isinstance(entry, dict):
            raise InputError(file, "target, type and what they are told", entry, key=location)
        target = entry.get("target", entry.get("name"))
        if not isinstance(target, str):
            raise InputError(file, "the name of a component", target, key=f"{location}.target")
        if isinstance(entry.get("constraints"), list):
            inner = [{"target": target, **constraint} for constraint in entry["constraints"]]
            yield from directives(inner, file, f"{location}.constraints")
        else:
            yield directive(target, entry, file, location)


def directive(target: str, entry: dict[str, Any], file: str, key: str) -> Directive:
    """One entry with its type and nothing in it that would change counts unknown to us."""
    written = entry.get("type")
    if not isinstance(written, str) or written not in TYPES:
        expected = f"a type among {', '.join(TYPES)}"
        raise InputError(file, expected, written, did_you_mean(written, TYPES), key=f"{key}.type")
    data = {name: value for name, value in entry.items() if name not in ("target", "name", "type")}
    attributes = data.pop("attributes", None)
    if attributes is not None and not isinstance(attributes, dict):
        raise InputError(file, "keys and values", attributes, key=f"{key}.attributes")
    # the same keys may stand one level deeper
    data |= {} if attributes is None else attributes
    kind = TYPES[written]
    for name, value in data.items():
        # a key with an empty list asks for nothing, whatever it is
        if name not in (*_KEYS[kind], *_CHANGES_NOTHING) and value != []:
            expected = f"for {kind}: {', '.join(_KEYS[kind])}"
            remedy = did_you_mean(name, _KEYS[kind]) or "Other keys are not modelled"
            raise InputError(file, expected, name, remedy, key=f"{key}.{name}")
    return Directive(target, kind, data, file, key)


def known_target(directive: Directive, names: Iterable[str]) -> None:
    """InputError if the directive's target is none of ``names``."""
    choices = sorted(names)
    if directive.target not in choices:
        expected = f"a component among {', '.join(choices)}"
        remedy = did_you_mean(directive.target, choices)
        raise directive.refused(expected, directive.target, "target", remedy)
