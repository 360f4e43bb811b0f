"""Figures of fits, label vectors and explanations; each function returns a `matplotlib.figure.Figure`.

Nothing is shown and no global setting is changed: a figure is an object that `save`, `to_svg` or a
`unseen.evaluation.report.Report` turns into a picture. The colours are those of Okabe and Ito, which colour-blind
readers can tell apart; every distinction is also one of shape or position.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from html import escape
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unseen.evaluation._placement import place_names
from unseen.persistence import write_atomically
from unseen.taep import Explanation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["contributions", "label_map", "objective_traces", "require_matplotlib", "save", "to_svg"]

_BLUE, _ORANGE, _GREEN, _PURPLE = "#0072B2", "#D55E00", "#009E73", "#AA4A8C"
_INK, _SOFT, _LINE, _WASH = "#1c2024", "#5b646e", "#cfd5da", "#eceff1"
_SMALL, _NORMAL = 9.0, 10.0


def require_matplotlib() -> None:
    """Raise an ImportError that says what to install, unless matplotlib is there."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise ImportError(
            'matplotlib: figures need it, and it is not installed. Install the extra: pip install "unseen[plots]"'
        ) from error


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
    figure, axes = _canvas(7.6, 4.0)
    longest = max(trace.size for trace in values.values())
    top = max(float(trace.max()) for trace in values.values())
    span = max(top - lower_bound, 1e-3 * abs(lower_bound), 1e-12)
    axes.set(xlim=(0.5, max(longest, 2) * 1.34), ylim=(lower_bound - 0.16 * span, top + 0.09 * span))
    axes.axhspan(axes.get_ylim()[0], lower_bound, color=_WASH, lw=0, zorder=0)
    axes.axhline(lower_bound, color=_SOFT, lw=1.0, ls=(0, (4, 2)))
    axes.text(
        0.015, lower_bound - 0.08 * span, f"certified: no projection can be below {lower_bound:,.4g}",
        transform=axes.get_yaxis_transform(), color=_SOFT, fontsize=_SMALL, va="center",
    )  # fmt: skip
    heights = _spread([float(trace[-1]) for trace in values.values()], 0.13 * span, lower_bound + 0.08 * span)
    styles = zip(cycle((_ORANGE, _BLUE, _GREEN, _PURPLE)), cycle("os^D"), strict=False)
    for (name, trace), (colour, marker), height in zip(values.items(), styles, heights, strict=False):
        steps = np.arange(1, trace.size + 1)
        axes.plot(steps, trace, color=colour, marker=marker, ms=3.8, lw=1.6, label=name)
        axes.annotate(
            f"{name}\nends at {trace[-1]:,.4g}", (trace.size, trace[-1]), (trace.size + 0.035 * longest, height),
            color=colour, fontsize=_SMALL, va="center", linespacing=1.25,
        )  # fmt: skip
    axes.set_xticks(_integer_ticks(longest))
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.set_xlabel("iteration", color=_SOFT, fontsize=_SMALL)
    axes.set_title("objective (lower is better)", loc="left", fontsize=_NORMAL, color=_INK)
    return figure


