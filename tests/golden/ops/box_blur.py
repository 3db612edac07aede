"""Writes box_blur.bin: a picture and what OpenCV's blur makes of it with kernels of even sides.

The picture is noise of 17 rows and 22 columns; behind it are the results, in the order of KERNELS.
Needs OpenCV and NumPy.

    python box_blur.py
"""

from pathlib import Path

import cv2
import numpy as np

# Columns and rows. The number of pixels of the first eight is no power of two.
KERNELS = [(2, 3), (3, 2), (6, 6), (4, 6), (10, 2), (1, 6), (12, 1), (7, 4),
           (2, 1), (1, 2), (2, 2), (4, 4), (8, 2), (16, 16)]  # fmt: skip


def main():
    print("OpenCV", cv2.__version__)
    picture = np.random.default_rng(5).integers(0, 256, (17, 22, 3), dtype=np.uint8)
    blurred = [cv2.blur(picture, kernel, borderType=cv2.BORDER_REFLECT_101) for kernel in KERNELS]
    path = Path(__file__).with_name("box_blur.bin")
    path.write_bytes(b"".join(image.tobytes() for image in [picture, *blurred]))


main()
