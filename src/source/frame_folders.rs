//! Folders of frames: a dataset of images, of which those of one folder are the frames of a video.
//!
//! ```text
//! images of any source       videos
//! ride/v1/img_00001.jpg  ─┐
//! ride/v1/img_00002.jpg  ─┴▶ ride/v1: 2 frames
//! walk/v7/img_1.jpg      ─┐
//! walk/v7/img_10.jpg     ─┼▶ walk/v7: 3 frames, img_1 img_2 img_10
//! walk/v7/img_2.jpg      ─┘
//! ```
//!
//! The videos are in the order of their first images, and the frames of a video in the natural order of their names:
//! numbers are compared by value, other characters byte by byte. Names are those that a source has for its samples, so
//! that the members of tar files are grouped as files are. The images of one folder in two datasets that are joined are
//! two videos.
//!
//! The names of a video differ in one number: other images of the folder, such as its optical flow, are no frames of it, and
//! refused. A damaged line of a table, which has no path, is a video of its own, which can't be read.

use super::frames::{FrameTimes, Frames};
use super::video_list::{ListLabels, VideoList};
use super::{BoxError, Buffer, Escaped, Facts, Fingerprint, Record, SampleLocation, Source, Value};
use crate::error::{Error, fail};
use crate::sample::SampleId;
use fuseloop_ops::Size;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Images that are grouped to videos by their folders. In every other field, a video has the value of its
/// first frame.
pub(crate) struct FrameFolders {
    facts: Facts,
    images: Arc<dyn Source>,
    /// The field of `images` that has the frames.
    field: usize,
    /// The index of the first frame of each video, and the number of all frames.
    starts: Vec<u64>,
    /// The sample of each frame; empty if that is its index.
    order: Vec<u64>,
    fps: f64,
    labels: Option<ListLabels>,
}

impl FrameFolders {
    /// Groups the images of field `field`; frames have `fps` frames per second.
    ///
    /// # Errors
    ///
    /// If the dataset has no names for its samples, or the names of a video do not differ in one number; or if it is a
    /// selection of samples.
    pub(crate) fn new(images: Arc<dyn Source>, field: usize, fps: f64) -> Result<Self, Error> {
        if images.facts().is_selection {
            return Err(fail!(
                Parameter,
                "{}: images were selected from folders of frames, whose times would be counted without those that are left \
                 out: select videos by a list (`--video-list`, `list`), and every nth frame by `--frame-stride` (`frame_stride`)",
                Escaped(images.name())
            ));
        }
        let mut videos: Vec<Video> = vec![];
        let (mut known, mut last) = (Folders::new(), None::<(usize, Name)>);
        let mut buffer = Buffer::default();
        for sample in 0..images.len() {
            let name = Name::of(&*images, SampleId(sample), field)?;
            let component = images.component(SampleId(sample), &mut buffer)?;
            let folders = known.entry(component).or_default();
            let video = match &last {
                Some((video, other))
                    if other.folder() == name.folder() && videos[*video].component == component =>
                {
                    *video
                }
                _ => *folders.entry(name.folder().into()).or_insert_with(|| {
                    videos.push(Video::new(component));
                    videos.len() - 1
                }),
            };
            let found = &mut videos[video];
            found.check_name(name.file()).map_err(|other| {
                let (dataset, folder) = (Escaped(images.name()), Escaped(name.folder()));
                let (file, other) = (Escaped(name.file()), Escaped(&other));
                fail!(
                    Format,
                    "{dataset}: the folder {folder} has the images {other} and {file}, and the names of a video's frames \
                     differ in one number: open those of one kind by a pattern without labels ('frames/**/img_*.jpg', `label` \
                     \"none\"), or move the others"
                )
            })?;
            found.is_in_order &= match &last {
                Some((other, before)) if *other == video => {
                    natural_order(before.file(), name.file()).is_lt()
                }
                _ => found.frames.is_empty(),
            };
            found.frames.push(sample);
            last = Some((video, name));
        }
        for video in videos.iter_mut().filter(|video| !video.is_in_order) {
            let named = |&sample: &u64| {
                Ok::<_, Error>((Name::of(&*images, SampleId(sample), field)?, sample))
            };
            let mut named = video.frames.iter().map(named).collect::<Result<Vec<_>, _>>()?;
            named.sort_by(|(a, first), (b, second)| {
                natural_order(a.file(), b.file()).then(first.cmp(second))
            });
            if let Some(pair) = named.windows(2).find(|pair| pair[0].0.text == pair[1].0.text) {
                let (dataset, name) = (Escaped(images.name()), Escaped(&pair[0].0.text));
                return Err(fail!(
                    Format,
                    "{dataset}: two images are called {name}, as if two videos had one folder: rename a folder, or open \
                     each folder or tar shard by itself and join these datasets"
                ));
            }
            video.frames = named.into_iter().map(|(_, sample)| sample).collect();
        }
        if let Some(video) = videos.iter().find(|video| u32::try_from(video.frames.len()).is_err())
        {
            let (dataset, frames) = (Escaped(images.name()), video.frames.len());
            return Err(fail!(
                Memory,
                "{dataset}: a video of {frames} frames: the limit is 2^32 - 1"
            ));
        }
        let ends = videos.iter().scan(0, |end, video| {
            *end += video.frames.len() as u64;
            Some(*end)
        });
        let starts: Vec<u64> = std::iter::once(0).chain(ends).collect();
        let is_given = videos.iter().flat_map(|video| &video.frames).copied().eq(0..images.len());
        let order = match is_given {
            true => vec![],
            false => videos.iter().flat_map(|video| &video.frames).copied().collect(),
        };
        let mut print = Fingerprint::default();
        print.text("frames");
        print.number(images.fingerprint());
        starts.iter().chain(&order).for_each(|number| print.number(*number));
        let facts = Facts {
            samples: videos.len() as u64,
            fingerprint: print.value(),
            stored_bytes: None,
            page_size: None,
            ..images.facts().clone()
        };
        Ok(Self { facts, images, field, starts, order, fps, labels: None })
    }

