//! The Rust code of the documents, word for word, with the code that each piece needs around it.
//!
//! `main.rs` looks here for every block of Rust in README.md and docs/, line by line, so that the
//! compiler checks them all. A piece brings its own `use` lines: this file has no others, so a name that a
//! document leaves out does not compile. [`run`] runs those whose data can be generated; the others say why they are
//! not run.

#![allow(
    unused_variables,
    unused_imports,
    unused_mut,
    clippy::all,
    clippy::needless_pass_by_value,
    reason = "pieces as they stand in documents"
)]

#[expect(dead_code, reason = "it needs a GPU")]
#[rustfmt::skip]
fn gpu(train: impl Fn(u64, &[usize])) -> Result<(), fuseloop::source::BoxError> {
use fuseloop::device::DeviceStream;
use fuseloop::prelude::*;

let loader = Loader::open("train.beton")?
    .batch_size(256)
    .pipeline("image", ops![
        RandomResizedCrop::new(224)?,                              // the host: decode, crop, resize
        ToDevice::new("auto")?,                                    // u8, channels last, page-locked
        RandomHorizontalFlip::new(0.5)?,                           // one kernel from here on
        ColorJitter::new(0.4, 0.4, 0.4)?,
        Normalize::imagenet(),
        Convert::to(DType::F16),
        ToChannelsFirst,
        MixUp::new(0.2)?,
    ])
    .pipeline("label", ops![ToDevice::new("auto")?, OneHot::new(1000)?, LabelSmoothing::new(0.1)?, MixUp::new(0.2)?])
    .build()?;
println!("{}", loader.device());                    // cuda:0 (NVIDIA H100), or: cpu, since ...

for batch in loader.epoch(0)? {
    let batch = batch?;
    let images = batch.device_tensor("image", DeviceStream::Legacy)?;   // your stream waits for it, your thread does not
    train(images.ptr(), images.shape());
}                                                   // dropped: reused once your stream is past what you asked of it
Ok(())
}

#[expect(dead_code, reason = "it trains")]
#[rustfmt::skip]
fn bottleneck_headroom(loader: &fuseloop::Loader, train: impl Fn(&fuseloop::Batch)) -> Result<(), fuseloop::source::BoxError> {
let mut replay = loader.headroom(0, 100)?;
for batch in &mut replay {
    train(&batch);
}
println!("{}", replay.report()?);
Ok(())
}

#[expect(dead_code, reason = "it needs folders of frames")]
#[rustfmt::skip]
fn video_clips() -> Result<(), fuseloop::source::BoxError> {
use fuseloop::loader::Clips;
use fuseloop::prelude::*;

let loader = Loader::open("clips")?
    .batch_size(8)
    .order(Order::Random)
    .clips(Clips::random(16).stride(4))
    .pipeline("video", ops![RandomResizedCrop::new(112)?, RandomHorizontalFlip::new(0.5)?, ToChannelsFirst])
    .build()?;
for batch in loader.epoch(0)? {
    let batch = batch?;
    let clips = batch.tensor::<u8>("video")?; // [8, 16, 3, 112, 112]
    let seconds = batch.tensor::<f64>("pts")?; // [8, 16]
}
Ok(())
}

#[expect(dead_code, reason = "it needs the files of DAVIS")]
#[rustfmt::skip]
fn video_masks() -> Result<(), fuseloop::source::BoxError> {
use fuseloop::loader::{Clips, Targets};
use fuseloop::prelude::*;
use fuseloop::source::Annotated;

let davis = Annotated::masks("DAVIS/JPEGImages/480p", "DAVIS/Annotations/480p")?;
let loader = Loader::from_source(davis)
    .batch_size(8)
    .clips(Clips::random(16).stride(4))
    .targets("video", Targets::new().mask("mask", 255))
    .pipeline("video", ops![RandomResizedCrop::new(112)?, RandomHorizontalFlip::new(0.5)?, ToChannelsFirst])
    .build()?;
for batch in loader.epoch(0)? {
    let batch = batch?;
    let masks = batch.tensor::<u8>("mask")?; // [8, 16, 112, 112, 1]
}
Ok(())
}

