"""What an operator graph asks of a software-managed scratchpad: tensors, operators, their bytes.

The model of COSMA (Li, Gupta and Malik, arXiv 2311.18246, Section III). One operator runs in a timestep; its
inputs and outputs are resident then. Plans over these graphs are in :mod:`costmodel.scratchpad.plan`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from costmodel.errors import InputError
from costmodel.workload.network import Network, Node, Value

MOST_BYTES = 1 << 50
"""What all tensors and parameters of a graph stay below together: solvers add up their bytes in 64 bits."""


@dataclass(frozen=True)
class ScratchpadSettings:
    """How the graph's bytes are read; the default is the literal reading of the paper, activations only.

    ``parameters``: each operator's parameters are one block in the scratchpad during its own timestep.
    ``inputs_on_host``: the host holds the network's inputs, so dropping one is free (Eq. 4 read literally
    asks for a spill first). ``in_place``: an element-wise operator may write its output over an input of
    equal size that nothing reads later (beyond the paper). ``bits_per_element`` is the datatype's width;
    blocks start at multiples of ``alignment_bytes`` and are padded to one.
    """

    parameters: bool = False
    inputs_on_host: bool = False
    in_place: bool = False
    bits_per_element: int = 8
    alignment_bytes: int = 1

    def __post_init__(self) -> None:
        for key in ("bits_per_element", "alignment_bytes"):
            number = getattr(self, key)
            if type(number) is not int or number < 1:
                raise InputError("scratchpad", "a whole number of at least 1", number, key=key)

    def bytes_of(self, elements: int) -> int:
        """Bytes that so many elements move."""
        return -(-elements * self.bits_per_element // 8)

    def padded(self, size_bytes: int) -> int:
        """Bytes of scratchpad that a block of that size takes."""
        return -(-size_bytes // self.alignment_bytes) * self.alignment_bytes


@dataclass(frozen=True)
class GraphTensor:
    """A tensor: ``traffic_bytes`` to spill or to retrieve it, ``block_bytes`` in the scratchpad.

    ``given`` tensors are the network's inputs, which arrive without charge at their first use, and, of a cut
    graph, ``parameters`` of an operator in several pieces: of these the host always has a copy.
    """

    name: str
    traffic_bytes: int
    block_bytes: int
    given: bool
    parameters: bool = False


@dataclass(frozen=True)
class Operator:
    """One timestep of work; tensors are indices into the graph's, ``overwrites`` the (input, output) pairs
    of which the output may overwrite the input."""

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    parameter_bytes: int
    overwrites: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class OperatorGraph:
    """Operators in a topological order (the default schedule) over tensors; see :func:`operator_graph`."""

    name: str
    operators: tuple[Operator, ...]
    tensors: tuple[GraphTensor, ...]
    settings: ScratchpadSettings = ScratchpadSettings()

    def __post_init__(self) -> None:
        where = f"operator graph {self.name}"
        if not self.operators:
            raise InputError(where, "at least one operator", "none")
        for things in (self.operators, self.tensors):
            _check_names(where, [thing.name for thing in things])
        if self.total_bytes >= MOST_BYTES:
            raise InputError(where, f"fewer than {MOST_BYTES} bytes", self.total_bytes)
        ready = {index for index, tensor in enumerate(self.tensors) if tensor.given}
        for operator in self.operators:
            if not ready.issuperset(operator.inputs):
                raise InputError(where, "operators in topological order", operator.inputs, key=operator.name)
            if ready.intersection(operator.outputs):
                raise InputError(where, "every tensor made once", operator.outputs, key=operator.name)
            ready.update(operator.outputs)

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """Per tensor the operators that read it."""
        readers: list[list[int]] = [[] for _ in self.tensors]
        for index, operator in enumerate(self.operators):
            for tensor in operator.inputs:
                readers[tensor].append(index)
        return tuple(map(tuple, readers))

    @cached_property
    def producers(self) -> tuple[int | None, ...]:
        """Per tensor the operator that makes it; None for a given one."""
        maker: list[int | None] = [None] * len(self.tensors)
        for index, operator in enumerate(self.operators):
            for tensor in operator.outputs:
                maker[tensor] = index
        return tuple(maker)

    @cached_property
    def on_host(self) -> frozenset[int]:
        """The tensors that may be dropped at no cost, because the host has a copy from the beginning."""
        kept = self.settings.inputs_on_host
        return frozenset(
            index for index, tensor in enumerate(self.tensors) if tensor.given and (kept or tensor.parameters)
        )

    def working_bytes(self, operator: Operator) -> int:
        """Scratchpad bytes of the operator's own timestep: inputs, outputs, parameters (Section V-A).

        With in-place operators the least they can be.
        """
        blocks = sum(self.tensors[t].block_bytes for t in (*operator.inputs, *operator.outputs))
        return blocks + operator.parameter_bytes - self._most_overwritten(operator)

    def _most_overwritten(self, operator: Operator) -> int:
        """Bytes saved at best by outputs that overwrite an input (one input for one output)."""
        # Taking the pairs in turn is enough: all pairs of an operator have its one output
        # (:func:`_overwrites`), so at most one of them counts, and all save as much.
        saved, used = 0, set[int]()
        for source, target in operator.overwrites:
            if not used.intersection((source, target)):
                used.update((source, target))
                saved += self.tensors[target].block_bytes
        return saved

    @cached_property
    def hungriest(self) -> Operator:
        """The operator that needs the most scratchpad for itself."""
        return max(self.operators, key=self.working_bytes)

    @cached_property
    def total_bytes(self) -> int:
        """Scratchpad in which every tensor and every parameter has an address of its own."""
        blocks = sum(tensor.block_bytes for tensor in self.tensors)
        return blocks + sum(operator.parameter_bytes for operator in self.operators)

    @property
    def required_bytes(self) -> int:
        """MR, the minimum memory requirement: what the hungriest operator needs (Section III-D)."""
        return self.working_bytes(self.hungriest)


def _check_names(where: str, names: list[str]) -> None:
    """Plans tell operators and tensors by their names, and an idle step by none."""
    if "" in names:
        raise InputError(where, "names that are not empty", "an empty one")
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise InputError(where, "names that are all different", twice)


def operator_graph(network: Network, settings: ScratchpadSettings = ScratchpadSettings()) -> OperatorGraph:
    """The operator graph of a network from any frontend.

    Parameters become bytes of the operators that read them (none with ``settings.parameters`` off), a tensor
    read twice by one operator is one tensor, and what no operator touches is left out.
    """
    values = {value.name: value for value in network.values}
    touched = dict.fromkeys(name for node in network.nodes for name in (*node.inputs, *node.outputs))
    # ``touched`` is in the order of first use, which numbers the tensors the same for equal networks.
    kept = [values[name] for name in touched if values[name].kind != "parameter"]
    indices = {value.name: index for index, value in enumerate(kept)}
    tensors = tuple(_tensor(value, settings) for value in kept)
    operators = tuple(_operator(node, indices, tensors, values, settings) for node in network.nodes)
    return OperatorGraph(network.name, operators, tensors, settings)


def _tensor(value: Value, settings: ScratchpadSettings) -> GraphTensor:
    size = settings.bytes_of(value.elements)
    return GraphTensor(value.name, size, settings.padded(size), value.kind == "input")


def _operator(
    node: Node,
    indices: dict[str, int],
    tensors: tuple[GraphTensor, ...],
    values: dict[str, Value],
    settings: ScratchpadSettings,
) -> Operator:
    read = dict.fromkeys(node.inputs)
    inputs = tuple(indices[name] for name in read if name in indices)
    outputs = tuple(indices[name] for name in dict.fromkeys(node.outputs))
    parameters = sum(settings.bytes_of(values[name].elements) for name in read if name not in indices)
    # All parameters of an operator are one block: they come and go together, so one address is enough.
    held = settings.padded(parameters) if settings.parameters else 0
    return Operator(node.name, inputs, outputs, held, _overwrites(node, inputs, outputs, tensors, settings))


def _overwrites(
    node: Node,
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    tensors: tuple[GraphTensor, ...],
    settings: ScratchpadSettings,
) -> tuple[tuple[int, int], ...]:
    """Inputs of an element-wise operator that its output may overwrite: those of the output's size."""
    in_place = settings.in_place and all(kind.in_place for kind in node.kinds)
    if not in_place or len(outputs) != 1:
        return ()
    size = tensors[outputs[0]].block_bytes
    return tuple((t, outputs[0]) for t in inputs if tensors[t].block_bytes == size)
