//! A dataset's fields, classes, numbers and sizes, from its tables, and the first video files: as text for people, and as JSON.

use crate::amounts::{Decimal, bytes, count, counted};
use crate::decode::bit_plane_form;
#[cfg(feature = "video")]
use crate::error::Error;
use crate::escape::Escaped;
#[cfg(feature = "video")]
use crate::sample::Limits;
use crate::sample::{SampleId, UNKNOWN};
use crate::source::beton::{BetonHead, FieldStats, Header};
use crate::source::class_counts::ClassCounts;
use crate::source::open::has_labels_apart;
use crate::source::{
    Beton, BoxError, ClassNames, Dataset, Facts, FieldKind, FieldSpec, Ignored, ImageStats,
    LinkCounts, ObjectFields, Source,
};
#[cfg(feature = "video")]
use crate::source::{VideoSummary, fields_of_videos};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The most classes that are listed in text.
const MOST_CLASSES: usize = 12;

/// The contents of a dataset. Its text is for people.
#[derive(Debug)]
pub struct DatasetSummary {
    name: String,
    /// `None` if the number is unknown.
    samples: Option<u64>,
    /// The keys of the first and the last sample.
    keys: Option<[Arc<str>; 2]>,
    fields: Vec<FieldInfo>,
    classes: Vec<ClassInfo>,
    /// The fields of objects, and a description of each.
    objects: Vec<(String, String)>,
    folder: Option<(LinkCounts, Ignored)>,
    file: Option<FileInfo>,
}

/// A field of a dataset. A user-defined field of unknown size has no kind.
#[derive(Debug)]
struct FieldInfo {
    name: String,
    kind: Option<FieldKind>,
    /// True for bytes that are known to be audio files.
    is_audio: bool,
    /// Facts about the first values of bytes that are video files: those that the dataset knows as such, and those most of
    /// which begin as such.
    videos: Option<VideosInfo>,
    stats: Option<FieldStats>,
}

/// A class with a name. The number of its samples, or of its objects, is known if the labels are in a table or a file
/// of their own.
#[derive(Debug)]
struct ClassInfo {
    number: i64,
    name: String,
    samples: Option<u64>,
    objects: Option<u64>,
}

/// The sizes of a `.beton` file.
#[derive(Debug)]
struct FileInfo {
    bytes: u64,
    page_size: u32,
    /// `None` if the size of a field is unknown.
    row_bytes: Option<usize>,
    stored_values: u64,
}

impl DatasetSummary {
    /// Reads the tables of a dataset; of labels in a table or a file of their own, all labels; of bytes, the first values, which
    /// may be video files.
    ///
    /// # Errors
    ///
    /// If the names of the classes, or the description of the fields of objects, are damaged.
    pub fn of(dataset: &Dataset) -> Result<Self, BoxError> {
        match dataset {
            Dataset::Beton(beton) => Self::of_beton(beton),
            Dataset::Folder(folder) => {
                let found = Some((folder.links(), folder.ignored().clone()));
                Ok(Self { folder: found, ..Self::of_source(&**folder, true)? })
            }
            Dataset::Source(source) => {
                Self::of_source(&**source, has_labels_apart(source.name().as_ref()))
            }
            Dataset::Stream(stream) => {
                let facts = stream.facts();
                let (names, objects) = (facts.class_names()?, facts.object_fields()?);
                Ok(Self {
                    samples: stream.known_len(),
                    fields: FieldInfo::all(stream.facts()),
                    classes: classes(names, None),
                    objects: described(objects),
                    ..Self::named(&facts.name)
                })
            }
        }
    }

    /// Describes a file with user-defined fields whose size is unknown.
    #[must_use]
    pub fn of_head(path: &Path, head: &BetonHead) -> Self {
        let fields = head.fields.iter().cloned();
        Self {
            samples: Some(head.header.num_samples),
            fields: fields
                .map(|(name, kind)| FieldInfo {
                    name,
                    kind,
                    is_audio: false,
                    videos: None,
                    stats: None,
                })
                .collect(),
            file: Some(FileInfo::new(&head.header, head.file_bytes, None, head.stored_values())),
            ..Self::named(&path.to_string_lossy())
        }
    }

    fn named(name: &str) -> Self {
        let (keys, folder, file) = (None, None, None);
        let (fields, classes, objects) = (vec![], vec![], vec![]);
        let name = name.to_owned();
        Self { name, samples: None, keys, fields, classes, objects, folder, file }
    }

