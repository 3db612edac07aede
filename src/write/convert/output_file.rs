//! Produces the files of one sample in a folder of images, audio or video files, and the sample's line of the table.
//!
//! A line of `metadata.jsonl` has `file_name`, and for the other fields
//!
//! | field          | column                                          |
//! |----------------|-------------------------------------------------|
//! | int, float     | a number; NaN and infinity are refused          |
//! | audio or video files | `NAME_file_name`: the name of a separate file |
//! | other bytes    | text; bytes that are not UTF-8 are refused       |
//! | JSON           | itself                                          |
//! | image, array   | `NAME_file_name`: the name of a separate file   |

use super::ImageFiles;
use super::classes::ClassFolders;
use super::layout::read_keyed;
use crate::error::{Error, fail};
use crate::sample::SampleId;
use crate::source::audio_format::of_name;
use crate::source::video_format;
use crate::source::{ClassNames, FieldKind, FieldSpec, ObjectFields, OwnedValue, Record, Source};
use crate::write::report::ImageCounts;
use crate::write::shards::{
    Columns, audio_extension, extension, file_bytes, json_text, label, last_part, safe_key,
    same_name, wrong,
};
use crate::write::value::WriteSampleError;
use serde_json::{Map, Number, Value};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The maximum number of bytes of a key in a file name: with the number and a field's name it stays
/// below 255.
const MOST_KEY: usize = 100;

/// The maximum number of classes: their numbers have five digits.
const MOST_CLASSES: i64 = 100_000;

/// How a sample's fields are stored in the folder.
pub(super) enum Shape {
    Classes { label: usize, folders: ClassFolders },
    Table { columns: Vec<String>, extensions: Columns },
}

/// The kind of bytes that are files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    Audio,
    Video,
}

impl FileKind {
    /// Returns the extension of a file by its first bytes; `None` of a format that no folder lists.
    fn extension(self, file: &[u8]) -> Option<&'static str> {
        match self {
            Self::Audio => audio_extension(file),
            Self::Video => video_format::of_file(file),
        }
    }

    /// Returns why a file is refused whose first bytes no format of its kind has.
    fn not_listed(self) -> &'static str {
        match self {
            Self::Audio => {
                "it is no WAV, FLAC, MP3 or Ogg file, and a folder lists no others: .beton, .tar, .tfrecord and .parquet store \
                 any bytes"
            }
            Self::Video => {
                "it is no AVI, MP4, MOV, Matroska or WebM file, and a folder lists no others: .beton, .tar, .tfrecord and \
                 .parquet store any bytes"
            }
        }
    }
}

/// Which fields are audio or video files.
pub(super) struct FileFields(pub(super) Vec<Option<FileKind>>);

impl FileFields {
    /// Returns whether a field is such files.
    pub(super) fn has(&self, field: usize) -> bool {
        self.kind(field).is_some()
    }

    /// Returns the kind of the files of a field.
    pub(super) fn kind(&self, field: usize) -> Option<FileKind> {
        self.0.get(field).copied().flatten()
    }

    /// Returns the extension of the file of a sample.
    ///
    /// # Errors
    ///
    /// If the file is audio or video of an unknown format: readers of the folder would not list it, so the samples after it
    /// would have other numbers.
    fn extension(
        &self,
        field: usize,
        spec: &FieldSpec,
        file: &[u8],
    ) -> Result<&'static str, WriteSampleError> {
        match self.kind(field) {
            None => Ok(extension(file)),
            Some(kind) => kind.extension(file).ok_or_else(|| wrong(spec, kind.not_listed())),
        }
    }

    /// Returns the field that has the file of a sample: the first image, or the first audio, or the first video.
    pub(super) fn main(&self, fields: &[FieldSpec]) -> Option<usize> {
        let image = fields.iter().position(|field| field.kind.is_image());
        let first = |kind| self.0.iter().position(|own| *own == Some(kind));
        image.or_else(|| first(FileKind::Audio)).or_else(|| first(FileKind::Video))
    }
}

