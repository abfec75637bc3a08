"""Random chains of einsums and random fused mappings of them, as plain JSON objects."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

Json = dict[str, Any]
PRICES = ((1.0, 1.5), (9.0, 11.25), (40.0, 41.0), (100.0, 125.0))


def axes(*dims: str) -> list[list[list[Any]]]:
    return [[[dim, 1]] for dim in dims]


def levels(random: Random, count: int, *, room: bool = False) -> list[Json]:
    found = []
    for number in range(count):
        read, write = PRICES[number if number < count - 1 else 3]
        found.append(
            {
                "name": f"L{number}",
                "capacity": random.choice((3, 4, 6, 8, 12, 16, 24, 48)) * (number + 1) if room else None,
                "read_pj": read,
                "write_pj": write,
                "read_bw": random.choice((None, 4, 1, 0.5, 0.25)),
                "write_bw": random.choice((None, 4, 1, 0.5, 0.25)),
            }
        )
    found[-1]["capacity"] = None
    return found


def products(random: Random, count: int, sizes: tuple[int, ...] = (1, 2, 3, 4, 6)) -> list[Json]:
    """A chain of matrix products."""
    lengths = [random.choice(sizes) for _ in range(count + 1)]
    m = random.choice(sizes)
    return [
        {
            "name": f"e{i}",
            "dims": {"m": m, f"n{i}": lengths[i], f"n{i + 1}": lengths[i + 1]},
            "tensors": {
                f"T{i}": axes("m", f"n{i}"),
                f"W{i}": axes(f"n{i}", f"n{i + 1}"),
                f"T{i + 1}": axes("m", f"n{i + 1}"),
            },
            "output": f"T{i + 1}",
        }
        for i in range(count)
    ]


def attention(random: Random, sizes: tuple[int, ...] = (1, 2, 3, 4), *, heads: bool = False) -> list[Json]:
    m, p, e, f, h = (random.choice(sizes) for _ in range(5))
    head = ("h",) if heads else ()
    size = {"h": h} if heads else {}
    return [
        {
            "name": "qk",
            "dims": {**size, "m": m, "p": p, "e": e},
            "tensors": {
                "Q": axes(*head, "m", "e"),
                "K": axes(*head, "p", "e"),
                "S": axes(*head, "m", "p"),
            },
            "output": "S",
        },
        {
            "name": "softmax",
            "dims": {**size, "m": m, "p": p},
            "tensors": {"S": axes(*head, "m", "p"), "P": axes(*head, "m", "p")},
            "output": "P",
        },
        {
            "name": "av",
            "dims": {**size, "m": m, "p": p, "f": f},
            "tensors": {
                "P": axes(*head, "m", "p"),
                "V": axes(*head, "p", "f"),
                "O": axes(*head, "m", "f"),
            },
            "output": "O",
        },
    ]


def windows(random: Random, *, after: bool = False) -> tuple[list[Json], Json]:
    """A pointwise product and a convolution along one dim, and a pointwise one after it."""
    stride, r = random.choice(((1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (2, 4)))
    p, c, k, o, z = (random.choice((1, 2, 3, 4)) for _ in range(5))
    window = [["p", stride], ["r", 1]]
    chain = [
        {
            "name": "pw",
            "dims": {"q": stride * (p - 1) + r, "k": k, "c": c},
            "tensors": {"X": axes("q", "k"), "V": axes("k", "c"), "T": axes("q", "c")},
            "output": "T",
        },
        {
            "name": "conv",
            "dims": {"p": p, "r": r, "c": c, "o": o},
            "tensors": {"T": [window, [["c", 1]]], "W": axes("r", "c", "o"), "Y": axes("p", "o")},
            "output": "Y",
        },
        {
            "name": "last",
            "dims": {"p": p, "o": o, "z": z},
            "tensors": {"Y": axes("p", "o"), "U": axes("o", "z"), "Z": axes("p", "z")},
            "output": "Z",
        },
    ]
    return chain[: 3 if after else 2], {"p": {"dim": "q", "axis": window}}


def problem(random: Random, *, room: bool = False) -> Json:
    """A small problem of any kind, on two to four levels."""
    kind = random.randrange(8)
    halo: Json = {}
    if kind < 4:
        einsums = products(random, kind + 1, (1, 2, 3, 4) if kind < 2 else (1, 2, 3))
    elif kind < 6:
        einsums = attention(random, (1, 2, 3), heads=kind == 5)
    else:
        einsums, halo = windows(random, after=kind == 7)
    found = {"einsums": einsums, "levels": levels(random, random.choice((2, 3, 3, 4)), room=room)}
    return {**found, "mac_pj": 0.5, **({"halo": halo} if halo else {})}


def divisors(size: int) -> list[int]:
    return [step for step in range(1, size + 1) if size % step == 0]


def mapping(random: Random, of: Json, *, wild: float = 0.0) -> Json:
    """A random mapping; with the chance ``wild`` a pair shares loops that it may not share."""
    einsums, halo = of["einsums"], of.get("halo", {})
    on_chip = len(of["levels"]) - 1
    prefix: list[int] = []
    paths: list[list[list[Any]]] = [[] for _ in einsums]
    backing: Json = {}
    for pair, (producer, consumer) in enumerate(pairwise(einsums)):
        tensor = producer["output"]
        if random.random() < 0.25:
            prefix.append(0)
            continue
        backing[tensor] = random.randrange(on_chip)
        dims = {d for axis in producer["tensors"][tensor] for d, _ in axis} & set(consumer["dims"])
        dims |= {d for d in halo if d in {x for axis in consumer["tensors"][tensor] for x, _ in axis}}
        if random.random() < wild:
            dims |= {random.choice(list({**producer["dims"], **consumer["dims"]}))}
        allowed = sorted(dims)
        # the loops that the producer has already, from the outside, then new ones
        shared = []
        for loop in paths[pair]:
            if loop[0] not in allowed or random.random() < 0.3:
                break
            shared.append(loop)
        if len(shared) == len(paths[pair]):
            free = [d for d in allowed if d not in {loop[0] for loop in shared}]
            for dim in random.sample(free, random.randint(0, len(free))):
                size = next(one["dims"][dim] for one in (consumer, producer) if dim in one["dims"])
                steps = [step for step in divisors(size) if step < size]
                if steps:
                    shared.append([dim, random.choice(steps)])
        prefix.append(len(shared))
        if len(shared) > len(paths[pair]):
            paths[pair] = shared
        paths[pair + 1] = shared
    hoist, own = {}, []
    for position, one in enumerate(einsums):
        chosen = {
            tensor: random.randrange(len(paths[position]))
            for tensor in one["tensors"]
            if paths[position] and tensor not in backing and random.random() < 0.4
        }
        if chosen:
            hoist[one["name"]] = chosen
        own.append(nest(random, of, position, paths[position]))
    return {"prefix": prefix, "paths": paths, "backing": backing, "hoist": hoist, "own": own}


def nest(random: Random, of: Json, position: int, path: list[list[Any]]) -> list[list[list[Any]]]:
    """An einsum's own loops, a list for each level."""
    one, halo = of["einsums"][position], of.get("halo", {})
    left, ragged = dict(one["dims"]), set()
    for dim, step in path:
        if dim in one["dims"]:
            left[dim] = step
        elif dim in halo and halo[dim]["dim"] in one["dims"]:
            ragged.add(halo[dim]["dim"])
    lists = []
    for number in range(len(of["levels"])):
        block = []
        for dim in random.sample(sorted(left), len(left)):
            last = number == len(of["levels"]) - 1
            if dim in ragged:
                steps = [1] if last else list(range(1, left[dim] + 1))
            else:
                steps = [1] if last else divisors(left[dim])
            step = random.choice(steps)
            if step < left[dim]:
                block.append([dim, step])
                left[dim] = step
        lists.append(block)
    return lists
