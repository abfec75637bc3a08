"""A lower bound on cycles for all assignments at once, from the words that the outermost level must move.

All instances of a level are taken as one large instance. Its tile is the *joint tile*: a level's tile times
the spatial factors of all levels outside it. Three facts make the bound one of the real machine:

* Between the joint tiles of neighbouring levels there are exactly the temporal loops of the outer level,
  whatever the spatial factors are.
* A joint tile holds no more words than all instances together can, if an axis is counted with the least
  number of positions that its dims' points must make.
* What the outermost level sends for a tensor, after multicast, is the joint tile times the loops that
  repeat it.

So a machine without fan-outs, each level as large as all its instances together, has no more words to move
from its outermost level than any mapping of the real one. Its lattice bound is one for every spatial choice.
What the joint machine's MAC units ask for is subtracted again, as spatial multicast can make it less on the
real one.
"""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.limits import limit_reached
from costmodel.mapping.batch.batch_tables import Tables
from costmodel.mapping.bounds.rounding import ROUNDING
from solvers.budget import InTime, OutOfTimeError, always_in_time
from solvers.mapping.exact.bound import AT_ONCE, bound_in_time
from solvers.mapping.exact.tables import Lattice, Space, assignment_workspace
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space.space_bounds import space_bounds

Array = NDArray[Any]
MOST_KEEP_SETS = 64
"""With more choices of kept tensors the bound is not computed: each takes a filling of the lattice."""


class Weights(NamedTuple):
    """Cycles per word read and per word written at the outermost level, by one of its bandwidths."""

    read: float
    write: float


def with_cycles(
    problem: MappingProblem,
    tables: Space,
    keeps: Array,
    lattice: Lattice,
    in_time: InTime = always_in_time,
) -> Space:
    """``tables`` with ``least_cycles`` filled in.

    If cycles are the objective, the energies of its model are replaced by the cycles that a word takes at
    the slowest bandwidth of the outermost level. All bounds and searches then add up these cycles as they
    otherwise add up energy (``value`` in ``kernels/assignment_kernel.py``). Where ``in_time()`` ends the
    computation, or there are more than MOST_KEEP_SETS choices of kept tensors, the bound is only the cost
    model's, which is lower. So it is on machines with timing, whose words have no cycles at all here.
    """
    everywhere = float(space_bounds(problem).cycles)
    if problem.architecture.timing is not None:
        # Timed cycles are counted from the steps themselves, and words of the outermost level bound none.
        model = weighed(tables.model, Weights(0.0, 0.0)) if problem.objective == "cycles" else tables.model
        return tables._replace(model=model, least_cycles=everywhere)
    bandwidths = outermost_bandwidths(tables.model)
    found = [(least_cycles(tables, keeps, lattice, weights, in_time), weights) for weights in bandwidths]
    cycles, slowest = max(found, default=(0.0, Weights(0.0, 0.0)))
    model = weighed(tables.model, slowest) if problem.objective == "cycles" else tables.model
    return tables._replace(model=model, least_cycles=max(cycles, everywhere))


def outermost_bandwidths(model: Tables) -> list[Weights]:
    """The limited bandwidths of the outermost level."""
    read, write, shared = (
        1 / float(bandwidth[-1])
        for bandwidth in (model.read_bandwidth, model.write_bandwidth, model.shared_bandwidth)
    )
    every = [Weights(read, 0.0), Weights(0.0, write), Weights(shared, shared)]
    return [weights for weights in every if weights.read or weights.write]


def weighed(model: Tables, weights: Weights) -> Tables:
    """``model`` with accesses that cost cycles of the outermost level's bandwidth instead of energy."""
    nothing, last = np.zeros(len(model.read_pj)), len(model.read_pj) - 1
    read, update = nothing.copy(), nothing.copy()
    read[last], update[last] = weights
    return model._replace(
        read_pj=read,
        write_pj=nothing,
        update_pj=update,
        leakage_pj=nothing,
        block_size=np.ones_like(model.block_size),
        mac_energy_pj=0.0,
    )


def least_cycles(
    tables: Space,
    keeps: Array,
    lattice: Lattice,
    weights: Weights,
    in_time: InTime = always_in_time,
) -> float:
    """A lower bound on the cycles that one bandwidth of the outermost level (``weights``) needs for any
    mapping that keeps one of ``keeps`` [n, levels], its parts in any order; 0 where ``in_time()`` ends it."""
    if len(keeps) > MOST_KEEP_SETS:
        effect = "the lower bound on cycles leaves out the traffic of the outermost level, and is lower"
        limit_reached("choices of what levels keep", MOST_KEEP_SETS, effect)
        return 0.0
    joint = tables._replace(model=_joint(weighed(tables.model, weights)), objective=0)
    least = inf
    for keep in keeps:
        if not in_time():
            return 0.0
        try:
            least = min(least, _inside(joint, keep, lattice, in_time))
        except OutOfTimeError:
            return 0.0
    return least * ROUNDING


def _joint(model: Tables) -> Tables:
    """The machine without fan-outs, its levels as large as all instances together.

    All coefficients are 1: an axis then has the sum of its dims' points, less one for each but the first,
    which is the least number of positions that any coefficients give. Sums are taken to be finished: loops
    that are spatial on the real machine bring no sum back there.
    """
    fanouts = (model.fanout_x * model.fanout_y).astype(float)
    instances = np.concatenate([np.cumprod(fanouts[:0:-1])[::-1], [1.0]])
    usable = np.minimum(model.usable_words * instances, np.iinfo(np.int64).max // 2)
    return model._replace(
        usable_words=usable.astype(np.int64),
        term_steps=np.where(model.term_dims >= 0, 1, 0),
        sum_units=model.units[:, model.output].copy(),
        wide_sums=False,
    )


def _inside(joint: Space, keep: Array, lattice: Lattice, in_time: InTime) -> float:
    """The bound of the joint machine with one choice of kept tensors, in cycles."""
    assignment = assignment_workspace(joint)
    assignment.spatial[:] = 1
    assignment.keep[:] = keep
    lattice.steps.left[0] = AT_ONCE
    # Less what its MAC units ask for: on the real machine spatial multicast can make that less.
    return bound_in_time(joint, assignment, lattice, True, in_time) - float(assignment.energy_pj[0])
