#!/usr/bin/env python3
"""Writes small video files of each container, and their packets and frames as ffprobe reads them.

    python scripts/video_container_goldens.py video/tests/golden/containers [FOLDER OF MORE VIDEO FILES]

Needs ffmpeg 5.1 with libx264, libx265, libvpx and libaom. `expected.json` has for each file, those of the other folder
included: codec, size, rotation, unit of time and colours, the sizes of packets and which are key packets, and the times of
the frames that FFmpeg shows. Files that FFmpeg does not write are made of those that it does.
"""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile

TEST = "testsrc=size=48x32:rate=25:duration={}"
JPEG = ["-s", "16x16", "-c:v", "mjpeg", "-q:v", "20"]
H264 = ["-c:v", "libx264", "-preset", "veryfast", "-crf", "40", "-pix_fmt", "yuv420p"]
X264 = "keyint=8:min-keyint=8:bframes=2:b-adapt=0:scenecut=0"


def ffmpeg(*arguments):
    """Runs ffmpeg so that its output is the same each time."""
    quiet = ["ffmpeg", "-v", "error", "-y", "-nostdin"]
    exact = ["-fflags", "+bitexact", "-flags:v", "+bitexact", "-threads", "1"]
    if arguments[-1].suffix == ".avi":
        exact += ["-reserve_index_space", "24"]
    subprocess.run([*quiet, *arguments[:-1], *exact, arguments[-1]], check=True)


def source(seconds, filters=""):
    """Returns the arguments of a drawn source."""
    return ["-f", "lavfi", "-i", TEST.format(seconds) + filters]


def write_avi(folder):
    """AVI files that FFmpeg writes."""
    ffmpeg(*source(0.4), *JPEG, folder / "mjpeg.avi")
    # Missing times become chunks without bytes.
    some = ",select='not(eq(n,3)+eq(n,4)+eq(n,7))'"
    ffmpeg(*source(0.4, some), "-vsync", "vfr", *JPEG, folder / "dropped.avi")
    asp = ["-c:v", "mpeg4", "-q:v", "20", "-g", "10"]
    ffmpeg(*source(0.8), *asp, "-vtag", "XVID", folder / "xvid.avi")
    ffmpeg(*source(0.8), *asp, "-bf", "2", "-vtag", "DX50", folder / "b_pictures.avi")
    ffmpeg(*source(0.8), *asp, "-bf", "1", "-vtag", "FMP4", folder / "alternating.avi")
    ffmpeg(*source(0.2), "-c:v", "rawvideo", "-pix_fmt", "yuv420p", "-s", "16x16", folder / "raw.avi")
    ffmpeg(*source(0.8), *H264, "-bf", "0", "-g", "10", folder / "h264.avi")
    ffmpeg(*source(0.8), *H264, "-x264-params", X264, folder / "h264_b.avi")
    ffmpeg(*source(0.8), *H264, "-x264-params", X264 + ":open-gop=1", folder / "h264_open.avi")


def chunks(data):
    """Yields the names, the offsets and the contents of chunks."""
    at = 0
    while at + 8 <= len(data):
        size = struct.unpack_from("<I", data, at + 4)[0]
        yield data[at : at + 4], at, data[at + 8 : at + 8 + size]
        at += 8 + size + size % 2


def chunk(name, contents):
    """Returns a chunk."""
    return name + struct.pack("<I", len(contents)) + contents + b"\0" * (len(contents) % 2)


def take_apart(path):
    """Returns the list `hdrl` of an AVI file, its packets, and which of them are key packets."""
    inside = path.read_bytes()[12:]
    header = packets = keys = None
    for name, _, contents in chunks(inside):
        if contents[:4] == b"hdrl":
            header = contents[4:]
        elif contents[:4] == b"movi":
            packets = [packet for name, _, packet in chunks(contents[4:]) if name == b"00dc"]
        elif name == b"idx1":
            keys = [flags & 16 for _, flags, _, _ in struct.iter_unpack("<4sIII", contents)]
    return header, packets, keys


