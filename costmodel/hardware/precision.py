"""How many bits the numbers of a layer have on an architecture: a width for each kind of tensor."""

from __future__ import annotations

import re
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from costmodel.errors import InputError
from costmodel.hardware.widths import WIDEST
from costmodel.number_checks import is_number, is_whole

MOST_GROUPED = 65_536
"""The most elements that share a scale: more is a slip of the pen, and counts stay within 64 bits."""

MX_GROUP, MX_SCALE_BITS = 32, 8
"""A block of the OCP Microscaling Formats (MX) specification, version 1.0: elements, bits of the scale."""

_NAMED = re.compile(r"(?P<shared>mx)?(?:u?int|fp|bf)(?P<bits>[1-9]\d{0,3})")


@dataclass(frozen=True)
class Width:
    """Bits of a number: ``bits`` of the element itself, and its part of a scale.

    Every ``group`` elements share ``scale_bits`` bits of scale (and zero point, where there is one). So
    int4 weights with a 16-bit scale for every 128 of them have 4 + 16/128 bits each. A group that a tile cuts
    counts in proportion.
    """

    bits: int
    scale_bits: int = 0
    group: int = 1

    def __post_init__(self) -> None:
        for key, least, most in (("bits", 1, WIDEST), ("scale_bits", 0, WIDEST), ("group", 1, MOST_GROUPED)):
            if not is_whole(value := getattr(self, key), least, most):
                expected = f"a whole number from {least} to {most:,}"
                raise InputError("width", expected, value, key=key)

    @property
    def per_element(self) -> Fraction:
        """Bits of an element with its part of the scale, exactly."""
        return self.bits + Fraction(self.scale_bits, self.group)

    @classmethod
    def named(cls, name: str) -> Width:
        """The width of a format: ``int4``, ``fp8``, ``bf16``; ``mxfp4`` and others of OCP's MX have a scale.

        A name says nothing but bits: an fp8 counts as an int8 does. InputError for a name that is none.
        """
        match = _NAMED.fullmatch(name.strip().lower())
        if match is None:
            expected = "bits, such as 8, or a format, such as int4, fp8, bf16 or mxfp4"
            raise InputError("width", expected, name)
        if match["shared"]:
            return cls(int(match["bits"]), MX_SCALE_BITS, MX_GROUP)
        return cls(int(match["bits"]))

    def to_json(self) -> list[int]:
        """Bits, scale bits and group."""
        return [self.bits, self.scale_bits, self.group]


@dataclass(frozen=True)
class Precision:
    """The widths of all tensors of the layers that an architecture runs.

    ``weights``: parameters. ``caches``: second operands of products that are computed and not learned, such
    as the keys and values of attention. ``activations``: all other operands, and finished outputs.
    ``partial_sums``: outputs to which products are still to be added, as long as that is so.

    With ``from_network`` the bits that a network's file states come first, tensor by tensor.

    ``pj_per_bit_product``: the technology's law of MAC energy. A MAC of operands of a and b bits takes a * b
    times this; None where there is no such law.
    """

    weights: Width
    activations: Width
    partial_sums: Width
    caches: Width
    from_network: bool = False
    pj_per_bit_product: float | None = None

    def __post_init__(self) -> None:
        if self.partial_sums.per_element < self.activations.per_element:
            least = float(self.activations.per_element)
            expected = f"at least the {least:g} bits of activations, which they become"
            found = float(self.partial_sums.per_element)
            raise InputError("precision", expected, found, key="partial_sums")
        law = self.pj_per_bit_product
        if law is not None and not is_number(law, 0):
            raise InputError("precision", "a number of at least 0", law, key="pj_per_bit_product")

    def to_json(self) -> dict[str, Any]:
        """Plain data, from which :meth:`from_json` makes an equal value."""
        return {
            "weights": self.weights.to_json(),
            "activations": self.activations.to_json(),
            "partial_sums": self.partial_sums.to_json(),
            "caches": self.caches.to_json(),
            "from_network": self.from_network,
            "pj_per_bit_product": self.pj_per_bit_product,
        }

    @classmethod
    def from_json(cls, data: ReadOnlyDict[str, Any]) -> Precision:
        """The precision of :meth:`to_json`; InputError for widths that no number has."""
        return cls(
            weights=Width(*data["weights"]),
            activations=Width(*data["activations"]),
            partial_sums=Width(*data["partial_sums"]),
            caches=Width(*data["caches"]),
            from_network=data["from_network"],
            pj_per_bit_product=data["pj_per_bit_product"],
        )
