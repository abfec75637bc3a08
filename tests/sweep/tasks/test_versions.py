"""Workers with other code than the driver's end a run at once, with one message and no rows."""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from clusters.in_process import InProcessRuntime
from clusters.runtime import WorkersUnavailableError
from results.store.folder import RunFolder, RunWriter
from results.store.schema.rows import MappingColumns
from solvers.catalogue import solver
from sweep import VERSION
from sweep.run.run import StudyRun
from sweep.search.search import search_of
from sweep.study.lock import lock_content
from sweep.study.study import Study, load_study
from sweep.tasks.mapping import run_mapping_task

Start = Callable[[Callable[[Any], Any]], InProcessRuntime]


def test_the_version_is_the_package_s() -> None:
    pyproject = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    assert tomllib.loads(pyproject)["project"]["version"] == VERSION


def test_the_lock_file_has_the_version_of_every_solver_of_a_study_of_chips() -> None:
    versions = lock_content(load_study("kapla-16x16"))["versions"]
    for name in ("kapla", "kapla_schedule"):
        assert versions[f"solver {name}"] == solver(name).load().VERSION
    assert "scikit-learn" in versions


@pytest.mark.parametrize("key", ["archsweep_version", "model_version", "solver_version"])
def test_a_worker_of_another_version_ends_the_run(
    tiny: Study, tmp_path: Path, in_process: Start, key: str
) -> None:
    def other(content: Mapping[str, Any]) -> MappingColumns:
        return run_mapping_task({**content, key: "0.0.1-other"})

    with RunWriter(tmp_path / "run") as writer:
        run = StudyRun(tiny, search_of(tiny), writer)
        with pytest.raises(WorkersUnavailableError, match=r"0\.0\.1-other of the driver.*same archsweep"):
            run.explore(in_process(other))
    assert RunFolder(tmp_path / "run").read_rows("layers") == []


def test_a_worker_without_the_package_ends_the_run(tiny: Study, tmp_path: Path, in_process: Start) -> None:
    def missing(content: Mapping[str, Any]) -> dict[str, Any]:
        import no_such_package_at_all  # type: ignore[import-not-found] # noqa: F401

        return {}

    with RunWriter(tmp_path / "run") as writer:
        run = StudyRun(tiny, search_of(tiny), writer)
        with pytest.raises(WorkersUnavailableError, match="no_such_package_at_all"):
            run.explore(in_process(missing))
