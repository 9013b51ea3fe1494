"""Any image model of the transformers library, such as DINOv2 or ViT, and CLIP with its projection."""

from typing import Any, ClassVar

from gape._support.silence import hub_unused_for
from gape.core.errors import InputError, in_one_line
from gape.embedders.images.network import NetworkEmbedder
from gape.language.transformers import weights_digest


class ImageModel(NetworkEmbedder):
    """A model from a folder or from the hub: images to unit vectors, (n, d), by its pooled output.

    If no pooling was trained, the output is the mean over all parts of the image.
    """

    _form: ClassVar[str] = "hf"

    def __init__(self, model: str) -> None:
        """Load the model and the size and colours that its images have."""
        try:
            from transformers import AutoImageProcessor  # noqa: PLC0415  (heavy, an optional extra)
        except ImportError:
            raise InputError(
                f"{self._form}:{model} needs transformers, which is not installed; pip install 'gape[hf]'"
            ) from None
        try:
            with hub_unused_for(model):
                processor = AutoImageProcessor.from_pretrained(model)
                network = self._loaded(model)
        except (OSError, ValueError, ImportError) as error:
            raise InputError(f"{model} cannot be loaded as a model of images ({in_one_line(error)})") from None
        size = processor.size if isinstance(processor.size, dict) else dict(processor.size)
        side = size.get("height") or size.get("shortest_edge") or 224
        super().__init__(int(side), tuple(processor.image_mean), tuple(processor.image_std))
        self.model = model
        self._digest = weights_digest(network)
        self._network = network.to(self._device).eval()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, weights={self._digest})"

    def features(self, images: Any) -> Any:
        """Return the pooled output."""
        output = self._network(pixel_values=images)
        pooled = output.pooler_output if output.pooler_output is not None else output.last_hidden_state.mean(dim=1)
        return pooled.flatten(1)

    def _loaded(self, model: str) -> Any:
        """Load the network. Weights that its files lack would be random, and other ones in each process."""
        from transformers import AutoModel  # noqa: PLC0415  (as above)

        network, found = AutoModel.from_pretrained(model, output_loading_info=True)
        missing = {name for name in found["missing_keys"] if not name.startswith("pooler.")}
        if missing:
            raise ValueError(f"its files lack the weights {min(missing)}")
        if found["missing_keys"]:
            network.pooler = None
        return getattr(network, "vision_model", network)  # CLIP also has a model of texts


class ClipImages(ImageModel):
    """A CLIP model from a folder or from the hub: images to unit vectors, (n, d), in the space it shares with texts.

    `ImageModel` stops before the projection into that space.
    """

    _form: ClassVar[str] = "clip"

    def features(self, images: Any) -> Any:
        """Return the projected embeddings."""
        return self._network(pixel_values=images).image_embeds

    def _loaded(self, model: str) -> Any:
        from transformers import AutoConfig, CLIPVisionModelWithProjection  # noqa: PLC0415  (as above)

        kind: str = AutoConfig.from_pretrained(model).model_type
        if not kind.startswith("clip"):
            raise ValueError(f"it is a model of type {kind}, not CLIP; use hf: instead of clip:")
        network, found = CLIPVisionModelWithProjection.from_pretrained(model, output_loading_info=True)
        if found["missing_keys"]:
            raise ValueError(f"its files lack the weights {min(found['missing_keys'])}")
        return network