    fn of_beton(beton: &Beton) -> Result<Self, BoxError> {
        let mut info = Self::of_source(beton, true)?;
        for (index, field) in info.fields.iter_mut().enumerate() {
            field.stats = beton.field_stats(index);
        }
        let (row_bytes, values) = (Some(beton.row_bytes()), beton.stored_values());
        info.file = Some(FileInfo::new(beton.header(), beton.file_bytes(), row_bytes, values));
        Ok(info)
    }

    fn of_source(source: &dyn Source, is_counted: bool) -> Result<Self, BoxError> {
        let samples = Some(source.len()).filter(|&samples| samples != UNKNOWN);
        let key = |sample| source.locate(SampleId(sample), 0)?.key;
        let ends = samples.and_then(|samples| Some([key(0)?, key(samples.checked_sub(1)?)?]));
        let (names, objects) = (source.class_names()?, source.object_fields()?);
        let is_counted = is_counted && names.iter().any(|names| names.iter().next().is_some());
        let counts = if is_counted { ClassCounts::new(source)? } else { None };
        let mut fields = FieldInfo::all(source.facts());
        #[cfg(feature = "video")]
        for index in fields_of_videos(source) {
            // Bytes that the dataset knows to be audio files may have a container of videos.
            if !fields[index].is_audio {
                fields[index].videos.get_or_insert_default();
            }
        }
        #[cfg(feature = "video")]
        for (index, field) in fields.iter_mut().enumerate() {
            if let Some(videos) = &mut field.videos {
                videos.read_first(source, index);
            }
        }
        #[cfg(not(feature = "video"))]
        let _ = &mut fields;
        Ok(Self {
            samples,
            keys: ends,
            fields,
            classes: classes(names, counts.as_ref()),
            objects: described(objects),
            ..Self::named(source.name())
        })
    }

    /// Returns the same as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut json = json!({ "name": self.name, "samples": self.samples });
        if let Some(FileInfo { bytes, page_size, row_bytes, stored_values }) = self.file {
            json["bytes"] = bytes.into();
            json["page_size"] = page_size.into();
            json["row_bytes"] = row_bytes.into();
            json["stored_values"] = stored_values.into();
        }
        json["fields"] = self.fields.iter().map(FieldInfo::to_json).collect();
        if !self.objects.is_empty() {
            json["objects"] = self.objects.iter().cloned().collect();
        }
        if let Some((_, ignored)) = &self.folder {
            // Files without an extension are under "".
            json["ignored"] = ignored.extensions.clone().into_iter().collect();
        }
        json["classes"] = self.classes.iter().map(ClassInfo::to_json).collect();
        json
    }
}

impl FieldInfo {
    /// Describes the fields of a dataset.
    fn all(facts: &Facts) -> Vec<Self> {
        let of = |(index, FieldSpec { name, kind }): (usize, &FieldSpec)| {
            let (name, kind, is_audio) = (name.clone(), Some(kind.clone()), facts.is_audio(index));
            let videos = facts.is_video(index).then(VideosInfo::default);
            Self { name, kind, is_audio, videos, stats: None }
        };
        facts.fields.iter().enumerate().map(of).collect()
    }

    fn to_json(&self) -> Value {
        let array = match &self.kind {
            Some(FieldKind::NdArray { dtype, shape } | FieldKind::TorchTensor { dtype, shape }) => {
                Some((dtype.to_string(), shape))
            }
            _ => None,
        };
        let (dtype, shape) = array.unzip();
        let mut json = json!({
            "name": self.name,
            "type": self.kind.as_ref().map_or("custom", FieldKind::word),
            "dtype": dtype,
            "shape": shape,
            "stats": self.stats.as_ref().map(stats_json),
        });
        if self.is_audio {
            json["audio"] = true.into();
        }
        if let Some(videos) = &self.videos {
            json["video"] = videos.to_json();
        }
        json
    }
}

/// The first video files of a field, as their indexes describe them.
#[derive(Debug, Default)]
struct VideosInfo {
    /// The codecs, and the number of files with each.
    codecs: BTreeMap<String, u64>,
    unreadable: u64,
    /// The errors of the first of these, with the names of the files.
    faults: Vec<String>,
    /// Why no decoder here reads files, and the names of the files.
    no_decoder: BTreeMap<String, Vec<String>>,
    height: Range<u32>,
    width: Range<u32>,
    frames: Range<u64>,
    seconds: Range<f64>,
    fps: Range<f64>,
    /// The most packets of a group of pictures.
    longest_group: u64,
}

/// The smallest and the largest of numbers; `None` without one.
type Range<T> = Option<(T, T)>;

/// The most files that are named of those that no decoder here reads for the same reason.
const MOST_NAMES: usize = 3;

/// The most unreadable video files whose errors are shown.
#[cfg(feature = "video")]
const MOST_FAULTS: usize = 3;

