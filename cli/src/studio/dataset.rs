//! The contents of the dataset: its fields, classes and sizes, and small pictures of its samples.

use super::super::pick::spread;
use super::connections::Caller;
use super::fault::Fault;
use super::http::Response;
use super::pictures::{Rgba, answered, rgba};
use super::pipeline;
use super::request::{lock, number, text_of};
use super::samples::MOST_CLASSES;
use super::session::{ANY_BATCH, Prepared, Session};
use fuseloop::internals::jit::shown_row;
use fuseloop::internals::loader::Inspected;
use fuseloop::internals::source::is_video;
use fuseloop::source::{ClassNames, FieldKind, Source};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The side of a small picture.
const THUMB: u32 = 112;
/// The most small pictures of one call.
const MOST_THUMBS: u32 = 96;
/// The most samples whose sizes are counted, and the most videos: a frame of each is decoded.
const MOST_SIZES: u64 = 400;
const MOST_VIDEO_SIZES: u64 = 24;
/// The clips of a dataset of video files whose pipeline has none: a frame of each video.
const FIRST_FRAMES: &str = "[clips]\nsampler = \"regular\"\nframes = 1\n";

/// Returns the fields of images, and those of arrays that may be images.
pub(super) fn image_fields(source: &dyn Source) -> Vec<String> {
    let may_be = |kind: &FieldKind| match kind {
        // No op of images works on floats of 64 bits, which the times of clips are.
        FieldKind::NdArray { dtype, shape } | FieldKind::TorchTensor { dtype, shape } => {
            matches!(shape.len(), 2 | 3) && dtype.to_string() != "<f8"
        }
        kind => kind.is_image(),
    };
    let images = source.fields().iter().filter(|field| may_be(&field.kind));
    images.map(|field| field.name.clone()).collect()
}

/// Returns the numbers and names of the classes.
pub(super) fn classes(names: &ClassNames) -> Value {
    names.iter().take(MOST_CLASSES).map(|(number, name)| json!([number, name])).collect()
}

/// Returns the fields of video files.
pub(super) fn video_fields(source: &dyn Source) -> Vec<String> {
    let videos = source.fields().iter().enumerate().filter(|(index, _)| is_video(source, *index));
    videos.map(|(_, field)| field.name.clone()).collect()
}

impl Session {
    /// Returns the loader of small pictures of the stored images; of a pipeline with clips, of the first frames of its
    /// videos.
    pub(super) fn thumb_loader(&self, body: &Value) -> Result<Arc<Prepared>, Fault> {
        let source = &*self.samples.source;
        let videos = video_fields(source);
        let mut fields = image_fields(source);
        let own = pipeline::table(text_of(body), "clips");
        let clips = own.unwrap_or_else(|| {
            let has_frames = fields.is_empty() && !videos.is_empty();
            if has_frames { FIRST_FRAMES.to_owned() } else { String::new() }
        });
        if !clips.is_empty() {
            fields.extend(videos);
        }
        let mut held = lock(&self.thumbs);
        if let Some((_, known)) = held.as_ref().filter(|(known, _)| *known == clips) {
            return Ok(Arc::clone(known));
        }
        let mut failed =
            Fault::plain("the dataset has no image field", "`fuseloop info` shows its fields");
        for field in fields {
            match self.thumbs_of(&field, &clips) {
                Ok(prepared) => {
                    *held = Some((clips, Arc::clone(&prepared)));
                    return Ok(prepared);
                }
                Err(fault) => failed = fault,
            }
        }
        Err(failed)
    }

    fn thumbs_of(&self, field: &str, clips: &str) -> Result<Arc<Prepared>, Fault> {
        let (field, side) = (Value::from(field), THUMB);
        let text = format!(
            "{clips}\n[fields]\n{field} = [{{ op = \"Letterbox\", size = {side}, fill = 0 }}]\n"
        );
        let spec = self.checked(&text)?;
        // Without targets, objects are not read; but a mask can't stay behind.
        let loader = self.loader(&spec, 0, false, ANY_BATCH);
        let loader = loader.or_else(|_| self.loader(&spec, 0, true, ANY_BATCH));
        let loader = loader.map_err(|error| Fault::of(error, &text))?;
        Ok(Arc::new(self.with_samples((text, 0, false), spec, loader)))
    }
}

