"""Numbers as a reader wants them: one SI prefix per axis or column, few digits, units beside them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import isfinite, prod
from types import MappingProxyType

from results.store.schema.tables import TABLES

NOTHING = "\N{EN DASH}"
TIMES = "\N{MULTIPLICATION SIGN}"

LABELS = MappingProxyType(
    {
        "energy_pj": "Energy",
        "cycles": "Latency",
        "latency_seconds": "Latency",
        "seconds_per_token": "Time a token",
        "joules_per_token": "Energy a token",
        "tokens_per_second": "Tokens a second",
        "time_to_first_token_seconds": "Time to first token",
        "time_per_output_token_seconds": "Time per output token",
        "watts": "Mean power",
        "edp_pj_cycles": "Energy-delay product",
        "area_um2": "Area",
        "off_chip_bytes": "Off-chip traffic",
        "off_chip_energy_pj": "Off-chip energy",
        "dram_bytes": "DRAM traffic",
        "noc_hop_bytes": "NoC traffic",
    }
)
_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SMALL_PREFIXES = ((1e-3, "m"), (1e-6, "µ"), (1e-9, "n"), (1e-12, "p"))
_SIZES = MappingProxyType({"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "K": 1e3, "M": 1e6, "G": 1e9})
_BASES = MappingProxyType(
    {"pJ": (1e-12, "J"), "pJ*cycles": (1e-12, "J·cycles"), "s": (1.0, "s"), "J": (1.0, "J"), "W": (1.0, "W")}
)


@dataclass(frozen=True)
class Scale:
    """How to show values of one column: multiply by ``factor``, write ``unit`` beside them."""

    label: str
    factor: float
    unit: str

    @property
    def title(self) -> str:
        return f"{self.label} ({self.unit})" if self.unit else self.label

    def number(self, value: float | None) -> float | None:
        """The scaled value to six digits, None where there is none."""
        if value is None or not isfinite(value):
            return None
        return float(f"{value * self.factor:.6g}")

    def text(self, value: float | None) -> str:
        """The scaled value to four digits with its unit."""
        scaled = self.number(value)
        return NOTHING if scaled is None else f"{digits(scaled)} {self.unit}".rstrip()


def scale_for(column: str, values: Iterable[float | None]) -> Scale:
    """The scale that gives the largest of the values one to three digits before the point."""
    units = {c.name: c.unit for table in TABLES.values() for c in table.columns}
    unit, label = units.get(column, ""), LABELS.get(column, column)
    largest = max((abs(v) for v in values if v is not None and isfinite(v)), default=0.0)
    if unit == "um2":
        return Scale(label, 1e-6, "mm²") if largest >= 1e4 else Scale(label, 1.0, "µm²")
    if unit == "bytes":
        return replace(byte_scale(largest), label=label)
    base, symbol = _BASES.get(unit, (1.0, "" if unit == "1" else unit))
    prefixes = _PREFIXES + _SMALL_PREFIXES if unit in _BASES else _PREFIXES
    # the margin keeps a value that rounding put just below 1 M from being shown as 1,000 k
    for size, prefix in prefixes:
        if largest * base >= size * (1 - 1e-9):
            return Scale(label, base / size, prefix + symbol)
    return Scale(label, base, symbol) if largest == 0 else Scale(label, base / size, prefix + symbol)


def byte_scale(size_bytes: float) -> Scale:
    """The scale that shows a size in B, KiB, MiB or GiB."""
    for unit, factor in (("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10)):
        if size_bytes >= factor:
            return Scale("Address", 1 / factor, unit)
    return Scale("Address", 1.0, "B")


def byte_text(size_bytes: float | None) -> str:
    """A size to four digits in its own unit: 1,536 is 1.500 KiB."""
    if size_bytes is None or size_bytes < 1024:
        return NOTHING if size_bytes is None else f"{size_bytes:g} B"
    return byte_scale(size_bytes).text(size_bytes)


def digits(value: float) -> str:
    """Four significant digits, three decimals below one; an exponent only below 0.001 and from 10^15."""
    if abs(value) >= 1e15 or abs(value) < 1e-3:
        return f"{value:.4g}"
    decimals = max(0, 4 - len(str(int(abs(value)))))
    return f"{value:,.{decimals}f}"


def percent(fraction: float | None) -> str:
    """A fraction as a percentage with one decimal: 0.1234 is 12.3 %."""
    if fraction is None or not isfinite(fraction):
        return NOTHING
    return "<0.1 %" if 0 < fraction < 0.0005 else f"{100 * fraction:,.1f} %"


def seconds(value: float) -> str:
    """A duration in the largest unit that keeps it above one."""
    for size, unit in ((3600.0, "h"), (60.0, "min"), (1.0, "s")):
        if value >= size:
            return f"{value / size:.3g} {unit}" if value < 1000 * size else f"{value / size:,.0f} {unit}"
    return f"{value * 1e3:.3g} ms"


def value_order(text: str) -> tuple[int, float, str]:
    """Sort key of an axis' values: sizes as "64 KiB" and fan-outs as 14×12 by size, others by name."""
    number, _, unit = text.partition(" ")
    factors = [size for prefix, size in _SIZES.items() if unit.startswith(prefix)]
    try:
        return 0, prod(float(part) for part in number.split(TIMES)) * (factors or [1.0])[0], text
    except ValueError:
        return 1, 0.0, text
