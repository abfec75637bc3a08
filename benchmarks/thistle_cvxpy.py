"""What stating Thistle's programs in CVXPY costs: CPU seconds of both ways over the classes of a layer.

    python benchmarks/thistle_cvxpy.py [--network thistle_resnet18] [--layers 3] [--classes 400]

For each of the first layers, the programs of up to so many classes of loop orders of one tiling are solved
directly (``solvers.mapping.thistle.convex.cones``) and as one parametrised disciplined geometric program
(``solvers.mapping.thistle.convex.disciplined``), which CVXPY canonicalises once (``once s``). ``ratio`` is
all of CVXPY's seconds for the layer, that included, over all of the direct way's; ``differ`` is the largest
relative difference of the optima. Prints a table, then one JSON object.
"""

from __future__ import annotations

import time
from itertools import islice
from typing import Any

import record

from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_network
from costmodel.workload.network import Layer, distinct_layers
from solvers.mapping.problem import Objective
from solvers.mapping.space.space import MappingSpace
from solvers.mapping.thistle.convex import cones
from solvers.mapping.thistle.convex.disciplined import DisciplinedProgram
from solvers.mapping.thistle.convex.program import ClassProgram
from solvers.mapping.thistle.nest.costs import TilingCosts
from solvers.mapping.thistle.nest.tiling import Tiling, window_blocks
from solvers.mapping.thistle.nest.volumes import Volumes
from solvers.mapping.thistle.search.class_search import Branching


def class_programs(layer: Layer, objective: Objective, most: int) -> list[ClassProgram]:
    """The programs of the first classes of the layer's first tiling on Eyeriss, nothing taken off."""
    space = MappingSpace(load_architecture("eyeriss"), layer)
    keep = tuple(frozenset(tensor.name for tensor in layer.tensors) for _ in space.architecture.levels)
    costs = TilingCosts(Volumes(Tiling(space, keep, window_blocks(space, keep, spread=False)[0])), objective)
    branching = Branching(costs, carry_over=False, mirrored={})
    leaves, waiting = [branching.root], [branching.root]
    while waiting:
        orders = waiting.pop()
        if None not in orders:
            leaves.append(orders)
        else:
            waiting += branching.children(orders)
    programs = [branching.costs.program(orders) for orders in islice(leaves, most)]
    for program in programs:
        program.saved[:] = 0
    return programs


def direct(program: ClassProgram, scale: float) -> float:
    """The optimum as the solver finds it: a second time where the first scale was far off."""
    relaxed = cones.solve(program, scale)
    assert relaxed is not None
    if not 0.5 < (size := program.magnitude_at(relaxed.x)) / scale < 2:
        relaxed = cones.solve(program, size)
        assert relaxed is not None
    return relaxed.objective


def measure(layer: Layer, objective: Objective, classes: int) -> dict[str, Any]:
    programs = class_programs(layer, objective, classes)
    scale = direct(programs[0], 1e9)
    begun = time.process_time()
    optima = [direct(program, scale) for program in programs]
    direct_seconds = time.process_time() - begun
    begun = time.process_time()
    stated = DisciplinedProgram(programs)
    stated.solve(programs[0])
    canonicalised = time.process_time() - begun
    begun = time.process_time()
    theirs = [stated.solve(program) for program in programs]
    seconds = time.process_time() - begun
    return {
        "layer": layer.name,
        "objective": objective,
        "programs": len(programs),
        "direct": direct_seconds / len(programs),
        "cvxpy": seconds / len(programs),
        "canonicalisation": canonicalised,
        "ratio": (canonicalised + seconds) / direct_seconds,
        "differ": max(abs(one - two) / one for one, two in zip(optima, theirs, strict=True)),
    }


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--network", default="thistle_resnet18")
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--classes", type=int, default=400)
    arguments = parser.parse_args()
    distinct = distinct_layers(load_network(arguments.network).layers)
    rows = []
    print(f"{'layer':24} {'objective':9} programs  direct s   CVXPY s    once s  ratio   differ")
    for layer, _ in distinct[: arguments.layers]:
        for objective in ("energy", "cycles", "edp"):
            row = measure(layer, objective, arguments.classes)
            rows.append(row)
            shown = [f"{row[key]:9.4f}" for key in ("direct", "cvxpy", "canonicalisation")]
            print(f"{row['layer']:24} {objective:9} {row['programs']:8}", *shown, end=" ")
            print(f"{row['ratio']:6.1f} {row['differ']:8.1e}", flush=True)
    record.finish({"rows": rows}, arguments)


if __name__ == "__main__":
    main()
