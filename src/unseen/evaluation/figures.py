"""Figures of fits and explanations; each function returns a `matplotlib.figure.Figure`.

Nothing is shown and no global setting is changed: a figure is an object that `save`, `to_svg` or a
`unseen.templates.report.Report` turns into a picture. The colours are those of Okabe and Ito, which colour-blind
readers can tell apart; every distinction is also one of shape or position.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from html import escape
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from unseen.evaluation._canvas import (
    BLUE,
    GREEN,
    INK,
    LINE,
    NORMAL,
    ORANGE,
    PURPLE,
    SMALL,
    SOFT,
    WASH,
    canvas,
    has_other_scripts,
    plain,
    require_matplotlib,
    without_complaints,
)
from unseen.explanation import Explanation
from unseen.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["contributions", "objective_traces", "require_matplotlib", "save", "to_svg"]


def objective_traces(traces: Mapping[str, ArrayLike], lower_bound: float) -> Figure:
    """Objective after each iteration of one or more solvers of the same problem, above its lower bound.

    Parameters
    ----------
    traces : mapping of str to array-like
        Name of each solver and its objectives, the first iteration first.
    lower_bound : float
        No projection has an objective below this.

    Returns
    -------
    matplotlib.figure.Figure
    """
    values = {name: np.asarray(trace, dtype=np.float64).ravel() for name, trace in traces.items()}
    if not values or any(trace.size == 0 for trace in values.values()):
        raise ValueError("traces: an empty trace was given. Pass at least one objective a solver.")
    figure, axes = canvas(7.6, 4.0)
    longest = max(trace.size for trace in values.values())
    top = max(float(trace.max()) for trace in values.values())
    span = max(top - lower_bound, 1e-3 * abs(lower_bound), 1e-12)
    axes.set(xlim=(0.5, max(longest, 2) * 1.34), ylim=(lower_bound - 0.16 * span, top + 0.09 * span))
    axes.axhspan(axes.get_ylim()[0], lower_bound, color=WASH, lw=0, zorder=0)
    axes.axhline(lower_bound, color=SOFT, lw=1.0, ls=(0, (4, 2)))
    axes.text(
        0.015, lower_bound - 0.08 * span, f"certified: no projection can be below {lower_bound:,.4g}",
        transform=axes.get_yaxis_transform(), color=SOFT, fontsize=SMALL, va="center",
    )  # fmt: skip
    heights = _spread([float(trace[-1]) for trace in values.values()], 0.13 * span, lower_bound + 0.08 * span)
    styles = zip(cycle((ORANGE, BLUE, GREEN, PURPLE)), cycle("os^D"), strict=False)
    for (name, trace), (colour, marker), height in zip(values.items(), styles, heights, strict=False):
        steps = np.arange(1, trace.size + 1)
        axes.plot(steps, trace, color=colour, marker=marker, ms=3.8, lw=1.6, label=plain(name))
        axes.annotate(
            f"{plain(name)}\nends at {trace[-1]:,.4g}", (trace.size, trace[-1]),
            (trace.size + 0.035 * longest, height),
            color=colour, fontsize=SMALL, va="center", linespacing=1.25,
        )  # fmt: skip
    axes.set_xticks(_integer_ticks(longest))
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.set_xlabel("iteration", color=SOFT, fontsize=SMALL)
    axes.set_title("objective (lower is better)", loc="left", fontsize=NORMAL, color=INK)
    return figure


def contributions(explanation: Explanation, most: int = 8) -> Figure:
    """Bars of what each seen label adds to a score; together with the threshold they sum to it.

    Parameters
    ----------
    explanation : Explanation
        As made by `TAEP.explain`.
    most : int, default=8
        Labels with a bar of their own, the largest in absolute value; the others share one.

    Returns
    -------
    matplotlib.figure.Figure
    """
    parts = [(part.name, part.value) for part in explanation.parts]
    shown, rest = parts[:most], parts[most:]
    if rest:
        shown.append((f"{len(rest)} other labels", sum(value for _, value in rest)))
    if explanation.offset:
        shown.append(("threshold of the image", explanation.offset))
    rows = [*shown, (f"score of {explanation.label!r}", explanation.score)]
    figure, axes = canvas(5.4, 0.55 + 0.29 * len(rows))
    values = np.array([value for _, value in rows])
    colours = [BLUE if value >= 0 else ORANGE for value in values[:-1]] + [INK]
    axes.barh(np.arange(len(rows)), values, height=0.66, color=colours)
    reach = max(float(np.abs(values).max()), 1e-12)
    for row, value in enumerate(values):
        axes.annotate(
            f"{value:+.2f}".replace("-", "\N{MINUS SIGN}"), (value, row), (4 if value >= 0 else -4, 0),
            textcoords="offset points", va="center", ha="left" if value >= 0 else "right", fontsize=SMALL,
            color=INK, fontweight="bold" if row == len(rows) - 1 else "normal",
        )  # fmt: skip
    axes.axvline(0.0, color=SOFT, lw=0.8)
    axes.axhline(len(rows) - 1.5, color=LINE, lw=0.8)
    axes.set(ylim=(len(rows) - 0.5, -0.5), yticks=range(len(rows)), xticks=[])
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    axes.set_xlim(low - (0.26 if low < 0 else 0.02) * reach, high + (0.22 if high > 0 else 0.02) * reach)
    axes.set_yticklabels([plain(name) for name, _ in rows], fontsize=SMALL, color=INK)
    axes.tick_params(length=0)
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    return figure


def to_svg(figure: Figure, description: str = "", prefix: str = "") -> str:
    """The figure as an ``<svg>`` element to be put into a page.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Any figure.
    description : str
        Read to those who cannot see it.
    prefix : str
        Put before all identifiers, which must differ between the figures of one page.

    Returns
    -------
    str
        The same text for the same figure, without an XML header.
    """
    from matplotlib import rc_context

    # Letters are drawn as outlines, the same everywhere; other scripts are left to the fonts of the reader.
    written = "none" if has_other_scripts(figure) else "path"
    buffer = io.StringIO()
    with rc_context({"svg.fonttype": written}), without_complaints():
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL).strip()
    # Matplotlib's identifiers repeat from figure to figure, or are random.
    number = {name: f"{prefix}{i}" for i, name in enumerate(dict.fromkeys(re.findall(r'\bid="([^"]+)"', text)))}
    text = re.sub(r'\bid="([^"]+)"', lambda found: f'id="{number[found[1]]}"', text)
    text = re.sub(r'(href="|url\()#([^")]+)', lambda found: f"{found[1]}#{number[found[2]]}", text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(description)}"', 1)


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure as PNG or SVG, by the suffix of the path; whole or not at all.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Any figure.
    path : str or Path
        Ending in ``.png`` or ``.svg``; an existing file is replaced.

    Returns
    -------
    Path
        The same path.
    """
    path = Path(path)
    kind = path.suffix.lower().lstrip(".")
    if kind not in ("png", "svg"):
        raise ValueError(f"path: {path.name!r} ends in neither '.png' nor '.svg'. Give it one of the two.")
    if kind == "svg":  # without the date and random identifiers: the same figure is the same file
        text = '<?xml version="1.0" encoding="UTF-8"?>\n' + to_svg(figure) + "\n"
        write_atomically(path, lambda part: part.write_text(text, encoding="utf-8", newline="\n"))
    else:
        with without_complaints():
            write_atomically(path, lambda part: figure.savefig(part, format=kind, dpi=200))
    return path


def _integer_ticks(last: int) -> list[int]:
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, last) if last / step <= 10)
    return [1, *range(step if step > 1 else 2, last + 1, step)]


def _spread(heights: Sequence[float], apart: float, lowest: float) -> list[float]:
    """Heights moved up, as little as need be, so that no two are nearer than ``apart``."""
    moved = list(heights)
    floor = lowest
    for i in sorted(range(len(moved)), key=moved.__getitem__):
        moved[i] = max(moved[i], floor)
        floor = moved[i] + apart
    return moved
