"""Write the small photos that the demonstration tags, from scikit-image's packaged ones (public domain or CC0).

Run ``python scripts/make_demo_photos.py`` with scikit-image and Pillow installed.
"""

from __future__ import annotations

from pathlib import Path

import skimage
from PIL import Image

PHOTOS = {
    "cat": "chelsea.png",
    "coffee": "coffee.png",
    "rocket": "rocket.jpg",
    "astronaut": "astronaut.png",
}
FOLDER = Path(__file__).parents[1] / "src" / "unseen" / "images" / "data" / "photos"
LONGEST = 400


def main() -> None:
    """Write them all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, file in PHOTOS.items():
        photo = Image.open(Path(skimage.__file__).parent / "data" / file).convert("RGB")
        photo.thumbnail((LONGEST, LONGEST), Image.Resampling.LANCZOS)
        photo.save(FOLDER / f"{name}.jpg", quality=85, optimize=True)


if __name__ == "__main__":
    main()
