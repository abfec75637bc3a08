"""COSMA's evaluation (Li, Gupta and Malik, arXiv 2311.18246, section V): plans of fourteen networks.

Ten networks were designed by people; they are planned with and without parameters. Four are from architecture
search. Each is planned at three scratchpad sizes, which section V-A calls MR, MH and MP. The solver ``cosma``
is compared with the paper's four schemes, and on searched networks also with its two heuristics.

The paper does not say how far its graphs were fused. The figures here are made of fused graphs, and with full
effort also of *raw* graphs, which have an operator for every ATen operation.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import asdict, replace
from functools import cache
from statistics import fmean
from typing import Any

from costmodel.formats.networks import load_network
from costmodel.formats.torch_export import FORMS
from costmodel.scratchpad.graph import OperatorGraph, ScratchpadSettings, operator_graph
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.scratchpad.budgets import NAMES, budget_bytes
from sweep.papers.cosma_cases import (
    HEURISTICS,
    SCHEMES,
    Approach,
    ApproachAnswer,
    CosmaCase,
    claims,
    must_move,
    reduction_rows,
)
from sweep.papers.paper import (
    Bars,
    Effort,
    FigureTable,
    LayerRows,
    Paper,
    PaperFigure,
    PaperSolves,
)
from sweep.study.identity import canonical_json
from sweep.tasks.kinds import PaperTask
from sweep.tasks.scratchpad import PlannedGraph, ScratchpadSolve, ScratchpadTask

# Networks by their names in the library, where each is there in two forms: NAME.fused and NAME.raw.
HUMAN = (
    "resnet50",
    "densenet121",
    "resnext50_32x4d",
    "r2plus1d_18",
    "s3d",
    "fcn_resnet50",
    "lraspp_mobilenet_v3",
    "deeplabv3_resnet50",
    "transformer",
    "vit_b_16",
)
SEARCHED = ("pnasnet5_large", "amoebanet_d", "nasnet_a_large", "darts")
QUICK_SEARCHED = ("amoebanet_d", "darts")
WALL_SECONDS = 60.0
"""Seconds on the clock for one plan; the paper stops after a day."""
PEAK_SECONDS = 60.0
"""Seconds on the clock for the least peak of a graph, from which the sizes MH and MP follow."""

PAPER_SECONDS: dict[str, dict[str, tuple[float, float, float]]] = {
    "pnasnet5_large": {
        "FS (default)": (12.2, 12.3, 12.2),
        "FS (MPMF)": (24.2, 22.4, 23.5),
        "DnC": (65.9, 63.5, 58.0),
    },
    "amoebanet_d": {
        "FS (default)": (8.1, 8.3, 8.1),
        "FS (MPMF)": (84.4, 8.2, 8.5),
        "DnC": (62.1, 59.9, 112.8),
    },
    "nasnet_a_large": {
        "FS (default)": (19.8, 20.0, 19.7),
        "FS (MPMF)": (22.4, 22.4, 21.6),
        "DnC": (37.5, 22.9, 39.2),
    },
    "darts": {
        "FS (default)": (5.0, 5.0, 5.0),
        "FS (MPMF)": (5.2, 5.2, 5.2),
        "DnC": (19.1, 19.1, 19.1),
    },
}
"""Table II: the paper's seconds at MR, MH and MP, by network and approach."""

COSMA: dict[str, Approach] = {"cosma": ("cosma", {})}
"""The approach that is compared with all others; they are in ``cosma_cases.py``."""
VARIANTS = (
    "The paper says neither how far its graphs were fused nor which variants of its networks it took, so the "
    "bytes of single bars are not comparable."
)
BARS = "Bars' heights are not in the text that this was made from, so none stands beside ours."
FUSED_ONLY = "Quick: fused graphs; --effort full adds those with an operator for every ATen operation."
FEWER = "Quick: AmoebaNet-D and DARTS; --effort full adds PNASNet-5, NASNet-A, and graphs that are not fused."


def forms(effort: Effort) -> tuple[str, ...]:
    """The forms of graphs: fused, and with full effort raw as well."""
    return FORMS if effort == "full" else FORMS[:1]


def searched(effort: Effort) -> tuple[str, ...]:
    """The networks from architecture search."""
    return SEARCHED if effort == "full" else QUICK_SEARCHED


