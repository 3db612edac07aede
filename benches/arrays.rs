//! Images of 1, 2 and 4 channels against RGB images, and against a copy of the bytes that the work reads and
//! writes.
//!
//! An id reads `arrays/<ops>/256x256 u8, in cache/<channels>`. The printed ratio is the time of one channel
//! divided by that of the line. The aims: for a crop, a flip and a normalization, one channel takes at most a
//! third of the time of three; and RGB takes what it took before there were others, which `benches/fused` shows.
//!
//! `arrays/types` does the first list with elements of other types, and `arrays/bands` with 13 channels of u16 in
//! both layouts, and with 3 that are selected of them; `arrays/spectrogram` masks and normalizes 80 x 1000 floats.
//!
//! `arrays/labels` writes the rows of a batch of 64 labels, `arrays/embedding` those of an array of 512 elements:
//! once by the steps of the plan, and once op by op, which is the definition. `arrays/labels loaded` reads an
//! epoch of labels from memory.
//!
//! `arrays/small pictures` loads 20,000 pictures from memory, with one worker: the loader, and the compiled loop
//! alone with what is done for each sample around it. `arrays/points` normalizes 1024 x 3 floats, whose rows are one
//! row for the loop, and as they were before, evaluated.
//!
//! `arrays/decode` decodes a JPEG of 500 x 375 pixels with chroma of half the size, to RGB and to gray: the luma
//! alone.

mod common;

use common::{Bytes, Contender, Work, compare, criterion};
use criterion::{Criterion, criterion_group, criterion_main};
use fuseloop::ImageReadMode;
use fuseloop::Loader;
use fuseloop::internals::decode::{DecodeOptions, Decoder};
use fuseloop::internals::jit::{DecodedPixels, Kernel, Scratch, evaluate};
use fuseloop::internals::plan::element_steps::StepScratch;
use fuseloop::internals::plan::{Draws, ElementPlan, ImagePlan};
use fuseloop::source::{Column, EncodedImage, ImageMode, InMemory};
use fuseloop_ops::author::{ImageType, Layout};
use fuseloop_ops::internals::{ElementValue, ImageView, PixelFormat, SampleKey};
use fuseloop_ops::*;
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use std::hint::black_box;

const STORED: Size = Size::new(256, 256);
const SIDE: u32 = 224;

