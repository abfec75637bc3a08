"""The tile cost table in the store: all that any run knows of one source, whatever lot it was solved in."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from results.store.known_answers import StoredAnswers
from results.store.schema.chips import TILE_COSTS

PartCost = tuple[float | None, int | None, bool, float, str]
"""Energy in pJ, cycles, whether they are proven the least, leakage in pJ per cycle, the mapping as text."""
Costs = dict[str, dict[tuple[int, ...], PartCost]]
"""By source, then by a tile part's numbers."""


def stored_tile_costs(store: StoredAnswers, source_ids: Collection[str]) -> Costs:
    """Costs of these sources in the run folders of a store."""
    found: Costs = {source: {} for source in source_ids}
    for row in store.matching(TILE_COSTS, "source_id", source_ids, ("source_id", "costs")):
        found[row["source_id"]] |= costs_of(row["costs"] or [])
    return found


def costs_of(costs: list[Any]) -> dict[tuple[int, ...], PartCost]:
    """The column ``costs`` of a row by tile part."""
    return {tuple(part): tuple(cost) for part, *cost in costs}
