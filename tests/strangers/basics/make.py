"""Makes the pictures of this area with Pillow: plain ones, which every other area differs from."""

from pathlib import Path

from PIL import Image

root = Path(__file__).parent
for name, colour in [("ant", (200, 30, 40)), ("bee", (20, 190, 60))]:
    image = Image.new("RGB", (6, 4), colour)
    image.putpixel((1, 2), (7, 8, 9))
    image.save(root / "classes" / name / "0.png", optimize=True)
Image.open(root / "classes/ant/0.png").save(root / "ant.expected.png")
(root / "cut/bee/cut.png").write_bytes((root / "classes/bee/0.png").read_bytes()[:50])
