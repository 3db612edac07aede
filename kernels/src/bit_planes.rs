//! Bit planes: the quantized coefficients of JPEG blocks, without an entropy code.
//!
//! A block is coded in two streams of bits, least significant bit first:
//!
//! ```text
//! main   last:6 | nonzero?   : last-1 | size > 1? : n1 | size > 2? : n2 | ...
//! side   DC size:4, DC : size | signs : n1 | second bits : n2 | third bits : n3 | ...
//! ```
//!
//! | | |
//! |-----------|--------------------------------------------------------------------------------------|
//! | `last`    | the index of the last nonzero AC coefficient in zigzag order; 0 if there is none       |
//! | nonzero   | a bit for each index from 1 up to `last`, in zigzag order; that of `last` is left out  |
//! | size      | the bits of a coefficient's absolute value; n1 coefficients have size 1 or more        |
//! | size > k  | a bit for each coefficient of size k or more: n(k+1) of them are 1; none follows if n(k+1) is 0 |
//! | signs     | 1 for a negative coefficient                                                           |
//! | k-th bits | the k-th bits of absolute values, from the most significant one, which is always 1 and not stored |
//! | DC        | the difference from another block, as in a JPEG (T.81, F.1.2.1): a negative one has 1 subtracted |
//!
//! Within the planes, coefficients are in the order in which [`idct`](crate::idct) takes them
//! ([`ORDER`](crate::ORDER)), not in zigzag order: a decoder then permutes the 64 bits that say which coefficients
//! are nonzero, and not 64 coefficients.
//!
//! | | |
//! |--------|-------------------------------------------------------------------------------|
//! | limits | size at most 10 for AC coefficients, 11 for DC differences: those of 8-bit samples |
//! | length | at most 698 bits in main and 649 in side; a block of DC alone has 10 or more in total |
//! | cost   | one step a plane, of which a block has about five, where Huffman codes take one step a coefficient |
//!
//! The positions in both streams depend on counts of bits alone. `pdep` puts the bits of a plane at their
//! coefficients, and a mask of coefficients is an operand of AVX-512. `portable` is the reference implementation.

#![allow(
    unsafe_code,
    reason = "vectors as the CPU has them, and loads at positions that bits determine"
)]

use crate::POSITIONS;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::sync::OnceLock;

/// Bytes that must be readable after the end of either stream of [`decode`].
pub const SLACK: usize = 112;

/// The largest size of an AC coefficient.
const MAX_AC_SIZE: u32 = 10;
/// The largest size of a DC difference.
const MAX_DC_SIZE: u32 = 11;

/// The implementation that decodes, one that this CPU has. All of them produce the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form(pub(crate) Kind);

/// The kinds of implementations, from the slowest to the fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A step a bit.
    Portable,
    /// With AVX2, and BMI2 that is not microcode.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for x86-64"))]
    Avx2,
    /// With AVX-512 as CPUs with BITALG have it: Intel's since Ice Lake, AMD's since Zen 4.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for x86-64"))]
    Avx512,
}

impl Form {
    /// Returns the fastest form that this CPU has and that the environment variable `FUSELOOP_ISA` allows: 128 allows
    /// the portable one, 256 also that with AVX2, anything else all.
    #[must_use]
    pub fn of_cpu() -> Self {
        static FORM: OnceLock<Form> = OnceLock::new();
        *FORM.get_or_init(|| {
            let allowed = std::env::var_os("FUSELOOP_ISA");
            Self(match (allowed.as_ref().and_then(|allowed| allowed.to_str()), Self::fastest()) {
                (Some("128"), _) => Kind::Portable,
                (Some("256"), Kind::Avx512) => Kind::Avx2,
                (_, kind) => kind,
            })
        })
    }

    /// Returns the forms that this CPU has.
    pub fn available() -> impl Iterator<Item = Self> {
        let kinds = [Kind::Portable, Kind::Avx2, Kind::Avx512];
        kinds.into_iter().take(Self::fastest() as usize + 1).map(Self)
    }

