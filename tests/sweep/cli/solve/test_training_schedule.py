"""``archsweep solve schedule`` on the training step of a network of one's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from costmodel.schedule.tree.text import parse_tree
from costmodel.schedule.tree.tree import leaves

Command = Callable[..., tuple[int, str, str]]
GIVEN = ("solve", "schedule", "--chip", "set-edge", "--network", "net.json.training", "--batch", "2")
SOLVER = ("--solver", "kapla_schedule", "--tile-solver", "kapla", "--most-partitions", "1")


def layer(name: str, c: int, k: int, *before: int, stride: int = 1) -> dict[str, object]:
    window = {"R": 1, "S": 1, "sH": stride, "sW": stride, "pad_h": 0, "pad_w": 0}
    sizes = {"K": k, "H": 4 // stride, "W": 4 // stride, "ifmap_real": [c, 4, 4]}
    read = {"ifm_prevs": list(before), "external_C": 0 if before else c}
    return {"name": name, "type": "conv", **sizes, **window, **read}


@pytest.fixture
def solve(command_line: Command, tmp_path: Path) -> Command:
    layers = [layer("a", 8, 16), layer("b", 16, 16, 0), layer("c", 16, 8, 1, stride=2)]
    (tmp_path / "net.json").write_text(json.dumps({"name": "net", "layers": layers}))
    return lambda *options: command_line(*GIVEN, *SOLVER, *options)


@pytest.mark.slow
def test_all_parts_of_a_step_have_a_schedule_that_is_counted_again(
    solve: Command, command_line: Command, tmp_path: Path
) -> None:
    status, out, _ = solve("--json")
    assert status == 0
    answer = json.loads(out)
    order = ["a", "b", "c", "c.error", "b.error", "c.update", "b.update", "a.update"]
    assert [leaf.layer for leaf in leaves(parse_tree(answer["tree"]))] == order
    whole_chip = {one["layer"] for one in answer["spatial_temporal"] if one.get("whole_chip")}
    assert whole_chip >= {"c.error", "a.update", "b.update", "c.update"}
    weights, saved = 8 * 16 + 16 * 16 + 16 * 8, 2 * 16 * 16
    # weights forward and, but for a's, backward; their gradients; what a computes goes out and comes back
    assert answer["dram_bytes"] >= 3 * weights - 8 * 16 + 2 * saved
    (tmp_path / "schedule.json").write_text(out)
    status, again, _ = command_line("evaluate", "schedule.json", "--json")
    assert status == 0
    assert json.loads(again)["latency_cycles"] == answer["cycles"]


def test_what_needs_the_whole_chip_is_named(solve: Command) -> None:
    status, _, errors = solve("--no-whole-chip")
    assert status == 2
    assert "c.error of net.json.training runs in no other way" in errors.replace("\n", " ")
