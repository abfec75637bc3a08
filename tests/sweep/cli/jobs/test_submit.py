"""What is packed for a cluster, and what may come home from one."""

import hashlib
import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from clusters.jobs.job_pack import result_files
from clusters.jobs.jobs import JobClient, JobState
from costmodel.errors import InputError
from results.store.parts import write_whole
from results.store.schema.tables import TABLES
from sweep import VERSION
from sweep.cli.jobs import home_copy
from sweep.cli.jobs import submit_job as submit
from sweep.cli.jobs.submit_job import Submission, bring_home, check_home, home_folder, job_request
from sweep.study.study import load_study

WriteStudy = Callable[..., Path]


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    folder = tmp_path / "stage"
    folder.mkdir()
    return folder


def staged_files(stage: Path) -> set[str]:
    return {path.relative_to(stage).as_posix() for path in stage.rglob("*") if path.is_file()}


def test_the_study_travels_with_the_files_it_names(
    write_study: WriteStudy, tmp_path: Path, stage: Path
) -> None:
    path = write_study()
    problem = (tmp_path / "problem.yaml").read_text()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "other.yaml").write_text(problem.replace("M: 8", "M: 6"))
    (tmp_path / "secrets.env").write_text("TOKEN=1")
    absolute = f"{{network: {tmp_path}/elsewhere/other.yaml, weight: 2}}"
    path.write_text(path.read_text().replace("[problem.yaml]", f"[problem.yaml, {absolute}, resnet18]"))
    request = job_request(load_study(str(path)), Submission(str(path), "cluster"), stage)
    assert staged_files(stage) == {
        "study/tiny.yaml",
        "study/files/0/problem.yaml",
        "study/files/1/other.yaml",
    }
    assert load_study(str(stage / "study/tiny.yaml")).identity == load_study(str(path)).identity
    assert request.metadata == {"archsweep": VERSION, "study": "tiny", "output": "~/runs/tiny"}
    assert request.command == "python -m archsweep run study/tiny.yaml --output '~/runs/tiny'"
    assert request.pip == ()


def test_the_file_of_a_training_step_travels(write_study: WriteStudy, tmp_path: Path, stage: Path) -> None:
    path = write_study()
    (tmp_path / "network.json").write_text("{}")
    path.write_text(path.read_text().replace("[problem.yaml]", "[network.json.training]"))
    job_request(load_study(str(path)), Submission(str(path), "cluster"), stage)
    assert "study/files/0/network.json" in staged_files(stage)
    sent = load_study(str(stage / "study/tiny.yaml")).networks[0].network
    assert sent == str(stage.resolve() / "study/files/0/network.json.training")


def test_options_of_the_run_are_passed_on(write_study: WriteStudy, stage: Path) -> None:
    path = str(write_study())
    submission = Submission(
        path, "cluster", "s3://bucket/a run", workers=3, resume=False, memory_limit_mib=512
    )
    command = job_request(load_study(path), submission, stage).command
    options = "--workers 3 --fresh --memory-limit 512"
    assert command.endswith(f"study/tiny.yaml --output 's3://bucket/a run' {options}")


def test_a_built_in_study_travels_too(stage: Path) -> None:
    job_request(load_study("quickstart"), Submission("quickstart", "cluster"), stage)
    assert load_study(str(stage / "study/quickstart.yaml")).identity == load_study("quickstart").identity


