"""Chips whose tiles have timing: parts of layers, layers on the whole chip and programs take timed cycles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil, prod
from random import Random

import numpy as np
import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.tiles import load_tile
from costmodel.hardware.architecture import Architecture
from costmodel.hardware.chip import Chip
from costmodel.hardware.timing import Timing, TransferTiming
from costmodel.hardware.whole_chip import counted_architecture, whole_architecture
from costmodel.mapping.batch.batch import BatchEvaluator, MappingBatch
from costmodel.mapping.bounds.bounds import lower_bounds
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import LevelMapping, Mapping
from costmodel.mapping.timing.walk import timed_part
from costmodel.mapping.uneven import UnevenMapping
from costmodel.replay.replay import replay
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.tile_cost import TileRows
from costmodel.schedule.tile_counts.batch import BatchTileCounter
from costmodel.schedule.tile_counts.tile_count import counted_on_tile
from costmodel.schedule.tree.text import parse_tree
from costmodel.schedule.whole_chip.cost import whole_chip_cost
from costmodel.workload.network import Layer
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.mapping.problem import MappingProblem, violations
from solvers.mapping.space.rules import SpaceRules
from solvers.mapping.space.space import MappingSpace
from solvers.schedule.tiles.cost_table import solved_costs
from solvers.schedule.tiles.layer_parts import TileCostDemand
from solvers.schedule.tiles.mapper import TileMapper
from tests.costmodel.schedule.chip_cases import chain, layer, mapped_chip
from tests.costmodel.schedule.program.test_mapped_layer import drawn, program_of
from tests.costmodel.schedule.test_identity import OneWay, chip_of, layer_of, mapping_of, on_tile, run
from tests.solvers.mapping.random_problems import drawn_timing

CASES = 150


def timing_for(random: Random, tile: Architecture) -> Timing:
    """A drawn timing whose array computes no more at once than the tile's MAC units."""
    timing = drawn_timing(random)
    if random.random() < 0.4:  # light enough for DRAM to be slower
        free = {"caches": (), "issue_cycles": 0.0, "product_issue_cycles": 0.0, "clear_cycles_per_row": 0.0}
        timing = replace(timing, load=None, store=None, **free)  # type: ignore[arg-type]
    if timing.array is not None and prod(points for _, points in timing.array.block) > tile.mac_units:
        timing = replace(timing, array=replace(timing.array, block=(("K", tile.mac_units),)))
    return timing


def with_timing(on: Chip, timing: Timing) -> Chip:
    inside = on.tile.architecture
    assert inside is not None
    return replace(on, tile=replace(on.tile, architecture=replace(inside, timing=timing)))


def unlimited(tile: Architecture, first: int = 0) -> Architecture:
    """The tile with levels from number ``first`` on that are never waited for."""
    free = [
        replace(level, read_bandwidth=None, write_bandwidth=None, shared_bandwidth=None)
        for level in tile.levels[first:]
    ]
    return replace(tile, levels=(*tile.levels[:first], *free))


def timed_chip(random: Random) -> tuple[Chip, NetworkLayer, int]:
    """One tile with timing, and a layer without padding, of which DRAM moves as many words as its nest has.

    DRAM's rate is a power of two in words, so that both ways to divide by it are exact.
    """
    on, one = chip_of(random), layer_of(random)
    bits = 8
    inside = on.tile.architecture
    assert inside is not None
    levels = tuple(replace(level, word_bits=bits) for level in inside.levels)
    inside = replace(inside, levels=levels, timing=timing_for(random, inside))
    input_h, input_w = (one.h - 1) * one.stride_h + one.r, (one.w - 1) * one.stride_w + one.s
    one = replace(one, pad_h=0, pad_w=0, input_h=input_h, input_w=input_w)
    tile = replace(on.tile, architecture=inside, widths=type(on.tile.widths).of_words(bits))
    dram = replace(on.dram, bytes_per_cycle=random.choice((1, 4, 1024)))
    return replace(on, tile=tile, dram=dram), one, random.randint(1, 3)


