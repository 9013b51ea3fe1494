"""Models of timm: small ones that are built here, in an environment of their own, because timm needs torchvision."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gape.core.errors import InputError
from gape.embedders.images.timm import TimmImages

SCRIPT = Path(__file__).parent / "small_timm.py"


@pytest.mark.skipif(importlib.util.find_spec("timm") is not None, reason="timm is installed")
def test_without_timm_the_message_says_what_to_install() -> None:
    with pytest.raises(InputError, match=r"timm:resnet18 needs timm, which cannot be imported .*; pip install timm"):
        TimmImages("resnet18")


@pytest.mark.slow
def test_small_models_of_timm_embed_images(tmp_path: Path) -> None:
    """Each torch has one torchvision, whose compiled part may be for GPUs; models do not use it."""
    minor = int(torch.__version__.split(".")[1])
    packages = tmp_path / "packages"
    wanted = ["timm==1.0.31", f"torchvision==0.{minor + 15}.*"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]
    subprocess.run([*pip, "--target", packages, *wanted], check=True)
    path = os.pathsep.join(map(str, (packages, *sys.path)))
    done = subprocess.run(
        [sys.executable, SCRIPT, tmp_path / "models"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
