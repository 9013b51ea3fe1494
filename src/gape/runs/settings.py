"""Every choice of a run, as plain values: what the command line's flags, a TOML file and Python all set."""

import math
import os
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from gape._support.values import as_toml, brief, converted, kind_in_words, nearest_name, toml_file
from gape.core.errors import InputError, PrivacyError, RunError
from gape.modalities import Modality, is_part, kind_named, modality, usual_modality
from gape.privacy.accounting import Neighbours

T = TypeVar("T")

# As their authors run them: 7 rephrasings of every sample, m = 2,000, T = 10, a start of 2m. AugPE keeps the selected
# among the candidates, SubsamplePE does not. What is not listed is as for GAPE, so that comparisons are fair.
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "gape": {},
    "augpe": {"selector": "ranking", "samples": 2000, "rounds": 10, "variation": "rephrase", "distinct": False},
    "subsamplepe": {
        "selector": "subsampling",
        "samples": 2000,
        "rounds": 10,
        "variation": "rephrase",
        "keep": False,
        "distinct": False,
    },
}
START = {"gape": 1, "augpe": 2, "subsamplepe": 2}  # the size of S(0), in multiples of m

CHOICES: Mapping[str, tuple[str, ...]] = {
    "neighbours": get_args(Neighbours),
    "preset": tuple(PRESETS),
    "variation": ("resample", "rephrase", "fill"),
    "selector": ("gape", "ranking", "subsampling", "kmedoids", "bounded-lipschitz"),
}
LOCAL, RAY = "local", "ray"
ENGINES = (LOCAL, RAY, f"{RAY}:ADDRESS")

# What the owner of the data agrees to. A file or a folder cannot agree: every process must be told again.
CONSENTS = frozenset({"private_text_may_leave", "exact_votes_may_leave", "corpus_may_share"})
_ANCHORED = ("data", "ledger", "key_file", "schema", "prompts", "generator", "embedder")  # which may hold a path
# May differ between the parts of one run: they change neither what is asked nor what is released.
OPERATIONAL = CONSENTS | frozenset(
    {"data", "ledger", "budget_epsilon", "labels_are_public"}
    | {"key_variable", "key_file", "embedder_key_variable", "concurrency", "timeout", "engine", "workers"}
    | {"prompt_price", "completion_price", "max_tokens_total", "max_cost"}
)