@pytest.mark.slow
def test_one_tile_takes_the_cycles_of_its_levels() -> None:
    """Energy and cycles of both ways to run a layer are those of ``evaluate`` for the stack of levels."""
    random, waits, timed = Random(1), 0, 0
    for _ in range(CASES):
        on, one, batch = timed_chip(random)
        stack, nest, inside = counted_architecture(on), one.nest(batch), on.tile.architecture
        assert stack is not None
        assert inside is not None
        mapping = mapping_of(random, stack, nest)
        whole = run(on, one, batch, OneWay(TileRows.of([]), whole_chip_cost(on, nest, mapping)))
        counted = evaluate(stack, nest, mapping)
        assert whole.cycles == counted.cycles
        assert sum(whole.parts_pj) == pytest.approx(counted.energy_pj, rel=1e-12)
        within = mapping_of(random, inside, nest)
        everything = LevelMapping((), (), (), frozenset(tensor.name for tensor in nest.tensors))
        pinned = on_tile(inside, nest, within)
        leaf = run(on, one, batch, pinned)
        counted = evaluate(stack, nest, Mapping((*within.levels, everything)))
        assert leaf.cycles == counted.cycles
        assert sum(leaf.parts_pj) == pytest.approx(counted.energy_pj, rel=1e-12)
        waits += leaf.cycles > int(pinned.row.cycles[0])
        timed += (
            leaf.cycles
            != evaluate(replace(stack, timing=None), nest, Mapping((*within.levels, everything))).cycles
        )
    assert waits >= 2
    assert timed > CASES // 2


@pytest.mark.slow
def test_a_part_takes_what_the_tile_by_itself_takes() -> None:
    """In a buffer that is never waited for: the tile alone, and as often as DRAM's loops bring a part."""
    random, several, own = Random(5), 0, 0
    for _ in range(CASES):
        on, one, batch = timed_chip(random)
        nest = one.nest(batch)
        assert on.tile.architecture is not None
        inside = unlimited(on.tile.architecture)
        mapping = mapping_of(random, inside, nest)
        assert counted_on_tile(inside, nest, mapping).cycles == evaluate(inside, nest, mapping).cycles
        fast = replace(
            on,
            tile=replace(on.tile, architecture=inside),
            dram=replace(on.dram, bytes_per_cycle=1 << 40),
        )
        stack = counted_architecture(fast)
        assert stack is not None
        mapping = mapping_of(random, stack, nest)
        tile, times = mapping.tiles[-2], prod(bound for _, bound in mapping.levels[-1].temporal)
        part = replace(nest, dims=tuple((dim, tile.get(dim, 1)) for dim in nest.sizes))
        if any(not each.keep >= {tensor.name for tensor in nest.tensors} for each in mapping.levels[-2:-1]):
            continue  # the tile alone would have to keep in its buffer what this mapping does not
        alone = evaluate(inside, part, Mapping(mapping.levels[:-1])).cycles
        assert whole_chip_cost(fast, nest, mapping).cycles == times * alone
        several, own = several + (times > 1), own + 1
    assert own > 20
    assert several > 10


@pytest.mark.slow
def test_the_buffers_bandwidth_serves_what_fills_it() -> None:
    random, slower = Random(9), 0
    for _ in range(CASES):
        on, one, batch = timed_chip(random)
        nest, inside = one.nest(batch), on.tile.architecture
        assert inside is not None
        timing = inside.timing
        assert timing is not None
        # wide ports and steps that are issued at once: what is left to wait for is the buffer, or the array
        wide = TransferTiming(request_bytes=4096, beat_bytes=4096)
        slow = replace(inside.levels[-1], shared_bandwidth=0.5)
        inside = replace(inside, levels=(*inside.levels[:-1], slow))
        light = replace(timing, load=wide, store=wide, caches=(), issue_cycles=0.0)
        inside = replace(inside, timing=replace(light, product_issue_cycles=None, clear_cycles_per_row=0.0))
        mapping = mapping_of(random, inside, nest)
        found = counted_on_tile(inside, nest, mapping).cycles
        free = counted_on_tile(unlimited(inside, len(inside.levels) - 1), nest, mapping).cycles
        stacked = evaluate_with_source(inside, nest, mapping)
        assert found == max(free, stacked)
        slower += found > free
    assert slower >= 3


def evaluate_with_source(inside: Architecture, nest: object, mapping: Mapping) -> int:
    """Cycles that the buffer needs for all its words by its bandwidths, those that fill it included."""
    untimed = replace(inside, timing=None)
    source = replace(unlimited(untimed).levels[-1], name="source", fanout_x=1, fanout_y=1)
    stack = replace(untimed, levels=(*untimed.levels, source))
    everything = frozenset(tensor.name for tensor in nest.tensors)  # type: ignore[attr-defined]
    counted = evaluate(stack, nest, Mapping((*mapping.levels, LevelMapping((), (), (), everything))))  # type: ignore[arg-type]
    buffer, words = stack.levels[-2], counted.levels[-2].tensors.values()
    read = sum(one.reads for one in words)
    written = sum(one.fills + one.updates for one in words)
    ports = (
        (read, buffer.read_bandwidth),
        (written, buffer.write_bandwidth),
        (read + written, buffer.shared_bandwidth),
    )
    return max((ceil(moved / rate) for moved, rate in ports if rate), default=0)


