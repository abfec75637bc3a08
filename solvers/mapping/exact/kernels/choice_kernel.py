"""Compiled: cheap bounds for many choices of spatial factors and of the levels that keep each tensor.

Given the spatial factors, what a tensor costs at least depends only on the levels that keep it, its *chain*,
and not on what else they keep. So each chain of each tensor is bounded once, and the bound of a choice of
keep sets is a sum with one table entry a tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import entry, inlined
from solvers.mapping.exact.kernels.assignment_kernel import (
    PARTS,
    assign_factors,
    assign_tensor,
    boundary_pj,
    copy_rows,
    value,
)

if TYPE_CHECKING:
    from solvers.mapping.exact.chains import LevelChains
    from solvers.mapping.exact.tables import Assignment, Space

Array = NDArray[Any]


@entry
def spread_bounds(
    space: Space, spatial: Array, chains: LevelChains, assignment: Assignment, bounds: Array
) -> None:
    """Fill ``bounds`` [n] for spatial factors ``spatial`` [n, levels, dims], valid whatever levels keep.

    Each tensor is taken with the energy of its cheapest chain, and with the least words that any of its
    chains moves at each level; these need not be of the same chain."""
    # A row is one choice of spatial factors. Its chains are bounded first; then, tensor by tensor, the least
    # energy and the fewest words are taken over them.
    for row in range(len(spatial)):
        copy_rows(spatial[row], assignment.spatial)
        _fill(space, chains, assignment)
        energy = space.model.mac_energy_pj
        for tensor in range(len(chains.counts)):
            least = np.inf
            for chain in range(chains.counts[tensor]):
                least = min(least, chains.energy[tensor, chain])
            energy += least
            for part in range(PARTS):
                for level in range(len(assignment.keep)):
                    words = np.inf
                    for chain in range(chains.counts[tensor]):
                        words = min(words, chains.demand[tensor, chain, part, level])
                    assignment.demand[part, level, tensor] = words
        bounds[row] = value(space, assignment, energy, assignment.demand, assignment.walk)


@entry
def keep_bounds(
    space: Space, spatial: Array, chains: LevelChains, assignment: Assignment, bounds: Array
) -> None:
    """Fill ``bounds`` [n] for all keep sets of ``chains.choice`` and spatial factors [levels, dims]."""
    copy_rows(spatial, assignment.spatial)
    _fill(space, chains, assignment)
    # Here a row is one choice of what all levels keep, which gives every tensor one known chain.
    for row in range(len(chains.choice)):
        energy = space.model.mac_energy_pj
        for tensor in range(len(chains.counts)):
            chain = chains.choice[row, tensor]
            energy += chains.energy[tensor, chain]
            for part in range(PARTS):
                for level in range(len(assignment.keep)):
                    assignment.demand[part, level, tensor] = chains.demand[tensor, chain, part, level]
        bounds[row] = value(space, assignment, energy, assignment.demand, assignment.walk)


@inlined
def _fill(space: Space, chains: LevelChains, assignment: Assignment) -> None:
    """Fill ``chains.energy`` and ``chains.demand`` for the spatial factors of ``assignment``."""
    assign_factors(space, assignment)
    for tensor in range(len(chains.counts)):
        for chain in range(chains.counts[tensor]):
            _fill_chain(space, chains, assignment, tensor, chain)


@inlined
def _fill_chain(space: Space, chains: LevelChains, assignment: Assignment, tensor: int, chain: int) -> None:
    """Fill the entries of one chain of a tensor: what the MAC units ask for, and a fill of every level but
    the outermost with the tensor's different words, which no loops can make fewer."""
    for level in range(len(assignment.keep)):
        # Only this tensor is kept while its chain is bounded: what else levels keep does not matter.
        assignment.keep[level] = (chains.levels[tensor, chain] >> level & 1) << tensor
        for part in range(PARTS):
            assignment.demand[part, level, tensor] = 0.0
    assignment.energy_pj[0] = 0.0
    assign_tensor(space, assignment, tensor)
    energy = assignment.energy_pj[0]
    for level in range(len(assignment.keep) - 1):
        if chains.levels[tensor, chain] >> level & 1:
            energy += boundary_pj(space, assignment, level, tensor, assignment.floor_words[level, tensor])
    chains.energy[tensor, chain] = energy
    for part in range(PARTS):
        for level in range(len(assignment.keep)):
            chains.demand[tensor, chain, part, level] = assignment.demand[part, level, tensor]
