//! Objects on a test server: every byte read is the object's, or there is an error.

#![allow(clippy::unwrap_used, reason = "a test fails with what it unwraps")]

use super::disk::{self, DiskCache};
use super::fetch::FetchLimits;
use super::opened::Object;
use super::options::HostLimits;
use super::server::{Answer, Server};
use crate::source::ReadAt;
use crate::source::file::read_all_at;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes that differ from their neighbours and from the bytes 256 further on.
pub(super) fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(next).collect()
}

/// Short limits, so that tests end soon.
pub(super) fn hasty() -> FetchLimits {
    FetchLimits {
        tries: 6,
        tries_to_reach: 2,
        tries_if_unlikely: 3,
        stall: Duration::from_millis(300),
        opening: Duration::from_secs(5),
        period: Duration::from_secs(5),
        pause: Duration::from_millis(1),
        // The budget of retries has its own tests.
        host: HostLimits { retry_budget: 1.0, retry_burst: 1e6, ..HostLimits::default() },
    }
}

pub(super) fn open(url: &str) -> Object {
    Object::open_with(url, hasty(), None).unwrap()
}

fn read(object: &Object, range: Range<u64>) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    let (count, outcome) = read_all_at(object, &mut bytes, range.start);
    bytes.truncate(count);
    outcome.map(|()| bytes)
}

/// Random ranges, more of them at the ends and of odd lengths.
fn ranges(size: u64, count: usize, seed: u64) -> impl Iterator<Item = Range<u64>> {
    let random = bytes(count * 16, seed);
    (0..count).map(move |k| {
        let number = |at: usize| {
            let bytes: [u8; 8] = random[k * 16 + at..k * 16 + at + 8].try_into().unwrap();
            u64::from_le_bytes(bytes)
        };
        let start = number(0) % size;
        let most = if k % 3 == 0 { size } else { 3000 };
        start..(start + number(8) % most).min(size)
    })
}

fn check_all(object: &Object, content: &[u8], count: usize, threads: u64) {
    thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for range in ranges(content.len() as u64, count, thread + 1) {
                    let want = &content[range.start as usize..range.end as usize];
                    let got = read(object, range.clone()).unwrap();
                    assert!(got == want, "{range:?}");
                }
            });
        }
    });
}

#[test]
fn any_range_is_the_files() {
    let (server, content) = (Server::start(), bytes(3_300_000, 1));
    let object = open(&server.put("/b/a b", content.clone()).replace(' ', "%20"));
    assert_eq!(object.len().unwrap(), 3_300_000);
    check_all(&object, &content, 40, 4);
    assert_eq!(read(&object, 3_299_999..3_400_000).unwrap(), content[3_299_999..]);
    assert!(read(&object, 3_300_000..3_300_001).unwrap().is_empty());
    assert!(read(&object, u64::MAX - 200_000..u64::MAX).unwrap().is_empty());
}

#[test]
fn faults_are_got_over() {
    let (server, content) = (Server::start(), bytes(1_000_000, 2));
    // The server fails requests of all threads together, so one thread may need many tries.
    let patient = FetchLimits { tries: 60, ..hasty() };
    let object = Object::open_with(&server.put("/a", content.clone()), patient, None).unwrap();
    // The first two requests for each range fail. Ranges are identified by their ends, because the rest
    // of a range ends at the same byte.
    let seen = std::sync::Mutex::new(std::collections::HashMap::new());
    server.answer(move |asked| {
        let mut seen = seen.lock().unwrap();
        let times: &mut usize = seen.entry(asked.range.end).or_default();
        *times += 1;
        match (*times % 3, asked.range.end % 3) {
            (1, 0) => Answer::Status(503),
            (1, 1) => Answer::Status(429),
            (1, _) => Answer::Cut(0),
            (2, 0) => Answer::Cut(asked.range.start as usize % 5000),
            (2, 1) => Answer::Short(1),
            (2, _) => Answer::Short(700),
            _ => Answer::Well,
        }
    });
    check_all(&object, &content, 30, 3);
}

