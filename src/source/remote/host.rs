//! Budgets limit what this process sends to one host: a bucket, or the host of a web address.
//!
//! | budget                     | default | of                                                                |
//! |----------------------------|---------|-------------------------------------------------------------------|
//! | `max_requests`             | none    | requests in flight; others wait in the order in which they came   |
//! | `requests_per_second`      | none    | requests that begin, spaced evenly                                |
//! | `retry_budget`             | 0.2     | retries per request, after the first 100; and one per second      |
//! | `hedge_budget`             | 0       | hedges per request                                                |
//! | `Retry-After` of an answer |         | no request begins before, if that is within a minute              |
//!
//! A *hedge* is a second request for a range whose answer is late ([`latencies`](super::latencies)). It is sent only if
//! it need not wait for any of these budgets.
//!
//! The retry budget keeps an outage from becoming worse: when most requests fail, each process soon sends one retry per
//! second and not ten times its requests. A retry that finds the budget empty waits for its turn; a range whose time ends
//! meanwhile is an error that says so.

use super::address::StoreAt;
use super::latencies::Latencies;
use super::options::HostLimits;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

/// The longest `Retry-After` that other requests wait for.
const LONGEST_HOLD: Duration = Duration::from_secs(60);

/// The most hedges that a calm time saves up.
const MOST_HEDGES: f64 = 10.0;

/// Requests that begin together after a `Retry-After` are spread over this time.
const SPREAD: Duration = Duration::from_millis(250);

/// The hosts of this process.
static HOSTS: Mutex<Option<HashMap<String, Arc<Host>>>> = Mutex::new(None);

/// A host, with its budgets and counts.
pub(super) struct Host {
    name: String,
    state: Mutex<HostState>,
    pub(super) counts: Counts,
}

/// The number of requests of each kind so far.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) requests: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) retries: AtomicU64,
    pub(super) hedges: AtomicU64,
    pub(super) hedges_won: AtomicU64,
}

struct HostState {
    limits: HostLimits,
    in_flight: Option<Arc<Semaphore>>,
    /// No request begins before: of `requests_per_second`.
    next: Instant,
    /// No request begins before: of `Retry-After`.
    held_until: Instant,
    retries: Tokens,
    hedges: f64,
    latencies: Latencies,
}

/// The retry budget: each retry takes a token, each request and each second adds some.
struct Tokens {
    left: f64,
    at: Instant,
}

/// The right to have one request in flight.
pub(super) struct Slot {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Host {
    /// Returns the host of a store; `limits` hold for all its requests from now on.
    pub(super) fn of(store: &StoreAt, limits: HostLimits) -> Arc<Self> {
        let name = match store {
            StoreAt::S3 { bucket } => format!("s3://{bucket}"),
            StoreAt::Google { bucket } => format!("gs://{bucket}"),
            StoreAt::Http { base } | StoreAt::Hub { base } => {
                base.split('/').take(3).collect::<Vec<_>>().join("/")
            }
        };
        let mut hosts = HOSTS.lock().unwrap_or_else(PoisonError::into_inner);
        let host = hosts.get_or_insert_default().entry(name.clone());
        let host = host.or_insert_with(|| Arc::new(Self::new(name, limits)));
        host.state().set_limits(limits);
        Arc::clone(host)
    }

    fn new(name: String, limits: HostLimits) -> Self {
        let now = Instant::now();
        let state = HostState {
            limits,
            in_flight: limits.max_requests.map(|most| semaphore(most.get())),
            next: now,
            held_until: now,
            retries: Tokens { left: limits.retry_burst, at: now },
            hedges: 0.0,
            latencies: Latencies::default(),
        };
        Self { name, state: Mutex::new(state), counts: Counts::default() }
    }

    fn state(&self) -> MutexGuard<'_, HostState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a request may begin.
    pub(super) async fn slot(&self) -> Slot {
        let in_flight = self.state().in_flight.clone();
        let permit = match in_flight {
            // The semaphore is never closed.
            Some(permits) => permits.acquire_owned().await.ok(),
            None => None,
        };
        let begin = self.state().begin();
        sleep_until(begin).await;
        // Another answer may have asked to wait meanwhile. Once is enough: a server that asks again and again would
        // otherwise hold this request for ever.
        let again = self.state().begin_again();
        if let Some(begin) = again {
            sleep_until(begin + some_of(SPREAD)).await;
        }
        self.begun(permit)
    }

    fn begun(&self, permit: Option<OwnedSemaphorePermit>) -> Slot {
        self.counts.requests.fetch_add(1, Ordering::Relaxed);
        Slot { _permit: permit }
    }

