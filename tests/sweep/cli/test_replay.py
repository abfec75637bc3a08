"""``archsweep replay``: numbers, a trace and errors of a stored program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from costmodel.errors import InputError
from costmodel.formats.json.programs import program_from_json, program_to_json, read_program
from costmodel.hardware.pe_mesh import PeMesh
from sweep.cli.main import app
from tests.costmodel.replay.programs import compute, load, message, program, work
from tests.costmodel.schedule.chip_cases import chip

FILE = Path(__file__).parents[2] / "data/programs/pipeline.json"


def test_numbers_as_tables_and_as_json() -> None:
    ended = CliRunner().invoke(app, ["replay", str(FILE), "--json"])
    assert ended.exit_code == 0, ended.output
    (line,) = ended.stdout.splitlines()
    found = json.loads(line)
    stored = read_program(FILE)
    assert (found["operations"], found["computes"]) == (4096, 8)
    assert len(found["tiles"]["busy_cycles"]) == stored.chip.tiles
    assert {layer["layer"] for layer in found["layers"]} == {work.layer for work in stored.works}
    assert sum(link["bytes"] for link in found["links"]) == pytest.approx(found["noc_hop_bytes"])
    table = CliRunner().invoke(app, ["replay", str(FILE)])
    assert table.exit_code == 0
    assert f"{found['cycles']:,}" in table.stdout
    assert f"{found['dram_read_bytes']:,}" in table.stdout


def test_latency_takes_longer() -> None:
    cycles = []
    for options in ([], ["--dram-latency", "100"], ["--dram-latency", "100", "--hop-latency", "10"]):
        ended = CliRunner().invoke(app, ["replay", str(FILE), "--json", *options])
        cycles.append(json.loads(ended.stdout)["cycles"])
    assert cycles[0] + 100 <= cycles[1] < cycles[2]


def test_a_page_shows_the_run(tmp_path: Path) -> None:
    path = tmp_path / "replay.html"
    ended = CliRunner().invoke(app, ["replay", str(FILE), "--json", "--page", str(path)])
    assert ended.exit_code == 0, ended.output
    page, stored = path.read_text(encoding="utf-8"), read_program(FILE)
    frames = json.loads(page[page.index('id="mesh-data">') :].split(">", 1)[1].split("</script>")[0])[
        "frames"
    ]
    tiles = [frame["data"][-1] for frame in frames]
    assert {len(one["x"]) for one in tiles} == {stored.chip.tiles}
    named = {text.split("<br>")[1].split(",")[0] for one in tiles for text in one["hovertext"]}
    assert named == {work.layer for work in stored.works} | {"idle"}


def test_a_trace_has_every_compute_and_message(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    ended = CliRunner().invoke(app, ["replay", str(FILE), "--json", "--trace", str(path)])
    assert ended.exit_code == 0, ended.output
    found, events = json.loads(ended.stdout), json.loads(path.read_text())
    slices = [event for event in events if event["ph"] == "X"]
    computes = [event for event in slices if event["pid"] == 1]
    assert len(computes) == found["computes"]
    assert len(slices) == found["computes"] + found["transfers"]
    assert sum(event["dur"] for event in computes) == sum(found["tiles"]["busy_cycles"])
    assert max(event["ts"] + event["dur"] for event in slices) <= found["cycles"]
    of_thread: dict[tuple[int, int], float] = {}
    for event in slices:
        thread = event["pid"], event["tid"]
        assert event["ts"] >= of_thread.get(thread, 0.0)
        of_thread[thread] = event["ts"] + event["dur"]
    assert all(isinstance(json.loads(line.rstrip(",")), dict) for line in path.read_text().splitlines()[1:-1])


def test_wrong_input_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "program.json"
    one = chip(1, 1)
    wrong = program(one, [message(40, (), (0,))], [work(1)], [compute(0, 0), load(0)])
    path.write_text(json.dumps(program_to_json(wrong)))
    ended = CliRunner().invoke(app, ["replay", str(path)])
    assert isinstance(ended.exception, InputError)
    assert "program.json" in str(ended.exception)
    ended = CliRunner().invoke(app, ["replay", str(FILE), "--trace", str(tmp_path / "no/where.json")])
    assert isinstance(ended.exception, InputError)
    assert "--trace" in str(ended.exception)


def test_a_mapping_as_a_program_of_a_mesh(tmp_path: Path) -> None:
    path = tmp_path / "program.json.gz"
    asked = ["solve", "mapping", "--architecture", "simba", "--layer", "cosa_alexnet/fc8", "--solver", "cosa"]
    wide = [*asked, "--program", str(path), "--link-bytes", "16"]
    ended = CliRunner().invoke(app, [*wide, "--json"])
    assert ended.exit_code == 0, ended.output
    evaluation = json.loads(ended.stdout)["evaluation"]
    stored = read_program(path)
    assert isinstance(stored.chip, PeMesh)
    assert stored.chip.noc.link_bytes_per_cycle == 16
    assert program_from_json(json.loads(json.dumps(program_to_json(stored)))) == stored
    ended = CliRunner().invoke(app, ["replay", str(path), "--json"])
    assert ended.exit_code == 0, ended.output
    found = json.loads(ended.stdout)
    assert found["operations"] == evaluation["macs"]
    assert found["cycles"] >= evaluation["cycles"]
    assert 0 < found["utilization"] <= 1
    table = CliRunner().invoke(app, ["replay", str(path)])
    assert table.exit_code == 0
    assert "waited for data" in table.stdout


def test_a_mapping_without_a_program_is_refused(tmp_path: Path) -> None:
    asked = ["solve", "mapping", "--layer", "cosa_alexnet/fc8", "--architecture"]
    ended = CliRunner().invoke(app, [*asked, "gemmini", "--program", str(tmp_path / "program.json")])
    assert isinstance(ended.exception, InputError)
    assert "timing" in str(ended.exception)
    ended = CliRunner().invoke(app, [*asked, "simba", "--link-bytes", "4"])
    assert isinstance(ended.exception, InputError)
    assert "--program" in str(ended.exception)
