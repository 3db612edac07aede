//! A small HTTP/1.1 server on 127.0.0.1: it serves objects by path and ranges of them, and injects faults.
//!
//! S3 and Google Cloud clients request `/bucket/key`; the server uses the same paths. It lists the keys of a
//! bucket as S3 does, a few on a page.

use std::collections::HashMap;
use std::io::ErrorKind::{TimedOut, WouldBlock};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// The server's reaction to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Well,
    Status(u16),
    /// The server sends this many bytes of the body, then closes the connection.
    Cut(usize),
    /// The body is this many bytes shorter, and declared so.
    Short(usize),
    /// The range starts one byte later, and is declared so.
    WrongRange,
    /// The server sends the whole object, for any range.
    Whole,
    /// The body never ends.
    Endless,
    /// The server sends nothing until it ends.
    Hang,
    /// The server sends one byte of the body every 20 ms.
    Drip,
    /// The head never ends.
    Headers,
    /// The server waits this long before it answers well, unless the client closes the connection.
    Late(Duration),
    /// The server waits this long, then answers with this status.
    LateStatus(Duration, u16),
    /// The server answers 503 and asks to wait this many seconds.
    Busy(u32),
}

/// Random faults: a share of the requests is slow, and a share fails. The same seed gives the same faults to the same
/// numbers of requests.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub seed: u64,
    /// The share of requests that are late, and how late.
    pub late: (f64, Duration),
    /// The share of requests that fail: by 500, 503, a connection that is closed in the body, or a short body.
    pub failing: f64,
}

impl Faults {
    /// Returns the reaction to a request.
    pub fn answer(&self, asked: &Asked) -> Answer {
        // SplitMix64, twice: of the seed and of the number of the request.
        let mix = |word: u64| {
            let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^ (word >> 31)
        };
        let word = mix(mix(self.seed.wrapping_add(1)) ^ asked.number as u64);
        let chance = (word >> 11) as f64 / (1u64 << 53) as f64;
        let len = (asked.range.end - asked.range.start) as usize;
        if chance < self.late.0 {
            return Answer::Late(self.late.1);
        }
        if chance >= self.late.0 + self.failing {
            return Answer::Well;
        }
        match word % 4 {
            0 => Answer::Status(500),
            1 => Answer::Status(503),
            2 => Answer::Cut(len / 2),
            _ => Answer::Short(len / 2),
        }
    }
}

/// The most keys on a page of a list.
const PAGE: usize = 2;

/// A request for bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The number of the request among those for bytes, from 0.
    pub number: usize,
    pub path: String,
    pub query: String,
    pub range: Range<u64>,
}

/// An object's bytes and its ETag.
type Object = (Arc<Vec<u8>>, String);

type Choose = Box<dyn Fn(&Asked) -> Answer + Send + Sync>;

struct Shared {
    objects: Mutex<HashMap<String, Object>>,
    /// The target of each redirected path.
    redirects: Mutex<HashMap<String, String>>,
    /// The status of HEAD responses, if not a success.
    head_status: Mutex<Option<u16>>,
    choose: Mutex<Arc<Choose>>,
    log: Mutex<Vec<Asked>>,
    /// The reactions to the requests in `log`.
    answers: Mutex<Vec<Answer>>,
    /// The number of requests that their client cancelled before the answer.
    cancelled: AtomicUsize,
    /// The queries of the requests for lists.
    lists: Mutex<Vec<String>>,
    /// The status of responses with lists, if not a success.
    list_status: Mutex<Option<u16>>,
    heads: AtomicUsize,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    latency: Mutex<Duration>,
    /// The bandwidth of each connection, in bytes/s.
    bandwidth: Mutex<Option<u64>>,
    stopping: AtomicBool,
}

/// A server that ends when dropped.
pub struct Server {
    shared: Arc<Shared>,
    address: String,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap()
}

