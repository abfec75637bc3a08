"""A chip as the arrays that the compiled search of leaves computes with."""

from __future__ import annotations

from typing import Any

import numpy as np

from costmodel.hardware.chip import Chip
from costmodel.schedule.leaf.geometry import ranges_of
from costmodel.schedule.mesh.geometry import flows_of, mesh_of, port_counts, senders_of


def prices_of(chip: Chip, exponents: tuple[float, float]) -> Any:
    """What a bit costs on NoC and DRAM, and the ``exponents`` of energy and cycles in the objective."""
    from costmodel.schedule.leaf.kernels.leaf_values import TransferPrices

    return TransferPrices(
        chip.noc.hop_pj_per_bit,
        chip.dram.read_pj_per_bit,
        chip.dram.write_pj_per_bit,
        chip.noc.link_bits_per_cycle,
        chip.dram.bits_per_cycle,
        float(exponents[0]),
        float(exponents[1]),
    )


def workspace_of(chip: Chip, streams: int) -> Any:
    """Empty arrays for leaves of up to so many ``streams``; see :class:`.leaf_values.Workspace`."""
    from costmodel.schedule.leaf.kernels.leaf_values import StreamTables, WatchedLink, Workspace

    of_groups = streams, chip.tiles
    return Workspace(
        mesh_of((chip.columns, chip.rows), chip.positions, chip.ports, True),
        ranges_of(chip.tiles),
        flows_of(chip),
        port_counts(chip),
        senders_of(chip),
        np.zeros(streams, np.int64),
        np.zeros((streams, 2, 4, chip.tiles), np.int64),
        np.zeros((streams, 4, chip.tiles, chip.tiles), np.int64),
        np.zeros(streams, np.int64),
        np.zeros((streams, 4, chip.tiles), np.int64),
        np.zeros((streams, 3), np.int64),
        np.zeros(streams * chip.tiles, np.int64),
        np.zeros(streams * chip.tiles, np.int64),
        StreamTables(
            np.zeros(streams, np.int64),
            *(np.zeros(of_groups, np.int64) for _ in range(3)),
            *(np.zeros((*of_groups, chip.columns), np.int64) for _ in range(2)),
            *(np.zeros((*of_groups, chip.rows), np.int64) for _ in range(2)),
        ),
        nearness_of(chip, streams),
        np.zeros((chip.columns, chip.rows, 2), np.int64),
        WatchedLink(np.zeros(3, np.int64), np.zeros(1, np.int64), np.zeros(of_groups, np.int64)),
    )


def nearness_of(chip: Chip, streams: int) -> Any:
    """Empty :class:`.leaf_values.Nearness` for leaves on the chip, but for what is said of its ports."""
    from costmodel.schedule.leaf.kernels.leaf_values import Nearness

    port_x, port_y = np.array(chip.ports, np.int64).T
    to_x, to_y = np.arange(chip.columns)[:, None] - port_x, np.arange(chip.rows)[:, None] - port_y
    west, east, above, below = (np.maximum(away, 0).sum(axis=1) for away in (to_x, -to_x, to_y, -to_y))
    return Nearness(
        columns=np.zeros(2, np.int64),
        rows=np.zeros(2, np.int64),
        nearest=np.zeros((chip.columns, chip.rows), np.int64),
        producers=np.zeros(streams, np.int64),
        ways=np.zeros(2, np.int64),
        ports_west=west,
        ports_east=east,
        ports_above=above,
        ports_below=below,
        links=np.zeros(chip.tiles + 1, np.int64),
    )
