//! The names of fields in the output.
//!
//! | field name                                 | name in the output                                |
//! |--------------------------------------------|---------------------------------------------------|
//! | listed in `WriteOptions::rename`         | the name given there                              |
//! | that of objects or a mask, from a tar: `bbox.npy` | outside of a tar without the extension: `bbox` |
//! | audio whose files have one format          | in a tar its extension, such as `flac`            |
//! | the only image, with boxes                 | `image/encoded` in a TFRecord, and back to `image` |
//! | any, if all names fit the destination      | unchanged                                         |
//! | else `image/encoded`, `image/class/label` (TensorFlow's) | `image`, `label`                    |
//! | else one that fits                         | unchanged                                         |
//! | else one whose last component fits: `a/b/depth` | the last component: `depth`                  |
//! | else                                       | an error                                          |
//!
//! A `.beton` has space for 16 ASCII characters; a file name has no slash, backslash, colon or control
//! character; a feature of TFRecord and a column of Parquet or MDS can have any name. No two fields may have the same name.

use super::OutputFormat;
use crate::error::{Error, fail};
use crate::source::{FieldSpec, IMAGE_EXTENSIONS, ObjectFields, Source, mask_extensions};
use crate::write::shards::{detection_image, is_file_name, label};

/// Field names of TensorFlow's image datasets.
const WELL_KNOWN: [(&str, &str); 2] = [("image/encoded", "image"), ("image/class/label", "label")];

/// The ends of the names of fields of objects in a tar.
const MEMBERS: [&str; 3] = [".npy", ".json", ".id"];

/// The maximum length of a field's name in a `.beton`.
const BETON: usize = 16;

/// Returns the fields with their names in the output.
///
/// # Errors
///
/// If a requested name does not fit, a name that must change can't be shortened, or two names would be
/// the same.
pub(super) fn renamed(
    (fields, objects): (&[FieldSpec], &ObjectFields),
    form: OutputFormat,
    asked: &[(String, String)],
) -> Result<Vec<FieldSpec>, Error> {
    check_asked(fields, form, asked)?;
    let asked_for = |field: &FieldSpec| asked.iter().find(|(from, _)| *from == field.name);
    let own = |field: &FieldSpec| plain(field, (fields, objects), form).to_owned();
    let name =
        |field: &FieldSpec| asked_for(field).map_or_else(|| own(field), |(_, to)| to.clone());
    let all_fit = fields.iter().all(|field| fits(form, &name(field)));
    let mut new: Vec<FieldSpec> = Vec::with_capacity(fields.len());
    for field in fields {
        let name = match asked_for(field) {
            Some((_, name)) => name.clone(),
            None if all_fit => own(field),
            None => fitting(&own(field), form)?,
        };
        if let Some(index) = new.iter().position(|other| other.name == name) {
            let (first, second) = (&fields[index].name, &field.name);
            return Err(fail!(
                Field,
                "fields {first:?} and {second:?} would both be called {name:?}: {}",
                cure(second)
            ));
        }
        new.push(FieldSpec { name, kind: field.kind.clone() });
    }
    check_fixed(&new, asked, form)?;
    Ok(new)
}

/// Calls audio in a tar by the extension that all of its files have, as datasets of WebDataset do.
pub(super) fn audio_members(
    source: &dyn Source,
    fields: &mut [FieldSpec],
    asked: &[(String, String)],
) {
    for (index, own) in source.fields().iter().enumerate() {
        let Some(extension) = source.facts().audio_extension(index) else { continue };
        let is_asked = asked.iter().any(|(from, _)| *from == own.name);
        if !is_asked && !fields.iter().any(|field| field.name == extension) {
            extension.clone_into(&mut fields[index].name);
        }
    }
}

/// Refuses a name that tars and folders do not store: readers find the first image there by the end of its
/// file, and the class by `.cls` or by the folder.
fn check_fixed(
    new: &[FieldSpec],
    asked: &[(String, String)],
    form: OutputFormat,
) -> Result<(), Error> {
    let class = match form {
        OutputFormat::Tar => label(new),
        OutputFormat::Folder if new.len() == 2 => label(new),
        _ => None,
    };
    let has_files = matches!(form, OutputFormat::Tar | OutputFormat::Folder);
    let image = new.iter().position(|field| field.kind.is_image()).filter(|_| has_files);
    for (index, name) in [(image, "image"), (class, "label")] {
        let Some(to) = index.map(|index| &*new[index].name) else { continue };
        let end = to.rsplit('.').next().unwrap_or(to);
        let is_stored = to == name
            || form == OutputFormat::Tar && (end == "cls" || IMAGE_EXTENSIONS.contains(&end));
        if let Some((from, _)) = asked.iter().find(|(_, new)| !is_stored && new == to) {
            return Err(fail!(
                Field,
                "field {from:?} can't be called {to:?}: a folder or a tar does not store this name, and \
                 readers call the field {name:?}; choose another format, or {name:?}"
            ));
        }
    }
    Ok(())
}

