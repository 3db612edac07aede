//! A server that a test has started, and a client that sends it any bytes.

use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running `fuseloop studio`; it ends when this is dropped.
pub(super) struct Studio {
    child: Child,
    pub(super) address: SocketAddr,
    pub(super) token: String,
}

impl Studio {
    /// Starts the command in a folder.
    pub(super) fn start(dir: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fuseloop"));
        command.arg("studio").args(args).current_dir(dir).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("studio: http://").unwrap();
        let (address, token) = url.trim_end_matches('/').split_once('/').unwrap();
        Self { child, address: address.parse().unwrap(), token: token.to_owned() }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.token)
    }

    /// Sends bytes and returns the status and the body of the answer; `None` if the server closes without one.
    pub(super) fn send(&self, bytes: &[u8]) -> Option<(u16, Vec<u8>)> {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // A refused request may be closed before all of it was sent.
        let _ = stream.write_all(bytes);
        let mut answer = vec![];
        let _ = stream.read_to_end(&mut answer);
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&answer[..end]).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Some((status, answer.split_off(end + 4)))
    }

    /// Makes a call and returns the body of the answer.
    pub(super) fn call(&self, name: &str, body: &Value) -> Vec<u8> {
        let body = body.to_string();
        let Self { address, token, .. } = self;
        let head = format!(
            "POST /{token}/api/{name} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let (status, answer) = self.send(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer));
        answer
    }

    /// Makes a call whose answer is JSON.
    pub(super) fn json(&self, name: &str, body: &Value) -> Value {
        serde_json::from_slice(&self.call(name, body)).unwrap()
    }

    /// Makes a call whose answer is JSON with pictures, which `list` names, after the strip of a sample that has several
    /// images. Returns each with its pixels.
    pub(super) fn pictures(
        &self,
        name: &str,
        body: &Value,
        list: &str,
    ) -> (Value, Vec<(Value, Vec<u8>)>) {
        let answer = self.call(name, body);
        let length = u32::from_le_bytes(answer[..4].try_into().unwrap()) as usize;
        let header: Value = serde_json::from_slice(&answer[4..4 + length]).unwrap();
        let mut rest = &answer[4 + length..];
        let mut pictures = vec![];
        let strip = header.get("strip").into_iter();
        for picture in strip.chain(header[list].as_array().into_iter().flatten()) {
            let side = |name: &str| picture[name].as_u64().unwrap_or(0) as usize;
            let (pixels, after) = rest.split_at(side("width") * side("height") * 4);
            pictures.push((picture.clone(), pixels.to_vec()));
            rest = after;
        }
        assert!(rest.is_empty(), "the answer has pixels of no picture");
        (header, pictures)
    }

    /// Returns the processor time of the server, in ticks.
    #[cfg(target_os = "linux")]
    pub(super) fn cpu(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields = text.rsplit(") ").next().unwrap().split(' ');
        fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
    }

    /// Returns the resident bytes of the server.
    #[cfg(target_os = "linux")]
    pub(super) fn memory(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Studio {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
