"""Jobs without a cluster: what is sent, what is printed home, and a connection that breaks."""

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clusters.jobs import jobs
from clusters.jobs.job_pack import pack, result_files
from clusters.jobs.jobs import JobClient, JobRequest
from clusters.runtime import ClusterRefusedError, WorkersUnavailableError, WrongAddressError


class Client(JobClient):
    """A client without a cluster: helper jobs run here."""

    def __init__(self) -> None:
        self.address = "http://head:8265"
        self.commands: list[str] = []

    def _output_of(self, request: JobRequest) -> str:
        self.commands.append(request.command)
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        done = subprocess.run(
            ["sh", "-c", request.command],
            cwd=request.working_dir,
            env={"PATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout


@pytest.fixture
def head(tmp_path: Path) -> Path:
    """A run folder as a head has it, with everything in it that must not travel."""
    folder = tmp_path / 'it\'s a "head" $HOME'
    files = {
        "study.lock.yaml": b"study: {}",
        ".lock": b"process 1",
        "report.html": b"<p>",
        "layers/00000001.parquet": b"a" * 100,
        "layers/00000002.parquet": b"b" * 100,
        "layers/.unfinished-1": b"c",
        "layers/00000003.parquet.damaged": b"d",
        "designs/00000001.parquet": bytes(range(256)),
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


RESULTS = [
    "study.lock.yaml",
    "layers/00000001.parquet",
    "layers/00000002.parquet",
    "designs/00000001.parquet",
]


def taker(taken: dict[str, bytes]) -> Callable[[str, bytes], str]:
    def take(name: str, content: bytes) -> str:
        taken[name] = content
        return hashlib.sha256(content).hexdigest()

    return take


def test_a_folder_comes_home_through_a_log(head: Path) -> None:
    taken: dict[str, bytes] = {}
    assert Client().fetch(str(head), {}, taker(taken)) == RESULTS
    assert taken == {name: (head / name).read_bytes() for name in RESULTS}


def test_only_what_is_new_is_sent(head: Path) -> None:
    known = {name: hashlib.sha256((head / name).read_bytes()).hexdigest() for name in RESULTS}
    (head / "layers/00000002.parquet").write_bytes(b"joined")
    (head / "layers/00000001.parquet").unlink()
    taken: dict[str, bytes] = {}
    assert Client().fetch(str(head), known, taker(taken)) == [RESULTS[0], *RESULTS[2:]]
    assert taken == {"layers/00000002.parquet": b"joined"}


@pytest.mark.slow
def test_any_number_of_known_files_is_told(tmp_path: Path) -> None:
    """A shell takes 128 KiB in one argument: digests of some 1,300 files."""
    (tmp_path / "layers").mkdir()
    files = {f"layers/{number:08d}.parquet": b"%d" % number for number in range(5000)}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    client, taken = Client(), dict[str, bytes]()
    assert client.fetch(str(tmp_path), {}, taker(taken)) == list(files)
    assert taken == files
    known = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    (tmp_path / "layers/00002500.parquet").write_bytes(b"new")
    taken.clear()
    assert client.fetch(str(tmp_path), known, taker(taken)) == list(files)
    assert taken == {"layers/00002500.parquet": b"new"}
    assert all(len(command) < 1000 for command in client.commands)


def test_large_folders_come_in_pieces(head: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "PIECE_BYTES", 150)
    client, taken = Client(), dict[str, bytes]()
    assert client.fetch(str(head), {}, taker(taken)) == RESULTS
    assert taken == {name: (head / name).read_bytes() for name in RESULTS}
    assert len(client.commands) == 3


def test_a_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert Client().fetch(str(tmp_path / "nowhere"), {}, taker({})) == []


def test_a_part_that_is_joined_meanwhile_is_left_out(head: Path) -> None:
    entries = pack(str(head), 1 << 20, {})
    first = next(entries)
    (head / "layers/00000001.parquet").unlink()
    rest = list(entries)
    assert [entry.get("name") for entry in [first, *rest]] == [RESULTS[0], *RESULTS[2:], None]
    assert list(result_files(str(head))) == [RESULTS[0], *RESULTS[2:]]


@pytest.mark.parametrize("cut", ["data", "end", "letters", "line", "keys", "list", "none"])
def test_a_log_that_did_not_arrive_whole_is_noticed(
    head: Path, monkeypatch: pytest.MonkeyPatch, cut: str
) -> None:
    client = Client()
    whole = client._output_of
    damages: dict[str, Callable[[str], str]] = {
        "data": lambda text: text.replace("YWFh", "YmFh"),
        "end": lambda text: "\n".join(text.splitlines()[:-1]),
        "letters": lambda text: text.replace("YWFh", "Y?Fh"),
        "line": lambda text: text[:-20],
        "keys": lambda text: text.replace('"sha256"', '"sha1"'),
        "list": lambda text: re.sub(r'"all": \[.*\]', '"all": [1]', text),
        "none": lambda text: text.splitlines()[-1].replace('"more": false', '"more": true'),
    }
    monkeypatch.setattr(client, "_output_of", lambda request: damages[cut](whole(request)))
    with pytest.raises(ClusterRefusedError, match="fetch it again"):
        client.fetch(str(head), {}, taker({}))


def refusing(monkeypatch: pytest.MonkeyPatch, reason: str, times: int) -> list[str]:
    """Submissions are refused so many times; returns the list of the jobs that were tried."""
    monkeypatch.setattr(jobs, "WAIT_SECONDS", 0.0)
    tried: list[str] = []

    def answer(self: JobClient, job: str, request: JobRequest) -> None:
        tried.append(job)
        if len(tried) <= times:
            raise ClusterRefusedError(reason)

    monkeypatch.setattr(JobClient, "_submit", answer)
    return tried


def test_a_head_that_has_just_started_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = refusing(monkeypatch, "No available agent to submit job, please try again later.", times=2)
    job = Client().submit(JobRequest("true", "j"))
    assert tried == [job] * 3


def test_other_refusals_are_final(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = refusing(monkeypatch, "the package is too large", times=2)
    with pytest.raises(ClusterRefusedError, match="too large"):
        Client().submit(JobRequest("true", "j"))
    assert len(tried) == 1


def test_a_stopped_job_has_time_to_write(tmp_path: Path) -> None:
    environment = JobRequest("true", "j", tmp_path, ("archsweep==1",)).environment
    assert environment["working_dir"] == str(tmp_path)
    assert environment["pip"] == ["archsweep==1"]
    assert int(environment["env_vars"]["RAY_JOB_STOP_WAIT_TIME_S"]) >= 30


@pytest.mark.parametrize(
    "address",
    [
        "ray://head:10001",
        "file:///etc/passwd",
        "http://",
        "https://:8265",
        "http://[::1",
        "head:99999999",
        "é:x",
    ],
)
def test_addresses_that_can_be_no_dashboards(address: str) -> None:
    with pytest.raises(WrongAddressError, match="expected a dashboard's address, such as http://HOST:8265"):
        JobClient(address)


@pytest.mark.slow
def test_an_address_where_no_dashboard_answers() -> None:
    with pytest.raises(WorkersUnavailableError, match=r"no Ray dashboard answers at http://127\.0\.0\.1:1"):
        JobClient("127.0.0.1:1")
