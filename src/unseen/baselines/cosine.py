"""Cosine: the plain similarity of images and labels in a common space."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from unseen.base import TrainingProblem
from unseen.baselines._linear import ScoredTagger, unit_rows
from unseen.validation import Matrix, check_labels, check_number

SCALE = 100.0  # of the logits: where CLIP's training caps it (Radford et al. 2021)
SYNONYM = 0.6  # centred cosine: nearer are 68 % of synonyms and 3 % of siblings (benchmarks.text_synonyms)


@dataclass(eq=False, repr=False)
class Cosine(ScoredTagger):
    r"""Cosine between an image and a label whose vectors come from the same image-text model.

    ``score(x, c) = <x, m_c> / (|x| |m_c|)``. Only the threshold is learned, one for all labels: this is the
    baseline for features of CLIP-like models. Features and label vectors must have the same dimension. There
    is no `explain`, as no part of a score comes from a seen label. `without_annotations` learns nothing.

    Parameters
    ----------
    normalize : bool, default=True
        Scale features and label vectors to unit length. False gives the plain inner product.
    center : bool, default=False
        Subtract the mean of the label vectors given to `fit` (before scaling), also from labels scored later.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.baselines import Cosine
    >>> texts = {"cat": [1.0, 0.0, 0.2], "dog": [0.0, 1.0, 0.2]}
    >>> images = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.1], [0.7, 0.7, 0.0]])
    >>> model = Cosine().fit(images, [[1, 0], [0, 1], [1, 1]], texts)
    >>> model.predict(images, {"cat": texts["cat"], "kitten": [1.0, 0.1, 0.0]}).tolist()
    [[1, 1], [0, 0], [1, 1]]
    """

    _: KW_ONLY
    center: bool = False

    def _learn(self, problem: TrainingProblem) -> None:
        n_dims, n_features = problem.seen.shape[1], problem.X.shape[1]
        if n_dims != n_features:
            given = f"{n_dims} dimensions for images with {n_features} features"
            raise ValueError(f"seen: {given}. Take both from the same image-text model.")

    @classmethod
    def without_annotations(cls, reference: Any, scale: float | None = None, bias: float | None = None) -> Self:
        r"""A tagger that has seen no annotated image: its scores are the log-odds of `predict_proba`.

        With the scale and the bias that a SigLIP model has learned, p is the model's own probability of a pair::

            score(x, c) = scale cos(x, c) + bias

        Otherwise a label competes with a fixed vocabulary R, without its synonyms (and itself), and p is its share
        of the evidence: a photo that shows several things divides it between them::

            score(x, c) = scale cos(x, c) - log sum_{r in R, cos(c, r) < 0.6} exp(scale cos(x, r))

        where the cosines of labels are centred on R. The score of a label never depends on other labels asked for.
        Neither p has been calibrated on annotated photos.

        Parameters
        ----------
        reference : labels
            Names and text vectors of R, such as `unseen.labels.names.everyday_labels`; also the labels "all".
        scale, bias : float, optional
            By default 100, at which the training of CLIP caps it, and no bias.
        """
        model = cls()
        names, vectors = check_labels(reference, "reference")
        model.label_names_ = names or tuple(f"label {i}" for i in range(len(vectors)))
        model.label_vectors_, model.n_features_in_ = vectors, vectors.shape[1]
        model.normalize_, model.single_label_, model.n_seen_, model.classes_ = True, False, 0, np.arange(0)
        model.label_center_, model.threshold_ = np.zeros(vectors.shape[1]), 0.0
        model.scale_ = SCALE if scale is None else check_number(scale, "scale", strict=True)
        model.bias_ = None if bias is None else check_number(bias, "bias", low=-np.inf)
        return model

    def _gives_log_odds(self) -> bool:
        return not getattr(self, "n_seen_", 1)

    def _scores(self, X: Any, M: Matrix) -> Matrix:
        cosines = self._project(X, M.T)
        if self.n_seen_:
            return cosines
        if self.bias_ is not None:
            return np.asarray(self.scale_ * cosines + self.bias_)
        reference = self._embed(self.label_vectors_, "reference")
        evidence = self.scale_ * self._project(X, reference.T)
        most = evidence.max(axis=1, keepdims=True)
        is_rival = self._label_space(M) @ self._label_space(reference).T < SYNONYM
        rivals = np.exp(evidence - most) @ is_rival.T
        return np.asarray(self.scale_ * cosines - most - np.log(np.maximum(rivals, np.finfo(float).tiny)))

    def _label_space(self, M: Matrix) -> Matrix:
        if self.n_seen_:
            return M
        # All texts of CLIP have a large common part: cosines of names are 0.55 to 0.9 before they are centred.
        return unit_rows(M - self._embed(self.label_vectors_, "reference").mean(axis=0))

    def _seen_parts(self, X: Any, M: Matrix) -> Matrix:
        raise ValueError("explain: Cosine has no parts. Fit a model on its features: unseen features, unseen fit.")
