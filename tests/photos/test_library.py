"""A photo library: indexed by folders, kept up to date, searched, copied, killed and read at any moment."""

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL")
from tests.images.pictures import BlockMeans, fill, interrupt, picture
from tests.photos.world import paint, world
from tests.pipes import needs_pipes, unopened

from unseen import TAEP, PhotoLibrary, PhotoTagger, make_tagged_scenes
from unseen.baselines import ConSE
from unseen.ensembles import Adapted, BackboneKnowledge, Combination, Stacked
from unseen.files import locked
from unseen.images.features import describe_each
from unseen.labels.names import Vocabulary
from unseen.photos import index as indexing
from unseen.photos import query
from unseen.photos.storage import decode_rows, encode_rows
from unseen.photos.stored_scores import StoredScores, find_form, multiply_rows

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}


@pytest.fixture
def photos(tmp_path):
    """Return a folder with six photos in two folders."""
    fill(tmp_path / "photos", 4)
    fill(tmp_path / "photos" / "sea", 2, start=10)
    return tmp_path / "photos"


@pytest.fixture
def library(photos):
    made = PhotoLibrary.open(photos.parent / "library", create=True, backbone=BlockMeans())
    assert index(made, photos)[:2] == (6, 6)
    return made


def index(library, *folders, **options):
    """Return the number of photos, of those described, and of new, changed, moved, deleted and unchanged ones."""
    backbone = BlockMeans()
    report = library.index(folders, backbone=backbone, jobs=1, **options)
    return report.n_photos, backbone.seen, *report[1:6]


def names(library, root):
    return [Path(photo.path).relative_to(root).as_posix() for photo in library.photos()]


def row_of(library, path):
    """Features of a photo as they are stored."""
    with library.snapshot() as now:
        digest = {photo.path: photo.digest for photo in library.photos()}[str(path)]
        (row,) = now.db.execute("SELECT row FROM images WHERE digest = ?", (bytes.fromhex(digest),)).fetchone()
        return decode_rows(now.features[[row]])[0]


def test_only_what_is_new_or_changed_is_described(library, photos):
    assert index(library) == (6, 0, 0, 0, 0, 0, 6)
    fill(photos, 2, start=20)
    picture(99).save(photos / "0000.jpg")
    os.utime(photos / "0001.jpg", (1, 1))  # touched: read, but not described
    assert index(library) == (8, 3, 2, 1, 0, 0, 5)
    assert index(library, photos) == (8, 0, 0, 0, 0, 0, 8)


def test_moved_and_copied_photos_are_recognised_and_deleted_ones_dropped(library, photos):
    before = row_of(library, photos / "0000.jpg")
    (photos / "0000.jpg").rename(photos / "sea" / "boat.jpg")
    shutil.copy(photos / "0001.jpg", photos / "copy.jpg")
    (photos / "0002.jpg").unlink()
    assert index(library) == (6, 0, 1, 0, 1, 1, 4)
    assert names(library, photos) == [
        "0001.jpg",
        "0003.jpg",
        "copy.jpg",
        "sea/0010.jpg",
        "sea/0011.jpg",
        "sea/boat.jpg",
    ]
    assert np.array_equal(row_of(library, photos / "sea" / "boat.jpg"), before)


def test_rows_of_the_dead_are_removed_when_there_are_many(library, photos, monkeypatch):
    monkeypatch.setattr(indexing, "_FEW", 1)
    rows = {name: row_of(library, photos / name) for name in ("0003.jpg", "sea/0011.jpg")}
    with library.snapshot() as before:
        for name in ("0000.jpg", "0001.jpg", "0002.jpg", "sea/0010.jpg"):
            (photos / name).unlink()
        assert index(library) == (2, 0, 0, 0, 0, 4, 2)
        assert len(before.features) == 6  # readers keep what they have opened
        assert before.db.execute("SELECT count(*) FROM files").fetchone() == (6,)
    with library.snapshot() as after:
        assert len(after.features) == len(after.classes) == 2
        assert not len(after.dead)
    for name, row in rows.items():
        assert np.array_equal(row_of(library, photos / name), row)
    assert len(list(library.path.glob("*.bin"))) == 2


