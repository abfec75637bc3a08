"""The nests of a layer's part, asked of the exact mapper on an architecture with the room that is left.

A tensor that is held from elsewhere is kept whole at its level, and no loop outside moves it there. Such a
nest is an ordinary mapping with constraints, of which the mapper proves the best one. It counts the held
tensor's way to and from the outermost memory, which is the same for all of these nests and taken off again.

That way also uses bandwidth, which cannot be taken off. So where tensors are held, the mapper is asked for an
architecture without the bandwidths that this way uses: its bound holds for the real one, and the nest
that it finds is counted on the real one.
"""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, inf, isinf
from typing import Any, NamedTuple

from costmodel.hardware.architecture import Architecture, StorageLevel
from costmodel.mapping.bounds.bounds import Scope, lower_bounds
from costmodel.mapping.bounds.rounding import ROUNDING
from costmodel.mapping.fused.layers.evaluate import KindCost, LayerCost, kind_cost, layer_cost
from costmodel.mapping.fused.layers.group import LayerGroup
from costmodel.mapping.fused.layers.turns import LayerTurns
from costmodel.mapping.mapping import Mapping
from costmodel.mapping.uneven import AnyMapping
from costmodel.workload.network import Layer
from solvers.budget import Deadline
from solvers.fusion.fronts import NOTHING, Priced, flattened, sums, undominated
from solvers.fusion.problem import FusionObjective
from solvers.mapping.exact import Solving
from solvers.mapping.problem import MappingProblem, violations
from solvers.mapping.space.rules import FactorRule, LevelRules, SpaceRules
from solvers.mapping.space.space_bounds import innermost_levels, space_bounds
from solvers.outcome import Outcome, Status

LIMIT_ROUNDING = 1e-9
"""The fraction by which a part's limit is above what is asked for."""


class Corner(NamedTuple):
    """What nothing costs less than: pJ, cycles, and pJ with every cycle at a price, for each of some prices.

    The three need not be reached by one nest.
    """

    energy: float
    cycles: float
    priced: tuple[float, ...] = ()

    def __add__(self, other: Corner) -> Corner:  # type: ignore[override]
        """Both together."""
        priced = tuple(one + another for one, another in zip(self.priced, other.priced, strict=True))
        return Corner(self.energy + other.energy, self.cycles + other.cycles, priced)

    def least(self, other: Corner) -> Corner:
        """The smaller of each."""
        priced = tuple(min(one, another) for one, another in zip(self.priced, other.priced, strict=True))
        return Corner(min(self.energy, other.energy), min(self.cycles, other.cycles), priced)


def corner_value(objective: FusionObjective, corner: Corner, prices: tuple[float, ...]) -> float:
    """The least objective of any energy and cycles that a corner admits.

    Of the product: energy and cycles lie above a chain of lines, and a product is least at one of its ends or
    bends, for along each line it is concave.
    """
    energy, cycles = corner.energy, corner.cycles
    if objective == "energy":
        return energy
    if objective == "cycles":
        return cycles
    if isinf(energy) or isinf(cycles):
        return inf

    def cycles_at(pj: float) -> float:
        return max(
            [cycles, *((sum_ - pj) / price for sum_, price in zip(corner.priced, prices, strict=True))]
        )

    bends = {energy}
    lines = list(zip(corner.priced, prices, strict=True))
    for number, (sum_, price) in enumerate(lines):
        bends.add(sum_ - price * cycles)
        for other, other_price in lines[number + 1 :]:
            if price != other_price:
                # where both lines have the same cycles
                bends.add((sum_ * other_price - other * price) / (other_price - price))
    return min(pj * cycles_at(pj) for pj in bends if pj >= energy)


def port_cycles(level: StorageLevel, read: int, written: int) -> int:
    """Cycles that a level's bandwidths need for so many words read and written."""
    ports = (
        (read, level.read_bandwidth),
        (written, level.write_bandwidth),
        (read + written, level.shared_bandwidth),
    )
    return max((ceil(words / rate) for words, rate in ports if rate is not None), default=0)


def compulsory(group: LayerGroup) -> Corner:
    """What no fused mapping of a group costs less than, without any search.

    Every multiplication is done, and every word that only the outermost memory can have passes its port once.
    Words of tensors whose windows slide are left out: a window may skip some.
    """
    outer, total = group.architecture.levels[-1], Corner(0.0, 0.0)
    for position, layer in enumerate(group.layers):
        energy = layer.macs * group.architecture.compute.energy_pj
        read = written = 0
        for tensor in layer.tensors:
            if tensor.slides or group.sources(position, tensor.name):
                continue
            words = tensor.words(layer.sizes)
            if tensor.is_output:
                written += words
                energy += words // outer.block_size * outer.update_energy_pj
            else:
                read += words
                energy += words // outer.block_size * outer.read_energy_pj
        fastest = ceil(layer.macs / group.architecture.mac_units)
        cycles = max(fastest, port_cycles(outer, read, written))
        total = total + Corner(energy * ROUNDING, float(cycles))
    return total


