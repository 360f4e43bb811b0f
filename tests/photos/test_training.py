"""train and evaluate_photos: what is learned from, what is left out, and what is refused."""

import numpy as np
import pytest
from tests.photos.world import fit, world, write_rows

from unseen.photos.evaluation import evaluate_photos
from unseen.photos.training import train


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
