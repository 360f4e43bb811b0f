from pathlib import Path

import pytest

from unseen.files import cache_dir


def test_the_environment_names_the_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "mine"))
    assert cache_dir("a", "b") == tmp_path / "mine" / "a" / "b"
    assert (tmp_path / "mine" / "a" / "b").is_dir()


@pytest.mark.parametrize("empty", [None, ""])
def test_without_it_the_xdg_directory_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, empty: str | None
) -> None:
    monkeypatch.delenv("UNSEEN_CACHE", raising=False)
    if empty is not None:
        monkeypatch.setenv("UNSEEN_CACHE", empty)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir(create=False) == tmp_path / "unseen"
    assert not (tmp_path / "unseen").exists()


@pytest.mark.parametrize("xdg", ["", "relative/path"])
def test_a_relative_xdg_directory_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, xdg: str) -> None:
    monkeypatch.delenv("UNSEEN_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", xdg)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / ".cache" / "unseen"


def test_a_directory_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "file"))
    with pytest.raises(OSError, match=r"cache: the directory '.*file' cannot be written .*Set UNSEEN_CACHE"):
        cache_dir()
