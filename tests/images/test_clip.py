"""Image and text encoders that share a space: a picture is nearest to the words that describe it."""

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")
pytest.importorskip("PIL")
from PIL import Image
from tests.images.graphs import COLOURS, mean_colour, word_table, word_tokenizer

from unseen.baselines import Cosine
from unseen.images.backbones import Preprocessing, prepare
from unseen.images.clip import open_pair
from unseen.labels.encoders import OnnxEncoder
from unseen.labels.encoders import TextEncoder

HOW = Preprocessing(8, value_range=1.0)
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
    word_table(tmp_path / "words.onnx")
    word_tokenizer(tmp_path / "tokenizer.json")
    (tmp_path / "image.toml").write_text(SETTINGS)
    return tmp_path


def test_pictures_are_tagged_with_words_by_their_cosine(folder):
    pair = open_pair(folder / "image.onnx")
    assert isinstance(pair.text, TextEncoder)
    pictures = [Image.new("RGB", (9, 9), colour) for colour in ("#ff2010", "#10ff20", "#2010ff")]
    features = pair.image.describe(np.stack([prepare(picture, pair.image.preprocessing) for picture in pictures]))[
        0
    ]
    labels = dict(zip(NAMES, pair.text.encode(NAMES), strict=True))
    model = Cosine().fit(features, np.eye(3), labels)
    np.testing.assert_array_equal(model.predict(features), np.eye(3))


def test_files_and_options_may_be_given_instead(folder):
    (folder / "image.toml").unlink()
    files = (folder / "image.onnx", folder / "words.onnx", folder / "tokenizer.json")
    pair = open_pair(*files, features="colour", preprocessing=HOW, prompt="red {}", n_threads=1)
    np.testing.assert_array_equal(pair.text.encode(["blue"]), [[1, 0, 1]])
    assert pair.image.preprocessing == HOW


def test_options_take_the_place_of_the_toml_file(folder):
    word_table(folder / "other.onnx", vectors=2 * COLOURS)
    assert open_pair(folder / "image.onnx", folder / "other.onnx").text.encode(["red"])[0, 0] == 2
    assert open_pair(folder / "image.onnx", prompt="{} red").text.encode(["red"])[0, 0] == 2
    assert open_pair(folder / "image.onnx", prompt="{} red red", max_tokens=2).text.encode(["red"])[0, 0] == 2


def test_a_text_with_braces_is_put_into_the_prompt_as_it_is(folder):
    np.testing.assert_array_equal(open_pair(folder / "image.onnx").text.encode(["{x} red"]), [[1, 0, 0]])


@pytest.mark.parametrize("shape", [(1, 5), ("n", 5), (1, "t")])
def test_graphs_of_a_fixed_length_or_of_one_text_are_filled_up(folder, shape):
    word_table(folder / "words.onnx", shape)
    encoder = OnnxEncoder(folder / "words.onnx", pad_token="<pad>", max_tokens=5)
    # Two words and three paddings of -1.
    np.testing.assert_array_equal(encoder.encode(["red green", "blue blue"]), [[-2, -2, -3], [-3, -3, -1]])
    longer = encoder.encode(["red " * 9])
    np.testing.assert_array_equal(longer, [[5, 0, 0]])


def test_a_fixed_length_needs_a_token_to_fill_up_with(folder):
    word_table(folder / "words.onnx", ("n", 5))
    for token in (None, "<nothing>"):
        with pytest.raises(ValueError, match=rf"pad_token: {token!r} was given.* to 5 tokens"):
            open_pair(folder / "image.onnx", pad_token=token)


def test_the_output_is_chosen_by_name(folder):
    encoder = OnnxEncoder(folder / "words.onnx", output="tokens")
    np.testing.assert_array_equal(encoder.encode(["red green"]), [[0.5, 0.5, 0]])
    with pytest.raises(ValueError, match=r"output: 'pooled' was given.*'tokens', 'text_embeds'"):
        OnnxEncoder(folder / "words.onnx", output="pooled")
    only = word_table(folder / "only.onnx", outputs=("tokens",))
    np.testing.assert_array_equal(OnnxEncoder(only).encode(["red green"]), [[0.5, 0.5, 0]])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (SETTINGS + "size = 3", r"text: unknown keys in .*image\.toml': 'size'\. Known: model"),
        (SETTINGS + "output = 3", r"text: output in .*image\.toml' is 3"),
        (SETTINGS.replace("a photo {}", "a photo"), "prompt: 'a photo' was given"),
        (SETTINGS + "max_tokens = 0", "max_tokens: 0 was given"),
        (SETTINGS.replace('model = "words.onnx"', ""), "text: no text encoder was given"),
        (SETTINGS.split("[text]")[0] + "text = 3", r"text: in .*image\.toml' it is 3"),
        (SETTINGS.replace("colour", "warmth"), r"words\.onnx' gives 3 dimensions.*image\.onnx' 2\. "),
    ],
)
def test_a_wrong_toml_file_is_named(folder, settings, message):
    (folder / "image.toml").write_text(settings)
    with pytest.raises(ValueError, match=message):
        open_pair(folder / "image.onnx")


def test_a_missing_file_is_named(folder):
    (folder / "tokenizer.json").unlink()
    with pytest.raises(FileNotFoundError, match="tokenizer"):
        open_pair(folder / "image.onnx")
    (folder / "words.onnx").unlink()
    with pytest.raises(FileNotFoundError, match=r"words\.onnx"):
        open_pair(folder / "image.onnx")
