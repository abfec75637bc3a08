"""Random valid mappings, and the frozen Timeloop cases."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from math import prod
from pathlib import Path

import pytest
from hypothesis import reject

from costmodel.hardware.architecture import Architecture
from costmodel.mapping.mapping import LevelMapping, Mapping, loops, violations
from costmodel.workload.network import Layer

CASES = Path(__file__).parents[1] / "data" / "timeloop"
RandomMappings = Callable[[Architecture, Layer, int, int], Iterator[Mapping]]


@pytest.fixture(scope="session")
def cases_folder() -> Path:
    return CASES


@pytest.fixture(scope="session")
def random_mappings() -> RandomMappings:
    """``random_mappings(architecture, layer, count, seed)``: valid mappings with random bypass.

    Every prime factor goes to a random slot that the fan-out allows, every order is a shuffle; draws that do
    not fit are repeated, some with the factors pushed outwards.
    """
    return _random_mappings


def _random_mappings(architecture: Architecture, layer: Layer, count: int, seed: int) -> Iterator[Mapping]:
    rng = random.Random(seed)
    found = 0
    for attempt in range(200 * count):
        mapping = _draw(architecture, layer, rng, outwards=attempt % 4)
        if not violations(architecture, layer, mapping):
            found += 1
            yield mapping
        if found == count:
            return
    if not found:  # a random architecture may hold next to nothing
        reject()


def _draw(architecture: Architecture, layer: Layer, rng: random.Random, outwards: int) -> Mapping:
    levels = len(architecture.levels)
    factors = [{"t": dict.fromkeys(layer.sizes, 1), "x": {}, "y": {}} for _ in range(levels)]
    primes = [(dim, prime) for dim, size in layer.dims for prime in _primes(size)]
    rng.shuffle(primes)
    for dim, prime in primes:
        index = max(rng.randrange(levels) for _ in range(1 + rng.randrange(outwards + 1)))
        hardware, level = architecture.levels[index], factors[index]
        side = rng.choice("txy")
        fanout = {"t": 0, "x": hardware.fanout_x, "y": hardware.fanout_y}[side]
        other = {"x": "y", "y": "x"}.get(side, "")
        if side != "t" and dim not in level[other] and prime * prod(level[side].values()) <= fanout:
            level[side][dim] = level[side].get(dim, 1) * prime
        else:
            level["t"][dim] *= prime
    return Mapping(
        tuple(
            LevelMapping(
                loops(_shuffled(level["t"].items(), rng)),
                loops(level["x"].items()),
                loops(level["y"].items()),
                frozenset(
                    tensor.name
                    for tensor in layer.tensors
                    if hardware.can_keep(tensor)
                    and (hardware is architecture.levels[-1] or rng.random() < 0.6)
                ),
            )
            for hardware, level in zip(architecture.levels, factors, strict=True)
        )
    )


def _shuffled(items: Iterable[tuple[str, int]], rng: random.Random) -> list[tuple[str, int]]:
    order = list(items)
    rng.shuffle(order)
    return order


def _primes(number: int) -> Iterator[int]:
    factor = 2
    while number > 1:
        while number % factor == 0:
            yield factor
            number //= factor
        factor += 1
