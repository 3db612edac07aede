//! Maps fields to extensions: the name of an archive member after its key.
//!
//! | field                              | extension         | bytes                                 |
//! |------------------------------------|-------------------|---------------------------------------|
//! | the first image                    | `jpg` or `png`, … | the file; raw pixels as PNG           |
//! | another image `seg`                | `seg.jpg`, `.png` |                                       |
//! | the int `cls`, `label`, or only int | `cls`             | decimal                               |
//! | another int `n`                    | `n.cls`           | decimal                               |
//! | a float `x`                        | `x.txt`           | decimal, every bit of it              |
//! | bytes `b`                          | `b.bin`           | unchanged                             |
//! | JSON `meta`                        | `meta.json`       | the text                              |
//! | an array or tensor `depth`         | `depth.npy`       | NumPy's file                          |
//! | boxes, and other rows of objects   | `bbox.npy`        | NumPy's file, `[objects, 4]`          |
//! | the image's number `image_id`      | `image_id.id`     | decimal; never `cls`                  |
//! | the video's number `video_index`   | `video_index.id`  | decimal; never `cls`                  |
//! | user-defined                       | refused           |                                       |
//!
//! A field whose name ends with an extension of its kind keeps the name: fields read from WebDataset's
//! shards (`jpg`, `cls`, `caption.txt`, `npy`) are written under the same names. WebDataset's own
//! decoders turn `txt`, `cls`, `json` and `npy` into text, ints, objects and arrays.

use crate::error::{Error, fail};
use crate::source::audio_format::of_name;
use crate::source::{
    FORMATS, FieldKind, FieldSpec, IMAGE_EXTENSIONS, NdType, ObjectField, ObjectFields, VIDEO_INDEX,
};
use std::collections::HashMap;

/// Extensions that a bytes field keeps, beside those of audio files.
const KEPT_BYTES: [&str; 15] = [
    "bin",
    "txt",
    "text",
    "transcript",
    "mp4",
    "mkv",
    "webm",
    "avi",
    "npz",
    "pyd",
    "pkl",
    "pickle",
    "pth",
    "pt",
    "xml",
];

const KEPT_INTS: [&str; 7] = ["cls", "cls2", "class", "count", "index", "inx", "id"];

/// Returns the error of a user-defined field.
pub(in crate::write) fn custom_field(field: &str) -> Error {
    fail!(Field, "field {field:?} is user-defined: the meaning of its bytes is unknown")
        .of_field(field)
}

/// Returns the error of two fields that would have the same name.
pub(in crate::write) fn same_name(first: &str, second: &str, name: &str) -> Error {
    fail!(
        Field,
        "fields {first:?} and {second:?} would both be called {name:?}: rename one of them"
    )
}

/// The members of every sample, in the order of the fields.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::write) struct Columns {
    /// The names. Those of images lack the final `jpg` or `png`, which differs between samples: `""` or
    /// `"seg."`.
    pub(in crate::write) names: Vec<String>,
    /// The type and the shape of an object's numbers, if the field has rows of objects.
    pub(in crate::write) rows: Vec<Option<ObjectRow>>,
}

/// The type and the shape of the numbers of an object.
pub(in crate::write) type ObjectRow = (NdType, Vec<u64>);

