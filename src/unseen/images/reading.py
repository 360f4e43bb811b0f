"""Image files: finding them in folders and lists, and opening them or reporting why not."""

from __future__ import annotations

import csv
import os
import stat
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from importlib import import_module
from io import BytesIO
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unseen.files import guess_delimiter, read_whole
from unseen.hub import import_extra
from unseen.validation import listed

if TYPE_CHECKING:
    from PIL import Image

RAW_SUFFIXES = (
    ".3fr", ".arw", ".cr2", ".cr3", ".crw", ".dng", ".erf", ".fff", ".iiq", ".kdc", ".mef", ".mos", ".mrw", ".nef",
    ".nrw", ".orf", ".pef", ".raf", ".rw2", ".rwl", ".sr2", ".srf", ".srw", ".x3f",
)  # fmt: skip
IMAGE_SUFFIXES = (
    ".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".ppm", ".pgm",
    ".pbm", ".pnm", ".avif", ".jp2", ".heic", ".heif", ".hif", *RAW_SUFFIXES,
)  # fmt: skip
# Only these are tried: other Pillow formats start programs (EPS) or fetch other files.
_FORMATS = ("JPEG", "MPO", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "AVIF", "JPEG2000", "HEIF")
_COLUMNS = ("path", "image", "file", "file_name", "image_path")
_LARGE = 25_000_000  # pixels: such images are decoded one at a time, as each takes 100 MB or more
_LARGEST = 2_000_000_000  # pixels of a JPEG file that is decoded at an eighth of its size
_SMALLEST_PREVIEW = 512  # pixels of the shorter side of a RAW file's preview; smaller ones are postage stamps
_MOST_MISSING = 0.9  # of a truncated photo
_HEIF_BRANDS = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1", b"miaf")
_ORIENTATION, _EXIF_IFD, _DATE_ORIGINAL, _DATE_CHANGED = 0x0112, 0x8769, 0x9003, 0x0132
_DATE = "%Y-%m-%d %H:%M:%S"
_large_image = threading.Lock()


class Problem(NamedTuple):
    """A file or folder that could not be read."""

    path: str
    reason: str


class UnreadableImage(ValueError):  # noqa: N818 (it names the thing that is wrong, as a message does)
    """A file that is not an image or is damaged; ``path`` and ``reason`` identify it and explain why."""

    def __init__(self, path: str | Path, reason: str) -> None:
        super().__init__(f"photo: {str(path)!r} cannot be read ({reason}). Pass another one.")
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

    A relative path in a list is looked for in the list's folder and then in the current one. Listed files are not
    checked for existence. Relative paths stay relative.
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
        advice = "Pass folders with files such as .jpg or .png, image files, or a .txt or .csv list of them."
        raise ValueError(f"sources: there is no image in {listed([*map(str, given)])}.{reason} {advice}")
    return Found(list(paths.values()), problems)


def _paths_in(source: Path, problems: list[Problem]) -> Iterable[str]:
    if source.is_dir():
        return _paths_in_folder(source, problems)
    if not source.exists():
        raise FileNotFoundError(f"sources: there is no file or folder {str(source)!r}.")
    if source.suffix.lower() not in (".csv", ".txt"):
        return [str(source)]
    try:
        lines = read_whole(source).decode("utf-8-sig").splitlines()
        names = _column(lines, source) if source.suffix.lower() == ".csv" else map(str.strip, lines)
    except (UnicodeDecodeError, OSError, csv.Error) as error:
        what = f"{str(source)!r} is not a list of paths in UTF-8 ({error})"
        raise ValueError(f"sources: {what}. Pass a .txt or .csv file of them.") from None
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
    rows = list(csv.DictReader(lines, delimiter=guess_delimiter("".join(lines[:1]))))
    column = next((name for name in _COLUMNS if rows and name in rows[0]), None)
    if column is None:
        raise ValueError(f"sources: {str(source)!r} has no column 'path'. Name the column of image files 'path'.")
    return [(row[column] or "").strip() for row in rows]


class OpenedImage(NamedTuple):
    """An open photo: its pixels, and what its file says of it."""

    pixels: Image.Image  # RGB, upright; perhaps decoded at a reduced size
    size: tuple[int, int]  # width and height of the whole photo, upright
    taken: str | None  # local date and time, "2024-05-01 12:30:00"
    note: str | None  # what is missing of a damaged photo


