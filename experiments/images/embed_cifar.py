"""Inception features of CIFAR-10, on a GPU machine that has torch and Pillow or torchvision, without this package.

    python experiments/images/cifar.py pack --cifar FOLDER --out CARRIED        # here: three parts of at most 33 MB
    python experiments/images/embed_cifar.py CARRIED/1 --kept KEPT              # there: keeps half of the weights
    python experiments/images/embed_cifar.py CARRIED/2 --kept KEPT --out OUT    # there: embeds the public images
    python experiments/images/embed_cifar.py CARRIED/3 --kept KEPT --out OUT    # there: embeds the others
    python experiments/images/cifar.py run --carried CARRIED --features FOLDER  # here, with all files of OUT

Parts can be sent one after another, as long as the machine keeps the folder KEPT. Weights are rounded to 16 bits. What
comes back is small: features of public images and of those for testing in 8 bits (the root of each feature, as a share
of its largest value), and points of private images, their 512 principal components among public images.
"""

import argparse
import io
import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

SIDE, GRID, NETWORK, DIMENSIONS, BATCH = 32, 50, 299, 512, 256
CHECKED = (500, 2000)  # public images in the FIDs that show what 8 bits change


def tiled(images: Any) -> Any:
    """Return images, (GRID^2, 32, 32, 3), as one sheet."""
    return images.reshape(GRID, GRID, SIDE, SIDE, 3).transpose(0, 2, 1, 3, 4).reshape(GRID * SIDE, GRID * SIDE, 3)


def untiled(sheet: Any) -> Any:
    """Return the images of a sheet, (GRID^2, 32, 32, 3)."""
    return sheet.reshape(GRID, SIDE, GRID, SIDE, 3).transpose(0, 2, 1, 3, 4).reshape(GRID * GRID, SIDE, SIDE, 3)


def images_in(folder: Path, what: str) -> Any:
    """Return the images of all sheets of a kind, in order."""
    return np.concatenate([untiled(_decoded(path.read_bytes())) for path in sorted(folder.glob(f"{what}-*.jpg"))])


def _decoded(content: bytes) -> Any:
    try:
        from PIL import Image  # noqa: PLC0415  (where it is there)
    except ImportError:
        from torchvision.io import decode_jpeg  # type: ignore[import-not-found]  # noqa: PLC0415  (likewise)

        return decode_jpeg(torch.frombuffer(bytearray(content), dtype=torch.uint8)).permute(1, 2, 0).numpy()
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


def network_in(kept: Path, device: str) -> Any:
    """Return Inception, from the parts of its file."""
    content = b"".join(path.read_bytes() for path in sorted(kept.glob("inception16-*.bin")))
    return torch.jit.load(io.BytesIO(content), map_location="cpu").float().to(device).eval()


def embedded(network: Any, images: Any, device: str) -> Any:
    """Return the features of images, (n, 2048)."""
    began, rows = time.perf_counter(), []
    with torch.inference_mode():
        for start in range(0, len(images), BATCH):
            some = torch.from_numpy(images[start : start + BATCH]).to(device).permute(0, 3, 1, 2).float() / 255
            sized = torch.nn.functional.interpolate(some, (NETWORK, NETWORK), mode="bilinear", align_corners=False)
            rows.append(network((sized - 0.5) / 0.5).flatten(1).float())
    print(f"{len(images)} images on {device} in {time.perf_counter() - began:.1f} s", flush=True)
    return torch.cat(rows)


def principal(features: Any, dimensions: int) -> tuple[Any, Any, float]:
    """Return the mean of features, their first principal components, (d, dimensions), and the share of variance."""
    mean = features.mean(0)
    values, vectors = torch.linalg.eigh(torch.cov((features - mean).double().T))
    return mean, vectors[:, -dimensions:].flip(1).float(), float(values[-dimensions:].sum() / values.sum())


def in_bytes(features: Any, largest: Any) -> Any:
    """Round the root of features, as shares of the largest ones, to 8 bits."""
    return torch.round(255 * torch.sqrt((features / largest).clamp(0, 1))).to(torch.uint8)


def from_bytes(coded: Any, largest: Any) -> Any:
    """Return what `in_bytes` rounded; for arrays as for tensors."""
    return (coded / np.float32(255)) ** 2 * largest


def frechet(one: Any, other: Any) -> float:
    """Return the Fréchet distance of two sets of features."""
    covariances = [torch.cov(rows.double().T) for rows in (one, other)]
    values, vectors = torch.linalg.eigh(covariances[0])
    root = (vectors * values.clamp(min=0).sqrt()) @ vectors.T
    shared = torch.linalg.eigvalsh(root @ covariances[1] @ root).clamp(min=0).sqrt().sum()
    gap = (one.double().mean(0) - other.double().mean(0)).square().sum()
    return float(gap + sum(covariance.trace() for covariance in covariances) - 2 * shared)


def saved(out: Path, name: str, rows: Any, parts: int) -> None:
    """Write an array in parts."""
    for number, part in enumerate(np.array_split(rows.cpu().numpy(), parts)):
        np.save(out / f"{name}-{number}.npy", part)


def public_part(kept: Path, out: Path, device: str) -> None:
    """Embed the public images, and find their principal components."""
    features = embedded(network_in(kept, device), images_in(kept, "public"), device)
    mean, components, share = principal(features, min(DIMENSIONS, len(features) - 1))
    largest = 1.25 * features.amax(0).clamp(min=1e-6)  # other images may have larger ones
    torch.save((features, mean, components, largest), kept / "public.pt")
    saved(out, "public", in_bytes(features, largest), 4)
    np.savez(out / "basis.npz", mean=mean.cpu(), components=components.half().cpu(), largest=largest.cpu())
    (out / "public.json").write_text(json.dumps({"variance": share, "norm": float(features.norm(dim=1).mean())}))


def other_part(kept: Path, out: Path, device: str) -> None:
    """Embed the private images and those for testing, and compare FIDs of features as they are and in 8 bits."""
    public, mean, components, largest = torch.load(kept / "public.pt", map_location=device)
    network = network_in(kept, device)
    test = embedded(network, images_in(kept, "test"), device)
    private = embedded(network, images_in(kept, "private"), device)
    saved(out, "private", ((private - mean) @ components).half(), 2)
    coded = in_bytes(test, largest)
    saved(out, "test", coded, 2)
    rounded, found = from_bytes(coded.float(), largest), {}
    for count in CHECKED:
        some = public[:count]
        again = from_bytes(in_bytes(some, largest).float(), largest)
        found[f"FID of {len(some)}"] = [frechet(test, some), frechet(rounded, again)]
    found["FID of private images"] = [frechet(test, private)]
    (out / "checked.json").write_text(json.dumps(found))
    print(json.dumps(found), flush=True)


def main() -> None:
    """Keep a part, and embed what it brings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", type=Path)
    parser.add_argument("--kept", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    asked.kept.mkdir(parents=True, exist_ok=True)
    brought = sorted(asked.part.iterdir())
    for path in brought:
        shutil.copy(path, asked.kept / path.name)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kinds = {path.name.partition("-")[0] for path in brought}
    if "public" in kinds:
        public_part(asked.kept, asked.out, device)
    if "private" in kinds:
        other_part(asked.kept, asked.out, device)


if __name__ == "__main__":
    main()
