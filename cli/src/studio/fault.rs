//! An error as the page shows it: where it is, what was found, and what to do.

use super::super::problem::Problem;
use super::super::words::in_command;
use super::pipeline::{self, EditError, FieldOps, Found};
use fuseloop::Error;
use fuseloop::internals::loader::InFile;
use fuseloop::internals::plan::TooManyPixels;
use fuseloop::internals::spec::{ParseCause, ParseError};
use fuseloop::ops::internals::registry::{self, ParamDefault, SpecCause};
use serde_json::{Value, json};

/// The advice on images that are too large.
pub(super) const TOO_LARGE: &str =
    "use smaller sizes in the studio: a loader makes larger images, within its own limits";

/// The message of a call whose client has closed its connection: it is never shown.
pub(super) const GONE: &str = "the page does not wait for this answer";

/// An error of a call.
#[derive(Debug)]
pub(super) struct Fault {
    message: String,
    cure: Option<String>,
    /// The line and the column in the text of the pipeline.
    position: Option<(u32, u32)>,
    found: Option<Box<Found>>,
}

impl Fault {
    pub(super) fn plain(message: &str, cure: &str) -> Self {
        let cure = Some(cure.to_owned());
        Self { message: message.to_owned(), cure, position: None, found: None }
    }

    /// Returns the error of a call whose client has closed its connection: it is never shown.
    pub(super) fn gone() -> Self {
        Self::plain(GONE, "reload the page")
    }

    /// Returns the error of an op that makes an image that is too large for the studio: the op of an index, or the first of
    /// its name.
    pub(super) fn too_large(
        error: &TooManyPixels,
        (field, op_index): (&str, Option<usize>),
        text: &str,
    ) -> Self {
        let TooManyPixels { op, size, max } = error;
        let message = format!(
            "{op} makes an image of {size}, which is {} pixels; the studio makes images of at most {max}",
            size.pixels()
        );
        let fields = pipeline::fields(text);
        let own = fields.iter().find(|known| known.field == field);
        let found = own.and_then(|own| {
            let by_name = || own.ops.iter().position(|known| known.name == *op);
            let index = op_index.or_else(by_name)?;
            own.ops.get(index).map(|known| (index, known))
        });
        let position = found.map(|(_, known)| {
            let before = text.get(..known.span.start).unwrap_or_default();
            let line = before.rsplit('\n').next().unwrap_or_default();
            let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
            (number(before.matches('\n').count() + 1), number(line.chars().count() + 1))
        });
        let found = found.map(|(index, known)| {
            let (field, op) = (field.to_owned(), known.name.clone());
            Box::new(Found { field, path: vec![index], op, param: None })
        });
        Self { message, cure: Some(TOO_LARGE.to_owned()), position, found }
    }

    /// Finds the place of an error in the text of the pipeline.
    pub(super) fn of(error: Error, text: &str) -> Self {
        let fields = pipeline::fields(text);
        if let Some(parse) = error.cause::<ParseError>() {
            let message = parse.cause.to_string();
            let position = parse.position;
            let found = position.and_then(|at| pipeline::find(&fields, at.offset));
            let cure = match &parse.cause {
                ParseCause::Spec(cause) => cure_of(cause, found.as_ref()),
                _ => Some("every line of a pipeline file is TOML".to_owned()),
            };
            let position = position.map(|at| (at.line, at.column));
            return Self { message, cure, position, found: found.map(Box::new) };
        }
        if let Some(InFile { position, error: inner }) = error.cause() {
            let position = line_and_column(position);
            let found = position.and_then(|at| pipeline::find(&fields, offset(text, at)?));
            let message = in_command(&inner.to_string()).into_owned();
            let cure = help(error);
            return Self { message, cure, position, found: found.map(Box::new) };
        }
        let found = error.field().and_then(|field| of_field(&fields, field));
        let message = in_command(&error.to_string()).into_owned();
        let cure = help(error);
        Self { message, cure, position: None, found: found.map(Box::new) }
    }

