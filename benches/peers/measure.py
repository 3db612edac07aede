"""Measures one peer on one workload, in a process of its own: `run.py` starts it and reads the line it prints.

The first batch is timed from the moment at which `run.py` started this process. One whole epoch warms up. Each run
then takes whole epochs until its seconds have passed.
"""

import argparse
import importlib
import importlib.metadata
import json
import os
import sys
import time
from dataclasses import dataclass


@dataclass
class Job:
    workload: str
    threads: int
    batch: int
    # The number of pictures.
    count: int
    # JPEGs in a folder for each class, and the same in tar shards.
    photos: str
    shards: str
    # The array of W4 and W5.
    pixels: str
    # The file that `fuseloop write` wrote.
    beton: str


def check(images, job):
    """Raises an error if a batch is not what the workload asks for. Returns its layout."""
    import numpy as np

    side = 32 if job.workload == "W4" else 224
    shape = images.shape
    if images.dtype != np.float32 or sorted(shape[1:]) != [3, side, side] or not 0 < shape[0] <= job.batch:
        raise ValueError(f"a batch is {images.dtype} {list(shape)}")
    if not np.isfinite(images).all() or abs(images.mean()) > 1.5 or not 0.2 < images.std() < 2.5:
        raise ValueError(f"pixels are not normalized: mean {images.mean():.2f}, deviation {images.std():.2f}")
    channels_first = shape[1] == 3 and images.flags.c_contiguous
    return "channels first" if channels_first else "channels last"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("peer")
    parser.add_argument("job", help="as JSON")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("--started", type=float, required=True, help="time.monotonic() of the parent")
    parser.add_argument("--packages", default="", help="whose versions to report")
    args = parser.parse_args()
    job = Job(**json.loads(args.job))
    # What libraries print does not belong on the line of results.
    line = os.dup(1)
    os.dup2(2, 1)

    peer = importlib.import_module(f"loaders.{args.peer}")
    epoch = peer.open(job)
    number, first, layout = 0, None, ""
    for batch in epoch(number):
        if first is None:
            first = time.monotonic() - args.started
            array = getattr(peer, "array", None)
            layout = check(array(batch[0]) if array else as_array(batch[0]), job)
    if first is None:
        raise ValueError("an epoch without batches")

    rates = []
    for _ in range(args.runs):
        images, start = 0, time.perf_counter()
        while (taken := time.perf_counter() - start) < args.seconds or images == 0:
            number += 1
            for batch in epoch(number):
                images += len(batch[0])
        rates.append(images / taken)
    versions = {name: importlib.metadata.version(name) for name in args.packages.split(",") if name}
    result = {"runs": rates, "first_batch_s": first, "layout": layout, "versions": versions}
    os.write(line, (json.dumps(result) + "\n").encode())
    # Workers and threads of libraries must not delay the end, or turn it into an error.
    sys.stderr.flush()
    os._exit(0)


def as_array(images):
    import numpy as np

    return np.asarray(images)


if __name__ == "__main__":
    main()
