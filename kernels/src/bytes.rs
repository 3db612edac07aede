//! Rows of bytes of which each becomes another byte by itself: copies, inversions, and look-ups in tables of 256 bytes.
//!
//! ```text
//! 64 bytes ──[pixels reversed]──▶ look-up, or `(byte & keep) ^ inverted` ──▶ 64 bytes
//! ```
//!
//! Where pixels matter, a group has as many whole ones as a vector holds: 63 bytes of RGB pixels. All 64 bytes are
//! stored, and the next group overwrites the last one. With AVX-512, a look-up takes four registers for a table.
//! Without it, there are vectors only for maps that need no table.

#![allow(unsafe_code, reason = "loads and stores of vectors inside rows whose length is checked")]

use crate::cpu::{CpuWork, for_cpu};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// The levels of a byte.
const LEVELS: usize = 256;

/// The most channels of a pixel.
const CHANNELS: usize = 4;

/// A map of the bytes of a pixel: a table for each channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByteMap {
    tables: [[u8; LEVELS]; CHANNELS],
    form: Form,
}

/// The simplest form of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `byte & keep`, inverted if `byte` is `from` or more.
    Bits { keep: u8, from: u16 },
    /// The same table for all channels.
    OneTable,
    /// A table for each channel.
    Tables,
}

impl Form {
    const IDENTITY: Self = Self::Bits { keep: 255, from: 256 };
}

impl Default for ByteMap {
    /// Returns the map that changes nothing.
    fn default() -> Self {
        Self::IDENTITY.clone()
    }
}

impl ByteMap {
    /// The map that changes nothing.
    pub const IDENTITY: &'static Self =
        &Self { tables: [levels(); CHANNELS], form: Form::IDENTITY };

    /// Sets what becomes of each level: `levels` are 256 pixels of `channels` channels.
    ///
    /// # Panics
    ///
    /// If there are not 256 pixels of 1 to 4 channels.
    pub fn set(&mut self, levels: &[u8], channels: usize) {
        assert_eq!(levels.len(), LEVELS * channels, "256 pixels");
        match channels {
            1 => for_cpu(Tables::<1> { levels, to: &mut self.tables }),
            2 => for_cpu(Tables::<2> { levels, to: &mut self.tables }),
            3 => for_cpu(Tables::<3> { levels, to: &mut self.tables }),
            _ => for_cpu(Tables::<4> { levels, to: &mut self.tables }),
        }
        let [first, others @ ..] = &self.tables[..channels] else { return };
        let is_one = others.iter().all(|other| other == first);
        self.form = match for_cpu(Bits(first)).filter(|_| is_one) {
            Some(bits) => bits,
            None if is_one => Form::OneTable,
            None => Form::Tables,
        };
    }

    /// Returns what becomes of a byte of channel `c`.
    #[must_use]
    pub fn of(&self, byte: u8, c: usize) -> u8 {
        self.tables[c][usize::from(byte)]
    }

    /// Returns true if the map needs no table.
    #[must_use]
    pub fn is_simple(&self) -> bool {
        matches!(self.form, Form::Bits { .. })
    }
}

/// Returns the bytes 0 to 255.
const fn levels() -> [u8; LEVELS] {
    let mut levels = [0; LEVELS];
    let mut level = 0;
    while level < LEVELS {
        levels[level] = level as u8;
        level += 1;
    }
    levels
}

/// Copies the channels of 256 pixels to tables.
struct Tables<'a, const C: usize> {
    levels: &'a [u8],
    to: &'a mut [[u8; LEVELS]; CHANNELS],
}

impl<const C: usize> CpuWork for Tables<'_, C> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let pixels = self.levels.as_chunks::<C>().0;
        for (c, table) in self.to.iter_mut().take(C).enumerate() {
            for (to, pixel) in table.iter_mut().zip(pixels) {
                *to = pixel[c];
            }
        }
    }
}

/// Finds the form of a table that is `(byte & keep) ^ inverted`, if it is.
struct Bits<'a>(&'a [u8; LEVELS]);

