//! Tables of images or audio files: each line is a file, each column a field.
//!
//! | file              | header                                | the path                     |
//! |-------------------|---------------------------------------|------------------------------|
//! | `.csv`, `.tsv`    | names of columns                      | the column that is set, or that has one of [`PATHS`] as its name, else the first |
//! | `.csv`, `.tsv`    | none: two columns, the first has a `.` or `/` | the first; the other is `label` |
//! | `.jsonl`          | the keys of the first line            | as above; all lines have the same keys |
//!
//! A folder with a `metadata.jsonl` or `metadata.csv` that has the column `file_name` is opened as this table, whatever
//! folders it has. Its paths must stay in the folder then.
//!
//! Links that paths lead to or through are treated as [`Links`] says, those above the folder that paths are relative to apart:
//! a file behind one that is not followed is damage of its sample. With [`Links::Within`] so is any file outside of that folder.
//!
//! Needs the feature `tables`. Paths are relative to the table's folder, unless a root is set. One of the first files must
//! exist; the others are not looked for. If the extensions of the paths are those of audio, the field of the files is `audio`
//! and not `image`; a table does not mix both. A column becomes a field by its values ([`column.rs`](super::column)).
//!
//! What one line has wrong is damage of its sample: another number of cells, an empty path, a label that is no label. What
//! makes the other lines doubtful is an error: a quote that is not closed, a header without a known column, a path or a
//! label with a line break, labels half of which are numbers. So is a table all of whose lines are damaged.

use super::column::{self, Cell, Flaw, Flaws, TableColumn};
use super::csv_text;
use super::links::Links;
use super::list::Ignored;
use super::numbers::ClassNumbers;
use super::options::{FolderOptions, Labels, TableOptions};
use crate::error::{AtPath as _, Error, fail};
use crate::source::audio_format;
use crate::source::common_names::guessed_label;
#[cfg(not(feature = "tables"))]
use crate::source::feature::NeedsFeature;
use crate::source::file_pool;
use crate::source::image_names;
use crate::source::media::Media;
use crate::source::names::Names;
use crate::source::video_format;
use crate::source::{Escaped, FieldKind, FieldSpec};
use crate::warnings::warn;
use serde_json::Value as Json;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Component, Path, PathBuf};

/// The names of columns of paths. The first two are ours and Hugging Face's.
const PATHS: [&str; 12] = [
    "file_name",
    "path",
    "filename",
    "filepath",
    "file_path",
    "file",
    "image",
    "image_path",
    "image_name",
    "image_file",
    "img_path",
    "img",
];

/// The names of columns of paths of audio files, if no column has one of [`PATHS`].
const AUDIO_PATHS: [&str; 6] =
    ["audio", "audio_path", "audio_file", "audio_filepath", "wav", "wav_path"];

/// The names of columns of paths of video files, if no column has one of the above.
const VIDEO_PATHS: [&str; 5] = ["video", "video_path", "video_file", "video_filepath", "clip"];

/// The names of columns that are no paths, though they come first.
const NO_PATHS: [&str; 8] =
    ["label", "labels", "class", "cls", "category", "target", "split", "caption"];

/// The name of the field of labels.
const LABEL: &str = "label";

/// The most lines whose files are looked for, to find the ending that paths lack and a wrong root.
pub(super) const MOST_TRIED: usize = 8;

/// The content of a table.
#[derive(Default)]
pub(super) struct PathTable {
    pub(super) media: Media,
    pub(super) names: Names,
    pub(super) columns: Vec<(String, TableColumn)>,
    pub(super) classes: ClassNumbers,
    /// The damaged lines, by their samples.
    pub(super) flaws: Flaws,
}

/// The lines of a table, with the names of its columns.
pub(super) struct Cells {
    pub(super) names: Vec<String>,
    /// True if numbers are written as texts, as in CSV.
    pub(super) is_text: bool,
    /// The number of each line, from 1, and its cells, or what is wrong with it.
    pub(super) lines: Vec<(u64, Result<Vec<Json>, String>)>,
}