#[test]
fn a_body_that_breaks_off_is_gone_on_with_and_not_begun_anew() {
    let (server, content) = (Server::start(), bytes(100_000, 3));
    let object = open(&server.put("/a", content.clone()));
    server.answer(|asked| if asked.number == 0 { Answer::Short(40_000) } else { Answer::Well });
    assert_eq!(read(&object, 0..100_000).unwrap(), content);
    let log: Vec<_> = server.take_log().into_iter().map(|asked| asked.range).collect();
    assert_eq!(log, [0..100_000, 60_000..100_000]);
}

/// The message of a read that fails, and the number of requests that it made.
fn failed_read(answer: Answer) -> (String, usize) {
    let server = Server::start();
    let object = open(&format!("{}?sig=secret", server.put("/b/a", bytes(200_000, 4))));
    server.answer(move |_| answer);
    let error = read(&object, 1000..101_000).unwrap_err().to_string();
    let port = server.base();
    let message = error.strip_prefix(&format!("{port}/b/a?..: bytes 1000..101000: "));
    let message = message.unwrap_or_else(|| panic!("{error}"));
    let log = server.take_log();
    assert!(log.iter().all(|asked| asked.query == "sig=secret"));
    (without_time(message), log.len())
}

/// An error without the seconds that its tries took.
fn without_time(message: &str) -> String {
    let Some((before, seconds)) = message.rsplit_once(" times in ") else {
        return message.to_owned();
    };
    let number = seconds.strip_suffix(" s").and_then(|seconds| seconds.parse::<f32>().ok());
    assert!(number.is_some(), "{message}");
    format!("{before} times")
}

#[test]
fn what_can_not_be_had_is_an_error_with_its_cause() {
    let busy = "the server is busy or broken (503), tried 6 times";
    assert_eq!(failed_read(Answer::Status(503)), (busy.into(), 6));
    let refused = "refused (403): use an address that is signed, and has not expired";
    assert_eq!(failed_read(Answer::Status(403)), (refused.into(), 1));
    let gone = "not found (404): check the name and the endpoint";
    assert_eq!(failed_read(Answer::Status(404)), (gone.into(), 1));
    let wrong = "the server returned another range";
    assert_eq!(failed_read(Answer::WrongRange), (wrong.into(), 1));
    let whole = "the server does not support range requests: use a server that does";
    assert_eq!(failed_read(Answer::Whole), (whole.into(), 1));
    let much = "the server returned more bytes than were requested";
    assert_eq!(failed_read(Answer::Endless), (much.into(), 1));
    assert_eq!(failed_read(Answer::Status(418)), ("the server answered with status 418".into(), 1));
    let (cut, tries) = failed_read(Answer::Cut(0));
    // A try may be lost to a connection that the server has closed.
    assert!(cut.contains("the connection broke") && (3..=6).contains(&tries), "{cut}, {tries}");
}

#[test]
fn headers_without_end_are_an_error_after_three_tries() {
    let (message, tries) = failed_read(Answer::Headers);
    assert!(
        message.starts_with("the connection broke (") && message.ends_with("tried 3 times"),
        "{message}"
    );
    // A try may be lost to a connection that the server has closed.
    assert!((1..=3).contains(&tries), "{tries}");
}

/// A server whose bytes come one at a time, each of them within the stall limit, and never stop.
#[test]
fn a_server_that_drips_is_an_error_after_the_time_that_is_stated() {
    let server = Server::start();
    let url = server.put("/a", bytes(200_000, 4));
    let patience = FetchLimits { period: Duration::from_secs(1), ..hasty() };
    let object = Object::open_with(&url, patience, None).unwrap();
    server.answer(|_| Answer::Drip);
    let error = read(&object, 0..100_000).unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with(&format!("{url}: bytes 0..100000: ")), "{message}");
    let rate = " bytes arrived in 1 s, expected at least 65536";
    assert!(message.contains(rate), "{message}");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    // A short range can end within the period.
    assert_eq!(object.fetched(200..210).unwrap(), bytes(200_000, 4)[200..210]);
}