/// A list of ops, by a name.
type List = (&'static str, fn() -> Result<Ops, ParamError>);

const LISTS: [List; 4] = [
    ("crop+flip+normalize", || {
        Ok(ops![
            RandomCrop::new(SIDE)?,
            RandomHorizontalFlip::new(0.5)?,
            Normalize::new([0.5], [0.25])?,
            ToChannelsFirst
        ])
    }),
    ("crop+flip, bytes", || {
        Ok(ops![RandomCrop::new(SIDE)?, RandomHorizontalFlip::new(0.5)?, ToChannelsFirst])
    }),
    ("crop+brightness+solarize+normalize", || {
        Ok(ops![
            RandomCrop::new(SIDE)?,
            RandomBrightness::new(0.4)?.p(1.0)?,
            RandomSolarize::new(128.0)?.p(1.0)?,
            Normalize::new([0.5], [0.25])?,
            ToChannelsFirst
        ])
    }),
    ("resize+normalize", || {
        Ok(ops![Resize::new((SIDE, SIDE))?, Normalize::new([0.5], [0.25])?, ToChannelsFirst])
    }),
];

/// The work of one list for one type of images.
struct Lane {
    kernel: Kernel,
    pixels: Vec<u8>,
    size: Size,
    draws: Vec<Draws>,
    scratch: Scratch,
    out: Bytes,
    turn: usize,
}

impl Lane {
    fn new(ops: Ops, channels: u16) -> Self {
        Self::of(ops, ImageType::from(STORED).with_channels(channels))
    }

    fn of(ops: Ops, input: ImageType) -> Self {
        let size = input.size().expect("of one size");
        let plan = ImagePlan::new(ops, input, NumberRule::Fused).expect("the list makes a plan");
        let kernel = Kernel::compile(plan).expect("the plan compiles");
        let draws = |sample| {
            let mut draws = Draws::default();
            kernel.plan().draw(SampleKey::new(1, 0, sample), size, &mut draws);
            draws
        };
        let draws = (0..64).map(draws).collect();
        let count = size.pixels() as usize * usize::from(input.channels);
        let level = |at: usize| f32::from(((at * 2_654_435_761) >> 13) as u8);
        let element = |at| ElementValue::from(level(at)).converted(input.dtype);
        let pixels = (0..count).flat_map(|at| element(at).bytes()).collect();
        let out = Bytes::new(kernel.plan().sample_bytes());
        Self { kernel, pixels, size, draws, scratch: Scratch::default(), out, turn: 0 }
    }

    fn run(&mut self) {
        let source = view(self.kernel.plan().input(), &self.pixels, self.size);
        let source = DecodedPixels::whole(source);
        self.turn = (self.turn + 1) % self.draws.len();
        let draws = &self.draws[self.turn];
        self.kernel.run(&mut self.scratch, source, draws, black_box(self.out.get()));
    }
}

fn view(input: ImageType, pixels: &[u8], size: Size) -> ImageView<'_> {
    let format = PixelFormat { channels: input.channels.into(), dtype: input.dtype };
    let view = match input.layout {
        Layout::ChannelsFirst => ImageView::planes(pixels, size, format),
        _ => ImageView::packed_format(pixels, size, format),
    };
    view.expect("of this size")
}

/// Compares images of several types with a copy of the bytes that the last one reads and writes.
fn typed(c: &mut Criterion, group: &str, read: usize, mut lanes: Vec<(&'static str, Lane)>) {
    let written = lanes.last().map_or(0, |(_, lane)| lane.kernel.plan().sample_bytes());
    let (from, mut to) = (vec![7u8; read + written], vec![0u8; read + written]);
    let bytes = (read + written) as u64;
    let work = Work { group, what: "in cache", samples: 1, bytes, cold: false };
    let lanes = lanes.iter_mut().map(|(name, lane)| Contender::new(name, || lane.run()));
    let mut contenders: Vec<Contender<'_>> = lanes.collect();
    contenders.push(Contender::new("a copy of the bytes of the last", || {
        black_box(&mut to).copy_from_slice(black_box(&from));
    }));
    compare(c, &work, &mut contenders);
}

fn types(c: &mut Criterion) {
    let list = |channels: usize| {
        let (mean, std) = (vec![100.0; channels], vec![50.0; channels]);
        Ok::<_, ParamError>(ops![
            RandomCrop::new(SIDE)?,
            RandomHorizontalFlip::new(0.5)?,
            Normalize::values(mean, std)?,
            ToChannelsFirst
        ])
    };
    let lane = |name: &'static str, channels: u16, dtype, layout| {
        let input = ImageType { layout, ..ImageType::array(STORED, channels, dtype) };
        let ops = list(channels.into()).expect("fixed parameters");
        (name, Lane::of(ops, input))
    };
    let pixels = (SIDE * SIDE) as usize;
    for channels in [1, 3] {
        let dtypes = [
            ("u8", DType::U8),
            ("u16", DType::U16),
            ("i16", DType::I16),
            ("f16", DType::F16),
            ("f32", DType::F32),
        ];
        let lanes = dtypes.map(|(name, dtype)| lane(name, channels, dtype, Layout::ChannelsLast));
        let group = format!("arrays/types/{channels} channel(s)");
        typed(c, &group, 4 * pixels * usize::from(channels), lanes.into());
    }
    for layout in [Layout::ChannelsLast, Layout::ChannelsFirst] {
        let input = ImageType { layout, ..ImageType::array(STORED, 13, DType::U16) };
        let select = || Ok::<_, ParamError>(ops![SelectChannels::new([3, 2, 1])?]);
        let rgb = [select(), list(3)].map(|ops| ops.expect("fixed parameters")).concat();
        let lanes = vec![
            ("u16, 3 of 13 channels", Lane::of(rgb, input)),
            lane("u16, 13 channels", 13, DType::U16, layout),
        ];
        typed(c, &format!("arrays/bands/{layout:?}"), 2 * pixels * 13, lanes);
    }
    let size = Size::new(80, 1000);
    let masks = || {
        Ok::<_, ParamError>(ops![
            FrequencyMasking::new(27)?,
            TimeMasking::new(100)?,
            Normalize::values([100.0], [50.0])?
        ])
    };
    let input = ImageType::array(size, 1, DType::F32);
    let lane = Lane::of(masks().expect("fixed parameters"), input);
    typed(c, "arrays/spectrogram", 4 * 80_000, vec![("f32", lane)]);
}

