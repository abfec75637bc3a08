"""The cycles of an architecture with ``timing:``, written in the variables of CoSA's program.

The cost model runs a layer on such a machine in steps, one for each iteration of the outermost level's
temporal loops, and counts what array A, loads L, stores S and issue I take over all steps
(:mod:`costmodel.mapping.timing`). Each of these is a sum of products, with a factor for every dim that
depends only on how many tiles the layer has along it:

    cycles of a component = sum over its causes of  whole * product over dims of  ratio[dim][tiles along it]

``whole`` is what the cause takes where the whole layer is one tile. The ratios are the cost model's own
counts of a layer that is cut along one dim, over ``whole``. A binary for each number of tiles along a dim
makes the logarithm of a cause linear (:meth:`.Variables.choices`), so that every cause is a power.

How the components overlap is a maximum of sums of them, here the *paces*. With n steps, two in flight and the
slowest component X, a layer takes X, and one mean step of all others, which nothing hides:

    pace of X = X + (A + L + S + I - X) / n

Where steps keep their half of the buffers until they have stored, two that store and follow each other are
half of L + E + S apart, in cycles of one step. With V - 1 steps in between that do not store, these hide all
but S and what loading and computing differ by. The factors ``1 - 1/V`` are no powers of V, and get a binary
for each V.

It is close to what the cost model counts, and differs in these points:

* Lines that caches miss, and rows that the machine joins, are no products over the dims. They are counted as
  if they were.
* ``ahead``, by which the parts of a whole step may overlap, is not subtracted.
* Tiles of matrix products are rounded up where the machine does so, but not the loops in which tensors stay.
* Where steps that add to the same outputs do not follow each other, they count as if they did.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import log2, prod

from costmodel.hardware.architecture import ALL_ROLES, Architecture
from costmodel.hardware.timing import Timing
from costmodel.mapping.mapping import Loop
from costmodel.mapping.timing.counts import step_counts
from costmodel.mapping.timing.cycles import cycles_of
from costmodel.mapping.timing.walk import Walk, has_inner_steps, is_product, rounded
from costmodel.workload.network import Layer
from solvers.mapping.cosa.linear import NEVER, Power, Terms, added
from solvers.mapping.cosa.variables import FactorPosition, Variables

PARTIAL_SUMS = "partial sums"
"""The cause that outputs come in again, before more is added to them."""


@dataclass(frozen=True)
class _Components:
    """The causes of each component's cycles, of all steps.

    ``load`` and ``store`` leave out the lines that caches miss; ``loads`` and ``stores`` have them.
    """

    array: tuple[Power, ...]
    load: tuple[Power, ...]
    store: tuple[Power, ...]
    read_misses: tuple[Power, ...]
    write_misses: tuple[Power, ...]
    issue: tuple[Power, ...]

    @property
    def loads(self) -> tuple[Power, ...]:
        return self.load + self.read_misses

    @property
    def stores(self) -> tuple[Power, ...]:
        return self.store + self.write_misses


@dataclass(frozen=True, eq=False)
class TimedCosts:
    """The paces of a layer on an architecture with timing, over the variables of one program.

    ``inner``: the sums of powers that the levels inside the steps ask for by their bandwidths, and the MACs
    where the timing describes no array. ``saved``: by tensor the logarithm of the steps' loops that move
    nothing of it, because its tile stays. ``again``: that of the part of an output's visits that are not the
    first.
    """

    architecture: Architecture
    variables: Variables
    inner: tuple[tuple[Power, ...], ...]
    saved: dict[str, Terms]
    again: Terms
    _known: dict[tuple[Loop, ...], dict[str, float]] = field(default_factory=dict)

    @staticmethod
    def counts(architecture: Architecture) -> bool:
        """Whether these are an architecture's cycles: steps of the outermost level, no array of PEs."""
        timing = architecture.timing
        return timing is not None and timing.processing is None and not has_inner_steps(architecture)

    @property
    def _timing(self) -> Timing:
        assert self.architecture.timing is not None
        return self.architecture.timing

    @property
    def _layer(self) -> Layer:
        return self.variables.layer

    @cached_property
    def paces(self) -> tuple[tuple[Power, ...], ...]:
        """The sums of powers whose largest is the layer's cycles."""
        found: list[tuple[Power, ...]] = []
        for array in (self._array, *self.inner):
            found += self._paces(replace(self._components, array=array))
        without_zeros = (tuple(power for power in pace if power.factor) for pace in found)
        return tuple(pace for pace in without_zeros if pace)

    def _paces(self, of: _Components) -> Iterator[tuple[Power, ...]]:
        """The pace of every component, and that of waiting for a free half of the buffers."""
        if self._timing.steps_in_flight == 1:
            yield of.array + of.loads + of.stores + of.issue
            return
        for alone, others in (
            (of.array, of.loads + of.stores + of.issue),
            (of.loads, of.array + of.stores + of.issue),
            (of.stores, of.array + of.loads + of.issue),
            (of.issue, of.array + of.loads + of.stores),
            (of.read_misses + of.write_misses, of.array + of.load + of.store + of.issue),
        ):
            yield alone + self._a_step(others)
        if self._timing.has_whole_steps(product=is_product(self._layer)):
            yield from self._whole_steps(of)

    def _whole_steps(self, of: _Components) -> Iterator[tuple[Power, ...]]:
        """``W + (A + L + S + I - W) / n``, where W is the time by which buffers are free again."""
        in_turn = of.array + of.loads + of.stores
        yield (*_times(in_turn, 0.5), *self._a_step(_times(in_turn, 0.5)), *self._a_step(of.issue))
        every, some = self._in_between
        for longer, shorter in ((of.array, of.loads), (of.loads, of.array)):
            yield (
                *of.stores,
                *_times(longer, 1.0, some),
                *_times(shorter, 1.0, every),
                *self._a_step(_times(longer, 1.0, every)),
                *self._a_step(_times(shorter, 1.0, some)),
                *self._a_step(of.issue),
            )

    @cached_property
    def _in_between(self) -> tuple[Terms, Terms]:
        """The logarithms of ``1/V`` and ``1 - 1/V``, where every V-th step stores; NEVER where V is 1: then
        steps that store follow each other."""
        v = self.variables
        summed_groups = [g for g in v.groups if g.dim in self._layer.summed]
        ways = v.choices({group: v.count(group, self._steps_at) for group in summed_groups})
        walks = {way: self._walk(tuple(bounds.items())) for way, bounds in ways.items()}
        visits = {way: prod(map(walk.tiles_along, self._layer.summed)) for way, walk in walks.items()}
        return (
            {way: -log2(V) if V > 1 else NEVER for way, V in visits.items()},
            {way: log2(1 - 1 / V) if V > 1 else NEVER for way, V in visits.items()},
        )

    def _a_step(self, powers: Iterable[Power]) -> tuple[Power, ...]:
        """What powers over all steps are in the mean of one step."""
        return _times(powers, 1.0 / self._steps.factor, added((-1.0, self._steps.exponent)))

    @cached_property
    def _steps(self) -> Power:
        return self._power("steps")

    @cached_property
    def _array(self) -> tuple[Power, ...]:
        return (self._power("passes"), self._power("waiting"))

    @cached_property
    def _components(self) -> _Components:
        timing, layer = self._timing, self._layer
        load, store = [self._power("clearing")], []
        for tensor in layer.tensors:
            if tensor.name not in self._asked(()):
                continue  # the timing does not describe transfers in this direction
            moved = self._power(tensor.name)
            if not tensor.is_output:
                stays = {} if tensor.role in timing.reloads else added((-1.0, self.saved[tensor.name]))
                load.append(moved.times(1.0, stays))
            else:
                store.append(moved if timing.keeps_partial_sums else moved.times(1.0, self._visits))
        if PARTIAL_SUMS in self._asked(()):
            back = added((1.0, self._visits), (1.0, self.again))
            load.append(self._power(PARTIAL_SUMS).times(1.0, back))
        issue = timing.issue_of(product=is_product(layer))
        return _Components(
            self._array,
            tuple(load),
            tuple(store),
            (self._power("read misses"),),
            (self._power("write misses"),),
            (self._steps.times(issue),),
        )

    @property
    def _visits(self) -> Terms:
        """The logarithm of how often the steps come back to each tile of the output."""
        loops = self.variables.loops(self._layer.summed, self._steps_at)
        return added((1.0, loops), (-1.0, self.saved[self._layer.output.name]))

    @property
    def _steps_at(self) -> list[FactorPosition]:
        return self.variables.at([self.variables.depth - 1], "temporal")

    @cached_property
    def _ways(self) -> list[dict[int, dict[str, int]]]:
        """Of each set of dims that share an axis: a binary for each way to cut the layer along them."""
        v = self.variables
        return [
            v.choices({g: v.count(g, self._steps_at) for g in v.groups if g.dim in dims})
            for dims in _sharing_axes(self._layer)
        ]

    def _power(self, cause: str) -> Power:
        """What a cause takes, as a product of a number and of ratios, one for each set of dims."""
        reference = self._reference(cause)
        whole = self._asked(reference)[cause]
        if not whole:
            return Power(0.0, {})
        exponent: Terms = {}
        for dims, ways in zip(_sharing_axes(self._layer), self._ways, strict=True):
            others = tuple((dim, bound) for dim, bound in reference if dim not in dims)
            for way, bounds in ways.items():
                asked = self._asked((*others, *bounds.items()))[cause]
                exponent[way] = log2(asked / whole) if asked else NEVER
        return Power(whole, exponent)

    def _reference(self, cause: str) -> tuple[Loop, ...]:
        """The whole layer as one tile, or if that does without the cause, a cut along one set of dims that
        asks for it."""
        cuts = ((), *(tuple(bounds.items()) for ways in self._ways for bounds in ways.values()))
        return next((cut for cut in cuts if self._asked(cut)[cause]), ())

    def _walk(self, cut: tuple[Loop, ...]) -> Walk:
        """The layer cut into so many tiles along some dims, whose tiles the machine may round up."""
        sizes, loops = self._layer.sizes, tuple((dim, bound) for dim, bound in cut if bound > 1)
        tile = sizes | {dim: sizes[dim] // bound for dim, bound in loops}
        return rounded(self._timing, self._layer, tile, loops)

    def _asked(self, cut: tuple[Loop, ...]) -> dict[str, float]:
        """By cause its cycles, and how many steps there are, where the layer is cut into so many tiles along
        some dims."""
        if cut not in self._known:
            self._known[cut] = dict(self._counted(self._walk(cut)))
        return self._known[cut]

    def _counted(self, walk: Walk) -> Iterator[tuple[str, float]]:
        """What a walk takes by cause, all steps together: of transfers by the name of the tensor.

        Operands move in every step, and outputs once: how often they do depends on the order of the loops,
        which the program knows (``saved``).
        """
        timing = replace(self._timing, reloads=ALL_ROLES, keeps_partial_sums=True)
        counts = step_counts(self.architecture, timing, walk)
        no_misses = (0.0,) * len(timing.caches)
        nothing = replace(
            counts, loads=(), stores=(), cleared_rows=0.0, read_misses=no_misses, write_misses=no_misses
        )
        yield "steps", float(counts.steps)
        at_once = timing
        if timing.array is not None:
            at_once = replace(timing, array=replace(timing.array, least_last_pass_cycles=0.0))
        passes = cycles_of(at_once, nothing).array
        yield "passes", passes
        yield "waiting", cycles_of(timing, nothing).array - passes
        operands = [tensor for tensor in self._layer.tensors if not tensor.is_output]
        if timing.load is not None:
            for tensor, moved in zip(operands, counts.loads, strict=True):
                yield tensor.name, cycles_of(timing, replace(nothing, loads=(moved,))).load.cycles
            if not self._timing.keeps_partial_sums:
                # Outputs that come in move as they would out through the port that loads.
                loading = replace(timing, store=timing.load)
                sums = step_counts(self.architecture, loading, walk).stores
                yield PARTIAL_SUMS, cycles_of(loading, replace(nothing, stores=sums)).store.cycles
        yield "clearing", cycles_of(timing, replace(nothing, cleared_rows=counts.cleared_rows)).load.cycles
        if timing.store is not None:
            yield (
                self._layer.output.name,
                cycles_of(timing, replace(nothing, stores=counts.stores)).store.cycles,
            )
        missed = step_counts(self.architecture, self._timing, walk)
        yield "read misses", cycles_of(timing, replace(nothing, read_misses=missed.read_misses)).load.cycles
        yield (
            "write misses",
            cycles_of(timing, replace(nothing, write_misses=missed.write_misses)).store.cycles,
        )


def _times(powers: Iterable[Power], factor: float, exponent: Terms | None = None) -> tuple[Power, ...]:
    return tuple(power.times(factor, exponent) for power in powers)


def _sharing_axes(layer: Layer) -> list[frozenset[str]]:
    """The dims in sets: two that index the same axis of a tensor, as the rows of an image and of its filter
    do, are in one."""
    sets = [frozenset([dim]) for dim, _ in layer.dims]
    for axis in (axis for tensor in layer.tensors for axis in tensor.axes):
        sharing = frozenset(step.dim for step in axis.steps)
        together = [one for one in sets if one & sharing]
        sets = [one for one in sets if not one & sharing]
        sets += [frozenset().union(*together)] if together else []
    return sets
