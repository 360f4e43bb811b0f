"""What all figures share: colours, sizes and bare axes."""

from __future__ import annotations

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
