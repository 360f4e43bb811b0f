"""The promises that every method keeps, and `check_tagger`, which tries a method written elsewhere on them."""

from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal, assert_raises
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from unseen.base import ZeroShotTagger
from unseen.datasets.scenes import make_tagged_scenes
from unseen.validation import Matrix

# These checks of scikit-learn pass y by keyword, but fit calls annotations Y.
_BY_KEYWORD = {f"check_sample_weight_equivalence_on_{kind}_data": "y by keyword" for kind in ("dense", "sparse")}


def check_tagger(estimator: ZeroShotTagger) -> None:
    """Raise an AssertionError that names the promise broken, unless a method keeps every promise of the library.

    The method is fitted many times on 120 simulated images with 16 features, annotated with 12 labels, whose
    vectors have 16 dimensions. Fits of the same problem may differ by 0.5 % of the spread of the scores.

    Parameters
    ----------
    estimator : ZeroShotTagger
        Not fitted; with a tight tolerance, and with a fixed ``random_state`` if it draws random numbers. A method
        that cannot do without label vectors, or cannot explain its scores, raises a ValueError when asked to.

    Examples
    --------
    >>> from unseen.baselines import ESZSL
    >>> check_tagger(ESZSL())
    """
    trial = Trial(estimator)
    for promise in PROMISES:
        try:
            promise(trial)
        except Exception as error:
            name = f"{type(estimator).__name__} breaks {promise.__name__}"
            raise AssertionError(f"{name}: {promise.__doc__} {type(error).__name__}: {error}") from error


class Trial:
    """A method, and the simulated images that it is tried on."""

    def __init__(self, estimator: ZeroShotTagger) -> None:
        self.estimator = estimator
        self.data = make_tagged_scenes(120, 30, n_features=16, n_dims=16, random_state=1)
        self.X, self.Y, self.X_test = self.data.X_train, self.data.Y_train[:, self.data.seen], self.data.X_test

    def fit(self, **changed: Any) -> Any:
        """Fit a clone on the images, with some arguments replaced."""
        given = {"X": self.X, "Y": self.Y, "seen": self.data.seen_labels, "unseen": self.data.unseen_labels}
        return clone(self.estimator).fit(**(given | changed))

    @cached_property
    def model(self) -> Any:
        """Fitted on all of it; not to be changed."""
        return self.fit()

    @cached_property
    def scores(self) -> Matrix:
        """Scores of the model for all labels on the test images."""
        return np.asarray(self.model.decision_function(self.X_test, "all"))

    @cached_property
    def needs_vectors(self) -> bool:
        """Whether it refuses to learn without label vectors."""
        try:
            self.fit(seen=None, unseen=None)
        except ValueError:
            return True
        return False

    def assert_same_scores(self, model: Any, X: Any = None) -> None:
        """Another fit of the same problem, or other storage, gives the scores up to the solver's tolerance."""
        found = model.decision_function(self.X_test if X is None else X, list(self.model.label_names_))
        assert_allclose(found, self.scores, rtol=0, atol=0.005 * self.scores.std())


def scores_fit_images_and_labels(trial: Trial) -> None:
    """There is one finite score for each image and label; a probability, if there is one, is from 0 to 1."""
    X, model, shape = trial.X_test, trial.model, (30, 24)
    assert trial.scores.shape == shape, f"decision_function: shape {trial.scores.shape}, not {shape}."
    assert model.threshold(X).shape == (30,), f"threshold: shape {model.threshold(X).shape}, not (30,)."
    assert np.isfinite(trial.scores).all(), "decision_function: not all finite."
    if hasattr(model, "predict_proba"):
        p = np.asarray(model.predict_proba(X, "all"))
        assert p.shape == shape, f"predict_proba: shape {p.shape}, not {shape}."
        assert ((p >= 0.0) & (p <= 1.0)).all(), f"predict_proba: values from {p.min():g} to {p.max():g}."


def scores_stand_alone(trial: Trial) -> None:
    """A score does not depend on the other images and labels."""
    rng, X, names = np.random.default_rng(0), trial.X_test.astype(np.float64), trial.model.label_names_
    whole, thresholds = trial.model.decision_function(X, "all"), trial.model.threshold(X)
    for images, labels in ((rng.permutation(30), rng.permutation(24)), (np.array([3]), np.array([20]))):
        some = trial.model.decision_function(X[images], [names[i] for i in labels])
        assert_allclose(some, whole[np.ix_(images, labels)], rtol=0, atol=1e-12)
        assert_allclose(trial.model.threshold(X[images]), thresholds[images], rtol=0, atol=1e-12)


