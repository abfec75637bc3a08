"""The page of a replay in a real browser: it is drawn, plays, and can be moved to any frame."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from results.report.replay_page import Frame, Line, ReplayShown, layer_color, write_replay_page
from tests.results.report.browser import Page

pytestmark = pytest.mark.slow

HOSTILE = "<script>alert(1)</script>"
FRAMES = [
    Frame(0, (-1, -1), (0.0, 0.0), [Line((-1.2, 0), (0, 0), 64.0, of_dram=True)]),
    Frame(50, (0, -1), (1.0, 0.0), [Line((0, 0), (1, 0), 8.0, of_dram=False)]),
    Frame(100, (-1, 1), (0.0, 0.5), []),
]


def test_a_replay_is_drawn_and_plays(open_page: Callable[[Path], Page], tmp_path: Path) -> None:
    shown = ReplayShown("net", [(0, 0), (1, 0)], ["a", HOSTILE], FRAMES, {"cycles": "150"})
    page = open_page(write_replay_page(tmp_path / "replay.html", shown))
    page.until("document.querySelectorAll('#mesh .scatterlayer .point').length == 2")
    colors = "document.getElementById('mesh')._fullData.find(t => t.marker?.size == 34).marker.color"
    assert page.run(colors) == [layer_color(-1)] * 2
    page.run("Plotly.animate('mesh', ['2'], {mode: 'immediate', frame: {duration: 0}})")
    page.until(f"{colors}[1] == '{layer_color(1)}'")
    page.run("Plotly.animate('mesh', ['0'], {mode: 'immediate', frame: {duration: 0}})")
    page.until(f"{colors}[1] == '{layer_color(-1)}'")
    # Play goes on to the last frame by itself
    page.run("document.querySelector('#mesh .updatemenu-button').dispatchEvent(new MouseEvent('click'))")
    page.until(f"{colors}[1] == '{layer_color(1)}'")
    drawn = page.run("document.getElementById('strip')._fullData[0].z")
    assert drawn == [[None, 0, None], [None, None, 1]]
    page.check_quiet()
