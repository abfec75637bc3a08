"""Plug-ins from the command line: listed, run in a study, known by their versions, sent with a job."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import FOLDER
from costmodel.plug_ins import SOLVERS, plug_ins
from results.store.folder import RunFolder
from sweep.cli.jobs.plug_in_code import stage_plug_ins
from sweep.cli.jobs.submit_job import Submission, job_request
from sweep.forecast.plan import plan
from sweep.run.session import RuntimeChoice, run_study
from sweep.study.plug_ins import plug_ins_of
from sweep.study.study import load_study
from sweep.tasks.mapping import MappingTask, VersionMismatchError, run_mapping_task
from tests.installed import SOLVER, install, on_path
from tests.sweep.conftest import TINY
from tests.sweep.ended import Command

WriteStudy = Callable[..., Path]
HERE = RuntimeChoice(in_process=True)
ASKED = TINY.replace("solver: random_search", "solver: another_one")


@pytest.fixture
def solver_plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    points = {"archsweep.solvers": {"another_one": "acme_another_one"}}
    return on_path(
        install(tmp_path / "site", "acme-solvers", points, {"acme_another_one.py": SOLVER}), monkeypatch
    )


def test_list_says_where_each_is_from(solver_plug_in: Path, command_line: Command) -> None:
    rows = json.loads(command_line("list", "solvers", "--json").out)
    origins = {row["name"]: row["from"] for row in rows}
    assert origins.pop("another_one") == "acme-solvers 1.2"
    assert set(origins.values()) == {"archsweep"}
    assert "acme-solvers 1.2  random search by another name" in command_line("list", "solvers").out


@pytest.mark.slow
def test_a_broken_plug_in_is_wrong_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: Command, write_study: WriteStudy
) -> None:
    points = {"archsweep.solvers": {"broken_one": "acme_broken_one", "exact": "acme_broken_one"}}
    on_path(install(tmp_path / "site", "acme", points, {"acme_broken_one.py": "1 / 0\n"}), monkeypatch)
    write_study(TINY.replace("solver: random_search", "solver: broken_one"))
    for words in (["list", "solvers"], ["run", "tiny.yaml", "--in-process"], ["warm-up", "exact"]):
        ended = command_line(*words)
        assert ended.status == 2, ended
        assert "acme" in ended.err
        assert "Traceback" not in ended.err
    write_study()
    assert command_line("run", "tiny.yaml", "--in-process").status == 0


@pytest.mark.slow
def test_answers_are_known_by_the_plug_in_s_version(
    solver_plug_in: Path, write_study: WriteStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal versions find each other's answers; another version, or another distribution's, does not."""
    study = load_study(str(write_study(ASKED)))

    def solved(name: str) -> set[str]:
        rows = RunFolder(run_study(study, tmp_path / "runs" / name, HERE).path).read_rows("layers")
        assert {row["status"] for row in rows} == {"feasible"}
        return {f"{row['solver_version']} {row['task_id']}" for row in rows}

    first = solved("first")
    assert {one.partition(" ")[0] for one in first} == {"7"}
    assert solved("again") == first
    lock = RunFolder(tmp_path / "runs" / "first").read_lock_file()
    assert lock["versions"]["solver another_one"] == "7 of acme-solvers"
    assert lock["versions"]["plug-ins of acme-solvers"] == "1.2"

    monkeypatch.setattr(sys.modules["acme_another_one"], "VERSION", "8")
    assert not {one.split()[-1] for one in solved("newer")} & {one.split()[-1] for one in first}


