"""Hooks of MkDocs: what the pages need on the site but not on GitHub."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>|:math:<code>(.*?)</code>', re.DOTALL)
DISPLAYED = re.compile(r'<div class="arithmatex">\\\[(.*?)\\\]</div>|<p>\.\. math::\s(.*?)</p>', re.DOTALL)
OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]+\)")  # a link to a file of the repository that is not a page


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Name files that are not on the site, without a link."""
    return markdown if "/" in page.file.src_uri else OUTSIDE.sub(r"\1", markdown)


def on_page_content(content: str, **_: object) -> str:
    """Write formulas of pages and docstrings as MathML, which browsers draw without a script."""
    content = content.replace("::</p>", ":</p>")  # before the examples of docstrings
    content = INLINE.sub(lambda found: convert(html.unescape(found[1] or found[2])), content)
    return DISPLAYED.sub(_displayed, content)


def _displayed(found: re.Match[str]) -> str:
    formula = convert(html.unescape(found[1] or found[2]), display="block")
    return f'<div style="overflow-x: auto">{formula}</div>'  # wider than a phone
