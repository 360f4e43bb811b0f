"""Figures; each function returns a `matplotlib.figure.Figure` for `save` or `to_svg`.

Nothing is shown and no global setting is changed. Colour-blind readers can tell the colours apart (Okabe and Ito),
and every distinction is also made by shape or position.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import orthogonal_procrustes
from sklearn.metrics.pairwise import cosine_similarity

from unseen.evaluation.metrics import Reliability
from unseen.explanation import Explanation
from unseen.files import write_atomically
from unseen.hub import import_extra
from unseen.validation import Matrix, check_vectors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#AA4A8C"
INK, SOFT, LINE, WASH = "#1c2024", "#5b646e", "#cfd5da", "#eceff1"
_LOOKS = tuple(zip((BLUE, ORANGE, GREEN, PURPLE), "os^D", strict=True))
_DASHES = (0, (4, 2))
_STYLE: Any = {
    "text.parse_math": False,  # dollar signs in names are literal
    "font.size": 9, "axes.titlesize": 10, "axes.labelsize": 9, "xtick.labelsize": 9, "ytick.labelsize": 9,
    "text.color": INK, "axes.titlecolor": INK, "axes.labelcolor": SOFT, "xtick.color": SOFT, "ytick.color": SOFT,
    "axes.edgecolor": LINE, "axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left",
    "axes.axisbelow": True, "grid.color": WASH, "grid.linewidth": 1, "legend.frameon": False, "legend.fontsize": 9,
    "figure.constrained_layout.use": True, "figure.facecolor": "white", "axes.facecolor": "white",
}  # fmt: skip


class Curve(NamedTuple):
    """Heights at the ticks of a panel, with the half width of an interval about each; ``kind`` sets the look."""

    name: str
    heights: tuple[float, ...]
    halves: tuple[float, ...] | None = None
    kind: int = 0
    faint: bool = False


class Panel(NamedTuple):
    """One pair of axes with curves over the same ticks."""

    title: str
    across: str
    ticks: tuple[str, ...]
    curves: tuple[Curve, ...]


def require_matplotlib() -> None:
    """Raise an ImportError with instructions unless matplotlib is installed."""
    import_extra("matplotlib.figure", "plots")


@contextmanager
def _styled() -> Iterator[None]:
    """Set the style of all figures, and ignore warnings about glyphs missing from the font."""
    require_matplotlib()
    from matplotlib import rc_context

    with rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


@_styled()
def objective_traces(traces: Mapping[str, ArrayLike], lower_bound: float) -> Figure:
    """Objectives of each named solver after each iteration, above the lower bound of all."""
    figure, (axes,) = _axes(7.6, 4.0)
    for (name, trace), (colour, marker) in zip(traces.items(), cycle(_LOOKS), strict=False):
        steps, label = np.arange(1, np.size(trace) + 1), f"{name}, ends at {np.ravel(trace)[-1]:,.4g}"
        axes.plot(steps, np.ravel(trace), color=colour, marker=marker, ms=3.8, lw=1.6, label=label)
    top = float(axes.dataLim.y1)
    span = max(top - lower_bound, 1e-3 * abs(lower_bound), 1e-12)
    bottom = lower_bound - 0.16 * span
    axes.set(xlabel="iteration", title="objective (lower is better)", ylim=(bottom, top + 0.09 * span))
    axes.axhspan(bottom, lower_bound, color=WASH, lw=0, zorder=0)
    axes.axhline(lower_bound, color=SOFT, lw=1.0, ls=_DASHES)
    text, along = f"certified: no projection can be below {lower_bound:,.4g}", axes.get_yaxis_transform()
    axes.text(0.015, lower_bound - 0.08 * span, text, transform=along, color=SOFT, va="center")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.yaxis.set_major_formatter("{x:,g}")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


@_styled()
def contributions(explanation: Explanation, most: int = 8) -> Figure:
    """Bars for the parts of a score, the ``most`` largest individually; they sum to the last bar, the score."""
    rows = [(f"image {name}" if kind == "image" else name, value) for kind, name, value in explanation.parts]
    rows, rest = rows[:most], [value for _, value in rows[most:]]
    rows += [(f"{len(rest)} others", sum(rest))] if rest else []
    rows += [("offset", explanation.offset)] if abs(explanation.offset) >= 0.005 else []
    rows.append((f"score of {explanation.label!r}", explanation.score))
    names, values = [name for name, _ in rows], np.array([value for _, value in rows])
    figure, (axes,) = _axes(5.4, 0.55 + 0.29 * len(rows))
    colours = [BLUE if value >= 0 else ORANGE for value in values[:-1]] + [INK]
    bars = axes.barh(range(len(rows)), values, height=0.66, color=colours)
    axes.bar_label(bars, [f"{value:+.2f}".replace("-", "\N{MINUS SIGN}") for value in values], padding=4)
    axes.axvline(0.0, color=SOFT, lw=0.8)
    axes.axhline(len(rows) - 1.5, color=LINE, lw=0.8)
    axes.set(ylim=(len(rows) - 0.5, -0.5), xticks=[], xmargin=0.18)
    _name_ticks(axes.yaxis, names)
    axes.spines[:].set_visible(False)
    return figure


@_styled()
def label_map(maps: Mapping[str, ArrayLike], names: Sequence[str], seen: ArrayLike) -> Figure:
    """Maps of the same labels, side by side: the first two principal components of their vectors.

    ``maps`` are titles with matrices of one row per label, such as before and after a projection. A line leads
    from each unseen label to the seen one that is nearest by cosine in all dimensions.
    """
    known, unknown = np.flatnonzero(seen), np.flatnonzero(~np.asarray(seen, dtype=np.bool_))
    figure, every = _axes(5.3 * max(len(maps), 1.4), 5.3, len(maps))
    maps_of_points: list[Matrix] = []
    for axes, (title, vectors) in zip(every, maps.items(), strict=True):
        points, share = principal_plane(check_vectors(vectors, "maps", tuple(names)))
        # The axes of a map have no meaning: all maps are rotated to match.
        points = points @ orthogonal_procrustes(points, (maps_of_points or [points])[0])[0]
        maps_of_points.append(points)
        if known.size and unknown.size:
            nearest = known[cosine_similarity(vectors)[np.ix_(unknown, known)].argmax(axis=1)]
            joined = points[[unknown, nearest]].transpose(2, 0, 1)
            axes.plot(*joined, c=LINE, lw=1.1, zorder=1)[0].set_label("nearest seen label, in all dimensions")
        look = {"s": 34, "lw": 0, "zorder": 3}
        axes.scatter(*points[known].T, c=BLUE, marker="o", label="seen label", **look)
        axes.scatter(*points[unknown].T, c=ORANGE, marker="^", label="unseen label", **look)
        axes.set_aspect("equal", adjustable="datalim")
        axes.set(xticks=[], yticks=[], xmargin=0.12, ymargin=0.12)
        axes.spines[:].set_visible(True)
        axes.set_title(f"{title}\n", fontsize=11, fontweight="bold")
        about = f"two of the directions: {share:.0%} of the variance"
        axes.text(0, 1.02, about, transform=axes.transAxes, color=SOFT)
    figure.legend(*every[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.draw_without_rendering()  # fixes the layout before the names are placed
    figure.set_layout_engine("none")
    for axes, points in zip(every, maps_of_points, strict=True):
        _place_names(axes, points, names, np.where(seen, BLUE, ORANGE))
    return figure


@_styled()
def reliability_diagram(groups: Mapping[str, Reliability], few: int = 0) -> Figure:
    """Observed share of right tags against p, the diagonal being ideal; hollow where there are fewer than ``few``.

    Bars are two standard errors of the share.
    """
    figure, (axes,) = _axes(4.6, 4.4)
    axes.plot([0, 1], [0, 1], color=SOFT, lw=1.0, ls=_DASHES, zorder=1)
    for (name, (n, p, observed)), (colour, marker) in zip(groups.items(), cycle(_LOOKS), strict=False):
        error = 2.0 * np.sqrt(p * (1.0 - p) / np.maximum(n, 1))
        axes.errorbar(p, observed, error, color=colour, lw=1.6, capsize=0, elinewidth=1.0, label=name, zorder=2)
        for filled in (True, False):
            shown = (n > 0) & ((n >= few) == filled)
            fill = colour if filled else "white"
            axes.plot(p[shown], observed[shown], marker, color=colour, mfc=fill, ms=5.5, zorder=3)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel="p", title="share of tags that are right")
    axes.set_aspect("equal")
    axes.grid()
    figure.legend(loc="outside lower center", ncols=2)
    return figure


@_styled()
def relation_map(relations: ArrayLike, names: Sequence[str], n_seen: int) -> Figure:
    """Heat map of the relations between labels, the ``n_seen`` seen ones first; the diagonal is left blank."""
    R = check_vectors(relations, "relations", tuple(names)).copy()
    np.fill_diagonal(R, np.nan)
    size = min(max(3.2 + 0.24 * len(names), 4.6), 16.0)
    figure, (axes,) = _axes(size + 0.8, size)
    image = _heat_map(axes, R, names, names, vmin=0.0)
    axes.tick_params(axis="x", rotation=90)
    for i, tick in enumerate([*axes.get_xticklabels(), *axes.get_yticklabels()]):
        tick.set_color(BLUE if i % len(names) < n_seen else ORANGE)
    if 0 < n_seen < len(names):
        axes.axhline(n_seen - 0.5, color=INK, lw=1.0)
        axes.axvline(n_seen - 0.5, color=INK, lw=1.0)
    bar = figure.colorbar(image, ax=axes, shrink=0.6)
    bar.outline.set_visible(False)
    return figure


@_styled()
def curves(panels: Sequence[Panel], height: float = 3.9) -> Figure:
    """Panels of curves side by side; ticks are evenly spaced, whatever their values."""
    figure, every = _axes(4.6 * max(len(panels), 1.5), height, len(panels))
    for axes, panel in zip(every, panels, strict=True):
        places = np.arange(len(panel.ticks))
        for name, heights, halves, kind, faint in panel.curves:
            colour, marker = _LOOKS[kind % len(_LOOKS)]
            look = {"color": colour, "marker": marker, "ms": 5, "capsize": 3, "label": name}
            look |= {"lw": 1.2, "ls": _DASHES, "mfc": "white"} if faint else {"lw": 1.8}
            axes.errorbar(places, heights, None if halves is None else np.nan_to_num(halves), **look)
        low, high = axes.dataLim.intervaly
        space = max(0.08 * (high - low), 0.01 * abs(high))  # a negligible change should look negligible
        axes.set(xlim=(-0.3, len(places) - 0.7), ylim=(low - space, high + space))
        axes.set(title=panel.title, xlabel=panel.across, xticks=places, xticklabels=panel.ticks)
        axes.grid(axis="y")
        axes.yaxis.set_major_formatter("{x:,g}")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)  # inside, it would hide points
    return figure


@_styled()
def label_grid(values: ArrayLike, labels: Sequence[str], methods: Sequence[str], title: str) -> Figure:
    """Values in [0, 1] of each label and method, in per cent, the darker the better; NaN is left blank."""
    table = 100.0 * np.asarray(values, dtype=np.float64)
    figure, (axes,) = _axes(min(2.2 + 0.72 * len(methods), 16.0), min(1.6 + 0.3 * len(labels), 24.0))
    _heat_map(axes, table, labels, methods, vmin=0.0, vmax=120.0, aspect="auto")
    for (i, j), value in np.ndenumerate(table):
        if np.isfinite(value):
            axes.text(j, i, f"{value:.0f}", ha="center", va="center", color="white" if value > 70.0 else INK)
    axes.set_title(title)
    for tick in axes.get_xticklabels():
        tick.set(rotation=35, ha="right", rotation_mode="anchor")
    return figure


@_styled()
def to_svg(figure: Figure, description: str = "", prefix: str = "") -> str:
    """Return the figure as an ``<svg>`` element for a page: the same text for the same figure.

    ``description`` is the alternative text; ``prefix`` is put before all identifiers, which must differ
    between the figures of one page.
    """
    from matplotlib import font_manager, rc_context, text

    # Letters are outlines, the same everywhere; missing glyphs are left to the reader's fonts.
    letters = {ord("\n"), *font_manager.get_font(font_manager.findfont("DejaVu Sans")).get_charmap()}
    complete = all(letters.issuperset(map(ord, part.get_text())) for part in figure.findobj(text.Text))
    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "path" if complete else "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    svg = re.sub(r"<metadata>.*?</metadata>", "", buffer.getvalue(), flags=re.DOTALL)
    svg = svg[svg.index("<svg") :].strip()
    # Matplotlib's identifiers repeat from figure to figure, or are random.
    number = {name: f"{prefix}{i}" for i, name in enumerate(dict.fromkeys(re.findall(r'\bid="([^"]+)"', svg)))}
    svg = re.sub(r'\bid="([^"]+)"', lambda found: f'id="{number[found[1]]}"', svg)
    svg = re.sub(r'(href="|url\()#([^")]+)', lambda found: f"{found[1]}#{number[found[2]]}", svg)
    natural = f"--natural:{96 * figure.get_figwidth():.0f}px"  # a page scales figures down, not up
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(description)}" style="{natural}"', 1)


@_styled()
def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure as PNG or SVG, by the suffix of the path, and return the path."""
    path = Path(path)
    if path.suffix.lower() == ".svg":
        text = f'<?xml version="1.0" encoding="UTF-8"?>\n{to_svg(figure)}\n'
        write_atomically(path, lambda part: part.write_text(text, encoding="utf-8", newline="\n"))
    elif path.suffix.lower() == ".png":
        write_atomically(path, lambda part: figure.savefig(part, format="png", dpi=200))
    else:
        raise ValueError(f"path: {path.name!r} ends in neither '.png' nor '.svg'. Give it one of the two.")
    return path


