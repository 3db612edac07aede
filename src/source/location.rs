//! Locations of files: paths and addresses, and the short forms that name many files at once.
//!
//! | written                         | means                                                      |
//! |---------------------------------|------------------------------------------------------------|
//! | `train-{000..255}.tar`          | 256 names, as wide as the wider of the two numbers if one begins with a 0 |
//! | `{train,val}.tar`               | `train.tar`, `val.tar`; braces may stand side by side       |
//! | `a.tar::b.tar`                  | both lists, one after the other: WebDataset's own sign      |
//! | `shards/*.tar`, `**/x-?.tar`    | the files there are, sorted by the bytes of their paths     |
//! | `s3://`, `gs://`, `http(s)://`  | an address; braces are expanded                             |
//! | `s3://bucket/shards/*.tar`      | the objects there are, of `gs://` too; a web server has no list |
//! | `hf://datasets/org/name/*.tar`  | the files of a dataset of the Hugging Face Hub, in the commit of now |
//! | `file:///data/x.tar`            | a path; `%20` is a space unless a file has it in its name   |
//!
//! No program is run: `pipe:` is refused. A text that is the name of an existing file means that file,
//! whatever special characters it contains.

use super::file_format::FileFormat;
use super::{Escaped, remote};
use crate::error::{Error, ErrorKind, fail};
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The location of one file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Location {
    /// A local file.
    Path(PathBuf),
    /// A remote object: `s3://`, `gs://`, `hf://`, `http://` or `https://`.
    Url(String),
}

/// The most files that one text may name.
const MOST: usize = 1 << 20;

impl Location {
    /// Returns the files that a text names; the table at the top of `source/location.rs` lists the
    /// forms. A file that is named twice is returned twice. Only patterns are looked up.
    ///
    /// # Errors
    ///
    /// If the text is not valid, or names no file.
    pub(crate) fn parse(spec: &str) -> Result<Vec<Self>, Error> {
        if Path::new(spec).is_file() {
            return Ok(vec![Self::Path(spec.into())]);
        }
        let mut found = vec![];
        for part in parts(spec) {
            for name in expand(part)? {
                found.extend(of_name(&name)?);
                if found.len() > MOST {
                    return Err(fail!(Parameter, "more than {MOST} files").at(spec));
                }
            }
        }
        if found.is_empty() {
            return Err(fail!(NotFound, "no file matches").at(spec));
        }
        Ok(found)
    }

    /// Returns the path, or the address without its query. Nothing is escaped.
    #[cfg(any(feature = "tar", feature = "tfrecord"))]
    pub(super) fn text(&self) -> String {
        match self {
            Self::Path(path) => path.to_string_lossy().into_owned(),
            Self::Url(url) => without_query(url).to_owned(),
        }
    }

    /// Returns whether this is an address with a query, which may hold a signature.
    pub(crate) fn has_query(&self) -> bool {
        matches!(self, Self::Url(url) if without_query(url) != url)
    }

    /// Returns the last component of the path or the address, which tells the format of the file.
    #[must_use]
    pub(crate) fn file_name(&self) -> &str {
        match self {
            Self::Path(path) => path.file_name().and_then(|name| name.to_str()).unwrap_or(""),
            Self::Url(url) => {
                let url = without_query(url);
                url.rsplit('/').next().unwrap_or(url)
            }
        }
    }
}

/// A path, or an address without its query.
impl AsRef<Path> for Location {
    fn as_ref(&self) -> &Path {
        match self {
            Self::Path(path) => path,
            Self::Url(url) => Path::new(without_query(url)),
        }
    }
}

/// Control characters are escaped, because names come from outside. An address is shown without its
/// query, which may hold a signature.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => Escaped(&path.to_string_lossy()).fmt(f),
            Self::Url(url) => Escaped(without_query(url)).fmt(f),
        }
    }
}

/// Returns an address without its query; keys of `s3://` and `gs://` have none.
fn without_query(url: &str) -> &str {
    if is_web(url) { url.split(['?', '#']).next().unwrap_or(url) } else { url }
}

fn is_web(url: &str) -> bool {
    url.starts_with("http://") || url.starts_with("https://")
}

/// Returns the parts of a list, which are separated by `::`; that of an IPv6 address separates nothing.
pub(super) fn parts(spec: &str) -> impl DoubleEndedIterator<Item = &str> {
    let (mut found, mut start, mut at) = (vec![], 0, 0);
    while let Some(next) = spec[at..].find("::").map(|next| at + next) {
        let before = &spec[start..next];
        let in_host = before.rsplit_once("://[").filter(|(_, host)| !host.contains([']', '/']));
        at = next + 2;
        if in_host.is_none() {
            found.push(before);
            start = at;
        }
    }
    found.push(&spec[start..]);
    found.into_iter().filter(|part| !part.is_empty())
}

