"""What a fused mapping costs: energy, cycles, footprints, and the counts behind them."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from costmodel.mapping.fused.checker import violations
from costmodel.mapping.fused.counts import EinsumCounts, fused_counts, peak_words
from costmodel.mapping.fused.mapping import FusedMapping
from costmodel.mapping.fused.problem import FusedProblem


@dataclass(frozen=True)
class FusedEvaluation:
    """The cost of a fused mapping.

    ``counts``: by einsum, in the chain's order. ``einsum_cycles``: the cycles of each; they run one after the
    other. ``peak``: the most words each level holds at once, innermost first; 0 for the outermost memory.
    """

    energy_pj: float
    cycles: int
    counts: tuple[EinsumCounts, ...]
    einsum_cycles: tuple[int, ...]
    peak: tuple[int, ...]

    @property
    def edp_pj_cycles(self) -> float:
        """Energy times cycles, of the whole chain."""
        return self.energy_pj * self.cycles


def evaluate_fused(problem: FusedProblem, mapping: FusedMapping) -> FusedEvaluation:
    """The cost; ValueError with the reasons for a mapping that has violations."""
    if reasons := violations(problem, mapping):
        raise ValueError(f"no fused mapping of this problem: {'; '.join(reasons)}")
    counts = fused_counts(problem, mapping)
    cycles = tuple(einsum_cycles(problem, one) for one in counts)
    return FusedEvaluation(
        sum(einsum_energy(problem, one) for one in counts),
        sum(cycles),
        counts,
        cycles,
        (*peak_words(problem, mapping), 0),
    )


def einsum_energy(problem: FusedProblem, counts: EinsumCounts) -> float:
    """pJ of an einsum: its operations, and the reads, fills and updates at every level."""
    energy = counts.operations * problem.mac_pj
    for number, level in enumerate(problem.levels):
        access = counts.total(number)
        energy += access.reads * level.read_pj + (access.fills + access.updates) * level.write_pj
    return energy


def einsum_cycles(problem: FusedProblem, counts: EinsumCounts) -> int:
    """Cycles of an einsum: one an operation, or as many as the slowest memory takes to read or to write."""
    cycles = counts.operations
    for number, level in enumerate(problem.levels):
        access = counts.total(number)
        if level.read_bw is not None:
            cycles = max(cycles, ceil(access.reads / level.read_bw))
        if level.write_bw is not None:
            cycles = max(cycles, ceil((access.fills + access.updates) / level.write_bw))
    return cycles
