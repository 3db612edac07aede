//! The cases of `cases.jsonl`, and how an outcome is compared with one.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) struct Case {
    /// The area and the promise.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) settings: serde_json::Map<String, Value>,
    pub(crate) fields: Option<Vec<String>>,
    pub(crate) labels: Option<Vec<i64>>,
    /// The image field that is delivered as it is decoded, if there is one.
    pub(crate) image: Option<String>,
    pub(crate) pixels: Option<PathBuf>,
    pub(crate) within: u8,
    warning: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) damaged: Vec<String>,
}

const KEYS: [&str; 11] = [
    "case", "open", "image", "settings", "fields", "labels", "pixels", "within", "warning",
    "error", "damaged",
];

/// The height and width of the largest image of a case.
const LARGEST: [u32; 2] = [512, 512];

impl Case {
    /// Returns the cases of all areas.
    pub(crate) fn all() -> Vec<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        // The command's tests include this file.
        let root = root.ancestors().map(|dir| dir.join("tests/strangers"));
        let root = root.filter(|dir| dir.join("README.md").exists()).last().unwrap();
        let mut areas: Vec<PathBuf> =
            fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
        areas.sort();
        let tables = areas.iter().filter(|area| area.join("cases.jsonl").exists());
        tables.flat_map(|area| Self::of_area(area)).collect()
    }

    fn of_area(area: &Path) -> Vec<Self> {
        let text = fs::read_to_string(area.join("cases.jsonl")).unwrap();
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        lines.map(|line| Self::parse(area, line)).collect()
    }

    fn parse(area: &Path, line: &str) -> Self {
        let parsed: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        let case = parsed.as_object().unwrap();
        assert!(case.keys().all(|key| KEYS.contains(&&**key)), "an unknown key: {line}");
        let text = |key: &str| Some(case.get(key)?.as_str().unwrap().to_owned());
        let texts = |key: &str| -> Option<Vec<String>> {
            let texts = case.get(key)?.as_array().unwrap().iter();
            Some(texts.map(|text| text.as_str().unwrap().to_owned()).collect())
        };
        let area_name = area.file_name().unwrap().to_string_lossy();
        Self {
            name: format!("{area_name}: {}", text("case").unwrap()),
            path: area.join(text("open").unwrap()),
            settings: case.get("settings").map_or_else(serde_json::Map::new, |settings| {
                settings.as_object().unwrap().clone()
            }),
            fields: texts("fields"),
            labels: case.get("labels").map(|labels| {
                labels.as_array().unwrap().iter().map(|label| label.as_i64().unwrap()).collect()
            }),
            image: match case.get("image") {
                None => Some("image".to_owned()),
                Some(name) => name.as_str().map(str::to_owned),
            },
            pixels: text("pixels").map(|name| area.join(name)),
            within: case.get("within").map_or(0, |within| within.as_u64().unwrap() as u8),
            warning: text("warning"),
            error: text("error"),
            damaged: texts("damaged").unwrap_or_default(),
        }
    }

    /// Returns the image field that has neither ops nor a way to be collated in the settings.
    pub(crate) fn plain_image(&self) -> Option<&str> {
        let is_set = |table: &str, field: &str| {
            self.settings.get(table).is_some_and(|fields| fields.get(field).is_some())
        };
        self.image.as_deref().filter(|field| !is_set("fields", field) && !is_set("collate", field))
    }

    /// Returns the settings as a pipeline file, in which a plain image is delivered in its own size.
    pub(crate) fn toml(&self) -> String {
        let mut settings = self.settings.clone();
        if let Some(field) = self.plain_image() {
            let collate =
                settings.entry("collate").or_insert_with(|| Value::Object(<_>::default()));
            let list = serde_json::json!({ "as": "list", "to_size": LARGEST });
            collate.as_object_mut().unwrap().insert(field.to_owned(), list);
        }
        settings.entry("fields").or_insert_with(|| Value::Object(<_>::default()));
        settings.iter().map(|(key, value)| format!("{key} = {}\n", toml(value))).collect()
    }

    pub(crate) fn check_warnings<S: AsRef<str>>(&self, warnings: &[S]) -> Result<(), String> {
        let found: Vec<&str> = warnings.iter().map(AsRef::as_ref).collect();
        match (&self.warning, &*found) {
            (None, []) => Ok(()),
            (Some(words), [one]) if one.contains(&**words) => Ok(()),
            (Some(words), _) => Err(format!("not one warning {words:?}: {found:?}")),
            (None, _) => Err(format!("warnings: {found:?}")),
        }
    }

    pub(crate) fn check_damaged<S: AsRef<str>>(&self, lines: &[S]) -> Result<(), String> {
        let lines: Vec<&str> = lines.iter().map(AsRef::as_ref).collect();
        let fits = lines.len() == self.damaged.len()
            && lines.iter().zip(&self.damaged).all(|(line, words)| line.contains(&**words));
        if fits { Ok(()) } else { Err(format!("verify lists {lines:#?}")) }
    }
}

/// Returns a value of JSON as TOML, in one line.
fn toml(value: &Value) -> String {
    match value {
        Value::Array(values) => {
            format!("[{}]", values.iter().map(toml).collect::<Vec<_>>().join(", "))
        }
        Value::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| format!("{key:?} = {}", toml(value)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}
