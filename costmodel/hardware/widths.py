"""How many bits the elements of a network's tensors have on a chip."""

from __future__ import annotations

from dataclasses import dataclass, fields

from costmodel.errors import InputError
from costmodel.number_checks import is_whole

WIDEST = 1024
"""The most bits of an element: more is a slip of the pen, and counts of bits stay within 64 bits."""


@dataclass(frozen=True)
class Widths:
    """Bits of one element, wherever it lies or moves outside of the PEs: in buffers, on links, in DRAM.

    ``weights``: of parameters and of their gradients. ``activations``: of all other tensors; outputs of one
    layer are inputs of another, so both have one width. ``partial_sums``: of an output to which products are
    still to be added, as long as that is so.
    """

    weights: int = 8
    activations: int = 8
    partial_sums: int = 8

    def __post_init__(self) -> None:
        for field in fields(self):
            bits = getattr(self, field.name)
            if not is_whole(bits, 1, WIDEST):
                expected = f"a whole number of bits from 1 to {WIDEST:,}"
                raise InputError("widths", expected, bits, key=field.name)
        if self.partial_sums < self.activations:
            expected = f"at least the {self.activations} bits of activations, which they become"
            raise InputError("widths", expected, self.partial_sums, key="partial_sums")

    @staticmethod
    def of_words(bits: int) -> Widths:
        """One width for all."""
        return Widths(bits, bits, bits)

    @property
    def widest(self) -> int:
        """Bits of a word that holds any element."""
        return max(self.weights, self.activations, self.partial_sums)


BYTES = Widths()
"""Every element is a byte."""


def in_bytes(bits: int) -> int | float:
    """So many bits in bytes: a whole number where it is one, else with eighths, which floats have exactly."""
    return bits / 8 if bits % 8 else bits // 8


def whole_bytes(bits: int) -> int:
    """The bytes that hold so many bits; the last one may hold fewer than eight."""
    return -(-bits // 8)
