//! Remote objects, read in ranges like a file.
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
//! | `s3://bucket/key`           | S3, or `AWS_ENDPOINT_URL`        | `AWS_*`, as in `object_store`     |
//! | `gs://bucket/key`           | Google Cloud, or `GOOGLE_BASE_URL` | `GOOGLE_*`, `SERVICE_ACCOUNT`    |
//! | `http(s)://host/path?query` | any server that supports ranges  | presigned addresses are used unchanged |
//! | `hf://datasets/org/name/path` | the Hugging Face Hub           | `HF_ENDPOINT`, `HF_TOKEN`: `hub.rs` |
//!
//! Credentials are read from the environment; without them, those that a cloud gives to its machines are
//! used. Profile files are not read. Keys of `s3://` and `gs://` are used unchanged; paths of
//! `http(s)://` are percent-decoded.
//!
//! # Patterns
//!
//! `s3://bucket/train-*.tar` means the objects of the bucket that match, as with local files; the list of
//! the bucket is asked for, of the keys that begin as the pattern does, and at most a million. A web server
//! has no list: name its files by braces, `https://host/train-{000..127}.tar`.
//!
//! # Files beside a dataset
//!
//! Small files beside a remote dataset, such as the names of its classes, are read as those beside a local
//! one. An address with a query has none, because a signature holds for one object.
//!
//! # Versions
//!
//! When an object is opened, its length and ETag are recorded. An object that changes while it is read
//! is an error, and so is a server that returns bytes other than those asked for.
//!
//! # Limits in time
//!
//! | case                                                         | ends                              |
//! |--------------------------------------------------------------|-----------------------------------|
//! | an object that can't be opened                               | after 30 seconds at most          |
//! | a range of which less than 64 KiB arrive within 60 seconds, whatever the reason | after those 60 seconds |
//! | a request that receives no byte for 15 seconds               | after those 15 seconds; it is sent again |
//! | a network that fails, a server that is busy (408, 429, 5xx)  | after ten tries, some 40 seconds  |
//! | a server that asks to wait longer than these limits (`Retry-After`) | at once                    |
//! | an answer that is not HTTP, or has endless headers           | after three tries                 |
//! | a page of a list of objects                                  | after 30 seconds at most          |
//! | a redirect loop, and errors that do not pass (404, 403, a certificate, ..) | at once             |
//!
//! # Redirects
//!
//! A redirect is followed to another path of the same host, and from `http` to `https` on that host. A
//! redirect to another host or port would let that server decide which bytes are read, so it needs
//! consent, except for the Hub: `FUSELOOP_ALLOW_REDIRECTS` lists such hosts, separated by commas, for example
//! `cdn.example.com,*.example.org`. The error for a redirect that was not followed names both hosts.
//!
//! # A local cache
//!
//! With `FUSELOOP_CACHE_DIR` and `FUSELOOP_CACHE_BYTES` set, fetched bytes are stored in that folder, in
//! files of 256 KiB, and no process that uses the folder fetches them again. A block that one process is
//! fetching is waited for by the others: until it is there, until that process has ended, and for at most a
//! minute. The least recently used
//! files are deleted first. With a limit as large as the dataset, each byte is fetched once; with a much
//! smaller limit, more bytes may be fetched than without a cache. Without these variables no file is
//! written. The folder must belong to the user of the process, and no other user may write to it (a new
//! folder is created that way), so other users can't change what is read from it. Each block has a
//! SHA-256 of its bytes, its object and its index; a block that is damaged, or is not a regular file, is
//! fetched again.
//!
//! # Budgets and hedges
//!
//! [`RemoteOptions`] and the environment limit what this process sends to a host, which is a bucket or the
//! host of a web address:
//!
//! | variable                       | default | meaning                                                   |
//! |--------------------------------|---------|-----------------------------------------------------------|
//! | `FUSELOOP_MAX_REQUESTS`        | none    | maximum number of requests in flight                      |
//! | `FUSELOOP_REQUESTS_PER_SECOND` | none    | maximum number of requests per second, spaced evenly      |
//! | `FUSELOOP_RETRY_BUDGET`        | 0.2     | retries per request, after the first hundred; and one per second |
//! | `FUSELOOP_HEDGE_BUDGET`        | 0       | hedges per request                                        |
//!
//! A hedge is a second request for a range that takes longer than 95 % of the recent ranges of its size, and
//! longer than 50 ms. The first answer is used, and the other request is cancelled. Hedges are off by default,
//! because the bytes of both requests may be billed.
//!
//! An answer with `Retry-After` holds all requests to its host. A retry that exceeds its budget waits, so
//! that a server that fails is not sent a multiple of its requests; if the time of its range ends meanwhile,
//! the error says that the budget is spent.
//!
//! Needs the feature `remote`.

