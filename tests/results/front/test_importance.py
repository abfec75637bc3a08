"""Importance against the classical analysis of variance, known effects, and pure noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import pytest

from results.front.importance import Importance, NotEnoughDesignsError, Values, importance

SIZES, SHAPES, KINDS = ("1", "2", "4"), ("8x8", "16x16"), ("a", "b", "c", "d")
GRID = list(product(SIZES, SHAPES, KINDS))
AXES = {name: [point[place] for point in GRID] for place, name in enumerate(("size", "shape", "kind"))}


def of_one(axes: Mapping[str, Sequence[str]], objective: Values) -> Importance:
    (found,) = importance(axes, [objective])
    return found


def test_on_a_full_grid_it_is_omega_squared() -> None:
    target = np.random.default_rng(1).normal(size=len(GRID)) + [
        len(size) + 3.0 * (k == "b") for size, _, k in GRID
    ]
    total = float(((target - target.mean()) ** 2).sum())
    between, freedom = {}, {}
    for name, values in AXES.items():
        groups = [target[[v == value for v in values]] for value in set(values)]
        between[name] = sum(len(group) * (group.mean() - target.mean()) ** 2 for group in groups)
        freedom[name] = len(groups) - 1
    spare = len(GRID) - 1 - sum(freedom.values())
    noise = (total - sum(between.values())) / spare
    variances = {name: max(0.0, between[name] - freedom[name] * noise) / len(GRID) for name in AXES}
    whole = sum(variances.values()) + noise
    found = of_one(AXES, np.exp(target))
    assert found.fractions == pytest.approx({name: variance / whole for name, variance in variances.items()})
    assert found.rest == pytest.approx(noise / whole)


def test_known_effects_come_back_from_an_uneven_sample() -> None:
    random = np.random.default_rng(2)
    # a search that looked at size 1 far more often, and mostly together with shape 8x8
    rows = [GRID[i] for i in random.choice(len(GRID), 200, p=np.linspace(3, 1, len(GRID)) / (2 * len(GRID)))]
    effect = {"1": 0.0, "2": 1.0, "4": 5.0, "8x8": 0.0, "16x16": 2.0}
    target = [effect[size] + effect[shape] for size, shape, _ in rows]
    axes = {name: [row[place] for row in rows] for place, name in enumerate(AXES)}
    found = of_one(axes, np.exp(target))
    size, shape = float(np.var([0, 1, 5])), float(np.var([0, 2]))
    assert found.fractions == pytest.approx(
        {"size": size / (size + shape), "shape": shape / (size + shape), "kind": 0}
    )
    assert found.rest == pytest.approx(0, abs=1e-12)


def test_objectives_are_explained_one_by_one() -> None:
    draw = np.random.default_rng(4)
    objectives = [np.exp(draw.normal(size=len(GRID))), draw.normal(size=len(GRID))]
    assert importance(AXES, objectives) == [of_one(AXES, one) for one in objectives]


def test_noise_is_not_taken_for_an_effect() -> None:
    fractions = []
    for seed in range(200):
        found = of_one(AXES, np.exp(np.random.default_rng(seed).normal(size=len(GRID))))
        assert sum(found.fractions.values()) + found.rest == pytest.approx(1)
        fractions.append(list(found.fractions.values()))
    assert np.mean(fractions) < 0.05  # uncorrected: (levels - 1) / 23, 0.087 on average


def test_objectives_that_may_be_zero_or_constant() -> None:
    size = np.array([float(value) for value in AXES["size"]])
    assert of_one(AXES, size - 1).fractions["size"] == pytest.approx(1)
    constant = of_one(AXES, np.full(len(GRID), 7.0))
    assert (set(constant.fractions.values()), constant.rest) == ({0.0}, 0.0)
    fixed = AXES | {"fixed": ["same"] * len(GRID)}
    assert of_one(fixed, size).fractions["fixed"] == 0


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ({"size": ["1", "1", "1"]}, "no axis takes two values"),
        ({"size": ["1", "2", "4"]}, "3 effects need 8 complete designs, there are 3"),
        ({"a": ["1", "2"] * 10, "b": ["x", "y"] * 10}, "vary some axes only together"),
    ],
)
def test_too_little_to_tell_is_said(axes: dict[str, list[str]], words: str) -> None:
    count = len(next(iter(axes.values())))
    with pytest.raises(NotEnoughDesignsError, match=words):
        of_one(axes, np.arange(1.0, count + 1))
