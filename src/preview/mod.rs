//! Shows what the ops make of some samples, as one image: a sheet, with what was drawn under each picture.
//!
//! ```text
//! stored   epoch 0  epoch 1  ..        or, with `each_op`:   stored   op      op      ..
//! [     ]  [     ]  [     ]                                  [     ]  [    ]  [    ]
//! sample   what was drawn                                    sample   what was drawn
//! ```
//!
//! ```no_run
//! use fuseloop::Loader;
//! use fuseloop::preview::PreviewOptions;
//!
//! let loader = Loader::open("train.beton")?.build()?;
//! let sheet = loader.preview(&PreviewOptions { samples: 4, epochs: 3, ..PreviewOptions::default() })?;
//! std::fs::write("preview.png", sheet.png()?)?;
//! # Ok::<(), fuseloop::Error>(())
//! ```
//!
//! Values after `Normalize` are shown as the levels that they had before, by the inverse of the normalization. Other
//! values are stretched: the smallest is black and the largest is white. One channel of them is drawn in the colours
//! of a map, which fills the cell, and an array of a few long rows as waveforms. Where the output has
//! [targets](crate::LoaderBuilder::targets), they are drawn over the images.
//! `fuseloop preview` draws the same sheets.

pub(crate) mod canvas;
pub(crate) mod encode;
pub(crate) mod font;
pub(crate) mod plot;
mod strips;
pub(crate) mod targets;

use crate::cancel::CancelFlag;
use crate::error::{Error, ErrorKind, fail};
use crate::jit::{EvaluatedStep, ShownLevels, shown_row};
use crate::loader::Loader;
use crate::loader::error::{is_end, of_number};
use crate::loader::inspect::{Inspected, Inspector};
use crate::loader::inspected_targets::InspectedTargets;
use crate::plan::batch_ops::{self, BatchStep};
use crate::plan::{DrawnOp, Draws, ImagePlan, OpKind, OpOutcome};
use canvas::{Canvas, Colour, LINE, fitted, wrapped};
use fuseloop_ops::Size;
use fuseloop_ops::internals::DefaultFloats;
use fuseloop_ops::internals::memory::NoMemory;
use fuseloop_ops::internals::{ImageView, memory};
use std::fmt;

/// The side of a cell in pixels.
const CELL: u32 = 224;
/// The gap between cells in pixels.
const GAP: u32 = 12;
/// The margin around the sheet in pixels.
const MARGIN: u32 = 20;
/// The maximum number of lines under an image.
const MOST_LINES: usize = 12;
/// The maximum number of cells of a sheet: 300 MB of pixels.
const MOST_CELLS: usize = 2000;
const BACKGROUND: Colour = [0x14, 0x16, 0x1b];
const CELL_COLOUR: Colour = [0x1d, 0x20, 0x27];
const TEXT: Colour = [0xc8, 0xcc, 0xd4];

/// What a sheet shows: see [`Loader::preview`].
///
/// ```no_run
/// use fuseloop::preview::PreviewOptions;
///
/// # let loader = fuseloop::Loader::open("train.beton")?.build()?;
/// let options = PreviewOptions { samples: 4, each_op: true, ..PreviewOptions::default() };
/// std::fs::write("ops.png", loader.preview(&options)?.png()?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewOptions {
    /// The number of samples, spread over those of the loader, because neighbours are often of the same class; of
    /// a stream of unknown length the first ones.
    pub samples: usize,
    /// The first epoch.
    pub epoch: u32,
    /// The number of epochs of each sample.
    pub epochs: u32,
    /// Shows the image after every op instead, for one epoch.
    pub each_op: bool,
    /// The image output: a field, a view or a branch; the first one by default.
    pub output: Option<String>,
    /// The channels that are shown: one in gray, or three as red, green and blue. By default, the first ones.
    pub bands: Vec<usize>,
    /// Ends the call from another thread.
    pub cancel: CancelFlag,
}

impl Default for PreviewOptions {
    /// Eight samples in epoch 0.
    fn default() -> Self {
        let (samples, epoch, epochs, each_op) = (8, 0, 1, false);
        let (output, bands, cancel) = (None, vec![], CancelFlag::default());
        Self { samples, epoch, epochs, each_op, output, bands, cancel }
    }
}

