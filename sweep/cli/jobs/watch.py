"""What ``archsweep watch`` does: serve a page of this machine that follows a run, wherever the run is.

The page is served on the loopback interface only, under an address with a random token: other users of the
machine, and pages of other sites in the same browser, cannot guess it.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import threading
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Protocol

from costmodel.errors import InputError
from results.errors import ResultsError
from results.report.live import live_page, live_state
from results.store.folder import RunFolder
from results.store.remote.run_folder import RemoteFolder, is_uri
from results.store.run_progress import RunProgress, read_progress
from sweep.cli.messages import note
from sweep.run.output import name_of

LOOPBACK = "127.0.0.1"
LAST_LOOK_SECONDS = 2.5
"""How long the page of ``run --watch`` is served after the run's end: it looks every two seconds."""
URI_SECONDS = 4.0
"""How old an answer from a URI may be: every look costs a request there."""


class Followed(Protocol):
    """A run that the page follows: where it is, only the one knows who made this."""

    name: str

    def progress(self) -> RunProgress | None:
        """How the run is going; None before it has begun. Raises ResultsError where nobody says."""


class Watched:
    """A run at ``location``, a folder or a URI, that may not have begun."""

    def __init__(self, location: str) -> None:
        self._uri = RemoteFolder(location) if is_uri(location) else None
        self._folder = Path(location)
        self.name = name_of(location) if self._uri else self._folder.resolve().name
        self._guard = threading.Lock()
        self._looked = float("-inf")
        self._found: RunProgress | None = None

    def progress(self) -> RunProgress | None:
        """How the run is going; None before it has begun."""
        if self._uri is None:
            return read_progress(self._folder)
        with self._guard:
            if time.monotonic() - self._looked > URI_SECONDS:
                self._found, self._looked = self._uri.progress(), time.monotonic()
            return self._found

    def check(self) -> None:
        """InputError where there is no run that could be watched."""
        found = self.progress()
        if found is None:
            old = self._uri is None and RunFolder(self._folder).exists()
            lacks = "a run of an earlier version, which does not say how it goes" if old else "no run"
            remedy = "archsweep report shows it" if old else "Begin it, or wait for it with --wait"
            raise InputError(str(self._uri.shown if self._uri else self._folder), "a run", lacks, remedy)


class _Pages(BaseHTTPRequestHandler):
    """Answers for the page and for its state, and for nothing else."""

    watched: Followed
    token: str
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        # A page of another site may have its own name resolve to this machine; its requests say that name.
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        path = self.path.partition("?")[0]
        if host not in (LOOPBACK, "localhost") or not path.startswith(f"/{self.token}/"):
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"not here\n")
        elif path == f"/{self.token}/":
            self._answer(HTTPStatus.OK, "text/html; charset=utf-8", self._page)
        elif path == f"/{self.token}/state":
            self._state()
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"not here\n")

    @cached_property
    def _page(self) -> bytes:
        return live_page(self.watched.name).encode()

    def _state(self) -> None:
        try:
            state = json.dumps(live_state(self.watched.progress())).encode()
        except ResultsError as error:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", str(error).encode())
        else:
            self._answer(HTTPStatus.OK, "application/json", state)

    def _answer(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a request comes every two seconds."""


@contextmanager
def served(watched: Followed, port: int = 0) -> Iterator[tuple[str, ThreadingHTTPServer]]:
    """The page's address, and the server that answers there; InputError for a port that is taken."""
    token = secrets.token_urlsafe(16)
    handler = type("Pages", (_Pages,), {"watched": watched, "token": token})
    try:
        server = ThreadingHTTPServer((LOOPBACK, port), handler)
    except (OSError, OverflowError) as error:
        raise InputError("--port", "a free port of this machine", port, f"{error}; 0 takes any") from None
    server.daemon_threads = True
    with server:
        yield f"http://{LOOPBACK}:{server.server_address[1]}/{token}/", server


def watch(location: str, port: int, wait: bool, browse: bool) -> None:
    """``archsweep watch``: serve until interrupted; ``wait``: also where nothing has begun yet.

    ``browse``: show the page in the user's browser.
    """
    watched = Watched(location)
    if not wait:
        watched.check()
    with served(watched, port) as (address, server):
        print(address, flush=True)
        note("follows the run until Ctrl-C")
        if browse:
            webbrowser.open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            note("no longer followed; the run goes on")


@contextmanager
def watching(location: str) -> Iterator[None]:
    """Within the block a process beside this one serves the page; its address is printed by that process."""
    command = [sys.executable, "-m", "archsweep", "watch", location, "--wait", "--browse"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr) as beside:
        try:
            yield
            time.sleep(LAST_LOOK_SECONDS)
        finally:
            beside.terminate()