def settings(parameters: bool) -> tuple[str, ...]:
    """The paper's names of the three sizes (section V-A): MR, MH and MP, with parameters MRp, MHp and MPp."""
    return tuple(f"{level}p" if parameters else level for level in NAMES)


@cache
def planned(name: str, parameters: bool) -> PlannedGraph:
    """The graph of a network as tasks have it, with or without its parameters in the scratchpad."""
    graph: OperatorGraph = operator_graph(load_network(name), ScratchpadSettings(parameters=parameters))
    return PlannedGraph(replace(graph, name=name))


@cache
def tasks(name: str, parameters: bool, heuristics: bool) -> dict[Hashable, PaperTask]:
    """The solves of one graph at its three sizes, by (graph, setting, approach)."""
    graph = planned(name, parameters)
    approaches = COSMA | (HEURISTICS if heuristics else {}) | SCHEMES
    found: dict[Hashable, PaperTask] = {}
    for level, setting in zip(NAMES, settings(parameters), strict=True):
        size = budget_bytes(graph.graph, level, PEAK_SECONDS).size_bytes
        for approach, (solver_name, params) in approaches.items():
            stated = canonical_json(asdict(solver(solver_name).load().Params(**params)))
            solve = ScratchpadSolve(solver_name, stated, Budget(WALL_SECONDS))
            found[name, setting, approach] = ScratchpadTask(graph, size, solve)
    return found


def solves(effort: Effort, rows: ReadOnlyDict[str, LayerRows]) -> Iterator[PaperSolves]:
    """The solves of Figure 3, then those of Table II and Figure 4, as far as ``rows`` lacks them."""
    for form in forms(effort):
        graphs = [f"{name}.{form}" for name in HUMAN]
        if f"human-{form}" not in rows:
            every = [tasks(graph, parameters, False) for graph in graphs for parameters in (False, True)]
            yield PaperSolves(f"human-{form}", _joined(every))
        if f"searched-{form}" not in rows:
            every = [tasks(f"{name}.{form}", False, True) for name in searched(effort)]
            yield PaperSolves(f"searched-{form}", _joined(every))


def _joined(parts: Sequence[dict[Hashable, PaperTask]]) -> dict[Hashable, PaperTask]:
    return {label: task for part in parts for label, task in part.items()}


def cases_of(rows: LayerRows) -> list[CosmaCase]:
    """The rows as cases, in their order. Answers without a plan are left out, and cases without cosma's."""
    found: dict[tuple[str, str], CosmaCase] = {}
    for (graph, setting, approach), row in rows.items():
        if row["objective_bytes"] is None:
            continue
        key = graph, setting
        found.setdefault(key, CosmaCase(graph, setting, len(row["block_bytes"]), row["budget_bytes"], ""))
        answer = ApproachAnswer(row["objective_bytes"], row["bound_bytes"], row["status"], row["cpu_seconds"])
        found[key].found[approach] = answer
    return [case for case in found.values() if "cosma" in case.found]


def _cases(rows: ReadOnlyDict[str, LayerRows], effort: Effort, kind: str) -> list[list[CosmaCase]]:
    """The cases of the networks of a ``kind`` (human or searched), a list for each form of graphs."""
    return [cases_of(rows[f"{kind}-{form}"]) for form in forms(effort)]


def _cell(case: CosmaCase, approach: str) -> str | float:
    """MB that an approach moves."""
    found = case.found.get(approach)
    return "no plan" if found is None or found.objective_bytes is None else found.objective_bytes / 1e6


def bytes_table(cases: Sequence[CosmaCase], approaches: Sequence[str], remarks: Sequence[str]) -> FigureTable:
    """MB that each approach moves beyond the compulsory ones, for each graph and size, with bars of all."""
    headers = ("graph", "budget", "budget MB", *approaches, "proven")
    table = tuple(
        (
            case.network,
            case.setting,
            case.budget_bytes / 1e6,
            *(_cell(case, approach) for approach in approaches),
            str(case.found["cosma"]),
        )
        for case in cases
    )
    labels = tuple(f"{case.network} {case.setting}" for case in cases)
    series = {
        approach: tuple(value if isinstance(value := _cell(c, approach), float) else 0.0 for c in cases)
        for approach in approaches
    }
    return FigureTable(headers, table, (VARIANTS, BARS, *remarks), Bars("MB off chip", labels, series))


