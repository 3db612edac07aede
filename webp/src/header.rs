//! The header of a key frame (RFC 6386, sections 9 and 19.2).
//!
//! | bytes  | contents                                                                                  |
//! |-------:|-------------------------------------------------------------------------------------------|
//! |   0..3 | bit 0: no key frame; bits 1..4: version; bit 4: shown; bits 5..24: size of the first partition |
//! |   3..6 | the start code `9d 01 2a`                                                                 |
//! |   6..8 | width in 14 bits, and how it is to be enlarged for display in 2, which decoders of WebP ignore |
//! |  8..10 | height, likewise                                                                          |
//! | 10..   | the first partition: the rest of the header, and the predictions of all macroblocks       |
//!
//! The sizes of all partitions of coefficients but the last follow, of three bytes each, and then these partitions.

use crate::LossyError;
use crate::bool_decoder::BoolDecoder;
use crate::tables::{
    AC_STEPS, BANDS, DC_STEPS, DEFAULT_PROBABILITIES, TokenProbabilities, UPDATE_PROBABILITIES,
};
use fuseloop_kernels::vp8::FilterStrength;
use fuseloop_ops::Size;

/// The number of segments: groups of macroblocks with settings of their own.
pub(crate) const SEGMENTS: usize = 4;

/// The most partitions of coefficients.
pub(crate) const PARTITIONS: usize = 8;

/// The quantization steps of a segment: those of a block's first coefficient and of its others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Steps {
    pub(crate) luma: [i16; 2],
    pub(crate) luma_dc: [i16; 2],
    pub(crate) chroma: [i16; 2],
}

/// The loop filter of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    None,
    /// Changes a pixel on each side of an edge of luma.
    Simple,
    /// Changes up to three pixels on each side of an edge.
    Normal,
}

/// The probabilities of tokens by the kind of a block, the position of a coefficient and the context. Position 16 exists so
/// that the last coefficient has a next position.
pub(crate) type PositionProbabilities = [[[TokenProbabilities; 3]; 17]; 4];

/// A frame's header, and its partitions.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) size: Size,
    /// The first partition, after the header.
    pub(crate) modes: BoolDecoder<'a>,
    /// The partitions of coefficients. Row y of macroblocks is in partition y modulo their number.
    pub(crate) coefficients: [BoolDecoder<'a>; PARTITIONS],
    /// The number of partitions of coefficients: a power of two.
    pub(crate) partitions: usize,
    /// The probabilities of the tree of segments, if macroblocks say which segment they are in.
    pub(crate) segment_tree: Option<[u8; 3]>,
    pub(crate) steps: [Steps; SEGMENTS],
    pub(crate) filter: Filter,
    /// The strength by the segment and by whether each 4x4 block has a prediction of its own.
    pub(crate) strengths: [[FilterStrength; 2]; SEGMENTS],
    pub(crate) probabilities: PositionProbabilities,
    /// The probability that a macroblock has coefficients, if macroblocks say so.
    pub(crate) skip: Option<u8>,
}

/// Returns the size of a frame.
///
/// ```
/// use fuseloop_ops::Size;
/// use fuseloop_webp::frame_size;
///
/// let header = [0x10, 0, 0, 0x9d, 0x01, 0x2a, 0xf4, 0x01, 0x77, 0x01];
/// assert_eq!(frame_size(&header), Ok(Size::new(375, 500)));
/// ```
///
/// # Errors
///
/// If the bytes do not begin with the header of a key frame that has pixels and is to be shown.
pub fn frame_size(frame: &[u8]) -> Result<Size, LossyError> {
    Ok(start(frame)?.0)
}

