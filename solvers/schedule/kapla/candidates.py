"""The schemes worth looking at: pruned by estimates, and costed in full where they are promising."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from random import Random

from solvers.budget import InTime, always_in_time
from solvers.schedule.kapla.costing import Costing, CostingLimit
from solvers.schedule.kapla.estimates.estimate import BatchCost, Estimates, SegmentEstimates
from solvers.schedule.kapla.estimates.footprints import Footprints
from solvers.schedule.kapla.pareto import Estimated, undominated
from solvers.schedule.kapla.ranking import Ranking
from solvers.schedule.kapla.segments import BatchDivision, Scheme, Segment, Slicing


@dataclass(frozen=True)
class Pruned:
    """The schemes that pruning left, with their estimates, and how many there were after each of its steps.

    ``segments``: segments looked at. ``sliced``: their schemes. ``fitting``: how many of these may fit the
    buffers. ``drawn``: how many of the fitting ones the random choice kept. ``schemes``: the drawn ones that
    no other dominates.
    """

    schemes: Mapping[Scheme, BatchCost]
    segments: int
    sliced: int
    fitting: int
    drawn: int
    complete: bool = True
    """False if the time was up before all segments were looked at."""

    @property
    def note(self) -> str:
        """The counts as ``name=number``, as Table VI of the paper shows how much each step prunes."""
        counts = {
            "segments": self.segments,
            "schemes": self.sliced,
            "fitting": self.fitting,
            "drawn": self.drawn,
            "undominated": len(self.schemes),
        }
        end = "" if self.complete else ", not all segments looked at in time,"
        return " ".join(f"{name}={count}" for name, count in counts.items()) + end


def pruned_schemes(
    slicing: Slicing,
    estimates: Estimates,
    footprints: Footprints,
    seed: int,
    in_time: InTime = always_in_time,
) -> Pruned:
    """The schemes left after three steps: conservative validity pruning, random choice, Pareto pruning.

    The first and the last are section IV-B's. All schemes stay in the second with probability 1. When
    ``in_time`` says that the time is up, the segments not looked at yet are left out.
    """
    params = slicing.params
    fitting: list[Estimated] = []
    # by what alike segments have in common
    known: dict[Hashable, SegmentEstimates] = {}
    segments = sliced = 0
    complete = True
    for segment in slicing.segments():
        if not in_time():
            complete = False
            break
        segments, sliced = segments + 1, sliced + len(slicing.divisions(segment))
        alike = slicing.alike(segment)
        if alike not in known:
            known[alike] = _estimated(slicing, estimates, footprints, segment)
        fitting.append((segment, known[alike]))
    drawn = _drawn(fitting, params.probability, seed)
    left = undominated(drawn, params.pareto, in_time) if params.pareto and params.chains else drawn
    return Pruned(
        schemes={Scheme(segment, division): cost for segment, one in left for division, cost in one.costs},
        segments=segments,
        sliced=sliced,
        fitting=sum(len(one) for _, one in fitting),
        drawn=sum(len(one) for _, one in drawn),
        complete=complete,
    )


def _estimated(
    slicing: Slicing, estimates: Estimates, footprints: Footprints, segment: Segment
) -> SegmentEstimates:
    """The divisions of a segment's batch that may fit, and what it costs at least with each."""
    divisions = slicing.divisions(segment)
    # Fitting is asked first, as it is quick: most schemes do not fit the buffers and need no estimate. What
    # footprints rule out they know for certain, but they have to list partitions for it.
    if slicing.params.prune:
        divisions = footprints.fitting(segment, estimates.fitting(segment, divisions))
    # Empty bands are asked about last, because the rows of all bands have to be found for it.
    left = [one for one in divisions if slicing.has_rows(Scheme(segment, one))]
    return estimates.least(segment, left)


def _drawn(segments: list[Estimated], probability: float, seed: int) -> list[Estimated]:
    """The schemes that are kept, each with ``probability``, independently of the others."""
    if probability == 1:
        return segments
    # Drawn in the order of the schemes, so that the same seed keeps the same ones whatever pruning comes
    # after.
    random = Random(seed)
    return [
        (segment, one.kept([number for number in range(len(one)) if random.random() < probability]))
        for segment, one in segments
    ]


@dataclass
class Candidates:
    """The schemes of ``slicing`` that were not ``pruned``, of which more and more are costed in full.

    Single layers in one sub-batch are always costed, even if pruned: they may run mapped on the whole chip,
    and no estimate speaks of that.
    """

    slicing: Slicing
    pruned: Pruned
    costing: Costing
    _costed: set[Scheme] = field(default_factory=set)
    _rounds: int = 0
    """How often chains were ranked and what was new in them costed."""

    def cost_likely(self, limit: CostingLimit) -> None:
        """Cost the last schemes of the best chains in full, rank chains again with these costs, and so on.

        Estimates are optimistic: a scheme may cost more than estimated, or not fit at all. When that is
        known, other schemes take its position in the best chains. The loop ends when the best chains have no
        new scheme, after the parameters' ``rounds``, or at the ``limit``. A loop that TileCostsNeeded ended
        goes on where it was when this is called again.
        """
        # With these a chain from the first layer to the last exists before anything else is costed.
        self._cost(self._single, limit)
        rounds = self.slicing.params.rounds
        while not limit.reached and self._rounds < (rounds or inf) and (new := self._likely()):
            self._cost(new, limit)
            self._rounds += 1

    def _cost(self, schemes: list[Scheme], limit: CostingLimit) -> None:
        params = self.slicing.params
        # a ranking that is not repeated, or that ranks nothing, asks for no scheme a second time
        self.costing.cost(schemes, limit, in_two_steps=not params.rounds and params.chains > 0)
        for scheme in schemes:
            if expected := self.costing.as_if_fitting.get(scheme):
                self._ranking.expect(scheme, expected)
                continue
            self._costed.add(scheme)
            self._ranking.know(scheme, self.costing.found.get(scheme.segment, {}).get(scheme.division))

    def _likely(self) -> list[Scheme]:
        """The schemes to cost next: the last ones of the best chains that are not costed yet.

        With ``chains`` 0 of the parameters these are all that are not costed.
        """
        most = self.slicing.params.chains
        chosen = self._ranking.likely(most) if most else self.pruned.schemes
        return [scheme for scheme in chosen if scheme not in self._costed]

    @cached_property
    def _single(self) -> list[Scheme]:
        """Every layer by itself with the whole batch."""
        layers = range(len(self.slicing.problem.graph.layers))
        return [Scheme(self.slicing.single(number), BatchDivision(1)) for number in layers]

    @cached_property
    def _ranking(self) -> Ranking:
        """All schemes with their estimates, which costing replaces."""
        problem, estimated = self.slicing.problem, self.pruned.schemes
        costs: list[tuple[Scheme, BatchCost | None]] = [*estimated.items()]
        costs += [(scheme, None) for scheme in self._single if scheme not in estimated]
        return Ranking(costs, len(problem.graph.layers), problem.objective)
