//! How this process reads remote objects: budgets of requests, and the folder of the cache.
//!
//! The environment sets them for a process and those that it starts; [`set_options`] replaces them. They belong to the
//! machine and its network, not to a dataset or a loader, so that pipeline files do not have them.

use super::disk::{self, DiskCache};
use super::fetch::FetchLimits;
use super::{host, runtime};
use crate::error::{Error, ErrorKind, fail};
use crate::source::BoxError;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

/// How this process reads remote objects.
///
/// ```
/// use fuseloop::source::remote::{self, RemoteOptions};
/// use std::num::NonZeroUsize;
///
/// let mut options = RemoteOptions::from_env()?;
/// options.max_requests = NonZeroUsize::new(32);
/// options.hedge_budget = 0.05;
/// remote::set_options(&options)?;
/// # remote::set_options(&RemoteOptions::default())?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
///
/// Budgets are per host: per bucket, or per host of a web address. Time that a request waits for `max_requests` or
/// `requests_per_second` does not count for the [limits in time](super#limits-in-time).
#[derive(Clone, Debug, PartialEq)]
pub struct RemoteOptions {
    /// Maximum number of requests in flight to a host; `None`, the default, for no maximum.
    /// `FUSELOOP_MAX_REQUESTS`.
    pub max_requests: Option<NonZeroUsize>,
    /// Maximum number of requests per second to a host; `None`, the default, for no maximum.
    /// `FUSELOOP_REQUESTS_PER_SECOND`.
    pub requests_per_second: Option<NonZeroU32>,
    /// The number of retries per request, 0.2 by default. The first hundred retries, and one per second, are always
    /// allowed. `FUSELOOP_RETRY_BUDGET`.
    pub retry_budget: f64,
    /// The number of hedges per request: a range that takes longer than 95 % of recent ones is requested a second time,
    /// the first answer is used, and the other request is cancelled. 0, the default, sends none.
    /// `FUSELOOP_HEDGE_BUDGET`.
    pub hedge_budget: f64,
    /// The folder of the cache; `None`, the default, for no cache. `FUSELOOP_CACHE_DIR`.
    pub cache_dir: Option<PathBuf>,
    /// Maximum size of the cache in bytes. `FUSELOOP_CACHE_BYTES`.
    pub cache_bytes: Option<u64>,
}

impl Default for RemoteOptions {
    /// The defaults, whatever the environment says.
    fn default() -> Self {
        Self {
            max_requests: None,
            requests_per_second: None,
            retry_budget: 0.2,
            hedge_budget: 0.0,
            cache_dir: None,
            cache_bytes: None,
        }
    }
}

/// The requests of this process for remote objects so far.
///
/// ```
/// use fuseloop::source::remote;
///
/// let before = remote::stats();
/// // .. an epoch of a remote dataset ..
/// let requests = remote::stats().requests - before.requests;
/// assert_eq!(requests, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoteStats {
    /// The number of requests, retries and hedges included.
    pub requests: u64,
    /// The number of bytes of objects that arrived and were used.
    pub bytes: u64,
    /// The number of requests that were sent again because one failed.
    pub retries: u64,
    /// The number of hedges: second requests for ranges that were late.
    pub hedges: u64,
    /// The number of hedges whose answer came first.
    pub hedges_won: u64,
    /// The number of bytes read from the folder of the cache.
    pub cached_bytes: u64,
    /// The number of blocks that another process, or another thread, fetched while this one waited for them.
    pub awaited_blocks: u64,
}

/// The limits on requests to one host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct HostLimits {
    pub(super) max_requests: Option<NonZeroUsize>,
    pub(super) requests_per_second: Option<NonZeroU32>,
    pub(super) retry_budget: f64,
    pub(super) hedge_budget: f64,
    /// The most retries that the budget holds; it is full at first.
    pub(super) retry_burst: f64,
}

impl Default for HostLimits {
    fn default() -> Self {
        Self::of(&RemoteOptions::default())
    }
}

impl HostLimits {
    fn of(options: &RemoteOptions) -> Self {
        Self {
            max_requests: options.max_requests,
            requests_per_second: options.requests_per_second,
            retry_budget: options.retry_budget,
            hedge_budget: options.hedge_budget,
            retry_burst: 100.0,
        }
    }
}

/// The options as objects are opened with them.
#[derive(Clone)]
pub(super) struct OpenWith {
    pub(super) limits: FetchLimits,
    pub(super) disk: Option<Arc<DiskCache>>,
}

static CURRENT: Mutex<Option<Result<OpenWith, String>>> = Mutex::new(None);

/// Returns the options of this process: those that were set, or those of the environment.
///
/// # Errors
///
/// If the environment is wrong, or this process was forked from one that has read remote objects.
pub(super) fn current() -> Result<OpenWith, BoxError> {
    runtime::check()?;
    let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    let of_environment = || RemoteOptions::from_env()?.open();
    let current = current.get_or_insert_with(|| of_environment().map_err(|e: Error| e.to_string()));
    current.clone().map_err(Into::into)
}