#[test]
fn a_server_that_is_broken_for_good_is_given_up_after_the_time_that_is_stated() {
    let server = Server::start();
    let url = server.put("/a", bytes(200_000, 4));
    // Long enough for the server's thread to answer on a busy machine.
    let (pause, most) = (Duration::from_millis(100), Duration::from_secs(4));
    let patience = FetchLimits { tries: 1000, pause, period: most, opening: most, ..hasty() };
    let object = Object::open_with(&url, patience, None).unwrap();
    server.answer(|_| Answer::Status(500));
    let error = read(&object, 0..100_000).unwrap_err().to_string();
    let broken = "the server is busy or broken (500), tried ";
    let message = error.strip_prefix(&format!("{url}: bytes 0..100000: {broken}"));
    let seconds =
        message.and_then(|message| message.strip_suffix(" s")?.rsplit(' ').next()?.parse().ok());
    assert!(seconds.is_some_and(|seconds: f32| seconds < 8.0), "{error}");
    server.answer_head(500);
    let error = Object::open_with(&url, patience, None).err().unwrap().to_string();
    assert!(error.starts_with(&format!("{url}: {broken}")), "{error}");
}

#[test]
fn another_host_is_only_asked_with_consent() {
    let (here, there) = (Server::start(), Server::start());
    let content = bytes(100_000, 17);
    let elsewhere =
        here.redirect("/a", &format!("{}?sig=secret", there.put("/a", content.clone())));
    let error = Object::open_with(&elsewhere, hasty(), None).err().unwrap().to_string();
    let host = |server: &Server| server.base()["http://".len()..].to_owned();
    let want = format!(
        "{elsewhere}: a redirect from {} to {} is not followed without consent: \
         set FUSELOOP_ALLOW_REDIRECTS={} to allow it",
        host(&here),
        host(&there),
        host(&there)
    );
    assert_eq!(error, want);
    assert_eq!((here.heads(), there.heads()), (1, 0));
    // Another path of the same host needs no consent.
    let url = here.redirect("/b", &here.put("/c", content.clone()));
    assert!(read(&open(&url), 5..70_000).unwrap() == content[5..70_000]);
}

#[test]
fn a_redirect_in_a_loop_is_an_error_at_once() {
    let server = Server::start();
    let url = server.redirect("/a", "/a");
    let error = Object::open_with(&url, hasty(), None).err().unwrap().to_string();
    assert!(error.starts_with(&format!("{url}: a redirect from ")), "{error}");
    assert!(error.contains("exceeds the limit of 10: the server at "), "{error}");
    assert_eq!(server.heads(), 11);
}

