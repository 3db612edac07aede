#!/usr/bin/env python3
"""Writes tests/golden/order/torch.json: the orders that torch and timm return.

    pip install torch timm numpy
    python scripts/order_goldens.py

    randperm             torch.randperm of a seeded generator
    randperm_hashes      the same for many samples: the SHA-256 of their ids as little-endian u32, and the first five
    distributed_sampler  DistributedSampler(shuffle=True): one list per rank
    repeat_aug_sampler   timm's RepeatAugSampler, whose seed is the epoch: one list per rank
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import timm
import torch
from timm.data.distributed_sampler import RepeatAugSampler
from torch.utils.data.distributed import DistributedSampler

OUT = Path(__file__).parent.parent / "tests/golden/order/torch.json"
# The number of samples from which torch uses 64 random bits per draw.
MANY = (2**32 - 1) // 20


def randperm(seed, n):
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(n, generator=generator, dtype=torch.int32 if n > 2**20 else torch.int64)


def shuffled(seed, n):
    return {"seed": seed, "n": n, "order": randperm(seed, n).tolist()}


def hashed(seed, n):
    ids = randperm(seed, n).numpy().astype("<u4", copy=False)
    return {"seed": seed, "n": n, "first": ids[:5].tolist(), "sha256": hashlib.sha256(np.ascontiguousarray(ids)).hexdigest()}


def distributed(n, world, seed, epoch, drop_last):
    samplers = [DistributedSampler(range(n), world, rank, True, seed, drop_last) for rank in range(world)]
    for sampler in samplers:
        sampler.set_epoch(epoch)
    ranks = [list(sampler) for sampler in samplers]
    return {"n": n, "seed": seed, "epoch": epoch, "drop_last": drop_last, "ranks": ranks}


def repeated(n, world, repeats, epoch):
    samplers = [RepeatAugSampler(range(n), world, rank, num_repeats=repeats) for rank in range(world)]
    for sampler in samplers:
        sampler.set_epoch(epoch)
    ranks = [[int(sample) for sample in sampler] for sampler in samplers]
    return {"n": n, "repeats": repeats, "epoch": epoch, "ranks": ranks}


def main():
    seeds = [0, 1, 42, 2**32 - 1, 2**32 + 1, 2**64 - 1]
    golden = {
        "versions": {"torch": torch.__version__, "timm": timm.__version__},
        "randperm": [shuffled(seed, n) for seed in seeds for n in [0, 1, 2, 10, 37]] + [shuffled(42, 700)],
        "randperm_hashes": [hashed(42, 1_281_167), hashed(7, 3_000_000), hashed(42, MANY)],
        "distributed_sampler": [
            distributed(n, world, 5, 3, drop_last)
            for n in [1, 10, 25]
            for world in [1, 2, 3, 4, 8]
            for drop_last in [False, True]
        ],
        "repeat_aug_sampler": [
            repeated(n, world, repeats, epoch)
            for n, world, repeats, epoch in [(300, 1, 3, 0), (300, 2, 3, 1), (513, 3, 2, 2), (256, 8, 4, 3), (10, 1, 3, 4)]
        ],
    }
    OUT.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(golden).replace(', {"', ',\n{"').replace('": [{', '": [\n{')
    OUT.write_text(text + "\n")


if __name__ == "__main__":
    main()