impl CpuWork for Bits<'_> {
    type Output = Option<Form>;

    #[inline(always)]
    fn run(self) -> Option<Form> {
        let levels = || (0..=255u8).zip(self.0);
        let first = levels().find(|(level, to)| level != *to);
        let from = first.map_or(256, |(level, _)| u16::from(level));
        // All levels are compared: a loop that may end early has no vectors.
        let inverted = |level: u8| if u16::from(level) >= from { !level } else { level };
        if levels().fold(0, |wrong, (level, to)| wrong | (to ^ inverted(level))) == 0 {
            return Some(Form::Bits { keep: 255, from });
        }
        let keep = self.0[255];
        let wrong = levels().fold(0, |wrong, (level, to)| wrong | (to ^ (level & keep)));
        (wrong == 0).then_some(Form::Bits { keep, from: 256 })
    }
}

/// Returns true if the CPU looks bytes up in registers.
#[must_use]
pub fn has_tables() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512vbmi");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Rows of pixels of bytes.
#[derive(Clone, Copy, Debug)]
pub struct ByteRows<'a> {
    /// The memory of the rows.
    pub pixels: &'a [u8],
    /// The first byte of the first row.
    pub first: usize,
    /// The bytes from a row to the next.
    pub step: isize,
    /// The bytes of a row.
    pub bytes: usize,
    /// The channels of a pixel: 1 to 4.
    pub channels: usize,
    /// True if the pixels of each row are reversed.
    pub mirrored: bool,
    /// True if vectors of 512 bits may be used, if the CPU has them.
    pub wide: bool,
}

impl<'a> ByteRows<'a> {
    fn row(&self, y: usize) -> &'a [u8] {
        let first = self.first.wrapping_add_signed(self.step.wrapping_mul(y as isize));
        &self.pixels[first..][..self.bytes]
    }
}

/// Writes `count` rows to `to`, each `step` bytes after the one before. What lies between the rows is left as it is.
///
/// # Panics
///
/// If a row is not inside the memory of `rows`, or of `to`, or is not of whole pixels.
pub fn map_rows(map: &ByteMap, rows: ByteRows<'_>, count: usize, (to, step): (&mut [u8], usize)) {
    assert!((1..=CHANNELS).contains(&rows.channels), "channels");
    assert!(rows.bytes.is_multiple_of(rows.channels), "whole pixels");
    assert!(rows.bytes <= step, "rows do not overlap");
    // Adjacent rows are one row.
    let is_one = !rows.mirrored && rows.step == rows.bytes as isize && step == rows.bytes;
    let (rows, count, step) = if is_one && count > 0 {
        let bytes = rows.bytes * count;
        (ByteRows { bytes, ..rows }, 1, bytes)
    } else {
        (rows, count, step)
    };
    if !rows.mirrored && map.form == Form::IDENTITY {
        for y in 0..count {
            to[y * step..][..rows.bytes].copy_from_slice(rows.row(y));
        }
        return;
    }
    #[cfg(target_arch = "x86_64")]
    {
        if rows.wide && has_tables() {
            // SAFETY: the CPU has AVX-512 with BW and VBMI.
            return unsafe { wide::map_rows(map, rows, count, (to, step)) };
        }
        if let (Form::Bits { keep, from }, true) =
            (map.form, std::arch::is_x86_feature_detected!("avx2"))
        {
            // SAFETY: the CPU has AVX2.
            return unsafe { bits_of_rows((keep, from), rows, count, (to, step)) };
        }
    }
    for y in 0..count {
        map_row(map, rows, rows.row(y), &mut to[y * step..][..rows.bytes]);
    }
}

/// The definition of [`map_rows`] for a row.
fn map_row(map: &ByteMap, rows: ByteRows<'_>, from: &[u8], to: &mut [u8]) {
    if let (Form::Bits { keep, from: first }, false) = (map.form, rows.mirrored) {
        let (least, inverts) = (first.min(255) as u8, if first > 255 { 0 } else { 255 });
        for (to, byte) in to.iter_mut().zip(from) {
            *to = (byte & keep) ^ if *byte >= least { inverts } else { 0 };
        }
        return;
    }
    let of_pixel = |(to, from): (&mut [u8], &[u8])| {
        let bytes = to.iter_mut().zip(from).zip(&map.tables);
        bytes.for_each(|((to, byte), table)| *to = table[usize::from(*byte)]);
    };
    let pixels = to.chunks_exact_mut(rows.channels);
    if rows.mirrored {
        pixels.zip(from.chunks_exact(rows.channels).rev()).for_each(of_pixel);
    } else {
        pixels.zip(from.chunks_exact(rows.channels)).for_each(of_pixel);
    }
}

