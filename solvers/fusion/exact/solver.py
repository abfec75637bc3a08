"""The exact solver: every structure bounded, the promising ones worked out, the best mapping proven.

Given what neighbours share, where intermediates stay and what is hoisted, the capacity that is left to each
einsum is known, and einsums do not touch one another any more: each takes the best of its own nests that fits
(``nests.py``). So the search has three steps.

1. Every structure of every segment (``structures.py``) gets a bound: of each einsum the least cost of any
   hoisting, as if nobody else hoisted anything. Costs of segments add up, so the cheapest sums of segments
   around a structure bound every mapping that has it.
2. Structures are worked out in the order of these bounds: all sets of hoisted tiles whose own bound beats the
   incumbent, within the capacity that the others leave. Energy and cycles are kept as fronts where the
   product of both is asked for, because the best product of a chain need not be made of the best products of
   its parts.
3. The search ends when the next bound is no better than the incumbent, which is then proven to be optimal,
   or when time is up: then that next bound is what is proven.

The incumbent is there at once: every einsum by itself, intermediates in the outermost memory. A search that
is stopped before that answers with tiles of single words.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from math import inf

from costmodel.mapping.fused.mapping import FusedMapping, Loops
from solvers.budget import Budget, Deadline, OutOfTimeError
from solvers.checks import check, is_number
from solvers.fusion.exact.bounds import compulsory
from solvers.fusion.exact.nests import EinsumNests, load_kernel
from solvers.fusion.exact.options import EinsumOptions, Option
from solvers.fusion.exact.structures import Structure, structures
from solvers.fusion.fronts import (
    NOTHING,
    Point,
    Priced,
    Segment,
    SegmentFronts,
    around,
    flattened,
    sums,
    undominated,
)
from solvers.fusion.problem import FusionProblem, answer, infeasible, unknown, value, violations
from solvers.outcome import Outcome, noting_limits
from solvers.tolerance import sufficient_bound

VERSION = "1"


@dataclass(frozen=True)
class Params:
    """``tolerance``: the search may end at a mapping that is within this fraction of the optimum."""

    tolerance: float = 0.0

    def __post_init__(self) -> None:
        right = is_number(self.tolerance, 0, 1)
        check("fusion_exact", "tolerance", right, "a number from 0 to 1", self.tolerance)


@noting_limits
def solve(problem: FusionProblem, budget: Budget, params: Params = Params()) -> Outcome[FusedMapping]:
    """The best fused mapping of the space of :class:`FusionProblem`, proven; the best so far when stopped.

    Loading the compiled code, which a process does once, is not on the clock.
    """
    load_kernel()
    deadline = Deadline(budget.wall_seconds)
    search = _Search(problem, params, deadline)
    note = ""
    try:
        search.run()
    except OutOfTimeError:
        note = "time was up before the search ended"
    evaluations = sum(one.nests.evaluations for one in search.options)
    if search.found.incumbent is not None:
        return answer(problem, search.mapping(), search.bound, deadline.watch, evaluations, note)
    if not note:
        return infeasible(_reason(problem), deadline.watch)
    if violations(problem, smallest := _single_words(problem)):
        return unknown(note, deadline.watch, search.bound)
    return answer(problem, smallest, search.bound, deadline.watch, evaluations, note)


def _single_words(problem: FusionProblem) -> FusedMapping:
    """Einsums one after the other with tiles of one word: without shared loops nothing takes fewer words."""
    chain = problem.chain
    own = tuple(
        (tuple((dim, 1) for dim, size in einsum.dims.items() if size > 1), *([()] * chain.outermost))
        for einsum in chain.einsums
    )
    return FusedMapping((0,) * len(chain.intermediates), ((),) * len(chain.einsums), own)


def _reason(problem: FusionProblem) -> str:
    """The first einsum and level that make a problem infeasible.

    If every level can hold a word of every tensor of each einsum, the einsums can run one after the other, so
    there is such a pair.
    """
    chain = problem.chain
    for einsum in chain.einsums:
        for level in chain.levels[:-1]:
            needed = len(einsum.tensors)
            if level.capacity is not None and level.capacity < needed:
                return (
                    f"{einsum.name} holds a word of each of its {needed} tensors in {level.name}, "
                    f"which has a capacity of {level.capacity} words"
                )
    raise AssertionError("single words of all tensors fit, and no mapping was found")


@dataclass(frozen=True)
class _Part:
    """A segment that is worked out: of every einsum the option and the row of its front."""

    structure: Structure
    chosen: tuple[tuple[Option, int], ...]


class _Search:
    def __init__(self, problem: FusionProblem, params: Params, deadline: Deadline) -> None:
        self.problem, self.chain, self.objective = problem, problem.chain, problem.objective
        self.params, self.deadline = params, deadline
        self.count = len(self.chain.einsums)
        self.options = [
            EinsumOptions(EinsumNests(self.chain, position, self.objective, deadline))
            for position in range(self.count)
        ]
        self.floors = [self._counted(compulsory(self.chain, position)) for position in range(self.count)]
        self.found = SegmentFronts(self.objective, self.count)
        self._bound = value(self.objective, *sum(self.floors, Point(0.0, 0.0)))

    @property
    def bound(self) -> float:
        """What is proven of every mapping."""
        return min(self._bound, self.found.best)

    def _counted(self, point: Point) -> Point:
        """The costs that the objective counts; the other one is 0."""
        return Point(
            0.0 if self.objective == "cycles" else point.energy,
            0.0 if self.objective == "energy" else point.cycles,
        )

    # -- the three steps -----------------------------------------------------------------------------

    def run(self) -> None:
        """Search to the end; raises OutOfTimeError when time is up, with all that was found in place."""
        for position in range(self.count):
            self._work_out(Structure(self.chain, position, position, ()), Point(0.0, 0.0))
        bounded = self._bounded()
        around = self._around(bounded)
        queue = [
            (self._with(around[structure.first, structure.last], least), number, structure, least)
            for number, (structure, least) in enumerate(bounded)
        ]
        heapq.heapify(queue)
        while queue:
            self._bound = max(self._bound, queue[0][0])
            if queue[0][0] >= sufficient_bound(self.found.best, self.params.tolerance):
                return
            self.deadline.check()
            _, _, structure, _ = heapq.heappop(queue)
            self._work_out(structure, around[structure.first, structure.last])
        self._bound = max(self._bound, self.found.best)

    def _bounded(self) -> list[tuple[Structure, Point]]:
        """Every structure that can fit, with the least pJ and the least cycles of its segment."""
        found = []
        for first in range(self.count):
            for last in range(first, self.count):
                for number, structure in enumerate(structures(self.chain, first, last)):
                    if number % 64 == 0:
                        self.deadline.check()
                    if (least := self._least(structure)) is not None:
                        found.append((structure, least))
        return found

    def _least(self, structure: Structure) -> Point | None:
        """The least costs of a structure, as if no einsum had to bear what others hoist."""
        total = Point(0.0, 0.0)
        for position in range(structure.first, structure.last + 1):
            options = self.options[position].of(structure)
            if not options:
                return None
            total = Point(
                total.energy + min(one.least.energy for one in options),
                total.cycles + min(one.least.cycles for one in options),
            )
        return total

    def _around(self, bounded: list[tuple[Structure, Point]]) -> dict[Segment, Point]:
        """By segment, the least pJ and cycles of everything before and after it."""
        never = Point(inf, inf)
        least: dict[Segment, Point] = {}
        for structure, point in bounded:
            segment = structure.first, structure.last
            least[segment] = least.get(segment, never).least(point)
        return around(least, self.count, Point(0.0, 0.0), never)[1]

    def _with(self, around: Point, least: Point) -> float:
        """The bound of a segment's costs with what is around it."""
        return value(self.objective, *(around + least))

    def _work_out(self, structure: Structure, around: Point) -> None:
        """All sets of hoisted tiles of a structure that may improve the incumbent."""
        options = [
            self.options[position].of(structure) for position in range(structure.first, structure.last + 1)
        ]
        if not all(options):
            return
        rest = [Point(0.0, 0.0)]
        for mine in reversed(options):
            least = Point(min(one.least.energy for one in mine), min(one.least.cycles for one in mine))
            rest.append(rest[-1] + least)
        rest.reverse()
        self._choose(structure, options, [], around, rest)

    def _choose(
        self,
        structure: Structure,
        options: list[tuple[Option, ...]],
        chosen: list[Option],
        so_far: Point,
        rest: list[Point],
    ) -> None:
        """Choose an option of the next einsum; with all of them chosen, add their costs to the segment's."""
        number = len(chosen)
        if number == len(options):
            self._add(structure, chosen)
            return
        for option in options[number]:
            total = so_far + option.least
            if self._with(total, rest[number + 1]) < self.found.best:
                self._choose(structure, options, [*chosen, option], total, rest)

    def _add(self, structure: Structure, chosen: list[Option]) -> None:
        """Add the undominated costs of a segment whose hoisted tiles are chosen."""
        self.deadline.check()
        hoists = [[(hoist.depth, hoist.tile) for hoist in option.hoists] for option in chosen]
        taken = structure.mapping.taken_by_others(hoists)
        total = [NOTHING]
        for option, words in zip(chosen, taken, strict=True):
            rows = option.rows(words)
            if not rows:
                return
            mine = undominated(Priced(*option.point(row), (option, row)) for row in range(rows))
            total = sums(total, mine)
        ways = [Priced(one.energy, one.cycles, _Part(structure, flattened(one.of))) for one in total]
        self.found.add((structure.first, structure.last), ways)

    # -- the answer ----------------------------------------------------------------------------------

    def mapping(self) -> FusedMapping:
        """The incumbent as a mapping of the whole chain."""
        assert self.found.incumbent is not None, "a search without an incumbent has no mapping"
        return FusedMapping.joined(self._mapped(part) for part in flattened(self.found.incumbent.of))

    def _mapped(self, part: _Part) -> FusedMapping:
        own: list[tuple[Loops, ...]] = []
        hoist: dict[str, dict[str, int]] = {}
        for number, (option, row) in enumerate(part.chosen):
            nests = self.options[part.structure.first + number].nests
            own.append(nests.loops(option.choice, option.front.origins[row]))
            if option.hoists:
                hoist[nests.einsum.name] = {nests.tensors[one.tensor]: one.depth for one in option.hoists}
        return replace(part.structure.mapping, own=tuple(own), hoist=hoist)