def test_folders_share_a_library_and_one_may_hold_another(library, photos, tmp_path):
    fill(tmp_path / "other", 2, start=30)
    assert index(library, tmp_path / "other")[:2] == (8, 2)
    (photos / "0000.jpg").unlink()
    (photos / "sea" / "0010.jpg").unlink()
    assert index(library, photos / "sea")[0] == 7  # the rest is not looked at
    assert index(library, tmp_path) == (6, 0, 0, 0, 0, 1, 6)
    with library.snapshot() as now:
        assert list(now.roots.values()) == [str(tmp_path)]


def test_a_folder_that_is_gone_or_empty_keeps_its_photos(library, photos, tmp_path):
    photos.rename(tmp_path / "unplugged")
    for _ in range(2):
        report = library.index(backbone=BlockMeans())
        assert (report.n_photos, report.deleted) == (6, 0)
        assert report.notes[0].startswith(f"{photos}: not found, or empty")
        photos.mkdir(exist_ok=True)
    report = library.index([tmp_path / "unplugged"], backbone=(backbone := BlockMeans()))
    assert (report.n_photos, report.new, backbone.seen) == (12, 6, 0)


def test_folders_can_be_forgotten(library, photos):
    with pytest.raises(ValueError, match=r"^forget: .*by itself"):
        library.index(forget=[photos / "sea"])
    shutil.rmtree(photos)
    report = library.index(forget=[photos], backbone=BlockMeans())
    assert (report.deleted, report.n_photos, report.notes) == (6, 0, ())
    assert not list(library.photos())
    with pytest.warns(UserWarning, match=r"^forget: .*not in the library"):  # again, after a kill
        library.index(forget=[photos], backbone=BlockMeans())


def test_features_are_those_that_were_described(library, photos):
    features, backbone = library.features(), BlockMeans()
    assert features.backbone["name"] == backbone.name
    ((_, (x, logits), _),) = describe_each([features.paths[3]], backbone)
    assert np.abs(features.X[3] - x[0]).max() <= np.ptp(x) / 255
    assert np.abs(features.logits[3] - logits[0]).max() <= np.ptp(logits) / 255


def test_a_library_moves_with_its_photos(library, photos, tmp_path):
    (tmp_path / "disk").mkdir()
    for folder in (photos, library.path):
        folder.rename(tmp_path / "disk" / folder.name)
    moved = PhotoLibrary.open(tmp_path / "disk" / "library")
    assert all(Path(photo.path).is_file() for photo in moved.photos())
    assert index(moved) == (6, 0, 0, 0, 0, 0, 6)


@needs_pipes
def test_a_pipe_among_the_photos_is_a_problem_and_not_the_end(library, photos):
    (photos / "null.jpg").symlink_to("/dev/null")
    (photos / "link.jpg").symlink_to("0000.jpg")
    with unopened(photos / "pipe.jpg") as pipe:
        report = library.index(backbone=BlockMeans(), jobs=1)
    assert report.problems == ((str(photos / "null.jpg"), "it is not a file"), (str(pipe), "it is not a file"))
    assert report.n_photos == 7


def test_damaged_and_other_files_are_counted_and_not_tried_again(library, photos):
    (photos / "a.jpg").write_text("no picture")
    (photos / "b.mov").write_text("a film")
    (photos / "c\n\udcff.jpg").write_bytes(b"")
    for _ in range(2):
        report = library.index(backbone=BlockMeans())
        assert report.skipped() == {"it is not an image, or its format is unknown": 1, "the file is empty": 1}
        assert report.others == {".mov": 1}
        assert {Path(problem.path).name for problem in report.problems} == {"a.jpg", "c\n\udcff.jpg"}
    picture(7).save(photos / "c\n\udcff.jpg")
    assert index(library)[:3] == (7, 1, 0)
    assert "c\n\udcff.jpg" in names(library, photos)


