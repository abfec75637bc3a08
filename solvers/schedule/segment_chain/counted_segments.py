"""Counts segments with the chip model, and keeps those that a best chain may have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TypeVar

from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.row_bands import heights_of, made_in_bands, segment_band_violations
from costmodel.schedule.segment.allocation import allocate
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode, leaves
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Deadline, InTime
from solvers.divisors import divisors
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.in_turn import CountedSegment, worth_keeping
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.segment_chain.chains import Cost, SegmentOption
from solvers.schedule.segment_chain.forms import SegmentForms, necks
from solvers.schedule.segment_chain.params import Params
from solvers.schedule.tiles.cost_table import TileCostsNeeded, need
from solvers.schedule.tiles.layer_parts import Request


class SegmentCounts(ABC):
    """Segments of a network that the chip can run, each counted once; what they are is said by a subclass.

    ``counted``: how many segments were counted, those included that the chip cannot run. ``reason``: why the
    chip cannot run the last of these.
    """

    def __init__(self, problem: ScheduleProblem, model: ChipModel) -> None:
        evaluator = problem.evaluator()
        assert isinstance(evaluator, ChipEvaluator)
        self.evaluator, self._chip = evaluator, model.chip
        self._graph, self._costs = problem.graph, model.tile_costs
        self._lacking: dict[Request, None] = {}
        self._cycles = cache(model.tile_costs.normalized_cycles)
        self._found: dict[tuple[int, int], list[CountedSegment]] = defaultdict(list)
        self.counted, self.reason = 0, ""

    @abstractmethod
    def _singles(self, number: int) -> Iterator[TreeNode]:
        """The segments of one layer."""

    @abstractmethod
    def _all_longer(self, most: int | None, in_time: InTime) -> bool:
        """Count segments of several layers; False where the time or ``most`` ended it."""

    def kept(self) -> list[list[SegmentOption]]:
        """The segments that may be in a best chain, by the layer after their last one."""
        every = (one.most.pj_per_cycle for segments in self._found.values() for one in segments)
        most_pj = max(every, default=0.0)
        ending: list[list[SegmentOption]] = [[] for _ in range(len(self._graph.layers) + 1)]
        for (first, end), segments in self._found.items():
            ending[end] += (SegmentOption(first, one) for one in worth_keeping(segments, most_pj))
        return ending

    def saved(self, before: CountedSegment, after: CountedSegment) -> Cost:
        """What the second of two segments saves by following the first."""
        found = self.evaluator.between(before.cost, after.cost)
        return Cost(found.saved_pj(self._chip), found.saved_cycles)

    def single_layers(self, deadline: Deadline) -> bool:
        """Count all segments of one layer; whether the chip can run each layer in some way.

        OutOfTimeError after the deadline, as there is no chain without all layers.
        """
        for number in range(len(self._graph.layers)):
            deadline.check()
            if not self._count(number, number + 1, self._singles(number)):
                self._ask()
                return False
        return True

    def longer(self, most: int | None, in_time: InTime) -> bool:
        """Count segments of several layers; False where the time or ``most`` ended it.

        TileCostsNeeded where segments with bands lack costs that this process cannot solve.
        """
        complete = self._all_longer(most, in_time)
        self._ask()
        return complete

    def _ask(self) -> None:
        """Raise TileCostsNeeded with all costs that were found to be lacking, if there are any."""
        if self._lacking:
            raise TileCostsNeeded(tuple(self._lacking))

    def _can_have_bands(self, segment: TreeNode) -> bool:
        """Whether a segment with bands is valid and its tile costs are known, or can be solved here."""
        return not segment_band_violations(segment, self._graph) and self._is_costed(segment)

    def _is_costed(self, segment: TreeNode) -> bool:
        """Whether the tile costs of a segment with bands are known; those that are not are noted.

        Costs that this process can solve are solved here.
        """
        assert isinstance(segment, Cut)
        made = made_in_bands(segment, self._graph)
        children = segment.children
        tiles: Sequence[int] = [self._chip.tiles] * len(children)
        if segment.kind == "S":
            work = [sum(self._cycles(self._number(leaf)) for leaf in leaves(child)) for child in children]
            tiles = allocate(self._chip.tiles, work, [1] * len(children)) or []
        requests = [
            Request(number, leaf.batch, count, tuple(sorted(set(heights_of(made[number])), reverse=True)))
            for child, count in zip(children, tiles, strict=False)
            for leaf in leaves(child)
            for number in [self._number(leaf)]
        ]
        try:
            need(self._costs, requests)
        except TileCostsNeeded as more:
            self._lacking |= dict.fromkeys(more.requests)
            return False
        return True

    def _number(self, leaf: Leaf) -> int:
        return self._graph.index[leaf.layer]

    def _count(self, first: int, end: int, segments: Iterator[TreeNode]) -> bool:
        """Count segments of the layers ``first`` to ``end - 1``; whether the chip can run one of them."""
        found: list[CountedSegment] = []
        for segment in segments:
            self.counted += 1
            try:
                found.append(CountedSegment.of(segment, self.evaluator))
            except NotPossibleError as reason:
                self.reason = str(reason)
        self._found[first, end] += found
        return bool(found)


SegmentCountsT = TypeVar("SegmentCountsT", bound=SegmentCounts)


def in_fewest_rounds(
    batch: int, of_rounds: Callable[[int], SegmentCountsT], deadline: Deadline
) -> tuple[int, SegmentCountsT]:
    """The fewest rounds in which the chip can run each layer of ``batch`` samples by itself, and the segments
    of one round, of which those of one layer are counted.

    ``of_rounds``: the segments of one of so many rounds. NotPossibleError with the last reason where the chip
    cannot even run single samples; OutOfTimeError after the deadline.
    """
    reason = ""
    for rounds in divisors(batch):
        segments = of_rounds(rounds)
        if segments.single_layers(deadline):
            return rounds, segments
        reason = segments.reason
    raise NotPossibleError(f"no layer after the other, even sample by sample: {reason}")


class CountedSegments(SegmentCounts):
    """The segments of one of ``rounds`` rounds, in the forms of ``solver.py``."""

    def __init__(self, problem: ScheduleProblem, model: ChipModel, rounds: int, params: Params) -> None:
        super().__init__(problem, model)
        self._params = params
        self._forms = SegmentForms(
            problem.graph,
            problem.batch // rounds,
            model.chip.tiles,
            params,
            self._cycles,
            self._can_have_bands,
        )

    def _singles(self, number: int) -> Iterator[TreeNode]:
        return self._forms.single(number)

    def _all_longer(self, most: int | None, in_time: InTime) -> bool:
        """Count segments of up to ``longest`` layers, then longer ones from neck to neck."""
        layers, params = len(self._graph.layers), self._params
        # For each first layer, how many lengths in a row did not fit.
        missed = [0] * layers
        for length in range(2, min(params.longest, layers) + 1):
            for first in range(layers - length + 1):
                if missed[first] == params.misses:
                    continue
                if not in_time() or (most is not None and self.counted >= most):
                    return False
                fits = self._count(first, first + length, self._forms.several(first, first + length))
                missed[first] = 0 if fits else missed[first] + 1
        return not params.blocks or self._all_between_necks(most, in_time)

    def _all_between_necks(self, most: int | None, in_time: InTime) -> bool:
        """Count T cuts of blocks and pipelines of these, of more than ``longest`` layers (:func:`.necks`)."""
        boundaries = necks(self._graph)
        for number, first in enumerate(boundaries):
            missed = 0
            for end in boundaries[number + 1 :]:
                if end - first <= self._params.longest:
                    continue
                if not in_time() or (most is not None and self.counted >= most):
                    return False
                missed = 0 if self._count(first, end, self._forms.long(first, end)) else missed + 1
                if missed == self._params.misses:
                    break
        return True
