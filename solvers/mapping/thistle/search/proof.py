"""A lower bound for all mappings of a problem, from geometric programs that never exceed the cost model.

The programs of the search are no bounds: they leave windows whole, count halos as Algorithm 1 does, and count
every partial sum once too often. The programs of this module differ in the points below. For layers each of
whose output axes is a single dim with coefficient 1, their optimum is at most the cost of every mapping.

**Layer.** An axis that sums several dims keeps only its longest one, with coefficient 1
(:func:`least_layer`): a tile has at least that many words along the axis. Loops over the dims left out (a
filter's R and S over the inputs) are not counted for the tensor at all: they are ``unseen``.

**Deliveries.** The claim: ``tile * (seen loops from the first moving one outwards)`` is never above the words
that the cost model counts (item 3 of its rules: a step that moves the tile as the last remembered step did
costs what the overlap leaves, any other moving step costs the whole tile). For a tensor none of whose axes
sums dims, tiles do not overlap, and the claim is what is counted. Otherwise call the first loop that moves
the tile the *mover*, and divide the loops around the tile where the first one moves it along another axis.

* Loops from there outwards. A step of such a loop moves the tile, but not as the mover does. So it costs the
  whole tile, and all of these loops multiply the words.
* Loops inside, G. Those over dims that the tensor lacks and that stand around the mover send the tile back to
  where it began, which costs it whole. By induction over G, with ``W' = b W - (b - 1) (tile - cost)`` for a
  loop of b iterations, the words are at least the product of these loops times what G costs without them.
  That is at least the union of the tile's positions (``costmodel.mapping.bounds.bounds``): as many words as
  G covers of the kept dim, times the tile's other extents.

**Merged dims.** Dims that the same tensors have become one dim. Take loops in any order, and move all loops
of each merged dim to its first one, from the inside. A tensor is then not moved by those merged dims whose
first loop stands inside the first loop that moves it, and by no others: it is delivered no more often.

**Classes.** Every mapping belongs to a class that counts no more than the cost model: list at each level its
loops of more than one iteration first, then the others. Where a level does not move a tensor, take the class
that leaves out the tensor's dims (``OrderClasses.with_open``), or, if no loop further out could let it stay,
the one that lists all dims.

**Multicast.** Instances at different positions along a kept dim need different words, so the different tiles
are at least as many as the product of the spatial loops over kept dims.

**First reads.** An instance makes at most the outputs' words divided by the spatial loops outside it over
dims that the outputs have. So all instances together save at most the words times the number of copies, and
that is at most the chord of :class:`~solvers.mapping.thistle.nest.costs.TilingCosts`.

**The rest.** Accesses rounded up to blocks cost no less. Leakage lasts at least for the compute cycles. A
level takes at least the time for its words without the outputs' reads and fills. Energy times cycles is at
least the product of the bounds on both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Any

from numpy.typing import NDArray

from costmodel.limits import limit_reached
from costmodel.workload.network import Layer, Tensor
from costmodel.workload.projection import Axis
from solvers.mapping.problem import MappingProblem, Objective
from solvers.mapping.space.rules import SpaceRules
from solvers.mapping.space.space import MappingSpace, Slot
from solvers.mapping.space.space_bounds import space_bounds
from solvers.mapping.thistle.convex.certificate import certified
from solvers.mapping.thistle.convex.program import Posynomial
from solvers.mapping.thistle.nest.costs import TilingCosts, Words
from solvers.mapping.thistle.nest.tiling import Keep, Tiling
from solvers.mapping.thistle.nest.volumes import Volumes
from solvers.mapping.thistle.search.class_search import Branching, ClassSearch

Array = NDArray[Any]

MOST_PROGRAMS = 400
"""The most programs to solve for a bound; classes still open then count with the program that covers them."""

MOST_PIECES = 6
"""The most ranges into which the number of copies is split: the chord over a short range is close to it."""


def proven_bound(problem: MappingProblem, keeps: Sequence[Keep], may_go_on: Callable[[], bool]) -> float:
    """A lower bound on every mapping of ``problem`` whose levels keep one of ``keeps``; 0 if none is proven.

    None is proven on a machine with timing, where dims may be padded, for layers with an output axis that is
    not a single dim with coefficient 1, and where a program has no optimum. It holds whenever ``may_go_on``
    ends the search, as choices that are still open then count with the program that covers them.
    """
    # The programs know no timing: their cycles, and the leakage during them, bound no timed ones.
    timed = problem.architecture.timing is not None
    if timed or problem.rules.padding or not _is_covered(problem.layer):
        return 0.0
    everywhere = space_bounds(problem)
    if problem.objective == "cycles":
        return float(ceil(_least(problem, keeps, "cycles", everywhere.cycles, may_go_on)))
    energy_pj = _least(problem, keeps, "energy", everywhere.energy_pj, may_go_on)
    # The product of two lower bounds is one: of a bound on energy, and of the cycles that any mapping takes.
    return energy_pj * everywhere.cycles if problem.objective == "edp" else energy_pj


def _is_covered(layer: Layer) -> bool:
    return all(len(axis) == 1 and axis[0][1] == 1 for axis in layer.output.terms)


def _least(
    problem: MappingProblem,
    keeps: Sequence[Keep],
    objective: Objective,
    scale: float,
    may_go_on: Callable[[], bool],
) -> float:
    """The least certified optimum among the first class found and whatever is then still open."""
    layer, unseen = least_layer(problem.layer)
    space = MappingSpace(problem.architecture, layer, SpaceRules(keep="free"))
    pieces = max(1, MOST_PIECES // len(keeps))
    if objective == "energy" and pieces < MOST_PIECES:
        effect = f"{len(keeps)} choices of what levels keep have {pieces} each, and the proven bound is lower"
        limit_reached("ranges of the number of copies of the outputs", MOST_PIECES, effect)
    costs = (
        each
        for keep in keeps
        for each in _split_by_copies(Volumes(LeastTiling(space, keep, (), unseen)), objective, pieces)
    )
    branchings = [Branching(each, carry_over=True, mirrored={}) for each in costs]

    def may_solve() -> bool:
        if search.programs >= MOST_PROGRAMS:
            limit_reached("programs to solve for a proof", MOST_PROGRAMS, "the proven bound is lower")
            return False
        return may_go_on()

    search = ClassSearch(branchings, scale, may_solve)
    # The search is best first by estimate. When its first class comes out, every other class is below some
    # node that is still open, so the least of these certified optima bounds them all. Solving on would raise
    # the bound only as far as the classes that nobody needs.
    first = next(search.nodes(), None)
    # That a program is infeasible is the solver's word, without a certificate, so nothing is claimed then.
    if first is None or search.infeasible:
        return 0.0
    return min(
        _bound(branching, certified(node.program, node.relaxed))
        for branching, node in (first, *search.still_open)
    )


def _bound(branching: Branching, least: float) -> float:
    costs = branching.costs
    return least - costs.first_reads_pj if costs.objective == "energy" else least


def least_layer(layer: Layer) -> tuple[Layer, frozenset[tuple[str, str]]]:
    """The layer of the bound, and the (tensor, dim) pairs whose loops are not counted: see the module."""
    kept = {
        tensor.name: frozenset(_longest(axis, layer) for axis in tensor.terms) for tensor in layer.tensors
    }
    meanings: dict[tuple[tuple[bool, bool], ...], list[str]] = {}
    for dim, _ in layer.dims:
        meaning = tuple((dim in kept[tensor.name], dim in tensor.dims) for tensor in layer.tensors)
        meanings.setdefault(meaning, []).append(dim)
    merged = {"*".join(dims): dims for dims in meanings.values()}
    sizes = tuple((name, prod(layer.sizes[dim] for dim in dims)) for name, dims in merged.items())
    tensors = tuple(
        Tensor.of_terms(one.name, _axes(merged, kept[one.name]), one.role) for one in layer.tensors
    )
    unseen = frozenset(
        (tensor.name, name)
        for tensor in layer.tensors
        for name, dims in merged.items()
        if set(dims) & (tensor.dims - kept[tensor.name])
    )
    return replace(layer, dims=sizes, tensors=tensors), unseen


def _axes(merged: dict[str, list[str]], kept: frozenset[str]) -> Iterator[Axis]:
    return (((name, 1),) for name, dims in merged.items() if set(dims) & kept)


def _longest(axis: Axis, layer: Layer) -> str:
    return max(axis, key=lambda term: layer.sizes[term[0]])[0]


class LeastTiling(Tiling):
    """The trip counts of merged dims: they may stand on both sides of a fan-out."""

    def _most(self, slot: Slot, index: int) -> int:
        size = self.layer.dims[index][1]
        return min(size, self.space.architecture.levels[slot.level].fanout) if slot.spatial else size


@dataclass(frozen=True, eq=False)
class LeastCosts(TilingCosts):
    """Costs that never exceed the cost model's, for mappings with ``copies`` of the outputs.

    ``copies`` is the range of their number (its logarithm) at the innermost level that keeps the outputs.
    Transfers leave out what first reads of outputs may save.
    """

    copies: tuple[float, float]

    def _copies_range(self, level: int) -> tuple[float, float]:
        return self.copies if level == self._innermost else super()._copies_range(level)

    def _limits(self) -> Iterator[tuple[Array, float]]:
        yield from super()._limits()
        copying = self._copying(self._innermost)
        if copying.any():
            yield copying, self.copies[1]
            yield -copying, -self.copies[0]

    def _moved(self, words: Sequence[Words]) -> tuple[list[Posynomial], list[Posynomial]]:
        reads = [w.sent for w in words if not w.tensor.is_output]
        fills = [w.filled for w in words if w.filled and not w.tensor.is_output]
        return reads, fills + [w.sent for w in words if w.tensor.is_output]


def _split_by_copies(volumes: Volumes, objective: Objective, pieces: int) -> Iterator[LeastCosts]:
    """The costs of mappings with few copies of the outputs, with more, ... each with its own chord."""
    most = TilingCosts(volumes, objective).most_copies
    parts = pieces if objective == "energy" and most > 0 else 1
    for part in range(parts):
        yield LeastCosts(volumes, objective, (most * part / parts, most * (part + 1) / parts))
