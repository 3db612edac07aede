#!/usr/bin/env python3
"""Compares the frames and times of random video files with those of ffmpeg.

    python scripts/video_sweep.py [--files 200] [--seed 0] [--keep FOLDER]

Makes each file from a drawn codec, container, profile, size, rate, group of pictures and number of B frames: open groups,
variable rates, edit lists, packed B frames, sizes that are no multiple of 16, and rotations are among them. All frames of a file
are loaded as one clip, by libavcodec and, for H.264, by the decoder in Rust, and are compared with those that `ffmpeg`
decodes and converts by its accurate arithmetic. Prints the largest difference of a level, the share of levels that differ by
more than 1, and each file that fails: it has another number of frames, other times, other bits by the two decoders, or more
than 2 % of such levels, which lie at edges of saturated colours. The frames of Motion JPEG are compared with those that
libjpeg decodes, by Pillow, since the IDCT of ffmpeg is another one: no level may differ by more than 4. Needs fuseloop, Pillow,
and ffmpeg 5.1 with libx264, libx265, libvpx and libxvid.

FUSELOOP_LIBAVCODEC selects the libavcodec that fuseloop loads; ffmpeg is the same for all. LD_LIBRARY_PATH is set to its folder
for fuseloop alone.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

import fuseloop as fl
from fuseloop import ops

PLACES = {"420": "in_h_chr_pos=0:in_v_chr_pos=128", "422": "in_h_chr_pos=0", "444": "in_h_chr_pos=-513"}


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.decode(errors='replace')[-500:]}")
    return done.stdout


def drawn(rng):
    """Draws a file: its extension, source, number of frames and ffmpeg's arguments."""
    width, height = 2 * rng.randint(8, 60), 2 * rng.randint(8, 50)
    frames, rate = rng.randint(3, 60), rng.choice(["25", "30", "30000/1001", "12", "60", "50", "24000/1001"])
    source = f"testsrc2=size={width}x{height}:rate={rate},noise=all_seed={rng.randint(0, 999)}:alls={rng.randint(0, 12)}:allf=t"
    extra = []
    if rng.random() < 0.15:
        source += ",fade=in:0:8,fade=out:12:8"
    codec = rng.choice(["x264"] * 8 + ["mpeg4", "xvid", "mpeg2", "hevc", "vp8", "vp9", "mjpeg"])
    groups, between = rng.choice([1, 2, 5, 12, 30, 250]), rng.choice([0, 0, 1, 2, 3, 5, 7])
    if codec == "x264":
        suffix = rng.choice(["mp4", "mp4", "mp4", "mov", "mkv", "avi" if between == 0 else "mp4"])
        options = [f"keyint={groups}", f"bframes={between}", "threads=1", f"ref={rng.choice([1, 2, 4, 8, 16])}"]
        choices = [
            "open-gop=1:b-adapt=0", "no-cabac=1", "8x8dct=0", "weightp=2", "weightp=0", "b-pyramid=strict", "b-pyramid=normal",
            "direct=temporal", "direct=spatial", "partitions=all:subme=9", "slices=4", "slice-max-size=200", "constrained-intra=1",
            "no-deblock=1", "deblock=3,-3", "cqm=jvt", "chroma-qp-offset=5", "tff=1", "bff=1", "fake-interlaced=1", "aud=1",
            "scenecut=0", "mixed-refs=1", "trellis=2", "intra-refresh=1:bframes=0", "force-cfr=1",
        ]  # fmt: skip
        options += rng.sample(choices, rng.randint(0, 4))
        pixels = rng.choice(["yuv420p"] * 6 + ["yuvj420p", "gray", "yuv422p", "yuv420p10le"])
        arguments = ["-c:v", "libx264", "-pix_fmt", pixels, "-crf", rng.randint(8, 45), "-preset", rng.choice(["veryfast", "medium", "slow"])]
        arguments += ["-x264-params", ":".join(options)]
    elif codec == "mpeg4":
        suffix = rng.choice(["avi", "mp4", "mkv"])
        arguments = ["-c:v", "mpeg4", "-q:v", rng.randint(2, 12), "-g", groups, "-bf", min(between, 2)]
        arguments += rng.choice([[], ["-vtag", "XVID"]] if suffix == "avi" else [[]])
        arguments += rng.choice([[], ["-flags", "+mv4+aic"], ["-flags", "+qpel"]])
    elif codec == "xvid":
        suffix = "avi"
        arguments = ["-c:v", "libxvid", "-q:v", rng.randint(2, 12), "-g", groups, "-bf", min(between, 2)]
    elif codec == "mpeg2":
        suffix = rng.choice(["mp4", "mkv"])
        source = source.replace(f"rate={rate}", "rate=25")
        arguments = ["-c:v", "mpeg2video", "-q:v", rng.randint(2, 12), "-g", min(groups, 30), "-bf", min(between, 2)]
    elif codec == "hevc":
        suffix = rng.choice(["mp4", "mkv"])
        options = f"log-level=none:bframes={min(between, 4)}:keyint={max(groups, 2)}:open-gop={rng.randint(0, 1)}"
        arguments = ["-c:v", "libx265", "-pix_fmt", rng.choice(["yuv420p", "yuv420p10le"]), "-x265-params", options]
    elif codec in ("vp8", "vp9"):
        suffix = rng.choice(["webm", "mkv"])
        name = {"vp8": "libvpx", "vp9": "libvpx-vp9"}[codec]
        arguments = ["-c:v", name, "-pix_fmt", "yuv420p", "-b:v", "200k", "-g", groups, "-auto-alt-ref", rng.randint(0, 1)]
        arguments += ["-lag-in-frames", 10]
    else:
        suffix = rng.choice(["avi", "mov", "mkv"])
        pixels = rng.choice(["yuvj420p", "yuvj422p", "yuvj444p"])
        arguments = ["-c:v", "mjpeg", "-q:v", rng.randint(2, 8), "-pix_fmt", pixels, "-huffman", rng.choice(["default", "optimal"])]
    if suffix in ("mp4", "mov", "mkv") and codec != "mpeg2" and rng.random() < 0.2:
        source += f",select=not(mod(n\\,{rng.randint(2, 4)}))+not(mod(n\\,7))"
        extra += ["-vsync", "vfr"]
    cut = None
    if suffix in ("mp4", "mov") and rng.random() < 0.25:
        # A copy that begins within a group, whose edit list hides the frames before it.
        cut = round(rng.uniform(0.05, frames / 30 / 2), 3)
    turn = rng.choice([90, 180, 270]) if suffix in ("mp4", "mov") and rng.random() < 0.15 else 0
    return codec, suffix, source, frames, [*arguments, *extra], cut, turn


