"""What programs do, counted instruction by instruction, and programs of random schedules."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from random import Random

import pytest

from costmodel.replay.replay import replay
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.program.checker import violations
from costmodel.schedule.program.program import Instruction, Program, Repeat
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.tree.validity import NotPossibleError
from tests.costmodel.schedule.chip_cases import FormulaCosts, chip, of_widths, random_tree
from tests.costmodel.schedule.chip_counts import Link, tree

CHIPS = [
    chip(2, 2),
    of_widths(chip(3, 2, stripe=2, link=2), 4, 12, 24),
    chip(1, 4),
    chip(5, 1, dram=9),
    of_widths(chip(4, 3), 5, 5, 5),
]
"""Of bytes, and of elements that are no whole bytes."""


SMALL = [chip(2, 2, 400), chip(3, 2, 400, stripe=2, link=2), chip(1, 4, 400)]
"""Their buffers hold few trees whose weights are all pinned."""


def written(
    graph: LayerGraph, seed: int, idle: bool = False, slices: tuple[int, ...] = ()
) -> tuple[Program, ChipEvaluation] | None:
    """The program of a random tree; None where the tree does not fit its chip.

    ``idle``: leaves may have tiles without a part. ``slices``: how many streamed weights may come in, on a
    chip with small buffers; none: large buffers and pinned weights.
    """
    random, chips = Random(seed), SMALL if slices else CHIPS
    batch, on = random.choice([1, 2, 4, 6, 7, 12]), chips[seed % len(chips)]
    evaluator = ChipEvaluator(graph, on, batch, FormulaCosts(graph, idle, slices))
    try:
        evaluation = evaluator.evaluate(random_tree(random, graph, batch))
    except NotPossibleError:
        return None
    try:
        return write_program(graph, evaluation), evaluation
    except NotPossibleError:  # so full are small buffers that there are no addresses for some programs
        assert slices
        return None


def done(code: Sequence[Instruction | Repeat]) -> Iterator[Instruction]:
    """The instructions of a tile as it does them."""
    for item in code:
        if isinstance(item, Repeat):
            for _ in range(item.times):
                yield from done(item.body)
        else:
            yield item


def transferred(program: Program) -> Counter[int]:
    """How often each message is transferred, from the instructions of the first tile that takes part."""
    found: Counter[int] = Counter()
    for tile, code in enumerate(program.tiles):
        for item in done(code):
            if item.operation in ("load", "receive", "send", "store"):
                message = program.messages[item.message]
                if (item.operation in ("load", "receive")) == bool(message.targets) and tile == (
                    message.targets or message.sources
                )[0]:
                    found[item.message] += 1
    return found


def dram_bytes(program: Program) -> tuple[float, float]:
    """Bytes read from DRAM and written to it."""
    read = written = 0.0
    for number, times in transferred(program).items():
        message = program.messages[number]
        read += times * message.size_bytes * (not message.sources)
        written += times * message.size_bytes * (not message.targets)
    return read, written


def link_bytes(program: Program) -> dict[Link, Fraction]:
    """Bytes on each link: trees by XY routing, DRAM's bytes evenly over its ports."""
    chip, found = program.chip, defaultdict[Link, Fraction](Fraction)
    ports = len(chip.ports)
    for number, times in transferred(program).items():
        message = program.messages[number]
        ways = []
        if not message.sources:
            ways = [(tree(chip, port, set(message.targets)), ports) for port in chip.ports]
        elif message.targets:
            (source,) = message.sources
            ways = [(tree(chip, chip.positions[source], set(message.targets)), 1)]
        else:
            at = [chip.positions.index(port) for port in chip.ports]
            starts = [chip.positions[source] for source in message.sources]
            # partial sums of several sources are added where their ways meet
            ways = [(set[Link]().union(*(tree(chip, one, {port}) for one in starts)), ports) for port in at]
        for links, divided in ways:
            for link in links:
                found[link] += Fraction(times * message.size_bytes) / divided
    return found


def peaks(program: Program) -> list[float]:
    """The most bytes of messages at a time in each tile's buffer, in the order of its instructions."""
    found = []
    for code in program.tiles:
        held = most = 0.0
        for item in done(code):
            if item.operation in ("load", "receive", "hold"):
                held += program.messages[item.message].size_bytes
            elif item.operation == "free":
                held -= program.messages[item.message].size_bytes
            most = max(most, held)
        found.append(most)
    return found


def check_counts(program: Program, evaluation: ChipEvaluation) -> None:
    """Hold a program that can run against the model: bytes of DRAM, bits of links, and buffers."""
    assert violations(program) == []
    bits = evaluation.dram_read_bits, evaluation.dram_write_bits
    assert tuple(8 * size for size in dram_bytes(program)) == bits
    links = link_bytes(program)
    assert float(sum(links.values())) == pytest.approx(evaluation.noc_hop_bits / 8, rel=1e-12)
    ports = len(evaluation.chip.ports)
    busiest = max((bytes_ * ports for bytes_ in links.values()), default=0)
    if len(evaluation.segments) == 1:
        assert 8 * busiest == evaluation.rounds * int(evaluation.segments[0].links.max(initial=0))
    for tile, peak in enumerate(peaks(program) if len(evaluation.segments) == 1 else ()):
        held = max(int((one.held.busy + one.held.weights)[tile]) for one in evaluation.segments)
        assert 8 * (peak + (program.output_stream_bytes if peak else 0)) <= held


def check_work(graph: LayerGraph, found: Sequence[tuple[Program, ChipEvaluation]]) -> None:
    """Hold programs of a graph against the model, and the operations that they do against the graph's."""
    assert found
    for program, evaluation in found:
        check_counts(program, evaluation)
        done = replay(program).operations
        assert done == evaluation.tree.batch * sum(one.operations for one in graph.layers)