    /// Returns the videos that a file lists, in its order, with its labels unless the dataset has labels of its own.
    ///
    /// # Errors
    ///
    /// If the file can't be read, if it lists none of the videos, or if its labels contradict those of the dataset.
    pub(crate) fn listed(self, list: &Path, max_bytes: u64) -> Result<Self, Error> {
        let list = VideoList::read(list, max_bytes)?;
        let path = |video| {
            let first = self.image(SampleId(video), 0)?;
            Ok::<_, Error>(Name::of(&*self.images, first, self.field)?.folder().replace('\\', "/"))
        };
        let paths = (0..self.facts.samples).map(path).collect::<Result<Vec<_>, _>>()?;
        let (videos, labels) = list.choose(&paths, &self.facts.name)?;
        let counts = videos.iter().map(|&video| self.starts[video + 1] - self.starts[video]);
        let mut starts = vec![0];
        starts.extend(counts.scan(0, |end, count| {
            *end += count;
            Some(*end)
        }));
        let frames = videos.iter().flat_map(|&video| self.starts[video]..self.starts[video + 1]);
        let order: Vec<u64> = frames.map(|index| self.sample(index)).collect();
        let facts = VideoList::facts(&self.facts, &videos, labels.as_deref());
        let mut listed = Self { facts, starts, order, ..self };
        let Some(labels) = labels else { return Ok(listed) };
        listed.labels = list.labels_of(&listed, listed.images.field_index("label"), labels)?;
        if let Some(own) = &listed.labels {
            own.add_to(&mut listed.facts);
        }
        Ok(listed)
    }

    /// Returns the number of frames of a video.
    fn count(&self, video: SampleId) -> Result<u32, BoxError> {
        let first = usize::try_from(video.0).ok().filter(|index| index + 1 < self.starts.len());
        let Some(first) = first else {
            return Err(format!("no such video: there are {}", self.facts.samples).into());
        };
        Ok(u32::try_from(self.starts[first + 1] - self.starts[first])?)
    }

