"""Why a fused mapping cannot run: its shape, its loops, what would be computed again, capacities."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.mapping.fused.counts import used_words
from costmodel.mapping.fused.mapping import FusedMapping, Loops
from costmodel.mapping.fused.movement import begun
from costmodel.mapping.fused.problem import FusedProblem
from costmodel.mapping.fused.tree import Branch, branches


def violations(problem: FusedProblem, mapping: FusedMapping) -> list[str]:
    """All reasons against a mapping; none for one that can be evaluated.

    Reasons of one kind hide those that need the kind to be right: loops are looked at in a tree of the right
    shape, capacities where all loops are right.
    """
    for kind in (_shape, _kept, _sharing, _loops, _windows, _capacity):
        if reasons := list(kind(problem, mapping)):
            return reasons
    return []


def _shape(problem: FusedProblem, mapping: FusedMapping) -> Iterator[str]:
    """Lists of the right lengths, and shared loops that neighbours agree on."""
    names = [einsum.name for einsum in problem.einsums]
    if reason := mapping.wrong_length(len(names), len(names)):
        yield reason
        return
    for einsum, own in zip(problem.einsums, mapping.own, strict=True):
        if len(own) != len(problem.levels):
            yield f"own of {einsum.name} has {len(own)} lists, {len(problem.levels)} are needed, one a level"
    yield from mapping.sharing_violations(names)


def _kept(problem: FusedProblem, mapping: FusedMapping) -> Iterator[str]:
    """Backing levels are on the chip and of intermediates; a hoisted tensor is one of its einsum's, not
    backed, and hoisted above a shared loop that there is."""
    on_chip = problem.outermost
    for name, _ in sorted(mapping.recompute):
        yield f"{name} makes rows anew, which only layers on an architecture can"
    if mapping.pipelines:
        yield "a pipeline needs an array to divide, which only layers on an architecture have"
    for tensor, level in mapping.backing.items():
        if tensor not in problem.intermediates:
            yield f"{tensor} has a backing level and is no intermediate"
        if not 0 <= level < on_chip:
            yield f"the backing level of {tensor} is {level}, levels of the chip are 0 to {on_chip - 1}"
    positions = {einsum.name: position for position, einsum in enumerate(problem.einsums)}
    for name, hoisted in mapping.hoist.items():
        if name not in positions:
            yield f"tensors of {name} are hoisted, and there is no such einsum"
            continue
        einsum, path = problem.einsums[positions[name]], mapping.paths[positions[name]]
        for tensor, depth in hoisted.items():
            if tensor not in einsum.tensors:
                yield f"{tensor} is hoisted for {name}, which has no such tensor"
            if tensor in mapping.backing:
                yield f"{tensor} is hoisted for {name}, but stays in its backing tile"
            if not 0 <= depth < len(path):
                yield f"{tensor} is hoisted above shared loop {depth} of {name}, which has {len(path)}"


def _sharing(problem: FusedProblem, mapping: FusedMapping) -> Iterator[str]:
    """Pairs that share loops keep their intermediate, and share loops over no other dims than its own."""
    for pair, tensor in enumerate(problem.intermediates):
        producer, consumer = problem.einsums[pair], problem.einsums[pair + 1]
        shared = mapping.paths[pair][: mapping.prefix[pair]]
        if shared and tensor not in mapping.backing:
            yield f"{producer.name} and {consumer.name} share loops, and {tensor} has no backing level"
        for dim in dict.fromkeys(dim for dim, _ in shared):
            between = f"the loop over {dim} that {producer.name} and {consumer.name} share"
            if dim in problem.halo and problem.consumer_of_halo(dim) == consumer:
                continue
            if _cuts(problem, pair, dim):
                continue
            if dim in producer.dims and dim not in consumer.dims:
                yield f"{between}: {tensor} is not complete when it is first read"
            elif dim in consumer.dims and dim not in producer.dims:
                yield f"{between}: {tensor} would be computed again in each iteration"
            else:
                yield f"{between} does not cut {tensor} in the same way on both sides"


def _cuts(problem: FusedProblem, pair: int, dim: str) -> bool:
    """Whether a loop over ``dim`` cuts the intermediate of a pair into disjoint tiles, alike on both sides.

    A loop that slides along windows further down the chain cuts the dim that its rows are.
    """
    tensor = problem.intermediates[pair]
    names = {dim}
    if dim in problem.halo and dim not in problem.einsums[pair].dims:
        names = {problem.halo[dim].dim}
    axes = [((name, 1),) for name in names]
    return all(axis in einsum.tensors[tensor] for axis in axes for einsum in problem.einsums[pair : pair + 2])


def _loops(problem: FusedProblem, mapping: FusedMapping) -> Iterator[str]:
    """Steps that divide what they cut, down to one point."""
    for branch in branches(problem, mapping):
        einsum, path = branch.einsum, mapping.paths[branch.position]
        # ``left``: what a loop further inside can still cut of every dim. A loop that slides along the rows
        # of a window's input leaves tiles of unequal sizes (``ragged``), which own loops need not divide.
        left = dict(einsum.dims) | _cut_by_windows(problem, branch, path)
        ragged = {problem.halo[dim].dim for dim, _ in path if dim not in einsum.dims}
        own = [loop for loops in mapping.own[branch.position] for loop in loops]
        wrong = False
        for number, (dim, step) in enumerate((*path, *own)):
            if dim not in left or (dim not in einsum.dims and number >= len(path)):
                yield f"{einsum.name} has a loop over {dim}, its dims are {', '.join(einsum.dims)}"
                wrong = True
            elif step < 1:
                yield f"the loop over {dim} of {einsum.name} has step {step}, at least 1 is needed"
                wrong = True
            elif number >= len(path) and dim in ragged:
                left[dim] = min(step, left[dim])
            elif step > left[dim] or left[dim] % step:
                yield f"the loop over {dim} of {einsum.name} has step {step}, no divisor of {left[dim]}"
                wrong = True
            else:
                left[dim] = step
            if number == len(path) - 1 and not wrong:
                first = begun(branch.placed(path), branch.spans)
                left.update({name: first[name].extent for name in ragged})
        for dim in einsum.dims:
            if left[dim] > 1 and not wrong:
                yield f"the loops of {einsum.name} leave {left[dim]} of {dim}, 1 is needed"


def _cut_by_windows(problem: FusedProblem, branch: Branch, path: Loops) -> dict[str, int]:
    """The sizes of a consumer's dims whose shared loops slide along this einsum's rows."""
    slides = [dim for dim, _ in path if dim not in branch.einsum.dims and dim in problem.halo]
    return {dim: problem.consumer_of_halo(dim).dims[dim] for dim in slides}


def _windows(problem: FusedProblem, mapping: FusedMapping) -> Iterator[str]:
    """The rows that a window has in common with the next one stay: no loop inside the sliding one drops
    them."""
    for pair, tensor in enumerate(problem.intermediates):
        producer, consumer = problem.einsums[pair], problem.einsums[pair + 1]
        shared = mapping.paths[pair + 1][: mapping.prefix[pair]]
        left = dict(consumer.dims)
        moving: list[tuple[str, int]] = []
        for dim, step in shared:
            moving.append((dim, left[dim] // step))
            left[dim] = step
        for number, (dim, times) in enumerate(moving):
            slides = dim in problem.halo and problem.consumer_of_halo(dim) == consumer
            if not slides or times == 1 or problem.lead(dim) == 0:
                continue
            for inner, inner_times in moving[number + 1 :]:
                if inner != dim and inner_times > 1:
                    yield (
                        f"the loop over {inner} inside the loop over {dim} that {producer.name} and "
                        f"{consumer.name} share: rows of {tensor} are needed after they were dropped"
                    )


def _capacity(problem: FusedProblem, mapping: FusedMapping) -> Iterator[str]:
    """No level holds more than it can at any einsum's time."""
    for einsum, row in zip(problem.einsums, used_words(problem, mapping), strict=True):
        for level, words in zip(problem.levels, row, strict=False):
            if level.capacity is not None and words > level.capacity:
                holds = f"level {level.name} holds {words} words while {einsum.name} runs"
                yield f"{holds}, its capacity is {level.capacity}"
