"""TAEP: transfer-aware max-margin label embedding projection (Ye & Guo, 2018), with a certificate."""

import warnings
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _check_sample_weight, validate_data
from threadpoolctl import threadpool_limits

from unseen import validation
from unseen.base import TrainingProblem, ZeroShotTagger, is_dask, kept_for
from unseen.explanation import Explanation, Part
from unseen.solvers.rows import Rows, is_mapped_matrix, read_chunks, row_scale
from unseen.validation import Annotations, Matrix, check_choice, check_count, check_generator, check_number

LEAST_BETA = 1e-4  # practically a hard margin already; smaller ones would take hours
MOST_BETA = 1e20  # all scores are practically 0
SCALE_FREE_IMAGES = 1000  # the scale-free beta is that of this many images
SOLVERS = ("convex", "rounded", "alternating", "alternating-sweep")


@dataclass(eq=False, repr=False)
class TAEP(ZeroShotTagger):
    r"""Transfer-aware max-margin label embedding projection.

    Minimises over V = [W, W0] and a projection P of the label vectors M = [seen; unseen]::

        sum_i  w_i (mean_{c in Y_i} [1 - s_ic]_+  +  mean_{c not in Y_i} [1 + s_ic]_+)
            +  beta/2 |V|^2  +  gamma H(P)  +  lam A(P)

    (the paper has maxima in place of the means) with weights w_i of the images and margin scores
    ``s_ic = F(i, c) - F(i, 0)``, ``F(i, c) = x_i W U' m_c``, ``F(i, 0) = x_i W0``, ``P = U U'``.
    ``H(P) = tr(P M'QM) / 2`` draws unseen labels to seen ones and apart from each other, and
    ``A(P) = tr(P M'LM) / 2`` with the normalised Laplacian L of ``relations`` keeps related labels together. Rows
    of X and M have unit length.

    Parameters
    ----------
    rank : int or float, optional
        Trace of P: the rank r of the paper's U, which has orthonormal columns. A float in (0, 1] is a share of the
        number of seen labels, at least 1; None is 1.0. Never more than the number of dimensions.
    beta : float, default=0.5
        Weight of |V|^2.
    gamma, lam : float, default=0.03
        Weights of H and A. They act only if there are unseen labels or relations, respectively.
    loss : {"mean", "max"}, default="mean"
        What the labels of an image cost, its positives and its negatives apart. "max", the paper's, is the loss of
        the hardest label alone, and transfers less, the more labels there are.
    solver : {"convex", "rounded", "alternating", "alternating-sweep"}, default="convex"
        "convex" minimises over the convex hull of the projectors, the Fantope {0 <= P <= I, tr P = r}, to the
        global optimum. "rounded" then takes the top-r eigenvectors of P, a point of the paper's own problem.
        "alternating" is the paper's algorithm, which cycles when r is below full rank; "alternating-sweep" gives
        the duals one pass over the images before each update of U.
    scaling : {"scale-free", "paper"}, default="scale-free"
        "paper" uses beta, gamma and lam as printed. "scale-free" multiplies beta by ``sqrt(n / 1000)`` (n is the
        weight of the images that have annotations) and scales H and A to range within [-1, 1] for every image.
        Useful values of beta are then around 0.1 to 10, of gamma and lam 0.01 to 1, whatever n, r and the vectors.
    normalize : bool, default=True
        Scale features and label vectors to unit length.
    center : bool, default=True
        Subtract the mean of the label vectors given to `fit` (before scaling), also from labels scored later.
    tol : float, default=1e-3
        Certified relative gap to reach, ``relative_gap_ <= tol``.
    max_iter : int, default=200
        Maximum number of iterations over P.
    random_state : int, RandomState or None, default=0
        Order in which images are visited. The same seed and number of threads give the same bits.
    n_jobs : int, optional
        Threads that visit the images during `fit`, if there are enough images and X is dense; None means 1, -1
        all cores. The certificate holds for any number; within it, the solution may differ.
    memory : {"full", "low"}, default="full"
        "low" keeps a memory-mapped X (C-contiguous float32 or float64) in its file and reads chunks of 4096 images
        in random order.
    engine : {"local", "dask"}, default="local"
        "dask" trains on the workers of the current Dask client; a Dask array or data frame as X always does.
        Workers keep a dense X in files, so that it may be larger than their memory.
        The certificate holds whatever happens to the workers; within it, the solution may differ between runs.
    part_size : int, default=25000
        With Dask: images per part, a thread's unit of work. More parts run in parallel but need more rounds.
    warm_start : bool, default=False
        Start from the projection and duals of the last fit, if it had as many images, labels and dimensions:
        for a path over beta, gamma or lam. With ``max_iter=1`` each call of `fit` is one alternation.
    verbose : int, default=0
        1 prints one line per iteration.

    Attributes
    ----------
    objective_ : float
        Value of the objective at the solution.
    lower_bound_ : float
        No projection of this rank, U or P, has an objective below this.
    dual_gap_ : float
        ``objective_ - lower_bound_``: the certificate.
    relative_gap_ : float
        ``dual_gap_ / max(min(abs(objective_), data), 0.1 * data, 0.01 * n_sides)``, with data the objective
        without H and A, and n_sides the number (or weight) of non-empty sides of the losses.
    objective_trace_ : ndarray
        Objective after each iteration over P; with the convex solver it never rises (up to rounding).
    n_iter_, n_epochs_ : int
        Iterations over P, and passes over the images in all of them.
    projection_ : ndarray of shape (n_dims, q)
        ``projection_ @ projection_.T`` is P on the span of the label vectors.
    visual_projection_ : ndarray of shape (n_features, q)
        W: images to the space of the projected labels.
    threshold_weights_ : ndarray of shape (n_features,)
        W0.
    moments_ : ndarray of shape (n_features, n_seen)
        ``X'Psi / beta``: the contribution of each seen label to every score.
    beta_ : float
        The weight of |V|^2 in this fit.
    duals_ : csr_array of shape (n_images, n_seen)
        Psi: which images and labels support the solution.

    Examples
    --------
    >>> from unseen import TAEP, make_tagged_scenes
    >>> data = make_tagged_scenes(n_train=300, n_test=5)
    >>> model = TAEP(rank=6, beta=1.0, tol=1e-2)
    >>> _ = model.fit(data.X_train, data.Y_train[:, data.seen], data.seen_labels, data.unseen_labels)
    >>> bool(model.relative_gap_ <= 0.01)
    True
    """

    rank: float | None = None
    beta: float = 0.5
    gamma: float = 0.03
    lam: float = 0.03
    _: KW_ONLY
    loss: Literal["mean", "max"] = "mean"
    solver: Literal["convex", "rounded", "alternating", "alternating-sweep"] = "convex"
    scaling: Literal["scale-free", "paper"] = "scale-free"
    tol: float = 1e-3
    max_iter: int = 200
    random_state: Any = 0
    n_jobs: int | None = None
    memory: Literal["full", "low"] = "full"
    engine: Literal["local", "dask"] = "local"
    part_size: int = 25_000
    warm_start: bool = False
    verbose: int = 0
    _not_for_scores = ("duals_", "moments_")

    def fit(
        self,
        X: Any,
        Y: Any,
        seen: Any = None,
        unseen: Any = None,
        relations: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Learn from annotated images.

        Parameters
        ----------
        X, Y, seen, unseen, relations
            As in `ZeroShotTagger.fit`.
        sample_weight : array-like of shape (n_images,), optional
            Weights of the images' losses: an image of weight 2 counts as two, one of weight 0 as none.
        """
        return self._fit_or_restore(X, Y, seen, unseen, relations, sample_weight)

    def explain(self, x: ArrayLike, label: Any, X_train: Any = None) -> Explanation:
        """Split the score of one image for one label into exact contributions.

        ``s = sum_c e_c(x) m_c P m_label' - F(x, 0)``: the evidence that the image shows seen label c, times how
        close c is to the label after projection, and the threshold of the image. With
        ``e_c(x) = sum_i psi_ic <x_i, x> / beta`` the same sum runs over the training images.

        Parameters
        ----------
        x, label
            As in `ZeroShotTagger.explain`.
        X_train : array-like of shape (n_train, n_features), optional
            The features given to `fit`: the parts are then training images (named by their rows), in place of
            seen labels.
        """
        if X_train is None:
            return super().explain(x, label)
        X, name, M = self._question(x, label)
        training, n_images = self._check_images(X_train), self.duals_.shape[0]
        if training.shape[0] != n_images:
            raise ValueError(f"X_train: {training.shape[0]} images. Pass the {n_images} that were given to fit.")
        weights = self.duals_ @ self._closeness(M)[0] / self.beta_
        support = np.flatnonzero(weights)
        row = (X.toarray() if sp.issparse(X) else X).astype(np.float64) * row_scale(X, self.normalize_)
        values = weights[support] * self._project(training[support], row.T).ravel()
        parts = [Part("image", str(i), value) for i, value in zip(support, values.tolist(), strict=True)]
        why = self._explanation(X, name, M, parts)
        threshold = float(self._thresholds(X)[0])
        if abs(why.offset + threshold) > 1e-3 * (abs(threshold) + np.abs(self._seen_parts(X, M)).sum()):
            raise ValueError("X_train: the parts do not sum to the score. Pass the images of fit, in order.")
        return why

    def _check_restored(self) -> None:
        check_number(self.beta_, "beta_", strict=True)
        super()._check_restored()

    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        """Of pairs of an image and a label, one row each."""
        return self._project(X, self.moments_) * self._closeness(M)

    def _closeness(self, M: Matrix) -> Matrix:
        """Similarity of labels (rows) to the seen ones, after projection."""
        return self._label_space(M) @ self._label_space(self._seen_vectors()).T

    def _fit(self, problem: TrainingProblem) -> None:
        # Threads visit different images; BLAS threads inside the small products of a sweep would only wait.
        with threadpool_limits(limits=1):
            task, basis, duals = self._task(problem)
            fit = self._solve(task, basis, duals, problem.X.shape[0])
        self._store(task, basis, fit)
        if fit.relative_gap > self.tol:
            advice = "raise max_iter or tol" if fit.n_iter >= self.max_iter else "raise beta or tol"
            advice = advice if self.solver == "convex" else "solver='convex' reaches the optimum"
            gap = f"a certified relative gap of {fit.relative_gap:.2g} > tol={self.tol:g}"
            warnings.warn(f"TAEP stopped at {gap}: {advice}.", ConvergenceWarning, stacklevel=4)

    def _task(self, problem: TrainingProblem) -> tuple[Any, Matrix, Any]:
        """The problem in coordinates of the span of the label vectors, the basis of that span, and the duals."""
        from unseen.solvers.dual import LocalDual, TrainingImages  # loads numba, which scoring does not need
        from unseen.solvers.projection import ProjectionProblem
        from unseen.solvers.regulariser import projection_regulariser

        duals: Any
        rng = check_generator(self.random_state)
        beta = check_number(self.beta, "beta", low=LEAST_BETA, high=MOST_BETA)
        scaling = check_choice(self.scaling, "scaling", ("scale-free", "paper"))
        most = 1e6 if scaling == "scale-free" else 1e12  # beyond this, the regulariser dominates
        gamma, lam = check_number(self.gamma, "gamma", high=most), check_number(self.lam, "lam", high=most)
        n_seen, n_dims = problem.seen.shape
        rank = _check_rank(self.rank, n_seen, n_dims)
        is_spread = hasattr(problem.X, "futures")
        images = problem.X
        if not is_spread:
            rows = Rows(problem.X, row_scale(problem.X, self.normalize_), _n_threads(self.n_jobs))
            images = TrainingImages(rows, problem.T, problem.weights, is_mean=self._is_mean())
        if scaling == "scale-free":
            beta *= float(np.sqrt(images.annotated_weight / SCALE_FREE_IMAGES))
        if is_spread:
            from unseen.cluster.fit import ClusterDual

            duals = ClusterDual(images, beta, rng)
        else:
            duals = LocalDual(images, beta, rng)
        basis, C = _span(np.vstack([problem.seen, problem.unseen]))
        null = n_dims - C.shape[1]
        n_images = images.annotated_weight if scaling == "scale-free" else None
        B = projection_regulariser(
            C, n_seen, problem.relations, gamma=gamma, lam=lam, rank=rank, null=null, n_images=n_images
        )
        return ProjectionProblem(C[:n_seen], B, beta, rank, null), basis, duals

    def _is_mean(self) -> bool:
        return check_choice(self.loss, "loss", ("mean", "max")) == "mean"

    def _solve(self, task: Any, basis: Matrix, duals: Any, n_images: int) -> Any:
        from unseen.solvers.projection import Start, round_to_rank, solve_alternating, solve_convex

        solver = check_choice(self.solver, "solver", SOLVERS)
        tol, max_iter = check_number(self.tol, "tol", strict=True), check_count(self.max_iter, "max_iter")
        line = "TAEP iteration {}: objective {:.6g}, lower bound {:.6g}".format
        report = (lambda *figures: print(line(*figures))) if self.verbose else None
        options: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "progress": report}
        earlier = getattr(self, "duals_", None) if self.warm_start else None
        shape = (n_images, len(task.C))
        if earlier is not None and earlier.shape == shape and len(basis) == len(self.projection_):
            root = basis.T @ self.projection_
            options["start"] = Start(root @ root.T, earlier)
        if solver == "alternating":
            return solve_alternating(task, duals, **options)
        if solver == "alternating-sweep":
            return solve_alternating(task, duals, max_epochs=1, **options)
        fit = solve_convex(task, duals, **options)
        return round_to_rank(task, fit, tol=tol) if solver == "rounded" else fit

    def _check_data(self, X: Any, Y: Any, sample_weight: Any) -> tuple[Any, Annotations, Matrix | None]:
        memory = check_choice(self.memory, "memory", ("full", "low"))
        if check_choice(self.engine, "engine", ("local", "dask")) == "local" and not is_dask(X):
            X, annotations, _ = super()._check_data(X, Y.compute() if is_dask(Y) else Y, None)
            return X, annotations, _check_weights(sample_weight, X)
        from unseen.cluster.fit import check_dask_images, spread

        if memory == "low":
            raise ValueError("memory: 'low' keeps X in a file of this machine. Pass 'full' to train on a cluster.")
        X = check_dask_images(self, X) if is_dask(X) else self._check_images(X, reset=True)
        options: Any = {"normalize": self.normalize_, "is_mean": self._is_mean()}
        part_size, weights = check_count(self.part_size, "part_size"), _check_weights(sample_weight, X)
        return *spread(X, Y, part_size=part_size, weights=weights, **options), None

    def _check_images(self, X: Any, *, reset: bool = False) -> Any:
        if self.memory == "low" and is_mapped_matrix(X):
            for rows, chunk in read_chunks(X):
                validate_data(self, chunk, reset=reset and rows.start == 0, dtype=[np.float64, np.float32])
                if not self.normalize_:
                    validation.refuse_huge_entries(chunk)
            return X
        return super()._check_images(X, reset=reset)

    def _store(self, task: Any, basis: Matrix, fit: Any) -> None:
        weights, vectors = np.linalg.eigh(fit.P)
        kept = weights > 1e-9
        root = vectors[:, kept] * np.sqrt(weights[kept])
        self.duals_ = fit.duals.tocsr()
        self.moments_ = np.ascontiguousarray(fit.duals.moments()[1].T / task.beta)
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
        projected = self._project(X, np.column_stack([self.visual_projection_, self.threshold_weights_]))
        return projected[:, :-1] @ kept_for(self, M, self._label_space).T - projected[:, -1:]

    def _thresholds(self, X: Any) -> Matrix:
        return self._project(X, self.threshold_weights_[:, None])[:, 0]

    def _label_space(self, M: Matrix) -> Matrix:
        projection: Matrix = self.projection_
        return M @ projection

    def _project(self, X: Any, weights: Matrix) -> Matrix:
        """``X weights`` with the rows of X scaled as in training."""
        product = np.asarray(X @ weights.astype(X.dtype), dtype=np.float64)
        product *= row_scale(X, self.normalize_)[:, None]
        return product


def _check_weights(sample_weight: Any, X: Any) -> Matrix | None:
    if sample_weight is None:
        return None
    validation.refuse_other_numbers(sample_weight, "sample_weight")
    try:
        weights: Matrix = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    except ValueError as error:
        raise error if "sample_weight" in str(error) else ValueError(f"sample_weight: {error}") from None
    if not weights.any():
        raise ValueError("sample_weight: all are 0. Give at least one image a weight above 0.")
    least, most, (low, high) = weights[weights > 0.0].min(), weights.max(), validation.ENTRIES
    if least < low or most > high:
        raise ValueError(f"sample_weight: from {least:g} to {most:g}. Pass 0, or from {low:g} to {high:g}.")
    return weights


def _check_rank(rank: Any, n_seen: int, n_dims: int) -> int:
    if rank is None or isinstance(rank, float | np.floating):
        share = 1.0 if rank is None else check_number(rank, "rank", high=1.0, strict=True)
        return min(max(round(share * n_seen), 1), n_dims)
    number = check_count(rank, "rank")
    if number > n_dims:
        raise ValueError(f"rank: {rank} was given. Pass at most {n_dims}, the dimensions of the label vectors.")
    return number


def _n_threads(n_jobs: int | None) -> int:
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise ValueError(f"n_jobs: {n_jobs!r} was given. Pass a number of threads, -1 for all cores, or None.")
    return int(effective_n_jobs(n_jobs))


def _span(M: Matrix) -> tuple[Matrix, Matrix]:
    """Orthonormal basis (n_dims, k) of the span of the rows of M, and their coordinates in it."""
    left, singular, right = np.linalg.svd(M, full_matrices=False)
    k = int(np.count_nonzero(singular > 1e-10 * singular[0]))
    return right[:k].T, left[:, :k] * singular[:k]
