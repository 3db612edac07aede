//! Targets of clips: the masks and the objects of each frame are those that a loader of images makes of the frame and its
//! masks by the draws of the clip, whatever the videos are stored as.

use crate::clip_store::opened;
use crate::targets::{FIELDS, Scene, rng};
use crate::video::{VIDEOS, folder as video_files};
use fuseloop::loader::{BoundingBoxes, ClipLayout, Clips, Collate, KeyPoints, OnShort, Targets};
use fuseloop::preview::PreviewOptions;
use fuseloop::source::{
    Annotated, BoxError, Facts, FieldKind, InMemory, OwnedImage, OwnedValue, Record,
    SampleLocation, Source,
};
use fuseloop::spec::Spec;
use fuseloop::write::{ImageOptions, VideoOptions, WriteMode, WriteOptions, convert_videos};
use fuseloop::{
    Batch, Cursor, Error, ErrorKind, Loader, LoaderBuilder, OnDamaged, Order, SampleId, ops::*,
};
use std::fs;
use std::path::Path;
use std::sync::Arc;

const SEED: u64 = 5;

/// The numbers of frames of the videos.
const FRAMES: [usize; 4] = [11, 3, 1, 8];

/// The size of an image after the ops.
const SIDE: usize = 28;

/// Videos of drawn scenes, with the targets of each frame.
fn videos() -> Vec<Vec<Scene>> {
    let rng = &mut rng(77);
    let scene = |frames: &usize| {
        let size = Size::new(40 + rng.below(20), 48 + rng.below(20));
        (0..*frames).map(|_| Scene::drawn_in(size, rng)).collect()
    };
    FRAMES.iter().map(scene).collect()
}

/// How the frames of a dataset are grouped to videos.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Grouping {
    Folders,
    Rows,
}

/// The frames of videos as rows. A row that is none can't be read.
struct Rows {
    facts: Facts,
    records: Vec<Option<Record>>,
    names: Vec<String>,
}

impl Rows {
    fn new(videos: &[Vec<Scene>], grouping: Grouping) -> Self {
        let mut fields = FIELDS.to_vec();
        if grouping == Grouping::Rows {
            fields.extend([("video_index", FieldKind::Int), ("pts", FieldKind::Float)]);
        }
        let (mut records, mut names) = (vec![], vec![]);
        for (video, scenes) in videos.iter().enumerate() {
            for (frame, scene) in scenes.iter().enumerate() {
                let mut record = scene.record(video as u64);
                if grouping == Grouping::Rows {
                    record.push(OwnedValue::Int(video as i64));
                    record.push(OwnedValue::Float(frame as f64));
                }
                records.push(Some(record));
                names.push(format!("v{video}/{frame}.png"));
            }
        }
        let facts = Facts::new(fields, records.len() as u64).with_longest(|_| Some(64));
        Self { facts, records, names }
    }
}

impl Source for Rows {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        self.records[sample.0 as usize].clone().ok_or_else(|| "the row is gone".into())
    }

    fn locate(&self, sample: SampleId, _: usize) -> Option<SampleLocation> {
        Some(SampleLocation::of_key(self.names[sample.0 as usize].as_str()))
    }
}

fn targets() -> Targets {
    Targets::new()
        .mask("mask", 9)
        .boxes("bbox", BoundingBoxes::new(BoxFormat::Xyxy).to(BoxFormat::Xywh))
        .column("label", DType::I64)
        .keypoints("points", KeyPoints::new(1))
        .instance_masks("segmentation")
}

fn moved() -> Ops {
    ops![
        RandomAffine::new(20.0).unwrap().translate(0.1, 0.2).unwrap(),
        RandomResizedCrop::new(SIDE as u32).unwrap(),
        RandomHorizontalFlip::new(0.5).unwrap(),
        SanitizeBoundingBoxes::new(),
        ColorJitter::new(0.4, 0.4, 0.4).unwrap(),
        ToChannelsFirst,
    ]
}

fn with_targets(builder: LoaderBuilder) -> LoaderBuilder {
    builder.seed(SEED).batch_size(2).targets("image", targets()).pipeline("image", moved())
}

fn of_clips(rows: impl Source, clips: Clips) -> LoaderBuilder {
    with_targets(Loader::from_source(rows).clips(clips))
}

