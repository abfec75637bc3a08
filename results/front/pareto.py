"""Pareto fronts of designs: masks and hypervolume by moocore, and a run's front as a table.

Every objective is minimised. A point with a NaN or infinite objective is never on a front.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from json import dumps, loads
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from results.errors import WrongRowError
from results.front.left_out import LEFT_OUT, left_out_sentence, outcome
from results.front.networks import NetworkRuns, RunTotal, networks_of
from results.store.folder import RunFolder, while_joined
from results.store.schema.columns import Column
from results.store.schema.rows import NetworkEntry
from results.store.schema.tables import DESIGNS

if TYPE_CHECKING:
    import pandas
    import pyarrow

Points = NDArray[np.float64]
"""Objective values, one row per design, one column per objective."""

AXIS_PREFIX = "axis."
NETWORK_PREFIX = "network."
JUDGED = ("status", "feasible")
"""The columns that say whether a design's objectives count."""
REFERENCE_MARGIN = 0.1
"""How far beyond the worst point ``reference_point`` lies, as a fraction of the range of an objective."""

_OBJECTIVES = (
    "area_um2",
    "energy_pj",
    "cycles",
    "edp_pj_cycles",
    "latency_seconds",
    "seconds_per_token",
    "joules_per_token",
    "time_to_first_token_seconds",
    "time_per_output_token_seconds",
    "off_chip_bytes",
    "off_chip_energy_pj",
    "dram_bytes",
    "noc_hop_bytes",
)


