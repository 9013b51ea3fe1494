"""The settings of a run as plain values. The command line, TOML files and Python all set the same ones."""

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, TypeVar, get_args, get_type_hints

from gape._support.values import as_toml, brief, converted, kind_in_words, nearest_name
from gape.core.errors import InputError
from gape.language.spending import SHARE_OF_PRICE
from gape.modalities import Modality, kind_named, modality, usual_modality
from gape.privacy.accounting import Neighbours
from gape.runs.checks import LOCAL, check_also, check_engine, check_modality, check_numbers, check_paper
from gape.runs.paths import WITH_PATHS, anchored
from gape.runs.presets import PRESETS, survey_defaults

T = TypeVar("T")

CHOICES: Mapping[str, tuple[str, ...]] = {
    "neighbours": get_args(Neighbours),
    "preset": tuple(PRESETS),
    "variation": ("resample", "rephrase"),
    "selector": ("gape", "gape-paper", "ranking", "subsampling"),
}
# Settings of earlier versions that are left to Python, with the value that the default rule still has.
RETIRED: Mapping[str, Any] = {"threshold": "auto", "signed": False}

# Consent of the data owner. A file or a folder cannot give it: each process must be told again.
CONSENTS = frozenset({"private_text_may_leave", "exact_votes_may_leave", "corpus_may_share"})
# May differ when a run is resumed, because they change neither the requests nor the releases.
OPERATIONAL = CONSENTS | frozenset(
    {"data", "ledger", "budget_epsilon", "labels_are_public"}
    | {
        "key_variable",
        "key_file",
        "embedder_key_variable",
        "painter_key_variable",
        "concurrency",
        "timeout",
        "engine",
        "workers",
    }
    | {"prompt_price", "completion_price", "embedding_price", "image_price"}
    | {"max_tokens_total", "max_cost", "max_images"}
)


