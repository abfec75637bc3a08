"""The weights of CoSA's objective, found by micro-benchmarks of an architecture.

The paper leaves the weights of Util, Comp and Traf (Eq. 12 and 13) to micro-benchmarks that characterise the
target architecture; which ones it does not say. Here a micro-benchmark is a small layer, made up for this and
in no network. Each candidate for the weights solves all of them in one shot, and the cost model judges. Of
the candidates that are clearly better than the stated weights, the one with the least geometric mean of costs
is taken.

Only the ratio of the weights matters, so the compute weight stays as it is stated, and candidates are
multiples of the other two.

The weights depend on the architecture, the objective, the rules for mappings, the kind of layer and the other
settings, and on nothing else: neither on the seed nor on the layer that is to be mapped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import log, sqrt
from statistics import fmean, stdev

from costmodel.hardware.architecture import Architecture
from costmodel.limits import recording
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Layer, convolution, gemm
from solvers.budget import Budget
from solvers.mapping.cosa.params import Params
from solvers.mapping.problem import MappingProblem, Objective
from solvers.mapping.space.rules import SpaceRules
from solvers.outcome import Outcome

CONVOLUTIONS = (
    convolution("window", K=96, C=48, P=21, Q=21, R=3, S=3),
    convolution("deep window", K=320, C=240, P=7, Q=7, R=3, S=3),
    convolution("wide window", K=32, C=20, P=66, Q=66, R=3, S=3),
    convolution("strided window", K=120, C=60, P=13, Q=13, R=3, S=3, stride=(2, 2)),
    convolution("few inputs", K=160, C=8, P=30, Q=30, R=3, S=3),
    convolution("image", K=48, C=3, P=40, Q=40, R=5, S=5, stride=(2, 2)),
    convolution("wide image", K=32, C=3, P=98, Q=98, R=7, S=7, stride=(2, 2)),
    convolution("pointwise", K=160, C=96, P=24, Q=24, R=1, S=1),
    convolution("expansion", K=480, C=80, P=11, Q=11, R=1, S=1),
    convolution("reduction", K=80, C=480, P=12, Q=12, R=1, S=1),
    convolution("strided pointwise", K=144, C=72, P=18, Q=18, R=1, S=1, stride=(2, 2)),
    convolution("deep pointwise", K=1200, C=300, P=5, Q=5, R=1, S=1),
    convolution("connected", K=1500, C=640, P=1, Q=1, R=1, S=1),
)
PRODUCTS = (
    gemm("square", M=144, N=160, K=192),
    gemm("vector", M=1, N=1500, K=640),
    gemm("few rows", M=7, N=640, K=480),
    gemm("many rows", M=725, N=96, K=48),
    gemm("narrow", M=484, N=24, K=72),
    gemm("expansion", M=50, N=960, K=240),
    gemm("reduction", M=39, N=48, K=1920),
    gemm("scores", M=180, N=180, K=60),
)
"""The micro-benchmarks: of each kind, shapes for which another of the three parts is the bottleneck. Their
sizes are those of no network in the library, and have primes up to 29 as networks' layers have. With small
primes alone every weight fills the array, and weights that leave it empty for a filter of 7 x 7 look good."""

TRAFFIC_TIMES = (1.0, 0.3, 3.0, 10.0, 100.0)
UTILISATION_TIMES = (1.0, 0.0)
"""What the stated weights of Traf, and of Util beside that, are multiplied with."""

STANDARD_ERRORS = 2.0
"""A candidate must be better than the stated weights by so many standard errors of its mean logarithm of
costs. The programs have many optima, of which an engine takes one, so a small difference of means over a
dozen layers says nothing about others."""

SOLVE_SECONDS = 20.0
"""The most seconds on the clock of one micro-benchmark: hundreds of times what most take. Candidates whose
programs are not proven by then are left out, so that weights do not hang on how far a search came."""

Solve = Callable[[MappingProblem, Budget, Params], Outcome[Mapping]]


@dataclass(frozen=True)
class ObjectiveWeights:
    """The weights of Util, Comp and Traf."""

    utilisation: float
    compute: float
    traffic: float

    def __str__(self) -> str:
        return f"utilisation {self.utilisation:.4g}, compute {self.compute:.4g}, traffic {self.traffic:.4g}"

    @classmethod
    def of(cls, params: Params) -> ObjectiveWeights:
        """The weights that ``params`` state."""
        return cls(params.utilisation_weight, params.compute_weight, params.traffic_weight)

    def stated_in(self, params: Params) -> Params:
        """``params`` with these weights."""
        return replace(
            params,
            weights="stated",
            utilisation_weight=self.utilisation,
            compute_weight=self.compute,
            traffic_weight=self.traffic,
        )


def calibrated(problem: MappingProblem, params: Params, solve: Solve) -> tuple[ObjectiveWeights, str]:
    """The weights for ``problem``, and a sentence that names them; ``solve`` is CoSA with stated weights.

    Takes seconds of CPU the first time that a process asks for an architecture, and none after that.
    """
    # Padding is for sizes that fit badly, which those of micro-benchmarks do not.
    rules = replace(problem.rules, padding=0.0, padded_dims=None)
    one_shot = replace(params, weights="stated", polish=False, kicks=0)
    layers = micro_benchmarks(problem.layer)
    found = _best(solve, problem.architecture, problem.objective, rules, layers, one_shot)
    if found is None:
        return ObjectiveWeights.of(params), "no micro-benchmark has a proven program: weights as stated"
    return found, f"weights by micro-benchmarks: {found}"


def micro_benchmarks(layer: Layer) -> tuple[Layer, ...]:
    """Those with the dims of ``layer``, as rules speak of dims; all for a layer of another kind."""
    every = (*CONVOLUTIONS, *PRODUCTS)
    return tuple(one for one in every if one.sizes.keys() == layer.sizes.keys()) or every


def candidates(stated: ObjectiveWeights) -> tuple[ObjectiveWeights, ...]:
    """The weights that are tried, the stated ones first."""
    found = [
        ObjectiveWeights(
            _as_written(stated.utilisation * traffic * utilisation),
            stated.compute,
            _as_written(stated.traffic * traffic),
        )
        for traffic in TRAFFIC_TIMES
        for utilisation in UTILISATION_TIMES
    ]
    return tuple(dict.fromkeys([stated, *found]))


def _as_written(weight: float) -> float:
    """The number as a note prints it, so that who states what the note says gets the same answer."""
    return float(f"{weight:.4g}")


@lru_cache(maxsize=1024)
def _best(
    solve: Solve,
    architecture: Architecture,
    objective: Objective,
    rules: SpaceRules,
    layers: tuple[Layer, ...],
    params: Params,
) -> ObjectiveWeights | None:
    """The best candidate; None if no micro-benchmark can be solved with the stated weights."""
    problems = [MappingProblem(architecture, one, objective, rules.for_layer(one)) for one in layers]
    stated, *others = candidates(ObjectiveWeights.of(params))
    base = {
        problem: cost for problem in problems if (cost := _cost(solve, problem, stated.stated_in(params)))
    }
    if not base:
        return None
    best, least = stated, 0.0
    for weights in others:
        logs = list(_log_ratios(solve, base, weights.stated_in(params)))
        if len(logs) == len(base) and fmean(logs) < least and _clearly_below_zero(logs):
            best, least = weights, fmean(logs)
    return best


def _clearly_below_zero(logs: list[float]) -> bool:
    """Whether the mean is below 0 by more than STANDARD_ERRORS of it; of a single number, whether that is."""
    error = stdev(logs) / sqrt(len(logs)) if len(logs) > 1 else 0.0
    return fmean(logs) < -STANDARD_ERRORS * error


def _log_ratios(solve: Solve, base: dict[MappingProblem, float], params: Params) -> Iterator[float]:
    """The logarithm of each problem's cost over that in ``base``, up to the first that has none."""
    for problem, cost in base.items():
        own = _cost(solve, problem, params)
        if own is None:
            return
        yield log(own / cost)


def _cost(solve: Solve, problem: MappingProblem, params: Params) -> float | None:
    """What the mapping that ``params`` find costs; None without one, without a proof, or if it costs 0."""
    # Limits that a micro-benchmark reaches are none of the answer that the weights are for.
    with recording():
        outcome = solve(problem, Budget(SOLVE_SECONDS), params)
    return (outcome.objective or None) if outcome.program_proven else None
