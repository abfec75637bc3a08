"""The turns of one layer of a fused group: the parts that it runs, how often, and where tensors are held.

Loops that layers share cut each of them into parts, and a layer computes a part in every *turn*: one
iteration of all its shared loops. A nest maps a part as ``evaluate`` counts it. So the cost of a layer is
that of one turn times the number of turns, less what tensors cost that other layers or turns have left on the
chip.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod

from costmodel.hardware.architecture import Architecture
from costmodel.mapping.fused.layers.array_parts import part_of_array
from costmodel.mapping.fused.layers.group import Intermediate, LayerGroup
from costmodel.mapping.fused.layers.sliding import kept_rows, rows_made
from costmodel.mapping.fused.mapping import FusedMapping, KeptTile, Loops, MadeAnew
from costmodel.mapping.fused.pipeline import Pipeline, stage_of
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Layer


@dataclass(frozen=True)
class LoopCut:
    """What a shared loop does to a layer: into which ``pieces`` it cuts the layer's ``dim``.

    A piece is (its length, how many iterations have one), the longest first. A loop over the layer's own dim
    has pieces of one length. Of a loop that slides along its rows lengths differ, and iterations in which
    the layer makes no row are left out. Where rows are made anew, pieces have more rows than the dim.
    """

    dim: str
    pieces: tuple[tuple[int, int], ...]

    @property
    def longest(self) -> int:
        """The length of the longest piece."""
        return self.pieces[0][0]

    @property
    def times(self) -> int:
        """Iterations in which there is a piece."""
        return sum(times for _, times in self.pieces)


@dataclass(frozen=True)
class TurnKind:
    """Equal turns: the part that each computes, and how many they are. Outputs of the part are begun in turns
    that go on with partial sums of earlier ones."""

    part: Layer
    turns: int


@dataclass(frozen=True)
class HoistedTile:
    """A tensor's tile above shared loop ``depth``: its words, and the words that enter it in all turns."""

    tensor: str
    depth: int
    words: int
    entering: int


