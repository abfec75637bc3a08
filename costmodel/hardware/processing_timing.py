"""What an array of PEs with scratchpads pays beyond its bandwidths: the ``timing: processing:`` of an
architecture file.

Bandwidths of levels are shared by all tensors. An array of PEs often has a *link* of its own for each of
them: Eyeriss brings inputs, filters and partial sums over three networks. And its PEs pay for what no
bandwidth says: they wait while new filters are written into their scratchpads, and they add up the partial
sums of their neighbours with the adder that they multiply and accumulate with.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from costmodel.errors import InputError
from costmodel.number_checks import is_number
from costmodel.workload.network import Role


@dataclass(frozen=True)
class TensorLink:
    """A link of one tensor between the level of that name and the levels inside it, in words a cycle.

    None: unlimited. ``read_bandwidth`` is inwards, ``write_bandwidth`` outwards (outputs only).
    """

    level: str
    role: Role
    read_bandwidth: float | None = None
    write_bandwidth: float | None = None

    def __post_init__(self) -> None:
        for key in ("read_bandwidth", "write_bandwidth"):
            value = getattr(self, key)
            if value is not None:
                _check(f"link of {self.role} at {self.level}", key, value, above=True)


@dataclass(frozen=True)
class ProcessingTiming:
    """The timing of an array of PEs.

    ``accumulate_cycles`` is what a PE pays for every partial sum that leaves its scratchpad.
    ``exposed_fills`` are tensors for which the array waits: with their role, the words a cycle in which the
    outermost level that they come from delivers them.
    """

    links: tuple[TensorLink, ...] = ()
    accumulate_cycles: float = 0.0
    exposed_fills: tuple[tuple[Role, float], ...] = ()

    def __post_init__(self) -> None:
        where = "timing of processing"
        _check(where, "accumulate_cycles", self.accumulate_cycles)
        for role, bandwidth in self.exposed_fills:
            if role == "outputs":
                raise InputError(where, "weights or inputs", role, key="exposed_fills")
            _check(where, f"exposed_fills.{role}", bandwidth, above=True)
        if len({(link.level, link.role) for link in self.links}) != len(self.links):
            raise InputError(where, "a link for each level and tensor, once", self.links, key="links")

    def to_json(self) -> dict[str, Any]:
        """Plain data: the fields. :meth:`from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ProcessingTiming:
        """The timing of :meth:`to_json`; InputError for numbers that no machine has."""
        links = tuple(TensorLink(**link) for link in data["links"])
        fills = tuple((role, bandwidth) for role, bandwidth in data["exposed_fills"])
        return cls(links, data["accumulate_cycles"], fills)


def _check(where: str, key: str, value: Any, *, above: bool = False) -> None:
    """InputError unless ``value`` is a finite number of at least 0, or above 0."""
    if not is_number(value, 0) or (above and value == 0):
        raise InputError(where, "a number above 0" if above else "a number of at least 0", value, key=key)
