"""Best-first search through the classes of loop orders; each class has a geometric program.

Orders are chosen level by level, from the outermost inwards. A node in which some levels have no order yet
has a program, too, whose optimum is at most that of every class it stands for. So it covers them: where its
optimum is above a mapping already found, none of these classes need be solved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import heappop, heappush
from itertools import count

from costmodel.workload.network import Tensor
from solvers.mapping.thistle.convex import cones
from solvers.mapping.thistle.convex.program import ClassProgram
from solvers.mapping.thistle.nest.costs import TilingCosts
from solvers.mapping.thistle.nest.expressions import Order
from solvers.mapping.thistle.nest.orders import HoistWalk, OrderClasses

Orders = tuple[Order | None, ...]
"""Per level, innermost first, the order of its temporal loops; None while it is to be chosen."""


@dataclass(frozen=True, eq=False)
class ClassNode:
    """A class, or all classes that agree in the orders chosen so far, with its program's optimum."""

    program: ClassProgram
    orders: Orders
    relaxed: cones.ClassOptimum
    estimate: float
    """The relaxed objective as the cost model would count it: see :attr:`TilingCosts.first_reads_pj`."""


@dataclass(frozen=True, eq=False)
class Branching:
    """The tree of choices of one tiling: a class of orders for each level, the outermost level's first.

    ``mirrored`` exchanges dims (:func:`mirrored_dims`): of a class and its image only one is searched.
    ``carry_over``: a tensor may stay where it is through loops of several levels, which makes more classes.
    """

    costs: TilingCosts
    carry_over: bool
    mirrored: ReadOnlyDict[str, str]

    @cached_property
    def root(self) -> Orders:
        """The node in which only levels with a single class have an order."""
        orders: list[Order | None] = [None] * len(self.costs.tiling.keep)
        orders[0] = self.costs.tiling.loops_at(0)
        return self._with_forced(tuple(orders))

    def children(self, orders: Orders) -> Iterator[Orders]:
        """``orders`` with one order of each class at the outermost level that has none yet.

        Levels directly inside it that have a single class then get their order, too. Mirror images are left
        out.
        """
        level = self._next_level(orders)
        for order in self._orders(level, orders):
            chosen = self._with_forced((*orders[:level], order, *orders[level + 1 :]))
            if not self._has_twin(chosen):
                yield chosen

    def completed(self, orders: Orders) -> tuple[Order, ...]:
        """``orders`` with the first class's order at every level that has none yet."""
        while None in orders:
            orders = next(self.children(orders))
        return tuple(order for order in orders if order is not None)

    def _next_level(self, orders: Orders) -> int:
        """The outermost level that has no order yet."""
        return max(level for level, order in enumerate(orders) if order is None)

    def _with_forced(self, orders: Orders) -> Orders:
        """``orders`` with the order of each level that has a single class, as far as such levels follow."""
        while None in orders:
            level = self._next_level(orders)
            only = self._orders(level, orders)
            if len(only) > 1:
                break
            orders = (*orders[:level], only[0], *orders[level + 1 :])
        return orders

    def _orders(self, level: int, orders: Orders) -> list[Order]:
        """One order of each class that ``level`` can have inside the orders chosen so far."""
        tiling, classes = self.costs.tiling, self._classes(level)
        loops = tiling.loops_at(level)
        found = classes.of(loops)
        if self.carry_over and level + 1 < len(orders):
            found += classes.with_open(loops, self._hoisting(level, orders))
        rules = tiling.space.level_rules[level]
        asked = (rules.ordered(tuple((dim, 2) for dim in order)) for order in found)
        return list(dict.fromkeys(tuple(dim for dim, _ in order) for order in asked))

    def _hoisting(self, level: int, orders: Orders) -> list[Tensor]:
        """The tensors that would stay through loops further out, too, if this level let them stay."""
        return [tensor for tensor in self._classes(level).tensors if self._is_hoisted(tensor, level, orders)]

    def _is_hoisted(self, tensor: Tensor, level: int, orders: Orders) -> bool:
        """Whether the loops directly outside ``level`` are over dims that the tensor lacks.

        These are the loops through which it could stay, up to the first loop over a dim that it has.
        """
        of_tensor = OrderClasses(self.costs.layer, (tensor,), self.costs.tiling.unseen)
        for order in orders[level + 1 :]:
            (walk,) = of_tensor.walks(order or ())
            if walk.hoisted or walk.ends_here:
                return bool(walk.hoisted)
        return False

    def _classes(self, level: int) -> OrderClasses:
        if level not in self._classes_of_level:
            kept = self.costs.tiling.kept_inside(level)
            tensors = tuple(tensor for tensor in self.costs.layer.tensors if tensor.name in kept)
            self._classes_of_level[level] = OrderClasses(self.costs.layer, tensors, self.costs.tiling.unseen)
        return self._classes_of_level[level]

    @cached_property
    def _classes_of_level(self) -> dict[int, OrderClasses]:
        return {}

    @cached_property
    def _exchanged(self) -> ReadOnlyDict[str, str]:
        """``mirrored`` if the tiling has the mirror image of each of its classes, else nothing."""
        return self.mirrored if self.costs.tiling.is_symmetric(self.mirrored) else {}

    def _has_twin(self, orders: Orders) -> bool:
        """Whether the mirror image of these orders is another class that is searched instead.

        Of a class and its image, the one whose key comes first is searched.
        """
        if not self._exchanged:
            return False
        for level in range(len(orders) - 1, 0, -1):
            order = orders[level]
            if order is None:
                break
            own = self._key(level, order)
            twin = self._key(level, tuple(self._exchanged.get(dim, dim) for dim in order))
            if own != twin:
                return twin < own
        return False

    def _key(self, level: int, order: Order) -> tuple[object, ...]:
        walks = self._classes(level).walks(order)
        return (tuple(sorted(order)), *(_sortable(walk) for walk in walks))


