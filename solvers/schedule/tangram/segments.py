"""The segments of runs of vertices, as children of the root T cut; ``solver.py`` draws them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from costmodel.schedule.segment.allocation import allocate
from costmodel.schedule.tree.tree import Cut, CutKind, Leaf, TreeNode
from solvers.budget import InTime
from solvers.divisors import divisors
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.segment_chain.counted_segments import SegmentCounts
from solvers.schedule.segment_chain.forms import Forms
from solvers.schedule.tangram.params import Params
from solvers.schedule.tangram.vertices import Vertices


class TangramForms(Forms[Params]):
    """The segments of runs of vertices."""

    @cached_property
    def vertices(self) -> Vertices:
        """The layers of the graph by the vertices that run them."""
        return Vertices(self._graph)

    def several(self, first: int, end: int) -> Iterator[TreeNode]:
        """The segments of the vertices ``first`` to ``end - 1``: in turn, as pipelines, alternately."""
        regions = self.vertices.layers[first:end]
        every = [number for region in regions for number in region]
        in_turn = self._params.temporal or len(regions) == 1
        if in_turn and self.vertices.can_run([every]):
            yield from self._undivided("T", [[number] for number in every])
        if not self._params.spatial or len(regions) == 1 or not self.vertices.can_run(regions):
            return
        if self._keeps_tiles_busy(regions):
            yield from self._undivided("S", regions)
            if self._params.alternate:
                yield from self._alternate(first, end)

    def _undivided(self, kind: CutKind, regions: Sequence[Sequence[int]]) -> Iterator[TreeNode]:
        """The cuts of one kind in which every region hands on whole sub-batches, or bands of a sample."""
        for parts in divisors(self._batch):
            yield Cut(kind, self._batch, parts, self._children(regions, self._batch // parts))
        last = regions[-1][-1]
        for bands in self._bands_after(last):
            segment = Cut(kind, self._batch, self._batch, self._children(regions, 1), bands)
            if self._can_have_bands(segment):
                yield segment

    def _alternate(self, first: int, end: int) -> Iterator[TreeNode]:
        """The pipelines with alternate loop orders, in both phases: the first region streams, or buffers."""
        made = [self._streaming(first, end, streams) for streams in (True, False)]
        for groups in made if made[0] != made[1] else made[:1]:
            # One pair by itself is a pipeline with more sub-batches, and without a pair nothing streams.
            if 1 < len(groups) < end - first:
                for parts in divisors(self._batch):
                    samples = self._batch // parts
                    for pieces in divisors(samples)[1:]:
                        children = tuple(self._group(group, samples, pieces) for group in groups)
                        yield Cut("S", self._batch, parts, children)

    def _streaming(self, first: int, end: int, first_streams: bool) -> list[range]:
        """The vertices of a run in groups: pairs, of which the first streams its outputs into the second.

        The second one buffers its own outputs whole, so the vertex after it may stream again. A vertex pairs
        with the next one only if that reads from it.
        """
        groups = [] if first_streams else [range(first, first + 1)]
        at = first + len(groups)
        while at < end:
            paired = at + 1 < end and self.vertices.reads_from(at + 1, at)
            groups.append(range(at, at + 1 + paired))
            at += 1 + paired
        return groups

    def _group(self, group: range, samples: int, pieces: int) -> TreeNode:
        """A pair as a pipeline of its own in so many sub-batches, or a single vertex."""
        regions = [self.vertices.layers[vertex] for vertex in group]
        if len(group) == 1:
            return self._region(regions[0], samples)
        return Cut("S", samples, pieces, self._children(regions, samples // pieces))

    def _children(self, regions: Sequence[Sequence[int]], samples: int) -> tuple[TreeNode, ...]:
        return tuple(self._region(region, samples) for region in regions)

    def _region(self, region: Sequence[int], samples: int) -> TreeNode:
        """The layers of a region, which take turns on its tiles."""
        leaves = tuple(Leaf(self._names[number], samples) for number in region)
        return leaves[0] if len(leaves) == 1 else Cut("T", samples, 1, leaves)

    def _keeps_tiles_busy(self, regions: Sequence[Sequence[int]]) -> bool:
        """Whether regions are so equally fast that at most ``Params.idle`` of the tile-cycles are idle."""
        cycles = [sum(self._cycles(number) for number in region) for region in regions]
        tiles = allocate(self._tiles, cycles, [1] * len(regions))
        if tiles is None:
            return False
        slowest = max(time / count for time, count in zip(cycles, tiles, strict=True))
        return sum(cycles) >= (1 - self._params.idle) * slowest * self._tiles


class TangramSegments(SegmentCounts):
    """The segments of one of ``rounds`` rounds that the chip can run, each counted once."""

    def __init__(self, problem: ScheduleProblem, model: ChipModel, rounds: int, params: Params) -> None:
        super().__init__(problem, model)
        batch, tiles = problem.batch // rounds, model.chip.tiles
        graph, can_have_bands = problem.graph, self._can_have_bands
        self._forms = TangramForms(graph, batch, tiles, params, self._cycles, can_have_bands)

    def _singles(self, number: int) -> Iterator[TreeNode]:
        return self._forms.single(number)

    def _all_longer(self, most: int | None, in_time: InTime) -> bool:
        layers = self._forms.vertices.layers
        for first, end in sorted(self._forms.vertices.runs(), key=lambda run: run[1] - run[0]):
            if not in_time() or (most is not None and self.counted >= most):
                return False
            self._count(layers[first].start, layers[end - 1].stop, self._forms.several(first, end))
        return True
