"""Writes arrays.json and arrays.bin: NumPy's clip, MONAI's ScaleIntensityRange, audiomentations' Gain and
PolarityInversion, Albumentations' channel_dropout, and the masks of torchaudio.

A case with `bytes` has so many bytes of arrays.bin, in the order of the cases. The first one is the input `values`,
1024 f32 that the cases with `"input": "values"` change; those with `"input": "levels"` change 0..=255 as u8.
The two random numbers of a mask, times 2^24, are the first two of Fuseloop's generator with the seed of the case.

Needs NumPy, PyTorch and MONAI, and the sources of torchaudio, audiomentations and Albumentations, which are
not imported (they need libraries that these functions do not use):

    pip install numpy torch monai
    pip install --no-deps torchaudio audiomentations albumentations
    python arrays.py
"""

import ast
import hashlib
import importlib.metadata
import importlib.util
import json
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from monai.transforms import ScaleIntensityRange

HERE = Path(__file__).parent
LIBRARIES = ["numpy", "torch", "monai", "torchaudio", "audiomentations", "albumentations"]
# a_min, a_max, b_min, b_max
SCALES = [(-160.0, 240.0, 0.0, 1.0), (-1000.0, 400.0, -1.0, 1.0), (-57.3, 164.9, 0.0, 255.0), (0.0, 255.0, 0.0, 1.0),
          (0.0, 3071.0, 100.0, 101.0)]  # fmt: skip
CLIPS = [(-160.0, 240.0), (0.0, 0.0), (-np.inf, 100.5), (16.0, 235.0)]
GAINS = [-40.0, -12.0, -3.5, 0.0, 6.0, 12.0, 20.0]
# mask_param, p, length of the axis
MASKS = [(27, 1.0, 80), (100, 1.0, 1000), (100, 0.2, 300), (100, 0.2, 1000), (8, 0.5, 13), (40, 1.0, 16), (1, 1.0, 64),
         (100, 0.01, 64), (65535, 1.0, 65535)]  # fmt: skip


def functions(package, path, *names, **known):
    """Returns functions of a package's file without importing the package."""
    (folder,) = importlib.util.find_spec(package).submodule_search_locations
    tree = ast.parse((Path(folder) / path).read_text())
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    for function in tree.body:
        function.decorator_list = []
    exec(compile(ast.unparse(tree), path, "exec", flags=1 << 24), known)  # 1 << 24: annotations stay text
    return [known[name] for name in names]


MASK_ALONG_AXIS, _ = functions(
    "torchaudio", "functional/functional.py", "mask_along_axis", "_get_mask_param", torch=torch)  # fmt: skip
(CHANNEL_DROPOUT,) = functions(
    "albumentations", "augmentations/dropout/functional.py", "channel_dropout",
    np=np, is_grayscale_image=lambda image: image.shape[-1] == 1)  # fmt: skip
(AMPLITUDE_RATIO,) = functions("audiomentations", "core/utils.py", "convert_decibels_to_amplitude_ratio")


def units(seed):
    """Yields what `Rng::new(seed).unit()` returns: SplitMix64 seeds Xoshiro256++, whose upper 24 bits it takes."""
    word = (1 << 64) - 1

    def rotated(value, bits):
        return (value << bits | value >> (64 - bits)) & word

    state = []
    for _ in range(4):
        seed = (seed + 0x9E3779B97F4A7C15) & word
        z = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9 & word
        z = (z ^ z >> 27) * 0x94D049BB133111EB & word
        state.append(z ^ z >> 31)
    while True:
        yield np.float32((rotated((state[0] + state[3]) & word, 23) + state[0] & word) >> 40) * np.float32(2**-24)
        shifted = state[1] << 17 & word
        state[2] ^= state[0]
        state[3] ^= state[1]
        state[1] ^= state[2]
        state[0] ^= state[3]
        state[2] ^= shifted
        state[3] = rotated(state[3], 45)


