"""Image and text encoders that share a space: an image is nearest to the words that describe it."""

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")
from PIL import Image
from tests.images.graphs import mean_colour, word_table, word_tokenizer

from unseen.baselines import Cosine
from unseen.images.backbones import prepare
from unseen.images.pairs import open_pair

SETTINGS = """
size = 8
mean = [0, 0, 0]
std = [1, 1, 1]
value_range = 1
features = "colour"

[text]
model = "words.onnx"
prompt = "a photo {}"
"""
NAMES = ["red", "green", "blue"]


@pytest.fixture
def folder(tmp_path):
    mean_colour(tmp_path / "image.onnx")
    word_table(tmp_path / "words.onnx", outputs=("text_embeds",))
    word_tokenizer(tmp_path / "tokenizer.json")
    (tmp_path / "image.toml").write_text(SETTINGS)
    return tmp_path


def test_images_are_tagged_with_words_by_their_cosine(folder):
    pair = open_pair(folder / "image.onnx", n_threads=1)
    images = [Image.new("RGB", (9, 9), colour) for colour in ("#ff2010", "#10ff20", "#2010ff")]
    features, _ = pair.image.describe(np.stack([prepare(image, pair.image.preprocessing) for image in images]))
    model = Cosine().fit(features, np.eye(3), dict(zip(NAMES, pair.text.encode(NAMES), strict=True)))
    np.testing.assert_array_equal(model.predict(features), np.eye(3))


def test_settings_reach_the_text_encoder(folder):
    (folder / "image.toml").write_text(SETTINGS.replace("a photo {}", "red {} blue") + "max_tokens = 2")
    np.testing.assert_array_equal(
        open_pair(folder / "image.onnx").text.encode(["{x}", "green"]), [[1, 0, 0], [1, 1, 0]]
    )


@pytest.mark.parametrize(
    ("settings", "argument"),
    [
        (SETTINGS + "size = 3", "text"), (SETTINGS + "output = 'pooled'", "(text|output)"),
        (SETTINGS.replace('model = "words.onnx"', ""), "text"), (SETTINGS.partition("[text]")[0], "text"),
        (SETTINGS.replace("colour", "warmth"), "text"),
    ],
)  # fmt: skip
def test_wrong_settings_are_named(folder, settings, argument):
    (folder / "image.toml").write_text(settings)
    with pytest.raises(ValueError, match=rf"^{argument}: "):
        open_pair(folder / "image.onnx")
