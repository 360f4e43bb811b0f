"""Image files: which ones sources name; every kind as it is meant to be seen, every broken one with a reason."""

import io
import os
import re
import struct
import sys
import warnings
import zlib
from base64 import b64decode
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL")
from PIL import Image, ImageCms, features
from tests.images.pictures import BlockMeans, picture

from unseen.images import reading
from unseen.images.features import describe_each
from unseen.images.reading import UnreadableImage, find_images, open_image, read_image

# The image of `quarters`, taken on 2021-07-03 10:20:30, written by pillow-heif: pi-heif only reads.
HEIC = """
AAAAHGZ0eXBoZWljAAAAAG1pZjFoZWljbWlhZgAAAb1tZXRhAAAAAAAAACFoZGxyAAAAAAAAAABwaWN0AAAAAAAAAAAAAAAAAAAAADRpbG9jAA
AAAERAAAIAAQAAAAAB4QABAAAAAAAAAKEAAgAAAAACggABAAAAAAAAAEoAAAA4aWluZgAAAAAAAgAAABVpbmZlAgAAAAABAABodmMxAAAAABVp
bmZlAgAAAQACAABFeGlmAAAAAA5waXRtAAAAAAABAAAA/GlwcnAAAADcaXBjbwAAAHVodmNDAQNwAAAAkAAAAAAAHvAA/P34+AAADwNgAAEAGE
ABDAH//wNwAAADAJAAAAMAAAMAHroCQGEAAQApQgEBA3AAAAMAkAAAAwAAAwAeoCCBBZbqrprm4CGgwIAAAAyAAAADAIRiAAEABkQBwXPBiQAA
ABNjb2xybmNseAABAA0ABoAAAAAUaXNwZQAAAAAAAABAAAAAQAAAAChjbGFwAAAAKAAAAAEAAAAUAAAAAf///+gAAAAC////1AAAAAIAAAAQcG
l4aQAAAAADCAgIAAAAGGlwbWEAAAAAAAAAAQABBYECAwWEAAAAGmlyZWYAAAAAAAAADmNkc2MAAgABAAEAAADzbWRhdAAAAJ0oAa8JyHvJg0Aj
mJb/h//+BPIYLPcmIDf+70BnzMSvbKn6IgumKMv8DFSdjjdiR/o83DpVax3Uw/ZBXGFVX52kkadJ/th71ZaRPJPXehu/ll3tA2Jf1DI418jRAY
fFH3gCKog//7Af9O9V9D/63jiOXDzyLYEoCpBUBMgWvOAAoUj+vOWR1SWEAAXnws5DXdXDgaU1x73KbtfcH2+AAAAABkV4aWYAAE1NACoAAAAI
AAGHaQAEAAAAAQAAABoAAAAAAAGQAwACAAAAFAAAACwAAAAAMjAyMTowNzowMyAxMDoyMDozMAA=
"""


