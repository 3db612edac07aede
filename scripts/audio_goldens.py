#!/usr/bin/env python3
"""Writes small audio files, and their samples as soundfile reads them.

    python scripts/audio_goldens.py tests/golden/audio

Needs soundfile==0.14.0 (libsndfile 1.2.2, libFLAC, libvorbis, LAME, mpg123), numpy==2.4.6, torch==2.15.0 and
torchaudio==2.11.1. `expected.txt` has the SHA-256 of the f32 samples of a file, frame by frame, its sample rate, its channels
and its frames; a `.f32` file has the samples of a lossy one, whose decoders differ in the last bits. `NAME.RATE.f32` has the
samples of a file after `torchaudio.functional.resample`.
"""

import hashlib
import io
import pathlib
import sys

import numpy as np
import soundfile as sf
import torch
import torchaudio.functional


def signal(frames, channels, rate, seed):
    """Returns tones with noise, within -0.9..0.9."""
    rng = np.random.default_rng(seed)
    t = np.arange(frames) / rate
    tones = [0.5 * np.sin(2 * np.pi * (220 + 110 * c) * t) for c in range(channels)]
    noise = rng.uniform(-0.3, 0.3, (frames, channels))
    return np.stack(tones, -1) + noise


FILES = {
    "u8.wav": ("PCM_U8", 500, 1, 8_000),
    "i16.wav": ("PCM_16", 700, 2, 16_000),
    "i24.wav": ("PCM_24", 500, 2, 44_100),
    "i32.wav": ("PCM_32", 500, 1, 16_000),
    "f32.wav": ("FLOAT", 500, 2, 16_000),
    "f64.wav": ("DOUBLE", 300, 1, 16_000),
    "ulaw.wav": ("ULAW", 500, 1, 8_000),
    "i16.flac": ("PCM_16", 14_000, 1, 16_000),
    "i24.flac": ("PCM_24", 1_000, 2, 44_100),
    "mono.mp3": ("MPEG_LAYER_III", 3_000, 1, 16_000),
    "stereo.mp3": ("MPEG_LAYER_III", 3_000, 2, 44_100),
    "stereo.ogg": ("VORBIS", 3_000, 2, 44_100),
    "mono.ogg": ("VORBIS", 3_000, 1, 16_000),
}


RESAMPLED = [("u8.wav", 16_000), ("i16.wav", 44_100), ("i24.wav", 16_000), ("i24.flac", 22_050), ("i24.flac", 96_000)]


def resample(folder):
    """Writes files at other sample rates."""
    for name, rate in RESAMPLED:
        samples, found = sf.read(folder / name, dtype="float32", always_2d=True)
        resampled = torchaudio.functional.resample(torch.from_numpy(samples.T.copy()), found, rate)
        (folder / f"{name}.{rate}.f32").write_bytes(resampled.numpy().T.tobytes())


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for seed, (name, (subtype, frames, channels, rate)) in enumerate(FILES.items()):
        kind = pathlib.Path(name).suffix[1:].upper()
        out = io.BytesIO()
        sf.write(out, signal(frames, channels, rate, seed), rate, subtype=subtype, format=kind)
        data = out.getvalue()
        (folder / name).write_bytes(data)
        samples, found = sf.read(io.BytesIO(data), dtype="float32", always_2d=True)
        assert found == rate
        lines.append(f"{name} {rate} {samples.shape[1]} {samples.shape[0]} {hashlib.sha256(samples.tobytes()).hexdigest()}")
        if kind in ("MP3", "OGG"):
            (folder / f"{name}.f32").write_bytes(samples.tobytes())
    opus = io.BytesIO()
    sf.write(opus, signal(1_000, 1, 16_000, 99), 16_000, subtype="OPUS", format="OGG")
    (folder / "opus.opus").write_bytes(opus.getvalue())
    (folder / "expected.txt").write_text("\n".join(lines) + "\n")
    resample(folder)


if __name__ == "__main__":
    main(sys.argv[1])
