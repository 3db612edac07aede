//! The grid: some samples, each as several epochs make it.
//!
//! The images are those of batches, bit for bit: the compiled loops run as in a worker, on images that may have been
//! decoded for an earlier call.

use super::connections::Caller;
use super::dataset::image_fields;
use super::fault::Fault;
use super::http::Response;
use super::limits;
use super::pictures::{Decoded, Rgba, packed, rgba};
use super::pipeline;
use super::request::{lock, number, text_of};
use super::session::{Prepared, Session};
use super::strip::{MOST_FRAMES, Strip};
use fuseloop::Error;
use fuseloop::SampleId;
use fuseloop::internals::jit::{ShownLevels, shown_row, unsupported};
use fuseloop::internals::loader::{DrawnRow, Inspected, Inspector};
use fuseloop::internals::plan::OpOutcome;
use fuseloop::internals::preview::draw_targets;
use fuseloop::internals::threads::builder;
use fuseloop::ops::Size;
use fuseloop::ops::author::Type;
use fuseloop::ops::internals::memory::NoMemory;
use fuseloop::ops::internals::{ImageView, PixelFormat};
use fuseloop::source::BoxError;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The most samples and draws of a grid, and cells of both.
const MOST_SAMPLES: u32 = 32;
const MOST_DRAWS: u32 = 16;
const MOST_CELLS: u32 = 128;
/// The largest side of a picture in the grid.
const MOST_SIDE: u32 = 512;

/// A cell that is done.
struct Cell {
    picture: Option<Rgba>,
    json: Value,
}

/// Answers the call `grid`: also where the pipeline is wrong, so that the page has the text and the cards.
pub(super) fn respond(session: &Session, body: &Value, caller: &Caller<'_>) -> Response {
    let text = session.text(body);
    let shown = text.as_deref().unwrap_or_else(|_| text_of(body));
    let mut header = json!({
        "sequence": body["sequence"],
        "text": shown,
        "fields": pipeline::as_json(&pipeline::fields(shown), shown),
    });
    let made = text
        .as_ref()
        .map_err(|_| None)
        .and_then(|text| grid((session, caller), text, body, &mut header).map_err(Some));
    let pictures = match made {
        Ok(pictures) => pictures,
        Err(fault) => {
            let fault = fault.as_ref().or_else(|| text.as_ref().err());
            header["fault"] = fault.map_or(Value::Null, Fault::to_json);
            vec![]
        }
    };
    let kind = "application/octet-stream";
    Response { status: 200, kind, body: packed(&header, &pictures) }
}

