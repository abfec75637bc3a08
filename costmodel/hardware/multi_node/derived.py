"""A multi-node device in the forms that the cost model takes: an architecture, one node of it, a chip."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from costmodel.errors import InputError
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.hardware.chip import Chip, Dram, Noc, Tile, TileBuffer
from costmodel.hardware.multi_node.template import ArrayMapping, MultiNode
from costmodel.hardware.widths import Widths
from costmodel.workload.network import Layer

BUSES = 3
"""A node has a bus for weights, one for inputs and one for outputs."""
Sides = dict[ArrayMapping, dict[str, tuple[str, ...]]]
CONVOLUTION_SIDES: Sides = {
    "row_stationary": {"spatial_x": ("P", "K"), "spatial_y": ("R", "P", "C", "K")},
    "systolic": {"spatial_x": ("K",), "spatial_y": ("P", "Q")},
}
"""Which dims of a convolution may be spread over PE columns (x) and rows (y). Row-stationary: the output rows
and filter rows of a set of PEs, and the channels of its copies; P on y stands for folds stacked in rows.
Systolic: output channels by output pixels."""
GEMM_SIDES: Sides = {
    "row_stationary": {"spatial_x": ("N",), "spatial_y": ("K", "N")},
    "systolic": {"spatial_x": ("N",), "spatial_y": ("M",)},
}


def architecture(chip: MultiNode) -> Architecture:
    """All nodes as one stack of levels: DRAM, buffers spread below it, registers below each buffer.

    A word that enters a PE costs the energy of the bus and the register; one that leaves it for the buffer
    that of the bus and the buffer. The bandwidths of the three buses are added up as one bandwidth of a
    buffer. Idle energy is charged at DRAM, the one level that has a single instance. A stack of levels cannot
    express hops: for these see :func:`chip_of_nodes`.

    Raises InputError for a device without broadcast, because loops and levels always count a word once for
    all buffers that take it at the same time.
    """
    for key in ("node_broadcast", "pe_broadcast"):
        if not getattr(chip, key):
            where, remedy = (
                f"multi-node {chip.name}",
                "Count its schemes with costmodel.published.nn_dataflow.directive_cost",
            )
            raise InputError(where, "broadcast to count with loops", False, remedy, key=key)
    costs, bits = chip.costs, chip.word_bits
    registers = StorageLevel(
        "REGF",
        chip.register_words,
        bits,
        read_energy_pj=costs.register_pj,
        write_energy_pj=costs.register_pj + costs.bus_pj,
        update_energy_pj=costs.register_pj,
    )
    buffer = StorageLevel(
        "GBUF",
        chip.buffer_words,
        bits,
        read_energy_pj=costs.buffer_pj,
        write_energy_pj=costs.buffer_pj,
        update_energy_pj=costs.buffer_pj + costs.bus_pj,
        # Optimistic where one tensor moves more than the others: a level has one bandwidth, and the three
        # buses cannot lend each other words.
        shared_bandwidth=float(BUSES * chip.bus_words_per_cycle),
        fanout_x=chip.pe_columns,
        fanout_y=chip.pe_rows,
    )
    dram = StorageLevel(
        "DRAM",
        None,
        bits,
        read_energy_pj=costs.dram_pj,
        write_energy_pj=costs.dram_pj,
        update_energy_pj=costs.dram_pj,
        leakage_pj_per_cycle=costs.idle_pj_per_cycle,
        shared_bandwidth=costs.dram_words_per_cycle,
        fanout_x=chip.columns,
        fanout_y=chip.rows,
    )
    compute = Compute("MAC", bits, costs.mac_pj)
    return Architecture(f"{chip.name}-{costs.name}", (registers, buffer, dram), compute, chip.frequency_hz)


def node(chip: MultiNode) -> Architecture:
    """One node that has the whole DRAM, and an equal fraction of the chip's idle energy."""
    idle = chip.costs.idle_pj_per_cycle / chip.nodes
    one_node = replace(
        chip, name=f"{chip.name}-node", columns=1, rows=1, costs=replace(chip.costs, idle_pj_per_cycle=idle)
    )
    return architecture(one_node)


def chip_of_nodes(chip: MultiNode) -> Chip:
    """The nodes as a chip's tiles, for schedules of whole networks.

    An element is a word, of ``word_bits`` bits; a chip's sizes, bandwidths and energies are those of bytes.
    Differences from the template:

    - DRAM's bandwidth is rounded down to whole words, and its ports are at both ends of every row instead of
      at the four corners.
    - The template has no link bandwidth; links carry as many words a cycle as a node's buses take.
    - The chip's idle energy is divided equally among its nodes, so a larger mesh takes more of it.
    - The bus energy of outputs that leave a PE is not counted.
    - Layers without weights run on the PEs, one operand a cycle each.
    """
    costs, one_node = chip.costs, node(chip)
    registers, buffer, _ = one_node.levels
    word = chip.word_bits // 8
    if chip.word_bits % 8:
        raise InputError(f"multi-node {chip.name}", "words of whole bytes", chip.word_bits, key="word_bits")
    tile = Tile(
        buffer=TileBuffer(word * chip.buffer_words, costs.buffer_pj / word, costs.buffer_pj / word),
        macs=chip.pes,
        mac_pj=costs.mac_pj,
        vector_units=chip.pes,
        vector_operation_pj=costs.mac_pj,
        architecture=replace(
            one_node,
            name=f"{one_node.name}-tile",
            levels=(
                registers,
                # Without a size, because the chip model itself counts what buffers hold: a mapping of a
                # part cannot know what else is in the buffer at that time.
                replace(buffer, size_words=None, update_energy_pj=costs.buffer_pj),
            ),
        ),
        leakage_pj_per_cycle=costs.idle_pj_per_cycle / chip.nodes,
        widths=Widths.of_words(chip.word_bits),
    )
    return Chip(
        name=f"{chip.name}-{costs.name}",
        columns=chip.columns,
        rows=chip.rows,
        tile=tile,
        noc=Noc(word * BUSES * chip.bus_words_per_cycle, costs.hop_pj / word),
        dram=Dram(word * int(costs.dram_words_per_cycle), costs.dram_pj / word, costs.dram_pj / word),
        stripe=chip.columns,
        frequency_ghz=chip.frequency_hz / 1e9,
    )


def array_constraints(chip: MultiNode, layer: Layer) -> list[dict[str, Any]]:
    """The dims that the array's mapping allows on each side of the fan-out, as ``constraints`` of a study."""
    sides = (CONVOLUTION_SIDES if "P" in layer.sizes else GEMM_SIDES)[chip.array_mapping]
    allowed = {side: [dim for dim in dims if dim in layer.sizes] for side, dims in sides.items()}
    return [{"level": "GBUF", **allowed}]