impl Server {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared {
            objects: Mutex::default(),
            redirects: Mutex::default(),
            head_status: Mutex::default(),
            choose: Mutex::new(Arc::new(Box::new(|_| Answer::Well))),
            log: Mutex::default(),
            answers: Mutex::default(),
            cancelled: AtomicUsize::new(0),
            lists: Mutex::default(),
            list_status: Mutex::default(),
            heads: AtomicUsize::new(0),
            at_once: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
            latency: Mutex::default(),
            bandwidth: Mutex::new(None),
            stopping: AtomicBool::new(false),
        });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if serving.stopping.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(stream), serving) = (stream, Arc::clone(&serving)) else { continue };
                thread::spawn(move || serving.serve(&stream));
            }
        });
        Self { shared, address }
    }

    /// `http://127.0.0.1:port`
    pub fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stores an object, with an ETag computed from its bytes. Returns its URL.
    pub fn put(&self, path: &str, bytes: impl Into<Vec<u8>>) -> String {
        let bytes = bytes.into();
        let sum =
            bytes.iter().fold(7u64, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        lock(&self.shared.objects)
            .insert(path.to_owned(), (Arc::new(bytes), format!("\"{sum:x}\"")));
        format!("http://{}{path}", self.address)
    }

    /// Redirects a path to another URL. Returns the path's own URL.
    pub fn redirect(&self, path: &str, to: &str) -> String {
        lock(&self.shared.redirects).insert(path.to_owned(), to.to_owned());
        format!("http://{}{path}", self.address)
    }

    /// Sets the status of HEAD responses from now on.
    pub fn answer_head(&self, status: u16) {
        *lock(&self.shared.head_status) = Some(status);
    }

    /// Sets the status of responses with lists from now on.
    pub fn answer_lists(&self, status: u16) {
        *lock(&self.shared.list_status) = Some(status);
    }

    /// The queries of the requests for lists since the last call.
    pub fn take_lists(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.shared.lists))
    }

    /// Sets the reaction to requests for bytes from now on.
    pub fn answer(&self, choose: impl Fn(&Asked) -> Answer + Send + Sync + 'static) {
        *lock(&self.shared.choose) = Arc::new(Box::new(choose));
    }

    pub fn latency(&self, latency: Duration) {
        *lock(&self.shared.latency) = latency;
    }

    pub fn bandwidth(&self, bytes_a_second: u64) {
        *lock(&self.shared.bandwidth) = Some(bytes_a_second);
    }

    /// The requests for bytes since the last call.
    pub fn take_log(&self) -> Vec<Asked> {
        lock(&self.shared.answers).clear();
        std::mem::take(&mut lock(&self.shared.log))
    }

    /// The reactions to the requests for bytes since the last call of `take_log`.
    pub fn answers(&self) -> Vec<Answer> {
        lock(&self.shared.answers).clone()
    }

    /// The number of late or hanging requests that their client cancelled.
    pub fn cancelled(&self) -> usize {
        self.shared.cancelled.load(Ordering::Relaxed)
    }

    pub fn heads(&self) -> usize {
        self.shared.heads.load(Ordering::Relaxed)
    }

    /// The maximum number of requests that were served at the same time.
    pub fn most_at_once(&self) -> usize {
        self.shared.most_at_once.load(Ordering::Relaxed)
    }

    /// The number of requests that are being served.
    pub fn at_once(&self) -> usize {
        self.shared.at_once.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(&self.address);
    }
}

impl Shared {
    fn serve(&self, stream: &TcpStream) {
        stream.set_nodelay(true).unwrap();
        let mut reader = BufReader::new(stream);
        while let Ok(Some(head)) = read_head(&mut reader) {
            let at_once = self.at_once.fetch_add(1, Ordering::Relaxed) + 1;
            self.most_at_once.fetch_max(at_once, Ordering::Relaxed);
            let done = self.respond(stream, &head);
            self.at_once.fetch_sub(1, Ordering::Relaxed);
            if !matches!(done, Ok(true)) {
                let _ = stream.shutdown(Shutdown::Both);
                return;
            }
        }
    }

