"""Makes the expected pixels, the files of other formats, and the list of cases of this folder.

The JPEGs in `*/a/` are given: crops of photographs, coded with `cjpeg -scans` of libjpeg-turbo, or coded by Pillow and
changed in their headers; the others are made here. What a PNG beside them holds is what Pillow (libjpeg-turbo) reads from them.
"""

import io
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
MOTION = {
    "motion-jpeg": "a frame of Motion-JPEG without Huffman tables has those of the standard",
    "motion-jpeg-gray": "a gray frame without Huffman tables has those of the standard",
    "motion-jpeg-chroma": "one table that is missing is that of the standard",
}
OTHERS = {
    "bmp": None,
    "gif": None,
    "avif": "it is an AVIF, which is not read",
}



def without_tables(jpeg: bytes, missing: set[int]) -> bytes:
    """Removes Huffman tables, by their class and number, and says that the frame is one of an AVI file."""
    app0 = bytes.fromhex("ffe00010") + b"AVI1" + bytes(10)
    kept, at = jpeg[:2] + app0, 2
    while jpeg[at + 1] != 0xDA:
        end = at + 2 + int.from_bytes(jpeg[at + 2 : at + 4])
        tables, segment = jpeg[at + 4 : end], jpeg[at:end]
        if jpeg[at + 1] == 0xC4:
            segment = b""
            while tables:
                length = 17 + sum(tables[1:17])
                if tables[0] not in missing:
                    segment += b"\xff\xc4" + (length + 2).to_bytes(2) + tables[:length]
                tables = tables[length:]
        if jpeg[at + 1] != 0xE0:
            kept += segment
        at = end
    return kept + jpeg[at:]


def coded(mode: str, **options) -> bytes:
    picture = Image.open(HERE / "scans-444-rst7.png").convert(mode)
    out = io.BytesIO()
    picture.save(out, "JPEG", **options)
    return out.getvalue()


MARKERS = coded("RGB", restart_marker_blocks=3)
FIRST = MARKERS.index(b"\xff\xd1")
GIVEN = {
    "motion-jpeg": without_tables(coded("RGB", subsampling="4:2:2"), {0, 1, 0x10, 0x11}),
    "motion-jpeg-gray": without_tables(coded("L"), {0, 0x10}),
    "motion-jpeg-chroma": without_tables(coded("RGB"), {0x11}),
    # libjpeg leaves out two segments, and decodes the others.
    "restart-number": MARKERS[:FIRST] + b"\xff\xd3" + MARKERS[FIRST + 2 :],
    "progressive-restart": coded("RGB", progressive=True).replace(b"\xff\xd9", b"\xff\xd0\x00\x00\xff\xd9"),
}
for name, jpeg in GIVEN.items():
    (HERE / name / "a").mkdir(parents=True, exist_ok=True)
    (HERE / name / "a" / f"{name}.jpg").write_bytes(jpeg)

cases = []
for name, promise in (JPEGS | MOTION).items():
    picture = Image.open(HERE / name / "a" / f"{name}.jpg").convert("RGB")
    picture.save(HERE / f"{name}.png", optimize=True)
    cases.append({"case": promise, "open": name, "labels": [0], "pixels": f"{name}.png", "within": 5})
for extension, words in OTHERS.items():
    name = f"named-jpg-{extension}"
    folder = HERE / name / "a"
    folder.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 3), (200, 100, 50)).save(folder / "picture.jpg", extension)
    case = f"a file of another format that is called .jpg is {'named' if words else 'read'}: {extension}"
    cases.append({"case": case, "open": name} | ({"damaged": [words]} if words else {"labels": [0]}))
folder = HERE / "named-jpg-empty" / "a"
folder.mkdir(parents=True, exist_ok=True)
(folder / "picture.jpg").write_bytes(b"")
case = "an empty file is damaged, and said to be empty"
cases.append({"case": case, "open": "named-jpg-empty", "damaged": ["the file is empty"]})
case = "restart markers of another number are damage: libjpeg decodes other pixels, with a warning"
cases.append({"case": case, "open": "restart-number", "damaged": ["is RST3, expected RST1"]})
case = "a restart marker in a progressive file that has no interval is damage"
cases.append(
    {"case": case, "open": "progressive-restart", "damaged": ["1 restart markers, but its restart interval requires 0"]}
)
lines = [json.dumps(case, ensure_ascii=False) + "\n" for case in cases]
(HERE / "cases.jsonl").write_text("".join(lines))
