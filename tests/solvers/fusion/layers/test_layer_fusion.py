"""The solver of fused layers: its answers against every mapping of small groups, its bounds, its refusals."""

from __future__ import annotations

import pickle
from dataclasses import replace
from random import Random
from typing import Any, cast

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.mapping.fused.layers.group import Intermediate, IntermediateRead, LayerGroup
from costmodel.mapping.fused.layers.turns import LayerTurns
from costmodel.workload.network import gemm
from solvers.budget import LEAST_SECONDS, Budget, Deadline
from solvers.divisors import divisors
from solvers.fusion.layers import solve
from solvers.fusion.layers.corners import Corner, corner_value
from solvers.fusion.layers.floors import LayerFloors
from solvers.fusion.layers.options import LayerOptions
from solvers.fusion.layers.parts import Parts
from solvers.fusion.layers.problem import LayerFusionProblem
from solvers.fusion.layers.questions import PartKey, Question, part_of
from solvers.fusion.layers.solver import Params
from solvers.fusion.layers.structures import Run, structures
from solvers.fusion.problem import OBJECTIVES
from solvers.mapping import exact
from solvers.mapping.problem import MappingProblem
from solvers.outcome import Status
from tests.costmodel.mapping.fused.layers import random_groups
from tests.solvers.fusion.layers import enumerated_groups
from tests.solvers.fusion.layers.told import check_against


def small(random: Random, count: int = 2) -> LayerGroup:
    """A chain of small products in memories that hold some of it."""
    fanout = random.choice((1, 2))
    machine = random_groups.architecture(
        random, room=random.randint(8, 20), registers=random.randint(3, 6), fanout=fanout, rates=True
    )
    return random_groups.chain(machine, random_groups.products(random, count, (1, 2, 2, 3)))


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_small_groups_against_every_mapping(objective: str) -> None:
    random, proven, fused = Random(objective), 0, 0
    for _ in range(4):
        group = small(random)
        problem = LayerFusionProblem(group, cast(Any, objective))
        outcome = solve(problem, Budget(60))
        found = check_against(problem, outcome, enumerated_groups.least(group, objective))
        proven += outcome.status is Status.OPTIMAL
        fused += bool(found.shared.backing)
        assert pickle.loads(pickle.dumps(outcome)) == outcome
    assert fused >= 1
    # where tensors are held, cycles are bounded without the bandwidth of their way to the outermost memory
    assert proven >= (0 if objective == "cycles" else 2)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["energy", "cycles"])
def test_no_layer_of_a_structure_costs_less_than_its_floor(objective: str) -> None:
    random, compared, above = Random(objective), 0, 0
    for count in (2, 3, 2, 3):
        # so little room that not every tile can be hoisted
        machine = random_groups.architecture(random, room=random.randint(8, 12), registers=3, rates=True)
        group = random_groups.chain(machine, random_groups.products(random, count, (4,)))
        parts = Parts(group.architecture, group.layers, cast(Any, objective), Deadline(60))
        options, floors = LayerOptions(parts), LayerFloors(group, parts)
        found = list(structures(Run(group, 0, count - 1)))
        for structure in random.sample(found, min(len(found), 12)):
            for number in range(count):
                floor = floors.of(structure, number)
                held = tuple(sorted(LayerTurns(group, structure.shared, number).held.items()))
                above += floor > parts.closed_form(PartKey(number, group.layers[number].dims, held, ()))
                for option in options.of(structure, number):
                    nests = option.ask(parts, (objective,))
                    for point in parts.points(option.turns, nests):
                        assert floor.energy <= point.energy * (1 + 1e-12)
                        assert floor.cycles <= point.cycles
                        compared += 1
    assert compared > 50
    # in so small groups the MACs take longer than the words that turns bring in again
    assert above > (10 if objective == "energy" else -1)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["energy", "cycles"])
