"""Studies that map layers together, on two blocks of an attention of two heads over 16 words of text.

The scores are 2 x 16 x 16 words. A buffer of 1,024 words keeps those of both heads, one of 256 those of eight
rows of one head, and one of 128 is better used by one layer after the other.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.json.fused_layers_json import group_from_json
from costmodel.hardware.architecture import Architecture
from results.explain.design import TOGETHER, explained
from results.explain.runs import compared
from results.report.data import RunData
from results.report.page import build_page
from results.store.folder import RunFolder
from results.store.schema.rows import AnswerRow
from solvers.budget import Budget
from solvers.fusion.layers.problem import LayerFusionProblem
from solvers.fusion.layers.solver import solve
from sweep.cli.explain import explain_designs
from sweep.cli.main import main
from sweep.design.mapping_workload import MappingWorkload, layer_demands
from sweep.design.workload import workload_of
from sweep.forecast.plan import plan
from sweep.run.progress.observer import RunObserver
from sweep.run.session import RuntimeChoice, run_study
from sweep.search.search import designs
from sweep.study.lock import study_id
from sweep.study.study import Study, load_study

HERE = RuntimeChoice(in_process=True)
Row = dict[str, Any]
WriteStudy = Callable[..., Study]

HEADS, TEXT, WIDTH = 2, 16, 8
STUDY = """
name: together
networks: [{network: blocks.json, weight: 3}]
architecture: C_two_level
axes: {Buffer.size: {choices: [256 words, 1 Kiwords]}}
objectives: [energy_pj, cycles]
mapping: {solver: exact, objective: energy}
fusion: attention
"""
FASTER = "{Buffer.size: {choices: [4 Kiwords]}, DRAM.read_bandwidth: {choices: [64 words/cycle]}}"


def blocks(count: int = 2, text: int = TEXT, width: int = WIDTH) -> Row:
    """``count`` attentions, each of three inputs of its own."""
    shape, ops, tensors = [1, HEADS, text, width], [], []
    for number in range(count):
        names = [f"{role}{number}" for role in ("query", "key", "value")]
        ops.append(
            {
                "name": f"block{number}",
                "type": "scaled_dot_product_attention",
                "inputs": names,
                "outputs": [f"out{number}"],
                "attrs": {},
            }
        )
        tensors += [{"name": name, "shape": shape, "kind": "input"} for name in names]
        tensors.append({"name": f"out{number}", "shape": shape, "kind": "output"})
    return {"name": "blocks", "source": "test", "granularity": "raw", "ops": ops, "tensors": tensors}


@pytest.fixture
def write(tmp_path: Path) -> WriteStudy:
    def written(text: str = STUDY, network: Row | None = None) -> Study:
        (tmp_path / "blocks.json").write_text(json.dumps(network or blocks()))
        path = tmp_path / "together.yaml"
        path.write_text(text)
        return load_study(str(path))

    return written


def grouped(folder: RunFolder) -> list[tuple[Row, Row, Row]]:
    """Every design with its one group, and the row of its answer."""
    answers = {row["task_id"]: row for row in folder.read_rows("fusions")}
    found = []
    for design in folder.read_rows("designs"):
        (group,) = design["networks"]["blocks.json"]["fused"]
        found.append((design, group, answers[group["task_id"]]))
    return found


class Watching(RunObserver):
    def __init__(self) -> None:
        self.solved: list[AnswerRow] = []
        self.cached: list[AnswerRow] = []

    def answered(self, row: AnswerRow) -> None:
        (self.cached if row["cached"] else self.solved).append(row)


@pytest.mark.slow
def test_a_design_counts_the_better_of_both(write: WriteStudy, tmp_path: Path) -> None:
    folder = run_study(write(), tmp_path / "runs" / "with", HERE)
    without = run_study(write(STUDY.replace("attention", "none")), tmp_path / "other" / "without", HERE)
    alone = {row["axes"]["Buffer.size"]: row for row in without.read_rows("designs")}
    for design, group, answer in grouped(folder):
        other = alone[design["axes"]["Buffer.size"]]
        assert other["unfused_energy_pj"] is None
        assert design["unfused_energy_pj"] == pytest.approx(other["energy_pj"], rel=1e-12)
        assert design["unfused_cycles"] == other["cycles"]
        assert answer["status"] == "optimal"
        # two equal blocks, of which each run has both, in each of three runs
        assert (group["layers"], group["count"]) == (["block0.scores", "block0.values"], 2)
        assert design["energy_pj"] == pytest.approx(3 * 2 * answer["energy_pj"], rel=1e-12)
        assert design["energy_pj"] < 0.9 * design["unfused_energy_pj"]
        assert design["energy_pj"] == pytest.approx(design["energy_bound_pj"], rel=1e-9)
        assert design["cycles"] == 6 * answer["cycles"] >= design["cycles_bound"]
        assert sum(design["energy_by_level_pj"].values()) == pytest.approx(design["energy_pj"], rel=1e-12)
        network = design["networks"]["blocks.json"]
        assert network["energy_pj"] == pytest.approx(design["energy_pj"] / 3, rel=1e-12)
        assert network["cycles"] * 3 == design["cycles"]
        assert [layer["count"] for layer in network["layers"]] == [0, 0]
        assert design["solves"] == len(network["layers"]) + 1


@pytest.mark.slow
def test_groups_are_explained_with_their_trees_and_cycles(
    write: WriteStudy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_study(write(), tmp_path / "runs" / "with", HERE)
    run = RunData.read(folder.path)
    for design in range(len(run.designs)):
        found = explained(run, design)
        (group,) = found.groups
        assert (group.name, group.runs) == ("block0.scores + values", 6)
        assert group.energy_pj < group.unfused_energy_pj
        assert sum(group.energy_by_level_pj.values()) == pytest.approx(group.energy_pj, rel=1e-12)
        assert found.layers == ()
        assert TOGETHER not in found.bound_by
        assert sum(found.bound_by.values()) == found.metrics["cycles"]
        assert found.bound_by == {cause: 6 * cycles for cause, cycles in group.bound_by.items()}
    explain_designs(str(folder.path), ["knee"], tmp_path / "page.html", False)
    said, page = capsys.readouterr().out, (tmp_path / "page.html").read_text()
    assert run.knee is not None
    (group,) = explained(run, run.knee).groups
    assert f"block0.scores + values, bound by {group.causes}" in said
    assert group.causes in page
    assert escape(group.tree, quote=False) in page
    for line in group.tree.splitlines():
        assert f"  {line}\n" in said
    assert "block0.scores + values" in page


@pytest.mark.slow
def test_groups_of_two_runs_are_compared_with_the_cause(write: WriteStudy, tmp_path: Path) -> None:
    """Energy is minimised in one run and cycles in the other."""
    runs = {
        objective: RunData.read(
            run_study(
                write(STUDY.replace("objective: energy", f"objective: {objective}")),
                tmp_path / objective / "with",
                HERE,
            ).path
        )
        for objective in ("energy", "cycles")
    }
    found = [one for one in compared(runs).differences if one.name == "block0.scores + values"]
    assert found
    for difference in found:
        assert difference.energy_ratio >= 1 - 1e-12
        assert difference.cycles_ratio <= 1 + 1e-12
        assert "objective energy → cycles" in difference.causes


@pytest.mark.slow
def test_rows_are_what_the_solver_says_and_can_be_solved_again(write: WriteStudy, tmp_path: Path) -> None:
    folder = run_study(write(), tmp_path / "runs" / "with", HERE)
    rows = folder.read_rows("fusions")
    assert len(rows) == 2
    for row in rows:
        group = group_from_json(Architecture.from_json(row["architecture"]), row["layer_group"])
        asked = row["objective_name"], row["longest"], row["recompute"], row["pipelined"]
        problem = LayerFusionProblem(group, *asked)
        again = solve(problem, Budget(60.0))
        assert (again.objective, again.bound) == (row["objective"], row["bound"])
        assert row["layer_names"] == [layer.name for layer in group.layers] == ["scores", "values"]
        assert row["group_name"] == "blocks.json/block0.scores, block0.values"
        assert row["together"]
        assert "Buffer holds Z of scores" in row["tree"]
        buffer = group.architecture.levels[0].size_words or 0
        assert 0 < row["by_layer"]["peak"]["Buffer"] <= buffer
        assert row["energy_bound_pj"] == row["bound"]


def test_what_shares_nothing_stays_one_by_one(write: WriteStudy, tmp_path: Path) -> None:
    folder = run_study(write(STUDY.replace("256 words, 1 Ki", "128 ")), tmp_path / "runs" / "with", HERE)
    ((design, group, answer),) = grouped(folder)
    assert (answer["status"], answer["together"], group["count"]) == ("optimal", False, 0)
    assert [layer["count"] for layer in design["networks"]["blocks.json"]["layers"]] == [2, 2]
    assert design["energy_pj"] == design["unfused_energy_pj"] == pytest.approx(6 * answer["energy_pj"])
    assert design["cycles"] == design["unfused_cycles"]
    assert design["energy_bound_pj"] <= design["energy_pj"]
    assert "Layers mapped together" in build_page(RunData.read(folder.path))


@pytest.mark.slow
def test_layers_that_run_at_the_same_time_are_explained_as_one(
    write: WriteStudy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """15 words of text and 5 numbers a word: alone neither product uses more than 9 of 16 MAC units."""
    faster = STUDY.replace("{Buffer.size: {choices: [256 words, 1 Kiwords]}}", FASTER)
    faster = faster.replace("objective: energy", "objective: cycles")
    study = write(faster.replace("attention", "{segments: attention, pipelined: true}"), blocks(2, 15, 5))
    folder = run_study(study, tmp_path / "runs" / "with", HERE)
    ((design, group, answer),) = grouped(folder)
    assert answer["pipelined"]
    assert answer["mapping"]["pipelines"]
    assert "pipelined on 4" in answer["tree"]
    (pipeline,) = answer["by_layer"]["pipelines"]
    assert pipeline["cycles"] == answer["cycles"] == group["cycles"] < group["unfused_cycles"]
    assert design["cycles"] == 6 * answer["cycles"]
    assert design["cycles_bound"] <= design["cycles"]
    # nor does what rules designs out before they are solved add up cycles of layers that run at the same time
    workload, (asked,) = MappingWorkload(study, layer_demands(study)), designs(study)
    before = workload.bounds(workload.tasks(asked))
    assert before.cycles <= design["cycles"]
    assert before.energy_pj <= design["energy_pj"]
    assert answer["cycles_bound"] == answer["bound"]
    # what binds a group adds up to its cycles: those of stages by themselves are in no sum
    run = RunData.read(folder.path)
    assert run.knee is not None
    (found,) = explained(run, run.knee).groups
    assert sum(found.bound_by.values()) == answer["cycles"]
    explain_designs(str(folder.path), ["knee"], None, False)
    assert "pipelined on 4" in capsys.readouterr().out
    assert "pipelined on 4" in build_page(run)


def test_ways_to_say_which_layers(write: WriteStudy) -> None:
    """A rule, lists with and without a star, keys: the same tasks. And none is as if the key were absent."""

    def ids(fusion: str) -> set[str]:
        study = write(STUDY.replace("fusion: attention", fusion))
        workload = workload_of(study)
        return {task.id for design in designs(study) for task in workload.tasks(design)}

    attention, alone = ids("fusion: attention"), ids("fusion: none")
    assert len(attention) == len(alone) + 2
    assert ids("fusion: automatic") == ids("fusion: {segments: attention}") == attention
    assert ids("fusion: [['block*.scores', 'block*.values']]") == attention
    assert ids("fusion: [[block1.scores, block1.values]]") == attention
    assert ids("") == alone
    assert len(ids("fusion: {segments: attention, longest: 2}") & attention) == len(alone)
    assert len(ids("fusion: {segments: attention, recompute: true}") & attention) == len(alone)
    assert ids("fusion: {segments: attention, recompute: false}") == attention
    assert len(ids("fusion: {segments: attention, pipelined: true}") & attention) == len(alone)
    assert ids("fusion: {segments: attention, pipelined: false}") == attention
    with_it, plain, none = (
        write(STUDY.replace("fusion: attention", text)) for text in ("fusion: attention", "", "fusion: none")
    )
    assert study_id(none) == study_id(plain) != study_id(with_it)


@pytest.mark.slow
def test_only_stated_occurrences_are_together(write: WriteStudy, tmp_path: Path) -> None:
    study = write(STUDY.replace("attention", "[[block1.scores, block1.values]]"))
    folder = run_study(study, tmp_path / "runs" / "with", HERE)
    for design, group, answer in grouped(folder):
        assert group["count"] == 1
        assert [layer["count"] for layer in design["networks"]["blocks.json"]["layers"]] == [1, 1]
        expected = 3 * (answer["energy_pj"] + group["unfused_energy_pj"])
        assert design["energy_pj"] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("fusion", "said"),
    [
        ("attentoin", "fusion: expected attention, automatic, or a list of lists of names of layers, found"),
        ("[[block0.scores]]", "fusion[0]: expected a list of at least two names of layers"),
        (
            "[[block0.scores, block0.values], [block0.values, a]]",
            "fusion[1]: expected every layer in one list",
        ),
        ("{segments: attention, longest: 0}", "fusion.longest: expected at least 1"),
        ("{segment: attention}", "fusion.segment: expected one of the keys segments"),
        ("[[block0.scores, block0.value]]", "fusion.segments[0]: expected names of layers of one network"),
        ("[[block0.values, block1.scores]]", "fusion.segments[0]: expected layers that pass tensors"),
        ("{segments: attention, solver: exact}", "fusion.solver: expected"),
        (
            "{segments: attention, windows: false, columns: true}",
            "fusion.columns: expected false where windows is false, found True",
        ),
        ("{segments: attention, params: {tolerance: 2}}", "fusion.params"),
        ("attention\nscratchpad: {level: Buffer}", "scratchpad: expected no scratchpad beside fusion"),
        ("attention\nprecision: {weights: 16}", "fusion: expected an architecture without a precision"),
    ],
)
def test_what_cannot_be_is_said(write: WriteStudy, fusion: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        workload_of(write(STUDY.replace("attention", fusion)))
    assert said in str(caught.value)


def test_constraints_of_the_hardware_are_not_forgotten(write: WriteStudy) -> None:
    text = STUDY.replace("C_two_level", "gemmini").replace(
        "Buffer.size: {choices: [256 words, 1 Kiwords]}", ""
    )
    with pytest.raises(InputError, match="fusion"):
        workload_of(write(text))


def test_bounds_hold_for_layers_together(write: WriteStudy, tmp_path: Path) -> None:
    """What prunes designs is below what they cost: single layers' bounds alone would be above."""
    study = write()
    folder = run_study(study, tmp_path / "runs" / "with", HERE)
    workload = MappingWorkload(study, layer_demands(study))
    alone = MappingWorkload(write(STUDY.replace("attention", "none")), layer_demands(study))
    rows = {row["axes"]["Buffer.size"]: row for row in folder.read_rows("designs")}
    above = []
    for design in designs(study):
        row, bounds = rows[dict(design.values)["Buffer.size"]], workload.bounds(workload.tasks(design))
        assert bounds.energy_pj <= row["energy_pj"]
        assert bounds.cycles <= row["cycles"]
        above.append(alone.bounds(alone.tasks(design)).energy_pj > row["energy_pj"])
    assert any(above)