/// Returns the name of a field in a dataset of objects: that of TensorFlow's detection datasets for the only
/// image of a TFRecord, and outside of a tar without the extension that a field of objects or a mask has there.
fn plain<'a>(
    field: &'a FieldSpec,
    (fields, objects): (&[FieldSpec], &ObjectFields),
    form: OutputFormat,
) -> &'a str {
    let name = &field.name;
    let image = detection_image(fields).filter(|_| objects.boxes().is_some());
    if image.is_some_and(|image| fields[image] == *field) {
        let free = |name| !fields.iter().any(|field| field.name == name);
        return match form {
            OutputFormat::TfRecord if free(WELL_KNOWN[0].0) => WELL_KNOWN[0].0,
            OutputFormat::TfRecord => name,
            _ if *name == WELL_KNOWN[0].0 && free(WELL_KNOWN[0].1) => WELL_KNOWN[0].1,
            _ => name,
        };
    }
    if form == OutputFormat::Tar || objects.get(name).is_none() {
        return name;
    }
    let masks = mask_extensions().filter_map(|end| name.strip_suffix(end)?.strip_suffix('.'));
    let plain = MEMBERS.iter().filter_map(|end| name.strip_suffix(end)).chain(masks).next();
    plain.filter(|plain| !plain.is_empty()).unwrap_or(name)
}

/// Returns the fields with another name than in the source: from, to.
pub(super) fn changes(old: &[FieldSpec], new: &[FieldSpec]) -> Vec<(String, String)> {
    let pairs = old.iter().zip(new).filter(|(old, new)| old.name != new.name);
    pairs.map(|(old, new)| (old.name.clone(), new.name.clone())).collect()
}

fn check_asked(
    fields: &[FieldSpec],
    form: OutputFormat,
    asked: &[(String, String)],
) -> Result<(), Error> {
    for (index, (from, to)) in asked.iter().enumerate() {
        if !fields.iter().any(|field| field.name == *from) {
            let known: Vec<&str> = fields.iter().map(|field| &*field.name).collect();
            return Err(fail!(Field, "no field named {from:?}; available: {known:?}"));
        }
        if asked[..index].iter().any(|(other, _)| other == from) {
            return Err(fail!(Field, "field {from:?} is renamed twice"));
        }
        if !fits(form, to) {
            return Err(fail!(Field, "field {from:?} can't be called {to:?}: {}", room(form)));
        }
    }
    Ok(())
}

/// Returns a name that fits.
fn fitting(name: &str, form: OutputFormat) -> Result<String, Error> {
    if let Some((_, known)) = WELL_KNOWN.iter().find(|(long, _)| *long == name) {
        return Ok((*known).to_owned());
    }
    let last = name.rsplit('/').next().unwrap_or(name);
    match [name, last].into_iter().find(|name| fits(form, name)) {
        Some(name) => Ok(name.to_owned()),
        None => {
            Err(fail!(Field, "field {name:?} can't keep its name: {}; {}", room(form), cure(name)))
        }
    }
}

fn fits(form: OutputFormat, name: &str) -> bool {
    match form {
        OutputFormat::Beton => {
            name.len() <= BETON && name.bytes().all(|byte| (1..128).contains(&byte))
        }
        OutputFormat::Tar | OutputFormat::Folder => is_file_name(&name.to_lowercase()),
        OutputFormat::TfRecord | OutputFormat::Parquet | OutputFormat::Mds => true,
    }
}

fn room(form: OutputFormat) -> &'static str {
    match form {
        OutputFormat::Beton => "a field of a .beton has a name of at most 16 ASCII characters",
        _ => "it would be part of the name of a file",
    }
}

