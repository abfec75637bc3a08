"""Why a mapping of a fused group cannot run: its tree, what would be recomputed, the nests, capacities."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.mapping.fused.layers.group import GroupMapping, Intermediate, LayerGroup
from costmodel.mapping.fused.layers.pipelines import pipeline_violations
from costmodel.mapping.fused.layers.sliding import follows, kept_rows, rows_made
from costmodel.mapping.fused.layers.turns import LayerTurns, common_depth, held_tiles, turns_of
from costmodel.mapping.fused.mapping import FusedMapping, kept_words
from costmodel.mapping.fused.pipeline import times
from costmodel.mapping.mapping import Mapping
from costmodel.mapping.mapping import violations as nest_violations
from costmodel.workload.network import Layer


def violations(group: LayerGroup, mapping: GroupMapping) -> list[str]:
    """All reasons against a mapping; none for one that can be evaluated.

    Reasons of one kind hide those that need the kind to be right: nests are looked at below a right tree.
    """
    if reasons := tree_violations(group, mapping.shared):
        return reasons
    if len(mapping.nests) != len(group.layers):
        return [f"nests has {len(mapping.nests)} entries, {len(group.layers)} are needed"]
    if reasons := list(_kinds(group, mapping)):
        return reasons
    return list(_nests(group, mapping)) or list(_capacity(group, mapping))


def tree_violations(group: LayerGroup, shared: FusedMapping) -> list[str]:
    """The reasons against shared loops, backing levels and hoisted tiles, whatever the nests."""
    for kind in (_shape, _loops, _kept, _anew, _sharing, _windows, pipeline_violations):
        if reasons := list(kind(group, shared)):
            return reasons
    return []


def _shape(group: LayerGroup, shared: FusedMapping) -> Iterator[str]:
    """Shared loops without own ones, that neighbours agree on."""
    names = [layer.name for layer in group.layers]
    if reason := shared.wrong_length(len(names), 0):
        yield reason
        return
    yield from shared.sharing_violations(names)


def _loops(group: LayerGroup, shared: FusedMapping) -> Iterator[str]:
    """Shared loops over dims of each layer, with steps that divide what they cut."""
    for position, layer in enumerate(group.layers):
        slides = group.slides[position]
        left = {group.loops[position][dim]: size for dim, size in layer.dims}
        left |= {name: group.loop_sizes[name] for name in slides}
        for depth, (name, step) in enumerate(shared.paths[position]):
            loop = f"the shared loop over {name} of {layer.name}"
            if name not in left:
                yield f"{layer.name} has a shared loop over {name}, its loops are {', '.join(left)}"
                return
            if step < 1 or step > left[name] or left[name] % step:
                yield f"{loop} has step {step}, no divisor of {left[name]}"
                return
            left[name] = step
            if name in slides:
                beside = [other for other, _ in shared.paths[position]]
                del beside[depth]
                if any(group.dim_under(position, other) == slides[name] for other in beside):
                    yield f"{loop} slides along its {slides[name]}, which another shared loop cuts, too"
                    return
                last = shared.last_below(position, depth)
                if rows_made(group, position, name, step, last) is None:
                    yield (
                        f"{loop} slides along its {slides[name]}, but not all that read these rows below "
                        f"the loop have windows that follow it"
                    )
                    return


def _kept(group: LayerGroup, shared: FusedMapping) -> Iterator[str]:
    """A backing level has one instance, can keep the tensor everywhere, and its tensor is not read outside
    the group; hoisted tiles stand in the level next to the outermost one."""
    levels = group.architecture.levels
    for name, level in shared.backing.items():
        one = group.made.get(name)
        if one is None:
            yield f"{name} has a backing level and makes no intermediate"
            continue
        if one.leaves:
            yield f"the output of {name} has a backing level, but is read outside the group, too"
        if level not in group.holding:
            known = ", ".join(str(holding) for holding in group.holding) or "none"
            yield f"the backing level of {name} is {level}, levels of one instance are: {known}"
            continue
        for number, name_of_tensor in _tensors(group, one):
            if not levels[level].can_keep(group.layers[number].tensor(name_of_tensor)):
                found = f"{name_of_tensor} of {group.layers[number].name}"
                yield f"{levels[level].name} is the backing level of {found}, which it cannot keep"
    for position, layer in enumerate(group.layers):
        for tensor in layer.tensors:
            backed = {
                shared.backing.get(group.layers[one.producer].name)
                for one in group.sources(position, tensor.name)
            }
            if len(backed) > 1:
                yield f"{tensor.name} of {layer.name} is made of tensors with different backing levels"
    positions = {layer.name: position for position, layer in enumerate(group.layers)}
    for name, hoisted in shared.hoist.items():
        if name not in positions:
            yield f"tensors of {name} are hoisted, and there is no such layer"
            continue
        for hoisted_name, depth in hoisted.items():
            yield from hoist_violations(group, shared, positions[name], hoisted_name, depth)


def _anew(group: LayerGroup, shared: FusedMapping) -> Iterator[str]:
    """Only what a loop over windows slides along is made anew, and only to stay on the chip."""
    positions = {layer.name: position for position, layer in enumerate(group.layers)}
    for name, loop in sorted(shared.recompute):
        if name not in positions:
            yield f"rows of {name} are made anew, and there is no such layer"
        elif name not in shared.backing:
            yield f"rows of {name} are made anew, but its output has no backing level"
        elif loop not in group.slides[positions[name]]:
            yield f"rows of {name} are made anew, but the loop over {loop} does not slide along them"
        elif loop not in dict(shared.paths[positions[name]]):
            yield f"rows of {name} are made anew, but the loop over {loop} is none of its shared loops"


def _tensors(group: LayerGroup, one: Intermediate) -> list[tuple[int, str]]:
    """The tensors, by layer and name, that an intermediate is."""
    made = one.producer, group.layers[one.producer].output.name
    return [made, *((read.layer, read.tensor) for read in one.reads)]


def hoist_violations(
    group: LayerGroup, shared: FusedMapping, position: int, tensor: str, depth: int
) -> Iterator[str]:
    """The reasons against one tile that is hoisted above shared loop ``depth`` of a layer."""
    layer, path = group.layers[position], shared.paths[position]
    named = f"{tensor} is hoisted for {layer.name}"
    found = next((one for one in layer.tensors if one.name == tensor), None)
    if found is None:
        yield f"{named}, which has no such tensor"
        return
    level = group.outermost - 1
    if level not in group.holding or not group.architecture.levels[level].can_keep(found):
        yield f"{named}, but no level of one instance next to the outermost one can keep it"
    if not 0 <= depth < len(path):
        yield f"{named} above shared loop {depth}, its path has {len(path)}"
    for one in group.sources(position, tensor):
        if group.layers[one.producer].name in shared.backing:
            yield f"{named}, but stays in its backing tile"
        for read in one.reads:
            if position in (one.producer, read.layer) and depth < common_depth(
                shared, one.producer, read.layer
            ):
                yield f"{named} above a loop in which it is made and read"


def _sharing(group: LayerGroup, shared: FusedMapping) -> Iterator[str]:
    """Loops that a producer and a reader share cut all that passes between them, in the same way."""
    for one in group.intermediates:
        for read in one.reads:
            producer, reader = group.layers[one.producer].name, group.layers[read.layer].name
            depth = common_depth(shared, one.producer, read.layer)
            for name, _ in shared.paths[one.producer][:depth]:
                if name in group.slides[one.producer]:
                    alike = follows(group, one.producer, read, name)
                else:
                    alike = name in group.cutting[one.producer, read.layer]
                if not alike:
                    yield (
                        f"{producer} and {reader} share the loop over {name}, which does not cut what passes "
                        f"between them into parts that are complete when they are read"
                    )


def _windows(group: LayerGroup, shared: FusedMapping) -> Iterator[str]:
    """The rows that a window has in common with the next one stay: no loop inside a sliding one drops any."""
    for one in group.intermediates:
        producer = group.layers[one.producer].name
        if producer not in shared.backing:
            continue
        path = shared.paths[one.producer][: common_depth(shared, one.producer, one.last)]
        for depth, (name, step) in enumerate(path):
            if name not in group.slides[one.producer] or (producer, name) in shared.recompute:
                continue
            last = shared.last_below(one.producer, depth)
            _, carried = kept_rows(group, one, name, step, last, shared.recompute)
            cuts = LayerTurns(group, shared, one.producer).cuts[depth + 1 : len(path)]
            # a sliding loop moves the tile in iterations, too, in which the producer has nothing to make
            moving = [
                other
                for (other, left), cut in zip(path[depth + 1 :], cuts, strict=True)
                if cut.times > 1 or (other in group.slides[one.producer] and left < group.loop_sizes[other])
            ]
            if carried and moving:
                yield (
                    f"the loop over {moving[0]} inside the loop over {name}: {producer} makes rows that are "
                    f"needed after they were dropped"
                )


def _kinds(group: LayerGroup, mapping: GroupMapping) -> Iterator[str]:
    """As many nests for every layer as it has kinds of turns."""
    names = [layer.name for layer in group.layers]
    for name in mapping.others:
        if name not in names:
            yield f"others has nests of {name}, and there is no such layer"
    for one, nests in zip(turns_of(group, mapping.shared), mapping.turn_nests(group.layers), strict=True):
        if len(nests) != len(one.kinds):
            yield (
                f"{one.layer.name} has {len(nests)} nests, and its turns are of {len(one.kinds)} kinds: "
                f"{', '.join(map(one.kind_text, one.kinds))}"
            )


def _nests(group: LayerGroup, mapping: GroupMapping) -> Iterator[str]:
    """Every nest is a mapping of its layer's part, and keeps held tensors where and as they are held."""
    for one, nests in zip(turns_of(group, mapping.shared), mapping.turn_nests(group.layers), strict=True):
        for kind, nest in zip(one.kinds, nests, strict=True):
            yield from _nest(one, kind.part, nest)