    /// Returns the image that is a frame of a video.
    fn image(&self, video: SampleId, frame: u32) -> Result<SampleId, BoxError> {
        let count = self.count(video)?;
        if frame >= count {
            return Err(format!("no such frame: the video has {count}").into());
        }
        let index = self.starts[video.0 as usize] + u64::from(frame);
        Ok(SampleId(self.sample(index)))
    }

    /// Returns the sample of a frame, by its index among the frames of all videos.
    fn sample(&self, index: u64) -> u64 {
        self.order.get(index as usize).copied().unwrap_or(index)
    }
}

/// The videos of each component of a dataset by their folders.
type Folders = HashMap<usize, HashMap<Box<str>, usize>>;

/// The images of a video while they are grouped.
struct Video {
    /// The component of the dataset that has the video.
    component: usize,
    frames: Vec<u64>,
    is_in_order: bool,
    first_name: Box<str>,
    /// The name of each frame before and after its number, if there are two names.
    ends: Option<(Box<str>, Box<str>)>,
}

impl Video {
    fn new(component: usize) -> Self {
        let (frames, first_name) = (vec![], Box::default());
        Self { component, frames, is_in_order: true, first_name, ends: None }
    }

    /// Checks that the name of another frame differs from those before in the one number that these differ in.
    ///
    /// # Errors
    ///
    /// With a name before, if it does not.
    fn check_name(&mut self, name: &str) -> Result<(), String> {
        if self.frames.is_empty() {
            self.first_name = name.into();
        } else if *self.first_name != *name {
            if self.ends.is_none() {
                self.ends = ends(&self.first_name, name);
            }
            let of = |(before, after): &(Box<str>, Box<str>)| {
                let rest = name.strip_prefix(&**before)?;
                Some(is_number(rest.strip_suffix(&**after)?))
            };
            if self.ends.as_ref().and_then(of) != Some(true) {
                return Err(self.first_name.to_string());
            }
        }
        Ok(())
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns what two names have before and after the number that they differ in; `None` if they differ in more.
fn ends(a: &str, b: &str) -> Option<(Box<str>, Box<str>)> {
    let before = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let digits = |text: &str| text.bytes().rev().take_while(u8::is_ascii_digit).count();
    let before = before - digits(a.get(..before)?);
    let (left, right) = (&a[before..], &b[before..]);
    let after = left.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let number = right.strip_suffix(after)?;
    let is_one = is_number(number) && after.len() < left.len();
    is_one.then(|| (a[..before].into(), after.into()))
}

/// The name of an image, which has a folder, or of a line of a table that is damaged.
struct Name {
    text: Arc<str>,
    /// The position of the separator before the name in its folder.
    separator: Option<usize>,
}

impl Name {
    fn of(images: &dyn Source, sample: SampleId, field: usize) -> Result<Self, Error> {
        let dataset = Escaped(images.name());
        let name = images.locate(sample, field).and_then(|location| location.key);
        let text = name.ok_or_else(|| {
            fail!(
                Unsupported,
                "{dataset}: its images have no names, whose folders would group them to videos: open the folder of the \
                 images, or tar shards of it"
            )
        })?;
        let separator = separator(&text);
        if separator.is_none() && images.value(sample, field, &mut Buffer::default()).is_ok() {
            return Err(fail!(
                Unsupported,
                "{dataset}: the image {} is in no folder, and the frames of a video are the images of one folder: open the \
                 folder that has the folders of the videos",
                Escaped(&text)
            ));
        }
        Ok(Self { text, separator })
    }

    fn folder(&self) -> &str {
        folder(&self.text)
    }

    fn file(&self) -> &str {
        self.separator.map_or("", |at| &self.text[at + 1..])
    }
}

/// Returns the position of the last separator of folders.
fn separator(path: &str) -> Option<usize> {
    path.rfind(['/', std::path::MAIN_SEPARATOR])
}

/// Returns the folder of a path, or the path if it has none.
fn folder(path: &str) -> &str {
    separator(path).map_or(path, |at| &path[..at])
}

/// Returns the folder that a path is in, and the name that it has there.
fn split(path: &str) -> (&str, &str) {
    separator(path).map_or(("", path), |at| (&path[..at], &path[at + 1..]))
}

/// Compares names so that numbers in them are in the order of their values. Names that differ in leading zeros alone are
/// in the order of their bytes.
fn natural_order(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a.as_bytes(), b.as_bytes());
    loop {
        match (left, right) {
            ([], []) => return a.cmp(b),
            ([first, ..], [second, ..]) if first.is_ascii_digit() && second.is_ascii_digit() => {
                let (one, other) = (take_number(&mut left), take_number(&mut right));
                let order = one.len().cmp(&other.len()).then(one.cmp(other));
                if order.is_ne() {
                    return order;
                }
            }
            ([first, left_rest @ ..], [second, right_rest @ ..]) if first == second => {
                (left, right) = (left_rest, right_rest);
            }
            _ => return left.cmp(right),
        }
    }
}

/// Takes the digits that a name begins with, without leading zeros.
fn take_number<'a>(name: &mut &'a [u8]) -> &'a [u8] {
    let digits = name.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = name.split_at(digits);
    *name = rest;
    let zeros = number.iter().take_while(|&&digit| digit == b'0').count();
    &number[zeros..]
}

