//! The forms for x86-64.
//!
//! Most blocks have coefficients of at most [`LEVELS`] bits, whose planes fit into one read of each stream. They are
//! decoded without a branch, 64 coefficients of 8 bits at once; the other blocks plane by plane, in 16 bits.

#![allow(
    unsafe_code,
    reason = "vectors as the CPU has them, and loads at positions that bits determine"
)]

use super::{MAX_AC_SIZE, MAX_DC_SIZE, POSITIONS, SLACK, difference, spread};
use std::arch::x86_64::*;

/// The most bits of a coefficient in the fast path.
const LEVELS: usize = 5;

/// A stream of `bits` bits, followed by [`SLACK`] bytes that can be read.
///
/// A block begins at bit `bits` or before, as is checked, and has at most 698 bits: no read of it begins more than
/// 88 bytes after the end, and none is longer than 16 bytes.
#[derive(Clone, Copy)]
struct PlaneBits<'a> {
    bytes: &'a [u8],
    bits: usize,
}

impl<'a> PlaneBits<'a> {
    fn new(bytes: &'a [u8], length: usize) -> Self {
        assert!(bytes.len() >= SLACK && length <= bytes.len() - SLACK);
        Self { bytes, bits: 8 * length }
    }

    /// Returns the bits from bit `at` on; 57 of them are valid.
    ///
    /// # Safety
    ///
    /// `at` must be at most `bits + 8 * 88`.
    #[inline(always)]
    unsafe fn few(self, at: usize) -> u64 {
        // SAFETY: the 8 bytes are in the stream: they end at most 96 bytes after `bits`, and `SLACK` is more.
        let word = unsafe { self.bytes.as_ptr().add(at >> 3).cast::<u64>().read_unaligned() };
        word >> (at & 7)
    }

    /// Returns the 64 bits from bit `at` on.
    ///
    /// # Safety
    ///
    /// `at` must be at most `bits + 8 * 88`.
    #[inline(always)]
    unsafe fn many(self, at: usize) -> u64 {
        // SAFETY: the 16 bytes are in the stream: they end at most 104 bytes after `bits`, and `SLACK` is more.
        let [low, high] =
            unsafe { self.bytes.as_ptr().add(at >> 3).cast::<[u64; 2]>().read_unaligned() };
        low >> (at & 7) | high << 1 << (63 - (at & 7))
    }
}

/// The planes after the first one: the coefficients that have a further bit, and those whose further bit is 1.
type Further = [[u64; 2]; LEVELS - 1];

/// Defines a form: `$permute` returns the bits of a mask in zigzag order at their positions, `$small` stores a
/// block of few planes, and `$large` decodes any block.
macro_rules! form {
    ($name:ident, $features:literal, $permute:ident, $small:ident, $large:ident) => {
        #[target_feature(enable = $features)]
        pub(super) fn $name(
            streams: [&[u8]; 2],
            lengths: [usize; 2],
            blocks: &mut [[i16; 64]],
        ) -> Option<[usize; 2]> {
            let streams = [0, 1].map(|n| PlaneBits::new(streams[n], lengths[n]));
            let [main, side] = streams;
            let [mut in_main, mut in_side] = [0, 0];
            for block in blocks {
                if (in_main > main.bits) | (in_side > side.bits) {
                    return None;
                }
                // SAFETY: the positions are at most those of the streams' ends.
                let (head, dc) = unsafe { (main.few(in_main), side.few(in_side)) };
                let last = (head & 63) as u32;
                let before = last.saturating_sub(1);
                // SAFETY: 6 bits after a position that was checked.
                let mask = _bzhi_u64(unsafe { main.few(in_main + 6) }, before);
                let nonzero = (mask << 1 | 1 << last) & !1;
                let dc_size = (dc & 15) as u32;
                let at_planes = [in_main + 6 + before as usize, in_side + 4 + dc_size as usize];
                // SAFETY: at most 68 bits after a position that was checked.
                let mut larger = unsafe { main.few(at_planes[0]) };
                // SAFETY: at most 19 bits after a position that was checked.
                let mut bits = unsafe { side.few(at_planes[1]) };
                let mut count = nonzero.count_ones();
                let mut all = count;
                let places = $permute(nonzero);
                let negative = _pdep_u64(bits, places);
                let (mut further, mut last_places): (Further, u64) = ([[0; 2]; LEVELS - 1], places);
                for level in &mut further {
                    bits >>= count & 63;
                    let with = _bzhi_u64(larger, count);
                    larger >>= count & 63;
                    *level = [_pdep_u64(with, last_places), 0];
                    count = with.count_ones();
                    last_places = level[0];
                    level[1] = _pdep_u64(bits, last_places);
                    all += count;
                }
                // The plane after those must say that nothing is larger.
                let rest = _bzhi_u64(larger, count);
                if (rest != 0) | (all > 57) | (before > 57) | (dc_size > MAX_DC_SIZE) {
                    [in_main, in_side] = $large(streams, [in_main, in_side], block)?;
                    continue;
                }
                [in_main, in_side] = at_planes.map(|at| at + all as usize);
                $small(block, difference(dc >> 4, dc_size), [places, negative], &further);
            }
            Some([in_main, in_side])
        }
    };
}

