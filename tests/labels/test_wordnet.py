"""WordNet: the choice of senses, the shortest paths, the tables of the package."""

import itertools
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unseen.labels.wordnet import curated_senses, open_wordnet, path_lengths

SETS = curated_senses()

# Synsets: their lemmas, the first of which is the key, and the keys of what they are. Rex is an instance of a dog.
TINY = """
entity; thing artifact < entity; animal beast < entity; pet < animal; canine < animal; cat < pet;
dog domestic_dog < canine pet; goose < animal; rodent < animal; mouse < rodent; device < thing;
computer_mouse mouse < device; keyboard < device; works plant < thing; flora plant < entity; tree < flora;
grass < flora; fern < flora; Rex <i dog; gizmo
"""


def write_wndb(folder, synsets=TINY):
    """Write `index.noun`, `data.noun` and `noun.exc`; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    header = "  1 This is WordNet 9.9 Copyright 2006 by nobody.  \n"
    parts = [synset.partition("<") for synset in synsets.replace("<i", "<@i").split(";")]
    above = {lemmas.split()[0]: up.removeprefix("@i").split() for lemmas, _, up in parts}

    def line(lemmas, up, offsets):
        words = lemmas.split()
        targets = [("@i" if up.startswith("@i") else "@", key) for key in above[words[0]]]
        targets += [("~", key) for key, ups in above.items() if words[0] in ups]
        pointers = "".join(f"{symbol} {offsets[key]:08d} n 0000 " for symbol, key in targets)
        named = "".join(f"{word} 0 " for word in words)
        return f"{offsets[words[0]]:08d} 03 n {len(words):02x} {named}{len(targets):03d} {pointers}| a gloss  \n"

    sizes = [len(line(lemmas, up, dict.fromkeys(above, 0))) for lemmas, _, up in parts]
    offsets = dict(zip(above, itertools.accumulate(sizes, initial=len(header)), strict=False))
    senses = {}
    for lemmas, _, _ in parts:
        for lemma in lemmas.lower().split():
            senses.setdefault(lemma, []).append(f"{offsets[lemmas.split()[0]]:08d}")
    index = "".join(
        f"{lemma} n {len(x)} 2 @ ~ {len(x)} 0 {' '.join(x)}  \n" for lemma, x in sorted(senses.items())
    )
    (folder / "data.noun").write_text(header + "".join(line(lemmas, up, offsets) for lemmas, _, up in parts))
    (folder / "index.noun").write_text(header + index)
    (folder / "noun.exc").write_text("geese goose\nmice mouse\n")
    return folder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    pytest.importorskip("nltk")
    return open_wordnet(write_wndb(tmp_path_factory.mktemp("dict")))


@pytest.fixture(scope="module")
def installed():
    try:
        return open_wordnet()
    except (ImportError, FileNotFoundError) as error:
        return pytest.skip(str(error))


def brute_force(net, names):
    """Paths by an enumeration of every chain of hypernyms."""

    def chains(synset, depth=0):
        above = synset.hypernyms() + synset.instance_hypernyms()
        return [(synset.name(), depth)] + [step for up in above for step in chains(up, depth + 1)]

    found = [chains(net.synset(name)) for name in names]
    lengths = [
        min((a + b for (x, a), (y, b) in itertools.product(ups, others) if x == y), default=np.inf)
        for ups, others in itertools.product(found, repeat=2)
    ]
    return np.reshape(lengths, (len(found), len(found)))


def test_the_shortest_paths_go_up_to_the_nearest_common_ancestor(tiny):
    inf = np.inf
    expected = [
        [0, 2, 1, 6, inf],
        [2, 0, 3, 6, inf],
        [1, 3, 0, 7, inf],
        [6, 6, 7, 0, inf],
        [inf, inf, inf, inf, 0],
    ]
    found = path_lengths(["dog", "cat", "Rex", "keyboard", "gizmo"], wordnet=tiny)
    np.testing.assert_array_equal(found.lengths, expected)


@settings(max_examples=40)
@given(st.data())
def test_any_hierarchy_gives_the_paths_of_a_brute_force_search(tmp_path_factory, data):
    pytest.importorskip("nltk")
    synsets = []
    for i in range(data.draw(st.integers(2, 12))):
        parents = data.draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set()
        synsets.append(f"w{i} < {' '.join(f'w{j}' for j in sorted(parents))}")
    net = open_wordnet(write_wndb(tmp_path_factory.mktemp("random"), ";".join(synsets)))
    found = path_lengths([f"w{i}" for i in range(len(synsets))], wordnet=net)
    np.testing.assert_array_equal(found.lengths, brute_force(net, found.senses.values()))


def test_a_label_has_the_sense_that_agrees_with_the_others(tiny):
    expected = {"dogs": "dog.n.01", "Domestic Dog": "dog.n.01", "domestic-dogs": "dog.n.01", "geese": "goose.n.01",
                "plant, keyboard": "flora.n.01", "mice, device": "computer_mouse.n.01",
                "mice, rodent, cat": "mouse.n.01"}  # fmt: skip
    for names, sense in expected.items():
        first, *others = names.split(", ")
        for labels in itertools.permutations([first, *others]):
            assert path_lengths(labels, wordnet=tiny).senses[first] == sense


def test_given_senses_are_kept(tiny):
    paths = path_lengths(["mice", "device"], {"mice": "mouse.n.01"}, wordnet=tiny)
    assert (paths.senses["mice"], paths.lengths[0, 1]) == ("mouse.n.01", 5)
    for senses in ({"mice": "mouse.n.03"}, {"mice": "mouse"}, {"mice": 3}, {"cat": "cat.n.01"}):
        with pytest.raises(ValueError, match=r"^senses: "):
            path_lengths(["mice", "device"], senses, wordnet=tiny)


def test_unknown_names_and_damaged_files_are_named(tiny, tmp_path):
    with pytest.raises(ValueError, match=r"^labels: .*'gosse' .*'goose'"):
        path_lengths(["gosse", "dog"], wordnet=tiny)
    index = write_wndb(tmp_path / "index") / "index.noun"
    index.write_text(index.read_text().replace("dog n 1", "dog n 3"))
    with pytest.raises(ValueError, match=r"^wordnet: "):
        open_wordnet(tmp_path / "index")
    with pytest.raises(FileNotFoundError, match=r"^wordnet: "):
        open_wordnet(tmp_path)


def test_the_tables_need_no_wordnet_and_other_labels_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "nltk.corpus", None)
    assert [len(SETS[name]) for name in ("voc20", "coco80")] == [20, 80]
    for labels in (*SETS.values(), ["diningtable", "Potted-Plant", "tv_monitor"]):
        lengths = path_lengths(labels).lengths
        assert np.isfinite(lengths).all()
        np.testing.assert_array_equal(lengths, lengths.T)
    with pytest.raises(ImportError, match=r"^nltk: .*unseen\[wordnet\]"):
        path_lengths(["dog", "unicorn"])


def test_tables_equal_the_installed_wordnet(installed):
    for labels in (SETS["voc20"], SETS["coco80"]):
        shipped, computed = path_lengths(labels), path_lengths(labels, wordnet=installed)
        np.testing.assert_array_equal(shipped.lengths, computed.lengths)
        assert shipped.senses == computed.senses
    assert path_lengths([*SETS["voc20"], "plant"], wordnet=installed).senses["plant"] == "plant.n.02"