def riff(kind, *parts):
    """Returns a RIFF."""
    return chunk(b"RIFF", kind + b"".join(parts))


def idx1(packets, keys, start):
    """Returns an index whose first offset is `start`."""
    entries = b""
    for packet, key in zip(packets, keys):
        entries += struct.pack("<4sIII", b"00dc", key, start, len(packet))
        start += 8 + len(packet) + len(packet) % 2
    return chunk(b"idx1", entries)


def packed(packets):
    """Packs the pairs of a stream I P B P B .. as DivX 5 did: I, P with B, a placeholder, ..."""
    user_data = b"\0\0\1\xb2DivX503b1393p\0"
    at = packets[0].index(b"\0\0\1\xb6")
    result = [packets[0][:at] + user_data + packets[0][at:]]
    rest = packets[1:]
    while rest:
        first, *rest = rest
        if rest and rest[0][4] >> 6 == 2:
            result.append(first + rest.pop(0))
            # A P picture at time 0 of 25, which is not coded. The decoder passes over it.
            result.append(b"\0\0\1\xb6" + bytes([0b01_0_1_0000, 0b0_1_0_11111]))
        else:
            result.append(first)
    return result


def write_other_avi(folder):
    """AVI files with layouts that FFmpeg reads but does not write."""
    header, packets, keys = take_apart(folder / "xvid.avi")
    head = chunk(b"LIST", b"hdrl" + header)
    bodies = [chunk(b"00dc", packet) for packet in packets]
    movi = chunk(b"LIST", b"movi" + b"".join(bodies))
    start = 12 + len(head) + 12
    (folder / "absolute.avi").write_bytes(riff(b"AVI ", head, movi, idx1(packets, keys, start)))
    (folder / "no_index.avi").write_bytes(riff(b"AVI ", head, movi))
    # As a program leaves it that was stopped.
    unfinished = riff(b"AVI ", head, movi)[:-100]
    at = unfinished.index(b"movi") - 4
    unfinished = unfinished[:4] + bytes(4) + unfinished[8:at] + bytes(4) + unfinished[at + 4 :]
    (folder / "unfinished.avi").write_bytes(unfinished)
    records = [chunk(b"LIST", b"rec " + b"".join(bodies[at : at + 4])) for at in range(0, len(bodies), 4)]
    (folder / "records.avi").write_bytes(riff(b"AVI ", head, chunk(b"LIST", b"movi" + b"".join(records))))
    write_open_dml(folder / "open_dml.avi", header, packets, keys)
    header, packets, keys = take_apart(folder / "alternating.avi")
    together = packed(packets)
    keys = [16] + [0] * (len(together) - 1)
    body = b"".join(chunk(b"00dc", packet) for packet in together)
    head = chunk(b"LIST", b"hdrl" + header)
    movi = chunk(b"LIST", b"movi" + body)
    (folder / "packed.avi").write_bytes(riff(b"AVI ", head, movi, idx1(together, keys, 4)))


def write_open_dml(path, header, packets, keys):
    """An AVI file of OpenDML: two RIFFs, each with an index."""
    stream = next(contents for _, _, contents in chunks(header) if contents[:4] == b"strl")
    others = b"".join(chunk(name, contents) for name, _, contents in chunks(header) if contents != stream)
    # JUNK keeps the place of the index.
    parts = [(name, contents) for name, _, contents in chunks(stream[4:]) if name != b"JUNK"]

    def file(offsets):
        indx = struct.pack("<HBBI4s12x", 4, 0, 0, 2, b"00dc")
        for offset, count in zip(offsets, counts):
            indx += struct.pack("<QII", offset, 32 + 8 * count, count)
        strl = b"strl" + b"".join(chunk(*part) for part in parts) + chunk(b"indx", indx)
        head = chunk(b"LIST", b"hdrl" + others + chunk(b"LIST", strl))
        data, places = b"", []
        for kind, first, count in [(b"AVI ", 0, counts[0]), (b"AVIX", counts[0], counts[1])]:
            before = head if kind == b"AVI " else b""
            base = len(data) + 12 + len(before) + 12
            body, entries = b"", b""
            for packet, key in zip(packets[first : first + count], keys[first : first + count]):
                entries += struct.pack("<II", len(body) + 8, len(packet) | (0 if key else 1 << 31))
                body += chunk(b"00dc", packet)
            places.append(base + len(body))
            body += chunk(b"ix00", struct.pack("<HBBI4sQI", 2, 0, 1, count, b"00dc", base, 0) + entries)
            data += riff(kind, before, chunk(b"LIST", b"movi" + body))
        return data, places

    counts = [12, len(packets) - 12]
    _, places = file([0, 0])
    data, again = file(places)
    assert places == again
    path.write_bytes(data)


