"""KAPLA's tensor-centric directives (section III-B): tensors, stacks and updates per level of a layer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, prod

from costmodel.errors import InputError
from costmodel.number_checks import is_whole

Amounts = tuple[tuple[str, int], ...]
"""(dim, amount) pairs, each a size, shift or step, in the order in which they are written."""
LARGEST = 2**20
"""The largest size, shift, step or number of buffers; counting looks at each position, so this bounds it."""


@dataclass(frozen=True)
class TensorTile:
    """``tensor{name}(dim=size, ..., shr=shared)``: what a buffer of a level holds of a tensor.

    ``shared`` buffers hold the tile together, each an equal part of it. ``output``: the layer accumulates
    into this tensor.
    """

    name: str
    sizes: Amounts
    shared: int = 1
    output: bool = False

    def __post_init__(self) -> None:
        where = f"tensor{{{self.name}}}"
        _check_amounts(self.sizes, where)
        _check_whole(self.shared, where, "shr")

    @property
    def dims(self) -> tuple[str, ...]:
        return tuple(dim for dim, _ in self.sizes)

    @property
    def words(self) -> int:
        """Words of the whole tile, whether one or several buffers hold it."""
        return prod(size for _, size in self.sizes)

    @property
    def held_words(self) -> int:
        """Words in one buffer: its part of the tile, rounded up."""
        return ceil(self.words / self.shared)


@dataclass(frozen=True)
class Stack:
    """``stack(dim+=shift, ..., replicas)``: ``replicas`` buffers side by side.

    What a buffer holds lies ``shifts`` further than what the one before it holds, in all tensors of the level
    that have these dims. Without shifts all buffers hold the same.
    """

    shifts: Amounts
    replicas: int

    def __post_init__(self) -> None:
        _check_amounts(self.shifts, "stack")
        _check_whole(self.replicas, "stack", "repl")


@dataclass(frozen=True)
class Update:
    """``update(dim+=step, ...)``: in every iteration, the tiles of the level move on by ``steps``.

    That holds for all tensors that have these dims.
    """

    steps: Amounts

    def __post_init__(self) -> None:
        _check_amounts(self.steps, "update")
        if not self.steps:
            raise InputError("update", "a step", "none")


@dataclass(frozen=True)
class LevelScheme:
    """The directives of one level.

    Each stack repeats what the stacks before it have built; ``updates`` are nested INNERMOST FIRST.
    """

    name: str
    tensors: tuple[TensorTile, ...]
    stacks: tuple[Stack, ...] = ()
    updates: tuple[Update, ...] = ()

    def __post_init__(self) -> None:
        names = [tensor.name for tensor in self.tensors]
        if len(set(names)) != len(names):
            raise InputError(f"level {self.name}", "every tensor once", names)
        _check_whole(self.parallelism, f"level {self.name}", "stack")
        known: dict[str, int] = {}
        for tensor in self.tensors:
            for dim, size in tensor.sizes:
                # All tensors of a level are parts of one tile of the loop nest, so a dim has one size there.
                if known.setdefault(dim, size) != size:
                    expected = f"{dim}={known[dim]} as in the level's other tensors"
                    raise InputError(f"level {self.name}", expected, size, key=f"tensor{{{tensor.name}}}")

    @property
    def sizes(self) -> dict[str, int]:
        """For each dim how much of it one buffer covers."""
        return {dim: size for tensor in self.tensors for dim, size in tensor.sizes}

    @property
    def parallelism(self) -> int:
        """How many buffers of this level lie below each buffer of the next level."""
        return prod(stack.replicas for stack in self.stacks)

    @property
    def held_words(self) -> int:
        """Words of all tensors in one buffer."""
        return sum(tensor.held_words for tensor in self.tensors)

    def tensor(self, name: str) -> TensorTile:
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        known = [tensor.name for tensor in self.tensors]
        raise InputError(f"level {self.name}", f"a tensor among {known}", name)


@dataclass(frozen=True)
class LayerScheme:
    """One layer: ``levels`` INNERMOST FIRST; the last may be the memory that holds the whole tensors.

    A tensor has the same name at all levels: each level's tile is a part of the next one's. If two layers
    name the same tensor, one produces it and the other consumes it.
    """

    name: str
    levels: tuple[LevelScheme, ...]

    def __post_init__(self) -> None:
        where = f"layer {self.name}"
        names = [level.name for level in self.levels]
        if not names or len(set(names)) != len(names):
            raise InputError(where, "levels of different names, at least one", names)
        for inner, outer in self.pairs:
            for tensor in inner.tensors:
                outside = outer.tensor(tensor.name)
                if outside.dims != tensor.dims or outside.output != tensor.output:
                    key = f"tensor{{{tensor.name}}}"
                    raise InputError(
                        where, f"{tensor.dims} at {outer.name}, as at {inner.name}", outside.dims, key=key
                    )

    @property
    def pairs(self) -> Iterator[tuple[LevelScheme, LevelScheme]]:
        """Every level with the next one outside it."""
        return zip(self.levels, self.levels[1:], strict=False)

    def level(self, name: str) -> LevelScheme:
        for level in self.levels:
            if level.name == name:
                return level
        raise InputError(f"layer {self.name}", f"a level among {[one.name for one in self.levels]}", name)


def _check_amounts(amounts: Amounts, where: str) -> None:
    names = [dim for dim, _ in amounts]
    if len(set(names)) != len(names):
        raise InputError(where, "every dim once", names)
    for dim, amount in amounts:
        _check_whole(amount, where, dim)


def _check_whole(value: int, where: str, key: str) -> None:
    if not is_whole(value, 1, LARGEST):
        raise InputError(where, f"a whole number from 1 to {LARGEST}", value, key=key)
