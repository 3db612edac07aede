//! The rule that groups members into samples: that of WebDataset.
//!
//! ```text
//! name = key.ext        train/n01/004.seg.png  ->  key train/n01/004, ext seg.png
//! ```
//!
//! The key is everything before the first dot of a file's base name, the extension everything behind
//! that dot, in lower case. Consecutive members with the same key are one sample. Members of the
//! following names are skipped and do not end a sample: names without a dot, or with nothing before it;
//! and `__…__`, alone or as the outermost folder, which WebDataset reserves.
//!
//! The rule is that of `base_plus_ext`, `tar_file_iterator` and `group_by_keys` of webdataset 1.0.2:
//! `^((?:.*/|)[^.]+)[.]([^/]*)$`, `__[^/]*__($|/)`. A sample with the same extension twice is an error
//! in both. One difference: here, a member named `x.__key__` or `x.__url__` has no special meaning.

use crate::error::{Error, fail};
use std::collections::HashSet;

/// Assigns members to samples.
#[derive(Default)]
pub(super) struct Grouper {
    /// The key of the current sample.
    key: Option<Vec<u8>>,
    exts: HashSet<String>,
}

/// The sample that a member belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MemberRole {
    /// The member belongs to no sample.
    Outside,
    /// The member belongs to the current sample, with this extension.
    Here(String),
    /// The member begins a sample, with this extension, and ends the sample of this key.
    Begins(String, Option<Vec<u8>>),
}

impl Grouper {
    /// Assigns the member of this name to a sample.
    pub(super) fn role(&mut self, name: &[u8]) -> Result<MemberRole, Error> {
        let Some((key, ext)) = split(name).filter(|_| !is_meta(name)) else {
            return Ok(MemberRole::Outside);
        };
        let ext = String::from_utf8_lossy(ext).to_lowercase();
        if self.key.as_deref() == Some(key) {
            if !self.exts.insert(ext.clone()) {
                let key = String::from_utf8_lossy(key).into_owned();
                return Err(fail!(Format, "sample {key} has {ext} twice"));
            }
            return Ok(MemberRole::Here(ext));
        }
        self.exts.clear();
        self.exts.insert(ext.clone());
        Ok(MemberRole::Begins(ext, self.key.replace(key.to_vec())))
    }

    /// The key of the current sample.
    pub(super) fn key(&self) -> &[u8] {
        self.key.as_deref().unwrap_or_default()
    }

    /// Ends the last sample and returns its key.
    pub(super) fn end(&mut self) -> Option<Vec<u8>> {
        self.key.take()
    }
}

/// Splits a name into key and extension: `^((?:.*/|)[^.]+)[.]([^/]*)$`.
fn split(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let base = name.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let dot = base + name[base..].iter().position(|&byte| byte == b'.')?;
    // `[^.]+` is the text between this dot and the one before it; it starts at the beginning of the
    // name, or behind a slash.
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

    /// Random names of `a . / _ \n A`, with the result of webdataset 1.0.2.
    #[test]
    fn names_are_split_as_webdataset_splits_them() {
        let table = include_str!("../../../tests/golden/webdataset/names.json");
        let table: serde_json::Value = serde_json::from_str(table).unwrap();
        let rows = table.as_array().unwrap();
        assert!(rows.len() >= 1000);
        for row in rows {
            let text = |column: usize| row[column].as_str().map(str::as_bytes);
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
        let mut role = |name: &str| grouper.role(name.as_bytes());
        let begins = |ext: &str, ended: Option<&str>| {
            Ok(MemberRole::Begins(ext.into(), ended.map(|key| key.into())))
        };
        assert_eq!(role("d/1.JPG"), begins("jpg", None));
        assert_eq!(role("__meta__"), Ok(MemberRole::Outside));
        assert_eq!(role("README"), Ok(MemberRole::Outside));
        assert_eq!(role("d/1.cls"), Ok(MemberRole::Here("cls".into())));
        let twice = fail!(Format, "sample {key} has {ext} twice", key = "d/1", ext = "jpg");
        assert_eq!(role("d/1.jpg"), Err(twice));
        assert_eq!(role("d/2.jpg"), begins("jpg", Some("d/1")));
        assert_eq!(role("d/1.jpg"), begins("jpg", Some("d/2")));
        assert_eq!(grouper.end().as_deref(), Some(&b"d/1"[..]));
    }
}
