"""What no fused mapping of a chain costs less than, without any search: the compulsory traffic.

Every operation reads and updates words at the innermost level. Every word of a tensor that is no intermediate
comes into every level at least once, or, of the chain's output, leaves each once. Of an intermediate nothing
more is certain, for the innermost level may keep it.
"""

from __future__ import annotations

from math import ceil, prod

from costmodel.mapping.fused.problem import FusedProblem
from solvers.fusion.fronts import Point


def compulsory(chain: FusedProblem, position: int) -> Point:
    """The least pJ and the least cycles of one einsum of the chain, in any fused mapping."""
    einsum = chain.einsums[position]
    reads, writes = [0] * len(chain.levels), [0] * len(chain.levels)
    words = {name: prod(einsum.dims[dim] for dim in einsum.dims_of(name)) for name in einsum.tensors}
    reads[0] = len(einsum.tensors) * einsum.operations - words[einsum.output]
    writes[0] = einsum.operations
    for name, size in words.items():
        if name in chain.intermediates:
            continue
        for level in range(chain.outermost):
            if name == einsum.output:
                writes[level + 1] += size
            else:
                writes[level] += size
                reads[level + 1] += size
    energy, cycles = einsum.operations * chain.mac_pj, einsum.operations
    for read, written, memory in zip(reads, writes, chain.levels, strict=True):
        energy += read * memory.read_pj + written * memory.write_pj
        for amount, rate in ((read, memory.read_bw), (written, memory.write_bw)):
            cycles = max(cycles, 0 if rate is None else ceil(amount / rate))
    return Point(energy, float(cycles))
