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
//! either the list or the dataset may have more, without the extension of a video file, unless several videos differ in
//! nothing else. Two lines of a list that would be one video are refused. Kinetics' clips are `ID_000020_000030`, or `ID`
//! alone, which several clips may share; its labels are words, and not read.
//!
//! The lists that HMDB-51 itself has, `CLASS_test_splitN.txt`, are refused: their numbers are splits and no labels.

use super::{
    BoxError, Buffer, Escaped, Facts, FieldKind, FieldSpec, Fingerprint, Source, Value,
    video_format,
};
use crate::error::{AtPath as _, Error, fail};
use crate::sample::SampleId;
use crate::source::file::read_file;
use crate::warnings::warn;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::{Path, PathBuf};

/// The most bytes of a name: the longest path of a file. The ends of longer ones would take too long to compare.
const MAX_NAME_BYTES: usize = 4096;

/// A list of videos.
#[derive(Debug)]
pub(super) struct VideoList {
    pub(super) path: PathBuf,
    pub(super) videos: Vec<ListedVideo>,
}

/// The labels that a list has for the videos of a dataset without labels: a field behind those of the dataset.
pub(super) struct ListLabels {
    pub(super) field: usize,
    labels: Vec<i64>,
}

impl ListLabels {
    /// Adds the field to those of the dataset.
    pub(super) fn add_to(&self, facts: &mut Facts) {
        let mut fields = facts.fields.to_vec();
        fields.push(FieldSpec::from(("label", FieldKind::Int)));
        facts.fields = fields.into();
    }

    /// Returns the label of a video, if `field` has the labels.
    pub(super) fn value(
        &self,
        video: SampleId,
        field: usize,
    ) -> Option<Result<Value<'static>, BoxError>> {
        (field == self.field).then(|| {
            let label = usize::try_from(video.0).ok().and_then(|index| self.labels.get(index));
            label.map(|label| Value::Int(*label)).ok_or_else(|| "no such video".into())
        })
    }
}

