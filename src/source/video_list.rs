//! Lists of videos: files that say which videos of a dataset belong to a split.
//!
//! | a line                                              | of                                       | label |
//! |-----------------------------------------------------|------------------------------------------|-------|
//! | `ApplyEyeMakeup/v_ApplyEyeMakeup_g08_c01.avi 1`      | UCF-101, HMDB-51 as MMAction2 writes it  | 1     |
//! | `ApplyEyeMakeup/v_ApplyEyeMakeup_g01_c01.avi`        | UCF-101's tests                          |       |
//! | `frames/v_0001 117 3`: path, frames, label          | TSN, Something-Something, jester         | 3     |
//! | `dancing,--3ouPhoy2A,20,30,train` under a line with `youtube_id` | Kinetics                     |       |
//!
//! The number of frames is that of the dataset, whatever the list says. A video is found by the end of its path, of which
//! either the list or the dataset may have more, without the extension of a video file. Kinetics' clips are
//! `ID_000020_000030`, or `ID` alone.

use super::{Buffer, Escaped, Facts, Fingerprint, Source, Value};
use crate::error::{AtPath as _, Error, fail};
use crate::sample::SampleId;
use crate::source::file::read_file;
use crate::warnings::warn;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The extensions that names of videos have in lists, and in datasets of video files.
pub(super) const EXTENSIONS: [&str; 7] = [".avi", ".mp4", ".mkv", ".webm", ".mov", ".m4v", ".mpg"];

/// A list of videos.
#[derive(Debug)]
pub(super) struct VideoList {
    pub(super) path: PathBuf,
    pub(super) videos: Vec<ListedVideo>,
}

/// A line of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListedVideo {
    line: usize,
    /// The names that the video may have in the dataset.
    names: Vec<String>,
    pub(super) label: Option<i64>,
}

impl VideoList {
    /// Reads a list of at most `max` bytes.
    ///
    /// # Errors
    ///
    /// If the file can't be read, or a line has another form.
    pub(super) fn read(path: &Path, max: u64) -> Result<Self, Error> {
        let mut bytes = vec![];
        read_file(path, max, &mut bytes).at(path)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| {
            fail!(Format, "a list of videos that is not UTF-8: save it as UTF-8").at(path)
        })?;
        let videos =
            Self::parse(text.trim_start_matches('\u{feff}')).map_err(|error| error.at(path))?;
        Ok(Self { path: path.to_owned(), videos })
    }

    /// Chooses the videos of a dataset, whose names are `paths`: their indices in the order of the list, and their labels if
    /// all have one. Warns of those that the dataset lacks.
    ///
    /// # Errors
    ///
    /// If the dataset has none of them, or several that one line may mean.
    pub(super) fn choose(
        &self,
        paths: &[String],
        dataset: &str,
    ) -> Result<(Vec<usize>, Option<Vec<i64>>), Error> {
        let names = VideoNames::new(paths);
        let (mut videos, mut labels, mut missing) = (vec![], Some(vec![]), vec![]);
        for listed in &self.videos {
            let Some(video) = names.find(listed).map_err(|error| error.at(&self.path))? else {
                missing.push(listed.name());
                continue;
            };
            videos.push(video);
            labels = labels.zip(listed.label).map(|(mut labels, label)| {
                labels.push(label);
                labels
            });
        }
        if let Some(first) = missing.first() {
            let (found, count, first) = (missing.len(), self.videos.len(), Escaped(first));
            let dataset = Escaped(dataset);
            if videos.is_empty() {
                return Err(fail!(
                    NotFound,
                    "none of its {count} videos, such as {first}, is in {dataset}: open the folder that its paths begin in"
                )
                .at(&self.path));
            }
            let list = Escaped(&self.path.to_string_lossy()).to_string();
            warn(format_args!(
                "{list}: {found} of its {count} videos are not in {dataset}, such as {first}"
            ));
        }
        Ok((videos, labels))
    }

    /// Returns the facts of the videos that a list chose, with the labels that it has for them.
    pub(super) fn facts(all: &Facts, videos: &[usize], labels: Option<&[i64]>) -> Facts {
        let mut print = Fingerprint::default();
        print.text("listed");
        print.number(all.fingerprint);
        videos.iter().for_each(|&video| print.number(video as u64));
        labels.into_iter().flatten().for_each(|label| print.number(label.cast_unsigned()));
        Facts { samples: videos.len() as u64, fingerprint: print.value(), ..all.clone() }
    }

    fn parse(text: &str) -> Result<Vec<ListedVideo>, Error> {
        let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
        let mut lines = lines.peekable();
        let header =
            lines.next_if(|(_, line)| line.split(',').any(|name| name.trim() == "youtube_id"));
        let videos = match header {
            Some((_, header)) => {
                let column = |name: &str| header.split(',').position(|found| found.trim() == name);
                let columns = [column("youtube_id"), column("time_start"), column("time_end")];
                lines
                    .map(|(line, text)| of_kinetics(columns, line, text))
                    .collect::<Result<Vec<_>, _>>()
            }
            None => lines.map(|(line, text)| of_words(line, text)).collect(),
        }?;
        if videos.is_empty() {
            return Err(fail!(Format, "the list has no videos"));
        }
        Ok(videos)
    }
}

