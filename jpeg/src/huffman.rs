//! Huffman codes (T.81, annex C and F.2.2.3).
//!
//! ```text
//! next bits   code | value's bits | ...        code -> symbol = run:4 size:4
//! ```
//!
//! The codes of a table are ordered by length, and then by number. The first [`LOOKUP_BITS`] bits
//! resolve a shorter code in one lookup, with all that the code says; a longer code is searched by
//! length.

/// Bits that one lookup covers.
const LOOKUP_BITS: u32 = 10;

/// The most bits of a code with its value that one lookup resolves: for two such codes and
/// [`LOOKUP_BITS`] bits more, 56 bits are enough.
const MAX_LOOKUP_BITS: u32 = 23;

/// The meaning of a code.
///
/// | bits   |                                                                           |
/// |-------:|---------------------------------------------------------------------------|
/// |   0..8 | bits of the code and of the value after it                                |
/// |  8..16 | bits of the code                                                          |
/// | 16..24 | bits of the value                                                         |
/// | 24..32 | zeros before it; [`END`](Self::END) and above are not followed by a value |
///
/// After the end of a block of a progressive image, bits count further blocks that end there too (T.81, G.1.2.2): as many
/// as the symbol has for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CodeEntry(u32);

impl CodeEntry {
    /// The rest of the block is zeros; plus the number of bits that count further blocks, up to 14.
    const END: u8 = 64;
    /// Sixteen zeros: the symbol of a run of 15 and no value.
    const ZEROS: u8 = Self::END + 15;
    /// Longer than [`LOOKUP_BITS`] bits, or longer than [`MAX_LOOKUP_BITS`] with its value, or no code.
    const LONG: Self = Self(80 << 24);

    /// Returns whether the code ends a block.
    #[inline(always)]
    pub(crate) fn is_end(self) -> bool {
        (Self::END.into()..Self::ZEROS.into()).contains(&self.run())
    }

    /// Returns the number of bits after the code of a block's end that count further blocks.
    #[inline(always)]
    pub(crate) fn end_bits(self) -> u32 {
        (self.0 >> 24) & 15
    }

    fn new(symbol: u8, code: u32, kind: TableKind) -> Self {
        let size = u32::from(symbol & 15);
        let run = match (kind, symbol) {
            (TableKind::Dc, _) => 0,
            (TableKind::Ac, _) if size == 0 => Self::END + (symbol >> 4),
            (TableKind::Ac, _) => symbol >> 4,
        };
        Self((code + size) | code << 8 | size << 16 | u32::from(run) << 24)
    }

    /// Returns the zeros before the value; [`END`](Self::END) or more for a code without one.
    #[inline(always)]
    pub(crate) fn run(self) -> usize {
        (self.0 >> 24) as usize
    }

    /// Returns the bits of the value.
    #[inline(always)]
    pub(crate) fn size(self) -> u32 {
        self.0 >> 16 & 255
    }

    /// Returns the bits of the code and of its value together.
    #[inline(always)]
    pub(crate) fn bits(self) -> u32 {
        self.0 & 255
    }

    /// Returns the value after the code with which `bits` begin (F.2.2.1, EXTEND).
    #[inline(always)]
    pub(crate) fn value(self, bits: u64) -> i32 {
        let (code, size) = (self.0 >> 8 & 63, self.0 >> 16 & 63);
        let bits = bits << code;
        // A value that begins with 0 is negative: its bits minus 2^size - 1.
        let negative = !((bits as i64) >> 63);
        let value = (bits >> 1 >> (63 - size)) as i64;
        (value + (negative & ((-1 << size) + 1))) as i32
    }
}

/// The meaning of a table's symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableKind {
    /// The size of a difference.
    Dc,
    /// A run of zeros, and the size of a value.
    Ac,
}

/// A table of codes.
#[derive(Clone, Debug)]
pub(crate) struct CodeTable {
    kind: TableKind,
    lookup: [CodeEntry; 1 << LOOKUP_BITS],
    /// For each length, one more than the largest 16 bits that begin with a code of this length; 0 if
    /// there is no such code.
    ends: [u32; 17],
    /// For each length, the index of a code's symbol minus the code.
    offsets: [i32; 17],
    symbols: [u8; 256],
}

/// A code that a lookup does not resolve, or that is not followed by a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rare {
    /// A code with a value.
    Value(CodeEntry),
    /// The end of the block.
    End(CodeEntry),
    /// Sixteen zeros.
    Zeros(CodeEntry),
}

