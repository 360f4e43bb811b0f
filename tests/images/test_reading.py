"""Opening image files: every kind as it is meant to be seen, every broken one with a reason."""

import io
import logging
import struct
import threading
import warnings
import zlib

import numpy as np
import pytest

pytest.importorskip("PIL")
from PIL import Image
from tests.images.pictures import picture

from unseen.images import reading
from unseen.images.reading import UnreadableImage, decoded, read_image


def corners(image):
    """Colours near the four corners, clockwise from the top left."""
    pixels = np.asarray(image).astype(int)
    return [tuple(pixels[y, x]) for y, x in ((2, 2), (2, -3), (-3, -3), (-3, 2))]


def quarters():
    """Red, green, blue and black, clockwise from the top left, in a picture that is wider than high."""
    pixels = np.zeros((20, 40, 3), dtype=np.uint8)
    pixels[:10, :20, 0] = pixels[:10, 20:, 1] = pixels[10:, 20:, 2] = 255
    return Image.fromarray(pixels)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tif"])
def test_pictures_stand_upright_whatever_their_orientation(tmp_path, orientation, suffix):
    upright = quarters()
    undo = {
        2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_90, 7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }  # fmt: skip
    stored = upright.transpose(undo[orientation]) if orientation > 1 else upright
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"jpg": {"quality": 95, "subsampling": 0}, "webp": {"lossless": True}}.get(suffix, {})
    path = tmp_path / f"a.{suffix}"
    stored.save(path, exif=exif, **options)
    image = read_image(path)
    assert image.size == (40, 20)
    assert np.abs(np.array(corners(image)) - np.array(corners(upright))).max() < 10


def test_grey_pictures_become_rgb(tmp_path):
    picture(0).convert("L").save(tmp_path / "a.png")
    image = read_image(tmp_path / "a.png")
    assert image.mode == "RGB"
    red, green, blue = (np.asarray(band) for band in image.split())
    assert np.array_equal(red, green)
    assert np.array_equal(red, blue)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_what_is_transparent_becomes_white(tmp_path, mode):
    image = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), (0, 0, 4, 8))
    if mode == "P":
        flat = Image.fromarray(np.tile(np.array([0, 0, 0, 0, 1, 1, 1, 1], dtype=np.uint8), (8, 1)))
        flat = flat.convert("P")
        flat.putpalette([0, 0, 0, 90, 90, 90])
        flat.save(tmp_path / "a.png", transparency=1)
    else:
        image.convert(mode).save(tmp_path / "a.png")
    pixels = np.asarray(read_image(tmp_path / "a.png"))
    assert (pixels[:, :4] == 0).all()
    assert (pixels[:, 4:] == 255).all()


def test_half_transparent_pixels_are_mixed_with_white(tmp_path):
    Image.new("RGBA", (4, 4), (0, 0, 0, 51)).save(tmp_path / "a.png")
    assert np.asarray(read_image(tmp_path / "a.png")).tolist()[0][0] == [204, 204, 204]


def test_cmyk_keeps_its_colours(tmp_path):
    quarters().convert("CMYK").save(tmp_path / "a.jpg", quality=95)
    found = np.array(corners(read_image(tmp_path / "a.jpg")))
    assert np.abs(found - np.array(corners(quarters()))).max() < 12


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_16_bits_are_scaled_and_not_cut_off(tmp_path, suffix):
    ramp = np.linspace(0, 65535, 256).round().astype(np.uint16)
    Image.fromarray(np.tile(ramp, (4, 1))).save(tmp_path / f"a.{suffix}")
    pixels = np.asarray(read_image(tmp_path / f"a.{suffix}"))
    assert np.array_equal(pixels[0, :, 0], np.arange(256))


def test_a_dark_picture_of_16_bits_stays_dark(tmp_path):
    Image.fromarray(np.full((4, 4), 200, dtype=np.uint16)).save(tmp_path / "a.png")
    assert np.asarray(read_image(tmp_path / "a.png")).max() == 1


@pytest.mark.parametrize(("highest", "white"), [(1.0, 255), (255.0, 255)])
def test_real_numbers_are_read_on_the_scale_they_are_on(tmp_path, highest, white):
    Image.fromarray(np.array([[0.0, highest / 2, highest]], dtype=np.float32)).save(tmp_path / "a.tif")
    assert np.asarray(read_image(tmp_path / "a.tif"))[0, :, 0].tolist() == [0, 128, white]


