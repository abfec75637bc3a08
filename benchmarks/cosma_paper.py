"""Figure 3, Table II and Figure 4 of COSMA's paper (arXiv 2311.18246) from our own solvers.

    python benchmarks/cosma_paper.py [--graphs FOLDER] [--raw] [--figures 3 4] [--networks NAME ...]
        [--wall-seconds 60] [--cpu-clock] [--output FOLDER]

The networks are those that came with archsweep, exported from torchvision, timm and the like. FOLDER holds
others: NETWORK.raw.json.gz with an operator for every ATen operation (taken with --raw), NETWORK.json.gz
with batch normalisation and unary operators fused into their producers, which is made of the former where
it is missing. A network without a file is left out, and said.

Figure 3: ten networks in six settings (budgets MR, MH, MP for activations only; MRp, MHp, MPp with
parameters): bytes moved off chip beyond the compulsory ones, by cosma and by the paper's four schemes, and
cosma's time to solution. Table II and Figure 4: four networks from architecture search, activations only:
time and bytes of a fixed order (FS), of divide and conquer (DnC) and of cosma.

Times are CPU seconds on one core, those of FS with MPMF and of the schemes with their search for the order of
minimum peak. Every solve has --wall-seconds; with --cpu-clock these are CPU seconds, for a machine that
others use too. Writes a page of charts into the output folder (runs/cosma_paper) and prints tables, then one
JSON object.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import record
from cosma_cases import figure_3, figure_4, network_of
from published import under
from scratchpad import HUMAN, warm_up

from costmodel.formats.torch_export import EXPORTED
from costmodel.workload.network import Network
from solvers.budget import Budget, Stopwatch
from solvers.scratchpad.budgets import NAMES
from sweep.papers.cosma_cases import HEURISTICS, ApproachAnswer, CosmaCase, reduction_rows, summary

NAS = ("pnasnet5_large", "amoebanet_d", "nasnet_a_large", "darts")
COLOURS = {
    "cosma": "#d62728",
    "FS (default)": "#9467bd",
    "FS (MPMF)": "#8c564b",
    "DnC": "#e377c2",
    "default, Belady": "#1f77b4",
    "default, greedy": "#aec7e8",
    "MPMF, Belady": "#2ca02c",
    "MPMF, greedy": "#98df8a",
}


def megabytes(moved: int | None) -> str:
    return "-" if moved is None else f"{moved / 1e6:.3f}"


def show_bytes(title: str, cases: Sequence[CosmaCase]) -> None:
    """A line a case: budget, bytes by approach, and what cosma proved in how long."""
    approaches = list(cases[0].found)
    print(f"\n{title}: MB moved off chip beyond the compulsory")
    print(
        f"{'network':>22} {'setting':>7} {'ops':>5} {'budget':>8}" + "".join(f"{a:>16}" for a in approaches)
    )
    for case in cases:
        numbers = "".join(f"{megabytes(case.bytes_of(a)):>16}" for a in approaches)
        start = f"{case.network:>22} {case.setting:>7} {case.operators:5} {case.budget_bytes / 1e6:8.3f}"
        print(f"{start}{numbers}  {case.found['cosma']} {case.note}")


def show_reductions(title: str, cases: Sequence[CosmaCase], approach: str) -> None:
    rows = reduction_rows(cases, approach)
    print(f"\n{title}: mean reduction by {approach}, of the cases in which a scheme moves anything")
    print(f"{'setting':>8}" + "".join(f"{name:>17}" for name in rows["all"]))
    for setting, means in rows.items():
        shown = ("-" if value is None else f"{value:.1%}" for value in means.values())
        print(f"{setting:>8}" + "".join(f"{text:>17}" for text in shown))


def show_table_ii(cases: Sequence[CosmaCase]) -> None:
    print("\nTable II: time to solution, CPU s (the paper's s)")
    approaches = (*HEURISTICS, "cosma")
    print(f"{'network':>16} {'budget':>6}" + "".join(f"{name:>20}" for name in approaches))
    for case in cases:
        paper = under(f"cosma/table_2/{case.network}/")
        texts = []
        for name in approaches:
            known = paper[name].values[NAMES.index(case.setting)] if name in paper else "-"
            texts.append(f"{case.found[name].cpu_seconds:.2f} ({known})")
        print(f"{case.network:>16} {case.setting:>6}" + "".join(f"{text:>20}" for text in texts))


def bars(
    title: str, cases: Sequence[CosmaCase], value: Callable[[ApproachAnswer], float | None], unit: str
) -> str:
    """A panel a network: groups of bars over the settings, one colour an approach."""
    from plotly.graph_objects import Bar
    from plotly.subplots import make_subplots

    networks = list(dict.fromkeys(case.network for case in cases))
    lines = -(-len(networks) // 2)
    page = make_subplots(rows=lines, cols=2, subplot_titles=networks, vertical_spacing=0.25 / lines)
    for index, network in enumerate(networks):
        mine = [case for case in cases if case.network == network]
        for name in mine[0].found:
            bar = Bar(
                x=[case.setting for case in mine],
                y=[value(case.found[name]) for case in mine],
                name=name,
                legendgroup=name,
                showlegend=index == 0,
                marker_color=COLOURS[name],
            )
            page.add_trace(bar, row=index // 2 + 1, col=index % 2 + 1)
    page.update_yaxes(title=unit, rangemode="tozero")
    page.update_layout(title=title, height=140 + 280 * lines, width=1240, template="plotly_white")
    return str(page.to_html(full_html=False, include_plotlyjs=False))


def page_of(charts: Iterable[str]) -> str:
    """The charts on one page that needs no network."""
    from plotly.offline import get_plotlyjs

    head = f"<meta charset='utf-8'><title>COSMA</title><script>{get_plotlyjs()}</script>"
    return f"<!doctype html><html><head>{head}</head><body>{''.join(charts)}</body></html>"


def charts_of(figure: str, cases: Sequence[CosmaCase]) -> Iterator[str]:
    def moved(found: ApproachAnswer) -> float | None:
        return None if found.objective_bytes is None else found.objective_bytes / 1e6

    yield bars(f"{figure}: bytes moved off chip beyond the compulsory", cases, moved, "MB")
    yield bars(f"{figure}: time to solution", cases, lambda found: found.cpu_seconds, "CPU s")


def existing(
    names: Iterable[str], folder: Path, raw: bool, chosen: Sequence[str] | None
) -> dict[str, Network]:
    """The networks that the folder has; those that it lacks are named on standard error."""
    found = {}
    for name in names:
        if chosen is not None and name not in chosen:
            continue
        network = network_of(folder, name, raw=raw)
        if network is None:
            print(f"{name} is left out: there is no file of it in {folder}", file=sys.stderr)
        else:
            found[name] = network
    return found


def report(figure: str, cases: Sequence[CosmaCase], approaches: Sequence[str]) -> dict[str, Any]:
    """Print the figure's tables; its JSON."""
    show_bytes(figure, cases)
    for approach in approaches:
        show_reductions(figure, cases, approach)
    if "DnC" in approaches:
        show_table_ii(cases)
    found = summary(cases, approaches)
    print()
    for claim, count in found["claims"].items():
        print(f"{claim}: {count}")
    return found | {"cases": [asdict(case) for case in cases]}