/// Returns the error of a video file after its name, or after its number if only the file of all samples has a name.
#[cfg(feature = "video")]
fn named_fault(source: &dyn Source, (sample, field): (SampleId, usize), error: &Error) -> String {
    let text = error.to_string();
    match source.locate(sample, field) {
        Some(place) if place.key.is_none() => format!("sample {}: {text}", sample.0),
        Some(place) if place.is_named_by(&text) => text,
        Some(place) => format!("{place}: {text}"),
        None => format!("sample {}: {text}", sample.0),
    }
}

/// Returns the name of a sample, or its number if it has none.
#[cfg(feature = "video")]
fn sample_name(source: &dyn Source, (sample, field): (SampleId, usize)) -> String {
    let place = source.locate(sample, field).filter(|place| place.key.is_some());
    place.map_or_else(|| format!("sample {}", sample.0), |place| place.to_string())
}

impl VideosInfo {
    /// Reads the indexes of the first files.
    #[cfg(feature = "video")]
    fn read_first(&mut self, source: &dyn Source, field: usize) {
        /// The files that are read.
        const FIRST: u64 = 16;
        fn add<T: PartialOrd + Copy>(range: &mut Range<T>, value: T) {
            let (least, most) = range.unwrap_or((value, value));
            let least = if value < least { value } else { least };
            *range = Some((least, if value > most { value } else { most }));
        }
        for sample in (0..source.len().min(FIRST)).map(SampleId) {
            let read = VideoSummary::read(source, (sample, field), &Limits::DEFAULT);
            let VideoSummary { codec, size, frames, seconds, longest_group, no_decoder } =
                match read {
                    Ok(summary) => summary,
                    Err(error) => {
                        self.unreadable += 1;
                        if self.faults.len() < MOST_FAULTS {
                            self.faults.push(named_fault(source, (sample, field), &error));
                        }
                        continue;
                    }
                };
            if let Some(error) = no_decoder {
                let name = sample_name(source, (sample, field));
                self.no_decoder.entry(error.to_string()).or_default().push(name);
            }
            *self.codecs.entry(codec).or_default() += 1;
            add(&mut self.height, size.height);
            add(&mut self.width, size.width);
            add(&mut self.frames, frames);
            add(&mut self.seconds, seconds);
            if seconds > 0.0 {
                add(&mut self.fps, frames as f64 / seconds);
            }
            self.longest_group = self.longest_group.max(longest_group);
        }
    }

    /// Lists the files that can't be read, and those that no decoder here reads, and why.
    fn write_faults(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.faults.iter().try_for_each(|fault| writeln!(f, "    {fault}"))?;
        let more = self.unreadable - self.faults.len() as u64;
        if more > 0 {
            writeln!(f, "    and {} more, which `fuseloop verify` lists", count(more))?;
        }
        for (why, names) in &self.no_decoder {
            let first = names.iter().take(MOST_NAMES).map(String::as_str);
            let first = first.collect::<Vec<_>>().join(", ");
            let more = match names.len().saturating_sub(MOST_NAMES) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            writeln!(f, "    {}{more}: {}", Escaped(&first), Escaped(why))?;
        }
        Ok(())
    }

    fn to_json(&self) -> Value {
        let range = |range: Option<[Value; 2]>| range.map_or(Value::Null, |range| json!(range));
        fn pair<T: Into<Value>>((least, most): (T, T)) -> [Value; 2] {
            [least.into(), most.into()]
        }
        json!({
            "codecs": self.codecs,
            "unreadable": self.unreadable,
            "faults": self.faults,
            "no_decoder": self.no_decoder,
            "height": range(self.height.map(pair)),
            "width": range(self.width.map(pair)),
            "frames": range(self.frames.map(pair)),
            "seconds": range(self.seconds.map(pair)),
            "fps": range(self.fps.map(pair)),
            "longest_group": self.longest_group,
        })
    }
}

