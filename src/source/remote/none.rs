//! Addresses in a build without the feature `remote`: opening one is an error that names the feature.

use crate::source::shards::{Extents, Shards};
use crate::source::{BoxError, Location, ReadAt, RunPlan};
use std::sync::Arc;

pub(super) fn open(url: &str) -> Result<Arc<dyn ReadAt>, BoxError> {
    let location = Location::Url(url.to_owned());
    Err(format!("{location}: this build can't read addresses: build it with `--features remote`")
        .into())
}

/// Returns `None`: no shard is remote.
pub(in crate::source) fn ahead(
    _: &Shards,
    _: &RunPlan,
    _: Arc<dyn Extents>,
) -> Result<Option<Shards>, BoxError> {
    Ok(None)
}
