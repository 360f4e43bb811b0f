"""Hooks of MkDocs: what the pages need on the site but not on GitHub."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]+\)")  # a link to a file of the repository that is not a page


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Name files that are not on the site, without a link."""
    return markdown if "/" in page.file.src_uri else OUTSIDE.sub(r"\1", markdown)


def on_page_content(content: str, **_: object) -> str:
    """Write formulas as MathML, which browsers draw without a script."""
    displays = {"span": "inline", "div": "block"}
    return FORMULA.sub(lambda found: convert(html.unescape(found[2]), display=displays[found[1]]), content)
