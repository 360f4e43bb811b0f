"""Names of labels: the words that stand for them, and names that mean the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unseen.labels.names import (
    Resolution,
    Vocabulary,
    as_phrase,
    candidate_words,
    everyday_labels,
    merge_names,
    resolve_name,
)

WORDS = """
the of a dog table dining plant potted tv monitor hot-dog hotdog Paris NASA airplane colours city t-shirt fruit
bowl new_york big cat box
"""
RANKS = {word: i for i, word in enumerate(WORDS.split())}


def resolve(name, ranks=RANKS):
    wanted = candidate_words(name)
    return resolve_name(name, {word: rank for word, rank in ranks.items() if word in wanted})


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        ("exact", {"t-shirt": "t-shirt"}),
        ("data set", {"diningtable": "dining table", "TVmonitor": "tv monitor"}),
        ("case", {"DOG": "dog", "paris": "Paris", "Nasa": "NASA"}),
        ("joined", {"hot dog": "hot-dog", "New York": "new_york", "T shirt": "t-shirt"}),
        ("spelling", {"aeroplane": "airplane", "Colors": "colours"}),
        ("number", {"dogs": "dog", "Cities": "city", "boxes": "box"}),
        ("words", {"Potted_Plant": "potted plant", "bowl of fruit": "bowl fruit", "of the": "of the",
                   "big aeroplane": "big airplane", "bigCat": "big cat", "big/cat": "big cat"}),
    ],
)  # fmt: skip
def test_names_are_resolved_by_the_documented_rules(rule, names):
    for name, words in names.items():
        assert resolve(name) == Resolution(name, tuple(words.split()), rule)


def test_a_name_of_the_table_goes_before_every_rule_and_a_joined_form_must_be_common():
    assert resolve("hair drier", {"hair": 0, "dryer": 1, "hair drier": 2}).words == ("hair drier",)
    assert resolve("Hair drier", {"hair": 0, "dryer": 1, "hair drier": 2}).words == ("hair drier",)
    assert resolve("hair drier", {"hair": 0, "dryer": 1, "hair_drier": 2}).words == ("hair_drier",)
    assert resolve("hot dog", {"hot": 1, "dog": 2, "hotdog": 149_999}).words == ("hotdog",)
    assert resolve("hot dog", {"hot": 1, "dog": 2, "hotdog": 150_000}).words == ("hot", "dog")


def test_unknown_words_are_reported():
    assert resolve("big xyzzy") == Resolution("big xyzzy", ("big",), "mean", ("xyzzy",))
    assert resolve("???") == Resolution("???", (), "mean", ("???",))


@given(st.text(min_size=1, max_size=12))
def test_what_stands_for_a_name_is_among_the_words_looked_for(name):
    assert set(resolve_name(name, RANKS).words) <= candidate_words(name)


def test_encoders_are_given_phrases():
    names = ["diningtable", "hair drier", "hot_dog", " birthday  cake", "HAMMOCK and TV", "Hund"]
    assert [as_phrase(name) for name in names[:3]] == ["dining table", "hair dryer", "hot dog"]
    assert [as_phrase(name) for name in names[3:]] == ["birthday cake", "hammock and TV", "Hund"]


def test_names_of_the_same_label_are_merged_with_a_note():
    names, notes = merge_names(["Bus", "hair dryer", "cat", "bus", "hair drier", "bus", "Airplane", "aeroplane"])
    assert names == ("Bus", "hair dryer", "cat", "Airplane")
    assert len(notes) == 3
    assert "'bus' is the same label as 'Bus'" in notes[0]


def test_everyday_words_are_different_labels():
    words = everyday_labels()
    assert len(words) > 300
    assert merge_names(words) == (words, ())


VOCABULARY = """
# what my photos show
animal > cat: kitten, tabby cat, !toy cat
animal >  dog   # not a puppy
boat: ship, Boat
animal
!tabby cat
"""


def test_a_vocabulary_has_synonyms_parents_and_exclusions(tmp_path):
    (tmp_path / "words.txt").write_text(VOCABULARY)
    vocabulary = Vocabulary.read(tmp_path / "words.txt")
    assert [tag.name for tag in vocabulary.tags] == ["cat", "dog", "boat", "animal"]
    assert vocabulary.tags[0] == ("cat", ("animal",), ("cat", "kitten"), ("toy cat",))
    assert vocabulary.words == ("cat", "kitten", "toy cat", "dog", "boat", "ship", "animal")
    p = np.array([[0.5, 0.8, 0.25, 0.1, 0.2, 0.1, 0.3], [0.0, 0.1, 0.0, 0.9, 0.2, 0.6, 0.3]])
    scores, likely = vocabulary.combine(10.0 * p, p)
    assert np.allclose(likely, [[0.6, 0.1, 0.2, 0.6], [0.1, 0.9, 0.6, 0.9]])
    assert np.allclose(scores, [[8.0, 1.0, 2.0, 8.0], [1.0, 9.0, 6.0, 9.0]])
    with pytest.raises(ValueError, match="exclusions"):
        vocabulary.combine(p, None)


def test_a_vocabulary_may_begin_with_everyday_words():
    vocabulary = Vocabulary.parse(["@everyday", "!dog", "quince"])
    names = {tag.name for tag in vocabulary.tags}
    assert names == {*everyday_labels(), "quince"} - {"dog"}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["cat", "", "Cat: kitten"], "line 3: 'Cat' is on line 1"),
        (["a >"], "line 1: a name is missing"),
        (["> b"], "line 1: a name is missing"),
        (["x", "b: !"], "line 2: a name is missing"),
        (["@others"], "line 1: '@others' is unknown"),
        (["# nothing"], "no tag"),
        (["cat", "!cat"], "no tag"),
    ],
)
def test_mistakes_in_a_vocabulary_are_named_with_their_line(lines, message):
    with pytest.raises(ValueError, match=message):
        Vocabulary.parse(lines)
