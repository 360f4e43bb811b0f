"""The forward pass of BERT with numpy: from the numbers of tokens to one vector a text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from scipy.special import erf

from unseen.validation import listed

__all__ = ["Bert", "read_bert"]

Floats = NDArray[np.float32]


class Bert(NamedTuple):
    """Weights by their usual names, and what their shapes do not say.

    Attributes
    ----------
    weights : dict of str to ndarray
        In float32.
    n_layers, n_heads : int
    eps : float
        Added to the variance in each normalization.
    """

    weights: dict[str, Floats]
    n_layers: int
    n_heads: int
    eps: float

    @property
    def n_words(self) -> int:
        """Number of tokens that have a vector."""
        return len(self.weights["embeddings.word_embeddings.weight"])

    @property
    def n_positions(self) -> int:
        """Number of tokens that the longest text may have."""
        return len(self.weights["embeddings.position_embeddings.weight"])

    def encode(self, ids: NDArray[np.intp]) -> Floats:
        """Mean over the tokens of what the last layer gives, scaled to unit length.

        Parameters
        ----------
        ids : ndarray of shape (n_texts, n_tokens)
            Numbers of tokens, without padding.

        Returns
        -------
        ndarray of shape (n_texts, n_dims)
        """
        n_texts, n_tokens = ids.shape
        w = self.weights
        x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][:n_tokens]
        x = x + w["embeddings.token_type_embeddings.weight"][0]
        # One row a token: numpy multiplies two matrices at once, but a stack of them one by one.
        x = self._normalize(x.reshape(n_texts * n_tokens, -1), "embeddings.LayerNorm")
        for number in range(self.n_layers):
            layer = f"encoder.layer.{number}."
            read = self._attend(x, n_texts, layer + "attention.self.")
            x = x + self._linear(read, layer + "attention.output.dense")
            x = self._normalize(x, layer + "attention.output.LayerNorm")
            inner = _gelu(self._linear(x, layer + "intermediate.dense"))
            x = x + self._linear(inner, layer + "output.dense")
            x = self._normalize(x, layer + "output.LayerNorm")
        means = x.reshape(n_texts, n_tokens, -1).mean(axis=1)
        unit: Floats = means / np.linalg.norm(means, axis=1, keepdims=True)
        return unit

    def _linear(self, x: Floats, name: str) -> Floats:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def _normalize(self, x: Floats, name: str) -> Floats:
        x = x - x.mean(axis=-1, keepdims=True)
        x /= np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + np.float32(self.eps))
        return x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def _attend(self, x: Floats, n_texts: int, name: str) -> Floats:
        """What each token reads from the tokens of its text: softmax(Q K' / sqrt(d)) V, head by head."""

        def heads(part: str) -> Floats:
            rows = self._linear(x, name + part)
            return rows.reshape(n_texts, -1, self.n_heads, x.shape[1] // self.n_heads).transpose(0, 2, 1, 3)

        query, key, value = heads("query"), heads("key"), heads("value")
        share = query @ key.transpose(0, 1, 3, 2) / np.float32(np.sqrt(key.shape[-1]))
        share = np.exp(share - share.max(axis=-1, keepdims=True))
        share /= share.sum(axis=-1, keepdims=True)
        read: Floats = (share @ value).transpose(0, 2, 1, 3).reshape(x.shape)
        return read


def _gelu(x: Floats) -> Floats:
    bent: Floats = np.float32(0.5) * x * (1 + erf(x * np.float32(np.sqrt(0.5))))
    return bent


def read_bert(path: Path, config: Mapping[str, Any]) -> Bert:
    """Read the weights of a BERT.

    Parameters
    ----------
    path : pathlib.Path
        A safetensors file. Tensors that a vector of a text does not need, such as a pooler's, are not read.
    config : mapping
        What ``config.json`` says of the model.

    Returns
    -------
    Bert

    Raises
    ------
    ValueError
        If a tensor is missing, has another shape, or the file is no safetensors file.
    """
    expected = _shapes(config)
    try:
        with safe_open(path, framework="numpy") as file:
            missing = sorted(set(expected) - set(file.keys()))
            if missing:
                raise ValueError(
                    f"path: {str(path)!r} lacks {len(missing)} of the {len(expected)} tensors of such a model: "
                    f"{listed(missing)}. Pass the weights that belong to its config.json."
                )
            weights = {name: np.asarray(file.get_tensor(name), dtype=np.float32) for name in expected}
    except (SafetensorError, TypeError) as error:  # the latter for a kind of numbers that numpy lacks
        raise ValueError(
            f"path: {str(path)!r} cannot be read ({error}). Pass a safetensors file in float32 or float16."
        ) from error
    for name, shape in expected.items():
        if weights[name].shape != shape:
            raise ValueError(
                f"path: in {str(path)!r} the tensor {name!r} has the shape {weights[name].shape}, and config.json "
                f"says {shape}. Pass the weights that belong to it."
            )
    eps = float(config.get("layer_norm_eps", 1e-12))
    return Bert(weights, int(config["num_hidden_layers"]), int(config["num_attention_heads"]), eps)


def _shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors that are needed."""
    width, inner = int(config["hidden_size"]), int(config["intermediate_size"])
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (int(config["vocab_size"]), width),
        "embeddings.position_embeddings.weight": (int(config["max_position_embeddings"]), width),
        "embeddings.token_type_embeddings.weight": (int(config["type_vocab_size"]), width),
    }
    linear = {"intermediate.dense": (inner, width), "output.dense": (width, inner)}
    linear |= {f"attention.{part}": (width, width) for part in ("self.query", "self.key", "self.value")}
    linear["attention.output.dense"] = (width, width)
    normalizations = ["embeddings.LayerNorm"]
    for number in range(int(config["num_hidden_layers"])):
        layer = f"encoder.layer.{number}"
        normalizations += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
        for name, shape in linear.items():
            shapes |= {f"{layer}.{name}.weight": shape, f"{layer}.{name}.bias": shape[:1]}
    for name in normalizations:
        shapes |= {f"{name}.weight": (width,), f"{name}.bias": (width,)}
    return shapes