form!(
    avx512,
    "avx512f,avx512bw,avx512vl,avx512bitalg,avx2,bmi1,bmi2,popcnt,lzcnt",
    permute512,
    small512,
    large512
);
form!(avx2, "avx2,bmi1,bmi2,popcnt,lzcnt", permute256, small256, large256);

/// Reads the parts of a block before its planes: the DC difference, the mask of nonzero coefficients in zigzag
/// order, and the positions of the planes. Returns `None` for a block that begins after the end of a stream, and for
/// a DC difference of too large a size.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
fn head(
    [main, side]: [PlaneBits<'_>; 2],
    [in_main, in_side]: [usize; 2],
) -> Option<(i16, u64, [usize; 2])> {
    if in_main > main.bits || in_side > side.bits {
        return None;
    }
    // SAFETY: at most 6 bits after positions that were checked just above.
    let (last, mask, dc) =
        unsafe { (main.few(in_main) & 63, main.many(in_main + 6), side.few(in_side)) };
    let before = (last as u32).saturating_sub(1);
    let nonzero = (_bzhi_u64(mask, before) << 1 | 1 << last) & !1;
    let size = (dc & 15) as u32;
    let at = [in_main + 6 + before as usize, in_side + 4 + size as usize];
    (size <= MAX_DC_SIZE).then_some((difference(dc >> 4, size), nonzero, at))
}

/// Defines the decoder of a block of any planes.
macro_rules! large {
    ($name:ident, $features:literal, $permute:ident, $first:ident, $next:ident, $store:ident) => {
        #[inline(never)]
        #[target_feature(enable = $features)]
        fn $name(
            streams: [PlaneBits<'_>; 2],
            at: [usize; 2],
            block: &mut [i16; 64],
        ) -> Option<[usize; 2]> {
            let [main, side] = streams;
            let (dc, nonzero, [mut in_main, mut in_side]) = head(streams, at)?;
            let places = $permute(nonzero);
            // SAFETY: 15 bits after the block's begin.
            let negative = _pdep_u64(unsafe { side.many(in_side) }, places);
            in_side += places.count_ones() as usize;
            let mut values = $first(places);
            let mut larger = places;
            for _ in 0..MAX_AC_SIZE {
                let count = larger.count_ones() as usize;
                // SAFETY: at most 68 bits and 10 planes of 63 after the block's begin.
                larger = _pdep_u64(unsafe { main.many(in_main) }, larger);
                in_main += count;
                if larger == 0 {
                    $store(values, negative, block);
                    block[0] = dc;
                    return Some([in_main, in_side]);
                }
                // SAFETY: at most 15 bits and 10 planes of 63 after the block's begin.
                let bits = _pdep_u64(unsafe { side.many(in_side) }, larger);
                in_side += larger.count_ones() as usize;
                values = $next(values, larger, bits);
            }
            None
        }
    };
}

large!(
    large512,
    "avx512f,avx512bw,avx512vl,avx512bitalg,avx2,bmi1,bmi2,popcnt,lzcnt",
    permute512,
    first512,
    next512,
    store512
);
large!(large256, "avx2,bmi1,bmi2,popcnt,lzcnt", permute256, first256, next256, store256);

/// For each position in a block, its index in zigzag order.
static INVERSE: [u8; 64] = {
    let (mut inverse, mut index) = ([0; 64], 0);
    while index < 64 {
        inverse[POSITIONS[index] as usize] = index as u8;
        index += 1;
    }
    inverse
};

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bitalg")]
fn permute512(mask: u64) -> u64 {
    // SAFETY: 64 bytes; any bytes are a vector.
    let inverse = unsafe { std::mem::transmute::<[u8; 64], __m512i>(INVERSE) };
    _mm512_bitshuffle_epi64_mask(_mm512_set1_epi64(mask as i64), inverse)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn small512(block: &mut [i16; 64], dc: i16, [places, negative]: [u64; 2], further: &Further) {
    let one = _mm512_set1_epi8(1);
    let mut values = _mm512_maskz_mov_epi8(places, one);
    for [larger, bits] in further {
        values = _mm512_mask_add_epi8(values, *larger, values, values);
        values = _mm512_mask_add_epi8(values, *bits, values, one);
    }
    values = _mm512_mask_sub_epi8(values, negative, _mm512_setzero_si512(), values);
    let low = _mm512_cvtepi8_epi16(_mm512_castsi512_si256(values));
    let high = _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64::<1>(values));
    put512(block, [low, high]);
    block[0] = dc;
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn put512(block: &mut [i16; 64], values: [__m512i; 2]) {
    // SAFETY: 128 bytes each; any bytes are integers.
    *block = unsafe { std::mem::transmute::<[__m512i; 2], [i16; 64]>(values) };
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn first512(places: u64) -> [__m512i; 2] {
    let [low, high] = halves(places);
    [_mm512_maskz_set1_epi16(low, 1), _mm512_maskz_set1_epi16(high, 1)]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn next512(mut values: [__m512i; 2], larger: u64, bits: u64) -> [__m512i; 2] {
    for ((value, larger), bits) in values.iter_mut().zip(halves(larger)).zip(halves(bits)) {
        let doubled = _mm512_mask_add_epi16(*value, larger, *value, *value);
        *value = _mm512_mask_add_epi16(doubled, bits, doubled, _mm512_set1_epi16(1));
    }
    values
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn store512(mut values: [__m512i; 2], negative: u64, block: &mut [i16; 64]) {
    for (value, negative) in values.iter_mut().zip(halves(negative)) {
        *value = _mm512_mask_sub_epi16(*value, negative, _mm512_setzero_si512(), *value);
    }
    put512(block, values);
}

/// Returns the low and the high half of a mask.
#[inline(always)]
fn halves(mask: u64) -> [u32; 2] {
    [mask as u32, (mask >> 32) as u32]
}

#[inline]
#[target_feature(enable = "avx2")]
fn permute256(mask: u64) -> u64 {
    spread(mask)
}

/// Returns -1 in each byte whose bit in `mask` is 1, and 0 in the others.
#[inline]
#[target_feature(enable = "avx2")]
fn bytes256(mask: u64) -> [__m256i; 2] {
    let bits = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    let order =
        _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
    let mut bytes = [bits; 2];
    for (bytes, half) in bytes.iter_mut().zip(halves(mask)) {
        let spread = _mm256_shuffle_epi8(_mm256_set1_epi32(half as i32), order);
        *bytes = _mm256_cmpeq_epi8(_mm256_and_si256(spread, bits), bits);
    }
    bytes
}

/// Returns -1 in each word whose bit in `mask` is 1, and 0 in the others.
#[inline]
#[target_feature(enable = "avx2")]
fn words256(mask: u64) -> [__m256i; 4] {
    widened(bytes256(mask))
}

/// Returns bytes as words with their signs.
#[inline]
#[target_feature(enable = "avx2")]
fn widened([low, high]: [__m256i; 2]) -> [__m256i; 4] {
    [
        _mm256_cvtepi8_epi16(_mm256_castsi256_si128(low)),
        _mm256_cvtepi8_epi16(_mm256_extracti128_si256::<1>(low)),
        _mm256_cvtepi8_epi16(_mm256_castsi256_si128(high)),
        _mm256_cvtepi8_epi16(_mm256_extracti128_si256::<1>(high)),
    ]
}

#[inline]
#[target_feature(enable = "avx2")]
fn small256(block: &mut [i16; 64], dc: i16, [places, negative]: [u64; 2], further: &Further) {
    // Minus the absolute values: what a mask says is -1.
    let mut values = bytes256(places);
    for [larger, bits] in further {
        let masks = bytes256(*larger).into_iter().zip(bytes256(*bits));
        for (value, (larger, bits)) in values.iter_mut().zip(masks) {
            *value = _mm256_add_epi8(*value, _mm256_and_si256(*value, larger));
            *value = _mm256_add_epi8(*value, bits);
        }
    }
    for (value, positive) in values.iter_mut().zip(bytes256(!negative)) {
        *value = _mm256_sub_epi8(_mm256_xor_si256(*value, positive), positive);
    }
    put256(block, widened(values));
    block[0] = dc;
}

#[inline]
#[target_feature(enable = "avx2")]
fn put256(block: &mut [i16; 64], values: [__m256i; 4]) {
    // SAFETY: 128 bytes each; any bytes are integers.
    *block = unsafe { std::mem::transmute::<[__m256i; 4], [i16; 64]>(values) };
}

/// Returns minus the absolute values.
#[inline]
#[target_feature(enable = "avx2")]
fn first256(places: u64) -> [__m256i; 4] {
    words256(places)
}

#[inline]
#[target_feature(enable = "avx2")]
fn next256(mut values: [__m256i; 4], larger: u64, bits: u64) -> [__m256i; 4] {
    for (value, (larger, bits)) in
        values.iter_mut().zip(words256(larger).into_iter().zip(words256(bits)))
    {
        *value = _mm256_add_epi16(*value, _mm256_and_si256(*value, larger));
        *value = _mm256_add_epi16(*value, bits);
    }
    values
}

#[inline]
#[target_feature(enable = "avx2")]
fn store256(mut values: [__m256i; 4], negative: u64, block: &mut [i16; 64]) {
    for (value, positive) in values.iter_mut().zip(words256(!negative)) {
        *value = _mm256_sub_epi16(_mm256_xor_si256(*value, positive), positive);
    }
    put256(block, values);
}
