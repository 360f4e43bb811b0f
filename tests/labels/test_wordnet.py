"""WordNet: the choice of senses, the shortest paths, the tables of the package."""

import csv
import itertools
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data import FOLDER
from tests.labels.wndb import TINY, Entry, write_wndb

from unseen.labels import wordnet
from unseen.labels.wordnet import curated_sense, curated_senses, open_wordnet, pairwise_lengths, path_lengths

SETS = curated_senses()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    pytest.importorskip("nltk")
    return open_wordnet(write_wndb(tmp_path_factory.mktemp("dict")))


@pytest.fixture(scope="module")
def installed():
    """Debian's WordNet 3.0, or the one that WNSEARCHDIR names."""
    pytest.importorskip("nltk")
    for folder in wordnet.usual_folders():
        if (folder / "data.noun").is_file():
            return open_wordnet(folder)
    return pytest.skip("no WordNet is installed")


@pytest.fixture
def nowhere(monkeypatch):
    """A computer without NLTK."""
    monkeypatch.setitem(sys.modules, "nltk", None)
    monkeypatch.setitem(sys.modules, "nltk.corpus", None)


def brute_force(net, names):
    """Paths by an enumeration of every chain of hypernyms."""

    def chains(synset, depth=0):
        above = synset.hypernyms() + synset.instance_hypernyms()
        return [(synset.name(), depth)] + [step for up in above for step in chains(up, depth + 1)]

    found = [chains(net.synset(name)) for name in names]
    lengths = np.full((len(names), len(names)), np.inf)
    for (i, ups), (j, others) in itertools.product(enumerate(found), repeat=2):
        lengths[i, j] = min((a + b for (x, a), (y, b) in itertools.product(ups, others) if x == y), default=np.inf)
    return lengths


def test_the_shortest_paths_go_up_to_the_nearest_common_ancestor(tiny):
    names = [f"{name}.n.01" for name in ("dog", "cat", "rex", "keyboard", "gizmo")]
    expected = [[0, 2, 1, 6, np.inf], [2, 0, 3, 6, np.inf], [1, 3, 0, 7, np.inf], [6, 6, 7, 0, np.inf],
                [np.inf, np.inf, np.inf, np.inf, 0]]  # fmt: skip
    np.testing.assert_array_equal(pairwise_lengths([tiny.synset(name) for name in names]), expected)


@settings(max_examples=40)
@given(st.data())
def test_any_hierarchy_gives_the_paths_of_a_brute_force_search(tmp_path_factory, data):
    pytest.importorskip("nltk")
    n = data.draw(st.integers(2, 12))
    entries = {}
    for i in range(n):
        parents = data.draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set()
        entries[f"w{i}"] = Entry(f"w{i}", " ".join(f"w{j}" for j in sorted(parents)))
    net = open_wordnet(write_wndb(tmp_path_factory.mktemp("random"), entries))
    found = path_lengths(list(entries), wordnet=net)
    np.testing.assert_array_equal(found.lengths, brute_force(net, found.senses.values()))


@pytest.mark.parametrize(
    ("name", "sense"),
    [
        ("dogs", "dog.n.01"),
        ("Domestic Dog", "dog.n.01"),
        ("domestic-dogs", "dog.n.01"),
        ("sports_cars", "sports_car.n.01"),
        ("geese", "goose.n.01"),
        ("MICE", "mouse.n.01"),
        ("grass", "grass.n.01"),
        ("rex", "rex.n.01"),  # one individual, if there is nothing else
    ],
)
def test_names_are_found_whatever_their_form(tiny, name, sense):
    assert path_lengths([name], wordnet=tiny).senses == {name: sense}


def test_the_sense_that_agrees_depends_on_the_other_labels(tiny, monkeypatch):
    monkeypatch.setattr(wordnet, "curated_sense", lambda label: None)  # there is one of the mouse
    for others, sense in ((["keyboard"], "mouse.n.02"), (["rodent", "cat"], "mouse.n.01")):
        assert path_lengths(["mouse", *others], wordnet=tiny).senses["mouse"] == sense


def test_a_plant_among_things_is_not_a_factory(tiny):
    assert path_lengths(["plant", "keyboard"], wordnet=tiny).senses["plant"] == "plant.n.02"


@given(st.permutations(["mouse", "plant", "dog", "rodent", "device", "tree"]))
def test_the_order_of_the_labels_changes_no_sense(tiny, labels):
    assert path_lengths(labels, wordnet=tiny).senses == path_lengths(sorted(labels), wordnet=tiny).senses


def test_given_senses_are_kept(tiny):
    paths = path_lengths(["mouse", "device"], {"mouse": "mouse.n.01"}, wordnet=tiny)
    assert paths.senses["mouse"] == "mouse.n.01"
    assert paths.lengths[0, 1] == 5
    for senses in ({"mouse": "mouse.n.03"}, {"mouse": "mouse"}, {"mouse": 3}, {"cat": "cat.n.01"}):
        with pytest.raises(ValueError, match=r"^senses: "):
            path_lengths(["mouse", "device"], senses, wordnet=tiny)


