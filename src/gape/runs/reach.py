"""Settings that make a command reach outside a run folder: files, addresses, keys and machines.

If someone else wrote the folder, such settings are not trusted. They are followed only if the user gives them again,
and the error names what the folder asked for.
"""

from collections.abc import Collection, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, TypeAlias

from gape._support.values import brief
from gape.core.errors import PrivacyError
from gape.language.locate import KINDS, reaches_outside
from gape.runs.checks import LOCAL
from gape.runs.settings import Settings

Use: TypeAlias = Literal["generator", "embedder", "data", "ledger", "engine"]

_DEFAULTS = {setting.name: setting.default for setting in fields(Settings)}

# Settings that can reach outside; generator and embedder only in some of their forms.
OUTSIDE = (
    *("data", "ledger", "generator", "also", "prompts", "base_url", "key_variable", "key_file"),
    *("painter", "painter_base_url", "painter_key_variable"),
    *("embedder", "embedder_base_url", "embedder_key_variable", "engine"),
)
# Those that can be reset if they are not used, without changing the meaning of the others.
_RESET = frozenset(OUTSIDE) - {"generator", "also", "painter", "embedder", "prompts"}


def reaching(settings: Settings, uses: Collection[Use]) -> list[str]:
    """Name the settings by which these uses reach outside."""
    names: list[str] = []
    if "generator" in uses:
        names += _by_generator(settings)
    if "embedder" in uses:
        names += _by_embedder(settings)
    if "data" in uses and settings.data:
        names.append("data")
    if "ledger" in uses and settings.ledger is not None:
        names.append("ledger")
    if "engine" in uses and settings.engine != LOCAL:
        names.append("engine")
    return list(dict.fromkeys(names))


def confined(folder: Path, stored: Settings, given: Mapping[str, Any], uses: Collection[Use]) -> Settings:
    """Merge the settings of someone else's folder with the user's, and refuse those that would reach outside."""
    settings = stored.with_values(**given)
    if wanted := [name for name in reaching(settings, uses) if name not in given]:
        values = ", ".join(f"{name} {brief(getattr(settings, name))}" for name in wanted)
        flags = " ".join(f"--{name.replace('_', '-')}" for name in wanted)
        raise PrivacyError(
            f"{folder} was not written by you on this machine, so its {values} is not followed; check it, and give "
            f"the right value as {flags}"
        )
    unused = _RESET - set(given) - set(reaching(settings, uses))
    return settings.with_values(**{name: _DEFAULTS[name] for name in unused})


def _by_generator(settings: Settings) -> list[str]:
    name = settings.generator.partition(":")[2]
    prompts = ["prompts"] if settings.prompts is not None and settings.prompts.endswith(".toml") else []
    painter = [*(["also"] if any(map(_leads_outside, settings.also or ())) else []), *_by_painter(settings)]
    if settings.generator in settings.services:
        return ["base_url", *_key(settings), *prompts, *painter]
    outside = bool(name) if settings.own_generator else _leads_outside(settings.generator)
    return [*(["generator"] if outside else []), *prompts, *painter]


def _leads_outside(spec: str) -> bool:
    """Whether a model is named that is not in the catalogue, whose content is known."""
    kind, _, name = spec.partition(":")
    return bool(name) and (kind not in KINDS or reaches_outside(name))


def _by_painter(settings: Settings) -> list[str]:
    if settings.painter is None or settings.draws is None:
        return [] if settings.painter is None else ["painter"]
    address = "painter_base_url" if settings.painter_base_url is not None else "base_url"
    return [address, *(["painter_key_variable"] if settings.painter_key_variable is not None else _key(settings))]


def _by_embedder(settings: Settings) -> list[str]:
    kind = settings.embedder.partition(":")[0]
    if kind != "openai":
        return ["embedder"] if ":" in settings.embedder else []
    address = "embedder_base_url" if settings.embedder_base_url is not None else "base_url"
    return [address, *(["embedder_key_variable"] if settings.embedder_key_variable is not None else _key(settings))]


def _key(settings: Settings) -> list[str]:
    if settings.key_file is not None:
        return ["key_file"]
    return [] if settings.key_variable == _DEFAULTS["key_variable"] else ["key_variable"]
