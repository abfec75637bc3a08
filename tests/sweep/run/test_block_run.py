"""Runs by blocks: the rows of runs by tasks, each solve once, and what fails does not take others along."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clusters.in_process import InProcessRuntime
from clusters.runtime import RuntimeSettings
from costmodel.formats.cases.mapping import mapping_from_json
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.evaluate import evaluate
from costmodel.workload.network import Layer
from results.store.folder import RunFolder, RunWriter
from results.store.known_answers import StoredAnswers
from results.store.parts import list_parts
from results.store.row_batch import PART_ROWS, RowBatch
from results.store.schema.columns import StoredRow
from results.store.schema.tables import LAYERS
from results.store.shared_folder import MARK
from solvers.mapping.problem import MappingProblem
from sweep.blocks.block import Block, BlockTally
from sweep.blocks.block_work import Solve, solve
from sweep.blocks.solve_ids import SolveIds
from sweep.design.mapping_workload import LayerSolve, MappingWorkload
from sweep.forecast.plan import plan
from sweep.run.block_run import BlockRun
from sweep.run.progress.observer import RunObserver
from sweep.run.session import RuntimeChoice, run_study
from sweep.study.network_choice import NetworkChoice
from sweep.study.study import AxisChoices, Study
from sweep.tasks.kinds import answer_task
from tests.sweep.run.explored import MakeRuntime, explored

HERE = RuntimeChoice(in_process=True)
MEASURED = {"cpu_seconds", "wall_seconds", "worker", "finished_at", "attempts"}


class Blocks(RunObserver):
    """Notes what every block says."""

    def __init__(self) -> None:
        self.tallies: list[BlockTally] = []

    def block_done(self, tally: BlockTally) -> None:
        self.tallies.append(tally)

    @property
    def solves(self) -> int:
        return sum(tally.solves for tally in self.tallies)


@pytest.fixture
def family(tiny: Study) -> Study:
    """Two networks with a layer in common, on 12 designs of 6 architectures that mappings can tell apart."""
    axes = {
        "SRAM.size": AxisChoices(choices=("2 KiB", "4 KiB", "8 KiB")),
        "SRAM.fanout": AxisChoices(choices=([2, 2], [4, 2])),
        "frequency": AxisChoices(choices=("100 MHz", "200 MHz")),
    }
    (first,) = tiny.networks
    mapping = tiny.mapping.model_copy(update={"iterations": 300})
    return tiny.model_copy(
        update={"axes": axes, "networks": (first, NetworkChoice(network="resnet18")), "mapping": mapping}
    )


def contents(folder: RunFolder, table: str) -> dict[str, dict[str, Any]]:
    """The rows of a table by key, without what no two runs have in common; each once."""
    rows = folder.read_rows(table)
    key = "task_id" if table == "layers" else "design_id"
    found = {row[key]: {name: row[name] for name in row.keys() - MEASURED} for row in rows}
    assert len(found) == len(rows)
    return found


@contextmanager
def opened(study: Study, path: Path, observer: RunObserver | None = None) -> Iterator[BlockRun]:
    store = StoredAnswers(path.parent)
    planned = plan(study, store)
    assert planned.table is not None
    with RunWriter(path) as writer:
        yield BlockRun(study, planned.table, planned.workload, writer, observer, store)


@pytest.mark.slow
def test_rows_are_those_of_a_run_by_tasks(family: Study, tmp_path: Path, in_process: MakeRuntime) -> None:
    blocks = run_study(family, tmp_path / "a" / "tiny", HERE)
    (tmp_path / "b").mkdir()
    tasks = explored(family, tmp_path / "b" / "tiny", in_process(answer_task))
    for table in ("layers", "designs"):
        assert contents(blocks, table) == contents(tasks, table)
    assert len(contents(blocks, "layers")) == 6 * 13
    spent = [row["cpu_seconds"] > 0 for row in blocks.read_rows("designs")]
    assert spent.count(True) == 6, "of two designs that need the same solves, one has their CPU time"


def timed_family(family: Study) -> Study:
    """Gemmini with two of its timing's constants, and clocks, which mappings cannot tell apart."""
    axes = {
        "timing.issue": AxisChoices(choices=(100, 400)),
        "frequency": AxisChoices(choices=("100 MHz", "200 MHz")),
    }
    return family.model_copy(update={"architecture": "gemmini", "axes": axes})


def precise_family(family: Study) -> Study:
    """The family around Eyeriss with weights of two widths."""
    axes = family.axes | {"precision.weights": AxisChoices(choices=("int4", "int8"))}
    return family.model_copy(update={"axes": axes})