#[expect(dead_code, reason = "it needs a store with boxes")]
#[rustfmt::skip]
fn video_boxes() -> Result<(), fuseloop::source::BoxError> {
use fuseloop::loader::{Clips, Targets};
use fuseloop::prelude::*;

let loader = Loader::open("tracks.beton")?
    .clips(Clips::random(16))
    .targets("video", Targets::new().boxes("bbox", BoxFormat::Xywh).column("track_id", DType::I64))
    .pipeline("video", ops![RandomResizedCrop::new(224)?, SanitizeBoundingBoxes::new(), ToChannelsFirst])
    .build()?;
for batch in loader.epoch(0)? {
    let batch = batch?;
    let (boxes, tracks) = (batch.ragged::<f32>("bbox")?, batch.ragged::<i64>("track_id")?);
    let of_frame = boxes.frame(0, 3); // the boxes of frame 3 of the first sample: 4 numbers each
}
Ok(())
}

#[expect(dead_code, reason = "it needs video files")]
#[rustfmt::skip]
fn video_store() -> Result<(), fuseloop::source::BoxError> {
use fuseloop::prelude::*;
use fuseloop::recut::Tile;
use fuseloop::source::{Folder, FolderOptions};
use fuseloop::write::{ImageOptions, VideoOptions, WriteOptions, convert_videos};
use std::sync::Arc;

let clips = Arc::new(Folder::open("clips", &FolderOptions::default())?);
let image = ImageOptions { tile: Some(Tile::default()), ..ImageOptions::default() };
let options = WriteOptions { image, ..WriteOptions::default() };
let report = convert_videos(clips, "clips.beton", &VideoOptions::default(), &options)?;
Ok(())
}

#[expect(dead_code, reason = "it needs a dataset of LeRobot")]
#[rustfmt::skip]
fn video_lerobot() -> Result<(), fuseloop::source::BoxError> {
use fuseloop::prelude::*;
use fuseloop::source::{LeRobot, LeRobotOptions};

let top = "observation.images.top";
let options = LeRobotOptions::default()
    .delta_timestamps(top, [-0.1, 0.0])
    .delta_timestamps("action", [0.0, 0.1, 0.2])
    .episodes(0..180);
let loader = Loader::from_source(LeRobot::open("pusht", &options)?)
    .batch_size(8)
    .order(Order::Random)
    .pipeline(top, ops![RandomCrop::new(84)?, ToChannelsFirst])
    .build()?;
Ok(())
}

#[rustfmt::skip]
fn loading_sizes() -> Result<(), fuseloop::source::BoxError> {
use fuseloop::loader::Collate;
use fuseloop::prelude::*;

let loader = Loader::open("coco.beton")?
    .batch_size(16)
    .pipeline("image", ops![
        RandomShortestSize::new((480..=800).step_by(32))?.max_size(1333)?,
        RandomHorizontalFlip::new(0.5)?,
        Normalize::imagenet(),
        ToChannelsFirst,
    ])
    .collate("image", Collate::pad().to_multiple(32))        // f32 [16, 3, height, width]
    .build()?;
Ok(())
}

