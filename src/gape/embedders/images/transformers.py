"""Any image model of the transformers library, such as CLIP, DINOv2 or ViT."""

from typing import Any

from gape._support.silence import hub_unused_for
from gape.core.errors import InputError, in_one_line
from gape.embedders.images.network import NetworkEmbedder
from gape.language.transformers import weights_digest


class ImageModel(NetworkEmbedder):
    """A model from a folder or from the hub: images to unit vectors, (n, d), by its pooled output."""

    def __init__(self, model: str) -> None:
        """Load the model and the size and colours that its images have."""
        try:
            from transformers import AutoImageProcessor, AutoModel  # noqa: PLC0415  (heavy, an optional extra)
        except ImportError:
            raise InputError(f"hf:{model} needs transformers, which is not installed; pip install 'gape[hf]'") from None
        try:
            with hub_unused_for(model):
                processor = AutoImageProcessor.from_pretrained(model)
                network = AutoModel.from_pretrained(model)
        except (OSError, ValueError, ImportError) as error:
            raise InputError(f"{model} cannot be loaded as a model of images ({in_one_line(error)})") from None
        size = processor.size if isinstance(processor.size, dict) else dict(processor.size)
        side = size.get("height") or size.get("shortest_edge") or 224
        super().__init__(int(side), tuple(processor.image_mean), tuple(processor.image_std))
        self.model = model
        network = getattr(network, "vision_model", network)  # CLIP also has a model of texts
        self._digest = weights_digest(network)
        self._network = network.to(self._device).eval()

    def __repr__(self) -> str:
        return f"ImageModel({self.model!r}, weights={self._digest})"

    def features(self, images: Any) -> Any:
        """Return the pooled output."""
        output = self._network(pixel_values=images)
        pooled = output.pooler_output if output.pooler_output is not None else output.last_hidden_state.mean(dim=1)
        return pooled.flatten(1)
