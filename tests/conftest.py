"""What all tests share."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("no deadline", deadline=None)  # tests do not assert times
settings.load_profile("no deadline")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of real processes get a second chance, shown as R: a busy machine can starve one past a limit.

    What is wrong with the code fails twice. Tests of pure functions get none.
    """
    for item in items:
        if item.get_closest_marker("slow") or "/tests/clusters/" in item.path.as_posix():
            item.add_marker(pytest.mark.flaky(reruns=1))
