//! The clip store: clips of it are those of the videos that it was made of, it has the same bytes for any number of threads
//! and after an interruption, and is a dataset of images besides.

use crate::clips::folder as frame_folder;
use crate::video::{VIDEOS, augmented, batches, builder, folder, golden, rows};
use fuseloop::loader::Clips;
use fuseloop::recut::Tile;
use fuseloop::source::{
    Beton, Column, Dataset, FieldKind, FieldSpec, Folder, FolderOptions, InMemory, OpenOptions,
    Selected, Source,
};
use fuseloop::write::{
    CancelFlag, FieldValue, ImageInput, ImageOptions, OnUnreadable, ProgressFn, VideoOptions,
    WriteMode, WriteOptions, WriteReport, convert_videos, write_iter,
};
use fuseloop::{Error, ErrorKind, Loader, OnDamaged, ops::*};
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

pub(crate) fn opened(path: &Path) -> Arc<dyn Source> {
    match Dataset::open(path).unwrap() {
        Dataset::Beton(beton) => beton,
        Dataset::Folder(folder) => folder,
        Dataset::Source(source) => source,
        Dataset::Stream(_) => unreachable!("no dataset here is a stream"),
    }
}

fn stored(from: &Path, to: &Path, image: ImageOptions) -> Result<WriteReport, Error> {
    let options = WriteOptions { image, overwrite: true, ..WriteOptions::default() };
    convert_videos(opened(from), to, &VideoOptions::default(), &options)
}

fn raw() -> ImageOptions {
    ImageOptions { write_mode: WriteMode::Raw, ..ImageOptions::default() }
}

fn clips() -> [Clips; 4] {
    [
        Clips::random(5).stride(3),
        Clips::all(4).fps(10.0),
        Clips::segments(3),
        Clips::regular(4).clips(2).range(0.04, 0.4),
    ]
}

#[test]
fn clips_of_raw_frames_are_those_of_the_videos_to_the_bit() {
    let dir = folder(&VIDEOS);
    // H.264 and Motion JPEG that a player turns.
    let turned = ["tests/golden/video/turned.mp4", "video/tests/golden/containers/turned.mov"];
    for video in turned.map(golden) {
        fs::copy(&video, dir.path().join("b").join(video.file_name().unwrap())).unwrap();
    }
    let store = dir.path().join("clips.beton");
    let report = stored(dir.path(), &store, raw()).unwrap();
    assert_eq!((report.skipped.count, report.files), (0, 1));
    for clips in clips() {
        for epoch in 0..2 {
            let of = |path: &Path| {
                let loader = builder(path, clips.clone()).build().unwrap();
                let batches = batches(&loader, epoch);
                let labels: Vec<i64> = batches
                    .iter()
                    .flat_map(|batch| batch.tensor::<i64>("label").unwrap().as_slice().to_vec())
                    .collect();
                (labels, rows(batches))
            };
            assert!(of(dir.path()) == of(&store), "{clips:?}");
        }
    }
}

#[test]
fn every_way_to_store_jpegs_has_the_same_clips_close_to_those_of_the_videos() {
    let dir = folder(&VIDEOS);
    let tile = Some(Tile::default());
    let ways = [
        ("jpg", ImageOptions::default()),
        ("tiled", ImageOptions { tile, ..ImageOptions::default() }),
        ("planes", ImageOptions { bit_planes: true, ..ImageOptions::default() }),
    ];
    let of = |path: &Path| {
        let clips = Clips::random(4).stride(2);
        let whole = ops![CenterCrop::new(48).unwrap()];
        let loader = builder(path, clips).pipeline("video", whole).build().unwrap();
        rows(batches(&loader, 3))
    };
    let videos = of(dir.path());
    let mut first = None;
    for (name, image) in ways {
        let store = dir.path().join(format!("{name}.beton"));
        let report = stored(dir.path(), &store, image.clone()).unwrap();
        assert!(report.passed_through > 0 || image.tile.is_some() || image.bit_planes, "{name}");
        let found = of(&store);
        for ((pts, clip), (own, pixels)) in found.iter().zip(&videos) {
            assert_eq!(pts, own);
            let differences = clip.iter().zip(pixels).map(|(a, b)| u64::from(a.abs_diff(*b)));
            let mean = differences.sum::<u64>() as f64 / pixels.len() as f64;
            // Chroma of half the resolution changes the saturated colours of these pictures.
            assert!(mean < 10.0, "{name}: {mean}");
        }
        assert!(*first.get_or_insert_with(|| found.clone()) == found, "{name}");
    }
}