def test_unknown_names_are_listed_with_the_nearest(tiny):
    with pytest.raises(ValueError, match=r"^labels: .*'gosse' .*'goose'"):
        path_lengths(["gosse", "dog"], wordnet=tiny)


@pytest.mark.parametrize(
    ("file", "old", "new"), [("index.noun", "dog n 1", "dog n 3"), ("index.noun", "dog n 1", "dog n x")]
)
def test_a_damaged_wordnet_is_named(tmp_path, file, old, new):
    pytest.importorskip("nltk")
    path = write_wndb(tmp_path) / file
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ValueError, match=r"^wordnet: "):
        open_wordnet(tmp_path)


def test_a_circle_in_the_hierarchy_is_an_error(tmp_path):
    pytest.importorskip("nltk")
    broken = open_wordnet(write_wndb(tmp_path, {**TINY, "animal": Entry("animal beast", "dog")}))
    with pytest.raises(ValueError, match="cycle"):
        path_lengths(["tree", "pet"], wordnet=broken)


def test_wordnet_is_found_where_it_usually_is(tmp_path, monkeypatch):
    pytest.importorskip("nltk")
    monkeypatch.setenv("WNSEARCHDIR", str(write_wndb(tmp_path / "own")))
    assert open_wordnet().synset("rex.n.01")
    monkeypatch.setenv("WNSEARCHDIR", str(tmp_path))
    monkeypatch.setenv("WNHOME", str(tmp_path))
    write_wndb(tmp_path / "dict")
    assert Path(open_wordnet().root) == tmp_path / "dict"
    with pytest.raises(FileNotFoundError, match=r"^wordnet: .*wordnet-base"):
        open_wordnet(tmp_path)


def test_the_tables_need_no_wordnet_and_other_labels_say_what_to_install(nowhere):
    paths = path_lengths(["dog", "sofa", "Dining Table", "tvmonitor"])
    assert "ships with unseen" in paths.source
    assert paths.senses["tvmonitor"] == "television_receiver.n.01"
    assert np.asarray(paths)[0, 1] == 11
    with pytest.raises(ImportError, match=r"^wordnet: .*unseen\[wordnet\]"):
        path_lengths(["dog", "unicorn"])


@pytest.mark.parametrize("glued", ["diningtable", "potted plant", "tv_monitor", "Hair-Drier"])
def test_curated_labels_are_known_however_their_words_are_joined(glued):
    assert curated_sense(glued) is not None
    assert curated_sense("unicorn") is None


def test_both_label_sets_are_whole():
    assert (len(SETS["voc20"]), len(SETS["coco80"])) == (20, 80)
    for labels in SETS.values():
        lengths = path_lengths(labels).lengths
        assert np.isfinite(lengths).all()
        np.testing.assert_array_equal(lengths, lengths.T)


def test_tables_equal_the_installed_wordnet_and_a_brute_force_search(installed):
    for labels in (SETS["voc20"], SETS["coco80"]):
        shipped, computed = path_lengths(labels), path_lengths(labels, wordnet=installed)
        np.testing.assert_array_equal(shipped.lengths, computed.lengths)
        assert shipped.senses == computed.senses
    few = list(SETS["voc20"].values())[:10]
    np.testing.assert_array_equal(path_lengths(list(SETS["voc20"])[:10]).lengths, brute_force(installed, few))


def test_the_plant_among_furniture_is_not_a_factory(installed):
    for others in (["chair", "sofa"], list(SETS["voc20"])):
        assert path_lengths([*others, "plant"], wordnet=installed).senses["plant"] == "plant.n.02"


def test_agreement_beats_the_first_sense_on_coco(installed, monkeypatch):
    names = [name for name in SETS["coco80"] if installed.synsets(name.replace(" ", "_"), pos="n")]
    curated = {name: curated_sense(name) for name in names}
    monkeypatch.setattr(wordnet, "curated_sense", lambda label: None)
    agreed = path_lengths(names, wordnet=installed).senses
    first = {name: installed.synsets(name.replace(" ", "_"), pos="n")[0].name() for name in names}
    wrong = [sum(found[name] != curated[name] for name in names) for found in (agreed, first)]
    assert wrong[0] < 0.6 * wrong[1]


def test_voc_paths_equal_the_reference():
    if not (FOLDER / "voc20_wordnet30_path_length.csv").is_file():
        pytest.skip(f"no paths in {FOLDER}")
    header, *rows = csv.reader((FOLDER / "voc20_wordnet30_path_length.csv").read_text().splitlines())
    senses = json.loads((FOLDER / "voc20_wordnet30_synsets.json").read_text())
    paths = path_lengths(header[1:])
    np.testing.assert_array_equal(paths.lengths, np.array([row[1:] for row in rows], dtype=float))
    assert paths.senses == {name: entry["synset"] for name, entry in senses.items()}
