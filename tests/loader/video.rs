//! Clips of video files: their frames are those that ffmpeg decodes, with libavcodec and without it; nothing depends on
//! threads, ranks or where a run began; and what can't be read is refused by name.
//!
//! The files are those of `scripts/video_frame_goldens.py` and `scripts/video_container_goldens.py`, and the frames of
//! `tests/golden/video` those of `scripts/video_clip_goldens.py`.

use fuseloop::internals::info::DatasetSummary;
use fuseloop::loader::Clips;
use fuseloop::order::{Ranks, Uneven};
use fuseloop::preview::PreviewOptions;
use fuseloop::source::{Column, Dataset, Folder, FolderOptions, InMemory};
use fuseloop::verify::{DamageKind, VerifyOptions, verify};
use fuseloop::write::{WriteOptions, convert};
use fuseloop::{Batch, Cursor, ErrorKind, Loader, LoaderBuilder, OnDamaged, Order, ops::*};
use fuseloop_video::Libavcodec;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::{env, fs};

/// Videos that need no libavcodec, all of 64 x 48 pixels.
pub(crate) const VIDEOS: [&str; 6] = [
    "a/baseline.mp4",
    "a/high.mkv",
    "a/motion_jpeg.avi",
    "b/high.mp4",
    "b/open_gop_pyramid.mp4",
    "b/variable_rate.mp4",
];

/// The frames in the golden files.
const FRAMES: [usize; 3] = [0, 1, 3];

pub(crate) fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Writes videos to class folders.
pub(crate) fn folder(videos: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for video in videos {
        let (class, name) = video.split_once('/').unwrap();
        fs::create_dir_all(dir.path().join(class)).unwrap();
        let from = golden("video/tests/golden/frames").join(name);
        fs::copy(from, dir.path().join(video)).unwrap();
    }
    dir
}

pub(crate) fn augmented() -> Ops {
    ops![
        RandomResizedCrop::new(24).unwrap(),
        RandomHorizontalFlip::new(0.5).unwrap(),
        ToChannelsFirst
    ]
}

pub(crate) fn builder(dir: &Path, clips: Clips) -> LoaderBuilder {
    let loader = Loader::open(dir).unwrap().batch_size(2).seed(7).clips(clips);
    loader.pipeline("video", augmented())
}

pub(crate) fn batches(loader: &Loader, epoch: u32) -> Vec<Batch> {
    loader.epoch(epoch).unwrap().map(Result::unwrap).collect()
}

/// Returns the times and the pixels of each clip.
pub(crate) fn rows(batches: impl IntoIterator<Item = Batch>) -> Vec<(Vec<f64>, Vec<u8>)> {
    let mut all = vec![];
    for batch in batches {
        let (pts, clips) =
            (batch.tensor::<f64>("pts").unwrap(), batch.tensor::<u8>("video").unwrap());
        let pts = pts.as_slice().chunks(pts.as_slice().len() / batch.len());
        let clips = clips.as_slice().chunks(clips.as_slice().len() / batch.len());
        all.extend(pts.zip(clips).map(|(pts, clip)| (pts.to_vec(), clip.to_vec())));
    }
    all
}

/// Returns the frames of one video, one after another, each cut to `size` about its middle.
fn first_frames(video: &Path, size: Size) -> Vec<u8> {
    let Size { height, width } = size;
    let dir = tempfile::tempdir().unwrap();
    fs::copy(video, dir.path().join(video.file_name().unwrap())).unwrap();
    let clips = Clips::all(8);
    let loader = Loader::from_source(
        Folder::open(dir.path(), &FolderOptions::default().label("none".parse().unwrap())).unwrap(),
    );
    let cut = ops![CenterCrop::new((height, width)).unwrap()];
    let loader = loader.clips(clips).pipeline("video", cut).build().unwrap();
    let batch = loader.get(&[0], 0).unwrap();
    let clip = batch.tensor::<u8>("video").unwrap();
    assert_eq!(clip.shape(), [1, 8, height as usize, width as usize, 3]);
    clip.as_slice().to_vec()
}

/// Returns the pixels of a golden file and their width.
fn expected(name: &str) -> (Vec<u8>, Size) {
    let file = fs::File::open(golden("tests/golden/video").join(name)).unwrap();
    let mut png = png::Decoder::new(std::io::BufReader::new(file)).read_info().unwrap();
    let mut pixels = vec![0; png.output_buffer_size().unwrap()];
    let info = png.next_frame(&mut pixels).unwrap();
    (pixels, Size::new(info.height / FRAMES.len() as u32, info.width))
}

#[test]
fn frames_are_those_that_ffmpeg_decodes() {
    // Interpolated chroma of saturated colours exceeds what swscale stores, which clamps it. JPEGs have an upsampling of their
    // own, that of libjpeg.
    let files = [
        ("video/tests/golden/frames/high.mp4", 6, 0.1),
        ("video/tests/golden/frames/full_range.mp4", 40, 0.1),
        ("tests/golden/video/turned.mp4", 6, 0.1),
        ("video/tests/golden/frames/vp9.webm", 6, 0.1),
        ("video/tests/golden/frames/motion_jpeg.avi", 60, 4.0),
        ("video/tests/golden/containers/upside_down.mp4", 6, 0.2),
    ];
    for (file, most, mean) in files {
        if file.ends_with("vp9.webm") && Libavcodec::find().is_err() {
            println!("{file} is left out: no libavcodec");
            continue;
        }
        let name = Path::new(file).with_extension("png");
        let (expected, size) = expected(name.file_name().unwrap().to_str().unwrap());
        let found = first_frames(&golden(file), size);
        let bytes = found.len() / 8;
        let (mut largest, mut sum) = (0, 0_u64);
        for (frame, expected) in FRAMES.into_iter().zip(expected.chunks(bytes)) {
            for (&a, &b) in found[frame * bytes..].iter().zip(expected) {
                let difference = u64::from(a.abs_diff(b));
                (largest, sum) = (largest.max(difference), sum + difference);
            }
        }
        let found_mean = sum as f64 / expected.len() as f64;
        println!("{file}: {largest} at most, {found_mean:.3} on average");
        assert!(largest <= most && found_mean <= mean, "{file}: {largest}, {found_mean}");
    }
}

