"""Measures clips of videos: CPU time of Fuseloop's decoding and ops beside the decoding alone of TorchCodec, decord and PyAV.

    python benches/peers/clips.py PHOTOS [--rounds 3] [--json clips.json]
    python benches/peers/clips.py PHOTOS --many 6400 [--threads 1,2,4,8,30]

PHOTOS is a folder of JPEGs, of which videos are made that pan over photographs with a little noise: 24 of 300 frames of
340x256 pixels, as Kinetics is often stored, by the command `ffmpeg` in H.264 (x264's defaults, with a key frame in 250
frames), MPEG-4 and Motion JPEG. A clip has 16 frames with stride 4 from a random place. The ops are those of W1, to 224x224
pixels in f32. Each runs on one thread, all take turns in one process, and the best round counts. Needs fuseloop and numpy;
torchcodec, decord and av are measured where they are installed.

With `--many`, the clips are those of a folder of AVI files, half of them MPEG-4 and half Motion JPEG, in batches of 128:
images/s of Fuseloop by the number of threads, of a loop that opens one file after another by OpenCV, and of a queue that
threads of Python fill by OpenCV, as programs without a loader do it. The files are copies of 32 different ones.
"""

import argparse
import datetime
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

FRAMES, STRIDE, SIDE = 16, 4, 224
PEERS = ["torchcodec", "torch", "decord", "av", "opencv-python-headless", "numpy"]
MODES = {"jpg": {}, "tiled": {"tile": 32}, "planes": {"bit_planes": True}}
CODECS = {
    "h264.mp4": ["-c:v", "libx264", "-preset", "medium", "-crf", "23", "-pix_fmt", "yuv420p"],
    "mpeg4.avi": ["-c:v", "mpeg4", "-vtag", "XVID", "-q:v", "4"],
    "mjpeg.avi": ["-c:v", "mjpeg", "-q:v", "4", "-pix_fmt", "yuvj420p"],
}


def make_videos(photos, folder, count, codecs, size=(340, 256), frames=300):
    """Writes `count` videos, each by every codec, to folders that are called as the codecs are."""
    from PIL import Image

    (width, height), rng = size, np.random.default_rng(0)
    for video in range(count):
        pictures = []
        for _ in range(3):
            image = Image.open(photos[rng.integers(len(photos))]).convert("RGB")
            scale = max(width * 1.5 / image.width, height * 1.5 / image.height)
            image = np.asarray(image.resize((int(image.width * scale) + 1, int(image.height * scale) + 1)))
            first, last = rng.uniform(0, 1, 2), rng.uniform(0, 1, 2)
            for t in range(frames // 3):
                y, x = (first + (last - first) * t / (frames / 3)) * (image.shape[0] - height, image.shape[1] - width)
                window = image[int(y) : int(y) + height, int(x) : int(x) + width].astype(np.int16)
                window = window + rng.integers(-3, 4, window.shape)
                pictures.append(np.clip(window, 0, 255).astype(np.uint8).tobytes())
        raw = b"".join(pictures)
        for codec in codecs:
            label = folder / codec / f"class{video % 4}"
            label.mkdir(parents=True, exist_ok=True)
            out = label / f"{video:02}{Path(codec).suffix}"
            source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", "30", "-i", "-"]
            command = ["ffmpeg", "-v", "error", "-y", *source, *CODECS[codec], out]
            subprocess.run(command, input=raw, check=True)


def ours(source, **settings):
    """Returns a function that counts the clips of four epochs."""
    import fuseloop as fl
    from fuseloop import ops

    clips = fl.Clips.random(FRAMES, stride=STRIDE, **settings)
    work = [ops.RandomResizedCrop(SIDE), ops.RandomHorizontalFlip(), ops.Normalize.imagenet(), ops.ToChannelsFirst()]
    loader = fl.Loader(source, 8, order="random", workers=1, clips=clips, video=work)
    return lambda: sum(len(batch["video"]) for _ in range(4) for batch in loader)


def by_peer(read, videos):
    """Returns a function that reads four clips of each video."""
    rng = np.random.default_rng(1)
    clips = [(str(video), int(rng.integers(0, 300 - FRAMES * STRIDE))) for video in videos for _ in range(4)]

    def epoch():
        for video, start in clips:
            assert len(read(video, range(start, start + FRAMES * STRIDE, STRIDE))) == FRAMES
        return len(clips)

    return epoch


def torchcodec(mode):
    import torch
    from torchcodec.decoders import VideoDecoder

    torch.set_num_threads(1)
    return lambda video, frames: VideoDecoder(video, num_ffmpeg_threads=1, seek_mode=mode).get_frames_at(list(frames)).data


def decord():
    import decord

    return lambda video, frames: decord.VideoReader(video, num_threads=1).get_batch(list(frames)).asnumpy()


def pyav():
    import av

    def read(video, frames):
        with av.open(video) as container:
            stream = container.streams.video[0]
            stream.thread_type, stream.codec_context.thread_count = "NONE", 1
            container.seek(int(frames[0] / 30 / stream.time_base), stream=stream)
            found = []
            for frame in container.decode(stream):
                number = round(float(frame.pts * stream.time_base) * 30)
                if number in frames:
                    found.append(frame.to_ndarray(format="rgb24"))
                if number >= frames[-1]:
                    return found

    return read


def clips_per_second(epochs, rounds):
    """Returns the most clips per second of CPU time of each, over rounds that take turns."""
    best = {}
    for epoch in epochs.values():
        epoch()
    for _ in range(rounds):
        for name, epoch in epochs.items():
            start = time.process_time()
            clips = epoch()
            best[name] = max(best.get(name, 0), clips / (time.process_time() - start))
    return best


def megabytes(path):
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files) / 1e6


