//! Images, audio files or video files whose location tells their class: folders and patterns.
//!
//! | given                      | samples, in order                                          | class            |
//! |----------------------------|------------------------------------------------------------|------------------|
//! | a folder with sub-folders  | by class; in a class by directory, in byte order of the paths; in a directory in byte order of the names     | the sub-folder |
//! | a folder without them      | by class; in a class in byte order of the names            | the name before the first `_` |
//! | a pattern: `data/**/*.jpg` | in byte order of the paths                                 | the folder that the file is in |
//! | one image, or several of one folder | as given                                          | none             |
//!
//! A folder with a `metadata.jsonl` or `metadata.csv` of its files is opened as this table (`table.rs`). Files of
//! several kinds, such as images and audio, in one folder are refused.
//!
//! Classes are numbered from 0 in the byte order of their names. This is what torchvision's
//! `ImageFolder` does, whose order of directories is `sorted(os.walk(class, followlinks=True))`, with
//! three exceptions: names that begin with a dot and [junk](super::walk::JUNK) are ignored here, and a class without images
//! keeps its number here and is refused there.
//!
//! What would be a guess is refused, unless [`Labels`] says where labels come from:
//!
//! | found                                                              | probably              |
//! |--------------------------------------------------------------------|-----------------------|
//! | class folders that are splits: two of them, no others, or one whose images are all in folders of its own | the root of a dataset |
//! | one class folder, called `images` or the like, or beside a table   | images of a table     |
//! | class folders called `images` and `masks_png`, or the like         | images and their masks |
//! | splits, or a folder `images`, beside a JSON file                   | images of annotations |
//! | a `metadata` table, or one of Parquet, in a class folder           | the same              |
//! | a folder without sub-folders, with a table beside the images       | the same              |
//! | names of files that have all the same text before `_`, or no `_`   | images without labels |
//! | a pattern that matches files of one folder                         | the same              |
//!
//! Classes from the names of files are warned of, unless they are WordNet's ids (`n01440764_1.JPEG`). So are images in
//! folders inside of the class folders, unless these are called `images` or the like: their class is the outer folder.

use super::links::{LinkCounts, Links, NotFollowed};
use super::list::{BESIDE, Ignored};
use super::options::Labels;
use super::walk::{self, FolderWalk, Listing, PendingDir, Rules};
use crate::amounts::all_are;
use crate::error::{AtPath as _, Error, fail};
use crate::parallel;
use crate::source::audio_format;
use crate::source::file_format::FileFormat;
use crate::source::image_names::{is_picture, listed_with_others};
use crate::source::location::{KnownDirs, is_below};
use crate::source::media::Media;
use crate::source::names::Names;
use crate::source::video_format;
use crate::source::{Escaped, FOLDER_FILE_NAME, Location};
use crate::warnings::warn;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// The names of splits, which are no classes.
const SPLITS: [&str; 10] =
    ["train", "training", "trn", "val", "valid", "validation", "dev", "eval", "test", "testing"];

/// The names of folders of images, audio or video files, which are no classes.
const CONTAINERS: [&str; 16] = [
    "images",
    "image",
    "imgs",
    "img",
    "photos",
    "pictures",
    "pics",
    "jpegimages",
    "data",
    "audio",
    "audios",
    "clips",
    "video",
    "videos",
    "wavs",
    "wav",
];

/// How the names of folders begin that belong to the images of another folder, in small letters.
const OF_IMAGES: [&str; 8] =
    ["label", "mask", "annotation", "segmentation", "groundtruth", "ground_truth", "gt_", "gt-"];

/// Where the labels of a folder come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LabelRule {
    #[default]
    Folder,
    FileName,
    None,
}

/// Files and their classes.
#[derive(Default)]
pub(super) struct ListedFiles {
    pub(super) names: Names,
    pub(super) media: Media,
    /// The classes of the files; empty if files have none.
    pub(super) labels: Vec<i64>,
    pub(super) labelled_by: LabelRule,
    /// The names of the classes, not escaped.
    pub(super) classes: Vec<String>,
    pub(super) ignored: Ignored,
    pub(super) links: LinkCounts,
    /// The name of the dataset in warnings.
    pub(super) name: String,
}

