"""train and evaluate_photos: what is learned from, what is left out, and what is refused."""

import numpy as np
import pytest
from tests.photos.world import calibrated, fit, world, write_rows

from unseen import PhotoTagger
from unseen.datasets.annotations import Annotations
from unseen.ensembles import Adapted
from unseen.images.features import open_features
from unseen.photos.evaluation import evaluate_photos
from unseen.photos.training import adapt, sure_tags, train, verdict


def test_an_unseen_label_is_ranked_well_on_test_images():
    model = fit(world() / "labels.csv", unseen=["blue"]).model
    result = evaluate_photos(model, world() / "feats", world() / "labels.csv")
    assert (result.n_images, result.n_seen, result.warning) == (18, 2, "")
    assert list(result.average_precision) == ["red", "green", "blue"]
    assert result.summaries.keys() == {"zero-shot", "generalized", "seen"}
    assert result.summaries["generalized"].miap > 0.8
    shown = {row[0]: row for row in result.tables()[0].rows}
    assert shown["generalized"][2] == f"{100 * result.summaries['generalized'].miap:.2f}"
    assert shown["generalized"][4] == "-"  # three tags of three labels say nothing
    assert (result.tags, len(result.tables())) == ({}, 2)  # there are no probabilities


def test_sure_and_maybe_tags_are_judged_for_seen_and_unseen_labels(tmp_path):
    rows = [
        (f"{i:03d}.jpg", int(i % 6 == 0), "?" if i == 1 else int(i % 6 in (0, 2))) for i in range(60) if i % 6 < 3
    ]
    labels = write_rows(tmp_path / "l.csv", [("path", "red", "warm"), *rows])
    result = evaluate_photos(calibrated(), world() / "feats", labels)
    assert result.tags["sure", "seen"] == (10, 1.0, 1.0)  # red on the ten red photos, and nowhere else
    assert result.reliability["seen"].n_entries.sum() == 30
    assert result.reliability["unseen"].n_entries.sum() == 29
    n_sure, precision, recall = result.tags["sure", "unseen"]
    n_maybe, *_ = result.tags["maybe", "unseen"]
    assert (n_sure + n_maybe, recall) == (10, n_sure * precision / 20)
    _, of_tags, *of_reliability, _ = result.tables()
    assert ("sure", "seen", "10", "100.0", "100.0") in of_tags.rows
    assert [row[0].tone for row in of_reliability[0].rows] == ["muted"] * 10  # fewer than 200 tags each


def test_images_of_which_nothing_is_known_are_left_out(tmp_path):
    rows = [(f"{i:03d}.jpg", *(("?", "?") if i == 7 else (i % 2, int(i % 3 == 0)))) for i in range(20)]
    data = fit(write_rows(tmp_path / "l.csv", [("path", "red", "green"), *rows]), world() / "feats").data
    assert data.rows.tolist() == [i for i in range(20) if i != 7]
    assert len(data.annotations) == 19


def test_spellings_of_one_label_are_merged_with_a_note(tmp_path):
    rows = [(f"{i:03d}.jpg", int(i == 0), "?" if i == 2 else int(i == 1), i % 2) for i in range(40)]
    labels = write_rows(tmp_path / "l.csv", [("path", "red", "Red", "green"), *rows])
    with pytest.warns(UserWarning, match="'Red'"):
        trained = fit(labels, world() / "feats", unseen=["blue"])
    assert trained.model.tagger.label_names_ == ("red", "green", "blue")
    merged = trained.data.annotations.Y[:, 0]
    assert merged[:2].tolist() == [1, 1]
    assert np.isnan(merged[2])
    assert not merged[3:].any()


def test_one_label_is_enough_to_learn(tmp_path):
    rows = [(f"{i:03d}.jpg", int(i % 6 in (0, 3, 4))) for i in range(42)]
    model = fit(write_rows(tmp_path / "l.csv", [("path", "red"), *rows]), world() / "feats").model
    assert model.tagger.n_seen_ == 1


def test_gamma_is_searched_only_if_there_are_unseen_labels():
    with_unseen = fit(world() / "labels.csv", unseen=["yellow"], search=True).search
    without = fit(world() / "labels.csv", search=True).search
    assert {name.split("__")[-1] for name in with_unseen.chosen.params} == {"beta", "gamma"}
    assert {name.split("__")[-1] for name in without.chosen.params} == {"beta"}


def test_parameters_reach_both_parts():
    tagger = fit(world() / "labels.csv", tol=0.05, second__sharpness=4.0, weight=2.0).model.tagger
    assert (tagger.first_.tol, tagger.second_.sharpness) == (0.05, 4.0)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"gamma": 1.0}, "gamma"),
        ({"lam": 1.0}, "lam"),
        ({"unseen": ["qwrtz"]}, "names"),
        ({"unseen": ["red", "green", "blue"]}, "unseen"),
        ({"split": "holiday"}, "split"),
        ({"relations": ["nowhere.csv"]}, "sources"),
        ({"backbone": "no-such-network"}, "(backbone|name)"),
    ],
)
def test_bad_arguments_are_refused(options, argument):
    with pytest.raises(ValueError, match=f"^{argument}: "):
        fit(world() / "labels.csv", **options)


@pytest.mark.parametrize(
    ("rows", "argument"),
    [
        ([("somewhere.jpg", "train", 1, 1)], "annotations"),
        ([(f"{i:03d}.jpg", "test", 1, i % 2) for i in range(9)], "split"),
        ([(f"{i:03d}.jpg", "train", 1, 0) for i in range(9)], "annotations"),
    ],
)
def test_annotations_that_teach_nothing_are_refused(tmp_path, rows, argument):
    labels = write_rows(tmp_path / "l.csv", [("path", "split", "red", "green"), *rows])
    with pytest.raises(ValueError, match=f"^{argument}: "):
        fit(labels, world() / "feats")


