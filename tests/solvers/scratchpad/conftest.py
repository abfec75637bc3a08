"""Lets the tests import the random graphs beside them, and load the reference's graphs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costmodel.formats.networks import load_network
from costmodel.scratchpad.graph import OperatorGraph, ScratchpadSettings, operator_graph

DATA = Path(__file__).parents[2] / "data" / "scratchpad"


@pytest.fixture(scope="session")
def reference_graph() -> Callable[..., OperatorGraph]:
    """The graph of a reference network, by name and settings."""

    def load(network: str, **settings: Any) -> OperatorGraph:
        return operator_graph(load_network(DATA / f"{network}.json.gz"), ScratchpadSettings(**settings))

    return load


@pytest.fixture(scope="session")
def optima() -> list[dict[str, Any]]:
    """Budgets and proven optima; see the folder's README."""
    cases: list[dict[str, Any]] = json.loads((DATA / "optima.json").read_text(encoding="utf-8"))
    return cases
