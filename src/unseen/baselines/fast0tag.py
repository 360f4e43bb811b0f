"""Fast0Tag: fast zero-shot image tagging by principal directions (Zhang, Gong & Shah, 2016)."""

from dataclasses import dataclass
from typing import Any

from threadpoolctl import threadpool_limits

from unseen.base import TrainingProblem
from unseen.baselines._linear import gather, parts_in_span, ridge_solver
from unseen.baselines._ranking import RankingTagger, principal_directions, ranking_problem
from unseen.validation import Matrix, check_number

TOL = 1e-8  # relative duality gap of each image's ranking SVM


@dataclass(eq=False, repr=False)
class Fast0Tag(RankingTagger):
    r"""A direction in the label space for each image, along which its labels come before all others.

    Minimises over W, in closed form::

        sum_i |x_i W - w_i|^2  +  ridge sum_i |x_i|^2 |W|^2

    where the principal direction w_i of a training image is a ranking SVM over the label vectors: the minimiser of
    ``mean over p in Y_i, n not in Y_i of [1 - <w, m_p> + <w, m_n>]_+  +  alpha/2 |w|^2``. The score of a label is
    ``x W m_c``; the margin score subtracts a threshold ``x w0 + b`` of the image, see `LatEm`.

    Differences from the paper: this is its linear mapping, without the neural network; the loss of an image is the
    mean over its pairs, so that alpha does not depend on their number.

    Parameters
    ----------
    alpha : float, default=0.1
        Weight of |w|^2 in the ranking SVM of an image; labels are scaled to a median length of 1.
    ridge : float, default=1e-2
        Weight of |W|^2, relative to the sum of the squared lengths of the images.
    normalize, center : bool, default=True
        Scale features and label vectors to unit length, the latter after subtracting the mean of those in `fit`.

    Attributes
    ----------
    visual_map_, label_basis_ : ndarray of shape (n_features, rank) and (n_dims, rank)
        ``W = visual_map_ @ label_basis_.T``, with an orthonormal basis of the span of the seen labels.
    direction_gap_ : float
        Largest relative duality gap of the ranking SVMs.
    threshold_weights_, threshold_ : ndarray of shape (n_features,), float
        w0 and b.
    """

    alpha: float = 0.1
    ridge: float = 1e-2

    def _learn(self, problem: TrainingProblem) -> None:
        alpha = check_number(self.alpha, "alpha", strict=True)
        ridge = check_number(self.ridge, "ridge", strict=True)
        with threadpool_limits(limits=1):  # most products are too small to parallelise
            task = ranking_problem(problem, normalize=self.normalize_)
            directions, self.direction_gap_ = principal_directions(task.C, task.T, alpha=alpha, tol=TOL)
            solve = ridge_solver(task.X, ridge, "ridge", normalize=self.normalize_, relative=True)
        self.visual_map_ = solve(gather(task.X, directions / task.label_length, normalize=self.normalize_))
        self.label_basis_ = task.basis

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        return self._project(X, self.visual_map_) @ (M @ self.label_basis_).T

    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        direction = self.label_basis_ @ self._project(X, self.visual_map_)[0]
        return parts_in_span(direction, self._seen_vectors(), M[0])