def test_features_without_names_or_of_another_size_are_refused(tmp_path):
    np.save(tmp_path / "bare.npy", np.ones((60, 3), dtype=np.float32))
    ids = [f"{i:03d}" for i in range(60)]
    np.savez(tmp_path / "wide.npz", features=np.ones((60, 7), dtype=np.float32), image_id=ids)
    for name, backbone in (("bare.npy", "eye.onnx"), ("bare.npy", None), ("wide.npz", "eye.onnx")):
        with pytest.raises(ValueError, match=r"^(features|backbone): "):
            train(tmp_path / name, world() / "labels.csv", backbone=backbone and str(world() / backbone))


@pytest.fixture(scope="module")
def base():
    """A model that knows red and green."""
    return PhotoTagger.load(world() / "model.safetensors")


@pytest.fixture(scope="module")
def labels(tmp_path_factory):
    rows = [(f"{i:03d}.jpg", int(i % 6 in (2, 4, 5)), int(i % 6 in (0, 3, 4))) for i in range(42)]
    return write_rows(tmp_path_factory.mktemp("top") / "l.csv", [("path", "blue", "Red"), *rows])


@pytest.fixture(scope="module")
def trained(base, labels):
    return train(world() / "feats", labels, base=base)


def test_labels_on_top_are_added_and_other_words_stay_as_they_were(trained, base):
    tagger, X = trained.model.tagger, open_features(world() / "feats")
    assert isinstance(tagger, Adapted)
    assert tagger.label_names_ == ("blue", "red", "green")  # spelled as in base
    columns = base.columns(X.X, X.logits)
    words = base.label_vectors(["green", "crimson", "cold"])
    before, after = (one.decision_function(columns, words) for one in (base.tagger, tagger))
    np.testing.assert_array_equal(after, before)
    assert tagger.strength_ > 0
    given = world() / "feats", world() / "labels.csv"
    before, after = (evaluate_photos(model, *given).average_precision["blue"] for model in (base, trained.model))
    assert after > before
    assert "too optimistic" in evaluate_photos(trained.model, *given, "train").warning


def test_explanations_of_labels_on_top(trained):
    photo = world() / "photos" / "002.jpg"
    assert "your photos of blue" in {part.name for part in trained.model.explain(photo, "blue").parts}
    with pytest.raises(ValueError, match=r"^by: "):
        trained.model.explain(photo, "blue", by="images")


def test_a_saved_model_on_top_is_used_like_any_other(trained, tmp_path):
    trained.model.save(tmp_path / "m.safetensors")
    photo, words = world() / "photos" / "002.jpg", ["blue", "crimson"]
    expected = next(trained.model.tag(photo, words))
    assert next(PhotoTagger.load(tmp_path / "m.safetensors").tag(photo, words)) == expected


def test_rejections_alone_in_arrays_are_enough_on_top(base):
    made = open_features(world() / "feats")
    rejected = Annotations(made.paths[:8], ["blue"], np.zeros((8, 1)))
    tagger = adapt(base, made.X[:8], made.logits[:8], rejected).tagger
    assert (tagger.n_own_, tagger.n_images_) == (1, 8)
    X = base.columns(made.X, made.logits)
    assert tagger.decision_function(X, ["blue"]).mean() < base.tagger.decision_function(X, ["blue"]).mean()


@pytest.mark.parametrize(
    "option",
    [{"unseen": ["cold"]}, {"vectors": "glove"}, {"relations": ["wordnet"]}, {"classes": False},
     {"search": True}, {"beta": 0.0}, {"rank": 2}],
)  # fmt: skip
def test_options_of_a_fit_from_scratch_are_refused(option, base, labels):
    (name,) = option
    with pytest.raises(ValueError, match=rf"^{name}: .*--from-scratch"):
        train(world() / "feats", labels, base=base, **option)


def test_another_base_is_refused(base, labels, tmp_path):
    for other, message in (("best", "base: 'best'"), (PhotoTagger.load(), "base: a model for 'eff")):
        with pytest.raises(ValueError, match=f"^{message}"):
            train(world() / "feats", labels, base=other)
    made = open_features(world() / "feats")
    np.savez(tmp_path / "bare.npz", features=made.X, image_id=made.paths)
    with pytest.raises(ValueError, match=r"^features: no logits"):
        train(tmp_path / "bare.npz", labels, base=base, backbone=str(world() / "eye.onnx"))


def test_the_table_of_sure_tags_and_the_verdict_follow_the_counts():
    tagger = Adapted()
    tagger.label_names_, tagger.n_own_, tagger.strength_, tagger.base_ = ("a", "b", "c"), 2, 3.0, Adapted()
    tagger.base_.base_ = PhotoTagger.load(world() / "model.safetensors").tagger
    tagger.sure_ = np.array([[[3, 0], [4, 0], [10, 5]], [[6, 1], [6, 2], [10, 5]]], dtype=float)
    assert sure_tags(tagger).rows == [
        ("all labels", "15", "75 % → 88 %", "20 % → 47 %"), ("a", "10", "75 % → 100 %", "30 % → 60 %"),
        ("b", "5", "- → 50 %", "0 % → 20 %"),
    ]  # fmt: skip
    assert "your labels have made the sure tags better" in verdict(tagger)
    tagger.sure_ = tagger.sure_[::-1]
    assert "the packaged model alone are better" in verdict(tagger)
    tagger.sure_ = tagger.sure_[[0, 0]]
    assert "as good as those of the packaged model" in verdict(tagger)
    tagger.strength_ = 0.0
    assert verdict(tagger).startswith("Nothing learned")
