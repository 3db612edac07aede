//! Clips of videos: the frames of a sample are those of the times in its batch, each is the image that a loader of images
//! makes of it by the same draws, and nothing depends on threads, ranks or where a run began.

use fuseloop::loader::{Cache, ClipLayout, Clips, Collate, OnShort};
use fuseloop::order::{Ranks, Uneven};
use fuseloop::preview::PreviewOptions;
use fuseloop::source::{
    BoxError, Column, Concat, Facts, FieldKind, Folder, FolderOptions, ImageStats, InMemory,
    OwnedImage, OwnedValue, ProcessCache, Record, SampleLocation, Source,
};
use fuseloop::{
    Batch, Cursor, ErrorKind, Loader, LoaderBuilder, OnDamaged, Order, SampleId, ops::*,
};
use jpeg_encoder::{ColorType, Encoder};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SEED: u64 = 11;

/// The videos: their folders, and their numbers of frames. The last two are shorter than most clips here.
const VIDEOS: [(&str, u32); 5] =
    [("ride/v1", 12), ("ride/v10", 9), ("walk/v2", 15), ("walk/v3", 3), ("walk/v4", 1)];

/// The frames per second.
const FPS: f64 = 10.0;

/// Returns a frame: a picture of its own size in video 2, and of 40 x 56 in others.
fn jpeg(video: usize, frame: u32) -> Vec<u8> {
    let (height, width) = if video == 2 { (36 + frame % 2 * 8, 50) } else { (40, 56) };
    let level = |y: u32, x: u32, c: u32| {
        let phase = f64::from(frame) * 0.7 + video as f64;
        let wave = (f64::from(y) / 5.0 + phase).sin() * 50.0 + (f64::from(x) / 7.0).cos() * 40.0;
        (120.0 + wave + f64::from(c) * 10.0) as u8
    };
    let pixels: Vec<u8> = (0..height)
        .flat_map(|y| (0..width).flat_map(move |x| [0, 1, 2].map(|c| level(y, x, c))))
        .collect();
    let mut bytes = vec![];
    let encoder = Encoder::new(&mut bytes, 90);
    encoder.encode(&pixels, width as u16, height as u16, ColorType::Rgb).unwrap();
    bytes
}

/// Writes the videos as folders of frames, whose names have no leading zeros.
pub(crate) fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (video, (name, frames)) in VIDEOS.into_iter().enumerate() {
        fs::create_dir_all(dir.path().join(name)).unwrap();
        for frame in 0..frames {
            fs::write(frame_file(dir.path(), name, frame), jpeg(video, frame)).unwrap();
        }
    }
    dir
}

fn frame_file(dir: &Path, video: &str, frame: u32) -> PathBuf {
    dir.join(format!("{video}/img_{}.jpg", frame + 1))
}

fn augmented() -> Ops {
    ops![
        RandomResizedCrop::new(24).unwrap(),
        RandomHorizontalFlip::new(0.5).unwrap(),
        ColorJitter::new(0.4, 0.4, 0.4).unwrap(),
        ToChannelsFirst,
    ]
}

/// Images with boxes, of which two each are in one folder.
struct Annotated(Facts);

impl Annotated {
    fn new() -> Self {
        let fields = [("image", FieldKind::RgbImage), ("bbox", FieldKind::Bytes)];
        let size = Some(Size::new(8, 8));
        let stats =
            ImageStats { raw: 4, min: size, max: size, max_pixels: 64, ..ImageStats::default() };
        let facts = Facts::new(fields, 4).with_longest(|_| Some(16));
        Self(facts.with_image_stats(move |field| (field == 0).then(|| stats.clone())))
    }
}

impl Source for Annotated {
    fn facts(&self) -> &Facts {
        &self.0
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        let image = OwnedImage::rgb(8, vec![sample.0 as u8; 8 * 8 * 3]);
        Ok(vec![OwnedValue::Image(image), OwnedValue::Bytes(vec![0; 16])])
    }

    fn locate(&self, sample: SampleId, _: usize) -> Option<SampleLocation> {
        let name = format!("v{}/{}.png", sample.0 / 2, sample.0);
        Some(SampleLocation::of_key(name))
    }
}

fn builder(dir: &Path, clips: Clips) -> LoaderBuilder {
    Loader::open(dir)
        .unwrap()
        .batch_size(2)
        .seed(SEED)
        .clips(clips.source_fps(FPS))
        .pipeline("video", augmented())
}

fn batches(loader: &Loader, epoch: u32) -> Vec<Batch> {
    loader.epoch(epoch).unwrap().map(Result::unwrap).collect()
}

