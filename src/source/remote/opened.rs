//! An open object, read at any offset like a file.

use super::address::Address;
use super::blocks;
use super::disk::{self, DiskCache};
use super::fetch::{FetchError, FetchLimits, Fetcher};
use super::hub;
use super::options::{self, OpenWith};
use super::runtime;
use crate::source::{BoxError, ReadAt};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Shorter reads go through the block cache: they are headers, or small pieces in sequence. For longer
/// reads, the request takes at most twice the time of the bytes.
const SMALL: usize = 64 << 10;

/// The largest request, in bytes: bounds the memory that a request needs beside its destination.
const MOST: u64 = 32 << 20;

/// An open object. A clone shares the same object.
#[derive(Clone)]
pub(super) struct Object(Arc<ObjectInner>);

struct ObjectInner {
    /// Identifies the object within this process.
    number: u64,
    fetcher: Fetcher,
    cache: Option<(Arc<DiskCache>, disk::ObjectKey)>,
}

impl Object {
    pub(super) fn open(url: &str) -> Result<Self, BoxError> {
        let OpenWith { limits, disk } = options::current()?;
        Self::open_with(url, limits, disk)
    }

    pub(super) fn open_with(
        url: &str,
        patience: FetchLimits,
        disk: Option<Arc<DiskCache>>,
    ) -> Result<Self, BoxError> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let url = &*hub::pinned(url, patience)?;
        let address = Address::parse(url)?;
        let shown = address.to_string();
        let fetcher = runtime::wait(Fetcher::open(address, patience));
        let fetcher = fetcher.map_err(|error| named(&shown, &error))?;
        let fetcher = fetcher.map_err(io::Error::from)?;
        let identity = fetcher.identity(url);
        let cache = disk.zip(identity.map(|identity| disk::ObjectKey::new(&identity)));
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Ok(Self(Arc::new(ObjectInner { number, fetcher, cache })))
    }

    pub(super) fn number(&self) -> u64 {
        self.0.number
    }

    pub(super) fn size(&self) -> u64 {
        self.0.fetcher.version().len
    }

    /// Returns exactly the bytes of `range`, which must lie within the object.
    pub(super) async fn fetch(&self, range: Range<u64>) -> Result<Vec<u8>, FetchError> {
        match &self.0.cache {
            Some((disk, key)) => disk.get(&self.0.fetcher, key, range).await,
            None => self.0.fetcher.get(range).await,
        }
    }

    /// The blocking version of [`fetch`](Self::fetch).
    pub(super) fn fetched(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let object = self.clone();
        let fetched = runtime::wait(async move { object.fetch(range).await });
        Ok(fetched.map_err(|error| named(self.0.fetcher.address(), &error))??)
    }

    /// The range of a read, cut to the object's length and to the size of one request.
    pub(super) fn range(&self, start: u64, len: usize) -> Range<u64> {
        start..start.saturating_add((len as u64).min(MOST)).min(self.size())
    }

    /// Reads with a request of its own.
    pub(super) fn read_directly(&self, bytes: &mut [u8], start: u64) -> io::Result<usize> {
        let range = self.range(start, bytes.len());
        if range.is_empty() {
            return Ok(0);
        }
        let got = self.fetched(range)?;
        bytes[..got.len()].copy_from_slice(&got);
        Ok(got.len())
    }
}

/// Reads a whole object of at most `most_bytes` bytes; `None` if there is none that may be read: a bucket
/// whose list is refused says of a missing object that it must not be read.
pub(super) fn small(url: &str, most_bytes: u64) -> io::Result<Option<Vec<u8>>> {
    let absent = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
    };
    let object = match Object::open(url) {
        Ok(object) => object,
        Err(error) => {
            return match error.downcast::<io::Error>() {
                Ok(error) if absent(&error) => Ok(None),
                Ok(error) => Err(*error),
                Err(error) => Err(io::Error::new(io::ErrorKind::InvalidInput, error)),
            };
        }
    };
    if object.size() > most_bytes {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{} bytes, expected at most {most_bytes}", object.size()),
        ));
    }
    match object.fetched(0..object.size()) {
        Err(error) if absent(&error) => Ok(None),
        fetched => fetched.map(Some),
    }
}

/// Adds the address to a local error.
fn named(address: &impl fmt::Display, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{address}: {error}"))
}

impl ReadAt for Object {
    fn len(&self) -> io::Result<u64> {
        Ok(self.size())
    }

    fn read_at(&self, bytes: &mut [u8], start: u64) -> io::Result<usize> {
        runtime::check().map_err(io::Error::other)?;
        if bytes.len() >= SMALL {
            return self.read_directly(bytes, start);
        }
        blocks::read(self, bytes, start)
    }
}

impl Drop for ObjectInner {
    fn drop(&mut self) {
        if runtime::check().is_ok() {
            blocks::forget(self.number);
        }
    }
}
