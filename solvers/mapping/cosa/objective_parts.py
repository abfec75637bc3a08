"""Util, Comp and Traf (section III-D) of any mapping, whoever found it: what the paper's Figure 8 compares.

``objectives.py`` states the three as expressions of a program's variables, for mappings that are still to be
found. Here they follow from the loops of one that is there, so the two are counted twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from math import inf, log2

from costmodel.hardware.architecture import Architecture
from costmodel.mapping.mapping import Loop, Mapping
from costmodel.workload.network import Layer, Tensor
from solvers.mapping.cosa.objectives import boundary_across, network_level
from solvers.mapping.cosa.params import Params


@dataclass(frozen=True)
class ObjectiveParts:
    """The parts of Eq. 12, as logarithms to base 2.

    ``utilisation``: the words in use, summed over buffers and tensors. ``compute``: the temporal iterations.
    ``traffic``: the words over the network on chip, summed over tensors.
    """

    utilisation: float
    compute: float
    traffic: float

    def weighted_sum(self, params: Params) -> float:
        """``-w_U * Util + w_C * Comp + w_T * Traf`` (Eq. 12)."""
        return (
            -params.utilisation_weight * self.utilisation
            + params.compute_weight * self.compute
            + params.traffic_weight * self.traffic
        )


def objective_parts(architecture: Architecture, layer: Layer, mapping: Mapping) -> ObjectiveParts:
    """The three parts of a mapping of ``layer``, with the paper's tiles (Eq. 1) and traffic (Eq. 11)."""
    kept = tuple(level.keep for level in mapping.levels)
    utilisation = sum(
        _tile(layer, mapping, tensor, number)
        for number, level in enumerate(architecture.levels)
        for tensor in layer.tensors
        if tensor.name in kept[number] and level.usable_words < inf
    )
    compute = sum(_bounds(layer.sizes, level.temporal) for level in mapping.levels)
    traffic = 0.0
    for tensor in layer.tensors:
        boundary = boundary_across(tensor, kept, network_level(architecture))
        traffic += _sent(layer, mapping, tensor, boundary.child, boundary.parent)
    return ObjectiveParts(utilisation, compute, traffic)


def _bounds(dims: Collection[str], loops: Iterable[Loop]) -> float:
    """log2 of the product of the bounds of the loops over ``dims``."""
    return sum(log2(bound) for dim, bound in loops if dim in dims)


def _tile(layer: Layer, mapping: Mapping, tensor: Tensor, number: int) -> float:
    """log2 of a tile at level ``number`` without its halo: of each axis the longer dim alone (Eq. 1)."""
    dims = {max(axis, key=lambda term: layer.sizes[term[0]] * term[1])[0] for axis in tensor.terms}
    return sum(_bounds(dims, level.loops) for level in mapping.levels[: number + 1])


def _sent(layer: Layer, mapping: Mapping, tensor: Tensor, child: int, parent: int) -> float:
    """log2 of the words that all instances of level ``parent`` send to ``child``: D + L + T (Eq. 7 to 10).

    Each tile is multicast, so spatial loops count that make other tiles. Of the temporal loops outside of the
    child those repeat the transfer that stand at or outside the innermost one which moves the tensor.
    """
    words = _tile(layer, mapping, tensor, child) if child >= 0 else 0.0
    words += sum(_bounds(tensor.dims, level.spatial) for level in mapping.levels[child + 1 : parent + 1])
    words += sum(_bounds(layer.sizes, level.spatial) for level in mapping.levels[parent + 1 :])
    moved = child < 0
    for level in mapping.levels[child + 1 :]:
        for dim, bound in level.temporal:  # the innermost first
            moved = moved or (dim in tensor.dims and bound > 1)
            words += log2(bound) if moved else 0.0
    return words
