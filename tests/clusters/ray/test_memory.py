"""Lack of memory has one name, whichever library said so; a worker prepares before it is limited."""

from __future__ import annotations

import errno
import pickle

import pytest

import clusters.ray.worker
from clusters.execution import failure_of
from clusters.ray.worker import HEADROOM_BYTES, Worker
from clusters.runtime import OUT_OF_MEMORY


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("std::bad_alloc"),
        ImportError("libhighs.so: failed to map segment from shared object"),
    ],
)
def test_lack_of_memory_has_one_name(error: Exception) -> None:
    failure = failure_of(error)
    assert failure.type == OUT_OF_MEMORY
    assert type(error).__name__ in failure.message
    assert "memory limit" in failure.message


@pytest.mark.parametrize("error", [ValueError("a wrong value"), OSError(errno.ENOENT, "No such file")])
def test_other_failures_keep_their_names(error: Exception) -> None:
    assert failure_of(error).type == type(error).__name__


HAPPENED: list[object] = []


def prepared() -> None:
    HAPPENED.append("prepared")


IDLE, TAKEN = 5 << 30, 300 << 20
LEAST = TAKEN + HEADROOM_BYTES


@pytest.mark.parametrize(
    ("limit", "steps"),
    [(LEAST, ["prepared", IDLE + LEAST]), (LEAST - 1, ["prepared"]), (None, [])],
    ids=["enough", "too little", "none"],
)
def test_what_a_worker_takes_to_prepare_counts_towards_its_limit(
    limit: int | None, steps: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit that leaves too little is not set: whoever asks the worker who it is refuses the limit."""
    HAPPENED.clear()
    sizes = iter((IDLE, IDLE + TAKEN))
    monkeypatch.setattr(pickle, "loads", lambda data: prepared)
    monkeypatch.setattr(clusters.ray.worker, "_mapped_bytes", lambda: next(sizes))
    monkeypatch.setattr(clusters.ray.worker, "_limit_address_space", HAPPENED.append)
    monkeypatch.setattr(clusters.ray.worker, "ONE_THREAD", {})
    Worker(b"", limit, b"")
    assert steps == HAPPENED
