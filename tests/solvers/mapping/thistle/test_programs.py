"""The cone programs against CVXPY's geometric programming, and their certificates by sampling."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, product
from math import log

import numpy as np
import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.workload.network import Layer, convolution, gemm
from solvers.mapping.problem import OBJECTIVES, Objective
from solvers.mapping.space.space import MappingSpace
from solvers.mapping.thistle.convex import cones
from solvers.mapping.thistle.convex.certificate import certified, least_in_box
from solvers.mapping.thistle.convex.disciplined import DisciplinedProgram
from solvers.mapping.thistle.convex.program import ClassProgram
from solvers.mapping.thistle.nest.costs import TilingCosts
from solvers.mapping.thistle.nest.expressions import TilingBlock
from solvers.mapping.thistle.nest.orders import mirrored_dims
from solvers.mapping.thistle.nest.tiling import Choice, Tiling, window_blocks, without_mirror_images
from solvers.mapping.thistle.nest.volumes import Volumes
from solvers.mapping.thistle.search.class_search import Branching, ClassSearch, Orders
from solvers.mapping.thistle.search.rounding import Rounding, nearest_chains

CONVOLUTION = convolution("conv", K=64, C=64, P=56, Q=28, R=3, S=3)
every_objective = pytest.mark.parametrize("objective", OBJECTIVES)


def branching(layer: Layer, objective: Objective, name: str = "eyeriss", places: int = 0) -> Branching:
    space = MappingSpace(load_architecture(name), layer)
    keep = tuple(frozenset(tensor.name for tensor in layer.tensors) for _ in space.architecture.levels)
    tiling = Tiling(space, keep, window_blocks(space, keep, spread=True)[places])
    return Branching(TilingCosts(Volumes(tiling), objective), carry_over=True, mirrored={})


def some_program(objective: Objective, places: int = 0, outer: int = 0) -> ClassProgram:
    """A program of one class; nothing taken off the energy, which CVXPY's posynomials cannot."""
    one = branching(CONVOLUTION, objective, places=places)
    orders = [*one.children(one.root)][outer]
    while None in orders:
        orders = next(one.children(orders))
    program = one.costs.program(orders)
    program.saved[:] = 0
    return program


MATRICES = gemm("gemm", M=512, N=96, K=320)
POINTWISE = convolution("pointwise", K=128, C=64, P=28, Q=28, R=1, S=1, stride=(2, 2))


@pytest.mark.slow
@every_objective
@pytest.mark.parametrize(
    ("layer", "name", "places"),
    [
        (CONVOLUTION, "eyeriss", 0),
        (CONVOLUTION, "eyeriss", 1),
        (POINTWISE, "eyeriss", 0),
        (MATRICES, "eyeriss", 0),
    ],
)
def test_cvxpy_finds_the_same_optima(objective: Objective, layer: Layer, name: str, places: int) -> None:
    """The statement that one reads holds the path that is run, in the first classes and the open ones."""
    one = branching(layer, objective, name, places)
    orders = [one.root, *islice(one.children(one.root), 2), *islice(every_class(one), 2)]
    programs = [one.costs.program(each) for each in orders]
    for program in programs:
        program.saved[:] = 0  # a logarithm of trip counts, which no posynomial has
    statement = DisciplinedProgram(programs)
    for program in programs:
        relaxed = cones.solve(program, scale=1e9)
        assert relaxed is not None
        again = cones.solve(program, scale=program.magnitude_at(relaxed.x))
        assert again is not None
        assert again.objective == pytest.approx(statement.solve(program), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["energy", "cycles"])
def test_certificates_are_bounds_and_tight(objective: Objective) -> None:
    """Below the objective at random points that fit, with any multipliers; close to it with the right."""
    one = branching(CONVOLUTION, objective)
    program = one.costs.program(one.root)
    first = cones.solve(program, 1e9)
    assert first is not None
    relaxed = cones.solve(program, program.magnitude_at(first.x))
    assert relaxed is not None
    bound = certified(program, relaxed)
    assert bound <= relaxed.objective * (1 + 1e-9)
    assert bound == pytest.approx(relaxed.objective, rel=1e-4)
    random = np.random.default_rng(0)
    found = 0
    for _ in range(2000):
        x = random_point(program, random)
        if all(fill_.at(x) <= 1 for fill_ in program.fills) and all(
            c @ x <= b for c, b in program.box.limits
        ):
            found += 1
            assert program.at(x) >= bound
            wrong = cones.ClassOptimum(
                x,
                0.0,
                random.uniform(0, 1, relaxed.time_weights.shape),
                relaxed.fill_weights * random.uniform(0, 3),
                relaxed.limit_weights * random.uniform(0, 3),
            )
            assert certified(program, wrong) <= relaxed.objective * (1 + 1e-6)
    assert found > 5


def random_point(program: ClassProgram, random: np.random.Generator) -> np.ndarray:
    """Trip counts whose products are the dims, mostly small inside."""
    box = program.box
    x = np.zeros(len(box.least))
    for group, total in enumerate(box.sums):
        members = np.flatnonzero(box.group == group)
        shares = random.dirichlet(np.where(members == members[-1], 3.0, 0.4))
        x[members] = total * shares
    return x


