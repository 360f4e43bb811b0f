"""Packets are edited in place: entries come and go, all else stays."""

from xml.etree.ElementTree import canonicalize

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.photos.sidecars import NAMES, SIDECARS

from unseen.photos.xmp import LISTS, Packet

NEW = {"dc:subject": ["cat"], "lr:hierarchicalSubject": ["animal|cat"], "digiKam:TagsList": ["animal/cat"]}
LETTERS = st.characters(exclude_categories=("Cs", "Cc", "Cn", "Zs", "Zl", "Zp"), exclude_characters="\ufffe\uffff")
WORDS = st.text(LETTERS, min_size=1)
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"


def canonical(content):
    text = content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    return canonicalize(text.replace('encoding="UTF-16"', ""), with_comments=True)


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


@st.composite
def packets(draw):
    """Valid packets of any look: prefixes, white space, containers, comments, instructions, unknown properties."""
    r = draw(st.sampled_from(["rdf:", "r:", ""]))
    line = draw(st.sampled_from(["\n", "\r\n", "\n\t", ""]))
    some = draw(st.sampled_from(["", "<!-- a > b -->", "<?note <x>?>", "<![CDATA[  ]]>"]))

    def item():
        text = escaped(draw(WORDS))
        forms = [
            f"<{r}li>{text}</{r}li>",
            f'<{r}li xml:lang="x-default">{text}<!-- c --></{r}li>',
            f'<{r}li {r or "rdf:"}parseType="Resource"><{r}value>{text}</{r}value><q:x xmlns:q="q"/></{r}li>',
        ]
        return draw(st.sampled_from(["", line])) + draw(st.sampled_from(forms))

    def property_list(name):
        prefix, key, _, _ = LISTS[name]
        tag = f"{draw(st.sampled_from([prefix, 'other']))}:{key.split()[1]}"
        box = r + draw(st.sampled_from(["Bag", "Seq", "Alt"]))
        items = "".join(item() for _ in range(draw(st.integers(0, 3))))
        empty = draw(st.sampled_from([f"<{box}/>", f"<{box}>{line}</{box}>"]))
        inside = f"<{box}>{items}{some}</{box}>" if items else empty
        return f'{line}<{tag} xmlns:{tag.split(":")[0]}="{key.split()[0]}">{line}{inside}</{tag}>'

    unknown = [
        f'{line}<u:p xmlns:u="u" u:q="&#10;&lt;&#x9;\'">x &amp; {some}y</u:p>',
        f'{line}<u:e xmlns:u="u"/>',
        some,
    ]
    lists = [property_list(name) for name in LISTS if draw(st.booleans())]
    parts = draw(st.permutations([*lists, *draw(st.lists(st.sampled_from(unknown), max_size=3))]))
    cut = draw(st.integers(0, len(parts)))
    attributes = draw(st.sampled_from(["", ' xmlns:v="v" v:rating=">&#10;/"', f' xmlns:dc="{NAMES["dc"]}"']))
    about = ' rdf:about=""' if r == "rdf:" else ""
    body = ""
    for half in (parts[:cut], parts[cut:]):
        end = f">{''.join(half)}{line}</{r}Description>" if half or draw(st.booleans()) else "/>"
        body += f"{line}<{r}Description{about}{attributes}{end}"
    more = "" if r else f'xmlns:rdf="{RDF}" '
    text = f'<{r}RDF {more}xmlns{":" + r[:-1] if r else ""}="{RDF}">{body}{some}</{r}RDF>'
    if draw(st.booleans()):
        text = f'<x:xmpmeta xmlns:x="adobe:ns:meta/">{line}{text}</x:xmpmeta>'
    text = f'<?xpacket begin="\ufeff" id="W5"?><!-- first -->{line}{text}{line}<?xpacket end="w"?>'
    return text.encode(draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])))


