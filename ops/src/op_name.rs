//! Names of ops that are made at run time.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Returns a name for an op that is known only at run time, such as that of a function in another language.
///
/// The text of each distinct name is stored once and never freed: ops, plans and errors keep names as
/// `&'static str`.
///
/// ```
/// use fuseloop_ops::Lambda;
/// use fuseloop_ops::author::op_name;
///
/// let name = format!("Add{}", 3);
/// let add = Lambda::label(op_name(&name), |_, label| label + 3);
/// assert_eq!(format!("{add:?}"), "Lambda(Add3)");
/// ```
#[must_use]
pub fn op_name(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let name = Box::leak(Box::from(name));
    names.insert(name);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_are_stored_once() {
        let [one, other] = [0, 1].map(|_| op_name(&format!("made at run time {}", 7)));
        assert!(std::ptr::eq(one, other));
        assert_eq!((one, op_name("")), ("made at run time 7", ""));
    }
}
