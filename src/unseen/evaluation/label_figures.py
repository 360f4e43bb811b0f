"""Figures of labels: maps of their vectors and of the relations between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unseen.evaluation._canvas import (
    BLUE,
    INK,
    LINE,
    NORMAL,
    ORANGE,
    SMALL,
    SOFT,
    canvas,
    plain,
    without_complaints,
)
from unseen.evaluation._placement import place_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["label_map", "relation_map"]


def label_map(maps: Mapping[str, ArrayLike], names: Sequence[str], seen: ArrayLike) -> Figure:
    """Maps of the same labels, side by side: the first two principal components of their vectors.

    A thin line leads from each unseen label to the seen one that is nearest by cosine in all dimensions, of
    which a map shows but two.

    Parameters
    ----------
    maps : mapping of str to array-like of shape (n_labels, n_dims)
        Title and label vectors of each map, such as before and after a projection; the numbers of dimensions may
        differ.
    names : sequence of str
        One a label.
    seen : array-like of shape (n_labels,), bool
        Which labels were annotated.

    Returns
    -------
    matplotlib.figure.Figure
    """
    is_seen = np.asarray(seen, dtype=np.bool_)
    vectors = [np.asarray(part, dtype=np.float64) for part in maps.values()]
    if any(part.ndim != 2 or len(part) != len(names) for part in vectors) or is_seen.shape != (len(names),):
        raise ValueError(
            f"names: {len(names)} names for vectors of shapes {[part.shape for part in vectors]}, seen of shape "
            f"{is_seen.shape}. Pass one row, name and flag a label."
        )
    written = [plain(name) for name in names]
    figure, every = canvas(5.3 * max(len(maps), 1.4), 5.3, columns=len(maps))
    every = every if len(maps) > 1 else [every]
    planes = [_principal_plane(part) for part in vectors]
    points = [_turned(plane, onto=planes[0][0]) for plane, _ in planes]
    for axes, placed, (_, share), part, title in zip(every, points, planes, vectors, maps, strict=True):
        _draw_map(axes, placed, _nearest_seen(part, is_seen), is_seen)
        axes.set_title(f"{plain(title)}\n", loc="left", fontsize=NORMAL + 1, color=INK, fontweight="bold")
        axes.text(
            0, 1.02, f"two of the directions: {share:.0%} of the variance", transform=axes.transAxes,
            fontsize=SMALL, color=SOFT,
        )  # fmt: skip
    figure.legend(
        *every[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False,
        fontsize=SMALL, labelcolor=INK,
    )  # fmt: skip
    with without_complaints():
        figure.draw_without_rendering()  # fixes the layout, in which the names are then placed
    figure.set_layout_engine("none")
    for axes, placed in zip(every, points, strict=True):
        with without_complaints():
            place_names(axes, placed, written, [BLUE if known else ORANGE for known in is_seen], SMALL)
    return figure


def relation_map(relations: ArrayLike, names: Sequence[str], n_seen: int) -> Figure:
    """Heat map of the relations between labels, the seen ones first; a line parts the two kinds.

    Parameters
    ----------
    relations : array-like of shape (n_labels, n_labels)
        Similarities >= 0. The diagonal is left blank: it says nothing of two labels.
    names : sequence of str
        One a label.
    n_seen : int
        How many of the first labels are seen.

    Returns
    -------
    matplotlib.figure.Figure
    """
    R = np.array(relations, dtype=np.float64)
    if R.shape != (len(names), len(names)):
        raise ValueError(
            f"relations: shape {R.shape} for {len(names)} names. Pass one row and one column a label."
        )
    np.fill_diagonal(R, np.nan)
    size = min(max(3.2 + 0.24 * len(names), 4.6), 16.0)
    figure, axes = canvas(size + 0.8, size)
    image = axes.imshow(R, cmap="Blues", vmin=0.0, interpolation="nearest")
    ticks, written = range(len(names)), [plain(name) for name in names]
    axes.set_xticks(ticks, written, rotation=90)
    axes.set_yticks(ticks, written)
    for label, position in zip([*axes.get_xticklabels(), *axes.get_yticklabels()], [*ticks, *ticks], strict=True):
        label.set_color(BLUE if position < n_seen else ORANGE)
    if 0 < n_seen < len(names):
        axes.axhline(n_seen - 0.5, color=INK, lw=1.0)
        axes.axvline(n_seen - 0.5, color=INK, lw=1.0)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    bar = figure.colorbar(image, ax=axes, shrink=0.6)
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=SOFT, labelsize=SMALL, length=0)
    return figure


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
        axes.plot(*points[[i, j]].T, color=LINE, lw=1.1, zorder=1, label=label)
    for mask, colour, marker, label in ((seen, BLUE, "o", "seen label"), (~seen, ORANGE, "^", "unseen label")):
        axes.scatter(points[mask, 0], points[mask, 1], s=34, c=colour, marker=marker, lw=0, zorder=3, label=label)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.12)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color(LINE)