def make(folder, number, what):
    codec, suffix, source, frames, arguments, cut, turn = what
    path = folder / f"{number:03}" / "a" / f"{codec}.{suffix}"
    path.parent.mkdir(parents=True)
    run("ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", source, "-frames:v", frames, *arguments, path)
    for arguments in ([] if cut is None else [["-ss", cut]]), ([] if not turn else [["-display_rotation", turn]]):
        for argument in arguments:
            other = path.with_name(f"copied.{suffix}")
            if argument[0] == "-display_rotation":
                command = ["-i", path, "-c", "copy", "-metadata:s:v", f"rotate={argument[1]}", other]
            else:
                command = [*argument, "-i", path, "-c", "copy", other]
            run("ffmpeg", "-v", "error", "-y", *command)
            other.replace(path)
    return path


def expected(path):
    """Returns the frames as ffmpeg shows them, and their times."""
    found = json.loads(run("ffprobe", "-v", "error", "-select_streams", "v", "-show_frames", "-show_streams", "-of", "json", path))
    if not found["frames"]:
        raise RuntimeError("the copy begins after the last frame")
    times = [float(frame.get("best_effort_timestamp_time", "nan")) for frame in found["frames"]]
    stream, first = found["streams"][0], found["frames"][0]
    pixels = first["pix_fmt"]
    layout = next((place for place in PLACES if place in pixels), "444")
    matrix = {"bt709": "bt709", "bt2020nc": "bt2020"}.get(stream.get("color_space"), "bt601")
    scale = "pc" if stream.get("color_range") == "pc" or pixels.startswith("yuvj") else "tv"
    if pixels.endswith("10le"):
        return None, times
    # Turned here, since ffmpeg turns planes, and then takes chroma to lie where it lay before.
    turns = [data["rotation"] // 90 for data in stream.get("side_data_list", []) if "rotation" in data]
    if stream["codec_name"] == "mjpeg":
        return np.rot90(jpegs(path), sum(turns), axes=(1, 2)), times
    flags, place = "accurate_rnd+full_chroma_int+bicubic", PLACES[layout]
    convert = f"scale=in_color_matrix={matrix}:in_range={scale}:out_range=pc:{place}:flags={flags},format=rgb24"
    if pixels.startswith("gray"):
        convert = f"scale=in_range={scale}:out_range=pc:flags={flags},format=rgb24"
    rgb = run("ffmpeg", "-v", "error", "-threads", "1", "-noautorotate", "-i", path, "-map", "0:v:0", "-fps_mode", "passthrough", "-vf", convert, "-f", "rawvideo", "-")
    rgb = np.frombuffer(rgb, np.uint8).reshape(-1, stream["height"], stream["width"], 3)
    return np.rot90(rgb, sum(turns), axes=(1, 2)), times


def jpegs(path):
    """Returns the frames of Motion JPEG as libjpeg decodes them."""
    with tempfile.TemporaryDirectory() as folder:
        run("ffmpeg", "-v", "error", "-i", path, "-map", "0:v:0", "-c", "copy", "-bsf:v", "mjpeg2jpeg", "-f", "image2", f"{folder}/%05d.jpg")
        return np.stack([np.asarray(Image.open(file).convert("RGB")) for file in sorted(Path(folder).iterdir())])


def loaded(path, frames, size, backend):
    """Returns all frames of a file and their times, in a process of its own, which the backend is set for."""
    code = f"import video_sweep; video_sweep.load({str(path)!r}, {frames}, {size!r})"
    env = {**os.environ, "FUSELOOP_LIBAVCODEC": backend} if backend else {**os.environ}
    library = env.get("FUSELOOP_LIBAVCODEC")
    if library not in (None, "none"):
        # The other libraries that it needs.
        env["LD_LIBRARY_PATH"] = str(Path(library).parent)
    got = run(sys.executable, "-c", code, env=env, cwd=Path(__file__).parent)
    count = frames * size[0] * size[1] * 3
    return np.frombuffer(got[:count], np.uint8).reshape(-1, *size, 3), np.frombuffer(got[count:], np.float64)


def load(path, frames, size):
    clips = fl.Clips.random(frames, on_short="error")
    loader = fl.Loader(Path(path).parent.parent, 1, clips=clips, video=[ops.CenterCrop(size)], workers=1)
    batch = next(iter(loader))
    sys.stdout.buffer.write(np.ascontiguousarray(batch["video"]).tobytes())
    sys.stdout.buffer.write(np.ascontiguousarray(batch["pts"]).tobytes())


def compare(path, frames, codec):
    """Yields a line for each backend: what differs, and whether that is a failure."""
    rgb, times = frames
    if rgb is None:
        size = None
    else:
        size = rgb.shape[1:3]
    others = []
    if path.suffix == ".avi":
        packets = json.loads(run("ffprobe", "-v", "error", "-show_packets", "-of", "json", path))["packets"]
        if any(int(other["dts"]) > int(packet["dts"]) + 1 for packet, other in zip(packets, packets[1:])):
            yield "libavcodec", "empty packets, which repeat a frame and have none in ffmpeg, are not compared", False
            return
    for backend in [None, "none"] if codec in ("x264", "mjpeg") else [None]:
        name = "Rust" if backend else "libavcodec"
        if size is None:
            yield name, "10 bits are not compared", False
            continue
        try:
            got, pts = loaded(path, len(rgb), size, backend)
        except RuntimeError as error:
            last = str(error).strip().splitlines()[-1]
            yield name, last, True
            continue
        apart = np.abs(got.astype(np.int16) - rgb)
        share = (apart > 1).mean()
        if path.suffix == ".avi":
            times = np.asarray(times) - times[0]  # ffmpeg's are those of decoding, if there are B frames
        late = np.nanmax(np.abs(np.asarray(times[: len(pts)]) - pts), initial=0)
        others.append(got)
        if not np.array_equal(got, others[0]):
            yield name, "other bits than by libavcodec", True
            continue
        is_other = apart.max() > 4 if codec == "mjpeg" else share > 0.02
        yield name, f"at most {apart.max()}, {100 * share:.4f} % of levels by more than 1, times by {late:.4f} s", bool(is_other or late > 1e-3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for the files that fail")
    args = parser.parse_args()
    failed = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.files):
            what = drawn(random.Random(f"{args.seed} {number}"))
            try:
                path = make(Path(folder), number, what)
                frames = expected(path)
            except RuntimeError as error:
                print(f"{number:03} is not made: {str(error).splitlines()[-1][:150]}")
                continue
            for name, line, is_failure in compare(path, frames, what[0]):
                compared += 1
                failed += is_failure
                print(f"{number:03} {path.name:<12} {name:<10} {line}{'  FAILED' if is_failure else ''}", flush=True)
                if is_failure:
                    print("    ", " ".join(map(str, what)))
                    if args.keep:
                        args.keep.mkdir(parents=True, exist_ok=True)
                        (args.keep / f"{number:03}{path.suffix}").write_bytes(path.read_bytes())
    print(f"{compared} comparisons, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