/// An image of samples with captions: what [`Loader::preview`] returns.
///
/// ```no_run
/// use fuseloop::preview::PreviewOptions;
///
/// # let loader = fuseloop::Loader::open("train.beton")?.build()?;
/// let sheet = loader.preview(&PreviewOptions::default())?;
/// println!("{} x {} pixels", sheet.width(), sheet.height());
/// std::fs::write("sheet.jpg", sheet.jpeg()?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Sheet {
    canvas: Canvas,
    /// The samples of which at least one image is left out.
    damaged: Vec<u64>,
}

impl Sheet {
    /// Returns the width in pixels.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.canvas.size().width
    }

    /// Returns the height in pixels.
    #[must_use]
    pub fn height(&self) -> u32 {
        self.canvas.size().height
    }

    /// Returns the pixels, row by row, as red, green, blue.
    #[must_use]
    pub fn rgb(&self) -> &[u8] {
        self.canvas.rgb()
    }

    /// Returns the damaged samples, in the place of whose images the sheet has the errors.
    #[must_use]
    pub fn damaged(&self) -> &[u64] {
        &self.damaged
    }

    /// Returns the sheet as a PNG file.
    ///
    /// # Errors
    ///
    /// If the encoder returns one.
    pub fn png(&self) -> Result<Vec<u8>, Error> {
        let mut file = vec![];
        encode::png(&mut file, self.rgb(), self.canvas.size())
            .map_err(|error| fail!(Io, "the sheet as a PNG: {error}"))?;
        Ok(file)
    }

    /// Returns the sheet as a JPEG file, of quality 92. Needs the feature `write`.
    ///
    /// # Errors
    ///
    /// If the sheet is higher than the 65535 pixels that a JPEG can have.
    #[cfg(feature = "write")]
    pub fn jpeg(&self) -> Result<Vec<u8>, Error> {
        let (mut file, Size { height, width }) = (vec![], self.canvas.size());
        if height.max(width) > u32::from(u16::MAX) {
            return Err(fail!(
                Parameter,
                "a sheet of {width} x {height} pixels, a JPEG has at most 65535 a side: save it as a PNG"
            ));
        }
        encode::jpeg(&mut file, self.rgb(), self.canvas.size())
            .map_err(|error| fail!(Io, "the sheet as a JPEG: {error}"))?;
        Ok(file)
    }
}

/// Shows the size.
impl fmt::Debug for Sheet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sheet({} x {})", self.width(), self.height())
    }
}

impl Loader {
    /// Draws what the ops make of some samples: each sample is a row, with the stored image, then what each epoch
    /// makes of it, and what was drawn. Of clips and lists of images, each sample and epoch is a row of up to 8 frames or
    /// images, evenly spread, with the times of frames and the targets of each. Ops that mix the samples of a batch, such as `Mosaic`, mix those of the sheet. The images are those of the batches, bit for bit, but computed op by op,
    /// which takes some milliseconds each. The targets of an output are drawn over its images: boxes with the names
    /// of their classes, keypoints and masks. In the place of a [damaged](Sheet::damaged) sample's images is its error.
    ///
    /// # Errors
    ///
    /// If no output is an image, or the one asked for is not; if its images do not have the bands; if there are more
    /// than 2000 images; if all of these samples are damaged; and those of [`epoch`](Self::epoch).
    pub fn preview(&self, options: &PreviewOptions) -> Result<Sheet, Error> {
        DefaultFloats::during(|| self.sheet(options))
    }

