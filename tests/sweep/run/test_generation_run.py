"""Searches that learn, handed out in generations: the rows of runs by tasks, and equal solves once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from results.store.schema.rows import DesignRow
from sweep.run.progress.run_tally import RunTally
from sweep.run.session import RuntimeChoice, run_study
from sweep.study.search_choice import OptunaSearch
from sweep.study.study import AxisChoices, Study
from sweep.tasks.kinds import answer_task
from tests.sweep.run.explored import MakeRuntime, contents, explored

HERE = RuntimeChoice(in_process=True)


@pytest.fixture
def family(tiny: Study) -> Study:
    """12 designs of 6 architectures that mappings can tell apart."""
    axes = {
        "SRAM.size": AxisChoices(choices=("2 KiB", "4 KiB", "8 KiB")),
        "SRAM.fanout": AxisChoices(choices=([2, 2], [4, 2])),
        "frequency": AxisChoices(choices=("100 MHz", "200 MHz")),
    }
    mapping = tiny.mapping.model_copy(update={"iterations": 200})
    return tiny.model_copy(update={"axes": axes, "mapping": mapping})


def searched(study: Study, **search: Any) -> Study:
    return study.model_copy(update={"search": OptunaSearch(method="optuna", **search)})


class Told(RunTally):
    """Notes the designs in the order of their rows."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[DesignRow] = []

    def designed(self, row: DesignRow) -> None:
        super().designed(row)
        self.rows.append(row)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["nsga2", "tpe"])
def test_rows_are_those_of_a_run_by_tasks(
    sampler: str, family: Study, tmp_path: Path, in_process: MakeRuntime
) -> None:
    """All of a family that is as large as the search: what samplers propose first does not matter."""
    limited = family.model_copy(update={"constraints": ("mac_units <= 4",)})
    study = searched(limited, trials=12, sampler=sampler, seed=5)
    found = run_study(study, tmp_path / "a" / "tiny", HERE, observer=(tally := Told()))
    (tmp_path / "b").mkdir()
    by_tasks = explored(study, tmp_path / "b" / "tiny", in_process(answer_task))
    assert contents(found, "layers") == contents(by_tasks, "layers")
    rows, expected = contents(found, "designs"), contents(by_tasks, "designs")
    for one in (rows, expected):
        assert len({row.pop("trial") for row in one.values()}) == 12
    assert rows == expected
    assert tally.designs == {"complete": 6, "infeasible": 6}
    assert tally.done == len(found.read_rows("layers")) == 3
    spent = [(row["cpu_seconds"] or 0.0) > 0 for row in found.read_rows("designs")]
    assert spent.count(True) == 3, "of designs that need the same solves, one has their CPU time"


@pytest.mark.slow
def test_a_resumed_search_goes_on_with_the_trials_that_it_had(family: Study, tmp_path: Path) -> None:
    few, more = (searched(family, trials=trials, population=4) for trials in (6, 12))
    run_study(few, tmp_path / "tiny", HERE, observer=(first := Told()))
    folder = run_study(more, tmp_path / "tiny", HERE, observer=(second := Told()))
    before = {row["design_id"]: row["trial"] for row in first.rows}
    after = {row["design_id"]: row["trial"] for row in second.rows}
    assert before.items() <= after.items()
    assert len(before) == 6
    assert len(after) == 12
    assert second.hits == first.done
    assert len(folder.read_rows("layers")) == 6
