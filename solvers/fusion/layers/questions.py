"""What the exact mapper is asked about a part: the mapping problem, and what its answers have too much.

A tensor that is held from elsewhere is kept whole at its level, and no loop outside moves it there. Such a
nest is an ordinary mapping with constraints, of which the mapper proves the best one. It counts the held
tensor's way to and from the outermost memory, which is the same for all of these nests and taken off again.

That way also uses bandwidth, which cannot be taken off. So where tensors are held, the mapper is asked for an
architecture without the bandwidths that this way uses: its bound holds for the real one, and the nest
that it finds is counted on the real one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

from costmodel.hardware.architecture import Architecture, StorageLevel
from costmodel.workload.network import Layer, Tensor
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space.rules import FactorRule, LevelRules, SpaceRules


@dataclass(frozen=True)
class PartKey:
    """A part of a layer, what is held, and the words that each holding level has for the part.

    ``position`` is that of the first layer of the same shape: parts of equal layers are one. ``sizes`` are
    those of its dims. ``held`` are names and levels, ``capacities`` levels and words, which include
    the held tensors as far as the part touches them. ``begun``: whether it goes on with partial sums.
    """

    position: int
    sizes: tuple[tuple[str, int], ...]
    held: tuple[tuple[str, int], ...]
    capacities: tuple[tuple[int, int], ...]
    begun: bool = False


def part_of(layers: Sequence[Layer], key: PartKey) -> Layer:
    """The part itself, as a layer."""
    layer = layers[key.position]
    part = layer if key.sizes == layer.dims else replace(layer, dims=key.sizes)
    return part.continued if key.begun else part


@dataclass(frozen=True)
class Question:
    """A part on an architecture, with what is held and the capacity that is left."""

    architecture: Architecture
    part: Layer
    key: PartKey

    def problem(self, objective: str, price: float, *, relaxed: bool = True) -> MappingProblem:
        """The mapping problem of a part; every cycle costs ``price`` pJ in addition."""
        levels = list(self.architecture.levels)
        for level, words in self.key.capacities:
            levels[level] = replace(levels[level], size_words=max(1, words), multiple_buffering=1.0)
        if relaxed:
            for _, level in self.key.held:
                levels[level] = replace(levels[level], write_bandwidth=None, shared_bandwidth=None)
            if self.key.held:
                levels[-1] = replace(
                    levels[-1], read_bandwidth=None, write_bandwidth=None, shared_bandwidth=None
                )
        outermost = levels[-1]
        levels[-1] = replace(outermost, leakage_pj_per_cycle=outermost.leakage_pj_per_cycle + price)
        architecture = replace(self.architecture, levels=tuple(levels))
        return MappingProblem(architecture, self.part, objective, self._rules)  # type: ignore[arg-type]

    def least_words(self, level: int) -> int:
        """The words that every nest keeps at a level of one instance, at least."""
        held = dict(self.key.held)
        words = sum(self.part.tensor(name).words(self.part.sizes) for name, at in held.items() if at == level)
        kept = self._kept(level, self._bypass(level))
        return words + sum(name not in held for name in kept)

    def _bypass(self, level: int) -> tuple[str, ...]:
        """The tensors that a level must not keep, since one further in holds them."""
        outermost = len(self.architecture.levels) - 1
        return tuple(name for name, at in self.key.held if at < level < outermost)

    def _kept(self, level: int, bypass: tuple[str, ...]) -> tuple[str, ...]:
        """The tensors that a level must keep: all that it keeps with the whole capacity, as bounds without
        what others take are bounds of a part with less."""
        hardware = self.architecture.levels[level]
        able = [one.name for one in self.part.tensors if hardware.can_keep(one) and one.name not in bypass]
        one_instance = self.architecture.instances[level] == 1
        return tuple(able) if one_instance and len(able) <= hardware.usable_words else ()

    @cached_property
    def _rules(self) -> SpaceRules:
        """Held tensors are whole at their level, and at no level between it and the outermost one."""
        found = []
        for number, level in enumerate(self.architecture.levels):
            bypass = self._bypass(number)
            keep = self._kept(number, bypass)
            still = {dim for name, at in self.key.held if at < number for dim in self.part.tensor(name).dims}
            factors = tuple(FactorRule(dim, 1, 1) for dim in self.part.sizes if dim in still)
            if keep or bypass or factors:
                found.append(LevelRules(level.name, temporal=factors, keep=keep, bypass=bypass))
        return SpaceRules(levels=tuple(found))

    @cached_property
    def taken_off(self) -> float:
        """pJ of the held tensors' way between the outermost memory and their levels, once for each word."""
        levels, energy = self.architecture.levels, 0.0
        for name, number in self.key.held:
            tensor = self.part.tensor(name)
            for pj in way_pj(tensor, tensor.words(self.part.sizes), levels[-1], levels[number]):
                energy += pj
        return energy


def sums_pj(architecture: Architecture, part: Layer, held: ReadOnlyDict[str, int]) -> float:
    """pJ that going on with partial sums takes at least, beyond what a part that begins its outputs takes.

    The first visit of each word reads it, at every level that keeps it, and fills it there from outside. All
    instances of a level together have at least one first visit of every word. Where accesses move blocks, a
    visit may find its block read anyway, so only whole blocks of a level with one instance count.
    """
    output, outermost = part.output, len(architecture.levels) - 1
    words, outside = output.words(part.sizes), held.get(output.name, outermost)
    energy = 0.0
    for number, level in enumerate(architecture.levels[: outside + 1]):
        able = [tensor for tensor in part.tensors if level.can_keep(tensor)]
        kept = number == outside or (level.can_keep(output) and len(able) <= level.usable_words)
        if not kept or (level.block_size > 1 and architecture.instances[number] > 1):
            continue
        moved = level.read_energy_pj + (level.write_energy_pj if number < outside else 0.0)
        energy += words // level.block_size * moved
    return energy


def way_pj(tensor: Tensor, words: int, outer: StorageLevel, level: StorageLevel) -> Iterator[float]:
    """pJ of each kind of access by which ``words`` pass once between the outermost memory and a level.

    Outputs are written back, and read and filled in before that where they are sums to go on with.
    """
    blocks = ceil(words / outer.block_size)
    if tensor.is_output:
        yield blocks * outer.update_energy_pj
    if tensor.begun or not tensor.is_output:
        yield blocks * outer.read_energy_pj
        yield ceil(words / level.block_size) * level.write_energy_pj
