"""Where a run's results go: paths, URIs, and the copy of a working folder that Ray deletes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from clusters.runtime import Completion
from costmodel.errors import InputError
from results.store.folder import RunFolder
from sweep.cli.messages import WorkFailedError
from sweep.cli.run import RunOptions, run_and_report, show_plan
from sweep.run.block_run import BlockRun
from sweep.run.output import name_of, read_from, written_to
from sweep.run.session import RuntimeChoice, run_folder
from sweep.study.study import Study

WriteStudy = Callable[..., Path]
HERE = RuntimeChoice(in_process=True)


@pytest.mark.slow
def test_a_run_goes_on_from_what_a_uri_holds(
    write_study: WriteStudy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study, uri = str(write_study()), f"file://{tmp_path}/shared/run"
    run_and_report(study, RunOptions(uri, HERE, True))
    assert capsys.readouterr().out.endswith(f"report: {uri}/report.html\n")
    there = RunFolder(tmp_path / "shared" / "run")
    assert len(there.read_rows("designs")) == 4
    assert (there.path / "report.html").is_file()
    write_study(write_study().read_text().replace("[2 KiB, 4 KiB]", "[2 KiB, 4 KiB, 8 KiB]"))
    show_plan(study, 1, uri, as_json=True)
    assert '"distinct_solves": 6, "open_solves": 2' in capsys.readouterr().out
    run_and_report(study, RunOptions(uri, HERE, True))
    assert "6 distinct solves, 4 in the store, 2 to solve" in capsys.readouterr().err
    assert len(there.read_rows("layers")) == 6


@pytest.mark.slow
def test_results_at_a_uri_are_looked_at_and_brought_home(
    write_study: WriteStudy,
    tmp_path: Path,
    command_line: Callable[..., tuple[int, str, str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    uri = f"file://{tmp_path}/shared/run"
    run_and_report(str(write_study()), RunOptions(uri, HERE, True))
    capsys.readouterr()
    status, front, _ = command_line("pareto", str(tmp_path / "shared" / "run"), "--csv")
    assert status == 0
    assert command_line("pareto", uri, "--csv") == (0, front, "")
    assert not (tmp_path / "runs" / "run").exists()
    for words, folder in (([], "runs/run"), (["-o", "elsewhere"], "elsewhere")):
        assert command_line("report", uri, *words) == (0, f"{folder}/report.html\n", "")
        assert len(RunFolder(tmp_path / folder).read_rows("designs")) == 4
        assert (tmp_path / folder / "report.html").is_file()
    for words in (["report", f"{uri}s"], ["pareto", f"{uri}s"]):
        status, _, said = command_line(*words)
        assert status == 2
        assert f"{uri}s: expected the results of a run" in said
    assert command_line("report", "elsewhere", "-o", "twice")[0] == 2


@pytest.mark.slow
def test_a_stopped_run_leaves_rows_and_report_at_the_uri(
    write_study: WriteStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, seen = BlockRun._file, list[int]()

    def stopping(self: BlockRun, begin: int, end: int, completion: Completion) -> None:
        file(self, begin, end, completion)
        seen.append(completion.value.done)
        if len(seen) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(BlockRun, "_file", stopping)
    with pytest.raises(WorkFailedError, match="goes on from there"):
        run_and_report(str(write_study()), RunOptions(f"file://{tmp_path}/shared/run", HERE, True))
    there = RunFolder(tmp_path / "shared" / "run")
    assert 0 < sum(seen) == len(there.read_rows("layers"))
    assert (there.path / "report.html").is_file()


def test_a_path_may_begin_at_home(tiny: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A submitted job's output does: no shell has expanded it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for look in (written_to, read_from):
        with look(tiny, "~/runs/x") as folder:
            assert folder == tmp_path / "runs" / "x"
        with look(tiny, None) as folder:
            assert folder == Path("runs/tiny")


def test_a_job_s_default_is_not_in_the_copy_that_ray_deletes(
    tiny: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "session" / "_ray_pkg_0123456789abcdef" / "below"
    copy.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(copy)
    assert run_folder(tiny) == tmp_path / "home" / "runs" / "tiny"


@pytest.mark.parametrize(
    "uri", ["s3://bucket/runs/..", "file:///tmp/.", "s3://bucket/a\\..\\b", "s3://b/../"]
)
def test_a_uri_s_last_part_names_a_folder_in_runs(uri: str) -> None:
    with pytest.raises(InputError, match="ends with the name of a run"):
        name_of(uri)
