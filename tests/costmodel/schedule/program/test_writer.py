"""Programs of schedules, against the chip model's counts and against counts element by element."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from statistics import mean
from typing import Any, NamedTuple

import pytest

from costmodel.replay.replay import Replay, replay
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.program.checker import violations
from costmodel.schedule.program.program import Box, Instruction, Program, Repeat, box_at
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.tree.text import parse_tree
from tests.costmodel.schedule import chip_counts
from tests.costmodel.schedule.chip_cases import (
    FormulaCosts,
    chain,
    chip,
    cut_off,
    equal_parts,
    every_kind,
    layer,
    read_in_part,
    recurrent,
    routed,
    shared_heads,
)
from tests.costmodel.schedule.program.program_counts import check_counts, done, written
from tests.costmodel.schedule.test_closed_forms import evaluate

GRAPHS: dict[str, Callable[[], LayerGraph]] = {
    "every kind": every_kind,
    "read in part": read_in_part,
    "cut off": cut_off,
    "routed": routed,
    "recurrent": recurrent,
    "equal parts": equal_parts,
    "shared heads": shared_heads,
}
SEEDS = range(20)


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("idle", [False, True], ids=["every tile has a part", "some tiles idle"])
def test_random_schedules(name: str, idle: bool) -> None:
    """Programs can run, and move the bytes that the chip model counts, link by link."""
    graph, programs = GRAPHS[name](), 0
    for seed in SEEDS:
        found = written(graph, seed, idle)
        if found is not None:
            programs += 1
            check_counts(*found)
    assert programs > 5


def test_rows_of_zeros_behind_a_copy_come_from_nowhere() -> None:
    """A cache of 7 rows with room for one more: no padding before it, and none of its rows read twice."""
    rows: dict[str, Any] = {"h": 8, "w": 1, "input_w": 1}
    cached = layer("cached", "pool", **rows, input_h=7, external_c=4)
    graph, programs = LayerGraph("cache", (cached, layer("last", **rows, producers=(0,)))), 0
    for seed in SEEDS:
        if (found := written(graph, seed)) is not None:
            programs += 1
            check_counts(*found)
    assert programs > 5


def test_data_of_far_layers_is_asked_for_in_time_and_not_at_once() -> None:
    """The buffer has bytes for the last layer's 256 weights from the first layer on.

    They come in 256 cycles, in which two layers compute: so they are asked for behind the second compute, and
    arrive when the third one ends. No tile waits longer than if they had been asked for before.
    """
    graph = LayerGraph("wide", (*chain(3).layers, layer("layer3", k=64, producers=(2,))))
    text = "T 2/1|>T 2/1|>>T 2/1|>>>T 2/1|>>>>layer0 2|>>>>layer1 2|>>>layer2 2|>>layer3 2"
    evaluation = evaluate(text, graph, chip(1, 1, dram=1))
    program = write_program(graph, evaluation)
    (tile,) = program.tiles
    weights = next(n for n, one in enumerate(program.messages) if one.tensor == "layer3.weights")
    order = [one.operation for one in done(tile) if one.operation == "compute" or one.message == weights]
    assert order == ["compute", "compute", "load", "compute", "compute", "free"]
    assert replay(program).cycles == evaluation.cycles


def test_writing_can_be_ended() -> None:
    """Its check is called for every tile at least, and what that raises comes out."""
    graph, on, calls = chain(2), chip(2, 1), 0
    evaluation = ChipEvaluator(graph, on, 8, FormulaCosts(graph)).evaluate(
        parse_tree("S 8/4\n\tlayer0 2\n\tlayer1 2\n")
    )

    def counting() -> None:
        nonlocal calls
        calls += 1

    assert write_program(graph, evaluation, counting) == write_program(graph, evaluation)
    assert calls >= on.tiles

    def ending() -> None:
        nonlocal calls
        calls -= 1
        if calls == 0:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        write_program(graph, evaluation, ending)


@pytest.mark.slow
@pytest.mark.parametrize("idle", [False, True], ids=["every tile has a part", "some tiles idle"])
def test_random_schedules_with_streamed_weights(idle: bool) -> None:
    """The same where weights come slice by slice. A replay takes as long as the model says, or a bit more."""
    sizes: dict[str, Any] = {"c": 16, "k": 16, "h": 3, "w": 3}
    first = layer("first", external_c=16, **sizes)
    others = (layer(f"layer{number}", producers=(number - 1,), **sizes) for number in range(1, 4))
    wide = LayerGraph("wide", (first, *others))
    slices: list[int] = []
    ratios: list[float] = []
    for seed, offered in product(range(40), ((3, 2), (2,))):
        found = written(wide, seed, idle, offered)
        if found is None:
            continue
        program, evaluation = found
        streamed = [node.leaf.slices for node in evaluation.nodes() if node.leaf and node.leaf.slices]
        if streamed:
            check_counts(program, evaluation)
            done_all = replay(program)
            assert done_all.operations == sum(
                evaluation.tree.batch * layer.operations for layer in wide.layers
            )
            ratios.append(evaluation.cycles / done_all.cycles)
        slices += streamed
    assert {2, 3} <= set(slices)
    assert len(ratios) > 5
    assert 0.85 < mean(ratios) < 1.15


def replayed_as_counted(program: Program, evaluation: ChipEvaluation, operations: int) -> Replay:
    """The replay of a program, which moves what the model counts link by link, and holds no more."""
    check_counts(program, evaluation)
    again = replay(program)
    links = sum(one.links for one in evaluation.segments) * evaluation.rounds
    assert again.link_port_bits.ravel().tolist() == links.tolist()  # type: ignore[union-attr]
    assert again.dram_read_bits == evaluation.dram_read_bits
    assert again.dram_write_bits == evaluation.dram_write_bits
    assert again.operations == operations
    assert int(again.peak_bits.max()) <= evaluation.most_held
    return again


def needed(graph: LayerGraph, layer_name: str, box: Box) -> Counter[tuple[str, int, int, int, int]]:
    """The elements that a box of a layer's nest reads: tensor, channel, sample, row, column.

    What several heads need alike is read once.
    """
    number = graph.index[layer_name]
    layer = graph.layers[number]
    samples, channels, rows, columns = (range(*interval) for interval in box[:4])
    out = channels, samples, rows, columns
    found: Counter[tuple[str, int, int, int, int]] = Counter()
    if layer.has_weights and not layer.weight_producers:
        points = product(channels, range(layer.group_c), range(layer.r), range(layer.s))
        found.update((f"{layer.name}.weights", c, k, r, s) for k, c, r, s in points)
    for of_weights, whose in chip_counts.streams(graph, number):
        elements = (chip_counts.weights if of_weights else chip_counts.inputs)(layer, out)
        for producer in dict.fromkeys(source for source, _ in whose.values()):
            name = f"{layer.name}.input" if producer is None else graph.layers[producer].name
            for one in {
                one for _, one in chip_counts.of_producer({0: elements}, whose, producer, of_weights)
            }:
                found.update((name, *element) for element in one)
    return found


def read(program: Program, box: Box, tensor: str) -> list[tuple[str, int, int, int, int]]:
    samples, channels, rows, columns = (range(*interval) for interval in box)
    return [(tensor, c, s, y, x) for s, c, y, x in product(samples, channels, rows, columns)]


class ReadByCompute(NamedTuple):
    """A compute of a tile: its layer and box, the elements that it reads (how often), by which messages."""

    layer: str
    box: Box
    elements: Counter[tuple[str, int, int, int, int]]
    messages: tuple[int, ...]


def read_by_computes(program: Program, code: Sequence[Instruction | Repeat]) -> Iterator[ReadByCompute]:
    """Every compute of a tile's ``code``, one after the other."""
    arrived: Counter[int] = Counter()
    times: Counter[int] = Counter()
    for item in done(code):
        if item.operation in ("load", "receive"):
            arrived[item.message] += 1
        if item.operation != "compute":
            continue
        work = program.works[item.work]
        box = box_at(work.box, work.moves, times[item.work])
        times[item.work] += 1
        elements: Counter[tuple[str, int, int, int, int]] = Counter()
        for number in item.reads:
            message = program.messages[number]
            at = box_at(message.box, message.moves, arrived[number] - 1)
            elements.update(read(program, at, message.tensor))
        yield ReadByCompute(work.layer, box, elements, tuple(item.reads))


