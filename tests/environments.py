"""Environments for extras that cannot be installed beside the rest, on top of the environment of the tests."""

import subprocess
import sys
import sysconfig
from pathlib import Path

LOCK = Path(__file__).parents[1] / "requirements" / "extras.txt"


def with_extras(folder: Path) -> Path:
    """Make an environment in a folder with the extras that are not in dev, by their lock; return its commands."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "below.pth").write_text(f"import site; site.addsitedir({sysconfig.get_paths()['purelib']!r})\n")
    locked = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", str(LOCK)]
    subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", *locked], check=True)
    return folder / "bin"