/// Reads the first ten bytes. Returns the frame's size, the size of the first partition, and the bytes that follow.
fn start(frame: &[u8]) -> Result<(Size, usize, &[u8]), LossyError> {
    let truncated = LossyError::Truncated { part: "its header" };
    let (tag, rest) = frame.split_first_chunk::<3>().ok_or(truncated)?;
    let tag = u32::from_le_bytes([tag[0], tag[1], tag[2], 0]);
    if tag & 1 != 0 {
        return Err(LossyError::NotAKeyFrame);
    }
    let (&[a, b, c, sides @ ..], rest) = rest.split_first_chunk::<7>().ok_or(truncated)?;
    if [a, b, c] != [0x9d, 0x01, 0x2a] {
        return Err(LossyError::StartCode { found: [a, b, c] });
    }
    let version = (tag >> 1 & 7) as u8;
    if version > 3 {
        return Err(LossyError::Version { found: version });
    }
    if tag >> 4 & 1 == 0 {
        return Err(LossyError::NotShown);
    }
    let side = |low, high| u32::from(u16::from_le_bytes([low, high]) & 0x3fff);
    let size = Size::new(side(sides[2], sides[3]), side(sides[0], sides[1]));
    if size.height == 0 || size.width == 0 {
        return Err(LossyError::Empty);
    }
    Ok((size, (tag >> 5) as usize, rest))
}

/// The settings of segments, as the header has them.
#[derive(Default)]
struct Segments {
    /// True if the macroblocks say which segment they are in.
    are_mapped: bool,
    /// True if the numbers below replace those of the frame; otherwise they are added to them.
    are_absolute: bool,
    quantizers: [i32; SEGMENTS],
    levels: [i32; SEGMENTS],
    tree: [u8; 3],
}

impl Segments {
    fn read(bits: &mut BoolDecoder<'_>) -> Self {
        let mut segments = Self { tree: [255; 3], ..Self::default() };
        segments.are_mapped = bits.flag();
        if bits.flag() {
            segments.are_absolute = bits.flag();
            for quantizer in &mut segments.quantizers {
                *quantizer = bits.optional_signed(7).unwrap_or(0);
            }
            for level in &mut segments.levels {
                *level = bits.optional_signed(6).unwrap_or(0);
            }
        } else {
            // Without numbers, all segments have zeros: those of a key frame do not outlast it.
            segments.are_absolute = true;
        }
        if segments.are_mapped {
            for probability in &mut segments.tree {
                *probability = if bits.flag() { bits.probability() } else { 255 };
            }
        }
        segments
    }
}

/// The settings of the loop filter, as the header has them.
struct FilterHeader {
    is_simple: bool,
    level: i32,
    sharpness: i32,
    /// The numbers that are added to the level, for all macroblocks and for those whose 4x4 blocks have predictions of their own.
    deltas: [i32; 2],
}

impl FilterHeader {
    fn read(bits: &mut BoolDecoder<'_>) -> Self {
        let is_simple = bits.flag();
        let level = i32::from(bits.literal(6));
        let sharpness = i32::from(bits.literal(3));
        let mut deltas = [0; 8];
        if bits.flag() && bits.flag() {
            for delta in &mut deltas {
                *delta = bits.optional_signed(6).unwrap_or(0);
            }
        }
        Self { is_simple, level, sharpness, deltas: [deltas[0], deltas[4]] }
    }

    /// Returns the strength for macroblocks of a segment (section 9.6).
    fn strength(&self, base: i32, has_block_modes: bool) -> FilterStrength {
        let delta = self.deltas[0] + if has_block_modes { self.deltas[1] } else { 0 };
        let level = (base + delta).clamp(0, 63);
        if level == 0 {
            return FilterStrength::NONE;
        }
        let mut interior = level;
        if self.sharpness > 0 {
            interior >>= if self.sharpness > 4 { 2 } else { 1 };
            interior = interior.min(9 - self.sharpness);
        }
        let interior = interior.max(1);
        let variance = i32::from(level >= 15) + i32::from(level >= 40);
        FilterStrength {
            edge: (2 * level + interior) as u8,
            interior: interior as u8,
            variance: variance as u8,
        }
    }
}

