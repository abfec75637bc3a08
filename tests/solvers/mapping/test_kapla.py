"""KAPLA's layer solver piece by piece: orders, factors, estimates, fillings, distance from the optimum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice, permutations, product
from math import inf, prod
from typing import Any

import numpy as np
import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import LevelMapping, Mapping, loops
from costmodel.mapping.mapping import violations as mapping_violations
from costmodel.workload.network import Layer, convolution, gemm
from solvers.budget import Budget, OutOfTimeError
from solvers.mapping import exact, kapla
from solvers.mapping.kapla import filling as kapla_filling
from solvers.mapping.kapla import ladders as kapla_ladders
from solvers.mapping.kapla import solver as kapla_solver
from solvers.mapping.kapla.bottom_up import BottomUp, load
from solvers.mapping.kapla.estimate import Estimator, tile_words
from solvers.mapping.kapla.filling import Filling
from solvers.mapping.kapla.ladders import ladders
from solvers.mapping.kapla.orders import stationary_orders
from solvers.mapping.kapla.schemes import Schemes
from solvers.mapping.problem import MappingProblem, violations
from solvers.mapping.space.rules import FactorRule, LevelRules, SpaceRules
from solvers.mapping.space.space import MappingSpace
from tests.solvers.mapping.random_problems import invented_problems, problems
from tests.thorough import how_many

CONVOLUTION = convolution("c", N=2, K=8, C=4, P=6, Q=6, R=3, S=3)
PAPER = kapla.Params.paper()


def space_of(problem: MappingProblem) -> MappingSpace:
    return MappingSpace(problem.architecture, problem.layer, problem.rules)


def test_one_order_for_every_tensor_that_can_stay() -> None:
    """Innermost the dims of batch and feature map (weights stay), K (inputs stay) or sums (outputs stay)."""
    orders = stationary_orders(CONVOLUTION)
    names = [dim for dim, _ in CONVOLUTION.dims]
    innermost = {frozenset(names[dim] for dim in order.innermost) for order in orders}
    assert innermost == {frozenset("NPQ"), frozenset("K"), frozenset("CRS")}
    assert all(sorted(order.order) == list(range(len(names))) for order in orders)
    assert all(set(order.order[: len(order.innermost)]) == order.innermost for order in orders)


def test_no_order_of_a_product_costs_less_than_the_best_stationary_one(three_levels: Architecture) -> None:
    """All six orders of the loops at DRAM against the three that are tried."""
    layer = gemm("g", M=8, N=6, K=10)
    dims = [dim for dim, _ in layer.dims]

    def energy(order: tuple[int, ...]) -> float:
        outside = loops((dims[dim], layer.sizes[dims[dim]]) for dim in order)
        kept = frozenset(tensor.name for tensor in layer.tensors)
        levels = [LevelMapping((), (), (), kept)] * 2 + [LevelMapping(outside, (), (), kept)]
        return evaluate(three_levels, layer, Mapping(tuple(levels))).energy_pj

    tried = [energy(order) for order, _ in stationary_orders(layer)]
    every = [energy(order) for order in permutations(range(3))]
    assert set(every) == set(tried)


RULES = SpaceRules(
    levels=(
        LevelRules("Register", temporal=(FactorRule("M", most=1),)),
        LevelRules("Buffer", temporal=(FactorRule("M", 2, 3),), spatial=(FactorRule("N", 2, 2),)),
        LevelRules("DRAM", temporal=(FactorRule("M", most=2), FactorRule("K", 2, 4))),
    )
)


@pytest.mark.parametrize("rules", [SpaceRules(), RULES], ids=["free", "bounded"])
def test_a_factor_is_allowed_if_and_only_if_later_blocks_can_take_the_rest(
    rules: SpaceRules, three_levels: Architecture
) -> None:
    """Every way to factor every dim over the blocks, listed, against the steps of the ladders."""
    layer = gemm("g", M=12, N=4, K=8)
    space = MappingSpace(three_levels, layer, rules)
    found = list(ladders(space).values())
    for dim, (_, size) in enumerate(layer.dims):
        divisors = found[0].divisors[dim].tolist()
        chains = {
            factors
            for factors in product(divisors, repeat=len(found))
            if prod(factors) == size
            and all(
                ladder.slot.least[dim] <= factor <= ladder.slot.most[dim]
                for ladder, factor in zip(found, factors, strict=True)
            )
        }
        for number, ladder in enumerate(found):
            seen = {(prod(chain[number:]), chain[number]) for chain in chains}
            for (row, total), (column, factor) in product(enumerate(divisors), repeat=2):
                allowed = bool(ladder.allowed[dim, row, column])
                assert allowed or (total, factor) not in seen
                if (total, divisors[0]) in {(t, 1) for t, _ in seen}:  # totals that earlier blocks can leave
                    assert allowed == ((total, factor) in seen)


def test_the_next_step_is_the_next_larger_factor_allowed(three_levels: Architecture) -> None:
    space = MappingSpace(three_levels, gemm("g", M=12, N=4, K=8), RULES)
    for ladder in ladders(space).values():
        for dim, divisors in enumerate(ladder.divisors):
            for row, column in product(range(len(divisors)), repeat=2):
                larger = [
                    int(factor)
                    for place, factor in enumerate(divisors)
                    if place > column and ladder.allowed[dim, row, place]
                ]
                assert ladder.following[dim, row, column] == min(larger, default=0)


def test_ladders_are_given_up_when_the_time_is_up(
    three_levels: Architecture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes of 1,344 divisors have tables of 1.8 million entries a slot: none is made, a mapping is drawn."""
    problem = MappingProblem(three_levels, gemm("g", M=735134400, N=735134400, K=1))
    load(problem)
    made = []
    monkeypatch.setattr(kapla_ladders, "_following", lambda *arguments: made.append(arguments))
    with pytest.raises(OutOfTimeError):
        ladders(space_of(problem), lambda: False)
    outcome = kapla.solve(problem, Budget(wall_seconds=1e-9))
    assert outcome.solution is not None
    assert made == []


