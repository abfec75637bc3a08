"""Predicts the figures that were measured on the Eyeriss chip, by the cost model.

Every row is rebuilt as the mapping that ran, and ``evaluate`` counts it. Three things are the chip's own and
not part of a mapping: compression of words in DRAM, PEs that idle at an input of zero, and columns of the
paper that count otherwise than Timeloop. docs/silicon-eyeriss.md explains each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from costmodel.errors import InputError
from costmodel.formats.machines.row_stationary import Strips, strips
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.evaluate import Evaluation, evaluate
from sweep.silicon.eyeriss_rows import EyerissRow

RUN_LENGTH_BITS = 64 / 3
"""DRAM bits of a value that is not zero: a word of 64 bits has three pairs of a run of zeros (5 bits) and a
value (16 bits), and one bit that marks the end (JSSC 52(1), 2017, section V-B)."""

BYTES_OF_MB = 1e6


@dataclass(frozen=True)
class EyerissFigures:
    """Predictions of the figures that the chip's tables state for a layer; accesses in 10^6 bytes."""

    processing_latency_ms: float
    global_buffer_mb: float
    dram_mb: float
    dram_uncompressed_mb: float
    power_mw: float
    active_pes: int
    binding: str
    """The resource that most cycles wait for: ``PEs``, which multiply and add, or ``links`` to them."""

    @property
    def by_name(self) -> dict[str, float]:
        """The figures that rows can state, by their keys in the file."""
        return {
            "processing_latency_ms": self.processing_latency_ms,
            "global_buffer_mb": self.global_buffer_mb,
            "dram_mb": self.dram_mb,
            "power_mw": self.power_mw,
            "active_pes": self.active_pes,
        }


def compressed(zeros: float | None, word_bits: int) -> float:
    """The compressed size of a tensor in DRAM, as a fraction of its size.

    ``zeros``: the fraction of its words that are zero; None: the tensor is not compressed. Runs of zeros are
    taken to be short enough for their 5 bits. A tensor that would grow is not compressed.
    """
    return 1.0 if zeros is None else min(1.0, (1.0 - zeros) * RUN_LENGTH_BITS / word_bits)


def predicted(row: EyerissRow, architecture: Architecture) -> EyerissFigures:
    """The figures of a row on ``eyeriss-v1`` or a variant of it.

    InputError for a mapping that does not fit the row's layer or the architecture.
    """
    parts = strips(row.layer, row.mapping, architecture)
    counted = [(part, evaluate(architecture, part.layer, part.mapping)) for part in parts]
    cycles = sum(processing_cycles_of(evaluation) for _, evaluation in counted)
    seconds = cycles / architecture.frequency_hz
    word_bytes = architecture.levels[-1].word_bits / 8
    stored = {
        "weights": 1.0,
        "inputs": compressed(row.zeros_in, architecture.levels[-1].word_bits),
        "outputs": compressed(row.zeros_out, architecture.levels[-1].word_bits),
    }
    megabytes = word_bytes / BYTES_OF_MB
    raw = [_dram_words(part, evaluation) for part, evaluation in counted]
    return EyerissFigures(
        processing_latency_ms=seconds * 1e3,
        global_buffer_mb=megabytes * sum(_buffer_words(*each) for each in counted),
        dram_mb=megabytes * sum(stored[role] * words for each in raw for role, words in each.items()),
        dram_uncompressed_mb=megabytes * sum(words for each in raw for words in each.values()),
        power_mw=sum(_energy_pj(evaluation, row.zeros_in or 0.0) for _, evaluation in counted)
        / seconds
        * 1e-9,
        active_pes=max(part.active_pes for part in parts),
        binding=_binding([evaluation for _, evaluation in counted]),
    )


def processing_cycles_of(evaluation: Evaluation) -> float:
    """Cycles of the array, without waiting for DRAM: what the paper calls processing latency.

    Without ``timing: processing:`` in the architecture file they are those of the mapping.
    """
    if evaluation.timed is None or evaluation.timed.processing is None:
        return float(evaluation.cycles)
    return evaluation.timed.processing.cycles


def _binding(evaluations: Sequence[Evaluation]) -> str:
    longest = max(evaluations, key=processing_cycles_of)
    processing = longest.timed.processing if longest.timed is not None else None
    if processing is None:
        return "bandwidth"
    return "links" if processing.link > processing.macs + processing.accumulation else "PEs"


def with_accumulation(architecture: Architecture, cycles: float) -> Architecture:
    """The architecture with another time for a partial sum that a PE passes on; its timing has
    ``processing``."""
    timing = architecture.timing
    if timing is None or timing.processing is None:
        raise InputError(f"architecture {architecture.name}", "a timing of processing", "none", key="timing")
    processing = replace(timing.processing, accumulate_cycles=cycles)
    return replace(architecture, timing=replace(timing, processing=processing))


def _names(part: Strips) -> dict[str, str]:
    return {tensor.name: tensor.role for tensor in part.layer.tensors}


def _dram_words(part: Strips, evaluation: Evaluation) -> dict[str, int]:
    """Words of each role between DRAM and the chip, in both directions."""
    roles = _names(part)
    return {
        roles[name]: traffic.reads + traffic.updates
        for name, traffic in evaluation.levels[-1].tensors.items()
    }


def _buffer_words(part: Strips, evaluation: Evaluation) -> int:
    """Accesses of the global buffer as the paper counts them: all but those in which DRAM fills it.

    Timeloop does not count the read in which finished outputs leave for DRAM; the paper does.
    """
    level = next(level for level in evaluation.levels if level.name == "GlobalBuffer")
    to_dram = sum(traffic.updates for traffic in evaluation.levels[-1].tensors.values())
    return to_dram + sum(traffic.reads + traffic.updates for traffic in level.tensors.values())


def _energy_pj(evaluation: Evaluation, zeros: float) -> float:
    """Energy on the chip. At an input of zero a PE reads no filter, multiplies nothing and adds nothing."""
    gated = {"FilterScratchpad", "PartialSumScratchpad"}
    energy = evaluation.mac_energy_pj * (1 - zeros)
    for level in evaluation.levels[:-1]:
        moving = level.energy_pj - level.leakage_pj
        energy += level.leakage_pj + moving * (1 - zeros if level.name in gated else 1.0)
    return energy
