"""Schemes costed in full: the chip model counts them, with each layer's best partition and placement."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.segment.node_cost import NodeCost, running_pj
from costmodel.schedule.tile_cost import TileCosts
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Deadline
from solvers.schedule.kapla.chains import Savings
from solvers.schedule.kapla.estimates.estimate import BatchCost
from solvers.schedule.kapla.regions import Regions
from solvers.schedule.kapla.segments import BatchDivision, Scheme, Segment, Slicing
from solvers.schedule.tiles.cost_table import need


@dataclass
class CostingLimit:
    """How many schemes may be costed, and until when. Unlike most values here it changes: ``count`` goes up.

    ``most``: the most schemes; None is no limit. ``kept``: wall seconds before the deadline that costing
    leaves for counting the answer again. ``count``: schemes costed so far.
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
    """The schemes costed so far.

    ``found``: by segment and division, the costs of those that the chip can run. ``as_if_fitting``: what
    schemes cost as far as is known of those whose cheapest leaves overflow buffers, and which were asked for
    once; which leaves take less of the buffers is found out when they are asked for again. ``reason``: why
    the last one that the chip cannot run cannot, for a note where no chain exists.
    """

    def __init__(self, regions: Regions, evaluator: ChipEvaluator, tile_costs: TileCosts) -> None:
        self._regions, self._evaluator, self._tile_costs = regions, evaluator, tile_costs
        self._slicing: Slicing = regions.slicing
        self._known: set[Scheme] = set()
        self._complete = True
        self._counts: dict[Scheme, NodeCost] = {}
        """By scheme, of those whose own cost was needed."""
        self._outlooks: dict[Hashable, BatchCost | None] = {}
        """:meth:`_expected` of all schemes that are alike."""
        self._alike: dict[Hashable, NodeCost | str] = {}
        """What one of all schemes that are alike costs, or why the chip cannot run it."""
        self.found: dict[Segment, dict[BatchDivision, BatchCost]] = {}
        self.as_if_fitting: dict[Scheme, BatchCost] = {}
        self.reason = "too few were costed"

    def cost(self, wanted: Sequence[Scheme], limit: CostingLimit, in_two_steps: bool = False) -> None:
        """Cost the ``wanted`` schemes one after the other, none twice, up to the ``limit``.

        Most schemes that overflow are in no good chain even as if they fitted. So ``in_two_steps`` they are
        costed as if they did the first time that they are wanted, and in full the second time.

        The tile costs that all of them need are requested first and together. If this process cannot solve
        some of them, TileCostsNeeded is raised before anything is costed, so that they are solved side by
        side.
        """
        new = [scheme for scheme in dict.fromkeys(wanted) if scheme not in self._known]
        need(self._tile_costs, (request for scheme in new for request in self._regions.requests(scheme)))
        for scheme in new:
            if limit.reached:
                self._complete = False
                break
            if scheme in self.as_if_fitting:
                del self.as_if_fitting[scheme]
            else:
                limit.count += 1
                if in_two_steps and (expected := self._expected(scheme)) is not None:
                    self.as_if_fitting[scheme] = expected
                    continue
            self._known.add(scheme)
            self._cost(scheme)

    def _expected(self, scheme: Scheme) -> BatchCost | None:
        """What a scheme costs if it fits; None where it does, or where that is not known any sooner."""
        key = self._slicing.alike(scheme.segment), scheme.division
        if key in self._alike:
            return None
        if key not in self._outlooks:
            try:
                cost, fits = self._evaluator.segment_as_if_fitting(self._slicing.node(scheme))
            except NotPossibleError:
                return None  # the full count gives the reason
            self._outlooks[key] = None if fits else self._batch_cost(cost)
        return self._outlooks[key]

    def _batch_cost(self, cost: NodeCost) -> BatchCost:
        return BatchCost(running_pj(cost, self._evaluator.chip), cost.cycles)

    def _cost(self, scheme: Scheme) -> None:
        found = self._one_alike(scheme)
        if isinstance(found, str):
            self.reason = found
            return
        self.found.setdefault(scheme.segment, {})[scheme.division] = self._batch_cost(found)

    def _one_alike(self, scheme: Scheme) -> NodeCost | str:
        """What the scheme, or the first one costed that is alike, costs; or why the chip cannot run it."""
        key = self._slicing.alike(scheme.segment), scheme.division
        if key not in self._alike:
            try:
                self._alike[key] = self._count(scheme)
            except NotPossibleError as reason:
                self._alike[key] = str(reason)
        return self._alike[key]

    def _count(self, scheme: Scheme) -> NodeCost:
        """The scheme's own cost, which knows its layers."""
        if scheme not in self._counts:
            self._counts[scheme] = self._evaluator.segment(self._slicing.node(scheme))
        return self._counts[scheme]

    @property
    def savings(self) -> Savings:
        """What schemes save by fetching their first data while the one before them ends; all were found."""
        return Savings(self._saved, self._most_saved)

    def _saved(self, before: Scheme, after: Scheme) -> BatchCost:
        evaluator = self._evaluator
        found = evaluator.between(self._count(before), self._count(after))
        return BatchCost(found.saved_pj(evaluator.chip), found.saved_cycles)

    def _most_saved(self, scheme: Scheme) -> BatchCost:
        found = self._one_alike(scheme)
        assert isinstance(found, NodeCost)
        most = self._evaluator.most_saved(found)
        return BatchCost(most.itself * most.pj_per_cycle, most.itself)

    @property
    def note(self) -> str:
        """How many schemes were costed, how many of them only as if they fitted, and how many of the others
        are possible, as ``name=number``.
        """
        possible, as_if = sum(map(len, self.found.values())), len(self.as_if_fitting)
        end = "" if self._complete else ", no more in time"
        return f"costed={len(self._known) + as_if} as_if_fitting={as_if} possible={possible}{end}"