def label_map(
    before: ArrayLike,
    after: ArrayLike,
    names: Sequence[str],
    seen: ArrayLike,
    titles: tuple[str, str] = ("before projection", "after projection"),
) -> Figure:
    """Two maps of the same labels: the first two principal components of their vectors before and after.

    A thin line leads from each unseen label to the seen one that is nearest by cosine in all dimensions, of
    which the map shows but two.

    Parameters
    ----------
    before, after : array-like of shape (n_labels, n_dims), of any numbers of dimensions
        Label vectors.
    names : sequence of str
        One a label.
    seen : array-like of shape (n_labels,), bool
        Which labels were annotated.
    titles : pair of str
        Titles of the maps.

    Returns
    -------
    matplotlib.figure.Figure
    """
    is_seen = np.asarray(seen, dtype=np.bool_)
    vectors = [np.asarray(part, dtype=np.float64) for part in (before, after)]
    if any(part.ndim != 2 or len(part) != len(names) for part in vectors) or is_seen.shape != (len(names),):
        raise ValueError(
            f"names: {len(names)} names for vectors of shapes {vectors[0].shape} and {vectors[1].shape} and "
            f"seen of shape {is_seen.shape}. Pass one row, name and flag a label."
        )
    figure, both = _canvas(10.6, 5.3, columns=2)
    maps = [_principal_plane(part) for part in vectors]
    plane = (maps[0][0], _turned(maps[1][0], onto=maps[0][0]))
    for axes, points, (_, share), part, title in zip(both, plane, maps, vectors, titles, strict=True):
        _draw_map(axes, points, _nearest_seen(part, is_seen), is_seen)
        axes.set_title(f"{title}\n", loc="left", fontsize=_NORMAL + 1, color=_INK, fontweight="bold")
        axes.text(
            0, 1.02, f"two of the directions: {share:.0%} of the variance", transform=axes.transAxes,
            fontsize=_SMALL, color=_SOFT,
        )  # fmt: skip
    figure.legend(
        *both[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False,
        fontsize=_SMALL, labelcolor=_INK,
    )  # fmt: skip
    figure.draw_without_rendering()  # fixes the layout, in which the names are then placed
    figure.set_layout_engine("none")
    for axes, points in zip(both, plane, strict=True):
        place_names(axes, points, names, [_BLUE if known else _ORANGE for known in is_seen], _SMALL)
    return figure


def contributions(explanation: Explanation, most: int = 8) -> Figure:
    """Bars of what each seen label adds to a score; together with the rest they sum to it.

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
    parts = [(tag.name, tag.score) for tag in explanation.seen_labels]
    shown, rest = parts[:most], parts[most:]
    if rest:
        shown.append((f"{len(rest)} other labels", sum(value for _, value in rest)))
    rows = [*shown, (f"score of {explanation.label!r}", explanation.score)]
    figure, axes = _canvas(5.4, 0.55 + 0.29 * len(rows))
    values = np.array([value for _, value in rows])
    colours = [_BLUE if value >= 0 else _ORANGE for value in values[:-1]] + [_INK]
    axes.barh(np.arange(len(rows)), values, height=0.66, color=colours)
    reach = max(float(np.abs(values).max()), 1e-12)
    for row, value in enumerate(values):
        axes.annotate(
            f"{value:+.2f}".replace("-", "\N{MINUS SIGN}"), (value, row), (4 if value >= 0 else -4, 0),
            textcoords="offset points", va="center", ha="left" if value >= 0 else "right", fontsize=_SMALL,
            color=_INK, fontweight="bold" if row == len(rows) - 1 else "normal",
        )  # fmt: skip
    axes.axvline(0.0, color=_SOFT, lw=0.8)
    axes.axhline(len(rows) - 1.5, color=_LINE, lw=0.8)
    axes.set(ylim=(len(rows) - 0.5, -0.5), yticks=range(len(rows)), xticks=[])
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    axes.set_xlim(low - (0.26 if low < 0 else 0.02) * reach, high + (0.22 if high > 0 else 0.02) * reach)
    axes.set_yticklabels([name for name, _ in rows], fontsize=_SMALL, color=_INK)
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
    buffer = io.StringIO()
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
    write_atomically(path, lambda part: figure.savefig(part, format=kind, dpi=200))
    return path


def _canvas(width: float, height: float, columns: int = 1) -> tuple[Figure, Any]:
    """A figure with bare axes: white, two soft spines, no more."""
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure((width, height), layout="constrained", facecolor="white")
    every = figure.subplots(1, columns, squeeze=False)[0]
    for axes in every:
        axes.set_facecolor("white")
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(_LINE)
        axes.tick_params(colors=_SOFT, labelsize=_SMALL)
    return figure, every if columns > 1 else every[0]


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


def _principal_plane(vectors: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """First two principal components of each row, and their share of the variance."""
    left, singular, _ = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    points = np.zeros((len(vectors), 2))
    kept = min(2, singular.size)
    points[:, :kept] = left[:, :kept] * singular[:kept]
    total = float(singular @ singular)
    return points, float(singular[:2] @ singular[:2]) / total if total > 0.0 else 1.0


def _turned(points: NDArray[np.float64], onto: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points rotated or mirrored to lie as near as they can to others: the axes of a map mean nothing."""
    left, _, right = np.linalg.svd(points.T @ onto)
    turned: NDArray[np.float64] = points @ left @ right
    return turned


def _nearest_seen(vectors: NDArray[np.float64], seen: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Pairs (unseen label, seen label of the largest cosine)."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(lengths > 0.0, lengths, 1.0)
    known = np.flatnonzero(seen)
    if known.size == 0:
        return []
    return [(int(i), int(known[(unit[known] @ unit[i]).argmax()])) for i in np.flatnonzero(~seen)]


def _draw_map(
    axes: Axes, points: NDArray[np.float64], pairs: Sequence[tuple[int, int]], seen: NDArray[np.bool_]
) -> None:
    for number, (i, j) in enumerate(pairs):
        label = "nearest seen label, in all dimensions" if number == 0 else None
        axes.plot(*points[[i, j]].T, color=_LINE, lw=1.1, zorder=1, label=label)
    for mask, colour, marker, label in ((seen, _BLUE, "o", "seen label"), (~seen, _ORANGE, "^", "unseen label")):
        axes.scatter(points[mask, 0], points[mask, 1], s=34, c=colour, marker=marker, lw=0, zorder=3, label=label)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.12)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color(_LINE)
