"""KAPLA's hardware template (Fig 4): nodes with a buffer and a PE array, on a mesh with DRAM around it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import inf
from typing import Any, Literal, get_args

from costmodel.errors import InputError
from costmodel.number_checks import is_whole

ArrayMapping = Literal["row_stationary", "systolic"]
"""How a node's PE array runs a layer: by Eyeriss's row-stationary sets, or as a systolic array, by output
pixels and output channels."""


@dataclass(frozen=True)
class EnergyTable:
    """A named set of energies (pJ): of a MAC, a word's access at each level, a word on a node's bus, and a
    word-hop.

    ``idle_pj_per_cycle`` is the whole chip's. ``dram_words_per_cycle`` belongs to the set, because the two
    published sets disagree about it, too.
    """

    name: str
    mac_pj: float
    dram_pj: float
    buffer_pj: float
    bus_pj: float
    register_pj: float
    hop_pj: float
    idle_pj_per_cycle: float
    dram_words_per_cycle: float

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.type == "float" and not 0 <= value < inf:
                raise InputError(f"unit costs {self.name}", "a number of at least 0", value, key=item.name)
        if not self.dram_words_per_cycle:
            raise InputError(f"unit costs {self.name}", "more than 0 words/cycle", 0, key="dram_bandwidth")


@dataclass(frozen=True)
class MultiNode:
    """``columns`` x ``rows`` nodes of ``pe_columns`` x ``pe_rows`` PEs, one MAC and registers each.

    Sizes are in words of ``word_bits``. Each of a node's three buses (weights, inputs, outputs) carries
    ``bus_words_per_cycle``. ``node_forwarding``, ``pe_forwarding``: nodes, or PEs, take from their neighbours
    what these hold (KAPLA's same-level transfers). Without that everything comes from the next level.
    ``node_broadcast``, ``pe_broadcast``: the next level sends a word once to all that take it (next-level
    transfers).
    """

    name: str
    columns: int
    rows: int
    pe_columns: int
    pe_rows: int
    buffer_words: int
    register_words: int
    bus_words_per_cycle: int
    costs: EnergyTable
    array_mapping: ArrayMapping = "row_stationary"
    word_bits: int = 16
    frequency_hz: float = 500e6
    node_forwarding: bool = True
    pe_forwarding: bool = True
    node_broadcast: bool = True
    pe_broadcast: bool = True

    def __post_init__(self) -> None:
        where = f"multi-node {self.name}"
        for item in fields(self):
            value: Any = getattr(self, item.name)
            if item.type == "int" and not is_whole(value, 1):
                raise InputError(where, "a whole number of at least 1", value, key=item.name)
        if self.array_mapping not in get_args(ArrayMapping):
            raise InputError(
                where, f"one of {get_args(ArrayMapping)}", self.array_mapping, key="array_mapping"
            )
        if not 0 < self.frequency_hz < inf:
            raise InputError(where, "more than 0 Hz", self.frequency_hz, key="frequency")

    @property
    def nodes(self) -> int:
        return self.columns * self.rows

    @property
    def pes(self) -> int:
        """PEs of a node."""
        return self.pe_columns * self.pe_rows

    @property
    def macs(self) -> int:
        """MACs a cycle of the whole chip."""
        return self.nodes * self.pes