/// Returns whether a name stands for several files, if no file is called so.
pub(super) fn is_several(name: &str) -> bool {
    parts(name).count() > 1 || parts(name).any(|part| part.contains('{') || is_pattern(part))
}

/// Returns whether this is the name of a dataset of the Hugging Face Hub, or of a folder in one: no file, by its ending.
pub(super) fn is_folder_of_hub(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("hf://datasets/") else { return false };
    let (_, path) =
        rest.split_once('/').and_then(|(_, rest)| rest.split_once('/')).unwrap_or_default();
    let last = path.rsplit('/').next().unwrap_or(path);
    path.is_empty()
        || FileFormat::ending(last).is_none() && FileFormat::of_name(last) == FileFormat::Beton
}

/// Returns whether a name stands for the files that match it, if no file is called so.
pub(super) fn is_pattern(name: &str) -> bool {
    match name.split_once("://") {
        None => name.contains(['*', '?', '[']),
        Some(("s3" | "gs" | "hf", rest)) => {
            rest.split_once('/').is_some_and(|(_, key)| key.contains(['*', '?', '[']))
        }
        // `?` begins a query, and `[` an IPv6 address.
        Some(("http" | "https", _)) => without_query(name).contains('*'),
        Some(_) => false,
    }
}

/// Returns the path of a `file://` address.
fn of_file_url(name: &str, rest: &str) -> Result<PathBuf, Error> {
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    if !rest.starts_with('/') {
        return Err(fail!(Parameter, "expected three slashes, as in file:///data/x.tar").at(name));
    }
    // On Windows, a drive follows the third slash: file:///C:/data/x.tar.
    let drive = rest.strip_prefix('/').filter(|path| path.as_bytes().get(1) == Some(&b':'));
    let rest = drive.filter(|_| cfg!(windows)).unwrap_or(rest);
    let path = PathBuf::from(rest);
    if !rest.contains('%') || path.exists() {
        return Ok(path);
    }
    Ok(percent_decoded(rest).map_or(path, PathBuf::from))
}

/// Returns the text that was percent-encoded; `None` if it is not, or is no UTF-8.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = vec![];
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, tail) = rest.split_first_chunk::<2>()?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push(u8::try_from(digit(digits[0])? * 16 + digit(digits[1])?).ok()?);
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}

/// Returns the path that a name means if it is a `file://` address; `None` for any other name.
///
/// # Errors
///
/// Fails if the address names no path of this machine.
pub(super) fn path_of_url(name: &Path) -> Result<Option<PathBuf>, Error> {
    let text = name.to_str().filter(|text| text.starts_with("file://") && parts(text).count() == 1);
    text.map(|text| of_file_url(text, &text["file://".len()..])).transpose()
}

/// Returns the files of one name without braces.
fn of_name(name: &str) -> Result<Vec<Location>, Error> {
    let spec = || name.to_owned();
    if name.starts_with("pipe:") {
        return Err(
            fail!(Unsupported, "programs are not run: write their output to a file first").at(name)
        );
    }
    match name.split_once("://") {
        Some(("file", rest)) => {
            let path = of_file_url(name, rest)?;
            match path.to_str().filter(|text| is_pattern(text) && !path.is_file()) {
                Some(pattern) => globbed(pattern),
                None => Ok(vec![Location::Path(path)]),
            }
        }
        Some(("s3" | "gs", _)) if is_pattern(name) => listed(name),
        Some(("hf", _)) => {
            let found = remote::files_on_hub(name)?;
            match found.is_empty() {
                true => Err(fail!(NotFound, "no file matches").at(name)),
                false => Ok(found.into_iter().map(Location::Url).collect()),
            }
        }
        Some(("http" | "https", _)) if is_pattern(name) => {
            Err(fail!(
                Unsupported,
                "a web server has no list of its files, so `*` finds none: name them by braces, as in x-{{000..127}}.tar (a `*` in a name is written %2A)"
            )
            .at(without_query(name)))
        }
        Some(("s3" | "gs" | "http" | "https", _)) => Ok(vec![Location::Url(spec())]),
        Some((scheme, _)) if scheme.bytes().all(|b| b.is_ascii_alphanumeric()) => {
            Err(fail!(
                Unsupported,
                "{scheme}:// is not supported; available: s3, gs, hf, http, https and file"
            )
            .at(name))
        }
        _ if !is_pattern(name) || Path::new(name).is_file() => {
            Ok(vec![Location::Path(name.into())])
        }
        _ => globbed(name),
    }
}

