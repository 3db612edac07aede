//! One sample: the stored image and the image after every op, with what was drawn. A sample with several images also has
//! their strip, and its steps are those of the first image: of the first frame of its video, or the first of its list.

use super::connections::Caller;
use super::fault::{Fault, GONE};
use super::grid::{bands, over};
use super::http::Response;
use super::limits;
use super::pictures::{Rgba, answered, rgba};
use super::request::number;
use super::session::Session;
use super::strip::Strip;
use fuseloop::Error;
use fuseloop::internals::plan::OpOutcome;
use fuseloop::ops::Size;
use fuseloop::ops::author::Type;
use serde_json::{Value, json};

/// The largest side of a picture.
const MOST_SIDE: u32 = 1024;
/// The largest side of each image of a strip.
const FRAME_SIDE: u32 = 256;

/// Answers the call `sample`.
pub(super) fn respond(session: &Session, body: &Value, caller: &Caller<'_>) -> Response {
    answered(body, |header| steps((session, caller), body, header))
}

fn steps(
    (session, caller): (&Session, &Caller<'_>),
    body: &Value,
    header: &mut Value,
) -> Result<Vec<Rgba>, Fault> {
    let text = session.text(body)?;
    let prepared = session.prepared(&text, body)?;
    let output = prepared.output(body)?;
    let sample = body["sample"].as_u64().unwrap_or(0);
    let epoch = number(body, "epoch", 0, u32::MAX);
    let mut inspector = prepared.inspector(output, epoch)?;
    let failed = |error: Error| {
        if let Some(large) = error.cause() {
            return Fault::too_large(large, (output, None), &text);
        }
        let cure = "`fuseloop verify` lists all damaged samples of the dataset";
        Fault::plain(&error.to_string(), cure)
    };
    let inspected = inspector.sample(sample).map_err(&failed)?;
    limits::check_steps(inspected.kernel.plan(), &inspected.draws)?;
    let steps = inspector.steps(&inspected).map_err(&failed)?;
    let targets = match body["targets"].as_bool() {
        Some(true) => inspector.targets(&inspected).map_err(&failed)?,
        _ => None,
    };
    let mut pictures = vec![];
    if prepared.loader.images_of_sample(output).is_some() {
        let asked = bands(body);
        let shows = (FRAME_SIDE, &*asked, targets.is_some());
        let strip = Strip::new(&mut inspector, sample, shows, |_| {
            if caller.is_gone() { Err(GONE.into()) } else { Ok(()) }
        });
        if let Some(strip) = strip.map_err(&failed)? {
            strip.describe(&mut header["strip"]);
            pictures.push(strip.picture);
        }
    }
    let mut add = |shown: Result<_, _>, size: Size, step: usize| -> Result<Value, Error> {
        let mut shown: fuseloop::internals::jit::ShownLevels = shown?;
        let channels = shown.channels;
        if let Some(targets) = &targets
            && let Some(step) = targets.steps().get(step)
            && let Some(drawn) = over(&shown, size, targets, step)?
        {
            shown = drawn;
        }
        let picture = rgba(&shown, size, MOST_SIDE)?;
        let json = json!({
            "width": picture.size.width,
            "height": picture.size.height,
            "exact": picture.is_exact,
            "size": [size.height, size.width],
            "channels": channels,
            "stretched": shown.is_stretched,
        });
        pictures.push(picture);
        Ok(json)
    };
    let (source, bands) = (inspected.run_draws().source, bands(body));
    let mut all = vec![];
    let mut first = add(inspected.shown(&bands), source, 0).map_err(failed)?;
    first["name"] = json!("stored");
    first["words"] = json!(inspected.size_words());
    first["outcome"] = json!("runs");
    all.push(first);
    for step in &steps {
        let added = add(step.shown(&bands), step.picture.size(), step.drawn.flat_op + 1);
        let mut json = added.map_err(failed)?;
        json["name"] = json!(step.drawn.name);
        json["words"] = json!(step.drawn.words);
        json["outcome"] = json!(match step.drawn.outcome {
            OpOutcome::Runs => "runs",
            OpOutcome::Skipped => "skipped",
            OpOutcome::NotChosen => "not chosen",
        });
        all.push(json);
    }
    let window = inspected.wanted;
    header["sample"] = json!(sample);
    header["epoch"] = json!(epoch);
    header["labels"] = json!(prepared.samples.label_words(sample));
    header["stored"] = json!(prepared.stored_words(sample));
    header["window"] = json!([window.top, window.left, window.height, window.width]);
    header["source"] = json!([source.height, source.width]);
    header["agrees"] = json!(inspector.agrees(&inspected).map_err(failed)?);
    header["output"] = json!(Type::Image(inspected.kernel.plan().output()).to_string());
    header["objects"] = targets.iter().flat_map(|targets| targets.describe()).collect();
    header["steps"] = all.into();
    Ok(pictures)
}
