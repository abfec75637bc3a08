"""The schemes worth looking at: pruned before anything is solved, costed in full where they are promising."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from solvers.budget import InTime, always_in_time
from solvers.schedule.kapla.chains import likely_schemes
from solvers.schedule.kapla.costing import Costing, CostingLimit
from solvers.schedule.kapla.estimate import BatchCost, Estimates, SchemeEstimate
from solvers.schedule.kapla.pareto import undominated
from solvers.schedule.kapla.segments import Scheme, Segment, Slicing


@dataclass(frozen=True)
class Pruned:
    """The schemes that are left, with their estimates, and how many there were after each pass."""

    schemes: Mapping[Scheme, SchemeEstimate]
    segments: int
    sliced: int
    fitting: int
    drawn: int
    complete: bool = True
    """Whether all segments were looked at, or the time was up before."""

    @property
    def note(self) -> str:
        """Counts as ``name=number``: a row of Table VI."""
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
    slicing: Slicing, estimates: Estimates, seed: int, in_time: InTime = always_in_time
) -> Pruned:
    """Conservative validity pruning, random choice (all stay with probability 1), Pareto pruning.

    When ``in_time()`` says that the time is up, the segments not looked at yet are left out.
    """
    params = slicing.params
    fitting: dict[Scheme, SchemeEstimate] = {}
    segments = sliced = 0
    complete = True
    for segment in slicing.segments():
        if not in_time():
            complete = False
            break
        every = slicing.subbatches(segment)
        segments, sliced = segments + 1, sliced + len(every)
        parts = [one for one in every if not params.prune or estimates.may_fit(Scheme(segment, one))]
        if parts:
            fitting |= {Scheme(segment, one): least for one, least in estimates.least(segment, parts)}
    drawn = _drawn(fitting, params.probability, seed)
    return Pruned(
        schemes=undominated(drawn, params.pareto, in_time) if params.pareto and params.chains else drawn,
        segments=segments,
        sliced=sliced,
        fitting=len(fitting),
        drawn=len(drawn),
        complete=complete,
    )


def _drawn(
    schemes: Mapping[Scheme, SchemeEstimate], probability: float, seed: int
) -> dict[Scheme, SchemeEstimate]:
    """Each scheme with this probability."""
    random = Random(seed)
    return {scheme: least for scheme, least in schemes.items() if random.random() < probability}


@dataclass
class Candidates:
    """The schemes of ``slicing``, ``pruned``, more and more of them costed in full.

    Layers by themselves with the whole batch are in every choice, whatever was pruned.
    """

    slicing: Slicing
    pruned: Pruned
    costing: Costing
    _costed: set[Scheme] = field(default_factory=set)

    def cost_likely(self, limit: CostingLimit) -> None:
        """Cost the last schemes of the best chains; then rank chains anew with what that showed, and again.

        It ends when no scheme of theirs is new, with the rounds, or with the limit, at which a ranking under
        way is given up. Optimistic costs make
        schemes look better than they are, and some do not fit after all: those give way to others.
        """
        layers = range(len(self.slicing.problem.graph.layers))
        self._cost([Scheme(self.slicing.single(number), 1) for number in layers], limit)
        rounds = self.slicing.params.rounds
        while not limit.reached and (new := self._likely(limit)):
            self._cost(new, limit)
            rounds -= 1
            if rounds == 0:
                break

    def _cost(self, schemes: list[Scheme], limit: CostingLimit) -> None:
        self.costing.cost(schemes, limit)
        self._costed.update(schemes)

    def _likely(self, limit: CostingLimit) -> list[Scheme]:
        """Schemes not yet costed in full; all of them if chains are not ranked, none if time is up."""
        chosen, problem = list(self.pruned.schemes), self.slicing.problem
        if most := self.slicing.params.chains:
            layers = len(problem.graph.layers)
            chosen = likely_schemes(self._costs(), layers, problem.objective, most, limit.in_time)
        return [scheme for scheme in chosen if scheme not in self._costed]

    def _costs(self) -> dict[Segment, dict[int, BatchCost]]:
        """Of every scheme what is known: counted in full, else estimated; none if it is not possible."""
        costs = {segment: dict(found) for segment, found in self.costing.found.items()}
        for (segment, subbatches), estimate in self.pruned.schemes.items():
            if (segment, subbatches) not in self._costed:
                costs.setdefault(segment, {})[subbatches] = estimate.cost
        return costs