#[rustfmt::skip]
fn loading_arrays() -> Result<(), fuseloop::source::BoxError> {
use fuseloop::prelude::*;

// Sentinel-2, u16 [13, 256, 256]: red, green and blue; a reflectance of 0.3 is white.
let rgb = ops![
    RandomCrop::new(224)?,
    SelectChannels::new([3, 2, 1])?,
    Levels::of(0.0, 3000.0)?,
    ColorJitter::new(0.2, 0.2, 0.2)?,
    Normalize::imagenet(),
];
// Hounsfield units, i16 [512, 512]: a window becomes levels, so that ops on brightness apply.
let ct = ops![
    RandomResizedCrop::new(224)?,
    RandomHorizontalFlip::new(0.5)?,
    Levels::of(-1000.0, 400.0)?,
    RandomBrightness::new(0.2)?,
    Normalize::new([0.5], [0.25])?,
];
// A log-mel spectrogram, f32 [80, 1000]: SpecAugment, in decibels.
let spectrogram = ops![
    FrequencyMasking::new(27)?,
    TimeMasking::new(100)?,
    Normalize::values([-4.27], [4.57])?,
];
// Audio, i16 [T]: one second of 16,000 samples, at another loudness, as f32 in -1..1.
let wave = ops![
    RandomCrop::new((1, 16_000))?.pad_if_needed(),
    Gain::new(-12.0, 12.0)?,
    Normalize::values([0.0], [32_768.0])?,
];
Ok(())
}

#[rustfmt::skip]
#[expect(dead_code, reason = "it needs 100 shards")]
fn loading_audio() -> Result<(), fuseloop::source::BoxError> {
use fuseloop::prelude::*;
use fuseloop::AudioOptions;

let loader = Loader::open("speech-{000..099}.tar")?          // members .flac and .cls
    .audio("flac", AudioOptions::new(16_000))                // f32 [T], the mean of the channels
    .pipeline("flac", ops![
        RandomCrop::new((1, 32_000))?.pad_if_needed(),       // two seconds
        Gain::new(-6.0, 6.0)?,
    ])
    .build()?;
Ok(())
}

#[rustfmt::skip]
fn loading_ranks(world: usize) -> Result<(), fuseloop::source::BoxError> {
use fuseloop::order::Ranks;
use fuseloop::prelude::*;

let loader = Loader::open("train.beton")?
    .ranks(Ranks::from_env()?)           // torchrun, Slurm, Open MPI, MPICH; one process if none is set
    .batch_size(256 / world)
    .build()?;
Ok(())
}

#[rustfmt::skip]
fn loading_cursor(loader: &fuseloop::Loader) -> Result<(), fuseloop::source::BoxError> {
let batches = loader.epoch(0)?;
let cursor: String = batches.cursor()?.to_string();      // JSON, at most 512 bytes
let rest = loader.resume(&cursor.parse()?)?;             // the rest of the epoch, bit for bit
Ok(())
}

#[rustfmt::skip]
fn resume_fingerprints(loader: &fuseloop::Loader, cursor: fuseloop::Cursor) -> Result<(), fuseloop::source::BoxError> {
use fuseloop::loader::FingerprintLog;

loader.log_fingerprints(FingerprintLog::open("run.jsonl")?);             // one line of JSON a batch, of each rank in its own file
let mut batches = loader.resume(&cursor)?;                               // of the checkpoint before a loss spike
batches.skip_batches(2)?;                                                // stepped over, not decoded
let batch = batches.next().transpose()?.ok_or("the epoch is over")?;
println!("{} {} {:016x}", batch.epoch().index(), batch.index(), batch.fingerprint());
Ok(())
}

#[rustfmt::skip]
fn pipelines() -> Result<(), fuseloop::source::BoxError> {
use fuseloop::{Loader, Spec};

let loader = Spec::open("imagenet.toml".as_ref())?.apply(Loader::open("train.beton")?).build()?;
Ok(())
}

#[rustfmt::skip]
fn sources_mnist() -> Result<(), fuseloop::source::BoxError> {
use fuseloop::prelude::*;

let train = Loader::open("mnist/")?
    .batch_size(128)
    .order(Order::Random)
    .pipeline("image", ops![RandomCrop::new(28)?.padding(2)?, Normalize::new([0.1307], [0.3081])?, ToChannelsFirst])
    .build()?;
let test = Loader::open("mnist/t10k-images-idx3-ubyte")?;
Ok(())
}

