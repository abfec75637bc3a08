"""Kinds of files whose cases `archsweep evaluate` counts: how to recognise each, and what to print."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Line = dict[str, Any]
Lines = Iterator[tuple[Line, str]]
"""For every case its object for JSON output, and its line of text for people."""


@dataclass(frozen=True)
class EvaluatedFile:
    """A kind of file: ``what`` it holds, whether a path is one (``knows``), and the ``lines`` of its cases.

    A line with the key ``not_possible`` is of a case that cannot run, or does not fit, and says why.
    """

    what: str
    knows: Callable[[Path], bool]
    lines: Callable[[Path], Lines]


def counts_text(name: str, line: Line) -> str:
    """The counts of a schedule as one line of text: cycles, pJ, bytes."""
    if "not_possible" in line:
        return f"{name}  {line['not_possible']}"
    return (
        f"{name}  {line['latency_cycles']} cycles  {line['energy_pj']:.6g} pJ  "
        f"{line['dram_bytes']} DRAM bytes  {line['noc_hop_bytes']} hop bytes"
    )
