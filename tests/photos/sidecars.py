"""Sidecars in the forms that other programs write, made up after them: file names, bytes, and the tags in them."""
# ruff: noqa: E501 (packets are easier to read in long lines)

from typing import NamedTuple

RDF = 'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"'
NAMES = {
    "dc": "http://purl.org/dc/elements/1.1/",
    "lr": "http://ns.adobe.com/lightroom/1.0/",
    "digiKam": "http://www.digikam.org/ns/1.0/",
    "xmp": "http://ns.adobe.com/xap/1.0/",
    "xmpMM": "http://ns.adobe.com/xap/1.0/mm/",
    "stEvt": "http://ns.adobe.com/xap/1.0/sType/ResourceEvent#",
    "photoshop": "http://ns.adobe.com/photoshop/1.0/",
    "tiff": "http://ns.adobe.com/tiff/1.0/",
    "exif": "http://ns.adobe.com/exif/1.0/",
    "crs": "http://ns.adobe.com/camera-raw-settings/1.0/",
    "darktable": "http://darktable.sf.net/",
    "MicrosoftPhoto": "http://ns.microsoft.com/photo/1.0/",
    "mediapro": "http://ns.iview-multimedia.com/mediapro/1.0/",
    "acdsee": "http://ns.acdsee.com/iptc/1.0/",
    "mwg-rs": "http://www.metadataworkinggroup.com/schemas/regions/",
    "stArea": "http://ns.adobe.com/xmp/sType/Area#",
    "fstop": "http://www.fstopapp.com/xmp/",
    "Iptc4xmpCore": "http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/",
}
EXIV2, ADOBE = "XMP Core 4.4.0-Exiv2", "Adobe XMP Core 7.0-c000 1.000000, 0000/00/00-00:00:00        "


class Sidecar(NamedTuple):
    photo: str
    name: str
    content: bytes
    subject: tuple[str, ...] = ()


def declared(*prefixes):
    return "".join(f'\n    xmlns:{prefix}="{NAMES[prefix]}"' for prefix in prefixes)


def packet(
    toolkit,
    body,
    *,
    before='<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>\n',
    after='\n<?xpacket end="w"?>',
):
    return f'{before}<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="{toolkit}">\n <rdf:RDF {RDF}>{body}\n </rdf:RDF>\n</x:xmpmeta>{after}'


def array(tag, *items, kind="Bag", pad="   "):
    lines = "".join(f"\n{pad}  <rdf:li>{item}</rdf:li>" for item in items)
    return f"\n{pad}<{tag}>\n{pad} <rdf:{kind}>{lines}\n{pad} </rdf:{kind}>\n{pad}</{tag}>"


def description(prefixes, attributes="", body="", about=' rdf:about=""'):
    start = f"\n  <rdf:Description{about}{declared(*prefixes)}{attributes}"
    return f"{start}>{body}\n  </rdf:Description>" if body else f"{start}/>"


HISTORY = """
   <xmpMM:History>
    <rdf:Seq>
     <rdf:li
      stEvt:action="saved"
      stEvt:changed="/metadata"/>
    </rdf:Seq>
   </xmpMM:History>"""
REGIONS = """
   <mwg-rs:Regions rdf:parseType="Resource">
    <mwg-rs:RegionList>
     <rdf:Bag>
      <rdf:li>
       <rdf:Description mwg-rs:Name="Ada &amp; Bo" mwg-rs:Type="Face">
        <mwg-rs:Area stArea:x="0.5" stArea:y="0.25" stArea:unit="normalized"/>
       </rdf:Description>
      </rdf:li>
     </rdf:Bag>
    </mwg-rs:RegionList>
   </mwg-rs:Regions>"""
STEPS = """
   <darktable:history>
    <rdf:Seq>
     <rdf:li
      darktable:num="0"
      darktable:operation="exposure"
      darktable:params="gz02eJxjYGBg&#10;AAAEAAE="/>
    </rdf:Seq>
   </darktable:history>"""
TITLE = """
   <dc:title>
    <rdf:Alt>
     <rdf:li xml:lang="x-default">Low tide</rdf:li>
     <rdf:li xml:lang="de-DE">Ebbe</rdf:li>
    </rdf:Alt>
   </dc:title>"""
CATEGORIES = (
    "&lt;Categories&gt;&lt;Category Assigned=&quot;0&quot;&gt;Places&lt;Category "
    "Assigned=&quot;1&quot;&gt;Rome&lt;/Category&gt;&lt;/Category&gt;&lt;/Categories&gt;"
)