impl Source for FrameFolders {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, video: SampleId) -> Result<Record, BoxError> {
        let mut record = self.images.read(self.image(video, 0)?)?;
        if let Some(label) = self.labels.as_ref().and_then(|own| own.value(video, own.field)) {
            record.push(label?.into());
        }
        Ok(record)
    }

    fn value<'a>(
        &'a self,
        video: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        self.frame_value((video, 0), field, buffer)
    }

    /// Returns the folder of a video.
    fn locate(&self, video: SampleId, field: usize) -> Option<SampleLocation> {
        let first = self.locate_frame((video, 0), field)?;
        let file = first.file.map(|file| {
            // A tar file holds the images of several folders, and a table its damaged lines.
            let is_image = first.key.as_ref().is_none_or(|key| split(key).1 == split(&file).1);
            if is_image { split(&file).0.into() } else { file }
        });
        let key = first.key.map(|key| folder(&key).into());
        Some(SampleLocation { file, key, bytes: None })
    }

    fn component(&self, video: SampleId, buffer: &mut Buffer) -> Result<usize, BoxError> {
        self.images.component(self.image(video, 0)?, buffer)
    }
}

impl Frames for FrameFolders {
    fn field(&self) -> usize {
        self.field
    }

    fn times(&self, video: SampleId) -> Result<FrameTimes, BoxError> {
        Ok(FrameTimes::Constant { count: self.count(video)?, fps: self.fps })
    }

    fn has_values_of_frames(&self) -> bool {
        true
    }

