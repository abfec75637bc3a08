"""Estimates which partitions of a layer are best, before any part is mapped on a tile."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Tile
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import NetworkLayer

Array = NDArray[Any]

PJ_AROUND_A_MAC = 2.0
"""Energy of one product and of its operands' accesses within a tile, as a multiple of the energy of a MAC.

This is a guess. It only ranks partitions; their costs come from mappings.
"""


def held_inputs(layer: NetworkLayer, part: Array) -> Array:
    """Elements [n] of inputs that make parts [n, 4] of outputs: channels, samples, rows and columns.

    This is an upper bound: it is counted as if no window reached over the image's edges.
    """
    return _inputs(layer, part, 0, 0)


def least_inputs(layer: NetworkLayer, part: Array) -> Array:
    """A lower bound on the elements [n] of inputs: as if every part's windows reached over both edges.

    Elements beyond an edge are padding, which no buffer holds. ``below`` and ``right`` are how far the last
    window reaches beyond the image.
    """
    below = (layer.h - 1) * layer.stride_h + layer.r - layer.pad_h - layer.input_h
    right = (layer.w - 1) * layer.stride_w + layer.s - layer.pad_w - layer.input_w
    return _inputs(
        layer, part, *(max(a, 0) + max(b, 0) for a, b in ((layer.pad_h, below), (layer.pad_w, right)))
    )


def _inputs(layer: NetworkLayer, part: Array, missing_h: int, missing_w: int) -> Array:
    """Elements [n] of inputs for parts [n, 4], where ``missing`` rows and columns of each are padding."""
    k, b, h, w = part.T
    rows = np.clip((h - 1) * layer.stride_h + layer.r - missing_h, 1, layer.input_h)
    columns = np.clip((w - 1) * layer.stride_w + layer.s - missing_w, 1, layer.input_w)
    if layer.kind == "transpose":
        rows, columns = h, w
    held: Array = b * rows * columns
    if not layer.has_weights:
        held *= k * layer.operands
    else:
        held *= layer.group_c * (-(-k // layer.group_k) if layer.groups > 1 else 1)
    return held


def held_weights(layer: NetworkLayer, part: Array) -> Array:
    """Elements [n] of weights for parts [n, 4] of outputs.

    Where a layer's weights are activations, every sample has its own.
    """
    k, b, _, _ = part.T
    if not layer.has_weights:
        return np.zeros_like(k)
    held: Array = k * layer.group_c * layer.r * layer.s * (b if layer.weight_producers else 1)
    return held


def ranked(layer: NetworkLayer, largest: Array, tile: Tile, most: int, slices: Array | None = None) -> Array:
    """The row numbers of the ``most`` promising of ``largest`` [n, 4], the best first.

    Rows are the largest parts of partitions; with ``slices`` [n] they are the largest slices of the parts, of
    which a tile has so many.

    Which partition is best depends on the tree around the leaf: how often the leaf runs while its weights
    stay, and how far data travels. So there are four rankings, and they take turns in naming their next best:
    by E D if weights cost nothing, by E D if they are loaded for each run, by D then E, and by E then D. E
    and D are energy and delay, estimated for the slowest tile.
    """
    from solvers.schedule.tiles.partition_kernel import take_turns

    cycles, energy_pj, weights_pj = _estimates(layer, largest, tile)
    if slices is not None:
        # all slices read the same inputs, which come into the buffer once
        again = (slices - 1) * ElementBits.of(layer, tile.widths).inputs * held_inputs(layer, largest)
        again_pj = again * tile.buffer.write_pj_per_bit
        cycles, energy_pj, weights_pj = slices * cycles, slices * energy_pj - again_pj, slices * weights_pj
    keys = np.empty((4, 2, len(largest)))
    keys[0] = energy_pj * cycles, energy_pj
    keys[1] = (energy_pj + weights_pj) * cycles, energy_pj
    keys[2] = cycles, energy_pj
    keys[3] = energy_pj, cycles
    order = np.empty(min(most, len(largest)), np.int64)
    take_turns(keys, np.empty(len(keys), np.int64), order)
    return order


def _estimates(layer: NetworkLayer, largest: Array, tile: Tile) -> tuple[Array, Array, Array]:
    """Estimates for the slowest tile: cycles [n], energy [n] without loading weights, energy [n] of loading
    them; energies in pJ.
    """
    outputs = largest.prod(axis=1)
    work = outputs * layer.r * layer.s
    bits = ElementBits.of(layer, tile.widths)
    moved_pj = held_inputs(layer, largest) * bits.inputs * tile.buffer.write_pj_per_bit
    moved_pj = moved_pj + outputs * bits.outputs * tile.buffer.read_pj_per_bit
    if not layer.has_weights:
        work = work * layer.operands
        cycles = -(-work // tile.vector_units)
        return cycles, work * tile.vector_operation_pj + moved_pj, np.zeros(len(largest))
    work = work * layer.group_c
    weights_pj = held_weights(layer, largest) * bits.weights * tile.buffer.write_pj_per_bit
    energy_pj = work * PJ_AROUND_A_MAC * tile.mac_pj + moved_pj
    return work // busy_macs(work, tile), energy_pj, weights_pj


def busy_macs(work: Array, tile: Tile) -> Array:
    """The most MAC units [n] that can divide ``work`` [n] evenly, as a mapping without padding must."""
    products = _even(tile)
    busy: Array = np.max(np.where(work[:, None] % products == 0, products, 1), axis=1)
    return busy


@cache
def _even(tile: Tile) -> Array:
    """The numbers of MAC units that a mapping can keep busy, in ascending order.

    A mapping uses some number of instances along each side of each fan-out, so these are the products of one
    such number for each side.
    """
    sides = [tile.macs]
    if tile.architecture is not None:
        levels = tile.architecture.levels
        sides = [side for level in levels for side in (level.fanout_x, level.fanout_y) if side > 1]
    reached = {1}
    for side in sides:
        reached = {busy * factor for busy in reached for factor in range(1, side + 1)}
    return np.array(sorted(reached))
