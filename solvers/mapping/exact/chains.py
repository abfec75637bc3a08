"""The levels that keep a tensor, its *chain*: all that it can have, over all choices of what levels keep.

Given the spatial factors, the least cost of a tensor depends on its chain and not on what else levels keep.
There are few chains and many choices, so that costs are computed for each chain and summed for each choice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class LevelChains(NamedTuple):
    """The levels that can keep each tensor, and what that costs at least for some spatial factors."""

    counts: Array
    """[tensors] how many chains."""
    levels: Array
    """[tensors, most] sets of levels."""
    choice: Array
    """[keep sets, tensors] the chain that a choice of keep sets gives each tensor."""
    energy: Array
    """[tensors, most]"""
    demand: Array
    """[tensors, most, 2, levels] words per instance read and written, whatever the loops."""


def chains_of(keeps: Array, tensors: int) -> LevelChains:
    """The chains of all choices of keep sets [n, levels]."""
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
        demand=np.zeros((*table.shape, 2, levels)),
    )
