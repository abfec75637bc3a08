"""What is done in each step of a loop nest, as nested repetitions that are as short as they can be.

The steps of a nest of three loops, of which the innermost is loop 0, by the loop that advances in each::

    start  0 0 0  1  0 0 0  1  0 0 0  2  0 0 0  1  0 0 0 ...

When a loop advances, all loops inside it start again. What a unit does depends on the loop that advances,
and, where partial sums come back, on whether the outputs were there before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from costmodel.schedule.program.program import Instruction, Repeat

Code = tuple[Instruction | Repeat, ...]
Step = Callable[[int, bool], Code]
"""What is done in a step, by the loop that advances (-1: none, this is the first step) and by whether it
comes to outputs that nothing was added to before."""


def code_of(bounds: Sequence[int], begins_anew: Sequence[bool], step: Step, last: Code = ()) -> Code:
    """The code of all steps, then ``last``.

    ``bounds``: of the loops, innermost first. ``begins_anew``: whether a loop's later iterations come to new
    outputs if the first one does.
    """

    def after_first(inner: int, fresh: bool) -> list[Repeat]:
        """All steps of the ``inner`` innermost loops but the first one."""
        if inner == 0:
            return []
        loop = inner - 1
        again = fresh and begins_anew[loop]
        body = joined([*once(step(loop, again)), *after_first(loop, again)])
        return joined([*after_first(loop, fresh), *repeated(bounds[loop] - 1, body)])

    every = joined([*once(step(-1, True)), *after_first(len(bounds), True), *once(last)])
    return plain(every)


def once(code: Code) -> list[Repeat]:
    return [Repeat(1, code)] if code else []


def joined(parts: Sequence[Repeat]) -> list[Repeat]:
    """The parts one after the other, where equal neighbours are one."""
    found: list[Repeat] = []
    for part in parts:
        if found and found[-1].body == part.body:
            found[-1] = Repeat(found[-1].times + part.times, part.body)
        else:
            found.append(part)
    return found


def repeated(times: int, body: list[Repeat]) -> list[Repeat]:
    """A body so many times, without a repetition around a single repetition."""
    if not body or times == 0:
        return []
    if len(body) == 1:
        return [Repeat(times * body[0].times, body[0].body)]
    return [Repeat(times, plain(body))]


def plain(parts: Sequence[Repeat]) -> Code:
    """The parts as code, where what is done once is no repetition."""
    found: list[Instruction | Repeat] = []
    for part in parts:
        if part.times == 1:
            found += part.body
        else:
            found.append(part)
    return tuple(found)
