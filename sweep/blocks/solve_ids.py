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
        """By position and number of a level or the MAC units, its canonical JSON without its area."""
        self._machines: dict[int, dict[str, str]] = {}
        """By number of a machine, what else an architecture's content has: keys with canonical JSON."""

    def of_group(self, group: int) -> list[str]:
        """The ids of a group's solves, in their order."""
        name = text_hash(self._architecture(self._parts_of[group].tolist()))
        return [mapping_id(name, asked) for asked in self._asked]

    def __iter__(self) -> Iterator[list[str]]:
        return (self.of_group(group) for group in range(len(self._parts_of)))

    def _architecture(self, numbers: list[int]) -> str:
        """The canonical JSON of :func:`sweep.tasks.mapping.architecture_content`: its keys are sorted."""
        *parts, machine = numbers
        new = any((position, number) not in self._texts for position, number in enumerate(parts))
        if new or machine not in self._machines:
            content = dict(architecture_content(self._parts.architecture(numbers)))
            written = *content.pop("levels"), content.pop("compute")
            self._texts |= {(p, n): canonical_json(written[p]) for p, n in enumerate(parts)}
            self._machines[machine] = {key: canonical_json(value) for key, value in content.items()}
        *levels, compute = (self._texts[position, number] for position, number in enumerate(parts))
        whole = self._machines[machine] | {"compute": compute, "levels": f"[{','.join(levels)}]"}
        return "{" + ",".join(f'"{key}":{whole[key]}' for key in sorted(whole)) + "}"
