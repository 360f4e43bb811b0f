"""Image files: finding them in folders and lists, and opening them or reporting why not."""

from __future__ import annotations

import csv
import os
import stat
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from unseen.files import guess_delimiter
from unseen.validation import listed

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["IMAGE_SUFFIXES", "Found", "Problem", "UnreadableImage", "find_images", "read_image"]

IMAGE_SUFFIXES = (
    ".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".ppm", ".pgm",
    ".pbm", ".pnm", ".avif", ".jp2",
)  # fmt: skip
# Only these are tried: other Pillow formats start programs (EPS) or fetch other files.
_FORMATS = ("JPEG", "MPO", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "AVIF", "JPEG2000")
_COLUMNS = ("path", "image", "file", "file_name", "image_path")
_LARGE = 25_000_000  # pixels: such images are decoded one at a time, as each takes 100 MB or more
_large_image = threading.Lock()


class Problem(NamedTuple):
    """A file or folder that could not be read."""

    path: str
    reason: str


class UnreadableImage(ValueError):  # noqa: N818 (it names the thing that is wrong, as a message does)
    """A file that is not an image or is damaged; ``path`` and ``reason`` identify it and explain why."""

    def __init__(self, path: str | Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path, self.reason = str(path), reason


class Found(NamedTuple):
    """Paths of images, each once, and the folders that could not be read."""

    paths: list[str]
    problems: list[Problem]


def find_images(sources: str | Path | Iterable[str | Path]) -> Found:
    """Paths of the images that files, folders and lists name.

    - A folder: the files in it and in its sub-folders with an image suffix, in sorted order. Names
      that begin with a dot are left out; links to files are followed, links to folders are not.
    - A ``.txt`` file: one path per line; empty lines and those that begin with ``#`` are skipped.
    - A ``.csv`` file: its column ``path`` (or ``image``, ``file``, ``file_name``, ``image_path``).
    - Any other file: an image.

    A relative path in a list is looked for in the list's folder and then in the current one. A file listed
    twice counts once. Listed files are not checked for existence. Relative paths stay relative.

    Parameters
    ----------
    sources : path or iterable of paths
        Where to look, in this order.
    """
    given = [sources] if isinstance(sources, str | Path) else list(sources or ())
    if not given:
        raise ValueError("sources: no file or folder was given. Pass at least one.")
    problems: list[Problem] = []
    paths: dict[str, str] = {}  # as given, keyed by absolute path
    for source in map(Path, given):
        for path in _paths_in(source, problems):
            paths.setdefault(os.path.abspath(path), path)  # noqa: PTH100 (a Path per file is ten times slower)
    if not paths:
        reason = f" {problems[0].path!r} cannot be read: {problems[0].reason}." if problems else ""
        raise ValueError(
            f"sources: there is no image in {listed([str(source) for source in given])}.{reason} "
            f"Pass folders with files such as .jpg or .png, image files, or a .txt or .csv list of them."
        )
    return Found(list(paths.values()), problems)


def _paths_in(source: Path, problems: list[Problem]) -> Iterable[str]:
    if source.is_dir():
        return _paths_in_folder(source, problems)
    if not source.exists():
        raise FileNotFoundError(f"sources: there is no file or folder {str(source)!r}.")
    if source.suffix.lower() not in (".csv", ".txt"):
        return [str(source)]
    try:
        lines = source.read_text("utf-8-sig").splitlines()
        names = _column(lines, source) if source.suffix.lower() == ".csv" else map(str.strip, lines)
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(
            f"sources: {str(source)!r} cannot be read ({error}). Pass a list of paths, as UTF-8 text."
        ) from None
    # Beside the list if it exists there, else in the current folder if it exists there.
    places = ((source.parent / name, Path(name)) for name in names if name and not name.startswith("#"))
    return [str(here if here.exists() and not beside.exists() else beside) for beside, here in places]


def _paths_in_folder(folder: Path, problems: list[Problem]) -> list[str]:
    def note(error: OSError) -> None:
        problems.append(Problem(str(error.filename), f"the folder cannot be read ({error.strerror})"))

    found = []
    for parent, folders, files in os.walk(folder, onerror=note):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [
            os.path.join(parent, name)  # noqa: PTH118 (a Path per file is ten times slower)
            for name in files
            if not name.startswith(".") and name.lower().endswith(IMAGE_SUFFIXES)
        ]
    return sorted(found)


def _column(lines: list[str], source: Path) -> list[str]:
    """Column of image files in a table whose cells are separated by commas, semicolons or tabs."""
    rows = list(csv.DictReader(lines, delimiter=guess_delimiter("".join(lines[:1]))))
    column = next((name for name in _COLUMNS if rows and name in rows[0]), None)
    if column is None:
        raise ValueError(f"sources: {str(source)!r} has no column 'path'. Name the column of image files 'path'.")
    return [(row[column] or "").strip() for row in rows]


def read_image(path: str | Path) -> Image.Image:
    """Open an image file as RGB, the way it is meant to be displayed.

    Rotated by its EXIF orientation; transparent parts become white; 16 bits per pixel are scaled to 8, not cut
    off; of an animation the first frame.

    Parameters
    ----------
    path : str or pathlib.Path
        A JPEG, PNG, GIF, WebP, BMP, TIFF, PNM, AVIF or JPEG 2000 file, whatever its suffix. One that cannot be
        read raises an `UnreadableImage`.
    """
    with quiet_pillow(), open_image(path) as image:
        return image


@contextmanager
def quiet_pillow() -> Iterator[None]:
    """Suppress Pillow's warnings about odd files: real problems become an `UnreadableImage`.

    The filters of a process are shared by its threads: enter it once, around them all.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL(\.|$)")
        yield


@contextmanager
def open_image(path: str | Path) -> Iterator[Image.Image]:
    """Open an image as `read_image` does, from several threads: only one very large image is in memory at a time.

    The caller keeps Pillow quiet, and does not open another image inside.
    """
    with ExitStack() as stack:
        try:
            image = _decode(path, stack)
        except (UnreadableImage, ImportError):
            raise
        except Exception as error:  # a damaged file can make Pillow raise almost anything
            raise UnreadableImage(path, _reason(error)) from error
        yield image


def _decode(path: str | Path, stack: ExitStack) -> Image.Image:
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError as error:
        raise ImportError('images: Pillow is not installed. Run: pip install "unseen[images]"') from error
    status = os.stat(path)  # noqa: PTH116
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableImage(path, "it is not a file")
    if not status.st_size:
        raise UnreadableImage(path, "the file is empty")
    Image.preinit()  # the common formats; loading the others takes longer than reading a photo
    try:
        image = Image.open(path, formats=[name for name in _FORMATS if name in Image.OPEN])
    except UnidentifiedImageError:
        Image.init()
        image = Image.open(path, formats=[name for name in _FORMATS if name in Image.OPEN])
    stack.enter_context(image)
    if image.width * image.height > _LARGE:
        stack.enter_context(_large_image)
    image.load()
    with suppress(Exception):  # damaged EXIF: the image itself is fine
        ImageOps.exif_transpose(image, in_place=True)
    if image.mode.startswith(("I", "F")):
        return _with_8_bits(image, path).convert("RGB")
    if image.has_transparency_data:
        layers = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layers.size, "white"), layers).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")


def _with_8_bits(image: Image.Image, path: str | Path) -> Image.Image:
    """Grey image with more than 8 bits per pixel on the scale 0..255: Pillow's own conversion cuts it off."""
    from PIL import Image

    values = np.asarray(image, dtype=np.float32)
    scales = (1.0, 255.0, 65535.0) if image.mode == "F" else (65535.0,)
    white = next((scale for scale in scales if values.max() <= scale), None)  # None with NaN, too
    if white is None:
        raise UnreadableImage(path, f"its pixels go up to {values.max():g}, not a known brightness scale")
    return Image.fromarray(np.clip(values * (255.0 / white), 0.0, 255.0).round().astype(np.uint8))


def _reason(error: Exception) -> str:
    """What is wrong with a file."""
    from PIL import UnidentifiedImageError
    from PIL.Image import MAX_IMAGE_PIXELS, DecompressionBombError

    if isinstance(error, DecompressionBombError):
        return f"it has more than {2 * (MAX_IMAGE_PIXELS or 0):,} pixels: refused as a decompression bomb"
    if isinstance(error, UnidentifiedImageError):
        return "it is not an image, or its format is unknown"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, EOFError) or "truncated" in str(error).lower():
        return "the file is truncated"
    return f"the file is damaged ({' '.join(str(error).split()) or type(error).__name__})"
