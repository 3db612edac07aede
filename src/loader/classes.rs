//! Compares the names of a dataset's classes with those expected.

use super::error::LoadCause;
use crate::source::{ClassNames, Escaped, Source};

/// The most differences that an error lists.
const MOST_LISTED: usize = 5;

/// Returns the names of a dataset's classes, none if they are not known.
pub(super) fn names(source: &dyn Source) -> Result<ClassNames, LoadCause> {
    let names = source.class_names();
    let names = names
        .map_err(|error| LoadCause::Classes { dataset: source.name(), error: error.into() })?;
    Ok(names.unwrap_or_default())
}

/// Refuses a dataset whose classes have other names or numbers than expected.
pub(super) fn check(source: &dyn Source, expected: &ClassNames) -> Result<(), LoadCause> {
    let (found, dataset) = (names(source)?, source.name());
    if expected.iter().len() == 0 {
        return Err(LoadCause::NoClassesExpected { dataset });
    }
    if found.iter().len() == 0 {
        return Err(LoadCause::NoClasses { dataset });
    }
    if found == *expected {
        return Ok(());
    }
    Err(LoadCause::OtherClasses { dataset, differences: differences(&found, expected) })
}

/// Lists classes of one side alone, and then those whose numbers differ.
fn differences(found: &ClassNames, expected: &ClassNames) -> String {
    let number = |names: &ClassNames, wanted: &str| {
        names.iter().find(|(_, name)| *name == wanted).map(|(number, _)| number)
    };
    let mut listed = vec![];
    let expected_here = expected.iter().map(|(_, name)| (name, number(found, name)));
    let missing = expected_here.filter(|(_, here)| here.is_none());
    listed.extend(missing.map(|(name, _)| format!("{} is missing", Escaped(name))));
    let others = found.iter().filter(|(_, name)| number(expected, name).is_none());
    listed.extend(others.map(|(_, name)| format!("{} is not expected", Escaped(name))));
    for (here, name) in found.iter() {
        if let Some(there) = number(expected, name).filter(|there| *there != here) {
            listed.push(format!("{} is {here}, expected {there}", Escaped(name)));
        }
    }
    let rest = listed.len().saturating_sub(MOST_LISTED);
    listed.truncate(MOST_LISTED);
    let rest = if rest > 0 { format!(", and {rest} more") } else { String::new() };
    format!("{}{rest}", listed.join(", "))
}
