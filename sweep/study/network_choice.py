"""What every design of a study runs: networks with weights, or the phases of a request, which become such.

A request to a language model is served in phases: its prompt is read (prefill), then its answer is written
token by token (decode). A phase says how often a request goes through a network (``per_request``), how many
requests run together (``batch``), and at which lengths. Each length becomes a network with a weight, like an
entry of ``networks:``. The weight is how many runs are made for one request, ``per_request / batch`` times
the fraction that has this length. All that is summed over networks, such as energy, is therefore that of one
request. A request waits for all of its runs, though, however many others they serve: times to a token are
counted with ``waits``, which is not divided by the batch.
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
# Bounds keep sums of weighted energies far from what a float loses or cannot hold.
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
    """One phase of a request at one of its lengths, as a network with a weight."""

    weight: float
    """How many runs are made for one request: ``waits`` divided by the batch."""
    phase: str
    """The phase's name, with the dims that tell its lengths apart where it has several."""
    role: Role | None = None
    waits: float
    """How many runs one request goes through: ``per_request`` times the fraction that has this length."""
    key: str
    """Where the study states it, such as ``phases.decode.lengths[1]``."""

    @property
    def shown(self) -> str:
        return self.phase


class WeightedLengths(Keys):
    """Lengths at which a phase runs, and how often compared with the other entries of the list."""

    dims: Annotated[dict[str, Length], Field(min_length=1)]
    """Lengths of the network, beside the phase's own ``dims``."""
    weight: Weight = 1.0
    """How often the phase has these lengths, compared with the weights of the list's other entries."""


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
    # Not strict: a file has a list, and frozen values hold tuples.
    lengths: Annotated[tuple[WeightedLengths, ...], Field(strict=False)] = ()
    """Lengths that differ between runs: a weighted list. Absent: all runs have those in ``dims``."""
    per_request: Weight = 1.0
    """Runs that a request goes through; of a decode phase, the tokens that it gets."""

    @field_validator("lengths")
    @classmethod
    def _each_once(cls, lengths: tuple[WeightedLengths, ...]) -> tuple[WeightedLengths, ...]:
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
            # Weights of lengths are compared with one another only, so they need not add up to 1.
            waits = self.per_request * length.weight / total
            yield self._runs(length.dims, waits, named, f"{key}.lengths[{position}]")

    def _runs(self, dims: Mapping[str, int], waits: float, named: str, key: str) -> PhaseRuns:
        return PhaseRuns(
            network=self.network,
            batch=self.batch,
            dims={**self.dims, **dims},
            # A run serves the whole batch: its energy is divided among the requests, the time is not.
            weight=waits / self.batch,
            tokens=self.batch if self.role == "decode" else None,
            phase=named,
            role=self.role,
            waits=waits,
            key=key,
        )


@dataclass(frozen=True)
class ServedRequest:
    """What one request asks of a design: how many tokens are made, and which runs come before them."""

    tokens: float | None = None
    """Tokens that the runs of all networks make, each as often as its weight says; None where none says."""
    first_token: Mapping[str, float] = field(default_factory=dict)
    """How many runs of each network end before the first token. Empty without a prefill phase.

    Networks are named as the study shows them, here and below.
    """
    output_token: Mapping[str, float] = field(default_factory=dict)
    """The fraction of the decoding steps that are runs of each network; they add up to 1. Empty without a
    decode phase."""

    @staticmethod
    def of(networks: Sequence[NetworkChoice]) -> ServedRequest:
        """What the networks of a study say; phases are among them as :class:`PhaseRuns`."""
        made = [network.weight * network.tokens for network in networks if network.tokens]
        phases = [network for network in networks if isinstance(network, PhaseRuns)]
        prefill, decode = (
            {one.shown: one.waits for one in phases if one.role == role} for role in ("prefill", "decode")
        )
        steps = sum(decode.values())
        fractions = {name: waits / steps for name, waits in decode.items()}
        return ServedRequest(sum(made) if made else None, prefill, fractions)

    def waits(self, cycles: Mapping[str, float]) -> tuple[float | None, float | None]:
        """Cycles to the first token, and of a decoding step on average; None without such a phase.

        ``cycles``: what one run of each network takes.
        """

        def waited(runs: Mapping[str, float]) -> float | None:
            return sum(times * cycles[name] for name, times in runs.items()) if runs else None

        return waited(self.first_token), waited(self.output_token)


def batch_key(phase: str) -> str:
    """The key of the axis that varies the batch of a phase."""
    return f"{OF_PHASES}{phase}.batch"


def _said(dims: Mapping[str, int]) -> list[str]:
    return [f"{name}={length}" for name, length in dims.items()]