@pytest.mark.slow
def test_an_interrupted_run_goes_on(write: WriteStudy, tmp_path: Path) -> None:
    class Interrupting(RunObserver):
        def answered(self, row: AnswerRow) -> None:
            if "layer_group" in row:
                raise KeyboardInterrupt

    study, output = write(), tmp_path / "runs" / "together"
    planned = plan(study)
    assert planned.asked == {"layers": 2 * 4, "fusions": 2}
    assert (planned.distinct, planned.open) == (6, 6)
    with pytest.raises(KeyboardInterrupt):
        run_study(study, output, HERE, observer=Interrupting())
    (kept,) = RunFolder(output).read_rows("fusions")
    watching = Watching()
    folder = run_study(study, output, HERE, observer=watching)
    assert kept["task_id"] in {row["task_id"] for row in watching.cached}
    assert sum("layer_group" in row for row in watching.solved) == 1
    assert len(folder.read_rows("fusions")) == len(folder.read_rows("designs")) == 2
    # another study of the same store solves nothing
    again = Watching()
    renamed = study.model_copy(update={"name": "other"})
    other = run_study(renamed, tmp_path / "runs" / "other", HERE, observer=again)
    assert again.solved == []
    assert {row["from_study"] for row in other.read_rows("fusions")} == {"together"}


