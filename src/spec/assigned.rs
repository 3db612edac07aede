//! Settings that texts such as `clips.frames=8` set in the table of a pipeline file.
//!
//! | text                              | sets                                |
//! |-----------------------------------|-------------------------------------|
//! | `seed=7`                          | a setting                           |
//! | `clips={sampler="all", frames=8}` | a whole table                       |
//! | `clips.frames=8`                  | one key of a table: the others stay |
//! | `collate.image.to=512`            | the same; `image = "pad"` is `image = { as = "pad" }` |
//!
//! The texts are set one after another: of two that set the same, the last one holds. `order` removes the `open_pages` of a
//! file, which are those of its own order.

use super::error::ParseError;
use super::read::{self, SpecFault};
use super::settings::Settings;
use crate::error::{Error, fail};
use fuseloop_ops::internals::registry::{
    OpArgs, SpecData, SpecEntry, SpecError, SpecTable, SpecValue,
};
use std::path::Path;

/// What errors call the texts.
const PATH: &str = "--set";

/// The keys that a value which is no table stands for, by the settings whose tables have such values.
const SHORT_FORMS: [(&str, &str); 3] =
    [("collate", "as"), ("image_lists", "max"), ("targets", "as")];

/// Texts that were set. The offsets of a file's bytes are followed by those of the first text, and so on.
pub(super) struct AssignedTexts(Vec<AssignedText>);

struct AssignedText {
    /// The offset of its first byte.
    begin: usize,
    text: String,
}

impl AssignedTexts {
    /// Sets texts in the table of a file of `len` bytes.
    ///
    /// # Errors
    ///
    /// If a text is not TOML, or names no setting.
    pub(super) fn set(top: &mut SpecTable, len: usize, texts: &[String]) -> Result<Self, Error> {
        let (mut begin, mut assigned, mut tables) = (len, vec![], vec![]);
        for text in texts {
            let (text, table) = parse(text)?;
            let end = begin + text.len() + 1;
            assigned.push(AssignedText { begin, text });
            tables.push(table);
            begin = end;
        }
        if tables.iter().any(|table| table.get("order").is_some()) {
            top.0.retain(|entry| entry.name != "open_pages");
        }
        for (text, SpecTable(entries)) in assigned.iter().zip(tables) {
            for entry in entries {
                let short = SHORT_FORMS.iter().find(|(setting, _)| *setting == entry.name);
                // The setting itself has no short form: `targets = "auto"` is replaced.
                text.put(top, entry, None, short.map(|(_, key)| *key));
            }
        }
        Ok(Self(assigned))
    }

    /// Returns the error of the table, which stands in a text, or in the file of this text and path.
    pub(super) fn error(&self, error: SpecError, (file, path): (&str, &Path)) -> ParseError {
        // Without an offset it is one of a text: the file alone has no error.
        let (error, text, path) = match error.at {
            None => (error, "", Path::new(PATH)),
            Some(at) => match self.0.iter().rev().find(|text| text.begin <= at) {
                Some(AssignedText { begin, text }) => {
                    (SpecError { at: Some(at - begin), ..error }, &**text, Path::new(PATH))
                }
                None => (error, file, path),
            },
        };
        SpecFault::from(error).in_text(text, path)
    }
}

/// Returns the table of a text whose value is one of TOML, or a word, and the text that TOML was read from.
fn parse(text: &str) -> Result<(String, SpecTable), Error> {
    let quoted = text.split_once('=').map(|(name, word)| format!("{name} = {word:?}"));
    let (read, table) = match (read::table(text), quoted) {
        (Ok(table), _) => (text.to_owned(), table),
        (Err(fault), Some(quoted)) => match read::table(&quoted) {
            Ok(table) => (quoted, table),
            Err(_) => return Err(fault.in_text(text, Path::new(PATH)).into()),
        },
        (Err(fault), None) => return Err(fault.in_text(text, Path::new(PATH)).into()),
    };
    // Ops of fields are no settings.
    let known = |entry: &&SpecEntry| Settings::TABLE.iter().any(|param| param.name == entry.name);
    if let Some(unknown) = table.0.iter().find(|entry| !known(entry)) {
        if unknown.name == "fields" {
            let error = fail!(
                Parameter,
                "`fields` has the ops, which only a file has: write its table [fields] to a pipeline file, and set the rest here"
            );
            return Err(SpecFault::new(unknown.at, error).in_text(&read, Path::new(PATH)).into());
        }
        let only = SpecTable(vec![unknown.clone()]);
        let checked = OpArgs::with("a pipeline file", Settings::TABLE, &only, None, |_| Ok(()));
        checked.map_err(|error| SpecFault::from(error).in_text(&read, Path::new(PATH)))?;
    }
    Ok((read, table))
}