#[test]
fn the_jpegs_are_those_of_the_decoded_frames() {
    let dir = folder(&["a/high.mp4", "b/variable_rate.mp4"]);
    let [pixels, jpegs, videos] =
        ["pixels", "jpegs", "videos"].map(|name| dir.path().join(format!("{name}.beton")));
    stored(dir.path(), &pixels, raw()).unwrap();
    stored(dir.path(), &videos, ImageOptions::default()).unwrap();
    let image = ImageOptions { write_mode: WriteMode::Jpg, ..ImageOptions::default() };
    stored(&pixels, &jpegs, image).unwrap();
    assert!(fs::read(jpegs).unwrap() == fs::read(videos).unwrap());
}

#[test]
fn the_file_is_the_same_for_any_number_of_threads_and_chunks() {
    let dir = folder(&VIDEOS);
    let of = |threads, max_samples| {
        let store = dir.path().join("clips.beton");
        let threads = NonZeroUsize::new(threads);
        let options =
            WriteOptions { threads, max_samples, overwrite: true, ..WriteOptions::default() };
        convert_videos(opened(dir.path()), &store, &VideoOptions::default(), &options).unwrap();
        fs::read(store).unwrap()
    };
    let one = of(1, None);
    for (threads, max_samples) in [(2, None), (5, None), (3, Some(7)), (1, Some(1))] {
        assert!(of(threads, max_samples) == one, "{threads} threads, {max_samples:?}");
    }
}