/// The image of a frame, and its targets.
#[derive(Debug, Default, PartialEq)]
struct Moved {
    image: Vec<u8>,
    mask: Vec<u8>,
    boxes: Vec<f32>,
    labels: Vec<i64>,
    points: Vec<f32>,
    instances: Vec<u8>,
}

/// Returns the frames of each sample of a batch: their numbers, and what the batch has of them.
fn frames_of(batch: &Batch) -> Vec<Vec<(usize, Moved)>> {
    let pts = batch.tensor::<f64>("pts").unwrap();
    let count: usize = pts.shape()[1..].iter().product();
    let (images, masks) =
        (batch.tensor::<u8>("video").unwrap(), batch.tensor::<u8>("mask").unwrap());
    let (boxes, points) =
        (batch.ragged::<f32>("bbox").unwrap(), batch.ragged::<f32>("points").unwrap());
    let (labels, instances) =
        (batch.ragged::<i64>("label").unwrap(), batch.ragged::<u8>("segmentation").unwrap());
    assert_eq!((boxes.len(), boxes.frames()), (batch.len(), count));
    let pixels = SIDE * SIDE;
    let sample = |row: usize| {
        let frame = |frame: usize| {
            let at = row * count + frame;
            let moved = Moved {
                image: images.as_slice()[at * 3 * pixels..][..3 * pixels].to_vec(),
                mask: masks.as_slice()[at * pixels..][..pixels].to_vec(),
                boxes: boxes.frame(row, frame).unwrap().to_vec(),
                labels: labels.frame(row, frame).unwrap().to_vec(),
                points: points.frame(row, frame).unwrap().to_vec(),
                instances: instances.frame(row, frame).unwrap().to_vec(),
            };
            (pts.as_slice()[at].round() as usize, moved)
        };
        let frames: Vec<_> = (0..count).map(frame).collect();
        let all: Vec<f32> =
            frames.iter().flat_map(|(_, moved)| moved.boxes.iter().copied()).collect();
        assert_eq!(boxes.row(row).unwrap(), all);
        frames
    };
    (0..batch.len()).map(sample).collect()
}

/// Returns what a loader of images makes of a frame: an image that is sample number `video`.
fn image_of(scene: &Scene, video: usize, epoch: u32) -> Moved {
    let record = scene.record(video as u64);
    let facts = Facts::new(FIELDS, FRAMES.len() as u64).with_longest(|_| Some(64));
    let source = InMemory::from_fn(facts, move |_| Ok(record.clone()));
    let loader = with_targets(Loader::from_source(source)).build().unwrap();
    let batch = loader.get(&[video as u64], epoch).unwrap();
    Moved {
        image: batch.tensor::<u8>("image").unwrap().as_slice().to_vec(),
        mask: batch.tensor::<u8>("mask").unwrap().as_slice().to_vec(),
        boxes: batch.ragged::<f32>("bbox").unwrap().values().to_vec(),
        labels: batch.ragged::<i64>("label").unwrap().values().to_vec(),
        points: batch.ragged::<f32>("points").unwrap().values().to_vec(),
        instances: batch.ragged::<u8>("segmentation").unwrap().values().to_vec(),
    }
}

fn batches(loader: &Loader, epoch: u32) -> Vec<Batch> {
    loader.epoch(epoch).unwrap().map(Result::unwrap).collect()
}

fn all(batches: impl IntoIterator<Item = Batch>) -> Vec<Vec<(usize, Moved)>> {
    batches.into_iter().flat_map(|batch| frames_of(&batch)).collect()
}

#[test]
fn targets_of_a_frame_are_those_of_an_image_by_the_draws_of_the_clip() {
    let videos = videos();
    let kinds = [
        Clips::random(5).stride(2),
        Clips::regular(4).on_short(OnShort::Wrap),
        Clips::segments(3),
        Clips::random(4).on_short(OnShort::RepeatLast),
    ];
    for grouping in [Grouping::Folders, Grouping::Rows] {
        for clips in &kinds {
            let loader = of_clips(Rows::new(&videos, grouping), clips.clone()).build().unwrap();
            for epoch in [0, 2] {
                let found = all(batches(&loader, epoch));
                assert_eq!(found.len(), FRAMES.len());
                for (video, frames) in found.into_iter().enumerate() {
                    for (frame, moved) in frames {
                        let expected = image_of(&videos[video][frame], video, epoch);
                        assert!(moved == expected, "{grouping:?}, {clips:?}: {video}, {frame}");
                    }
                }
            }
        }
    }
}

