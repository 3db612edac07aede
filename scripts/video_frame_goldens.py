#!/usr/bin/env python3
"""Writes small video files, and the hashes of their frames as ffmpeg decodes them.

    python scripts/video_frame_goldens.py video/tests/golden/frames tests/golden/yuv

Needs ffmpeg 5.1 with libx264, libx265, libvpx and libxvid on the path. `frames.txt` has a line for each file: its name, its pixel
format, its width and height, its frames, and the SHA-256 of the planes of all frames in presentation order, without padding, samples of 10 bits rounded to 8.
In the second folder, `FORMAT.yuv` has the planes of a picture, and `FORMAT.MATRIX.RANGE.rgb` its RGB pixels as swscale converts
them with its accurate arithmetic, its bicubic filter, and chroma on the left pixel.
"""

import hashlib
import pathlib
import subprocess
import sys

SOURCE = "testsrc2=size={size}:rate=25,noise=all_seed=7:alls=5:allf=t"
# A still that moves, fades and is cut: weights, skipped macroblocks and scene changes.
FADING = SOURCE + ",fade=in:0:12,fade=out:10:10"


def x264(options, frames=20, size="64x48", source=SOURCE, pixels="yuv420p", extra=()):
    return source.format(size=size), frames, ["-c:v", "libx264", "-pix_fmt", pixels, *extra, "-crf", "28", "-x264-params", options + ":threads=1"]


def other(arguments, frames=20, size="64x48", source=SOURCE):
    return source.format(size=size), frames, arguments


FILES = {
    "baseline.mp4": x264("keyint=12", extra=["-profile:v", "baseline"]),
    "main.mp4": x264("keyint=12:bframes=2", extra=["-profile:v", "main"]),
    "high.mp4": x264("keyint=250"),
    "high.mkv": x264("keyint=10:bframes=3"),
    "high.mov": x264("keyint=10:bframes=1"),
    "annex_b.avi": x264("keyint=12:bframes=0"),
    "long.avi": x264("keyint=250:bframes=2", size="16x16", frames=80),
    "cavlc.mp4": x264("no-cabac=1:bframes=3"),
    "cavlc_8x8.mp4": x264("no-cabac=1:8x8dct=1:bframes=2:ref=4"),
    "no_8x8.mp4": x264("8x8dct=0:bframes=2"),
    "pyramid_normal.mp4": x264("bframes=7:b-pyramid=normal:b-adapt=0:keyint=20"),
    "pyramid_strict.mp4": x264("bframes=7:b-pyramid=strict:b-adapt=0"),
    "open_gop.mp4": x264("keyint=8:min-keyint=8:open-gop=1:bframes=3:b-adapt=0", frames=28),
    "open_gop_pyramid.mp4": x264("keyint=9:min-keyint=9:open-gop=1:bframes=5:b-adapt=0:b-pyramid=normal", frames=28),
    "weighted_p.mp4": x264("weightp=2:bframes=0:ref=3", source=FADING),
    "weighted_b.mp4": x264("weightb=1:bframes=4:b-adapt=0:weightp=2", source=FADING),
    "temporal_direct.mp4": x264("direct=temporal:bframes=4:b-adapt=0:ref=4"),
    "spatial_direct.mp4": x264("direct=spatial:bframes=4:b-adapt=0:ref=4:partitions=all:subme=9:me=umh"),
    "small_partitions.mp4": x264("partitions=all:subme=10:me=esa:trellis=2:psy-rd=1.2,0.2:bframes=2:crf=12"),
    "sixteen_references.mp4": x264("ref=16:bframes=3:keyint=250", frames=32),
    "four_slices.mp4": x264("slices=4:bframes=2"),
    "many_slices.mp4": x264("slice-max-size=150:bframes=2"),
    "cropped.mp4": x264("bframes=2", size="58x42"),
    "cropped_slices.mp4": x264("slices=3:bframes=2", size="58x42", frames=8),
    "cropped_left.mp4": x264("bframes=2", size="80x48", frames=8, extra=["-bsf:v", "h264_metadata=crop_left=6:crop_right=4:crop_top=2"]),
    "tiny.mp4": x264("bframes=2", size="16x16", frames=8),
    "wide.mp4": x264("bframes=2", size="98x18"),
    "variable_rate.mp4": x264("bframes=2", source=SOURCE + ",select=not(mod(n\\,3))+not(mod(n\\,7))", extra=["-vsync", "vfr"]),
    "intra_only.mp4": x264("keyint=1", frames=8),
    "constrained_intra.mp4": x264("constrained-intra=1:bframes=2"),
    "no_deblocking.mp4": x264("no-deblock=1:bframes=2"),
    "deblocking_offsets.mp4": x264("deblock=3,-3:bframes=2:crf=35"),
    "jvt_matrices.mp4": x264("cqm=jvt:bframes=2"),
    "flat_high_qp.mp4": x264("qp=48:bframes=2"),
    "low_qp.mp4": x264("qp=2:bframes=2", frames=6),
    "chroma_qp_offset.mp4": x264("chroma-qp-offset=-7:bframes=2"),
    "intra_refresh.mp4": x264("intra-refresh=1:bframes=0:keyint=10", frames=30),
    "scene_cuts.mp4": x264("bframes=3:keyint=30", source=SOURCE + ",hue=H=floor(n/5)*2", frames=30),
    "delimiters.mp4": x264("aud=1:nal-hrd=cbr:vbv-maxrate=200:vbv-bufsize=200:bitrate=200:filler=1:bframes=2"),
    "parameter_sets_3.mp4": x264("sps-id=3:bframes=2"),
    "full_range.mp4": x264("bframes=2:range=pc", pixels="yuvj420p"),
    "gray.mp4": x264("bframes=2", pixels="gray"),
    "interlaced.mp4": x264("tff=1:bframes=2"),
    "fake_interlaced.mp4": x264("fake-interlaced=1:bframes=2"),
    # Formats that the decoder in Rust refuses, or hands out otherwise.
    "yuv422.mp4": x264("bframes=2", pixels="yuv422p", frames=8),
    "yuv444.mp4": x264("bframes=2", pixels="yuv444p", frames=8),
    "ten_bits.mp4": x264("bframes=2", pixels="yuv420p10le", frames=8),
    "lossless.mp4": x264("qp=0", frames=6),
    "zeros.mp4": x264("bframes=2", source=SOURCE + ",geq=0:0:0", frames=4),
    # Other codecs.
    "mpeg4.mp4": other(["-c:v", "mpeg4", "-q:v", "4", "-bf", "2"]),
    "mpeg2.mp4": other(["-c:v", "mpeg2video", "-q:v", "4", "-bf", "2", "-g", "6"]),
    "xvid.avi": other(["-c:v", "libxvid", "-q:v", "4"]),
    "xvid_packed.avi": other(["-c:v", "libxvid", "-q:v", "4", "-bf", "2"]),
    "mpeg4.avi": other(["-c:v", "mpeg4", "-vtag", "XVID", "-q:v", "4"]),
    "mpeg4_b.avi": other(["-c:v", "mpeg4", "-vtag", "XVID", "-q:v", "4", "-bf", "2"]),
    "motion_jpeg.avi": other(["-c:v", "mjpeg", "-q:v", "3", "-pix_fmt", "yuvj420p", "-huffman", "default"], frames=4),
    "motion_jpeg.mov": other(["-c:v", "mjpeg", "-q:v", "3", "-pix_fmt", "yuvj422p"], frames=4),
    "hevc.mp4": other(["-c:v", "libx265", "-pix_fmt", "yuv420p", "-x265-params", "log-level=none:bframes=3"]),
    "vp9.webm": other(["-c:v", "libvpx-vp9", "-pix_fmt", "yuv420p", "-b:v", "100k"]),
    "vp8.webm": other(["-c:v", "libvpx", "-pix_fmt", "yuv420p", "-b:v", "100k"]),
}