def test_a_worker_without_the_plug_in_says_on_which_machine(
    solver_plug_in: Path, write_study: WriteStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = load_study(str(write_study(ASKED)))
    planned = plan(study)
    task = planned.workload.tasks(next(iter(planned.designs)))[0]
    assert isinstance(task, MappingTask)
    assert run_mapping_task(task.content)["status"] == "feasible"
    monkeypatch.setattr("sys.path", [entry for entry in sys.path if entry != str(solver_plug_in)])
    with pytest.raises(
        VersionMismatchError, match=rf"{socket.gethostname()}.*another_one.*7 of acme-solvers"
    ):
        run_mapping_task(task.content)


ALL = """
name: all-plug-ins
networks: [acme_layers, resnet18]
architecture: acme_wide
axes:
  technology: {choices: [thistle-45nm, acme-low]}
mapping: {solver: another_one, iterations: 400}
"""


def test_what_a_study_names_goes_with_the_job(
    solver_plug_in: Path, write_study: WriteStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Solver, network, architecture, and technologies of an axis and of the architecture's file; no other."""
    problem = write_study().with_name("problem.yaml").read_text()
    eyeriss = (FOLDER / "eyeriss.yaml").read_text(encoding="utf-8")
    technology = FOLDER.parent / "technologies" / "thistle-45nm.yaml"
    site = install(
        tmp_path / "data",
        "Acme.Chips",
        {
            "archsweep.architectures": {"acme_wide": "acme_data"},
            "archsweep.networks": {"acme_layers": "acme_data"},
        },
        {
            "acme_data/__init__.py": "",
            "acme_data/acme_layers.yaml": problem,
            "acme_data/acme_wide.yaml": eyeriss.replace("thistle-45nm", "acme-high"),
            "acme_data/__pycache__/x.pyc": "",
        },
    )
    for name in ("acme-low", "acme-high", "acme-unused"):
        package = name.replace("-", "_")
        files = {f"{package}/__init__.py": "", f"{package}/{name}.yaml": technology.read_text("utf-8")}
        install(site, name, {"archsweep.technologies": {name: package}}, files)
    on_path(site, monkeypatch)
    study = load_study(str(write_study(ALL)))
    assert [one.name for one in plug_ins_of(study)] == [
        "acme_wide",
        "acme_layers",
        "another_one",
        "acme-high",
        "acme-low",
    ]
    stage = tmp_path / "stage"
    stage.mkdir()
    request = job_request(study, Submission(str(write_study(ALL)), "archsweep==0"), stage)
    assert request.pip == ("archsweep==0",)
    sent = {path.relative_to(stage).as_posix() for path in stage.rglob("*") if path.is_file()}
    assert sent >= {"acme_another_one.py", "acme_data/acme_wide.yaml", "acme_high/acme-high.yaml"}
    assert not [name for name in sent if "unused" in name or "__pycache__" in name]
    # what was sent is an installation: with it alone on the path the study means the same
    monkeypatch.setattr(
        "sys.path", [str(stage), *(p for p in sys.path if p not in (str(site), str(solver_plug_in)))]
    )
    assert len(plug_ins_of(study)) == 5


def test_an_editable_plug_in_goes_from_its_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = install(tmp_path / "site", "acme-editable", {"archsweep.solvers": {"edited": "acme_edited"}}, {})
    metadata = site / "acme_editable-1.2.dist-info"
    (metadata / "direct_url.json").write_text('{"url": "file:///x", "dir_info": {"editable": true}}')
    with (metadata / "METADATA").open("a") as file:
        file.write(
            "Requires-Dist: archsweep\nRequires-Dist: pulp>=2\nRequires-Dist: pytest; extra == 'test'\n"
        )
    checkout = tmp_path / "checkout"
    (checkout / "acme_edited" / "data").mkdir(parents=True)
    (checkout / "acme_edited" / "__init__.py").write_text(SOLVER)
    (checkout / "acme_edited" / "data" / "table.csv").write_text("1")
    on_path(site, monkeypatch)
    on_path(checkout, monkeypatch)
    used = [one for one in plug_ins(SOLVERS) if one.name == "edited"]
    stage = tmp_path / "stage"
    assert stage_plug_ins(used, stage) == ("pulp>=2",)
    sent = {path.relative_to(stage).as_posix() for path in stage.rglob("*") if path.is_file()}
    assert sent == {
        "acme_edited/__init__.py",
        "acme_edited/data/table.csv",
        "acme_editable-1.2.dist-info/METADATA",
        "acme_editable-1.2.dist-info/entry_points.txt",
    }


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("acme_fast/kernel.so", r"Python and data files.*--code cluster"),
        ("results.py", "modules whose names nothing else in the job has"),
    ],
)
def test_what_cannot_travel_is_refused(
    file: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = {"archsweep.solvers": {"fast": "acme_fast"}}
    # at the end of the path, where no module of ours is hidden by it
    site = install(tmp_path / "site", "acme-fast", points, {"acme_fast/__init__.py": SOLVER, file: ""})
    monkeypatch.setattr("sys.path", [*sys.path, str(site)])
    used = [one for one in plug_ins(SOLVERS) if one.name == "fast"]
    with pytest.raises(InputError, match=rf"acme-fast 1\.2.*{reason}"):
        stage_plug_ins(used, tmp_path / "stage")
