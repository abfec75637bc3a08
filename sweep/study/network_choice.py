"""What every design of a study runs: networks with weights, or the phases of a request, which become such.

A request to a language model is served in phases: its prompt is read (prefill), then its answer is written
token by token (decode). A phase says how often a request goes through a network, and how many requests share
a run. It becomes an entry of ``networks:`` for each of its lengths, whose weight is the runs that one request
takes up: ``per_request`` runs that ``batch`` requests share are ``per_request / batch``. So all that sums
over networks, such as energy and cycles, is of one request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from costmodel.errors import InputError
from costmodel.formats.yaml.file_keys import Keys
from sweep.study.designs.axis import OF_PHASES

Role = Literal["prefill", "decode"]

Length = Annotated[int, Field(ge=1)]
Weight = Annotated[float, Field(ge=1e-12, le=1e12)]


class NetworkChoice(Keys):
    """A network of the study, with a batch and a weight of its own."""

    network: str
    """A network of the library, or a file: ONNX, .pt2, config.json, operator graph, a problem of Timeloop.

    With ``.training`` behind the name it is the network's training step.
    """
    batch: Annotated[int, Field(ge=1)] | None = None
    """Samples that run together. Absent: what the network says, which is 1 in the library."""
    dims: dict[str, Length] = Field(default_factory=dict)
    """The symbolic lengths of an ONNX file by their names in it, or those of a model by its configuration."""
    weight: Weight = 1.0
    """How often it runs for every run of a network of weight 1."""
    tokens: Annotated[int, Field(ge=1)] | None = None
    """Tokens that one run makes, for objectives a token: 1 for a decoding step. Absent: none."""

    @property
    def shown(self) -> str:
        """``resnet18``, ``resnet18 x4`` for a batch of 4; for a file, its name without folder and dims."""
        batch = [] if self.batch is None else [f"x{self.batch}"]
        return " ".join([Path(self.network).name, *batch, *_said(self.dims)])


class PhaseRuns(NetworkChoice):
    """The runs of one phase of a request at one of its lengths: a network with the weight that they have."""

    weight: float
    """The runs that one request takes up: ``waits`` over the requests that share a run."""
    phase: str
    """The phase's name, with the dims that tell its lengths apart where it has several."""
    role: Role | None = None
    waits: float
    """The runs that one request waits for: its runs of the phase, times the share of this length."""
    key: str
    """Where the study states it, such as ``phases.decode.lengths[1]``."""

    @property
    def shown(self) -> str:
        return self.phase


class LengthShare(Keys):
    """One of the lengths at which a phase runs, and how often compared with the others."""

    dims: Annotated[dict[str, Length], Field(min_length=1)]
    """Lengths of the network, beside the phase's own ``dims``."""
    weight: Weight = 1.0
    """How often the phase has these lengths, over the sum of the list's weights."""


class RequestPhase(Keys):
    """A phase of a request: the network that it runs, how often, and at which lengths."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")]
    """What results call it."""
    network: str
    """A network as in ``networks``."""
    role: Role | None = None
    """prefill: its runs end before the first token. decode: each run makes a token for every request of the
    batch. Absent: neither, such as an encoder of another request.
    """
    batch: Annotated[int, Field(ge=1)] = 1
    """Requests that share each run, as the steps of continuous batching do."""
    dims: dict[str, Length] = Field(default_factory=dict)
    """The lengths of the network, as in ``networks``: ``seq`` and ``past`` of a decoder."""
    lengths: Annotated[tuple[LengthShare, ...], Field(strict=False)] = ()
    """Lengths that differ between runs: a weighted list. Absent: all runs have those in ``dims``."""
    per_request: Weight = 1.0
    """Runs that a request goes through; of a decode phase, the tokens that it gets."""

    @field_validator("lengths")
    @classmethod
    def _each_once(cls, lengths: tuple[LengthShare, ...]) -> tuple[LengthShare, ...]:
        stated = [length.dims for length in lengths]
        for position, dims in enumerate(stated):
            if dims in stated[:position]:
                found, key = f"{' '.join(_said(dims))} again", f"[{position}]"
                raise InputError("", "every length once", found, "Add up their weights", key=key)
        return lengths

    @model_validator(mode="after")
    def _dims_once(self) -> RequestPhase:
        for position, length in enumerate(self.lengths):
            if twice := sorted(set(length.dims) & set(self.dims)):
                expected = f"{twice[0]} either in the dims of the phase or in its lengths"
                key = f"lengths[{position}].dims.{twice[0]}"
                raise InputError("", expected, "both", "Leave it out of the phase's dims", key=key)
        return self

    def runs(self) -> Iterator[PhaseRuns]:
        """The phase as networks with weights, one for each of its lengths."""
        key, total = f"phases.{self.name}", sum(length.weight for length in self.lengths)
        if not self.lengths:
            yield self._runs({}, self.per_request, self.name, key)
        for position, length in enumerate(self.lengths):
            named = " ".join([self.name, *_said(length.dims)])
            waits = self.per_request * length.weight / total
            yield self._runs(length.dims, waits, named, f"{key}.lengths[{position}]")

    def _runs(self, dims: Mapping[str, int], waits: float, named: str, key: str) -> PhaseRuns:
        return PhaseRuns(
            network=self.network,
            batch=self.batch,
            dims={**self.dims, **dims},
            weight=waits / self.batch,
            tokens=self.batch if self.role == "decode" else None,
            phase=named,
            role=self.role,
            waits=waits,
            key=key,
        )


@dataclass(frozen=True)
class ServedRequest:
    """What a study says of the requests that its designs serve: their tokens, and what they wait for."""

    tokens: float | None = None
    """Tokens that all runs of all networks make, their weights counted; None where no network says."""
    first_token: Mapping[str, float] = field(default_factory=dict)
    """By network as the study shows it: runs that end before the first token. Empty without a prefill."""
    output_token: Mapping[str, float] = field(default_factory=dict)
    """By network: the share of decoding steps that are runs of it; 1 in all. Empty without a decode phase."""

    @staticmethod
    def of(networks: Sequence[NetworkChoice]) -> ServedRequest:
        made = [network.weight * network.tokens for network in networks if network.tokens]
        phases = [network for network in networks if isinstance(network, PhaseRuns)]
        prefill, decode = (
            {one.shown: one.waits for one in phases if one.role == role} for role in ("prefill", "decode")
        )
        steps = sum(decode.values())
        shares = {name: waits / steps for name, waits in decode.items()}
        return ServedRequest(sum(made) if made else None, prefill, shares)

    def waits(self, cycles: Mapping[str, float]) -> tuple[float | None, float | None]:
        """Cycles to the first token, and of a decoding step on average; None without such a phase.

        ``cycles``: of one run of each network, by the names under which the study shows them.
        """

        def waited(runs: Mapping[str, float]) -> float | None:
            return sum(times * cycles[name] for name, times in runs.items()) if runs else None

        return waited(self.first_token), waited(self.output_token)


def batch_key(phase: str) -> str:
    """The key of the axis that varies the batch of a phase."""
    return f"{OF_PHASES}{phase}.batch"


def _said(dims: Mapping[str, int]) -> list[str]:
    return [f"{name}={length}" for name, length in dims.items()]
