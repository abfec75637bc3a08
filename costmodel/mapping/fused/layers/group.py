"""A group of layers on one architecture, and the tensors that pass between them.

Layers of a group keep their own dims. A loop that several of them share needs a name of its own, and the
group gives it (:attr:`LayerGroup.loops`): where attention multiplies queries by keys (rows M, columns N) and
the scores by values (rows M, sum over K), one loop over rows cuts M of both layers, and one over keys N of
the first and K of the second. A convolution after another one does not cut the same dim, but slides along it
(:attr:`LayerGroup.slides`).
"""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from costmodel.errors import InputError
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.fused.mapping import FusedMapping
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Layer
from costmodel.workload.windows import Windows

WHERE = "fused layers"

LayerDim = tuple[int, str]
"""A dim of a layer, by the layer's number in the group."""


@dataclass(frozen=True)
class SlidingRead:
    """An axis of an intermediate along which a reader's windows slide, as those of a convolution do.

    ``made``: the dim of the producer whose points are the rows of the axis. ``used``: the dim of the reader
    whose point i, an output row, reads window i of ``windows``: rows that the producer makes, and padding.
    A window has all rows from its first to its last one, also those that a dilation passes over.

    ``pools``: poolings on the way, the producer's first. Rows that the reader's windows are over are then
    results of the last one, each of which is of a window of the rows before. The whole of a producer's output
    is held as it is made, and pooled whenever it is read.
    """

    made: str
    used: str
    windows: Windows
    pools: tuple[Windows, ...] = ()

    def needed(self, points: int, rows: int) -> int:
        """How many of the producer's ``rows`` rows must be there for the reader's first so many points."""
        if not points:
            return 0
        # from the reader backwards: as many results of a pooling as its reader needs, at most all
        for windows, length in zip(self._backwards, self._lengths(rows), strict=True):
            points = min(length, (points - 1) * windows.stride + windows.size - windows.before)
        return points

    def begins(self, point: int) -> int:
        """The first row that the reader's point reads, padding apart."""
        for windows in self._backwards:
            point = max(0, point * windows.stride - windows.before)
        return point

    @property
    def _backwards(self) -> tuple[Windows, ...]:
        """All windows on the way, the reader's first."""
        return (self.windows, *reversed(self.pools))

    def _lengths(self, rows: int) -> tuple[int, ...]:
        """How many rows each of them is over; the producer makes ``rows``."""
        return (*(pool.count for pool in reversed(self.pools)), rows)

    def reaches(self, rows: int) -> bool:
        """Whether every window, the first and the last one too, has a row that is no padding."""
        return all(
            0 <= one.before < one.size and one.extent - one.size - one.before < length
            for one, length in zip(self._backwards, self._lengths(rows), strict=True)
        )


@dataclass(frozen=True)
class IntermediateRead:
    """The operand ``tensor`` of a later layer, made of an intermediate.

    ``layer``: the reader's number in the group. ``dims``: pairs of a dim of the producer and one of the
    reader that run along the same axis, so that one loop can cut both. An axis that is normalised in between,
    or that windows slide along, is not among them. ``windows``: the axes along which windows slide.
    """

    layer: int
    tensor: str
    dims: tuple[tuple[str, str], ...] = ()
    windows: tuple[SlidingRead, ...] = ()


@dataclass(frozen=True)
class Intermediate:
    """The output of the layer ``producer``, and every layer of the group that reads it.

    ``producer``: its number in the group. ``leaves``: whether it is read outside the group, too, so that it
    has to go to the outermost memory. An operand that is made of two intermediates, as after a residual
    addition, is a read of both.
    """

    producer: int
    reads: tuple[IntermediateRead, ...]
    leaves: bool = False

    @property
    def last(self) -> int:
        """The number of the last layer that reads it."""
        return max(read.layer for read in self.reads)


