"""XMP packets: the keywords in them, and the same bytes with keywords added or taken out.

A packet is edited as text, at the places that a parser reports. All else (other programs' properties, comments,
prefixes, white space, line ends, the encoding) stays as it is, byte by byte.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple
from xml.parsers import expat
from xml.sax.saxutils import escape

__all__ = ["LISTS", "Packet", "open_packet"]

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_DESCRIPTION, _VALUE = f"{_RDF} Description", f"{_RDF} value"
_CONTAINERS = {f"{_RDF} {kind}" for kind in ("Bag", "Seq", "Alt")}
_ABOUT = {f"{_RDF} about", "about"}
_SIDECAR_FOR = "http://ns.adobe.com/photoshop/1.0/ SidecarForExtension"
_START_TAG = re.compile(rb"""<(?:[^"'>]|"[^"]*"|'[^']*')*>""")
_ATTRIBUTE = re.compile(rb"""\s+([^\s=]+)\s*=\s*(?:"[^"]*"|'[^']*')""")
_DECLARED = re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["']([\w.-]+)""")
_Edit = tuple[int, int, str]  # start, end, text to put there
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be"),
          (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))  # fmt: skip


class _List(NamedTuple):
    """A property that lists keywords, and how it separates the levels of a hierarchy."""

    prefix: str
    key: str  # namespace and name
    container: str
    separator: str | None


LISTS = {
    "dc:subject": _List("dc", "http://purl.org/dc/elements/1.1/ subject", "Bag", None),
    "lr:hierarchicalSubject": _List("lr", "http://ns.adobe.com/lightroom/1.0/ hierarchicalSubject", "Bag", "|"),
    "digiKam:TagsList": _List("digiKam", "http://www.digikam.org/ns/1.0/ TagsList", "Seq", "/"),
}
_NAMESPACES = "".join(f'\n    xmlns:{one.prefix}="{one.key.split()[0]}"' for one in LISTS.values())
_BARE = f"""<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="unseen">
 <rdf:RDF xmlns:rdf="{_RDF}">
  <rdf:Description rdf:about=""{_NAMESPACES}>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>
""".encode()


@dataclass(eq=False)
class _Node:
    """An element of a packet and its place in the bytes."""

    name: str
    attributes: dict[str, str]
    namespaces: dict[str, str]  # by prefix
    start: int
    inside: int  # behind the start tag
    end: int = 0  # equals ``inside`` for <a/>
    children: list[_Node] = field(default_factory=list)
    text: str = ""

    @property
    def value(self) -> str:
        """Its text, or that of rdf:value where the text has qualifiers."""
        found = [child for child in self.children if child.name in (_VALUE, _DESCRIPTION)]
        return found[0].value if found else self.text.strip()

    @property
    def items(self) -> list[_Node]:
        """Entries of a list."""
        return [item for box in self.children for item in box.children]


class Packet:
    """An XMP packet, such as a sidecar.

    Parameters
    ----------
    content : bytes, optional
        Bytes of the file, in UTF-8, 16 or 32; by default a packet without properties. A document type is refused:
        no packet needs one, and entities can fill the memory.
    name : str
        Name of the file, for messages.
    """

    def __init__(self, content: bytes = _BARE, name: str = "packet") -> None:
        self.content, self.name = content, name
        self._mark, self._encoding = _encoding(content, name)
        try:
            self._content = content[len(self._mark) :].decode(self._encoding).encode()
        except UnicodeError as error:
            raise ValueError(f"xmp: {name!r} is not {self._encoding} ({error}). Repair or remove it.") from None
        root = self._parse()
        rdf = next((node for node in (root, *root.children) if node.name == f"{_RDF} RDF"), None)
        if rdf is None:
            raise ValueError(f"xmp: {name!r} is XML, but not XMP: it has no rdf:RDF. Repair or remove it.")
        self._rdf = rdf
        self._descriptions = [node for node in rdf.children if node.name == _DESCRIPTION]

    def _parse(self) -> _Node:
        content, parser = self._content, expat.ParserCreate("utf-8", " ")
        parser.buffer_text = True
        top = _Node("", {}, {}, 0, 0)
        stack, declared = [top], dict[str, str]()

        def start(name: str, attributes: dict[str, str]) -> None:
            parent, at = stack[-1], parser.CurrentByteIndex
            tag = _START_TAG.match(content, at)
            namespaces = {**parent.namespaces, **declared} if declared else parent.namespaces
            declared.clear()
            stack.append(_Node(name, attributes, namespaces, at, tag.end() if tag else at))
            parent.children.append(stack[-1])

        def end(_: str) -> None:
            node = stack.pop()
            is_empty = content[node.inside - 2 : node.inside] == b"/>"
            node.end = node.inside if is_empty else content.index(b">", parser.CurrentByteIndex) + 1

        def text(data: str) -> None:
            stack[-1].text += data

        def refuse(*_: object) -> None:
            raise ValueError(f"xmp: {self.name!r} has a document type, which XMP never needs. Remove that line.")

        parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
        parser.StartNamespaceDeclHandler = lambda prefix, uri: declared.update({prefix or "": uri or ""})
        parser.StartDoctypeDeclHandler = refuse
        try:
            parser.Parse(content, True)
        except expat.ExpatError as error:
            raise ValueError(f"xmp: {self.name!r} is not XML ({error}). Repair or remove it.") from None
        return top.children[0]

    @property
    def extension(self) -> str:
        """Suffix of the photo that a sidecar says it belongs to, such as ``cr2``; "" if it does not say."""
        return next(iter(self._texts(_SIDECAR_FOR)), "").lower()

    @property
    def has_description(self) -> bool:
        """Whether there is a place for properties."""
        return bool(self._descriptions)

    @property
    def is_bare(self) -> bool:
        """Whether there is no property at all."""
        others = [node for node in self._rdf.children if node not in self._descriptions]
        return not others and not any(one.children or one.attributes.keys() - _ABOUT for one in self._descriptions)

    @cached_property
    def entries(self) -> dict[str, tuple[str, ...]]:
        """Entries of each list of keywords that is there."""
        texts = {name: self._texts(kind.key) for name, kind in LISTS.items()}
        return {name: tuple(found) for name, found in texts.items() if found or self._properties(LISTS[name].key)}

    def _properties(self, key: str) -> list[_Node]:
        return [child for node in self._descriptions for child in node.children if child.name == key]

    def _texts(self, key: str) -> list[str]:
        """Return the values of a property, whatever its form."""
        texts = [node.attributes.get(key, "") for node in self._descriptions]
        for node in self._properties(key):
            texts += [item.value for item in node.items] if node.children else [node.value]
        return [text.strip() for text in texts if text.strip()]

    def with_entries(self, entries: Mapping[str, Sequence[str]]) -> bytes:
        """Return the packet with entries added at the end of lists; a list that is missing is made."""
        if not self._descriptions:
            prefix, space = self._prefix(self._rdf), _deeper(self._space(self._rdf))
            edit = self._appended(self._rdf, f'{space}<{prefix}Description {prefix}about=""/>')
            return Packet(self._edited([edit]), self.name).with_entries(entries)
        edits, new = [], ""
        for name, values in entries.items():
            lists = self._properties(LISTS[name].key)
            if values and lists and lists[0].children:
                box, *others = lists[0].children
                if others or box.name not in _CONTAINERS:
                    what = f"xmp: in {self.name!r} {lists[0].name.split()[1]} is not a list of words"
                    raise ValueError(f"{what}. Repair it or remove the file.")
                space = self._space(box.children[-1]) if box.children else _deeper(self._space(box))
                edits.append(self._appended(box, _items(self._prefix(box), values, space)))
            elif values:  # there is none, or a single value, which becomes the first entry
                edits += self._simple_values(LISTS[name]) if name in self.entries else []
                new += self._list(LISTS[name], (*self.entries.get(name, ()), *values))
        return self._edited([*edits, self._appended(self._descriptions[0], new)] if new else edits)

    def without_entries(
        self,
        entries: Mapping[str, Sequence[str]],
        repeated: Mapping[str, Sequence[str]] | None = None,
        created: Collection[str] = (),
    ) -> bytes:
        """Return the packet without entries, each taken out once.

        Entries in ``repeated`` go too if no others are left in their list; lists in ``created`` go once they are
        empty.
        """
        edits = []
        for name, values in entries.items():
            lists = self._properties(LISTS[name].key)
            items = [item for node in lists for item in node.items]
            gone = _last(items, values)
            rest = [item for item in items if item not in gone]
            others = _last(rest, (repeated or {}).get(name, ()))
            gone += others if len(others) == len(rest) else []
            for node in lists:
                whole = name in created and node.children and all(item in gone for item in node.items)
                edits += [self._cut(part) for part in ([node] if whole else node.items) if whole or part in gone]
        result = self._edited(edits)
        if "rdf:Description" in created and (packet := Packet(result, self.name)).is_bare:
            return packet._edited(map(packet._cut, packet._rdf.children))
        return result

    def _list(self, kind: _List, values: Sequence[str]) -> str:
        """Return a list as text, for the first description."""
        home, (namespace, name) = self._descriptions[0], kind.key.split()
        bound = next((prefix for prefix, uri in home.namespaces.items() if prefix and uri == namespace), None)
        tag, rdf = f"{bound or kind.prefix}:{name}", self._prefix(home)
        declared = "" if bound else f' xmlns:{kind.prefix}="{namespace}"'
        space = self._space(home.children[-1]) if home.children else _deeper(self._space(home))
        inner = _deeper(space)
        items = _items(rdf, values, _deeper(inner))
        box = f"{inner}<{rdf}{kind.container}>{items}{inner}</{rdf}{kind.container}>"
        return f"{space}<{tag}{declared}>{box}{space}</{tag}>"

    def _simple_values(self, kind: _List) -> list[_Edit]:
        """Cut a property that is one value without a list: an element with text, or an attribute."""
        edits = [self._cut(node) for node in self._properties(kind.key)]
        for node in self._descriptions:
            tag = self._content[node.start : node.inside]
            for found in _ATTRIBUTE.finditer(tag):
                prefix, _, name = found[1].decode().rpartition(":")
                if prefix and f"{node.namespaces.get(prefix)} {name}" == kind.key:
                    edits.append((node.start + found.start(), node.start + found.end(), ""))
        return edits

    def _appended(self, node: _Node, text: str) -> _Edit:
        """Put text behind the last child of an element."""
        if node.end > node.inside:
            at = node.children[-1].end if node.children else node.inside
            return at, at, text
        return node.end - 2, node.end, f">{text}</{self._raw_name(node)}>"

    def _cut(self, node: _Node) -> _Edit:
        return node.start - len(self._space(node)), node.end, ""

    def _space(self, node: _Node) -> str:
        """White space before an element."""
        before = self._content[max(node.start - 200, 0) : node.start]
        return before[len(before.rstrip(b" \t\r\n")) :].decode()

    def _raw_name(self, node: _Node) -> str:
        return re.split(rb"[\s/>]", self._content[node.start + 1 : node.inside], maxsplit=1)[0].decode()

    def _prefix(self, node: _Node) -> str:
        prefix, colon, _ = self._raw_name(node).rpartition(":")
        return prefix + colon

    def _edited(self, edits: Iterable[_Edit]) -> bytes:
        content = self._content
        for start, end, text in sorted(edits, key=lambda edit: edit[:2], reverse=True):
            content = content[:start] + text.encode() + content[end:]
        return self._mark + content.decode().encode(self._encoding)


@lru_cache(maxsize=128)
def open_packet(content: bytes, name: str) -> Packet:
    """Return a packet, the same for the same bytes: a file is read again before it is written."""
    return Packet(content, name)


def _encoding(content: bytes, name: str) -> tuple[bytes, str]:
    """Return the byte order mark, if there is one, and the encoding."""
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return mark, encoding
    if content[:2] in (b"<\0", b"\0<"):
        return b"", "utf-16-le" if content[:1] == b"<" else "utf-16-be"
    declared = _DECLARED.match(content)
    if declared and declared[1].lower() != b"utf-8":
        raise ValueError(f"xmp: {name!r} has the encoding {declared[1].decode()!r}. Save it as UTF-8.")
    return b"", "utf-8"


def _items(prefix: str, values: Iterable[str], space: str) -> str:
    return "".join(f"{space}<{prefix}li>{escape(value)}</{prefix}li>" for value in values)


def _deeper(space: str) -> str:
    return f"{space} " if "\n" in space else space


def _last(items: Sequence[_Node], values: Iterable[str]) -> list[_Node]:
    """Return the last item with each value."""
    found: list[_Node] = []
    for value in values:
        found += [item for item in items if item.value == value and item not in found][-1:]
    return found
