"""Numbers with units as people write them in hardware files: ``128 KiB``, ``16 words/cycle``, ``1 GHz``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from costmodel.errors import InputError, did_you_mean


@dataclass(frozen=True)
class Quantity:
    """``value`` in the base unit ``unit`` (``words``, ``bits``, ``pJ``); ``written`` as the file has it."""

    value: float
    unit: str
    written: Any


Units = Mapping[str, tuple[float, str]]
"""What may be written -> (factor, base unit). The first one is what a plain number means."""

MOST = 1e30
"""Anything larger is a slip of the pen, and would overflow floats later."""

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_DECIMAL = {"K": 10**3, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def _prefixed(
    unit: str, base: str, factor: float, prefixes: Mapping[str, int]
) -> dict[str, tuple[float, str]]:
    return {unit: (factor, base)} | {p + unit: (scale * factor, base) for p, scale in prefixes.items()}


_CAPACITY: Units = {
    **_prefixed("words", "words", 1, _BINARY),
    "word": (1, "words"),
    **_prefixed("B", "bits", 8, _BINARY | _DECIMAL),
    **_prefixed("bits", "bits", 1, _BINARY),
    "bit": (1, "bits"),
}
SIZE: Units = _CAPACITY
BANDWIDTH: Units = {
    f"{unit}/{time}": (factor, f"{base}/{time}")
    for time in ("cycle", "s")
    for unit, (factor, base) in _CAPACITY.items()
}
FREQUENCY: Units = _prefixed("Hz", "Hz", 1, _DECIMAL)
ENERGY: Units = {"pJ": (1, "pJ"), "fJ": (1e-3, "pJ"), "nJ": (1e3, "pJ")}
ACCESS_ENERGY: Units = {
    unit + per: (factor / parts, base)
    for unit, (factor, _) in ENERGY.items()
    for per, parts, base in (
        ("", 1, "pJ"),
        ("/word", 1, "pJ/word"),
        ("/bit", 1, "pJ/bit"),
        ("/B", 8, "pJ/bit"),
    )
}
"""Energies of a level: a plain energy is of one access, which moves a block; the others of a part of that."""
BYTE_ENERGY: Units = {
    unit: (8 * factor if base == "pJ/bit" else factor, "pJ")
    for unit, (factor, base) in ACCESS_ENERGY.items()
    if base != "pJ/word"
}
"""Energies of parts that move bytes: a plain energy is of one byte."""
LEAKAGE: Units = {
    **{f"{unit}/cycle": (factor, "pJ/cycle") for unit, (factor, _) in ENERGY.items()},
    "uW": (1e6, "pJ/s"),
    "mW": (1e9, "pJ/s"),
    "W": (1e12, "pJ/s"),
}
POWER: Units = {"mW": (1e9, "pJ/s"), "nW": (1e3, "pJ/s"), "uW": (1e6, "pJ/s"), "W": (1e12, "pJ/s")}
AREA: Units = {"um2": (1, "um2"), "mm2": (1e6, "um2")}

_NUMBER_AND_UNIT = re.compile(r"\s*([-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(\S*)\s*")


def reader(units: Units, example: str, *, zero: bool) -> Callable[[Any], Quantity]:
    """A function that turns a value of a file into a Quantity; ``zero`` says whether 0 is allowed.

    It accepts a plain number or text with a number and one of ``units``. For anything else, and for
    not-a-number, infinity and negative values, it raises an InputError to which the caller adds file and key.
    """
    expected = f"{'a number of at least 0' if zero else 'a number above 0'}, such as {example}"

    def read(written: Any) -> Quantity:
        number, unit = _parts(written, units, expected)
        if not 0 <= number <= MOST or (number == 0 and not zero):  # false for not-a-number, too
            raise InputError("", expected, written)
        factor, base = units[unit]
        return Quantity(number * factor, base, written)

    return read


_SPELLED = {
    **dict.fromkeys(("b", "bit", "bits"), "bit"),
    **dict.fromkeys(("B", "byte", "bytes", "Byte", "Bytes"), "B"),
    **dict.fromkeys(("word", "words"), "word"),
    **dict.fromkeys(("cycle", "cycles", "cyc", "clk"), "cycle"),
    **dict.fromkeys(("s", "sec", "second", "seconds"), "s"),
}
"""How people write the things that a unit is made of, and the word that all of them mean."""


def _of_the_same_size(unit: str, units: Units) -> list[str]:
    """The known units that ``unit`` may be a misspelling of, for a remedy.

    A rate is only a misspelling of a rate, and of one per the same thing where it says which (``pJ/byte``,
    ``pJ/b``): to suggest pJ/word for pJ/bit would be wrong by a factor.
    """
    _, per, part = unit.partition("/")
    found = []
    for known in units:
        _, its_per, its_part = known.partition("/")
        divided = bool(its_per) or not per
        by_the_same = part not in _SPELLED or _SPELLED[part] == _SPELLED.get(its_part)
        if divided and by_the_same:
            found.append(known)
    return found


def _parts(written: Any, units: Units, expected: str) -> tuple[float, str]:
    default = next(iter(units))
    if isinstance(written, (int, float)) and not isinstance(written, bool):
        return written, default
    match = _NUMBER_AND_UNIT.fullmatch(written) if isinstance(written, str) else None
    if match is None:
        raise InputError("", expected, written, f"A plain number is in {default}")
    unit = match[2] or default
    if unit not in units:
        hint = did_you_mean(unit, _of_the_same_size(unit, units), cutoff=0.5)
        raise InputError("", expected, written, hint or f"A plain number is in {default}")
    text = match[1].replace("_", "")
    return (int(text) if text.lstrip("+-").isdigit() else float(text)), unit
