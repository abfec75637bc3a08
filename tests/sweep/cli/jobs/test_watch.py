"""``archsweep watch``: who may look at its page, and what it says where there is nothing to watch."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweep.cli.jobs.watch import Watched, served
from tests.results.store.test_run_progress import PROGRESS
from tests.sweep.ended import Command


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Where the run in ``tmp_path`` is served; it has not begun."""
    with served(Watched(str(tmp_path))) as (address, server):
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield address
        server.shutdown()
        thread.join()


def fetched(address: str, **headers: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers)) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_the_state_follows_the_file(address: str, tmp_path: Path) -> None:
    assert "has not begun" in json.loads(fetched(f"{address}state")[1])["parts"]["headline"]
    PROGRESS.write(tmp_path)
    status, content = fetched(f"{address}state")
    assert status == 200
    assert "2 complete" in json.loads(content)["parts"]["headline"]
    (tmp_path / "progress.json").write_text("{")
    status, content = fetched(f"{address}state")
    assert status == 503
    assert b"progress.json" in content


def test_only_who_knows_the_token_may_look(address: str) -> None:
    assert fetched(address)[0] == 200
    root = address.rsplit("/", 2)[0]
    assert address.startswith("http://127.0.0.1:")
    for other in (f"{root}/", f"{root}/state", f"{root}/guess/state", f"{address}../state", f"{address}file"):
        assert fetched(other) == (404, b"not here\n")
    # a page of another site whose name was made to mean this machine
    assert fetched(f"{address}state", Host="evil.example:80")[0] == 404


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("runs/nothing",),
            "runs/nothing: expected a run, found no run. Begin it, or wait for it with --wait",
        ),
        (("old",), "found a run of an earlier version"),
        (("new", "--port", "99999"), "--port"),
    ],
)
def test_nothing_to_watch_is_said(
    command_line: Command, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "study.lock.yaml").write_text("study: {}")
    PROGRESS.write(tmp_path / "new")
    status, out, errors = command_line("watch", *arguments)
    assert (status, out) == (2, "")
    assert said in " ".join(errors.split())
