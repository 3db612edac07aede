//! Text whose lines are rows and whose cells are separated: CSV by RFC 4180, and TSV.
//!
//! ```text
//! row    = cell *(delimiter cell) (CR LF / LF / CR / end)
//! cell   = quoted / plain
//! quoted = *space '"' *(any byte but '"' / '""') '"' *space      only where quotes are read
//! plain  = any bytes but the delimiter and line breaks           a quote inside is a character
//! ```
//!
//! * A first line `sep=;`, as Excel reads and writes it, has the delimiter and no cells.
//! * Cells that are not quoted lose the spaces around them. Lines of spaces alone are skipped.
//! * A quote that is never closed, and text behind a closing quote, are errors with the line where the quote opens: each
//!   means that a quote was not meant as one, and that the cells after it are other cells than they seem.
//! * UTF-8, with or without a byte order mark, and UTF-16 with one.
//!
//! Every byte is read once.

use std::borrow::Cow;

/// A row: the number of its first line, from 1, and its cells.
pub(super) type Row = (u64, Vec<String>);

/// What is wrong with a text, and in which line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TextFault {
    pub(super) line: u64,
    pub(super) reason: String,
}

/// The delimiters that are recognized where a file does not have its usual one.
pub(super) const DELIMITERS: [u8; 4] = *b",;\t|";

/// Returns the text of a file.
///
/// # Errors
///
/// If the bytes are neither UTF-8 nor UTF-16 with a byte order mark.
pub(super) fn decoded(bytes: &[u8]) -> Result<Cow<'_, str>, TextFault> {
    let utf16 = |rest: &[u8], word: fn([u8; 2]) -> u16| {
        let (words, odd) = rest.as_chunks();
        let words: Vec<u16> = words.iter().map(|&bytes| word(bytes)).collect();
        let text = String::from_utf16(&words).ok().filter(|_| odd.is_empty());
        let reason = "the byte order mark is that of UTF-16, but the text is not UTF-16: save the table as UTF-8";
        text.map(Cow::Owned).ok_or_else(|| TextFault { line: 1, reason: reason.into() })
    };
    if let Some(rest) = bytes.strip_prefix(&[0xff, 0xfe]) {
        return utf16(rest, u16::from_le_bytes);
    }
    if let Some(rest) = bytes.strip_prefix(&[0xfe, 0xff]) {
        return utf16(rest, u16::from_be_bytes);
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let byte = bytes.get(error.valid_up_to()).copied().unwrap_or_default();
        let reason = format!("byte {byte:#04x} is not UTF-8: save the table as UTF-8");
        TextFault { line: 1 + before.iter().filter(|&&byte| byte == b'\n').count() as u64, reason }
    })?;
    if let Some(at) = text.find('\0') {
        let line = 1 + text[..at].matches('\n').count() as u64;
        let reason = "a zero byte, which no table of text has (UTF-16 without a byte order mark?): save the table as UTF-8";
        return Err(TextFault { line, reason: reason.into() });
    }
    Ok(Cow::Borrowed(text))
}

/// Returns the delimiter that the first line of a text declares for Excel: `sep=;`, also in quotes.
pub(super) fn declared_delimiter(text: &str) -> Option<u8> {
    let first = text.split(['\n', '\r']).next()?;
    let first = first.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(first);
    let (key, &[delimiter]) = first.as_bytes().split_at_checked("sep=".len())? else { return None };
    (key.eq_ignore_ascii_case(b"sep=") && delimiter != b'"').then_some(delimiter)
}

/// Returns the delimiter of a text: the usual one, or the only other one that its first line has instead.
///
/// # Errors
///
/// If the first line has several others instead.
pub(super) fn delimiter(text: &str, usual: u8) -> Result<u8, TextFault> {
    let lines = (1..).zip(text.split(['\n', '\r']));
    let Some((line, first)) = lines.into_iter().find(|(_, line)| !line.trim().is_empty()) else {
        return Ok(usual);
    };
    let (mut is_quoted, mut found) = (false, [false; DELIMITERS.len()]);
    for byte in first.bytes() {
        is_quoted ^= byte == b'"';
        if let Some(index) = DELIMITERS.iter().position(|&one| one == byte && !is_quoted) {
            found[index] = true;
        }
    }
    let found: Vec<u8> = DELIMITERS
        .into_iter()
        .zip(found)
        .filter(|(_, is_found)| *is_found)
        .map(|(one, _)| one)
        .collect();
    match found[..] {
        [only] => Ok(only),
        [one, two, ..] if !found.contains(&usual) => {
            let (one, two) = (char::from(one), char::from(two));
            let reason =
                format!("{one:?} and {two:?} could both separate the columns: set `delimiter`");
            Err(TextFault { line, reason })
        }
        _ => Ok(usual),
    }
}

