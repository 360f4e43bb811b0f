"""Image and text encoders that share a space: an image is nearest to the words that describe it."""

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
from PIL import Image
from tests.images.graphs import mean_colour, word_table, word_tokenizer

from unseen.baselines import Cosine
from unseen.images.backbones import open_pair
from unseen.images.preprocessing import prepare

IMAGE = 'size = 8\nmean = [0, 0, 0]\nstd = [1, 1, 1]\nvalue_range = 1\nfeatures = "colour"\n'
TEXT = '[text]\nmodel = "words.onnx"\nprompt = "a photo {}"\n'
NAMES = ["red", "green", "blue"]


@pytest.fixture
def path(tmp_path):
    word_table(tmp_path / "words.onnx")
    word_tokenizer(tmp_path / "tokenizer.json")
    (tmp_path / "image.toml").write_text(IMAGE + TEXT)
    return mean_colour(tmp_path / "image.onnx")


def test_images_are_tagged_with_words_by_their_cosine(path):
    pair = open_pair(path, n_threads=1)
    images = [Image.new("RGB", (9, 9), colour) for colour in ("#ff2010", "#10ff20", "#2010ff")]
    features, _ = pair.image.describe(np.stack([prepare(image, pair.image.preprocessing) for image in images]))
    model = Cosine().fit(features, np.eye(3), dict(zip(NAMES, pair.text.encode(NAMES), strict=True)))
    np.testing.assert_array_equal(model.predict(features), np.eye(3))


def test_settings_reach_the_text_encoder(path):
    path.with_suffix(".toml").write_text(IMAGE + TEXT.replace("a photo {}", "red {} blue") + "max_tokens = 2")
    np.testing.assert_array_equal(open_pair(path).text.encode(["{x}", "green"]), [[1, 0, 0], [1, 1, 0]])


@pytest.mark.parametrize(
    ("settings", "argument"),
    [(IMAGE, "text"), (IMAGE + "[text]\n", "text"), (IMAGE + TEXT + "size = 3", "text"),
     (IMAGE + TEXT + "output = 'pooled'", "output"), (IMAGE.replace("colour", "warmth") + TEXT, "text")],
)  # fmt: skip
def test_wrong_settings_are_named(path, settings, argument):
    path.with_suffix(".toml").write_text(settings)
    with pytest.raises(ValueError, match=rf"^{argument}: "):
        open_pair(path)
