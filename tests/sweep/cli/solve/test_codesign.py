"""``archsweep solve codesign``: what it prints is a member of the family that the cost model agrees with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.cases.folder import mapping_from_json
from costmodel.formats.networks import load_layer
from costmodel.formats.timeloop.case import read_timeloop_case
from costmodel.mapping.evaluate import evaluate
from solvers.budget import Budget
from solvers.mapping.problem import MappingProblem, violations
from solvers.mapping.space.rules import SpaceRules
from sweep.cli.messages import WorkFailedError
from sweep.cli.solve.codesign import CodesignRequest, solve_codesign
from sweep.study.timeloop_space import level_rules

PROBLEM = "problem: {shape: gemm-ABZ, instance: {M: 16, N: 12, K: 32}}"
FAST = '{"judged": 1, "condensed": 0}'


@pytest.fixture
def network(tmp_path: Path) -> str:
    (tmp_path / "product.yaml").write_text(PROBLEM)
    return str(tmp_path / "product.yaml")


def request(network: str, **changes: Any) -> CodesignRequest:
    given = {"params": FAST, "area_um2": 60_000.0} | changes
    return CodesignRequest("eyeriss", network, **_defaults(given))


def _defaults(given: dict[str, Any]) -> dict[str, Any]:
    return {"objective": "energy", "solver": "thistle_codesign", "budget": Budget()} | given


def test_the_answer_can_be_loaded_and_evaluated(network: str, capsys: pytest.CaptureFixture[str]) -> None:
    solve_codesign(request(network), as_json=True)
    answer = json.loads(capsys.readouterr().out)
    architecture = load_architecture(answer["architecture"]["base"], answer["architecture"]["overrides"])
    assert architecture.area_um2 == answer["area_um2"] <= answer["allowed_area_um2"] == 60_000
    layer, (only,) = load_layer(network), answer["layers"]
    found = evaluate(architecture, layer, mapping_from_json(architecture, layer, only["mapping"]))
    assert found.energy_pj == answer["objective"] == answer["energy_pj"] == only["energy_pj"]
    assert answer["bound"] <= answer["objective"]


STRIDED = """problem:
  shape: cnn-layer
  instance: {R: 3, S: 3, P: 6, Q: 5, C: 4, K: 8, N: 1, Wstride: 2, Hstride: 2}
"""


@pytest.mark.slow
@pytest.mark.parametrize("base", ["eyeriss", pytest.param("simba", marks=pytest.mark.slow)])
def test_the_answer_as_files(base: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Timeloop's files, read as Timeloop's users write them, cost what the answer says; ours is the chip."""
    network, folder = tmp_path / "layer.yaml", tmp_path / "found" / "chip"
    network.write_text(STRIDED)
    quick = {"mapping_solver": "random_search", "mapping_params": {"victory": 50}, "most_programs": 4}
    params = json.dumps(json.loads(FAST) | quick)
    asked = replace(request(str(network), area_um2=None, timeloop=folder, params=params), architecture=base)
    solve_codesign(asked, as_json=True)
    answer = json.loads(capsys.readouterr().out)
    assert sorted(str(file) for file in folder.iterdir()) == answer["files"]
    found = load_architecture(base, answer["architecture"]["overrides"])
    own = load_architecture(folder / "architecture.yaml")
    assert replace(own, name=found.name) == found
    chip = [folder / "timeloop.architecture.yaml", folder / "timeloop.energies.yaml"]
    layer = [folder / f"1-layer.{kind}.yaml" for kind in ("problem", "mapping", "constraints")]
    case, constraints = read_timeloop_case([*chip, *layer])
    assert case.architecture.area_um2 == pytest.approx(found.area_um2)
    evaluation = evaluate(case.architecture, case.layer, case.mapping)
    assert evaluation.energy_pj == pytest.approx(answer["layers"][0]["energy_pj"], rel=1e-12)
    assert evaluation.cycles == answer["layers"][0]["cycles"]
    rules = SpaceRules("free", level_rules(constraints))
    assert not violations(MappingProblem(case.architecture, case.layer, "edp", rules), case.mapping)


def test_files_are_not_written_over_a_file(network: str, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("mine")
    with pytest.raises(InputError, match="--timeloop: expected a folder"):
        solve_codesign(request(network, timeloop=taken), as_json=True)
    assert taken.read_text() == "mine"


def test_what_people_read(network: str, capsys: pytest.CaptureFixture[str]) -> None:
    solve_codesign(request(network, area_um2=None, free=("RegFile.size",)), as_json=False)
    printed = capsys.readouterr().out
    assert "RegFile.size" in printed
    assert "SRAM.size" not in printed
    assert "x1" in printed


def test_an_area_that_is_too_small_ends_with_the_reason(
    network: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(WorkFailedError, match="infeasible: area"):
        solve_codesign(request(network, area_um2=10.0), as_json=True)
    assert json.loads(capsys.readouterr().out)["architecture"] is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"free": ("SRAM.siz",)}, "--free: .*Did you mean SRAM.size"),
        ({"solver": "cosa"}, "--solver: .*thistle_codesign"),
        ({"params": "[1]"}, "a JSON object"),
        ({"params": "{"}, "a JSON object"),
        ({"params": '{"judgd": 1}'}, "judged"),
        ({"params": '{"rule": "best"}'}, "joint, dominant"),
        ({"area_um2": -1.0}, "above 0"),
        ({"objective": "area"}, "one of energy"),
    ],
)
def test_wrong_options(network: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        solve_codesign(request(network, **changes), as_json=True)
