"""Makes the files of this area: TIFFs that store more than is read of them, as tifffile and Pillow write them."""

from pathlib import Path

import numpy as np
import tifffile
from PIL import Image

HERE = Path(__file__).parent


def pixels(seed: int, bands: int) -> np.ndarray:
    rows, columns = np.mgrid[0:6, 0:8]
    return np.stack([(rows * 37 + columns * 11 + seed * 50 + band * 70) % 256 for band in range(bands)], -1).astype(np.uint8)


def folder(name: str) -> Path:
    (HERE / name / "cat").mkdir(parents=True, exist_ok=True)
    return HERE / name / "cat"


rgb = pixels(0, 3)
Image.fromarray(rgb).save(HERE / "rgb.png")

# Two files of three and two pages: one warning for both.
for number, pages in [(0, 3), (1, 2)]:
    with tifffile.TiffWriter(folder("pages") / f"{number}.tif") as file:
        for page in range(pages):
            file.write(pixels(page, 3), photometric="rgb")
first, second = (Image.fromarray(pixels(page, 3)) for page in range(2))
first.save(folder("pages-pillow") / "0.tif", save_all=True, append_images=[second])
with tifffile.TiffWriter(folder("pages-bigtiff") / "0.tif", bigtiff=True, byteorder=">") as file:
    for page in range(2):
        file.write(pixels(page, 3), photometric="rgb")

four = pixels(0, 4)
for number in range(2):
    tifffile.imwrite(folder("four-bands") / f"{number}.tif", four, photometric="rgb", extrasamples=["unspecified"])
tifffile.imwrite(folder("alpha") / "0.tif", four, photometric="rgb", extrasamples=["unassalpha"])
tifffile.imwrite(folder("one-page") / "0.tif", rgb, photometric="rgb")
