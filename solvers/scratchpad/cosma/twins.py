"""Twins: branches of a graph that are the same but for their names, such as the heads of an attention.

A *swap* exchanges two such branches, operators and tensors, and leaves all else as it is. Both read the same
tensors of the rest and are read by the same operators of the rest, so what one can do the other can: a state
and the state with two twins swapped have the same bytes still to pay. Of states that differ by swaps alone,
the search follows one. It tells them by a form in which the branches of each *family* of twins are sorted by
how far they are: by what of them ran, is resident and has a copy on the host.

A family is found from a tensor that the first operators of its branches read. From there on two branches are
followed side by side, forwards to readers and backwards to makers, until all that differs is paired. How the
pairs were guessed does not matter: they count if they keep every size, every reader and every maker.

Families may lie within others: groups of heads that share their keys and values are twins, and so are the
heads of each group. Inner ones are sorted first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from costmodel.limits import limit_reached
from solvers.budget import InTime, always_in_time
from solvers.scratchpad.cosma.moves import State
from solvers.scratchpad.masks import GraphMasks, bits, mask_of

LARGEST_BRANCH = 200
"""The most operators of a branch: pairs are not followed any further."""

_Progress = tuple[int, int, int]
"""Sets of operators that ran, of resident tensors and of those on the host."""


class _Swap(NamedTuple):
    """The operators and the tensors of one branch, each with its twin in the other."""

    operators: dict[int, int]
    tensors: dict[int, int]


class _Branch:
    """Operators and tensors, in an order that fits all branches of a family."""

    def __init__(self, operators: Sequence[int], tensors: Sequence[int]) -> None:
        self.operators, self.tensors = tuple(operators), tuple(tensors)
        self.operator_set, self.tensor_set = mask_of(self.operators), mask_of(self.tensors)
        self._places: dict[_Progress, _Progress] = {}
        self._members: dict[_Progress, _Progress] = {}

    def progress(self, executed: int, resident: int, host: int) -> _Progress:
        """How far the branch is, as sets of positions in it."""
        own = (executed & self.operator_set, resident & self.tensor_set, host & self.tensor_set)
        known = self._places.get(own)
        if known is None:
            places = [
                mask_of([place for place, member in enumerate(members) if mask >> member & 1])
                for mask, members in zip(own, (self.operators, self.tensors, self.tensors), strict=True)
            ]
            known = self._places[own] = (places[0], places[1], places[2])
        return known

    def at(self, progress: _Progress) -> _Progress:
        """The operators and tensors at these positions."""
        known = self._members.get(progress)
        if known is None:
            sets = [
                mask_of([members[place] for place in bits(places)])
                for places, members in zip(
                    progress, (self.operators, self.tensors, self.tensors), strict=True
                )
            ]
            known = self._members[progress] = (sets[0], sets[1], sets[2])
        return known


class Twins:
    """The families of twins among ``operators`` (a bit set), as far as they are found in time."""

    def __init__(self, masks: GraphMasks, operators: int, in_time: InTime = always_in_time) -> None:
        found = _families(masks, operators, in_time)
        self.families: list[list[_Branch]] = sorted(found, key=lambda family: len(family[0].operators))
        self._operators = [_union(branch.operator_set for branch in family) for family in self.families]
        self._tensors = [_union(branch.tensor_set for branch in family) for family in self.families]

    def sorted(self, state: State) -> State:
        """The state with twins swapped into the order of how far they are; all but its sets is left as is."""
        executed, resident, host = state.executed, state.resident, state.host
        for family, operators, tensors in zip(self.families, self._operators, self._tensors, strict=True):
            begun = executed & operators
            if not begun or (begun == operators and not (resident | host) & tensors):
                continue
            found = [branch.progress(executed, resident, host) for branch in family]
            wanted = sorted(found)
            if wanted == found:
                continue
            executed, resident, host = executed & ~operators, resident & ~tensors, host & ~tensors
            for branch, progress in zip(family, wanted, strict=True):
                ran, present, copied = branch.at(progress)
                executed, resident, host = executed | ran, resident | present, host | copied
        if executed == state.executed and resident == state.resident and host == state.host:
            return state
        return state._replace(executed=executed, resident=resident, host=host)


def _union(sets: Iterable[int]) -> int:
    union = 0
    for one in sets:
        union |= one
    return union


def _families(masks: GraphMasks, operators: int, in_time: InTime) -> list[list[_Branch]]:
    families: list[list[_Branch]] = []
    for readers in _reading_alike(masks, operators):
        # One reader of each family found so far. Swaps add up, so one twin in a family is enough.
        firsts: list[int] = []
        for reader in readers:
            if not in_time():
                return families
            larger: _Swap | None = None
            for first in firsts:
                swap = _swap(masks, operators, first, reader)
                if swap is not None and sum(v in swap.operators for v in readers) == 1:
                    _join(families, swap)
                    break
                larger = larger or swap
            else:
                # A larger swap takes a whole group of readers to another: this is the first of its group.
                firsts.append(reader)
                if larger is not None:
                    _join(families, larger)
    return families


def _reading_alike(masks: GraphMasks, operators: int) -> Iterator[list[int]]:
    """Operators that read the same tensor and, by themselves, look alike."""
    graph = masks.graph
    for consumers in graph.consumers:
        alike: dict[object, list[int]] = {}
        for reader in consumers:
            if operators >> reader & 1:
                node = graph.operators[reader]
                look = tuple(masks.blocks[t] for t in (*node.inputs, *node.outputs))
                alike.setdefault((len(node.inputs), look, node.parameter_bytes), []).append(reader)
        yield from (readers for readers in alike.values() if len(readers) > 1)


def _join(families: list[list[_Branch]], swap: _Swap) -> None:
    """Add the swap's second branch to the family of its first, or begin one with both."""
    own, other = mask_of(list(swap.operators)), mask_of(list(swap.operators.values()))
    for family in families:
        for branch in family:
            if branch.operator_set == own:
                if not any(other & member.operator_set for member in family):
                    operators = [swap.operators[v] for v in branch.operators]
                    family.append(_Branch(operators, [swap.tensors[t] for t in branch.tensors]))
                return
    one = _Branch(list(swap.operators), list(swap.tensors))
    two = _Branch(list(swap.operators.values()), list(swap.tensors.values()))
    families.append([one, two])