    /// Counts a range that is asked for, for the budgets that are shares of them.
    pub(super) fn asked(&self) {
        let mut state = self.state();
        let limits = state.limits;
        state.retries.left = (state.retries.left + limits.retry_budget).min(limits.retry_burst);
        state.hedges = (state.hedges + limits.hedge_budget).min(MOST_HEDGES);
    }

    /// No request begins for this long, because the server asked for it.
    pub(super) fn hold(&self, wait: Duration) {
        if !wait.is_zero() && wait <= LONGEST_HOLD {
            let mut state = self.state();
            state.held_until = state.held_until.max(Instant::now() + wait);
        }
    }

    /// Takes a retry from the budget. Returns how long the retry must wait.
    pub(super) fn retry(&self) -> Duration {
        let mut state = self.state();
        let most = state.limits.retry_burst;
        let now = Instant::now();
        let tokens = &mut state.retries;
        // One retry per second is always allowed, so that the end of an outage is noticed.
        tokens.left = (tokens.left + (now - tokens.at).as_secs_f64()).min(most);
        tokens.at = now;
        tokens.left -= 1.0;
        Duration::from_secs_f64((-tokens.left).max(0.0))
    }

    /// Returns a retry that was not sent to the budget.
    pub(super) fn not_retried(&self) {
        self.state().retries.left += 1.0;
    }

    /// The text of a failure whose retry must wait for the budget.
    pub(super) fn out_of_retries(&self, text: &str) -> String {
        let (share, name) = (self.state().limits.retry_budget * 100.0, &self.name);
        format!(
            "{text}, and the retry budget of {name} is spent: more than {share} % of its requests failed, so that more \
             retries would not help it; try again later, send fewer requests (FUSELOOP_MAX_REQUESTS, \
             FUSELOOP_REQUESTS_PER_SECOND), or raise FUSELOOP_RETRY_BUDGET"
        )
    }

    /// Remembers how long the first try of a range took.
    pub(super) fn took(&self, bytes: u64, duration: Duration) {
        let mut state = self.state();
        if state.limits.hedge_budget > 0.0 {
            state.latencies.add(bytes, duration);
        }
    }

    /// Returns the duration after which a range of `bytes` bytes is sent for again; `None` if it never is.
    pub(super) fn hedge_after(&self, bytes: u64) -> Option<Duration> {
        let state = self.state();
        if state.limits.hedge_budget > 0.0 { state.latencies.slow(bytes) } else { None }
    }

    /// Begins a hedge, if the budgets have one left.
    pub(super) fn hedge(&self) -> Option<Slot> {
        let mut state = self.state();
        let now = Instant::now();
        if state.hedges < 1.0 || state.held_until > now || state.next > now {
            return None;
        }
        let permit = match &state.in_flight {
            Some(permits) => Some(Arc::clone(permits).try_acquire_owned().ok()?),
            None => None,
        };
        state.hedges -= 1.0;
        state.begin();
        drop(state);
        self.counts.hedges.fetch_add(1, Ordering::Relaxed);
        Some(self.begun(permit))
    }
}

impl HostState {
    fn set_limits(&mut self, limits: HostLimits) {
        if limits.max_requests != self.limits.max_requests {
            // Requests in flight keep their permits of the old limit.
            self.in_flight = limits.max_requests.map(|most| semaphore(most.get()));
        }
        self.limits = limits;
    }

    /// Returns when the next request may begin, and reserves that time for it.
    fn begin(&mut self) -> Instant {
        let begin = self.next.max(self.held_until).max(Instant::now());
        if let Some(rate) = self.limits.requests_per_second {
            self.next = begin + Duration::from_secs_f64(1.0 / f64::from(rate.get()));
        }
        begin
    }

    /// Returns when a request may begin that is held after its time; `None` if it is not.
    fn begin_again(&mut self) -> Option<Instant> {
        (self.held_until > Instant::now()).then(|| self.begin())
    }
}

fn semaphore(permits: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)))
}

/// A random part of a duration, so that processes that wait for the same time do not begin together.
pub(super) fn some_of(duration: Duration) -> Duration {
    let chance = RandomState::new().hash_one(0) % 1024;
    duration * chance as u32 / 1024
}

/// The sums of a count over all hosts.
pub(super) fn sum(count: impl Fn(&Counts) -> &AtomicU64) -> u64 {
    let hosts = HOSTS.lock().unwrap_or_else(PoisonError::into_inner);
    let hosts = hosts.iter().flat_map(HashMap::values);
    hosts.map(|host| count(&host.counts).load(Ordering::Relaxed)).sum()
}
