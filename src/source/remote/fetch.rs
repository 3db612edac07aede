//! Fetches one range of an object, with retries.
//!
//! ```text
//! GET range ─▶ 206, the range asked for, the ETag and length of when it was opened ─▶ body
//!     ▲                                                                                │ breaks off
//!     └──────────────── wait 0.1, 0.2, 0.4 .. 15 s (and up to half as much again) ◀────┘ at byte n
//!                       go on at byte n
//! ```
//!
//! A first try that is late may be sent a second time, if the budgets of its [`host`](super::host) allow it: the whole
//! range that arrives first is used, and the other request is cancelled.
//!
//! Retries continue only while the range makes progress: in each 60 seconds ([`FetchLimits::period`]) 64
//! KiB of it, or its end, must arrive. This one rule ends a request to a server that is down, that
//! hangs, or that sends too slowly.
//!
//! Bytes are taken only from an answer with the right headers, and no more than were asked for. The
//! result is therefore the range as it was when the object was opened, or an error. ETags are compared
//! here and not sent in the request, because servers differ in which ones they accept.

use super::address::{Address, StoreAt};
use super::cause::Cause;
use super::host::{Host, Slot, some_of};
use super::options::HostLimits;
use super::stores::{self, Store};
use crate::source::Escaped;
use object_store::{GetOptions, GetRange, GetResult, GetResultPayload, ObjectMeta, ObjectStore};
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// The limits on time and retries.
#[derive(Clone, Copy, Debug)]
pub(super) struct FetchLimits {
    /// The number of tries for a range.
    pub(super) tries: u32,
    /// The number of tries to open an object if no server is reached: the name is then probably wrong.
    pub(super) tries_to_reach: u32,
    /// The number of tries if the cause is not known to be temporary, such as an answer that is not
    /// HTTP.
    pub(super) tries_if_unlikely: u32,
    /// The longest wait for a byte.
    pub(super) stall: Duration,
    /// The time limit for all tries to open an object.
    pub(super) opening: Duration,
    /// In each period of this length, [`LEAST`] bytes of a range or its end must arrive.
    pub(super) period: Duration,
    /// The pause after the first try; it doubles after each further try.
    pub(super) pause: Duration,
    /// The limits on all requests to a host.
    pub(super) host: HostLimits,
}

impl Default for FetchLimits {
    /// The number of tries and the pauses are those of `object_store`.
    fn default() -> Self {
        Self {
            tries: 10,
            tries_to_reach: 4,
            tries_if_unlikely: 3,
            stall: Duration::from_secs(15),
            opening: Duration::from_secs(30),
            period: Duration::from_secs(60),
            pause: Duration::from_millis(100),
            host: HostLimits::default(),
        }
    }
}

impl FetchLimits {
    /// The number of tries for a range, given the cause of the last failure.
    fn tries(&self, cause: &Cause) -> u32 {
        match cause {
            Cause { passing: false, .. } => 0,
            Cause { unlikely: true, .. } => self.tries_if_unlikely,
            _ => self.tries,
        }
    }
}

/// The fewest bytes of a range in each [`FetchLimits::period`]: about a thousand per second.
pub(super) const LEAST: usize = 64 << 10;

/// Enforces the minimum speed of a range, over all its tries.
pub(super) struct Pace {
    /// The start of the first try.
    first: Instant,
    /// The start of this period, and the number of bytes received before it.
    begun: Instant,
    before: usize,
    period: Duration,
    stall: Duration,
}

impl Pace {
    fn begin(period: Duration, stall: Duration) -> Self {
        let now = Instant::now();
        Self { first: now, begun: now, before: 0, period, stall }
    }

    /// Begins a new period if enough bytes of this one have arrived.
    fn arrived(&mut self, len: usize) {
        if len - self.before >= LEAST {
            (self.begun, self.before) = (Instant::now(), len);
        }
    }

    /// Waits for a future, up to the stall limit and the end of the period.
    pub(super) async fn wait<T>(
        &self,
        len: usize,
        future: impl Future<Output = T>,
    ) -> Result<T, Cause> {
        let left = self.period.saturating_sub(self.begun.elapsed());
        match timeout(left.min(self.stall), future).await {
            Ok(outcome) => Ok(outcome),
            Err(_) if self.stall < left => Err(stalled(self.stall)),
            Err(_) => Err(self.too_slow(len)),
        }
    }

