"""Energy and time of a layer's directives on a multi-node device (KAPLA's cost model, section IV-A)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from math import ceil, prod

from costmodel.errors import InputError
from costmodel.formats.directives.counts import (
    INPUT_DIMS,
    TensorAccesses,
    Transfers,
    accesses,
    cycles,
    parallelism,
)
from costmodel.formats.directives.values import LayerScheme, LevelScheme
from costmodel.hardware.multi_node.template import MultiNode

LEVELS = ("REGF", "GBUF", "DRAM")


@dataclass(frozen=True)
class EnergyParts:
    """Energies of the whole device, in pJ."""

    mac: float
    registers: float
    bus: float
    buffers: float
    dram: float
    hops: float
    idle: float

    @property
    def total(self) -> float:
        return float(sum(getattr(self, part.name) for part in fields(self)))


@dataclass(frozen=True)
class DirectiveCost:
    """What a layer costs; computing, the fullest bus and DRAM overlap, so the slowest of them decides."""

    energy_pj: EnergyParts
    compute_cycles: int
    bus_cycles: int
    dram_cycles: int

    @property
    def cycles(self) -> int:
        return max(self.compute_cycles, self.bus_cycles, self.dram_cycles)


def violations(scheme: LayerScheme, device: MultiNode) -> list[str]:
    """Why the device cannot run the scheme: its buffers are too small, or the scheme needs more of them."""
    return [
        f"{level.name}: {what} {needed}, there are {there}"
        for level, held, buffers in (
            (scheme.level("REGF"), device.register_words, device.pes),
            (scheme.level("GBUF"), device.buffer_words, device.nodes),
        )
        for what, needed, there in (
            ("words", level.held_words, held),
            ("buffers", level.parallelism, buffers),
        )
        if needed > there
    ]


def transfers(device: MultiNode) -> dict[str, Transfers]:
    """For each level whether buffers get data by broadcast, and whether neighbours pass data on."""
    return {
        "REGF": Transfers(device.pe_broadcast, device.pe_forwarding),
        "GBUF": Transfers(device.node_broadcast, device.node_forwarding),
    }


def cost(scheme: LayerScheme, device: MultiNode, operations: int) -> DirectiveCost:
    """The cost of a layer of ``operations`` MACs, or merged inputs.

    Every operation reads one word of each input tensor, and reads and writes one word of the outputs. A word
    from DRAM takes as many hops as nodes lie on average from the nearest corner of the mesh, and one more for
    every further node that takes it. A word that neighbours pass on takes one hop and one buffer access.
    Raises InputError for violations, and for levels other than REGF, GBUF and DRAM.
    """
    where = f"layer {scheme.name} on {device.name}"
    if tuple(level.name for level in scheme.levels) != LEVELS:
        raise InputError(where, f"levels {LEVELS}", [level.name for level in scheme.levels])
    if reasons := violations(scheme, device):
        raise InputError(where, "a scheme that fits", "; ".join(reasons))
    moved = transfers(device)
    to_pes, to_nodes = (accesses(scheme, name, moved[name]) for name in ("REGF", "GBUF"))
    nodes, costs = scheme.level("GBUF").parallelism, device.costs
    # ``next_reads`` counts a word once where it is broadcast to several nodes, so this needs no division.
    dram_words = sum(_next(one) for one in to_nodes.values())
    passed = sum(one.passed for one in to_nodes.values())
    compute = cycles(scheme, _per_update(scheme.level("REGF")))
    bus = ceil(max(_next(one) for one in to_pes.values()) / device.bus_words_per_cycle)
    dram = ceil(dram_words / costs.dram_words_per_cycle)
    inputs = len(scheme.level("REGF").tensors) - 1
    energy = EnergyParts(
        mac=operations * costs.mac_pj,
        registers=operations * (inputs + 2) * costs.register_pj,
        bus=sum(one.filled + one.drained for one in to_pes.values()) * parallelism(scheme) * costs.bus_pj,
        buffers=(sum(_next(one) for one in to_pes.values()) * nodes + passed) * costs.buffer_pj,
        dram=dram_words * costs.dram_pj,
        hops=_hops(to_nodes, nodes, device) * costs.hop_pj,
        idle=max(compute, bus, dram) * costs.idle_pj_per_cycle,
    )
    return DirectiveCost(energy, compute, bus, dram)


def _next(counted: TensorAccesses) -> int:
    """Accesses of one buffer of the next level."""
    return counted.next_reads + counted.next_writes


def _per_update(registers: LevelScheme) -> int:
    """Operations of a PE in one iteration of all updates: one for each point of the nest in its registers.

    The product over dims of outputs and filters counts these points. Local layers have no filter dims, so
    that product is too small; there every word that is read takes one operation.
    """
    products = prod(size for dim, size in registers.sizes.items() if dim not in INPUT_DIMS)
    return max(products, *(tensor.words for tensor in registers.tensors))


def _hops(to_nodes: dict[str, TensorAccesses], nodes: int, device: MultiNode) -> float:
    """Word-hops from memory to nodes, from node to node, and back."""
    if device.nodes == 1:
        return 0
    far = sum(_ways(device)) / device.nodes
    hops = 0.0
    for one in to_nodes.values():
        from_memory = _next(one)
        # Every node's fill is a delivery; those beyond the reads of DRAM are further copies of the same
        # words.
        copies = (one.filled + one.drained) * nodes - from_memory
        hops += from_memory * far + (one.passed if device.node_forwarding else copies + one.passed)
    return hops


def _ways(device: MultiNode) -> Iterator[int]:
    """For every node its hops from the nearest corner of the mesh."""
    for row in range(device.rows):
        for column in range(device.columns):
            yield min(row, device.rows - 1 - row) + min(column, device.columns - 1 - column)
