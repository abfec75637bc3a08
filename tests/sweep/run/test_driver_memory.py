"""The driver's memory does not follow the number of tasks, beyond what an answer needs."""

from __future__ import annotations

import pytest
from scaling import run_loop


@pytest.mark.slow
def test_twelve_thousand_tasks_take_less_than_eighteen_megabytes() -> None:
    """100 MB are allowed for 100,000; benchmarks/scaling.py measures these."""
    measured = run_loop(12_000)
    assert measured["tasks"] >= 11_000
    assert measured["growth_mb"] < 18
