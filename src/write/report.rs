//! What a writer has done.

use super::list::Ignored;
use super::value::SampleError;
use crate::sample::SampleId;
use std::path::PathBuf;

/// How many skipped samples are kept. All are counted.
const KEPT: usize = 100;

/// What was written.
#[derive(Debug)]
pub struct WriteReport {
    /// Samples in the file.
    pub samples: u64,
    /// Samples left out because they are damaged.
    pub skipped: Skipped,
    /// Images stored as the JPEG they were given as, byte for byte.
    pub passed_through: u64,
    /// Pages of the file.
    pub pages: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// What was written of a folder or a table of images.
#[derive(Debug)]
pub struct FolderReport {
    /// What was written.
    pub written: WriteReport,
    /// Names of the classes by number, escaped; empty if a table gave numbers.
    pub classes: Vec<String>,
    /// Files that were not taken for samples.
    pub ignored: Ignored,
}

/// Samples left out: how many, and the first of them.
#[derive(Debug, Default)]
pub struct Skipped {
    /// How many.
    pub count: u64,
    /// The first 100.
    pub first: Vec<SkippedSample>,
}

impl Skipped {
    pub(super) fn add(&mut self, sample: SkippedSample) {
        self.count += 1;
        if self.first.len() < KEPT {
            self.first.push(sample);
        }
    }
}

/// A sample left out.
#[derive(Debug)]
pub struct SkippedSample {
    /// Its place in the input, not in the file.
    pub sample: SampleId,
    /// Its image file, if it has one.
    pub path: Option<PathBuf>,
    /// What is wrong with it.
    pub cause: SampleError,
}
