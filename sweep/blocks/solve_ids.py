"""Identities of a table's solves in bulk: each different part of an architecture is written as JSON once."""

from __future__ import annotations

from collections.abc import Iterator

from sweep.design.mapping_workload import MappingWorkload
from sweep.study.designs.design_table import DesignTable
from sweep.study.identity import canonical_json, text_hash
from sweep.tasks.mapping import architecture_content, mapping_id


class SolveIds:
    """The ids of the tasks (:attr:`MappingTask.id`) of each group of a table."""

    def __init__(self, table: DesignTable, workload: MappingWorkload) -> None:
        order, begins = table.by_group
        self._parts_of = table.parts_of[order[begins[:-1]]]
        """Of the first design of each group, the number of the part at each position."""
        self._parts = table.parts
        self._asked = [solve.asked for solve in workload.solves]
        self._texts: dict[tuple[int, int], str] = {}
        """By position and number of a part, the part without its area as canonical JSON.

        Of the machine, the last part: its keys ``precision`` and ``timing``, as far as it has them, each with
        a comma before it.
        """

    def of_group(self, group: int) -> list[str]:
        """The ids of a group's solves, in their order."""
        name = text_hash(self._architecture(self._parts_of[group].tolist()))
        return [mapping_id(name, asked) for asked in self._asked]

    def __iter__(self) -> Iterator[list[str]]:
        return (self.of_group(group) for group in range(len(self._parts_of)))

    def _architecture(self, numbers: list[int]) -> str:
        """The canonical JSON of :func:`sweep.tasks.mapping.architecture_content`: its keys are sorted."""
        if any((position, number) not in self._texts for position, number in enumerate(numbers)):
            content = architecture_content(self._parts.architecture(numbers))
            parts = map(canonical_json, (*content["levels"], content["compute"]))
            machine = "".join(
                f',"{key}":{canonical_json(content[key])}'
                for key in ("precision", "timing")
                if key in content
            )
            self._texts |= dict(zip(enumerate(numbers), (*parts, machine), strict=True))
        *levels, mac, machine = (self._texts[position, number] for position, number in enumerate(numbers))
        return f'{{"compute":{mac},"frequency_hz":1.0,"levels":[{",".join(levels)}],"name":""{machine}}}'
