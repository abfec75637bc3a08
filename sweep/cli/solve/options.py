"""The options of ``archsweep solve``: one problem, one answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from costmodel.errors import InputError
from sweep.cli.arguments.dims import Dims, dims_of

if TYPE_CHECKING:
    from solvers.budget import Budget

from sweep.cli.arguments.non_empty import stated_path

solve_app = typer.Typer(help="Solve one problem and print the answer.", no_args_is_help=True)

MOST_WORKERS = 100_000
"""Processes that may be asked for: each has an entry in the driver, and in a forecast an event of its own."""

JsonOut = Annotated[bool, typer.Option("--json", help="Print JSON on standard output and nothing else.")]
Params = Annotated[str, typer.Option(help="The solver's parameters as a JSON object.")]
Seed = Annotated[int, typer.Option(help="Random seed.")]


def _budget(wall_seconds: float, seed: int, iterations: int | None = None) -> Budget:
    """The limits of a solve; InputError names the option that is wrong."""
    from solvers.budget import Budget

    try:
        return Budget(wall_seconds, iterations, seed)
    except InputError as error:  # which names the field of Budget, and users know its option
        option = f"--{error.key.replace('_', '-')}"
        raise InputError(option, error.expected, error.found, error.remedy) from None


@solve_app.command("mapping")
def solve_mapping(
    architecture: Annotated[str, typer.Option(help="A library architecture or a file.")],
    layer: Annotated[
        str,
        typer.Option(help="NETWORK/LAYER (library or file: net.onnx/conv1), a file of one, or inline JSON."),
    ],
    solver: Annotated[str, typer.Option(help="See 'archsweep list solvers'.")] = "exact",
    objective: Annotated[str, typer.Option(help="energy, cycles or edp.")] = "edp",
    wall_seconds: Annotated[float, typer.Option(help="Time limit of the solve.")] = 60.0,
    iterations: Annotated[
        int | None, typer.Option(help="Limit on the solver's own steps, such as samples or rounds.")
    ] = None,
    seed: Seed = 0,
    params: Params = "{}",
    values: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A value of the architecture, as an axis: SRAM.size='64 KiB'; repeated.",
            metavar="KEY=VALUE",
        ),
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="Gap at which a solver that proves bounds stops, as a fraction.")
    ] = None,
    keep: Annotated[str | None, typer.Option(help="What levels keep: fitting, all or free.")] = None,
    padding: Annotated[
        float | None, typer.Option(help="Pad dims by up to this fraction; 0: perfect factors.")
    ] = None,
    constraints: Annotated[
        Path | None,
        typer.Option(
            parser=stated_path,
            metavar="FILE",
            help="YAML with keep, padding, uneven and constraints as in a study, or Timeloop's constraints.",
        ),
    ] = None,
    uneven: Annotated[
        bool | None,
        typer.Option("--uneven", help="Let tensors end their tiles of a level at different loops."),
    ] = None,
    timeloop: Annotated[
        Path | None,
        typer.Option(parser=stated_path, help="Write the mapping as a Timeloop file, too.", metavar="FILE"),
    ] = None,
    timeloop_version: Annotated[str, typer.Option(help="Of that file: 0.3 or 0.4.")] = "0.4",
    gemmini: Annotated[
        Path | None,
        typer.Option(
            parser=stated_path,
            help="Write the mapping as a tiled call of Gemmini's library, too.",
            metavar="FILE",
        ),
    ] = None,
    directives: Annotated[
        Path | None,
        typer.Option(
            parser=stated_path,
            help="Write the mapping as KAPLA's directives, too; archsweep evaluate reads them.",
            metavar="FILE.directives",
        ),
    ] = None,
    program: Annotated[
        Path | None,
        typer.Option(
            parser=stated_path,
            metavar="FILE",
            help="Write what every unit of a mesh of PEs does into this JSON file (.json.gz: gzipped), too; "
            "archsweep replay runs it.",
        ),
    ] = None,
    link_bytes: Annotated[
        int | None, typer.Option(min=1, help="Bytes a cycle of each link of that mesh; default 8.")
    ] = None,
    dim: Dims = None,
    as_json: JsonOut = False,
) -> None:
    """Map one layer on one architecture."""
    from sweep.cli.solve.mapping import (
        DirectivesFile,
        GemminiFile,
        MappingFiles,
        ProgramFile,
        TimeloopFile,
        changes,
        solve_one,
    )
    from sweep.cli.solve.solver_options import stated_params
    from sweep.solve.mapping import MappingRequest, SpaceOptions

    request = MappingRequest(
        architecture,
        layer,
        solver,
        cast(Any, objective),
        _budget(wall_seconds, seed, iterations),
        stated_params(solver, "mapping", params),
        tolerance,
        SpaceOptions(cast(Any, keep), padding, constraints, uneven),
        changes(values or ()),
        dims_of(dim),
    )
    files = MappingFiles(
        TimeloopFile(timeloop, timeloop_version),
        GemminiFile(gemmini),
        DirectivesFile(directives),
        ProgramFile(program, link_bytes),
    )
    solve_one(request, files, as_json)


@solve_app.command("codesign")
def solve_codesign(
    architecture: Annotated[str, typer.Option(help="A library architecture or a file with a technology.")],
    network: Annotated[str, typer.Option(help="A library network or a file; layers count as they occur.")],
    area_um2: Annotated[float | None, typer.Option(help="Area allowed; default the architecture's.")] = None,
    objective: Annotated[str, typer.Option(help="energy, cycles or edp, summed over the layers.")] = "energy",
    dim: Dims = None,
    free: Annotated[
        list[str] | None, typer.Option(help="LEVEL.size or LEVEL.fanout to choose, repeated; default all.")
    ] = None,
    solver: Annotated[str, typer.Option(help="See 'archsweep list solvers'.")] = "thistle_codesign",
    timeloop: Annotated[
        Path | None,
        typer.Option(
            help="Folder to write the answer to: an architecture file of ours, and Timeloop's architecture, "
            "energies, and a problem, mapping and constraints for each layer.",
            parser=stated_path,
        ),
    ] = None,
    wall_seconds: Annotated[
        float, typer.Option(help="Time limit of the solve; half of it for geometric programs.")
    ] = 600.0,
    seed: Seed = 0,
    params: Params = "{}",
    as_json: JsonOut = False,
) -> None:
    """Choose sizes, fan-outs and mappings at once, one architecture for a whole network."""
    from sweep.cli.solve.codesign import CodesignRequest
    from sweep.cli.solve.codesign import solve_codesign as solve_and_print

    budget = _budget(wall_seconds, seed)
    request = CodesignRequest(
        architecture,
        network,
        area_um2,
        objective,
        solver,
        budget,
        params,
        tuple(free or ()),
        dims_of(dim),
        timeloop,
    )
    solve_and_print(request, as_json)


@solve_app.command("scratchpad")
def solve_scratchpad(
    graph: Annotated[str, typer.Option(help="A library network, an operator-graph JSON, ONNX or .pt2.")],
    budget: Annotated[str, typer.Option(help="Scratchpad bytes: a number, or MR, MH, MP.")] = "MR",
    solver: Annotated[str, typer.Option(help="See 'archsweep list solvers', family scratchpad.")] = "cosma",
    parameters: Annotated[
        bool, typer.Option("--parameters/--activations", help="Hold operators' parameters as well.")
    ] = False,
    inputs_on_host: Annotated[
        bool, typer.Option("--inputs-on-host", help="Network inputs can be dropped without a spill.")
    ] = False,
    in_place: Annotated[
        bool,
        typer.Option(
            "--in-place", help="Element-wise operators may write over an input read for the last time."
        ),
    ] = False,
    bands: Annotated[
        bool, typer.Option("--bands", help="Cut operators by rows or channels where that moves fewer bytes.")
    ] = False,
    bits: Annotated[int, typer.Option(help="Width of an element.")] = 8,
    alignment: Annotated[int, typer.Option(help="Blocks start at multiples of this many bytes.")] = 1,
    batch: Annotated[int | None, typer.Option(help="Batch of the network; default its own.")] = None,
    dim: Dims = None,
    wall_seconds: Annotated[float, typer.Option(help="Time limit of the solve.")] = 60.0,
    seed: Seed = 0,
    params: Params = "{}",
    as_json: JsonOut = False,
) -> None:
    """Order an operator graph and plan its scratchpad for the least off-chip access."""
    from costmodel.scratchpad.graph import ScratchpadSettings
    from sweep.cli.solve.scratchpad import solve_scratchpad as solve_and_print
    from sweep.cli.solve.solver_options import stated_params
    from sweep.solve.scratchpad import ScratchpadRequest

    settings = ScratchpadSettings(parameters, inputs_on_host, in_place, bits, alignment)
    limit = _budget(wall_seconds, seed)
    stated = stated_params(solver, "scratchpad", params)
    request = ScratchpadRequest(graph, budget, solver, settings, limit, stated, batch, dims_of(dim), bands)
    solve_and_print(request, as_json)


@solve_app.command("fusion")
def solve_fusion(
    problem: Annotated[
        str | None,
        typer.Option(help="A chain of einsums and levels of memory: a JSON file, or inline JSON."),
    ] = None,
    architecture: Annotated[
        str | None, typer.Option(help="Instead of --problem: a library architecture or a file.")
    ] = None,
    network: Annotated[str | None, typer.Option(help="A library network or a file, with --layers.")] = None,
    layers: Annotated[
        str | None,
        typer.Option(help="Names of its layers in the order in which they run, with commas.", metavar="A,B"),
    ] = None,
    objective: Annotated[str, typer.Option(help="energy, cycles or edp, of all together.")] = "edp",
    solver: Annotated[
        str | None,
        typer.Option(
            help="See 'archsweep list solvers', families fusion (of --problem) and layer_fusion.",
            show_default="the family's one",
        ),
    ] = None,
    wall_seconds: Annotated[float, typer.Option(help="Time limit of the solve.")] = 60.0,
    params: Params = "{}",
    tolerance: Annotated[float | None, typer.Option(help="Gap at which a proving solver stops.")] = None,
    longest: Annotated[
        int, typer.Option(help="With --layers: how many may share loops or keep tensors for one another.")
    ] = 3,
    cut_rows: Annotated[
        bool,
        typer.Option("--cut-rows", help="With --layers: loops may cut rows that softmax normalises."),
    ] = False,
    windows: Annotated[
        bool,
        typer.Option(help="With --layers: loops over rows may pass through convolutions' windows."),
    ] = True,
    columns: Annotated[
        bool,
        typer.Option("--columns", help="With --layers: loops over columns may pass through windows, too."),
    ] = False,
    recompute: Annotated[
        bool,
        typer.Option(
            "--recompute", help="With --layers: rows that windows share may be made anew if they cannot stay."
        ),
    ] = False,
    pipelined: Annotated[
        bool,
        typer.Option(
            "--pipelined", help="With --layers: layers may run at the same time on parts of the array."
        ),
    ] = False,
    values: Annotated[
        list[str] | None,
        typer.Option("--set", help="A value of the architecture, as an axis; repeated.", metavar="KEY=VALUE"),
    ] = None,
    dim: Dims = None,
    timeloop: Annotated[
        Path | None,
        typer.Option(
            parser=stated_path, help="Refused: Timeloop cannot express a fused mapping.", metavar="FILE"
        ),
    ] = None,
    as_json: JsonOut = False,
) -> None:
    """Map layers together: shared loops, what stays on the chip, every layer's own nest.

    Either a chain of einsums (--problem), or layers of a network on an architecture.
    """
    from sweep.cli.solve.fusion import solve_fusion as solve_and_print
    from sweep.cli.solve.mapping import changes
    from sweep.cli.solve.solver_options import stated_params
    from sweep.solve.fusion import FusionRequest
    from sweep.solve.layer_fusion import LayerFusionRequest

    if timeloop is not None:
        expected = "no file for Timeloop, which has no form for loops that layers share"
        remedy = "archsweep solve mapping --timeloop writes the mapping of one layer"
        raise InputError("--timeloop", expected, timeloop, remedy)
    named = {"--architecture": architecture, "--network": network, "--layers": layers}
    stated = [option for option, text in named.items() if text is not None]
    if (problem is None) == (not stated) or (stated and len(stated) < len(named)):
        found = ", ".join([*(["--problem"] if problem is not None else []), *stated]) or "neither"
        expected = "either --problem, or all of --architecture, --network and --layers"
        raise InputError("solve fusion", expected, found)
    budget = _budget(wall_seconds, 0)
    if problem is not None:
        of_layers = {
            "--longest": longest != LayerFusionRequest.longest,
            "--cut-rows": cut_rows,
            "--no-windows": not windows,
            "--columns": columns,
            "--recompute": recompute,
            "--pipelined": pipelined,
            "--set": values,
            "--dim": dim,
        }
        if stated := [option for option, given in of_layers.items() if given]:
            raise InputError("--problem", "no options of --layers beside it", ", ".join(stated))
        name = solver or "fusion_exact"
        solve_and_print(
            FusionRequest(
                problem, cast(Any, objective), name, budget, stated_params(name, "fusion", params), tolerance
            ),
            as_json,
        )
        return
    name = solver or "fusion_layers"
    solve_and_print(
        LayerFusionRequest(
            str(architecture),
            str(network),
            tuple(str(layers).split(",")),
            cast(Any, objective),
            name,
            budget,
            stated_params(name, "layer_fusion", params),
            tolerance,
            longest,
            cut_rows,
            windows,
            recompute,
            columns,
            pipelined,
            changes(values or ()),
            dims_of(dim),
        ),
        as_json,
    )


@solve_app.command("schedule")
def solve_schedule(
    chip: Annotated[str, typer.Option(help="A library chip or a file.")],
    network: Annotated[
        str,
        typer.Option(help="A library network or a file; NAME.training: its training step."),
    ],
    batch: Annotated[int, typer.Option(min=1, help="Samples to schedule.")] = 1,
    dim: Dims = None,
    solver: Annotated[str, typer.Option(help="See 'archsweep list solvers', family schedule.")] = "set",
    objective: Annotated[str, typer.Option(help="energy, cycles, edp, or a product such as e2d.")] = "edp",
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Seeds to search with; the best schedule counts. Default 4; 1 for solvers without draws.",
        ),
    ] = None,
    seed: Seed = 0,
    epochs: Annotated[
        int, typer.Option(min=1, help="Parts of the search; seeds exchange their best trees in between.")
    ] = 1,
    wall_seconds: Annotated[float, typer.Option(help="Time limit of each seed.")] = 600.0,
    iterations: Annotated[
        int | None, typer.Option(min=1, help="Limit on the solver's own steps, such as rounds.")
    ] = None,
    params: Params = "{}",
    tile_solver: Annotated[str, typer.Option(help="Mapping solver for what a tile computes.")] = "auto",
    tile_seconds: Annotated[
        float,
        typer.Option(help="Time limit of each mapping on a tile or the whole chip; at most --wall-seconds."),
    ] = 10.0,
    tile_objective: Annotated[
        str | None,
        typer.Option(help="energy, cycles or edp: what it minimises; default: the nearest to --objective."),
    ] = None,
    tile_constraints: Annotated[
        Path | None,
        typer.Option(
            parser=stated_path,
            metavar="FILE",
            help="Mappings that a tile can run (its dataflow): YAML with keep, padding, uneven, constraints.",
        ),
    ] = None,
    most_partitions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many ways to cut a layer among tiles to try, the most promising first. Default: 8 with "
            "solvers that ask for costs as they go and a mapping solver on tiles, else all.",
        ),
    ] = None,
    share_weights: Annotated[
        bool,
        typer.Option(
            "--share-weights",
            help="Tiles that need the same weights may hold a part of them each, and pass it on.",
        ),
    ] = False,
    fused_groups: Annotated[
        bool,
        typer.Option(
            "--fused-groups",
            help="Layers of a segment may be mapped together: each tile computes its part of all of them, "
            "and what passes between them stays in its buffer.",
        ),
    ] = False,
    whole_chip: Annotated[
        bool | None,
        typer.Option(
            "--whole-chip/--no-whole-chip",
            help="A layer may run on the whole chip, its data in DRAM; default: with kapla_schedule, "
            "and where some layer fits no tiles in any other way.",
        ),
    ] = None,
    repeat_blocks: Annotated[
        bool | None,
        typer.Option(
            "--repeat-blocks/--no-repeat-blocks",
            help="A block of layers that the network repeats is scheduled once, for all of its copies; "
            "default: with more than 1,000 layers.",
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option(min=1, max=MOST_WORKERS, help="Processes; 1 solves in this one.")
    ] = 1,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", parser=stated_path, help="Run folder to keep; tile costs beside it are reused."
        ),
    ] = None,
    chart: Annotated[
        Path | None,
        typer.Option(parser=stated_path, metavar="FILE", help="Draw the schedule into this HTML file."),
    ] = None,
    program: Annotated[
        Path | None,
        typer.Option(
            parser=stated_path,
            metavar="FILE",
            help="Write what every tile does, in order, into this JSON file (.json.gz: gzipped).",
        ),
    ] = None,
    as_json: JsonOut = False,
) -> None:
    """Schedule a network on a chip of tiles: which tiles compute which layer, and when."""
    from sweep.cli.solve.schedule import solve_schedule as solve_and_print
    from sweep.cli.solve.solver_options import stated_params
    from sweep.run.session import RuntimeChoice
    from sweep.solve.schedule import ScheduleRequest
    from sweep.study.mapping_space import load_space, space_document

    # The keys of a study's blocks, so that one check serves both. What is not stated is left out where the
    # study's own default depends on other keys, as that of the seeds does on the solver.
    schedule: dict[str, Any] = {"solver": solver, "objective": objective, "batch": batch, "seed": seed}
    schedule |= {"epochs": epochs} | ({} if seeds is None else {"seeds": seeds})
    limits = {"wall_seconds": wall_seconds, "iterations": iterations, "most_partitions": most_partitions}
    schedule |= limits | {"whole_chip": whole_chip, "repeat_blocks": repeat_blocks}
    schedule |= {"share_weights": share_weights, "fused_groups": fused_groups}
    schedule |= {"params": stated_params(solver, "schedule", params)}
    mapping: dict[str, Any] = {"solver": tile_solver, "wall_seconds": min(tile_seconds, wall_seconds)}
    mapping |= {} if tile_objective is None else {"objective": tile_objective}
    mapping |= {} if tile_constraints is None else space_document(load_space(tile_constraints))
    runtime = RuntimeChoice(in_process=True) if workers == 1 else RuntimeChoice(workers=workers)
    dims = dims_of(dim)
    request = ScheduleRequest(chip, network, schedule, mapping, runtime, output, chart, dims, program)
    solve_and_print(request, as_json)
