//! The files of a dataset: Hugging Face's layouts of configurations and splits.
//!
//! ```text
//! data/train-00000-of-00002.parquet      split train
//! en/validation-00000-of-00001.parquet   configuration en, split validation
//! test/part-0.parquet                    split test
//! photos.parquet                         the only split
//! ```
//!
//! A README.md may list the files instead: `configs` in the YAML at its beginning.
//!
//! ```text
//! configs:
//! - config_name: default
//!   data_files:
//!   - split: train
//!     path: data/train-*
//! ```
//!
//! A configuration without `data_files` has the files of its `data_dir`, whose names tell the splits.
//!
//! A dataset of the Hub itself, `hf://datasets/ORG/NAME`, has the same layouts.
//!
//! Splits are never merged, and never taken for classes: if there are several, one must be named.

use crate::error::{Error, fail};
use crate::source::image_names::{IMAGE_EXTENSIONS, has_extension};
use crate::source::remote::path_pattern::PathPattern;
use crate::source::{Escaped, Location, remote};
use saphyr_parser::{Event, Parser};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The end of the names of files.
const ENDING: &str = ".parquet";

/// The names of splits, and the words in names of files and folders that mean them.
const SPLITS: [(&str, &[&str]); 3] = [
    ("train", &["train", "training"]),
    ("validation", &["validation", "valid", "val", "dev"]),
    ("test", &["test", "testing", "eval", "evaluation"]),
];

/// The most entries of a folder that are looked at to find out whether it has such files.
const MOST_LOOKED_AT: usize = 1000;

/// The most folders in a folder that are looked into.
const MOST_FOLDERS: usize = 64;

/// The name of the file that may list the others.
const README: &str = "README.md";

/// The most bytes of a README.md.
const MOST_BYTES: u64 = 4 << 20;

/// The deepest YAML that is read.
const DEEPEST: usize = 16;

/// The files of a split, and the configuration that it belongs to.
type Splits = BTreeMap<(String, String), Vec<PathBuf>>;

/// Returns whether a folder has Parquet files, in one of the layouts.
pub(in crate::source) fn is_folder(dir: &Path) -> bool {
    // A table beside images is about them.
    let is_image = |path: &PathBuf| has_extension(name_of(path), IMAGE_EXTENSIONS);
    let has_files = |entries: &[PathBuf]| {
        entries.iter().any(|path| is_file(path)) && !entries.iter().any(is_image)
    };
    let own = entries(dir);
    if has_files(&own) {
        return true;
    }
    let dirs: Vec<_> = own.iter().filter(|path| path.is_dir()).take(MOST_FOLDERS + 1).collect();
    dirs.len() <= MOST_FOLDERS
        && !own.iter().any(is_image)
        && dirs.iter().any(|dir| has_files(&entries(dir)))
}

/// Returns the entries of a folder that are looked at, in the order of their names.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().take(MOST_LOOKED_AT);
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| !name_of(path).starts_with('.'));
    paths.sort_unstable();
    paths
}