@given(
    packets(), st.dictionaries(st.sampled_from(list(LISTS)), st.lists(WORDS, min_size=1, max_size=3), min_size=1)
)
def test_entries_are_added_and_all_else_stays(content, new):
    packet = Packet(content)
    old = packet.entries
    more = packet.with_entries(new)
    found = Packet(more).entries
    assert {name: list(entries) for name, entries in found.items() if entries} == {
        name: [*old.get(name, ()), *new.get(name, ())] for name in LISTS if old.get(name) or new.get(name)
    }
    back = Packet(more).without_entries(new, created=new.keys() - old.keys())
    assert canonical(back) == canonical(content)
    assert canonical(more) != canonical(content)


@pytest.mark.parametrize("sidecar", SIDECARS, ids=lambda one: one.name)
def test_packets_of_other_programs(sidecar):
    packet = Packet(sidecar.content)
    assert packet.entries.get("dc:subject", ()) == sidecar.subject
    more = Packet(packet.with_entries(NEW))
    assert more.entries == {name: (*packet.entries.get(name, ()), *NEW[name]) for name in LISTS}
    created = {*NEW.keys() - packet.entries.keys(), *(() if packet.has_description else ["rdf:Description"])}
    back = more.without_entries(NEW, created=created)
    assert Packet(back).entries == packet.entries
    if b'dc:subject="' not in sidecar.content:
        assert canonical(back) == canonical(sidecar.content)


@pytest.mark.parametrize("form", ["", '<dc:subject>old &amp; "x"</dc:subject>', '<a b="c"/>'])
def test_a_single_value_becomes_the_first_of_a_list(form):
    attribute = "" if "old" in form else " dc:subject='old &amp; \"x\"'"
    text = f'<rdf:RDF xmlns:rdf="{RDF}"><rdf:Description xmlns:dc="{NAMES["dc"]}"{attribute} a="1"'
    packet = Packet(
        f"{text}>{form}</rdf:Description></rdf:RDF>".encode() if form else f"{text}/></rdf:RDF>".encode()
    )
    assert packet.entries == {"dc:subject": ('old & "x"',)}
    more = packet.with_entries({"dc:subject": ["new"]})
    assert Packet(more).entries == {"dc:subject": ('old & "x"', "new")}
    assert b' a="1"' in more
    assert more.count(b"old") == 1


def test_what_is_repeated_goes_with_the_last_entry_and_an_entry_goes_once():
    made = Packet().with_entries({"dc:subject": ["old", "cat"]})
    taken = {"entries": {"dc:subject": ["cat"]}, "repeated": {"dc:subject": ["old"]}, "created": ["dc:subject"]}
    assert Packet(Packet(made).without_entries(**taken)).is_bare
    other = Packet(made).with_entries({"dc:subject": ["theirs"]})
    assert Packet(Packet(other).without_entries(**taken)).entries == {"dc:subject": ("old", "theirs")}
    twice = Packet(made).with_entries({"dc:subject": ["cat"]})
    assert Packet(Packet(twice).without_entries({"dc:subject": ["cat"]})).entries == {"dc:subject": ("old", "cat")}


def test_what_is_not_a_packet_is_refused():
    bomb = (
        b'<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><rdf:RDF xmlns:rdf="%b">&b;</rdf:RDF>'
        % RDF.encode()
    )
    half = SIDECARS[0].content[:-40]
    odd = SIDECARS[0].content.replace(b"<rdf:Bag>", b"<rdf:bag>").replace(b"</rdf:Bag>", b"</rdf:bag>")
    for content in (
        b"",
        b"JPEG",
        b"<html/>",
        bomb,
        half,
        b"\xff\xfe<",
        b'<?xml version="1.0" encoding="koi8-r"?><a/>',
    ):
        with pytest.raises(ValueError, match=r"^xmp: 'x\.xmp' "):
            Packet(content, "x.xmp")
    with pytest.raises(ValueError, match=r"^xmp: in 'x\.xmp' subject is not a list"):
        Packet(odd, "x.xmp").with_entries(NEW)