impl PathTable {
    /// Reads a table. For the table of a folder, `inside` refuses paths that lead out of it.
    pub(super) fn read(
        path: &Path,
        inside: Option<&InFolder>,
        options: &FolderOptions,
    ) -> Result<Self, Error> {
        let cells = match kind_of(path) {
            Some("jsonl") => from_json_lines(path, options)?,
            _ => from_csv(path, options)?,
        };
        Self::of(path, inside, cells, options)
    }

    /// Makes samples of the lines of a table.
    pub(super) fn of(
        table: &Path,
        inside: Option<&InFolder>,
        cells: Cells,
        options: &FolderOptions,
    ) -> Result<Self, Error> {
        let max = options.limits.max_samples;
        if cells.lines.is_empty() {
            return Err(no_lines(table));
        }
        if cells.lines.len() as u64 > max {
            let found = cells.lines.len();
            return Err(fail!(Memory, "{found} lines, the limit is {max}").at(table));
        }
        let bad = |line, reason: String| bad_line(table, line, &reason);
        let cells = without_index(table, cells);
        let Cells { names: heads, is_text, lines } = cells;
        let path_column = path_column(&heads, inside.is_some(), &options.table)
            .map_err(|reason| bad(1, reason))?;
        let fields =
            fields(&heads, path_column, &options.label).map_err(|reason| bad(1, reason))?;
        let mut read = Self::default();
        let mut columns: Vec<Vec<Cell>> = fields.iter().map(|_| vec![]).collect();
        let (mut dirs, mut paths, mut numbers) = (HashMap::new(), vec![], vec![]);
        for (sample, (line, cells)) in lines.into_iter().enumerate() {
            let mut path = None;
            match cells {
                Ok(mut cells) => {
                    let found = std::mem::take(&mut cells[path_column]);
                    match checked_path(found, inside) {
                        Ok(found) if is_text && found.contains(['\n', '\r']) => {
                            return Err(bad(line, line_break(&found, "path")));
                        }
                        Ok(found) => path = Some(found),
                        Err(reason) => drop(read.flaws.insert(sample, Flaw { line, reason })),
                    }
                    for ((index, _), column) in fields.iter().zip(&mut columns) {
                        column.push(Cell { line, value: std::mem::take(&mut cells[*index]) });
                    }
                }
                Err(reason) => {
                    read.flaws.insert(sample, Flaw { line, reason });
                    columns
                        .iter_mut()
                        .for_each(|cells| cells.push(Cell { line, value: Json::Null }));
                }
            }
            paths.push(path);
            numbers.push(line);
        }
        let root = root_of(table, options);
        let suffix = match &options.table.suffix {
            Some(suffix) => suffix.clone(),
            None => missing_suffix(&root, paths.iter().flatten()),
        };
        let links = TableLinks::new(&root, options.links);
        for (sample, (path, line)) in paths.iter_mut().zip(numbers).enumerate() {
            let Some(reason) = path.as_ref().and_then(|path| links.why_not(path, &suffix)) else {
                continue;
            };
            let reason = format!("{:?} {reason}", column::shown(&path.take().unwrap_or_default()));
            read.flaws.insert(sample, Flaw { line, reason });
        }
        if let (true, Some(first)) = (read.flaws.len() == paths.len(), read.flaws.values().next()) {
            return Err(bad(first.line, first.reason.clone()));
        }
        let ending = format!("x{suffix}");
        let all = paths.iter().flatten().map(|path| if suffix.is_empty() { path } else { &ending });
        let (media, unread) =
            one_media(all).map_err(|reason| fail!(Format, "{reason}").at(table))?;
        if let Some(unread) = unread {
            warn(format_args!("{}: {unread}", table.display()));
        }
        read.media = media;
        let own = read.media.field();
        if fields.iter().any(|(_, name)| name == own) {
            let reason =
                format!("column name {own:?} is reserved for the files: rename the column");
            return Err(bad(1, reason));
        }
        for path in paths {
            // A line without a path has no file.
            let path = path.map_or_else(String::new, |path| path + &suffix);
            add(&mut read.names, &mut dirs, &path)
                .ok_or_else(|| super::layout::too_many_dirs().at(table))?;
        }
        let nan = options.table.missing_as_nan;
        for ((_, name), cells) in fields.into_iter().zip(columns) {
            let skip = |sample: usize| read.flaws.contains_key(&sample);
            let column = if name == LABEL {
                let labels = column::labels(&cells, is_text, options.classes.as_ref(), skip, nan);
                let (labels, classes) = labels.map_err(|flaw| bad(flaw.line, flaw.reason))?;
                read.classes = classes;
                labels
            } else {
                let column = column::values(&cells, is_text, skip, nan);
                if let Some(doubt) = column::doubt(&name, &cells, &column, is_text) {
                    warn(format_args!("{}: {doubt}", table.display()));
                }
                column
            };
            read.columns.push((name, column));
        }
        if options.label == Labels::Auto && !read.columns.iter().any(|(name, _)| name == LABEL) {
            read.warn_of_label(table);
        }
        Ok(read)
    }