impl ListedFiles {
    fn add(&mut self, dir: usize, name: &OsString, label: i64) -> Result<(), Error> {
        if self.names.push(dir, name).is_none() {
            return Err(too_many_dirs().at(&self.names.dirs[dir].path));
        }
        self.labels.push(label);
        Ok(())
    }

    /// Returns what the files are.
    ///
    /// # Errors
    ///
    /// If they are of several kinds.
    pub(super) fn one_media(&self, path: &Path) -> Result<Media, Error> {
        let mut found = Media::ALL.map(|media| (media, 0, ""));
        for index in 0..self.names.len() {
            let (media, extension) = self.names.media(index);
            let (_, count, first) = &mut found[media as usize];
            *count += 1;
            if first.is_empty() {
                *first = extension;
            }
        }
        let mut found = found.into_iter().filter(|(_, count, _)| *count > 0);
        let (media, count, _) = found.next().unwrap_or_default();
        let Some((other, others, extension)) = found.next() else { return Ok(media) };
        Err(fail!(
            Format,
            "{count} {} and {others} {}, which one dataset does not mix: open the files of one kind by a pattern, such as \
             `**/*.{extension}`",
            media.noun(count),
            other.noun(others)
        )
        .at(path))
    }

    /// Refuses a list without a file, and one of files of several kinds; says which kind the files are.
    fn checked(mut self, path: &Path) -> Result<Self, Error> {
        if self.names.len() == 0 {
            let (ignored, links) = (self.ignored.count, self.links);
            let mut reasons = self.ignored.first.iter().map(|(_, reason)| *reason);
            let hint =
                reasons.find(|reason| reason.contains("a build of fuseloop") || *reason == BESIDE);
            let hint = match hint {
                Some(BESIDE) => Some("files next to the class folders".to_owned()),
                Some(hint) => Some(hint.to_owned()),
                None => of_shards(&self.ignored).or_else(|| of_other_format(&self.ignored)),
            };
            let hint = hint.map_or_else(String::new, |hint| format!(", such as {hint}"));
            let links = if links.is_empty() { String::new() } else { format!("; {links}") };
            return Err(fail!(
                Format,
                "no {} file found ({ignored} other names{links}{hint})",
                listed_with_others()
            )
            .at(path)
            .help("convert other formats to JPEG, PNG, FLAC or MP4 first; `fuseloop info --help` lists the kinds of datasets"));
        }
        self.media = self.one_media(path)?;
        Ok(self)
    }
}

pub(super) fn too_many_dirs() -> Error {
    fail!(Memory, "2^32 directories were listed already, the limit")
}

/// Names a file that is a dataset of its own, and the pattern of those like it.
fn of_shards(ignored: &Ignored) -> Option<String> {
    let ending = |path: &Path| match FileFormat::ending(path.file_name()?.to_str()?)? {
        (_, FileFormat::Folder) => None,
        (ending, _) => Some(ending),
    };
    let (first, ending) = ignored.first.iter().find_map(|(path, _)| Some((path, ending(path)?)))?;
    let pattern = first.with_file_name(format!("*{ending}"));
    Some(format!("{}: open such files by their pattern, '{}'", shown(first), shown(&pattern)))
}

/// Names the most frequent extension of files that may be meant as samples, and what to do with them.
fn of_other_format(ignored: &Ignored) -> Option<String> {
    let advice = |extension: &str| match extension {
        "npy" | "npz" | "pt" => {
            Some("arrays are members of tar shards, or given as a dataset of Python")
        }
        picture if is_picture(picture) => Some("convert the pictures to a format that is read"),
        audio if audio_format::is_unread_audio(audio) => {
            Some("convert the audio files, for example by `ffmpeg -i in.opus out.flac`")
        }
        video if video_format::is_unread_video(video) => {
            Some("convert the video files, for example by `ffmpeg -i in.mpg out.mp4`")
        }
        _ => None,
    };
    let known = ignored.extensions.iter();
    let known = known.filter_map(|(extension, count)| Some((count, extension, advice(extension)?)));
    let (count, extension, advice) = known.max_by_key(|(count, ..)| **count)?;
    Some(format!("{count} .{extension}: {advice}"))
}

