"""Pictures are prepared as Pillow resizes them, to the last bit, though it is done in another way."""

import numpy as np
import pytest

pytest.importorskip("PIL")
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from unseen.images import _resample
from unseen.images._resample import FILTERS
from unseen.images.preprocessing import Preprocessing, prepare, resized_by_pillow


def noise(width, height):
    pixels = np.random.default_rng(width * 10_000 + height).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def prepared_by_pillow(image, how):
    pixels = np.asarray(resized_by_pillow(image, how), dtype=np.float32)
    scale = np.array([how.value_range / 255.0 / s for s in how.std], dtype=np.float32)
    shift = np.array([m / s for m, s in zip(how.mean, how.std, strict=True)], dtype=np.float32)
    return (pixels * scale - shift).transpose(2, 0, 1)


@settings(max_examples=60)
@given(
    width=st.integers(1, 700),
    height=st.integers(1, 700),
    size=st.integers(1, 200),
    fraction=st.sampled_from([1.0, 0.875, 0.5]),
    interpolation=st.sampled_from(["nearest", *FILTERS]),
    resize=st.sampled_from(["crop", "squash"]),
)
def test_every_picture_is_prepared_as_pillow_does(width, height, size, fraction, interpolation, resize):
    how = Preprocessing(
        size=size, crop_fraction=fraction, interpolation=interpolation, resize=resize,
        mean=(1.0, 20.0, 127.0), std=(3.0, 50.0, 128.0),
    )  # fmt: skip
    image = noise(width, height)
    np.testing.assert_array_equal(prepare(image, how), prepared_by_pillow(image, how))


@pytest.mark.parametrize(("width", "height"), [(500, 375), (375, 500), (4000, 3000), (256, 256), (31, 33)])
def test_photos_of_common_shapes_are_prepared_alike(width, height):
    image = noise(width, height)
    how = Preprocessing()
    np.testing.assert_array_equal(prepare(image, how), prepared_by_pillow(image, how))


@pytest.mark.parametrize("interpolation", FILTERS)
def test_large_pictures_are_read_in_parts_and_come_out_the_same(monkeypatch, interpolation):
    image, how = noise(700, 500), Preprocessing(64, interpolation=interpolation)
    largest = 0
    crop = Image.Image.crop

    def measured(self, box):
        nonlocal largest
        largest = max(largest, (box[2] - box[0]) * (box[3] - box[1]))
        return crop(self, box)

    monkeypatch.setattr(_resample, "_PIXELS", 1 << 15)
    monkeypatch.setattr(Image.Image, "crop", measured)
    values = prepare(image, how)
    assert 0 < largest <= 1 << 15
    np.testing.assert_array_equal(values, prepared_by_pillow(image, how))
