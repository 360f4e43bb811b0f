"""The quicker way to prepare pictures gives the same numbers."""

import numpy as np
import pytest

pytest.importorskip("PIL")
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from unseen.images._resample import FILTERS, prepare_quickly
from unseen.images.preprocessing import Preprocessing, prepare


def noise(width, height):
    pixels = np.random.default_rng(width * 10_000 + height).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@settings(deadline=None, max_examples=60)
@given(
    width=st.integers(1, 700),
    height=st.integers(1, 700),
    size=st.integers(1, 200),
    fraction=st.sampled_from([1.0, 0.875, 0.5]),
    interpolation=st.sampled_from(["nearest", *FILTERS]),
    resize=st.sampled_from(["crop", "squash"]),
)
def test_every_picture_is_prepared_as_the_plain_way_does(width, height, size, fraction, interpolation, resize):
    how = Preprocessing(
        size=size, crop_fraction=fraction, interpolation=interpolation, resize=resize,
        mean=(1.0, 20.0, 127.0), std=(3.0, 50.0, 128.0),
    )  # fmt: skip
    image = noise(width, height)
    np.testing.assert_array_equal(prepare_quickly(image, how), prepare(image, how))


@pytest.mark.parametrize(("width", "height"), [(500, 375), (375, 500), (4000, 3000), (256, 256), (31, 33)])
def test_photos_of_common_shapes_are_prepared_alike(width, height):
    image = noise(width, height)
    np.testing.assert_array_equal(prepare_quickly(image, Preprocessing()), prepare(image, Preprocessing()))