def test_with_no_time_the_serial_mapping_is_the_last_start(
    three_levels: Architecture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where none of the mappings fits that there is time to draw."""
    monkeypatch.setattr(kapla_solver, "drawn", lambda *arguments: iter(()))
    problem = MappingProblem(three_levels, CONVOLUTION)
    outcome = kapla.solve(problem, Budget(wall_seconds=1e-9))
    assert outcome.solution is not None
    assert violations(problem, outcome.solution) == []
    assert not any(level.temporal for level in outcome.solution.levels[:-1])


def test_products_are_listed_in_parts_until_the_time_is_up(
    three_levels: Architecture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts change nothing; when the time is up, every scheme that is left has one product."""
    problem = MappingProblem(three_levels, convolution("c", N=4, K=16, C=12, P=12, Q=6, R=3, S=3))
    space = space_of(problem)
    estimator, schemes = Estimator(problem, space), grown_at_random(problem, 0, 40)
    ladder = {(slot.level, slot.spatial): own for slot, own in ladders(space).items()}[1, False]
    free = np.ones(schemes.rest.shape, np.bool_)
    whole, costs = Filling(estimator, ladder, 2).products(schemes, free, 3)
    monkeypatch.setattr(kapla_filling, "AT_ONCE", 7)
    monkeypatch.setattr(kapla_filling, "LISTED_AT_ONCE", 5)
    looks = [0]

    def look() -> bool:
        looks[0] += 1
        return looks[0] < last

    for last in (10**9, 3):
        looks[0], before = 0, estimator.evaluations
        found, own = Filling(estimator, ladder, 2, look).products(schemes, free, 3)
        if last == 10**9:
            assert all((one == two).all() for one, two in zip(whole.arrays, found.arrays, strict=True))
            assert (costs.objective == own.objective).all()
            assert looks[0] > 10
        else:
            assert 0 < len(found) <= estimator.evaluations - before <= 2 * 5 + len(schemes)


def filled_at_random(count: int) -> Iterator[tuple[Filling, Schemes]]:
    """The passes of random problems, with schemes in which the slots before have random factors."""
    drawn = chain.from_iterable(zip(problems(1), invented_problems(2), strict=False))
    for problem in islice(drawn, count):
        space = space_of(problem)
        estimator = Estimator(problem, space)
        for slot, ladder in ladders(space).items() if all(space.keep_sets) else ():
            if (outer := slot.level + (not slot.spatial)) <= estimator.outermost:
                schemes = grown_at_random(problem, slot.level - 1 - slot.spatial, 6)
                yield Filling(estimator, ladder, outer), schemes


def test_all_products_are_those_that_fit_one_by_one() -> None:
    """Listed by ``itertools``, each put into the slot by itself."""
    listed = 0
    for filling, schemes in filled_at_random(how_many(12, thorough=100)):
        ladder, estimator = filling.ladder, filling.estimator
        draws = np.random.default_rng(listed)
        free = draws.random(schemes.rest.shape) < 0.7
        found = filling._all_products(schemes, free)
        expected = []
        for row, rest in enumerate(schemes.rest.tolist()):
            choices = []
            for dim, total in enumerate(rest):
                own = ladder.divisors[dim].tolist()
                allowed = [own[n] for n in np.flatnonzero(ladder.allowed[dim, own.index(total)])]
                choices.append(allowed if free[row, dim] else allowed[:1])
            for factors in product(*choices):
                one = schemes[np.array([row])]
                one.fill(ladder.slot, np.array(factors))
                instances = prod(factors) if ladder.slot.spatial else 1
                fanout = estimator.problem.architecture.levels[ladder.slot.level].fanout
                if instances <= fanout and estimator.fits(one, ladder.forced, filling.outer)[0]:
                    expected.append((row, *factors, *(float(cost[0]) for cost in filling.costs(one))))
        columns = (found.sources, *found.factors.T, *found.costs)
        assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected
        listed += len(expected)
    assert listed > 500


def test_climbs_take_the_best_of_all_steps() -> None:
    """Each scheme by itself, its steps compared as tuples."""
    taken = 0
    for filling, schemes in filled_at_random(how_many(12, thorough=100)):
        starts = filling.ladder.begun(schemes)
        ends, rows = [], [starts[np.array([row])] for row in range(len(starts))]
        for one in rows:
            (cost,) = zip(*filling.costs(one), strict=True)
            while True:
                (steps,) = filling.ladder.steps(one)
                dims = [np.array([dim]) for dim in np.flatnonzero(steps)]
                further = [one.grown(filling.ladder.slot, dim, steps[dim]) for dim in dims]
                after = [next(zip(*filling.costs(step), strict=True)) for step in further]
                useful = [
                    (new, number)
                    for number, new in enumerate(after)
                    if new[0] < cost[0] * (1 - 1e-12)
                    or (new[0] <= cost[0] * (1 + 1e-12) and new[1] < cost[1] * (1 - 1e-12))
                ]
                if not useful:
                    break
                cost, number = min(useful)
                one, taken = further[number], taken + 1
            ends.append((one.temporal.tolist(), one.spatial.tolist(), one.rest.tolist(), cost))
        grown, costs = filling.steepest(starts)
        found = [
            (grown.temporal[[row]].tolist(), grown.spatial[[row]].tolist(), grown.rest[[row]].tolist(), cost)
            for row, cost in enumerate(zip(*costs, strict=True))
        ]
        assert found == ends
    assert taken > 100


def test_tile_words_are_those_of_the_tensors() -> None:
    random = np.random.default_rng(3)
    layer = convolution("c", N=2, K=8, C=4, P=6, Q=6, R=3, S=3, stride=(2, 1), dilation=(1, 2))
    sizes = np.array([size for _, size in layer.dims])
    tiles = random.integers(1, sizes + 1, (50, len(sizes)))
    words = tile_words(layer, tiles)
    for tile, found in zip(tiles, words, strict=True):
        named = {dim: int(size) for (dim, _), size in zip(layer.dims, tile, strict=True)}
        assert found.tolist() == [tensor.words(named) for tensor in layer.tensors]


def grown_at_random(problem: MappingProblem, level: int, rows: int) -> Schemes:
    """Schemes whose blocks up to the fan-out above ``level`` have random factors, whether they fit or not."""
    random, space = np.random.default_rng(abs(level)), space_of(problem)
    schemes = Schemes.of_nothing(space)[np.zeros(rows, np.int64)]
    for slot in ladders(space):
        if slot.level - slot.spatial > level:
            continue
        for dim in range(len(problem.layer.dims)):
            factors = [
                random.choice([*[1] * 9, *(f for f in range(1, r + 1) if r % f == 0)])
                for r in schemes.rest[:, dim]
            ]
            schemes = schemes.grown(slot, np.full(rows, dim), np.array(factors))
    return schemes


@pytest.mark.parametrize("level", [0, 1])
def test_what_fits_is_what_the_cost_model_says_fits(level: int, three_levels: Architecture) -> None:
    """With the open loops at DRAM a scheme is a mapping; levels inside ``level`` are not looked at."""
    problem = MappingProblem(three_levels, convolution("c", K=4, C=4, P=4, Q=1, R=3, S=1))
    space, outer = space_of(problem), level + 1
    estimator, schemes = Estimator(problem, space), grown_at_random(problem, level, 300)
    fits = estimator.fits(schemes, list(ladders(space).values())[-1].forced, outer)
    batch, sides_fit = estimator.completed(schemes, estimator.outermost)
    roomy = tuple(
        replace(hardware, size_words=None) if place < level else hardware
        for place, hardware in enumerate(three_levels.levels)
    )
    architecture = replace(three_levels, levels=roomy)
    valid = [
        not mapping_violations(architecture, problem.layer, batch.mapping(int(row), problem.layer))
        for row in np.flatnonzero(sides_fit)
    ]
    assert fits[sides_fit].tolist() == valid
    assert 0 < sum(valid) < len(valid)


@pytest.mark.parametrize("objective", ["energy", "cycles", "edp"])
def test_estimates_are_the_cost_models_with_room_outside(objective: Any, three_levels: Architecture) -> None:
    """The same mapping on the architecture whose buffer has no limit, by the readable model."""
    problem = MappingProblem(three_levels, CONVOLUTION, objective)
    space = space_of(problem)
    estimator, ladder = Estimator(problem, space), list(ladders(space).values())[-1]
    schemes = grown_at_random(problem, 0, 300)
    costs = estimator.costs(schemes, ladder, 1)
    batch, _ = estimator.completed(schemes, 1)
    register, buffer, dram = three_levels.levels
    architecture = replace(three_levels, levels=(register, replace(buffer, size_words=None), dram))
    finite = np.flatnonzero(np.isfinite(costs.objective))
    assert len(finite)
    for row in finite:
        found = evaluate(architecture, CONVOLUTION, batch.mapping(int(row), CONVOLUTION))
        expected = {"energy": found.energy_pj, "cycles": found.cycles, "edp": found.edp_pj_cycles}
        assert costs.objective[row] == pytest.approx(expected[objective], rel=1e-12)


@pytest.fixture
def buffer_filling(two_levels: Architecture) -> Filling:
    """The caching pass of the buffer of 24 words, in front of DRAM."""
    problem = MappingProblem(two_levels, gemm("g", M=8, N=6, K=4), "energy")
    space = space_of(problem)
    ladder = next(ladder for slot, ladder in ladders(space).items() if slot.level == 0 and not slot.spatial)
    return Filling(Estimator(problem, space), ladder, 1)


@pytest.mark.parametrize("outer", [1, 2])
def test_accesses_are_the_cost_models(outer: int, three_levels: Architecture) -> None:
    """Reads and updates of the level outside, by the readable model, where all open loops stand at it.

    In a product no window slides. The level outside serves all its instances' tiles with one read.
    """
    problem = MappingProblem(three_levels, gemm("g", M=8, N=6, K=12))
    estimator = Estimator(problem, space_of(problem))
    schemes = grown_at_random(problem, outer - 1, 300)
    draws = np.random.default_rng(7)
    order = np.stack([draws.permutation(3) for _ in range(len(schemes))]).astype(np.int8)
    schemes.order[:, outer] = order
    schemes = schemes[estimator.completed(schemes, outer)[1]]
    batch, _ = estimator.completed(schemes, outer)
    unlimited = replace(
        three_levels, levels=tuple(replace(level, size_words=None) for level in three_levels.levels)
    )
    seen = set()
    for row, counted in enumerate(estimator.accesses(schemes, outer).tolist()):
        mapping = batch.mapping(row, problem.layer)
        traffic = evaluate(unlimited, problem.layer, mapping).levels[outer].tensors
        for tensor, count in zip(problem.layer.tensors, counted, strict=True):
            if not batch.keep[row, outer - 1, problem.layer.tensors.index(tensor)]:
                assert count == 0
                continue
            found = traffic[tensor.name]
            assert count == (found.reads + found.updates) * found.instances
            seen.add(count)
    assert len(seen) > 8


def test_printed_growth_ends_where_no_step_fits(buffer_filling: Filling) -> None:
    """And each step is the lexicographically best for the tensors in the order of their accesses."""
    estimator, ladder = buffer_filling.estimator, buffer_filling.ladder
    scheme, steps_taken = ladder.begun(Schemes.of_nothing(estimator.space)), 0
    expected = scheme
    while True:
        steps = ladder.steps(expected)
        rows, dims = np.nonzero(steps)
        further = expected[rows].grown(ladder.slot, dims, steps[rows, dims])
        further = further[np.flatnonzero(estimator.fitting(further, ladder, 1))]
        if not len(further):
            break
        (before,) = estimator.accesses(expected, 1).tolist()
        most_first = sorted(range(3), key=lambda tensor: -before[tensor])
        after = estimator.accesses(further, 1).tolist()
        best = min(range(len(further)), key=lambda row: [after[row][tensor] for tensor in most_first])
        expected, steps_taken = further[np.array([best])], steps_taken + 1
    found, costs = buffer_filling.printed(scheme)
    assert steps_taken > 2
    assert found.temporal.tolist() == expected.temporal.tolist()
    assert costs.objective.tolist() == buffer_filling.costs(expected).objective.tolist()


def test_steepest_growth_ends_where_no_step_helps(buffer_filling: Filling) -> None:
    start = Schemes.of_nothing(buffer_filling.estimator.space)
    before = buffer_filling.costs(start).objective[0]
    grown, costs = buffer_filling.steepest(start)
    steps = buffer_filling.ladder.steps(grown)
    rows, dims = np.nonzero(steps)
    further = grown[rows].grown(buffer_filling.ladder.slot, dims, steps[rows, dims])
    assert len(further)
    assert costs.objective[0] < before
    assert (buffer_filling.costs(further).objective >= costs.objective[0] * (1 - 1e-9)).all()


@pytest.mark.parametrize("best", [1, 5])
def test_products_are_the_best_of_all_factors(buffer_filling: Filling, best: int) -> None:
    """Every product of divisors in two dims, listed, with the third at 1."""
    schemes = Schemes.of_nothing(buffer_filling.estimator.space)
    found, costs = buffer_filling.products(schemes, np.array([[True, True, False]]), best)
    listed = []
    for m, n in product([1, 2, 4, 8], [1, 2, 3, 6]):
        one = schemes
        for dim, factor in enumerate((m, n)):
            one = one.grown(buffer_filling.ladder.slot, np.array([dim]), np.array([factor]))
        listed.append(float(buffer_filling.costs(one).objective[0]))
    assert inf in listed
    assert sorted(costs.objective.tolist()) == sorted(listed)[: len(found)]
    assert len(found) == best
    assert (found.factors(buffer_filling.ladder.slot)[:, 2] == 1).all()


@pytest.mark.parametrize("alike", [1, 2, 1000])
def test_spreads_that_cut_all_tensors_alike_take_few_positions(
    alike: int, three_levels: Architecture
) -> None:
    """A scheme's best spreads, of which few have equal numbers of different tiles, counted child by child."""
    layer = convolution("c", C=4, K=4, P=4, Q=4, R=2, S=2, N=4)
    problem = MappingProblem(three_levels, layer, "energy")
    space = space_of(problem)
    ladder = next(ladder for slot, ladder in ladders(space).items() if slot.spatial)
    filling = Filling(Estimator(problem, space), ladder, ladder.slot.level)
    schemes = Schemes.of_nothing(space)
    everything, costs = filling.spreads(schemes, 10**6, 10**6)

    def different_tiles(row: int) -> tuple[int, ...]:
        factors = dict(zip(layer.sizes, everything.factors(ladder.slot)[row].tolist(), strict=True))
        return tuple(
            len({*product(*(range(factors[dim]) for dim in tensor.dims))}) for tensor in layer.tensors
        )

    by_cut: dict[tuple[int, ...], list[float]] = {}
    for row, cost in enumerate(costs.objective.tolist()):
        by_cut.setdefault(different_tiles(row), []).append(cost)
    assert max(map(len, by_cut.values())) > 2
    expected = sorted(cost for same in by_cut.values() for cost in sorted(same)[:alike])
    for best in (3, 10**6):
        _, found = filling.spreads(schemes, best, alike)
        assert sorted(found.objective.tolist()) == expected[:best]


@pytest.mark.parametrize("filling", ["printed", "steepest", "divisors"])
def test_the_papers_scheme_spreads_and_fills(filling: Any) -> None:
    """Algorithm 1 on a layer with room for reuse: far below the cost of all loops at DRAM, rules obeyed."""
    architecture, layer = load_architecture("eyeriss"), convolution("c", K=64, C=64, P=28, Q=28, R=3, S=3)
    problem = MappingProblem(architecture, layer, "energy")
    outcome = kapla.solve(problem, Budget(), kapla.Params.paper(filling))
    kept = frozenset(tensor.name for tensor in layer.tensors)
    serial = Mapping(
        tuple(
            LevelMapping(loops(layer.dims) if level == architecture.levels[-1] else (), (), (), kept)
            for level in architecture.levels
        )
    )
    assert outcome.solution is not None
    assert outcome.objective is not None
    assert outcome.objective < evaluate(architecture, layer, serial).energy_pj / 10
    assert prod(bound for _, bound in outcome.solution.levels[1].spatial) > 84  # half of 14 x 12


LAYERS: tuple[Layer, ...] = (
    convolution("c", K=64, C=64, P=14, Q=14, R=3, S=3),
    gemm("g", M=64, N=256, K=512),
)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["eyeriss", "simba"])
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_near_the_proven_optimum(name: str, layer: Layer) -> None:
    """As it stands within a few percent; every trick that is switched off costs no less."""
    problem = MappingProblem(load_architecture(name), layer, "energy")
    best = exact.solve(problem, Budget()).objective
    steepest = kapla.Params.paper("steepest", "steepest")
    params = [kapla.Params(), kapla.Params(polish=False), steepest]
    found = [kapla.solve(problem, Budget(), one).objective or inf for one in params]
    assert best is not None
    assert found == sorted(found)
    assert best <= found[0] * (1 + 1e-9) <= best * 1.05


def test_more_time_than_none_is_not_needed(medium_problem: MappingProblem) -> None:
    """What is open when time ends stands at DRAM: still mappings, and the best comes first."""
    search = BottomUp(medium_problem, space_of(medium_problem), PAPER)
    batch, objectives = search.mappings(1, lambda: False)
    assert len(batch)
    assert objectives.tolist() == sorted(objectives)
    mapping = batch.mapping(0, medium_problem.layer)
    assert violations(medium_problem, mapping) == []
    found = evaluate(medium_problem.architecture, medium_problem.layer, mapping)
    assert found.energy_pj == pytest.approx(objectives[0], rel=1e-12)


def test_bounds_asked_further_out_are_kept_in_mind(three_levels: Architecture) -> None:
    """A greedy level may not take what the rules want outside it, nor fill what that will need."""
    problem = MappingProblem(three_levels, gemm("g", M=8, N=4, K=8), "energy", RULES)
    for params in (PAPER, kapla.Params(polish=False)):
        outcome = kapla.solve(problem, Budget(), params)
        assert outcome.solution is not None
        assert violations(problem, outcome.solution) == []
