"""The solvers by name: what each can do, and the module that does it, imported when it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

from costmodel.errors import InputError, did_you_mean
from costmodel.plug_ins import OURS, SOLVERS, PlugIn, plug_in, plug_in_names
from solvers.fusion.problem import OBJECTIVES as FUSION_OBJECTIVES
from solvers.mapping.problem import OBJECTIVES
from solvers.plug_in_solver import plug_in_solver
from solvers.schedule.objective import OBJECTIVES as SCHEDULE_OBJECTIVES
from solvers.scratchpad.problem import OBJECTIVES as SCRATCHPAD_OBJECTIVES


@dataclass(frozen=True)
class Entry:
    """One solver; its ``module`` has ``VERSION``, ``Params`` and ``solve(problem, budget, params)``.

    ``proves_optimality``: whether, given time, it goes on until its answer is proven to be the best one.
    ``takes_start``: whether ``solve`` has a further argument ``start``, a solution to begin with or None.
    ``maps_unevenly``: whether rules can ask a mapping solver for uneven mappings.
    ``draws``: whether the answer of a schedule solver depends on the seed; without it one seed is enough.
    ``asks_for_costs``: whether a schedule solver asks for the costs of layers as it goes (TileCostsNeeded)
    rather than for the whole table before it begins. Studies of such solvers also offer layers that run on
    the whole chip, unless they say otherwise.
    ``plug_in``: the plug-in that adds the solver; None for our own.
    """

    name: str
    family: str
    module: str
    objectives: tuple[str, ...]
    description: str
    proves_optimality: bool = False
    takes_start: bool = False
    maps_unevenly: bool = False
    draws: bool = True
    asks_for_costs: bool = False
    plug_in: PlugIn | None = None

    def load(self) -> Any:
        """The solver's module, or what stands for that of a plug-in and checks its answers."""
        return plug_in_solver(self.plug_in) if self.plug_in else import_module(self.module)

    @property
    def version(self) -> str:
        """What answers are known by beside the solver's name: of a plug-in also the distribution's name.

        So nobody's answers are taken for those of another solver that has had the same name.
        """
        own: str = self.load().VERSION
        return f"{own} of {self.plug_in.distribution}" if self.plug_in else own

    @property
    def origin(self) -> str:
        """Where the solver is from: archsweep, or a plug-in's distribution and its version."""
        return self.plug_in.origin if self.plug_in else OURS

    @property
    def goes_on_from_trees(self) -> bool:
        """Whether a schedule solver's searches can go on from others' trees: its module has ``spaces_of``."""
        return hasattr(self.load(), "spaces_of")


