"""Optuna's samplers as a search: ask for designs, tell what was found, keep every trial in a journal."""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from math import inf
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, Trial, TrialState

from results.front.left_out import outcome
from results.front.pareto import recent_gain
from results.store.schema.rows import DesignRow
from sweep.design.design_row import objective_bounds, objective_values
from sweep.design.workload import solved_how
from sweep.search.trial_journal import append_records, mend
from sweep.study.designs.axis import Axis
from sweep.study.designs.design_space import Design, DesignSpace
from sweep.study.identity import content_hash
from sweep.study.search_choice import OptunaSearch
from sweep.study.study import Study

Distributions = dict[str, BaseDistribution]
Point = tuple[int, ...]
"""A design as the samplers see it: for each axis the index of its value."""

TRIALS_PER_ASK = 64
"""Trials of an earlier run that are handed out at once."""

POPULATION = 24
"""Designs of one generation, unless the study says: so a few hundred trials are many generations."""

REPEATED_ASKS = 5
"""After this many repeated proposals in a row, a random new design is proposed."""

BEGUN = "begun"
"""Attribute of an Optuna study: the designs that it begins with are all in its queue."""
REPEATS = "repeats"
"""Attribute of a trial that repeats a design: the number of the trial that proposed it first."""
BOUNDS = "values are lower bounds"
"""Attribute of a trial whose design was discarded by its bounds."""
UNMAPPED = "a mapping for every layer"
"""The constraint, beside the study's own, that a design breaks whose solves prove it infeasible."""


class _Proposed(NamedTuple):
    """A design of a trial in the journal."""

    is_open: bool
    """Whether the trial has no answer yet: the driver died while it was solved."""
    discarded: bool
    """Whether the design's bounds were dominated, so that nothing was solved for it."""
    design: Design


