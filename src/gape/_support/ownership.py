"""Recognising files that this user wrote on this machine.

A run folder may come from anybody. Its addresses, keys and paths are followed only if this user wrote them here. Files
with such content therefore end with a seal, a keyed digest (HMAC-SHA256) of the content before it. The key is generated
at random on first use and kept outside all run folders, in the user's state directory, with mode 0600.
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
    """Return the folder of the key: $GAPE_STATE, or gape in $XDG_STATE_HOME, or ~/.local/state/gape."""
    if chosen := os.environ.get("GAPE_STATE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "gape"


def seal(content: bytes) -> str:
    """Return the seal of a content, or an empty string if no key can be stored, as on a read-only disk."""
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
    """Return the key, or empty bytes if there is none. Refuse a key that others could have read or written."""
    path = _key_file()
    try:
        # Do not follow links, and do not wait for the writer of a pipe.
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise PrivacyError(
            f"the key {path} cannot be read ({error.strerror}); take ownership of it, or remove it"
        ) from None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077 or status.st_uid != os.geteuid():
            raise PrivacyError(
                f"the key {path} is readable or owned by other users, so it proves nothing; remove it, and give the "
                "addresses and paths of your earlier runs again"
            )
        key = os.read(file, _KEY_BYTES + 1)
    finally:
        os.close(file)
    if len(key) != _KEY_BYTES:
        raise PrivacyError(f"the key {path} is damaged; restore it from a backup, or remove it")
    return key


def _make_key() -> bytes:
    """Create the key atomically. If several processes do so at once, all use the same key."""
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
