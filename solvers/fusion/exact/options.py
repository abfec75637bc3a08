"""What one einsum of a structure can hoist, and what it then costs at least and takes of the levels."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import product
from math import inf, prod
from typing import NamedTuple

from costmodel.mapping.fused.mapping import Loops
from solvers.fusion.exact.nests import EinsumNests, NestChoice, NestFront
from solvers.fusion.exact.structures import Structure, tile_of
from solvers.fusion.fronts import Point


class Hoist(NamedTuple):
    """A tensor's tile above shared loop ``depth``: words of the tile, and words that enter it in all."""

    tensor: int
    depth: int
    tile: int
    entering: int


@dataclass(frozen=True)
class Option:
    """One choice of hoisted tensors of an einsum, with the nests that are left to it.

    ``capacity``: words for own tiles in the outermost level of the chip if nobody else hoists anything.
    ``turns`` and ``fixed_pj`` make the energies of ``front`` those of the einsum: its nests are counted for
    one turn and without what is fixed where energy alone is asked for.
    ``least``: the least pJ and the least cycles within ``capacity``, which need not be of one nest.
    """

    hoists: tuple[Hoist, ...]
    choice: NestChoice
    front: NestFront
    capacity: float
    turns: int
    fixed_pj: float
    least: Point

    def rows(self, taken: int) -> int:
        """How many rows of the front fit where others take so many words."""
        return bisect_right(self.front.words, self.capacity - taken)

    def point(self, row: int) -> Point:
        """The costs of a row of the front."""
        _, energy, cycles = self.front.rows[row]
        return Point(self.turns * float(energy) + self.fixed_pj, float(cycles))

    def least_of(self, rows: int) -> Point:
        """The least pJ and cycles of so many first rows."""
        energy, cycles = self.front.least
        return Point(self.turns * energy[rows - 1] + self.fixed_pj, cycles[rows - 1])


class OptionKey(NamedTuple):
    """All that the options of an einsum depend on.

    ``path``, its shared loops; ``emptied``, how many loops empty a tile above each of them; ``kept``, the
    words of backing tiles by level; the backing levels of what it reads and makes, the outermost if none.
    """

    path: Loops
    emptied: tuple[int, ...]
    kept: tuple[int, ...]
    reads_from: int
    writes_to: int


class EinsumOptions:
    """The options of one einsum of the chain, remembered by what they depend on."""

    def __init__(self, nests: EinsumNests) -> None:
        self.nests = nests
        self._found: dict[OptionKey, tuple[Option, ...]] = {}

    def of(self, structure: Structure) -> tuple[Option, ...]:
        """The options in a structure, the cheapest first; none where not even the smallest tiles fit."""
        number = self.nests.position - structure.first
        mapping = structure.mapping
        path = mapping.paths[number]
        outermost = self.nests.chain.outermost
        key = OptionKey(
            path,
            tuple(mapping.emptied_below(number, depth) for depth in range(len(path))),
            structure.kept[number],
            structure.pairs[number - 1].backing if number else outermost,
            structure.pairs[number].backing if number < len(structure.pairs) else outermost,
        )
        if key not in self._found:
            options = [one for hoists in self._hoists(key) if (one := self._option(key, hoists))]
            options.sort(key=lambda one: (one.least.energy or 1.0) * (one.least.cycles or 1.0))
            self._found[key] = tuple(options)
        return self._found[key]

    def _backing(self, key: OptionKey, tensor: int) -> int:
        name = self.nests.tensors[tensor]
        position, chain = self.nests.position, self.nests.chain
        if position and name == chain.intermediates[position - 1]:
            return key.reads_from
        return key.writes_to if name == self.nests.einsum.output else chain.outermost

    def _hoists(self, key: OptionKey) -> list[tuple[Hoist, ...]]:
        """All sets of hoisted tiles, but for tiles that are larger than another which moves no more words."""
        each: list[list[tuple[Hoist, ...]]] = []
        for tensor in range(len(self.nests.tensors)):
            choices: list[Hoist] = []
            if self._backing(key, tensor) == self.nests.chain.outermost:
                # tiles above deeper loops come first: they are no larger, and stay for fewer einsums
                for depth in range(len(key.path) - 1, -1, -1):
                    hoist = self._hoist(key, tensor, depth)
                    if all(other.entering > hoist.entering for other in choices):
                        choices.append(hoist)
            each.append([(), *((hoist,) for hoist in choices)])
        return [tuple(hoist for one in chosen for hoist in one) for chosen in product(*each)]

    def _hoist(self, key: OptionKey, tensor: int, depth: int) -> Hoist:
        einsum, name = self.nests.einsum, self.nests.tensors[tensor]
        relevant = einsum.dims_of(name)
        above, times, left = key.path[:depth], [], dict(einsum.dims)
        for dim, step in above:
            times.append(left[dim] // step)
            left[dim] = step
        moved = key.emptied[depth]
        for number, (dim, _) in enumerate(above):
            if dim in relevant:
                moved = max(moved, number + 1)
        tile = tile_of(einsum, name, above)
        return Hoist(tensor, depth, tile, tile * prod(times[:moved]))

    def _option(self, key: OptionKey, hoists: tuple[Hoist, ...]) -> Option | None:
        nests, chain = self.nests, self.nests.chain
        on_chip = chain.outermost
        hoisted = {hoist.tensor for hoist in hoists}
        own = []
        for level in range(on_chip):
            bits = 0
            for tensor in range(len(nests.tensors)):
                if level < self._backing(key, tensor) and not (level == on_chip - 1 and tensor in hoisted):
                    bits |= 1 << tensor
            own.append(bits)
        capacities = [
            inf if level.capacity is None else float(level.capacity - kept)
            for level, kept in zip(chain.levels[:-1], key.kept, strict=True)
        ]
        capacity = capacities[-1] - sum(hoist.tile for hoist in hoists)
        if capacity < 0:
            return None
        left = dict(nests.einsum.dims) | dict(key.path)
        turns = prod(nests.einsum.dims[dim] // step for dim, step in key.path)
        entering = (
            sum(hoist.entering for hoist in hoists if hoist.tensor != nests.output),
            sum(hoist.entering for hoist in hoists if hoist.tensor == nests.output),
        )
        extents = tuple(left[dim] for dim in nests.dims)
        by_energy = nests.objective == "energy"
        choice = NestChoice(
            extents,
            tuple(own),
            tuple(capacities[:-1]),
            1 if by_energy else turns,
            (0, 0) if by_energy else entering,
        )
        front = nests.front(choice)
        rows = bisect_right(front.words, capacity)
        if not rows:
            return None
        fixed = 0.0
        if by_energy:
            _, _, fixed = nests.fixed_at(min(on_chip, self._backing(key, nests.output)))
            fixed += entering[0] * float(nests.word_pj[-2]) + entering[1] * float(nests.word_pj[-1])
        found = Option(hoists, choice, front, capacity, turns if by_energy else 1, fixed, Point(0.0, 0.0))
        return replace(found, least=found.least_of(rows))