@dataclass(frozen=True)
class LayerTurns:
    """One layer of a group below the shared loops of ``shared``, which must be those of the group.

    A *turn* is one iteration of all its shared loops. Every turn finds the chip empty, but for held tensors.
    """

    group: LayerGroup
    shared: FusedMapping
    position: int

    @property
    def layer(self) -> Layer:
        return self.group.layers[self.position]

    @property
    def path(self) -> Loops:
        """Its shared loops, by the group's names."""
        return self.shared.paths[self.position]

    @cached_property
    def pipeline(self) -> Pipeline | None:
        """The pipeline of which the layer is a stage; None: it runs by itself on the whole array."""
        return stage_of(self.shared.pipelines, self.position)

    @cached_property
    def architecture(self) -> Architecture:
        """What its nests run on: that of the group, or a stage's part of it."""
        if (pipeline := self.pipeline) is None:
            return self.group.architecture
        part = pipeline.parts[self.position - pipeline.first]
        return part_of_array(self.group.architecture, pipeline.axis, part)

    @cached_property
    def cuts(self) -> tuple[LoopCut, ...]:
        """What every shared loop does to the layer, outermost first."""
        return cuts(
            self.group,
            self.position,
            self.path,
            [self.shared.last_below(self.position, depth) for depth in range(len(self.path))],
            self.shared.recompute,
        )

    def sizes(self, depth: int) -> dict[str, int]:
        """The most that the ``depth`` outermost shared loops leave of each dim."""
        return self.layer.sizes | {cut.dim: cut.longest for cut in self.cuts[:depth]}

    @cached_property
    def part(self) -> Layer:
        """What the largest turn computes."""
        left = self.sizes(len(self.path))
        return self.layer if not self.path else replace(self.layer, dims=tuple(left.items()))

    @cached_property
    def kinds(self) -> tuple[TurnKind, ...]:
        """The different turns, the largest part first, and of equal ones those that begin its outputs.

        There is one kind unless a loop slides, or is over a summed dim.
        """
        found = []
        for left, turns, first in iterations(self.layer.sizes, self.cuts, self.layer.output.dims):
            part = self.part if left == self.part.sizes else replace(self.layer, dims=tuple(left.items()))
            found.append(TurnKind(part, first))
            if turns > first:
                found.append(TurnKind(part.continued, turns - first))
        return tuple(sorted(found, key=lambda kind: -kind.part.macs))

    def kind_text(self, kind: TurnKind) -> str:
        """A kind of turns as people read it: the sizes in which kinds differ, and how often it runs."""
        slid = [cut.dim for cut in self.cuts if len(cut.pieces) > 1]
        sizes = "".join(f"{dim}={kind.part.sizes[dim]} " for dim in slid)
        sums = " that go on with sums" if kind.part.output.begun else ""
        return f"{sizes}in {kind.turns} turn{'s' if kind.turns > 1 else ''}{sums}"

    @cached_property
    def turns(self) -> int:
        """How often the layer runs a part."""
        return prod(cut.times for cut in self.cuts)

    @cached_property
    def continued(self) -> int:
        """How many of the turns go on with partial sums of earlier ones."""
        return sum(kind.turns for kind in self.kinds if kind.part.output.begun)

    @cached_property
    def hoisted(self) -> tuple[HoistedTile, ...]:
        """The tiles that are kept above a shared loop, in the outermost level of the chip."""
        found = []
        for name, depth in self.shared.hoisted(self.layer.name).items():
            tensor = self.layer.tensor(name)
            words = tensor.words(self.sizes(depth))
            moved = self.shared.emptied_below(self.position, depth)
            for number, cut in enumerate(self.cuts[:depth]):
                if cut.dim in tensor.dims and cut.times > 1:
                    moved = max(moved, number + 1)
            # loops behind the last one that moves the tile leave its words as they are
            entering = sum(
                times * tensor.words(left)
                for left, times, _ in iterations(self.sizes(depth), self.cuts[:moved], tensor.dims)
            )
            found.append(HoistedTile(name, depth, words, entering))
        return tuple(found)

    @cached_property
    def held(self) -> dict[str, int]:
        """By tensor, the level that holds it from turn to turn, or from layer to layer."""
        found = {tile.tensor: self.group.outermost - 1 for tile in self.hoisted}
        for tensor in self.layer.tensors:
            for one in self.group.sources(self.position, tensor.name):
                if (level := self.shared.backing.get(self.group.layers[one.producer].name)) is not None:
                    found[tensor.name] = level
        return found

    def own_words(self, nest: Mapping, level: int) -> int:
        """The words that a turn's nest keeps at a level, beside what is held there."""
        return sum(
            tensor.words(nest.tiles[level])
            for tensor in self.part.tensors
            if tensor.name in nest.levels[level].keep and self.held.get(tensor.name) != level
        )


