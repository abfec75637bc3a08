"""What ``archsweep submit``, ``attach``, ``status`` and ``stop`` do."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from clusters.jobs.jobs import JobClient, JobState
from clusters.runtime import ClusterRefusedError, WorkersUnavailableError
from costmodel.errors import InputError
from results.report.page import write_report
from results.store.folder import RunFolder
from results.store.remote.run_folder import is_uri
from results.store.schema.tables import ANSWER_TABLES, TABLES
from sweep.cli.jobs.submit_job import Submission, bring_home, check_home, home_folder, submit
from sweep.cli.jobs.watch_job import watching_job
from sweep.cli.messages import WorkFailedError, complain, note
from sweep.run.folder_owner import check_lock_file
from sweep.study.study import load_study

STOP_WAIT_SECONDS = 90.0


@dataclass(frozen=True)
class HomeEnd:
    """The cluster's dashboard, and the folder here for what comes back: None is runs/STUDY."""

    address: str
    output: Path | None


def submit_study(submission: Submission, home: HomeEnd, detach: bool) -> None:
    """``archsweep submit``: start the study as a job; unless ``detach`` follow it, then bring it home."""
    study = load_study(submission.study)
    if not submission.output:
        folder = home.output or Path("runs") / study.name
        check_home(folder)
        check_lock_file(folder, study.name)
    client = JobClient(home.address)
    job = submit(client, submission)
    note(f"job {job} is submitted")
    if detach:
        print(job)
        return
    _follow(client, job, home)


def attach(job: str, home: HomeEnd, wait: bool, watch: bool = False) -> None:
    """``archsweep attach``: follow a job to its end if ``wait``, and bring home what is there.

    ``watch``: a page of this machine shows meanwhile how the run is going.
    """
    if watch and not wait:
        raise InputError("--watch", "no --now, which follows nothing", "both", "Leave one of the two out.")
    client = JobClient(home.address)
    if wait:
        _follow(client, job, home, watch)
    else:
        _bring(client, client.state(job), home)


def _follow(client: JobClient, job: str, home: HomeEnd, watch: bool = False) -> None:
    where = ""
    try:
        state = client.state(job)
        where = _results_lie(state)
        if watch:
            home_folder(state, home.output)  # a job that archsweep did not submit is refused
        with watching_job(client, state) if watch else nullcontext():
            for text in client.follow(job, complain):
                sys.stderr.write(text)
                sys.stderr.flush()
        state = client.state(job)
    except (KeyboardInterrupt, WorkersUnavailableError) as error:
        lost = f"; {error}" if isinstance(error, WorkersUnavailableError) else ""
        raise WorkFailedError(
            f"job {job} {'may go' if lost else 'goes'} on without this terminal{where}. Nothing was "
            f"brought home now: `{_attach(job, home)}` follows it and brings its results, with --now those "
            f"that there are{lost}"
        ) from None
    try:
        _bring(client, state, home)
    except (KeyboardInterrupt, WorkersUnavailableError, ClusterRefusedError) as error:
        said = f"; {error}" if str(error) else ""
        raise WorkFailedError(
            f"job {job} is {state.status.lower()}{where}. Not all of them were brought home: "
            f"`{_attach(job, home)}` brings the rest{said}"
        ) from None
    if state.status != "SUCCEEDED":
        raise WorkFailedError(f"job {job} is {state.status.lower()}: {_short(state.message)}")


def _results_lie(state: JobState) -> str:
    """Where a job's results lie, as the end of a sentence."""
    output = state.metadata.get("output", "")
    return f"; its results are in {output}{'' if is_uri(output) else ' on the head'}" if output else ""


def _attach(job: str, home: HomeEnd) -> str:
    """The command that goes on with a job and brings its results to the same folder."""
    words = ["archsweep", "attach", job, "--address", home.address]
    return shlex.join([*words, "--output", str(home.output)] if home.output is not None else words)


def _bring(client: JobClient, state: JobState, home: HomeEnd) -> None:
    folder = home_folder(state, home.output)
    if is_uri(state.metadata["output"]):
        print(f"results: {state.metadata['output']}")
    elif not bring_home(client, state, folder):
        note(f"job {state.job} has written no results yet")
    else:
        rows = {table: len(RunFolder(folder).read(table, ["status"])) for table in TABLES}
        solves = sum(rows[table.name] for table in ANSWER_TABLES)
        note(f"brought home: {solves} solves, {rows['designs']} designs")
        print(f"report: {write_report(folder)}")


def status(address: str, job: str | None, as_json: bool) -> None:
    """``archsweep status``: one job with its last line, or every job that ``archsweep submit`` started."""
    client = JobClient(address)
    states = [client.state(job)] if job else [s for s in client.states() if "archsweep" in s.metadata]
    rows = [
        {"job": state.job, "status": state.status, "study": state.metadata.get("study", "")}
        | {"output": state.metadata.get("output", ""), "message": _short(state.message)}
        | ({"last_line": _last_line(client.log(state.job))} if job else {})
        for state in states
    ]
    if not rows:
        note(f"{address} knows of no study that was submitted")
    for row in rows:
        print(json.dumps(row) if as_json else "  ".join(value for value in row.values() if value))


def stop(job: str, address: str) -> None:
    """``archsweep stop``: end a job, which writes what it has; returns when it has ended."""
    client = JobClient(address)
    client.stop(job)
    state = client.wait(job, STOP_WAIT_SECONDS)
    if not state.ended:
        raise WorkFailedError(f"job {job} was told to stop and is still {state.status.lower()}")
    print(f"{job}  {state.status}")


def _short(message: str) -> str:
    """The first line of a message: Ray's may quote the whole log."""
    return message.strip().splitlines()[0] if message.strip() else ""


def _last_line(log: str) -> str:
    lines = log.strip().splitlines()
    return lines[-1] if lines else ""
