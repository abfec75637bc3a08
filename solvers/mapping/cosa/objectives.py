"""CoSA's objectives (section III-D) as linear expressions of counts, in base-2 logarithms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2, prod

from costmodel.hardware.architecture import Architecture
from costmodel.workload.network import Tensor
from solvers.mapping.cosa.capacity import CapacityLimit, Keep
from solvers.mapping.cosa.linear import NEVER, EngineGoal, Terms, added, summed
from solvers.mapping.cosa.params import Params
from solvers.mapping.cosa.patterns import Pattern
from solvers.mapping.cosa.variables import PrimeGroup, Variables


def network_level(architecture: Architecture) -> int:
    """The level above the network on chip: the outermost one that feeds several instances."""
    fed = [index for index, level in enumerate(architecture.levels) if level.fanout > 1]
    return fed[-1] if fed else len(architecture.levels) - 1


@dataclass(frozen=True)
class Boundary:
    """A pair of levels between which ``tensor`` moves: ``parent`` keeps it, and so does ``child`` inside.

    ``child`` is -1 where no level inside keeps it, that is for the MACs.
    """

    tensor: Tensor
    child: int
    parent: int


def boundary_across(tensor: Tensor, keep: Keep, level: int) -> Boundary:
    """The boundary that ``tensor`` crosses on its way from ``level`` or further out to the inside of it."""
    parent = next(i for i in range(level, len(keep)) if tensor.name in keep[i])
    child = next((i for i in range(level - 1, -1, -1) if tensor.name in keep[i]), -1)
    return Boundary(tensor, child, parent)


def utilisation(variables: Variables, buffers: list[CapacityLimit]) -> Terms:
    """Util: the logarithm of the words in use, summed over levels and tensors (section III-D.1)."""
    held = {(tensor, buffer.level) for buffer in buffers for tensor in buffer.tensors}
    ordered = sorted(held, key=lambda item: (item[1], item[0].name))
    return summed(variables.steps(tensor, level) for tensor, level in ordered)


def compute(variables: Variables) -> Terms:
    """Comp: the logarithm of the temporal iterations, which run one after the other (section III-D.2)."""
    return variables.loops(variables.layer.sizes, variables.at(range(variables.depth), "temporal"))


@dataclass(frozen=True)
class TrafficScope:
    """Which boundaries count for Traf, and whose loop orders the program chooses.

    ``network``: the level just above the network on chip. ``crossed``: for each of these levels, the boundary
    that each tensor crosses there counts. A boundary that crosses several of them counts once with
    ``each_once``, else as often as it does. ``free_orders``: the levels whose orders the program chooses.
    ``exact_words``: tiles count with their strides and halos (``Variables.words``), not as in the paper
    (``Variables.steps``).
    """

    network: int
    crossed: tuple[int, ...]
    free_orders: tuple[int, ...]
    each_once: bool = False
    exact_words: bool = False

    @classmethod
    def of(cls, architecture: Architecture, params: Params) -> TrafficScope:
        """What ``params`` ask for; DRAM's order is always the program's choice."""
        network, depth = network_level(architecture), len(architecture.levels)
        if params.surrogate == "cost":
            return cls(network, tuple(range(depth)), tuple(range(1, depth)), each_once=True, exact_words=True)
        crossed = {
            "paper": (network,),
            "network": (network, depth - 1),
            "all": tuple(range(1, depth)),
        }[params.boundaries]
        orders = {depth - 1, network} if params.permutation == "program" and network else {depth - 1}
        return cls(network, crossed, tuple(sorted(orders)), each_once=params.boundaries == "all")


class CosaTraffic:
    """Traf (section III-D.3): logarithms of words over the network on chip and out of DRAM, added up.

    Which boundaries count is a choice: those over the network alone (Eq. 11), also those out of DRAM, or all
    between neighbouring levels that keep a tensor. What Traf saves depends on loop orders. The program
    chooses the orders of the levels in ``free_orders``, with one binary for each pattern and level. The
    network's level, if it is not among them, has the order of the pattern that the program is solved for. Any
    other level runs through its loops in the order that saves the most for the one tensor kept just inside
    it.
    """

    def __init__(
        self,
        variables: Variables,
        keep: Keep,
        patterns: Sequence[Pattern],
        scope: TrafficScope,
    ) -> None:
        self._variables = variables
        self._keep = keep
        self.network = scope.network
        self.dram = variables.depth - 1
        self._patterns = patterns
        self._exact_words = scope.exact_words
        found = [boundary_across(t, keep, level) for level in scope.crossed for t in variables.layer.tensors]
        self.boundaries = list(dict.fromkeys(found)) if scope.each_once else found
        self._chosen = {
            level: [variables.program.variable(1) for _ in patterns] for level in scope.free_orders
        }
        for chosen in self._chosen.values():
            variables.program.require(dict.fromkeys(chosen, 1.0), low=1, high=1)
        self._without_loops: dict[tuple[frozenset[str], range], Terms] = {}
        self._savings = {b: self._saving(b) for b in self.boundaries if b.child >= 0}

    def words(self, pattern: Pattern) -> Terms:
        """Traf, the sum of :meth:`sent` over the boundaries, where the network's level has the order
        ``pattern``."""
        return summed(self.sent(boundary, pattern) for boundary in self.boundaries)

    def sent(self, boundary: Boundary, pattern: Pattern) -> Terms:
        """log2 of the words that all instances of the parent send (of outputs: take in), each multicast
        once."""
        saved = self._saved(boundary, pattern)
        return added((1.0, self._without_reuse(boundary)), (-1.0, saved))

    def received(self, boundary: Boundary, pattern: Pattern) -> Terms:
        """log2 of the words that all instances of the child take in (of outputs: send), copies included."""
        v = self._variables
        outside = range(boundary.child + 1, v.depth)
        return added(
            (1.0, self._tile(boundary)),
            (1.0, v.loops(v.layer.sizes, v.at(outside, "x", "y", "temporal"))),
            (-1.0, self._saved(boundary, pattern)),
        )

    def chosen_pattern(self, values: Sequence[int], level: int) -> Pattern | None:
        """The pattern that a solution chose for the loops of ``level``; None if that is not its choice."""
        chosen = self._chosen.get(level)
        return None if chosen is None else self._patterns[[values[index] for index in chosen].index(1)]

    def _tile(self, boundary: Boundary) -> Terms:
        """D (Eq. 7): the words of the child's tile; a MAC takes one."""
        if boundary.child < 0:
            return {}
        v = self._variables
        words = v.words if self._exact_words else v.steps
        return words(boundary.tensor, boundary.child)

    def _saved(self, boundary: Boundary, pattern: Pattern) -> Terms:
        saved: list[Terms] = []
        for level, by_group in self._savings.get(boundary, {}).items():
            # The network's level may have the order of the pattern that this program is solved for. Savings
            # of levels whose order is the program's choice have been tied to that (``_allowing``), and any
            # other level may save all of them.
            given = level == self.network and level not in self._chosen
            free = pattern.free_dims(boundary.tensor.name) if given else self._variables.layer.sizes
            saved += [terms for group, terms in by_group.items() if group.dim in free]
        return summed(saved)

    def _without_reuse(self, boundary: Boundary) -> Terms:
        """The words moved if no loop order saved any: the sum of

        * D (Eq. 7): the words of the child's tile;
        * L (Eq. 8): how many different tiles go to the instances below the parent; copies are multicast;
        * the instances of the parent in use;
        * T (Eq. 9, 10): all temporal loops outside the child, each of which repeats the transfer.
        """
        v, tensor = self._variables, boundary.tensor
        child, parent, every = boundary.child, boundary.parent, v.layer.sizes
        return summed(
            [
                self._tile(boundary),
                v.loops(tensor.dims, v.at(range(child + 1, parent + 1), "x", "y")),
                v.loops(every, v.at(range(parent + 1, v.depth), "x", "y")),
                v.loops(every, v.at(range(child + 1, v.depth), "temporal")),
            ]
        )

    def saved_outermost(self, boundary: Boundary) -> Terms:
        """The logarithm of the outermost level's loops inside which nothing moves the tensor."""
        return summed(self._savings.get(boundary, {}).get(self.dram, {}).values())

    def again(self, boundary: Boundary) -> Terms:
        """Of an output that crosses ``boundary``: log2 of the part of its words that has crossed it before.

        Only for programs that choose the orders of all levels (the surrogate "cost").

        Every word crosses V times, once for each iteration of the loops outside the child that sum and are
        not saved; ``(V - 1) / V`` of that is not the first time. It is no power of V, so a binary for every
        choice of V's primes makes it linear.
        """
        v = self._variables
        outside = v.at(range(boundary.child + 1, v.depth), "temporal")
        savings = self._savings.get(boundary, {}).values()
        counts: dict[PrimeGroup, Terms] = {}
        for group in v.groups:
            if group.dim not in boundary.tensor.dims:
                saved = summed(by_group[group] for by_group in savings if group in by_group)
                counts[group] = added((1.0, v.count(group, outside)), (-1.0 / log2(group.prime), saved))
        return {
            way: log2(1 - 1 / visits) if (visits := prod(bounds.values())) > 1 else NEVER
            for way, bounds in v.choices(counts).items()
        }

    def _saving(self, boundary: Boundary) -> dict[int, dict[PrimeGroup, Terms]]:
        """Level -> irrelevant primes -> the logarithm of their loops there, which the level's order can
        save."""
        first = boundary.child + 1
        levels = {level for level in self._chosen if level >= first}
        # Several tensors kept at the child would each want another order of the level just outside it; for a
        # single one there is an order that leaves all of its irrelevant loops innermost.
        if len(self._keep[boundary.child]) == 1:
            levels.add(first)
        if first <= self.network:
            levels.add(self.network)
        return {level: self._saved_at(boundary, level) for level in sorted(levels)}

    def _saved_at(self, boundary: Boundary, level: int) -> dict[PrimeGroup, Terms]:
        """What ``level`` can save of T (Eq. 9, 10), by primes: loops inside which nothing moves the tensor.

        At the first level outside the child this depends on the level's own order. Further out, the levels in
        between must have no loop that is relevant to the tensor, either. Where the order is a choice of the
        program, savings are tied to the binaries of that choice. Where the user's rules put loops inside the
        one that is saved, those must not be relevant to the tensor.
        """
        v, tensor, first = self._variables, boundary.tensor, boundary.child + 1
        still = [self._no_loop_over(tensor.dims, range(first, level))] if level > first else []
        saved: dict[PrimeGroup, Terms] = {}
        for group in v.groups:
            if group.dim in tensor.dims:
                continue
            chosen = self._chosen.get(level)
            conditions = still if chosen is None else [*still, self._allowing(chosen, tensor, group.dim)]
            if inside := tensor.dims & v.level_rules[level].inside_of(group.dim, v.layer.sizes):
                conditions = [*conditions, self._no_loop_over(inside, range(level, level + 1))]
            here = v.count(group, v.at([level], "temporal"))
            saved[group] = self._saved_if(group, here, conditions)
        return saved

    def _allowing(self, chosen: Sequence[int], tensor: Tensor, dim: str) -> Terms:
        """1 if the pattern that the binaries ``chosen`` stand for saves the loops of ``dim``, else 0."""
        pairs = zip(chosen, self._patterns, strict=True)
        return {binary: 1.0 for binary, pattern in pairs if dim in pattern.free_dims(tensor.name)}

    def _no_loop_over(self, dims: frozenset[str], levels: range) -> Terms:
        """A binary that is 0 if a temporal loop of ``levels`` runs over one of ``dims``."""
        if (dims, levels) not in self._without_loops:
            v = self._variables
            positions = v.at(levels, "temporal")
            looping = summed(v.count(group, positions) for group in v.groups if group.dim in dims)
            none = v.program.variable(1)
            # The constant of the row is as small as it can be, the most that ``looping`` reaches: larger ones
            # would make the linear relaxation, and with it the engine's bounds, weaker.
            most = float(sum(v.program.upper[index] for index in looping))
            v.program.require(added((1.0, looping), (most, {none: 1.0})), high=most)
            self._without_loops[dims, levels] = {none: 1.0}
        return self._without_loops[dims, levels]

    def _saved_if(self, group: PrimeGroup, here: Terms, conditions: Sequence[Terms]) -> Terms:
        """The logarithm of the loops ``here`` of ``group`` where all ``conditions`` are 1, and 0 otherwise.

        A variable below both stands for the product of a count and binaries; the objective pushes it up.
        """
        program = self._variables.program
        if not conditions:
            return added((log2(group.prime), here))
        saved = program.variable(group.count)
        program.require(added((1.0, {saved: 1.0}), (-1.0, here)), high=0)
        for condition in conditions:
            program.require(added((1.0, {saved: 1.0}), (-float(group.count), condition)), high=0)
        return {saved: log2(group.prime)}


def weighted_sum(util: Terms, comp: Terms, traffic: Terms, params: Params) -> EngineGoal:
    """The paper's overall objective (Eq. 12): ``-w_U * Util + w_C * Comp + w_T * Traf``, to be minimised."""
    parts = (
        (-params.utilisation_weight, util),
        (params.compute_weight, comp),
        (params.traffic_weight, traffic),
    )
    return EngineGoal(added(*(part for part in parts if part[0])))


def difference(comp: Terms, traffic: Terms, params: Params) -> EngineGoal:
    """The paper's balance of traffic and compute as it is printed (Eq. 13): ``w_T * Traf - Comp``.

    It is smallest for a mapping that wastes steps. No absolute value stands around it in the paper, so there
    is none here.
    """
    return EngineGoal(added((params.traffic_weight, traffic), (-1.0, comp)))
