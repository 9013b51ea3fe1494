"""What runs a latent model: ONNX Runtime or OpenVINO, behind two names: the inputs, and a call."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from gape._support.silence import without_telemetry
from gape.core.errors import InputError, in_one_line

_WHOLE = {"tensor(int64)": "int64", "tensor(int32)": "int32"}


class Input(NamedTuple):
    """An input of a model. A side of its shape is None if it can be any number."""

    name: str
    kind: str  # of numpy; empty for anything but float32, int64 and int32
    shape: tuple[int | None, ...]


class Engine(Protocol):
    """A loaded model."""

    inputs: list[Input]
    digest: str  # identifies the model

    def run(self, given: Mapping[str, Any]) -> Any:
        """Return the first output."""
        ...


class OnnxEngine:
    """A model in the ONNX format, on the CPU."""

    def __init__(self, path: Path) -> None:
        """Load the model."""
        import onnxruntime  # noqa: PLC0415  (heavy)

        onnxruntime.disable_telemetry_events()
        content = path.read_bytes()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors only, and those are raised too
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        self.digest = hashlib.sha256(content).hexdigest()
        kinds = {"tensor(float)": "float32", **_WHOLE}
        self.inputs = [
            Input(given.name, kinds.get(given.type, ""), tuple(s if isinstance(s, int) else None for s in given.shape))
            for given in self._session.get_inputs()
        ]

    def run(self, given: Mapping[str, Any]) -> Any:
        """Return the first output."""
        return self._session.run(None, dict(given))[0]


class OpenVinoEngine:
    """A model that OpenVINO reads: an .xml file with its .bin file beside it, or an .onnx file. Runs on the CPU."""

    def __init__(self, path: Path) -> None:
        """Load the model."""
        without_telemetry("openvino_telemetry")
        try:
            openvino: Any = importlib.import_module("openvino")  # heavy, an optional extra
        except ImportError:
            raise InputError("openvino:FILE needs OpenVINO; pip install 'gape[openvino]'") from None
        weights = path.with_suffix(".bin")
        digest = hashlib.sha256(path.read_bytes())
        if path.suffix == ".xml" and weights.exists():
            digest.update(weights.read_bytes())
        self.digest = digest.hexdigest()
        # In single precision, so that all processors draw alike.
        self._model = openvino.Core().compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        kinds = {"f32": "float32", "i64": "int64", "i32": "int32"}
        self.inputs = [
            Input(
                port.get_any_name(),
                kinds.get(port.element_type.get_type_name(), ""),
                tuple(side.get_length() if side.is_static else None for side in port.partial_shape),
            )
            for port in self._model.inputs
        ]

    def run(self, given: Mapping[str, Any]) -> Any:
        """Return the first output."""
        return self._model(dict(given))[0]


_ENGINES: Mapping[str, tuple[Callable[[Path], Engine], str]] = {
    "onnx": (OnnxEngine, "an ONNX model"),
    "openvino": (OpenVinoEngine, "a model of OpenVINO"),
}


def load_engine(kind: str, path: Path) -> Engine:
    """Load a model with the engine of this kind, onnx or openvino."""
    engine, what = _ENGINES[kind]
    try:
        return engine(path)
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  (any error of the library or the file)
        raise InputError(f"{path} cannot be loaded as {what} ({in_one_line(error)}); name one") from None


def called(engine: Engine, given: Mapping[str, Any]) -> Any:
    """Return the first output for rows of inputs, one row at a time if the model takes no more."""
    rows = len(next(iter(given.values())))
    if all(known.shape[:1] != (1,) for known in engine.inputs):
        return engine.run(given)
    return np.concatenate([engine.run({name: value[i : i + 1] for name, value in given.items()}) for i in range(rows)])
