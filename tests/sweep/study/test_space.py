"""Design spaces: the grid, samples, constraints, and the architectures they make."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.chips import FOLDER, load_chip
from sweep.study.designs.axis import Axis, NumberRange
from sweep.study.designs.design_space import Constraint, DesignSpace

SIZES = Axis("SRAM.size", ("32 KiB", "64 KiB", "128 KiB"))
FANOUTS = Axis("SRAM.fanout", ([8, 8], [14, 12]))


def test_grid_is_the_product() -> None:
    space = DesignSpace("eyeriss", (SIZES, FANOUTS))
    values = [tuple(value for _, value in design.values) for design in space.grid()]
    assert values == list(product(SIZES.choices, FANOUTS.choices))
    assert space.size == 6


def test_a_design_is_the_architecture_with_its_overrides() -> None:
    design = DesignSpace("eyeriss", (SIZES, FANOUTS)).design((1, 0))
    assert design.architecture == load_architecture("eyeriss", {"SRAM.size": "64 KiB", "SRAM.fanout": [8, 8]})
    assert design.architecture.mac_units == 64


def test_sample_is_of_different_designs_and_repeatable() -> None:
    space = DesignSpace("eyeriss", (SIZES, FANOUTS))
    drawn = [design.values for design in space.sample(4, seed=7)]
    assert len({str(values) for values in drawn}) == 4
    assert drawn == [design.values for design in space.sample(4, seed=7)]
    assert len(list(space.sample(100, seed=0))) == space.size


def test_no_axes_is_one_design() -> None:
    designs = list(DesignSpace("eyeriss", ()).grid())
    assert [design.architecture for design in designs] == [load_architecture("eyeriss")]


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("mac_units <= 100", True),
        ("mac_units<64", False),
        ("mac_units >= 64", True),
        ("mac_units > 6.4e1", False),
    ],
)
def test_constraints(text: str, holds: bool) -> None:
    space = DesignSpace("eyeriss", (FANOUTS,), (Constraint.parse(text),))
    design = space.design((0,))
    assert design.feasible is holds
    assert holds or "is 64" in design.broken[0]


CHIP_AXES = (Axis("mesh", ([8, 8], [16, 16])), Axis("dram.bandwidth", ("25 B/cycle", "50 B/cycle")))


def kapla(*axes: Axis, constraints: tuple[Constraint, ...] = ()) -> DesignSpace:
    """A family of chips whose file has no areas and no technology."""
    return DesignSpace("kapla-16x16-paper", axes, constraints, load=load_chip, where="mine.yaml")


@pytest.mark.parametrize(
    ("axis", "remedy"),
    [
        (CHIP_AXES[1], "dram.interface_area in the chip file.*technology with dram_interface_area"),
        (Axis("noc.link_bandwidth", NumberRange(range(8, 64, 8), "B/cycle")), "noc.router_area"),
        (Axis("tile.buffer.size", ("16 KiB", "32 KiB")), "tile.buffer.area"),
        (Axis("tile.vector_units", (64, 128)), "tile.vector_area"),
    ],
    ids=lambda value: value.key if isinstance(value, Axis) else "",
)
def test_a_larger_part_is_not_free_of_area(axis: Axis, remedy: str) -> None:
    said = rf"mine.yaml: axes.{axis.key}: expected an area .*found no price in kapla-16x16-paper.*{remedy}"
    with pytest.raises(InputError, match=said):
        kapla(CHIP_AXES[0], axis).check_prices(("energy_pj", "area_um2"))
    limited = kapla(axis, constraints=(Constraint.parse("area_um2 <= 1e9"),))
    with pytest.raises(InputError, match=said):
        limited.check_prices(("energy_pj",))
    # nobody asks for the area; SET's platform has areas for all of these
    kapla(axis).check_prices(("energy_pj", "cycles"))
    replace(kapla(axis), base="set-edge").check_prices(("area_um2",))


def test_a_size_whose_energy_or_area_is_fixed_is_warned_of(tmp_path: Path) -> None:
    """Of an architecture the reader may have meant it: a front is drawn, with a sentence."""
    written = tmp_path / "mine.yaml"
    axes = (Axis("Buffer.size", ("64 KiB", "128 KiB")), Axis("Buffer.fanout", ([2, 2], [4, 4])))

    def warnings(energy: str, area: str) -> list[str]:
        written.write_text(
            "name: mine\nword_bits: 8\nlevels:\n- {name: DRAM, kind: dram, energy: 8 pJ}\n"
            f"- {{name: Buffer, kind: sram, size: 64 KiB, energy: {energy}, area: {area}}}\n"
            "compute: {name: MAC, energy: 1 pJ}\n"
        )
        return list(DesignSpace(str(written), axes).fixed_prices())

    at = "at_size: 64 KiB"
    moving = f"{{read: 1 pJ, write: 1 pJ, update: 1 pJ, {at}}}"
    assert warnings(moving, f"{{value: 1 mm2, {at}}}") == []
    assert warnings(moving, "0 mm2") == [], "an architecture may have no areas at all"
    (said,) = warnings("1 pJ", "1 mm2")
    assert "Buffer.size varies and the energy and area of Buffer do not: state at_size" in said
    (said,) = warnings(moving, "1 mm2")
    assert "the area of Buffer does not" in said


def test_an_area_that_stays_as_stated_is_no_price(tmp_path: Path) -> None:
    text = (FOLDER / "kapla-16x16-paper.yaml").read_text()
    stated = tmp_path / "stated.yaml"
    for area, priced in (("5 mm2", False), ("{value: 5 mm2, at_bandwidth: 25 B/cycle}", True)):
        stated.write_text(text.replace("dram:\n", f"dram:\n  interface_area: {area}\n"))
        space = replace(kapla(*CHIP_AXES), base=str(stated))
        if priced:
            space.check_prices(("area_um2",))
            continue
        with pytest.raises(InputError, match=r"axes\.dram\.bandwidth"):
            space.check_prices(("area_um2",))


def test_area_and_bits_are_sums_over_instances() -> None:
    architecture = load_architecture("eyeriss")
    bits = sum(
        n * level.size_words * level.word_bits
        for n, level in zip(architecture.instances, architecture.levels, strict=True)
        if level.size_words
    )
    assert Constraint("on_chip_bits", "<=", bits).holds(architecture)
    assert not Constraint("on_chip_bits", "<", bits).holds(architecture)
    assert Constraint("area_um2", ">=", architecture.area_um2).holds(architecture)


def test_an_unlimited_level_on_chip_has_no_bits_that_a_limit_allows() -> None:
    architecture = load_architecture("eyeriss")
    inner, *others = architecture.levels
    endless = replace(architecture, levels=(replace(inner, size_words=None), *others))
    assert not Constraint("on_chip_bits", "<=", 1e18).holds(endless)
    assert Constraint("on_chip_bits", ">=", 1e18).holds(endless)


def test_unknown_axis_is_named() -> None:
    with pytest.raises(InputError, match="SRAM"):
        DesignSpace("eyeriss", (Axis("SRM.size", (1,)),)).design((0,))


def test_axis_needs_values() -> None:
    with pytest.raises(InputError, match=r"axes\.SRAM\.size"):
        Axis("SRAM.size", ())


@pytest.mark.parametrize(
    "text", ["mac_units <= 168", "mac_units < 168", "mac_units >= 168", "mac_units > 168"]
)
def test_an_excess_is_above_nothing_exactly_where_a_constraint_is_broken(text: str) -> None:
    constraint = Constraint.parse(text)
    for columns in (13, 14, 15):
        architecture = load_architecture("eyeriss", {"SRAM.fanout": [columns, 12]})
        assert (constraint.excess(architecture) <= 0) == constraint.holds(architecture)
    half = Constraint.parse("mac_units <= 112")
    assert half.excess(load_architecture("eyeriss")) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("choices", "ordered"),
    [
        ((1, 2, 3), True),
        ((3, 2, 1), True),
        ((2, 3, 1), False),
        (("512 B", "1 KiB", "2 KiB"), True),
        (("1 KiB", "512 B", "2 KiB"), False),
        (([2, 2], [4, 2], [4, 4]), True),
        (([4, 4], [2, 2], [8, 8]), False),
        (("500 MHz", "1 GHz"), True),
        ((["weights"], ["inputs"]), False),
        (("thistle-45nm", "simba-like-8bit"), False),
    ],
)
def test_numbers_sizes_and_fanouts_can_be_in_order(choices: tuple[Any, ...], ordered: bool) -> None:
    assert Axis("key", choices).ordered == ordered


def test_unseen_designs_are_found_to_the_last() -> None:
    space = DesignSpace("eyeriss", (Axis("RegFile.size", (16, 32, 64)), Axis("SRAM.fanout.x", (2, 4, 8, 16))))
    seen: set[tuple[int, ...]] = set()
    while (point := space.unseen(seen, str(len(seen)))) is not None:
        assert point not in seen
        seen.add(point)
    assert len(seen) == space.size == 12
