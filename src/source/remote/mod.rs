//! Objects elsewhere: read in ranges, as a file is.
//!
//! ```text
//! read_at ─┬─ planned (ahead/) ── a block that the run's order said would be wanted: waited for
//!          ├─ under 64 KiB (blocks) ── 1 MiB around it, kept for the next: headers, streams
//!          └─ else ─────────────── exactly that range
//!                    │
//!          folder (disk), if there is one ── what was fetched once by any process
//!                    │
//!          ranged GET (fetch) ── tried again, and never another object's bytes
//! ```
//!
//! | address                     | read by                          | settings                          |
//! |-----------------------------|----------------------------------|-----------------------------------|
//! | `s3://bucket/key`           | S3, or `AWS_ENDPOINT_URL`        | `AWS_*`, as `object_store` has them |
//! | `gs://bucket/key`           | Google Cloud, or `GOOGLE_BASE_URL` | `GOOGLE_*`, `SERVICE_ACCOUNT`    |
//! | `http(s)://host/path?query` | any server that gives ranges     | presigned addresses: as they stand |
//!
//! Credentials are those of the environment, else the machine's own in its cloud; files of profiles
//! are not read. Keys of `s3://` and `gs://` are taken as they stand; paths of `http(s)://` are percent-decoded.
//!
//! An object is opened at the length and the ETag that it has then. One that changes while it is
//! read is an error, as is a server that gives other bytes than those asked for. Errors of the
//! network and answers of a server that is busy (408, 429, 5xx) are tried again, ten times over 40
//! seconds; a server that sends nothing for 30 seconds counts as one of them.
//!
//! # A cache on this machine
//!
//! With `FUSELOOP_CACHE_DIR` and `FUSELOOP_CACHE_BYTES` set, what was fetched is kept in that folder,
//! in files of 256 KiB, and not fetched again: by no process that has the same folder. The files
//! used least recently go first. Give it room for the whole dataset: then a byte is fetched once;
//! with much less, more may be fetched than without it. Without these variables no file is made.
//!
//! Needs the feature `remote`.

#[cfg(feature = "remote")]
mod address;
#[cfg(feature = "remote")]
mod ahead;
#[cfg(feature = "remote")]
mod blocks;
#[cfg(feature = "remote")]
mod cause;
#[cfg(feature = "remote")]
mod disk;
#[cfg(feature = "remote")]
mod fetch;
#[cfg(not(feature = "remote"))]
mod none;
#[cfg(feature = "remote")]
mod opened;
#[cfg(feature = "remote")]
mod runtime;
#[cfg(feature = "remote")]
mod stores;

#[cfg(all(test, feature = "remote"))]
#[path = "../../../tests/remote/server.rs"]
#[allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each binary uses its own part")]
mod server;
#[cfg(all(test, feature = "remote"))]
mod tests;
#[cfg(feature = "remote")]
#[doc(hidden)]
pub mod trial;

use super::{BoxError, ReadAt};
use std::sync::Arc;

#[cfg(feature = "remote")]
pub(super) use ahead::ahead;
#[cfg(not(feature = "remote"))]
pub(super) use none::ahead;
#[cfg(not(feature = "remote"))]
use none::open as opened;

/// Opens the object at an address, to be read at places.
///
/// ```no_run
/// use fuseloop::source::{Beton, OpenOptions, remote};
///
/// let object = remote::object("s3://bucket/train.beton")?;
/// let beton = Beton::from_reader(object, &OpenOptions::default())?;
/// # Ok::<(), fuseloop::source::BoxError>(())
/// ```
///
/// Reads block. They may be asked for on any thread, also on one of an async runtime.
///
/// # Errors
///
/// If the address is none, the object is not there or may not be read, no server answers, or this
/// build has no `remote`. No error shows what stands after the `?` of an address.
pub fn object(url: &str) -> Result<Arc<dyn ReadAt>, BoxError> {
    #[cfg(feature = "remote")]
    return Ok(Arc::new(opened::Object::open(url)?));
    #[cfg(not(feature = "remote"))]
    opened(url)
}

pub(super) use self::object as open;