/// Returns the numbers of the frames of each sample of a batch.
fn frames_of(batch: &Batch) -> Vec<Vec<u32>> {
    let pts = batch.tensor::<f64>("pts").unwrap();
    let frames = pts.shape()[1..].iter().product();
    let number = |seconds: &f64| (seconds * FPS).round() as u32;
    pts.as_slice().chunks(frames).map(|row| row.iter().map(number).collect()).collect()
}

/// Returns the rows of a batch's clips, in bytes.
fn rows_of(batch: &Batch) -> Vec<Vec<u8>> {
    let clips = batch.tensor::<u8>("video").unwrap();
    let row: usize = clips.shape()[1..].iter().product();
    clips.as_slice().chunks(row).map(<[u8]>::to_vec).collect()
}

/// Returns the row that a loader of images has for a frame: an image that is sample number `video`.
fn image_row(video: usize, frame: u32, epoch: u32) -> Vec<u8> {
    let images = (0..VIDEOS.len()).map(|_| OwnedImage::file(jpeg(video, frame))).collect();
    let source = InMemory::new([("video", Column::images(images))]).unwrap();
    let loader = Loader::from_source(source).seed(SEED).pipeline("video", augmented());
    let batch = loader.build().unwrap().get(&[video as u64], epoch).unwrap();
    batch.tensor::<u8>("video").unwrap().as_slice().to_vec()
}

#[test]
fn a_frame_is_the_image_of_its_time_by_the_draws_of_the_sample() {
    let dir = folder();
    let kinds = [
        Clips::random(5).stride(2),
        Clips::random(4).fps(4.0),
        Clips::regular(3).on_short(OnShort::Wrap),
        Clips::segments(4),
    ];
    for clips in kinds {
        let loader = builder(dir.path(), clips.clone()).build().unwrap();
        for epoch in [0, 3] {
            let mut samples = 0;
            for batch in batches(&loader, epoch) {
                for (frames, row) in frames_of(&batch).into_iter().zip(rows_of(&batch)) {
                    assert!(frames.iter().all(|frame| *frame < VIDEOS[samples].1), "{frames:?}");
                    for (frame, image) in frames.iter().zip(row.chunks(3 * 24 * 24)) {
                        let expected = image_row(samples, *frame, epoch);
                        assert!(image == expected, "{clips:?}: video {samples}, frame {frame}");
                    }
                    samples += 1;
                }
            }
            assert_eq!(samples, VIDEOS.len());
        }
    }
}

#[test]
fn a_batch_has_labels_and_times_and_both_names_of_the_frames() {
    let dir = folder();
    let loader = builder(dir.path(), Clips::random(5).stride(2)).batch_size(5).build().unwrap();
    assert_eq!((loader.samples(), loader.len()), (5, 1));
    assert_eq!(loader.classes().unwrap().get(1), Some("walk"));
    let batch = &batches(&loader, 0)[0];
    assert_eq!(batch.tensor::<i64>("label").unwrap().as_slice(), [0, 0, 1, 1, 1]);
    for name in ["video", "image"] {
        assert_eq!(batch.tensor::<u8>(name).unwrap().shape(), [5, 5, 3, 24, 24]);
    }
    assert_eq!(batch.tensor::<f64>("pts").unwrap().shape(), [5, 5]);
    // The last video has one frame.
    assert_eq!(frames_of(batch)[4], [0; 5]);
    assert!(
        loader.explain().contains("random clips of 5 frames, stride 2"),
        "{}",
        loader.explain()
    );
    let other = &batches(&loader, 1)[0];
    assert_ne!(frames_of(batch), frames_of(other));
}

/// Returns the frames and the rows of an epoch, as one list.
fn all(batches: impl IntoIterator<Item = Batch>) -> Vec<(Vec<u32>, Vec<u8>)> {
    let batches = batches.into_iter();
    batches.flat_map(|batch| frames_of(&batch).into_iter().zip(rows_of(&batch))).collect()
}