def _said(default: T, group: str, text: str) -> T:
    """Give a field its default, and what the help says of it."""
    return field(default=default, metadata={"group": group, "help": text})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a run is to do. All of it is public, none of it secret; make it by `Settings.of`.

    None stands for a value that follows from the others, by `runs.resolve.resolved`. Paths are taken from the folder
    that one is in.
    """

    data: str = _said(
        "",
        "Data",
        "The private texts: a .csv, .tsv, .jsonl, .txt or .parquet file, or a folder, or one of `gape embed`.",
    )
    text: str | None = _said(None, "Data", "Column of the texts; may be left out where there is only one.")
    modality: str | None = _said(
        None,
        "Data",
        "What a record is: text, rows of a table, or the name of an installed modality. Defaults to rows if there is a "
        "schema, else to text.",
    )
    schema: str | None = _said(
        None, "Data", "TOML file that describes the records: for rows, what each column of the table can hold."
    )
    label: str | None = _said(None, "Data", "Column of a label to be synthesised with every text.")
    labels: tuple[str, ...] | None = _said(
        None, "Data", "All labels that can occur, separated by commas: public knowledge, not read from the data."
    )
    labels_are_public: bool = _said(
        default=False, group="Data", text="Take the labels from the data: which ones occur is no secret."
    )
    user: str | None = _said(None, "Data", "Column with the user id. Protects all records of a user together.")

    epsilon: float | None = _said(None, "Privacy", "The guarantee: 1 is strong, 8 weak, inf no privacy at all.")
    delta: float | None = _said(
        None, "Privacy", "Delta. Defaults to 1 / (n ln n), where n, the number of records, is treated as public."
    )
    neighbours: str = _said("replace", "Privacy", "Neighbouring relation: replace one record, or add/remove one.")
    votes_per_record: int | None = _said(
        None,
        "Privacy",
        "Number of nearest candidates each record votes for. Noise grows with its square root. Defaults to 1; for GAPE "
        "with threshold auto and a model that writes, to between 2 and 64, more where there is more noise.",
    )
    votes_per_unit: int | None = _said(None, "Privacy", "Most votes of one user in a round; by default of one record.")
    ledger: str | None = _said(None, "Privacy", "File of what the data has spent. Defaults to DATA.gape-ledger.sqlite.")
    budget_epsilon: float | None = _said(
        None, "Privacy", "What all runs on the data may spend together; by default what its first run needs."
    )

    preset: str = _said("gape", "Evolution", "A method as its authors run it; whatever else is set overrides it.")
    samples: int | None = _said(None, "Evolution", "Texts to make (m); by default as many as the votes can tell apart.")
    rounds: int = _said(6, "Evolution", "How often to vote (T); for tables 20.")
    initial: int | None = _said(
        None, "Evolution", "Texts to start with. Defaults to the candidates of a round, or with vary_start to samples."
    )
    vary_start: bool | None = _said(
        None, "Evolution", "Vary the start before the first vote. Off by default where GAPE keeps texts distinct."
    )
    variation: str | None = _said(
        None, "Evolution", "How texts are varied; by default resample where the model can, else rephrase."
    )
    scales: tuple[float, ...] | None = _said(
        None, "Evolution", "How far variations go, separated by commas: the share rewritten, or the temperature."
    )
    copies: int | None = _said(None, "Evolution", "Variations of every text at every scale.")
    keep: bool = _said(default=True, group="Evolution", text="Whether a text competes with its variations.")
    seed: int = _said(0, "Evolution", "Random seed for everything except the noise, which is never seeded.")

    generator: str = _said(
        "embedded", "Generator", "What writes: embedded, openai:MODEL, hf:MODEL, or corpus:FILE of public texts."
    )
    domain: str | None = _said(None, "Generator", 'What the texts are, such as "customer reviews of kitchen tools".')
    topics: tuple[str, ...] | None = _said(
        None,
        "Generator",
        "Topics of the texts, separated by commas. With a domain, they default to what the model names.",
    )
    words: int | None = _said(None, "Generator", "About how long a text is.")
    prompts: str | None = _said(None, "Generator", "Prompts: forum, generic, pubmed, reddit, yelp, or a TOML file.")
    temperature: float = _said(
        1.0, "Generator", "Sampling temperature. Ignored where the variation scale already sets it."
    )
    corpus_text: str | None = _said(None, "Generator", "Column of the texts of corpus:FILE.")
    base_url: str = _said("https://api.openai.com/v1", "Generator", "Where openai:MODEL is served.")
    key_variable: str = _said("OPENAI_API_KEY", "Generator", "The environment variable that holds its key.")
    key_file: str | None = _said(None, "Generator", "A file of mode 0600 that holds its key, instead of the variable.")
    concurrency: int = _said(16, "Generator", "Requests in flight.")
    timeout: float = _said(120.0, "Generator", "Seconds until a request is given up and sent again.")
    prompt_price: float = _said(0.0, "Generator", "For a million tokens read.")
    completion_price: float = _said(0.0, "Generator", "For a million tokens written.")
    max_tokens_total: int | None = _said(None, "Generator", "Cap on the tokens of what writes; the run stops before.")
    max_cost: float | None = _said(None, "Generator", "Cap on what they cost, in the currency of the prices.")
    exact_votes_may_leave: bool = _said(
        default=False,
        group="Generator",
        text="The owner of the data agrees that a service that writes is asked to vary texts chosen by votes without "
        "privacy: with epsilon inf and in `gape compare`. Never stored.",
    )
    corpus_may_share: bool = _said(
        default=False,
        group="Generator",
        text="The owner of the data agrees that records which the corpus holds too are published. Never stored.",
    )

    embedder: str = _said("minilm", "Embedder", "What compares texts: minilm or st:MODEL, both here, or openai:MODEL.")
    embedder_base_url: str | None = _said(None, "Embedder", "Where it is served; by default as the generator.")
    embedder_key_variable: str | None = _said(None, "Embedder", "Its key; by default that of the generator.")
    private_text_may_leave: bool = _said(
        default=False,
        group="Embedder",
        text="The owner of the data agrees that every private text is sent to the embedding service. Never stored.",
    )

    selector: str = _said("gape", "Selection", "Which rule picks the survivors.")
    separation: float | None = _said(
        None,
        "Selection",
        "GAPE's R, which truncates distances at R/3. By default there is none: text embeddings are at most 2 apart, "
        "and on 4,400 abstracts with 200 samples the paper's rule gave an R/3 of 3.4 or more, which truncates nothing.",
    )
    threshold: float | str = _said(
        "auto",
        "Selection",
        "Noisy votes that GAPE asks of a survivor: a number of sigmas, paper (Algorithm 4), or auto: one sigma, lowered"
        " until 2m candidates qualify. With auto, half of the survivors are found by local search, and the others have "
        "the most votes near each of these; in a corpus votes are estimated first, and all survivors are searched for.",
    )
    signed: bool = _said(
        default=False,
        group="Selection",
        text="Let negative noisy votes cancel positive ones near them, as the paper's objective has it; without, they "
        "count as zero, which came nearer to the data under much noise.",
    )
    distinct: bool = _said(
        default=True,
        group="Selection",
        text="Keep near copies out: of texts that share eight words in a row or their first five, GAPE selects one, "
        "and rewrites before release what still repeats another. Costs no privacy.",
    )

    engine: str = _said(
        LOCAL,
        "Engine",
        "Who reads, votes and writes in `gape run`: local for this process, ray for workers of a Ray cluster on this "
        "machine, ray:ADDRESS for those of one that runs.",
    )
    workers: int | None = _said(None, "Engine", "Number of Ray workers. Defaults to one per core of the cluster.")

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for each in fields(self):
            value = getattr(self, each.name)
            try:
                object.__setattr__(self, each.name, converted(value, hints[each.name]))
            except (TypeError, OverflowError):
                raise InputError(f"{each.name} must be {kind_in_words(hints[each.name])}, got {brief(value)}") from None
            if each.name in CHOICES and value is not None and value not in CHOICES[each.name]:
                near = f"; did you mean {nearest_name(value, CHOICES[each.name])!r}?"
                raise InputError(
                    f"{each.name} must be one of {', '.join(CHOICES[each.name])}, got {brief(value)}{near}"
                )
        if self.modality is None:
            object.__setattr__(self, "modality", usual_modality(self.schema))
        self._check_modality()
        self._check_numbers()
        self._check_threshold()
        self._check_engine()

    @property
    def on_ray(self) -> bool:
        """Whether the workers of a Ray cluster read the data, vote and write."""
        return self.engine != LOCAL

    @classmethod
    def of(cls, *layers: Mapping[str, Any]) -> "Settings":
        """Join layers of values: later ones override earlier ones, and all of them the preset named.

        A value of None says nothing. Unknown names are refused.
        """
        values: dict[str, Any] = {}
        for layer in layers:
            refuse_unknown(layer)
            values |= {name: value for name, value in layer.items() if value is not None}
        preset = values.get("preset", "gape")
        usual = dict(PRESETS.get(preset, {}) if isinstance(preset, str) else {})
        kind = kind_named(str(values.setdefault("modality", usual_modality(values.get("schema")))))
        usual = {**kind.defaults, **{name: value for name, value in usual.items() if name not in kind.unused}}
        return cls(**{**usual, **values})

    @property
    def records(self) -> Modality:
        """The modality, with its schema."""
        return modality(str(self.modality), self.schema)

    @property
    def kind(self) -> type[Modality]:
        """The modality, without its schema."""
        return kind_named(str(self.modality))

    def with_values(self, **values: Any) -> "Settings":
        """Return these settings with some changed."""
        refuse_unknown(values)
        return replace(self, **values)

    def anchored(self) -> "Settings":
        """Return these settings with whole paths, which mean the same from any folder.

        Links to the data and its ledger are followed: one dataset has one ledger, whatever it is called by.
        """
        return self.with_values(**{name: anchored(name, getattr(self, name)) for name in _ANCHORED})

    def as_toml(self) -> str:
        """Write all settings but consent as TOML, which `read_toml` reads back; what is None is left out."""
        lines, group = [], ""
        for each in fields(self):
            value = getattr(self, each.name)
            if value is None or each.name in CONSENTS:
                continue
            if each.metadata["group"] != group:
                group = each.metadata["group"]
                lines += ["", f"# {group}"]
            lines.append(f"{each.name} = {as_toml(value)}")
        return "\n".join(lines[1:]) + "\n"

    def _check_numbers(self) -> None:
        counted = ("samples", "rounds", "initial", "copies", "votes_per_unit", "votes_per_record")
        for name in (*counted, "words", "concurrency", "workers"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1, got {value}")
        for name in ("epsilon", "budget_epsilon", "separation"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                remedy = "; use inf for a run without privacy" if "epsilon" in name else "; leave it out for none"
                raise InputError(f"{name} must be positive, got {value:g}{remedy}")
        if self.seed < 0:
            raise InputError(f"seed must not be negative, got {self.seed}")
        if not 0 <= self.temperature <= 10:
            raise InputError(f"temperature must lie between 0 and 10, got {self.temperature:g}")
        if self.votes_per_unit is not None and self.votes_per_unit != (self.votes_per_record or 1) and not self.user:
            raise InputError(
                f"a record casts {self.votes_per_record or 1} votes, got votes_per_unit {self.votes_per_unit}; name a "
                "user column, or set votes_per_record alone"
            )
        if self.budget_epsilon is not None and self.epsilon is not None and self.budget_epsilon < self.epsilon:
            raise InputError(
                f"budget_epsilon must be at least epsilon, {self.epsilon:g}, got {self.budget_epsilon:g}; raise the "
                "budget of the data or lower the epsilon of the run"
            )
        if self.label is None and (self.labels is not None or self.labels_are_public):
            raise InputError("labels are given but no column for them; name it as label")

    def _check_threshold(self) -> None:
        if self.threshold in {"auto", "paper"}:
            return
        try:
            sigmas = float(self.threshold)
        except ValueError:
            sigmas = math.nan
        if not 0 <= sigmas < math.inf:
            said = f"threshold must be auto, paper or a number of sigmas, at least 0, got {brief(self.threshold)}"
            raise InputError(said)
        object.__setattr__(self, "threshold", sigmas)

    def _check_engine(self) -> None:
        kind, colon, address = self.engine.partition(":")
        if self.engine != LOCAL and (kind != RAY or bool(colon) != bool(address)):
            raise InputError(f"engine must be one of {', '.join(ENGINES)}, got {brief(self.engine)}")
        if self.on_ray and self.label is not None and self.labels is None:
            raise InputError(
                f"with engine {brief(self.engine)} the data is read by the workers alone; list the labels that can "
                "occur as labels"
            )

    def _check_modality(self) -> None:
        kind = self.kind
        for name in kind.unused:
            if (value := getattr(self, name)) is not None:
                raise InputError(f"{name} has no meaning for {kind.nouns}, got {brief(value)}; leave it out")
        for part, forms in (("generator", kind.writers()), ("embedder", kind.comparers())):
            spec = getattr(self, part)
            head = spec.partition(":")[0]
            if head not in {form.partition(":")[0] for form in forms} and is_part(head):
                known = ", ".join(forms) or "your own, in Python"
                raise InputError(f"the {part} {brief(spec)} is not for {kind.nouns}; use {known}")
        if self.on_ray and not kind.on_workers:
            raise InputError(
                f"{kind.nouns} are read by this process, not with engine {brief(self.engine)}; leave it out"
            )
        kind.refuse(self.scales)


def read_toml(path: str | Path) -> dict[str, Any]:
    """Read values for `Settings.of` from a TOML file of the user's."""
    values = toml_file(path, "the settings")
    refuse_unknown(values, f" in {path}")
    for name in sorted(CONSENTS & set(values)):
        if values.pop(name) is not False:
            said = f"{name} in {path} is consent, which a file cannot give"
            raise PrivacyError(f"{said}; remove it, and say --{name.replace('_', '-')}")
    return values


