"""Numbers with units: every unit by hand, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.formats.yaml.quantities import AREA, BANDWIDTH, ENERGY, FREQUENCY, LEAKAGE, SIZE, Units, reader


@pytest.mark.parametrize(
    ("units", "written", "value", "unit"),
    [
        (SIZE, 512, 512, "words"),
        (SIZE, "512", 512, "words"),
        (SIZE, "1 word", 1, "words"),
        (SIZE, "64 Kiwords", 65536, "words"),
        (SIZE, "128 KiB", 128 * 1024 * 8, "bits"),
        (SIZE, "1.5 KB", 12000, "bits"),
        (SIZE, "2MiB", 2**24, "bits"),
        (SIZE, " 8_192  bits ", 8192, "bits"),
        (BANDWIDTH, 16, 16, "words/cycle"),
        (BANDWIDTH, "4 B/cycle", 32, "bits/cycle"),
        (BANDWIDTH, "25.6 GB/s", 25.6e9 * 8, "bits/s"),
        (BANDWIDTH, "1 GiB/s", 2**33, "bits/s"),
        (FREQUENCY, 1e9, 1e9, "Hz"),
        (FREQUENCY, "200 MHz", 200e6, "Hz"),
        (FREQUENCY, "1e9", 1e9, "Hz"),
        (ENERGY, "4.58 pJ", 4.58, "pJ"),
        (ENERGY, "0.5 nJ", 500, "pJ"),
        (ENERGY, "20 fJ", 0.02, "pJ"),
        (LEAKAGE, "0.01 pJ/cycle", 0.01, "pJ/cycle"),
        (LEAKAGE, "2 mW", 2e9, "pJ/s"),
        (AREA, ".5 mm2", 500_000, "um2"),
    ],
)
def test_units_by_hand(units: Units, written: Any, value: float, unit: str) -> None:
    read = reader(units, "'a thing'", zero=True)(written)
    assert read.value == pytest.approx(value, rel=1e-15)
    assert (read.unit, read.written) == (unit, written)


@pytest.mark.parametrize(
    "written",
    [0, -1, True, None, [], {}, "", "KiB", "many", "1 2", "0 KiB", "-3 words", "nan", "inf", "0x10"],
)
def test_what_is_not_a_size_is_refused(written: Any) -> None:
    with pytest.raises(InputError, match="a number above 0, such as '128 KiB'"):
        reader(SIZE, "'128 KiB'", zero=False)(written)


@pytest.mark.parametrize("written", [float("nan"), float("inf"), 10**400, 1e31])
def test_numbers_without_end_are_refused(written: Any) -> None:
    with pytest.raises(InputError, match="a number of at least 0"):
        reader(AREA, "'5 um2'", zero=True)(written)


def test_zero_is_allowed_where_it_means_something() -> None:
    assert reader(ENERGY, "'5 pJ'", zero=True)("0 pJ").value == 0


def test_a_wrong_unit_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"found 128 kib\. Did you mean KiB\?"):
        reader(SIZE, "'128 KiB'", zero=False)("128 kib")
    with pytest.raises(InputError, match="A plain number is in pJ"):
        reader(ENERGY, "'5 pJ'", zero=False)("5 parsecs")


@given(st.floats(0, 1e20), st.sampled_from(list(ENERGY)))
def test_what_is_written_is_what_is_read(number: float, unit: str) -> None:
    assert reader(ENERGY, "'5 pJ'", zero=True)(f"{number!r} {unit}").value == number * ENERGY[unit][0]
