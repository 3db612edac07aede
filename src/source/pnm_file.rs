//! PNM: the portable bitmaps (P1, P4), graymaps (P2, P5), pixmaps (P3, P6) and arbitrary maps (P7) of Netpbm.
//!
//! ```text
//! P5  width height largest  one space  samples             # a comment, to the end of its line
//! P7  WIDTH n HEIGHT n DEPTH n MAXVAL n [TUPLTYPE name] ENDHDR  samples
//! ```
//!
//! P1 to P3 have their samples as decimal numbers. Of P1 and P4 a 1 is black; all other samples are levels, where
//! `largest` (1 to 65535) is white. A header whose lines end in CR LF is refused if bytes follow it, because one space does. Samples have two bytes, the upper first, if it is over 255. A depth of P7 is 1 gray,
//! 2 gray and alpha, 3 RGB, 4 RGB and alpha. Of several images in a file the first is read.

use super::still::{Still, StillFormat, cut};
use fuseloop_ops::Size;

pub(super) const PNM: StillFormat = StillFormat { header, pixels, has_more };

/// The header, and the offset of the samples.
#[derive(Clone, Copy)]
struct PortableMap {
    size: Size,
    channels: u8,
    white: u16,
    kind: u8,
    samples: usize,
}

/// Reads words of a header.
struct Words<'a> {
    file: &'a [u8],
    at: usize,
}

