"""What layers share and keep: all structures of a run of layers of a group.

A *run* is a sequence of layers that nothing cuts in two: over every border between neighbours passes an
intermediate that stays on the chip. Between runs nothing but the outermost memory connects layers, so their
costs add up and the capacity that they take does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise, product
from typing import NamedTuple, TypeVar

from costmodel.mapping.fused.layers.checker import tree_violations
from costmodel.mapping.fused.layers.group import Intermediate, LayerGroup
from costmodel.mapping.fused.layers.sliding import kept_rows, rows_made
from costmodel.mapping.fused.layers.turns import LayerTurns, backing_words, common_depth, held_tiles, turns_of
from costmodel.mapping.fused.mapping import FusedMapping, KeptTile, Loops, MadeAnew
from solvers.fusion.shared_loops import lists_beside

_One = TypeVar("_One")


@dataclass(frozen=True)
class Run:
    """The layers ``first`` to ``last`` of a group as a group of their own, numbered from 0.

    Whatever passes to or from other layers goes to the outermost memory.
    """

    whole: LayerGroup
    first: int
    last: int

    @cached_property
    def group(self) -> LayerGroup:
        inside = range(self.first, self.last + 1)
        intermediates = []
        for one in self.whole.intermediates:
            reads = [read for read in one.reads if read.layer in inside]
            if one.producer in inside and reads:
                moved = tuple(replace(read, layer=read.layer - self.first) for read in reads)
                beside = {
                    other.producer for read in reads for other in self.whole.sources(read.layer, read.tensor)
                }
                # what is read together with something from outside comes from where that is
                leaves = one.leaves or len(reads) < len(one.reads) or not beside <= set(inside)
                intermediates.append(Intermediate(one.producer - self.first, moved, leaves))
        return LayerGroup(
            self.whole.architecture,
            self.whole.layers[self.first : self.last + 1],
            tuple(intermediates),
            names=self.whole.loops[self.first : self.last + 1],
        )


@dataclass(frozen=True)
class GroupStructure:
    """Shared loops and backing levels of a run, without hoisted tiles.

    ``words``: those of the backing tiles, by the name of the producer.
    """

    run: Run
    shared: FusedMapping
    words: ReadOnlyDict[str, int]

    @cached_property
    def turns(self) -> tuple[LayerTurns, ...]:
        """The turns of every layer, without hoisted tiles."""
        return turns_of(self.run.group, self.shared)

    @cached_property
    def tiles(self) -> tuple[KeptTile, ...]:
        """The backing tiles."""
        return tuple(held_tiles(self.run.group, self.shared))


def structures(
    run: Run, most_loops: int | None = None, *, recompute: bool = False
) -> Iterator[GroupStructure]:
    """The structures of a run whose backing tiles fit, of up to ``most_loops`` loops a layer (None: any).

    ``recompute``: whether layers may make rows of windows anew where no line buffer can stay.
    """
    group, count = run.group, run.last - run.first + 1
    if count == 1:
        yield GroupStructure(run, FusedMapping((), ((),), ()), {})
        return
    most = len(group.loops[0]) * count if most_loops is None else most_loops
    trees = _Trees(group, recompute)
    for lists in _lists_of_pairs(group, 0, (), most):
        for kept in trees.kept(lists):
            words = trees.fitting_words(lists, kept)
            if words is not None:
                shared = replace(_bare(lists), backing=kept.backing, recompute=kept.anew)
                yield GroupStructure(run, shared, words)


class _Kept(NamedTuple):
    """The backing levels of a structure, and the layers that make rows anew, each with the loop."""

    backing: dict[str, int]
    anew: frozenset[MadeAnew] = frozenset()


def _bare(lists: tuple[Loops, ...]) -> FusedMapping:
    """The tree in which every pair of neighbours shares its list of loops, without any kept tile."""
    around = ((), *lists, ())
    paths = tuple(max(left, right, key=len) for left, right in pairwise(around))
    return FusedMapping(tuple(map(len, lists)), paths, ())


class _Trees:
    """What many structures of a group have in common, worked out once.

    Which backing levels there can be depends on which loops the pairs share, whatever their steps and order;
    the words of a backing tile depend on the steps, whatever the order. Only loops inside one that slides
    must not drop the rows that it carries on: there the order matters, and whether there are such rows.
    """

    def __init__(self, group: LayerGroup, recompute: bool) -> None:
        self._group, self._recompute = group, recompute
        self._kept: dict[object, list[_Kept]] = {}
        self._words: dict[object, int] = {}
        self._sliding = frozenset(name for names in group.slides for name in names)
        """The names of loops that slide along the rows of some layer."""
        sliding = [layer.name for layer, names in zip(group.layers, group.slides, strict=True) if names]
        self._anew = [frozenset(some) for some in _subsets(sliding)] if recompute else [frozenset[str]()]
        """Which layers can make rows anew."""
        self._carried: dict[object, int | None] = {}

    def kept(self, lists: tuple[Loops, ...]) -> list[_Kept]:
        """The choices of backing levels where pairs share these loops; none where they cannot."""
        key: object = tuple(frozenset(name for name, _ in loops) for loops in lists)
        if any(name in self._sliding for loops in lists for name, _ in loops):
            order = tuple(tuple(name for name, _ in loops) for loops in lists)
            key = order, self._carries(lists)
        if key not in self._kept:
            bare = _bare(lists)
            choices = () if tree_violations(self._group, bare) else _backings(self._group, bare)
            self._kept[key] = [
                _Kept(backing, anew)
                for backing in choices
                if _is_whole(self._group, backing)
                for anew in _made_anew(self._group, replace(bare, backing=backing), self._recompute)
            ]
        return self._kept[key]

    def _carries(self, lists: tuple[Loops, ...]) -> tuple[bool | None, ...]:
        """Of every intermediate and loop that slides along it, whether rows stay for the next iteration.

        None where the loop cannot slide. That is so for every choice of layers that make rows anew.
        """
        found: list[bool | None] = []
        for one, layers in product(self._group.intermediates, self._anew):
            for depth, (name, step) in enumerate(lists[one.producer] if one.producer < len(lists) else ()):
                if name not in self._group.slides[one.producer]:
                    continue
                loop = name, step, _last_below(lists, one.producer, depth)
                anew = frozenset((layer, name) for layer in layers)
                key = one.producer, loop, anew
                if key not in self._carried:
                    known = rows_made(self._group, one.producer, *loop, anew) is not None
                    self._carried[key] = kept_rows(self._group, one, *loop, anew)[1] if known else None
                rows = self._carried[key]
                found.append(None if rows is None else rows > 0)
        return tuple(found)

    def fitting_words(self, lists: tuple[Loops, ...], kept: _Kept) -> dict[str, int] | None:
        """The words of every backing tile, by its producer; None where one is larger than its level."""
        group, found = self._group, {}
        for name, level in kept.backing.items():
            one = group.made[name]
            loops = min(lists[one.producer : one.last], key=len)
            lasts = [_last_below(lists, one.producer, depth) for depth in range(len(loops))]
            # which layers read the rows that a loop slides along matters, of other loops it does not
            slid = [last for (loop, _), last in zip(loops, lasts, strict=True) if loop in self._sliding]
            key = one.producer, frozenset(loops), tuple(slid), kept.anew
            if key not in self._words:
                self._words[key] = backing_words(group, one, loops, lasts, kept.anew)
            found[name] = self._words[key]
            if found[name] > group.architecture.levels[level].usable_words:
                return None
        return found


def _last_below(lists: tuple[Loops, ...], position: int, depth: int) -> int:
    """The last layer below loop number ``depth`` of a layer, whose pairs share these lists."""
    while position < len(lists) and len(lists[position]) > depth:
        position += 1
    return position


def _lists_of_pairs(group: LayerGroup, pair: int, before: Loops, most: int) -> Iterator[tuple[Loops, ...]]:
    """For every pair from ``pair`` on the loops it shares; its first layer shares ``before`` already."""
    if pair == len(group.layers) - 1:
        yield ()
        return
    for loops in _shared_lists(group, pair, before, most):
        for rest in _lists_of_pairs(group, pair + 1, loops, most):
            yield (loops, *rest)


def _shared_lists(group: LayerGroup, pair: int, before: Loops, most: int) -> Iterator[Loops]:
    """The lists of loops that a pair can share; one of this list and ``before`` begins with the other."""
    ours, theirs = group.dim_of[pair], group.dim_of[pair + 1]
    allowed = [name for name in ours if name in theirs and group.layers[pair].sizes[ours[name]] > 1]
    if (cutting := group.cutting.get((pair, pair + 1))) is not None:
        allowed = [name for name in allowed if name in cutting]
    sizes = {
        name: group.layers[pair].sizes[ours[name]]
        for name in allowed
        if group.layers[pair].sizes[ours[name]] == group.layers[pair + 1].sizes[theirs[name]]
    }
    sizes |= {
        name: group.loop_sizes[name]
        for name in group.slides[pair]
        if group.loop_sizes[name] > 1 and group.dim_under(pair + 1, name) is not None
    }
    # nothing else may cut rows that a loop slides along, as with loops over the rows of two later layers
    apart = {
        frozenset(two)
        for position in (pair, pair + 1)
        for two in combinations(sizes, 2)
        if not group.slides[position].keys().isdisjoint(two)
        and len({group.dim_under(position, name) for name in two}) == 1
    }
    yield from lists_beside(before, sizes, most, apart)


def _backings(group: LayerGroup, bare: FusedMapping) -> Iterator[dict[str, int]]:
    """Every choice of backing levels. What neighbours with shared loops pass on stays, if it can."""
    names, choices = [], []
    for one in group.intermediates:
        levels = _levels(group, one)
        if not levels:
            continue
        must = any(
            common_depth(bare, one.producer, read.layer) and read.layer == one.producer + 1
            for read in one.reads
        )
        names.append(group.layers[one.producer].name)
        choices.append(levels if must else [None, *levels])
    for chosen in product(*choices):
        yield {name: level for name, level in zip(names, chosen, strict=True) if level is not None}


def _made_anew(group: LayerGroup, shared: FusedMapping, recompute: bool) -> Iterator[frozenset[MadeAnew]]:
    """The layers and loops in which rows are made anew: none where line buffers can stay, else as few as it
    takes.

    ``recompute``: whether any may. Nothing is yielded where the tree has violations all the same. Tiles have
    as many rows in both cases, and what is made anew is more work, so where both can be one is enough.
    """
    sliding = [
        (layer.name, name)
        for layer, slides, path in zip(group.layers, group.slides, shared.paths, strict=True)
        for name, _ in path
        if layer.name in shared.backing and name in slides
    ]
    enough: list[frozenset[MadeAnew]] = []
    for some in _subsets(sliding) if recompute else [()]:
        anew = frozenset(some)
        if any(fewer <= anew for fewer in enough):
            continue
        if not tree_violations(group, replace(shared, recompute=anew)):
            enough.append(anew)
            yield anew


def _subsets(some: Sequence[_One]) -> Iterator[tuple[_One, ...]]:
    """All subsets, the smaller ones first."""
    for count in range(len(some) + 1):
        yield from combinations(some, count)


def _levels(group: LayerGroup, one: Intermediate) -> list[int | None]:
    """The levels that can keep an intermediate for its producer and all readers."""
    if one.leaves:
        return []
    tensors = [group.layers[one.producer].output]
    tensors += [group.layers[read.layer].tensor(read.tensor) for read in one.reads]
    levels = group.architecture.levels
    return [level for level in group.holding if all(levels[level].can_keep(tensor) for tensor in tensors)]


def _is_whole(group: LayerGroup, backing: ReadOnlyDict[str, int]) -> bool:
    """Whether a kept intermediate passes over every border between neighbours."""
    return all(
        any(
            one.producer <= border < one.last and group.layers[one.producer].name in backing
            for one in group.intermediates
        )
        for border in range(len(group.layers) - 1)
    )
