"""A study of 240 short solves, each of which can be told apart: for runs that are stopped midway."""

from pathlib import Path

PROBLEM = (Path(__file__).parents[3] / "data" / "problems" / "gemm.yaml").read_text(encoding="utf-8")
SOLVES = 240


def many_solves(name: str) -> str:
    """The study file; its network is ``problem.yaml``, PROBLEM, beside it."""
    return f"""
name: {name}
networks: [problem.yaml]
architecture: eyeriss
axes:
  SRAM.size: {{from: 2, to: 61, step: 1, unit: KiB}}
  SRAM.fanout: {{choices: [[2, 2], [4, 2], [2, 4], [4, 4]]}}
mapping: {{solver: random_search, objective: edp, iterations: 40, wall_seconds: 20}}
"""