@pytest.mark.parametrize(
    ("made", "architectures"),
    [(lambda family: family, 6), (timed_family, 2), (precise_family, 12)],
    ids=["plain", "timed", "precise"],
)
def test_ids_in_bulk_are_those_of_the_tasks(
    family: Study, made: Callable[[Study], Study], architectures: int
) -> None:
    study = made(family)
    planned = plan(study)
    assert planned.table is not None
    assert isinstance(planned.workload, MappingWorkload)
    ids = list(SolveIds(planned.table, planned.workload))
    order, begins = planned.table.by_group
    for group, found in enumerate(ids):
        for row in order[begins[group] : begins[group + 1]].tolist():
            tasks = planned.workload.tasks(planned.table.design(row))
            assert list(dict.fromkeys(task.id for task in tasks)) == found
    assert planned.distinct == len({task_id for found in ids for task_id in found}) == architectures * 13


@pytest.mark.slow
def test_a_timed_machine_s_solves_are_found_again(family: Study, tmp_path: Path) -> None:
    study = timed_family(family).model_copy(update={"networks": family.networks[:1]})
    run_study(study, tmp_path / "a", HERE)
    assert plan(study, StoredAnswers(tmp_path)).open == 0
    again = run_study(study, tmp_path / "b", HERE)
    assert all(row["cached_solves"] == row["solves"] == 1 for row in again.read_rows("designs"))


def test_designs_travel_as_numbers_of_parts_that_workers_have(family: Study, tmp_path: Path) -> None:
    """The work has the parts once; a block and what is cut from it have the designs that the table has."""
    with opened(family, tmp_path / "a") as run:
        order, begins = run.table.by_group
        groups = np.array([4, 1, 2])
        block = run._block_of(groups, (0, 3 * 13))
        assert block.parts == ()
        rows = [row for group in groups for row in order[begins[group] : begins[group + 1]].tolist()]
        bringing = Block.of(run.table, np.array(rows), block.begins, (0, 3 * 13), 0.0)
        assert bringing.parts != ()
        space, wanted = run.table.space, [run.table.design(row) for row in rows]
        for one in (block, bringing):
            whole = one.with_parts(run.work.parts)
            assert list(whole.designs(space, 0, len(rows))) == wanted
            cut = one.part((1, 3), (0, 26), 0.0).with_parts(run.work.parts)
            assert list(cut.designs(space, 0, cut.begins[-1])) == wanted[block.begins[1] :]


@dataclass(frozen=True)
class Slow:
    """Solves in no time that can be told from none, and sleeps before."""

    seconds: float

    def __call__(self, problem: MappingProblem, asked: LayerSolve) -> Any:
        time.sleep(self.seconds)
        return solve(problem, asked)