@dataclass(frozen=True)
class LayerGroup:
    """Layers that are mapped together, in the order in which they run.

    ``alike``: pairs of dims of different layers that index the same axis of an operand which both read, such
    as the rows of the text from which queries and keys are made. ``names``: of a part of a larger group, the
    names that loops have there, as :attr:`loops` has them; None: they are made here.

    Raises InputError for layers of one name; for reads of layers that do not run before; for dims of a read
    that are no axes of their own or of different lengths, and windows that are not the reader's; and for an
    architecture with timing or with a precision, for which parts of layers in turn are not counted.
    """

    architecture: Architecture
    layers: tuple[Layer, ...]
    intermediates: tuple[Intermediate, ...]
    alike: tuple[tuple[LayerDim, LayerDim], ...] = ()
    names: tuple[dict[str, str], ...] | None = None

    def __post_init__(self) -> None:
        names = [layer.name for layer in self.layers]
        if not names or len(set(names)) < len(names):
            raise InputError(WHERE, "layers of different names", names, key="layers")
        if self.architecture.timing is not None:
            raise InputError(
                WHERE,
                "an architecture without timing, whose cycles follow from MACs and bandwidths",
                self.architecture.name,
                "What parts of layers that take turns cost in timed cycles is not counted",
                key="architecture",
            )
        if self.architecture.precision is not None:
            raise InputError(
                WHERE,
                "an architecture without a precision: held tensors and hoisted tiles are counted in words",
                self.architecture.name,
                "Leave precision out",
                key="architecture",
            )
        for intermediate in self.intermediates:
            for read in intermediate.reads:
                self._check_read(intermediate.producer, read)

    def _check_read(self, producer: int, read: IntermediateRead) -> None:
        if not producer < read.layer < len(self.layers):
            found = [self.layers[producer].name, read.layer]
            raise InputError(WHERE, "every layer after those whose outputs it reads", found, key="layers")
        maker, reader = self.layers[producer], self.layers[read.layer]
        operand = reader.tensor(read.tensor)
        for made, used in read.dims:
            if maker.sizes.get(made) == reader.sizes.get(used) == 1:
                continue
            apart = all(
                any(axis == ((dim, 1),) for axis in _looping_axes(layer, tensor.terms))
                for dim, layer, tensor in ((made, maker, maker.output), (used, reader, operand))
            )
            if not apart or maker.sizes[made] != reader.sizes[used]:
                expected = "two dims of one length, each an axis of its own"
                found_dims = f"{maker.name}.{made} and {reader.name}.{used}"
                raise InputError(WHERE, expected, found_dims, key="dims")
        for sliding in read.windows:
            _check_windows(maker, reader, read.tensor, sliding)

    @cached_property
    def loops(self) -> tuple[dict[str, str], ...]:
        """By layer and dim, the name of the shared loop over it.

        Dims that one loop can cut have the same name. Two links between dims are left out. One would give a
        layer two dims of one name, as queries and keys of one text do. The other would give the rows of an
        intermediate the name of the windows that slide along them, as a residual addition around a
        convolution does. Names are those of dims; further loops over dims of the same name get a number: M,
        M2.
        """
        if self.names is not None:
            return self.names
        # Every dim of every layer begins in a set of its own, and each link joins the sets of its two dims.
        # ``apart``: pairs whose sets must not be joined, as windows slide between them.
        members: list[set[LayerDim]] = [{(i, dim)} for i, one in enumerate(self.layers) for dim in one.sizes]
        at = {next(iter(one)): one for one in members}
        apart = [
            ((one.producer, sliding.made), (read.layer, sliding.used))
            for one in self.intermediates
            for read in one.reads
            for sliding in read.windows
        ]
        links = [*self._linked(), *self.alike]
        if apart:  # loops are shared by neighbours, so of links that exclude one another the nearest count
            links.sort(key=lambda link: link[1][0] - link[0][0])
        for one, other in links:
            mine, theirs = at[one], at[other]
            if mine is theirs or {layer for layer, _ in mine} & {layer for layer, _ in theirs}:
                continue
            if any({id(at[made]), id(at[used])} == {id(mine), id(theirs)} for made, used in apart):
                continue
            mine |= theirs
            at |= dict.fromkeys(theirs, mine)
        named: dict[int, str] = {}
        found: list[dict[str, str]] = [{} for _ in self.layers]
        for position, layer in enumerate(self.layers):
            for dim in layer.sizes:
                key = id(at[position, dim])
                if key not in named:
                    taken = set(named.values())
                    numbered = (dim if n == 1 else f"{dim}{n}" for n in range(1, len(members) + 2))
                    named[key] = next(name for name in numbered if name not in taken)
                found[position][dim] = named[key]
        return tuple(found)

    def _linked(self) -> list[tuple[LayerDim, LayerDim]]:
        return [
            ((one.producer, made), (read.layer, used))
            for one in self.intermediates
            for read in one.reads
            for made, used in read.dims
        ]

    @cached_property
    def dim_of(self) -> tuple[dict[str, str], ...]:
        """By layer, its own dim by the name of the shared loop."""
        return tuple({name: dim for dim, name in loops.items()} for loops in self.loops)

    @cached_property
    def cutting(self) -> ReadOnlyDict[tuple[int, int], frozenset[str]]:
        """For every producer and reader, the names of loops that cut both alike, in all reads of the pair."""
        found: dict[tuple[int, int], frozenset[str]] = {}
        for one in self.intermediates:
            for read in one.reads:
                names = frozenset(
                    self.loops[one.producer][made]
                    for made, used in read.dims
                    if self.loops[one.producer][made] == self.loops[read.layer][used]
                )
                pair = one.producer, read.layer
                found[pair] = names & found.get(pair, names)
        return found

    @cached_property
    def slides(self) -> tuple[dict[str, str], ...]:
        """By layer, the names of loops that slide along a dim of it, each with that dim.

        They are loops of later layers whose windows read this layer's rows. A loop over the rows of the last
        layer of a chain of convolutions slides along the rows of all layers before it.
        """
        # Later producers first: what slides along the reader's rows slides along the rows that these are made
        # of.
        found: list[dict[str, str]] = [{} for _ in self.layers]
        for one in sorted(self.intermediates, key=lambda one: -one.producer):
            own, mine = self.dim_of[one.producer], found[one.producer]
            for read in one.reads:
                for made, used in read.dims:
                    for name, dim in found[read.layer].items():
                        if dim == used and name not in own:
                            mine.setdefault(name, made)
                for sliding in read.windows:
                    for name in self.followed(read.layer, sliding.used, found):
                        if name not in own:
                            mine.setdefault(name, sliding.made)
        return tuple(found)

    def followed(
        self, position: int, dim: str, slides: Sequence[dict[str, str]] | None = None
    ) -> tuple[str, ...]:
        """The names of the loops that cut a layer's dim, or slide along it.

        ``slides``: as far as it is known while :attr:`slides` is being made.
        """
        along = (self.slides if slides is None else slides)[position]
        return self.loops[position][dim], *(name for name, slid in along.items() if slid == dim)

    @cached_property
    def loop_sizes(self) -> dict[str, int]:
        """By name of a shared loop, the length of the dims that it cuts."""
        return {
            name: layer.sizes[dim]
            for layer, loops in zip(self.layers, self.loops, strict=True)
            for dim, name in loops.items()
        }

    def dim_under(self, position: int, name: str) -> str | None:
        """The own dim of a layer that a loop of this name cuts or slides along; None for other loops."""
        return self.dim_of[position].get(name) or self.slides[position].get(name)

    @property
    def outermost(self) -> int:
        """The number of the memory that holds every tensor."""
        return len(self.architecture.levels) - 1

    @cached_property
    def holding(self) -> tuple[int, ...]:
        """Levels of the chip of which there is one instance, innermost first.

        Only these can keep a tensor while several layers run.
        """
        return tuple(level for level in range(self.outermost) if self.architecture.instances[level] == 1)

    @cached_property
    def made(self) -> dict[str, Intermediate]:
        """The intermediates by their producers' names."""
        return {self.layers[one.producer].name: one for one in self.intermediates}

    def sources(self, position: int, tensor: str) -> list[Intermediate]:
        """The intermediates that a layer's tensor is, or is made of."""
        if tensor == self.layers[position].output.name:
            return [one for one in self.intermediates if one.producer == position]
        return [
            one
            for one in self.intermediates
            if any(read.layer == position and read.tensor == tensor for read in one.reads)
        ]


