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
//! read is an error, as is a server that gives other bytes than those asked for.
//!
//! # What ends by itself, and when
//!
//! | what                                                         | ends                              |
//! |--------------------------------------------------------------|-----------------------------------|
//! | an object that can't be opened                               | after 30 seconds at most          |
//! | a range of which less than 64 KiB come within 60 seconds, whatever the reason | then             |
//! | a request to which no byte comes for 15 seconds              | then, and is sent again           |
//! | a network that fails, a server that is busy (408, 429, 5xx)  | after ten tries, some 40 seconds  |
//! | an answer that is no HTTP, or has headers without end        | after three tries                 |
//! | a redirect in a loop, and all that can't pass (404, 403, ..) | at once                           |
//!
//! # Redirects
//!
//! A redirect is followed to another path of the same host, and from `http` to `https` there. Another
//! host, or another port, would decide what is read: it needs consent. `FUSELOOP_ALLOW_REDIRECTS`
//! lists such hosts with commas between them, as `cdn.example.com,*.example.org`; the error of a
//! redirect that was not followed names both hosts.
//!
//! # A cache on this machine
//!
//! With `FUSELOOP_CACHE_DIR` and `FUSELOOP_CACHE_BYTES` set, what was fetched is kept in that folder,
//! in files of 256 KiB, and not fetched again: by no process that has the same folder. The files
//! used least recently go first. Give it room for the whole dataset: then a byte is fetched once;
//! with much less, more may be fetched than without it. Without these variables no file is made.
//! The folder must belong to the user of the process, and nobody else may write to it (it is made so):
//! what is read from it is then this user's own. Each block has a SHA-256 of its bytes, its object and
//! its place; one that is damaged, or is not a regular file, is fetched again.
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
mod client;
#[cfg(feature = "remote")]
mod disk;
#[cfg(feature = "remote")]
mod fetch;
#[cfg(not(feature = "remote"))]
mod none;
#[cfg(feature = "remote")]
mod opened;
#[cfg(feature = "remote")]
mod redirects;
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