def write_mp4(folder):
    """MP4 and MOV files."""
    x264 = [*H264, "-x264-params", X264]
    sound = ["-f", "lavfi", "-i", "sine=duration=0.8", "-c:a", "aac", "-b:a", "16k", "-ac", "1"]
    ffmpeg(*source(0.8), *sound[:4], *x264, *sound[4:], folder / "b_pictures.mp4")
    ffmpeg("-i", folder / "b_pictures.mp4", "-c", "copy", "-movflags", "+faststart", folder / "moov_first.mp4")
    # The first shown picture is not the first of its group.
    ffmpeg("-ss", "0.52", "-i", folder / "b_pictures.mp4", "-c", "copy", "-an", folder / "trimmed.mp4")
    ffmpeg("-itsoffset", "0.5", "-i", folder / "b_pictures.mp4", "-c", "copy", "-an", folder / "delayed.mp4")
    fragmented = ["-i", folder / "b_pictures.mp4", "-c", "copy", "-movflags"]
    ffmpeg(*fragmented, "frag_keyframe+empty_moov", folder / "fragments.mp4")
    ffmpeg(*fragmented, "frag_keyframe+empty_moov+default_base_moof", folder / "fragments_base_moof.mp4")
    ffmpeg(*fragmented, "frag_keyframe+empty_moov+omit_tfhd_offset", folder / "fragments_no_offset.mp4")
    ffmpeg(*fragmented, "frag_keyframe+delay_moov+negative_cts_offsets", folder / "fragments_negative.mp4")
    ffmpeg("-i", folder / "b_pictures.mp4", "-c", "copy", "-movflags", "negative_cts_offsets", folder / "negative.mp4")
    some = ",select='not(mod(n,3)*mod(n,5))'"
    ffmpeg(*source(1.6, some), "-vsync", "vfr", *x264, folder / "variable.mp4")
    opened = [*H264, "-x264-params", X264 + ":open-gop=1"]
    ffmpeg(*source(1.2), *opened, folder / "open_gop.mp4")
    refresh = "keyint=8:intra-refresh=1:bframes=0"
    ffmpeg(*source(0.8), *H264, "-x264-params", refresh, folder / "gradual.mp4")
    hevc = ["-c:v", "libx265", "-crf", "40", "-pix_fmt", "yuv420p", "-tag:v", "hvc1", "-x265-params"]
    ffmpeg(*source(1.2), *hevc, "log-level=none:keyint=8:min-keyint=8:open-gop=1:bframes=2:b-adapt=0:scenecut=0", folder / "hevc.mp4")
    radl = "log-level=none:keyint=8:min-keyint=8:open-gop=0:radl=2:bframes=3:b-adapt=0:scenecut=0"
    ffmpeg(*source(0.8), *hevc, radl, folder / "hevc_radl.mp4")
    ffmpeg(*source(0.8), "-c:v", "mpeg4", "-bf", "2", "-g", "10", "-q:v", "20", folder / "mpeg4.mp4")
    ffmpeg(*source(0.2), *JPEG, folder / "mjpeg.mov")
    ffmpeg("-i", folder / "mjpeg.mov", "-c", "copy", "-metadata:s:v", "rotate=270", folder / "turned.mov")
    ffmpeg("-i", folder / "mjpeg.mov", "-c", "copy", "-metadata:s:v", "rotate=180", folder / "upside_down.mp4")
    ffmpeg("-i", folder / "hevc.mp4", "-c", "copy", "-copyts", "-ss", "0.3", folder / "hevc_cut.mkv")
    ffmpeg("-i", folder / "open_gop.mp4", "-c", "copy", "-copyts", "-ss", "0.3", folder / "open_gop_cut.mkv")
    tagged = ["-color_range", "pc", "-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709"]
    ffmpeg(*source(0.2), *H264, *tagged, folder / "color.mp4")
    data = (folder / "moov_first.mp4").read_bytes()
    at = data.index(b"mdat") - 4
    (folder / "mdat_to_end.mp4").write_bytes(data[:at] + bytes(4) + data[at + 4 :])
    write_co64(folder / "b_pictures.mp4", folder / "co64.mp4")