impl Columns {
    /// # Errors
    ///
    /// If the fields can't be written to shards or files.
    pub(in crate::write) fn new(
        fields: &[FieldSpec],
        objects: Option<&ObjectFields>,
    ) -> Result<Self, Error> {
        let first_image = fields.iter().position(|field| field.kind.is_image());
        let object = |field: &FieldSpec| objects?.get(&field.name);
        let is_image_id = |field: &FieldSpec| object(field) == Some(ObjectField::ImageId);
        let label = label(fields).filter(|&index| !is_image_id(&fields[index]));
        let rows: Vec<Option<ObjectRow>> =
            fields.iter().map(|field| object(field)?.row()).collect();
        let mut names = Vec::with_capacity(fields.len());
        let mut taken = HashMap::new();
        for (index, field) in fields.iter().enumerate() {
            let name = match &field.kind {
                FieldKind::RgbImage | FieldKind::BitPlaneImage => {
                    image(&clean(field)?, Some(index) == first_image, fields)
                }
                FieldKind::Int if Some(index) == label => "cls".to_owned(),
                FieldKind::Int if is_image_id(field) || field.name == VIDEO_INDEX => {
                    with_extension(&clean(field)?, &["id"], "id")
                }
                FieldKind::Bytes if rows[index].is_some() => {
                    with_extension(&clean(field)?, &["npy"], "npy")
                }
                kind => other(&clean(field)?, kind).ok_or_else(|| custom_field(&field.name))?,
            };
            // An image reserves all of its possible names.
            let all = match field.kind {
                FieldKind::RgbImage | FieldKind::BitPlaneImage => {
                    let files = FORMATS.iter().map(|format| format.extensions[0]);
                    files.chain(["fplanes"]).map(|extension| format!("{name}{extension}")).collect()
                }
                _ => vec![name.clone()],
            };
            for one in all {
                if let Some(first) = taken.insert(one.clone(), &field.name) {
                    return Err(same_name(first, &field.name, &one));
                }
            }
            names.push(name);
        }
        Ok(Self { names, rows })
    }
}

/// Returns the int field that is a sample's class: the one named `cls`, else `label`, else the only int but for the number
/// of a video.
pub(in crate::write) fn label(fields: &[FieldSpec]) -> Option<usize> {
    let ints = || fields.iter().enumerate().filter(|(_, field)| field.kind == FieldKind::Int);
    let called = |name| ints().find(|(_, field)| field.name == name);
    let named = called("cls").or_else(|| called("label"));
    let mut all = ints().filter(|(_, field)| field.name != VIDEO_INDEX);
    let only = all.next().filter(|_| all.next().is_none());
    named.or(only).map(|(index, _)| index)
}

/// Returns a field's name in lower case, as WebDataset reads it, or an error if it can't be part of a
/// file name.
fn clean(field: &FieldSpec) -> Result<String, Error> {
    let name = field.name.to_lowercase();
    if !is_file_name(&name) {
        return Err(fail!(Field, "field {:?} can't be the name of a file", field.name)
            .of_field(&field.name));
    }
    Ok(name)
}

/// Returns true if this name, in lower case, can follow the key in a file name.
pub(in crate::write) fn is_file_name(name: &str) -> bool {
    let is_bad = |c: char| c.is_control() || matches!(c, '/' | '\\' | ':');
    let is_odd = name.split('.').any(str::is_empty) || name.ends_with("__");
    !is_odd && name.len() <= MOST && !name.contains(is_bad)
}

/// The maximum length of a field's name in bytes: with a key of 220 it stays far below the limit of any
/// reader.
const MOST: usize = 100;

/// Returns the part of an image's name before `jpg` or `png`.
fn image(name: &str, is_first: bool, fields: &[FieldSpec]) -> String {
    let (before, last) = name.rsplit_once('.').unwrap_or(("", name));
    let is_kept = IMAGE_EXTENSIONS.contains(&last);
    match (is_kept, before) {
        (true, "") => String::new(),
        (true, before) => format!("{before}."),
        // A field that is itself named `jpg` has priority for the plain name.
        (false, _) if is_first && !fields.iter().any(is_plain_picture) => String::new(),
        (false, _) => format!("{name}."),
    }
}

fn is_plain_picture(field: &FieldSpec) -> bool {
    field.kind.is_image() && IMAGE_EXTENSIONS.iter().any(|n| field.name.eq_ignore_ascii_case(n))
}