#[test]
fn a_window_has_the_pixels_of_the_whole_frame() {
    let files = [
        "video/tests/golden/frames/high.mp4",
        "video/tests/golden/frames/motion_jpeg.avi",
        "tests/golden/video/turned.mp4",
    ];
    for file in files {
        let whole =
            if file.ends_with("turned.mp4") { Size::new(64, 48) } else { Size::new(48, 64) };
        let part = Size::new(22, 18);
        let frames = first_frames(&golden(file), whole);
        let windows = first_frames(&golden(file), part);
        let [top, left] = [(whole.height - part.height) / 2, (whole.width - part.width) / 2];
        let row = |pixels: &[u8], width: u32, y: u32, x: u32| {
            pixels[((y * width + x) * 3) as usize..][..part.width as usize * 3].to_vec()
        };
        let [frame_bytes, window_bytes] =
            [whole, part].map(|size| (size.height * size.width * 3) as usize);
        for (frame, window) in frames.chunks(frame_bytes).zip(windows.chunks(window_bytes)) {
            for y in 0..part.height {
                let expected = row(frame, whole.width, top + y, left);
                assert!(row(window, part.width, y, 0) == expected, "{file}, row {y}");
            }
        }
    }
}

#[test]
fn clips_are_the_same_for_any_number_of_workers_and_ranks_and_after_a_resume() {
    let dir = folder(&VIDEOS);
    let of = |workers, size| {
        let clips = Clips::random(4).stride(2);
        let loader = builder(dir.path(), clips).order(Order::Random);
        loader.workers(workers).batch_size(size)
    };
    let undisturbed = rows(batches(&of(1, 2).build().unwrap(), 1));
    assert_eq!(undisturbed.len(), VIDEOS.len());
    for (workers, size) in [(2, 2), (5, 1), (5, 3)] {
        assert!(rows(batches(&of(workers, size).build().unwrap(), 1)) == undisturbed);
    }
    let loader = of(2, 2).build().unwrap();
    for taken in 0..3 {
        let mut run = loader.epoch(1).unwrap();
        (0..taken).for_each(|_| drop(run.next().unwrap().unwrap()));
        let cursor: Cursor = run.cursor().unwrap().to_string().parse().unwrap();
        let rest = of(5, 2).build().unwrap();
        let rest = rows(rest.resume(&cursor).unwrap().map(Result::unwrap));
        assert!(rest == undisturbed[2 * taken..], "after {taken}");
    }
    let permuted = |ranks| of(2, 1).order(Order::Permuted).ranks(ranks).build().unwrap();
    let undisturbed = rows(batches(&permuted(None), 2));
    for rank in 0..2 {
        let ranks = Ranks::new(rank, 2, Uneven::Pad).unwrap();
        let own = rows(batches(&permuted(Some(ranks)), 2));
        let expected: Vec<_> = undisturbed.iter().skip(rank as usize).step_by(2).collect();
        assert!(own.iter().eq(expected), "rank {rank}");
    }
}

