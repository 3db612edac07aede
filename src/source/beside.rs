//! Small JSON files beside a dataset, for what its format can't store.
//!
//! | dataset                 | its file, with the suffix `.classes.json`                    |
//! |-------------------------|--------------------------------------------------------------|
//! | `x.beton`, `x.tar`      | `x.beton.classes.json`                                       |
//! | shards `x-{000}.tar`    | `x-{000}.tar.classes.json`: the braces are in the name       |
//! | remote                  | the same, unless the address has a query: a signature holds for one object |
//!
//! A file that does not begin like one of ours belongs to another program and is ignored.

use super::{Location, file_pool, remote};
use crate::error::{Error, ErrorKind};
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The most runs of digits in a shard's name that are tried as its number.
const MOST_RUNS: usize = 4;

/// The most templates of remote shards that are asked for, by a request each.
const MOST_ASKED: usize = 6;

/// The most datasets among remote shards whose files are asked for.
const MOST_DATASETS: usize = 4;

/// A kind of files.
pub(super) struct BesideFile {
    /// The end of the file's name, after the name of the dataset.
    pub(super) suffix: &'static str,
    /// The bytes that every such file begins with.
    pub(super) begin: &'static str,
    pub(super) most_bytes: u64,
    /// The content of the file, for errors.
    pub(super) content: &'static str,
}

impl BesideFile {
    /// Reads and parses a file; `None` if there is none of ours at this path.
    ///
    /// # Errors
    ///
    /// Fails if the file can't be read or is damaged.
    pub(super) fn read<T>(
        &self,
        path: &Path,
        parse: impl Fn(&[u8]) -> Result<T, String>,
    ) -> Result<Option<T>, Error> {
        let invalid = |reason| io::Error::new(io::ErrorKind::InvalidData, reason);
        let parsed = self.text(path).and_then(|text| match text {
            None => Ok(None),
            Some(text) => parse(&text).map(Some).map_err(invalid),
        });
        parsed.map_err(|error| self.failed(path, error))
    }