@dataclass(frozen=True)
class GroupMapping:
    """How a group runs: ``shared``, the tree of loops, and ``nests``, each layer's mapping below them.

    ``shared`` has no own loops. Its ``backing`` is by the name of the producing layer, ``hoist`` by the names
    of layer and tensor. A nest maps the part of its layer that one iteration of the shared loops leaves.

    A nest keeps a backed or hoisted tensor at the level that holds it, with a tile as large as the whole
    part, at no level between, and (as every mapping) at the outermost one. The words between those two are
    not counted with the nest: other layers brought them, or a hoisted tile did once for many turns.

    Under a loop that slides along a layer's rows, or over a dim that it sums, its turns are of several kinds:
    ``nests`` has the nest of the first one, ``others`` by the layer's name those of the others, in the order
    of :attr:`~costmodel.mapping.fused.layers.turns.LayerTurns.kinds`.
    """

    shared: FusedMapping
    nests: tuple[Mapping, ...]
    others: ReadOnlyDict[str, tuple[Mapping, ...]] = field(default_factory=dict)

    def turn_nests(self, layers: Sequence[Layer]) -> tuple[tuple[Mapping, ...], ...]:
        """By layer of the group the nests of all kinds of its turns."""
        return tuple(
            (nest, *self.others.get(layer.name, ())) for layer, nest in zip(layers, self.nests, strict=True)
        )


