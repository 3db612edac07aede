//! Parses the numbers of options, with errors that say the range or the units.

use std::str::FromStr;

/// Parses a whole number of at least 1.
pub(super) fn at_least_one<T: FromStr>(text: &str) -> Result<T, String> {
    let is_positive = text.parse::<u64>().is_ok_and(|number| number > 0);
    let number = text.parse::<T>().ok().filter(|_| is_positive);
    number.ok_or_else(|| "expected a whole number of at least 1".to_owned())
}

/// Parses a whole number that may be 0.
pub(super) fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("expected a whole number from 0 to {}", u64::MAX))
}

/// The range of numbers that need not be whole. Products of a few of them are finite.
const RANGE: std::ops::RangeInclusive<f64> = 1e-6..=1e18;

/// Parses a number above 0 that need not be whole.
pub(super) fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| RANGE.contains(number));
    number.ok_or_else(|| "expected a number above 0, at least 0.000001 and at most 1e18".to_owned())
}

/// Units of sizes and their bytes.
const SIZES: [(&str, f64); 9] = [
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
    ("B", 1.0),
];

/// Units of bandwidths that are not sizes, and their bytes.
const BITS: [(&str, f64); 3] = [("Mbit", 1.25e5), ("Gbit", 1.25e8), ("Tbit", 1.25e11)];

/// Parses a number of bytes with its unit: `110kB`.
pub(super) fn bytes(text: &str) -> Result<f64, String> {
    let expected = "expected a number above 0 and a unit (B, kB, MB, GB, TB, KiB, MiB, GiB or TiB), such as 110kB";
    with_unit(text, &SIZES).ok_or_else(|| expected.to_owned())
}

/// Parses a number of bytes per second with its unit: `2GB`, `2GB/s`, `100Gbit`.
pub(super) fn bytes_per_second(text: &str) -> Result<f64, String> {
    let amount = text.strip_suffix("/s").unwrap_or(text);
    let expected = "expected a number above 0 and a unit per second (MB, GB, TB, MiB, GiB, Mbit or Gbit), such as \
                    2.5GB or 100Gbit";
    with_unit(amount, &SIZES)
        .or_else(|| with_unit(amount, &BITS))
        .ok_or_else(|| expected.to_owned())
}

/// Parses a whole number of bytes of at least 1, with a unit or without: `2097152`, `2MiB`.
pub(super) fn whole_bytes<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    /// Every whole number up to this one is a double.
    const MOST: f64 = 9e15;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is whole and in range"
    )]
    let of_unit = || {
        let bytes = with_unit(text, &SIZES)?;
        (bytes.fract() == 0.0 && bytes <= MOST).then_some(bytes as u64)
    };
    let bytes = text.parse().ok().or_else(of_unit).filter(|bytes| *bytes > 0);
    bytes.and_then(|bytes| T::try_from(bytes).ok()).ok_or_else(|| {
        "expected a whole number of bytes of at least 1, such as 2097152, 2MiB or 500MB".to_owned()
    })
}

fn with_unit(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, unit) =
        units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    let number = number.trim_end().parse::<f64>().ok()? * unit;
    Some(number).filter(|number| RANGE.contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_bandwidths_have_units() {
        let sizes =
            ["1B", "110kB", "1.5 MB", "2TB", "1KiB", "1GiB"].map(|text| bytes(text).unwrap());
        assert_eq!(sizes, [1.0, 110e3, 1.5e6, 2e12, 1024.0, 1_073_741_824.0]);
        let rates = ["2.5GB", "2.5GB/s", "100Gbit", "1Gbit/s", "8Mbit"];
        let rates = rates.map(|text| bytes_per_second(text).unwrap());
        assert_eq!(rates, [2.5e9, 2.5e9, 12.5e9, 125e6, 1e6]);
    }

    #[test]
    fn whole_bytes_have_a_unit_or_none() {
        let read =
            ["5", "2MiB", "500MB", "1.5 kB", "1B"].map(|text| whole_bytes::<u64>(text).unwrap());
        assert_eq!(read, [5, 2 << 20, 500_000_000, 1500, 1]);
        assert_eq!(whole_bytes::<u32>("8388608"), Ok(8 << 20));
        for text in ["0", "0MB", "-1", "1.5", "0.5B", "2M", "MiB", "", "1e18B", "NaNkB"] {
            assert!(whole_bytes::<u64>(text).unwrap_err().contains("such as 2097152"), "{text}");
        }
        assert!(whole_bytes::<u32>("4GiB").is_err());
    }

    #[test]
    fn numbers_that_mean_nothing_are_refused() {
        let numbers = ["0", "-1", "NaN", "inf", "1e19", "1e-7", "", "x", "1,5", "-0"];
        for number in numbers {
            assert!(positive(number).unwrap_err().contains("above 0"), "{number}");
            for unit in ["GB", "GB/s"] {
                let text = format!("{number}{unit}");
                // 1e-7 GB are 100 bytes.
                let is_one = number == "1e-7";
                assert_eq!(bytes_per_second(&text).is_ok(), is_one, "{text}");
                assert_eq!(bytes(&text).is_ok(), is_one && unit == "GB", "{text}");
            }
        }
        assert_eq!([positive("1e-6"), positive("3000")], [Ok(1e-6), Ok(3e3)]);
        for text in ["100", "100Gb", "100Gbit", "1 gb"] {
            assert!(bytes(text).unwrap_err().contains("such as 110kB"), "{text}");
        }
        for text in ["100", "100Gb", "GB", "1GB/h", "1GB/s/s"] {
            assert!(bytes_per_second(text).unwrap_err().contains("100Gbit"), "{text}");
        }
    }
}
