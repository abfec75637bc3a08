"""Segments costed in full: each layer's best partition and placement on its tiles, by the chip model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from costmodel.chip import ChipEvaluator
from costmodel.ratree import NotPossibleError
from solvers.budget import Budget, Stopwatch
from solvers.schedule.kapla.estimate import Cost
from solvers.schedule.kapla.floors import LayerFloor
from solvers.schedule.kapla.segments import Segment, Slicing


@dataclass
class Limit:
    """How long segments may be costed, and how many: ``count`` of them were."""

    watch: Stopwatch
    budget: Budget
    count: int = 0

    @property
    def reached(self) -> bool:
        most, seconds = self.budget.iterations, self.budget.wall_seconds
        return self.count == most or self.watch.wall_seconds >= seconds


@dataclass(frozen=True)
class Inside:
    """What a segment takes within tiles and their buffers for the whole batch."""

    energy_pj: float
    tile_cycles: int


class Costing:
    """The segments costed so far, by their sub-batches; those that are not possible are not among them."""

    def __init__(self, slicing: Slicing, evaluator: ChipEvaluator) -> None:
        self._slicing, self._evaluator = slicing, evaluator
        self._inside: dict[Segment, list[Inside]] = {}
        self._known: set[tuple[Segment, int]] = set()
        self._complete = True
        self.found: dict[Segment, dict[int, Cost]] = {}
        self.reason = "none was costed"

    def cost(self, wanted: Iterable[tuple[Segment, int]], limit: Limit) -> None:
        """Cost one after the other, none twice, as far as the limit goes."""
        for segment, subbatches in wanted:
            if (segment, subbatches) in self._known:
                continue
            if limit.reached:
                self._complete = False
                break
            limit.count += 1
            self._known.add((segment, subbatches))
            self._cost(segment, subbatches)

    def _cost(self, segment: Segment, subbatches: int) -> None:
        try:
            cost = self._evaluator.segment(self._slicing.node(segment, subbatches))
        except NotPossibleError as reason:
            self.reason = str(reason)
            return
        self.found.setdefault(segment, {})[subbatches] = Cost(sum(cost.parts_pj), cost.cycles)
        tiles_pj, transfers_pj, _, _ = cost.parts_pj
        self._inside.setdefault(segment, []).append(Inside(tiles_pj + transfers_pj, cost.busy))

    def raised(self, floor: LayerFloor, alone: Segment) -> LayerFloor:
        """``floor`` of one sample, raised to the least that the layer was found to take alone on the chip."""
        if not (found := self._inside.get(alone)):
            return floor
        batch = self._slicing.batch
        energy_pj = min(one.energy_pj for one in found) - floor.weights_pj
        return floor.raised(energy_pj / batch, min(one.tile_cycles for one in found) / batch)

    @property
    def note(self) -> str:
        possible = sum(map(len, self.found.values()))
        end = "" if self._complete else ", no more in time"
        return f"{len(self._known)} costed in full with their sub-batches{end}, {possible} possible"