    fn sheet(&self, options: &PreviewOptions) -> Result<Sheet, Error> {
        let PreviewOptions { samples, epoch: first, epochs, each_op, output, bands, cancel } =
            options;
        if *samples == 0 || *epochs == 0 {
            return Err(fail!(Parameter, "0 samples or 0 epochs: give 1 or more"));
        }
        if *each_op && *epochs > 1 {
            return Err(fail!(
                Parameter,
                "`each_op` shows a single epoch, got {epochs}: drop one of the two options"
            ));
        }
        if !matches!(bands.len(), 0 | 1 | 3) {
            return Err(fail!(
                Parameter,
                "{} bands: give one (shown as gray) or three (red, green and blue)",
                bands.len()
            ));
        }
        check_cells(*samples, *epochs as usize + 1)?;
        let output = self.image_output(output.as_deref())?;
        let samples = self.spread(*samples);
        if !each_op && let Some(images) = self.images_of_sample(&output) {
            check_cells(samples.len() * *epochs as usize, images.min(strips::MOST_IMAGES) + 1)?;
            let (rows, damaged) = self.strips(&output, &samples, options)?;
            return damaged.sheet(&rows, &samples);
        }
        let (mut rows, mut damaged): (Vec<Vec<Cell>>, _) = (vec![], DamagedSamples::default());
        for epoch in (*first..=u32::MAX).take(*epochs as usize) {
            // The output is an image in every epoch: its field stays the same.
            let Some(mut inspector) = self.inspect(&output, epoch)? else { continue };
            let mixers = self.mixing_ops(inspector.kernel().plan());
            let (mut unmixed, mut places) = (vec![], vec![]);
            for (index, &sample) in samples.iter().enumerate() {
                strips::check_cancelled(cancel)?;
                let opened = inspector.sample(sample);
                let found = opened.and_then(|opened| Ok((inspector.targets(&opened)?, opened)));
                let (targets, opened) = match found {
                    Err(error) if index > 0 && is_end(&error) => break,
                    Err(error) if error.kind() == ErrorKind::Damaged => {
                        if rows.len() == index {
                            rows.push(vec![]);
                        }
                        if !damaged.samples.contains(&sample) {
                            rows[index].push(Cell::damaged((sample, epoch), &error));
                        }
                        damaged.add(sample, error);
                        continue;
                    }
                    found => found.map_err(|error| of_number(sample, error))?,
                };
                let channels = opened.format.channels;
                if let Some(&band) = bands.iter().find(|band| **band >= channels) {
                    return Err(fail!(
                        Parameter,
                        "there is no band {band}: the images have {channels} channels, numbered from 0"
                    ));
                }
                let targets = targets.as_ref();
                if rows.len() == index {
                    let shown = (opened.shown(bands)?, opened.run_draws().source);
                    let stored = self.stored(sample, shown, &opened.size_words())?;
                    rows.push(vec![stored.with(targets, 0)?]);
                }
                let shown = (&opened, targets);
                let shows = (*each_op, mixers.is_some(), &**bands);
                rows[index].extend(cells(shows, &inspector, sample, shown, epoch)?);
                unmixed.push((sample, opened.draws));
                places.push(index);
            }
            let Some(names) = mixers else { continue };
            let plan = inspector.kernel().plan();
            let words = format!("{names}, with the other samples of this sheet");
            let mixed = self.mixed(&output, epoch, &unmixed)?;
            for ((place, (_, draws)), mixed) in places.into_iter().zip(&unmixed).zip(&mixed) {
                let Some(mixed) = mixed else { continue };
                let row = &mut rows[place];
                let mut last = Draws::default();
                let (plan, draws) = match plan.later().last() {
                    Some(pass) => {
                        let size = pass.input().size().unwrap_or_default();
                        pass.draw(draws.key, size, &mut last);
                        (&**pass, &last)
                    }
                    None => (plan, draws),
                };
                let shown = shown_row(plan, draws, mixed, bands)?;
                let before = if *each_op { None } else { row.pop() };
                let mut captions = before.map_or_else(Vec::new, |before| before.captions);
                captions.push(words.clone());
                row.push(cell(shown, draws.output, captions)?);
            }
        }
        check_cells(rows.len(), rows.iter().map(Vec::len).max().unwrap_or(0))?;
        damaged.sheet(&rows, &samples)
    }

    /// Returns the names of the ops that mix the samples of a batch, if a sheet can show them: not those of a stream, nor
    /// with a function of the user's on batches.
    fn mixing_ops(&self, plan: &ImagePlan) -> Option<String> {
        let is_function = |step| matches!(step, BatchStep::Host { .. });
        let names: Vec<_> = batch_ops::steps(plan.ops()).map(|step| step.names()).collect();
        let can_show = !names.is_empty() && !self.is_stream() && plan.staged().is_none();
        let can_show = can_show && !batch_ops::steps(plan.ops()).any(is_function);
        can_show.then(|| names.join(", "))
    }

