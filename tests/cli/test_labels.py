"""`unseen labels`, as a person types it."""

import pytest
from tests.labels.test_wordnet import write_wndb
from typer.testing import CliRunner

from unseen.cli import app

VECTORS = "dog 1.0 0.1 0.0\ncat 0.9 0.2 0.1\ncar 0.0 1.0 0.1\nbus 0.1 0.9 0.0\nsofa 0.0 0.1 1.0\n"


@pytest.fixture
def vectors(tmp_path, monkeypatch):
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "cache"))
    (tmp_path / "small.txt").write_text(VECTORS)
    return tmp_path / "small.txt"


def run(*arguments, code=0):
    done = CliRunner().invoke(app, ["labels", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done


def test_vectors_nearest_labels_and_transfer_are_shown_and_drawn(vectors, tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "unseen.txt").write_text("# animals and others\ncat\n\nbus\nsofa\n")
    out = run(
        "--seen", "dog; Car", "--unseen", tmp_path / "unseen.txt", "--vectors", vectors, "--source", "wordnet",
        "-o", tmp_path / "page.html",
    ).stdout  # fmt: skip
    transfer, looked_up, related = out.split("\n\n")[:3]
    assert transfer.index("cat") < transfer.index("sofa")
    rows = {line.split()[0]: line.split() for line in looked_up.splitlines()}
    assert rows["Car"][1:3] == ["seen", "car"]
    assert rows["cat"][1:3] + rows["cat"][-2:-1] == ["unseen", "cat", "dog"]
    assert "cat 0.200" in related
    text = (tmp_path / "page.html").read_text()
    assert text.count("<svg") == 2
    assert all(name in text for name in ("cat", "bus", "sofa", "orphan"))


def test_relations_need_no_vectors(tmp_path, monkeypatch):
    pytest.importorskip("nltk")
    monkeypatch.setenv("WNSEARCHDIR", str(write_wndb(tmp_path)))
    out = run("--seen", "dog, cat", "--vectors", "none", "--source", "wordnet", "--sense", "dog=dog.n.01").stdout
    assert "cat 0.333" in out
    assert "Vectors" not in out


def test_near_duplicates_are_merged_with_a_note(vectors):
    done = run("--seen", "dog, Dog, cat", "--unseen", "DOG, car", "--vectors", vectors)
    shown = [line.split()[:2] for line in done.stdout.splitlines() if line.split()[1:2] in (["seen"], ["unseen"])]
    assert shown == [["dog", "seen"], ["cat", "seen"], ["car", "unseen"]]
    assert [line.split(":")[:2] for line in done.stderr.splitlines()] == [["unseen labels", " note"]] * 2


def test_names_without_vectors_can_be_skipped(vectors):
    done = run("--seen", "dog, qwrtz", "--vectors", vectors, "--missing", "skip")
    assert "qwrtz" not in done.stdout
    assert "qwrtz" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--seen", " , "],
        ["--seen", "dog", "--vectors", "none", "--source", "nowhere.csv"],
        ["--seen", "dog, cat", "--vectors", "none", "--source", "wordnet", "--sense", "dog="],
        ["--seen", "dog", "--vectors", "nowhere.txt"],
        ["--seen", "dog", "-o", "/"],
        ["--seen", "qwrtz, dog", "--vectors", "VECTORS"],
        ["--seen", "qwrtz", "--unseen", "dog", "--vectors", "VECTORS", "--missing", "skip"],
    ],
)
def test_mistakes_are_one_line_with_exit_code_2(vectors, arguments):
    done = run(*(vectors if word == "VECTORS" else word for word in arguments), code=2)
    assert done.stderr.splitlines()[-1].startswith("unseen labels: ")
    assert "Traceback" not in done.output