/// Returns the name of an audio or video file next to the file of its sample; `name` is that of its field, and ends with an
/// extension. `extension` is the one of its format, if that is known.
fn second_name(
    stem: &str,
    name: &str,
    (names, is_first): (&[String], bool),
    extension: Option<&str>,
) -> String {
    let Some(extension) = extension else {
        return format!("{stem}.{name}");
    };
    // The name that the first file has is taken.
    let is_free = !is_first || name != extension;
    if is_free && of_name(name).is_some_and(|format| format.extensions[0] == extension) {
        return format!("{stem}.{name}");
    }
    let short = name.strip_suffix(".bin").unwrap_or(name);
    let longer = format!("{short}.");
    let is_taken = names.iter().any(|other| other != name && other.starts_with(&longer));
    format!("{stem}.{}.{extension}", if is_taken { name } else { short })
}

impl Shape {
    /// # Errors
    ///
    /// If a folder can't hold the fields.
    pub(super) fn new(
        fields: &[FieldSpec],
        files: &FileFields,
        names: Option<&ClassNames>,
        objects: Option<&ObjectFields>,
    ) -> Result<Self, Error> {
        let first = files.main(fields).ok_or_else(|| {
            fail!(
                Field,
                "a folder needs a field of images, or of audio or video files, but there is none"
            )
        })?;
        let mut objects = objects.iter().flat_map(|objects| objects.iter());
        if let Some((name, object)) = objects.find(|(_, object)| object.row().is_some()) {
            return Err(fail!(
                Field,
                "field {name:?} has rows of objects ({object}), which no folder of images holds: convert to .tar, .tfrecord, \
                 .parquet or .beton"
            )
            .of_field(name));
        }
        let extensions = Columns::new(fields, None)?;
        if let (2, Some(label)) = (fields.len(), label(fields)) {
            return Ok(Self::Classes { label, folders: ClassFolders::new(names) });
        }
        let mut taken = HashMap::new();
        let mut columns = Vec::with_capacity(fields.len());
        for (index, field) in fields.iter().enumerate() {
            let column = match &field.kind {
                _ if index == first => "file_name".to_owned(),
                _ if files.has(index) => format!("{}_file_name", field.name),
                FieldKind::RgbImage
                | FieldKind::BitPlaneImage
                | FieldKind::NdArray { .. }
                | FieldKind::TorchTensor { .. } => {
                    format!("{}_file_name", field.name)
                }
                _ => field.name.clone(),
            };
            if let Some(first) = taken.insert(column.clone(), &field.name) {
                return Err(same_name(first, &field.name, &column));
            }
            columns.push(column);
        }
        Ok(Self::Table { columns, extensions })
    }

    pub(super) fn leaves(
        &self,
        source: &dyn Source,
        (fields, files): (&[FieldSpec], &FileFields),
        pictures: &ImageFiles<'_>,
        id: SampleId,
    ) -> Result<(Vec<OutputFile>, String, ImageCounts), WriteSampleError> {
        let (key, mut record) = read_keyed(source, id)?;
        let images = pictures.to_files(&mut record, fields, id)?;
        let stem = stem(key.as_deref(), id);
        match self {
            Self::Classes { label, folders } => {
                let (leaf, class) = class_leaf(record, (*label, folders), (fields, files), &stem)?;
                Ok((vec![leaf], format!("{class}\n"), images))
            }
            Self::Table { columns, extensions } => {
                let names = (&columns[..], extensions);
                let (leaves, line) = table_leaves(record, (fields, files), names, &stem)?;
                Ok((leaves, line, images))
            }
        }
    }
}

/// A file of a sample, not yet written, with its path relative to the folder.
pub(super) struct OutputFile {
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
}

