#!/usr/bin/env python3
"""Writes frames of small video files as ffmpeg converts them to RGB.

    python scripts/video_clip_goldens.py video/tests/golden tests/golden/video

They were written by ffmpeg 5.1.9. `turned.mp4` is a video that players turn. Each other file has frames 0, 1 and 3 of a video, one below the other. Pictures are converted
before they are turned, so that the chroma of turned ones lies where it does in others.
"""

import pathlib
import subprocess
import sys

FRAMES = [0, 1, 3]
FLAGS = "bicubic+accurate_rnd+full_chroma_int+full_chroma_inp"
# Chroma lies on the left one of two pixels, and between two rows; in JPEGs it lies in the middle of four.
PLACE = "in_h_chr_pos=0:in_v_chr_pos=128:"
# The files, and the filters that turn their pictures as a player does.
FILES = {
    "frames/high.mp4": "",
    "frames/full_range.mp4": "",
    "frames/motion_jpeg.avi": "",
    "frames/vp9.webm": "",
    "containers/upside_down.mp4": "transpose=clock,transpose=clock,",
    "turned.mp4": "transpose=cclock,",
}


def main(videos: str, out: str) -> None:
    pathlib.Path(out).mkdir(parents=True, exist_ok=True)
    source = ["ffmpeg", "-v", "error", "-y", "-i", str(pathlib.Path(videos, "frames/high.mp4"))]
    turned = pathlib.Path(out, "turned.mp4")
    subprocess.run([*source, "-c", "copy", "-metadata:s:v", "rotate=90", str(turned)], check=True)
    select = "+".join(f"eq(n\\,{frame})" for frame in FRAMES)
    for name, turn in FILES.items():
        place = "" if "jpeg" in name or "upside" in name else PLACE
        filters = f"select={select},scale={place}flags={FLAGS},format=rgb24,{turn}tile=1x{len(FRAMES)}"
        to = pathlib.Path(out, pathlib.Path(name).stem + ".png")
        video = turned if name == turned.name else pathlib.Path(videos, name)
        command = ["ffmpeg", "-v", "error", "-y", "-noautorotate", "-i", str(video)]
        subprocess.run([*command, "-vf", filters, "-vsync", "0", "-frames:v", "1", str(to)], check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
