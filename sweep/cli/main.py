"""The ``archsweep`` command: its options, its exit status, and nothing that computes.

Every command imports its module when it runs and not before: numba, Ray and pandas take seconds to import,
and ``archsweep --help`` needs none of them. Options that several commands have stand first, each once.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer

from clusters.runtime import ClusterRefusedError, WorkersUnavailableError, WrongAddressError
from costmodel.errors import InputError
from results.errors import CannotWriteError, FolderInUseError, NotARunError, NotSentError, ResultsError
from results.store.remote.background import Background
from sweep.cli.arguments.dims import Dims, dims_of
from sweep.cli.arguments.non_empty import each_stated, nameable, stated, stated_path
from sweep.cli.compiling import said
from sweep.cli.messages import ExitStatus, WorkFailedError, complain, note
from sweep.cli.solve.options import MOST_WORKERS, JsonOut, solve_app

app = typer.Typer(
    name="archsweep",
    help="Find accelerators worth building: every candidate judged by the best schedule found for it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(solve_app, name="solve")
cluster_app = typer.Typer(help="Deployment files: check one, print a built-in one.", no_args_is_help=True)
app.add_typer(cluster_app, name="cluster")

Output = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        callback=nameable,
        help="Run folder, or its URI (s3://, gs://, file://); default runs/STUDY.",
    ),
]
Home = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", parser=stated_path, help="Folder here for the results; default runs/STUDY."
    ),
]
Dashboard = Annotated[
    str,
    typer.Option(
        callback=stated,
        help="The cluster's dashboard (http://head:8265).",
        envvar="RAY_API_SERVER_ADDRESS",
    ),
]
JobId = Annotated[
    str, typer.Argument(callback=stated, help="A job's id, as submit prints it.", metavar="JOB")
]
StudyName = Annotated[
    str, typer.Argument(callback=stated, help="A built-in study or a study file.", metavar="STUDY")
]
RunLocation = Annotated[
    str,
    typer.Argument(callback=stated, help="A run folder, such as runs/quickstart, or its URI.", metavar="RUN"),
]
ClusterAddress = Annotated[
    str, typer.Option(help="An existing Ray cluster (host:port or auto); default: start one here.")
]
Workers = Annotated[
    int | None, typer.Option(min=1, max=MOST_WORKERS, help="Worker processes; default: one for each CPU.")
]
InProcess = Annotated[bool, typer.Option("--in-process", help="Solve in this process, without Ray.")]

ChartsPage = Annotated[
    Path | None,
    typer.Option("--page", parser=stated_path, help="Write the same with charts to this file, an HTML page."),
]
MeasuredPage = Annotated[
    Path | None,
    typer.Option(
        "--page", parser=stated_path, help="Draw measured against predicted in this file, an HTML page."
    ),
]
MemoryLimit = Annotated[
    int | None,
    typer.Option(
        min=256,
        help="MiB that a worker may use beyond what an idle one uses, code of solvers included; a solve "
        "that needs more fails.",
    ),
]


@app.command()
def run(
    study: StudyName,
    output: Output = None,
    address: ClusterAddress = "",
    workers: Workers = None,
    in_process: InProcess = False,
    memory_limit: MemoryLimit = None,
    resume: Annotated[
        bool, typer.Option("--resume/--fresh", help="Reuse stored answers, or solve everything again.")
    ] = True,
    follow: Annotated[
        bool, typer.Option("--watch", help="Show a page of this machine that follows the run.")
    ] = False,
) -> None:
    """Run a study to its Pareto front and report; what is already solved is not solved again."""
    from sweep.cli.run import RunOptions, run_and_report
    from sweep.run.session import RuntimeChoice

    runtime = RuntimeChoice(address, workers, in_process, memory_limit)
    run_and_report(study, RunOptions(output, runtime, resume, follow))


@app.command()
def paper(
    name: Annotated[
        str,
        typer.Argument(callback=stated, help="cosa, cosma, kapla, set or thistle.", metavar="PAPER"),
    ],
    figure: Annotated[
        list[str] | None, typer.Option(help="A figure or table, once for each, such as 6; default all.")
    ] = None,
    effort: Annotated[
        Literal["quick", "full"], typer.Option(help="A part of the paper's networks, or all of them.")
    ] = "quick",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", parser=stated_path, help="Folder; default runs/paper-NAME-EFFORT."),
    ] = None,
    address: ClusterAddress = "",
    workers: Workers = None,
    in_process: InProcess = False,
    as_json: JsonOut = False,
) -> None:
    """Run a paper's evaluation as studies: tables and charts, and what is not reproduced, with the reason."""
    from sweep.cli.paper import reproduce_paper
    from sweep.run.session import RuntimeChoice

    reproduce_paper(name, figure or [], effort, output, RuntimeChoice(address, workers, in_process), as_json)


