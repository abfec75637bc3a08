"""Resource-allocation trees (SET, ISCA 2023): values, text, validity, data flow, S-T graph."""

from costmodel.ratree.attributes import Attributes, broken_formulas, node_attributes
from costmodel.ratree.data_flow import DataFlow, Edge, Producers
from costmodel.ratree.segment_flow import SegmentFlow, Wiring
from costmodel.ratree.spatial_temporal import Rectangle, spatial_temporal_graph
from costmodel.ratree.text import format_tree, parse_tree
from costmodel.ratree.tree import Cut, CutKind, Leaf, Node, depth, leaves
from costmodel.ratree.validity import NotPossibleError, least_tiles, violations

__all__ = [
    "Attributes",
    "Cut",
    "CutKind",
    "DataFlow",
    "Edge",
    "Leaf",
    "Node",
    "NotPossibleError",
    "Producers",
    "Rectangle",
    "SegmentFlow",
    "Wiring",
    "broken_formulas",
    "depth",
    "format_tree",
    "least_tiles",
    "leaves",
    "node_attributes",
    "parse_tree",
    "spatial_temporal_graph",
    "violations",
]