fn lists(c: &mut Criterion) {
    for (name, list) in LISTS {
        let mut lanes = [1, 2, 3, 4].map(|n| Lane::new(list().expect("fixed parameters"), n));
        let read = (SIDE * SIDE) as usize;
        let written = lanes[0].kernel.plan().sample_bytes();
        let (from, mut to) = (vec![7u8; read + written], vec![0u8; read + written]);
        let [one, two, three, four] = &mut lanes;
        let group = format!("arrays/{name}");
        let work = Work {
            group: &group,
            what: "256x256 u8, in cache",
            samples: 1,
            bytes: (read + written) as u64,
            cold: false,
        };
        let mut contenders = [
            Contender::new("1 channel", || one.run()),
            Contender::new("2 channels", || two.run()),
            Contender::new("3 channels", || three.run()),
            Contender::new("4 channels", || four.run()),
            Contender::new("a copy of the bytes of 1 channel", || {
                black_box(&mut to).copy_from_slice(black_box(&from));
            }),
        ];
        compare(c, &work, &mut contenders);
    }
}

fn points(c: &mut Criterion) {
    let list = || ops![Normalize::values([100.0], [50.0]).expect("fixed parameters")];
    let lane =
        |height, width| Lane::of(list(), ImageType::array(Size::new(height, width), 1, DType::F32));
    let [mut points, mut wide, evaluated] = [lane(1024, 3), lane(3, 1024), lane(1024, 3)];
    let bytes = points.pixels.len();
    let (from, mut to) = (vec![7u8; 2 * bytes], vec![0u8; 2 * bytes]);
    let work = Work {
        group: "arrays/points",
        what: "1024 f32 points, in cache",
        samples: 1,
        bytes: 2 * bytes as u64,
        cold: false,
    };
    let mut contenders = [
        Contender::new("rows of 3 columns", || points.run()),
        Contender::new("rows of 1024 columns", || wide.run()),
        Contender::new("rows of 3 columns, evaluated", || {
            let plan = evaluated.kernel.plan();
            let source = view(plan.input(), &evaluated.pixels, evaluated.size);
            black_box(evaluate(plan, &source, &evaluated.draws[0]));
        }),
        Contender::new("a copy of the bytes", || {
            black_box(&mut to).copy_from_slice(black_box(&from));
        }),
    ];
    compare(c, &work, &mut contenders);
}

/// The number of small pictures.
const PICTURES: usize = 20_000;

/// Returns small pictures in memory.
fn small_pictures_of(side: u32, channels: u16) -> InMemory {
    let shape = [side.into(), side.into(), channels.into()];
    let bytes = (side * side) as usize * usize::from(channels) * PICTURES;
    let pixels: Vec<u8> = (0..bytes).map(|at| ((at * 2_654_435_761) >> 13) as u8).collect();
    let dtype = "|u1".parse().expect("a type of NumPy");
    InMemory::new([("image", Column::arrays(dtype, &shape, pixels))]).expect("whole pictures")
}

