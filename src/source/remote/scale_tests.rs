//! Hedges, budgets and shared caches: what a server with slow and failing answers is asked for, and how often.
//!
//! No test measures time. A late answer does not come at all, so a range ends only by its hedge; what a budget allows is
//! counted in the log of the server.

#![allow(clippy::unwrap_used, reason = "a test fails with what it unwraps")]

use super::disk::{BLOCK, DiskCache};
use super::fetch::FetchLimits;
use super::host::Host;
use super::opened::Object;
use super::options::HostLimits;
use super::server::{Answer, Faults, Server};
use super::tests::{bytes, hasty};
use crate::source::ReadAt;
use std::collections::HashSet;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// An answer that does not come: longer than a test takes that passes.
const NEVER: Duration = Duration::from_secs(100);

/// The length of the ranges that are read.
const LEN: u64 = 100_000;

/// Limits without an end in time, so that only a hedge ends a range that is late.
fn endless(host: HostLimits) -> FetchLimits {
    let (stall, period) = (NEVER * 10, NEVER * 10);
    FetchLimits { stall, period, host, ..hasty() }
}

fn hedging(share: f64) -> HostLimits {
    HostLimits { hedge_budget: share, ..hasty().host }
}

/// Reads all ranges of an object on several threads.
fn read_all(object: &Object, content: &[u8], threads: usize) {
    let (next, ranges) = (AtomicU64::new(0), content.len() as u64 / LEN);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= ranges {
                        return;
                    }
                    let mut got = vec![0; LEN as usize];
                    let start = number * LEN;
                    assert_eq!(object.read_at(&mut got, start).unwrap(), got.len());
                    assert!(got == content[start as usize..(start + LEN) as usize], "{number}");
                }
            });
        }
    });
}

fn count(host: &Host, count: impl Fn(&super::host::Counts) -> &AtomicU64) -> usize {
    count(&host.counts).load(Ordering::Relaxed) as usize
}

fn host(url: &str, limits: HostLimits) -> Arc<Host> {
    Host::of(&super::address::Address::parse(url).unwrap().store, limits)
}

