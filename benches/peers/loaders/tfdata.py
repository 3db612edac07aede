"""tf.data, as TensorFlow's guide to input pipelines sets it up: parallel map, batch, prefetch; decode and crop fused.

Its images are channels last, TensorFlow's own layout. W4 is written for whole batches, which is several times as fast.
"""

from . import CIFAR_MEAN, CIFAR_STD, MEAN, STD, levels, listed


def open(job):
    import os

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import numpy as np
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(job.threads)
    tf.config.threading.set_inter_op_parallelism_threads(job.threads)
    # A division would cost more than this product.
    cifar = job.workload == "W4"
    mean = tf.constant(CIFAR_MEAN if cifar else levels(MEAN), tf.float32)
    scale = 1 / tf.constant(CIFAR_STD if cifar else levels(STD), tf.float32)

    def normalized(image):
        return (tf.cast(image, tf.float32) - mean) * scale

    def resized(image):
        return tf.image.resize(image, (224, 224), method="bilinear")

    def decoded(encoded, window):
        return tf.image.decode_and_crop_jpeg(encoded, window, channels=3)

    def cropped(encoded):
        box = tf.constant([0.0, 0.0, 1.0, 1.0], shape=[1, 1, 4])
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(encoded),
            box,
            min_object_covered=0.0,
            area_range=(0.08, 1.0),
            aspect_ratio_range=(3 / 4, 4 / 3),
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        )
        window = tf.stack([begin[0], begin[1], size[0], size[1]])
        return tf.image.random_flip_left_right(resized(decoded(encoded, window)))

    def jittered(image):
        factor = tf.random.uniform([], 0.6, 1.4)
        image = tf.clip_by_value(image * factor, 0.0, 255.0)
        image = tf.clip_by_value(tf.image.random_contrast(image, 0.6, 1.4), 0.0, 255.0)
        gray = tf.tensordot(image, tf.constant([0.299, 0.587, 0.114]), 1)[..., tf.newaxis]
        factor = tf.random.uniform([], 0.6, 1.4)
        return tf.clip_by_value(gray + (image - gray) * factor, 0.0, 255.0)

    def centred(encoded):
        shape = tf.io.extract_jpeg_shape(encoded)
        side = tf.cast(tf.cast(tf.minimum(shape[0], shape[1]), tf.float32) * (224 / 256), tf.int32)
        window = tf.stack([(shape[0] - side) // 2, (shape[1] - side) // 2, side, side])
        return resized(decoded(encoded, window))

    def from_files(change):
        paths, labels = listed(job.photos)
        data = tf.data.Dataset.from_tensor_slices((paths, labels))

        def load(path, label):
            return normalized(change(tf.io.read_file(path))), label

        data = data.shuffle(len(paths)).map(load, num_parallel_calls=job.threads)
        return data.batch(job.batch)

    def order():
        return tf.data.Dataset.range(job.count).shuffle(job.count)

    def small():
        pixels = tf.constant(np.load(job.pixels))
        spots = tf.range(32)

        def load(indices):
            images = tf.cast(tf.gather(pixels, indices), tf.float32) - mean
            count = tf.shape(images)[0]
            # x' = sign * x + shift, nearest neighbour: a flip and a translation; zero is the mean colour here.
            sign = tf.where(tf.random.uniform([count]) < 0.5, -1.0, 1.0)
            x = tf.cast(tf.random.uniform([count], -4, 5, tf.int32), tf.float32)
            y = tf.cast(tf.random.uniform([count], -4, 5, tf.int32), tf.float32)
            zero, one = tf.zeros([count]), tf.ones([count])
            x += tf.where(sign < 0, 31.0, 0.0)
            moves = tf.stack([sign, zero, x, zero, one, y, zero, zero], 1)
            images = tf.raw_ops.ImageProjectiveTransformV3(
                images=images,
                transforms=moves,
                output_shape=[32, 32],
                interpolation="NEAREST",
                fill_mode="CONSTANT",
                fill_value=0.0,
            )

            def outside(corner):
                return (spots < corner[:, tf.newaxis]) | (spots >= corner[:, tf.newaxis] + 8)

            rows, columns = (outside(tf.random.uniform([count], 0, 25, tf.int32)) for _ in range(2))
            keep = rows[:, :, tf.newaxis] | columns[:, tf.newaxis, :]
            return images * (tf.cast(keep, tf.float32)[..., tf.newaxis] * scale), indices % 10

        return order().batch(job.batch).map(load, num_parallel_calls=job.threads)

    def crop():
        pixels = tf.constant(np.load(job.pixels))

        def load(index):
            y, x = tf.unstack(tf.random.uniform([2], 0, 33, tf.int32))
            image = tf.slice(pixels, [tf.cast(index, tf.int32), y, x, 0], [1, 224, 224, 3])[0]
            return normalized(tf.image.random_flip_left_right(image)), index % 10

        return order().map(load, num_parallel_calls=job.threads).batch(job.batch)

    data = {
        "W1": lambda: from_files(cropped),
        "W2": lambda: from_files(centred),
        "W3": lambda: from_files(lambda encoded: jittered(cropped(encoded))),
        "W4": small,
        "W5": crop,
    }[job.workload]()
    options = tf.data.Options()
    options.threading.private_threadpool_size = job.threads
    options.deterministic = False
    data = data.prefetch(tf.data.AUTOTUNE).with_options(options)
    return lambda epoch: data
