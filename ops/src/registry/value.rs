//! Values as a text gives them: TOML's, without dates, and where each stands.

use std::fmt;

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// What it is.
    pub datum: Datum,
    /// Its first byte in the text it is from.
    pub at: Option<usize>,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// `true`
    Bool(bool),
    /// `224`
    Int(i64),
    /// `0.5`
    Float(f64),
    /// `"f16"`
    Text(String),
    /// `[0.08, 1.0]`
    List(Vec<Value>),
    /// `{ op = "Resize", size = 256 }`
    Table(Table),
}

/// Names and their values, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table(pub Vec<Entry>);

/// A name in a table and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The name.
    pub name: String,
    /// Its first byte in the text it is from.
    pub at: Option<usize>,
    /// The value.
    pub value: Value,
}

impl Table {
    /// The value of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|entry| entry.name == name).map(|entry| &entry.value)
    }
}

impl<'a> FromIterator<(&'a str, Value)> for Table {
    fn from_iter<I: IntoIterator<Item = (&'a str, Value)>>(entries: I) -> Self {
        let entry = |(name, value): (&str, _)| Entry { name: name.to_owned(), at: None, value };
        Self(entries.into_iter().map(entry).collect())
    }
}

impl From<Datum> for Value {
    fn from(datum: Datum) -> Self {
        Self { datum, at: None }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Datum::Bool(value).into()
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Datum::Int(value).into()
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Datum::Float(value).into()
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Datum::Text(value.to_owned()).into()
    }
}

impl From<Vec<Value>> for Value {
    fn from(value: Vec<Value>) -> Self {
        Datum::List(value).into()
    }
}

impl From<Table> for Value {
    fn from(value: Table) -> Self {
        Datum::Table(value).into()
    }
}

/// Most characters of a text, and most values of a list, that are shown.
const SHOWN: usize = 40;
const SHOWN_VALUES: usize = 4;

/// As in TOML, shortened: for messages. What is inside a list's list is not shown.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.datum {
            Datum::Bool(value) => write!(f, "{value}"),
            Datum::Int(value) => write!(f, "{value}"),
            // `{:?}` keeps the point of `1.0`, and so its type.
            Datum::Float(value) => write!(f, "{value:?}"),
            Datum::Text(text) if text.chars().nth(SHOWN).is_some() => {
                let shown: String = text.chars().take(SHOWN).collect();
                write!(f, "\"{shown}...\"")
            }
            Datum::Text(text) => write!(f, "\"{text}\""),
            Datum::List(values) if values.len() <= SHOWN_VALUES && values.iter().all(is_plain) => {
                f.write_str("[")?;
                for (i, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
            Datum::List(values) if values.len() == 1 => f.write_str("a list of 1 value"),
            Datum::List(values) => write!(f, "a list of {} values", values.len()),
            Datum::Table(_) => f.write_str("a table"),
        }
    }
}

fn is_plain(value: &Value) -> bool {
    !matches!(value.datum, Datum::List(_) | Datum::Table(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_they_are_written_but_short() {
        let list = |n: usize| Value::from(vec![Value::from(1.0); n]);
        assert_eq!(list(2).to_string(), "[1.0, 1.0]");
        assert_eq!(list(1000).to_string(), "a list of 1000 values");
        assert_eq!(Value::from(vec![list(2)]).to_string(), "a list of 1 value");
        assert_eq!(Value::from("f16").to_string(), "\"f16\"");
        assert!(Value::from("x".repeat(1000).as_str()).to_string().len() < 50);
    }
}
