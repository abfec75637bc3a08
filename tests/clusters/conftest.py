"""One local Ray for a test module; work_items is put where workers can import it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters.ray_session import RaySession

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)


@pytest.fixture(scope="module")
def local_ray() -> Iterator[RaySession]:
    """Two CPUs, shared by a module's tests: a runtime joins the connection it finds and leaves it open."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join((HERE, str(Path(HERE).parents[1]))))
        patch.delenv("RAY_ADDRESS", raising=False)
        session = RaySession("", 2)
        yield session
        session.close()