/// A line of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ListedVideo {
    line: usize,
    /// The path as it is listed, with its extension.
    path: String,
    /// The names that the video may have in the dataset, without extensions.
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
        if is_of_hmdb51(path) {
            return Err(fail!(
                Unsupported,
                "a list of HMDB-51, whose numbers are 1 for a split's training, 2 for its test and 0 for neither: take the \
                 lists that MMAction2's tools write, with labels, or write the paths of one split to a file"
            )
            .at(path));
        }
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
        let mut found = HashMap::<usize, (&ListedVideo, &str)>::new();
        for listed in &self.videos {
            let video = names.find(listed).map_err(|error| error.at(&self.path))?;
            let Some((video, name)) = video else {
                missing.push(listed.name());
                continue;
            };
            match found.entry(video) {
                Entry::Vacant(free) => {
                    free.insert((listed, name));
                }
                Entry::Occupied(taken) => {
                    let (first, other) = *taken.get();
                    let are_clips =
                        name == other && ![listed, first].map(ListedVideo::name).contains(&name);
                    if !are_clips || listed.name() == first.name() {
                        return Err(listed.is_listed_twice(first, &paths[video]).at(&self.path));
                    }
                }
            }
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
                let cure = match missing.iter().all(|name| name.contains([',', ';'])) {
                    true => {
                        "a line is `path`, `path label` or `path frames label`, with spaces between them; a table with columns \
                         (`path,label`) is opened as the dataset itself, in the place of its folder"
                    }
                    false => {
                        "open the folder that its paths begin in; a dataset that was converted has other names, so give the list \
                         to the conversion"
                    }
                };
                let none = match count {
                    1 => format!("its only video, {first}, is not"),
                    _ => format!("none of its {count} videos, such as {first}, is"),
                };
                return Err(fail!(NotFound, "{none} in {dataset}: {cure}").at(&self.path));
            }
            let list = Escaped(&self.path.to_string_lossy()).to_string();
            warn(format_args!(
                "{list}: of its {count} videos, {dataset} lacks {found}, such as {first}"
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

    /// Returns the labels of the list for `videos`, unless the dataset has labels, its field `own`: these are then the same,
    /// or count from another number.
    ///
    /// # Errors
    ///
    /// If they are not.
    pub(super) fn labels_of(
        &self,
        videos: &dyn Source,
        own: Option<usize>,
        labels: Vec<i64>,
    ) -> Result<Option<ListLabels>, Error> {
        let Some(own) = own else {
            return Ok(Some(ListLabels { field: videos.fields().len(), labels }));
        };
        check_labels(videos, own, &labels).map_err(|error| error.at(&self.path))?;
        Ok(None)
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
        let with = videos.iter().find(|video| video.label.is_some());
        let without = videos.iter().find(|video| video.label.is_none());
        if let (Some(with), Some(without)) = (with, without) {
            return Err(fail!(
                Format,
                "line {}: no label, and line {} has one: write labels to all lines or to none",
                without.line,
                with.line
            ));
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
fn check_labels(dataset: &dyn Source, field: usize, labels: &[i64]) -> Result<(), Error> {
    let name = |video| {
        let location = dataset.locate(SampleId(video), field);
        let name = location.and_then(|location| location.key.or(location.file));
        name.map_or_else(|| video.to_string(), |name| Escaped(&name).to_string())
    };
    let (mut buffer, mut first) = (Buffer::default(), None);
    for (video, &label) in (0..).zip(labels) {
        buffer.forget();
        let Value::Int(own) = dataset.value(SampleId(video), field, &mut buffer)? else {
            let (name, kind) = (dataset.field_name(field), dataset.fields()[field].kind.word());
            return Err(fail!(
                Parameter,
                "its labels are numbers, and the dataset's field {name} has {kind}: remove the labels from the list, or open the \
                 dataset without labels to have those of the list"
            ));
        };
        let offset = label.checked_sub(own);
        let (first, first_own, first_label) = *first.get_or_insert((offset, own, label));
        if offset.is_none() || first != offset {
            return Err(fail!(
                Parameter,
                "its labels are not those of the dataset, nor count from another number: video {} has label {first_own} in the \
                 dataset and {first_label} in the list, and video {} has {own} and {label}: open the dataset without labels \
                 (`label` \"none\") to have those of the list",
                name(0),
                name(video)
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
    let path = path.replace('\\', "/");
    let path = path.trim_start_matches("./").trim_matches('/').to_owned();
    check_length(line, &path)?;
    let names = vec![video_format::stem(&path).to_owned()];
    Ok(ListedVideo { line, path, names, label })
}

fn check_length(line: usize, name: &str) -> Result<(), Error> {
    let bytes = name.len();
    if bytes > MAX_NAME_BYTES {
        return Err(fail!(
            Format,
            "line {line}: a path of {bytes} bytes, the limit is {MAX_NAME_BYTES}"
        ));
    }
    Ok(())
}

/// Returns true if a file has the name of a list of HMDB-51: `brush_hair_test_split1.txt`.
fn is_of_hmdb51(path: &Path) -> bool {
    let stem = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".txt"));
    let class = stem.and_then(|stem| stem.strip_suffix(['1', '2', '3']));
    class.is_some_and(|class| class.ends_with("_test_split"))
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
    check_length(line, id)?;
    let second = |column: Option<usize>| cell(column?)?.parse::<f64>().ok();
    let clip =
        second(start).zip(second(end)).map(|(start, end)| format!("{id}_{start:06.0}_{end:06.0}"));
    let names: Vec<String> = clip.into_iter().chain([id.to_owned()]).collect();
    Ok(ListedVideo { line, path: names[0].clone(), names, label: None })
}

/// The videos of a dataset by their names.
struct VideoNames<'a> {
    paths: &'a [String],
    /// Their paths without extensions.
    stems: VideoPathEnds<'a>,
    /// Their paths with extensions, once they are needed.
    files: OnceCell<VideoPathEnds<'a>>,
}

/// Videos by their paths, and by the ends of these. Names that several videos have are `None`.
struct VideoPathEnds<'a> {
    whole: HashMap<&'a str, Option<usize>>,
    ends: HashMap<&'a str, Option<usize>>,
}

impl<'a> VideoPathEnds<'a> {
    fn new(paths: impl Iterator<Item = &'a str>) -> Self {
        let (mut whole, mut ends) = (HashMap::new(), HashMap::new());
        let add = |names: &mut HashMap<&'a str, Option<usize>>, name, video| {
            names.entry(name).and_modify(|found| *found = None).or_insert(Some(video));
        };
        // No line has a longer name.
        let known = paths.enumerate().filter(|(_, path)| path.len() <= MAX_NAME_BYTES);
        for (video, path) in known {
            add(&mut whole, path, video);
            ends_of(path).for_each(|end| add(&mut ends, end, video));
        }
        Self { whole, ends }
    }

    /// Returns the video whose path ends in `name`, or which is an end of it; `Some(None)` if there are several.
    fn find(&self, name: &str) -> Option<Option<usize>> {
        let whole = self.whole.get(name).or_else(|| self.ends.get(name));
        let shorter = || ends_of(name).skip(1).find_map(|end| self.whole.get(end));
        whole.or_else(shorter).copied()
    }
}

impl<'a> VideoNames<'a> {
    fn new(paths: &'a [String]) -> Self {
        let stems = VideoPathEnds::new(paths.iter().map(|path| video_format::stem(path)));
        Self { paths, stems, files: OnceCell::new() }
    }

    /// Returns the video of a line and the name by which it was found; `None` if the dataset does not have it.
    ///
    /// # Errors
    ///
    /// If several videos have the name.
    fn find<'b>(&self, video: &'b ListedVideo) -> Result<Option<(usize, &'b str)>, Error> {
        let files = || VideoPathEnds::new(self.paths.iter().map(String::as_str));
        for name in &video.names {
            match self.stems.find(name) {
                Some(Some(found)) => return Ok(Some((found, name))),
                Some(None) => {
                    let file = self.files.get_or_init(files).find(&video.path).flatten();
                    let file = file.map(|found| (found, &*video.path));
                    return file.map_or_else(
                        || Err(self.several(video.line, name)),
                        |file| Ok(Some(file)),
                    );
                }
                None => {}
            }
        }
        Ok(None)
    }

    /// Returns the error of a name that several videos have.
    fn several(&self, line: usize, name: &str) -> Error {
        let is_found = |path: &&String| {
            let stem = video_format::stem(path);
            ends_of(stem).any(|end| end == name) || ends_of(name).any(|end| end == stem)
        };
        let mut found = self.paths.iter().filter(is_found);
        let [first, second] =
            [found.next(), found.next()].map(|path| path.map_or("", String::as_str));
        let cure = if first == second {
            "their paths are equal, so no list can tell them apart"
        } else if video_format::stem(first) == video_format::stem(second) {
            "list it with its extension"
        } else {
            "list it with the folders that it is in"
        };
        let [name, first, second] = [name, first, second].map(Escaped);
        fail!(
            Format,
            "line {line}: several videos of the dataset are called {name}, such as {first} and {second}: {cure}"
        )
    }
}

impl ListedVideo {
    pub(super) fn name(&self) -> &str {
        &self.names[0]
    }

    /// Returns the error of a line that lists a video of the dataset again.
    fn is_listed_twice(&self, first: &Self, video: &str) -> Error {
        let (line, path, video) = (self.line, Escaped(&self.path), Escaped(video));
        let (other, first) = (Escaped(&first.path), first.line);
        if path.0 == other.0 {
            return fail!(
                Format,
                "line {line}: {path} is in line {first} already: remove one of the lines"
            );
        }
        fail!(
            Format,
            "line {line}: {path} would be the same video as {other} in line {first}, {video}: remove one of the lines, or open \
             the folder that the paths of the list begin in"
        )
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
            let listed = of_words(7, name)?;
            names.find(&listed).map(|found| found.map(|(video, _)| video))
        };
        assert_eq!(find("walk/v1").unwrap(), Some(1));
        assert_eq!(find("frames/walk/v1").unwrap(), Some(1));
        assert_eq!(find("v2").unwrap(), Some(2));
        assert_eq!(find("run/v2").unwrap(), None);
        assert_eq!(find("alk/v2").unwrap(), None);
        assert!(find("v1").unwrap_err().to_string().contains("line 7: several"));
    }

    fn choose(paths: &[&str], text: &str) -> Result<Vec<usize>, Error> {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        let list = VideoList { path: "list.txt".into(), videos: VideoList::parse(text)? };
        list.choose(&paths, "videos").map(|(videos, _)| videos)
    }

    #[test]
    fn two_names_are_never_one_video() {
        let refused = |paths: &[&str], text: &str| choose(paths, text).unwrap_err().to_string();
        let text = refused(&["1", "2"], "ride/1 0\nwalk/1 1");
        assert!(
            text.contains("line 2: walk/1 would be the same video as ride/1 in line 1"),
            "{text}"
        );
        assert!(text.contains("list.txt"), "{text}");
        // A video whose path ends in all of the name comes before one that has only its end.
        assert_eq!(choose(&["v1", "x/a/v1"], "a/v1\nv1").unwrap(), [1, 0]);
        let text = refused(&["a/v1"], "a/v1\n\na/v1");
        assert!(text.contains("line 3: a/v1 is in line 1 already: remove one"), "{text}");
        let text = refused(&["a/v1.mp4"], "a/v1.avi\na/v1.mp4");
        assert!(text.contains("line 2: a/v1.mp4 would be the same video as a/v1.avi"), "{text}");
        let text = refused(&["a/v1", "a/v1"], "a/v1");
        assert!(text.contains("several videos") && text.contains("are equal"), "{text}");
        // Kinetics has several clips of one video.
        let kinetics = "youtube_id,time_start,time_end\nabc,1,11\nabc,20,30\n";
        assert_eq!(choose(&["abc"], kinetics).unwrap(), [0, 0]);
        let twice = "youtube_id,time_start,time_end\nabc,1,11\nabc,1,11\n";
        for path in ["abc", "abc_000001_000011.mp4"] {
            assert!(refused(&[path], twice).contains("line 3: abc_000001_000011 is in line 2"));
        }
    }

    #[test]
    fn extensions_tell_videos_of_one_name_apart() {
        let paths = ["a/v0.avi", "a/v0.mp4", "b/v0.mp4"];
        assert_eq!(choose(&paths, "a/v0.mp4\na/v0.avi").unwrap(), [1, 0]);
        assert_eq!(choose(&paths, "x/a/v0.mp4\nb/v0.avi").unwrap(), [1, 2]);
        let refused = |text: &str| choose(&paths, text).unwrap_err().to_string();
        for name in ["a/v0", "a/v0.mkv"] {
            let text = refused(name);
            assert!(
                text.contains(
                    "called a/v0, such as a/v0.avi and a/v0.mp4: list it with its extension"
                ),
                "{text}"
            );
        }
        assert_eq!(
            choose(&paths[1..], "v0.avi\n").unwrap_err().to_string().matches("folders").count(),
            1
        );
        let text = refused("a/v0.mp4\na/v0.mp4");
        assert!(text.contains("line 2: a/v0.mp4 is in line 1 already"), "{text}");
    }

    #[test]
    fn labels_are_on_all_lines_or_on_none() {
        let error = VideoList::parse("a 1\n\nb\nc 2").unwrap_err().to_string();
        assert!(error.contains("line 3: no label, and line 1 has one"), "{error}");
    }

    #[test]
    fn names_have_a_limit() {
        let long = "a/".repeat(2048);
        assert!(VideoList::parse(&format!("{long} 1")).is_ok());
        let error = VideoList::parse(&format!("x\n{long}bc")).unwrap_err().to_string();
        assert!(error.contains("line 2: a path of 4098 bytes"), "{error}");
        assert_eq!(choose(&[&format!("{long}bc"), "v"], "v").unwrap(), [1]);
    }

    #[test]
    fn the_lists_of_hmdb51_are_refused_by_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let read = |name: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, "a_b.avi 1\n").unwrap();
            VideoList::read(&path, 1 << 10)
        };
        let error = read("brush_hair_test_split1.txt").unwrap_err().to_string();
        assert!(error.contains("2 for its test") && error.contains("MMAction2"), "{error}");
        assert!(read("hmdb51_train_split_1_rawframes.txt").is_ok());
    }
}
