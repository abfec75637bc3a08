"""The minimum peak against every topological order, and against the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.scratchpad.graph import OperatorGraph, ScratchpadSettings
from solvers.budget import Budget, Deadline, InTime
from solvers.outcome import Status
from solvers.scratchpad import peak
from solvers.scratchpad.budgets import budget_bytes
from solvers.scratchpad.peak import Params, minimum_peak
from solvers.scratchpad.problem import ScratchpadProblem
from tests.solvers.scratchpad import random_graphs


@pytest.mark.parametrize("seed", range(40))
def test_no_order_has_a_lower_peak(seed: int) -> None:
    settings = ScratchpadSettings(parameters=seed % 2 == 0, in_place=seed % 3 == 0)
    graph = random_graphs.random_graph(seed, 7, settings)
    least = min(random_graphs.peak(graph, order) for order in random_graphs.orders(graph))
    for safe_moves in (True, False):
        found = minimum_peak(graph, params=Params(safe_moves))
        assert found.proven
        assert found.peak_bytes == max(least, graph.required_bytes)
        assert random_graphs.peak(graph, found.order) <= found.peak_bytes


def test_the_peak_is_enough_and_a_byte_less_is_not(
    reference_graph: Callable[..., OperatorGraph], optima: list[dict[str, Any]]
) -> None:
    graph = reference_graph("transformer")
    least = next(case["MP"] for case in optima if case["network"] == "transformer")
    outcome = peak.solve(ScratchpadProblem(graph, least), Budget())
    assert outcome.status is Status.OPTIMAL
    assert outcome.objective == 0
    less = peak.solve(ScratchpadProblem(graph, least - 1), Budget())
    assert less.status is Status.UNKNOWN
    assert str(least) in less.note


def test_out_of_time_there_is_an_order_and_an_honest_bound(
    reference_graph: Callable[..., OperatorGraph],
    optima: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = reference_graph("amoebanet_d")
    looks = []

    def in_time(self: Deadline) -> bool:
        """Time to finish, for so many wall seconds as a budget's name has; 255 looks to search."""
        looks.append(0)
        return self.wall_seconds == 30.0 or len(looks) % 256 != 0

    monkeypatch.setattr(Deadline, "in_time", in_time)
    found = minimum_peak(graph, 30.0)
    looks.clear()
    least = next(case["MP"] for case in optima if case["network"] == "amoebanet_d")
    assert found.bound_bytes < least < found.peak_bytes
    assert random_graphs.peak(graph, found.order) == found.peak_bytes
    budget = budget_bytes(graph, "MP")
    assert budget.size_bytes == found.peak_bytes
    assert f"proven to be at least {found.bound_bytes}" in budget.note


def test_what_a_part_took_out_of_time_is_no_bound(
    reference_graph: Callable[..., OperatorGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first part's search ends with far too high a peak; those of later parts are within it."""
    graph = reference_graph("vit_b_16")
    least = minimum_peak(graph)
    searched, parts = peak._OrderSearch.run, []

    def first_cut_short(search: Any, *clocks: InTime) -> peak.MinimumPeak:
        parts.append(search)
        found = searched(search, *clocks)
        higher = found._replace(peak_bytes=10 * least.peak_bytes, bound_bytes=graph.required_bytes)
        return higher if len(parts) == 1 else found

    monkeypatch.setattr(peak._OrderSearch, "run", first_cut_short)
    found = minimum_peak(graph)
    assert len(parts) > 1
    assert found.peak_bytes == 10 * least.peak_bytes
    assert found.bound_bytes <= least.peak_bytes


@pytest.mark.parametrize("budget", ["", "0", "-5", "1e6", "mr"])
def test_budgets_are_names_or_bytes(budget: str) -> None:
    with pytest.raises(InputError, match="MR, MH, MP or a number of bytes"):
        budget_bytes(random_graphs.random_graph(1), budget)


def test_a_number_is_its_own_budget() -> None:
    assert budget_bytes(random_graphs.random_graph(1), "4096") == (4096, "")