@app.command()
def plan(
    study: StudyName,
    workers: Annotated[
        int, typer.Option(min=1, max=MOST_WORKERS, help="Cores to predict the wall time for.")
    ] = 1,
    output: Output = None,
    as_json: JsonOut = False,
) -> None:
    """Say what a study will cost before it runs: designs, distinct solves, core-hours, wall time."""
    from sweep.cli.run import show_plan

    show_plan(study, workers, output, as_json)


@app.command()
def submit(
    study: StudyName,
    address: Dashboard,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", callback=stated, help="Folder here for the results, or a URI the job writes to."
        ),
    ] = None,
    code: Annotated[
        str,
        typer.Option(
            callback=stated,
            help="Code to run: auto (this checkout or release), a wheel, either with the plug-ins that the "
            "study names; cluster: what is installed there.",
        ),
    ] = "auto",
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_WORKERS, help="Worker processes; default: one for each CPU there."),
    ] = None,
    memory_limit: MemoryLimit = None,
    resume: Annotated[
        bool, typer.Option("--resume/--fresh", help="Reuse the answers on the head, or solve all again.")
    ] = True,
    detach: Annotated[bool, typer.Option("--detach", help="Return once the job is submitted.")] = False,
) -> None:
    """Run a study as a job of a Ray cluster, follow it, and bring its results home."""
    from results.store.remote.run_folder import is_uri
    from sweep.cli.jobs.submit import HomeEnd, submit_study
    from sweep.cli.jobs.submit_job import Submission

    uri = output if output and is_uri(output) else ""
    home = HomeEnd(address, Path(output) if output and not uri else None)
    submit_study(Submission(study, code, uri, workers, resume, memory_limit), home, detach)


@app.command()
def attach(
    job: JobId,
    address: Dashboard,
    output: Home = None,
    wait: Annotated[
        bool, typer.Option("--wait/--now", help="Follow the job to its end, or bring home what is there.")
    ] = True,
    follow: Annotated[
        bool, typer.Option("--watch", help="Show a page of this machine that follows the job's run.")
    ] = False,
) -> None:
    """Follow a submitted job again and bring its results home."""
    from sweep.cli.jobs.submit import HomeEnd
    from sweep.cli.jobs.submit import attach as attach_to

    attach_to(job, HomeEnd(address, output), wait, follow)


@app.command()
def status(
    address: Dashboard,
    job: Annotated[str | None, typer.Argument(help="A job's id; default all.", metavar="[JOB]")] = None,
    as_json: JsonOut = False,
) -> None:
    """Say how a submitted job is doing, or list them all."""
    from sweep.cli.jobs.submit import status as show_status

    show_status(address, job, as_json)


@app.command()
def stop(job: JobId, address: Dashboard) -> None:
    """End a submitted job; what it has solved is stored, and the same submit goes on from there."""
    from sweep.cli.jobs.submit import stop as stop_job

    stop_job(job, address)


@app.command()
def report(
    run: RunLocation,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            parser=stated_path,
            help="For a URI: the folder on this machine for the copy; default runs/NAME.",
        ),
    ] = None,
) -> None:
    """Draw the report of a run again; results at a URI are first copied to this machine."""
    from sweep.cli.run import draw_report

    draw_report(run, output)


@app.command()
def watch(
    run: RunLocation,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on this machine's loopback; 0 takes a free one.")
    ] = 0,
    wait: Annotated[bool, typer.Option("--wait", help="Serve before the run has begun, too.")] = False,
    browse: Annotated[bool, typer.Option("--browse", help="Show the page in your browser.")] = False,
) -> None:
    """Serve a page of this machine that follows a run while it goes: its front, rate, workers, failures."""
    from sweep.cli.jobs.watch import watch as serve

    serve(run, port, wait, browse)


