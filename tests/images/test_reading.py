"""Image files: which ones sources name; every kind as it is meant to be seen, every broken one with a reason."""

import io
import os
import struct
import sys
import threading
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL")
from PIL import Image
from tests.images.pictures import picture

from unseen.images import reading
from unseen.images.reading import UnreadableImage, find_images, open_image, read_image


def touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def names(found, folder):
    return [os.path.relpath(path, folder) for path in found.paths]


def test_a_folder_gives_its_images_in_order(tmp_path):
    touch(tmp_path, "b/2.JPG", "b/1.png", "a.jpeg", "notes.txt", ".hidden.jpg", ".git/x.jpg", "b/c/d.webp", "z")
    assert names(find_images(tmp_path), tmp_path) == ["a.jpeg", "b/1.png", "b/2.JPG", "b/c/d.webp"]


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_links_to_files_count_and_links_to_folders_do_not(tmp_path):
    touch(tmp_path, "a/1.jpg", "elsewhere/2.jpg")
    (tmp_path / "a" / "loop").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "3.jpg").symlink_to(tmp_path / "elsewhere" / "2.jpg")
    assert names(find_images(tmp_path / "a"), tmp_path / "a") == ["1.jpg", "3.jpg"]


def test_lists_are_relative_to_their_folder_and_then_to_the_current_one(tmp_path, monkeypatch):
    touch(tmp_path, "data/1.jpg", "here/2.jpg")
    (tmp_path / "data" / "list.txt").write_text("\ufeff# mine\n1.jpg\n\n2.jpg\nmissing.jpg\n1.jpg\n", "utf-8")
    monkeypatch.chdir(tmp_path / "here")
    assert find_images("../data/list.txt").paths == ["../data/1.jpg", "2.jpg", "../data/missing.jpg"]


@pytest.mark.parametrize(
    "text", ['label,path\nx,"b, c.jpg"\nz,\n', "image;x\n b, c.jpg ;1\n", "file_name\tx\nb, c.jpg\t\n"]
)
def test_a_table_gives_its_column_of_paths(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    assert names(find_images(tmp_path / "t.csv"), tmp_path) == ["b, c.jpg"]


def test_sources_are_joined_and_a_file_counts_once_however_it_is_written(tmp_path, monkeypatch):
    touch(tmp_path, "a/1.jpg", "b/2.jpg", "odd name")
    monkeypatch.chdir(tmp_path)
    found = find_images(["b/2.jpg", tmp_path / "a", tmp_path / "b", "b/../b/2.jpg", "odd name"])
    assert found.paths == ["b/2.jpg", str(tmp_path / "a/1.jpg"), "odd name"]


def test_a_folder_that_cannot_be_read_is_a_problem_and_not_the_end(tmp_path, monkeypatch):
    touch(tmp_path, "a/1.jpg", "b/2.jpg")
    listing = os.scandir
    refusal = PermissionError(13, "Permission denied", str(tmp_path / "b"))

    def scandir(path):
        if Path(path).name == "b":
            raise refusal
        return listing(path)

    monkeypatch.setattr(os, "scandir", scandir)
    found = find_images(tmp_path)
    assert names(found, tmp_path) == ["a/1.jpg"]
    assert found.problems == [(str(tmp_path / "b"), "the folder cannot be read (Permission denied)")]


@pytest.mark.parametrize(
    ("file", "content"),
    [(".", None), ("t.csv", b"name\na.jpg\n"), ("t.csv", b""), ("t.txt", b"\xff\xfe\x00"), ("t.txt", b"# no\n")],
)
def test_sources_without_images_are_refused(tmp_path, file, content):
    if content is not None:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(ValueError, match=r"^sources: "):
        find_images(tmp_path / file)


def test_a_source_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"^sources: "):
        find_images([tmp_path / "nowhere"])


def quarters():
    """Red, green, blue and black, clockwise from the top left, in an image that is wider than high."""
    pixels = np.zeros((20, 40, 3), dtype=np.uint8)
    pixels[:10, :20, 0] = pixels[:10, 20:, 1] = pixels[10:, 20:, 2] = 255
    return Image.fromarray(pixels)


def differ(one, other):
    """Largest difference near the corners."""
    near = np.ix_((2, -3), (2, -3))
    return np.abs(np.asarray(one)[near].astype(int) - np.asarray(other)[near]).max()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tif"])
def test_images_stand_upright_whatever_their_orientation(tmp_path, orientation, suffix):
    turn = Image.Transpose
    undo = {2: turn.FLIP_LEFT_RIGHT, 3: turn.ROTATE_180, 4: turn.FLIP_TOP_BOTTOM, 5: turn.TRANSPOSE,
            6: turn.ROTATE_90, 7: turn.TRANSVERSE, 8: turn.ROTATE_270}  # fmt: skip
    stored = quarters().transpose(undo[orientation]) if orientation > 1 else quarters()
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"jpg": {"quality": 95, "subsampling": 0}, "webp": {"lossless": True}}.get(suffix, {})
    stored.save(tmp_path / f"a.{suffix}", exif=exif, **options)
    image = read_image(tmp_path / f"a.{suffix}")
    assert image.size == (40, 20)
    assert differ(image, quarters()) < 10


