"""What a ``designs`` row says of its networks: the cost of one run of each, and how many runs it adds up.

A study runs a network of ``weight: 50`` fifty times for every run of a network of weight 1. The columns of a
design add up all runs, so whoever shows a part of a design multiplies by the weight, and says so beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from results.errors import WrongRowError
from results.store.schema.rows import NetworkEntry
from results.units import TIMES

RunTotal = Literal["energy_pj", "cycles"]
"""What a run of a network costs, in pJ or cycles: the columns whose sums over all runs a design has."""


@dataclass(frozen=True)
class NetworkRuns:
    """One network of a design."""

    name: str
    weight: float
    """Runs that the design's totals count; a fraction where another network's weight is the larger."""
    one_run: NetworkEntry
    """The network's entry in the column ``networks``: what one run costs, and the tasks that it rests on."""

    @property
    def label(self) -> str:
        """The name with the weight, ``decode ×50``; just the name for a network that runs once."""
        runs = f"{int(self.weight):,}" if self.weight == int(self.weight) else f"{self.weight:.6g}"
        return self.name if self.weight == 1 else f"{self.name} {TIMES}{runs}"

    def total(self, column: RunTotal) -> float | None:
        """``energy_pj`` or ``cycles`` of all runs, None where the network has no answer."""
        value = self.one_run.get(column)
        return None if value is None else self.weight * float(value)


def group_label(names: Sequence[str]) -> str:
    """The names of layers that are mapped together as one: ``block0.attention.scores + values``."""
    first, *others = names
    beginning = first.rpartition(".")[0]
    return " + ".join([first, *(name.removeprefix(f"{beginning}.") for name in others)])


def networks_of(networks: object) -> dict[str, NetworkRuns]:
    """The networks of a design by name, from its decoded column ``networks``; empty before any answer.

    Raises WrongRowError for a network without its weight: nobody knows what part of the design it is.
    """
    if not isinstance(networks, Mapping):
        return {}
    return {name: NetworkRuns(name, _weight(name, row), row) for name, row in networks.items()}


def _weight(name: str, row: NetworkEntry) -> float:
    if "weight" not in row:
        remedy = "Run the study again into another folder; its solves come from the store"
        raise WrongRowError("designs", f"network {name!r} states no weight", remedy)
    return float(row["weight"])
