"""Forwarding between layers: whether one consumes a tensor as another produces it (section III-B)."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.errors import InputError
from costmodel.formats.directives.values import LayerScheme, LevelScheme, TensorTile


def mismatches(
    producer: LayerScheme, consumer: LayerScheme, tensor: str, level_name: str = "GBUF"
) -> Iterator[str]:
    """Why the consumer cannot take the tensor piece by piece as the producer makes it; nothing if it can.

    It can if, over all their nodes, both hold the same samples and channels of the tensor at ``level_name``,
    and move on along these in the same steps and order. Then the consumer takes every piece as soon as it is
    made. Raises InputError where a layer does not have the tensor at that level, or the producer does not
    compute it.
    """
    made, taken = producer.level(level_name), consumer.level(level_name)
    if not made.tensor(tensor).output:
        raise InputError(f"layer {producer.name}", "a tensor that it computes", tensor)
    ours, theirs = _pieces(made, made.tensor(tensor)), _pieces(taken, taken.tensor(tensor))
    for dim in ours:
        if ours[dim] != theirs[dim]:
            held = f"{producer.name} makes {ours[dim]} of {dim} at a time"
            yield f"{held}, {consumer.name} takes {theirs[dim]}"
    made_steps, taken_steps = _steps(made, made.tensor(tensor)), _steps(taken, taken.tensor(tensor))
    if made_steps != taken_steps:
        yield f"{producer.name} updates {_shown(made_steps)}, {consumer.name} {_shown(taken_steps)}"


def _role(dim: str) -> str:
    """What a dim is to the tensor: C of its consumer and K of its producer are both its channels."""
    return "channels" if dim in ("C", "K") else "samples" if dim == "N" else ""


def _pieces(level: LevelScheme, tile: TensorTile) -> dict[str, int]:
    """Samples and channels of the tensor that all the level's buffers hold together."""
    held = {role: size for dim, size in tile.sizes if (role := _role(dim))}
    for stack in level.stacks:
        for dim, shift in stack.shifts:
            if dim in tile.dims and (role := _role(dim)):
                held[role] += shift * (stack.replicas - 1)
    return held


def _steps(level: LevelScheme, tile: TensorTile) -> list[tuple[str, int]]:
    """The updates that bring other samples or channels of the tensor, innermost first."""
    return [
        (role, step)
        for update in level.updates
        for dim, step in update.steps
        if dim in tile.dims and (role := _role(dim))
    ]


def _shown(steps: list[tuple[str, int]]) -> str:
    return ", ".join(f"{role} by {step}" for role, step in steps) or "neither samples nor channels"
