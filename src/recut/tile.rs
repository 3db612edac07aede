//! The width of a tile: the distance from one restart marker to the next.

use crate::decode::tile_interval;
use crate::error::{Error, fail};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The distance between restart markers.
///
/// ```
/// use fuseloop::Limits;
/// use fuseloop::recut::{Recutter, Tile};
///
/// let small_windows = Recutter::new(Tile::Pixels(32), Limits::DEFAULT);
/// let fewest_bytes = Recutter::new(Tile::Row, Limits::DEFAULT);
/// # let _ = (small_windows, fewest_bytes);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tile {
    /// A tile of this many columns, or up to twice as many, so that tiles divide the image's width.
    Pixels(u16),
    /// One row of MCUs.
    Row,
}

impl Tile {
    /// The widths that can be given in pixels. Narrower tiles would be mostly markers; wider ones are
    /// rows.
    pub(crate) const PIXELS: RangeInclusive<u16> = 8..=1024;

    /// Returns the MCUs of a tile in an image of `width` columns.
    pub(super) fn interval(self, width: u16, mcu_width: u16) -> u16 {
        match self {
            Self::Pixels(pixels) => tile_interval(width, mcu_width, pixels),
            Self::Row => width.div_ceil(mcu_width),
        }
    }
}

impl Default for Tile {
    /// 32 pixels.
    fn default() -> Self {
        Self::Pixels(32)
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pixels(pixels) => pixels.fmt(f),
            Self::Row => f.write_str("row"),
        }
    }
}

impl FromStr for Tile {
    type Err = Error;

    fn from_str(words: &str) -> Result<Self, Error> {
        if words == "row" {
            return Ok(Self::Row);
        }
        let pixels = words.parse().ok().filter(|pixels| Self::PIXELS.contains(pixels));
        pixels.map(Self::Pixels).ok_or_else(|| {
            let (least, most) = (Self::PIXELS.start(), Self::PIXELS.end());
            fail!(
                Parameter,
                "a tile of `{words}`: expected `row`, or pixels from {least} to {most}"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_is_written_as_it_is_read() {
        for words in ["8", "32", "64", "1024", "row"] {
            assert_eq!(words.parse::<Tile>().unwrap().to_string(), words);
        }
        assert_eq!(Tile::default(), Tile::Pixels(32));
    }

    #[test]
    fn other_words_are_no_tile() {
        for words in ["", "7", "1025", "-8", "32.0", "Row", "65536"] {
            let message = words.parse::<Tile>().unwrap_err().to_string();
            let expected = format!("a tile of `{words}`: expected `row`, or pixels from 8 to 1024");
            assert_eq!(message, expected);
        }
    }

    #[test]
    fn a_rows_interval_is_its_mcus() {
        assert_eq!(Tile::Row.interval(500, 16), 32);
        assert_eq!(Tile::Pixels(32).interval(500, 16), 2);
    }
}
