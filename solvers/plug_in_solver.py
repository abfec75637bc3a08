"""Mapping solvers of plug-ins: what their modules must have, and a check of every answer they give.

An entry point of the group ``archsweep.solvers`` names a module with

- ``VERSION``: a text, raised whenever answers can change; with the distribution's name it is a part of what
  stored answers are known by;
- ``TITLE``: one line for ``archsweep list solvers``;
- ``Params``: a frozen dataclass whose fields all have defaults and which checks itself;
- ``solve(problem, budget, params) -> Outcome[Mapping]``;

and, where it is true, ``PROVES_OPTIMALITY = True`` (given time, it goes on until its answer is proven) and
``MAPS_UNEVENLY = True`` (rules can ask it for uneven mappings).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any

from costmodel.errors import InputError
from costmodel.plug_ins import PlugIn


@dataclass(frozen=True)
class PlugInSolver:
    """A plug-in's module as the rest sees it; names as of our own solvers' modules."""

    plug_in: PlugIn
    title: str
    proves_optimality: bool
    maps_unevenly: bool
    VERSION: str
    Params: Any
    own_solve: Callable[..., Any]

    def solve(self, problem: Any, budget: Any, params: Any = None) -> Any:
        """The plug-in's outcome; InputError where it is none, or claims what the cost model does not say.

        A problem on an architecture with a precision is refused (InputError): plug-ins are asked in words.
        """
        if getattr(getattr(problem, "architecture", None), "precision", None) is not None:
            name = self.plug_in.name
            expected, remedy = "no precision: plug-ins are asked in words", "Ask exact"
            raise InputError(self.plug_in.where, expected, name, remedy, key="precision")
        outcome = self.own_solve(problem, budget, self.Params() if params is None else params)
        if wrong := _wrong(problem, outcome):
            expected, found = wrong
            remedy = "The contract tests, which its author can run, show more: docs/guides/researcher.md"
            raise InputError(self.plug_in.where, expected, found, remedy, key="solve")
        return outcome


def plug_in_solver(plug_in: PlugIn) -> PlugInSolver:
    """The checked module that a plug-in names; InputError, which names the distribution, for any other."""
    module = plug_in.load()

    def refuse(key: str, expected: str, found: object) -> InputError:
        return InputError(
            plug_in.where, expected, found, f"Mend or uninstall {plug_in.distribution}", key=key
        )

    for key in ("VERSION", "TITLE"):
        text = getattr(module, key, None)
        if not isinstance(text, str) or not text.strip() or "\n" in text:
            raise refuse(key, "a line of text", text)
    for key in ("PROVES_OPTIMALITY", "MAPS_UNEVENLY"):
        if not isinstance(switch := getattr(module, key, False), bool):
            raise refuse(key, "True or False", switch)
    params, solve = getattr(module, "Params", None), getattr(module, "solve", None)
    if not _plain_params(params):
        raise refuse("Params", "a frozen dataclass whose fields have defaults", params)
    if not _takes_three(solve):
        raise refuse("solve", "a function of problem, budget and params", solve)
    return PlugInSolver(
        plug_in,
        module.TITLE,
        getattr(module, "PROVES_OPTIMALITY", False),
        getattr(module, "MAPS_UNEVENLY", False),
        module.VERSION,
        params,
        module.solve,
    )


def _plain_params(params: Any) -> bool:
    if not (isinstance(params, type) and is_dataclass(params)):
        return False
    frozen = params.__dataclass_params__.frozen  # type: ignore[attr-defined]
    return frozen and all(
        field.default is not MISSING or field.default_factory is not MISSING for field in fields(params)
    )


def _takes_three(solve: Any) -> bool:
    if not callable(solve):
        return False
    try:
        inspect.signature(solve).bind("problem", "budget", "params")
    except (TypeError, ValueError):
        return False
    return True


def _wrong(problem: Any, outcome: Any) -> tuple[str, object] | None:
    """What was expected and what an outcome has instead; None if nothing is found wrong.

    The mapping, its objective and the bound of an OPTIMAL answer are checked. Other bounds, INFEASIBLE and
    UNKNOWN are the plug-in's word.
    """
    from costmodel.mapping.evaluate import evaluate
    from solvers.mapping.problem import executed_layer, objective_of, violations
    from solvers.outcome import Outcome, Status

    if not isinstance(outcome, Outcome):
        return "an Outcome", type(outcome).__name__
    if outcome.solution is None:
        return None
    if broken := violations(problem, outcome.solution):
        return "a valid mapping of the space", "; ".join(broken)
    evaluation = evaluate(problem.architecture, executed_layer(problem, outcome.solution), outcome.solution)
    objective = objective_of(evaluation, problem.objective)
    if outcome.objective != objective:
        return f"the cost model's {problem.objective} of its mapping, {objective!r}", repr(outcome.objective)
    if outcome.status is Status.OPTIMAL and outcome.bound != objective:
        return f"the bound of an optimal answer to be its objective, {objective!r}", repr(outcome.bound)
    return None
