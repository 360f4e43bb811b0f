"""Which copies of a photo does `unseen duplicates` recognise, and how often does it take others for copies?

    python -m benchmarks.duplicates DIR

DIR is a folder of different photos. Each is changed as programs and people change photos; a library of the photos
and one kind of copies is searched for duplicates.
"""

from __future__ import annotations

import argparse
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image, ImageEnhance

from benchmarks._timing import show
from unseen import PhotoLibrary
from unseen.images.backbones import open_backbone
from unseen.images.reading import find_images, read_image


def scaled(image: Image.Image, factor: float) -> Image.Image:
    return image.resize((round(image.width * factor), round(image.height * factor)), Image.Resampling.BICUBIC)


def cropped(image: Image.Image, share: float) -> Image.Image:
    x, y = round(image.width * share), round(image.height * share)
    return image.crop((x, y, image.width - x, image.height - y))


CHANGES = {
    "saved with quality 50": (lambda image: image, 50),
    "0.7 of the size, quality 75": (lambda image: scaled(image, 0.7), 75),
    "half the size, quality 60": (lambda image: scaled(image, 0.5), 60),
    "15 % brighter": (lambda image: ImageEnhance.Brightness(image).enhance(1.15), 90),
    "20 % more contrast": (lambda image: ImageEnhance.Contrast(image).enhance(1.2), 90),
    "2.5 % cut off each side": (lambda image: cropped(image, 0.025), 90),
    "5 % cut off each side": (lambda image: cropped(image, 0.05), 90),
    "turned by 2 degrees": (lambda image: image.rotate(2, Image.Resampling.BICUBIC), 90),
    "mirrored": (lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT), 90),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    photos, backbone, rows = find_images(args.folder).paths, open_backbone(n_threads=1), []
    with tempfile.TemporaryDirectory() as name:
        for number, (kind, (change, quality)) in enumerate(CHANGES.items()):
            folder = Path(name) / str(number)
            folder.mkdir()
            for i, path in enumerate(photos):
                image, jpeg = read_image(path), BytesIO()
                image.save(folder / f"{i:05d} original.jpg", quality=95)
                change(image).save(jpeg, "JPEG", quality=quality)
                (folder / f"{i:05d} copy.jpg").write_bytes(jpeg.getvalue())
            library = PhotoLibrary.open(Path(name) / f"library {number}", create=True, backbone=backbone)
            library.index([folder], backbone=backbone)
            groups = [{Path(photo.path).name.split()[0] for photo in group} for group in library.duplicates()]
            found = sum(len(group) == 1 for group in groups)
            wrong = sum(len(group) > 1 for group in groups)
            rows.append(
                {"copies": kind, "recognised": f"{found / len(photos):.1%}", "groups of other photos": wrong}
            )
    show(f"{len(photos)} photos and a copy of each", rows)


if __name__ == "__main__":
    main()
