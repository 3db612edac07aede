//! Objects elsewhere: read in ranges, as a file is.

use super::shards::{Extents, Shards};
use super::{BoxError, Location, ReadAt, RunPlan};
use std::sync::Arc;

/// Opens an object to be read at places.
///
/// # Errors
///
/// If it is not there, or this build has no `remote`.
pub(super) fn open(url: &str) -> Result<Arc<dyn ReadAt>, BoxError> {
    let location = Location::Url(url.to_owned());
    Err(format!("{location}: this build reads no addresses: build it with `--features remote`")
        .into())
}

/// The shards as one run reads them: ranges that the run will want, fetched ahead and together.
/// `None` where none of them is remote.
///
/// # Errors
///
/// If the system gives no threads.
pub(super) fn ahead(
    shards: &Shards,
    run: &RunPlan,
    extents: Arc<dyn Extents>,
) -> Result<Option<Shards>, BoxError> {
    let _ = (shards, run, extents);
    Ok(None)
}
