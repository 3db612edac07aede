//! The plan of a pipeline and its cost: what `fuseloop explain --json` has. Of samples with several images, the first one
//! is measured.

use super::super::explain;
use super::super::pick::spread;
use super::connections::Caller;
use super::fault::Fault;
use super::limits;
use super::request::number;
use super::session::Session;
use serde_json::Value;

/// The number of samples that are measured: enough to compare ops, and done in a fraction of a second.
const SAMPLES: usize = 6;

/// The number of samples that are tried: damaged ones are passed over.
const MOST_TRIED: u64 = 24;

/// Answers the call `plan`.
pub(super) fn measure(
    session: &Session,
    body: &Value,
    caller: &Caller<'_>,
) -> Result<Value, Fault> {
    let text = session.text(body)?;
    let prepared = session.prepared(&text, body)?;
    let output = prepared.output(body)?;
    let mut inspector = prepared.inspector(output, number(body, "epoch", 0, u32::MAX))?;
    let name = output.to_owned();
    // Samples of the whole dataset come first, then those between them.
    let tried = spread(MOST_TRIED, prepared.samples.len());
    let tried = (0..4).flat_map(|start| tried.iter().skip(start).step_by(4).copied());
    let most = limits::measured(inspector.kernel().plan(), SAMPLES);
    let waited_for = tried.take_while(|_| !caller.is_gone());
    let whole = waited_for.filter(|sample| inspector.sample(*sample).is_ok());
    let samples: Vec<u64> = whole.take(most).collect();
    if caller.is_gone() {
        return Err(Fault::gone());
    }
    let report = explain::report(&samples, &prepared.loader, name, &mut inspector)?;
    Ok(explain::field_json(&report))
}
