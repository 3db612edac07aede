//! `fuseloop dump`: writes batches as `.npy` files, to compare them with those of any other program.

use super::npy;
use super::number;
use super::output::{self, Existing};
use super::print::{bytes, counted, say};
use super::problem::Problem;
use super::source::{FieldOps, OnRank, Pipeline};
use fuseloop::Batch;
use fuseloop::batch::{TensorRows, TensorSpec};
use fuseloop::internals::source::Escaped;
use fuseloop::ops::DType;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Write batches as .npy files, one per tensor: image_0000.npy, label_0000.npy, image_0001.npy ...
///
/// NumPy has no bf16: such tensors are stored as their 16 bits (`<u2`). For a ragged tensor, the values of
/// all samples are stored one after the other. Lists are not supported.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop dump train.beton --out batches --batches 2 --seed 42
  fuseloop dump train.beton --out batches --pipeline imagenet.toml --epoch 5
  fuseloop dump train.beton --out rank1 --rank 1 --world-size 4
  python3 -c 'import numpy; print(numpy.load(\"batches/image_0000.npy\").shape)'")]
pub(super) struct Args {
    /// Dataset: any kind that `fuseloop info` shows
    #[arg(value_name = "DATASET")]
    file: PathBuf,
    #[command(flatten)]
    pipeline: Pipeline,
    #[command(flatten)]
    on_rank: OnRank,
    /// Number of batches
    #[arg(long, short = 'n', default_value_t = 1, value_parser = number::at_least_one::<u64>)]
    batches: u64,
    /// Epoch to write
    #[arg(long, default_value_t = 0)]
    epoch: u32,
    /// Output folder (created if missing)
    #[arg(long, short, value_parser = output::local())]
    out: PathBuf,
    /// Replace existing files
    #[arg(long)]
    overwrite: bool,
}

pub(super) fn run(args: &Args) -> Result<(), Problem> {
    let setup = args.pipeline.setup()?.of_rank(&args.on_rank)?;
    let loader = setup.builder(&args.file)?.build()?;
    setup.check_output(&args.out, &args.file, &loader)?;
    // The epoch comes first, because a pipeline may have other shapes in each.
    let epoch = loader.epoch(args.epoch)?;
    let tensors = loader.tensors();
    let batches = args.batches.min(loader.len());
    if !args.overwrite {
        refuse_existing(&args.out, &tensors, 0..batches)?;
    }
    let (mut files, mut total) = (0, 0);
    for (number, batch) in (0..batches).zip(epoch) {
        let batch = batch?;
        // The folder is created when there is something to write, so that a damaged sample leaves none.
        fs::create_dir_all(&args.out).map_err(Problem::io(&args.out))?;
        total += write_tensors(&args.out, &batch, &tensors, (number, args.overwrite))?;
        files += tensors.len() as u64;
    }
    let mut text = summary(args, &setup.ops, &tensors, [batches, files, total]);
    if let Some(line) = setup.damaged_line(&args.file, &loader) {
        text.push_str(&format!("{line}\n"));
    }
    say(&text)
}

fn summary(
    args: &Args,
    ops: &FieldOps,
    tensors: &[TensorSpec],
    [batches, files, total]: [u64; 3],
) -> String {
    let out = args.out.display().to_string();
    let mut text = format!(
        "{}: {} of {} in {}, {}\n",
        Escaped(&out),
        counted(batches, "batch"),
        ops,
        counted(files, "file"),
        bytes(total),
    );
    for (index, spec) in tensors.iter().enumerate() {
        let note = if spec.dtype == DType::Bf16 { ", stored as its 16 bits (<u2)" } else { "" };
        let name = file_name(index, spec, 0);
        text.push_str(&format!("  {name}  {} {:?} a sample{note}\n", spec.dtype, spec.shape));
    }
    if batches < args.batches {
        text.push_str("the epoch has no more batches\n");
    }
    text
}

/// Returns the name of a tensor's file.
fn file_name(index: usize, spec: &TensorSpec, batch: u64) -> String {
    format!("{}_{batch:04}.npy", plain_name(index, &spec.name))
}

/// Returns the name of a field for its files. Field names are untrusted: a name that is not words of
/// ASCII letters, digits and `_`, joined by dots (`image.size`), could lead out of the folder and is
/// replaced by the field's index.
pub(super) fn plain_name(index: usize, name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.split('.').all(|word| !word.is_empty() && word.chars().all(is_plain)) {
        name.to_owned()
    } else {
        format!("field-{index}")
    }
}

/// Refuses existing files before anything is written, so that no dump is half old and half new.
pub(super) fn refuse_existing(
    out: &Path,
    tensors: &[TensorSpec],
    batches: Range<u64>,
) -> Result<(), Problem> {
    for batch in batches {
        for (index, spec) in tensors.iter().enumerate() {
            let path = out.join(file_name(index, spec, batch));
            if path.symlink_metadata().is_ok() {
                return Err(Problem::Exists { path });
            }
        }
    }
    Ok(())
}

/// Writes a batch to the files of batch `number`. Returns their bytes.
pub(super) fn write_tensors(
    out: &Path,
    batch: &Batch,
    tensors: &[TensorSpec],
    (number, overwrite): (u64, bool),
) -> Result<u64, Problem> {
    let mut total = 0;
    for (index, spec) in tensors.iter().enumerate() {
        total += write_tensor(&out.join(file_name(index, spec, number)), batch, spec, overwrite)?;
    }
    Ok(total)
}

fn write_tensor(
    path: &Path,
    batch: &Batch,
    spec: &TensorSpec,
    overwrite: bool,
) -> Result<u64, Problem> {
    let elements = batch.bytes(&spec.name)?;
    let mut shape = vec![batch.len()];
    shape.extend(&spec.shape);
    if let TensorRows::Padded { .. } = spec.rows {
        shape = batch.shape(&spec.name)?;
    } else if spec.rows != TensorRows::Even {
        shape.remove(0);
        let item = shape[1..].iter().product::<usize>() * spec.dtype.bytes();
        shape[0] = elements.len() / item.max(1);
    }
    let header = npy::header(spec.dtype, &shape);
    let existing = if overwrite { Existing::Replace } else { Existing::Keep };
    output::write_bytes(path, existing, &[&header, elements])?;
    Ok((header.len() + elements.len()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_field_name_stays_in_the_folder() {
        let spec = |name: &str| TensorSpec::new(name, DType::U8, []);
        assert_eq!(file_name(0, &spec("image"), 7), "image_0007.npy");
        assert_eq!(file_name(1, &spec("image.size"), 0), "image.size_0000.npy");
        for name in ["../../etc/x", "a/b", "", "\u{1b}[31m", "a b", "..", ".x", "x.", "a..b"] {
            assert_eq!(file_name(3, &spec(name), 0), "field-3_0000.npy");
        }
    }
}