def _setting(default: T, group: str, text: str) -> T:
    """Declare a setting: its default, its group of flags, and its help text."""
    return field(default=default, metadata={"group": group, "help": text})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a run should do. All settings are public. Create them with `Settings.of`.

    None stands for a value that follows from the others (`runs.resolve.resolved`). Relative paths start at the working
    directory.
    """

    data: str = _setting(
        "",
        "Data",
        "The private data: a .csv, .tsv, .jsonl, .txt or .parquet file, a folder, or a folder written by `gape embed`.",
    )
    text: str | None = _setting(None, "Data", "Column with the texts. May be left out if there is only one column.")
    modality: str | None = _setting(
        None,
        "Data",
        "What a record is: text, rows of a table, mixed for rows with texts, images, or an installed modality. By "
        "default the schema decides; text if there is none.",
    )
    schema: str | None = _setting(
        None,
        "Data",
        "TOML file that describes the records: for rows, the values of each column. `gape schema` drafts one.",
    )
    label: str | None = _setting(
        None, "Data", "Strict column of labels or choices: records vote only for samples with their own value."
    )
    labels: tuple[str, ...] | None = _setting(
        None, "Data", "All possible labels, separated by commas. They are public and not read from the data."
    )
    labels_are_public: bool = _setting(
        default=False, group="Data", text="Read the possible labels from the data, because they are public."
    )
    user: str | None = _setting(None, "Data", "Column with the user id. Protects all records of a user together.")

    epsilon: float | None = _setting(
        None, "Privacy", "Epsilon of the privacy guarantee: 1 is strong, 8 is weak, inf gives no privacy."
    )
    delta: float | None = _setting(
        None, "Privacy", "Delta. Defaults to 1 / (n ln n), where n, the number of records, is treated as public."
    )
    neighbours: str = _setting("replace", "Privacy", "Neighbouring relation: replace one record, or add/remove one.")
    votes_per_record: int | None = _setting(
        None,
        "Privacy",
        "Number of nearest candidates each record votes for. Noise grows with its square root. Defaults to 1. With the "
        "selector gape the default follows the noise, up to 64, or up to 8 with a corpus.",
    )
    votes_per_unit: int | None = _setting(
        None, "Privacy", "Maximum number of votes per user and round. Defaults to the votes of one record."
    )
    ledger: str | None = _setting(
        None, "Privacy", "File that records what the data has spent. Defaults to DATA.gape-ledger.sqlite."
    )
    budget_epsilon: float | None = _setting(
        None, "Privacy", "Privacy budget of all runs on the data together. Defaults to the epsilon of the first run."
    )

    preset: str = _setting(
        "gape",
        "Evolution",
        "Method, with its settings; other flags override them. gape is this package's variant of the paper's GAPE; "
        "gape-paper, augpe and subsamplepe are the published methods.",
    )
    samples: int | None = _setting(
        None, "Evolution", "Number of synthetic records (m). Defaults to as many as one vote per record can tell apart."
    )
    rounds: int = _setting(6, "Evolution", "Voting rounds (T). Tables: 0 with a survey, else 20.")
    survey: float = _setting(
        0.0,
        "Evolution",
        "Share of the privacy budget for a survey before the first round. Texts: the answers decide the topics of the "
        "initial texts. Tables: 1 by default, without rounds; the rows are made to fit the answers.",
    )
    initial: int | None = _setting(
        None,
        "Evolution",
        "Number of initial texts. Defaults to the number of candidates of a round, or to --samples with --vary-start.",
    )
    vary_start: bool | None = _setting(
        None, "Evolution", "Vary the initial texts before the first vote. Off by default if texts are kept distinct."
    )
    variation: str | None = _setting(
        None,
        "Evolution",
        "How texts are varied. Defaults to resample if the model can continue a text, else to rephrase.",
    )
    scales: tuple[float, ...] | None = _setting(
        None,
        "Evolution",
        "Strength of the variations, separated by commas: share of the text rewritten, or sampling temperature.",
    )
    copies: int | None = _setting(None, "Evolution", "Number of variations of each text at each scale.")
    keep: bool = _setting(default=True, group="Evolution", text="Let each text compete with its variations.")
    seed: int = _setting(0, "Evolution", "Random seed for everything except the noise, which is never seeded.")

    generator: str = _setting(
        "embedded",
        "Generator",
        "Source of candidates: embedded, embedded:MODEL, openvino, openvino:MODEL, openai:MODEL, hf:MODEL, or "
        "corpus:FILE with public texts. For images: fonts, fonts:FOLDER, onnx:FILE, openvino:FILE, diffusers:MODEL, "
        "openai-images:MODEL or corpus:FOLDER.",
    )
    also: tuple[str, ...] | None = _setting(
        None,
        "Generator",
        "Further models on this machine that write texts, separated by commas: embedded:MODEL, openvino:MODEL or "
        "hf:MODEL. The start is shared equally; then a model writes more if the noisy votes prefer its texts.",
    )
    painter: str | None = _setting(
        None,
        "Generator",
        "For images: the generator writes captions, and this model draws them: diffusers:MODEL or openai-images:MODEL.",
    )
    domain: str | None = _setting(
        None, "Generator", 'Description of the texts, such as "customer reviews of kitchen tools".'
    )
    topics: tuple[str, ...] | None = _setting(
        None,
        "Generator",
        "Topics of the initial texts, separated by commas. With a domain, the model is asked for them by default.",
    )
    words: int | None = _setting(None, "Generator", "Approximate number of words of a text.")
    prompts: str | None = _setting(None, "Generator", "Prompts: forum, generic, pubmed, reddit, yelp, or a TOML file.")
    bare_prompts: bool = _setting(
        default=False,
        group="Generator",
        text="Use the prompts as the paper does: no topic, no given opening, and no quotes around samples.",
    )
    temperature: float = _setting(1.0, "Generator", "Sampling temperature. Ignored where the variation scale sets it.")
    corpus_text: str | None = _setting(None, "Generator", "Column with the texts of corpus:FILE.")
    base_url: str = _setting("https://api.openai.com/v1", "Generator", "Address of the service for openai:MODEL.")
    key_variable: str = _setting("OPENAI_API_KEY", "Generator", "Environment variable with the key of the service.")
    key_file: str | None = _setting(None, "Generator", "File of mode 0600 with the key, instead of a variable.")
    painter_base_url: str | None = _setting(
        None, "Generator", "Address of the service that draws. Defaults to that of the generator."
    )
    painter_key_variable: str | None = _setting(
        None, "Generator", "Environment variable with its key. Defaults to that of the generator."
    )
    api_version: str | None = _setting(None, "Generator", "API version, for Azure OpenAI only, such as 2024-10-21.")
    concurrency: int = _setting(16, "Generator", "Number of concurrent requests.")
    timeout: float = _setting(120.0, "Generator", "Seconds after which a request is sent again.")
    batch: bool = _setting(
        default=False,
        group="Generator",
        text="Use the Batch API of openai:MODEL: half the price, but up to a day per batch. A run that is stopped "
        "meanwhile resumes with the answers.",
    )
    prompt_price: float = _setting(0.0, "Generator", "Price of a million input tokens, without --batch.")
    completion_price: float = _setting(0.0, "Generator", "Price of a million output tokens, without --batch.")
    max_tokens_total: int | None = _setting(
        None,
        "Generator",
        "Maximum number of tokens of the services, embeddings included. The run stops before it exceeds them.",
    )
    max_cost: float | None = _setting(
        None, "Generator", "Maximum cost of tokens and images, in the currency of the prices."
    )
    image_price: float = _setting(0.0, "Generator", "Price of one image of openai-images:MODEL.")
    max_images: int | None = _setting(
        None, "Generator", "Maximum number of images that openai-images:MODEL is asked for, retries included."
    )
    exact_votes_may_leave: bool = _setting(
        default=False,
        group="Generator",
        text="Consent of the data owner: the service may see texts chosen by votes without privacy, with epsilon inf "
        "and in `gape compare`. Never stored.",
    )
    corpus_may_share: bool = _setting(
        default=False,
        group="Generator",
        text="Consent of the data owner: private records that are also in the corpus may be published. Never stored.",
    )

    embedder: str = _setting(
        "minilm",
        "Embedder",
        "Model that compares texts: minilm or st:MODEL on this machine, or openai:MODEL. For images: pixels, "
        "inception, clip:MODEL, hf:MODEL or timm:MODEL.",
    )
    embedder_base_url: str | None = _setting(
        None, "Embedder", "Address of the embedding service. Defaults to that of the generator."
    )
    embedder_key_variable: str | None = _setting(
        None, "Embedder", "Environment variable with its key. Defaults to that of the generator."
    )
    embedding_price: float = _setting(0.0, "Embedder", "Price of a million tokens of the embedding service.")
    private_text_may_leave: bool = _setting(
        default=False,
        group="Embedder",
        text="Consent of the data owner: every private text may be sent to the embedding service. Never stored.",
    )

    selector: str = _setting(
        "gape",
        "Selection",
        "Selection rule: gape (a variant of the paper's, for practical sizes), gape-paper (Algorithms 4 and 5 as "
        "printed), ranking (AugPE) or subsampling (SubsamplePE).",
    )
    separation: float | None = _setting(
        None,
        "Selection",
        "The paper's R: distances are truncated at R/3. Required by gape-paper; compute it on public data "
        "(gape.paper_separation). For gape there is none by default.",
    )
    distinct: bool = _setting(
        default=True,
        group="Selection",
        text="Avoid near copies: texts that share eight consecutive words or their first five. The selector gape keeps "
        "one of them, and texts that still repeat another are rewritten before release. Costs no privacy.",
    )

    engine: str = _setting(
        LOCAL,
        "Engine",
        "Where `gape run` reads, votes and writes: local for this process, ray for a new Ray cluster on this machine, "
        "ray:ADDRESS for a running cluster.",
    )
    workers: int | None = _setting(None, "Engine", "Number of Ray workers. Defaults to one per core of the cluster.")

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        if isinstance(self.survey, bool):  # as older versions have it
            object.__setattr__(self, "survey", float(self.survey))
        for name, kind in ((setting.name, hints[setting.name]) for setting in fields(self)):
            value = getattr(self, name)
            try:
                object.__setattr__(self, name, converted(value, kind))
            except (TypeError, OverflowError):
                raise InputError(f"{name} must be {kind_in_words(kind)}, got {brief(value)}") from None
            if name in CHOICES and value is not None and value not in CHOICES[name]:
                near = f"; did you mean {nearest_name(value, CHOICES[name])!r}?"
                raise InputError(f"{name} must be one of {', '.join(CHOICES[name])}, got {brief(value)}{near}")
        if self.modality is None:
            object.__setattr__(self, "modality", usual_modality(self.schema))
        check_modality(self)
        check_numbers(self)
        check_paper(self)
        check_engine(self)
        check_also(self)

    @property
    def on_ray(self) -> bool:
        """Whether the workers of a Ray cluster read the data, vote and write."""
        return self.engine != LOCAL

    @property
    def services(self) -> tuple[str, ...]:
        """The hosted models that write or draw."""
        parts = self.generator, self.painter or ""
        return tuple(part for part in parts if part.startswith("openai:") or part == self.draws)

    @property
    def draws(self) -> str | None:
        """The hosted model of the modality that makes records, such as images, if there is one."""
        kinds = {form.partition(":")[0] for form in self.kind.services}
        parts = self.generator, self.painter or ""
        return next((part for part in parts if part.partition(":")[0] in kinds), None)

    @property
    def own_generator(self) -> bool:
        """Whether the modality itself makes the generator."""
        return self.painter is None and self.kind.owns(self.generator)

    @property
    def writers(self) -> tuple[str, ...]:
        """All possible generators: with a painter, those that write captions."""
        return self.kind.writers() if self.painter is None else self.kind.captioners

    @property
    def prices(self) -> tuple[float, float]:
        """The prices of a million input and output tokens, which are lower in batches."""
        share = SHARE_OF_PRICE if self.batch else 1.0
        return share * self.prompt_price, share * self.completion_price

    @classmethod
    def of(cls, *layers: Mapping[str, Any]) -> "Settings":
        """Merge layers of values: later layers override earlier ones, and all of them override the preset.

        None means not given. Unknown names are refused.
        """
        values: dict[str, Any] = {}
        for layer in layers:
            refuse_unknown(layer)
            values |= {name: value for name, value in layer.items() if value is not None}
        preset = values.get("preset", "gape")
        usual = dict(PRESETS.get(preset, {}) if isinstance(preset, str) else {})
        if "modality" not in values:
            values["modality"] = usual_modality(values.get("schema"))
        kind = kind_named(str(values["modality"]))
        painted = bool(values.get("painter"))
        usual = {name: value for name, value in usual.items() if painted or name not in kind.unused}
        usual = {**kind.defaults, **usual, **(kind.captioned if painted else {})}
        return cls(**{**usual, **survey_defaults(kind, usual, values), **values})

    @property
    def records(self) -> Modality:
        """The modality, with its schema."""
        return modality(str(self.modality), self.schema)

    @property
    def kind(self) -> type[Modality]:
        """The modality, without its schema."""
        return kind_named(str(self.modality))

    def with_values(self, **values: Any) -> "Settings":
        """Return these settings with some values changed."""
        refuse_unknown(values)
        return replace(self, **values)

    def anchored(self) -> "Settings":
        """Return these settings with absolute paths.

        Links to the data and its ledger are followed: a dataset has one ledger, whatever name it is given by.
        """
        return self.with_values(**{name: anchored(name, getattr(self, name)) for name in WITH_PATHS})

    def as_toml(self) -> str:
        """Return all settings except consent as TOML for `read_toml`. Values of None are left out."""
        lines, group = [], ""
        for setting in fields(self):
            value = getattr(self, setting.name)
            if value is None or setting.name in CONSENTS:
                continue
            if setting.metadata["group"] != group:
                group = setting.metadata["group"]
                lines += ["", f"# {group}"]
            lines.append(f"{setting.name} = {as_toml(value)}")
        return "\n".join(lines[1:]) + "\n"


def settings_fields() -> tuple[Field[Any], ...]:
    """Return the fields of all settings, in order."""
    return fields(Settings)


def refuse_unknown(values: Mapping[str, Any], where: str = "") -> None:
    """Refuse names that are not settings, and suggest the most similar one."""
    known = [setting.name for setting in fields(Settings)]
    for name in values:
        if name in RETIRED:
            raise InputError(
                f"{name}{where} is no longer a setting; remove it, or construct gape.Gape in Python for another rule"
            )
        if name not in known:
            raise InputError(f"there is no setting {brief(name)}{where}; did you mean {nearest_name(name, known)!r}?")
