"""Geometric programs against closed forms and CVXPY's own; negative terms let no infeasible point in."""

from __future__ import annotations

import random
from math import isclose

import pytest

from solvers.codesign.thistle.geometric_program import GeometricProgram, PosynomialLimit
from solvers.mapping.thistle.convex.signomial import Signomial, monomial, variable

X, Y, GOAL = variable("x"), variable("y"), variable("goal")


def test_arithmetic_and_geometric_mean() -> None:
    """The least x + 4y with xy = 100 is 40, at x = 20."""
    program = GeometricProgram(GOAL, (PosynomialLimit(X + Y * 4.0, GOAL),), (X * Y * 0.01,))
    found = program.solve()
    assert found is not None
    assert found.value == pytest.approx(40, rel=1e-6)
    assert found.point["x"] == pytest.approx(20, rel=1e-4)


def test_variables_are_at_least_one_unless_positive() -> None:
    limits = (PosynomialLimit(X * X, GOAL),)
    assert GeometricProgram(GOAL, limits).solve().value == pytest.approx(1)  # type: ignore[union-attr]
    small = GeometricProgram(GOAL, limits, (X * Y * 2.0,), frozenset({"x", "goal"})).solve()
    assert small is not None
    assert small.value < 0.25  # x = 1 / (2 y), as small as y is large


def test_infeasible() -> None:
    assert GeometricProgram(X, (PosynomialLimit(X + Y, monomial(1.5)),)).solve() is None


def test_against_cvxpy() -> None:
    """Random posynomial programs, as CVXPY's DGP builds and solves them."""
    import cvxpy

    draw = random.Random(7)
    for _ in range(5):
        names = ["a", "b", "c"]
        terms = [
            (draw.uniform(0.5, 3), {n: draw.choice((-1.0, -0.5, 0.5, 1.0)) for n in names}) for _ in range(6)
        ]
        total = sum((monomial(c, p) for c, p in terms), Signomial(()))
        room = monomial(50.0)
        ours = GeometricProgram(
            GOAL,
            (
                PosynomialLimit(total, GOAL),
                PosynomialLimit(variable("a") * variable("b") + variable("c"), room),
            ),
            positive=frozenset({"goal"}),
        ).solve()
        theirs = {name: cvxpy.Variable(pos=True) for name in names}
        cost = sum(c * cvxpy.prod([theirs[n] ** e for n, e in p.items()]) for c, p in terms)
        constraints = [variable >= 1 for variable in theirs.values()]
        constraints.append(theirs["a"] * theirs["b"] + theirs["c"] <= 50)
        problem = cvxpy.Problem(cvxpy.Minimize(cost), constraints)
        problem.solve(gp=True, solver=cvxpy.CLARABEL)
        assert ours is not None
        assert ours.value == pytest.approx(problem.value, rel=1e-5)


def test_condensed_limits_are_inside_the_true_ones() -> None:
    """Wherever the posynomial is at most 1 the limit holds; at the point itself both are equal."""
    limit = PosynomialLimit(X * Y * 2.0 + X * -3.0 + Y * -1.0, GOAL)
    draw = random.Random(3)
    for _ in range(200):
        near = {name: draw.uniform(1, 20) for name in ("x", "y", "goal")}
        point = {name: value * draw.uniform(0.7, 1.4) for name, value in near.items()}
        for at in (None, near):
            if limit.posynomial(at).at(point) <= 1:
                assert limit.expression.at(point) <= limit.at_most.at(point) * (1 + 1e-9)
        positive, negative = (
            limit.expression.positive_part.at(near),
            3 * near["x"] + near["y"],
        )
        assert isclose(limit.posynomial(near).at(near), positive / (near["goal"] + negative), rel_tol=1e-9)


def test_a_constant_right_side_leaves_room_for_the_smallest_tile() -> None:
    """A strided extent 2x - 1 with 1 word of room: without its negative term nothing would fit."""
    program = GeometricProgram(X, (PosynomialLimit(X * 2.0 + monomial(-1.0), monomial(1.0)),))
    found = program.solve()
    assert found is not None
    assert found.point["x"] == pytest.approx(1, abs=1e-6)


def test_condensation_reaches_the_true_optimum() -> None:
    """Minimise 100 / x under 2x - 1 <= 9: x is 5, and 4.5 without the negative term."""
    program = GeometricProgram(
        GOAL,
        (
            PosynomialLimit(X * 2.0 + monomial(-1.0), Y),
            PosynomialLimit(Y, monomial(9.0)),
            PosynomialLimit(monomial(100.0, {"x": -1.0}), GOAL),
        ),
    )
    first, condensed = program.solve(), program.solve(condensations=10)
    assert first is not None
    assert condensed is not None
    assert first.value == pytest.approx(100 / 4.5, rel=1e-6)
    assert condensed.value == pytest.approx(100 / 5, rel=1e-4)
    assert program.limits[0].expression.at(condensed.point) <= condensed.point["y"] * (1 + 1e-6)
