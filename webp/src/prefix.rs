//! Prefix codes (RFC 9649, sections 3.7.2 and 3.7.3), and their tables.
//!
//! A code is read by a table of its shortest codewords: the next bits are the index of an entry, which has the symbol and the
//! length of its codeword. Longer codewords begin with those bits of an entry that leads to a second table.
//!
//! | bits of an entry | of a symbol              | that leads to a second table           |
//! |------------------|--------------------------|----------------------------------------|
//! | 0..8             | length of the codeword   | bits of the first table                |
//! | 8..12            | 0                        | bits of the second table               |
//! | 12..31           | symbol, from bit 16 on   | its start, from that of the first table |
//! | 31               | 0                        | 1                                      |
//!
//! The codes of red, blue and alpha have one more table in common, whose entries have all three symbols, where their
//! codewords together are short: a pixel then takes two look-ups. See [`Group`].

use crate::LosslessError;
use crate::bits::BitReader;

/// The lengths of codewords.
const MOST_LENGTH: usize = 15;

/// The symbols of lengths and distances.
pub(crate) const LENGTHS: usize = 24;
const DISTANCES: usize = 40;

/// The symbols of the green code that are colours.
pub(crate) const COLORS: usize = 256;

/// The most symbols of a code: with the largest colour cache.
const MOST_SYMBOLS: usize = COLORS + LENGTHS + (1 << 11);

/// The bits of the table of the code of lengths.
const LENGTH_TABLE_BITS: u32 = 7;

/// An entry that leads to a second table.
const SECOND: u32 = 1 << 31;

/// The first entry that is no colour.
pub(crate) const NO_COLOR: u32 = (COLORS as u32) << 16;

/// A bit of an entry of [`Group::rest`] that has no pixel.
pub(crate) const MISS: u32 = 1 << 7;

/// The most entries of all codes of an image. Those of libwebp have at most some 2600 groups.
const MOST_ENTRIES: usize = 1 << 25;

/// The order in which the lengths of the code of lengths are stored.
const ORDER: [u8; 19] = [17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// The place of a code's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Code {
    start: u32,
    /// The entries of the first table, less one.
    mask: u32,
    /// The longest codeword; 0 if the code has one symbol, which then takes no bits.
    longest: u32,
}

/// The codes of a group of pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) green: Code,
    pub(crate) red: Code,
    pub(crate) blue: Code,
    pub(crate) alpha: Code,
    pub(crate) distance: Code,
    /// Red, blue and alpha: an entry has their bits in its lowest byte, and blue, red and alpha above, or [`MISS`].
    pub(crate) rest: Code,
}

/// The tables of an image's codes.
#[derive(Debug)]
pub(crate) struct Tables {
    entries: Vec<u32>,
    lengths: [u8; MOST_SYMBOLS],
    /// The symbols that have codewords, the shortest first.
    sorted: [u16; MOST_SYMBOLS],
}

impl Default for Tables {
    fn default() -> Self {
        Self { entries: vec![], lengths: [0; MOST_SYMBOLS], sorted: [0; MOST_SYMBOLS] }
    }
}

/// The entries of a code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entries<'a> {
    entries: &'a [u32],
    mask: usize,
}

impl Entries<'_> {
    /// Returns the first entry of the next bits.
    #[inline(always)]
    pub(crate) fn first(&self, bits: &BitReader<'_>) -> u32 {
        self.entries[bits.window() as usize & self.mask]
    }

    /// Returns the entry of a symbol, and skips the bits of the first table if `first` leads to a second one.
    #[inline(always)]
    pub(crate) fn last(&self, first: u32, bits: &mut BitReader<'_>) -> u32 {
        if first & SECOND == 0 {
            return first;
        }
        bits.skip(first & 0xff);
        let mask = (1_usize << (first >> 8 & 15)) - 1;
        self.entries[(first >> 12 & 0x7_ffff) as usize + (bits.window() as usize & mask)]
    }

    /// Reads a symbol, whose bits must be valid.
    #[inline(always)]
    pub(crate) fn symbol(&self, bits: &mut BitReader<'_>) -> u32 {
        let entry = self.last(self.first(bits), bits);
        bits.skip(entry & 0xff);
        entry >> 16
    }
}

