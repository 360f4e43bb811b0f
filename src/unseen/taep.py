"""TAEP: transfer-aware max-margin label embedding projection (Ye & Guo, 2018), with a certificate."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from unseen.solvers.images import as_images, row_scale
from unseen.solvers.projection import (
    ProjectionFit,
    ProjectionProblem,
    round_to_rank,
    solve_alternating,
    solve_convex,
)
from unseen.solvers.regulariser import projection_regulariser
from unseen.tagger import Matrix, Tag, TrainingProblem, ZeroShotTagger
from unseen.validation import check_choice, check_count, check_generator, check_number


@dataclass(frozen=True)
class Explanation:
    """Why an image got its score for a label: parts that sum to the score.

    Attributes
    ----------
    label : str
        What was explained.
    score : float
        Margin score, as in `TAEP.decision_function`.
    seen_labels : tuple of Tag
        Contribution of each seen label, the largest in absolute value first; they sum to ``score``.
    images : tuple of (int, float), or None
        Contribution of each training image that has one (row in X, value), the largest in absolute value
        first; they sum to ``score`` too. None unless the training features were passed.
    """

    label: str
    score: float
    seen_labels: tuple[Tag, ...]
    images: tuple[tuple[int, float], ...] | None


class TAEP(ZeroShotTagger):
    r"""Transfer-aware max-margin label embedding projection.

    Minimises over V = [W, W0] and a projection P of the label vectors M = [seen; unseen]::

        sum_i  max_{c in Y_i} [1 - s_ic]_+  +  max_{c not in Y_i} [1 + s_ic]_+
            +  beta/2 |V|^2  +  gamma H(P)  +  lam A(P)

    with the margin scores ``s_ic = F(i, c) - F(i, 0)``, ``F(i, c) = x_i W U' m_c``, ``F(i, 0) = x_i W0``,
    ``P = U U'``. ``H(P) = tr(P M'QM) / 2`` draws unseen labels to seen ones and apart from each other, and
    ``A(P) = tr(P M'LM) / 2`` with the normalised Laplacian L of ``relations`` keeps related labels together. Rows
    of X and M have unit length.

    Parameters
    ----------
    rank : int, optional
        Trace of P: the rank r of the paper's U, which has orthonormal columns. None takes the number of seen
        labels, or of dimensions if there are fewer.
    beta : float, default=10.0
        Weight of |V|^2; the losses are summed over the images, as in the paper.
    gamma, lam : float, default=0.1
        Weights of H and of A. They act only when there are unseen labels, or relations.
    solver : {"convex", "rounded", "alternating"}, default="convex"
        "convex" minimises over the convex hull of the projectors, the Fantope {0 <= P <= I, tr P = r}, to the
        global optimum. "rounded" then takes the top-r eigenvectors of P, a point of the paper's own problem.
        "alternating" is the paper's algorithm, which cycles when r is below full rank: for comparison.
    scaling : {"scale-free", "paper"}, default="scale-free"
        "paper" uses gamma and lam as printed, where they lose against a loss summed over n images.
        "scale-free" scales both terms so that, over all projections, each ranges within [-gamma, gamma] (and
        [-lam, lam]) for every image: useful values are around 0.01 to 1 whatever n, r and the vectors.
    normalize : bool, default=True
        Scale features and label vectors to unit length.
    center : bool, default=True
        Subtract the mean of the label vectors given to `fit` (before scaling), also from labels asked for later.
    tol : float, default=1e-3
        Certified relative gap to reach, ``relative_gap_ <= tol``.
    max_iter : int, default=200
        Most iterations over P.
    random_state : int, RandomState or None, default=0
        Order in which images are visited. The same seed gives the same bits.
    n_jobs : int, optional
        Threads of the matrix products during `fit`; None means 1, -1 all cores.
    verbose : int, default=0
        1 prints a line an iteration.

    Attributes
    ----------
    objective_ : float
        Value of the objective at the solution.
    lower_bound_ : float
        No projection of this rank, U or P, has an objective below this.
    dual_gap_ : float
        ``objective_ - lower_bound_``: the certificate.
    relative_gap_ : float
        ``dual_gap_`` relative to the objective; or to its part without H and A, if that is smaller; or to a tenth
        of that part or a hundredth of the loss of a model that says nothing, if these are larger: no objective
        near zero asks for more digits than there are.
    objective_trace_ : ndarray
        Objective after each iteration over P; with the convex solver it never rises (but for rounding).
    n_iter_, n_epochs_ : int
        Iterations over P, and passes over the images in all of them.
    projection_ : ndarray of shape (n_dims, q)
        ``projection_ @ projection_.T`` is P on the span of the label vectors.
    visual_projection_ : ndarray of shape (n_features, q)
        W: images to the space of the projected labels.
    threshold_weights_ : ndarray of shape (n_features,)
        W0.
    moments_ : ndarray of shape (n_features, n_seen)
        ``X'Psi / beta``: what each seen label contributes to every score.
    beta_ : float
        The beta of this fit.
    duals_ : csr_array of shape (n_images, n_seen)
        Psi: which images and labels support the solution.
    label_names_, label_vectors_, n_seen_
        The labels given to `fit`, the seen ones first.

    Examples
    --------
    >>> from unseen import TAEP, make_tagged_scenes
    >>> data = make_tagged_scenes(n_train=300, n_test=5)
    >>> model = TAEP(rank=6, beta=1.0, tol=1e-2)
    >>> _ = model.fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels, data.unseen_labels)
    >>> bool(model.dual_gap_ <= 0.01 * model.objective_)
    True
    >>> [len(tags) for tags in model.tag(data.X_test, "unseen", top=2)]
    [2, 2, 2, 2, 2]
    """

    def __init__(
        self,
        rank: int | None = None,
        beta: float = 10.0,
        gamma: float = 0.1,
        lam: float = 0.1,
        *,
        solver: Literal["convex", "rounded", "alternating"] = "convex",
        scaling: Literal["scale-free", "paper"] = "scale-free",
        normalize: bool = True,
        center: bool = True,
        tol: float = 1e-3,
        max_iter: int = 200,
        random_state: Any = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.rank = rank
        self.beta = beta
        self.gamma = gamma
        self.lam = lam
        self.solver = solver
        self.scaling = scaling
        self.normalize = normalize
        self.center = center
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def explain(self, x: ArrayLike, label: Any, X_train: Any = None) -> Explanation:
        """Split the score of one image for one label into exact contributions.

        ``s = sum_c e_c(x) K(c, label)``: the evidence that the image shows seen label c, times how close c is
        to the label after projection. With ``e_c(x) = sum_i psi_ic <x_i, x> / beta`` the same sum runs over the
        training images.

        Parameters
        ----------
        x : array-like of shape (n_features,) or (1, n_features)
            The image.
        label : str or array-like of shape (n_dims,)
            A name known from `fit`, or any label vector.
        X_train : array-like of shape (n_train, n_features), optional
            The features given to `fit`, to explain by training images too.

        Returns
        -------
        Explanation
        """
        check_is_fitted(self)
        X = self._check_images(x if sp.issparse(x) or hasattr(x, "columns") else np.atleast_2d(np.asarray(x)))
        if X.shape[0] != 1:
            raise ValueError(f"x: {X.shape[0]} images were given. Pass the features of one image.")
        name, vector = self._resolve_one(label)
        target = self._embed(vector[None], "label")
        seen = self._embed(self.label_vectors_[: self.n_seen_], "seen")
        closeness = (self._label_space(seen) @ self._label_space(target).T).ravel() + 1.0
        parts = self._project(X, self.moments_).ravel() * closeness
        by_images = None if X_train is None else self._explain_by_images(X, closeness, X_train)
        if by_images is not None and abs(sum(by_images.values()) - parts.sum()) > 1e-3 * np.abs(parts).sum():
            raise ValueError(
                "X_train: the contributions of these images do not sum to the score. Pass the features given to "
                "fit, all of them and in the same order."
            )
        return Explanation(
            label=name if name is not None else "label",
            score=float(parts.sum()),
            seen_labels=tuple(Tag(self.label_names_[c], float(parts[c])) for c in _largest_first(parts)),
            images=None if by_images is None else tuple(by_images.items()),
        )

    def _explain_by_images(self, X: Any, closeness: Matrix, X_train: Any) -> dict[int, float]:
        """Contribution of each training image that has one, by its row."""
        training = self._check_images(X_train)
        if training.shape[0] != self.duals_.shape[0]:
            raise ValueError(
                f"X_train: {training.shape[0]} images, but the model was fitted on {self.duals_.shape[0]}. "
                f"Pass the features given to fit."
            )
        weights = self.duals_ @ closeness / self.beta_
        support = np.flatnonzero(weights)
        x = X.toarray() if sp.issparse(X) else X
        x = x.astype(np.float64) * row_scale(X, self.normalize_)
        parts = weights[support] * self._project(training[support], x.T).ravel()
        return {int(support[i]): float(parts[i]) for i in _largest_first(parts)}

    def _fit(self, problem: TrainingProblem) -> None:
        task, basis = self._task(problem)
        rng = check_generator(self.random_state)
        # One thread by default: the products of a sweep are small, and threads that wait for each other on a busy
        # machine cost far more than they bring.
        with threadpool_limits(limits=_n_threads(self.n_jobs)):
            fit = self._solve(task, rng)
            self._store(task, basis, fit)
        if fit.relative_gap > self.tol:
            advice = (
                "the paper's alternation cycles below full rank, solver='convex' does not"
                if self.solver == "alternating"
                else "raise max_iter or tol"
                if self.solver == "convex"
                else "rounding to a projector costs objective; solver='convex' keeps the relaxed one"
            )
            warnings.warn(
                f"TAEP stopped at a certified relative gap of {fit.relative_gap:.2g} > "
                f"tol={self.tol:g}: {advice}.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _task(self, problem: TrainingProblem) -> tuple[ProjectionProblem, Matrix]:
        """The optimisation problem in coordinates of the span of the label vectors, and the basis of that span."""
        beta = check_number(self.beta, "beta", strict=True)
        scaling = check_choice(self.scaling, "scaling", ("scale-free", "paper"))
        most = 1e6 if scaling == "scale-free" else 1e12  # beyond, the regulariser is all there is
        gamma, lam = check_number(self.gamma, "gamma", high=most), check_number(self.lam, "lam", high=most)
        check_number(self.tol, "tol", strict=True)
        check_count(self.max_iter, "max_iter")
        n_seen, n_dims = problem.seen.shape
        rank = min(n_seen, n_dims) if self.rank is None else check_count(self.rank, "rank")
        if rank > n_dims:
            raise ValueError(
                f"rank: {rank} is more than the {n_dims} dimensions of the label vectors. Pass at most {n_dims}."
            )
        basis, C = _span(np.vstack([problem.seen, problem.unseen]))
        null = n_dims - C.shape[1]
        n_images = int(np.count_nonzero(problem.T.any(axis=1))) if scaling == "scale-free" else None
        B = projection_regulariser(
            C, n_seen, problem.relations, gamma=gamma, lam=lam, rank=rank, null=null, n_images=n_images
        )
        images = as_images(problem.X, normalize=self.normalize_)
        return ProjectionProblem(images, problem.T, C[:n_seen], B, beta, rank, null), basis

    def _solve(self, task: ProjectionProblem, rng: np.random.Generator) -> ProjectionFit:
        solver = check_choice(self.solver, "solver", ("convex", "rounded", "alternating"))
        minimise = solve_alternating if solver == "alternating" else solve_convex
        fit = minimise(task, rng, tol=self.tol, max_iter=self.max_iter, progress=_report if self.verbose else None)
        return round_to_rank(task, fit, rng, tol=self.tol) if solver == "rounded" else fit

    def _store(self, task: ProjectionProblem, basis: Matrix, fit: ProjectionFit) -> None:
        weights, vectors = np.linalg.eigh(fit.P)
        kept = weights > 1e-9
        root = vectors[:, kept] * np.sqrt(weights[kept])
        self.duals_ = fit.duals.tocsr()
        self.moments_ = task.images.gather(self.duals_) / task.beta
        self.projection_ = basis @ root
        self.visual_projection_ = self.moments_ @ (task.C @ root)
        self.threshold_weights_ = -self.moments_.sum(axis=1)
        self.objective_ = fit.objective
        self.lower_bound_ = min(fit.lower_bound, fit.objective)
        self.dual_gap_ = self.objective_ - self.lower_bound_
        self.relative_gap_ = fit.relative_gap
        self.objective_trace_ = np.array(fit.trace)
        self.n_iter_, self.n_epochs_ = fit.n_iter, fit.n_epochs
        self.beta_ = task.beta

    def _margin_scores(self, X: Any, M: Matrix) -> Matrix:
        weights = np.column_stack([self.visual_projection_, self.threshold_weights_])
        projected = self._project(X, weights)
        scores: Matrix = projected[:, :-1] @ self._label_space(M).T - projected[:, -1:]
        return scores

    def _thresholds(self, X: Any) -> Matrix:
        return self._project(X, self.threshold_weights_[:, None])[:, 0]

    def _label_space(self, M: Matrix) -> Matrix:
        projected: Matrix = M @ self.projection_
        return projected

    def _project(self, X: Any, weights: Matrix) -> Matrix:
        """``X weights`` with the rows of X scaled as in training."""
        product = np.asarray(X @ weights.astype(X.dtype), dtype=np.float64)
        product *= row_scale(X, self.normalize_)[:, None]
        return product


def _largest_first(parts: Matrix) -> NDArray[np.intp]:
    return np.argsort(-np.abs(parts), kind="stable")


def _n_threads(n_jobs: int | None) -> int:
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise ValueError(
            f"n_jobs: {n_jobs!r} was given. Pass a number of threads, -1 for all cores, or None for one."
        )
    return int(effective_n_jobs(n_jobs))


def _span(M: Matrix) -> tuple[Matrix, Matrix]:
    """Orthonormal basis (n_dims, k) of the span of the rows of M, and their coordinates in it."""
    left, singular, right = np.linalg.svd(M, full_matrices=False)
    k = int(np.count_nonzero(singular > 1e-10 * singular[0]))
    return right[:k].T, left[:, :k] * singular[:k]


def _report(iteration: int, objective: float, lower_bound: float) -> None:
    print(f"TAEP iteration {iteration}: objective {objective:.6g}, lower bound {lower_bound:.6g}")
