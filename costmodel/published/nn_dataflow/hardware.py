"""The hardware nn-dataflow counts for: nodes with a PE array, its bus and two buffers, and unit costs."""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.errors import InputError
from costmodel.hardware.multi_node.template import MultiNode
from costmodel.number_checks import is_number
from costmodel.published.nn_dataflow.layers import check_size

MOST_COST = 1e30
"""The largest cost or bandwidth: larger ones are typing errors, and would overflow floats."""


@dataclass(frozen=True)
class UnitCosts:
    """Energies: of an operation, of the access of a word at each of LEVELS, of a word-hop, of an idle cycle.

    The unit is J where a file has J; the tool's own defaults are multiples of the energy of a MAC.
    ``idle_cycle`` is what the whole chip takes in every cycle beside its work.
    """

    operation: float
    levels: tuple[float, float, float, float]
    hop: float
    idle_cycle: float

    def __post_init__(self) -> None:
        for value in (self.operation, *self.levels, self.hop, self.idle_cycle):
            if not is_number(value, 0, MOST_COST):
                expected = f"costs from 0 to {MOST_COST:g}"
                raise InputError("nn-dataflow hardware", expected, value, key="costs")


@dataclass(frozen=True)
class NnDataflowHardware:
    """A mesh of nodes, each with a PE array and a buffer, and DRAM around it.

    ``nodes``, ``array``: rows and columns of nodes, and of PEs in a node. ``buffer_words``: of a node;
    ``register_words``: of a PE. ``bus_words_per_cycle``: of each of a node's three buses, one for each
    tensor.
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
            if not is_number(value, 0, MOST_COST) or value == 0:
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