/// Reads the quantization steps of all segments (sections 9.6 and 14.1).
fn read_steps(bits: &mut BoolDecoder<'_>, segments: Option<&Segments>) -> [Steps; SEGMENTS] {
    let base = i32::from(bits.literal(7));
    let [luma_dc, luma2_dc, luma2_ac, chroma_dc, chroma_ac] =
        std::array::from_fn(|_| bits.optional_signed(4).unwrap_or(0));
    let at = |index: i32, most: i32| index.clamp(0, most) as usize;
    std::array::from_fn(|segment| {
        let q = match segments {
            Some(segments) => {
                segments.quantizers[segment] + if segments.are_absolute { 0 } else { base }
            }
            None => base,
        };
        let second = i32::from(AC_STEPS[at(q + luma2_ac, 127)]) * 155 / 100;
        Steps {
            luma: [DC_STEPS[at(q + luma_dc, 127)], AC_STEPS[at(q, 127)]],
            luma_dc: [2 * DC_STEPS[at(q + luma2_dc, 127)], second.max(8) as i16],
            // The step of the first coefficient of chroma is at most 132.
            chroma: [DC_STEPS[at(q + chroma_dc, 117)], AC_STEPS[at(q + chroma_ac, 127)]],
        }
    })
}

/// Reads the changes of the probabilities of tokens (section 13.4).
fn read_probabilities(bits: &mut BoolDecoder<'_>) -> PositionProbabilities {
    let mut probabilities = DEFAULT_PROBABILITIES;
    let updates = UPDATE_PROBABILITIES.as_flattened().as_flattened().as_flattened();
    let all = probabilities.as_flattened_mut().as_flattened_mut().as_flattened_mut();
    for (probability, update) in all.iter_mut().zip(updates) {
        if bits.bit(*update) {
            *probability = bits.probability();
        }
    }
    probabilities
        .map(|bands| std::array::from_fn(|position| bands[usize::from(BANDS[position.min(15)])]))
}

impl<'a> Frame<'a> {
    /// Reads the header.
    pub(crate) fn parse(frame: &'a [u8]) -> Result<Self, LossyError> {
        let (size, first, rest) = start(frame)?;
        let cut = LossyError::Truncated { part: "its first partition" };
        let (first, rest) = rest.split_at_checked(first).ok_or(cut)?;
        let bits = &mut BoolDecoder::new(first);
        // The colour space, of which there is one, and whether pixels need be clamped, which they always are.
        bits.literal(2);
        let segments = bits.flag().then(|| Segments::read(bits));
        let filter_header = FilterHeader::read(bits);
        let partitions = 1 << bits.literal(2);
        let coefficients = partitions_of(rest, partitions)?;
        let steps = read_steps(bits, segments.as_ref());
        // Whether the probabilities outlast the frame.
        bits.flag();
        let probabilities = read_probabilities(bits);
        let skip = bits.flag().then(|| bits.probability());
        if bits.ended() {
            return Err(cut);
        }
        let filter = match (filter_header.level, filter_header.is_simple) {
            (0, _) => Filter::None,
            (_, true) => Filter::Simple,
            (_, false) => Filter::Normal,
        };
        let strengths = std::array::from_fn(|segment| {
            let level = match &segments {
                Some(segments) if segments.are_absolute => segments.levels[segment],
                Some(segments) => segments.levels[segment] + filter_header.level,
                None => filter_header.level,
            };
            [false, true].map(|has_block_modes| filter_header.strength(level, has_block_modes))
        });
        let segment_tree = segments.filter(|segments| segments.are_mapped).map(|s| s.tree);
        Ok(Self {
            size,
            modes: *bits,
            coefficients,
            partitions,
            segment_tree,
            steps,
            filter,
            strengths,
            probabilities,
            skip,
        })
    }
}

/// Splits the bytes after the first partition. A partition that is cut has the bytes that there are.
fn partitions_of(
    bytes: &[u8],
    partitions: usize,
) -> Result<[BoolDecoder<'_>; PARTITIONS], LossyError> {
    let cut = LossyError::Truncated { part: "the sizes of its partitions" };
    let (sizes, mut rest) = bytes.split_at_checked(3 * (partitions - 1)).ok_or(cut)?;
    let mut all = [BoolDecoder::new(&[]); PARTITIONS];
    let (sizes, _) = sizes.as_chunks::<3>();
    for (partition, size) in all.iter_mut().zip(sizes) {
        let size = u32::from_le_bytes([size[0], size[1], size[2], 0]) as usize;
        let (bytes, after) = rest.split_at(size.min(rest.len()));
        *partition = BoolDecoder::new(bytes);
        rest = after;
    }
    if rest.is_empty() {
        return Err(LossyError::Truncated { part: "its coefficients" });
    }
    all[partitions - 1] = BoolDecoder::new(rest);
    Ok(all)
}
