"""Photos that cost what real ones cost: detail at every scale, stored as JPEG."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def write_photos(folder: Path, n: int, size: tuple[int, int] = (500, 375), quality: int = 90) -> list[Path]:
    """Write ``n`` different JPEG files; their spectrum falls as 1/f, as that of natural images does."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for seed in range(n):
        rng = np.random.default_rng(seed)
        pixels = np.zeros((size[1], size[0], 3), dtype=np.float32)
        cells = 2
        while cells < max(size):
            coarse = rng.integers(0, 256, size=(cells, cells, 3), dtype=np.uint8)
            layer = Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)
            pixels += (np.asarray(layer, dtype=np.float32) - 128.0) * (1.5 / cells**0.5)
            cells *= 2
        path = folder / f"{seed:06d}.jpg"
        Image.fromarray(np.clip(pixels + 128.0, 0, 255).astype(np.uint8)).save(path, quality=quality)
        paths.append(path)
    return paths