def test_the_least_of_a_line_in_a_box() -> None:
    program = some_program("energy")
    random = np.random.default_rng(1)
    slope = random.normal(size=len(program.box.least))
    least = least_in_box(program.box, slope)
    points = [random_point(program, random) for _ in range(500)]
    inside = [x for x in points if (x <= program.box.most + 1e-12).all()]
    assert inside
    assert min(float(slope @ x) for x in inside) >= least


def every_class(one: Branching) -> list[Orders]:
    """All classes of loop orders of a branching, by walking its whole tree; no program is solved."""
    leaves, open_orders = list[Orders](), [one.root]
    while open_orders:
        orders = open_orders.pop()
        if None in orders:
            open_orders += one.children(orders)
        else:
            leaves.append(orders)
    return leaves


@every_objective
def test_the_best_first_search_returns_the_best_class(objective: Objective) -> None:
    """Every class solved by itself, none better than the first that the search returns."""
    one = branching(gemm("g", M=48, N=64, K=96), objective)
    leaves = every_class(one)
    assert len(leaves) > 9
    search = ClassSearch([one], 1e7, lambda: True)
    found = [node for _, node in search.nodes()]
    assert search.exhausted
    assert {node.orders for node in found} == set(leaves)
    estimates = [node.estimate for node in found]
    assert estimates == pytest.approx(sorted(estimates), rel=1e-5)
    alone = []
    for orders in leaves:
        program = one.costs.program(orders)
        relaxed = cones.solve(program, estimates[0])
        assert relaxed is not None
        alone.append(one.costs.estimate(program, relaxed.x))
    assert min(alone) == pytest.approx(estimates[0], rel=1e-5)


@every_objective
def test_mirror_images_are_left_out_and_nothing_else(objective: Objective) -> None:
    """Rows and columns of a filter stand inside or across the units, each: three of four ways differ."""
    layer = convolution("square", K=16, C=16, P=14, Q=14, R=3, S=3)
    exchanged = mirrored_dims(layer)
    every = [branching(layer, objective, places=number) for number in range(4)]
    tilings = [one.costs.tiling for one in every]
    windows = [dict(tiling.windows) for tiling in tilings]
    assert [tiling.is_symmetric(exchanged) for tiling in tilings] == [
        where["R"] == where["S"] for where in windows
    ]
    different = without_mirror_images([tiling.windows for tiling in tilings], exchanged)
    assert len(different) == 3
    half = [replace(one, mirrored=exchanged) for one in every if one.costs.tiling.windows in different]
    searches = [ClassSearch(branchings, 1e6, lambda: True) for branchings in (every, half)]
    least = [next(search.nodes())[1].estimate for search in searches]
    assert least[1] == pytest.approx(least[0], rel=1e-5)
    # how many programs a search solves depends on the last digits of equal estimates; the classes do not
    classes = [sum(len(every_class(one)) for one in branchings) for branchings in (every, half)]
    assert classes[1] < classes[0]
    for one in half:
        assert len(one.completed(one.root)) == len(one.costs.tiling.keep)


@pytest.mark.parametrize("size", [12, 30, 64, 97])
def test_nearest_divisors_level_by_level(size: int) -> None:
    """With as many neighbours as there are divisors these are all factorisations; with two, near ones."""
    choices = [Choice("K", TilingBlock(level, False), 1, size) for level in range(3)]
    every = nearest_chains(size, choices, [0.3, 1.7], nearest=size)
    numbers = range(1, size + 1)
    expected = {
        (a, b, size // (a * b)) for a, b in product(numbers, numbers) if a * b <= size and size % (a * b) == 0
    }
    assert {factors for _, factors in every} == expected
    near = nearest_chains(size, choices, [0.3, 1.7], nearest=2)
    assert 1 <= len(near) <= 4
    outer = sorted({abs(log(a * b) - 1.7) for _, (a, b, _) in every})
    assert all(abs(log(a * b) - 1.7) <= outer[1] + 1e-12 for _, (a, b, _) in near)


def test_roundings_stand_on_sides_that_fit() -> None:
    one = branching(CONVOLUTION, "energy")
    program = one.costs.program(one.root)
    relaxed = cones.solve(program, 1e9)
    assert relaxed is not None
    orders = one.completed(one.root)
    batch = Rounding(one.costs.tiling, 2, 4096, 0.0).candidates(relaxed.x, orders)
    assert len(batch) > 100
    assert (batch.spatial_x[:, 1].prod(axis=1) <= 14).all()
    assert (batch.spatial_y[:, 1].prod(axis=1) <= 12).all()
    factors = (batch.temporal * batch.spatial_x * batch.spatial_y).prod(axis=1)
    assert (factors == [size for _, size in CONVOLUTION.dims]).all()
    used = (batch.spatial_x * batch.spatial_y)[:, 1].prod(axis=1) / 168
    half = Rounding(one.costs.tiling, 2, 4096, 0.5).candidates(relaxed.x, orders)
    assert len(half) == (used >= 0.5).sum() > 0
    nothing = Rounding(one.costs.tiling, 2, 4096, 1.0).candidates(relaxed.x, orders)
    assert len(nothing) == len(batch)  # 64, 28 and 56 never fill 14 x 12 units near this optimum
    assert len(Rounding(one.costs.tiling, 2, 50, 0.0).candidates(relaxed.x, orders)) <= 50