def _axes(width: float, height: float, columns: int = 1) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure((width, height))
    return figure, figure.subplots(1, columns, squeeze=False)[0]


def _name_ticks(axis: Any, names: Sequence[str]) -> None:
    axis.set_ticks(range(len(names)), names, color=INK)
    axis.set_tick_params(length=0)


def _heat_map(axes: Any, values: Matrix, rows: Sequence[str], columns: Sequence[str], **options: Any) -> Any:
    _name_ticks(axes.yaxis, rows)
    _name_ticks(axes.xaxis, columns)
    axes.spines[:].set_visible(False)
    return axes.imshow(values, cmap="Blues", interpolation="nearest", **options)


def principal_plane(vectors: Matrix) -> tuple[Matrix, float]:
    """Return the first two principal components of each row, and their share of the variance."""
    centred = np.pad(vectors - vectors.mean(axis=0), ((0, 1), (0, 1)))  # there are at least two components
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    return left[:-1, :2] * singular[:2], float(np.sum(singular[:2] ** 2) / max(np.sum(singular**2), 1e-300))


def _place_names(axes: Any, points: Matrix, names: Sequence[str], colours: Any) -> None:
    """Write each name beside its point, with least overlap: other names weigh most, then points, then lines."""
    pixels = axes.get_figure(root=True).dpi / 72.0  # per point
    turns = np.linspace(0.0, 2.0 * np.pi, 16, endpoint=False)
    directions = np.tile(np.column_stack([np.cos(turns), np.sin(turns)]), (4, 1))
    steps = np.repeat([9.0, 14.0, 20.0, 28.0], len(turns))[:, None] * directions * pixels
    spots, along = axes.transData.transform(points), np.linspace(0.0, 1.0, 60)[:, None]
    ends = [axes.transData.transform(line.get_xydata()) for line in axes.lines]
    crossed = np.vstack([start + along * (end - start) for start, end in ends]) if ends else np.empty((0, 2))
    boxes = np.vstack([np.tile(crossed, 2), np.hstack([spots - 5.0, spots + 5.0])])  # x0, y0, x1, y1
    weights = np.repeat([1.0, 10.0], [len(crossed), len(spots)])
    frame = axes.bbox.extents
    for i, (name, colour) in enumerate(zip(names, colours, strict=True)):
        look = {"ha": "center", "va": "center", "zorder": 4}
        text = axes.annotate(name, points[i], (0, 0), textcoords="offset points", color=colour, **look)
        half = np.array(text.get_window_extent().size) / 2.0 + 1.0
        centres = spots[i] + steps + np.round(directions) * half  # the near edge or corner lies at the step
        low, high = centres - half, centres + half
        covered = ((low[:, None] < boxes[:, 2:]) & (high[:, None] > boxes[:, :2])).all(axis=2)
        outside = ((low < frame[:2]) | (high > frame[2:])).any(axis=1)
        best = int(np.argmin(covered @ weights + 100.0 * outside))
        text.set_position(tuple((centres[best] - spots[i]) / pixels))
        boxes, weights = np.vstack([boxes, [*low[best], *high[best]]]), np.append(weights, 100.0)
