//! Frames of files of each codec, compared with those of ffmpeg (`scripts/video_frame_goldens.py`), and damaged files.
//!
//! Tests by libavcodec print a line and pass where there is none. Real files are in `data/video` of the folder
//! `FUSELOOP_SHARED` or `../shared`; without it, they are left out.

#![allow(clippy::unwrap_used, reason = "a test fails with what it unwraps")]

use fuseloop_video::{
    Backend, DecodePlan, DecodeRun, Frame, Libavcodec, ReadExactAt, Subsampling, VideoDecoder,
    VideoError, VideoErrorKind, VideoIndex, VideoLimits, jpeg_of_packet,
};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs};

const BACKENDS: [Backend; 2] = [Backend::Rust, Backend::Libavcodec];

/// Files that the decoders in Rust refuse, with a part of the reason.
const REFUSED: [(&str, &str); 20] = [
    ("yuv444.mp4", "4:4:4 chroma"),
    ("lossless.mp4", "lossless coding"),
    ("zeros.mp4", "zeros alone"),
    ("mpeg4.mp4", "MPEG-4 Part 2"),
    ("mpeg2.mp4", "MPEG-1 or MPEG-2"),
    ("xvid.avi", "MPEG-4 Part 2"),
    ("xvid_packed.avi", "MPEG-4 Part 2"),
    ("mpeg4.avi", "MPEG-4 Part 2"),
    ("mpeg4_b.avi", "MPEG-4 Part 2"),
    ("motion_jpeg.avi", "Motion JPEG"),
    ("motion_jpeg.mov", "Motion JPEG"),
    ("hevc.mp4", "HEVC"),
    ("vp9.webm", "VP9"),
    ("vp8.webm", "VP8"),
    ("hevc_cut.mkv", "HEVC"),
    ("hevc_radl.mp4", "HEVC"),
    ("packed.avi", "MPEG-4 Part 2"),
    ("vfw.mkv", "MPEG-4 Part 2"),
    ("h265_video.mp4", "HEVC"),
    ("av1_video.mkv", "AV1"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/frames")
}

fn shared() -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    env::var_os("FUSELOOP_SHARED").map_or_else(beside, PathBuf::from).join("data/video")
}

/// A file, and what ffmpeg decodes of it.
struct Golden {
    name: String,
    file: Vec<u8>,
    size: [u32; 2],
    frames: usize,
    /// Of the planes of all frames.
    sha256: String,
}

/// Returns the files of a list that are in a folder.
fn goldens(list: &str, folder: &Path) -> Vec<Golden> {
    let read = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        let [name, _, size, frames, sha256] = fields[..] else { panic!("{line}") };
        let Ok(file) = fs::read(folder.join(name)) else {
            println!("{name} is left out: it is not in {}", folder.display());
            return None;
        };
        let (width, height) = size.split_once('x').unwrap();
        Some(Golden {
            name: name.into(),
            file,
            size: [width, height].map(|side| side.parse().unwrap()),
            frames: frames.parse().unwrap(),
            sha256: sha256.into(),
        })
    };
    list.lines().filter_map(read).collect()
}

fn small_files() -> Vec<Golden> {
    let files = goldens(&fs::read_to_string(folder().join("frames.txt")).unwrap(), &folder());
    assert!(files.len() > 50, "{}", files.len());
    files
}

fn file(name: &str) -> Vec<u8> {
    fs::read(folder().join(name)).unwrap()
}

/// Returns the backends that this system has.
fn backends() -> impl Iterator<Item = Backend> {
    BACKENDS.into_iter().filter(|&backend| {
        let missing = Libavcodec::find().err().filter(|_| backend == Backend::Libavcodec);
        if let Some(reason) = missing {
            println!("frames by libavcodec are left out: {reason}");
        }
        missing.is_none()
    })
}

fn bytes(frame: &Frame) -> Vec<u8> {
    [frame.plane(0), frame.plane(1), frame.plane(2)].concat()
}

fn read(file: &[u8]) -> VideoIndex {
    VideoIndex::read(&file, &VideoLimits::DEFAULT).unwrap()
}

