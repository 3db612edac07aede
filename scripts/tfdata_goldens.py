"""Writes the orders of items that tf.data yields, for tests/stream: tests/golden/tfdata/orders.json.

    pip install tensorflow-cpu && python scripts/tfdata_goldens.py

Each case has the request and the resulting order; the items of stream i are 100 * i, 100 * i + 1, ...
"""

import json
import pathlib

import tensorflow as tf

LENGTHS = [[3, 1, 2], [4, 4, 4], [0, 3, 0, 2, 5], [1, 7, 2, 6, 3, 0, 4], [5], [2, 2, 0, 0, 0, 3]]


def stream(i, length):
    return tf.data.Dataset.range(100 * i, 100 * i + length)


def numbers(dataset):
    return [[int(n) for n in item] if isinstance(item, tuple) else int(item)
            for item in dataset.as_numpy_iterator()]


def interleaves():
    for lengths in LENGTHS:
        table = tf.constant(lengths, tf.int64)
        for cycle in (1, 2, 3, 8):
            for block in (1, 2, 3):
                made = tf.data.Dataset.range(len(lengths)).interleave(
                    lambda i: tf.data.Dataset.range(100 * i, 100 * i + table[i]),
                    cycle_length=cycle, block_length=block, num_parallel_calls=None)
                yield {"op": "interleave", "lengths": lengths, "cycle_length": cycle,
                       "block_length": block, "gives": numbers(made)}


def others():
    for lengths in LENGTHS:
        parts = [stream(i, n) for i, n in enumerate(lengths)]
        yield {"op": "zip", "lengths": lengths, "gives": numbers(tf.data.Dataset.zip(tuple(parts)))}
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.concatenate(part)
        yield {"op": "concat", "lengths": lengths, "gives": numbers(whole)}
        for n in (0, 1, 4, 100):
            yield {"op": "take", "lengths": lengths, "n": n, "gives": numbers(whole.take(n))}
            yield {"op": "skip", "lengths": lengths, "n": n, "gives": numbers(whole.skip(n))}
        yield {"op": "repeat", "lengths": lengths, "n": 3, "gives": numbers(whole.repeat(3))}


cases = [*interleaves(), *others()]
out = pathlib.Path(__file__).parent.parent / "tests/golden/tfdata/orders.json"
out.parent.mkdir(parents=True, exist_ok=True)
lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
out.write_text(f'{{"tensorflow":"{tf.__version__}","cases":[\n{lines}\n]}}\n')
print(f"{len(cases)} cases, {out.stat().st_size} bytes")