CATALOGUE: tuple[Entry, ...] = (
    Entry(
        "auto",
        "mapping",
        "solvers.mapping.auto",
        OBJECTIVES,
        "a portfolio of the others, until the gap is small enough or the budget ends; says which one won",
        proves_optimality=True,
        maps_unevenly=True,
    ),
    Entry(
        "cosa",
        "mapping",
        "solvers.mapping.cosa",
        OBJECTIVES,
        "CoSA's mixed-integer program, one for every reuse pattern, re-evaluated and polished",
    ),
    Entry(
        "exact",
        "mapping",
        "solvers.mapping.exact",
        OBJECTIVES,
        "branch and bound over all mappings of the space: the best one, proven",
        proves_optimality=True,
        takes_start=True,
        maps_unevenly=True,
    ),
    Entry(
        "thistle",
        "mapping",
        "solvers.mapping.thistle",
        OBJECTIVES,
        "Thistle's geometric programs, one per class of loop orders, rounded, re-evaluated and polished",
    ),
    Entry(
        "kapla",
        "mapping",
        "solvers.mapping.kapla",
        OBJECTIVES,
        "KAPLA's stacking and caching from the inside out, a few schemes a level, re-evaluated and polished",
    ),
    Entry(
        "random_search",
        "mapping",
        "solvers.mapping.random_search",
        OBJECTIVES,
        "Timeloop's random-pruned search: uniform factorisations until nothing better turns up",
    ),
    Entry(
        "learned_annealing",
        "mapping",
        "solvers.mapping.learned_annealing",
        OBJECTIVES,
        "annealing guided by a learned cost model, as AutoTVM's; needs pip install 'archsweep[learned]'",
    ),
    Entry(
        "hybrid",
        "mapping",
        "solvers.mapping.hybrid",
        OBJECTIVES,
        "Timeloop's hybrid mapper: random factorisations, all loop orders of each, 32 times until victory",
    ),
    Entry(
        "exhaustive",
        "mapping",
        "solvers.mapping.exhaustive",
        OBJECTIVES,
        "every mapping of a small space, for checking the others",
        proves_optimality=True,
    ),
    Entry(
        "thistle_codesign",
        "codesign",
        "solvers.codesign.thistle",
        OBJECTIVES,
        "Thistle's co-design: sizes, fan-outs and tilings in one geometric program, rounded and mapped",
    ),
    Entry(
        "nvdla",
        "tile",
        "solvers.schedule.tiles.nvdla",
        OBJECTIVES,
        "NVDLA's dataflow on a chip's tile, as SET's exhaustive mapper has it: the best of its mappings",
    ),
    Entry(
        "set",
        "schedule",
        "solvers.schedule.set.solver",
        SCHEDULE_OBJECTIVES,
        "SET's annealing of resource-allocation trees: any mixture of pipelines and layers in turn",
    ),
    Entry(
        "kapla_schedule",
        "schedule",
        "solvers.schedule.kapla",
        SCHEDULE_OBJECTIVES,
        "KAPLA's chains of segments: those that cannot fit pruned, the promising ones costed in full",
        draws=False,
        asks_for_costs=True,
    ),
    Entry(
        "segment_chain",
        "schedule",
        "solvers.schedule.segment_chain",
        SCHEDULE_OBJECTIVES,
        "the best chain of runs of layers: turns, blocks, pipelines of both; neighbours joined at the end",
        draws=False,
    ),
    Entry(
        "layer_sequential",
        "schedule",
        "solvers.schedule.layer_sequential",
        SCHEDULE_OBJECTIVES,
        "the same annealing over segments whose layers take turns on the whole chip",
    ),
    Entry(
        "layer_pipeline",
        "schedule",
        "solvers.schedule.layer_pipeline",
        SCHEDULE_OBJECTIVES,
        "the same annealing over segments whose layers run side by side as a pipeline",
    ),
    Entry(
        "tangram",
        "schedule",
        "solvers.schedule.tangram",
        SCHEDULE_OBJECTIVES,
        "Tangram's chains of segments: layers in turn, and pipelines with alternate loop orders",
        draws=False,
    ),
    Entry(
        "auto_schedule",
        "schedule",
        "solvers.schedule.auto",
        SCHEDULE_OBJECTIVES,
        "a portfolio: KAPLA's chains, the best chain, SET's annealing; the best tree annealed further",
        draws=False,
    ),
    Entry(
        "exhaustive_schedule",
        "schedule",
        "solvers.schedule.exhaustive",
        SCHEDULE_OBJECTIVES,
        "every RA tree of up to 6 layers on up to 4 tiles, for checking the others",
        proves_optimality=True,
        draws=False,
    ),
    Entry(
        "fusion_exact",
        "fusion",
        "solvers.fusion.exact",
        FUSION_OBJECTIVES,
        "what neighbours of a chain share, what stays on the chip, every own nest: the best one, proven",
        proves_optimality=True,
        draws=False,
    ),
    Entry(
        "fusion_layers",
        "layer_fusion",
        "solvers.fusion.layers",
        FUSION_OBJECTIVES,
        "layers of a network on an architecture: what they share and keep, nests by exact, with a bound",
        draws=False,
    ),
    Entry(
        "cosma",
        "scratchpad",
        "solvers.scratchpad.cosma.solver",
        SCRATCHPAD_OBJECTIVES,
        "COSMA's problem exactly: best-first search, replacement by CP-SAT, packing",
        proves_optimality=True,
    ),
    Entry(
        "cosma_ilp",
        "scratchpad",
        "solvers.scratchpad.cosma.integer_program",
        SCRATCHPAD_OBJECTIVES,
        "COSMA's integer program (Eqs. 1-12), for small graphs",
        proves_optimality=True,
    ),
    Entry(
        "divide",
        "scratchpad",
        "solvers.scratchpad.divide",
        SCRATCHPAD_OBJECTIVES,
        "segments between automatic break nodes, searched one after the other",
    ),
    Entry(
        "fixed_schedule",
        "scratchpad",
        "solvers.scratchpad.fixed_schedule",
        SCRATCHPAD_OBJECTIVES,
        "the best replacement and allocation for the default or the minimum-peak order",
    ),
    Entry(
        "peak",
        "scratchpad",
        "solvers.scratchpad.peak",
        SCRATCHPAD_OBJECTIVES,
        "the order of least peak footprint, without spills",
        proves_optimality=True,
    ),
    Entry(
        "comparison",
        "scratchpad",
        "solvers.scratchpad.comparison",
        SCRATCHPAD_OBJECTIVES,
        "default or minimum-peak order, Belady or greedy replacement, a linear arena",
    ),
)


PLUG_IN_FAMILY = "mapping"
"""The family that plug-ins can add solvers to."""


def solver_names(family: str | None = None) -> list[str]:
    """The names of a family's solvers, or of all, in the catalogue's order; those of plug-ins come last."""
    ours = [entry.name for entry in CATALOGUE if family in (None, entry.family)]
    added = plug_in_names(SOLVERS) if family in (None, PLUG_IN_FAMILY) else []
    return [*ours, *(name for name in added if name not in ours)]


def entries(family: str | None = None) -> list[Entry]:
    """The entries of :func:`solver_names`; InputError for a plug-in that cannot be used."""
    return [solver(name) for name in solver_names(family)]


def solver(name: str, family: str | None = None) -> Entry:
    """The entry of that name, of that family if one is given.

    InputError with near names if there is none, and for the name of a plug-in that cannot be used.
    """
    names = solver_names(family)
    if name in names:
        # asked for even if the name is ours: a plug-in that has taken a name of ours is an error
        added = plug_in(SOLVERS, name, [entry.name for entry in CATALOGUE])
        if added is not None:
            return _added(added)
        return next(entry for entry in CATALOGUE if entry.name == name)
    raise InputError("solver", f"one of {', '.join(names)}", name, did_you_mean(name, names))


@lru_cache(maxsize=64)
def _added(added: PlugIn) -> Entry:
    """The entry of a plug-in."""
    module = plug_in_solver(added)
    return Entry(
        added.name,
        PLUG_IN_FAMILY,
        added.module,
        OBJECTIVES,
        module.title,
        proves_optimality=module.proves_optimality,
        maps_unevenly=module.maps_unevenly,
        plug_in=added,
    )
