"""What every backbone can do: describe pictures by features and, if it is a classifier, by logits."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unseen.images.preprocessing import Preprocessing

__all__ = ["Backbone", "Described", "fingerprint_of"]


class Described(NamedTuple):
    """What a backbone says about a batch of pictures.

    Attributes
    ----------
    features : ndarray of shape (n, n_features), float32
    logits : ndarray of shape (n, n_classes), float32, or None
        Scores of the classes the backbone was trained for, before the softmax; None if it has no classes.
    """

    features: NDArray[np.float32]
    logits: NDArray[np.float32] | None


class Backbone(ABC):
    """A frozen network that turns pictures into features.

    It holds no state that `describe` changes: several threads may use one backbone at a time.

    Attributes
    ----------
    name : str
        What `unseen.images.backbones.open_backbone` opens it by.
    preprocessing : Preprocessing
        What `unseen.images.backbones.prepare` needs to make a batch.
    n_features : int
    class_names : tuple of str, or None
        Names of the columns of the logits; None if there are no logits or their names are not known.
    fingerprint : str
        SHA-256 over the weights and the preprocessing: features with different fingerprints must not be mixed.
    """

    name: str
    preprocessing: Preprocessing
    n_features: int
    class_names: tuple[str, ...] | None
    fingerprint: str

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}: {self.n_features} features, {self.fingerprint[:12]}>"

    def describe(self, batch: NDArray[np.float32]) -> Described:
        """Features of prepared pictures.

        Parameters
        ----------
        batch : ndarray of shape (n, 3, size, size), float32
            Pictures as `unseen.images.backbones.prepare` gives them, stacked; there may be none.

        Returns
        -------
        Described

        Raises
        ------
        ValueError
            If the batch has another shape or type, or if the network gives numbers that are not finite.
        """
        side = self.preprocessing.size
        if not isinstance(batch, np.ndarray) or batch.ndim != 4 or batch.shape[1:] != (3, side, side):
            shape = getattr(batch, "shape", type(batch).__name__)
            raise ValueError(
                f"batch: expected an array of shape (n, 3, {side}, {side}), got {shape}. "
                f"Stack what prepare(image, backbone.preprocessing) returns."
            )
        if batch.dtype != np.float32:
            raise ValueError(f"batch: its type is {batch.dtype}. Pass float32, as prepare returns it.")
        described = self._run(batch)
        for values in described:
            if values is not None and not np.isfinite(values).all():
                raise ValueError(
                    f"batch: the backbone {self.name!r} gives NaN or infinite values for it. "
                    f"Check that the batch is finite and the preprocessing is the model's own."
                )
        return described

    @abstractmethod
    def _run(self, batch: NDArray[np.float32]) -> Described:
        """Features and logits of a checked batch."""


def fingerprint_of(weights_digest: str, preprocessing: Preprocessing, *details: Any) -> str:
    """SHA-256 that is the same on every machine for the same weights, preprocessing and further choices."""
    parts = [weights_digest, preprocessing.as_dict(), *details]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