#[expect(dead_code, reason = "its budget is that of a large dataset")]
#[rustfmt::skip]
fn sources_mds() -> Result<(), fuseloop::source::BoxError> {
use fuseloop::Loader;
use fuseloop::source::{Mds, MdsOptions};

let dataset = Mds::open("imagenet-mds/train", &MdsOptions::default().cache_bytes(16 << 30))?;
let loader = Loader::from_source(dataset);
Ok(())
}

#[expect(dead_code, reason = "it changes the options of the process")]
#[rustfmt::skip]
fn sources_remote() -> Result<(), fuseloop::source::BoxError> {
use fuseloop::source::remote::{self, RemoteOptions};

let mut options = RemoteOptions::from_env()?;
options.hedge_budget = 0.05;
options.max_requests = std::num::NonZeroUsize::new(32);
remote::set_options(&options)?;
println!("{:?}", remote::stats());
Ok(())
}

#[rustfmt::skip]
fn sources_tar() -> Result<(), fuseloop::source::BoxError> {
use fuseloop::source::{As, TarOptions};

let options = TarOptions::default()
    .field("image", "jpg;png", As::Image)
    .field("mean", "stats.npz:mean", As::NdArray);
Ok(())
}

#[expect(dead_code, reason = "it needs 1,024 shards")]
#[rustfmt::skip]
fn sources_tfrecord() -> Result<(), fuseloop::source::BoxError> {
use fuseloop::Loader;
use fuseloop::source::{Feature, TfOptions, TfRecords};

let options = TfOptions::default()
    .feature("image/encoded", Feature::Image)
    .feature("image/class/label", Feature::Int)
    .feature("image/object/bbox", Feature::RaggedFloats);
let loader = Loader::from_source(TfRecords::open("train-*-of-01024", &options)?);
Ok(())
}

#[expect(dead_code, reason = "it needs 256 shards packed with Zstandard")]
#[rustfmt::skip]
fn sources_streams(rank: usize, world: usize) -> Result<(), fuseloop::source::BoxError> {
use fuseloop::Loader;
use fuseloop::source::{Stream, TarOptions, TarStream, stream::Interleave};

let shards = TarStream::open("train-{000..255}.tar.zst", &TarOptions::default())?.split_by_rank(rank, world)?;
let interleave = Interleave { cycle_length: 16, reads: 8, shuffle: true, ..Interleave::default() };
let stream = Stream::interleave(shards.shards(), interleave)?.shuffle(10_000).with_epoch(100_000);
let loader = Loader::from_stream(stream).build()?;
Ok(())
}

#[rustfmt::skip]
fn sources_parts(photos: fuseloop::source::Stream, drawings: fuseloop::source::Stream) -> Result<(), fuseloop::source::BoxError> {
use fuseloop::prelude::*;
use fuseloop::source::{Stream, stream::MixEnd};

let mix = Stream::mix([(photos, 0.7), (drawings, 0.3)], MixEnd::First)?.shuffle(10_000);
let loader = Loader::from_stream(mix)
    .pipeline("image", ops![RandomResizedCrop::new(224)?.scale(0.1..=1.0)?])
    .component_ops(1, "image", ops![CenterCrop::new(224)?])    // of the drawings
    .build()?;
Ok(())
}

#[rustfmt::skip]
mod first_training {
use fuseloop::prelude::*;

fn main() -> Result<()> {
    let loader = Loader::open("train.beton")?
        .batch_size(64)
        .order(Order::Random)
        .seed(42)
        .pipeline("image", ops![
            RandomResizedCrop::new(224)?,
            RandomHorizontalFlip::new(0.5)?,
            Normalize::imagenet(),
            ToChannelsFirst,
        ])
        .build()?;                                          // types, sizes and parameters are checked here

    for epoch in 0..16 {
        for batch in loader.epoch(epoch)? {
            let batch = batch?;
            let images = batch.tensor::<f32>("image")?;     // [64, 3, 224, 224]
            let labels = batch.tensor::<i64>("label")?;     // [64]
            // Train on images.as_slice() and labels.as_slice().
        }
    }
    Ok(())
}

pub(super) fn run() -> Result<()> { main() }
}

