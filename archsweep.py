"""archsweep finds the best schedule for every candidate accelerator of a family, over a Ray cluster.

This file is its face. A notebook says ``import archsweep`` and has what ``__all__`` names, nothing else; the
command ``archsweep`` and ``python -m archsweep`` run :func:`main`. All that archsweep does lies in the five
packages beside this file, which are imported when they are first asked for: the import itself costs nothing.
A solver that meets a machine for the first time is compiled, which is said on standard error while it lasts.

Types: editors see them. mypy takes those of an installed single file only with ``follow_untyped_imports`` for
the module ``archsweep``.

Examples:
    A study is a file, the name of a built-in one, or its keys in Python. This one compares two sizes of a
    buffer. ``in_process`` solves here, without the Ray cluster that a larger study wants:

    >>> import archsweep
    >>> study = archsweep.load_study({
    ...     "name": "first-look",
    ...     "networks": ["cosa_alexnet"],
    ...     "architecture": "simba",
    ...     "axes": {"GlobalBuffer.size": {"choices": ["64 KiB", "128 KiB"]}},
    ...     "mapping": {"solver": "random_search", "iterations": 200},
    ... })
    >>> run = archsweep.run(study, "runs/first-look", in_process=True)
    >>> run.summary, run.failed
    ('2 designs: 2 evaluated', 0)
    >>> run.front[["axis.GlobalBuffer.size", "energy_pj", "cycles"]]  # doctest: +SKIP

    One layer, asked directly; ``exact`` proves that no mapping is better:

    >>> answer = archsweep.solve_mapping("resnet18/conv1", "simba", solver="exact", objective="energy")
    >>> str(answer.status), answer.gap
    ('optimal', 0.0)
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pandas import DataFrame

    from costmodel.errors import InputError
    from costmodel.hardware.architecture import Architecture
    from costmodel.hardware.chip import Chip
    from costmodel.mapping.evaluate import Evaluation
    from costmodel.mapping.uneven import AnyMapping
    from costmodel.replay.replay import Replay
    from costmodel.workload.network import Layer, Network
    from results.front.finished_run import FinishedRun
    from solvers.mapping.problem import Objective
    from solvers.mapping.space.rules import KeepRule
    from sweep.run.progress.run_tally import RunTally
    from sweep.solve.mapping import MappingAnswer
    from sweep.solve.schedule import ScheduleAnswer
    from sweep.solve.scratchpad import ScratchpadAnswer
    from sweep.study.study import Study

__all__ = [
    "Architecture",
    "Chip",
    "Evaluation",
    "FinishedRun",
    "InputError",
    "Layer",
    "MappingAnswer",
    "Network",
    "Replay",
    "ScheduleAnswer",
    "ScratchpadAnswer",
    "Study",
    "evaluate",
    "front",
    "load_architecture",
    "load_chip",
    "load_network",
    "load_study",
    "replay",
    "report",
    "run",
    "solve_mapping",
    "solve_schedule",
    "solve_scratchpad",
]

_HOMES = {
    "Architecture": "costmodel.hardware.architecture",
    "Chip": "costmodel.hardware.chip",
    "Evaluation": "costmodel.mapping.evaluate",
    "FinishedRun": "results.front.finished_run",
    "InputError": "costmodel.errors",
    "Layer": "costmodel.workload.network",
    "MappingAnswer": "sweep.solve.mapping",
    "Network": "costmodel.workload.network",
    "Replay": "costmodel.replay.replay",
    "ScheduleAnswer": "sweep.solve.schedule",
    "ScratchpadAnswer": "sweep.solve.scratchpad",
    "Study": "sweep.study.study",
}
"""The module of each class of ``__all__``, which is imported when somebody asks for the class."""
_Value = TypeVar("_Value")
_FOLDER = Path(__file__).parent.resolve()
_PACKAGES = ("clusters", "costmodel", "results", "solvers", "sweep")


def load_study(source: str | Path | Mapping[str, Any]) -> Study:
    """Read and check a study: networks, a family of hardware, solvers, objectives and a search.

    Args:
        source: The name of a built-in study, the path of a study file, or the keys and values that such a
            file would have. Paths in a file are relative to its folder, those in a mapping to the current
            folder.

    Raises:
        InputError: There is no such study, or one of its keys is wrong; the error names file and key.

    Examples:
        >>> import archsweep
        >>> study = archsweep.load_study("quickstart")
        >>> study.architecture, sorted(study.axes)
        ('tpu-like', ['Accumulators.fanout', 'UnifiedBuffer.fanout', 'UnifiedBuffer.size'])
        >>> archsweep.load_study("quickstrat")
        Traceback (most recent call last):
        ...
        costmodel.errors.NotFoundError: study: expected a study file, ... Did you mean quickstart?
    """
    _ready()
    from sweep.study.study import load_study as load
    from sweep.study.study import study_of

    return study_of(source) if isinstance(source, Mapping) else load(str(source))


def run(
    study: Study | str | Path | Mapping[str, Any],
    folder: str | Path | None = None,
    *,
    address: str = "",
    workers: int | None = None,
    in_process: bool = False,
    memory_limit: int | None = None,
    resume: bool = True,
    progress: bool = False,
) -> FinishedRun:
    """Run a study to its Pareto front and report; what was solved before is not solved again.

    Args:
        study: A study, or what :func:`load_study` takes.
        folder: Where the results go: a folder, or a URI such as ``s3://bucket/run``. None is ``runs/NAME``.
        address: An existing Ray cluster, ``host:port`` or ``auto``. Empty starts one on this machine.
        workers: Worker processes; None is one a CPU.
        in_process: Solve in this process, without Ray: for small studies.
        memory_limit: MiB that a worker may take beyond an idle one; a solve above it fails.
        resume: Use stored answers of runs in the same parent folder. False solves everything again.
        progress: Draw a progress bar on standard error. Without it the plan's warnings are Python warnings.

    Returns:
        Where the results are, the front as a table, and how many solves failed. A failed solve is no
        exception: its row has the reason, and the other designs are judged without it.

    Raises:
        InputError: Something that was stated is wrong; raised before any solve.
        ResultsError: The folder cannot be written, or another run writes into it.

    Examples:
        >>> import archsweep
        >>> study = {
        ...     "name": "buffers",
        ...     "networks": ["cosa_alexnet"],
        ...     "architecture": "simba",
        ...     "axes": {"GlobalBuffer.size": {"choices": ["64 KiB", "128 KiB"]}},
        ...     "mapping": {"solver": "random_search", "iterations": 200},
        ... }
        >>> done = archsweep.run(study, in_process=True)
        >>> done.path, done.report
        ('runs/buffers', 'runs/buffers/report.html')
        >>> list(done.front["axis.GlobalBuffer.size"])[-1]
        '64 KiB'
    """
    _ready()
    from sweep.cli.compiling import said, said_of_workers
    from sweep.run.finished import run_to_report
    from sweep.run.session import RuntimeChoice
    from sweep.study.study import Study

    chosen = study if isinstance(study, Study) else load_study(study)
    output = None if folder is None else str(folder)
    runtime = RuntimeChoice(address, workers, in_process, memory_limit)
    with said(), said_of_workers(not in_process), _tally(progress) as tally:
        return run_to_report(chosen, output, runtime, tally, resume=resume)


def front(folder: str | Path, objectives: str | Sequence[str] = ()) -> DataFrame:
    """The Pareto front of a run, read from its results.

    Args:
        folder: A run folder, or its URI.
        objectives: Columns to minimise, such as ``("energy_pj", "cycles")``. Where none is named, they are
            the study's own.

    Returns:
        One row a design, best first objective first: a column ``axis.NAME`` for every axis, the objectives,
        then the other metrics. Their units end their names: pJ, um2, seconds, bytes.

    Raises:
        InputError: The folder or URI holds no run, or an objective is not one of a design's.

    Examples:
        >>> import archsweep
        >>> study = {
        ...     "name": "buffers",
        ...     "networks": ["cosa_alexnet"],
        ...     "architecture": "simba",
        ...     "axes": {"GlobalBuffer.size": {"choices": ["64 KiB", "128 KiB"]}},
        ...     "mapping": {"solver": "random_search", "iterations": 200},
        ... }
        >>> done = archsweep.run(study, in_process=True)
        >>> table = archsweep.front("runs/buffers", ["area_um2"])
        >>> list(table["axis.GlobalBuffer.size"])
        ['64 KiB']
    """
    _ready()
    from sweep.run.finished import front_at

    chosen = (objectives,) if isinstance(objectives, str) else tuple(objectives)
    return front_at(str(folder), chosen).table


def report(folder: str | Path, copy: str | Path | None = None) -> Path:
    """Draw the report of a run again: one HTML page that needs no network.

    Args:
        folder: A run folder, or its URI.
        copy: Of a URI: the folder here that the results are brought to. None is ``runs/NAME``.

    Returns:
        The page, ``report.html`` in the run folder or in the copy.

    Raises:
        InputError: The folder or URI holds no run, or ``copy`` is given for a folder of this machine.

    Examples:
        >>> import archsweep
        >>> archsweep.report("runs/nothing")
        Traceback (most recent call last):
        ...
        costmodel.errors.InputError: runs/nothing: expected a run folder, found no folder. Name a folder ...
    """
    _ready()
    from sweep.run.finished import drawn_report

    return drawn_report(str(folder), None if copy is None else Path(copy))


def solve_mapping(
    layer: Layer | str | Path,
    architecture: Architecture | str | Path,
    objective: Objective = "edp",
    *,
    solver: str = "exact",
    wall_seconds: float = 60.0,
    iterations: int | None = None,
    seed: int = 0,
    params: Mapping[str, Any] | None = None,
    tolerance: float | None = None,
    keep: KeepRule | None = None,
    padding: float | None = None,
    uneven: bool | None = None,
    constraints: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    dims: Mapping[str, int] | None = None,
) -> MappingAnswer:
    """Map one layer on one architecture: how it is tiled, ordered, spread and kept.

    Args:
        layer: A layer, or ``NETWORK/LAYER`` of the library or a file (``resnet18/conv1``,
            ``net.onnx/conv1``), a file of one layer, or a problem in JSON.
        architecture: An architecture, its name in the library, or its file. The constraints that a Timeloop
            file puts on mappings hold where it is named here; an Architecture that was loaded has none.
        objective: ``energy`` (pJ), ``cycles``, or ``edp``, their product.
        solver: A mapping solver; ``archsweep list solvers`` describes them.
        wall_seconds: Time limit of the solve; the best so far is the answer.
        iterations: Limit on what the solver counts, such as samples; None is no limit.
        seed: Of the solver's random numbers.
        params: The solver's own parameters.
        tolerance: Relative gap at which a solver that proves bounds may stop.
        keep: What levels keep: ``fitting``, ``all`` or ``free``.
        padding: Fraction by which dims may be padded; 0 allows perfect factors only.
        uneven: Whether tensors may end their tiles of a level at different loops.
        constraints: A YAML file with these three and constraints, as a study's mapping block has them.
        overrides: Values of the architecture's file, such as ``{"SRAM.size": "64 KiB"}``.
        dims: Symbolic lengths of an ONNX file, such as ``{"seq": 512}``.

    Returns:
        The mapping with its objective, proven lower bound, gap and evaluation; without a mapping its status
        and note say why.

    Raises:
        InputError: A name, file, option or parameter is wrong; raised before the solver starts.

    Examples:
        >>> import archsweep
        >>> answer = archsweep.solve_mapping("resnet18/conv1", "simba", "cycles", solver="exact")
        >>> str(answer.status), answer.objective == answer.bound == answer.evaluation.cycles
        ('optimal', True)
        >>> [level.name for level in answer.evaluation.levels][-1]
        'DRAM'
    """
    _ready()
    from solvers.budget import Budget
    from sweep.cli.compiling import said
    from sweep.solve.mapping import MappingRequest, SpaceOptions

    request = MappingRequest(
        _named(architecture),
        _named(layer),
        solver,
        objective,
        Budget(wall_seconds, iterations, seed),
        params or {},
        tolerance,
        SpaceOptions(keep, padding, None if constraints is None else Path(constraints), uneven),
        overrides or {},
        dims or {},
    )
    _warn(request.warnings)
    with said():
        return request.solved()


def solve_schedule(
    network: str | Path,
    chip: str | Path,
    objective: str = "edp",
    *,
    batch: int = 1,
    solver: str = "set",
    seeds: int | None = None,
    seed: int = 0,
    epochs: int = 1,
    wall_seconds: float = 600.0,
    iterations: int | None = None,
    params: Mapping[str, Any] | None = None,
    tile_solver: str = "auto",
    tile_seconds: float = 10.0,
    tile_objective: Objective | None = None,
    most_partitions: int | None = None,
    share_weights: bool = False,
    whole_chip: bool | None = None,
    repeat_blocks: bool | None = None,
    dims: Mapping[str, int] | None = None,
    workers: int = 1,
    folder: str | Path | None = None,
    program: str | Path | None = None,
    progress: bool = False,
) -> ScheduleAnswer:
    """Schedule a network on a chip of tiles: which tiles compute which layer of it, and when.

    Args:
        network: A network of the library or a file; ``NAME.training`` is its training step.
        chip: A chip of the library or its file.
        objective: ``energy`` (pJ), ``cycles``, ``edp``, or a product of powers such as ``e2d``.
        batch: Samples to schedule together.
        solver: A schedule solver; ``archsweep list solvers`` describes them.
        seeds: How many seeds to try; the best counts. None is 4, or 1 of solvers that draw nothing.
        seed: The first seed.
        epochs: Parts of the search, between which seeds exchange their best schedules.
        wall_seconds: Time limit of each seed.
        iterations: Limit on what the solver counts; None is no limit.
        params: The solver's own parameters.
        tile_solver: The mapping solver for what one tile computes.
        tile_seconds: Time limit of each of its mappings, at most ``wall_seconds``.
        tile_objective: What it minimises: ``energy``, ``cycles`` or ``edp``. None is the nearest to
            ``objective``.
        most_partitions: Ways to cut a layer among tiles that are looked at, most promising first.
        share_weights: Whether tiles that need the same weights may hold a part of them each, and pass it on.
        whole_chip: Whether a layer may have the whole chip, its data in DRAM. None leaves it to the solver.
        repeat_blocks: Whether a block of layers that the network repeats is scheduled once, for all of its
            copies. None: in networks of more than 1,000 layers.
        dims: Symbolic lengths of an ONNX or ``.pt2`` file.
        workers: Processes; 1 solves in this one, more start Ray here.
        folder: Run folder to keep, whose answers later calls use again. None keeps none.
        program: A JSON file to write what every tile does into, in order; :func:`replay` runs it.
        progress: Draw a progress bar on standard error.

    Returns:
        The best schedule as a tree in text, its costs for the whole batch, and a proven lower bound.

    Raises:
        InputError: A name, file, option or parameter is wrong; raised before any solve.

    Examples:
        >>> import archsweep
        >>> answer = archsweep.solve_schedule(
        ...     "kapla-mlp-s", "set-edge", solver="layer_sequential", iterations=20, tile_solver="nvdla"
        ... )
        >>> answer.bound <= answer.objective == answer.energy_pj * answer.cycles
        True
        >>> answer.tree.splitlines()[0]
        'T 1/1'
    """
    _ready()
    from sweep.cli.compiling import said, said_of_workers
    from sweep.run.session import RuntimeChoice
    from sweep.solve.schedule import ScheduleRequest

    schedule: dict[str, Any] = {
        "solver": solver,
        "objective": objective,
        "batch": batch,
        "seed": seed,
        "epochs": epochs,
        "wall_seconds": wall_seconds,
        "iterations": iterations,
        "most_partitions": most_partitions,
        "share_weights": share_weights,
        "whole_chip": whole_chip,
        "repeat_blocks": repeat_blocks,
        "params": params or {},
    }
    request = ScheduleRequest(
        str(chip),
        str(network),
        schedule | ({} if seeds is None else {"seeds": seeds}),
        {"solver": tile_solver, "wall_seconds": min(tile_seconds, wall_seconds)}
        | ({} if tile_objective is None else {"objective": tile_objective}),
        RuntimeChoice(in_process=True) if workers == 1 else RuntimeChoice(workers=workers),
        None if folder is None else Path(folder),
        program=None if program is None else Path(program),
        dims=dims or {},
    )
    with said(), said_of_workers(workers > 1), _tally(progress) as tally:
        return request.solved(tally)


def replay(
    program: str | Path, *, page: str | Path | None = None, dram_latency: int = 0, hop_latency: int = 0
) -> Replay:
    """Run a program on its chip event by event, by a simulator that shares no counting with the cost model.

    Args:
        program: A file that :func:`solve_schedule` or ``archsweep solve schedule --program`` wrote.
        page: An HTML page to write, on which the run can be watched, moment by moment.
        dram_latency: Cycles before the first byte of every load from DRAM.
        hop_latency: Cycles that every link on its longest path adds to a message.

    Returns:
        Cycles, traffic, peaks of the buffers, and when each layer ran.

    Raises:
        InputError: The file is no program, or a program that cannot run.
        CannotWriteError: The page cannot be written.

    Examples:
        >>> import archsweep, tempfile
        >>> file = tempfile.mkdtemp() + "/program.json"
        >>> answer = archsweep.solve_schedule(
        ...     "kapla-mlp-s",
        ...     "set-edge",
        ...     solver="layer_sequential",
        ...     iterations=20,
        ...     tile_solver="nvdla",
        ...     program=file,
        ... )
        >>> found = archsweep.replay(file)
        >>> [layer.layer for layer in found.layers]
        ['fc1', 'fc2', 'fc3']
        >>> abs(found.cycles / answer.cycles - 1) < 0.05
        True
    """
    _ready()
    from costmodel.replay.tables import ReplayOptions
    from results.report.replay_page import write_replay_page
    from sweep.solve.replay import replay_of, replay_shown

    read, found = replay_of(Path(program), ReplayOptions(dram_latency, hop_latency), log=page is not None)
    if page is not None:
        write_replay_page(Path(page), replay_shown(read, found))
    return found


def solve_scratchpad(
    network: Network | str | Path,
    size: str | int = "MR",
    *,
    solver: str = "cosma",
    wall_seconds: float = 60.0,
    seed: int = 0,
    params: Mapping[str, Any] | None = None,
    parameters: bool = False,
    inputs_on_host: bool = False,
    in_place: bool = False,
    bits: int = 8,
    alignment: int = 1,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
) -> ScratchpadAnswer:
    """Order a network's operators and plan its tensors in one scratchpad, for the least off-chip access.

    Args:
        network: A network, its name in the library, or its file (operator graph in JSON, or ONNX).
        size: The scratchpad in bytes, or by name: MR is what the hungriest operator needs, MP the least peak
            of any order without spills, MH the mean of the two.
        solver: A scratchpad solver; ``archsweep list solvers`` describes them.
        wall_seconds: Time limit of the solve; the search for a named size may take a quarter more.
        seed: Of the solver's random numbers.
        params: The solver's own parameters.
        parameters: Hold operators' parameters in the scratchpad as well, each while its operator runs.
        inputs_on_host: Whether the host keeps the network's inputs, so that dropping one costs nothing.
        in_place: Whether element-wise operators may write over an input that nothing reads later.
        bits: Width of an element.
        alignment: Blocks start at multiples of this many bytes.
        batch: Batch of the network; None is its own.
        dims: Symbolic lengths of an ONNX file.

    Returns:
        The plan with the bytes that it spills and retrieves, and a proven lower bound on them.

    Raises:
        InputError: A name, file, option or parameter is wrong; raised before the solver starts.

    Examples:
        >>> import archsweep
        >>> answer = archsweep.solve_scratchpad("resnet18", "MP")
        >>> str(answer.status), answer.objective, answer.budget_bytes
        ('optimal', 0, 1003520)
    """
    _ready()
    from costmodel.scratchpad.graph import ScratchpadSettings
    from solvers.budget import Budget
    from sweep.cli.compiling import said
    from sweep.solve.scratchpad import ScratchpadRequest

    request = ScratchpadRequest(
        _named(network),
        str(size),
        solver,
        ScratchpadSettings(parameters, inputs_on_host, in_place, bits, alignment),
        Budget(wall_seconds, seed=seed),
        params or {},
        batch,
        dims or {},
    )
    _warn(request.warnings)
    with said():
        return request.solved()


def evaluate(
    layer: Layer | str | Path,
    architecture: Architecture | str | Path,
    mapping: AnyMapping | Mapping[str, Any],
) -> Evaluation:
    """What a mapping of a layer on an architecture costs, level by level; nothing is searched.

    Args:
        layer: A layer or its name, as :func:`solve_mapping` takes it. Of an answer with padding it is the
            answer's ``executed_layer``.
        architecture: An architecture, its name in the library, or its file.
        mapping: A mapping, such as an answer's, or its JSON as ``archsweep solve mapping --json`` prints it
            under ``mapping``.

    Returns:
        Cycles, energy in pJ, utilization, and for every level and tensor the words read, filled and updated.

    Raises:
        InputError: The mapping is not one of this layer on this architecture; the error lists why.

    Examples:
        >>> import archsweep
        >>> answer = archsweep.solve_mapping("resnet18/conv1", "simba", solver="cosa")
        >>> cost = archsweep.evaluate("resnet18/conv1", "simba", answer.mapping)
        >>> cost.energy_pj * cost.cycles == answer.objective
        True
    """
    _ready()
    from sweep.solve.mapping import evaluated

    return evaluated(_named(layer), _named(architecture), mapping)


def load_network(
    name_or_path: str | Path, batch: int | None = None, dims: Mapping[str, int] | None = None
) -> Network:
    """A network of the library by its name, or the network of a file.

    Args:
        name_or_path: A name, or a file: ``.onnx``, ``.pt2``, operator graph ``.json`` or ``.json.gz``,
            Timeloop problem ``.yaml``.
        batch: Images or sequences; None is 1, or a file's own.
        dims: Symbolic lengths of an ONNX file.

    Returns:
        The graph of operators over tensors; ``layers`` are the loop nests that mapping solvers see.

    Raises:
        InputError: There is no such network, or its file is wrong; the error names file and node or key.

    Examples:
        >>> import archsweep
        >>> network = archsweep.load_network("resnet18")
        >>> len(network.layers), f"{network.macs:,}"
        (21, '1,814,073,344')
        >>> network.layers[0].name, network.layers[0].sizes["K"]
        ('conv1', 64)
    """
    _ready()
    from costmodel.formats.networks import load_network as load

    return load(name_or_path, batch, dims)


def load_architecture(name_or_path: str | Path, overrides: Mapping[str, Any] | None = None) -> Architecture:
    """An architecture of the library by its name, or the architecture of a file.

    Args:
        name_or_path: A name, or a file of ours or of Timeloop.
        overrides: Values of the file to replace. Sizes move energy and area with them, as the file's
            technology says.

    Returns:
        The levels of storage, innermost first, with sizes in words, energies in pJ and areas in um2.

    Raises:
        InputError: There is no such architecture, its file is wrong, or an override names no key of it.

    Examples:
        >>> import archsweep
        >>> small = archsweep.load_architecture("eyeriss", {"SRAM.size": "64 KiB"})
        >>> [level.name for level in small.levels], small.mac_units
        (['RegFile', 'SRAM', 'DRAM'], 168)
    """
    _ready()
    from costmodel.formats.architectures import load_architecture as load

    return load(name_or_path, overrides)


def load_chip(name_or_path: str | Path, overrides: Mapping[str, Any] | None = None) -> Chip:
    """A chip of the library by its name, or the chip of a file: a mesh of tiles with links and DRAM.

    Args:
        name_or_path: A name, or a YAML file.
        overrides: Values of the file to replace, such as ``{"mesh": "6x6"}``.

    Returns:
        The chip. Bandwidths are in bytes a cycle, energies in pJ.

    Raises:
        InputError: There is no such chip, its file is wrong, or an override names no key of it.

    Examples:
        >>> import archsweep
        >>> chip = archsweep.load_chip("set-edge", {"mesh": "2x4"})
        >>> chip.columns, chip.rows, chip.dram.bytes_per_cycle
        (2, 4, 16)
    """
    _ready()
    from costmodel.formats.chips import load_chip as load

    return load(name_or_path, overrides)


def main() -> None:
    """Run the command that ``sys.argv`` states, and end the process with its exit status.

    0: done; 1: the work failed or was stopped; 2: the input was wrong, or a file has a package's name.
    """
    try:
        home = _import_packages()
    except ImportError as error:
        print(f"archsweep: {error}", file=sys.stderr)
        sys.exit(2)
    last = {Path.cwd(), _FOLDER} - {home}
    # what solvers import later must not be found in the current folder either
    sys.path.sort(key=lambda folder: Path(folder).resolve() in last)
    from sweep.cli.main import main as command

    command()


def __getattr__(name: str) -> Any:
    """A class of ``__all__``, when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _ready()
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__