    pub(super) fn to_json(&self) -> Value {
        let Self { message, cure, position, found } = self;
        json!({
            "message": message,
            "cure": cure,
            "line": position.map(|(line, _)| line),
            "column": position.map(|(_, column)| column),
            "field": found.as_ref().map(|found| &found.field),
            "path": found.as_ref().map(|found| &found.path),
            "param": found.as_ref().and_then(|found| found.param.as_ref()),
        })
    }
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        let cure = problem.help().map(str::to_owned);
        Self { message: problem.to_string(), cure, position: None, found: None }
    }
}

impl From<EditError> for Fault {
    fn from(error: EditError) -> Self {
        Self::plain(&error.message, error.cure)
    }
}

/// Returns what the command says to do, unless it is about its own options.
fn help(error: Error) -> Option<String> {
    let help = Problem::from(error).help()?;
    (!help.contains("--workload")).then(|| help.to_owned())
}

/// Returns the field alone.
fn of_field(fields: &[FieldOps], name: &str) -> Option<Found> {
    let field = fields.iter().find(|field| field.field == name)?.field.clone();
    Some(Found { field, path: vec![], op: String::new(), param: None })
}

/// Says what a parameter takes, or the nearest name.
fn cure_of(cause: &SpecCause, found: Option<&Found>) -> Option<String> {
    match cause {
        SpecCause::UnknownOp { nearest: Some(name), .. } => Some(format!("write {name}")),
        SpecCause::UnknownOp { .. } | SpecCause::NotAnOp { .. } => {
            Some("\u{201c}Add op\u{201d} lists all ops".to_owned())
        }
        SpecCause::UnknownParam { nearest: Some(name), .. } => Some(format!("write {name}")),
        SpecCause::UnknownParam { .. } => Some("remove it".to_owned()),
        SpecCause::Missing { owner, param, .. } => about(owner, param),
        SpecCause::Kind { owner, param, .. } => about(owner, param),
        SpecCause::Param(error) => about(error.op, error.param).or_else(|| {
            let found = found?;
            about(&found.op, found.param.as_deref()?)
        }),
        SpecCause::TooMany | SpecCause::TooDeep => Some("remove some ops".to_owned()),
        _ => None,
    }
}

/// Describes a parameter: `p takes a number (default 0.5): share of the images`.
fn about(op: &str, param: &str) -> Option<String> {
    let info = registry::find(op).ok()?;
    let param = info.params.iter().find(|known| known.name == param)?;
    let need = match param.need {
        ParamDefault::Required(example) => format!("for example {example}"),
        ParamDefault::Default(default) => format!("default {default}"),
        ParamDefault::Optional => "optional".to_owned(),
    };
    Some(format!("{} takes {} ({need}): {}", param.name, param.kind, param.doc))
}

/// Reads the end of `pipeline.toml:7:14`.
fn line_and_column(position: &str) -> Option<(u32, u32)> {
    let mut parts = position.rsplit(':');
    let column = parts.next()?.parse().ok()?;
    Some((parts.next()?.parse().ok()?, column))
}

/// Returns the byte of a line and a column, which counts characters.
fn offset(text: &str, (line, column): (u32, u32)) -> Option<usize> {
    let start: usize =
        text.split_inclusive('\n').take(line.checked_sub(1)? as usize).map(str::len).sum();
    let rest = text.get(start..)?;
    let inside = rest.char_indices().nth(column.checked_sub(1)? as usize)?.0;
    Some(start + inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_again() {
        assert_eq!(line_and_column("a:b.toml:7:14"), Some((7, 14)));
        assert_eq!(line_and_column("pipeline"), None);
        assert_eq!(offset("\u{b5}\n\u{b5}x", (2, 2)), Some(5));
        assert_eq!(offset("a", (9, 1)), None);
        assert_eq!(offset("a", (0, 0)), None);
    }
}
