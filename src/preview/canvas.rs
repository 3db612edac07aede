//! Draws images and captions on a canvas.

use super::font::{self, LETTER};
use fuseloop_ops::Size;
use fuseloop_ops::internals::memory::NoMemory;
use fuseloop_ops::internals::{ImageView, area, memory};

/// A colour as red, green, blue.
pub(super) type Colour = [u8; 3];

/// Pixels from one letter to the next.
const ADVANCE: u32 = LETTER[0] + 1;
/// Pixels from one line of text to the next.
pub(super) const LINE: u32 = LETTER[1] + 2;

/// An image of 8-bit RGB. Anything drawn outside it is clipped.
#[derive(Clone)]
pub struct Canvas {
    size: Size,
    pixels: Vec<u8>,
}

impl Canvas {
    /// Creates a canvas of one colour.
    ///
    /// # Errors
    ///
    /// If there is no memory for the canvas.
    pub fn new(size: Size, background: Colour) -> Result<Self, NoMemory> {
        let count = size.pixels() as usize;
        let mut pixels = memory::with_capacity(3 * count, "a sheet of pictures")?;
        pixels.extend(std::iter::repeat_n(background, count).flatten());
        Ok(Self { size, pixels })
    }

    /// Returns the size.
    #[must_use]
    pub fn size(&self) -> Size {
        self.size
    }

    /// Returns the pixels, packed, as red, green, blue.
    #[must_use]
    pub fn rgb(&self) -> &[u8] {
        &self.pixels
    }

    /// Returns the pixels, packed, as red, green, blue.
    pub(super) fn into_rgb(self) -> Vec<u8> {
        self.pixels
    }

    /// Fills a square of `side` pixels.
    pub fn square(&mut self, top: u32, left: u32, side: u32, colour: Colour) {
        let row = colour.repeat(side as usize);
        (top..top + side).for_each(|y| self.row(y, left, &row));
    }

    /// Fills a rectangle: rows `top..bottom` and columns `left..right`, which may reach beyond the canvas.
    pub(super) fn rectangle(&mut self, [left, top, right, bottom]: [i64; 4], colour: Colour) {
        let inside = |at: i64, side: u32| at.clamp(0, side.into()) as u32;
        let [left, right] = [left, right].map(|x| inside(x, self.size.width));
        let row = colour.repeat(right.saturating_sub(left) as usize);
        let [top, bottom] = [top, bottom].map(|y| inside(y, self.size.height));
        (top..bottom).for_each(|y| self.row(y, left, &row));
    }

    /// Mixes a pixel with a colour, in equal parts.
    pub(super) fn tint(&mut self, y: u32, x: u32, colour: Colour) {
        let at = 3 * (y as usize * self.size.width as usize + x as usize);
        for (level, own) in self.pixels[at..at + 3].iter_mut().zip(colour) {
            *level = level.midpoint(own);
        }
    }

    /// Draws an image with its upper left corner at `top` and `left`. Images of one or two channels are drawn in
    /// gray; alpha is not drawn.
    pub fn paste(&mut self, top: u32, left: u32, view: ImageView<'_>) {
        let mut row = vec![];
        for y in 0..view.size().height {
            row.clear();
            for pixel in view.row(y).chunks_exact(view.channels()) {
                row.extend(match *pixel {
                    [gray] | [gray, _] => [gray; 3],
                    _ => [pixel[0], pixel[1], pixel[2]],
                });
            }
            self.row(top + y, left, &row);
        }
    }

    /// Draws an image in the middle of a square of `side` pixels, scaled down if it does not fit.
    pub fn paste_fitted(&mut self, top: u32, left: u32, side: u32, picture: ImageView<'_>) {
        let fitted = fitted(picture, side);
        let view = match &fitted {
            Some((pixels, size)) => ImageView::packed_channels(pixels, *size, picture.channels()),
            None => Some(picture),
        };
        if let Some(view) = view {
            let Size { height, width } = view.size();
            self.paste(top + (side - height) / 2, left + (side - width) / 2, view);
        }
    }

    /// Draws one line of text.
    pub fn text(&mut self, top: u32, left: u32, text: &str, colour: Colour) {
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
}

/// Returns the width of a line of `letters` letters.
pub(super) fn text_width(letters: usize) -> u32 {
    letters as u32 * ADVANCE
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