fn grid(
    (session, caller): (&Session, &Caller<'_>),
    text: &str,
    body: &Value,
    header: &mut Value,
) -> Result<Vec<Rgba>, Fault> {
    let start = Instant::now();
    let prepared = session.prepared(text, body)?;
    let output = prepared.output(body)?;
    let epoch = number(body, "epoch", 0, u32::MAX - MOST_DRAWS);
    let draws = number(body, "draws", 4, MOST_DRAWS).max(1);
    let rows = number(body, "rows", 6, MOST_SAMPLES).clamp(1, MOST_CELLS / draws);
    let side = number(body, "side", 224, MOST_SIDE).max(16);
    let with_targets = body["targets"].as_bool().unwrap_or(false);
    let (samples, all) = prepared.samples.page(body, rows)?;
    let images = prepared.loader.images_of_sample(output);
    let pictures = images.map_or(1, |images| images.min(MOST_FRAMES));
    let side = limits::side(samples.len() * draws as usize * pictures, side);
    let first = prepared.inspector(output, epoch)?;
    let decoding: Arc<str> =
        format!("{} {:?}", prepared.decoding(output), first.kernel().plan().input()).into();
    let compiled = start.elapsed();
    let bands = bands(body);
    let work = Work {
        session,
        caller,
        prepared: &prepared,
        output,
        decoding,
        has_strips: images.is_some(),
        side,
        with_targets,
        bands,
        pixels: AtomicU64::new(0),
    };
    let jobs: Vec<(u64, u32)> =
        (epoch..epoch + draws).flat_map(|e| samples.iter().map(move |s| (*s, e))).collect();
    let cells = work.run(&jobs, (epoch, first))?;
    let plan = prepared.inspector(output, epoch)?;
    let plan = plan.kernel().plan();
    header["field"] = json!(output);
    header["images"] = json!(prepared.images);
    header["image_fields"] = json!(image_fields(&*prepared.samples.source));
    header["images_of_sample"] = json!(images);
    header["samples_print"] = json!(prepared.samples.print());
    header["output"] = json!(Type::Image(plan.output()).to_string());
    header["channels"] = json!(plan.output().channels);
    header["output_bytes"] = json!(plan.sample_bytes());
    header["not_compiled"] = json!(unsupported());
    header["changes"] = json!(prepared.spec.changes());
    header["all"] = json!(all);
    header["draws"] = json!(draws);
    header["seed"] = json!(body["seed"].as_u64().or(prepared.spec.settings().seed).unwrap_or(0));
    header["samples"] = samples
        .iter()
        .map(|sample| json!({ "sample": sample, "labels": prepared.samples.label_words(*sample) }))
        .collect();
    let (pictures, cells): (Vec<_>, Vec<_>) =
        cells.into_iter().map(|cell| (cell.picture, cell.json)).unzip();
    header["cells"] = cells.into();
    header["compile_ms"] = json!(millis(compiled));
    header["total_ms"] = json!(millis(start.elapsed()));
    Ok(pictures.into_iter().flatten().collect())
}

/// Returns the channels that a call shows: one, or three; else those that are shown by default.
pub(super) fn bands(body: &Value) -> Vec<usize> {
    let bands = body["bands"].as_array().into_iter().flatten().take(4);
    let bands = bands.filter_map(|band| usize::try_from(band.as_u64()?).ok());
    Some(bands.collect())
        .filter(|bands: &Vec<usize>| matches!(bands.len(), 1 | 3))
        .unwrap_or_default()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The state that the threads of a grid share.
struct Work<'a> {
    session: &'a Session,
    caller: &'a Caller<'a>,
    prepared: &'a Prepared,
    output: &'a str,
    decoding: Arc<str>,
    /// True if samples have several images.
    has_strips: bool,
    side: u32,
    with_targets: bool,
    bands: Vec<usize>,
    /// The pixels that the ops of the cells so far have made.
    pixels: AtomicU64,
}

impl Work<'_> {
    /// Computes the cells on all cores, in the order of the jobs.
    fn run(
        &self,
        jobs: &[(u64, u32)],
        (epoch, first): (u32, Inspector),
    ) -> Result<Vec<Cell>, Fault> {
        let threads = limits::threads(first.kernel().plan(), jobs.len());
        let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
        let failed = Mutex::new(None);
        let first = Mutex::new(Some((epoch, first)));
        let work = || {
            let mut held = lock(&first).take();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(&(sample, epoch)) = jobs.get(index) else { return };
                if lock(&failed).is_some() {
                    return;
                }
                let inspector = match held.take() {
                    Some((of, inspector)) if of == epoch => Ok(inspector),
                    _ => self.prepared.inspector(self.output, epoch),
                };
                let cell = inspector.and_then(|mut inspector| {
                    self.check(jobs.len())?;
                    let cell = match self.has_strips {
                        true => self.strip(&mut inspector, (sample, epoch), jobs.len())?,
                        false => self.cell(&mut inspector, sample, epoch)?,
                    };
                    Ok((cell, inspector))
                });
                match cell {
                    Ok((cell, inspector)) => {
                        lock(&done).insert(index, cell);
                        held = Some((epoch, inspector));
                    }
                    Err(fault) => {
                        *lock(&failed) = Some(fault);
                        return;
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let thread = builder("fuseloop-grid".to_owned());
                if let Err(error) = thread.and_then(|thread| thread.spawn_scoped(scope, work)) {
                    let message = format!("cannot start a thread: {error}");
                    let cure = "allow more processes (`ulimit -u`) or more memory (`ulimit -v`)";
                    *lock(&failed) = Some(Fault::plain(&message, cure));
                }
            }
        });
        let failed = lock(&failed).take();
        match failed {
            Some(fault) => Err(fault),
            None => Ok(std::mem::take(&mut *lock(&done)).into_values().collect()),
        }
    }

    /// Refuses another cell if those so far were too much, or the answer has no reader.
    fn check(&self, cells: usize) -> Result<(), Fault> {
        if self.caller.is_gone() {
            return Err(Fault::gone());
        }
        match self.pixels.load(Ordering::Relaxed) > limits::MOST_GRID {
            true => Err(limits::grid_too_large(cells)),
            false => Ok(()),
        }
    }

    /// Computes a cell; of a damaged sample, what is wrong with it.
    fn cell(&self, inspector: &mut Inspector, sample: u64, epoch: u32) -> Result<Cell, Fault> {
        let mut json = json!({ "sample": sample, "epoch": epoch });
        match self.picture(inspector, sample) {
            Ok((picture, words)) => {
                json["width"] = json!(picture.size.width);
                json["height"] = json!(picture.size.height);
                json["exact"] = json!(picture.is_exact);
                json["words"] = json!(words);
                Ok(Cell { picture: Some(picture), json })
            }
            Err(error) => self.damaged(&error, json),
        }
    }

    /// Computes a cell of several images.
    fn strip(
        &self,
        inspector: &mut Inspector,
        (sample, epoch): (u64, u32),
        cells: usize,
    ) -> Result<Cell, Fault> {
        let mut json = json!({ "sample": sample, "epoch": epoch });
        let mut refused = None;
        let shows = (self.side, &*self.bands, self.with_targets);
        let strip = Strip::new(inspector, sample, shows, |image| {
            let made = limits::made(image.kernel.plan(), &image.draws);
            self.pixels.fetch_add(made, Ordering::Relaxed);
            self.check(cells).map_err(|fault| {
                refused = Some(fault);
                BoxError::from("the grid is refused")
            })
        });
        match (refused, strip) {
            (Some(fault), _) => Err(fault),
            (None, Ok(None)) => {
                json["empty"] = json!("the list has no images");
                Ok(Cell { picture: None, json })
            }
            (None, Ok(Some(strip))) => {
                strip.describe(&mut json);
                json["words"] = json!(strip.words);
                Ok(Cell { picture: Some(strip.picture), json })
            }
            (None, Err(error)) => self.damaged(&error, json),
        }
    }

    /// Returns the cell of a damaged sample. An image that is too large is no damage.
    fn damaged(&self, error: &Error, mut json: Value) -> Result<Cell, Fault> {
        match error.cause() {
            Some(large) => Err(Fault::too_large(large, (self.output, None), self.prepared.text())),
            None => {
                json["damaged"] = json!(error.to_string());
                Ok(Cell { picture: None, json })
            }
        }
    }

    fn picture(
        &self,
        inspector: &mut Inspector,
        sample: u64,
    ) -> Result<(Rgba, Vec<String>), Error> {
        let key = (Arc::clone(&self.decoding), sample);
        let is_whole = inspector.decodes_whole();
        let held = lock(&self.session.pictures).get(&key).filter(|_| is_whole);
        let held = held.as_deref();
        let drawn = match held.and_then(|held| held.view()) {
            Some(view) => inspector.row_of(sample, &view)?,
            None => {
                let Inspected { draws, row, kernel, pixels, format, .. } =
                    inspector.sample(sample)?;
                // Images of more channels are run plane by plane, from another form.
                if format.channels <= 4 && is_whole {
                    let size = draws.source;
                    lock(&self.session.pictures).insert(key, Decoded { pixels, size, format });
                }
                DrawnRow { draws, row, kernel }
            }
        };
        let DrawnRow { draws, row, kernel } = drawn;
        let plan = kernel.plan();
        self.pixels.fetch_add(limits::made(plan, &draws), Ordering::Relaxed);
        let (mut shown, size) = (shown_row(plan, &draws, &row, &self.bands)?, draws.output);
        let words = draws.describe(plan);
        let words = words.iter().filter(|op| op.outcome == OpOutcome::Runs && !op.words.is_empty());
        let words = words.map(ToString::to_string).collect();
        if self.with_targets {
            let input = plan.input();
            let format = PixelFormat { channels: input.channels.into(), dtype: input.dtype };
            let wanted = draws.source.full();
            let (sample, pixels) = (SampleId(sample), vec![]);
            let kernel = Arc::clone(&kernel);
            let scaled = None;
            let inspected =
                Inspected { sample, draws, scaled, wanted, pixels, format, row, kernel };
            if let Some(targets) = inspector.targets(&inspected)?
                && let Some(step) = targets.steps().last()
                && let Some(drawn) = over(&shown, size, &targets, step)?
            {
                shown = drawn;
            }
        }
        Ok((rgba(&shown, size, self.side)?, words))
    }
}

/// Returns a picture with targets drawn over it.
pub(super) fn over(
    shown: &ShownLevels,
    size: Size,
    targets: &fuseloop::internals::loader::InspectedTargets,
    step: &fuseloop::internals::loader::TargetStep,
) -> Result<Option<ShownLevels>, NoMemory> {
    let view = ImageView::packed_channels(&shown.pixels, size, shown.channels);
    let Some(view) = view else { return Ok(None) };
    let pixels = draw_targets(view, targets, step)?.rgb().to_vec();
    Ok(Some(ShownLevels { pixels, channels: 3, is_stretched: false }))
}

impl Prepared {
    /// Returns the numbers stored with a sample as `replay` shows them.
    pub(super) fn stored_words(&self, sample: u64) -> Vec<String> {
        self.loader.labels(sample)
    }
}