def write_co64(source_path, path):
    """Copies a file whose `moov` is its last box, with offsets of 64 bits."""
    data = source_path.read_bytes()

    def wide(box):
        size, name = struct.unpack_from(">I4s", box)
        if name in (b"moov", b"trak", b"mdia", b"minf", b"stbl"):
            inside, at = b"", 8
            while at < size:
                length = struct.unpack_from(">I", box, at)[0]
                inside += wide(box[at : at + length])
                at += length
            return struct.pack(">I4s", 8 + len(inside), name) + inside
        if name == b"stco":
            offsets = [offset for (offset,) in struct.iter_unpack(">I", box[16:])]
            return struct.pack(">I4s", 16 + 8 * len(offsets), b"co64") + box[8:16] + struct.pack(f">{len(offsets)}Q", *offsets)
        return box

    at = data.index(b"moov") - 4
    path.write_bytes(data[:at] + wide(data[at:]))


def write_matroska(folder):
    """Matroska and WebM files."""
    ffmpeg("-i", folder / "b_pictures.mp4", "-c", "copy", folder / "b_pictures.mkv")
    ffmpeg("-i", folder / "open_gop.mp4", "-c", "copy", folder / "open_gop.mkv")
    ffmpeg("-i", folder / "variable.mp4", "-c", "copy", folder / "variable.mkv")
    write_vfw(folder / "alternating.avi", folder / "vfw.mkv")
    ffmpeg("-i", folder / "mpeg4.mp4", "-c", "copy", folder / "mpeg4.mkv")
    ffmpeg("-i", folder / "mjpeg.avi", "-c", "copy", folder / "mjpeg.mkv")
    vp8 = ["-c:v", "libvpx", "-b:v", "40k", "-auto-alt-ref", "1", "-lag-in-frames", "12", "-g", "20"]
    # Alternate reference frames, which need two passes.
    with tempfile.TemporaryDirectory() as scratch:
        passes = ["-arnr-maxframes", "5", "-passlogfile", f"{scratch}/log", "-pass"]
        for number in "12":
            ffmpeg(*source(1.6), *vp8, *passes, number, folder / "vp8.webm")
    vp9 = ["-c:v", "libvpx-vp9", "-pix_fmt", "yuv420p", "-b:v", "40k", "-auto-alt-ref", "1", "-lag-in-frames", "12", "-g", "10"]
    ffmpeg(*source(0.8), *vp9, folder / "vp9.webm")
    # Unknown sizes of segment and clusters.
    live = subprocess.run(
        ["ffmpeg", "-v", "error", "-i", folder / "vp9.webm", "-c", "copy", "-live", "1", "-fflags", "+bitexact", "-f", "webm", "-"],
        check=True,
        stdout=subprocess.PIPE,
    )
    (folder / "live.webm").write_bytes(live.stdout)
    # Blocks with a transparent part stand in groups.
    clear = ["-pix_fmt", "yuva420p", "-auto-alt-ref", "0"]
    ffmpeg(*source(0.4, ",format=yuva420p"), *vp8[:4], *clear, folder / "groups.webm")
    ffmpeg(*source(0.2), "-c:v", "libaom-av1", "-pix_fmt", "yuv420p", "-cpu-used", "8", "-b:v", "40k", folder / "av1.mkv")
    ffmpeg("-i", folder / "av1.mkv", "-c", "copy", folder / "av1.mp4")


