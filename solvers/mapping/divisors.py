"""What a dim's size can be split into: its divisors and its prime factors."""

from __future__ import annotations

from collections.abc import Iterator


def divisors(size: int) -> list[int]:
    """All divisors, ascending."""
    small = [number for number in range(1, int(size**0.5) + 1) if size % number == 0]
    return sorted({*small, *(size // number for number in small)})


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
