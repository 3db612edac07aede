//! The arguments and results of reading ahead: the positions of samples in files, and the files' readers.

use crate::sample::SampleId;
use crate::source::ReadAt;
use std::ops::Range;
use std::sync::Arc;

/// The readers of a dataset's files as one run reads them; `None` for a file that is not remote.
pub type Views = Vec<Option<Arc<dyn ReadAt>>>;

/// The positions of samples in shards, from which reading ahead is planned.
pub trait Extents: Send + Sync {
    /// Appends the (shard, byte range) pairs that are needed to read these fields of a sample.
    fn extents(&self, sample: SampleId, fields: &[usize], out: &mut Vec<(usize, Range<u64>)>);
}
