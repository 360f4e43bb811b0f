"""What every method promises, whatever it learns."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from unseen.testing import PROMISES, Trial, check_tagger

from .estimators import WITH_VECTORS, LeastSquares, Recording


# The last one, scikit-learn's checks, is tried one by one in test_sklearn_checks.py.
@pytest.mark.parametrize("promise", PROMISES[:-1], ids=lambda promise: promise.__name__)
def test_every_method_keeps_the_promises(trial, promise):
    promise(trial)


@pytest.fixture(name="plain")
def without_vectors(trial):
    """Methods that do without label vectors: their scores are sums over the seen labels, no image adds to them."""
    if trial.estimator in WITH_VECTORS:
        pytest.skip("scores are not sums over seen labels")
    return trial


def test_an_image_without_a_known_entry_is_as_good_as_left_out(plain):
    kept = np.arange(120) % 2 == 0
    blank, left_out = (
        plain.fit(Y=np.where(kept[:, None], plain.Y, np.nan)),
        plain.fit(X=plain.X[kept], Y=plain.Y[kept]),
    )
    scores, expected = (model.decision_function(plain.X_test, "all") for model in (blank, left_out))
    np.testing.assert_allclose(scores, expected, rtol=0, atol=0.005 * expected.std())


def test_a_label_absent_at_fit_time_is_explained_by_the_seen_ones(plain):
    vectors = plain.data.seen_labels.vectors.copy()
    vectors[1], vectors[2] = vectors[0], 0.5 * (vectors[3] + vectors[4])  # dependent labels
    model = plain.fit(Y=np.where(plain.Y[:, ::-1] == 1, np.nan, plain.Y), seen=vectors, unseen=None)
    for label in (plain.data.unseen_labels.vectors[0], vectors[2]):
        why = model.explain(plain.X_test[5], label)
        assert why.score == pytest.approx(model.decision_function(plain.X_test[5:6], [label])[0, 0], abs=1e-6)
        assert why.offset == pytest.approx(-model.threshold(plain.X_test[5:6])[0], abs=1e-5)
        assert {part.name for part in why.parts} == set(model.label_names_)


def test_a_method_that_cannot_explain_says_so(trial):
    if type(trial.estimator).__name__ == "Cosine":
        with pytest.raises(ValueError, match=r"^explain: .*Cosine"):
            trial.model.explain(trial.X_test[0], "cat")


@pytest.mark.filterwarnings("error")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_extreme_numbers_are_refused_by_name_or_give_finite_scores(trial):
    vectors, late = (labels.vectors for labels in (trial.data.seen_labels, trial.data.unseen_labels))
    first, column = (np.where(np.arange(12)[:, None] == 0, 1e45, 1.0), np.where(np.arange(16) == 0, 1e45, 1.0))
    for given in ({"seen": vectors * 1e-45, "unseen": late * 1e45}, {"seen": vectors * first, "unseen": late},
                  {"seen": vectors * column, "unseen": late / column}, {"seen": vectors * 1e45, "unseen": late},
                  {"relations": np.full((24, 24), 1e99)}, {"relations": np.full((24, 24), 1e-308)},
                  {"X": trial.X * 1e10}):  # fmt: skip
        model = trial.fit(**given)
        found = [tag.score for tag in model.similar_labels(model.label_names_[0])]
        assert np.isfinite(model.decision_function(trial.X_test, "all")).all()
        assert np.isfinite(found).all()
    parameters = trial.estimator.get_params(deep=False)
    for name in (name for name, value in parameters.items() if type(value) is float):
        for value in (5e-324, 1e-200, 1e200, 1e308, 10**400):
            with pytest.raises(ValueError, match=f"^{name}: "):
                Trial(clone(trial.estimator).set_params(**{name: value})).fit()


class Transposed(LeastSquares):
    def decision_function(self, X, labels="seen"):
        return super().decision_function(X, labels).T


class OfVectorsAlone(LeastSquares):
    def fit(self, X, Y, seen=None, unseen=None, **more):
        if seen is None:
            raise ValueError("seen: this method needs label vectors.")
        return super().fit(X, Y, seen, unseen, **more)


class Certain(OfVectorsAlone):
    def predict_proba(self, X, labels="seen"):
        return 3 * self.decision_function(X, labels)


class Tuning(OfVectorsAlone):
    def _fit(self, problem):
        super()._fit(problem)
        self.center = False


class Batchwise(LeastSquares):
    def _margin_scores(self, X, M):
        return super()._margin_scores(X, M) - X.mean()


class Fixed(LeastSquares):
    def _margin_scores(self, X, M):
        return 0 * super()._margin_scores(X, M)


class Random(LeastSquares):
    def _fit(self, problem):
        super()._fit(problem)
        self.weights_ += 1e-9 * np.random.default_rng().normal(size=self.weights_.shape)


class Ordered(LeastSquares):
    def _fit(self, problem):
        super()._fit(problem._replace(X=problem.X[:60], T=problem.T[:60]))


class Absent(LeastSquares):
    def _fit(self, problem):
        super()._fit(problem._replace(T=np.where(problem.T == 1, 1, -1)))


class Inexact(LeastSquares):
    def _seen_parts(self, X, M):
        return np.ones((1, self.n_seen_))


class Trusting(LeastSquares):
    def _check_images(self, X, *, reset=False):
        return super()._check_images(X if sp.issparse(X) else np.nan_to_num(X), reset=reset)


class Generous(LeastSquares):
    def predict(self, X, labels="seen", top=None):
        return 0 * super().predict(X, labels, top) + 1


class Counting(LeastSquares):
    def __init__(self, normalize=True, center=True):
        super().__init__(normalize, center)
        self.n_fits = 0


class OfAnyLength(LeastSquares):
    def _margin_scores(self, X, M):
        return X @ (self.weights_ @ M.T)


BROKEN = {
    Transposed: r"scores_fit_images_and_labels: .*shape \(24, 30\), not \(30, 24\)",
    Certain: "scores_fit_images_and_labels: .*predict_proba: values from",
    Tuning: "fits_are_repeatable: .*fit changes parameters",
    Batchwise: "scores_stand_alone",
    Fixed: "labels_are_known_by_their_vectors",
    Generous: "tags_follow_the_scores",
    Ordered: "order_is_immaterial",
    OfAnyLength: "storage_is_immaterial",
    Random: "fits_are_repeatable",
    Absent: "unknown_is_not_absent",
    Inexact: "explanations_are_exact",
    Recording: "a_loaded_model_is_the_saved_one",
    Trusting: "bad_input_is_refused",
    Counting: "scikit_learn_accepts_it: .*check_no_attributes_set_in_init: AssertionError",
}


def test_a_method_in_a_few_lines_keeps_them():
    check_tagger(LeastSquares())


@pytest.mark.parametrize("broken", BROKEN, ids=lambda cls: cls.__name__)
def test_a_broken_promise_is_named(broken):
    with pytest.raises(AssertionError, match=rf"^{broken.__name__} breaks {BROKEN[broken]}"):
        check_tagger(broken())
