"""Pareto fronts of designs: masks and hypervolume by moocore, and a run's front as a table.

Every objective is minimised. A point with a NaN or infinite objective is never on a front.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from json import dumps, loads
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from results.errors import WrongRowError
from results.front.networks import NetworkRuns, RunTotal, networks_of
from results.store.folder import RunFolder
from results.store.schema.columns import Column, Kind
from results.store.schema.rows import DesignRow
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
    "off_chip_bytes",
    "off_chip_energy_pj",
    "dram_bytes",
    "noc_hop_bytes",
)
_DTYPES: Mapping[Kind, str] = MappingProxyType(
    {"string": "str", "int": "Int64", "float": "float64", "bool": "boolean"}
)
"""Types that keep whole numbers whole where some rows have none."""


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
    are left out: those whose ``study_id`` is not the lock file's.
    Values of an axis are numbers or text; lists are shown as JSON text.
    """
    designs = _current(run, run.read("designs"))
    rows = designs.to_pylist()
    return _frame([DESIGNS.decode(row) for row in rows], _axes(_different(designs, "axes")))


def _current(run: RunFolder, designs: pyarrow.Table) -> pyarrow.Table:
    """Those rows of ``designs`` that are of the study as it last ran."""
    from pyarrow import compute

    current = run.read_lock_file().get("study_id")
    if current is None:
        return designs
    ids = designs["study_id"]
    return designs.filter(compute.or_kleene(compute.is_null(ids), compute.equal(ids, str(current))))


def _axes(texts: Iterable[str | None]) -> list[str]:
    """The axes that designs name, from the stored column ``axes``."""
    return list(dict.fromkeys(name for text in texts if text is not None for name in loads(text) or {}))


def _frame(rows: Sequence[DesignRow], axes: Sequence[str]) -> pandas.DataFrame:
    """Decoded rows as :func:`design_frame` gives them, with these axes."""
    import pandas

    decoded = sorted(rows, key=lambda row: str(row["design_id"]))
    frame = pandas.DataFrame(decoded, columns=list(DESIGNS.names()))
    for kind, dtype in _DTYPES.items():
        names = list(DESIGNS.names(kind))
        frame[names] = frame[names].astype(dtype)
    for name in axes:
        frame[AXIS_PREFIX + name] = [_axis_value((row["axes"] or {}).get(name)) for row in decoded]
    return frame


def objective_points(frame: pandas.DataFrame, objectives: Sequence[str]) -> Points:
    """The objectives of each row; NaN rows for designs that are not complete and feasible."""
    points = np.array(frame[list(objectives)].astype("float64"), dtype=np.float64)
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
    columns = ["design_id", "study_id", "axes", *JUDGED, *objectives]
    designs = _current(run, run.read("designs", columns))
    judged = designs.select([*JUDGED, *objectives]).to_pandas().astype({"feasible": "boolean"})
    on_front = front_mask(objective_points(judged, objectives))
    ids = designs["design_id"].filter(_mask(on_front)).to_pylist()
    rows = _current(run, run.read_some("designs", ids)).to_pylist()
    return _frame([DESIGNS.decode(row) for row in rows], _axes(_different(designs, "axes")))


def _mask(chosen: NDArray[np.bool_]) -> pyarrow.Array:
    import pyarrow

    return pyarrow.array(chosen)


def _different(designs: pyarrow.Table, column: str) -> list[str | None]:
    """The different values of a column, in the order of their design's id."""
    ordered = designs.sort_by("design_id")
    return cast("list[str | None]", ordered[column].unique().to_pylist())


def network_labels(run: RunFolder) -> list[str]:
    """The networks whose runs a run's designs add up, as ``decode ×50``; none where each runs once.

    All designs of a study name the same networks, but for those without an answer, which name none. So one
    design of each status is looked at.
    """
    designs = _current(run, run.read("designs", ["design_id", "study_id", "status"]))
    kinds = designs.group_by(["study_id", "status"]).aggregate([("design_id", "max")])
    rows = run.read_some("designs", kinds["design_id_max"].to_pylist()).to_pylist()
    decoded = [DESIGNS.decode({"networks": row["networks"]})["networks"] for row in rows]
    found = {one.name: one for networks in decoded for one in networks_of(networks).values()}
    return [one.label for one in found.values()] if _weighted(found) else []


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
