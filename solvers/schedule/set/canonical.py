"""RA trees of the two patterns before SET: layer-sequential and layer-pipeline (section 3.4, Fig. 3).

Both run segments one after the other below a root T cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from costmodel.errors import InputError
from costmodel.schedule.tree.tree import Cut, CutKind, Leaf, TreeNode


@dataclass(frozen=True)
class PatternSegment:
    """Consecutive layers that run together, their batch in ``subbatches`` equal parts."""

    layers: tuple[str, ...]
    subbatches: int = 1

    def __post_init__(self) -> None:
        if not self.layers:
            raise InputError("segment", "at least one layer", "none", key="layers")
        if self.subbatches < 1:
            raise InputError("segment", "at least 1", self.subbatches, key="subbatches")


def sequential_tree(order: Sequence[str], batch: int, subbatches: int = 1) -> Cut:
    """Every layer on the whole chip, one after the other: all leaves below a root T cut.

    ``order`` is a topological order of the layers. The root's ``subbatches`` must divide ``batch``
    (InputError). SET's search starts from this tree (section 4.2).
    """
    return layer_sequential([PatternSegment((layer,)) for layer in order], batch, subbatches)


def layer_sequential(segments: Sequence[PatternSegment], batch: int, subbatches: int = 1) -> Cut:
    """LS: the layers of a segment take turns on the whole chip and hand on data without DRAM."""
    return _segmented("T", segments, batch, subbatches)


def layer_pipeline(segments: Sequence[PatternSegment], batch: int, subbatches: int = 1) -> Cut:
    """LP: the layers of a segment have tiles of their own and run at the same time, as a pipeline."""
    return _segmented("S", segments, batch, subbatches)


def _segmented(kind: CutKind, segments: Sequence[PatternSegment], batch: int, subbatches: int) -> Cut:
    samples = _divided(batch, subbatches)
    return Cut("T", batch, subbatches, tuple(_child(kind, segment, samples) for segment in segments))


def _child(kind: CutKind, segment: PatternSegment, batch: int) -> TreeNode:
    """A segment as a child of the root: a leaf for one layer in one sub-batch, else a cut of ``kind``."""
    if len(segment.layers) == 1 and segment.subbatches == 1:
        return Leaf(segment.layers[0], batch)
    samples = _divided(batch, segment.subbatches)
    return Cut(kind, batch, segment.subbatches, tuple(Leaf(layer, samples) for layer in segment.layers))


def _divided(batch: int, subbatches: int) -> int:
    """Samples in each of the sub-batches of ``batch``."""
    if subbatches < 1 or batch % subbatches:
        raise InputError("RA tree", f"a divisor of {batch}", subbatches, key="subbatches")
    return batch // subbatches