def _check_windows(maker: Layer, reader: Layer, tensor: str, sliding: SlidingRead) -> None:
    """InputError unless the windows are those of the reader's operand, over rows of the producer's output."""
    windows, where = sliding.windows, f"{maker.name}.{sliding.made} and {reader.name}.{sliding.used}"
    made = next((dict(axis) for axis in maker.output.terms if sliding.made in dict(axis)), {})
    read = next((dict(axis) for axis in reader.tensor(tensor).terms if sliding.used in dict(axis)), {})
    others = [dim for dim in made if dim != sliding.made and maker.sizes[dim] > 1]
    if made.get(sliding.made) != 1 or others or sliding.used not in read:
        expected = "a dim that is an axis of its own, and one whose windows slide along it"
        raise InputError(WHERE, expected, where, key="windows")
    stride = read.pop(sliding.used)
    size = 1 + sum(times * (reader.sizes[dim] - 1) for dim, times in read.items())
    if (windows.count, windows.size, windows.stride) != (reader.sizes[sliding.used], size, stride):
        expected = f"{reader.sizes[sliding.used]} windows of {size} every {stride}"
        raise InputError(WHERE, expected, f"{windows} for {where}", key="windows")
    rows = maker.sizes[sliding.made]
    if not sliding.reaches(rows):
        expected = f"windows that each begin less than their size before one of {rows} rows"
        raise InputError(WHERE, expected, f"{sliding} for {where}", key="windows")


def _looping_axes(layer: Layer, terms: tuple[tuple[tuple[str, int], ...], ...]) -> list[object]:
    """The axes of a tensor, without the dims of length 1, which move nothing."""
    return [tuple((dim, times) for dim, times in axis if layer.sizes[dim] > 1) for axis in terms]
