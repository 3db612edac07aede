//! Compares the names of a dataset's classes with those expected, and with one-hot vectors.

use super::error::LoadCause;
use super::outputs::OutputSpec;
use super::work::{FieldPlan, OutputPlan};
use crate::source::{ClassNames, Escaped, FieldKind, Source};
use crate::warnings::warn;

/// The most differences that an error lists.
const MOST_LISTED: usize = 5;

/// Returns the names of a dataset's classes, none if they are not known.
pub(super) fn names(source: &dyn Source) -> Result<ClassNames, LoadCause> {
    let names = source.class_names();
    let names = names.map_err(|error| LoadCause::Classes {
        dataset: source.name().to_owned(),
        error: error.into(),
    })?;
    Ok(names.unwrap_or_default())
}

/// Refuses a dataset whose classes have other names or numbers than expected.
pub(super) fn check(source: &dyn Source, expected: &ClassNames) -> Result<(), LoadCause> {
    let (found, dataset) = (names(source)?, source.name().to_owned());
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

/// Warns of a one-hot vector without an element for a class of the dataset, if the classes are those of its only integers.
pub(super) fn warn_of_one_hot(source: &dyn Source, outputs: &[OutputSpec], plans: &[OutputPlan]) {
    let ints = source.fields().iter().filter(|field| field.kind == FieldKind::Int);
    if ints.count() != 1 {
        return;
    }
    for (output, plan) in outputs.iter().zip(plans) {
        let FieldPlan::Label(label) = &plan.work else { continue };
        let Some(elements) = label.one_hot_elements() else { continue };
        // Names that can't be read are an error where they are asked for.
        let Ok(Some(names)) = source.class_names() else { return };
        let mut others = names.iter().filter(|(number, _)| !(0..elements.into()).contains(number));
        if let Some((number, class)) = others.next() {
            warn(format_args!(
                "{}: output {}: OneHot makes vectors of length {elements}, but the dataset has class {number} ({:?}): samples \
                 of this class are damaged",
                source.name(),
                Escaped(&output.name),
                Escaped(class).to_string()
            ));
        }
    }
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
