//! Numbers and sizes as people read them.

use std::fmt;

/// Formats `1_234_567` as `1,234,567`.
#[must_use]
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count and its noun: `1 image`, `2 images`, `3 batches`.
#[must_use]
pub fn counted(n: u64, noun: &str) -> String {
    let plural = match n {
        1 => "",
        _ if noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{} {noun}{plural}", count(n))
}

/// Formats all of a count as the subject of a sentence: `all 2 images are`, `the only image is`.
pub(crate) fn all_are(n: u64, noun: &str) -> String {
    match n {
        1 => format!("the only {noun} is"),
        _ => format!("all {} are", counted(n, noun)),
    }
}

/// Formats bytes in the largest unit that is not above the value: `22.9 MB`, with 1 MB = 10^6 bytes.
#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
#[must_use]
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if n < 1000 {
        return counted(n, "byte");
    }
    let mut value = n as f64 / 1e3;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1e3;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// Shows a number, such as a time in seconds, with up to nine decimals, and one that is very large or small as a power of
/// ten: `12.5`, `1e300`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decimal(pub(crate) f64);

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number) = *self;
        let size = number.abs();
        if size != 0.0 && size.is_finite() && !(1e-6..1e12).contains(&size) {
            return write!(f, "{number:e}");
        }
        // Rounded by text: a product with 1e9 would have another last digit.
        let rounded: f64 = format!("{number:.9}").parse().unwrap_or(number);
        write!(f, "{rounded}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([counted(1, "image"), counted(0, "image")], ["1 image", "0 images"]);
        assert_eq!([counted(1, "batch"), counted(2, "batch")], ["1 batch", "2 batches"]);
        assert_eq!([999, 1000, 999_999].map(bytes), ["999 bytes", "1.0 kB", "1.0 MB"]);
    }

    #[test]
    fn decimals_are_short() {
        let numbers =
            [0.0, -0.5, 12.5, 0.1 + 0.2, 1001.0 / 24.0, 1e9, 1e300, -1e300, 1e-300, f64::INFINITY];
        let shown = numbers.map(|number| Decimal(number).to_string());
        let expected = [
            "0",
            "-0.5",
            "12.5",
            "0.3",
            "41.708333333",
            "1000000000",
            "1e300",
            "-1e300",
            "1e-300",
            "inf",
        ];
        assert_eq!(shown, expected);
        assert_eq!(Decimal(f64::NAN).to_string(), "NaN");
        assert_eq!(Decimal(f64::MAX).to_string(), "1.7976931348623157e308");
    }
}