/// Returns the stem of the names of a sample's files.
fn stem(key: Option<&str>, id: SampleId) -> String {
    let number = format!("{:08}", id.0);
    let Some(key) = key else { return number };
    let key = safe_key(Some(key), id);
    let key = last_part(&key);
    format!("{number}_{}", &key[..key.floor_char_boundary(MOST_KEY)])
}

fn class_leaf(
    record: Record,
    (label, folders): (usize, &ClassFolders),
    (fields, files): (&[FieldSpec], &FileFields),
    stem: &str,
) -> Result<(OutputFile, i64), WriteSampleError> {
    let (mut class, mut file) = (None, (Vec::new(), ""));
    for (index, (value, field)) in record.into_iter().zip(fields).enumerate() {
        match value {
            OwnedValue::Int(value) if index == label => class = Some(value),
            value => {
                let bytes = file_bytes(value, field)?;
                let extension = files.extension(index, field, &bytes)?;
                file = (bytes, extension);
            }
        }
    }
    let class = class.filter(|class| (0..MOST_CLASSES).contains(class)).ok_or_else(|| {
        let message = format!("its class is not from 0 to {}", MOST_CLASSES - 1);
        WriteSampleError::Source(message.into())
    })?;
    let (bytes, extension) = file;
    let path = Path::new(&folders.folder(class)).join(format!("{stem}.{extension}"));
    Ok((OutputFile { path, bytes }, class))
}

fn table_leaves(
    record: Record,
    (fields, files): (&[FieldSpec], &FileFields),
    (columns, extensions): (&[String], &Columns),
    stem: &str,
) -> Result<(Vec<OutputFile>, String), WriteSampleError> {
    let (mut leaves, mut line) = (Vec::new(), Map::new());
    let main = files.main(fields);
    let rows = record.into_iter().zip(fields).zip(columns).zip(&extensions.names);
    for (index, (((value, field), column), name)) in rows.enumerate() {
        let bytes = file_bytes(value, field)?;
        let value = match &field.kind {
            _ if files.has(index) => {
                let name = match main {
                    Some(main) if main == index => {
                        format!("{stem}.{}", files.extension(index, field, &bytes)?)
                    }
                    main => {
                        let is_of_file = main.is_some_and(|main| files.has(main));
                        let ending = files.kind(index).and_then(|kind| kind.extension(&bytes));
                        second_name(stem, name, (&extensions.names, is_of_file), ending)
                    }
                };
                leaves.push(OutputFile { path: name.clone().into(), bytes });
                Value::String(name)
            }
            FieldKind::RgbImage
            | FieldKind::BitPlaneImage
            | FieldKind::NdArray { .. }
            | FieldKind::TorchTensor { .. } => {
                let is_picture = field.kind.is_image();
                let ending = if is_picture { extension(&bytes) } else { "" };
                let name = format!("{stem}.{name}{ending}");
                leaves.push(OutputFile { path: name.clone().into(), bytes });
                Value::String(name)
            }
            kind => column_value(kind, bytes).map_err(|reason| wrong(field, reason))?,
        };
        line.insert(column.clone(), value);
    }
    Ok((leaves, format!("{}\n", Value::Object(line))))
}

/// Converts a value for the table.
fn column_value(kind: &FieldKind, bytes: Vec<u8>) -> Result<Value, &'static str> {
    let text = String::from_utf8(bytes).map_err(|_| "its bytes are not UTF-8 text")?;
    match kind {
        FieldKind::Int => {
            text.parse::<i64>().map(Value::from).map_err(|_| "it is not a whole number")
        }
        FieldKind::Float => text
            .parse::<f64>()
            .ok()
            .and_then(Number::from_f64)
            .map(Value::Number)
            .ok_or("JSON has no NaN and no infinity"),
        FieldKind::Json => {
            let text = json_text(text.into_bytes());
            serde_json::from_slice(&text).map_err(|_| "it is not JSON")
        }
        _ => Ok(Value::String(text)),
    }
}
