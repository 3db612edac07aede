//! Parses TOML text to values, with the position of each value.

use super::MAX_BYTES;
use super::error::{
    ParseCause, ParseError, TOML, TextPosition, not_toml, suffix, too_large, too_long,
};
use crate::error::{Error, fail};
use fuseloop_ops::internals::registry::{SpecData, SpecEntry, SpecError, SpecTable, SpecValue};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

/// An error at a byte of the text.
pub(super) struct SpecFault {
    at: Option<usize>,
    cause: ParseCause,
}

impl From<SpecError> for SpecFault {
    fn from(error: SpecError) -> Self {
        Self { at: error.at, cause: ParseCause::Spec(error.cause) }
    }
}

impl SpecFault {
    pub(super) fn new(at: Option<usize>, error: Error) -> Self {
        Self { at, cause: error.into() }
    }

    /// Returns the error that a user sees.
    pub(super) fn in_text(self, text: &str, path: &Path) -> ParseError {
        let position = self.at.map(|at| position(text, at));
        ParseError { path: path.into(), position, cause: self.cause }
    }
}

/// The positions of many bytes of a text, which is read once.
pub(super) struct Positions(BTreeMap<usize, TextPosition>);

impl Positions {
    /// Finds the positions of bytes, in any order.
    pub(super) fn new(text: &str, bytes: impl IntoIterator<Item = usize>) -> Self {
        let mut found: BTreeMap<_, _> = bytes
            .into_iter()
            .map(|at| (at, TextPosition { offset: at, line: 1, column: 1 }))
            .collect();
        let (mut start, mut line, mut column) = (0, 1, 1);
        for (at, position) in &mut found {
            let between = text.get(start..*at).unwrap_or_default();
            for character in between.chars() {
                (line, column) = if character == '\n' { (line + 1, 1) } else { (line, column + 1) };
            }
            (start, position.line, position.column) = (*at, line, column);
        }
        Self(found)
    }

    /// Returns the position of a byte as errors show it, such as `train.toml:7:14`.
    pub(super) fn shown(&self, at: Option<usize>, path: &Path) -> String {
        let position = at.and_then(|at| self.0.get(&at).copied());
        format!("{}{}", path.display(), suffix(&position))
    }
}

/// Returns the line and character of a byte. The text has at most [`MAX_BYTES`] bytes, so no count is
/// truncated.
#[expect(clippy::cast_possible_truncation, reason = "as the comment says")]
fn position(text: &str, at: usize) -> TextPosition {
    let before = text.get(..at).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    TextPosition {
        offset: at,
        line: before.matches('\n').count() as u32 + 1,
        column: line.chars().count() as u32 + 1,
    }
}

/// Reads the text of a regular file, if it is not too long. Opening a FIFO would wait for its writer,
/// and `/dev/zero` has no end.
pub(super) fn text(path: &Path) -> Result<String, Error> {
    bounded(path).map_err(|error| SpecFault::new(None, error).in_text("", path).into())
}

fn bounded(path: &Path) -> Result<String, Error> {
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return Err(fail!(Format, "not a regular file").help(TOML));
    }
    if found.len() > MAX_BYTES as u64 {
        return Err(too_long());
    }
    let (file, mut bytes) = (File::open(path)?, vec![]);
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_BYTES {
        return Err(too_long());
    }
    String::from_utf8(bytes).map_err(|_| not_toml("it is not UTF-8"))
}

/// Parses the top-level table of a text.
pub(super) fn table(text: &str) -> Result<SpecTable, SpecFault> {
    if text.len() > MAX_BYTES {
        return Err(SpecFault::new(None, too_long()));
    }
    let top = DeTable::parse(text).map_err(|error| {
        SpecFault::new(error.span().map(|span| span.start), not_toml(error.message()))
    })?;
    entries(top.into_inner())
}

/// Returns the entries in the order of the text; the parser sorts them by name.
fn entries(table: DeTable<'_>) -> Result<SpecTable, SpecFault> {
    let entries = table.into_iter().map(|(name, entry)| {
        let at = Some(name.span().start);
        Ok(SpecEntry { name: name.into_inner().into_owned(), at, value: value(entry)? })
    });
    let mut entries = entries.collect::<Result<Vec<_>, SpecFault>>()?;
    entries.sort_by_key(|entry| entry.at);
    Ok(SpecTable(entries))
}

fn value(spanned: Spanned<DeValue<'_>>) -> Result<SpecValue, SpecFault> {
    let at = Some(spanned.span().start);
    let datum = match spanned.into_inner() {
        DeValue::String(text) => SpecData::Text(text.into_owned()),
        DeValue::Boolean(value) => SpecData::Bool(value),
        DeValue::Integer(number) => {
            SpecData::Int(integer(&number).map_err(|error| SpecFault::new(at, error))?)
        }
        DeValue::Float(number) => {
            let parsed = number.as_str().parse();
            let large = |_| SpecFault::new(at, too_large(number.as_str()));
            SpecData::Float(parsed.map_err(large)?)
        }
        DeValue::Datetime(date) => {
            let error = fail!(
                Format,
                "{date}: dates are not supported; expected a number, text, list or table"
            );
            return Err(SpecFault::new(at, error));
        }
        DeValue::Array(values) => {
            SpecData::List(values.into_iter().map(value).collect::<Result<_, SpecFault>>()?)
        }
        DeValue::Table(table) => SpecData::Table(entries(table)?),
    };
    Ok(SpecValue { datum, at })
}

fn integer(number: &DeInteger<'_>) -> Result<i64, Error> {
    i64::from_str_radix(number.as_str(), number.radix()).map_err(|_| {
        let found: String = number.to_string().chars().take(40).collect();
        too_large(&found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_1_and_in_characters() {
        let at = |text, at| {
            let TextPosition { line, column, .. } = position(text, at);
            (line, column)
        };
        assert_eq!(at("", 0), (1, 1));
        assert_eq!(at("a\nµb", 4), (2, 2));
        assert_eq!(at("a\n", 2), (2, 1));
        assert_eq!(at("a", 9), (1, 2), "past the end is the end");
    }

    #[test]
    fn positions_found_in_one_pass_are_those_of_each_byte() {
        let text = "a\nb\u{b5}c = 1\n\n  d";
        let bytes: Vec<usize> = text.char_indices().map(|(at, _)| at).rev().collect();
        let found = Positions::new(text, bytes.iter().copied());
        for at in bytes {
            let (one, all) = (position(text, at), found.0[&at]);
            assert_eq!((one.line, one.column), (all.line, all.column), "{at}");
        }
    }

    #[test]
    fn values_know_their_places_and_keep_their_order() {
        let table = table("z = 0x10\na = [1.5, true]").ok().unwrap();
        let names: Vec<_> = table.0.iter().map(|entry| (&*entry.name, entry.at)).collect();
        assert_eq!(names, [("z", Some(0)), ("a", Some(9))]);
        assert_eq!(table.get("z"), Some(&SpecValue { datum: SpecData::Int(16), at: Some(4) }));
        assert_eq!(table.get("a").and_then(|list| list.at), Some(13));
    }
}
