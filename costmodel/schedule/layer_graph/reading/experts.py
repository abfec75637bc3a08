"""Experts with routing: the choice of each token's experts, its way to them, and the sum of what they make.

Which rows an expert gets is known only when the network runs; how many it gets, the network states, as an
expected or a worst load. Operators write the routing down in pieces, which become three kinds of layers:

    topk                              scores of a token -> the experts that it takes    ``topk``
    lookup of tokens by that choice   tokens -> as many rows as each expert gets        ``dispatch``
    lookup of rows by that choice     rows of the experts -> those of each token
    product with that choice                              -> the same, weighted         ``combine``
    sum over a token's choices                            -> one row for each token

Each expert has a ``dispatch``. The last three operators are one layer: nobody writes each token's rows down
before they are added. Where experts have two loads, the rows of both kinds are concatenated; each kind then
has a layer of its own, and these are added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from costmodel.errors import InputError
from costmodel.schedule.layer_graph.reading.data import Builder
from costmodel.schedule.layer_graph.reading.drafts import Draft, Slice, channels
from costmodel.schedule.layer_graph.reading.layout import (
    Data,
    full,
    in_order,
    known_axes,
    reshaped,
    rows_of_channels,
)
from costmodel.workload.digits import Digit
from costmodel.workload.network import Network, Node
from costmodel.workload.windows import Windows


@dataclass(frozen=True)
class ChosenRows:
    """Rows of experts on their way back to the tokens, which no layer has made yet.

    ``rows``: the results of the experts of each load. ``choice``: what each token chose; None until the rows
    are looked up by it.
    """

    rows: tuple[Data, ...]
    choice: Data | None = None


class Routing:
    """The routing of a network's experts, which a reader of its nodes asks about each of them."""

    def __init__(self, network: Network, builder: Builder) -> None:
        self._builder = builder
        self._shapes = {value.name: value.shape for value in network.values}
        self._choices = {node.outputs[0] for node in network.nodes if node.operator == "topk"}
        self._readers: dict[str, list[Node]] = {}
        for node in network.nodes:
            for name in node.inputs:
                self._readers.setdefault(name, []).append(node)
        self._pending: dict[str, ChosenRows] = {}

    def read(self, node: Node, data: Mapping[str, Data | None]) -> dict[str, Data | None] | None:
        """What a node of the routing makes, by value; None for any other node.

        A value of rows on their way back is nothing that a layer could read: it is None until they are added.
        """
        if node.operator == "topk" and len(node.outputs) == 1:
            return {node.outputs[0]: self._chosen(node, data[node.inputs[0]])}
        if any(name in self._pending for name in node.inputs):
            return self._on_the_way(node, data)
        if self._joins(node):
            rows = tuple(one for name in node.inputs if (one := data[name]) is not None)
            self._pending[node.outputs[0]] = ChosenRows(rows)
            return {node.outputs[0]: None}
        if self._looks_up(node):
            tokens, choice = (data[name] for name in node.inputs)
            if tokens is None or choice is None:
                return None
            made, chosen = self._shapes[node.outputs[0]], self._shapes[node.inputs[1]]
            if made[:-1] == chosen:
                self._pending[node.outputs[0]] = ChosenRows((tokens,), choice)
                return {node.outputs[0]: None}
            return {node.outputs[0]: self._dispatched(node, tokens, choice)}
        return None

    def _looks_up(self, node: Node) -> bool:
        """Whether the node takes rows by a choice that the network makes."""
        return node.operator == "index_select" and len(node.inputs) == 2 and node.inputs[1] in self._choices

    def _joins(self, node: Node) -> bool:
        """Whether the node puts rows of experts one after the other, all for a look-up by a choice."""
        readers = self._readers.get(node.outputs[0], [])
        return node.kind.name == "cat" and bool(readers) and all(map(self._looks_up, readers))

    def _chosen(self, node: Node, scores: Data | None) -> Data:
        """The layer of a choice among all channels of each row."""
        shape = self._shapes[node.outputs[0]]
        if scores is None or scores.external:
            raise InputError("", "scores that a layer computes", "the network's input, or constants")
        last = full("C", scores.k)
        if known_axes(scores)[-1] != last or not 1 <= shape[-1] <= scores.k:
            raise InputError("", "a choice among all channels of a row", f"{scores.shape} -> {shape}")
        draft = Draft(node.name, "topk", shape[-1], scores.parts, scores.box, work=scores.k)
        made = self._builder.add(draft)
        return replace(scores, parts=made, axes=(*known_axes(scores)[:-1], full("C", shape[-1])))

    def _dispatched(self, node: Node, tokens: Data, choice: Data) -> Data:
        """The layers that bring each expert its rows: of shape (experts, rows of each, channels)."""
        shape = self._shapes[node.outputs[0]]
        tokens = in_order(self._builder.plain(node.name, tokens))
        top = channels(choice.parts)
        if (
            len(shape) != 3
            or shape[2] != tokens.k
            or tokens.box != choice.box
            or shape[1] > prod(tokens.box)
            or shape[0] * shape[1] > prod(tokens.box) * top
        ):
            expected = "(experts, rows of each, channels), no more rows than the tokens choose"
            raise InputError("", expected, f"{tokens.shape}, {top} choices of each row -> {shape}")
        experts, load, width = shape
        windows, parts = (Windows(load), Windows(1)), list[Slice]()
        for expert in range(experts):
            name = f"{node.name}.{expert}" if experts > 1 else node.name
            parts += self._builder.add(
                Draft(
                    name,
                    "dispatch",
                    width,
                    tokens.parts,
                    tokens.box,
                    windows,
                    groups=top,
                    weights=choice.parts,
                )
            )
        of_experts = (Digit(experts, width, "C"),) if experts > 1 else ()
        return Data(tuple(parts), load, 1, (of_experts, full("H", load), full("C", width)))

    # ---- back to the tokens

    def _on_the_way(self, node: Node, data: Mapping[str, Data | None]) -> dict[str, Data | None]:
        """A look-up, weighting or sum of rows that are on their way back to the tokens."""
        name, *others = sorted(node.inputs, key=lambda one: one not in self._pending)
        chosen, made = self._pending[name], node.outputs[0]
        if chosen.choice is None and self._looks_up(node):
            self._pending[made] = ChosenRows(chosen.rows, data[node.inputs[1]])
            return {made: None}
        if node.operator == "mul" and len(others) == 1 and data.get(others[0]) == chosen.choice:
            self._pending[made] = chosen
            return {made: None}
        before = self._shapes[name]
        over = node.attributes.numbers("dim", ())
        if node.operator == "sum" and chosen.choice is not None and over == (len(before) - 2,):
            return {made: self._combined(node, chosen.rows, chosen.choice)}
        expected = "rows of experts that are looked up, weighted and summed by the tokens' own choice"
        raise InputError("", expected, node.operator)

    def _combined(self, node: Node, rows: Sequence[Data], choice: Data) -> Data:
        """The layers that add each token's rows: one for each load of experts, whose results are added."""
        shape = self._shapes[node.outputs[0]]
        width, made = shape[-1], list[Data]()
        if choice.w != 1 or prod(shape[:-1]) != choice.h:
            raise InputError("", f"{choice.h} rows of tokens", shape)
        for number, one in enumerate(rows):
            data = in_order(self._builder.plain(f"{node.name}.{number}", one))
            if data.k % width:
                raise InputError("", f"rows of experts with {width} channels each", data.shape)
            # every row of an expert is weighted and added once, on average so many for each token
            work = -(-data.k // width * data.h // choice.h)
            name = node.name if len(rows) == 1 else f"{node.name}.{number}"
            draft = Draft(
                name,
                "combine",
                width,
                data.parts,
                data.box,
                (Windows(choice.h), Windows(1)),
                groups=channels(choice.parts),
                weights=choice.parts,
                work=work,
            )
            made.append(rows_of_channels(self._builder.add(draft), choice.h))
        whole = made[0] if len(made) == 1 else self._builder.combined(node.name, made)
        return reshaped(whole, shape)
