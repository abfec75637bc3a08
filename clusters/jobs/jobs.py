"""Jobs on a Ray cluster through its dashboard: submit, watch, stop, and bring a folder home."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
import shlex
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from clusters.job_log import Follower, within
from clusters.jobs.job_pack import MARK
from clusters.ray.session import QUIET
from clusters.runtime import ClusterRefusedError, WorkersUnavailableError, WrongAddressError

ENDED = ("SUCCEEDED", "FAILED", "STOPPED")
"""Ray's words for jobs that run no more."""
STOP_SECONDS = "60"
"""How long a stopped job may take to write what it has before Ray kills it (Ray's default is 3 s)."""
ANSWER_SECONDS, UPLOAD_SECONDS = 30.0, 600.0
"""How long the dashboard may take for an answer, and to take code or hand out a log."""
CONTACT_SECONDS = 10.0
"""How long it may take while a job is followed, before contact is said to be lost."""
WAIT_SECONDS = 0.5
"""Between two questions to a job whose end is waited for."""
AGENT_SECONDS, NO_AGENT = 30.0, "No available agent"
"""How long to go on trying while a head that has just started has no agent yet, which runs jobs; and Ray's
words for that."""
HELPER_SECONDS = 300.0
"""How long a helper job that fetches files may take."""
PIECE_BYTES = 32 << 20
"""Bytes of files that one helper job sends: its log passes through the dashboard's memory."""


@dataclass(frozen=True)
class JobRequest:
    """A shell command to run on the cluster.

    working_dir: a folder that is sent and becomes the current one there; pip: requirements to install on
    every node first; metadata: text to find again; name: the first part of the job's id.
    """

    command: str
    name: str
    working_dir: Path | None = None
    pip: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, Any]:
        content: dict[str, Any] = {"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": STOP_SECONDS}}
        if self.working_dir is not None:
            content["working_dir"] = str(self.working_dir)
        if self.pip:
            content["pip"] = list(self.pip)
        return content


@dataclass(frozen=True)
class JobState:
    """What the cluster knows of a job; ``status`` is PENDING, RUNNING, SUCCEEDED, FAILED or STOPPED."""

    job: str
    status: str
    message: str
    metadata: Mapping[str, str]

    @property
    def ended(self) -> bool:
        return self.status in ENDED


def _is_dashboard(address: str) -> bool:
    """Whether the URL names a host, and a port that there may be."""
    try:
        url = urlsplit(address)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:  # brackets that do not close, or a port above 65535
        return False