def test_what_is_done_before_an_interruption_is_kept(library, photos, monkeypatch):
    monkeypatch.setattr(indexing, "_BLOCK", 2)
    fill(photos, 20, start=100)
    with pytest.raises(KeyboardInterrupt):
        library.index(backbone=BlockMeans(stop_at=15, stop=interrupt), jobs=1)
    n_done = len(library)
    assert 6 < n_done < 26
    assert index(library)[:2] == (26, 26 - n_done)


def test_a_second_writer_waits_or_says_so(library):
    with locked(library.path / ".lock"), pytest.raises(OSError, match=r"^library: .*another process"):
        library.index(wait=False, backbone=BlockMeans())


def test_a_full_disk_is_an_error_and_what_was_there_stays(library, photos):
    for i in range(40):
        picture(i + 100, 400, 300).save(photos / f"large{i}.jpg")
    program = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "from tests.images.pictures import BlockMeans; from unseen import PhotoLibrary\n"
        f"PhotoLibrary.open({str(library.path)!r}).index(backbone=BlockMeans())"
    )
    done = subprocess.run([sys.executable, "-c", program], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].startswith("OSError: ")
    assert len(library) == 6
    assert index(library)[:2] == (46, 40)


def test_a_library_of_another_format_or_with_missing_files_is_refused(library, tmp_path):
    with sqlite3.connect(library.path / "library.sqlite") as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(ValueError, match="format 99, of a newer version"):
        PhotoLibrary.open(library.path)
    with sqlite3.connect(library.path / "library.sqlite") as db:
        db.execute("PRAGMA user_version = 1")
    (library.path / "features.1.bin").unlink()
    with pytest.raises(OSError, match=r"^library: files .* are missing"):
        len(library)
    with pytest.raises(FileNotFoundError, match=r"^library: .*unseen index"):
        PhotoLibrary.open(tmp_path / "nowhere")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").touch()
    with pytest.raises(OSError, match="holds other files"):
        PhotoLibrary.open(tmp_path / "full", create=True, backbone=BlockMeans())
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "library.sqlite").write_bytes(b"no database" * 999)
    with pytest.raises(OSError, match=r"^library: "):
        PhotoLibrary.open(tmp_path / "bad")


def test_facts_and_thumbnails_are_those_of_the_file(library, photos):
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    exif.get_ifd(0x8769)[0x9003] = "2021:07:03 10:20:30"
    picture(5, 400, 300).save(photos / "z.jpg", exif=exif)
    index(library)
    *_, photo = (photo for photo in library.photos() if photo.path.endswith("z.jpg"))
    assert (photo.width, photo.height, photo.taken) == (300, 400, "2021-07-03 10:20:30")
    (tmp := photos.parent / "thumbnail.jpg").write_bytes(library.thumbnail(photo))
    with Image.open(tmp) as thumbnail:
        assert thumbnail.size == (150, 200)
        assert not thumbnail.getexif()


