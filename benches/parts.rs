//! The components around the compiled loop, each against a plain implementation or against the
//! whole work that it saves.
//!
//! An id reads `parts/<component>/<what>/<how>`.

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark fails with what it unwraps")]

mod common;

use common::{Contender, Work, compare, noise};
use criterion::{Criterion, criterion_group, criterion_main};
use fuseloop::batch::{RowsMut, TensorSpec};
use fuseloop::internals::decode::{DecodeOptions, Decoder, tile_interval};
use fuseloop::internals::run::{Engine, EngineOptions, FillError, Progress, RunRequest, Stage};
use fuseloop::source::{EncodedImage, ImageMode};
use fuseloop::{Epoch, SampleId, SampleRef};
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::ImageView;
use fuseloop_ops::internals::area::{self, AreaRows, AreaScratch, AreaTables};
use fuseloop_ops::{DType, Size};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use std::convert::Infallible;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::Arc;

fn area_resize(c: &mut Criterion) {
    let (from, to) = (Size::new(400, 350), Size::new(224, 224));
    let pixels = noise(from, 1);
    let view = ImageView::packed(&pixels, from).unwrap();
    let (mut tables, mut scratch) = (AreaTables::new(from, to).unwrap(), AreaScratch::default());
    let mut row = vec![0; 3 * 224];
    let by_rows = || {
        tables.rebuild(Size::new(1, 1), to).unwrap(); // so that the tables are rebuilt each time
        tables.rebuild(from, to).unwrap();
        let mut rows = AreaRows::new(&tables, view, 0..224, &mut scratch).unwrap();
        (0..224).for_each(|y| rows.row(y, black_box(&mut row)));
    };
    let plainly = || drop(black_box(area::resize(view, to).unwrap()));
    let bytes = 3 * (from.pixels() + to.pixels());
    let what = "400x350 to 224x224";
    let work = Work { group: "parts/area", what, samples: 1, bytes, cold: false };
    compare(
        c,
        &work,
        &mut [Contender::new("by rows", by_rows), Contender::new("plainly", plainly)],
    );
}

/// Encodes a smooth image with some noise as a JPEG of quality 90, with or without restart markers.
fn jpeg(size: Size, restarts: bool) -> Vec<u8> {
    let grain = noise(size, 2);
    let pixels: Vec<u8> = (0u32..)
        .zip(&grain)
        .map(|(i, &noise)| (i / 3 % size.width / 4 + i / 3 / size.width / 4) as u8 / 2 + noise / 8)
        .collect();
    let mut bytes = vec![];
    let mut encoder = Encoder::new(&mut bytes, 90);
    encoder.set_sampling_factor(SamplingFactor::F_2_2);
    if restarts {
        encoder.set_restart_interval(tile_interval(size.width as u16, 16, 32));
    }
    encoder.encode(&pixels, size.width as u16, size.height as u16, ColorType::Rgb).unwrap();
    bytes
}

fn decoding(c: &mut Criterion) {
    let size = Size::new(375, 500);
    let window = Window { top: 80, left: 120, height: 210, width: 230 };
    let (plain, tiled) = (jpeg(size, false), jpeg(size, true));
    let contender = |how, bytes: &Vec<u8>, wanted: Window| {
        let bytes = bytes.clone();
        let mut decoder = Decoder::new(DecodeOptions::default());
        Contender::new(how, move || {
            let (width, height) = (size.width, size.height);
            let image = EncodedImage { mode: ImageMode::Jpeg, width, height, bytes: &bytes };
            black_box(decoder.decode(&image, wanted).unwrap().view.size());
        })
    };
    let mut contenders = [
        contender("window, restart markers", &tiled, window),
        contender("window", &plain, window),
        contender("whole", &plain, size.full()),
    ];
    let (what, bytes) = ("210x230 of 375x500", 3 * size.pixels());
    let work = Work { group: "parts/decode", what, samples: 1, bytes, cold: false };
    compare(c, &work, &mut contenders);
}

/// Copies 3 KB per sample: the rest of the time is the engine's own cost.
struct Copy3k([TensorSpec; 1]);

impl Stage for Copy3k {
    type Worker = Vec<u8>;
    type Error = Infallible;

    fn outputs(&self) -> &[TensorSpec] {
        &self.0
    }

    fn chunk(&self) -> NonZeroUsize {
        NonZeroUsize::new(32).unwrap()
    }

    fn worker(&self, _watch: Progress) -> Vec<u8> {
        vec![7; 3072]
    }

    fn fill(
        &self,
        image: &mut Vec<u8>,
        _: Epoch,
        _: &[SampleRef],
        rows: &mut RowsMut<'_>,
    ) -> Result<(), FillError<Self::Error>> {
        for row in rows.output(0).chunks_exact_mut(3072) {
            row.copy_from_slice(image);
        }
        Ok(())
    }
}

fn engine(c: &mut Criterion) {
    const SAMPLES: u64 = 100_000;
    let workers = NonZeroUsize::new(2).unwrap();
    let engine = Engine::new(EngineOptions { workers, ..EngineOptions::default() }).unwrap();
    let spec = TensorSpec::new("x", DType::U8, [3072]);
    let stage = Arc::new(Copy3k([spec]));
    let run = || {
        let pass = RunRequest::new(
            Arc::clone(&stage),
            Epoch(0),
            Box::new((0..SAMPLES).map(SampleId).collect::<Vec<_>>()),
            NonZeroUsize::new(512).unwrap(),
        );
        let samples: usize = engine.start(pass).unwrap().map(|batch| batch.unwrap().len()).sum();
        assert_eq!(samples as u64, SAMPLES);
    };
    let (image, mut out) = (vec![7u8; 3072], vec![0u8; 512 * 3072]);
    let copy = || {
        for sample in 0..SAMPLES as usize {
            let row = &mut out[sample % 512 * 3072..][..3072];
            row.copy_from_slice(black_box(&image));
        }
    };
    let what = "3 KB a sample, batches of 512, 2 workers";
    let work = Work { group: "parts/engine", what, samples: SAMPLES, bytes: 3072, cold: false };
    let mut contenders = [Contender::new("engine", run), Contender::new("memcpy, 1 thread", copy)];
    compare(c, &work, &mut contenders);
}

criterion_group! {
    name = benches;
    config = common::criterion();
    targets = area_resize, decoding, engine
}
criterion_main!(benches);