    /// Returns the fields of the samples.
    pub(super) fn fields(&self) -> Vec<FieldSpec> {
        let columns = self.columns.iter().map(|(name, column)| (&**name, column.values.kind()));
        let kind = match self.media {
            Media::Image => FieldKind::RgbImage,
            Media::Audio | Media::Video => FieldKind::Bytes,
        };
        std::iter::once((self.media.field(), kind)).chain(columns).map(FieldSpec::from).collect()
    }

    /// Warns of a column that is the label by its values alone, and of one that may be it.
    fn warn_of_label(&self, table: &Path) {
        let table = table.display();
        let classes = self.columns.iter().find(|(_, column)| column.seems_to_have_classes());
        let guessed = guessed_label(&self.fields()).and_then(|field| self.columns.get(field - 1));
        match (guessed, classes) {
            (Some((number, _)), Some((text, _))) => warn(format_args!(
                "{table}: the column `{number}` is taken for the label because no other has whole numbers, but the column \
                 `{text}` is text with repeated values, and is read as bytes: set `label` to the one that has the labels"
            )),
            (Some((number, _)), None) => warn(format_args!(
                "{table}: the column `{number}` is taken for the label because no other has whole numbers: set `label` to \
                 `{number}` if it is the label"
            )),
            (None, Some((text, _))) => warn(format_args!(
                "{table}: the column `{text}` is text with repeated values, and is read as bytes: set `label` to `{text}` to \
                 number its values as classes"
            )),
            (None, None) => {}
        }
    }
}

/// Returns the folder that the paths of a table are relative to.
pub(super) fn root_of(table: &Path, options: &FolderOptions) -> PathBuf {
    let beside = || table.parent().unwrap_or(Path::new("")).to_owned();
    options.table.root.clone().unwrap_or_else(beside)
}

/// Returns what may be set if the files of a table do not exist.
pub(super) fn root_advice(root: &Path, tried: &Path, options: &FolderOptions) -> String {
    let shown = |path: &Path| format!("{:?}", Escaped(&path.to_string_lossy()).to_string());
    let mut advice = match (&options.table.root, root.as_os_str().is_empty()) {
        (Some(_), _) => format!("paths are relative to {}, which is set as `root`", shown(root)),
        (None, true) => {
            "paths are relative to the current folder: set `root` to that of the images".into()
        }
        (None, false) => {
            format!("paths are relative to {}: set `root` to the folder of the images", shown(root))
        }
    };
    let path = tried.strip_prefix(root).unwrap_or(tried).to_string_lossy();
    if path.contains('\\') {
        let other = path.replace('\\', "/");
        let found = if root.join(&other).exists() { ", which exists" } else { "" };
        advice.push_str(&format!(
            "; paths of a table use forward slashes: without backslashes this one is {}{found}",
            shown(Path::new(&other))
        ));
    } else if let Some(other) = path.chars().find(|letter| matches!(letter, ',' | ';' | '\t' | '|'))
    {
        advice.push_str(&format!(
            "; the path has {other:?}, which may separate columns: set `delimiter`"
        ));
    } else if tried.extension().is_none() {
        advice.push_str("; the path has no ending: set `suffix` to add one");
    }
    advice
}

fn line_break(found: &str, what: &str) -> String {
    format!(
        "the {what} {:?} has a line break: is the quote that opens in this line not closed?",
        column::shown(found)
    )
}

