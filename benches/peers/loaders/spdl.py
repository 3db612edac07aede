"""SPDL: a pipeline of threads; FFmpeg decodes, crops, resizes and flips as SPDL's guide to filters shows."""

import math
import random

from . import MEAN, STD, levels, listed


def window(width, height):
    """Draws the window of torchvision's RandomResizedCrop: left, top, width, height."""
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, width - w), random.randint(0, height - h), w, h
    side = min(width, height)
    return (width - side) // 2, (height - side) // 2, side, side


def open(job):
    import numpy as np
    import spdl.io
    from spdl.pipeline import PipelineBuilder

    mean, scale = np.float32(levels(MEAN)), 1 / np.float32(levels(STD))
    paths, labels = listed(job.photos)
    # A pipeline skips samples whose function fails, so a missing library is looked for here.
    try:
        spdl.io.demux_image(paths[0])
    except RuntimeError as error:
        raise RuntimeError(f"FFmpeg's libraries are needed (Debian: libavdevice59): {error}") from error

    def filters(width, height):
        if job.workload == "W2":
            side = int(min(width, height) * 224 / 256)
            return f"crop={side}:{side},scale=224:224:flags=bilinear,format=rgb24"
        left, top, w, h = window(width, height)
        flip = ",hflip" if random.random() < 0.5 else ""
        return f"crop={w}:{h}:{left}:{top},scale=224:224:flags=bilinear{flip},format=rgb24"

    def decode(index):
        packets = spdl.io.demux_image(paths[index])
        frames = spdl.io.decode_packets(packets, filter_desc=filters(packets.width, packets.height))
        image = spdl.io.to_numpy(spdl.io.convert_frames(frames))
        return image, labels[index]

    def collate(samples):
        images = np.empty((len(samples), 3, 224, 224), np.float32)
        for image, (pixels, _) in zip(images, samples):
            np.multiply(pixels.reshape(224, 224, 3) - mean, scale, out=image.transpose(1, 2, 0))
        return images, np.array([label for _, label in samples])

    def epoch(number):
        order = random.Random(number).sample(range(len(paths)), len(paths))
        builder = PipelineBuilder().add_source(order).pipe(decode, concurrency=job.threads)
        builder = builder.aggregate(job.batch).pipe(collate).add_sink(4)
        pipeline = builder.build(num_threads=job.threads)
        with pipeline.auto_stop():
            yield from pipeline

    return epoch
