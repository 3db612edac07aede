//! Plots of arrays that are not photographs: waveforms of signals, and colour maps of one channel.

use super::Colour;
use fuseloop_ops::Size;
use fuseloop_ops::internals::memory::{self, NoMemory};

/// The most rows of an array that is drawn as waveforms, one above the other.
const MOST_SIGNALS: u32 = 8;

/// An array is drawn as waveforms if its rows are longer than so many times their number.
const SIGNAL_RATIO: u32 = 32;

/// The colours of a map from the smallest value to the largest, between which it interpolates: points of
/// matplotlib's viridis.
const MAP: [Colour; 5] = [
    [0x44, 0x01, 0x54],
    [0x3b, 0x52, 0x8b],
    [0x21, 0x91, 0x8c],
    [0x5e, 0xc9, 0x62],
    [0xfd, 0xe7, 0x25],
];

const PAPER: Colour = [0x11, 0x13, 0x18];
const INK: Colour = [0x6c, 0xb6, 0xff];

/// Returns whether an array of this size is shown as waveforms.
#[must_use]
pub fn is_signal(size: Size) -> bool {
    size.height <= MOST_SIGNALS && size.width / SIGNAL_RATIO >= size.height
}

/// Draws each row of an image of one channel as a waveform on a square of `side` pixels: a column of the plot spans
/// the smallest and the largest of its values.
///
/// # Errors
///
/// If there is no memory for the plot.
pub fn waveforms(levels: &[u8], size: Size, side: u32) -> Result<Vec<u8>, NoMemory> {
    let (side, rows) = (side as usize, size.height as usize);
    let mut plot = memory::with_capacity(3 * side * side, "a plot")?;
    plot.extend(std::iter::repeat_n(PAPER, side * side).flatten());
    let strip = side / rows;
    for (row, values) in levels.chunks_exact(size.width as usize).enumerate() {
        let mut before: Option<[usize; 2]> = None;
        for x in 0..side {
            let part = &values[part_of(x, side, values.len())];
            let place = |level: u8| row * strip + (255 - usize::from(level)) * (strip - 1) / 255;
            let (high, low) =
                part.iter().fold((0, 255), |(high, low), v| (*v.max(&high), *v.min(&low)));
            let span = [place(high), place(low)];
            // A column also reaches the one before it, so that the line has no gaps.
            let [top, bottom] =
                before.map_or(span, |[top, bottom]| [span[0].min(bottom), span[1].max(top)]);
            for y in top..=bottom {
                plot[3 * (y * side + x)..][..3].copy_from_slice(&INK);
            }
            before = Some(span);
        }
    }
    Ok(plot)
}

/// Draws an image of one channel in the colours of a map, on a square of `side` pixels that it fills: the mean of the
/// values that belong to a pixel of the plot.
///
/// # Errors
///
/// If there is no memory for the plot.
pub fn color_map(levels: &[u8], size: Size, side: u32) -> Result<Vec<u8>, NoMemory> {
    let (side, width) = (side as usize, size.width as usize);
    let mut plot = memory::with_capacity(3 * side * side, "a plot")?;
    for y in 0..side {
        let rows = part_of(y, side, size.height as usize);
        for x in 0..side {
            let columns = part_of(x, side, width);
            let values = rows.clone().flat_map(|row| &levels[row * width..][columns.clone()]);
            let (sum, count) =
                values.fold((0, 0), |(sum, count), v| (sum + u64::from(*v), count + 1));
            plot.extend(color((sum / count) as usize));
        }
    }
    Ok(plot)
}

/// Returns the elements of an axis of `count` that belong to pixel `at` of `side`: one or more.
fn part_of(at: usize, side: usize, count: usize) -> std::ops::Range<usize> {
    let first = at * count / side;
    first..((at + 1) * count / side).max(first + 1)
}

/// Returns the colour of a level of 0..=255.
fn color(level: usize) -> Colour {
    let steps = MAP.len() - 1;
    let first = (level * steps / 255).min(steps - 1);
    let share = (level * steps - first * 255) as i32;
    std::array::from_fn(|c| {
        let [low, high] = [MAP[first][c], MAP[first + 1][c]].map(i32::from);
        (low + (high - low) * share / 255) as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_rows_are_signals() {
        assert!(is_signal(Size::new(1, 32)) && is_signal(Size::new(2, 16_000)));
        assert!(!is_signal(Size::new(1, 31)) && !is_signal(Size::new(80, 16_000)));
    }

    #[test]
    fn a_waveform_spans_its_values() {
        // A square wave: two levels, and the edges between them.
        let levels: Vec<u8> = (0..64).map(|x| if x / 16 % 2 == 0 { 0 } else { 255 }).collect();
        let plot = waveforms(&levels, Size::new(1, 64), 32).unwrap();
        let inked = |y: usize, x: usize| plot[3 * (32 * y + x)..][..3] == INK;
        assert!(inked(31, 0) && !inked(0, 0) && inked(0, 9) && !inked(31, 9));
        assert!((0..32).all(|y| inked(y, 8)), "the edge is a line from the bottom to the top");
        let two = waveforms(&levels.repeat(2), Size::new(2, 64), 32).unwrap();
        assert_eq!(two[..two.len() / 2], two[two.len() / 2..]);
    }

    #[test]
    fn a_map_fills_the_square_from_the_first_colour_to_the_last() {
        let levels: Vec<u8> = (0..=255).collect();
        let plot = color_map(&levels, Size::new(1, 256), 64).unwrap();
        assert_eq!((&plot[..3], plot.len()), (&color(1)[..], 3 * 64 * 64));
        assert_eq!([color(0), color(255), color(128)], [MAP[0], MAP[4], [0x21, 0x91, 0x8c]]);
        assert_eq!(color_map(&[7], Size::new(1, 1), 4).unwrap(), color(7).repeat(16));
    }
}
