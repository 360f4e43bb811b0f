"""Fast0Tag: fast zero-shot image tagging by principal directions (Zhang, Gong & Shah, 2016)."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

import numpy as np
from threadpoolctl import threadpool_limits

from unseen.base import TrainingProblem
from unseen.baselines._linear import gather, parts_in_span, ridge_solver
from unseen.baselines._ranking import RankingProblem, RankingTagger, principal_directions, ranking_problem
from unseen.validation import Matrix, check_choice, check_count, check_generator, check_number

BATCH, DROPOUT, LEARNING_RATE, WEIGHT_DECAY = 64, 0.3, 1e-3, 0.01  # of the network


class Fast0Tag(RankingTagger):
    r"""A direction in the label space for each image, along which its labels come before all others.

    With ``mapping="linear"``, in closed form, minimises over W::

        sum_i |x_i W - w_i|^2  +  ridge sum_i |x_i|^2 |W|^2

    where the principal direction w_i of a training image is a ranking SVM over the label vectors: the minimiser of
    ``mean over p in Y_i, n not in Y_i of [1 - <w, m_p> + <w, m_n>]_+  +  alpha/2 |w|^2``.

    With ``mapping="network"`` minimises the RankNet loss over the weights of a neural network f, two hidden ReLU
    layers and a linear one::

        mean over i of  mean over p in Y_i, n not in Y_i of log(1 + exp(<f(x_i), m_n> - <f(x_i), m_p>))

    The score of a label is ``<f(x), m_c>``, with ``f(x) = x W`` for the linear mapping. The margin score subtracts
    a threshold ``x w0 + b`` of the image, see `LatEm`.

    Differences from the paper: the loss of an image is the mean over its pairs in the ranking SVM too, so that
    alpha does not depend on their number; the network is narrower than usual and trained by AdamW.

    `explain`: ``f(x) = sum_k e_k(x) m_k`` lies in the span of the seen labels; label k adds ``e_k(x) <m_k, m_c>``.

    Parameters
    ----------
    mapping : {"linear", "network"}, default="linear"
        From images to directions. The network needs PyTorch to fit (``pip install "unseen[torch]"``), but neither
        to predict nor to load.
    alpha : float, default=0.1
        Weight of |w|^2 in the ranking SVM of an image; labels count as of median length 1. Linear mapping only.
    ridge : float, default=1e-2
        Weight of |W|^2, relative to the sum of the squared lengths of the images. Linear mapping only.
    n_hidden : int, default=256
        Units of each of the two hidden layers. Network only, as is the next.
    n_epochs : int, default=5
        Passes over the images. Few of them transfer best when there are thousands of images; hundreds need more.
    normalize, center : bool, default=True
        Scale features and label vectors to unit length, the latter after subtracting the mean of those in `fit`.
    tol : float, default=1e-8
        Relative duality gap of the ranking SVM of every image.
    random_state : int, RandomState or None, default=0
        First weights of the network, its dropout and the order of the images.

    Attributes
    ----------
    label_basis_ : ndarray of shape (n_dims, rank)
        Orthonormal basis of the span of the seen labels, which holds the directions.
    visual_map_ : ndarray of shape (n_features, rank)
        ``W = visual_map_ @ label_basis_.T``; of the network, the weights of its first layer (n_hidden columns).
    first_bias_, hidden_layer_, last_layer_ : ndarray
        The rest of the network, biases in the last rows; empty for the linear mapping.
    direction_gap_ : float
        Largest relative duality gap of the ranking SVMs; 0 for the network.
    threshold_weights_, threshold_ : ndarray of shape (n_features,), float
        w0 and b.
    """

    def __init__(
        self,
        mapping: Literal["linear", "network"] = "linear",
        alpha: float = 0.1,
        ridge: float = 1e-2,
        *,
        n_hidden: int = 256,
        n_epochs: int = 5,
        normalize: bool = True,
        center: bool = True,
        tol: float = 1e-8,
        random_state: Any = 0,
    ) -> None:
        self.mapping = mapping
        self.alpha = alpha
        self.ridge = ridge
        self.n_hidden = n_hidden
        self.n_epochs = n_epochs
        self.normalize = normalize
        self.center = center
        self.tol = tol
        self.random_state = random_state

    def _learn(self, problem: TrainingProblem) -> None:
        mapping = check_choice(self.mapping, "mapping", ("linear", "network"))
        with threadpool_limits(limits=1):  # most products are too small to share
            task = ranking_problem(problem, normalize=self.normalize_)
            self.label_basis_ = task.basis
            if mapping == "linear":
                self._learn_linear(task)
            else:
                self._learn_network(task)

    def _learn_linear(self, task: RankingProblem) -> None:
        alpha = check_number(self.alpha, "alpha", strict=True)
        ridge = check_number(self.ridge, "ridge", strict=True)
        tol = check_number(self.tol, "tol", strict=True)
        directions, self.direction_gap_ = principal_directions(task.C, task.T, alpha=alpha, tol=tol)
        solve = ridge_solver(task.X, ridge, "ridge", normalize=self.normalize_, relative=True)
        self.visual_map_ = solve(gather(task.X, directions / task.label_length, normalize=self.normalize_))
        self.first_bias_ = self.hidden_layer_ = self.last_layer_ = np.empty(0)

    def _learn_network(self, task: RankingProblem) -> None:
        n_hidden, n_epochs = check_count(self.n_hidden, "n_hidden"), check_count(self.n_epochs, "n_epochs")
        layers = train_network(task, check_generator(self.random_state), n_hidden, n_epochs)
        self.visual_map_, self.first_bias_ = layers[0][:-1] / task.image_length, layers[0][-1]
        self.hidden_layer_, self.last_layer_ = layers[1], layers[2] / task.label_length
        self.direction_gap_ = 0.0

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        return self._directions(X) @ (M @ self.label_basis_).T

    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        return parts_in_span(self.label_basis_ @ self._directions(X)[0], self._seen_vectors(), M[0])

    def _directions(self, X: Any) -> Matrix:
        """Coordinates of each image's direction in the basis of the label space."""
        output = self._project(X, self.visual_map_)
        if self.first_bias_.size:
            output = np.maximum(output + self.first_bias_, 0.0)
            output = np.maximum(output @ self.hidden_layer_[:-1] + self.hidden_layer_[-1], 0.0)
            output = output @ self.last_layer_[:-1] + self.last_layer_[-1]
        return output