@dataclass(frozen=True)
class PartKey:
    """A part of a layer, what is held, and the words that each holding level has for the part.

    ``position`` is that of the first layer of the same shape: parts of equal layers are one. ``sizes`` are
    those of its dims. ``held`` are names and levels, ``rooms`` levels and words, which include
    the held tensors as far as the part touches them. ``begun``: whether it goes on with partial sums.
    """

    position: int
    sizes: tuple[tuple[str, int], ...]
    held: tuple[tuple[str, int], ...]
    rooms: tuple[tuple[int, int], ...]
    begun: bool = False


@dataclass
class PartNests:
    """What is known of the nests of one part: a bound for one turn, and nests that were found.

    ``asked``: the questions that the exact mapper has answered. ``limited``: those that it was asked with a
    limit, and every nest costs at least as much. ``best``: the nest that is proven best for the last
    question. ``fits``: whether there is a nest at all.
    """

    least: Corner
    nests: list[Mapping] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    limited: set[str] = field(default_factory=set)
    best: Mapping | None = None
    fits: bool = True


class Parts:
    """The parts of a group's layers, each solved once."""

    def __init__(
        self,
        architecture: Architecture,
        layers: tuple[Layer, ...],
        objective: FusionObjective,
        deadline: Deadline,
        *,
        share_rooms: bool = True,
    ) -> None:
        """``share_rooms``: see the solver's ``Params``."""
        self.architecture, self.layers = architecture, layers
        self.objective, self.deadline, self.share_rooms = objective, deadline, share_rooms
        self.prices: tuple[float, ...] = ()
        """pJ a cycle at which energy and cycles are also bounded together, the likeliest first; set before
        anything is asked."""
        self.starts: dict[PartKey, Outcome[AnyMapping]] = {}
        """What is known beforehand: the answers for whole layers by themselves, each with an even nest."""
        self.evaluations = 0
        self.solves = 0
        first: dict[object, int] = {}
        self._first = [first.setdefault(layer.shape, number) for number, layer in enumerate(layers)]
        """By layer, the first one of its shape."""
        self._known: dict[PartKey, PartNests] = {}
        self._cheap: dict[object, Corner] = {}

    def forget(self) -> None:
        """Drop all bounds, because prices have changed; nests known beforehand stay."""
        self._known, self._cheap = {}, {}

    def key(
        self,
        position: int,
        sizes: tuple[tuple[str, int], ...],
        held: tuple[tuple[str, int], ...],
        rooms: tuple[tuple[int, int], ...] = (),
        *,
        begun: bool = False,
    ) -> PartKey:
        """The key of a part of the layer at ``position``, which layers of equal shape have in common."""
        return PartKey(self._first[position], sizes, held, rooms, begun)

    def of(self, key: PartKey) -> PartNests:
        """The part, with the bound that needs no search at least."""
        if key not in self._known:
            known = PartNests(self.closed_form(key))
            if any(words < 1 for _, words in key.rooms):
                known.fits, known.least = False, self._nothing_fits
            self._known[key] = known
        known = self._known[key]
        if (loose := self._known.get(replace(key, rooms=()))) and self._has_one_question:
            # with less room nothing costs less; this may have been learned since the last time
            known.fits = known.fits and loose.fits
            if loose.least > known.least:
                known.least = loose.least
        return known

    @property
    def _has_one_question(self) -> bool:
        """Whether energy or cycles are all that is asked; then one nest answers for a part."""
        return self.objective != "edp"

    @property
    def _nothing_fits(self) -> Corner:
        return Corner(inf, inf, tuple(inf for _ in self.prices))

    @property
    def first_question(self) -> str:
        """The question whose answer says most: of a product, energy with a price of cycles."""
        return "priced" if self.objective == "edp" else self.objective

    @property
    def questions(self) -> tuple[str, ...]:
        """All questions about a part; the last one proves nothing but finds nests that need fewer cycles."""
        if self.objective == "edp":
            return ("priced", "cycles", "energy", "sides", "edp")
        return (self.objective,)

    @property
    def proving(self) -> tuple[str, ...]:
        """The questions whose answers are bounds."""
        return tuple(question for question in self.questions if question != "edp")

    def ask(self, key: PartKey, questions: tuple[str, ...], slack: float = inf) -> PartNests:
        """The part with what the exact mapper answers to these questions. Raises OutOfTimeError.

        ``slack``: if every nest takes at least so much more energy than the least that is known, that is all
        the caller wants to know. So an answer can stop there. It is used where energy is the objective, and
        once for a part: who asks again gets the optimum.
        """
        known = self.of(key)
        for question in questions:
            if question not in known.asked and known.fits:
                self.deadline.check()
                limited = question == self.objective == "energy" and question not in known.limited
                # a little above, so that sums of rounded numbers reach the caller's limit, too
                ceiling = (known.least.energy + slack) * (1 + LIMIT_ROUNDING) if limited else inf
                if self.share_rooms and key.rooms and self._has_one_question:
                    # Often the best nest of all the room has the room that is left here, too.
                    all_room = replace(key, rooms=())
                    more = ceiling - self.of(all_room).least.energy
                    loose = self.ask(all_room, (question,), more)
                    known = self.of(key)
                    if not known.fits or known.least.energy >= ceiling:
                        continue
                    if loose.best is not None and self._fits(key, loose.best):
                        known.nests.append(loose.best)
                        known.asked.add(question)
                        continue
                self._ask(key, known, question, ceiling)
        return known

    def _fits(self, key: PartKey, nest: Mapping) -> bool:
        """Whether a nest found for all the room is one for the room that this part has."""
        return not violations(_Question(self.architecture, self._part(key), key).problem("energy", 0.0), nest)

    def _ask(self, key: PartKey, known: PartNests, question: str, ceiling: float) -> None:
        if question == self.objective and key in self.starts and self._started(known, self.starts[key]):
            known.asked.add(question)
            return
        asked = _Question(self.architecture, self._part(key), key)
        priced_at = {"priced": self.prices[:1], "sides": self.prices[1:]}
        stopped = False
        for price in priced_at.get(question, (0.0,)):
            objective = "energy" if question in priced_at else question
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
                known.best = outcome.solution
            stopped = bound >= ceiling + asked.taken_off
            least = known.least
            if question == "cycles":
                known.least = least._replace(cycles=max(least.cycles, bound))
            elif question == "energy":
                known.least = least._replace(energy=max(least.energy, bound - asked.taken_off))
            elif question in priced_at:
                number, priced = self.prices.index(price), list(least.priced)
                priced[number] = max(priced[number], bound - asked.taken_off)
                known.least = least._replace(priced=tuple(priced))
        (known.limited if stopped else known.asked).add(question)

    def _started(self, known: PartNests, start: Outcome[AnyMapping]) -> bool:
        """Take what is known of a whole layer for the answer to the group's own question, if it is one.

        The layer's space is larger than that of the part, in which levels must keep what they can, so its
        bound holds; and its nest is a nest of the group. Of a product nothing is proven so.
        """
        if self.objective != "edp" and start.status is not Status.OPTIMAL:
            return False
        assert isinstance(start.solution, Mapping), "layers by themselves are mapped evenly"
        known.nests.append(start.solution)
        known.best = start.solution if start.status is Status.OPTIMAL else None
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
        problem = _Question(self.architecture, self._part(key), key).problem("energy", 0.0)
        outermost = len(self.architecture.levels) - 1
        tensors = zip(problem.layer.tensors, innermost_levels(problem), strict=True)
        return frozenset(tensor.name for tensor, levels in tensors if outermost not in levels)

    def _part(self, key: PartKey) -> Layer:
        layer = self.layers[key.position]
        part = layer if key.sizes == layer.dims else replace(layer, dims=key.sizes)
        return part.continued if key.begun else part

    def closed_form(self, key: PartKey) -> Corner:
        """The bound by the closed forms of the cost model, the room apart.

        They take outputs to begin at zero, so what partial sums cost at least is added.
        """
        small = key.position, key.sizes, key.held
        if small not in self._cheap:
            # whatever the room: so the bound is made once for all of them
            fresh = replace(key, rooms=(), begun=False)
            question = _Question(self.architecture, self._part(fresh), fresh)
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
            question = _Question(self.architecture, self._part(key), replace(key, rooms=()))
            problem, outer = question.problem("energy", 0.0), self.architecture.levels[-1]
            scope = Scope(innermost_levels(problem), problem.layer)
            bounds = lower_bounds(problem.architecture, problem.layer, scope)
            rounded = sum(level.leakage_pj_per_cycle for level in self.architecture.levels)
            if outer.block_size > 1:
                for tensor in problem.layer.tensors:
                    rounded += outer.update_energy_pj if tensor.is_output else outer.read_energy_pj
            self._cheap[whole] = self._without_way(question, bounds.energy_pj - rounded, bounds.cycles)
        return self._cheap[whole]

    def _without_way(self, question: _Question, energy_pj: float, cycles: int) -> Corner:
        """The corner of a bound that has the held tensors' way to the outermost memory."""
        energy = max(0.0, energy_pj - question.taken_off)
        return Corner(
            0.0 if self.objective == "cycles" else energy,
            0.0 if self.objective == "energy" else float(cycles),
            tuple(energy + price * cycles for price in self.prices),
        )


