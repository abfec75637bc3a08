"""Costs that nothing is below: of energy, of cycles, and of both at some prices of a cycle."""

from __future__ import annotations

from math import ceil, inf, isinf
from typing import NamedTuple

from costmodel.hardware.architecture import StorageLevel
from costmodel.mapping.bounds.rounding import ROUNDING
from costmodel.mapping.fused.layers.group import LayerGroup
from solvers.fusion.problem import FusionObjective


class Corner(NamedTuple):
    """What nothing costs less than: pJ, cycles, and pJ with every cycle at a price, for each of some prices.

    The three need not be reached by one nest.
    """

    energy: float
    cycles: float
    priced: tuple[float, ...] = ()

    def __add__(self, other: Corner) -> Corner:  # type: ignore[override]
        """Both together."""
        priced = tuple(one + another for one, another in zip(self.priced, other.priced, strict=True))
        return Corner(self.energy + other.energy, self.cycles + other.cycles, priced)

    def most(self, other: Corner) -> Corner:
        """The larger of each."""
        priced = tuple(max(one, another) for one, another in zip(self.priced, other.priced, strict=True))
        return Corner(max(self.energy, other.energy), max(self.cycles, other.cycles), priced)

    def least(self, other: Corner) -> Corner:
        """The smaller of each."""
        priced = tuple(min(one, another) for one, another in zip(self.priced, other.priced, strict=True))
        return Corner(min(self.energy, other.energy), min(self.cycles, other.cycles), priced)


def corner_value(objective: FusionObjective, corner: Corner, prices: tuple[float, ...]) -> float:
    """The least objective of any energy and cycles that a corner admits.

    Of the product: energy and cycles lie above a chain of lines, and a product is least at one of its ends or
    bends, for along each line it is concave.
    """
    energy, cycles = corner.energy, corner.cycles
    if objective == "energy":
        return energy
    if objective == "cycles":
        return cycles
    if isinf(energy) or isinf(cycles):
        return inf

    def cycles_at(pj: float) -> float:
        return max(
            [cycles, *((sum_ - pj) / price for sum_, price in zip(corner.priced, prices, strict=True))]
        )

    bends = {energy}
    lines = list(zip(corner.priced, prices, strict=True))
    for number, (sum_, price) in enumerate(lines):
        bends.add(sum_ - price * cycles)
        for other, other_price in lines[number + 1 :]:
            if price != other_price:
                # where both lines have the same cycles
                bends.add((sum_ * other_price - other * price) / (other_price - price))
    return min(pj * cycles_at(pj) for pj in bends if pj >= energy)


def port_cycles(level: StorageLevel, read: int, written: int) -> int:
    """Cycles that a level's bandwidths need for so many words read and written."""
    ports = (
        (read, level.read_bandwidth),
        (written, level.write_bandwidth),
        (read + written, level.shared_bandwidth),
    )
    return max((ceil(words / rate) for words, rate in ports if rate is not None), default=0)


def compulsory(group: LayerGroup, *, pipelined: bool = False) -> Corner:
    """What no fused mapping of a group costs less than, without any search.

    Every multiplication is done, and every word that only the outermost memory can have passes its port once.
    Words of tensors whose windows slide are left out: a window may skip some. ``pipelined``: layers may run
    at the same time, so only what they ask of MAC units and port together counts.
    """
    outer, total = group.architecture.levels[-1], Corner(0.0, 0.0)
    all_read = all_written = 0
    for position, layer in enumerate(group.layers):
        energy = layer.macs * group.architecture.compute.energy_pj
        read = written = 0
        for tensor in layer.tensors:
            if tensor.slides or group.sources(position, tensor.name):
                continue
            words = tensor.words(layer.sizes)
            if tensor.is_output:
                written += words
                energy += words // outer.block_size * outer.update_energy_pj
            else:
                read += words
                energy += words // outer.block_size * outer.read_energy_pj
        fastest = ceil(layer.macs / group.architecture.mac_units)
        cycles = max(fastest, port_cycles(outer, read, written))
        total = total + Corner(energy * ROUNDING, float(cycles))
        all_read, all_written = all_read + read, all_written + written
    if not pipelined:
        return total
    fastest = ceil(sum(layer.macs for layer in group.layers) / group.architecture.mac_units)
    return Corner(total.energy, float(max(fastest, port_cycles(outer, all_read, all_written))))