def train_network(problem: RankingProblem, rng: np.random.Generator, n_hidden: int, n_epochs: int) -> list[Matrix]:
    """AdamW on the RankNet loss, the step falling linearly to 0; returns three layers, biases in their last rows.

    The last layer begins at zero, so that nothing depends on the basis of the label space.
    """
    try:
        torch = import_module("torch")
    except ImportError:
        raise ImportError(
            'mapping: "network" needs PyTorch to fit. Install it with pip install "unseen[torch]", '
            'or pass mapping="linear".'
        ) from None

    n_features, rank = problem.X.shape[1], problem.C.shape[1]
    order, n_batches = problem.order_by_contents(rng), -(-len(problem.T) // BATCH)
    labels = torch.tensor(problem.C, dtype=torch.float32)
    reach = np.sqrt(n_features)  # features of unit size suit the usual first weights
    with torch.random.fork_rng(devices=[]):  # leaves the generator of others alone
        torch.manual_seed(int(rng.integers(2**31)))
        first, hidden = torch.nn.Linear(n_features, n_hidden), torch.nn.Linear(n_hidden, n_hidden)
        last, relu, drop = torch.nn.Linear(n_hidden, rank), torch.nn.ReLU(), torch.nn.Dropout(DROPOUT)
        for layer in (first, hidden):
            torch.nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        for zeros in (first.bias, hidden.bias, last.weight, last.bias):
            torch.nn.init.zeros_(zeros)
        network = torch.nn.Sequential(first, relu, drop, hidden, relu, drop, last)
        optimiser = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
        schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, max(n_epochs * n_batches, 1))
        for _ in range(n_epochs):
            shuffled = order[rng.permutation(len(order))]
            for start in range(0, len(shuffled), BATCH):
                rows = shuffled[start : start + BATCH]
                scores = network(torch.tensor(reach * problem.take(rows), dtype=torch.float32)) @ labels.T
                loss = ranknet_loss(torch, scores, torch.tensor(problem.T[rows]))
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                schedule.step()
    found = [torch.vstack([layer.weight.T, layer.bias]).detach().numpy() for layer in (first, hidden, last)]
    found[0][:-1] *= reach
    return [layer.astype(np.float64) for layer in found]


def ranknet_loss(torch: Any, scores: Any, targets: Any) -> Any:
    """Mean over images of the mean over their (positive, negative) pairs of ``log(1 + exp(s_n - s_p))``."""
    pairs = (targets > 0)[:, :, None] & (targets < 0)[:, None, :]
    losses = pairs * torch.nn.functional.softplus(scores[:, None, :] - scores[:, :, None])
    return (losses.sum(dim=(1, 2)) / pairs.sum(dim=(1, 2))).mean()