    /// Reads and parses the file beside a local or remote file; `None` if there is none of ours.
    ///
    /// # Errors
    ///
    /// Fails if the file can't be read or is damaged.
    pub(super) fn read_beside<T>(
        &self,
        dataset: &Location,
        parse: impl Fn(&[u8]) -> Result<T, String>,
    ) -> Result<Option<T>, Error> {
        let url = match dataset {
            Location::Path(path) => {
                let found = self.read(&self.path(path), &parse)?;
                let is_link = || fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
                if found.is_some() || !is_link() {
                    return Ok(found);
                }
                // A writer that follows a link writes beside the file that it leads to.
                return match fs::canonicalize(path) {
                    Ok(real) => self.read(&self.path(&real), parse),
                    Err(_) => Ok(None),
                };
            }
            Location::Url(_) if dataset.has_query() => return Ok(None),
            Location::Url(url) => format!("{url}{}", self.suffix),
        };
        let path = PathBuf::from(Location::Url(url.clone()).to_string());
        let found = remote::small(&url, self.begin.len() as u64 + self.most_bytes);
        let found = found.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => self.failed(&path, error),
            _ => {
                // The message of a request names the address.
                let text = format!("{error} (it may have {} of the dataset)", self.content);
                Error::from(error).reworded(text).named_path(&path)
            }
        })?;
        let ours = found.filter(|text| text.starts_with(self.begin.as_bytes()));
        let invalid = |reason| io::Error::new(io::ErrorKind::InvalidData, reason);
        let parsed =
            ours.map(|text| parse(&text).map_err(|reason| self.failed(&path, invalid(reason))));
        parsed.transpose()
    }

    fn failed(&self, path: &Path, error: io::Error) -> Error {
        let text = format!("{error}; repair it, or delete it to use no {}", self.content);
        let error = match error.kind() {
            io::ErrorKind::InvalidData => Error::boxed(error.into(), ErrorKind::Format),
            _ => error.into(),
        };
        error.reworded(text).at(path)
    }

    /// Returns the path of a dataset's file. The path of shards is their template, with a number in
    /// braces: `x-{000}.tar`.
    pub(super) fn path(&self, dataset: &Path) -> PathBuf {
        let mut name = dataset.as_os_str().to_owned();
        name.push(self.suffix);
        name.into()
    }

    /// Reads the file that is stored beside shards, all of which must have the same template. Of remote
    /// shards, the first [`MOST_ASKED`] templates are asked for.
    ///
    /// # Errors
    ///
    /// Fails as [`read`](Self::read) does.
    #[cfg_attr(
        not(any(feature = "tar", feature = "tfrecord")),
        allow(dead_code, reason = "no format that this build reads has shards")
    )]
    pub(super) fn of_shards<'a, T>(
        &self,
        mut shards: impl Iterator<Item = &'a Location>,
        parse: impl Fn(&[u8]) -> Result<T, String>,
    ) -> Result<Option<T>, Error> {
        let Some(first) = shards.next() else { return Ok(None) };
        let mut templates = templates_of(first);
        for other in shards {
            if templates.is_empty() {
                return Ok(None);
            }
            let others = templates_of(other);
            templates.retain(|template| others.contains(template));
        }
        if matches!(first, Location::Url(_)) {
            templates.truncate(MOST_ASKED);
        }
        for template in &templates {
            if let Some(found) = self.read_beside(template, &parse)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Reads the files that are stored beside shards of several datasets. Each file is read once, and returned with the
    /// name of the first shard that it belongs to; `None` stands for the shards without one. Of remote shards, those that
    /// have a template in common are one dataset, and [`MOST_DATASETS`] are asked for.
    ///
    /// # Errors
    ///
    /// Fails as [`read`](Self::read) does.
    #[cfg_attr(
        not(any(feature = "tar", feature = "tfrecord")),
        allow(dead_code, reason = "no format that this build reads has shards")
    )]
    pub(super) fn of_each<T>(
        &self,
        shards: &[&Location],
        parse: impl Fn(&[u8]) -> Result<T, String>,
    ) -> Result<Vec<(String, Option<T>)>, Error> {
        let (mut read, mut lacking) = (vec![], None);
        let mut folders = HashMap::<PathBuf, HashSet<OsString>>::new();
        let (mut known, mut asked, mut datasets) = (HashSet::new(), HashSet::new(), 0);
        for shard in shards {
            let found = match shard {
                Location::Path(path) => {
                    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
                    let names = folders.entry(folder).or_insert_with_key(|folder| names_in(folder));
                    let mut files =
                        templates(path).into_iter().map(|template| self.path(&template));
                    match files
                        .find(|file| file.file_name().is_some_and(|name| names.contains(name)))
                    {
                        Some(file) if known.insert(file.clone()) => self.read(&file, &parse)?,
                        Some(_) => continue,
                        None => None,
                    }
                }
                Location::Url(_) => {
                    let templates = templates_of(shard);
                    if templates.iter().any(|template| asked.contains(template)) {
                        continue;
                    }
                    asked.extend(templates);
                    datasets += 1;
                    match datasets <= MOST_DATASETS {
                        true => self.of_shards(std::iter::once(*shard), &parse)?,
                        false => None,
                    }
                }
            };
            match found {
                None => lacking = Some((shard.to_string(), None)),
                found => read.push((shard.to_string(), found)),
            }
        }
        read.extend(lacking);
        Ok(read)
    }

    /// Returns the file of other shards that readers would take for the file of these: `dataset` is their
    /// template, `first` the first of them, and `is_shard` returns true for their names.
    #[cfg(feature = "write")]
    pub(super) fn of_others(
        &self,
        (dataset, first): (&Path, &Path),
        is_shard: impl Fn(&str) -> bool,
    ) -> Option<PathBuf> {
        let own = templates(first);
        let folder = first.parent().filter(|folder| !folder.as_os_str().is_empty());
        let listed = fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?;
        let paths = listed.flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let of = first.with_file_name(name.strip_suffix(self.suffix)?);
            let is_other =
                of != dataset && (own.contains(&of) || is_shard(of.file_name()?.to_str()?));
            (is_other && self.is_at(&entry.path())).then(|| entry.path())
        });
        paths.min()
    }

    /// Returns whether there is a file of ours at this path.
    #[cfg(feature = "write")]
    pub(super) fn is_at(&self, path: &Path) -> bool {
        matches!(self.text(path), Ok(Some(_)))
    }

    /// Reads the bytes of a file; `None` if there is none of ours at this path.
    fn text(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        match fs::metadata(path) {
            // Opening a pipe would wait for its other end.
            Ok(found) if !found.is_file() => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        let mut file = file_pool::open(path)?;
        let mut text = Vec::new();
        (&mut file).take(self.begin.len() as u64).read_to_end(&mut text)?;
        if text != self.begin.as_bytes() {
            return Ok(None);
        }
        file.take(self.most_bytes).read_to_end(&mut text)?;
        if text.len() as u64 > self.most_bytes {
            let reason = format!("more than {} bytes of {}", self.most_bytes, self.content);
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        Ok(Some(text))
    }
}

/// Returns whether one template may have named all shards.
#[cfg_attr(
    not(any(feature = "tar", feature = "tfrecord")),
    allow(dead_code, reason = "no format that this build reads has shards")
)]
pub(super) fn have_one_template<'a>(mut shards: impl Iterator<Item = &'a Location>) -> bool {
    let Some(first) = shards.next() else { return true };
    let mut common = templates_of(first);
    shards.all(|shard| {
        let templates = templates_of(shard);
        common.retain(|template| templates.contains(template));
        !common.is_empty()
    })
}

