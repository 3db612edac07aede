//! The facts that Fuseloop stores in the index beside the columns, under the key `fuseloop`. Other readers ignore it.
//!
//! ```text
//! {"classes": the content of a file of class names, "objects": that of a file of objects, "bytes": ["thumb", ..],
//!  "audio": ["speech", ..]}
//! ```
//!
//! `classes` and `objects` are as `source/classes.rs` and `source/object_fields.rs` describe them. `bytes` lists the columns
//! of bytes that begin as images and are none, `audio` those that are audio files.

use crate::error::{Error, fail};
use crate::escape::shown;
use crate::source::{ClassNames, ClassTable, ObjectFields};
use serde_json::Value;
use std::collections::HashSet;

/// The facts of the columns.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Known {
    pub(super) classes: Option<ClassNames>,
    pub(super) objects: Option<ObjectFields>,
    pub(super) bytes: HashSet<String>,
    pub(super) audio: HashSet<String>,
}

impl Known {
    /// Reads what an index has.
    ///
    /// # Errors
    ///
    /// Fails if it is of another form.
    pub(super) fn parse(index: &Value) -> Result<Self, Error> {
        let Some(known) = index.get("fuseloop") else { return Ok(Self::default()) };
        let Some(known) = known.as_object() else {
            let found = known.to_string();
            let found = shown(&found);
            return Err(fail!(
                Format,
                "the key `fuseloop` is {found}, expected an object: write the dataset again"
            ));
        };
        let wrong = |key: &'static str| {
            move |reason: String| {
                fail!(Format, "`{key}` of the key `fuseloop`: {reason}: write the dataset again")
            }
        };
        let text = |key: &str| known.get(key).map(Value::to_string);
        let classes = text("classes").map(|text| ClassTable::parse(text.as_bytes()));
        let objects = text("objects").map(|text| ObjectFields::parse(text.as_bytes()));
        let name = |name: &Value| name.as_str().map(ToOwned::to_owned);
        let names = |key: &'static str| {
            let Some(names) = known.get(key) else { return Ok(HashSet::default()) };
            let names = names.as_array().map(|names| names.iter().map(name).collect::<Option<_>>());
            names.flatten().ok_or_else(|| wrong(key)("expected a list of names".to_owned()))
        };
        Ok(Self {
            classes: classes.transpose().map_err(wrong("classes"))?.map(|table| table.names()),
            objects: objects.transpose().map_err(wrong("objects"))?,
            bytes: names("bytes")?,
            audio: names("audio")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_index_of_another_writer_has_nothing() {
        assert_eq!(Known::parse(&json!({"shards": [], "version": 2})).unwrap(), Known::default());
    }

    #[test]
    fn names_and_objects_are_read_and_others_refused() {
        let known = |value: Value| Known::parse(&json!({"fuseloop": value}));
        let classes =
            json!({"fuseloop": "classes", "version": 1, "classes": [{"number": 3, "name": "cat"}]});
        let objects = json!({"fuseloop": "objects", "version": 1, "fields": [{"as": "classes", "name": "c"}]});
        let found = known(json!({"classes": classes, "objects": objects, "bytes": ["b"]})).unwrap();
        assert_eq!(found.classes.unwrap().get(3), Some("cat"));
        assert!(found.objects.unwrap().get("c").is_some());
        assert!(found.bytes.contains("b") && found.audio.is_empty());
        assert!(known(json!({"audio": ["a"]})).unwrap().audio.contains("a"));
        for (odd, key) in [
            (json!({"classes": {"version": 9}}), "classes"),
            (json!({"classes": 1}), "classes"),
            (json!({"objects": {"version": 1}}), "objects"),
            (json!({"objects": {"version": 1, "fields": ["a".repeat(1 << 20)]}}), "objects"),
            (json!({"bytes": "b"}), "bytes"),
            (json!({"bytes": [1]}), "bytes"),
            (json!({"audio": {}}), "audio"),
        ] {
            let error = known(odd).unwrap_err().to_string();
            assert!(error.contains(&format!("`{key}` of the key `fuseloop`")), "{error}");
        }
        for odd in [json!(5), json!([]), json!(null), json!("classes".repeat(100))] {
            let error = known(odd).unwrap_err().to_string();
            assert!(error.contains("expected an object"), "{error}");
        }
    }

    #[test]
    fn errors_do_not_repeat_a_long_value() {
        let long = "a".repeat(100_000);
        let class = json!({"number": "0", "name": long});
        let twice = json!([{"number": 0, "name": long}, {"number": 1, "name": long}]);
        let field = json!({"as": "classes", "name": long});
        let pairs = json!([{"as": "keypoints", "each": 2, "name": "k", "flip_pairs": long}]);
        for odd in [
            json!(long),
            json!({"classes": {"version": long}}),
            json!({"classes": {"version": 1, "classes": [class]}}),
            json!({"classes": {"version": 1, "classes": twice}}),
            json!({"objects": {"version": long}}),
            json!({"objects": {"version": 1, "fields": [long]}}),
            json!({"objects": {"version": 1, "fields": [field, field]}}),
            json!({"objects": {"version": 1, "fields": pairs}}),
        ] {
            let error = Known::parse(&json!({"fuseloop": odd})).unwrap_err().to_string();
            assert!(error.len() < 300, "{} bytes", error.len());
        }
    }
}