def test_grey_and_cmyk_become_rgb(tmp_path):
    quarters().convert("L").save(tmp_path / "grey.png")
    quarters().convert("CMYK").save(tmp_path / "ink.jpg", quality=95)
    grey, ink = read_image(tmp_path / "grey.png"), read_image(tmp_path / "ink.jpg")
    assert grey.mode == ink.mode == "RGB"
    assert differ(grey, quarters().convert("L").convert("RGB")) == 0
    assert differ(ink, quarters()) < 12


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_what_is_transparent_becomes_white(tmp_path, mode):
    image = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), (0, 0, 4, 8))
    if mode == "P":
        flat = Image.fromarray(np.tile(np.array([0, 0, 0, 0, 1, 1, 1, 1], dtype=np.uint8), (8, 1))).convert("P")
        flat.putpalette([0, 0, 0, 90, 90, 90])
        flat.save(tmp_path / "a.png", transparency=1)
    else:
        image.convert(mode).save(tmp_path / "a.png")
    pixels = np.asarray(read_image(tmp_path / "a.png"))
    assert (pixels[:, :4] == 0).all()
    assert (pixels[:, 4:] == 255).all()


def test_half_transparent_pixels_are_mixed_with_white(tmp_path):
    Image.new("RGBA", (4, 4), (0, 0, 0, 51)).save(tmp_path / "a.png")
    assert read_image(tmp_path / "a.png").getpixel((0, 0)) == (204, 204, 204)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([[0, 200, 32896, 65535]], dtype=np.uint16), [0, 1, 128, 255]),
        (np.array([[0.0, 0.5, 1.0]], dtype=np.float32), [0, 128, 255]),
        (np.array([[0.0, 127.5, 255.0]], dtype=np.float32), [0, 128, 255]),
        (np.array([[0.0, 65535.0]], dtype=np.float32), [0, 255]),
    ],
)
def test_more_than_8_bits_are_scaled_and_not_cut_off(tmp_path, values, expected):
    Image.fromarray(values).save(tmp_path / "a.tif")
    assert np.asarray(read_image(tmp_path / "a.tif"))[0, :, 0].tolist() == expected


@pytest.mark.parametrize("value", [1e9, np.nan, np.inf])
def test_real_numbers_on_no_scale_are_refused(tmp_path, value):
    Image.fromarray(np.array([[0.0, value]], dtype=np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(UnreadableImage, match="scale"):
        read_image(tmp_path / "a.tif")


@pytest.mark.parametrize("suffix", ["gif", "webp"])
def test_of_an_animation_the_first_frame_counts(tmp_path, suffix):
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue", "lime")]
    frames[0].save(tmp_path / f"a.{suffix}", save_all=True, append_images=frames[1:], duration=50, lossless=True)
    red, green, blue = read_image(tmp_path / f"a.{suffix}").getpixel((8, 8))
    assert red > 240
    assert max(green, blue) < 15


@pytest.mark.parametrize("suffix", ["jpeg", "png", "gif", "webp", "bmp", "tiff"])
def test_a_file_that_is_cut_off_is_refused(tmp_path, suffix):
    noise = np.random.default_rng(0).integers(0, 256, size=(64, 64, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, format=suffix)
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(buffer.getvalue()[: len(buffer.getvalue()) // 2])
    with pytest.raises(UnreadableImage, match=r"cut off|damaged|not an image") as caught:
        read_image(path)
    assert caught.value.path == str(path)


def bomb():
    """A PNG file of a few bytes that claims to be huge."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(b"\0")), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "empty"), (b"my holiday\n", "not an image"), (bytes(range(200)), "not an image"), (bomb(), "bomb"),
     (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", "not an image")],
)  # fmt: skip
def test_what_is_not_an_image_is_refused_with_a_reason(tmp_path, content, reason):
    (tmp_path / "a.jpg").write_bytes(content)
    with pytest.raises(UnreadableImage, match=reason):
        read_image(tmp_path / "a.jpg")


def test_missing_files_folders_and_packages_are_named(tmp_path, monkeypatch):
    with pytest.raises(UnreadableImage, match="No such file"):
        read_image(tmp_path / "nothing.jpg")
    with pytest.raises(UnreadableImage, match="not a file"):
        read_image(tmp_path)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"^images: "):
        read_image(tmp_path / "nothing.jpg")


def test_pillow_keeps_its_warnings_to_itself(tmp_path, monkeypatch):
    picture(0).save(tmp_path / "a.jpg", exif=b"Exif\0\0II*\0\x08\0\0\0\x05\0garbage")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)  # the image has 1200, less than twice as many
    with pytest.warns(Image.DecompressionBombWarning):  # otherwise the file would prove nothing
        Image.open(tmp_path / "a.jpg").close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_image(tmp_path / "a.jpg").size == (40, 30)


def test_large_images_are_in_memory_one_at_a_time(tmp_path, monkeypatch):
    picture(0, 40, 30).save(tmp_path / "small.png")
    picture(1, 80, 60).save(tmp_path / "large.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "large.png").read_bytes()[:-200])
    monkeypatch.setattr(reading, "_LARGE", 40 * 30)
    inside, most, lock = 0, 0, threading.Lock()

    def work():
        nonlocal inside, most
        for name in ("large.png", "small.png", "cut.png", "large.png"):
            try:
                with open_image(tmp_path / name) as image:
                    with lock:
                        inside += image.width == 80
                        most = max(most, inside)
                    image.resize((500, 500))
                    with lock:
                        inside -= image.width == 80
            except UnreadableImage:
                assert name == "cut.png"

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