    /// Returns the rows of samples as a batch of them has them; `None` for those that it leaves out.
    fn mixed(
        &self,
        output: &str,
        epoch: u32,
        samples: &[(u64, Draws)],
    ) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let numbers: Vec<u64> = samples.iter().map(|(sample, _)| *sample).collect();
        if numbers.is_empty() {
            return Ok(vec![]);
        }
        let batch = self.get(&numbers, epoch)?;
        let bytes = batch.bytes(output)?;
        let len = bytes.len() / batch.len().max(1);
        let row = |sample: &u64| {
            let at = batch.ids().iter().position(|id| id.0 == *sample)?;
            bytes.get(at * len..(at + 1) * len).map(<[u8]>::to_vec)
        };
        Ok(numbers.iter().map(row).collect())
    }

    /// Returns at most `count` samples, spread over those that the loader reads.
    fn spread(&self, count: usize) -> Vec<u64> {
        let count = count as u64;
        match self.chosen() {
            Some(chosen) => positions(count, chosen.len()).map(|row| chosen.at(row).0).collect(),
            None => (0..count).collect(),
        }
    }

    /// Returns the cell of a stored image, whose size is `words`.
    fn stored(
        &self,
        sample: u64,
        (levels, size): (ShownLevels, Size),
        words: &str,
    ) -> Result<Cell, NoMemory> {
        let mut captions = vec![format!("sample {sample}, {words}")];
        captions.extend(self.labels(sample));
        cell(levels, size, captions)
    }
}

/// Returns at most `count` numbers below `all`, spread evenly.
fn positions(count: u64, all: u64) -> impl Iterator<Item = u64> {
    let count = count.min(all);
    (0..count).map(move |k| k * (all / count) + k * (all % count) / count)
}

fn check_cells(rows: usize, columns: usize) -> Result<(), Error> {
    let cells = rows.saturating_mul(columns);
    if cells > MOST_CELLS {
        let error = fail!(Parameter, "a sheet of {cells} images, the limit is {MOST_CELLS}");
        return Err(error.help("`-n 1` shows one sample; `fuseloop replay` saves one file per op"));
    }
    Ok(())
}

/// The damaged samples of a sheet.
#[derive(Default)]
struct DamagedSamples {
    samples: Vec<u64>,
    first: Option<Error>,
}

impl DamagedSamples {
    /// Adds a sample. `error` does not name it.
    fn add(&mut self, sample: u64, error: Error) {
        if !self.samples.contains(&sample) {
            self.samples.push(sample);
        }
        self.first.get_or_insert_with(|| of_number(sample, error));
    }

    /// Draws the sheet of `rows`.
    ///
    /// # Errors
    ///
    /// If all of `asked` are damaged, with the first error.
    fn sheet(self, rows: &[Vec<Cell>], asked: &[u64]) -> Result<Sheet, Error> {
        let Self { samples: damaged, first } = self;
        match first {
            Some(error) if damaged.len() >= asked.len() => Err(error),
            _ => Ok(Sheet { canvas: drawn(rows)?, damaged }),
        }
    }
}

/// An image and the text under it, one paragraph per entry.
struct Cell {
    pixels: Vec<u8>,
    size: Size,
    channels: usize,
    captions: Vec<String>,
}

impl Cell {
    /// A cell without an image.
    fn empty() -> Self {
        Self { pixels: vec![], size: Size::default(), channels: 3, captions: vec![] }
    }

    /// A cell with the error of a sample in an epoch.
    fn damaged((sample, epoch): (u64, u32), error: &Error) -> Self {
        let captions = vec![format!("sample {sample}, epoch {epoch}"), format!("damaged: {error}")];
        Self { captions, ..Self::empty() }
    }

    /// Returns the cell with the targets drawn over it, as they are before the ops (step 0), or after so many of them.
    fn with(self, targets: Option<&InspectedTargets>, step: usize) -> Result<Self, NoMemory> {
        let step = targets.and_then(|targets| Some((targets, targets.steps().get(step)?)));
        let picture = ImageView::packed_channels(&self.pixels, self.size, self.channels);
        let (Some((targets, step)), Some(picture)) = (step, picture) else { return Ok(self) };
        let pixels = targets::over(picture, targets, step)?.into_rgb();
        Ok(Self { pixels, channels: 3, ..self })
    }
}

