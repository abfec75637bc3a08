"""What all tests share, and how they are spread over processes."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

settings.register_profile("no deadline", deadline=None)  # tests do not assert times
settings.load_profile("no deadline")


@pytest.hookimpl(tryfirst=True)  # before pytest looks at what -m asks for
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is neither slow nor starts clusters is quick. Clusters come first: they take longest, and mostly
    wait, while another process has the rest."""
    for item in items:
        if not (item.get_closest_marker("slow") or item.get_closest_marker("cluster")):
            item.add_marker("quick")
    items.sort(key=lambda item: item.get_closest_marker("cluster") is None)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """All tests take two processes where there are cores for them; tests that were chosen run in this one."""
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return 2 if everything and len(os.sched_getaffinity(0)) > 1 else 0


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """A file's tests stay in one process, and so do all files that are marked ``cluster``."""
    from xdist.scheduler import LoadFileScheduling

    class FilesAndClusters(LoadFileScheduling):  # type: ignore[misc]  # xdist states no types
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return "clusters" if starts_clusters(config.rootpath / file) else file

    return FilesAndClusters(config, log)


@cache
def starts_clusters(file: Path) -> bool:
    """Whether its tests are marked so; xdist's schedulers see names only."""
    return "pytest.mark.cluster" in file.read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What runs keep on their way to a URI is nobody else's."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder
