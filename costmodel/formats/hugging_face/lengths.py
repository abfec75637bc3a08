"""The lengths that users state of a model, by name: those of a phase, checked."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from costmodel.errors import InputError, did_you_mean
from costmodel.workload.library.decoder import DecoderPhase

Lengths = Mapping[str, int]
"""Lengths by the names that users state them by (``--dim``, ``dims:``)."""


def stated_lengths(
    where: str,
    dims: Lengths,
    known: Mapping[str, str],
    required: tuple[str, ...] = (),
    least: Lengths = MappingProxyType({}),
) -> dict[str, int]:
    """The lengths ``dims``, checked: each is ``known``, by its name with what it is, and whole numbers.

    ``required`` ones must be there; ``least`` has the least number of a length where that is not 1.
    """
    for name, length in dims.items():
        if name not in known:
            shown = ", ".join(f"{key} ({what})" for key, what in known.items()) or "none"
            raise InputError(where, f"lengths among {shown}", name, did_you_mean(name, known), key="dims")
        if type(length) is not int or length < least.get(name, 1):
            expected = f"a whole number of at least {least.get(name, 1)}"
            raise InputError(where, expected, length, key=f"dims.{name}")
    if missing := [name for name in required if name not in dims]:
        flags = " ".join(f"--dim {name}=N" for name in missing)
        stated = ", ".join(f"{name}: N" for name in missing)
        remedy = f"State {flags}, in a study {{network: FILE, dims: {{{stated}}}}}"
        raise InputError(
            where, "a number for each length", f"none for {', '.join(missing)}", remedy, key="dims"
        )
    return dict(dims)


BLOCKS = {"blocks": "the first blocks only"}
"""The length of decoders and scans that cuts their depth."""


def blocks_of(where: str, depth: int, dims: Lengths) -> int:
    """How many blocks of ``depth`` the network has: the first ``blocks``, or all where nothing is stated."""
    blocks = dims.get("blocks", depth)
    if blocks > depth:
        raise InputError(where, f"at most the model's {depth} blocks", blocks, key="dims.blocks")
    return blocks


def phase_of(
    where: str, batch: int, dims: Lengths, more: Mapping[str, str] = MappingProxyType({})
) -> DecoderPhase:
    """The phase of a model of text that the lengths state; ``more`` are other lengths of the model."""
    known = {"seq": "new tokens", "past": "cached tokens", "logits": "tokens to predict behind", **more}
    stated = stated_lengths(where, dims, known, required=("seq",), least={"past": 0})
    logits = stated.get("logits", stated["seq"])
    if logits > stated["seq"]:
        raise InputError(where, f"at most the {stated['seq']} tokens of seq", logits, key="dims.logits")
    return DecoderPhase(batch, stated["seq"], stated.get("past", 0), logits)