class OptunaProposals:
    """A :class:`~sweep.search.search.DesignSearch` that proposes as one of Optuna's samplers does.

    A proposal depends only on the study, the number of its trial and what was told before, because each trial
    has a seed of its own. So a killed search goes on from its journal as if it had not been killed; trials
    that were open are handed out again under their numbers.

    A sampler may propose a design again. That costs no solve: it is told the answer that the design has, or
    that the trial failed where there is none yet, and is asked anew. After REPEATED_ASKS such proposals a
    random new design is taken, so that many proposals at a time are as many designs.
    """

    learns = True

    def __init__(
        self,
        study: Study,
        space: DesignSpace,
        journal: Path | None = None,
        first: Callable[[], Sequence[Point]] = list,
    ) -> None:
        """``first`` returns the points to begin a new search with, after the baseline."""
        assert isinstance(study.search, OptunaSearch)
        self._study, self._search, self._space = study, study.search, space
        self._started = time.monotonic()
        self._points: dict[Point, int] = {}
        """For each design proposed, the number of the trial that proposed it first."""
        self._open: dict[int, Trial] = {}
        """By number, the trials whose designs have no row yet."""
        self._evaluated: list[list[float]] = []
        """Objectives of the complete designs, in the order in which they were told."""
        self._storage = _storage(journal)
        self._optuna = _opened(study, self._storage)
        baseline, member = space.baseline_design(), space.indices_of_baseline()
        # a baseline outside the family is no trial: no sampler could have proposed it
        self._again = deque([baseline] if baseline and member is None else [])
        self._again.extend(self._of_earlier_runs())
        if BEGUN not in self._optuna.user_attrs:
            self._queue([*([member] if member else []), *first()])

    @property
    def repeats(self) -> int:
        """How many trials repeated an earlier design."""
        return sum(REPEATS in trial.user_attrs for trial in self._trials())

    @property
    def generation(self) -> int:
        sampler = self._search.sampler
        if sampler == "tpe":
            return 1
        return self._search.population or POPULATION

    @property
    def finished(self) -> bool:
        if self._again:
            return False
        if len(self._points) >= min(self._search.trials, self._space.size):
            return True
        seconds = self._search.wall_seconds
        return (seconds is not None and time.monotonic() - self._started > seconds) or self._on_a_plateau()

    def ask(self) -> list[Design]:
        if self._again:
            return [self._again.popleft() for _ in range(min(len(self._again), TRIALS_PER_ASK))]
        return [self._proposed()]

    def tell(self, row: DesignRow) -> None:
        if outcome(row) == "complete":
            self._evaluated.append(objective_values(self._study, row))
        number = row["trial"]
        if number is not None and (trial := self._open.pop(number, None)):
            self._tell(trial, row)

    def _on_a_plateau(self) -> bool:
        plateau = self._search.plateau
        if plateau is None or len(self._evaluated) <= plateau.trials:
            return False
        return recent_gain(self._evaluated, plateau.trials) <= plateau.tolerance

    def _proposed(self) -> Design:
        """The next new design of the sampler, or a random one after too many repeats."""
        for _ in range(REPEATED_ASKS):
            trial, point = self._asked()
            if point not in self._points:
                return self._new(trial, point)
            self._repeat(trial, self._points[point])
        unseen = self._space.unseen(self._points, f"{self._search.seed}/{len(self._trials())}")
        assert unseen is not None, "a search that has proposed the whole family is finished"
        self._optuna.enqueue_trial(self._values(unseen))
        return self._new(*self._asked())

    def _asked(self) -> tuple[Trial, Point]:
        """The sampler's next trial, and the point that it proposes."""
        self._optuna.sampler = _sampler(self._search, self._space.axes, len(self._trials()))
        trial = self._optuna.ask()
        return trial, self._point(trial)

    def _new(self, trial: Trial, point: Point) -> Design:
        self._points[point] = trial.number
        self._open[trial.number] = trial
        return self._space.design(point, trial.number)

    def _repeat(self, trial: Trial, number: int) -> None:
        """Close a trial that proposes the same design as trial ``number``, with the answer to that one."""
        trial.set_user_attr(REPEATS, number)
        earlier = self._trials()[number]
        if earlier.state is TrialState.COMPLETE:
            self._constrain(trial, earlier.constraints)
            self._optuna.tell(trial, earlier.values)
        else:
            self._optuna.tell(trial, state=TrialState.FAIL)

    def _tell(self, trial: Trial, row: DesignRow) -> None:
        """Tell the sampler the objectives of a design, and by how much it breaks each constraint.

        An infeasible design has no objectives: infinities are told. Of one that its bounds discarded, the
        bounds are told. A failed solve makes a failed trial, which a resumed search hands out again.
        """
        if row["status"] == "failed":
            self._optuna.tell(trial, state=TrialState.FAIL)
            return
        design = self._space.design(self._point(trial))
        infeasible = row["status"] == "infeasible"
        broken = {str(c): c.excess(design.hardware) for c in self._space.constraints}
        # what nobody solved is not known to break a constraint on results
        answered: Mapping[str, Any] = row if row["status"] == "complete" else {}
        for limit in self._study.result_constraints:
            value = answered.get(limit.quantity)
            broken[str(limit)] = 0.0 if value is None else limit.excess_of(float(value))
        self._constrain(trial, broken | {UNMAPPED: float(infeasible and design.feasible)})
        if infeasible:
            values = [inf] * len(self._study.objectives)
        elif row["status"] == "dominated":
            energy_pj, cycles = row["energy_bound_pj"], row["cycles_bound"]
            assert energy_pj is not None, "the design was discarded by its bounds"
            assert cycles is not None, "the design was discarded by its bounds"
            trial.set_user_attr(BOUNDS, True)
            values = objective_bounds(self._study, design, energy_pj, cycles)
        else:
            values = objective_values(self._study, row)
        self._optuna.tell(trial, values)

    def _constrain(self, trial: Trial, excesses: Mapping[str, float]) -> None:
        """Set the excesses of the constraints on a trial, but for those that a killed driver had set.

        In Optuna a constraint holds where its excess is 0 or less.
        """
        known = self._trials()[trial.number].constraints
        for name, excess in excesses.items():
            if name not in known:
                trial.set_constraint(name, excess)

    def _of_earlier_runs(self) -> list[Design]:
        """The designs of the journal's trials, in the order in which they are handed out again.

        First come the designs whose trials ended: they get their rows again, from answers in the store. The
        designs of trials that were open when the driver died follow. Of both, those that bounds discarded
        come last: by then the designs that dominate them have their rows.
        """
        found: list[_Proposed] = []
        for frozen in self._trials():
            if frozen.state is TrialState.WAITING:
                continue  # queued, but no sampler was asked for it yet
            if REPEATS in frozen.user_attrs and frozen.state.is_finished():
                continue  # the trial that it repeats hands the design out
            trial, point = self._resumed(frozen)
            if point in self._points:
                # a repeat, and the driver died before it closed the trial
                self._repeat(trial, self._points[point])
                continue
            is_open = frozen.state is TrialState.RUNNING
            found.append(_Proposed(is_open, BOUNDS in frozen.user_attrs, self._new(trial, point)))
            if not is_open:
                del self._open[frozen.number]  # Optuna knows its answer, and must not be told twice
        return [one.design for one in sorted(found, key=lambda one: (one.is_open, one.discarded))]

    def _resumed(self, frozen: FrozenTrial) -> tuple[Trial, Point]:
        """A trial of the journal to go on with, and its point.

        Values that the killed driver had not written are proposed now, with the trial's own seed, and are the
        same. Optuna's study only makes new trials; an earlier one is had by its id in the storage.
        """
        self._optuna.sampler = _sampler(self._search, self._space.axes, frozen.number)
        of_study = self._storage.get_study_id_from_name(self._optuna.study_name)
        trial_id = self._storage.get_trial_id_from_study_id_trial_number(of_study, frozen.number)
        trial = Trial(self._optuna, trial_id)
        return trial, self._point(trial)

    def _queue(self, first: Sequence[Point]) -> None:
        """Queue the points that a new search begins with; a killed driver may have queued some already."""
        for point in dict.fromkeys(first):
            self._optuna.enqueue_trial(self._values(point), skip_if_exists=True)
        self._optuna.set_user_attr(BEGUN, True)

    def _trials(self) -> list[FrozenTrial]:
        return self._optuna.get_trials(deepcopy=False)

    def _values(self, point: Point) -> dict[str, int]:
        return {axis.key: index for axis, index in zip(self._space.axes, point, strict=True)}

    def _point(self, trial: Trial) -> Point:
        return tuple(_suggest(trial, axis) for axis in self._space.axes)