def _swap(masks: GraphMasks, operators: int, one: int, other: int) -> _Swap | None:
    """The swap of ``operators`` that takes one operator to the other; None where none is found."""
    graph = masks.graph
    paired, taken, tensors = {one: other}, {other}, dict[int, int]()
    waiting = [(one, other)]
    while waiting:
        mine, its = (graph.operators[v] for v in waiting.pop())
        if len(mine.inputs) != len(its.inputs) or len(mine.outputs) != len(its.outputs):
            return None
        inputs = _unpaired(mine.inputs, its.inputs, tensors)
        if inputs is None:
            return None
        # An operator's outputs may have been met before, as what a reader of theirs reads.
        for tensor, twin in chain(zip(mine.outputs, its.outputs, strict=True), inputs):
            if tensors.setdefault(tensor, twin) != twin:
                return None
            makers = graph.producers[tensor], graph.producers[twin]
            operators_of = _unpaired(graph.consumers[tensor], graph.consumers[twin], paired)
            if operators_of is None:
                return None
            if makers[0] is not None and makers[1] is not None:
                operators_of.append((makers[0], makers[1]))
            for a, b in operators_of:
                if paired.get(a) == b:
                    continue
                new = not {a, b} & (paired.keys() | taken)
                if not new or not operators >> a & operators >> b & 1:
                    return None
                if len(paired) >= LARGEST_BRANCH:
                    effect = "twins are searched apart, which takes longer, and the bound may be lower"
                    limit_reached("operators of a twin branch", LARGEST_BRANCH, effect)
                    return None
                paired[a] = b
                taken.add(b)
                waiting.append((a, b))
    swap = _Swap(paired, tensors)
    return swap if _keeps_all(masks, swap) else None


def _unpaired(
    mine: Sequence[int], its: Sequence[int], paired: dict[int, int]
) -> list[tuple[int, int]] | None:
    """What only one of two lists has and is not paired yet, in pairs; None where something is left over."""
    own, twins = set(mine), set(its)
    done = {member for member in mine if paired.get(member) in twins}
    images = {paired[member] for member in done}
    left = [member for member in mine if member not in twins and member not in done]
    right = [member for member in its if member not in own and member not in images]
    return list(zip(left, right, strict=True)) if len(left) == len(right) else None


def _keeps_all(masks: GraphMasks, swap: _Swap) -> bool:
    """Whether exchanging the branches leaves the graph as it is."""
    graph = masks.graph
    operators = swap.operators | {twin: own for own, twin in swap.operators.items()}
    tensors = swap.tensors | {twin: own for own, twin in swap.tensors.items()}
    if len(operators) != 2 * len(swap.operators) or len(tensors) != 2 * len(swap.tensors):
        return False

    for own, twin in operators.items():
        mine, its = graph.operators[own], graph.operators[twin]
        if (
            mine.parameter_bytes != its.parameter_bytes
            or _swapped(mine.inputs, tensors) != set(its.inputs)
            or _swapped(mine.outputs, tensors) != set(its.outputs)
            or {(tensors.get(a, a), tensors.get(b, b)) for a, b in mine.overwrites} != set(its.overwrites)
        ):
            return False
    for own, twin in tensors.items():
        if (
            masks.blocks[own] != masks.blocks[twin]
            or masks.traffic[own] != masks.traffic[twin]
            or masks.given >> own & 1 != masks.given >> twin & 1
            or masks.on_host >> own & 1 != masks.on_host >> twin & 1
            or _swapped(graph.consumers[own], operators) != set(graph.consumers[twin])
        ):
            return False
    return True


def _swapped(members: Iterable[int], twins: dict[int, int]) -> set[int]:
    """The members with each that has a twin replaced by it."""
    return {twins.get(member, member) for member in members}
