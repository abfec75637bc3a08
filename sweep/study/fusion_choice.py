"""The ``fusion`` key of a study: which layers of its networks are mapped together on every design."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from costmodel.errors import InputError, did_you_mean
from costmodel.formats.yaml.file_keys import Keys
from costmodel.mapping.fused.layers.segments import Segment, attention_segments, hanging_together
from costmodel.workload.network import Network
from solvers.budget import Budget
from sweep.study.identity import with_tolerance
from sweep.study.number_keys import Seconds

SegmentRule = Literal["attention", "automatic"]
RULES: tuple[str, ...] = get_args(SegmentRule)
Names = Annotated[tuple[str, ...], Field(min_length=2, strict=False)]
Segments = Annotated[tuple[Names, ...], Field(min_length=1, strict=False)]


class FusionChoice(Keys):
    """Map groups of layers together where that is better than one by one.

    Layers of a group share loops or keep tensors on the chip for one another. A rule or a list in place of
    the keys is the ``segments``.
    """

    segments: SegmentRule | Segments
    """Which layers are groups.

    attention: scores and weighted values. automatic: chains of layers over each border of which passes
    a tensor that only they read, such as attention with its projections, or an MLP. Else a list of lists of
    names of layers in the order in which they run; a ``*`` in a name stands for the same text in all names
    of its list, such as the block's number.
    """
    longest: Annotated[int, Field(ge=1, le=8)] = 3
    """How many layers of a group may share loops or keep tensors for one another."""
    cut_rows: bool = False
    """Whether loops may cut rows that softmax normalises; the scaling of the parts is not counted."""
    windows: bool = True
    """Whether loops over rows may pass through the windows of convolutions to the layers before them."""
    columns: bool = False
    """Whether loops over columns may pass through windows, too."""
    recompute: bool = False
    """Whether rows that windows have in common may be made anew where they cannot stay on the chip."""
    pipelined: bool = False
    """Whether layers that share all their loops may run at the same time on columns or rows of the array."""
    solver: str = "fusion_layers"
    """A layer_fusion solver of ``archsweep list solvers``."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the solver, by their names in its ``Params``."""
    tolerance: Annotated[float, Field(ge=0, lt=1)] | None = None
    """The gap at which the solver may stop, as a fraction of the objective."""
    wall_seconds: Seconds = 60.0
    """Seconds on the clock that one group may take."""

    @field_validator("segments", mode="before")
    @classmethod
    def _known(cls, segments: Any) -> Any:
        return checked_segments(segments)

    @model_validator(mode="after")
    def _columns_beside_rows(self) -> FusionChoice:
        if self.columns and not self.windows:
            raise InputError("", "false where windows is false", self.columns, key="columns")
        return self

    @property
    def budget(self) -> Budget:
        return Budget(self.wall_seconds)

    @property
    def solver_params(self) -> dict[str, Any]:
        """The parameters for the solver, the tolerance among them if there is one."""
        return with_tolerance(self.params, self.tolerance)

    def segments_of(self, network: Network) -> tuple[tuple[Segment, int | None], ...]:
        """The groups of a network, by the names of their layers, each with the number of the stated list that
        it is of; None for those of a rule."""
        if self.segments == "attention":
            return tuple((segment, None) for segment in attention_segments(network))
        if self.segments == "automatic":
            return tuple((segment, None) for segment in hanging_together(network, self.longest))
        names = [layer.name for layer in network.layers]
        stated = enumerate(self.segments)
        return tuple((found, number) for number, one in stated for found in _matching(one, names))


def checked_segments(stated: Any) -> Any:
    """What a study says of its segments, as it is; InputError unless it is a rule or lists of names."""
    if not isinstance(stated, list | tuple):
        if stated not in RULES:
            expected = f"{', '.join(RULES)}, or a list of lists of names of layers"
            raise InputError("", expected, stated, did_you_mean(stated, RULES))
        return stated
    if not stated:
        raise InputError("", "at least one list of names of layers", "none", "Leave 'fusion' out")
    seen: set[str] = set()
    for position, names in enumerate(stated):
        key = f"[{position}]"
        if not isinstance(names, list | tuple) or len(names) < 2:
            raise InputError("", "a list of at least two names of layers", names, key=key)
        for name in names:
            if not isinstance(name, str) or name.count("*") > 1:
                raise InputError("", "the name of a layer, with one * at most", name, key=key)
            if name in seen:
                raise InputError("", "every layer in one list, once", f"{name} again", key=key)
            seen.add(name)
    return stated


def _matching(stated: Sequence[str], names: Sequence[str]) -> list[Segment]:
    """The segments that a list of names with a ``*`` in them stands for; those of the network's ``names``."""
    pattern = re.compile("(.*)".join(map(re.escape, stated[0].split("*", 1))))
    known, found = set(names), []
    for name in names:
        if match := pattern.fullmatch(name):
            text = match.group(1) if "*" in stated[0] else ""
            segment = tuple(one.replace("*", text, 1) for one in stated)
            if known.issuperset(segment):
                found.append(segment)
    return found