@app.command()
def pareto(
    run: RunLocation,
    x: Annotated[str, typer.Option(help="First objective.")] = "energy_pj",
    y: Annotated[str, typer.Option(help="Second objective.")] = "cycles",
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Print the Pareto front of a run over two objectives."""
    from sweep.cli.run import show_front

    show_front(run, [x, y], csv)


@app.command()
def explain(
    run: RunLocation,
    designs: Annotated[
        list[str],
        typer.Argument(
            callback=each_stated,
            metavar="DESIGN...",
            help="One design or two: an id or its beginning, #1 of the report's front, knee or baseline.",
        ),
    ],
    page: ChartsPage = None,
    as_json: JsonOut = False,
) -> None:
    """Say why designs of a run cost what they do: what binds each layer, loop nests, accesses, neighbours."""
    from sweep.cli.explain import explain_designs

    explain_designs(run, designs, page, as_json)


@app.command()
def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            callback=each_stated, metavar="RUN RUN...", help="Two run folders or more, or their URIs."
        ),
    ],
    objective: Annotated[
        list[str] | None,
        typer.Option(
            help="An objective of the fronts, once for each; default those of the first run's study."
        ),
    ] = None,
    page: ChartsPage = None,
    as_json: JsonOut = False,
) -> None:
    """Compare runs: their fronts, designs on the front of one only, and why layers cost something else."""
    from sweep.cli.compare import compare_runs

    compare_runs(runs, objective or (), page, as_json)


@app.command()
def evaluate(
    cases: Annotated[
        list[Path],
        typer.Argument(
            parser=stated_path,
            metavar="CASES...",
            help="Files or folders of mappings in the reference's format, or the Timeloop files "
            "(architecture, ERT, problem, constraints, mapping) of one mapping, KAPLA's directives of one "
            "(.directives), RA trees (.json), nn-dataflow's schemes (.jsonl), fused mappings (JSON lines "
            "with problem and mapping, as `solve fusion --json` prints), or schedules as "
            "`solve schedule --json` prints them (.json).",
        ),
    ],
    architecture: Annotated[
        str,
        typer.Option(
            help="For directives, and Timeloop files without an architecture: a library name or a file."
        ),
    ] = "",
    layer: Annotated[
        str, typer.Option(help="For directives, and Timeloop files without a problem: a layer.")
    ] = "",
    as_json: JsonOut = False,
) -> None:
    """Count accesses, cycles and energy of given mappings, fused ones, RA trees or schemes, one line a case.

    Of Timeloop files the accesses are printed as well, of other cases with --json.
    """
    from sweep.cli.evaluate.evaluate import EvaluateRequest, evaluate_cases

    evaluate_cases(EvaluateRequest(tuple(cases), architecture, layer), as_json)


@app.command()
def validate(
    architecture: Annotated[
        str,
        typer.Argument(metavar="ARCHITECTURE", help="The machine: an architecture of the library or a file."),
    ],
    measurements: Annotated[
        Path,
        typer.Argument(
            parser=stated_path,
            metavar="FILE",
            help="Measured runs, JSON lines or CSV: layer, mapping (or tile and loops), cycles.",
        ),
    ],
    page: MeasuredPage = None,
    as_json: JsonOut = False,
) -> None:
    """Compare the cost model's cycles with measured ones: the errors, and with --json a line for each run."""
    from sweep.cli.measured.validate import validate_machine

    validate_machine(architecture, measurements, page, as_json)


@app.command()
def calibrate(
    architecture: Annotated[
        str,
        typer.Argument(metavar="ARCHITECTURE", help="The machine, whose timing has constants to fit."),
    ],
    measurements: Annotated[
        list[Path],
        typer.Argument(
            parser=stated_path, metavar="FILE...", help="Measured runs, as archsweep validate reads them."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            parser=stated_path, help="The copy to write, with the constants; default NAME-calibrated.yaml."
        ),
    ] = None,
    page: MeasuredPage = None,
    as_json: JsonOut = False,
) -> None:
    """Fit the constants of a machine's timing to measured cycles; report the errors on layers left out."""
    from sweep.cli.measured.calibrate import calibrate_machine

    calibrate_machine(architecture, measurements, out, page, as_json)


@app.command()
def replay(
    file: Annotated[
        Path,
        typer.Argument(
            parser=stated_path,
            metavar="FILE",
            help="A program, as `solve schedule --program` or `solve mapping --program` writes it (.json or "
            ".json.gz).",
        ),
    ],
    trace: Annotated[
        Path | None,
        typer.Option(
            parser=stated_path,
            help="Write every compute and message to this file, for Perfetto (a JSON list).",
        ),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            parser=stated_path,
            help="Write an HTML page that shows the run: tiles that compute, messages on their way.",
        ),
    ] = None,
    dram_latency: Annotated[
        int, typer.Option(min=0, help="Cycles before the first byte of every load from DRAM.")
    ] = 0,
    hop_latency: Annotated[
        int, typer.Option(min=0, help="Cycles that every link on its longest path adds to a message.")
    ] = 0,
    as_json: JsonOut = False,
) -> None:
    """Run a program on its chip event by event: cycles, traffic, buffer peaks, and when each layer ran."""
    from costmodel.replay.tables import ReplayOptions
    from sweep.cli.replay import replay_file

    replay_file(file, ReplayOptions(dram_latency, hop_latency), trace, page, as_json)


