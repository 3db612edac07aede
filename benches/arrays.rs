//! Images of 1, 2 and 4 channels against RGB images, and against a copy of the bytes that the work reads and
//! writes.
//!
//! An id reads `arrays/<ops>/256x256 u8, in cache/<channels>`. The printed ratio is the time of one channel
//! divided by that of the line. The aims: for a crop, a flip and a normalization, one channel takes at most a
//! third of the time of three; and RGB takes what it took before there were others, which `benches/fused` shows.
//!
//! `arrays/decode` decodes a JPEG of 500 x 375 pixels with chroma of half the size, to RGB and to gray: the luma
//! alone.

mod common;

use common::{Bytes, Contender, Work, compare, criterion};
use criterion::{Criterion, criterion_group, criterion_main};
use fuseloop::ImageReadMode;
use fuseloop::internals::decode::{DecodeOptions, Decoder};
use fuseloop::internals::jit::{DecodedPixels, Kernel, Scratch};
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop::source::{EncodedImage, ImageMode};
use fuseloop_ops::author::ImageType;
use fuseloop_ops::internals::{ImageView, SampleKey};
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

/// The work of one list for one number of channels.
struct Lane {
    kernel: Kernel,
    pixels: Vec<u8>,
    channels: usize,
    draws: Vec<Draws>,
    scratch: Scratch,
    out: Bytes,
    turn: usize,
}

impl Lane {
    fn new(ops: Ops, channels: u16) -> Self {
        let input = ImageType::from(STORED).with_channels(channels);
        let plan = ImagePlan::new(ops, input, NumberRule::Fused).expect("the list makes a plan");
        let kernel = Kernel::compile(plan).expect("the plan compiles");
        let draws = |sample| {
            let mut draws = Draws::default();
            kernel.plan().draw(SampleKey::new(1, 0, sample), STORED, &mut draws);
            draws
        };
        let draws = (0..64).map(draws).collect();
        let count = STORED.pixels() as usize * usize::from(channels);
        let pixels = (0..count).map(|at| ((at * 2_654_435_761) >> 13) as u8).collect();
        let out = Bytes::new(kernel.plan().sample_bytes());
        let (scratch, channels) = (Scratch::default(), channels.into());
        Self { kernel, pixels, channels, draws, scratch, out, turn: 0 }
    }

    fn run(&mut self) {
        let view = ImageView::packed_channels(&self.pixels, STORED, self.channels);
        let source = DecodedPixels::whole(view.expect("of this size"));
        self.turn = (self.turn + 1) % self.draws.len();
        let draws = &self.draws[self.turn];
        self.kernel.run(&mut self.scratch, source, draws, black_box(self.out.get()));
    }
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

criterion_group! { name = benches; config = criterion(); targets = lists, decode }
criterion_main!(benches);