/// The byte of a group that byte `i` of the mirrored group is. A group has `pixels` pixels.
#[cfg(target_arch = "x86_64")]
const fn mirrored_byte(i: usize, pixels: usize, channels: usize) -> usize {
    (pixels - 1 - i / channels) * channels + i % channels
}

/// Writes rows of a map without a table, 32 bytes at a time, or 16 if they are mirrored.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn bits_of_rows(
    (keep, from): (u8, u16),
    rows: ByteRows<'_>,
    count: usize,
    (to, step): (&mut [u8], usize),
) {
    let inverts = if from > 255 { 0 } else { -1 };
    let [keep, least, inverts] =
        [keep as i8, from as u8 as i8, inverts].map(|byte| _mm256_set1_epi8(byte));
    let map = |bytes: __m256i| {
        let is_high = _mm256_cmpeq_epi8(_mm256_max_epu8(bytes, least), bytes);
        _mm256_xor_si256(_mm256_and_si256(bytes, keep), _mm256_and_si256(is_high, inverts))
    };
    let low = |bytes: __m128i| _mm256_castsi256_si128(map(_mm256_castsi128_si256(bytes)));
    let (pixels, channels) = (16 / rows.channels, rows.channels);
    // The group's pixels are the last ones of 16 bytes.
    let order: [u8; 16] = std::array::from_fn(|i| match i < pixels * channels {
        true => (16 - pixels * channels + mirrored_byte(i, pixels, channels)) as u8,
        false => 0x80,
    });
    // SAFETY: 16 bytes.
    let order = unsafe { _mm_loadu_si128(order.as_ptr().cast()) };
    for y in 0..count {
        let (from, to) = (rows.row(y), &mut to[y * step..][..rows.bytes]);
        let len = from.len();
        let mut done = 0;
        if rows.mirrored {
            while len - done >= 16 {
                // SAFETY: 16 bytes end at `len - done`, and 16 bytes begin at `done`.
                unsafe {
                    let bytes = _mm_loadu_si128(from.as_ptr().add(len - done - 16).cast());
                    let mapped = low(_mm_shuffle_epi8(bytes, order));
                    _mm_storeu_si128(to.as_mut_ptr().add(done).cast(), mapped);
                }
                done += pixels * channels;
            }
        } else {
            while len - done >= 32 {
                // SAFETY: 32 bytes begin at `done`, of both.
                unsafe {
                    let bytes = _mm256_loadu_si256(from.as_ptr().add(done).cast());
                    _mm256_storeu_si256(to.as_mut_ptr().add(done).cast(), map(bytes));
                }
                done += 32;
            }
        }
        // The bytes that are left, in a vector of their own.
        let mut rest = [0; 32];
        let count = len - done;
        if rows.mirrored {
            let pixels = from[..count].chunks_exact(channels).rev();
            rest.chunks_exact_mut(channels)
                .zip(pixels)
                .for_each(|(to, from)| to.copy_from_slice(from));
        } else {
            rest[..count].copy_from_slice(&from[done..]);
        }
        // SAFETY: 32 bytes, read and written.
        unsafe {
            let mapped = map(_mm256_loadu_si256(rest.as_ptr().cast()));
            _mm256_storeu_si256(rest.as_mut_ptr().cast(), mapped);
        }
        to[done..].copy_from_slice(&rest[..count]);
    }
}

/// Rows with AVX-512, of any map.
#[cfg(target_arch = "x86_64")]
mod wide {
    use super::*;

