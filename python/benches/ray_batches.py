"""Times batches that actors of Ray make, on the machine of the consumer and on another one: what the way through the
object store costs.

    python python/benches/ray_batches.py

The other machine is a second node of a cluster on this one, with an object store of its own, so that its batches go
through a connection of TCP. The images are in memory, and the ops only convert them: a batch is made as fast as it can be.
Needs Ray (``pip install ray``) and the package.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.cluster_utils import Cluster

import fuseloop as fl
from fuseloop import ops


def processor_seconds(root: int) -> float:
    """Returns the processor time of a process and of all that it has started."""
    times: dict[int, tuple[int, float]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        times[int(stat.parent.name)] = int(fields[1]), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    own = {root}
    while more := {process for process, (parent, _) in times.items() if parent in own} - own:
        own |= more
    return sum(times[process][1] for process in own)


def measured(loader: Any, batches: int, there: int) -> tuple[float, float, float]:
    """Returns the MB of batches per second, and the processor time of an image in milliseconds, on the node of the consumer
    and on that of process ``there``."""
    found = (batch for epoch in range(10**6) for batch in loader.epoch(epoch))
    for _ in range(8):  # the actors start
        next(found)
    begin, whole, other = time.perf_counter(), processor_seconds(os.getpid()), processor_seconds(there)
    size = images = 0
    for _ in range(batches):
        batch = next(found)
        tensors = batch if isinstance(batch, tuple) else [batch["image"]]
        size += sum(tensor.nbytes for tensor in tensors)
        images += len(tensors[0])
        del batch, tensors
    seconds = time.perf_counter() - begin
    whole, other = processor_seconds(os.getpid()) - whole, processor_seconds(there) - other
    return size / seconds / 1e6, 1e3 * (whole - other) / images, 1e3 * other / images


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--actors", type=int, default=1)
    parser.add_argument("--dtype", choices=["float32", "uint8"], default="float32")
    given = parser.parse_args()
    pixels = np.random.default_rng(0).integers(0, 255, (4 * given.batch_size, 224, 224, 3), np.uint8)
    lists = {"image": [ops.Convert(given.dtype), ops.ToChannelsFirst()]}
    data = fl.sources.from_arrays(image=pixels)

    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(fl.__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    store = {"object_store_memory": 1 << 30, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={**store, "num_cpus": 4, "resources": {"here": 100}})
    node = cluster.add_node(**store, num_cpus=4, resources={"there": 100})
    ray.init(address=cluster.address, log_to_driver=False)
    options = {"batch_size": given.batch_size, "ops": lists, "workers": 1}
    size = given.batch_size * pixels[0].size * 4 / 1e6
    size = given.batch_size * pixels[0].size * np.dtype(given.dtype).itemsize
    print(f"batches of {given.batch_size} images, {size / 1e6:.1f} MB")

    def report(name: str, loader: Any) -> None:
        speed, here, there = measured(loader, given.batches, node.all_processes["raylet"][0].process.pid)
        print(f"{name:26} {speed:6.0f} MB/s, CPU-ms an image: {here:.3f} here, {there:.3f} there", flush=True)

    report("no Ray", fl.Loader(data, **options))
    for where in ("here", "there"):
        for kind in (fl.ray.Loader, fl.ray.TorchLoader):
            own = {"actors": given.actors, "num_cpus": 0.1, "ray_remote_args": {"resources": {where: 1}}}
            with kind(data, **options, **own) as loader:
                report(f"actors {where}, {kind.__name__}", loader)
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main()