def write_vfw(avi, path):
    """A Matroska file with a codec of Video for Windows, whose blocks have times of decoding."""
    header, packets, keys = take_apart(avi)
    stream = next(contents for _, _, contents in chunks(header) if contents[:4] == b"strl")
    strf = next(contents for name, _, contents in chunks(stream[4:]) if name == b"strf")

    def element(name, *contents):
        inside = b"".join(contents)
        return bytes.fromhex(name) + struct.pack(">Q", 1 << 56 | len(inside)) + inside

    ebml = element("1a45dfa3", element("4282", b"matroska"))
    info = element("1549a966", element("2ad7b1", struct.pack(">I", 1_000_000)))
    width, height = struct.unpack_from("<II", strf, 4)
    video = element("e0", element("b0", struct.pack(">H", width)), element("ba", struct.pack(">H", height)))
    # Tracks count from 1; type 1 is video.
    numbers = element("d7", b"\1") + element("73c5", b"\1") + element("83", b"\1") + element("9c", b"\0")
    codec = element("86", b"V_MS/VFW/FOURCC") + element("63a2", strf)
    tracks = element("1654ae6b", element("ae", numbers, codec, video))
    blocks = b""
    for number, (packet, key) in enumerate(zip(packets, keys)):
        blocks += element("a3", b"\x81" + struct.pack(">hB", 40 * number, 0x80 if key else 0) + packet)
    cluster = element("1f43b675", element("e7", b"\0"), blocks)
    path.write_bytes(ebml + element("18538067", info, tracks, cluster))


def probe(path):
    """Returns what ffprobe reads."""
    stream = "codec_name,width,height,time_base,color_space,color_range"
    command = ["ffprobe", "-v", "quiet", "-of", "json", "-select_streams", "v:0", "-show_packets", "-show_frames"]
    entries = f"stream={stream}:stream_side_data=rotation:packet=size,flags:frame=pts,best_effort_timestamp"
    command += ["-show_streams", "-show_entries", entries, path]
    text = subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout
    found = json.loads(text)
    both = found.get("packets_and_frames", [])
    packets = [entry for entry in both if entry["type"] == "packet"]
    frames = [entry for entry in both if entry["type"] == "frame"]
    stream = found["streams"][0]
    rotations = [data["rotation"] for data in stream.get("side_data_list", []) if "rotation" in data]
    return {
        "codec": stream["codec_name"],
        "width": stream["width"],
        "height": stream["height"],
        # ffprobe counts counterclockwise.
        "rotation": -int(rotations[0]) % 360 if rotations else 0,
        "time_base": stream["time_base"],
        "matrix": stream.get("color_space"),
        "range": stream.get("color_range"),
        "sizes": [int(packet["size"]) for packet in packets],
        "keys": [at for at, packet in enumerate(packets) if "K" in packet["flags"]],
        "frames": [frame.get("best_effort_timestamp", frame.get("pts")) for frame in frames],
    }


def main(folder, more=None):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_avi(folder)
    write_other_avi(folder)
    write_mp4(folder)
    write_matroska(folder)
    paths = sorted(path for path in folder.iterdir() if path.suffix != ".json")
    if more:
        paths += sorted(path for path in pathlib.Path(more).iterdir() if path.suffix in (".mp4", ".mov", ".mkv", ".avi", ".webm"))
    lines = [f"{json.dumps(path.name)}: {json.dumps(probe(path))}" for path in paths]
    (folder / "expected.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
