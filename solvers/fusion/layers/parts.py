"""The nests of a layer's part, asked of the exact mapper on an architecture with the capacity that is left.

``questions.py`` says what is asked. Before anything is, a part has a bound by the closed forms of the cost
model, and by its share of the layer's inside (``insides.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf, log
from typing import Any

from costmodel.hardware.architecture import Architecture
from costmodel.mapping.bounds.bounds import Scope, lower_bounds
from costmodel.mapping.fused.layers.evaluate import KindCost, LayerCost, kind_cost, layer_cost
from costmodel.mapping.fused.layers.turns import LayerTurns
from costmodel.mapping.mapping import Mapping
from costmodel.mapping.uneven import AnyMapping
from costmodel.workload.network import Layer
from solvers.budget import Budget, Deadline
from solvers.fusion.fronts import NOTHING, Priced, flattened, sums, undominated
from solvers.fusion.layers.corners import Corner
from solvers.fusion.layers.insides import Insides
from solvers.fusion.layers.questions import PartKey, Question, part_of, sums_pj
from solvers.fusion.problem import FusionObjective
from solvers.mapping import exact
from solvers.mapping.exact import Solving
from solvers.mapping.problem import MappingProblem, violations
from solvers.mapping.space.space_bounds import innermost_levels, space_bounds
from solvers.outcome import Outcome, Status

LIMIT_ROUNDING = 1e-9
"""The fraction by which a part's limit is above what is asked for."""


@dataclass
class PartNests:
    """What is known of the nests of one part: a bound for one turn, and nests that were found.

    ``asked``: the questions that the exact mapper has answered. ``limited``: those that it was asked with a
    limit, and every nest costs at least as much. ``best``: by question, the nest that is proven best.
    ``fits``: whether there is a nest at all.
    """

    least: Corner
    nests: list[Mapping] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    limited: set[str] = field(default_factory=set)
    best: dict[str, Mapping] = field(default_factory=dict)
    fits: bool = True
    loose: PartNests | None = None
    """What is known of the part with the whole capacity of its level; None: it has that itself."""


