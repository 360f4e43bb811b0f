"""Where to write names on a map, so that they cover neither each other nor what is drawn there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation
    from matplotlib.transforms import Bbox


def place_names(
    axes: Axes, points: NDArray[np.float64], names: Sequence[str], colours: Sequence[str], fontsize: float
) -> None:
    """Write each name at the first place around its point that covers no other name, point or line."""
    dots = [_square(spot, 5.0) for spot in axes.transData.transform(points)]
    lines = [axes.transData.transform(line.get_xydata()) for line in axes.lines]
    crossings = [_square(a + t * (b - a), 1.0) for a, b in lines for t in np.linspace(0.0, 1.0, 60)]
    taken: list[Bbox] = []
    around = [
        (r * np.cos(t), r * np.sin(t)) for r in (9, 15, 22, 30) for t in np.linspace(0, 2 * np.pi, 16, False)
    ]
    for i, (name, colour) in enumerate(zip(names, colours, strict=True)):
        text = axes.annotate(
            name, points[i], (0, 0), textcoords="offset points", fontsize=fontsize, color=colour, zorder=4
        )
        others = [*taken, *dots[:i], *dots[i + 1 :], *crossings]
        boxes = [_box_at(text, offset) for offset in around]
        covered = [_covered(box, others, axes.bbox) for box in boxes]
        best = int(np.argmin(covered))
        _box_at(text, around[best])
        taken.append(boxes[best])


def _square(centre: NDArray[np.float64], reach: float) -> Bbox:
    from matplotlib.transforms import Bbox

    return Bbox([centre - reach, centre + reach])


def _box_at(text: Annotation, offset: tuple[float, float]) -> Bbox:
    """Move a name to an offset from its point, on the side where it leads away, and measure it."""
    text.set_position(offset)
    text.set_horizontalalignment("left" if offset[0] > 3 else "right" if offset[0] < -3 else "center")
    text.set_verticalalignment("center" if abs(offset[1]) < 4 else "bottom" if offset[1] > 0 else "top")
    return text.get_window_extent().padded(1.0)


def _covered(box: Bbox, others: Sequence[Bbox], frame: Bbox) -> float:
    """Area of a box that lies on others or outside the frame."""
    area = sum(_common_area(box, other) for other in others)
    return area + 4.0 * (box.width * box.height - _common_area(box, frame))


def _common_area(one: Bbox, other: Bbox) -> float:
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return float(max(width, 0.0) * max(height, 0.0))