def dng(preview, orientation=1):
    """Return a RAW file of 64 x 48 red pixels, with a preview in its first directory."""
    jpeg, cfa = io.BytesIO(), np.full((48, 64), 8000, dtype="<u2")
    cfa[::2, ::2] = 30000
    if preview is not None:
        preview.save(jpeg, "JPEG", quality=95)
    picture, codes = jpeg.getvalue() + b"\0" * (jpeg.tell() % 2), {1: "B", 3: "H", 4: "L", 5: "L", 10: "l"}

    def directory(tags, at):
        entries, data = b"", b""
        for tag, (kind, values) in sorted(tags.items()):
            raw = values if kind == 2 else struct.pack(f"<{len(values)}{codes[kind]}", *values)
            entries += struct.pack("<HHL", tag, kind, len(raw) // {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 10: 8}[kind])
            entries += (
                raw.ljust(4, b"\0") if len(raw) <= 4 else struct.pack("<L", at + 6 + 12 * len(tags) + len(data))
            )
            data += b"" if len(raw) <= 4 else raw + b"\0" * (len(raw) % 2)
        return struct.pack("<H", len(tags)) + entries + struct.pack("<L", 0) + data

    def directories(second, jpeg_at, cfa_at):
        raw = {254: (4, [0]), 256: (4, [64]), 257: (4, [48]), 258: (3, [16]), 259: (3, [1]), 262: (3, [32803]),
               273: (4, [cfa_at]), 277: (3, [1]), 278: (4, [48]), 279: (4, [cfa.nbytes]), 33421: (3, [2, 2]),
               33422: (1, [0, 1, 1, 2]), 50717: (4, [65535])}  # fmt: skip
        first = {271: (2, b"Test\0"), 272: (2, b"Camera\0"), 274: (3, [orientation]), 50706: (1, [1, 4, 0, 0]),
                 306: (2, b"2021:07:03 10:20:30\0"), 330: (4, [second]), 50778: (3, [21]),
                 50721: (10, [1, 1, 0, 1, 0, 1, 0, 1, 1, 1, 0, 1, 0, 1, 0, 1, 1, 1]),
                 50728: (5, [1, 1, 1, 1, 1, 1])}  # fmt: skip
        if preview is not None:
            first |= {254: (4, [1]), 256: (4, [preview.width]), 257: (4, [preview.height]), 258: (3, [8, 8, 8]),
                      259: (3, [7]), 262: (3, [6]), 273: (4, [jpeg_at]), 277: (3, [3]), 278: (4, [preview.height]),
                      279: (4, [len(picture)])}  # fmt: skip
        one = directory(first if preview is not None else raw | first, 8)
        return one, directory(raw, 8 + len(one))

    one, two = directories(0, 0, 0)
    starts = np.cumsum([8 + len(one), len(two), len(picture)]).tolist()
    return b"II*\0" + struct.pack("<L", 8) + b"".join(directories(*starts)) + picture + cfa.tobytes()


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def touch(*names):
    for path in map(Path, names):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def test_a_folder_gives_its_images_in_order_without_hidden_ones_and_links_to_folders():
    touch("b/2.JPG", "b/1.png", "a.jpeg", "notes.txt", ".hidden.jpg", ".git/x.jpg", "b/c/d.webp", "z")
    Path("b/loop").symlink_to("..")
    Path("c.jpg").symlink_to("z")
    assert find_images(".").paths == ["./a.jpeg", "./b/1.png", "./b/2.JPG", "./b/c/d.webp", "./c.jpg"]


def test_lists_are_relative_to_their_folder_and_then_to_the_current_one(folder):
    touch("data/1.jpg", "2.jpg", "odd name")
    Path("data/list.txt").write_text("\ufeff# mine\n1.jpg\n\n2.jpg\nmissing.jpg\n1.jpg\n", "utf-8")
    assert find_images("data/list.txt").paths == ["data/1.jpg", "2.jpg", "data/missing.jpg"]
    for text in ('label,path\nx,"b, c.jpg"\nz,\n', "image;x\n b, c.jpg ;1\n", "file_name\tx\nb, c.jpg\t\n"):
        Path("table.csv").write_text(text)
        assert find_images("table.csv").paths == ["b, c.jpg"]
    # A file counts once, however it is written.
    assert find_images(["2.jpg", folder / "data", "./data/../2.jpg", "odd name", "data"]).paths == [
        "2.jpg", str(folder / "data/1.jpg"), "odd name",
    ]  # fmt: skip


def test_a_folder_that_cannot_be_read_is_a_problem_and_not_the_end(monkeypatch):
    touch("a/1.jpg", "b/2.jpg")
    walk, refusal = os.walk, PermissionError(13, "Permission denied", "b")
    monkeypatch.setattr(os, "walk", lambda folder, onerror: onerror(refusal) or walk("a"))
    assert find_images(".") == (["a/1.jpg"], [("b", "the folder cannot be read (Permission denied)")])


@pytest.mark.parametrize(
    ("file", "content"),
    [("a", b""), ("t.csv", b"name\na.jpg\n"), ("t.csv", b""), ("t.txt", b"\xff\xfe\x00"), ("t.txt", b"# no\n")],
)
def test_sources_without_images_are_refused(file, content):
    Path(file).write_bytes(content)
    with pytest.raises(ValueError, match=r"^sources: "):
        find_images("." if file == "a" else file)
    with pytest.raises(FileNotFoundError, match=r"^sources: "):
        find_images([".", "nowhere"])


def quarters():
    """Red, green, blue and black, clockwise from the top left, in an image that is wider than high."""
    pixels = np.zeros((20, 40, 3), dtype=np.uint8)
    pixels[:10, :20, 0] = pixels[:10, 20:, 1] = pixels[10:, 20:, 2] = 255
    return Image.fromarray(pixels)


def differ(one, other):
    near = np.ix_((2, -3), (2, -3))  # the corners
    return np.abs(np.asarray(one)[near].astype(int) - np.asarray(other)[near]).max()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize(("suffix", "mode"), [("jpg", "RGB"), ("jpg", "L"), ("jpg", "CMYK"), ("tif", "RGB")])
def test_images_are_upright_and_rgb_whatever_their_orientation_and_mode(orientation, suffix, mode):
    turn, exif = Image.Transpose, Image.Exif()
    undo = {2: turn.FLIP_LEFT_RIGHT, 3: turn.ROTATE_180, 4: turn.FLIP_TOP_BOTTOM, 5: turn.TRANSPOSE,
            6: turn.ROTATE_90, 7: turn.TRANSVERSE, 8: turn.ROTATE_270}  # fmt: skip
    stored = quarters().transpose(undo[orientation]) if orientation > 1 else quarters()
    exif[0x0112] = orientation
    stored.convert(mode).save(f"a.{suffix}", exif=exif, quality=95)
    image = read_image(f"a.{suffix}")
    assert (image.size, image.mode) == ((40, 20), "RGB")
    assert differ(image, quarters().convert(mode).convert("RGB")) < 12


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_what_is_transparent_is_mixed_with_white(mode):
    image = Image.new("RGBA", (3, 1))
    for x, alpha in enumerate((255, 51, 0)):
        image.putpixel((x, 0), (0, 0, 0, alpha))
    image.convert(mode).save("a.png")
    assert [read_image("a.png").getpixel((x, 0))[0] for x in range(3)] == [0, 204, 255]


@pytest.mark.parametrize(
    ("values", "expected"),
    [(np.uint16([[0, 200, 32896, 65535]]), [0, 1, 128, 255]), (np.float32([[0.0, 0.5, 1.0]]), [0, 128, 255]),
     (np.float32([[0.0, 127.5, 255.0]]), [0, 128, 255]), (np.float32([[0.0, 65535.0]]), [0, 255])],
)  # fmt: skip
def test_more_than_8_bits_are_scaled_and_not_cut_off(values, expected):
    Image.fromarray(values).save("a.tif")
    assert np.asarray(read_image("a.tif"))[0, :, 0].tolist() == expected
    for value in (1e9, np.nan, np.inf):  # on no scale
        Image.fromarray(np.float32([[0.0, value]])).save("a.tif")
        with pytest.raises(UnreadableImage, match="scale"):
            read_image("a.tif")


@pytest.mark.parametrize("suffix", ["gif", "webp"])
def test_of_an_animation_the_first_frame_counts(suffix):
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue", "lime")]
    frames[0].save(f"a.{suffix}", save_all=True, append_images=frames[1:], duration=50, lossless=True)
    assert read_image(f"a.{suffix}").getpixel((8, 8)) == (255, 0, 0)


@pytest.mark.parametrize("suffix", ["png", "gif", "webp", "bmp", "tiff"])
def test_a_file_that_is_cut_off_is_refused(suffix):
    noise, buffer = np.random.default_rng(0).integers(0, 256, size=(64, 64, 3), dtype=np.uint8), io.BytesIO()
    Image.fromarray(noise).save(buffer, format=suffix)
    Path("a").write_bytes(buffer.getvalue()[: len(buffer.getvalue()) // 2])
    with pytest.raises(UnreadableImage, match=r"^photo: 'a' cannot be read .*(truncated|damaged|not an image)"):
        read_image("a")


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "empty"), (b"my holiday\n", "not an image"), (bytes(range(200)), "not an image"),
     (b"P6 60000 60000 255\n", "bomb"), (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image")],
)  # fmt: skip
def test_what_is_not_an_image_is_refused_with_a_reason(content, reason):
    Path("a.jpg").write_bytes(content)
    with pytest.raises(UnreadableImage, match=reason):
        read_image("a.jpg")


def test_missing_files_folders_and_packages_are_named(monkeypatch):
    with pytest.raises(UnreadableImage, match="No such file"):
        read_image("nothing.jpg")
    with pytest.raises(UnreadableImage, match="not a file"):
        read_image(".")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"^PIL: "):
        read_image("nothing.jpg")


def test_pillow_keeps_its_warnings_to_itself(monkeypatch):
    picture(0).save("a.jpg", exif=b"Exif\0\0II*\0\x08\0\0\0\x05\0garbage")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)  # the image has 1200, less than twice as many
    with pytest.warns((Image.DecompressionBombWarning, UserWarning)):  # otherwise the file would prove nothing
        Image.open("a.jpg").close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_image("a.jpg").size == (40, 30)