def test_the_checkout_travels_without_what_git_ignores(
    write_study: WriteStudy, stage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = tmp_path / "checkout"
    kept = {"sweep/run/run.py": "1", "sweep/data.json": "2", "costmodel/new.py": "3", "archsweep.py": "4"}
    ignored = {"sweep/__pycache__/run.pyc": "x", "sweep/secret.env": "x", "runs/a.parquet": "x"}
    other = {"pyproject.toml": "", ".gitignore": "__pycache__/\n*.env\n/runs/\n", "tests/test_run.py": "x"}
    for name, content in (kept | ignored | other).items():
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text(content)
    subprocess.run(["git", "init", "-q"], cwd=checkout, check=True)
    subprocess.run(["git", "add", "sweep/run/run.py"], cwd=checkout, check=True)
    monkeypatch.setattr(submit, "ROOT", checkout)
    path = write_study()
    job_request(load_study(str(path)), Submission(str(path)), stage)
    assert {name for name in staged_files(stage) if not name.startswith("study/")} == set(kept)


def test_code_from_a_release_a_wheel_or_the_cluster(
    write_study: WriteStudy, stage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit, "ROOT", tmp_path / "site-packages")
    path = write_study()
    study = load_study(str(path))
    wheel = tmp_path / "archsweep-9-py3-none-any.whl"
    wheel.write_bytes(b"PK")
    requirements: list[str] = []
    for number, code in enumerate(["auto", str(wheel), "archsweep @ https://example.invalid/a.whl"]):
        place = stage / str(number)
        place.mkdir()
        requirements += job_request(study, Submission(str(path), code), place).pip
    assert requirements == [
        f"archsweep=={VERSION}",
        f"${{RAY_RUNTIME_ENV_CREATE_WORKING_DIR}}/{wheel.name}",
        "archsweep @ https://example.invalid/a.whl",
    ]
    assert (stage / "1" / wheel.name).read_bytes() == b"PK"
    with pytest.raises(InputError, match="a wheel file"):
        job_request(study, Submission(str(path), "missing.whl"), stage / "2" / "x")


class Cluster(JobClient):
    """A head with these files, honest or not."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.address, self.files, self.sent = "http://head:8265", files, list[str]()

    def fetch(self, folder: str, known: Mapping[str, str], take: Callable[[str, bytes], str]) -> list[str]:
        for name, content in self.files.items():
            if known.get(name) != hashlib.sha256(content).hexdigest():
                self.sent.append(name)
                take(name, content)
        return list(self.files)


def state(**metadata: str) -> JobState:
    return JobState("job-1", "SUCCEEDED", "", {"study": "tiny", "output": "~/runs/tiny", **metadata})


def test_home_becomes_what_the_head_has(tmp_path: Path) -> None:
    home = tmp_path / "home"
    first = Cluster(
        {"study.lock.yaml": b"a", "layers/00000001.parquet": b"1", "layers/00000002.parquet": b"2"}
    )
    assert bring_home(first, state(), home)
    second = Cluster({"study.lock.yaml": b"a", "layers/00000002.parquet": b"12"})
    assert bring_home(second, state(), home)
    assert second.sent == ["layers/00000002.parquet"]
    assert sorted(path.name for path in (home / "layers").iterdir()) == ["00000002.parquet"]
    assert (home / "layers/00000002.parquet").read_bytes() == b"12"
    assert json.loads((home / ".origin.json").read_text())["job"] == "job-1"


def test_every_table_comes_home(tmp_path: Path) -> None:
    files = {f"{table}/00000001.parquet": table.encode() for table in TABLES}
    for name, content in files.items():
        (tmp_path / "head" / name).parent.mkdir(parents=True)
        (tmp_path / "head" / name).write_bytes(content)
    packed = list(result_files(str(tmp_path / "head")))
    assert sorted(packed) == sorted(files)
    assert packed[-1].startswith("designs/")
    assert bring_home(Cluster(files), state(), tmp_path / "home")
    assert all((tmp_path / "home" / name).read_bytes() == content for name, content in files.items())


def test_results_of_this_machine_are_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "study.lock.yaml").write_text("study: {}")
    for refuse in (check_home, lambda folder: bring_home(Cluster({"study.lock.yaml": b""}), state(), folder)):
        with pytest.raises(InputError, match="Name another folder"):
            refuse(tmp_path)
    assert (tmp_path / "study.lock.yaml").read_text() == "study: {}"


@pytest.mark.parametrize(
    "name",
    [
        "../escape.parquet",
        "layers/../../escape.parquet",
        "/tmp/escape.parquet",
        "layers/.bashrc.parquet",
        "layers\\escape.parquet/",
        "other/00000001.parquet",
        "run.sh",
        "layers/a.parquet\n",
        ".origin.json",
    ],
)
def test_a_hostile_cluster_writes_results_only(tmp_path: Path, name: str) -> None:
    home = tmp_path / "a" / "home"
    with pytest.raises(InputError, match="names of result files"):
        bring_home(Cluster({name: b"x"}), state(), home)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("study", ["", "../up", "/abs", "a/b", ".hidden", "a\n"])
def test_a_hostile_job_names_no_folder(study: str) -> None:
    with pytest.raises(InputError, match="archsweep submit"):
        home_folder(state(study=study), None)


def test_a_job_of_someone_else_is_none_of_ours() -> None:
    with pytest.raises(InputError, match="archsweep submit"):
        home_folder(JobState("raysubmit_1", "RUNNING", "", {}), None)


def test_home_is_runs_and_the_study_s_name(tmp_path: Path) -> None:
    assert home_folder(state(), None) == Path("runs/tiny")
    assert home_folder(state(), tmp_path) == tmp_path


def test_results_behind_a_uri_stay_there(tmp_path: Path) -> None:
    assert not bring_home(Cluster({"study.lock.yaml": b""}), state(output="s3://bucket/x"), tmp_path)
    assert list(tmp_path.iterdir()) == []


ONE = {"layers/00000001.parquet": b"1"}


def brought(home: Path) -> Path:
    """A folder into which ONE was brought; returns its record of that."""
    assert bring_home(Cluster(ONE), state(), home)
    return home / ".origin.json"


@pytest.mark.parametrize(
    "name", ["../../victim.txt", "../victim.txt", "/{tmp}/victim.txt", "layers/../../victim.txt"]
)
def test_the_record_of_a_home_names_no_file_elsewhere(tmp_path: Path, name: str) -> None:
    """Attack: whoever can write the record has it name a file that is then deleted as one the head joined."""
    home = tmp_path / "runs" / "tiny"
    origin = brought(home)
    victims = [tmp_path / "victim.txt", tmp_path / "runs" / "victim.txt"]
    for victim in victims:
        victim.write_text("mine")
    name = name.replace("/{tmp}", str(tmp_path))
    record = json.loads(origin.read_text())
    record["files"][name] = hashlib.sha256(b"mine").hexdigest()
    origin.write_text(json.dumps(record))
    with pytest.warns(UserWarning, match=r"\.origin\.json is damaged .*victim\.txt"):
        assert bring_home(Cluster(ONE), state(), home)
    assert all(victim.read_text() == "mine" for victim in victims)
    assert set(json.loads(origin.read_text())["files"]) == set(ONE)


def test_a_damaged_record_is_said_and_what_differs_is_kept(tmp_path: Path) -> None:
    """Every cut of the record: never a traceback, never a lost row, and the record is whole afterwards."""
    home = tmp_path / "home"
    whole = brought(home).read_text()
    damaged = [whole[:cut] for cut in range(len(whole))]
    damaged += [
        "null",
        "7",
        "[]",
        '{"files": 3}',
        '{"files": {"a": null}}',
        "[" * 100_000,
        whole.replace("a", "\0"),
    ]
    for text in damaged:
        (home / ".origin.json").write_text(text)
        with pytest.warns(UserWarning, match=r"\.origin\.json is damaged"):
            assert bring_home(Cluster(ONE), state(), home)
        assert (home / ".origin.json").read_text() == whole
    (home / ".origin.json").write_text("{")
    joined = Cluster({"layers/00000001.parquet": b"12"})
    with (
        pytest.warns(UserWarning, match="is damaged"),
        pytest.raises(InputError, match="Name another folder"),
    ):
        bring_home(joined, state(), home)
    assert (home / "layers/00000001.parquet").read_bytes() == b"1"


def test_rows_of_a_run_here_are_not_overwritten(tmp_path: Path) -> None:
    """A run of this machine that went on in the folder made a part with the name of the head's next one."""
    home = tmp_path / "home"
    brought(home)
    (home / "layers/00000002.parquet").write_bytes(b"solved here")
    with pytest.raises(InputError, match="Name another folder") as caught:
        bring_home(Cluster({**ONE, "layers/00000002.parquet": b"2"}), state(), home)
    assert "00000002.parquet" in str(caught.value)
    (home / "layers/00000001.parquet").write_bytes(b"joined here")
    assert bring_home(Cluster({"layers/00000003.parquet": b"123"}), state(), home)
    left = {path.name: path.read_bytes() for path in (home / "layers").iterdir()}
    assert left == {
        "00000001.parquet": b"joined here",
        "00000002.parquet": b"solved here",
        "00000003.parquet": b"123",
    }


def test_what_came_before_an_interruption_is_recorded(tmp_path: Path) -> None:
    home = tmp_path / "home"

    class Interrupted(Cluster):
        def fetch(
            self, folder: str, known: Mapping[str, str], take: Callable[[str, bytes], str]
        ) -> list[str]:
            super().fetch(folder, known, take)
            raise KeyboardInterrupt

    two = {**ONE, "layers/00000002.parquet": b"2"}
    with pytest.raises(KeyboardInterrupt):
        bring_home(Interrupted(two), state(), home)
    assert bring_home(Cluster({"layers/00000002.parquet": b"12"}), state(), home)
    assert [path.read_bytes() for path in (home / "layers").iterdir()] == [b"12"]


def test_the_record_is_not_written_at_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []

    def counted(*words: Any) -> None:
        written.append(words)
        write_whole(*words)

    monkeypatch.setattr(home_copy, "write_whole", counted)
    monkeypatch.setattr(home_copy, "RECORD_SECONDS", 3600.0)
    files = {f"layers/{number:08d}.parquet": b"%d" % number for number in range(300)}
    assert bring_home(Cluster(files), state(), tmp_path / "home")
    assert len(written) <= 2
    assert set(json.loads((tmp_path / "home/.origin.json").read_text())["files"]) == set(files)
    assert [path.name for path in (tmp_path / "home").iterdir() if path.is_file()] == [".origin.json"]
