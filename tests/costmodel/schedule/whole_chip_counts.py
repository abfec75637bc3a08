"""A loop nest on the whole chip written out: what every tile holds at every step, and how it came there.

Nothing is shared with the model but values. Tiles keep what they have from one iteration of DRAM's loops to
the next and fetch the rest; tiles that need the same get it in one tree, and partial sums of the same outputs
meet on their way to DRAM.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, permutations, product
from math import ceil

from costmodel.hardware.chip import Chip
from costmodel.mapping.mapping import Loop, Mapping
from costmodel.workload.network import Layer, Tensor
from tests.costmodel.schedule.chip_counts import Link, path, tree

Point = dict[str, int]
Words = frozenset[tuple[int, ...]]
Sides = tuple[tuple[str, ...], tuple[str, ...]]


class Traffic:
    """Bits that DRAM moves for a part of a layer, and those on each link."""

    def __init__(self) -> None:
        self.bits = 0
        self.links: dict[Link, Fraction] = defaultdict(Fraction)

    def cycles(self, chip: Chip) -> int:
        """The cycles of the slower of DRAM and the busiest link."""
        busiest = max(self.links.values(), default=Fraction(0))
        return max(
            ceil(Fraction(self.bits, 8 * chip.dram.bytes_per_cycle)),
            ceil(busiest / (8 * chip.noc.link_bytes_per_cycle)),
        )


class WholeChipCounts:
    """Bits and link loads (bits) of a mapping whose DRAM loops number columns and rows as ``sides`` say."""

    def __init__(self, chip: Chip, nest: Layer, mapping: Mapping, sides: Sides) -> None:
        self.chip, self.nest, self.mapping, self.sides = chip, nest, mapping, sides
        self.read, self.written, self.filled, self.emptied = 0, 0, 0, 0
        widths = chip.tile.widths
        self.bits = {"weights": widths.weights, "inputs": widths.activations, "outputs": widths.activations}
        self.sum_bits = widths.partial_sums
        self.links: dict[Link, Fraction] = defaultdict(Fraction)
        self.first, self.reading, self.last = Traffic(), Traffic(), Traffic()
        for tensor in nest.tensors:
            (self._outputs if tensor.is_output else self._operand)(tensor)

    def _operand(self, tensor: Tensor) -> None:
        held: dict[int, Words] = {}
        for step, needed in enumerate(self._steps(tensor)):
            missing = {tile: words - held.get(tile, frozenset()) for tile, words in needed.items()}
            self._spread(missing, self.bits[tensor.role], () if step else (self.first,))
            held = needed

    def _outputs(self, tensor: Tensor) -> None:
        """A tile sends its sums when it needs other ones, and gets those back that it, or another, sent.

        What DRAM gets last of an output is complete, and what it gets before are partial sums. So is all that
        several tiles send of the same output.
        """
        held: dict[int, Words] = {}
        sent: set[tuple[int, ...]] = set()
        steps = [*self._steps(tensor), {}]
        times: Counter[tuple[int, ...]] = Counter()
        for before, needed in pairwise(steps):
            sending = {words for tile, words in before.items() if needed.get(tile) != words}
            times.update(word for words in sending for word in words)
        for needed in steps:
            leaving = {tile: words for tile, words in held.items() if needed.get(tile) != words}
            for words, tiles in _alike(leaving).items():
                times.subtract(words)
                partial = sum(times[word] > 0 for word in words)
                complete = self.sum_bits if len(tiles) > 1 else self.bits["outputs"]
                on_links = partial * self.sum_bits + (len(words) - partial) * complete
                self.written += partial * self.sum_bits + (len(words) - partial) * self.bits["outputs"]
                self.emptied += len(words) * len(tiles)
                phases = () if needed else (self.last,)
                for phase in phases:
                    phase.bits += partial * self.sum_bits + (len(words) - partial) * self.bits["outputs"]
                for port in self.chip.ports:
                    ways = set().union(*(path(self.chip.positions[tile], port) for tile in tiles))
                    self._load(ways, on_links, phases)
                sent |= words
            arriving = {tile: words & sent for tile, words in needed.items() if held.get(tile) != words}
            self._spread(arriving, self.sum_bits)
            held = needed

    def _spread(self, missing: dict[int, Words], bits: int, phases: Sequence[Traffic] = ()) -> None:
        """Bring tiles what they miss; ``phases``: what it is counted for beside all that is read."""
        for words, tiles in _alike(missing).items():
            for phase in (*phases, self.reading):
                phase.bits += len(words) * bits
            self.read += len(words) * bits
            self.filled += len(words) * len(tiles) * bits
            for port in self.chip.ports:
                self._load(tree(self.chip, port, tiles), len(words) * bits, (*phases, self.reading))

    def _load(self, links: set[Link], size: int, phases: Sequence[Traffic]) -> None:
        for link in links:
            for loads in (self.links, *(phase.links for phase in phases)):
                loads[link] += Fraction(size, len(self.chip.ports))

    def _steps(self, tensor: Tensor) -> Iterator[dict[int, Words]]:
        """What every tile in use needs, iteration by iteration of DRAM's loops."""
        inside = self.mapping.tiles[-2]
        outer = self.mapping.levels[-1]
        spread = dict(outer.spatial)
        steps = {dim: inside.get(dim, 1) for dim in self.nest.sizes}
        temporal = {dim: steps[dim] * spread.get(dim, 1) for dim in steps}
        for iteration in _iterations(outer.temporal):
            base = {dim: index * temporal[dim] for dim, index in iteration.items()}
            yield {
                tile: self._words(
                    tensor, {dim: base.get(dim, 0) + at.get(dim, 0) * steps[dim] for dim in steps}
                )
                for tile, at in self._tiles(spread)
            }

    def _words(self, tensor: Tensor, first: Point) -> Words:
        """The words of a tensor from the point ``first`` on, all that a buffer's tile covers."""
        inside = self.mapping.tiles[-2]
        axes = []
        for axis in tensor.terms:
            start = sum(step * first[dim] for dim, step in axis)
            length = 1 + sum(step * (inside.get(dim, 1) - 1) for dim, step in axis)
            axes.append(range(start, start + length))
        return frozenset(product(*axes))

    def _tiles(self, spread: dict[str, int]) -> Iterator[tuple[int, Point]]:
        numbers = {position: tile for tile, position in enumerate(self.chip.positions)}
        along_x, along_y = (list(_iterations([(dim, spread[dim]) for dim in side])) for side in self.sides)
        for x, at_x in enumerate(along_x):
            for y, at_y in enumerate(along_y):
                yield numbers[x, y], at_x | at_y


def all_placements(chip: Chip, mapping: Mapping) -> Iterator[Sides]:
    """All orders of DRAM's spatial loops on both sides of the mesh, innermost first; and sides exchanged."""
    outer = mapping.levels[-1]
    for x, y in ((outer.spatial_x, outer.spatial_y), (outer.spatial_y, outer.spatial_x)):
        sizes = [len(list(_iterations(side))) for side in (x, y)]
        if sizes[0] <= chip.columns and sizes[1] <= chip.rows:
            for side_x, side_y in product(permutations(x), permutations(y)):
                yield tuple(dim for dim, _ in side_x), tuple(dim for dim, _ in side_y)


def _iterations(loops: list[Loop] | tuple[Loop, ...]) -> Iterator[Point]:
    """Indices of loops, the innermost (first) fastest."""
    for indices in product(*(range(bound) for _, bound in reversed(loops))):
        yield dict(zip((dim for dim, _ in reversed(loops)), indices, strict=True))


def _alike(needed: dict[int, Words]) -> dict[Words, set[int]]:
    alike: dict[Words, set[int]] = {}
    for tile, words in needed.items():
        if words:
            alike.setdefault(words, set()).add(tile)
    return alike
