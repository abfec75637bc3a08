"""What all tests share, and how they are spread over processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from clusters.ray.session import RaySession
from tests import thorough
from tests.clusters.processes import NO_LESS_URGENT

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

# tests do not assert times
settings.register_profile("usual", deadline=None, max_examples=30)
settings.register_profile("thorough", deadline=None, max_examples=100)
os.environ.update(NO_LESS_URGENT)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--thorough",
        action="store_true",
        help="try all random cases instead of a part",
    )


def pytest_configure(config: pytest.Config) -> None:
    thorough.asked = bool(config.getoption("thorough"))
    settings.load_profile("thorough" if thorough.asked else "usual")


@pytest.hookimpl(tryfirst=True)  # before pytest looks at what -m asks for
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What is neither slow nor starts clusters is quick; what is thorough runs where that is asked for.

    Files that start clusters come first: they take longest, and mostly wait, while another process has the
    rest. Then files with slow tests, so that no process is left with a long one at the end.
    """
    if not thorough.asked:
        left_out = [item for item in items if item.get_closest_marker("thorough")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]
    first: dict[Path, int] = {}
    for item in items:
        if not (item.get_closest_marker("slow") or item.get_closest_marker("cluster")):
            item.add_marker("quick")
        rank = 0 if item.get_closest_marker("cluster") else 1 if item.get_closest_marker("slow") else 2
        first[item.path] = min(rank, first.get(item.path, rank))
    items.sort(key=lambda item: first[item.path])


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """All tests take four processes where there are two cores; tests that were chosen run in this one.

    Two processes keep two cores busy. Two more are there because those with clusters mostly wait.
    """
    everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    return 4 if everything and len(os.sched_getaffinity(0)) > 1 else 0


AT_ONCE = 2
"""Processes that may have files with clusters: more would start several Rays at once on two cores."""


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """A file's tests stay in one process, and files with clusters in AT_ONCE of them."""
    from xdist.scheduler import LoadFileScheduling

    class FilesAndClusters(LoadFileScheduling):  # type: ignore[misc]  # xdist states no types
        def _assign_work_unit(self, node: object) -> None:
            """A process's next file: with clusters if it is one of AT_ONCE, or nothing else is left."""
            others = [units for other, units in self.assigned_work.items() if other is not node]
            if sum(map(has_clusters, others)) >= AT_ONCE:
                without = (file for file in self.workqueue if not starts_clusters(config.rootpath / file))
                if file := next(without, None):
                    self.workqueue.move_to_end(file, last=False)
            super()._assign_work_unit(node)

    def has_clusters(units: dict[str, dict[str, bool]]) -> bool:
        """Whether tests are left in files with clusters. ``units``: file -> test -> whether it is done."""
        return any(
            starts_clusters(config.rootpath / file) and not all(done.values()) for file, done in units.items()
        )

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


@pytest.fixture(scope="module")
def local_ray() -> Iterator[RaySession]:
    """A Ray of two CPUs for a module's tests, whose workers can import what the tests import.

    Runs join the connection that they find, and leave it open.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
        patch.delenv("RAY_ADDRESS", raising=False)
        session = RaySession("", 2)
        yield session
        session.close()