#[test]
fn draws_for_each_clip_and_each_frame_move_their_targets() {
    let videos = videos();
    // A still video, of which only the draws differ.
    let still = vec![vec![videos[0][0].clone(); 9]; 2];
    let of = |clips: Clips| {
        let loader = of_clips(Rows::new(&still, Grouping::Folders), clips).build().unwrap();
        let batch = loader.get(&[1], 0).unwrap();
        frames_of(&batch).remove(0).into_iter().map(|(_, moved)| moved).collect::<Vec<_>>()
    };
    let together = of(Clips::random(4));
    assert!(together.iter().all(|moved| *moved == together[0]));
    let alone = of(Clips::random(4).per_frame(true));
    assert_eq!(alone[0], together[0]);
    assert!((1..4).all(|k| alone[k].mask != alone[k - 1].mask));
    let several = of(Clips::regular(2).clips(2));
    assert!(several[0] == several[1] && several[2] == several[3] && several[0] == together[0]);
    assert_ne!(several[0].mask, several[2].mask);
}

#[test]
fn targets_are_the_same_for_any_number_of_workers_and_after_a_resume() {
    let videos = videos();
    let of = |workers, size| {
        let rows = Rows::new(&videos, Grouping::Rows);
        let loader = of_clips(rows, Clips::random(4).stride(2)).order(Order::Random);
        loader.workers(workers).batch_size(size).build().unwrap()
    };
    let undisturbed = all(batches(&of(1, 2), 3));
    for (workers, size) in [(4, 2), (3, 1), (2, 4)] {
        assert!(all(batches(&of(workers, size), 3)) == undisturbed, "{workers} {size}");
    }
    let loader = of(3, 2);
    let mut run = loader.epoch(3).unwrap();
    drop(run.next().unwrap().unwrap());
    let cursor: Cursor = run.cursor().unwrap().to_string().parse().unwrap();
    let rest = all(of(2, 2).resume(&cursor).unwrap().map(Result::unwrap));
    assert!(rest == undisturbed[2..]);
}

#[test]
fn targets_have_an_axis_of_frames_and_may_be_padded() {
    let videos = videos();
    let of = |clips: Clips| of_clips(Rows::new(&videos, Grouping::Folders), clips);
    let shape = |batch: &Batch, name: &str| batch.shape(name).unwrap();
    let ragged = of(Clips::segments(3)).build().unwrap().get(&[0, 3], 1).unwrap();
    assert_eq!(shape(&ragged, "mask"), [2, 3, SIDE, SIDE, 1]);
    assert_eq!(shape(&ragged, "bbox.length"), [2, 3]);
    let offsets = ragged.ragged::<f32>("bbox").unwrap().offsets().to_vec();
    assert_eq!(offsets.len(), 3);
    let padded = of(Clips::segments(3))
        .collate("bbox", Collate::pad().to(6).fill(-1.0))
        .collate("label", Collate::pad().to(6).fill(-1.0))
        .pipeline("mask", ops![Squeeze]);
    let padded = padded.build().unwrap().get(&[0, 3], 1).unwrap();
    assert_eq!(shape(&padded, "mask"), [2, 3, SIDE, SIDE]);
    assert_eq!(
        (shape(&padded, "bbox"), shape(&padded, "label")),
        (vec![2, 3, 6, 4], vec![2, 3, 6])
    );
    let lengths = padded.tensor::<i64>("bbox.length").unwrap();
    assert_eq!(lengths.as_slice(), ragged.tensor::<i64>("bbox.length").unwrap().as_slice());
    let (boxes, own) =
        (padded.tensor::<f32>("bbox").unwrap(), ragged.ragged::<f32>("bbox").unwrap());
    for (at, length) in lengths.as_slice().iter().enumerate() {
        let (row, rest) = boxes.as_slice()[at * 24..][..24].split_at(4 * *length as usize);
        assert_eq!(Some(row), own.frame(at / 3, at % 3));
        assert!(rest.iter().all(|value| *value == -1.0));
    }
    let several = of(Clips::random(2).clips(3)).build().unwrap().get(&[0, 3], 1).unwrap();
    assert_eq!(shape(&several, "mask"), [2, 3, 2, SIDE, SIDE, 1]);
    assert_eq!(shape(&several, "bbox.length"), [2, 3, 2]);
    let ncthw = || of(Clips::segments(3).layout(ClipLayout::Ncthw));
    let last = ncthw().build().unwrap().get(&[0], 1).unwrap();
    let first = ncthw().pipeline("mask", ops![ToChannelsFirst]).build().unwrap();
    let first = first.get(&[0], 1).unwrap();
    assert_eq!(shape(&last, "mask"), [1, 3, SIDE, SIDE, 1]);
    assert_eq!(shape(&first, "mask"), [1, 1, 3, SIDE, SIDE]);
    let masks =
        [&last, &first].map(|batch| batch.tensor::<u8>("mask").unwrap().as_slice().to_vec());
    assert_eq!(masks[0], masks[1]);
    let text = of(Clips::segments(3)).build().unwrap().explain();
    assert!(
        text.contains("boxes of video") && text.contains("one drawn of each segment"),
        "{text}"
    );
}