# The size of each picture, and where its chroma lies, in 256ths of a pixel of luma.
PICTURES = {
    "yuv420p": (38, 26, "in_h_chr_pos=0:in_v_chr_pos=128"),
    "yuv422p": (38, 10, "in_h_chr_pos=0"),
    "yuv444p": (38, 6, "in_h_chr_pos=-513"),
}
MATRICES = ["bt601", "bt709", "bt2020"]


def ffmpeg(*arguments, **options):
    command = ["ffmpeg", "-v", "error", "-y", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, **options).stdout


def probe(path):
    entries = "stream=pix_fmt,width,height"
    command = ["ffprobe", "-v", "error", "-select_streams", "v", "-show_entries", entries, "-of", "csv=p=0", str(path)]
    fields = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[0].split(",")
    width, height, pixels = fields[:3]
    return pixels, int(width), int(height)


def frames(path, pixels):
    """Returns the planes of all frames, one after another. Without `unaligned`, some columns that are cropped at the left stay."""
    if pixels.endswith("10le"):
        samples = memoryview(frames(path, "")).cast("H")
        return bytes(min((sample + 2) >> 2, 255) for sample in samples)
    return ffmpeg("-threads", "1", "-flags", "+unaligned", "-noautorotate", "-i", str(path), "-map", "0:v:0", "-fps_mode", "passthrough", "-f", "rawvideo", "-")


def size_of(pixels, width, height):
    chroma = {"420": ((width + 1) // 2) * ((height + 1) // 2), "422": ((width + 1) // 2) * height, "444": width * height}
    layout = next((name for name in chroma if name in pixels), None)
    return width * height + 2 * chroma.get(layout, 0)


def write_files(folder):
    lines = []
    for name, (source, count, arguments) in FILES.items():
        path = folder / name
        ffmpeg("-f", "lavfi", "-i", source, "-frames:v", str(count), *arguments, "-fflags", "+bitexact", "-flags:v", "+bitexact", "-map_metadata", "-1", str(path))
        pixels, width, height = probe(path)
        planes = frames(path, pixels)
        found, rest = divmod(len(planes), size_of(pixels, width, height))
        assert rest == 0, name
        lines.append(f"{name} {pixels} {width}x{height} {found} {hashlib.sha256(planes).hexdigest()}\n")
    (folder / "frames.txt").write_text("".join(lines))


def write_pictures(folder):
    for pixels, (width, height, place) in PICTURES.items():
        size = f"{width}x{height}"
        source = f"testsrc2=size={size},hue=s=0.6,noise=all_seed=7:alls=20"
        raw = ["-f", "rawvideo", "-pix_fmt", pixels, "-s", size]
        planes = ffmpeg("-f", "lavfi", "-i", source, "-frames:v", "1", *raw[:4], "-")
        (folder / f"{pixels}.yuv").write_bytes(planes)
        for matrix in MATRICES:
            for scale in ("tv", "pc"):
                flags = "accurate_rnd+full_chroma_int+bicubic"
                convert = f"scale=in_color_matrix={matrix}:in_range={scale}:out_range=pc:{place}:flags={flags},format=rgb24"
                rgb = ffmpeg(*raw, "-i", "-", "-vf", convert, "-f", "rawvideo", "-", input=planes)
                (folder / f"{pixels}.{matrix}.{scale}.rgb").write_bytes(rgb)


if __name__ == "__main__":
    for write, folder in zip((write_files, write_pictures), map(pathlib.Path, sys.argv[1:])):
        folder.mkdir(parents=True, exist_ok=True)
        write(folder)
