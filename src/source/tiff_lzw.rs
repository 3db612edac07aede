//! LZW as TIFF has it (TIFF 6.0, section 13), into memory whose length is known.
//!
//! ```text
//! codes:      of 9 to 12 bits, the upper bits first: a byte, 256 (forget all strings), 257 (the end), or a string
//! strings:    258, 259, ...: the string of the code before, and the first byte of this one's
//! ```
//!
//! A code becomes a bit longer one string before its number needs it. A photograph has 1.9 bytes a code, so time goes to codes
//! and not to bytes: strings of up to 7 bytes are kept in a word with their length, and are written as one word.
//! Longer ones are copied from where they were written first.

/// The codes that forget all strings and end the data, and the first one of a string.
const CLEAR: usize = 256;
const END: usize = 257;
const FIRST: usize = 258;

/// Number of codes of 12 bits.
const CODES: usize = 1 << 12;

/// The longest string that a word has beside its length, which is its upper byte.
const IN_WORD: u64 = 7;

/// Strings by their codes.
pub(super) struct Strings {
    /// The bytes of a string, the first one in the lowest byte, and its length in the upper byte. Of a longer one, which has
    /// [`LONG`] there, the first byte.
    words: Box<[u64; CODES]>,
    /// Where a longer string was written first, and its length.
    long: Box<[(usize, usize); CODES]>,
}

/// The mark of a string that a word does not hold.
const LONG: u64 = u64::MAX << 56;

impl Strings {
    pub(super) fn new() -> Self {
        let mut words = Box::new([0; CODES]);
        for (byte, word) in (0..256).zip(words.iter_mut()) {
            *word = 1 << 56 | byte;
        }
        Self { words, long: Box::new([(0, 0); CODES]) }
    }

    /// Unpacks bytes until `out` is full.
    ///
    /// # Errors
    ///
    /// If the bytes end before, or have a code without a string.
    pub(super) fn unpack(&mut self, packed: &[u8], out: &mut [u8]) -> Result<(), String> {
        let mut codes = Codes { bytes: packed, bit: 0 };
        let (mut width, mut strings) = (9, FIRST);
        // The code before, and where its string was written.
        let mut before: Option<(usize, usize)> = None;
        let mut at = 0;
        while at < out.len() {
            let code = codes.next(width).filter(|&code| code != END);
            let code = code.ok_or_else(|| format!("LZW ends after {at} of {} bytes", out.len()))?;
            if code == CLEAR {
                (width, strings, before) = (9, FIRST, None);
                continue;
            }
            match before {
                Some((before, place)) if strings < CODES => {
                    // A code may be the string that it adds, which begins as the one before.
                    let first = if code == strings { before } else { code };
                    self.add(strings, before, place, self.words[first]);
                    strings += 1;
                    width += u32::from(strings + 1 == 1 << width && width < 12);
                }
                None if code > CLEAR => strings = 0,
                _ => {}
            }
            if code >= strings {
                return Err(format!(
                    "LZW has the code {code}, which has no string yet, after {at} bytes"
                ));
            }
            before = Some((code, at));
            at += self.write(code, out, at);
        }
        Ok(())
    }

    /// Adds the string of the code `before`, which was written at `place`, and the first byte of a string.
    fn add(&mut self, code: usize, before: usize, place: usize, first: u64) {
        let word = self.words[before];
        let len = word >> 56;
        if len < IN_WORD {
            self.words[code] = (word + (1 << 56)) | (first & 0xff) << (8 * len);
        } else {
            let len = if len == IN_WORD { len as usize } else { self.long[before].1 };
            self.words[code] = LONG | word & 0xff;
            self.long[code] = (place, len + 1);
        }
    }

    /// Writes the string of a code, as far as there is room, and returns its length.
    fn write(&self, code: usize, out: &mut [u8], at: usize) -> usize {
        let word = self.words[code];
        let len = (word >> 56) as usize;
        if len <= IN_WORD as usize {
            // Later strings overwrite the surplus bytes.
            match out[at..].first_chunk_mut() {
                Some(to) => *to = word.to_le_bytes(),
                None => out[at..]
                    .iter_mut()
                    .zip(word.to_le_bytes())
                    .take(len)
                    .for_each(|(to, byte)| *to = byte),
            }
            return len;
        }
        let (from, len) = self.long[code];
        let len = len.min(out.len() - at);
        let (written, rest) = out.split_at_mut(at);
        match (written[from..].first_chunk::<16>(), rest.first_chunk_mut()) {
            (Some(from), Some(to)) if len <= 16 => *to = *from,
            _ => {
                // The last byte of a string that the code itself adds is its first one.
                let known = len.min(at - from);
                rest[..known].copy_from_slice(&written[from..][..known]);
                if known < len {
                    rest[known] = written[from];
                }
            }
        }
        len
    }
}

