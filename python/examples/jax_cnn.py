"""Trains a small CNN with JAX, on all devices that there are.

    python examples/jax_cnn.py
    XLA_FLAGS=--xla_force_host_platform_device_count=2 python examples/jax_cnn.py

Needs JAX only. On one device, the arrays share the memory of the batch; over several, each device gets its part.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import fuseloop as fl
from fuseloop import ops

CLASSES = 4


def draw(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws stripes of four directions in any colour, under noise."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, count)
    angles = (labels * np.pi / CLASSES)[:, None, None]
    y, x = np.mgrid[:32, :32]
    waves = np.sin(x * np.cos(angles) + y * np.sin(angles) + rng.uniform(0, 6, (count, 1, 1)))
    colors = rng.uniform(20, 60, (count, 1, 1, 3))
    pictures = 128 + waves[..., None] * colors + rng.normal(0, 25, (count, 32, 32, 3))
    return np.clip(pictures, 0, 255).astype(np.uint8), labels


def initial(seed: int) -> dict[str, Any]:
    keys = jax.random.split(jax.random.key(seed), 3)
    shapes = {"first": (3, 3, 3, 16), "second": (3, 3, 16, 32)}
    weights = {
        name: jax.random.normal(key, shape) * (2 / np.prod(shape[:3])) ** 0.5
        for key, (name, shape) in zip(keys[:2], shapes.items(), strict=True)
    }
    return {**weights, "last": jax.random.normal(keys[2], (32, CLASSES)) * 0.1}


def scores(weights: dict[str, Any], images: jax.Array) -> jax.Array:
    for name in ("first", "second"):
        images = jax.lax.conv_general_dilated(
            images, weights[name], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        images = jax.nn.relu(images)
    return images.mean(axis=(1, 2)) @ weights["last"]


def loss(weights: dict[str, Any], images: jax.Array, labels: jax.Array) -> jax.Array:
    chances = jax.nn.log_softmax(scores(weights, images))
    return -jnp.take_along_axis(chances, labels[:, None], axis=1).mean()


@jax.jit
def step(weights: dict[str, Any], images: jax.Array, labels: jax.Array) -> tuple[dict[str, Any], jax.Array]:
    value, gradient = jax.value_and_grad(loss)(weights, images, labels)
    return jax.tree.map(lambda one, change: one - 0.3 * change, weights, gradient), value


def train(folder: Path, epochs: int, samples: int) -> list[float]:
    """Trains. Returns the mean loss of each epoch."""
    path = folder / "stripes.beton"
    fl.write.write(zip(*draw(samples, 1), strict=True), path, image=fl.write.Image("raw"), progress=None)
    devices = jax.devices()
    split = NamedSharding(Mesh(np.array(devices), ("data",)), PartitionSpec("data"))
    loader = fl.jax.Loader(
        path,
        40,
        order="random",
        drop_last=True,
        sharding=split if len(devices) > 1 else None,
        image=[ops.RandomCrop(32, padding=4), ops.Normalize((0.5,) * 3, (0.25,) * 3)],
    )
    weights, means = initial(0), []
    for epoch in range(epochs):
        losses = []
        for batch in loader:
            weights, value = step(weights, batch["image"], batch["label"])
            losses.append(value)
        means.append(float(jnp.stack(losses).mean()))
        print(f"epoch {epoch}: loss {means[-1]:.3f}", file=sys.stderr)
    return means


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        train(Path(scratch), epochs=10, samples=4000)