#[test]
fn the_clips_are_the_same_for_any_number_of_workers_ranks_and_batches_and_after_a_resume() {
    let dir = folder();
    let clips = || Clips::random(4).stride(2);
    let of = |workers, size| {
        builder(dir.path(), clips()).order(Order::Random).workers(workers).batch_size(size)
    };
    let undisturbed = all(batches(&of(1, 2).build().unwrap(), 2));
    for (workers, size) in [(4, 2), (3, 1), (2, 5)] {
        assert!(all(batches(&of(workers, size).build().unwrap(), 2)) == undisturbed);
    }
    let loader = of(3, 2).build().unwrap();
    for taken in 0..=3 {
        let mut run = loader.epoch(2).unwrap();
        (0..taken).for_each(|_| drop(run.next().unwrap().unwrap()));
        let cursor: Cursor = run.cursor().unwrap().to_string().parse().unwrap();
        let rest = of(2, 2).build().unwrap();
        let rest = all(rest.resume(&cursor).unwrap().map(Result::unwrap));
        assert!(rest == undisturbed[(2 * taken).min(5)..], "after {taken}");
        let other = builder(dir.path(), Clips::random(4).stride(3)).order(Order::Random);
        let refused = other.build().unwrap().resume(&cursor).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Cursor);
        assert!(refused.to_string().contains("`stride` was 2 and is 3"), "{refused}");
        let images = Loader::open(dir.path()).unwrap().batch_size(2).seed(7).order(Order::Random);
        let refused = images.pipeline("image", augmented()).build().unwrap().resume(&cursor).err();
        let refused = refused.unwrap().to_string();
        let words = "`clips` was sampler=random,frames=4,stride=2,source_fps=10 and is not set";
        assert!(refused.contains(words), "{refused}");
        let other = builder(dir.path(), Clips::all(4).stride(2)).order(Order::Random);
        let refused = other.build().unwrap().check_cursor(&cursor).unwrap_err();
        assert!(refused.to_string().contains("`sampler` was random and is all"), "{refused}");
    }
    // Random is another shuffle on ranks.
    let permuted = |ranks| of(2, 1).order(Order::Permuted).ranks(ranks).build().unwrap();
    let undisturbed = all(batches(&permuted(None), 2));
    let rank = |rank| Ranks::new(rank, 2, Uneven::Pad).unwrap();
    let [even, odd] = [0, 1].map(|number| all(batches(&permuted(Some(rank(number))), 2)));
    assert!(even[0] == undisturbed[0] && odd[0] == undisturbed[1] && even[2] == undisturbed[4]);
}

#[test]
fn several_clips_of_a_sample_are_an_axis_and_draw_for_themselves() {
    let dir = folder();
    let loader = builder(dir.path(), Clips::regular(2).clips(3).stride(2)).batch_size(5);
    let batch = loader.build().unwrap().get(&[0, 2], 0).unwrap();
    assert_eq!(batch.tensor::<u8>("video").unwrap().shape(), [2, 3, 2, 3, 24, 24]);
    assert_eq!(batch.tensor::<f64>("pts").unwrap().shape(), [2, 3, 2]);
    assert_eq!(frames_of(&batch)[0], [0, 2, 4, 6, 9, 11]);
    let rows = rows_of(&batch);
    let image = |image: usize| &rows[0][image * 3 * 24 * 24..][..3 * 24 * 24];
    assert_eq!(image(0), image_row(0, 0, 0));
    assert_eq!(image(1), image_row(0, 2, 0));
    assert_ne!(image(2), image_row(0, 4, 0));
}

#[test]
fn draws_for_each_frame_differ_and_the_first_are_those_of_the_clip() {
    let dir = folder();
    let still = Clips::random(4).range(0.0, 0.05);
    let of = |clips| {
        let loader = builder(dir.path(), clips).build().unwrap();
        let row = rows_of(&loader.get(&[0], 0).unwrap()).remove(0);
        row.chunks(3 * 24 * 24).map(<[u8]>::to_vec).collect::<Vec<_>>()
    };
    let (together, alone) = (of(still.clone()), of(still.per_frame(true)));
    assert!(together.iter().all(|image| *image == together[0]));
    assert_eq!(alone[0], together[0]);
    assert!((1..4).all(|k| alone[k] != alone[k - 1] && alone[k] != alone[0]));
}

#[test]
fn channels_before_frames_are_the_same_planes_in_another_order() {
    let dir = folder();
    for clips in [Clips::random(4).stride(2), Clips::regular(3).clips(2)] {
        let of = |layout| {
            let loader = builder(dir.path(), clips.clone().layout(layout)).build().unwrap();
            loader.get(&[0, 3], 1).unwrap()
        };
        let (ntchw, ncthw) = (of(ClipLayout::Ntchw), of(ClipLayout::Ncthw));
        let shape = ncthw.tensor::<u8>("video").unwrap().shape().to_vec();
        let [channels, frames] = shape[shape.len() - 4..][..2] else { panic!("{shape:?}") };
        assert_eq!(channels, 3);
        assert_eq!(frames_of(&ntchw), frames_of(&ncthw));
        let plane = 24 * 24;
        for (one, other) in rows_of(&ntchw).iter().zip(rows_of(&ncthw)) {
            let clip = frames * channels * plane;
            for (one, other) in one.chunks(clip).zip(other.chunks(clip)) {
                for (frame, channel) in (0..frames).flat_map(|t| (0..channels).map(move |c| (t, c)))
                {
                    let (at, to) = (frame * channels + channel, channel * frames + frame);
                    assert!(one[at * plane..][..plane] == other[to * plane..][..plane]);
                }
            }
        }
    }
}

