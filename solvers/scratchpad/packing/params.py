"""What the packing solver can be told."""

from __future__ import annotations

from dataclasses import dataclass

from solvers.checks import check_switches


@dataclass(frozen=True)
class Params:
    """Switches of the packing solver."""

    greedy: bool = True
    """First place buffers one by one in a few orders, each as low as it fits."""
    restarts: bool = True
    """Many short searches with other ranks between the long ones; off: long ones with the plain rank only."""
    repairs: bool = True
    """Change the rank that got farthest where it failed; off: every restart takes a fresh rank."""

    def __post_init__(self) -> None:
        check_switches("packing", self, "greedy", "restarts", "repairs")
