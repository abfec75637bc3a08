"""The solver of fused groups: every structure bounded, the promising ones given nests, the bound proven.

1. Every layer alone gets its best mapping: the first incumbent, with everything between layers in the
outermost memory. 2. Every structure of every run of layers (``structures.py``) gets a bound by arithmetic
(``floors.py``), for any choice of hoisted tiles. Runs add up, so the cheapest sums around a run bound every
mapping with it. 3. Structures are looked at in the order of these bounds. First the bounds of its parts that
need no search of them raise a structure's bound. Then the exact mapper is asked for the parts that the bound
rests on (``parts.py``), which raises it further; a structure whose bound rests on proven parts is worked out,
with every choice of hoisted tiles that may still improve the incumbent. 4. The search ends when no bound is
below the incumbent, or when time is up. Then the least bound is what is proven.

For energy and for cycles, parts are proven one by one and add up. A product of energy and cycles does not:
each part is also bounded at prices of cycles in pJ, first at the one nearest to the ratio of both in the
incumbent, and the product is least at a corner of what these bounds admit. A gap can remain there.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from functools import reduce
from math import inf

import numpy as np

from costmodel.mapping.fused.layers.group import GroupMapping
from costmodel.mapping.fused.mapping import FusedMapping
from costmodel.mapping.mapping import Mapping
from solvers.budget import LEAST_SECONDS, Budget, Deadline, OutOfTimeError
from solvers.checks import check, check_switches, is_number
from solvers.fusion.fronts import NOTHING, Priced, Segment, SegmentFronts, around, flattened, sums
from solvers.fusion.layers.choices import Choices
from solvers.fusion.layers.corners import Corner, compulsory, corner_value
from solvers.fusion.layers.floors import LayerFloors, least_of_any
from solvers.fusion.layers.options import LayerOptions, NestOption
from solvers.fusion.layers.parts import Parts
from solvers.fusion.layers.pipelined import PipelinedRun, PipelineWay, Pipelining
from solvers.fusion.layers.problem import LayerFusionProblem, objective_of, violations
from solvers.fusion.layers.structures import GroupStructure, Run, structures
from solvers.fusion.problem import value
from solvers.outcome import Outcome, Status, noting_limits, proven
from solvers.tolerance import SAME_COST, sufficient_bound

VERSION = "7"

REFRESHED = 16
"""Parts that are solved before the bounds around runs are summed anew."""

BEFORE = 0.3
"""The share of the time for structures of few loops, before all are listed."""

FIRST_TOLERANCE = 0.05
"""How far from their optimum layers alone may be in the first incumbent. Often something that is shared costs
so much less that nobody needs to know more."""

SIDE = 1.5
"""Prices on both sides of the likeliest one: nests that are best at both are best for the product, too."""


@dataclass(frozen=True)
class Params:
    """``tolerance``: the search may end at a mapping that is within this fraction of the optimum.

    ``part_limits``: stop the proof of a part where its structure cannot beat the best mapping any more.
    ``share_capacities``: solve a part with the whole capacity of its level first, and take that answer
    wherever it fits.
    ``share_insides``: bound a part by its share of what the whole layer takes inside the chip.
    """

    tolerance: float = 0.0
    part_limits: bool = True
    share_capacities: bool = True
    share_insides: bool = True

    def __post_init__(self) -> None:
        right = is_number(self.tolerance, 0, 1)
        check("fusion_layers", "tolerance", right, "a number from 0 to 1", self.tolerance)
        check_switches("fusion_layers", self, "part_limits", "share_capacities", "share_insides")


@noting_limits
def solve(problem: LayerFusionProblem, budget: Budget, params: Params = Params()) -> Outcome[GroupMapping]:
    """The best fused mapping found in the space of :class:`LayerFusionProblem`, with a proven bound."""
    deadline = Deadline(budget.wall_seconds)
    search = _Search(problem, params, deadline)
    note = ""
    try:
        if reason := search.start():
            watch = deadline.watch
            return Outcome(Status.INFEASIBLE, None, None, None, watch.cpu_seconds, watch.wall_seconds, reason)
        search.run()
    except OutOfTimeError:
        note = "time was up before the search ended"
    watch = deadline.watch
    if search.found.incumbent is None:
        return Outcome(Status.UNKNOWN, None, None, search.bound, watch.cpu_seconds, watch.wall_seconds, note)
    mapping = search.mapping()
    if reasons := violations(problem, mapping):
        raise RuntimeError(f"a solver made a fused mapping that is none: {'; '.join(reasons[:3])}")
    objective = objective_of(problem, mapping)
    status, bound = proven(objective, min(objective, search.bound))
    return Outcome(
        status,
        mapping,
        objective,
        bound,
        watch.cpu_seconds,
        watch.wall_seconds,
        note,
        evaluations=search.evaluations,
    )


@dataclass(frozen=True)
class _Chosen:
    """A run that is worked out: of every layer the option, and the nest of every kind of turn."""

    structure: GroupStructure
    layers: tuple[tuple[NestOption, tuple[Mapping, ...]], ...]

    @property
    def shared(self) -> FusedMapping:
        """The structure with the tiles that the options hoist."""
        hoist = {
            name: tiles for option, _ in self.layers for name, tiles in option.turns.shared.hoist.items()
        }
        return replace(self.structure.shared, hoist=hoist)


@dataclass
class _RunBounds:
    """The structures of a run, of each the corner that is known, and those that have but a floor for it.

    ``pipelined``: by number, those that stand for all pipelines of their layers.
    """

    structures: list[GroupStructure]
    corners: np.ndarray
    rough: set[int]
    pipelined: dict[int, PipelinedRun]


class _Search:
    def __init__(self, problem: LayerFusionProblem, params: Params, deadline: Deadline) -> None:
        self.problem, self.group, self.objective = problem, problem.group, problem.objective
        self.params, self.deadline = params, deadline
        self.count = len(self.group.layers)
        self.parts = Parts(
            self.group.architecture,
            self.group.layers,
            self.objective,
            deadline,
            share_capacities=params.share_capacities,
            share_insides=params.share_insides,
        )
        self.options = LayerOptions(self.parts)
        self.floors = LayerFloors(self.group, self.parts)
        self.pipelining: Pipelining | None = None
        self.runs: dict[Segment, _RunBounds] = {}
        self.found = SegmentFronts(self.objective, self.count)
        pipelined = problem.pipelined
        self.bound = corner_value(self.objective, compulsory(self.group, pipelined=pipelined), ())
        self.left: list[tuple[Segment, Corner]] = []
        """Corners of runs that were worked out, of which no nest reaches the bound."""
        self._around: dict[Segment, Corner] = {}
        self._choices: dict[tuple[Segment, int], Choices] = {}
        self._refreshed = 0
        self._whole = False

    # -- the steps -----------------------------------------------------------------------------------

    def start(self) -> str:
        """Map every layer alone: the first incumbent. The result says why a layer has no mapping."""
        energy = cycles = 0.0
        for position, layer in enumerate(self.group.layers):
            run = Run(self.group, position, position)
            structure = next(structures(run))
            option = self.options.of(structure, 0)[0]
            (part,) = option.parts
            if part not in self.parts.starts:
                # whoever comes when time is up still gets a mapping, if not a good one
                seconds = max(LEAST_SECONDS, self.deadline.left / (2 * (self.count - position)))
                tolerance = max(self.params.tolerance, FIRST_TOLERANCE)
                outcome = self.parts.alone(part, seconds=seconds, tolerance=tolerance)
                if outcome.status is Status.INFEASIBLE:
                    return f"{layer.name}: {outcome.note}"
                if outcome.solution is None:
                    raise OutOfTimeError(f"{layer.name} has no mapping yet")
                self.parts.starts[part] = outcome
            nest = self.parts.starts[part].solution
            assert isinstance(nest, Mapping), "layers by themselves are mapped evenly"
            points = self.parts.points(option.turns, [[nest]])
            self._add_ways(structure, sums([NOTHING], _of(option, points)))
            energy += points[0].energy
            cycles += points[0].cycles
        if self.objective == "edp":
            price = energy / cycles
            self.parts.prices = (price, price / SIDE, price * SIDE)
        # options that were made before the price was known have bounds without it
        self.options = LayerOptions(self.parts)
        self.floors = LayerFloors(self.group, self.parts)
        self.parts.forget()
        if self.problem.pipelined:
            self.pipelining = Pipelining(self.group, self.parts, self.floors, self.deadline)
        return ""

    def run(self) -> None:
        """Search to the end; raises OutOfTimeError when time is up, with all that was found in place."""
        if not self.problem.pipelined:  # whose cycles do not add up
            least = self._alone(least_of_any(self.group, self.parts))
            self.bound = max(self.bound, min(self.found.best, least))
        # Structures of few loops are soon listed, and often the best is among them: they are looked at first,
        # without a proof, for a part of the time.
        if self.pipelining is not None:
            # What can be had without pipelines comes first, for half of the time: their space is far larger.
            half = Deadline(self.deadline.left / 2)
            self._search(1, Deadline(half.left * BEFORE), pipelines=False)
            self._search(None, half, pipelines=False)
        self._search(1, Deadline(self.deadline.left * BEFORE))
        self._search(None, self.deadline)

    def _search(self, most_loops: int | None, deadline: Deadline, *, pipelines: bool = True) -> None:
        """Look at structures in the order of their bounds; a bound is proven where all are listed.

        ``pipelines``: with those of every structure, if there may be any.
        """
        whole = most_loops is None and (pipelines or self.pipelining is None)
        self.left = []
        listed = self._bounded(most_loops, self.pipelining if pipelines else None)
        self._refresh(whole)
        heap = [(self._value(run, number), run, number) for run, number in listed]
        heapq.heapify(heap)
        while heap:
            least, run, number = heap[0]
            if whole:
                self.bound = max(self.bound, min(least, self._left(), self.found.best))
            if least >= sufficient_bound(self.found.best, self.params.tolerance):
                break
            self.deadline.check()
            if not deadline.in_time():
                return
            heapq.heappop(heap)
            now = self._value(run, number)
            if now > least:
                heapq.heappush(heap, (now, run, number))
            elif (pipelined := self.runs[run].pipelined.get(number)) is not None:
                self._look_closer(run, number, pipelined, dive=not whole)
                heapq.heappush(heap, (self._value(run, number), run, number))
            elif number in self.runs[run].rough:
                if self._refine(run, number):
                    heapq.heappush(heap, (self._value(run, number), run, number))
            elif self._tighten(run, number):
                heapq.heappush(heap, (self._value(run, number), run, number))
            else:
                self._work_out(run, number)
        self._refresh(whole)
        if not whole:
            return
        least = heap[0][0] if heap else inf
        self.bound = max(self.bound, min(least, self._left(), self.found.best))

    def _left(self) -> float:
        """The least bound of what was worked out and is not proven."""
        return min((self._alone(self._around[run] + corner) for run, corner in self.left), default=inf)

    def _bounded(self, most_loops: int | None, pipelining: Pipelining | None) -> list[tuple[Segment, int]]:
        """Every structure that can fit, with its floor, and what stands for its pipelines, if they count."""
        found = []
        self._choices = {}
        for first in range(self.count):
            for last in range(first, min(self.count, first + self.problem.longest)):
                run = Run(self.group, first, last)
                fitting, corners = [], list[list[float]]()
                pipelined: dict[int, PipelinedRun] = {}
                listed = structures(run, most_loops, recompute=self.problem.recompute)
                for number, structure in enumerate(listed):
                    if number % 256 == 0:
                        self.deadline.check()
                    floor = self._floor_of(structure)
                    fitting.append(structure)
                    corners.append([floor.energy, floor.cycles, *floor.priced])
                    if pipelining and (pipelines := pipelining.pipelines_of(structure)) is not None:
                        corner, pipelined[len(fitting)] = pipelines.corner, pipelines
                        fitting.append(structure)
                        corners.append([corner.energy, corner.cycles, *corner.priced])
                if fitting:
                    numbers = range(len(fitting))
                    rough = set(numbers) - pipelined.keys()
                    self.runs[first, last] = _RunBounds(fitting, np.array(corners), rough, pipelined)
                    found += [((first, last), number) for number in numbers]
        return found

    def _look_closer(self, run: Segment, number: int, pipelines: PipelinedRun, *, dive: bool) -> None:
        """Look closer at the pipelines of a structure, where they may cost least.

        ``dive``: until one is found, or none that is left can be better than the best mapping.
        """

        def value(corner: Corner) -> float:
            return self._alone(self._around[run] + corner)

        ways: list[PipelineWay] = []
        while not ways:
            ways, left = pipelines.step(value, self._limit)
            if left is not None:
                self.left.append((run, left))
            if not dive or pipelines.value(value) >= self._limit:
                break
        corner = pipelines.corner
        self.runs[run].corners[number] = [corner.energy, corner.cycles, *corner.priced]
        found = []
        for way in ways:
            energy = 0.0 if self.objective == "cycles" else way.energy
            cycles = 0.0 if self.objective == "energy" else float(way.cycles)
            found.append(Priced(energy, cycles, _Chosen(way.structure, way.layers)))
        if found:
            self._take(run, found)

    def _floor_of(self, structure: GroupStructure) -> Corner:
        """The least costs of a structure by arithmetic alone."""
        floors = (self.floors.of(structure, number) for number in range(len(structure.run.group.layers)))
        return reduce(Corner.__add__, floors, self._nothing)

    def _refine(self, run: Segment, number: int) -> bool:
        """Bound a structure by what is known of its parts; False if held tiles leave a part no capacity.

        Layer after layer, until that is enough to rule the structure out: bounds only rise, and nobody looks
        at it again.
        """
        bounds = self.runs[run]
        bounds.rough.remove(number)
        structure = bounds.structures[number]
        layers = range(len(structure.run.group.layers))
        corners = [self.floors.of(structure, layer) for layer in layers]
        for layer in layers:
            options = self.options.of(structure, layer)
            if not options:
                bounds.corners[number] = inf
                return False
            # Both hold, and either may be the larger: for hoisted tiles a part's bound takes off words of
            # every turn.
            corners[layer] = corners[layer].most(self._least(options))
            corner = reduce(Corner.__add__, corners, self._nothing)
            bounds.corners[number] = [corner.energy, corner.cycles, *corner.priced]
            if self._value(run, number) >= self._limit:
                return True
        self._renew(run, number)
        return True

    def _choices_of(self, run: Segment, number: int) -> Choices:
        """What the layers of a structure can hoist. Every layer has options: :meth:`_refine` leaves out
        structures of which one has none."""
        if (run, number) not in self._choices:
            structure = self.runs[run].structures[number]
            options = [self.options.of(structure, layer) for layer in range(run[1] - run[0] + 1)]
            level = self.group.outermost - 1
            self._choices[run, number] = Choices(structure.shared, options, level, self.parts)
        return self._choices[run, number]

    def _least(self, options: list[NestOption]) -> Corner:
        """The least of each cost of any of the options."""
        return reduce(Corner.least, (option.least(self.parts) for option in options))

    @property
    def _nothing(self) -> Corner:
        """No costs, at every price."""
        return Corner(0.0, 0.0, tuple(0.0 for _ in self.parts.prices))

    def _refresh(self, whole: bool | None = None) -> None:
        """Sum up the least corners before and after every run; the sum of all is a bound if ``whole``."""
        self._whole = self._whole if whole is None else whole
        least = {}
        for run, bounds in self.runs.items():
            energy, cycles, *priced = bounds.corners.min(axis=0).tolist()
            least[run] = Corner(energy, cycles, tuple(priced))
        never = Corner(inf, inf, tuple(inf for _ in self.parts.prices))
        least_sum, self._around = around(least, self.count, self._nothing, never)
        self._refreshed = self._solves
        if self._whole:
            self.bound = max(self.bound, min(self.found.best, self._alone(least_sum)))

    def _value(self, run: Segment, number: int) -> float:
        """The bound of a structure with what is around its run."""
        if self._solves >= self._refreshed + REFRESHED:
            self._refresh()
        if (pipelines := self.runs[run].pipelined.get(number)) is not None:
            return pipelines.value(lambda corner: self._alone(self._around[run] + corner))
        return self._alone(self._total(run, number))

    @property
    def _solves(self) -> int:
        """How often the exact mapper was asked about parts."""
        return self.parts.solves + (self.pipelining.solves if self.pipelining else 0)

    def _total(self, run: Segment, number: int) -> Corner:
        """The corner of a structure with what is around its run."""
        energy, cycles, *priced = self.runs[run].corners[number].tolist()
        return self._around[run] + Corner(energy, cycles, tuple(priced))

    def _tighten(self, run: Segment, number: int) -> bool:
        """Ask about the parts that a structure's corner rests on; False if all of that is known."""
        structure = self.runs[run].structures[number]
        layers = range(run[1] - run[0] + 1)
        # Of a layer with several kinds of turns the most frequent one comes first: often it says enough.
        for rank in range(max(len(turns.kinds) for turns in structure.turns)):
            before = solved = self.parts.solves
            for layer in layers:
                if not (cheapest := self._choices_of(run, number).cheapest()):
                    # none fits any more, as answers about parts of other structures have shown: the bound
                    # is infinite, and has to be known as such, or this structure would come first for ever
                    self._renew(run, number)
                    return True
                if rank < len(parts := cheapest[layer].parts_by_turns):
                    slack = self._slack(self._total(run, number))
                    if slack <= 0 and self.params.part_limits:
                        return True
                    turns, part = parts[rank]
                    self.parts.ask(part, (self.parts.first_question,), self._limited(slack) / turns)
                if self.parts.solves > solved:
                    solved = self.parts.solves
                    self._renew(run, number)
            if solved > before:
                self._sample(run, number)
                return True
        if run[0] == run[1]:
            # Layers alone are few, and stand around all runs: what is known of them raises many bounds.
            for option in self.options.of(structure, 0):
                option.ask(self.parts, self.parts.proving)
        return self._renew(run, number)

    def _slack(self, total: Corner) -> float:
        """How much more the answers to the first question may add up to before a structure is ruled out.

        Of a product that question is about energy with a price on every cycle. With so much of it the product
        reaches the limit at the least energy and at the fewest cycles, and so everywhere between them.
        """
        left = self._limit - self._alone(total)
        if self.objective != "edp" or left <= 0:
            return left
        number, energy, cycles = self.parts.likeliest, total.energy, total.cycles
        if not energy or not cycles:
            return inf
        price = self.parts.prices[number]
        enough = max(energy + price * self._limit / energy, price * cycles + self._limit / cycles)
        return enough - total.priced[number]

    @property
    def _limit(self) -> float:
        """Mappings that cost as much are not looked for."""
        return sufficient_bound(self.found.best, self.params.tolerance)

    def _limited(self, slack: float) -> float:
        """The slack for questions about parts, if they have one."""
        return slack if self.params.part_limits else inf

    def _renew(self, run: Segment, number: int) -> bool:
        """Bound a structure by what is known of its parts now; the result says whether that is news."""
        corner, bounds = self._choices_of(run, number).least(), self.runs[run]
        before = bounds.corners[number].copy()
        bounds.corners[number] = np.maximum(before, [corner.energy, corner.cycles, *corner.priced])
        return bool((bounds.corners[number] > before).any())

    def _sample(self, run: Segment, number: int) -> None:
        """Try the nests that are known for the cheapest choice of hoisted tiles, if there are some."""
        total = [NOTHING]
        if not (cheapest := self._choices_of(run, number).cheapest()):
            return
        for option in cheapest:
            nests = [self.parts.nests(part) for part in option.parts]
            if not all(nests):
                return
            total = sums(total, _of(option, self.parts.points(option.turns, nests)))
        self._add_ways(self.runs[run].structures[number], total)

    def _add_ways(self, structure: GroupStructure, total: list[Priced]) -> None:
        """Add costs of a structure, each of its layers' options and nests, to those of its run."""
        ways = [Priced(one.energy, one.cycles, _Chosen(structure, flattened(one.of))) for one in total]
        self._take((structure.run.first, structure.run.last), ways)

    def _take(self, run: Segment, ways: list[Priced]) -> None:
        """Add ways to run some layers together."""
        self.found.add(run, ways)
        if self.parts.prices and (best := self.found.incumbent) is not None:
            self.parts.expect(best.energy / best.cycles)

    def _alone(self, corner: Corner) -> float:
        """The least objective that a corner admits."""
        return corner_value(self.objective, corner, self.parts.prices)

    def _work_out(self, run: Segment, number: int) -> None:
        """Try all hoisted tiles of a structure that may improve the incumbent."""
        structure = self.runs[run].structures[number]
        options = [self.options.of(structure, layer) for layer in range(run[1] - run[0] + 1)]
        rest = [self._nothing]
        for mine in reversed(options):
            rest.append(rest[-1] + self._least(mine))
        rest.reverse()
        self._choose(structure, self._choices_of(run, number), options, [], self._nothing, rest)

    def _choose(
        self,
        structure: GroupStructure,
        choices: Choices,
        options: list[list[NestOption]],
        chosen: list[NestOption],
        so_far: Corner,
        rest: list[Corner],
    ) -> None:
        number = len(chosen)
        if number == len(options):
            self._add(structure, choices.beside(chosen))
            return
        around = self._around[structure.run.first, structure.run.last]
        for option in sorted(options[number], key=lambda one: self._alone(one.least(self.parts))):
            if not choices.fits([*chosen, option]):
                continue

            def slack(option: NestOption = option) -> float:
                total = so_far + option.least(self.parts) + rest[number + 1]
                return self._slack(around + total)

            for questions in ((), (self.parts.first_question,)):
                option.tighten(self.parts, questions, lambda: self._limited(slack()))
                total = so_far + option.least(self.parts)
                if slack() <= 0:
                    break
            else:
                self._choose(structure, choices, options, [*chosen, option], total, rest)

    def _add(self, structure: GroupStructure, beside: list[NestOption]) -> None:
        """Add the costs of a structure whose hoisted tiles are chosen, one option for each layer."""
        self.deadline.check()
        run = structure.run.first, structure.run.last

        def least() -> Corner:
            return reduce(Corner.__add__, (option.least(self.parts) for option in beside), self._nothing)

        def slack() -> float:
            return self._slack(self._around[run] + least())

        for question in self.parts.questions:
            for option in beside:
                option.tighten(self.parts, (question,), lambda: self._limited(slack()))
            corner = least()
            if slack() <= 0:
                return
        total = [NOTHING]
        for option in beside:
            total = sums(total, _of(option, option.costs(self.parts)))
        self._add_ways(structure, total)
        reached = min((value(self.objective, one.energy, one.cycles) for one in total), default=inf)
        if self.objective == "edp" or reached > self._alone(corner) * (1 + SAME_COST):
            self.left.append((run, corner))

    # -- the answer ----------------------------------------------------------------------------------

    @property
    def evaluations(self) -> int:
        """What the exact mapper counted."""
        of_stages = self.pipelining.evaluations if self.pipelining else 0
        return self.parts.evaluations + self.parts.insides.evaluations + of_stages

    def mapping(self) -> GroupMapping:
        """The incumbent as a mapping of the whole group."""
        assert self.found.incumbent is not None, "a search without an incumbent has no mapping"
        runs: tuple[_Chosen, ...] = flattened(self.found.incumbent.of)
        nests = [nests for run in runs for _, nests in run.layers]
        others = {
            layer.name: tuple(some[1:])
            for layer, some in zip(self.group.layers, nests, strict=True)
            if len(some) > 1
        }
        shared = FusedMapping.joined(run.shared for run in runs)
        return GroupMapping(shared, tuple(some[0] for some in nests), others)


def _of(option: NestOption, points: list[Priced]) -> list[Priced]:
    """Costs of nests as costs of an option with these nests."""
    return [Priced(one.energy, one.cycles, (option, one.of)) for one in points]