DIGIKAM = packet(EXIV2, description(
    ("digiKam", "MicrosoftPhoto", "lr", "mediapro", "dc", "acdsee", "xmp"),
    f'\n   digiKam:PickLabel="0"\n   xmp:Rating="3"\n   acdsee:categories="{CATEGORIES}"',
    array("digiKam:TagsList", "Places/Rome", "Holiday", kind="Seq") + array("MicrosoftPhoto:LastKeywordXMP", "Places/Rome")
    + array("lr:hierarchicalSubject", "Places|Rome", "Holiday") + array("mediapro:CatalogSets", "Places|Rome")
    + array("dc:subject", "Rome", "Holiday"),
))  # fmt: skip
DIGIKAM_FACES = packet(EXIV2, description(
    ("digiKam", "mwg-rs", "stArea"), "",
    array("digiKam:TagsList", "People/Ada", "_Digikam_Internal_Tags_/Scanned for Faces", kind="Seq") + REGIONS,
))  # fmt: skip
LIGHTROOM = packet(ADOBE, description(
    ("xmp", "photoshop", "dc", "lr", "xmpMM", "stEvt", "crs"),
    '\n   xmp:Rating="4"\n   photoshop:SidecarForExtension="CR2"\n   crs:Exposure2012="+0.20"\n   crs:HasSettings="True"',
    HISTORY + array("dc:subject", "Jellybean", "Sweets") + array("lr:hierarchicalSubject", "Food|Sweets|Jellybean"),
), before="", after="\n")  # fmt: skip
LIGHTROOM_PLAIN = packet(ADOBE, description(
    ("photoshop", "crs"), '\n   photoshop:SidecarForExtension="NEF"\n   crs:Version="16.0"',
    "\n   <crs:ToneCurve>\n    <rdf:Seq>\n     <rdf:li>0, 0</rdf:li>\n     <rdf:li>255, 255</rdf:li>\n    </rdf:Seq>\n   </crs:ToneCurve>",
), before="", after="")  # fmt: skip
XML = '<?xml version="1.0" encoding="UTF-8"?>\n'
DARKTABLE = packet(EXIV2, description(
    ("xmp", "dc", "lr", "darktable"), '\n   xmp:Rating="1"\n   darktable:xmp_version="5"',
    STEPS + array("dc:subject", "place", "Green Street", "changed", "jpg")
    + array("lr:hierarchicalSubject", "darktable|changed", "darktable|format|jpg", "place|Green Street"),
), before=XML, after="\n")  # fmt: skip
DARKTABLE_OLD = packet(EXIV2, description(
    ("darktable", "lr", "dc"), '\n   darktable:raw_params="0"',
    "\n   <darktable:colorlabels>\n    <rdf:Seq/>\n   </darktable:colorlabels>"
    "\n   <lr:hierarchicalSubject>\n    <rdf:Seq/>\n   </lr:hierarchicalSubject>" + array("dc:subject", "sea", kind="Seq"),
), before=XML, after="\n")  # fmt: skip
RAWTHERAPEE = packet(EXIV2, description(("xmp",), '\n   xmp:Rating="2"'))
RAWTHERAPEE_TITLE = packet(
    EXIV2, description(("dc", "tiff"), '\n   tiff:Make="Pentax"', TITLE + array("dc:creator", "Ann", kind="Seq"))
)


def by_exiftool(*parts):
    """One description per namespace, single quotes, as exiftool writes (and Immich, which calls it)."""
    body = "".join(
        f"\n <rdf:Description rdf:about=''\n  xmlns:{prefix}='{NAMES[prefix]}'>{text}\n </rdf:Description>\n"
        for prefix, text in parts
    )
    return (
        "<?xpacket begin='\ufeff' id='W5M0MpCehiHzreSzNTczkc9d'?>\n<x:xmpmeta xmlns:x='adobe:ns:meta/' x:xmptk='Image::ExifTool 12.96'>\n"
        f"<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'>\n{body}</rdf:RDF>\n</x:xmpmeta>\n<?xpacket end='w'?>"
    )


IMMICH = by_exiftool(
    ("dc", "\n  <dc:description>\n   <rdf:Alt>\n    <rdf:li xml:lang='x-default'>A &lt;b&gt; day</rdf:li>\n   </rdf:Alt>\n  </dc:description>"),
    ("digiKam", array("digiKam:TagsList", "Trip/Day 1", kind="Seq", pad="  ")),
    ("exif", "\n  <exif:GPSLatitude>51,30.5N</exif:GPSLatitude>"),
)  # fmt: skip
IMMICH_BARE = by_exiftool()
PHOTOPRISM = packet("XMP Core 5.4.0", description(
    ("dc", "photoshop", "fstop"), ' fstop:favorite="1"',
    array("dc:subject", "art", "ContemporaryArt") + "\n   <photoshop:DateCreated>2024-01-27T11:12:47</photoshop:DateCreated>",
))  # fmt: skip
PHOTOPRISM_TWO = packet("XMP Core 5.4.0", "\n  <!-- two schemas -->" + description(("photoshop",), "", "\n   <photoshop:Headline>Sea</photoshop:Headline>")
                        + description(("dc",), "", array("dc:subject", "sea")))  # fmt: skip
