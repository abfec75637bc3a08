"""The order in which the packing search tries buffers: fresh ranks, and ranks repaired where they failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.scratchpad.packing.problem import Buffer
from solvers.scratchpad.packing.sections import Sections

Array = NDArray[Any]

FRESH_NOISE = (0.05, 0.15, 0.4)
"""Standard deviations of the noise on the logarithm of a fresh rank's key; each rank draws one."""
REPAIR_NOISE = (0.02, 0.1, 0.4)
"""Standard deviations by which a repair moves a buffer in the rank, as fractions of all buffers."""
REPAIRED_FRACTIONS = (0.1, 0.5)
"""Fractions of the buffers alive at a failure that a repair moves."""
FAILING = 0.2
"""A section with this fraction of the worst section's failures counts as one where the search failed."""
PATIENCE = 60
"""Repairs without progress after which a fresh rank begins."""


class Ranks:
    """Ranks for one search after the other; 0 is the buffer tried first.

    A search that ran out of placements tells how many buffers were placed at once, and in which sections the
    capacity was exceeded. The rank that got farthest is kept and changed for buffers in these sections only.
    So hard sections are solved one after the other, where fresh ranks need luck in all of them at once.
    """

    def __init__(
        self, buffers: Sequence[Buffer], instance: Sections, random: np.random.Generator, repairs: bool
    ) -> None:
        size = instance.size.astype(float)
        self.instance, self.random, self.repairs = instance, random, repairs
        self.length = np.array([buffer.end - buffer.start for buffer in buffers], float)
        self.area = size * self.length
        self.kinds = (self.area, size, self.length, (instance.last - instance.first + 1) * size)
        self.crowd = self._highest(instance.load) / max(1, instance.load.max())
        self.farthest, self.idle = -1, 0
        self.best = self.failed = np.zeros(len(size), np.int64)

    def plain(self) -> Array:
        """Crowded moments first, there long buffers, of those large ones."""
        return _ranks(self.crowd, self.length, self.area)

    def next(self) -> Array:
        """A repair of the farthest rank; a fresh one at first, and after repairs without progress."""
        if self.farthest < 0 or self.idle > PATIENCE or not self.repairs:
            self.farthest, self.idle = -1, 0
            return self._fresh()
        return self._repaired()

    def learn(self, rank: Array, placed: int, failures: Array) -> None:
        """What a search with that rank came to: the most buffers placed, failures a section."""
        self.idle = 0 if placed > self.farthest else self.idle + 1
        if placed >= self.farthest:
            self.farthest, self.best = placed, rank.copy()
            self.failed = self._highest(failures) >= FAILING * failures.max()

    def _fresh(self) -> Array:
        """Crowded moments first, in coarse or fine classes or not at all; then one of the keys with noise."""
        crowd = np.round(self.crowd, self.random.integers(3))
        key = self.kinds[self.random.integers(len(self.kinds))]
        noise = self.random.choice(FRESH_NOISE)
        return _ranks(crowd, key * np.exp(self.random.normal(0, noise, len(key))))

    def _repaired(self) -> Array:
        """The farthest rank with some of the buffers moved that were alive where it failed."""
        count = len(self.best)
        moved = self.failed & (self.random.random(count) < self.random.choice(REPAIRED_FRACTIONS))
        noise = count * self.random.choice(REPAIR_NOISE)
        return _ranks(-(self.best + moved * self.random.normal(0, noise, count)))

    def _highest(self, values: Array) -> Array:
        """Per buffer the highest value in its sections."""
        pairs = zip(self.instance.first, self.instance.last, strict=True)
        return np.array([values[first : last + 1].max() for first, last in pairs], float)


def _ranks(*keys: Array) -> Array:
    """0 for the buffer with the largest first key; later keys where earlier ones are equal."""
    ranks = np.empty(len(keys[0]), np.int64)
    ranks[np.lexsort([-key for key in reversed(keys)])] = np.arange(len(ranks))
    return ranks