#[test]
fn a_preview_shows_the_frames_of_a_clip_as_a_strip() {
    let (cell, margin, gap) = (224, 20, 12);
    let dir = folder();
    for layout in [ClipLayout::Ntchw, ClipLayout::Ncthw] {
        let clips = Clips::random(4).stride(2).layout(layout);
        let loader = builder(dir.path(), clips).build().unwrap();
        let options =
            PreviewOptions { samples: 2, epoch: 1, epochs: 2, ..PreviewOptions::default() };
        let sheet = loader.preview(&options).unwrap();
        assert_eq!(sheet.width(), 2 * margin + 5 * (cell + gap)); // the stored frame, and four
        let frames = loader.get(&[0], 1).unwrap();
        for frame in 0..4 {
            // Images of 24 x 24 are in the middle of their cells.
            let column = margin + (1 + frame as u32) * (cell + gap) + (cell - 24) / 2;
            let row = margin + (cell - 24) / 2;
            let at = 3 * (row * sheet.width() + column) as usize;
            let plane = |channel: usize| match layout {
                ClipLayout::Ntchw => frame * 3 + channel,
                ClipLayout::Ncthw => channel * 4 + frame,
            };
            let pixel =
                [0, 1, 2].map(|channel| frames.bytes("video").unwrap()[plane(channel) * 576]);
            assert_eq!(sheet.rgb()[at..at + 3], pixel, "frame {frame}");
        }
    }
}

/// The gray of a frame, which the sheet has nowhere else, is its number.
#[test]
fn the_stored_frame_of_a_preview_is_the_first_of_the_clip() {
    let (cell, margin) = (224, 20);
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("a/video");
    fs::create_dir_all(&folder).unwrap();
    for frame in 0..40_u8 {
        let gray = fs::File::create(folder.join(format!("{frame:03}.png"))).unwrap();
        let mut png = png::Encoder::new(gray, 24, 24);
        png.set_color(png::ColorType::Rgb);
        let mut png = png.write_header().unwrap();
        png.write_image_data(&[5 * frame + 1; 24 * 24 * 3]).unwrap();
    }
    let source =
        Folder::open(dir.path(), &FolderOptions::default().label("none".parse().unwrap())).unwrap();
    let loader = Loader::from_source(source).clips(Clips::random(2));
    let loader = loader.pipeline("video", ops![CenterCrop::new(24).unwrap()]).build().unwrap();
    let options = PreviewOptions { samples: 1, epochs: 3, ..PreviewOptions::default() };
    let sheet = loader.preview(&options).unwrap();
    let mut firsts = vec![];
    for epoch in 0..3 {
        let clip = loader.get(&[0], epoch).unwrap();
        firsts.push(clip.bytes("video").unwrap()[0]);
    }
    assert!(firsts[0] != 1 && firsts[0] != firsts[1], "{firsts:?}");
    // The middle column of the first cells, from top to bottom.
    let column = margin + cell / 2;
    let pixels =
        (0..sheet.height()).map(|y| sheet.rgb()[3 * (y * sheet.width() + column) as usize]);
    let pixels: Vec<u8> = pixels.collect();
    let cells = pixels.chunk_by(|a, b| a == b).filter(|run| run.len() >= 24);
    let found: Vec<u8> = cells.map(|run| run[0]).filter(|gray| firsts.contains(gray)).collect();
    assert_eq!(found, firsts);
}