def read_image(path: str | Path) -> Image.Image:
    """Open an image file as RGB, the way it is meant to be displayed; `UnreadableImage` if it cannot be read.

    Rotated by its EXIF orientation; transparent parts become white; 16 bits per pixel are scaled to 8, not cut
    off; of an animation or a document the first frame; of a RAW file the preview of the camera, or the developed
    picture at half its size; of a truncated JPEG file what there is, the rest grey. HEIC and RAW need
    ``pip install "unseen[photos]"``.
    """
    with quiet_pillow(), open_image(path) as opened:
        return opened.pixels


@contextmanager
def quiet_pillow() -> Iterator[None]:
    """Suppress Pillow's warnings about odd files. Threads share the filters: enter it once, around them all."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL(\.|$)")
        yield


@contextmanager
def open_image(path: str | Path, shorter: int | None = None) -> Iterator[OpenedImage]:
    """Open a photo from one of several threads: only one very large image is in memory at a time.

    A JPEG file may be decoded at 1/2, 1/4 or 1/8 of its size, if the ``shorter`` side keeps this many pixels. The
    caller keeps Pillow quiet, and does not open another image inside.
    """
    with ExitStack() as stack:
        try:
            opened = _decode(path, stack, shorter)
        except (UnreadableImage, ImportError):
            raise
        except Exception as error:  # a damaged file can make Pillow raise almost anything
            raise UnreadableImage(path, _reason(error)) from error
        yield opened


def _decode(path: str | Path, stack: ExitStack, shorter: int | None) -> OpenedImage:
    import_extra("PIL", "images")
    from PIL import Image, ImageOps

    status = os.stat(path)  # noqa: PTH116
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableImage(path, "it is not a file")
    if not status.st_size:
        raise UnreadableImage(path, "the file is empty")
    is_raw, note = str(path).lower().endswith(RAW_SUFFIXES), None
    image, size, taken = _open_raw(path) if is_raw else (*_open(path), None)
    stack.enter_context(image)
    _reduce(image, shorter)
    if image.width * image.height > _LARGE:
        stack.enter_context(_large_image)
    try:
        image.load()
    except OSError as error:
        if is_raw or image.format not in ("JPEG", "MPO") or "truncated" not in str(error):
            raise
        image, note = _decode_truncated(path, shorter)
    with suppress(Exception):  # damaged EXIF: the image itself is fine
        exif = image.getexif()
        taken = taken or _taken(exif)
        size = size[::-1] if exif.get(_ORIENTATION, 1) > 4 else size
        ImageOps.exif_transpose(image, in_place=True)
    if image.mode.startswith(("I", "F")):
        image = _with_8_bits(image, path)
    if image.mode == "LAB":
        image = _from_lab(image)
    if image.has_transparency_data:
        layers = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", layers.size, "white"), layers)
    return OpenedImage(image if image.mode == "RGB" else image.convert("RGB"), size, taken, note)


def _open(path: str | Path) -> tuple[Image.Image, tuple[int, int]]:
    """Open a file as far as its header; returns the size of the whole image, too."""
    from PIL import Image, JpegImagePlugin, UnidentifiedImageError

    def known() -> list[str]:
        return [name for name in _FORMATS if name in Image.OPEN]

    Image.preinit()  # the common formats; loading the others takes longer than reading a photo
    try:
        image = Image.open(path, formats=known())
    except Image.DecompressionBombError as error:
        try:
            image = JpegImagePlugin.JpegImageFile(path)
        except SyntaxError:  # not a JPEG file
            raise error from None
        size = image.size
        if "progressive" in image.info or size[0] * size[1] > _LARGEST:  # decoding would take too much memory
            image.close()
            raise
        image.draft(image.mode, (size[0] // 8, size[1] // 8))
        return image, size
    except UnidentifiedImageError:
        Image.init()
        with Path(path).open("rb") as file:
            start = file.read(12)
        if start[4:8] == b"ftyp" and start[8:] in _HEIF_BRANDS:
            _extra("pi_heif", path, "HEIC").register_heif_opener()
        image = Image.open(path, formats=known())
    return image, image.size


def _extra(module: str, path: str | Path, kind: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise UnreadableImage(path, f'{kind} needs: pip install "unseen[photos]"') from error


def _open_raw(path: str | Path) -> tuple[Image.Image, tuple[int, int], str | None]:
    """Preview in a RAW file, or the picture at half its size; the size of the whole, as the image lies; date."""
    from PIL import Image

    rawpy = _extra("rawpy", path, "RAW")
    with rawpy.imread(os.fspath(path)) as raw:
        width, height, flip = raw.sizes.width, raw.sizes.height, raw.sizes.flip
        turned = (height, width) if flip in (5, 6) else (width, height)
        date = raw.other.timestamp
        taken = date.strftime(_DATE) if date is not None and date.year > 1970 else None  # 1970: no date
        with suppress(rawpy.LibRawError, NotImplementedError):
            thumb = raw.extract_thumb()
            is_jpeg = thumb.format == rawpy.ThumbFormat.JPEG
            image = Image.open(BytesIO(thumb.data)) if is_jpeg else Image.fromarray(thumb.data)
            if min(image.size) >= _SMALLEST_PREVIEW:
                if _ORIENTATION in image.getexif():
                    return image, (width, height), taken
                how = {3: "ROTATE_180", 5: "ROTATE_90", 6: "ROTATE_270"}.get(flip)
                image = image.transpose(Image.Transpose[how]) if how else image
                return image, turned, taken
        return Image.fromarray(raw.postprocess(half_size=True, use_camera_wb=True)), turned, taken


def _reduce(image: Image.Image, shorter: int | None) -> None:
    """Let the decoder of a JPEG file shrink it."""
    if shorter is not None and min(image.size) > shorter:
        scale = shorter / min(image.size)
        image.draft(image.mode, (ceil(image.width * scale), ceil(image.height * scale)))


def _decode_truncated(path: str | Path, shorter: int | None) -> tuple[Image.Image, str]:
    """JPEG file that ends too early, and what is missing."""
    from PIL import Image

    content = Path(path).read_bytes()
    # Closed by an end marker; where the head of a scan is cut off, before its tables, or before the scan itself.
    for end in (len(content), content.rfind(b"\xff\xc4"), content.rfind(b"\xff\xda")):
        image = Image.open(BytesIO(content[:end] + b"\xff\xd9"), formats=["JPEG"])
        _reduce(image, shorter)
        with suppress(OSError):
            image.load()
            break
    pixels = np.asarray(image)
    differ = np.flatnonzero((pixels != pixels[-1, -1]).reshape(len(pixels), -1).any(axis=1))
    missing = 1.0 - (int(differ[-1]) + 1 if len(differ) else 0) / len(pixels)
    if missing > _MOST_MISSING:
        raise UnreadableImage(path, "the file is truncated: almost nothing is left")
    part = f"the lower {missing:.0%} of the photo is missing" if missing >= 0.005 else "detail is missing"
    return image, f"the file is truncated: {part}"


def _taken(exif: Any) -> str | None:
    text = str(exif.get_ifd(_EXIF_IFD).get(_DATE_ORIGINAL) or exif.get(_DATE_CHANGED) or "")
    try:
        return datetime.strptime(text[:19].strip(), "%Y:%m:%d %H:%M:%S").strftime(_DATE)
    except ValueError:  # "0000:00:00 00:00:00" in cameras whose clock was never set
        return None


def _from_lab(image: Image.Image) -> Image.Image:
    from PIL import ImageCms

    profiles = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
    converted = ImageCms.applyTransform(image, ImageCms.buildTransform(*profiles, "LAB", "RGB"))
    assert converted is not None
    return converted


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
    from PIL import UnidentifiedImageError
    from PIL.Image import MAX_IMAGE_PIXELS, DecompressionBombError

    if isinstance(error, DecompressionBombError):
        most = 2 * (MAX_IMAGE_PIXELS or 0) // 10**6
        limits = f"more than {most:,} million pixels (a JPEG file that is not progressive: {_LARGEST // 10**6:,})"
        return f"it has {limits}: refused as a decompression bomb"
    if isinstance(error, UnidentifiedImageError):
        return "it is not an image, or its format is unknown"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, EOFError) or "truncated" in str(error).lower():
        return "the file is truncated"
    return f"the file is damaged ({' '.join(str(error).split()) or type(error).__name__})"
