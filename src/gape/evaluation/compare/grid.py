"""What is compared: methods, epsilons and seeds, and what all of their runs have in common."""

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
from gape.runs.advice import suitable_votes

REAL = "real"  # the method of a cell that scores real records instead of synthetic ones

# The parts of a plan that a cell decides; the others are common to all.
_OF_A_CELL = frozenset({"epsilon", "seed", "sigma", "votes_per_record"})


def in_short(number: float) -> str:
    """Write a number without needless digits, and never two numbers alike."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


# Makes what writes candidates and what embeds them from the model and the embedder that all cells share.
Builder: TypeAlias = Callable[[LanguageModel | None, Embedder], tuple[Generator, Embedder]]


@dataclass(frozen=True)
class Method:
    """One line of the figure: how survivors are selected, and what else of the plan it takes for that.

    `select` makes the rule from the plan of a run and the number of privacy units that vote. It goes to other
    processes, so it must be something that can be pickled, and its repr must say what it does.
    """

    name: str
    select: Callable[[Plan, int], Selector]
    changes: Mapping[str, Any] = field(default_factory=dict)  # of the plan, such as keep
    kinds: int | None = None  # a number of labels: a record has as many votes as suit the noise; None: as in the plan
    build: Builder | None = None  # makes its own generator and embedder; None: those of all methods
    last_pass: bool = False  # whether texts that repeat another are rewritten after the last round

    def __post_init__(self) -> None:
        if not self.name or not self.name.replace("-", "").replace("_", "").isalnum() or self.name == REAL:
            raise InputError(f"a method needs a name of letters, digits, - and _ other than real, got {self.name!r}")

    def describe(self) -> str:
        """Say what the method is, so that a folder can refuse another of the same name."""
        said = f"{self.select!r} {dict(self.changes)!r}" if self.changes else repr(self.select)
        said += "" if self.kinds is None else ", votes by noise"
        said += f", {self.build!r}" if self.build else ""
        said += ", last pass" if self.last_pass else ""
        return re.sub(r" at 0x[0-9a-f]+", "", said)  # an address says nothing and changes every time


@dataclass(frozen=True)
class Cell:
    """One run: a method at an epsilon with a seed. The real records of a seed are a cell too, of no epsilon."""

    method: str
    epsilon: float
    seed: int

    @property
    def real(self) -> bool:
        """Whether it scores real records."""
        return self.method == REAL

    @property
    def name(self) -> str:
        """The name of its file."""
        epsilon = "" if self.real else f"--eps-{in_short(self.epsilon)}"
        return f"{self.method}{epsilon}--seed-{self.seed}"

    def __str__(self) -> str:
        method = "real records" if self.real else f"{self.method}, epsilon {in_short(self.epsilon)}"
        return f"{method}, seed {self.seed}"


@dataclass(frozen=True)
class Grid:
    """Every method at every epsilon with every seed, and the real records of every seed."""

    methods: tuple[Method, ...]
    epsilons: tuple[float, ...]
    seeds: tuple[int, ...]

    def __post_init__(self) -> None:
        named: dict[str, tuple[Any, ...]] = {
            "methods": tuple(each.name for each in self.methods),
            "epsilons": self.epsilons,
            "seeds": self.seeds,
        }
        for name, values in named.items():
            if not values or len(set(values)) < len(values):
                raise InputError(f"{name} must be different and at least one, got {', '.join(map(str, values))}")
        if not all(epsilon > 0 for epsilon in self.epsilons):
            raise InputError(f"epsilons must be positive, got {min(self.epsilons):g}; use inf for no noise")
        if min(self.seeds) < 0:
            raise InputError(f"seeds must not be negative, got {min(self.seeds)}")

    def cells(self) -> list[Cell]:
        """All cells, seed by seed, so that what runs at one time shares the start of its seed."""
        cells = []
        for seed in self.seeds:
            cells.append(Cell(REAL, math.inf, seed))
            cells += [Cell(each.name, epsilon, seed) for epsilon in self.epsilons for each in self.methods]
        return cells

    def method(self, name: str) -> Method:
        """Return the method of this name."""
        return next(each for each in self.methods if each.name == name)


@dataclass(frozen=True)
class Study:
    """What all cells have in common: the plan but for epsilon and seed, who is held out, and how runs are scored."""

    plan: Plan  # its epsilon, seed and sigma are replaced by those of a cell
    held_out: float = 0.2  # share of the privacy units that do not vote
    scored: int = 2000  # at most so many records score, of those held out and as many of those that vote
    k: int = 3  # a ball of recall and precision reaches to so many-th nearest other record
    blur: float = 0.05  # of the Sinkhorn divergence
    described: Mapping[str, str] = field(default_factory=dict)  # what else must be the same for cells to compare

    def __post_init__(self) -> None:
        check_scoring(self.held_out, self.scored, self.k, self.blur)

    def plan_of(self, cell: Cell, method: Method, units: int) -> Plan:
        """Return the plan of a cell where so many `units` vote; its noise follows from its epsilon."""
        plan = replace(self.plan, **method.changes, epsilon=cell.epsilon, seed=cell.seed, sigma=-1.0)
        return plan if method.kinds is None else plan.casting(suitable_votes(plan, units, kinds=method.kinds))

    @classmethod
    def of_common(cls, values: Mapping[str, Any]) -> Study:
        """Read what `common` gave."""
        plan = {each.name: values[each.name] for each in fields(Plan) if each.name not in _OF_A_CELL}
        own = {name: values[name] for name in ("held_out", "scored", "k", "blur")}
        described = {name: str(value) for name, value in values.items() if name not in {*plan, *own}}
        return cls(Plan(epsilon=math.inf, **plan), **own, described=described)

    def common(self) -> dict[str, Any]:
        """Everything that cells must share to be compared, as plain values."""
        plan = {name: value for name, value in asdict(self.plan).items() if name not in _OF_A_CELL}
        scoring = {"held_out": self.held_out, "scored": self.scored, "k": self.k, "blur": self.blur}
        return {**plan, **scoring, **self.described}


def check_scoring(held_out: float, scored: int, k: int, blur: float) -> None:
    """Refuse what nothing can be scored by."""
    if not 0 < held_out < 1:
        raise InputError(f"held_out must lie between 0 and 1, got {held_out:g}; a fifth is usual")
    if scored <= k or k < 1:
        raise InputError(f"k must be at least 1 and scored larger, got k {k} and scored {scored}")
    if not 0 < blur < math.inf:
        raise InputError(f"blur must be positive, got {blur:g}; 0.05 is usual")
