//! The plan of a pipeline and its cost: what `fuseloop explain --json` has.

use super::super::explain;
use super::super::pick::spread;
use super::fault::Fault;
use super::session::{Session, number};
use serde_json::Value;

/// The number of samples that are measured: enough to compare ops, and done in a fraction of a second.
const SAMPLES: usize = 6;

/// The number of samples that are tried: damaged ones are passed over.
const MOST_TRIED: u64 = 24;

/// Answers the call `plan`.
pub(super) fn measure(session: &Session, body: &Value) -> Result<Value, Fault> {
    let text = session.text(body)?;
    let prepared = session.prepared(&text, body)?;
    let output = prepared.output(body)?;
    let mut inspector = prepared.inspector(output, number(body, "epoch", 0, u32::MAX))?;
    let name = output.to_owned();
    // Samples of the whole dataset come first, then those between them.
    let tried = spread(MOST_TRIED, session.source.len());
    let tried = (0..4).flat_map(|start| tried.iter().skip(start).step_by(4).copied());
    let samples: Vec<u64> =
        tried.filter(|sample| inspector.sample(*sample).is_ok()).take(SAMPLES).collect();
    let report = explain::report(&samples, &prepared.loader, name, &mut inspector)?;
    Ok(explain::field_json(&report))
}