/// Returns whether the cells of a column are those of an index: whole numbers, of which no two are equal. pandas counts from
/// 0, R from 1, and the lines of a table may be a choice of another's.
fn is_index<'t>(cells: impl Iterator<Item = Option<&'t str>>) -> bool {
    let mut seen = HashSet::new();
    let numbers = cells.map(|cell| cell.and_then(|cell| cell.parse::<u64>().ok()));
    let mut are_new = numbers.map(|number| number.is_some_and(|number| seen.insert(number)));
    are_new.all(|is_new| is_new)
}

/// Removes the first column if it is the index that pandas and R write: a column without a name that numbers the lines.
fn without_index(table: &Path, mut cells: Cells) -> Cells {
    let is_unnamed = cells.names.len() > 1 && cells.names[0].is_empty();
    let of_lines = cells.lines.iter().filter_map(|(_, cells)| cells.as_ref().ok());
    if is_unnamed && is_index(of_lines.map(|cells| cells.first().and_then(Json::as_str))) {
        warn(format_args!(
            "{}: the first column has no name and another whole number in each line, as pandas and R write an index: it is \
             skipped",
            table.display()
        ));
        cells.names.remove(0);
        cells.lines.iter_mut().flat_map(|(_, cells)| cells).for_each(|cells| drop(cells.remove(0)));
    }
    cells
}

/// Returns the index of the column that has the paths.
fn path_column(heads: &[String], is_inside: bool, options: &TableOptions) -> Result<usize, String> {
    let known = || column::shown(&heads.join(", ")).into_owned();
    if let Some(name) = &options.image {
        let found = heads.iter().position(|head| head == name);
        return found
            .ok_or_else(|| format!("no column `{name}` for `image`: the columns are {}", known()));
    }
    if let Some(at) =
        heads.iter().position(|head| head == PATHS[0] || !is_inside && head == PATHS[1])
    {
        return Ok(at);
    }
    let among = |names: &[&str]| {
        let is_one = |head: &String| names.iter().any(|name| head.eq_ignore_ascii_case(name));
        heads.iter().enumerate().filter(|(_, head)| is_one(head)).take(2).collect::<Vec<_>>()
    };
    let mut found = among(&PATHS[2..]);
    if found.is_empty() {
        found = among(&AUDIO_PATHS);
    }
    if found.is_empty() {
        found = among(&VIDEO_PATHS);
    }
    match found[..] {
        [(at, _)] => return Ok(at),
        [(_, one), (_, two)] => {
            return Err(format!(
                "both columns `{one}` and `{two}` may have the paths: set `image` to one of them"
            ));
        }
        _ => {}
    }
    let is_other = |head: &str| NO_PATHS.iter().any(|name| head.eq_ignore_ascii_case(name));
    match heads {
        [first, second] if is_other(first) && !is_other(second) => Ok(1),
        [first, ..] if is_other(first) => Err(format!(
            "no column of paths is known by its name: set `image` to one of {}",
            known()
        )),
        _ => Ok(0),
    }
}

/// Returns the index and the name of each column that is a field.
fn fields(heads: &[String], path: usize, label: &Labels) -> Result<Vec<(usize, String)>, String> {
    let mut fields: Vec<(usize, String)> =
        heads.iter().cloned().enumerate().filter(|(index, _)| *index != path).collect();
    match label {
        Labels::Auto => {}
        Labels::None => fields.retain(|(_, name)| name != LABEL),
        Labels::Folder | Labels::FileName => {
            return Err(
                "the labels of a table are in a column: set `label` to its name, or to `none`"
                    .into(),
            );
        }
        Labels::Column(column) => {
            let Some(at) = fields.iter().position(|(_, name)| name == column) else {
                let known: Vec<&str> = fields.iter().map(|(_, name)| &**name).collect();
                let known = known.join(", ");
                return Err(format!(
                    "no column `{column}` for `label`: the others are {}",
                    column::shown(&known)
                ));
            };
            if column != LABEL && fields.iter().any(|(_, name)| name == LABEL) {
                return Err(format!(
                    "`label` is set to `{column}`, but another column is called `label`"
                ));
            }
            fields[at].1 = LABEL.to_owned();
        }
    }
    let mut seen = BTreeSet::new();
    for (_, name) in &fields {
        if name.is_empty() {
            let reason = "a column has no name, and is no index of whole numbers that differ: name it, or remove it";
            return Err(reason.into());
        }
        if !seen.insert(name) {
            return Err(format!("column name {name:?} is repeated"));
        }
    }
    Ok(fields)
}

