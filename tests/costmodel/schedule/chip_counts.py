"""The chip model written out: element by element, message by message, link by link, moment by moment.

Nothing here is shared with the model but its values: for a given partition and placement of every leaf it
says which elements each tile needs, who sends them, over which links they go, and when they are in a buffer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import product
from math import ceil
from typing import Any, NamedTuple

from costmodel.hardware.chip import Chip
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.segment.node_cost import NodeCost
from costmodel.schedule.tile_cost import TileCosts
from costmodel.schedule.tree.data_flow import DataFlow
from costmodel.schedule.tree.spatial_temporal import ChartBox
from costmodel.schedule.tree.tree import Cut, Leaf

Element = tuple[int, int, int, int]
"""Channel, sample, row, column."""
Link = tuple[tuple[int, int], tuple[int, int]]


def split(length: int, parts: int, part: int) -> range:
    """Part i begins at the first whole number from i equal parts on."""
    return range(ceil(Fraction(length * part, parts)), ceil(Fraction(length * (part + 1), parts)))


def outputs(layer: NetworkLayer, cost: NodeCost) -> dict[int, tuple[range, range, range, range]]:
    """Of every tile of a leaf the outputs that it computes: K, samples of the batch, H, W."""
    assert cost.leaf is not None
    place = cost.leaf.placement
    sizes, found = layer.sizes(place.batch), {}
    ordered: list[list[tuple[int, ...]]] = [[()]]
    for axis in place.order:
        ordered.append([(*before, part) for before in ordered[-1] for part in range(place.parts[axis])])
    for number, coordinates in enumerate(ordered[-1]):
        part = dict(zip(place.order, coordinates, strict=True))
        k, b, h, w = (split(sizes[axis], place.parts[axis], part[axis]) for axis in range(4))
        # of tiles with some of the input channels each, the first gets the outputs
        found[place.tile + number * place.reduced] = (k, b, h, w)
    return found


def members(layer: NetworkLayer, cost: NodeCost, owner: int) -> dict[int, range]:
    """The tiles that compute an owner's outputs, with the input channels of each."""
    assert cost.leaf is not None
    reduced = cost.leaf.placement.reduced
    return {owner + part: split(layer.group_c, reduced, part) for part in range(reduced)}


def needed_by_tile(layer: NetworkLayer, cost: NodeCost, of_weights: bool) -> dict[int, frozenset[Element]]:
    """The inputs of one operand, or the weights, that each tile of a leaf needs."""
    assert cost.leaf is not None
    found = {}
    for owner, out in outputs(layer, cost).items():
        every = (weights if of_weights else inputs)(layer, out)
        if cost.leaf.placement.reduced == 1:
            found[owner] = every
            continue
        for tile, channels in members(layer, cost, owner).items():
            found[tile] = frozenset(one for one in every if one[2 if of_weights else 0] in channels)
    return found


def _hull(numbers: list[int]) -> range:
    return range(min(numbers), max(numbers) + 1) if numbers else range(0)


