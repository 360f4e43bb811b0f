"""Image files: opening them whatever their kind, or saying why not."""

from __future__ import annotations

import logging
import os
import stat
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["UnreadableImage", "decode", "decoded", "pillow_silent", "read_image", "system_reason"]

# Only these are tried: others among Pillow's formats start programs (EPS) or fetch other files.
_FORMATS = ("JPEG", "MPO", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "AVIF", "JPEG2000")
_ORIENTATION = 0x0112  # EXIF tags
_BITS_PER_SAMPLE = 0x0102
_MOST_PIXELS = 64 * 1024 * 1024  # decoded at once, over all threads: 256 MB, and as much again to convert them


class UnreadableImage(ValueError):  # noqa: N818 (it names the thing that is wrong, as a message does)
    """A file that is no image, or a damaged one.

    Parameters
    ----------
    path : str or pathlib.Path
        The file.
    reason : str
        What is wrong, for a person.
    """

    def __init__(self, path: str | Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = str(path), reason


@contextmanager
def pillow_silent() -> Iterator[None]:
    """Keep Pillow's warnings and log about odd files to ourselves: what matters becomes an `UnreadableImage`.

    The filters of a process are shared by its threads: enter it once, around them all.
    """
    log = logging.getLogger("PIL")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"PIL(\.|$)")
            yield
    finally:
        log.setLevel(level)


class _Pixels:
    """So many pixels may be in memory at once; threads that want more wait until others are done."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most
        self._changed = threading.Condition()

    @contextmanager
    def share(self, wanted: int) -> Iterator[None]:
        """Hold some of the pixels; a picture that is larger than all of them is alone."""
        wanted = min(wanted, self._most)
        with self._changed:
            self._changed.wait_for(lambda: self._left >= wanted)
            self._left -= wanted
        try:
            yield
        finally:
            with self._changed:
                self._left += wanted
                self._changed.notify_all()


_pixels = _Pixels(_MOST_PIXELS)


def read_image(path: str | Path) -> Image:
    """Open an image file as RGB, the way it is meant to be looked at.

    Turned as its EXIF orientation says; what is transparent becomes white; 16 bits a pixel are scaled to 8, not
    cut off; of an animation the first frame.

    Parameters
    ----------
    path : str or pathlib.Path
        A JPEG, PNG, GIF, WebP, BMP, TIFF, PNM, AVIF or JPEG 2000 file, whatever its suffix.

    Returns
    -------
    PIL.Image.Image
        Of mode RGB, loaded.

    Raises
    ------
    UnreadableImage
        If the file is missing, empty, no image, cut off or damaged, or has more than 178,956,970 pixels (Pillow's
        limit against decompression bombs, twice ``PIL.Image.MAX_IMAGE_PIXELS``).
    ImportError
        Without Pillow, which comes with the extra ``images``.
    """
    with pillow_silent():
        return decode(path)


@contextmanager
def decoded(path: str | Path) -> Iterator[Image]:
    """Decode for threads that do not keep the picture: together they hold no more pixels than memory has room for.

    A thread that is inside must not enter another one, or threads may wait for each other forever.
    """
    with ExitStack() as held:
        yield decode(path, lambda image: held.enter_context(_pixels.share(image.width * image.height)))


def decode(path: str | Path, before_loading: Callable[[Image], object] = lambda image: None) -> Image:
    """Do the work of `read_image`, for threads: the caller keeps Pillow silent."""
    pillow, formats = _pillow()
    try:
        status = os.stat(path)  # noqa: PTH116
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableImage(path, "it is no file")
        if not status.st_size:
            raise UnreadableImage(path, "the file is empty")
        with pillow.open(path, formats=formats) as image:
            before_loading(image)
            image.load()
            return _upright(_as_rgb(image, path), _orientation(image))
    except UnreadableImage:
        raise
    except Exception as error:  # a damaged file can make Pillow raise almost anything
        raise UnreadableImage(path, _reason(error, path)) from error


@cache
def _pillow() -> tuple[Any, tuple[str, ...]]:
    """Pillow's Image module, and those of our formats that it was built with."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError(
            'Reading images needs Pillow. Install the extra: pip install "unseen[images]"'
        ) from error
    Image.init()
    return Image, tuple(name for name in _FORMATS if name in Image.OPEN)


def _orientation(image: Image) -> int:
    try:
        return int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # damaged EXIF: the picture itself is good
        return 1


def _upright(image: Image, orientation: int) -> Image:
    from PIL.Image import Transpose

    turns = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    return image.transpose(turns[orientation]) if orientation in turns else image


def _as_rgb(image: Image, path: str | Path) -> Image:
    if image.mode.startswith(("I", "F")):
        return _with_8_bits(image, path).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        pillow, _ = _pillow()
        layers = image.convert("RGBA")
        flat: Image = pillow.alpha_composite(pillow.new("RGBA", layers.size, "white"), layers)
        return flat.convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")


def _with_8_bits(image: Image, path: str | Path) -> Image:
    """Grey picture with more than 8 bits a pixel on the scale 0..255: Pillow's own conversion cuts it off."""
    pillow, _ = _pillow()
    values = np.asarray(image, dtype=np.float32)
    if not np.isfinite(values).all():
        raise UnreadableImage(path, "some of its pixels are NaN or infinite")
    highest = float(values.max())
    if image.mode == "F" and highest <= 1.0:
        white = 1.0
    elif image.mode == "F" and highest <= 255.0:
        white = 255.0
    elif highest <= 65535.0:
        white = 2.0 ** _bits(image) - 1.0
    else:
        raise UnreadableImage(path, f"its pixels go up to {highest:g}, which is no known scale of brightness")
    levels = np.clip(values * (255.0 / white), 0.0, 255.0).round().astype(np.uint8)
    converted: Image = pillow.fromarray(levels)
    return converted


def _bits(image: Image) -> int:
    """Bits that a pixel uses: a TIFF may have 12 of 16."""
    tags = getattr(image, "tag_v2", {})
    bits = tags.get(_BITS_PER_SAMPLE, (16,))
    return min(int(bits[0]), 16)


def _reason(error: Exception, path: str | Path) -> str:
    """Say what is wrong with a file, for a person."""
    from PIL import UnidentifiedImageError
    from PIL.Image import MAX_IMAGE_PIXELS, DecompressionBombError

    if isinstance(error, DecompressionBombError):
        return f"it has more than {2 * (MAX_IMAGE_PIXELS or 0):,} pixels: refused as a decompression bomb"
    if isinstance(error, UnidentifiedImageError):
        return "it is text, no image" if _is_text(path) else "it is no image, or of a kind that cannot be read"
    if isinstance(error, OSError) and error.errno is not None:
        return system_reason(error)
    if isinstance(error, MemoryError):
        return "there is not enough memory to open it"
    if isinstance(error, EOFError) or "truncated" in str(error).lower():
        return "the file is cut off"
    return f"the file is damaged ({' '.join(str(error).split()) or type(error).__name__})"


def system_reason(error: OSError) -> str:
    """Say why the system refused, for a person."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, PermissionError):
        return "you have no permission to read it"
    return error.strerror or str(error)


def _is_text(path: str | Path) -> bool:
    with Path(path).open("rb") as file:
        head = file.read(512)
    return all(byte >= 32 or byte in b"\t\n\r\f" for byte in head) and b"\x7f" not in head
