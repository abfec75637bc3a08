"""The co-design problem: areas, sums over occurrences, and independent violations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costmodel.errors import InputError
from costmodel.formats.technologies import load_technology
from costmodel.mapping.evaluate import evaluate
from costmodel.workload.network import gemm
from solvers.budget import Budget
from solvers.codesign.bounds import lower_bound, smallest_member
from solvers.codesign.family import ArchitectureFamily
from solvers.codesign.problem import (
    CodesignProblem,
    CodesignSolution,
    WeightedLayer,
    evaluated,
    violations,
)
from solvers.mapping import random_search
from solvers.mapping.problem import MappingProblem, objective_of


def solution(problem: CodesignProblem, sizes: dict[str, int], pes: int) -> CodesignSolution:
    """A member with mappings by random search."""
    architecture = problem.member(sizes, {"SRAM": pes})
    found = [
        random_search.solve(MappingProblem(architecture, weighted.layer, "edp"), Budget(iterations=2000))
        for weighted in problem.layers
    ]
    assert all(outcome.solution for outcome in found)
    return CodesignSolution(architecture, tuple(outcome.solution for outcome in found if outcome.solution))


@pytest.mark.parametrize(("registers", "sram", "pes"), [(512, 65536, 168), (19, 40_000, 1100), (1, 1, 1)])
def test_area_is_equation_5(product_problem: CodesignProblem, registers: int, sram: int, pes: int) -> None:
    area = product_problem.member({"RegFile": registers, "SRAM": sram}, {"SRAM": pes}).area_um2
    table = load_technology("thistle-45nm")
    per_pe = table.storage_area_um2("register", 1, 16) * registers + table.multiply_area_um2(16)
    assert area == pytest.approx(per_pe * pes + table.storage_area_um2("sram", 1, 16) * sram, rel=1e-12)


def test_everything_the_paper_leaves_free(network_problem: CodesignProblem) -> None:
    assert set(network_problem.free_sizes) == {"RegFile", "SRAM"}
    assert network_problem.free_fanouts == ("SRAM",)
    assert [weighted.occurrences for weighted in network_problem.layers] == [2, 1, 1]
    assert CodesignProblem.of(network_problem.family, [network_problem.layers[0].layer]).area_um2 == (
        network_problem.family.base.area_um2
    )


def test_sums_count_occurrences(network_problem: CodesignProblem) -> None:
    found = solution(network_problem, {"RegFile": 16, "SRAM": 512}, 8)
    total = evaluated(network_problem, found)
    alone = [
        evaluate(found.architecture, weighted.layer, mapping)
        for weighted, mapping in zip(network_problem.layers, found.mappings, strict=True)
    ]
    assert total.energy_pj == pytest.approx(2 * alone[0].energy_pj + alone[1].energy_pj + alone[2].energy_pj)
    assert total.cycles == 2 * alone[0].cycles + alone[1].cycles + alone[2].cycles
    assert objective_of(total, "edp") == total.energy_pj * total.cycles


def test_violations(network_problem: CodesignProblem) -> None:
    found = solution(network_problem, {"RegFile": 16, "SRAM": 512}, 8)
    assert violations(network_problem, found) == []
    tight = replace(network_problem, area_um2=found.architecture.area_um2 / 2)
    assert "um2 of area" in violations(tight, found)[0]
    other = replace(found, architecture=replace(found.architecture, frequency_hz=2e9))
    assert "more than" in violations(network_problem, other)[0]
    assert "2 mappings for 3 layers" in violations(
        network_problem, replace(found, mappings=found.mappings[:2])
    )
    small = replace(found, architecture=network_problem.member({"RegFile": 1, "SRAM": 2}, {"SRAM": 1}))
    assert any("usable" in reason for reason in violations(network_problem, small))
    with pytest.raises(InputError, match="without violations"):
        evaluated(tight, found)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": ()}, "at least one layer"),
        ({"area_um2": -1.0}, "above 0"),
        ({"area_um2": float("nan")}, "above 0"),
        ({"objective": "area"}, "one of energy"),
        ({"free_sizes": (), "free_fanouts": ()}, "a free size"),
        ({"free_sizes": ("SRAM", "SRAM")}, "once"),
        ({"free_sizes": ("DRAM",)}, "unlimited"),
        ({"free_fanouts": ("Cache",)}, "found Cache"),
    ],
)
def test_wrong_problems(product_problem: CodesignProblem, change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(product_problem, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [0, 1.5, True])
def test_occurrences_are_whole(count: object) -> None:
    with pytest.raises(InputError, match="occurrences"):
        WeightedLayer(gemm("", M=1, N=1, K=1), count)  # type: ignore[arg-type]


@pytest.mark.parametrize("objective", ["energy", "cycles", "edp"])
def test_nothing_beats_the_bound(network_problem: CodesignProblem, objective: str) -> None:
    """Members all over the area, with mappings drawn at random, on both sides of a fan-out too."""
    problem = replace(network_problem, objective=objective)  # type: ignore[arg-type]
    bound = lower_bound(problem)
    assert bound > 0
    for sizes, pes in (
        ({"RegFile": 3, "SRAM": 3000}, 25),
        ({"RegFile": 12, "SRAM": 600}, 36),
        ({"RegFile": 64, "SRAM": 128}, 16),
        ({"RegFile": 4, "SRAM": 100}, 40),
    ):
        found = solution(problem, sizes, pes)
        assert violations(problem, found) == []
        assert objective_of(evaluated(problem, found), problem.objective) >= bound


def test_no_member_has_less_area_than_the_smallest(network_problem: CodesignProblem) -> None:
    least = smallest_member(network_problem).area_um2
    assert lower_bound(replace(network_problem, area_um2=least * 0.99)) == float("inf")
    assert lower_bound(replace(network_problem, area_um2=least * 1.01)) < float("inf")


def test_what_takes_no_area_and_no_energy_cannot_be_free() -> None:
    """It would be infinitely large: the Timeloop cases state energies and no areas."""
    family = ArchitectureFamily("C_two_level")
    layer = gemm("product", M=4, N=4, K=4)
    with pytest.raises(InputError, match="Buffer that grows with its size"):
        CodesignProblem.of(family, [layer])
    with pytest.raises(InputError, match="areas of what Buffer fans out to"):
        CodesignProblem(family, (WeightedLayer(layer),), 1e6, free_fanouts=("Buffer",))
