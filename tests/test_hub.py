"""Image-text pairs of the hub or a folder: read in both layouts, downloaded once, pinned, and used offline."""

import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("huggingface_hub")
from PIL import Image
from safetensors.numpy import save_file
from tests.clip import OPENCLIP, TRANSFORMERS, write_pair
from tests.hub import commit_of, serve
from tests.photos.world import world
from typer.testing import CliRunner

from unseen import LabelSpace, PhotoTagger
from unseen.cli import app
from unseen.hub import PAIRS, downloaded, fetch, find_pair, read_pair
from unseen.images.backbones import open_backbone
from unseen.images.preprocessing import Preprocessing
from unseen.labels.encoders import open_encoder

REPO = PAIRS["siglip2"]
WORDS = ["red", "green", "blue", "dog"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    parent = tmp_path_factory.mktemp("pairs")
    return write_pair(parent / "openclip"), write_pair(parent / "transformers", TRANSFORMERS)


@pytest.fixture
def red(tmp_path, monkeypatch):
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "unseen"))
    Image.new("RGB", (30, 20), (250, 10, 5)).save(tmp_path / "red.png")
    return tmp_path / "red.png"


def change(contents, file, **changes):
    return contents | {file: contents[file] | changes}


def run(*arguments, code=0):
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    return done


@pytest.mark.parametrize("layout", [0, 1], ids=["openclip", "transformers"])
def test_a_folder_of_either_layout_tags_photos(folders, red, tmp_path, layout):
    folder = str(folders[layout])
    model = PhotoTagger.from_pair(folder)
    (photo,) = model.tag(red, WORDS)
    assert [tag.score > 0 for tag in photo.tags] == [True, False, False, False]
    assert photo.tags[0].name == "red"
    model.save(tmp_path / "m.safetensors")
    assert list(PhotoTagger.load(tmp_path / "m.safetensors").tag(red, WORDS)) == [photo]
    assert "red" in run("tag", red, "-w", "green, red", "--top", 1, "--backbone", folder).stdout
    vectors = LabelSpace(WORDS, folder).vectors
    np.testing.assert_allclose(vectors, open_encoder(folder).encode(WORDS), atol=1e-6)
    assert np.abs(LabelSpace(WORDS, f"{folder}:red {{}}").vectors - vectors).max() > 0.1  # another prompt
    with pytest.raises(ValueError, match=r"^explain: "):
        model.explain(red, "red")


def test_a_pair_computes_features_is_evaluated_and_fitted_upon(folders, tmp_path, monkeypatch):
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "unseen"))
    feats, annotated = tmp_path / "feats", ("-a", world() / "labels.csv")
    run("features", world() / "photos", "-o", feats, "--backbone", folders[0])
    out = run("evaluate", feats, *annotated, "--backbone", folders[0]).stdout
    assert float(re.search(r"^zero-shot +3 +([\d.]+)", out, re.MULTILINE)[1]) > 95  # nothing was annotated
    run("fit", feats, *annotated, "--vectors", folders[0], "-o", tmp_path / "m.safetensors")
    assert "red" in run("tag", world() / "photos" / "000.jpg", "-m", tmp_path / "m.safetensors", "--top", 1).stdout


def test_settings_are_read_as_the_model_was_trained(tmp_path):
    squash = {"size": 8, "resize_mode": "squash", "interpolation": "bilinear"}
    openclip = change(OPENCLIP, "visual/preprocess_cfg.json", **squash)
    openclip = change(openclip, "config.json", text_cfg={"tokenizer_kwargs": {"clean": "canonicalize"}})
    folder = write_pair(tmp_path / "openclip", openclip)
    expected = Preprocessing(8, "squash", 1.0, "bilinear", value_range=1.0)
    assert open_backbone(folder).preprocessing == expected
    encoder = open_encoder(f"{folder}:{{}}")
    np.testing.assert_array_equal(encoder.encode(["Red_a, PHOTO!"]), encoder.encode(["red a photo"]))
    with pytest.raises(ValueError, match=r"^texts: .*'!\?'"):
        encoder.encode(["!?"])
    # SigLIP: padded texts of 64 tokens, whatever its preprocessor leaves out.
    siglip = change(TRANSFORMERS, "preprocessor_config.json", size={"height": 8, "width": 8}, do_center_crop=False,
                    resample=2, do_normalize=False)  # fmt: skip
    pair = read_pair(write_pair(tmp_path / "siglip", siglip | {"config.json": {"model_type": "siglip"}}))
    assert pair.text_settings == {"max_tokens": 64, "pad_token": "<end>", "canonicalize": True}
    assert open_backbone(tmp_path / "siglip").preprocessing == expected
    larger = change(TRANSFORMERS, "preprocessor_config.json", size=10, crop_size=8, rescale_factor=1.0)
    how = open_backbone(write_pair(tmp_path / "larger", larger)).preprocessing
    assert how == Preprocessing(8, "center-crop", 0.8, "bicubic")


@pytest.mark.parametrize(
    ("file", "changes"),
    [("visual/preprocess_cfg.json", {"resize_mode": "longest"}), ("visual/preprocess_cfg.json", {"size": [8, 9]}),
     ("visual/preprocess_cfg.json", {"mean": None}), ("config.json", {"text_cfg": None}),
     ("textual/tokenizer_config.json", {"pad_token": "<pad>"}),
     ("preprocessor_config.json", {"size": {"height": 8, "width": 8}}),  # squashed and then cropped
     ("preprocessor_config.json", {"do_center_crop": False}), ("preprocessor_config.json", {"resample": 5})],
)  # fmt: skip
def test_settings_that_are_not_understood_are_refused(tmp_path, file, changes):
    folder = write_pair(tmp_path, change(OPENCLIP if file in OPENCLIP else TRANSFORMERS, file, **changes))
    with pytest.raises(ValueError, match=r"^(backbone|mean|pad_token): "):
        PhotoTagger.from_pair(str(folder))
    (folder / file).unlink()
    with pytest.raises(ValueError, match=rf"^backbone: .*lacks '{file}'"):
        open_backbone(folder)


