"""Makes the tables and folders of this corpus, with Pillow and Python's csv: python make.py."""

import csv
import io
import json
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent


def picture(path, value):
    path = HERE / path
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (value, 255 - value, 128)).save(path, format="JPEG", quality=95)


def text(path, content, encoding="utf-8"):
    path = HERE / path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode(encoding))


def written(rows, **options):
    out = io.StringIO()
    csv.writer(out, **options).writerows(rows)
    return out.getvalue()


for number in range(1, 6):
    picture(f"x/{number}.jpg", number * 40)
ROWS = [["filename", "label"], ["x/1.jpg", "dog"], ["x/2.jpg", "cat"], ["x/3.jpg", "dog"]]
text("excel.csv", written(ROWS, delimiter=";"))
text("utf16.csv", written(ROWS), "utf-16")
text("label-first.csv", written([row[::-1] for row in ROWS]))
text("pandas-index.csv", written([["", *ROWS[0]], *([str(n), *row] for n, row in enumerate(ROWS[1:]))]))
text("excel-sep.csv", "sep=;\r\n" + written(ROWS, delimiter=";"))
text("excel-sep-comma.csv", "sep=,\r\n" + written(ROWS))
NUMBERED = [[str(n), *row] for n, row in enumerate(ROWS)]
text("pandas-sample.csv", written([["", *ROWS[0]], *([n, *row[1:]] for n, row in zip("720", NUMBERED[1:]))]))
text("r-write-csv.csv", written([["", *ROWS[0]], *NUMBERED[1:]], quoting=csv.QUOTE_ALL))
text("r-write-table.csv", written([ROWS[0], *NUMBERED[1:]], quoting=csv.QUOTE_ALL))
text("r-names-of-rows.csv", written([["", *ROWS[0]], *(["row " + n, *row] for n, *row in NUMBERED[1:])]))
text("r-short-header.csv", written([ROWS[0], *(["row " + n, *row] for n, *row in NUMBERED[1:])]))
text("backslashes.csv", written([[path.replace("/", "\\"), label] for path, label in ROWS]))
text("without-extension.csv", written([[row[0].removesuffix(".jpg"), row[1]] for row in ROWS]))
text("quoted.csv", written(ROWS, quoting=csv.QUOTE_ALL))
text("open-quote.csv", 'filename,label\nx/1.jpg,cat\nx/2.jpg,"dog\nx/3.jpg,cat\nx/4.jpg,dog\nx/5.jpg,cat\n')
text("closed-later.csv", 'filename,label\nx/1.jpg,cat\nx/2.jpg,"dog\nx/3.jpg,cat\nx/4.jpg,"dog\n')
text("captions.tsv", 'x/1.jpg\ta cat on a mat\nx/2.jpg\t"quoted start only\nx/3.jpg\ta 5" pipe\nx/4.jpg\t"Hello" he said\n')
text("one-bad-label.csv", "filename,label\nx/1.jpg,2\nx/2.jpg,1O\nx/3.jpg,10\nx/4.jpg,\nx/5.jpg,3\n")
text("missing-number.csv", "filename,label,age\nx/1.jpg,0,31\nx/2.jpg,1,\nx/3.jpg,0,28\n")
lines = [("x/1.jpg", "7"), ("x/2.jpg", "10"), ("x/3.jpg", None)]
text("digits.jsonl", "".join(json.dumps({"file_name": path, "label": label}) + "\n" for path, label in lines))
text("without-header.csv", "x/1,dog\nx/2,cat\n")
text("path-last.csv", "dog,1.jpg\ncat,2.jpg\n")
text("long-numbers.csv", "filename,label,id\nx/1.jpg,0,5\nx/2.jpg,1,10000000000000000001\nx/3.jpg,0,7\n")
text("long-labels.csv", "filename,label\nx/1.jpg,10000000000000000001\nx/2.jpg,1\nx/3.jpg,nan\nx/4.jpg,0\n")
lines = [("x/1.jpg", True), ("x/2.jpg", False)]
text("booleans.jsonl", "".join(json.dumps({"file_name": path, "label": label}) + "\n" for path, label in lines))
picture("imagenet-val/ILSVRC2012_val_00000001.JPEG", 10)
picture("imagenet-val/ILSVRC2012_val_00000002.JPEG", 20)
for split in ("train", "val"):
    picture(f"splits/{split}/cat/1.jpg", 30)
    picture(f"splits/{split}/dog/2.jpg", 60)
picture("beside/images/1.jpg", 70)
picture("beside/images/2.jpg", 80)
text("beside/labels.csv", "filename,label\nimages/1.jpg,cat\nimages/2.jpg,dog\n")
picture("junk/cat/1.jpg", 90)
picture("junk/dog/2.jfif", 100)
picture("junk/__MACOSX/cat/1.jpg", 110)
picture("junk/@eaDir/1.jpg", 120)
picture("phone/cat/1.jpg", 130)
picture("phone/dog/2.jpg", 140)
text("phone/dog/3.jp2", "no picture of this build")
