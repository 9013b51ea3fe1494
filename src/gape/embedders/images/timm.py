"""Any image model of the timm library, such as ResNet, ConvNeXt or EVA."""

from pathlib import Path
from typing import Any

from gape._support.silence import hub_unused_for
from gape.core.errors import InputError, in_one_line
from gape.embedders.images.network import NetworkEmbedder
from gape.language.transformers import weights_digest


class TimmImages(NetworkEmbedder):
    """A model by its name in timm, from a folder, or from the hub as hf-hub:NAME: images to unit vectors, (n, d).

    The features are those before the classifier. Images are resized to the model's size without cropping.
    """

    def __init__(self, model: str) -> None:
        """Load the model, and the size and colours that its images have."""
        try:
            import timm  # type: ignore[import-not-found]  # noqa: PLC0415  (heavy, optional)
        except ImportError as error:
            raise InputError(
                f"timm:{model} needs timm, which cannot be imported ({in_one_line(error)}); pip install timm"
            ) from None
        except RuntimeError as error:  # of a torchvision that does not fit torch
            raise InputError(
                f"timm:{model} needs timm, which cannot be imported ({in_one_line(error)}); install a build of "
                "torchvision that fits the installed torch"
            ) from None
        name = f"local-dir:{model}" if Path(model).is_dir() else model
        try:
            with hub_unused_for(model):
                network = timm.create_model(name, pretrained=True, num_classes=0)
        except (OSError, ValueError, RuntimeError, KeyError, AssertionError) as error:
            raise InputError(f"{model} cannot be loaded as a model of timm ({in_one_line(error)})") from None
        described: dict[str, Any] = timm.data.resolve_model_data_config(network)
        super().__init__(max(described["input_size"][1:]), tuple(described["mean"]), tuple(described["std"]))
        self.model = model
        self._digest = weights_digest(network)
        self._network = network.to(self._device).eval()

    def __repr__(self) -> str:
        return f"TimmImages({self.model!r}, weights={self._digest})"

    def features(self, images: Any) -> Any:
        """Return the pooled features."""
        return self._network(images).flatten(1)