#[test]
fn a_frame_whose_targets_are_damaged_is_named_and_makes_its_video_a_damaged_sample() {
    let videos = videos();
    let of = |change: &dyn Fn(&mut Rows)| {
        let mut rows = Rows::new(&videos, Grouping::Folders);
        change(&mut rows);
        of_clips(rows, Clips::all(4).stride(2))
    };
    let first = |builder: LoaderBuilder| -> Error {
        let loader = builder.build().unwrap();
        loader.epoch(0).unwrap().find_map(Result::err).unwrap()
    };
    let mut smaller = videos[0][2].clone();
    smaller.mask = Some(Size::new(12, 12));
    let size = move |rows: &mut Rows| rows.records[2] = Some(smaller.record(0));
    let error = first(of(&size));
    let text = error.to_string();
    assert!(text.contains("frame 2, 2.png: a mask of 12x12 for an image of"), "{text}");
    assert_eq!((error.field(), error.kind()), (Some("mask"), ErrorKind::Damaged), "{error:?}");
    let boxes = |rows: &mut Rows| {
        let record = rows.records[4].as_mut().unwrap();
        record[2] = OwnedValue::Bytes(vec![0; 13]);
    };
    let error = first(of(&boxes));
    assert_eq!(error.field(), Some("bbox"), "{error:?}");
    assert!(error.to_string().contains("frame 4, 4.png: "), "{error}");
    let gone = |rows: &mut Rows| rows.records[2] = None;
    let error = first(of(&gone));
    assert!(error.to_string().contains("frame 2, 2.png: the row is gone"), "{error}");
    let loader = of(&size).on_damaged(OnDamaged::Skip).build().unwrap();
    let whole = of(&|_| ()).build().unwrap();
    let ids = |loader: &Loader| -> Vec<u64> {
        batches(loader, 0).iter().flat_map(|batch| batch.ids().iter().map(|id| id.0)).collect()
    };
    let (left, whole) = (ids(&loader), ids(&whole));
    assert!(left.len() == whole.len() - 1 && !left.contains(&0), "{left:?} of {whole:?}");
}