def inputs(layer: NetworkLayer, out: tuple[range, range, range, range]) -> frozenset[Element]:
    """What a tile needs for its outputs, of one operand; from the first to the last row and column."""
    k, b, h, w = out
    if not (k and b and h and w):
        return frozenset()
    if layer.kind == "transpose":
        dims = {layer.order[0]: k, layer.order[1]: h, layer.order[2]: w}
        channels, rows, columns = dims[0], dims[1], dims[2]
    else:
        channels = k
        if layer.kind in ("conv", "fc", "topk"):
            channels = range(layer.c)
        if layer.kind == "groupconv":
            groups = {one // layer.group_k for one in k}
            channels = range(min(groups) * layer.group_c, (max(groups) + 1) * layer.group_c)
        rows, columns = h, w
        if layer.kind in ("dispatch", "combine", "outer"):  # any row may be the chosen one, or the only one
            rows, columns = range(layer.input_h), range(layer.input_w)
        if layer.kind in ("conv", "groupconv", "pool", "fc"):
            rows = _hull(
                [
                    y
                    for row in h
                    for y in range(
                        row * layer.stride_h - layer.pad_h, row * layer.stride_h - layer.pad_h + layer.r
                    )
                    if 0 <= y < layer.input_h
                ]
            )
            columns = _hull(
                [
                    x
                    for col in w
                    for x in range(
                        col * layer.stride_w - layer.pad_w, col * layer.stride_w - layer.pad_w + layer.s
                    )
                    if 0 <= x < layer.input_w
                ]
            )
    return frozenset((c, s, y, x) for c in channels for s in b for y in rows for x in columns)


def weights(layer: NetworkLayer, out: tuple[range, range, range, range]) -> frozenset[Element]:
    """Weights as outputs x (samples, if they are activations) x inputs x filter positions.

    Of layers that choose or scale, the choices of all tokens or of those that are computed, or the factors.
    A step of a recurrence has one row of factors, an outer product as many as inputs.
    """
    k, b, h, w = out
    with_factors = "dispatch", "combine", "scale", "decay", "outer", "carry"
    if layer.kind in with_factors and k and b and h and w:
        rows, columns = h, w
        if layer.kind in ("dispatch", "decay", "outer"):
            rows = range(layer.input_h)
        if layer.kind in ("dispatch", "outer"):
            columns = range(layer.input_w)
        if layer.kind == "carry":
            rows, columns = range(1), range(1)
        return frozenset(product(range(layer.groups), b, rows, columns))
    if not layer.has_weights or not (k and b and h and w):
        return frozenset()
    samples = b if layer.weight_producers else range(1)
    return frozenset(
        (one, s, c, position)
        for one in k
        for s in samples
        for c in range(layer.group_c)
        for position in range(layer.r * layer.s)
    )


def streams(graph: LayerGraph, number: int) -> Iterator[tuple[bool, dict[int, tuple[int | None, int]]]]:
    """Of every operand (of weights?): whose output channel (None: the network's input) each channel is."""
    layer = graph.layers[number]
    numbers = (*layer.producers, *layer.weight_producers)
    parts = layer.channels or tuple((0, graph.layers[producer].k) for producer in numbers)
    sent = [(p, c) for p, part in zip(numbers, parts, strict=True) for c in range(*part)]
    inputs = layer.c - layer.external_c
    if layer.weight_producers:
        yield True, dict(enumerate(sent[inputs:]))
    elements: list[tuple[int | None, int]] = [(None, c) for c in range(layer.external_c)]
    elements += sent[:inputs]
    width = layer.k if layer.kind in ("eltwise", "combine", "carry") else layer.c
    for first in range(0, len(elements), width):
        yield False, dict(enumerate(elements[first : first + width]))


def path(start: tuple[int, int], end: tuple[int, int]) -> set[Link]:
    """XY routing: along the row first."""
    links, (x, y) = set(), start
    while (x, y) != end:
        step = (x + (1 if end[0] > x else -1), y) if x != end[0] else (x, y + (1 if end[1] > y else -1))
        links.add(((x, y), step))
        x, y = step
    return links


def tree(chip: Chip, start: tuple[int, int], tiles: set[int]) -> set[Link]:
    return set().union(*(path(start, chip.positions[tile]) for tile in tiles))


class Counts:
    """Links (bits), DRAM bits and held bits of the leaves of one segment, over one batch of it."""

    def __init__(self, graph: LayerGraph, chip: Chip, segment: NodeCost) -> None:
        self.graph, self.chip, self.batch = graph, chip, segment.node.batch
        self.leaves: dict[int, NodeCost] = {}
        waiting = [segment]
        while waiting:
            cost = waiting.pop(0)
            waiting = list(cost.children) + waiting
            if isinstance(cost.node, Leaf):
                self.leaves[graph.index[cost.node.layer]] = cost
        self.links: dict[int, dict[Link, Fraction]] = {}
        self.sum_links: dict[int, dict[Link, Fraction]] = {}
        self.round_links: dict[int, dict[Link, Fraction]] = {}
        self.out_links: dict[int, dict[Link, Fraction]] = {}
        self.weight_links: dict[int, dict[Link, Fraction]] = {}
        self.input_links: dict[int, dict[Link, Fraction]] = {}
        self.sent_links: dict[int, dict[Link, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
        self.read: Counter[int] = Counter()
        self.pinned: Counter[int] = Counter()
        self.first_slices: Counter[int] = Counter()
        self.written: Counter[int] = Counter()

    def count(self, number: int, on_chip: set[int], to_dram: bool) -> None:
        """One leaf: ``on_chip`` are the producers that send over the NoC."""
        self.links[number], self.read[number], self.written[number] = defaultdict(Fraction), 0, 0
        layer, cost = self.graph.layers[number], self.leaves[number]
        out, batch, widths = outputs(layer, cost), cost.node.batch, self.chip.tile.widths
        runs = range(self.batch // batch)
        self.round_links[number] = defaultdict(Fraction)
        self.out_links[number] = defaultdict(Fraction)
        self.weight_links[number], self.input_links[number] = defaultdict(Fraction), defaultdict(Fraction)
        if self.shares(number):
            self._from_dram(number, self.kept(number).items(), widths.weights, self.weight_links)
            self._passed_on(number, len(runs))
        elif layer.has_weights and not layer.weight_producers:
            for one, needed in enumerate(self.slices(number)):
                times = len(runs) if self.streams(number) else 1
                self._from_dram(number, needed.items(), times * widths.weights, self.weight_links)
                if one == 0:
                    self.first_slices[number] = self.read[number] // times
        self.pinned[number] = self.read[number]
        for of_weights, channels in streams(self.graph, number):
            needed = needed_by_tile(layer, cost, of_weights)
            for producer in dict.fromkeys(source for source, _ in channels.values()):
                read = list(of_producer(needed, channels, producer, of_weights))
                if producer in on_chip:
                    self._from_tiles(number, producer, read, runs)
                else:
                    self._from_dram(number, read, len(runs) * widths.activations, self.input_links)
        if to_dram:
            for tile, (k, b, h, w) in out.items():
                size = len(k) * len(b) * len(h) * len(w) * len(runs) * widths.activations
                self.written[number] += size
                for port in self.chip.ports:
                    for link in path(self.chip.positions[tile], port):
                        self.links[number][link] += Fraction(size, len(self.chip.ports))
                        self.out_links[number][link] += Fraction(size, len(self.chip.ports))
        self.sum_links[number] = defaultdict(Fraction)
        for owner, size in self.sums(number).items():
            for tile in members(layer, cost, owner):
                for link in path(self.chip.positions[tile], self.chip.positions[owner]):
                    self.links[number][link] += size * len(runs)
                    self.sum_links[number][link] += size * len(runs)

    def sums(self, number: int) -> dict[int, int]:
        """Bits of one part's partial sums of an owner's outputs in a run; none where nothing is gathered."""
        layer, cost = self.graph.layers[number], self.leaves[number]
        assert cost.leaf is not None
        return {
            owner: len(k) * len(b) * len(h) * len(w) * self.chip.tile.widths.partial_sums
            for owner, (k, b, h, w) in outputs(layer, cost).items()
            if cost.leaf.placement.reduced > 1
        }

    def streams(self, number: int) -> bool:
        """Whether the weights of a leaf come from DRAM anew for each run."""
        leaf = self.leaves[number].leaf
        assert leaf is not None
        return leaf.slices > 0 and leaf.sharing is None

    def shares(self, number: int) -> int:
        """How many tiles share the weights of a leaf; 0: none do."""
        leaf = self.leaves[number].leaf
        assert leaf is not None
        return leaf.sharing.sharers if leaf.sharing else 0

    def groups(self, number: int) -> list[list[int]]:
        """The tiles that share weights with one another, in the order of their shares."""
        layer, cost = self.graph.layers[number], self.leaves[number]
        alike = _alike(needed_by_tile(layer, cost, True).items()).values()
        each = self.shares(number)
        return [sorted(one)[at : at + each] for one in alike for at in range(0, len(one), each)]

    def kept(self, number: int) -> dict[int, frozenset[Element]]:
        """The share of each tile: as many slices in a row as every other one of its group has."""
        slices, found = self.slices(number), {}
        each = len(slices) // self.shares(number)
        for group in self.groups(number):
            for share, tile in enumerate(group):
                own = slices[share * each : (share + 1) * each]
                found[tile] = frozenset(element for one in own for element in one[tile])
        return found

    def _passed_on(self, number: int, runs: int) -> None:
        """Each slice in each run, from the tile that has it to all others of the group."""
        slices, widths = self.slices(number), self.chip.tile.widths
        for group in self.groups(number):
            for one, needed in enumerate(slices):
                owner = group[one * len(group) // len(slices)]
                for link in tree(self.chip, self.chip.positions[owner], set(group)):
                    size = runs * len(needed[owner]) * widths.weights
                    self.links[number][link] += size
                    self.round_links[number][link] += size

    def slices(self, number: int) -> list[dict[int, frozenset[Element]]]:
        """The weights that each tile needs for its first slice, its second, and so on."""
        layer, cost = self.graph.layers[number], self.leaves[number]
        assert cost.leaf is not None
        count, found = max(cost.leaf.slices, 1), []
        if cost.leaf.placement.reduced > 1:
            return [needed_by_tile(layer, cost, True)]
        for one in range(count):
            needed = {}
            for tile, (k, b, h, w) in outputs(layer, cost).items():
                parts = cost.leaf.placement.parts[0]
                every = [split(layer.k, parts * count, part) for part in range(parts * count)]
                own = [part for part in every if part and k and k[0] <= part[0] and part[-1] <= k[-1]]
                assert not k or [channel for part in own for channel in part] == list(k)
                needed[tile] = weights(layer, (own[one] if one < len(own) else range(0), b, h, w))
            found.append(needed)
        return found

    def _from_dram(
        self,
        number: int,
        needed: Iterable[tuple[int, frozenset[Element]]],
        times: int,
        kind: dict[int, dict[Link, Fraction]],
    ) -> None:
        """Tiles that need the same get it at once; ``times``: bits of an element over all runs."""
        for elements, tiles in _alike(needed).items():
            self.read[number] += times * len(elements)
            for port in self.chip.ports:
                for link in tree(self.chip, port, tiles):
                    self.links[number][link] += Fraction(times * len(elements), len(self.chip.ports))
                    kind[number][link] += Fraction(times * len(elements), len(self.chip.ports))

    def _from_tiles(
        self, number: int, producer: int, needed: Iterable[tuple[int, frozenset[Element]]], runs: range
    ) -> None:
        """Every sample of the segment's batch from the tile that computed it."""
        cost, batch = self.leaves[producer], self.leaves[number].node.batch
        owner = {
            (k, b, h, w): tile
            for tile, (ks, bs, hs, ws) in outputs(self.graph.layers[producer], cost).items()
            for k in ks
            for b in bs
            for h in hs
            for w in ws
        }
        for elements, tiles in _alike(needed).items():
            senders: Counter[int] = Counter()
            for run in runs:
                senders.update(owner[c, (run * batch + s) % cost.node.batch, y, x] for c, s, y, x in elements)
            for sender, size in senders.items():
                for link in tree(self.chip, self.chip.positions[sender], tiles):
                    self.links[number][link] += size * self.chip.tile.widths.activations
                    self.sent_links[producer][link] += size * self.chip.tile.widths.activations


def of_producer(
    needed: dict[int, frozenset[Element]],
    channels: dict[int, tuple[int | None, int]],
    producer: int | None,
    of_weights: bool,
) -> Iterator[tuple[int, frozenset[Element]]]:
    """What each tile needs of one producer, numbered as the producer does, for each head by itself.

    Weights of which a channel of the producer has come before are of another head, which shares them.
    """
    before: Counter[tuple[int | None, int]] = Counter()
    heads: dict[int, list[int]] = defaultdict(list)
    for channel, there in channels.items():
        if there[0] == producer:
            heads[before[there] if of_weights else 0].append(channel)
            before[there] += 1
    for head, tile in product(heads.values(), needed):
        yield tile, frozenset((channels[c][1], s, y, x) for c, s, y, x in needed[tile] if c in head)


def _alike(needed: Iterable[tuple[int, frozenset[Element]]]) -> dict[frozenset[Element], set[int]]:
    alike: dict[frozenset[Element], set[int]] = defaultdict(set)
    for tile, elements in needed:
        if elements:
            alike[elements].add(tile)
    return alike


def recount(graph: LayerGraph, evaluation: ChipEvaluation, segment: NodeCost, flow: DataFlow) -> Counts:
    """All leaves of one segment, with the data flow of the whole tree."""
    counts = Counts(graph, evaluation.chip, segment)
    for number in counts.leaves:
        recount_leaf(counts, flow, number)
    return counts


def recount_leaf(counts: Counts, flow: DataFlow, number: int) -> None:
    graph, name = counts.graph, counts.graph.layers[number].name
    read = {name for names in graph.producers.values() for name in names}
    on_chip = {graph.index[edge.producer] for edge in flow.edges if edge.consumer == name and edge.on_chip}
    to_dram = name not in read or any(edge.producer == name and not edge.on_chip for edge in flow.edges)
    counts.count(number, on_chip, to_dram)


def energy_pj(counts: Counts, costs: TileCosts, number: int) -> float:
    """Of one leaf: tiles, transfers into and out of their buffers, links, DRAM."""
    chip, cost, layer = counts.chip, counts.leaves[number], counts.graph.layers[number]
    assert cost.leaf is not None
    buffer, out = chip.tile.buffer, outputs(layer, cost)
    runs = counts.batch // cost.node.batch
    slices, reduced = cost.leaf.slices, cost.leaf.placement.reduced
    if reduced > 1:
        return _reduced_pj(counts, costs, number)
    source = costs.streamed_rows if slices else costs.rows
    sharers = counts.shares(number)
    rows = (costs.shared_rows if sharers else source)(number, cost.node.batch, cost.tiles)
    each = zip(rows.parts.tolist(), rows.slices.tolist(), rows.sharers.tolist(), strict=True)
    row = list(each).index((list(cost.leaf.placement.parts), max(slices, 1), max(sharers, 1)))
    arriving = sum(len(_stream_inputs(counts.graph, number, one)) for one in out.values()) * runs
    pinned = 0 if layer.weight_producers else sum(len(weights(layer, one)) for one in out.values())
    passed = 0
    if sharers:
        # Every tile of a group takes in all but its share in each run, and reads its share once for that.
        passed = runs * pinned // sharers
        pinned = pinned // sharers + (sharers - 1) * passed
    elif slices:
        pinned *= runs
    widths = chip.tile.widths
    arriving, pinned = arriving * widths.activations, pinned * widths.weights
    leaving = sum(len(k) * len(b) * len(h) * len(w) for k, b, h, w in out.values()) * runs
    leaving *= widths.activations * (not layer.has_weights)  # a mapping counts its own outputs
    leaving += passed * widths.weights
    total = runs * float(rows.energy_pj[row])
    total += ((arriving + pinned) * buffer.write_pj_per_byte + leaving * buffer.read_pj_per_byte) / 8
    total += float(sum(counts.links[number].values())) / 8 * chip.noc.hop_pj_per_byte
    total += counts.read[number] / 8 * chip.dram.read_pj_per_byte
    return total + counts.written[number] / 8 * chip.dram.write_pj_per_byte


def _reduced_pj(counts: Counts, costs: TileCosts, number: int) -> float:
    """The same of a leaf whose input channels are cut: also of receiving partial sums and adding them."""
    chip, cost, layer = counts.chip, counts.leaves[number], counts.graph.layers[number]
    assert cost.leaf is not None
    place, buffer, widths = cost.leaf.placement, chip.tile.buffer, chip.tile.widths
    runs, reduced = counts.batch // cost.node.batch, cost.leaf.placement.reduced
    rows = costs.reduced_rows(number, cost.node.batch, cost.tiles // reduced, reduced)
    row = rows.parts.tolist().index(list(place.parts))
    arriving = sum(
        len(one)
        for of_weights, _ in streams(counts.graph, number)
        for one in needed_by_tile(layer, cost, of_weights).values()
    )
    pinned = sum(map(len, needed_by_tile(layer, cost, True).values())) * (not layer.weight_producers)
    sums = sum(counts.sums(number).values())
    made = sum(len(k) * len(b) * len(h) * len(w) for k, b, h, w in outputs(layer, cost).values())
    total = runs * (float(rows.energy_pj[row]) + reduced * made * chip.tile.vector_operation_pj)
    written = runs * (arriving * widths.activations + (reduced - 1) * sums) + pinned * widths.weights
    total += written * buffer.write_pj_per_byte / 8
    total += runs * made * widths.activations * buffer.read_pj_per_byte / 8
    total += float(sum(counts.links[number].values())) / 8 * chip.noc.hop_pj_per_byte
    total += counts.read[number] / 8 * chip.dram.read_pj_per_byte
    return total + counts.written[number] / 8 * chip.dram.write_pj_per_byte


def _stream_inputs(
    graph: LayerGraph, number: int, out: tuple[range, range, range, range]
) -> list[tuple[int, Element]]:
    """All activations that a tile needs, of all operands; the operand's number with each."""
    layer = graph.layers[number]
    return [
        (operand, element)
        for operand, (of_weights, _) in enumerate(streams(graph, number))
        for element in (weights if of_weights else inputs)(layer, out)
    ]


Loads = dict[Link, Fraction]


def _sum(*loads: Loads) -> Loads:
    """Bits on each link, added up."""
    found: Loads = defaultdict(Fraction)
    for one in loads:
        for link, size in one.items():
            found[link] += size
    return found


def _part(loads: Loads, part: Fraction | int) -> Loads:
    return {link: size * part for link, size in loads.items()}


class Time(NamedTuple):
    """One batch of a node: bits that DRAM has to bring first, what links carry of them, and what the busiest
    one needs for that; how long before all that is there it starts; the cycles from then on; all bits that
    DRAM moves, and all that links carry.
    """

    ahead: int
    loads: Loads
    links: int
    early: int
    running: int
    dram: int
    every: Loads


class Times(NamedTuple):
    """A node's cycles as the model states them, its first batch, with the weights, and every later one."""

    cycles: int
    first: Time
    later: Time


def cycles(
    counts: Counts, cost: NodeCost, stages: dict[int, list[int]], top: bool = True
) -> dict[int, Times]:
    """The times of a node and all below it by the id of their costs; ``stages``: of S cuts' children.

    ``top``: the node is the segment. Every sub-batch is gone through, one after the other.
    """
    chip = counts.chip

    def at_dram(size: int, times: int = 1) -> int:
        return ceil(Fraction(size, 8 * times * chip.dram.bytes_per_cycle))

    def at_links(loads: Loads) -> int:
        return ceil(max(loads.values(), default=Fraction(0)) / (8 * chip.noc.link_bytes_per_cycle))

    if cost.leaf is not None:
        assert isinstance(cost.node, Leaf)
        number = counts.graph.index[cost.node.layer]
        runs = counts.batch // cost.node.batch
        total = max(
            cost.leaf.tile_cycles,
            at_dram(counts.read[number] + counts.written[number], runs),
            at_links(_part(counts.links[number], Fraction(1, runs))),
        )
        if cost.leaf.placement.reduced > 1:
            total = max(total, leaf_times(counts, cost, number, {})[1].running)
        first, later = leaf_times(counts, cost, number, counts.sent_links[number])
        if top and chip.tiles > 1:
            # by itself on several tiles nothing computes before its first data is there
            total = max(at_dram(first.ahead), first.links) - first.early + first.running
        return {id(cost): Times(total, first, later)}
    assert isinstance(cost.node, Cut)
    found: dict[int, Times] = {}
    for child in cost.children:
        found |= cycles(counts, child, stages, False)
    children = [found[id(child)] for child in cost.children]

    def subbatches(first: bool) -> list[list[Time]]:
        """The children of all sub-batches of a batch."""
        assert isinstance(cost.node, Cut)
        return [
            [one.first if first and part == 0 else one.later for one in children]
            for part in range(cost.node.subbatches)
        ]

    def one_after_the_other(first: bool) -> Time:
        turns = [one for part in subbatches(first) for one in part]
        every = _sum(*(one.every for one in turns))
        running = early = 0
        for number, one in enumerate(turns):
            # what this child moves, and what comes for the one after it
            moved, loads, wait = one.dram - one.ahead, _sum(one.every, _part(one.loads, -1)), 0
            if number + 1 < len(turns):
                after = turns[number + 1]
                moved, loads, wait = moved + after.ahead, _sum(loads, after.loads), after.links
            taken = max(one.running, at_dram(moved), at_links(loads), wait)
            if number == 0:  # what the cut does not wait for comes in time that is left in the first turn
                early = min(one.early, taken - max(at_dram(moved), at_links(loads)))
            running += taken
        # no less than the busiest link needs for what has not come before
        rest = at_links(_sum(every, _part(turns[0].loads, -1)))
        running = max(running, rest)
        dram = sum(one.dram for one in turns)
        return turns[0]._replace(early=min(early, running - rest), running=running, dram=dram, every=every)

    def in_a_pipeline(first: bool) -> Time:
        filling, *others = subbatches(first)
        through: dict[int, int] = defaultdict(int)
        for one, stage in zip(filling, stages[id(cost)], strict=True):
            through[stage] = max(through[stage], one.running)
        running = sum(through.values())
        for part in others:
            slowest = max(max(one.running, at_dram(one.dram), at_links(one.every)) for one in part)
            on_links = _sum(*(one.every for one in part))
            together = at_dram(sum(one.dram for one in part)), at_links(on_links)
            # data within a turn stands once behind all that others send over a link
            behind = []
            for one, child in zip(part, cost.children, strict=True):
                if isinstance(child.node, Cut) and child.node.kind == "T":
                    within = _sum(one.every, _part(one.loads, -1))
                    ahead_of_it = {link: on_links[link] - one.every[link] for link in within if within[link]}
                    behind.append(one.running + at_links(ahead_of_it))
            running += max(slowest, *together, *behind)
        ahead, loads = sum(one.ahead for one in filling), _sum(*(one.loads for one in filling))
        links = max(at_links(loads), *(one.links for one in filling))
        dram = sum(one.dram for part in (filling, *others) for one in part)
        every = _sum(*(one.every for part in (filling, *others) for one in part))
        rest = max(at_dram(dram - ahead), at_links(_sum(every, _part(loads, -1))))
        running = max(running, rest)
        at = dict(enumerate(stages[id(cost)]))
        # when each stage starts if the data of stages comes in their order, and when the last one is through
        through_at = 0
        for stage in sorted(through):
            upto = [one for number, one in enumerate(filling) if at[number] <= stage]
            there = max(at_dram(sum(one.ahead for one in upto)), at_links(_sum(*(one.loads for one in upto))))
            there = max(there, *(one.links for one in upto))
            sooner = min(one.early for number, one in enumerate(filling) if at[number] == stage)
            through_at = max(through_at, there - sooner) + through[stage]
        at_last = max(at_dram(ahead), links) + sum(through.values())
        early = min(at_last - through_at, running - rest)
        return Time(ahead, loads, links, early, running, dram, every)

    timed = one_after_the_other if cost.node.kind == "T" else in_a_pipeline
    first, later = timed(True), timed(False)
    waited = max(at_dram(first.ahead), first.links) - first.early
    total = waited + first.running if top else later.running
    return found | {id(cost): Times(total, first, later)}


def leaf_times(counts: Counts, cost: NodeCost, number: int, sent: Loads) -> tuple[Time, Time]:
    """The first run of a leaf and each later one; ``sent``: what its tiles send to other leaves in all."""
    leaf, chip, runs = cost.leaf, counts.chip, counts.batch // cost.node.batch
    assert leaf is not None

    def at_links(loads: Loads) -> int:
        return ceil(max(loads.values(), default=Fraction(0)) / (8 * chip.noc.link_bytes_per_cycle))

    def at_dram(size: int) -> int:
        return ceil(Fraction(size, 8 * chip.dram.bytes_per_cycle))

    pinned, out = counts.pinned[number], counts.written[number] // runs
    inputs = (counts.read[number] - pinned) // runs
    each = Fraction(1, runs)
    loaded, weights = _part(counts.input_links[number], each), counts.weight_links[number]
    stored = _part(_sum(counts.out_links[number], sent), each)
    if counts.streams(number):
        # links carry equal parts of the weights for every slice
        ahead, every = counts.first_slices[number], pinned // runs
        loads = _sum(loaded, _part(weights, each / leaf.slices))
        leaving = _sum(stored, _part(weights, each * (leaf.slices - 1) / leaf.slices))
        running = max(leaf.tile_cycles, at_dram(every - ahead + out), at_links(leaving))
        moved = every + inputs + out
        one = Time(ahead + inputs, loads, at_links(loads), 0, running, moved, _sum(loads, leaving))
        return one, one
    loads = _sum(loaded, weights)
    before = passed = 0
    running, later_links = max(leaf.tile_cycles, at_dram(out)), at_links(loaded)
    between = _part(counts.round_links[number], each)
    if counts.shares(number):
        rounds, passed = _rounds(counts, number, runs)
        running = max(running, rounds, at_links(_sum(stored, between)))
        later_links += passed
    elif leaf.placement.reduced > 1:
        between = _part(counts.sum_links[number], each)
        adding = _adding(counts, cost, number)
        before = max(leaf.tile_cycles - adding, at_links(between))
        running = before + max(adding, at_dram(out), at_links(stored))
    else:
        running = max(running, at_links(stored))
    every_link = _sum(loaded, stored, between)
    return (
        Time(
            pinned + inputs,
            loads,
            at_links(loads),
            0,
            passed + running,
            pinned + inputs + out,
            _sum(every_link, weights),
        ),
        Time(inputs, loaded, later_links, 0, running, inputs + out, every_link),
    )


def _rounds(counts: Counts, number: int, runs: int) -> tuple[int, int]:
    """Cycles of passing on all slices of shared weights in a run, and the first of them."""
    slices, rate = counts.slices(number), 8 * counts.chip.noc.link_bytes_per_cycle
    largest = max(len(elements) for one in slices for elements in one.values())
    busiest = ceil(max(counts.round_links[number].values()) / (runs * rate))
    rounds = max(busiest, len(slices) * ceil(Fraction(largest * counts.chip.tile.widths.weights, rate)))
    return rounds, ceil(Fraction(rounds, len(slices)))


def _adding(counts: Counts, cost: NodeCost, number: int) -> int:
    """Cycles in which the owner with the most outputs adds partial sums."""
    assert cost.leaf is not None
    layer = counts.graph.layers[number]
    largest = max(len(k) * len(b) * len(h) * len(w) for k, b, h, w in outputs(layer, cost).values())
    return ceil(Fraction(cost.leaf.placement.reduced * largest, counts.chip.tile.vector_units))


def most_held(counts: Counts, rectangles: list[ChartBox], flow: DataFlow, fetched: set[str]) -> int:
    """The most that any tile's buffer holds at any moment while one segment runs once.

    ``rectangles`` are the segment's in the S-T graph; inputs from DRAM are fetched during the rectangle
    before on the same tile, others arrive while their producers compute. Weights of ``fetched`` layers are
    fetched as inputs are and stay until the layer is through. Streamed ones come for each run, the first
    slice with the inputs, the others during the slice before. All others are there all the time.
    """
    held: dict[int, Counter[Any]] = defaultdict(Counter)
    for now in rectangles:
        number = counts.graph.index[now.layer]
        it, of_leaf = counts.graph.layers[number], counts.leaves[number]
        for owner, out in outputs(it, of_leaf).items():
            for tile in members(it, of_leaf, owner):
                ahead = _before(rectangles, now, tile)
                for start, size in _arrivals(counts, rectangles, flow, now, tile):
                    _hold(held[tile], ahead if start is None else start, now.end, size)
                if _stream_inputs(counts.graph, number, out):
                    _hold(held[tile], now.start, now.end, 8 * counts.chip.tile.output_stream_bytes)
        for owner, size in counts.sums(number).items():
            _hold(held[owner], now.start, now.end, len(members(it, of_leaf, owner)) * size)
    ends = max(one.end for one in rectangles)
    for number, cost in counts.leaves.items():
        layer = counts.graph.layers[number]
        mine = [one for one in rectangles if one.layer == layer.name]
        if counts.streams(number) or counts.shares(number):
            _hold_slices(held, counts, number, rectangles, mine)
        if counts.streams(number):
            continue
        staying = counts.kept(number) if counts.shares(number) else needed_by_tile(layer, cost, True)
        for tile, of_tile in staying.items():
            start, end = min(one.start for one in rectangles), ends
            if layer.name in fetched:
                start, end = _before(rectangles, mine[0], tile), max(one.end for one in mine)
            pinned = 0 if layer.weight_producers else len(of_tile)
            _hold(held[tile], start, end, pinned * counts.chip.tile.widths.weights)
    return max(_peak(one) for one in held.values())


def _hold_slices(
    held: dict[int, Counter[Any]],
    counts: Counts,
    number: int,
    rectangles: list[ChartBox],
    mine: list[ChartBox],
) -> None:
    """The weights of a leaf that come slice by slice; ``mine``: its rectangles.

    Slices that are in a tile's share do not come.
    """
    slices = counts.slices(number)
    kept = counts.kept(number) if counts.shares(number) else {}
    for now in mine:
        step = Fraction(now.end - now.start, len(slices))
        for one, needed in enumerate(slices):
            for tile, elements in needed.items():
                start = now.start + (one - 1) * step if one else _before(rectangles, now, tile)
                size = len(elements - kept.get(tile, frozenset())) * counts.chip.tile.widths.weights
                _hold(held[tile], start, now.start + (one + 1) * step, size)


def _before(rectangles: list[ChartBox], now: ChartBox, tile: int) -> int:
    """When the rectangle before on the same tile begins; there may be none."""
    before = [
        one.start for one in rectangles if one.first_tile <= tile < one.end_tile and one.end <= now.start
    ]
    return max(before, default=now.start)


def _arrivals(
    counts: Counts, rectangles: list[ChartBox], flow: DataFlow, now: ChartBox, tile: int
) -> Iterator[tuple[int | None, int]]:
    """When inputs begin to arrive (None: fetched from DRAM), and how many bits."""
    number = counts.graph.index[now.layer]
    layer = counts.graph.layers[number]
    on_chip = {
        counts.graph.index[edge.producer]
        for edge in flow.edges
        if edge.consumer == now.layer and edge.on_chip
    }
    for of_weights, channels in streams(counts.graph, number):
        elements = needed_by_tile(layer, counts.leaves[number], of_weights)[tile]
        senders = Counter(channels[element[0]][0] for element in elements)
        for sender, count in senders.items():
            size = count * counts.chip.tile.widths.activations
            if sender not in on_chip:
                yield None, size
                continue
            name = counts.graph.layers[sender].name
            yield (
                min(
                    one.start
                    for one in rectangles
                    if one.layer == name
                    and one.first_sample < now.end_sample
                    and now.first_sample < one.end_sample
                ),
                size,
            )


def _hold(held: Counter[Any], start: int | Fraction, end: int | Fraction, size: int) -> None:
    held[start] += size
    held[end] -= size


def _peak(held: Counter[Any]) -> int:
    level, peak = 0, 0
    for _, change in sorted(held.items()):
        level += change
        peak = max(peak, level)
    return peak
