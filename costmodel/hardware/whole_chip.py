"""A chip of tiles as one stack of levels, on which any mapping solver can map a loop nest."""

from __future__ import annotations

from dataclasses import replace

from costmodel.errors import InputError
from costmodel.hardware.architecture import Architecture, StorageLevel
from costmodel.hardware.chip import Chip


def whole_architecture(chip: Chip) -> Architecture | None:
    """The chip as a stack of levels for mapping solvers; None for tiles without an architecture.

    A stack has no mesh, so its levels charge roughly what the hops cost. A write to a buffer is charged one
    hop: a multicast tree has one more link for each further tile. A read of DRAM is charged the rest of the
    mean way from a port to a tile, all hops but that one; an update of DRAM the whole mean way, one hop at
    least. A chip of one tile has no hops. The hops of the mapping found are counted exactly by
    :func:`costmodel.schedule.whole_chip.cost.whole_chip_cost`. The rows of the mesh are the y side of DRAM's
    fan-out. Raises InputError as :func:`counted_architecture` does.

    Where tiles have timing, their steps are those of the buffer, inside DRAM. Mapping solvers look for such
    mappings in two turns: see :func:`solvers.mapping.untimed.improved_by_timed_cycles`.
    """
    plain = counted_architecture(chip)
    if plain is None:
        return None
    *tile, buffer, dram = plain.levels
    hop = chip.noc.hop_pj_per_bit * buffer.word_bits if chip.tiles > 1 else 0.0
    far = max(mean_way(chip) - 1, 0.0)
    buffer = replace(buffer, write_energy_pj=buffer.write_energy_pj + hop * buffer.block_size)
    dram = replace(
        dram,
        read_energy_pj=dram.read_energy_pj + far * hop,
        update_energy_pj=dram.update_energy_pj + (far + 1) * hop,
    )
    return replace(plain, levels=(*tile, buffer, dram))


def counted_architecture(chip: Chip) -> Architecture | None:
    """The stack of levels without hops: the levels inside a tile, its buffer, and DRAM outermost.

    DRAM's fan-out is the mesh. Size and write energy of the buffer are the chip's, and DRAM leaks what the
    chip takes when idle, because both count in every cycle. None without architecture. Raises InputError for
    a buffer that does not hold one word of the architecture's outermost level.

    To a mapping every element is a word of the buffer and of DRAM. Where elements are narrower than that,
    DRAM and links move fewer bits: :func:`costmodel.schedule.whole_chip.cost.whole_chip_cost` counts them.
    """
    tile, size = chip.tile.architecture, chip.tile.buffer
    if tile is None:
        return None
    *inner, outermost = tile.levels
    word = outermost.word_bits
    if size.size_bits < word:
        expected = f"at least a word of {outermost.name}, {word} bits"
        raise InputError(f"chip {chip.name}", expected, f"{size.size_bytes} bytes", key="tile.buffer.size")
    buffer = replace(
        outermost,
        size_words=size.size_bits // word,
        write_energy_pj=size.write_pj_per_bit * word * outermost.block_size,
    )
    dram = StorageLevel(
        name="DRAM" if all(level.name != "DRAM" for level in tile.levels) else "chip's DRAM",
        size_words=None,
        word_bits=word,
        read_energy_pj=chip.dram.read_pj_per_bit * word,
        write_energy_pj=chip.dram.write_pj_per_bit * word,
        update_energy_pj=chip.dram.write_pj_per_bit * word,
        leakage_pj_per_cycle=chip.idle_pj_per_cycle,
        shared_bandwidth=chip.dram.bits_per_cycle / word,
        fanout_x=chip.columns,
        fanout_y=chip.rows,
    )
    return replace(
        tile,
        name=f"{chip.name} whole",
        levels=(*inner, buffer, dram),
        frequency_hz=chip.frequency_ghz * 1e9,
        # a tile's steps are those of its buffer, with DRAM outside as without
        timing=tile.timing and replace(tile.timing, level=buffer.name),
    )


def tile_stack(chip: Chip) -> Architecture | None:
    """One tile as a stack of levels below the chip's DRAM, as it is counted; None without architecture.

    Of a chip of one tile it is :func:`counted_architecture`, but for the name.
    """
    counted = counted_architecture(chip)
    if counted is None:
        return None
    *inner, dram = counted.levels
    return replace(counted, name=f"{chip.name} tile", levels=(*inner, replace(dram, fanout_x=1, fanout_y=1)))


def searched_tile_stack(chip: Chip, tiles: int, share: float) -> Architecture | None:
    """The stack of :func:`tile_stack` for solvers that map the equal parts of ``tiles`` tiles on each.

    ``share``: the part of a word of DRAM that is charged to each tile that gets it: 1 where each word goes to
    one tile, 1 / tiles where each goes to all of them. A tile's own words pass DRAM's port at its bandwidth
    divided by ``share * tiles``: an even part of it in the first case, and all of it in the second, where one
    read serves all tiles. Idle power is divided evenly among the tiles, and words take hops as
    :func:`whole_architecture` charges them. The buffer is what is left beside the outputs on their
    way out, so that a program has addresses for what a mapping keeps. What the mapping found costs is counted
    exactly by :func:`costmodel.schedule.fused_groups.cost.fused_group_cost`.
    """
    stack = tile_stack(chip)
    if stack is None:
        return None
    *tile, buffer, dram = stack.levels
    hop = chip.noc.hop_pj_per_bit * buffer.word_bits if chip.tiles > 1 else 0.0
    far = max(mean_way(chip) - 1, 0.0)
    buffer = replace(
        buffer,
        size_words=max(chip.tile.free_bits // buffer.word_bits, 1),
        write_energy_pj=buffer.write_energy_pj + hop * buffer.block_size,
    )
    bandwidth = dram.shared_bandwidth
    dram = replace(
        dram,
        read_energy_pj=share * (dram.read_energy_pj + far * hop),
        update_energy_pj=share * (dram.update_energy_pj + (far + 1) * hop),
        leakage_pj_per_cycle=dram.leakage_pj_per_cycle / tiles,
        shared_bandwidth=bandwidth and bandwidth / (share * tiles),
    )
    return replace(stack, levels=(*tile, buffer, dram))


def mean_way(chip: Chip) -> float:
    """The mean number of links between a tile and a port of DRAM, over all tiles and ports."""
    ways = sum(abs(x - px) + abs(y - py) for x, y in chip.positions for px, py in chip.ports)
    return ways / (chip.tiles * len(chip.ports))
