"""The files of released tools that `archsweep evaluate` counts: the only module here that commands use."""

from __future__ import annotations

from pathlib import Path

from costmodel.formats.evaluated_files import EvaluatedFile, Line, Lines, counts_text
from costmodel.published.nn_dataflow.cases import evaluated_line as scheme_line
from costmodel.published.nn_dataflow.cases import is_scheme_file, read_schemes
from costmodel.published.set_isca2023.cases import evaluated_line as tree_line
from costmodel.published.set_isca2023.cases import is_tree_file, read_trees


def _trees(path: Path) -> Lines:
    """The lines of a file of RA trees, counted as the released SET evaluator does."""
    for case in read_trees(path):
        line = tree_line(case)
        yield line, counts_text(f"{case.graph.name} batch {case.batch}", line)


def _schemes(path: Path) -> Lines:
    """The lines of a file of layer schemes, counted as nn-dataflow does."""
    for case in read_schemes(path):
        line = scheme_line(case)
        yield line, _scheme(line)


def _scheme(line: Line) -> str:
    name = f"{line['net']}/{line['layer']}"
    if "not_possible" in line:
        return f"{name}  {line['not_possible']}"
    dram = sum(line["access"]["DRAM"].values())
    return f"{name}  {line['time_cycles']} cycles  energy {line['energy_j']:.6g}  {dram:.0f} DRAM words"


PUBLISHED_FILES = (
    EvaluatedFile("RA trees", is_tree_file, _trees),
    EvaluatedFile("nn-dataflow's schemes", is_scheme_file, _schemes),
)
