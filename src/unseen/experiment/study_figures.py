"""Figures of experiments: curves over a parameter, intervals of methods, labels by methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unseen.evaluation._canvas import BLUE, GREEN, INK, NORMAL, ORANGE, PURPLE, SMALL, SOFT, WASH, canvas, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Curve", "Panel", "curves", "intervals", "label_grid"]

_LOOKS = tuple(zip((BLUE, ORANGE, GREEN, PURPLE), "os^D", strict=True))


@dataclass(frozen=True)
class Curve:
    """A curve: its heights at the ticks of its panel, the half width of an interval about each, and its look.

    Curves of the same ``kind`` share colour and marker; a ``faint`` one is drawn with dashes.
    """

    name: str
    heights: tuple[float, ...]
    halves: tuple[float, ...] | None = None
    kind: int = 0
    faint: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes with curves over the same ticks."""

    title: str
    across: str
    ticks: tuple[str, ...]
    curves: tuple[Curve, ...]


def curves(panels: Sequence[Panel], height: float = 3.9) -> Figure:
    """Panels of curves side by side; ticks are evenly spaced, whatever their values.

    Parameters
    ----------
    panels : sequence of Panel
        At least one.
    height : float, default=3.9
        Of the figure, in inches.

    Returns
    -------
    matplotlib.figure.Figure
    """
    if not panels:
        raise ValueError("panels: none was given. Pass at least one.")
    figure, every = canvas(4.6 * max(len(panels), 1.5), height, columns=len(panels))
    for axes, panel in zip(every if len(panels) > 1 else [every], panels, strict=True):
        _draw(axes, panel)
    return figure


def intervals(rows: Mapping[str, tuple[float, float]], title: str, marked: Sequence[str] = ()) -> Figure:
    """Mean and interval of each method, one above the other.

    Parameters
    ----------
    rows : mapping of str to (mean, half width)
        The first on top; a half width of NaN draws the mean alone.
    title : str
        What is measured.
    marked : sequence of str
        Methods in the second colour and shape.

    Returns
    -------
    matplotlib.figure.Figure
    """
    if not rows:
        raise ValueError("rows: none was given. Pass at least one method.")
    figure, axes = canvas(7.6, 0.9 + 0.34 * len(rows))
    for i, (name, (mean, half)) in enumerate(rows.items()):
        colour, marker = _LOOKS[int(name in marked)]
        width = half if np.isfinite(half) else 0.0
        axes.errorbar(mean, i, xerr=width, color=colour, marker=marker, ms=6, lw=1.8, capsize=3)
    axes.set(ylim=(len(rows) - 0.5, -0.5), yticks=range(len(rows)))
    axes.set_yticklabels([plain(name) for name in rows], fontsize=SMALL, color=INK)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=WASH, lw=1.0)
    axes.set_axisbelow(True)
    axes.spines["left"].set_visible(False)
    axes.set_title(title, loc="left", fontsize=NORMAL, color=INK)
    return figure


def label_grid(values: ArrayLike, labels: Sequence[str], methods: Sequence[str], title: str) -> Figure:
    """A figure a label and method, in per cent, the darker the better.

    Parameters
    ----------
    values : array-like of shape (n_labels, n_methods)
        In [0, 1]; NaN is left blank.
    labels, methods : sequence of str
        Names of the rows and columns.
    title : str
        What is measured.

    Returns
    -------
    matplotlib.figure.Figure
    """
    table: NDArray[np.float64] = 100.0 * np.asarray(values, dtype=np.float64)
    if table.shape != (len(labels), len(methods)):
        raise ValueError(f"values: shape {table.shape} for {len(labels)} labels and {len(methods)} methods.")
    figure, axes = canvas(min(2.2 + 0.72 * len(methods), 16.0), min(1.6 + 0.3 * len(labels), 24.0))
    axes.imshow(table, cmap="Blues", vmin=0.0, vmax=120.0, aspect="auto", interpolation="nearest")
    for i, j in np.ndindex(table.shape):
        if np.isfinite(table[i, j]):
            colour = "white" if table[i, j] > 70.0 else INK
            axes.text(j, i, f"{table[i, j]:.0f}", ha="center", va="center", fontsize=SMALL, color=colour)
    axes.set_xticks(
        range(len(methods)), [plain(name) for name in methods], rotation=35, ha="right", rotation_mode="anchor"
    )
    axes.set_yticks(range(len(labels)), [plain(name) for name in labels])
    for tick in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        tick.set_color(INK)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(title, loc="left", fontsize=NORMAL, color=INK)
    return figure


def _draw(axes: Any, panel: Panel) -> None:
    places = np.arange(len(panel.ticks))
    drawn: list[float] = []
    for curve in panel.curves:
        colour, marker = _LOOKS[curve.kind % len(_LOOKS)]
        halves = np.zeros(len(places)) if curve.halves is None else np.nan_to_num(np.array(curve.halves))
        axes.errorbar(
            places, curve.heights, yerr=halves if halves.any() else None, color=colour, marker=marker, ms=5,
            lw=1.2 if curve.faint else 1.8, ls=(0, (4, 2)) if curve.faint else "-", capsize=3,
            label=plain(curve.name), mfc="white" if curve.faint else colour,
        )  # fmt: skip
        drawn += [*(np.array(curve.heights) - halves), *(np.array(curve.heights) + halves)]
    low, high = float(np.nanmin(drawn)), float(np.nanmax(drawn))
    # A change that is next to nothing is to look like it.
    room = max(0.08 * (high - low), 0.01 * abs(high))
    axes.set(xlim=(-0.3, len(places) - 0.7), ylim=(low - room, high + room))
    axes.set_xticks(places, panel.ticks)
    axes.grid(axis="y", color=WASH, lw=1.0)
    axes.set_axisbelow(True)
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.set_xlabel(panel.across, color=SOFT, fontsize=SMALL)
    axes.set_title(panel.title, loc="left", fontsize=NORMAL, color=INK)
    # Below the axes: inside, it would hide points.
    axes.legend(
        frameon=False, fontsize=SMALL, labelcolor=INK, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2
    )