#[test]
fn each_clip_of_a_video_can_be_a_sample() {
    let dir = folder();
    let loader = builder(dir.path(), Clips::all(4).stride(2)).batch_size(16).build().unwrap();
    // Clips of 8 frames, of videos of 12, 9, 15, 3 and 1.
    let batch = &batches(&loader, 0)[0];
    let videos = batch.tensor::<i64>("video_index").unwrap().as_slice().to_vec();
    assert_eq!(videos, [0, 0, 1, 1, 2, 2, 3, 4]);
    assert_eq!(batch.tensor::<i64>("label").unwrap().as_slice(), [0, 0, 0, 0, 1, 1, 1, 1]);
    let frames = frames_of(batch);
    assert_eq!(frames[..4], [[0, 2, 4, 6], [5, 7, 9, 11], [0, 2, 4, 6], [2, 4, 6, 8]]);
    assert_eq!(frames[6..], [[0, 2, 2, 2], [0, 0, 0, 0]]);
    let first: usize = videos.iter().position(|video| *video == 2).unwrap();
    let picked = loader.get(&[first as u64 + 1], 0).unwrap();
    assert_eq!(rows_of(&picked)[0], rows_of(batch)[first + 1]);
}

#[test]
fn a_damaged_frame_names_its_file_and_its_video_is_the_damaged_sample() {
    let dir = folder();
    let broken = frame_file(dir.path(), "ride/v10", 4);
    let bytes = fs::read(&broken).unwrap();
    fs::write(&broken, &bytes[..bytes.len() / 3]).unwrap();
    let clips = || Clips::regular(9);
    let loader = builder(dir.path(), clips()).build().unwrap();
    let error = loader.epoch(0).unwrap().find_map(Result::err).unwrap();
    let text = error.to_string();
    assert!(text.contains("frame 4, img_5.jpg"), "{text}");
    assert!(text.contains("v10") && error.sample() == Some(SampleId(1)), "{text}");
    assert_eq!(error.path(), Some(&*broken));
    let loader = builder(dir.path(), clips()).on_damaged(OnDamaged::Skip).build().unwrap();
    let labels = batches(&loader, 0).iter().map(|batch| batch.len()).sum::<usize>();
    assert_eq!((labels, loader.quarantine().samples.len()), (4, 1));
    assert!(loader.quarantine().samples[0].error.contains("img_5.jpg"));
    fs::remove_file(&broken).unwrap();
    let loader = builder(dir.path(), clips()).build();
    fs::remove_file(frame_file(dir.path(), "ride/v10", 6)).unwrap();
    let error = loader.unwrap().epoch(0).unwrap().find_map(Result::err).unwrap().to_string();
    assert!(error.contains("frame 5: ") && error.contains("img_7.jpg"), "{error}");
}

#[test]
fn a_short_video_is_a_damaged_sample_if_that_is_asked_for() {
    let dir = folder();
    let clips = || Clips::random(9).on_short(OnShort::Error);
    let loader = builder(dir.path(), clips()).build().unwrap();
    let error = loader.epoch(0).unwrap().find_map(Result::err).unwrap();
    assert!(error.to_string().contains("the video has 3 frames to choose from"), "{error}");
    assert!(error.to_string().replace('\\', "/").contains("walk/v3"), "{error}");
    let loader = builder(dir.path(), clips()).on_damaged(OnDamaged::Substitute).build().unwrap();
    let labels: usize = batches(&loader, 0).iter().map(|batch| batch.len()).sum();
    assert_eq!((labels, loader.quarantine().rows), (5, 2));
}

#[test]
fn videos_are_chosen_by_number_and_by_label() {
    let dir = folder();
    let labels = |builder: LoaderBuilder| {
        let of = |batch: &Batch| batch.tensor::<i64>("label").unwrap().as_slice().to_vec();
        batches(&builder.build().unwrap(), 0).iter().flat_map(of).collect::<Vec<_>>()
    };
    assert_eq!(labels(builder(dir.path(), Clips::random(2)).indices([4, 0])), [1, 0]);
    let walk = |value: fuseloop::source::Value<'_>| value == fuseloop::source::Value::Int(1);
    assert_eq!(labels(builder(dir.path(), Clips::random(2)).filter("label", walk)), [1, 1, 1]);
}

#[test]
fn views_of_a_clip_have_its_frames_and_draws_of_their_own() {
    let dir = folder();
    let loader = builder(dir.path(), Clips::random(3)).view("second", "video", augmented());
    let batch = loader.build().unwrap().get(&[0], 0).unwrap();
    assert_eq!(batch.tensor::<u8>("second").unwrap().shape(), [1, 3, 3, 24, 24]);
    assert_ne!(batch.tensor::<u8>("second").unwrap().as_slice(), rows_of(&batch)[0]);
}