/// Returns what the files of these paths are: the kind that some have by their extensions and no other; and a warning if some are
/// audio or videos that are not read.
fn one_media<'p>(
    paths: impl Iterator<Item = &'p String>,
) -> Result<(Media, Option<String>), String> {
    let (mut read, mut others) = ([0; Media::ALL.len()], 0);
    // Files that need a feature, and audio and videos of formats that no build reads.
    let (mut unbuilt, mut unread) = ((0, ""), Ignored::default());
    for path in paths {
        let extension = Path::new(path).extension().and_then(OsStr::to_str).unwrap_or_default();
        match Media::of(Path::new(path)) {
            Ok(media) => read[media as usize] += 1,
            Err(_) if is_picture(path) => read[Media::Image as usize] += 1,
            Err(reason) if is_other_media(path) => unbuilt = (unbuilt.0 + 1, reason),
            Err(_)
                if audio_format::is_unread_audio(extension)
                    || video_format::is_unread_video(extension) =>
            {
                unread.count_extension(extension.to_ascii_lowercase(), 1);
            }
            Err(_) => others += 1,
        }
    }
    let unread = match unbuilt {
        (0, _) => unread.unread_audio().or_else(|| unread.unread_videos()),
        (count, reason) => {
            Some(format!("{count} {} {reason}", if count == 1 { "path is" } else { "paths are" }))
        }
    };
    let mut read = Media::ALL.into_iter().zip(read).filter(|(_, count)| *count > 0);
    match (read.next(), read.next(), unread) {
        (Some((media, count)), Some((other, others)), _) => Err(format!(
            "the table lists {count} {} and {others} {}, which one dataset does not mix: make a table of each kind",
            media.noun(count),
            other.noun(others)
        )),
        (None, _, Some(unread)) if others == 0 => {
            Err(format!("the table lists no file that is read: {unread}"))
        }
        (found, _, unread) => Ok((found.map_or(Media::Image, |(media, _)| media), unread)),
    }
}

/// Returns whether a path has the extension of an audio or video file that is read.
fn is_other_media(path: &str) -> bool {
    let extension = Path::new(path).extension().and_then(OsStr::to_str);
    extension.is_some_and(|extension| Media::of_extension(extension).is_some())
}

/// Returns the path of a file, or why it is none.
fn checked_path(found: Json, inside: Option<&InFolder>) -> Result<String, String> {
    let path = match found {
        Json::String(path) => path,
        Json::Number(number) => number.to_string(),
        _ => return Err("the path is not a text".into()),
    };
    if path.is_empty() {
        return Err("the path is empty".into());
    }
    if let Some(reason) = inside.and_then(|InFolder| InFolder::why_not(&path)) {
        return Err(format!("{:?} {reason}", column::shown(&path)));
    }
    if Path::new(&path).file_name().is_none() {
        return Err(format!("{:?} is not the path of a file", column::shown(&path)));
    }
    Ok(path)
}

/// Returns whether a path has the ending of a picture, of any format.
fn is_picture(path: &str) -> bool {
    let extension = Path::new(path).extension().and_then(OsStr::to_str);
    extension.is_some_and(image_names::is_picture)
}

/// Returns the ending that the paths of a table lack: of the first files that exist with one, if none exists without.
fn missing_suffix<'p>(root: &Path, paths: impl Iterator<Item = &'p String>) -> String {
    let first: Vec<&String> = paths.take(MOST_TRIED).collect();
    if first.iter().any(|path| is_picture(path) || is_other_media(path)) {
        return String::new();
    }
    let exists = |path: &str| root.join(path).is_file();
    // The last that exists is added: an image rather than an audio or a video file.
    let images = image_names::IMAGE_EXTENSIONS.iter().copied();
    let known = video_format::extensions().chain(audio_format::extensions()).chain(images);
    let lower = known.map(|extension| format!(".{extension}"));
    let endings: Vec<String> = lower.flat_map(|one| [one.to_ascii_uppercase(), one]).collect();
    for path in first {
        if exists(path) {
            return String::new();
        }
        let mut found = endings.iter().filter(|ending| exists(&format!("{path}{ending}")));
        if let Some(ending) = found.next_back() {
            return ending.clone();
        }
    }
    String::new()
}

