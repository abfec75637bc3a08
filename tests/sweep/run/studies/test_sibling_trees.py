"""Trees found for one chip are costed on its siblings, and the front is drawn after that.

Both chips of the study differ in the bandwidth of DRAM only. The search on one of them is cut short by the
test, so that it finds less than the search on the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.chips import load_chip
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.tree.text import parse_tree
from costmodel.schedule.tree.validity import NotPossibleError
from results.report.data import RunData
from results.report.page import build_page
from results.store.folder import RunFolder
from results.store.schema.rows import AnswerRow
from solvers.schedule.tiles.cost_table import solved_costs
from solvers.schedule.tiles.layer_parts import Pruning, TileCostDemand
from solvers.schedule.tiles.mapper import TileMapper
from sweep.run.progress.observer import RunObserver
from sweep.run.progress.run_tally import RunTally
from sweep.run.session import RuntimeChoice, run_study
from sweep.study.study import Study, load_study
from sweep.tasks.kinds import answer_task
from tests.sweep.run.explored import MakeRuntime, Row, explored, schedules
from tests.sweep.run.studies.test_schedule_study import STUDY, write

HERE = RuntimeChoice(in_process=True)
TWO = (
    STUDY.replace("[[2, 1], [2, 2]]", "[[2, 2]]")
    .replace("beta: 2", "beta: 8, start: sequential")
    .replace("solver: set,", "refinement: 0, solver: set,")
)
REFINED = TWO.replace("refinement: 0", "refinement: 0.5")


def starved(content: Any) -> Any:
    """Searches on the chip with the faster DRAM get one round."""
    if content["kind"] == "schedule" and content["chip"]["dram"]["bytes_per_cycle"] == 16:
        return answer_task(content | {"budget": content["budget"] | {"iterations": 1}})
    return answer_task(content)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return load_study(str(write(tmp_path, TWO)))


def network(design: Row) -> Row:
    (entry,) = design["networks"].values()
    return dict(entry)


def by_bandwidth(folder: RunFolder) -> dict[int, Row]:
    """The designs by the bandwidth of their DRAM, in bytes per cycle."""
    return {int(row["axes"]["dram.bandwidth"].split()[0]): row for row in folder.read_rows("designs")}


def costs_elsewhere(folder: RunFolder, path: Path) -> Iterator[tuple[Row, tuple[float, int]]]:
    """(design, energy in pJ and cycles) of every tree of the study on every chip that can run it.

    It is counted by evaluators of its own, from tile costs that are solved anew.
    """
    graph = load_layer_graph(path)
    trees = {row["tree"] for row in schedules(folder).values() if row["tree"]}
    for design in folder.read_rows("designs"):
        chip = load_chip("set-edge", design["axes"])
        demand = TileCostDemand(graph, chip.tile, chip.tiles, 2, Pruning(most=1))
        judge = ChipEvaluator(graph, chip, 2, solved_costs(demand, TileMapper("nvdla")), (2.0, 1.0))
        for tree in trees:
            try:
                cost = judge.evaluate(parse_tree(tree))
            except NotPossibleError:
                continue
            yield dict(design), (cost.energy_pj, cost.cycles)


def beaten(folder: RunFolder, path: Path) -> list[Row]:
    """The designs that some tree of the study dominates on their own chip."""
    found = []
    for design, (energy_pj, cycles) in costs_elsewhere(folder, path):
        mine = network(design)
        # sums in another order round differently
        less = energy_pj < mine["energy_pj"] * (1 - 1e-9), cycles < mine["cycles"]
        no_more = energy_pj <= mine["energy_pj"] * (1 + 1e-9) and cycles <= mine["cycles"]
        if no_more and any(less):
            found.append(design)
    return found


@pytest.mark.slow
def test_a_siblings_tree_counts_where_it_is_better(
    study: Study, tmp_path: Path, in_process: MakeRuntime
) -> None:
    assert study.schedule is not None
    alone = study.model_copy(
        update={"name": "alone", "schedule": study.schedule.model_copy(update={"sibling_trees": False})}
    )
    before = explored(alone, tmp_path / "alone" / "alone", in_process(starved))
    assert beaten(before, tmp_path / "skip.json")
    tally = RunTally()
    folder = explored(study, tmp_path / "runs" / "skip", in_process(starved), tally)
    assert beaten(folder, tmp_path / "skip.json") == []
    rows, poor = schedules(folder), by_bandwidth(folder)[16]
    entry = network(poor)
    best = rows[entry["schedule"]]
    assert [best["task_id"]] == entry["costings"]
    assert (best["solver"], best["seed"], best["status"]) == ("known_trees", None, "feasible")
    # who found it is a search on the other chip; what the design's own searches found is kept
    finder = rows[entry["tree_from"]]
    assert entry["tree_from"] == best["tree_from"]
    assert entry["tree_from"] in network(by_bandwidth(folder)[2])["seeds"]
    assert finder["tree"] == best["tree"]
    own = [rows[task_id] for task_id in entry["seeds"]]
    assert [row["solver"] for row in own] == ["set", "set"]
    assert best["objective"] < min(row["objective"] for row in own)
    assert poor["energy_pj"] == pytest.approx(3 * best["energy_pj"])
    assert poor["cycles"] == 3 * best["cycles"]
    old = by_bandwidth(before)[16]
    assert (poor["energy_pj"], poor["cycles"]) != (old["energy_pj"], old["cycles"])
    assert 0 < poor["energy_bound_pj"] <= poor["energy_pj"]
    assert poor["cpu_seconds"] == pytest.approx(
        sum(rows[task_id]["cpu_seconds"] for task_id in (*entry["seeds"], *entry["costings"]))
    )
    assert (tally.designs["complete"], tally.designs.total(), tally.failures) == (2, 2, 0)
    # no plan counts what trees there will be, or which are the best: the run says so when it knows, one task
    # for the trees of each design and one for its program
    assert tally.total == 4


@pytest.mark.slow
def test_a_run_that_ends_while_trees_are_costed_goes_on_there(
    study: Study, tmp_path: Path, in_process: MakeRuntime
) -> None:
    class Interrupting(RunObserver):
        def answered(self, row: AnswerRow) -> None:
            if row.get("solver") == "known_trees":
                raise KeyboardInterrupt

    path = tmp_path / "runs" / "skip"
    with pytest.raises(KeyboardInterrupt):
        explored(study, path, in_process(starved), Interrupting())
    kept = [row for row in schedules(RunFolder(path)).values() if row["solver"] == "known_trees"]
    # both designs have the rows of their own searches until their siblings' trees are costed
    assert (len(kept), len(by_bandwidth(RunFolder(path)))) == (1, 2)
    again = Solved()
    folder = explored(study, path, in_process(answer_task), again)
    assert again.kinds == ["known_trees", "program_writer", "program_writer"]
    assert beaten(folder, tmp_path / "skip.json") == []
    nothing = Solved()
    explored(study, path, in_process(answer_task), nothing)
    other = explored(study, tmp_path / "other" / "skip", in_process(starved))
    assert nothing.kinds == []
    assert set(schedules(other)) == set(schedules(folder))


class Solved(RunObserver):
    """The solvers of the rows that were not in the store."""

    def __init__(self) -> None:
        self.kinds: list[str] = []

    def answered(self, row: AnswerRow) -> None:
        if not row["cached"]:
            self.kinds.append(row["solver"])


@pytest.mark.slow
def test_where_costing_fails_a_design_keeps_what_its_own_searches_found(
    study: Study, tmp_path: Path, in_process: MakeRuntime
) -> None:
    def no_costing(content: Any) -> Any:
        if content["kind"] == "tree_costing":
            raise RuntimeError("no costing today")
        return starved(content)

    tally = RunTally()
    folder = explored(study, tmp_path / "runs" / "skip", in_process(no_costing), tally)
    for design in folder.read_rows("designs"):
        entry = network(dict(design))
        assert (design["status"], design["failures"], len(entry["costings"])) == ("complete", 1, 1)
        assert entry["schedule"] in entry["seeds"]
        assert "tree_from" not in entry
    failed = [row for row in schedules(folder).values() if row["status"] == "failed"]
    assert [row["error"] for row in failed] == ["RuntimeError: no costing today"] * 2
    assert tally.failures == 2
    again = Solved()
    folder = explored(study, folder.path, in_process(answer_task), again)
    # the program of what the other design's own search found is there; a sibling's tree is the best now
    assert again.kinds == ["known_trees", "known_trees", "program_writer"]
    assert beaten(folder, tmp_path / "skip.json") == []


@pytest.mark.slow
def test_a_design_without_a_tree_of_its_own_takes_a_siblings(
    study: Study, tmp_path: Path, in_process: MakeRuntime
) -> None:
    def only_slow_dram(content: Any) -> Any:
        if content["kind"] == "schedule" and content["chip"]["dram"]["bytes_per_cycle"] == 16:
            raise RuntimeError("no search today")
        return answer_task(content)

    tally = RunTally()
    folder = explored(study, tmp_path / "runs" / "skip", in_process(only_slow_dram), tally)
    design = by_bandwidth(folder)[16]
    assert (design["status"], design["failures"]) == ("complete", 2)
    assert network(design)["tree_from"] in network(by_bandwidth(folder)[2])["seeds"]
    assert dict(+tally.designs) == {"complete": 2}


@pytest.mark.slow
def test_costs_that_a_siblings_tree_needs_are_asked_for(tmp_path: Path, in_process: MakeRuntime) -> None:
    """kapla_schedule asks for the few costs that it needs; a tree in other sub-batches needs others."""
    text = TWO.replace("solver: set, batch: 2, seeds: 2", "solver: kapla_schedule, batch: 2")
    study = load_study(str(write(tmp_path, text.replace(", params: {beta: 8, start: sequential}", ""))))
    sample_by_sample = "T 2/2\n\ta 1\n\tb 1\n\tc 1\n\tsum 1\n"
    needs: list[Any] = []

    def another_tree(content: Any) -> Any:
        answer: Any = answer_task(content)
        if content["kind"] == "tree_costing":
            needs.append(answer.get("needs"))
        elif "tree" in answer and content["chip"]["dram"]["bytes_per_cycle"] == 16:
            return answer | {"tree": sample_by_sample}
        return answer

    folder = explored(study, tmp_path / "runs" / "skip", in_process(another_tree))
    # the search on the slower chip asked for both samples at once only
    assert any(needs)
    entry = network(by_bandwidth(folder)[2])
    costing = schedules(folder)[entry["costings"][0]]
    assert (costing["status"], costing["tree"]) == ("feasible", sample_by_sample)
    chip = load_chip("set-edge", by_bandwidth(folder)[2]["axes"])
    graph = load_layer_graph(tmp_path / "skip.json")
    demand = TileCostDemand(graph, chip.tile, chip.tiles, 2, Pruning(most=1))
    judge = ChipEvaluator(graph, chip, 2, solved_costs(demand, TileMapper("nvdla")), (2.0, 1.0))
    cost = judge.evaluate(parse_tree(sample_by_sample))
    assert (costing["energy_pj"], costing["cycles"]) == (pytest.approx(cost.energy_pj), cost.cycles)


@pytest.mark.slow
def test_searches_go_on_from_a_siblings_better_tree(tmp_path: Path, in_process: MakeRuntime) -> None:
    study = load_study(str(write(tmp_path, REFINED)))
    tally = RunTally()
    folder = explored(study, tmp_path / "runs" / "skip", in_process(starved), tally)
    assert beaten(folder, tmp_path / "skip.json") == []
    rows, poor, rich = schedules(folder), network(by_bandwidth(folder)[16]), network(by_bandwidth(folder)[2])
    refined = [rows[task_id] for task_id in poor["refinements"]]
    assert [(row["solver"], row["seed"], row["status"]) for row in refined] == [
        ("set", 0, "feasible"),
        ("set", 1, "feasible"),
    ]
    costed = rows[poor["costings"][0]]
    for row in refined:
        assert row["refined_from"] == costed["tree_from"]
        assert row["refined_from"] in rich["seeds"]
        assert row["objective"] <= costed["objective"]
        (phase,) = row["search"]
        # half of the rounds, 8 for each of 4 layers: the phase begins where the other half would have ended
        assert (phase["rounds"], phase["trajectory"][0][0]) == (32, 16)
    # the chip on which its own trees are the best has nothing to go on from
    assert "refinements" not in rich
    new = {row["tree"] for row in refined} - {row["tree"] for row in rows.values() if row not in refined}
    assert len(rich["costings"]) == 1 + bool(new)
    assert (tally.designs["complete"], tally.designs.total(), tally.failures) == (2, 2, 0)
    assert (
        poor["schedule"]
        == min(
            (rows[one] for one in (*poor["seeds"], *poor["costings"], *poor["refinements"])),
            key=lambda row: row["objective"],
        )["task_id"]
    )
    again = Solved()
    explored(study, folder.path, in_process(starved), again)
    assert again.kinds == []


@pytest.mark.slow
def test_a_run_that_ends_while_searches_go_on_from_trees_goes_on_there(
    tmp_path: Path, in_process: MakeRuntime
) -> None:
    class Interrupting(RunObserver):
        def answered(self, row: AnswerRow) -> None:
            if row.get("refined_from"):
                raise KeyboardInterrupt

    study, path = load_study(str(write(tmp_path, REFINED))), tmp_path / "runs" / "skip"
    with pytest.raises(KeyboardInterrupt):
        explored(study, path, in_process(starved), Interrupting())
    again = Solved()
    folder = explored(study, path, in_process(starved), again)
    assert again.kinds[0] == "set"
    straight = explored(study, tmp_path / "straight" / "skip", in_process(starved))
    assert set(schedules(folder)) == set(schedules(straight))
    assert network(by_bandwidth(folder)[16]) == network(by_bandwidth(straight)[16])


@pytest.mark.slow
def test_annealings_go_on_from_a_better_tree_of_a_rival(tmp_path: Path, in_process: MakeRuntime) -> None:
    one = REFINED.replace("{choices: [2 B/cycle, 16 B/cycle]}", "{choices: [2 B/cycle]}")
    text = one.replace("seeds: 2,", "seeds: 2, rivals: [{solver: segment_chain}],")

    def poor_annealings(content: Any) -> Any:
        if content["kind"] == "schedule" and content["solver"] == "set":
            return answer_task(content | {"budget": content["budget"] | {"iterations": 1}})
        return answer_task(content)

    study = load_study(str(write(tmp_path, text)))
    folder = explored(study, tmp_path / "runs" / "skip", in_process(poor_annealings))
    rows, (design,) = schedules(folder), folder.read_rows("designs")
    entry = network(dict(design))
    chain = rows[entry["seeds"][-1]]
    assert (chain["solver"], chain["seed"]) == ("segment_chain", 0)
    refined = [rows[task_id] for task_id in entry["refinements"]]
    assert [(row["solver"], row["refined_from"]) for row in refined] == [("set", chain["task_id"])] * 2
    assert all(row["objective"] <= chain["objective"] for row in refined)
    said = "from the tree of segment_chain" in build_page(RunData.read(folder.path))
    assert said == (entry["schedule"] in entry["refinements"])


def test_refinement_without_siblings_is_refused(tmp_path: Path) -> None:
    text = REFINED.replace("refinement: 0.5", "refinement: 0.5, sibling_trees: false")
    with pytest.raises(InputError, match=r"schedule.refinement: expected 0 where sibling_trees is false"):
        load_study(str(write(tmp_path, text)))


EDGE = """
name: edge
networks: [resnet50]
chip: set-edge
axes:
  mesh: {choices: [[4, 2], [4, 4]]}
  dram.bandwidth: {choices: [8 B/cycle, 16 B/cycle]}