    /// A map in registers, and the bytes of a group that are of the second channel, the third and the fourth.
    #[derive(Clone, Copy)]
    struct Map {
        keep: __m512i,
        from: __m512i,
        inverts: __mmask64,
        tables: [[__m512i; 4]; CHANNELS],
        of_channel: [__mmask64; CHANNELS],
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    pub(super) fn map_rows(
        map: &ByteMap,
        rows: ByteRows<'_>,
        count: usize,
        to: (&mut [u8], usize),
    ) {
        let (keep, from) = match map.form {
            Form::Bits { keep, from } => (keep, from),
            _ => (255, 256),
        };
        let load = |bytes: &[u8; 64]| {
            // SAFETY: 64 bytes.
            unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
        };
        let mut tables = [[_mm512_setzero_si512(); 4]; CHANNELS];
        for (to, table) in tables.iter_mut().zip(&map.tables) {
            for (to, bytes) in to.iter_mut().zip(table.as_chunks::<64>().0) {
                *to = load(bytes);
            }
        }
        let channels = rows.channels;
        let mut of_channel = [0; CHANNELS];
        for byte in 0..64 {
            of_channel[byte % channels] |= 1 << byte;
        }
        let inverts = if from > 255 { 0 } else { u64::MAX };
        let [keep, from] = [keep, from as u8].map(|byte| _mm512_set1_epi8(byte as i8));
        let map = (map.form, Map { keep, from, inverts, tables, of_channel });
        match (map, rows.mirrored) {
            ((Form::Bits { .. }, map), false) => each_row::<0, false>(map, rows, count, to),
            ((Form::Bits { .. }, map), true) => each_row::<0, true>(map, rows, count, to),
            ((Form::OneTable, map), false) => each_row::<1, false>(map, rows, count, to),
            ((Form::OneTable, map), true) => each_row::<1, true>(map, rows, count, to),
            ((Form::Tables, map), false) => each_row::<2, false>(map, rows, count, to),
            ((Form::Tables, map), true) => each_row::<2, true>(map, rows, count, to),
        }
    }

    /// Writes the rows of a map with no table (`TABLES` is 0), with one, or with one for each channel (2).
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn each_row<const TABLES: usize, const MIRRORED: bool>(
        map: Map,
        rows: ByteRows<'_>,
        count: usize,
        (to, step): (&mut [u8], usize),
    ) {
        let channels = rows.channels;
        let pixels = 64 / channels;
        // Where neither the order of pixels nor their channels matter, a group need not have whole pixels.
        let group = if MIRRORED || TABLES == 2 { pixels * channels } else { 64 };
        let order: [u8; 64] = std::array::from_fn(|i| match i < pixels * channels {
            true => mirrored_byte(i, pixels, channels) as u8,
            false => 63,
        });
        // SAFETY: 64 bytes.
        let order = unsafe { _mm512_loadu_si512(order.as_ptr().cast()) };
        for y in 0..count {
            let (from, to) = (rows.row(y), &mut to[y * step..][..rows.bytes]);
            let (from, len, to) = (from.as_ptr(), from.len(), to.as_mut_ptr());
            let mut done = 0;
            while done < len {
                let taken = group.min(len - done);
                let bytes = if MIRRORED {
                    // The pixels that there are end at `len - done`; the mask leaves out those before the row.
                    let mask = (u64::MAX >> (64 - taken)) << (group - taken);
                    let first = from.wrapping_add(len - done).wrapping_sub(group);
                    // SAFETY: the mask has the `taken` bytes that end at `len - done`, which are in the row.
                    let bytes = unsafe { _mm512_maskz_loadu_epi8(mask, first.cast()) };
                    _mm512_permutexvar_epi8(order, bytes)
                } else if len - done >= 64 {
                    // SAFETY: 64 bytes begin at `done`.
                    unsafe { _mm512_loadu_si512(from.add(done).cast()) }
                } else {
                    // SAFETY: the mask has the bytes that are left.
                    unsafe {
                        let mask = u64::MAX >> (64 - taken);
                        _mm512_maskz_loadu_epi8(mask, from.add(done).cast())
                    }
                };
                let mapped = match TABLES {
                    0 => {
                        let high = _mm512_cmpge_epu8_mask(bytes, map.from) & map.inverts;
                        let kept = _mm512_and_si512(bytes, map.keep);
                        let ones = _mm512_maskz_set1_epi8(high, -1);
                        _mm512_xor_si512(kept, ones)
                    }
                    1 => look_up(&map.tables[0], bytes),
                    _ => {
                        let mut mapped = look_up(&map.tables[0], bytes);
                        for c in 1..channels {
                            let own = look_up(&map.tables[c], bytes);
                            mapped = _mm512_mask_mov_epi8(mapped, map.of_channel[c], own);
                        }
                        mapped
                    }
                };
                // SAFETY: 64 bytes begin at `done`, or the mask has the bytes that are left.
                unsafe {
                    if len - done >= 64 {
                        _mm512_storeu_si512(to.add(done).cast(), mapped);
                    } else {
                        let mask = u64::MAX >> (64 - taken);
                        _mm512_mask_storeu_epi8(to.add(done).cast(), mask, mapped);
                    }
                }
                done += taken;
            }
        }
    }

