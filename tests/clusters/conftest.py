"""One local Ray for a test module, whose workers can import what the tests import."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters.ray.session import RaySession

ROOT = str(Path(__file__).parents[2])


@pytest.fixture(scope="module")
def local_ray() -> Iterator[RaySession]:
    """Two CPUs, shared by a module's tests: a runtime joins the connection it finds and leaves it open."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", ROOT)
        patch.delenv("RAY_ADDRESS", raising=False)
        session = RaySession("", 2)
        yield session
        session.close()