#[rustfmt::skip]
fn first_training_validation(loader: &fuseloop::Loader) -> Result<(), fuseloop::source::BoxError> {
use fuseloop::prelude::*;

let validation = Loader::open("val.beton")?
    .batch_size(64)
    .order(Order::Sequential)
    .pipeline("image", ops![Resize::new(256)?, CenterCrop::new(224)?, Normalize::imagenet(), ToChannelsFirst])
    .expect_classes(loader.classes()?)                      // an error if a class folder is missing
    .build()?;
Ok(())
}

#[rustfmt::skip]
fn first_training_sizes() -> Result<(), fuseloop::source::BoxError> {
use fuseloop::prelude::*;

let loader = Loader::open("train.beton")?
    .batch_size(64)
    .pipeline_by_epoch("image", |epoch| {
        Ok::<_, ParamError>(ops![
            RandomResizedCrop::new(128 + 4 * epoch.index())?,
            RandomHorizontalFlip::new(0.5)?,
            Normalize::imagenet(),
            ToChannelsFirst,
        ])
    })
    .build()?;
Ok(())
}

#[rustfmt::skip]
mod readme {
use fuseloop::prelude::*;

fn main() -> Result<()> {
    let loader = Loader::open("train.beton")?        // or a folder per class, tar shards, TFRecord files
        .batch_size(256)
        .order(Order::Random)
        .pipeline("image", ops![
            RandomResizedCrop::new(224)?,
            RandomHorizontalFlip::new(0.5)?,
            ColorJitter::new(0.4, 0.4, 0.4)?,
            Normalize::imagenet(),
            ToChannelsFirst,
        ])
        .build()?;                                   // types, sizes and parameters are checked here
    for batch in loader.epoch(0)? {
        let batch = batch?;
        let images = batch.tensor::<f32>("image")?;  // [256, 3, 224, 224]
        let labels = batch.tensor::<i64>("label")?;  // [256]
    }
    Ok(())
}

pub(super) fn run() -> Result<()> { main() }
}

#[rustfmt::skip]
fn transform(jpeg: Vec<u8>) -> Result<fuseloop::Transform, fuseloop::source::BoxError> {
use fuseloop::prelude::*;
use fuseloop::transform::{Image, Key, Transform};

let transform = Transform::new(ops![
    RandomResizedCrop::new(224)?,
    RandomHorizontalFlip::new(0.5)?,
    ColorJitter::new(0.4, 0.4, 0.4)?,
    Normalize::imagenet(),
    ToChannelsFirst,
])?;
let image = Image::encoded(&jpeg);                           // or Image::rgb(&pixels, height, width)?
let tensor = transform.apply(&image, Key::new(42, 3, 17))?;  // the row of sample 17 in epoch 3 of a loader with seed 42
println!("{:?} {:?}", tensor.dtype(), tensor.shape());       // F32 [3, 224, 224]
Ok(transform)
}

#[rustfmt::skip]
fn transform_batch(transform: fuseloop::Transform, images: Vec<fuseloop::transform::Image<'_>>) -> Result<(), fuseloop::source::BoxError> {
use fuseloop::transform::Key;

let keys: Vec<Key> = images.iter().map(|_| transform.fresh_key()).collect();
let batch = transform.batch(&images, &keys)?;                // [images, 3, 224, 224]
Ok(())
}

