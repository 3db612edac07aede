//! PAX headers: properties of a member that its header can't hold.
//!
//! ```text
//! 22 path=some/name.jpg\n      its length in decimal, itself and the newline included; a key; a value
//! ```
//!
//! Only the keys `path` and `size` change the result of a reader: they hold names of more than 100 bytes
//! and sizes of 8 GiB and more. `GNU.sparse.…` marks a file with holes, stored without them. All other
//! keys are skipped. If a key occurs twice the last one counts, and a key without a value is unset, as
//! in POSIX.

use crate::error::{Error, fail};

/// The largest size of a PAX header's data in bytes.
pub(super) const MOST: u64 = 1 << 20;

/// The properties of the next member.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pax {
    pub(super) path: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) is_sparse: bool,
}

impl Pax {
    /// Parses the data of a PAX header.
    pub(super) fn parse(data: &[u8]) -> Result<Self, Error> {
        let (mut pax, mut rest) = (Self::default(), data);
        while !rest.is_empty() {
            let at = data.len() - rest.len();
            let (key, value);
            (key, value, rest) = record(rest)
                .ok_or_else(|| fail!(Format, "no valid record at byte {at} of a PAX header"))?;
            match key {
                b"path" => pax.path = (!value.is_empty()).then(|| value.to_vec()),
                b"size" if value.is_empty() => pax.size = None,
                b"size" => {
                    pax.size = Some(decimal(value).ok_or_else(|| {
                        fail!(Format, "the size in a PAX header is not a number below 2^64")
                    })?);
                }
                _ => pax.is_sparse |= key.starts_with(b"GNU.sparse."),
            }
        }
        Ok(pax)
    }

    /// Returns true if any property is set.
    pub(super) fn tells(&self) -> bool {
        *self != Self::default()
    }
}

/// Splits off the first record: its key, its value, and the rest.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    // A record's length never has more digits than the size of the header.
    let space = bytes.iter().take(8).position(|&byte| byte == b' ')?;
    let len = usize::try_from(decimal(&bytes[..space])?).ok()?;
    let (record, rest) = bytes.split_at_checked(len)?;
    let pair = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = pair.iter().position(|&byte| byte == b'=')?;
    Some((&pair[..equals], &pair[equals + 1..], rest))
}

fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |value, &digit| match digit {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_and_size_are_taken_and_the_rest_is_passed_over() {
        let pax =
            Pax::parse(b"19 mtime=1700000000\n12 path=a.b\n10 size=7\n8 path=\n12 path=c=d\n");
        assert_eq!(
            pax,
            Err(fail!(Format, "no valid record at byte {byte} of a PAX header", byte = 0))
        );
        let pax = Pax::parse(b"20 mtime=1700000000\n12 path=a=b\n10 size=7\n").unwrap();
        assert_eq!(pax, Pax { path: Some(b"a=b".to_vec()), size: Some(7), is_sparse: false });
        let pax = Pax::parse(b"11 path=ab\n8 path=\n10 size=7\n10 size=8\n").unwrap();
        assert_eq!((pax.path, pax.size), (None, Some(8)));
        assert!(Pax::parse(b"22 GNU.sparse.major=1\n").unwrap().is_sparse);
    }

    #[test]
    fn what_is_no_record_is_refused() {
        for wrong in [
            &b"x"[..],
            b"12 path=a",
            b"99999999999999999999 path=a\n",
            b"0 path=a\n",
            b"3 \n",
            b"5 pa\n",
            b"11 path=ab\nx",
            b" 10 path=a\n",
            b"-1 path=a\n",
            b"11 path=ab\0",
        ] {
            assert!(
                Pax::parse(wrong).unwrap_err().to_string().starts_with("no valid record at byte "),
                "{wrong:?}"
            );
        }
        for wrong in [&b"11 size=-1\n"[..], b"11 size=1x\n", b"29 size=18446744073709551616\n"] {
            assert_eq!(
                Pax::parse(wrong),
                Err(fail!(Format, "the size in a PAX header is not a number below 2^64")),
                "{wrong:?}"
            );
        }
    }
}