/// Answers the call `dataset`.
pub(super) fn describe(
    session: &Session,
    body: &Value,
    caller: &Caller<'_>,
) -> Result<Value, Fault> {
    let thumbs = session.thumb_loader(body);
    let samples = thumbs.as_ref().map_or(&session.samples, |thumbs| &thumbs.samples);
    let source = &*samples.source;
    let field = |(index, field): (usize, &fuseloop::source::FieldSpec)| {
        let stats = source.image_stats(index);
        json!({
            "name": field.name,
            "kind": field.kind.word(),
            "sizes": stats.as_ref().and_then(|stats| Some([stats.min?.width, stats.max?.width, stats.min?.height, stats.max?.height])),
            "jpeg": stats.as_ref().map(|stats| stats.jpeg),
            "raw": stats.as_ref().map(|stats| stats.raw),
        })
    };
    let (names, labels) = (&samples.names, samples.labels());
    let mut classes: BTreeMap<i64, (Option<&str>, Option<u64>)> =
        names.iter().map(|(number, name)| (number, (Some(name), None))).collect();
    for (number, count) in labels.iter().flat_map(|labels| &labels.counts) {
        classes.entry(*number).or_default().1 = Some(*count);
    }
    let class = |(number, (name, count)): (&i64, &(Option<&str>, Option<u64>))| json!({ "number": number, "name": name, "samples": count });
    let sizes = thumbs.as_ref().map_or_else(|_| vec![], |thumbs| sizes(thumbs, caller));
    Ok(json!({
        "name": session.path.to_string_lossy(),
        "samples": source.len(),
        "fields": source.fields().iter().enumerate().map(field).collect::<Value>(),
        "classes": classes.iter().take(MOST_CLASSES).map(class).collect::<Value>(),
        "classes_in_all": classes.len(),
        "can_filter": labels.is_some(),
        "sizes": sizes.iter().map(|(h, w)| json!([h, w])).collect::<Value>(),
    }))
}

/// Returns the heights and widths of some samples, spread over the dataset.
fn sizes(prepared: &Prepared, caller: &Caller<'_>) -> Vec<(u32, u32)> {
    let Some(output) = prepared.images.first() else { return vec![] };
    let Ok(mut inspector) = prepared.inspector(output, 0) else { return vec![] };
    let are_clips = prepared.spec.settings().clips.is_some();
    let most = if are_clips { MOST_VIDEO_SIZES } else { MOST_SIZES };
    let samples = spread(most, prepared.samples.len()).into_iter();
    let samples = samples.take_while(|_| !caller.is_gone());
    let size = |sample| inspector.stored_size(sample).ok().map(|size| (size.height, size.width));
    samples.filter_map(size).collect()
}

/// Answers the call `thumbs`: stored images, letterboxed, from `offset` on.
pub(super) fn respond_thumbs(session: &Session, body: &Value, caller: &Caller<'_>) -> Response {
    answered(body, |header| thumbs((session, caller), body, header))
}

fn thumbs(
    (session, caller): (&Session, &Caller<'_>),
    body: &Value,
    header: &mut Value,
) -> Result<Vec<Rgba>, Fault> {
    let prepared = session.thumb_loader(body)?;
    let chosen = prepared.samples.chosen(body)?;
    let all = chosen.len();
    let offset = body["offset"].as_u64().unwrap_or(0).min(all);
    let end = offset.saturating_add(number(body, "count", 24, MOST_THUMBS).into()).min(all);
    let mut inspector = prepared.inspector(prepared.output(&Value::Null)?, 0)?;
    let (mut pictures, mut cells) = (vec![], vec![]);
    for at in offset..end {
        if caller.is_gone() {
            return Err(Fault::gone());
        }
        let Some(sample) = chosen.at(at) else { break };
        let mut cell = json!({ "sample": sample, "labels": prepared.samples.label_words(sample) });
        let picture = inspector.sample(sample).map_err(|error| error.to_string());
        let picture = picture.and_then(|inspected| {
            let Inspected { draws, row, kernel, .. } = inspected;
            cell["size"] = json!([draws.source.height, draws.source.width]);
            let shown = shown_row(kernel.plan(), &draws, &row, &[]);
            shown.and_then(|shown| rgba(&shown, draws.output, THUMB)).map_err(|e| e.to_string())
        });
        match picture {
            Ok(picture) => {
                cell["width"] = json!(picture.size.width);
                cell["height"] = json!(picture.size.height);
                pictures.push(picture);
            }
            Err(error) => cell["damaged"] = json!(error),
        }
        cells.push(cell);
    }
    header["all"] = json!(all);
    header["offset"] = json!(offset);
    header["cells"] = cells.into();
    Ok(pictures)
}
