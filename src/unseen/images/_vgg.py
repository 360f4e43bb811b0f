"""VGG19 through torchvision: the 4096 values of its second fully connected layer (fc7), as in the TAEP paper."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from unseen.images._backbone import Backbone, Described, fingerprint_of
from unseen.images._packages import needed
from unseen.images.imagenet import class_names
from unseen.images.preprocessing import Preprocessing
from unseen.validation import check_count

__all__ = ["VGG19"]

_FC7 = 5  # layers of the classifier up to and with the ReLU after fc7


class VGG19(Backbone):
    """VGG19 (Simonyan and Zisserman 2014), trained on ImageNet: fc7 after its ReLU, 4096 features.

    Parameters
    ----------
    weights : str or pathlib.Path, optional
        A safetensors file with torchvision's names. By default torchvision's own weights, which it downloads once
        (548 MB) and keeps where it keeps all its weights.
    n_threads : int, optional
        Threads of PyTorch: a setting of the whole process.
    preprocessing : Preprocessing, optional
        By default as torchvision's weights ask for.
    """

    def __init__(
        self,
        weights: str | Path | None = None,
        *,
        n_threads: int | None = None,
        preprocessing: Preprocessing | None = None,
    ) -> None:
        self._torch = needed("torch", "torch", "VGG19")
        models = needed("torchvision.models", "torch", "VGG19")
        if n_threads is not None:
            self._torch.set_num_threads(check_count(n_threads, "n_threads"))
        self.name = "vgg19" if weights is None else str(weights)
        self.n_features = 4096
        self.class_names = class_names()
        self.preprocessing = preprocessing or Preprocessing(
            interpolation="bilinear", mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), value_range=1.0
        )
        state = _published(models) if weights is None else self._from_file(Path(weights))
        self._model = models.vgg19(weights=None)
        try:
            self._model.load_state_dict(state)
        except RuntimeError as error:
            raise ValueError(
                f"weights: {str(weights)!r} does not fit VGG19 ({error}). Pass weights of torchvision's vgg19."
            ) from error
        self._model.eval()
        self.fingerprint = fingerprint_of(_digest(state), self.preprocessing, "vgg19 fc7")

    def _from_file(self, path: Path) -> dict[str, Any]:
        try:
            return {name: self._torch.from_numpy(array) for name, array in load_file(path).items()}
        except FileNotFoundError:
            raise FileNotFoundError(f"weights: there is no file {str(path)!r}. Pass a safetensors file.") from None
        except (SafetensorError, OSError, TypeError) as error:
            raise ValueError(
                f"weights: {str(path)!r} cannot be read ({error}). Pass a safetensors file of float32 weights."
            ) from error

    def _run(self, batch: NDArray[np.float32]) -> Described:
        with self._torch.inference_mode():
            x = self._torch.from_numpy(np.ascontiguousarray(batch))
            x = self._torch.flatten(self._model.avgpool(self._model.features(x)), 1)
            features = self._model.classifier[:_FC7](x)
            logits = self._model.classifier[_FC7:](features)
        return Described(features.numpy(), logits.numpy())


def _published(models: Any) -> dict[str, Any]:
    weights = models.VGG19_Weights.IMAGENET1K_V1
    # Its download is a pickle: only tensors may come out of it.
    state: dict[str, Any] = weights.get_state_dict(progress=True, check_hash=True, weights_only=True)
    return state


def _digest(state: dict[str, Any]) -> str:
    """SHA-256 over names and numbers: the same whichever file they came from."""
    total = hashlib.sha256()
    for name in sorted(state):
        total.update(name.encode())
        total.update(np.ascontiguousarray(state[name].numpy()).data)
    return total.hexdigest()
