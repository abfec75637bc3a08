"""The memory map against the plan that it draws."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from results.report.data import RunData
from results.report.page import build_page
from results.report.sections.what_next.run import headline
from results.report.sections.why_this_one import memory as report_memory
from results.report.sections.why_this_one.memory import blocks, map_content, memory_section
from results.store.folder import RunWriter

Make = Callable[..., Any]


def test_every_residency_is_one_block_with_its_spill_and_retrieval(make_scratchpad: Make) -> None:
    found = {(block.name, block.start): block for block in blocks(make_scratchpad())}
    spans = {key: (block.end, block.address, block.size) for key, block in found.items()}
    assert spans == {
        ("x", 0): (2, 0, 1024),
        ("y", 0): (2, 1024, 512),
        ("y", 4): (6, 3072, 512),
        ("z", 2): (5, 0, 1024),
        ("w", 3): (6, 1024, 1024),
        ("parameters of c", 2): (3, 2048, 256),
    }
    assert [key for key, block in found.items() if block.leaves] == [("y", 0)]
    assert [key for key, block in found.items() if block.arrives] == [("y", 4)]


def test_the_map_shows_the_bytes_that_the_row_counts(make_scratchpad: Make) -> None:
    row = make_scratchpad(0, graph="<net>")
    content = map_content(row)
    moved = sum(content["sizes"][place] for place in content["spills"] + content["retrievals"])
    assert (moved * 1024, content["unit"]) == (row["objective_bytes"], "KiB")
    assert content["budget"] == 4
    tops = [a + s for a, s in zip(content["addresses"], content["sizes"], strict=True)]
    assert max(tops) <= content["budget"]
    # one colour a tensor, however often it comes back; parameters have their own
    assert content["colors"] == [0, 1, 1, 2, 3, -1]


def test_large_plans_show_their_largest_blocks(
    make_scratchpad: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_memory, "MOST_BLOCKS", 3)
    content = map_content(make_scratchpad())
    assert content["sizes"] == [1, 1, 1]
    assert content["names"] == ["x", "z", "w"]


def test_rows_without_a_plan_are_listed_and_not_drawn(run_path: Path, make_scratchpad: Make) -> None:
    assert memory_section_of(run_path, []) is None
    rows = [make_scratchpad(0), make_scratchpad(1, status="infeasible", plan=None, objective_bytes=None)]
    section = memory_section_of(run_path, rows)
    assert section is not None
    assert section.count("<option") == 1
    assert "infeasible" in section
    assert "Memory map" not in str(memory_section_of(run_path.with_name("none"), [rows[1]]))


def memory_section_of(path: Path, rows: list[Any]) -> str | None:
    with RunWriter(path) as run:
        run.write_lock_file({"study": {"name": "s"}})
        for row in rows:
            run.append("scratchpads", row)
    section = memory_section(RunData.read(path))
    return None if section is None else str(section.content)


def test_only_plans_of_the_study_s_designs_are_shown(
    run_path: Path, make_scratchpad: Make, make_design: Make
) -> None:
    used, unused = make_scratchpad(0, graph="used"), make_scratchpad(1, graph="left over")
    networks = make_design(0)["networks"] | {
        "n2": {"weight": 1.0, "layers": [], "scratchpad": used["task_id"]}
    }
    with RunWriter(run_path) as run:
        for row in (used, unused):
            run.append("scratchpads", row)
        run.append("designs", make_design(0, networks=networks))
    assert [row["graph"] for row in RunData.read(run_path).scratchpads] == ["used"]
    assert "left over" not in build_page(RunData.read(run_path))


def test_settings_are_named_where_they_are_not_the_usual(run_path: Path, make_scratchpad: Make) -> None:
    setting = {"parameters": True, "in_place": False, "bits_per_element": 16, "alignment_bytes": 64}
    section = memory_section_of(run_path, [make_scratchpad(0, setting=setting)])
    assert "parameters, 16-bit elements, blocks of whole 64 B" in str(section)
    plain = {"parameters": False, "bits_per_element": 8, "alignment_bytes": 1}
    section = memory_section_of(run_path.with_name("plain"), [make_scratchpad(0, setting=plain)])
    assert "8-bit elements<" in str(section)


def test_the_headline_counts_plans_among_the_solves(run_path: Path, make_scratchpad: Make) -> None:
    with RunWriter(run_path) as run:
        run.append("scratchpads", make_scratchpad(0, cached=False, cpu_seconds=2.5))
        run.append("scratchpads", make_scratchpad(1, cached=True, cpu_seconds=100.0))
        run.append("scratchpads", make_scratchpad(2, status="failed", plan=None, cpu_seconds=1.5))
    text = str(headline(RunData.read(run_path)))
    cards = {"Solves": "3", "From the store": "1", "Failed solves": "1", "CPU time": "4 s"}
    for name, value in cards.items():
        assert f"<dt>{name}</dt><dd>{value}" in text.replace(' class="bad"', "")
