//! The cost of decoding for each way to store the JPEGs of a dataset: measured on a few of its images, which are stored in
//! each way in memory.

use super::print::{bytes, counted};
use fuseloop::internals::decode::{DecodeOptions, Decoder};
use fuseloop::internals::loader::Inspector;
use fuseloop::ops::author::Window;
use fuseloop::recut::{BitPlaneCodec, Recutter, Tile};
use fuseloop::sample::{Limits, SampleId};
use fuseloop::source::{Buffer, EncodedImage, ImageMode, Source, Value};
use serde_json::json;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// The ways to store a JPEG, each with the mode that it is written by.
const WAYS: [(&str, &str); 3] =
    [("JPEG", ""), ("re-cut", "--write-mode tiled"), ("bit planes", "--write-mode planes")];

/// The number of times that all images are decoded in each way.
const ROUNDS: usize = 5;

/// The side of a tile in pixels: the default of `write` and `recut`.
const TILE: Tile = Tile::Pixels(32);

/// The means of the measured images, for each of the [ways](WAYS).
pub(super) struct StorageCosts {
    images: u64,
    bytes: [f64; 3],
    decode: [Duration; 3],
}

/// An image stored in each way, and the window of it that the ops ask for.
struct Stored {
    ways: [(ImageMode, Vec<u8>); 3],
    window: Window,
}

/// Measures the JPEGs among `samples`, or those that bit planes were made of; `None` if none of them can be stored in
/// every way.
pub(super) fn measure(
    source: &dyn Source,
    field: usize,
    inspector: &mut Inspector,
    samples: &[u64],
) -> Option<StorageCosts> {
    let images: Vec<Stored> =
        samples.iter().filter_map(|sample| stored(source, field, inspector, *sample)).collect();
    let count = u32::try_from(images.len()).ok().filter(|count| *count > 0)?;
    let mut decoder = Decoder::new(DecodeOptions::default());
    let mut times = [const { vec![] }; 3];
    // All images are decoded in one way before the next: a second decode of the same image is faster.
    for _ in 0..ROUNDS {
        for (way, times) in times.iter_mut().enumerate() {
            let begun = Instant::now();
            for Stored { ways, window } in &images {
                let (mode, bytes) = &ways[way];
                let image = EncodedImage { mode: *mode, width: 0, height: 0, bytes };
                decoder.decode(&image, *window).ok()?;
            }
            times.push(begun.elapsed() / count);
        }
    }
    let decode = times.map(|mut times| {
        times.sort_unstable();
        times[ROUNDS / 2]
    });
    let bytes = [0, 1, 2].map(|way: usize| {
        let all: usize = images.iter().map(|image| image.ways[way].1.len()).sum();
        #[expect(clippy::cast_precision_loss, reason = "shown rounded")]
        let mean = all as f64 / f64::from(count);
        mean
    });
    Some(StorageCosts { images: count.into(), bytes, decode })
}

fn stored(
    source: &dyn Source,
    field: usize,
    inspector: &mut Inspector,
    sample: u64,
) -> Option<Stored> {
    // The window of the stored image, even if a smaller scale was asked for.
    let window = inspector.stored_window(sample).ok()?;
    let mut buffer = Buffer::default();
    let Value::Image(image) = source.value(SampleId(sample), field, &mut buffer).ok()? else {
        return None;
    };
    let mut codec = BitPlaneCodec::new(Limits::DEFAULT);
    let jpeg = match image.mode {
        ImageMode::Jpeg => image.bytes.to_vec(),
        ImageMode::BitPlanes => codec.unpack(image.bytes).ok()?,
        _ => return None,
    };
    let recut = Recutter::new(TILE, Limits::DEFAULT).recut(&jpeg).ok()?;
    let planes = codec.pack(&jpeg, TILE).ok()?;
    let ways = [(ImageMode::Jpeg, jpeg), (ImageMode::Jpeg, recut), (ImageMode::BitPlanes, planes)];
    Some(Stored { ways, window })
}

impl StorageCosts {
    /// Adds a table, one row for each way.
    pub(super) fn add_to(&self, text: &mut String) {
        let images = counted(self.images, "image");
        let _ = writeln!(text, "  the same windows of {images}, stored as");
        for (way, (name, option)) in WAYS.iter().enumerate() {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean")]
            let size = bytes(self.bytes[way].round() as u64);
            let micros = self.decode[way].as_secs_f64() * 1e6;
            let share = self.decode[way].as_secs_f64() / self.decode[0].as_secs_f64().max(1e-9);
            let line = format!(
                "    {name:<12} {size:>10} {micros:>8.0} µs to decode  {share:.2}x  {option}"
            );
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }

    pub(super) fn to_json(&self) -> serde_json::Value {
        let way = |way: usize| {
            json!({
                "stored_as": WAYS[way].0,
                "bytes": self.bytes[way],
                "decode_ns": self.decode[way].as_secs_f64() * 1e9,
            })
        };
        json!({ "images": self.images, "ways": [way(0), way(1), way(2)] })
    }
}