#[test]
fn a_server_that_hangs_is_not_waited_for_for_ever() {
    let begun = Instant::now();
    let (hung, tries) = failed_read(Answer::Hang);
    assert_eq!((&*hung, tries), ("no bytes arrived for 0.3 s, tried 6 times", 6));
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn an_object_that_changes_is_an_error() {
    let (server, old) = (Server::start(), bytes(300_000, 5));
    let object = open(&server.put("/a", old.clone()));
    assert_eq!(read(&object, 0..70_000).unwrap(), old[..70_000]);
    server.put("/a", bytes(300_000, 6));
    let error = read(&object, 70_000..140_000).unwrap_err().to_string();
    assert!(error.ends_with("the object changed while it was read: open it again"), "{error}");
    // In the middle of a body: the bytes that follow are of another version.
    server.put("/a", old.clone());
    let server = Arc::new(server);
    let again = Arc::downgrade(&server);
    server.answer(move |asked| {
        if asked.number > 1 {
            return Answer::Well;
        }
        let _ = again.upgrade().map(|server| server.put("/a", bytes(300_000, 6)));
        Answer::Cut(10_000)
    });
    server.take_log();
    let error = read(&object, 0..100_000).unwrap_err().to_string();
    assert!(error.contains("the object changed while it was read"), "{error}");
}

#[test]
fn an_object_that_is_not_there_is_not_opened() {
    let server = Server::start();
    let url = format!("{}/nowhere?sig=secret", server.base());
    let error = Object::open_with(&url, hasty(), None).err().unwrap().to_string();
    let shown = url.replace("sig=secret", "..");
    assert_eq!(error, format!("{shown}: not found (404): check the name and the endpoint"));
    let error = Object::open_with("http://127.0.0.1:1/a", hasty(), None).err().unwrap();
    let error = error.to_string();
    assert!(
        error.starts_with("http://127.0.0.1:1/a: no connection (Connection refused"),
        "{error}"
    );
}

#[test]
fn small_reads_in_sequence_take_a_request_a_block() {
    let (server, content) = (Server::start(), bytes(5_000_000, 7));
    let object = open(&server.put("/a", content.clone()));
    for start in (0..5_000_000).step_by(10_000) {
        let end = start + 512;
        assert!(read(&object, start..end).unwrap() == content[start as usize..end as usize]);
    }
    let mut log: Vec<_> = server.take_log().iter().map(|asked| asked.range.clone()).collect();
    log.sort_by_key(|range| range.start);
    let block = |k: u64| k << 20..((k + 1) << 20).min(5_000_000);
    assert_eq!(log, (0..5).map(block).collect::<Vec<_>>());
}

#[test]
fn a_block_is_fetched_once_for_all_who_wait() {
    let (server, content) = (Server::start(), bytes(1_000_000, 8));
    let object = open(&server.put("/a", content.clone()));
    server.latency(Duration::from_millis(30));
    thread::scope(|scope| {
        for k in 0..8 {
            let (object, content) = (&object, &content);
            scope.spawn(move || {
                let range = k * 1000..k * 1000 + 500;
                let want = &content[range.start as usize..range.end as usize];
                assert_eq!(read(object, range).unwrap(), want);
            });
        }
    });
    assert_eq!(server.take_log().len(), 1);
}

#[test]
fn a_block_that_fails_fails_for_nobody_else() {
    let (server, content) = (Server::start(), bytes(1_000_000, 9));
    let object = open(&server.put("/a", content.clone()));
    server.answer(|asked| if asked.number < 6 { Answer::Status(500) } else { Answer::Well });
    let failed = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| match read(&object, 10..20) {
                Ok(got) => assert_eq!(got, content[10..20]),
                Err(_) => drop(failed.fetch_add(1, Ordering::Relaxed)),
            });
        }
    });
    assert_eq!(failed.into_inner(), 1);
}

// --- The cache on this machine ----------------------------------------------------------------

struct Folder {
    dir: tempfile::TempDir,
    limit: u64,
}

impl Folder {
    fn new(limit: u64) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), limit }
    }

    /// Opens an object as another process would.
    fn open(&self, url: &str) -> Object {
        let disk = DiskCache::open(self.dir.path(), self.limit).unwrap();
        Object::open_with(url, hasty(), Some(Arc::new(disk))).unwrap()
    }

    fn files(&self) -> Vec<std::path::PathBuf> {
        let mut files = vec![];
        for folder in std::fs::read_dir(self.dir.path()).unwrap().flatten() {
            // The files of the owners of claims are next to the folders of blocks.
            let Ok(inside) = std::fs::read_dir(folder.path()) else { continue };
            files.extend(inside.map(|file| file.unwrap().path()));
        }
        files.sort();
        files
    }

    fn size(&self) -> u64 {
        // A file may be deleted meanwhile: the block after a read is fetched in the background.
        self.files().iter().filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum()
    }
}

#[test]
fn what_was_fetched_once_is_fetched_no_more() {
    let (server, content) = (Server::start(), bytes(3_000_000, 10));
    let url = server.put("/a", content.clone());
    let folder = Folder::new(1 << 30);
    check_all(&folder.open(&url), &content, 60, 3);
    assert_eq!(read(&folder.open(&url), 0..3_000_000).unwrap(), content);
    server.take_log();
    check_all(&folder.open(&url), &content, 60, 3);
    assert_eq!(server.take_log(), []);
    assert_eq!(folder.files().len() as u64, 3_000_000u64.div_ceil(disk::BLOCK));
    // Another version of the object is another object.
    let new = bytes(3_000_000, 11);
    server.put("/a", new.clone());
    assert_eq!(read(&folder.open(&url), 100..200_000).unwrap(), new[100..200_000]);
}