def compare(photos, folder, rounds):
    """Returns clips per CPU second of all, and the megabytes of what they read."""
    import fuseloop as fl

    make_videos(photos, folder, 24, CODECS)
    h264 = sorted((folder / "h264.mp4").rglob("*.mp4"))
    epochs, sizes = {}, {}
    peers = {
        "TorchCodec": lambda: torchcodec("exact"),
        "TorchCodec, approximate": lambda: torchcodec("approximate"),
        "decord": decord,
        "PyAV": pyav,
    }
    for name, make in peers.items():
        try:
            epochs[name] = by_peer(make(), h264)
            sizes[name] = megabytes(folder / "h264.mp4")
        except ImportError as error:
            print(f"{name} is left out: {error}")
    sources = {
        "H.264, libavcodec": folder / "h264.mp4",
        "MPEG-4, libavcodec": folder / "mpeg4.avi",
        "Motion JPEG": folder / "mjpeg.avi",
    }
    for mode, image in MODES.items():
        sources[f"clip store, {mode}"] = store = folder / f"{mode}.beton"
        fl.write.convert(folder / "h264.mp4", store, image=fl.write.Image(**image), progress=None)
    for name, source in sources.items():
        epochs[name], sizes[name] = ours(source), megabytes(source)
    epochs["clip store, tiled, NCTHW"] = ours(sources["clip store, tiled"], layout="NCTHW")
    sizes["clip store, tiled, NCTHW"] = sizes["clip store, tiled"]
    return clips_per_second(epochs, rounds), sizes


def by_rust(folder):
    """Prints the clips per CPU second of the decoder in Rust. It runs in a process of its own, without libavcodec."""
    print(json.dumps(clips_per_second({"H.264, Rust": ours(Path(folder) / "h264.mp4")}, 2)))


def opencv_clip(video, start):
    """Reads a clip by OpenCV, as programs do it."""
    import cv2

    reader = cv2.VideoCapture(str(video))
    reader.set(cv2.CAP_PROP_POS_FRAMES, start)
    frames = []
    for number in range((FRAMES - 1) * STRIDE + 1):
        found, frame = reader.read()
        if not found:
            break
        if number % STRIDE == 0:
            frames.append(cv2.resize(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB), (SIDE, SIDE)))
    reader.release()
    return np.stack(frames).astype(np.float32) / 255