def _sortable(walk: HoistWalk) -> tuple[object, ...]:
    return tuple(sorted(walk.hoisted)), walk.grown, walk.ends_here


@dataclass
class ClassSearch:
    """Solves programs best first: next is always the node of the least estimate.

    ``may_go_on()`` is asked before every program but the first one of each branching: these are solved in any
    case. ``scale``: the rough size of the programs' objectives, which makes the cone solver accurate; an
    optimum that is not within a factor of two of it replaces it.

    An estimate is a program's optimum less what first reads save (:meth:`TilingCosts.estimate`). A level
    without an order counts at most what it would with any. So a node's estimate is at most that of the nodes
    below it, and estimates come out in ascending order: whoever has a mapping as good as the last one may
    stop. They are no bounds on the cost model's objective; the proof has expressions of its own.
    """

    branchings: Sequence[Branching]
    scale: float
    may_go_on: Callable[[], bool]
    programs: int = 0
    """Programs solved so far, those of nodes without all orders among them; one that is solved again with a
    better scale counts once."""
    exhausted: bool = False
    """Whether the program of every class was solved, or is covered by one without an optimum; set once
    :meth:`nodes` has no more to solve."""
    infeasible: int = 0
    """Programs without an optimum, by the word of the solver."""
    closed: set[int] = field(default_factory=set)
    """Branchings, by ``id``, from which no more nodes are wanted."""
    _open: list[tuple[float, int, Branching, ClassNode]] = field(default_factory=list)
    _number: Iterator[int] = field(default_factory=count)

    def nodes(self) -> Iterator[tuple[Branching, ClassNode]]:
        """The classes in the order of their estimates; once the search may not go on, the nodes open then."""
        for branching in self.branchings:
            self._push(branching, branching.root)
        while self._open and self.may_go_on():
            _, _, branching, node = heappop(self._open)
            # Nodes of closed branchings stay in the heap until they come up: removing them would mean a
            # search through it.
            if id(branching) in self.closed:
                continue
            if None not in node.orders:
                yield branching, node
                continue
            for orders in branching.children(node.orders):
                self._push(branching, orders, node)
        # What is still open when time ends is yielded all the same: an optimum of a node without all orders
        # can be rounded, too, with the first class that it stands for.
        self.exhausted = not self._open and not self.closed
        while self._open:
            _, _, branching, node = heappop(self._open)
            if id(branching) not in self.closed:
                yield branching, node

    @property
    def still_open(self) -> list[tuple[Branching, ClassNode]]:
        """The nodes that are in the queue: not yet yielded, solved or with the optimum of their parent."""
        return [(branching, node) for _, _, branching, node in self._open]

    def _push(self, branching: Branching, orders: Orders, parent: ClassNode | None = None) -> None:
        """Solve the program of ``orders`` and put its node into the queue.

        Where no more may be solved, the node takes its parent's optimum, which is no larger than its own.
        """
        if parent is not None and not self.may_go_on():
            self._insert(branching, replace(parent, orders=orders))
            return
        self.programs += 1
        program = branching.costs.program(orders)
        relaxed = cones.solve(program, self.scale)
        if relaxed is not None and not 0.5 < (size := program.magnitude_at(relaxed.x)) / self.scale < 2:
            self.scale = size  # a scale near the optimum makes the solver accurate, here and for what follows
            relaxed = cones.solve(program, self.scale)
        if relaxed is None:
            self.infeasible += 1
        else:
            estimate = branching.costs.estimate(program, relaxed.x)
            self._insert(branching, ClassNode(program, orders, relaxed, estimate))

    def _insert(self, branching: Branching, node: ClassNode) -> None:
        heappush(self._open, (node.estimate, next(self._number), branching, node))