def labels_are_known_by_their_vectors(trial: Trial) -> None:
    """Labels that fit has not met get scores, and a seen label is recognised by its vector."""
    model, seen = trial.fit(unseen=None), trial.data.seen_labels.vectors
    scores = model.decision_function(trial.X_test, trial.data.unseen_labels)
    assert scores.shape == (30, 12)
    assert (scores.std(axis=0) > 0).all(), "a label has the same score on all images."
    rounded = model.decision_function(trial.X_test, seen * (1 + 1e-7))  # as encoders do
    assert_allclose(rounded, model.decision_function(trial.X_test), rtol=0, atol=1e-4)


def tags_follow_the_scores(trial: Trial) -> None:
    """Tags are the labels with the highest scores, predictions those above 0; similarity is symmetric."""
    names, similar = trial.model.label_names_, trial.model.similar_labels
    assert_array_equal(trial.model.predict(trial.X_test, "all"), trial.scores > 0)
    for tags, row in zip(trial.model.tag(trial.X_test, top=4), trial.scores, strict=True):
        assert [tag.score for tag in tags] == sorted(row, reverse=True)[:4]
        assert all(row[names.index(tag.name)] == tag.score for tag in tags)
    there, back = (dict(tag[:2] for tag in similar(names[i], top=99))[names[j]] for i, j in ((0, -1), (-1, 0)))
    assert abs(there - back) <= 1e-12
    assert similar(trial.data.seen_labels.vectors[0], top=1)[0].name == names[0]


def order_is_immaterial(trial: Trial) -> None:
    """The order of images and labels in fit does not matter."""
    rng, seen = np.random.default_rng(0), trial.data.seen_labels
    images, labels = (rng.permutation(n) for n in trial.Y.shape)
    named = seen.select([seen.names[i] for i in labels])
    trial.assert_same_scores(trial.fit(X=trial.X[images], Y=trial.Y[np.ix_(images, labels)], seen=named))


def storage_is_immaterial(trial: Trial) -> None:
    """Memory-mapped, sparse and double-precision features give the same model, and normalised rows any length."""
    X, X_test = trial.X, trial.X_test
    with TemporaryDirectory() as folder:
        np.save(Path(folder) / "X.npy", X)
        mapped = trial.fit(X=np.load(Path(folder) / "X.npy", mmap_mode="r"))
    for model in (mapped, trial.fit(X=np.asfortranarray(X))):
        assert_array_equal(model.decision_function(X_test, "all"), trial.scores)
    rows = sp.coo_array(X)
    twice = (np.tile(rows.data / 2, 2), [np.tile(axis, 2) for axis in rows.coords])  # entries mean their sum
    for other in (X.astype(np.float64), sp.csr_matrix(X), sp.coo_array(twice, X.shape).tocsr()):
        trial.assert_same_scores(trial.fit(X=other))
    for other in (sp.csr_array(X_test), X_test.astype(np.float64)):
        trial.assert_same_scores(trial.model, other)
    if trial.model.normalize:
        powers = 2.0 ** np.random.default_rng(0).integers(-3, 4, size=(150, 1)).astype(X.dtype)
        stretched = trial.fit(X=X * powers[:120]).decision_function(X_test * powers[120:], "all")
        assert_array_equal(stretched, trial.scores)


def fits_are_repeatable(trial: Trial) -> None:
    """The same data give the same bits; they and the parameters stay as they were."""
    given = {"X": trial.X.copy(), "Y": trial.Y.astype(float), "seen": trial.data.seen_labels.vectors.copy()}
    for array in given.values():
        array.flags.writeable = False
    again = trial.fit(**given)
    before, after = (repr(sorted(one.get_params().items())) for one in (trial.estimator, again))
    assert before == after, f"fit changes parameters: {before} before, {after} after."
    for ask in ("threshold", "decision_function"):
        assert_array_equal(getattr(again, ask)(trial.X_test), getattr(trial.model, ask)(trial.X_test))


