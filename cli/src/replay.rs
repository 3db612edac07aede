//! `fuseloop replay`: reproduces one sample of one epoch, bit for bit, and shows how it was computed; or a batch of a
//! rank after a cursor.

use super::dump::{self, plain_name};
use super::npy;
use super::number;
use super::output::{self, Existing};
use super::pick::image_fields;
use super::picture::save_png;
use super::print::{counted, say};
use super::problem::Problem;
use super::source::{OnRank, Pipeline};
use fuseloop::internals::jit::{EvaluatedStep, ShownLevels, try_evaluate, unsupported};
use fuseloop::internals::loader::{Inspected, InspectedTargets, Inspector};
use fuseloop::internals::plan::ImagePlan;
use fuseloop::internals::preview::draw_targets;
use fuseloop::internals::source::Escaped;
use fuseloop::ops::Size;
use fuseloop::ops::author::Type;
use fuseloop::ops::internals::{ImageView, memory};
use fuseloop::{Batch, Cursor, Loader};
use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Reproduce a sample or a batch of any epoch bit for bit
///
/// With `--sample`, shows the effect of each op. A sample depends only on the seed, the epoch and its index in the
/// dataset, not on its batch, the order or the number of workers. The boxes and keypoints of its objects are printed
/// before and after the ops: those that the pipeline file declares or, without one, those that the dataset describes.
///
/// With `--cursor`, rebuilds a batch of a rank and prints its samples and its fingerprint, as a log of fingerprints has them.
/// The dataset, the ops, the order and the batch size must be those of the run; a cursor of others is refused.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop replay train.beton --seed 42 --epoch 7 --sample 1234
  fuseloop replay train.beton --seed 42 --epoch 7 --sample 1234 --out replayed
  fuseloop replay train.beton --pipeline imagenet.toml --epoch 7 --sample 1234 --out replayed
  fuseloop replay coco/annotations/instances_val2017.json --sample 3 --out objects
  fuseloop replay train.beton -p imagenet.toml -b 256 --cursor cursor.json          # the next batch
  fuseloop replay train.beton -p imagenet.toml -b 256 --cursor cursor.json --batch 7 --rank 1 --world-size 4 --out batch")]
pub(super) struct Args {
    /// Dataset: any kind that `fuseloop info` shows
    #[arg(value_name = "DATASET")]
    file: PathBuf,
    #[command(flatten)]
    pipeline: Pipeline,
    /// Index of the sample in the dataset, starting at 0
    #[arg(
        long,
        value_parser = number::whole::<u64>,
        required_unless_present = "cursor",
        conflicts_with_all = ["cursor", "batch", "rank", "world_size"]
    )]
    sample: Option<u64>,
    /// Epoch of the sample
    #[arg(long, default_value_t = 0, conflicts_with = "cursor")]
    epoch: u32,
    /// Position to count batches from: a cursor, or a file that holds one or a saved `state_dict` (JSON)
    #[arg(long, value_name = "JSON|FILE")]
    cursor: Option<String>,
    /// Number of batches between the cursor and the batch [default: 0]
    #[arg(long, value_name = "N", requires = "cursor", value_parser = number::whole::<u64>)]
    batch: Option<u64>,
    #[command(flatten)]
    on_rank: OnRank,
    /// Output folder (created if missing). It gets the image after every op (.png) and the output (.npy).
    /// Boxes, keypoints and masks are drawn over a copy of each image, NAME_targets.png; targets.json lists
    /// the objects. Of a batch, it gets every output, NAME_BATCH.npy.
    #[arg(long, short, value_name = "DIR", value_parser = output::local())]
    out: Option<PathBuf>,
    /// Replace existing files
    #[arg(long)]
    overwrite: bool,
}

/// One image field of the sample.
struct Replayed {
    /// The stem of the names of the field's files.
    name: String,
    inspected: Inspected,
    steps: Vec<EvaluatedStep>,
    targets: Option<InspectedTargets>,
}

pub(super) fn run(args: &Args) -> Result<(), Problem> {
    match (&args.cursor, args.sample) {
        (Some(cursor), _) => replay_batch(args, &parsed(cursor)?),
        (None, sample) => replay_sample(args, sample.unwrap_or_default()),
    }
}

/// The maximum number of bytes of a file with a cursor.
const MAX_CURSOR_FILE: u64 = 1 << 16;

/// Parses a cursor, or reads it from the file of this name.
fn parsed(cursor: &str) -> Result<Cursor, Problem> {
    if cursor.trim_start().starts_with('{') {
        return Ok(in_state(cursor).parse()?);
    }
    let path = Path::new(cursor);
    let mut text = String::new();
    let refused = |error: &dyn fmt::Display| Problem::Refused {
        message: format!("{cursor}: {error}"),
        help: "expected a cursor, which begins with `{`, or a file with one or with Python's `state_dict` as JSON",
    };
    let file = File::open(path).map_err(|error| refused(&error))?;
    let read = file.take(MAX_CURSOR_FILE).read_to_string(&mut text);
    read.map_err(|error| refused(&error))?;
    in_state(&text).trim().parse().map_err(|error: fuseloop::Error| refused(&error))
}