#[test]
fn a_conversion_that_was_stopped_goes_on_to_the_same_bytes() {
    let dir = folder(&VIDEOS);
    let videos = || opened(dir.path());
    let settings = VideoOptions::default();
    let undisturbed = dir.path().join("undisturbed.beton");
    convert_videos(videos(), &undisturbed, &settings, &WriteOptions::default()).unwrap();
    let store = dir.path().join("clips.beton");
    let cancel = CancelFlag::new();
    let flag = cancel.clone();
    let progress = ProgressFn::new(move |done| {
        if done.done >= 40 {
            flag.cancel();
        }
    });
    let options =
        WriteOptions { cancel, progress, max_samples: Some(9), ..WriteOptions::default() };
    let error = convert_videos(videos(), &store, &settings, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    assert!(!store.exists());
    let options = WriteOptions { max_samples: Some(9), ..WriteOptions::default() };
    let report = convert_videos(videos(), &store, &settings, &options).unwrap();
    assert!((9..=40).contains(&report.resumed), "{}", report.resumed);
    assert!(fs::read(&store).unwrap() == fs::read(&undisturbed).unwrap());
}

#[test]
fn a_store_is_a_dataset_of_images_with_the_fields_of_ffcv() {
    let dir = folder(&["a/high.mp4", "b/variable_rate.mp4"]);
    let store = dir.path().join("clips.beton");
    let report = stored(dir.path(), &store, ImageOptions::default()).unwrap();
    let beton = Beton::open(&store, &OpenOptions::default()).unwrap();
    let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
    let expected = [
        field("image", FieldKind::RgbImage),
        field("label", FieldKind::Int),
        field("video_index", FieldKind::Int),
        field("pts", FieldKind::Float),
    ];
    assert_eq!(*beton.facts().fields, expected);
    let names = beton.facts().class_names().unwrap().unwrap();
    assert_eq!(names.iter().map(|(_, name)| name).collect::<Vec<_>>(), ["a", "b"]);
    let loader = Loader::open(&store).unwrap().batch_size(report.samples as usize);
    let images = ops![CenterCrop::new(32).unwrap()];
    let loader = loader.pipeline("image", images).build().unwrap();
    let batch = &batches(&loader, 0)[0];
    let index = batch.tensor::<i64>("video_index").unwrap().as_slice().to_vec();
    let (pts, label) = (batch.tensor::<f64>("pts").unwrap(), batch.tensor::<i64>("label").unwrap());
    assert_eq!(batch.tensor::<u8>("image").unwrap().shape()[0] as u64, report.samples);
    assert!(index == label.as_slice() && index.is_sorted() && index.ends_with(&[1]));
    let second = index.iter().filter(|video| **video == 1).count();
    assert!(second > 1 && pts.as_slice()[index.len() - second..].is_sorted());
}

#[test]
fn frames_that_are_files_stay_byte_for_byte_and_have_the_times_of_their_rate() {
    let (frames, dir) = (frame_folder(), tempfile::tempdir().unwrap());
    let store = dir.path().join("clips.beton");
    let convert = |settings: &VideoOptions| {
        let options = WriteOptions { overwrite: true, ..WriteOptions::default() };
        convert_videos(opened(frames.path()), &store, settings, &options)
    };
    let report = convert(&VideoOptions::default()).unwrap();
    assert_eq!((report.passed_through, report.samples), (report.samples, 12 + 9 + 15 + 3 + 1));
    // Without a rate, a store has no times, and a loader counts frames or takes its own rate.
    let of = |path: &Path, clips: Clips| rows(batches(&builder(path, clips).build().unwrap(), 1));
    for clips in [
        Clips::random(4).stride(2),
        Clips::random(4).fps(5.0).source_fps(10.0),
        Clips::all(5).source_fps(3.0),
    ] {
        assert!(of(frames.path(), clips.clone()) == of(&store, clips));
    }
    let seconds = builder(&store, Clips::random(4).fps(5.0)).build().err().unwrap().to_string();
    assert!(seconds.contains("source_fps"), "{seconds}");
    convert(&VideoOptions { source_fps: Some(10.0), ..VideoOptions::default() }).unwrap();
    for clips in [Clips::random(4).fps(5.0), Clips::segments(3).range(0.0, 0.9)] {
        let own = of(frames.path(), clips.clone().source_fps(10.0));
        assert!(own == of(&store, clips));
    }
    // Every third frame, and the store of a store.
    let thin = VideoOptions { frame_stride: 3.try_into().ok(), ..VideoOptions::default() };
    let thinned = dir.path().join("thin.beton");
    let report = convert_videos(opened(&store), &thinned, &thin, &WriteOptions::default()).unwrap();
    assert_eq!(report.samples, 4 + 3 + 5 + 1 + 1);
    let (every, third) = (of(&store, Clips::all(12)), of(&thinned, Clips::all(4)));
    assert_eq!(third[0].0, [0.0, 0.3, 0.6, 0.9]);
    assert_eq!(every[0].0.iter().copied().step_by(3).collect::<Vec<_>>(), third[0].0);
}

#[test]
fn damaged_frames_are_refused_by_name_or_left_out() {
    let dir = folder(&["a/high.mp4", "a/motion_jpeg.avi", "b/baseline.mp4"]);
    let change = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let path = dir.path().join(name);
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(path, bytes).unwrap();
    };
    change("a/motion_jpeg.avi", &|bytes| {
        let is_start = |at: &usize| bytes[*at..].starts_with(&[0xff, 0xd8, 0xff]);
        let third = (0..bytes.len() - 2).filter(is_start).nth(2).unwrap();
        bytes[third..][..3].fill(0);
    });
    change("b/baseline.mp4", &|bytes| bytes.fill(b'x'));
    let store = dir.path().join("clips.beton");
    let of = |on_damaged| {
        let options = WriteOptions { on_damaged, ..WriteOptions::default() };
        convert_videos(opened(dir.path()), &store, &VideoOptions::default(), &options)
    };
    let error = of(OnUnreadable::Fail).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("frame 2: ") && text.contains("motion_jpeg.avi"), "{text}");
    assert!(error.path().unwrap().ends_with("motion_jpeg.avi") && !store.exists());
    let report = of(OnUnreadable::Skip).unwrap();
    let skipped = &report.skipped;
    let files = skipped.first.iter().map(|one| one.path.as_ref().unwrap().file_name().unwrap());
    assert_eq!(files.collect::<Vec<_>>(), ["motion_jpeg.avi", "baseline.mp4"]);
    assert_eq!(skipped.count, 2);
    // The frame is missing, and the others keep their times; the video without frames is missing.
    let of = |path: &Path| {
        let loader = builder(path, Clips::all(8)).on_damaged(OnDamaged::Skip).build().unwrap();
        rows(batches(&loader, 0))
    };
    let clips = of(&store);
    let video = folder(&["a/motion_jpeg.avi"]);
    let whole = of(video.path());
    let own = clips.iter().rposition(|(pts, _)| pts.first() == Some(&0.0)).unwrap();
    let mut expected = whole[0].0.clone();
    expected.remove(2);
    assert_eq!(clips[own].0[..7], expected[..7]);
}

