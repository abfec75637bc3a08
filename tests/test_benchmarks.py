"""BENCHMARKS.md's writer: all benchmarks are in its list, and every number it writes is a record's."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
BENCHMARKS, RECORDS = ROOT / "benchmarks", ROOT / "tests" / "data" / "benchmarks"


@pytest.fixture(autouse=True)
def on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs import their neighbours, as they do when they are run."""
    monkeypatch.syspath_prepend(BENCHMARKS)


def programs() -> set[str]:
    """What can be run in the folder; other modules are parts of these."""
    files = BENCHMARKS.glob("*.py")
    return {file.stem for file in files if '__name__ == "__main__"' in file.read_text(encoding="utf-8")}


def test_every_benchmark_is_in_the_list_or_left_out_for_a_reason() -> None:
    from report.suite import ENTRIES, LEFT_OUT

    listed = {entry.program for entry in ENTRIES}
    assert listed | set(LEFT_OUT) == programs()
    assert not listed & set(LEFT_OUT)
    assert all(len(reason) > 10 for reason in LEFT_OUT.values())
    assert len({entry.name for entry in ENTRIES}) == len(ENTRIES)


def test_every_benchmark_records_in_one_way() -> None:
    from report.suite import ENTRIES

    for program in {entry.program for entry in ENTRIES}:
        text = (BENCHMARKS / f"{program}.py").read_text(encoding="utf-8")
        assert "record.parser(__doc__)" in text, program
        assert "record.finish(" in text, program
        assert "json.dumps(" not in re.sub(r"write_text\(json\.dumps", "", text), program


def test_arguments_are_the_programs_and_their_places_are_there(tmp_path: Path) -> None:
    from report.inputs import input_paths, named
    from report.suite import EFFORTS, ENTRIES

    where = input_paths(None, tmp_path)
    for entry in ENTRIES:
        text = (BENCHMARKS / f"{entry.program}.py").read_text(encoding="utf-8")
        for effort in EFFORTS:
            words = shlex.split(entry.arguments(effort))
            missing = [word for word in words if word.startswith("--") and f'"{word}"' not in text]
            assert not missing, entry.name
            assert all(where[name].exists() for name in named(entry.arguments(effort))), entry.name


def cells(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        if line.startswith("|"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def written_of(folder: Path) -> str:
    from report.document import document
    from report.inputs import input_paths
    from report.running import told
    from report.suite import ENTRIES

    results = {entry.name: told(folder, entry) for entry in ENTRIES}
    return document(results, "quick", input_paths(None, folder / "scratch"), "COMMAND")


def test_tables_of_stored_records() -> None:
    text = written_of(RECORDS)
    rows = list(cells(text))
    peers = json.loads((RECORDS / "exact_peers.json").read_text(encoding="utf-8"))["found"]
    for case in peers:
        row = next(row for row in rows if row[0] == case["case"])
        assert float(row[1]) == pytest.approx(case["pj_per_mac"], rel=1e-3)
        assert float(row[2]) == pytest.approx(case["cpu_seconds"], rel=1e-3)
        assert row[5:] == [case["accelforge"], case["zigzag"]]
    quality = json.loads((RECORDS / "cosa_quality.json").read_text(encoding="utf-8"))
    ratio = quality["found"]["edp"]["random_search_over_cosa"]["10"]["geomean"]
    assert ["edp", "10 times CoSA's CPU", f"{ratio:.4g}"] in [row[:3] for row in rows]
    surroundings = quality["surroundings"]
    assert ["machine", surroundings["machine"]] in rows
    assert any(row[0].startswith("commit") and surroundings["commit"] in row[1] for row in rows)


def test_the_page_begins_with_a_line_a_benchmark() -> None:
    text = written_of(RECORDS)
    glance = dict(cells(text.split("## At a glance")[1].split("## Conformance")[0]))
    title = "CoSA on its paper's networks"
    assert glance[f"[{title}](#cosa-on-its-papers-networks)"].startswith("33 of 33 programs proven")
    assert f"### {title}\n" in text
    assert len(glance) == 2 + 3


def test_published_numbers_stand_with_their_source() -> None:
    rows = list(cells(written_of(RECORDS)))
    theirs = next(row for row in rows if row[0].startswith("AccelForge 1.0.467"))
    assert "23.485 pJ/MAC (GEMM 512x512x512); 5.2 CPU s (" in theirs[1]
    assert "over 600 CPU s (ResNet-18 layer 12, not finished)" in theirs[1]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (None, "--graphs GRAPHS --seeds 3"),
        (["--graphs", "/elsewhere/graphs", "--seeds", "3"], "--graphs GRAPHS --seeds 3"),
        (["--graphs", "/elsewhere/graphs", "--seeds", "9"], "--graphs graphs --seeds 9"),
    ],
)
def test_the_command_is_the_one_that_was_run(words: list[str] | None, text: str) -> None:
    from report.inputs import taken

    assert taken("--graphs {graphs} --seeds 3", words, {"graphs": Path("/far/away")}) == text


def test_what_was_not_run_or_failed_is_a_line_that_says_so(tmp_path: Path) -> None:
    shutil.copy(RECORDS / "exact_peers.json", tmp_path)
    (tmp_path / "store.failed").write_text("it ended with status 1: no space left\n", encoding="utf-8")
    text = written_of(tmp_path)
    assert "benchmarks/store.py --rows 30000`: **no result**, it ended with status 1: no space left." in text
    assert "**no result**, it was not run." in text


