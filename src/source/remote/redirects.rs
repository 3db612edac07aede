//! The rules for redirects: an address names a host, and another host needs the user's consent.
//!
//! | a redirect to                                           | is followed |
//! |---------------------------------------------------------|-------------|
//! | a host and port that this request was sent to before    | yes         |
//! | the same by https after http, both at their usual ports | yes         |
//! | a host that `FUSELOOP_ALLOW_REDIRECTS` lists            | yes         |
//! | any host, by the Hugging Face Hub (`hf://`)             | yes         |
//! | any other host                                          | no          |
//! | http after https                                        | no          |
//! | anything, after ten redirects                           | no          |
//!
//! The variable lists hosts, separated by commas: `cdn.example.com` at any port, `127.0.0.1:9000` at one
//! port only, `*.example.com` for all hosts below `example.com`.

use reqwest::Url;
use std::fmt;

/// The environment variable that lists the hosts that redirects may lead to.
pub(super) const VARIABLE: &str = "FUSELOOP_ALLOW_REDIRECTS";

/// The largest number of redirects of one request.
const MOST: usize = 10;

/// The hosts that redirects may lead to.
#[derive(Clone, Debug)]
pub(super) enum Allowed {
    /// Those of this list.
    Listed(Vec<String>),
    Any,
}

/// The message for a redirect that is not followed. Paths and queries are not shown.
#[derive(Debug)]
pub(super) struct RefusedRedirect(String);

impl fmt::Display for RefusedRedirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RefusedRedirect {}

impl Allowed {
    /// The hosts that the environment lists.
    pub(super) fn of_environment() -> Self {
        Self::parse(&std::env::var(VARIABLE).unwrap_or_default())
    }

    fn parse(list: &str) -> Self {
        let hosts = list.split(',').map(|host| host.trim().to_lowercase());
        Self::Listed(hosts.filter(|host| !host.is_empty()).collect())
    }

    /// Decides on a redirect to `next`, given the addresses that were requested before it.
    ///
    /// # Errors
    ///
    /// If the redirect must not be followed.
    pub(super) fn check(&self, asked: &[Url], next: &Url) -> Result<(), RefusedRedirect> {
        let (Some(first), Some(last)) = (asked.first(), asked.last()) else { return Ok(()) };
        let (from, to) = (host_and_port(last), host_and_port(next));
        let refused =
            |why: String| Err(RefusedRedirect(format!("a redirect from {from} to {to} {why}")));
        if asked.len() > MOST {
            return refused(format!(
                "exceeds the limit of {MOST}: the server at {} redirects in a loop",
                host_and_port(first)
            ));
        }
        if last.scheme() == "https" && next.scheme() != "https" {
            return refused("would leave https: it is never followed".to_owned());
        }
        if asked.iter().any(|asked| is_same(asked, next)) || self.lists(next) {
            return Ok(());
        }
        refused(format!("is not followed without consent: set {VARIABLE}={to} to allow it"))
    }

    fn lists(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default();
        let with_port = host_and_port(url);
        let Self::Listed(hosts) = self else { return true };
        hosts.iter().any(|listed| match listed.strip_prefix('*') {
            Some(end) => end.starts_with('.') && host.ends_with(end),
            None => *listed == host || *listed == with_port,
        })
    }
}

/// Returns true if two addresses have the same host: the same port, or https in place of http.
fn is_same(a: &Url, b: &Url) -> bool {
    let is_upgrade = a.scheme() == "http" && a.port().is_none() && b.port().is_none();
    a.host_str() == b.host_str()
        && (a.port_or_known_default() == b.port_or_known_default() || is_upgrade)
}

/// The host, with the port if it is not the usual one.
fn host_and_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or(host.to_owned(), |port| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(list: &str, asked: &[&str], next: &str) -> Result<(), String> {
        let asked: Vec<Url> = asked.iter().map(|url| url.parse().unwrap()).collect();
        let next = next.parse().unwrap();
        Allowed::parse(list).check(&asked, &next).map_err(|refused| refused.to_string())
    }

    #[test]
    fn the_same_host_is_followed_and_no_other() {
        let from = |from: &str, to: &str| check("", &[from], to).is_ok();
        assert!(from("http://a/x", "http://a/y?z"));
        assert!(from("http://a/x", "https://a/x"));
        assert!(from("http://a:80/x", "http://a/x"));
        assert!(from("http://127.0.0.1:1/x", "http://127.0.0.1:1/y"));
        assert!(!from("http://a/x", "http://b/x"));
        assert!(!from("http://a/x", "http://a:81/x"));
        assert!(!from("http://a:81/x", "https://a/x"));
        assert!(!from("http://a/x", "http://b.a/x"));
        assert!(!from("https://a/x", "http://a/x"));
        // Back to the host that it came from.
        assert!(check("b", &["http://a/x", "http://b/x"], "http://a/x").is_ok());
    }

    #[test]
    fn consent_is_to_a_host_a_port_or_all_below() {
        let to = |list: &str, to: &str| check(list, &["https://a/x"], to).is_ok();
        assert!(to("b", "https://b/x") && to("c, B ", "https://b:81/x"));
        assert!(to("b:81", "https://b:81/x") && !to("b:81", "https://b/x"));
        assert!(to("*.b.org", "https://x.y.b.org/") && !to("*.b.org", "https://b.org/"));
        assert!(
            !to("*", "https://b/") && !to("*b.org", "https://ab.org/") && !to(",", "https://b/")
        );
        assert!(!to("b", "http://b/x"));
    }

    #[test]
    fn a_refusal_names_both_hosts_and_no_secrets() {
        let error = check("", &["http://a:81/x?secret"], "https://b/y?secret").unwrap_err();
        let want = "a redirect from a:81 to b is not followed without consent: \
                    set FUSELOOP_ALLOW_REDIRECTS=b to allow it";
        assert_eq!(error, want);
        let loop_of = ["http://a/x"; MOST + 1];
        assert!(check("", &loop_of[1..], "http://a/x").is_ok());
        let error = check("", &loop_of, "http://a/x").unwrap_err();
        assert!(
            error.ends_with("exceeds the limit of 10: the server at a redirects in a loop"),
            "{error}"
        );
    }
}