#[rustfmt::skip]
fn transform_on_gpu(
    images: Vec<fuseloop::transform::Image<'_>>,
    keys: Vec<fuseloop::transform::Key>,
    train: impl Fn(u64),
) -> Result<(), fuseloop::source::BoxError> {
use fuseloop::device::DeviceStream;
use fuseloop::prelude::*;
use fuseloop::transform::Transform;

let transform = Transform::new(ops![
    RandomResizedCrop::new(224)?,                            // the host: decode, crop, resize
    ToDevice::new("auto")?,
    RandomHorizontalFlip::new(0.5)?,                         // one kernel from here on
    Normalize::imagenet(),
    ToChannelsFirst,
])?;
let batch = transform.batch_on_device(&images, &keys)?;      // f32 [images, 3, 224, 224]
match batch.device() {
    Some(_) => train(batch.device_tensor("image", DeviceStream::Legacy)?.ptr()),
    None => println!("{}", transform.placement()),           // cpu, since ...
}
Ok(())
}

#[rustfmt::skip]
fn transform_targets(
    list: fuseloop::ops::Ops,
    image: fuseloop::transform::Image<'_>,
    (boxes, labels, mask): (Vec<f32>, Vec<i64>, Vec<u8>),
    (height, width): (usize, usize),
    key: fuseloop::transform::Key,
) -> Result<(), fuseloop::source::BoxError> {
use fuseloop::loader::Targets;
use fuseloop::prelude::*;
use fuseloop::transform::{Image, TargetValue, Transform};

let targets = Targets::new().boxes("boxes", BoxFormat::Xyxy).column("labels", DType::I64).mask("mask", 255);
let transform = Transform::new(list)?.targets(&targets)?;
let out = transform.apply_with(
    &image,
    &[
        ("boxes", TargetValue::elements(&boxes)),            // f32 [objects, 4]
        ("labels", TargetValue::elements(&labels)),          // i64 [objects]
        ("mask", TargetValue::Mask(Image::plane(&mask, [height, width])?)),
    ],
    key,
)?;
println!("{:?} {:?}", out.image(), out.target("boxes"));
println!("{:?}", out.objects());                             // the objects that stay, by their numbers
Ok(())
}

#[rustfmt::skip]
fn loading_first(checkpoint: Option<String>) -> Result<(), fuseloop::source::BoxError> {
use fuseloop::prelude::*;
use fuseloop::OnDamaged;
use fuseloop::order::Ranks;
use fuseloop::source::{ProcessCache, Value};

let loader = Loader::open("train.beton")?
    .ranks(Ranks::from_env()?)                       // torchrun, Slurm, MPI: the same global stream for any number of ranks
    .filter("label", |label| matches!(label, Value::Int(0..100)))
    .order(Order::QuasiRandom { open_pages: 64 })    // or Random, ClassBalanced, Weighted, RepeatedAugment, your Sampler
    .process_cache(ProcessCache::default())          // pages read ahead by threads of their own, in a bounded memory
    .on_damaged(OnDamaged::Substitute)               // or Fail, Skip; loader.quarantine() lists them
    .memory_limit(2 << 30)                           // all batches together
    .build()?;
let mut batches = match checkpoint {
    Some(text) => loader.resume(&text.parse()?)?,    // the rest of the epoch, bit for bit
    None => loader.epoch(0)?,
};
let checkpoint: String = batches.cursor()?.to_string();
Ok(())
}

#[rustfmt::skip]
fn loading_mixture() -> Result<(), fuseloop::source::BoxError> {
use fuseloop::order::{DataMixture, Stopping};
use fuseloop::prelude::*;
use fuseloop::source::{Beton, Concat, OpenOptions, Source};
use std::sync::Arc;

let part = |path| -> Result<Arc<dyn Source>, fuseloop::Error> { Ok(Arc::new(Beton::open(path, &OpenOptions::default())?)) };
let mixture = DataMixture::new([0.9, 0.1])           // one weight for each component; or by_temperature(3.0)
    .at_epoch(10.0, [0.5, 0.5])                      // from there on; or at_step(50_000, [0.5, 0.5])
    .linear()                                        // in a line from point to point
    .stopping(Stopping::Samples(2000));              // of an epoch
let loader = Loader::from_source(Concat::new([part("train.beton")?, part("val.beton")?])?)
    .order(Order::Mixture(mixture.clone()))
    .build()?;
let mut batches = loader.epoch(0)?;
let batch = batches.next().transpose()?;
let cursor = batches.cursor()?;
let drawn = loader.drawn(cursor.epoch, cursor.position);     // the samples of each component so far, of all ranks together

let mixture = mixture.changed_at(cursor.epoch, cursor.position, DataMixture::new([0.6, 0.4]));
let loader = Loader::from_source(Concat::new([part("train.beton")?, part("val.beton")?])?)
    .order(Order::Mixture(mixture))
    .build()?;
let rest = loader.resume(&cursor)?;
Ok(())
}

