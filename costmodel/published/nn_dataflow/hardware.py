"""The hardware nn-dataflow counts for: nodes with a PE array, its bus and two buffers, and unit costs."""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.errors import InputError
from costmodel.published.nn_dataflow.layers import check_size
from costmodel.published.nn_dataflow.multi_node.template import MultiNode

MOST_COST = 1e30
"""Any larger one is a slip of the pen, and would overflow floats."""


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
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MOST_COST:
                expected = f"costs from 0 to {MOST_COST:g}"
                raise InputError("nn-dataflow hardware", expected, value, key="costs")


@dataclass(frozen=True)
class NnDataflowHardware:
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
        where = "nn-dataflow hardware"
        for key in ("nodes", "array"):
            sides = getattr(self, key)
            if len(sides) != 2:
                raise InputError(where, "rows and columns", sides, key=key)
            for side in sides:
                check_size(side, where, key)
        for key in ("register_words", "buffer_words"):
            check_size(getattr(self, key), where, key)
        for key in ("dram_words_per_cycle", "bus_words_per_cycle"):
            value = getattr(self, key)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= MOST_COST:
                raise InputError(where, "more than 0", value, key=key)

    @property
    def node_count(self) -> int:
        return self.nodes[0] * self.nodes[1]

    @classmethod
    def of(cls, chip: MultiNode) -> NnDataflowHardware:
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
