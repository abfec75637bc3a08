"""Designs by columns, against the same designs loaded one by one."""

from collections.abc import Callable, Iterator
from itertools import islice
from math import inf
from pathlib import Path

import numpy as np
import pytest

from costmodel.formats.architectures import architecture_names
from costmodel.hardware.architecture import StorageLevel
from costmodel.hardware.technology import energy_inversions
from sweep.search.search import design_space, designs, listed
from sweep.study.designs import design_table
from sweep.study.designs.design_table import DesignTable, Part
from sweep.study.designs.hardware import QUANTITIES
from sweep.study.search_choice import RandomSearch
from sweep.study.study import AxisChoices, Study, load_study
from sweep.tasks.mapping import architecture_id

WriteStudy = Callable[..., Path]
FAMILY = """
name: family
networks: [problem.yaml]
architecture: eyeriss
axes:
  SRAM.size: {choices: [2 KiB, 4 KiB, 8 KiB]}
  SRAM.fanout: {choices: [[2, 2], [4, 2], [2, 4]]}
  RegFile.size: {from: 8, to: 40, step: 8}
  frequency: {choices: [100 MHz, 200 MHz]}
  compute.area: {choices: [500 um2, 900 um2]}
baseline:
  {SRAM.size: 4096 B, SRAM.fanout: [3, 3], RegFile.size: 24, frequency: 200 MHz, compute.area: 900 um2}
constraints: [area_um2 <= 200000, on_chip_bits >= 20000, mac_units < 10]
mapping: {solver: random_search, iterations: 5, wall_seconds: 20}
"""


TIMED = """
name: timed
networks: [problem.yaml]
architecture: gemmini
axes:
  Scratchpad.size: {choices: [64 KiB, 256 KiB]}
  Scratchpad.fanout.x: {choices: [8, 16]}
  timing.issue: {choices: [100, 400]}
  Accumulator.area: {choices: [500 um2, 900 um2]}
mapping: {solver: random_search, iterations: 5, wall_seconds: 20}
"""


def last(tables: Iterator[DesignTable]) -> DesignTable:
    *_, table = tables
    return table


@pytest.fixture
def family(write_study: WriteStudy) -> Study:
    return load_study(str(write_study(FAMILY)))


def test_designs_keep_their_timing(write_study: WriteStudy) -> None:
    """And mappings can tell designs apart that differ in it alone."""
    study = load_study(str(write_study(TIMED)))
    table, one_by_one = last(listed(study)), list(designs(study))
    assert [table.design(row) for row in range(len(table))] == one_by_one
    timings = {design.architecture.timing for design in one_by_one}
    assert None not in timings
    assert len(timings) > 1
    ids = [architecture_id(design.architecture) for design in one_by_one]
    pairs = list(zip(table.groups.tolist(), ids, strict=True))
    assert len(set(pairs)) == len({group for group, _ in pairs}) == len(set(ids)) == 8


def test_rows_are_the_designs_that_the_search_lists(family: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design_table, "DESIGNS_AT_ONCE", 50)
    one_by_one = list(designs(family))
    tables = list(listed(family))
    assert len(tables) == 4
    table = tables[-1]
    assert [table.design(row) for row in range(len(table))] == one_by_one
    assert len(one_by_one) == 181, "180 of the grid, and a baseline that is none of them"
    assert table.feasible.tolist() == [design.feasible for design in one_by_one]
    assert 0 < table.feasible.sum() < len(table)


def test_a_sample_and_a_baseline_that_is_a_member(family: Study) -> None:
    inside = {**(family.baseline or {}), "SRAM.fanout": [4, 2]}
    chosen = family.model_copy(
        update={"baseline": inside, "search": RandomSearch(method="random", samples=60, seed=3)}
    )
    table = last(listed(chosen))
    assert [table.design(row) for row in range(len(table))] == list(designs(chosen))


def test_groups_have_the_designs_that_mappings_cannot_tell_apart(family: Study) -> None:
    """The clock and areas do not count: the identity of the architecture that tasks have says the same."""
    table = last(listed(family))
    ids: dict[str, int] = {}
    expected = [
        ids.setdefault(architecture_id(design.architecture), len(ids)) if design.feasible else -1
        for design in designs(family)
    ]
    assert table.groups.tolist() == expected
    assert table.group_count == len(ids) < table.feasible.sum()
    order, begins = table.by_group
    assert sorted(order.tolist()) == np.flatnonzero(table.feasible).tolist()
    for group in range(table.group_count):
        assert set(table.groups[order[begins[group] : begins[group + 1]]].tolist()) == {group}


@pytest.mark.parametrize("name", architecture_names())
def test_quantities_are_those_of_every_architecture_of_the_library(
    name: str, write_study: WriteStudy
) -> None:
    """To the last bit, for a constraint may stand at the very number of a design."""
    study = load_study(str(write_study(FAMILY))).model_copy(
        update={"architecture": name, "axes": {"frequency": AxisChoices(choices=("1 GHz", "2 GHz"))}}
    )
    bare = study.model_copy(update={"baseline": None, "constraints": ()})
    for design in designs(bare):
        for quantity, of in QUANTITIES.items():
            value = float(of(design.hardware))
            if value == inf:
                continue  # a level without a size: no constraint names that
            for comparison, met in (("<=", True), ("<", False), (">=", True), (">", False)):
                limited = bare.model_copy(update={"constraints": (f"{quantity} {comparison} {value!r}",)})
                table = last(listed(limited))
                row = list(designs(bare)).index(design)
                assert table.feasible[row] == met


def test_what_marks_tell_apart_is_met_once(family: Study) -> None:
    table = last(listed(family))

    def size(part: Part) -> object:
        return part.size_words if isinstance(part, StorageLevel) else None

    made = list(table.one_of_each(size))
    assert len(made) == 15 == len({tuple(level.size_words for level in one.levels) for one in made})
    assert [energy_inversions(one) for one in made], "each is a whole architecture"


def test_a_range_too_long_to_count_is_listed_piece_by_piece(tiny: Study) -> None:
    axes = {
        key: AxisChoices.model_validate({"from": 16, "to": 2**44, "step": 16})
        for key in ("SRAM.size", "RegFile.size")
    }
    endless = tiny.model_copy(update={"axes": axes})
    assert design_space(endless).size > 2**63
    (table,) = islice(
        listed(endless.model_copy(update={"search": RandomSearch(method="random", samples=9)})), 1
    )
    assert len(table) == 9
