"""Writes NAME.jpg and NAME.rgb: pictures whose last column and row show how chroma is
interpolated there. Needs Pillow and NumPy; Pillow bundles libjpeg-turbo.

    python edges.py
"""

from pathlib import Path

import numpy as np
from PIL import Image, features

HERE = Path(__file__).parent

# Even sides that are not multiples of 16: half as many samples of chroma, and filler behind them.
HEIGHT, WIDTH = 38, 52


def picture():
    """Strong noise in colour on a slope: what fills up the last block of its JPEG is far from the
    last sample."""
    rng = np.random.default_rng(28)
    slope = np.linspace(40, 200, WIDTH)[None, :, None]
    noise = rng.integers(-200, 201, (HEIGHT // 2, WIDTH // 2, 3)).repeat(2, 0).repeat(2, 1)
    return Image.fromarray(np.clip(slope + noise, 0, 255).astype(np.uint8))


def main():
    print("Pillow with libjpeg-turbo", features.version("libjpeg_turbo"))
    for name, subsampling, more in [
        ("420", "4:2:0", {}),
        ("422", "4:2:2", {}),
        ("420_progressive", "4:2:0", {"progressive": True}),
    ]:
        path = HERE / f"{name}.jpg"
        picture().save(path, quality=50, subsampling=subsampling, **more)
        pixels = np.asarray(Image.open(path).convert("RGB"))
        (HERE / f"{name}.rgb").write_bytes(pixels.tobytes())


main()