def test_parts_know_the_same_whichever_way_they_are_asked(objective: str) -> None:
    """Limits and answers taken from parts with all the room: never above the optimum, in the end equal."""
    random, limited, tight = Random(objective), 0, 0
    for count in (2, 3, 2):
        machine = random_groups.architecture(random, room=random.randint(8, 12), registers=3)
        group = random_groups.chain(machine, random_groups.products(random, count, (4,)))

        def fresh(group: LayerGroup = group, *, share_capacities: bool) -> Parts:
            asked, deadline = cast(Any, objective), Deadline(60)
            return Parts(group.architecture, group.layers, asked, deadline, share_capacities=share_capacities)

        alone, shared = fresh(share_capacities=False), fresh(share_capacities=True)
        options = LayerOptions(alone)
        found = list(structures(Run(group, 0, count - 1)))
        keys = {
            part
            for structure in random.sample(found, min(len(found), 12))
            for number in range(count)
            for option in options.of(structure, number)
            for part in option.parts
        }
        for key in sorted(keys, key=str):
            told = alone.ask(key, (objective,))
            first = shared.of(key).least.energy
            if told.fits:
                slack = random.choice((0.3, 0.9, 1.1)) * (told.least.energy - first)
                stopped = shared.ask(key, (objective,), slack)
                assert stopped.least.energy <= told.least.energy * (1 + 1e-8)
                assert stopped.least.cycles <= told.least.cycles
                limited += objective not in stopped.asked
            answered = shared.ask(key, (objective,))
            if objective not in answered.asked and answered.fits:
                answered = shared.ask(key, (objective,))
            assert answered.fits == told.fits
            assert answered.least.energy == pytest.approx(told.least.energy, rel=1e-8)
            assert answered.least.cycles == told.least.cycles
            tight += bool(key.capacities) and answered.fits
    assert tight > 10
    assert limited > (5 if objective == "energy" else -1)


@pytest.mark.slow
def test_switches_of_the_search_change_no_optimum() -> None:
    random = Random(5)
    for _ in range(4):
        problem = LayerFusionProblem(small(random), "energy")
        usual = solve(problem, Budget(60))
        for params in (Params(part_limits=False), Params(share_capacities=False)):
            other = solve(problem, Budget(60), params)
            assert other.objective == pytest.approx(usual.objective, rel=1e-12)
            assert other.bound == pytest.approx(usual.bound, rel=1e-8)


def on_simba(objective: str) -> LayerFusionProblem:
    group = random_groups.chain(
        load_architecture("simba"), tuple(gemm(f"e{i}", M=64, N=64, K=64) for i in range(2))
    )
    return LayerFusionProblem(group, cast(Any, objective))


@pytest.mark.slow
def test_an_intermediate_that_fits_stays_on_the_chip() -> None:
    problem = on_simba("energy")
    outcome = solve(problem, Budget(60))
    assert outcome.status is Status.OPTIMAL
    assert outcome.solution is not None
    assert outcome.objective is not None
    assert outcome.solution.shared.backing == {"e0": 4}
    alone = 0.0
    for layer in problem.group.layers:
        found = exact.solve(MappingProblem(problem.group.architecture, layer, "energy"), Budget(60))
        assert found.objective is not None
        alone += found.objective
    assert outcome.objective < 0.8 * alone
    apart = solve(LayerFusionProblem(problem.group, "energy", longest=1), Budget(60))
    assert apart.objective == pytest.approx(alone, rel=1e-12)
    assert apart.status is Status.OPTIMAL


@pytest.mark.slow
def test_a_solve_that_is_stopped_has_an_answer_and_a_bound() -> None:
    problem = on_simba("edp")
    best = solve(problem, Budget(60))
    assert best.objective is not None
    for seconds in (LEAST_SECONDS, 0.1, 0.5):
        outcome = solve(problem, Budget(seconds))
        assert outcome.bound is not None
        assert 0 < outcome.bound <= best.objective
        assert outcome.objective is not None
        assert outcome.status is Status.OPTIMAL or outcome.objective >= best.objective * (1 - 0.02)