def values():
    """Hounsfield units, samples of audio, and numbers that are none."""
    audio = np.random.default_rng(6).normal(0, 0.3, 1024 - 512 - 4)
    special = [np.nan, np.inf, -np.inf, -0.0]
    return np.concatenate([np.arange(-1024, 3072, 8), audio, special]).astype(np.float32)


def scaled(array, name):
    for a_min, a_max, b_min, b_max in SCALES:
        for clip in [False, True]:
            params = {"a_min": a_min, "a_max": a_max, "b_min": b_min, "b_max": b_max, "clip": clip}
            result = np.asarray(ScaleIntensityRange(**params)(array), np.float32)
            yield {"op": "scale_intensity_range", "input": name, **params}, result


def clipped(array, name):
    for low, high in CLIPS:
        bounds = low if np.isfinite(low) else None, high
        bounds = bounds if array.dtype != np.uint8 else np.clip([low, high], 0, 255).astype(np.uint8)
        case = {"op": "clip", "input": name, "low": None if np.isinf(low) else low, "high": high}
        if array.dtype != np.uint8 or high == int(high):
            yield case, np.clip(array, *bounds)


def signals(array):
    for db in GAINS:
        yield {"op": "gain", "input": "values", "db": db}, array * AMPLITUDE_RATIO(db)
    yield {"op": "polarity_inversion", "input": "values"}, -array


def dropped():
    levels = np.arange(256, dtype=np.uint8)
    pixels = np.stack([levels, levels[::-1], levels ^ 0x55], axis=-1).reshape(8, 32, 3)
    for channels in [(0,), (1,), (2,), (0, 2), (1, 2)]:
        for fill in [0, 77]:
            out = CHANNEL_DROPOUT(pixels, channels, fill)
            sha256 = hashlib.sha256(out.tobytes()).hexdigest()
            yield {"op": "channel_dropout", "channels": channels, "fill": fill, "sha256": sha256}


def masks():
    for mask_param, p, length in MASKS:
        for axis in [0, 1]:
            for seed in range(12):
                generator = units(seed)
                drawn = [next(generator), next(generator)]
                shape = (length, 2) if axis == 0 else (2, length)
                rest = [torch.tensor([unit]) for unit in drawn]
                with mock.patch.object(torch, "rand", lambda _: rest.pop(0)):
                    mask = MASK_ALONG_AXIS(torch.zeros(shape), mask_param, 1.0, axis, p)
                assert (mask == mask.select(1 - axis, 0).unsqueeze(1 - axis)).all(), "a mask is a band"
                covered = mask.select(1 - axis, 0).nonzero().flatten().tolist()
                band = [covered[0], len(covered)] if covered else [0, 0]
                assert covered == list(range(band[0], sum(band)))
                yield {"op": "mask_along_axis", "mask_param": mask_param, "p": p, "axis": axis, "len": length,
                       "seed": seed, "draws": [int(unit * 2**24) for unit in drawn], "band": band}  # fmt: skip


def main():
    floats, levels = values(), np.arange(256, dtype=np.uint8)
    cases, data = [{"op": "values", "bytes": floats.nbytes}], [floats.tobytes()]
    for made in [scaled(floats, "values"), scaled(levels.astype(np.float32), "levels"), clipped(floats, "values"),
                 clipped(levels, "levels"), signals(floats)]:  # fmt: skip
        for case, result in made:
            assert result.dtype == (np.uint8 if case["op"] == "clip" and case["input"] == "levels" else np.float32)
            cases.append({**case, "bytes": result.nbytes})
            data.append(result.tobytes())
    cases += [*dropped(), *masks()]
    made_by = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES)
    lines = ",\n".join("  " + json.dumps(case, allow_nan=False) for case in cases)
    (HERE / "arrays.json").write_text(f'{{"made_by": {json.dumps(made_by)}, "cases": [\n{lines}\n]}}\n')
    (HERE / "arrays.bin").write_bytes(b"".join(data))


main()