def test_large_images_are_in_memory_one_at_a_time(monkeypatch):
    monkeypatch.setattr(reading, "_LARGE", 40 * 30)
    for width, is_large in ((40, False), (80, True)):
        picture(0, width, 30).save("a.png")
        with open_image("a.png"):
            assert reading._large_image.locked() == is_large
    Path("a.png").write_bytes(Path("a.png").read_bytes()[:-200])
    with pytest.raises(UnreadableImage), open_image("a.png"):
        pass
    assert not reading._large_image.locked()


@pytest.mark.parametrize(
    ("progressive", "note"), [(False, "the lower .* is missing"), (True, "detail is missing")]
)
def test_a_jpeg_file_that_is_cut_off_is_read_as_far_as_it_goes(progressive, note):
    picture(3, 200, 160).save("a.jpg", progressive=progressive, quality=95)
    whole, content = read_image("a.jpg"), Path("a.jpg").read_bytes()
    start = content.index(b"\xff\xda")
    Path("a.jpg").write_bytes(content[: start + (len(content) - start) // 2])
    with open_image("a.jpg") as opened:
        assert re.search(note, opened.note)
        assert differ(opened.pixels.crop((0, 0, 200, 40)), whole.crop((0, 0, 200, 40))) < 60
    with pytest.warns(UserWarning, match="a.jpg: the file is truncated"):
        assert next(describe_each(["a.jpg"], BlockMeans()))[1] is not None
    Path("a.jpg").write_bytes(content[: start + 12])
    with pytest.raises(UnreadableImage, match="truncated"):
        read_image("a.jpg")


def test_large_jpeg_files_are_decoded_at_a_reduced_size_and_bombs_refused(monkeypatch):
    picture(1, 1600, 800).save("a.jpg")
    with open_image("a.jpg", shorter=150) as opened:
        assert (opened.pixels.size, opened.size) == ((400, 200), (1600, 800))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with open_image("a.jpg") as opened:
        assert (opened.pixels.size, opened.size) == ((200, 100), (1600, 800))
    picture(1, 1600, 800).save("a.jpg", progressive=True)
    with pytest.raises(UnreadableImage, match="decompression bomb"):
        read_image("a.jpg")


def test_heic_and_avif_files_are_read(monkeypatch):
    pytest.importorskip("pi_heif")
    Path("a.jpg").write_bytes(b64decode(HEIC))  # phones rename them
    with open_image("a.jpg") as opened:
        assert (opened.size, opened.taken) == ((40, 20), "2021-07-03 10:20:30")
        assert differ(opened.pixels, quarters()) < 60
    if features.check("avif"):
        quarters().save("a.avif", quality=95)
        assert differ(read_image("a.avif"), quarters()) < 60
    monkeypatch.delitem(Image.OPEN, "HEIF")
    monkeypatch.setitem(sys.modules, "pi_heif", None)
    with pytest.raises(UnreadableImage, match=r'HEIC needs: pip install "unseen\[photos\]"'):
        read_image("a.jpg")


def test_raw_files_show_their_preview_or_are_developed(monkeypatch):
    pytest.importorskip("rawpy")
    Path("a.dng").write_bytes(dng(Image.new("RGB", (640, 520), "lime")))
    with open_image("a.dng") as opened:
        assert (opened.size, opened.taken) == ((64, 48), "2021-07-03 10:20:30")
        assert opened.pixels.size == (640, 520)
        assert opened.pixels.getpixel((9, 9)) == pytest.approx((0, 255, 0), abs=3)
    for preview in (None, Image.new("RGB", (64, 48), "lime")):  # none, or too small
        Path("a.dng").write_bytes(dng(preview, orientation=6))
        with open_image("a.dng") as opened:
            assert (opened.pixels.size, opened.size) == ((24, 32), (48, 64))
            assert opened.pixels.getpixel((9, 9))[0] > 200
    Path("b.dng").write_bytes(b"not a photo" * 99)
    with pytest.raises(UnreadableImage, match="damaged"):
        read_image("b.dng")
    monkeypatch.setitem(sys.modules, "rawpy", None)
    with pytest.raises(UnreadableImage, match=r'RAW needs: pip install "unseen\[photos\]"'):
        read_image("a.dng")


def test_lab_and_16_bits_of_colour_and_documents_of_several_pages_are_read():
    to_lab = ImageCms.buildTransform(ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), "RGB", "LAB")
    lab = ImageCms.applyTransform(quarters(), to_lab)
    lab.save("a.tif", save_all=True, append_images=[lab.rotate(180)])
    assert differ(read_image("a.tif"), quarters()) < 30  # LAB of 8 bits
    deep = np.asarray(quarters()).astype(">u2") * 257
    lines = zlib.compress(b"".join(b"\0" + row.tobytes() for row in deep))
    chunks = [(b"IHDR", struct.pack(">LLBBBBB", 40, 20, 16, 2, 0, 0, 0)), (b"IDAT", lines), (b"IEND", b"")]
    png = (struct.pack(">L", len(c)) + k + c + struct.pack(">L", zlib.crc32(k + c)) for k, c in chunks)
    Path("a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(png))
    assert np.array_equal(read_image("a.png"), quarters())


def test_the_date_of_a_clock_that_was_never_set_is_unknown():
    exif = Image.Exif()
    exif[0x0132] = "0000:00:00 00:00:00"
    picture(0).save("a.jpg", exif=exif)
    with open_image("a.jpg") as opened:
        assert opened.taken is None


@pytest.mark.parametrize("nothing", [None, [], ()])
def test_nothing_to_look_at_is_an_error(nothing):
    with pytest.raises(ValueError, match=r"^sources: "):
        find_images(nothing)