objectives: [energy_pj, cycles, area_um2]
mapping: {solver: nvdla}
schedule: {solver: set, objective: edp, batch: 8, seeds: 2, most_partitions: 1, params: {beta: 2}}
"""


@pytest.mark.slow
@pytest.mark.thorough
def test_no_design_of_set_edge_is_dominated_by_anothers_tree(tmp_path: Path) -> None:
    """The built-in study ``set-edge`` with fewer chips, partitions and rounds; trees are counted anew."""
    (tmp_path / "edge.yaml").write_text(EDGE)
    folder = run_study(load_study(str(tmp_path / "edge.yaml")), tmp_path / "runs" / "edge", HERE)
    graph, rows = load_layer_graph("resnet50"), schedules(folder)
    # a sibling may be able to run none of the trees that it is asked to cost
    trees = {parse_tree(row["tree"]) for row in rows.values() if row["tree"]}
    assert len(trees) > 2
    designs = folder.read_rows("designs")
    assert any("tree_from" in network(dict(design)) for design in designs)
    for design in designs:
        chip, mine = load_chip("set-edge", design["axes"]), network(dict(design))
        demand = TileCostDemand(graph, chip.tile, chip.tiles, 8, Pruning(most=1))
        judge = ChipEvaluator(graph, chip, 8, solved_costs(demand, TileMapper("nvdla")), (1.0, 1.0))
        for tree in trees:
            try:
                cost = judge.evaluate(tree)
            except NotPossibleError:
                continue
            no_more = cost.energy_pj <= mine["energy_pj"] * (1 + 1e-9) and cost.cycles <= mine["cycles"]
            less = cost.energy_pj < mine["energy_pj"] * (1 - 1e-9) or cost.cycles < mine["cycles"]
            assert not (no_more and less)
