//! Addresses in a build without the feature `remote`: opening one is an error that names the feature.

use super::extents::{Extents, Views};
use crate::error::{Error, ErrorKind};
use crate::source::feature::NeedsFeature;
use crate::source::{BoxError, Escaped, ReadAt, RunPlan};
use std::io;
use std::sync::Arc;

pub(super) fn open(url: &str) -> Result<Arc<dyn ReadAt>, Error> {
    // A query may have secrets.
    let address = Escaped(url.split(['?', '#']).next().unwrap_or(url));
    let reason = NeedsFeature { what: "addresses", feature: "remote" };
    Err(Error::boxed(format!("{address}: {reason}").into(), ErrorKind::Unsupported))
}

pub(in crate::source) fn matching(_: &str) -> Result<Vec<String>, BoxError> {
    Err(NeedsFeature { what: "addresses", feature: "remote" }.to_string().into())
}

/// Returns `None`: there are no files beside what can't be opened.
pub(super) fn small(_: &str, _: u64) -> io::Result<Option<Vec<u8>>> {
    Ok(None)
}

/// Returns `None`: no file is remote.
pub(in crate::source) fn ahead(
    _: &[Option<Arc<dyn ReadAt>>],
    _: &RunPlan,
    _: Arc<dyn Extents>,
) -> Result<Option<Views>, BoxError> {
    Ok(None)
}

pub(in crate::source) fn files_on_hub(name: &str) -> Result<Vec<String>, Error> {
    open(name).map(|_| vec![])
}

/// A folder of the Hub: of this build, none.
#[cfg(feature = "parquet")]
pub(in crate::source) struct HubFolder {
    pub(in crate::source) address: String,
    pub(in crate::source) files: Vec<String>,
}

#[cfg(feature = "parquet")]
pub(in crate::source) fn folder_on_hub(name: &str) -> Result<Option<HubFolder>, Error> {
    open(name).map(|_| None)
}

#[cfg(feature = "parquet")]
pub(in crate::source) fn text_on_hub(folder: &HubFolder, _: &str) -> Result<Vec<u8>, Error> {
    open(&folder.address).map(|_| vec![])
}
