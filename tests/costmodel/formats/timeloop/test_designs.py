"""Designs as Timeloop's users write them: loaded, proven within their constraints, exported and read back."""

from __future__ import annotations

from pathlib import Path

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.technologies import load_technology
from costmodel.formats.timeloop.architecture import FanOutStep, TimeloopArchitecture, timeloop_architecture
from costmodel.formats.timeloop.case import problem_of, read_timeloop_case
from costmodel.formats.timeloop.constraints import read_constraints
from costmodel.formats.timeloop.export import VERSIONS, Version, mapping_text
from costmodel.formats.timeloop.files import TimeloopFiles, read_timeloop
from costmodel.mapping.evaluate import evaluate
from solvers.budget import Budget
from solvers.mapping import exact, exhaustive
from solvers.mapping.problem import MappingProblem, violations
from solvers.mapping.space.rules import LevelRules, SpaceRules
from solvers.outcome import Status

FILES = Path(__file__).parents[3] / "data" / "timeloop_files"
THISTLE_45NM = load_technology("thistle-45nm")
DESIGNS = FILES / "designs"
NAMES = ["output_stationary", "row_stationary", "distributed_weights", "weight_stationary"]
LAYER = DESIGNS / "layer.yaml"


def described(path: Path) -> tuple[TimeloopFiles, TimeloopArchitecture]:
    files = read_timeloop([path, LAYER])
    return files, timeloop_architecture(files, path.stem)


def problem(path: Path) -> MappingProblem:
    files, chip = described(path)
    layer = problem_of(files)
    levels = (LevelRules.from_json(asked.to_json()) for asked in read_constraints(files, chip, layer))
    return MappingProblem(chip.build(), layer, "edp", SpaceRules("free", tuple(levels)))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", NAMES)
def test_a_proven_mapping_is_exported_and_counts_the_same(
    name: str, version: Version, tmp_path: Path
) -> None:
    asked = problem(DESIGNS / f"{name}.yaml")
    outcome = exact.solve(asked, Budget(60))
    assert outcome.status is Status.OPTIMAL
    assert outcome.solution is not None
    assert violations(asked, outcome.solution) == []
    _, chip = described(DESIGNS / f"{name}.yaml")
    text = mapping_text(asked.architecture, asked.layer, outcome.solution, version, chip.fan_out_steps)
    (tmp_path / "best.yaml").write_text(text)
    case, _ = read_timeloop_case([DESIGNS / f"{name}.yaml", LAYER, tmp_path / "best.yaml"])
    assert case.mapping == outcome.solution
    assert evaluate(case.architecture, case.layer, case.mapping).edp_pj_cycles == outcome.objective


@pytest.mark.slow
def test_a_design_is_proven_as_enumeration_finds_it(tmp_path: Path) -> None:
    text = (DESIGNS / "weight_stationary.yaml").read_text()
    (tmp_path / "small.yaml").write_text(
        text.replace("Cell[0..31]", "Cell[0..3]").replace("meshX: 8", "meshX: 2")
    )
    sizes = ("C: 6, M: 8, N: 1, P: 10, Q: 12, R: 3, S: 3", "C: 2, M: 4, N: 1, P: 3, Q: 2, R: 2, S: 1")
    (tmp_path / "layer.yaml").write_text(LAYER.read_text().replace(*sizes))
    files = read_timeloop([tmp_path / "small.yaml", tmp_path / "layer.yaml"])
    chip = timeloop_architecture(files, "small")
    levels = (LevelRules.from_json(c.to_json()) for c in read_constraints(files, chip, problem_of(files)))
    asked = MappingProblem(chip.build(), problem_of(files), "energy", SpaceRules("free", tuple(levels)))
    every, best = exhaustive.solve(asked, Budget(120)), exact.solve(asked, Budget(60))
    assert every.status is best.status is Status.OPTIMAL
    assert best.objective == every.objective


def test_fan_outs_are_addressed_as_each_version_does() -> None:
    _, chip = described(DESIGNS / "distributed_weights.yaml")
    steps = chip.fan_out_steps
    assert steps["Global"] == (FanOutStep("Cell", "inter_Cell_spatial", "x"),)
    assert steps["Accumulator"] == (FanOutStep("MAC", "inter_MAC_spatial", "y"),)
    assert steps["Memory"] == ()
    _, tree = described(DESIGNS / "weight_stationary.yaml")
    assert tree.fan_out_steps["Shared"] == (FanOutStep("Shared", "Shared", "xy"),)
    processed = timeloop_architecture(
        read_timeloop([FILES / "processed.yaml", FILES / "v03" / "ERT.yaml"]), "p"
    )
    assert [step.memory for step in processed.fan_out_steps["Buffer"]] == [
        "inter_column_spatial",
        "inter_PE_spatial",
    ]


