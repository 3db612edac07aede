//! Parses an address, and shows it without its secrets.
//!
//! ```text
//! s3://bucket/a b.tar          -> S3, bucket, key "a b.tar"
//! https://host:1/a%20b?sig=x   -> https://host:1/?sig=x, path "a b", shown as https://host:1/a%20b?..
//! hf://datasets/o/n@main/a b   -> HF_ENDPOINT/datasets/o/n/resolve/main, path "a b"
//! ```
//!
//! The query (the text after a `?`) may be a signature, so it is never shown. A name and password before
//! an `@` are refused, because they would not be sent.

use super::hub::{self, HubAddress};
use crate::source::Escaped;
use object_store::path::Path;
use std::fmt;

/// What is said of an address that ends with `/`.
const FOLDER: &str = "a folder, and only files are read at addresses: name its shards, as in \
                      s3://bucket/train/*.tar or https://host/train/{000..127}.tar";

/// The address of an object.
pub(super) struct Address {
    pub(super) store: StoreAt,
    pub(super) path: Path,
    shown: String,
}

/// The store that holds the object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum StoreAt {
    S3 {
        bucket: String,
    },
    Google {
        bucket: String,
    },
    /// Scheme and host, with the query.
    Http {
        base: String,
    },
    /// A revision of a dataset of the Hugging Face Hub: the address that the paths of its files are below.
    Hub {
        base: String,
    },
}

impl Address {
    /// Parses an address.
    ///
    /// # Errors
    ///
    /// A message that names the address, if the address is invalid.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        if url.starts_with(hub::SCHEME) {
            let address = HubAddress::parse(url)?;
            let (store, path) = address.store();
            let path = Path::parse(path).map_err(|error| format!("{address}: {error}"))?;
            if path.is_root() {
                return Err(format!(
                    "{address}: a dataset, and only files are read here: add the path of one"
                ));
            }
            return Ok(Self { store, path, shown: address.to_string() });
        }
        let shown = shown(url);
        let bad = |why: &str| format!("{}: {why}", Escaped(&shown));
        let (scheme, rest) = url.split_once("://").ok_or_else(|| bad("not an address"))?;
        let (host, key) = rest.split_once('/').unwrap_or((rest, ""));
        let (store, path) = match scheme {
            "s3" => (StoreAt::S3 { bucket: host.to_owned() }, Path::parse(key)),
            "gs" => (StoreAt::Google { bucket: host.to_owned() }, Path::parse(key)),
            "http" | "https" => of_http(scheme, rest).map_err(bad)?,
            _ => return Err(bad("only s3, gs, hf, http and https are read")),
        };
        let key = if scheme.starts_with("http") { key.split(['?', '#']).next() } else { Some(key) };
        if key.is_some_and(|key| key.len() > 1 && key.ends_with('/')) {
            return Err(bad(FOLDER));
        }
        let path = path.map_err(|_| bad("an empty part, `.` or `..` in its path"))?;
        if host.is_empty() || path.is_root() {
            return Err(bad("the address names no object"));
        }
        Ok(Self { store, path, shown })
    }
}

/// Shows the address without secrets, with control characters escaped.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Escaped(&self.shown).fmt(f)
    }
}

type Parsed = (StoreAt, Result<Path, object_store::path::Error>);

fn of_http(scheme: &str, rest: &str) -> Result<Parsed, &'static str> {
    let rest = rest.split('#').next().unwrap_or(rest);
    let (before_query, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (host, path) = before_query.split_once('/').unwrap_or((before_query, ""));
    if host.contains('@') {
        return Err("a name and password in an address are not sent: take them out");
    }
    let mark = if query.is_empty() { "" } else { "?" };
    let base = format!("{scheme}://{host}/{mark}{query}");
    Ok((StoreAt::Http { base }, Path::from_url_path(path)))
}

/// Returns the address without the parts that may be secret.
fn shown(url: &str) -> String {
    let is_web = url.starts_with("http://") || url.starts_with("https://");
    let (before_query, is_cut) = match url.find(['?', '#']) {
        Some(end) if is_web => (&url[..end], true),
        _ => (url, false),
    };
    let (scheme, rest) = before_query.split_once("://").unwrap_or(("", before_query));
    let host = rest.find('/').unwrap_or(rest.len());
    let begin = rest[..host].rfind('@').map_or(0, |at| at + 1);
    let mark = if is_cut { "?.." } else { "" };
    let sign = if before_query.contains("://") { "://" } else { "" };
    format!("{scheme}{sign}{}{mark}", &rest[begin..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> (StoreAt, String, String) {
        let address = Address::parse(url).unwrap();
        (address.store.clone(), address.path.to_string(), address.to_string())
    }

    #[test]
    fn addresses_are_taken_apart() {
        let (store, path, shown) = parse("s3://b/x/a b%20?#.tar");
        assert_eq!(store, StoreAt::S3 { bucket: "b".into() });
        assert_eq!((&*path, &*shown), ("x/a b%20?#.tar", "s3://b/x/a b%20?#.tar"));
        let (store, path, shown) = parse("https://h:1/x/a%20b.tar?sig=secret#part");
        assert_eq!(store, StoreAt::Http { base: "https://h:1/?sig=secret".into() });
        assert_eq!((&*path, &*shown), ("x/a b.tar", "https://h:1/x/a%20b.tar?.."));
        assert_eq!(parse("http://h/a").0, StoreAt::Http { base: "http://h/".into() });
        assert_eq!(parse("gs://b/a").0, StoreAt::Google { bucket: "b".into() });
    }

    #[test]
    fn what_is_no_address_is_refused_without_its_secrets() {
        let message = |url: &str| Address::parse(url).err().unwrap();
        assert_eq!(message("s3://b"), "s3://b: the address names no object");
        assert_eq!(message("s3:///a"), "s3:///a: the address names no object");
        assert_eq!(
            message("s3://b/a/../c"),
            "s3://b/a/../c: an empty part, `.` or `..` in its path"
        );
        assert!(message("s3://b/train/").starts_with("s3://b/train/: a folder, and only files"));
        assert!(message("https://h/x/?sig=secret").starts_with("https://h/x/?..: a folder"));
        assert_eq!(message("s3://b/"), "s3://b/: the address names no object");
        assert_eq!(message("ftp://h/a"), "ftp://h/a: only s3, gs, hf, http and https are read");
        assert_eq!(message("a\x1b"), "a\\u{1b}: not an address");
        for url in ["https://me:secret@h/a", "https://h/%ff?secret", "https://me:secret@h?secret"] {
            assert!(!message(url).contains("secret"), "{}", message(url));
        }
    }
}
