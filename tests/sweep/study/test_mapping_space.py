"""The mapping space from the file to the row: keys, mistakes, task identity, columns."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.cases.folder import mapping_from_json
from costmodel.mapping.evaluate import evaluate
from costmodel.workload.network import Layer, convolution, gemm
from results.store.folder import RunFolder
from solvers.budget import Budget
from solvers.catalogue import solver_names
from solvers.mapping.space.rules import FactorRule, LevelRules, SpaceRules
from sweep.design.mapping_workload import MappingWorkload, layer_demands
from sweep.run.ledgers.design_ledger import DesignLedger
from sweep.run.session import RuntimeChoice, run_study
from sweep.study.mapping_space import check_rules, load_rules
from sweep.study.study import load_study
from sweep.tasks.mapping import MappingTask, SolveSettings, run_mapping_task

FULL = """
keep: free
padding: 0.1
padded_dims: [M]
constraints:
- level: SRAM
  temporal: {K: 2, M: {at_least: 2, at_most: 7}}
  spatial: {N: {at_most: 4}}
  spatial_x: [M, N]
  spatial_y: []
  innermost: [K]
  outermost: [M]
- {level: RegFile, keep: [weights], bypass: [A]}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "rules.yaml"
    path.write_text(text)
    return path


def test_every_key(tmp_path: Path) -> None:
    assert load_rules(written(tmp_path, FULL)) == SpaceRules(
        "free",
        (
            LevelRules(
                "SRAM",
                (FactorRule("K", 2, 2), FactorRule("M", 2, 7)),
                (FactorRule("N", 1, 4),),
                ("K",),
                ("M",),
                ("M", "N"),
                (),
            ),
            LevelRules("RegFile", keep=("weights",), bypass=("A",)),
        ),
        0.1,
        ("M",),
    )