    /// Pauses between two tries.
    ///
    /// # Errors
    ///
    /// If the period ends before the pause does: the cause of the last failure.
    async fn pause(&self, pause: Duration, cause: Cause) -> Result<(), Cause> {
        // A server that asks to wait longer is not asked before.
        let pause = pause.max(cause.wait);
        if self.begun.elapsed() + pause >= self.period {
            return Err(Cause { passing: false, ..cause });
        }
        sleep(pause).await;
        Ok(())
    }

    /// Pauses between two tries, as [`pause`](Self::pause) does, and for the retry budget of the host.
    async fn pause_within(&self, host: &Host, pause: Duration, cause: Cause) -> Result<(), Cause> {
        host.hold(cause.wait);
        let wait = host.retry();
        let cause = match wait > pause {
            true => Cause { text: host.out_of_retries(&cause.text), ..cause },
            false => cause,
        };
        let paused = self.pause(pause.max(wait), cause).await;
        match paused {
            Ok(()) => host.counts.retries.fetch_add(1, Ordering::Relaxed),
            Err(cause) => {
                host.not_retried();
                return Err(cause);
            }
        };
        Ok(())
    }

    /// Waits until a request may begin. This time is not part of the period.
    async fn slot(&mut self, host: &Host) -> Slot {
        let asked = Instant::now();
        let slot = host.slot().await;
        self.begun += asked.elapsed();
        slot
    }

    fn too_slow(&self, len: usize) -> Cause {
        let (came, seconds) = (len - self.before, self.period.as_secs_f32());
        let text = match came {
            0 => format!("no bytes arrived for {seconds} s"),
            _ => format!("{came} bytes arrived in {seconds} s, expected at least {LEAST}"),
        };
        Cause::lasting(io::ErrorKind::TimedOut, text)
    }

    /// Describes how often and how long the range was tried.
    fn tried(&self, tried: u32) -> String {
        let seconds = self.first.elapsed().as_secs_f32();
        if tried > 1 { format!(", tried {tried} times in {seconds:.1} s") } else { String::new() }
    }
}

/// The tries of a request that is made before any bytes are read: of an object's length, or of a list.
pub(super) struct Tries<'a> {
    /// What is asked for, for errors.
    name: &'a (dyn fmt::Display + Sync),
    patience: FetchLimits,
    pub(super) pace: Pace,
    host: Arc<Host>,
    failed: u32,
}

impl<'a> Tries<'a> {
    /// Begins; [`FetchLimits::opening`] is the time for all tries together.
    pub(super) fn begin(
        name: &'a (dyn fmt::Display + Sync),
        store: &StoreAt,
        patience: FetchLimits,
    ) -> Self {
        let pace = Pace::begin(patience.opening, patience.stall);
        let host = Host::of(store, patience.host);
        host.asked();
        Self { name, patience, pace, host, failed: 0 }
    }

    /// Waits until the request may begin.
    pub(super) async fn slot(&mut self) -> Slot {
        self.pace.slot(&self.host).await
    }

    /// Notes a try that failed, and pauses before the next.
    ///
    /// # Errors
    ///
    /// If there shall be no other try: the cause of this one.
    pub(super) async fn failed(&mut self, cause: Cause) -> Result<(), FetchError> {
        self.failed += 1;
        let tries = match cause.unreached {
            true if cause.passing => self.patience.tries_to_reach,
            _ => self.patience.tries(&cause),
        };
        let paused = match self.failed < tries {
            true => {
                let pause = pause(self.patience.pause, self.failed);
                self.pace.pause_within(&self.host, pause, cause).await
            }
            false => Err(cause),
        };
        paused.map_err(|cause| FetchError::of(&self.name, &cause, &self.pace.tried(self.failed)))
    }
}

/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// An object in the version that was opened.
pub(super) struct Fetcher {
    store: Arc<dyn Store>,
    address: Address,
    version: Version,
    patience: FetchLimits,
    host: Arc<Host>,
}

/// Distinguishes an object from one that was later written over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) len: u64,
    pub(super) etag: Option<String>,
    /// The modification time in seconds; 0 if unknown.
    pub(super) modified: i64,
}

/// The reason why a range could not be read, with the address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FetchError {
    kind: io::ErrorKind,
    text: String,
}

impl From<FetchError> for io::Error {
    fn from(error: FetchError) -> Self {
        Self::new(error.kind, error.text)
    }
}