def test_learned_scale_and_bias_are_read_from_the_weights(tmp_path):
    folder = write_pair(tmp_path)
    assert read_pair(folder)[-3:] == (None, None, 8)
    logits = {"logit_scale": np.float32([np.log(20)]), "logit_bias": np.float32(-10)}
    save_file({name: np.asarray(value) for name, value in logits.items()}, folder / "model.safetensors")
    assert read_pair(folder)[-3:] == (pytest.approx(20), -10, 8)


def test_a_model_is_downloaded_once_and_keeps_its_revision(folders, red, tmp_path, monkeypatch):
    versions = [tmp_path / "first", tmp_path / "second"]
    for folder in versions:
        shutil.copytree(folders[0], folder)
    (versions[0] / "visual" / "model.rknn").write_bytes(b"for another engine")
    (versions[0] / "visual" / "onnx__MatMul_1").write_bytes(b"weights of a large graph")
    squashed = change(OPENCLIP, "visual/preprocess_cfg.json", resize_mode="squash")["visual/preprocess_cfg.json"]
    (versions[1] / "visual" / "preprocess_cfg.json").write_text(json.dumps(squashed))
    with serve({REPO: versions[:1]}, tmp_path, monkeypatch) as hub:
        assert f"https://huggingface.co/{REPO}" in run("backbones", "siglip2").stdout
        first = open_backbone("siglip2")
        assert {path.name for path in (find_pair(REPO).folder / "visual").iterdir()} == {
            "model.onnx", "preprocess_cfg.json", "onnx__MatMul_1"}  # fmt: skip
        hub.repos[REPO] = versions  # the model is changed on the hub
        n_asked = len(hub.asked)
        assert open_backbone("siglip2").fingerprint == first.fingerprint
        assert find_pair(REPO).folder.name == commit_of(REPO, 0)
        assert len(hub.asked) == n_asked
        shutil.rmtree(tmp_path / "hub")
        assert open_backbone("siglip2").fingerprint == first.fingerprint
        other = open_backbone(f"{REPO}@{commit_of(REPO, 1)}")
        assert other.preprocessing.resize == "squash"
        assert other.fingerprint != first.fingerprint
    out = run("backbones").stdout  # the hub is gone
    assert re.search(r"^siglip2 .* 8 +8 +[\d.]+ [kM]B +apache-2.0 +here *$", out, re.MULTILINE)
    assert f"{REPO}@"[:20] in out
    details = run("backbones", "siglip2").stdout
    for fact in (commit_of(REPO, 0), "someone/original", "apache-2.0", "share of the evidence"):
        assert fact in details


def test_a_broken_download_is_never_used_and_a_lost_connection_resumed(folders, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1000)
    with serve({REPO: [folders[0]]}, tmp_path, monkeypatch) as hub:
        hub.cut["textual/tokenizer.json"] = "short"
        with pytest.raises(FileNotFoundError, match=rf"^backbone: '{REPO}'"):
            open_backbone("siglip2")
        assert not downloaded()
        hub.cut["textual/tokenizer.json"] = "dropped"
        assert open_backbone("siglip2").n_features == 8
    assert hub.resumed[-1] > 1000
    assert [*downloaded()] == [REPO]


def test_a_model_that_lacks_a_file_is_refused_before_anything_is_downloaded(folders, tmp_path, monkeypatch):
    shutil.copytree(folders[0], tmp_path / "model")
    (tmp_path / "model" / "textual" / "tokenizer.json").unlink()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "pytorch_model.bin").write_bytes(b"large")
    with serve({"a/b": [tmp_path / "model"], "c/d": [tmp_path / "other"]}, tmp_path, monkeypatch) as hub:
        for name, what in (("a/b", "lacks 'textual/tokenizer.json'"), ("c/d", "none of 'visual/model.onnx'")):
            with pytest.raises(FileNotFoundError, match=rf"^backbone: '{name}' .*{what}"):
                open_backbone(name)
    assert not any("/resolve/" in path for path in hub.asked)


def test_what_another_program_downloaded_is_found_without_the_hub(folders, tmp_path, monkeypatch):
    with serve({REPO: [folders[0]]}, tmp_path, monkeypatch):
        fetch(REPO)
    shutil.rmtree(tmp_path / "unseen")
    assert open_backbone("siglip2").n_features == 8


def test_the_command_downloads_once_and_then_works_offline(folders, red, tmp_path, monkeypatch):
    def tag():
        typed = f"-m unseen tag {red} -w green,red --backbone siglip2 --csv"
        done = subprocess.run([sys.executable, *typed.split()], env=os.environ, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    with serve({REPO: [folders[0]]}, tmp_path, monkeypatch) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
        online = tag()
    assert ",1,red," in online
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert tag() == online


@pytest.mark.parametrize(
    "typed",
    ["backbones nothing", "backbones --download", "backbones vgg19 --download", "tag red.png --backbone vgg19",
     "tag red.png --backbone siglip3", "tag red.png --backbone siglip2 --model m.safetensors",
     "explain red.png -w red --backbone FOLDER"],
)  # fmt: skip
def test_mistakes_are_one_line_with_exit_code_2(folders, red, monkeypatch, typed):
    monkeypatch.chdir(red.parent)
    done = run(*typed.replace("FOLDER", str(folders[0])).split(), code=2)
    assert done.stderr.startswith(f"unseen {typed.split()[0]}: ")
    assert done.stderr.count("\n") == 1