def test_real_numbers_on_no_scale_are_refused(tmp_path):
    Image.fromarray(np.array([[0.0, 1e9]], dtype=np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(UnreadableImage, match="no known scale"):
        read_image(tmp_path / "a.tif")
    Image.fromarray(np.array([[0.0, np.nan]], dtype=np.float32)).save(tmp_path / "b.tif")
    with pytest.raises(UnreadableImage, match="NaN"):
        read_image(tmp_path / "b.tif")


@pytest.mark.parametrize("suffix", ["gif", "webp"])
def test_of_an_animation_the_first_frame_counts(tmp_path, suffix):
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue", "lime")]
    frames[0].save(tmp_path / f"a.{suffix}", save_all=True, append_images=frames[1:], duration=50, lossless=True)
    red, green, blue = read_image(tmp_path / f"a.{suffix}").getpixel((8, 8))
    assert red > 240
    assert green < 15
    assert blue < 15


@pytest.mark.parametrize("suffix", ["jpg", "png", "gif", "webp", "bmp", "tif"])
def test_a_file_that_is_cut_off_is_refused(tmp_path, suffix):
    noise = np.random.default_rng(0).integers(0, 256, size=(64, 64, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, format={"jpg": "JPEG", "tif": "TIFF"}.get(suffix, suffix.upper()))
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(buffer.getvalue()[: len(buffer.getvalue()) // 2])
    with pytest.raises(UnreadableImage) as caught:
        read_image(path)
    assert caught.value.path == str(path)
    assert (
        "cut off" in caught.value.reason or "damaged" in caught.value.reason or "no image" in caught.value.reason
    )


def bomb(width, height):
    """A PNG file of a few bytes that claims to be huge."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty"),
        (b"this is my holiday\n", "it is text, no image"),
        (bytes(range(200)), "it is no image"),
        (bomb(60_000, 60_000), "decompression bomb"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", "it is text, no image"),
    ],
)
def test_what_is_no_picture_is_refused_with_a_reason(tmp_path, content, reason):
    path = tmp_path / "holiday.jpg"
    path.write_bytes(content)
    with pytest.raises(UnreadableImage, match=reason) as caught:
        read_image(path)
    assert str(caught.value).startswith(str(path))


def test_missing_files_and_folders_have_a_reason(tmp_path):
    with pytest.raises(UnreadableImage, match="no such file"):
        read_image(tmp_path / "nothing.jpg")
    with pytest.raises(UnreadableImage, match="it is no file"):
        read_image(tmp_path)


def test_pillow_keeps_its_warnings_to_itself(tmp_path, monkeypatch):
    path = tmp_path / "a.jpg"
    picture(0).save(path, exif=b"Exif\0\0II*\0\x08\0\0\0\x05\0garbage")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)  # the picture has 1200, less than twice as many
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Image.open(path) as image:
            image.getexif()
    assert caught  # otherwise the file would prove nothing
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_image(path).size == (40, 30)


def test_pillows_log_is_silent_while_files_are_read_and_no_longer(tmp_path, caplog, monkeypatch):
    picture(0).save(tmp_path / "a.png")
    log = logging.getLogger("PIL.PngImagePlugin")
    monkeypatch.setattr(reading, "_orientation", lambda image: log.error("odd") or 1)
    read_image(tmp_path / "a.png")
    assert caplog.messages == []
    log.error("seen")
    assert caplog.messages == ["seen"]


def test_threads_hold_no_more_pixels_than_allowed(tmp_path, monkeypatch):
    picture(0, 40, 30).save(tmp_path / "a.png")
    picture(1, 80, 60).save(tmp_path / "large.png")
    monkeypatch.setattr(reading, "_pixels", reading._Pixels(2 * 40 * 30))
    inside, most, lock = 0, 0, threading.Lock()

    def read(name):
        nonlocal inside, most
        with decoded(tmp_path / name) as image:
            with lock:
                inside += image.width * image.height
                most = max(most, inside)
            image.resize((500, 500))
            with lock:
                inside -= image.width * image.height

    def work():
        for name in ("a.png", "a.png", "large.png", "a.png"):
            read(name)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 80 * 60  # larger than all that is allowed, and therefore alone


def test_a_damaged_file_gives_its_pixels_back(tmp_path, monkeypatch):
    picture(0).save(tmp_path / "a.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "a.png").read_bytes()[:-200])
    monkeypatch.setattr(reading, "_pixels", reading._Pixels(40 * 30))
    with pytest.raises(UnreadableImage), decoded(tmp_path / "cut.png"):
        pass
    with decoded(tmp_path / "a.png") as image:
        assert image.size == (40, 30)