#[test]
fn a_damaged_picture_that_no_other_needs_is_the_only_frame_that_is_left_out() {
    let dir = folder(&["a/main.mp4"]);
    let path = dir.path().join("a/main.mp4");
    let mut bytes = fs::read(&path).unwrap();
    // The slice of frame 2, a B picture: decoders hold the ones before back when they come to it.
    bytes[1560..1568].fill(0);
    fs::write(path, bytes).unwrap();
    let store = dir.path().join("clips.beton");
    let of = |on_damaged| {
        let options = WriteOptions { on_damaged, ..WriteOptions::default() };
        convert_videos(opened(dir.path()), &store, &VideoOptions::default(), &options)
    };
    let text = of(OnUnreadable::Fail).unwrap_err().to_string();
    assert!(text.contains("frame 2: "), "{text}");
    let report = of(OnUnreadable::Skip).unwrap();
    assert_eq!((report.samples, report.skipped.count), (19, 1));
    let [left, whole] = [&store, folder(&["a/main.mp4"]).path()].map(|path| {
        let loader = builder(path, Clips::all(19)).build().unwrap();
        rows(batches(&loader, 0))[0].0.clone()
    });
    assert_eq!(left[..2], whole[..2]);
    assert_eq!(left[2..18], whole[3..19]);
}

#[test]
fn the_frames_may_be_any_field_of_a_store() {
    let frames: Vec<u8> = (0..4).flat_map(|row| [row; 16 * 16 * 3]).collect();
    let of = |order: [&'static str; 3]| {
        let columns = order.map(|name| match name {
            "video_index" => (name, Column::ints([0, 0, 1, 1])),
            "pts" => (name, Column::floats([0.0, 0.1, 0.0, 0.1])),
            _ => (name, Column::rgb(16, frames.clone())),
        });
        let store = Loader::from_source(InMemory::new(columns).unwrap());
        let loader = store.batch_size(2).clips(Clips::regular(2)).build().unwrap();
        let batch = &batches(&loader, 0)[0];
        batch.tensor::<u8>("video").unwrap().as_slice().to_vec()
    };
    for order in [["video_index", "pts", "image"], ["image", "video_index", "pts"]] {
        assert!(of(order) == frames, "{order:?}");
    }
}

#[test]
fn videos_of_a_list_are_stored_in_its_order_with_its_labels() {
    let dir = folder(&VIDEOS);
    let list = dir.path().join("trainlist01.txt");
    fs::write(&list, "b/high.mp4 9\nbaseline 20 4\n").unwrap();
    let options = FolderOptions::default().label("none".parse().unwrap());
    let videos = Arc::new(Folder::open(dir.path(), &options).unwrap());
    let store = dir.path().join("clips.beton");
    let settings = VideoOptions { list: Some(list.clone()), ..VideoOptions::default() };
    convert_videos(videos, &store, &settings, &WriteOptions::default()).unwrap();
    let loader = builder(&store, Clips::segments(2)).build().unwrap();
    let batch = &batches(&loader, 0)[0];
    assert_eq!(batch.tensor::<i64>("label").unwrap().as_slice(), [9, 4]);
    let refused = builder(&store, Clips::segments(2).list(&list)).build().err().unwrap();
    assert!(refused.to_string().contains("have no names"), "{refused}");
}

