//! The plan of a pipeline and its cost: what `fuseloop explain --json` has.

use super::super::explain;
use super::fault::Fault;
use super::session::{Session, number};
use serde_json::Value;

/// The number of samples that are measured: enough to compare ops, and done in a fraction of a second.
const SAMPLES: u64 = 6;

/// Answers the call `plan`.
pub(super) fn measure(session: &Session, body: &Value) -> Result<Value, Fault> {
    let text = session.text(body)?;
    let prepared = session.prepared(&text, body)?;
    let output = prepared.output(body)?;
    let mut inspector = prepared.inspector(output, number(body, "epoch", 0, u32::MAX))?;
    let name = output.to_owned();
    let report = explain::report(SAMPLES, &prepared.loader, name, &mut inspector)?;
    Ok(explain::field_json(&report))
}
