"""WebDataset: tar shards read by a process for each worker; torchvision decodes and transforms."""

import glob
import os

from .torchvision import transforms


class Decode:
    """Decodes and transforms the JPEG of a sample."""

    def __init__(self, workload):
        self.change = transforms(workload)

    def __call__(self, jpeg):
        import torch
        from torchvision.io import ImageReadMode, decode_jpeg

        encoded = torch.frombuffer(bytearray(jpeg), dtype=torch.uint8)
        return self.change(decode_jpeg(encoded, mode=ImageReadMode.RGB))


def open(job):
    import webdataset as wds

    shards = sorted(glob.glob(os.path.join(glob.escape(job.shards), "*.tar")))
    data = wds.WebDataset(shards, shardshuffle=len(shards), seed=7)
    data = data.shuffle(1000).to_tuple("jpg", "cls").map_tuple(Decode(job.workload), int)
    data = data.batched(job.batch)
    loader = wds.WebLoader(
        data, batch_size=None, num_workers=job.threads, persistent_workers=True, prefetch_factor=4
    )
    return lambda epoch: loader