fn small_pictures(c: &mut Criterion) {
    let list = |side| {
        let crop = RandomCrop::new(side)?;
        let normalize = Normalize::new([0.5], [0.25])?;
        Ok::<_, ParamError>(ops![crop, RandomHorizontalFlip::new(0.5)?, normalize, ToChannelsFirst])
    };
    for (name, stored, channels, side) in [("28x28 gray", 28, 1, 24), ("32x32 RGB", 32, 3, 28)] {
        let ops = || list(side).expect("fixed parameters");
        let source = small_pictures_of(stored, channels);
        let loader = Loader::from_source(source).batch_size(256).workers(1);
        let loader = loader.pipeline("image", ops()).build().expect("a loader");
        let input = ImageType::from(Size::new(stored, stored)).with_channels(channels);
        let mut lane = Lane::of(ops(), input);
        let written = lane.kernel.plan().sample_bytes();
        let work = Work {
            group: &format!("arrays/small pictures/{name}"),
            what: "one worker",
            samples: PICTURES as u64,
            bytes: (lane.pixels.len() + written) as u64,
            cold: false,
        };
        let mut contenders = [
            Contender::new("loaded", || {
                for batch in loader.epoch(0).expect("an epoch") {
                    drop(black_box(batch.expect("a batch")));
                }
            }),
            Contender::new("the loop of each sample", || {
                (0..PICTURES).for_each(|_| lane.run());
            }),
        ];
        compare(c, &work, &mut contenders);
    }
}

fn decode(c: &mut Criterion) {
    let size = Size::new(375, 500);
    let pixels: Vec<u8> = (0..size.pixels() as usize * 3)
        .map(|at| {
            ((at / 3 % 500 / 3 + at / 1500) as u8)
                .wrapping_add(((at * 2_654_435_761) >> 20) as u8 % 24)
        })
        .collect();
    let mut jpeg = vec![];
    let mut encoder = Encoder::new(&mut jpeg, 90);
    encoder.set_sampling_factor(SamplingFactor::R_4_2_0);
    encoder.encode(&pixels, 500, 375, ColorType::Rgb).expect("a valid size");
    let image = EncodedImage { mode: ImageMode::Jpeg, width: 0, height: 0, bytes: &jpeg };
    let mut decoders = [0; 2].map(|_| Decoder::new(DecodeOptions::default()));
    let [gray, rgb] = &mut decoders;
    let run = |decoder: &mut Decoder, mode| {
        let mut opened = decoder.open_as(&image, mode).expect("it was just encoded");
        black_box(opened.decode(size.full()).expect("it was just encoded"));
    };
    let work = Work {
        group: "arrays/decode",
        what: "500x375 4:2:0",
        samples: 1,
        bytes: jpeg.len() as u64,
        cold: false,
    };
    let mut contenders = [
        Contender::new("gray", || run(gray, ImageReadMode::Gray)),
        Contender::new("RGB", || run(rgb, ImageReadMode::Rgb)),
    ];
    compare(c, &work, &mut contenders);
}

/// The number of labels of a batch.
const LABELS: u64 = 64;

/// The lists of ops on labels.
const LABEL_LISTS: [List; 4] = [
    ("no ops", || Ok(ops![])),
    ("Convert to f32", || Ok(ops![Convert::to(DType::F32)])),
    ("OneHot(1000) + LabelSmoothing", || Ok(ops![OneHot::new(1000)?, LabelSmoothing::new(0.1)?])),
    ("MixUp, before the batch is mixed", || Ok(ops![MixUp::new(1.0)?])),
];

