"""What is compared: the grid of methods, epsilons and seeds, and the study, which all of its runs have in common."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypeAlias

from gape.core.errors import InputError
from gape.core.protocols import Embedder, Generator, Selector
from gape.evolution.plan import Plan
from gape.language.request import LanguageModel
from gape.modalities.base import Baseline
from gape.runs.advice import suitable_votes

REAL = "real"  # the method of a cell that scores real records instead of synthetic ones
VOTES = ":"  # before the votes per record in the name of a method, as in ranking:16

# The fields of a plan that vary between cells; all others are common.
_PER_CELL = frozenset({"epsilon", "seed", "sigma", "votes_per_record"})


def shortest(number: float) -> str:
    """Format a number with few digits, but so that different numbers never look the same."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


# Makes the generator and the embedder of its candidates from the model and the embedder that all cells share.
Builder: TypeAlias = Callable[[LanguageModel | None, Embedder], tuple[Generator, Embedder]]


@dataclass(frozen=True)
class Method:
    """One line of the figure: a selection rule, and the changes to the plan that come with it.

    `select` makes the selector from the plan of a run and the number of privacy units that vote. A method of another
    library is a `baseline` instead, and has no rounds. Both are sent to worker processes, so they must be picklable,
    and their repr must say what they do.
    """

    name: str
    select: Callable[[Plan, int], Selector] | None
    changes: Mapping[str, Any] = field(default_factory=dict)  # fields of the plan to replace, such as keep
    kinds: int | None = None  # number of labels: choose the votes per record to suit the noise; None: as in the plan
    estimated: bool = False  # whether it estimates votes from all noisy ones, so that fewer per record suffice
    build: Builder | None = None  # makes the method's own generator and embedder; None: those of all methods
    last_pass: bool = False  # whether texts that repeat another one are rewritten after the last round
    described: Mapping[str, str] = field(default_factory=dict)  # settings of its generator that replace common ones
    baseline: Baseline | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(rf"[\w-]+({VOTES}[0-9]+)?", self.name) or self.name == REAL:
            raise InputError(
                f"the name of a method must consist of letters, digits, - and _, may end in {VOTES} and a number, and "
                f"must not be 'real', got {self.name!r}; choose another name"
            )

    def describe(self) -> str:
        """Describe the method, so that a folder can refuse a different method of the same name."""
        if self.baseline is not None:
            return repr(self.baseline)
        description = f"{self.select!r} {dict(self.changes)!r}" if self.changes else repr(self.select)
        description += "" if self.kinds is None else ", votes by noise"
        description += f", {self.build!r}" if self.build else ""
        description += ", last pass" if self.last_pass else ""
        return re.sub(r" at 0x[0-9a-f]+", "", description)  # memory addresses change with every process


@dataclass(frozen=True)
class Cell:
    """One run: a method at an epsilon with a seed. Real records, drawn by the seed, are a cell without an epsilon."""

    method: str
    epsilon: float
    seed: int

    @property
    def real(self) -> bool:
        """Whether the cell scores real records."""
        return self.method == REAL

    @property
    def name(self) -> str:
        """The name of the cell's file, without its ending."""
        method = self.method.replace(VOTES, "=")  # not every file system allows a colon
        epsilon = "" if self.real else f"--eps-{shortest(self.epsilon)}"
        return f"{method}{epsilon}--seed-{self.seed}"

    def __str__(self) -> str:
        method = "real records" if self.real else f"{self.method}, epsilon {shortest(self.epsilon)}"
        return f"{method}, seed {self.seed}"


@dataclass(frozen=True)
class Grid:
    """Every method at every epsilon with every seed, and the real records of every seed."""

    methods: tuple[Method, ...]
    epsilons: tuple[float, ...]
    seeds: tuple[int, ...]

    def __post_init__(self) -> None:
        named: dict[str, tuple[Any, ...]] = {
            "methods": tuple(method.name for method in self.methods),
            "epsilons": self.epsilons,
            "seeds": self.seeds,
        }
        for name, values in named.items():
            if not values or len(set(values)) < len(values):
                values_given = ", ".join(map(str, values)) or "none"
                raise InputError(f"{name} must be at least one and all different, got {values_given}")
        if not all(epsilon > 0 for epsilon in self.epsilons):
            raise InputError(f"epsilons must be positive, got {min(self.epsilons):g}; use inf for no noise")
        if min(self.seeds) < 0:
            raise InputError(f"seeds must not be negative, got {min(self.seeds)}")

    def cells(self) -> list[Cell]:
        """Return all cells, seed by seed, so that cells running at the same time share the start of their seed."""
        cells = []
        for seed in self.seeds:
            cells.append(Cell(REAL, math.inf, seed))
            cells += [Cell(method.name, epsilon, seed) for epsilon in self.epsilons for method in self.methods]
        return cells

    def method(self, name: str) -> Method:
        """Return the method of this name."""
        return next(method for method in self.methods if method.name == name)


@dataclass(frozen=True)
class Study:
    """What all cells have in common: the plan except epsilon and seed, the held-out share, and the scoring."""

    plan: Plan  # its epsilon, seed and sigma are replaced by those of a cell
    held_out: float = 0.2  # share of the privacy units that do not vote
    scored: int = 2000  # largest number of held-out records, and of voters, that runs are scored by
    k: int = 3  # recall and precision: the ball of a record reaches to its k-th nearest other record
    blur: float = 0.05  # of the Sinkhorn divergence
    described: Mapping[str, str] = field(default_factory=dict)  # further settings that cells must share

    def __post_init__(self) -> None:
        check_scoring(self.held_out, self.scored, self.k, self.blur)

    def plan_of(self, cell: Cell, method: Method, units: int) -> Plan:
        """Return the plan of a cell in which `units` privacy units vote; its noise follows from its epsilon."""
        plan = replace(self.plan, **method.changes, epsilon=cell.epsilon, seed=cell.seed, sigma=-1.0)
        if method.kinds is None:
            return plan
        return plan.casting(suitable_votes(plan, units, kinds=method.kinds, estimated=method.estimated))

    @classmethod
    def from_common(cls, values: Mapping[str, Any]) -> Study:
        """Restore a study from the result of `common`."""
        names = [part.name for part in fields(Plan) if part.name not in {*_PER_CELL, "answers"}]
        plan = {name: values[name] for name in names} | {"answers": tuple(values.get("answers", ()))}
        scoring = {name: values[name] for name in ("held_out", "scored", "k", "blur")}
        described = {name: str(value) for name, value in values.items() if name not in {*plan, *scoring}}
        return cls(Plan(epsilon=math.inf, **plan), **scoring, described=described)

    def common(self) -> dict[str, Any]:
        """Return everything that cells must share to be comparable, as plain values."""
        plan = {name: value for name, value in asdict(self.plan).items() if name not in _PER_CELL}
        if not self.plan.answers:  # folders of versions without surveys do not have it
            del plan["answers"]
        scoring = {"held_out": self.held_out, "scored": self.scored, "k": self.k, "blur": self.blur}
        return {**plan, **scoring, **self.described}


def check_scoring(held_out: float, scored: int, k: int, blur: float) -> None:
    """Refuse settings that runs cannot be scored with."""
    if not 0 < held_out < 1:
        raise InputError(f"held_out must lie between 0 and 1, got {held_out:g}; a fifth is usual")
    if scored <= k or k < 1:
        raise InputError(f"k must be at least 1 and scored larger, got k {k} and scored {scored}")
    if not 0 < blur < math.inf:
        raise InputError(f"blur must be positive, got {blur:g}; 0.05 is usual")