/// Returns the cursor of a state of the Python package, or the text itself.
fn in_state(text: &str) -> String {
    let state = serde_json::from_str::<serde_json::Value>(text).unwrap_or_default();
    state["cursor"].as_str().unwrap_or(text).to_owned()
}

/// Rebuilds the batch that is `--batch` batches after a cursor.
fn replay_batch(args: &Args, cursor: &Cursor) -> Result<(), Problem> {
    let setup = args.pipeline.setup()?.seeded(cursor.seed).of_rank(&args.on_rank)?;
    let loader = setup.builder(&args.file)?.build()?;
    if let Some(out) = &args.out {
        setup.check_output(out, &args.file, &loader)?;
    }
    let (number, mut batches) = (args.batch.unwrap_or_default(), loader.resume(cursor)?);
    let left = batches.remaining();
    batches.skip_batches(number)?;
    let Some(batch) = batches.next() else {
        return Err(Problem::Refused {
            message: format!(
                "no batch {number} after the cursor: {} left in epoch {}",
                counted(left, "batch"),
                cursor.epoch
            ),
            help: "`--batch 0` is the first batch after the cursor",
        });
    };
    let batch = batch?;
    let (file, rank) = (args.file.display().to_string(), setup.rank());
    let rank = rank.map_or_else(String::new, |(rank, world)| format!(", rank {rank} of {world}"));
    let mut text = String::new();
    let _ = writeln!(text, "{}: {}, seed {}{rank}", Escaped(&file), setup.ops, cursor.seed);
    describe_batch(&mut text, &batch);
    if let Some(out) = &args.out {
        let (tensors, index) = (loader.tensors(), batch.index());
        if !args.overwrite {
            dump::refuse_existing(out, &tensors, index..index + 1)?;
        }
        fs::create_dir_all(out).map_err(Problem::io(out))?;
        dump::write_tensors(out, &batch, &tensors, (index, args.overwrite))?;
        let out = out.display().to_string();
        let _ =
            writeln!(text, "saved {} in {}", counted(tensors.len() as u64, "file"), Escaped(&out));
    }
    say(&text)
}

/// Adds the position, the fingerprint and the samples of a batch.
fn describe_batch(text: &mut String, batch: &Batch) {
    let (epoch, index, samples) = (batch.epoch().0, batch.index(), batch.len() as u64);
    let _ = writeln!(text, "epoch {epoch}, batch {index}, {}", counted(samples, "sample"));
    let _ = writeln!(text, "fingerprint {:016x}", batch.fingerprint());
    let ids: String = batch.ids().iter().map(|id| format!(" {id}")).collect();
    let _ = writeln!(text, "samples{ids}");
    for (what, visits) in [("left out", batch.skipped()), ("replaced", batch.replaced())] {
        if !visits.is_empty() {
            let ids: String = visits.iter().map(|visit| format!(" {}", visit.sample)).collect();
            let _ = writeln!(text, "damaged and {what}:{ids}");
        }
    }
}

fn replay_sample(args: &Args, sample: u64) -> Result<(), Problem> {
    let setup = args.pipeline.setup()?.with_targets();
    let loader = setup.builder(&args.file)?.build()?;
    if let Some(out) = &args.out {
        setup.check_output(out, &args.file, &loader)?;
    }
    let (seed, file) = (setup.seed(), args.file.display().to_string());
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}: {}, seed {seed}, epoch {}, sample {}",
        Escaped(&file),
        setup.ops,
        args.epoch,
        sample
    );
    let (mut files, mut targets) = (vec![], vec![]);
    for field in image_fields(&loader, &args.file)? {
        let Some(mut inspector) = loader.inspect(&field, args.epoch)? else { continue };
        if inspector.has_frames() {
            return Err(Problem::Refused {
                message: format!(
                    "{}: `--sample` shows an image, and a sample is a clip",
                    Escaped(&file)
                ),
                help: "`--cursor` and `--batch` write a batch of clips; `fuseloop preview --each-op` shows a frame after each op",
            });
        }
        let replayed = replay(&loader, &mut inspector, &field, sample)?;
        let plan = replayed.inspected.kernel.clone();
        let plan = plan.plan();
        let _ = writeln!(text, "field {}:", Escaped(&field));
        describe(&mut text, plan, &replayed)?;
        targets.extend(replayed.targets.as_ref().map(|targets| json_file(&replayed.name, targets)));
        files.extend(all_files(plan, replayed)?);
    }
    if let [(name, _)] = &mut targets[..] {
        *name = TARGETS.to_owned();
    }
    files.append(&mut targets);
    for label in loader.labels(sample) {
        let _ = writeln!(text, "stored {label}");
    }
    if let Some(out) = &args.out {
        for (name, _) in files.iter().filter(|_| args.overwrite) {
            setup.check_output(&out.join(name), &args.file, &loader)?;
        }
        save(out, &files, args.overwrite)?;
        let out = out.display().to_string();
        let _ =
            writeln!(text, "saved {} in {}", counted(files.len() as u64, "file"), Escaped(&out));
    }
    say(&text)
}