CAPTURE_ONE = packet("XMP Core 5.5.0", description(
    ("xmp", "dc", "Iptc4xmpCore"), f'\n    xmlns:lightroom="{NAMES["lr"]}"\n   xmp:Label="Red"',
    array("dc:subject", "2019", "Gull") + array("lightroom:hierarchicalSubject", "Bird|Gull", "Year|2019"),
)).replace("\n", "\r\n")  # fmt: skip
CAPTURE_ONE_BOM = "\ufeff" + packet(
    "XMP Core 5.5.0", description(("xmp",), ' xmp:Rating="0"', "\n   <xmp:Label/>"), before=""
)
XNVIEW = "\ufeff" + packet("XnView", description(("xmp", "dc"), "", array("dc:subject", "Café", "雪") + "\n   <xmp:Rating>5</xmp:Rating>"),
                           before="").replace("   ", "\t\t")  # fmt: skip
XNVIEW_LINE = f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF {RDF}><rdf:Description rdf:about="" xmlns:dc="{NAMES["dc"]}"><dc:subject><rdf:Bag><rdf:li>one line</rdf:li></rdf:Bag></dc:subject></rdf:Description></rdf:RDF></x:xmpmeta>'
APPLE = packet("XMP Core 6.0.0", description(
    ("dc", "photoshop", "exif"), "", array("dc:subject", "done", "Family", kind="Seq") + TITLE
    + "\n   <photoshop:DateCreated>2018-01-30T20:30:48-05:00</photoshop:DateCreated>\n   <exif:GPSLongitude>13.4</exif:GPSLongitude>",
), before="", after="\n")  # fmt: skip
APERTURE = packet(
    "XMP Core 5.1.2", description(("Iptc4xmpCore", "dc"), "", array("dc:subject", "Zürich", kind="Seq"))
)
ACDSEE = packet("XMP Core 5.5.0", description(
    ("acdsee", "dc", "xmp"), f' acdsee:categories="{CATEGORIES}" acdsee:tagged="False" xmp:Rating="3"',
    array("acdsee:keywords", "Rome") + array("dc:subject", "Rome"),
))  # fmt: skip
ACDSEE_OLD = packet(
    "XMP Core 5.5.0",
    description(
        ("acdsee", "dc"), ' dc:subject="Alps"', "\n   <acdsee:notes/>\n   <acdsee:author></acdsee:author>"
    ),
)

SIDECARS = [
    Sidecar("digikam.jpg", "digikam.jpg.xmp", DIGIKAM.encode(), ("Rome", "Holiday")),
    Sidecar("digikam2.jpg", "digikam2.jpg.xmp", DIGIKAM_FACES.encode()),
    Sidecar("lightroom.CR2", "lightroom.xmp", LIGHTROOM.encode(), ("Jellybean", "Sweets")),
    Sidecar("lightroom2.nef", "lightroom2.xmp", LIGHTROOM_PLAIN.encode()),
    Sidecar("darktable.jpg", "darktable.jpg.xmp", DARKTABLE.encode(), ("place", "Green Street", "changed", "jpg")),
    Sidecar("darktable2.raf", "darktable2.raf.xmp", DARKTABLE_OLD.encode(), ("sea",)),
    Sidecar("rawtherapee.pef", "rawtherapee.pef.xmp", RAWTHERAPEE.encode()),
    Sidecar("rawtherapee2.pef", "rawtherapee2.xmp", RAWTHERAPEE_TITLE.encode()),
    Sidecar("immich.jpg", "immich.jpg.xmp", IMMICH.encode()),
    Sidecar("immich2.jpg", "immich2.jpg.xmp", IMMICH_BARE.encode()),
    Sidecar("photoprism.jpg", "photoprism.jpg.xmp", PHOTOPRISM.encode(), ("art", "ContemporaryArt")),
    Sidecar("photoprism2.jpg", "photoprism2.xmp", PHOTOPRISM_TWO.encode(), ("sea",)),
    Sidecar("captureone.iiq", "captureone.xmp", CAPTURE_ONE.encode(), ("2019", "Gull")),
    Sidecar("captureone2.iiq", "captureone2.xmp", CAPTURE_ONE_BOM.encode()),
    Sidecar("xnview.jpg", "xnview.xmp", XNVIEW.encode(), ("Café", "雪")),
    Sidecar("xnview2.jpg", "xnview2.xmp", XNVIEW_LINE.encode(), ("one line",)),
    Sidecar("apple.heic", "apple.xmp", APPLE.encode(), ("done", "Family")),
    Sidecar("apple2.jpg", "apple2.XMP", APERTURE.encode("utf-16"), ("Zürich",)),
    Sidecar("acdsee.jpg", "acdsee.xmp", ACDSEE.encode("utf-16"), ("Rome",)),
    Sidecar("acdsee2.jpg", "acdsee2.xmp", ACDSEE_OLD.encode(), ("Alps",)),
]
