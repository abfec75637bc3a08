"""The hardware nn-dataflow counts for: nodes with a PE array, its bus and two buffers, and unit costs."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from costmodel.errors import InputError
from costmodel.multi_node.template import MultiNode


@dataclass(frozen=True)
class UnitCosts:
    """Energy of an operation, of an access of a word per level, of a word-hop, and of an idle cycle.

    In J where a file gives J; the tool's own defaults are relative to a MAC. ``idle_cycle`` is the whole
    chip's.
    """

    operation: float
    levels: tuple[float, float, float, float]
    hop: float
    idle_cycle: float

    def __post_init__(self) -> None:
        for value in (self.operation, *self.levels, self.hop, self.idle_cycle):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < inf:
                raise InputError("nn-dataflow hardware", "costs of at least 0", value, key="costs")


@dataclass(frozen=True)
class Hardware:
    """``nodes`` and ``array`` are rows and columns; buffers in words, bandwidths in words per cycle.

    ``bus_words_per_cycle`` is the width of each of a node's three buses, one a tensor.
    """

    nodes: tuple[int, int]
    array: tuple[int, int]
    register_words: int
    buffer_words: int
    dram_words_per_cycle: float
    bus_words_per_cycle: float
    costs: UnitCosts

    def __post_init__(self) -> None:
        for key in ("nodes", "array"):
            sides = getattr(self, key)
            whole = all(isinstance(side, int) and not isinstance(side, bool) and side > 0 for side in sides)
            if len(sides) != 2 or not whole:
                raise InputError("nn-dataflow hardware", "rows and columns", sides, key=key)
        for key in ("register_words", "buffer_words", "dram_words_per_cycle", "bus_words_per_cycle"):
            value = getattr(self, key)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
                raise InputError("nn-dataflow hardware", "more than 0", value, key=key)

    @property
    def node_count(self) -> int:
        return self.nodes[0] * self.nodes[1]

    @classmethod
    def of(cls, chip: MultiNode) -> Hardware:
        """The tool's view of a multi-node device; costs in J."""
        costs = chip.costs
        levels = (costs.dram_pj, costs.buffer_pj, costs.bus_pj, costs.register_pj)
        dram, buffer, bus, registers = (pj * 1e-12 for pj in levels)
        return cls(
            nodes=(chip.rows, chip.columns),
            array=(chip.pe_rows, chip.pe_columns),
            register_words=chip.register_words,
            buffer_words=chip.buffer_words,
            dram_words_per_cycle=costs.dram_words_per_cycle,
            bus_words_per_cycle=chip.bus_words_per_cycle,
            costs=UnitCosts(
                costs.mac_pj * 1e-12,
                (dram, buffer, bus, registers),
                costs.hop_pj * 1e-12,
                costs.idle_pj_per_cycle * 1e-12,
            ),
        )