def _distribution(axis: Axis) -> BaseDistribution:
    """Integers for an ordered axis, so that a sampler knows its neighbours; categories for any other."""
    if axis.ordered:
        return IntDistribution(0, len(axis.choices) - 1)
    return CategoricalDistribution(range(len(axis.choices)))


def _suggest(trial: Trial, axis: Axis) -> int:
    if axis.ordered:
        return trial.suggest_int(axis.key, 0, len(axis.choices) - 1)
    return int(trial.suggest_categorical(axis.key, range(len(axis.choices))))


class _Told:
    """Mixed into a sampler: gives it the search space, else inferred from all trials at each proposal."""

    axes: Sequence[Axis] = ()

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> Distributions:
        varied = (axis for axis in self.axes if len(axis.choices) > 1)
        return {axis.key: _distribution(axis) for axis in sorted(varied, key=lambda axis: axis.key)}


class _NSGAII(_Told, optuna.samplers.NSGAIISampler):
    pass


class _NSGAIII(_Told, optuna.samplers.NSGAIIISampler):
    pass


class _TPE(_Told, optuna.samplers.TPESampler):
    pass


def _sampler(search: OptunaSearch, axes: Sequence[Axis], number: int) -> BaseSampler:
    """A new sampler for trial ``number``, with a seed of its own; it learns from the trials' records only."""
    seed = Random(f"{search.seed}/{number}").getrandbits(32)
    population = search.population or POPULATION
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)  # nsga3 and qmc still are that to Optuna
        sampler = _plain_sampler(search, seed, population)
    if isinstance(sampler, _Told):
        sampler.axes = axes
    return sampler


def _plain_sampler(search: OptunaSearch, seed: int, population: int) -> BaseSampler:
    if search.sampler == "nsga2":
        return _NSGAII(population_size=population, seed=seed)
    if search.sampler == "nsga3":
        return _NSGAIII(population_size=population, seed=seed)
    if search.sampler == "tpe":
        return _TPE(multivariate=True, constant_liar=True, seed=seed)
    if search.sampler == "qmc":  # one sequence, of which every trial is the next point
        return optuna.samplers.QMCSampler(scramble=True, seed=search.seed, warn_independent_sampling=False)
    return optuna.samplers.RandomSampler(seed=seed)


def _opened(study: Study, storage: BaseStorage) -> optuna.Study:
    """Optuna's study with the trials so far.

    Its name has a hash of everything that changes proposals or answers, so trials of an edited study do not
    mix with earlier ones. How long a search goes on changes neither and is left out.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    asked = study.identity
    for key in ("description", "search"):
        del asked[key]
    assert isinstance(study.search, OptunaSearch)
    steering = study.search.model_dump(mode="json", exclude={"trials", "wall_seconds", "plateau"})
    return optuna.create_study(
        storage=storage,
        study_name=f"{study.name}-{content_hash([asked, steering, solved_how(study)])}",
        directions=["minimize"] * len(study.objectives),
        load_if_exists=True,
    )


def _storage(journal: Path | None) -> BaseStorage:
    if journal is None:
        return InMemoryStorage()
    mend(journal)
    return JournalStorage(_UnsyncedFile(str(journal)))


class _UnsyncedFile(JournalFileBackend):
    """Optuna's journal file without its waits: records survive a killed process, but not a power cut.

    Optuna's own way waits for the disk at each of a trial's ten records, and takes a file lock, which the run
    folder's lock makes needless.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._path = Path(path)

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        append_records(self._path, logs)