    /// Serves a request; returns true if the connection may stay open.
    fn respond(&self, mut stream: &TcpStream, head: &[String]) -> io::Result<bool> {
        // The value is copied first, so that no lock is held during the sleep.
        let latency = *lock(&self.latency);
        thread::sleep(latency);
        let mut words = head[0].split(' ');
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = percent_decoded(path);
        if let Some(to) = lock(&self.redirects).get(&path).cloned() {
            self.heads.fetch_add(usize::from(method == "HEAD"), Ordering::Relaxed);
            let lines = format!("location: {to}\r\ncontent-length: 0\r\n");
            return plain(stream, "302 Found", &lines, b"");
        }
        if method == "GET" && query.contains("list-type=2") {
            lock(&self.lists).push(query.to_owned());
            if let Some(status) = *lock(&self.list_status) {
                return plain(stream, &format!("{status} As told"), "content-length: 0\r\n", b"");
            }
            let list = self.list(&path, query);
            let lines = format!("content-length: {}\r\n", list.len());
            return plain(stream, "200 OK", &lines, list.as_bytes());
        }
        let found = lock(&self.objects).get(&path).cloned();
        let Some((bytes, etag)) = found else {
            return plain(stream, "404 Not Found", "content-length: 0\r\n", b"");
        };
        let size = bytes.len() as u64;
        let version = format!("etag: {etag}\r\nlast-modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n");
        if method == "HEAD" {
            self.heads.fetch_add(1, Ordering::Relaxed);
            if let Some(status) = *lock(&self.head_status) {
                return plain(stream, &format!("{status} As told"), "content-length: 0\r\n", b"");
            }
            return plain(stream, "200 OK", &format!("content-length: {size}\r\n{version}"), b"");
        }
        let range = head.iter().find_map(|line| range_of(line)).unwrap_or(0..size);
        let range = range.start.min(size)..range.end.min(size);
        let (number, answer) = self.choose(path, query, &range);
        match answer {
            Answer::Status(status) => {
                let status = format!("{status} As told for request {number}");
                plain(stream, &status, "content-length: 6\r\n", b"secret")
            }
            Answer::Hang => self.outlasts(stream, Duration::MAX).map(|_| false),
            Answer::Busy(seconds) => {
                let lines = format!("retry-after: {seconds}\r\ncontent-length: 0\r\n");
                plain(stream, "503 Slow Down", &lines, b"")
            }
            Answer::Late(time) | Answer::LateStatus(time, _) if !self.outlasts(stream, time)? => {
                Ok(false)
            }
            Answer::LateStatus(_, status) => {
                plain(stream, &format!("{status} As told"), "content-length: 0\r\n", b"")
            }
            Answer::Headers => {
                stream.write_all(b"HTTP/1.1 206 Partial Content\r\n")?;
                loop {
                    stream.write_all(b"x-more: and more, and more, and more\r\n")?;
                }
            }
            Answer::Whole => {
                plain(stream, "200 OK", &format!("content-length: {size}\r\n{version}"), &bytes)
            }
            Answer::Endless => {
                let len = range.end - range.start;
                let lines = format!("content-length: {len}\r\ntransfer-encoding: chunked\r\n");
                part(stream, &(lines + &version), &range, size)?;
                loop {
                    stream.write_all(b"1000\r\n")?;
                    stream.write_all(&[0; 0x1000])?;
                    stream.write_all(b"\r\n")?;
                }
            }
            _ => self.send_part(stream, answer, &version, &range, &bytes),
        }
    }