impl Fetcher {
    /// Requests an object's length and version. Of the Hub, the first byte is asked for: the storage that it redirects to
    /// may allow nothing else.
    pub(super) async fn open(address: Address, patience: FetchLimits) -> Result<Self, FetchError> {
        let store = stores::store(&address.store);
        let store = store.map_err(|cause| FetchError::of(&address, &cause, ""))?;
        let mut tries = Tries::begin(&address, &address.store, patience);
        let host = Arc::clone(&tries.host);
        let version = loop {
            let options = match address.store {
                StoreAt::Hub { .. } => {
                    GetOptions { range: Some(GetRange::Bounded(0..1)), ..GetOptions::default() }
                }
                _ => GetOptions { head: true, ..GetOptions::default() },
            };
            let slot = tries.slot().await;
            let answer = answer(&*store, &address, options, &tries.pace, 0).await;
            drop(slot);
            match answer {
                Ok(answer) => break Version::of(&answer.meta),
                Err(cause) => tries.failed(cause).await?,
            }
        };
        Ok(Self { store, address, version, patience, host })
    }

    /// How long a range may make no progress.
    pub(super) fn patience(&self) -> Duration {
        self.patience.period
    }

    pub(super) fn version(&self) -> &Version {
        &self.version
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// The identity of the object in the local cache; `None` if the object has neither an ETag nor a
    /// date.
    pub(super) fn identity(&self, url: &str) -> Option<String> {
        let Version { len, etag, modified } = &self.version;
        match etag {
            // The query is left out: an address that is signed again is still the same object.
            Some(etag) => Some(format!("{}\n{len}\n{modified}\n{etag}", self.address)),
            None if *modified != 0 => Some(format!("{url}\n{len}\n{modified}")),
            None => None,
        }
    }

    /// Returns exactly the bytes of `range`, which must lie within the object.
    pub(super) async fn get(&self, range: Range<u64>) -> Result<Vec<u8>, FetchError> {
        let mut bytes = vec![];
        let count = usize::try_from(range.end - range.start);
        if count.is_err() || count.is_ok_and(|count| bytes.try_reserve_exact(count).is_err()) {
            return Err(self.failed(&range, &Cause::no_memory()));
        }
        self.host.asked();
        let mut slot = self.host.slot().await;
        let mut pace = Pace::begin(self.patience.period, self.patience.stall);
        let mut tried = 0;
        loop {
            tried += 1;
            let outcome = self.attempt(&range, &mut bytes, &mut pace).await;
            // Others may begin during the pause.
            drop(slot);
            let cause = match outcome {
                Ok(()) => {
                    self.host.counts.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                    return Ok(bytes);
                }
                Err(cause) => cause,
            };
            if tried >= self.patience.tries(&cause) {
                return Err(self.error(&range, &pace.tried(tried), &cause));
            }
            let pause = pause(self.patience.pause, tried);
            let paused = pace.pause_within(&self.host, pause, cause).await;
            paused.map_err(|cause| self.error(&range, &pace.tried(tried), &cause))?;
            slot = pace.slot(&self.host).await;
        }
    }

    /// Requests the missing bytes of a range: once, or twice if the first try is late.
    async fn attempt(
        &self,
        range: &Range<u64>,
        bytes: &mut Vec<u8>,
        pace: &mut Pace,
    ) -> Result<(), Cause> {
        if !bytes.is_empty() {
            return self.go_on(range, bytes, pace).await;
        }
        let (len, begun) = (range.end - range.start, Instant::now());
        let outcome = match self.host.hedge_after(len) {
            Some(late) => self.hedged(range, bytes, pace, late).await,
            None => self.go_on(range, bytes, pace).await,
        };
        if outcome.is_ok() {
            self.host.took(len, begun.elapsed());
        }
        outcome
    }

    /// Requests a range, and once more if it has not arrived when it is late. The range that arrives first is used; the
    /// other request ends when its future is dropped.
    async fn hedged(
        &self,
        range: &Range<u64>,
        bytes: &mut Vec<u8>,
        pace: &mut Pace,
        late: Duration,
    ) -> Result<(), Cause> {
        let mut again = vec![];
        {
            let mut first = pin!(self.go_on(range, bytes, pace));
            let _slot = loop {
                if let Ok(outcome) = timeout(late, first.as_mut()).await {
                    return outcome;
                }
                if again.try_reserve_exact((range.end - range.start) as usize).is_err() {
                    return first.await;
                }
                // A budget that is spent may have a hedge later.
                if let Some(slot) = self.host.hedge() {
                    break slot;
                }
            };
            let mut own = Pace::begin(self.patience.period, self.patience.stall);
            let mut hedge = pin!(self.go_on(range, &mut again, &mut own));
            let outcome = poll_fn(|context| match first.as_mut().poll(context) {
                Poll::Ready(outcome) => Poll::Ready(First(outcome)),
                Poll::Pending => hedge.as_mut().poll(context).map(Hedge),
            });
            // A request that failed leaves the other; a cause that does not pass is that of both.
            match outcome.await {
                First(Err(cause)) if cause.passing => hedge.await.map_err(|_| cause)?,
                Hedge(Err(cause)) if cause.passing => return first.await,
                First(outcome) => return outcome,
                Hedge(outcome) => outcome?,
            }
        }
        self.host.counts.hedges_won.fetch_add(1, Ordering::Relaxed);
        *bytes = again;
        Ok(())
    }

    /// Requests the missing bytes of a range once, and appends those that arrive.
    async fn go_on(
        &self,
        range: &Range<u64>,
        bytes: &mut Vec<u8>,
        pace: &mut Pace,
    ) -> Result<(), Cause> {
        let missing = range.start + bytes.len() as u64..range.end;
        if missing.is_empty() {
            return Ok(());
        }
        let asked = Some(GetRange::Bounded(missing.clone()));
        let options = GetOptions { range: asked, ..GetOptions::default() };
        let answer = answer(&*self.store, &self.address, options, pace, bytes.len()).await?;
        if Version::of(&answer.meta) != self.version {
            return Err(Cause::changed());
        }
        if answer.range != missing {
            return Err(Cause::lasting(
                io::ErrorKind::InvalidData,
                "the server returned another range",
            ));
        }
        let GetResultPayload::Stream(mut body) = answer.payload;
        loop {
            let next = poll_fn(|context| Pin::as_mut(&mut body).poll_next(context));
            let next = pace.wait(bytes.len(), next).await?;
            let left = (range.end - range.start) as usize - bytes.len();
            match next {
                Some(Ok(part)) if part.len() > left => {
                    let text = "the server returned more bytes than were requested";
                    return Err(Cause::lasting(io::ErrorKind::InvalidData, text));
                }
                Some(Ok(part)) => {
                    bytes.extend_from_slice(&part);
                    pace.arrived(bytes.len());
                }
                Some(Err(error)) => return Err(Cause::of(&error, &self.address.store)),
                None if left == 0 => return Ok(()),
                None => {
                    let text = format!("the answer ended {left} bytes early");
                    return Err(Cause::passing(io::ErrorKind::UnexpectedEof, text));
                }
            }
        }
    }

    /// The error of a range that can't be read for a local reason.
    pub(super) fn failed(&self, range: &Range<u64>, cause: &Cause) -> FetchError {
        self.error(range, "", cause)
    }

    fn error(&self, range: &Range<u64>, tried: &str, cause: &Cause) -> FetchError {
        let Range { start, end } = range;
        let text = Escaped(&cause.text).to_string();
        FetchError {
            kind: cause.kind,
            text: format!("{}: bytes {start}..{end}: {text}{tried}", self.address),
        }
    }
}

impl Version {
    fn of(meta: &ObjectMeta) -> Self {
        let modified = meta.last_modified.timestamp();
        Self { len: meta.size, etag: meta.e_tag.clone(), modified }
    }
}

impl FetchError {
    /// An error of a whole object, or of a list of them.
    pub(super) fn of(name: &dyn fmt::Display, cause: &Cause, tried: &str) -> Self {
        let text = format!("{name}: {}{tried}", Escaped(&cause.text));
        Self { kind: cause.kind, text }
    }

    /// An error that does not belong to a range.
    pub(super) fn other(text: impl Into<String>) -> Self {
        Self { kind: io::ErrorKind::Other, text: text.into() }
    }
}

/// The request of two that ended first.
enum Ended {
    First(Result<(), Cause>),
    Hedge(Result<(), Cause>),
}
use Ended::{First, Hedge};

/// Sends a request and returns its answer once the headers have arrived.
async fn answer(
    store: &dyn ObjectStore,
    address: &Address,
    options: GetOptions,
    pace: &Pace,
    len: usize,
) -> Result<GetResult, Cause> {
    let answer = pace.wait(len, store.get_opts(&address.path, options)).await?;
    answer.map_err(|error| Cause::of(&error, &address.store))
}

fn stalled(stall: Duration) -> Cause {
    let text = format!("no bytes arrived for {} s", stall.as_secs_f32());
    Cause::passing(io::ErrorKind::TimedOut, text)
}

/// The pause after `tried` tries: doubled each time, plus up to half of it at random, so that many
/// clients that were refused together do not return together.
fn pause(first: Duration, tried: u32) -> Duration {
    let doubled = first.saturating_mul(1 << (tried - 1).min(16)).min(LONGEST_PAUSE);
    doubled + some_of(doubled / 2)
}
