"""A file of a head, followed from elsewhere: a helper job prints it, and its log is read as it grows."""

from __future__ import annotations

import base64
import shlex
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from importlib.resources import files
from pathlib import Path

from clusters.jobs.job_file import MARK
from clusters.jobs.jobs import JobClient, JobRequest
from clusters.runtime import ClusterRefusedError, WorkersUnavailableError

FOLLOWED_SECONDS, FOLLOWED_BYTES = 3600, 32 << 20
"""A helper job ends after so long or so much; another one follows while somebody looks."""
MOST_BYTES = 64 << 20
"""The most bytes of a file, unpacked: the head decides what is sent, and need not be trusted."""


def follow_file(
    client: JobClient, path: str, take: Callable[[bytes], None], closing: threading.Event
) -> None:
    """``take`` what the file ``path`` of the head has, now and whenever it changes, until ``closing`` is set.

    ``path`` may begin with ``~``. All goes through the dashboard's port. Raises WorkersUnavailableError where
    the cluster is out of reach for minutes, ClusterRefusedError where it runs no helper job or where that
    sends something else; no helper job is left behind, but for a cluster out of reach.
    """
    while not closing.is_set():
        job = _begin(client, path)
        try:
            taken = 0
            for line in _whole_lines(_until(closing, client.pieces(job))):
                if line.startswith(MARK):
                    take(_content(line.removeprefix(MARK), client.address))
                    taken += 1
            if not closing.is_set() and not taken and client.state(job).status != "SUCCEEDED":
                raise ClusterRefusedError(f"helper job {job} is {client.state(job).status}")
        finally:
            _end(client, job)


def _begin(client: JobClient, path: str) -> str:
    with tempfile.TemporaryDirectory(prefix="archsweep-") as name:
        script = (files("clusters.jobs") / "job_file.py").read_text(encoding="utf-8")
        (Path(name) / "job_file.py").write_text(script, encoding="utf-8")
        words = ["python", "job_file.py", path, str(FOLLOWED_SECONDS), str(FOLLOWED_BYTES)]
        return client.submit(JobRequest(shlex.join(words), "archsweep-watch", Path(name)))


def _end(client: JobClient, job: str) -> None:
    """Stop a helper job and have the cluster forget it, as far as the cluster can be reached."""
    try:
        client.stop(job)
        if client.wait(job, 30.0).ended:
            client.forget(job)
    except (WorkersUnavailableError, ClusterRefusedError):
        return  # it ends by itself, see FOLLOWED_SECONDS


def _until(closing: threading.Event, pieces: Iterable[str]) -> Iterator[str]:
    """The pieces that come before ``closing`` is set; empty ones come all the time."""
    for piece in pieces:
        if closing.is_set():
            return
        yield piece


def _whole_lines(pieces: Iterable[str]) -> Iterator[str]:
    """The lines that the pieces make; the last one is left out where it has no end."""
    rest = ""
    for piece in pieces:
        *whole, rest = (rest + piece).split("\n") if "\n" in piece else (rest + piece,)
        yield from whole


def _content(line: str, address: str) -> bytes:
    """What a line of the helper job says the file has."""
    unpack = zlib.decompressobj()
    try:
        content = unpack.decompress(base64.b64decode(line, validate=True), MOST_BYTES)
    except (ValueError, zlib.error):
        content = b""
    if not content or not unpack.eof:
        raise ClusterRefusedError(f"{address}: a helper job printed {line[:100]!r}, no file")
    return content