/// Lists the images or the audio files of a folder.
pub(super) fn of_folder(root: &Path, rules: &Rules, labels: &Labels) -> Result<ListedFiles, Error> {
    let mut walk = FolderWalk::new(rules);
    let real = fs::canonicalize(root).at(root)?;
    let dir = PendingDir::root(real);
    match labels {
        Labels::None => {
            let listings = walk.below(root, dir)?;
            without_labels(listings, walk)?.checked(root)
        }
        Labels::FileName => {
            let listings = walk.below(root, dir)?;
            by_prefix(root, listings, walk)?.checked(root)
        }
        Labels::Column(column) => Err(fail!(
            Format,
            "`label` is the column `{column}`, but the dataset is a folder: open the table in it by its name"
        )
        .at(root)),
        Labels::Auto | Labels::Folder => {
            let mut top = walk.list(root, &dir)?;
            if top.dirs.is_empty() && *labels == Labels::Auto {
                let table = walk.tables.first().cloned();
                let list = by_prefix(root, vec![top], walk)?.checked(root)?;
                return match flat_guess(&list, table) {
                    Some(reason) => Err(fail!(Format, "{reason}").at(root)),
                    None => Ok(list),
                };
            }
            for image in top.files.drain(..) {
                walk.ignored.add(root.join(image), BESIDE);
            }
            let (list, tables) = by_folder(root, rules, &top, walk)?;
            let list = list.checked(root)?;
            match folders_guess(&list, &tables).filter(|_| *labels == Labels::Auto) {
                Some(reason) => {
                    let reason = match likely_annotations(root) {
                        Some(file) => format!(
                            "{reason}; {} may be the annotations of its images: open it by its own path",
                            shown(&file)
                        ),
                        None => reason,
                    };
                    Err(fail!(Format, "{reason}").at(root))
                }
                None => {
                    if *labels == Labels::Auto {
                        warn_of_split(root, &list);
                        if !rules.are_frames {
                            warn_of_inner_folders(root, &list);
                        }
                    }
                    Ok(list)
                }
            }
        }
    }
}

