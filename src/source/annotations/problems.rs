//! Problems in the annotations of samples.

use crate::error::{Error, fail};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// The most problems of one sample that are described.
const MOST_DESCRIBED: usize = 8;

/// The problems in the annotations of a sample: the first ones, and the number of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Problems {
    first: Vec<String>,
    more: u64,
}

impl Problems {
    pub(super) fn add(&mut self, problem: String) {
        if self.first.len() < MOST_DESCRIBED {
            self.first.push(problem);
        } else {
            self.more += 1;
        }
    }

    /// Returns the number of problems.
    pub(super) fn count(&self) -> u64 {
        self.first.len() as u64 + self.more
    }

    /// Returns the description of the first problem, if there is one.
    pub(super) fn first(&self) -> Option<&str> {
        self.first.first().map(String::as_str)
    }
}

impl From<String> for Problems {
    fn from(problem: String) -> Self {
        Self { first: vec![problem], more: 0 }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.first.join("; "))?;
        if self.more > 0 { write!(f, "; and {} more", self.more) } else { Ok(()) }
    }
}

/// Returns what was read of each sample, empty for those that are damaged, and what these have wrong. `file` names the file
/// of a sample.
///
/// # Errors
///
/// If all files of annotations are damaged: then it is not one sample that is.
pub(super) fn split_damaged<'a, T: Default>(
    read: Vec<Result<T, Problems>>,
    file: impl Fn(usize) -> &'a Path,
) -> Result<(Vec<T>, BTreeMap<u64, Problems>), Error> {
    let (mut values, mut damaged) = (vec![], BTreeMap::new());
    for (sample, value) in (0..).zip(read) {
        values.push(match value {
            Ok(value) => value,
            Err(problems) => {
                damaged.insert(sample, problems);
                T::default()
            }
        });
    }
    match damaged.first_key_value() {
        Some((&first, problems)) if damaged.len() == values.len() => {
            Err(fail!(Format, "{problems}").at(file(first as usize)))
        }
        _ => Ok((values, damaged)),
    }
}