def test_corners_bound_products() -> None:
    random = Random(3)
    for _ in range(200):
        points = [(random.uniform(1, 9), random.uniform(1, 9)) for _ in range(random.randint(1, 5))]
        prices = tuple(random.uniform(0.2, 3) for _ in range(random.randint(0, 3)))
        corner = Corner(
            min(e for e, _ in points),
            min(c for _, c in points),
            tuple(min(e + price * c for e, c in points) for price in prices),
        )
        least = min(e * c for e, c in points)
        found = corner_value("edp", corner, prices)
        assert corner.energy * corner.cycles * (1 - 1e-12) <= found <= least * (1 + 1e-12)


def test_what_is_no_problem_is_refused() -> None:
    group = on_simba("edp").group
    with pytest.raises(InputError, match="one of energy, cycles, edp"):
        LayerFusionProblem(group, cast(Any, "latency"))
    with pytest.raises(InputError, match="longest: expected a whole number of at least 1"):
        LayerFusionProblem(group, "edp", longest=0)


def test_equal_layers_are_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate and an up projection are one layer, and its answer by itself is that for its whole part."""
    wide = [gemm(name, M=8, N=16, K=4) for name in ("gate", "up")]
    layers = (*wide, gemm("down", M=8, N=4, K=16))
    reads = (IntermediateRead(2, "A", (("M", "M"), ("N", "K"))),)
    group = LayerGroup(load_architecture("simba"), layers, (Intermediate(0, reads), Intermediate(1, reads)))
    solved: list[tuple[object, object, str]] = []
    asked = exact.solve

    def counted(problem: MappingProblem, budget: Budget, *params: Any) -> Any:
        solved.append((problem.layer.shape, problem.rules, problem.objective))
        return asked(problem, budget, *params)

    monkeypatch.setattr(exact, "solve", counted)
    outcome = solve(LayerFusionProblem(group, "energy", 1), Budget(60))
    assert outcome.status is Status.OPTIMAL
    assert len(solved) == len({shape for shape, _, _ in solved}) == 2


@pytest.mark.slow
def test_no_part_costs_less_than_its_share_of_the_inside() -> None:
    """Parts of any size, with anything held, that begin outputs or go on: proven nests against the bound."""
    random, compared, closer, slid = Random(3), 0, 0, 0
    for number in range(40):
        machine = random_groups.architecture(
            random, room=random.randint(30, 90), registers=random.randint(3, 9), fanout=1 + number % 3
        )
        levels = [replace(level, block_size=random.choice((1, 2))) for level in machine.levels]
        levels[-1] = replace(levels[-1], leakage_pj_per_cycle=float(random.randint(0, 2)))
        machine = replace(machine, levels=tuple(levels))
        group = (
            random_groups.convolutions(random, machine, 2, rows=(4, 6))
            if number % 2
            else random_groups.chain(machine, random_groups.products(random, 2, (4, 6)))
        )
        parts = Parts(machine, group.layers, "edp", Deadline(600))
        parts.prices = (1.0, 5.0)
        parts.forget()
        for position, layer in enumerate(group.layers):
            for _ in range(3):
                # one dim may be cut into parts that are no divisor, as those under a loop over windows are
                sizes = {dim: random.choice(divisors(size)) for dim, size in layer.dims}
                odd = random.choice(list(sizes))
                sizes[odd] = random.randint(1, layer.sizes[odd])
                held = [(one.name, 1) for one in layer.tensors if random.random() < 0.5]
                key = parts.key(position, tuple(sizes.items()), tuple(held), begun=random.random() < 0.5)
                bound = parts.insides.least(key)
                assert bound is not None
                question = Question(machine, part_of(group.layers, key), key)
                for price, least in ((0.0, bound.energy), *zip(parts.prices, bound.priced, strict=True)):
                    best = exact.solve(question.problem("energy", price), Budget())
                    if best.objective is None:
                        continue
                    reached = best.objective - question.taken_off
                    assert least <= reached * (1 + 1e-9), (key, price)
                    compared += 1
                    closer += price == 0 and least > parts.closed_form(key).energy
                    slid += any(tensor.slides for tensor in layer.tensors)
    assert compared > 300
    assert slid > 30
    assert closer > 50
