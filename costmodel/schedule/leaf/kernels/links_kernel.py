"""All transfers of a placed leaf over its runs as loads of the mesh's links; compiled.

The transfers are those of ``transfer_kernel.py``, which only adds up their hops.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from costmodel.compiled import called, inlined
from costmodel.schedule.leaf.kernels.equal_parts_kernel import equal_parts
from costmodel.schedule.leaf.kernels.leaf_values import COLUMN, LeafPlacement, Workspace
from costmodel.schedule.leaf.kernels.placement_kernel import reach
from costmodel.schedule.leaf.kernels.producers_kernel import (
    groups_of,
    note_senders,
    route_from_senders,
    senders_near,
    times_of,
)
from costmodel.schedule.leaf.kernels.ranges_kernel import (
    ANY,
    COUNTS,
    KINDS,
    OUTPUTS,
    Four,
    Range,
    distinct,
    sent_size,
)
from costmodel.schedule.mesh.flows_kernel import add_to_links, clear, load
from costmodel.schedule.mesh.senders_kernel import (
    add_multicast,
    no_multicasts,
    no_senders,
    route_multicasts,
)

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""

MANY, MANY_SINGLE = 4, 16
"""From so many trees on, or ways to one tile each, those of equal senders are counted together; fewer are
quicker one by one."""
CHECKED_EVERY = 8
"""After so many groups the count looks whether it may end: looking at all links takes about as long as one
group."""


@called
def load_links(workspace: Workspace, placed: LeafPlacement) -> None:
    """Fill the mesh's links with the bits times ports that go over each of them."""
    load_dram(workspace, placed)
    add_links_of_tiles(workspace, placed, ANY)


@called
def load_dram(workspace: Workspace, placed: LeafPlacement) -> None:
    """Fill the mesh's links with what goes to DRAM and comes from there."""
    clear(workspace.flows)
    for kind in KINDS:
        _note_dram(workspace, placed, kind)
    workspace.mesh.links[:] = 0
    add_to_links(workspace.mesh, workspace.flows, workspace.ports)


@inlined
def _note_dram(workspace: Workspace, placed: LeafPlacement, kind: Int) -> None:
    """Add what goes to DRAM or comes from there of one kind of data to the flows."""
    streams = placed.leaf.streams
    for number in range(streams.shape[0]):
        stream = streams[number]
        if stream[COLUMN.kind] == kind and not stream[COLUMN.direct] and stream[COLUMN.times] > 0:
            _load_or_save(workspace, placed, number)


@called
def load_apart(workspace: Workspace, placed: LeafPlacement, with_dram: Array, received: Array) -> None:
    """Count transfers apart: ``with_dram`` [kinds, links] those from and to DRAM by their kind of data, and
    ``received`` [streams, links] what the tiles of a producer send of each stream.

    Fills both, and the mesh's links with the sum.
    """
    links, streams = workspace.mesh.links, placed.leaf.streams
    links[:] = 0
    for kind in KINDS:
        clear(workspace.flows)
        _note_dram(workspace, placed, kind)
        _keep(links, with_dram[kind])
        add_to_links(workspace.mesh, workspace.flows, workspace.ports)
        _added(links, with_dram[kind])
    for number in range(streams.shape[0]):
        if streams[number, COLUMN.direct]:
            _keep(links, received[number])
            _receive(workspace, placed, number, ANY)
            _added(links, received[number])


@inlined
def _keep(links: Array, before: Array) -> None:
    """Note what is on the links."""
    for link in range(links.shape[0]):
        before[link] = links[link]


@inlined
def _added(links: Array, before: Array) -> None:
    """Replace what was on the links ``before`` by what has come on top of it."""
    for link in range(links.shape[0]):
        before[link] = links[link] - before[link]


@called
def add_links_of_tiles(workspace: Workspace, placed: LeafPlacement, most: Int) -> None:
    """Add what the tiles of producers send; ends early where some link has more than ``most``, as loads
    only grow."""
    mesh, streams = workspace.mesh, placed.leaf.streams
    for number in range(streams.shape[0]):
        if not streams[number, COLUMN.direct]:
            continue
        _receive(workspace, placed, number, most)
        if _some_link_above(mesh.links, most):
            return