impl<'a> Words<'a> {
    /// Returns the next word; spaces and comments before it, and the space after it, are passed.
    fn next(&mut self) -> Result<&'a [u8], String> {
        loop {
            match self.file.get(self.at) {
                None => return Err(cut("header")),
                Some(b'#') => self.skip_line(),
                Some(byte) if is_space(*byte) => self.at += 1,
                Some(_) => break,
            }
        }
        let rest = &self.file[self.at..];
        let is_end = |byte: &u8| is_space(*byte) || *byte == b'#';
        let length = rest.iter().position(is_end).ok_or_else(|| cut("header"))?;
        self.at += length + usize::from(rest[length] != b'#');
        Ok(&rest[..length])
    }

    fn skip_line(&mut self) {
        let rest = &self.file[self.at..];
        let end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        self.at += end.map_or(rest.len(), |end| end + 1);
    }

    fn number(&mut self, what: &str) -> Result<u32, String> {
        let word = self.next()?;
        number(word).ok_or_else(|| {
            format!(
                "its {what} is {:?}, expected a number",
                String::from_utf8_lossy(&word[..word.len().min(20)])
            )
        })
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn number(word: &[u8]) -> Option<u32> {
    let is_number = (1..=10).contains(&word.len()) && word.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(word).ok().filter(|_| is_number)?.parse().ok()
}

impl PortableMap {
    fn parse(file: &[u8]) -> Result<Self, String> {
        let [b'P', kind @ b'1'..=b'7', after, ..] = file else {
            return Err("it does not begin as a PNM".into());
        };
        let kind = kind - b'0';
        if !is_space(*after) && *after != b'#' {
            return Err("it does not begin as a PNM".into());
        }
        let mut words = Words { file, at: 2 };
        let (size, channels, white) = if kind == 7 {
            arbitrary(&mut words)?
        } else {
            let (width, height) = (words.number("width")?, words.number("height")?);
            let white = if matches!(kind, 1 | 4) { 1 } else { words.number("largest level")? };
            (Size::new(height, width), if matches!(kind, 3 | 6) { 3 } else { 1 }, white)
        };
        let is_crlf = file.get(words.at - 1..=words.at).is_some_and(|end| end == b"\r\n");
        if kind > 3 && is_crlf && file.get(..4).is_some_and(|start| start.ends_with(b"\r\n")) {
            return Err("its header has lines that end in CR and LF, of which the last LF counts as a sample: end them in LF"
                .into());
        }
        let white = u16::try_from(white).ok().filter(|white| *white > 0);
        let white = white.ok_or("its largest level is not from 1 to 65535")?;
        Ok(Self { size, channels, white, kind, samples: words.at })
    }

    /// Returns the bytes of the samples of a row; the fewest if they are numbers in decimal.
    fn row_bytes(&self) -> u64 {
        let samples = u64::from(self.size.width) * u64::from(self.channels);
        match self.kind {
            4 => samples.div_ceil(8),
            // A digit and a space.
            2 | 3 => 2 * samples,
            1 => samples,
            _ if self.white > 255 => 2 * samples,
            _ => samples,
        }
    }
}

/// Reads the lines of a P7's header. Returns the size, the channels and the largest level.
fn arbitrary(words: &mut Words<'_>) -> Result<(Size, u8, u32), String> {
    let (mut size, mut depth, mut white) = (Size::new(0, 0), 0, 0);
    loop {
        match words.next()? {
            b"WIDTH" => size.width = words.number("width")?,
            b"HEIGHT" => size.height = words.number("height")?,
            b"DEPTH" => depth = words.number("depth")?,
            b"MAXVAL" => white = words.number("largest level")?,
            b"TUPLTYPE" => words.skip_line(),
            b"ENDHDR" => break,
            other => {
                let found = String::from_utf8_lossy(&other[..other.len().min(20)]).into_owned();
                return Err(format!("its header has a line {found:?}"));
            }
        }
    }
    match depth {
        1..=4 => Ok((size, depth as u8, white)),
        _ => Err(format!("its pixels have {depth} samples, expected 1 to 4")),
    }
}

fn header(file: &[u8]) -> Result<Still, String> {
    let map = PortableMap::parse(file)?;
    let rows = map.row_bytes().saturating_mul(map.size.height.into());
    // The space after the last number may be missing.
    let least_bytes = if matches!(map.kind, 2 | 3) { rows.saturating_sub(1) } else { rows };
    Ok(Still { white: map.white, least_bytes, ..Still::of(map.size, map.channels) })
}

fn pixels(file: &[u8], still: &Still, out: &mut [u8]) -> Result<(), String> {
    let map = PortableMap::parse(file)?;
    let stored = &file[map.samples.min(file.len())..];
    if map.kind <= 3 {
        return decimals(stored, &map, out);
    }
    let row = usize::try_from(map.row_bytes()).map_err(|_| cut("samples"))?;
    let out_row = still.size.width as usize * still.pixel_bytes();
    let stored = stored.get(..row * still.size.height as usize).ok_or_else(|| cut("samples"))?;
    if map.kind == 4 {
        for (stored, out) in stored.chunks_exact(row).zip(out.chunks_exact_mut(out_row)) {
            for (x, out) in out.iter_mut().enumerate() {
                *out = !stored[x / 8] >> (7 - x % 8) & 1;
            }
        }
        return Ok(());
    }
    out.copy_from_slice(stored);
    if map.white > 255 {
        for level in out.as_chunks_mut::<2>().0 {
            *level = u16::from_be_bytes(*level).min(map.white).to_ne_bytes();
        }
    } else if map.white < 255 {
        // Pillow takes such levels for white, too.
        out.iter_mut().for_each(|level| *level = (*level).min(map.white as u8));
    }
    Ok(())
}

/// Reads samples in decimal.
fn decimals(stored: &[u8], map: &PortableMap, out: &mut [u8]) -> Result<(), String> {
    let bytes = if map.white > 255 { 2 } else { 1 };
    let mut at = 0;
    for out in out.chunks_exact_mut(bytes) {
        let word = next_decimal(stored, &mut at, map.kind == 1).ok_or_else(|| cut("samples"))?;
        let level = number(word).and_then(|level| u16::try_from(level).ok());
        let Some(level) = level.filter(|level| *level <= map.white) else {
            let found = String::from_utf8_lossy(&word[..word.len().min(20)]).into_owned();
            return Err(format!(
                "it has a sample {found:?}, expected a number from 0 to {}",
                map.white
            ));
        };
        match out {
            // Of a bitmap, 1 is black.
            [out] if map.kind == 1 => *out = 1 - level as u8,
            [out] => *out = level as u8,
            out => out.copy_from_slice(&level.to_ne_bytes()),
        }
    }
    Ok(())
}

/// Returns the next number, which is a single digit in a bitmap; `None` at the end.
fn next_decimal<'a>(stored: &'a [u8], at: &mut usize, is_digit: bool) -> Option<&'a [u8]> {
    let mut words = Words { file: stored, at: *at };
    loop {
        match stored.get(words.at)? {
            b'#' => words.skip_line(),
            byte if is_space(*byte) => words.at += 1,
            _ => break,
        }
    }
    let rest = &stored[words.at..];
    let end = rest.iter().position(|byte| is_space(*byte) || *byte == b'#');
    let length = if is_digit { 1 } else { end.unwrap_or(rest.len()) };
    *at = words.at + length;
    Some(&rest[..length])
}

/// Returns whether another image follows, which only those with samples in bytes may have.
fn has_more(file: &[u8]) -> bool {
    let Ok(map) = PortableMap::parse(file) else { return false };
    let rows = map.row_bytes().saturating_mul(map.size.height.into());
    let end = usize::try_from(rows).ok().and_then(|rows| map.samples.checked_add(rows));
    let rest = end.filter(|_| map.kind > 3).and_then(|end| file.get(end..)).unwrap_or_default();
    PortableMap::parse(rest).is_ok()
}