#[cfg(feature = "remote")]
mod address;
#[cfg(feature = "remote")]
pub(crate) mod ahead;
#[cfg(feature = "remote")]
mod blocks;
#[cfg(feature = "remote")]
mod cause;
#[cfg(feature = "remote")]
mod claims;
#[cfg(feature = "remote")]
mod client;
#[cfg(feature = "remote")]
mod disk;
pub(crate) mod extents;
#[cfg(feature = "remote")]
mod fetch;
#[cfg(feature = "remote")]
mod host;
#[cfg(feature = "remote")]
pub(crate) mod hub;
#[cfg(feature = "remote")]
mod latencies;
#[cfg(feature = "remote")]
mod list;
#[cfg(not(feature = "remote"))]
mod none;
#[cfg(feature = "remote")]
mod opened;
#[cfg(feature = "remote")]
mod options;
#[cfg(any(feature = "parquet", feature = "remote"))]
pub(super) mod path_pattern;
#[cfg(feature = "remote")]
mod redirects;
#[cfg(feature = "remote")]
mod runtime;
#[cfg(feature = "remote")]
mod stores;

#[cfg(all(test, feature = "remote"))]
mod scale_tests;
#[cfg(all(test, feature = "remote"))]
#[path = "../../../tests/common/server.rs"]
#[allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each binary uses its own part")]
mod server;
#[cfg(all(test, feature = "remote"))]
mod tests;

use super::ReadAt;
use crate::error::Error;
use std::io;
use std::sync::Arc;

#[cfg(feature = "remote")]
pub(super) use ahead::ahead;
pub(super) use extents::Extents;
#[cfg(feature = "remote")]
pub(super) use hub::files_on_hub;
#[cfg(all(feature = "parquet", feature = "remote"))]
pub(super) use hub::{folder_on_hub, text_on_hub};
#[cfg(feature = "remote")]
pub(super) use list::matching;
#[cfg(not(feature = "remote"))]
use none::open as opened;
#[cfg(not(feature = "remote"))]
use none::small as small_object;
#[cfg(not(feature = "remote"))]
pub(super) use none::{ahead, files_on_hub, matching};
#[cfg(all(feature = "parquet", not(feature = "remote")))]
pub(super) use none::{folder_on_hub, text_on_hub};
#[cfg(feature = "remote")]
use opened::small as small_object;
#[cfg(feature = "remote")]
pub use options::{RemoteOptions, RemoteStats, set_options, stats};

/// Opens the object at an address, for reads at any offset.
///
/// ```no_run
/// use fuseloop::source::{Beton, OpenOptions, remote};
///
/// let object = remote::object("s3://bucket/train.beton")?;
/// let beton = Beton::from_reader(object, &OpenOptions::default())?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
///
/// Reads block. They can be made on any thread, including the threads of an async runtime.
///
/// # Errors
///
/// If the address is invalid, the object does not exist or must not be read, no server answers, or this
/// build lacks the feature `remote`. Errors never show the query of an address (the text after its `?`).
pub fn object(url: &str) -> Result<Arc<dyn ReadAt>, Error> {
    #[cfg(feature = "remote")]
    return Ok(Arc::new(
        opened::Object::open(url)
            .map_err(|error| Error::boxed(error, crate::error::ErrorKind::Format))?,
    ));
    #[cfg(not(feature = "remote"))]
    opened(url)
}

pub(super) use self::object as open;

/// Reads a whole object of at most `most_bytes` bytes; `None` if there is none that may be read.
///
/// # Errors
///
/// If no server answers, or the object is larger.
pub(super) fn small(url: &str, most_bytes: u64) -> io::Result<Option<Vec<u8>>> {
    small_object(url, most_bytes)
}
