//! Datasets of the Hugging Face Hub: `hf://datasets/ORG/NAME[@REVISION][/PATH]`.
//!
//! ```text
//! hf://datasets/org/name@main/data/train-*.parquet
//!   GET ENDPOINT/api/datasets/org/name/revision/main             the commit, asked for once by a process
//!   GET ENDPOINT/api/datasets/org/name/tree/COMMIT?recursive=true   the files, page by page (`Link: <..>; rel="next"`)
//! hf://datasets/org/name@COMMIT/data/train-00000.parquet
//!   GET ENDPOINT/datasets/org/name/resolve/COMMIT/data/train-00000.parquet   ranges, by redirects to the Hub's storage
//! ```
//!
//! | variable                        | meaning                                                      |
//! |---------------------------------|--------------------------------------------------------------|
//! | `HF_ENDPOINT`                   | the server; `https://huggingface.co` by default              |
//! | `HF_TOKEN`                      | the token; else that in the file of `hf auth login`:         |
//! | `HF_TOKEN_PATH`, `HF_HOME`      | this file, or `token` in this folder; `~/.cache/huggingface` |
//! | `HF_HUB_DISABLE_IMPLICIT_TOKEN` | 1: no token is sent                                          |
//!
//! A branch or tag may move, so a commit takes its place before anything is listed or read. The addresses of open files
//! have the commit, and all datasets that a process opens from one branch are of one commit.
//!
//! The token is sent to the endpoint alone: a redirect to another host, by which the Hub serves large files, goes without.
//! It is never sent over `http://`, except to this machine, and no error or debug output shows it.
//!
//! Answers are not trusted: paths that lead out of the dataset, and lists that are too long, are errors.

use super::address::StoreAt;
use super::cause::Cause;
use super::client;
use super::fetch::{FetchError, FetchLimits, Tries};
use super::options;
use super::path_pattern::PathPattern;
use super::runtime;
use crate::error::{Error, ErrorKind};
use crate::source::hub_api::{MOST_PATH, commit_of, files_of, is_commit, is_path, next_page};
use crate::source::{Escaped, file_pool};
use object_store::ClientOptions;
use object_store::client::{HttpClient, HttpRequest, HttpRequestBody};
use reqwest::Url;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::env;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

/// What such addresses begin with.
pub(in crate::source) const SCHEME: &str = "hf://";

/// The most files of a dataset. A page counts as at least a thousand of them.
const MOST_FILES: usize = 1 << 20;

/// The most bytes of the paths of a dataset's files, all together: 128 for each of the most files.
const MOST_BYTES_OF_PATHS: usize = 128 << 20;

/// The most bytes of an answer: a page of a thousand files has some 300 KB.
const MOST_BYTES: usize = 8 << 20;

/// The form of addresses, for errors.
const EXPECTED: &str =
    "expected hf://datasets/ORG/NAME, with @REVISION and a path behind it if wanted";

/// An address on the Hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HubAddress {
    /// `ORG/NAME`.
    repo: String,
    /// A commit, a branch or a tag; `main` if none is named.
    revision: String,
    /// The path in the dataset; empty for the dataset itself.
    path: String,
}

/// A folder of a dataset, in one commit.
#[cfg(feature = "parquet")]
#[derive(Debug)]
pub(in crate::source) struct HubFolder {
    /// The address of the folder, with the commit.
    pub(in crate::source) address: String,
    /// The paths of the files below it, sorted.
    pub(in crate::source) files: Vec<String>,
}

/// A token, which nothing shows.
pub(super) struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// Returns the value of the header `Authorization`.
    pub(super) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

