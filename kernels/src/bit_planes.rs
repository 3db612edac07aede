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

#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

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
    Avx2,
    /// With AVX-512 as CPUs with BITALG have it: Intel's since Ice Lake, AMD's since Zen 4.
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
