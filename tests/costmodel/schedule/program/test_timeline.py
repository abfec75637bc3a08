"""With which step the data of another step begins to come, counted by hand."""

from __future__ import annotations

from costmodel.schedule.program.timeline import fetching, steps_of
from tests.costmodel.schedule.chip_cases import chain, chip
from tests.costmodel.schedule.test_closed_forms import evaluate


def begins(text: str, layers: int) -> list[tuple[str, int | None]]:
    """Of the first tile: the layer of each step, and where its data begins to come."""
    (segment,) = evaluate(text, chain(layers), chip(2, 2)).segments
    steps = list(steps_of(segment, 0))
    return [(step.layer, begin) for step, begin in zip(steps, fetching(steps), strict=True)]


def test_of_leaves_with_the_step_before() -> None:
    found = begins("T 2/1|>T 2/2|>>layer0 1|>>layer1 1", 2)
    assert found == [("layer0", None), ("layer1", 0), ("layer0", 1), ("layer1", 2)]


def test_of_what_follows_a_cut_with_the_cuts_first_step() -> None:
    found = begins("T 4/1|>T 4/2|>>layer0 2|>>T 2/2|>>>layer1 1|>>>layer2 1", 3)
    one = [("layer0", None), ("layer1", 0), ("layer2", 1), ("layer1", 2), ("layer2", 3)]
    # the next two samples of layer0 come from when the inner cut begins
    assert found == [*one, ("layer0", 1), ("layer1", 5), ("layer2", 6), ("layer1", 7), ("layer2", 8)]


def test_of_what_follows_a_pipeline_with_its_first_sub_batch() -> None:
    found = begins("T 4/1|>T 4/1|>>S 4/4|>>>layer0 1|>>>layer1 1|>>layer2 4", 3)
    assert found == [("layer0", None), ("layer0", 0), ("layer0", 1), ("layer0", 2), ("layer2", 0)]
