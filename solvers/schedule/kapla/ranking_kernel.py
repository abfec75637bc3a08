"""The best chains up to each layer, compiled."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import entry, inlined

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


class RankedSchemes(NamedTuple):
    """All schemes by the layer before which they end; arrays [schemes] but for one.

    ``offsets`` [layers + 1]: those that end with layer i go from ``offsets[i]`` to before
    ``offsets[i + 1]``. ``first``: the first layer. ``energy_pj``, ``cycles``: infinite where a scheme is in
    no chain. ``counted``: whether these were counted in full, and not estimated.
    """

    offsets: Array
    first: Array
    energy_pj: Array
    cycles: Array
    counted: Array


class BestChains(NamedTuple):
    """The k best chains that cover the first i layers, the best one first; arrays [layers + 1, k].

    ``last``: the scheme with which they end, -1 where there are fewer chains. Row 0 has the empty chain, for
    which any other number stands. ``values`` is an array [k] for the chains that are ranked just now.
    """

    last: Array
    energy_pj: Array
    cycles: Array
    values: Array


@inlined
def _goes_before(schemes: RankedSchemes, scheme: Int, value: Any, best: BestChains, end: Int, at: Int) -> Any:
    """Whether a chain of this value that ends with ``scheme`` is better than the one ranked ``at``."""
    if value != best.values[at] or best.last[end, at] < 0:
        return value < best.values[at]
    return schemes.counted[scheme] and not schemes.counted[best.last[end, at]]


@entry
def rank(schemes: RankedSchemes, exponents: tuple[float, float], best: BestChains) -> None:
    """Fill ``best`` but for its first row, by E^n D^m; ``exponents``: n and m.

    Of equal chains one whose last scheme was counted comes first, and else the scheme that is listed first.
    """
    most = best.last.shape[1]
    for layer in range(len(schemes.offsets) - 1):
        end = layer + 1
        best.last[end], best.values[:] = -1, np.inf
        for scheme in range(schemes.offsets[layer], schemes.offsets[end]):
            if schemes.energy_pj[scheme] == np.inf:
                continue
            first = schemes.first[scheme]
            for before in range(most):
                if best.last[first, before] < 0:
                    break
                energy = best.energy_pj[first, before] + schemes.energy_pj[scheme]
                cycles = best.cycles[first, before] + schemes.cycles[scheme]
                value = energy ** exponents[0] * cycles ** exponents[1]
                at = most
                while at > 0 and _goes_before(schemes, scheme, value, best, end, at - 1):
                    at -= 1
                if at == most:
                    continue
                for moved in range(most - 1, at, -1):
                    best.values[moved] = best.values[moved - 1]
                    best.last[end, moved] = best.last[end, moved - 1]
                    best.energy_pj[end, moved] = best.energy_pj[end, moved - 1]
                    best.cycles[end, moved] = best.cycles[end, moved - 1]
                best.values[at], best.last[end, at] = value, scheme
                best.energy_pj[end, at], best.cycles[end, at] = energy, cycles
