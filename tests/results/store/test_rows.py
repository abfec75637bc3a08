"""Rows as types are the columns of their tables: the same names, and values of the same kinds."""

from datetime import datetime
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from results.store.schema.rows import (
    CodesignRow,
    DesignRow,
    FusionRow,
    LayerRow,
    ProgramRow,
    ScheduleRow,
    ScratchpadRow,
    TileCostRow,
)
from results.store.schema.tables import TABLES

ROWS: dict[str, Any] = {
    "layers": LayerRow,
    "designs": DesignRow,
    "fusions": FusionRow,
    "scratchpads": ScratchpadRow,
    "schedules": ScheduleRow,
    "programs": ProgramRow,
    "tile_costs": TileCostRow,
    "codesigns": CodesignRow,
}
KINDS = {str: "string", int: "int", float: "float", bool: "bool", datetime: "timestamp"}


def value_types(hint: Any) -> set[Any]:
    """The types that a key's value may have, without what they hold: dict for dict[str, float]."""
    members = [hint] if get_origin(hint) in (None, dict, list) else get_args(hint)
    return {get_origin(member) or member for member in members}


def test_every_table_has_a_row() -> None:
    assert set(ROWS) == set(TABLES)


@pytest.mark.parametrize("table", list(ROWS))
def test_a_row_has_the_columns_of_its_table(table: str) -> None:
    assert set(get_type_hints(ROWS[table])) == set(TABLES[table].names())


@pytest.mark.parametrize("table", list(ROWS))
def test_values_are_of_the_kind_of_their_column(table: str) -> None:
    for name, hint in get_type_hints(ROWS[table]).items():
        column, found = TABLES[table].by_name[name], value_types(hint)
        kinds = {KINDS.get(one, "json") for one in found - {NoneType}}
        assert kinds == {column.kind}, name
        # what every row has is never None
        assert not (column.required and NoneType in found), name