@pytest.mark.parametrize("name", GRAPHS)
def test_a_compute_reads_what_it_needs_and_nothing_else(name: str) -> None:
    graph, computes = GRAPHS[name](), 0
    for seed in range(4, 20, 5):
        found = written(graph, seed)
        if found is None:
            continue
        program, _ = found
        for code in program.tiles:
            for one in read_by_computes(program, code):
                assert one.elements == needed(graph, one.layer, one.box)
                computes += 1
    assert computes > 50


def test_a_pipeline_of_many_sub_batches_is_a_short_program() -> None:
    """Its tiles repeat two sub-batches, whose data takes turns in the buffer."""
    graph, on = chain(2), chip(2, 1)

    def program(batch: int) -> Program:
        tree = parse_tree(f"S {batch}/{batch}\n\tlayer0 1\n\tlayer1 1\n")
        return write_program(graph, ChipEvaluator(graph, on, batch, FormulaCosts(graph)).evaluate(tree))

    def length(code: tuple[Instruction | Repeat, ...]) -> int:
        return sum(1 + length(item.body) if isinstance(item, Repeat) else 1 for item in code)

    small, large = program(8), program(128)
    assert len(large.messages) == len(small.messages)
    assert [length(code) for code in large.tiles] == [length(code) for code in small.tiles]
    assert violations(large) == []


def test_rounds_of_the_root_are_a_repeat() -> None:
    graph, on = chain(2), chip(2, 1)
    tree = parse_tree("T 12/3\n\tlayer0 4\n\tlayer1 4\n")
    program = write_program(graph, ChipEvaluator(graph, on, 12, FormulaCosts(graph)).evaluate(tree))
    for code in program.tiles:
        *loads, rounds = code[: 1 + next(i for i, item in enumerate(code) if isinstance(item, Repeat))]
        # what the first segment begins with; each later round has it from the end of the one before
        assert {item.operation for item in loads if isinstance(item, Instruction)} == {"load"}
        assert isinstance(rounds, Repeat)
        assert rounds.times == 2
        assert len(list(done(code))) == 3 * len(list(done(rounds.body)))
    assert violations(program) == []


def test_all_sub_batches_of_a_consumer_are_sent_at_once() -> None:
    """layer0 makes four samples at a time, layer1 takes them one by one."""
    graph, on = chain(2), chip(2, 1)
    tree = parse_tree("S 8/2\n\tlayer0 4\n\tT 4/4\n\t\tlayer1 1\n")
    program = write_program(graph, ChipEvaluator(graph, on, 8, FormulaCosts(graph)).evaluate(tree))
    first = [item for item in done(program.tiles[0]) if item.operation != "load"]
    assert [item.operation for item in first[:5]] == ["compute", "send", "send", "send", "send"]
    sent = [program.messages[item.message].box[0] for item in first[1:5]]
    assert sent == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert violations(program) == []
