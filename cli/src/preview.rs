//! `fuseloop preview`: shows what the ops do to some samples, as one PNG or JPEG.
//!
//! ```text
//! stored   epoch 0  epoch 1  ..        or with --each-op:   stored   op      op      ..
//! [     ]  [     ]  [     ]                                 [     ]  [    ]  [    ]
//! sample   what was drawn                                   sample   what was drawn
//! ```
//!
//! Values after `Normalize` are shown as the levels they had before, by the inverse of the
//! normalization.

use super::canvas::{Canvas, Colour, LINE, PictureFormat, fitted, wrapped};
use super::pick::{image_field, labels, spread};
use super::print::{counted, say};
use super::problem::Problem;
use super::source::Pipeline;
use fuseloop::Loader;
use fuseloop::internals::jit::{EvaluatedStep, evaluate_steps};
use fuseloop::internals::loader::LoaderExt as _;
use fuseloop::internals::loader::{Inspected, Inspector};
use fuseloop::internals::plan::{DrawnOp, OpOutcome, RunOpsError};
use fuseloop::internals::source::Escaped;
use fuseloop::ops::Size;
use fuseloop::ops::internals::memory::NoMemory;
use fuseloop::ops::internals::{ImageView, memory};
use std::path::PathBuf;

/// Show what the ops make of some samples: a contact sheet, with what was drawn under each picture.
///
/// Each sample is a row: the stored picture, then what several epochs make of it, or with
/// --each-op the picture after every op of one epoch. Values after Normalize are shown as the
/// levels they were.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop preview train.beton --out sheet.png
  fuseloop preview train.beton --workload W3 -n 8 -m 6 --seed 42
  fuseloop preview train.beton --pipeline imagenet.toml --each-op --epoch 5")]
pub(super) struct Args {
    /// The file.
    file: PathBuf,
    #[command(flatten)]
    pipeline: Pipeline,
    /// Samples, spread over the file.
    #[arg(long, short = 'n', default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=32))]
    samples: u64,
    /// Epochs of each sample.
    #[arg(long, short = 'm', default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=16))]
    draws: u32,
    /// Show the picture after every op instead, for one epoch.
    #[arg(long, conflicts_with = "draws")]
    each_op: bool,
    /// The first epoch.
    #[arg(long, default_value_t = 0)]
    epoch: u32,
    /// The image field; the first one if not given.
    #[arg(long)]
    field: Option<String>,
    /// Where the sheet is saved, as a .png or a .jpg; a file that is there is replaced.
    #[arg(long, short, default_value = "preview.png")]
    out: PathBuf,
}

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

/// An image and the text under it, one paragraph per entry.
struct Cell {
    pixels: Vec<u8>,
    size: Size,
    captions: Vec<String>,
}

pub(super) fn run(args: &Args) -> Result<(), Problem> {
    PictureFormat::of(&args.out)?;
    let setup = args.pipeline.setup()?;
    let loader = setup.builder(&args.file)?.build()?;
    let field = image_field(&loader, &args.file, args.field.as_deref())?;
    let samples = spread(args.samples, loader.source().len());
    let mut rows: Vec<Vec<Cell>> = vec![];
    let epochs = if args.each_op { 1 } else { args.draws };
    for epoch in (args.epoch..=u32::MAX).take(epochs as usize) {
        let Some(mut inspector) = loader.inspect(&field, epoch)? else { continue };
        for (index, sample) in samples.iter().enumerate() {
            let opened = inspector.sample(*sample)?;
            if rows.len() == index {
                rows.push(vec![stored(&loader, *sample, &opened)?]);
            }
            rows[index].extend(cells(args, &inspector, &opened, epoch)?);
        }
    }
    let cells = rows.len() * rows.iter().map(Vec::len).max().unwrap_or(0);
    if cells > MOST_CELLS {
        return Err(Problem::Sheet { cells, most: MOST_CELLS });
    }
    sheet(&rows)?.save(&args.out)?;
    let (count, columns) = (counted(samples.len() as u64, "sample"), columns(args, epochs));
    let out = args.out.display().to_string();
    say(&format!("saved {}: {count} of {}, {columns}\n", Escaped(&out), setup.ops))
}

fn columns(args: &Args, epochs: u32) -> String {
    match (args.each_op, epochs) {
        (true, _) => format!("each after every op of epoch {}", args.epoch),
        (false, 1) => format!("each as epoch {} makes it", args.epoch),
        _ => format!(
            "each as epochs {} to {} make it",
            args.epoch,
            args.epoch.saturating_add(epochs - 1)
        ),
    }
}

/// Returns the cell of the stored image.
fn stored(loader: &Loader, sample: u64, opened: &Inspected) -> Result<Cell, NoMemory> {
    let size = opened.draws.source;
    let mut captions = vec![format!("sample {sample}, {size}")];
    captions.extend(labels(loader, sample));
    cell(&opened.pixels, size, captions)
}

/// Returns the cells of one epoch.
fn cells(
    args: &Args,
    inspector: &Inspector,
    opened: &Inspected,
    epoch: u32,
) -> Result<Vec<Cell>, RunOpsError> {
    let steps = evaluate_steps(inspector.kernel().plan(), &opened.picture(), &opened.draws)?;
    if args.each_op {
        let steps = steps.iter().filter(|step| step.drawn.outcome != OpOutcome::NotChosen);
        let cells = steps.map(|step| after(step, vec![step.drawn.to_string()]));
        return Ok(cells.collect::<Result<_, _>>()?);
    }
    let mut captions = vec![format!("epoch {epoch}")];
    let says_something =
        |drawn: &&DrawnOp| drawn.outcome == OpOutcome::Runs && !drawn.words.is_empty();
    captions.extend(
        steps.iter().map(|step| &step.drawn).filter(says_something).map(DrawnOp::to_string),
    );
    Ok(vec![match steps.last() {
        Some(last) => after(last, captions)?,
        None => cell(&opened.pixels, opened.draws.source, captions)?,
    }])
}

/// Returns the cell of the image after an op.
fn after(step: &EvaluatedStep, captions: Vec<String>) -> Result<Cell, NoMemory> {
    cell(&step.levels()?, step.picture.size(), captions)
}

/// Creates a cell with the image at display size, because a sheet has many cells.
fn cell(pixels: &[u8], size: Size, captions: Vec<String>) -> Result<Cell, NoMemory> {
    if let Some((pixels, size)) = ImageView::packed(pixels, size).and_then(|p| fitted(p, CELL)) {
        return Ok(Cell { pixels, size, captions });
    }
    let mut copy = memory::with_capacity(pixels.len(), "an image")?;
    copy.extend_from_slice(pixels);
    Ok(Cell { pixels: copy, size, captions })
}

/// Draws all cells.
fn sheet(rows: &[Vec<Cell>]) -> Result<Canvas, NoMemory> {
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
            if let Some(view) = ImageView::packed(&cell.pixels, cell.size) {
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
