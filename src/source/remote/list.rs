//! The objects of a bucket whose keys match a pattern: `s3://bucket/train-*.tar`.
//!
//! ```text
//! s3://bucket/a/train-*.tar   asks for the keys that begin with  a/train-  in the folder a/
//! s3://bucket/a/*/x.tar       asks for all keys that begin with  a/
//! ```
//!
//! The characters `*`, `?`, `[..]` and `**` mean what they mean in the names of local files. The list comes
//! in pages of a thousand keys, each within the time limit for opening an object. At most
//! [`MOST_SEEN`] keys are looked at, so that a pattern that begins too early is an error and not a list
//! without end. An object whose key is the text of the pattern is meant by it, as with files.

use super::address::{Address, StoreAt};
use super::cause::Cause;
use super::fetch::{FetchError, FetchLimits, Tries};
use super::path_pattern::PathPattern;
use super::{options, runtime, stores};
use crate::source::BoxError;
use object_store::list::PaginatedListOptions;
use std::io;

/// The most keys that are looked at for one pattern.
const MOST_SEEN: usize = 1 << 20;

/// Returns the addresses of the objects that match a pattern, in the order of their bytes.
///
/// # Errors
///
/// If the pattern or its bucket is invalid, the list is refused or too long, or no server answers.
pub(in crate::source) fn matching(pattern: &str) -> Result<Vec<String>, BoxError> {
    matching_with(pattern, options::current()?.limits, MOST_SEEN)
}

pub(super) fn matching_with(
    pattern: &str,
    patience: FetchLimits,
    most_seen: usize,
) -> Result<Vec<String>, BoxError> {
    let address = Address::parse(pattern)?;
    let wanted = Wanted::of(&address).map_err(|reason| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("{address}: {reason}"))
    })?;
    let bucket = match &address.store {
        StoreAt::S3 { bucket } => format!("s3://{bucket}/"),
        StoreAt::Google { bucket } => format!("gs://{bucket}/"),
        StoreAt::Http { .. } | StoreAt::Hub { .. } => {
            return Err(format!("{address}: a web server has no list").into());
        }
    };
    let keys = runtime::wait(wanted.keys(address, patience, most_seen))?;
    let mut keys = keys.map_err(io::Error::from)?;
    keys.sort_unstable();
    keys.dedup();
    Ok(keys.into_iter().map(|key| bucket.clone() + &key).collect())
}

/// What is asked for, and which keys of the answer are taken.
struct Wanted {
    text: String,
    pattern: PathPattern,
    prefix: String,
    /// True if no key in a folder below that of the prefix can match.
    in_one_folder: bool,
}

impl Wanted {
    fn of(address: &Address) -> Result<Self, String> {
        let text = address.path.as_ref();
        let pattern = PathPattern::parse(text)?.needs_dots();
        let special = text.find(['*', '?', '[']).unwrap_or(text.len());
        let (prefix, rest) = text.split_at(special);
        let in_one_folder = !rest.contains('/') && !rest.contains("**");
        Ok(Self { text: text.to_owned(), pattern, prefix: prefix.to_owned(), in_one_folder })
    }

    async fn keys(
        self,
        address: Address,
        patience: FetchLimits,
        most_seen: usize,
    ) -> Result<Vec<String>, FetchError> {
        let failed = |cause: Cause| FetchError::of(&address, &cause, "");
        let store = stores::store(&address.store).map_err(failed)?;
        let unlisted = || Cause::lasting(io::ErrorKind::Unsupported, "a web server has no list");
        let lister = store.lister().ok_or_else(unlisted).map_err(failed)?;
        let (mut keys, mut seen, mut next) = (vec![], 0, None::<String>);
        loop {
            let mut tries = Tries::begin(&address, &address.store, patience);
            let page = loop {
                let options = PaginatedListOptions {
                    delimiter: self.in_one_folder.then(|| "/".into()),
                    page_token: next.clone(),
                    ..PaginatedListOptions::default()
                };
                let prefix = Some(&*self.prefix).filter(|prefix| !prefix.is_empty());
                let slot = tries.slot().await;
                let page = tries.pace.wait(0, lister.list_paginated(prefix, options)).await;
                drop(slot);
                let page = page.and_then(|page| {
                    page.map_err(|error| Cause::of(&error, &address.store).of_list())
                });
                match page {
                    Ok(page) => break page,
                    Err(cause) => tries.failed(cause).await?,
                }
            };
            // A page may hold nothing but folders, and a hostile server may send pages without end.
            seen += (page.result.objects.len() + page.result.common_prefixes.len()).max(1000);
            for object in page.result.objects {
                let key = String::from(object.location);
                if key == self.text {
                    return Ok(vec![key]);
                }
                if self.pattern.matches(&key) {
                    keys.push(key);
                }
            }
            match page.page_token {
                None => return Ok(keys),
                Some(_) if seen >= most_seen => {
                    let prefix = &self.prefix;
                    return Err(failed(Cause::lasting(
                        io::ErrorKind::InvalidInput,
                        format!(
                            "more than {most_seen} names begin with {prefix:?}: write more of the name before the first *, or name the files by braces, as in x-{{000..127}}.tar"
                        ),
                    )));
                }
                token => next = token,
            }
        }
    }
}