/// Describes the files: `video files, of the first 16: 15 H.264, 1 MPEG-4 Part 2, 320 x 240 pixels, ...`.
impl fmt::Display for VideosInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("video files")?;
        let without = self.no_decoder.values().map(Vec::len).sum::<usize>() as u64;
        let read = self.codecs.values().sum::<u64>() + self.unreadable;
        let (Some(height), Some(width), Some(frames), Some(seconds)) =
            (self.height, self.width, self.frames, self.seconds)
        else {
            return match read {
                0 => Ok(()),
                1 => f.write_str(", the first one unreadable"),
                _ => write!(f, ", the first {} unreadable", count(read)),
            };
        };
        fn range<T: fmt::Display>((least, most): (T, T)) -> String {
            let (least, most) = (least.to_string(), most.to_string());
            if least == most { least } else { format!("{least} to {most}") }
        }
        let rounded = |(least, most): (f64, f64)| {
            range([least, most].map(|number| Decimal((number * 100.0).round() / 100.0)).into())
        };
        match read {
            1 => f.write_str(", of the first one:")?,
            _ => write!(f, ", of the first {}:", count(read))?,
        }
        for (codec, files) in &self.codecs {
            write!(f, " {} {},", count(*files), Escaped(codec))?;
        }
        if self.unreadable > 0 {
            write!(f, " {} unreadable,", count(self.unreadable))?;
        }
        write!(f, " {} x {} pixels, {} frames, ", range(width), range(height), range(frames))?;
        write!(f, "{} s, ", rounded(seconds))?;
        if let Some(fps) = self.fps {
            write!(f, "{} frames/s, ", rounded(fps))?;
        }
        write!(f, "a key frame every {} or sooner", count(self.longest_group))?;
        match without {
            0 => Ok(()),
            without => write!(f, "; no decoder here reads {}", count(without)),
        }
    }
}

impl ClassInfo {
    fn to_json(&self) -> Value {
        let Self { number, name, samples, objects } = self;
        json!({ "number": number, "name": name, "samples": samples, "objects": objects })
    }
}

impl FileInfo {
    fn new(header: &Header, bytes: u64, row_bytes: Option<usize>, stored_values: u64) -> Self {
        Self { bytes, page_size: header.page_size, row_bytes, stored_values }
    }
}

fn described(fields: Option<ObjectFields>) -> Vec<(String, String)> {
    let fields = fields.unwrap_or_default();
    fields.iter().map(|(name, field)| (name.to_owned(), field.to_string())).collect()
}

fn classes(names: Option<ClassNames>, counts: Option<&ClassCounts>) -> Vec<ClassInfo> {
    let class = |(number, name): (i64, &str)| ClassInfo {
        number,
        name: name.to_owned(),
        samples: counts.and_then(|counts| counts.samples(number)),
        objects: counts.and_then(|counts| counts.objects(number)),
    };
    names.unwrap_or_default().iter().map(class).collect()
}

impl fmt::Display for DatasetSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = || "sequential, number of samples unknown".to_owned();
        let samples = self.samples.map_or_else(unknown, |samples| counted(samples, "sample"));
        write!(f, "{}: {samples}", Escaped(&self.name))?;
        let fields = counted(self.fields.len() as u64, "field");
        if let Some(file) = &self.file {
            let (size, values) = (bytes(file.bytes), counted(file.stored_values, "stored value"));
            writeln!(f, ", {size}\n{fields}, {values}, pages of {}", bytes(file.page_size.into()))?;
        } else {
            writeln!(f)?;
            if let Some([first, last]) = &self.keys {
                writeln!(f, "from {} to {}", Escaped(first), Escaped(last))?;
            }
            if let Some((links, ignored)) = &self.folder {
                write!(f, "{}", folder_text(links, ignored))?;
            }
            writeln!(f, "{fields}")?;
        }
        for field in &self.fields {
            writeln!(f, "  {field}")?;
            field.videos.iter().try_for_each(|videos| videos.write_faults(f))?;
        }
        for field in self.fields.iter().filter(|field| field.kind.is_none()) {
            let name = Escaped(&field.name);
            writeln!(
                f,
                "field {name} is user-defined: give the size and alignment of its NumPy type \
                 (`--custom {name}=BYTES:ALIGN`) to see the ranges of the other fields"
            )?;
        }
        if !self.objects.is_empty() {
            writeln!(f, "objects")?;
        }
        for (name, what) in &self.objects {
            writeln!(f, "  {}: {what}", Escaped(name))?;
        }
        write_classes(f, &self.classes)
    }
}

/// Describes the treatment of the links in a folder, and counts the files that are no samples by their extensions;
/// empty if there is neither.
#[must_use]
pub fn folder_text(links: &LinkCounts, ignored: &Ignored) -> String {
    /// The most extensions of ignored files that are listed.
    const MOST_EXTENSIONS: usize = 8;
    let mut text = if links.is_empty() { String::new() } else { format!("{links}\n") };
    if ignored.count > 0 {
        text += &format!("{} ignored", counted(ignored.count, "other name"));
        let named = ignored.extensions.iter().filter(|(extension, _)| !extension.is_empty());
        let mut named: Vec<String> = named
            .map(|(extension, files)| format!("{} .{}", count(*files), Escaped(extension)))
            .collect();
        if named.len() > MOST_EXTENSIONS {
            named.truncate(MOST_EXTENSIONS);
            named.push("...".to_owned());
        }
        if !named.is_empty() {
            text += &format!(" ({})", named.join(", "));
        }
        text.push('\n');
    }
    text
}