/// Reads codes, whose upper bits come first.
struct Codes<'a> {
    bytes: &'a [u8],
    /// The next bit.
    bit: usize,
}

impl Codes<'_> {
    /// Reads a code of at most 12 bits.
    fn next(&mut self, width: u32) -> Option<usize> {
        let rest = self.bytes.get(self.bit / 8..)?;
        let word = match rest.first_chunk() {
            Some(bytes) => u64::from_be_bytes(*bytes),
            None if 8 * rest.len() < self.bit % 8 + width as usize => return None,
            None => rest.iter().rev().fold(0, |word, &byte| word >> 8 | u64::from(byte) << 56),
        };
        let code = word << (self.bit % 8) >> (64 - width);
        self.bit += width as usize;
        Some(code as usize & (CODES - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Returns the bits of a code before the string of this number is known.
    fn width_before(string: usize) -> u32 {
        9.max(string.ilog2() + 1)
    }

    /// Packs bytes, and forgets all strings whenever there are 4,094 codes.
    fn pack(bytes: &[u8]) -> Vec<u8> {
        let (mut packed, mut held, mut count) = (vec![], 0_u64, 0);
        let mut put = |code: usize, width: u32| {
            held = held << width | code as u64;
            count += width;
            while count >= 8 {
                count -= 8;
                packed.push((held >> count) as u8);
            }
        };
        let mut codes: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut width = 9;
        put(CLEAR, width);
        let code = |codes: &HashMap<Vec<u8>, usize>, text: &[u8]| match text {
            [byte] => usize::from(*byte),
            _ => codes[text],
        };
        let mut text: Vec<u8> = vec![];
        for &byte in bytes {
            text.push(byte);
            if text.len() == 1 || codes.contains_key(&text) {
                continue;
            }
            put(code(&codes, &text[..text.len() - 1]), width);
            let next = FIRST + codes.len();
            codes.insert(std::mem::replace(&mut text, vec![byte]), next);
            width = width_before(next + 1);
            if next + 1 == 4094 {
                put(CLEAR, width);
                codes.clear();
                width = 9;
            }
        }
        if !text.is_empty() {
            put(code(&codes, &text), width);
            width = width_before(FIRST + codes.len() + 1);
        }
        put(END, width);
        put(0, 8);
        packed
    }

    fn random(state: &mut u64) -> usize {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*state >> 40) as usize
    }

    /// Noise, gradients, and runs of one byte or of a few.
    fn texts() -> Vec<Vec<u8>> {
        let mut state = 5;
        let mut texts = vec![vec![], vec![7], vec![0; 3], vec![0; 100_000]];
        for kind in 0..60 {
            let len = random(&mut state) % 20_000;
            let (levels, run) = (1 + random(&mut state) % 256, 1 + random(&mut state) % 40);
            let mut text = vec![];
            while text.len() < len {
                match kind % 3 {
                    0 => text.push((random(&mut state) % levels) as u8),
                    1 => text.push((text.len() / run % levels) as u8),
                    _ => text.extend(vec![
                        (random(&mut state) % levels) as u8;
                        random(&mut state) % run
                    ]),
                }
            }
            texts.push(text);
        }
        texts
    }

    #[test]
    fn what_was_packed_is_unpacked_whole_or_in_part() {
        let (mut strings, mut state) = (Strings::new(), 9);
        for text in texts() {
            let packed = pack(&text);
            for len in [text.len(), random(&mut state) % (text.len() + 1)] {
                let mut out = vec![0xaa; len];
                strings.unpack(&packed, &mut out).unwrap();
                assert!(out == text[..len], "{len} of {} bytes", text.len());
            }
            let fault = strings.unpack(&packed, &mut vec![0; text.len() + 9]).unwrap_err();
            assert_eq!(fault, format!("LZW ends after {} of {} bytes", text.len(), text.len() + 9));
        }
    }

    #[test]
    fn damaged_bytes_are_refused_or_unpacked() {
        let (mut strings, mut state, mut refused) = (Strings::new(), 3, 0);
        for text in texts() {
            let mut packed = pack(&text);
            for _ in 0..20 {
                let at = random(&mut state) % packed.len();
                packed[at] ^= 1 << (random(&mut state) % 8);
                let cut = random(&mut state) % (packed.len() + 1);
                refused += usize::from(strings.unpack(&packed, &mut vec![0; text.len()]).is_err());
                let _ = strings.unpack(&packed[cut..], &mut vec![0; text.len()]);
                let _ = strings.unpack(&packed[..cut], &mut vec![0; text.len()]);
            }
        }
        assert!(refused > 100, "{refused}");
    }
}