    /// Looks bytes up in a table of 256.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn look_up(table: &[__m512i; 4], bytes: __m512i) -> __m512i {
        let low = _mm512_permutex2var_epi8(table[0], bytes, table[1]);
        let high = _mm512_permutex2var_epi8(table[2], bytes, table[3]);
        _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(bytes), high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maps of every form.
    fn maps(channels: usize) -> Vec<ByteMap> {
        let mut maps = vec![ByteMap::default()];
        let mut add = |f: &dyn Fn(u8, usize) -> u8| {
            let pixels = (0..=255u8).flat_map(|level| (0..channels).map(move |c| (level, c)));
            let levels: Vec<u8> = pixels.map(|(level, c)| f(level, c)).collect();
            let mut map = ByteMap::default();
            map.set(&levels, channels);
            maps.push(map);
        };
        add(&|level, _| !level);
        add(&|level, _| level & 0xE0);
        for from in [1, 100, 128, 200, 255] {
            add(&|level, _| if level >= from { !level } else { level });
        }
        add(&|level, _| level.wrapping_mul(37).rotate_left(3));
        add(&|level, c| level.wrapping_mul(31 + 2 * c as u8) ^ c as u8);
        maps
    }

    #[test]
    fn a_map_has_its_simplest_form() {
        let forms: Vec<Form> = maps(3).iter().map(|map| map.form).collect();
        let inverts = |from| Form::Bits { keep: 255, from };
        assert_eq!(forms[..3], [inverts(256), inverts(0), Form::Bits { keep: 0xE0, from: 256 }]);
        assert_eq!(forms[3..8], [1, 100, 128, 200, 255].map(inverts));
        assert_eq!(forms[8..], [Form::OneTable, Form::Tables]);
        let none = vec![7; LEVELS];
        let mut map = ByteMap::default();
        map.set(&none, 1);
        assert_eq!((map.form, map.of(3, 0)), (Form::OneTable, 7));
    }

    #[test]
    fn rows_of_vectors_are_the_plain_ones() {
        for channels in 1..=4 {
            for map in maps(channels) {
                for width in (0..70).chain([127, 200, 301]) {
                    for mirrored in [false, true] {
                        check(&map, channels, width, mirrored);
                    }
                }
            }
        }
    }

    /// Three rows upside down, with gaps in both images.
    fn check(map: &ByteMap, channels: usize, width: usize, mirrored: bool) {
        let (bytes, stride, step) = (width * channels, width * channels + 5, width * channels + 3);
        let pixels: Vec<u8> = (0..3 * stride).map(|i| (i * 89 % 256) as u8).collect();
        let first = 2 * stride;
        let rows = ByteRows {
            pixels: &pixels[..first + bytes],
            first,
            step: -(stride as isize),
            bytes,
            channels,
            mirrored,
            wide: true,
        };
        let mut want = vec![0xAA; 2 * step + bytes];
        for y in 0..3 {
            map_row(map, rows, rows.row(y), &mut want[y * step..][..bytes]);
        }
        let mut found = vec![0xAA; 2 * step + bytes];
        map_rows(map, rows, 3, (&mut found, step));
        assert_eq!(found, want, "{channels} channels, {width} columns, {:?}", map.form);
        found.fill(0xAA);
        map_rows(map, ByteRows { wide: false, ..rows }, 3, (&mut found, step));
        assert_eq!(found, want, "not wide, {channels} channels, {width} columns, {:?}", map.form);
    }
}
