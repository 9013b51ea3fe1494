"""Settings as flags: a command that takes settings has a flag for each of them, named as in the TOML file."""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, cast, get_args, get_origin, get_type_hints

import typer

from gape.core.errors import InputError
from gape.runs.settings import CHOICES, Settings, settings_fields
from gape.runs.settings_file import read_toml

_KIND = inspect.Parameter.KEYWORD_ONLY
_PLAIN = (str, int, float, bool)
# Flags that also have a --no- form, because they are on by default or can be.
_SHOWN = {
    name: f"--{name.replace('_', '-')}/--no-{name.replace('_', '-')}"
    for name in ("keep", "distinct", "vary_start", "bare_prompts")
}


def takes_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the argument DATA, a flag for each setting, and --settings for a file of settings.

    The command receives the merged settings as its first argument. Flags override the file, and the file overrides
    the preset.
    """
    file_help = "TOML file with settings, named like these flags. Flags override it."
    file = _parameter("settings", Annotated[Path | None, typer.Option(help=file_help)])
    return _with(command, [field.name for field in settings_fields()[1:]], [file])


def takes_some_settings(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the argument DATA and flags for the named settings only."""
    return lambda command: _with(command, names, [])


def takes_changes(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command on a run flags for the named settings. It receives those that are given as `changes`."""
    hints = get_type_hints(Settings)
    fields = {field.name: field for field in settings_fields()}
    flags = [_flag(name, hints[name], fields[name].metadata, None) for name in names]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = [parameter for name, parameter in inspect.signature(command).parameters.items() if name != "changes"]

        def wrapped(**given: Any) -> None:
            changes = {name: given.pop(name) for name in names}
            command(**given, changes={name: value for name, value in changes.items() if value is not None})

        return _typed(wrapped, command, [*(parameter.replace(kind=_KIND) for parameter in own), *flags])

    return decorate


def _typed(wrapped: Any, command: Callable[..., None], parameters: list[inspect.Parameter]) -> Callable[..., None]:
    """Give a function the name, docstring and parameters that typer reads."""
    wrapped.__doc__, wrapped.__name__ = command.__doc__, command.__name__
    wrapped.__signature__ = inspect.Signature(parameters)
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return cast(Callable[..., None], wrapped)


def _with(command: Callable[..., None], names: Sequence[str], more: Sequence[inspect.Parameter]) -> Callable[..., None]:
    own = [parameter.replace(kind=_KIND) for parameter in inspect.signature(command).parameters.values()][1:]
    hints = get_type_hints(Settings)
    data, *others = settings_fields()
    parameters = [
        _parameter("data", Annotated[str | None, typer.Argument(help=data.metadata["help"])]),
        *(
            _flag(field.name, hints[field.name], field.metadata, field.default)
            for field in others
            if field.name in names
        ),
        *more,
    ]

    def wrapped(**given: Any) -> None:
        file = given.pop("settings", None)
        arguments = {parameter.name: given.pop(parameter.name) for parameter in own}
        values = {name: _parsed(name, value, hints[name]) for name, value in given.items()}
        command(Settings.of(read_toml(file) if file else {}, values), **arguments)

    return _typed(wrapped, command, [parameters[0], *own, *parameters[1:]])


def _flag(name: str, kind: Any, metadata: Any, default: Any) -> inspect.Parameter:
    text = metadata["help"]
    if default not in (None, False, "") and not isinstance(default, bool):
        shown = f"{default:g}" if isinstance(default, float) else default
        text = f"{text} (default {shown})"
    options = {"help": text, "rich_help_panel": metadata["group"], "show_default": False}
    names = [_SHOWN[name]] if name in _SHOWN else [f"--{name.replace('_', '-')}"]
    return _parameter(name, Annotated[_type(name, kind), typer.Option(*names, **options)])


def _type(name: str, kind: Any) -> Any:
    """Return the type that typer parses a flag as. Lists are given as one string."""
    if name in CHOICES:
        return Literal[CHOICES[name]] | None
    plain = [option for option in (get_args(kind) if isinstance(kind, UnionType) else (kind,)) if option in _PLAIN]
    return (plain[-1] if plain else str) | None


def _parsed(name: str, value: Any, kind: Any) -> Any:
    is_list = any(get_origin(option) is tuple for option in get_args(kind))
    if value is None or not is_list:
        return value
    parts = [part.strip() for part in value.split(",") if part.strip()]
    if name != "scales":
        return parts
    try:
        return [float(part) for part in parts]
    except ValueError:
        raise InputError(f"{name} must be numbers separated by commas, got {value!r}") from None


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, _KIND, default=None, annotation=annotation)
