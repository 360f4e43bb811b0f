"""Fast0Tag: fast zero-shot image tagging by principal directions (Zhang, Gong & Shah, 2016)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from threadpoolctl import threadpool_limits

from unseen.base import Matrix, TrainingProblem
from unseen.baselines._network import Layers, forward, import_torch, train_network
from unseen.baselines._ranking_svm import principal_directions
from unseen.baselines._sgd import label_coordinates, paired_rows, ranking_problem
from unseen.baselines._threshold import RankingTagger, relative_ridge
from unseen.explanation import parts_in_span
from unseen.validation import check_choice, check_count, check_generator, check_number


class Fast0Tag(RankingTagger):
    r"""A direction in the label space for each image, along which its labels come before all others.

    With ``mapping="linear"``, in closed form, minimises over W::

        sum_i |x_i W - w_i|^2  +  ridge sum_i |x_i|^2 |W|^2

    where the principal direction w_i of a training image is a ranking SVM over the label vectors: the minimiser of
    ``mean over p in Y_i, n not in Y_i of [1 - <w, m_p> + <w, m_n>]_+  +  alpha/2 |w|^2``.

    With ``mapping="network"`` minimises the RankNet loss over the weights of a neural network f, two hidden ReLU
    layers and a linear one::

        mean over i of  mean over p in Y_i, n not in Y_i of log(1 + exp(<f(x_i), m_n> - <f(x_i), m_p>))

    The score of a label is ``<f(x), m_c>``, with ``f(x) = x W`` for the linear mapping.

    Multi-label adaptation: none is needed, Zhang et al. are multi-label. Unknown labels are in no pair, and images
    without a pair are left out. What may differ: the loss of an image is the mean over its pairs in the ranking
    SVM too (so alpha does not depend on their number), the regression is a ridge one, and the network, which has
    thousands of hidden units in common implementations, is narrower by default and trained by AdamW.

    The margin score is the score minus the threshold ``F(x, 0) = x w0 + b`` of the image, a ridge regression of
    the midpoint between the scores of the positive and of the negative labels of the training images.

    `explain`: the direction lies in the span of the seen labels, ``f(x) = sum_k e_k(x) m_k``; label k adds
    ``e_k(x) <m_k, m_c>`` to the score, the evidence for it times its likeness to the label.

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
        Units of each of the two hidden layers. Network only, as are the next four.
    dropout : float, default=0.3
        Share of the hidden units left out in each step.
    weight_decay : float, default=0.01
        Decoupled weight decay of AdamW.
    learning_rate : float, default=1e-3
        First step; it falls linearly to 0.
    n_epochs : int, default=5
        Passes over the images. Few of them transfer best when there are thousands of images; hundreds need more.
    normalize : bool, default=True
        Scale features and label vectors to unit length.
    center : bool, default=True
        Subtract the mean of the label vectors given to `fit` (before scaling), also from labels asked for later.
    tol : float, default=1e-8
        Relative duality gap of the ranking SVM of every image.
    random_state : int, RandomState or None, default=0
        First weights of the network, its dropout and the order of the images.

    Attributes
    ----------
    label_basis_ : ndarray of shape (n_dims, rank)
        Orthonormal basis of the span of the seen labels, which holds the directions.
    visual_map_ : ndarray of shape (n_features, rank)
        ``W = visual_map_ @ label_basis_.T``. Linear mapping only.
    direction_gap_ : float
        Largest relative duality gap of the ranking SVMs. Linear mapping only.
    first_weights_, first_bias_, second_weights_, second_bias_, last_weights_, last_bias_ : ndarray
        The layers. Network only.
    loss_trace_ : ndarray of shape (n_epochs,)
        RankNet loss during each epoch, with dropout. Network only.
    threshold_weights_, threshold_ : ndarray of shape (n_features,), float
        w0 and b.
    label_names_, label_vectors_, n_seen_
        The labels given to `fit`, the seen ones first.

    Examples
    --------
    >>> from unseen import make_tagged_scenes
    >>> from unseen.baselines import Fast0Tag
    >>> data = make_tagged_scenes(n_train=300, n_test=5)
    >>> model = Fast0Tag().fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels)
    >>> model.decision_function(data.X_test, data.unseen_labels).shape
    (5, 12)
    """

    def __init__(
        self,
        mapping: Literal["linear", "network"] = "linear",
        alpha: float = 0.1,
        ridge: float = 1e-2,
        *,
        n_hidden: int = 256,
        dropout: float = 0.3,
        weight_decay: float = 0.01,
        learning_rate: float = 1e-3,
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
        self.dropout = dropout
        self.weight_decay = weight_decay
        self.learning_rate = learning_rate
        self.n_epochs = n_epochs
        self.normalize = normalize
        self.center = center
        self.tol = tol
        self.random_state = random_state

    def _learn(self, problem: TrainingProblem) -> None:
        mapping = check_choice(self.mapping, "mapping", ("linear", "network"))
        for name in ("visual_map_", "direction_gap_", "loss_trace_", *(f"{field}_" for field in Layers._fields)):
            if hasattr(self, name):  # left by an earlier fit with the other mapping
                delattr(self, name)
        (self._learn_linear if mapping == "linear" else self._learn_network)(problem)

    def _learn_linear(self, problem: TrainingProblem) -> None:
        alpha = check_number(self.alpha, "alpha", strict=True)
        ridge = check_number(self.ridge, "ridge", strict=True)
        tol = check_number(self.tol, "tol", strict=True)
        C, self.label_basis_, label_length = label_coordinates(problem.seen)
        self.visual_map_, self.direction_gap_ = np.zeros((problem.X.shape[1], C.shape[1])), 0.0
        rows = paired_rows(problem.T)
        if not len(rows):
            return
        X = problem.X if len(rows) == problem.X.shape[0] else problem.X[rows]
        directions, self.direction_gap_ = principal_directions(C, problem.T[rows], alpha=alpha, tol=tol)
        system = relative_ridge(X, ridge, "ridge", normalize=self.normalize_)
        self.visual_map_ = system.regress(X, directions / label_length, normalize=self.normalize_)

    def _learn_network(self, problem: TrainingProblem) -> None:
        import_torch()
        task = ranking_problem(
            problem.X, problem.T, problem.seen, alpha=0.0, worst=False, normalize=self.normalize_
        )
        settings: dict[str, Any] = {
            "n_hidden": check_count(self.n_hidden, "n_hidden"),
            "dropout": check_number(self.dropout, "dropout", high=0.95),
            "weight_decay": check_number(self.weight_decay, "weight_decay"),
            "learning_rate": check_number(self.learning_rate, "learning_rate", strict=True),
            "n_epochs": check_count(self.n_epochs, "n_epochs"),
        }
        rng = check_generator(self.random_state)
        with threadpool_limits(limits=1):  # the products of a step are too small to share
            layers, self.loss_trace_ = train_network(task, rng, **settings)
        self.label_basis_ = task.basis
        layers = layers._replace(
            first_weights=layers.first_weights / task.image_length,
            last_weights=layers.last_weights / task.label_length,
            last_bias=layers.last_bias / task.label_length,
        )
        for field, value in layers._asdict().items():
            setattr(self, f"{field}_", value)

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        scores: Matrix = self._directions(X) @ (M @ self.label_basis_).T
        return scores

    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        return parts_in_span(self.label_basis_ @ self._directions(X)[0], self._seen_vectors(), M[0])

    def _directions(self, X: Any) -> Matrix:
        """Coordinates of each image's direction in the basis of the label space."""
        if hasattr(self, "visual_map_"):
            return self._project(X, self.visual_map_)
        layers = Layers(*(getattr(self, f"{field}_") for field in Layers._fields))
        return forward(self._project(X, layers.first_weights), layers)