def session(folder: Path, **inputs: Path) -> Any:
    from report.running import Session

    return Session(folder, "quick", {"scratch": folder / "scratch", **inputs})


def test_a_run_leaves_a_record_that_is_not_made_again(tmp_path: Path) -> None:
    from record import Record
    from report.suite import CONFORMANCE

    entry = CONFORMANCE[0]
    data = shutil.copytree(ROOT / "tests" / "data" / "timeloop", tmp_path / "cases")
    for other in data.glob("[ABDE]_*"):
        other.unlink()
    runs = session(tmp_path / "records", timeloop=data)
    found = runs.run(entry)
    assert isinstance(found, Record)
    assert (found.found["cases"], found.found["equal"], found.status) == (51, 51, 0)
    assert found.arguments == (str(data),)
    assert found.surroundings.python == sys.version.split()[0]
    assert replace(runs, keep=True).finished(entry) == found
    assert replace(runs, keep=True, inputs={**runs.inputs, "timeloop": tmp_path}).finished(entry) is None
    assert ["all", "", "51", "51"] in list(cells(written_of(tmp_path / "records")))


def test_a_failing_benchmark_is_told_with_its_last_words(tmp_path: Path) -> None:
    from report.running import told
    from report.suite import CONFORMANCE

    runs = session(tmp_path, timeloop=tmp_path / "nowhere")
    reason = runs.run(CONFORMANCE[0])
    assert reason.startswith("it ended with status 2: ")
    assert "nowhere" in reason
    assert told(tmp_path, CONFORMANCE[0]) == reason


def test_a_benchmark_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    from report.running import told
    from report.suite import CONFORMANCE

    runs = replace(session(tmp_path, timeloop=ROOT / "tests" / "data" / "timeloop"), wall_minutes=1e-4)
    assert runs.run(CONFORMANCE[0]) == "it was ended after 0.0001 minutes"
    assert told(tmp_path, CONFORMANCE[0]) == "it was ended after 0.0001 minutes"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234567, "1,234,567"),
        (0.000123456, "0.000123"),
        (0.00123456, "0.001235"),
        (12345.6, "12,346"),
        (4.94e26, "4.94e+26"),
        (0.0, "0"),
        (float("inf"), "none"),
        (None, ""),
        (True, "yes"),
        ([1.5, 2], "1.5, 2"),
        ("a|b", "a\\|b"),
    ],
)
def test_numbers_are_written_with_four_digits(value: object, text: str) -> None:
    from report.table import written

    assert written(value) == text


def test_any_json_becomes_tables() -> None:
    from report.table import plain_tables

    found = {"cases": 3, "rows": [{"name": "a", "worst": 1.5}, {"name": "b"}], "inner": {"deep": {"x": 1}}}
    lines = [line for table in plain_tables(found) for line in table.markdown()]
    assert "| cases | 3 |" in lines
    assert "| a | 1.5 |" in lines
    assert "| b |  |" in lines
    assert lines[-1] == "| x | 1 |"


def test_kaplas_evaluation_shows_methods_side_by_side() -> None:
    from report.shown_kapla import kapla_paper

    k = {
        "overhead_best": 0.01,
        "overhead_at_most": 0.02,
        "cpu_seconds": 3.0,
        "objective": 8.0,
        "energy_pj": 8.0,
    }
    row = {
        "network": "mlp",
        "batch": 64,
        "proven": 2,
        "distinct": 3,
        "methods": {"S": {"cpu_seconds": 9.0}, "K": k},
    }
    whole = {"network": "mlp", "step": ".training", "methods": {"S": None, "K": k, "R": {"objective": 10.0}}}
    found = {
        "fig7": {"title": "training", "networks": [row]},
        "whole": {"whole": [whole]},
        "table6": {"x": 1},
    }
    layers, networks, other = kapla_paper(found)
    assert dict(zip(layers.headings, layers.rows[0], strict=True))["K over the optimum, at most"] == 0.02
    shown = dict(zip(networks.headings, networks.rows[0], strict=True))
    assert (shown["network"], shown["S over K"], shown["R over K"]) == ("mlp.training", None, 1.25)
    assert other.rows == (("x", 1),)


def test_a_proof_that_compared_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    import record
    from report import headlines

    tally = {"problems": 3, "enumerated": 0, "unproven": 0, "gained": 0, "failures": 0}
    assert record.proof_status(tally, "enumerated") == 1
    assert "nothing was compared" in capsys.readouterr().err
    assert record.proof_status(tally | {"enumerated": 2}, "enumerated") == 0
    assert record.proof_status(tally | {"enumerated": 2, "failures": 1}, "enumerated") == 1
    assert headlines.attack(tally | {"enumerated": 2}) == "2 problems enumerated, 0 failures"
    claims: list[Callable[[], str]] = [
        lambda: headlines.attack(tally),
        lambda: headlines.attack({"valid_mappings": 0, "failures": 0}),
        lambda: headlines.conformance({"equal": 0, "cases": 0}),
        lambda: headlines.chip_bounds({"rows": [], "bound_energy_pj": 1.0, "bound_cycles": 1.0}),
    ]
    for claim in claims:
        with pytest.raises(ValueError, match="found none"):
            claim()