    /// Waits; returns false if the client closes the connection or the server ends first.
    fn outlasts(&self, stream: &TcpStream, time: Duration) -> io::Result<bool> {
        let begun = Instant::now();
        stream.set_read_timeout(Some(Duration::from_millis(5)))?;
        while begun.elapsed() < time {
            if self.stopping.load(Ordering::Relaxed) {
                return Ok(false);
            }
            match stream.peek(&mut [0]) {
                Ok(0) => {
                    self.cancelled.fetch_add(1, Ordering::Relaxed);
                    return Ok(false);
                }
                // A request that follows another is not sent before its answer.
                Ok(_) => thread::sleep(Duration::from_millis(5)),
                Err(error) if matches!(error.kind(), WouldBlock | TimedOut) => {}
                Err(error) => {
                    self.cancelled.fetch_add(1, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        stream.set_read_timeout(None)?;
        Ok(true)
    }

    /// A page of the list of a bucket, in S3's XML.
    fn list(&self, bucket: &str, query: &str) -> String {
        let of = |name: &str| {
            let found =
                query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            percent_decoded(&found.unwrap_or_default().replace('+', " "))
        };
        let (prefix, is_flat) = (of("prefix"), of("delimiter") == "/");
        let folder = format!("{}/", bucket.trim_end_matches('/'));
        let mut keys: Vec<String> = lock(&self.objects)
            .keys()
            .filter_map(|path| path.strip_prefix(&folder))
            .filter(|key| {
                key.strip_prefix(&*prefix).is_some_and(|rest| !is_flat || !rest.contains('/'))
            })
            .map(str::to_owned)
            .collect();
        keys.sort();
        let start = of("continuation-token").parse().unwrap_or(0);
        let page: String = keys[start..]
            .iter()
            .take(PAGE)
            .map(|key| {
                let key = key.replace('&', "&amp;");
                format!("<Contents><Key>{key}</Key><LastModified>2015-10-21T07:28:00.000Z</LastModified><Size>1</Size></Contents>")
            })
            .collect();
        let end = start + PAGE;
        let next = match end < keys.len() {
            true => format!(
                "<IsTruncated>true</IsTruncated><NextContinuationToken>{end}</NextContinuationToken>"
            ),
            false => "<IsTruncated>false</IsTruncated>".into(),
        };
        format!("<ListBucketResult>{page}{next}</ListBucketResult>")
    }

    /// Records a request, and returns its number and the reaction to it.
    fn choose(&self, path: String, query: &str, range: &Range<u64>) -> (usize, Answer) {
        let mut log = lock(&self.log);
        let (number, query) = (log.len(), query.to_owned());
        let asked = Asked { number, path, query, range: range.clone() };
        log.push(asked.clone());
        drop(log);
        let choose = Arc::clone(&lock(&self.choose));
        let answer = choose(&asked);
        lock(&self.answers).push(answer);
        (number, answer)
    }

    /// Sends a range, with the faults of `answer`.
    fn send_part(
        &self,
        stream: &TcpStream,
        answer: Answer,
        version: &str,
        range: &Range<u64>,
        bytes: &[u8],
    ) -> io::Result<bool> {
        let size = bytes.len() as u64;
        let further = u64::from(answer == Answer::WrongRange);
        let range = range.start + further..range.end + further;
        let body = &bytes[range.start as usize..range.end.min(size) as usize];
        let body = match answer {
            Answer::Short(less) => &body[..body.len().saturating_sub(less)],
            _ => body,
        };
        let lines = format!("content-length: {}\r\n{version}", body.len());
        part(stream, &lines, &range, size)?;
        match answer {
            Answer::Cut(len) => {
                self.send(stream, &body[..body.len().min(len)])?;
                Ok(false)
            }
            Answer::Drip => self.drip(stream, body),
            _ => self.send(stream, body).map(|()| true),
        }
    }

    fn drip(&self, mut stream: &TcpStream, body: &[u8]) -> io::Result<bool> {
        for byte in body {
            if self.stopping.load(Ordering::Relaxed) {
                return Ok(false);
            }
            stream.write_all(&[*byte])?;
            thread::sleep(Duration::from_millis(20));
        }
        Ok(true)
    }

    fn send(&self, mut stream: &TcpStream, body: &[u8]) -> io::Result<()> {
        let bandwidth = *lock(&self.bandwidth);
        let Some(bandwidth) = bandwidth else { return stream.write_all(body) };
        for part in body.chunks(16 << 10) {
            stream.write_all(part)?;
            thread::sleep(Duration::from_secs_f64(part.len() as f64 / bandwidth as f64));
        }
        Ok(())
    }
}

fn plain(mut stream: &TcpStream, status: &str, lines: &str, body: &[u8]) -> io::Result<bool> {
    stream.write_all(format!("HTTP/1.1 {status}\r\n{lines}\r\n").as_bytes())?;
    stream.write_all(body)?;
    Ok(true)
}

/// Sends the head of a response with a range.
fn part(stream: &TcpStream, lines: &str, range: &Range<u64>, size: u64) -> io::Result<bool> {
    let (first, last) = (range.start, range.end - 1);
    let lines = format!("{lines}content-range: bytes {first}-{last}/{size}\r\n");
    plain(stream, "206 Partial Content", &lines, b"")
}

fn percent_decoded(path: &str) -> String {
    let mut parts = path.split('%');
    let mut decoded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = u8::from_str_radix(&part[..2], 16).unwrap();
        decoded.push(char::from(code));
        decoded.push_str(&part[2..]);
    }
    decoded
}

/// The lines of a request's head; `None` at the end of the connection.
fn read_head(reader: &mut impl BufRead) -> io::Result<Option<Vec<String>>> {
    let mut head = vec![];
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            return Ok(Some(head));
        }
        head.push(line);
    }
}

fn range_of(line: &str) -> Option<Range<u64>> {
    let line = line.to_ascii_lowercase();
    let (first, last) = line.strip_prefix("range: bytes=")?.split_once('-')?;
    Some(first.parse().ok()?..last.parse::<u64>().ok()? + 1)
}
