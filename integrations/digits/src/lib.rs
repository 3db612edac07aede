//! Drawn digits: the dataset, the loaders and the measurements that the training examples share.
//!
//! Each picture is a digit of a 5 x 7 font at a random position, size and angle, in random colors, with noise.
//! A set is written as a `.beton` file in less than a second.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::{Duration, Instant};

use fuseloop::ops::*;
use fuseloop::source::{BoxError, FieldKind, FieldSpec};
use fuseloop::write::{FieldValue, ImageInput, WriteOptions, write_iter};
use fuseloop::{Batch, Batches, Loader, LoaderBuilder, Order, Result};

/// The number of classes.
pub const CLASSES: usize = 10;

/// The samples of a batch, in training.
pub const BATCH_SIZE: usize = 64;

/// The accuracy that a training must reach.
pub const EXPECTED_ACCURACY: f64 = 0.9;

/// The side of a picture as it is stored.
const STORED_SIDE: u32 = 40;

/// The side of a picture in the evaluation, and in the last epochs of a training.
const FULL_SIDE: u32 = 28;

/// The digits, seven rows of five pixels each; the highest of five bits is the pixel on the left.
const FONT: [[u8; 7]; CLASSES] = [
    [0b01110, 0b10001, 0b10011, 0b10101, 0b11001, 0b10001, 0b01110],
    [0b00100, 0b01100, 0b00100, 0b00100, 0b00100, 0b00100, 0b01110],
    [0b01110, 0b10001, 0b00001, 0b00110, 0b01000, 0b10000, 0b11111],
    [0b11110, 0b00001, 0b00001, 0b01110, 0b00001, 0b00001, 0b11110],
    [0b00010, 0b00110, 0b01010, 0b10010, 0b11111, 0b00010, 0b00010],
    [0b11111, 0b10000, 0b11110, 0b00001, 0b00001, 0b10001, 0b01110],
    [0b00110, 0b01000, 0b10000, 0b11110, 0b10001, 0b10001, 0b01110],
    [0b11111, 0b00001, 0b00010, 0b00100, 0b01000, 0b01000, 0b01000],
    [0b01110, 0b10001, 0b10001, 0b01110, 0b10001, 0b10001, 0b01110],
    [0b01110, 0b10001, 0b10001, 0b01111, 0b00001, 0b00010, 0b01100],
];

/// Writes `count` digits to a `.beton` file with the fields `image` and `label`. Another `seed` draws others.
///
/// # Errors
///
/// If the file can't be written.
pub fn write(path: &Path, count: u64, seed: u64) -> Result<()> {
    let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
    let fields = [field("image", FieldKind::RgbImage), field("label", FieldKind::Int)];
    let samples = (0..count).map(|sample| {
        let digit = sample as usize % CLASSES;
        let pixels = draw(digit, &mut Random(seed << 32 | sample));
        let image = ImageInput::Rgb { pixels, width: STORED_SIDE, height: STORED_SIDE };
        vec![FieldValue::Image(image), FieldValue::Int(digit as i64)]
    });
    write_iter(samples, &fields, path, &WriteOptions::default())?;
    Ok(())
}

/// Draws the picture of a digit.
fn draw(digit: usize, random: &mut Random) -> Vec<u8> {
    let (cell, angle) = (random.between(2.6, 4.2), random.between(-0.25, 0.25));
    let center = [(); 2].map(|()| random.between(0.42, 0.58) * f64::from(STORED_SIDE));
    let paper = [(); 3].map(|()| random.between(0.0, 110.0));
    let ink = paper.map(|level| level + random.between(80.0, 130.0));
    let is_dark = random.between(0.0, 1.0) < 0.5;
    let (sin, cos) = angle.sin_cos();
    let mut pixels = Vec::new();
    for y in 0..STORED_SIDE {
        for x in 0..STORED_SIDE {
            let (dx, dy) = (f64::from(x) - center[0], f64::from(y) - center[1]);
            let column = (cos * dx + sin * dy) / cell + 2.5;
            let row = (cos * dy - sin * dx) / cell + 3.5;
            let inside = (0.0..5.0).contains(&column) && (0.0..7.0).contains(&row);
            let is_ink = inside && FONT[digit][row as usize] & (16 >> column as u32) != 0;
            let color = if is_ink != is_dark { ink } else { paper };
            pixels.extend(color.map(|level| (level + random.between(-15.0, 15.0)) as u8));
        }
    }
    pixels
}

