"""Which work of a network is counted and which is not: for warnings, and for notes beside results."""

from __future__ import annotations

from collections import Counter
from typing import Any

from costmodel.errors import InputError
from costmodel.workload.network import Layer, Network


def mapped_layers(network: Network) -> tuple[Layer, ...]:
    """Every layer of the network; InputError, saying which operators are not counted, where there is none."""
    if network.layers:
        return network.layers
    found = _kinds(network) or "operators without multiply-accumulates only"
    raise InputError(f"network {network.name}", "an operator whose multiply-accumulates are counted", found)


def uncounted_rows(network: Network) -> list[dict[str, Any]]:
    """A row for each node whose work is not counted, or only in part: ``node``, ``kind``, ``why``, and
    ``macs``, the number of missing MACs, where the shapes tell it.
    """
    return [
        {"node": n.name, "kind": n.operator, "why": n.uncounted.why}
        | ({} if n.uncounted.macs is None else {"macs": n.uncounted.macs})
        for n in network.nodes
        if n.uncounted
    ]


def counting_warnings(network: Network) -> tuple[str, ...]:
    """Up to two lines: operators that are not counted, and reads that may be fewer than is counted."""
    warnings = []
    missing = [node.uncounted for node in network.nodes if node.uncounted]
    if missing:
        line = f"{len(missing)} of {len(network.nodes)} operators are not counted: {_kinds(network)}"
        known = [one.macs for one in missing if one.macs is not None]
        if known:
            part = sum(known) / (sum(known) + network.macs)
            line += f"; {len(known)} of them ask for {sum(known):,} MACs, {part:.1%} of all that are known"
        warnings.append(f"network {network.name}: {line}")
    notes = [node for node in network.nodes if node.note]
    if notes:
        first = f"node {notes[0].name}: {notes[0].note}"
        warnings.append(
            f"network {network.name}: {len(notes)} operators may read less than is counted; {first}"
        )
    return tuple(warnings)


def size_warnings(network: Network) -> tuple[str, ...]:
    """One line if tensors have no known size, which count as 0 bytes in a scratchpad plan; else none."""
    unknown = [value.name for value in network.values if not value.elements]
    if not unknown:
        return ()
    count = f"{len(unknown)} of {len(network.values)} tensors are of unknown size and count as 0 bytes"
    maker = next((node for node in network.nodes if unknown[0] in node.outputs), None)
    made = f", made by node {maker.name} ({maker.operator})" if maker else ""
    return (f"network {network.name}: {count}, the first {unknown[0]}{made}",)


def _kinds(network: Network) -> str:
    """The operators that are not counted as text, "3 LSTM, 1 Loop", the most frequent first."""
    kinds = Counter(node.operator for node in network.nodes if node.uncounted)
    return ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