    /// Returns what the form needs of a CPU.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            Kind::Avx2 => "AVX2 and BMI2",
            Kind::Avx512 => "AVX-512",
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn fastest() -> Kind {
        use std::arch::is_x86_feature_detected as has;
        let has_bits = has!("bmi1") && has!("bmi2") && has!("popcnt") && has!("lzcnt");
        if !has!("avx2") || !has_bits || has_slow_pdep() {
            return Kind::Portable;
        }
        match has!("avx512f") && has!("avx512bw") && has!("avx512vl") && has!("avx512bitalg") {
            true => Kind::Avx512,
            false => Kind::Avx2,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn fastest() -> Kind {
        Kind::Portable
    }
}

/// Returns whether `pdep` is microcode, as on AMD's CPUs before Zen 3, which is family 19h.
#[cfg(target_arch = "x86_64")]
fn has_slow_pdep() -> bool {
    let vendor = __cpuid(0);
    let vendor = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
    let signature = __cpuid(1).eax;
    let family = (signature >> 8 & 15) + (signature >> 20 & 255);
    matches!(vendor.as_flattened(), b"AuthenticAMD" | b"HygonGenuine") && family < 0x19
}

/// Decodes blocks that are stored one after another, in the order of [`ORDER`](crate::ORDER): `block[0]` is the DC
/// difference. `lengths` are the bytes of the streams.
///
/// Returns how many bytes of each stream the blocks begin; `None` if the bits are no blocks, or end early.
///
/// # Panics
///
/// If a stream has fewer than [`SLACK`] bytes after its length.
pub fn decode(
    form: Form,
    streams: [&[u8]; 2],
    lengths: [usize; 2],
    blocks: &mut [[i16; 64]],
) -> Option<[usize; 2]> {
    for (stream, length) in streams.iter().zip(lengths) {
        assert!(stream.len() >= SLACK && length <= stream.len() - SLACK, "bytes after a stream");
    }
    let ends = match form.0 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the CPU has the features of a form that exists.
        Kind::Avx512 => unsafe { x86::avx512(streams, lengths, blocks) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Kind::Avx2 => unsafe { x86::avx2(streams, lengths, blocks) },
        _ => portable(streams, lengths, blocks),
    }?;
    let bytes = ends.map(|bits| bits.div_ceil(8));
    (bytes[0] <= lengths[0] && bytes[1] <= lengths[1]).then_some(bytes)
}

/// For each byte of a mask in zigzag order, the mask of its bits at their [`POSITIONS`].
static SPREAD: [[u64; 256]; 8] = {
    let (mut spread, mut byte) = ([[0; 256]; 8], 0);
    while byte < 8 {
        let mut bits = 0;
        while bits < 256 {
            let mut bit = 0;
            while bit < 8 {
                if bits >> bit & 1 == 1 {
                    spread[byte][bits] |= 1 << POSITIONS[8 * byte + bit];
                }
                bit += 1;
            }
            bits += 1;
        }
        byte += 1;
    }
    spread
};

/// Returns the bits of a mask in zigzag order at their [`POSITIONS`].
#[inline(always)]
fn spread(mask: u64) -> u64 {
    let bytes = mask.to_le_bytes();
    SPREAD.iter().zip(bytes).fold(0, |all, (spread, byte)| all | spread[usize::from(byte)])
}

/// Returns a DC difference of `size` bits from the low bits of `bits`.
#[inline(always)]
fn difference(bits: u64, size: u32) -> i16 {
    let value = (bits & ((1 << size) - 1)) as i32;
    // The most significant bit of a negative difference is 0.
    let is_negative = (value << 1 >> size) == 0;
    (value - if is_negative { (1 << size) - 1 } else { 0 }) as i16
}

/// Returns the 64 bits from bit `at` on.
#[inline(always)]
fn bits_at(stream: &[u8], at: usize) -> Option<u64> {
    let bytes = stream.get(at / 8..)?.first_chunk::<16>()?;
    Some((u128::from_le_bytes(*bytes) >> (at % 8)) as u64)
}

/// Decodes blocks bit by bit. This is the reference implementation.
fn portable(
    [main, side]: [&[u8]; 2],
    lengths: [usize; 2],
    blocks: &mut [[i16; 64]],
) -> Option<[usize; 2]> {
    let [mut in_main, mut in_side] = [0, 0];
    for block in blocks {
        if in_main > 8 * lengths[0] || in_side > 8 * lengths[1] {
            return None;
        }
        *block = [0; 64];
        let last = bits_at(main, in_main)? & 63;
        let before = last.saturating_sub(1);
        let nonzero = (bits_at(main, in_main + 6)? & ((1 << before) - 1)) << 1 | 1 << last;
        in_main += 6 + before as usize;
        let head = bits_at(side, in_side)?;
        let size = (head & 15) as u32;
        if size > MAX_DC_SIZE {
            return None;
        }
        block[0] = difference(head >> 4, size);
        in_side += 4 + size as usize;

        let nonzero = spread(nonzero & !1);
        // The positions of the coefficients that the next plane has bits of.
        let (mut positions, mut count) = ([0u8; 64], 0);
        let mut rest = nonzero;
        while rest != 0 {
            positions[count] = rest.trailing_zeros() as u8;
            count += 1;
            rest &= rest - 1;
        }
        let signs = bits_at(side, in_side)?;
        in_side += count;
        positions[..count].iter().for_each(|&position| block[usize::from(position & 63)] = 1);
        let mut size = 1;
        while count > 0 {
            let mut larger = bits_at(main, in_main)?;
            in_main += count;
            let mut kept = 0;
            for n in 0..count {
                positions[kept] = positions[n];
                kept += (larger & 1) as usize;
                larger >>= 1;
            }
            count = kept;
            let mut bits = bits_at(side, in_side)?;
            in_side += count;
            for &position in &positions[..count] {
                let value = &mut block[usize::from(position & 63)];
                *value = 2 * *value + (bits & 1) as i16;
                bits >>= 1;
            }
            size += 1;
            if size > MAX_AC_SIZE && count > 0 {
                return None;
            }
        }
        let (mut rest, mut signs) = (nonzero, signs);
        while rest != 0 {
            let value = &mut block[rest.trailing_zeros() as usize & 63];
            *value = if signs & 1 == 1 { -*value } else { *value };
            signs >>= 1;
            rest &= rest - 1;
        }
    }
    Some([in_main, in_side])
}

/// Writes bits, least significant bit first.
#[derive(Debug, Default)]
pub struct BitWriter {
    bytes: Vec<u8>,
    word: u64,
    count: u32,
}

impl BitWriter {
    /// Appends the low `count` bits, 64 at most; the others must be 0.
    #[inline(always)]
    fn put(&mut self, bits: u64, count: u32) {
        self.word |= bits << self.count;
        let end = self.count + count;
        if end < 64 {
            self.count = end;
            return;
        }
        self.bytes.extend_from_slice(&self.word.to_le_bytes());
        self.word = bits >> 1 >> (63 - self.count);
        self.count = end - 64;
    }

    /// Fills up the last byte with zeros, and returns the number of bytes.
    pub fn align(&mut self) -> usize {
        let bytes = self.count.div_ceil(8) as usize;
        self.bytes.extend_from_slice(&self.word.to_le_bytes()[..bytes]);
        (self.word, self.count) = (0, 0);
        self.bytes.len()
    }

    /// Returns the bytes that are complete.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Removes all bits.
    pub fn clear(&mut self) {
        self.bytes.clear();
        (self.word, self.count) = (0, 0);
    }
}

/// Encodes a block; see [`decode`]. Returns `None` for a coefficient of too large a size.
#[inline(always)]
pub fn encode(block: &[i16; 64], main: &mut BitWriter, side: &mut BitWriter) -> Option<()> {
    let size = |value: i16| 16 - value.unsigned_abs().leading_zeros();
    let mut nonzero = 0u64;
    for (index, &position) in POSITIONS.iter().enumerate().skip(1) {
        nonzero |= u64::from(block[usize::from(position)] != 0) << index;
    }
    let last = 63 - (nonzero | 1).leading_zeros();
    let before = last.saturating_sub(1);
    main.put(last.into(), 6);
    main.put(nonzero >> 1 & ((1 << before) - 1), before);

    let dc_size = size(block[0]);
    if dc_size > MAX_DC_SIZE {
        return None;
    }
    let dc = (block[0] - i16::from(block[0] < 0)) as u64 & ((1 << dc_size) - 1);
    side.put(u64::from(dc_size) | dc << 4, 4 + dc_size);

    // The absolute values, and their sizes, of the coefficients that the next plane has bits of.
    let (mut values, mut sizes, mut count, mut signs) = ([0_u16; 64], [0; 64], 0, 0_u64);
    let mut rest = spread(nonzero);
    while rest != 0 {
        let value = block[rest.trailing_zeros() as usize & 63];
        signs |= u64::from(value < 0) << count;
        values[count & 63] = value.unsigned_abs();
        sizes[count & 63] = size(value);
        count += 1;
        rest &= rest - 1;
    }
    side.put(signs, count as u32);
    if sizes.iter().any(|&size| size > MAX_AC_SIZE) {
        return None;
    }
    let mut known = 1;
    while count > 0 {
        let (mut larger, mut bits, mut kept) = (0u64, 0u64, 0);
        for n in 0..count {
            let (value, size) = (values[n & 63], sizes[n & 63]);
            let is_larger = u64::from(size > known);
            larger |= is_larger << n;
            bits |= (u64::from(value) >> (size.wrapping_sub(known + 1) & 15) & is_larger) << kept;
            (values[kept & 63], sizes[kept & 63]) = (value, size);
            kept += is_larger as usize;
        }
        main.put(larger, count as u32);
        side.put(bits, kept as u32);
        count = kept;
        known += 1;
    }
    Some(())
}

/// The forms for x86-64.
///
/// Most blocks have coefficients of at most [`LEVELS`] bits, whose planes fit into one read of each stream. They are
/// decoded without a branch, 64 coefficients of 8 bits at once; the other blocks plane by plane, in 16 bits.
#[cfg(target_arch = "x86_64")]
mod x86 {
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
                    let (mut further, mut last_places): (Further, u64) =
                        ([[0; 2]; LEVELS - 1], places);
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
        let order = _mm256_setr_epi64x(
            0,
            0x0101_0101_0101_0101,
            0x0202_0202_0202_0202,
            0x0303_0303_0303_0303,
        );
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random_blocks(u: &mut arbitrary::Unstructured<'_>) -> arbitrary::Result<Vec<[i16; 64]>> {
        let mut blocks = vec![];
        for _ in 0..u.int_in_range(0..=20)? {
            let mut block = [0; 64];
            let (share, largest) =
                (u.int_in_range(1..=64)?, *u.choose(&[1, 3, 15, 16, 31, 32, 300, 1023])?);
            block[0] = u.int_in_range(-2047..=2047)?;
            for value in &mut block[1..] {
                if u.ratio(share, 64)? {
                    *value = u.int_in_range(-largest..=largest)?;
                }
            }
            blocks.push(block);
        }
        Ok(blocks)
    }

    fn encoded(blocks: &[[i16; 64]]) -> [Vec<u8>; 2] {
        let (mut main, mut side) = (BitWriter::default(), BitWriter::default());
        blocks.iter().for_each(|block| encode(block, &mut main, &mut side).unwrap());
        [main, side].map(|mut stream| {
            stream.align();
            stream.bytes
        })
    }

    fn decoded(
        form: Form,
        streams: &[Vec<u8>; 2],
        count: usize,
    ) -> Option<(Vec<[i16; 64]>, [usize; 2])> {
        let lengths = [streams[0].len(), streams[1].len()];
        let padded = streams.clone().map(|mut stream| {
            stream.resize(stream.len() + SLACK, 0);
            stream
        });
        let mut blocks = vec![[7; 64]; count];
        let ends = decode(form, [&padded[0], &padded[1]], lengths, &mut blocks)?;
        Some((blocks, ends))
    }

    #[test]
    fn every_form_returns_the_blocks_that_were_encoded() {
        arbtest::arbtest(|u| {
            let blocks = random_blocks(u)?;
            let streams = encoded(&blocks);
            let lengths = [streams[0].len(), streams[1].len()];
            for form in Form::available() {
                let found = decoded(form, &streams, blocks.len());
                assert_eq!(found, Some((blocks.clone(), lengths)), "{form:?}");
            }
            Ok(())
        })
        .budget_ms(2000);
    }

    #[test]
    fn every_form_refuses_the_same_bytes() {
        let mut refused = [0; 2];
        arbtest::arbtest(|u| {
            let blocks = random_blocks(u)?;
            let mut streams = encoded(&blocks);
            for stream in &mut streams {
                if u.ratio(1, 4)? {
                    stream.truncate(u.int_in_range(0..=stream.len())?);
                }
                for _ in 0..u.int_in_range(0..=3)? {
                    let Some(last) = stream.len().checked_sub(1) else { break };
                    stream[u.int_in_range(0..=last)?] = u.arbitrary()?;
                }
            }
            let count = blocks.len() + usize::from(u.ratio(1, 8)?);
            let expected = decoded(Form(Kind::Portable), &streams, count);
            refused[usize::from(expected.is_none())] += 1;
            for form in Form::available() {
                assert_eq!(decoded(form, &streams, count), expected, "{form:?}");
            }
            Ok(())
        })
        .budget_ms(2000);
        assert!(refused.iter().all(|&cases| cases > 10), "{refused:?}");
    }

    /// Main: `last` is 2, the coefficient before it is 0, its size is 2 or more, but not 3. Side: a DC difference of -2
    /// has 2 bits, the coefficient is negative, and its second bit is 1.
    #[test]
    fn the_bits_of_a_block_are_those_of_the_format() {
        let mut block = [0; 64];
        (block[0], block[usize::from(POSITIONS[2])]) = (-2, -3);
        assert_eq!(encoded(&[block]), [vec![0b1000_0010, 0], vec![0b1101_0010]]);
    }

    /// A record that was written must be read for ever, so the order of the planes must not change.
    #[test]
    fn the_order_of_the_planes_is_the_formats() {
        #[rustfmt::skip]
        let order = [
             0,  4, 32, 16, 36,  2, 12, 34, 20, 33,  1, 37, 18, 44,  8,  6,
            40, 28, 35,  5, 48, 17, 52,  3, 45, 24, 38, 10, 14, 42, 22, 41,
            13, 50, 21, 49, 53, 19, 60,  9, 39, 26, 46, 30, 43,  7, 56, 29,
            51, 61, 25, 54, 11, 47, 15, 58, 23, 57, 55, 27, 62, 31, 59, 63,
        ];
        assert_eq!(POSITIONS, order);
    }

    #[test]
    fn coefficients_of_more_than_8_bit_samples_are_refused() {
        let (mut main, mut side) = (BitWriter::default(), BitWriter::default());
        for (index, value, ok) in
            [(0, 2047, true), (0, -2048, false), (9, -1023, true), (9, 1024, false)]
        {
            let mut block = [0; 64];
            block[index] = value;
            assert_eq!(encode(&block, &mut main, &mut side).is_some(), ok, "{value} at {index}");
        }
    }
}