impl CodeTable {
    /// Builds the table from the number of codes of each length from 1 on, and their symbols in order.
    ///
    /// Returns `None` for an impossible table: codes that do not fit into their length, a code of ones
    /// only (which T.81 leaves unused), or a difference of 16 bits.
    pub(crate) fn new(kind: TableKind, counts: &[u8; 16], symbols: &[u8]) -> Option<Self> {
        let mut table = Self {
            kind,
            lookup: [CodeEntry::LONG; 1 << LOOKUP_BITS],
            ends: [0; 17],
            offsets: [0; 17],
            symbols: [0; 256],
        };
        if symbols.len() > 256
            || (kind == TableKind::Dc && symbols.iter().any(|&symbol| symbol > 15))
        {
            return None;
        }
        table.symbols[..symbols.len()].copy_from_slice(symbols);
        let (mut code, mut index) = (0, 0);
        for (length, &count) in (1..=16).zip(counts) {
            let end = code + u32::from(count);
            if count > 0 {
                if end >= 1 << length {
                    return None;
                }
                table.offsets[length as usize] = index as i32 - code as i32;
                table.ends[length as usize] = end << (16 - length);
                let symbols = symbols.get(index..index + usize::from(count))?;
                table.fill(code, length, symbols);
                index += symbols.len();
            }
            code = end << 1;
        }
        (index == symbols.len()).then_some(table)
    }

    /// Returns the code of each symbol and its length; the length 0 for a symbol without a code.
    #[cfg(feature = "write")]
    pub(crate) fn codes(&self) -> [(u16, u8); 256] {
        let (mut codes, mut index) = ([(0, 0); 256], 0);
        for length in 1..=16u8 {
            let end = self.ends[usize::from(length)] >> (16 - length);
            let mut code = (index - self.offsets[usize::from(length)]) as u32;
            while code < end {
                codes[usize::from(self.symbols[index as usize])] = (code as u16, length);
                (code, index) = (code + 1, index + 1);
            }
        }
        codes
    }

    /// Enters the codes of `length`, of which `code` is the first.
    fn fill(&mut self, code: u32, length: u32, symbols: &[u8]) {
        if length > LOOKUP_BITS {
            return;
        }
        let each = 1 << (LOOKUP_BITS - length);
        let entries = self.lookup[code as usize * each..].chunks_exact_mut(each);
        for (entries, &symbol) in entries.zip(symbols) {
            let entry = CodeEntry::new(symbol, length, self.kind);
            if entry.bits() <= MAX_LOOKUP_BITS {
                entries.fill(entry);
            }
        }
    }

    /// Looks up the code with which `bits` begin; see [`rare`](Self::rare) for a run of
    /// [`END`](CodeEntry::END) or more.
    #[inline(always)]
    pub(crate) fn look(&self, bits: u64) -> CodeEntry {
        self.lookup[(bits >> (64 - LOOKUP_BITS)) as usize]
    }

    /// Resolves the code with which `bits` begin; `entry` is its lookup. Returns `None` if it is no
    /// code.
    #[cold]
    #[inline(never)]
    pub(crate) fn rare(&self, bits: u64, entry: CodeEntry) -> Option<Rare> {
        let entry = if entry == CodeEntry::LONG { self.search(bits)? } else { entry };
        Some(match (entry.0 >> 24) as u8 {
            CodeEntry::ZEROS => Rare::Zeros(entry),
            _ if entry.is_end() => Rare::End(entry),
            _ => Rare::Value(entry),
        })
    }