class JobClient:
    """The jobs of the cluster whose dashboard is at ``address`` (http://head:8265).

    RAY_AUTH_MODE=token and RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH) of the environment are passed on. Raises
    WrongAddressError for what can be no dashboard's address, WorkersUnavailableError where no cluster answers
    or it refuses the token, ClusterRefusedError where it says no.
    """

    def __init__(self, address: str) -> None:
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)
        if "://" not in address:
            address = f"http://{address}"
        if not _is_dashboard(address):
            raise WrongAddressError(
                f"--address: expected a dashboard's address, such as http://HOST:8265, found {address}"
            )
        self.address = address.rstrip("/")
        from ray.job_submission import JobSubmissionClient

        for name in ("ray", "ray.dashboard.modules.dashboard_sdk", "ray.dashboard.modules.job.sdk"):
            logging.getLogger(name).setLevel(logging.WARNING)
        with self._asked():
            self._client = within(ANSWER_SECONDS, lambda: JobSubmissionClient(self.address))

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """Ray's errors as ours."""
        from ray.exceptions import RayError

        try:
            yield
        except RayError as error:
            raise WorkersUnavailableError(f"{self.address} refuses: {error}") from error
        except OSError as error:
            raise WorkersUnavailableError(
                f"no Ray dashboard answers at {self.address}: check the address and the tunnel; {error}"
            ) from error
        except RuntimeError as error:
            raise ClusterRefusedError(f"{self.address}: {_last_line(str(error))}") from error

    def submit(self, request: JobRequest) -> str:
        """Send the working folder and start the command; returns the job's id."""
        job = f"{request.name}-{os.urandom(4).hex()}"
        deadline = time.monotonic() + AGENT_SECONDS
        while True:
            try:
                self._submit(job, request)
            except ClusterRefusedError as error:
                if NO_AGENT not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(WAIT_SECONDS)
            else:
                return job

    def _submit(self, job: str, request: JobRequest) -> None:
        with self._asked():
            within(
                UPLOAD_SECONDS,
                lambda: self._client.submit_job(
                    entrypoint=request.command,
                    submission_id=job,
                    runtime_env=request.environment,
                    metadata=dict(request.metadata),
                ),
            )

    def state(self, job: str, seconds: float = ANSWER_SECONDS) -> JobState:
        """What the cluster knows of a job; WorkersUnavailableError where it says nothing for ``seconds``."""
        with self._asked():
            return _state(within(seconds, lambda: self._client.get_job_info(job)))

    def states(self) -> list[JobState]:
        """Every submitted job of the cluster, in no order."""
        with self._asked():
            jobs = within(ANSWER_SECONDS, self._client.list_jobs)
        return [_state(details) for details in jobs if details.submission_id]

    def log(self, job: str) -> str:
        """All that the job has printed so far."""
        with self._asked():
            return str(within(UPLOAD_SECONDS, lambda: self._client.get_job_logs(job)))

    def stop(self, job: str) -> bool:
        """Ask a job to end (SIGTERM, after a minute SIGKILL) and return at once; False if it had ended."""
        with self._asked():
            return bool(within(ANSWER_SECONDS, lambda: self._client.stop_job(job)))

    def forget(self, job: str) -> None:
        """Have the cluster list an ended job no longer."""
        with self._asked():
            within(ANSWER_SECONDS, lambda: self._client.delete_job(job))

    def wait(self, job: str, seconds: float) -> JobState:
        """The state once it has ended; the last one seen if it has not after so many seconds."""
        deadline = time.monotonic() + seconds
        while not (state := self.state(job)).ended and time.monotonic() < deadline:
            time.sleep(WAIT_SECONDS)
        return state

    def follow(self, job: str, said: Callable[[str], None] = lambda _: None) -> Iterator[str]:
        """What the job prints, piece by piece, each letter once, until it has ended.

        Survives minutes without a connection; ``said`` takes notices for people of it. Raises
        WorkersUnavailableError after LOST_SECONDS without contact, ClusterRefusedError for an unknown job.
        """
        yield from filter(None, self.pieces(job, said))

    def pieces(self, job: str, said: Callable[[str], None] = lambda _: None) -> Iterator[str]:
        """As :meth:`follow`, with an empty piece at least every second while nothing comes."""
        follower = Follower(
            lambda: self.state(job, CONTACT_SECONDS).ended,
            lambda: self._tail(job),
            lambda: self.log(job),
            said,
        )
        yield from follower.pieces()

    def _tail(self, job: str) -> AsyncIterator[str]:
        """The log from its beginning to the end of the job, over one connection."""
        return self._client.tail_job_logs(job)

    def fetch(self, folder: str, known: Mapping[str, str], take: Callable[[str, bytes], str]) -> list[str]:
        """Bring home the result files below ``folder`` of the head: ``take(name, content)`` for each new one.

        ``known`` has the digests of what is here already; take returns the one of what it took. Returns the
        names of all files there. Helper jobs print the files into their logs, so the dashboard's port is
        all it needs; the log files stay on the head until Ray's session folder goes. A job's command is one
        argument of a shell, which holds 128 KiB, so the digests travel as a file in its working folder.
        """
        have = dict(known)
        while True:
            listed: dict[str, Any] | None = None
            came = 0
            for entry in self._entries(self._packed(folder, have)):
                if "data" in entry:
                    have[entry["name"]] = take(entry["name"], _checked(entry))
                    came += 1
                else:
                    listed = entry
            if listed is None or (listed["more"] and not came):
                raise ClusterRefusedError(
                    f"{self.address}: the folder {folder} did not arrive whole; fetch it again"
                )
            if not listed["more"]:
                return list(listed["all"])

    def _entries(self, log: str) -> Iterator[dict[str, Any]]:
        """What a helper printed, each entry with the keys and types that `job_pack` gives it."""
        for line in log.splitlines():
            if not line.startswith(MARK):
                continue
            try:
                entry = json.loads(line.removeprefix(MARK))
            except (ValueError, RecursionError):
                entry = None
            if not _is_entry(entry):
                raise ClusterRefusedError(
                    f"{self.address}: a helper job printed {line[:100]!r}, no file of a run; fetch it again"
                )
            yield entry

    def _packed(self, folder: str, have: Mapping[str, str]) -> str:
        """What a helper job prints of the folder's files, but for those that it has as ``have`` says."""
        with tempfile.TemporaryDirectory(prefix="archsweep-") as name:
            stage = Path(name)
            script = (files("clusters.jobs") / "job_pack.py").read_text(encoding="utf-8")
            (stage / "job_pack.py").write_text(script, encoding="utf-8")
            (stage / "known.json").write_text(json.dumps(have), encoding="utf-8")
            words = ["python", "job_pack.py", folder, str(PIECE_BYTES), "known.json"]
            return self._output_of(JobRequest(shlex.join(words), "archsweep-fetch", stage))

    def _output_of(self, request: JobRequest) -> str:
        job = self.submit(request)
        state = self.wait(job, HELPER_SECONDS)
        log = self.log(job)
        if state.status != "SUCCEEDED":
            raise ClusterRefusedError(f"helper job {job} is {state.status}: {_last_line(log)}")
        self.forget(job)
        return log


def _state(details: Any) -> JobState:
    status = str(getattr(details.status, "value", details.status))
    return JobState(details.submission_id, status, details.message or "", dict(details.metadata or {}))


def _is_entry(entry: object) -> bool:
    """Whether this is a file (name, sha256, data), or the end of the listing (all, more)."""
    if not isinstance(entry, dict):
        return False
    if "all" in entry:
        names = entry["all"]
        whole = isinstance(names, list) and all(isinstance(name, str) for name in names)
        return whole and isinstance(entry.get("more"), bool)
    return all(isinstance(entry.get(key), str) for key in ("name", "sha256", "data"))


def _checked(entry: Mapping[str, str]) -> bytes:
    """The bytes of a file; ClusterRefusedError where they are not those that its digest was made of."""
    try:
        content = base64.b64decode(entry["data"], validate=True)
    except ValueError:
        content = None
    if content is None or hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise ClusterRefusedError(f"{entry['name']} did not arrive whole; fetch it again")
    return content


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