impl HubAddress {
    /// Parses an address of the Hub.
    ///
    /// # Errors
    ///
    /// A message that names the address.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let bad = |why: &str| format!("{}: {why}", Escaped(url));
        let rest = url.strip_prefix(SCHEME).ok_or_else(|| bad(EXPECTED))?;
        let rest = rest.strip_prefix("datasets/").ok_or_else(|| {
            bad("only datasets of the Hub are read: expected hf://datasets/ORG/NAME")
        })?;
        let (org, rest) = rest.split_once('/').ok_or_else(|| bad(EXPECTED))?;
        let end = rest.find(['/', '@']).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        let (revision, path) = match rest.strip_prefix('@') {
            Some(rest) => {
                // Names of branches have slashes as `%2F`, except those that the Hub itself makes.
                let begin =
                    ["refs/convert/", "refs/pr/"].iter().find(|begin| rest.starts_with(**begin));
                let begin = begin.map_or(0, |begin| begin.len());
                let end = rest[begin..].find('/').map_or(rest.len(), |end| begin + end);
                (rest[..end].replace("%2F", "/"), &rest[end..])
            }
            None => ("main".to_owned(), rest),
        };
        let is_name = |name: &str| {
            let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            !name.trim_matches('.').is_empty() && name.bytes().all(is_good)
        };
        if !is_name(org) || !is_name(name) {
            return Err(bad(EXPECTED));
        }
        if !is_path(&revision) {
            return Err(bad("the revision behind the @ is empty or invalid"));
        }
        let path = path.trim_start_matches('/').trim_end_matches('/');
        if !path.is_empty() && !is_path(path) {
            return Err(bad("an empty part, `.` or `..` in its path"));
        }
        Ok(Self { repo: format!("{org}/{name}"), revision, path: path.to_owned() })
    }

    /// Returns the store that the files of the revision are in, and the path of the file.
    pub(super) fn store(&self) -> (StoreAt, &str) {
        let Self { repo, revision, path } = self;
        let (endpoint, revision) = (endpoint(), encoded(revision));
        (StoreAt::Hub { base: format!("{endpoint}/datasets/{repo}/resolve/{revision}") }, path)
    }

    fn api(&self, what: &str, query: &str) -> String {
        let Self { repo, revision, .. } = self;
        format!("{}/api/datasets/{repo}/{what}/{}?{query}", endpoint(), encoded(revision))
    }

    /// Returns the address as text.
    fn text(&self) -> String {
        let Self { repo, revision, path } = self;
        let (revision, slash) =
            (revision.replace('/', "%2F"), if path.is_empty() { "" } else { "/" });
        format!("{SCHEME}datasets/{repo}@{revision}{slash}{path}")
    }

    /// Returns the address in the commit that its revision is now, or was when this process asked first.
    fn pinned(self, patience: FetchLimits) -> io::Result<Self> {
        static COMMITS: Mutex<Option<HashMap<String, String>>> = Mutex::new(None);
        if is_commit(&self.revision) {
            return Ok(self);
        }
        let url = self.api("revision", "expand=sha");
        // The lock is held while the server is asked, so that it is asked once. In a forked child, it may be held for ever.
        runtime::check().map_err(io::Error::other)?;
        let mut commits = COMMITS.lock().unwrap_or_else(PoisonError::into_inner);
        let commits = commits.get_or_insert_default();
        let commit = match commits.get(&url) {
            Some(commit) => commit.clone(),
            None => {
                let (answer, _) = self.get(&self.client()?, url.clone(), patience)?;
                let commit = commit_of(&answer).map_err(|reason| self.invalid(&reason))?;
                commits.insert(url, commit.clone());
                commit
            }
        };
        Ok(Self { revision: commit, ..self })
    }

    /// Lists the files of the dataset, which is in a commit.
    fn files(&self, patience: FetchLimits, most: usize) -> io::Result<Arc<Vec<String>>> {
        /// The list that was asked for last: a commit has one list for ever.
        static LAST: Mutex<Option<(String, Arc<Vec<String>>)>> = Mutex::new(None);
        let first = self.api("tree", "recursive=true");
        runtime::check().map_err(io::Error::other)?;
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, files)) = last.as_ref().filter(|(url, _)| *url == first) {
            return Ok(Arc::clone(files));
        }
        let (mut files, mut seen, mut bytes, mut urls) = (vec![], 0, 0, HashSet::new());
        let (client, mut next) = (self.client()?, Some(first.clone()));
        while let Some(url) = next {
            let (answer, link) = self.get(&client, url.clone(), patience)?;
            let page = files_of(&answer).map_err(|reason| self.invalid(&reason))?;
            seen += page.len().max(1000);
            bytes += page.iter().map(String::len).sum::<usize>();
            if bytes > MOST_BYTES_OF_PATHS {
                return Err(self.invalid(&format!(
                    "the paths of its files have more than {MOST_BYTES_OF_PATHS} bytes"
                )));
            }
            files.extend(page);
            urls.insert(url);
            next = match link {
                Some(link) => next_page(&link, &first).map_err(|reason| self.invalid(&reason))?,
                None => None,
            };
            if next.is_some() && seen >= most {
                return Err(self.invalid(&format!("its list has more than {most} files")));
            }
            if next.as_ref().is_some_and(|next| urls.contains(next)) {
                return Err(self.invalid("its list goes back to a page that was there before"));
            }
        }
        files.sort_unstable();
        files.dedup();
        let files = Arc::new(files);
        *last = Some((first, Arc::clone(&files)));
        Ok(files)
    }

    /// Returns a client for the dataset, with the token.
    fn client(&self) -> io::Result<HttpClient> {
        let (store, _) = self.store();
        let client = Cause::check_endpoint(&store).and_then(|()| client(&store));
        client.map_err(|cause| FetchError::of(self, &cause, "").into())
    }

    /// Asks the server; returns the body of its answer, and the header `Link`.
    fn get(
        &self,
        client: &HttpClient,
        url: String,
        patience: FetchLimits,
    ) -> io::Result<(Vec<u8>, Option<String>)> {
        let (address, (store, _), client) = (self.to_string(), self.store(), client.clone());
        let answer = runtime::wait(async move {
            let mut tries = Tries::begin(&address, &store, patience);
            loop {
                let slot = tries.slot().await;
                let answer = ask(&client, &url, &store, &tries).await;
                drop(slot);
                match answer {
                    Ok(answer) => return Ok(answer),
                    Err(cause) => tries.failed(cause).await?,
                }
            }
        })?;
        answer.map_err(|error: FetchError| io::Error::from(error))
    }

    fn invalid(&self, reason: &str) -> io::Error {
        let text = format!("{self}: the server's answer is not usable: {}", Escaped(reason));
        io::Error::new(io::ErrorKind::InvalidData, text)
    }
}

