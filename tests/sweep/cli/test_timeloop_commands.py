"""Timeloop users' files on the command line: evaluated, solved within their constraints, written again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_layer
from costmodel.workload.network import convolution, gemm
from results.store.folder import RunFolder
from solvers.budget import Budget
from solvers.mapping import exact
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space.rules import LevelRules, SpaceRules
from sweep.study.timeloop_space import (
    constrained_by_timeloop,
    is_timeloop_constraints,
    with_timeloop_constraints,
)
from tests.sweep.ended import Command

FILES = Path(__file__).parents[2] / "data" / "timeloop_files"
V03, V04 = FILES / "v03", FILES / "v04"
LAYER = convolution("problem", K=12, C=4, P=8, Q=6, R=3, S=1, stride=(2, 1))


def test_both_versions_evaluate_to_the_same_counts(command_line: Command) -> None:
    lines = []
    for folder in (V03, V04):
        ended = command_line("evaluate", *map(str, sorted(folder.iterdir())), "--json")
        assert ended.status == 0, ended.err
        lines.append(json.loads(ended.out))
    assert lines[0] == lines[1]
    header, *rows = command_line("evaluate", *map(str, sorted(V03.iterdir()))).out.splitlines()[1:]
    assert header.split() == ["level", "tensor", "reads", "fills", "updates", "instances"]
    shown = {tuple(row.split()[:2]): [int(count) for count in row.split()[2:]] for row in rows}
    for level in lines[0]["levels"]:
        for tensor, counts in level["tensors"].items():
            assert shown.pop((level["name"], tensor)) == list(counts.values())
    assert not shown
    # 8 x 6 x 12 outputs, 12 MACs each; the MACs of 24 units in use take 1.5 pJ each
    assert lines[0]["energy_pj"] > 8 * 6 * 12 * 12 * 1.5


def test_a_folder_of_timeloop_files_is_told_how_to_be_named(command_line: Command) -> None:
    ended = command_line("evaluate", str(V03))
    assert ended.status == 2
    assert f"one by one: {V03}/*.yaml" in ended.err


def test_a_solved_mapping_obeys_the_files_and_comes_back(command_line: Command, tmp_path: Path) -> None:
    exported = tmp_path / "best.yaml"
    architecture = f"{V03 / 'arch.yaml'}+{V03 / 'ERT.yaml'}"
    ended = command_line(
        *("solve", "mapping", "--architecture", architecture, "--layer", str(V03 / "problem.yaml")),
        *("--constraints", str(V03 / "constraints.yaml"), "--keep", "free", "--solver", "random_search"),
        *("--iterations", "20000", "--timeloop", str(exported), "--timeloop-version", "0.3", "--json"),
    )
    assert ended.status == 0, ended.err
    answer = json.loads(ended.out)
    assert "innermost R, S, C" in answer["space"]["name"]
    files = [V03 / name for name in ("arch.yaml", "ERT.yaml", "problem.yaml", "constraints.yaml")]
    again = command_line("evaluate", *map(str, files), str(exported), "--json")
    assert again.status == 0, again.err
    counted = json.loads(again.out)
    assert counted["energy_pj"] == answer["evaluation"]["energy_pj"]
    assert counted["cycles"] == answer["evaluation"]["cycles"]


def test_a_design_of_a_study_is_solved_alone_and_written(command_line: Command, tmp_path: Path) -> None:
    """As a study's axes set it: a point of a front leaves as Timeloop's file."""
    architecture, exported = f"{V03 / 'arch.yaml'}+{V03 / 'ERT.yaml'}", tmp_path / "best.yaml"
    words = ("solve", "mapping", "--architecture", architecture, "--layer", str(V03 / "problem.yaml"))
    design = ("--set", "Buffer.fanout=[2, 3]", "--set", "Buffer.size=2 Kiwords", "--solver", "exact")
    ended = command_line(*words, *design, "--objective", "energy", "--timeloop", str(exported), "--json")
    assert ended.status == 0, ended.err
    chip = load_architecture(architecture, {"Buffer.fanout": [2, 3], "Buffer.size": 2048})
    problem = MappingProblem(chip, load_layer(str(V03 / "problem.yaml")), "energy")
    assert json.loads(ended.out)["objective"] == exact.solve(problem, Budget()).objective
    assert "target: Buffer" in exported.read_text()
    for wrong, words_found in (
        ("Buffer.size", "expected KEY=VALUE"),
        ("Bufer.size=3", "Did you mean Buffer"),
    ):
        refused = command_line(*words, "--set", wrong)
        assert refused.status == 2
        assert words_found in refused.err


def test_what_a_table_says_and_nobody_counts_is_a_warning(command_line: Command, tmp_path: Path) -> None:
    table = (V03 / "ERT.yaml").read_text()
    leaking = table.replace("{name: mac_random,", "{name: leak, energy: 0.25}\n        - {name: compute,")
    (tmp_path / "ERT.yaml").write_text(leaking)
    files = [*map(str, (V03 / name for name in ("arch.yaml", "problem.yaml", "mapping.yaml"))), "ERT.yaml"]
    ended = command_line("evaluate", *files, "--json")
    assert json.loads(ended.out)["energy_pj"] > 0
    assert ended.err.startswith("warning: ERT.yaml: ERT.MAC.leak: 0.25 pJ a cycle: leakage of MAC units")


def test_a_mapping_against_the_constraints_is_refused(command_line: Command, tmp_path: Path) -> None:
    mapping = (V03 / "mapping.yaml").read_text()
    bypass = "keep: [Inputs, Outputs], bypass: [Weights]"
    assert bypass in mapping
    (tmp_path / "mapping.yaml").write_text(mapping.replace(bypass, "keep: [Weights, Inputs, Outputs]"))
    files = [V03 / name for name in ("arch.yaml", "ERT.yaml", "problem.yaml")]
    assert command_line("evaluate", *map(str, files), "mapping.yaml").status == 0
    ended = command_line("evaluate", *map(str, files), str(V03 / "constraints.yaml"), "mapping.yaml")
    assert ended.status == 2
    assert "a mapping that the constraints allow, found Buffer: keeps" in ended.err


def test_library_parts_stand_in_for_sections(command_line: Command, tmp_path: Path) -> None:
    exported, small = tmp_path / "gemm.yaml", '{"shape": "gemm", "dims": {"M": 8, "N": 6, "K": 4}}'
    chosen = ("--architecture", "C_two_level", "--layer", small)
    solved = command_line(
        *("solve", "mapping", *chosen, "--solver", "random_search", "--iterations", "2000"),
        *("--timeloop", str(exported), "--json"),
    )
    ended = command_line("evaluate", str(exported), *chosen, "--json")
    assert ended.status == 0, ended.err
    answer, counted = json.loads(solved.out), json.loads(ended.out)
    assert counted["energy_pj"] == answer["evaluation"]["energy_pj"]


def test_only_the_two_versions_are_written(command_line: Command, tmp_path: Path) -> None:
    ended = command_line(
        *("solve", "mapping", "--architecture", "C_two_level", "--layer", "resnet18/conv1"),
        *("--timeloop", str(tmp_path / "m.yaml"), "--timeloop-version", "0.5"),
    )
    assert ended.status == 2
    assert "expected 0.3 or 0.4, found 0.5" in ended.err


def test_constraints_of_nodes_join_those_of_the_study() -> None:
    ours = SpaceRules("free", (LevelRules("DRAM", bypass=()),))
    rules = with_timeloop_constraints(SpaceRules("free"), str(V04 / "design.yaml"), LAYER)
    assert rules.at("Buffer").bypass == ("Weights",)
    assert with_timeloop_constraints(ours, "eyeriss", LAYER) is ours
    with pytest.raises(InputError, match="either in Timeloop's files or in ours, found both for DRAM"):
        with_timeloop_constraints(ours, str(V04 / "design.yaml"), LAYER)
    with pytest.raises(InputError, match="constraints with 'level', as in a study"):
        with_timeloop_constraints(ours, "eyeriss", LAYER, V03 / "constraints.yaml")


def test_constraints_hold_for_layers_of_their_kind() -> None:
    depthwise = convolution("depthwise", K=12, C=12, P=8, Q=6, R=3, S=1, groups=12)
    product = gemm("product", M=8, N=6, K=12)
    free, file = SpaceRules("free"), str(V04 / "design.yaml")
    with pytest.warns(UserWarning, match="product has no C, P, Q, R, S: the constraints do not hold"):
        asked = constrained_by_timeloop(free, file, [LAYER, depthwise, product])
    assert asked[0] == with_timeloop_constraints(free, file, LAYER)
    assert asked[1].at("RegFile").spatial == ()
    assert asked[1].at("Buffer").bypass == ("Weights",)
    assert asked[2] == free
    assert constrained_by_timeloop(free, "eyeriss", [LAYER, product]) == [free, free]
    with pytest.raises(InputError, match=r"expected names among .*, found"):
        constrained_by_timeloop(free, file, [depthwise, product])


@pytest.mark.slow
def test_a_layer_of_a_network_obeys_what_its_network_does(command_line: Command) -> None:
    """MobileNetV2's depthwise layers lack K; the chip's constraints on it are those of its other layers."""
    words = [
        "solve",
        "mapping",
        "--architecture",
        str(V04 / "design.yaml"),
        "--keep",
        "free",
        "--solver",
        "kapla",
    ]
    ended = command_line(*words, "--json", "--layer", "mobilenet_v2/block1.0.depthwise")
    assert ended.status == 0, ended.err
    name = json.loads(ended.out)["space"]["name"]
    assert "bypass Weights" in name
    assert "K" not in name
    sizes = {"R": 3, "S": 3, "P": 8, "Q": 8, "C": 12, "N": 1}
    ended = command_line(*words, "--layer", json.dumps({"shape": "depthwise", "dims": sizes}))
    assert ended.status == 2
    assert "found K" in ended.err


def test_constraint_files_are_told_apart(tmp_path: Path) -> None:
    assert is_timeloop_constraints(V03 / "constraints.yaml")
    for number, (text, theirs) in enumerate(
        [
            ("constraints: [{level: RF, innermost: [R]}]", False),
            ("keep: free", False),
            ("constraints: [{target: RF, type: temporal, factors: R=1}]", True),
            ("constraints: {targets: []}", True),
            ("architecture-constraints: []", True),
        ]
    ):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text)
        assert is_timeloop_constraints(path) is theirs


@pytest.mark.slow
def test_a_study_takes_timeloop_files_with_their_constraints(command_line: Command, tmp_path: Path) -> None:
    for file in (V04 / "design.yaml", V03 / "arch.yaml", V03 / "ERT.yaml", V03 / "problem.yaml"):
        shutil.copy(file, tmp_path)
    study = """
name: {0}
architecture: {1}
networks: [problem.yaml]
axes: {{Buffer.size: {{choices: [1024 words, 2048 words]}}}}
mapping: {{solver: random_search, iterations: 3000, objective: energy, keep: free}}
"""
    rows = {}
    for name, architecture in (("nodes", "design.yaml"), ("tree", "arch.yaml+ERT.yaml")):
        (tmp_path / f"{name}.yaml").write_text(study.format(name, architecture))
        ended = command_line("run", f"{name}.yaml", "--in-process")
        assert ended.status == 0, ended.err
        rows[name] = RunFolder(tmp_path / "runs" / name).read_rows("layers")
    assert len(rows["nodes"]) == len(rows["tree"]) == 2
    for constrained, free in zip(rows["nodes"], rows["tree"], strict=True):
        assert "bypass Weights" in constrained["space"]["name"]
        assert "bypass Weights" not in free["space"]["name"]
        kept = {entry["target"]: entry["keep"] for entry in constrained["mapping"]["bypass"]}
        assert kept["Buffer"] == ["Inputs", "Outputs"]
        assert constrained["energy_pj"] > 0
