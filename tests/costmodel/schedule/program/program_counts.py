"""What programs do, counted instruction by instruction, and programs of random schedules."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from random import Random

from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.program.program import Instruction, Program, Repeat
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.tree.validity import NotPossibleError
from tests.costmodel.schedule.chip_cases import FormulaCosts, chip, random_tree
from tests.costmodel.schedule.chip_counts import Link, tree

CHIPS = [chip(2, 2), chip(3, 2, stripe=2, link=2), chip(1, 4), chip(5, 1, dram=9), chip(4, 3)]


def written(graph: LayerGraph, seed: int, idle: bool = False) -> tuple[Program, ChipEvaluation] | None:
    """The program of a random tree; None where the tree does not fit its chip.

    ``idle``: leaves may have tiles without a part.
    """
    random = Random(seed)
    batch, on = random.choice([1, 2, 4, 6, 7, 12]), CHIPS[seed % len(CHIPS)]
    evaluator = ChipEvaluator(graph, on, batch, FormulaCosts(graph, idle))
    try:
        evaluation = evaluator.evaluate(random_tree(random, graph, batch))
    except NotPossibleError:
        return None
    return write_program(graph, evaluation), evaluation


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


def dram_bytes(program: Program) -> tuple[int, int]:
    """Bytes read from DRAM and written to it."""
    read = written = 0
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
            (source,) = message.sources
            at = [chip.positions.index(port) for port in chip.ports]
            ways = [(tree(chip, chip.positions[source], {port}), ports) for port in at]
        for links, divided in ways:
            for link in links:
                found[link] += Fraction(times * message.size_bytes, divided)
    return found


def peaks(program: Program) -> list[int]:
    """The most bytes of messages at a time in each tile's buffer, in the order of its instructions."""
    found = []
    for code in program.tiles:
        held = most = 0
        for item in done(code):
            if item.operation in ("load", "receive"):
                held += program.messages[item.message].size_bytes
            elif item.operation == "free":
                held -= program.messages[item.message].size_bytes
            most = max(most, held)
        found.append(most)
    return found
