"""What separates the cells of a table in a text file."""

from __future__ import annotations

import re

__all__ = ["guess_delimiter"]


def guess_delimiter(line: str) -> str:
    """The first comma, tab or semicolon of a line that is not in quotation marks; a comma if there is none."""
    found = re.search(r"[,\t;]", re.sub(r'"[^"]*"', "", line))
    return found[0] if found else ","
