"""What all figures share: colours, sizes and bare axes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#AA4A8C"
INK, SOFT, LINE, WASH = "#1c2024", "#5b646e", "#cfd5da", "#eceff1"
SMALL, NORMAL = 9.0, 10.0


def require_matplotlib() -> None:
    """Raise an ImportError that says what to install, unless matplotlib is there."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ImportError(
            'matplotlib: figures need it, and it is not installed. Install the extra: pip install "unseen[plots]"'
        ) from error


def plain(text: str) -> str:
    """Text to be drawn as it is: dollars would make matplotlib read what is between them as a formula."""
    return text.replace("$", r"\$")


def has_other_scripts(figure: Figure) -> bool:
    """Whether a figure has letters that the font of all figures lacks."""
    from matplotlib.text import Text

    return any(not _letters().issuperset(map(ord, text.get_text())) for text in figure.findobj(Text))


@lru_cache(maxsize=1)
def _letters() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset({ord("\n"), *get_font(findfont("DejaVu Sans")).get_charmap()})


@contextmanager
def without_complaints() -> Iterator[None]:
    """Silence: matplotlib warns of every letter that its font lacks, with lines of source that help nobody."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def canvas(width: float, height: float, columns: int = 1) -> tuple[Figure, Any]:
    """A figure with bare axes: white, two soft spines, no more."""
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure((width, height), layout="constrained", facecolor="white")
    every = figure.subplots(1, columns, squeeze=False)[0]
    for axes in every:
        axes.set_facecolor("white")
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(LINE)
        axes.tick_params(colors=SOFT, labelsize=SMALL)
    return figure, every if columns > 1 else every[0]
