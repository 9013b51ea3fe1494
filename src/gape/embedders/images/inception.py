"""Inception-v3 as the Fréchet Inception Distance uses it."""

import warnings

import numpy as np

from gape.core.types import Points
from gape.embedders.images.network import NetworkEmbedder
from gape.language.weights import INCEPTION, fetch

SCALE = 64.0  # by which features are divided; norms of natural images are about 20


class Inception(NetworkEmbedder):
    """Features of the last pooling layer, (n, 2048), divided by 64; a longer vector is shortened to length 1.

    The Fréchet distance of these points times 64^2 is the FID.
    """

    def __init__(self) -> None:
        """Load the network, after fetching it if this is the first time (87 MB)."""
        super().__init__(299, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
        path = fetch(INCEPTION)
        with warnings.catch_warnings():
            for kind in (DeprecationWarning, FutureWarning):  # of the format that the weights come in
                warnings.simplefilter("ignore", kind)
            self._network = self._torch.jit.load(str(path), map_location=self._device).eval()

    def __repr__(self) -> str:
        return f"Inception(weights={INCEPTION.sha256[:12]})"

    def features(self, images: object) -> object:
        """Return the features of the last pooling layer."""
        return self._network(images)

    def scaled(self, rows: Points) -> Points:
        """Divide by 64, and shorten what is longer than 1."""
        points = rows.reshape(len(rows), -1) / SCALE
        lengths = np.linalg.norm(points, axis=1, keepdims=True)
        shortened: Points = (points / np.maximum(lengths, 1)).astype(np.float32)
        return shortened