def figure_3(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """Figure 3: bytes of cosma and of the four schemes, networks designed by people."""
    cases = [case for some in _cases(rows, effort, "human") for case in some]
    remarks = () if effort == "full" else (FUSED_ONLY,)
    return bytes_table(cases, (*COSMA, *SCHEMES), remarks)


def figure_4(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """Figure 4: bytes of cosma, of its heuristics and of the four schemes, searched networks."""
    cases = [case for some in _cases(rows, effort, "searched") for case in some]
    remarks = () if effort == "full" else (FEWER,)
    return bytes_table(cases, (*COSMA, *HEURISTICS, *SCHEMES), remarks)


def means(cases: Sequence[CosmaCase], form: str, approach: str) -> Iterator[tuple[str | float, ...]]:
    """By how much less an approach moves than the schemes on average, in per cent, for each size and for all.

    The first mean is over all cases in which a scheme moves anything. The second leaves out the cases whose
    optimum is 0 bytes.
    """
    every = reduction_rows(cases, approach)
    moving = reduction_rows(must_move(cases), approach)
    for setting, row in every.items():
        mean = row["all"]
        own = moving.get(setting, {}).get("all") if setting != "all" else moving["all"]["all"]
        count = sum(setting in (case.setting, "all") for case in must_move(cases))
        yield (
            form,
            approach,
            setting,
            "-" if mean is None else 100 * mean,
            "-" if own is None else 100 * own,
            float(count),
        )


# the headers of what ``means`` yields
MEANS = (
    "graphs",
    "approach",
    "budget",
    "% less than the schemes",
    "% less where the optimum is not 0",
    "cases of these",
)


def human_means(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """The paper's mean over the cases of Figure 3."""
    table = [
        row
        for form, cases in zip(forms(effort), _cases(rows, effort, "human"), strict=True)
        for row in means(cases, form, "cosma")
    ]
    remarks = (
        "The paper: 84 % less on average, under the tightest budget and overall (abstract, section V-B2).",
        "Where the optimum is 0 bytes a reduction is 100 %, however little a scheme moves: the second mean "
        "leaves these cases out. The paper does not say what its mean does with them.",
        VARIANTS,
    )
    return FigureTable(MEANS, tuple(table), remarks if effort == "full" else (*remarks, FUSED_ONLY))


def searched_means(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """The paper's mean over the cases of Figure 4."""
    table = [
        row
        for form, cases in zip(forms(effort), _cases(rows, effort, "searched"), strict=True)
        for approach in ("cosma", *HEURISTICS)
        for row in means(cases, form, approach)
    ]
    remarks = (
        "The paper: divide and conquer moves 85 % less on average (abstract). A fixed order is compared with "
        "the schemes of the same order.",
        VARIANTS,
    )
    return FigureTable(MEANS, tuple(table), remarks if effort == "full" else (*remarks, FEWER))


PAPER_CLAIMS = {
    "cosma moves nothing at MP": "always (section V-B2)",
    "no scheme moves anything at MP": "FCN only (section V-B2)",
    "cosma moves less than default, Belady": "always",
    "cosma moves less than default, greedy": "always",
    "cosma moves less than MPMF, Belady": "always",
    "cosma moves less than MPMF, greedy": "always",
    "default: Belady moves more than greedy": "yes (section V-B2)",
    "MPMF: Belady moves more than greedy": "yes (section V-B2)",
    "Belady: MPMF moves less than default": "yes (section V-B2)",
    "greedy: MPMF moves less than default": "yes (section V-B2)",
}
"""What the paper says of each claim that is counted."""


def human_claims(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """In how many cases of Figure 3 each statement of section V-B2 holds."""
    counted = [claims(cases) for cases in _cases(rows, effort, "human")]
    table = tuple(
        (claim, *(found[claim] for found in counted), PAPER_CLAIMS.get(claim, "-")) for claim in counted[0]
    )
    remark = (
        "Not reproduced: that Belady's policy is the worse one, and that FCN is the one graph whose schemes "
        "move nothing at MP. The paper's greedy policy is an integer program and its arena TensorFlow "
        "Lite's, of which it gives no details; ours are an exact choice for one step and the tightest gap."
    )
    return FigureTable(
        ("statement", *(f"{form} graphs" for form in forms(effort)), "paper"), table, (remark,)
    )


def times(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """Section V-B1: seconds that cosma takes for the networks designed by people."""
    table: list[tuple[str | float, ...]] = []
    for form, cases in zip(forms(effort), _cases(rows, effort, "human"), strict=True):
        for name, some in (
            ("all but DeepLabV3 with parameters", [c for c in cases if not _deep_lab(c)]),
            ("DeepLabV3 with parameters, MRp and MHp", [c for c in cases if _deep_lab(c)]),
        ):
            if not some:
                continue
            seconds = [case.found["cosma"].cpu_seconds for case in some]
            proven = sum(case.found["cosma"].status == "optimal" for case in some)
            says = "0.296 on average" if name.startswith("all") else "6.96 and 17.242"
            table.append((form, name, float(len(some)), float(proven), fmean(seconds), max(seconds), says))
    headers = ("graphs", "cases", "number", "proven", "mean CPU s", "most CPU s", "the paper's s")
    remark = (
        "Not comparable: seconds are of another machine, of Gurobi on the paper's program, and of graphs "
        "that may be others; ours are a best-first search, an exact replacement and a complete packing, "
        "with a proof."
    )
    return FigureTable(headers, tuple(table), (remark,))


def _deep_lab(case: CosmaCase) -> bool:
    """Whether it is one of the two cases whose times the paper states by themselves."""
    return case.network.startswith("deeplabv3") and case.setting in ("MRp", "MHp")


def table_2(rows: ReadOnlyDict[str, LayerRows], effort: Effort) -> FigureTable:
    """CPU seconds of the heuristics and of cosma, with the paper's beside them."""
    table: list[tuple[str | float, ...]] = []
    for case in [case for some in _cases(rows, effort, "searched") for case in some]:
        known = PAPER_SECONDS[case.network.partition(".")[0]]
        row: list[str | float] = [case.network, case.setting]
        for approach in HEURISTICS:
            row += [case.found[approach].cpu_seconds, known[approach][NAMES.index(case.setting)]]
        table.append((*row, case.found["cosma"].cpu_seconds, str(case.found["cosma"].status)))
    headers = [f"{approach}{whose}" for approach in HEURISTICS for whose in (", CPU s", ", paper's s")]
    remarks = (
        "Not comparable: seconds are of another machine and solver. FS with MPMF takes an exact order of "
        "least peak where the paper has HMCOS find one, and its seconds include that search.",
        "The paper's program solves none of these graphs within a day, and it does not time it on them: the "
        "column of cosma has no counterpart. DnC finds its break nodes itself; the paper chose them by hand.",
    )
    shown = remarks if effort == "full" else (*remarks, FEWER)
    return FigureTable(("graph", "budget", *headers, "cosma, CPU s", "cosma"), tuple(table), shown)


def needed(kind: str) -> tuple[str, ...]:
    """The keys of the solves of all forms. With quick effort those of raw graphs are never made."""
    return tuple(f"{kind}-{form}" for form in FORMS)


def networks(effort: Effort) -> tuple[str, ...]:
    """None: no study maps layers."""
    return ()


def studies(effort: Effort) -> Sequence[Any]:
    return ()


FIGURES = (
    PaperFigure("3", "Bytes moved, networks designed by people", needed("human"), figure_3),
    PaperFigure("3-means", "Mean reduction against the four schemes", needed("human"), human_means),
    PaperFigure("3-claims", "What section V-B2 says, counted", needed("human"), human_claims),
    PaperFigure("times", "Time to solution, section V-B1", needed("human"), times),
    PaperFigure("table-2", "Time to solution, searched networks", needed("searched"), table_2),
    PaperFigure("4", "Bytes moved, searched networks", needed("searched"), figure_4),
    PaperFigure("4-means", "Mean reduction, searched networks", needed("searched"), searched_means),
    PaperFigure(
        "break-nodes",
        "Divide and conquer with the paper's break nodes",
        not_reproduced="the paper does not name the operators that it chose. Break nodes of one's own: "
        "archsweep solve scratchpad --solver divide --params '{\"break_nodes\": [...]}'.",
    ),
)

COSMA_PAPER = Paper(
    "cosma",
    "COSMA: Combined Scheduling, Memory Allocation and Tensor Replacement (Li et al., arXiv 2311.18246)",
    studies,
    networks,
    FIGURES,
    lambda effort, rows: list(solves(effort, rows)),
)