/// Returns the rows of a text.
///
/// # Errors
///
/// If a quote is not closed, or has text behind it.
pub(super) fn rows(text: &str, delimiter: u8, quotes: bool) -> Result<Vec<Row>, TextFault> {
    let mut reader = Reader { text, at: 0, line: 1, delimiter, quotes };
    let mut rows = vec![];
    while reader.at < text.len() {
        let (line, begin) = (reader.line, reader.at);
        let mut cells = vec![];
        loop {
            cells.push(reader.cell()?);
            if !reader.ends_at_delimiter() {
                break;
            }
        }
        let is_blank = cells.len() == 1 && text[begin..reader.at].trim().is_empty();
        if !is_blank {
            rows.push((line, cells));
        }
        reader.skip_line_break();
    }
    Ok(rows)
}

struct Reader<'t> {
    text: &'t str,
    /// The position of the next byte.
    at: usize,
    /// Its line, from 1.
    line: u64,
    delimiter: u8,
    quotes: bool,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips the delimiter; returns false at the end of a row.
    fn ends_at_delimiter(&mut self) -> bool {
        let is_delimiter = self.peek() == Some(self.delimiter);
        self.at += usize::from(is_delimiter);
        is_delimiter
    }

    fn skip_line_break(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        let len = if rest.starts_with(b"\r\n") { 2 } else { usize::from(!rest.is_empty()) };
        self.at += len;
        self.line += u64::from(len > 0);
    }

    fn skip_spaces(&mut self) {
        let is_space = |byte| matches!(byte, b' ' | b'\t') && byte != self.delimiter;
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|&&byte| is_space(byte)).count();
    }

    /// Reads a cell up to the delimiter, the line break or the end that follows it.
    fn cell(&mut self) -> Result<String, TextFault> {
        let begin = self.at;
        if self.quotes {
            self.skip_spaces();
            if self.peek() == Some(b'"') {
                return self.quoted();
            }
        }
        let is_end = |&byte: &u8| byte == self.delimiter || matches!(byte, b'\n' | b'\r');
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().position(is_end).unwrap_or(rest.len());
        Ok(self.text[begin..self.at].trim().to_owned())
    }

    /// Reads a cell that begins with a quote.
    fn quoted(&mut self) -> Result<String, TextFault> {
        let opens = self.line;
        let mut cell = String::new();
        loop {
            // The quote that opens, or the second of two.
            self.at += 1;
            let rest = &self.text[self.at..];
            let Some(end) = rest.find('"') else {
                let reason = "a quote opens here and is never closed: close it, or double it (\"\") if it is a character of \
                              the value";
                return Err(TextFault { line: opens, reason: reason.into() });
            };
            self.line += line_breaks(&rest[..end]);
            cell.push_str(&rest[..end]);
            self.at += end + 1;
            if self.peek() != Some(b'"') {
                break;
            }
            cell.push('"');
        }
        self.skip_spaces();
        match self.peek() {
            Some(byte) if byte != self.delimiter && !matches!(byte, b'\n' | b'\r') => {
                let closes = self.line;
                let reason = format!(
                    "a quote opens here, and text follows the quote that closes it in line {closes}: quote whole values, and \
                     double (\"\") a quote that is a character of the value"
                );
                Err(TextFault { line: opens, reason })
            }
            _ => Ok(cell),
        }
    }
}

