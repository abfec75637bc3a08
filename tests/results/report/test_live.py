"""What the page that follows a run shows, held against the numbers it is made of."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from results.front.pareto import hypervolume, reference_point
from results.report.live import SILENT_SECONDS, live_page, live_state
from results.units import TIMES
from tests.results.store.test_run_progress import PROGRESS


def text_of(html: str) -> str:
    return re.sub(r"<[^>]+>", " ", html)


def test_counts_and_tables_are_those_of_the_run() -> None:
    state = live_state(PROGRESS, now=161.0)
    assert not state["ended"]
    headline = text_of(state["parts"]["headline"])
    for said in ("running", "for 1 min", "of 4 at most; 2 complete", "of 40 known of; about 57 s left"):
        assert said in headline
    assert f"size 1 KiB, fanout 2{TIMES}2" in text_of(state["parts"]["front"])
    assert "host:12" in state["parts"]["slowest"]
    assert "no memory" in state["parts"]["failures"]
    (front,) = (figure for key, figure in state["figures"].items() if key.startswith("front-"))
    ((now),) = front["data"]
    assert (len(now["x"]), now["name"]) == (2, "front")


def test_a_design_that_another_one_beat_was_on_the_front() -> None:
    better = replace(PROGRESS.steps[0], design_id="c", values=(1.0, 10.0), finished=3)
    state = live_state(replace(PROGRESS, steps=(*PROGRESS.steps, better), designs={"complete": 3}))
    before, now = state["figures"]["front-energy_pj-cycles"]["data"]
    assert (before["name"], len(before["x"])) == ("was on the front", 2)
    assert len(now["x"]) == 1
    heights = state["figures"]["hypervolume"]["data"][0]["y"]
    reference = reference_point([PROGRESS.best, PROGRESS.worst])
    box = (reference[0] - 1.0) * (reference[1] - 10.0)
    expected = [
        100 * hypervolume(points, reference) / box
        for points in ([(2.0, 10.0)], [(2.0, 10.0), (1.0, 30.0)], [(1.0, 10.0)])
    ]
    assert heights == pytest.approx([*expected, expected[-1]], rel=1e-5)


def test_a_silent_run_and_one_that_has_not_begun_are_told() -> None:
    assert "Nothing was heard" not in live_state(PROGRESS, now=161.0)["parts"]["headline"]
    silent = live_state(PROGRESS, now=PROGRESS.seen + SILENT_SECONDS + 1)
    assert "Nothing was heard of the run for 31 s" in silent["parts"]["headline"]
    ended: dict[str, Any] = live_state(replace(PROGRESS, state="ended"), now=1e9)
    assert ended["ended"]
    assert "Nothing was heard" not in ended["parts"]["headline"]
    assert "has not begun" in live_state(None)["parts"]["headline"]


def test_names_stay_text() -> None:
    evil = "<script>alert(1)</script>"
    step = replace(PROGRESS.steps[0], axes={evil: evil})
    slow = replace(PROGRESS.slowest[0], what=evil)
    state = live_state(replace(PROGRESS, steps=(step,), slowest=(slow,)))
    assert "<script>" not in str(state)
    assert evil not in live_page(evil)
