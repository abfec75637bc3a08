"""Learned annealing's knobs."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

from costmodel.errors import InputError

COUNTS = (("batches", 1), ("batch", 1), ("steps", 1), ("trees", 1), ("depth", 1), ("most_rows", 16))
SWITCHES = ("learn", "avoid_invalid")
FRACTIONS = ("random_share", "elite_share", "refit_growth")


@dataclass(frozen=True)
class Params:
    """How much is measured, how the chains walk, how the model learns; :meth:`paper` is KAPLA's setting.

    ``batches`` of ``batch`` mappings are measured, one from each chain. ``learn`` false anneals on measured
    costs, a step a batch, without a model. ``steps``: so many a chain walks between batches, its temperature
    falling from ``temperature`` (in units of the logarithm of the cost) to 0. ``avoid_invalid`` keeps chains
    within the buffers; without it what does not fit is proposed and measured as bad. ``random_share`` of a
    batch is drawn at random instead (epsilon-greedy). ``elite_share`` of the chains start at the best ones
    measured, the others where they were. ``patience``: stop after so many batches without a better mapping;
    None: never.

    The model is fitted again when there are more than ``refit_growth`` times more measurements, to at most
    ``most_rows`` of them, as ``trees`` boosted regression trees of ``depth``.
    """

    batches: int = 32
    batch: int = 128
    learn: bool = True
    steps: int = 100
    temperature: float = 0.2
    avoid_invalid: bool = True
    random_share: float = 0.05
    elite_share: float = 0.5
    patience: int | None = None
    refit_growth: float = 1.0
    most_rows: int = 4096
    trees: int = 30
    depth: int = 4

    def __post_init__(self) -> None:
        for key, least in COUNTS:
            count = getattr(self, key)
            _check(key, _is_whole(count, least), f"a whole number of at least {least}", count)
        for key in SWITCHES:
            _check(key, isinstance(getattr(self, key), bool), "true or false", getattr(self, key))
        for key in FRACTIONS:
            _check(key, _is_number(getattr(self, key), 1.0), "a number from 0 to 1", getattr(self, key))
        _check("temperature", _is_number(self.temperature), "a number of at least 0", self.temperature)
        patient = self.patience is None or _is_whole(self.patience, 1)
        _check("patience", patient, "a whole number of at least 1, or nothing", self.patience)

    @property
    def chains(self) -> int:
        """One for every mapping of a batch that is not drawn at random, but at least one."""
        return max(1, self.batch - round(self.random_share * self.batch))

    @classmethod
    def paper(cls) -> Params:
        """KAPLA section V: 1024 batches of 128; the rest as AutoTVM has it, which knows no buffers."""
        return cls(
            batches=1024,
            steps=500,
            temperature=1.0,
            avoid_invalid=False,
            elite_share=0.0,
            refit_growth=0.0,
        )


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_number(value: Any, most: float | None = None) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not isfinite(value):
        return False
    return value >= 0 and (most is None or value <= most)


def _check(key: str, right: bool, expected: str, found: Any) -> None:
    if not right:
        raise InputError("learned_annealing", expected, found, key=key)