#[test]
fn what_targets_of_clips_can_not_do_is_refused() {
    let videos = videos();
    let of = |clips: Clips| of_clips(Rows::new(&videos, Grouping::Folders), clips);
    let crop = || {
        ops![
            RandomIoUCrop::new(),
            Resize::new((SIDE as u32, SIDE as u32)).unwrap(),
            ToChannelsFirst
        ]
    };
    let plain = |clips: Clips| {
        Loader::from_source(Rows::new(&videos, Grouping::Folders))
            .clips(clips.field("image"))
            .pipeline("image", ops![Resize::new((8, 8)).unwrap()])
    };
    let objects = ["bbox", "label", "points", "segmentation"];
    let without =
        objects.iter().fold(plain(Clips::segments(2)), |loader, name| loader.without(name));
    let dir = video_files(&VIDEOS[..1]);
    let files = Loader::open(dir.path()).unwrap().clips(Clips::random(2));
    let files = files
        .pipeline("video", ops![Resize::new((8, 8)).unwrap()])
        .targets("video", Targets::new().column("label", DType::I64));
    let refused = [
        (of(Clips::random(3)).pipeline("image", crop()), "RandomIoUCrop draws around the boxes"),
        (of(Clips::random(3)).collate("bbox", Collate::list()), "are no lists"),
        (of(Clips::random(3)).collate("image", Collate::pad()), "remove its `collate`"),
        (without, "(`without`), or declare it as a mask in `targets`"),
        (plain(Clips::segments(2)).masks("mask"), "follows the frames of clips as their target"),
        (files, "column"),
    ];
    for (builder, words) in refused {
        let error = builder.build().err().unwrap().to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
    let each = of(Clips::random(3).per_frame(true)).pipeline("image", crop()).build().unwrap();
    assert_eq!(frames_of(&each.get(&[0], 0).unwrap())[0].len(), 3);
}

/// Writes a PNG whose palette has all classes.
fn palette_png(path: &Path, (height, width): (u32, u32), classes: &[u8]) {
    let mut png = png::Encoder::new(fs::File::create(path).unwrap(), width, height);
    png.set_color(png::ColorType::Indexed);
    png.set_depth(png::BitDepth::Eight);
    png.set_palette(
        (0..=255).flat_map(|k: u8| [k.wrapping_mul(7), 255 - k, k ^ 85]).collect::<Vec<_>>(),
    );
    png.write_header().unwrap().write_image_data(classes).unwrap();
}

/// Writes videos as DAVIS has them: frames, and a mask with a palette for each. Returns the pixels and the classes.
fn davis(dir: &Path, above: &str) -> Vec<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut all = vec![];
    for (video, frames) in [("bear", 6_usize), ("dog", 2)] {
        let [images, masks] =
            ["JPEGImages", "Annotations"].map(|kind| dir.join(kind).join(above).join(video));
        fs::create_dir_all(&images).unwrap();
        fs::create_dir_all(&masks).unwrap();
        let mut own = vec![];
        for frame in 0..frames {
            let pixel = |y: usize, x: usize, c: usize| (frame * 40 + y * 3 + x * 2 + c * 9) as u8;
            let at = || (0..30).flat_map(|y| (0..44).map(move |x| (y, x)));
            let pixels: Vec<u8> =
                at().flat_map(|(y, x)| [0, 1, 2].map(|c| pixel(y, x, c))).collect();
            let class = |(y, x): (usize, usize)| {
                u8::from((y + frame) % 20 < 10 && x > 12) + u8::from(x > 30) * 2
            };
            let classes: Vec<u8> = at().map(class).collect();
            let file = fs::File::create(images.join(format!("{frame:05}.png"))).unwrap();
            let mut png = png::Encoder::new(file, 44, 30);
            png.set_color(png::ColorType::Rgb);
            png.write_header().unwrap().write_image_data(&pixels).unwrap();
            palette_png(&masks.join(format!("{frame:05}.png")), (30, 44), &classes);
            own.push((pixels, classes));
        }
        all.push(own);
    }
    all
}

fn segmentation(path: &Path) -> LoaderBuilder {
    let crop = ops![
        RandomResizedCrop::new(20).unwrap(),
        RandomHorizontalFlip::new(0.5).unwrap(),
        ToChannelsFirst
    ];
    Loader::open(path)
        .unwrap()
        .seed(SEED)
        .batch_size(2)
        .clips(Clips::random(4))
        .auto_targets()
        .pipeline("image", crop)
}

/// Returns the frames and the masks of an epoch.
fn pairs(loader: &Loader, epoch: u32) -> Vec<(Vec<f64>, Vec<u8>, Vec<u8>)> {
    let pair = |batch: Batch| {
        let bytes = |name| batch.tensor::<u8>(name).unwrap().as_slice().to_vec();
        let pts = batch.tensor::<f64>("pts").unwrap().as_slice().to_vec();
        (pts, bytes("video"), bytes("mask"))
    };
    batches(loader, epoch).into_iter().map(pair).collect()
}