/// Shows the address with its revision, with control characters escaped.
impl fmt::Display for HubAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Escaped(&self.text()).fmt(f)
    }
}

/// Returns an address whose revision is a commit; an address that is not of the Hub is returned unchanged.
pub(super) fn pinned(url: &str, patience: FetchLimits) -> io::Result<Cow<'_, str>> {
    if !url.starts_with(SCHEME) {
        return Ok(url.into());
    }
    Ok(address(url)?.pinned(patience)?.text().into())
}

/// Returns the addresses of the files of the Hub that a name without braces means: that of one file, or those that match
/// a pattern, in the order of their bytes.
///
/// # Errors
///
/// Fails if the name is invalid, or if the server refuses or answers wrongly.
pub(in crate::source) fn files_on_hub(name: &str) -> Result<Vec<String>, Error> {
    let patience = limits()?;
    let found = address(name)?.pinned(patience)?;
    if !found.path.contains(['*', '?', '[']) {
        return Ok(vec![found.text()]);
    }
    let all = found.files(patience, MOST_FILES)?;
    let of = |path: &String| HubAddress { path: path.clone(), ..found.clone() }.text();
    if all.binary_search(&found.path).is_ok() {
        return Ok(vec![found.text()]);
    }
    let pattern = PathPattern::parse(&found.path).map(PathPattern::needs_dots);
    let pattern = pattern.map_err(|reason| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("{found}: {reason}"))
    })?;
    Ok(all.iter().filter(|path| pattern.matches(path)).map(of).collect())
}

/// Returns the folder of the Hub that a name means; `None` if no file is below it.
///
/// # Errors
///
/// Fails as [`files_on_hub`] does.
#[cfg(feature = "parquet")]
pub(in crate::source) fn folder_on_hub(name: &str) -> Result<Option<HubFolder>, Error> {
    let patience = limits()?;
    let found = address(name)?.pinned(patience)?;
    let all = found.files(patience, MOST_FILES)?;
    let below = |file: &String| match &*found.path {
        "" => Some(file.clone()),
        path => file.strip_prefix(path)?.strip_prefix('/').map(str::to_owned),
    };
    let files: Vec<String> = all.iter().filter_map(below).collect();
    Ok(Some(HubFolder { address: found.text(), files }).filter(|folder| !folder.files.is_empty()))
}

