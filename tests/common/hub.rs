//! Servers on 127.0.0.1 whose answers a test gives as a function: the Hugging Face Hub and the storage that it redirects
//! to.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A commit.
pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// The token of the tests.
pub const TOKEN: &str = "hf_SecretOfTheTests";

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET /path?query`.
    pub line: String,
    pub authorization: Option<String>,
    pub range: Option<Range<usize>>,
}

impl Request {
    pub fn target(&self) -> &str {
        self.line.split_once(' ').unwrap().1
    }
}

/// An answer: its status, its headers, and its body.
pub struct Reply(pub u16, pub Vec<(&'static str, String)>, pub Vec<u8>);

impl Reply {
    pub fn status(status: u16) -> Self {
        Self(status, vec![], b"{\"error\":\"secret\"}".to_vec())
    }

    pub fn json(text: impl Into<String>) -> Self {
        Self(200, vec![], text.into().into_bytes())
    }

    pub fn redirect(to: String) -> Self {
        Self(302, vec![("location", to)], vec![])
    }

    /// The range of an object that a request asks for.
    pub fn part(request: &Request, object: &[u8], etag: &str) -> Self {
        let etag = ("etag", format!("\"{etag}\""));
        let Some(range) = request.range.clone() else {
            return Self(200, vec![etag], object.to_vec());
        };
        let range = range.start.min(object.len())..range.end.min(object.len());
        if range.is_empty() {
            return Self::status(416);
        }
        let (first, last, size) = (range.start, range.end - 1, object.len());
        let head = ("content-range", format!("bytes {first}-{last}/{size}"));
        Self(206, vec![etag, head], object[range].to_vec())
    }
}

type Respond = Box<dyn Fn(&Request) -> Reply + Send + Sync>;

struct Shared {
    respond: Mutex<Arc<Respond>>,
    log: Mutex<Vec<Request>>,
    stopping: AtomicBool,
}

/// A server that ends when dropped.
pub struct WebServer {
    shared: Arc<Shared>,
    address: String,
}

impl WebServer {
    pub fn start(respond: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (log, stopping) = (Mutex::default(), AtomicBool::new(false));
        let respond = Mutex::new(Arc::new(Box::new(respond) as Respond));
        let shared = Arc::new(Shared { respond, log, stopping });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if serving.stopping.load(Ordering::Relaxed) {
                    return;
                }
                let serving = Arc::clone(&serving);
                thread::spawn(move || serving.serve(&stream));
            }
        });
        Self { shared, address }
    }

    pub fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers by another function from now on.
    pub fn answer(&self, respond: impl Fn(&Request) -> Reply + Send + Sync + 'static) {
        *self.shared.respond.lock().unwrap() = Arc::new(Box::new(respond));
    }

    /// The requests since the last call.
    pub fn take_log(&self) -> Vec<Request> {
        std::mem::take(&mut self.shared.log.lock().unwrap())
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(&self.address);
    }
}

impl Shared {
    fn serve(&self, stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Ok(Some(request)) = read(&mut reader) {
            self.log.lock().unwrap().push(request.clone());
            let respond = Arc::clone(&self.respond.lock().unwrap());
            if send(stream, &request, respond(&request)).is_err() {
                return;
            }
        }
    }
}

fn send(mut stream: &TcpStream, request: &Request, reply: Reply) -> io::Result<()> {
    let Reply(status, headers, body) = reply;
    let mut head = format!("HTTP/1.1 {status} As told\r\n");
    headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
    head += &format!("content-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes())?;
    match request.line.starts_with("HEAD ") {
        true => Ok(()),
        false => stream.write_all(&body),
    }
}

/// Reads the head of a request; `None` at the end of the connection.
fn read(reader: &mut BufReader<&TcpStream>) -> io::Result<Option<Request>> {
    let mut lines = vec![];
    loop {
        let mut line = String::new();
        if reader.by_ref().take(64 << 10).read_line(&mut line)? == 0 {
            return Ok(None);
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let header = |name: &str| {
        let is_it = |line: &&String| line.to_ascii_lowercase().starts_with(&format!("{name}: "));
        lines.iter().find(is_it).map(|line| line[name.len() + 2..].to_owned())
    };
    let range = header("range").and_then(|range| {
        let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
        Some(first.parse().ok()?..last.parse::<usize>().ok()? + 1)
    });
    let line = lines[0].rsplit_once(' ').unwrap().0.to_owned();
    Ok(Some(Request { line, authorization: header("authorization"), range }))
}

/// The files of a dataset, by their paths.
pub type Files = Vec<(String, Vec<u8>)>;

/// Answers as the Hub does for the dataset `org/name`, whose branch `main` and tag `v1` are [`COMMIT`]: trees in pages of
/// two files, and files by redirects to a storage.
pub fn as_hub(request: &Request, files: &Files, storage: &str) -> Reply {
    let target = request.target();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if let Some(revision) = path.strip_prefix("/api/datasets/org/name/revision/") {
        return match revision {
            "main" | "v1" | "refs%2Fconvert%2Fparquet" => {
                Reply::json(format!("{{\"id\": \"org/name\", \"sha\": \"{COMMIT}\"}}"))
            }
            _ => Reply::status(404),
        };
    }
    if path == format!("/api/datasets/org/name/tree/{COMMIT}") {
        let start: usize = query.split_once("cursor=").map_or(0, |(_, at)| at.parse().unwrap());
        let entry = |(path, bytes): &(String, Vec<u8>)| {
            format!(
                "{{\"type\": \"file\", \"oid\": \"x\", \"size\": {}, \"path\": \"{path}\"}}",
                bytes.len()
            )
        };
        let mut page: Vec<String> = files.iter().skip(start).take(2).map(entry).collect();
        page.push(
            "{\"type\": \"directory\", \"oid\": \"x\", \"size\": 0, \"path\": \"data\"}".into(),
        );
        let mut reply = Reply::json(format!("[{}]", page.join(", ")));
        if start + 2 < files.len() {
            let next = format!("<{path}?recursive=true&cursor={}>; rel=\"next\"", start + 2);
            reply.1.push(("link", next));
        }
        return reply;
    }
    match path.strip_prefix(&format!("/datasets/org/name/resolve/{COMMIT}/")) {
        Some(path) => match files.iter().find(|(known, _)| known == path) {
            Some((path, bytes)) if path.ends_with(".md") => Reply::part(request, bytes, "readme"),
            Some((path, _)) => Reply::redirect(format!("{storage}/{path}?signature=secret")),
            None => Reply::status(404),
        },
        None => Reply::status(404),
    }
}

/// Answers as the storage of the Hub does.
pub fn as_storage(request: &Request, files: &Files) -> Reply {
    let path = request.target().split('?').next().unwrap().trim_start_matches('/');
    match files.iter().find(|(known, _)| known == path) {
        // A signed address is signed for one method.
        _ if request.line.starts_with("HEAD ") => Reply::status(403),
        Some((_, bytes)) => Reply::part(request, bytes, path),
        None => Reply::status(404),
    }
}
