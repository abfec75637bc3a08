"""What nn-dataflow 2.1 counts for a layer's scheme: the tool behind KAPLA's and TANGRAM's numbers.

Row-stationary mapping on one node's PE array, blocked loops at its buffer and registers, energy and time
(stanford-mast/nn_dataflow at commit 198a527); ``docs/kapla.md`` has the rules. No study uses this.
"""

from costmodel.conventions.nn_dataflow.as_directives import scheme_directives
from costmodel.conventions.nn_dataflow.blocking import (
    Blocking,
    Delivery,
    NotFittingError,
    SchemeCost,
    scheme_cost,
)
from costmodel.conventions.nn_dataflow.cases import SchemeCase, read_schemes
from costmodel.conventions.nn_dataflow.hardware import Hardware, UnitCosts
from costmodel.conventions.nn_dataflow.hops import corner_layout, unit_hops
from costmodel.conventions.nn_dataflow.layers import LEVELS, LOOPS, TENSORS, LayerShape
from costmodel.conventions.nn_dataflow.partition import Partition, partitions, share
from costmodel.conventions.nn_dataflow.row_stationary import ProcessingPass, processing_passes
from costmodel.conventions.nn_dataflow.sharing import Group, best_rotation, sharing_groups

__all__ = [
    "LEVELS",
    "LOOPS",
    "TENSORS",
    "Blocking",
    "Delivery",
    "Group",
    "Hardware",
    "LayerShape",
    "NotFittingError",
    "Partition",
    "ProcessingPass",
    "SchemeCase",
    "SchemeCost",
    "UnitCosts",
    "best_rotation",
    "corner_layout",
    "partitions",
    "processing_passes",
    "read_schemes",
    "scheme_cost",
    "scheme_directives",
    "share",
    "sharing_groups",
    "unit_hops",
]