@dataclass(frozen=True)
class _Question:
    architecture: Architecture
    part: Layer
    key: PartKey

    def problem(self, objective: str, price: float, *, relaxed: bool = True) -> MappingProblem:
        """The mapping problem of a part; every cycle costs ``price`` pJ in addition."""
        levels = list(self.architecture.levels)
        for level, words in self.key.rooms:
            levels[level] = replace(levels[level], size_words=max(1, words), multiple_buffering=1.0)
        if relaxed:
            for _, level in self.key.held:
                levels[level] = replace(levels[level], write_bandwidth=None, shared_bandwidth=None)
            if self.key.held:
                levels[-1] = replace(
                    levels[-1], read_bandwidth=None, write_bandwidth=None, shared_bandwidth=None
                )
        outermost = levels[-1]
        levels[-1] = replace(outermost, leakage_pj_per_cycle=outermost.leakage_pj_per_cycle + price)
        architecture = replace(self.architecture, levels=tuple(levels))
        return MappingProblem(architecture, self.part, objective, self._rules)  # type: ignore[arg-type]

    @cached_property
    def _rules(self) -> SpaceRules:
        """Held tensors are whole at their level, and at no level between it and the outermost one."""
        outermost = len(self.architecture.levels) - 1
        found = []
        for number, level in enumerate(self.architecture.levels):
            bypass = tuple(name for name, at in self.key.held if at < number < outermost)
            able = [one.name for one in self.part.tensors if level.can_keep(one) and one.name not in bypass]
            # Where room is taken, levels keep what they keep with all of it: bounds without it then hold.
            keep: tuple[str, ...] = ()
            if self.architecture.instances[number] == 1 and len(able) <= level.usable_words:
                keep = tuple(able)
            still = {dim for name, at in self.key.held if at < number for dim in self.part.tensor(name).dims}
            factors = tuple(FactorRule(dim, 1, 1) for dim in self.part.sizes if dim in still)
            if keep or bypass or factors:
                found.append(LevelRules(level.name, temporal=factors, keep=keep, bypass=bypass))
        return SpaceRules(levels=tuple(found))

    @cached_property
    def taken_off(self) -> float:
        """pJ of the held tensors' way between the outermost memory and their levels, once for each word."""
        outer, energy = self.architecture.levels[-1], 0.0
        for name, number in self.key.held:
            tensor = self.part.tensor(name)
            words, level = tensor.words(self.part.sizes), self.architecture.levels[number]
            if tensor.is_output:
                energy += _blocks(words, outer) * outer.update_energy_pj
            if tensor.begun or not tensor.is_output:
                energy += _blocks(words, outer) * outer.read_energy_pj
                energy += _blocks(words, level) * level.write_energy_pj
        return energy


def sums_pj(architecture: Architecture, part: Layer, held: ReadOnlyDict[str, int]) -> float:
    """pJ that going on with partial sums takes at least, beyond what a part that begins its outputs takes.

    The first visit of each word reads it, at every level that keeps it, and fills it there from outside. All
    instances of a level together have at least one first visit of every word. Where accesses move blocks, a
    visit may find its block read anyway, so only whole blocks of a level with one instance count.
    """
    output, outermost = part.output, len(architecture.levels) - 1
    words, outside = output.words(part.sizes), held.get(output.name, outermost)
    energy = 0.0
    for number, level in enumerate(architecture.levels[: outside + 1]):
        able = [tensor for tensor in part.tensors if level.can_keep(tensor)]
        kept = number == outside or (level.can_keep(output) and len(able) <= level.usable_words)
        if not kept or (level.block_size > 1 and architecture.instances[number] > 1):
            continue
        moved = level.read_energy_pj + (level.write_energy_pj if number < outside else 0.0)
        energy += words // level.block_size * moved
    return energy


def _blocks(words: int, level: StorageLevel) -> int:
    return ceil(words / level.block_size)
