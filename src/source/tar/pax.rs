//! PAX headers: what is told of a member besides its header.
//!
//! ```text
//! 22 path=some/name.jpg\n      its length in decimal, itself and the newline included; a key; a value
//! ```
//!
//! Of the keys two change what a reader finds: `path` and `size`. Names of more than 100 bytes and
//! sizes of 8 GiB and more are told so. `GNU.sparse.…` says that the data is a file with holes, packed.
//! All other keys are passed over. Of a key that is told twice the last counts, and one without a value
//! tells nothing: as POSIX has it.

use super::Damage;

/// Most bytes of a PAX header's data.
pub(super) const MOST: u64 = 1 << 20;

/// What it tells of the next member.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pax {
    pub(super) path: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) is_sparse: bool,
}

impl Pax {
    /// What the data of a PAX header says.
    pub(super) fn parse(data: &[u8]) -> Result<Self, Damage> {
        let (mut pax, mut rest) = (Self::default(), data);
        while !rest.is_empty() {
            let at = data.len() - rest.len();
            let (key, value);
            (key, value, rest) = record(rest).ok_or(Damage::PaxRecord { byte: at })?;
            match key {
                b"path" => pax.path = (!value.is_empty()).then(|| value.to_vec()),
                b"size" if value.is_empty() => pax.size = None,
                b"size" => pax.size = Some(decimal(value).ok_or(Damage::PaxSize)?),
                _ => pax.is_sparse |= key.starts_with(b"GNU.sparse."),
            }
        }
        Ok(pax)
    }

    /// Whether it tells anything of where data lies or what it is called.
    pub(super) fn tells(&self) -> bool {
        *self != Self::default()
    }
}

/// The first record: its key, its value, and what comes after it.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    // No record has a length of more digits than a header has bytes.
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
        assert_eq!(pax, Err(Damage::PaxRecord { byte: 0 }));
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
            assert!(matches!(Pax::parse(wrong), Err(Damage::PaxRecord { .. })), "{wrong:?}");
        }
        for wrong in [&b"11 size=-1\n"[..], b"11 size=1x\n", b"29 size=18446744073709551616\n"] {
            assert_eq!(Pax::parse(wrong), Err(Damage::PaxSize), "{wrong:?}");
        }
    }
}
