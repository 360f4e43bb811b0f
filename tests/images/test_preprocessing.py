"""Images are cut, resized and scaled as stated."""

import numpy as np
import pytest

pytest.importorskip("PIL")
from PIL import Image

from unseen.images.preprocessing import MOST_ELONGATED, Preprocessing, prepare


def ramp(width, height):
    """An image whose red grows from left to right and whose green grows from top to bottom."""
    red, green = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    return Image.fromarray(np.stack([red, green, np.full_like(red, 51)], axis=2).round().astype(np.uint8))


def test_values_are_scaled_by_range_mean_and_std():
    how = Preprocessing(8, mean=(0.5, 0.25, 0.0), std=(0.5, 1.0, 2.0), value_range=1.0)
    assert how == Preprocessing(8, mean=[0.5, 0.25, 0], std=[0.5, 1, 2], value_range=1)
    values = prepare(Image.new("RGB", (20, 10), (255, 0, 51)), how)
    assert (values.shape, values.dtype, values.flags.c_contiguous) == ((3, 8, 8), np.float32, True)
    np.testing.assert_allclose(values.mean(axis=(1, 2)), [1.0, -0.25, 0.1], rtol=1e-6)


def test_a_crop_keeps_the_centre_and_a_squash_keeps_all():
    # Of an image twice as wide as high, a quarter of the width and half of the height is left.
    crop = prepare(ramp(400, 200), Preprocessing(100, crop_fraction=0.5))
    np.testing.assert_allclose([crop[0].min(), crop[0].max()], [255 * 3 / 8, 255 * 5 / 8], atol=3)
    np.testing.assert_allclose([crop[1].min(), crop[1].max()], [255 / 4, 255 * 3 / 4], atol=3)
    for colour in prepare(ramp(400, 200), Preprocessing(100, resize="squash"))[:2]:
        np.testing.assert_allclose([colour.min(), colour.max()], [0, 255], atol=3)


@pytest.mark.parametrize("size", [(97, 61), (61, 97), (64, 64), (61, 90)])
@pytest.mark.parametrize("resize", ["crop", "center-crop"])
def test_an_image_is_resized_as_a_whole_and_then_cropped(size, resize):
    rng = np.random.default_rng(0)
    image = Image.fromarray(rng.integers(0, 256, (*size[::-1], 3), dtype=np.uint8))
    if resize == "crop":
        scaled = tuple(round(32 * n / min(size)) for n in size)
        left, top = ((n - 28) // 2 for n in scaled)
    else:  # torchvision's Resize(32) and CenterCrop(28)
        scaled = tuple(int(32 * n / min(size)) for n in size)
        left, top = (round((n - 28) / 2.0) for n in scaled)
    expected = np.asarray(image.resize(scaled, Image.Resampling.BICUBIC).crop((left, top, left + 28, top + 28)))
    assert np.abs(prepare(image, Preprocessing(28, resize)) - expected.transpose(2, 0, 1)).max() <= 1


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (1, 100_000), (100_000, 1), (223, 225)])
def test_any_shape_of_image_fills_the_square(size):
    values = prepare(Image.new("RGB", size, (10, 20, 30)), Preprocessing(24))
    np.testing.assert_array_equal(values, np.broadcast_to(np.array([10, 20, 30])[:, None, None], (3, 24, 24)))


def test_a_very_tall_image_is_cut_at_the_same_place():
    for n in (MOST_ELONGATED, MOST_ELONGATED + 1):
        image = ramp(64, 64 * n)
        values = prepare(image, Preprocessing(56))
        part = 56 / image.height * 255 / 2
        np.testing.assert_allclose([values[1].min(), values[1].max()], [127.5 - part, 127.5 + part], atol=2)
        np.testing.assert_allclose([values[0].min(), values[0].max()], [255 / 16, 255 * 15 / 16], atol=4)


def test_only_rgb_images_with_pixels_are_taken():
    for mode, size in (("L", (4, 4)), ("RGBA", (4, 4)), ("RGB", (0, 5))):
        with pytest.raises(ValueError, match=r"^image: "):
            prepare(Image.new(mode, size), Preprocessing())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("size", 0), ("size", 2.5), ("resize", "stretch"), ("crop_fraction", 0.0), ("crop_fraction", 1.1),
        ("interpolation", "cubic"), ("mean", (1, 2)), ("mean", 3.0), ("mean", (1, 2, float("nan"))),
        ("std", (1, 0, 1)), ("value_range", -1), ("layout", "CHW"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_named(name, value):
    with pytest.raises(ValueError, match=rf"^{name}: "):
        Preprocessing(**{name: value})
