"""The routes of a program's messages as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.replay.event_values import Routes
from costmodel.schedule.program.program import Message

Array = NDArray[Any]


def routes_of(
    chip: Chip, messages: Sequence[Message], ticks: int
) -> tuple[Routes, Array, list[tuple[Array, Array]]]:
    """The distinct routes, the route of each message, and links and port bits a bit of each route."""
    from costmodel.replay.routes_kernel import add_route

    side = max(chip.columns, chip.rows)
    loading, storing = (_positions(chip, side, ports) for ports in (chip.ports, chip.store_ports))
    number: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    weights: list[tuple[Array, Array]] = []
    hops: list[int] = []
    of_message = np.zeros(len(messages), np.int64)
    for index, message in enumerate(messages):
        key = message.sources, message.targets
        if key not in number:
            number[key] = len(number)
            load = np.zeros(4 * chip.columns * chip.rows, np.int64)
            positions = loading if message.targets else storing
            hops.append(
                add_route(
                    positions, chip.rows, whole_numbers(message.sources), whole_numbers(message.targets), load
                )
            )
            links = np.nonzero(load)[0]
            weights.append((links, load[links]))
        of_message[index] = number[key]
    a_bit = ticks // (len(chip.ports) * chip.noc.link_bits_per_cycle)
    empty = [np.zeros(0, np.int64)]
    routes = Routes(
        whole_numbers(begins(len(links) for links, _ in weights)),
        np.concatenate([links for links, _ in weights] or empty),
        np.concatenate([load for _, load in weights] or empty) * a_bit,
        whole_numbers(hops),
        whole_numbers([load.max(initial=0) for _, load in weights]) * a_bit,
    )
    return routes, of_message, weights


def _positions(chip: Chip, side: int, ports: Sequence[tuple[int, int]]) -> Any:
    """Where tiles and ports stand, with work space for the longer ``side`` of the mesh."""
    from costmodel.replay.routes_kernel import Positions

    x, y = whole_numbers(chip.positions).T.copy()
    port_x, port_y = whole_numbers(ports).T.copy()
    return Positions(x, y, port_x, port_y, np.zeros(side, np.int64), np.zeros(side, np.int64))


def begins(counts: Iterable[int]) -> list[int]:
    """Where each of several lists begins that lie one after the other, and where the last one ends."""
    return list(accumulate(counts, initial=0))


def whole_numbers(values: Sequence[Any]) -> Array:
    """The values as 64-bit integers."""
    return np.array(values, np.int64)