def many(photos, folder, count, threads, batch, seconds):
    """Returns clips per second of wall time over a folder of `count` AVI files."""
    import fuseloop as fl
    from fuseloop import ops

    codecs = ["mpeg4.avi", "mjpeg.avi"]
    make_videos(photos, folder / "made", 16, codecs, frames=120)
    made = [sorted((folder / "made" / codec).rglob("*.avi")) for codec in codecs]
    for number in range(count):
        label = folder / "avis" / f"class{number % 10}"
        label.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made[number % 2][number // 2 % 16], label / f"{number:05}.avi")
    videos = sorted((folder / "avis").rglob("*.avi"))
    rng, found = np.random.default_rng(2), {}

    def opencv_job():
        return videos[rng.integers(len(videos))], int(rng.integers(0, 120 - FRAMES * STRIDE))

    def measure(name, clips):
        """Counts batches after the first one."""
        next(clips)
        start, done = time.perf_counter(), 0
        for size in clips:
            done += size
            if time.perf_counter() - start > seconds:
                break
        found[name] = done / (time.perf_counter() - start)
        print(f"{name:<34} {found[name]:9.1f} clips/s", flush=True)

    def serial():
        while True:
            yield len(np.stack([opencv_clip(*opencv_job()) for _ in range(batch)]))

    def queued(workers):
        jobs, done, ended = queue.Queue(4 * batch), queue.Queue(2 * batch), threading.Event()

        def work():
            while not ended.is_set():
                clip = opencv_clip(*jobs.get())
                while not ended.is_set():
                    try:
                        done.put(clip, timeout=0.1)
                        break
                    except queue.Full:
                        pass

        team = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
        for worker in team:
            worker.start()
        try:
            while True:
                while not jobs.full():
                    jobs.put(opencv_job())
                yield len(np.stack([done.get() for _ in range(batch)]))
                for _ in range(batch):
                    jobs.put(opencv_job())
        finally:
            ended.set()
            for _ in team:
                jobs.put(opencv_job())

    def epochs(workers):
        work = [ops.Resize((SIDE, SIDE)), ops.Convert("float32"), ops.ToChannelsFirst()]
        clips = fl.Clips.random(FRAMES, stride=STRIDE)
        loader = fl.Loader(folder / "avis", batch, order="random", workers=workers, clips=clips, video=work)
        while True:
            for loaded in loader:
                yield len(loaded["video"])

    measure("OpenCV, one after another", serial())
    for workers in threads:
        measure(f"OpenCV, a queue of {workers} threads", queued(workers))
    for workers in threads:
        measure(f"Fuseloop, {workers} threads", epochs(workers))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--many", type=int, default=0, metavar="FILES", help="measure a folder of this number of AVI files instead")
    parser.add_argument("--threads", default="1,2,4,8,30", help="numbers of threads for --many (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=128, help="clips of a batch for --many (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=20, help="seconds of each for --many (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="file for the figures")
    args = parser.parse_args()
    photos = sorted(path for path in args.photos.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        if args.many:
            threads = [int(count) for count in args.threads.split(",")]
            found = many(photos, folder, args.many, threads, args.batch, args.seconds)
            figures = {"files": args.many, "batch": args.batch, "clips_per_s": found}
        else:
            found, sizes = compare(photos, folder, args.rounds)
            here = {**os.environ, "FUSELOOP_LIBAVCODEC": "none"}
            code = "import clips, sys; clips.by_rust(sys.argv[1])"
            command = [sys.executable, "-c", code, folder]
            rust = subprocess.run(command, env=here, cwd=Path(__file__).parent, check=True, capture_output=True, text=True)
            found |= json.loads(rust.stdout)
            sizes["H.264, Rust"] = sizes["H.264, libavcodec"]
            yardstick = found.get("TorchCodec")
            for name, rate in found.items():
                ratio = f"{rate / yardstick:6.2f} of TorchCodec" if yardstick else ""
                print(f"{name:<26} {rate:8.1f} clips/CPU s {ratio} {sizes[name]:8.1f} MB")
            figures = {"clips_per_cpu_s": found, "megabytes": sizes}
    if args.json:
        import run

        result = {
            "hardware": run.hardware(1) | {"threads": "one thread"},
            "date": datetime.date.today().isoformat(),
            "versions": run.installed("fuseloop", *PEERS),
            "command": " ".join(["python benches/peers/clips.py PHOTOS", *(["--many", str(args.many)] if args.many else [])]),
            **figures,
        }
        args.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
