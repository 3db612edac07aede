"""Makes the expected pixels, the files of other formats, and the list of cases of this folder.

The JPEGs in `*/a/` are given: crops of photographs, coded with `cjpeg -scans` of libjpeg-turbo, or coded by Pillow and
changed in their headers. What a PNG beside them holds is what Pillow (libjpeg-turbo) reads from them.
"""

import json
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent
JPEGS = {
    "colour-adobe1_ids_RGB": "Adobe's transform counts before ids that say RGB",
    "colour-adobe_short": "a segment of Adobe that is too short says nothing",
    "colour-cmyk_adobe1": "four components with any transform of Adobe are YCCK",
    "colour-jfif+adobe0": "JFIF counts before Adobe's transform",
    "colour-jfif_ids_RGB": "JFIF counts before ids that say RGB",
    "recut-12-blocks": "three scans of components that have 12 blocks together",
    "sampling-2x1-1x2-1x1": "no component needs to be the finest in both directions",
    "sampling-chroma-finer": "chroma may have more samples than luma",
    "scans-420-y-cc": "a scan of luma and one of chroma with half the rows and columns",
    "scans-420": "three scans, chroma with half the rows and columns",
    "scans-444-16x16": "three scans of a small picture",
    "scans-444-rst7": "three scans with restart markers every seven blocks",
}
OTHERS = {
    "bmp": "it is a BMP, which is not read",
    "gif": "it is a GIF, which is not read",
    "avif": "it is an AVIF, which is not read",
}

cases = []
for name, promise in JPEGS.items():
    picture = Image.open(HERE / name / "a" / f"{name}.jpg").convert("RGB")
    picture.save(HERE / f"{name}.png", optimize=True)
    cases.append({"case": promise, "open": name, "labels": [0], "pixels": f"{name}.png", "within": 5})
for extension, words in OTHERS.items():
    name = f"named-jpg-{extension}"
    folder = HERE / name / "a"
    folder.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 3), (200, 100, 50)).save(folder / "picture.jpg", extension)
    case = f"a file of another format that is called .jpg is named: {extension}"
    cases.append({"case": case, "open": name, "damaged": [words]})
folder = HERE / "named-jpg-empty" / "a"
folder.mkdir(parents=True, exist_ok=True)
(folder / "picture.jpg").write_bytes(b"")
case = "an empty file is damaged, and said to be empty"
cases.append({"case": case, "open": "named-jpg-empty", "damaged": ["the file is empty"]})
lines = [json.dumps(case, ensure_ascii=False) + "\n" for case in cases]
(HERE / "cases.jsonl").write_text("".join(lines))
