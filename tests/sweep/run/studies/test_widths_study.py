"""A study whose chips have elements of two widths: rows, stored trees and stored programs are each chip's."""

from __future__ import annotations

from pathlib import Path

import pytest

from costmodel.formats.chips import load_chip
from costmodel.formats.json.programs import unpacked_program
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.hardware.widths import Widths
from costmodel.replay.replay import replay
from costmodel.schedule.bounds.compulsory import compulsory
from results.store.folder import RunFolder
from sweep.run.session import RuntimeChoice, run_study
from sweep.study.study import load_study
from tests.sweep.run.studies.test_schedule_study import write

TILE = """
name: words
technology: set-12nm
word_bits: 8
levels:
  - {name: Buffer, kind: sram, energy: 1 pJ, fanout: [4, 4], area: 0 um2}
  - {name: Registers, kind: register, size: 8 words, energy: 0.1 pJ}
compute: {energy: 0.1 pJ}
"""
STUDY = """
name: widths
networks: [skip.json]
chip: {chip}
axes:
  tile.architecture.word_bits: {{choices: [8, 16]}}
  weight_bits: {{choices: [4, 8]}}
objectives: [energy_pj, cycles]
mapping: {{solver: random_search, iterations: 20}}
schedule: {{solver: layer_sequential, batch: 2, seeds: 1, most_partitions: 1, params: {{beta: 1}}}}
"""


@pytest.mark.slow
def test_designs_of_two_widths(tmp_path: Path) -> None:
    chip = (Path(load_chip.__code__.co_filename).parents[1] / "hardware/chips/set-edge.yaml").read_text()
    (tmp_path / "tile.yaml").write_text(TILE)
    (tmp_path / "mine.yaml").write_text(chip.replace("architecture: nvdla", "architecture: tile.yaml"))
    study = load_study(str(write(tmp_path, STUDY.format(chip="mine.yaml"))))
    folder = RunFolder(run_study(study, tmp_path / "runs", RuntimeChoice(in_process=True)).path)
    graph = load_layer_graph(str(tmp_path / "skip.json"))
    rows = {row["task_id"]: row for row in folder.read_rows("schedules")}
    programs = {row["schedule_id"]: row["program"] for row in folder.read_rows("programs")}
    found = {}
    for design in folder.read_rows("designs"):
        assert design["status"] == "complete"
        values = design["axes"]
        widths = Widths(values["weight_bits"], *[values["tile.architecture.word_bits"]] * 2)
        best = rows[design["networks"]["skip.json"]["schedule"]]
        program = unpacked_program(programs[best["task_id"]])
        assert program.chip.tile.widths == widths
        done, least = replay(program), compulsory(graph, 2, widths)
        assert done.dram_read_bytes + done.dram_write_bytes == best["dram_bytes"]
        assert 8 * best["dram_bytes"] >= least.dram_read + least.dram_write
        found[widths.weights, widths.activations] = best
    assert len(found) == 4
    for weights in (4, 8):
        assert found[weights, 8]["energy_pj"] < found[weights, 16]["energy_pj"]
    for activations in (8, 16):
        assert found[4, activations]["dram_bytes"] < found[8, activations]["dram_bytes"]
