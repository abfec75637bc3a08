"""The documented columns are the stored ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import make_dataclass
from typing import Any

import pytest

from results.errors import WrongRowError
from results.store.schema.shared_columns import SCHEMA_VERSION
from results.store.schema.tables import ANSWERED, DESIGNS, LAYERS, TABLES, schema_markdown, table_named


def test_every_column_is_documented_once() -> None:
    text = schema_markdown()
    assert f"schema version {SCHEMA_VERSION}" in text
    for table in TABLES.values():
        names = table.names()
        assert len(set(names)) == len(names)
        assert all(column.meaning for column in table.columns)
        section = text.split(f"## {table.name}\n")[1].split("\n## ")[0]
        listed = [line.split(" | ")[0].removeprefix("| ") for line in section.splitlines() if "|" in line]
        assert listed[2:] == list(names)


def test_columns_carry_their_unit_in_the_name_and_in_the_list() -> None:
    units = {"_pj": "pJ", "_um2": "um2", "_seconds": "s", "_pj_cycles": "pJ*cycles"}
    for table in TABLES.values():
        for column in table.columns:
            endings = [suffix for suffix in units if column.name.endswith(suffix)]
            if endings:
                assert column.unit == units[max(endings, key=len)], column.name


def test_the_parquet_types_follow_the_kinds() -> None:
    types = {field.name: str(field.type) for field in LAYERS.arrow_schema()}
    assert (types["cycles"], types["energy_pj"], types["cached"]) == ("int64", "double", "bool")
    assert (types["mapping"], types["finished_at"]) == ("string", "timestamp[us, tz=UTC]")
    assert DESIGNS.by_name[DESIGNS.key].required
    assert "failed" not in ANSWERED


def test_an_unknown_table_is_named() -> None:
    with pytest.raises(
        WrongRowError, match=r"no such table.*layers, designs, fusions, scratchpads, schedules"
    ):
        table_named("layer")


def test_a_row_is_a_mapping_or_a_dataclass(make_layer: Callable[..., dict[str, Any]]) -> None:
    values = make_layer(3)
    typed = make_dataclass("LayerRow", values, frozen=True)(**values)
    assert LAYERS.encode(typed) == LAYERS.encode(values)
    longer = make_dataclass("LongerRow", [*values, "colour"])(**values, colour="red")
    with pytest.raises(WrongRowError, match="unknown column 'colour'"):
        LAYERS.encode(longer)


def test_a_value_that_holds_itself_is_refused(make_layer: Callable[..., dict[str, Any]]) -> None:
    values = make_layer(3)
    values["mapping"] = {"levels": []}
    values["mapping"]["levels"].append(values["mapping"])
    with pytest.raises(WrongRowError, match="column 'mapping' expects a dict, list or number"):
        LAYERS.encode(values)