#[test]
fn a_late_answer_is_replaced_by_that_of_a_hedge() {
    let (server, content) = (Server::start(), bytes(300 * LEN as usize, 30));
    let url = server.put("/a", content.clone());
    let limits = endless(hedging(0.3));
    let object = Object::open_with(&url, limits, None).unwrap();
    // The first answers come: they tell what is late. Of the others, 2 % never come.
    let faults = Faults { seed: 3, late: (0.02, NEVER), failing: 0.0 };
    server.answer(move |asked| match asked.number {
        ..40 => Answer::Well,
        _ => faults.answer(asked),
    });
    read_all(&object, &content, 4);
    let late = server.answers().iter().filter(|answer| matches!(answer, Answer::Late(_))).count();
    let asked = server.take_log().len();
    let host = host(&url, limits.host);
    let hedges = count(&host, |counts| &counts.hedges);
    let won = count(&host, |counts| &counts.hedges_won);
    assert!(late >= 3, "{late}");
    // A hedge may be late itself, but then the range would not have ended.
    assert!(won >= late && hedges >= won, "{late} late, {hedges} hedges, {won} won");
    assert!(hedges <= 300 * 3 / 10, "{hedges}");
    assert!((300 + won..=300 + hedges).contains(&asked), "{asked}");
    assert_eq!(count(&host, |counts| &counts.retries), 0);
    // The requests that lost were cancelled.
    let begun = Instant::now();
    while server.cancelled() < late {
        assert!(begun.elapsed() < Duration::from_secs(20), "{} of {late}", server.cancelled());
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn hedges_are_a_share_of_the_requests_and_off_by_default() {
    for share in [0.0, 0.02] {
        let (server, content) = (Server::start(), bytes(200 * LEN as usize, 31));
        let url = server.put("/a", content.clone());
        let limits = endless(hedging(share));
        let object = Object::open_with(&url, limits, None).unwrap();
        // A fifth of the answers are late, but come: later than the 50 ms from which on a range may be late.
        let slow = Duration::from_millis(80);
        server.answer(move |asked| match asked.number {
            ..40 => Answer::Well,
            number if number.is_multiple_of(5) => Answer::Late(slow),
            _ => Answer::Well,
        });
        read_all(&object, &content, 8);
        let hedges = count(&host(&url, limits.host), |counts| &counts.hedges);
        assert!(hedges <= (200.0 * share) as usize + 1, "{hedges}");
        // A hedge that is cancelled at once may not arrive.
        let asked = server.take_log().len();
        assert!((200..=200 + hedges).contains(&asked), "{asked}");
    }
    assert_eq!(HostLimits::default().hedge_budget, 0.0);
}

#[test]
fn a_hedge_that_fails_leaves_the_first_request_and_the_other_way_round() {
    for first_fails in [false, true] {
        let (server, content) = (Server::start(), bytes(42 * LEN as usize, 32));
        let url = server.put("/a", content.clone());
        let limits = endless(hedging(1.0));
        let object = Object::open_with(&url, limits, None).unwrap();
        let seen = std::sync::Mutex::new(HashSet::new());
        // The last two ranges are late, of which a hedge finds out.
        server.answer(move |asked| {
            let is_first = seen.lock().unwrap().insert(asked.range.start);
            match (is_first, asked.range.start >= 40 * LEN) {
                (true, false) => Answer::Well,
                (true, true) if first_fails => Answer::LateStatus(Duration::from_millis(300), 503),
                (true, true) => Answer::Late(Duration::from_millis(300)),
                (false, true) if first_fails => Answer::Late(Duration::from_millis(600)),
                (false, _) if first_fails => Answer::Well,
                (false, _) => Answer::Status(503),
            }
        });
        read_all(&object, &content, 1);
        let host = host(&url, limits.host);
        let (hedges, won) =
            (count(&host, |counts| &counts.hedges), count(&host, |counts| &counts.hedges_won));
        assert!(hedges >= 2, "{hedges}");
        assert!(if first_fails { won >= 2 } else { won == 0 }, "{won} of {hedges}");
        assert_eq!(count(&host, |counts| &counts.retries), 0);
        let asked = server.take_log().len();
        assert!((44..=42 + hedges).contains(&asked), "{asked}");
    }
}

#[test]
fn no_more_requests_are_in_flight_than_are_allowed() {
    let (server, content) = (Server::start(), bytes(60 * LEN as usize, 33));
    let url = server.put("/a", content.clone());
    let most = HostLimits { max_requests: NonZeroUsize::new(3), ..hasty().host };
    let limits = FetchLimits { host: most, ..hasty() };
    let object = Object::open_with(&url, limits, None).unwrap();
    // Another object of the same host shares the limit.
    let other = Object::open_with(&server.put("/b", content.clone()), limits, None).unwrap();
    server.latency(Duration::from_millis(2));
    thread::scope(|scope| {
        scope.spawn(|| read_all(&object, &content, 8));
        scope.spawn(|| read_all(&other, &content, 8));
    });
    assert!(server.most_at_once() <= 3, "{}", server.most_at_once());
    assert_eq!(server.take_log().len(), 120);
}

#[test]
fn requests_begin_at_the_rate_that_is_allowed() {
    let (server, content) = (Server::start(), bytes(40 * LEN as usize, 34));
    let url = server.put("/a", content.clone());
    let rate = HostLimits { requests_per_second: NonZeroU32::new(100), ..hasty().host };
    let limits = FetchLimits { host: rate, ..hasty() };
    let begun = Instant::now();
    let object = Object::open_with(&url, limits, None).unwrap();
    read_all(&object, &content, 8);
    // 41 requests have 40 pauses of 10 ms between them: less time would be a higher rate.
    assert!(begun.elapsed() >= Duration::from_millis(400));
}

#[test]
fn a_request_to_wait_holds_all_requests_to_the_host() {
    let (server, content) = (Server::start(), bytes(40 * LEN as usize, 35));
    let url = server.put("/a", content.clone());
    let limits = FetchLimits { period: Duration::from_secs(30), ..hasty() };
    let object = Object::open_with(&url, limits, None).unwrap();
    let busy_at = Arc::new(std::sync::Mutex::new(None));
    let early = Arc::new(AtomicUsize::new(0));
    let (at, counted) = (Arc::clone(&busy_at), Arc::clone(&early));
    server.answer(move |asked| {
        let mut at = at.lock().unwrap();
        if asked.number == 8 {
            *at = Some(Instant::now());
            return Answer::Busy(1);
        }
        // Those that were in flight, or arrive before the client has read the answer, are no fault.
        let since = at.map(|at: Instant| at.elapsed().as_millis());
        let is_early = since.is_some_and(|ms| (300..990).contains(&ms));
        counted.fetch_add(usize::from(is_early), Ordering::Relaxed);
        Answer::Late(Duration::from_millis(5))
    });
    read_all(&object, &content, 4);
    assert!(busy_at.lock().unwrap().is_some());
    assert_eq!(early.load(Ordering::Relaxed), 0);
    assert_eq!(server.take_log().len(), 41);
}

#[test]
fn an_outage_is_not_amplified_and_its_error_says_so() {
    let (server, content) = (Server::start(), bytes(8 * LEN as usize, 36));
    let url = server.put("/a", content);
    let budget = HostLimits { retry_budget: 0.2, retry_burst: 5.0, ..HostLimits::default() };
    let period = Duration::from_secs(3);
    let limits = FetchLimits { tries: 1000, period, host: budget, ..hasty() };
    let object = Object::open_with(&url, limits, None).unwrap();
    server.answer(|_| Answer::Status(503));
    let begun = Instant::now();
    let errors: Vec<String> = thread::scope(|scope| {
        let object = &object;
        let read = |k| {
            scope.spawn(move || {
                let mut got = vec![0; LEN as usize];
                object.read_at(&mut got, k * LEN).unwrap_err().to_string()
            })
        };
        let threads: Vec<_> = (0..8).map(read).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let seconds = begun.elapsed().as_secs() as usize + 1;
    // Each range once, the retries that the budget holds at first and by its share, and one per second.
    let most = 8 + 5 + 2 + seconds;
    let asked = server.take_log().len();
    assert!((9..=most).contains(&asked), "{asked} of {most}");
    let base = server.base();
    let says = format!(
        "the server is busy or broken (503), and the retry budget of {base} is spent: more than 20 % of its requests \
         failed, so that more retries would not help it; try again later, send fewer requests \
         (FUSELOOP_MAX_REQUESTS, FUSELOOP_REQUESTS_PER_SECOND), or raise FUSELOOP_RETRY_BUDGET"
    );
    assert!(errors.iter().any(|error| error.contains(&says)), "{errors:?}");
}

#[test]
fn random_faults_are_got_over_within_the_default_budgets() {
    let (server, content) = (Server::start(), bytes(200 * LEN as usize, 37));
    let url = server.put("/a", content.clone());
    let host_limits = HostLimits { hedge_budget: 0.05, ..HostLimits::default() };
    let limits = FetchLimits { host: host_limits, ..hasty() };
    let object = Object::open_with(&url, limits, None).unwrap();
    let faults = Faults { seed: 1, late: (0.02, Duration::from_millis(100)), failing: 0.2 };
    server.answer(move |asked| faults.answer(asked));
    read_all(&object, &content, 6);
    let host = host(&url, limits.host);
    let failed = server
        .answers()
        .into_iter()
        .filter(|answer| matches!(answer, Answer::Status(_) | Answer::Cut(_) | Answer::Short(_)));
    let (failed, asked) = (failed.count(), server.take_log().len());
    assert!(failed >= 20, "{failed}");
    let (hedges, retries) =
        (count(&host, |counts| &counts.hedges), count(&host, |counts| &counts.retries));
    assert!((200 + retries..=200 + hedges + retries).contains(&asked), "{asked}");
    assert!(retries >= failed.saturating_sub(hedges) && retries <= 140, "{retries} of {failed}");
    assert!(hedges <= 11, "{hedges}");
}

// --- The cache that processes share -----------------------------------------------------------

/// Asserts that each block of an object of `len` bytes was requested once.
fn assert_each_once(server: &Server, len: u64) {
    let mut log: Vec<_> = server.take_log().into_iter().map(|asked| asked.range).collect();
    log.sort_by_key(|range| range.start);
    let ends = log.iter().try_fold(0, |end, range| (end == range.start).then_some(range.end));
    assert_eq!(ends, Some(len), "{log:?}");
}

#[test]
fn caches_that_share_a_folder_fetch_each_block_once() {
    let len = 20 * BLOCK + 1000;
    let (server, content) = (Server::start(), bytes(len as usize, 38));
    let url = server.put("/a", content.clone());
    let folder = tempfile::tempdir().unwrap();
    server.latency(Duration::from_millis(2));
    thread::scope(|scope| {
        for k in 0..8_u64 {
            let (url, content, folder) = (&url, &content, folder.path());
            scope.spawn(move || {
                // The caches share nothing but the folder, as those of two processes.
                let disk = DiskCache::open(folder, 1 << 30).unwrap();
                let object = Object::open_with(url, hasty(), Some(Arc::new(disk))).unwrap();
                for step in 0..50 {
                    let start = (step * 7 + k * 11) % 50 * 104_000;
                    let mut got = vec![0; 150_000.min((len - start) as usize)];
                    let count = object.read_at(&mut got, start).unwrap();
                    assert!(got[..count] == content[start as usize..start as usize + count]);
                }
                assert!(object.fetched(0..len).unwrap() == *content);
            });
        }
    });
    assert_each_once(&server, len);
    // No claim and no owner is left.
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert!(left.iter().all(|entry| entry.file_type().unwrap().is_dir()), "{left:?}");
    let blocks = left.iter().flat_map(|entry| std::fs::read_dir(entry.path()).unwrap());
    assert_eq!(blocks.count() as u64, len.div_ceil(BLOCK));
}

#[cfg(unix)]
#[test]
fn a_claim_that_was_left_is_taken_over_and_one_that_hangs_is_given_up() {
    use super::claims::{Claimed, Owner};
    let (server, content) = (Server::start(), bytes(BLOCK as usize, 39));
    let url = server.put("/a", content.clone());
    let folder = tempfile::tempdir().unwrap();
    let open = |limits| {
        let disk = DiskCache::open(folder.path(), 1 << 30).unwrap();
        Object::open_with(&url, limits, Some(Arc::new(disk))).unwrap()
    };
    // The name of the only block.
    assert!(open(hasty()).fetched(0..BLOCK).unwrap() == content);
    let folders = std::fs::read_dir(folder.path()).unwrap().flatten();
    let blocks = folders.filter(|entry| entry.file_type().unwrap().is_dir()).map(|e| e.path());
    let inside = blocks.collect::<Vec<_>>().pop().unwrap();
    let block = std::fs::read_dir(&inside).unwrap().next().unwrap().unwrap().path();
    let name = block.file_name().unwrap().to_str().unwrap();
    let claim = inside.join(format!("claim-{name}"));
    let again = |limits| {
        std::fs::remove_file(&block).unwrap();
        server.take_log();
        assert!(open(limits).fetched(0..BLOCK).unwrap() == content);
        assert_eq!(server.take_log().len(), 1);
    };
    // The claims are of a process that ended, of one whose file was deleted, and of a name that no owner has.
    let dead = folder.path().join("owner-dead");
    std::fs::write(&dead, "").unwrap();
    let limits = endless(hasty().host);
    for owner in ["owner-dead", "owner-gone", "/etc/passwd", "x"] {
        std::os::unix::fs::symlink(owner, &claim).unwrap();
        again(limits);
        assert!(claim.symlink_metadata().is_err(), "{owner}");
    }
    // Something else is in the way.
    std::fs::write(&claim, "").unwrap();
    again(limits);
    std::fs::create_dir(&claim).unwrap();
    again(limits);
    std::fs::remove_dir(&claim).unwrap();
    // An owner that is alive and does not fetch is waited for until the time ends in which bytes must arrive.
    let owner = Owner::new(folder.path()).unwrap();
    let Claimed::Mine(Some(held)) = owner.claim(&inside, name) else { panic!("not claimed") };
    assert!(matches!(owner.claim(&inside, name), Claimed::Taken));
    again(FetchLimits { period: Duration::from_millis(300), ..hasty() });
    assert!(claim.symlink_metadata().is_ok());
    drop((held, owner));
    assert!(claim.symlink_metadata().is_err());
}

#[test]
fn a_block_whose_fetch_fails_is_fetched_by_the_next_that_waits() {
    let (server, content) = (Server::start(), bytes(BLOCK as usize, 40));
    let url = server.put("/a", content.clone());
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let disk = DiskCache::open(folder.path(), 1 << 30).unwrap();
        Object::open_with(&url, hasty(), Some(Arc::new(disk))).unwrap()
    };
    server.answer(|asked| if asked.number == 0 { Answer::Status(403) } else { Answer::Well });
    server.latency(Duration::from_millis(20));
    let failed = thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(|| open().fetched(0..BLOCK))).collect();
        let outcomes = threads.into_iter().map(|thread| thread.join().unwrap());
        outcomes.filter(|outcome| outcome.as_ref().map_or(true, |got| *got != content)).count()
    });
    assert_eq!(failed, 1);
    assert_eq!(server.take_log().len(), 2);
}

