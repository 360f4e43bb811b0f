import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.labels.wndb import TINY, Entry, assert_equals_brute_force, write_wndb

from unseen.labels import wordnet_files, wordnet_synsets
from unseen.labels.relations import from_path_lengths
from unseen.labels.wordnet import WordNet, curated_sense, open_wordnet, path_lengths
from unseen.labels.wordnet_tables import curated_label_sets

SETS = curated_label_sets()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> WordNet:
    folder = tmp_path_factory.mktemp("dict")
    write_wndb(folder)
    return open_wordnet(folder)


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A computer without any WordNet."""
    monkeypatch.setattr(wordnet_synsets, "find_dict", lambda: None)
    monkeypatch.setattr(wordnet_synsets, "has_package_data", lambda: False)


def test_a_dict_folder_says_which_version_it_is(tiny: WordNet) -> None:
    assert "WordNet 9.9" in tiny.name


def test_senses_come_in_the_order_of_the_index(tiny: WordNet) -> None:
    assert [sense.lemmas for sense in tiny.senses("mouse")] == [("mouse",), ("mouse", "computer_mouse")]
    assert [sense.name for sense in tiny.senses("mouse")] == ["mouse.n.01", "mouse.n.02"]
    assert tiny.senses("dog")[0].gloss == 'a barking animal; "the dog barked"'
    assert tiny.senses("unicorn") == ()


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
        ("rex", "rex.n.01"),
    ],
)
def test_names_are_found_whatever_their_form(tiny: WordNet, name: str, sense: str) -> None:
    assert tiny.senses(name)[0].name == sense


def test_a_synset_has_four_spellings(tiny: WordNet) -> None:
    dog = tiny.senses("dog")[0]
    for spelling in ("dog.n.01", "dog.n.1", dog.id, f"n{dog.id[:8]}", dog):
        assert tiny.synset(spelling) == dog


@pytest.mark.parametrize("sense", ["dog.n.02", "dog.n.00", "unicorn.n.01", "run.v.01", "99999999-n", "dog", ""])
def test_unknown_senses_are_named(tiny: WordNet, sense: str) -> None:
    with pytest.raises(ValueError, match=f"sense: '{sense}' is no noun sense"):
        tiny.synset(sense)


def test_hypernyms_and_is_a_follow_every_parent_and_instances(tiny: WordNet) -> None:
    assert [above.name for above in tiny.hypernyms("rex.n.01")] == [
        "dog.n.01",
        "canine.n.01",
        "pet.n.01",
        "animal.n.01",
        "entity.n.01",
    ]
    assert tiny.is_a("rex.n.01", "animal.n.01")
    assert tiny.is_a("dog.n.01", "dog.n.01")
    assert not tiny.is_a("animal.n.01", "dog.n.01")
    assert tiny.is_instance("rex.n.01")
    assert not tiny.is_instance("dog.n.01")
    assert tiny.n_hyponyms("plant.n.02") == 3


def test_paths_go_up_to_the_nearest_common_ancestor(tiny: WordNet) -> None:
    assert tiny.path_length("dog.n.01", "dog.n.01") == 0
    assert tiny.path_length("dog.n.01", "cat.n.01") == 2  # by pet, not by animal
    assert tiny.path_length("rex.n.01", "animal.n.01") == 3
    assert tiny.path_length("dog.n.01", "keyboard.n.01") == 6
    assert tiny.path_length("dog.n.01", "gizmo.n.01") == np.inf


def test_pairs_equal_a_brute_force_search(tiny: WordNet) -> None:
    assert_equals_brute_force(tiny, [f"{key}.n.01" for key in ("dog", "cat", "rex", "tree", "gizmo", "entity")])


@settings(max_examples=40)
@given(st.data())
def test_any_hierarchy_gives_the_paths_of_a_brute_force_search(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    n = data.draw(st.integers(2, 12))
    entries = {}
    for i in range(n):
        parents = data.draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set()
        entries[f"w{i}"] = Entry(f"w{i}", " ".join(f"w{j}" for j in sorted(parents)))
    folder = tmp_path_factory.mktemp("random")
    write_wndb(folder, entries)
    assert_equals_brute_force(open_wordnet(folder), [f"w{i}.n.01" for i in range(n)])


def test_a_circle_in_the_hierarchy_is_an_error(tmp_path: Path) -> None:
    write_wndb(tmp_path, {**TINY, "animal": Entry("animal beast", "dog")})
    broken = open_wordnet(tmp_path)
    with pytest.raises(ValueError, match=r"goes in a circle: .* is a .*Install it again"):
        broken.path_length("dog.n.01", "cat.n.01")
    with pytest.raises(ValueError, match="circle"):
        path_lengths(["dog", "cat"], "first", wordnet=broken)


def test_a_synset_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    write_wndb(tmp_path, ids={"pet": 77})
    with pytest.raises(ValueError, match="damaged: there is no synset '00000077-n'"):
        open_wordnet(tmp_path).hypernyms("dog.n.01")


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("index.noun", "dog n 1 2", "dog n 3 2", "promises 3 senses of 'dog' and lists 1"),
        ("index.noun", "dog n 1 2", "dog n x 2", "index.noun has the line 'dog'"),
        ("data.noun", " 03 n 02 dog", " 03 n ff dog", "malformed synset"),
        ("data.noun", "| a barking", "  a barking", "malformed synset"),
    ],
)
def test_malformed_lines_are_an_error(tmp_path: Path, file: str, old: str, new: str, message: str) -> None:
    write_wndb(tmp_path)
    path = tmp_path / file
    content = path.read_text()
    assert old in content
    path.write_text(content.replace(old, new))
    with pytest.raises(ValueError, match=message):
        open_wordnet(tmp_path).senses("dog")


def test_truncated_data_are_an_error(tmp_path: Path) -> None:
    write_wndb(tmp_path)
    path = tmp_path / "data.noun"
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(ValueError, match="damaged"):
        open_wordnet(tmp_path).senses("gizmo")


def test_a_zip_archive_is_read_like_the_folder(tiny: WordNet, tmp_path: Path) -> None:
    write_wndb(tmp_path / "wordnet")
    archive = tmp_path / "wordnet.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for member in (tmp_path / "wordnet").iterdir():
            file.write(member, f"wordnet/{member.name}")
    assert open_wordnet(archive).senses("geese") == tiny.senses("geese")
    archive.write_bytes(archive.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"no whole zip archive .*Download"):
        open_wordnet(archive).senses("geese")


@pytest.mark.parametrize(
    ("variable", "inside"),
    [("WNSEARCHDIR", "."), ("WNHOME", "dict"), ("NLTK_DATA", "corpora/wordnet")],
)
def test_wordnet_is_found_where_it_usually_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, inside: str
) -> None:
    for other in ("WNSEARCHDIR", "WNHOME", "NLTK_DATA"):
        monkeypatch.delenv(other, raising=False)
    write_wndb(tmp_path / inside)
    monkeypatch.setenv(variable, str(tmp_path))
    assert (tmp_path / inside).resolve() in {place.resolve() for place in wordnet_files.usual_places()}
    monkeypatch.setattr(wordnet_files, "usual_places", lambda: iter([tmp_path / "no", tmp_path / inside]))
    assert "WordNet 9.9" in open_wordnet().name


def test_without_a_wordnet_the_error_says_how_to_get_one(nowhere: None, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="wordnet-base"):
        open_wordnet()
    with pytest.raises(FileNotFoundError, match=r"no WordNet in .*wordnet-base"):
        open_wordnet(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"labels: 'unicorn' not in the table of VOC-20.*wordnet-base"):
        path_lengths(["dog", "unicorn"])


def test_the_tables_need_no_wordnet_and_say_so(nowhere: None) -> None:
    paths = path_lengths(["dog", "sofa", "Dining Table", "tvmonitor"])
    assert "ships with unseen" in paths.source
    assert set(paths.chosen.values()) == {"curated"}
    relations = from_path_lengths(paths)
    assert relations[0, 1] == 1 / 12
    assert "dining_table.n.01 (a table at which meals are served); curated" in paths.report()


@pytest.mark.parametrize("glued", ["diningtable", "pottedplant", "tvmonitor"])
def test_data_sets_glue_names(glued: str) -> None:
    spaced = {"diningtable": "dining table", "pottedplant": "potted-plant", "tvmonitor": "tv_monitor"}[glued]
    assert curated_sense(glued) == curated_sense(spaced) is not None


def test_both_label_sets_are_whole() -> None:
    assert (len(SETS["voc20"]), len(SETS["coco80"])) == (20, 80)
    for labels in SETS.values():
        lengths = path_lengths(labels).lengths
        assert np.isfinite(lengths).all()
        np.testing.assert_array_equal(lengths, lengths.T)


def test_given_senses_are_kept_and_shape_the_others(tiny: WordNet) -> None:
    paths = path_lengths(["mouse", "keyboard"], {"mouse": "mouse.n.01", "keyboard": "keyboard.n.01"}, wordnet=tiny)
    assert paths.chosen["mouse"] == "given"
    assert paths.lengths[0, 1] == 6


def test_the_sense_that_agrees_depends_on_the_company(tiny: WordNet) -> None:
    for company, name in ((["keyboard"], "mouse.n.02"), (["rodent", "cat"], "mouse.n.01")):
        paths = path_lengths(["mouse", *company], "agree", wordnet=tiny)
        assert paths.senses["mouse"].name == name
        assert paths.chosen["mouse"] == "agrees best of 2 senses"


def test_a_plant_among_things_is_no_factory(tiny: WordNet) -> None:
    assert path_lengths(["plant", "keyboard"], "agree", wordnet=tiny).senses["plant"].name == "plant.n.02"
    assert path_lengths(["plant", "keyboard"], "first", wordnet=tiny).senses["plant"].name == "plant.n.01"


@given(st.permutations(["mouse", "plant", "dog", "rodent", "keyboard", "tree"]))
def test_the_order_of_the_labels_changes_no_sense(tiny: WordNet, labels: list[str]) -> None:
    paths = path_lengths(labels, "agree", wordnet=tiny)
    again = path_lengths(sorted(labels), "agree", wordnet=tiny)
    assert paths.senses == again.senses


def test_unknown_names_are_listed_with_the_nearest_or_treated_as_chosen(tiny: WordNet) -> None:
    with pytest.raises(ValueError, match=r"labels: 1 name is no noun of .*'gosse' \(nearest: 'goose'"):
        path_lengths(["gosse", "dog"], wordnet=tiny)
    alone = path_lengths(["gosse", "dog"], wordnet=tiny, missing="isolate")
    np.testing.assert_array_equal(alone.lengths, [[0, np.inf], [np.inf, 0]])
    assert alone.senses["gosse"] is None
    head = path_lengths(["fast red sports car", "keyboard"], "agree", wordnet=tiny, missing="head")
    assert head.chosen["fast red sports car"] == "as a kind of 'sports car'"
    with pytest.raises(ValueError, match="no noun"):
        path_lengths(["very fast", "dog"], wordnet=tiny, missing="head")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"senses": "last"}, "senses: 'last' was given. Choose one of 'first', 'agree'"),
        ({"senses": {"dgo": "dog.n.01"}}, r"senses: 1 unknown label: 'dgo' \(nearest: 'dog'\)"),
        ({"senses": {"dog": "dog.n.07"}}, r"senses\['dog'\]: 'dog.n.07' is no noun sense.*'dog.n.01'"),
        ({"senses": {"dog": 7}}, r"senses\['dog'\]: 7 was given"),
        ({"missing": "drop"}, "missing: 'drop' was given"),
    ],
)
def test_bad_arguments_are_named(tiny: WordNet, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        path_lengths(["dog", "cat"], wordnet=tiny, **arguments)
