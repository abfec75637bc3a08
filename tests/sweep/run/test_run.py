"""The run loop against the store: every design a row, nothing solved twice, nothing lost."""

import shutil
from collections import Counter as Counts
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clusters.in_process import InProcessRuntime
from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from results.front.pareto import design_frame
from results.store import known_answers as answers_of_runs
from results.store.folder import RunFolder, RunWriter
from results.store.parts import read_part
from results.store.schema.rows import AnswerRow, DesignRow
from sweep.blocks.block import BlockTally
from sweep.run.progress.observer import RunObserver
from sweep.run.run import StudyRun
from sweep.run.session import RuntimeChoice, run_study
from sweep.search.search import search_of
from sweep.study.search_choice import OptunaSearch
from sweep.study.study import AxisChoices, Study
from sweep.tasks.mapping import architecture_content, architecture_id, bare, run_mapping_task

MakeRuntime = Callable[[Callable[[Any], Any]], InProcessRuntime]
HERE = RuntimeChoice(in_process=True)
MEASURED = {"cpu_seconds", "wall_seconds", "worker", "finished_at", "cached", "from_study", "attempts"}


class Counter(RunObserver):
    def __init__(self) -> None:
        self.cached = self.solved = self.failed = self.designs = 0

    def answered(self, row: AnswerRow) -> None:
        failed = row["status"] == "failed"
        self.cached += row["cached"]
        self.failed += failed
        self.solved += not row["cached"] and not failed

    def designed(self, row: DesignRow) -> None:
        self.designs += 1

    def block_done(self, tally: BlockTally) -> None:
        self.cached += tally.hits
        self.failed += tally.failures
        self.solved += tally.solves - tally.hits - tally.failures
        self.designs += tally.designs.total()


def answers(folder: RunFolder) -> dict[str, dict[str, Any]]:
    rows = folder.read_rows("layers")
    return {row["task_id"]: {k: v for k, v in row.items() if k not in MEASURED} for row in rows}


def failing_for_small_sram(content: Any) -> Any:
    if content["architecture"]["levels"][1]["size_words"] == 1024:
        raise RuntimeError("no solver today")
    return run_mapping_task(content)


def test_every_design_has_a_row_whose_sums_are_its_layers(tiny: Study, tmp_path: Path) -> None:
    folder = run_study(tiny, tmp_path / "runs" / "tiny", HERE)
    rows = folder.read_rows("designs")
    layers = {row["task_id"]: row for row in folder.read_rows("layers")}
    assert len(rows) == 4
    assert len(layers) == 4
    for row in rows:
        (network,) = row["networks"].values()
        (entry,) = network["layers"]
        assert row["energy_pj"] == layers[entry["task_id"]]["energy_pj"]
        assert row["cycles_bound"] <= row["cycles"]
        assert row["energy_bound_pj"] <= row["energy_pj"]
    assert (folder.path / "study.lock.yaml").is_file()


def test_a_second_run_solves_nothing(tiny: Study, tmp_path: Path) -> None:
    output = tmp_path / "runs" / "tiny"
    before = answers(run_study(tiny, output, HERE))
    counter = Counter()
    after = answers(run_study(tiny, output, HERE, observer=counter))
    assert (counter.cached, counter.solved, counter.designs) == (4, 0, 4)
    assert after == before


def test_answers_are_shared_between_studies(tiny: Study, tmp_path: Path) -> None:
    run_study(tiny, tmp_path / "runs" / "tiny", HERE)
    other = tiny.model_copy(update={"name": "other"})
    counter = Counter()
    folder = run_study(other, tmp_path / "runs" / "other", HERE, observer=counter)
    assert (counter.cached, counter.solved) == (4, 0)
    assert {row["from_study"] for row in folder.read_rows("layers")} == {"tiny"}
    assert {row["study"] for row in folder.read_rows("layers")} == {"other"}


def test_fresh_solves_again(tiny: Study, tmp_path: Path) -> None:
    output = tmp_path / "runs" / "tiny"
    before = answers(run_study(tiny, output, HERE))
    counter = Counter()
    after = answers(run_study(tiny, output, HERE, observer=counter, resume=False))
    assert counter.solved == 4
    assert after == before


def test_failures_are_rows_and_are_tried_again(tiny: Study, tmp_path: Path, in_process: MakeRuntime) -> None:
    path = tmp_path / "runs" / "tiny"
    with RunWriter(path) as writer:
        counter = Counter()
        StudyRun(tiny, search_of(tiny), writer, counter, path.parent).explore(
            in_process(failing_for_small_sram)
        )
    assert (counter.solved, counter.failed, counter.designs) == (2, 2, 4)
    folder = RunFolder(path)
    failed = [row for row in folder.read_rows("designs") if row["status"] == "failed"]
    assert len(failed) == 2
    assert all("no solver today" in row["error"] for row in failed)
    again = Counter()
    run_study(tiny, path, HERE, observer=again)
    assert (again.cached, again.solved, again.failed) == (2, 2, 0)
    assert {row["status"] for row in folder.read_rows("designs")} == {"complete"}


def test_an_interrupted_run_goes_on_where_it_stopped(tiny: Study, tmp_path: Path) -> None:
    undisturbed = answers(run_study(tiny, tmp_path / "a" / "tiny", HERE))

    class Interrupting(RunObserver):
        seen = 0

        def block_done(self, tally: BlockTally) -> None:
            self.seen += tally.solves
            if self.seen == 2:
                raise KeyboardInterrupt

    output = tmp_path / "b" / "tiny"
    with pytest.raises(KeyboardInterrupt):
        run_study(tiny, output, HERE, observer=Interrupting())
    kept = answers(RunFolder(output))
    assert len(kept) == 2
    counter = Counter()
    resumed = answers(run_study(tiny, output, HERE, observer=counter))
    assert (counter.cached, counter.solved) == (2, 2)
    assert resumed == undisturbed