/// Returns the name of a field that is no image; `None` if the field can't be written.
fn other(name: &str, kind: &FieldKind) -> Option<String> {
    let (known, extension): (&[&str], _) = match kind {
        FieldKind::Int => (&KEPT_INTS, "cls"),
        FieldKind::Float => (&["txt", "float"], "txt"),
        FieldKind::Bytes if of_name(name).is_some() => return Some(name.to_owned()),
        FieldKind::Bytes => (&KEPT_BYTES, "bin"),
        FieldKind::Json => (&["json"], "json"),
        FieldKind::NdArray { .. } | FieldKind::TorchTensor { .. } => (&["npy"], "npy"),
        FieldKind::RgbImage | FieldKind::BitPlaneImage | FieldKind::Custom { .. } => return None,
    };
    Some(with_extension(name, known, extension))
}

/// Returns a name that ends with one of the known extensions.
fn with_extension(name: &str, known: &[&str], extension: &str) -> String {
    let last = name.rsplit('.').next().unwrap_or(name);
    if known.contains(&last) { name.to_owned() } else { format!("{name}.{extension}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, kind: FieldKind) -> FieldSpec {
        FieldSpec { name: name.to_owned(), kind }
    }

    fn array() -> FieldKind {
        FieldKind::NdArray { dtype: "<f4".parse().unwrap(), shape: vec![2] }
    }

    fn names(fields: &[FieldSpec]) -> Vec<String> {
        Columns::new(fields, None).unwrap().names
    }

    #[test]
    fn the_usual_fields_have_the_usual_names() {
        use FieldKind::{Bytes, Float, Int, Json, RgbImage};
        let fields = [
            field("image", RgbImage),
            field("label", Int),
            field("Seg", RgbImage),
            field("n", Int),
            field("x", Float),
            field("b", Bytes),
            field("meta", Json),
            field("depth", array()),
        ];
        let want = ["", "cls", "seg.", "n.cls", "x.txt", "b.bin", "meta.json", "depth.npy"];
        assert_eq!(names(&fields), want);
    }

    #[test]
    fn names_of_web_dataset_stay() {
        use FieldKind::{Bytes, Int, Json, RgbImage};
        let fields = [
            field("jpg", RgbImage),
            field("seg.png", RgbImage),
            field("cls", Int),
            field("count", Int),
            field("caption.txt", Bytes),
            field("oga", Bytes),
            field("speech.wave", Bytes),
            field("json", Json),
            field("npy", array()),
        ];
        let want = ["", "seg.", "cls", "count", "caption.txt", "oga", "speech.wave", "json", "npy"];
        assert_eq!(names(&fields), want);
        assert_eq!(names(&[field("thumb", RgbImage), field("jpg", RgbImage)]), ["thumb.", ""]);
        assert_eq!(names(&[field("y", Int)]), ["cls"]);
    }

    #[test]
    fn the_number_of_a_video_is_no_class() {
        use FieldKind::{Float, Int, RgbImage};
        let frame = || vec![field("image", RgbImage), field("video_index", Int)];
        assert_eq!(names(&frame()), ["", "video_index.id"]);
        let with = |more: FieldSpec| names(&[frame(), vec![more]].concat())[1..].join(" ");
        assert_eq!(with(field("pts", Float)), "video_index.id pts.txt");
        assert_eq!(with(field("label", Int)), "video_index.id cls");
        assert_eq!(with(field("y", Int)), "video_index.id cls");
    }

    #[test]
    fn what_cannot_be_named_is_refused() {
        use FieldKind::{Bytes, Int};
        let message = |fields: &[FieldSpec]| Columns::new(fields, None).unwrap_err().to_string();
        let error = message(&[field("A", Bytes), field("a", Bytes)]);
        assert_eq!(error, r#"fields "A" and "a" would both be called "a.bin": rename one of them"#);
        let custom = field("c", FieldKind::Custom { row_size: 8, align: 8 });
        assert!(message(&[custom]).contains("user-defined"));
        for odd in ["", ".", "a/b", "..", "a\\b", "a\0", "a..b", "x__"] {
            assert!(message(&[field(odd, Bytes), field("i", Int)]).contains("name"), "{odd}");
        }
    }
}