/// Returns a hash of all that an epoch of all clips has.
fn epoch_hash(dir: &Path) -> String {
    let loader = builder(dir, Clips::random(6).stride(3).clips(2)).build().unwrap();
    let mut hash = Sha256::new();
    for (pts, clip) in rows(batches(&loader, 3)) {
        pts.iter().for_each(|seconds| hash.update(seconds.to_le_bytes()));
        hash.update(clip);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

const WITHOUT: &str = "FUSELOOP_LIBAVCODEC";

/// Runs all tests of this file once more, in a process that finds no libavcodec.
#[test]
fn everything_is_the_same_without_libavcodec() {
    let hash = epoch_hash(folder(&VIDEOS).path());
    if env::var_os(WITHOUT).is_some_and(|path| path == "none") {
        assert!(Libavcodec::find().is_err());
        println!("epoch {hash}");
        return;
    }
    let arguments = ["video::", "--nocapture", "--test-threads=1"];
    let mut run = Command::new(env::current_exe().unwrap());
    let run = run.args(arguments).env(WITHOUT, "none").output().unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{text}");
    assert!(text.contains(&format!("epoch {hash}")), "{hash}: {text}");
}

#[test]
fn codecs_are_refused_by_name_without_libavcodec() {
    let files = [
        ("mpeg4.avi", "MPEG-4 Part 2"),
        ("hevc.mp4", "HEVC (H.265)"),
        ("vp8.webm", "VP8"),
        ("vp9.webm", "VP9"),
    ];
    for (file, codec) in files {
        let dir = folder(&[&format!("a/{file}"), "b/high.mp4"]);
        let loader = builder(dir.path(), Clips::random(2)).on_damaged(OnDamaged::Skip);
        let loader = loader.build().unwrap();
        if Libavcodec::find().is_ok() {
            assert_eq!(rows(batches(&loader, 0)).len(), 2, "{file}");
            continue;
        }
        // Another system reads it: it is no damaged sample that may be skipped.
        let error = loader.epoch(0).unwrap().find_map(Result::err).unwrap();
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{text}");
        let cure = if env::var_os(WITHOUT).is_some_and(|path| path == "none") {
            "unset that variable, or convert"
        } else {
            "install FFmpeg or set FUSELOOP_LIBAVCODEC"
        };
        assert!(error.next_step().is_some_and(|step| step.contains("info --video")), "{text}");
        for words in [file, codec, cure, "libx264", "only H.264 and Motion JPEG"] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
}

#[test]
fn a_damaged_parameter_set_is_damage_with_and_without_libavcodec() {
    let dir = folder(&["a/annex_b.avi", "a/high.mp4", "b/high.mp4"]);
    let change = |name: &str, mark: &[u8], from_mark: usize, bit: u8| {
        let path = dir.path().join(name);
        let mut bytes = fs::read(&path).unwrap();
        let at = bytes.windows(mark.len()).rposition(|found| found == mark).unwrap();
        bytes[at + from_mark] ^= bit;
        fs::write(path, bytes).unwrap();
    };
    // The second set of the first file calls its pictures lossless, and that of the second file calls them interlaced.
    change("a/annex_b.avi", b"\0\0\x01\x67", 4 + 3, 2);
    change("a/high.mp4", b"avcC", 13 + 6, 16);
    let clips = Clips::all(1).stride(1);
    let loader = builder(dir.path(), clips).on_damaged(OnDamaged::Skip).build().unwrap();
    let found = rows(batches(&loader, 0)).len();
    assert!(found >= 20, "{found} frames");
    let damaged = loader.quarantine().samples;
    assert!(
        !damaged.is_empty() && damaged.iter().all(|one| !one.error.contains("b/high")),
        "{damaged:?}"
    );
}

#[test]
fn times_are_those_of_the_container() {
    let dir = folder(&["a/high.mp4"]);
    let times = |clips| rows(batches(&builder(dir.path(), clips).build().unwrap(), 0))[0].0.clone();
    let near = |found: Vec<f64>, expected: &[f64]| {
        let is_near = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(found.len() == expected.len() && is_near, "{found:?}, expected {expected:?}");
    };
    near(times(Clips::regular(3).stride(2).range(0.2, 0.4)), &[0.2, 0.28, 0.36]);
    near(times(Clips::regular(2).fps(12.5).range(0.0, 0.16)), &[0.0, 0.08]);
}

#[test]
fn several_clips_of_a_video_may_share_frames_and_come_in_any_order() {
    let dir = folder(&["a/open_gop_pyramid.mp4"]);
    let of = |clips: Clips| {
        let cut = ops![CenterCrop::new(8).unwrap()];
        let loader = builder(dir.path(), clips).pipeline("video", cut);
        rows(batches(&loader.build().unwrap(), 0)).remove(0)
    };
    let (times, all) = of(Clips::all(28));
    let bytes = all.len() / 28;
    for clips in [Clips::random(5).clips(4), Clips::regular(9).stride(2).clips(3)] {
        let (pts, found) = of(clips.clone());
        for (seconds, image) in pts.iter().zip(found.chunks(bytes)) {
            let frame = times.iter().position(|time| time == seconds).unwrap();
            assert!(all[frame * bytes..][..bytes] == *image, "{clips:?}: frame {frame}");
        }
    }
}

#[test]
fn damaged_files_are_damaged_samples_whose_errors_name_the_file() {
    let names = ["a/high.mp4", "a/baseline.mp4", "b/high.mkv", "b/main.mp4", "b/cavlc.mp4"];
    let dir = folder(&names);
    let change = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let path = dir.path().join(name);
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(path, bytes).unwrap();
    };
    change("a/baseline.mp4", &|bytes| bytes.clear());
    change("b/high.mkv", &|bytes| bytes.truncate(bytes.len() / 2));
    change("b/main.mp4", &|bytes| bytes.fill(b'x'));
    fs::remove_file(dir.path().join("b/cavlc.mp4")).unwrap();
    fs::create_dir(dir.path().join("c")).unwrap();
    fs::write(dir.path().join("c/none.mp4"), b"").unwrap();
    let of = |policy| builder(dir.path(), Clips::regular(12)).on_damaged(policy).build().unwrap();
    let (mut errors, mut good) = (vec![], 0);
    for sample in 0..5 {
        match of(OnDamaged::Fail).get(&[sample], 0) {
            Ok(_) => good += 1,
            Err(error) => errors.push((error.path().unwrap().to_owned(), error.to_string())),
        }
    }
    assert!((1..=2).contains(&good), "{errors:?}");
    for (path, text) in &errors {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(text.contains(name) && path.starts_with(dir.path()), "{text}");
    }
    let main = errors.iter().find(|(path, _)| path.ends_with("main.mp4")).unwrap();
    assert!(main.1.contains("AVI"), "{}", main.1);
    let loader = of(OnDamaged::Skip);
    let batches = batches(&loader, 0);
    assert_eq!(batches.iter().map(|batch| batch.len()).sum::<usize>(), good);
    assert_eq!(loader.quarantine().samples.len(), 5 - good);
    // Each clip of a video is a sample: a video that can't be read has one.
    let all = builder(dir.path(), Clips::all(10)).on_damaged(OnDamaged::Skip).build().unwrap();
    assert!(all.samples() >= 5);
    assert!(all.epoch(0).unwrap().all(|batch| batch.is_ok()));
}

#[test]
fn a_damaged_packet_names_its_frame() {
    let dir = folder(&["a/motion_jpeg.avi"]);
    let path = dir.path().join("a/motion_jpeg.avi");
    let mut bytes = fs::read(&path).unwrap();
    let starts: Vec<usize> =
        (0..bytes.len() - 2).filter(|at| bytes[*at..].starts_with(&[0xff, 0xd8, 0xff])).collect();
    bytes[starts[2]..][..3].fill(0);
    fs::write(&path, bytes).unwrap();
    let loader = builder(dir.path(), Clips::all(4)).build().unwrap();
    let error = loader.get(&[0], 0).err().unwrap();
    assert!(error.to_string().contains("frame 2: "), "{error}");
    assert!(error.to_string().contains("motion_jpeg.avi"), "{error}");
    assert_eq!((error.kind(), error.path()), (ErrorKind::Damaged, Some(&*path)));
}

#[test]
fn limits_hold_for_video_files() {
    let dir = folder(&["a/high.mp4"]);
    let limits = |limits: fuseloop::Limits| {
        let loader = builder(dir.path(), Clips::random(2)).limits(limits).build().unwrap();
        loader.get(&[0], 0).err().unwrap().to_string()
    };
    let default = fuseloop::Limits::DEFAULT;
    let text = limits(fuseloop::Limits { max_pixels: 1000, ..default });
    assert!(text.contains("64x48") && text.contains("1000"), "{text}");
    let text = limits(fuseloop::Limits { max_sample_bytes: 100, ..default });
    assert!(text.contains("100"), "{text}");
}

#[test]
fn video_files_need_clips_and_are_not_mixed_with_images() {
    let dir = folder(&["a/high.mp4", "b/main.mp4"]);
    let refused = |loader: LoaderBuilder| loader.build().err().unwrap().to_string();
    let text = refused(Loader::open(dir.path()).unwrap());
    assert!(text.contains("field video") && text.contains("choose them (`clips`"), "{text}");
    let text = refused(Loader::open(dir.path()).unwrap().pipeline("video", augmented()));
    assert!(text.contains("choose them (`clips`"), "{text}");
    let labels = Loader::open(dir.path()).unwrap().without("video").build().unwrap();
    assert_eq!(labels.get(&[1], 0).unwrap().tensor::<i64>("label").unwrap().as_slice(), [1]);
    let pattern = dir.path().join("**/*.mp4");
    let loader = Loader::open(&pattern).unwrap().clips(Clips::random(2));
    let loader = loader.pipeline("video", augmented()).build().unwrap();
    assert_eq!(loader.samples(), 2);
    fs::write(dir.path().join("b/poster.jpg"), b"").unwrap();
    let text = Loader::open(dir.path()).err().unwrap().to_string();
    assert!(text.contains("1 image and 2 video files") && text.contains("`**/*.mp4`"), "{text}");
    let numbers = InMemory::new([("x", Column::ints([1, 2]))]).unwrap();
    let text = refused(Loader::from_source(numbers).clips(Clips::random(2)));
    assert!(text.contains("no field has video files"), "{text}");
}

#[test]
fn bytes_of_any_dataset_are_videos_if_a_user_says_so() {
    let video = |name: &str| fs::read(golden("video/tests/golden/frames").join(name)).unwrap();
    let bytes = vec![video("high.mp4"), video("motion_jpeg.avi")];
    let source = InMemory::new([("clip", Column::bytes(bytes))]).unwrap();
    let clips = Clips::random(3).field("clip");
    let loader = Loader::from_source(source).seed(7).batch_size(2).clips(clips);
    let loader = loader.pipeline("clip", augmented()).build().unwrap();
    let batch = &batches(&loader, 0)[0];
    let clips = batch.tensor::<u8>("video").unwrap();
    assert_eq!(clips.shape(), [2, 3, 3, 24, 24]);
    let dir = folder(&["a/high.mp4", "a/motion_jpeg.avi"]);
    let files = rows(batches_of_folder(dir.path()));
    assert!(clips.as_slice() == [&files[0].1[..], &files[1].1[..]].concat());
}

fn batches_of_folder(dir: &Path) -> Vec<Batch> {
    batches(&builder(dir, Clips::random(3)).build().unwrap(), 0)
}

#[test]
fn a_list_chooses_videos() {
    let dir = folder(&VIDEOS);
    let list = dir.path().join("testlist01.txt");
    let labels = |text: &str, label: &str| {
        fs::write(&list, text).unwrap();
        let options = FolderOptions::default().label(label.parse().unwrap());
        let loader = Loader::from_source(Folder::open(dir.path(), &options)?);
        let loader = loader.clips(Clips::segments(2).list(&list)).pipeline("video", augmented());
        let batch = batches(&loader.build()?, 0).remove(0);
        let labels = batch.tensor::<i64>("label").map(|labels| labels.as_slice().to_vec());
        Ok::<_, fuseloop::Error>(labels.unwrap_or_default())
    };
    assert_eq!(labels("b/high.mp4 2\na/baseline.avi 1\n", "auto").unwrap(), [1, 0]);
    assert_eq!(labels("b/high.mp4 9\nbaseline 20 4\n", "none").unwrap(), [9, 4]);
    let several = labels("high 1", "none").unwrap_err().to_string();
    assert!(several.contains("several videos"), "{several}");
    let refused = |text: &str| labels(text, "auto").unwrap_err().to_string();
    let other = refused("b/high.mp4 1\na/baseline.avi 1\n");
    assert!(other.contains("high.mp4 has label 1 in the dataset and 1 in the list"), "{other}");
    assert!(other.contains("baseline.mp4 has 0 and 1: open the dataset without labels"), "{other}");
    let twice = refused("b/high.mp4 1\nb/high.mp4 1\n");
    assert!(twice.contains("line 2: b/high.mp4 is in line 1 already"), "{twice}");
    let same = refused("b/high.mp4 1\nb/high.avi 1\n");
    assert!(same.contains("line 2: b/high.avi would be the same video as b/high.mp4"), "{same}");
    fs::copy(dir.path().join("a/baseline.mp4"), dir.path().join("b/high.avi")).unwrap();
    assert_eq!(labels("b/high.mp4 1\nb/high.avi 1\na/baseline 0", "auto").unwrap(), [1, 1, 0]);
    let both = refused("b/high 1");
    assert!(both.contains("b/high.mp4: list it with its extension"), "{both}");
    fs::remove_file(dir.path().join("b/high.avi")).unwrap();
    // What was converted has no names, or others.
    let source = Dataset::open(dir.path()).unwrap().source().unwrap();
    let list = dir.path().join("list.txt");
    fs::write(&list, "b/high.mp4 2\n").unwrap();
    let out = tempfile::tempdir().unwrap();
    for name in ["files.beton", "files"] {
        let path = out.path().join(name);
        convert(&*source, &path, &WriteOptions::default()).unwrap();
        let clips = Clips::random(2).list(&list);
        let error = builder(&path, clips).build().err().unwrap().to_string();
        assert!(error.contains("give the list to the conversion"), "{name}: {error}");
    }
}

#[cfg(feature = "tables")]
#[test]
fn a_table_lists_video_files() {
    let dir = folder(&["a/high.mp4", "b/motion_jpeg.avi"]);
    let table = dir.path().join("videos.csv");
    fs::write(&table, "video,label\nb/motion_jpeg.avi,4\na/high.mp4,6\n").unwrap();
    let loader = builder(&table, Clips::random(2)).build().unwrap();
    let batch = &batches(&loader, 0)[0];
    assert_eq!(batch.tensor::<i64>("label").unwrap().as_slice(), [4, 6]);
    assert_eq!(batch.tensor::<u8>("video").unwrap().shape(), [2, 2, 3, 24, 24]);
    fs::write(&table, "path,label\na/high.mp4,4\na/high.jpg,6\n").unwrap();
    let text = Loader::open(&table).err().unwrap().to_string();
    assert!(text.contains("1 image and 1 video file,"), "{text}");
}

/// Lines of a table may be parts of one file.
#[cfg(feature = "tables")]
#[test]
fn a_table_has_the_seconds_at_which_videos_begin_and_end() {
    let dir = folder(&["a/high.mp4", "b/motion_jpeg.avi"]);
    let table = dir.path().join("videos.csv");
    let text = "path,label,start,end\na/high.mp4,4,0.2,0.4\nb/motion_jpeg.avi,6,0.08,9\na/high.mp4,5,0,0.1\n";
    fs::write(&table, text).unwrap();
    let of = |clips: Clips| builder(&table, clips).batch_size(3).build();
    let times = |clips: Clips| {
        let all = rows(batches(&of(clips).unwrap(), 0));
        all.into_iter().map(|(pts, _)| pts).collect::<Vec<_>>()
    };
    let part = |clips: Clips| clips.start_field("start").end_field("end");
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
    let starts = [0.2, 0.08, 0.0];
    for sampler in [Clips::random(2), Clips::regular(2), Clips::segments(2)] {
        let found = times(part(sampler));
        for (pts, (from, to)) in found.iter().zip(starts.into_iter().zip([0.4, 9.0, 0.1])) {
            assert!(pts.iter().all(|at| *at > from - 1e-6 && *at < to - 1e-6), "{found:?}");
        }
    }
    // The frames of all clips are those of the parts, and of whole videos if nothing names the fields.
    let all = of(part(Clips::all(1))).unwrap();
    let frames: Vec<f64> = (0..all.samples())
        .map(|sample| rows(Some(all.get(&[sample], 0).unwrap()))[0].0[0])
        .collect();
    let whole = of(Clips::all(1)).unwrap();
    let expected: Vec<f64> = (0..whole.samples())
        .flat_map(|sample| {
            let batch = whole.get(&[sample], 0).unwrap();
            let line = batch.tensor::<i64>("video_index").unwrap().as_slice()[0] as usize;
            let at = rows(Some(batch))[0].0[0];
            let (from, to) = (starts[line], [0.4, 9.0, 0.1][line]);
            (at > from - 1e-6 && at < to - 1e-6).then_some(at)
        })
        .collect();
    assert!(frames.len() == expected.len() && frames.len() > 8, "{frames:?}, {expected:?}");
    assert!(frames.iter().zip(&expected).all(|(a, b)| near(*a, *b)), "{frames:?}, {expected:?}");
    let until = dir.path().join("until.csv");
    fs::write(&until, "path,until\na/high.mp4,0.1\n").unwrap();
    let loader = Loader::open(&until).unwrap().clips(Clips::regular(9).end_field("until"));
    let batch = loader.pipeline("video", augmented()).build().unwrap().get(&[0], 0).unwrap();
    let pts = batch.tensor::<f64>("pts").unwrap().as_slice().to_vec();
    assert!(near(pts[0], 0.0) && pts.iter().all(|at| *at < 0.1), "{pts:?}");
    let refused = |clips: Clips| of(clips).err().unwrap().to_string();
    assert!(refused(part(Clips::random(2)).range(0.0, 1.0)).contains("expected one of the two"));
    assert!(refused(Clips::random(2).start_field("begin")).contains("begin"));
    let text = refused(Clips::random(2).start_field("video"));
    assert!(text.contains("a field of numbers"), "{text}");
    // A part that is none, and one behind the video.
    fs::write(
        &table,
        "path,label,start,end\na/high.mp4,4,0.4,0.4\na/high.mp4,5,90,99\na/high.mp4,6,0,1\n",
    )
    .unwrap();
    let loader = of(part(Clips::random(2))).unwrap();
    for (sample, words) in [(0, "from 0.4 to 0.4 seconds"), (1, "no frame begins from 90 to 99")] {
        let error = loader.get(&[sample], 0).err().unwrap();
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(error.kind(), ErrorKind::Damaged);
    }
    assert!(loader.get(&[2], 0).is_ok());
    // They are found by a check that has the same fields.
    let folder = Dataset::open(&table).unwrap().source().unwrap();
    let checked = |start_field: Option<&str>, end_field: Option<&str>| {
        let [start_field, end_field] = [start_field, end_field].map(|name| name.map(str::to_owned));
        let options = VerifyOptions { start_field, end_field, ..VerifyOptions::default() };
        verify(&*folder, &options, &|_| ())
    };
    let report = checked(None, None).unwrap();
    assert!(report.is_whole() && report.video_files == 3, "{report}");
    let report = checked(Some("start"), Some("end")).unwrap();
    assert_eq!((report.video_files, report.damaged_samples), (1, 2), "{report}");
    assert_eq!(report.troubles[&DamageKind::VideoPart], 2, "{report}");
    for words in ["from 0.4 to 0.4 seconds", "no frame begins from 90 to 99", "without a frame: 2"]
    {
        assert!(report.to_string().contains(words), "{report}");
    }
    let refused = |start| checked(Some(start), None).unwrap_err().to_string();
    assert!(refused("begin").contains("no field named begin for `start_field`"));
    assert!(refused("video").contains("a field of numbers"));
}

#[test]
fn a_preview_shows_the_error_of_a_damaged_video() {
    let dir = folder(&["a/high.mp4", "a/motion_jpeg.avi"]);
    let path = dir.path().join("a/motion_jpeg.avi");
    let mut bytes = fs::read(&path).unwrap();
    let packets: Vec<usize> =
        (0..bytes.len() - 3).filter(|at| bytes[*at..].starts_with(&[0xff, 0xd8, 0xff])).collect();
    packets.iter().for_each(|at| bytes[at + 1] = 0);
    fs::write(&path, bytes).unwrap();
    let options = PreviewOptions { samples: 2, epochs: 2, ..PreviewOptions::default() };
    let loader = || builder(dir.path(), Clips::random(3));
    assert_eq!(loader().build().unwrap().preview(&options).unwrap().damaged(), [1]);
    let error = loader().indices([1]).build().unwrap().preview(&options).unwrap_err();
    assert!(error.to_string().contains("motion_jpeg.avi"), "{error}");
}

/// A preview of a dataset shows its first frames.
#[test]
fn a_value_is_the_first_frame_upright() {
    let dir = tempfile::tempdir().unwrap();
    let video = golden("tests/golden/video/turned.mp4");
    fs::copy(&video, dir.path().join("turned.mp4")).unwrap();
    let options = FolderOptions::default().label("none".parse().unwrap());
    let folder = Folder::open(dir.path(), &options).unwrap();
    let loader = Loader::from_source(folder).clips(Clips::random(2));
    let cut = ops![CenterCrop::new((64, 48)).unwrap()];
    let loader = loader.pipeline("video", cut).build().unwrap();
    let mut inspector = loader.inspect("video", 0).unwrap().unwrap();
    let inspected = inspector.sample(0).unwrap();
    let whole = first_frames(&video, Size::new(64, 48));
    assert!(inspected.pixels == whole[..64 * 48 * 3]);
}

#[test]
fn verify_decodes_every_frame() {
    let dir = folder(&["a/high.mp4", "a/motion_jpeg.avi", "b/high.mkv", "b/mpeg4.avi"]);
    let verified = || {
        let folder = Folder::open(dir.path(), &FolderOptions::default()).unwrap();
        verify(&folder, &VerifyOptions::default(), &|_| ()).unwrap()
    };
    let needed = u64::from(Libavcodec::find().is_err());
    let report = verified();
    assert_eq!((report.video_files, report.damaged_samples), (4 - needed, needed), "{report}");
    assert!(report.to_string().contains(&format!("{} video files decoded", 4 - needed)));
    assert_eq!(report.troubles.get(&DamageKind::VideoUnsupported).copied().unwrap_or(0), needed);
    let path = dir.path().join("a/motion_jpeg.avi");
    let mut bytes = fs::read(&path).unwrap();
    let start = bytes.len() / 2;
    let packet = bytes[start..].windows(3).position(|at| at == [0xff, 0xd8, 0xff]).unwrap();
    bytes[start + packet + 1] = 0;
    fs::write(&path, bytes).unwrap();
    let report = verified();
    assert_eq!(report.troubles[&DamageKind::VideoDamaged], 1, "{report}");
    assert!(report.to_string().contains("motion_jpeg.avi"), "{report}");
    assert!(report.first[0].to_string().contains("frame "), "{report}");
}

/// A dataset that does not say that its bytes are video files is checked as clips of it are opened: by most of its values.
#[test]
fn verify_decodes_the_video_files_of_any_field_of_bytes() {
    let file = |name: &str| fs::read(golden("video/tests/golden/frames").join(name)).unwrap();
    let intact = file("motion_jpeg.avi");
    let mut damaged = intact.clone();
    let start = damaged.len() / 2;
    let packet = damaged[start..].windows(3).position(|at| at == [0xff, 0xd8, 0xff]).unwrap();
    damaged[start + packet + 1] = 0;
    let words = || Column::bytes(["one", "two", "three"].map(|word| word.as_bytes().to_vec()));
    let checked = |first: &[u8], video: &[&str]| {
        let movies = Column::bytes([first.to_vec(), intact.clone(), damaged.clone()]);
        let source = InMemory::new([("words", words()), ("movie", movies)]).unwrap();
        let video = video.iter().map(|name| (*name).to_owned()).collect();
        verify(&source, &VerifyOptions { video, ..VerifyOptions::default() }, &|_| ())
    };
    let report = checked(&file("high.mp4"), &[]).unwrap();
    assert_eq!((report.video_files, report.damaged_samples), (2, 1), "{report}");
    assert_eq!(report.troubles[&DamageKind::VideoDamaged], 1, "{report}");
    let text = report.first[0].to_string();
    assert!(text.starts_with("sample 2 (movie)") && text.contains("frame "), "{text}");
    // A first value that begins otherwise is damaged if most do not.
    let report = checked(b"no video", &[]).unwrap();
    assert_eq!((report.video_files, report.damaged_samples), (1, 2), "{report}");
    assert!(report.first[0].to_string().starts_with("sample 0 (movie)"), "{report}");
    assert!(report.undecoded_videos.is_empty(), "{report}");
    let unknown = checked(&intact, &["film"]).unwrap_err().to_string();
    assert!(unknown.contains("no field named film for `video`; available: words, movie"));
}

/// A field of which a few values are video files is one of any bytes: these are counted, and a user may name the field.
#[test]
fn verify_notes_video_files_among_other_bytes() {
    let video = fs::read(golden("video/tests/golden/frames/high.mp4")).unwrap();
    let checked = |videos: &[usize], count: usize, named: &[&str]| {
        let value = |n| if videos.contains(&n) { video.clone() } else { b"no video".to_vec() };
        let values = Column::bytes((0..count).map(value));
        let source = InMemory::new([("x", values)]).unwrap();
        let video = named.iter().map(|name| (*name).to_owned()).collect();
        verify(&source, &VerifyOptions { video, ..VerifyOptions::default() }, &|_| ()).unwrap()
    };
    let report = checked(&[2], 3, &[]);
    assert_eq!((report.video_files, report.damaged_samples), (0, 0), "{report}");
    assert_eq!(report.undecoded_videos["x"], 1, "{report}");
    let note = "note: 1 value of x begins as a video file does, not decoded: if x has video files, name it by `video`";
    assert!(report.to_string().contains(note), "{report}");
    // All of the first values are damaged.
    let (late, count) = ((8..100).collect::<Vec<usize>>(), 100);
    let report = checked(&late, count, &[]);
    assert!(report.to_string().contains("92 values of x begin as video files do"), "{report}");
    let report = checked(&late, count, &["x"]);
    assert_eq!((report.video_files, report.damaged_samples), (92, 8), "{report}");
    assert!(report.undecoded_videos.is_empty(), "{report}");
    // Half of the first eight are enough.
    assert_eq!(checked(&[4, 5, 6, 7], 20, &[]).damaged_samples, 16);
    assert_eq!(checked(&[5, 6, 7, 8], 20, &[]).damaged_samples, 0);
}

/// Returns a folder of a video whose container says that its codec is ProRes.
fn folder_of_prores() -> tempfile::TempDir {
    let dir = folder(&["a/high.mp4", "b/high.mkv"]);
    let path = dir.path().join("a/high.mp4");
    let mut bytes = fs::read(&path).unwrap();
    // The last one is that of the description of samples.
    let at = bytes.windows(4).rposition(|name| name == b"avc1").unwrap();
    bytes[at..at + 4].copy_from_slice(b"apcn");
    fs::write(path, bytes).unwrap();
    dir
}

#[test]
fn a_codec_that_no_decoder_reads_is_named_with_the_cure() {
    let dir = folder_of_prores();
    let words = ["ProRes (apcn) is not read", "H.264 and Motion JPEG", "libavcodec", "libx264"];
    let summary = DatasetSummary::of(&Dataset::open(dir.path()).unwrap()).unwrap();
    let text = summary.to_string();
    assert!(text.contains("1 ProRes (apcn),") && text.contains("; no decoder here reads 1"));
    let line = text.lines().find(|line| line.contains("a/high.mp4: ")).unwrap_or_default();
    assert!(words.iter().all(|words| line.contains(words)), "{text}");
    let json = summary.to_json();
    let listed = json["fields"][0]["video"]["no_decoder"].as_object().unwrap();
    assert_eq!(listed.len(), 1, "{listed:?}");
    // No library would read it: it is a damaged sample, with libavcodec or without.
    let loader = builder(dir.path(), Clips::random(2)).build().unwrap();
    let error = loader.epoch(0).unwrap().find_map(Result::err).unwrap();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert!(words.iter().all(|words| error.to_string().contains(words)), "{error}");
}

#[test]
fn info_describes_a_single_file() {
    let described =
        |dir: &Path| DatasetSummary::of(&Dataset::open(dir).unwrap()).unwrap().to_string();
    let dir = folder(&["a/high.mp4"]);
    let text = described(dir.path());
    assert!(text.contains("video files, of the first one: 1 H.264, 64 x 48"), "{text}");
    fs::write(dir.path().join("a/high.mp4"), b"no video").unwrap();
    let text = described(dir.path());
    assert!(text.contains("video files, the first one unreadable\n"), "{text}");
}

#[test]
fn info_describes_the_first_files() {
    let dir = folder(&["a/high.mp4", "a/motion_jpeg.avi", "b/high.mkv", "b/hevc.mp4"]);
    fs::write(dir.path().join("b/x.mp4"), b"no video").unwrap();
    let summary = DatasetSummary::of(&Dataset::open(dir.path()).unwrap()).unwrap();
    let text = summary.to_string();
    let words = "video files, of the first 5: 2 H.264, 1 HEVC (H.265), 1 Motion JPEG, 1 unreadable, 64 x 48 pixels";
    assert!(text.contains(words) && text.contains("25 frames/s"), "{text}");
    let named = text.lines().find(|line| line.contains("b/x.mp4: ")).unwrap_or_default();
    assert!(named.contains("no video file") || named.contains("AVI"), "{text}");
    for name in ["c", "d", "e", "f"] {
        fs::write(dir.path().join(format!("a/{name}.mp4")), b"no video").unwrap();
    }
    let several = DatasetSummary::of(&Dataset::open(dir.path()).unwrap()).unwrap().to_string();
    let lines = several.lines().filter(|line| line.starts_with("    "));
    let lines: Vec<&str> = lines.collect();
    assert!(lines[2].contains("a/e.mp4: ") && lines[3].starts_with("    and 2 more"), "{several}");
    let json = summary.to_json();
    let video = &json["fields"][0]["video"];
    assert_eq!(video["codecs"]["H.264"], 2);
    assert_eq!((&video["height"][0], &video["width"][1]), (&48.into(), &64.into()), "{video}");
    assert_eq!((&video["unreadable"], &video["frames"][0]), (&1.into(), &4.into()), "{video}");
    assert!(video["faults"][0].as_str().unwrap().contains("b/x.mp4: "), "{video}");
}

/// Bytes of any dataset are described as video files if most of them begin as such.
#[test]
fn info_describes_video_files_in_bytes() {
    let dir = folder(&["a/high.mp4", "a/motion_jpeg.avi", "b/high.mkv"]);
    let path = dir.path().join("files.beton");
    let source = Dataset::open(dir.path()).unwrap().source().unwrap();
    convert(&*source, &path, &WriteOptions::default()).unwrap();
    let described = |dataset: &Dataset| DatasetSummary::of(dataset).unwrap();
    let summary = described(&Dataset::open(&path).unwrap());
    let text = summary.to_string();
    let words = "video files, of the first 3: 2 H.264, 1 Motion JPEG, 64 x 48 pixels, ";
    assert!(text.contains(words), "{text}");
    assert!(text.contains("25 frames/s, a key frame every") && text.contains(" kB to "), "{text}");
    let json = summary.to_json();
    assert_eq!(json["fields"][0]["video"]["codecs"]["H.264"], 2);
    assert!(json["fields"][0]["stats"]["max_bytes"].is_u64(), "{json}");
    // A damaged value is named.
    let video = fs::read(golden("video/tests/golden/frames/high.mp4")).unwrap();
    let values = [b"no video".to_vec(), video.clone(), video];
    let words = Column::bytes(["one", "two", "three"]);
    let memory = InMemory::new([("movie", Column::bytes(values)), ("words", words)]).unwrap();
    // The file of all samples does not name one.
    let stored = dir.path().join("damaged.beton");
    convert(&memory, &stored, &WriteOptions::default()).unwrap();
    let text = described(&Dataset::open(&stored).unwrap()).to_string();
    let fault = text.lines().find(|line| line.contains("no AVI")).unwrap_or_default();
    assert!(fault.starts_with("    sample 0: "), "{text}");
    let text = described(&Dataset::Source(Arc::new(memory))).to_string();
    assert!(text.contains("of the first 3: 2 H.264, 1 unreadable, 64 x 48 pixels"), "{text}");
    assert!(
        text.lines().any(|line| line.starts_with("    ") && line.contains("sample 0")),
        "{text}"
    );
    let words = text.lines().find(|line| line.contains("words")).unwrap();
    assert!(words.trim_end().ends_with("bytes"), "{text}");
}

/// Files stay byte for byte in a folder, whichever dataset they are from, and clips of them are the same.
#[cfg(feature = "tar")]
#[test]
fn video_files_are_converted_to_folders_and_back() {
    let dir = folder(&VIDEOS);
    let out = tempfile::tempdir().unwrap();
    let path = |name: &str| out.path().join(name);
    let write = |from: &Path, to: &str| {
        let source = Dataset::open(from).unwrap().source().unwrap();
        convert(&*source, path(to), &WriteOptions::default()).unwrap();
    };
    write(dir.path(), "files");
    write(dir.path(), "files.beton");
    write(&path("files.beton"), "again");
    write(dir.path(), "files.tar");
    write(&path("files.tar"), "unpacked");
    let frames = |from: &Path| rows(batches(&builder(from, Clips::random(3)).build().unwrap(), 0));
    let expected = frames(dir.path());
    for name in ["files", "again", "unpacked"] {
        assert!(frames(&path(name)) == expected, "{name}");
        let mut kinds: Vec<String> = vec![];
        let mut listed: Vec<PathBuf> = vec![path(name)];
        while let Some(at) = listed.pop() {
            if at.is_dir() {
                listed.extend(fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path()));
            } else if let Some(extension) = at.extension().filter(|kind| *kind != "json") {
                kinds.push(extension.to_str().unwrap().to_owned());
            }
        }
        kinds.sort_unstable();
        assert_eq!(kinds, ["avi", "mkv", "mp4", "mp4", "mp4", "mp4"], "{name}");
    }
    let mixed = InMemory::new([("video", Column::bytes([b"no video".to_vec()]))]).unwrap();
    let refused = convert(&mixed, path("x"), &WriteOptions::default()).unwrap_err();
    assert!(refused.to_string().contains("audio or video files"), "{refused}");
}

/// The key of a sample begins the names of its members.
#[cfg(feature = "tar")]
#[test]
fn members_of_tar_shards_are_video_files() {
    let dir = folder(&["a/high.mp4", "a/baseline.mp4"]);
    let path = dir.path().join("clips.tar");
    let mut tar = tar::Builder::new(fs::File::create(&path).unwrap());
    let mut add = |name: &str, bytes: &[u8]| {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, bytes).unwrap();
    };
    for (key, name, label) in [("0001", "a/baseline.mp4", "5"), ("0002", "a/high.mp4", "3")] {
        add(&format!("{key}.mp4"), &fs::read(dir.path().join(name)).unwrap());
        add(&format!("{key}.cls"), label.as_bytes());
    }
    tar.finish().unwrap();
    drop(tar);
    let refused = Loader::open(&path).unwrap().build().err().unwrap().to_string();
    assert!(refused.contains("field mp4") && refused.contains("choose them"), "{refused}");
    let clips = Clips::random(3);
    let loader = Loader::open(&path).unwrap().batch_size(2).seed(7).clips(clips);
    let loader = loader.pipeline("mp4", augmented()).build().unwrap();
    let batch = &batches(&loader, 0)[0];
    let files = rows(batches_of_folder(dir.path()));
    let expected = [&files[0].1[..], &files[1].1[..]].concat();
    assert!(batch.tensor::<u8>("video").unwrap().as_slice() == expected);
}

