//! Templates for the names of shards.
//!
//! | template                        | file names                                                 |
//! |---------------------------------|------------------------------------------------------------|
//! | `train-{000000}.tar`            | `train-000000.tar`, `train-000001.tar`, ...: as many digits as zeros |
//! | `train-%06d.tar`                | the same, in the syntax of WebDataset's `ShardWriter`       |
//! | `x-{00000}-of-{N}.tfrecord`     | `x-00000-of-00016.tfrecord`, ...: the number of shards is known before the first is written |
//! | `train.tar`                     | this single file                                           |
//!
//! The number is in the file's name, never in a folder's (but a folder of MDS shards, whose names are fixed, may have any name). If there are more shards than the digits can
//! express, the numbers get more digits.

use crate::error::{Error, fail};
use std::path::{Path, PathBuf};

/// The maximum number of digits that a number is padded to.
const MOST_DIGITS: usize = 12;

/// A pattern for the names of shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::write) struct Template {
    folder: PathBuf,
    before: String,
    number: Option<NumberSuffix>,
}

/// The number in a template, and what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NumberSuffix {
    digits: usize,
    /// The text between the number and the count, if there is a count.
    of: Option<String>,
    after: String,
}

impl Template {
    /// # Errors
    ///
    /// If the name is not UTF-8, or its placeholders are invalid.
    pub(in crate::write) fn parse(path: &Path) -> Result<Self, Error> {
        let is_numbered = path.parent().and_then(Path::to_str).is_some_and(|folder| {
            next_sign(folder).is_some_and(|(_, sign, _)| matches!(sign, Sign::Digits(_)))
        });
        if is_numbered {
            let reason = "the number must be in the name of the file, not of its folder";
            return Err(fail!(Parameter, "{path:?}: {reason}").named_path(path));
        }
        Self::in_any_folder(path)
    }

    /// Parses a template whose folder is not looked at: it may be called `100%d`.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse).
    pub(in crate::write) fn in_any_folder(path: &Path) -> Result<Self, Error> {
        let wrong = |reason| fail!(Parameter, "{path:?}: {reason}").named_path(path);
        let name = path.file_name().ok_or_else(|| wrong("the path has no file name"))?;
        let name = name.to_str().ok_or_else(|| wrong("the name of a shard must be UTF-8"))?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let Some((before, sign, rest)) = next_sign(name) else {
            return Ok(Self { folder, before: name.to_owned(), number: None });
        };
        let Sign::Digits(digits) = sign else {
            return Err(wrong(
                "{N} must follow the number of the shard: x-{00000}-of-{N}.tfrecord",
            ));
        };
        if digits > MOST_DIGITS {
            return Err(wrong("the number may have at most 12 digits"));
        }
        let (of, after) = match next_sign(rest) {
            None => (None, rest),
            Some((between, Sign::Count, after)) if next_sign(after).is_none() => {
                (Some(between.to_owned()), after)
            }
            Some(_) => {
                return Err(wrong(
                    "expected one number of the shard, and at most one {N} after it",
                ));
            }
        };
        let number = Some(NumberSuffix { digits, of, after: after.to_owned() });
        Ok(Self { folder, before: before.to_owned(), number })
    }

    /// Returns true if the template can name more than one shard.
    pub(in crate::write) fn has_number(&self) -> bool {
        self.number.is_some()
    }

    /// Returns true if the files have this extension.
    pub(in crate::write) fn has_extension(&self, extension: &str) -> bool {
        let name = self.path(0, 1);
        name.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
    }

    /// Returns true if the names contain the number of shards.
    pub(in crate::write) fn has_count(&self) -> bool {
        self.number.as_ref().is_some_and(|number| number.of.is_some())
    }

    /// Returns the template's path with placeholders in braces: `x-{000}-of-{N}.tar`.
    pub(in crate::write) fn named(&self) -> PathBuf {
        let mut name = self.before.clone();
        if let Some(NumberSuffix { digits, of, after }) = &self.number {
            name.push_str(&format!("{{{}}}", "0".repeat((*digits).max(1))));
            if let Some(of) = of {
                name.push_str(&format!("{of}{{N}}"));
            }
            name.push_str(after);
        }
        self.folder.join(name)
    }

    /// Returns the folder of the shards.
    pub(in crate::write) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of a shard; `count` is used only if the names contain it.
    pub(in crate::write) fn path(&self, shard: u64, count: u64) -> PathBuf {
        let mut name = self.before.clone();
        if let Some(NumberSuffix { digits, of, after }) = &self.number {
            name.push_str(&format!("{shard:0digits$}"));
            if let Some(of) = of {
                name.push_str(&format!("{of}{count:0digits$}"));
            }
            name.push_str(after);
        }
        self.folder.join(name)
    }

    /// Returns what a user must know if the numbers of this many shards have more digits than the template:
    /// sorted by name, `x-10.tar` is before `x-2.tar`.
    pub(in crate::write) fn note_of_order(&self, shards: u64) -> Option<String> {
        let NumberSuffix { digits, .. } = self.number.as_ref()?;
        let (digits, needed) = ((*digits).max(1), shards.checked_sub(1)?.to_string().len());
        let name = |begin: u64, digits: usize| {
            let path = self.path(begin * 10_u64.pow(digits as u32 - 1), shards);
            path.file_name().unwrap_or_default().to_owned()
        };
        (needed > digits).then(|| {
            format!(
                "{:?} comes before {:?} where shards are sorted by name, as `*` sorts them; {{{}}} in the \
                 name of the shards keeps the order of the samples",
                name(1, needed),
                name(2, digits),
                "0".repeat(needed)
            )
        })
    }

