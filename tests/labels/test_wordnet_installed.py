import csv
import itertools
import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from tests.labels.wndb import TINY, assert_equals_brute_force, write_wndb

from unseen.labels import wordnet_files, wordnet_synsets
from unseen.labels.wordnet import WordNet, curated_sense, open_wordnet, path_lengths
from unseen.labels.wordnet_tables import curated_label_sets

SHARED = Path("/work/shared/data")
SETS = curated_label_sets()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> WordNet:
    folder = tmp_path_factory.mktemp("dict")
    write_wndb(folder)
    return open_wordnet(folder)


@pytest.fixture(scope="module")
def installed() -> WordNet:
    """WordNet 3.0 as installed on this computer, whatever the environment of other tests."""
    place = wordnet_files.find_dict()
    if place is None or "WordNet 3.0" not in (wordnet := open_wordnet(place)).name:
        pytest.skip("no WordNet 3.0 on this computer")
    return wordnet


def test_a_package_of_wn_gives_the_same_paths(
    tiny: WordNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wn = pytest.importorskip("wn")
    ids = write_wndb(tmp_path)
    (tmp_path / "lexicon.xml").write_text(lexicon_xml(ids))
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(wn.config, "_data_directory", tmp_path / "data")
    monkeypatch.setattr(wn.config, "_dbpath", tmp_path / "data" / "wn.db")
    with pytest.raises(FileNotFoundError, match=r"wn has no English lexicon .*wn download"):
        open_wordnet("wn")
    wn.add(tmp_path / "lexicon.xml", progress_handler=None)
    package = open_wordnet("wn:omw-en:1.4")
    names = [f"{key}.n.01" for key in ("dog", "cat", "rex", "tree", "gizmo", "mouse")]
    np.testing.assert_array_equal(package.pairwise(names), tiny.pairwise(names))
    assert package.senses("dogs")[0].id == tiny.senses("dogs")[0].id
    assert package.senses("geese")[0].name == "goose.n.01"
    assert package.is_instance("rex.n.01")
    assert package.n_hyponyms("animal.n.01") == tiny.n_hyponyms("animal.n.01")
    assert package.synset("dog.n.01") == tiny.synset("dog.n.01")
    monkeypatch.setattr(wordnet_synsets, "find_dict", lambda: None)
    assert "omw-en" in open_wordnet().name


def lexicon_xml(ids: dict[str, str]) -> str:
    """The tiny WordNet as the XML that wn reads."""
    words: dict[str, list[str]] = {}
    for key, entry in TINY.items():
        for lemma in entry.lemmas.split():
            words.setdefault(lemma, []).append(key)
    entries = "".join(
        f'<LexicalEntry id="omw-en-{lemma}-n"><Lemma writtenForm="{lemma.replace("_", " ")}" partOfSpeech="n"/>'
        + ('<Form writtenForm="geese"/>' if lemma == "goose" else "")
        + "".join(f'<Sense id="omw-en-{lemma}-{key}" synset="omw-en-{ids[key]}"/>' for key in keys)
        + "</LexicalEntry>"
        for lemma, keys in words.items()
    )
    synsets = ""
    for key, entry in TINY.items():
        gloss = entry.gloss.replace('"', "&quot;")
        members = " ".join(f"omw-en-{lemma}-n" for lemma in entry.lemmas.split())
        relations = [("hypernym", up) for up in entry.above.split()]
        relations += [("instance_hypernym", up) for up in entry.instance_of.split()]
        relations += [("hyponym", low) for low, other in TINY.items() if key in other.above.split()]
        synsets += (
            f'<Synset id="omw-en-{ids[key]}" ili="" partOfSpeech="n" members="{members}"><Definition>{gloss}'
            "</Definition>"
            + "".join(f'<SynsetRelation relType="{kind}" target="omw-en-{ids[to]}"/>' for kind, to in relations)
            + "</Synset>"
        )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE LexicalResource SYSTEM '
        '"http://globalwordnet.github.io/schemas/WN-LMF-1.1.dtd">\n'
        '<LexicalResource xmlns:dc="https://globalwordnet.github.io/schemas/dc/">'
        '<Lexicon id="omw-en" label="tiny" language="en" email="a@b.c" license="none" version="1.4">'
        f"{entries}{synsets}</Lexicon></LexicalResource>"
    )