@cache
def _ready() -> None:
    """Import the packages, once; ImportError as :func:`_import_packages`."""
    _import_packages()


def _named(asked: _Value | str | Path) -> _Value | str:
    """A path as the name of its file; values and names as they are."""
    return str(asked) if isinstance(asked, Path) else asked


def _tally(progress: bool) -> AbstractContextManager[RunTally]:
    """Who watches a run: a progress bar, or one that says no more than the plan's warnings."""
    if progress:
        from sweep.cli.run import ProgressBar

        return ProgressBar()
    from sweep.run.progress.run_tally import WarningTally

    return nullcontext(WarningTally())


def _warn(texts: Sequence[str]) -> None:
    """Say what the reader of an answer has to know, at the line that asked for it."""
    from warnings import warn

    for text in texts:
        warn(text, stacklevel=3)


def _import_packages() -> Path:
    """Import the packages from one folder, whatever else has their names, and return that folder.

    ``python -m`` has Python search the current folder first, a notebook has it there, and a Ray job its
    working directory, where a user's ``results.py`` may lie. A package that is imported stays: nothing can
    take its name afterwards. ImportError names the file in the way of one that is not to be had.
    """
    before = sys.path[:]
    others = [folder for folder in before if Path(folder).resolve() != _FOLDER]
    beside = all((_FOLDER / name / "__init__.py").is_file() for name in _PACKAGES)
    # `ray submit` copies only this file into the home folder: the packages are then installed elsewhere
    sys.path[:] = [str(_FOLDER), *others] if beside else others
    try:
        files = {name: _file_of(name) for name in _PACKAGES}
        homes = Counter(file.parents[1] for file in files.values() if file is not None)
        home = _FOLDER if beside or not homes else homes.most_common(1)[0][0]
        for name, file in files.items():
            # a package may be a link to where it really lies
            if file is None or file != (home / name / "__init__.py").resolve():
                raise ImportError(_in_the_way(name, file))
            import_module(name)
    finally:
        sys.path[:] = before
    return home


def _file_of(name: str) -> Path | None:
    """The file that ``import name`` takes, or the folder where it has no ``__init__.py``; nothing is run."""
    module = sys.modules.get(name)
    spec = find_spec(name) if module is None else module.__spec__
    if spec is None:
        file = getattr(module, "__file__", None)
        return Path(file).resolve() if file else None
    if spec.origin is not None:
        return Path(spec.origin).resolve()
    return next((Path(folder).resolve() for folder in spec.submodule_search_locations or ()), None)


def _in_the_way(name: str, file: Path | None) -> str:
    if file is not None:
        return f"{file} is imported as {name}, which is the name of a package of archsweep: rename the file"
    if name in sys.modules:
        return f"a module {name} is imported already, which is the name of a package of archsweep: rename it"
    return f"the package {name} of archsweep is not installed for {sys.executable}: pip install archsweep"


if __name__ == "__main__":
    main()