def unknown_is_not_absent(trial: Trial) -> None:
    """An entry of Y that is NaN is not taken for 0."""
    hidden = np.random.default_rng(0).random(trial.Y.shape) < 0.3
    unknown, absent, opposite = (
        trial.fit(Y=Y).decision_function(trial.X_test, "all")
        for Y in (np.where(hidden, np.nan, trial.Y), np.where(hidden, 0, trial.Y), 1 - trial.Y)
    )
    learns = np.ptp(opposite - trial.scores) > 1e-6  # more than a threshold
    assert not learns or np.abs(unknown - absent).max() > 0.01 * absent.std(), "the scores are the same."


def explanations_are_exact(trial: Trial) -> None:
    """The parts of an explanation, the largest first, and the offset sum to the score.

    If all parts are of seen labels, the offset is minus the threshold.
    """
    for storage, name in ((np.asarray, trial.model.label_names_[14]), (sp.csr_array, trial.model.label_names_[3])):
        X = storage(trial.X_test)
        try:
            why = trial.model.explain(X[7:8], name)
        except ValueError as error:
            if str(error).startswith("explain: "):  # this method cannot explain, and says so
                return
            raise
        values = [part.value for part in why.parts]
        assert_allclose(why.score, trial.model.decision_function(X, [name])[7, 0], rtol=0, atol=1e-6)
        assert_allclose(sum(values) + why.offset, why.score, rtol=0, atol=1e-9)
        assert [abs(value) for value in values] == sorted(map(abs, values), reverse=True)
        if {part.name for part in why.parts} == set(trial.data.seen_labels.names):
            size = max(1.0, np.abs(values).sum())
            assert_allclose(why.offset, -trial.model.threshold(X)[7], rtol=0, atol=1e-6 * size)


def a_loaded_model_is_the_saved_one(trial: Trial) -> None:
    """All that a model has learned is in its file: its parameters and the attributes that end in _."""
    models = [trial.fit(relations=trial.data.relations("hierarchy"))]
    if not trial.needs_vectors:
        classes = np.array(trial.data.scene_names, dtype=object)[trial.data.scenes_train]
        models += [trial.fit(Y=Y, seen=None, unseen=None) for Y in (trial.Y, classes)]
    with TemporaryDirectory() as folder:
        first, second = Path(folder) / "first", Path(folder) / "second"
        for model in models:
            model.save(first)
            loaded = type(model).load(first)
            lost = sorted(set(vars(model)) ^ set(vars(loaded)))
            assert not lost, f"{lost} would be lost."
            for ask in ("decision_function", "predict", "threshold", "tag"):
                assert_array_equal(getattr(loaded, ask)(trial.X_test), getattr(model, ask)(trial.X_test))
            assert loaded.classes_.dtype == model.classes_.dtype
            loaded.save(second)
            assert first.read_bytes() == second.read_bytes(), "saved again, the file has other bytes."


def bad_input_is_refused(trial: Trial) -> None:
    """Bad input raises a ValueError and leaves the earlier fit as it was; a model that is not fitted says so."""
    model, X, Y, seen = trial.fit(), trial.X, trial.Y, trial.data.seen_labels
    for bad_X, bad_Y in ((X * np.nan, Y), (X, Y / 2), (X, Y[:99])):  # unknown features, halves, too few rows
        assert_raises(ValueError, model.fit, bad_X, bad_Y, seen)
    assert_raises(ValueError, model.predict, X[:, :7])
    assert_raises(ValueError, model.tag, X, ["no such label"])
    assert_raises(NotFittedError, clone(trial.estimator).predict, X)
    assert_array_equal(model.decision_function(trial.X_test, "all"), trial.scores)


def scikit_learn_accepts_it(trial: Trial) -> None:
    """The checks of scikit-learn pass, if it can learn without label vectors."""
    if not trial.needs_vectors:
        check_estimator(
            clone(trial.estimator), expected_failed_checks=_BY_KEYWORD, on_skip=None, on_fail=None, callback=_told
        )


def _told(check_name: str, status: str, exception: Exception | None, **_: Any) -> None:
    if status == "failed":
        raise AssertionError(f"{check_name}: {exception!r}") from exception


PROMISES = (
    scores_fit_images_and_labels, fits_are_repeatable, scores_stand_alone, labels_are_known_by_their_vectors,
    tags_follow_the_scores, order_is_immaterial, storage_is_immaterial, unknown_is_not_absent,
    explanations_are_exact, a_loaded_model_is_the_saved_one, bad_input_is_refused, scikit_learn_accepts_it,
)  # fmt: skip