@pytest.mark.slow
def test_blocks_grow_with_what_is_solved_fast_and_end_early_where_it_is_slow(
    family: Study, tmp_path: Path, in_process: MakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However solves are spread over blocks, the rows are the same: a block has parts of groups or many."""
    from sweep.blocks import sizes

    seen = Blocks()
    with opened(family, tmp_path / "a" / "tiny", seen) as run:
        runtime = in_process(run.work)
        assert run._size(runtime) == 1, "nothing was timed before the first"
        run._seconds_each = 1e-6
        run.explore(runtime)
    assert max(tally.solves for tally in seen.tallies) > 13, "more than one group in a block"
    monkeypatch.setattr(sizes, "LONGEST_BLOCK", 0.02)
    cut = Blocks()
    with opened(family, tmp_path / "b" / "tiny", cut) as run:
        run._seconds_each = 1e-6
        run.explore(in_process(replace(run.work, solve=Slow(0.015))))
    assert max(tally.solves for tally in cut.tallies) < 13, "no block went on to the end of a group"
    assert seen.solves == cut.solves == 6 * 13
    for table in ("layers", "designs"):
        assert contents(RunFolder(tmp_path / "a" / "tiny"), table) == contents(
            RunFolder(tmp_path / "b" / "tiny"), table
        )


@dataclass(frozen=True)
class Trouble:
    """Does something at one layer of the small architectures, and solves the others."""

    act: Callable[[], Any]

    def __call__(self, problem: MappingProblem, asked: LayerSolve) -> Any:
        sizes = [level.size_words for level in problem.architecture.levels]
        if 1024 in sizes and asked.layer.name.endswith("/conv1"):
            self.act()
        return solve(problem, asked)


def no_solver() -> None:
    raise RuntimeError("no solver today")


@pytest.mark.slow
def test_a_failed_solve_is_a_row_and_is_tried_again(
    family: Study, tmp_path: Path, in_process: MakeRuntime
) -> None:
    path, seen = tmp_path / "runs" / "tiny", Blocks()
    with opened(family, path, seen) as run:
        run.explore(in_process(replace(run.work, solve=Trouble(no_solver))))
    failed = [row for row in RunFolder(path).read_rows("layers") if row["status"] == "failed"]
    assert len(failed) == 2 == sum(tally.failures for tally in seen.tallies)
    assert {row["error"] for row in failed} == {"RuntimeError: no solver today"}
    assert all(0 <= row["cpu_seconds"] <= row["wall_seconds"] for row in failed)
    designs = contents(RunFolder(path), "designs").values()
    assert sorted(row["status"] for row in designs) == ["complete"] * 8 + ["failed"] * 4
    again = Blocks()
    run_study(family, path, HERE, observer=again)
    assert again.solves == 6 * 13
    assert sum(tally.hits for tally in again.tallies) == 6 * 13 - 2
    assert {row["status"] for row in contents(RunFolder(path), "designs").values()} == {"complete"}


@pytest.mark.slow
def test_a_solve_over_the_wall_limit_takes_no_other_along(family: Study, tmp_path: Path) -> None:
    path = tmp_path / "runs" / "tiny"
    with opened(family, path) as run:
        run._seconds_each = 1e-6  # so that the first blocks have many solves
        work: Solve = Trouble(lambda: time.sleep(60))
        limited = RuntimeSettings(wall_limit_seconds=3.0)
        with InProcessRuntime(replace(run.work, solve=work), limited) as runtime:
            run.explore(runtime)
    rows = RunFolder(path).read_rows("layers")
    failed = [row for row in rows if row["status"] == "failed"]
    assert len(rows) == 6 * 13
    assert {row["layer_name"].rpartition("/")[2] for row in failed} == {"conv1"}
    assert len(failed) == 2
    assert all("WallLimitExceeded" in row["error"] for row in failed)
    assert len(RunFolder(path).read_rows("designs")) == 12


@pytest.mark.slow
def test_answers_of_other_runs_are_copied_and_those_of_the_own_folder_are_not(
    family: Study, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    narrow = family.model_copy(
        update={"axes": dict(family.axes) | {"SRAM.size": AxisChoices(choices=("2 KiB", "4 KiB"))}}
    )
    run_study(narrow, runs / "tiny", HERE)
    own = run_study(family, runs / "tiny", HERE)
    assert len(list((own.path / "layers").glob("*.parquet"))) == 1, "joined, and nothing twice"
    other = run_study(family.model_copy(update={"name": "other"}), runs / "other", HERE)
    rows = other.read_rows("layers")
    assert {(row["study"], row["from_study"], row["cached"]) for row in rows} == {("other", "tiny", True)}
    mine, copied = contents(own, "layers"), contents(other, "layers")
    different = {"study", "from_study", "cached"}
    for task_id, row in copied.items():
        assert {name: row[name] for name in row.keys() - different} == {
            name: mine[task_id][name] for name in row.keys() - different
        }


def _elsewhere(run: BlockRun, elsewhere: Path) -> BlockRun:
    """Workers that see another folder under the path, with a mark that somebody copied along."""
    shared = run.writer.shared()
    for table in ("layers", "designs"):
        (elsewhere / table).mkdir(parents=True)
    (elsewhere / MARK).write_text(shared.token)
    run.work = replace(run.work, folder=replace(shared, path=elsewhere))
    return run


@pytest.mark.slow
@pytest.mark.parametrize("where", ["seen", "not seen", "another folder"])
def test_workers_write_parts_where_they_see_the_folder_of_the_run(
    where: str, family: Study, tmp_path: Path, in_process: MakeRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are the same whoever writes them, and none is lost where the driver does not find them."""
    from results.store import row_batch
    from sweep.run import block_run

    monkeypatch.setattr(row_batch, "PART_ROWS", 4)
    monkeypatch.setattr(block_run, "JOINED_ROWS", 4)
    seen, path = Blocks(), tmp_path / "a" / "tiny"
    with opened(family, path, seen) as run:
        if where == "not seen":
            (path / MARK).unlink()
        if where == "another folder":
            run = _elsewhere(run, tmp_path / "elsewhere")
        run._seconds_each = 1e-6
        run.explore(in_process(run.work))
        written = [name for table in ("layers", "designs") for name in _of_workers(path / table)]
    assert bool(written) == (where == "seen")
    assert (not run._shares) == (where == "another folder")
    assert not (path / MARK).exists(), "what a writer shared ends with it"
    monkeypatch.undo()
    (tmp_path / "b").mkdir()
    tasks = explored(family, tmp_path / "b" / "tiny", in_process(answer_task))
    for table in ("layers", "designs"):
        assert contents(RunFolder(path), table) == contents(tasks, table)
    again = run_study(family, path, HERE, observer=(reused := Blocks()))
    assert sum(tally.hits for tally in reused.tallies) == reused.solves == 6 * 13
    assert contents(again, "layers") == contents(tasks, "layers")


def _of_workers(folder: Path) -> list[str]:
    return [part.name for part in list_parts(folder) if "-" in part.name]


@pytest.mark.slow
def test_a_part_that_a_worker_wrote_is_taken_back_and_comes_before_the_driver_s(
    family: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where its block was begun twice: the rows say so then, and are in the folder once."""
    run_study(family, tmp_path / "a" / "tiny", HERE)
    rows = [StoredRow(row) for row in RunFolder(tmp_path / "a" / "tiny").read("layers").to_pylist()]
    from results.store import row_batch

    monkeypatch.setattr(row_batch, "PART_ROWS", 4)
    path = tmp_path / "b" / "tiny"
    with RunWriter(path) as writer:
        shared = writer.shared()
        stored = shared.stored(RowBatch.of("layers", rows[:8]))
        other = shared.stored(RowBatch.of("layers", rows[8:16]))
        assert stored.part
        assert not stored.parquet
        assert writer.sees(stored)
        writer.append_batch(writer.taken_back(stored).with_attempts(2))
        writer.append_batch(other)
        assert not writer.sees(stored)
        names = [part.name for part in list_parts(path / "layers")]
        assert names == sorted(names)
        assert names[0] == other.part
    assert not shared.is_seen
    assert shared.stored(RowBatch.of("layers", rows[16:24])).parquet, "the folder is no longer shared"
    found = RunFolder(path).read_rows(LAYERS)
    assert sorted(row["attempts"] or 0 for row in found) == [1] * 8 + [2] * 8
    assert len({row["task_id"] for row in found}) == 16


def test_a_machine_s_timing_travels_with_its_designs(tiny: Study, tmp_path: Path) -> None:
    """Rows of a study on Gemmini have the cycles that the library's machine takes, and what they wait for."""
    axes = {"timing.issue": AxisChoices(choices=(0, 5000))}
    study = tiny.model_copy(update={"architecture": "gemmini", "axes": axes, "baseline": None})
    folder = run_study(study, tmp_path / "a" / "tiny", HERE)
    rows = folder.read_rows("layers")
    assert len({row["architecture_id"] for row in rows}) == 2
    for row in rows:
        architecture = Architecture.from_json(row["architecture"])
        assert architecture.timing is not None
        shape = row["layer_shape"]
        layer = Layer.from_json(shape | {"name": row["layer_name"], "dims": dict(shape["dims"])})
        evaluation = evaluate(architecture, layer, mapping_from_json(architecture, layer, row["mapping"]))
        assert evaluation.timed is not None
        assert row["cycles"] == evaluation.cycles
        assert row["cycles_without"] == evaluation.timed.without
    assert "issue" in {row["bound_by"] for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize("rows", [3, PART_ROWS])
def test_a_batch_is_stored_as_its_rows_are(family: Study, tmp_path: Path, rows: int) -> None:
    """As lines of the journal or as a part; with the number of attempts that only the driver knows."""
    template = run_study(family, tmp_path / "a" / "tiny", HERE).read_rows("layers")[0]
    made = [
        {name: value for name, value in template.items() if name != "schema_version"}
        | {"task_id": f"{n:032}"}
        for n in range(rows)
    ]
    encoded = [LAYERS.encode(row) for row in made]
    for row, one in zip(encoded, made, strict=True):
        names = sorted(one)
        parts = [LAYERS.encode_part({name: one[name] for name in some}) for some in (names[:9], names[9:])]
        assert LAYERS.joined(*parts) == row
    batch = RowBatch.of("layers", encoded)
    assert bool(batch.parquet) == (rows >= PART_ROWS)
    writer = RunWriter(tmp_path / "b")
    writer.append_batch(batch.with_attempts(4))
    journal = (tmp_path / "b" / "layers" / ".journal").read_bytes()
    assert journal.count(b"\n") == (0 if batch.parquet else rows), "a killed process loses none of them"
    writer.close()
    stored = RunFolder(tmp_path / "b").read_rows("layers")
    assert stored == [one | {"attempts": 4, "schema_version": LAYERS.version} for one in made]