/// Returns the objects of a bucket that match a pattern.
fn listed(pattern: &str) -> Result<Vec<Location>, Error> {
    let found = remote::matching(pattern).map_err(|error| match error.downcast::<io::Error>() {
        Ok(error) => Error::from(*error),
        Err(error) => Error::boxed(error, ErrorKind::Io),
    })?;
    if found.is_empty() {
        return Err(fail!(NotFound, "no file matches").at(pattern));
    }
    Ok(found.into_iter().map(Location::Url).collect())
}

fn globbed(pattern: &str) -> Result<Vec<Location>, Error> {
    let bad = |reason: String| fail!(Parameter, "{reason}").at(pattern);
    let options = glob::MatchOptions {
        require_literal_leading_dot: true,
        require_literal_separator: true,
        ..glob::MatchOptions::new()
    };
    let found = glob::glob_with(pattern, options).map_err(|error| bad(error.to_string()))?;
    let (mut paths, mut known) = (vec![], KnownDirs::new());
    let look = |dir: &Path| is_loop(dir).then_some(true);
    for path in found {
        let path = path.map_err(|error| bad(error.to_string()))?;
        if path.is_file() && !is_below(&path, &mut known, &look) {
            paths.push(path);
        }
        if paths.len() > MOST {
            return Err(fail!(Parameter, "more than {MOST} files").at(pattern));
        }
    }
    paths.sort_unstable_by(|a, b| {
        a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes())
    });
    if paths.is_empty() {
        return Err(fail!(NotFound, "no file matches").at(pattern));
    }
    Ok(paths.into_iter().map(Location::Path).collect())
}

/// The directories of paths that were looked at, and the answers for what is in them.
pub(super) type KnownDirs = HashMap<PathBuf, bool>;

/// Returns the answer of `look` for the nearest directory of a path that it has one for; false if it has none.
pub(super) fn is_below(
    path: &Path,
    known: &mut KnownDirs,
    look: &impl Fn(&Path) -> Option<bool>,
) -> bool {
    let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) else { return false };
    if let Some(&known) = known.get(dir) {
        return known;
    }
    let found = look(dir).unwrap_or_else(|| is_below(dir, known, look));
    known.insert(dir.to_owned(), found);
    found
}

/// Returns whether a directory is a link to one that it is in, so that its files have shorter paths, too.
fn is_loop(dir: &Path) -> bool {
    let leads_up = || {
        let above = dir.parent().filter(|above| !above.as_os_str().is_empty());
        let above = fs::canonicalize(above.unwrap_or(Path::new("."))).ok()?;
        Some(above.starts_with(fs::canonicalize(dir).ok()?))
    };
    dir.is_symlink() && leads_up() == Some(true)
}

/// Expands the braces of a text; the last ones vary fastest.
fn expand(text: &str) -> Result<Vec<String>, Error> {
    let bad = |reason| fail!(Parameter, "{reason}").at(text);
    let mut names = vec![String::new()];
    let mut rest = text;
    while let Some((before, tail)) = rest.split_once('{') {
        let (inside, after) = tail.split_once('}').ok_or_else(|| bad("a { without its }"))?;
        let choices = choices(inside).map_err(bad)?;
        if names.len().saturating_mul(choices.len()) > MOST {
            return Err(fail!(Parameter, "more than {MOST} files").at(text));
        }
        let all = names
            .iter()
            .flat_map(|name| choices.iter().map(move |choice| format!("{name}{before}{choice}")));
        names = all.collect();
        rest = after;
    }
    names.iter_mut().for_each(|name| name.push_str(rest));
    Ok(names)
}

