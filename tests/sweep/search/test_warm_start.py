"""Beginning at Thistle's relaxed optima: what comes out is the nearest member, found a second way."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import log
from pathlib import Path
from typing import Any

import pytest

import sweep.search.warm_start
from costmodel.errors import InputError
from solvers.codesign.thistle import relaxed_optimum
from sweep.forecast.plan import plan
from sweep.search.search import design_space, search_of, warm_start
from sweep.search.trial_journal import NAME
from sweep.study.study import Study, load_study

FAMILY = """
name: family
networks: [problem.yaml]
architecture: eyeriss
axes:
  SRAM.size: {from: 1, to: 16, powers_of_two: true, unit: KiB}
  SRAM.fanout.x: {choices: [1, 2, 4]}
  SRAM.fanout.y: {choices: [1, 2, 4]}
  RegFile.size: {choices: [4, 8, 32, 128]}
  frequency: {choices: [500 MHz, 1 GHz, 2 GHz]}
search: {method: optuna, trials: 20, warm_start: true}
mapping: {solver: random_search, objective: energy, iterations: 100, wall_seconds: 20}
"""


@pytest.fixture
def family(write_study: Callable[..., Path]) -> Study:
    return load_study(str(write_study(FAMILY)))


@pytest.mark.slow
def test_the_first_trials_are_the_members_nearest_to_the_optima(
    family: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    optima: list[Any] = []

    def recorded(*arguments: Any) -> Any:
        optima.append(relaxed_optimum(*arguments))
        return optima[-1]

    monkeypatch.setattr(sweep.search.warm_start, "relaxed_optimum", recorded)
    start = warm_start(family)
    assert start is not None
    points = start.points()
    assert 0 < len(points) <= len(optima) == 3
    space = design_space(family)
    for optimum in optima:
        wanted = [optimum.sizes_words["SRAM"], optimum.fanouts["SRAM"], optimum.sizes_words["RegFile"]]
        distances = {}
        for point in product(*(range(len(axis.choices)) for axis in space.axes)):
            register, sram = space.design(point).architecture.levels[:2]
            found = [sram.size_words, sram.fanout, register.size_words]
            distances[point] = sum(abs(log(a / b)) for a, b in zip(found, wanted, strict=True))
        least = min(distances.values())
        assert any(distances[point] == pytest.approx(least) for point in points)
    search = search_of(family)
    first = [search.ask()[0].values for _ in points]
    assert first == [space.design(point).values for point in points]


def test_axes_that_thistle_does_not_choose_are_said(family: Study) -> None:
    assert any("frequency not chosen by Thistle" in warning for warning in plan(family).warnings)


def test_a_study_without_axes_for_thistle_is_refused(family: Study) -> None:
    only = family.model_copy(update={"axes": {"frequency": family.axes["frequency"]}})
    with pytest.raises(InputError, match="an axis that Thistle chooses"):
        plan(only)


FIXED = """
name: fixed
levels:
  - {name: DRAM, kind: dram, energy: 128 pJ}
  - {name: SRAM, kind: sram, size: 4 KiB, energy: 4 pJ, area: 10000 um2, fanout: [2, 2]}
  - {name: RegFile, kind: register, size: 16 words, energy: 1 pJ, area: 100 um2}
compute: {name: MAC, energy: 1 pJ, area: 100 um2}
word_bits: 16
"""


@pytest.mark.parametrize(
    ("architecture", "said"),
    [
        ("A_eyeriss_like", "areas of levels or MACs in A_eyeriss_like, found none"),
        ("fixed.yaml", "an energy or area of SRAM that grows with its size .* found constants"),
    ],
)
def test_what_has_no_laws_is_refused_before_anything_runs(
    family: Study, tmp_path: Path, architecture: str, said: str
) -> None:
    if architecture.endswith(".yaml"):
        (tmp_path / architecture).write_text(FIXED)
        architecture = str(tmp_path / architecture)
    without = {"architecture": architecture, "axes": {"SRAM.size": family.axes["SRAM.size"]}}
    with pytest.raises(InputError, match=rf"search\.warm_start: .*{said}"):
        plan(family.model_copy(update=without))


@pytest.mark.slow
def test_optima_are_found_once_a_journal(
    family: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = search_of(family).ask()
    search_of(family, tmp_path / NAME)
    monkeypatch.setattr(sweep.search.warm_start, "relaxed_optimum", None)
    assert [d.values for d in search_of(family, tmp_path / NAME).ask()] == [d.values for d in first]
