//! Draws images and captions on a canvas, and saves it as a PNG.

use super::font::{self, LETTER};
use super::output::{self, Existing};
use super::problem::Problem;
use fuseloop::ops::Size;
use fuseloop::ops::internals::memory::NoMemory;
use fuseloop::ops::internals::{ImageView, area, memory};
use std::path::Path;

/// A colour as red, green, blue.
pub(super) type Colour = [u8; 3];

/// Pixels from one letter to the next, and from one line to the next.
const ADVANCE: u32 = LETTER[0] + 1;
pub(super) const LINE: u32 = LETTER[1] + 2;

/// An image of 8-bit RGB. Anything drawn outside it is clipped.
pub(super) struct Canvas {
    size: Size,
    pixels: Vec<u8>,
}

impl Canvas {
    /// Creates a canvas of one colour.
    ///
    /// # Errors
    ///
    /// If there is no memory for the canvas.
    pub(super) fn new(size: Size, background: Colour) -> Result<Self, NoMemory> {
        let count = size.pixels() as usize;
        let mut pixels = memory::with_capacity(3 * count, "a sheet of pictures")?;
        pixels.extend(std::iter::repeat_n(background, count).flatten());
        Ok(Self { size, pixels })
    }

    /// Fills a square of `side` pixels.
    pub(super) fn square(&mut self, top: u32, left: u32, side: u32, colour: Colour) {
        let row = colour.repeat(side as usize);
        (top..top + side).for_each(|y| self.row(y, left, &row));
    }

    /// Draws an image with its upper left corner at `top` and `left`.
    pub(super) fn paste(&mut self, top: u32, left: u32, view: ImageView<'_>) {
        for y in 0..view.size().height {
            self.row(top + y, left, view.row(y));
        }
    }

    /// Draws an image in the middle of a square of `side` pixels, scaled down if it does not fit.
    pub(super) fn paste_fitted(&mut self, top: u32, left: u32, side: u32, picture: ImageView<'_>) {
        let fitted = fitted(picture, side);
        let view = match &fitted {
            Some((pixels, size)) => ImageView::packed(pixels, *size),
            None => Some(picture),
        };
        if let Some(view) = view {
            let Size { height, width } = view.size();
            self.paste(top + (side - height) / 2, left + (side - width) / 2, view);
        }
    }

    /// Draws one line of text.
    pub(super) fn text(&mut self, top: u32, left: u32, text: &str, colour: Colour) {
        for (letter, index) in text.chars().zip(0..) {
            for y in 0..LETTER[1] {
                for x in (0..LETTER[0]).filter(|x| font::has_ink(letter, *x, y)) {
                    self.row(top + y, left + index * ADVANCE + x, &colour);
                }
            }
        }
    }

    /// Overwrites the pixels of a row, from column `left` on.
    fn row(&mut self, y: u32, left: u32, pixels: &[u8]) {
        if y >= self.size.height || left >= self.size.width {
            return;
        }
        let width = self.size.width as usize;
        let at = (y as usize * width + left as usize) * 3;
        let len = pixels.len().min((width - left as usize) * 3);
        self.pixels[at..at + len].copy_from_slice(&pixels[..len]);
    }

    /// Saves the canvas in the [`PictureFormat`] of the path; an existing file is replaced.
    pub(super) fn save(&self, path: &Path) -> Result<(), Problem> {
        match PictureFormat::of(path)? {
            PictureFormat::Png => save_png(path, &self.pixels, self.size),
            PictureFormat::Jpeg => save_jpeg(path, &self.pixels, self.size),
        }
    }
}

/// The format of a file that a canvas is saved in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PictureFormat {
    Png,
    Jpeg,
}

impl PictureFormat {
    /// Returns the format that a file's extension names. A file without one, such as `/dev/stdout`, is a
    /// PNG.
    pub(super) fn of(path: &Path) -> Result<Self, Problem> {
        let extension =
            path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
        match extension.as_deref() {
            None | Some("png") => Ok(Self::Png),
            Some("jpg" | "jpeg") => Ok(Self::Jpeg),
            Some(extension) => {
                let extension = extension.to_owned();
                Err(Problem::PictureExtension { path: path.to_owned(), extension })
            }
        }
    }
}

/// The quality of a sheet that is saved as a JPEG.
const JPEG_QUALITY: u8 = 92;

fn save_jpeg(path: &Path, pixels: &[u8], size: Size) -> Result<(), Problem> {
    // A longer side is an error of the encoder.
    let [width, height] = [size.width, size.height].map(|side| side.try_into().unwrap_or(u16::MAX));
    output::write(path, Existing::Replace, |out| {
        let encoder = jpeg_encoder::Encoder::new(out, JPEG_QUALITY);
        let encoded = encoder.encode(pixels, width, height, jpeg_encoder::ColorType::Rgb);
        encoded.map_err(|error| Problem::Jpeg { path: path.to_owned(), error })
    })
}

/// Writes packed RGB pixels as a PNG; an existing file is replaced.
pub(super) fn save_png(path: &Path, pixels: &[u8], size: Size) -> Result<(), Problem> {
    let wrong = |error| Problem::Png { path: path.to_owned(), error };
    output::write(path, Existing::Replace, |out| {
        let mut encoder = png::Encoder::new(out, size.width, size.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().map_err(wrong)?;
        writer.write_image_data(pixels).map_err(wrong)?;
        writer.finish().map_err(wrong)
    })
}

/// Breaks text into lines of at most `width` pixels: between words, or inside a word that is longer.
pub(super) fn wrapped(text: &str, width: u32) -> Vec<String> {
    let most = (width / ADVANCE).max(1) as usize;
    let mut lines: Vec<String> = vec![];
    let mut room = 0;
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        if let Some(last) = lines.last_mut().filter(|_| word.len() < room) {
            last.push(' ');
            last.extend(&word);
            room -= word.len() + 1;
            continue;
        }
        while word.len() > most {
            let rest = word.split_off(most);
            lines.push(word.into_iter().collect());
            word = rest;
        }
        room = most - word.len();
        lines.push(word.into_iter().collect());
    }
    lines
}

/// Scales an image down to fit a square of `side` pixels; returns `None` if it already fits.
pub(super) fn fitted(picture: ImageView<'_>, side: u32) -> Option<(Vec<u8>, Size)> {
    let Size { height, width } = picture.size();
    let longest = height.max(width);
    if longest <= side {
        return None;
    }
    let scaled = |pixels: u32| (u64::from(pixels) * u64::from(side) / u64::from(longest)).max(1);
    let size = Size::new(scaled(height) as u32, scaled(width) as u32);
    Some((area::resize(picture, size).ok()?, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_long_words_anywhere() {
        assert_eq!(wrapped("rows 12..230, to 4", 6 * 13), ["rows 12..230,", "to 4"]);
        assert_eq!(wrapped("RandomResizedCrop: all", 6 * 10), ["RandomResi", "zedCrop:", "all"]);
        assert!(wrapped("", 60).is_empty());
    }

    #[test]
    fn what_is_drawn_outside_is_left_out() {
        let mut canvas = Canvas::new(Size::new(4, 4), [0; 3]).unwrap();
        canvas.text(2, 1, "LLL", [255; 3]);
        canvas.square(3, 3, 9, [9; 3]);
        assert_eq!(canvas.pixels[(2 * 4 + 1) * 3..][..3], [255; 3]);
        assert_eq!(canvas.pixels[15 * 3..], [9; 3]);
    }
}
