"""The compiled counts of tiles against ``counted_on_tile``, mapping by mapping and to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.formats.tiles import load_tile
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.batch.batch import MappingBatch
from costmodel.mapping.mapping import Mapping
from costmodel.mapping.nest_text import nest_text, nest_texts
from costmodel.schedule.tile_counts.batch import BatchTileCounter
from costmodel.schedule.tile_counts.tile_count import counted_on_tile
from costmodel.workload.network import Layer, convolution
from tests.costmodel.mapping.test_batch import architectures, layers
from tests.thorough import how_many

RandomMappings = Callable[[Architecture, Layer, int, int], Iterator[Mapping]]


@pytest.mark.slow
@given(
    tile=architectures(),
    layer=layers(),
    others=st.lists(st.integers(1, 12), min_size=8, max_size=8),
    seed=st.integers(0, 2**32),
)
@settings(
    deadline=None,
    max_examples=how_many(40, thorough=150),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_every_row_equals_the_count_of_one_mapping(
    random_mappings: RandomMappings, tile: Architecture, layer: Layer, others: list[int], seed: int
) -> None:
    """Two layers with equal dims and tensors and different sizes are counted in one call."""
    names = [dim for dim, _ in layer.dims]
    second = replace(layer, dims=tuple(zip(names, others, strict=False)))
    mapped = [(one, mapping) for one in (layer, second) for mapping in random_mappings(tile, one, 5, seed)]
    batches = [MappingBatch.of([mapping], tile, one) for one, mapping in mapped]
    if not mapped:
        return
    columns = zip(*(batch.rows for batch in batches), strict=True)
    batch = MappingBatch(*(np.concatenate(column) for column in columns))
    sizes = np.array([list(one.sizes.values()) for one, _ in mapped], np.int64)
    counter = BatchTileCounter(tile, layer)
    expected = [counted_on_tile(tile, one, mapping) for one, mapping in mapped]
    assert list(counter.count(sizes, batch)) == expected
    assert nest_texts(batch, layer) == [nest_text(one.mapping(0, layer)) for one in batches]
    assert list(counter.count(sizes[::-1].copy(), batch[np.arange(len(batch))[::-1]])) == expected[::-1]


def test_a_row_that_is_no_mapping_of_its_layer_is_refused() -> None:
    tile, layer = load_tile("nvdla"), convolution("conv", K=4, C=4, P=3, Q=3, R=1, S=1)
    batch = MappingBatch.empty(2, tile, layer)
    batch.keep[:, -1] = True
    batch.temporal[0, -1] = list(layer.sizes.values())
    sizes = np.array([list(layer.sizes.values())] * 2, np.int64)
    counter = BatchTileCounter(tile, layer)
    assert len(list(counter.count(sizes[:1], batch[:1]))) == 1
    with pytest.raises(InputError, match="factors of P multiply to 1, the layer has P=3"):
        counter.count(sizes, batch)
