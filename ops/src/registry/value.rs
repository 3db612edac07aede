//! Values parsed from a text: TOML's types without dates, each with its offset; or made by another language,
//! which may put ops of its own between them.

use super::BuiltOp;
use std::fmt;
use std::sync::Arc;

/// A value and its offset.
#[derive(Clone, Debug, PartialEq)]
pub struct SpecValue {
    /// The data of the value.
    pub datum: SpecData,
    /// The offset of the first byte in the source text, if known.
    pub at: Option<usize>,
}

/// The data of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum SpecData {
    /// `true`
    Bool(bool),
    /// `224`
    Int(i64),
    /// `0.5`
    Float(f64),
    /// `"f16"`
    Text(String),
    /// `[0.08, 1.0]`
    List(Vec<SpecValue>),
    /// `{ op = "Resize", size = 256 }`
    Table(SpecTable),
    /// An op that is built already. A text can't contain one.
    Op(SpecOp),
}

/// An op that is built already, as an item of a list of ops. It equals itself alone.
#[derive(Clone, Debug)]
pub struct SpecOp(pub BuiltOp);

impl PartialEq for SpecOp {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A table: names and values, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpecTable(pub Vec<SpecEntry>);

/// An entry of a table: a name and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct SpecEntry {
    /// The name.
    pub name: String,
    /// The offset of the first byte in the source text, if known.
    pub at: Option<usize>,
    /// The value.
    pub value: SpecValue,
}

impl SpecValue {
    /// Returns the table that the value is, or else a table with the value as its only entry, `name`, which stands at
    /// `at` in the source text.
    #[must_use]
    pub fn into_table(self, name: &str, at: Option<usize>) -> SpecTable {
        match self.datum {
            SpecData::Table(table) => table,
            _ => SpecTable(vec![SpecEntry { name: name.to_owned(), at, value: self }]),
        }
    }
}

impl SpecTable {
    /// Returns the value of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&SpecValue> {
        self.0.iter().find(|entry| entry.name == name).map(|entry| &entry.value)
    }
}

impl<'a> FromIterator<(&'a str, SpecValue)> for SpecTable {
    fn from_iter<I: IntoIterator<Item = (&'a str, SpecValue)>>(entries: I) -> Self {
        let entry = |(name, value): (&str, _)| SpecEntry { name: name.to_owned(), at: None, value };
        Self(entries.into_iter().map(entry).collect())
    }
}

impl From<SpecData> for SpecValue {
    fn from(datum: SpecData) -> Self {
        Self { datum, at: None }
    }
}

impl From<bool> for SpecValue {
    fn from(value: bool) -> Self {
        SpecData::Bool(value).into()
    }
}

impl From<i64> for SpecValue {
    fn from(value: i64) -> Self {
        SpecData::Int(value).into()
    }
}

impl From<f64> for SpecValue {
    fn from(value: f64) -> Self {
        SpecData::Float(value).into()
    }
}

impl From<&str> for SpecValue {
    fn from(value: &str) -> Self {
        SpecData::Text(value.to_owned()).into()
    }
}

impl From<Vec<SpecValue>> for SpecValue {
    fn from(value: Vec<SpecValue>) -> Self {
        SpecData::List(value).into()
    }
}

impl From<SpecTable> for SpecValue {
    fn from(value: SpecTable) -> Self {
        SpecData::Table(value).into()
    }
}

/// The maximum numbers of characters of a text and of values of a list that are shown.
const SHOWN: usize = 40;
const SHOWN_VALUES: usize = 4;

/// Formats the value as in TOML, but shortened, for messages. Lists that contain lists or tables
/// show only their length.
impl fmt::Display for SpecValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.datum {
            SpecData::Bool(value) => write!(f, "{value}"),
            SpecData::Int(value) => write!(f, "{value}"),
            // `{:?}` keeps the decimal point of `1.0`, which shows that it is a float.
            SpecData::Float(value) => write!(f, "{value:?}"),
            SpecData::Text(text) if text.chars().nth(SHOWN).is_some() => {
                let shown: String = text.chars().take(SHOWN).collect();
                write!(f, "\"{shown}...\"")
            }
            SpecData::Text(text) => write!(f, "\"{text}\""),
            SpecData::List(values)
                if values.len() <= SHOWN_VALUES && values.iter().all(is_plain) =>
            {
                f.write_str("[")?;
                for (i, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
            SpecData::List(values) if values.len() == 1 => f.write_str("a list of 1 value"),
            SpecData::List(values) => write!(f, "a list of {} values", values.len()),
            SpecData::Table(SpecTable(entries)) => {
                f.write_str("a table")?;
                entries.first().map_or(Ok(()), |first| {
                    let name: String = first.name.chars().take(SHOWN).collect();
                    write!(f, " with the key `{name}`")
                })
            }
            SpecData::Op(SpecOp(op)) => f.write_str(op.name()),
        }
    }
}

fn is_plain(value: &SpecValue) -> bool {
    !matches!(value.datum, SpecData::List(_) | SpecData::Table(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_they_are_written_but_short() {
        let list = |n: usize| SpecValue::from(vec![SpecValue::from(1.0); n]);
        assert_eq!(list(2).to_string(), "[1.0, 1.0]");
        assert_eq!(list(1000).to_string(), "a list of 1000 values");
        assert_eq!(SpecValue::from(vec![list(2)]).to_string(), "a list of 1 value");
        assert_eq!(SpecValue::from("f16").to_string(), "\"f16\"");
        assert!(SpecValue::from("x".repeat(1000).as_str()).to_string().len() < 50);
    }
}