#[test]
fn other_outputs_and_datasets_without_videos_are_refused() {
    let dir = folder(&["a/high.mp4"]);
    let refused = |dataset: Arc<dyn Source>, to: &str, settings: &VideoOptions| {
        let out = dir.path().join(to);
        let converted = convert_videos(dataset, &out, settings, &WriteOptions::default());
        assert!(!out.exists());
        converted.unwrap_err().to_string()
    };
    let none = VideoOptions::default();
    // Frames that are selected one by one have no times.
    let frames = frame_folder();
    let frames = opened(frames.path());
    let some: Arc<dyn Source> = Arc::new(Selected::new(frames, [0, 2, 4]).unwrap());
    assert!(refused(some, "x.beton", &none).contains("--frame-stride"));
    for to in ["x.tar", "x-{000}.beton", "frames/"] {
        let text = refused(opened(dir.path()), to, &none);
        assert!(text.contains("single .beton file"), "{to}: {text}");
    }
    let rate = VideoOptions { source_fps: Some(0.0), ..VideoOptions::default() };
    assert!(refused(opened(dir.path()), "x.beton", &rate).contains("source_fps is 0"));
    let named = VideoOptions { field: Some("label".to_owned()), ..VideoOptions::default() };
    assert!(
        refused(opened(dir.path()), "x.beton", &named)
            .contains("only a field of images, or of bytes")
    );
    let named = VideoOptions { field: Some("none".to_owned()), ..VideoOptions::default() };
    assert!(refused(opened(dir.path()), "x.beton", &named).contains("no field named none"));
    let bytes = Column::bytes(vec![b"one".to_vec()]);
    let bytes = Arc::new(InMemory::new([("words", bytes)]).unwrap());
    let text = refused(bytes, "x.beton", &none);
    assert!(text.contains("(words)") && text.contains("`field`"), "{text}");
    let numbers = Column::ints([1, 2]);
    let numbers = Arc::new(InMemory::new([("x", numbers)]).unwrap());
    assert!(refused(numbers, "x.beton", &none).contains("no field has video files"));
}

#[test]
fn stores_whose_rows_are_out_of_order_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
    let fields = [
        field("image", FieldKind::RgbImage),
        field("video_index", FieldKind::Int),
        field("pts", FieldKind::Float),
    ];
    let refused = |rows: &[(i64, f64)]| {
        let path = dir.path().join("clips.beton");
        let rows = rows.iter().map(|&(video, pts)| {
            let image = ImageInput::Rgb { pixels: vec![0; 32 * 32 * 3], width: 32, height: 32 };
            vec![FieldValue::Image(image), FieldValue::Int(video), FieldValue::Float(pts)]
        });
        let options = WriteOptions { overwrite: true, ..WriteOptions::default() };
        write_iter(rows, &fields, &path, &options).unwrap();
        let loader = Loader::open(&path).unwrap().clips(Clips::random(2));
        loader.pipeline("video", augmented()).build().err()
    };
    assert!(refused(&[(0, 0.0), (0, 0.1), (4, 0.0)]).is_none());
    let error = refused(&[(0, 0.0), (1, 0.0), (0, 0.1)]).unwrap();
    assert_eq!((error.field(), error.sample().unwrap().0), (Some("video_index"), 2), "{error}");
    assert!(error.to_string().contains("clips.beton: row 2 is of video 0"), "{error}");
    let error = refused(&[(0, 0.5), (0, 0.1)]).unwrap();
    assert_eq!((error.field(), error.kind()), (Some("pts"), ErrorKind::Damaged), "{error}");
}