/// Refuses labels of a list that are not those of its dataset, in the field `field`: these are the same, or count from another
/// number.
///
/// # Errors
///
/// If they are not, or a label can't be read.
pub(super) fn check_labels(
    dataset: &dyn Source,
    field: usize,
    labels: &[i64],
) -> Result<(), Error> {
    let (mut buffer, mut first) = (Buffer::default(), None);
    for (video, &label) in (0..).zip(labels) {
        buffer.forget();
        let Value::Int(own) = dataset.value(SampleId(video), field, &mut buffer)? else {
            return Ok(());
        };
        let offset = label.checked_sub(own);
        if offset.is_none() || *first.get_or_insert(offset) != offset {
            return Err(fail!(
                Parameter,
                "its labels are not those of the dataset, whose video {video} has label {own} and in the list {label}: open the \
                 dataset without labels (`label` \"none\") to have those of the list"
            ));
        }
    }
    Ok(())
}

/// Reads `path`, `path label` or `path frames label`.
fn of_words(line: usize, text: &str) -> Result<ListedVideo, Error> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |word: &str| {
        word.parse::<i64>().map_err(|_| {
            fail!(
                Format,
                "line {line}: {:?}, expected a number: a line is `path`, `path label` or `path frames label`",
                Escaped(word).to_string()
            )
        })
    };
    let (path, label) = match words[..] {
        [path] => (path, None),
        [path, label] => (path, Some(number(label)?)),
        [path, frames, label] => {
            number(frames)?;
            (path, Some(number(label)?))
        }
        _ => {
            return Err(fail!(
                Format,
                "line {line}: {} words, expected `path`, `path label` or `path frames label`",
                words.len()
            ));
        }
    };
    let name = path.replace('\\', "/");
    let name = EXTENSIONS.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
    let name = name.trim_start_matches("./").trim_matches('/').to_owned();
    Ok(ListedVideo { line, names: vec![name], label })
}

/// Reads a line of Kinetics' tables.
fn of_kinetics(columns: [Option<usize>; 3], line: usize, text: &str) -> Result<ListedVideo, Error> {
    let cells: Vec<&str> = text.split(',').map(str::trim).collect();
    let cell = |column: usize| cells.get(column).copied();
    let [Some(id), start, end] = columns else {
        return Err(fail!(Format, "line {line}: no column youtube_id"));
    };
    let missing = || fail!(Format, "line {line}: {} columns, and no youtube_id", cells.len());
    let id = cell(id).filter(|id| !id.is_empty()).ok_or_else(missing)?;
    let second = |column: Option<usize>| cell(column?)?.parse::<f64>().ok();
    let clip =
        second(start).zip(second(end)).map(|(start, end)| format!("{id}_{start:06.0}_{end:06.0}"));
    Ok(ListedVideo { line, names: clip.into_iter().chain([id.to_owned()]).collect(), label: None })
}