/// The treatment of links that the paths of a table lead to or through.
struct TableLinks<'a> {
    links: Links,
    /// The folder that the paths are relative to.
    root: &'a Path,
    /// The same folder, without links in its path.
    real: PathBuf,
}

impl<'a> TableLinks<'a> {
    fn new(root: &'a Path, links: Links) -> Self {
        let here = if root.as_os_str().is_empty() { Path::new(".") } else { root };
        // Without such a folder no relative path leads to a file.
        let real = fs::canonicalize(here).unwrap_or_else(|_| here.to_owned());
        Self { links, root, real }
    }

    /// Returns why a file is not read.
    fn why_not(&self, path: &str, suffix: &str) -> Option<&'static str> {
        if self.links == Links::Follow {
            return None;
        }
        let path = PathBuf::from(format!("{path}{suffix}"));
        let path = path.strip_prefix(self.root).unwrap_or(&path);
        if self.links == Links::Within {
            // A file that is missing is the error of its sample.
            let real = fs::canonicalize(self.real.join(path)).ok()?;
            return (!real.starts_with(&self.real))
                .then_some("leads out of the folder that paths are relative to");
        }
        let mut at = self.real.clone();
        let is_link = |part: Component<'_>| {
            at.push(part);
            at.is_symlink()
        };
        path.components().any(is_link).then_some("is a link or behind one, and links are refused")
    }
}

/// The folder that a table lists, if the folder was opened and not the table: all files must be in it.
pub(super) struct InFolder;

impl InFolder {
    /// Returns the table that lists the images of a folder as Hugging Face's `imagefolder` reads it: a `metadata.jsonl`
    /// or `metadata.csv` with the column `file_name`.
    ///
    /// # Errors
    ///
    /// Fails if there is a file of this name that can't be read, or a link that is not followed.
    pub(super) fn find(dir: &Path, links: Links) -> Result<Option<(PathBuf, Self)>, Error> {
        for name in ["metadata.jsonl", "metadata.csv"] {
            let path = dir.join(name);
            if !fs::metadata(&path).is_ok_and(|found| found.is_file()) {
                continue;
            }
            if let Some(reason) = TableLinks::new(dir, links).why_not(name, "") {
                return Err(fail!(Io, "{reason}").at(path));
            }
            if has_file_name(&path).at(&path)? {
                return Ok(Some((path, Self)));
            }
        }
        Ok(None)
    }

    /// Returns why a path is not read.
    fn why_not(path: &str) -> Option<&'static str> {
        let is_below = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        let is_allowed = Path::new(path).components().all(is_below);
        (!is_allowed).then_some(
            "leads out of the folder: open the table itself, whose paths may lead anywhere",
        )
    }
}

/// Returns whether the first line of a table has the column `file_name`. At most 1 MiB is read.
fn has_file_name(table: &Path) -> io::Result<bool> {
    let mut file = BufReader::new(file_pool::open(table)?.take(1 << 20));
    let mut line = vec![];
    while file.read_until(b'\n', &mut line)? > 0 && line.trim_ascii().is_empty() {
        line.clear();
    }
    let is_jsonl = kind_of(table) == Some("jsonl");
    let text = String::from_utf8_lossy(&line);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    if !is_jsonl && csv_text::declared_delimiter(text).is_some() {
        line.clear();
        file.read_until(b'\n', &mut line)?;
    }
    let line = String::from_utf8_lossy(&line);
    Ok(match is_jsonl {
        true => line.contains("\"file_name\""),
        false => line
            .split(csv_text::DELIMITERS.map(char::from))
            .any(|name| name.trim_matches(['"', '\u{feff}', ' ', '\r', '\n']) == "file_name"),
    })
}

