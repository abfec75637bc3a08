"""Programs as files: what is written is read back, and what is wrong is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.json.programs import (
    program_from_json,
    program_text,
    program_to_json,
    read_program,
    write_program_file,
)
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.program.program import Program
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.tree.text import parse_tree
from tests.costmodel.schedule.chip_cases import FormulaCosts, chain, chip, every_kind
from tests.costmodel.schedule.program.program_counts import written

FILE = Path(__file__).parents[3] / "data" / "programs" / "pipeline.json"


def pipeline() -> Program:
    graph, on = chain(2), chip(2, 1)
    tree = parse_tree("S 8/4\n\tlayer0 2\n\tlayer1 2\n")
    return write_program(graph, ChipEvaluator(graph, on, 8, FormulaCosts(graph)).evaluate(tree))


def test_a_file_is_the_program_that_was_written() -> None:
    assert FILE.read_text(encoding="utf-8") == program_text(pipeline())
    assert read_program(FILE) == pipeline()


def test_random_programs_are_read_back() -> None:
    programs = [found[0] for seed in range(12) if (found := written(every_kind(), seed))]
    assert len(programs) > 1
    for program in programs:
        assert program_from_json(json.loads(program_text(program))) == program


def test_a_gzipped_file(tmp_path: Path) -> None:
    path = tmp_path / "program.json.gz"
    write_program_file(path, pipeline())
    assert path.read_bytes()[:2] == b"\x1f\x8b"
    assert read_program(path) == pipeline()


Change = Callable[[dict[str, Any]], object]
MISTAKES: dict[str, tuple[Change, str]] = {
    "a load without an address": (
        lambda it: it["tiles"][0][0].pop("address"),
        r"tiles\[0\]\[0\].address: expected a value, found nothing. Add the key address",
    ),
    "a message that cannot be": (
        lambda it: it["tiles"][0][0].update(load=-1),
        r"tiles\[0\]\[0\].load: expected at least 0, found -1",
    ),
    "a key too many": (
        lambda it: it["tiles"][0][0].update(to=1),
        r"tiles\[0\]\[0\].to: expected the keys of one instruction, found to",
    ),
    "no instruction": (
        lambda it: it["tiles"][0].append({"jump": 1}),
        r"tiles\[0\]\[18\]: expected an instruction with one of the keys load, .* found \{'jump': 1\}",
    ),
    "within a repetition": (
        lambda it: it["tiles"][0].append({"repeat": 2, "body": [{"free": "x"}]}),
        r"tiles\[0\]\[18\].body\[0\].free: expected a whole number, found 'x'",
    ),
    "an interval of one end": (
        lambda it: it["messages"][0].update(box=[[1]]),
        r"messages\[0\].box\[0\]: expected at least 2 entries, found \[1\]",
    ),
    "half a chip": (
        lambda it: it["chip"].pop("noc"),
        "chip: expected a chip as archsweep writes it, found 'noc'",
    ),
    "a chip without columns": (
        lambda it: it["chip"].update(columns=0),
        "chip.columns: expected a whole number of at least 1, found 0",
    ),
    "another version": (
        lambda it: it.update(format="archsweep program 0"),
        "format: expected 'archsweep program 1', found 'archsweep program 0'",
    ),
    "a program that cannot run": (
        lambda it: it["tiles"][0].pop(),
        r"tiles: expected a program that can run, found tile 0: messages \[0\] are never freed. Write",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named(mistake: str, tmp_path: Path) -> None:
    change, expected = MISTAKES[mistake]
    content, path = json.loads(json.dumps(program_to_json(pipeline()))), tmp_path / "wrong.json"
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(InputError, match=expected) as error:
        read_program(path)
    assert str(error.value).startswith(str(path))