WRONG = {
    "keep": ("keep: most\n", ["keep", "'most'"]),
    "padding": ("padding: 2\n", ["padding", "at most 1"]),
    "unknown key": ("constraint: []\n", ["constraint", "Did you mean constraints?"]),
    "unknown key of a level": ("constraints: [{level: L, temporl: {}}]\n", ["temporl", "temporal"]),
    "factor": ("constraints: [{level: L, temporal: {M: 0}}]\n", ["temporal.M", "at least 1", "0"]),
    "factor's form": ("constraints: [{level: L, spatial: {M: many}}]\n", ["spatial.M", "at_least"]),
    "bounds": (
        "constraints: [{level: L, spatial: {M: {at_least: 4, at_most: 2}}}]\n",
        ["[0].spatial.M", "at most 2"],
    ),
    "order": (
        "constraints: [{level: L, innermost: [M], outermost: [M]}]\n",
        ["[0].inner", "every name once"],
    ),
    "no list": ("constraints: {level: L}\n", ["constraints", "a list"]),
    "level twice": ("constraints: [{level: L}, {level: L}]\n", ["constraints", "one constraint a level"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_name_file_key_and_expectation(case: str, tmp_path: Path) -> None:
    text, fragments = WRONG[case]
    with pytest.raises(InputError) as caught:
        load_rules(written(tmp_path, text))
    assert "rules.yaml" in str(caught.value)
    for fragment in fragments:
        assert fragment in str(caught.value)


@pytest.mark.parametrize(
    ("rules", "part"),
    [
        (SpaceRules(levels=(LevelRules("SRAM", innermost=("X",)),)), "found X"),
        (SpaceRules(levels=(LevelRules("SRAM", keep=("weight",)),)), "Did you mean weights?"),
        (
            SpaceRules(levels=(LevelRules("Sram"),)),
            "mapping.constraints[0].level: expected a level of eyeriss",
        ),
        (SpaceRules(levels=(LevelRules("Sram"),)), "found Sram. Did you mean SRAM?"),
        (SpaceRules(padding=0.1, padded_dims=("X",)), "padded_dims"),
    ],
)
def test_a_name_that_no_layer_of_the_study_has(rules: SpaceRules, part: str) -> None:
    layers = [gemm("g", M=4, N=4, K=4), convolution("c", K=4, C=4, P=4, Q=4, R=3, S=3)]
    with pytest.raises(InputError) as caught:
        check_rules(rules, load_architecture("eyeriss"), layers)
    assert part in str(caught.value)
    assert str(caught.value).startswith("study: mapping.")


def test_a_study_of_two_kinds_of_layers_takes_constraints_of_one() -> None:
    layers = [gemm("g", M=4, N=4, K=4), convolution("c", K=4, C=4, P=4, Q=4, R=3, S=3)]
    rules = SpaceRules(levels=(LevelRules("SRAM", innermost=("R", "S"), keep=("Z", "weights")),))
    check_rules(rules, load_architecture("eyeriss"), layers)


def test_a_study_with_wrong_names_ends_before_anything_is_solved(
    write_study: Callable[..., Path],
) -> None:
    constraints = "constraints: [{level: SRAM, innermost: [Q]}], objective: edp"
    text = write_study().read_text().replace("objective: edp", constraints)
    study = load_study(str(write_study(text)))
    with pytest.raises(InputError, match=r"mapping\.constraints\[0\]: .*found Q"):
        DesignLedger(study, MappingWorkload(study, layer_demands(study)))


def task(rules: SpaceRules, layer: Layer, solver: str = "random_search") -> MappingTask:
    params = '{"victory":1000}' if solver == "random_search" else "{}"
    budget = Budget(10, iterations=500 if solver == "random_search" else None)
    return MappingTask(
        load_architecture("eyeriss"), layer, SolveSettings(solver, "edp", params, budget, rules)
    )


def test_a_tasks_identity_is_that_of_the_rules_that_apply() -> None:
    layer = gemm("g", M=7, N=4, K=4)
    plain = task(SpaceRules(), layer)
    elsewhere = SpaceRules(levels=(LevelRules("SRAM", innermost=("R",)), LevelRules("DRAM")))
    assert task(elsewhere, layer).id == plain.id
    others = [
        SpaceRules("free"),
        SpaceRules(padding=0.2),
        SpaceRules(levels=(LevelRules("SRAM", innermost=("M",)),)),
        SpaceRules(levels=(LevelRules("SRAM", outermost=("M",)),)),
    ]
    assert len({plain.id, *(task(rules, layer).id for rules in others)}) == 5


@pytest.mark.parametrize("rules", [SpaceRules(), SpaceRules("free", padding=0.2), SpaceRules("all")])
def test_the_columns_of_an_answer(rules: SpaceRules) -> None:
    asked = task(rules, gemm("g", M=7, N=4, K=4))
    row: Any = run_mapping_task(json.loads(json.dumps(asked.content)))
    assert 0 < row["bound"] <= row["objective"]
    assert row["gap"] == (row["objective"] - row["bound"]) / row["objective"]
    assert row["space"]["name"] == rules.describe()
    assert SpaceRules.from_json(row["space"]) == rules
    layer = replace(asked.layer, dims=tuple({**asked.layer.sizes, **row["space"].get("padded", {})}.items()))
    architecture = load_architecture("eyeriss")
    again = evaluate(architecture, layer, mapping_from_json(architecture, layer, row["mapping"]))
    assert again.energy_pj == row["energy_pj"]
    assert row["utilization"] == again.macs / 168 / again.cycles
    assert row["useful_utilization"] == pytest.approx(7 * 4 * 4 / 168 / again.cycles)
    assert row["useful_utilization"] <= row["utilization"]


@pytest.mark.slow
@pytest.mark.parametrize("solver", solver_names("mapping"))
def test_every_solvers_rows_carry_a_certificate_or_a_reason(solver: str) -> None:
    layer = gemm("g", M=3, N=4, K=2)
    solved: Any = run_mapping_task(json.loads(json.dumps(task(SpaceRules("free"), layer, solver).content)))
    assert solved["status"] in ("optimal", "feasible")
    assert 0 < solved["bound"] <= solved["objective"]
    assert 0 <= solved["gap"] < 1
    assert solved["energy_bound_pj"] <= solved["energy_pj"]
    assert solved["cycles_bound"] <= solved["cycles"]
    assert solved["space"]["name"] == "perfect factors; any bypass"
    impossible = SpaceRules(levels=(LevelRules("SRAM", (FactorRule("M", 2, 2),)),))
    row: Any = run_mapping_task(json.loads(json.dumps(task(impossible, layer, solver).content)))
    assert row["status"] == "infeasible"
    assert [row[key] for key in ("objective", "bound", "gap", "solved_by")] == [None] * 4
    assert "SRAM: no temporal factor M = 2 divides M=3" in row["note"]
    assert "SRAM: temporal M = 2" in row["space"]["name"]


def test_the_rows_of_a_study_carry_certificates(write_study: Callable[..., Path], tmp_path: Path) -> None:
    mapping = """mapping:
  solver: auto
  objective: energy
  tolerance: 0.05
  padding: 0.05
  wall_seconds: 200
  constraints: [{level: SRAM, innermost: [K]}]
"""
    tiny = write_study().read_text()
    path = write_study(tiny[: tiny.index("mapping:")] + mapping)
    folder = run_study(load_study(str(path)), tmp_path / "run", RuntimeChoice("", None, True, None))
    rows: list[dict[str, Any]] = RunFolder(folder.path).read("layers").to_pylist()
    assert len(rows) == 4
    for row in rows:
        assert row["status"] in ("optimal", "feasible")
        assert 0 <= row["gap"] <= 0.06
        assert row["bound"] <= row["objective"]
        assert row["solved_by"] in ("cosa", "exact", "thistle", "random_search")
        assert 0 < row["useful_utilization"] <= row["utilization"]
        assert row["energy_bound_pj"] >= row["bound"]
        assert "padded by at most 5 %" in str(row["space"])
