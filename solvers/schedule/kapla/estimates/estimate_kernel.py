"""What segments hold and cost at least, all divisions of their batch at once, compiled.

:mod:`.estimate` says what the numbers mean. Tables have a row for each layer on each number of tiles, and a
column for each division of a batch. A segment is some of these rows, in the order of its layers. Its regions
are consecutive layers: one region of all layers where they take turns, a region a layer in a pipeline,
something in between where layers are grouped.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from costmodel.compiled import called, entry, inlined

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""
Real = Any
"""A 64-bit float of compiled code."""

PINNED, STREAMED = 0, 1
"""How weights are held: the last index of the tables."""
ENERGY, FILLED, CYCLES = 0, 1, 2
"""Columns of ``LeafTable.least``."""


class KernelNetwork(NamedTuple):
    """All layers of a network, each by its number; arrays are [layers] where nothing else is said.

    ``weights``, ``outputs``: bits, the latter of a sample. ``rows``: of outputs. Layer i reads the inputs
    number ``inputs_from[i]`` to before ``inputs_from[i + 1]``: of each ``input_bits``, and ``producer``, -1
    where it is the network's input. Its readers stand alike in ``readers``.
    """

    weights: Array
    outputs: Array
    rows: Array
    inputs_from: Array
    producer: Array
    input_bits: Array
    readers_from: Array
    readers: Array


class LeafTable(NamedTuple):
    """Layers on tiles, in rows; the second index is the division of the batch.

    ``fits`` [n, divisions, 2]: whether some partition fits, with pinned and with streamed weights. ``least``
    [n, divisions, 3]: energy of all runs, bits into buffers, and cycles of a run, at least. ``held``
    [n, divisions, 2, 2]: bits that all tiles hold at least, as the only layer of a region and as one of
    several, with pinned and with streamed weights.
    """

    fits: Array
    least: Array
    held: Array


class KernelDivisions(NamedTuple):
    """Divisions of a ``batch`` into sub-batches, and each of these into bands; arrays [divisions]."""

    batch: int
    subbatches: Array
    bands: Array


class KernelSegment(NamedTuple):
    """Layers from ``first`` on. ``in_turn``: all of them are one region, which is the whole segment.

    ``rows`` [layers]: theirs in the table. ``region`` [layers]: the number of each one's region. ``begins``
    [regions + 1]: its first layer, counted from ``first``. ``size_bits`` [regions]: of the buffers of its
    tiles.
    """

    first: int
    in_turn: bool
    rows: Array
    region: Array
    begins: Array
    size_bits: Array


class KernelPrices(NamedTuple):
    """What the chip takes: pJ for a bit read from DRAM, written to it, and over one link; pJ for a cycle of
    the idle chip; bits of DRAM per cycle; and bits of all buffers together."""

    read_pj: float
    write_pj: float
    hop_pj: float
    idle_pj: float
    dram_rate: float
    buffers: int


class KernelScratch(NamedTuple):
    """Arrays that hold numbers of one segment; at least as long as the network."""

    stage: Array
    once: Array
    written: Array
    again: Array
    taken: Array
    waiting: Array
    slowest: Array


class FoundLeast(NamedTuple):
    """The least of each of n divisions of a segment. ``energy_pj`` [n]; ``cycles`` [n].

    ``accesses`` [n, 3 layers + 1]: bits that each layer reads from DRAM, that each writes to it, that each
    fills into buffers, and that all send.
    """

    energy_pj: Array
    cycles: Array
    accesses: Array


@entry
def hold(
    network: KernelNetwork,
    table: LeafTable,
    divisions: KernelDivisions,
    segment: KernelSegment,
    streams: bool,
    held: Array,
    fits: Array,
) -> None:
    """Fill ``held`` [regions, divisions] and ``fits`` [divisions], whether each region fits its buffers.

    ``streams``: all weights stream where there is one band; else all are pinned.
    """
    for division in range(fits.shape[0]):
        way = STREAMED if streams and divisions.bands[division] == 1 else PINNED
        fits[division] = True
        for region in range(segment.size_bits.shape[0]):
            held[region, division] = held_bits(network, table, divisions, segment, region, division, way)
            fits[division] = fits[division] and region_fits(
                table, segment, region, division, way, held[region, division]
            )


@called
def held_bits(
    network: KernelNetwork,
    table: LeafTable,
    divisions: KernelDivisions,
    segment: KernelSegment,
    region: Int,
    division: Int,
    way: Int,
) -> Int:
    """Bits that the tiles of a region hold at least at the time when they hold the most.

    The weights of layers that come back stay. What a layer holds only in its turn is counted with that of the
    next layer, which arrives meanwhile, where the region is the whole segment.
    """
    begin, end = segment.begins[region], segment.begins[region + 1]
    if end - begin == 1:
        return table.held[segment.rows[begin], division, 0, way]
    stay = divisions.subbatches[division] * divisions.bands[division] > 1 and way == PINNED
    pinned: Int = 0
    most: Int = 0
    before: Int = 0
    for layer in range(begin, end):
        own: Int = table.held[segment.rows[layer], division, 1, way]
        if stay:
            pinned += network.weights[segment.first + layer]
            own -= network.weights[segment.first + layer]
        together = own + before if segment.in_turn else own
        if layer > begin or not segment.in_turn:
            most = together if layer == begin else max(most, together)
        before = own
    return pinned + most


@inlined
def region_fits(
    table: LeafTable, segment: KernelSegment, region: Int, division: Int, way: Int, held: Int
) -> Any:
    """Whether a region that holds so many bits may fit: its buffers, and some partition of each layer."""
    fits = held <= segment.size_bits[region]
    for layer in range(segment.begins[region], segment.begins[region + 1]):
        fits = fits and table.fits[segment.rows[layer], division, way]
    return fits


@entry
def estimate(
    network: KernelNetwork,
    table: LeafTable,
    divisions: KernelDivisions,
    segment: KernelSegment,
    first_rows: Array,
    prices: KernelPrices,
    scratch: KernelScratch,
    chosen: Array,
    found: FoundLeast,
) -> None:
    """Fill ``found`` for the divisions number ``chosen`` [n].

    ``first_rows`` [layers, divisions]: rows of each layer in the first of several bands.
    """
    layers = segment.rows.shape[0]
    find_stages(network, segment, scratch)
    sent = move_once(network, divisions.batch, segment, scratch)
    written: Int = 0
    for layer in range(layers):
        written += scratch.written[layer]
    for number in range(chosen.shape[0]):
        division = chosen[number]
        stream_again(network, table, divisions, segment, prices, division, scratch)
        read: Int = 0
        energy: Real = 0.0
        for layer in range(layers):
            row = segment.rows[layer]
            own = scratch.once[layer] + scratch.again[layer]
            read += own
            energy += table.least[row, division, ENERGY]
            found.accesses[number, layer] = own
            found.accesses[number, layers + layer] = scratch.written[layer]
            found.accesses[number, 2 * layers + layer] = table.least[row, division, FILLED]
        found.accesses[number, 3 * layers] = sent
        cycles = least_cycles(network, table, divisions, segment, first_rows, prices, division, scratch)
        moved_pj = read * prices.read_pj + written * prices.write_pj + sent * prices.hop_pj
        found.energy_pj[number] = moved_pj + energy + prices.idle_pj * cycles
        found.cycles[number] = cycles


@called
def find_stages(network: KernelNetwork, segment: KernelSegment, scratch: KernelScratch) -> None:
    """The stage of a pipeline in which each region starts: behind all regions that it reads."""
    first = segment.first
    for region in range(segment.size_bits.shape[0]):
        scratch.stage[region] = 0
    for layer in range(segment.rows.shape[0]):
        own = segment.region[layer]
        for number in range(network.inputs_from[first + layer], network.inputs_from[first + layer + 1]):
            producer = network.producer[number] - first
            if producer >= 0 and segment.region[producer] != own:
                behind = scratch.stage[segment.region[producer]] + 1
                scratch.stage[own] = max(scratch.stage[own], behind)


@inlined
def is_near(segment: KernelSegment, scratch: KernelScratch, producer: Int, consumer: Int) -> Any:
    """Whether data between two layers of a segment stays on the chip: they run next to one another.

    In one region that is one layer after the other, and between regions one stage after the other.
    """
    of_producer, of_consumer = segment.region[producer], segment.region[consumer]
    if of_producer == of_consumer:
        return consumer <= producer + 1
    return scratch.stage[of_consumer] <= scratch.stage[of_producer] + 1


@called
def move_once(network: KernelNetwork, batch: Int, segment: KernelSegment, scratch: KernelScratch) -> Int:
    """Fill ``once`` and ``written`` with what each layer moves from and to DRAM, each bit once.

    Returns the bits that are sent from region to region, over one link at least.
    """
    sent: Int = 0
    layers, first = segment.rows.shape[0], segment.first
    for layer in range(layers):
        every: Int = 0
        far: Int = 0
        here: Int = 0
        for number in range(network.inputs_from[first + layer], network.inputs_from[first + layer + 1]):
            bits, producer = network.input_bits[number], network.producer[number] - first
            every += bits
            if producer < 0 or not is_near(segment, scratch, producer, layer):
                far += bits
            # some of what a layer of the same region makes the tile may hold already
            if producer >= 0 and segment.region[producer] == segment.region[layer]:
                here += bits
        scratch.once[layer] = network.weights[first + layer] + batch * far
        sent += batch * max(0, every - far - here)
        begin, end = network.readers_from[first + layer], network.readers_from[first + layer + 1]
        leaves = begin == end
        for number in range(begin, end):
            reader = network.readers[number] - first
            leaves = leaves or reader >= layers or not is_near(segment, scratch, layer, reader)
        scratch.written[layer] = batch * network.outputs[first + layer] if leaves else 0
    return sent


@called
def stream_again(
    network: KernelNetwork,
    table: LeafTable,
    divisions: KernelDivisions,
    segment: KernelSegment,
    prices: KernelPrices,
    division: Int,
    scratch: KernelScratch,
) -> None:
    """Fill ``again`` with the bits of weights that come again after the first sub-batch, at least.

    In a region that does not fit with pinned weights some layer streams: that with the fewest weights, and as
    many bits as the buffers have no room for beside the inputs. Where each region fits, but not the whole
    segment, some layer of it streams.
    """
    layers, subbatches = segment.rows.shape[0], divisions.subbatches[division]
    for layer in range(layers):
        scratch.again[layer] = 0
    if divisions.bands[division] > 1:
        return
    streams = False
    for region in range(segment.size_bits.shape[0]):
        held = held_bits(network, table, divisions, segment, region, division, PINNED)
        if region_fits(table, segment, region, division, PINNED, held):
            continue
        streams = True
        begin, end = segment.begins[region], segment.begins[region + 1]
        fewest = fewest_weights(network, segment, begin, end)
        inputs = held_bits(network, table, divisions, segment, region, division, STREAMED)
        left = weights_of(network, segment, begin, end) - (segment.size_bits[region] - inputs)
        bits = max(network.weights[segment.first + fewest], left)
        scratch.again[fewest] = (subbatches - 1) * bits
    # With turns in one sub-batch each layer runs once, so its weights come and go with it.
    whole = streams or (segment.in_turn and subbatches == 1)
    if not whole and weights_of(network, segment, 0, layers) > prices.buffers:
        fewest = fewest_weights(network, segment, 0, layers)
        scratch.again[fewest] = (subbatches - 1) * network.weights[segment.first + fewest]


@inlined
def weights_of(network: KernelNetwork, segment: KernelSegment, begin: Int, end: Int) -> Int:
    """Bits of the weights of some layers."""
    bits: Int = 0
    for layer in range(begin, end):
        bits += network.weights[segment.first + layer]
    return bits


@inlined
def fewest_weights(network: KernelNetwork, segment: KernelSegment, begin: Int, end: Int) -> Int:
    """The first layer with the fewest bits of weights, of those with any."""
    fewest: Int = begin
    for layer in range(begin + 1, end):
        bits, least = network.weights[segment.first + layer], network.weights[segment.first + fewest]
        if bits > 0 and (least == 0 or bits < least):
            fewest = layer
    return fewest


@called
def least_cycles(
    network: KernelNetwork,
    table: LeafTable,
    divisions: KernelDivisions,
    segment: KernelSegment,
    first_rows: Array,
    prices: KernelPrices,
    division: Int,
    scratch: KernelScratch,
) -> Real:
    """The least cycles of a segment for all samples.

    A region computes while DRAM brings what its next layer needs, so the longer of the two sums counts. All
    layers of a pipeline use DRAM at the same time, so it takes no less than the sum of their cycles there.
    """
    regions, subbatches = segment.size_bits.shape[0], divisions.subbatches[division]
    every: Real = 0.0
    for region in range(regions):
        computing: Real = 0.0
        busy: Real = 0.0
        for layer in range(segment.begins[region], segment.begins[region + 1]):
            moved = scratch.once[layer] + scratch.again[layer] + scratch.written[layer]
            computing += subbatches * table.least[segment.rows[layer], division, CYCLES]
            busy += moved / prices.dram_rate
            every += moved / prices.dram_rate
        scratch.taken[region] = max(computing, busy)
    if segment.in_turn:
        return scratch.taken[0]
    if divisions.bands[division] == 1:
        longest = scratch.taken[0]
        for region in range(1, regions):
            longest = max(longest, scratch.taken[region])
        passing = through_all_stages(scratch, scratch.taken, regions)
        return max(((subbatches - 1) * longest + passing) / subbatches, every)
    # Bands are not equal: the first one goes through all stages, then the slowest region has its own rest.
    longest = 0.0
    for region in range(regions):
        first: Real = 0.0
        whole: Real = 0.0
        for layer in range(segment.begins[region], segment.begins[region + 1]):
            run = table.least[segment.rows[layer], division, CYCLES]
            first += run * first_rows[layer, division] / network.rows[segment.first + layer]
            whole += subbatches * run
        scratch.waiting[region] = first
        longest = whole - first if region == 0 else max(longest, whole - first)
    return max(through_all_stages(scratch, scratch.waiting, regions) + longest, every)


@inlined
def through_all_stages(scratch: KernelScratch, taken: Array, regions: Int) -> Real:
    """The sum over all stages of a pipeline of the longest time ``taken`` [regions] in each."""
    stages: Int = 0
    for region in range(regions):
        stage = scratch.stage[region]
        if stage >= stages:
            for new in range(stages, stage + 1):
                scratch.slowest[new] = 0.0
            stages = stage + 1
        scratch.slowest[stage] = max(scratch.slowest[stage], taken[region])
    passing: Real = 0.0
    for stage in range(stages):
        passing += scratch.slowest[stage]
    return passing
