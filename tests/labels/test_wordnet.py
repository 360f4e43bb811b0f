"""WordNet: the choice of senses, the shortest paths, the tables of the package."""

import csv
import itertools
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data import FOLDER
from tests.labels.wndb import TINY, write_wndb

from unseen.labels import wordnet
from unseen.labels.wordnet import curated_sense, curated_senses, open_wordnet, pairwise_lengths, path_lengths

SETS = curated_senses()


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
    names = [f"{name}.n.01" for name in ("dog", "cat", "rex", "keyboard", "gizmo")]
    expected = [[0, 2, 1, 6, np.inf], [2, 0, 3, 6, np.inf], [1, 3, 0, 7, np.inf], [6, 6, 7, 0, np.inf],
                [np.inf, np.inf, np.inf, np.inf, 0]]  # fmt: skip
    np.testing.assert_array_equal(pairwise_lengths([tiny.synset(name) for name in names]), expected)


@settings(max_examples=40)
@given(st.data())
def test_any_hierarchy_gives_the_paths_of_a_brute_force_search(tmp_path_factory, data):
    pytest.importorskip("nltk")
    entries = {}
    for i in range(data.draw(st.integers(2, 12))):
        parents = data.draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set()
        entries[f"w{i}"] = (f"w{i}", " ".join(f"w{j}" for j in sorted(parents)))
    net = open_wordnet(write_wndb(tmp_path_factory.mktemp("random"), entries))
    found = path_lengths(list(entries), wordnet=net)
    np.testing.assert_array_equal(found.lengths, brute_force(net, found.senses.values()))


@pytest.mark.parametrize(
    ("names", "sense"),
    [
        ("dogs", "dog.n.01"),
        ("Domestic Dog", "dog.n.01"),
        ("domestic-dogs", "dog.n.01"),
        ("geese", "goose.n.01"),
        ("rex", "rex.n.01"),  # an individual, if there is nothing else
        ("plant, keyboard", "plant.n.02"),  # not a factory
        ("mice, device", "mouse.n.02"),
        ("mice, rodent, cat", "mouse.n.01"),
    ],
)
def test_a_label_has_the_sense_that_agrees_with_the_others(tiny, names, sense):
    first, *others = names.split(", ")
    for labels in itertools.permutations([first, *others]):
        assert path_lengths(labels, wordnet=tiny).senses[first] == sense


def test_given_senses_are_kept(tiny):
    paths = path_lengths(["mouse", "device"], {"mouse": "mouse.n.01"}, wordnet=tiny)
    assert (paths.senses["mouse"], paths.lengths[0, 1]) == ("mouse.n.01", 5)
    for senses in ({"mouse": "mouse.n.03"}, {"mouse": "mouse"}, {"mouse": 3}, {"cat": "cat.n.01"}):
        with pytest.raises(ValueError, match=r"^senses: "):
            path_lengths(["mouse", "device"], senses, wordnet=tiny)


def test_unknown_names_and_damaged_files_are_named(tiny, tmp_path):
    with pytest.raises(ValueError, match=r"^labels: .*'gosse' .*'goose'"):
        path_lengths(["gosse", "dog"], wordnet=tiny)
    broken = open_wordnet(write_wndb(tmp_path / "circle", TINY | {"animal": ("animal beast", "dog")}))
    with pytest.raises(ValueError, match="cycle"):
        path_lengths(["tree", "pet"], wordnet=broken)
    index = write_wndb(tmp_path / "index") / "index.noun"
    index.write_text(index.read_text().replace("dog n 1", "dog n 3"))
    with pytest.raises(ValueError, match=r"^wordnet: "):
        open_wordnet(tmp_path / "index")
    with pytest.raises(FileNotFoundError, match=r"^wordnet: "):
        open_wordnet(tmp_path)


def test_the_tables_need_no_wordnet_and_other_labels_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "nltk.corpus", None)
    for labels in SETS.values():
        lengths = path_lengths(labels).lengths
        assert np.isfinite(lengths).all()
        np.testing.assert_array_equal(lengths, lengths.T)
    assert (len(SETS["voc20"]), len(SETS["coco80"])) == (20, 80)
    with pytest.raises(ImportError, match=r"^nltk: .*unseen\[wordnet\]"):
        path_lengths(["dog", "unicorn"])


def test_curated_labels_are_known_however_their_words_are_joined():
    assert None not in map(curated_sense, ["diningtable", "potted plant", "tv_monitor", "Hair-Drier"])
    assert curated_sense("unicorn") is None


def test_tables_equal_the_installed_wordnet(installed):
    for labels in (SETS["voc20"], SETS["coco80"]):
        shipped, computed = path_lengths(labels), path_lengths(labels, wordnet=installed)
        np.testing.assert_array_equal(shipped.lengths, computed.lengths)
        assert shipped.senses == computed.senses
    few = list(SETS["voc20"].values())[:10]
    np.testing.assert_array_equal(path_lengths(list(SETS["voc20"])[:10]).lengths, brute_force(installed, few))
    assert path_lengths([*SETS["voc20"], "plant"], wordnet=installed).senses["plant"] == "plant.n.02"


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
    np.testing.assert_array_equal(
        path_lengths(header[1:]).lengths, np.array([row[1:] for row in rows], dtype=float)
    )