    /// Searches the code with which `bits` begin, length by length.
    fn search(&self, bits: u64) -> Option<CodeEntry> {
        let bits = (bits >> 48) as u32;
        let length = (1..=16).find(|&length| bits < self.ends[length as usize])?;
        let index = (bits >> (16 - length)) as i32 + self.offsets[length as usize];
        let symbol = self.symbols.get(usize::try_from(index).ok()?)?;
        Some(CodeEntry::new(*symbol, length, self.kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The luma DC codes of T.81, table K.3.
    const DC: ([u8; 16], [u8; 12]) =
        ([0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);

    fn top(bits: &str) -> u64 {
        let bits: String = bits.chars().filter(|c| *c != ' ').collect();
        u64::from_str_radix(&bits, 2).unwrap() << (64 - bits.len())
    }

    #[test]
    fn codes_and_their_values_are_those_of_the_standard() {
        let table = CodeTable::new(TableKind::Dc, &DC.0, &DC.1).unwrap();
        for (bits, consumed, value) in [
            ("00", 2, 0),
            ("010 0", 4, -1),
            ("010 1", 4, 1),
            ("011 00", 5, -3),
            ("011 10", 5, 2),
            ("11111110 0000000000", 18, -1023),
            ("111111110 11111111111", 20, 2047),
        ] {
            let bits = top(bits);
            let entry = table.look(bits);
            assert_eq!((entry.bits(), entry.value(bits)), (consumed, value), "{bits:b}");
            assert_eq!(table.search(bits), Some(entry), "{bits:b}");
        }
        assert_eq!(table.rare(!0, table.look(!0)), None, "ones are no code");
    }

    #[cfg(feature = "write")]
    #[test]
    fn a_symbols_code_is_the_standards() {
        let codes = CodeTable::new(TableKind::Dc, &DC.0, &DC.1).unwrap().codes();
        for (symbol, code, length) in [(0, 0b00, 2), (1, 0b010, 3), (6, 0b1110, 4), (11, 0x1fe, 9)]
        {
            assert_eq!(codes[symbol], (code, length), "{symbol}");
        }
        assert_eq!(codes[12], (0, 0), "no code");
    }

    #[test]
    fn a_code_is_looked_up_as_it_is_searched_for() {
        let counts = [1; 16];
        let symbols: Vec<u8> = (0..16_u8).map(|i| i.wrapping_mul(0x3b)).collect();
        let table = CodeTable::new(TableKind::Ac, &counts, &symbols).unwrap();
        for bits in (0..=0xffff_u64).map(|bits| bits << 48) {
            let found = table.look(bits);
            let searched = table.search(bits);
            assert!(found == CodeEntry::LONG || searched == Some(found), "{bits:x}");
            assert_eq!(searched.is_none(), bits == 0xffff << 48, "{bits:x}");
        }
    }

    #[test]
    fn what_an_ac_code_says_is_told_apart() {
        let table =
            CodeTable::new(TableKind::Ac, &counts(&[(2, 3), (12, 1)]), &[0, 0xf0, 0x21, 0x35])
                .unwrap();
        let rare = |bits| table.rare(top(bits), table.look(top(bits)));
        assert!(matches!(rare("00"), Some(Rare::End(entry)) if entry.bits() == 2));
        assert!(matches!(rare("01"), Some(Rare::Zeros(entry)) if entry.bits() == 2));
        let runs = CodeTable::new(TableKind::Ac, &counts(&[(2, 2)]), &[0xe0, 0]).unwrap();
        for (bits, count) in [("00", 14), ("01", 0)] {
            let entry = runs.look(top(bits));
            assert_eq!((entry.is_end(), entry.bits(), entry.end_bits()), (true, 2, count));
        }
        let value = table.look(top("10 1"));
        assert_eq!((value.run(), value.bits(), value.value(top("10 1"))), (2, 3, 1));
        assert!(
            matches!(rare("110000000000"), Some(Rare::Value(e)) if (e.run(), e.bits()) == (3, 17))
        );
    }

    #[test]
    fn tables_that_cannot_be_are_refused() {
        let new = |kind, pairs: &[(usize, u8)], symbols: &[u8]| {
            CodeTable::new(kind, &counts(pairs), symbols).is_some()
        };
        assert!(new(TableKind::Ac, &[], &[]));
        assert!(new(TableKind::Dc, &[(1, 1)], &[15]));
        assert!(!new(TableKind::Dc, &[(1, 1)], &[16]));
        assert!(!new(TableKind::Ac, &[(1, 2)], &[1, 2]), "a code of ones");
        assert!(!new(TableKind::Ac, &[(1, 1), (2, 3)], &[1, 2, 3, 4]), "too many");
        assert!(!new(TableKind::Ac, &[(2, 2)], &[1]), "a symbol too few");
        assert!(!new(TableKind::Ac, &[(2, 2)], &[1, 2, 3]), "one too many");
    }

    fn counts(pairs: &[(usize, u8)]) -> [u8; 16] {
        let mut counts = [0; 16];
        pairs.iter().for_each(|&(length, count)| counts[length - 1] = count);
        counts
    }
}