#[rustfmt::skip]
fn loading_buckets() -> Result<(), fuseloop::source::BoxError> {
use fuseloop::prelude::*;

let loader = Loader::open("photos.tar")?
    .batch_size(16)
    .order(Order::Bucketed)
    .pipeline("jpg", ops![
        ResizeToBucket::of_area(1024, 512..=2048, 64)?.random_crop(true), // or `new` with sizes of your own
        RandomHorizontalFlip::new(0.5)?,
        ToChannelsFirst,
    ])
    .build()?;
for batch in loader.epoch(0)? {
    let batch = batch?;
    let images = batch.tensor::<u8>("jpg")?;                 // [16, 3, 832, 1216], the next one perhaps [16, 3, 1024, 1024]
}
Ok(())
}

#[rustfmt::skip]
fn targets_first() -> Result<(), fuseloop::source::BoxError> {
use fuseloop::prelude::*;
use fuseloop::loader::{BoundingBoxes, KeyPoints, Targets};

let targets = Targets::new()
    .boxes("bbox", BoundingBoxes::new(BoxFormat::Xywh).to(BoxFormat::Xyxy))  // COCO's, as torchvision's detectors take them
    .column("category_id", DType::I64)                                       // one number for each object
    .keypoints("keypoints", KeyPoints::coco_person())                        // left and right change places in a mirror
    .instance_masks("segmentation")                                          // polygons and RLE
    .mask("semantic", 255);                                                  // one mask of the image; 255 is outside
let loader = Loader::open("coco.beton")?
    .batch_size(16)
    .targets("image", targets)
    .pipeline("image", ops![
        RandomPhotometricDistort::new(),
        RandomZoomOut::new().fill([123, 117, 104]),
        RandomIoUCrop::new(),                                                // looks at the boxes
        Resize::new((300, 300))?,
        RandomHorizontalFlip::new(0.5)?,
        SanitizeBoundingBoxes::new(),                                        // an object that goes loses all its rows
        Normalize::imagenet(),
        ToChannelsFirst,
    ])
    .build()?;
for batch in loader.epoch(0)? {
    let batch = batch?;
    let boxes = batch.ragged::<f32>("bbox")?;                                // of each sample: 4 numbers per object
    let classes = batch.ragged::<i64>("category_id")?;
    let masks = batch.ragged::<u8>("segmentation")?;                         // of each sample: [objects, 300, 300]
    let semantic = batch.tensor::<u8>("semantic")?;                          // [16, 300, 300, 1]
}
Ok(())
}

#[rustfmt::skip]
fn targets_known() -> Result<(), fuseloop::source::BoxError> {
use fuseloop::prelude::*;

let loader = Loader::open("coco.beton")?
    .auto_targets()
    .without("segmentation")
    .pipeline("image", ops![RandomIoUCrop::new(), Resize::new((300, 300))?])
    .build()?;
Ok(())
}

#[rustfmt::skip]
fn targets_padded(loader: fuseloop::LoaderBuilder) -> Result<(), fuseloop::source::BoxError> {
use fuseloop::loader::Collate;

let loader = loader
    .collate("bbox", Collate::pad().to(100).fill(-1.0))      // TensorFlow's models: [batch, 100, 4]
    .collate("category_id", Collate::pad().to(100).fill(-1.0));
Ok(())
}