    fn frame_value<'a>(
        &'a self,
        (video, frame): (SampleId, u32),
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        match self.labels.as_ref().and_then(|own| own.value(video, field)) {
            Some(label) => label,
            None => self.images.value(self.image(video, frame)?, field, buffer),
        }
    }

    fn annotated_frame_size(&self, (video, frame): (SampleId, u32)) -> Option<Size> {
        self.images.annotated_size(self.image(video, frame).ok()?)
    }

    fn locate_frame(
        &self,
        (video, frame): (SampleId, u32),
        field: usize,
    ) -> Option<SampleLocation> {
        let has_own = self.labels.as_ref().is_some_and(|own| own.field == field);
        let field = if has_own { self.field } else { field };
        self.images.locate(self.image(video, frame).ok()?, field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Column, Concat, FieldKind, FramePixels, InMemory, OwnedValue, TakeFrame};

    /// Numbers with names.
    struct Named {
        facts: Facts,
        names: Vec<&'static str>,
    }

    impl Source for Named {
        fn facts(&self) -> &Facts {
            &self.facts
        }

        fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
            Ok(vec![OwnedValue::Int(sample.0 as i64)])
        }

        fn locate(&self, sample: SampleId, _: usize) -> Option<SampleLocation> {
            Some(SampleLocation::of_key(self.names[sample.0 as usize]))
        }
    }

    fn grouped(names: &[&'static str]) -> Result<FrameFolders, Error> {
        let facts = Facts::new([("image", FieldKind::Int)], names.len() as u64);
        FrameFolders::new(Arc::new(Named { facts, names: names.to_vec() }), 0, 10.0)
    }

    fn videos(names: &[&'static str]) -> FrameFolders {
        grouped(names).unwrap()
    }

    fn frames(videos: &FrameFolders) -> Vec<Vec<u64>> {
        let of = |video: u64| {
            let count = videos.count(SampleId(video)).unwrap();
            (0..count).map(|frame| videos.image(SampleId(video), frame).unwrap().0).collect()
        };
        (0..videos.facts().samples).map(of).collect()
    }

    #[test]
    fn images_of_one_folder_are_a_video_in_the_natural_order_of_their_names() {
        let in_order = videos(&["a/1/f1.jpg", "a/1/f2.jpg", "b/1/f1.jpg"]);
        assert_eq!(frames(&in_order), [vec![0, 1], vec![2]]);
        assert!(in_order.order.is_empty());
        let names = ["a/f1.jpg", "a/f10.jpg", "a/f2.jpg", "b/f3.jpg", "a/f0.jpg", "x/a.jpg"];
        assert_eq!(frames(&videos(&names)), [vec![4, 0, 2, 1], vec![3], vec![5]]);
    }

    #[test]
    fn numbers_in_names_are_compared_by_value() {
        let mut names = ["f10", "f2", "f02", "f1a", "f1", "g", "f", "f99999999999999999999999"];
        names.sort_by(|a, b| natural_order(a, b));
        assert_eq!(names, ["f", "f1", "f1a", "f02", "f2", "f10", "f99999999999999999999999", "g"]);
    }

    #[test]
    fn a_video_is_located_by_its_folder_and_has_times_by_its_rate() {
        let videos = videos(&["a/1/f1.jpg", "a/1/f2.jpg", "b/1/f1.jpg"]);
        let place = videos.locate(SampleId(0), 0).unwrap();
        assert_eq!(place.key.as_deref(), Some("a/1"));
        let place = videos.locate_frame((SampleId(0), 1), 0).unwrap();
        assert_eq!(place.key.as_deref(), Some("a/1/f2.jpg"));
        let times = videos.times(SampleId(0)).unwrap();
        assert_eq!((times.count(), times.time(1), times.end()), (2, 0.1, 0.2));
        let read = |video, frames: &[u32]| {
            let (mut buffer, mut read) = (Buffer::default(), vec![]);
            let take: TakeFrame<'_> = &mut |frame, image| {
                let FramePixels::Stored(Value::Int(sample)) = image.pixels else {
                    panic!("the images are numbers");
                };
                read.push((frame, sample));
                Ok(())
            };
            let done = videos.read_frames(SampleId(video), frames, &mut buffer, take);
            done.map(|()| read).map_err(|error| error.frame)
        };
        assert_eq!(read(1, &[0]), Ok(vec![(0, 2)]));
        assert_eq!(read(0, &[0, 1]), Ok(vec![(0, 0), (1, 1)]));
        assert_eq!(read(1, &[0, 1]), Err(Some(1)));
        assert!(videos.times(SampleId(2)).is_err());
    }

    #[test]
    fn a_list_chooses_videos_and_has_labels() {
        let dir = tempfile::tempdir().unwrap();
        let listed = |text: &str| {
            let path = dir.path().join("list.txt");
            std::fs::write(&path, text).unwrap();
            videos(&["a/1/f1.jpg", "a/1/f2.jpg", "b/1/f1.jpg", "b/2/f1.jpg"]).listed(&path, 1 << 20)
        };
        let chosen = listed("b/2 1 5\na/1 2 7\n").unwrap();
        assert_eq!(frames(&chosen), [vec![3], vec![0, 1]]);
        let label = |video| {
            let mut buffer = Buffer::default();
            let Value::Int(label) = chosen.value(SampleId(video), 1, &mut buffer).unwrap() else {
                panic!("a label is a number");
            };
            label
        };
        assert_eq!([label(0), label(1)], [5, 7]);
        assert_eq!(chosen.facts().fields[1].name, "label");
        assert_eq!(listed("b/2.avi\nc/9.avi").unwrap().facts().samples, 1);
        assert_eq!(listed("b/2.avi").unwrap().facts().fields.len(), 1);
        let none = listed("c/9.avi 1").err().unwrap().to_string();
        assert!(none.contains("its only video, c/9, is not in"), "{none}");
        let several = listed("1 3").err().unwrap().to_string();
        assert!(several.contains("several videos"), "{several}");
    }

    #[test]
    fn names_that_differ_in_more_than_one_number_are_refused() {
        let refused = |names: &[&'static str]| grouped(names).err().unwrap().to_string();
        for names in [
            ["v/img_00001.jpg", "v/img_00002.jpg", "v/flow_x_00001.jpg"],
            ["v/a_1_2.jpg", "v/a_1_3.jpg", "v/a_2_3.jpg"],
            ["v/1.jpg", "v/2.jpg", "v/1.png"],
            ["v/f.jpg", "v/f1.jpg", "v/f2.jpg"],
            ["v/a.jpg", "v/b.jpg", "v/c.jpg"],
        ] {
            let text = refused(&names);
            assert!(text.contains("differ in one number"), "{names:?}: {text}");
        }
        let text = refused(&["v/flow_x_1.jpg", "v/img_1.jpg"]);
        assert!(text.contains("folder v has the images flow_x_1.jpg and img_1.jpg"), "{text}");
        let names = ["v/a_07_9_left8.png", "v/a_07_10_left8.png", "v/a_07_11_left8.png"];
        assert_eq!(frames(&videos(&names)), [[0, 1, 2]]);
        let names = ["v/1.jpg", "v/11.jpg", "w/x_1.jpg", "v/111.jpg", "w/x_11.jpg"];
        assert_eq!(frames(&videos(&names)), [vec![0, 1, 3], vec![2, 4]]);
        let twice = refused(&["v/1.jpg", "v/2.jpg", "w/1.jpg", "v/1.jpg"]);
        assert!(twice.contains("two images are called v/1.jpg"), "{twice}");
    }

    #[test]
    fn equal_folders_of_joined_datasets_are_two_videos() {
        let part = |names: &[&'static str]| {
            let facts = Facts::new([("image", FieldKind::Int)], names.len() as u64);
            Arc::new(Named { facts, names: names.to_vec() }) as Arc<dyn Source>
        };
        let names = ["v/1.jpg", "v/2.jpg"];
        let both = Concat::new([part(&names), part(&names)]).unwrap();
        let videos = FrameFolders::new(Arc::new(both), 0, 1.0).unwrap();
        assert_eq!(frames(&videos), [[0, 1], [2, 3]]);
        let component = |video| videos.component(SampleId(video), &mut Buffer::default()).unwrap();
        assert_eq!([component(0), component(1)], [0, 1]);
    }

    #[test]
    fn images_without_names_or_folders_are_refused() {
        let numbers = InMemory::new([("image", Column::ints([1, 2]))]).unwrap();
        let refused = FrameFolders::new(Arc::new(numbers), 0, 1.0).err().unwrap();
        assert!(refused.to_string().contains("have no names"), "{refused}");
        let refused = grouped(&["a/f1.jpg", "f2.jpg"]).err().unwrap().to_string();
        assert!(refused.contains("f2.jpg is in no folder"), "{refused}");
    }
}
