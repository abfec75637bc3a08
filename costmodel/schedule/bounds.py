"""What no schedule of a network, batch and chip is below: compulsory traffic, work, cuts of the NoC."""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.hardware.chip import Chip
from costmodel.schedule.compulsory import Compulsory, layers_traffic
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.tile_cost import TileFloors


@dataclass(frozen=True)
class ScheduleBounds:
    """Lower bounds on energy and cycles of a whole batch, each whatever the other is."""

    energy_pj: float
    cycles: float

    def product(self, exponents: tuple[float, float]) -> float:
        """A lower bound on E^n D^m, as neither exponent is negative."""
        return float(self.energy_pj ** exponents[0] * self.cycles ** exponents[1])


def lower_bounds(graph: LayerGraph, chip: Chip, batch: int, tile_costs: TileFloors) -> ScheduleBounds:
    """Proven bounds: weights and the network's inputs come from DRAM, and unused outputs go there, once.

    Cycles: all tiles together work no less than the floors of ``tile_costs`` say, DRAM carries the compulsory
    bytes, and so do the links; a leaf, and so what is above it, waits for each of them.
    """
    batches = [share for share in range(1, batch + 1) if batch % share == 0]
    floors = [tile_costs.floor(layer, batches, chip.tiles) for layer in range(len(graph.layers))]
    traffic = layers_traffic(graph, batch)
    read, written = sum(one.dram_read for one in traffic), sum(one.dram_write for one in traffic)
    dram = read + written
    hop_bytes = dram * _nearest(chip) / len(chip.ports)
    energy = sum(
        _in_tiles_pj(layer, chip, (batch * floor.energy_pj, batch * floor.whole_chip_pj), moved)
        for layer, floor, moved in zip(graph.layers, floors, traffic, strict=True)
    )
    energy += read * chip.dram.read_pj_per_byte + written * chip.dram.write_pj_per_byte
    energy += hop_bytes * chip.noc.hop_pj_per_byte
    cycles = max(
        batch * sum(floor.tile_cycles for floor in floors) / chip.tiles,
        dram / chip.dram.bytes_per_cycle,
        hop_bytes / (max(chip.links, 1) * chip.noc.link_bytes_per_cycle),
        _past_ports(chip, max(read, written)),
    )
    return ScheduleBounds(energy, cycles)


def _in_tiles_pj(layer: NetworkLayer, chip: Chip, least_pj: tuple[float, float], moved: Compulsory) -> float:
    """Energy within tiles and of transfers; ``least_pj``: the former on tiles, and both alone."""
    buffer, (on_tiles, alone) = chip.tile.buffer, least_pj
    if layer.needs_whole_chip:
        return alone
    moved_pj = moved.filled * buffer.write_pj_per_byte + moved.emptied * buffer.read_pj_per_byte
    return min(on_tiles + moved_pj, alone)


def _nearest(chip: Chip) -> int:
    """Links from all DRAM ports together to the tile that is nearest to them."""
    return min(sum(abs(x - px) + abs(y - py) for px, py in chip.ports) for x, y in chip.positions)


def _past_ports(chip: Chip, dram_bytes: int) -> float:
    """Cycles for the links that leave the ports' tiles: bytes for one tile pass those of every other port.

    The links that come in are as many, for bytes that are written.
    """
    ends = ((x + dx, y + dy) for x, y in chip.ports for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1)))
    links = sum(0 <= x < chip.columns and 0 <= y < chip.rows for x, y in ends)
    passing = dram_bytes * (len(chip.ports) - 1) / len(chip.ports)
    return passing / (links * chip.noc.link_bytes_per_cycle) if links else 0.0
