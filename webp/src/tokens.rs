//! The coefficients of a macroblock (RFC 6386, section 13).
//!
//! A macroblock has up to 25 blocks of 16 coefficients: one with the first coefficients of the 16 blocks of luma, unless
//! each of these has a prediction of its own, the 16 of luma, and 4 of each chroma. Each coefficient is a path in a tree
//! whose probabilities depend on its position, on the coefficient before it, and for the first one on whether the blocks
//! above and to the left have any.

use crate::bool_decoder::{BoolDecoder, decide};
use crate::header::{PositionProbabilities, Steps};
use crate::tables::{TokenProbabilities, ZIGZAG};
use fuseloop_kernels::vp8::walsh_hadamard;

/// The blocks of luma and chroma.
pub(crate) const BLOCKS: usize = 24;

/// Whether the blocks at an edge of a macroblock have coefficients: 4 of luma, 2 of each chroma, and the block of first
/// coefficients.
pub(crate) type Edge = [u8; 9];

/// The index of the block of first coefficients in an edge.
const FIRSTS: usize = 8;

/// The index of each block in the edges above and to the left.
const ABOVE: [u8; BLOCKS] =
    [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7];
const LEFT: [u8; BLOCKS] = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7];

/// The coefficients of a block that are not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Content {
    #[default]
    Nothing,
    /// The first coefficient.
    First,
    /// Any coefficient.
    Any,
}

/// The coefficients of a macroblock, times their quantization steps.
#[derive(Debug)]
pub(crate) struct Coefficients {
    pub(crate) blocks: [[i16; 16]; BLOCKS],
    pub(crate) contents: [Content; BLOCKS],
}

impl Default for Coefficients {
    fn default() -> Self {
        Self { blocks: [[0; 16]; BLOCKS], contents: [Content::Nothing; BLOCKS] }
    }
}

impl Coefficients {
    /// Reads the coefficients of a macroblock. Returns true if any block has some.
    #[inline(always)]
    pub(crate) fn read(
        &mut self,
        bits: &mut BoolDecoder<'_>,
        probabilities: &PositionProbabilities,
        steps: &Steps,
        has_block_modes: bool,
        [above, left]: [&mut Edge; 2],
    ) -> bool {
        self.blocks = [[0; 16]; BLOCKS];
        // The kinds of blocks: luma without its first coefficients, these, chroma, and luma with them.
        let (first, luma) =
            if has_block_modes { (0, &probabilities[3]) } else { (1, &probabilities[0]) };
        if !has_block_modes {
            let mut firsts = [0; 16];
            let context = above[FIRSTS] + left[FIRSTS];
            let end = block(bits, &probabilities[1], context, steps.luma_dc, 0, &mut firsts);
            let has_any = u8::from(end > 0);
            (above[FIRSTS], left[FIRSTS]) = (has_any, has_any);
            if end > 0 {
                let firsts = walsh_hadamard(&firsts);
                for (block, first) in self.blocks.iter_mut().zip(firsts) {
                    block[0] = first;
                }
            }
        }
        let mut has_coefficients = false;
        for i in 0..BLOCKS {
            let (probabilities, first, steps) = if i < 16 {
                (luma, first, steps.luma)
            } else {
                (&probabilities[2], 0, steps.chroma)
            };
            let (above, left) =
                (&mut above[usize::from(ABOVE[i] & 7)], &mut left[usize::from(LEFT[i] & 7)]);
            let out = &mut self.blocks[i];
            let end = block(bits, probabilities, *above + *left, steps, first, out);
            let has_any = u8::from(end > first);
            (*above, *left) = (has_any, has_any);
            let content = match (end > 1, out[0] != 0) {
                (true, _) => Content::Any,
                (false, true) => Content::First,
                (false, false) => Content::Nothing,
            };
            self.contents[i] = content;
            has_coefficients |= content != Content::Nothing;
        }
        has_coefficients
    }

    /// Has no coefficients.
    #[inline(always)]
    pub(crate) fn skip(&mut self, has_block_modes: bool, edges: [&mut Edge; 2]) {
        self.contents = [Content::Nothing; BLOCKS];
        for edge in edges {
            let firsts = edge[FIRSTS];
            *edge = [0; 9];
            // A macroblock without the block of first coefficients keeps what the ones before it had.
            edge[FIRSTS] = if has_block_modes { firsts } else { 0 };
        }
    }
}

/// Reads the coefficients of a block from the position `n` on. Returns the position after the last one that is not 0.
#[inline(always)]
fn block(
    bits: &mut BoolDecoder<'_>,
    probabilities: &[[TokenProbabilities; 3]; 17],
    context: u8,
    steps: [i16; 2],
    mut n: usize,
    out: &mut [i16; 16],
) -> usize {
    let mut p = &probabilities[n][usize::from(context)];
    while n < 16 {
        decide!(bits, p[0], {}, return n);
        loop {
            decide!(bits, p[1], break, {
                // Compared before the addition, so that the compiler knows that `n` stays below 16.
                if n >= 15 {
                    return 16;
                }
                n += 1;
                p = &probabilities[n][0];
            });
        }
        let next = &probabilities[n + 1];
        let magnitude;
        decide!(
            bits,
            p[2],
            {
                magnitude = large(bits, p);
                p = &next[2];
            },
            {
                magnitude = 1;
                p = &next[1];
            }
        );
        let step = if n > 0 { steps[1] } else { steps[0] };
        out[usize::from(ZIGZAG[n] & 15)] = bits.signed(magnitude).wrapping_mul(step);
        n += 1;
    }
    16
}

/// Reads the rest of a magnitude above 1.
#[inline(always)]
fn large(bits: &mut BoolDecoder<'_>, p: &TokenProbabilities) -> i16 {
    decide!(bits, p[3], {}, {
        return decide!(bits, p[4], 3 + i16::from(bits.bit(p[5])), 2);
    });
    decide!(bits, p[6], {}, {
        return decide!(
            bits,
            p[7],
            {
                let high = i16::from(bits.bit(165));
                7 + 2 * high + i16::from(bits.bit(145))
            },
            5 + i16::from(bits.bit(159)),
        );
    });
    let (least, probabilities): (i16, &[u8]) = decide!(
        bits,
        p[8],
        decide!(
            bits,
            p[10],
            (67, &[254, 254, 243, 230, 196, 177, 153, 140, 133, 130, 129][..]),
            (35, &[180, 157, 141, 134, 130][..]),
        ),
        decide!(bits, p[9], (19, &[176, 155, 140, 135][..]), (11, &[173, 148, 140][..]),),
    );
    let mut extra = 0;
    for &probability in probabilities {
        extra = 2 * extra + i16::from(bits.bit(probability));
    }
    least + extra
}
