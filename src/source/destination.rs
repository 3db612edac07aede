//! Paths that are written to: every file and folder that this crate creates is local.
//!
//! | destination                          |                                                        |
//! |--------------------------------------|--------------------------------------------------------|
//! | a path                               | is written                                             |
//! | `s3://bucket/x`, or any `scheme://`  | is refused: write locally, then upload                 |
//! | `s3:/bucket/x`                       | the same: Python's `Path` and [`Path::components`] make this of `s3://bucket/x` |
//! | `file:///data/x`                     | is refused: give the path                              |
//! | `./s3:/bucket/x`                     | is written: a folder that really has this name         |
//!
//! Without this check such a name would be a folder called `s3:` in the working directory.

use super::Escaped;
use crate::error::{Cause, Details, ErrorKind};
use std::io;
use std::path::{Path, PathBuf};

/// A destination is an address, not a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: only local files and folders are written: {cure}", Escaped(address))]
pub struct DestinationError {
    path: PathBuf,
    /// The address without its query, which may hold a signature.
    address: String,
    cure: String,
}

impl Cause for DestinationError {
    fn details(&self) -> Details<'_> {
        Details::of(ErrorKind::Parameter).path(&self.path)
    }
}

impl From<DestinationError> for io::Error {
    fn from(error: DestinationError) -> Self {
        Self::new(io::ErrorKind::Unsupported, error)
    }
}

/// Refuses a destination that is an address. Every function that writes calls this before it does anything else.
///
/// # Errors
///
/// If the destination begins with a scheme, such as `s3://`.
pub fn check_destination(path: &Path) -> Result<(), DestinationError> {
    let text = path.to_string_lossy();
    let Some((scheme, rest)) = split_scheme(&text) else { return Ok(()) };
    let upload = |command: &str| format!("write to a local path, then upload the result{command}");
    let cure = match scheme.to_ascii_lowercase().as_str() {
        "file" => {
            let path = rest.trim_start_matches('/');
            let path = path.strip_prefix("localhost/").unwrap_or(path);
            format!("give the path itself, /{}", Escaped(path))
        }
        "s3" => upload(", for example with `aws s3 cp`"),
        "gs" => upload(", for example with `gcloud storage cp`"),
        "hf" => upload(", for example with `hf upload`"),
        _ => upload(""),
    };
    let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let address = if is_web { text.split(['?', '#']).next() } else { None };
    let address = address.unwrap_or(&text).to_owned();
    Err(DestinationError { path: path.to_owned(), address, cure })
}

/// Splits an address into its scheme and what follows `:/`. A scheme has at least two characters: `C:/` is a drive.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(":/")?;
    let is_scheme = scheme.len() > 1
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    is_scheme.then_some((scheme, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(path: &str) -> String {
        check_destination(Path::new(path)).err().map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn an_address_is_refused_with_the_cure() {
        assert_eq!(
            refusal("s3://bucket/train.beton"),
            "s3://bucket/train.beton: only local files and folders are written: write to a local path, then upload the \
             result, for example with `aws s3 cp`"
        );
        let cases = ["gs://b/x", "https://h/x", "S3://b", "hdfs://n/x", "az://c/x", "a+b.c-1://x"];
        for address in cases.iter().chain(&["s3:/bucket/x", "memory://"]) {
            assert!(refusal(address).contains("then upload"), "{address}");
        }
        assert!(!refusal("https://host/x.tar?X-Signature=secret").contains("secret"));
    }

    #[test]
    fn the_address_of_a_file_names_its_path() {
        for address in
            ["file:///data/x.beton", "file://localhost/data/x.beton", "file:/data/x.beton"]
        {
            assert!(refusal(address).ends_with("give the path itself, /data/x.beton"), "{address}");
        }
    }

    #[test]
    fn any_path_is_written() {
        let paths = [
            "x.beton",
            "/data/s3/x",
            "./s3:/x",
            "C:/data/x",
            "a:b",
            "1s3://x",
            "",
            ":/x",
            "a/b://c",
        ];
        for path in paths {
            assert_eq!(refusal(path), "", "{path}");
        }
    }
}
