"""Write docs/images/app/*.png: ``unseen serve`` with the packaged model, on twenty crops of eight photos.

Run ``python -m scripts.make_screenshots`` with scikit-image, ``.[all,test]`` and Chromium installed.
The credits of the photos are in docs/app.md.
"""

from __future__ import annotations

import io
from pathlib import Path
from tempfile import TemporaryDirectory

import skimage
import sklearn.datasets
from PIL import Image
from tests.app.conftest import chromium
from tests.app.test_page import PHONE, Page, page_of

from unseen.photos.library import PhotoLibrary

OURS = Path(skimage.__file__).parent / "data"
THEIRS = Path(sklearn.datasets.__file__).parent / "images"
# Share of the width, and where it lies from left (0) to right (1) and from top to bottom
WHOLE, LEFT, RIGHT, HIGH = (1.0, 0.5, 0.5), (0.85, 0.0, 0.0), (0.85, 1.0, 1.0), (0.85, 1.0, 0.0)
PHOTOS = {
    "coffee": (OURS / "coffee.png", WHOLE, LEFT, HIGH),
    "cat": (OURS / "chelsea.png", WHOLE, LEFT, RIGHT),
    "astronaut": (OURS / "astronaut.png", WHOLE, LEFT, HIGH),
    "rocket": (OURS / "rocket.jpg", WHOLE, LEFT, RIGHT),
    "moon": (OURS / "moon.png", WHOLE),
    "hubble": (OURS / "hubble_deep_field.jpg", (0.7, 0.5, 0.5)),
    "temple": (THEIRS / "china.jpg", WHOLE, LEFT, RIGHT),
    "flower": (THEIRS / "flower.jpg", WHOLE, LEFT, RIGHT),
}
DESK, LOW = (1100, 740), (1100, 680)
FOLDER = Path(__file__).parents[1] / "docs" / "images" / "app"


def crop(source: Path, share: float, x: float, y: float) -> Image.Image:
    """Part of a photo, four to three."""
    photo = Image.open(source).convert("RGB")
    width = min(photo.width, photo.height * 4 / 3) * share
    height = width * 3 / 4
    left, top = (photo.width - width) * x, (photo.height - height) * y
    return photo.crop((round(left), round(top), round(left + width), round(top + height)))


def save(page: Page, name: str) -> None:
    """Write what the page shows, from its top, in 192 colours."""
    page.run("document.activeElement.blur(); scrollTo(0, 0)")
    page.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": 1, "y": 1})
    page.until(
        lambda: page.run("return document.getAnimations().every((one) => one.playState === 'finished')"), "rest"
    )
    shown = Image.open(io.BytesIO(page.driver.get_screenshot_as_png())).convert("RGB")
    few = shown.quantize(192, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    few.save(FOLDER / f"{name}.png", optimize=True)


def complete(page: Page, css: str) -> None:
    """Wait for pictures."""
    loaded = f"return [...document.querySelectorAll('{css}')].every((img) => img.complete)"
    page.until(lambda: page.run(loaded), css)


def search(page: Page, query: str) -> None:
    """Search, and wait for the photos."""
    page.open(f"#/search?q={query}")
    page.count("likely")
    complete(page, ".cell img")


def main() -> None:
    """Make the library, and write them all."""
    with TemporaryDirectory() as place, chromium() as driver:
        photos = Path(place) / "photos"
        photos.mkdir()
        for name, (source, *crops) in PHOTOS.items():
            for i, part in enumerate(crops, 1):
                file = f"{name}-{i}.jpg" if len(crops) > 1 else f"{name}.jpg"
                crop(source, *part).save(photos / file, quality=90)
        library = PhotoLibrary.open(Path(place) / "library", create=True)
        library.index([photos])
        with page_of(driver, library) as page:
            page.look(LOW, motion="reduce")
            search(page, "coffee")
            save(page, "search")
            page.look(LOW, "dark", "reduce")
            search(page, "flower not temple")
            save(page, "dark")

            page.look(DESK, motion="reduce")
            search(page, "coffee")
            page.click(".cell a")
            page.click(".tag-name", "coffee")
            page.see(".why .parts")
            page.see("img.full.there")
            save(page, "photo")

            page.open("#/words/map")
            page.write("input[list]", "cat\n")
            page.see(".map-card strong", "cat")
            save(page, "words")

            page.open("#/correct")
            page.see(".big-question")
            complete(page, ".picture img")
            save(page, "correct")

            page.look(PHONE, motion="reduce")
            page.open("#/try")
            page.click(".sample:has([alt='cat.jpg'])")
            page.write("#try-words", "tabby, sofa, Frühstück, gatto")
            page.see(".try-card .tag", "gatto")
            save(page, "phone")


if __name__ == "__main__":
    main()
