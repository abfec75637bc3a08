"""What a group of layers costs a chip whose tiles each compute a part of it by one fused mapping.

All tiles do the same at the same time: every turn of the fused mapping of their part. What happens within a
tile in a turn is counted by :func:`costmodel.mapping.fused.layers.evaluate.kind_cost`, as for any fused
group; words from and to DRAM go over the mesh as those of a layer on the whole chip
(:mod:`costmodel.schedule.whole_chip.cost`): tiles that need the same words get them in one tree, and partial
sums of the same outputs are added on their way. A turn takes as long as the slowest of a tile, DRAM and the
busiest link.

On a chip of one tile this is what ``evaluate_group`` says of the group on the stack of its levels. With
several tiles the first data come before the first turn, and the last outputs leave behind the last one; both
are added. Vector layers between products work on intermediates in the tile's buffer, after each turn that
makes some of them: they read each operand there and write each result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import ceil, prod
from typing import Protocol

import numpy as np

from costmodel.errors import InputError
from costmodel.hardware.chip import Chip
from costmodel.hardware.whole_chip import tile_stack
from costmodel.mapping.counts.energy import access_energy_pj
from costmodel.mapping.counts.latency import bandwidth_cycles
from costmodel.mapping.counts.traffic import Counts
from costmodel.mapping.evaluate import Evaluation
from costmodel.mapping.fused.layers.evaluate import evaluate_group, kind_cost
from costmodel.mapping.fused.layers.group import GroupMapping
from costmodel.mapping.fused.layers.text import group_text
from costmodel.mapping.fused.layers.turns import LayerTurns, turns_of
from costmodel.mapping.mapping import Mapping
from costmodel.schedule.fused_groups.cuts import CutGroup, GroupCut
from costmodel.schedule.fused_groups.members import ChipGroup
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.mesh.deliveries import Delivery, link_loads
from costmodel.schedule.mesh.tile_groups import Moved, Sides, deliveries_of, tile_groups
from costmodel.schedule.whole_chip.cost import WholeChipCost
from costmodel.workload.network import Layer

Parts = tuple[float, float, float, float]
"""Energy in pJ within tiles, of transfers into their buffers, on links, in DRAM."""


@dataclass(frozen=True)
class GroupLayerCost:
    """What the layer of this name costs in all its turns; ``tile_cycles``: of tiles that compute."""

    layer: str
    parts_pj: Parts
    cycles: int
    tile_cycles: int
    dram_read_bits: int = 0
    dram_write_bits: int = 0


@dataclass(frozen=True)
class FusedGroupCost:
    """What a batch of a group of layers costs as one leaf of a schedule.

    ``whole``: of all layers together; its ``mapping`` is the tree of the part of each tile, as text.
    ``layers``: of each layer, in the order of the network. What comes before the first turn and leaves behind
    the last one is in the cycles of the first and of the last product. All that is the cost of ``group``,
    divided by ``cut`` among tiles, each of which runs its part by ``nests``.
    """

    whole: WholeChipCost
    layers: tuple[GroupLayerCost, ...]
    group: ChipGroup
    cut: GroupCut
    nests: GroupMapping


class GroupCosts(Protocol):
    """A source of costs of groups that segments of one network may be, on one chip."""

    @property
    def groups(self) -> frozenset[frozenset[str]]:
        """All groups that may have a cost, by the names of their layers."""
        ...

    def cost(self, names: frozenset[str], batch: int) -> FusedGroupCost | None:
        """What ``batch`` samples of these layers cost together; None where they are no group."""
        ...


def fused_group_cost(
    chip: Chip, graph: LayerGraph, group: ChipGroup, cut: GroupCut, mapping: GroupMapping
) -> FusedGroupCost:
    """The cost of ``mapping``, which maps the part that ``cut`` leaves each tile of ``group``.

    Raises InputError for tiles without an architecture, for a cut that the mesh has no tiles for, for a nest
    that leaves out the innermost level that can keep a tensor, which bounds rest on, for layers that divide a
    tile's array, and where a vector layer works on what does not stay on the chip; ValueError for a mapping
    that has violations.
    """
    stack = tile_stack(chip)
    if stack is None:
        raise InputError("tile", "an architecture to map layers on", "none", key="architecture")
    if mapping.shared.pipelines:
        expected = "layers that run one after the other on the array of a tile"
        raise InputError("fused group", expected, "stages of a pipeline", key="pipelines")
    cut_group = CutGroup(replace(group.group, architecture=stack), cut)
    peak = evaluate_group(cut_group.part, mapping).peak
    for layer, nests in zip(cut_group.part.layers, mapping.turn_nests(cut_group.part.layers), strict=True):
        innermost = {tensor.name: stack.innermost_keeping(tensor) for tensor in layer.tensors}
        if not all(name in nest.levels[at].keep for nest in nests for name, at in innermost.items()):
            expected = "nests that keep each tensor in the innermost level that can"
            raise InputError("fused group", expected, layer.name, key="keep")
    if (outside := works_outside(group, mapping)) is not None:
        expected = f"operands of {graph.layers[outside].name} that stay on the chip"
        raise InputError("fused group", expected, "one in DRAM", key="backing")
    ways = [
        _Counted(chip, graph, group, cut_group, mapping, way)
        for way in cut_group.placements((chip.columns, chip.rows))
    ]
    if not ways:
        found = " x ".join(f"{name} in {parts}" for name, parts in cut)
        raise InputError(f"chip {chip.name}", f"a cut for {chip.columns} x {chip.rows} tiles", found)
    placement = min(range(len(ways)), key=lambda way: ways[way].hops)
    return ways[placement].cost(placement, peak[-1])


def works_outside(group: ChipGroup, mapping: GroupMapping) -> int | None:
    """The first vector layer of a group, by number, one of whose operands does not stay on the chip.

    Such a layer would have to be run by itself, between DRAM and DRAM.
    """
    layers, backing = group.group.layers, mapping.shared.backing
    return next(
        (
            one.number
            for one in group.vectors
            if any(layers[maker].name not in backing for maker in one.makers)
        ),
        None,
    )


@dataclass
class _Moves:
    """What DRAM and links carry: bits read, bits written, and bits times ports on every link."""

    loads: np.ndarray
    read: int = 0
    written: int = 0

    def add(self, other: _Moves, times: int = 1) -> None:
        """Add what another one carries, so many times."""
        self.loads += times * other.loads
        self.read += times * other.read
        self.written += times * other.written

    def cycles(self, chip: Chip) -> int:
        """The least cycles of DRAM and the busiest link."""
        return chip.least_cycles(self.read + self.written, int(self.loads.max(initial=0)))


@dataclass
class _Spent:
    """The counts of a layer while they are added up."""

    moves: _Moves
    tiles_pj: float = 0.0
    filling_pj: float = 0.0
    cycles: int = 0
    computing: int = 0
    leaked_pj: float = 0.0
    """In the cycles of turns; what comes beside these leaks at ``leaking_pj`` a cycle."""
    leaking_pj: float = 0.0
    turns_cycles: int = 0
    accesses: list[Counts] = field(default_factory=list)
    """Of the buffer of one tile."""


class _Counted:
    """The counts of a mapping whose loops over tiles lie on the mesh as ``sides`` of each layer say."""

    def __init__(
        self,
        chip: Chip,
        graph: LayerGraph,
        group: ChipGroup,
        cut: CutGroup,
        mapping: GroupMapping,
        sides: tuple[Sides, ...],
    ) -> None:
        self.chip, self.graph, self.group, self.cut, self.sides = chip, graph, group, cut, sides
        self.part, self.mapping = cut.part, mapping
        self.stack, self.tiles = self.part.architecture, cut.tiles
        self.buffer = self.stack.levels[-2]
        self.turns = turns_of(self.part, mapping.shared)
        self.nests = mapping.turn_nests(self.part.layers)
        self.layers: dict[int, _Spent] = {
            group.products[position]: self._product(position) for position in range(len(self.turns))
        }
        self.layers |= {one.number: self._vector(one.number, one.after) for one in group.vectors}

    @property
    def hops(self) -> int:
        """Bits times ports of all links."""
        return sum(int(one.moves.loads.sum()) for one in self.layers.values())

    def cost(self, placement: int, peak_words: int) -> FusedGroupCost:
        """All counts, with the ends of the run on a chip of several tiles."""
        chip = self.chip
        if chip.tiles > 1:
            for position, first in ((0, True), (len(self.turns) - 1, False)):
                self.layers[self.group.products[position]].cycles += self._waited(position, first)
        found = []
        for number in self.group.numbers:
            one = self.layers[number]
            hop_pj = int(one.moves.loads.sum()) / len(chip.ports) * chip.noc.hop_pj_per_bit
            dram_pj = one.moves.read * chip.dram.read_pj_per_bit
            dram_pj += one.moves.written * chip.dram.write_pj_per_bit
            waiting = one.cycles - one.turns_cycles
            tiles_pj = one.tiles_pj + one.leaked_pj + waiting * one.leaking_pj
            parts = (tiles_pj, one.filling_pj, hop_pj, dram_pj)
            busy = self.tiles * one.computing
            name = self.graph.layers[number].name
            found.append(GroupLayerCost(name, parts, one.cycles, busy, one.moves.read, one.moves.written))
        tiles, filling, links, dram = (sum(one.parts_pj[part] for one in found) for part in range(4))
        held = peak_words * self.buffer.word_bits + chip.tile.output_stream_bits
        whole = WholeChipCost(
            parts_pj=(tiles, filling, links, dram),
            cycles=sum(one.cycles for one in found),
            tile_cycles=sum(one.tile_cycles for one in found),
            dram_read_bits=sum(one.dram_read_bits for one in found),
            dram_write_bits=sum(one.dram_write_bits for one in found),
            hop_bits=self.hops / len(chip.ports),
            mapping=group_text(self.part, self.mapping),
            placement=placement,
            held_bits=held,
        )
        return FusedGroupCost(whole, tuple(found), self.group, self.cut.cut, self.mapping)

    def _layer(self, position: int) -> NetworkLayer:
        return self.graph.layers[self.group.products[position]]

    def _bits(self, position: int) -> ElementBits:
        return ElementBits.of(self._layer(position), self.chip.tile.widths)

    def _product(self, position: int) -> _Spent:
        """A product in all its turns."""
        one, spent = self.turns[position], _Spent(self._no_moves())
        bits = self._bits(position)
        for kind, nest in zip(one.kinds, self.nests[position], strict=True):
            turn, kept = kind_cost(one, kind, nest)
            inside = cycles_inside(turn.turn)
            moved = {name: (counts.reads, counts.updates) for name, counts in kept[-1].items()}
            moves = self._moves(position, kind.part, moved, bits)
            times = kind.turns
            spent.moves.add(moves, times)
            spent.computing += times * inside
            cycles = times * max(inside, moves.cycles(self.chip))
            spent.cycles += cycles
            spent.leaked_pj += cycles * self._leaking(nest)
            on_tile = turn.turn.mac_energy_pj
            on_tile += sum(
                traffic.energy_pj for level in turn.turn.levels[:-2] for traffic in level.tensors.values()
            )
            on_tile += sum(
                access_energy_pj(self.buffer, counts._replace(fills=0), 1) for counts in kept[-2].values()
            )
            spent.tiles_pj += self.tiles * times * on_tile
            fills = {name: counts.fills for name, counts in kept[-2].items()}
            spent.filling_pj += times * self._filling_pj(kind.part, fills, bits)
            spent.accesses += [
                Counts(times * counts.reads, times * counts.fills, times * counts.updates, 0, 0)
                for counts in kept[-2].values()
            ]
        spent.turns_cycles, spent.leaking_pj = spent.cycles, self._leaking(self.nests[position][0])
        self._add_hoisted(one, spent, bits)
        return spent

    def _add_hoisted(self, one: LayerTurns, spent: _Spent, bits: ElementBits) -> None:
        """Add the words that enter and leave hoisted tiles while the turns run.

        The layer takes longer only if DRAM, links or the buffer are not fast enough for all its words.
        """
        if not one.hoisted:
            return
        moved, fills = {}, {}
        for tile in one.hoisted:
            tensor, entering, leaving = one.layer.tensor(tile.tensor), tile.entering, 0
            if tensor.is_output:  # each first visit of an output begins with zeros, and brings nothing
                entering, leaving = tile.entering - tensor.words(one.layer.sizes), tile.entering
            moved[tile.tensor], fills[tile.tensor] = (entering, leaving), entering
        spent.moves.add(self._moves(one.position, one.layer, moved, bits))
        spent.filling_pj += self._filling_pj(one.layer, fills, bits)
        spent.accesses += [Counts(0, words, 0, 0, 0) for words in fills.values()]
        written = ceil(bandwidth_cycles(self.buffer, spent.accesses))
        spent.cycles = max(spent.cycles, spent.moves.cycles(self.chip), written)

    def _vector(self, number: int, after: int) -> _Spent:
        """A vector layer, which works on what each turn of a product has made."""
        layer, chip, spent = self.graph.layers[number], self.chip, _Spent(self._no_moves())
        buffer, bits = chip.tile.buffer, ElementBits.of(layer, chip.tile.widths)
        for kind in self.turns[after].kinds:
            if kind.part.output.begun:  # only complete outputs are worked on: once for each of them
                continue
            elements = kind.part.output.words(kind.part.sizes)
            operations = elements * layer.operands
            cycles = kind.turns * -(-operations // chip.tile.vector_units)
            spent.cycles += cycles
            spent.computing += cycles
            of_turn = operations * (chip.tile.vector_operation_pj + bits.inputs * buffer.read_pj_per_bit)
            of_turn += elements * bits.outputs * buffer.write_pj_per_bit
            spent.tiles_pj += self.tiles * kind.turns * of_turn
        # nothing of it is counted as a turn: its levels leak as those of the product before it
        spent.leaking_pj = self._leaking(self.nests[after][0])
        return spent

    def _leaking(self, nest: Mapping) -> float:
        """What the levels of all tiles at work leak in a cycle (pJ)."""
        levels = zip(self.stack.levels[:-1], nest.utilized_instances, strict=False)
        return self.tiles * sum(level.leakage_pj_per_cycle * used for level, used in levels)

    def _filling_pj(self, part: Layer, fills: dict[str, int], bits: ElementBits) -> float:
        """The energy of writing words of each tensor into the buffers of all tiles, in whole blocks."""
        block = self.buffer.block_size * self.buffer.word_bits
        found = 0.0
        for name, words in fills.items():
            tensor = part.tensor(name)
            width = bits.partial_sums if tensor.is_output else getattr(bits, tensor.role)
            found += -(-words * width // block) * self.buffer.write_energy_pj
        return self.tiles * found

    def _no_moves(self) -> _Moves:
        return _Moves(np.zeros((self.chip.columns, self.chip.rows, 4), np.int64))

    def _moves(
        self, position: int, part: Layer, moved: dict[str, tuple[int, int]], bits: ElementBits
    ) -> _Moves:
        """What DRAM and links carry where each tile reads and writes so many words of each tensor."""
        sides, found = self.sides[position], {}
        for tensor in part.tensors:
            read, written = moved.get(tensor.name, (0, 0))
            groups = len(tile_groups(tensor, sides).origins)
            found[tensor.name] = Moved.of(tensor.role, groups * read, groups * written, bits)
        return self._carried(
            deliveries_of(part, sides, found),
            sum(one.read_bits for one in found.values()),
            sum(one.written_bits for one in found.values()),
        )

    def _carried(self, deliveries: Iterable[Delivery], read: int, written: int) -> _Moves:
        return _Moves(link_loads(self.chip, deliveries), read, written)

    def _waited(self, position: int, first: bool) -> int:
        """Cycles that the first turn of a product, or its last one, takes longer as an end of the run.

        In the first turn the first step waits for its data, which would else come before. In the last one
        the last step's outputs leave when it has been computed. Steps are iterations of DRAM's loops, as for
        a layer on the whole chip.
        """
        one, nest = self.turns[position], self.nests[position][0]
        turn, kept = kind_cost(one, one.kinds[0], nest)
        bits, inside = self._bits(position), cycles_inside(turn.turn)
        moved = {name: (counts.reads, counts.updates) for name, counts in kept[-1].items()}
        all_moves = self._moves(position, one.part, moved, bits)
        reads = {name: (read, 0) for name, (read, _) in moved.items()}
        step = -(-inside // prod(bound for _, bound in nest.levels[-1].temporal))
        fill = self._end(position, outputs=False).cycles(self.chip) if first else 0
        drain = 0 if first else self._end(position, outputs=True).cycles(self.chip)
        reading = self._moves(position, one.part, reads, bits).cycles(self.chip)
        taken = max(inside, all_moves.cycles(self.chip))
        return max(0, max(fill + inside - step, reading) + max(step, drain) - taken)

    def _end(self, position: int, outputs: bool) -> _Moves:
        """The data that a product's first step waits for, or the ``outputs`` of its last one."""
        one = self.turns[position]
        nest, part = self.nests[position][0], one.part
        moved = {}
        hoisted = {tile.tensor: tile.words for tile in one.hoisted}
        for tensor in part.tensors:
            if tensor.is_output != outputs:
                continue
            words = 0
            if tensor.name in hoisted:
                words = hoisted[tensor.name]
            elif tensor.name not in one.held and tensor.name in nest.levels[-2].keep:
                words = tensor.words(nest.tiles[-2])
            moved[tensor.name] = (0, words) if outputs else (words, 0)
        return self._moves(position, part, moved, self._bits(position))


def cycles_inside(turn: Evaluation) -> int:
    """The cycles of a turn within a tile, which waits for nothing from outside."""
    return max(turn.compute_cycles, *(level.cycles for level in turn.levels[:-1]))
