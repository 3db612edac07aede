//! The yardstick: rayon over the samples of a batch, and one library or one pass for each op.
//!
//! Every step is tuned as far as a careful author would: no memory is allocated per sample, u8 ops
//! use tables, and the JPEG decoder and the resizer use SIMD instructions.

use fast_image_resize::images::{CroppedImage, Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use fuseloop::internals::plan::{Draws, ImagePlan, block::nth_order};
use fuseloop::internals::workload::Workload;
use fuseloop::ops::author::{Dim, GeometryStep, ImageType, OpClass};
use fuseloop::ops::internals::SampleKey;
use fuseloop::ops::{DType, NumberRule, Size};
use fuseloop::sample::SampleId;
use fuseloop::source::Source as _;
use fuseloop::source::{Beton, Buffer, EncodedImage, ImageMode, OpenOptions, Value};
use rayon::iter::{IndexedParallelIterator as _, ParallelIterator as _};
use rayon::slice::ParallelSliceMut as _;
use std::path::Path;
use std::sync::Mutex;
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

pub(crate) struct Baseline {
    beton: Beton,
    plan: ImagePlan,
    /// The normalized value of each level of each channel.
    table: [[f32; 256]; 3],
    pool: rayon::ThreadPool,
    threads: Vec<Mutex<Scratch>>,
    batch: Vec<f32>,
    seed: u64,
}

/// The memory of one thread.
#[derive(Default)]
struct Scratch {
    /// The current image, and the output of the next step.
    now: Picture,
    next: Picture,
    resizer: Resizer,
    draws: Draws,
    normalized: Vec<f32>,
    read: Buffer,
}

#[derive(Default)]
struct Picture {
    size: Size,
    pixels: Vec<u8>,
}

impl Baseline {
    pub(crate) fn new(
        file: &Path,
        workload: Workload,
        batch: usize,
        threads: usize,
        seed: u64,
    ) -> Self {
        let beton = Beton::open(file, &OpenOptions::default()).unwrap();
        let stats = beton.facts().image_stats(0).unwrap();
        let (min, max) = (stats.min.unwrap(), stats.max.unwrap());
        let height = Dim { min: min.height, max: max.height };
        let input = ImageType::decoded(height, Dim { min: min.width, max: max.width });
        let plan = ImagePlan::new(workload.ops().unwrap(), input, NumberRule::Fused).unwrap();
        assert_eq!(plan.dtype(), DType::F32);
        let row: usize = plan.shape().iter().product();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        Self {
            beton,
            plan,
            table: table(workload),
            pool,
            threads: (0..threads).map(|_| Mutex::default()).collect(),
            batch: vec![0.0; row * batch],
            seed,
        }
    }

    /// Runs an epoch in the file's order and hands each batch to `each`. Returns the number of
    /// images.
    pub(crate) fn epoch(&mut self, mut each: impl FnMut(&[f32])) -> u64 {
        let row: usize = self.plan.shape().iter().product();
        let samples = self.beton.facts().samples;
        let mut values = std::mem::take(&mut self.batch);
        let size = (values.len() / row) as u64;
        for first in (0..samples).step_by(size as usize) {
            let len = size.min(samples - first) as usize;
            let out = &mut values[..len * row];
            self.pool.install(|| {
                out.par_chunks_mut(row).enumerate().for_each(|(i, out)| {
                    let thread = rayon::current_thread_index().unwrap_or(0);
                    let mut scratch = self.threads[thread].lock().unwrap();
                    self.sample(&mut scratch, first + i as u64, out);
                });
            });
            each(&values[..len * row]);
        }
        self.batch = values;
        samples
    }

    fn sample(&self, scratch: &mut Scratch, sample: u64, out: &mut [f32]) {
        let Scratch { now, next, resizer, draws, normalized, read } = scratch;
        let Ok(Value::Image(image)) = self.beton.value(SampleId(sample), 0, read) else { panic!() };
        let size = Size::new(image.height, image.width);
        let key = SampleKey::new(self.seed, 0, sample).field(0);
        self.plan.draw(key, size, draws);
        decode(&image, now);
        let mut motions = draws.geometry.iter().map(|(_, motion)| motion.clone()).peekable();
        while let Some(motion) = motions.next() {
            match (motion, motions.peek()) {
                (
                    GeometryStep::CropPad { top, left, size, .. },
                    Some(&GeometryStep::Resize { size: to, .. }),
                ) => {
                    motions.next();
                    resize(resizer, now, next, (top as u32, left as u32, size), to);
                }
                (GeometryStep::CropPad { top, left, size, fill }, _) => {
                    frame(now, next, (top, left), size, fill);
                }
                (GeometryStep::FlipHorizontal, _) => {
                    flip(now);
                    continue;
                }
                (motion, _) => panic!("{motion:?} is in no workload"),
            }
            std::mem::swap(now, next);
        }
        self.jitter(now, draws);
        self.paint(now, draws);
        normalize(now, &self.table, normalized);
        transpose(normalized, out);
    }

    /// Applies brightness, contrast and saturation in the drawn order, with one or two passes over
    /// u8 each.
    fn jitter(&self, picture: &mut Picture, draws: &Draws) {
        let shuffled = self.plan.ops().iter().find_map(|op| match op.class() {
            OpClass::Shuffled(parts) => Some(parts.len()),
            _ => None,
        });
        let Some(parts) = shuffled else { return };
        let [brightness, contrast, _, _, saturation, _] = draws.params[..6] else { panic!() };
        for part in nth_order(parts, draws.orders[0].1) {
            match part {
                0 => levels(picture, |v| v * brightness),
                1 => {
                    let mean = grey_mean(picture);
                    levels(picture, |v| v * contrast + mean * (1.0 - contrast));
                }
                _ => saturate(picture, saturation),
            }
        }
    }

    /// Paints the rectangles of Cutout.
    fn paint(&self, picture: &mut Picture, draws: &Draws) {
        for (index, window) in &draws.windows {
            let OpClass::Region(op) = self.plan.ops()[*index].class() else { panic!() };
            for y in window.top..window.top + window.height {
                let at = (y * picture.size.width + window.left) as usize * 3;
                let row = &mut picture.pixels[at..at + window.width as usize * 3];
                row.as_chunks_mut::<3>().0.fill(op.fill().map(|v| v as u8));
            }
        }
    }
}

/// Returns the levels of each channel, normalized as the workload's last op but one does.
fn table(workload: Workload) -> [[f32; 256]; 3] {
    let (mean, std) = match workload {
        Workload::Cifar => ([125.307, 122.961, 113.8575], [51.5865, 50.847, 51.255]),
        _ => (
            [0.485, 0.456, 0.406].map(|m: f64| m * 255.0),
            [0.229, 0.224, 0.225].map(|s: f64| s * 255.0),
        ),
    };
    [0, 1, 2].map(|c| std::array::from_fn(|level| ((level as f64 - mean[c]) / std[c]) as f32))
}

fn decode(image: &EncodedImage<'_>, out: &mut Picture) {
    out.size = Size::new(image.height, image.width);
    out.pixels.resize(out.size.pixels() as usize * 3, 0);
    match image.mode {
        ImageMode::Raw => out.pixels.copy_from_slice(image.bytes),
        ImageMode::Jpeg => {
            let options = DecoderOptions::new_fast().jpeg_set_out_colorspace(ColorSpace::RGB);
            let mut decoder = JpegDecoder::new_with_options(ZCursor::new(image.bytes), options);
            decoder.decode_into(&mut out.pixels).unwrap();
        }
        mode => unreachable!("a .beton that FFCV reads holds no {mode:?}"),
    }
}

fn resize(
    resizer: &mut Resizer,
    from: &Picture,
    to: &mut Picture,
    (top, left, size): (u32, u32, Size),
    want: Size,
) {
    let Size { height, width } = from.size;
    let whole = ImageRef::new(width, height, &from.pixels, PixelType::U8x3).unwrap();
    let part = CroppedImage::new(&whole, left, top, size.width, size.height).unwrap();
    to.size = want;
    to.pixels.resize(want.pixels() as usize * 3, 0);
    let pixels = &mut to.pixels;
    let mut out = Image::from_slice_u8(want.width, want.height, pixels, PixelType::U8x3).unwrap();
    let bilinear = ResizeAlg::Convolution(FilterType::Bilinear);
    let options = ResizeOptions::new().resize_alg(bilinear);
    resizer.resize(&part, &mut out, &options).unwrap();
}

/// Crops, or shifts and shows `fill` outside the image.
fn frame(from: &Picture, to: &mut Picture, (top, left): (i32, i32), size: Size, fill: [u8; 3]) {
    to.size = size;
    to.pixels.resize(size.pixels() as usize * 3, 0);
    let (height, width) = (from.size.height as i32, from.size.width as i32);
    let first = (-left).clamp(0, size.width as i32) as usize;
    let last = (width - left).clamp(first as i32, size.width as i32) as usize;
    for (y, row) in (top..).zip(to.pixels.chunks_exact_mut(size.width as usize * 3)) {
        if !(0..height).contains(&y) || first == last {
            row.as_chunks_mut::<3>().0.fill(fill);
            continue;
        }
        let at = (y * width + left + first as i32) as usize * 3;
        row[..first * 3].as_chunks_mut::<3>().0.fill(fill);
        row[first * 3..last * 3].copy_from_slice(&from.pixels[at..at + (last - first) * 3]);
        row[last * 3..].as_chunks_mut::<3>().0.fill(fill);
    }
}

fn flip(picture: &mut Picture) {
    for row in picture.pixels.chunks_exact_mut(picture.size.width as usize * 3) {
        row.as_chunks_mut::<3>().0.reverse();
    }
}

/// Applies the same change to every value, through a table.
fn levels(picture: &mut Picture, change: impl Fn(f32) -> f32) {
    let table: [u8; 256] = std::array::from_fn(|level| change(level as f32).round() as u8);
    for value in &mut picture.pixels {
        *value = table[usize::from(*value)];
    }
}

/// The weights 0.2989, 0.587 and 0.114 in units of 1/65,536.
const GREY: [u32; 3] = [19_589, 38_470, 7_471];

fn grey([r, g, b]: [u8; 3]) -> u32 {
    (u32::from(r) * GREY[0] + u32::from(g) * GREY[1] + u32::from(b) * GREY[2]) >> 16
}

fn grey_mean(picture: &Picture) -> f32 {
    let pixels = picture.pixels.as_chunks::<3>().0;
    pixels.iter().map(|pixel| u64::from(grey(*pixel))).sum::<u64>() as f32 / pixels.len() as f32
}

fn saturate(picture: &mut Picture, factor: f32) {
    for pixel in picture.pixels.as_chunks_mut::<3>().0 {
        let [r, g, b] = pixel.map(f32::from);
        let rest = (r * 0.2989 + g * 0.587 + b * 0.114) * (1.0 - factor);
        *pixel = pixel.map(|v| (f32::from(v) * factor + rest).round() as u8);
    }
}

fn normalize(picture: &Picture, table: &[[f32; 256]; 3], out: &mut Vec<f32>) {
    out.resize(picture.pixels.len(), 0.0);
    let pixels = picture.pixels.as_chunks::<3>().0;
    for (to, pixel) in out.as_chunks_mut::<3>().0.iter_mut().zip(pixels) {
        *to = [0, 1, 2].map(|c| table[c][usize::from(pixel[c])]);
    }
}

fn transpose(values: &[f32], out: &mut [f32]) {
    let pixels = values.as_chunks::<3>().0;
    for (c, plane) in out.chunks_exact_mut(pixels.len()).enumerate() {
        for (to, pixel) in plane.iter_mut().zip(pixels) {
            *to = pixel[c];
        }
    }
}
