//! Which members are one sample: WebDataset's rule.
//!
//! ```text
//! name = key.ext        train/n01/004.seg.png  ->  key train/n01/004, ext seg.png
//! ```
//!
//! The key is all before the first dot of a file's name, the extension all behind it, in small letters.
//! Members that follow each other and have the same key are one sample. Passed over, and no end of a
//! sample: names without a dot, or with nothing before it; `__…__` alone or as the outermost folder,
//! which WebDataset keeps for itself.
//!
//! The rule is that of `base_plus_ext`, `tar_file_iterator` and `group_by_keys` of webdataset 1.0.2:
//! `^((?:.*/|)[^.]+)[.]([^/]*)$`, `__[^/]*__($|/)`. An extension that a sample has twice is an error
//! there and here. Where we differ: a member called `x.__key__` or `x.__url__` is one like others.

use super::Damage;
use std::collections::HashSet;

/// Tells which member belongs to which sample.
#[derive(Default)]
pub(super) struct Grouper {
    /// Of the sample in the making.
    key: Option<Vec<u8>>,
    exts: HashSet<String>,
}

/// Where a member belongs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// To no sample.
    Outside,
    /// To the sample in the making, as this extension.
    Here(String),
    /// It begins a sample, as this extension, and ends the one of this key.
    Begins(String, Option<Vec<u8>>),
}

impl Grouper {
    /// Where the member of this name belongs.
    pub(super) fn place(&mut self, name: &[u8]) -> Result<Place, Damage> {
        let Some((key, ext)) = split(name).filter(|_| !is_meta(name)) else {
            return Ok(Place::Outside);
        };
        let ext = String::from_utf8_lossy(ext).to_lowercase();
        if self.key.as_deref() == Some(key) {
            if !self.exts.insert(ext.clone()) {
                let key = String::from_utf8_lossy(key).into_owned();
                return Err(Damage::Duplicate { key, ext });
            }
            return Ok(Place::Here(ext));
        }
        self.exts.clear();
        self.exts.insert(ext.clone());
        Ok(Place::Begins(ext, self.key.replace(key.to_vec())))
    }

    /// The key of the sample in the making.
    pub(super) fn key(&self) -> &[u8] {
        self.key.as_deref().unwrap_or_default()
    }

    /// The key of the last sample.
    pub(super) fn end(&mut self) -> Option<Vec<u8>> {
        self.key.take()
    }
}

/// Key and extension of a name: `^((?:.*/|)[^.]+)[.]([^/]*)$`.
fn split(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let base = name.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let dot = base + name[base..].iter().position(|&byte| byte == b'.')?;
    // `[^.]+` is what stands between a dot and ours; it begins the name, or behind a slash.
    let run = name[..dot].iter().rposition(|&byte| byte == b'.').map_or(0, |before| before + 1);
    let is_key = if run == 0 {
        dot > 0
    } else {
        let slash = run + name[run..dot].iter().position(|&byte| byte == b'/')?;
        // `.*` ends at a newline.
        slash + 1 < dot && !name[..slash].contains(&b'\n')
    };
    is_key.then(|| (&name[..dot], &name[dot + 1..]))
}

/// `__[^/]*__($|/)`.
fn is_meta(name: &[u8]) -> bool {
    let (first, is_whole) = match name.iter().position(|&byte| byte == b'/') {
        Some(slash) => (&name[..slash], false),
        None => (name, true),
    };
    let first = first.strip_suffix(b"\n").filter(|_| is_whole).unwrap_or(first);
    first.len() >= 4 && first.starts_with(b"__") && first.ends_with(b"__")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names at random of `a . / _ \n A`, and what webdataset 1.0.2 makes of them.
    #[test]
    fn names_are_split_as_webdataset_splits_them() {
        let table = include_str!("../../../tests/golden/webdataset/names.json");
        let table: serde_json::Value = serde_json::from_str(table).unwrap();
        let rows = table.as_array().unwrap();
        assert!(rows.len() >= 1000);
        for row in rows {
            let text = |place: usize| row[place].as_str().map(str::as_bytes);
            let name = text(0).unwrap();
            let ours = split(name).filter(|_| !is_meta(name));
            let ext = ours.map(|(_, ext)| String::from_utf8_lossy(ext).to_lowercase());
            assert_eq!(ours.map(|(key, _)| key), text(1), "{row}");
            assert_eq!(ext.as_deref(), row[2].as_str(), "{row}");
        }
    }

    #[test]
    fn neighbours_of_one_key_are_a_sample() {
        let mut grouper = Grouper::default();
        let mut place = |name: &str| grouper.place(name.as_bytes());
        let begins = |ext: &str, ended: Option<&str>| {
            Ok(Place::Begins(ext.into(), ended.map(|key| key.into())))
        };
        assert_eq!(place("d/1.JPG"), begins("jpg", None));
        assert_eq!(place("__meta__"), Ok(Place::Outside));
        assert_eq!(place("README"), Ok(Place::Outside));
        assert_eq!(place("d/1.cls"), Ok(Place::Here("cls".into())));
        let twice = Damage::Duplicate { key: "d/1".into(), ext: "jpg".into() };
        assert_eq!(place("d/1.jpg"), Err(twice));
        assert_eq!(place("d/2.jpg"), begins("jpg", Some("d/1")));
        assert_eq!(place("d/1.jpg"), begins("jpg", Some("d/2")));
        assert_eq!(grouper.end().as_deref(), Some(&b"d/1"[..]));
    }
}
