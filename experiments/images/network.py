"""A small convolutional network that is trained on synthetic images and tested on real ones."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

EPOCHS, BATCH = 12, 64


def network_accuracy(
    images: NDArray[np.uint8], labels: NDArray[Any], tested: NDArray[np.uint8], truth: NDArray[Any], seed: int
) -> float:
    """Train on images, (n, h, w) or (n, h, w, 3), and return the share of the tested ones that are labelled right."""
    return float((trained(images, labels, seed)(tested) == np.asarray(truth, dtype=np.int64)).mean())


def trained(
    images: NDArray[np.uint8], labels: NDArray[Any], seed: int
) -> Callable[[NDArray[np.uint8]], NDArray[np.int64]]:
    """Train on images, and return what labels others."""
    torch.manual_seed(seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    given = _as_input(images).to(device)
    targets = torch.from_numpy(np.asarray(labels, dtype=np.int64)).to(device)
    network = _network(given.shape[1], given.shape[2]).to(device)
    steps = EPOCHS * -(-len(given) // BATCH)
    optimiser = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps)
    for _ in range(EPOCHS):
        order = torch.randperm(len(given), device=device)
        for start in range(0, len(given), BATCH):
            some = order[start : start + BATCH]
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(network(given[some]), targets[some]).backward()
            optimiser.step()
            schedule.step()
    network.eval()

    def predicted(others: NDArray[np.uint8]) -> NDArray[np.int64]:
        asked = _as_input(others).to(device)
        with torch.inference_mode():
            found = [network(asked[start : start + 1000]).argmax(1) for start in range(0, len(asked), 1000)]
        labelled: NDArray[np.int64] = torch.cat(found).cpu().numpy()
        return labelled

    return predicted


def _as_input(pixels: NDArray[np.uint8]) -> torch.Tensor:
    shaped = pixels[..., None] if pixels.ndim == 3 else pixels
    return torch.from_numpy(np.ascontiguousarray(shaped.transpose(0, 3, 1, 2), dtype=np.float32)) / 255 - 0.5


def _network(channels: int, side: int) -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(channels, 16, 5, padding=2),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(16, 32, 5, padding=2),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Dropout(0.3),
        torch.nn.Linear(32 * (side // 4) ** 2, 10),
    )
