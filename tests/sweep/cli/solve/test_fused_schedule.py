"""``archsweep solve schedule --fused-groups``: what it says, what of it is stored, and that it can be counted
again and replayed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costmodel.formats.chips import FOLDER
from results.store.folder import RunFolder
from results.store.schema.chips import SCHEDULES
from results.store.schema.tables import FUSIONS
from tests.sweep.cli.solve.test_schedule import CHAIN
from tests.sweep.ended import Command


@pytest.mark.slow
def test_layers_whose_maps_fit_no_tiles_are_mapped_together(command_line: Command, tmp_path: Path) -> None:
    """Two layers of 1 KiB of maps, on four tiles of half a KiB: together only ends of the chain move."""
    wide: Any = json.loads(json.dumps(CHAIN))
    for layer in wide["layers"]:
        layer.update({"K": 4, "H": 16, "W": 16, "ifmap_real": [4, 16, 16]})
        layer.update({"external_C": 0 if layer["ifm_prevs"] else 4})
    (tmp_path / "wide.json").write_text(json.dumps(wide))
    chip = (FOLDER / "set-edge-eyeriss.yaml").read_text().replace("size: 1 MiB", "size: 0.75 KiB", 1)
    chip = chip.replace("output_stream: 10 KiB", "output_stream: 0.25 KiB")
    chip = chip.replace("mesh: [4, 4]", "mesh: [2, 2]").replace("stripe: 4", "stripe: 2")
    (tmp_path / "small.yaml").write_text(chip)
    asked: tuple[str, ...] = (
        "solve",
        "schedule",
        "--network",
        "wide.json",
        "--chip",
        "small.yaml",
        "--most-partitions",
        "4",
    )
    asked = (*asked, "--solver", "segment_chain", "--tile-solver", "cosa", "--tile-seconds", "2")
    asked = (*asked, "--objective", "energy")
    answers = []
    for options in ((), ("--fused-groups", "--program", "program.json", "--output", "runs/fused")):
        status, out, errors = command_line(*asked, *options, "--json")
        assert status == 0, errors
        answers.append(json.loads(out))
    apart, fused = answers
    assert "fused_groups" not in apart
    assert not any("fused_with" in leaf for leaf in apart["leaves"])
    assert fused["fused_groups"]
    assert [leaf["fused_with"] for leaf in fused["leaves"]] == [["b"], ["a"]]
    tiles = 1
    for parts in fused["leaves"][0]["cut"].values():
        tiles *= parts
    assert tiles == 4
    assert "a to b" in fused["leaves"][0]["tree"]
    assert {leaf["layer"]: leaf.get("fused") for leaf in fused["spatial_temporal"]} == {"a": True, "b": True}
    assert fused["bound"] <= fused["objective"] < apart["objective"]
    # inputs, outputs and weights once: what passes between the layers stays in the tiles
    assert fused["dram_bytes"] == 2 * 4 * 16 * 16 + 2 * 4 * 4
    assert fused["dram_bytes"] < apart["dram_bytes"]
    folder = RunFolder(tmp_path / "runs" / "fused")
    row: Any
    (row,) = folder.read_rows(SCHEDULES)
    assert row["tile_mapper"]["fused_groups"] is True
    assert row["energy_bound_pj"] <= row["energy_pj"]
    assert row["cycles_bound"] <= row["cycles"]
    assert [one["layer_names"] for one in folder.read_rows(FUSIONS)] == 2 * [["a", "b"]]
    (tmp_path / "schedule.json").write_text(out)
    status, again, _ = command_line("evaluate", "schedule.json", "--json")
    assert (status, json.loads(again)["latency_cycles"]) == (0, fused["cycles"])
    assert json.loads(again)["energy_pj"] == pytest.approx(fused["energy_pj"])
    status, replayed, _ = command_line("replay", "program.json", "--json")
    assert status == 0
    moved = json.loads(replayed)
    assert moved["dram_read_bytes"] + moved["dram_write_bytes"] == fused["dram_bytes"]
    assert moved["noc_hop_bytes"] == fused["noc_hop_bytes"]
    assert moved["cycles"] == pytest.approx(fused["cycles"], rel=0.3)
