"""SET (ISCA 2023): the space of resource-allocation trees, its size, and the patterns that came before."""

from solvers.schedule.ratree.canonical import Segment, layer_pipeline, layer_sequential, sequential_tree
from solvers.schedule.ratree.size import GROWTH, order_count, tree_count
from solvers.schedule.ratree.space import SPACES, SpaceName, TreeSpace

__all__ = [
    "GROWTH",
    "SPACES",
    "Segment",
    "SpaceName",
    "TreeSpace",
    "layer_pipeline",
    "layer_sequential",
    "order_count",
    "sequential_tree",
    "tree_count",
]