/// Returns `csv`, `tsv` or `jsonl` if the file has that extension.
pub(super) fn kind_of(path: &Path) -> Option<&'static str> {
    let ext = path.extension()?;
    ["csv", "tsv", "jsonl"].into_iter().find(|kind| ext.eq_ignore_ascii_case(kind))
}

/// Adds a file by its path. The empty path has no file.
fn add(names: &mut Names, dirs: &mut HashMap<String, usize>, path: &str) -> Option<()> {
    let name = Path::new(path).file_name().unwrap_or_default();
    let key = Path::new(path).parent().and_then(Path::to_str).unwrap_or_default();
    let dir = match dirs.get(key) {
        Some(&dir) => dir,
        None => {
            let dir = names.add_dir(PathBuf::from(key), i64::MIN);
            dirs.insert(key.to_owned(), dir);
            dir
        }
    };
    names.push(dir, name)
}

/// Returns the error of a table of text.
fn text_error(path: &Path) -> impl Fn(csv_text::TextFault) -> Error {
    |fault| bad_line(path, fault.line, &fault.reason)
}

fn bad_line(table: &Path, line: u64, reason: &str) -> Error {
    fail!(Format, "line {line}: {reason}").at(table)
}

fn no_lines(table: &Path) -> Error {
    fail!(Format, "the table lists no image: expected a line such as `cat/1.jpg,cat` for each")
        .at(table)
}

/// Reads the cells of a table whose columns are separated by commas or tabs.
fn from_csv(path: &Path, options: &FolderOptions) -> Result<Cells, Error> {
    let bytes = read_table_bytes(path, options)?;
    let text = csv_text::decoded(&bytes).map_err(text_error(path))?;
    let is_tsv = kind_of(path) == Some("tsv");
    let declared = csv_text::declared_delimiter(&text);
    let delimiter = match options.table.delimiter {
        Some(given) => u8::try_from(given).ok().filter(|byte| byte.is_ascii() && !b"\"\r\n".contains(byte)).ok_or_else(|| {
            fail!(
                Format,
                "line 1: `delimiter` is {given:?}, expected a character of ASCII that is no quote and no line break"
            )
            .at(path)
        })?,
        None => match declared {
            Some(declared) => declared,
            None => csv_text::delimiter(&text, if is_tsv { b'\t' } else { b',' }).map_err(text_error(path))?,
        },
    };
    let quotes = options.table.quotes.unwrap_or(!is_tsv);
    let rows = csv_text::rows(&text, delimiter, quotes).map_err(text_error(path))?;
    // The line that declares the delimiter has no cells.
    let mut rows = rows.into_iter().skip(usize::from(declared.is_some())).peekable();
    let Some((line, first)) = rows.peek() else {
        return Err(no_lines(path));
    };
    let is_quoted = |cell: &String| cell.len() > 1 && cell.starts_with('"') && cell.ends_with('"');
    if !quotes && first.iter().all(is_quoted) {
        return Err(fail!(
            Format,
            "line {line}: the names of the columns are in quotes, which a .tsv is read with: set `quotes` to read it without them"
        )
        .at(path));
    }
    let line = *line;
    let has_header = has_header(first, options).map_err(|reason| bad_line(path, line, &reason))?;
    let mut names = match has_header {
        true => rows.next().map(|(_, names)| names).unwrap_or_default(),
        false => vec!["path".to_owned(), LABEL.to_owned()],
    };
    let rows: Vec<csv_text::Row> = rows.collect();
    let has_one_more = |(_, row): &csv_text::Row| row.len() == names.len() + 1;
    if has_header && !rows.is_empty() && rows.iter().all(has_one_more) {
        if !is_index(rows.iter().map(|(_, row)| row.first().map(String::as_str))) {
            let (found, expected) = (names.len(), names.len() + 1);
            let reason = format!(
                "{found} names of columns, but each other line has {expected} cells: name all columns"
            );
            return Err(bad_line(path, line, &reason));
        }
        // R's `write.table` has no name for the names of rows.
        names.insert(0, String::new());
    }
    let wanted = || column::shown(&names.join(", ")).into_owned();
    let line = |(line, row): csv_text::Row| {
        if row.len() != names.len() {
            let (found, expected, names) = (row.len(), names.len(), wanted());
            let reason = format!(
                "{found} columns, expected {expected} ({names}): quote a value that has a comma"
            );
            return (line, Err(reason));
        }
        (line, Ok(row.into_iter().map(Json::String).collect()))
    };
    let lines = rows.into_iter().map(line).collect();
    Ok(Cells { lines, is_text: true, names: names.clone() })
}

