"""Recognising what this user wrote on this machine.

A run folder may come from anybody. What it says about addresses, keys and paths is followed only if this user wrote it
here: files that say such things end with a seal, a keyed digest (HMAC-SHA256) of what stands before it. The key is made
at random on first use and lies outside all folders, in the user's state directory, mode 0600.
"""

import hashlib
import hmac
import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from gape.core.errors import PrivacyError

_KEY_BYTES = 32


def state_folder() -> Path:
    """Where the key is kept: $GAPE_STATE, else gape in $XDG_STATE_HOME, else ~/.local/state/gape."""
    if chosen := os.environ.get("GAPE_STATE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "gape"


def seal(content: bytes) -> str:
    """Return the seal of a content; empty where no key can be kept, as on a read-only disk."""
    try:
        key = _read_key() or _make_key()
    except OSError:
        return ""
    return hmac.digest(key, content, hashlib.sha256).hex() if key else ""


def is_sealed(content: bytes, claimed: str) -> bool:
    """Whether this user sealed this content on this machine."""
    key = _read_key()
    if not key or not claimed.isascii():
        return False
    return hmac.compare_digest(hmac.digest(key, content, hashlib.sha256).hex(), claimed)


def _key_file() -> Path:
    return state_folder() / "seal.key"


def _read_key() -> bytes:
    """Return the key; empty where there is none. Refuse one that others could have read or put there."""
    path = _key_file()
    try:
        # Not through a link, and without waiting for whoever would write to a pipe.
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise PrivacyError(f"the key {path} cannot be read ({error.strerror}); make it yours, or remove it") from None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077 or status.st_uid != os.geteuid():
            raise PrivacyError(
                f"the key {path} is open to other users or is theirs, so nothing can be recognised by it; remove it, "
                "and name addresses and paths of your earlier runs again"
            )
        key = os.read(file, _KEY_BYTES + 1)
    finally:
        os.close(file)
    if len(key) != _KEY_BYTES:
        raise PrivacyError(f"the key {path} is damaged; restore it from a copy, or remove it")
    return key


def _make_key() -> bytes:
    """Make the key, whole or not at all; of processes that do so at once, one makes it for all."""
    path = _key_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".seal.key.")  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        Path(temporary).unlink()
    return _read_key()