impl AssignedText {
    /// Sets an entry. `short` is the key that a value of the table stands for if it is no table itself, and `inner` that of
    /// the tables in the entry.
    fn put(
        &self,
        table: &mut SpecTable,
        mut entry: SpecEntry,
        short: Option<&str>,
        inner: Option<&str>,
    ) {
        let first = entry.value.at.and_then(|at| self.text.as_bytes().get(at));
        let is_of_dots = first != Some(&b'{');
        let old = table.0.iter_mut().find(|old| old.name == entry.name);
        match (old, &mut entry.value.datum) {
            (Some(old), SpecData::Table(SpecTable(entries))) if is_of_dots => {
                let mut known = match (&old.value.datum, short) {
                    (SpecData::Table(known), _) => known.clone(),
                    (_, Some(key)) => old.value.clone().into_table(key, old.at),
                    (_, None) => SpecTable::default(),
                };
                for entry in entries.drain(..) {
                    self.put(&mut known, entry, inner, inner);
                }
                if !matches!(old.value.datum, SpecData::Table(_)) && short.is_none() {
                    old.at = entry.at.map(|at| at + self.begin);
                    old.value.at = entry.value.at.map(|at| at + self.begin);
                }
                old.value.datum = SpecData::Table(known);
            }
            (old, _) => {
                entry.at = entry.at.map(|at| at + self.begin);
                shift(&mut entry.value, self.begin);
                match old {
                    Some(old) => *old = entry,
                    None => table.0.push(entry),
                }
            }
        }
    }
}

/// Adds to the offsets of a value.
fn shift(value: &mut SpecValue, by: usize) {
    value.at = value.at.map(|at| at + by);
    match &mut value.datum {
        SpecData::List(values) => values.iter_mut().for_each(|value| shift(value, by)),
        SpecData::Table(SpecTable(entries)) => entries.iter_mut().for_each(|entry| {
            entry.at = entry.at.map(|at| at + by);
            shift(&mut entry.value, by);
        }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::{Clips, Collate, ImageList};
    use crate::order::Order;
    use crate::spec::Spec;
    use fuseloop_ops::DType;
    use std::fs;

    const FILE: &str = "seed = 3\norder = 'quasi_random'\nopen_pages = 5\n[clips]\nsampler = 'random'\nframes = 16\nstride = 4\n\
                        [collate]\ntext = 'pad'\nbox = { as = 'ragged', dtype = 'f32' }\n[image_lists]\nviews = 4\n";

    fn set(texts: &[&str]) -> Result<Settings, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.toml");
        fs::write(&path, FILE).unwrap();
        let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
        let spec = Spec::open_with(&path, &texts).map_err(|error| error.to_string());
        spec.map(|spec| spec.settings().clone())
    }

    #[test]
    fn a_name_with_dots_sets_one_key_of_a_table() {
        let file = set(&[]).unwrap();
        let clips = |texts: &[&str]| set(texts).unwrap().clips.unwrap();
        assert_eq!(clips(&["clips.frames=8"]), Clips::random(8).stride(4));
        assert_eq!(clips(&["clips.sampler=all", "clips.stride = 2"]), Clips::all(16).stride(2));
        assert_eq!(clips(&["clips={sampler='all', frames=8}"]), Clips::all(8), "a whole table");
        assert_eq!(clips(&["clips={sampler='all', frames=8}", "clips.frames=9"]), Clips::all(9));
        let text = "clips.range=[1, 2]";
        assert_eq!(clips(&[text, "clips.frames=4"]), Clips::random(4).stride(4).range(1.0, 2.0));
        let only = set(&["clips.frames=8"]).unwrap();
        assert_eq!(Settings { clips: file.clips.clone(), ..only }, file, "all else stays");
    }

    #[test]
    fn a_short_form_keeps_its_meaning() {
        let found = set(&[
            "collate.text.to=512",
            "collate.box.inner=[4]",
            "image_lists.views.truncate=true",
        ]);
        let found = found.unwrap();
        let expected =
            [("text", Collate::pad().to(512)), ("box", Collate::ragged().of(DType::F32, &[4]))];
        let expected = expected.map(|(name, collate)| (name.to_owned(), collate));
        assert_eq!(found.collate.unwrap(), expected);
        assert_eq!(found.image_lists.unwrap()[0].1, ImageList::new(4).truncate());
    }

    #[test]
    fn an_order_takes_no_pages_of_another() {
        let order = |texts: &[&str]| set(texts).unwrap().order;
        assert_eq!(order(&["seed=4"]), Some(Order::QuasiRandom { open_pages: 5 }));
        assert_eq!(order(&["order=random"]), Some(Order::Random));
        assert_eq!(order(&["open_pages=7"]), Some(Order::QuasiRandom { open_pages: 7 }));
        let both = order(&["open_pages=7", "order=quasi_random"]);
        assert_eq!(both, Some(Order::QuasiRandom { open_pages: 7 }));
    }

    #[test]
    fn an_error_stands_in_its_text() {
        for (texts, wanted) in [
            (
                &["seed=4", "clips.framse=8"][..],
                "--set:1:7: clips has no parameter `framse`, did you mean `frames`?",
            ),
            (&["clips.frames=many"], "--set:1:16: clips: frames is \"many\""),
            (&["clips={frames=3}"], "--set: clips: `sampler` is missing"),
            (
                &["fields.image=['RandomHorizontalFlip']"],
                "--set:1:1: `fields` has the ops, which only a file has",
            ),
            (&["fields.video=[]"], "--set:1:1: `fields` has the ops, which only a file has"),
            (
                &["clips.frames=8", "seed = 1", "clips . frames.x=3"],
                "--set:1:9: clips: frames is a table with the key `x`, expected a whole number",
            ),
            (&["clips.frames"], "--set:"),
        ] {
            let error = set(texts).unwrap_err();
            assert!(error.starts_with(wanted), "{texts:?}: {error}");
        }
        let error = Settings::of_texts(&["clips.frames=8".to_owned()]).unwrap_err().to_string();
        assert!(error.starts_with("--set: clips: `sampler` is missing"), "{error}");
    }
}
