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
use fuseloop_kernels::{CpuWork, for_cpu};

/// The blocks of luma and chroma.
pub(crate) const BLOCKS: usize = 24;

/// Whether the blocks at an edge of a macroblock have coefficients: 4 of luma, 2 of each chroma, and the block of first
/// coefficients.
pub(crate) type Edge = [u8; 9];

/// The index of the block of first coefficients in an edge.
const FIRSTS: usize = 8;

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
    pub(crate) fn read(
        &mut self,
        bits: &mut BoolDecoder<'_>,
        probabilities: &PositionProbabilities,
        steps: &Steps,
        has_block_modes: bool,
        edges: [&mut Edge; 2],
    ) -> bool {
        for_cpu(Read { coefficients: self, bits, probabilities, steps, has_block_modes, edges })
    }

    /// Reads the blocks of luma, from the coefficient `first` on. Returns true if any block has some.
    #[inline(always)]
    fn read_luma(
        &mut self,
        bits: &mut BoolDecoder<'_>,
        probabilities: &[[TokenProbabilities; 3]; 17],
        steps: &Steps,
        first: usize,
        [above, left]: [&mut Edge; 2],
    ) -> bool {
        let mut has_coefficients = false;
        for i in 0..16 {
            let edges = [&mut above[i % 4], &mut left[i / 4]];
            let out = &mut self.blocks[i];
            self.contents[i] = block(bits, probabilities, steps.luma, first, edges, out);
            has_coefficients |= self.contents[i] != Content::Nothing;
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

/// Reads the coefficients of a macroblock: a function of its own, so that the decoder stays in registers.
struct Read<'a, 'b> {
    coefficients: &'b mut Coefficients,
    bits: &'b mut BoolDecoder<'a>,
    probabilities: &'b PositionProbabilities,
    steps: &'b Steps,
    has_block_modes: bool,
    edges: [&'b mut Edge; 2],
}

impl CpuWork for Read<'_, '_> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let Self { coefficients, probabilities, steps, has_block_modes, edges, .. } = self;
        let [above, left] = edges;
        let mut bits = *self.bits;
        coefficients.blocks = [[0; 16]; BLOCKS];
        // Each kind of block has a copy of the loop, so that the CPU predicts its branches from those of its kind.
        let [luma_without_firsts, firsts, chroma, luma] = probabilities;
        let mut has_coefficients = if has_block_modes {
            coefficients.read_luma(&mut bits, luma, steps, 0, [above, left])
        } else {
            let mut out = [0; 16];
            let edges = [&mut above[FIRSTS], &mut left[FIRSTS]];
            let content = block(&mut bits, firsts, steps.luma_dc, 0, edges, &mut out);
            if content != Content::Nothing {
                let firsts = walsh_hadamard(&out);
                for (block, first) in coefficients.blocks.iter_mut().zip(firsts) {
                    block[0] = first;
                }
            }
            coefficients.read_luma(&mut bits, luma_without_firsts, steps, 1, [above, left])
        };
        for i in 0..8 {
            let side = 4 + 2 * (i / 4);
            let edges = [&mut above[side + i % 2], &mut left[side + i % 4 / 2]];
            let out = &mut coefficients.blocks[16 + i];
            let content = block(&mut bits, chroma, steps.chroma, 0, edges, out);
            coefficients.contents[16 + i] = content;
            has_coefficients |= content != Content::Nothing;
        }
        *self.bits = bits;
        has_coefficients
    }
}

/// Reads the coefficients of a block from the one at `first` on.
#[inline(always)]
fn block(
    bits: &mut BoolDecoder<'_>,
    probabilities: &[[TokenProbabilities; 3]; 17],
    steps: [i16; 2],
    first: usize,
    [above, left]: [&mut u8; 2],
    out: &mut [i16; 16],
) -> Content {
    let end = tokens(bits, probabilities, *above + *left, steps, first, out);
    let has_any = u8::from(end > first);
    (*above, *left) = (has_any, has_any);
    match (end > 1, out[0] != 0) {
        (true, _) => Content::Any,
        (false, true) => Content::First,
        (false, false) => Content::Nothing,
    }
}

/// Reads the tokens of a block from the position `n` on. Returns the position after the last one that is not 0.
#[inline(always)]
fn tokens(
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
        out[usize::from(ZIGZAG[n] & 15)] = bits.signed(magnitude.wrapping_mul(step));
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
