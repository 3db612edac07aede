"""Writes audio.json and audio.bin: the deviation of audiomentations' AddGaussianSNR, and librosa's to_mono.

A case has `bytes` of audio.bin, in the order of the cases, and its number of channels. Those of add_gaussian_snr are
a signal of f32, with the deviation of the noise for each ratio in decibels. Those of to_mono are a signal of type
`dtype`, and then its mean, which NumPy computes of int16 as float64 and rounds half to even.

    pip install audiomentations librosa numpy
    python audio.py
"""

import importlib.metadata
import json
import random
from pathlib import Path

import librosa
import numpy as np
from audiomentations import AddGaussianSNR

HERE = Path(__file__).parent
LIBRARIES = ["audiomentations", "librosa", "numpy"]
RATIOS = [-10.0, 0.0, 5.0, 17.5, 40.0]


def signals():
    """Yields signals of one channel, and one of two channels that are equally loud."""
    draws = np.random.default_rng(7)
    ramp = np.linspace(-1, 1, 333, dtype=np.float32)
    yield draws.normal(0, 0.2, (1, 1001)).astype(np.float32)
    yield ramp[None]
    yield np.stack([ramp, -ramp])
    yield (30000 * np.sin(np.arange(4096) * 0.05))[None].astype(np.float32)


def mixed():
    """Yields signals and their means."""
    draws = np.random.default_rng(8)
    for channels in [1, 2, 3, 6, 7]:
        signal = draws.normal(0, 0.3, (channels, 257)).astype(np.float32)
        signal[:, :3] = [-0.0, 1e30, 1e-40]
        mono = librosa.to_mono(signal) if channels > 1 else signal[0]
        yield signal, mono
        whole = draws.integers(-32768, 32767, (channels, 257), np.int16, endpoint=True)
        yield whole, np.rint(whole.mean(axis=0)).astype(np.int16)


def main():
    cases, data = [], []
    for signal, mono in mixed():
        assert signal.dtype == mono.dtype
        case = {"op": "to_mono", "channels": len(signal), "dtype": str(signal.dtype)}
        cases.append({**case, "bytes": signal.nbytes + mono.nbytes})
        data += [signal.tobytes(), mono.tobytes()]
    for signal in signals():
        deviations = []
        for ratio in RATIOS:
            random.seed(1)
            op = AddGaussianSNR(min_snr_db=ratio, max_snr_db=ratio, p=1.0)
            op.randomize_parameters(signal, 16000)
            deviations.append([ratio, op.parameters["noise_std"]])
        cases.append({"op": "add_gaussian_snr", "channels": len(signal), "deviations": deviations,
                      "bytes": signal.nbytes})  # fmt: skip
        data.append(signal.tobytes())
    made_by = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES)
    lines = ",\n".join("  " + json.dumps(case, allow_nan=False) for case in cases)
    (HERE / "audio.json").write_text(f'{{"made_by": {json.dumps(made_by)}, "cases": [\n{lines}\n]}}\n')
    (HERE / "audio.bin").write_bytes(b"".join(data))


main()