def covers(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether ``one`` is at least as good as ``other`` in every objective."""
    return all(a <= b for a, b in zip(one, other, strict=True))


def front_mask(points: ArrayLike) -> NDArray[np.bool_]:
    """Which points no other point dominates; of equal points all count, so none is lost by its order."""
    import moocore

    values = _points(points)
    mask = np.asarray(np.isfinite(values).all(axis=1))
    if mask.any():
        # Only finite points take part: NaN compares as false with everything and would never be dominated.
        mask[mask] = moocore.is_nondominated(values[mask], keep_weakly=True)
    return mask


def reference_point(points: ArrayLike) -> Points:
    """A reference for the hypervolume: each objective's worst, and 10 % of its range (or value) beyond.

    Hypervolumes compare only under one reference point: take it from the union of all sets compared.
    Raises ValueError when no point is finite.
    """
    values = _finite(points)
    if not len(values):
        raise ValueError("no point with finite objectives")
    worst, best = values.max(axis=0), values.min(axis=0)
    # Where all values of an objective are equal there is no range; without a margin those points would add no
    # volume at all.
    spread = np.where(worst > best, worst - best, np.abs(worst))
    return np.asarray(worst + REFERENCE_MARGIN * np.where(spread > 0, spread, 1.0))


def hypervolume(points: ArrayLike, reference: ArrayLike) -> float:
    """The volume between the points and the ``reference`` (one value per objective), in objective units.

    Points that do not beat the reference in every objective add nothing.
    """
    import moocore

    values, limit = _finite(points), np.asarray(reference, dtype=np.float64)
    if limit.shape != values.shape[1:]:
        raise ValueError(f"expected a reference of {values.shape[1]} values, found {limit.size}")
    values = values[(values < limit).all(axis=1)]
    return float(moocore.hypervolume(values, ref=limit)) if len(values) else 0.0


def near_front(points: ArrayLike, most: int) -> NDArray[np.int64]:
    """The row numbers of at most ``most`` points just behind the front, in the order of the rows.

    They are the points of nondominated rank 2 (the front of what is left without the front), then of rank 3
    and so on; of the last rank that does not fit, some evenly spread ones.
    """
    values = _points(points)
    left = np.flatnonzero(np.isfinite(values).all(axis=1))
    left = left[~front_mask(values[left])]
    found = [np.empty(0, np.int64)]
    for members in _ranks(values, left):
        if len(members) > most:
            members = members[np.linspace(0, len(members) - 1, most).round().astype(np.int64)]
        found.append(members)
        most -= len(members)
        if most <= 0:
            break
    return np.sort(np.concatenate(found))


def _ranks(values: Points, left: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """The rows ``left`` by nondominated rank, each rank in the order of the rows."""
    import moocore

    # An objective in which all are equal decides nothing.
    columns = np.flatnonzero(np.ptp(values[left], axis=0)).tolist() or [0] if len(left) else []
    if len(columns) > 2:
        while len(left):
            rank = front_mask(values[left])
            yield left[rank]
            left = left[~rank]
    elif columns:
        # Where objectives go together, ranks have few points each, and thousands of fronts would be looked
        # for one by one. Of two objectives one sort finds all ranks; of more it would do the same.
        ranks = moocore.pareto_rank(values[left][:, (columns * 2)[:2]])
        order = np.argsort(ranks, kind="stable")
        yield from np.split(left[order], np.flatnonzero(np.diff(ranks[order])) + 1)


def recent_gain(points: ArrayLike, last: int) -> float:
    """The fraction of the hypervolume of all ``points`` that only the ``last`` ones brought, from 0 to 1.

    Under the reference point of them all; 1 where there is no earlier point, 0 where there is no volume.
    """
    values = _finite(points)
    if len(values) <= last:
        return 1.0
    reference = reference_point(values)
    volume = hypervolume(values, reference)
    return 1 - hypervolume(values[:-last], reference) / volume if volume else 0.0


def knee(front: ArrayLike) -> int:
    """The index of the front point nearest to the ideal one, every objective scaled to the front's range."""
    values = _points(front)
    low, span = values.min(axis=0), np.ptp(values, axis=0)
    scaled = (values - low) / np.where(span > 0, span, 1.0)
    return int(np.argmin(np.linalg.norm(scaled, axis=1)))


def objective_columns() -> list[Column]:
    """The columns of ``designs`` that a front may be drawn over."""
    return [column for column in DESIGNS.columns if column.name in _OBJECTIVES]


def check_objectives(objectives: Sequence[str]) -> None:
    """Raises WrongRowError for an objective that ``designs`` does not have, or one that is named twice."""
    known = [column.name for column in objective_columns()]
    if not objectives:
        raise WrongRowError("objectives", "none given", f"Known: {', '.join(known)}")
    for name in objectives:
        if name not in known:
            raise WrongRowError(
                "objectives", f"{name!r} is no objective of a design", f"Known: {', '.join(known)}"
            )
    if twice := [name for name in dict.fromkeys(objectives) if objectives.count(name) > 1]:
        raise WrongRowError("objectives", f"{twice[0]!r} twice", "A front is drawn over different objectives")


def design_frame(run: RunFolder) -> pandas.DataFrame:
    """The designs of a run ordered by id, JSON columns decoded, one column ``axis.NAME`` for every axis.

    Where a study was changed and run again into the same folder, designs that only its earlier forms had
    are left out: those whose ``study_id`` is not the lock file's. Values of an axis are numbers or text;
    lists are shown as JSON text.
    """
    return _frame(of_study(run.read("designs", DESIGNS.names()), study_of(run)))


def study_of(run: RunFolder) -> str | None:
    """The id of the study as it last ran into this folder; None where no lock file says it."""
    found = run.read_lock_file().get("study_id")
    return None if found is None else str(found)


def of_study(designs: pyarrow.Table, study_id: str | None) -> pyarrow.Table:
    """Those rows of ``designs`` that are of this study, or that do not say of which; None: all."""
    from pyarrow import compute

    if study_id is None:
        return designs
    ids = designs["study_id"]
    return designs.filter(compute.or_kleene(compute.is_null(ids), compute.equal(ids, study_id)))


def _frame(designs: pyarrow.Table, axes: Sequence[str] | None = None) -> pandas.DataFrame:
    """Stored rows as :func:`design_frame` gives them; ``axes`` None: those that the rows name."""
    import pandas
    import pyarrow

    rows = designs.select([name for name in DESIGNS.names() if name in designs.column_names])
    rows = rows.sort_by("design_id")
    whole = {pyarrow.int64(): pandas.Int64Dtype(), pyarrow.bool_(): pandas.BooleanDtype()}
    frame: pandas.DataFrame = rows.to_pandas(types_mapper=whole.get)
    for name in DESIGNS.names("json"):
        if name in frame:
            frame[name] = pandas.Series(_decoded(rows[name].to_pylist()), dtype=object)
    values = [value or {} for value in frame["axes"]]
    for axis in list(dict.fromkeys(name for row in values for name in row)) if axes is None else axes:
        frame[AXIS_PREFIX + axis] = [_axis_value(row.get(axis)) for row in values]
    return frame


def _decoded(texts: Sequence[str | None]) -> list[Any]:
    """JSON read; of equal texts and numbers in it each once, for many designs have few values."""
    seen: dict[tuple[type, Any], Any] = {}

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {
            name: value if isinstance(value, list | dict) else seen.setdefault((type(value), value), value)
            for name, value in pairs
        }

    return [None if text is None else loads(text, object_pairs_hook=once) for text in texts]


def numbers_of(frame: pandas.DataFrame, name: str) -> NDArray[np.float64]:
    """A column of numbers of designs, NaN where a design has none, and everywhere if there is no column."""
    if name not in frame:
        return np.broadcast_to(np.float64("nan"), len(frame))
    return np.asarray(frame[name].astype("float64"), dtype=np.float64)


def objective_points(frame: pandas.DataFrame, objectives: Sequence[str]) -> Points:
    """The objectives of each row; NaN rows for designs that are not complete and feasible."""
    points = np.column_stack([numbers_of(frame, name) for name in objectives])
    judged = (frame["status"] == "complete") & frame["feasible"].fillna(False)
    points[~judged.to_numpy(dtype=bool)] = np.nan
    return points


def front_of(frame: pandas.DataFrame, objectives: Sequence[str]) -> pandas.DataFrame:
    """The rows of ``design_frame`` on the front, best first objective first."""
    check_objectives(objectives)
    front = frame[front_mask(objective_points(frame, objectives))]
    return front.sort_values([*objectives, "design_id"], ignore_index=True)


def front_table(run: RunFolder, objectives: Sequence[str]) -> pandas.DataFrame:
    """A run's front: design_id, its axes, the objectives, then the other metrics; no JSON columns.

    Of a study with several networks or a weight, three columns a network follow: ``network.NAME.weight``, and
    ``network.NAME.energy_pj`` and ``network.NAME.cycles`` of all its runs, which add up to the design's.

    ``front_table(...).to_csv(index=False)`` is what ``archsweep pareto --csv`` prints.
    """
    front = front_of(_front_frame(run.check(), objectives), objectives)
    axes = [name for name in front.columns if name.startswith(AXIS_PREFIX)]
    first = ["design_id", *axes, *objectives]
    others = [name for name in DESIGNS.names("int", "float") if name not in (*first, "schema_version")]
    networks = [networks_of(row) for row in front["networks"]]
    shown = {name for row in networks if len(row) > 1 or _weighted(row) for name in row}
    parts = {
        f"{NETWORK_PREFIX}{name}.{column}": [_of_runs(row.get(name), column) for row in networks]
        for name in dict.fromkeys(name for row in networks for name in row)
        if name in shown
        for column in ("weight", "energy_pj", "cycles")
    }
    return front[[*first, *others]].assign(**parts)


def _front_frame(run: RunFolder, objectives: Sequence[str]) -> pandas.DataFrame:
    """The rows of :func:`design_frame` on the front over ``objectives``, and few others.

    What decides is read first, as columns; whole rows, a hundred times as large, of the front alone.
    """
    check_objectives(objectives)
    return while_joined(lambda: _frame_of_front(run, objectives))


def _frame_of_front(run: RunFolder, objectives: Sequence[str]) -> pandas.DataFrame:
    import pyarrow

    study_id, axes = study_of(run), AxisNames()
    pieces = [DESIGNS.arrow_schema().empty_table().select(["design_id", *JUDGED, *objectives])]
    for part in run.batches("designs", ("study_id", "axes", *pieces[0].column_names)):
        rows = of_study(part, study_id)
        pieces.append(rows.select(pieces[0].column_names))
        for design_id, text in zip(rows["design_id"].to_pylist(), rows["axes"].to_pylist(), strict=True):
            axes.add(design_id, loads(text) or () if text is not None else ())
    designs = pyarrow.concat_tables(pieces)
    judged = designs.select([*JUDGED, *objectives]).to_pandas().astype({"feasible": "boolean"})
    on_front = front_mask(objective_points(judged, objectives))
    ids = designs["design_id"].filter(pyarrow.array(on_front)).to_pylist()
    return _frame(of_study(run.read_some("designs", ids), study_id), axes.ordered())


class AxisNames:
    """The axes that designs name, in the order of the designs' ids, in whatever order designs come."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, ...], str] = {}
        """By the axes of a design, the first id of those with these axes: most designs have the same."""

    def add(self, design_id: str, axes: Iterable[str]) -> None:
        names = tuple(axes)
        if design_id <= self._first.get(names, design_id):
            self._first[names] = design_id

    def ordered(self) -> list[str]:
        """All axes, each once."""
        by_id = sorted(self._first, key=self._first.__getitem__)
        return list(dict.fromkeys(name for names in by_id for name in names))


def network_labels(run: RunFolder) -> list[str]:
    """The networks whose runs a run's designs add up, as ``decode ×50``; none where each runs once.

    Of a study of phases the phases, as often as a request goes through them.

    All designs of a study name the same networks, but for those without an answer, which name none. So one
    design of each status is looked at.
    """
    study = run.read_lock_file().get("study")
    if phases := study.get("phases") if isinstance(study, dict) else None:
        return [
            NetworkRuns(phase["name"], phase.get("per_request", 1.0), NetworkEntry()).label
            for phase in phases
        ]
    designs = of_study(run.read("designs", ["design_id", "study_id", "status"]), study_of(run))
    kinds = designs.group_by(["study_id", "status"]).aggregate([("design_id", "max")])
    rows = run.read_some("designs", kinds["design_id_max"].to_pylist(), ["networks"]).to_pylist()
    decoded = [DESIGNS.decode({"networks": row["networks"]})["networks"] for row in rows]
    found = {one.name: one for networks in decoded for one in networks_of(networks).values()}
    return [one.label for one in found.values()] if _weighted(found) else []


def left_out_of(run: RunFolder) -> str:
    """:func:`results.front.left_out.left_out_sentence` of a run's designs."""
    return while_joined(lambda: _left_out_of(run))


def _left_out_of(run: RunFolder) -> str:
    import pyarrow

    notes, count, study_id = list[str](), 0, study_of(run)
    for part in run.batches("designs", ("study_id", *JUDGED, "note")):
        rows = of_study(part, study_id)
        count += len(rows)
        broken = [outcome(row) == LEFT_OUT for row in rows.select(JUDGED).to_pylist()]
        notes += rows["note"].filter(pyarrow.array(broken, pyarrow.bool_())).to_pylist()
    return left_out_sentence(notes, count)


def _weighted(networks: Mapping[str, NetworkRuns]) -> bool:
    return any(network.weight != 1 for network in networks.values())


def _of_runs(network: NetworkRuns | None, column: str) -> float | None:
    if network is None:
        return None
    return network.weight if column == "weight" else network.total(cast(RunTotal, column))


def _axis_value(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int | float) else dumps(value)


def _points(points: ArrayLike) -> Points:
    values = np.asarray(points, dtype=np.float64)
    if values.ndim != 2:
        raise ValueError(f"expected one row per point, found shape {values.shape}")
    return values


def _finite(points: ArrayLike) -> Points:
    values = _points(points)
    return values[np.isfinite(values).all(axis=1)]