fn cure(name: &str) -> String {
    format!("rename it (`--rename {name}=NAME`, `WriteOptions::rename`)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::FieldKind;

    fn names(
        form: OutputFormat,
        names: &[&str],
        asked: &[(&str, &str)],
    ) -> Result<Vec<String>, String> {
        let field = |name: &&str| FieldSpec { name: (*name).to_owned(), kind: FieldKind::Int };
        let fields: Vec<FieldSpec> = names.iter().map(field).collect();
        let owned = |(a, b): &(&str, &str)| ((*a).to_owned(), (*b).to_owned());
        let asked: Vec<(String, String)> = asked.iter().map(owned).collect();
        let none = ObjectFields::default();
        let renamed = renamed((&fields, &none), form, &asked).map_err(|error| error.to_string())?;
        Ok(renamed.into_iter().map(|field| field.name).collect())
    }

    const IMAGENET: [&str; 3] = ["image/class/label", "image/encoded", "image/height"];

    #[test]
    fn names_that_fit_stay_and_tensorflow_s_are_shortened() {
        for form in [OutputFormat::Beton, OutputFormat::Tar, OutputFormat::Folder] {
            let short = Ok(["label", "image", "height"].map(str::to_owned).to_vec());
            let want = if form == OutputFormat::Beton {
                Ok(["label", "image", "image/height"].map(str::to_owned).to_vec())
            } else {
                short
            };
            assert_eq!(names(form, &IMAGENET, &[]), want, "{form:?}");
        }
        let same = |form, given: &[&str]| assert_eq!(names(form, given, &[]).unwrap(), given);
        same(OutputFormat::TfRecord, &IMAGENET);
        same(OutputFormat::Beton, &["image/encoded", "sixteen_letters_"]);
        let deep = ["scene/left/depth", "scene/intrinsics"];
        assert_eq!(names(OutputFormat::Beton, &["scene/camera/depth"], &[]).unwrap(), ["depth"]);
        same(OutputFormat::Beton, &deep);
    }

    #[test]
    fn what_is_asked_for_comes_first() {
        let asked = [("image/class/label", "y"), ("image/height", "rows")];
        assert_eq!(
            names(OutputFormat::Beton, &IMAGENET, &asked).unwrap(),
            ["y", "image/encoded", "rows"]
        );
    }

    #[test]
    fn a_name_that_is_not_stored_is_refused() {
        let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
        let fields = [field("image", FieldKind::RgbImage), field("label", FieldKind::Int)];
        let none = ObjectFields::default();
        let to = |form, from: &str, to: &str| {
            let asked = [(from.to_owned(), to.to_owned())];
            renamed((&fields, &none), form, &asked).map_err(|error| error.to_string())
        };
        for form in [OutputFormat::Tar, OutputFormat::Folder] {
            for (from, new, read_as) in [("image", "photo", "image"), ("label", "class", "label")] {
                let error = to(form, from, new).unwrap_err();
                assert!(error.contains(&format!("readers call the field {read_as:?}")), "{error}");
                assert!(to(form, from, from).is_ok());
                assert!(to(OutputFormat::Beton, from, new).is_ok());
                assert!(to(OutputFormat::TfRecord, from, new).is_ok());
            }
        }
        assert!(to(OutputFormat::Tar, "image", "jpg").is_ok());
        assert!(to(OutputFormat::Tar, "label", "cls").is_ok());
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_cure() {
        let error_of =
            |form, given: &[&str], asked: &[(&str, &str)]| names(form, given, asked).unwrap_err();
        let long = "seventeen_letters";
        let error = error_of(OutputFormat::Beton, &[long], &[]);
        assert!(
            error.contains("at most 16 ASCII")
                && error.contains("`--rename seventeen_letters=NAME`"),
            "{error}"
        );
        let error = error_of(
            OutputFormat::Beton,
            &["a/class_of_the_pixel/x", "b/class_of_the_pixel/x"],
            &[],
        );
        assert!(error.contains("would both be called \"x\""), "{error}");
        let error = error_of(OutputFormat::Beton, &["a"], &[("b", "c")]);
        assert_eq!(error, r#"no field named "b"; available: ["a"]"#);
        let error = error_of(OutputFormat::Beton, &["a"], &[("a", long)]);
        assert!(error.contains("field \"a\" can't be called"), "{error}");
        assert!(error_of(OutputFormat::Beton, &["a", "b"], &[("a", "b")]).contains("both"));
        assert!(error_of(OutputFormat::Beton, &["a"], &[("a", "x"), ("a", "y")]).contains("twice"));
        assert!(error_of(OutputFormat::Tar, &["a"], &[("a", "b/c")]).contains("name of a file"));
    }
}
