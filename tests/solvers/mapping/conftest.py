"""Architectures and layers small enough to look at every mapping."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.workload.network import convolution, gemm
from solvers.mapping.problem import MappingProblem


@pytest.fixture(scope="session")
def two_levels() -> Architecture:
    """A buffer of 24 words over 2 x 2 MAC units, under DRAM; every cost counts."""
    buffer = StorageLevel(
        "Buffer",
        24,
        16,
        1.0,
        1.25,
        1.5,
        fanout_x=2,
        fanout_y=2,
        leakage_pj_per_cycle=0.125,
        read_bandwidth=6.0,
        write_bandwidth=3.0,
    )
    dram = StorageLevel("DRAM", None, 16, 90.0, 80.0, 100.0, block_size=4, shared_bandwidth=1.5)
    return Architecture("two levels", (buffer, dram), Compute("MAC", 16, 0.5))


@pytest.fixture(scope="session")
def three_levels(two_levels: Architecture) -> Architecture:
    """The same with registers of three words below the buffer's fan-out."""
    register = StorageLevel("Register", 3, 16, 0.05, 0.06, 0.07)
    return replace(two_levels, name="three levels", levels=(register, *two_levels.levels))


@pytest.fixture(scope="session")
def small_problem(two_levels: Architecture) -> MappingProblem:
    return MappingProblem(two_levels, gemm("small", M=4, N=6, K=4))


@pytest.fixture(scope="session")
def medium_problem(three_levels: Architecture) -> MappingProblem:
    layer = convolution("medium", K=16, C=12, P=14, Q=7, R=3, S=3, stride=(2, 1))
    return MappingProblem(three_levels, layer, "energy")
