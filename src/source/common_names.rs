//! Common names of images and labels, whatever names the dataset stores.
//!
//! | dataset       | image           | label               | both are also called |
//! |---------------|-----------------|---------------------|----------------------|
//! | a folder      | `image`         | `label`             |                      |
//! | WebDataset    | `jpg`           | `cls`               | `image`, `label`     |
//! | TFRecord      | `image/encoded` | `image/class/label` | `image`, `label`     |
//! | `.beton`      | any             | any                 | `image`, `label`     |
//!
//! 1. A field that is stored as `image` or `label` has that name.
//! 2. Otherwise the only image field is `image`.
//! 3. Otherwise `label` is the only int field whose name, or the end of its name after the last `/` or
//!    `.`, is `label`, `cls` or `class`. If there is none and the dataset has images, it is the only int
//!    field that is not named like another number (`id`, `index`, `count`, `height`, ...).
//! 4. A tar's rows of objects `NAME.npy`, JSON `NAME.json` and number `NAME.id` are `NAME`.
//!
//! 5. Lists of images, which have the field `NAME.length` next to them, keep their own name.
//! 6. A camera of LeRobot, whose name begins with `observation.`, keeps its own name, by which users have other cameras. It is
//!    found as `image`, too.
//!
//! If two fields qualify, neither has the common name. The stored name can always be used as well.

use super::{FieldKind, FieldSpec, Source};

const IMAGE: &str = "image";
const LABEL: &str = "label";

/// The beginning of the names of LeRobot's cameras.
const OBSERVATIONS: &str = "observation.";

/// Names of class fields.
const CLASSES: [&str; 3] = [LABEL, "cls", "class"];

/// Names of int fields that are not a class.
const OTHER_INTS: [&str; 11] = [
    "id",
    "image_id",
    "index",
    "video_index",
    "idx",
    "inx",
    "count",
    "height",
    "width",
    "channels",
    "length",
];

impl dyn Source {
    /// Returns the index of the field with this name: the name that it is stored under, or its common
    /// name.
    #[must_use]
    pub fn field_index(&self, name: &str) -> Option<usize> {
        let fields = self.fields();
        let stored = fields.iter().position(|field| field.name == name);
        stored.or_else(|| common(fields, name))
    }

    /// Returns the name of a field's output: `image` for the only image, `label` for the label, the name
    /// without the extension for rows of objects in a tar, otherwise the name that the field is stored
    /// under.
    ///
    /// # Panics
    ///
    /// Panics if there is no such field.
    #[must_use]
    pub fn field_name(&self, field: usize) -> &str {
        let fields = self.fields();
        let is_camera = fields[field].name.starts_with(OBSERVATIONS);
        let names = [IMAGE, LABEL].into_iter().filter(|name| *name != IMAGE || !is_camera);
        let names = names.chain(without_extension(&fields[field]));
        let common = names.into_iter().find(|name| common(fields, name) == Some(field));
        common.unwrap_or(&fields[field].name)
    }
}

/// Returns the int field that is called `label`, too, though its name says nothing of a class: the only one that is not
/// named like another number.
pub(super) fn guessed_label(fields: &[FieldSpec]) -> Option<usize> {
    const WORDS: [&str; 4] = [LABEL, "class", "categor", "target"];
    let says_class = |field: &FieldSpec| {
        let name = field.name.to_ascii_lowercase();
        let mut words = name.split(|letter: char| !letter.is_ascii_alphanumeric());
        WORDS.iter().any(|word| name.contains(word))
            || words.any(|word| matches!(word, "y" | "cls"))
    };
    common(fields, LABEL).filter(|index| !says_class(&fields[*index]))
}

/// Returns the field that has a common name; `None` if a field is stored under that name.
fn common(fields: &[FieldSpec], name: &str) -> Option<usize> {
    if fields.iter().any(|field| field.name == name) {
        return None;
    }
    match name {
        IMAGE => {
            only(fields, |field| field.kind.is_image()).filter(|field| !is_list(fields, *field))
        }
        LABEL => {
            let is_class = |field: &FieldSpec| is_int(field) && CLASSES.contains(&last(field));
            if fields.iter().any(is_class) {
                return only(fields, is_class);
            }
            let has_images = fields.iter().any(|field| field.kind.is_image());
            let is_free = |field: &FieldSpec| is_int(field) && !OTHER_INTS.contains(&last(field));
            if has_images { only(fields, is_free) } else { None }
        }
        _ => only(fields, |field| without_extension(field) == Some(name)),
    }
}

