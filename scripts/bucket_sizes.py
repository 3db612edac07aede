"""Prints the bucket sizes of kohya's sd-scripts as the tests of ops/src/resize_to_bucket.rs have them.

    python scripts/bucket_sizes.py sd-scripts/library/model_util.py

Only the function is run: the file itself imports what it does not need. Sizes are (height, width).
"""

import ast
import math
import sys

tree = ast.parse(open(sys.argv[1], encoding="utf-8").read())
(function,) = (node for node in tree.body if getattr(node, "name", "") == "make_bucket_resolutions")
names = {"math": math}
exec(compile(ast.Module([function], []), sys.argv[1], "exec"), names)  # noqa: S102

for name, size, low, high, step in [
    ("KOHYA_1024", (1024, 1024), 512, 2048, 64),
    ("KOHYA_512", (512, 512), 256, 1024, 64),
    ("KOHYA_512_768", (512, 768), 256, 1024, 64),
    ("KOHYA_100", (100, 100), 90, 110, 8),
]:
    sizes = sorted((height, width) for width, height in names["make_bucket_resolutions"](size, low, high, step))
    print(f"const {name}: [(u32, u32); {len(sizes)}] = {sizes};")
