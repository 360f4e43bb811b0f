"""Keywords inside photos, read and written by exiftool: never by code of our own."""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from unseen.photos.keywords import Keyword, keywords_in
from unseen.photos.tags import Change, Tags, joined, missing_entries
from unseen.photos.xmp import LISTS

__all__ = ["ExifTool"]

_COMMAND = ("exiftool", "-config", "")  # without the user's own settings
_PIPE = subprocess.PIPE
_IPTC = "IPTC:Keywords"
_IPTC_SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif", ".tif", ".tiff")  # not standard in other files
_IPTC_HEADER = {"CodedCharacterSet", "EnvelopeRecordVersion", "ApplicationRecordVersion", "Keywords"}
_TAGS = {
    "dc:subject": "XMP-dc:Subject",
    "lr:hierarchicalSubject": "XMP-lr:HierarchicalSubject",
    "digiKam:TagsList": "XMP-digiKam:TagsList",
    _IPTC: _IPTC,
}


class ExifTool:
    """One exiftool process for many photos, as a context manager.

    Parameters
    ----------
    backup : bool, default=True
        Keep the photo as it was before the first change as ``IMG_1.jpg_original``, exiftool's own way. Otherwise
        exiftool writes a new file beside the photo and renames it; the old one is gone.
    """

    def __init__(self, backup: bool = True) -> None:
        if not self.is_installed():
            raise OSError(
                "exiftool: it is not installed, and only it writes into photos. Install it (Debian: apt install "
                "libimage-exiftool-perl; others: https://exiftool.org), or write sidecars."
            )
        self.backup = backup
        command = [*_COMMAND, "-stay_open", "True", "-@", "-"]
        if os.name == "posix":  # so that it also ends if this process is killed
            command = ["sh", "-c", '{ cat; printf "%s\\n" -stay_open False; } | "$@"', "sh", *command]
        self._process = subprocess.Popen(command, stdin=_PIPE, stdout=_PIPE, stderr=subprocess.STDOUT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(b"-stay_open\nFalse\n")

    @staticmethod
    def is_installed() -> bool:
        """Whether there is an exiftool."""
        return shutil.which("exiftool") is not None

    def entries(self, photo: str | Path) -> dict[str, tuple[str, ...]]:
        """Return the entries of each list of keywords in a photo."""
        return self._read(photo)[0]

    def keywords(self, photo: str | Path) -> list[Keyword]:
        """Return the keywords in a photo of any format, for `unseen.photos.keywords.read_keywords`."""
        return keywords_in(self.entries(photo))

    def plan(self, photo: str | Path, tags: Tags) -> Change:
        """Return what would be added to a photo itself."""
        path = os.path.abspath(photo)  # noqa: PTH100 (links stay as they are)
        entries, iptc = self._read(path)
        names = [*LISTS, _IPTC] if path.lower().endswith(_IPTC_SUFFIXES) else LISTS
        added, repeated, created = missing_entries(tags, entries, keywords_in(entries), names)
        is_utf8 = not iptc or iptc.get("CodedCharacterSet") == "UTF8"
        for lists in (added, repeated):  # what IPTC cannot hold is in XMP anyway
            texts = [
                text for text in lists.pop(_IPTC, ()) if len(text.encode()) <= 64 and (is_utf8 or text.isascii())
            ]
            lists |= {_IPTC: texts} if texts else {}
        return Change(path, os.path.realpath(path), added, repeated, created if iptc else [*created, "IPTC"])

    def apply(self, change: Change) -> None:
        """Write a planned change into the photo."""
        new = joined(change.repeated, change.added)
        edits = [f"-{_TAGS[name]}+={entry}" for name, entries in new.items() for entry in entries]
        if "IPTC" in change.created and _IPTC in change.added:
            edits.append("-IPTC:CodedCharacterSet=UTF8")
        self._edit(change.target, edits, self.backup)

    def undo(self, change: Change) -> None:
        """Take a change back; a backup of the photo stays."""
        found, iptc = self._read(change.target)
        gone: dict[str, set[str]] = {}
        for name, entries in change.added.items():
            there, repeated = set(found.get(name, ())), set(change.repeated.get(name, ()))
            gone[name] = there & {*entries, *repeated}
            gone[name] -= repeated if there - gone[name] else set()
        edits = [f"-{_TAGS[name]}-={entry}" for name, entries in gone.items() for entry in entries]
        is_ours = "IPTC" in change.created and not iptc.keys() - _IPTC_HEADER
        if is_ours and gone.get(_IPTC) == set(found.get(_IPTC, ())):
            edits.append("-IPTC:all=")
        if edits:
            self._edit(change.target, edits, backup=False)

    def _edit(self, path: str, edits: Sequence[str], backup: bool) -> None:
        answer = self._run("-m", *([] if backup else ["-overwrite_original"]), *edits, path)
        if "1 image files updated" not in answer:
            raise OSError(f"photo: exiftool did not write {path!r} ({' '.join(answer.split())}).")

    def _read(self, photo: str | Path) -> tuple[dict[str, tuple[str, ...]], dict[str, Any]]:
        """Return the entries of each list of keywords in a photo, and all that it has in IPTC."""
        wanted = [f"-{tag}" for tag in (*_TAGS.values(), "IPTC:all")]
        answer = self._run("-j", "-G1", *wanted, os.path.realpath(photo))
        start = answer.find("[{")
        if start < 0:
            raise OSError(f"photo: exiftool cannot read {str(photo)!r} ({' '.join(answer.split())}).")
        found, _ = json.JSONDecoder(parse_float=str, parse_int=str).raw_decode(answer[start:])
        lists = {name: found[0][tag] for name, tag in _TAGS.items() if tag in found[0]}
        entries = {name: tuple(map(str, x)) if isinstance(x, list) else (str(x),) for name, x in lists.items()}
        return entries, {tag[5:]: value for tag, value in found[0].items() if tag.startswith("IPTC:")}

    def _run(self, *arguments: str) -> str:
        """Return what exiftool answers; paths are absolute, so that none looks like an option."""
        arguments = ("-charset", "filename=utf8", *arguments)
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None or any(mark in text for text in arguments for mark in "\r\n"):
            # The open process reads one argument per line.
            done = subprocess.run([*_COMMAND, *arguments], stdout=_PIPE, stderr=subprocess.STDOUT, check=False)
            return done.stdout.decode(errors="replace")
        stdin.write(os.fsencode("\n".join((*arguments, "-execute", ""))))
        stdin.flush()
        answer = b""
        while (line := stdout.readline()).rstrip() != b"{ready}":
            if not line:
                raise OSError(f"exiftool: it ended early ({answer.decode(errors='replace')}).")
            answer += line
        return answer.decode(errors="replace")
