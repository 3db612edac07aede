"""Grain: threads that read ahead, with the decoding and transforms of `albumentations.py`."""

from .albumentations import Pictures


def open(job):
    import os

    os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"
    import cv2
    import grain.python as grain

    cv2.setNumThreads(0)
    pictures = Pictures(job)

    def epoch(number):
        data = grain.MapDataset.source(pictures).seed(7 + number).shuffle()
        options = grain.ReadOptions(num_threads=job.threads, prefetch_buffer_size=4 * job.batch)
        return data.to_iter_dataset(options).batch(job.batch, drop_remainder=False)

    return epoch
