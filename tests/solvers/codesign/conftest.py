"""Problems small enough to enumerate, on the Eyeriss family."""

from __future__ import annotations

import pytest

from costmodel.workload.network import convolution, gemm
from solvers.codesign.family import ArchitectureFamily
from solvers.codesign.problem import CodesignProblem

SMALL_AREA_UM2 = 60_000.0


@pytest.fixture(scope="session")
def eyeriss() -> ArchitectureFamily:
    return ArchitectureFamily("eyeriss")


@pytest.fixture(scope="session")
def product_problem(eyeriss: ArchitectureFamily) -> CodesignProblem:
    """One matrix product in a small area."""
    return CodesignProblem.of(eyeriss, [gemm("product", M=16, N=12, K=32)], SMALL_AREA_UM2)


@pytest.fixture(scope="session")
def network_problem(eyeriss: ArchitectureFamily) -> CodesignProblem:
    """Three layers, one of them twice and one with a stride."""
    layers = [
        convolution("wide", K=8, C=4, P=8, Q=8, R=3, S=3),
        convolution("strided", K=16, C=8, P=4, Q=4, R=1, S=1, stride=(2, 2)),
        convolution("again", K=8, C=4, P=8, Q=8, R=3, S=3),
        gemm("product", M=4, N=32, K=64),
    ]
    return CodesignProblem.of(eyeriss, layers, SMALL_AREA_UM2)
