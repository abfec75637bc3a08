"""A bound on a part by its share of what a larger part of the layer costs inside the chip.

The closed forms of the cost model say what words and operations cost that nothing avoids. Mostly a fifth more
is spent, since registers and arrays are small, and how much more hardly depends on the size of the part. So
that is proven once, for the *inside* of a layer: the layer with all its tensors whole in the outermost level
of the chip, as if this were as large as that needs, without the way to and from the outermost memory.

Why a part takes its share of that at least: take the loops of the part's nest that stand at the outermost
memory, and loops over all parts around them, into the block of the outermost level of the chip. The result is
a nest of the inside. Around the tiles further in stand the same loops in the same order, so as many words are
delivered there as in all parts together, or fewer where a loop over parts leaves a tile as it is. Blocks and
cycles are rounded up once, and not for every part. The way to the outermost memory is no part of the inside:
every word that the part does not hold passes it once at least.

Not all sizes can be put together like this: they have to divide those of the layer, and of parts along a
summed dim one begins at zero and the others go on. Where they cannot, the inside has the size of the part.
Parts that all go on are put together along summed dims, too: to a layer whose sums are there before.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import prod

from costmodel.hardware.architecture import Architecture
from costmodel.mapping.bounds.bounds import touched_words
from costmodel.workload.network import Layer
from solvers.budget import Deadline
from solvers.fusion.layers.corners import Corner
from solvers.fusion.layers.questions import PartKey, Question, part_of, way_pj
from solvers.mapping.exact import Solving


class Insides:
    """The insides of a group's layers, each proven once, for energy with each of ``prices`` on a cycle."""

    def __init__(
        self,
        architecture: Architecture,
        layers: tuple[Layer, ...],
        prices: tuple[float, ...],
        deadline: Deadline,
    ) -> None:
        self._architecture, self._layers = architecture, layers
        self._prices, self._deadline = prices, deadline
        self._level = len(architecture.levels) - 2
        self._proven: dict[PartKey, Corner] = {}
        self.evaluations = 0
        levels = list(architecture.levels)
        if levels[1:]:
            levels[self._level] = replace(levels[self._level], size_words=None)
        self._ample = replace(architecture, levels=tuple(levels))

    def least(self, key: PartKey) -> Corner | None:
        """What one turn of the part takes at least, its cycles apart; None where nothing is known.

        Raises OutOfTimeError.
        """
        part, able = part_of(self._layers, key), self.passing(key)
        if able is None:
            return None
        share, proven = self._inside(key, part, able)
        way = self._way(part, able - dict(key.held).keys())
        priced = tuple(one * share + way for one in proven.priced)
        return Corner(proven.energy * share + way, 0.0, priced)

    def passing(self, key: PartKey) -> frozenset[str] | None:
        """The tensors that every nest keeps in the outermost level of the chip; None: there is no inside.

        That is so where tensors are held further in, the level has several instances or less capacity than a
        word of each tensor, or first visits of outputs are not one for each word, as where their windows
        overlap.
        """
        part, level = part_of(self._layers, key), self._architecture.levels[self._level]
        able = frozenset(tensor.name for tensor in part.tensors if level.can_keep(tensor))
        plain = all(len(axis) <= 1 and all(step == 1 for _, step in axis) for axis in part.output.terms)
        is_known = (
            plain
            and self._level >= 0
            and self._architecture.instances[self._level] == 1
            and len(able) <= level.usable_words
            and all(at == self._level for _, at in key.held)
        )
        return able if is_known else None

    def _inside(self, key: PartKey, part: Layer, able: Collection[str]) -> tuple[float, Corner]:
        """What share of an inside the part is, and what that takes at least."""
        whole = self._layers[key.position].sizes
        sizes = {
            dim: whole[dim] if whole[dim] % size == 0 and (key.begun or dim not in part.summed) else size
            for dim, size in part.dims
        }
        held = tuple(sorted((name, self._level) for name in {*able, *dict(key.held)}))
        inside = replace(key, sizes=tuple(sizes.items()), held=held, capacities=())
        if inside not in self._proven:
            self._proven[inside] = self._prove(inside)
        return part.macs / prod(sizes.values()), self._proven[inside]

    def _prove(self, inside: PartKey) -> Corner:
        """The bounds that the exact mapper has for an inside."""
        question = Question(self._ample, part_of(self._layers, inside), inside)
        found = []
        for price in (0.0, *self._prices):
            self._deadline.check()
            seconds = self._deadline.budget().wall_seconds
            outcome = Solving(question.problem("energy", price)).go_on(seconds)
            self.evaluations += outcome.evaluations
            found.append(max(0.0, (outcome.bound or 0.0) - question.taken_off))
        return Corner(found[0], 0.0, tuple(found[1:]))

    def _way(self, part: Layer, coming: Collection[str]) -> float:
        """pJ of the words that pass the outermost memory, once for each that the part touches."""
        outer, level, energy = self._architecture.levels[-1], self._architecture.levels[self._level], 0.0
        for tensor in part.tensors:
            if tensor.name not in coming:
                continue
            for pj in way_pj(tensor, touched_words(tensor, part.sizes), outer, level):
                energy += pj
        return energy

    def of_turns(self, whole: PartKey, turns: Collection[tuple[dict[str, int], int]]) -> Corner:
        """What a whole layer takes at least in turns of unequal parts, given as sizes and how many there are.

        Every word passes the outermost memory once. Only where there is an inside. Raises OutOfTimeError.
        """
        able, layer = self.passing(whole), part_of(self._layers, whole)
        assert able is not None, "there is no inside"
        way = self._way(layer, able - dict(whole.held).keys())
        energy, priced = way, [way] * len(self._prices)
        for sizes, times in turns:
            key = replace(whole, sizes=tuple(sizes.items()))
            share, proven = self._inside(key, part_of(self._layers, key), able)
            energy += times * share * proven.energy
            priced = [one + times * share * more for one, more in zip(priced, proven.priced, strict=True)]
        return Corner(energy, 0.0, tuple(priced))
