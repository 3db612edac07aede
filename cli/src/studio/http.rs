//! HTTP/1.1 for one page: a request a connection, within limits of size and time.
//!
//! | limit | value |
//! |---|---|
//! | bytes of a request's head | 16 KiB, with at most 64 headers |
//! | bytes of a body | 4 MiB, and its length must be given |
//! | time for the head and the body together | 5 s |
//! | time for the answer | 30 s |

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const MOST_HEAD: usize = 16 << 10;
const MOST_HEADERS: usize = 64;
const MOST_BODY: usize = 4 << 20;
const READ_TIME: Duration = Duration::from_secs(5);
const WRITE_TIME: Duration = Duration::from_secs(30);

/// A request, complete.
pub(super) struct Request {
    pub(super) method: String,
    pub(super) target: String,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Request {
    /// Returns the only value of a header: `None` if it is absent, and an error if it occurs twice.
    pub(super) fn header(&self, name: &str) -> Result<Option<&str>, Refusal> {
        let mut values = self.headers.iter().filter(|(known, _)| known == name);
        let value = values.next().map(|(_, value)| value.as_str());
        if values.next().is_some() {
            return Err(Refusal::new(400, format!("the header {name} occurs twice")));
        }
        Ok(value)
    }
}

/// A request that is refused: the status and the reason.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) reason: String,
}

impl Refusal {
    pub(super) fn new(status: u16, reason: impl Into<String>) -> Self {
        Self { status, reason: reason.into() }
    }
}

/// An answer.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) kind: &'static str,
    pub(super) body: Vec<u8>,
}

impl Response {
    pub(super) fn json(value: &serde_json::Value) -> Self {
        Self { status: 200, kind: "application/json", body: value.to_string().into_bytes() }
    }

    pub(super) fn refused(refusal: &Refusal) -> Self {
        let body = format!("{}\n", refusal.reason).into_bytes();
        Self { status: refusal.status, kind: "text/plain; charset=utf-8", body }
    }
}

/// Reads a request. `Ok(None)` is a connection that was closed or timed out before it sent anything: browsers open
/// some in advance.
pub(super) fn read(stream: &mut TcpStream) -> Result<Option<Request>, Refusal> {
    let end = Instant::now() + READ_TIME;
    let mut bytes = vec![];
    let (mut request, length) = loop {
        if let Some((request, head)) = parse(&bytes)? {
            let length = body_length(&request)?;
            bytes.drain(..head);
            break (request, length);
        }
        if bytes.len() >= MOST_HEAD {
            let reason = format!("the head of the request has more than {MOST_HEAD} bytes");
            return Err(Refusal::new(431, reason));
        }
        match receive(stream, &mut bytes, MOST_HEAD, end) {
            Ok(0) | Err(_) if bytes.is_empty() => return Ok(None),
            Ok(0) => return Err(Refusal::new(400, "the request ends in its head")),
            Ok(_) => {}
            Err(_) => return Err(Refusal::new(408, "the request took too long")),
        }
    };
    while bytes.len() < length {
        match receive(stream, &mut bytes, length, end) {
            Ok(0) => return Err(Refusal::new(400, "the request ends in its body")),
            Ok(_) => {}
            Err(_) => return Err(Refusal::new(408, "the request took too long")),
        }
    }
    bytes.truncate(length);
    request.body = bytes;
    Ok(Some(request))
}

/// Reads some bytes, up to `most` in all, before `end`.
fn receive(
    stream: &mut TcpStream,
    bytes: &mut Vec<u8>,
    most: usize,
    end: Instant,
) -> io::Result<usize> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    stream.set_read_timeout(Some(left))?;
    let mut buffer = [0; 8 << 10];
    let room = buffer.len().min(most.saturating_sub(bytes.len()));
    let count = stream.read(&mut buffer[..room])?;
    bytes.extend_from_slice(&buffer[..count]);
    Ok(count)
}

/// Returns the request without its body and the length of its head; `None` if the head is not complete.
fn parse(bytes: &[u8]) -> Result<Option<(Request, usize)>, Refusal> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let status = parsed.parse(bytes);
    let status = status.map_err(|error| Refusal::new(400, format!("not HTTP/1.1: {error}")))?;
    let httparse::Status::Complete(head) = status else { return Ok(None) };
    let text = |value: &[u8]| {
        let text = std::str::from_utf8(value).map(str::to_owned);
        text.map_err(|_| Refusal::new(400, "a header is not text"))
    };
    let headers = parsed
        .headers
        .iter()
        .map(|header| Ok::<_, Refusal>((header.name.to_ascii_lowercase(), text(header.value)?)));
    let request = Request {
        method: parsed.method.unwrap_or_default().to_owned(),
        target: parsed.path.unwrap_or_default().to_owned(),
        headers: headers.collect::<Result<_, _>>()?,
        body: vec![],
    };
    Ok(Some((request, head)))
}

fn body_length(request: &Request) -> Result<usize, Refusal> {
    if request.header("transfer-encoding")?.is_some() {
        return Err(Refusal::new(411, "the length of the body must be given"));
    }
    let Some(length) = request.header("content-length")? else { return Ok(0) };
    // Not `parse` alone, which takes `+5`.
    let digits = length.bytes().all(|byte| byte.is_ascii_digit());
    let length = length.parse::<usize>().ok().filter(|_| digits);
    match length {
        None => Err(Refusal::new(400, "the length of the body is not a number")),
        Some(length) if length > MOST_BODY => Err(Refusal::new(
            413,
            format!("the body has {length} bytes, and the maximum is {MOST_BODY}"),
        )),
        Some(length) => Ok(length),
    }
}

/// The headers that keep other pages and caches away from every answer.
const HEADERS: &str = "Connection: close\r\n\
Cache-Control: no-store\r\n\
X-Content-Type-Options: nosniff\r\n\
Referrer-Policy: no-referrer\r\n\
Cross-Origin-Resource-Policy: same-origin\r\n\
Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; \
connect-src 'self'; base-uri 'none'; form-action 'none'; \
frame-ancestors 'self' http://localhost:* http://127.0.0.1:*\r\n";

/// Sends an answer. A client that is gone does not matter.
pub(super) fn send(stream: &mut TcpStream, response: &Response) {
    let Response { status, kind, body } = response;
    let reason = if *status == 200 { "OK" } else { "Refused" };
    let head = format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{HEADERS}\r\n",
        body.len()
    );
    let end = Instant::now() + WRITE_TIME;
    let _ = write(stream, head.as_bytes(), end).and_then(|()| write(stream, body, end));
    let _ = stream.flush().and_then(|()| stream.shutdown(std::net::Shutdown::Write));
    if *status != 200 {
        discard(stream);
    }
}

/// Writes all bytes before `end`.
fn write(stream: &mut TcpStream, mut bytes: &[u8], end: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads a little of what a refused client still sends: a connection that is closed with unread bytes is reset, and
/// the client may not see the answer.
fn discard(stream: &mut TcpStream) {
    let _ = stream.set_read_timeout(Some(Duration::from_millis(100)));
    let mut buffer = [0; 8 << 10];
    for _ in 0..64 {
        if !matches!(stream.read(&mut buffer), Ok(1..)) {
            return;
        }
    }
}
