//! The predictions of macroblocks, as the first partition states them (RFC 6386, sections 10 and 11).

use crate::bool_decoder::{BoolDecoder, decide};
use crate::tables::BLOCK_MODES;

/// How a whole macroblock is predicted, luma or chroma.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The mean of the pixels above and to the left.
    #[default]
    Mean,
    /// The row above.
    Above,
    /// The column to the left.
    Left,
    /// The pixel above plus the one to the left minus that at the corner.
    TrueMotion,
}

/// How a 4x4 block is predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BlockMode {
    #[default]
    Mean,
    TrueMotion,
    Above,
    Left,
    /// Directions, by where the pixels are moved to: down and to the right, and so on.
    RightDown,
    VerticalRight,
    LeftDown,
    VerticalLeft,
    HorizontalDown,
    HorizontalUp,
}

/// How luma is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Luma {
    Whole(Mode),
    Blocks([BlockMode; 16]),
}

impl Default for Luma {
    fn default() -> Self {
        Self::Whole(Mode::Mean)
    }
}

/// The modes that the first partition states for a macroblock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Macroblock {
    pub(crate) segment: u8,
    /// True if it has no coefficients.
    pub(crate) is_skipped: bool,
    pub(crate) luma: Luma,
    pub(crate) chroma: Mode,
}

impl Macroblock {
    /// Returns true if it needs pixels of the macroblock above and to the right: those are of its blocks at the right edge.
    pub(crate) fn needs_above_right(&self) -> bool {
        let Luma::Blocks(modes) = &self.luma else { return false };
        modes.iter().skip(3).step_by(4).any(|mode| {
            matches!(mode, BlockMode::Above | BlockMode::LeftDown | BlockMode::VerticalLeft)
        })
    }
}

/// The modes of 4x4 blocks at an edge of a macroblock, which say how probable the next ones are.
pub(crate) type ModeEdge = [BlockMode; 4];

/// Reads the modes of a macroblock.
#[inline(always)]
pub(crate) fn read(
    bits: &mut BoolDecoder<'_>,
    segment_tree: Option<[u8; 3]>,
    skip: Option<u8>,
    above: &mut ModeEdge,
    left: &mut ModeEdge,
) -> Macroblock {
    let segment = match segment_tree {
        Some([first, low, high]) => {
            if bits.bit(first) {
                2 + u8::from(bits.bit(high))
            } else {
                u8::from(bits.bit(low))
            }
        }
        None => 0,
    };
    let is_skipped = match skip {
        Some(probability) => bits.bit(probability),
        None => false,
    };
    let luma = if bits.bit(145) {
        let (mode, block) = if bits.bit(156) {
            if bits.bit(128) {
                (Mode::TrueMotion, BlockMode::TrueMotion)
            } else {
                (Mode::Left, BlockMode::Left)
            }
        } else if bits.bit(163) {
            (Mode::Above, BlockMode::Above)
        } else {
            (Mode::Mean, BlockMode::Mean)
        };
        (*above, *left) = ([block; 4], [block; 4]);
        Luma::Whole(mode)
    } else {
        let mut modes = [BlockMode::Mean; 16];
        for (row, left) in modes.as_chunks_mut::<4>().0.iter_mut().zip(left) {
            // In a register, since the next block waits for it.
            let mut last = *left;
            for (mode, above) in row.iter_mut().zip(&mut *above) {
                last = block_mode(bits, &BLOCK_MODES[*above as usize][last as usize]);
                (*mode, *above) = (last, last);
            }
            *left = last;
        }
        Luma::Blocks(modes)
    };
    let chroma = if !bits.bit(142) {
        Mode::Mean
    } else if !bits.bit(114) {
        Mode::Above
    } else if bits.bit(183) {
        Mode::TrueMotion
    } else {
        Mode::Left
    };
    Macroblock { segment, is_skipped, luma, chroma }
}

/// Reads the mode of a 4x4 block.
#[inline(always)]
fn block_mode(bits: &mut BoolDecoder<'_>, p: &[u8; 9]) -> BlockMode {
    decide!(bits, p[0], {}, return BlockMode::Mean);
    decide!(bits, p[1], {}, return BlockMode::TrueMotion);
    decide!(bits, p[2], {}, return BlockMode::Above);
    decide!(bits, p[3], {}, {
        decide!(bits, p[4], {}, return BlockMode::Left);
        return if bits.bit(p[5]) { BlockMode::VerticalRight } else { BlockMode::RightDown };
    });
    decide!(bits, p[6], {}, return BlockMode::LeftDown);
    decide!(bits, p[7], {}, return BlockMode::VerticalLeft);
    if bits.bit(p[8]) { BlockMode::HorizontalUp } else { BlockMode::HorizontalDown }
}
