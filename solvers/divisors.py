"""Divisors and prime factors of whole numbers: of the sizes of dims, of samples, of tiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import count
from math import gcd

SMALL_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
"""As bases of Miller and Rabin's test they tell every prime below 3.3e24 (Sorenson and Webster, 2015)."""


@lru_cache(maxsize=4096)
def divisors(size: int) -> tuple[int, ...]:
    """All divisors, ascending. They are remembered: searches ask for those of the same few numbers."""
    found = [1]
    for prime, exponent in prime_powers(size):
        found = [known * prime**power for known in found for power in range(exponent + 1)]
    return tuple(sorted(found))


def prime_powers(size: int) -> Iterator[tuple[int, int]]:
    """(prime, exponent) for each prime that divides ``size``, smallest first; nothing for 1."""
    return iter(sorted(Counter(_primes(size)).items()))


@lru_cache(maxsize=4096)
def _primes(size: int) -> tuple[int, ...]:
    """The prime factors of ``size``, each as often as it divides it, in any order."""
    found = []
    # small primes are most of it; what is left is split by Pollard's rho until all pieces are prime
    for prime in SMALL_PRIMES:
        while size % prime == 0:
            found.append(prime)
            size //= prime
    pieces = [size] if size > 1 else []
    while pieces:
        piece = pieces.pop()
        if is_prime(piece):
            found.append(piece)
        else:
            part = _part(piece)
            pieces += [part, piece // part]
    return tuple(found)


def is_prime(number: int) -> bool:
    """Miller and Rabin's test, which is certain for numbers of up to 64 bits."""
    if number < 2 or any(number % prime == 0 for prime in SMALL_PRIMES):
        return number in SMALL_PRIMES
    # number - 1 = odd * 2**twos: x & -x is the lowest bit of x that is set
    twos = ((number - 1) & (1 - number)).bit_length() - 1
    odd = (number - 1) >> twos
    return not any(_witnesses(base, odd, twos, number) for base in SMALL_PRIMES)


def _witnesses(base: int, odd: int, twos: int, number: int) -> bool:
    """Whether ``base`` shows that ``number`` = odd * 2**twos + 1 is composite.

    For a prime, squaring base**odd again and again gives 1, and by way of number - 1 unless it begins at 1.
    """
    power = pow(base, odd, number)
    if power in (1, number - 1):
        return False
    for _ in range(twos - 1):
        power = power * power % number
        if power == number - 1:
            return False
    return True


def _part(number: int) -> int:
    """A proper divisor of a composite number without small primes, by Pollard's rho.

    Two walks of x -> x * x + step, one twice as fast, meet modulo the smallest prime p after about sqrt(p)
    steps: at most 32,000 for the numbers of 60 bits that layers can have.
    """
    for step in count(1):
        slow = fast = 2
        part = 1
        while part == 1:
            slow = (slow * slow + step) % number
            fast = (fast * fast + step) % number
            fast = (fast * fast + step) % number
            part = gcd(slow - fast, number)
        if part != number:
            return part
    raise AssertionError("some step leads to a divisor of a composite number")
