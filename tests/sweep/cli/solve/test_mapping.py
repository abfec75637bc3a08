"""``archsweep solve mapping``: the space, the certificate, the warnings, the reasons."""

import json
import re
from functools import partial
from pathlib import Path

import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.formats.cases.folder import mapping_from_json
from costmodel.mapping.evaluate import evaluate
from costmodel.workload.network import gemm
from tests.sweep.ended import Command

GEMM = '{"shape": "gemm", "dims": {"M": 7, "N": 12, "K": 16}}'
ON_EYERISS = ("--architecture", "eyeriss", "--layer", GEMM)


@pytest.fixture
def solve(command_line: Command) -> Command:
    return partial(command_line, "solve", "mapping")


@pytest.mark.parametrize("solver", ["auto", "exact", "cosa", "random_search"])
def test_the_certificate_and_the_space(solve: Command, solver: str) -> None:
    ended = solve(*ON_EYERISS, "--solver", solver, "--padding", "0.2", "--keep", "free", "--json")
    answer = json.loads(ended.out)
    assert 0 < answer["bound"] <= answer["objective"]
    assert answer["gap"] == pytest.approx(1 - answer["bound"] / answer["objective"])
    assert answer["space"]["name"].startswith("dims padded by at most 20 %; any bypass")
    assert answer["solved_by"] == solver or solver == "auto"
    sizes = {"M": 7, "N": 12, "K": 16} | answer["space"]["padded"]
    architecture, layer = load_architecture("eyeriss"), gemm("g", **sizes)
    again = evaluate(architecture, layer, mapping_from_json(architecture, layer, answer["mapping"]))
    assert again.edp_pj_cycles == answer["objective"]
    useful = answer["evaluation"]["useful_utilization"]
    assert useful == pytest.approx(7 * 12 * 16 / 168 / again.cycles)
    assert useful <= answer["evaluation"]["utilization"]


@pytest.mark.slow
def test_people_read_the_same(solve: Command) -> None:
    layer = '{"shape": "gemm", "dims": {"M": 197, "N": 3072, "K": 768}}'
    ended = solve("--architecture", "simba", "--layer", layer, "--padding", "0.02", "--solver", "cosa")
    shown = ("feasible", "bound", "gap", "solved by", "space", "padded to", "M=200", "useful utilization")
    for part in shown:
        assert part in ended.out


def test_constraints_of_a_file(solve: Command) -> None:
    Path("rules.yaml").write_text("keep: free\nconstraints: [{level: SRAM, temporal: {M: 7}, bypass: [A]}]\n")
    given = ["--constraints", "rules.yaml", "--keep", "fitting"]
    ended = solve(*ON_EYERISS, "--solver", "exact", *given, "--json")
    answer = json.loads(ended.out)
    assert answer["status"] == "optimal"
    assert answer["space"]["keep"] == "fitting"
    blocks = {(block["target"], block["type"]): block for block in answer["mapping"]["levels"]}
    assert blocks["SRAM", "temporal"]["factors"]["M"] == 7
    kept = {entry["target"]: entry["keep"] for entry in answer["mapping"]["bypass"]}
    assert kept == {"DRAM": ["A", "B", "Z"], "SRAM": ["B", "Z"], "RegFile": ["A", "B", "Z"]}


def test_an_inversion_of_energies_is_a_warning_on_stderr(solve: Command) -> None:
    ended = solve(*ON_EYERISS, "--json")
    assert json.loads(ended.out)
    assert "warning: RegFile costs 4.642 pJ a word, more than SRAM outside it" in " ".join(ended.err.split())


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ("{level: SRAM, temporal: {M: 5}}", "SRAM: no temporal factor M = 5 divides M=7"),
        ("{level: SRAM, spatial: {K: 15}}", "SRAM: spatial factor K >= 15 asked"),
        ("{level: DRAM, temporal: {M: 7}}, {level: SRAM, temporal: {M: 7}}", "M=7 is no product of factors"),
    ],
)
def test_an_infeasible_problem_ends_with_the_reason(solve: Command, rules: str, reason: str) -> None:
    Path("rules.yaml").write_text(f"constraints: [{rules}]\n")
    ended = solve(*ON_EYERISS, "--constraints", "rules.yaml")
    assert ended.status == 1
    assert f"infeasible: {reason}" in " ".join(ended.err.split())


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("{level: Sram}", "rules.yaml: constraint on Sram.level: .* Did you mean SRAM"),
        ("{level: SRAM, temporal: {X: 2}}", "rules.yaml: constraint on SRAM: expected dims .*, found X"),
        (
            "{level: SRAM, keep: [C]}",
            "rules.yaml: constraint on SRAM.keep: expected tensors or roles .*, found C",
        ),
        ("{level: DRAM, bypass: [A]}", "rules.yaml: constraint on DRAM.bypass: expected nothing"),
        (
            "{level: SRAM, temporal: {M: -2}}",
            r"rules.yaml: constraints\[0\].temporal.M.at_least: .*, found -2",
        ),
    ],
)
def test_wrong_constraints_name_their_file_and_key(solve: Command, rules: str, message: str) -> None:
    Path("rules.yaml").write_text(f"constraints: [{rules}]\n")
    ended = solve(*ON_EYERISS, "--constraints", "rules.yaml")
    assert ended.status == 2
    assert re.search(message, " ".join(ended.err.split()))


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--keep", "most"], ["keep", "one of fitting, free, all", "most"]),
        (["--padding", "-1"], ["padding", "-1"]),
        (["--solver", "cosa", "--tolerance", "0.1"], ["parameters of cosa", "tolerance"]),
        (["--solver", "auto", "--tolerance", "2"], ["auto: tolerance", "2"]),
        (["--constraints", "none.yaml"], ["none.yaml"]),
    ],
)
def test_wrong_input_ends_with_2(solve: Command, arguments: list[str], parts: list[str]) -> None:
    ended = solve(*ON_EYERISS, *arguments)
    assert ended.status == 2
    for part in parts:
        assert part in ended.err


def test_a_buffer_that_a_constraint_overfills_is_named(solve: Command) -> None:
    Path("rules.yaml").write_text("constraints: [{level: Registers, temporal: {M: 7}, keep: [Z]}]\n")
    ended = solve("--architecture", "B_simba_like", "--layer", GEMM, "--constraints", "rules.yaml", "--json")
    assert ended.status == 1
    assert json.loads(ended.out)["status"] == "infeasible"
    assert "tiles of at least M7, that is 7 words (Z 7), 1 are usable" in json.loads(ended.out)["note"]
