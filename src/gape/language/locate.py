"""The file of a model inside this process, by what follows `embedded:` or `openvino:` in the settings."""

from pathlib import Path

from gape.core.errors import InputError, ServiceError, in_one_line
from gape.language.catalogue import listed
from gape.language.weights import SMOLLM2, Weights, fetch

HUB = "hub:"
KINDS = ("embedded", "openvino")  # generators whose models are found here
_SUFFIX = ".gguf"


def reaches_outside(name: str) -> bool:
    """Whether the name leads to a file of the user or to the hub, not to a package with a known content."""
    return name.startswith(HUB) or name.lower().endswith(_SUFFIX)


def weights_of(name: str) -> Weights | None:
    """Return the pinned weights of a name of the catalogue, the default for an empty name; None for other files."""
    if reaches_outside(name):
        return None
    return listed(name).weights if name else SMOLLM2


def check_name(name: str) -> None:
    """Refuse a name that is not in the catalogue, a file that does not exist, and an incomplete address of the hub."""
    if name.startswith(HUB):
        _address(name.removeprefix(HUB))
    elif weights_of(name) is None and not Path(name).is_file():
        raise InputError(f"there is no model file {name}; name a GGUF file, or a model that `gape models list` shows")


def locate(name: str) -> Path:
    """Return the model file: of the catalogue, of this machine, or of the hub. It is fetched once, if necessary."""
    if name.startswith(HUB):
        return _from_hub(name.removeprefix(HUB))
    weights = weights_of(name)
    return Path(name) if weights is None else fetch(weights)


def _from_hub(address: str) -> Path:
    """Return a file of the hub, OWNER/REPO/FILE. If it was fetched before, the hub is not asked."""
    repository, file = _address(address)
    try:
        import huggingface_hub  # noqa: PLC0415  (heavy, and in an extra)
    except ImportError as error:
        raise InputError(
            f"models of the hub need huggingface_hub ({error}); run `pip install huggingface_hub`, or download the "
            "file and give its path"
        ) from error
    try:
        return Path(huggingface_hub.hf_hub_download(repository, file, local_files_only=True))
    except Exception:  # noqa: BLE001, S110  (not fetched yet, or an unusable name, which the next line tells)
        pass
    try:
        return Path(huggingface_hub.hf_hub_download(repository, file))
    except Exception as error:
        raise ServiceError(
            f"{file} of {repository} cannot be fetched from the hub ({in_one_line(error)[:200]}); check the "
            "name and the network, run `hf auth login` if access is restricted, or download the file and give its path"
        ) from error


def _address(address: str) -> tuple[str, str]:
    """Split OWNER/REPO/FILE into repository and file."""
    owner, _, rest = address.partition("/")
    repository, _, file = rest.partition("/")
    if not (owner and repository and file.lower().endswith(_SUFFIX)):
        raise InputError(f"a model of the hub is named hub:OWNER/REPO/FILE.gguf, got {HUB + address!r}; name its file")
    return f"{owner}/{repository}", file