/// The numbers of SplitMix64.
struct Random(u64);

impl Random {
    fn between(&mut self, low: f64, high: f64) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        low + (high - low) * ((mixed >> 11) as f64 / (1_u64 << 53) as f64)
    }
}

/// Returns the loader of a training: another order and other crops in each epoch, of growing sizes. It doesn't
/// mirror: a mirrored digit is another sign.
///
/// # Errors
///
/// If the file can't be opened.
pub fn training(path: &Path) -> Result<LoaderBuilder> {
    let builder = Loader::open(path)?
        .batch_size(BATCH_SIZE)
        .order(Order::Random)
        .seed(17)
        .pipeline_by_epoch("image", |epoch| {
            let crop = RandomResizedCrop::new(side(epoch.0))?.scale(0.7..=1.0)?;
            Ok::<_, ParamError>(ops![crop, Normalize::imagenet(), ToChannelsFirst])
        });
    Ok(builder)
}

/// Returns the loader of an evaluation: every sample once, whole.
///
/// # Errors
///
/// If the file can't be opened.
pub fn evaluation(path: &Path) -> Result<LoaderBuilder> {
    let builder = Loader::open(path)?.batch_size(250).pipeline(
        "image",
        ops![Resize::new((FULL_SIDE, FULL_SIDE))?, Normalize::imagenet(), ToChannelsFirst],
    );
    Ok(builder)
}

/// Returns the side of a picture in an epoch of a training.
fn side(epoch: u32) -> u32 {
    (FULL_SIDE - 8 + 4 * epoch).min(FULL_SIDE)
}

/// Compares the rest of an epoch with the same epoch, resumed: samples and pixels. Returns the number of batches.
///
/// # Errors
///
/// If a batch can't be read, or the two differ.
pub fn compare(rest: Batches, resumed: Batches) -> Result<usize> {
    let digests = |batches: Batches| {
        let digest = |batch: Batch| -> Result<u64> {
            let mut hasher = DefaultHasher::new();
            (batch.ids(), batch.bytes("image")?, batch.bytes("label")?).hash(&mut hasher);
            Ok(hasher.finish())
        };
        batches.map(|batch| digest(batch?)).collect::<Result<Vec<_>>>()
    };
    let (rest, resumed) = (digests(rest)?, digests(resumed)?);
    if rest != resumed {
        return Err(BoxError::from("the resumed epoch has other batches").into());
    }
    Ok(rest.len())
}

/// Measures how long a training waits for its loader, and how long it computes.
#[derive(Debug, Default)]
pub struct Clock {
    images: usize,
    loading: Duration,
    training: Duration,
}

impl Clock {
    /// Runs `load`, and counts its time as the loader's.
    pub fn load<T>(&mut self, load: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let loaded = load();
        self.loading += start.elapsed();
        loaded
    }

    /// Runs a step on `images` images, and counts its time as the training's.
    pub fn train<T>(&mut self, images: usize, step: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let stepped = step();
        self.training += start.elapsed();
        self.images += images;
        stepped
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |time: Duration| self.images as f64 / time.as_secs_f64().max(1e-9);
        let Self { images, loading, training } = self;
        write!(
            f,
            "{images} images: waited {:.2} s for the loader, computed {:.2} s ({:.0} images/s)",
            loading.as_secs_f64(),
            training.as_secs_f64(),
            rate(*training)
        )
    }
}

/// Returns the images per second of a loader without a training: one epoch in which nothing else is done.
///
/// # Errors
///
/// If a batch can't be read.
pub fn loader_speed(loader: &Loader) -> Result<f64> {
    let (start, mut images) = (Instant::now(), 0);
    for batch in loader.epoch(0)? {
        images += batch?.len();
    }
    Ok(images as f64 / start.elapsed().as_secs_f64())
}

/// Checks the accuracy after the last epoch.
///
/// # Errors
///
/// If the accuracy is below [`EXPECTED_ACCURACY`].
pub fn check_accuracy(accuracy: f64) -> Result<()> {
    if accuracy < EXPECTED_ACCURACY {
        let (found, expected) = (accuracy * 100.0, EXPECTED_ACCURACY * 100.0);
        let text = format!("the accuracy is {found:.1} %, expected {expected:.0} % or more");
        return Err(BoxError::from(text).into());
    }
    Ok(())
}