fn write_classes(f: &mut fmt::Formatter<'_>, classes: &[ClassInfo]) -> fmt::Result {
    match classes.len() {
        0 => return Ok(()),
        1 => write!(f, "1 class")?,
        several => write!(f, "{} classes", count(several as u64))?,
    }
    if let Some(objects) = classes.iter().map(|class| class.objects).sum::<Option<u64>>() {
        write!(f, ", {}", counted(objects, "object"))?;
    }
    writeln!(f)?;
    for ClassInfo { number, name, samples, objects } in classes.iter().take(MOST_CLASSES) {
        let samples = match (samples, objects) {
            (Some(samples), _) => counted(*samples, "sample"),
            (None, Some(objects)) => counted(*objects, "object"),
            (None, None) => String::new(),
        };
        let line = format!("  {number:<4} {:<24} {samples}", Escaped(name).to_string());
        writeln!(f, "{}", line.trim_end())?;
    }
    if classes.len() > MOST_CLASSES {
        writeln!(f, "  and {} more", count((classes.len() - MOST_CLASSES) as u64))?;
    }
    Ok(())
}

impl fmt::Display for FieldInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Escaped(&self.name).to_string();
        let kind = self.kind.as_ref().map_or_else(|| "custom".to_owned(), kind_text);
        let files = match &self.videos {
            Some(videos) => videos.to_string(),
            None if self.is_audio => "audio files".to_owned(),
            None => String::new(),
        };
        let stats = self.stats.as_ref().map_or_else(String::new, stats_text);
        let separator = if files.is_empty() || stats.is_empty() { "" } else { ", " };
        f.write_str(format!("{name:<16} {kind:<10} {files}{separator}{stats}").trim_end())
    }
}

fn kind_text(kind: &FieldKind) -> String {
    match kind {
        FieldKind::NdArray { dtype, shape } | FieldKind::TorchTensor { dtype, shape } => {
            format!("{} {dtype} {shape:?}", kind.word())
        }
        FieldKind::Custom { row_size, .. } => format!("{} of {row_size} bytes", kind.word()),
        _ => kind.word().to_owned(),
    }
}

fn stats_text(stats: &FieldStats) -> String {
    match stats {
        FieldStats::Image(stats) => image_text(stats),
        FieldStats::Int { min: Some(min), max: Some(max) } => format!("{min} to {max}"),
        FieldStats::Float { min: Some(min), max: Some(max) } => format!("{min} to {max}"),
        FieldStats::Bytes { min: Some(min), max: Some(max) } => {
            format!("{} to {}", bytes(*min), bytes(*max))
        }
        _ => String::new(),
    }
}

fn image_text(stats: &ImageStats) -> String {
    let bit_planes = format!("as bit planes (decoded with {})", bit_plane_form());
    let stored = [
        (stats.jpeg, "as JPEG"),
        (stats.raw, "raw"),
        (stats.bit_planes, &bit_planes),
        (stats.unreadable, "unreadable"),
    ];
    let stored = stored.into_iter().filter(|(images, _)| *images > 0);
    let mut parts: Vec<_> =
        stored.map(|(images, what)| format!("{} {what}", count(images))).collect();
    if let (Some(min), Some(max)) = (stats.min, stats.max) {
        parts.push(match stats.uniform() {
            Some(size) => format!("all {} x {} pixels", size.width, size.height),
            None => format!(
                "{} to {} wide, {} to {} high",
                min.width, max.width, min.height, max.height
            ),
        });
    }
    parts.join(", ")
}

/// Returns the JSON of statistics. A float that is not finite is null, since JSON has none.
fn stats_json(stats: &FieldStats) -> Value {
    match stats {
        FieldStats::Image(stats) => json!({
            "jpeg": stats.jpeg,
            "raw": stats.raw,
            "bit_planes": stats.bit_planes,
            "unreadable": stats.unreadable,
            "min_size": stats.min.map(|size| [size.height, size.width]),
            "max_size": stats.max.map(|size| [size.height, size.width]),
            "max_pixels": stats.max_pixels,
        }),
        FieldStats::Int { min, max } => json!({ "min": min, "max": max }),
        FieldStats::Float { min, max } => json!({ "min": min, "max": max }),
        FieldStats::Bytes { min, max } => json!({ "min_bytes": min, "max_bytes": max }),
        FieldStats::Fixed => Value::Null,
    }
}
