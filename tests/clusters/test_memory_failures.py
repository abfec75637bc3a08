"""Lack of memory has one name, whichever library said so; a worker prepares before it is limited."""

from __future__ import annotations

import errno
import pickle

import pytest

import clusters.ray_worker
from clusters.execution import failure_of
from clusters.ray_worker import Worker
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


HAPPENED: list[str] = []


def prepared() -> None:
    HAPPENED.append("prepared")


@pytest.mark.parametrize(("limit", "steps"), [(1 << 28, ["prepared", "limited"]), (None, [])])
def test_a_worker_prepares_before_its_memory_is_limited(
    limit: int | None, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    HAPPENED.clear()
    monkeypatch.setattr(pickle, "loads", lambda data: prepared)
    monkeypatch.setattr(
        clusters.ray_worker, "_limit_address_space", lambda additional: HAPPENED.append("limited")
    )
    monkeypatch.setattr(clusters.ray_worker, "ONE_THREAD", {})
    Worker(b"", limit, b"")
    assert steps == HAPPENED
