"""Divisors and primes, against trial division and numbers whose factors are known."""

from __future__ import annotations

from math import prod

import pytest

from solvers.divisors import divisors, is_prime, prime_powers


@pytest.mark.slow
def test_every_small_number_against_trial_division() -> None:
    for size in range(1, 3000):
        assert divisors(size) == tuple(d for d in range(1, size + 1) if size % d == 0)
        powers = list(prime_powers(size))
        assert prod(prime**exponent for prime, exponent in powers) == size
        assert powers == sorted(powers)
        assert all(len(divisors(prime)) == 2 and is_prime(prime) for prime, _ in powers)
        assert is_prime(size) == (len(divisors(size)) == 2)


@pytest.mark.parametrize(
    ("size", "powers"),
    [
        (1_000_000_007, [(1_000_000_007, 1)]),
        (2**59 - 55, [(2**59 - 55, 1)]),
        (1_000_003**3, [(1_000_003, 3)]),
        (999_999_937 * 1_000_000_007, [(999_999_937, 1), (1_000_000_007, 1)]),
        (3_215_031_751, [(151, 1), (751, 1), (28_351, 1)]),  # fools the bases 2, 3, 5 and 7
        (2**60, [(2, 60)]),
    ],
)
def test_large_numbers(size: int, powers: list[tuple[int, int]]) -> None:
    """Trial division would take up to 5e8 steps for the largest of them."""
    assert list(prime_powers(size)) == powers
    assert len(divisors(size)) == prod(exponent + 1 for _, exponent in powers)