def _nest(one: LayerTurns, part: Layer, nest: Mapping) -> Iterator[str]:
    """The reasons against the nest of one kind of turns, which computes ``part``."""
    name, outermost, levels = one.layer.name, one.group.outermost, one.group.architecture.levels
    if reasons := nest_violations(one.architecture, part, nest):
        on = ""
        if (pipeline := one.pipeline) is not None:
            on = f" on {pipeline.parts[one.position - pipeline.first]} {pipeline.side}"
        yield from (f"{name}{on}: {reason}" for reason in reasons)
        return
    for tensor, level in one.held.items():
        if tensor not in nest.levels[level].keep:
            yield f"{name}: {levels[level].name} holds {tensor}, but the nest does not keep it there"
        for outer in range(level + 1, len(levels)):
            if outer < outermost and tensor in nest.levels[outer].keep:
                yield f"{name}: {levels[outer].name} keeps {tensor}, which {levels[level].name} holds"
            moved = sorted(dim for dim, _ in nest.levels[outer].loops if dim in part.tensor(tensor).dims)
            if moved:
                at = f"loops over {', '.join(moved)} at {levels[outer].name}"
                yield f"{name}: {levels[level].name} holds all of {tensor}, but {at} move it"


def _capacity(group: LayerGroup, mapping: GroupMapping) -> Iterator[str]:
    """No level holds more than it can in any layer's time, or that of the stages of a pipeline."""
    kept, turns = held_tiles(group, mapping.shared), turns_of(group, mapping.shared)
    nests = mapping.turn_nests(group.layers)
    for together in times(mapping.shared.pipelines, len(turns)):
        row = kept_words(kept, group.outermost, together.start)
        names = " and ".join(turns[one].layer.name for one in together)
        for level in group.holding:
            hardware = group.architecture.levels[level]
            own = sum(max(turns[one].own_words(nest, level) for nest in nests[one]) for one in together)
            if row[level] + own > hardware.usable_words:
                runs = "runs" if len(together) == 1 else "run"
                holds = f"{hardware.name} holds {row[level] + own} words while {names} {runs}"
                yield f"{holds} ({row[level]} of them held), {hardware.usable_words:.0f} are usable"
