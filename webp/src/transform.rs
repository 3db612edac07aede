//! The transforms of a lossless image (RFC 9649, section 4): they are read first, and undone in reverse order.
//!
//! | type | transform          | data                                                                             |
//! |-----:|--------------------|----------------------------------------------------------------------------------|
//! |    0 | prediction         | the mode of each square, as green of a pixel                                       |
//! |    1 | colour             | the factors of each square, as a pixel                                           |
//! |    2 | subtraction of green |                                                                                |
//! |    3 | colour index       | the palette, each colour as the difference from the one before; pixels of at most 16 colours are packed, several in a byte of green |

use crate::LosslessError;
use crate::bits::BitReader;
use fuseloop_kernels::vp8l::{Bgra, ColorRow, PredictedRow, add_color, add_green, add_predictions};
use fuseloop_kernels::{CpuWork, for_cpu};
use fuseloop_ops::internals::memory::{self, NoMemory};
use std::ops::Range;

/// A transform to be undone.
#[derive(Debug)]
pub(crate) enum Transform {
    Prediction {
        squares: SquareData,
        /// The pixels of the row above, and one more.
        above: Vec<Bgra>,
    },
    Color(SquareData),
    Green,
    Palette {
        colors: Vec<Bgra>,
        /// The logarithm of the number of pixels that a byte has.
        packed: u32,
    },
}

/// A pixel for each square of an image.
#[derive(Debug)]
pub(crate) struct SquareData {
    pub(crate) data: Vec<Bgra>,
    /// The logarithm of the side of a square.
    pub(crate) bits: u32,
    /// The width of the image.
    pub(crate) width: usize,
}

impl SquareData {
    /// Returns the data of the squares of row `y`.
    fn row(&self, y: usize) -> &[Bgra] {
        let columns = self.width.div_ceil(1 << self.bits);
        &self.data[(y >> self.bits) * columns..][..columns]
    }
}

impl Transform {
    /// Reads a transform of an image of this width and height. `read_image` reads the pixels of its data.
    pub(crate) fn read(
        bits: &mut BitReader<'_>,
        (width, height): (usize, usize),
        mut read_image: impl FnMut(&mut BitReader<'_>, usize, usize) -> Result<Vec<Bgra>, LosslessError>,
    ) -> Result<Self, LosslessError> {
        let mut read_squares = |bits: &mut BitReader<'_>| -> Result<SquareData, LosslessError> {
            let side = 2 + bits.read(3);
            let count = |pixels: usize| pixels.div_ceil(1 << side);
            let data = read_image(bits, count(width), count(height))?;
            Ok(SquareData { data, bits: side, width })
        };
        match bits.read(2) {
            0 => {
                let squares = read_squares(bits)?;
                let mut above = vec![];
                resize(&mut above, width + 1)?;
                Ok(Self::Prediction { squares, above })
            }
            1 => Ok(Self::Color(read_squares(bits)?)),
            2 => Ok(Self::Green),
            _ => {
                let count = 1 + bits.read(8) as usize;
                let packed = match count {
                    0..=2 => 3,
                    3..=4 => 2,
                    5..=16 => 1,
                    _ => 0,
                };
                let mut colors = read_image(bits, count, 1)?;
                let mut last = [0; 4];
                for color in &mut colors {
                    last = std::array::from_fn(|i| color[i].wrapping_add(last[i]));
                    *color = last;
                }
                colors.resize(256, [0; 4]);
                Ok(Self::Palette { colors, packed })
            }
        }
    }

    /// Returns the number that the format has for the transform.
    pub(crate) fn kind(&self) -> u32 {
        match self {
            Self::Prediction { .. } => 0,
            Self::Color(_) => 1,
            Self::Green => 2,
            Self::Palette { .. } => 3,
        }
    }

    pub(crate) fn is_prediction(&self) -> bool {
        self.kind() == 0
    }

    /// Returns the width of an image after the transform, whose width before it is `width`.
    pub(crate) fn coded_width(&self, width: usize) -> usize {
        match self {
            Self::Palette { packed, .. } => width.div_ceil(1 << packed),
            _ => width,
        }
    }

    /// Returns the pixels of a row that have to be undone for `columns` of the next transform. `rows_below` is the number of
    /// rows below it that are needed.
    pub(crate) fn needed(&self, columns: Range<usize>, rows_below: usize) -> Range<usize> {
        match self {
            // A pixel depends on all those to its left, and on one more to the right in each row above.
            Self::Prediction { squares, .. } => 0..(columns.end + rows_below).min(squares.width),
            Self::Palette { packed, .. } => {
                columns.start >> packed..columns.end.div_ceil(1 << packed)
            }
            Self::Color(_) | Self::Green => columns,
        }
    }

    /// Undoes the transform in row `y`, to the pixels `wanted`, of the pixels `needed` for them. The first pixel of `row` is
    /// that of column 0; `other` is memory.
    pub(crate) fn undo(
        &mut self,
        y: usize,
        wanted: Range<usize>,
        needed: Range<usize>,
        row: &mut Vec<Bgra>,
        other: &mut Vec<Bgra>,
    ) {
        match self {
            Self::Prediction { squares, above } => {
                let row = &mut row[needed];
                let modes = squares.row(y);
                let above_row = (y > 0).then_some(&mut above[..]);
                add_predictions(PredictedRow { modes, bits: squares.bits, above: above_row, row });
                above[..row.len()].copy_from_slice(row);
            }
            Self::Color(squares) => {
                let (factors, bits) = (squares.row(y), squares.bits);
                add_color(ColorRow { factors, bits, row, columns: wanted });
            }
            Self::Green => add_green(&mut row[wanted]),
            Self::Palette { colors, packed } => {
                for_cpu(Unpack { colors, packed: *packed, columns: wanted, from: row, to: other });
                std::mem::swap(row, other);
            }
        }
    }
}

fn resize(pixels: &mut Vec<Bgra>, len: usize) -> Result<(), LosslessError> {
    memory::resize(pixels, len, "a row of a WebP").map_err(no_memory)
}

pub(crate) fn no_memory(error: NoMemory) -> LosslessError {
    LosslessError::NoMemory { bytes: error.bytes }
}

/// Replaces indices by colours.
struct Unpack<'a> {
    colors: &'a [Bgra],
    packed: u32,
    columns: Range<usize>,
    from: &'a [Bgra],
    to: &'a mut [Bgra],
}

impl CpuWork for Unpack<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { colors, packed, columns, from, to } = self;
        let Some(colors) = colors.first_chunk::<256>() else { return };
        if packed == 0 {
            for ([_, index, ..], to) in from[columns.clone()].iter().zip(&mut to[columns]) {
                *to = colors[usize::from(*index)];
            }
            return;
        }
        // A byte has `1 << packed` pixels of `8 >> packed` bits, the first one the lowest.
        let (first, bits) = (columns.start >> packed, 8 >> packed);
        let mask = (1 << bits) - 1;
        let to = &mut to[first << packed..columns.end];
        for (to, [_, byte, ..]) in to.chunks_mut(1 << packed).zip(&from[first..]) {
            let mut byte = *byte;
            for to in to {
                *to = colors[usize::from(byte & mask)];
                byte >>= bits;
            }
        }
    }
}