/// Returns why the classes of a folder without sub-folders would be a guess. Warns of what is probably right.
fn flat_guess(list: &ListedFiles, table: Option<PathBuf>) -> Option<String> {
    let files = list.media.nouns();
    let choose = format!(
        "set `label` to `none` to open the {files} without labels, or to `file_name` to take the text before `_` for the class"
    );
    if let Some(table) = table {
        let table = shown(&table);
        return Some(format!(
            "a table {table} lies next to the {files}: open the table by its name, or {choose}"
        ));
    }
    let classes = list.classes.len();
    if let [only] = &list.classes[..] {
        return Some(format!(
            "no class folders, and the names of all {} {files} have {:?} before `_`: {choose}",
            list.names.len(),
            Escaped(only).to_string()
        ));
    }
    let is_wordnet = |class: &String| {
        class
            .strip_prefix('n')
            .is_some_and(|id| id.len() == 8 && id.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if !list.classes.iter().all(is_wordnet) {
        let first: Vec<String> =
            list.classes.iter().take(3).map(|name| Escaped(name).to_string()).collect();
        let more = if classes > 3 { ", ..." } else { "" };
        warn(format_args!(
            "{}: no class folders: the {classes} classes are the text before `_` in the names of the files ({}{more}); set \
             `label` to `file_name` if that is right, or to `none` to open the {files} without labels",
            list.name,
            first.join(", ")
        ));
    }
    None
}

/// Returns why class folders are probably no classes. `tables` are the tables that were found, relative to the folder.
fn folders_guess(list: &ListedFiles, tables: &[PathBuf]) -> Option<String> {
    let mut used = vec![false; list.classes.len()];
    for label in &list.labels {
        if let Some(used) = usize::try_from(*label).ok().and_then(|label| used.get_mut(label)) {
            *used = true;
        }
    }
    let used: Vec<&String> = list
        .classes
        .iter()
        .zip(used)
        .filter(|(_, is_used)| *is_used)
        .map(|(class, _)| class)
        .collect();
    let names = |classes: &[&String]| {
        let names: Vec<String> =
            classes.iter().take(5).map(|name| Escaped(name).to_string()).collect();
        names.join(", ")
    };
    let files = list.media.nouns();
    let as_classes = "set `label` to `folder` to take the folders for classes";
    let is_nested = |table: &&PathBuf| {
        let is_metadata =
            table.file_stem().is_some_and(|stem| stem.eq_ignore_ascii_case("metadata"));
        let is_parquet = table.extension().is_some_and(|ext| ext.eq_ignore_ascii_case("parquet"));
        table.components().count() > 1 && (is_metadata || is_parquet)
    };
    let (splits, _): (Vec<&String>, Vec<&String>) = used.iter().partition(|class| is_split(class));
    if splits.len() > 1 || splits.len() == used.len() && !splits.is_empty() {
        let first = Escaped(splits[0]).to_string();
        return Some(format!(
            "its folders are splits of a dataset ({}): set `split`, such as to `{first}`, or open one of the folders, or {as_classes}",
            names(&splits)
        ));
    }
    if let [split] = splits[..]
        && !holds_images(list, split)
    {
        let others: Vec<&String> = used.iter().copied().filter(|class| *class != split).collect();
        let split = Escaped(split).to_string();
        return Some(format!(
            "its folder {split} has folders of its own, as a split has, but lies next to class folders ({}): set `split` to \
             `{split}` to open it alone, or {as_classes}",
            names(&others)
        ));
    }
    if let Some(table) = tables.iter().find(is_nested) {
        return Some(format!(
            "{} may list the {files}: open the table or its folder by its name, or {as_classes}",
            shown(table)
        ));
    }
    let is_container = |class: &str| CONTAINERS.iter().any(|name| class.eq_ignore_ascii_case(name));
    let images = used.iter().find(|class| is_container(class));
    if let (Some(images), Some(masks)) = (images, used.iter().find(|class| is_of_images(class))) {
        let (images, masks) = (Escaped(images), Escaped(masks));
        return Some(format!(
            "its folders {images} and {masks} are probably images and their masks, not classes: call them `images` and `masks` \
             to open each image with the mask of the same name, or {as_classes}"
        ));
    }
    let [only] = used[..] else { return None };
    let is_container = is_container(only);
    let beside = tables.iter().find(|table| table.components().count() == 1);
    let choose =
        format!("set `label` to `none` to open the {files} without labels, or {as_classes}");
    match beside {
        Some(table) => Some(format!(
            "all {files} are in the folder {}, and a table {} lies next to it: open the table by its name, or {choose}",
            names(&used),
            shown(table)
        )),
        None if is_container => Some(format!(
            "all {files} are in the folder {}, which would be the only class: {choose}",
            names(&used)
        )),
        None => None,
    }
}

/// Returns whether images lie in a class folder itself, and not only in folders inside of it.
fn holds_images(list: &ListedFiles, class: &str) -> bool {
    let dirs = (0..list.names.len()).filter_map(|index| list.names.dir_and_name(index));
    let mut paths = dirs.map(|(dir, _)| &list.names.dirs[dir].path);
    paths.any(|path| path.as_os_str() == class)
}

/// Warns of a class folder that is called like a split, except for one called `train`, which may be of the vehicle.
fn warn_of_split(root: &Path, list: &ListedFiles) {
    let is_doubtful = |class: &&String| is_split(class) && !class.eq_ignore_ascii_case("train");
    let Some(split) = list.classes.iter().find(is_doubtful) else { return };
    let split = Escaped(split);
    warn(format_args!(
        "{}: the folder {split} is called like a split of a dataset, and is a class: set `label` to `folder` if that is right, \
         or move it away from the class folders",
        shown(root)
    ));
}

/// Warns of images that lie in folders inside of the class folders: these folders may be the classes.
fn warn_of_inner_folders(root: &Path, list: &ListedFiles) {
    let is_container = |name: &str| CONTAINERS.iter().any(|other| name.eq_ignore_ascii_case(other));
    let is_inner = |path: &Path| {
        let name = path.components().nth(1).map(|part| part.as_os_str().to_string_lossy());
        name.is_some_and(|name| !is_container(&name))
    };
    let are_inner: Vec<bool> = list.names.dirs.iter().map(|dir| is_inner(&dir.path)).collect();
    let dirs = (0..list.names.len()).filter_map(|index| list.names.dir_and_name(index));
    let mut inner = dirs.map(|(dir, _)| dir).filter(|&dir| are_inner[dir]);
    let Some(first) = inner.next() else { return };
    let (count, all) = (1 + inner.count(), list.names.len());
    let first = &list.names.dirs[first].path;
    let class = first.components().next().map(|part| Path::new(part.as_os_str()));
    warn(format_args!(
        "{}: {count} of {all} {} are in folders inside of the class folders, such as {}, and have the class of the outer \
         folder, {}: set `label` to `folder` if that is right, as for clips of videos, or open a folder whose own folders \
         are the classes",
        shown(root),
        list.media.nouns(),
        shown(first),
        class.map(shown).unwrap_or_default()
    ));
}

/// Returns a JSON file of a folder, relative to it, that may be the annotations of its images: the first by name, of the
/// folder `annotations` if there is one.
fn likely_annotations(root: &Path) -> Option<PathBuf> {
    let first = |folder: &str| {
        let entries = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
        let files = entries.map(|entry| entry.path()).filter(|path| is_annotations(path));
        let found = files.min()?;
        Some(Path::new(folder).join(found.file_name()?))
    };
    first("annotations").or_else(|| first(""))
}

/// Returns whether this is the name of an existing file that may have annotations.
pub(in crate::source) fn is_annotations(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
        && path.file_name().is_some_and(|name| name != FOLDER_FILE_NAME)
        && path.is_file()
}

/// Returns whether a folder is called like a split: `train`, `Test`, `val2017`.
fn is_split(name: &str) -> bool {
    let name =
        name.trim_end_matches(|last: char| last.is_ascii_digit() || last == '_' || last == '-');
    SPLITS.iter().any(|split| name.eq_ignore_ascii_case(split))
}

/// Returns whether a folder is called like one of masks or annotations: `masks_png`, `Annotations`, `gt`.
fn is_of_images(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "gt" || OF_IMAGES.iter().any(|begin| name.starts_with(begin))
}

/// Shows the path of a file of a folder.
fn shown(path: &Path) -> String {
    Escaped(&path.to_string_lossy()).to_string()
}

/// Lists one class for each folder; several folders are read at a time. Returns the tables among the files, too.
fn by_folder(
    root: &Path,
    rules: &Rules,
    top: &Listing,
    root_walk: FolderWalk<'_>,
) -> Result<(ListedFiles, Vec<PathBuf>), Error> {
    let read = |class: &PendingDir| {
        let mut walk = FolderWalk::new(rules);
        Ok((walk.below(root, class.clone())?, walk.ignored, walk.links, walk.tables))
    };
    let read: Result<Vec<_>, Error> = parallel::map(&top.dirs, read)?.into_iter().collect();
    let FolderWalk { ignored, links, mut tables, .. } = root_walk;
    let mut list = ListedFiles { ignored, links, ..ListedFiles::default() };
    list.names.add_dir(PathBuf::new(), top.modified);
    for ((label, class), (dirs, ignored, links, below)) in (0..).zip(&top.dirs).zip(read?) {
        list.classes.push(class.path.to_string_lossy().into_owned());
        for listing in dirs {
            let dir = list.names.add_dir(listing.path, listing.modified);
            listing.files.iter().try_for_each(|name| list.add(dir, name, label))?;
        }
        list.ignored.append(ignored);
        list.links.add(links);
        tables.extend(below);
    }
    Ok((list, tables))
}

/// Lists files without classes, directory by directory.
fn without_labels(listings: Vec<Listing>, walk: FolderWalk<'_>) -> Result<ListedFiles, Error> {
    let FolderWalk { ignored, links, .. } = walk;
    let labelled_by = LabelRule::None;
    let mut list = ListedFiles { ignored, links, labelled_by, ..ListedFiles::default() };
    for listing in listings {
        let dir = list.names.add_dir(listing.path, listing.modified);
        listing.files.iter().try_for_each(|name| list.add(dir, name, 0))?;
    }
    list.labels.clear();
    Ok(list)
}

/// Lists one class for each prefix of the names.
fn by_prefix(
    root: &Path,
    listings: Vec<Listing>,
    walk: FolderWalk<'_>,
) -> Result<ListedFiles, Error> {
    let FolderWalk { ignored, links, .. } = walk;
    let (labelled_by, name) = (LabelRule::FileName, shown(root));
    let mut list = ListedFiles { ignored, links, labelled_by, name, ..ListedFiles::default() };
    let mut by_class = BTreeMap::<Vec<u8>, Vec<(usize, OsString)>>::new();
    for listing in listings {
        let dir = list.names.add_dir(listing.path.clone(), listing.modified);
        for name in listing.files {
            let bytes = name.as_encoded_bytes();
            let Some(end) = bytes.iter().position(|&byte| byte == b'_') else {
                let path = root.join(&listing.path).join(name);
                let media = Media::of(&path).unwrap_or_default();
                let ending = if media == Media::Audio { "wav" } else { "jpg" };
                return Err(fail!(
                    Format,
                    "no class: a folder without sub-folders needs names such as class_name.{ending}, or a table that is \
                     opened by its name; set `label` to `none` to open the {} without labels",
                    media.nouns()
                )
                .at(path));
            };
            by_class.entry(bytes[..end].to_vec()).or_default().push((dir, name));
        }
    }
    for (label, (class, names)) in (0..).zip(by_class) {
        // The bytes of a name before an ASCII byte are whole characters.
        list.classes.push(String::from_utf8_lossy(&class).into_owned());
        names.iter().try_for_each(|(dir, name)| list.add(*dir, name, label))?;
    }
    Ok(list)
}

/// Lists the images or the audio files that a pattern names; their paths are in the form of the pattern.
pub(super) fn of_pattern(
    spec: &str,
    links: Links,
    refuses: fn(&Path) -> Option<&'static str>,
    labels: &Labels,
) -> Result<ListedFiles, Error> {
    if let Labels::FileName | Labels::Column(_) = labels {
        return Err(fail!(
            Format,
            "the label of a file is its folder: set `label` to `folder` or `none`"
        )
        .at(spec));
    }
    let roots = spec.split("::").filter_map(|part| fs::canonicalize(fixed(part)).ok()).collect();
    let rules = Rules::new(refuses, links, roots);
    let bases: Vec<&Path> = spec.split("::").map(fixed).collect();
    let (mut list, mut dirs) = (ListedFiles::default(), HashMap::<PathBuf, usize>::new());
    let (mut classes, mut known) = (vec![], KnownDirs::new());
    // The directories before the first special character are the user's own.
    let look = |dir: &Path| match bases.contains(&dir) {
        true => Some(false),
        false => dir.is_symlink().then_some(true),
    };
    for location in Location::parse(spec)? {
        let Location::Path(path) = location else {
            return Err(fail!(
                Unsupported,
                "{location}: folders of images can only be read from local files"
            ));
        };
        let is_behind_link = links == Links::Refuse && is_below(&path, &mut known, &look);
        if let Some(reason) = why_not(&path, &rules, is_behind_link, &mut list.links) {
            list.ignored.add(path, reason);
            continue;
        }
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { continue };
        let dir = match dirs.get(parent) {
            Some(&dir) => dir,
            None => {
                let dir = list.names.add_dir(parent.to_owned(), i64::MIN);
                dirs.insert(parent.to_owned(), dir);
                classes.push(class_of(parent));
                dir
            }
        };
        list.add(dir, &name.to_owned(), 0)?;
    }
    let mut list = list.checked(Path::new(spec))?;
    let is_single = classes.iter().all(|class| Some(class) == classes.first());
    let is_pattern = spec.contains(['*', '?', '[']);
    if is_single && is_pattern && *labels == Labels::Auto {
        return Err(fail!(
            Format,
            "{} in the folder {}, which would be the only class: set `label` to `none` to open the {} without labels, or to \
             `folder`",
            all_are(list.names.len() as u64, "file"),
            classes.first().map(|name| shown(Path::new(name))).unwrap_or_default(),
            list.media.nouns()
        )
        .at(spec));
    }
    if *labels == Labels::None || is_single && *labels == Labels::Auto {
        list.labels.clear();
        list.labelled_by = LabelRule::None;
        return Ok(list);
    }
    let numbers: BTreeMap<OsString, i64> = sorted(&classes).into_iter().zip(0..).collect();
    for (index, label) in list.labels.iter_mut().enumerate() {
        let dir = list.names.dir_and_name(index).map_or(0, |(dir, _)| dir);
        *label = numbers[&classes[dir]];
    }
    list.classes = numbers.keys().map(|name| name.to_string_lossy().into_owned()).collect();
    Ok(list)
}

/// Returns each name once, in byte order.
fn sorted(names: &[OsString]) -> Vec<OsString> {
    let mut names = names.to_vec();
    names.sort_unstable_by(|a, b| a.as_encoded_bytes().cmp(b.as_encoded_bytes()));
    names.dedup();
    names
}

/// Returns the folder of a pattern, up to its first special character.
fn fixed(pattern: &str) -> &Path {
    let end = pattern.find(['*', '?', '[', '{']).unwrap_or(pattern.len());
    match pattern[..end].rfind('/') {
        Some(0) => Path::new("/"),
        Some(end) => Path::new(&pattern[..end]),
        None => Path::new("."),
    }
}

/// Returns the name of the folder that files are in.
fn class_of(dir: &Path) -> OsString {
    let whole = || fs::canonicalize(dir).ok()?.file_name().map(ToOwned::to_owned);
    dir.file_name().map(ToOwned::to_owned).or_else(whole).unwrap_or_default()
}

/// Returns why a file that a pattern names is not a sample, and counts links. With [`Links::Within`],
/// the folders on its path are checked for links too.
fn why_not(
    path: &Path,
    rules: &Rules,
    is_behind_link: bool,
    links: &mut LinkCounts,
) -> Option<&'static str> {
    if let Some(reason) = (rules.refuses)(path) {
        return Some(reason);
    }
    if path.components().any(|part| walk::is_junk(part.as_os_str())) {
        return Some("in a folder of the system or of an archiver, not of data");
    }
    let is_link = path.is_symlink();
    let outcome = match rules.links {
        Links::Follow => Ok(()),
        Links::Within => rules.links.follow(path, &rules.roots).map(drop),
        Links::Refuse if is_link || is_behind_link => Err(NotFollowed::Refused),
        Links::Refuse => Ok(()),
    };
    match outcome {
        Ok(()) => {
            links.followed += u64::from(is_link);
            None
        }
        Err(why) => {
            links.left_out(why);
            Some(why.reason())
        }
    }
}