def test_shipped_tables_are_what_the_script_computes(installed: WordNet) -> None:
    script = Path(__file__).parents[2] / "scripts" / "make_wordnet_tables.py"
    if not script.is_file():
        pytest.skip("the scripts are not here")
    namespace: dict[str, object] = {"__name__": "make_wordnet_tables", "__file__": str(script)}
    exec(compile(script.read_text(), str(script), "exec"), namespace)
    for name, content in namespace["make_tables"](installed).items():
        assert (namespace["FOLDER"] / name).read_text() == content


@pytest.mark.parametrize("labels", [SETS["voc20"], SETS["coco80"]], ids=["voc20", "coco80"])
def test_tables_equal_the_installed_wordnet(installed: WordNet, labels: dict[str, str]) -> None:
    shipped, computed = path_lengths(labels), path_lengths(labels, wordnet=installed)
    np.testing.assert_array_equal(shipped.lengths, computed.lengths)
    assert shipped.senses == computed.senses
    assert_equals_brute_force(installed, list(labels.values())[:10])


def test_plant_among_furniture_is_no_factory(installed: WordNet) -> None:
    for company in (["chair", "sofa"], ["chair", "sofa", "dining table", "tvmonitor", "bottle"], SETS["voc20"]):
        for senses in (None, "agree"):
            paths = path_lengths([*company, "plant"], senses, wordnet=installed)
            assert paths.senses["plant"].name == "plant.n.02"


def test_agreement_beats_the_first_sense_on_coco(installed: WordNet) -> None:
    names = [name for name in SETS["coco80"] if installed.senses(name)]

    def wrong(senses: str) -> int:
        found = path_lengths(names, senses, wordnet=installed).senses
        return sum(found[name] != curated_sense(name) for name in names)

    assert wrong("agree") < 0.6 * wrong("first")


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not here")
def test_voc_paths_equal_the_reference() -> None:
    with (SHARED / "voc20_wordnet30_path_length.csv").open() as file:
        header, *rows = csv.reader(file)
    reference = np.array([row[1:] for row in rows], dtype=float)
    senses = json.loads((SHARED / "voc20_wordnet30_synsets.json").read_text())
    paths = path_lengths(header[1:])
    np.testing.assert_array_equal(paths.lengths, reference)
    assert {name: (sense.name, sense.id) for name, sense in paths.senses.items()} == {
        name: (entry["synset"], entry["offset30"]) for name, entry in senses.items()
    }


def test_paths_and_senses_equal_those_of_nltk(
    installed: WordNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nltk_data = pytest.importorskip("nltk.data")
    monkeypatch.setattr(nltk_data, "path", [str(tmp_path)])  # NLTK reads only below its own folders
    nltk = nltk_reader(installed, tmp_path)
    labels = {name: sense for chosen in SETS.values() for name, sense in chosen.items()}
    paths = path_lengths(labels, wordnet=installed).lengths
    synsets = [nltk.synset(sense) for sense in labels.values()]
    for (i, first), (j, second) in itertools.combinations(enumerate(synsets), 2):
        assert paths[i, j] == first.shortest_path_distance(second)
    for name in [*labels, "geese", "wolves", "men", "churches", "parties", "boxes", "einstein", "Crane"]:
        expected = [synset.name() for synset in nltk.synsets(name.replace(" ", "_"), pos="n")]
        assert [sense.name for sense in installed.senses(name)][: len(expected)] == expected
    rng = np.random.default_rng(0)
    lemmas = list(installed._source.lemmas())
    some = [installed.senses(lemmas[k])[0] for k in rng.choice(len(lemmas), 60)]
    lengths = installed.pairwise(some)
    for (i, first), (j, second) in itertools.combinations(enumerate(some), 2):
        assert lengths[i, j] == nltk.synset(first.name).shortest_path_distance(nltk.synset(second.name))


def nltk_reader(installed: WordNet, folder: Path):  # type: ignore[no-untyped-def]
    """NLTK's reader over the same files; the list of lexicographer files, which Debian leaves out, is added."""
    reader = pytest.importorskip("nltk.corpus.reader.wordnet")
    source = installed._source.path
    if not source.is_dir():
        pytest.skip("NLTK is compared on a dict folder")
    for file in source.iterdir():
        if file.is_file() and file.name != "lexnames":
            shutil.copy(file, folder)
    (folder / "lexnames").write_text("".join(f"{i:02d}\tfile{i}\t1\n" for i in range(45)))

    class Reader(reader.WordNetCorpusReader):  # type: ignore[misc, name-defined]
        def map_wn(self, version: str = "wordnet") -> None:
            """Other languages are mapped through a file that the folder does not have."""

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Reader(str(folder), None)
