//! Numbers as text, as Python's `int(text)` and `float(text)` read them, but without `_` between digits.

use crate::error::{Error, fail};

/// Parses a decimal number with or without a sign and spaces around it.
pub(super) fn int(bytes: &[u8]) -> Result<i64, Error> {
    parsed(bytes, "a number of 64 bits")
}

/// Parses a decimal number, `inf` or `nan`.
pub(super) fn float(bytes: &[u8]) -> Result<f64, Error> {
    parsed(bytes, "a number")
}

fn parsed<T: std::str::FromStr>(bytes: &[u8], expected: &'static str) -> Result<T, Error> {
    let text = std::str::from_utf8(bytes).ok().map(|text| text.trim_matches(is_space));
    text.and_then(|text| text.parse().ok()).ok_or_else(|| {
        let shown: String = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
        fail!(Damaged, "\"{shown}\" is not {expected}")
    })
}

/// Returns whether a character is a space in ASCII, by Python's definition.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_python_reads_them() {
        for (text, number) in
            [("7", 7), (" -12\r\n", -12), ("+3", 3), ("007", 7), ("-9223372036854775808", i64::MIN)]
        {
            assert_eq!(int(text.as_bytes()), Ok(number));
        }
        for wrong in ["", " ", "1.0", "0x1", "1 2", "--1", "9223372036854775808", "1_0", "\u{663}"]
        {
            assert!(int(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert_eq!(float(b" 1.5e3\n"), Ok(1500.0));
        assert!(float(b"-inf").is_ok_and(|value| value == f64::NEG_INFINITY));
        assert!(float(b"1,5").is_err() && float(b"").is_err());
        let error = int(b"\x1b[31m\xff").unwrap_err().to_string();
        assert_eq!(error, "\"\\u{1b}[31m\u{fffd}\" is not a number of 64 bits");
    }
}
