#!/usr/bin/env python3
"""Writes TFRecord files with TensorFlow, and their values.

    python scripts/tfrecord_goldens.py tests/golden/tfrecord        (needs tensorflow)

Each `x.tfrecord` has an `x.json`: a list of records, each with its features (for a SequenceExample, those of
its context) and its feature lists. Bytes are in hexadecimal.
"""

import json
import pathlib
import random
import struct
import sys

import tensorflow as tf

JPEG = bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffd9")
PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452")


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def feature(values):
    if isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def features(values):
    return tf.train.Features(feature={name: feature(value) for name, value in values.items()})


def plain(values):
    return [value.hex() if isinstance(value, bytes) else value for value in values]


def example(rng, k):
    return {
        "image/encoded": [(JPEG if k % 2 == 0 else PNG) + rng.randbytes(k)],
        "image/class/label": [[0, -1, 2**63 - 1, -(2**63), 7][k % 5]],
        "image/class/text": ["größe".encode() * k],
        "score": [f32(rng.uniform(-1e9, 1e9))],
        "box": [f32(rng.random()) for _ in range(4)],
        "ids": [rng.randint(-(2**62), 2**62) for _ in range(3)],
    }


def write(path, protos, compression=""):
    options = tf.io.TFRecordOptions(compression_type=compression)
    with tf.io.TFRecordWriter(str(path), options) as writer:
        for proto in protos:
            writer.write(proto.SerializeToString(deterministic=True))


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(7)

    values = [example(rng, k) for k in range(7)]
    protos = [tf.train.Example(features=features(value)) for value in values]
    for name, compression in [("examples", ""), ("examples_gzip", "GZIP"), ("examples_zlib", "ZLIB")]:
        write(out / f"{name}.tfrecord", protos, compression)
    told = [{"features": {n: plain(v) for n, v in value.items()}, "lists": {}} for value in values]
    (out / "examples.json").write_text(json.dumps(told))

    protos, told = [], []
    for k in range(4):
        context = {"id": [k], "name": [b"n%d" % k]}
        lists = {
            "fixed": [[rng.randint(0, 99) for _ in range(2)] for _ in range(3)],
            "steps": [[f32(rng.random())] for _ in range(k)],
        }
        protos.append(tf.train.SequenceExample(
            context=features(context),
            feature_lists=tf.train.FeatureLists(feature_list={
                name: tf.train.FeatureList(feature=[feature(step) for step in steps])
                for name, steps in lists.items()
            }),
        ))
        told.append({"features": {n: plain(v) for n, v in context.items()}, "lists": lists})
    write(out / "sequences.tfrecord", protos)
    (out / "sequences.json").write_text(json.dumps(told))


main()
