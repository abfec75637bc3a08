"""The index of stored answers against a look-up that reads everything, on random stores that change."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from results.errors import DamagedFileError
from results.store import known_answers as answers
from results.store.folder import Buffering, RunWriter, compact
from results.store.journal import journalled_rows
from results.store.known_answers import StoredAnswers, answer_columns
from results.store.part_listing import PartListing
from results.store.parts import list_parts, read_part
from results.store.schema.tables import ANSWERED, LAYERS, TABLES

ROOT = Path(__file__).parents[3]
Row = dict[str, Any]
Make = Callable[..., Row]
NEVER = Buffering(rows=10_000, seconds=3600)
STATUSES = ("optimal", "feasible", "infeasible", "unknown", "failed")


def looked_up(root: Path, column: str, values: Iterable[str]) -> list[Row]:
    """All answered rows with one of the values, from every file that can be read, in their order."""
    rows: list[Row] = []
    for run in sorted(root.glob("*/")):
        rows += journalled_rows(run / "layers", LAYERS)
        for part in list_parts(run / "layers"):
            try:
                rows += read_part(LAYERS, part, LAYERS.names()).to_pylist()
            except DamagedFileError:
                continue
    return [
        dict(LAYERS.decode(row)) for row in rows if row[column] in set(values) and row["status"] in ANSWERED
    ]


def best(rows: list[Row]) -> dict[str, Row]:
    """Of the rows of each task the one that was solved rather than copied, then the one finished first."""
    found: dict[str, Row] = {}
    for row in rows:
        rank = bool(row["cached"]), row["finished_at"]
        known = found.get(row["task_id"])
        if known is None or rank < (bool(known["cached"]), known["finished_at"]):
            found[row["task_id"]] = row
    return {key: {name: row[name] for name in answer_columns()} for key, row in found.items()}


class Store:
    """Run folders with random rows: few tasks, so that most have several rows, in parts of any size."""

    def __init__(self, root: Path, make: Make, seed: int) -> None:
        self.root, self.make, self.random = root, make, random.Random(seed)
        self.tasks = [str(make(number)["task_id"]) for number in range(30)]
        self.clock = 0

    def row(self) -> Row:
        """Times are all different, as clocks of microseconds make them: no two rows rank the same."""
        self.clock += 1
        number, draw = self.random.randrange(len(self.tasks)), self.random
        first = self.make(number)["finished_at"]
        return self.make(
            number,
            status=draw.choice(STATUSES),
            cached=draw.choice((True, False, None)),
            finished_at=first + timedelta(microseconds=draw.randrange(1000) * 100_000 + self.clock),
            worker=f"row {self.clock}",
            architecture_id=draw.choice("abc") * 32,
        )

    def append(self, run: str, count: int, close: bool = True) -> None:
        """A run writes so many rows and ends, or is killed with some rows in its journal only."""
        writer = RunWriter(self.root / run, Buffering(rows=self.random.choice((5, 100, 100)), seconds=3600))
        for _ in range(count):
            writer.append("layers", self.row())
        if close:
            writer.close()
        else:
            writer._stop_timer()
            writer._release()

    def change(self) -> None:
        """One of the things that other runs, users and disks do."""
        runs = sorted(path.name for path in self.root.glob("*/"))
        draw, run = self.random, self.random.choice(runs)
        parts = list_parts(self.root / run / "layers")
        what = draw.choice(("append", "kill", "kill", "compact", "remove", "delete run", "damage"))
        if what == "append":
            self.append(draw.choice([*runs, f"run{len(runs)}{self.clock}"]), draw.randrange(1, 20))
        elif what == "kill":
            self.append(run, draw.randrange(1, 20), close=False)
        elif what == "compact":
            compact(self.root / run, "layers", 1000)
        elif what == "remove" and parts:
            draw.choice(parts).unlink()
        elif what == "delete run" and len(runs) > 3:
            shutil.rmtree(self.root / run)
        elif what == "damage" and parts:
            part = draw.choice(parts)
            hidden = part.with_name(".damaged")
            hidden.write_bytes(part.read_bytes()[: part.stat().st_size // 2])
            hidden.replace(part)


@pytest.fixture
def always_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look-up looks for new parts, and asks for every folder's time of change."""
    monkeypatch.setattr(answers, "LOOKING_FRACTION", 1e9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_the_index_finds_what_reading_everything_finds_while_the_store_changes(
    tmp_path: Path, make_layer: Make, always_look: None, seed: int
) -> None:
    store = Store(tmp_path, make_layer, seed)
    for number in range(5):
        store.append(f"run{number}", store.random.randrange(1, 40), close=number % 2 == 0)
    stored, found, journalled = StoredAnswers(tmp_path), 0, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(12):
            asked = store.random.sample(store.tasks, store.random.randrange(1, len(store.tasks)))
            expected = best(looked_up(tmp_path, "task_id", asked))
            assert stored.find(LAYERS, asked) == expected
            assert stored.known(LAYERS, asked) == set(expected)
            wanted = store.random.sample(["a" * 32, "b" * 32, "c" * 32, "d" * 32], 2)
            matching = stored.matching(LAYERS, "architecture_id", wanted, ("worker",))
            assert [row["worker"] for row in matching] == [
                row["worker"] for row in looked_up(tmp_path, "architecture_id", wanted)
            ]
            found += len(expected)
            journalled += sum(len(journalled_rows(run / "layers", LAYERS)) for run in tmp_path.glob("*/"))
            store.change()
    assert found > 50
    assert journalled > 10


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The parts that were read, in their order, one entry each time."""
    seen: list[Path] = []

    def reading(table: Any, path: Path, columns: Any) -> Any:
        seen.append(path)
        return read_part(table, path, columns)

    monkeypatch.setattr(answers, "read_part", reading)
    return seen


def write(folder: Path, rows: Iterable[Row]) -> None:
    with RunWriter(folder, NEVER) as run:
        for row in rows:
            run.append("layers", row)


@pytest.mark.slow
def test_a_look_up_reads_the_parts_that_hold_what_it_finds_and_no_others(
    tmp_path: Path, make_layer: Make, reads: list[Path]
) -> None:
    for number in range(20):
        write(tmp_path / f"run{number:02}", [make_layer(number)])
    stored = StoredAnswers(tmp_path)
    assert stored.known(LAYERS, ["nothing"]) == set()
    assert len(reads) == 20
    reads.clear()
    for number in range(100, 200):
        assert stored.find(LAYERS, [make_layer(number)["task_id"]]) == {}
    assert reads == []
    for _ in range(3):
        found = stored.find(LAYERS, [make_layer(number)["task_id"] for number in (7, 12, 100)])
        assert len(found) == 2
    assert [path.parents[1].name for path in reads] == ["run07", "run12"]


@pytest.mark.slow
def test_looking_for_new_parts_takes_a_bounded_share_of_the_time(
    tmp_path: Path, make_layer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock that only moves when somebody looks: a look takes 1 s, so the next is due after 50 s."""
    write(tmp_path / "run", [make_layer(0)])
    now, looks = [0.0], [0]
    look = PartListing.look

    def slow(self: PartListing) -> bool:
        now[0] += 1.0
        looks[0] += 1
        return look(self)

    monkeypatch.setattr(PartListing, "look", slow)
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    stored = StoredAnswers(tmp_path)
    for _ in range(1000):
        stored.find(LAYERS, ["nothing"])
    assert looks == [1]
    write(tmp_path / "another", [make_layer(1)])
    task_id = make_layer(1)["task_id"]
    now[0] += 49.0
    assert not stored.find(LAYERS, [task_id])
    now[0] += 1.0
    assert stored.find(LAYERS, [task_id])


def test_what_others_write_is_found_and_only_new_parts_are_read(
    tmp_path: Path, make_layer: Make, always_look: None, reads: list[Path]
) -> None:
    write(tmp_path / "one", [make_layer(0)])
    stored = StoredAnswers(tmp_path)
    asked = [make_layer(number)["task_id"] for number in range(4)]
    assert stored.known(LAYERS, asked) == set(asked[:1])
    with ExitStack() as others:
        for number in (1, 2, 3):
            reads.clear()
            writer = others.enter_context(RunWriter(tmp_path / f"run{number}", NEVER))
            writer.append("layers", make_layer(number))
            writer.flush()
            assert stored.known(LAYERS, asked) == set(asked[: number + 1])
            assert [path.parents[1].name for path in reads] == [f"run{number}"]
    assert set(stored.find(LAYERS, asked)) == set(asked)


@pytest.mark.parametrize("what", ["joined", "deleted", "replaced", "damaged", "emptied"])
def test_a_part_that_changes_between_the_look_and_the_reading(
    tmp_path: Path, make_layer: Make, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers of the part are found where they are now, or in another run, or not at all."""
    rows = [make_layer(number) for number in range(6)]
    with RunWriter(tmp_path / "a", Buffering(rows=2, seconds=3600)) as writer:
        for row in rows:
            writer.append("layers", row)
        kept = [part.read_bytes() for part in list_parts(tmp_path / "a" / "layers")]
    for part, content in zip(("00000001", "00000002", "00000003"), kept, strict=True):
        (tmp_path / "a" / "layers" / f"{part}.parquet").write_bytes(content)
    copies = [row | {"cached": True, "worker": "copy"} for row in rows[2:4]]
    write(tmp_path / "b", copies)
    stored = StoredAnswers(tmp_path)
    asked = [row["task_id"] for row in rows]
    assert stored.known(LAYERS, asked) == set(asked)
    monkeypatch.setattr(answers, "LOOKING_FRACTION", 1e-9)
    stored._next_look["layers"] = float("inf")
    first, second, _ = list_parts(tmp_path / "a" / "layers")
    if what == "joined":
        compact(tmp_path / "a", "layers", 1000)
    elif what == "deleted":
        second.unlink()
    elif what == "replaced":
        os.replace(first, second)
    elif what == "damaged":
        second.write_bytes(kept[1][:-200])
    else:
        second.write_bytes(b"")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = stored.find(LAYERS, asked)
        again = stored.find(LAYERS, asked)
    assert set(found) == set(asked)
    assert again == found
    workers = ["copy" if row["worker"] == "copy" else "" for row in found.values()]
    assert workers.count("copy") == (0 if what == "joined" else 2)
    for row in rows:
        assert found[row["task_id"]]["objective"] == row["objective"]


def test_another_run_s_journal_is_read_whether_it_lives_or_was_killed(
    tmp_path: Path, make_layer: Make
) -> None:
    code = (
        "import os, signal, sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; from tests.results.conftest import layer_row\n"
        "from results.store.folder import RunWriter\n"
        "writer = RunWriter(Path(sys.argv[2]))\n"
        "for n in range(5): writer.append('layers', layer_row(n, status='failed' if n == 2 else 'optimal'))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", code, str(ROOT), str(tmp_path / "killed")]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    journal = tmp_path / "killed" / "layers" / ".journal"
    journal.write_bytes(journal.read_bytes()[:-10])
    before = journal.read_bytes()
    with RunWriter(tmp_path / "alive", NEVER) as writer:
        writer.append("layers", make_layer(7))
        stored = StoredAnswers(tmp_path)
        asked = [make_layer(number)["task_id"] for number in range(8)]
        expected = {asked[number] for number in (0, 1, 3, 7)}
        assert stored.known(LAYERS, asked) == expected
        assert set(stored.find(LAYERS, asked)) == expected
    assert set(stored.find(LAYERS, asked)) == expected
    assert journal.read_bytes() == before


def test_a_journal_that_may_not_be_read_is_left_out_with_a_warning(tmp_path: Path, make_layer: Make) -> None:
    write(tmp_path / "one", [make_layer(0)])
    journal = tmp_path / "one" / "layers" / ".journal"
    journal.unlink()
    (journal / "a folder").mkdir(parents=True)
    asked = [make_layer(0)["task_id"]]
    with pytest.warns(UserWarning, match=r"left out of the lookup: .*\.journal: cannot be read"):
        assert set(StoredAnswers(tmp_path).find(LAYERS, asked)) == set(asked)


def test_a_store_that_is_not_there_or_empty_has_no_answers(tmp_path: Path) -> None:
    (tmp_path / "runs" / "a" / "layers").mkdir(parents=True)
    (tmp_path / "runs" / "a file").write_text("no run")
    for root in (tmp_path / "nowhere", tmp_path / "runs", tmp_path / "runs" / "a file"):
        stored = StoredAnswers(root)
        for table in TABLES.values():
            assert stored.matching(table, "study", ["x"], ()) == []
        assert stored.find(LAYERS, ["x"]) == {}
        assert stored.known(LAYERS, []) == set()


def test_ids_whose_digests_begin_alike_are_told_apart(tmp_path: Path, make_layer: Make) -> None:
    # the upper bits of a digest are those of the id, mixed with its lower ones: these three have equal ones
    odd, every = 0x9E3779B97F4A7C15, 1 << 64
    alike = [f"{(5 ^ low * odd % every):016x}{low:016x}" for low in (0, 1, 2)]
    with RunWriter(tmp_path / "one") as run:
        for number, task_id in enumerate((alike[0], alike[2], alike[2])):
            run.append("layers", make_layer(number, task_id=task_id))
    store = StoredAnswers(tmp_path)
    assert store.known(LAYERS, alike) == {alike[0], alike[2]}
    found = store.find(LAYERS, alike)
    assert {task_id: row["cycles"] for task_id, row in found.items()} == {alike[0]: 1000, alike[2]: 1001}
