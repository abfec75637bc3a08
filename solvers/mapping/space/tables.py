"""A space of mappings, and its rules, as the arrays that compiled code takes."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

Array = NDArray[Any]


class SideTables(NamedTuple):
    """Which spatial factors find a side of a fan-out."""

    fanout_x: Array
    fanout_y: Array
    """[levels] the instances along each side."""
    may_x: Array
    may_y: Array
    """[levels, dims] whether the dim may be spread on that side."""


class SpaceTables(NamedTuple):
    """A space as arrays: slots from the inside out, levels innermost first, keep sets as bit masks."""

    slot_level: Array
    slot_spatial: Array
    slot_least: Array
    slot_most: Array
    """[slots, dims] the smallest and largest factors allowed."""
    divisors: Array
    """[dims, most] ascending, padded with 0."""
    divisor_count: Array
    quotient: Array
    """[dims, most, most] larger divisor over smaller one, 0 where that is not whole."""
    masks: Array
    """[levels, most] the keep sets of each level, padded with 0."""
    mask_count: Array
    largest: Array
    """[levels, 2**tensors, dims] the most points of a dim whose tiles fit with a keep set, all else 1."""
    sides: SideTables
    order: Array
    """[levels, dims] an order of the dims; those that the rules fix stand first or last as they ask."""
    free_from: Array
    free_to: Array
    """[levels] the range of positions in ``order`` whose dims may be exchanged."""


class RuleTables(NamedTuple):
    """What the rules of a space allow, but for the order of loops."""

    keeps: Array
    """[levels, 2**tensors] bool: the sets of tensors that a level may keep, by their bit masks."""
    bounded: bool
    """Whether the rules speak of levels. All that follows allows everything unless they do."""
    least: Array
    most: Array
    """[2, levels, dims] the smallest and largest factors of temporal (0) and of spatial loops (1)."""
    sides: SideTables