impl Tables {
    /// Forgets the codes of the image before.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    #[inline(always)]
    pub(crate) fn of(&self, code: Code) -> Entries<'_> {
        Entries { entries: &self.entries[code.start as usize..], mask: code.mask as usize }
    }

    /// Reads the codes of a group that about `pixels` pixels are read with; 0 if they are not to be kept.
    pub(crate) fn read_group(
        &mut self,
        bits: &mut BitReader<'_>,
        cache_size: usize,
        pixels: usize,
    ) -> Result<Group, LosslessError> {
        let start = self.entries.len();
        let (first, rest) = table_bits(pixels);
        let mut read = |symbols| self.read_code(bits, symbols, first);
        let mut group = Group {
            green: read(COLORS + LENGTHS + cache_size)?,
            red: read(COLORS)?,
            blue: read(COLORS)?,
            alpha: read(COLORS)?,
            distance: read(DISTANCES)?,
            rest: Code::default(),
        };
        if pixels == 0 {
            self.entries.truncate(start);
            return Ok(group);
        }
        group.rest = self.combine(bits, &group, rest)?;
        Ok(group)
    }

    /// Reads a code of `symbols` symbols.
    fn read_code(
        &mut self,
        bits: &mut BitReader<'_>,
        symbols: usize,
        table_bits: u32,
    ) -> Result<Code, LosslessError> {
        self.lengths[..symbols.max(COLORS)].fill(0);
        if bits.flag() {
            let has_two = bits.flag();
            let first_bits = if bits.flag() { 8 } else { 1 };
            self.lengths[bits.read(first_bits) as usize] = 1;
            if has_two {
                self.lengths[bits.read(8) as usize] = 1;
            }
        } else {
            self.read_lengths(bits, symbols)?;
        }
        bits.check("its prefix codes")?;
        self.build(symbols, table_bits).map_err(|fault| fault.at(bits))
    }

    /// Reads the lengths of codewords, which are written in a code of their own.
    fn read_lengths(
        &mut self,
        bits: &mut BitReader<'_>,
        symbols: usize,
    ) -> Result<(), LosslessError> {
        let count = bits.read(4) as usize + 4;
        let mut own = [0; ORDER.len()];
        for &symbol in &ORDER[..count] {
            own[usize::from(symbol)] = bits.read(3) as u8;
        }
        self.lengths[..own.len()].copy_from_slice(&own);
        let start = self.entries.len();
        let code = self.build(own.len(), LENGTH_TABLE_BITS).map_err(|fault| fault.at(bits))?;
        self.lengths[..own.len()].fill(0);
        let (entries, lengths) = (&self.entries[start..], &mut self.lengths);
        let mut left = symbols;
        if bits.flag() {
            let length_bits = 2 + 2 * bits.read(3);
            left = 2 + bits.read(length_bits) as usize;
            if left > symbols {
                return Err(bits.damaged("a prefix code has more lengths than symbols"));
            }
        }
        let (mut at, mut last) = (0, 8);
        while at < symbols && left > 0 {
            left -= 1;
            bits.fill();
            let entry = entries[bits.window() as usize & code.mask as usize];
            bits.skip(entry & 0xff);
            let (value, times) = match entry >> 16 {
                16 => (last, 3 + bits.take(2)),
                17 => (0, 3 + bits.take(3)),
                18 => (0, 11 + bits.take(7)),
                length => {
                    last = if length == 0 { last } else { length as u8 };
                    lengths[at] = length as u8;
                    at += 1;
                    continue;
                }
            };
            let end = at + times as usize;
            if end > symbols {
                return Err(bits.damaged("a prefix code has more lengths than symbols"));
            }
            lengths[at..end].fill(value);
            at = end;
        }
        self.entries.truncate(start);
        Ok(())
    }

    /// Makes the tables of the lengths of `symbols` symbols, the first of at most `most` bits.
    fn build(&mut self, symbols: usize, most: u32) -> Result<Code, Fault> {
        let mut counts = [0_u32; MOST_LENGTH + 1];
        for &length in &self.lengths[..symbols] {
            counts[usize::from(length & 15)] += 1;
        }
        let used = symbols as u32 - counts[0];
        counts[0] = 0;
        let Some(longest) = counts.iter().rposition(|&count| count > 0) else {
            return Err(Fault::Empty);
        };
        let mut next = [0; MOST_LENGTH + 1];
        for length in 1..MOST_LENGTH {
            next[length + 1] = next[length] + counts[length] as usize;
        }
        for (symbol, &length) in self.lengths[..symbols].iter().enumerate() {
            if length > 0 {
                let next = &mut next[usize::from(length & 15)];
                self.sorted[*next] = symbol as u16;
                *next += 1;
            }
        }
        let start = self.entries.len();
        if used == 1 {
            self.grow(1)?;
            self.entries[start] = u32::from(self.sorted[0]) << 16;
            return Ok(Code { start: start as u32, mask: 0, longest: 0 });
        }
        // Every sequence of bits must begin with one codeword.
        let space: u32 =
            (1..).zip(&counts[1..]).map(|(length, count)| count << (15 - length)).sum();
        if space != 1 << MOST_LENGTH {
            return Err(Fault::Space);
        }
        let bits = (longest as u32).min(most);
        self.grow(1 << bits)?;
        let code = Code { start: start as u32, mask: (1 << bits) - 1, longest: longest as u32 };
        self.fill(code, bits, &mut counts)?;
        Ok(code)
    }

    /// Fills the tables of a complete code. `counts` has the codewords by their lengths, and loses them.
    fn fill(
        &mut self,
        code: Code,
        bits: u32,
        counts: &mut [u32; MOST_LENGTH + 1],
    ) -> Result<(), Fault> {
        let start = code.start as usize;
        // A codeword, its first bit the lowest one. The next one adds 1 to its last bit.
        let mut word = 0_u32;
        let after = |word: u32, length: u32| {
            let zeros = word ^ ((1 << length) - 1);
            let highest = 1 << (31 - (zeros | 1).leading_zeros());
            if zeros == 0 { 0 } else { word & (highest - 1) | highest }
        };
        let mut sorted = 0;
        let table = &mut self.entries[start..][..1 << bits];
        for length in 1..=bits {
            // Shorter codewords are followed by a 0 and by a 1.
            let (low, high) = table[..1 << length].split_at_mut(1 << (length - 1));
            high.copy_from_slice(low);
            for &symbol in &self.sorted[sorted..][..counts[length as usize] as usize] {
                table[word as usize] = u32::from(symbol) << 16 | length;
                word = after(word, length);
            }
            sorted += counts[length as usize] as usize;
        }
        let (mut second, mut second_bits, mut prefix) = (0, 0, u32::MAX);
        for length in bits + 1..=code.longest {
            while counts[length as usize] > 0 {
                if word & code.mask != prefix {
                    prefix = word & code.mask;
                    second_bits = length - bits;
                    let mut room = counts[length as usize];
                    while room < 1 << second_bits && bits + second_bits < code.longest {
                        second_bits += 1;
                        room = 2 * room + counts[(bits + second_bits) as usize];
                    }
                    second = self.entries.len() - start;
                    self.grow(1 << second_bits)?;
                    self.entries[start + prefix as usize] =
                        SECOND | (second as u32) << 12 | second_bits << 8 | bits;
                }
                let entry = u32::from(self.sorted[sorted]) << 16 | (length - bits);
                let table = &mut self.entries[start + second..][..1 << second_bits];
                for at in ((word >> bits) as usize..table.len()).step_by(1 << (length - bits)) {
                    table[at] = entry;
                }
                word = after(word, length);
                sorted += 1;
                counts[length as usize] -= 1;
            }
        }
        Ok(())
    }

    /// Makes the table of red, blue and alpha, of at most `most` bits.
    fn combine(
        &mut self,
        reader: &BitReader<'_>,
        group: &Group,
        most: u32,
    ) -> Result<Code, LosslessError> {
        let longest = group.red.longest + group.blue.longest + group.alpha.longest;
        let bits = longest.min(most);
        let start = self.entries.len();
        self.grow(1 << bits).map_err(|fault| fault.at(reader))?;
        let (entries, table) = self.entries.split_at_mut(start);
        let [red, blue, alpha] = [group.red, group.blue, group.alpha].map(|code| Entries {
            entries: &entries[code.start as usize..],
            mask: code.mask as usize,
        });
        for (at, entry) in table.iter_mut().enumerate() {
            let [mut sum, mut number, mut left] = [0, 0, at as u32];
            // In the order of the stream; each symbol is shifted to its byte.
            for (code, shift) in [(red, 16), (blue, 8), (alpha, 24)] {
                let found = code.entries[left as usize & code.mask];
                sum += if found & SECOND == 0 { found & 0xff } else { 0x40 };
                number |= (found >> 16 & 0xff) << shift;
                left >>= found & 0xff & 31;
            }
            *entry = if sum <= bits { number | sum } else { MISS };
        }
        Ok(Code { start: start as u32, mask: (1 << bits) - 1, longest })
    }

    /// Adds entries.
    fn grow(&mut self, more: usize) -> Result<(), Fault> {
        let len = self.entries.len() + more;
        if len > MOST_ENTRIES {
            return Err(Fault::Many);
        }
        self.entries.try_reserve(more).map_err(|_| Fault::NoMemory { bytes: 4 * len })?;
        self.entries.resize(len, 0);
        Ok(())
    }
}

/// Returns the bits of the first table of each code, and of that of red, blue and alpha. Tables are made for each group: with
/// few pixels, small ones are faster.
fn table_bits(pixels: usize) -> (u32, u32) {
    let log = usize::BITS - pixels.leading_zeros();
    (log.saturating_sub(4).clamp(6, 9), log.saturating_sub(3).clamp(0, 10))
}

/// A reason why there is no table.
enum Fault {
    Empty,
    Space,
    Many,
    NoMemory { bytes: usize },
}

impl Fault {
    fn at(self, bits: &BitReader<'_>) -> LosslessError {
        self.error(bits.byte())
    }

    fn error(self, byte: usize) -> LosslessError {
        let reason = match self {
            Self::Empty => "a prefix code has no symbol",
            Self::Space => {
                "the codewords of a prefix code are more or fewer than their lengths allow"
            }
            Self::Many => "its prefix codes need more than 128 MiB",
            Self::NoMemory { bytes } => return LosslessError::NoMemory { bytes },
        };
        LosslessError::Damaged { byte, reason }
    }
}
