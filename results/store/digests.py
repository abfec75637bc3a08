"""128 bits for each text of a column, so that millions of ids are compared as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow

HEX_CHARACTERS = 32
"""Ids of tasks and designs are as many hexadecimal digits: the digest is made of the id's own bits."""
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that multiplying by it loses nothing."""
_NO_DIGIT = 255
_DIGITS = np.full(256, _NO_DIGIT, dtype=np.uint8)
_DIGITS[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)


@dataclass(frozen=True, slots=True)
class Digests:
    """The upper and the lower 64 bits of a digest each; arrays of one length."""

    high: NDArray[np.uint64]
    low: NDArray[np.uint64]

    @classmethod
    def of(cls, values: pyarrow.ChunkedArray | pyarrow.Array) -> Self:
        """The digests of these texts; null has that of the empty one."""
        import pyarrow

        chunks = values.chunks if isinstance(values, pyarrow.ChunkedArray) else [values]
        bits = [_bits(chunk) for chunk in chunks] or [np.empty((0, 2), np.uint64)]
        upper, lower = np.concatenate(bits).T
        # ids that count from zero have no upper bits, and searches begin with those
        return cls(upper ^ (lower * _SPREAD), np.ascontiguousarray(lower))

    @classmethod
    def of_texts(cls, values: Iterable[str]) -> Self:
        """The same of Python's texts."""
        import pyarrow

        return cls.of(pyarrow.array(list(values), pyarrow.string()))

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """One after the other."""
        empty = np.empty(0, np.uint64)
        return cls(
            np.concatenate([empty, *(part.high for part in parts)]),
            np.concatenate([empty, *(part.low for part in parts)]),
        )

    def __len__(self) -> int:
        return len(self.high)

    def are_in(self, others: Digests) -> NDArray[np.bool_]:
        """Which of these are among the ``others``."""
        if not len(others):
            return np.zeros(len(self), dtype=bool)
        order = np.lexsort((others.low, others.high))
        high, low = others.high[order], others.low[order]
        # in their order, because bisections far apart wait for memory
        asked = np.argsort(self.high)
        position = np.searchsorted(high, self.high[asked])
        found = np.zeros(len(self), dtype=bool)
        while True:
            inside = position < len(high)
            inside[inside] = high[position[inside]] == self.high[asked[inside]]
            asked, position = asked[inside], position[inside]
            if not len(asked):
                return found
            found[asked[low[position] == self.low[asked]]] = True
            position = position + 1


def _bits(values: pyarrow.Array) -> NDArray[np.uint64]:
    """Upper and lower half of each digest before the halves are mixed, one row a value."""
    from pyarrow import compute

    values = values.fill_null("")
    ids = compute.equal(compute.binary_length(values), HEX_CHARACTERS).to_numpy(zero_copy_only=False)
    if ids.all():
        return _bits_of_ids(values)
    bits = np.empty((len(values), 2), np.uint64)
    if ids.any():
        bits[ids] = _bits_of_ids(values.take(np.flatnonzero(ids)))
    bits[~ids] = [_hashed(value) for value in values.take(np.flatnonzero(~ids)).to_pylist()]
    return bits


def _bits_of_ids(values: pyarrow.Array) -> NDArray[np.uint64]:
    """The same of texts of HEX_CHARACTERS bytes each; one that is no number in hexadecimal is hashed."""
    if not len(values):
        return np.empty((0, 2), np.uint64)
    _, offsets, content = values.buffers()
    first = int(np.frombuffer(offsets, np.int32, 1, 4 * values.offset)[0])
    characters = np.frombuffer(content, np.uint8, HEX_CHARACTERS * len(values), first)
    digits = _DIGITS[characters.reshape(-1, HEX_CHARACTERS)]
    halves = (digits[:, 0::2] << 4) | digits[:, 1::2]
    bits = halves.view(">u8").astype(np.uint64)
    if (others := np.flatnonzero((digits == _NO_DIGIT).any(axis=1))).size:
        bits[others] = [_hashed(value) for value in values.take(others).to_pylist()]
    return bits


def _hashed(value: str) -> tuple[int, int]:
    content = blake2b(value.encode(), digest_size=16).digest()
    return int.from_bytes(content[:8]), int.from_bytes(content[8:])