#[test]
fn folders_of_frames_with_a_parallel_tree_of_masks_are_opened() {
    for above in ["480p", ""] {
        let dir = tempfile::tempdir().unwrap();
        let videos = davis(dir.path(), above);
        let loader = segmentation(dir.path()).build().unwrap();
        let [(pts, images, masks)] = pairs(&loader, 1).try_into().unwrap();
        for (at, frame) in pts.into_iter().enumerate() {
            let video = at / 4;
            let (pixels, classes) = &videos[video][frame as usize];
            let classes = classes.iter().flat_map(|&class| [class; 3]).collect();
            let (image, mask) =
                (OwnedImage::rgb((30, 44), pixels.clone()), OwnedImage::rgb((30, 44), classes));
            let fields = [("image", FieldKind::RgbImage), ("mask", FieldKind::RgbImage)];
            let record = vec![OwnedValue::Image(image), OwnedValue::Image(mask)];
            let source = InMemory::from_fn(Facts::new(fields, 2), move |_| Ok(record.clone()));
            let crop = ops![
                RandomResizedCrop::new(20).unwrap(),
                RandomHorizontalFlip::new(0.5).unwrap(),
                ToChannelsFirst
            ];
            let plain = Loader::from_source(source).seed(SEED).pipeline("image", crop);
            let plain = plain.targets("image", Targets::new().mask("mask", 255)).build().unwrap();
            let plain = plain.get(&[video as u64], 1).unwrap();
            assert_eq!(
                &images[at * 1200..][..1200],
                plain.tensor::<u8>("image").unwrap().as_slice()
            );
            assert_eq!(&masks[at * 400..][..400], plain.tensor::<u8>("mask").unwrap().as_slice());
        }
        // The masks alone, as frames.
        let alone = Loader::open(dir.path()).unwrap().without("image");
        let alone = alone.clips(Clips::segments(2).field("mask")).masks("mask");
        let whole = ops![CenterCrop::new((30, 44)).unwrap()];
        let alone = alone.pipeline("video", whole).build().unwrap();
        let alone = alone.get(&[1], 0).unwrap();
        let classes: Vec<u8> = videos[1].iter().flat_map(|(_, classes)| classes.clone()).collect();
        assert!(alone.tensor::<u8>("video").unwrap().as_slice() == classes);
        // A list names the videos as DAVIS' ImageSets do.
        let list = dir.path().join("val.txt");
        fs::write(&list, "dog\n").unwrap();
        let loader = segmentation(dir.path()).clips(Clips::random(4).list(&list)).build().unwrap();
        assert_eq!(loader.samples(), 1);
        // A mask that is missing is named when the folder is opened, and as a frame after that.
        let missing = dir.path().join("Annotations").join(above).join("dog/00001.png");
        fs::remove_file(&missing).unwrap();
        assert!(Loader::open(dir.path()).is_err());
        let error = Annotated::masks(dir.path().join("JPEGImages"), dir.path().join("Annotations"));
        let error = error.err().unwrap().to_string();
        assert!(error.contains("1 of 8 images have no mask") && error.contains("dog"), "{error}");
    }
}

#[test]
fn a_pipeline_file_declares_targets_of_clips() {
    let dir = tempfile::tempdir().unwrap();
    davis(dir.path(), "480p");
    let own = pairs(&segmentation(dir.path()).build().unwrap(), 1);
    for targets in ["targets = \"auto\"", "[targets.video]\nmask = { as = \"mask\", fill = 255 }"] {
        let text = format!(
            "{targets}\n[clips]\nsampler = \"random\"\nframes = 4\n[fields]\nvideo = [{{ op = \"RandomResizedCrop\", \
             size = 20 }}, {{ op = \"RandomHorizontalFlip\" }}, {{ op = \"ToChannelsFirst\" }}]\n"
        );
        let spec = Spec::parse(&text, Path::new("x.toml")).unwrap();
        let loader = spec.apply(Loader::open(dir.path()).unwrap()).seed(SEED).batch_size(2);
        assert!(pairs(&loader.build().unwrap(), 1) == own, "{targets}");
    }
}

#[test]
fn a_mask_that_is_gone_names_its_frame() {
    let dir = tempfile::tempdir().unwrap();
    davis(dir.path(), "480p");
    let loader = segmentation(dir.path()).clips(Clips::segments(2)).build().unwrap();
    fs::remove_file(dir.path().join("Annotations/480p/dog/00001.png")).unwrap();
    let error = loader.epoch(0).unwrap().find_map(Result::err).unwrap();
    let text = error.to_string();
    assert!(text.contains("(mask): frame 1: "), "{text}");
    assert_eq!(error.field(), Some("mask"), "{error:?}");
    let path = error.path().unwrap().to_string_lossy().into_owned();
    assert!(path.contains("Annotations") && path.ends_with("00001.png"), "{path}");
    // A conversion names its field, too.
    davis(dir.path(), "480p");
    let (dataset, store) = (opened(dir.path()), dir.path().join("davis.beton"));
    fs::remove_file(dir.path().join("Annotations/480p/dog/00001.png")).unwrap();
    let (videos, options) = (VideoOptions::default(), WriteOptions::default());
    let error = convert_videos(dataset, &store, &videos, &options).unwrap_err();
    assert!(error.to_string().contains("frame 1: field mask: "), "{error}");
    assert_eq!(error.field(), Some("mask"), "{error:?}");
}

