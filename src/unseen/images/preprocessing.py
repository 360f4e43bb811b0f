"""How an image becomes the input of a backbone."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unseen.validation import check_choice, check_count, check_number

if TYPE_CHECKING:
    from PIL.Image import Image

Triple = tuple[float, float, float]

MOST_ELONGATED = 8  # height / width up to which a tall image is resized as a whole


@dataclass(frozen=True)
class Preprocessing:
    """How an RGB image becomes the input of a backbone: resized, scaled to 0..``value_range``, (x - mean) / std.

    Parameters
    ----------
    size : int, default=224
        Side of the square input, in pixels.
    resize : {"crop", "center-crop", "squash"}, default="crop"
        "crop": the shorter side becomes ``size / crop_fraction`` and the centre is cut out: the image keeps its
        proportions and loses its edges. "center-crop": the same, rounded as torchvision rounds. "squash": the
        whole image is distorted into the square.
    crop_fraction : float, default=0.875
        Of a crop: the part of the shorter side that is kept, in (0, 1].
    interpolation : {"nearest", "bilinear", "bicubic", "lanczos"}, default="bicubic"
        Filter of Pillow's resize; images that shrink are smoothed.
    mean, std : tuple of 3 floats, default=(0, 0, 0) and (1, 1, 1)
        Of red, green and blue, on the scale of ``value_range``.
    value_range : float, default=255
        The value of a full pixel before mean and std: 255, or 1.
    layout : {"NCHW", "NHWC"}, default="NCHW"
        Order of the model's own input. Batches are always NCHW; the backbone transposes them if needed.
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
        check_count(self.size, "size")
        check_choice(self.resize, "resize", ("crop", "center-crop", "squash"))
        check_choice(self.interpolation, "interpolation", ("nearest", "bilinear", "bicubic", "lanczos"))
        check_choice(self.layout, "layout", ("NCHW", "NHWC"))
        checked = {
            "crop_fraction": check_number(self.crop_fraction, "crop_fraction", high=1.0, strict=True),
            "mean": _check_triple(self.mean, "mean", low=-np.inf),
            "std": _check_triple(self.std, "std", low=0.0),
            "value_range": check_number(self.value_range, "value_range", strict=True),
        }
        for name, value in checked.items():  # lists become tuples, integers floats: equal settings are equal
            object.__setattr__(self, name, value)


def shorter_side(how: Preprocessing) -> int:
    """Pixels of the shorter side of an image that is resized for a backbone."""
    return how.size if how.resize == "squash" else round(how.size / how.crop_fraction)


def prepare(image: "Image", how: Preprocessing) -> NDArray[np.float32]:
    """RGB image, as returned by `read_image`, as one row of a backbone's batch, of shape (3, size, size)."""
    from PIL.Image import Resampling

    if image.mode != "RGB" or 0 in image.size:
        found = f"its mode is {image.mode!r} and its size {image.width} x {image.height}"
        raise ValueError(f"image: {found}. Pass an RGB image, as read_image opens it.")
    square = _square(image, how, Resampling[how.interpolation.upper()])
    scale = np.array([how.value_range / 255.0 / s for s in how.std], dtype=np.float32)
    shift = np.array([m / s for m, s in zip(how.mean, how.std, strict=True)], dtype=np.float32)
    values = np.ascontiguousarray(np.asarray(square).transpose(2, 0, 1)).astype(np.float32)
    values *= scale[:, None, None]
    values -= shift[:, None, None]
    return values


def _square(image: "Image", how: Preprocessing, method: int) -> "Image":
    """Part of the image that the backbone sees, resized."""
    size = (how.size, how.size)
    if how.resize == "squash":
        return image.resize(size, method)
    side, shorter = shorter_side(how), min(image.size)
    is_torch = how.resize == "center-crop"
    across, down = ((int if is_torch else round)(side * length / shorter) for length in image.size)
    left, top = ((round if is_torch else int)((length - how.size) / 2) for length in (across, down))
    if across < down <= MOST_ELONGATED * across:
        # Pillow would first resize only this part along the other axis, and round differently.
        return image.resize((across, down), method).crop((left, top, left + how.size, top + how.size))
    x, y = image.width / across, image.height / down
    box = (left * x, top * y, min((left + how.size) * x, image.width), min((top + how.size) * y, image.height))
    return image.resize(size, method, box=box)


def _check_triple(values: Any, name: str, low: float) -> Triple:
    if not isinstance(values, list | tuple) or len(values) != 3:
        raise ValueError(f"{name}: {values!r} was given. Pass three numbers: red, green, blue.")
    red, green, blue = (check_number(value, name, low=low, strict=low == 0.0) for value in values)
    return red, green, blue