#[test]
fn what_clips_can_t_do_is_refused_with_the_cure() {
    let dir = folder();
    let of = || builder(dir.path(), Clips::random(2));
    let mix = ops![RandomCrop::new(24).unwrap(), MixUp::new(0.2).unwrap()];
    let any_size = ops![RandomHorizontalFlip::new(0.5).unwrap()];
    let last = ops![RandomCrop::new(24).unwrap()];
    let on_device = ops![RandomCrop::new(24).unwrap(), ToDevice::to(Device::Auto), ToChannelsFirst];
    let pages = ProcessCache::default();
    let refused: [(LoaderBuilder, &str); 12] = [
        (of().cache(Cache::memory(1 << 20)), "remove `cache`"),
        (of().process_cache(pages), "remove `process_cache`"),
        (of().order(Order::Bucketed), "the order bucketed"),
        (of().collate("video", Collate::pad()), "remove its `collate`"),
        (of().pipeline("video", mix), "MixUp works on batches"),
        (of().pipeline("video", any_size), "can't share a batch"),
        (
            of().clips(Clips::random(2).layout(ClipLayout::Ncthw)).pipeline("video", last),
            "[C, H, W]",
        ),
        (of().clips(Clips::random(0)), "0 frames"),
        (of().clips(Clips::random(2).field("label")), "only a field of images"),
        (of().clips(Clips::random(2).fps(8.0)), "`fps` counts seconds"),
        (of().clips(Clips::random(2).range(1.0, 3.0)), "set `source_fps`"),
        (of().pipeline("video", on_device).device("cpu"), "remove ToDevice"),
    ];
    for (builder, words) in refused {
        let error = builder.build().err().unwrap().to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
    let small = fuseloop::Limits { max_row_bytes: 1 << 11, ..fuseloop::Limits::DEFAULT };
    let error = of().limits(small).build().err().unwrap();
    assert!(error.to_string().contains("fewer or smaller images"), "{error}");
    let numbers = InMemory::new([("image", Column::rgb(2, vec![0; 24]))]).unwrap();
    let error = Loader::from_source(numbers).clips(Clips::random(2)).build().err().unwrap();
    assert!(error.to_string().contains("no names"), "{error}");
}

/// Returns videos of two frames with a mask beside each frame; images are called `frame`.
fn with_masks() -> impl Source {
    let fields = [("frame", FieldKind::RgbImage), ("mask", FieldKind::RgbImage)];
    let size = Some(Size::new(8, 8));
    let stats =
        ImageStats { raw: 4, min: size, max: size, max_pixels: 64, ..ImageStats::default() };
    Renamed { facts: Facts::new(fields, 4).with_image_stats(move |_| Some(stats.clone())) }
}

struct Renamed {
    facts: Facts,
}

impl Source for Renamed {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        let image = |level| OwnedValue::Image(OwnedImage::rgb(8, vec![level; 8 * 8 * 3]));
        Ok(vec![image(sample.0 as u8), image(100)])
    }

    fn locate(&self, sample: SampleId, _: usize) -> Option<SampleLocation> {
        Some(SampleLocation::of_key(format!("v{}/{}.png", sample.0 / 2, sample.0)))
    }
}

#[test]
fn the_frames_are_called_video_whatever_the_dataset_calls_them() {
    let of = |clips: Clips| Loader::from_source(with_masks()).clips(clips);
    let names = |builder: LoaderBuilder| {
        let tensors = builder.build().unwrap().tensors();
        tensors.into_iter().map(|tensor| tensor.name).collect::<Vec<_>>()
    };
    let list = || ops![ToChannelsFirst];
    let clips = || Clips::regular(2);
    for name in ["video", "frame"] {
        let builder = of(clips()).without("mask").pipeline(name, list());
        assert_eq!(names(builder), ["video", "pts"]);
        let named = of(clips().field(name)).without("mask").without(name);
        let builder = named.view("second", name, list());
        assert_eq!(names(builder), ["pts", "second"]);
    }
    assert_eq!(names(of(clips().field("frame")).without("mask")), ["video", "pts"]);
    // A folder has one field of images, which `image` names too.
    let dir = folder();
    let frames = || builder(dir.path(), clips());
    assert_eq!(names(frames()), ["video", "label", "pts"]);
    assert_eq!(names(builder(dir.path(), clips().field("video"))), ["video", "label", "pts"]);
    for name in ["video", "image"] {
        let view = frames().without(name).view("second", name, augmented());
        assert_eq!(names(view), ["label", "pts", "second"]);
    }
    let refused = |builder: LoaderBuilder| builder.build().err().unwrap().to_string();
    // A mask would be that of the first frame.
    let view = of(clips()).without("mask").view("m", "mask", list());
    assert!(refused(view).contains("a video's first frame"));
    let both = refused(of(clips()).without("mask").without("frame"));
    assert!(both.contains("all fields of images are left out"), "{both}");
}