/// Returns the choices between two braces.
fn choices(inside: &str) -> Result<Vec<String>, &'static str> {
    if inside.contains('{') {
        return Err("braces inside braces");
    }
    let Some((first, last)) = inside.split_once("..") else {
        return Ok(inside.split(',').map(str::to_owned).collect());
    };
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| text.parse::<u64>().ok()).flatten().ok_or("a range needs two numbers")
    };
    let (from, to) = (number(first)?, number(last)?);
    if from > to {
        return Err("a range that runs backwards");
    }
    if to - from >= MOST as u64 {
        return Err("a range of more than a million");
    }
    let is_padded = [first, last].iter().any(|text| text.len() > 1 && text.starts_with('0'));
    let width = if is_padded { first.len().max(last.len()) } else { 0 };
    Ok((from..=to).map(|number| format!("{number:0width$}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn names(spec: &str) -> Vec<String> {
        Location::parse(spec).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn braces_and_lists_are_written_out() {
        assert_eq!(names("a-{8..11}.tar"), ["a-8.tar", "a-9.tar", "a-10.tar", "a-11.tar"]);
        assert_eq!(names("a-{08..10}"), ["a-08", "a-09", "a-10"]);
        assert_eq!(names("a-{000..002}")[1], "a-001");
        assert_eq!(names("{x,y}{0..1}"), ["x0", "x1", "y0", "y1"]);
        assert_eq!(names("a.tar::b.tar"), ["a.tar", "b.tar"]);
        assert_eq!(names("s3://b/{0..1}.tar::file:///c"), ["s3://b/0.tar", "s3://b/1.tar", "/c"]);
    }

    #[test]
    fn what_names_nothing_is_refused() {
        let message = |spec: &str| Location::parse(spec).unwrap_err().to_string();
        assert_eq!(
            message("pipe:cat x"),
            "pipe:cat x: programs are not run: write their output to a file first"
        );
        assert_eq!(
            message("ftp://x"),
            "ftp://x: ftp:// is not supported; available: s3, gs, hf, http, https and file"
        );
        assert_eq!(message("a-{1..x}"), "a-{1..x}: a range needs two numbers");
        assert_eq!(message("a-{3..1}"), "a-{3..1}: a range that runs backwards");
        assert_eq!(message("a-{1"), "a-{1: a { without its }");
        assert_eq!(
            message("{0..999}{0..999}{0..9}"),
            "{0..999}{0..999}{0..9}: more than 1048576 files"
        );
        assert_eq!(message("nowhere/*.tar"), "nowhere/*.tar: no file matches");
        assert_eq!(message(""), ": no file matches");
    }

    #[test]
    fn an_address_of_a_file_is_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().to_str().unwrap();
        fs::write(dir.path().join("a b.tar"), []).unwrap();
        fs::write(dir.path().join("c%20d.tar"), []).unwrap();
        assert_eq!(names(&format!("file://{root}/a%20b.tar")), [format!("{root}/a b.tar")]);
        assert_eq!(names(&format!("file://localhost{root}/a b.tar")), [format!("{root}/a b.tar")]);
        assert_eq!(names(&format!("file://{root}/c%20d.tar")), [format!("{root}/c%20d.tar")]);
        assert_eq!(names(&format!("file://{root}/*.tar")).len(), 2);
        assert_eq!(
            Location::parse("file://data/x.tar").unwrap_err().to_string(),
            "file://data/x.tar: expected three slashes, as in file:///data/x.tar"
        );
    }

    #[test]
    fn the_colons_of_a_host_separate_nothing() {
        let list = "http://[::1]:9000/a.tar::http://[fe80::1%25eth0]/b.tar::c.tar";
        let want = ["http://[::1]:9000/a.tar", "http://[fe80::1%25eth0]/b.tar", "c.tar"];
        assert_eq!(names(list), want);
        assert_eq!(parts("::a::::b::").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(parts("x[a::b]").collect::<Vec<_>>(), ["x[a", "b]"]);
    }

    #[test]
    fn a_key_of_a_bucket_has_no_query() {
        let key = Location::Url("s3://b/what?#.tar".into());
        assert_eq!((key.file_name(), &*key.to_string()), ("what?#.tar", "s3://b/what?#.tar"));
        assert!(is_pattern("s3://b/x-*.tar") && is_pattern("gs://b/[ab].tar"));
        assert!(!is_pattern("s3://b*/x.tar") && !is_pattern("http://[::1]/x.tar?sig=*"));
    }

    #[test]
    fn a_pattern_finds_files_in_the_order_of_their_bytes() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.tar", "a.tar", "B.tar", ".c.tar", "x.txt"] {
            fs::write(dir.path().join(name), []).unwrap();
        }
        fs::create_dir(dir.path().join("d.tar")).unwrap();
        let found = Location::parse(dir.path().join("*.tar").to_str().unwrap()).unwrap();
        assert_eq!(
            found.iter().map(Location::file_name).collect::<Vec<_>>(),
            ["B.tar", "a.tar", "b.tar"]
        );
        fs::write(dir.path().join("{0..9}.tar"), []).unwrap();
        assert_eq!(names(dir.path().join("{0..9}.tar").to_str().unwrap()).len(), 1);
    }

    #[test]
    fn an_address_has_a_file_name() {
        let signed = Location::Url("https://h/a/x.tar?sig=1/2".into());
        assert_eq!((signed.file_name(), &*signed.to_string()), ("x.tar", "https://h/a/x.tar"));
    }
}
