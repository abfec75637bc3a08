"""Families too large to list: they are counted in closed form, sampled as they are, refused where listed."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice, product
from math import log
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sweep.forecast.plan
from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from sweep.cli.main import app
from sweep.forecast.plan import plan
from sweep.search.search import check_feasible, design_space, search_of, warm_start
from sweep.search.warm_start import RelaxedStart
from sweep.study.designs import design_table
from sweep.study.designs.axis import Axis, NumberRange
from sweep.study.designs.design_space import DesignSpace
from sweep.study.study import MOST_DESIGNS, load_study

HUGE = 2**53
"""Values of the longest axis that a file can ask for: more than any memory holds."""

STUDY = """
name: huge
networks: [problem.yaml]
architecture: eyeriss
axes:
  RegFile.size: {{from: 1, to: {to}, step: 1}}
  SRAM.size: {{from: 1, to: {to}, step: 1, unit: KiB}}
search: {search}
mapping: {{solver: random_search, iterations: 50, wall_seconds: 20}}
"""


Write = Callable[[str], Path]


def study_text(search: str, to: int = HUGE) -> str:
    return STUDY.format(search=search, to=to)


@pytest.mark.parametrize(
    ("search", "key", "count"),
    [
        ("{method: grid}", "axes", HUGE**2),
        ("{method: random, samples: 1000001}", "search.samples", 1_000_001),
        ("{method: optuna, trials: 5000000000}", "search.trials", 5_000_000_000),
    ],
)
def test_what_would_be_listed_is_counted_and_refused(
    search: str, key: str, count: int, write_study: Write
) -> None:
    with pytest.raises(InputError) as caught:
        load_study(str(write_study(study_text(search))))
    message = str(caught.value)
    assert f": {key}: expected at most {MOST_DESIGNS:,} designs" in message
    assert f"found {count:,} (" in message
    assert f"RegFile.size: {HUGE:,} values" in message
    assert "method: optuna, trials: N" in message


@pytest.mark.parametrize("search", ["{method: random, samples: 3, seed: 4}", "{method: optuna, trials: 3}"])
def test_random_and_optuna_take_a_family_of_any_size(search: str, write_study: Write) -> None:
    study = load_study(str(write_study(study_text(search, 10**12))))
    planned = plan(study)
    assert len(planned.designs) == 3
    drawn = [str(design.values) for design in islice(planned.designs, 3)]
    assert len(set(drawn)) == 3
    asked = search_of(study).ask()
    assert 1 <= len({str(design.values) for design in asked}) == len(asked) <= 3


@pytest.mark.parametrize("sampler", ["nsga2", "nsga3", "tpe", "qmc", "random"])
def test_every_sampler_proposes_from_a_family_of_any_size(sampler: str, write_study: Write) -> None:
    search = f"{{method: optuna, trials: 40, sampler: {sampler}}}"
    proposals = search_of(load_study(str(write_study(study_text(search, 10**6)))))
    proposed = [design for _ in range(6) for design in proposals.ask()]
    assert len({str(design.values) for design in proposed}) == len(proposed) == 6


def test_as_many_samples_as_designs_are_all_of_them(write_study: Write) -> None:
    """The number of samples may be far above the family: the family counts."""
    text = study_text("{method: random, samples: 1000000000000}", 3)
    assert load_study(str(write_study(text))).looks_at == 9


def test_a_family_beyond_machine_words_is_drawn_from_without_repeats() -> None:
    numbers = NumberRange(range(1, HUGE + 1))
    space = DesignSpace("eyeriss", (Axis("RegFile.size", numbers), Axis("SRAM.size", numbers)))
    assert space.size == HUGE**2
    points = [space.indices(flat) for flat in (0, 1, HUGE, HUGE**2 - 1)]
    assert points == [(0, 0), (0, 1), (1, 0), (HUGE - 1, HUGE - 1)]
    unseen = space.unseen({(0, 0)}, "seed")
    assert unseen is not None
    assert unseen != (0, 0)
    assert unseen == space.unseen({(0, 0)}, "seed")


def test_values_of_a_range_are_made_one_by_one() -> None:
    plain, sizes = NumberRange(range(1, HUGE + 1)), NumberRange(range(2, HUGE + 1, 2), "KiB")
    assert (len(plain), plain[0], plain[-1]) == (HUGE, 1, HUGE)
    assert sizes[3] == "8 KiB"
    assert list(sizes[1:3]) == ["4 KiB", "6 KiB"]
    assert Axis("SRAM.size", sizes).ordered


@pytest.mark.parametrize(
    ("choices", "value", "index"),
    [
        (NumberRange(range(1, HUGE, 3)), 7, 2),
        (NumberRange(range(1, HUGE, 3)), "7 words", 2),
        (NumberRange(range(1, HUGE, 3)), 8, None),
        (NumberRange(range(1, HUGE, 3)), "7 B", None),
        (NumberRange(range(1, HUGE), "KiB"), "2 MiB", 2047),
        (NumberRange(range(1, HUGE), "KiB"), "1536 B", None),
        (NumberRange(range(1, HUGE), "KiB"), [4, 4], None),
        (("128 KiB", "1 MiB"), "1024 KiB", 1),
        (([8, 8], [14, 12]), [14, 12], 1),
        (("thistle-45nm", "simba-like-8bit"), "simba-like-8bit", 1),
        ((["weights"], ["inputs"]), ["outputs"], None),
    ],
)
def test_the_place_of_a_value_is_found_by_what_it_means(
    choices: NumberRange | tuple[object, ...], value: object, index: int | None
) -> None:
    assert Axis("key", choices).index_of(value) == index


def test_a_baseline_in_other_words_is_the_member_of_the_family(write_study: Write) -> None:
    text = study_text("{method: optuna, trials: 5}", 1000) + "baseline: {RegFile.size: 7, SRAM.size: 1 MiB}\n"
    text = text.replace("to: 1000", "to: 2000")
    study = load_study(str(write_study(text)))
    assert design_space(study).indices_of_baseline() == (6, 1023)


def test_more_solves_than_a_driver_holds_are_refused(
    write_study: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep.forecast.plan, "MOST_SOLVES", 20)
    monkeypatch.setattr(design_table, "DESIGNS_AT_ONCE", 7)
    text = study_text("{method: grid}", 5)
    with pytest.raises(InputError, match="axes: expected at most 20 different solves, found 21 of"):
        plan(load_study(str(write_study(text))))


def test_the_count_of_a_large_family_is_told(write_study: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(design_table, "DESIGNS_AT_ONCE", 10)
    told: list[tuple[int, int]] = []
    plan(load_study(str(write_study(study_text("{method: grid}", 5)))), None, lambda *n: told.append(n))
    assert told == [(10, 25), (20, 25), (25, 25)]


@pytest.mark.slow
def test_no_feasible_design_among_many_is_found_without_keeping_them(write_study: Write) -> None:
    text = study_text("{method: grid}", 40) + "constraints: [mac_units <= 3]\n"
    with pytest.raises(InputError, match="mac_units from 168 to 168"):
        check_feasible(load_study(str(write_study(text))))


def test_a_warm_start_finds_the_nearest_of_a_long_range(write_study: Write) -> None:
    """Bisection finds the same member as trying all does."""
    text = study_text("{method: optuna, trials: 5, warm_start: true}", 3000)
    start = warm_start(load_study(str(write_study(text))))
    assert isinstance(start, RelaxedStart)
    for wanted in (0.3, 1.0, 77.4, 2999.6, 50_000.0):
        (index,) = start._closest("RegFile", "size", wanted)
        assert index == min(range(3000), key=lambda i: abs(log((i + 1) / wanted)))


@pytest.mark.slow
def test_a_warm_start_on_long_ranges_ends(write_study: Write) -> None:
    text = study_text("{method: optuna, trials: 5, warm_start: true}", 10**9)
    text = text.replace("axes:\n", "axes:\n  SRAM.fanout.x: {from: 1, to: 90, step: 1}\n")
    text = text.replace("axes:\n", "axes:\n  SRAM.fanout.y: {from: 1, to: 80, step: 1}\n")
    start = warm_start(load_study(str(write_study(text))))
    assert start is not None
    points = start.points()
    assert points
    sizes = [len(axis.choices) for axis in start.space.axes]
    assert all(0 <= place < size for point in points for place, size in zip(point, sizes, strict=True))


def test_fan_outs_of_two_long_axes_come_near_what_is_wanted(write_study: Write) -> None:
    text = study_text("{method: optuna, trials: 5, warm_start: true}", 9)
    text = text.replace("axes:\n", "axes:\n  SRAM.fanout.x: {from: 1, to: 300, step: 1}\n")
    text = text.replace("axes:\n", "axes:\n  SRAM.fanout.y: {from: 1, to: 200, step: 1}\n")
    start = warm_start(load_study(str(write_study(text))))
    assert start is not None
    y, x = start._closest("SRAM", "fanout", 1234.0)
    least = min(abs(log(a * b / 1234.0)) for a, b in product(range(1, 301), range(1, 201)))
    assert abs(log((x + 1) * (y + 1) / 1234.0)) <= least + 0.01
    assert load_architecture("eyeriss", {"SRAM.fanout": [x + 1, y + 1]}).mac_units == (x + 1) * (y + 1)


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("  RegFile.size: {from: 1, to: 9007199254740993, step: 1}", "axes.RegFile.size.to"),
        (f"  RegFile.size: {{from: 1, to: {10**30}, powers_of_two: true}}", "axes.RegFile.size.to"),
    ],
)
def test_numbers_end_where_floats_cannot_tell_them_apart(line: str, where: str, write_study: Write) -> None:
    text = f"name: far\nnetworks: [problem.yaml]\narchitecture: eyeriss\naxes:\n{line}\n"
    with pytest.raises(InputError, match=f"{where}: expected at most {HUGE}"):
        load_study(str(write_study(text)))


@pytest.mark.parametrize(
    ("block", "key"),
    [
        ("schedule: {solver: set, seeds: 1000000000}", "schedule.seeds"),
        ("schedule: {solver: set, epochs: 1000000000}", "schedule.epochs"),
        ("schedule: {rivals: [{solver: kapla_schedule, epochs: 99999999}]}", "schedule.rivals[0].epochs"),
        ("search: {method: optuna, trials: 3, population: 1000000000}", "search.population"),
    ],
)
def test_numbers_that_size_a_list_have_a_limit(block: str, key: str, write_study: Write) -> None:
    text = f"name: many\nnetworks: [alexnet]\nchip: set-edge\n{block}\n"
    with pytest.raises(InputError) as caught:
        load_study(str(write_study(text)))
    assert f"tiny.yaml: {key}: expected at most" in str(caught.value)


@pytest.mark.parametrize("command", ["plan", "run"])
def test_the_commands_refuse_with_status_2(command: str, write_study: Write) -> None:
    path = write_study(study_text("{method: grid}"))
    result = CliRunner().invoke(app, [command, str(path)])
    assert isinstance(result.exception, InputError)
    result = CliRunner().invoke(app, [command, str(path), "--workers", "1000000000"])
    assert result.exit_code == 2


def test_a_plan_says_how_many_designs_there_are(write_study: Write) -> None:
    path = write_study(study_text("{method: random, samples: 2}", 10**12))
    result = CliRunner().invoke(app, ["plan", str(path), "--json"])
    assert json.loads(result.stdout)["designs"] == 2
