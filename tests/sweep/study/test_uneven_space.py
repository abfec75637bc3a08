"""Uneven mappings from the study, the constraint file and the command line to the row."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.cases.mapping import any_mapping_from_json
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.uneven import UnevenMapping
from costmodel.workload.network import gemm
from solvers.budget import Budget
from solvers.mapping.space.rules import SpaceRules
from sweep.design.mapping_workload import mapping_settings
from sweep.study.mapping_space import load_rules
from sweep.study.study import load_study
from sweep.tasks.mapping import MappingTask, SolveSettings, run_mapping_task

SCORES = gemm("scores", M=197, N=197, K=64)
STUDY = """
name: tiny
networks: [problem.yaml]
architecture: eyeriss
axes: {SRAM.size: {choices: [2 KiB]}}
mapping: {solver: SOLVER, objective: edp, uneven: true, uneven_levels: [RegFile]}
"""


def test_a_row_names_the_space_and_its_mapping_can_be_read() -> None:
    architecture = load_architecture("eyeriss")
    settings = SolveSettings("exact", "edp", "{}", Budget(60), SpaceRules(uneven=True))
    row: Any = run_mapping_task(json.loads(json.dumps(MappingTask(architecture, SCORES, settings).content)))
    assert (row["status"], row["gap"]) == ("optimal", 0)
    assert row["space"]["name"].endswith("uneven: tensors end their tiles at different loops")
    assert row["space"]["uneven"] is True
    stored = json.loads(json.dumps(row["mapping"], sort_keys=True))
    mapping = any_mapping_from_json(architecture, SCORES, stored)
    assert isinstance(mapping, UnevenMapping)
    evaluation = evaluate(architecture, SCORES, mapping)
    assert (evaluation.energy_pj, evaluation.cycles) == (row["energy_pj"], row["cycles"])
    assert row["energy_bound_pj"] <= row["energy_pj"]
    assert row["cycles_bound"] <= row["cycles"]


def test_identities_tell_uneven_from_even() -> None:
    architecture = load_architecture("eyeriss")
    rules = (SpaceRules(), SpaceRules(uneven=True), SpaceRules(uneven=True, uneven_levels=("SRAM",)))
    tasks = [
        MappingTask(architecture, SCORES, SolveSettings("exact", "edp", "{}", Budget(), r)) for r in rules
    ]
    assert len({task.id for task in tasks}) == 3


def test_a_study_asks_for_a_solver_that_can(write_study: Callable[..., Path]) -> None:
    able = load_study(str(write_study(STUDY.replace("SOLVER", "auto"))))
    assert mapping_settings(able).rules == SpaceRules(uneven=True, uneven_levels=("RegFile",))
    unable = load_study(str(write_study(STUDY.replace("SOLVER", "cosa"))))
    with pytest.raises(
        InputError, match=r"mapping.solver: expected a solver that maps unevenly: auto or exact"
    ):
        mapping_settings(unable)


@pytest.mark.slow
def test_a_constraint_file_and_the_command_line(
    command_line: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("uneven: true\nuneven_levels: [RegFile]\n")
    assert load_rules(rules) == SpaceRules(uneven=True, uneven_levels=("RegFile",))
    layer = '{"shape": "gemm", "dims": {"M": 197, "N": 197, "K": 64}}'
    asked = ("solve", "mapping", "--architecture", "eyeriss", "--layer", layer, "--solver")
    status, out, _ = command_line(*asked, "exact", "--constraints", str(rules))
    assert status == 0
    assert "RegFile part 2" in out
    assert "SRAM part 2" not in out
    assert "tiles of" in out
    status, out, _ = command_line(*asked, "exact", "--uneven", "--json")
    assert json.loads(out)["space"]["uneven"] is True
    status, _, err = command_line(*asked, "cosa", "--uneven")
    assert status == 2
    assert "Ask exact, or auto" in " ".join(err.split())
    status, _, err = command_line(*asked, "exact", "--uneven", "--timeloop", str(tmp_path / "m.yaml"))
    assert status == 2
    assert "an uneven one" in " ".join(err.split())
