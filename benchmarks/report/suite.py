"""The benchmarks of BENCHMARKS.md in their order: what runs with which arguments, and what is shown of it.

Arguments are written as on a command line; words in braces are the files and folders of :mod:`report.inputs`.
``quick`` runs take about twenty CPU minutes together, ``full`` ones hours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from report import headlines, shown_kapla, shown_plans, shown_proofs, shown_speed
from report.table import Table, plain_tables

Effort = Literal["quick", "full"]
EFFORTS: tuple[Effort, ...] = ("quick", "full")


@dataclass(frozen=True)
class Entry:
    """One run of one benchmark; ``full`` arguments are the quick ones where nothing else is said.

    ``published`` are beginnings of keys in published.yaml whose numbers stand below the tables.
    """

    name: str
    title: str
    program: str
    quick: str
    tables: Callable[[Any], Iterable[Table]]
    full: str | None = None
    published: tuple[str, ...] = ()
    headline: Callable[[Any], str] | None = None

    def arguments(self, effort: Effort) -> str:
        return self.quick if effort == "quick" or self.full is None else self.full


CONFORMANCE = (
    Entry(
        "conformance",
        "Timeloop's counts reproduced",
        "conformance",
        "{timeloop}",
        shown_proofs.conformance,
        headline=headlines.conformance,
    ),
    Entry(
        "set_conformance",
        "Counts of SET's released evaluator reproduced",
        "set_conformance",
        "{set}",
        shown_proofs.set_conformance,
        headline=headlines.set_conformance,
    ),
    Entry(
        "kapla_conformance",
        "nn-dataflow's layer schemes and training graphs reproduced",
        "kapla_conformance",
        "{kapla}",
        shown_proofs.kapla_conformance,
        headline=headlines.kapla_conformance,
    ),
    Entry(
        "silicon_chips",
        "Eyeriss, NVDLA's sheet and layer-fused chips",
        "silicon_chips",
        "",
        shown_proofs.silicon_chips,
        full="--fit",
        headline=headlines.silicon_chips,
    ),
    Entry(
        "gemmini_mappings",
        "The least timed cycles on Gemmini beside its RTL",
        "gemmini_mappings",
        "",
        shown_proofs.gemmini_mappings,
        headline=headlines.gemmini_mappings,
    ),
)
PROOFS = (
    *(
        Entry(
            f"exact_attack_{kind}",
            f"Proven optima against the enumeration of small problems: {kind}",
            "exact_attack",
            f"--kind {kind} --seed {seed} --problems {few} --limit 20000",
            shown_proofs.attack,
            headline=headlines.attack,
            full=f"--kind {kind} --seed {seed} --problems {many} --limit 60000",
        )
        for kind, seed, few, many in (
            ("library", 102, 40, 300),
            ("constrained", 300, 20, 150),
            ("invented", 200, 20, 150),
        )
    ),
    Entry(
        "exact_bounds",
        "Proven bounds against random mappings and descents",
        "exact_attack",
        "--bounds --mappings 50000 --solvers cosa exact",
        shown_proofs.attack,
        headline=headlines.attack,
        full="--bounds --mappings 1000000",
    ),
    Entry(
        "uneven_attack",
        "Optima of uneven mappings against enumeration",
        "uneven",
        "--attack --problems 3 --limit 2000",
        shown_proofs.attack,
        headline=headlines.attack,
        full="--attack --seed 10 --problems 300 --limit 7000",
    ),
    Entry(
        "chip_bounds",
        "Bounds of schedules against random and annealed trees",
        "chip_bounds",
        "--draws 2000 --beta 1",
        shown_proofs.chip_bounds,
        headline=headlines.chip_bounds,
        full="",
    ),
    Entry(
        "chip_bounds_alone",
        "The same with layers alone on the chip and a training step",
        "chip_bounds",
        "--chip set-edge-eyeriss --network kapla-alexnet.training --batch 4 --draws 60 --alone kapla",
        shown_proofs.chip_bounds,
        headline=headlines.chip_bounds,
    ),
    Entry(
        "layers_alone",
        "Layers alone on a chip: energy that mapping solvers see over energy that counts",
        "layers_alone",
        "",
        plain_tables,
    ),
)
MAPPINGS = (
    Entry(
        "exact_peers",
        "Proven optima beside AccelForge and ZigZag",
        "exact_quality",
        "--peers --wall-seconds 10",
        shown_proofs.exact_peers,
        headline=headlines.exact_peers,
        full="--peers",
        published=("peers/",),
    ),
    Entry(
        "exact_quality",
        "Proven optima on layers of networks, and how far others are from them",
        "exact_quality",
        "--every 24 --objectives energy edp --others cosa random_search thistle kapla",
        shown_proofs.exact_quality,
        headline=headlines.exact_quality,
        full="--wall-seconds 200 --others cosa random_search thistle kapla",
    ),
    Entry(
        "portfolio",
        "auto beside the best of its members",
        "portfolio",
        "--groups resnet18 resnet50 bert_base --every 12 --architecture eyeriss tpu-like --wall-seconds 10",
        shown_proofs.portfolio,
        headline=headlines.portfolio,
        full="",
    ),
    Entry(
        "cosa_quality",
        "CoSA on its paper's networks",
        "cosa_quality",
        "--every 6 --multiples 1 10",
        shown_proofs.cosa_quality,
        headline=headlines.cosa_quality,
        full="",
    ),
    Entry(
        "thistle_mapping",
        "Thistle on the layers of its Table II",
        "thistle_mapping",
        "--draws 20000 --exact 10",
        shown_proofs.thistle_mapping,
        headline=headlines.thistle_mapping,
        full="--exact 20",
        published=("thistle/eyeriss",),
    ),
    Entry(
        "thistle_paper",
        "Thistle's figures",
        "thistle_paper",
        "--networks thistle_resnet18 --every 4 --draws 20000 --objectives energy --output {scratch}",
        shown_proofs.thistle_paper,
        full="--output {scratch}",
        published=("thistle/",),
    ),
    Entry(
        "kapla_mapping",
        "KAPLA's layer solver, variant by variant, over the proven optimum",
        "kapla_mapping",
        "--every 24 --objectives energy edp",
        plain_tables,
        full="--every 2",
    ),
    Entry(
        "fusion",
        "Chains of einsums mapped together",
        "fusion",
        "--slack 4",
        plain_tables,
        published=("fusion/",),
    ),
    Entry(
        "learned_annealing",
        "What a learned model is worth to a mapping search",
        "learned_annealing",
        "--every 24 --architecture eyeriss --objectives energy --devices kapla-edge --networks mlp",
        plain_tables,
        full="",
    ),
    Entry(
        "padding",
        "What padding is worth",
        "padding",
        "--objectives energy --wall-seconds 5",
        shown_proofs.padding,
        full="",
    ),
    Entry(
        "uneven",
        "What uneven mappings gain",
        "uneven",
        "--networks vit_b_16 --architecture eyeriss --objectives edp --wall-seconds 10",
        shown_proofs.uneven,
        full="--wall-seconds 60",
    ),
)
PLANS = (
    Entry(
        "scratchpad",
        "COSMA: scratchpad plans",
        "scratchpad",
        "--graphs {graphs} --only human --cpu-clock",
        shown_plans.scratchpad,
        headline=headlines.scratchpad,
        full="--graphs {graphs} --cpu-clock",
        published=("cosma/mean_seconds", "cosma/deeplab_seconds"),
    ),
    Entry(
        "cosma_paper",
        "COSMA's figures",
        "cosma_paper",
        "--graphs {graphs} --cpu-clock --wall-seconds 20 --output {scratch}",
        shown_plans.cosma_paper,
        full="--graphs {graphs} --cpu-clock --output {scratch}",
        published=("cosma/reduction", "cosma/nas_reduction"),
    ),
    Entry(
        "cuts",
        "COSMA: operators cut to fit",
        "cuts",
        "--cpu-clock --wall-seconds 20 --networks resnet50 mobilenet_v2 --kib 128 256",
        shown_plans.cuts,
        headline=headlines.cuts,
        full="--cpu-clock --wall-seconds 120 --networks resnet50 mobilenet_v2 vgg16 efficientnet_b0"
        " darts.fused pnasnet5_large.fused nasnet_a_large.fused amoebanet_d.fused",
    ),
    Entry(
        "packing",
        "Allocation alone",
        "packing",
        "--folder {packing} --seeds 1 --cpu-clock",
        shown_plans.packing,
        headline=headlines.packing,
        full="--folder {packing} --seeds 3 --cpu-clock",
        published=("packing/",),
    ),
)
SCHEDULES = (
    *(
        Entry(
            f"set_annealing_{network}",
            f"SET's annealer as the released program counts: {network}",
            "set_annealing",
            f"--network {network} --seeds {seeds}",
            shown_plans.set_annealing,
            headline=headlines.set_annealing,
            full=f"--network {network}",
        )
        for network, seeds in (("resnet", 5), ("goog", 2))
    ),
    Entry(
        "set_annealing_chips",
        "SET's annealer under the chip model: CPU ms a round",
        "set_annealing",
        "--chips set-edge set-cloud",
        plain_tables,
    ),
    Entry(
        "set_paper",
        "SET against LP and LS under the chip model",
        "set_paper",
        "--networks resnet --batches 8 --beta 3 --seeds 2 --trees 0 --jobs 1",
        shown_plans.set_paper,
        full="--trees 0 --seeds 5 --networks resnet goog ires trans pnas --batches 8 64",
        published=("set/paper/",),
    ),
    Entry(
        "tile_tables",
        "Tile cost tables",
        "tile_tables",
        "--sample 20 --solvers nvdla cosa kapla exact",
        shown_plans.tile_tables,
        full="",
    ),
    Entry(
        "kapla_schedule",
        "KAPLA's chains of segments against all chains",
        "kapla_schedule",
        "--networks set-googlenet --batches 8 --no-annealing",
        plain_tables,
        full="",
    ),
    Entry(
        "exhaustive_schedules",
        "Schedulers against the best of all trees",
        "exhaustive_schedules",
        "--beta 100",
        plain_tables,
        full="--objectives edp energy cycles",
    ),
    Entry(
        "replay",
        "Schedules replayed event by event",
        "replay",
        "--beta 5",
        plain_tables,
        full="--platforms edge cloud --batches 1 8 64 --beta 50"
        " --networks set-resnet50 set-googlenet kapla-mobilenet set-transformer-cell",
    ),
    Entry(
        "kapla_paper",
        "KAPLA's evaluation",
        "kapla_paper",
        "--networks mlp lstm --parts fig7 fig10 whole --exact-networks mlp --wall-seconds 5"
        " --cells {scratch}/kapla_paper.jsonl",
        shown_kapla.kapla_paper,
        full="--cells {scratch}/kapla_paper.jsonl",
        published=("kapla/",),
    ),
)
SEARCHES = (
    Entry(
        "search_quality",
        "Searches of design spaces whose whole front is known",
        "search_quality",
        "--spaces eyeriss --layers 1 --seeds 2 --methods random tpe 'tpe, warm start, bounds'",
        shown_plans.search_quality,
        headline=headlines.search_quality,
        full="",
    ),
)
SPEED = (
    Entry(
        "product",
        "The product as a stranger meets it",
        "product",
        "--install",
        shown_speed.product,
        headline=headlines.product,
    ),
    Entry(
        "batch_throughput",
        "Mappings evaluated a second on one core",
        "batch_throughput",
        "--repeat 3",
        shown_speed.batch_throughput,
        headline=headlines.batch_throughput,
        full="",
    ),
    Entry(
        "store",
        "The results store",
        "store",
        "--rows 30000",
        shown_speed.store,
        full="",
        headline=headlines.store,
    ),
    Entry(
        "store_growth",
        "A store that grows",
        "store_growth",
        "--designs 10000",
        shown_speed.store_growth,
        headline=headlines.store_growth,
        full="--designs 100000",
    ),
    Entry(
        "large_runs",
        "A large run read",
        "large_runs",
        "--designs 20000 --layers 5 --lookups 20000",
        shown_speed.large_runs,
        headline=headlines.large_runs,
        full="",
    ),
)
SCALING = (
    Entry(
        "decoders",
        "Llama-3-8B: all layers, and 100 designs x 4 phases",
        "decoders",
        "",
        shown_speed.decoders,
        headline=headlines.decoders,
    ),
    Entry(
        "study",
        "A study on two workers",
        "study",
        "--designs 60",
        shown_speed.study,
        full="",
        headline=headlines.study,
    ),
    Entry(
        "dispatch_rate",
        "Handing out work",
        "dispatch_rate",
        "--items 200 --no-ops 20000",
        shown_speed.dispatch_rate,
        full="",
    ),
    Entry(
        "scaling",
        "Efficiency on more workers",
        "scaling",
        "--items 100 --tasks 20000",
        shown_speed.scaling,
        full="",
    ),
    Entry(
        "blocks",
        "Solves in blocks",
        "blocks",
        "--designs 5000 --validate",
        shown_speed.blocks,
        headline=headlines.blocks,
    ),
    Entry("block_costs", "What a block and a share cost", "block_costs", "", shown_speed.block_costs),
    Entry("submit", "From submit to results", "submit", "", shown_speed.submit),
)
FAULTS = (
    Entry(
        "faults",
        "Faults in the middle of a study of 240 solves",
        "faults",
        "",
        shown_speed.faults,
        headline=headlines.faults,
    ),
)

SECTIONS: dict[str, tuple[Entry, ...]] = {
    "Conformance": CONFORMANCE,
    "Proofs attacked": PROOFS,
    "Mappings: against proven bounds and against others": MAPPINGS,
    "Scratchpad plans": PLANS,
    "Schedules": SCHEDULES,
    "Design-space search": SEARCHES,
    "Speed": SPEED,
    "Scaling": SCALING,
    "Faults": FAULTS,
}
ENTRIES = tuple(entry for entries in SECTIONS.values() for entry in entries)

LEFT_OUT = {
    "fidelity": "its table stands in docs/search.md: mapping three whole grids exactly takes many minutes",
    "soak": "it is of hours: a million solves with a worker killed every minute, whose rows have to be whole",
    "schedule_gaps": "its annealings of the library's studies take many minutes; chip_bounds attacks bounds",
    "schedule_portfolio": "each scheduler has as long as all together, which takes many minutes",
    "silicon": "its numbers stand in docs/silicon.md beside what does not fit and why",
    "thistle_cvxpy": "it decides between two ways to solve the same programs, and says nothing about results",
    "write_benchmarks": "it runs the others and writes BENCHMARKS.md",
}
"""Programs of this folder that no entry runs, and why."""