@pytest.fixture(scope="module")
def colours(tmp_path_factory):
    """Return a library of the model of the world, with dates."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("colours")
    for i, colour in enumerate(("red", "green", "blue", "yellow")):
        (folder / "photos" / colour).mkdir(parents=True)
        path = paint(folder / "photos" / colour / f"{colour}.jpg", [colour])
        exif = Image.Exif()
        exif[0x0132] = f"202{i}:05:01 00:00:00"
        if colour != "yellow":
            Image.open(path).save(path, exif=exif, quality=95)
    model = PhotoTagger.load(world() / "model.safetensors")
    library = PhotoLibrary.open(folder / "library", create=True, backbone=model.backbone)
    library.index([folder / "photos"])
    return library, model


def found(colours, word=None, **options):
    library, model = colours
    return [Path(hit.photo.path).stem for hit in library.search(word, model=model, **options)]


def test_photos_are_found_by_words_best_first_with_the_scores_of_the_tagger(colours):
    library, model = colours
    assert found(colours, "red") == ["red", "yellow", "green", "blue"]
    for hit in library.search("crimson", model=model):
        (tagged,) = model.tag(hit.photo.path, ["crimson"])
        assert hit.score == pytest.approx(tagged.tags[0].score, abs=0.05)  # eight bits


def test_photos_are_found_by_date_and_folder(colours):
    assert found(colours, "red", top=2) == ["red", "yellow"]
    with pytest.warns(UserWarning, match="1 photo without a date"):
        assert found(colours, "red", since="2020", until="2021-05-01") == ["red", "green"]
    with pytest.warns(UserWarning, match="without a date"):
        assert found(colours, "red", since="2021-06") == ["blue"]
    photos = colours[0].path.parent / "photos"
    assert found(colours, "red", folder=photos / "green") == ["green"]
    assert len(found(colours, "red", folder=photos.parent)) == 4
    with pytest.raises(ValueError, match=r"^folder: "):
        found(colours, "red", folder="/nowhere")
    with pytest.raises(ValueError, match=r"^since: 'May' was given"):
        found(colours, "red", since="May")


def test_copies_are_listed_only_where_they_were_asked_for(colours):
    library, _ = colours
    photos = library.path.parent / "photos"
    (photos / "blue" / "again.jpg").write_bytes((photos / "red" / "red.jpg").read_bytes())
    library.index()
    assert found(colours, "red", top=2) == ["again", "red"]
    assert found(colours, "red", folder=photos / "red") == ["red"]
    ((*group,),) = library.duplicates()
    assert {Path(photo.path).stem for photo in group} == {"again", "red"}
    (photos / "blue" / "again.jpg").unlink()
    library.index()


def test_tags_come_from_the_index_alone(colours, tmp_path):
    library, model = colours
    words = ["red", "crimson", "blue"]
    read = {photo.path: photo.tags for photo in model.tag(library.path.parent / "photos", words)}
    (library.path.parent / "photos").rename(tmp_path / "elsewhere")
    try:
        tagged = {photo.path: photo.tags for photo in library.tags(words, model=model)}
        grouped = list(library.tags(Vocabulary.parse(["warm > red: crimson", "blue"]), 1, model=model))
    finally:
        (tmp_path / "elsewhere").rename(library.path.parent / "photos")
    assert tagged.keys() == read.keys()
    for path, tags in tagged.items():
        assert dict(tag[:2] for tag in tags) == pytest.approx(dict(tag[:2] for tag in read[path]), abs=0.05)
    assert [Path(photo.path).stem for photo in grouped if photo.tags[0].name == "blue"] == ["blue", "green"]


def test_photos_that_look_alike_are_found(colours):
    photos = colours[0].path.parent / "photos"
    first, *_ = colours[0].search(like=photos / "green" / "green.jpg", model=colours[1])
    assert Path(first.photo.path).stem == "green"
    assert first.score == pytest.approx(1.0, abs=1e-4)
    with pytest.raises(ValueError, match=r"^word, like: "):
        found(colours, "red", like=photos / "green" / "green.jpg")


def test_a_model_of_another_backbone_is_refused(library, colours):
    with pytest.raises(ValueError, match=r"^model: .*'block-means'"):
        library.search("red", model=colours[1])


def test_stored_rows_are_close_and_their_products_exact():
    rng = np.random.default_rng(0)
    values = np.vstack([rng.normal(size=(50, 33)), np.full((1, 33), 2.5), np.zeros((1, 33))]).astype(np.float32)
    rows = encode_rows(values)
    decoded, weights = decode_rows(rows), rng.normal(size=(33, 3))
    ranges = np.ptp(values, axis=1, keepdims=True)
    assert (np.abs(decoded - values) <= ranges / 255 * 0.51 + 1e-6).all()
    lengths = np.maximum(np.linalg.norm(decoded, axis=1, keepdims=True), 1e-9)
    assert np.allclose(multiply_rows(rows, weights, unit=False), decoded @ weights, atol=1e-5)
    assert np.allclose(multiply_rows(rows, weights, unit=True), decoded / lengths @ weights, atol=1e-5)


def test_forms_of_scores_are_found_and_give_the_scores_from_stored_rows():
    data = make_tagged_scenes(80, 30, n_features=12)
    rng = np.random.default_rng(0)
    classes = {f"class {k}": vector for k, vector in enumerate(rng.normal(size=(11, data.vectors.shape[1])))}
    X = np.hstack([np.abs(data.X_train), rng.normal(size=(80, 11))])
    rows = encode_rows(X[:, :12]), encode_rows(X[:, 12:])
    stored = np.hstack([decode_rows(part) for part in rows])
    Y, labels = data.Y_train[:, data.seen], data.vectors
    knowledge, taep = BackboneKnowledge(classes), TAEP(tol=0.1)
    models = {
        "linear": TAEP(tol=0.1).fit(X[:, :12], Y, data.seen_labels),
        "as they are": TAEP(tol=0.1, normalize=False).fit(X[:, :12], Y, data.seen_labels),
        "both": Combination(taep, knowledge, 12).fit(X, Y, data.seen_labels),
        "stacked": Stacked(knowledge, n_features=12).fit(X, Y, data.seen_labels),
    }
    models["adapted"] = Adapted(models["stacked"], n_features=12).fit(X, 1 - Y, data.seen_labels)
    assert models["adapted"].strength_ > 0
    for name, model in models.items():
        form = find_form(model, labels, 12)
        assert (form.evidence is not None) == (name in ("both", "stacked", "adapted"))
        expected = model.decision_function(stored[:, : model.n_features_in_], labels)
        assert np.allclose(form.of_rows(*rows), expected, atol=1e-3), name
    other = Combination(taep, BackboneKnowledge(classes, spread=2.5), 12).fit(X, Y, data.seen_labels)
    assert find_form(other, labels, 12) is None
    assert find_form(ConSE().fit(X[:, :12], Y, data.seen_labels), labels, 12) is None


def test_with_a_form_the_best_candidates_get_a_probability(monkeypatch):
    rng = np.random.default_rng(1)
    rows = encode_rows(np.abs(rng.normal(size=(300, 6))))
    values, weights = decode_rows(rows), rng.normal(size=(6, 3))

    class Words:
        needs_classes, form = False, StoredScores(weights, np.zeros(3), unit=False)
        asked = 0

        def columns(self, features, classes):
            self.asked += len(features)
            return features @ weights, 1 / (1 + np.exp(-features @ weights))

    monkeypatch.setattr(query, "CANDIDATES", 20)
    p = 1 / (1 + np.exp(-values @ weights))
    for groups, expected in (
        ([(0,)], p[:, 0]),
        ([(0, 1), (2,)], (1 - (1 - p[:, 0]) * (1 - p[:, 1])) * p[:, 2]),
        ([(2,), (), (0, 1)], p[:, 2] * (1 - p[:, 0]) * (1 - p[:, 1])),
    ):
        for wanted in (np.ones(300, dtype=bool), rng.random(300) < 0.3):
            words = Words()
            best = query.best_rows(query.Expression(words, *groups), rows, None, wanted, top=2)
            assert words.asked == 20
            order = np.argsort(-np.where(wanted, expected, -1.0))[:2]
            assert best.rows.tolist() == order.tolist()
            assert np.allclose(best.p, expected[order], atol=1e-5)
            likely = query.best_rows(query.Expression(words, *groups), rows, None, wanted, min_p=0.5)
            assert set(likely.rows) == set(np.flatnonzero(wanted & (expected >= 0.5)))
