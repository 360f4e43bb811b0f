"""A part of a resized picture, equal to Pillow's to the last bit: only what is kept is made, in vectors."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["FILTERS", "can_resize", "resize_part"]

FILTERS = {"bilinear": (0, 1.0), "bicubic": (1, 2.0), "lanczos": (2, 3.0)}  # number, and support in pixels
_BITS = 22  # of a weight, after the point: as many as Pillow's sums have room for
_ROWS = 32  # that go through the horizontal pass side by side, in vector registers
_PIXELS = 1 << 20  # copied out of a picture at a time

_TALLEST = 1.8  # height / width up to which Pillow surely resizes along the rows first; found by trying

Weights = tuple[NDArray[np.int64], NDArray[np.int32]]


def can_resize(image: Image, interpolation: str) -> bool:
    """Whether `resize_part` surely does what Pillow does."""
    width, height = image.size
    return interpolation in FILTERS and height <= _TALLEST * width


def resize_part(
    image: Image,
    scaled: tuple[int, int],
    corner: tuple[int, int],
    size: int,
    interpolation: str,
    scale: NDArray[np.float32],
    shift: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Square of the resized RGB picture, (3, size, size), as ``value * scale - shift``.

    The square is that of ``image.resize(scaled, method)`` whose left and top are ``corner``. Pillow goes first
    along the rows, rounded to bytes, and then along the columns, with weights in fixed point. For very tall
    pictures it goes the other way round.
    """
    width, height = image.size
    columns, column_weights = _weights(width, scaled[0], corner[0], size, interpolation)
    rows, row_weights = _weights(height, scaled[1], corner[1], size, interpolation)
    left, right = int(columns[0].min()), int(columns[1].max())
    first, last = int(rows[0].min()), int(rows[1].max())
    narrow = np.empty((last - first, size), dtype=np.uint32)
    # A copy of all pixels may be hundreds of megabytes: some rows at a time.
    step = max(_PIXELS // (right - left), _ROWS)
    for top in range(first, last, step):
        part = image.crop((left, top, right, min(top + step, last)))
        packed = np.frombuffer(part.tobytes("raw", "RGBX"), dtype="<u4").reshape(part.height, part.width)
        _along_rows(packed, columns - left, column_weights, narrow[top - first : top - first + part.height])
    out = np.empty((3, size, size), dtype=np.float32)
    _along_columns(narrow, rows - first, row_weights, scale, shift, out)
    return out


@lru_cache(256)
def _weights(n_in: int, n_scaled: int, begin: int, n_out: int, interpolation: str) -> Weights:
    """Which pixels make each new pixel (first, and one after the last), and how much each of them counts."""
    kind, support = FILTERS[interpolation]
    reach = support * max(n_in / n_scaled, 1.0)
    spans = np.empty((2, n_out), dtype=np.int64)
    weights = np.zeros((n_out, 2 * math.ceil(reach) + 1), dtype=np.int32)
    _fill_weights(n_in, n_scaled, begin, kind, support, spans, weights)
    return spans, weights


@njit(cache=True)
def _fill_weights(
    n_in: int, n_scaled: int, begin: int, kind: int, support: float, spans: Any, weights: Any
) -> None:
    scale = n_in / n_scaled
    filter_scale = max(scale, 1.0)
    reach = support * filter_scale
    values = np.empty(weights.shape[1])
    for i in range(weights.shape[0]):
        center = (begin + i + 0.5) * scale
        first = max(int(center - reach + 0.5), 0)
        last = min(int(center + reach + 0.5), n_in)
        total = 0.0
        for j in range(last - first):
            values[j] = _filter((j + first - center + 0.5) * (1.0 / filter_scale), kind)
            total += values[j]
        for j in range(last - first):
            share = values[j] / total if total != 0.0 else values[j]
            weights[i, j] = int(share * (1 << _BITS) + (0.5 if share >= 0 else -0.5))
        spans[0, i], spans[1, i] = first, last


@njit(cache=True)
def _filter(x: float, kind: int) -> float:
    x = abs(x)
    if kind == 0:
        return 1.0 - x if x < 1.0 else 0.0
    if kind == 1:
        if x < 1.0:
            return (1.5 * x - 2.5) * x * x + 1.0
        return (((x - 5.0) * x + 8.0) * x - 4.0) * -0.5 if x < 2.0 else 0.0
    return _sinc(x) * _sinc(x / 3.0) if x < 3.0 else 0.0


@njit(cache=True)
def _sinc(x: float) -> float:
    return 1.0 if x == 0.0 else math.sin(x * math.pi) / (x * math.pi)


@njit(cache=True, nogil=True)
def _along_rows(pixels: Any, spans: Any, weights: Any, out: Any) -> None:
    """Shrink each row; pixels and out hold red, green and blue in the bytes of one number."""
    n_rows, n_out = out.shape
    low, high = spans[0].min(), spans[1].max()
    # Rows side by side, so that one weight goes with many numbers that lie together.
    block = np.zeros((high - low, _ROWS), dtype=np.uint32)
    red, green, blue = np.empty((3, _ROWS), dtype=np.int32)
    for top in range(0, n_rows, _ROWS):
        n = min(_ROWS, n_rows - top)
        for y in range(n):
            for x in range(high - low):
                block[x, y] = pixels[top + y, low + x]
        for i in range(n_out):
            _begin(red, green, blue)
            for x in range(spans[0, i], spans[1, i]):
                _add(block[x - low], weights[i, x - spans[0, i]], red, green, blue)
            for y in range(n):
                out[top + y, i] = _byte(red[y]) + _byte(green[y]) * 256 + _byte(blue[y]) * 65536


@njit(cache=True, nogil=True)
def _along_columns(narrow: Any, spans: Any, weights: Any, scale: Any, shift: Any, out: Any) -> None:
    """Shrink each column of packed pixels; out is (3, size, size)."""
    n = narrow.shape[1]
    red, green, blue = np.empty((3, n), dtype=np.int32)
    for i in range(out.shape[1]):
        _begin(red, green, blue)
        for y in range(spans[0, i], spans[1, i]):
            _add(narrow[y], weights[i, y - spans[0, i]], red, green, blue)
        _store(red, scale[0], shift[0], out[0, i])
        _store(green, scale[1], shift[1], out[1, i])
        _store(blue, scale[2], shift[2], out[2, i])


@njit(cache=True, nogil=True)
def _store(sums: Any, scale: Any, shift: Any, out: Any) -> None:
    for j in range(len(sums)):
        out[j] = np.float32(_byte(sums[j])) * scale - shift


@njit(cache=True, nogil=True, inline="always")
def _begin(red: Any, green: Any, blue: Any) -> None:
    half = 1 << (_BITS - 1)
    red[:] = half
    green[:] = half
    blue[:] = half


@njit(cache=True, nogil=True)
def _add(packed: Any, weight: Any, red: Any, green: Any, blue: Any) -> None:
    for j in range(len(red)):
        pixel = np.int32(packed[j])
        red[j] += (pixel & np.int32(255)) * weight
        green[j] += ((pixel >> np.int32(8)) & np.int32(255)) * weight
        blue[j] += ((pixel >> np.int32(16)) & np.int32(255)) * weight


@njit(cache=True, nogil=True, inline="always")
def _byte(total: Any) -> Any:
    return np.int32(min(max(total >> np.int32(_BITS), np.int32(0)), np.int32(255)))
