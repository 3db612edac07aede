//! Which requests are answered: those of the page that the command's own address opened.
//!
//! | check | against |
//! |---|---|
//! | the path begins with a random token of 128 bits | other programs and users of the machine |
//! | `Host` is `localhost` or an address, with the server's port | DNS rebinding: a foreign name that resolves to this machine |
//! | `Origin`, where there is one, is `http://` and the host | requests of other pages |
//! | `Sec-Fetch-Site`, where there is one, is `same-origin` for a call | the same |
//! | a call is a `POST` of JSON | forms and pictures of other pages |

use super::http::{Refusal, Request};
use std::fmt::Write as _;
use std::net::IpAddr;

/// The secret in the server's address, and its port.
pub(super) struct Guard {
    token: String,
    port: u16,
    /// Accepts any address as the host; else only those of the loopback.
    is_open: bool,
}

/// The file or the call that a request asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked<'a> {
    /// A file of the page.
    File(&'a str),
    /// A call, by its name.
    Call(&'a str),
}

impl Guard {
    /// Draws a token.
    pub(super) fn new(port: u16, is_open: bool) -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        let mut token = String::new();
        for byte in bytes {
            let _ = write!(token, "{byte:02x}");
        }
        Ok(Self { token, port, is_open })
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Checks a request and returns what it asks for.
    pub(super) fn check<'a>(&self, request: &'a Request) -> Result<Asked<'a>, Refusal> {
        let host = request.header("host")?.unwrap_or_default();
        if !self.knows(host) {
            return Err(Refusal::new(403, "the request names another host"));
        }
        if let Some(origin) = request.header("origin")?
            && origin.strip_prefix("http://") != Some(host)
        {
            return Err(Refusal::new(403, "the request comes from another page"));
        }
        let path = request.target.strip_prefix('/').unwrap_or_default();
        let (token, path) = path.split_once('/').unwrap_or((path, ""));
        if !same(token, &self.token) {
            return Err(Refusal::new(
                403,
                "the address has no token: open the address that `fuseloop studio` printed",
            ));
        }
        match (request.method.as_str(), path.strip_prefix("api/")) {
            ("GET", None) => Ok(Asked::File(path)),
            ("POST", Some(call)) => {
                let site = request.header("sec-fetch-site")?.unwrap_or("same-origin");
                if site != "same-origin" {
                    return Err(Refusal::new(403, "the request comes from another page"));
                }
                if request.header("content-type")? != Some("application/json") {
                    return Err(Refusal::new(415, "a call is JSON"));
                }
                Ok(Asked::Call(call))
            }
            _ => Err(Refusal::new(405, "read files with GET and make calls with POST")),
        }
    }

    /// Returns true if `host` is this server: `127.0.0.1:8080`.
    fn knows(&self, host: &str) -> bool {
        let Some((name, port)) = host.rsplit_once(':') else { return false };
        if port.parse() != Ok(self.port) {
            return false;
        }
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match address {
            Ok(address) => self.is_open || address.is_loopback(),
            Err(_) => name == "localhost",
        }
    }
}

/// Compares in a time that does not depend on where two texts differ.
fn same(given: &str, known: &str) -> bool {
    let pairs = given.bytes().zip(known.bytes());
    given.len() == known.len() && pairs.fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_are_no_host() {
        let guard = Guard { token: String::new(), port: 80, is_open: false };
        for host in ["127.0.0.1:80", "localhost:80", "[::1]:80"] {
            assert!(guard.knows(host), "{host}");
        }
        for host in
            ["", "127.0.0.1", "127.0.0.1:81", "evil.example:80", "10.0.0.1:80", "localhost.evil:80"]
        {
            assert!(!guard.knows(host), "{host}");
        }
        let open = Guard { is_open: true, ..guard };
        assert!(open.knows("10.0.0.1:80") && !open.knows("evil.example:80"));
    }

    #[test]
    fn tokens_are_long_and_differ() {
        let [a, b] = [0; 2].map(|_| Guard::new(1, false).unwrap().token);
        assert!(a.len() == 32 && a != b);
        assert!(same(&a, &a) && !same(&a, &b) && !same(&a[1..], &a));
    }
}