/// Decodes frames of a plan.
fn decode(
    decoder: &mut VideoDecoder,
    index: &VideoIndex,
    plan: &DecodePlan,
    file: &[u8],
) -> Result<Vec<(u32, Frame)>, VideoError> {
    let mut frames = vec![];
    decoder.decode(index, plan, &file, &mut |number, frame| {
        frames.push((number, frame.clone()));
        Ok(())
    })?;
    Ok(frames)
}

/// Opens a decoder and decodes all frames.
fn all(file: &[u8], backend: Backend, limits: &VideoLimits) -> Result<Vec<Frame>, VideoError> {
    let index = read(file);
    let numbers: Vec<u32> = (0..index.frame_count() as u32).collect();
    let mut decoder = VideoDecoder::open(&index, backend, limits)?;
    let frames = decode(&mut decoder, &index, &index.plan(&numbers)?, file)?;
    assert!(frames.iter().map(|(number, _)| *number).eq(numbers));
    Ok(frames.into_iter().map(|(_, frame)| frame).collect())
}

fn sha256<'a>(frames: impl IntoIterator<Item = &'a Frame>) -> String {
    let mut hash = Sha256::new();
    frames.into_iter().for_each(|frame| hash.update(bytes(frame)));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// All frames must be those of ffmpeg, by each backend that does not refuse the codec by name, and any clip must have the
/// same frames.
fn assert_has_ffmpegs_frames(golden: &Golden, clips: usize) {
    let name = &golden.name;
    let index = read(&golden.file);
    for backend in backends() {
        let refused =
            REFUSED.iter().find(|(refused, _)| refused == name && backend == Backend::Rust);
        let frames = match (all(&golden.file, backend, &VideoLimits::DEFAULT), refused) {
            (Err(error), Some((_, reason))) => {
                let expected = match *reason {
                    "zeros alone" => VideoErrorKind::Unsupported,
                    _ => VideoErrorKind::NeedsLibavcodec,
                };
                assert_eq!(error.kind(), expected, "{name}: {error}");
                assert!(
                    error.message().contains(reason) && error.message().contains("libavcodec"),
                    "{name}: {error}"
                );
                continue;
            }
            // Some builds of FFmpeg have no decoder of AV1.
            (Err(error), None) if error.message().contains("has no decoder of AV1") => {
                println!("{name} is left out: {error}");
                continue;
            }
            (frames, _) => frames.unwrap_or_else(|error| panic!("{name} {backend:?}: {error}")),
        };
        assert_eq!(frames.len(), golden.frames, "{name} {backend:?}");
        assert!(
            frames.iter().all(|frame| [frame.width, frame.height] == golden.size),
            "{name} {backend:?}"
        );
        assert_eq!(sha256(&frames), golden.sha256, "{name} {backend:?}");
        let mut decoder = VideoDecoder::open(&index, backend, &VideoLimits::DEFAULT).unwrap();
        assert_eq!(decoder.backend(), backend);
        let last = frames.len() - 1;
        for start in (0..frames.len()).step_by(frames.len().div_ceil(clips)) {
            for stride in [0, 1, 3] {
                let mut numbers: Vec<u32> =
                    (0..4).map(|i| (start + i * stride).min(last) as u32).collect();
                let plan = index.plan(&numbers).unwrap();
                numbers.dedup();
                let clip =
                    decode(&mut decoder, &index, &plan, &golden.file).unwrap_or_else(|error| {
                        panic!("{name} {backend:?} {numbers:?}: {error}");
                    });
                assert!(
                    clip.iter().map(|(number, _)| *number).eq(numbers.iter().copied()),
                    "{name} {backend:?}"
                );
                for (number, frame) in clip {
                    assert!(
                        frame == frames[number as usize],
                        "{name} {backend:?}: frame {number} of {numbers:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn frames_of_small_files_are_ffmpegs() {
    // In the packed file, ffmpeg leaves out frames that repeat the one before.
    small_files()
        .iter()
        .filter(|file| file.name != "xvid_packed.avi")
        .for_each(|file| assert_has_ffmpegs_frames(file, 100));
}

#[test]
fn frames_of_real_files_are_ffmpegs() {
    let list = "\
av1_video.mkv yuv420p 640x360 125 90158cb68997ddb89010dd21fc85bd2cb3c80695ec4a9b989d689a2217725f44
bikes.mp4 yuv420p 640x272 250 ae6c5793baac3fb50f0fe17c2b85f8cf59706636de957807085531ca8a857bab
bt709_full_range.mp4 yuvj420p 1280x720 30 a6e8d447346770b904675ed93dcf7870d5744e48d0cdedd9c16d1f281131baf2
carphone_pristine.mp4 yuv420p 176x144 120 60b45896c6218a7d23fde8e440fcd424dd475fecd64ac9df7b36007c67f28dfe
flipping_a_pancake.mkv yuv420p 426x240 310 4295a8478421bce4e57375503510087afecaec9ebcc7854df82e20a58b5b01e1
h264_10bits.mp4 yuv420p10le 200x200 30 562866eb1344837ce862fa95337fe9a08474d7fe5765fdfb5bb697601e5c2e38
h265_video.mp4 yuv420p 128x128 10 f57b9eea664e279dd77f00d643bce9c451101610038d403d42fb6a517cb4d49e
nasa_13013.mp4 yuv420p 320x180 325 a13580a9b95e5ec8a19700681ddf641e8495463aff1eec04c424eeba769cb320
unordered.mov yuv420p 50x50 4 0eec3de28b12fe029574077ad6716d3ee507fb38d86f9dc995fb63b0b1fd8953
video_0.mov yuv420p 568x320 3 760ddfcea740841a428a39ef8336744d121149866e321f0e05eee4c316670b2c
";
    goldens(list, &shared()).iter().for_each(|file| assert_has_ffmpegs_frames(file, 3));
}

#[test]
fn frames_of_cut_and_reordered_files_are_ffmpegs() {
    let list = "\
h264_b.avi yuv420p 48x32 20 e7f8e42e00e3dc461f230b6274dec64e3d6290b66e00eea46f65e2e8946f36dc
h264_open.avi yuv420p 48x32 20 90b569c11be5a32bf0174a65155d87c890968a2f3538b73f39c9295e9ef80a80
hevc_cut.mkv yuv420p 48x32 14 2791b11d3d2aa82a07ccb3808e8000ffb7407f2e59831be382f0b0a78c749da7
hevc_radl.mp4 yuv420p 48x32 20 b7eb7084696a5bb8e17b9012c361a8db5263497053e3e683fad07d6b219dd009
open_gop_cut.mkv yuv420p 48x32 14 fb646cc2c1d210f62d223a617f0f30c641566560f168c50688d5ccb20906fc34
packed.avi yuv420p 48x32 20 3d49a6d7b0d7774cde1b07c572620a3c258a628174a300192fcb09a53f6f4191
vfw.mkv yuv420p 48x32 20 3d49a6d7b0d7774cde1b07c572620a3c258a628174a300192fcb09a53f6f4191
";
    let files = goldens(list, &folder().join("../containers"));
    assert_eq!(files.len(), 7);
    files.iter().for_each(|file| assert_has_ffmpegs_frames(file, 100));
}

#[test]
fn packed_pictures_of_xvid_are_ffmpegs() {
    let golden = small_files().into_iter().find(|file| file.name == "xvid_packed.avi").unwrap();
    let index = read(&golden.file);
    for backend in backends().filter(|&backend| backend == Backend::Libavcodec) {
        let frames = all(&golden.file, backend, &VideoLimits::DEFAULT).unwrap();
        let entries: Vec<u32> = index.frames().iter().map(|entry| entry.packet).collect();
        let is_repeat = |at: usize| at > 0 && entries[at] == entries[at - 1];
        let shown: Vec<&Frame> = frames
            .iter()
            .enumerate()
            .filter(|(at, _)| !is_repeat(*at))
            .map(|(_, frame)| frame)
            .collect();
        // ffmpeg also leaves out the last B picture, for which no packet follows.
        assert_eq!(shown.len(), golden.frames + 1);
        let last = golden.frames - 1;
        let ffmpegs = shown[..last].iter().chain([&shown[last + 1]]).copied();
        assert_eq!(sha256(ffmpegs), golden.sha256);
    }
}

#[test]
fn colours_are_those_of_the_stream() {
    let one =
        |name: &str| all(&file(name), Backend::Rust, &VideoLimits::DEFAULT).unwrap().remove(0);
    assert!(one("full_range.mp4").is_full_range);
    assert!(!one("high.mp4").is_full_range);
    assert_eq!(one("yuv422.mp4").subsampling, Subsampling::Yuv422);
    for backend in backends() {
        for golden in goldens("bt709_full_range.mp4 _ 1280x720 0 _", &shared()) {
            let index = read(&golden.file);
            let mut decoder = VideoDecoder::open(&index, backend, &VideoLimits::DEFAULT).unwrap();
            let frames =
                decode(&mut decoder, &index, &index.plan(&[0]).unwrap(), &golden.file).unwrap();
            assert!(frames[0].1.is_full_range);
            assert_eq!(frames[0].1.matrix, fuseloop_video::MatrixCoefficients::Bt709);
        }
    }
}

#[test]
fn packets_of_motion_jpeg_are_complete_jpegs() {
    for name in ["motion_jpeg.avi", "motion_jpeg.mov"] {
        let file = file(name);
        for packet in read(&file).packets() {
            let packet = &file[packet.offset as usize..][..packet.size as usize];
            let jpeg = jpeg_of_packet(packet).unwrap();
            assert!(
                jpeg.starts_with(&[0xff, 0xd8, 0xff]) && jpeg.ends_with(&[0xff, 0xd9]),
                "{name}"
            );
            assert!(
                jpeg.windows(4)
                    .any(|bytes| bytes == [0xff, 0xc4, 1, 0xa2] || bytes[..2] == [0xff, 0xc4]),
                "{name}"
            );
        }
    }
}

#[test]
fn a_missing_slice_is_an_error_and_not_a_gray_part_of_a_frame() {
    // The last slice of the second file has 10 rows that are shown, and 6 that are not.
    for name in ["four_slices.mp4", "cropped_slices.mp4"] {
        let pristine = file(name);
        let index = read(&pristine);
        for (number, packet) in index.packets().iter().enumerate().step_by(3) {
            let mut file = pristine.clone();
            let mut at = packet.offset as usize;
            let end = at + packet.size as usize;
            let mut slices = vec![];
            while at + 4 < end {
                if matches!(file[at + 4] & 31, 1 | 5) {
                    slices.push(at + 4);
                }
                at += 4 + u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) as usize;
            }
            // One for each row of macroblocks.
            assert_eq!(slices.len(), 3);
            for slice in slices {
                // Filler data, which decoders skip.
                let header = std::mem::replace(&mut file[slice], 12);
                for backend in backends() {
                    let error = all(&file, backend, &VideoLimits::DEFAULT).unwrap_err();
                    assert_eq!(
                        error.kind(),
                        VideoErrorKind::Damaged,
                        "{name} {number} {backend:?} {error}"
                    );
                    assert!(error.offset().is_some());
                }
                file[slice] = header;
            }
        }
    }
}

#[test]
fn a_missing_packet_is_an_error_by_each_backend() {
    for name in ["baseline.mp4", "main.mp4", "high.mp4", "interlaced.mp4", "hevc.mp4"] {
        let file = file(name);
        let index = read(&file);
        let last = index.packets().len() as u32 - 1;
        let frame = index.frames().iter().position(|entry| entry.packet == last).unwrap() as u32;
        // Packet 1 is a P picture, to which others refer.
        let run = DecodeRun {
            packets: (0..=last).filter(|&packet| packet != 1).collect(),
            frames: vec![frame],
        };
        let plan = DecodePlan { runs: vec![run] };
        for backend in
            backends().filter(|&backend| name != "hevc.mp4" || backend == Backend::Libavcodec)
        {
            let mut decoder = VideoDecoder::open(&index, backend, &VideoLimits::DEFAULT).unwrap();
            let error = decode(&mut decoder, &index, &plan, &file).unwrap_err();
            assert_eq!(error.kind(), VideoErrorKind::Damaged, "{name} {backend:?} {error}");
            assert!(error.message().contains("missing"), "{name} {backend:?} {error}");
        }
    }
}

#[test]
fn packets_that_a_container_calls_key_packets_are_checked() {
    let names = [
        "high.mp4",
        "main.mp4",
        "open_gop.mp4",
        "open_gop_pyramid.mp4",
        "intra_refresh.mp4",
        "scene_cuts.mp4",
        "sixteen_references.mp4",
        "hevc.mp4",
        "mpeg4.mp4",
        "mpeg2.mp4",
    ];
    for name in names {
        let pristine = file(name);
        // Without the table of key packets, all are.
        let mut file = pristine.clone();
        let table = file.windows(4).position(|bytes| bytes == b"stss").unwrap();
        file[table..table + 4].copy_from_slice(b"free");
        let index = read(&file);
        assert!(index.packets().iter().skip(2).all(|packet| packet.is_key));
        for backend in backends() {
            let Ok(frames) = all(&pristine, backend, &VideoLimits::DEFAULT) else { continue };
            assert_eq!(frames.len(), index.frame_count());
            let mut decoder = VideoDecoder::open(&index, backend, &VideoLimits::DEFAULT).unwrap();
            for (number, frame) in (0..).zip(&frames) {
                let plan = index.plan(&[number]).unwrap();
                let found = decode(&mut decoder, &index, &plan, &file);
                let found = found.unwrap_or_else(|error| panic!("{name} {backend:?}: {error}"));
                assert!(found[0].1 == *frame, "{name} {backend:?}: frame {number}");
            }
        }
    }
}

/// A file that counts how many reads there were.
struct Counted<'a>(&'a [u8], std::sync::atomic::AtomicUsize);

impl ReadExactAt for Counted<'_> {
    fn byte_len(&self) -> std::io::Result<u64> {
        self.0.byte_len()
    }

    fn read_exact_at(&self, offset: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.0.read_exact_at(offset, bytes)
    }
}

#[test]
fn frames_of_a_long_group_of_pictures_are_not_kept_until_its_end() {
    let file = file("long.avi");
    let index = read(&file);
    assert_eq!((index.packets().len(), index.max_reordering), (80, 16));
    let numbers: Vec<u32> = (0..80).collect();
    let plan = index.plan(&numbers).unwrap();
    for backend in backends() {
        let counted = Counted(&file, 0.into());
        let reads = || counted.1.load(std::sync::atomic::Ordering::Relaxed) as u32;
        let mut decoder = VideoDecoder::open(&index, backend, &VideoLimits::DEFAULT).unwrap();
        decoder
            .decode(&index, &plan, &counted, &mut |number, _| {
                // The first packet is read twice.
                assert!(reads() <= number + 26, "{backend:?}: {number} after {} reads", reads());
                Ok(())
            })
            .unwrap();
    }
}

#[test]
fn a_decoder_may_move_to_another_thread() {
    fn assert_send<T: Send>(_: &T) {}
    let file = file("high.mp4");
    let index = read(&file);
    for backend in backends() {
        let mut decoder = VideoDecoder::open(&index, backend, &VideoLimits::DEFAULT).unwrap();
        assert_send(&decoder);
        let plan = index.plan(&[7]).unwrap();
        let here = decode(&mut decoder, &index, &plan, &file).unwrap();
        let there = std::thread::scope(|scope| {
            scope.spawn(|| decode(&mut decoder, &index, &plan, &file).unwrap()).join().unwrap()
        });
        assert_eq!(here, there);
    }
}

#[test]
fn numbers_that_the_index_does_not_have_are_errors() {
    let file = file("high.mp4");
    let index = read(&file);
    for backend in backends() {
        let mut decoder = VideoDecoder::open(&index, backend, &VideoLimits::DEFAULT).unwrap();
        for (packets, frames) in [(vec![0], vec![1000]), (vec![1000], vec![0]), (vec![], vec![0])] {
            let plan = DecodePlan { runs: vec![DecodeRun { packets, frames }] };
            assert!(decode(&mut decoder, &index, &plan, &file).is_err());
        }
        // The decoder is as good as new after an error.
        assert_eq!(
            decode(&mut decoder, &index, &index.plan(&[3]).unwrap(), &file).unwrap().len(),
            1
        );
    }
}

#[test]
fn frames_above_the_limit_are_refused_before_they_are_allocated() {
    for name in ["high.mp4", "four_slices.mp4", "interlaced.mp4"] {
        let limits = VideoLimits { max_pixels: 64 * 47, ..VideoLimits::DEFAULT };
        for backend in backends() {
            let error = all(&file(name), backend, &limits).unwrap_err();
            assert_eq!(error.kind(), VideoErrorKind::Limit, "{name} {backend:?} {error}");
        }
    }
    // The stream has larger pictures than the container says.
    for name in ["high.mp4", "hevc.mp4", "vp9.webm"] {
        let file = file(name);
        let mut index = read(&file);
        (index.width, index.height) = (16, 16);
        let limits = VideoLimits { max_pixels: 64 * 47, ..VideoLimits::DEFAULT };
        for backend in backends() {
            let decoded = VideoDecoder::open(&index, backend, &limits)
                .and_then(|mut decoder| decode(&mut decoder, &index, &index.plan(&[0])?, &file));
            let error = decoded.unwrap_err();
            if backend == Backend::Libavcodec || name == "high.mp4" {
                assert_eq!(error.kind(), VideoErrorKind::Limit, "{name} {backend:?} {error}");
            }
        }
    }
    // Sixteen reference frames of 64x48 pixels.
    let limits = VideoLimits { max_pixels: 15 * 64 * 48, ..VideoLimits::DEFAULT };
    let error = all(&file("sixteen_references.mp4"), Backend::Rust, &limits).unwrap_err();
    assert!(error.message().contains("16 reference frames"), "{error}");
    let limits = VideoLimits { max_packet_bytes: 100, ..VideoLimits::DEFAULT };
    for backend in backends() {
        assert_eq!(
            all(&file("high.mp4"), backend, &limits).unwrap_err().kind(),
            VideoErrorKind::Limit
        );
    }
}

/// A generator of numbers (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ bits >> 31) % end as u64) as usize
    }
}

/// Damages the packets of a file: changed bytes, cut or zeroed ends, random bytes, and bytes of another packet.
fn damage(file: &mut [u8], index: &VideoIndex, random: &mut Random) {
    for _ in 0..=random.below(3) {
        let [packet, other] = [0, 1].map(|_| index.packets()[random.below(index.packets().len())]);
        let size = packet.size as usize;
        let range = packet.offset as usize..packet.offset as usize + size;
        match random.below(5) {
            0 => (0..=random.below(4))
                .for_each(|_| file[range.start + random.below(size)] = random.below(256) as u8),
            1 => file[range.start + random.below(size)..range.end].fill(0),
            2 => file[range].iter_mut().for_each(|byte| *byte = random.below(256) as u8),
            // Headers are in the first bytes.
            3 => file[range.start + random.below(size.min(16))] ^= 1 << random.below(8),
            _ => {
                let len = size.min(other.size as usize);
                file.copy_within(other.offset as usize..other.offset as usize + len, range.start);
            }
        }
    }
}

#[test]
fn damaged_packets_never_panic_or_hang() {
    let budget = Duration::from_secs(20);
    for backend in backends() {
        let (mut random, begin) = (Random(backend as u64), Instant::now());
        let (mut failed, mut runs) = (0, 0);
        let files: Vec<Golden> = small_files().into_iter().filter(|file| file.frames > 4).collect();
        while begin.elapsed() < budget && runs < 1000 {
            let golden = &files[random.below(files.len())];
            let index = read(&golden.file);
            let mut file = golden.file.clone();
            damage(&mut file, &index, &mut random);
            let Ok(mut decoder) = VideoDecoder::open(&index, backend, &VideoLimits::SMALL) else {
                continue;
            };
            let numbers: Vec<u32> = (0..index.frame_count() as u32).collect();
            let decoding = Instant::now();
            let frames = decode(&mut decoder, &index, &index.plan(&numbers).unwrap(), &file);
            assert!(decoding.elapsed() < Duration::from_secs(5), "{} {backend:?}", golden.name);
            failed += usize::from(frames.is_err());
            runs += 1;
            // The decoder is as good as new after an error.
            if runs % 20 == 0 {
                let frames = decode(&mut decoder, &index, &index.plan(&[1]).unwrap(), &golden.file);
                assert_eq!(frames.unwrap().len(), 1, "{} {backend:?}", golden.name);
            }
        }
        println!("{backend:?}: {failed} of {runs} damaged files are refused");
        assert!(failed > runs / 2);
    }
}

#[test]
fn frames_before_a_damaged_packet_come_out_whole() {
    let mut refused = 0;
    for name in
        ["high.mp4", "pyramid_strict.mp4", "main.mp4", "high.mkv", "hevc.mp4", "mpeg4_b.avi"]
    {
        let file = file(name);
        let index = read(&file);
        let numbers: Vec<u32> = (0..index.frame_count() as u32).collect();
        let plan = index.plan(&numbers).unwrap();
        for backend in backends() {
            let Ok(whole) = all(&file, backend, &VideoLimits::DEFAULT) else { continue };
            for (number, packet) in index.packets().iter().enumerate().skip(1) {
                let mut file = file.clone();
                let start = packet.offset as usize;
                // The header stays, so that decoders see the damage in the data of the picture.
                file[start + 12.min(packet.size as usize)..start + packet.size as usize].fill(0x55);
                let mut decoder =
                    VideoDecoder::open(&index, backend, &VideoLimits::DEFAULT).unwrap();
                let mut came = vec![];
                let decoded = decoder.decode(&index, &plan, &file, &mut |_, frame| {
                    came.push(frame.clone());
                    Ok(())
                });
                if decoded.is_ok() {
                    continue;
                }
                let good =
                    index.frames().iter().take_while(|frame| (frame.packet as usize) < number);
                assert_eq!(came.len(), good.count(), "{name} {backend:?} packet {number}");
                let whole = &whole[..came.len()];
                assert_eq!(sha256(&came), sha256(whole), "{name} {backend:?} packet {number}");
                refused += 1;
            }
        }
    }
    // The decoder in Rust refuses 18.
    assert!(refused > 15 * backends().count(), "{refused}");
}

/// H.264 has no checksums: what a changed bit makes of a slice may be another slice.
#[test]
fn most_flipped_bits_are_noticed() {
    for backend in backends() {
        let mut random = Random(3);
        let [mut refused, mut wrong] = [0; 2];
        for name in ["high.mp4", "main.mp4", "pyramid_normal.mp4", "cavlc.mp4", "interlaced.mp4"] {
            let file = file(name);
            let index = read(&file);
            let frames = sha256(&all(&file, backend, &VideoLimits::DEFAULT).unwrap());
            for _ in 0..100 {
                let mut file = file.clone();
                let packet = index.packets()[random.below(index.packets().len())];
                let at = packet.offset as usize + random.below(packet.size as usize);
                file[at] ^= 1 << random.below(8);
                match all(&file, backend, &VideoLimits::DEFAULT) {
                    Err(_) => refused += 1,
                    Ok(found) => wrong += usize::from(sha256(&found) != frames),
                }
            }
        }
        println!(
            "{backend:?}: of 500 flipped bits {refused} are noticed and {wrong} change frames"
        );
        assert!(2 * wrong < refused, "{backend:?}");
    }
}

/// libavcodec decodes these bytes to wrong pixels and says so, but returns no error.
/// Returns the error of a frame whose file has a changed bit, by the decoder in Rust.
fn refused(file: &[u8], bit: usize, frame: u32) -> Option<VideoError> {
    let mut changed = file.to_vec();
    changed[bit / 8] ^= 128 >> (bit % 8);
    let index = read(&changed);
    let decoder = VideoDecoder::open(&index, Backend::Rust, &VideoLimits::DEFAULT);
    decoder
        .and_then(|mut decoder| {
            decode(&mut decoder, &index, &index.plan(&[frame]).unwrap(), &changed)
        })
        .err()
}

#[test]
fn only_the_first_parameter_sets_say_that_libavcodec_is_needed() {
    // The bit of lossless coding in profile High, of a set that begins at a byte.
    const LOSSLESS: usize = 30;
    let kind = |error: Option<VideoError>| error.map(|error| error.kind());
    let annex_b = file("annex_b.avi");
    let sets: Vec<usize> = annex_b
        .windows(4)
        .enumerate()
        .filter(|(_, at)| at == b"\0\0\x01\x67")
        .map(|(at, _)| at + 4)
        .collect();
    let [first, second] = sets[..] else { panic!("{sets:?}") };
    let needed = refused(&annex_b, 8 * first + LOSSLESS, 0);
    assert_eq!(kind(needed), Some(VideoErrorKind::NeedsLibavcodec));
    // Decoding begins at the second set.
    let error = refused(&annex_b, 8 * second + LOSSLESS, 13).unwrap();
    assert_eq!(error.kind(), VideoErrorKind::Damaged, "{error}");
    assert!(error.message().contains("unlike the first packet"), "{error}");
    assert!(error.offset().is_some(), "{error}");
    for bit in 8 * second..8 * (second + 40) {
        let error = refused(&annex_b, bit, 13);
        assert_ne!(kind(error), Some(VideoErrorKind::NeedsLibavcodec), "bit {bit}");
    }
    // A bit makes a stream of frames one of fields, of twice the height.
    let high = file("high.mp4");
    let set = high.windows(4).position(|name| name == b"avcC").unwrap() + 13;
    let mut interlaced = 0;
    for bit in 8 * set + LOSSLESS + 1..8 * (set + 8) {
        let Some(error) = refused(&high, bit, 3) else { continue };
        assert_ne!(error.kind(), VideoErrorKind::NeedsLibavcodec, "bit {bit}: {error}");
        interlaced += usize::from(error.message().contains("and the container 64x48"));
    }
    assert!(interlaced > 0);
}

#[test]
fn damage_of_hevc_that_libavcodec_only_reports_is_an_error() {
    if Libavcodec::find().is_err() {
        return;
    }
    let mut file = file("hevc.mp4");
    file[776..778].fill(186);
    let error = all(&file, Backend::Libavcodec, &VideoLimits::DEFAULT).unwrap_err();
    assert_eq!(error.kind(), VideoErrorKind::Damaged, "{error}");
}

#[test]
fn damaged_configurations_never_panic() {
    for backend in backends() {
        let mut random = Random(7);
        for name in
            ["high.mp4", "interlaced.mp4", "four_slices.mp4", "mpeg4.mp4", "hevc.mp4", "vp9.webm"]
        {
            let file = file(name);
            let pristine = read(&file);
            for _ in 0..300 {
                let mut index = pristine.clone();
                if index.extradata.is_empty() {
                    continue;
                }
                for _ in 0..=random.below(3) {
                    let at = random.below(index.extradata.len());
                    index.extradata[at] = random.below(256) as u8;
                }
                if random.below(4) == 0 {
                    index.extradata.truncate(random.below(pristine.extradata.len()));
                }
                let Ok(mut decoder) = VideoDecoder::open(&index, backend, &VideoLimits::SMALL)
                else {
                    continue;
                };
                let _ = decode(&mut decoder, &index, &index.plan(&[0, 1, 5]).unwrap(), &file);
            }
        }
    }
}

#[test]
fn corrupted_real_file_is_an_error_by_each_backend() {
    for golden in goldens("corrupted.mp4 _ 1280x720 0 _", &shared()) {
        for backend in backends() {
            let error = all(&golden.file, backend, &VideoLimits::DEFAULT).unwrap_err();
            assert_eq!(
                (error.kind(), error.offset()),
                (VideoErrorKind::Damaged, Some(31_074)),
                "{backend:?}: {error}"
            );
        }
    }
}

/// The state of libavcodec is one of the process; so the path is set for another one.
#[test]
fn a_path_that_is_no_library_is_named() {
    if env::var_os("FUSELOOP_TEST_PRINTS").is_some() {
        println!("{:?}", Libavcodec::find().map(|found| found.version()));
        return;
    }
    let mut command = std::process::Command::new(env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", "a_path_that_is_no_library_is_named"]);
    command.env("FUSELOOP_TEST_PRINTS", "1").env("FUSELOOP_LIBAVCODEC", "/no/such/libavcodec.so");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("FUSELOOP_LIBAVCODEC is /no/such/libavcodec.so, which can't be loaded"),
        "{text}"
    );
}