#[rustfmt::skip]
fn targets_warped() -> Result<(), fuseloop::source::BoxError> {
use fuseloop::prelude::*;

let list = ops![
    Letterbox::new(640)?,                                    // the images of a batch have one size where they are mixed
    Mosaic::new().center(0.0..=1.0)?,
    RandomAffine::new(0.0)?.translate(0.1, 0.1)?.scale(0.5..=1.5)?,
    RandomPerspective::new().distortion_scale(0.1)?,
    SanitizeBoundingBoxes::new(),                            // without what the warps have moved out
    RandomHorizontalFlip::new(0.5)?,
    ColorJitter::new(0.4, 0.4, 0.4)?,
    Normalize::imagenet(),
    ToChannelsFirst,
];
Ok(())
}

#[rustfmt::skip]
fn targets_mixed() -> Result<(), fuseloop::source::BoxError> {
use fuseloop::prelude::*;

let list = ops![
    RandomResizedCrop::new(640)?,
    RandomHorizontalFlip::new(0.5)?,
    SanitizeBoundingBoxes::new(),
    Normalize::imagenet(),
    ToChannelsFirst,
    SimpleCopyPaste::new().p(0.5)?,                          // needs instance masks
    Mosaic::new().p(0.5)?.min_size(2.0)?,
    MixUp::new(32.0)?.per_sample().p(0.1)?,                  // YOLO's
    SanitizeBoundingBoxes::new().min_area(16.0)?,            // on the objects of the mixed images
];
Ok(())
}

#[rustfmt::skip]
fn targets_presets() -> Result<(), fuseloop::source::BoxError> {
use fuseloop::prelude::*;

let mut list = detection::lsj(1024)?;
list.extend(ops![Normalize::imagenet(), ToChannelsFirst, SimpleCopyPaste::new()]);
Ok(())
}

/// Runs the pieces on the datasets that `rust_runs` writes to the folder of the process.
pub(super) fn run() -> Result<(), fuseloop::source::BoxError> {
    let open = |name: &str| {
        let beton = fuseloop::source::Beton::open(name, &Default::default())?;
        Ok::<_, fuseloop::source::BoxError>(fuseloop::source::Stream::of(std::sync::Arc::new(
            beton,
        )))
    };
    let loader = fuseloop::Loader::open("train.beton")?.batch_size(64).build()?;
    readme::run()?;
    first_training::run()?;
    first_training_validation(&loader)?;
    first_training_sizes()?;
    loading_first(None)?;
    loading_mixture()?;
    loading_buckets()?;
    loading_sizes()?;
    loading_arrays()?;
    loading_ranks(1)?;
    loading_cursor(&loader)?;
    resume_fingerprints(&loader, loader.epoch(0)?.cursor()?)?;
    pipelines()?;
    sources_mnist()?;
    sources_tar()?;
    sources_parts(open("train.beton")?, open("val.beton")?)?;
    targets_first()?;
    targets_known()?;
    targets_padded(fuseloop::Loader::open("coco.beton")?)?;
    targets_warped()?;
    targets_mixed()?;
    targets_presets()?;
    let (pixels, mut file) = (vec![7; 3 * 300 * 260], vec![]);
    let size = fuseloop::ops::Size::new(300, 260);
    fuseloop::internals::preview::encode::png(&mut file, &pixels, size)?;
    let image = fuseloop::transform::Image::encoded(&file);
    transform_batch(transform(file.clone())?, vec![image; 3])?;
    let keys = [0, 1, 2].map(|sample| fuseloop::transform::Key::new(0, 0, sample));
    transform_on_gpu(vec![image; 3], keys.into(), |_| ())?;
    let list = fuseloop::ops::ops![fuseloop::ops::CenterCrop::new(64)?];
    let targets = (vec![1.0, 2.0, 30.0, 40.0], vec![0], vec![1; 300 * 260]);
    transform_targets(list, image, targets, (300, 260), fuseloop::transform::Key::new(0, 0, 0))?;
    Ok(())
}
