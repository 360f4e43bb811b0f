"""`unseen labels`: what a person types, and what comes back."""

import pytest
from typer.testing import CliRunner

from unseen.cli import app

VECTORS = "dog 1.0 0.1 0.0\ncat 0.9 0.2 0.1\ncar 0.0 1.0 0.1\nbus 0.1 0.9 0.0\nsofa 0.0 0.1 1.0\n"


@pytest.fixture
def vectors(tmp_path, monkeypatch):
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "small.txt"
    path.write_text(VECTORS)
    return path


def run(*arguments):
    return CliRunner().invoke(app, ["labels", *map(str, arguments)])


def test_show_says_what_stands_for_each_label(vectors):
    done = run("show", "--seen", "dog, Car", "--unseen", "cat, bus stop, sofa", "--vectors", vectors)
    assert done.exit_code == 2  # 'stop' is in no vector file
    assert "'bus stop'" in done.stderr
    done = run("show", "--seen", "dog, Car", "--unseen", "cat, bus, sofa", "--vectors", vectors)
    assert done.exit_code == 0
    lines = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line.strip()}
    assert lines["Car"][1:4] == ["seen", "car", "case"]
    assert lines["cat"][1:5] == ["unseen", "cat", "exact", "dog"]


def test_diagnose_ranks_unseen_labels_and_writes_a_page(vectors, tmp_path):
    names = tmp_path / "unseen.txt"
    names.write_text("# animals and others\ncat\n\nbus\nsofa\n")
    page = tmp_path / "page.html"
    done = run(
        "diagnose", "--seen", "dog, car", "--unseen", names, "--vectors", vectors, "--source", "wordnet",
        "--output", page,
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    assert done.stdout.index("cat") < done.stdout.index("sofa")
    text = page.read_text()
    assert text.count("<svg") == 2
    assert all(name in text for name in ("cat", "bus", "sofa", "orphan"))


def test_relations_need_no_vectors(tmp_path):
    page = tmp_path / "page.html"
    done = run("relations", "--seen", "dog, cat", "--unseen", "car", "--output", page)
    assert done.exit_code == 0
    assert "cat 0.200" in done.stdout
    assert page.read_text().count("<svg") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["relations", "--seen", " , "], "--seen: ' , ' holds no name"),
        (["relations", "--seen", "dog, dog"], "'dog' given more than once"),
        (["relations", "--seen", "dog", "--source", "nowhere.csv"], "neither 'wordnet', 'flickr' nor a file"),
        (["show", "--seen", "dog", "--vectors", "nowhere.txt"], "nowhere.txt"),
        (["show", "--seen", "dog", "--output", "/"], "--output: '/' is a directory"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(arguments, message):
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_file_of_names_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "names.txt"
    path.write_bytes(b"\xff\xfe\x00dog")
    done = run("relations", "--seen", path)
    assert done.exit_code == 2
    assert "no text in UTF-8" in done.stderr


@pytest.mark.parametrize("name", ["names", "names.txt"])
def test_a_file_is_a_file_whatever_it_is_called(tmp_path, name):
    path = tmp_path / name
    path.write_bytes("\ufeffdog\ncat\n".encode())
    done = run("relations", "--seen", path)
    assert done.exit_code == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines() if "seen" in line][:2] == ["dog", "cat"]


def test_a_file_that_is_not_there_is_no_label():
    done = run("relations", "--seen", "missing.txt")
    assert done.exit_code == 2
    assert "there is no file 'missing.txt'" in done.stderr


def test_a_long_list_of_names_is_no_file_name():
    done = run("relations", "--seen", ", ".join(["dog", "cat", "st. bernard"] * 100))
    assert done.exit_code == 2
    assert "given more than once" in done.stderr


def test_unknown_names_can_be_skipped(vectors):
    done = run("show", "--seen", "dog, qwrtz", "--vectors", vectors, "--missing", "skip")
    assert done.exit_code == 0, done.stderr
    assert "qwrtz" not in done.stdout
    assert "dog" in done.stdout


def test_a_sense_can_be_given_and_a_half_one_is_refused():
    done = run("relations", "--seen", "dog, cat", "--sense", "dog=")
    assert done.exit_code == 2
    assert done.stderr.startswith("unseen labels relations: --sense: dog= was given")


def test_a_file_without_any_of_the_labels_is_refused(tmp_path):
    path = tmp_path / "tags.txt"
    path.write_bytes(bytes(range(1, 256)) * 20)
    done = run("relations", "--seen", "dog, cat", "--source", path)
    assert done.exit_code == 2
