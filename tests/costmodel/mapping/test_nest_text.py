"""Mappings as text and back: random ones, uneven ones, and what is no mapping."""

from __future__ import annotations

from random import Random

import pytest

from costmodel.errors import InputError
from costmodel.hardware.whole_chip import counted_architecture
from costmodel.mapping.mapping import LevelMapping, Mapping
from costmodel.mapping.nest_text import mapping_of_text, nest_text
from costmodel.mapping.uneven import UnevenMapping
from costmodel.workload.network import convolution
from tests.costmodel.schedule.chip_cases import mapped_chip, random_mapping

EVERYTHING = frozenset({"Inputs", "Outputs", "Weights"})


def test_text_says_the_whole_mapping() -> None:
    architecture = counted_architecture(mapped_chip(3, 2))
    assert architecture is not None
    nest = convolution("conv", N=2, K=4, C=4, P=3, Q=2, R=2, S=1)
    drawn = [random_mapping(Random(number), architecture, nest) for number in range(60)]
    found = [mapping for mapping in drawn if mapping is not None]
    assert len({nest_text(mapping) for mapping in found}) == len(set(found)) > 10
    assert [mapping_of_text(nest_text(mapping)) for mapping in found] == found


def test_text_is_short_and_reads_from_the_outside_in() -> None:
    inner = LevelMapping((("Q", 7), ("P", 2)), (("K", 8),), (("C", 4), ("N", 2)), frozenset({"Weights"}))
    mapping = Mapping((inner, LevelMapping((), (), (), frozenset()), LevelMapping((), (), (), EVERYTHING)))
    text = ": Inputs Outputs Weights | : | P2 Q7 x K8 y C4 N2 : Weights"
    assert nest_text(mapping) == text
    assert mapping_of_text(text) == mapping


def test_parts_of_a_level_belong_together() -> None:
    parts = (
        LevelMapping((("K", 4),), (), (), frozenset({"Weights"})),
        LevelMapping((("Q", 8),), (), (), frozenset({"Inputs"})),
        LevelMapping((), (), (), EVERYTHING),
    )
    mapping = UnevenMapping(Mapping(parts), (0, 0, 1))
    assert nest_text(mapping) == ": Inputs Outputs Weights | Q8 : Inputs | + K4 : Weights"
    assert mapping_of_text(nest_text(mapping)) == mapping


@pytest.mark.parametrize("text", ["", "K8", "K : Weights", ": Weights | | :", "8K : Weights"])
def test_what_is_no_mapping_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="mapping"):
        mapping_of_text(text)