class Parts:
    """The parts of a group's layers, each solved once."""

    def __init__(
        self,
        architecture: Architecture,
        layers: tuple[Layer, ...],
        objective: FusionObjective,
        deadline: Deadline,
        *,
        share_capacities: bool = True,
        share_insides: bool = True,
    ) -> None:
        """``share_capacities`` and ``share_insides``: see the solver's ``Params``."""
        self.architecture, self.layers = architecture, layers
        self.objective, self.deadline, self.share_capacities = objective, deadline, share_capacities
        self.share_insides = share_insides
        self.prices: tuple[float, ...] = ()
        """pJ a cycle at which energy and cycles are also bounded together, the likeliest first; set before
        anything is asked."""
        self.starts: dict[PartKey, Outcome[AnyMapping]] = {}
        """What is known beforehand: the answers for whole layers by themselves, each with an even nest. They
        are proven where that is needed."""
        self.evaluations = 0
        self.solves = 0
        self.asked = 0
        """How often something may have been learned."""
        first: dict[object, int] = {}
        self._layers: dict[tuple[int, tuple[tuple[str, int], ...], bool], Layer] = {}
        self._least_words: dict[object, int] = {}
        self._first = [first.setdefault(layer.shape, number) for number, layer in enumerate(layers)]
        """By layer, the first one of its shape."""
        self.forget()

    def forget(self) -> None:
        """Drop all bounds, because prices have changed; nests known beforehand stay."""
        self._known: dict[PartKey, PartNests] = {}
        self._cheap: dict[object, Corner] = {}
        self._first_bounds: dict[PartKey, Corner] = {}
        self._likeliest = list(self.prices)
        self.insides = Insides(self.architecture, self.layers, self.prices, self.deadline)

    def key(
        self,
        position: int,
        sizes: tuple[tuple[str, int], ...],
        held: tuple[tuple[str, int], ...],
        capacities: tuple[tuple[int, int], ...] = (),
        *,
        begun: bool = False,
    ) -> PartKey:
        """The key of a part of the layer at ``position``, which layers of equal shape have in common."""
        return PartKey(self._first[position], sizes, held, capacities, begun)

    def of(self, key: PartKey) -> PartNests:
        """The part, with the bound that needs no search at least."""
        if key not in self._known:
            known = PartNests(self._first_bound(key))
            if key in self.starts and self.objective == "energy":
                known.least = known.least._replace(
                    energy=max(known.least.energy, self.starts[key].bound or 0.0)
                )
            if any(self.spare(key, level) < 0 for level, _ in key.capacities):
                known.fits, known.least = False, self._nothing_fits
            known.loose = self.of(replace(key, capacities=())) if key.capacities else None
            self._known[key] = known
        known = self._known[key]
        if loose := known.loose:
            # with less capacity nothing costs less; this may have been learned since the last time
            known.fits = known.fits and loose.fits
            if loose.least != known.least:
                known.least = known.least.most(loose.least)
        return known

    def nests(self, key: PartKey) -> list[Mapping]:
        """The nests that were found for a part, or for the same one whose outputs are begun or are not."""
        found, twin = self.of(key).nests, self._known.get(replace(key, begun=not key.begun))
        return [*found, *(nest for nest in twin.nests if nest not in found)] if twin else found

    def spare(self, key: PartKey, level: int) -> float:
        """The words of a level that no nest of the part needs: what is held there is whole, and of every
        other tensor that it keeps there is a word at least. Negative: there is no nest."""
        small = key.position, key.sizes, key.held, level
        if small not in self._least_words:
            question = Question(self.architecture, self._part(key), key)
            self._least_words[small] = question.least_words(level)
        usable = self.architecture.levels[level].usable_words
        return dict(key.capacities).get(level, usable) - self._least_words[small]

    def _first_bound(self, key: PartKey) -> Corner:
        """The closer of both bounds that need no search of the part, whatever its capacity."""
        small = replace(key, capacities=())
        if small not in self._first_bounds:
            bound = self.closed_form(key)
            if self.share_insides and self.objective != "cycles":
                inside = self.insides.least(small)
                bound = bound if inside is None else bound.most(inside)
            self._first_bounds[small] = bound
        return self._first_bounds[small]

    @property
    def _nothing_fits(self) -> Corner:
        return Corner(inf, inf, tuple(inf for _ in self.prices))

    @property
    def first_question(self) -> str:
        """The question whose answer says most: of a product, energy with the likeliest price of cycles."""
        return self.questions[0]

    @property
    def questions(self) -> tuple[str, ...]:
        """All questions about a part; the last one proves nothing but finds nests that need fewer cycles."""
        if self.objective == "edp":
            likeliest, *others = (_priced(price) for price in self._likeliest)
            return (likeliest, *others, "energy", "cycles", "edp")
        return (self.objective,)

    def expect(self, ratio: float) -> None:
        """Ask first at the prices that are near this ratio of energy to cycles, that of a good mapping.

        Around that mapping the product falls as energy does at such a price.
        """
        self._likeliest = sorted(self.prices, key=lambda price: abs(log(price / ratio)))

    @property
    def proving(self) -> tuple[str, ...]:
        """The questions whose answers are bounds."""
        return tuple(question for question in self.questions if question != "edp")

    @property
    def likeliest(self) -> int:
        """The number of the price that the first question about a product has."""
        return self.prices.index(self._likeliest[0])

    def ask(self, key: PartKey, questions: tuple[str, ...], slack: float = inf) -> PartNests:
        """The part with what the exact mapper answers to these questions. Raises OutOfTimeError.

        ``slack``: if every nest takes at least so much more energy (with the price of its cycles) than the
        least that is known, that is all the caller wants to know of the first question. So an answer can stop
        there, but for cycles, and once for a part: who asks again gets the optimum.
        """
        known = self.of(key)
        for question in questions:
            if question not in known.asked and known.fits:
                self.deadline.check()
                ceiling = inf
                if question == self.first_question != "cycles" and question not in known.limited:
                    # a little above, so that sums of rounded numbers reach the caller's limit, too
                    ceiling = (self._limited(known) + slack) * (1 + LIMIT_ROUNDING)
                if self.share_capacities and key.capacities:
                    # Often the best nest with the whole capacity fits what is left here, too.
                    whole = replace(key, capacities=())
                    more = ceiling - self._limited(self.of(whole))
                    best = self.ask(whole, (question,), more).best.get(question)
                    known = self.of(key)
                    if not known.fits or self._limited(known) >= ceiling:
                        continue
                    if best is not None and self._fits(key, best):
                        if best not in known.nests:
                            known.nests.append(best)
                        known.best[question] = best
                        known.asked.add(question)
                        continue
                self._ask(key, known, question, ceiling)
        return known

    def _limited(self, known: PartNests) -> float:
        """The least that is known of what a limit is on: energy, of a product with the likeliest price."""
        return known.least.priced[self.likeliest] if self.prices else known.least.energy

    def _fits(self, key: PartKey, nest: Mapping) -> bool:
        """Whether a nest that was found with the whole capacity fits the capacity that this part has."""
        return not violations(Question(self.architecture, self._part(key), key).problem("energy", 0.0), nest)

    def _ask(self, key: PartKey, known: PartNests, question: str, ceiling: float) -> None:
        self.asked += 1
        if question == self.objective and key in self.starts:
            if self.starts[key].status is not Status.OPTIMAL:
                self.starts[key] = self.alone(key, self.starts[key].solution)
                self.evaluations += self.starts[key].evaluations
            if self._started(known, self.starts[key]):
                known.asked.add(question)
                return
        asked = Question(self.architecture, self._part(key), key)
        at = [number for number, price in enumerate(self.prices) if question == _priced(price)]
        objective, price = ("energy", self.prices[at[0]]) if at else (question, 0.0)
        # the last question is asked with all bandwidths, so that its nests suit them
        problem = asked.problem(objective, price, relaxed=question != "edp")
        # parts have neither timing nor padding, so this is all that the mapper's ``solve`` does
        solving = Solving(problem, ceiling=ceiling + asked.taken_off)
        outcome = solving.go_on(self.deadline.budget().wall_seconds)
        self.solves += 1
        self.evaluations += outcome.evaluations
        if outcome.status is Status.INFEASIBLE:
            known.fits, known.least = False, self._nothing_fits
            return
        if isinstance(outcome.solution, Mapping) and outcome.solution not in known.nests:
            known.nests.append(outcome.solution)
        bound = 0.0 if outcome.bound is None else outcome.bound
        if outcome.status is Status.OPTIMAL and isinstance(outcome.solution, Mapping):
            known.best[question] = outcome.solution
        stopped = bound >= ceiling + asked.taken_off
        least = known.least
        if at:
            priced = list(least.priced)
            priced[at[0]] = max(priced[at[0]], bound - asked.taken_off)
            known.least = least._replace(priced=tuple(priced))
        elif question == "cycles":
            known.least = least._replace(cycles=max(least.cycles, bound))
        elif question == "energy":
            known.least = least._replace(energy=max(least.energy, bound - asked.taken_off))
        (known.limited if stopped else known.asked).add(question)

    def alone(
        self,
        key: PartKey,
        start: AnyMapping | None = None,
        *,
        seconds: float | None = None,
        tolerance: float = 0.0,
    ) -> Outcome[AnyMapping]:
        """The exact mapper's answer for a whole layer by itself, in all of its space: within ``tolerance`` of
        the optimum, in ``seconds`` or (None) all that are left, from ``start`` if there is one."""
        problem = MappingProblem(self.architecture, self._part(key), self.objective)
        budget = self.deadline.budget() if seconds is None else Budget(seconds)
        return exact.solve(problem, budget, exact.Params(tolerance=tolerance), start)

    def _started(self, known: PartNests, start: Outcome[AnyMapping]) -> bool:
        """Take what is known of a whole layer for the answer to the group's own question, if it is one.

        The layer's space is larger than that of the part, in which levels must keep what they can, so its
        bound holds; and its nest is a nest of the group. Of a product nothing is proven so.
        """
        if self.objective != "edp" and start.status is not Status.OPTIMAL:
            return False
        assert isinstance(start.solution, Mapping), "layers by themselves are mapped evenly"
        known.nests.append(start.solution)
        if start.status is Status.OPTIMAL:
            known.best[self.objective] = start.solution
        if self.objective == "energy":
            known.least = known.least._replace(energy=max(known.least.energy, start.bound or 0.0))
        elif self.objective == "cycles":
            known.least = known.least._replace(cycles=max(known.least.cycles, start.bound or 0.0))
        return True

    def points(self, one: LayerTurns, nests: Sequence[Sequence[Mapping]]) -> list[Priced]:
        """The undominated costs of all turns of a layer, as the cost model counts them.

        ``nests``: those to choose from for every kind of turn; each cost has one for each kind.
        """
        if len(nests) == 1:
            chosen = [(nest,) for nest in nests[0]]
        else:
            fronts = [NOTHING]
            for kind, some in zip(one.kinds, nests, strict=True):
                costs = ((nest, kind_cost(one, kind, nest)[0]) for nest in some)
                fronts = sums(fronts, [self._priced(cost, nest) for nest, cost in costs])
            chosen = [flattened(front.of) for front in fronts]
        return undominated(self._priced(layer_cost(one, *nests), nests) for nests in chosen)

    def _priced(self, cost: LayerCost | KindCost, of: Any) -> Priced:
        """A cost without what the objective does not count."""
        energy = 0.0 if self.objective == "cycles" else cost.energy_pj
        cycles = 0.0 if self.objective == "energy" else float(cost.cycles)
        return Priced(energy, cycles, of)

    def kept_inside(self, key: PartKey) -> frozenset[str]:
        """The tensors that every nest of a part keeps at some level inside the outermost one."""
        problem = Question(self.architecture, self._part(key), key).problem("energy", 0.0)
        outermost = len(self.architecture.levels) - 1
        tensors = zip(problem.layer.tensors, innermost_levels(problem), strict=True)
        return frozenset(tensor.name for tensor, levels in tensors if outermost not in levels)

    def _part(self, key: PartKey) -> Layer:
        small = key.position, key.sizes, key.begun
        if small not in self._layers:
            self._layers[small] = part_of(self.layers, key)
        return self._layers[small]

    def closed_form(self, key: PartKey) -> Corner:
        """The bound by the closed forms of the cost model, whatever the capacity.

        They take outputs to begin at zero, so what partial sums cost at least is added.
        """
        small = key.position, key.sizes, key.held
        if small not in self._cheap:
            # whatever the capacity: so the bound is made once for all of them
            fresh = replace(key, capacities=(), begun=False)
            question = Question(self.architecture, self._part(fresh), fresh)
            bounds = space_bounds(question.problem("energy", 0.0))
            self._cheap[small] = self._without_way(question, bounds.energy_pj, bounds.cycles)
        closed = self._cheap[small]
        if not key.begun or self.objective == "cycles":
            return closed
        sums = sums_pj(self.architecture, self._part(key), dict(key.held))
        return Corner(closed.energy + sums, closed.cycles, tuple(one + sums for one in closed.priced))

    def unequal_form(self, key: PartKey) -> Corner:
        """The bound by closed forms on a whole layer whose parts may have any numbers of rows.

        The closed forms of a layer hold for equal parts of it, whose factors are the layer's. So here
        factors may be any numbers. Then a part with a share of the operations and at least this share of
        every tensor's words costs at least this share of the bound, but for what is rounded up to whole
        blocks and cycles, which is taken off.
        """
        whole = "unequal", key.position, key.sizes, key.held
        if whole not in self._cheap:
            question = Question(self.architecture, self._part(key), replace(key, capacities=()))
            problem, outer = question.problem("energy", 0.0), self.architecture.levels[-1]
            scope = Scope(innermost_levels(problem), problem.layer)
            bounds = lower_bounds(problem.architecture, problem.layer, scope)
            rounded = sum(level.leakage_pj_per_cycle for level in self.architecture.levels)
            if outer.block_size > 1:
                for tensor in problem.layer.tensors:
                    rounded += outer.update_energy_pj if tensor.is_output else outer.read_energy_pj
            self._cheap[whole] = self._without_way(question, bounds.energy_pj - rounded, bounds.cycles)
        return self._cheap[whole]

    def _without_way(self, question: Question, energy_pj: float, cycles: int) -> Corner:
        """The corner of a bound that has the held tensors' way to the outermost memory."""
        energy = max(0.0, energy_pj - question.taken_off)
        return Corner(
            0.0 if self.objective == "cycles" else energy,
            0.0 if self.objective == "energy" else float(cycles),
            tuple(energy + price * cycles for price in self.prices),
        )


def _priced(price: float) -> str:
    """The question for the least energy with so many pJ for every cycle."""
    return f"energy at {price} pJ a cycle"
