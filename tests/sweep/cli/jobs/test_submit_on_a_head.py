"""Whole journeys through the dashboard's port of a real Ray head that wants a token."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from results.front.pareto import front_table
from results.store.folder import RunFolder
from sweep.cli.jobs.submit_job import CODE
from sweep.run.session import RuntimeChoice, run_study
from sweep.study.study import load_study
from tests.clusters import holds
from tests.clusters.processes import PATIENCE, free_port, until
from tests.installed import SOLVER, install
from tests.results.report.browser import Page, browser, open_page
from tests.sweep.faulty_store import Relay
from tests.sweep.read_process import ReadProcess

__all__ = ["browser", "open_page"]  # fixtures
pytestmark = [pytest.mark.slow, pytest.mark.cluster]
ROOT = Path(__file__).parents[4]
PYTHON = Path(sys.executable).parent
SHORT_WAITS = Path(__file__).with_name("short_waits.py")
SECRETS = (".env", ".env.production", "id_ed25519", "cloud.pem", "host.key")
TOKEN = "0123456789abcdef" * 4
PRINT_LOG = (
    "import sys; from clusters.jobs.jobs import JobClient; print(JobClient(sys.argv[1]).log(sys.argv[2]))"
)
WriteStudy = Callable[..., Path]


@dataclass(frozen=True)
class Head:
    """A head of two CPUs whose home folder is ``home``."""

    address: str
    home: Path
    environment: Mapping[str, str]

    def sweep(
        self, *words: str, cwd: Path, token: str = TOKEN, path: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        """``archsweep WORDS`` on the laptop, whose folder is ``cwd`` and which imports from ``path`` too."""
        return subprocess.run(
            [sys.executable, "-m", "archsweep", *words, "--address", self.address],
            cwd=cwd,
            env={
                **self.environment,
                "PYTHONPATH": os.pathsep.join((str(ROOT), *path)),
                "RAY_AUTH_TOKEN": token,
            },
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    def ray_job(self, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Ray's own ``ray job submit --working-dir . -- WORDS`` in the folder ``cwd``; it must succeed."""
        submit = [str(PYTHON / "ray"), "job", "submit", "--address", self.address, "--working-dir", "."]
        done = subprocess.run(
            [*submit, "--", *words],
            cwd=cwd,
            env=dict(self.environment),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def log(self, job: str, cwd: Path) -> str:
        """All that a job has printed."""
        done = subprocess.run(
            [sys.executable, "-c", PRINT_LOG, self.address, job],
            cwd=cwd,
            env={**self.environment, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    """Started here and ended by its own process id; the folder's path is short, because sockets are in it."""
    home = tmp_path_factory.mktemp("head")
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= {
        "PATH": os.pathsep.join((str(PYTHON), os.environ["PATH"])),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": TOKEN,
        "RAY_USAGE_STATS_ENABLED": "0",
        **holds.variables("seed:2", home / "held"),
    }
    temporary = tempfile.mkdtemp(prefix="head-")
    options = {
        "--port": "0",
        "--node-ip-address": "127.0.0.1",
        "--dashboard-host": "127.0.0.1",
        "--dashboard-port": str(port),
        "--ray-client-server-port": str(free_port()),
        "--dashboard-agent-listen-port": str(free_port()),
        "--min-worker-port": "0",
        "--max-worker-port": "0",
        "--num-cpus": "2",
        "--object-store-memory": str(100 << 20),
        "--temp-dir": temporary,
    }
    words = [word for pair in options.items() for word in pair]
    with open(home / "head.log", "wb") as log:
        process = subprocess.Popen(
            [str(PYTHON / "ray"), "start", "--head", "--block", *words],
            env={**environment, "HOME": str(home)},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_for_jobs(process, port, home / "head.log")
        yield Head(f"http://127.0.0.1:{port}", home, environment)
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        finally:
            end_session(process.pid)
            shutil.rmtree(temporary, ignore_errors=True)


def wait_for_jobs(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Until the dashboard can say that it has no jobs."""
    question = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/jobs/", headers={"Authorization": f"Bearer {TOKEN}"}
    )

    def answers() -> bool:
        try:
            with urllib.request.urlopen(question, timeout=60) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    try:
        until(answers, "the head to answer", process)
    except AssertionError as error:
        raise AssertionError(f"{error}: {log.read_text()[-3000:]}") from None


def end_session(session: int) -> None:
    """Whatever of the head's own session is left."""
    try:
        os.killpg(session, signal.SIGKILL)
    except ProcessLookupError:
        return


def objectives(folder: Path) -> dict[str, float]:
    return {row["task_id"]: row["objective"] for row in RunFolder(folder).read_rows("layers")}


def test_submit_brings_the_results_home(head: Head, write_study: WriteStudy, tmp_path: Path) -> None:
    """The study's file, the file beside it and this checkout go; the same answers as here come back."""
    study = write_study()
    done = head.sweep("submit", "tiny.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "4 distinct solves" in done.stderr
    assert done.stdout == "report: runs/tiny/report.html\n"
    assert (tmp_path / "runs/tiny/report.html").stat().st_size > 10_000
    alone = run_study(load_study(str(study)), tmp_path / "alone" / "tiny", RuntimeChoice(in_process=True))
    assert objectives(tmp_path / "runs/tiny") == objectives(alone.path)
    assert (head.home / "runs/tiny/report.html").is_file()
    again = head.sweep("submit", "tiny.yaml", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "4 in the store, 0 to solve" in again.stderr


@dataclass(frozen=True)
class HeldStudy:
    """A study of eight solves; the head does two of them and waits, until it may go on."""

    name: str
    folder: Path
    seed: int

    def go_on(self) -> None:
        holds.let_go(self.folder, self.seed)


def held_study(head: Head, write_study: WriteStudy) -> HeldStudy:
    """Writes it. Its seed is new: the head holds no answers of it from another test."""
    study = HeldStudy(f"held-{uuid4().hex[:6]}", head.home / "held", uuid4().int % 1_000_000)
    text = write_study().read_text().replace("name: tiny", f"name: {study.name}")
    text = text.replace("[2 KiB, 4 KiB]", "[1 KiB, 2 KiB, 3 KiB, 4 KiB]")
    write_study(text.replace("wall_seconds: 20", f"wall_seconds: 600, seed: {study.seed}"))
    holds.hold(study.folder, study.seed)
    return study


def test_a_closed_laptop_stop_and_resume(head: Head, write_study: WriteStudy, tmp_path: Path) -> None:
    """The terminal is killed, the job goes on; attach, status and stop find it; submit goes on from there."""
    study = held_study(head, write_study)
    with subprocess.Popen(
        [sys.executable, "-m", "archsweep", "submit", "tiny.yaml", "--address", head.address],
        cwd=tmp_path,
        env={**head.environment, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    ) as laptop:
        assert laptop.stderr is not None
        line = next(line for line in laptop.stderr if line.endswith("is submitted\n"))
        laptop.kill()
    job = line.split()[1]
    last_line = ""

    def has_solved() -> bool:
        nonlocal last_line
        said = head.sweep("status", job, "--json", cwd=tmp_path)
        assert said.returncode == 0, (job, said.stderr)
        row = json.loads(said.stdout)
        assert row["status"] in ("PENDING", "RUNNING"), row
        last_line = row["last_line"]
        return "/8 solves" in last_line

    until(has_solved, "the job's first solve")
    now = head.sweep("attach", job, "--now", "-o", "elsewhere", cwd=tmp_path)
    assert now.returncode == 0, now.stderr
    assert (tmp_path / "elsewhere/report.html").is_file()
    stopped = head.sweep("stop", job, cwd=tmp_path)
    assert stopped.stdout == f"{job}  STOPPED\n", stopped.stderr
    late = head.sweep("attach", job, cwd=tmp_path)
    assert late.returncode == 1
    assert "the same command goes on" in late.stderr
    partial = objectives(tmp_path / "runs" / study.name)
    assert 1 <= len(partial) <= 2
    study.go_on()
    assert job in head.sweep("status", cwd=tmp_path).stdout
    done = head.sweep("submit", "tiny.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{len(partial)} in the store, {8 - len(partial)} to solve" in done.stderr
    whole = objectives(tmp_path / "runs" / study.name)
    assert len(whole) == 8
    assert partial.items() <= whole.items()


def test_a_plug_in_goes_with_the_study(head: Head, write_study: WriteStudy, tmp_path: Path) -> None:
    """It is installed on the laptop only; the job's driver and the workers find it beside the study."""
    site = install(
        tmp_path / "site",
        "acme-solvers",
        {"archsweep.solvers": {"travelling": "acme_travelling"}},
        {"acme_travelling.py": SOLVER},
    )
    text = write_study().read_text()
    write_study(
        text.replace("solver: random_search", "solver: travelling").replace("name: tiny", "name: far")
    )
    done = head.sweep("submit", "tiny.yaml", cwd=tmp_path, path=[str(site)])
    assert done.returncode == 0, done.stderr
    rows = RunFolder(tmp_path / "runs/far").read_rows("layers")
    assert {(row["solver"], row["solver_version"]) for row in rows} == {("travelling", "7 of acme-solvers")}
    assert {row["status"] for row in rows} == {"feasible"}


def test_ray_s_own_job_command_and_a_uri(head: Head, write_study: WriteStudy, tmp_path: Path) -> None:
    """As the README says it: a folder with the checkout and the study in it, results behind a URI."""
    work = tmp_path / "work"
    work.mkdir()
    for name in CODE:
        (work / name).symlink_to(ROOT / name)
    write_study().rename(work / "tiny.yaml")
    (tmp_path / "problem.yaml").rename(work / "problem.yaml")
    output = f"file://{tmp_path}/shared/tiny"

    done = head.ray_job("python", "-m", "archsweep", "run", "tiny.yaml", "-o", output, cwd=work)
    assert f"report: {output}/report.html" in done.stdout
    shared = tmp_path / "shared/tiny"
    assert len(objectives(shared)) == 4
    assert (shared / "report.html").is_file()
    nodes = {row["worker"].partition(":")[0] for row in RunFolder(shared).read_rows("layers")}
    assert nodes == {socket.gethostname()}
    shutil.copy(ROOT / ".rayignore", work)
    for secret in SECRETS:
        (work / secret).write_text("secret")
    listed = head.ray_job("ls", "-A", cwd=work).stdout.split()
    assert "tiny.yaml" in listed
    assert not set(SECRETS) & set(listed)


@pytest.mark.parametrize(
    "command",
    [("python", "-m", "archsweep"), pytest.param(("archsweep",), marks=pytest.mark.thorough)],
    ids=" ".join,
)
def test_a_ray_job_with_files_of_the_users_that_have_our_names(
    head: Head, write_study: WriteStudy, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """archsweep is installed; the working directory holds the study and what the user calls as we do."""
    write_study()
    for name in ("sweep", "results"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not the package')\n")
    output = head.home / "-".join(command)
    head.ray_job(*command, "run", "tiny.yaml", "-o", str(output), cwd=tmp_path)
    assert len(objectives(output)) == 4


def test_without_the_token_nothing_is_told_or_run(
    head: Head, write_study: WriteStudy, tmp_path: Path
) -> None:
    write_study()
    for words in (["status"], ["submit", "tiny.yaml"], ["stop", "some-job"]):
        refused = head.sweep(*words, cwd=tmp_path, token="f" * 64)
        assert refused.returncode == 1
        assert "refuses" in refused.stderr
        assert "Traceback" not in refused.stderr
        assert TOKEN not in refused.stderr + refused.stdout
        assert "f" * 64 not in refused.stderr + refused.stdout


def test_a_wrong_study_is_refused_before_anything_is_sent(head: Head, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("name: bad\nnetworks: [resnet18]\narchitecture: nonsense\naxis: {}\n")
    refused = head.sweep("submit", "bad.yaml", cwd=tmp_path)
    assert refused.returncode == 2
    assert "bad.yaml" in refused.stderr
    unknown = head.sweep("attach", "no-such-job", cwd=tmp_path)
    assert unknown.returncode == 1
    assert "no-such-job does not exist" in unknown.stderr


FETCH_TWICE = """
import hashlib, json, sys
from clusters.jobs.jobs import JobClient

client, taken = JobClient(sys.argv[1]), {}

def take(name, content):
    taken[name] = hashlib.sha256(content).hexdigest()
    return taken[name]

names = client.fetch(sys.argv[2], {}, take)
first = dict(taken)
open(sys.argv[3], "w").write("joined")
taken.clear()
again = client.fetch(sys.argv[2], first, take)
print(json.dumps([len(names), names == again, sorted(first) == sorted(names), list(taken)]))
"""


def test_thousands_of_parts_come_home_and_only_new_ones_again(head: Head, tmp_path: Path) -> None:
    """Some 1,300 digests fill the one argument of a shell that a job's command is."""
    many = f"many-{uuid4().hex[:6]}"
    layers = head.home / many / "layers"
    layers.mkdir(parents=True)
    for number in range(5000):
        (layers / f"{number:08d}.parquet").write_bytes(b"%d" % number)
    done = subprocess.run(
        [sys.executable, "-c", FETCH_TWICE, head.address, f"~/{many}", str(layers / "00002500.parquet")],
        cwd=tmp_path,
        env={**head.environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [5000, True, True, ["layers/00002500.parquet"]]


@dataclass
class Laptop:
    """A command of a laptop that reaches the head's dashboard through ``relay``; what it says is kept.

    It misses the dashboard after seconds, where users' commands would be patient for longer.
    """

    head: Head
    relay: Relay
    cwd: Path

    def start(self, *words: str) -> None:
        words = (*words, "--address", f"http://{self.relay.address}")
        self._command = ReadProcess(words, self.cwd, self.head.environment, program=[str(SHORT_WAITS)])

    @property
    def text(self) -> str:
        return "".join(self._command.said)

    def until_it_says(self, words: str, times: int = 1) -> None:
        def said() -> bool:
            return self.text.count(words) >= times

        until(said, f"the words {words!r}, {times} times", self._command.process)

    def is_cut_off(self, mode: str) -> None:
        """The relay is in this mode until the command misses the dashboard, then it hands on again."""
        lost = "contact is lost"
        before = self.text.count(lost)
        self.relay.mode = mode
        self.until_it_says(lost, before + 1)
        self.relay.mode = "pass"
        # a slow answer may be missed, too: each loss ends
        self.until_it_says("contact again", self.text.count(lost))

    def interrupt(self) -> None:
        self._command.process.send_signal(signal.SIGINT)

    def close(self) -> None:
        self._command.process.kill()
        self.relay.close()

    def status(self) -> int:
        return self._command.status()


@pytest.fixture
def laptop(head: Head, tmp_path: Path) -> Iterator[Laptop]:
    port = int(head.address.rpartition(":")[2])
    one = Laptop(head, Relay(("127.0.0.1", port)), tmp_path)
    yield one
    one.close()


def test_a_dashboard_that_is_gone_for_a_while_is_said_and_waited_for(
    laptop: Laptop, write_study: WriteStudy
) -> None:
    study = held_study(laptop.head, write_study)
    laptop.start("submit", "tiny.yaml")
    laptop.until_it_says("/8 solves")
    for mode in ("cut", "hang", "refuse"):
        laptop.is_cut_off(mode)
    study.go_on()
    assert laptop.status() == 0, laptop.text
    assert f"report: runs/{study.name}/report.html" in laptop.text
    job = laptop.text.split()[1]
    log = laptop.head.log(job, laptop.cwd)
    printed = [line for line in log.splitlines() if "/8 solves" in line]
    assert [line for line in laptop.text.splitlines() if "/8 solves" in line] == printed


@pytest.mark.thorough
def test_what_to_do_is_said_when_a_dashboard_stays_away(laptop: Laptop, write_study: WriteStudy) -> None:
    study = held_study(laptop.head, write_study)
    laptop.start("submit", "tiny.yaml", "-o", "my runs")
    laptop.until_it_says("/8 solves")
    laptop.relay.mode = "hang"
    laptop.until_it_says("no contact for")
    laptop.interrupt()
    assert laptop.status() == 1
    job = laptop.text.split()[1]
    attach = f"archsweep attach {job} --address http://{laptop.relay.address} --output 'my runs'"
    said = " ".join(laptop.text.split())
    assert f"`{attach}` follows it and brings its results" in said
    assert f"its results are in ~/runs/{study.name} on the head" in said
    laptop.relay.mode = "pass"
    study.go_on()
    laptop.start("attach", job, "--output", "my runs")
    assert laptop.status() == 0, laptop.text
    assert (laptop.cwd / "my runs" / "report.html").is_file()


RUNNING = (
    "import sys; from clusters.jobs.jobs import JobClient;"
    "print([state.job for state in JobClient(sys.argv[1]).states() if not state.ended])"
)


def test_attach_shows_a_page_that_follows_the_job(
    head: Head, write_study: WriteStudy, tmp_path: Path, open_page: Callable[[str], Page]
) -> None:
    """A page of the laptop shows a run of the head through the dashboard's port, to the run's end."""
    study = held_study(head, write_study)
    job = head.sweep("submit", "tiny.yaml", "--detach", cwd=tmp_path).stdout.strip()
    environment = {**head.environment, "PYTHONPATH": str(ROOT), "BROWSER": "true"}
    words = [sys.executable, "-m", "archsweep", "attach", job, "--watch", "--address", head.address]
    with subprocess.Popen(
        words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as laptop:
        try:
            assert laptop.stderr is not None
            assert laptop.stdout is not None
            address = next(line for line in laptop.stderr if line.startswith("http://")).split()[0]
            assert address.startswith("http://127.0.0.1:")
            said: list[str] = []
            reading = threading.Thread(target=lambda: said.extend(laptop.stderr or ()), daemon=True)
            reading.start()
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"{address.rsplit('/', 2)[0]}/guess/state")
            page = open_page(address)
            # two of eight solves are done, and no more until the test says so
            page.until("document.querySelector('#headline .cards dd')?.textContent === 'running'")
            page.until("document.querySelector('#headline').textContent.includes('of 8 known of')")
            study.go_on()
            page.until("document.querySelector('#headline .cards dd')?.textContent === 'ended'")
            out = laptop.stdout.read()
            status = laptop.wait(PATIENCE)
        except BaseException:
            laptop.terminate()
            raise
        reading.join()
        assert status == 0, "".join(said)
    assert out == f"report: runs/{study.name}/report.html\n"
    folder = RunFolder(tmp_path / "runs" / study.name)
    assert len(objectives(folder.path)) == 8
    on_front = len(front_table(folder, ["energy_pj", "cycles", "area_um2"]))
    assert page.run("document.querySelectorAll('#front tbody tr').length") == on_front
    assert page.happened("Runtime.exceptionThrown") == []

    def running_jobs() -> str:
        listing = [sys.executable, "-c", RUNNING, head.address]
        return subprocess.run(listing, env=environment, capture_output=True, text=True).stdout

    until(lambda: running_jobs() == "[]\n", "the helper job to end")


def test_a_page_needs_a_job_that_is_followed(head: Head, tmp_path: Path) -> None:
    refused = head.sweep("attach", "some-job", "--now", "--watch", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--watch" in refused.stderr