/// Reads a small file of a folder of the Hub.
///
/// # Errors
///
/// Fails as [`files_on_hub`] does.
#[cfg(feature = "parquet")]
pub(in crate::source) fn text_on_hub(folder: &HubFolder, path: &str) -> Result<Vec<u8>, Error> {
    let address = address(&format!("{}/{path}", folder.address))?;
    let (StoreAt::Hub { base }, path) = address.store() else { return Ok(vec![]) };
    let path: Vec<_> = path.split('/').map(encoded).collect();
    let url = format!("{base}/{}", path.join("/"));
    let (text, _) = address.get(&address.client()?, url, limits()?)?;
    Ok(text)
}

/// The limits of this process.
fn limits() -> Result<FetchLimits, Error> {
    let options = options::current();
    options.map(|options| options.limits).map_err(|error| Error::boxed(error, ErrorKind::Parameter))
}

fn address(url: &str) -> io::Result<HubAddress> {
    let invalid = |reason| io::Error::new(io::ErrorKind::InvalidInput, reason);
    HubAddress::parse(url).map_err(invalid)
}

/// Sends one request.
async fn ask(
    client: &HttpClient,
    url: &str,
    store: &StoreAt,
    tries: &Tries<'_>,
) -> Result<(Vec<u8>, Option<String>), Cause> {
    let invalid = |what: &str| Cause::lasting(io::ErrorKind::InvalidData, what);
    let mut request = HttpRequest::new(HttpRequestBody::empty());
    *request.uri_mut() = url.parse().map_err(|_| invalid("the address is invalid"))?;
    let of = |error: object_store::client::HttpError| {
        Cause::of(&object_store::Error::Generic { store: "Hub", source: Box::new(error) }, store)
    };
    let answer = tries.pace.wait(0, client.execute(request)).await?.map_err(of)?;
    if !answer.status().is_success() {
        return Err(Cause::status(answer.status().as_u16(), store));
    }
    let link = answer.headers().get("link").and_then(|link| link.to_str().ok()).map(str::to_owned);
    let (mut bytes, mut body) = (vec![], answer.into_body().bytes_stream());
    loop {
        let next = poll_fn(|context| Pin::as_mut(&mut body).poll_next(context));
        match tries.pace.wait(bytes.len(), next).await? {
            None => return Ok((bytes, link)),
            Some(part) => bytes.extend_from_slice(&part.map_err(of)?),
        }
        if bytes.len() > MOST_BYTES {
            return Err(invalid(&format!("the answer has more than {MOST_BYTES} bytes")));
        }
    }
}

/// Returns the client for a store of the Hub.
fn client(store: &StoreAt) -> Result<HttpClient, Cause> {
    let failed = |error: crate::source::BoxError| {
        Cause::lasting(io::ErrorKind::InvalidInput, format!("invalid settings: {error}"))
    };
    client::of_hub(token(store)?.as_ref(), &ClientOptions::new().with_allow_http(true))
        .map_err(failed)
}

/// Returns the endpoint, without a slash at its end. It is that of `HF_ENDPOINT` unless this is blank.
pub(super) fn endpoint() -> String {
    let set = env::var("HF_ENDPOINT").ok().filter(|set| !set.trim().is_empty());
    set.map_or("https://huggingface.co".to_owned(), |set| {
        set.trim().trim_end_matches('/').to_owned()
    })
}

/// Returns the page of a dataset, where its terms are.
pub(super) fn page_of(base: &str) -> &str {
    base.split_once("/resolve/").map_or(base, |(page, _)| page)
}