def cuts(
    group: LayerGroup, position: int, path: Loops, lasts: Sequence[int], anew: Collection[MadeAnew] = ()
) -> tuple[LoopCut, ...]:
    """What the shared loops ``path`` do to a layer; ``lasts``: of each the last layer below it.

    ``anew``: the layers that make the rows of every iteration anew, each with the loop in which it does.
    """
    own, sizes, found = group.dim_of[position], dict(group.layers[position].sizes), []
    for (name, step), last in zip(path, lasts, strict=True):
        if (dim := own.get(name)) is not None:
            found.append(LoopCut(dim, ((step, sizes[dim] // step),)))
        else:
            dim, made = group.slides[position][name], rows_made(group, position, name, step, last, anew)
            assert made is not None, "the checker refuses loops that slide along nothing"
            rows = Counter(end - begin for begin, end in made if end > begin)
            found.append(LoopCut(dim, tuple(sorted(rows.items(), reverse=True))))
        sizes[dim] = found[-1].longest
    return tuple(found)


def iterations(
    sizes: ReadOnlyDict[str, int], cut: Sequence[LoopCut], dims: Collection[str]
) -> Iterator[tuple[dict[str, int], int, int]]:
    """What loops leave of dims of these sizes, for every combination of pieces.

    Yields three things: the sizes left; how many iterations of all loops leave these; and how many iterations
    there are of the loops over ``dims`` only. If ``dims`` are those of a tensor, the last number counts the
    iterations that come to a part of it for the first time.
    """
    for pieces in product(*(one.pieces for one in cut)):
        left = {one.dim: length for one, (length, _) in zip(cut, pieces, strict=True)}
        different = (times for one, (_, times) in zip(cut, pieces, strict=True) if one.dim in dims)
        yield {**sizes, **left}, prod(times for _, times in pieces), prod(different)


def turns_of(group: LayerGroup, shared: FusedMapping) -> tuple[LayerTurns, ...]:
    """The turns of every layer, in order."""
    return tuple(LayerTurns(group, shared, position) for position in range(len(group.layers)))


def common_depth(shared: FusedMapping, first: int, last: int) -> int:
    """How many loops the layers from ``first`` to ``last`` all share."""
    return min(shared.prefix[first:last], default=0)


def held_tiles(group: LayerGroup, shared: FusedMapping) -> list[KeptTile]:
    """All backing and hoisted tiles."""
    turns, found = turns_of(group, shared), []
    for one in turns:
        for tile in one.hoisted:
            during = shared.sharing(one.position, tile.depth + 1)
            level = group.outermost - 1
            found.append(
                KeptTile(one.position, tile.tensor, level, tile.words, tile.depth, during, hoisted=True)
            )
    found += [
        _backing_tile(group, shared, intermediate, turns)
        for intermediate in group.intermediates
        if group.layers[intermediate.producer].name in shared.backing
    ]
    return [_with_stages(shared, tile) for tile in found]


def _with_stages(shared: FusedMapping, tile: KeptTile) -> KeptTile:
    """The tile for as long as it lives: while one stage of a pipeline runs, all of them do."""
    for pipeline in shared.pipelines:
        during, stages = tile.during, pipeline.stages
        if during.start < stages.stop and stages.start < during.stop:
            both = range(min(during.start, stages.start), max(during.stop, stages.stop))
            tile = replace(tile, during=both)
    return tile


def _backing_tile(
    group: LayerGroup, shared: FusedMapping, one: Intermediate, turns: tuple[LayerTurns, ...]
) -> KeptTile:
    """The tile of an intermediate directly above the outermost split between its producer and its readers.

    It has what the producer makes below the loops that all of them share, or what a reader touches there if
    that is more, as with padding. Stages of a pipeline are at different iterations of these loops: while a
    reader n stages further on uses a tile, its producer makes the one of n iterations later, so n + 1 of them
    are held.
    """
    depth = common_depth(shared, one.producer, one.last)
    producer = turns[one.producer]
    output = producer.layer.output
    lasts = [shared.last_below(one.producer, inner) for inner in range(depth)]
    words = backing_words(group, one, producer.path[:depth], lasts, shared.recompute)
    during = range(shared.sharing(one.producer, depth + 1).start, shared.sharing(one.last, depth + 1).stop)
    level = shared.backing[producer.layer.name]
    pipeline = producer.pipeline
    together = depth and pipeline is not None and one.last in pipeline.stages
    copies = one.last - one.producer + 1 if together else 1
    return KeptTile(
        one.producer, output.name, level, copies * words, depth, during, hoisted=False, copies=copies
    )


def backing_words(
    group: LayerGroup, one: Intermediate, loops: Loops, lasts: Sequence[int], anew: Collection[MadeAnew] = ()
) -> int:
    """Words of an intermediate's backing tile below the ``loops`` that its producer and all readers share.

    ``lasts``: of each loop the last layer below it. Under a loop that slides along the producer's rows the
    tile has those of a window, and rows that are made before they are read. ``anew``: as in :func:`cuts`.
    """
    left = {cut.dim: cut.longest for cut in cuts(group, one.producer, loops, lasts, anew)}
    for (name, step), last in zip(loops, lasts, strict=True):
        if name not in group.dim_of[one.producer]:
            rows, _ = kept_rows(group, one, name, step, last, anew)
            left[group.slides[one.producer][name]] = rows
    maker = group.layers[one.producer]
    words = maker.output.words({**maker.sizes, **left})
    for read in one.reads:
        reader = group.layers[read.layer]
        left = {cut.dim: cut.longest for cut in cuts(group, read.layer, loops, lasts, anew)}
        words = max(words, reader.tensor(read.tensor).words({**reader.sizes, **left}))
    return words