@inlined
def _some_link_above(links: Array, most: Int) -> Any:
    """Whether some link has more than that."""
    if most == ANY:
        return False
    most_loaded: Int = 0
    for link in range(links.shape[0]):
        most_loaded = max(most_loaded, links[link])
    return most_loaded > most


@called
def _load_or_save(workspace: Workspace, placed: LeafPlacement, number: Int) -> None:
    """Add a stream from DRAM or to it to the flows, range by range."""
    mesh, ranges, parts, stream = workspace.mesh, workspace.ranges, placed.parts, placed.leaf.streams[number]
    kind, channels = stream[COLUMN.kind], (stream[COLUMN.first], stream[COLUMN.end])
    equal = equal_parts(workspace, placed.leaf, number)
    for k in range(distinct(ranges, kind, 0, parts)):
        for b in range(distinct(ranges, kind, 1, parts)):
            for h in range(distinct(ranges, kind, 2, parts)):
                for w in range(distinct(ranges, kind, 3, parts)):
                    which = (kind, k, b, h, w)
                    size = sent_size(ranges, equal, which, channels)
                    size *= stream[COLUMN.times] * stream[COLUMN.bits]
                    if size == 0:
                        continue
                    span = reach(workspace, placed, equal, which)
                    if kind == OUTPUTS:
                        workspace.flows.out[span[0], mesh.lowest[span[0]]] += size
                    else:
                        load(mesh, workspace.flows, span, size)


@called
def _receive(workspace: Workspace, placed: LeafPlacement, number: Int, most: Int) -> None:
    """Add what the producer's tiles send, group by group of ranges with the same senders.

    Ends once some link has more than ``most``.
    """
    kind = placed.leaf.streams[number, COLUMN.kind]
    groups, each = groups_of(workspace, placed, number)
    index: Int = 0
    for k in range(groups[0]):
        for b in range(groups[1]):
            for h in range(groups[2]):
                for w in range(groups[3]):
                    if index % CHECKED_EVERY == 0 and _some_link_above(workspace.mesh.links, most):
                        return
                    _receive_group(workspace, placed, (kind, k, b, h, w), each, number)
                    index += 1


@inlined
def _receive_group(
    workspace: Workspace, placed: LeafPlacement, first: Range, each: Four, number: Int
) -> None:
    """Add a group of ranges: ``each`` of them from the ``first`` on."""
    mesh, senders, equal = workspace.mesh, workspace.senders, equal_parts(workspace, placed.leaf, number)
    ranges, ports, stream = workspace.ranges, mesh.port_x.shape[0], placed.leaf.streams[number]
    channels = (stream[COLUMN.first], stream[COLUMN.end])
    near = senders_near(workspace, placed, first, number)
    if near <= 0:
        return
    receivers = each[0] * each[1] * each[2] * each[3]
    together = near * receivers >= (MANY if equal.counts[COUNTS.most] > 1 else MANY_SINGLE)
    if together:
        no_senders(senders)
        note_senders(workspace, placed, first, number)
        no_multicasts(senders)
    for k in range(first[1], first[1] + each[0]):
        for b in range(first[2], first[2] + each[1]):
            for h in range(first[3], first[3] + each[2]):
                for w in range(first[4], first[4] + each[3]):
                    which = (first[0], k, b, h, w)
                    times = times_of(workspace, placed, which, number)
                    # nobody gets an empty range, so that it would reach no column
                    if times == 0 or sent_size(ranges, equal, which, channels) == 0:
                        continue
                    span = reach(workspace, placed, equal, which)
                    if together:
                        add_multicast(mesh, senders, span, times * ports)
                    else:
                        route_from_senders(workspace, placed, which, number, times * ports, span)
    if together:
        route_multicasts(senders, mesh.links)
