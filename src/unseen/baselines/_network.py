"""Fast0Tag's neural network, trained with PyTorch and kept as plain arrays."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from unseen.base import Matrix
from unseen.baselines._sgd import RankingProblem, order_by_contents

BATCH = 64  # images in one step


class Layers(NamedTuple):
    """Weights and biases of two hidden ReLU layers and a linear one, for images in the units of the data."""

    first_weights: Matrix
    first_bias: Matrix
    second_weights: Matrix
    second_bias: Matrix
    last_weights: Matrix
    last_bias: Matrix


def import_torch() -> Any:
    """The torch module, or an error that says how to get it."""
    try:
        return import_module("torch")
    except ImportError:
        raise ImportError(
            'mapping: "network" needs PyTorch to fit. Install it with pip install "unseen[torch]", '
            'or pass mapping="linear".'
        ) from None


def forward(projected: Matrix, layers: Layers) -> Matrix:
    """Output of the network for images that the first weights have been applied to."""
    hidden = np.maximum(projected + layers.first_bias, 0.0)
    hidden = np.maximum(hidden @ layers.second_weights + layers.second_bias, 0.0)
    output: Matrix = hidden @ layers.last_weights + layers.last_bias
    return output


def train_network(
    problem: RankingProblem,
    rng: np.random.Generator,
    *,
    n_hidden: int,
    dropout: float,
    weight_decay: float,
    learning_rate: float,
    n_epochs: int,
) -> tuple[Layers, Matrix]:
    """AdamW on the RankNet loss, the step falling linearly to 0; returns the layers and the loss of each epoch.

    The last layer begins at zero, so that nothing depends on the basis of the label space, and images are ordered
    by their contents, so that nothing depends on their places.
    """
    torch = import_torch()
    images, n_features, rank = problem.images, problem.images.shape[1], problem.C.shape[1]
    reach = np.sqrt(n_features)  # features of unit size suit the usual first weights
    first = rng.standard_normal((n_features, n_hidden)) * np.sqrt(2.0) / reach
    second = rng.standard_normal((n_hidden, n_hidden)) * np.sqrt(2.0 / n_hidden)
    shapes = (first, np.zeros(n_hidden), second, np.zeros(n_hidden), np.zeros((n_hidden, rank)), np.zeros(rank))
    weights = [torch.tensor(start, dtype=torch.float32, requires_grad=True) for start in shapes]
    masks = torch.Generator().manual_seed(int(rng.integers(2**31)))
    base = order_by_contents(problem, rng)
    labels = torch.tensor(problem.C, dtype=torch.float32)
    optimiser = torch.optim.AdamW(weights, lr=learning_rate, weight_decay=weight_decay)
    n_batches = -(-len(base) // BATCH)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, max(n_epochs * n_batches, 1))
    losses = np.zeros(n_epochs)
    for epoch in range(n_epochs if len(base) else 0):
        order = base[rng.permutation(len(base))]
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            hidden = torch.tensor(reach * images.take(rows), dtype=torch.float32)
            for i in (0, 2):
                hidden = torch.relu(hidden @ weights[i] + weights[i + 1])
                kept = torch.rand(hidden.shape, generator=masks) >= dropout
                hidden = hidden * kept / (1.0 - dropout)
            scores = (hidden @ weights[4] + weights[5]) @ labels.T
            loss = ranknet_loss(torch, scores, torch.tensor(problem.T[rows]))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            losses[epoch] += float(loss.detach()) * len(rows) / len(order)
    found = [tensor.detach().numpy().astype(np.float64) for tensor in weights]
    return Layers(*found)._replace(first_weights=found[0] * reach), losses


def ranknet_loss(torch: Any, scores: Any, targets: Any) -> Any:
    """Mean over images of the mean over their (positive, negative) pairs of ``log(1 + exp(s_n - s_p))``."""
    pairs = (targets > 0)[:, :, None] & (targets < 0)[:, None, :]
    gaps = scores[:, None, :] - scores[:, :, None]
    losses = torch.where(pairs, torch.nn.functional.softplus(gaps), torch.zeros(()))
    return (losses.sum(dim=(1, 2)) / pairs.sum(dim=(1, 2)).clamp(min=1)).mean()
