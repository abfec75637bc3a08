"""Segments costed in full: each layer's best partition and placement on its tiles, by the chip model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.tile_cost import TileCosts
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Deadline
from solvers.schedule.kapla.estimate import BatchCost
from solvers.schedule.kapla.regions import Regions
from solvers.schedule.kapla.segments import Scheme, Segment, Slicing
from solvers.schedule.tiles.cost_table import need


@dataclass
class CostingLimit:
    """How long segments may be costed, and how many (None: no limit): ``count`` of them were.

    ``kept``: the last wall seconds before the deadline, in which the answer has to be counted again.
    """

    deadline: Deadline
    most: int | None = None
    kept: float = 0.0
    count: int = 0

    def in_time(self) -> bool:
        """Whether there is time left for costing."""
        return self.left > 0

    @property
    def left(self) -> float:
        """Wall seconds for costing; 0 or below when they are over."""
        return self.deadline.left - self.kept

    @property
    def reached(self) -> bool:
        """Whether nothing more may be costed."""
        return self.count == self.most or not self.in_time()


class Costing:
    """The schemes costed so far, by segment and sub-batches; those not possible are not in ``found``."""

    def __init__(self, regions: Regions, evaluator: ChipEvaluator, tile_costs: TileCosts) -> None:
        self._regions, self._evaluator, self._tile_costs = regions, evaluator, tile_costs
        self._slicing: Slicing = regions.slicing
        self._known: set[Scheme] = set()
        self._complete = True
        self.found: dict[Segment, dict[int, BatchCost]] = {}
        self.reason = "too few were costed"

    def cost(self, wanted: Sequence[Scheme], limit: CostingLimit) -> None:
        """Cost one after the other, none twice, as far as the limit goes.

        What they need is asked for at once, so that it can be solved side by side.
        """
        new = [scheme for scheme in dict.fromkeys(wanted) if scheme not in self._known]
        need(self._tile_costs, (request for scheme in new for request in self._regions.requests(scheme)))
        for scheme in new:
            if limit.reached:
                self._complete = False
                break
            limit.count += 1
            self._known.add(scheme)
            self._cost(scheme)

    def _cost(self, scheme: Scheme) -> None:
        try:
            cost = self._evaluator.segment(self._slicing.node(scheme))
        except NotPossibleError as reason:
            self.reason = str(reason)
            return
        self.found.setdefault(scheme.segment, {})[scheme.subbatches] = BatchCost(
            sum(cost.parts_pj), cost.cycles
        )

    @property
    def note(self) -> str:
        """Counts as ``name=number``."""
        possible = sum(map(len, self.found.values()))
        end = "" if self._complete else ", no more in time"
        return f"costed={len(self._known)} possible={possible}{end}"