fn replay(
    loader: &Loader,
    inspector: &mut Inspector,
    field: &str,
    sample: u64,
) -> Result<Replayed, Problem> {
    let inspected = inspector.sample(sample)?;
    let targets = inspector.targets(&inspected)?;
    let steps = inspector.steps(&inspected)?;
    let index = loader.source().field_index(field).unwrap_or(0);
    Ok(Replayed { name: plain_name(index, field), inspected, steps, targets })
}

/// Adds what was drawn, op by op.
fn describe(text: &mut String, plan: &ImagePlan, replayed: &Replayed) -> Result<(), Problem> {
    let Inspected { draws, scaled, wanted, row, .. } = &replayed.inspected;
    let (bottom, right) = (wanted.top + wanted.height, wanted.left + wanted.width);
    let scale = scaled.as_ref().map(|scaled| format!(" at {},", scaled.source));
    let _ = writeln!(
        text,
        "  stored {}, decoded{} rows {}..{bottom}, columns {}..{right}",
        draws.source,
        scale.unwrap_or_default(),
        wanted.top,
        wanted.left
    );
    for step in &replayed.steps {
        let line = format!("  {:<24} {}", step.drawn.name, step.drawn.words);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let lines = replayed.targets.iter().flat_map(InspectedTargets::describe);
    for (line, number) in lines.zip(0..) {
        let indent = if number == 0 { "  " } else { "    " };
        let _ = writeln!(text, "{indent}{line}");
    }
    let inspected = &replayed.inspected;
    let evaluated = try_evaluate(plan, &inspected.picture(), inspected.run_draws())?;
    let agree = match (*row == evaluated, unsupported()) {
        (true, None) => "compiled and evaluated are the same bits".to_owned(),
        (true, Some(reason)) => format!("evaluated, not compiled ({reason})"),
        (false, _) => "compiled and evaluated DIFFER: this is a bug, please report it".to_owned(),
    };
    let _ = writeln!(text, "  output: {}; {agree}", Type::Image(plan.output()));
    Ok(())
}

/// The name of the file with the objects of the only image that has targets.
const TARGETS: &str = "targets.json";

/// Returns the file with the objects of an image.
fn json_file(name: &str, targets: &InspectedTargets) -> (String, Content) {
    let text = format!("{:#}\n", targets.to_json());
    (format!("{name}_{TARGETS}"), Content::Bytes(text.into_bytes()))
}

/// The content of a file to write.
enum Content {
    Picture(Vec<u8>, Size),
    Bytes(Vec<u8>),
}

/// Returns the files of a field: the image after each op, and the output.
fn all_files(plan: &ImagePlan, replayed: Replayed) -> Result<Vec<(String, Content)>, Problem> {
    let Replayed { name, inspected, steps, targets } = replayed;
    let mut files = vec![];
    let mut add = |stem: String, shown: ShownLevels, size: Size, step: usize| {
        let step = targets.as_ref().and_then(|targets| Some((targets, targets.steps().get(step)?)));
        let view = ImageView::packed_channels(&shown.pixels, size, shown.channels);
        if let (Some((targets, step)), Some(view)) = (step, view) {
            let drawn = draw_targets(view, targets, step)?;
            let content = Content::Picture(drawn.rgb().to_vec(), size);
            files.push((format!("{stem}_targets.png"), content));
        }
        files.push((format!("{stem}.png"), Content::Picture(shown.pixels, size)));
        Ok::<_, Problem>(())
    };
    add(format!("{name}_00_decoded"), inspected.shown(&[])?, inspected.run_draws().source, 0)?;
    for (step, number) in steps.iter().zip(1..) {
        let stem = format!("{name}_{number:02}_{}", plain_name(number, step.drawn.name));
        add(stem, step.shown(&[])?, step.picture.size(), step.drawn.flat_op + 1)?;
    }
    let mut output = npy::header(plan.dtype(), &plan.shape_of(inspected.draws.output));
    memory::reserve(&mut output, inspected.row.len(), "an output")?;
    output.extend(&inspected.row);
    files.push((format!("{name}.npy"), Content::Bytes(output)));
    Ok(files)
}

/// Saves all files, or none if one exists and may not be overwritten.
fn save(out: &Path, files: &[(String, Content)], overwrite: bool) -> Result<(), Problem> {
    fs::create_dir_all(out).map_err(Problem::io(out))?;
    let mut paths = files.iter().map(|(name, _)| out.join(name));
    if !overwrite && let Some(path) = paths.find(|path| path.symlink_metadata().is_ok()) {
        return Err(Problem::Exists { path });
    }
    for (name, content) in files {
        let path = out.join(name);
        match content {
            Content::Picture(pixels, size) => save_png(&path, pixels, *size)?,
            Content::Bytes(bytes) => output::write_bytes(&path, Existing::Replace, &[bytes])?,
        }
    }
    Ok(())
}
