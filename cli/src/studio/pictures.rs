//! Decoded images, within a limit of bytes, so that a change of an op costs no decoding; and pictures as the page draws
//! them.

use super::fault::Fault;
use super::http::Response;
use fuseloop::internals::jit::ShownLevels;
use fuseloop::internals::preview::{color_map, is_signal, waveforms};
use fuseloop::ops::Size;
use fuseloop::ops::internals::memory::NoMemory;
use fuseloop::ops::internals::{ImageView, PixelFormat};
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The maximum size of the decoded images in bytes.
const MOST_BYTES: usize = 256 << 20;

/// A decoded image.
pub(super) struct Decoded {
    pub(super) pixels: Vec<u8>,
    pub(super) size: Size,
    pub(super) format: PixelFormat,
}

impl Decoded {
    pub(super) fn view(&self) -> Option<ImageView<'_>> {
        ImageView::packed_format(&self.pixels, self.size, self.format)
    }
}

/// The settings that an image was decoded with, and its sample.
type Key = (Arc<str>, u64);

/// The decoded images, the oldest first.
#[derive(Default)]
pub(super) struct Pictures {
    held: HashMap<Key, Arc<Decoded>>,
    order: VecDeque<Key>,
    bytes: usize,
}

impl Pictures {
    pub(super) fn get(&self, key: &Key) -> Option<Arc<Decoded>> {
        self.held.get(key).cloned()
    }

    pub(super) fn insert(&mut self, key: Key, image: Decoded) {
        if image.pixels.len() > MOST_BYTES / 8 || self.held.contains_key(&key) {
            return;
        }
        self.bytes += image.pixels.len();
        self.held.insert(key.clone(), Arc::new(image));
        self.order.push_back(key);
        while self.bytes > MOST_BYTES
            && let Some(oldest) = self.order.pop_front()
        {
            let removed = self.held.remove(&oldest);
            self.bytes -= removed.map_or(0, |removed| removed.pixels.len());
        }
    }
}

/// The pixels of a picture as a canvas takes them: red, green, blue, alpha.
pub(super) struct Rgba {
    pub(super) pixels: Vec<u8>,
    pub(super) size: Size,
    /// False if this is a plot, or smaller than the picture.
    pub(super) is_exact: bool,
}

/// Returns a picture of at most `side` pixels a side; a signal, or one channel of values that are no levels, as a plot.
pub(super) fn rgba(shown: &ShownLevels, size: Size, side: u32) -> Result<Rgba, NoMemory> {
    let ShownLevels { pixels, channels, is_stretched } = shown;
    if *channels == 1 && size.height > 0 && size.width > 0 {
        let plot = side.min(512);
        if is_signal(size) {
            let pixels = with_alpha(&waveforms(pixels, size, plot)?, 3);
            return Ok(Rgba { pixels, size: Size::from(plot), is_exact: false });
        }
        if *is_stretched {
            let pixels = with_alpha(&color_map(pixels, size, plot)?, 3);
            return Ok(Rgba { pixels, size: Size::from(plot), is_exact: false });
        }
    }
    let factor = size.height.max(size.width).div_ceil(side.max(1)).max(1);
    if factor == 1 {
        return Ok(Rgba { pixels: with_alpha(pixels, *channels), size, is_exact: true });
    }
    let (small, size) = reduced(pixels, size, *channels, factor);
    Ok(Rgba { pixels: with_alpha(&small, *channels), size, is_exact: false })
}

/// Returns red, green, blue and alpha of pixels of one to four channels.
fn with_alpha(pixels: &[u8], channels: usize) -> Vec<u8> {
    let mut all = Vec::with_capacity(pixels.len() / channels.max(1) * 4);
    for pixel in pixels.chunks_exact(channels.max(1)) {
        all.extend_from_slice(&match *pixel {
            [grey] => [grey, grey, grey, 255],
            [grey, alpha] => [grey, grey, grey, alpha],
            [red, green, blue, alpha, ..] => [red, green, blue, alpha],
            [red, green, blue] => [red, green, blue, 255],
            [] => [0; 4],
        });
    }
    all
}

/// Returns the means of squares of `factor` pixels a side.
fn reduced(pixels: &[u8], size: Size, channels: usize, factor: u32) -> (Vec<u8>, Size) {
    let small = Size::new(size.height.div_ceil(factor), size.width.div_ceil(factor));
    let (width, factor) = (size.width as usize, factor as usize);
    let mut means = Vec::with_capacity(small.pixels() as usize * channels);
    for top in (0..size.height as usize).step_by(factor) {
        let bottom = (top + factor).min(size.height as usize);
        for left in (0..width).step_by(factor) {
            let right = (left + factor).min(width);
            for c in 0..channels {
                let row = |y: usize| (left..right).map(move |x| (y * width + x) * channels + c);
                let sum: usize =
                    (top..bottom).flat_map(row).map(|at| usize::from(pixels[at])).sum();
                let mean = sum / ((bottom - top) * (right - left));
                means.push(u8::try_from(mean).unwrap_or(u8::MAX));
            }
        }
    }
    (means, small)
}

/// Answers a call by pictures: `fill` makes them and writes the header. A fault is an answer without pictures.
pub(super) fn answered(
    body: &Value,
    fill: impl FnOnce(&mut Value) -> Result<Vec<Rgba>, Fault>,
) -> Response {
    let mut header = json!({ "sequence": body["sequence"] });
    let pictures = fill(&mut header).unwrap_or_else(|fault| {
        header["fault"] = fault.to_json();
        vec![]
    });
    let kind = "application/octet-stream";
    Response { status: 200, kind, body: packed(&header, &pictures) }
}

/// Returns an answer of a JSON text and the pixels after it: the text's length in four bytes, little end first, the
/// text, then the pixels.
pub(super) fn packed(header: &Value, pixels: &[Rgba]) -> Vec<u8> {
    let text = header.to_string();
    let all: usize = pixels.iter().map(|picture| picture.pixels.len()).sum();
    let mut body = Vec::with_capacity(4 + text.len() + all);
    body.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
    body.extend_from_slice(text.as_bytes());
    pixels.iter().for_each(|picture| body.extend_from_slice(&picture.pixels));
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_images_make_room() {
        let mut pictures = Pictures::default();
        let name: Arc<str> = "image".into();
        for sample in 0..40 {
            let pixels = vec![0; 16 << 20];
            let size = Size::new(1, 1);
            let image = Decoded { pixels, size, format: PixelFormat::bytes(3) };
            pictures.insert((Arc::clone(&name), sample), image);
        }
        assert_eq!((pictures.held.len(), pictures.bytes), (16, MOST_BYTES));
        assert!(pictures.get(&(name, 39)).is_some());
    }

    #[test]
    fn a_large_picture_is_reduced_by_means() {
        let levels = |pixels: &[u8]| ShownLevels {
            pixels: pixels.to_vec(),
            channels: 1,
            is_stretched: false,
        };
        let picture = rgba(&levels(&[0, 10, 20, 30, 40, 50]), Size::new(2, 3), 2).unwrap();
        assert_eq!(picture.size, Size::new(1, 2));
        assert_eq!(picture.pixels, [20, 20, 20, 255, 35, 35, 35, 255]);
        assert!(!picture.is_exact && rgba(&levels(&[7]), Size::new(1, 1), 2).unwrap().is_exact);
    }
}
