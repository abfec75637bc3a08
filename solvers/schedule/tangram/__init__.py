"""Tangram's chains of segments (Gao et al., ASPLOS 2019): alternate loop orders in pipelines, layers in turn.

Start with ``solver.py``, which says what is Tangram's and what the chip model has in its place.
``vertices.py`` says which layers may share a segment, ``segments.py`` how they run, and ``beam.py`` is the
dynamic program over chains that keeps a few for each layer.
"""

from solvers.schedule.tangram.params import Params
from solvers.schedule.tangram.solver import VERSION, solve

__all__ = ["VERSION", "Params", "solve"]