/// Returns whether this is the name of a Parquet file. A table of metadata belongs to the images beside it.
fn is_file(path: &Path) -> bool {
    let name = name_of(path).to_ascii_lowercase();
    name.ends_with(ENDING) && name != "metadata.parquet"
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Returns the files of a folder's split, in the order of their names.
///
/// # Errors
///
/// Fails if there are several splits and none is named, or none of this name, and if the README.md is damaged.
pub(super) fn files_of_folder(dir: &Path, split: Option<&str>) -> Result<Vec<PathBuf>, Error> {
    let splits = match listed_in_readme(dir)? {
        Some(splits) => splits,
        None => by_names(all_files(dir)?, |path| path.strip_prefix(dir).ok()),
    };
    choose(splits, split).map_err(|error| error.at(dir))
}

/// Returns those of the files that a pattern has found which belong to a split.
///
/// # Errors
///
/// Fails as [`files_of_folder`] does.
pub(super) fn files_of_pattern(
    files: Vec<PathBuf>,
    pattern: &str,
    split: Option<&str>,
) -> Result<Vec<PathBuf>, Error> {
    let fixed = pattern.split(['*', '?', '[', '{']).next().unwrap_or_default();
    let root = fixed.rsplit_once('/').map_or("", |(root, _)| root).to_owned();
    let splits = by_names(files, |path| in_dataset(path).or(path.strip_prefix(&root).ok()));
    choose(splits, split).map_err(|error| error.at(pattern))
}

/// Returns the path in its dataset that an address of the Hub has; `None` for any other path.
fn in_dataset(path: &Path) -> Option<&Path> {
    let mut parts = path.strip_prefix("hf://datasets").ok()?.components();
    parts.next()?;
    parts.next()?;
    Some(parts.as_path())
}

/// Returns the files of a split of a dataset of the Hub, or of a folder in one, in the order of their names.
///
/// # Errors
///
/// Fails as [`files_of_folder`] does, and if the Hub refuses or answers wrongly.
pub(super) fn files_of_hub_folder(name: &str, split: Option<&str>) -> Result<Vec<Location>, Error> {
    let folder = remote::folder_on_hub(name)?;
    let folder =
        folder.ok_or_else(|| fail!(NotFound, "the dataset has no such folder").at(name))?;
    let address = &folder.address;
    let listed_files = match folder.files.iter().any(|file| file == README) {
        true => {
            let text = remote::text_on_hub(&folder, README)?;
            let readme = PathBuf::from(format!("{address}/{README}"));
            let files =
                |pattern: &Path| matching(&folder.files, &inside(pattern, &readme)?, &readme);
            listed(&String::from_utf8_lossy(&text), (Path::new(""), &readme), files)?
        }
        false => None,
    };
    let of_names = || {
        let files = folder.files.iter().map(PathBuf::from);
        by_names(files.filter(|file| is_file(file) && !is_hidden(file)).collect(), |path| {
            Some(path)
        })
    };
    let chosen = choose(listed_files.unwrap_or_else(of_names), split);
    let chosen = chosen.map_err(|error| error.at(address))?;
    Ok(chosen.iter().map(|file| Location::Url(format!("{address}/{}", file.display()))).collect())
}

fn is_hidden(path: &Path) -> bool {
    path.iter().any(|part| part.as_encoded_bytes().starts_with(b"."))
}

/// Returns the Parquet files of a list which match a pattern, or which lie in a folder that does.
fn matching(files: &[String], pattern: &str, readme: &Path) -> Result<Vec<PathBuf>, Error> {
    let pattern = PathPattern::parse(pattern);
    let pattern = pattern.map_err(|reason| fail!(Format, "data_files: {reason}").at(readme))?;
    let files = files.iter().filter(|file| is_file(Path::new(file)));
    Ok(files.filter(|file| pattern.matches_or_holds(file)).map(PathBuf::from).collect())
}

/// Finds the files of a folder, its folders, and the folders in them.
pub(in crate::source) fn all_files(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = vec![];
    let mut left = vec![(dir.to_owned(), 0)];
    while let Some((dir, depth)) = left.pop() {
        let read = fs::read_dir(&dir);
        let read = read.map_err(|error| fail!(Io, "{error}").at(&dir))?;
        for entry in read {
            let path = entry.map_err(|error| fail!(Io, "{error}").at(&dir))?.path();
            if name_of(&path).starts_with('.') {
                continue;
            }
            if is_file(&path) {
                found.push(path);
            } else if depth < 3 && path.is_dir() {
                left.push((path, depth + 1));
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Groups files by the names of their configurations and splits.
fn by_names(
    files: Vec<PathBuf>,
    relative: impl for<'a> Fn(&'a Path) -> Option<&'a Path>,
) -> Splits {
    let mut splits = Splits::new();
    for file in files {
        let path = relative(&file).unwrap_or(&file).to_string_lossy().replace('\\', "/");
        splits.entry(named(&path)).or_default().push(file);
    }
    splits
}

/// Returns the configuration and the split that the path of a file means.
fn named(path: &str) -> (String, String) {
    let (dirs, file) = path.rsplit_once('/').unwrap_or(("", path));
    let dirs: Vec<&str> = dirs.split('/').filter(|dir| !dir.is_empty()).collect();
    let stem = file.get(..file.len().saturating_sub(ENDING.len())).unwrap_or(file);
    let is_split = |dir: &&str| split_of(dir).is_some();
    let config = dirs.iter().find(|dir| **dir != "data" && !is_split(dir));
    let config = config.map_or("default", |dir| *dir).to_owned();
    // `train-00000-of-00002`, also with a hash behind it.
    let sharded = stem.split_once("-of-").and_then(|(before, _)| {
        let (split, number) = before.rsplit_once('-')?;
        (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(split)
    });
    let by_word = || dirs.iter().rev().copied().chain([stem]).find_map(split_of);
    let split = match sharded {
        Some(split) => split,
        None => by_word().unwrap_or("train"),
    };
    (config, split.to_owned())
}

/// Returns the split that a word of a name means.
fn split_of(name: &str) -> Option<&'static str> {
    let words: Vec<String> =
        name.split(|c: char| !c.is_ascii_alphabetic()).map(str::to_ascii_lowercase).collect();
    let means = |(_, known): &&(&str, &[&str])| words.iter().any(|word| known.contains(&&**word));
    SPLITS.iter().find(means).map(|(split, _)| *split)
}

/// Chooses a split.
fn choose(splits: Splits, split: Option<&str>) -> Result<Vec<PathBuf>, Error> {
    let many =
        splits.keys().map(|(config, _)| config).collect::<std::collections::BTreeSet<_>>().len()
            > 1;
    let shown = |(config, split): &(String, String)| match many {
        true => format!("{config}/{split}"),
        false => split.clone(),
    };
    let names = || {
        let names: Vec<_> = splits.keys().map(shown).collect();
        Escaped(&names.join(", ")).to_string()
    };
    let Some(split) = split else {
        return match splits.len() {
            0 => Err(fail!(NotFound, "no Parquet files")),
            1 => Ok(splits.into_values().flatten().collect()),
            _ => {
                let train = splits.keys().find(|(_, split)| split == "train");
                let first = train.or(splits.keys().next()).map(shown).unwrap_or_default();
                let (names, first) = (names(), Escaped(&first).to_string());
                Err(fail!(
                    Parameter,
                    "a dataset of several splits ({names}): name one by `split`, such as `{first}`"
                ))
            }
        };
    };
    let matching = |of: &dyn Fn(&(String, String)) -> bool| {
        let keys: Vec<_> = splits.keys().filter(|key| of(key)).collect();
        <[_; 1]>::try_from(keys).ok().map(|[key]| key.clone())
    };
    let known = split_of(split);
    let found = matching(&|key| shown(key) == split || key.1 == split)
        .or_else(|| matching(&|key| known.is_some_and(|known| key.1 == known)));
    match found {
        Some(key) => Ok(splits.get(&key).cloned().unwrap_or_default()),
        None => {
            let (names, split) = (names(), Escaped(split).to_string());
            Err(fail!(Parameter, "no split named {split:?}; available: {names}"))
        }
    }
}

/// Returns the files that the README.md of a folder lists; `None` if it lists none.
fn listed_in_readme(dir: &Path) -> Result<Option<Splits>, Error> {
    let path = dir.join(README);
    let Ok(metadata) = fs::metadata(&path) else { return Ok(None) };
    if !metadata.is_file() || metadata.len() > MOST_BYTES {
        return Ok(None);
    }
    let text = fs::read_to_string(&path).map_err(|error| fail!(Io, "{error}").at(&path))?;
    listed(&text, (dir, &path), |pattern| matches(dir, &inside(pattern, &path)?, &path))
}

/// Returns the files that the text of a README.md lists, by the patterns that it has; `None` if it lists none. `dir` is
/// how the paths of files begin.
fn listed(
    text: &str,
    (dir, path): (&Path, &Path),
    files_of: impl Fn(&Path) -> Result<Vec<PathBuf>, Error>,
) -> Result<Option<Splits>, Error> {
    let text = text.replace("\r\n", "\n");
    let front = text.strip_prefix("---\n").and_then(|text| Some(text.split_once("\n---")?.0));
    let Some(front) = front else { return Ok(None) };
    let read = Yaml::parse(front).map_err(|reason| fail!(Format, "{reason}").at(path))?;
    let Some(Yaml::List(configs)) = read.get("configs") else { return Ok(None) };
    let mut splits = Splits::new();
    for config in configs {
        let name = config.get("config_name").and_then(Yaml::text).unwrap_or("default");
        let folder = config.get("data_dir").and_then(Yaml::text).unwrap_or("");
        let Some(files) = config.get("data_files") else {
            // The names of the files in the folder tell their splits.
            if !folder.is_empty() {
                let root = dir.join(folder);
                let found = files_of(Path::new(folder))?;
                for ((_, split), files) in by_names(found, |path| path.strip_prefix(&root).ok()) {
                    splits.entry((name.to_owned(), split)).or_default().extend(files);
                }
            }
            continue;
        };
        let listed: Vec<(&str, &Yaml)> = match files {
            Yaml::List(items) if items.iter().all(|item| item.get("path").is_some()) => {
                let split = |item: &&Yaml| item.get("path").is_some();
                let items = items.iter().filter(split);
                let items = items.filter_map(|item| Some((item.get("split"), item.get("path")?)));
                items
                    .map(|(split, path)| (split.and_then(Yaml::text).unwrap_or("train"), path))
                    .collect()
            }
            Yaml::Map(pairs) => pairs.iter().map(|(split, path)| (&**split, path)).collect(),
            paths => vec![("train", paths)],
        };
        for (split, paths) in listed {
            let paths = match paths {
                Yaml::List(paths) => paths.iter().filter_map(Yaml::text).collect(),
                path => path.text().into_iter().collect::<Vec<_>>(),
            };
            let found = splits.entry((name.to_owned(), split.to_owned())).or_default();
            for pattern in paths {
                found.extend(files_of(&Path::new(folder).join(pattern))?);
            }
        }
    }
    splits.retain(|_, files| !files.is_empty());
    Ok(Some(splits).filter(|splits| !splits.is_empty()))
}

/// Returns the text of a pattern of a README.md, which must lead to no other folder.
fn inside(pattern: &Path, readme: &Path) -> Result<String, Error> {
    let part = |part: Component<'_>| match part {
        Component::Normal(part) => part.to_str().map(|part| Some(part.to_owned())),
        Component::CurDir => Some(None),
        _ => None,
    };
    let parts: Option<Vec<_>> = pattern.components().map(part).collect();
    let Some(parts) = parts else {
        let pattern = Escaped(&pattern.to_string_lossy()).to_string();
        return Err(
            fail!(Format, "data_files {pattern:?}: expected a path in the folder").at(readme)
        );
    };
    Ok(parts.into_iter().flatten().collect::<Vec<_>>().join("/"))
}

/// Returns the Parquet files in the folder that a pattern of its README.md matches.
fn matches(dir: &Path, pattern: &str, readme: &Path) -> Result<Vec<PathBuf>, Error> {
    let whole = format!("{}/{pattern}", glob::Pattern::escape(&dir.to_string_lossy()));
    let found = glob::glob(&whole);
    let found = found.map_err(|error| fail!(Format, "data_files: {error}").at(readme))?;
    let mut files: Vec<PathBuf> = vec![];
    for path in found.flatten() {
        match path.is_dir() {
            true => files.extend(all_files(&path)?),
            false if is_file(&path) => files.push(path),
            false => {}
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// A value of YAML.
#[derive(Debug, PartialEq)]
enum Yaml {
    Text(String),
    List(Vec<Yaml>),
    Map(Vec<(String, Yaml)>),
}

impl Yaml {
    /// Parses the first document. Aliases are not resolved: each is an empty text.
    fn parse(text: &str) -> Result<Self, String> {
        let mut parser = Parser::new_from_str(text);
        let mut open: Vec<(Self, Option<String>)> = vec![];
        loop {
            let next = parser.next_event().ok_or("YAML without an end")?;
            let (event, at) = next.map_err(|error| error.to_string())?;
            let value = match event {
                Event::Scalar(text, ..) => Self::Text(text.into_owned()),
                Event::Alias(_) => Self::Text(String::new()),
                Event::SequenceStart(..) | Event::MappingStart(..) => {
                    if open.len() > DEEPEST {
                        return Err(format!("line {}: YAML is nested too deep", at.start.line()));
                    }
                    let is_list = matches!(event, Event::SequenceStart(..));
                    let empty = if is_list { Self::List(vec![]) } else { Self::Map(vec![]) };
                    open.push((empty, None));
                    continue;
                }
                Event::SequenceEnd | Event::MappingEnd => {
                    open.pop().ok_or("YAML ends what it has not begun")?.0
                }
                Event::StreamEnd | Event::DocumentEnd => return Ok(Self::Map(vec![])),
                _ => continue,
            };
            match open.last_mut() {
                None => return Ok(value),
                Some((Self::List(items), _)) => items.push(value),
                Some((Self::Map(pairs), key)) => match (key.take(), value) {
                    (Some(key), value) => pairs.push((key, value)),
                    (None, Self::Text(text)) => *key = Some(text),
                    (None, _) => *key = Some(String::new()),
                },
                Some((Self::Text(_), _)) => return Err("a text in a text".to_owned()),
            }
        }
    }

    fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Map(pairs) => pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value),
            _ => None,
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_mean_configurations_and_splits() {
        for (path, config, split) in [
            ("data/train-00000-of-00002.parquet", "default", "train"),
            ("train-00000-of-00001-a1b2c3.parquet", "default", "train"),
            ("data/unsupervised-00000-of-00001.parquet", "default", "unsupervised"),
            ("en/validation-00000-of-00001.parquet", "en", "validation"),
            ("test/part-0.parquet", "default", "test"),
            ("de/test/0.parquet", "de", "test"),
            ("photos.parquet", "default", "train"),
            ("my_val.parquet", "default", "validation"),
            ("contest.parquet", "default", "train"),
        ] {
            assert_eq!(named(path), (config.to_owned(), split.to_owned()), "{path}");
        }
    }

    fn split(names: &[(&str, &str)], wanted: Option<&str>) -> Result<Vec<PathBuf>, String> {
        let splits = names.iter().map(|(config, split)| {
            let file = PathBuf::from(format!("{config}-{split}"));
            ((config.to_string(), split.to_string()), vec![file])
        });
        choose(splits.collect(), wanted).map_err(|error| error.to_string())
    }

    #[test]
    fn one_of_several_splits_must_be_named() {
        let two = [("default", "test"), ("default", "train")];
        let refused = split(&two, None).unwrap_err();
        assert!(
            refused.contains("several splits (test, train): name one by `split`, such as `train`"),
            "{refused}"
        );
        assert_eq!(split(&two, Some("train")).unwrap(), [PathBuf::from("default-train")]);
        let missing = split(&two, Some("val")).unwrap_err();
        assert!(missing.contains("no split named \"val\"; available: test, train"), "{missing}");
        let configs = [("de", "train"), ("en", "train")];
        assert!(split(&configs, Some("train")).unwrap_err().contains("de/train, en/train"));
        assert_eq!(split(&configs, Some("en/train")).unwrap(), [PathBuf::from("en-train")]);
        assert_eq!(split(&[("default", "validation")], Some("val")).unwrap().len(), 1);
    }

    #[test]
    fn a_readme_lists_the_files() {
        let dir = tempfile::tempdir().unwrap();
        let readme = |text: &str| fs::write(dir.path().join("README.md"), text).unwrap();
        fs::create_dir(dir.path().join("x")).unwrap();
        for name in ["a-0.parquet", "a-1.parquet", "b.parquet"] {
            fs::write(dir.path().join("x").join(name), "").unwrap();
        }
        let chosen = |split: Option<&str>| {
            let files = files_of_folder(dir.path(), split).map_err(|error| error.to_string())?;
            Ok::<_, String>(files.iter().map(|file| name_of(file).to_owned()).collect::<Vec<_>>())
        };
        readme(
            "---\nlicense: mit\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: x/a-*\n  - split: holdout\n    path: x/b*\n---\n# A\n",
        );
        assert_eq!(chosen(Some("train")).unwrap(), ["a-0.parquet", "a-1.parquet"]);
        assert_eq!(chosen(Some("holdout")).unwrap(), ["b.parquet"]);
        assert!(chosen(None).unwrap_err().contains("holdout, train"));
        readme("---\nconfigs:\n- config_name: default\n  data_files: x/b.parquet\n---\n");
        assert_eq!(chosen(None).unwrap(), ["b.parquet"]);
        readme("---\nconfigs:\n- data_files: ../../etc/*\n---\n");
        assert!(chosen(None).unwrap_err().contains("expected a path in the folder"));
        readme("# No list\n");
        assert_eq!(chosen(None).unwrap().len(), 3);
        assert!(is_folder(dir.path()));
        fs::create_dir(dir.path().join("y")).unwrap();
        for name in ["train-0.parquet", "test.parquet"] {
            fs::write(dir.path().join("y").join(name), "").unwrap();
        }
        readme("---\nconfigs:\n- config_name: small\n  data_dir: y\n---\n");
        assert_eq!(chosen(Some("train")).unwrap(), ["train-0.parquet"]);
        assert!(chosen(None).unwrap_err().contains("test, train"));
    }
}