/// Returns the token to send to a store of the Hub; `None` if there is none.
///
/// # Errors
///
/// Fails if it would be sent unencrypted, or can't be sent.
pub(super) fn token(store: &StoreAt) -> Result<Option<Token>, Cause> {
    let StoreAt::Hub { base } = store else { return Ok(None) };
    let Some(Token(token)) = token_of_environment() else { return Ok(None) };
    let refused = |text: String| Cause::lasting(io::ErrorKind::PermissionDenied, text);
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let text = "the token of the Hub has spaces or characters that are not ASCII: run `hf auth login` again";
        return Err(refused(text.to_owned()));
    }
    let url = Url::parse(base).ok();
    let is_here = url.as_ref().and_then(Url::host_str).is_some_and(|host| {
        host == "localhost"
            || host == "[::1]"
            || host.starts_with("127.") && host.parse::<std::net::Ipv4Addr>().is_ok()
    });
    if url.is_none_or(|url| url.scheme() != "https") && !is_here {
        return Err(refused(
            "HF_ENDPOINT is not https://, so the token would be sent unencrypted: use https://, or set \
             HF_HUB_DISABLE_IMPLICIT_TOKEN=1 to send none"
                .to_owned(),
        ));
    }
    Ok(Some(Token(token)))
}

/// Returns the token that the environment names, as the Hub's own client looks for it.
fn token_of_environment() -> Option<Token> {
    let variable = |name: &str| {
        env::var(name).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let is_off = variable("HF_HUB_DISABLE_IMPLICIT_TOKEN")
        .is_some_and(|text| ["1", "on", "yes", "true"].contains(&&*text.to_ascii_lowercase()));
    if is_off {
        return None;
    }
    let set = variable("HF_TOKEN").or_else(|| variable("HUGGING_FACE_HUB_TOKEN"));
    let in_file = || {
        let home = || variable("HOME").or_else(|| variable("USERPROFILE")).map(PathBuf::from);
        let path = |text: String| match (text.strip_prefix("~/"), home()) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(text),
        };
        let cache =
            || variable("XDG_CACHE_HOME").map(path).or_else(|| Some(home()?.join(".cache")));
        let folder =
            || variable("HF_HOME").map(path).or_else(|| Some(cache()?.join("huggingface")));
        let file = variable("HF_TOKEN_PATH").map(path).or_else(|| Some(folder()?.join("token")))?;
        let found = file_pool::regular(&file).ok().filter(|found| found.len() <= MOST_PATH as u64);
        let text = found.and_then(|_| std::fs::read_to_string(&file).ok())?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    set.or_else(in_file).map(Token)
}

/// Returns a part of a path as an address has it: all but letters, digits and `-._~` percent-encoded.
fn encoded(part: &str) -> String {
    let of = |byte: u8| match byte {
        b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    part.bytes().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_dataset_a_revision_and_a_path() {
        for (url, repo, revision, path) in [
            ("hf://datasets/o/n", "o/n", "main", ""),
            ("hf://datasets/o/n/", "o/n", "main", ""),
            ("hf://datasets/o/n.x@v1.0/a/b c*.parquet", "o/n.x", "v1.0", "a/b c*.parquet"),
            ("hf://datasets/o/n@refs/convert/parquet/a", "o/n", "refs/convert/parquet", "a"),
            ("hf://datasets/o/n@refs/pr/7", "o/n", "refs/pr/7", ""),
            ("hf://datasets/o/n@a%2Fb/c@d", "o/n", "a/b", "c@d"),
        ] {
            let found = HubAddress::parse(url).unwrap();
            assert_eq!(
                (&*found.repo, &*found.revision, &*found.path),
                (repo, revision, path),
                "{url}"
            );
            assert_eq!(HubAddress::parse(&found.text()).unwrap(), found, "{url}");
        }
        for url in [
            "hf://datasets/o",
            "hf://datasets//n",
            "hf://datasets/../n",
            "hf://datasets/o/..@main",
            "hf://datasets/o/n@",
            "hf://datasets/o/n@a%2F..",
            "hf://datasets/o/n/a//b",
            "hf://datasets/o/n/../b",
            "hf://datasets/o/n?x/b",
            "hf://models/o/n",
            "hf://o/n",
        ] {
            let refused = HubAddress::parse(url).unwrap_err();
            assert!(refused.starts_with(url), "{refused}");
        }
    }

    #[test]
    fn a_token_is_not_shown() {
        assert_eq!(format!("{:?}", Token("secret".to_owned())), "Token(..)");
        let connector = super::client::HubConnector(Some(Token("secret".to_owned())));
        assert!(!format!("{connector:?}").contains("secret"));
        let options = ClientOptions::new();
        let client = client::of_hub(Some(&Token("secret".to_owned())), &options).unwrap();
        assert!(!format!("{client:?}").contains("secret"), "{client:?}");
    }
}
