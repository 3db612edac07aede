"""NVIDIA DALI on the CPU: fused decoding and cropping, as its ImageNet examples set it up."""

from . import CIFAR_FILL, CIFAR_MEAN, CIFAR_STD, MEAN, STD, levels


def open(job):
    import numpy as np
    from nvidia.dali import fn, pipeline_def, types

    pixels = np.load(job.pixels) if job.pixels else None
    count = job.count
    random = np.random.default_rng(0)

    def shuffled():
        """Yields shuffled batches of pixels for ever."""
        while True:
            order = random.permutation(count)
            for start in range(0, count - job.batch + 1, job.batch):
                yield pixels[order[start:start + job.batch]]

    def read():
        return fn.readers.file(
            file_root=job.photos, random_shuffle=True, initial_fill=1024, name="reader"
        )

    def normalized(images, mean, std, **more):
        return fn.crop_mirror_normalize(
            images, dtype=types.FLOAT, output_layout="CHW", mean=list(mean), std=list(std), **more
        )

    def flip():
        return fn.random.coin_flip(probability=0.5)

    def train(jitter):
        encoded, labels = read()
        images = fn.decoders.image_random_crop(
            encoded,
            device="cpu",
            output_type=types.RGB,
            random_area=[0.08, 1.0],
            random_aspect_ratio=[3 / 4, 4 / 3],
            num_attempts=10,
        )
        images = fn.resize(images, resize_x=224, resize_y=224, interp_type=types.INTERP_LINEAR)
        if jitter:
            factors = [fn.random.uniform(range=[0.6, 1.4]) for _ in range(3)]
            images = fn.color_twist(
                images, brightness=factors[0], contrast=factors[1], saturation=factors[2]
            )
        return normalized(images, levels(MEAN), levels(STD), mirror=flip()), labels

    def validation():
        encoded, labels = read()
        images = fn.decoders.image(encoded, device="cpu", output_type=types.RGB)
        images = fn.resize(images, resize_shorter=256, interp_type=types.INTERP_LINEAR)
        return normalized(images, levels(MEAN), levels(STD), crop=(224, 224)), labels

    def small():
        images = fn.external_source(source=shuffled(), layout="HWC", dtype=types.UINT8)
        corner = fn.cast(fn.random.uniform(range=[-4, 5], shape=(2,)), dtype=types.INT32)
        images = fn.slice(
            images,
            start=corner,
            shape=(32, 32),
            axes=(0, 1),
            out_of_bounds_policy="pad",
            fill_values=list(CIFAR_FILL),
        )
        hole = fn.random.uniform(range=[0, 24], shape=(2,))
        images = fn.erase(
            images, anchor=hole, shape=(8, 8), axes=(0, 1), fill_value=[float(v) for v in CIFAR_FILL]
        )
        return normalized(images, CIFAR_MEAN, CIFAR_STD, mirror=flip())

    def crop():
        images = fn.external_source(source=shuffled(), layout="HWC", dtype=types.UINT8)
        x, y = fn.random.uniform(range=[0, 1]), fn.random.uniform(range=[0, 1])
        return normalized(
            images, levels(MEAN), levels(STD), crop=(224, 224), crop_pos_x=x, crop_pos_y=y, mirror=flip()
        )

    graphs = {
        "W1": lambda: train(jitter=False),
        "W2": validation,
        "W3": lambda: train(jitter=True),
        "W4": small,
        "W5": crop,
    }
    define = pipeline_def(graphs[job.workload])
    pipeline = define(
        batch_size=job.batch, num_threads=job.threads, device_id=None, prefetch_queue_depth=2, seed=7
    )
    pipeline.build()

    def epoch(_):
        # DALI's readers never stop: the last batch of an epoch is filled up from the next.
        for _ in range(max(1, count // job.batch)):
            yield pipeline.run()

    return epoch


def array(images):
    """Returns the images of a batch as NumPy's array."""
    import numpy as np

    return np.asarray(images.as_tensor())
