"""Names, numbers and files that nobody can use: exit status 2 and a message, no traceback."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sweep.study.study import load_study
from tests.sweep.ended import Command, Ended

LONG = "x" * 5000
MAPPING = ["solve", "mapping", "--architecture", "eyeriss", "--layer", "alexnet/fc8"]
QUICK = ["--solver", "random_search", "--iterations", "3"]
SCHEDULE = ["solve", "schedule", "--chip", "set-edge", "--network", "alexnet", "--tile-solver", "nvdla"]
QUICK_SCHEDULE = ["--seeds", "1", "--params", '{"beta": 1}']


def refused_plan(command_line: Command, path: Path) -> Ended:
    """How ``archsweep plan`` of a study ended that is wrong."""
    ended = command_line("plan", str(path))
    assert ended.status == 2
    return ended


@pytest.mark.parametrize("ending", ["", ".yaml", ".json", ".onnx"])
@pytest.mark.parametrize(
    "before",
    [
        ["run"],
        ["plan"],
        ["plan", "quickstart", "-o"],
        ["report"],
        ["pareto"],
        ["evaluate"],
        ["cluster", "check"],
        ["list"],
        [*MAPPING, "--constraints"],
        ["solve", "mapping", "--layer", "alexnet/fc8", "--architecture"],
        ["solve", "mapping", "--architecture", "eyeriss", "--layer"],
        ["solve", "schedule", "--network", "alexnet", "--chip"],
        ["solve", "schedule", "--chip", "set-edge", "--network"],
        ["solve", "scratchpad", "--graph"],
        ["solve", "codesign", "--network", "alexnet", "--architecture"],
    ],
    ids=lambda before: "-".join(before),
)
def test_a_name_longer_than_any_files_is_refused(
    command_line: Command, before: list[str], ending: str
) -> None:
    ended = command_line(*before, LONG + ending)
    assert ended.status == 2
    assert "expected" in ended.err.lower() or "Invalid value" in ended.err


@pytest.mark.parametrize(("key", "value"), [("architecture", LONG), ("networks", f"[{LONG}]")])
def test_a_study_that_names_what_no_file_is_called(
    command_line: Command, write_study: Callable[..., Path], key: str, value: str
) -> None:
    keys = {"name": "t", "networks": "[alexnet]", "architecture": "eyeriss"} | {key: value}
    path = write_study("\n".join(f"{k}: {v}" for k, v in keys.items()))
    ended = refused_plan(command_line, path)
    assert f"{path}: {key}" in ended.err


def test_a_folder_in_place_of_a_network_is_said_with_the_study(
    command_line: Command, write_study: Callable[..., Path], tmp_path: Path
) -> None:
    path = write_study(f"name: t\nnetworks: [{tmp_path}]\narchitecture: eyeriss\n")
    ended = refused_plan(command_line, path)
    assert f"{path}: networks[0]: expected a file ending in one of .onnx" in ended.err


def test_a_pipe_is_not_waited_for(command_line: Command, tmp_path: Path) -> None:
    pipe = tmp_path / "cases.jsonl"
    os.mkfifo(pipe)
    ended = command_line("evaluate", str(pipe))
    assert ended.status == 2
    assert "expected a file that can be read, found no plain file" in ended.err


@pytest.mark.parametrize("name", ["cases.jsonl", "cases.json", "cases"])
def test_a_file_without_a_case_is_no_success(command_line: Command, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("\n", encoding="utf-8")
    ended = command_line("evaluate", str(tmp_path / name))
    assert ended.status == 2
    assert f"{tmp_path / name}: expected at least one case, found none" in ended.err


@pytest.mark.parametrize(
    "command", [MAPPING, SCHEDULE, ["solve", "scratchpad", "--graph", "alexnet"]], ids=lambda c: c[1]
)
def test_params_of_thousands_of_brackets(command_line: Command, command: list[str]) -> None:
    ended = command_line(*command, "--params", "[" * 5000)
    assert ended.status == 2
    assert "--params: expected a JSON object" in ended.err


@pytest.mark.parametrize("place", ["/", ".", "no/such/folder/file"])
@pytest.mark.parametrize(
    ("command", "option"),
    [([*MAPPING, *QUICK], "--timeloop"), ([*SCHEDULE, *QUICK_SCHEDULE], "--chart")],
    ids=["timeloop", "chart"],
)
def test_a_file_that_cannot_be_written_is_said_before_anything_is_solved(
    command_line: Command, command: list[str], option: str, place: str
) -> None:
    ended = command_line(*command, option, place)
    assert ended.status == 2
    assert f"{option}: expected a file that can be written, found {place}" in ended.err
    assert "solves" not in ended.err
    assert not ended.out


@pytest.mark.parametrize("batch", [10**13, 10**18, 10**30])
def test_a_batch_whose_counts_do_not_fit(
    command_line: Command, write_study: Callable[..., Path], batch: int
) -> None:
    text = "name: t\nchip: set-edge\nmapping: {solver: nvdla}\n"
    stated = write_study(text + f"networks: [alexnet]\nschedule: {{solver: set, batch: {batch}}}\n")
    ended = command_line("plan", str(stated))
    assert ended.status == 2
    assert f"{stated}: schedule.batch: expected a batch of which conv1 has at most" in ended.err
    of_one = write_study(
        text + f"networks: [{{network: alexnet, batch: {batch}}}]\nschedule: {{solver: set}}\n"
    )
    assert f"{of_one}: networks[0].batch: expected a batch" in command_line("plan", str(of_one)).err


@pytest.mark.parametrize("key", ["bits_per_element", "alignment_bytes"])
def test_a_scratchpad_with_more_bytes_than_fit_names_the_study(
    command_line: Command, write_study: Callable[..., Path], key: str
) -> None:
    text = "name: t\nnetworks: [alexnet]\narchitecture: eyeriss\n"
    path = write_study(text + f"scratchpad: {{level: SRAM, {key}: {10**30}}}\n")
    ended = refused_plan(command_line, path)
    assert f"{path}: scratchpad: expected fewer than" in ended.err


@pytest.mark.parametrize(
    ("axis", "value", "what"),
    [
        ("RegFile.size", 10**30, "levels.RegFile.size_words"),
        ("RegFile.size", 2**53, "levels.RegFile.area_um2"),
        ("technology", "null", "levels.RegFile.energy"),
    ],
)
def test_what_follows_from_a_value_of_an_axis_names_the_axis(
    command_line: Command, write_study: Callable[..., Path], axis: str, value: object, what: str
) -> None:
    text = "name: t\nnetworks: [alexnet]\narchitecture: eyeriss\n"
    path = write_study(text + f"axes: {{SRAM.size: {{choices: [64 KiB]}}, {axis}: {{choices: [{value}]}}}}\n")
    ended = refused_plan(command_line, path)
    assert f"{path}: axes.{axis}: expected" in ended.err
    assert f" for {what}, found" in ended.err
    if axis == "RegFile.size":
        ended = command_line(*MAPPING, *QUICK, "--set", f"{axis}={value}")
        assert ended.status == 2
        assert f"override of architecture eyeriss: {axis}: expected" in ended.err


@pytest.mark.parametrize(
    ("axis", "value"),
    [
        ("dram.bandwidth", 10**30),
        ("tile.buffer.size", 10**30),
        ("tile.output_stream", "2 MiB"),
        ("frequency", "1e30 GHz"),
    ],
)
def test_what_follows_from_a_value_of_a_chips_axis_names_the_axis(
    command_line: Command, write_study: Callable[..., Path], axis: str, value: object
) -> None:
    text = "name: t\nchip: set-edge\nnetworks: [alexnet]\nmapping: {solver: nvdla}\nschedule: {solver: set}\n"
    path = write_study(text + f"axes: {{{axis}: {{choices: [{value}]}}}}\n")
    ended = refused_plan(command_line, path)
    assert f"{path}: axes.{axis}: expected" in ended.err


def test_an_axis_whose_part_has_no_area_is_refused_where_area_counts(
    command_line: Command, write_study: Callable[..., Path]
) -> None:
    text = "name: t\nchip: kapla-16x16-paper\nnetworks: [alexnet]\nmapping: {solver: kapla}\n"
    text += "schedule: {solver: set}\naxes: {dram.bandwidth: {choices: [25 B/cycle, 50 B/cycle]}}\n"
    path = write_study(text + "objectives: [energy_pj, area_um2]\n")
    ended = refused_plan(command_line, path)
    assert f"{path}: axes.dram.bandwidth: expected an area that it changes" in ended.err
    assert "Give dram.interface_area in the chip file" in ended.err


def test_a_file_that_is_wrong_itself_is_not_blamed_on_an_axis(
    command_line: Command, write_study: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "wrong.yaml").write_text(
        json.dumps({"name": "w", "levels": [{"name": "DRAM", "kind": "dram"}], "compute": {}}),
        encoding="utf-8",
    )
    path = write_study(
        "name: t\nnetworks: [alexnet]\narchitecture: wrong.yaml\naxes: {frequency: {choices: [1 GHz]}}\n"
    )
    ended = refused_plan(command_line, path)
    assert "wrong.yaml: " in ended.err
    assert "axes" not in ended.err


def test_a_weight_that_no_sum_would_feel_is_refused(
    command_line: Command, write_study: Callable[..., Path]
) -> None:
    path = write_study("name: t\nnetworks: [{network: alexnet, weight: 1e-320}]\narchitecture: eyeriss\n")
    ended = refused_plan(command_line, path)
    assert f"{path}: networks[0].weight: expected at least 1e-12" in ended.err
    assert load_study(str(write_study(path.read_text(encoding="utf-8").replace("1e-320", "1e-9"))))


@pytest.mark.parametrize(
    "address", ["http://", "ftp://head:8265", "http://[::1", "http://head:99999999", "http://:8265"]
)
@pytest.mark.parametrize("command", [["status"], ["stop", "job"], ["attach", "j"], ["submit", "quickstart"]])
def test_what_can_be_no_dashboard_is_wrong_input(
    command_line: Command, command: list[str], address: str
) -> None:
    ended = command_line(*command, "--address", address)
    assert ended.status == 2
    assert f"expected a dashboard's address, such as http://HOST:8265, found {address}" in ended.err
