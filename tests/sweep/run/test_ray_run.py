"""A study on a real local Ray: the same answers as in this process, and stopped as cleanly."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from results.store.folder import RunFolder
from sweep.run.session import RuntimeChoice, run_study
from sweep.study.study import Study, load_study
from tests.clusters.processes import PATIENCE, line_of

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
ROOT = Path(__file__).parents[3]
HELD = Path(__file__).with_name("held.py")


def objectives(folder: RunFolder) -> dict[str, float]:
    return {row["task_id"]: row["objective"] for row in folder.read_rows("layers")}


@pytest.mark.usefixtures("local_ray")
def test_ray_gives_the_answers_of_one_process(tiny: Study, tmp_path: Path) -> None:
    alone = run_study(tiny, tmp_path / "a" / "tiny", RuntimeChoice(in_process=True))
    cluster = run_study(tiny, tmp_path / "b" / "tiny", RuntimeChoice(workers=2))
    assert objectives(cluster) == objectives(alone)
    assert len(objectives(alone)) == 4
    workers = {row["worker"] for row in cluster.read_rows("layers")}
    assert str(os.getpid()) not in {worker.rpartition(":")[2] for worker in workers}


CHIPS = """
name: chips
networks: [chain.json]
chip: set-edge
axes: {mesh: {choices: [[1, 1], [2, 1]]}}
objectives: [energy_pj, cycles]
mapping: {solver: nvdla}
schedule: {solver: layer_sequential, batch: 2, seeds: 2, params: {beta: 2}}
"""


@pytest.mark.usefixtures("local_ray")
def test_schedules_on_ray_wait_for_their_tile_costs_and_are_those_of_one_process(tmp_path: Path) -> None:
    layers = [
        {"name": name, "type": "conv", "K": 16, "H": 4, "W": 4, "R": 1, "S": 1, "sH": 1, "sW": 1}
        | {"pad_h": 0, "pad_w": 0, "ifmap_real": [16, 4, 4], "ifm_prevs": before}
        | {"external_C": 0 if before else 16}
        for name, before in (("a", []), ("b", [0]), ("c", [1]))
    ]
    (tmp_path / "chain.json").write_text(json.dumps({"layers": layers}))
    (tmp_path / "chips.yaml").write_text(CHIPS)
    study = load_study(str(tmp_path / "chips.yaml"))
    alone, cluster = (
        run_study(study, tmp_path / name / "chips", place)
        for name, place in (("a", RuntimeChoice(in_process=True)), ("b", RuntimeChoice(workers=2)))
    )
    rows = [{row["task_id"]: row for row in f.read_rows("schedules")} for f in (alone, cluster)]
    found, expected = ({i: (r["tree"], r["objective"]) for i, r in table.items()} for table in rows)
    assert found == expected
    assert len(found) == 4
    assert {row["status"] for row in cluster.read_rows("designs")} == {"complete"}


@pytest.mark.usefixtures("local_ray")
def test_an_optuna_study_on_ray_has_a_row_for_every_trial_and_resumes(
    write_study: Callable[..., Path], tmp_path: Path
) -> None:
    text = (
        write_study().read_text().replace("choices: [2 KiB, 4 KiB]", "from: 2, to: 40, step: 2, unit: KiB")
        + "search: {method: optuna, trials: 24, population: 6}\n"
    )
    study = load_study(str(write_study(text)))
    place, output = RuntimeChoice(workers=2), tmp_path / "runs" / "tiny"
    rows = run_study(study, output, place).read_rows("designs")
    assert len({row["trial"] for row in rows}) == len(rows) == 24
    assert {row["status"] for row in rows} == {"complete"}
    more = Study.model_validate(
        study.model_dump(by_alias=True) | {"search": study.search.model_dump() | {"trials": 30}}
    )
    again = run_study(more, output, place).read_rows("designs")
    before, after = ({(row["trial"], row["design_id"]) for row in table} for table in (rows, again))
    assert len(after) == 30
    assert before < after


@pytest.mark.parametrize(
    ("number", "place"),
    [
        (signal.SIGINT, ["--workers", "2"]),
        pytest.param(signal.SIGTERM, ["--in-process"], marks=pytest.mark.thorough),
        pytest.param(signal.SIGKILL, ["--in-process"], marks=pytest.mark.thorough),
    ],
    ids=["SIGINT", "SIGTERM", "SIGKILL"],
)
def test_a_stopped_run_on_ray_is_resumed(
    write_study: Callable[..., Path], tmp_path: Path, number: signal.Signals, place: list[str]
) -> None:
    """Also after kill -9 of the driver: rows that were not yet a part are solved again, none is doubled.

    It goes on where ``place`` says: test_faults.py lets a Ray resume what another one's dead driver left.
    """
    many = write_study().read_text().replace("choices: [2 KiB, 4 KiB]", "from: 2, to: 20, step: 2, unit: KiB")
    path = write_study(many)
    words = ["run", str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    folder = RunFolder(tmp_path / "runs" / "tiny")
    with subprocess.Popen(
        [sys.executable, str(HELD), "1", *words, "--workers", "2"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert line_of(process) == "held\n"
        process.send_signal(number)
        _, said = process.communicate(timeout=PATIENCE)
    if number is not signal.SIGKILL:
        assert process.returncode == 1
        assert "the same command goes on" in said
        assert 1 <= len(folder.read_rows("layers")) < 20
    again = subprocess.run(
        [sys.executable, "-m", "archsweep", *words, *place],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert again.returncode == 0, again.stderr
    rows = folder.read("layers").to_pylist()
    assert len(rows) == len({row["task_id"] for row in rows}) == 20
    assert {row["status"] for row in folder.read_rows("designs")} == {"complete"}


@pytest.mark.thorough
def test_a_memory_limit_below_the_solvers_code_ends_the_run_before_any_solve(
    write_study: Callable[..., Path], tmp_path: Path
) -> None:
    path = write_study()
    path.write_text(path.read_text().replace("solver: random_search", "solver: cosa"))

    def run(limit: int) -> subprocess.CompletedProcess[str]:
        words = ["run", path.name, "--workers", "1", "--memory-limit", str(limit)]
        return subprocess.run(
            [sys.executable, "-m", "archsweep", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    refused = run(256)
    assert refused.returncode == 2, refused.stderr
    said = refused.stderr.splitlines()[-1]
    found = re.fullmatch(
        r"archsweep: --memory-limit: expected at least (\d+) MiB, found 256 MiB. The code of cosa takes "
        r"(\d+) MiB of a worker's address space, and solves need (\d+) MiB more",
        said,
    )
    assert found, said
    least, taken, more = map(int, found.groups())
    assert least == taken + more > 256
    assert not list((tmp_path / "runs").rglob("*.parquet"))
    enough = run(least + 16)
    assert enough.returncode == 0, enough.stderr