@app.command("warm-up")
def warm_up(
    solvers: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOLVER]...",
            help="See 'archsweep list solvers'; default all. "
            "A schedule solver needs the one that maps layers on its tiles as well.",
        ),
    ] = None,
    as_json: JsonOut = False,
) -> None:
    """Compile now what the first solves on this machine would compile; once is enough."""
    from sweep.cli.warm_up import warm_up_and_print

    warm_up_and_print(solvers or (), as_json)


@cluster_app.command("check")
def cluster_check(
    file: Annotated[
        Path,
        typer.Argument(
            parser=stated_path, metavar="FILE", help="A file for `ray up`, or a KubeRay manifest."
        ),
    ],
) -> None:
    """Say what is wrong with a deployment file before anything is started from it."""
    from sweep.cli.jobs.cluster import check_file

    if not check_file(file):
        raise typer.Exit(ExitStatus.WRONG_INPUT)


@cluster_app.command("show")
def cluster_show(
    name: Annotated[str, typer.Argument(help="onprem, aws, gcp, kuberay-cluster or kuberay-job.")],
) -> None:
    """Print a built-in deployment file, to be filled in where it says CHANGE."""
    from sweep.cli.jobs.cluster import show_file

    show_file(name)


@app.command("list")
def list_(
    what: Annotated[
        str,
        typer.Argument(
            help="solvers, networks, architectures, technologies, chips, chip-networks, studies, "
            "layers/NETWORK (of the library or a file), schema (the columns of results) or json-schema/KIND "
            "(of study, architecture, chip, technology and constraints files)."
        ),
    ],
    dim: Dims = None,
    as_json: JsonOut = False,
) -> None:
    """List what is built in, or the layers of a network."""
    from sweep.cli.evaluate.evaluate import listing, print_rows, print_schema
    from sweep.cli.layers import list_layers

    if what == "schema":
        print_schema()
        return
    if what.startswith("json-schema/"):
        from sweep.cli.schemas import file_schema

        print(json.dumps(file_schema(what.removeprefix("json-schema/")), indent=2))
        return
    if what.startswith("layers/"):
        list_layers(what.removeprefix("layers/"), dims_of(dim), as_json)
        return
    if dim:
        raise InputError("--dim", "layers/NETWORK to go with", what)
    rows = listing(what)
    if as_json:
        print(json.dumps(rows))
    else:
        print_rows(rows)


def main() -> None:
    """Exit status 0: done; 1: the work failed or was stopped; 2: the input was wrong."""
    warnings.showwarning = _each_once()
    try:
        with said():
            app()
    except NotSentError as error:
        # Before its own base class below: a store that fails at the end of a run is no wrong input, whereas
        # one that takes nothing from the beginning (CannotWriteError) was named wrongly.
        _fail(str(error), ExitStatus.WORK_FAILED)
    except (InputError, NotARunError, CannotWriteError, FolderInUseError, WrongAddressError) as error:
        _fail(str(error), ExitStatus.WRONG_INPUT)
    except (ResultsError, WorkFailedError, WorkersUnavailableError, ClusterRefusedError) as error:
        _fail(str(error), ExitStatus.WORK_FAILED)
    except BrokenPipeError:
        # Whoever read our output has gone, as `| head` does. Closed, standard error cannot complain about it.
        sys.stderr.close()
        sys.exit(ExitStatus.WORK_FAILED)


def _each_once() -> Callable[..., None]:
    """Prints warnings to standard error, those of the same words once."""
    shown: set[str] = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if (text := f"warning: {message}") not in shown:
            shown.add(text)
            note(text)

    return show


def _fail(message: str, status: ExitStatus) -> None:
    """Say what went wrong and end with this status."""
    complain(message)
    if Background.under_way():
        # A call to a store was given up and has not returned. An ordinary exit would wait for it, so the
        # process ends without the clean-up that Python and its libraries do at exit.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)
