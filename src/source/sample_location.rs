//! The location of a sample or of one of its values, as errors and damage reports show it.
//!
//! | source              | file                | key                   | shown as                      |
//! |---------------------|---------------------|-----------------------|-------------------------------|
//! | a folder            | `photos/cat/1.jpg`  | `cat/1.jpg`           | `photos/cat/1.jpg`            |
//! | tar shards          | `s-0.tar`           | `0001`                | `s-0.tar: sample 0001`        |
//! | TFRecord files      | `data/x.tfrecord`   | `x.tfrecord:3`        | `data/x.tfrecord:3`           |
//! | a `.beton` file     | `train.beton`       |                       | `train.beton`                 |
//! | a user's records    |                     | what the source says  | that key                      |

use super::Escaped;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The location of a value of a sample. A source fills in what it knows; see
/// [`Source::locate`](super::Source::locate).
///
/// ```
/// use fuseloop::source::SampleLocation;
///
/// let location = SampleLocation { file: Some("train-000.tar".into()), ..SampleLocation::of_key("dog/1") };
/// assert_eq!(location.key.as_deref(), Some("dog/1"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SampleLocation {
    /// The file or object that holds the sample: a path or an address.
    pub file: Option<Arc<str>>,
    /// The name of the sample within its dataset: the path of an image in its folder, the key of a
    /// sample in a tar file. A key is never used as a path.
    pub key: Option<Arc<str>>,
    /// The byte range of the value in the file, as far as the tables tell it; for a record that is read
    /// as a whole, the byte range of the record. `None` for a value without bytes of its own, and in a
    /// compressed file.
    pub bytes: Option<Range<u64>>,
}

impl SampleLocation {
    /// Returns the location of a sample that has a name and no file.
    pub fn of_key(key: impl Into<Arc<str>>) -> Self {
        Self { key: Some(key.into()), ..Self::default() }
    }

    /// Returns a location in a file.
    pub(super) fn in_file(file: impl Into<Arc<str>>, key: Option<Arc<str>>) -> Self {
        Self { file: Some(file.into()), key, bytes: None }
    }

    /// Returns the location without the byte range: for a sample as a whole, and for a value that is
    /// derived from another.
    pub(super) fn of_sample(self) -> Self {
        Self { bytes: None, ..self }
    }

    /// Returns whether a message begins with the name of the file, so that the name need not be
    /// repeated.
    pub(crate) fn is_named_by(&self, message: &str) -> bool {
        self.file.as_ref().is_some_and(|file| message.starts_with(&Escaped(file).to_string()))
    }
}

/// Shows the file and the key; the text that both have in common is shown once. Control characters are
/// escaped.
impl fmt::Display for SampleLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.file.as_deref(), self.key.as_deref()) {
            (None, None) => f.write_str("the source"),
            (None, Some(key)) => Escaped(key).fmt(f),
            (Some(file), None) => Escaped(file).fmt(f),
            (Some(file), Some(key)) if Path::new(file).ends_with(key) => Escaped(file).fmt(f),
            (Some(file), Some(key)) => match after_name(file, key) {
                Some(rest) => write!(f, "{}{}", Escaped(file), Escaped(rest)),
                None => write!(f, "{}: sample {}", Escaped(file), Escaped(key)),
            },
        }
    }
}

/// Returns the rest of a key that begins with the file's own name: `:3` for `x.tfrecord:3`.
fn after_name<'k>(file: &str, key: &'k str) -> Option<&'k str> {
    let name = file.rsplit(['/', std::path::MAIN_SEPARATOR]).next()?;
    key.strip_prefix(name).filter(|rest| rest.starts_with(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_shown_as_its_source_calls_it() {
        let shown =
            |file: &str, key: &str| SampleLocation::in_file(file, Some(key.into())).to_string();
        assert_eq!(shown("photos/cat/1.jpg", "cat/1.jpg"), "photos/cat/1.jpg");
        assert_eq!(shown("d/s-0.tar", "0001"), "d/s-0.tar: sample 0001");
        assert_eq!(shown("d/s-0.tar", "r/0001"), "d/s-0.tar: sample r/0001");
        assert_eq!(shown("d/x.tfrecord", "x.tfrecord:3"), "d/x.tfrecord:3");
        assert_eq!(shown("s3://b/x.tfrecord", "x.tfrecord:3"), "s3://b/x.tfrecord:3");
        assert_eq!(SampleLocation::of_key("a\nb").to_string(), "a\\nb");
        assert_eq!(SampleLocation::in_file("a\u{1b}.beton", None).to_string(), "a\\u{1b}.beton");
    }

    #[test]
    fn a_message_that_names_the_file_is_known() {
        let location = SampleLocation::in_file("p/a\n.jpg", None);
        assert!(location.is_named_by("p/a\\n.jpg: it is gone"));
        assert!(!location.is_named_by("it is gone"));
        assert!(!SampleLocation::default().is_named_by(""));
    }
}