/// Returns the number of line breaks in a text: CR LF is one.
fn line_breaks(text: &str) -> u64 {
    let bytes = text.as_bytes();
    let is_break = |(index, &byte): (usize, &u8)| {
        byte == b'\n' || byte == b'\r' && bytes.get(index + 1) != Some(&b'\n')
    };
    bytes.iter().enumerate().filter(|&at| is_break(at)).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Row>, TextFault> {
        rows(text, b',', true)
    }

    fn row(line: u64, cells: &[&str]) -> Row {
        (line, cells.iter().map(|&cell| cell.to_owned()).collect())
    }

    #[test]
    fn quoted_cells_may_have_anything() {
        let text = "a,b\r\n\"x,\"\"y\"\"\r\nz\" , 2 \n\n \"\",\"c\"\r last ,\"\"";
        let want = [
            row(1, &["a", "b"]),
            row(2, &["x,\"y\"\r\nz", "2"]),
            row(5, &["", "c"]),
            row(6, &["last", ""]),
        ];
        assert_eq!(read(text).unwrap(), want);
        assert_eq!(read("5\" pipe,x\n").unwrap(), [row(1, &["5\" pipe", "x"])]);
        assert_eq!(read("").unwrap(), []);
        assert_eq!(read("a,\n,").unwrap(), [row(1, &["a", ""]), row(2, &["", ""])]);
    }

    #[test]
    fn a_quote_that_is_not_closed_is_named_by_the_line_where_it_opens() {
        for (text, line, words) in [
            ("a,b\nx,\"dog\ny,cat\nz,cat\n", 2, "never closed"),
            ("a,b\n\"x\ny\",\"dog\nz", 3, "never closed"),
            ("a,b\nx,\"dog\ny,\"cat\nz,cat\n", 2, "closes it in line 3"),
            ("a\n\"b\"c\n", 2, "text follows"),
            ("\"", 1, "never closed"),
            ("\"\"\"", 1, "never closed"),
        ] {
            let fault = read(text).unwrap_err();
            assert!(fault.line == line && fault.reason.contains(words), "{text:?}: {fault:?}");
        }
    }

    #[test]
    fn tabs_separate_text_without_quotes() {
        let text = "x/2.jpg\t\"quoted start only\nx/4.jpg\t\"Hello\" he said\n\t\n";
        let want = [
            row(1, &["x/2.jpg", "\"quoted start only"]),
            row(2, &["x/4.jpg", "\"Hello\" he said"]),
            row(3, &["", ""]),
        ];
        assert_eq!(rows(text, b'\t', false).unwrap(), want);
    }

    #[test]
    fn the_delimiter_is_the_usual_one_or_the_only_other() {
        assert_eq!(delimiter("a;b\n1,2;3", b','), Ok(b';'));
        assert_eq!(delimiter("\n \na\tb", b','), Ok(b'\t'));
        assert_eq!(delimiter("a,b", b'\t'), Ok(b','));
        assert_eq!(delimiter("a,b;c", b','), Ok(b','));
        assert_eq!(delimiter("a;b\tc|d,e", b','), Ok(b','));
        assert_eq!(delimiter("\"a,b\";c", b','), Ok(b';'));
        assert_eq!(delimiter("path", b','), Ok(b','));
        assert!(delimiter("a;b|c", b',').unwrap_err().reason.contains("set `delimiter`"));
    }

    #[test]
    fn excels_line_declares_the_delimiter() {
        for (text, expected) in [
            ("sep=;\na;b", Some(b';')),
            ("SEP=,\r\na,b", Some(b',')),
            ("\"sep=\t\"\na\tb", Some(b'\t')),
            ("sep=\na", None),
            ("sep=;;\na", None),
            ("sep,label\n", None),
            ("\nsep=;", None),
            ("", None),
        ] {
            assert_eq!(declared_delimiter(text), expected, "{text:?}");
        }
    }

    #[test]
    fn text_is_utf_8_or_utf_16_with_its_mark() {
        let of = |mark: &[u8], word: fn(u16) -> [u8; 2]| -> Vec<u8> {
            mark.iter().copied().chain("ü,1\n".encode_utf16().flat_map(word)).collect()
        };
        for bytes in [
            of(&[0xff, 0xfe], u16::to_le_bytes),
            of(&[0xfe, 0xff], u16::to_be_bytes),
            "\u{feff}ü,1\n".into(),
        ] {
            assert_eq!(decoded(&bytes).unwrap(), "ü,1\n");
        }
        assert!(decoded(&[0xff, 0xfe, b'a']).is_err());
        let fault = decoded(b"a\nb\xe9\n").unwrap_err();
        assert!(fault.line == 2 && fault.reason.starts_with("byte 0xe9 is not UTF-8"), "{fault:?}");
        assert!(decoded(b"a\0,\0").unwrap_err().reason.contains("UTF-16"));
    }
}