#[test]
fn the_folder_keeps_its_limit() {
    let (server, content) = (Server::start(), bytes(8_000_000, 12));
    let url = server.put("/a", content.clone());
    let folder = Folder::new(2_000_000);
    let object = folder.open(&url);
    for range in ranges(8_000_000, 60, 5) {
        let want = &content[range.start as usize..range.end as usize];
        assert!(read(&object, range).unwrap() == want);
        assert!(folder.size() <= 2_000_000, "{}", folder.size());
    }
    assert!(folder.size() > 1_000_000, "{}", folder.size());
    let none = Folder::new(1000);
    assert!(read(&none.open(&url), 0..500_000).unwrap() == content[..500_000]);
    assert_eq!(none.size(), 0);
}

#[test]
fn many_at_once_keep_the_folders_limit() {
    let (server, content) = (Server::start(), bytes(8_000_000, 16));
    let url = server.put("/a", content.clone());
    let folder = Folder::new(2_000_000);
    let object = folder.open(&url);
    let is_over = &|thread: u64| {
        ranges(8_000_000, 60, 20 + thread).any(|range| {
            let want = &content[range.start as usize..range.end as usize];
            assert!(read(&object, range).unwrap() == want);
            folder.size() > 2_000_000
        })
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|k| scope.spawn(move || is_over(k))).collect();
        assert!(!threads.into_iter().any(|thread| thread.join().unwrap()));
    });
}