def test_subclasses_containers_and_variables_say_what_energies_are(tmp_path: Path) -> None:
    rows = load_architecture(str(DESIGNS / "row_stationary.yaml"))
    assert rows.frequency_hz == 200e6
    assert rows.levels[0].read_energy_pj == THISTLE_45NM.access_energy_pj("register", 8, 16)
    cells = load_architecture(str(DESIGNS / "output_stationary.yaml"))
    shared, partial = cells.levels[3], cells.levels[2]
    assert (shared.word_bits, shared.block_size, shared.size_words) == (16, 4, 16384)
    assert partial.read_energy_pj == THISTLE_45NM.access_energy_pj("sram", 64, 16)
    text = (DESIGNS / "output_stationary.yaml").read_text()
    (tmp_path / "twice.yaml").write_text(text.replace("n_banks: 8", "entries: 16384"))
    assert load_architecture(str(tmp_path / "twice.yaml")).levels[3].size_words == 16384
    lanes = load_architecture(str(DESIGNS / "distributed_weights.yaml"))
    assert {level.name: level.word_bits for level in lanes.levels} == {
        "Memory": 8,
        "Global": 8,
        "InputBuffer": 8,
        "WeightBuffer": 8,
        "Accumulator": 24,
    }


FAULTS = [
    (
        "n_banks: 8",
        "entries: 9999",
        r"depth: expected one size, found entries makes 9999 words, depth x 4 makes 16384",
    ),
    ("n_banks: 8", "cluster_size: 8", r"Shared\.attributes\.cluster_size: .*row of one instance"),
    ("n_banks: 8", "rw_bandwidth: 8", r"Shared\.attributes\.rw_bandwidth: expected no such attribute"),
    (
        "n_banks: 8",
        "per_dataspace_bandwidth_consumption_scale: {Inputs: 2}",
        r"per_dataspace_bandwidth_consumption_scale: expected \{\}",
    ),
    ("multiplier_width: 16", "energy_per_opp: 2", r"MAC\.attributes\.energy_per_opp: .*energy_per_op"),
    ('technology: "45nm"', 'technology: "65nm"', r"Memory\.attributes\.technology: .*MACs in 65nm"),
    (
        "{depth: 64, width: 16}",
        '{depth: 64, width: 16, technology: "7nm"}',
        r"Partial\.attributes\.technology: expected the MACs' technology \(thistle-45nm\)",
    ),
    ("!Nothing {constraints", "!Nothing {spatial: {meshX: 2}, constraints", r"!Nothing: .*spatial"),
    ("subclass: aladdin_register", "subclass: [a]", r"WeightWord: subclass"),
    ("bypass: [Inputs, Weights]", "keep_only: [Outputs]", r"Partial\.constraints\.dataspace\.keep_only"),
    ("temporal: {permutation: [R, S]}", "temporal: {factors_only: [R=1]}", r"Partial.*factors_only"),
    ("factors: [R=1, S=1, M=1, C=1]", "factors: [R=1, S>2]", r"WeightWord.*factors: .*S>2"),
]


@pytest.mark.parametrize(("old", "new", "message"), FAULTS, ids=[new for _, new, _ in FAULTS])
def test_what_is_not_modelled_is_named(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = (DESIGNS / "output_stationary.yaml").read_text()
    assert old in text
    (tmp_path / "design.yaml").write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=message) as caught:
        problem(tmp_path / "design.yaml")
    assert str(caught.value).startswith(str(tmp_path / "design.yaml"))


def test_loops_on_a_side_without_fan_out_are_refused(tmp_path: Path) -> None:
    mapping = "mapping: [{target: Column, type: spatial, factors: Q=6, permutation: QCMRSNP, split: 0}]"
    (tmp_path / "mapping.yaml").write_text(mapping)
    with pytest.raises(InputError, match=r"mapping\[0\]\.split: expected factors of 1 on Y, .*Column"):
        read_timeloop_case([DESIGNS / "row_stationary.yaml", LAYER, tmp_path / "mapping.yaml"])
