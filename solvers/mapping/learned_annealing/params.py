"""The settings of learned annealing: how much is measured, how chains walk, how the model learns."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from solvers.checks import check, check_counts, check_switches, is_number, is_whole

COUNTS = {"batches": 1, "batch": 1, "steps": 1, "trees": 1, "depth": 1, "most_rows": 16}
FRACTIONS = ("random_fraction", "elite_fraction", "refit_growth")


@dataclass(frozen=True)
class Params:
    """How much is measured, how the chains walk, how the model learns; :meth:`paper` is KAPLA's setting.

    ``batches`` of ``batch`` mappings are measured, one from each chain. ``learn`` false anneals on measured
    costs, a step a batch, without a model. ``steps``: how many a chain walks between batches, its temperature
    falling from ``temperature`` (in units of the logarithm of the cost) to 0. ``avoid_invalid`` keeps chains
    within the buffers; without it what does not fit is proposed and measured as bad. ``random_fraction`` of a
    batch is drawn at random instead (epsilon-greedy). ``elite_fraction`` of the chains start at the best ones
    measured, the others where they were. ``patience``: stop after this many batches without a better mapping;
    None: never.

    The model is fitted again when the measurements have grown by more than the fraction ``refit_growth``
    since the last fit (1.0: doubled), to at most ``most_rows`` of them, as ``trees`` boosted regression trees
    of ``depth``.
    """

    batches: int = 32
    batch: int = 128
    learn: bool = True
    steps: int = 100
    temperature: float = 0.2
    avoid_invalid: bool = True
    random_fraction: float = 0.05
    elite_fraction: float = 0.5
    patience: int | None = None
    refit_growth: float = 1.0
    most_rows: int = 4096
    trees: int = 30
    depth: int = 4

    def __post_init__(self) -> None:
        where = "learned_annealing"
        check_counts(where, self, COUNTS)
        check_switches(where, self, "learn", "avoid_invalid")
        for key in FRACTIONS:
            fraction = getattr(self, key)
            check(where, key, is_number(fraction, 0.0, 1.0), "a number from 0 to 1", fraction)
        warm = is_number(self.temperature, 0.0, inf)
        check(where, "temperature", warm, "a number of at least 0", self.temperature)
        patient = self.patience is None or is_whole(self.patience, 1)
        check(where, "patience", patient, "a whole number of at least 1, or nothing", self.patience)

    @property
    def chains(self) -> int:
        """One for every mapping of a batch that is not drawn at random, but at least one."""
        return max(1, self.batch - round(self.random_fraction * self.batch))

    @classmethod
    def paper(cls) -> Params:
        """KAPLA section V: 1024 batches of 128; the rest as AutoTVM has it, which knows no buffers."""
        return cls(
            batches=1024,
            steps=500,
            temperature=1.0,
            avoid_invalid=False,
            elite_fraction=0.0,
            refit_growth=0.0,
        )
