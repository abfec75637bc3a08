"""Layouts as a part of mappings: counted as on a machine that has them, written, read, and refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from costmodel.errors import InputError
from costmodel.formats.architectures import architecture_file, load_architecture
from costmodel.formats.cases.mapping import any_mapping_from_json, mapping_to_json
from costmodel.formats.directives.loops import directives_of
from costmodel.formats.machines.gemmini import tiled_call
from costmodel.hardware.architecture import Architecture
from costmodel.hardware.timing import Layouts, Timing
from costmodel.mapping.batch.batch import BatchEvaluator, MappingBatch
from costmodel.mapping.bounds.bounds import lower_bounds
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import Mapping
from costmodel.mapping.nest_text import mapping_of_text, nest_text, nest_texts
from costmodel.mapping.uneven import UnevenMapping, violations, with_layouts
from costmodel.schedule.tile_counts.tile_count import counted_on_tile
from costmodel.workload.network import convolution
from solvers.mapping.space.rules import SpaceRules
from solvers.mapping.space.space import MappingSpace

GEMMINI = load_architecture("gemmini")
LAYER = convolution("c", K=24, C=12, P=14, Q=7, R=3, S=3)
CHANNELS_OUTSIDE: Layouts = (("inputs", ("N", "C", "Q", "P")), ("outputs", ("N", "K", "Q", "P", "8K")))
OTHERS: tuple[Layouts, ...] = ((), CHANNELS_OUTSIDE, CHANNELS_OUTSIDE[:1], CHANNELS_OUTSIDE[1:])


def timing_of(architecture: Architecture) -> Timing:
    assert architecture.timing is not None
    return architecture.timing


def permitting(architecture: Architecture, layouts: Layouts) -> Architecture:
    """The machine that lets mappings choose these layouts, or its own."""
    permitted = tuple((role, (entries,)) for role, entries in layouts)
    return replace(architecture, timing=replace(timing_of(architecture), permitted_layouts=permitted))


CHOICE = permitting(GEMMINI, CHANNELS_OUTSIDE)


def drawn(most: int) -> list[Mapping]:
    space = MappingSpace(GEMMINI, LAYER, SpaceRules())
    batch = space.sample(range(2), seed=3)
    valid = BatchEvaluator(GEMMINI, LAYER).evaluate(batch).valid
    return [batch.mapping(row, LAYER) for row in np.flatnonzero(valid)[:most].tolist()]


@pytest.mark.slow
def test_a_mapping_is_counted_as_on_a_machine_that_has_its_layouts() -> None:
    differ = 0
    for mapping in drawn(30):
        own = evaluate(GEMMINI, LAYER, mapping)
        assert evaluate(CHOICE, LAYER, mapping) == own
        for layouts in OTHERS:
            of_machine = replace(GEMMINI, timing=timing_of(GEMMINI).with_layouts(dict(layouts)))
            found = evaluate(CHOICE, LAYER, replace(mapping, layouts=layouts))
            assert found == evaluate(of_machine, LAYER, mapping)
            differ += found.cycles != own.cycles
            # what moves is the same, wherever it lies
            assert [level.tensors for level in found.levels] == [level.tensors for level in own.levels]
    assert differ > 20


def test_batches_count_each_row_in_its_own_layouts() -> None:
    mappings = [replace(one, layouts=OTHERS[row % 4]) for row, one in enumerate(drawn(24))]
    unknown = replace(mappings[0], layouts=(("weights", ("K", "C", "R", "S")),))
    batch = MappingBatch.of([*mappings, unknown], CHOICE, LAYER)
    assert [batch.mapping(row, LAYER).layouts for row in range(24)] == [one.layouts for one in mappings]
    assert nest_texts(batch[:24], LAYER) == [nest_text(batch.mapping(row, LAYER)) for row in range(24)]
    found = BatchEvaluator(CHOICE, LAYER).evaluate(batch)
    counted = [evaluate(CHOICE, LAYER, one) for one in mappings]
    assert found.cycles[:24].tolist() == [one.cycles for one in counted]
    assert found.energy_pj[:24] == pytest.approx([one.energy_pj for one in counted], rel=1e-12, abs=0)
    assert found.valid.tolist() == [True] * 24 + [False]
    assert MappingBatch.of(drawn(3), CHOICE, LAYER).layouts is None


def test_bounds_hold_for_every_layout_that_is_permitted() -> None:
    bound = lower_bounds(CHOICE, LAYER)
    assert bound.cycles <= lower_bounds(GEMMINI, LAYER).cycles
    for mapping in drawn(30):
        for layouts in OTHERS:
            assert bound.cycles <= evaluate(CHOICE, LAYER, replace(mapping, layouts=layouts)).cycles


@pytest.mark.parametrize("layouts", OTHERS[1:])
def test_layouts_are_written_and_read(layouts: Layouts) -> None:
    (even, *_) = drawn(1)
    inner, *outer = even.levels
    parts = (replace(inner, temporal=()), replace(inner, spatial_x=(), spatial_y=(), keep=frozenset()))
    uneven = UnevenMapping(Mapping((*parts, *outer)), (0, *range(len(even.levels))))
    for mapping in (even, uneven):
        other = with_layouts(mapping, layouts)
        assert not violations(CHOICE, LAYER, other)
        data = mapping_to_json(CHOICE, LAYER, other)
        assert data["layouts"] == {role: list(entries) for role, entries in layouts}
        assert "layouts" not in mapping_to_json(CHOICE, LAYER, mapping)
        assert any_mapping_from_json(CHOICE, LAYER, data) == other
        assert mapping_of_text(nest_text(other)) == other
        assert nest_text(other).startswith(nest_text(mapping) + " @ ")
        # what is said though the machine has it anyway is the same mapping
        data["layouts"] = {"weights": list(timing_of(GEMMINI).layout("weights"))}
        assert any_mapping_from_json(CHOICE, LAYER, data) == mapping


def test_a_machine_has_the_layouts_of_its_file(tmp_path: Path) -> None:
    content = yaml.safe_load(architecture_file("gemmini").read_text())
    content["timing"]["permitted_layouts"] = {"inputs": [["N", "C", "Q", "P"], ["N", "C", "Q", "P", "16C"]]}
    path = tmp_path / "choice.yaml"
    path.write_text(yaml.safe_dump(content))
    machine = load_architecture(str(path))
    own, *others = timing_of(machine).choices("inputs")
    assert own == ("N", "Q", "P", "C")
    assert others == [("N", "C", "Q", "P"), ("N", "C", "Q", "P", "16C")]
    assert Architecture.from_json(machine.to_json()) == machine
    assert "permitted_layouts" not in GEMMINI.to_json()["timing"]
    content["timing"]["permitted_layouts"]["inputs"] = [["N", "C", "N"]]
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(InputError, match=r"permitted_layouts\.inputs"):
        load_architecture(str(path))


def test_layouts_that_a_machine_does_not_have_are_refused() -> None:
    (mapping, *_) = drawn(1)
    other = replace(mapping, layouts=CHANNELS_OUTSIDE)
    wrong: list[tuple[Architecture, Layouts, str]] = [
        (GEMMINI, CHANNELS_OUTSIDE, "inputs: gemmini permits N Q P C"),
        (CHOICE, (("inputs", ("N", "Q", "C", "P")),), "permits N Q P C or N C Q P"),
        (CHOICE, (("inputs", ("N", "Q", "P", "C")),), "the machine's own"),
        (CHOICE, CHANNELS_OUTSIDE[::-1], "in the order weights inputs outputs"),
        (replace(GEMMINI, timing=None), CHANNELS_OUTSIDE, "has no timing"),
    ]
    for machine, layouts, reason in wrong:
        with pytest.raises(InputError, match=reason):
            evaluate(machine, LAYER, replace(mapping, layouts=layouts))
    data = mapping_to_json(CHOICE, LAYER, other)
    with pytest.raises(InputError, match="timing"):
        any_mapping_from_json(replace(GEMMINI, timing=None), LAYER, data)
    with pytest.raises(InputError, match=r"layouts\.inputs"):
        any_mapping_from_json(CHOICE, LAYER, data | {"layouts": {"inputs": "NCQP"}})
    with pytest.raises(InputError, match="layouts"):
        any_mapping_from_json(CHOICE, LAYER, data | {"layouts": {"input": ["N"]}})
    with pytest.raises(InputError, match="a role and its layout"):
        mapping_of_text(f"{nest_text(mapping)} @ input N C")


def test_formats_without_layouts_refuse_them() -> None:
    (mapping, *_) = drawn(1)
    other = replace(mapping, layouts=CHANNELS_OUTSIDE)
    with pytest.raises(InputError, match="layouts of its library"):
        tiled_call(CHOICE, LAYER, other)
    names = frozenset(tensor.name for tensor in LAYER.tensors)
    kept = replace(other, levels=tuple(replace(level, keep=names) for level in other.levels))
    with pytest.raises(InputError, match="directives say no others"):
        directives_of(LAYER, kept, [level.name for level in CHOICE.levels])


def test_parts_on_tiles_are_counted_in_their_layouts() -> None:
    machine = replace(GEMMINI, timing=timing_of(GEMMINI).with_layouts(dict(CHANNELS_OUTSIDE)))
    for mapping in drawn(5):
        found = counted_on_tile(CHOICE, LAYER, replace(mapping, layouts=CHANNELS_OUTSIDE))
        assert found == counted_on_tile(machine, LAYER, mapping)
