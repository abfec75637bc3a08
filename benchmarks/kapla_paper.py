"""KAPLA's evaluation (section VI): its solvers (K), proven optima (S), random (R), learned annealing (M).

    python benchmarks/kapla_paper.py [--parts PART ...] [--networks NAME ...] [--methods LETTER ...]
        [--wall-seconds S] [--probability P] [--most-draws N] [--batches N]
        [--steps inference training] [--exact-networks NAME ...]
        [--cases N] [--cells FILE] [--charts FILE.html] [--json FILE]

Parts, each a table or two on the terminal, then one JSON object for all:

- ``fig7`` energy of training at batch 64 on 16 x 16 nodes, its breakdown, and CPU seconds (Table IV);
  ``fig8`` the same for cycles; ``fig9`` inference; ``fig10`` inference at batch 1 on the edge device: all
  layer by layer, in the space that the PE array's mapping leaves (``array_constraints``).
- ``table5`` GoogLeNet on five configurations.
- ``whole`` whole networks at batch 64 as chains of segments on the chip ``kapla-16x16-released``, inference
  and training: energy, its parts, CPU seconds of the solve with all its layers' solves; ``fig11`` k_S;
  ``table6`` what pruning leaves.
- ``pipelines``, if asked for: pairs and triples of neighbouring layers, each on its own, in turns and as a
  pipeline, with bands and without, replayed (:mod:`kapla_evaluation.pipelines`).

S is ``exact``: it searches the very space of ``kapla``, ``random_search`` and ``learned_annealing`` (all take
the same :class:`MappingSpace`), from K's mapping on. "proven" counts the layers whose optimum it proves in
``--wall-seconds`` on the clock. All ratios are of all layers: "over" the best that any method found, "at
most" over the bounds that are proven by then.

R draws ``--probability`` times as many mappings as the space has factorisations (loop orders come on top), at
most ``--most-draws``. M measures ``--batches`` batches of 128 mappings a layer (the
paper: 1024). Of whole networks, S costs all segments, with exact for layers, of ``--exact-networks`` only; R
keeps each segment with ``--probability``; M has K's segments.

What has been solved goes to ``--cells`` at once and is not solved again, in no later run either: it is found
by its content (layer, device, objective, method, effort). Fails if an answer takes less time than MACs / PEs
or less from DRAM than each tensor once.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import record
from kapla_evaluation import layer_parts, segment_parts
from kapla_evaluation.cells import CellFile
from kapla_evaluation.layer_parts import LayerRun
from kapla_evaluation.layers import METHODS, Effort
from kapla_evaluation.networks import NETWORKS
from kapla_evaluation.pipelines import PipelineRun, pipelines
from kapla_evaluation.segment_parts import STEPS, SegmentRun

from solvers.schedule.tiles.layer_parts import FEW_PARTITIONS

LAYER_PARTS: dict[str, Callable[[LayerRun], dict[str, Any]]] = {
    "fig7": layer_parts.training_energy,
    "fig8": layer_parts.training_time,
    "fig9": layer_parts.inference_energy,
    "fig10": layer_parts.edge_energy,
    "table5": layer_parts.configurations,
}
SEGMENT_PARTS: dict[str, Callable[[SegmentRun], dict[str, Any]]] = {
    "whole": segment_parts.whole_networks,
    "fig11": segment_parts.candidates,
    "table6": segment_parts.pruning,
}


PIPELINES = "pipelines"
"""Where neighbouring layers pay as a pipeline; not part of the paper, and only run if asked for."""


def arguments() -> Namespace:
    parser, names = record.parser(__doc__), [*LAYER_PARTS, *SEGMENT_PARTS]
    parser.add_argument("--parts", nargs="+", choices=[*names, PIPELINES], default=names)
    parser.add_argument("--networks", nargs="+", default=NETWORKS, metavar="NAME", help="mlp, kapla's others")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS), help="of whole networks")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["S", "R", "K"])
    parser.add_argument("--wall-seconds", type=float, default=10.0, help="of S, for a layer")
    parser.add_argument("--probability", type=float, default=0.1)
    parser.add_argument("--most-draws", type=int, default=100_000)
    parser.add_argument("--batches", type=int, default=32)
    parser.add_argument("--exact-networks", nargs="*", default=["mlp", "lstm"], metavar="NAME")
    parser.add_argument("--cases", type=int, default=4, help="of pipelines, of each length a network")
    parser.add_argument("--share-weights", action="store_true", help="tiles of pipelines may share weights")
    parser.add_argument("--cells", type=Path, default=Path("kapla_paper.jsonl"))
    parser.add_argument("--charts", type=Path, default=None, help="an HTML file for the charts")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    effort = Effort(options.wall_seconds, options.probability, options.most_draws, options.batches)
    methods = [letter for letter in METHODS if letter in {"S", "K", *options.methods}]
    file = CellFile(options.cells)
    layers = LayerRun(options.networks, methods, effort, file)
    segments = SegmentRun(options.networks, options.steps, methods, options.exact_networks, effort, file)
    found = {name: LAYER_PARTS[name](layers) for name in options.parts if name in LAYER_PARTS}
    found |= {name: SEGMENT_PARTS[name](segments) for name in options.parts if name in SEGMENT_PARTS}
    if PIPELINES in options.parts:
        asked = PipelineRun(options.networks, options.cases, FEW_PARTITIONS, file, options.share_weights)
        found[PIPELINES] = pipelines(asked)
    below = [layer for part in found.values() for layer in part.get("below_floors", [])]
    if options.charts:
        from kapla_evaluation.figures import write_figures

        write_figures(options.charts, found)
    record.finish(found, options)
    return int(bool(below))


if __name__ == "__main__":
    sys.exit(main())
