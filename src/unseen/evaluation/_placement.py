"""Where to write names on a map, so that they cover neither each other nor what is drawn there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Boxes = NDArray[np.float64]  # rows x0, y0, x1, y1 in pixels

_ANGLES = np.linspace(0.0, 2.0 * np.pi, 16, endpoint=False)
_AROUND = np.array([(r * np.cos(t), r * np.sin(t)) for r in (9.0, 14.0, 20.0, 28.0) for t in _ANGLES])


def place_names(
    axes: Axes, points: NDArray[np.float64], names: Sequence[str], colours: Sequence[str], fontsize: float
) -> None:
    """Write each name at the first place around its point that covers no other name, point or line.

    Where every place covers something, the one that covers least is taken. The layout must be final.
    """
    spots = axes.transData.transform(points)
    dots = _squares(spots, 5.0)
    ends = [axes.transData.transform(line.get_xydata()) for line in axes.lines]
    steps = np.linspace(0.0, 1.0, 60)[:, None]
    crossed = [_squares(start + steps * (end - start), 1.0) for start, end in ends]
    figure = axes.get_figure(root=True)
    assert figure is not None
    pixels_per_point = figure.dpi / 72.0
    frame = np.array([axes.bbox.extents], dtype=np.float64)
    taken: list[Boxes] = []
    for i, (name, colour) in enumerate(zip(names, colours, strict=True)):
        text = axes.annotate(
            name, points[i], (0, 0), textcoords="offset points", fontsize=fontsize, color=colour,
            ha="center", va="center", zorder=4,
        )  # fmt: skip
        extent = text.get_window_extent()
        half = np.array([extent.width, extent.height]) / 2.0
        centres = _beside(half / pixels_per_point) * pixels_per_point
        boxes = np.hstack([spots[i] + centres - half - 1.0, spots[i] + centres + half + 1.0])
        others = np.vstack([np.delete(dots, i, axis=0), *crossed, *taken])
        outside = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1) - _common_area(boxes, frame)[:, 0]
        best = int(np.argmin(_common_area(boxes, others).sum(axis=1) + 4.0 * outside))
        across, up = centres[best] / pixels_per_point
        text.set_position((float(across), float(up)))
        taken.append(boxes[best : best + 1])


def _beside(half: NDArray[np.float64]) -> NDArray[np.float64]:
    """Centres of a box of the given half size whose near edge or corner lies at each place around its point."""
    across, up = _AROUND[:, 0], _AROUND[:, 1]
    shift_x = np.where(np.abs(across) > 3.0, np.sign(across), 0.0) * half[0]
    shift_y = np.where(np.abs(up) > 4.0, np.sign(up), 0.0) * half[1]
    centres: NDArray[np.float64] = _AROUND + np.column_stack([shift_x, shift_y])
    return centres


def _squares(centres: NDArray[np.float64], reach: float) -> Boxes:
    return np.hstack([centres - reach, centres + reach])


def _common_area(boxes: Boxes, others: Boxes) -> NDArray[np.float64]:
    """Area that each box (rows) shares with each of the others (columns)."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    area: NDArray[np.float64] = np.maximum(high - low, 0.0).prod(axis=2)
    return area
