"""Inception features of CIFAR-10 images, on a GPU machine that has torch and nothing of this package.

    python experiments/images/cifar.py pack --cifar FOLDER --out CARRIED       # here: images and weights, 60 MB
    python experiments/images/embed_cifar.py --carried CARRIED --out FOLDER    # there: four files of 12 MB, a minute
    python experiments/images/cifar.py run --carried CARRIED --features FOLDER # here

The weights are those of the FID, rounded to 16 bits to be small enough to send.
"""

import argparse
import io
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

BATCH, SIDE, PARTS = 256, 299, 4


def decoded(content: bytes) -> Any:
    """Return the pixels of a JPEG file, (32, 32, 3)."""
    try:
        from PIL import Image  # noqa: PLC0415  (where it is there)
    except ImportError:
        from torchvision.io import decode_jpeg  # type: ignore[import-not-found]  # noqa: PLC0415  (likewise)

        return decode_jpeg(torch.frombuffer(bytearray(content), dtype=torch.uint8)).permute(1, 2, 0).numpy()
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


def unpacked(path: Path) -> tuple[Any, Any]:
    """Return images, (n, 32, 32, 3), and labels of the file that `pack` wrote."""
    with np.load(path) as packed:
        ends, content, labels = packed["ends"], packed["files"].tobytes(), packed["labels"]
    starts = np.concatenate([[0], ends[:-1]])
    return np.stack([decoded(content[start:end]) for start, end in zip(starts, ends, strict=True)]), labels


def main() -> None:
    """Embed all images, and write their features in parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--carried", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = torch.jit.load(str(asked.carried / "inception16.pt"), map_location="cpu").float().to(device).eval()
    images, _ = unpacked(asked.carried / "cifar.npz")
    print(len(images), "images,", device, flush=True)
    began, rows = time.perf_counter(), []
    with torch.inference_mode():
        for start in range(0, len(images), BATCH):
            some = torch.from_numpy(images[start : start + BATCH]).to(device).permute(0, 3, 1, 2).float() / 255
            sized = torch.nn.functional.interpolate(some, (SIDE, SIDE), mode="bilinear", align_corners=False)
            rows.append(network((sized - 0.5) / 0.5).flatten(1).float().cpu().numpy())
    features = np.concatenate(rows)
    print(
        features.shape, f"{time.perf_counter() - began:.1f} s, mean norm {np.linalg.norm(features, axis=1).mean():.2f}"
    )
    for number, part in enumerate(np.array_split(features.astype(np.float16), PARTS)):
        np.save(asked.out / f"features-{number}.npy", part)


if __name__ == "__main__":
    main()