def read_stored_toml(path: str | Path) -> dict[str, Any]:
    """Read values for `Settings.of` as a run folder keeps them; consent that an older version has stored is none."""
    values = toml_file(path, "the settings")
    refuse_unknown(values, f" in {path}")
    if values.get("separation") == "private-kmeans":
        raise RunError(
            f"{path} is of an older version and NOT PRIVATE, because its run computes a separation from the private "
            "data; do not publish its output, and start a new run with a number, or none, in another folder"
        )
    return {name: value for name, value in values.items() if name not in CONSENTS}


def settings_fields() -> tuple[Field[Any], ...]:
    """All choices there are, in order."""
    return fields(Settings)


def refuse_unknown(values: Mapping[str, Any], where: str = "") -> None:
    """Refuse names that are no settings, naming the nearest that is one."""
    known = [each.name for each in fields(Settings)]
    for name in values:
        if name not in known:
            raise InputError(f"there is no setting {brief(name)}{where}; did you mean {nearest_name(name, known)!r}?")


def anchored(name: str, value: Any) -> Any:
    """Return the value of a setting with the whole path of what is a file or a folder; other values as they are."""
    if not value or name not in _ANCHORED or value == ":memory:":
        return value
    if name in {"data", "ledger"}:
        return os.path.realpath(value)  # which ends even where links go in circles
    kind, colon, file = str(value).partition(":")
    if name in {"generator", "embedder"}:
        is_path = kind == "corpus" or (kind in {"hf", "st"} and Path(file).exists())
        return f"{kind}{colon}{Path(file).absolute()}" if is_path else value
    return value if name == "prompts" and not value.endswith(".toml") else str(Path(value).absolute())