/// Returns the cells of one epoch.
fn cells(
    (each_op, is_mixed, bands): (bool, bool, &[usize]),
    inspector: &Inspector,
    sample: u64,
    (opened, targets): (&Inspected, Option<&InspectedTargets>),
    epoch: u32,
) -> Result<Vec<Cell>, Error> {
    let steps = inspector.steps(opened).map_err(|error| of_number(sample, error))?;
    if each_op {
        let steps = steps.iter().filter(|step| step.drawn.outcome != OpOutcome::NotChosen);
        // Ops on the batch are shown together, after all others.
        let ops = opened.kernel.plan().flat_ops();
        let steps =
            steps.filter(|step| !(is_mixed && ops[step.drawn.flat_op].kind == OpKind::Batch));
        let cells = steps.map(|step| after(step, bands, targets, vec![step.drawn.to_string()]));
        return Ok(cells.collect::<Result<_, _>>()?);
    }
    let mut captions = vec![format!("epoch {epoch}")];
    let says_something =
        |drawn: &&DrawnOp| drawn.outcome == OpOutcome::Runs && !drawn.words.is_empty();
    captions.extend(
        steps.iter().map(|step| &step.drawn).filter(says_something).map(DrawnOp::to_string),
    );
    Ok(vec![match steps.last() {
        Some(last) => after(last, bands, targets, captions)?,
        None => {
            cell(opened.shown(bands)?, opened.run_draws().source, captions)?.with(targets, 0)?
        }
    }])
}

/// Returns the cell of the image after an op.
fn after(
    step: &EvaluatedStep,
    bands: &[usize],
    targets: Option<&InspectedTargets>,
    captions: Vec<String>,
) -> Result<Cell, NoMemory> {
    let cell = cell(step.shown(bands)?, step.picture.size(), captions)?;
    cell.with(targets, step.drawn.flat_op + 1)
}

/// Creates a cell with the image, or its plot, at display size, because a sheet has many cells.
fn cell(shown: ShownLevels, size: Size, captions: Vec<String>) -> Result<Cell, NoMemory> {
    let ShownLevels { pixels, channels, is_stretched } = shown;
    let pixels = &*pixels;
    let plotted =
        |pixels| Cell { pixels, size: Size::from(CELL), channels: 3, captions: captions.clone() };
    match channels {
        1 if plot::is_signal(size) => return Ok(plotted(plot::waveforms(pixels, size, CELL)?)),
        1 if is_stretched => return Ok(plotted(plot::color_map(pixels, size, CELL)?)),
        _ => {}
    }
    let picture = ImageView::packed_channels(pixels, size, channels);
    if let Some((pixels, size)) = picture.and_then(|picture| fitted(picture, CELL)) {
        return Ok(Cell { pixels, size, channels, captions });
    }
    let mut copy = memory::with_capacity(pixels.len(), "an image")?;
    copy.extend_from_slice(pixels);
    Ok(Cell { pixels: copy, size, channels, captions })
}

/// Draws all cells.
fn drawn(rows: &[Vec<Cell>]) -> Result<Canvas, NoMemory> {
    let captions = |cell: &Cell| -> Vec<String> {
        let lines = cell.captions.iter().flat_map(|caption| wrapped(caption, CELL));
        lines.take(MOST_LINES).collect()
    };
    let lines: Vec<Vec<Vec<String>>> =
        rows.iter().map(|row| row.iter().map(captions).collect()).collect();
    let tallest = |row: &Vec<Vec<String>>| row.iter().map(Vec::len).max().unwrap_or(0) as u32;
    let height = |row: &Vec<Vec<String>>| CELL + tallest(row) * LINE + 2 * GAP;
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0) as u32;
    let size = Size::new(
        2 * MARGIN + lines.iter().map(height).sum::<u32>(),
        2 * MARGIN + columns * (CELL + GAP),
    );
    let mut canvas = Canvas::new(size, BACKGROUND)?;
    let mut top = MARGIN;
    for (row, lines) in rows.iter().zip(&lines) {
        for ((cell, lines), column) in row.iter().zip(lines).zip(0..) {
            let left = MARGIN + column * (CELL + GAP);
            canvas.square(top, left, CELL, CELL_COLOUR);
            let picture = ImageView::packed_channels(&cell.pixels, cell.size, cell.channels);
            if let Some(view) = picture {
                canvas.paste_fitted(top, left, CELL, view);
            }
            for (line, index) in lines.iter().zip(0..) {
                canvas.text(top + CELL + LINE * index + LINE / 2, left, line, TEXT);
            }
        }
        top += height(lines);
    }
    Ok(canvas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_spread_over_the_dataset() {
        let spread = |count, all| positions(count, all).collect::<Vec<_>>();
        assert_eq!(spread(3, 9), [0, 3, 6]);
        assert_eq!(spread(4, 10), [0, 2, 5, 7]);
        assert_eq!(spread(5, 2), [0, 1]);
        assert!(spread(5, 0).is_empty());
    }
}