/// Video files whose extension is not stored are found by their first bytes.
#[test]
fn the_only_field_of_bytes_that_are_video_files_has_the_clips() {
    let file = |name: &str| fs::read(golden("video/tests/golden/frames").join(name)).unwrap();
    let videos = || Column::bytes(vec![file("baseline.mp4"), file("high.mkv")]);
    let words = || Column::bytes(vec![b"one".to_vec(), b"two".to_vec()]);
    let of = |fields: Vec<(&str, Column)>, clips: Clips| {
        let loader = Loader::from_source(InMemory::new(fields).unwrap()).seed(7).batch_size(2);
        let cut = ops![CenterCrop::new(8).unwrap()];
        let loader = loader.clips(clips).without("words");
        loader.pipeline("video", cut).build()
    };
    let clips = || Clips::random(2);
    let found = of(vec![("words", words()), ("data", videos())], clips()).unwrap();
    let named = of(vec![("words", words()), ("data", videos())], clips().field("data")).unwrap();
    let pixels = |loader: &Loader| {
        loader.get(&[0, 1], 0).unwrap().tensor::<u8>("video").unwrap().as_slice().to_vec()
    };
    assert!(pixels(&found) == pixels(&named));
    let two = of(vec![("words", words()), ("a", videos()), ("b", videos())], clips());
    let text = two.err().unwrap().to_string();
    for words in ["fields a and b", "name it", "`Clips::field`", "`without`"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("mask"), "{text}");
    let none = of(vec![("words", words()), ("other", words())], clips());
    let text = none.err().unwrap().to_string();
    assert!(text.contains("(words, other)") && text.contains("`Clips::field`"), "{text}");
}
