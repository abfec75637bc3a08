"""KAPLA's tensor-centric dataflow directives (section III-B): values, text, counts, loops, pipelines.

CONV:
  REGF:
    tensor{0}(N=1, C=2, Xi=5, Yi=1)
    ...
    stack(S+=1, Yi+=1, 5)
    update(C+=2)
"""

from costmodel.directives.cost import DirectiveCost, EnergyParts, cost, transfers, violations
from costmodel.directives.counts import Accesses, Transfers, accesses, cycles, iterations, parallelism
from costmodel.directives.loops import directives_of, mapping_of
from costmodel.directives.networks import memory_level
from costmodel.directives.pipeline import mismatches
from costmodel.directives.text import format_layers, parse_layers
from costmodel.directives.values import LayerScheme, LevelScheme, Stack, TensorTile, Update

__all__ = [
    "Accesses",
    "DirectiveCost",
    "EnergyParts",
    "LayerScheme",
    "LevelScheme",
    "Stack",
    "TensorTile",
    "Transfers",
    "Update",
    "accesses",
    "cost",
    "cycles",
    "directives_of",
    "format_layers",
    "iterations",
    "mapping_of",
    "memory_level",
    "mismatches",
    "parallelism",
    "parse_layers",
    "transfers",
    "violations",
]
