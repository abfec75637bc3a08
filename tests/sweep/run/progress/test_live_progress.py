"""What a run tells while it goes, held against the rows that it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from results.front.pareto import front_table
from results.store.run_progress import read_progress
from results.store.schema.rows import DesignRow, LayerRow
from results.store.schema.tables import DESIGNS, LAYERS
from sweep.blocks.block import BlockTally
from sweep.run.progress.live_progress import LiveProgress
from sweep.run.progress.observer import RunObserver
from sweep.run.session import RuntimeChoice, run_study
from sweep.study.study import Study

HERE = RuntimeChoice(in_process=True)


def test_a_run_tells_what_its_rows_say(tiny: Study, tmp_path: Path) -> None:
    folder = run_study(tiny, tmp_path / "run", HERE)
    told, designs = read_progress(folder.path), folder.read_rows(DESIGNS)
    assert told is not None
    assert (told.study, told.state, told.planned) == ("tiny", "ended", 4)
    assert told.designs == {"complete": 4}
    layers = folder.read_rows(LAYERS)
    assert (told.done, told.solves, told.cached, told.failed) == (len(layers), len(layers), 0, 0)
    assert told.cpu_seconds == pytest.approx(sum(row["cpu_seconds"] or 0.0 for row in layers))
    assert [one.wall_seconds for one in told.slowest] == sorted(
        (row["wall_seconds"] or 0.0 for row in layers), reverse=True
    )
    front = {row["design_id"] for _, row in front_table(folder, told.objectives).iterrows()}
    latest = {step.design_id: step.values for step in told.steps}
    assert front <= latest.keys()
    for position, name in enumerate(told.objectives):
        values = {row["design_id"]: getattr_of(row, name) for row in designs}
        assert (told.best[position], told.worst[position]) == (min(values.values()), max(values.values()))
        assert all(values[one] == point[position] for one, point in latest.items())
    again = run_study(tiny, tmp_path / "run", HERE)
    told = read_progress(again.path)
    assert told is not None
    assert told.cached == told.done == len(layers)


def test_a_stopped_run_says_so(tiny: Study, tmp_path: Path) -> None:
    class Stop(RunObserver):
        blocks = 0

        def block_done(self, tally: BlockTally) -> None:
            self.blocks += 1
            if self.blocks == 2:  # whoever watches beside it is told of the first
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(tiny, tmp_path / "run", HERE, observer=Stop())
    told = read_progress(tmp_path / "run")
    assert told is not None
    assert told.state == "stopped"
    assert told.done >= 1


def test_solves_of_a_block_that_took_equally_long_are_told_like_others(tiny: Study, tmp_path: Path) -> None:
    """A block is told of at once: neither the clock nor the number of solves done tells its solves apart."""
    noted = [
        LayerRow(
            layer_name=name,
            solver="exact",
            status="optimal",
            wall_seconds=seconds,
            worker="1@here",
            error=None,
        )
        for name, seconds in (("a", 2.0), ("b", 2.0), ("c", 1.0))
    ]
    with LiveProgress(tiny, tmp_path) as told:
        told.block_done(BlockTally(solves=3, noted=noted))
    progress = read_progress(tmp_path)
    assert progress is not None
    assert [one.wall_seconds for one in progress.slowest] == [2.0, 2.0, 1.0]
    assert {one.what for one in progress.slowest[:2]} == {"exact: a", "exact: b"}


def getattr_of(row: DesignRow, name: str) -> float:
    value = dict(row)[name]
    assert isinstance(value, (int, float))
    return float(value)