/// Returns whether the first line of a table has the names of its columns.
///
/// # Errors
///
/// If it may be either.
fn has_header(first: &[String], options: &FolderOptions) -> Result<bool, String> {
    let is_chosen = options.table.image.is_some() || matches!(options.label, Labels::Column(_));
    let is_known = |cell: &String| {
        let mut known = PATHS.iter().chain(&AUDIO_PATHS).chain(&VIDEO_PATHS).chain(&NO_PATHS);
        known.any(|name| cell.eq_ignore_ascii_case(name))
    };
    // A class may be called as a column of paths: `1.wav,audio`.
    let is_file = |cell: &String| is_picture(cell) || is_other_media(cell);
    if is_chosen || first.iter().any(is_known) && !first.iter().any(is_file) {
        return Ok(true);
    }
    if first.first().is_some_and(|cell| cell.contains(['.', '/', '\\'])) {
        return Ok(false);
    }
    let is_value = |cell: &String| cell.parse::<f64>().is_ok_and(f64::is_finite) || is_file(cell);
    if first.iter().any(is_value) {
        let line = column::shown(&first.join(", ")).into_owned();
        return Err(format!(
            "{line:?} is neither the names of columns nor the path of an image, audio or video file: write a first line such \
             as `path,label`"
        ));
    }
    Ok(true)
}

/// Reads the cells of a file of JSON objects, one on each line.
fn from_json_lines(path: &Path, options: &FolderOptions) -> Result<Cells, Error> {
    let bytes = read_table_bytes(path, options)?;
    let text = csv_text::decoded(&bytes).map_err(text_error(path))?;
    let (mut names, mut lines) = (Vec::<String>::new(), vec![]);
    for (line, text) in (1..).zip(text.split('\n')) {
        if text.trim().is_empty() {
            continue;
        }
        let object = match serde_json::from_str(text) {
            Ok(Json::Object(object)) => Ok(object),
            Ok(_) => Err("not a JSON object".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let cells = object.and_then(|object| {
            if names.is_empty() {
                names = object.keys().cloned().collect();
            }
            cells_of(object, &names)
        });
        lines.push((line, cells));
    }
    if let (true, Some((line, Err(reason)))) = (names.is_empty(), lines.first()) {
        return Err(bad_line(path, *line, reason));
    }
    Ok(Cells { names, is_text: false, lines })
}

/// Returns the values of an object in the order of the columns.
fn cells_of(
    mut object: serde_json::Map<String, Json>,
    names: &[String],
) -> Result<Vec<Json>, String> {
    if object.len() > names.len() || object.is_empty() {
        let (found, expected) = (object.len(), names.len());
        return Err(format!("{found} keys, expected {expected} as in the first line"));
    }
    let cell = |name: &String| {
        let missing = || format!("key {:?} is missing; the first line has it", column::shown(name));
        object.remove(name).ok_or_else(missing)
    };
    names.iter().map(cell).collect()
}

/// Refuses a table in a build that reads none.
#[cfg(not(feature = "tables"))]
fn read_table_bytes(table: &Path, _: &FolderOptions) -> Result<Vec<u8>, Error> {
    let reason = NeedsFeature { what: "tables of images", feature: "tables" };
    Err(fail!(Unsupported, "{reason}").at(table))
}

/// Reads a table's bytes.
#[cfg(feature = "tables")]
fn read_table_bytes(table: &Path, options: &FolderOptions) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![];
    let max = options.limits.max_table_bytes;
    crate::source::file::read_file(table, max, &mut bytes).at(table)?;
    Ok(bytes)
}

/// Returns whether a path has the extension of a table and is not a directory.
pub(super) fn is_table(path: &Path) -> bool {
    kind_of(path).is_some() && fs::metadata(path).is_ok_and(|found| !found.is_dir())
}
