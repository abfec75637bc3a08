"""What ``archsweep attach --watch`` adds to following a job: a page of this machine that shows its run."""

from __future__ import annotations

import threading
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager

from clusters.jobs.followed_file import follow_file
from clusters.jobs.jobs import JobClient, JobState
from clusters.runtime import ClusterRefusedError, WorkersUnavailableError
from results.errors import ResultsError
from results.store.remote.run_folder import is_uri
from results.store.run_progress import PROGRESS_FILE, RunProgress
from sweep.cli.jobs.watch import LAST_LOOK_SECONDS, Watched, served
from sweep.cli.messages import note

END_SECONDS = 10.0
"""How long after the job's end the last that its run said may take to arrive."""


class WatchedJob:
    """The run of a job whose results lie on the head, as far as the head has said how it goes."""

    def __init__(self, client: JobClient, state: JobState) -> None:
        self.name = state.metadata.get("study") or state.job
        self._client = client
        self._path = f"{state.metadata['output'].rstrip('/')}/{PROGRESS_FILE}"
        self._closing = threading.Event()
        self._over = threading.Event()
        """Set once the run has said that it is at its end."""
        self._guard = threading.Lock()
        self._text = b""
        self._failure = ""

    def progress(self) -> RunProgress | None:
        """How the run is going; None before it has begun. ResultsError where the head cannot be asked."""
        with self._guard:
            text, failure = self._text, self._failure
        if failure:
            raise ResultsError(self._client.address, failure, "The job goes on; attach again")
        return RunProgress.parsed(text, self._client.address) if text else None

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Within the block a thread keeps up with what the run says; at its end no helper job is left."""
        thread = threading.Thread(target=self._follow, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._closing.set()
            thread.join()

    def last_word(self) -> None:
        """Wait until the run has said that it ended, but not for long."""
        self._over.wait(END_SECONDS)

    def _follow(self) -> None:
        try:
            follow_file(self._client, self._path, self._take, self._closing)
        except (WorkersUnavailableError, ClusterRefusedError) as error:
            with self._guard:
                self._failure = str(error)

    def _take(self, text: bytes) -> None:
        with self._guard:
            self._text = text
        try:
            found = self.progress()
        except ResultsError:
            return  # the page says what is wrong with it
        if found is not None and found.state != "running":
            self._over.set()
        else:
            self._over.clear()


@contextmanager
def watching_job(client: JobClient, state: JobState) -> Iterator[None]:
    """Within the block a page of this machine shows how the job's run is going; opens it in the browser.

    Results at a URI are looked at there, results on the head through a helper job beside the study's.
    """
    if is_uri(state.metadata["output"]):
        with _page(Watched(state.metadata["output"])):
            yield
            time.sleep(LAST_LOOK_SECONDS)
        return
    watched = WatchedJob(client, state)
    with watched.followed(), _page(watched):
        yield
        watched.last_word()
        time.sleep(LAST_LOOK_SECONDS)


@contextmanager
def _page(watched: Watched | WatchedJob) -> Iterator[None]:
    with served(watched) as (address, server):
        thread = threading.Thread(target=server.serve_forever, name="page", daemon=True)
        thread.start()
        note(f"{address} follows the run")
        webbrowser.open(address)
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