/// Sets how this process reads remote objects that are opened from now on.
///
/// ```
/// use fuseloop::source::remote::{self, RemoteOptions};
///
/// let folder = std::env::temp_dir().join("fuseloop-doc-cache");
/// let cache = RemoteOptions {
///     cache_dir: Some(folder.clone()),
///     cache_bytes: Some(100_000_000_000),
///     ..RemoteOptions::default()
/// };
/// remote::set_options(&cache)?;
/// # remote::set_options(&RemoteOptions::default())?;
/// # let _ = std::fs::remove_dir_all(folder);
/// # Ok::<(), fuseloop::Error>(())
/// ```
///
/// # Errors
///
/// If a budget is not a share, the folder of the cache is refused (see [`remote`](super)), only one of `cache_dir` and
/// `cache_bytes` is set, or this process was forked from one that has read remote objects.
pub fn set_options(options: &RemoteOptions) -> Result<(), Error> {
    runtime::check().map_err(|error| Error::boxed(error.into(), ErrorKind::Parameter))?;
    let opened = options.open()?;
    *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = Some(Ok(opened));
    Ok(())
}

/// Returns what this process has requested of remote objects so far: the counts of all hosts.
pub fn stats() -> RemoteStats {
    // In a forked child, the lock may be held for ever.
    if runtime::check().is_err() {
        return RemoteStats::default();
    }
    RemoteStats {
        requests: host::sum(|counts| &counts.requests),
        bytes: host::sum(|counts| &counts.bytes),
        retries: host::sum(|counts| &counts.retries),
        hedges: host::sum(|counts| &counts.hedges),
        hedges_won: host::sum(|counts| &counts.hedges_won),
        cached_bytes: disk::CACHED_BYTES.load(Ordering::Relaxed),
        awaited_blocks: disk::AWAITED_BLOCKS.load(Ordering::Relaxed),
    }
}

impl RemoteOptions {
    /// Returns the options that the environment sets, and the defaults of the others.
    ///
    /// # Errors
    ///
    /// If a variable has a value that it can't have.
    pub fn from_env() -> Result<Self, Error> {
        let default = Self::default();
        let cache_dir = std::env::var_os("FUSELOOP_CACHE_DIR").filter(|dir| !dir.is_empty());
        let cache_bytes = match cache_dir {
            Some(_) => Some(cache_bytes()?),
            None => None,
        };
        let (count, share) = ("a number of 1 or more", "a share such as 0.05");
        Ok(Self {
            max_requests: variable("FUSELOOP_MAX_REQUESTS", count)?,
            requests_per_second: variable("FUSELOOP_REQUESTS_PER_SECOND", count)?,
            retry_budget: variable("FUSELOOP_RETRY_BUDGET", share)?.unwrap_or(default.retry_budget),
            hedge_budget: variable("FUSELOOP_HEDGE_BUDGET", share)?.unwrap_or(default.hedge_budget),
            cache_dir: cache_dir.map(PathBuf::from),
            cache_bytes,
        })
    }

    /// Checks the options, and opens the folder of the cache.
    fn open(&self) -> Result<OpenWith, Error> {
        let budgets = [("retry_budget", self.retry_budget), ("hedge_budget", self.hedge_budget)];
        for (name, budget) in budgets {
            if !(0.0..=1.0).contains(&budget) {
                return Err(fail!(Parameter, "{name} is {budget}, expected a share from 0 to 1"));
            }
        }
        let disk = match (&self.cache_dir, self.cache_bytes) {
            (Some(folder), Some(limit)) => {
                let disk = DiskCache::open(folder, limit);
                let refused = |error| fail!(Parameter, "FUSELOOP_CACHE_DIR {folder:?}: {error}");
                Some(Arc::new(disk.map_err(refused)?))
            }
            (None, None) => None,
            (Some(_), None) => {
                return Err(fail!(Parameter, "cache_dir without cache_bytes: set both"));
            }
            (None, Some(_)) => {
                return Err(fail!(Parameter, "cache_bytes without cache_dir: set both"));
            }
        };
        let limits = FetchLimits { host: HostLimits::of(self), ..FetchLimits::default() };
        Ok(OpenWith { limits, disk })
    }
}

fn cache_bytes() -> Result<u64, Error> {
    let text = std::env::var("FUSELOOP_CACHE_BYTES").unwrap_or_default();
    let refused =
        || fail!(Parameter, "FUSELOOP_CACHE_BYTES is {text:?}, expected a number of bytes");
    text.parse().map_err(|_| refused())
}

/// Returns the value of a variable of the environment; `None` if it is not set, or empty.
fn variable<T: FromStr>(name: &str, expected: &str) -> Result<Option<T>, Error> {
    let Some(text) = std::env::var_os(name).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let value = text.to_str().and_then(|text| text.trim().parse().ok());
    let refused = || fail!(Parameter, "{name} is {text:?}, expected {expected}");
    value.map(Some).ok_or_else(refused)
}
