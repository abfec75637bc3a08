"""The neighbours of a mapping: a prime factor moved, two exchanged, a loop reordered, a keep set changed."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.mapping.batch.batch import MappingBatch
from costmodel.mapping.batch.batch_tables import BatchRows
from solvers.divisors import prime_powers
from solvers.mapping.space.space import MappingSpace

Array = NDArray[Any]
KINDS = {"temporal": 0, "x": 1, "y": 2}


class Neighbourhood:
    """The small changes of mappings of one space; factors may leave the bounds that the user gave."""

    def __init__(self, space: MappingSpace) -> None:
        from solvers.mapping.space.neighbours_kernel import Changes, work_of

        architecture, layer = space.architecture, space.layer
        self._layer = layer
        levels = len(architecture.levels)
        limit = np.ones(3 * levels, np.int64)
        for level, hardware in enumerate(architecture.levels):
            limit[KINDS["x"] * levels + level] = hardware.fanout_x
            limit[KINDS["y"] * levels + level] = hardware.fanout_y
        every = [kind * levels + level for level in range(levels) for kind in range(3)]
        # a temporal block takes any factor, a side of a fan-out of 1 none
        positions = [position for position in every if position < levels or limit[position] > 1]
        primes = [(d, prime) for d, (_, size) in enumerate(layer.dims) for prime, _ in prime_powers(size)]
        factors = np.array(
            [(d, prime, position) for d, prime in primes for position in positions], dtype=np.int64
        )
        dim, prime, position = np.ascontiguousarray(factors.reshape(-1, 3).T)
        keeps = [(level, mask) for level, masks in enumerate(space.keep_sets) for mask in masks]
        bits = np.arange(len(layer.tensors))
        ranks = space.loop_ranks
        self.changes = Changes(
            dim=dim,
            prime=prime,
            position=position,
            to=np.array(positions, np.int64),
            limit=limit,
            keep_level=np.array([level for level, _ in keeps], np.int64),
            keep_sets=np.array([mask for _, mask in keeps], np.int64)[:, None] >> bits & 1 == 1,
            ranks=ranks,
            ordered=bool(ranks.any()),
        )
        self.work = work_of(self.changes)

    @cached_property
    def most(self) -> int:
        """No mapping has more neighbours than this.

        A mapping holds each prime factor of each dim's size at one position.
        """
        changes, layer = self.changes, self._layer
        held = sum(power for _, size in layer.dims for _, power in prime_powers(size))
        moved, exchanged = 2 * held * len(changes.to), held * (held - 1) // 2
        return moved + exchanged + 2 * changes.ranks.size + len(changes.keep_level)

    def around(self, mapping: MappingBatch) -> MappingBatch:
        """All neighbours of the one row of ``mapping`` within the fan-outs; their tiles may not fit.

        Loops stand in an order that the rules allow.
        """
        return self.around_each(mapping)[0]

    def around_each(self, mappings: MappingBatch) -> tuple[MappingBatch, Array]:
        """The neighbours of every row, those of one row after those of another, and how many each has [n]."""
        from solvers.mapping.space.neighbours_kernel import write_neighbours

        rows = BatchRows(*(np.ascontiguousarray(array) for array in mappings.rows))
        counts = np.empty(len(mappings), np.int64)
        write_neighbours(self.changes, rows, self.work, counts, rows, False)
        total = int(counts.sum())
        found = BatchRows(*(np.empty((total, *array.shape[1:]), array.dtype) for array in rows))
        write_neighbours(self.changes, rows, self.work, counts, found, True)
        return MappingBatch(*found), counts