def test_a_design_that_breaks_a_constraint_costs_no_solve(tiny: Study, tmp_path: Path) -> None:
    limited = tiny.model_copy(update={"constraints": ("mac_units <= 4",)})
    counter = Counter()
    folder = run_study(limited, tmp_path / "runs" / "tiny", HERE, observer=counter)
    assert (counter.solved, counter.designs) == (2, 4)
    broken = [row for row in folder.read_rows("designs") if not row["feasible"]]
    assert [row["note"] for row in broken] == ["mac_units <= 4 (is 8)"] * 2


@pytest.mark.parametrize(
    ("constraints", "said"),
    [
        (("mac_units < 4",), "mac_units from 4 to 8"),
        (("mac_units <= 4", "mac_units >= 8"), "none of 4 designs"),
    ],
)
def test_constraints_that_nothing_meets_stop_before_anything_runs(
    tiny: Study, tmp_path: Path, constraints: tuple[str, ...], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        run_study(tiny.model_copy(update={"constraints": constraints}), tmp_path / "run", HERE)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_changed_study_in_the_same_folder_shows_its_own_designs_only(tiny: Study, tmp_path: Path) -> None:
    output = tmp_path / "runs" / "tiny"
    run_study(tiny, output, HERE)
    narrowed = tiny.model_copy(update={"axes": {"SRAM.size": AxisChoices(choices=("2 KiB",))}})
    folder = run_study(narrowed, output, HERE)
    assert list(design_frame(folder)["axis.SRAM.size"]) == ["2 KiB"]
    counter = Counter()
    widened = design_frame(run_study(tiny, output, HERE, observer=counter))
    assert (len(widened), counter.cached, counter.solved) == (4, 4, 0)


def test_rows_name_their_layer_with_its_network(tiny: Study, tmp_path: Path) -> None:
    folder = run_study(tiny, tmp_path / "runs" / "tiny", HERE)
    (name,) = {row["layer_name"] for row in folder.read_rows("layers")}
    assert name.startswith("problem.yaml/")


def test_an_answer_of_another_study_replaces_a_failure(
    tiny: Study, tmp_path: Path, in_process: MakeRuntime
) -> None:
    path = tmp_path / "runs" / "tiny"
    with RunWriter(path) as writer:
        StudyRun(tiny, search_of(tiny), writer).explore(in_process(failing_for_small_sram))
    run_study(tiny.model_copy(update={"name": "other"}), tmp_path / "runs" / "other", HERE)
    counter = Counter()
    folder = run_study(tiny, path, HERE, observer=counter)
    assert (counter.cached, counter.solved) == (4, 0)
    assert {row["status"] for row in folder.read_rows("layers")} == {"feasible"}


def test_a_design_on_which_a_layer_has_no_mapping_costs_no_solve(tiny: Study, tmp_path: Path) -> None:
    """Three tensors must be kept in two words: what a solver would answer, before any is asked."""
    axes = {"RegFile.size": AxisChoices(choices=(2, 64))}
    rules = tiny.mapping.model_copy(update={"keep": "all"})
    counter = Counter()
    folder = run_study(
        tiny.model_copy(update={"axes": axes, "mapping": rules}),
        tmp_path / "runs" / "tiny",
        HERE,
        observer=counter,
    )
    small, large = sorted(folder.read_rows("designs"), key=lambda row: row["axes"]["RegFile.size"])
    assert (counter.solved, counter.designs) == (1, 2)
    assert (small["status"], small["feasible"], small["solves"]) == ("infeasible", False, 0)
    assert "RegFile: tiles of one word each of A, B, Z need 3 words, 2 are usable" in small["note"]
    assert large["status"] == "complete"


@pytest.mark.parametrize("name", ["eyeriss", "simba", "tpu-like"])
def test_the_content_of_a_task_has_the_bare_architecture(name: str) -> None:
    architecture = load_architecture(name)
    assert architecture_content(architecture) == bare(architecture).to_json()
    assert architecture_id(architecture) == architecture_id(bare(architecture))
    assert architecture.area_um2 > 0, "the architecture itself is not changed"


def test_a_run_reads_the_parts_of_other_runs_once_however_often_it_proposes(
    tiny: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planning, proposals and look-ups of all designs have one index in common."""
    other = tiny.model_copy(update={"mapping": tiny.mapping.model_copy(update={"seed": 5})})
    first = run_study(other, tmp_path / "runs" / "other0", HERE).path
    for number in range(1, 12):
        shutil.copytree(first, first.with_name(f"other{number}"))
    seen: Counts[Path] = Counts()

    def reading(table: Any, path: Path, columns: Any) -> Any:
        seen[path] += 1
        return read_part(table, path, columns)

    monkeypatch.setattr(answers_of_runs, "read_part", reading)
    search = OptunaSearch(method="optuna", trials=4, sampler="random")
    counter = Counter()
    run_study(tiny.model_copy(update={"search": search}), tmp_path / "runs" / "tiny", HERE, observer=counter)
    assert (counter.solved, counter.designs) == (4, 4)
    others = {path: count for path, count in seen.items() if path.parents[1].name != "tiny"}
    assert len(others) == 12
    assert set(others.values()) == {1}