/// Returns the names in a folder; none if it can't be listed.
#[cfg_attr(
    not(any(feature = "tar", feature = "tfrecord")),
    allow(dead_code, reason = "no format that this build reads has shards")
)]
fn names_in(folder: &Path) -> HashSet<OsString> {
    let is_here = folder.as_os_str().is_empty();
    let listed = fs::read_dir(if is_here { Path::new(".") } else { folder });
    listed.into_iter().flatten().flatten().map(|entry| entry.file_name()).collect()
}

/// Returns the templates that may have named a shard: see [`template_names`].
#[cfg_attr(
    not(any(feature = "tar", feature = "tfrecord")),
    allow(dead_code, reason = "no format that this build reads has shards")
)]
fn templates_of(shard: &Location) -> Vec<Location> {
    match shard {
        Location::Path(path) => templates(path).into_iter().map(Location::Path).collect(),
        Location::Url(_) if shard.has_query() => vec![],
        Location::Url(url) => {
            let (folder, name) = url.split_at(url.rfind('/').map_or(0, |at| at + 1));
            let all = template_names(name).into_iter();
            all.map(|name| Location::Url(format!("{folder}{name}"))).collect()
        }
    }
}

fn templates(shard: &Path) -> Vec<PathBuf> {
    let Some(name) = shard.file_name().and_then(|name| name.to_str()) else { return vec![] };
    template_names(name).into_iter().map(|name| shard.with_file_name(name)).collect()
}

/// Returns the templates that may have named a shard of this name: the name itself; the name with a
/// number in braces, `x-{000}.tar`; and with a number and a count, `x-{000}-of-{N}.tar`. For a
/// compressed shard, the templates without `.gz` or `.zst` are returned too.
fn template_names(name: &str) -> Vec<String> {
    let plain = [".gz", ".zst"].iter().find_map(|end| name.strip_suffix(end));
    let names = [Some(name), plain].into_iter().flatten();
    let all = names.flat_map(|name| {
        let runs = digits(name);
        let mut found = vec![name.to_owned()];
        for (index, &(start, end)) in runs.iter().enumerate() {
            for zeros in widths(&name[start..end]) {
                found.push(format!("{}{{{zeros}}}{}", &name[..start], &name[end..]));
                for &(of, last) in &runs[index + 1..] {
                    let between = &name[end..of];
                    found.push(format!(
                        "{}{{{zeros}}}{between}{{N}}{}",
                        &name[..start],
                        &name[last..]
                    ));
                }
            }
        }
        found
    });
    all.collect()
}

/// Returns the start and the end of the last runs of digits in a name, at most [`MOST_RUNS`] of them.
fn digits(name: &str) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = vec![];
    for (at, _) in name.bytes().enumerate().filter(|(_, byte)| byte.is_ascii_digit()) {
        match runs.last_mut() {
            Some((_, end)) if *end == at => *end = at + 1,
            _ => runs.push((at, at + 1)),
        }
    }
    runs.split_off(runs.len().saturating_sub(MOST_RUNS))
}

/// Returns the runs of zeros that a template may have for this number: as many zeros as the number has
/// digits, or fewer if it does not begin with a zero.
fn widths(number: &str) -> impl Iterator<Item = String> {
    let most = number.len();
    let least = if number.starts_with('0') { most } else { 1 };
    (least..=most).rev().map(|width| "0".repeat(width))
}
