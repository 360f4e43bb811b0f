"""How a picture becomes the input of a backbone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unseen.validation import check_choice, check_count, check_number

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["Preprocessing", "prepare"]

RESIZES = ("crop", "squash")
INTERPOLATIONS = ("nearest", "bilinear", "bicubic", "lanczos")
LAYOUTS = ("NCHW", "NHWC")
MOST_ELONGATED = 8
Triple = tuple[float, float, float]


@dataclass(frozen=True)
class Preprocessing:
    """How an RGB picture becomes the input of a backbone.

    The picture is resized, its values are put on the scale 0..``value_range``, and then ``(x - mean) / std``.

    Parameters
    ----------
    size : int, default=224
        Side of the square input, in pixels.
    resize : {"crop", "squash"}, default="crop"
        "crop": the shorter side becomes ``size / crop_fraction`` and the centre is cut out: the picture keeps its
        proportions and loses its edges. "squash": the whole picture is pressed into the square.
    crop_fraction : float, default=0.875
        With "crop": the part of the shorter side that is kept, in (0, 1].
    interpolation : {"nearest", "bilinear", "bicubic", "lanczos"}, default="bicubic"
        How pixels are mixed when resizing; pictures that shrink are smoothed first.
    mean, std : tuple of 3 floats, default=(0, 0, 0) and (1, 1, 1)
        Of red, green and blue, on the scale of ``value_range``.
    value_range : float, default=255
        The value of a full pixel before mean and std: 255, or 1.
    layout : {"NCHW", "NHWC"}, default="NCHW"
        Order of the model's own input. Batches are always NCHW: the backbone turns them if need be.
    """

    size: int = 224
    resize: str = "crop"
    crop_fraction: float = 0.875
    interpolation: str = "bicubic"
    mean: Triple = (0.0, 0.0, 0.0)
    std: Triple = (1.0, 1.0, 1.0)
    value_range: float = 255.0
    layout: str = "NCHW"

    def __post_init__(self) -> None:
        checked = {
            "size": check_count(self.size, "size"),
            "resize": check_choice(self.resize, "resize", RESIZES),
            "crop_fraction": check_number(self.crop_fraction, "crop_fraction", high=1.0, strict=True),
            "interpolation": check_choice(self.interpolation, "interpolation", INTERPOLATIONS),
            "mean": _check_triple(self.mean, "mean", low=-np.inf),
            "std": _check_triple(self.std, "std", low=0.0),
            "value_range": check_number(self.value_range, "value_range", strict=True),
            "layout": check_choice(self.layout, "layout", LAYOUTS),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def as_dict(self) -> dict[str, Any]:
        """Parameters by name, as a configuration file holds them.

        Returns
        -------
        dict
        """
        return asdict(self)


def prepare(image: Image, how: Preprocessing) -> NDArray[np.float32]:
    """Picture as one row of a backbone's batch.

    Parameters
    ----------
    image : PIL.Image.Image
        A picture of mode RGB, as `unseen.images.reading.read_image` gives it.
    how : Preprocessing
        Usually ``backbone.preprocessing``.

    Returns
    -------
    ndarray of shape (3, size, size), float32

    Raises
    ------
    ValueError
        If the picture is not RGB or has no pixels.
    """
    if image.mode != "RGB":
        raise ValueError(
            f"image: its mode is {image.mode!r}. Pass an RGB picture: open its file with read_image, "
            f'or call image.convert("RGB").'
        )
    width, height = image.size
    if not width or not height:
        raise ValueError(f"image: its size is {width} x {height} pixels. Pass a picture with at least one pixel.")
    # One multiplication and one subtraction: x * v / 255 / s - m / s.
    scale = np.array([how.value_range / 255.0 / s for s in how.std], dtype=np.float32)
    shift = np.array([m / s for m, s in zip(how.mean, how.std, strict=True)], dtype=np.float32)
    if how.resize == "crop":
        from unseen.images._resample import can_resize, resize_part

        scaled, corner, elongated = _geometry(image, how)
        if not elongated and can_resize(image, how.interpolation):
            return resize_part(image, scaled, corner, how.size, how.interpolation, scale, shift)
    pixels = np.asarray(resized_by_pillow(image, how), dtype=np.float32).transpose(2, 0, 1)
    return np.ascontiguousarray(pixels * scale[:, None, None] - shift[:, None, None])


def _geometry(image: Image, how: Preprocessing) -> tuple[tuple[int, int], tuple[int, int], bool]:
    """Size of the whole resized picture, left and top of the part kept, and whether it is very long."""
    (width, height), side = image.size, round(how.size / how.crop_fraction)
    shorter = min(width, height)
    scaled = (round(side * width / shorter), round(side * height / shorter))
    corner = ((scaled[0] - how.size) // 2, (scaled[1] - how.size) // 2)
    return scaled, corner, max(scaled) > MOST_ELONGATED * side


def resized_by_pillow(image: Image, how: Preprocessing) -> Image:
    """Square that a backbone sees, the plain way; ``prepare`` takes a quicker one where it is the same."""
    from PIL.Image import Resampling

    method = Resampling[how.interpolation.upper()]
    if how.resize == "squash":
        return image.resize((how.size, how.size), method)
    (width, height), (scaled, (left, top), elongated) = image.size, _geometry(image, how)
    if not elongated:
        return image.resize(scaled, method).crop((left, top, left + how.size, top + how.size))
    # A strip one pixel wide would grow to millions: resize only what is kept, at the cost of other rounding.
    across, down = width / scaled[0], height / scaled[1]
    box = (left * across, top * down, (left + how.size) * across, (top + how.size) * down)
    return image.resize((how.size, how.size), method, box=box)


def _check_triple(values: Any, name: str, low: float) -> Triple:
    try:
        red, green, blue = values
    except (TypeError, ValueError):
        raise ValueError(f"{name}: {values!r} was given. Pass three numbers: red, green, blue.") from None
    strict = low == 0.0
    one, two, three = (check_number(value, name, low=low, strict=strict) for value in (red, green, blue))
    return one, two, three