#[test]
fn what_was_used_last_goes_last() {
    let (server, content) = (Server::start(), bytes(2 << 20, 13));
    let url = server.put("/a", content.clone());
    // Room for four blocks of eight; block 0 is used again before each other one.
    let folder = Folder::new(4 * (disk::BLOCK + 100));
    let object = folder.open(&url);
    let at = |block: u64| block * disk::BLOCK + 5..block * disk::BLOCK + 70_000;
    for block in 1..8 {
        read(&object, at(0)).unwrap();
        thread::sleep(Duration::from_millis(10));
        read(&object, at(block)).unwrap();
        thread::sleep(Duration::from_millis(10));
    }
    let first = |asked: &super::server::Asked| asked.range.start / disk::BLOCK;
    let log: Vec<_> = server.take_log().iter().map(first).collect();
    assert_eq!(log, [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn damage_is_fetched_anew() {
    let (server, content) = (Server::start(), bytes(2_000_000, 14));
    let url = server.put("/a", content.clone());
    let folder = Folder::new(1 << 30);
    let whole = |folder: &Folder| read(&folder.open(&url), 0..2_000_000).unwrap() == content;
    assert!(whole(&folder));
    let files = folder.files();
    let stray = folder.dir.path().join("notes.txt");
    std::fs::write(&stray, "mine").unwrap();
    let damage: [&dyn Fn(Vec<u8>) -> Vec<u8>; 6] = [
        &|bytes| bytes[..bytes.len() - 1].to_vec(),
        &|_| vec![],
        &|bytes| [bytes, vec![0]].concat(),
        &|mut bytes| {
            bytes[5000] ^= 1;
            bytes
        },
        &|mut bytes| {
            bytes[10] ^= 1;
            bytes
        },
        &|_| std::fs::read(&files[7]).unwrap(),
    ];
    for (file, damage) in files.iter().zip(damage) {
        let bytes = std::fs::read(file).unwrap();
        std::fs::write(file, damage(bytes)).unwrap();
    }
    server.take_log();
    assert!(whole(&folder));
    // Adjacent blocks are fetched in one request.
    let asked: u64 = server.take_log().iter().map(|a| a.range.end - a.range.start).sum();
    assert!((5 * disk::BLOCK..=6 * disk::BLOCK).contains(&asked), "{asked}");
    assert!(whole(&folder));
    assert_eq!(server.take_log(), []);
    assert_eq!(std::fs::read_to_string(stray).unwrap(), "mine");
}

/// The bytes of `file` with a change that its CRC-32C does not see: the polynomial itself.
fn changed_under_its_crc(mut file: Vec<u8>) -> Vec<u8> {
    let at = file.len() - 1000;
    let before = crc32c::crc32c(&file[at..]);
    let polynomial = 1 | 0x82f6_3b78_u64 << 1;
    file[at..at + 5]
        .iter_mut()
        .zip(polynomial.to_le_bytes())
        .for_each(|(byte, mask)| *byte ^= mask);
    assert_eq!(crc32c::crc32c(&file[at..]), before);
    file
}

#[test]
fn a_change_that_a_crc_does_not_see_is_fetched_anew() {
    let (server, content) = (Server::start(), bytes(100_000, 18));
    let url = server.put("/a", content.clone());
    let folder = Folder::new(1 << 30);
    assert!(read(&folder.open(&url), 0..100_000).unwrap() == content);
    let file = &folder.files()[0];
    std::fs::write(file, changed_under_its_crc(std::fs::read(file).unwrap())).unwrap();
    server.take_log();
    assert!(read(&folder.open(&url), 0..100_000).unwrap() == content);
    assert_eq!(server.take_log().len(), 1);
}

/// Things at the path of a block that must be neither read nor waited for.
#[cfg(unix)]
#[test]
fn a_block_is_a_regular_file_that_nobody_else_may_write_to() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let (server, content) = (Server::start(), bytes(100_000, 19));
    let url = server.put("/a", content.clone());
    let folder = Folder::new(1 << 30);
    let reads = |folder: &Folder| read(&folder.open(&url), 0..100_000).unwrap() == content;
    assert!(reads(&folder));
    let file = folder.files()[0].clone();
    let aside = folder.dir.path().join("aside");
    let in_the_way: [&dyn Fn(); 3] = [
        &|| {
            let status = std::process::Command::new("mkfifo").arg(&file).status().unwrap();
            assert!(status.success());
        },
        // A complete block, but not at its own path.
        &|| symlink(&aside, &file).unwrap(),
        &|| {
            std::fs::copy(&aside, &file).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
        },
    ];
    for replace in in_the_way {
        std::fs::rename(&file, &aside).unwrap();
        replace();
        server.take_log();
        let (sender, receiver) = std::sync::mpsc::channel();
        let (object, want) = (folder.open(&url), content.clone());
        thread::spawn(move || sender.send(read(&object, 0..100_000).unwrap() == want));
        assert_eq!(receiver.recv_timeout(Duration::from_secs(20)), Ok(true));
        assert_eq!(server.take_log().len(), 1);
        assert!(reads(&folder) && server.take_log().is_empty());
        let found = file.symlink_metadata().unwrap();
        assert!(found.is_file() && found.permissions().mode() & 0o022 == 0);
    }
}

#[cfg(unix)]
#[test]
fn a_folder_that_others_may_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new(1 << 30);
    std::fs::set_permissions(folder.dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let message = DiskCache::open(folder.dir.path(), 1).err().unwrap().to_string();
    let want = "others may write to it (its mode is 777): remove that right with `chmod go-w`";
    assert_eq!(message, want);
}

#[test]
fn a_folder_that_can_not_be_written_stops_nobody() {
    let (server, content) = (Server::start(), bytes(500_000, 15));
    let url = server.put("/a", content.clone());
    let folder = Folder::new(1 << 30);
    let object = folder.open(&url);
    std::fs::remove_dir_all(folder.dir.path()).unwrap();
    std::fs::write(folder.dir.path(), "in the way").unwrap();
    assert!(read(&object, 0..500_000).unwrap() == content);
    std::fs::remove_file(folder.dir.path()).unwrap();
}