@pytest.mark.slow
def test_many_mappings_at_a_time_are_counted_alike() -> None:
    """Of two sizes of one layer: their tensors lie in memory in other ways."""
    tile = replace(load_architecture("gemmini"), name="tile")
    one = layer("one", h=8, w=8, r=3, s=3, pad_h=1, pad_w=1, c=32, k=48, external_c=32)
    counts, random = [], Random(2)
    nests = [replace(one, k=channels).nest(1) for channels in (48, 40)]
    mapped = [(nest, mapping_of(random, tile, nest)) for nest in nests for _ in range(3)]
    batches = [MappingBatch.of([mapping], tile, nest) for nest, mapping in mapped]
    batch = MappingBatch(
        *(np.concatenate(column) for column in zip(*(each.rows for each in batches), strict=True))
    )
    sizes = np.array([list(nest.sizes.values()) for nest, _ in mapped], np.int64)
    counts = list(BatchTileCounter(tile, nests[0]).count(sizes, batch))
    assert counts == [counted_on_tile(tile, nest, mapping) for nest, mapping in mapped]


def gemmini_chip(columns: int, rows: int) -> Chip:
    """Tiles that are Gemminis whose DMA reads a buffer of the chip, with no caches behind it."""
    gemmini = load_tile("gemmini")
    assert gemmini.timing is not None
    gemmini = replace(gemmini, timing=replace(gemmini.timing, caches=()))
    plain = mapped_chip(columns, rows, 1 << 16, stream=0, link=16, dram=16)
    levels = tuple(replace(level, word_bits=8) for level in gemmini.levels)
    tile = replace(plain.tile, macs=256, architecture=replace(gemmini, levels=levels))
    return replace(plain, tile=tile)


@pytest.mark.slow
def test_schedules_and_their_programs_take_timed_cycles() -> None:
    """Leaves on two tiles each: the costs solved, the schedule, its program and the program's replay."""
    graph = chain(2)
    found = {}
    for timed in (True, False):
        on = gemmini_chip(2, 2)
        if not timed:
            assert on.tile.architecture is not None
            on = replace(on, tile=replace(on.tile, architecture=replace(on.tile.architecture, timing=None)))
        mapper = TileMapper("exact", "cycles", budget=Budget(10.0, None, 0))
        costs = solved_costs(TileCostDemand(graph, on.tile, on.tiles, 2), mapper)
        tree = parse_tree("S 2/2\n\tlayer0 1\n\tlayer1 1\n")
        evaluation = ChipEvaluator(graph, on, 2, costs).evaluate(tree)
        program = write_program(graph, evaluation)
        ran = replay(program)
        assert set(ran.busy_cycles.tolist()) == {
            2.0 * node.leaf.tile_cycles for node in evaluation.nodes() if node.leaf is not None
        }
        assert ran.cycles <= evaluation.cycles * 1.5
        found[timed] = evaluation.cycles, {work.cycles for work in program.works}
    # a step is issued in hundreds of cycles, and these layers have a few products only
    assert min(found[True][1]) > 100 > max(found[False][1])
    assert found[True][0] > 3 * found[False][0]


@pytest.mark.slow
def test_programs_of_layers_on_the_whole_chip_take_timed_cycles() -> None:
    one, random = layer("one", h=4, w=4, r=3, s=3, c=2, k=2, external_c=2, input_h=6, input_w=6), Random(3)
    graph, compared = LayerGraph("one", (one,)), 0
    timing = replace(drawn_timing(random), array=None, issue_cycles=40.0)
    on = with_timing(mapped_chip(2, 2, 96), timing)
    for cost in drawn(on, one, 2, random, 600):
        program, _ = program_of(graph, on, [cost], 2)
        busy = replay(program).busy_cycles
        # all computes take equally many whole cycles, so each may round up what the model counts
        (of_compute,) = {work.cycles for work in program.works}
        assert cost.tile_cycles <= busy.sum() < cost.tile_cycles + busy.sum() / of_compute
        assert cost.tile_cycles >= 40 * np.count_nonzero(busy)
        compared += 1
    assert compared >= 3