#[test]
fn caches_that_share_a_folder_keep_its_limit() {
    let (server, content) = (Server::start(), bytes(80 * LEN as usize, 41));
    let url = server.put("/a", content.clone());
    let folder = tempfile::tempdir().unwrap();
    let limit = 4 << 20;
    let size = || -> u64 {
        let folders = std::fs::read_dir(folder.path()).unwrap().flatten();
        let inside = folders.filter_map(|entry| std::fs::read_dir(entry.path()).ok());
        let files = inside.flatten().flatten().filter_map(|file| file.metadata().ok());
        files.filter(std::fs::Metadata::is_file).map(|file| file.len()).sum()
    };
    let most = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let disk = DiskCache::open(folder.path(), limit).unwrap();
                let object = Object::open_with(&url, hasty(), Some(Arc::new(disk))).unwrap();
                for start in (0..content.len() as u64 - LEN).step_by(LEN as usize) {
                    let mut got = vec![0; LEN as usize];
                    object.read_at(&mut got, start).unwrap();
                    assert!(got == content[start as usize..(start + LEN) as usize]);
                    most.fetch_max(size(), Ordering::Relaxed);
                }
            });
        }
    });
    // A block of each cache may be written after all were counted.
    let most = most.into_inner();
    assert!(most <= limit + limit / 16 + 4 * (BLOCK + 100), "{most}");
}