#[test]
fn members_of_tar_shards_are_clips_by_their_folders() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("videos.tar");
    let mut tar = tar::Builder::new(fs::File::create(&path).unwrap());
    for (name, frames) in [("v1", 3), ("v2", 2)] {
        for frame in 0..frames {
            let bytes = jpeg(0, frame);
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, format!("{name}/{frame:05}.jpg"), &*bytes).unwrap();
        }
    }
    tar.into_inner().unwrap().sync_all().unwrap();
    for name in ["video", "jpg", "image"] {
        let loader = Loader::open(&path).unwrap().clips(Clips::regular(2));
        let loader = loader.pipeline(name, augmented()).build().unwrap();
        let batch = loader.get(&[0, 1], 0).unwrap();
        assert_eq!(batch.tensor::<u8>("video").unwrap().shape(), [2, 2, 3, 24, 24]);
        assert_eq!(batch.tensor::<u8>("image").unwrap().shape(), [2, 2, 3, 24, 24]);
    }
}

#[test]
fn videos_of_one_name_in_two_joined_datasets_are_two_videos() {
    let part = |first: u32| {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("ride/v1")).unwrap();
        for frame in 0..3 {
            let file = frame_file(dir.path(), "ride/v1", frame);
            fs::write(file, jpeg(0, first + frame)).unwrap();
        }
        dir
    };
    let parts = [part(0), part(3)];
    let options = FolderOptions::default().label("folder".parse().unwrap());
    let open = |dir: &tempfile::TempDir| -> Arc<dyn Source> {
        Arc::new(Folder::open(dir.path(), &options).unwrap())
    };
    let joined = || Concat::new(parts.iter().map(open)).unwrap();
    let of = |clips| Loader::from_source(joined()).clips(clips).pipeline("video", augmented());
    let loader = of(Clips::regular(3)).seed(SEED).build().unwrap();
    assert_eq!(loader.samples(), 2);
    let rows = rows_of(&loader.get(&[0, 1], 0).unwrap());
    assert_eq!(rows[0][..3 * 24 * 24], image_row(0, 0, 0));
    assert_ne!(rows[1][..3 * 24 * 24], image_row(0, 0, 0));
    let list = parts[0].path().join("list.txt");
    fs::write(&list, "ride/v1 0\n").unwrap();
    let error = of(Clips::regular(3).list(&list)).build().err().unwrap().to_string();
    assert!(error.contains("several videos"), "{error}");
}

#[test]
fn other_images_of_a_folder_are_no_frames_and_a_pattern_leaves_them_out() {
    let dir = folder();
    for frame in 0..3 {
        let flow = dir.path().join(format!("walk/v3/flow_x_{frame}.jpg"));
        fs::write(flow, jpeg(0, frame)).unwrap();
    }
    let error = builder(dir.path(), Clips::segments(3)).build().err().unwrap().to_string();
    assert!(error.contains("differ in one number"), "{error}");
    assert!(error.contains("flow_x_0.jpg and img_1.jpg"), "{error}");
    let list = dir.path().join("list.txt");
    fs::write(&list, "walk/v3 3 1\nride/v1 12 0\n").unwrap();
    let options = FolderOptions::default().label("none".parse().unwrap());
    let frames = Folder::open(dir.path().join("**/img_*.jpg"), &options).unwrap();
    let loader = Loader::from_source(frames).clips(Clips::segments(3).list(&list));
    let loader = loader.pipeline("video", augmented()).build().unwrap();
    let batch = loader.get(&[0, 1], 0).unwrap();
    assert_eq!(batch.tensor::<i64>("label").unwrap().as_slice(), [1, 0]);
    assert_eq!(batch.tensor::<f64>("pts").unwrap().as_slice()[..3], [0.0, 1.0, 2.0]);
}

/// Raw images are many to a chunk, whose arrays are gathered before their ops run.
#[test]
fn images_of_a_source_of_the_user_are_clips_by_the_folders_of_their_names() {
    let loader = Loader::from_source(Annotated::new())
        .clips(Clips::regular(2).source_fps(4.0))
        .pipeline("pts", ops![Convert::to(DType::F32)])
        .without("bbox")
        .build()
        .unwrap();
    let batch = loader.get(&[1, 0, 1], 0).unwrap();
    let images = batch.tensor::<u8>("image").unwrap();
    assert_eq!(images.shape(), [3, 2, 8, 8, 3]);
    let firsts: Vec<u8> = images.as_slice().chunks(8 * 8 * 3).map(|image| image[0]).collect();
    assert_eq!(firsts, [2, 3, 0, 1, 2, 3]);
    let pts = batch.tensor::<f32>("pts").unwrap();
    assert_eq!(pts.as_slice(), [0.0, 0.25].repeat(3));
}