@pytest.mark.slow
def test_the_report_shows_trees_and_what_they_are_worth(write: WriteStudy, tmp_path: Path) -> None:
    folder = run_study(write(), tmp_path / "runs" / "together", HERE)
    page = build_page(RunData.read(folder.path))
    assert "Layers mapped together" in page
    assert "Buffer holds Z of scores" in page
    assert "block0.scores + values" in page
    assert "instead of" in page


def test_the_command_says_what_it_maps_together(
    write: WriteStudy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write()
    study = str(tmp_path / "together.yaml")
    monkeypatch.setattr("sys.argv", ["archsweep", "plan", study, "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    said = json.loads(capsys.readouterr().out)
    assert (said["layer_solves"], said["fusion_solves"], said["distinct_solves"]) == (8, 2, 6)


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.usefixtures("local_ray")
def test_ray_gives_the_answers_of_one_process(write: WriteStudy, tmp_path: Path) -> None:
    study = write()
    alone = run_study(study, tmp_path / "a" / "together", HERE)
    cluster = run_study(study, tmp_path / "b" / "together", RuntimeChoice(workers=2))
    columns = ("task_id", "objective", "bound", "tree", "energy_pj", "cycles")
    found, expected = (
        sorted([row[name] for name in columns] for row in folder.read_rows("fusions"))
        for folder in (cluster, alone)
    )
    assert found == expected
    costs, expected_costs = (
        sorted(
            (row["design_id"], row["energy_pj"], row["energy_bound_pj"])
            for row in folder.read_rows("designs")
        )
        for folder in (cluster, alone)
    )
    assert costs == expected_costs