/// The videos of a dataset by the ends of their paths.
pub(super) struct VideoNames<'a> {
    whole: HashMap<&'a str, usize>,
    /// Those of which several videos have one are `None`.
    ends: HashMap<&'a str, Option<usize>>,
}

impl<'a> VideoNames<'a> {
    pub(super) fn new(paths: &'a [String]) -> Self {
        let (mut whole, mut ends) = (HashMap::new(), HashMap::new());
        for (video, path) in paths.iter().enumerate() {
            whole.insert(&**path, video);
            for end in ends_of(path) {
                ends.entry(end).and_modify(|found| *found = None).or_insert(Some(video));
            }
        }
        Self { whole, ends }
    }

    /// Returns the video of a line; `None` if the dataset does not have it.
    ///
    /// # Errors
    ///
    /// If several videos have the name.
    pub(super) fn find(&self, video: &ListedVideo) -> Result<Option<usize>, Error> {
        for name in &video.names {
            if let Some(found) = ends_of(name).find_map(|end| self.whole.get(end)) {
                return Ok(Some(*found));
            }
            match self.ends.get(&**name) {
                Some(Some(found)) => return Ok(Some(*found)),
                Some(None) => {
                    return Err(fail!(
                        Format,
                        "line {}: several videos of the dataset are called {}: list them with the folders that they are in",
                        video.line,
                        Escaped(name)
                    ));
                }
                None => {}
            }
        }
        Ok(None)
    }
}

impl ListedVideo {
    pub(super) fn name(&self) -> &str {
        &self.names[0]
    }
}

/// Returns a path, and what is left of it without its first folders.
fn ends_of(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.split_once('/').map(|(_, end)| end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_and_labels(text: &str) -> Vec<(String, Option<i64>)> {
        let videos = VideoList::parse(text).unwrap();
        videos.iter().map(|video| (video.name().to_owned(), video.label)).collect()
    }

    #[test]
    fn lists_of_known_datasets_are_read() {
        let found = names_and_labels("a/v_a_g01_c01.avi 1\r\n\nb/v_b_g01_c01.avi 2\n");
        assert_eq!(found, [("a/v_a_g01_c01".into(), Some(1)), ("b/v_b_g01_c01".into(), Some(2))]);
        assert_eq!(names_and_labels("./a/v.mp4"), [("a/v".into(), None)]);
        assert_eq!(names_and_labels("frames/v_0001 117 3"), [("frames/v_0001".into(), Some(3))]);
        let kinetics =
            "label,youtube_id,time_start,time_end,split\nriding a bike,--3ou,20,30,train\n";
        let videos = VideoList::parse(kinetics).unwrap();
        assert_eq!(videos[0].names, ["--3ou_000020_000030", "--3ou"]);
    }

    #[test]
    fn other_lines_are_refused_by_their_number() {
        let refused = |text: &str| VideoList::parse(text).unwrap_err().to_string();
        assert!(refused("a 1\nb many").contains("line 2: \"many\""));
        assert!(refused("a b c 4").contains("line 1: 4 words"));
        assert!(refused("a 1.5 4").contains("line 1"));
        assert!(refused("\n").contains("no videos"));
        assert!(refused("label,youtube_id\nriding").contains("line 2: 1 columns"));
    }

    #[test]
    fn a_video_is_found_by_the_end_of_its_path() {
        let paths = ["ride/v1", "walk/v1", "walk/v2"].map(str::to_owned);
        let names = VideoNames::new(&paths);
        let find = |name: &str| {
            names.find(&ListedVideo { line: 7, names: vec![name.into()], label: None })
        };
        assert_eq!(find("walk/v1").unwrap(), Some(1));
        assert_eq!(find("frames/walk/v1").unwrap(), Some(1));
        assert_eq!(find("v2").unwrap(), Some(2));
        assert_eq!(find("run/v2").unwrap(), None);
        assert_eq!(find("alk/v2").unwrap(), None);
        assert!(find("v1").unwrap_err().to_string().contains("line 7: several"));
    }
}