#[test]
fn a_list_chooses_the_videos_of_a_split() {
    let dir = folder();
    let list = dir.path().join("trainlist01.txt");
    let labels = |text: &str, frames: &str| {
        fs::write(&list, text).unwrap();
        let options = FolderOptions::default().label(frames.parse().unwrap());
        let folder = Folder::open(dir.path(), &options)?;
        let clips = Clips::segments(2).list(&list);
        let loader = Loader::from_source(folder).clips(clips).pipeline("video", augmented());
        let batch = batches(&loader.build()?, 0).remove(0);
        let labels = batch.tensor::<i64>("label").map(|labels| labels.as_slice().to_vec());
        Ok::<_, fuseloop::Error>(labels.unwrap_or_default())
    };
    // UCF-101 counts its classes from 1.
    assert_eq!(labels("walk/v3.avi 2\nride/v10.avi 1\n", "auto").unwrap(), [1, 0]);
    assert_eq!(labels("walk/v3.avi\nride/v10.avi\nride/v1.avi", "auto").unwrap(), [1, 0, 0]);
    let other = labels("walk/v3.avi 5\nride/v10.avi 5\n", "auto").unwrap_err().to_string();
    assert!(other.contains("open the dataset without labels"), "{other}");
    assert_eq!(labels("walk/v3.avi 5\nride/v10.avi 5\n", "none").unwrap(), [5, 5]);
    assert_eq!(labels("walk/v3 3 9\n", "none").unwrap(), [9]);
    let none = labels("run/v3 3 9\n", "none").unwrap_err().to_string();
    assert!(none.contains("trainlist01.txt: its only video, run/v3, is not in"), "{none}");
}

/// A table of frames gives videos that no folder of a class has to hold.
#[test]
fn a_table_of_frames_is_grouped_by_the_folders_of_its_paths() {
    let dir = folder();
    let mut table = "path,label\n".to_owned();
    for (video, frames, label) in [("walk/v2", [3, 1, 2], 7), ("ride/v1", [9, 10, 11], 5)] {
        for frame in frames {
            table += &format!("{video}/img_{frame}.jpg,{label}\n");
        }
    }
    let path = dir.path().join("frames.csv");
    fs::write(&path, table).unwrap();
    let frames = Folder::open(&path, &FolderOptions::default()).unwrap();
    let loader = Loader::from_source(frames)
        .clips(Clips::regular(3))
        .pipeline("image", augmented())
        .seed(SEED)
        .build()
        .unwrap();
    let batch = loader.get(&[0, 1], 0).unwrap();
    assert_eq!(batch.tensor::<i64>("label").unwrap().as_slice(), [7, 5]);
    let first = &rows_of(&batch)[0];
    // A line that can't be read is a damaged sample, as it is without clips.
    fs::write(&path, "path,label\nwalk/v2/img_1.jpg,7\n,7\nride/v1/img_1.jpg,5\n").unwrap();
    let frames = Folder::open(&path, &FolderOptions::default()).unwrap();
    let broken = Loader::from_source(frames).clips(Clips::regular(2)).on_damaged(OnDamaged::Skip);
    let broken = broken.pipeline("video", augmented()).build().unwrap();
    let labels = |batch: &Batch| batch.tensor::<i64>("label").unwrap().as_slice().to_vec();
    assert_eq!(batches(&broken, 0).iter().flat_map(labels).collect::<Vec<_>>(), [7, 5]);
    let report = broken.quarantine();
    assert_eq!(report.samples.len(), 1);
    assert!(report.samples[0].error.contains("line 3"), "{}", report.samples[0].error);
    assert_eq!(batch.tensor::<f64>("pts").unwrap().as_slice()[..3], [0.0, 1.0, 2.0]);
    // Sample 0 has the frames 1, 2 and 3 of video 2 in the order of their numbers.
    let images = (0..3).map(|frame| OwnedImage::file(jpeg(2, frame)));
    for (image, row) in images.zip(first.chunks(3 * 24 * 24)) {
        let source = InMemory::new([("image", Column::images(vec![image]))]).unwrap();
        let loader = Loader::from_source(source).seed(SEED).pipeline("image", augmented());
        let batch = loader.build().unwrap().get(&[0], 0).unwrap();
        assert_eq!(batch.tensor::<u8>("image").unwrap().as_slice(), row);
    }
}
