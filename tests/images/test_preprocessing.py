"""Pictures are cut, resized and scaled as stated."""

import numpy as np
import pytest

pytest.importorskip("PIL")
from PIL import Image

from unseen.images.preprocessing import MOST_ELONGATED, Preprocessing, prepare


def ramp(width, height):
    """A picture whose red grows from left to right and whose green grows from top to bottom."""
    red, green = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    return Image.fromarray(np.stack([red, green, np.full_like(red, 51)], axis=2).round().astype(np.uint8))


def test_values_are_scaled_by_range_mean_and_std():
    how = Preprocessing(8, mean=(0.5, 0.25, 0.0), std=(0.5, 1.0, 2.0), value_range=1.0)
    values = prepare(Image.new("RGB", (20, 10), (255, 0, 51)), how)
    assert values.shape == (3, 8, 8)
    assert values.dtype == np.float32
    assert values.flags.c_contiguous
    np.testing.assert_allclose(values.mean(axis=(1, 2)), [1.0, -0.25, 0.1], rtol=1e-6)


def test_a_crop_keeps_the_centre_and_a_squash_keeps_all():
    wide = ramp(400, 200)
    crop = prepare(wide, Preprocessing(100, crop_fraction=0.5))
    squash = prepare(wide, Preprocessing(100, resize="squash"))
    # A quarter of the width and half of the height is left of a picture twice as wide as high.
    np.testing.assert_allclose([crop[0].min(), crop[0].max()], [255 * 3 / 8, 255 * 5 / 8], atol=3)
    np.testing.assert_allclose([crop[1].min(), crop[1].max()], [255 / 4, 255 * 3 / 4], atol=3)
    np.testing.assert_allclose([squash[0].min(), squash[0].max()], [0, 255], atol=3)
    np.testing.assert_allclose([squash[1].min(), squash[1].max()], [0, 255], atol=3)


def test_a_picture_of_the_right_size_is_taken_as_it_is():
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    for resize in ("crop", "squash"):
        values = prepare(Image.fromarray(pixels), Preprocessing(16, resize, crop_fraction=1.0))
        np.testing.assert_array_equal(values, pixels.transpose(2, 0, 1))


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (1, 100_000), (100_000, 1), (223, 225)])
def test_any_shape_of_picture_fills_the_square(size):
    values = prepare(Image.new("RGB", size, (10, 20, 30)), Preprocessing(24))
    np.testing.assert_array_equal(values, np.broadcast_to(np.array([10, 20, 30])[:, None, None], (3, 24, 24)))


def test_a_very_long_picture_is_cut_at_the_same_place():
    long, longer = (ramp(64 * n, 64) for n in (MOST_ELONGATED, MOST_ELONGATED + 1))
    for picture in (long, longer):
        values = prepare(picture, Preprocessing(56))
        part = 56 / picture.width * 255 / 2
        np.testing.assert_allclose([values[0].min(), values[0].max()], [127.5 - part, 127.5 + part], atol=2)
        np.testing.assert_allclose([values[1].min(), values[1].max()], [255 / 16, 255 * 15 / 16], atol=4)


@pytest.mark.parametrize("mode", ["L", "RGBA", "CMYK", "I;16", "P"])
def test_only_rgb_is_taken(mode):
    with pytest.raises(ValueError, match=rf"image: its mode is '{mode}'"):
        prepare(Image.new(mode, (4, 4)), Preprocessing())


def test_a_picture_without_pixels_is_refused():
    with pytest.raises(ValueError, match="image: its size is 0 x 5 pixels"):
        prepare(Image.new("RGB", (0, 5)), Preprocessing())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("size", 0),
        ("size", 2.5),
        ("resize", "stretch"),
        ("crop_fraction", 0.0),
        ("crop_fraction", 1.1),
        ("interpolation", "cubic"),
        ("mean", (1, 2)),
        ("mean", 3.0),
        ("mean", (1, 2, float("nan"))),
        ("std", (1, 0, 1)),
        ("value_range", -1),
        ("layout", "CHW"),
    ],
)
def test_a_wrong_setting_is_named(name, value):
    with pytest.raises(ValueError, match=f"^{name}: "):
        Preprocessing(**{name: value})


def test_equal_settings_are_equal_however_they_are_written():
    assert Preprocessing(mean=[1, 2, 3], value_range=1) == Preprocessing(mean=(1.0, 2.0, 3.0), value_range=1.0)
