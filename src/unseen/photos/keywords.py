"""Keywords that photos and their sidecars carry."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from unseen.files import read_whole
from unseen.photos.xmp import LISTS, Packet, open_packet

__all__ = ["Keyword", "embedded_keywords", "find_sidecars", "keywords_in", "read_keywords"]

_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_PILLOW_FORMATS = ("JPEG", "MPO", "PNG", "WEBP", "TIFF", "AVIF", "HEIF", "GIF")
_INTERNAL = ("", "darktable", "_digikam_internal_tags_")  # roots of tags that programs make for themselves
_REPLACED = {"|": "/", "/": "\\"}  # separators inside a name; the backslash is digiKam's own rule


class Keyword(NamedTuple):
    """A tag and the more general ones above it: ``Keyword("cat", ("animal",))``."""

    name: str
    parents: tuple[str, ...] = ()

    @classmethod
    def checked(cls, given: str | Keyword) -> Keyword:
        """Return a name, or a name with its parents, without superfluous spaces."""
        name, parents = (given, ()) if isinstance(given, str) else given
        levels = [" ".join(str(level).split()) for level in (*parents, name)]
        if isinstance(parents, str) or not all(levels) or _NOT_XML.search("".join(levels)):
            raise ValueError(f"tags: {given!r} was given. Pass words, without control characters.")
        return cls(levels[-1], tuple(levels[:-1]))

    @classmethod
    def read(cls, entry: str, separator: str | None) -> Keyword:
        """Return the keyword that an entry of a list stands for."""
        levels = [level.strip() for level in entry.split(separator)] if separator else [entry.strip()]
        levels = [level.replace("\\", "/") if separator == "/" else level for level in levels if level]
        return cls(levels[-1], tuple(levels[:-1])) if levels else cls("")

    def written(self, separator: str | None) -> str:
        """Return the entry for a list."""
        if separator is None:
            return self.name
        return separator.join(
            level.replace(separator, _REPLACED[separator]) for level in (*self.parents, self.name)
        )

    @property
    def key(self) -> str:
        """Its name, the same for other spellings of it."""
        return unicodedata.normalize("NFC", self.name).casefold()


def find_sidecars(photo: Path) -> list[tuple[Path, Packet]]:
    """Return the sidecars of a photo, the one to be written first.

    ``IMG_1.jpg.xmp`` comes before ``IMG_1.xmp``, which does not count if it says that it belongs to a photo with
    another suffix, such as a raw file.
    """
    found: list[tuple[Path, Packet]] = []
    for name in dict.fromkeys((photo.name, photo.stem)):
        path = next((path for end in (".xmp", ".XMP") if (path := photo.with_name(name + end)).is_file()), None)
        if path is not None:
            packet = open_packet(read_whole(path), str(path))
            if name == photo.name or packet.extension in ("", photo.suffix.lower().removeprefix(".")):
                found.append((path, packet))
    return found


def embedded_keywords(photo: Path) -> list[Keyword]:
    """Return the keywords inside a photo, in XMP or IPTC, as far as Pillow reads its format."""
    try:
        from PIL import Image, IptcImagePlugin
    except ImportError:
        return []
    from unseen.images.reading import quiet_pillow

    try:
        Image.preinit()
        formats = [name for name in _PILLOW_FORMATS if name in Image.OPEN]
        with quiet_pillow(), Image.open(photo, formats=formats) as image:
            packet = image.info.get("xmp") or image.info.get("XML:com.adobe.xmp") or b""
            iptc = (IptcImagePlugin.getiptcinfo(image) or {}).get((2, 25), [])
        packet = packet.encode() if isinstance(packet, str) else packet
        entries = dict(Packet(packet.strip(b"\0 \r\n\t"), str(photo)).entries) if packet else {}
        entries["IPTC:Keywords"] = tuple(map(_iptc_text, iptc if isinstance(iptc, list) else [iptc]))
    except Exception:  # a damaged file can make Pillow raise almost anything; its tags cannot be known then
        return []
    return keywords_in(entries)


def _iptc_text(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


def keywords_in(entries: Mapping[str, Sequence[str]]) -> list[Keyword]:
    """Return the keywords of several lists, each once, without those that programs make for themselves."""
    paths, flat, internal = dict[tuple[str, ...], Keyword](), dict[str, Keyword](), set[str]()
    for name, texts in entries.items():
        separator = LISTS[name].separator if name in LISTS else None
        for keyword in (Keyword.read(text, separator) for text in texts):
            levels = tuple(Keyword(level).key for level in (*keyword.parents, keyword.name))
            if separator is None:
                flat.setdefault(keyword.key, keyword)
            elif levels[0] in _INTERNAL:
                internal.update(levels)
            else:
                paths.setdefault(levels, keyword)
    known = {"", *internal, *(level for levels in paths for level in levels)}
    return [*paths.values(), *(one for key, one in flat.items() if key not in known)]


def read_keywords(
    photo: str | Path,
    without: Collection[str] = (),
    embedded: Callable[[Path], Iterable[Keyword]] = embedded_keywords,
) -> tuple[str, ...]:
    """Return the words that a photo and its sidecars carry, each once: keywords and the levels above them.

    Parameters
    ----------
    photo : path
        An image file.
    without : collection of str
        Words to leave out, such as those that unseen itself has written.
    embedded : callable
        Reads the keywords inside a photo; by default with Pillow, which opens no raw files. `ExifTool.keywords`
        does.
    """
    photo = Path(photo)
    found = [keyword for _, packet in find_sidecars(photo) for keyword in keywords_in(packet.entries)]
    words = dict[str, str]()
    for one in (*found, *embedded(photo)):
        for level in (*one.parents, one.name):
            words.setdefault(Keyword(level).key, level)
    left_out = {Keyword(word).key for word in without}
    return tuple(word for key, word in words.items() if key not in left_out)