/// Returns whether a field has lists of images, whose lengths are a field of their own.
fn is_list(fields: &[FieldSpec], field: usize) -> bool {
    let name = Some(&*fields[field].name);
    fields.iter().any(|other| other.name.strip_suffix(".length") == name)
}

/// Returns the name of a tar's field without the extension that says its kind.
fn without_extension(field: &FieldSpec) -> Option<&str> {
    let extension = match field.kind {
        FieldKind::Bytes => ".npy",
        FieldKind::Json => ".json",
        FieldKind::Int => ".id",
        _ => return None,
    };
    field.name.strip_suffix(extension).filter(|name| !name.is_empty())
}

fn is_int(field: &FieldSpec) -> bool {
    field.kind == FieldKind::Int
}

/// Returns the end of a field's name, after the last `/` or `.`.
fn last(field: &FieldSpec) -> &str {
    field.name.rsplit(['/', '.']).next().unwrap_or(&field.name)
}

/// Returns the only field that `of` holds for; `None` if there are none or several.
fn only(fields: &[FieldSpec], of: impl Fn(&FieldSpec) -> bool) -> Option<usize> {
    let mut all = fields.iter().enumerate().filter(|(_, field)| of(field));
    let (first, _) = all.next()?;
    all.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Facts, InMemory};

    /// Returns the names of fields; `*` marks an image, `#` an int.
    fn names(fields: &[&str]) -> Vec<String> {
        let field = |text: &&str| {
            let kind = match text.as_bytes()[0] {
                b'*' => FieldKind::RgbImage,
                b'#' => FieldKind::Int,
                _ => FieldKind::Bytes,
            };
            FieldSpec { name: text[1..].to_owned(), kind }
        };
        let facts = Facts::new(fields.iter().map(field), 0);
        let named = InMemory::from_fn(facts, |_| Err("it has no samples".into()));
        let source: &dyn Source = &named;
        let names = (0..fields.len()).map(|k| source.field_name(k).to_owned());
        let names: Vec<String> = names.collect();
        for (index, (name, stored)) in names.iter().zip(fields).enumerate() {
            let stored = source.field_index(&stored[1..]);
            assert_eq!((source.field_index(name), stored), (Some(index), Some(index)));
        }
        assert_eq!(source.field_index("nothing"), None);
        names
    }

    #[test]
    fn pictures_and_labels_have_one_name_in_every_dataset() {
        assert_eq!(names(&["*image", "#label"]), ["image", "label"]);
        assert_eq!(names(&["*jpg", "#cls", "#index"]), ["image", "label", "index"]);
        let tf = ["#image/class/label", "-image/class/text", "*image/encoded", "#image/height"];
        let found = names(&tf);
        assert_eq!(found, ["label", "image/class/text", "image", "image/height"]);
        assert_eq!(names(&["*img", "#y"]), ["image", "label"]);
        assert_eq!(names(&["#y", "#id", "*img"]), ["label", "id", "image"]);
    }

    #[test]
    fn a_camera_of_lerobot_keeps_its_name() {
        let fields = ["*observation.images.top", "-action", "#index"];
        assert_eq!(names(&fields), ["observation.images.top", "action", "index"]);
    }

    #[test]
    fn a_label_is_guessed_if_its_name_says_nothing_of_a_class() {
        let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
        let guessed = |name: &str| {
            let fields = [field("image", FieldKind::RgbImage), field(name, FieldKind::Int)];
            guessed_label(&fields).is_some()
        };
        for name in ["age", "fold", "car", "year", "n"] {
            assert!(guessed(name), "{name}");
        }
        for name in [
            "label", "Class", "class_id", "labelId", "category", "target", "y", "true_y", "cls",
            "id",
        ] {
            assert!(!guessed(name), "{name}");
        }
    }

    #[test]
    fn where_two_would_do_neither_has_the_name() {
        assert_eq!(names(&["*jpg", "*seg.png", "#cls"]), ["jpg", "seg.png", "label"]);
        assert_eq!(names(&["*jpg", "#a.cls", "#b.cls"]), ["image", "a.cls", "b.cls"]);
        assert_eq!(names(&["*jpg", "#a", "#b"]), ["image", "a", "b"]);
        assert_eq!(names(&["*jpg", "#id"]), ["image", "id"]);
        assert_eq!(names(&["#n", "-text"]), ["n", "text"], "no picture, no class");
        // A field that is stored under the name has that name, whatever its kind.
        assert_eq!(names(&["*jpg", "-image", "#cls", "-label"]), ["jpg", "image", "cls", "label"]);
    }
}
