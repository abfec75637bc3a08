"""A tensor's *chain* is the set of levels that keep it; here are all chains that each tensor can have.

Given the spatial factors, the least cost of a tensor depends on its chain and not on what else levels keep.
A choice of keep sets gives every tensor one chain. There are many choices and few chains, so costs are
computed once for each chain (``kernels/choice_kernel.py``) and added up for each choice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class LevelChains(NamedTuple):
    """The chains of all tensors, and what each costs at least with some spatial factors."""

    counts: Array
    """[tensors] how many chains."""
    levels: Array
    """[tensors, most] each tensor's chains, as bit masks of levels."""
    choice: Array
    """[choices, tensors] the number of the chain that a choice of keep sets gives each tensor."""
    energy: Array
    """[tensors, most] pJ."""
    demand: Array
    """[tensors, most, 3, levels] words per instance read, written and updated, whatever the loops."""


def chains_of(keeps: Array, tensors: int) -> LevelChains:
    """The chains of ``tensors`` tensors over all choices of keep sets: ``keeps`` [choices, levels], bit masks
    of tensors. Energies and demands are 0 until a kernel fills them."""
    levels = keeps.shape[1]
    masks = (keeps[:, :, None] >> np.arange(tensors) & 1) * (1 << np.arange(levels))[:, None]
    found = [np.unique(masks[:, :, tensor].sum(axis=1), return_inverse=True) for tensor in range(tensors)]
    counts = np.array([len(chains) for chains, _ in found], np.int64)
    table = np.zeros((tensors, counts.max()), np.int64)
    for tensor, (chains, _) in enumerate(found):
        table[tensor, : len(chains)] = chains
    return LevelChains(
        counts=counts,
        levels=table,
        choice=np.stack([choice.reshape(-1) for _, choice in found], axis=1).astype(np.int64),
        energy=np.zeros(table.shape),
        demand=np.zeros((*table.shape, 3, levels)),
    )