def test_what_a_tile_with_timing_cannot_be() -> None:
    on = gemmini_chip(1, 1)
    with pytest.raises(InputError, match="one for each of the tile's MAC units"):
        replace(on.tile, macs=255)
    stack = counted_architecture(on)
    assert stack is not None
    nest = layer("one", h=2, w=3, input_h=2, input_w=3, external_c=4).nest(1)
    with pytest.raises(InputError, match="timed one by one have one tile of all tensors"):
        MappingProblem(stack, nest, rules=SpaceRules(uneven=True))
    proposed = whole_architecture(on)
    assert proposed is not None
    assert proposed.timing == stack.timing


def timed_stacks(seed: int, cases: int) -> Iterator[tuple[Chip, Architecture, Layer]]:
    """Chips of several tiles with timing, as stacks of levels, and small layers to map on them."""
    random = Random(seed)
    for _ in range(cases):
        on = mapped_chip(random.choice((1, 2)), random.choice((1, 2)), random.choice((64, 256)))
        inside = on.tile.architecture
        assert inside is not None
        on = with_timing(on, timing_for(random, inside))
        h, w, c, k = (random.randint(1, 6) for _ in range(4))
        window = random.choice((1, 1, 3))
        one = layer(
            "one",
            r=window,
            s=window,
            h=h,
            w=w,
            c=c,
            k=k,
            external_c=c,
            input_h=h + window - 1,
            input_w=w + window - 1,
        )
        stack = counted_architecture(on)
        assert stack is not None
        yield on, stack, one.nest(random.randint(1, 2))


@pytest.mark.slow
def test_batches_and_bounds_count_steps_of_the_tiles() -> None:
    counted = 0
    for _, stack, nest in timed_stacks(3, 30):
        batch = MappingSpace(stack, nest).sample(range(1), seed=1)[:40]
        found, bound = BatchEvaluator(stack, nest).evaluate(batch), lower_bounds(stack, nest)
        for row in np.flatnonzero(found.valid).tolist():
            evaluation = evaluate(stack, nest, batch.mapping(row, nest))
            assert found.cycles[row] == evaluation.cycles
            assert found.energy_pj[row] == evaluation.energy_pj
            assert bound.cycles <= evaluation.cycles
            assert bound.energy_pj <= evaluation.energy_pj * (1 + 1e-12)
            assert bound.edp_pj_cycles <= evaluation.edp_pj_cycles * (1 + 1e-12)
            counted += 1
    assert counted > 100


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exact", "cosa"])
def test_layers_on_the_whole_chip_are_proposed_by_timed_cycles(name: str) -> None:
    """What a solver finds without timing is where a descent on the timed objective begins, and it says so."""
    module, better, compared = solver(name).load(), 0, 0
    for on, stack, nest in timed_stacks(8, 9):
        whole = whole_architecture(on)
        assert whole is not None
        blind = module.solve(MappingProblem(replace(whole, timing=None), nest, "cycles"), Budget(5.0, 1, 0))
        problem = MappingProblem(whole, nest, "cycles")
        seeing = module.solve(problem, Budget(10.0, 1, 0))
        if blind.solution is None or seeing.solution is None:
            continue
        assert not violations(problem, seeing.solution)
        assert seeing.objective == evaluate(stack, nest, seeing.solution).cycles
        assert "improved it by the timed cycles" in seeing.note
        assert seeing.bound is not None
        assert seeing.bound <= seeing.objective
        judged = evaluate(stack, nest, blind.solution).cycles
        assert seeing.objective <= judged
        better, compared = better + (seeing.objective < judged), compared + 1
    assert compared > 4
    assert better > 0


def test_tensors_that_end_at_different_loops_of_the_steps_have_no_part() -> None:
    on = gemmini_chip(1, 1)
    stack = counted_architecture(on)
    assert stack is not None
    nest = layer("one", h=2, w=3, input_h=2, input_w=3, external_c=4).nest(1)
    names = frozenset(tensor.name for tensor in nest.tensors)
    inner = len(stack.levels) - 2
    parts = [
        LevelMapping((), (), (), names if number >= inner else frozenset()) for number in range(inner + 2)
    ]
    nothing = LevelMapping((), (), (), frozenset())
    uneven = UnevenMapping(
        Mapping((*parts[:inner], nothing, *parts[inner:])), (*range(inner), inner, inner, inner + 1)
    )
    with pytest.raises(InputError, match="whose steps are timed"):
        timed_part(stack, nest, uneven)