    /// Returns true if a file of this name is a shard of the template, of whatever number.
    pub(in crate::write) fn matches(&self, name: &str) -> bool {
        let Some(NumberSuffix { digits, of, after }) = &self.number else {
            return name == self.before;
        };
        let inside = name.strip_prefix(&*self.before).and_then(|rest| rest.strip_suffix(&**after));
        let is_number = |text: &str| {
            text.len() >= *digits && !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
        };
        match (inside, of) {
            (None, _) => false,
            (Some(inside), None) => is_number(inside),
            (Some(inside), Some(of)) => {
                inside.split_once(&**of).is_some_and(|(a, b)| is_number(a) && is_number(b))
            }
        }
    }
}

enum Sign {
    /// `{0000}` or `%04d`.
    Digits(usize),
    /// `{N}`.
    Count,
}

/// Returns the first placeholder of a text, with the text before and after it.
fn next_sign(text: &str) -> Option<(&str, Sign, &str)> {
    text.char_indices().find_map(|(at, _)| {
        let (before, rest) = text.split_at(at);
        sign(rest).map(|(sign, after)| (before, sign, after))
    })
}

/// Parses the placeholder at the beginning of a text.
fn sign(text: &str) -> Option<(Sign, &str)> {
    if let Some(inside) = text.strip_prefix('{') {
        let (inside, after) = inside.split_once('}')?;
        let is_zeros = !inside.is_empty() && inside.bytes().all(|byte| byte == b'0');
        let sign = match inside {
            "N" => Sign::Count,
            zeros if is_zeros => Sign::Digits(zeros.len()),
            _ => return None,
        };
        return Some((sign, after));
    }
    let (digits, after) = text.strip_prefix('%')?.split_once('d')?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && (digits.is_empty() || digits.starts_with('0')))
        .then(|| (Sign::Digits(digits.parse().unwrap_or(1)), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_sort_in_another_order_are_noted() {
        let note = |text: &str, shards| template(text).note_of_order(shards);
        for (text, most, earlier, later, zeros) in [
            ("x-{0}.tar", 10, "x-10.tar", "x-2.tar", "{00}"),
            ("x-%d.tar", 10, "x-10.tar", "x-2.tar", "{00}"),
            ("x-{00}.tar", 100, "x-100.tar", "x-20.tar", "{000}"),
        ] {
            assert_eq!((note(text, 0), note(text, most)), (None, None));
            let found = note(text, most + 1).unwrap();
            assert!(found.starts_with(&format!("{earlier:?} comes before {later:?} ")), "{found}");
            assert!(found.contains(zeros) && earlier < later, "{found}");
        }
        assert_eq!(note("x.tar", 1), None);
    }

    fn template(text: &str) -> Template {
        Template::parse(Path::new(text)).unwrap()
    }

    #[test]
    fn names_are_as_the_template_says() {
        let path = |text: &str, shard| template(text).path(shard, 16).display().to_string();
        assert_eq!(path("a/x-{000000}.tar", 7), "a/x-000007.tar");
        assert_eq!(path("a/x-%06d.tar", 7), "a/x-000007.tar");
        assert_eq!(path("x-%d.tar", 7), "./x-7.tar");
        assert_eq!(path("x-{00}.tar", 1234), "./x-1234.tar");
        assert_eq!(path("x-{00000}-of-{N}.tfrecord", 3), "./x-00003-of-00016.tfrecord");
        assert_eq!(path("x.tar", 3), "./x.tar");
        assert_eq!(path("x-{a}.tar", 3), "./x-{a}.tar");
        let named = |text: &str| template(text).named().display().to_string();
        assert_eq!(named("a/x-%05d-of-{N}.tar"), "a/x-{00000}-of-{N}.tar");
        assert_eq!((named("x-%d.tar"), named("x.tar")), ("./x-{0}.tar".into(), "./x.tar".into()));
    }

    #[test]
    fn shards_are_known_by_their_names() {
        let matches = |text: &str, name| template(text).matches(name);
        assert!(matches("x-{000}.tar", "x-004.tar") && matches("x-{000}.tar", "x-1004.tar"));
        for other in ["x-04.tar", "x-abc.tar", "y-004.tar", "x-004.tar.gz", "x-.tar"] {
            assert!(!matches("x-{000}.tar", other), "{other}");
        }
        assert!(matches("x-{000}-of-{N}.r", "x-001-of-002.r"));
        assert!(!matches("x-{000}-of-{N}.r", "x-001.r") && matches("x.tar", "x.tar"));
    }

    #[test]
    fn signs_without_sense_are_refused() {
        for text in ["", "/", "{000}/x.tar", "x-{N}.tar", "x-{0}-{0}.tar", "x-{0}-{N}-{N}.tar"] {
            assert!(Template::parse(Path::new(text)).is_err(), "{text}");
        }
        assert!(Template::parse(Path::new("x-{0000000000000}.tar")).is_err());
    }
}