#[test]
fn a_clip_store_has_the_masks_and_the_boxes_of_each_frame() {
    let dir = tempfile::tempdir().unwrap();
    davis(dir.path(), "480p");
    let store = dir.path().join("davis.beton");
    let options =
        |image: ImageOptions| WriteOptions { image, overwrite: true, ..WriteOptions::default() };
    let raw = ImageOptions { write_mode: WriteMode::Raw, ..ImageOptions::default() };
    for image in [raw.clone(), ImageOptions::default()] {
        convert_videos(opened(dir.path()), &store, &VideoOptions::default(), &options(image))
            .unwrap();
        let (folder, store) =
            (segmentation(dir.path()).build().unwrap(), segmentation(&store).build().unwrap());
        for epoch in 0..3 {
            assert!(pairs(&folder, epoch) == pairs(&store, epoch));
        }
    }
    // All kinds of targets, from rows and from folders, and the store of a store.
    let videos = videos();
    let again = dir.path().join("again.beton");
    let settings = VideoOptions { field: Some("image".to_owned()), ..VideoOptions::default() };
    for grouping in [Grouping::Rows, Grouping::Folders] {
        let rows = Arc::new(Rows::new(&videos, grouping));
        let mut write = options(raw.clone());
        let mask = ImageOptions { write_mode: WriteMode::Mask, ..ImageOptions::default() };
        write.images.insert("mask".to_owned(), mask);
        convert_videos(rows, &store, &settings, &write).unwrap();
        convert_videos(opened(&store), &again, &VideoOptions::default(), &write).unwrap();
        let clips = || Clips::random(4).stride(2);
        let of = |builder: LoaderBuilder| all(batches(&builder.build().unwrap(), 1));
        let own = of(of_clips(Rows::new(&videos, grouping), clips()));
        for path in [&store, &again] {
            let stored = with_targets(Loader::open(path).unwrap().clips(clips()));
            assert!(of(stored) == own, "{grouping:?}, {}", path.display());
        }
    }
}

#[test]
fn a_strip_shows_the_targets_of_its_frames() {
    let videos = videos();
    let of = |targets: Targets| {
        let rows = Rows::new(&videos, Grouping::Folders);
        let names = ["mask", "bbox", "label", "points", "segmentation"];
        let left_out =
            names.iter().filter(|name| !format!("{targets:?}").contains(&format!("{name:?}")));
        let loader = Loader::from_source(rows).seed(SEED).clips(Clips::segments(3).field("image"));
        let loader = loader.targets("image", targets.clone()).pipeline(
            "image",
            ops![
                RandomResizedCrop::new(SIDE as u32).unwrap(),
                RandomHorizontalFlip::new(0.5).unwrap(),
            ],
        );
        let loader = left_out.fold(loader, |loader, name| loader.without(name)).build().unwrap();
        loader.preview(&PreviewOptions { samples: 2, ..PreviewOptions::default() }).unwrap()
    };
    let column = |sheet: &fuseloop::preview::Sheet, column: u32| -> Vec<u8> {
        let (cell, margin, gap) = (224, 20, 12);
        let left = margin + column * (cell + gap);
        let rows = sheet.rgb().chunks(3 * sheet.width() as usize).skip(margin as usize).take(224);
        rows.flat_map(|row| row[3 * left as usize..][..3 * 224].to_vec()).collect()
    };
    let plain = of(Targets::new().column("label", DType::I64));
    for targets in [
        Targets::new().mask("mask", 255),
        Targets::new().boxes("bbox", BoxFormat::Xyxy).column("label", DType::I64),
        Targets::new().instance_masks("segmentation").column("label", DType::I64),
    ] {
        let drawn = of(targets.clone());
        for frame in 0..4 {
            assert!(column(&drawn, frame) != column(&plain, frame), "{targets:?}: {frame}");
        }
    }
}
