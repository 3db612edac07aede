//! Indexes of files of each container, compared with what ffprobe reads (`scripts/video_container_goldens.py`).
//!
//! Real files are in `data/video` of the folder `FUSELOOP_SHARED` or `../shared`; without it, they are left out.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use fuseloop_video::{
    Codec, MatrixCoefficients, Rotation, VideoErrorKind, VideoIndex, VideoLimits, fuzzing,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/containers")
}

fn shared() -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    env::var_os("FUSELOOP_SHARED").map_or_else(beside, PathBuf::from).join("data/video")
}

/// Returns what ffprobe reads, by names of files.
fn expected() -> serde_json::Map<String, Value> {
    let text = fs::read_to_string(folder().join("expected.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Returns the bytes of a file, or nothing if it is a real file that is not here.
fn bytes(name: &str) -> Option<Vec<u8>> {
    let found = fs::read(folder().join(name)).or_else(|_| fs::read(shared().join(name)));
    if found.is_err() {
        println!("{name} is left out: it is not in {}", shared().display());
    }
    found.ok()
}

fn read(bytes: &[u8]) -> VideoIndex {
    VideoIndex::read(&bytes, &VideoLimits::DEFAULT).unwrap()
}

fn index(name: &str) -> VideoIndex {
    read(&bytes(name).unwrap())
}

fn numbers(value: &Value) -> Vec<i64> {
    value.as_array().unwrap().iter().map(|number| number.as_i64().unwrap_or(i64::MIN)).collect()
}

/// Returns the name that FFmpeg has for a codec.
fn ffmpeg_name(codec: &Codec) -> &str {
    match codec {
        Codec::MotionJpeg => "mjpeg",
        Codec::H264 => "h264",
        Codec::Hevc => "hevc",
        Codec::Mpeg4 => "mpeg4",
        Codec::Vp8 => "vp8",
        Codec::Vp9 => "vp9",
        Codec::Av1 => "av1",
        Codec::Other(name) if name == "uncompressed I420" => "rawvideo",
        other => panic!("{other:?}"),
    }
}

/// Files without presentation times whose pictures are reordered: FFmpeg gives their frames other times, or none.
const WITHOUT_TIMES: [&str; 6] =
    ["alternating.avi", "b_pictures.avi", "h264_b.avi", "h264_open.avi", "packed.avi", "vfw.mkv"];

#[test]
fn packets_and_frames_are_those_that_ffprobe_reads() {
    let expected = expected();
    let mut count = 0;
    for (name, expected) in &expected {
        let Some(bytes) = bytes(name) else { continue };
        let found = VideoIndex::read(&bytes, &VideoLimits::DEFAULT);
        let found = found.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(ffmpeg_name(&found.codec), expected["codec"], "{name}");
        assert_eq!(
            [found.width, found.height].map(Value::from),
            [&expected["width"], &expected["height"]].map(Value::clone),
            "{name}"
        );
        assert_eq!(found.rotation as i64 * 90, expected["rotation"], "{name}");
        let (numerator, denominator) = found.time_base;
        let time_base = expected["time_base"].as_str().unwrap().split_once('/').unwrap();
        let other: (u64, u64) = (time_base.0.parse().unwrap(), time_base.1.parse().unwrap());
        assert_eq!(u64::from(numerator) * other.1, u64::from(denominator) * other.0, "{name}");

        let frames: Vec<i64> = found.frames().iter().map(|frame| frame.pts).collect();
        let others = numbers(&expected["frames"]);
        let sizes: Vec<i64> = found.packets().iter().map(|packet| packet.size.into()).collect();
        let keys: Vec<i64> = found
            .packets()
            .iter()
            .zip(0..)
            .filter(|(packet, _)| packet.is_key)
            .map(|(_, at)| at)
            .collect();
        if WITHOUT_TIMES.contains(&&**name) {
            assert_eq!(frames.len(), others.len(), "{name}");
            let step = frames[1];
            let even: Vec<i64> = (0..).map(|at| at * step).take(frames.len()).collect();
            assert_eq!(frames, even, "{name}");
        } else if name == "dropped.avi" {
            assert_eq!(frames, (0..10).collect::<Vec<_>>());
            let shown: Vec<u32> = found.frames().iter().map(|frame| frame.packet).collect();
            assert_eq!(shown, [0, 1, 2, 2, 2, 3, 4, 4, 5, 6]);
        } else if name == "corrupted.mp4" {
            // A packet is damaged, which only a decoder sees: FFmpeg shows a frame less.
            assert_eq!(frames.len(), others.len() + 1);
            assert_eq!(frames.len(), sizes.len());
        } else if name == "fragments_negative.mp4" {
            // FFmpeg adds the most negative distance, 512, to all times of fragments; the standard does not.
            assert_eq!(frames, others.iter().map(|pts| pts - 512).collect::<Vec<_>>());
        } else {
            assert_eq!(frames, others, "{name}");
        }
        // Packets of one file are unpacked. Decoding can't start at open groups of pictures without times, nor at gradual
        // refreshes.
        if name != "packed.avi" {
            assert_eq!(sizes, numbers(&expected["sizes"]), "{name}");
            let others = numbers(&expected["keys"]);
            assert_eq!(
                keys,
                if ["gradual.mp4", "h264_open.avi"].contains(&&**name) { vec![0] } else { others },
                "{name}"
            );
        }
        count += 1;
    }
    assert!(count >= 40, "{count} files");
}

#[test]
fn colors_that_containers_state_are_those_of_ffprobe() {
    let found = index("color.mp4").color;
    assert_eq!((found.matrix, found.is_full_range), (MatrixCoefficients::Bt709, Some(true)));
    for (name, expected) in &expected() {
        let Some(bytes) = bytes(name) else { continue };
        let color = read(&bytes).color;
        if color.matrix == MatrixCoefficients::Bt709 {
            assert_eq!(expected["matrix"], "bt709", "{name}");
        }
        if let Some(is_full) = color.is_full_range {
            assert_eq!(expected["range"], if is_full { "pc" } else { "tv" }, "{name}");
        }
    }
}

#[test]
fn a_phone_video_is_rotated() {
    assert_eq!(index("turned.mov").rotation, Rotation::Clockwise90);
    assert_eq!(index("upside_down.mp4").rotation, Rotation::Clockwise180);
}

/// Each frame of a file comes from a run that begins with a key packet and has its packet; each shown packet of the run is
/// shown once, and no run has a leading packet of its first one.
fn assert_plans(name: &str, index: &VideoIndex) {
    let count = u32::try_from(index.frame_count()).unwrap();
    for frame in 0..count {
        let plan = index.plan(&[frame]).unwrap();
        let [run] = &plan.runs[..] else { panic!("{name}: {} runs", plan.runs.len()) };
        assert_eq!(run.frames, [frame], "{name}");
        let packets = index.packets();
        assert!(packets[run.packets[0] as usize].is_key, "{name}");
        assert!(run.packets.windows(2).all(|two| two[0] < two[1]), "{name}");
        let entry = index.frames()[frame as usize];
        let order = index.presentation_order(&run.packets);
        assert!(order.contains(&entry.packet), "{name}: frame {frame}");
        assert!(packets[entry.packet as usize].is_shown, "{name}");
        let shown: BTreeSet<_> = order.iter().collect();
        assert_eq!(shown.len(), order.len());
    }
    // All frames at once are one run of all packets that give frames, in any order and repeated.
    let all: Vec<u32> = (0..count).rev().chain(0..count).collect();
    let plan = index.plan(&all).unwrap();
    let frames: Vec<u32> = plan.runs.iter().flat_map(|run| run.frames.clone()).collect();
    assert_eq!(frames, (0..count).collect::<Vec<_>>(), "{name}");
    assert_eq!(plan.runs.len(), 1, "{name}");
    let missing = index.plan(&[count]).unwrap_err();
    assert_eq!(missing.kind(), VideoErrorKind::Parameter);
    assert!(missing.to_string().contains(&format!("frame {count}")), "{missing}");
}

#[test]
fn plans_start_at_key_packets() {
    for name in expected().keys() {
        if let Some(bytes) = bytes(name).filter(|_| name != "mjpeg.avi") {
            assert_plans(name, &read(&bytes));
        }
    }
}

#[test]
fn distant_frames_are_separate_runs_and_near_ones_share_one() {
    // Key packets 0, 8 and 16; display order equals frame order.
    let index = index("b_pictures.mp4");
    let runs = |frames: &[u32]| {
        let runs = index.plan(frames).unwrap().runs.into_iter();
        runs.map(|run| (run.packets[0], *run.packets.last().unwrap(), run.frames))
            .collect::<Vec<_>>()
    };
    assert_eq!(runs(&[2]), [(0, 3, vec![2])]);
    assert_eq!(runs(&[17, 1]), [(0, 2, vec![1]), (16, 18, vec![17])]);
    // The packets of frame 7 end where those of frame 8 begin.
    assert_eq!(runs(&[7, 8]), [(0, 8, vec![7, 8])]);
    assert_eq!(runs(&[]), []);
    // Each frame of MJPEG is a run of its own, unless it follows another one.
    let index = self::index("mjpeg.avi");
    let plan = index.plan(&[8, 2, 3, 0]).unwrap();
    let packets: Vec<Vec<u32>> = plan.runs.into_iter().map(|run| run.packets).collect();
    assert_eq!(packets, [vec![0], vec![2, 3], vec![8]]);
}

#[test]
fn a_frame_before_an_open_key_frame_is_decoded_from_the_group_before() {
    for name in ["open_gop.mp4", "open_gop.mkv"] {
        // Key packets 0, 7, 15 and 23; each is followed by a packet that is shown before it.
        let index = index(name);
        let packet = |number: u32| index.packets()[number as usize];
        assert!(packet(7).is_key && packet(8).pts < packet(7).pts, "{name}");
        let frame_of =
            |packet| index.frames().iter().position(|frame| frame.packet == packet).unwrap() as u32;
        let plan = index.plan(&[frame_of(8)]).unwrap();
        assert_eq!(plan.runs[0].packets, (0..=8).collect::<Vec<_>>(), "{name}");
        // Decoding from the key packet leaves it out, since its references are missing.
        let plan = index.plan(&[frame_of(10)]).unwrap();
        assert_eq!(plan.runs[0].packets, [7, 9, 10], "{name}");
    }
}

#[test]
fn h264_without_times_is_decoded_up_to_the_most_that_a_decoder_reorders() {
    let index = index("h264_b.avi");
    assert_eq!(index.max_reordering, 16);
    let packets = |frame| index.plan(&[frame]).unwrap().runs.remove(0).packets;
    // Key packets 0, 8 and 16 of 20.
    assert_eq!(packets(1), (0..=17).collect::<Vec<_>>());
    assert_eq!(packets(9), (8..=19).collect::<Vec<_>>());
}

#[test]
fn hidden_frames_of_vp8_have_no_frame() {
    let index = index("vp8.webm");
    let hidden = index.packets().iter().filter(|packet| !packet.is_shown).count();
    assert!(hidden > 0);
    assert_eq!(index.frame_count() + hidden, index.packets().len());
}

#[test]
fn packed_pictures_are_unpacked() {
    let (packed, other) = (index("packed.avi"), index("alternating.avi"));
    assert_eq!(packed.packets().len(), other.packets().len());
    let frames = |index: &VideoIndex| index.frames().to_vec();
    assert_eq!(frames(&packed), frames(&other));
    let (packed_bytes, other_bytes) =
        (bytes("packed.avi").unwrap(), bytes("alternating.avi").unwrap());
    let packet = |bytes: &[u8], index: &VideoIndex, number: usize| {
        let packet = index.packets()[number];
        let start = packet.offset as usize;
        bytes[start..start + packet.size as usize].to_vec()
    };
    for number in 1..packed.packets().len() {
        let found = packet(&packed_bytes, &packed, number);
        assert_eq!(found, packet(&other_bytes, &other, number), "packet {number}");
    }
}

#[test]
fn an_index_is_saved_and_read_back() {
    for name in expected().keys() {
        let Some(bytes) = bytes(name) else { continue };
        let index = read(&bytes);
        let len = bytes.len() as u64;
        let saved = index.to_bytes(len);
        assert!(
            saved.len() < 120 + index.extradata.len() + 12 * index.packets().len(),
            "{name}: {}",
            saved.len()
        );
        assert_eq!(
            VideoIndex::from_bytes(&saved, len, &VideoLimits::DEFAULT).unwrap(),
            index,
            "{name}"
        );
        let other = VideoIndex::from_bytes(&saved, len + 1, &VideoLimits::DEFAULT).unwrap_err();
        assert!(other.to_string().contains("delete the index"), "{other}");
    }
}

#[test]
fn a_damaged_saved_index_is_refused() {
    let bytes = bytes("trimmed.mp4").unwrap();
    let len = bytes.len() as u64;
    let saved = read(&bytes).to_bytes(len);
    for end in 0..saved.len() {
        assert!(
            VideoIndex::from_bytes(&saved[..end], len, &VideoLimits::DEFAULT).is_err(),
            "{end}"
        );
    }
    for at in 0..saved.len() {
        let mut other = saved.clone();
        other[at] ^= 0x40;
        assert!(VideoIndex::from_bytes(&other, len, &VideoLimits::DEFAULT).is_err(), "{at}");
        // With a sum that fits, the bytes are another index or are refused.
        let (body, _) = other.split_at(other.len() - 4);
        fuzzing::saved_video_index(&[&len.to_le_bytes(), body].concat());
    }
}

#[test]
fn every_prefix_of_a_file_is_read_or_refused() {
    for name in expected().keys() {
        let Ok(bytes) = fs::read(folder().join(name)) else { continue };
        for end in 0..bytes.len() {
            fuzzing::container(&bytes[..end]);
        }
    }
}

#[test]
fn changed_bytes_are_read_or_refused() {
    let mut random = 1_u64;
    let mut next = move |most: usize| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % most
    };
    let mut is_read = (0, 0);
    for name in expected().keys() {
        let Ok(bytes) = fs::read(folder().join(name)) else { continue };
        for _ in 0..2000 {
            let mut changed = bytes.clone();
            for _ in 0..=next(4) {
                let at = next(changed.len());
                changed[at] = [0, 1, 0x7f, 0x80, 0xff, next(256) as u8][next(6)];
                // Sizes and counts have several bytes.
                if next(3) == 0 && at + 4 < changed.len() {
                    changed[at..at + 4].fill([0, 0xff][next(2)]);
                }
            }
            is_read.1 += 1;
            is_read.0 += u32::from(fuzzing::container(&changed));
        }
    }
    // Files that are all refused would check hardly anything.
    assert!(is_read.0 * 5 > is_read.1, "{is_read:?}");
}

#[test]
fn a_file_that_was_cut_is_refused() {
    for name in ["b_pictures.mp4", "moov_first.mp4", "b_pictures.mkv", "no_index.avi", "xvid.avi"] {
        let bytes = bytes(name).unwrap();
        let cut = bytes[..bytes.len() * 2 / 3].to_vec();
        let error = VideoIndex::read(&cut, &VideoLimits::DEFAULT).unwrap_err();
        assert!(error.to_string().contains("cut"), "{name}: {error}");
        assert_eq!(error.kind(), VideoErrorKind::Format, "{name}");
    }
}

#[test]
fn limits_are_respected() {
    let bytes = bytes("b_pictures.mp4").unwrap();
    let kind = |limits: VideoLimits| VideoIndex::read(&bytes, &limits).unwrap_err().kind();
    let limits = VideoLimits::DEFAULT;
    assert_eq!(kind(VideoLimits { max_packets: 19, ..limits }), VideoErrorKind::Limit);
    assert_eq!(kind(VideoLimits { max_pixels: 48 * 32 - 1, ..limits }), VideoErrorKind::Limit);
    assert_eq!(kind(VideoLimits { max_packet_bytes: 100, ..limits }), VideoErrorKind::Limit);
    assert_eq!(kind(VideoLimits { max_table_bytes: 100, ..limits }), VideoErrorKind::Limit);
    let exact = VideoLimits { max_packets: 20, max_pixels: 48 * 32, ..limits };
    assert!(VideoIndex::read(&bytes, &exact).is_ok());
}

#[test]
fn other_files_are_refused_by_name() {
    let error =
        |bytes: &[u8]| VideoIndex::read(&bytes.to_vec(), &VideoLimits::DEFAULT).unwrap_err();
    assert!(error(b"FLV\x01").to_string().contains("FLV"));
    assert_eq!(error(b"FLV\x01").kind(), VideoErrorKind::Unsupported);
    assert_eq!(error(b"\xff\xd8\xff").kind(), VideoErrorKind::Format);
    assert_eq!(error(b"").kind(), VideoErrorKind::Format);
}