fn labels(c: &mut Criterion) {
    for (name, list) in LABEL_LISTS {
        let plan =
            ElementPlan::of_label(list().expect("fixed parameters"), DType::I64).expect("a plan");
        let bytes = plan.sample_bytes();
        let mut out = Bytes::new(bytes * LABELS as usize);
        let group = format!("arrays/labels/{name}");
        let work = Work {
            group: &group,
            what: "a batch of 64",
            samples: 1,
            bytes: LABELS * (8 + bytes as u64),
            cold: false,
        };
        let (mut stored, mut by_sample) = (vec![], Bytes::new(bytes * LABELS as usize));
        let mut scratch = StepScratch::default();
        let mut contenders = [
            Contender::new("gathered, one call", || {
                stored.clear();
                for label in 0..LABELS as i64 {
                    stored.extend_from_slice(&black_box(label).to_le_bytes());
                }
                plan.run((LABELS as usize, &[]), &stored, &mut scratch, out.get())
                    .expect("classes");
            }),
            Contender::new("sample by sample, op by op", || {
                for (label, row) in (0..LABELS).zip(by_sample.get().chunks_exact_mut(bytes)) {
                    let key = SampleKey::new(1, 0, label).field(1);
                    let label = black_box(label as i64).to_le_bytes();
                    plan.evaluate(key, &label, row).expect("a class");
                }
            }),
        ];
        compare(c, &work, &mut contenders);
    }
}

fn labels_loaded(c: &mut Criterion) {
    // Mixing labels needs images.
    for (name, list) in &LABEL_LISTS[..3] {
        let loader = |batch| {
            let labels = Column::ints((0..LABELS as i64 * 2_000).map(|sample| sample % 1000));
            let source = InMemory::new([("label", labels)]).expect("one column");
            let loader = Loader::from_source(source).batch_size(batch).workers(1);
            loader.pipeline("label", list().expect("fixed parameters")).build().expect("a loader")
        };
        let (small, large) = (loader(64), loader(2048));
        let run = |loader: &Loader| {
            for batch in loader.epoch(0).expect("an epoch") {
                drop(black_box(batch.expect("a batch")));
            }
        };
        let group = format!("arrays/labels loaded/{name}");
        let samples = LABELS * 2_000;
        let work = Work { group: &group, what: "one worker", samples, bytes: 8, cold: false };
        let mut contenders = [
            Contender::new("batches of 2048", || run(&large)),
            Contender::new("batches of 64", || run(&small)),
        ];
        compare(c, &work, &mut contenders);
    }
}

fn embeddings(c: &mut Criterion) {
    let lists: [(&str, DType, DType); 4] = [
        ("f64 to f32", DType::F64, DType::F32),
        ("f32 to f16", DType::F32, DType::F16),
        ("i16 to f32", DType::I16, DType::F32),
        ("f32 to i16", DType::F32, DType::I16),
    ];
    for (name, from, to) in lists {
        let plan = ElementPlan::of_array(ops![Convert::to(to)], from, vec![512]).expect("a plan");
        let stored = vec![1u8; 512 * from.bytes()];
        let mut rows = [0; 2].map(|_| Bytes::new(512 * to.bytes()));
        let [out, by_element] = &mut rows;
        let mut scratch = StepScratch::default();
        let group = format!("arrays/embedding/{name}");
        let bytes = (stored.len() + 512 * to.bytes()) as u64;
        let work = Work { group: &group, what: "512 elements", samples: 1, bytes, cold: false };
        let mut contenders = [
            Contender::new("one loop", || {
                plan.run((1, &[]), black_box(&stored), &mut scratch, out.get()).expect("no error");
            }),
            Contender::new("element by element", || {
                let key = SampleKey::new(1, 0, 3).field(1);
                plan.evaluate(key, black_box(&stored), by_element.get()).expect("no error");
            }),
        ];
        compare(c, &work, &mut contenders);
    }
}

criterion_group! {
    name = benches;
    config = criterion();
    targets = lists, types, points, small_pictures, decode, labels, labels_loaded, embeddings
}
criterion_main!(benches);
