"""Annealing chains that propose mappings, guided by a model's predictions or by measured costs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.limits import limit_reached
from costmodel.mapping.batch.batch import MappingBatch
from solvers.mapping.learned_annealing.features_kernel import WalkSpace, feature_arrays
from solvers.mapping.learned_annealing.measurements import joined
from solvers.mapping.learned_annealing.params import Params
from solvers.mapping.learned_annealing.regressor import no_trees
from solvers.mapping.learned_annealing.walk_kernel import (
    DRAWS,
    Proposals,
    Trees,
    Trial,
    WalkDraws,
    learn_of,
    walk,
)
from solvers.mapping.space.space import MappingSpace

Array = NDArray[Any]

START_ROUNDS = 64
"""The most batches of random mappings that are drawn in search of one to start at."""


class AnnealingChains:
    """The chains, and the hashes of all mappings proposed so far, drawn ones included."""

    def __init__(self, space: MappingSpace, walk_space: WalkSpace, params: Params, seed: int) -> None:
        self._space, self._walk_space, self._params = space, walk_space, params
        self._random = np.random.default_rng(seed)
        self._seed, self._blocks = seed, 0
        self._known = np.zeros(_table_size((params.batches + 1) * params.batch), np.uint64)
        self._trial = Trial(
            MappingBatch.empty(1, space.architecture, space.layer).rows, feature_arrays(walk_space)
        )
        self.at = self._starts()

    def __len__(self) -> int:
        return len(self.at)

    def _starts(self) -> MappingBatch:
        """A random mapping for each chain, some repeated if few are found; empty if none is found."""
        for _ in range(START_ROUNDS):
            whole = self._sample(self._params.batch)
            if len(whole):
                return whole[np.resize(np.arange(len(whole)), self._params.chains)]
        effect = "no mapping was drawn to start at, though there may be some"
        limit_reached("batches of drawn mappings", START_ROUNDS, effect)
        return self._sample(0)

    def _sample(self, count: int) -> MappingBatch:
        """``count`` random mappings with keep sets of their own; fewer where keep sets leave a dim no way."""
        # A block has one choice of keep sets, so a block of one row each makes the keep sets as varied as the
        # loops.
        rows = self._space.sample(range(self._blocks, self._blocks + count), self._seed, 1)
        self._blocks += count
        factors = rows.temporal.astype(np.int64) * rows.spatial_x * rows.spatial_y
        sizes = [size for _, size in self._space.layer.dims]
        return rows[(factors.prod(axis=1) == sizes).all(axis=1)]

    def drawn(self, count: int) -> MappingBatch:
        """Up to ``count`` random mappings that are new."""
        rows = self._sample(count)
        fresh = np.zeros(len(rows), np.bool_)
        learn_of(rows.rows, self._known, fresh)
        return rows[fresh]

    def restart(self, best: MappingBatch) -> None:
        """Put ``elite_fraction`` of the chains at the ``best`` mappings, several at each if they are few."""
        count = int(self._params.elite_fraction * len(self))
        if count and len(best):
            self.at = joined(best[np.resize(np.arange(min(len(best), count)), count)], self.at[count:])

    def settle(self, rows: MappingBatch) -> Array:
        """Put all chains at ``rows``, several at each if they are few.

        Returns, for each chain, the number of its row.
        """
        which = np.resize(np.arange(len(rows)), len(self))
        self.at = rows[which]
        return which

    def proposals(self, trees: Trees, steps: int) -> tuple[Array, MappingBatch]:
        """Walk ``steps``: the chains that met something new, best first, and the best that each met."""
        how = WalkDraws(
            self._random.random((len(self), steps, DRAWS)),
            self._params.temperature * np.linspace(1, 0, steps, endpoint=False),
        )
        found = self.at[np.arange(len(self))]
        out = Proposals(found.rows, np.empty(len(self)), self._known)
        walk(self._walk_space, trees, self.at.rows, self._trial, how, out)
        order = np.argsort(out.predicted, kind="stable")
        order = order[np.isfinite(out.predicted[order])]
        return order, found[order]

    def neighbours(self) -> tuple[Array, MappingBatch]:
        """A new mapping one step from each chain, which stays where it is; and which chains have one."""
        # A walk of one step moves the chains themselves, so it walks on a copy of them.
        stay = self.at
        self.at = stay[np.arange(len(stay))]
        chains, rows = self.proposals(no_trees(), 1)
        self.at = stay
        return chains, rows

    def accept(self, chains: Array, rows: MappingBatch, rise: Array, temperature: float) -> Array:
        """Move ``chains`` to ``rows`` by Metropolis's rule on the ``rise`` of logarithms; which did."""
        with np.errstate(over="ignore"):
            chance = np.exp(-rise / max(temperature, 1e-12))
        moved: Array = self._random.random(len(rise)) < chance
        for there, here in zip(rows.rows, self.at.rows, strict=True):
            here[chains[moved]] = there[moved]
        return moved


def _table_size(entries: int) -> int:
    """A power of two, at least four times as large: probing in a mostly empty hash table ends soon."""
    return int(2 ** np.ceil(np.log2(4 * entries)))