def main() -> None:
    parser = record.parser(__doc__)
    parser.add_argument("--graphs", type=Path, default=EXPORTED, metavar="FOLDER")
    parser.add_argument("--raw", action="store_true", help="one operator an ATen operation")
    parser.add_argument("--figures", nargs="+", choices=("3", "4"), default=("3", "4"))
    parser.add_argument("--networks", nargs="+", choices=(*HUMAN, *NAS), metavar="NAME", help="these only")
    parser.add_argument("--wall-seconds", type=float, default=60.0, help="limit of every solve")
    parser.add_argument("--cpu-clock", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("runs/cosma_paper"))
    options = parser.parse_args()
    if options.cpu_clock:
        # Solvers look at the wall clock; on a shared machine a limit in its seconds would be another limit
        # every day.
        Stopwatch.wall_seconds = Stopwatch.cpu_seconds  # type: ignore[method-assign]
    limit = Budget(options.wall_seconds)
    figures = {
        "Figure 3": ("3", HUMAN, figure_3, ("cosma",)),
        "Figure 4": ("4", NAS, figure_4, ("cosma", *HEURISTICS)),
    }
    # Compiles first, or else the first network's seconds would have the compiler's in them.
    warm_up()
    found: dict[str, Any] = {"wall_seconds": options.wall_seconds, "raw": options.raw}
    charts: list[str] = []
    for title, (number, networks, run, approaches) in figures.items():
        there = existing(networks, options.graphs, options.raw, options.networks)
        if number in options.figures and there:
            cases = run(there, limit)
            found[title] = report(title, cases, approaches)
            charts += charts_of(title, cases)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "cosma_paper.html").write_text(page_of(charts), encoding="utf-8")
    record.finish(found, options)


if __name__ == "__main__":
    main()
