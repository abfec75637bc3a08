"""What a number can be split into: the divisors and prime factors of sizes, samples and tiles."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import isqrt


@lru_cache(maxsize=4096)
def divisors(size: int) -> tuple[int, ...]:
    """All divisors, ascending; searches ask for those of few numbers again and again."""
    small = [number for number in range(1, isqrt(size) + 1) if size % number == 0]
    return tuple(sorted({*small, *(size // number for number in small)}))


def prime_powers(size: int) -> Iterator[tuple[int, int]]:
    """The primes that divide ``size``, smallest first, each with its exponent; none of 1."""
    prime = 2
    while size > 1:
        if prime * prime > size:
            prime = size
        exponent = 0
        while size % prime == 0:
            size //= prime
            exponent += 1
        if exponent:
            yield prime, exponent
        prime += 1
